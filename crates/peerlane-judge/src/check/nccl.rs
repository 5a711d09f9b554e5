//! What rules read in NCCL's logs.

use super::view::View;
use peerlane_machine::fact::{Fact, NcclLog};
use peerlane_machine::origin::Origin;

/// The logs, each with its source.
pub(super) fn logs<'a>(view: &View<'a>) -> Vec<(&'a NcclLog, &'a Origin)> {
    let log = |fact: &'a Fact| match fact {
        Fact::NcclLog(log) => Some(log),
        _ => None,
    };
    view.facts(log).collect()
}

/// The variables that are set to something, of those named.
pub(super) fn set<'a>(log: &'a NcclLog, names: &[&str], is: impl Fn(&str) -> bool) -> Vec<String> {
    let value = |name: &&str| log.variables.get_key_value(*name).filter(|(_, value)| is(value));
    names.iter().filter_map(value).map(|(name, value): (&'a String, _)| format!("{name}={value}")).collect()
}
