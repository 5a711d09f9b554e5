//! Network ports in the log of FreeBSD's kernel, whose lines have no time.

use super::super::health::Health;
use super::super::{Found, Text};
use super::MOST;
use peerlane_machine::fact::{Area, Grade};

const TOOL: &str = "FreeBSD's kernel log";

/// What lines about links have in common.
pub(super) const HALLMARK: &str = ": link state changed to ";

/// Ports with their last states, and the lines.
#[derive(Default)]
pub(super) struct Ports(Vec<(String, bool, usize)>);

impl Ports {
    /// `mce0: link state changed to UP`.
    pub(super) fn read(&mut self, i: usize, line: &str) {
        let Some((name, state)) = line.trim().split_once(HALLMARK) else { return };
        let is_port = name.len() <= 16
            && name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.ends_with(|c: char| c.is_ascii_digit())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if is_port && matches!(state, "UP" | "DOWN") && self.0.len() < MOST {
            self.0.retain(|(known, ..)| *known != name);
            self.0.push((name.to_owned(), state == "UP", i));
        }
    }

    /// The last state of a port counts; a port that is down at the end of a log may not be configured yet.
    pub(super) fn push(self, text: &Text, found: &mut Found) {
        let mut health = Health::default();
        for (name, is_up, i) in self.0 {
            let bad = (!is_up).then_some(Grade::Note);
            health.judge(Area::NetworkLink, bad, Some(&name), "link state", if is_up { "UP" } else { "DOWN" }, i);
        }
        health.push(text, TOOL, found);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::scanned;
    use super::super::scan;
    use super::*;
    use peerlane_machine::fact::Fact;

    #[test]
    fn the_last_state_counts() {
        let found = scanned(
            scan,
            "mce0: link state changed to DOWN\nmce1: link state changed to DOWN\nmce0: link state changed to UP\n",
        );
        let Fact::Health(report) = &found.evidence[0].fact else { panic!("{found:#?}") };
        let down: Vec<_> = report.troubles.iter().map(|t| (t.part.as_deref(), t.grade)).collect();
        assert_eq!((report.sound, down), (1, vec![(Some("mce1"), Grade::Note)]));
        assert_eq!(scanned(scan, "the link: link state changed to DOWN\n"), Found::default(), "prose");
    }
}
