//! Arguments of `plan`.

use std::ffi::OsString;

use clap::Args;
use peerlane::planner::Amount;
use peerlane::simulate::model_step::measured::Measured;

use super::Detail;
use super::simulate::{Grown, Hops};

const PLANNED: &str = "\
MODEL is the name of a published model (peerlane help planning lists them), or its sizes:
  layers=32,hidden=4096,heads=32,kv_heads=8,ffn=14336,vocab=128256
TARGET is a system, a cluster, or a file of one, as for 'peerlane simulate'.

OPTIONS of a step, behind --with: dtype=fp8, no-overlap, tp-overlap=0.5, ep-overlap=0.5, imbalance=1.2, grads=2, memory=80,
tflops=600 or mfu=0.5 (of computing)";

/// Arguments of `plan`.
#[derive(Debug, Args)]
#[command(after_help = PLANNED)]
pub(crate) struct PlanArgs {
    /// What is trained
    #[arg(value_name = "MODEL")]
    pub(crate) model: String,
    /// The machine or cluster that it is trained on
    #[arg(value_name = "TARGET")]
    pub(crate) target: OsString,
    #[command(flatten)]
    pub(crate) grown: Grown,
    #[command(flatten)]
    pub(crate) hops: Hops,
    /// What a step trains: sequences (512), or tokens (4M; K is 1024)
    #[arg(short, long, value_name = "SEQUENCES|TOKENS")]
    pub(crate) batch: Amount,
    /// Tokens of a sequence; default: the model's context
    #[arg(long, value_name = "TOKENS")]
    pub(crate) seq: Option<usize>,
    /// How many splits to show, the fastest first
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) top: u16,
    /// Options of a step: dtype=fp8,tp-overlap=0.5
    #[arg(long, value_name = "OPTIONS", default_value = "")]
    pub(crate) with: String,
    /// A step that was measured, its GPUs and its split, by which all are predicted: 12.3s@64,tp=8,pp=2,batch=256
    #[arg(long, value_name = "TIME@GPUS[,…]")]
    pub(crate) step_time: Option<Measured>,
    #[command(flatten)]
    pub(crate) detail: Detail,
}
