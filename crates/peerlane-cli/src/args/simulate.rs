//! Arguments of `simulate` and `sweep`.

#![allow(rustdoc::broken_intra_doc_links, reason = "brackets in the help texts mean what may be left out")]

use std::path::PathBuf;

use clap::Args;
use peerlane::simulate::scaling::Scaling;
use peerlane::units::Bytes;

use super::{Detail, Machines};

const SIMULATED: &str = "\
TARGET is one of:
  NAME             a system of the catalogue, or a cluster: quong, quong-20g, apenet-pair, tessa-pair,
                   hgx-h200-x32
  FILE.toml        a system or a cluster that you describe yourself
  what a machine printed, or a recorded run, as for every command
  any of these machines with --nodes N and --network: that many of them

WORKLOAD is one of:
  point-to-point:A:B[:staged|loopback]  one message, from A to B (node0/GPU0 or node0/host0 in a cluster);
                                    loopback: within a node, out through its NIC and back
  all-reduce[:ring|ring-by-number|tree|hierarchical|rail]
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
    /// How it scales, over powers of two up to --nodes or the cluster's, or over the numbers given: weak
    /// (as much for each GPU) or strong (as much for all); at the largest of --sizes on the fewest nodes
    #[arg(long, value_name = "weak|strong", conflicts_with_all = ["helps", "trace"])]
    pub(crate) scaling: Option<Scaling>,
    /// Also write the points of --scaling to this file
    #[arg(long, value_name = "FILE", requires = "scaling")]
    pub(crate) csv: Option<PathBuf>,
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
    /// One table of all workloads at the largest size: GB/s that a GPU sends, and the rank
    #[arg(long, conflicts_with = "json")]
    pub(crate) rank: bool,
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
    /// Take out a link of a fat tree or rail network: uplink:leaf3 or uplink:leaf3/2, the first or third
    /// link up from a switch; may be given several times
    #[arg(long, value_name = "LINK")]
    pub(crate) fail: Vec<String>,
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
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        "t" | "tb" | "tib" => 1 << 40,
        _ => return Err(format!("'{text}': a size is written as 8B, 64KiB, 1MiB or 1GiB")),
    };
    let number = text.strip_suffix(unit).and_then(|n| n.parse::<f64>().ok()).map(|n| n * factor as f64);
    let bytes = number.filter(|n| n.is_finite() && *n >= 0.0 && *n < 1e18);
    bytes
        .map(|n| Bytes(n.round() as u64))
        .ok_or_else(|| format!("'{text}': a size is written as 8B, 64KiB, 1MiB or 1GiB"))
}
