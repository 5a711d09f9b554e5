//! What a step takes, as a document: in time, in tokens, in memory, and what holds it.

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use super::architecture::Architecture;
use super::compute::Gpu;
use super::memory::Memory;
use super::rates::{Kind, Rates};
use super::serving::{Apart, Phase, Served, Serving};
use super::spent::{Communication, Cost, Of, Spent};
use super::split::Training;
use crate::cluster::Component;

/// A step.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct StepSummary {
    /// `training`, `decode`, `prefill` or `serve`.
    pub kind: &'static str,
    /// The model.
    pub model: ModelSummary,
    /// GPUs that take part.
    pub gpus: usize,
    /// Copies of the model.
    pub copies: usize,
    /// Layers of the model.
    pub layers: usize,
    /// Stages of a copy.
    pub stages: usize,
    /// Micro-batches of a copy, in training.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub micro_batches: Option<usize>,
    /// Seconds: of a step of training, until each sequence has a token, until prompts are read; of `serve` until a prompt has
    /// its first token.
    pub time: f64,
    /// Tokens of all copies in that time.
    pub tokens: f64,
    /// Tokens a second.
    pub tokens_per_second: f64,
    /// The same of each GPU.
    pub tokens_per_second_per_gpu: f64,
    /// Operations that the model needs, over those that the GPUs could do by their data sheet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mfu: Option<f64>,
    /// Of decoding: bytes of weights, keys and values over those that memory could give.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_share: Option<f64>,
    /// How fast a GPU computes.
    pub computing: ComputingSummary,
    /// What the time is spent on.
    pub spent: Vec<SpentOn>,
    /// What is communicated, of the busiest GPU.
    pub communication: Vec<CommunicationSummary>,
    /// What a GPU's memory holds, of the stage that holds most.
    pub memory: Memory,
    /// Sequences of this length that fit each copy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequences_that_fit: Option<u64>,
    /// What holds most of the exposed communication.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bottleneck: Option<String>,
    /// Prefill and decoding apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apart: Option<ApartSummary>,
}

/// A model.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ModelSummary {
    /// Its name.
    pub name: String,
    /// Parameters, by its sizes.
    pub parameters: f64,
    /// Those that a token uses, where that is not all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<f64>,
    /// Where its sizes are from.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
}

/// How fast a GPU computes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ComputingSummary {
    /// The GPU.
    pub gpu: String,
    /// 10¹² operations a second of products by the data sheet.
    pub peak_tflops: f64,
    /// Those that they reach.
    pub tflops: f64,
    /// How that is known.
    pub how: String,
}

/// What time is spent on.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SpentOn {
    /// `computing`, `bubble`, `optimizer`, or exposed communication by what it is of: `tensor`, `context`, `experts`, `stages`,
    /// `copies`.
    pub on: &'static str,
    /// Seconds.
    pub time: f64,
    /// Share of the step.
    pub share: f64,
}

/// Communication of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CommunicationSummary {
    /// What it is of, as [`SpentOn::on`] names it.
    pub of: &'static str,
    /// What is done: `all-reduce`, `send-receive` …
    pub what: &'static str,
    /// Ranks of a group.
    pub ranks: usize,
    /// How often in a step.
    pub times: f64,
    /// Bytes of each, as nccl-tests counts sizes.
    pub bytes: f64,
    /// Seconds of all of them.
    pub time: f64,
    /// What holds their bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held_by: Option<String>,
}

/// Prefill and decoding on GPUs of their own.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ApartSummary {
    /// Seconds until prompts are read.
    pub prefill: f64,
    /// Seconds that keys and values take to where they are decoded.
    pub transfer: f64,
    /// Bytes of them of a prompt.
    pub transfer_bytes: f64,
    /// What holds these bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer_held_by: Option<String>,
    /// Seconds from one token to the next.
    pub token: f64,
    /// Copies that read prompts.
    pub prefill_copies: usize,
    /// Copies that decode.
    pub decode_copies: usize,
    /// Prompts answered a second.
    pub requests_per_second: f64,
}

fn model(of: &Architecture) -> ModelSummary {
    let (parameters, used) = (of.total(), of.used());
    let active = (of.experts.is_some()).then_some(used);
    let name = if of.title.is_empty() { of.name.clone() } else { of.title.clone() };
    ModelSummary { name, parameters, active, source: of.source.clone() }
}

impl ComputingSummary {
    pub(crate) fn of(gpu: &Gpu) -> Self {
        let (peak_tflops, tflops) = (gpu.peak / 1e12, gpu.products / 1e12);
        ComputingSummary { gpu: gpu.title.clone(), peak_tflops, tflops, how: gpu.how.clone() }
    }
}

fn spent_on(spent: &Spent) -> Vec<SpentOn> {
    let all = spent.total();
    let parts = spent.parts().into_iter().filter(|(_, time)| *time > 0.0);
    parts.map(|(on, time)| SpentOn { on, time, share: if all > 0.0 { time / all } else { 0.0 } }).collect()
}

/// What holds communication.
#[derive(Clone, Debug, PartialEq)]
pub struct Holding {
    /// In words.
    pub name: String,
    /// What one would replace to make it faster.
    pub component: Option<Component>,
    /// Exposed seconds of what it holds.
    pub exposed: f64,
    /// All seconds of it.
    pub time: f64,
}

pub(super) fn holding(spent: &Spent, communication: &[Communication], rates: &Rates) -> Vec<Holding> {
    let all_of = |by: usize| {
        let own = communication.iter().filter(|one| one.took.by.map(usize::from) == Some(by));
        own.map(|one| one.times * one.took.time).sum()
    };
    let of = |(by, exposed): (usize, f64)| {
        let holder = &rates.holders()[by];
        Holding { name: holder.name.clone(), component: holder.component.clone(), exposed, time: all_of(by) }
    };
    held(spent, communication, rates).into_iter().map(of).collect()
}

/// What holds communication, by its exposed time, the largest first.
fn held(spent: &Spent, communication: &[Communication], rates: &Rates) -> Vec<(usize, f64)> {
    let mut seconds: Vec<(usize, f64)> = Vec::new();
    for of in Of::ALL {
        let own: Vec<&Communication> = communication.iter().filter(|one| one.of == of).collect();
        let all: f64 = own.iter().map(|one| one.times * one.took.time).sum();
        for one in own.iter().filter(|_| all > 0.0) {
            let Some(by) = one.took.by.map(usize::from).filter(|by| *by < rates.holders().len()) else { continue };
            let time = spent.exposed(of) * one.times * one.took.time / all;
            match seconds.iter_mut().find(|(known, _)| *known == by) {
                Some((_, known)) => *known += time,
                None => seconds.push((by, time)),
            }
        }
    }
    seconds.sort_by(|a, b| b.1.total_cmp(&a.1));
    seconds
}

fn communicated(communication: &[Communication], rates: &Rates) -> Vec<CommunicationSummary> {
    let of = |one: &Communication| CommunicationSummary {
        of: one.of.name(),
        what: match one.kind {
            Kind::Collective(collective) => collective.name(),
            Kind::AllToAll(_) => "all-to-all",
            Kind::Message => "send-receive",
        },
        ranks: one.ranks,
        times: one.times,
        bytes: one.bytes,
        time: one.times * one.took.time,
        held_by: held_by(one.took.by, rates),
    };
    communication.iter().map(of).collect()
}

fn held_by(by: Option<u16>, rates: &Rates) -> Option<String> {
    by.and_then(|by| rates.holders().get(usize::from(by))).map(|holder| holder.name.clone())
}

fn bottleneck(spent: &Spent, communication: &[Communication], rates: &Rates) -> Option<String> {
    let (by, time) = held(spent, communication, rates).into_iter().next()?;
    (time > 0.0).then(|| rates.holders()[by].name.clone())
}

pub(crate) fn of_training(job: &Training, gpu: &Gpu, cost: &Cost, rates: &Rates) -> StepSummary {
    let time = cost.time();
    StepSummary {
        kind: "training",
        model: model(&job.model),
        gpus: cost.gpus,
        copies: cost.laid.copies,
        layers: job.model.layers,
        stages: job.split.pp,
        micro_batches: Some(cost.laid.micro),
        time,
        tokens: cost.tokens,
        tokens_per_second: cost.tokens / time,
        tokens_per_second_per_gpu: cost.tokens / time / cost.gpus as f64,
        mfu: Some(cost.operations / time / cost.gpus as f64 / gpu.peak),
        memory_share: None,
        computing: ComputingSummary::of(gpu),
        spent: spent_on(&cost.spent),
        communication: communicated(&cost.communication, rates),
        memory: cost.memory,
        sequences_that_fit: None,
        bottleneck: bottleneck(&cost.spent, &cost.communication, rates),
        apart: None,
    }
}

pub(super) fn of_serving(job: &Serving, gpu: &Gpu, served: &Served, rates: &Rates) -> StepSummary {
    let time = served.spent.total();
    StepSummary {
        kind: job.phase.name(),
        model: model(&job.model),
        gpus: served.gpus,
        copies: served.copies,
        layers: job.model.layers,
        stages: job.pp,
        micro_batches: None,
        time,
        tokens: served.tokens,
        tokens_per_second: served.rate,
        tokens_per_second_per_gpu: served.rate / served.gpus as f64,
        mfu: (job.phase == Phase::Prefill)
            .then(|| served.operations / served.tokens * served.rate / served.gpus as f64 / gpu.peak),
        memory_share: served.memory_share.filter(|share| share.is_finite() && *share > 0.0),
        computing: ComputingSummary::of(gpu),
        spent: spent_on(&served.spent),
        communication: communicated(&served.communication, rates),
        memory: served.memory,
        sequences_that_fit: served.most.filter(|most| most.is_finite()).map(|most| most as u64),
        bottleneck: bottleneck(&served.spent, &served.communication, rates),
        apart: None,
    }
}

pub(super) fn of_both(job: &Serving, gpu: &Gpu, apart: &Apart, rates: &Rates) -> StepSummary {
    let Apart { prefill, decode, bytes, transfer, copies: (readers, decoders), requests } = apart;
    let first = prefill.spent.total() + transfer.time;
    let gpus = readers * prefill.gpus + decoders * decode.gpus;
    let rate = requests * job.output as f64;
    StepSummary {
        time: first,
        gpus,
        copies: readers + decoders,
        tokens: job.output as f64,
        tokens_per_second: rate,
        tokens_per_second_per_gpu: rate / gpus.max(1) as f64,
        apart: Some(ApartSummary {
            prefill: prefill.spent.total(),
            transfer: transfer.time,
            transfer_bytes: *bytes,
            transfer_held_by: held_by(transfer.by, rates),
            token: decode.spent.total(),
            prefill_copies: *readers,
            decode_copies: *decoders,
            requests_per_second: *requests,
        }),
        ..of_serving(job, gpu, decode, rates)
    }
}
