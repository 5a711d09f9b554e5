//! `iblinkinfo` and `ibdiagnet`: all links of an InfiniBand network, and the summary of its checks.

use super::health::Health;
use super::{Found, Text};
use peerlane_machine::fact::{Area, Grade};

const LINKS: &str = "iblinkinfo";
const DIAGNOSIS: &str = "ibdiagnet";

pub(super) fn scan(text: &Text, found: &mut Found) {
    links(text, found);
    diagnosis(text, found);
}

/// `   12   17[  ] ==( 4X  53.125 Gbps Active/  LinkUp)==>   3    1[  ] "node1 mlx5_0" ( Could be 106.25 Gbps)`.
fn links(text: &Text, found: &mut Found) {
    if !text.holds(&["==("]) {
        return;
    }
    let (mut health, mut node): (Health, Option<String>) = (Health::default(), None);
    // how many links run at which width and rate, with the first line of each
    let mut rates: Vec<(String, u32, usize)> = Vec::new();
    for (i, line) in text.iter() {
        let line = line.trim_start_matches(['>', ' ', '\t']).trim_end();
        if let Some(name) = ["CA: ", "Switch: ", "Router: "].iter().find_map(|kind| line.strip_prefix(kind)) {
            let name = name.trim_end_matches(':');
            // a switch has its number before its name
            let named = name.split_once(' ').filter(|(number, _)| number.starts_with("0x"));
            node = Some(named.map_or(name, |(_, name)| name).to_owned());
            continue;
        }
        let Some((port, rest)) = line.split_once("==(") else { continue };
        let Some((state, partner)) = rest.split_once(")==>") else { continue };
        let number =
            port.trim_end().trim_end_matches(['[', ']', ' ']).split_whitespace().next_back().unwrap_or_default();
        let part = node.as_ref().map_or_else(|| format!("port {number}"), |node| format!("{node} port {number}"));
        let state = state.split_whitespace().collect::<Vec<_>>().join(" ");
        let could = partner.split_once("Could be ").map(|(_, more)| more.trim_end_matches([')', ' ']));
        if let Some(rate) = rate(&state) {
            let room = rates.len() < KINDS;
            match rates.iter_mut().find(|(known, ..)| *known == rate) {
                Some((_, count, _)) => *count += 1,
                None if room => rates.push((rate, 1, i)),
                None => {}
            }
        }
        let (bad, value) = match could {
            // lanes are lost by a fault of the cable; a lower speed may be all that one end can
            Some(more) if more.contains('X') => (Some(Grade::Fault), format!("{state}, could be {more}")),
            Some(more) => (Some(Grade::Limit), format!("{state}, could be {more}")),
            None if state.contains("Active") => (None, state),
            // most switches have ports without a cable
            None if state.contains("Down") => (Some(Grade::Note), state),
            None => (Some(Grade::Suspect), state),
        };
        health.judge(Area::NetworkLink, bad, Some(&part), "", &value, i);
    }
    if let Some((_, _, first)) = rates.first() {
        let told: Vec<String> = rates.iter().map(|(rate, count, _)| format!("{count} {rate}")).collect();
        health.trouble(
            Area::NetworkLink,
            Grade::Note,
            None,
            "active ends of links, by width and rate:",
            &told.join(", "),
            *first,
        );
    }
    health.push(text, LINKS, found);
}

/// The most different widths and rates that are reported; a network has few.
const KINDS: usize = 8;

/// `4X 25.78125 Gbps Active/ LinkUp`: `at 4X 25.78125 Gb/s (EDR, 100 Gb/s)`.
fn rate(state: &str) -> Option<String> {
    const LANES: [(f64, &str, u32); 9] = [
        (2.5, "SDR", 2),
        (5.0, "DDR", 4),
        (10.0, "QDR", 8),
        (10.3125, "FDR10", 10),
        (14.0625, "FDR", 14),
        (25.78125, "EDR", 25),
        (53.125, "HDR", 50),
        (106.25, "NDR", 100),
        (212.5, "XDR", 200),
    ];
    let (width, rest) = state.split_once(' ')?;
    let (lane, rest) = rest.split_once(" Gbps")?;
    let lanes: u32 = width.strip_suffix('X')?.parse().ok().filter(|lanes| (1..=12).contains(lanes))?;
    let number: f64 = lane.trim().parse().ok().filter(|_| rest.contains("Active"))?;
    let known = LANES.iter().find(|(rate, ..)| (rate - number).abs() < 0.01);
    let name = known.map_or_else(String::new, |(_, name, each)| format!(" ({name}, {} Gb/s)", each * lanes));
    Some(format!("at {width} {number} Gb/s{name}"))
}

/// The rows of the summary, `-I- Ports counters   0   3`, and lines of errors (`-E-`) and warnings (`-W-`).
fn diagnosis(text: &Text, found: &mut Found) {
    if !text.holds(&["-I- ", "-E- ", "-W- "]) {
        return;
    }
    let mut health = Health::default();
    let mut in_summary = false;
    for (i, line) in text.iter() {
        let line = line.trim_start_matches(['>', ' ']).trim_end();
        if let Some(rest) = line.strip_prefix("-I- ") {
            let words: Vec<&str> = rest.split_whitespace().collect();
            in_summary |= words.starts_with(&["Stage", "Warnings", "Errors"]);
            let first = words.iter().position(|word| word.bytes().all(|b| b.is_ascii_digit())).filter(|_| in_summary);
            let Some((name, [warnings, errors, ..])) = first.and_then(|at| words.split_at_checked(at)) else {
                continue;
            };
            let bad = match (*warnings, *errors) {
                ("0", "0") => None,
                (_, "0") => Some(Grade::Suspect),
                _ => Some(Grade::Fault),
            };
            let value = format!("{errors} errors, {warnings} warnings");
            health.judge(Area::NetworkLink, bad, None, &name.join(" "), &value, i);
        } else if let Some(error) = line.strip_prefix("-E- ") {
            health.trouble(Area::NetworkLink, Grade::Fault, None, "", error, i);
        } else if let Some(warning) = line.strip_prefix("-W- ") {
            health.trouble(Area::NetworkLink, Grade::Suspect, None, "", warning, i);
        }
    }
    health.push(text, DIAGNOSIS, found);
}

#[cfg(test)]
mod tests {
    use super::super::testing::health;
    use super::*;
    use peerlane_machine::fact::HealthReport;

    fn report(text: &str) -> HealthReport {
        health(scan, text)
    }

    #[test]
    fn links_of_a_network() {
        let read = report(
            "CA: node1 mlx5_0:\n      0x98039b03000c5c9e     42    1[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>       1   17[  ] \"leaf\" ( )\n\
             Switch: 0x0002c903008 leaf1:\n           1    3[  ] ==( 2X      53.125 Gbps Active/  LinkUp)==>       7    1[  ] \"n7\" ( Could be 4X)\n\
             \x20          1    4[  ] ==( 4X      25.78125 Gbps Active/  LinkUp)==>       8    1[  ] \"n8\" ( Could be 53.125 Gbps)\n\
             \x20          1    5[  ] ==(                Down/ Polling)==>             [  ] \"\" ( )\n",
        );
        let bad: Vec<_> = read.troubles.iter().map(|t| (t.part.as_deref().unwrap_or(""), t.grade)).collect();
        assert_eq!(
            bad,
            [
                ("leaf1 port 3", Grade::Fault),
                ("leaf1 port 4", Grade::Limit),
                ("leaf1 port 5", Grade::Note),
                ("", Grade::Note)
            ]
        );
        let told = "2 at 4X 25.78125 Gb/s (EDR, 100 Gb/s), 1 at 2X 53.125 Gb/s (HDR, 100 Gb/s)";
        assert_eq!(read.troubles[3].value, told);
        assert_eq!(read.sound, 1);
    }

    #[test]
    fn summary_of_a_diagnosis() {
        let read = report(
            "-I- Fabric Discover finished successfully\nSummary\n-I- Stage                     Warnings   Errors     Comment\n\
             -I- Discovery                 0          0\n-I- Ports counters            1          3\n-E- S5/P1 symbol error\n",
        );
        assert_eq!((read.sound, read.troubles.len(), read.troubles[0].grade), (1, 2, Grade::Fault));
        assert_eq!(read.troubles[0].value, "3 errors, 1 warnings");
    }
}
