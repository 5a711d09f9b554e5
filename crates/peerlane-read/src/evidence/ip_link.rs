//! `ip -s link`: the carrier of interfaces, and their counters of errors.

use super::health::Health;
use super::{Found, Text};
use peerlane_machine::fact::{Area, Grade};

const TOOL: &str = "ip -s link";

/// Errors from here on are no single event.
const MANY: u64 = 100;

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["> mtu "]) {
        return;
    }
    let (mut health, mut part): (Health, Option<String>) = (Health::default(), None);
    let unused = unused(text);
    let mut columns: Vec<&str> = Vec::new();
    for (i, line) in text.iter() {
        let words: Vec<&str> = line.trim_start_matches('>').split_whitespace().collect();
        match words.as_slice() {
            [number, name, flags, "mtu", ..] if number.ends_with(':') && flags.starts_with('<') => {
                let name = name.trim_end_matches(':');
                part = Some(name.split('@').next().unwrap_or(name).to_owned());
                // an interface that is up waits for a cable
                let is_unused = || unused.iter().any(|name| part.as_deref() == Some(*name));
                let waits = || if is_unused() { Grade::Note } else { Grade::Suspect };
                let waits = flags.contains("NO-CARRIER").then(waits);
                if !flags.contains("LOOPBACK") && flags.trim_matches(['<', '>']).split(',').any(|flag| flag == "UP") {
                    health.judge(Area::NetworkLink, waits, part.as_deref(), "", "NO-CARRIER", i);
                }
            }
            ["RX:" | "TX:", rest @ ..] if part.is_some() => columns = rest.to_vec(),
            values if !columns.is_empty() && values.len() == columns.len() => {
                let value =
                    |name| columns.iter().position(|c| *c == name).and_then(|at| values.get(at)?.parse::<u64>().ok());
                if let Some(errors) = value("errors") {
                    let bad = (errors > 0).then_some(if errors < MANY { Grade::Suspect } else { Grade::Fault });
                    health.judge(Area::NetworkLink, bad, part.as_deref(), "errors", &errors.to_string(), i);
                }
                columns.clear();
            }
            _ => columns.clear(),
        }
    }
    health.push(text, TOOL, found);
}

/// Ports without a carrier that nothing uses: an output that shows addresses shows none of them, while another port that is up has one.
/// Bridges of containers and virtual machines have no port of their own.
fn unused(text: &Text) -> Vec<&str> {
    let mut waiting: Vec<(&str, bool)> = Vec::new();
    let mut current: Option<(&str, bool)> = None;
    let mut has_used = false;
    for (_, line) in text.iter() {
        let words: Vec<&str> = line.trim_start_matches('>').split_whitespace().collect();
        match words.as_slice() {
            [number, name, flags, "mtu", ..] if number.ends_with(':') && flags.starts_with('<') => {
                let name = name.trim_end_matches(':');
                let name = name.split('@').next().unwrap_or(name);
                current = Some((name, flags.contains("LOWER_UP") && !flags.contains("LOOPBACK")));
                if flags.contains("NO-CARRIER") {
                    waiting.push((name, is_bridge(name)));
                }
            }
            ["inet", ..] => match current {
                Some((name, true)) => has_used |= !is_bridge(name),
                Some((name, false)) => waiting.retain(|(known, bridge)| *bridge || *known != name),
                None => {}
            },
            _ => {}
        }
    }
    waiting.into_iter().filter(|(_, bridge)| has_used || *bridge).map(|(name, _)| name).collect()
}

fn is_bridge(name: &str) -> bool {
    ["docker", "br-", "virbr", "lxcbr", "lxdbr", "cni", "podman"].iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;
    use peerlane_machine::fact::Fact;

    #[test]
    fn interfaces() {
        let found = scanned(
            scan,
            "2: ens1f0: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu 9000 qdisc mq state DOWN\n    RX:  bytes packets errors dropped  missed   mcast\n\
             \x20     1234567    8910     12       0       0      33\n3: ens1f1: <BROADCAST,UP,LOWER_UP> mtu 9000 state UP\n    TX:  bytes packets errors dropped carrier collsns\n      1 8 0 0 0 0\n",
        );
        let Fact::Health(report) = &found.evidence[0].fact else { panic!("{found:#?}") };
        let bad: Vec<_> = report.troubles.iter().map(|t| (t.part.as_deref(), t.value.as_str())).collect();
        assert_eq!((report.sound, bad), (2, vec![(Some("ens1f0"), "NO-CARRIER"), (Some("ens1f0"), "12")]));
    }

    #[test]
    fn ports_without_an_address_beside_one_that_is_used() {
        let grades = |text: &str| {
            let found = scanned(scan, text);
            let Fact::Health(report) = &found.evidence[0].fact else { panic!("{found:#?}") };
            report.troubles.iter().map(|t| t.grade).collect::<Vec<_>>()
        };
        let up = "2: eno1: <BROADCAST,UP,LOWER_UP> mtu 1500\n";
        let down = "3: eno2: <NO-CARRIER,BROADCAST,UP> mtu 1500\n    link/ether 02:00:00:00:00:02\n";
        let address = "    inet 192.0.2.7/24 brd 192.0.2.255 scope global x\n";
        assert_eq!(grades(&format!("{up}{address}{down}")), [Grade::Note]);
        assert_eq!(grades(&format!("{up}{down}")), [Grade::Suspect], "addresses are not shown");
        assert_eq!(grades(&format!("{up}{address}{down}{address}")), [Grade::Suspect], "it is configured");
    }

    #[test]
    fn other_lines() {
        assert_eq!(scanned(scan, "a <b> mtu 9000\nRX: errors\n 12\n"), Found::default());
    }
}
