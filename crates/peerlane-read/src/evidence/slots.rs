//! `dmidecode -t slot`: slots that have fewer lanes than their connector.

use super::health::Health;
use super::words::key_value;
use super::{Found, Text};
use peerlane_machine::fact::{Area, Grade};

const TOOL: &str = "dmidecode -t slot";

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["System Slot Information", "Current Usage:"]) {
        return;
    }
    let mut slot = Slot::default();
    let mut health = Health::default();
    for (i, line) in text.iter() {
        let line = line.trim_start_matches('>').trim();
        match key_value(line) {
            Some(("Designation", name)) => {
                slot.end(&mut health);
                slot.name = Some(name.to_owned());
                slot.lines.push(i);
            }
            Some(("Type", kind)) if slot.name.is_some() => {
                slot.lanes = lanes(kind);
                slot.lines.push(i);
            }
            Some(("Current Usage", usage)) => {
                slot.is_used = usage == "In Use";
                slot.lines.push(i);
            }
            Some(("Bus Address", address)) => {
                slot.address = Some(address.to_owned());
                slot.lines.push(i);
            }
            _ => {}
        }
    }
    slot.end(&mut health);
    health.push(text, TOOL, found);
}

/// The lanes that a slot has, and those of its connector: `x8 PCI Express 4 x16`.
fn lanes(kind: &str) -> Option<(u8, u8)> {
    kind.contains("PCI Express").then_some(())?;
    let number = |word: &str| word.strip_prefix('x')?.parse::<u8>().ok();
    let mut all = kind.split_whitespace().filter_map(number);
    let wired = all.next()?;
    Some((wired, all.next().unwrap_or(wired)))
}

/// One slot.
#[derive(Default)]
struct Slot {
    name: Option<String>,
    lanes: Option<(u8, u8)>,
    is_used: bool,
    address: Option<String>,
    lines: Vec<usize>,
}

impl Slot {
    fn end(&mut self, health: &mut Health) {
        let slot = std::mem::take(self);
        let (Some(name), Some((wired, connector)), Some(line)) = (slot.name, slot.lanes, slot.lines.first()) else {
            return;
        };
        let part = slot
            .address
            .filter(|address| address.contains(':'))
            .map_or(name.clone(), |address| format!("{name} ({address})"));
        let bad = (wired < connector).then_some(if slot.is_used { Grade::Limit } else { Grade::Note });
        health.judge(
            Area::Setting,
            bad,
            Some(&part),
            "slot:",
            &format!("x{wired} lanes in an x{connector} connector"),
            *line,
        );
        slot.lines.iter().for_each(|line| health.used(*line));
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;
    use peerlane_machine::fact::Fact;

    #[test]
    fn slots_of_a_board() {
        let found = scanned(
            scan,
            "System Slot Information\n\tDesignation: SLOT1\n\tType: x16 PCI Express 4 x16\n\tCurrent Usage: In Use\n\tBus Address: 0000:41:00.0\n\n\
             System Slot Information\n\tDesignation: SLOT2\n\tType: x8 PCI Express 4 x16\n\tCurrent Usage: In Use\n\tBus Address: 0000:81:00.0\n",
        );
        let Fact::Health(report) = &found.evidence[0].fact else { panic!("{found:#?}") };
        let narrow = &report.troubles[0];
        assert_eq!(
            (report.sound, narrow.part.as_deref(), narrow.grade),
            (1, Some("SLOT2 (0000:81:00.0)"), Grade::Limit)
        );
    }

    #[test]
    fn other_kinds() {
        assert_eq!(scanned(scan, "Designation: M.2\nType: x4 M.2 Socket 3\nCurrent Usage: In Use\n"), Found::default());
    }
}
