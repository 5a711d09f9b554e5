//! Readings and what they count: explicit beats generic, and what cannot be is kept, shown, and not used.

use std::fmt;

use crate::fabric::PcieWidth;
use crate::origin::Origin;
use crate::subject::Subject;

/// How much a reading counts, the least first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// It cannot be so, for this reason: it is shown and never used.
    Implausible(Doubt),
    /// It was requested, which is weaker than the effect.
    Requested,
    /// It holds by default, or for all of a product.
    Generic,
    /// It is stated of this very thing.
    Explicit,
}

/// Why a reading cannot be so.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Doubt {
    /// Every switch with GPUs at this depth reads a fraction of what runs below it.
    BelowEveryBranch,
    /// A link runs wider or faster than this limit, which is reported of one of its ends.
    BelowRunning,
    /// The product is not capable of it.
    AboveProduct,
    /// The device is emulated by a hypervisor, so that the reported width of its link means nothing.
    Emulated,
    /// The port was down.
    PortDown,
    /// The GPU was idle, and its link drops lanes then.
    Idle,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BelowEveryBranch => {
                "every branch reads far below the links of its own devices, as bridges that misreport do"
            }
            Self::BelowRunning => "the link runs above it",
            Self::AboveProduct => "the product is not capable of it",
            Self::Emulated => "the switch is emulated, and its link's speed means nothing",
            Self::PortDown => "the port was down",
            Self::Idle => "the GPU was idle, and such links drop lanes then",
        })
    }
}

/// A value that a source states.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading<T> {
    /// The value.
    pub value: T,
    /// How much it counts.
    pub standing: Standing,
    /// Where it stands.
    pub origin: Origin,
}

impl<T> Reading<T> {
    /// Of several readings of one thing, the one that counts most, the first among equals; `None` where all are implausible.
    pub fn best(readings: impl IntoIterator<Item = Self>) -> Option<Self> {
        let usable = readings.into_iter().filter(|r| !matches!(r.standing, Standing::Implausible(_)));
        usable.reduce(|best, next| if next.standing > best.standing { next } else { best })
    }
}

/// What a doubted reading is of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Quantity {
    /// What a PCIe link runs at.
    Running(PcieWidth),
    /// The most that a PCIe link's ends allow.
    Allowed(PcieWidth),
    /// Gb/s of a NIC's port.
    LineRate(f64),
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running(width) => write!(f, "PCIe {width}"),
            Self::Allowed(width) => write!(f, "a limit of PCIe {width}"),
            Self::LineRate(gigabits) => write!(f, "{gigabits} Gb/s"),
        }
    }
}

/// A reading that is not used, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Doubted {
    /// What it is about.
    pub subjects: Vec<Subject>,
    /// The reading.
    pub reading: Quantity,
    /// Why it cannot be.
    pub doubt: Doubt,
    /// Where it stands.
    pub origin: Option<Origin>,
}

impl fmt::Display for Doubted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.subjects.iter().flat_map(Subject::nodes).collect();
        write!(f, "{}: {} is read and not used: {}", crate::names::ranges(&names), self.reading, self.doubt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explicit_beats_generic_and_the_implausible_never_counts() {
        let reading = |value: u8, standing| Reading {
            value,
            standing,
            origin: Origin { source: "x".into(), tool: "t", lines: None },
        };
        let best = |readings: Vec<Reading<u8>>| Reading::best(readings).map(|r| r.value);
        let doubted = || reading(9, Standing::Implausible(Doubt::Emulated));
        assert_eq!(best(vec![reading(1, Standing::Generic), reading(2, Standing::Explicit), doubted()]), Some(2));
        assert_eq!(best(vec![reading(1, Standing::Requested), reading(2, Standing::Generic)]), Some(2));
        assert_eq!(best(vec![reading(1, Standing::Explicit), reading(2, Standing::Explicit)]), Some(1));
        assert_eq!(best(vec![doubted()]), None);
    }
}
