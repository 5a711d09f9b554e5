//! `sensors` of lm-sensors: chips, each a name, an `Adapter:` line and readings, of which temperatures are kept.

use super::text::Span;
use super::words::{key_value, number_and_unit};
use super::{Fact, Found, SensorReading, Text};

const TOOL: &str = "sensors";

pub(super) fn scan(text: &Text, found: &mut Found) {
    let mut readings = Vec::new();
    let mut lines = Span::default();
    text.walk(|i| {
        let chip = text.line(i).trim();
        if is_chip(chip) && text.line(i + 1).trim_start().starts_with("Adapter:") {
            let last = read_chip(text, i, chip, &mut readings);
            lines.add(i);
            lines.add(last);
            return Some(last + 1);
        }
        // chips are parted by empty lines; anything else ends the output
        if !chip.is_empty() {
            finish(text, &mut lines, &mut readings, found);
        }
        None
    });
    finish(text, &mut lines, &mut readings, found);
}

fn finish(text: &Text, lines: &mut Span, readings: &mut Vec<SensorReading>, found: &mut Found) {
    let readings = std::mem::take(readings);
    if let Some(lines) = std::mem::take(lines).numbers(text) {
        found.push(text, TOOL, lines, Fact::Sensors(readings));
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
        // limits may stand on a separate indented line
        let is_limit = line.trim_start().starts_with('(');
        let Some((label, value)) = key_value(line).filter(|_| !is_limit) else {
            if is_limit {
                last = i;
                continue;
            }
            break;
        };
        last = i;
        // limits that have no room go on in the next line
        let next = Some(text.line(i + 1).trim_start()).filter(|l| l.starts_with('(')).unwrap_or_default();
        let (value, limits) = value.split_once('(').unwrap_or((value, ""));
        let Some(celsius) = celsius(value) else { continue };
        let limit = ["high", "crit"].into_iter().find_map(|name| named(limits, name).or_else(|| named(next, name)));
        readings.push(SensorReading { chip: chip.to_owned(), label: label.to_owned(), celsius, limit });
    }
    last
}

/// `+45.0°C`.
fn celsius(text: &str) -> Option<f64> {
    number_and_unit(text).filter(|(_, unit)| matches!(*unit, "°C" | "C" | "\u{fffd}C")).map(|(value, _)| value)
}

/// 80 of `high = +80.0°C, crit = +90.0°C)`; chips without a limit print 0.
fn named(limits: &str, name: &str) -> Option<f64> {
    let mut all = limits.split([',', '(', ')']).filter_map(|limit| limit.split_once('='));
    all.find(|(key, _)| key.trim() == name).and_then(|(_, value)| celsius(value)).filter(|limit| *limit > 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chips_and_readings() {
        let text = "$ sensors\ncoretemp-isa-0000\nAdapter: ISA adapter\nPackage id 0:  +45.0°C  (high = +80.0°C, crit = +90.0°C)\n\
                    Core 0:        +40.5 C  (high = +80.0 C)\n\nnct6779-isa-0290\nAdapter: ISA adapter\n\
                    Vcore:     888.00 mV (min =  +0.00 V)\nfan1:      1200 RPM  (min = 0 RPM)\n\
                    temp1:       +30.0°C  (high =  +0.0°C, hyst =  +0.0°C)  ALARM\n\
                    temp4:       +38.0°C  (low  = -273.1°C)\n                       (crit = +84.8°C)\npower1:     95.00 W\n\nnot-a-chip\nAdapt\n";
        let mut found = Found::default();
        scan(&Text::new("test", text.as_bytes()), &mut found);
        let [evidence] = &found.evidence[..] else { panic!("{found:?}") };
        assert_eq!(evidence.origin.lines, Some((2, 14)));
        let Fact::Sensors(readings) = &evidence.fact else { panic!() };
        let all: Vec<_> = readings.iter().map(|r| (r.label.as_str(), r.celsius, r.limit)).collect();
        let expected = [
            ("Package id 0", 45.0, Some(80.0)),
            ("Core 0", 40.5, Some(80.0)),
            ("temp1", 30.0, None),
            ("temp4", 38.0, Some(84.8)),
        ];
        assert_eq!(all, expected);
        assert_eq!(readings[2].chip, "nct6779-isa-0290");
    }
}
