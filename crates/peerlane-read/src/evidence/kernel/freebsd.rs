//! Network ports in the log of FreeBSD's kernel, whose lines have no time.

use super::super::health::Health;
use super::super::{Found, Text};
use super::MOST;
use peerlane_machine::fact::{Area, Grade};

const TOOL: &str = "FreeBSD's kernel log";

/// `mce0: link state changed to UP`. The last state of a port counts; a port that is down at the end of a log may not be configured
/// yet.
pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&[": link state changed to "]) {
        return;
    }
    let mut ports: Vec<(&str, &str, usize)> = Vec::new();
    for (i, line) in text.iter() {
        let Some((name, state)) = line.trim().split_once(": link state changed to ") else { continue };
        let is_port = name.len() <= 16
            && name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.ends_with(|c: char| c.is_ascii_digit())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !is_port || !matches!(state, "UP" | "DOWN") || ports.len() >= MOST {
            continue;
        }
        ports.retain(|(known, ..)| *known != name);
        ports.push((name, state, i));
    }
    let mut health = Health::default();
    for (name, state, i) in ports {
        let bad = (state == "DOWN").then_some(Grade::Note);
        health.judge(Area::NetworkLink, bad, Some(name), "link state", state, i);
    }
    health.push(text, TOOL, found);
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::scanned;
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
        assert_eq!(scanned(scan, "the link: link state changed to DOWN\n"), Found::default());
    }
}
