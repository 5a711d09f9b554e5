//! Memory windows (BARs) of devices for which the kernel found no address space.

use std::collections::HashSet;

use super::super::{KernelFacts, Unassigned};
use super::MOST;
use super::devices::{drives_gpus, last_device, listed};
use peerlane_machine::fabric::PciAddress;
use peerlane_machine::units::Bytes;

/// Vendors of GPUs: NVIDIA, AMD.
const VENDORS: [u16; 2] = [0x10de, 0x1002];

/// A device has BARs 0 to 5.
const LAST_BAR: u8 = 5;

/// How kernels report a window that gets no space: since 6.9, and before (`BAR 1: no space for [mem size …]`).
const FAILED: [&str; 4] = ["failed to assign", "can't assign; no space", "no space for [mem", "can't assign mem"];

/// What was read so far.
#[derive(Default)]
pub(super) struct Windows {
    gpus: HashSet<PciAddress>,
}

impl Windows {
    /// Reads a line; whether it is one of these. The kernel tries again with other sizes: its last word counts.
    pub(super) fn read(&mut self, line: &str, facts: &mut KernelFacts) -> bool {
        if let Some((before, _)) = line.split_once(": [")
            && let Some((_, address)) = last_device(before)
        {
            let device = line.get(before.len() + 2..).and_then(listed);
            let is_gpu = device.is_some_and(|d| {
                d.vendor.is_some_and(|v| VENDORS.contains(&v)) && d.class.is_some_and(|c| c >> 16 == 0x03)
            });
            if is_gpu && self.gpus.len() < MOST {
                self.gpus.insert(address);
            }
            return false;
        }
        let Some((before, rest)) = line.split_once(": BAR ") else { return false };
        let Some((driver, address)) = last_device(before) else { return false };
        let Some((bar, rest)) = rest.split_at_checked(1) else { return false };
        // "BAR 6" is a ROM, "BAR 13" a window of a bridge
        let Some(bar) = bar.parse::<u8>().ok().filter(|bar| *bar <= LAST_BAR) else { return false };
        if !rest.starts_with([' ', ':']) || !rest.contains("[mem") {
            return false;
        }
        let is_it = |known: &Unassigned| (known.address, known.bar) == (address, bar);
        if FAILED.iter().any(|words| rest.contains(words)) {
            let size = size(rest);
            let gpu = self.gpus.contains(&address) || drives_gpus(driver);
            let room = facts.unassigned.len() < MOST;
            match facts.unassigned.iter_mut().find(|known| is_it(known)) {
                Some(known) => known.size = known.size.or(size),
                None if room => facts.unassigned.push(Unassigned { address, bar, size, gpu }),
                None => {}
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
