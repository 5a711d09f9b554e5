//! Reading takes work in proportion to a text, counted in steps and so the same on any machine; `docs/security.md` has the times.

use std::path::Path;

use peerlane::evidence::{READERS, Text, scan_text};

use crate::common::some;
use crate::growing::FORMATS;

/// Bytes of the smaller text.
const SMALL: usize = 8_000;

/// How many times longer the other one is.
const LONGER: usize = 8;

/// More work than in proportion to the length: what n log n and the ends of tables add.
const MORE: f64 = 1.5;

#[test]
fn every_reader_takes_work_in_proportion_to_any_text() {
    for format in some(FORMATS, 3) {
        for (shape, of) in [("one", format.one(SMALL)), ("many", format.many(SMALL))] {
            let longer = if shape == "one" { format.one(LONGER * SMALL) } else { format.many(LONGER * SMALL) };
            let [short, long] = [of, longer].map(|text| Text::new("growing", text.as_bytes()));
            for reader in READERS {
                let [few, many] = [&short, &long].map(|text| reader.read(text).steps as f64);
                // what a reader gives up at once is no measure
                if many > 2.0 * long.len() as f64 {
                    assert!(
                        many <= MORE * LONGER as f64 * few,
                        "{} of '{}' ({shape}): {few} steps, then {many}",
                        reader.name,
                        format.name
                    );
                }
            }
        }
    }
}

#[test]
fn no_reader_spends_its_budget_on_any_format() {
    for format in some(FORMATS, 3) {
        for text in [format.one(40_000), format.many(40_000)] {
            let found = scan_text(&Text::new("growing", text.as_bytes()));
            let stopped: Vec<&str> =
                found.warnings.iter().map(|w| w.message.as_str()).filter(|m| m.contains("reading stopped")).collect();
            assert!(stopped.is_empty(), "{}: {stopped:?}", format.name);
        }
    }
}

#[test]
fn captures_take_few_passes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures");
    let mut most = (0.0, String::new());
    let mut open = vec![folder];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            if entry.path().is_dir() {
                open.push(entry.path());
                continue;
            }
            let text = Text::new("capture", &std::fs::read(entry.path()).unwrap());
            let pass = (text.len() + text.join(0, text.len()).len() / 64) as f64;
            for reader in READERS.iter().filter(|_| pass > 100.0) {
                let passes = reader.read(&text).steps as f64 / pass;
                if passes > most.0 {
                    most = (passes, format!("{} of {}", reader.name, entry.path().display()));
                }
            }
        }
    }
    println!("the most passes: {most:?}");
    assert!(most.0 > 1.0 && most.0 < 12.0, "{most:?}");
}
