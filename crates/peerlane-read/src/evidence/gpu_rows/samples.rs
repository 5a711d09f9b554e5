//! Samples of a GPU in the log of a script: `… running: 60s, GPU 96%, 40.37W, 63C, 2489MHz`. They show that it works, and how warm it is.

use super::super::health::Health;
use super::super::{Found, Text};
use peerlane_machine::fact::{Area, Grade};

const TOOL: &str = "samples of a GPU";

/// Fewer samples are no log.
const FEWEST: usize = 3;

/// Of the four figures so many make a sample.
const FIGURES: usize = 3;

/// Load in %, power in W, temperature in °C, clock in MHz.
const UNITS: [&[&str]; 4] = [&["%"], &["W"], &["C", "°C", "'C"], &["MHz", "mhz"]];

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["MHz"]) {
        return;
    }
    let mut ranges: [Option<(f64, f64)>; 4] = [None; 4];
    let mut lines = Vec::new();
    for (i, line) in text.iter() {
        let Some(sample) = sample(line) else { continue };
        lines.push(i);
        for (range, value) in ranges.iter_mut().zip(sample) {
            if let Some(value) = value {
                let (least, most) = range.unwrap_or((value, value));
                *range = Some((least.min(value), most.max(value)));
            }
        }
    }
    let [load, ..] = ranges;
    // a GPU that nothing uses shows nothing
    if lines.len() < FEWEST || load.is_some_and(|(_, most)| most <= 0.0) {
        return;
    }
    let mut health = Health::default();
    lines.iter().for_each(|line| health.sound(Area::Program, *line));
    let words = ["load", "power", "temperature", "clock"].iter().zip(["%", "W", "°C", "MHz"]).zip(ranges);
    let said: Vec<String> = words
        .filter_map(|((name, unit), range)| {
            let (least, most) = range?;
            Some(format!("{name} {least:.0} to {most:.0} {unit}"))
        })
        .collect();
    let value = format!("{} ({} samples)", said.join(", "), lines.len());
    health.trouble(Area::Program, Grade::Note, None, "a GPU while it runs:", &value, lines[0]);
    health.push(text, TOOL, found);
}

/// The figures of a line that names a GPU.
fn sample(line: &str) -> Option<[Option<f64>; 4]> {
    if line.len() > 400 {
        return None;
    }
    let (_, rest) = line.split_once("GPU").or_else(|| line.split_once("gpu"))?;
    let mut all = [None; 4];
    let mut words = rest.split([' ', ',', ';', '|', '/', '=', ':']).filter(|word| !word.is_empty()).peekable();
    while let Some(word) = words.next() {
        let end = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
        let (number, unit) = word.split_at(end);
        let Ok(number) = number.parse::<f64>() else { continue };
        // the unit may stand apart
        let unit = if unit.is_empty() { words.peek().copied().unwrap_or_default() } else { unit };
        let kind = UNITS.iter().position(|units| units.contains(&unit));
        if let Some(value) = kind.and_then(|kind| all.get_mut(kind)) {
            value.get_or_insert(number);
        }
    }
    (all.iter().flatten().count() >= FIGURES).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{health, scanned};
    use super::*;

    #[test]
    fn samples_of_a_script() {
        let line =
            |load: u32, watts: &str| format!("[08:13:09]   test running: 60s, GPU {load}%, {watts}W, 63C, 2489MHz\n");
        let report = health(scan, &(line(96, "40.4") + &line(96, "34.1") + &line(0, "12.0")));
        assert_eq!((report.area, report.sound), (Area::Program, 3));
        assert_eq!(
            report.troubles[0].value,
            "load 0 to 96 %, power 12 to 40 W, temperature 63 to 63 °C, clock 2489 to 2489 MHz (3 samples)"
        );
        assert_eq!(scanned(scan, &line(96, "40.4")), Found::default(), "one");
        assert_eq!(scanned(scan, &line(0, "9").repeat(5)), Found::default(), "idle");
        let apart = "gpu0 | 55 % | 120.5 W | 60 C | 1410 MHz\n".repeat(3);
        assert_eq!(health(scan, &apart).sound, 3);
    }

    #[test]
    fn other_lines() {
        assert_eq!(scanned(scan, &"GPU Max Clock rate: 1848 MHz (1.85 GHz)\n".repeat(5)), Found::default());
    }
}
