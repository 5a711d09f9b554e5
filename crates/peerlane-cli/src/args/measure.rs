//! Arguments of `measure` and `infer`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use peerlane::infer::FlowKind;
use peerlane::plan::{Scope, Test};
use peerlane::simulated_cluster::ClusterFault;
use peerlane::units::Seconds;

use super::{Collect, Detail, Force, Machines, NodesArgs, Redact, TARGETS};

const MEASURED: &str = "\
TARGET is one of:
  live             this machine (the default)
  NAME             a system in the catalogue, simulated: peerlane measure h200x4-vm
  FILE.toml        a system that you describe yourself, simulated
  cluster:NAME     the nodes of a cluster, simulated: peerlane measure cluster:hgx-h200-x32

Exit status: 0 done, 2 failed, or only partly done.";

/// Arguments of `measure`.
#[derive(Debug, Args)]
#[command(after_help = MEASURED)]
pub(crate) struct MeasureArgs {
    /// 'live', a system name, a system file, or a cluster
    #[arg(value_name = "TARGET")]
    pub(crate) target: Option<OsString>,
    #[command(flatten)]
    pub(crate) detail: Detail,
    /// Run only these tests
    #[arg(long, value_name = "TEST,…", value_delimiter = ',', value_parser = tests())]
    pub(crate) tests: Vec<Test>,
    /// Measure only between these: GPU0-GPU1, GPU0-host, GPU3
    #[arg(long, value_name = "PAIR,…", value_delimiter = ',')]
    pub(crate) pairs: Vec<String>,
    /// Target half-width of the median's 95 % interval, as 1% or 0.01
    #[arg(long, value_name = "WIDTH", value_parser = share)]
    pub(crate) precision: Option<f64>,
    /// Time limit, as 30s, 2m or 500ms; does not include initialisation
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) budget: Option<Seconds>,
    /// Measure only the most important, in about a second on two GPUs, three on four
    #[arg(long, conflicts_with = "full")]
    pub(crate) quick: bool,
    /// Run every test
    #[arg(long)]
    pub(crate) full: bool,
    /// Record the run in this file, from the first value on
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) collect: Collect,
    /// Resume the run in that file
    #[arg(long, requires = "output")]
    pub(crate) resume: bool,
    #[command(flatten)]
    pub(crate) redact: Redact,
    #[command(flatten)]
    pub(crate) force: Force,
    /// Between nodes: measure every pair, both ways, in place of partners at distances of 1, 2, 4, …
    #[arg(long)]
    pub(crate) all_pairs: bool,
    /// Between nodes: load the links between switches as well, so that 'infer' tells what they carry
    #[arg(long)]
    pub(crate) uplinks: bool,
    /// Plant faults in a simulated cluster, as slow-node:node7:0.5 (docs/network.md)
    #[arg(long, value_name = "FAULT,…", value_delimiter = ',')]
    pub(crate) faults: Vec<ClusterFault>,
    /// Time after which a step counts as hung
    #[arg(long, value_name = "TIME", value_parser = duration, hide = true)]
    pub(crate) patience: Option<Seconds>,
    #[command(flatten)]
    pub(crate) between: NodesArgs,
}

impl MeasureArgs {
    /// How much to measure.
    pub(crate) fn scope(&self) -> Scope {
        match (self.quick, self.full) {
            (true, _) => Scope::Quick,
            (_, true) => Scope::Full,
            _ => Scope::Default,
        }
    }
}

/// Arguments of `infer`.
#[derive(Debug, Args)]
#[command(after_help = TARGETS)]
pub(crate) struct InferArgs {
    #[command(flatten)]
    pub(crate) machines: Machines,
    #[command(flatten)]
    pub(crate) detail: Detail,
    /// Measure nothing; use published or recorded numbers, as for a run or a capture
    #[arg(long, conflicts_with_all = ["directions", "force"])]
    pub(crate) recorded: bool,
    /// Measure only these directions
    #[arg(long, value_name = "DIRECTION,…", value_delimiter = ',', value_parser = ways())]
    pub(crate) directions: Vec<FlowKind>,
    /// Also write the result to this file, as JSON
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) force: Force,
}

fn ways() -> impl TypedValueParser<Value = FlowKind> {
    let named = |name: String| FlowKind::ALL.into_iter().find(|way| way.name() == name).ok_or("no such direction");
    PossibleValuesParser::new(FlowKind::ALL.map(FlowKind::name)).try_map(named)
}

fn tests() -> impl TypedValueParser<Value = Test> {
    let named = |name: String| Test::ALL.into_iter().find(|test| test.name() == name).ok_or("no such test");
    PossibleValuesParser::new(Test::ALL.map(Test::name)).try_map(named)
}

/// The longest time, in seconds: the system's clock cannot count much further.
const YEAR: f64 = 8760.0 * 3600.0;

/// `30s`, `2m`, `1.5h` or `500ms`.
pub(super) fn duration(text: &str) -> Result<Seconds, String> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let factor = match unit {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err("write a time as 30s, 2m or 500ms".to_owned()),
    };
    let number = text.strip_suffix(unit).and_then(|number| number.parse::<f64>().ok());
    let seconds = number.map(|n| n * factor).filter(|s| *s > 0.0 && *s <= YEAR);
    seconds.map(Seconds::new).ok_or_else(|| "write a time above 0 and up to 8760h, as 30s, 2m or 500ms".to_owned())
}

/// `1%` or `0.01`.
fn share(text: &str) -> Result<f64, String> {
    let (number, factor) = match text.strip_suffix('%') {
        Some(percent) => (percent.trim_end(), 0.01),
        None => (text, 1.0),
    };
    let share = number.parse::<f64>().ok().map(|n| n * factor).filter(|s| *s > 0.0 && *s < 1.0);
    share.ok_or_else(|| "write a share above 0 and below 100% as 1% or 0.01".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let seconds = |text: &str| duration(text).map(Seconds::seconds);
        assert_eq!((seconds("30s"), seconds("2m"), seconds("1.5h")), (Ok(30.0), Ok(120.0), Ok(5400.0)));
        assert_eq!(seconds("500ms"), Ok(0.5));
        for wrong in
            ["30", "", "s", "-1s", "0s", "1.2.3s", "1e400s", "99999999999999999999s", "8761h", "five minutes", "٣s"]
        {
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
}
