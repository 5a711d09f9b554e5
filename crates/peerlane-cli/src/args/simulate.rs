//! Arguments of `simulate` and `sweep`.

#![allow(rustdoc::broken_intra_doc_links, reason = "brackets in the help texts mean what may be left out")]

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;
use peerlane::input_file;
use peerlane::simulate::model_step::measured::Measured;
use peerlane::simulate::scaling::Scaling;
use peerlane::simulate::workload::{Sizes, Workload};
use peerlane::traces::{Format, format_of};

use super::{Detail, Machines, WhatIf};

const SIMULATED: &str = "\
TARGET is one of:
  NAME          a system or cluster in the catalogue: 'peerlane systems' lists them
  FILE.toml     a system or cluster that you describe yourself
  FILE, FOLDER, run.json or '-', as for 'peerlane check'
With --nodes and --network, a machine becomes a cluster of that many nodes.

WORKLOAD is one of:
  point-to-point:A:B[:METHOD|loopback]
                            one message from A to B (in a cluster: node0/GPU0 or node0/host0);
                            METHOD: nvp2p, bar1, staged or staged:chunk=256K,depth=4;
                            loopback: within a node, out through its NIC and back
  all-reduce[:ring|ring-by-number|tree|hierarchical|rail]
  all-gather[:ring], reduce-scatter[:ring], broadcast[:ring], all-to-all[:pairs]
                            alone as NCCL or RCCL does it, by :ring+ll128 and the like its own choice; or the schedule alone
  halo:1, halo:2, halo:3    faces to both neighbours along each dimension of a grid
  spin-glass:l=256,sweeps=10,ns=…,overlap|serial,p2p|METHOD,strong|weak
  bfs:scale=18,edges=16,seed=1
                            breadth-first search of an R-MAT graph, level by level
  training:model=llama-3-70b,tp=8,pp=4,batch=512,…  a step of training: peerlane help planning
  decode:…, prefill:…, serve:…
                            inference: a token of each sequence, prompts, and both on GPUs of their own
  FILE.jsonl                transfers, collectives and computations with their dependencies, one per line
  FILE, FOLDER              a recorded step of training: Chakra's traces (.et, .json), profiles of PyTorch (.json, .json.gz) or
                            of Nsight Systems, logs of NCCL's plugins, one a rank or one for all; a plan of MSCCL++

Sizes are as in nccl-tests; for a halo exchange, the size of one face.";

/// Arguments of `simulate`.
#[derive(Debug, Args)]
#[command(after_help = SIMULATED)]
pub(crate) struct SimulateArgs {
    #[command(flatten)]
    pub(crate) machines: Machines,
    #[command(flatten)]
    pub(crate) grown: Grown,
    #[command(flatten)]
    pub(crate) hops: Hops,
    /// Workload to simulate, or the files of a trace; repeatable for files
    #[arg(short, long = "workload", value_name = "WORKLOAD", default_value = "all-reduce:ring")]
    pub(crate) workloads: Vec<String>,
    /// Sizes: 8B..1GiB (powers of two) or 1MiB,64MiB
    #[arg(short, long, value_name = "SIZES", default_value = "64KiB..1GiB")]
    pub(crate) sizes: Sizes,
    #[command(flatten)]
    pub(crate) traces: Traces,
    #[command(flatten)]
    pub(crate) steps: Steps,
    /// Scaling over numbers of nodes: weak (constant work per GPU) or strong (constant total work). Node
    /// counts: those of --nodes, or powers of two up to all nodes. Size: the largest of --sizes
    #[arg(long, value_name = "weak|strong", conflicts_with_all = ["helps", "trace"])]
    pub(crate) scaling: Option<Scaling>,
    /// Also write the points of --scaling to this CSV file
    #[arg(long, value_name = "FILE", requires = "scaling")]
    pub(crate) csv: Option<PathBuf>,
    /// Also draw a chart to this SVG file, one curve per target: rate by size, or speed-up by nodes with --scaling
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Also show what would help most: each bottleneck twice as fast, one at a time
    #[arg(long)]
    pub(crate) helps: bool,
    /// Write a trace of the last size for Perfetto or chrome://tracing
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
    pub(crate) targets: Vec<OsString>,
    #[command(flatten)]
    pub(crate) grown: Grown,
    #[command(flatten)]
    pub(crate) hops: Hops,
    /// Workload to simulate on each; repeatable
    #[arg(short, long = "workload", value_name = "WORKLOAD", default_value = "all-reduce:ring")]
    pub(crate) workloads: Vec<String>,
    /// Sizes: 8B..1GiB (powers of two) or 1MiB,64MiB
    #[arg(short, long, value_name = "SIZES", default_value = "256MiB")]
    pub(crate) sizes: Sizes,
    #[command(flatten)]
    pub(crate) traces: Traces,
    #[command(flatten)]
    pub(crate) steps: Steps,
    /// Show one table of all workloads at the largest size: GB/s sent per GPU, and the rank
    #[arg(long, conflicts_with = "json")]
    pub(crate) rank: bool,
    /// Also write every point to this CSV file
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) detail: Detail,
}

/// A cluster grown from one machine.
#[derive(Clone, Debug, Args)]
pub(crate) struct Grown {
    /// Number of nodes, connected by --network; several numbers show how it scales
    #[arg(long, value_name = "N,…", value_delimiter = ',', requires = "network")]
    pub(crate) nodes: Vec<u32>,
    /// Network between the nodes: torus:4x4x1, fat-tree[:LEVELS[:TAPER]], rail[:LEVELS[:TAPER]],
    /// dragonfly[:GROUPSxROUTERSxPORTS[xLINKS]] or switch
    #[arg(long, requires = "nodes")]
    pub(crate) network: Option<String>,
    /// Rate of a network link in Gb/s; default: the adapter's line rate
    #[arg(long, value_name = "Gb/s", requires = "network")]
    pub(crate) link_rate: Option<f64>,
    /// Which of equally short paths messages take: static (by the destination), adaptive (evenly over
    /// all) or ecmp[:SEED] (by a hash); default: static
    #[arg(long, value_name = "ROUTING")]
    pub(crate) routing: Option<String>,
    /// Fail part of the network: uplink:leaf3/2 (the third uplink of a switch), link:A:B, or a switch,
    /// node or adapter (leaf3, node5, node5/mlx5_1); repeatable
    #[arg(long, value_name = "WHAT")]
    pub(crate) fail: Vec<String>,
    /// Let part of the network, named as for --fail, carry only this share of its rate; repeatable
    #[arg(long, value_name = "WHAT=SHARE")]
    pub(crate) slow: Vec<String>,
    /// Use only the first N nodes
    #[arg(long, value_name = "N")]
    pub(crate) use_nodes: Option<u32>,
    /// Use only the first N GPUs of each node
    #[arg(long, value_name = "N")]
    pub(crate) gpus_per_node: Option<usize>,
    #[command(flatten)]
    pub(crate) what_if: WhatIf,
}

/// How recorded traces are played.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Traces {
    /// By what the recorded time of computing is multiplied, for GPUs other than those of the trace: 0.5 for twice as fast
    #[arg(long, value_name = "RATIO")]
    pub(crate) compute_scale: Option<f64>,
}

/// How fast GPUs compute in a step of a model.
#[derive(Clone, Debug, Args)]
pub(crate) struct Steps {
    /// A step of training that was measured, and on how many GPUs, by which the others are predicted: 12.3s@64; what differs from
    /// the workload follows: 12.3s@64,pp=2,batch=256
    #[arg(long, value_name = "TIME@GPUS[,…]")]
    pub(crate) step_time: Option<Measured>,
}

/// Switches of the network; placements are ranked by rates alone.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Hops {
    /// Latency of each switch on the path, in microseconds
    #[arg(long, value_name = "us", requires = "network", default_value_t = HOP_LATENCY)]
    pub(crate) hop_latency: f64,
}

/// The default latency of a switch, in microseconds.
pub(crate) const HOP_LATENCY: f64 = 0.2;

/// Endings of files that hold traces.
const TRACES: [&str; 5] = [".jsonl", ".et", ".json", ".json.gz", ".gz"];

/// Whether it is a file that has no size of its own: an execution plan of MSCCL++.
pub(crate) fn is_plan(word: &str) -> bool {
    let head = input_file::head(Path::new(word), 1 << 16);
    is_trace(word) && head.is_ok_and(|head| format_of(&head) == Some(Format::Plan))
}

/// Whether a workload argument names a file or folder.
pub(crate) fn is_trace(word: &str) -> bool {
    let named = TRACES.iter().any(|end| word.ends_with(end));
    named || (word.parse::<Workload>().is_err() && input_file::what(Path::new(word)).is_ok())
}
