//! What the codes of Xid errors mean, and what to do about them (NVIDIA, *Xid Catalog*, docs.nvidia.com/deploy/xid-errors).

use crate::finding::Severity::{self, Error, Info, Warning};

/// What an error is about; errors of one kind on one machine are one finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum About {
    /// The GPU is gone from the bus.
    Lost,
    /// Its firmware or its initialization.
    Firmware,
    /// Its memory.
    Memory,
    /// NVLink.
    Nvlink,
    /// The chip-to-chip link to the CPU.
    ChipToChip,
    /// Its power supply.
    Power,
    /// A program's own error.
    Program,
    /// A code of which nothing is known here.
    Unknown,
}

/// The code of a GPU that fell off the bus.
pub(super) const FELL_OFF: u32 = 79;

/// The code of a fatal event on a link of fifth-generation NVLink; other GPUs follow with 145.
pub(super) const LINK_EVENT: u32 = 149;

/// Hardware errors.
const HARDWARE: [(u32, About, Severity, &str); 26] = [
    (48, About::Memory, Error, "uncorrectable memory error"),
    (54, About::Power, Warning, "auxiliary power is missing or too low"),
    (62, About::Firmware, Error, "the power management unit stopped"),
    (63, About::Memory, Info, "a memory row is marked for remapping"),
    (64, About::Memory, Error, "a memory row could not be remapped"),
    (74, About::Nvlink, Warning, "NVLink error"),
    (FELL_OFF, About::Lost, Error, "fell off the bus"),
    (92, About::Memory, Info, "many corrected memory errors"),
    (94, About::Memory, Warning, "memory error, contained: only the program that used the memory ended"),
    (95, About::Memory, Error, "memory error, not contained: all programs on the GPU are affected"),
    (109, About::Firmware, Warning, "a context switch timed out"),
    (119, About::Firmware, Error, "the GPU system processor (GSP) does not respond"),
    (120, About::Firmware, Error, "the GPU system processor (GSP) reports an error"),
    (121, About::ChipToChip, Info, "error on the chip-to-chip link (NVLink-C2C)"),
    (136, About::Nvlink, Error, "link training failed"),
    (140, About::Memory, Error, "unrecovered memory error"),
    (143, About::Firmware, Error, "the GPU could not be initialized"),
    (144, About::Nvlink, Error, "NVLink error (SAW)"),
    (145, About::Nvlink, Error, "NVLink error (RLW)"),
    (146, About::Nvlink, Error, "NVLink error (TLW)"),
    (147, About::Nvlink, Info, "NVLink error (TREX)"),
    (148, About::Nvlink, Info, "NVLink error (NVLPW)"),
    (LINK_EVENT, About::Nvlink, Error, "NVLink error (NETIR)"),
    (150, About::Nvlink, Error, "NVLink error (MSE)"),
    (155, About::Nvlink, Error, "NVLink error found by software"),
    (158, About::Firmware, Error, "fatal timeout"),
];

/// Codes of errors that programs cause, or that follow from an error before.
const PROGRAMS: [u32; 14] = [8, 11, 13, 31, 32, 37, 39, 40, 41, 43, 45, 68, 69, 80];

/// What a code is about, how bad it is, and what it means.
pub(super) fn meaning(code: u32) -> (About, Severity, &'static str) {
    let known = HARDWARE.iter().find(|(known, ..)| *known == code);
    match known {
        Some((_, about, severity, words)) => (*about, *severity, words),
        None if PROGRAMS.contains(&code) => (About::Program, Info, "error of a program"),
        None => (About::Unknown, Info, "error"),
    }
}

/// What to do, each step with its condition.
pub(super) fn fix(about: About) -> &'static str {
    match about {
        About::Lost => {
            "Restart the machine; if the GPU stays away, switch its power off and on. If it falls off again, check \
             temperature, power supply and power cables under load, reseat the card (and its riser, if any), and try \
             it in another slot. If it fails there too, have it serviced."
        }
        About::Firmware => {
            "Stop the jobs on it and reset the GPU (`nvidia-smi -r -i N`), or restart the machine if the reset fails. \
             If it recurs on several GPUs, update driver and firmware; if on this GPU alone, have it serviced."
        }
        About::Memory => {
            "Stop the jobs on it and reset the GPU (`nvidia-smi -r -i N`), which remaps rows that are marked. If rows \
             cannot be remapped, or errors recur after the reset, have the GPU serviced (`nvidia-smi -q -d \
             ECC,ROW_REMAPPER`)."
        }
        About::Nvlink => {
            "Reset all GPUs that the link connects, or restart the machine; `nvidia-smi nvlink -s` and `-e` and the \
             fabric manager's log show which link it is. If it recurs on the same link, have that GPU, its baseboard \
             or its bridge serviced."
        }
        About::ChipToChip => {
            "If it occurs once, do nothing. If it recurs, have the module serviced: `nvidia-smi c2c -e` shows whether \
             errors increase."
        }
        About::Power => {
            "Connect all power cables of the card, each to its own output of a power supply that is strong enough."
        }
        About::Program => {
            "Debug the program that ran (`compute-sanitizer`). If unrelated programs fail on this GPU and on no other, \
             test the GPU (`dcgmi diag -r 3`)."
        }
        About::Unknown => "Look the code up in NVIDIA's Xid catalogue (docs.nvidia.com/deploy/xid-errors).",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_come_in_order_and_once() {
        assert!(HARDWARE.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert!(PROGRAMS.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(PROGRAMS.iter().all(|code| meaning(*code).0 == About::Program));
    }
}
