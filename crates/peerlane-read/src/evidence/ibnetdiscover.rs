//! `ibnetdiscover -p` and `sminfo`: the ports of an InfiniBand network with their rates, and its subnet manager.

use std::collections::BTreeMap;

use super::health::Health;
use super::{Found, Text};
use peerlane_machine::fact::{Area, Grade};

const PORTS: &str = "ibnetdiscover";
const MANAGER: &str = "sminfo";

/// Speeds of a lane, each faster than the one before.
const SPEEDS: [&str; 9] = ["SDR", "DDR", "QDR", "FDR10", "FDR", "EDR", "HDR", "NDR", "XDR"];

/// The place of HDR among them.
const HDR: usize = 6;

/// By how many speeds a link is below the others if it failed to train.
const FAR: usize = 3;

pub(super) fn scan(text: &Text, found: &mut Found) {
    ports(text, found);
    manager(text, found);
}

/// A link as a line of it states it.
struct Link<'a> {
    line: usize,
    end: &'a str,
    port: &'a str,
    peer: &'a str,
    width: &'a str,
    speed: usize,
    to_host: bool,
}

/// `CA   134  1 0x7cfe… 4x EDR - SW  1719 10 0x7cfe… ( 'node1 HCA-1' - 'leaf1' )`.
fn ports(text: &Text, found: &mut Found) {
    if !text.holds(&["x SDR", "x DDR", "x QDR", "x FDR", "x EDR", "x HDR", "x NDR", "x XDR"]) {
        return;
    }
    let (mut health, mut links) = (Health::default(), Vec::new());
    for (line, row) in text.iter() {
        let Some(read) = link(row, line) else { continue };
        match read {
            Some(link) => links.push(link),
            // a port without a peer has no cable, whatever it shows as its rate
            None => health.used(line),
        }
    }
    // hosts and switches each have their usual rate; half of a class and more has it
    for to_host in [false, true] {
        let of: Vec<&Link> = links.iter().filter(|link| link.to_host == to_host).collect();
        let mut counts: BTreeMap<(usize, &str), usize> = BTreeMap::new();
        for link in &of {
            *counts.entry((link.speed, link.width)).or_default() += 1;
        }
        let usual = counts.iter().max_by_key(|(_, count)| **count).filter(|(_, count)| **count * 2 > of.len());
        for link in of {
            // ports of HDR and later are split in two on purpose; fewer lanes are lost ones
            let split = lanes(link.width) == 2 && link.speed >= HDR;
            let narrow = !split && usual.is_some_and(|((_, width), _)| lanes(link.width) < lanes(width));
            // neighbouring generations are mixed on purpose; a link far below the others failed to train
            let slow = usual.is_some_and(|((speed, _), _)| link.speed + FAR <= *speed);
            let bad = (narrow || slow).then_some(Grade::Fault);
            let part = format!("{} port {}", link.end, link.port);
            let usual = usual.map_or(String::new(), |((speed, width), _)| {
                format!("; most such links run at {width} {}", SPEEDS.get(*speed).unwrap_or(&""))
            });
            let rate = SPEEDS.get(link.speed).unwrap_or(&"");
            let value = format!("{} {rate} to {}{usual}", link.width, link.peer);
            health.judge(Area::NetworkLink, bad, Some(&part), "", &value, link.line);
        }
    }
    health.push(text, PORTS, found);
}

/// A line of a port: `Some(None)` for one without a peer.
fn link(row: &str, line: usize) -> Option<Option<Link<'_>>> {
    let words: Vec<&str> = row.split_whitespace().take(12).collect();
    let [kind @ ("CA" | "SW" | "RT"), lid, port, guid, width, speed, rest @ ..] = words.as_slice() else { return None };
    let is_number = |word: &str| word.bytes().all(|b| b.is_ascii_digit());
    let fits = is_number(lid) && is_number(port) && guid.starts_with("0x") && lanes(width) > 0;
    if !fits {
        return None;
    }
    let ["-", peer @ ("CA" | "SW" | "RT"), ..] = rest else { return Some(None) };
    let speed = SPEEDS.iter().position(|known| known == speed)?;
    let (_, names) = row.split_once('(')?;
    let mut names = names.split('\'');
    let (end, peer_name) = (names.nth(1)?, names.nth(1)?);
    let to_host = *kind == "CA" || *peer == "CA";
    Some(Some(Link { line, end, port, peer: peer_name, width, speed, to_host }))
}

/// `4x` has four lanes.
fn lanes(width: &str) -> u32 {
    width.strip_suffix('x').and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// `sminfo: sm lid 1 sm guid 0x…, activity count 186 priority 0 state 3 SMINFO_MASTER`.
fn manager(text: &Text, found: &mut Found) {
    if !text.holds(&["SMINFO_"]) {
        return;
    }
    let mut health = Health::default();
    for (i, line) in text.iter() {
        let Some((_, state)) = line.split_once("SMINFO_").filter(|(head, _)| head.contains("sm lid")) else { continue };
        let state = state.split_whitespace().next().unwrap_or_default();
        let bad = match state {
            // it says nothing of any link
            "MASTER" => continue,
            "STANDBY" | "DISCOVER" => Grade::Note,
            _ => Grade::Suspect,
        };
        health.trouble(Area::NetworkLink, bad, None, "subnet manager", state, i);
    }
    health.push(text, MANAGER, found);
}

#[cfg(test)]
mod tests {
    use super::super::testing::{health, scanned};
    use super::*;

    fn row(node: u32, rate: &str) -> String {
        format!(
            "CA {node:5}  1 0x98039b0300{node:06} {rate} - SW     2 {node} 0x98039b0300aabbcc ( 'n{node} mlx5_0' - 'leaf1' )\n"
        )
    }

    #[test]
    fn links_with_the_usual_rate_and_others() {
        let good: String = (11..14).map(|node| row(node, "4x EDR")).collect();
        let report = health(scan, &good);
        assert_eq!((report.sound, report.troubles.len()), (3, 0));
        let report = health(scan, &format!("{good}{}{}", row(14, "4x SDR"), row(15, "1x EDR")));
        let bad: Vec<_> = report.troubles.iter().map(|t| (t.part.as_deref().unwrap_or(""), t.grade)).collect();
        assert_eq!(bad, [("n14 mlx5_0 port 1", Grade::Fault), ("n15 mlx5_0 port 1", Grade::Fault)]);
        let mixed: String = (11..14).map(|node| row(node, "4x HDR")).collect();
        let report = health(scan, &format!("{mixed}{}{}", row(14, "2x HDR"), row(15, "4x EDR")));
        assert_eq!((report.sound, report.troubles.len()), (5, 0));
    }

    #[test]
    fn ports_without_a_cable() {
        let open = "SW  2 37 0x98039b0300aabbcc 4x ???                     'leaf1'\nSW  2 38 0x98039b0300aabbcc 4x SDR            'leaf1'\n";
        let report = health(scan, &(row(11, "4x HDR") + open));
        assert_eq!((report.sound, report.troubles.len()), (1, 0));
    }

    #[test]
    fn the_subnet_manager() {
        let state = |word: &str| {
            health(
                scan,
                &format!("sminfo: sm lid 4 sm guid 0x98039b, activity count 7 priority 5 state 1 SMINFO_{word}\n"),
            )
        };
        assert_eq!(state("NOTACT").troubles[0].grade, Grade::Suspect);
        let master = "sminfo: sm lid 4 sm guid 0x98039b, activity count 7 priority 5 state 3 SMINFO_MASTER\n";
        for nothing in [master, "SMINFO_MASTER\n4x EDR\n"] {
            assert_eq!(scanned(scan, nothing), Found::default());
        }
    }
}
