//! Arguments that several commands have.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use peerlane::check::{FindingKind, Severity};

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
    /// Exit with 1 if there is a fault or an outlier of at least this severity; limits of the design never count
    #[arg(long, value_name = "SEVERITY", default_value = "error")]
    pub(crate) fail_on: FailOn,
    #[command(flatten)]
    pub(crate) rules: Rules,
}

/// The least severity that makes `check` and `fleet` exit with 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// Any fault, including notes
    Info,
    /// Faults that cost, or may cost, performance
    Warning,
    /// Faults that cost much performance, and failures
    Error,
    /// Nothing: always exit with 0 if check ran
    Never,
}

impl FailOn {
    /// Whether findings of a kind and severity fail: a limit of the design never does, nor does a doubt about the measurement.
    pub(crate) fn as_test(self) -> impl Fn(FindingKind, Severity) -> bool {
        move |kind, severity| kind == FindingKind::Fault && self.reaches(severity)
    }

    /// Whether a fault of this severity fails.
    fn reaches(self, severity: Severity) -> bool {
        match self {
            Self::Info => true,
            Self::Warning => severity >= Severity::Warning,
            Self::Error => severity >= Severity::Error,
            Self::Never => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fail_on_is_a_threshold() {
        let fails = |on: FailOn, kind, severity| on.as_test()(kind, severity);
        let fault = |on, severity| fails(on, FindingKind::Fault, severity);
        assert!(fault(FailOn::Warning, Severity::Error) && !fault(FailOn::Warning, Severity::Info));
        assert!(!fault(FailOn::Never, Severity::Error) && fault(FailOn::Info, Severity::Info));
        for kind in [FindingKind::Design, FindingKind::Measurement] {
            assert!(!fails(FailOn::Info, kind, Severity::Error));
        }
    }
}
