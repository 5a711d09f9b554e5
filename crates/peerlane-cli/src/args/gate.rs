//! Arguments of `gate`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use peerlane::units::Seconds;

use super::Rules;
use super::measure::duration;

const GATED: &str = "\
TARGET is 'live' (the default), or a system to simulate, as for 'measure'.

Commands are split into words once, quotes included, and run without a shell. In each word %h is the
host, %r the reason (at most 80 characters), %a the action (isolate, reset) and %% a percent sign:
  --drain-command 'scontrol update nodename=%h state=drain reason=\"%r\"'

Exit status:
  native   0 jobs may run (ok, hold, unknown), 1 fault, 2 the gate itself failed,
           3 fault, and the drain command failed
  nagios   0 ok, 1 hold or not yet --failures times, 2 fault, 3 unknown or failed
  npd      0 ok, 1 fault, 2 unknown or failed (node-problem-detector)

`peerlane help fleet.md` describes use in Slurm, Kubernetes and Nagios.";

/// Arguments of `gate`.
#[derive(Debug, Args)]
#[command(after_help = GATED)]
pub(crate) struct GateArgs {
    /// 'live', a system name, or a system file
    #[arg(value_name = "TARGET")]
    pub(crate) target: Option<OsString>,
    /// Time by which the command ends, whatever the driver does
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "20s")]
    pub(crate) deadline: Seconds,
    /// Only what the machine reports about itself: no measurement, also while jobs run
    #[arg(long, conflicts_with = "output")]
    pub(crate) passive: bool,
    /// The GPUs that the machine should have; with fewer it is isolated
    #[arg(long, value_name = "N")]
    pub(crate) gpus: Option<usize>,
    /// Exit status for this kind of caller
    #[arg(long, value_name = "STYLE", default_value = "native")]
    pub(crate) exit: ExitStyle,
    /// Remember failures, passes and drains in this file, which calls share
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<PathBuf>,
    /// Failures in a row before the machine is drained [a driver that hangs: at least 2]
    #[arg(long, requires = "state", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) failures: u32,
    /// Passes in a row before it is resumed
    #[arg(long, requires = "state", value_name = "M", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) recoveries: u32,
    /// What takes the machine out of service
    #[arg(long, value_name = "COMMAND")]
    pub(crate) drain_command: Option<String>,
    /// What takes it back into service
    #[arg(long, value_name = "COMMAND", requires = "state")]
    pub(crate) resume_command: Option<String>,
    /// After a repair: forget failures in the state file, and what the kernel has logged up to now
    #[arg(long, requires = "state")]
    pub(crate) clear: bool,
    #[command(flatten)]
    pub(crate) rules: Rules,
    /// Also judge what has become worse since this earlier run of the machine
    #[arg(long, value_name = "RUN.json")]
    pub(crate) baseline: Option<PathBuf>,
    /// Write the record of the measurements to this file
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Write JSON; its field 'schema' names the format
    #[arg(long)]
    pub(crate) json: bool,
    #[arg(from_global)]
    pub(crate) verbose: bool,
}

/// Whose conventions the exit status follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExitStyle {
    /// 0 jobs may run, 1 fault, 2 failed, 3 fault and the drain command failed
    Native,
    /// 0 ok, 1 warning, 2 critical, 3 unknown
    Nagios,
    /// 0 ok, 1 problem, 2 unknown, as for node-problem-detector
    Npd,
}

/// Arguments of the hidden `survey`.
#[derive(Debug, Args)]
pub(crate) struct SurveyArgs {
    /// How long NVML may take
    #[arg(long, value_parser = duration)]
    pub(crate) patience: Seconds,
}
