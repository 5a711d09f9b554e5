//! `sensors` of lm-sensors: chips, each a name, an `Adapter:` line and readings.

use super::words::{key_value, number_and_unit};
use super::{Fact, Found, SensorReading, Text};

const TOOL: &str = "sensors";

pub(super) fn scan(text: &Text, found: &mut Found) {
    let mut readings = Vec::new();
    let mut lines: Option<(usize, usize)> = None;
    let mut i = 0;
    while i < text.len() {
        let chip = text.line(i).trim();
        if is_chip(chip) && text.line(i + 1).trim_start().starts_with("Adapter:") {
            let last = read_chip(text, i, chip, &mut readings);
            lines = Some((lines.map_or(i, |(first, _)| first), last));
            i = last + 1;
            continue;
        }
        // chips are parted by empty lines; anything else ends the output
        if !chip.is_empty() {
            finish(text, &mut lines, &mut readings, found);
        }
        i += 1;
    }
    finish(text, &mut lines, &mut readings, found);
}

fn finish(text: &Text, lines: &mut Option<(usize, usize)>, readings: &mut Vec<SensorReading>, found: &mut Found) {
    let readings = std::mem::take(readings);
    if let Some((first, last)) = lines.take().filter(|_| !readings.is_empty()) {
        found.push(text, TOOL, text.numbers(first, last), Fact::Sensors(readings));
    }
}

/// `coretemp-isa-0000`.
fn is_chip(line: &str) -> bool {
    line.contains('-') && line.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
}

/// Reads the lines below a chip's name at line `first`; returns its last line.
fn read_chip(text: &Text, first: usize, chip: &str, readings: &mut Vec<SensorReading>) -> usize {
    let mut last = first + 1;
    for i in first + 2..text.len() {
        let line = text.line(i);
        // limits may stand on an indented line of their own
        let is_limit = line.trim_start().starts_with('(');
        let Some((label, value)) = key_value(line).filter(|_| !is_limit) else {
            if is_limit {
                last = i;
                continue;
            }
            break;
        };
        last = i;
        let value = value.split('(').next().unwrap_or_default();
        let Some((value, unit)) = number_and_unit(value) else { continue };
        let (value, unit) = match unit {
            "°C" | "C" | "\u{fffd}C" => (value, "°C"),
            "W" | "V" | "RPM" => (value, unit),
            "mV" => (value / 1000.0, "V"),
            "mW" => (value / 1000.0, "W"),
            _ => continue,
        };
        readings.push(SensorReading { chip: chip.to_owned(), label: label.to_owned(), value, unit: unit.to_owned() });
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chips_and_readings() {
        let text = "$ sensors\ncoretemp-isa-0000\nAdapter: ISA adapter\nPackage id 0:  +45.0°C  (high = +80.0°C, crit = +90.0°C)\n\
                    Core 0:        +40.5 C  (high = +80.0 C)\n\nnct6779-isa-0290\nAdapter: ISA adapter\n\
                    Vcore:     888.00 mV (min =  +0.00 V)\nfan1:      1200 RPM  (min = 0 RPM)\n\
                    temp3:       N/A\n                       (low  = +0.0°C)\npower1:     95.00 W\n\nnot-a-chip\nAdapt\n";
        let mut found = Found::default();
        scan(&Text::new("test", text.as_bytes()), &mut found);
        let [evidence] = &found.evidence[..] else { panic!("{found:?}") };
        assert_eq!(evidence.origin.lines, Some((2, 13)));
        let Fact::Sensors(readings) = &evidence.fact else { panic!() };
        let all: Vec<_> = readings.iter().map(|r| (r.label.as_str(), r.value, r.unit.as_str())).collect();
        assert_eq!(
            all,
            [
                ("Package id 0", 45.0, "°C"),
                ("Core 0", 40.5, "°C"),
                ("Vcore", 0.888, "V"),
                ("fan1", 1200.0, "RPM"),
                ("power1", 95.0, "W")
            ]
        );
        assert_eq!(readings[2].chip, "nct6779-isa-0290");
    }
}
