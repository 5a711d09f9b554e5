//! Exit statuses by the conventions of the caller.

use crate::JsonSchema;
use crate::args::ExitStyle;
use peerlane::verdict::Gate;
use serde::Serialize;

/// What the caller has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Status {
    /// Jobs may run.
    Ok,
    /// Jobs may run; something is not explained.
    Hold,
    /// A fault that has not been found often enough in a row.
    Suspect,
    /// No jobs.
    Isolate,
    /// No verdict.
    Unknown,
}

impl Status {
    /// Of an outcome that has been found `failures` of `needed` times in a row.
    pub(super) fn of(outcome: Gate, failures: u32, needed: u32) -> Status {
        match outcome {
            Gate::Unknown => Status::Unknown,
            Gate::Isolate if failures < needed => Status::Suspect,
            Gate::Isolate => Status::Isolate,
            Gate::Hold => Status::Hold,
            Gate::Ok => Status::Ok,
        }
    }
}

/// What the gate itself could not do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Trouble {
    /// The drain or resume command failed.
    pub(super) command: bool,
    /// A file could not be written.
    pub(super) file: bool,
}

/// The exit status. That there is no verdict is never one that drains a node.
pub(super) fn code(style: ExitStyle, status: Status, trouble: Trouble) -> u8 {
    let troubled = trouble.command || trouble.file;
    match (style, status) {
        (ExitStyle::Native, Status::Isolate) if trouble.command => 3,
        (ExitStyle::Native, Status::Isolate) => 1,
        (ExitStyle::Native, _) => 2 * u8::from(troubled),
        (ExitStyle::Nagios, Status::Isolate) => 2,
        (ExitStyle::Nagios, Status::Unknown) => 3,
        (ExitStyle::Nagios, Status::Hold | Status::Suspect) => 1,
        (ExitStyle::Nagios, Status::Ok) => 3 * u8::from(troubled),
        (ExitStyle::Npd, Status::Isolate) => 1,
        (ExitStyle::Npd, Status::Unknown) => 2,
        (ExitStyle::Npd, _) => 2 * u8::from(troubled),
    }
}

/// The exit status where the arguments or a file of settings were wrong.
pub(super) fn failed(style: ExitStyle) -> u8 {
    if style == ExitStyle::Nagios { 3 } else { 2 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Trouble = Trouble { command: false, file: false };
    const COMMAND: Trouble = Trouble { command: true, file: false };

    #[test]
    fn what_is_not_judged_never_drains() {
        let of = |style| code(style, Status::Unknown, NONE);
        assert_eq!((of(ExitStyle::Native), of(ExitStyle::Nagios), of(ExitStyle::Npd)), (0, 3, 2));
    }

    #[test]
    fn each_style_has_its_numbers() {
        use ExitStyle::{Nagios, Native, Npd};
        let all = |style| {
            [Status::Ok, Status::Hold, Status::Suspect, Status::Isolate].map(|status| code(style, status, NONE))
        };
        assert_eq!((all(Native), all(Nagios), all(Npd)), ([0, 0, 0, 1], [0, 1, 1, 2], [0, 0, 0, 1]));
        let failing = |style| [Status::Ok, Status::Isolate].map(|status| code(style, status, COMMAND));
        assert_eq!((failing(Native), failing(Nagios), failing(Npd)), ([2, 3], [3, 2], [2, 1]));
    }

    #[test]
    fn a_fault_counts_once_it_was_found_often_enough() {
        let status = |failures| Status::of(Gate::Isolate, failures, 2);
        assert_eq!((status(1), status(2)), (Status::Suspect, Status::Isolate));
        assert_eq!((Status::of(Gate::Unknown, 5, 1), Status::of(Gate::Hold, 5, 1)), (Status::Unknown, Status::Hold));
    }
}
