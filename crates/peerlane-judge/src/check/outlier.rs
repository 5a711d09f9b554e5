//! Machines that differ from others of their kind. [`crate::fleet`] compares them.

use super::prelude::*;

pub(crate) const RULE: Rule = Rule::new("outlier", Look::Fleet);
