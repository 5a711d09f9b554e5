//! What rules read in NCCL's logs.

use super::view::View;
use super::words;
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

/// Settings of the environment that lower the rate of collectives.
pub(super) fn hindering(view: &View) -> Vec<String> {
    let of_log = |(log, _): (&NcclLog, &Origin)| {
        let is = |names: &[&str], value: fn(&str) -> bool| set(log, names, value);
        let few = |v: &str| v.parse::<u32>().is_ok_and(|n| (1..4).contains(&n));
        let all = [
            is(&["NCCL_P2P_DISABLE"], |v| v == "1"),
            is(&["NCCL_P2P_LEVEL"], |v| matches!(v, "LOC" | "0")),
            is(&["NCCL_PROTO"], |v| v == "LL"),
            is(&["NCCL_MAX_NCHANNELS", "NCCL_MAX_CTAS"], few),
        ];
        all.concat()
    };
    words::distinct(logs(view).into_iter().flat_map(of_log))
}

/// The variables that are set to something, of those named.
pub(super) fn set<'a>(log: &'a NcclLog, names: &[&str], is: impl Fn(&str) -> bool) -> Vec<String> {
    let value = |name: &&str| log.variables.get_key_value(*name).filter(|(_, value)| is(value));
    names.iter().filter_map(value).map(|(name, value): (&'a String, _)| format!("{name}={value}")).collect()
}
