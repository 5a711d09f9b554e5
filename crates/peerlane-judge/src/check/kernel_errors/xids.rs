//! What the codes of Xid errors mean, and what to do about them: entries `xid-CODE` of the knowledge.

use crate::finding::Severity::{self, Error, Info, Warning};
use peerlane_read::knowledge::{Class, Entry, Weight, entry};

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
    /// Its power supply or its slot.
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

/// The code of an error on the link between a GPU and its CPU.
const CHIP_TO_CHIP: u32 = 121;

fn known(code: u32) -> Option<&'static Entry> {
    entry(&format!("xid-{code}"))
}

/// What is known of an error of an NVSwitch.
pub(super) fn sxid(code: u32) -> Option<&'static Entry> {
    entry(&format!("sxid-{code}"))
}

/// What a code is about, how bad it is, and what it means.
pub(super) fn meaning(code: u32) -> (About, Severity, &'static str) {
    let Some(entry) = known(code) else { return (About::Unknown, Warning, "error") };
    let about = match entry.class {
        Class::OtherEnd => About::Lost,
        Class::Driver => About::Firmware,
        Class::Hardware => About::Memory,
        Class::Fabric if code == CHIP_TO_CHIP => About::ChipToChip,
        Class::Fabric => About::Nvlink,
        Class::Host | Class::Setting => About::Power,
        Class::Caller => About::Program,
        Class::Internal => About::Unknown,
    };
    let severity = match entry.weight {
        Weight::Certain | Weight::Likely => Error,
        Weight::Possible | Weight::Limit => Warning,
        Weight::Note | Weight::Nothing => Info,
    };
    (about, severity, entry.summary)
}

/// What to do, each step with its condition: about one code its own advice.
pub(super) fn fix(about: About, codes: &[u32]) -> &'static str {
    let own = match codes {
        [code] => known(*code).map_or("", |entry| entry.fix),
        _ => "",
    };
    if own.is_empty() { of_kind(about) } else { own }
}

fn of_kind(about: About) -> &'static str {
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
    fn codes_have_a_kind_a_severity_and_advice() {
        for (code, about, severity) in [
            (79, About::Lost, Error),
            (48, About::Memory, Error),
            (74, About::Nvlink, Warning),
            (121, About::ChipToChip, Info),
            (54, About::Power, Warning),
            (119, About::Firmware, Error),
            (31, About::Program, Info),
            (999, About::Unknown, Warning),
        ] {
            assert_eq!((meaning(code).0, meaning(code).1), (about, severity), "{code}");
            assert!(!fix(about, &[code]).is_empty(), "{code}");
        }
        assert_ne!(fix(About::Memory, &[48]), fix(About::Memory, &[95]));
        assert_eq!(fix(About::Memory, &[48, 95]), of_kind(About::Memory));
    }
}
