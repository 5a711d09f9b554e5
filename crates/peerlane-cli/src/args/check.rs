//! Arguments of `check`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{Detail, Judgement, Learn, Machines, TARGETS, WhatIf};

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
    #[command(flatten)]
    pub(crate) judgement: Judgement,
    /// Also compare with the floors that others publish for this product; the verdict does not change
    #[arg(long, value_name = "LIST", value_parser = ["azure", "oci", "nvsentinel", "all"])]
    pub(crate) thresholds: Option<String>,
    /// Also report what has changed since this earlier run of the machine
    #[arg(long, value_name = "RUN.json")]
    pub(crate) baseline: Option<PathBuf>,
    /// Also know the messages that the TOML files of this folder explain; what they add is marked
    #[arg(long, value_name = "FOLDER")]
    pub(crate) knowledge: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) learn: Learn,
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
    /// JUnit XML for CI: one test case per rule, failed from the verdict of --fail-on on
    Junit,
}
