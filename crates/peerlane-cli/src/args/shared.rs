//! Arguments that several commands have.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use peerlane::verdict::Line;

/// What leaves the machine.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Redact {
    /// Replace what identifies machines, their site and its users by stand-ins (docs/security.md)
    #[arg(id = "redact", long = "redact")]
    pub(crate) given: bool,
}

/// Whether GPUs in use are measured.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Force {
    /// Also measure GPUs that other processes are using
    #[arg(id = "force", long = "force")]
    pub(crate) given: bool,
}

/// How `check` and `report` learn about this machine.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Learn {
    /// Rely on what this machine reports about itself; measure nothing
    #[arg(long, conflicts_with = "force")]
    pub(crate) passive: bool,
    #[command(flatten)]
    pub(crate) force: Force,
    #[command(flatten)]
    pub(crate) redact: Redact,
}

/// The settings of a site.
#[derive(Clone, Debug, Args)]
pub(crate) struct Rules {
    /// Thresholds and waivers of this site; default: $PEERLANE_RULES, else /etc/peerlane/rules.toml if it exists
    #[arg(long = "rules", value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// What `check` and `fleet` do with a verdict.
#[derive(Clone, Debug, Args)]
pub(crate) struct Judgement {
    /// Also write the result as an HTML page to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Exit with 1, and let JUnit cases fail, from this verdict on
    #[arg(long, value_name = "VERDICT", default_value = "fault")]
    pub(crate) fail_on: FailOn,
    #[command(flatten)]
    pub(crate) rules: Rules,
}

/// The verdict from which `check` and `fleet` exit with 1. The names of severities that it once had are kept as aliases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// Something does not work, or is below its interval with a named place
    #[value(alias = "error")]
    Fault,
    /// A line or a value speaks of trouble, and nothing known explains it
    #[value(alias = "warning")]
    Unexplained,
    /// The build or a setting costs something that was requested
    #[value(alias = "info")]
    Limited,
    /// Nothing: always exit with 0 if check ran
    Never,
}

impl From<FailOn> for Line {
    fn from(given: FailOn) -> Line {
        match given {
            FailOn::Fault => Line::Fault,
            FailOn::Unexplained => Line::Unexplained,
            FailOn::Limited => Line::Limited,
            FailOn::Never => Line::Never,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_severities_are_aliases() {
        let named = |name: &str| FailOn::from_str(name, false);
        assert_eq!(
            ["error", "warning", "info", "never"].map(named),
            ["fault", "unexplained", "limited", "never"].map(named)
        );
        assert!(named("error").is_ok() && named("fatal").is_err());
    }
}
