//! What rules on nodes are written with.

pub(super) use super::words::{FEW, end, host, listed, quantity};
pub(super) use super::{View, raised};
pub(super) use crate::check::prelude::{
    Certainty, Cost, FindingKind, Look, PathClass, Raised, Rule, Severity, Subject,
};
pub(super) use crate::finding::Finding;
pub(super) use peerlane_design::site::{ComparedStep, HostRates, OFF, Site};
pub(super) use peerlane_machine::matrix::Unit;
pub(super) use peerlane_machine::stats::Median;
