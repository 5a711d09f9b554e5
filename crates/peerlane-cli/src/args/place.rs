//! What `place` takes.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use peerlane::place::{Jobs, Workload};

use super::{Detail, Machines, WhatIf};

const PLACED: &str = "\
Workloads: all-reduce (around the best rings of a job's GPUs, which NCCL finds by itself), ring (one
ring in the order of the ranks: each sends to the next and the last to the first), all-to-all, halo
(each exchanges with its neighbours in a line), host-feed (each reads from its host memory), pairs
(the first with the second, the third with the fourth …).

What comes out is advice, with what the model predicts of it; nothing is set.
docs/placement.md says what is best and how it is found.";

/// Arguments of `place`.
#[derive(Debug, Args)]
#[command(after_help = PLACED)]
pub(crate) struct PlaceArgs {
    #[command(flatten)]
    pub(crate) machines: Machines,
    #[command(flatten)]
    pub(crate) what_if: WhatIf,
    #[command(flatten)]
    pub(crate) detail: Detail,
    /// How many GPUs the job has; without it, all that are free
    #[arg(short, long, value_name = "N", conflicts_with = "jobs")]
    pub(crate) gpus: Option<usize>,
    /// Place several jobs at once, so that they disturb each other least: 2x4 is two jobs of four GPUs
    /// each, 1x4+2x2 one of four and two of two
    #[arg(short, long, value_name = "COUNTxGPUS")]
    pub(crate) jobs: Option<Jobs>,
    /// Choose for this many NICs a job, too; without it each GPU's NIC is named and does not decide
    #[arg(long, value_name = "N")]
    pub(crate) nics: Option<usize>,
    /// What the GPUs of a job do at once
    #[arg(short, long, value_name = "WORKLOAD", default_value = "all-reduce", value_parser = workloads())]
    pub(crate) workload: Workload,
    /// GPUs that others use; they are taken to do the same among themselves
    #[arg(short, long, value_name = "GPU,…", value_delimiter = ',')]
    pub(crate) busy: Vec<String>,
    /// What to write; without it, the choice with its reason
    #[arg(short, long, value_name = "FORMAT", conflicts_with = "json")]
    pub(crate) format: Option<PlaceFormat>,
    /// Write the machine as a topology file for NCCL, too, and name it in what 'nccl' writes
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
    /// Lines of Slurm's gres.conf with cores and links, of the whole machine
    Slurm,
    /// Variables of NCCL, for a shell
    Nccl,
}

fn workloads() -> impl TypedValueParser<Value = Workload> {
    let named = |name: String| Workload::ALL.into_iter().find(|w| w.name() == name).ok_or("no such workload");
    PossibleValuesParser::new(Workload::ALL.map(Workload::name)).try_map(named)
}
