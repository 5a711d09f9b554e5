//! Arguments of `check`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use peerlane::check::{Finding, FindingKind, Severity};

use super::{Detail, Machines, TARGETS, WhatIf};

const CHECKED: &str = "\
Three or more runs, or a folder of them, are treated as a fleet, as by 'peerlane fleet': machines of
a kind are compared, and outliers are listed.";

/// Arguments of `check`.
#[derive(Debug, Args)]
#[command(after_help = format!("{TARGETS}\n\n{CHECKED}"))]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) machines: Machines,
    #[command(flatten)]
    pub(crate) what_if: WhatIf,
    #[command(flatten)]
    pub(crate) detail: Detail,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text", conflicts_with = "json")]
    pub(crate) format: CheckFormat,
    /// Also write the HTML report to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Exit with 1 if there is a fault of at least this severity; limits of the design never count
    #[arg(long, value_name = "SEVERITY", default_value = "error")]
    pub(crate) fail_on: FailOn,
    /// Thresholds and waivers of this site; default: $PEERLANE_RULES, else /etc/peerlane/rules.toml if it exists
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Option<PathBuf>,
    /// Also compare with the floors that others publish for this product; the verdict does not change
    #[arg(long, value_name = "LIST", value_parser = ["azure", "oci", "nvsentinel", "all"])]
    pub(crate) thresholds: Option<String>,
    /// Also report what has changed since this earlier run of the machine
    #[arg(long, value_name = "RUN.json")]
    pub(crate) baseline: Option<PathBuf>,
    /// Check this machine by what it reports about itself; measure nothing
    #[arg(long)]
    pub(crate) passive: bool,
    /// Replace what identifies the machine, its site and its users by stand-ins (docs/security.md)
    #[arg(long)]
    pub(crate) redact: bool,
    /// Also measure GPUs that other processes are using
    #[arg(long, conflicts_with = "passive")]
    pub(crate) force: bool,
}

/// What `check` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CheckFormat {
    /// Plain text for a terminal
    Text,
    /// JSON, as --json
    Json,
    /// Markdown for a ticket
    Markdown,
    /// Prometheus text format for a node exporter: rates, expectations, findings
    Prometheus,
    /// JUnit XML for CI: one test case per rule, failed at or above --fail-on
    Junit,
}

/// The least severity that makes `check` exit with 1.
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
    /// Whether a finding fails: a limit of the design never does, nor does a doubt about the measurement.
    pub(crate) fn includes(self, finding: &Finding) -> bool {
        finding.kind == FindingKind::Fault && self.reaches(finding.severity)
    }

    /// Whether a fault of this severity fails.
    pub(crate) fn reaches(self, severity: Severity) -> bool {
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
    use peerlane::check::Certainty;

    #[test]
    fn fail_on_is_a_threshold() {
        let finding = |kind, severity| Finding {
            rule: String::new(),
            kind,
            severity,
            subjects: Vec::new(),
            summary: String::new(),
            expected: String::new(),
            measured: String::new(),
            evidence: Vec::new(),
            fix: String::new(),
            certainty: Certainty::Certain,
            confirm: String::new(),
            cost: None,
        };
        let fault = |severity| finding(FindingKind::Fault, severity);
        assert!(FailOn::Warning.includes(&fault(Severity::Error)) && !FailOn::Warning.includes(&fault(Severity::Info)));
        assert!(!FailOn::Never.includes(&fault(Severity::Error)) && FailOn::Info.includes(&fault(Severity::Info)));
        for kind in [FindingKind::Design, FindingKind::Measurement] {
            assert!(!FailOn::Info.includes(&finding(kind, Severity::Error)));
        }
    }
}
