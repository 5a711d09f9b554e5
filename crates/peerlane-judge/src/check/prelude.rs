//! What rules are written with.

pub(super) use super::confirm;
pub(super) use super::raised::Raised;
pub(super) use super::rule::Look::{self, Many, One};
pub(super) use super::rule::Rule;
pub(super) use super::view::View;
pub(super) use super::view::cells::{Cell, End, one_way};
pub(super) use super::view::sources::{origins, program};
pub(super) use super::words::{self, below, distinct, grouped, highest, list, lowest, median, percent, verb};
pub(super) use crate::finding::Certainty::{self, Certain, Likely, Possible};
pub(super) use crate::finding::Cost;
pub(super) use crate::finding::FindingKind::{self, Design, Fault, Measurement};
pub(super) use crate::finding::Severity::{self, Error, Info, Warning};
pub(super) use peerlane_machine::fabric::{LinkKind, NodeId, NodeKind, PathClass};
pub(super) use peerlane_machine::fact::Fact;
pub(super) use peerlane_machine::machine::SourcedMatrix;
pub(super) use peerlane_machine::matrix::{Direction, Matrix};
pub(super) use peerlane_machine::origin::Origin;
pub(super) use peerlane_machine::subject::Subject;
