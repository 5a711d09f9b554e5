//! What the prose around a machine's output states of it: weak evidence, which any tool's output overrides.

use crate::fabric::PcieWidth;
use crate::origin::Origin;

/// One statement in words.
#[derive(Clone, Debug, PartialEq)]
pub struct Remark {
    /// What it states.
    pub claim: Claim,
    /// The product that the sentence names, as it stands there; `None` where it is about the whole machine.
    pub about: Option<String>,
    /// The line.
    pub origin: Origin,
}

/// What a remark states.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Claim {
    /// The PCIe generation, the lanes, or both, of links of GPUs.
    Width(PcieWidth),
    /// Whether GPUs reach each other's memory directly.
    PeerAccess(bool),
    /// The year in which it was written, or in which the machine was new.
    Year(u16),
}
