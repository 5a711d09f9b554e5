//! Links that drivers report: of network interfaces, and of PCIe controllers on chips.

use super::super::health::Health;
use super::super::{Found, KernelFacts, Text};
use peerlane_machine::fact::{Area, Grade};

/// What was read so far.
#[derive(Default)]
pub(super) struct Links(Health);

impl Links {
    /// Reads a message; whether it is one of these. A link that goes down says nothing: mostly its cable was pulled out, or is not there yet.
    pub(super) fn read(&mut self, i: usize, message: &str, facts: &mut KernelFacts) -> bool {
        if controller(message) {
            facts.links_up = facts.links_up.saturating_add(1);
            return true;
        }
        let Some((interface, rate)) = interface(message) else { return false };
        facts.links_up = facts.links_up.saturating_add(1);
        if rate.contains("Half") {
            self.0.trouble(Area::NetworkLink, Grade::Suspect, Some(interface), "the link is half duplex:", rate, i);
        }
        true
    }

    pub(super) fn push(mut self, text: &Text, found: &mut Found) {
        self.0.push(text, super::TOOL, found);
    }
}

/// Whether a PCIe controller has a link: `brcm-pcie fd500000.pcie: link up, 5.0 GT/s PCIe x1 (SSC)`, `rockchip-dw-pcie a40000000.pcie: PCIe Gen.3
/// x4 link up`.
fn controller(message: &str) -> bool {
    let Some((device, what)) = message.split_once(".pcie: ") else { return false };
    let is_up = what.starts_with("link up, ") || what.starts_with("PCIe Gen.") && what.ends_with(" link up");
    is_up && device.bytes().filter(|b| *b == b' ').count() == 1
}

/// An interface with what its driver says of its link: `igb 0000:05:00.0 eth0: igb: eth0 NIC Link is Up 1000 Mbps Full Duplex, Flow Control: RX`,
/// `bcmgenet fd580000.ethernet end0: Link is Up - 1Gbps/Full - flow control off`, `r8169 0000:07:00.0 enp7s0: link up`.
fn interface(message: &str) -> Option<(&str, &str)> {
    let (before, rate) = message.split_once("Link is Up ").or_else(|| Some((message.strip_suffix("link up")?, "")))?;
    let before =
        before.trim_end().trim_end_matches("NIC").trim_end().trim_end_matches("e1000_watchdog_task:").trim_end();
    let interface = before.trim_end_matches(':').rsplit([' ', ':']).next()?;
    let rate = rate.trim_start_matches("- ");
    let named = interface.len() > 1 && interface.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    // disks have links, too
    (named && !interface.starts_with("SATA") && !before.ends_with("SATA"))
        .then(|| (interface, rate.split(", Flow").next().unwrap_or(rate)))
}

#[cfg(test)]
mod tests {
    use super::super::super::scan_text;
    use super::super::super::{Fact, Text};
    use super::*;

    fn read(line: &str) -> (u32, usize) {
        let text = format!("[    0.1] Linux version 6\n[    0.2] a\n[    8.0] {line}\n");
        let (mut links, mut troubles) = (0, 0);
        for one in scan_text(&Text::new("t", text.as_bytes())).evidence {
            match one.fact {
                Fact::Kernel(facts) => links += facts.links_up,
                Fact::Health(report) => troubles += report.troubles.len(),
                _ => {}
            }
        }
        (links, troubles)
    }

    #[test]
    fn links_that_came_up() {
        for line in [
            "brcm-pcie fd500000.pcie: link up, 5.0 GT/s PCIe x1 (SSC)",
            "rockchip-dw-pcie a40000000.pcie: PCIe Gen.3 x4 link up",
            "bcmgenet fd580000.ethernet end0: Link is Up - 1Gbps/Full - flow control off",
            "e1000: eth0: e1000_watchdog_task: NIC Link is Up 1000 Mbps Full Duplex, Flow Control: None",
            "r8169 0000:07:00.0 enp7s0: link up",
        ] {
            assert_eq!(read(line), (1, 0), "{line}");
        }
        assert_eq!(
            read("e1000: eth0: e1000_watchdog_task: NIC Link is Up 100 Mbps Half Duplex, Flow Control: None"),
            (1, 1)
        );
        assert_eq!(interface("igb 0000:05:00.0 eth0: igb: eth0 NIC Link is Up 10 Mbps Half Duplex").unwrap().0, "eth0");
    }

    #[test]
    fn others() {
        for line in [
            "ata1: SATA link up 6.0 Gbps (SStatus 133 SControl 300)",
            "x1-dwc-pcie ca400000.pcie: Phy link never came up",
            "bcmgenet fd580000.ethernet eth0: Link is Down",
            "the host link is up",
        ] {
            assert_eq!(read(line).0, 0, "{line}");
        }
    }
}
