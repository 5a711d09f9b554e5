//! Options that apply only to some TARGETs: given for another, they are refused, not ignored.

use std::ffi::OsString;

use clap::ArgMatches;
use clap::parser::ValueSource;

/// Options that are about a measurement of this machine.
const OF_THIS_MACHINE: [(&str, &[&str]); 5] = [
    ("check", &["passive", "force"]),
    ("report", &["passive", "force"]),
    ("measure", &["force"]),
    ("infer", &["force"]),
    ("tune", &["force"]),
];

/// Why an option that was given cannot apply.
pub(super) fn refused(matches: &ArgMatches) -> Option<String> {
    let (name, given) = matches.subcommand()?;
    let (_, options) = OF_THIS_MACHINE.into_iter().find(|(command, _)| *command == name)?;
    let option = options.iter().find(|id| given.value_source(id) == Some(ValueSource::CommandLine))?;
    let words = ["targets", "target"].into_iter().find_map(|id| given.try_get_many::<OsString>(id).ok().flatten());
    let mut targets = words?.peekable();
    let first = targets.peek()?.to_string_lossy().into_owned();
    let this = targets.any(|target| target == "live");
    (!this).then(|| {
        format!("--{option} is about measuring this machine, and '{first}' is not 'live': leave one of them out")
    })
}
