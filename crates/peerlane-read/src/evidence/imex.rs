//! `nvidia-imex-ctl -N`: the hosts of an NVLink domain and whether they are connected.

use super::health::Health;
use super::{Found, Text};
use peerlane_machine::fact::{Area, Grade};

const TOOL: &str = "nvidia-imex-ctl";

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["Node #", "Domain State:"]) {
        return;
    }
    let mut health = Health::default();
    for (i, line) in text.iter() {
        let line = line.trim_start_matches(['>', ' ']).trim_end();
        if let Some((name, state)) = node(line) {
            health.judge(Area::Domain, (state != "READY").then_some(Grade::Fault), Some(&name), "", state, i);
        } else if let Some(state) = line.strip_prefix("Domain State:") {
            let bad = match state.trim() {
                "UP" => None,
                "DEGRADED" => Some(Grade::Suspect),
                _ => Some(Grade::Fault),
            };
            health.judge(Area::Domain, bad, None, "Domain State:", state, i);
        }
    }
    health.push(text, TOOL, found);
}

/// `Node #1   - 172.25.1.3       - UNAVAILABLE    - Version: 570.00`; this host has stars around its address.
fn node(line: &str) -> Option<(String, &str)> {
    let rest = line.strip_prefix("Node #")?;
    let mut parts = rest.split([' ', '\t']).filter(|word| !word.is_empty() && !matches!(*word, "-" | "*"));
    let number: u32 = parts.next()?.parse().ok()?;
    let address = parts.next()?.trim_matches('*');
    let state = parts.next().filter(|state| state.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'))?;
    Some((format!("node {number} ({address})"), state))
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;
    use peerlane_machine::fact::Fact;

    #[test]
    fn hosts_of_a_domain() {
        let found = scanned(
            scan,
            "Nodes:\nNode #0   * 172.25.1.2 *      - READY                - Version: 570.00\n\
             Node #1   - 172.25.1.3       - UNAVAILABLE          - Version: Unknown\n\nDomain State: DEGRADED\n",
        );
        let Fact::Health(report) = &found.evidence[0].fact else { panic!("{found:#?}") };
        let bad: Vec<_> = report.troubles.iter().map(|t| (t.part.as_deref(), t.value.as_str(), t.grade)).collect();
        let node = Some("node 1 (172.25.1.3)");
        assert_eq!(bad, [(node, "UNAVAILABLE", Grade::Fault), (None, "DEGRADED", Grade::Suspect)]);
        assert_eq!(report.sound, 1);
    }

    #[test]
    fn other_nodes() {
        assert_eq!(scanned(scan, "Node #3 is the first that failed\n"), Found::default());
    }
}
