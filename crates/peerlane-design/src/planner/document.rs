//! A plan as a document, `peerlane/plan/1`.

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use super::search::{Found, Planned, kinds};
use crate::cluster::Cluster;
use crate::simulate::model_step::compute::Gpu;
use crate::simulate::model_step::measured::Measured;
use crate::simulate::model_step::rates::Rates;
use crate::simulate::model_step::report::{ComputingSummary, StepSummary, of_training};
use crate::simulate::model_step::spent::Spent;
use crate::simulate::model_step::split::{Batch, Training};

/// The document.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PlanDocument {
    /// `peerlane/plan/1`.
    #[schemars(extend("const" = "peerlane/plan/1"))]
    pub schema: &'static str,
    /// The machine or cluster.
    pub target: String,
    /// The model.
    pub model: String,
    /// Its parameters.
    pub parameters: f64,
    /// GPUs.
    pub gpus: usize,
    /// Sequences of a step.
    pub batch: usize,
    /// Tokens of a sequence.
    pub seq: usize,
    /// How fast a GPU computes.
    pub computing: ComputingSummary,
    /// The measured step that this is taken from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<String>,
    /// Splits that divide the model, the batch and the GPUs.
    pub splits: usize,
    /// Of these, those that fit.
    pub fitting: usize,
    /// The fastest, the fastest first; before them one with fewer kinds of parallelism, or shorter rings,
    /// that takes at most 2 % longer.
    pub best: Vec<PlannedSplit>,
    /// A faster one that does not fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub too_large: Option<TooLarge>,
    /// What is assumed of the cluster, in sentences.
    pub assumptions: Vec<String>,
}

/// A split.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PlannedSplit {
    /// As a workload of `simulate`.
    pub workload: String,
    /// GPUs that share each matrix, each sequence; stages; copies; GPUs that share experts.
    pub tp: usize,
    /// GPUs that share each sequence.
    pub cp: usize,
    /// Stages.
    pub pp: usize,
    /// Chunks of a stage.
    pub chunks: usize,
    /// Copies.
    pub dp: usize,
    /// GPUs that share experts.
    pub ep: usize,
    /// What copies share.
    pub zero: u8,
    /// Sequences of a micro-batch.
    pub mbs: usize,
    /// What is computed again.
    pub recompute: &'static str,
    /// Whether gradients of weights fill the bubble.
    pub zero_bubble: bool,
    /// Kinds of parallelism: of the groups above those with more than one GPU, and `zero_bubble`.
    pub kinds: usize,
    /// What it takes.
    pub step: StepSummary,
    /// Why it is slower than the first, or faster: what it spends more time on, in seconds, the most first.
    pub loses_by: Vec<Loss>,
}

/// More time of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Loss {
    /// What, as the step's parts are named.
    pub on: &'static str,
    /// Seconds more than the first split; less where it is negative.
    pub time: f64,
}

/// A split that would be faster and does not fit.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TooLarge {
    /// As a workload of `simulate`.
    pub workload: String,
    /// Seconds.
    pub time: f64,
    /// Bytes of memory of a GPU that it takes.
    pub memory: f64,
}

fn loses_by(first: &Spent, other: &Spent) -> Vec<Loss> {
    let differences = first.parts().into_iter().zip(other.parts());
    let mut all: Vec<Loss> = differences.map(|((on, a), (_, b))| Loss { on, time: b - a }).collect();
    all.retain(|loss| loss.time != 0.0);
    all.sort_by(|a, b| b.time.total_cmp(&a.time));
    all
}

pub(super) fn document(
    job: &Training,
    gpu: &Gpu,
    cluster: &Cluster,
    found: &Found,
    rates: &Rates,
    measured: Option<&Measured>,
) -> PlanDocument {
    let on = |planned: &Planned| Training { split: planned.split, ..job.clone() };
    let first = found.best.first().map(|planned| planned.cost.spent).unwrap_or_default();
    let of = |planned: &Planned| {
        let job = on(planned);
        let split = planned.split;
        PlannedSplit {
            workload: job.words(),
            tp: split.tp,
            cp: split.cp,
            pp: split.pp,
            chunks: split.chunks,
            dp: split.dp,
            ep: split.ep,
            zero: split.zero,
            mbs: split.mbs,
            recompute: split.recompute.name(),
            zero_bubble: split.zero_bubble,
            kinds: kinds(&split),
            step: of_training(&job, gpu, &planned.cost, rates),
            loses_by: loses_by(&first, &planned.cost.spent),
        }
    };
    let best: Vec<PlannedSplit> = found.best.iter().map(of).collect();
    PlanDocument {
        schema: "peerlane/plan/1",
        target: cluster.name.clone(),
        model: if job.model.title.is_empty() { job.model.name.clone() } else { job.model.title.clone() },
        parameters: job.model.total(),
        gpus: cluster.places().len(),
        batch: if let Batch::Sequences(n) = job.batch { n } else { 0 },
        seq: job.seq,
        computing: ComputingSummary::of(gpu),
        measured: measured.map(Measured::to_string),
        splits: found.splits,
        fitting: found.fitting,
        best,
        too_large: found.too_large.as_ref().map(|planned| TooLarge {
            workload: on(planned).words(),
            time: planned.cost.time(),
            memory: planned.cost.memory.total,
        }),
        assumptions: cluster.assumptions.clone(),
    }
}
