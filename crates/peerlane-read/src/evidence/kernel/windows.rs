//! Memory windows (BARs) of devices for which the kernel found no address space.

use std::collections::HashSet;

use super::super::{KernelFacts, Unassigned};
use super::MOST;
use peerlane_machine::fabric::PciAddress;
use peerlane_machine::units::Bytes;

/// Vendors of GPUs: NVIDIA, AMD.
const VENDORS: [&str; 2] = ["10de", "1002"];

/// What was read so far.
#[derive(Default)]
pub(super) struct Windows {
    gpus: HashSet<PciAddress>,
}

impl Windows {
    /// Reads a line; whether it is one of these. The kernel tries again with other sizes: its last word counts.
    pub(super) fn read(&mut self, line: &str, facts: &mut KernelFacts) -> bool {
        let Some((_, rest)) = line.split_once("pci ") else { return false };
        let Some((address, rest)) = rest.split_once(": ") else { return false };
        let Ok(address) = address.parse::<PciAddress>() else { return false };
        if let Some(id) = rest.strip_prefix('[') {
            // "[10de:2204] type 00 class 0x030000"
            let is_gpu = VENDORS.iter().any(|vendor| id.starts_with(vendor)) && id.contains("class 0x03");
            if is_gpu && self.gpus.len() < MOST {
                self.gpus.insert(address);
            }
            return false;
        }
        let Some((bar, rest)) = rest.strip_prefix("BAR ").and_then(|rest| rest.split_at_checked(1)) else {
            return false;
        };
        let Ok(bar) = bar.parse::<u8>() else { return false };
        if !rest.contains("[mem") {
            return false;
        }
        let is_it = |known: &Unassigned| (known.address, known.bar) == (address, bar);
        if rest.contains("failed to assign") {
            if facts.unassigned.len() < MOST && !facts.unassigned.iter().any(is_it) {
                let gpu = self.gpus.contains(&address);
                facts.unassigned.push(Unassigned { address, bar, size: size(rest), gpu });
            }
            return true;
        }
        if rest.contains(": assigned") {
            facts.unassigned.retain(|known| !is_it(known));
        }
        false
    }
}

/// `[mem size 0x10000000 64bit pref]`.
fn size(rest: &str) -> Option<Bytes> {
    let digits = rest.split_once("[mem size 0x")?.1.split([' ', ']']).next()?;
    u64::from_str_radix(digits, 16).ok().map(Bytes)
}
