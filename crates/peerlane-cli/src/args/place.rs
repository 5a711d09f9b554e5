//! Arguments of `place`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use peerlane::place::{Jobs, Workload};

use super::{Detail, Grown, Machines};

const PLACED: &str = "\
WORKLOAD is one of:
  all-reduce   along the best rings of the job's GPUs, as NCCL would choose them
  ring         one ring in rank order: each GPU sends to the next, the last to the first
  all-to-all   each GPU sends to every other
  halo         each GPU exchanges with its neighbours in a line
  host-feed    each GPU reads from its host memory
  pairs        the first GPU exchanges with the second, the third with the fourth, and so on

On a cluster (TARGET, or a machine with --nodes and --network) jobs get nodes and GPUs of each:
  peerlane place hgx-h200 --nodes 4 --network rail --jobs 1x16+2x8

The result is advice with predicted rates; no setting is changed.
`peerlane help placement` explains how placements are ranked and searched.";

/// Arguments of `place`.
#[derive(Debug, Args)]
#[command(after_help = PLACED)]
pub(crate) struct PlaceArgs {
    #[command(flatten)]
    pub(crate) machines: Machines,
    #[command(flatten)]
    pub(crate) grown: Grown,
    #[command(flatten)]
    pub(crate) detail: Detail,
    /// Number of GPUs of the job; default: all that are free
    #[arg(short, long, value_name = "N", conflicts_with = "jobs")]
    pub(crate) gpus: Option<usize>,
    /// Place several jobs with the least interference: 2x4 is two jobs of four GPUs each, 1x4+2x2 one
    /// of four and two of two
    #[arg(short, long, value_name = "COUNTxGPUS")]
    pub(crate) jobs: Option<Jobs>,
    /// Number of NICs per job; default: the NIC of each GPU is shown but does not affect the choice
    #[arg(long, value_name = "N")]
    pub(crate) nics: Option<usize>,
    /// Communication pattern of each job
    #[arg(short, long, value_name = "WORKLOAD", default_value = "all-reduce", value_parser = workloads())]
    pub(crate) workload: Workload,
    /// GPUs in use by others, assumed to run the same workload among themselves
    #[arg(short, long, value_name = "GPU,…", value_delimiter = ',')]
    pub(crate) busy: Vec<String>,
    /// Output format; default: the choice with its reason
    #[arg(short, long, value_name = "FORMAT", conflicts_with = "json")]
    pub(crate) format: Option<PlaceFormat>,
    /// Also write an NCCL topology file of the machine; '--format nccl' refers to it
    #[arg(long, value_name = "FILE")]
    pub(crate) topology: Option<PathBuf>,
}

/// What `place` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlaceFormat {
    /// CUDA_VISIBLE_DEVICES, for a shell
    Env,
    /// A numactl and a taskset prefix for each rank
    Numactl,
    /// A rankfile for Open MPI
    Rankfile,
    /// A hostfile: the nodes of each job with their numbers of ranks
    Hostfile,
    /// Lines for Slurm's gres.conf with cores and links, for the whole machine
    Slurm,
    /// Slurm's topology.conf: the switches of a cluster with their nodes
    SlurmTopology,
    /// NCCL variables, for a shell
    Nccl,
}

fn workloads() -> impl TypedValueParser<Value = Workload> {
    let named = |name: String| Workload::ALL.into_iter().find(|w| w.name() == name).ok_or("no such workload");
    PossibleValuesParser::new(Workload::ALL.map(Workload::name)).try_map(named)
}
