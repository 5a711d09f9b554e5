//! The command line: what may be written, and what it means.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use peerlane::check::Severity;
use peerlane::plan::{Scope, Test};
use peerlane::units::{Bytes, Seconds};

const TARGETS: &str = "\
TARGET is one of:
  live             this machine (the default where an NVIDIA GPU is found; else the example 7gforce)
  NAME             a system of the catalogue: 'peerlane systems' lists them
  FILE.toml        a system that you describe yourself
  FILE or FOLDER   text that a machine printed, recognised by content: nvidia-smi topo -m,
                   p2pBandwidthLatencyTest, nvbandwidth, NCCL XML, lstopo, lspci -vvv and more;
                   or what 'peerlane gather' saved
  run.json         a run that peerlane has recorded, also while it grows (run.json.partial)
  -                the same from standard input

Several files are taken as evidence of one machine, unless they speak of different ones:
  peerlane check <(nvidia-smi topo -m) <(nvidia-smi -q) p2p.txt

Exit status: 0 healthy or done, 1 check found something at or above --fail-on,
2 could not do it.";

/// What every path between the GPUs, NICs and host memory of a machine is, should deliver, does
/// deliver, and what to do about the difference.
#[derive(Debug, Parser)]
#[command(name = "peerlane", version, after_help = TARGETS, max_term_width = 100)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Compare a machine with what it should be and do, and say what to do about it
    Check(CheckArgs),
    /// Show a machine: its tree, its path classes, and the numbers found with it
    Map(MapArgs),
    /// Show the rates that a machine should reach, and what limits each
    Predict(PredictArgs),
    /// Explain the path between two nodes, hop by hop
    Explain(ExplainArgs),
    /// Measure the paths of this machine, or of a virtual one
    Measure(MeasureArgs),
    /// Simulate a workload on a machine, or on a cluster
    Simulate(SimulateArgs),
    /// Simulate workloads on several machines or clusters, and compare them
    Sweep(SweepArgs),
    /// Save what this machine tells of itself, to be looked at elsewhere
    Gather(GatherArgs),
    /// List the systems of the catalogue, or show one
    Systems(SystemsArgs),
    /// Answers one request of 'measure' in a process of its own
    #[command(hide = true)]
    Answer,
    /// Prints what NVML tells of this machine, as JSON, in a process of its own
    #[command(hide = true)]
    Discover,
}

/// Which machines a command works on.
#[derive(Debug, Args)]
pub(crate) struct Machines {
    /// A system name, a file, a folder, '-' or 'live'; several are taken together
    #[arg(value_name = "TARGET")]
    pub(crate) targets: Vec<String>,
    /// Of several machines in a document, take the one of this name or number (from 1)
    #[arg(short, long, value_name = "NAME")]
    pub(crate) machine: Option<String>,
}

/// How much is shown.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Detail {
    /// Write JSON instead; its field 'schema' names the format
    #[arg(long)]
    pub(crate) json: bool,
    /// Show all of it: every assumption, every unknown, where each number is from
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// Arguments of `check`.
#[derive(Debug, Args)]
#[command(after_help = TARGETS)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) machines: Machines,
    #[command(flatten)]
    pub(crate) detail: Detail,
    /// Exit with 1 if there is a finding of at least this severity
    #[arg(long, value_name = "SEVERITY", default_value = "error")]
    pub(crate) fail_on: FailOn,
    /// Judge this machine by what it says of itself, without moving a byte
    #[arg(long)]
    pub(crate) passive: bool,
    /// Measure GPUs that others use, too
    #[arg(long, conflicts_with = "passive")]
    pub(crate) force: bool,
}

/// The least severity that makes `check` exit with 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FailOn {
    /// Any finding, also what is shown as 'note'
    Info,
    /// What costs performance, or may
    Warning,
    /// What costs much, or does not work
    Error,
    /// Nothing
    Never,
}

impl FailOn {
    /// Whether a finding of that severity fails.
    pub(crate) fn includes(self, severity: Severity) -> bool {
        match self {
            Self::Info => true,
            Self::Warning => severity >= Severity::Warning,
            Self::Error => severity >= Severity::Error,
            Self::Never => false,
        }
    }
}

/// Arguments of `map`.
#[derive(Debug, Args)]
#[command(after_help = TARGETS)]
pub(crate) struct MapArgs {
    #[command(flatten)]
    pub(crate) machines: Machines,
    #[command(flatten)]
    pub(crate) detail: Detail,
    /// What to write; without it: tree, path classes, and what else was found
    #[arg(short, long, value_name = "FORMAT", conflicts_with = "json")]
    pub(crate) format: Option<Format>,
}

/// What `map` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Sockets, root complexes, switches and devices
    Tree,
    /// Path classes, and all numbers found
    Matrix,
    /// Graphviz
    Dot,
    /// A drawing
    Svg,
    /// JSON, as --json
    Json,
    /// A topology file for NCCL_TOPO_FILE
    NcclXml,
    /// A system file, to change and to check again
    System,
}

const MEASURED: &str = "\
TARGET is one of:
  live             this machine (the default)
  NAME             a system of the catalogue, as a virtual machine: peerlane measure h200x4-vm
  FILE.toml        a system that you describe yourself, as a virtual machine

Exit status: 0 done, 2 could not do it, or not all of it.";

/// Arguments of `measure`.
#[derive(Debug, Args)]
#[command(after_help = MEASURED)]
pub(crate) struct MeasureArgs {
    /// What to measure: 'live', a system's name, or a system file
    #[arg(value_name = "TARGET")]
    pub(crate) target: Option<String>,
    #[command(flatten)]
    pub(crate) detail: Detail,
    /// Only these tests
    #[arg(long, value_name = "TEST,…", value_delimiter = ',', value_parser = tests())]
    pub(crate) tests: Vec<Test>,
    /// Only steps between these: GPU0-GPU1, GPU0-host, GPU3
    #[arg(long, value_name = "PAIR,…", value_delimiter = ',')]
    pub(crate) pairs: Vec<String>,
    /// How precise: the width of the median's 95 % interval, as 1% or 0.01
    #[arg(long, value_name = "WIDTH", value_parser = share)]
    pub(crate) precision: Option<f64>,
    /// How long it may take in all, as 30s, 2m or 500ms; initialisation apart
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) budget: Option<Seconds>,
    /// What matters most, in about two seconds
    #[arg(long, conflicts_with = "full")]
    pub(crate) quick: bool,
    /// All that can be asked
    #[arg(long)]
    pub(crate) full: bool,
    /// Keep the run in this file, from its first number on
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Go on with the run in that file
    #[arg(long, requires = "output")]
    pub(crate) resume: bool,
    /// Measure GPUs that others use, too
    #[arg(long)]
    pub(crate) force: bool,
    /// How long a step may take before it is given up as hung
    #[arg(long, value_name = "TIME", value_parser = duration, hide = true)]
    pub(crate) patience: Option<Seconds>,
}

impl MeasureArgs {
    /// How much is asked.
    pub(crate) fn scope(&self) -> Scope {
        match (self.quick, self.full) {
            (true, _) => Scope::Quick,
            (_, true) => Scope::Full,
            _ => Scope::Default,
        }
    }
}

fn tests() -> impl TypedValueParser<Value = Test> {
    let named = |name: String| Test::ALL.into_iter().find(|test| test.name() == name).ok_or("no such test");
    PossibleValuesParser::new(Test::ALL.map(Test::name)).try_map(named)
}

/// `30s`, `2m`, `1.5h` or `500ms`.
fn duration(text: &str) -> Result<Seconds, String> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let factor = match unit {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err("a time is written as 30s, 2m or 500ms".to_owned()),
    };
    let number = text.strip_suffix(unit).and_then(|number| number.parse::<f64>().ok());
    let seconds = number.map(|n| n * factor).filter(|s| s.is_finite() && *s > 0.0);
    seconds.map(Seconds::new).ok_or_else(|| "a time above 0 is written as 30s, 2m or 500ms".to_owned())
}

/// `1%` or `0.01`.
fn share(text: &str) -> Result<f64, String> {
    let (number, factor) = match text.strip_suffix('%') {
        Some(percent) => (percent.trim_end(), 0.01),
        None => (text, 1.0),
    };
    let share = number.parse::<f64>().ok().map(|n| n * factor).filter(|s| *s > 0.0 && *s < 1.0);
    share.ok_or_else(|| "it is written as 1% or 0.01, above 0 and below 100%".to_owned())
}

/// Arguments of `predict`.
#[derive(Debug, Args)]
#[command(after_help = TARGETS)]
pub(crate) struct PredictArgs {
    #[command(flatten)]
    pub(crate) machines: Machines,
    #[command(flatten)]
    pub(crate) detail: Detail,
}

/// Arguments of `explain`.
#[derive(Debug, Args)]
#[command(after_help = TARGETS, override_usage = "peerlane explain [OPTIONS] [TARGET]... A B")]
pub(crate) struct ExplainArgs {
    /// The two nodes, after the TARGET if there is one: explain exxact-devbox GPU0 GPU2.
    /// 'host' is the host memory nearest to the other
    #[arg(value_names = ["A", "B"], required = true, num_args = 2..)]
    pub(crate) words: Vec<String>,
    /// Of several machines in a document, take the one of this name or number (from 1)
    #[arg(short, long, value_name = "NAME")]
    pub(crate) machine: Option<String>,
    #[command(flatten)]
    pub(crate) detail: Detail,
}

const SIMULATED: &str = "\
TARGET is one of:
  NAME             a system of the catalogue, or a cluster: quong, quong-20g, apenet-pair, tessa-pair,
                   hgx-h200-x32
  FILE.toml        a system or a cluster that you describe yourself
  what a machine printed, or a recorded run, as for every command
  any of these machines with --nodes N and --network: that many of them

WORKLOAD is one of:
  point-to-point:A:B                one message, from GPU A to GPU B (node0/GPU0 in a cluster)
  all-reduce[:ring|tree|hierarchical|rail]
  all-gather, reduce-scatter, all-to-all, broadcast
  halo:1, halo:2, halo:3            faces to both neighbours along each dimension of a grid
  spin-glass:l=256,sweeps=10,ns=…,overlap|serial,p2p|staged,strong|weak
  bfs:scale=18,edges=16,seed=1      breadth-first search of an R-MAT graph, level by level
  training:tp=8,pp=1,dp=…,params=7e9,layers=32,hidden=4096,tokens=4096,micro=8,tflops=400
  FILE.jsonl                        transfers and computing with what each waits for, one a line

Sizes are what nccl-tests calls the size; of a halo exchange, one face.";

/// Arguments of `simulate`.
#[derive(Debug, Args)]
#[command(after_help = SIMULATED)]
pub(crate) struct SimulateArgs {
    #[command(flatten)]
    pub(crate) machines: Machines,
    #[command(flatten)]
    pub(crate) grown: Grown,
    /// What to do
    #[arg(short, long, default_value = "all-reduce:ring")]
    pub(crate) workload: String,
    /// Sizes: 8B..1GiB (by powers of two), or 1MiB,64MiB
    #[arg(short, long, value_name = "SIZES", default_value = "64KiB..1GiB", value_parser = sizes)]
    pub(crate) sizes: Sizes,
    /// Also say what would help most: each bottleneck twice as fast, one at a time
    #[arg(long)]
    pub(crate) helps: bool,
    /// Write what happens at the last size as a trace for Perfetto or chrome://tracing
    #[arg(long, value_name = "FILE.json")]
    pub(crate) trace: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) detail: Detail,
}

/// Arguments of `sweep`.
#[derive(Debug, Args)]
#[command(after_help = SIMULATED)]
pub(crate) struct SweepArgs {
    /// Machines or clusters to compare
    #[arg(value_name = "TARGET", required = true)]
    pub(crate) targets: Vec<String>,
    #[command(flatten)]
    pub(crate) grown: Grown,
    /// What to do on each; may be given several times
    #[arg(short, long = "workload", value_name = "WORKLOAD", default_value = "all-reduce:ring")]
    pub(crate) workloads: Vec<String>,
    /// Sizes: 8B..1GiB (by powers of two), or 1MiB,64MiB
    #[arg(short, long, value_name = "SIZES", default_value = "256MiB", value_parser = sizes)]
    pub(crate) sizes: Sizes,
    /// Also write every point to this file
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) detail: Detail,
}

/// Many nodes of one machine.
#[derive(Clone, Debug, Args)]
pub(crate) struct Grown {
    /// So many nodes of the machine, joined by --network; several numbers show how it scales
    #[arg(long, value_name = "N,…", value_delimiter = ',', requires = "network")]
    pub(crate) nodes: Vec<u32>,
    /// Network between nodes: torus:4x4x1, fat-tree[:LEVELS[:TAPER]], rail[:LEVELS[:TAPER]],
    /// dragonfly[:GROUPSxROUTERSxPORTS] or switch
    #[arg(long, requires = "nodes")]
    pub(crate) network: Option<String>,
    /// Gb/s of a link of the network; the adapter's line rate where it is not given
    #[arg(long, value_name = "Gb/s", requires = "network")]
    pub(crate) link_rate: Option<f64>,
    /// Only the first so many nodes take part
    #[arg(long, value_name = "N")]
    pub(crate) use_nodes: Option<u32>,
    /// Only the first so many GPUs of each node take part
    #[arg(long, value_name = "N")]
    pub(crate) gpus_per_node: Option<usize>,
    /// Microseconds that each switch on the way adds
    #[arg(long, value_name = "us", requires = "network", default_value_t = 0.2)]
    pub(crate) hop_latency: f64,
}

/// Sizes of messages.
#[derive(Clone, Debug)]
pub(crate) struct Sizes(pub(crate) Vec<Bytes>);

/// Most sizes of one range.
const MOST_SIZES: usize = 64;

/// `8B..1GiB`, `1MiB,64MiB`.
fn sizes(text: &str) -> Result<Sizes, String> {
    let mut all = Vec::new();
    for part in text.split(',') {
        match part.split_once("..") {
            None => all.push(size(part)?),
            Some((low, high)) => {
                let (low, high) = (size(low)?.0.max(1), size(high)?.0);
                if high < low {
                    return Err(format!("'{part}' ends below where it begins"));
                }
                let doubled = std::iter::successors(Some(low), |s| s.checked_mul(2)).take_while(|s| *s <= high);
                all.extend(doubled.map(Bytes));
            }
        }
    }
    if all.len() > MOST_SIZES {
        return Err(format!("{} sizes; at most {MOST_SIZES}", all.len()));
    }
    Ok(Sizes(all))
}

/// `8B`, `64KiB`, `1GiB`; `K`, `M`, `G` mean the same, as for nccl-tests.
fn size(text: &str) -> Result<Bytes, String> {
    let text = text.trim();
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1_u64,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        _ => return Err(format!("'{text}': a size is written as 8B, 64KiB, 1MiB or 1GiB")),
    };
    let number = text.strip_suffix(unit).and_then(|n| n.parse::<f64>().ok()).map(|n| n * factor as f64);
    let bytes = number.filter(|n| n.is_finite() && *n >= 0.0 && *n < 1e18);
    bytes
        .map(|n| Bytes(n.round() as u64))
        .ok_or_else(|| format!("'{text}': a size is written as 8B, 64KiB, 1MiB or 1GiB"))
}

const GATHERED: &str = "\
What is saved is a TARGET anywhere: peerlane check FILE.tar.zst

It holds NVML's answers, nvidia-smi's, what sysfs and /proc say of PCI devices, NICs, CPUs and memory,
and lspci -vvv; a manifest lists it, and what could not be read. No program but nvidia-smi and lspci is
run, nothing is changed, and nothing is sent anywhere.";

/// Arguments of `gather`.
#[derive(Debug, Args)]
#[command(after_help = GATHERED)]
pub(crate) struct GatherArgs {
    /// A new folder, or a file that ends in .tar.zst
    #[arg(short, long, value_name = "FOLDER|FILE.tar.zst")]
    pub(crate) output: PathBuf,
    /// Replace serial numbers, UUIDs, MAC addresses, GUIDs and the host's name, each by the same stand-in everywhere
    #[arg(long)]
    pub(crate) redact: bool,
    /// Write the manifest as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `systems`.
#[derive(Debug, Args)]
pub(crate) struct SystemsArgs {
    /// What to do with the catalogue
    #[command(subcommand)]
    pub(crate) action: Option<SystemsAction>,
    #[command(flatten)]
    pub(crate) detail: SystemsDetail,
}

/// [`Detail`], valid before and after the action.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct SystemsDetail {
    /// Write JSON instead; its field 'schema' names the format
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Show all of it: the constants of each part with their sources
    #[arg(short, long, global = true)]
    pub(crate) verbose: bool,
}

/// What to do with the catalogue.
#[derive(Debug, Subcommand)]
pub(crate) enum SystemsAction {
    /// List all systems (the default)
    List,
    /// Show one system: all that its source states, and what is assumed
    Show {
        /// Its name, as 'peerlane systems' lists it
        name: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn times_have_units() {
        let seconds = |text: &str| duration(text).map(Seconds::seconds);
        assert_eq!((seconds("30s"), seconds("2m"), seconds("1.5h")), (Ok(30.0), Ok(120.0), Ok(5400.0)));
        assert_eq!(seconds("500ms"), Ok(0.5));
        for wrong in ["30", "", "s", "-1s", "0s", "1.2.3s", "1e400s", "five minutes", "٣s"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn widths_are_shares() {
        assert_eq!((share("1%"), share("0.01"), share("2.5 %")), (Ok(0.01), Ok(0.01), Ok(0.025)));
        for wrong in ["1", "0", "0%", "100%", "-1%", "nan", "", "%"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn fail_on_is_a_threshold() {
        assert!(FailOn::Warning.includes(Severity::Error) && !FailOn::Warning.includes(Severity::Info));
        assert!(!FailOn::Never.includes(Severity::Error) && FailOn::Info.includes(Severity::Info));
    }
}
