//! The command line.

mod check;
mod collect;
mod conditions;
mod examples;
mod fleet;
mod gate;
mod measure;
mod new;
mod nodes;
mod place;
mod plan;
mod shared;
mod simulate;
mod top;
mod tune;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use peerlane::units::Bytes;
use peerlane::what_if::Edit;
use peerlane_report::render;

pub(crate) use check::{CheckArgs, CheckFormat};
pub(crate) use collect::Collect;
pub(crate) use fleet::{FleetArgs, FleetFormat};
pub(crate) use gate::{ExitStyle, GateArgs, SurveyArgs};
pub(crate) use measure::{InferArgs, MeasureArgs};
pub(crate) use new::NewArgs;
pub(crate) use nodes::NodesArgs;
pub(crate) use place::{PlaceArgs, PlaceFormat};
pub(crate) use plan::PlanArgs;
pub(crate) use shared::{Force, Judgement, Learn, Redact, Rules};
pub(crate) use simulate::{Grown, HOP_LATENCY, SimulateArgs, Steps, SweepArgs, Traces, is_trace};
pub(crate) use top::TopArgs;
pub(crate) use tune::TuneArgs;

const TARGETS: &str = "\
TARGET is one of:
  live             this machine (the default if it has an NVIDIA GPU; otherwise the example slow-node)
  NAME             a system in the catalogue: 'peerlane systems' lists them
  'PARTS'          a machine by its parts: '4x L40S + 2x 200G'; what is not stated is assumed
  FILE.toml        a system that you describe yourself
  FILE or FOLDER   text that a machine printed, recognised by content: nvidia-smi topo -m,
                   p2pBandwidthLatencyTest, nvbandwidth, NCCL XML, lstopo, lspci -vvv and more;
                   or the output of 'peerlane gather'
  run.json         a recorded run, even while it is being written (run.json.partial)
  -                any of these files from standard input

Several files are combined as evidence of one machine, unless they describe different ones:
  peerlane check <(nvidia-smi topo -m) <(nvidia-smi -q) p2p.txt

Exit status: 0 done, 1 the verdict of check is at or above --fail-on, 2 failed, or only
partly done.";

/// Shows what every path between the GPUs, NICs and host memory of a machine is, what it should
/// deliver, what it does deliver, and what to do about the difference.
#[derive(Debug, Parser)]
#[command(name = "peerlane", version, after_help = TARGETS, max_term_width = 100)]
#[command(override_usage = "peerlane <COMMAND>", arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// The command to run; none only with `--licenses`.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// Print the licences of this program and of the software in it
    #[arg(long, exclusive = true)]
    pub(crate) licenses: bool,
    #[command(flatten)]
    pub(crate) terminal: Terminal,
}

/// How much every command shows, and in which colours.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Terminal {
    /// Show everything: every finding, number, assumption and unknown, and the source of each
    #[arg(short, long, global = true, conflicts_with = "quiet")]
    pub(crate) verbose: bool,
    /// Show only the answer, without progress and notes
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// When to use colours; 'auto' also follows NO_COLOR
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(crate) color: Color,
}

/// When output has colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal
    Auto,
    /// Also in a pipe or file
    Always,
    /// Never
    Never,
}

/// The command line, with examples in the help of each command.
pub(crate) fn command() -> clap::Command {
    examples::with_examples(Cli::command())
}

/// Reads the program's name and its arguments.
pub(crate) fn parse(words: &[OsString]) -> Result<Cli, clap::Error> {
    let mut command = command();
    let matches = command.try_get_matches_from_mut(words)?;
    if let Some((name, why)) = conditions::refused(&matches) {
        let named = command.find_subcommand_mut(name).map(|command| command.error(ErrorKind::ArgumentConflict, &why));
        return Err(named.unwrap_or_else(|| command.error(ErrorKind::ArgumentConflict, &why)));
    }
    Cli::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check a machine against what it should be and deliver, and suggest fixes
    Check(CheckArgs),
    /// Show a machine: PCIe tree, path classes, and the numbers found with it
    Map(MapArgs),
    /// Predict the rates of a machine, and what limits each
    Predict(PredictArgs),
    /// Write an HTML report in one file: drawing, findings, heat maps, curves, run record
    Report(ReportArgs),
    /// Explain the path between two nodes, hop by hop
    Explain(ExplainArgs),
    /// Compare designs, machines and runs side by side, with a conclusion
    Compare(CompareArgs),
    /// Choose GPUs, their order, NICs, cores and memory for one or more jobs
    Place(PlaceArgs),
    /// Find the settings of NCCL that make a machine's collectives faster, and measure them
    Tune(TuneArgs),
    /// Infer bandwidth limits that no topology shows, by running sets of transfers at once
    Infer(InferArgs),
    /// Measure the paths of this machine, or of a simulated one
    Measure(MeasureArgs),
    /// Compare the records of many machines: outliers, the worst first, and what changed
    Fleet(FleetArgs),
    /// Decide in seconds whether jobs may run on this machine; drain it if not
    Gate(GateArgs),
    /// Show the traffic on every link of this machine now, and its share of what the link should carry
    Top(TopArgs),
    /// Simulate a workload on a machine, or on a cluster
    Simulate(SimulateArgs),
    /// Simulate workloads on several machines or clusters, and compare them
    Sweep(SweepArgs),
    /// Find the split of a model over a cluster that trains it fastest
    Plan(PlanArgs),
    /// Write a system file of a machine to build, from its board's slot table, and check it
    New(NewArgs),
    /// Save what this machine reports about itself, for analysis elsewhere
    Gather(GatherArgs),
    /// List the systems in the catalogue, or show one
    Systems(SystemsArgs),
    /// Compare the model with every published and recorded number in the catalogue
    Accuracy(AccuracyArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print the manual page
    Man(ManArgs),
    /// Plant faults in simulated machines; test that check finds them and nothing else
    Selftest(SelftestArgs),
    /// Show the help of a command, or a page of the manual, a rule or a term
    Help(HelpArgs),
    /// Measures for 'measure', 'infer' and 'tune', in its own process
    #[command(hide = true)]
    Worker,
    /// Prints what NVML reports about this machine as JSON, in its own process
    #[command(hide = true)]
    Discover,
    /// Holds the sides of steps between nodes that need CUDA, in its own process
    #[command(hide = true)]
    GpuSides,
    /// Reads the counters of this machine's links for 'top', in its own process
    #[command(hide = true)]
    Meter,
    /// Prints what this machine reports about itself as JSON for 'gate', in its own process
    #[command(hide = true)]
    Survey(SurveyArgs),
}

/// The machines that a command works on.
#[derive(Debug, Args)]
pub(crate) struct Machines {
    /// A system name, a file, a folder, '-' or 'live'; several are combined
    #[arg(value_name = "TARGET")]
    pub(crate) targets: Vec<OsString>,
    /// If the input describes several machines, select one by name or number (from 1)
    #[arg(short, long, value_name = "NAME")]
    pub(crate) machine: Option<String>,
}

/// How much is shown.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Detail {
    /// Write JSON; its field 'schema' names the format
    #[arg(long)]
    pub(crate) json: bool,
    #[arg(from_global)]
    pub(crate) verbose: bool,
    #[arg(from_global)]
    pub(crate) quiet: bool,
}

impl Detail {
    /// How much of a text is shown.
    pub(crate) fn of_text(self) -> render::Detail {
        render::Detail { verbose: self.verbose, quiet: self.quiet }
    }
}

/// Changes to the design.
#[derive(Clone, Debug, Args)]
pub(crate) struct WhatIf {
    /// Change the design first: 'GPU0.link=pcie 3.0 x16', 'GPU2.at=plx0', 'plx0.part=pex8780',
    /// 'mlx5_0.method=bar1', 'GPU3=none' (peerlane help what-if); repeatable. 'NAME:CHANGE' changes only that machine
    #[arg(long = "what-if", value_name = "CHANGE")]
    pub(crate) edits: Vec<Edit>,
}

/// Arguments of `report`.
#[derive(Debug, Args)]
#[command(after_help = TARGETS)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    pub(crate) machines: Machines,
    #[command(flatten)]
    pub(crate) what_if: WhatIf,
    /// Output file; '-' for standard output
    #[arg(short, long, value_name = "FILE.html")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) learn: Learn,
}

/// Arguments of `completions`.
#[derive(Debug, Args)]
#[command(after_help = "bash: peerlane completions bash > /etc/bash_completion.d/peerlane\n\
                        fish: peerlane completions fish > ~/.config/fish/completions/peerlane.fish\n\
                        zsh:  peerlane completions zsh > _peerlane, in a directory of $fpath")]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// Arguments of `man`.
#[derive(Debug, Args)]
#[command(after_help = "To read it: peerlane man | man -l -\nTo install: peerlane man -o /usr/local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Print the page of this command
    pub(crate) command: Option<String>,
    /// Write all pages to this folder
    #[arg(short, long, value_name = "FOLDER", conflicts_with = "command")]
    pub(crate) output: Option<PathBuf>,
}

/// Arguments of `help`.
#[derive(Debug, Args)]
pub(crate) struct HelpArgs {
    /// A command, a page (what-if, or fleet.md where a command has its name), a rule, a heading or a word of the glossary;
    /// without one, the commands and the pages
    pub(crate) topic: Vec<String>,
}

/// Arguments of `map`.
#[derive(Debug, Args)]
#[command(after_help = TARGETS)]
pub(crate) struct MapArgs {
    #[command(flatten)]
    pub(crate) machines: Machines,
    #[command(flatten)]
    pub(crate) what_if: WhatIf,
    #[command(flatten)]
    pub(crate) detail: Detail,
    #[command(flatten)]
    pub(crate) redact: Redact,
    /// Output format; default: tree, path classes, and a list of what else was found
    #[arg(short, long, value_name = "FORMAT", conflicts_with = "json")]
    pub(crate) format: Option<Format>,
}

/// What `map` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// PCIe tree: sockets, root complexes, switches and devices
    Tree,
    /// Path classes, and all matrices of numbers
    Matrix,
    /// Graphviz graph
    Dot,
    /// SVG drawing
    Svg,
    /// JSON, as --json
    Json,
    /// Topology file for NCCL_TOPO_FILE
    NcclXml,
    /// System file, to edit and check again
    System,
}

/// Arguments of `predict`.
#[derive(Debug, Args)]
#[command(after_help = TARGETS)]
pub(crate) struct PredictArgs {
    #[command(flatten)]
    pub(crate) machines: Machines,
    #[command(flatten)]
    pub(crate) what_if: WhatIf,
    #[command(flatten)]
    pub(crate) detail: Detail,
    /// Show rates by message size, for one path of each kind: 4K,64K,1M,1G; without a list, powers of 4
    #[arg(long, value_name = "SIZE,…", value_parser = sizes, num_args = 0..=1, require_equals = true,
        default_missing_value = "1K,4K,16K,64K,256K,1M,4M,16M,64M,256M,1G")]
    pub(crate) sizes: Option<Sizes>,
    /// Show the time and bus bandwidth of collectives among all GPUs, as NCCL or RCCL would do them, by size
    #[arg(long, value_name = "SIZE,…", value_parser = sizes, num_args = 0..=1, require_equals = true,
        default_missing_value = "8,1K,32K,256K,1M,4M,16M,64M,256M,1G,4G,16G")]
    pub(crate) collectives: Option<Sizes>,
}

/// Sizes of messages.
pub(crate) type Sizes = Vec<Bytes>;

/// `4K,64K,1M`.
fn sizes(text: &str) -> Result<Sizes, String> {
    let one = |text: &str| text.parse::<Bytes>().ok().filter(|size| size.0 > 0);
    let parsed: Option<Sizes> = text.split(',').map(one).collect();
    parsed.ok_or_else(|| "write sizes above 0 as 4K,64KiB,1M,1GB; K and KiB are 1024 bytes, KB is 1000".to_owned())
}

/// Arguments of `explain`.
#[derive(Debug, Args)]
#[command(after_help = TARGETS, override_usage = "peerlane explain [OPTIONS] [TARGET]... A B")]
pub(crate) struct ExplainArgs {
    /// The two nodes, after the TARGET if there is one: explain exxact-devbox GPU0 GPU2.
    /// 'host' means the host memory nearest to the other node
    #[arg(value_names = ["A", "B"], required = true, num_args = 1..)]
    pub(crate) words: Vec<OsString>,
    /// If the input describes several machines, select one by name or number (from 1)
    #[arg(short, long, value_name = "NAME")]
    pub(crate) machine: Option<String>,
    #[command(flatten)]
    pub(crate) what_if: WhatIf,
    /// Also show how two GPUs should exchange the faces of a grid, and from which lattice a spin glass on both is faster than
    /// on one. --json always has it
    #[arg(long)]
    pub(crate) halo: bool,
    #[command(flatten)]
    pub(crate) detail: Detail,
}

/// Arguments of `compare`.
#[derive(Debug, Args)]
#[command(after_help = TARGETS)]
pub(crate) struct CompareArgs {
    /// Two or more system names, files, folders, runs, '-' or 'live', each describing one machine.
    /// With --what-if, each changed design is compared with its original
    #[arg(value_name = "TARGET", required = true)]
    pub(crate) targets: Vec<OsString>,
    #[command(flatten)]
    pub(crate) what_if: WhatIf,
    /// Also write the comparison as an HTML report to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) detail: Detail,
}

const GATHERED: &str = "\
The result is a TARGET on any machine: peerlane check FILE.tar.zst

It holds the output of NVML, nvidia-smi and lspci -vvv, and what sysfs and /proc report about PCI
devices, NICs, CPUs and memory. A manifest lists the contents and what could not be read. No
program other than nvidia-smi and lspci is run, nothing is changed, and nothing is sent anywhere.";

/// Arguments of `gather`.
#[derive(Debug, Args)]
#[command(after_help = GATHERED)]
pub(crate) struct GatherArgs {
    /// A new folder, or a file named *.tar.zst
    #[arg(short, long, value_name = "FOLDER|FILE.tar.zst", required_unless_present = "to")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) collect: Collect,
    #[command(flatten)]
    pub(crate) redact: Redact,
    /// Write the manifest as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `systems`.
#[derive(Debug, Args)]
pub(crate) struct SystemsArgs {
    /// Action
    #[command(subcommand)]
    pub(crate) action: Option<SystemsAction>,
    #[command(flatten)]
    pub(crate) detail: SystemsDetail,
}

/// [`Detail`], valid before and after the action.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct SystemsDetail {
    /// Write JSON; its field 'schema' names the format
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[arg(from_global)]
    pub(crate) verbose: bool,
}

/// Arguments of `accuracy`.
#[derive(Debug, Args)]
pub(crate) struct AccuracyArgs {
    /// A system file, capture or recorded run with figures, each a machine; default: the whole catalogue
    #[arg(value_name = "TARGET", conflicts_with = "page")]
    pub(crate) targets: Vec<OsString>,
    /// Write JSON; its field 'schema' names the format
    #[arg(long, conflicts_with = "page")]
    pub(crate) json: bool,
    /// Write the page validation/accuracy.md
    #[arg(long)]
    pub(crate) page: bool,
    #[arg(from_global)]
    pub(crate) verbose: bool,
}

/// Arguments of `selftest`.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct SelftestArgs {
    /// Write JSON; its field 'schema' names the format
    #[arg(long)]
    pub(crate) json: bool,
    #[arg(from_global)]
    pub(crate) verbose: bool,
    /// Seed of noise, model deviations, machines and fault positions
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) seed: u64,
    /// Test instead whether the bad machines of a simulated fleet of N machines are found among their peers, and by a
    /// gate alone
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(30..=100_000))]
    pub(crate) fleet: Option<u32>,
    /// Faults to plant in the fleet, of all kinds in turn
    #[arg(long, value_name = "N", requires = "fleet", default_value_t = 100, conflicts_with = "curve")]
    pub(crate) faults: u32,
    /// Plant each kind N times at each of nine sizes, for a detection curve
    #[arg(long, value_name = "N", requires = "fleet")]
    pub(crate) curve: Option<u32>,
}

/// Actions on the catalogue.
#[derive(Debug, Subcommand)]
pub(crate) enum SystemsAction {
    /// List all systems and clusters (the default)
    List,
    /// Show one system or cluster: everything its source states, and what is assumed
    Show {
        /// Its name, as 'peerlane systems' lists it
        name: String,
    },
    /// List the parts that system files and 'peerlane new' can name
    Parts {
        /// Only those whose name, title or kind contains all of these words
        words: Vec<String>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// `tests/suite/doors.rs` gives each of them what is no file.
    #[test]
    fn the_table_of_doors_has_every_argument_that_names_a_file() {
        let kinds = [clap::value_parser!(PathBuf).type_id(), clap::value_parser!(OsString).type_id()];
        let mut found = Vec::new();
        for command in Cli::command().get_subcommands() {
            for argument in command.get_arguments().filter(|a| kinds.contains(&a.get_value_parser().type_id())) {
                let value = || argument.get_value_names().and_then(|names| Some(names.first()?.to_string()));
                let name = argument.get_long().map(|name| format!("--{name}")).or_else(value).unwrap();
                found.push(format!("{} {name}", command.get_name()));
            }
        }
        found.sort();
        let table = include_str!("../tests/suite/doors/table.txt").lines();
        let lines = table.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let listed: Vec<String> = lines.map(|line| line.split(' ').take(2).collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(listed, found);
    }

    #[test]
    fn sizes_have_units() {
        let expected = [512, 4 << 10, 64 << 10, 1 << 20, 2_000_000_000].map(Bytes).to_vec();
        assert_eq!(sizes("512,4K,64KiB,1M,2GB"), Ok(expected));
        for wrong in ["", "0", "4X", "K", "1K,", "-1K", "99999999999G"] {
            assert!(sizes(wrong).is_err(), "{wrong}");
        }
    }
}
