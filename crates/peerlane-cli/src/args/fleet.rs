//! Arguments of `fleet`.

use std::ffi::OsString;

use clap::{Args, ValueEnum};
use peerlane_report::formats::Format;

use super::{CheckArgs, CheckFormat, Detail, Judgement, Redact};

const READ: &str = "\
Records of 'peerlane measure': files, whole or still growing; folders of them at any depth; archives
(.zip, .tar, packed or not); and output in which a label stands in front of every line:
  srun -N64 -l peerlane measure --quick --json | peerlane fleet -

Records of 'peerlane measure --nodes' count for each of their nodes, by its host's name.

A machine is named by its host, else by its folder, label or file. Records of one machine are its
history. Machines of a kind (same GPUs, NICs and path classes) are compared if there are four or
more. `peerlane help comparing-machines` has the thresholds.

Exit status: 0 done, 1 a machine at or above --fail-on, 2 failed, or something could not be read.";

/// Arguments of `fleet`.
#[derive(Debug, Args)]
#[command(after_help = READ)]
pub(crate) struct FleetArgs {
    /// Records, folders or archives of them, or '-' for standard input
    #[arg(value_name = "DIR|FILE", required = true)]
    pub(crate) targets: Vec<OsString>,
    /// Earlier records, to report what is worse since then; repeatable
    #[arg(long, value_name = "DIR|FILE")]
    pub(crate) baseline: Vec<OsString>,
    #[command(flatten)]
    pub(crate) detail: Detail,
    /// Output format
    #[arg(short, long, value_name = "FORMAT", default_value = "text", conflicts_with = "json")]
    pub(crate) format: FleetFormat,
    #[command(flatten)]
    pub(crate) judgement: Judgement,
    #[command(flatten)]
    pub(crate) redact: Redact,
}

/// What `fleet` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FleetFormat {
    /// Plain text for a terminal
    Text,
    /// JSON, as --json
    Json,
    /// Markdown for a ticket
    Markdown,
    /// Prometheus text format for a node exporter: machines by verdict, outliers
    Prometheus,
    /// JUnit XML for CI: one test case per machine, failed from the verdict of --fail-on on
    Junit,
    /// A table of outliers for spreadsheets
    Csv,
    /// Every number of every record, a row each, as CSV
    Values,
}

impl From<CheckFormat> for FleetFormat {
    fn from(format: CheckFormat) -> Self {
        match format {
            CheckFormat::Text => FleetFormat::Text,
            CheckFormat::Json => FleetFormat::Json,
            CheckFormat::Markdown => FleetFormat::Markdown,
            CheckFormat::Prometheus => FleetFormat::Prometheus,
            CheckFormat::Junit => FleetFormat::Junit,
        }
    }
}

impl FleetFormat {
    /// The format of a report; `None` of documents that each subject has its own of.
    pub(crate) fn of_report(self) -> Option<Format> {
        match self {
            FleetFormat::Text => Some(Format::Text),
            FleetFormat::Markdown => Some(Format::Markdown),
            FleetFormat::Prometheus => Some(Format::Prometheus),
            FleetFormat::Junit => Some(Format::Junit),
            FleetFormat::Json | FleetFormat::Csv | FleetFormat::Values => None,
        }
    }
}

impl FleetArgs {
    /// The option of `check` that says nothing of many records.
    pub(crate) fn refused(args: &CheckArgs) -> Option<&'static str> {
        let given = [
            (!args.what_if.edits.is_empty(), "--what-if"),
            (args.thresholds.is_some(), "--thresholds"),
            (args.learn.passive, "--passive"),
            (args.learn.force.given, "--force"),
        ];
        given.into_iter().find_map(|(is, option)| is.then_some(option))
    }

    /// Those of `check` with many records.
    pub(crate) fn of_check(args: &CheckArgs) -> Self {
        FleetArgs {
            targets: args.machines.targets.clone(),
            baseline: args.baseline.iter().map(|path| path.clone().into_os_string()).collect(),
            detail: args.detail,
            format: args.format.into(),
            judgement: args.judgement.clone(),
            redact: args.learn.redact,
        }
    }
}
