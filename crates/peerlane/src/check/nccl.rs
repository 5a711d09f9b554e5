//! What rules ask of NCCL's logs.

use super::gpu_setting::numbered;
use super::view::View;
use crate::evidence::{Fact, NcclLog, Origin};
use crate::fabric::NodeId;

/// The logs, each with where it stands.
pub(super) fn logs<'a>(view: &View<'a>) -> Vec<(&'a NcclLog, &'a Origin)> {
    let log = |e: &'a crate::evidence::Evidence| match &e.fact {
        Fact::NcclLog(log) => Some((log, &e.origin)),
        _ => None,
    };
    view.machine.evidence.iter().filter_map(log).collect()
}

/// The GPU of a rank of this machine.
pub(super) fn gpu(view: &View, log: &NcclLog, rank: u32) -> Option<NodeId> {
    let rank = log.ranks.get(&rank)?;
    let by_address = rank.address.and_then(|at| view.gpus_by_address().get(&at).copied());
    by_address.or_else(|| numbered(view, rank.driver?))
}

/// The variables that are set to something, of those named.
pub(super) fn set<'a>(log: &'a NcclLog, names: &[&str], is: impl Fn(&str) -> bool) -> Vec<String> {
    let value = |name: &&str| log.variables.get_key_value(*name).filter(|(_, value)| is(value));
    names.iter().filter_map(value).map(|(name, value): (&'a String, _)| format!("{name}={value}")).collect()
}
