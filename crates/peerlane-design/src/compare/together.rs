//! Many transfers at once: all to all, all to one, and every GPU with host memory.

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use super::measured::MeasuredValue;
use peerlane_machine::fabric::{NodeId, NodeKind};
use peerlane_machine::matrix::{Engine, Operation};
use peerlane_model::flows::{Flows, Pair};
use peerlane_model::model::{Model, PeerAccess, SharedRate, Transfer};

/// A predicted rate with what binds it, and what was measured in its place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Figure {
    /// In GB/s.
    pub rate: f64,
    /// What binds it; of a sum, what binds most of it. A mean has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub bottleneck: String,
    /// What was measured or published of the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<MeasuredValue>,
}

/// Transfers that run at once.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Together {
    /// The sum of all.
    pub sum: Figure,
    /// The slowest of them.
    pub slowest: Figure,
    /// Its source and destination.
    pub slowest_pair: [String; 2],
}

/// Every GPU to every other.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AllToAll {
    /// While all run.
    #[serde(flatten)]
    pub together: Together,
    /// Messages of one size from each to each: all bytes over the time until the last has arrived. Transfers that have
    /// ended leave their share to the rest. The bottleneck is that of the last.
    pub equal: Figure,
}

/// All GPUs but one to that one, at once.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AllToOne {
    /// The sum, for the destination where it is least.
    pub worst: Figure,
    /// That destination.
    pub worst_to: String,
    /// The sum for the destination where it is most, in GB/s.
    pub best: f64,
}

/// A set that the model has solved.
pub(super) struct Solved<'m, 'a> {
    model: &'m Model<'a>,
    transfers: Vec<Transfer>,
    answers: Vec<SharedRate>,
}

/// Solves a set; `None` where it is empty or a rate is not known.
pub(super) fn solved<'m, 'a>(model: &'m Model<'a>, transfers: Vec<Transfer>) -> Option<Solved<'m, 'a>> {
    let answers = model.solve(&transfers).ok().filter(|a| !a.is_empty())?;
    Some(Solved { model, transfers, answers })
}

impl Solved<'_, '_> {
    /// The sum of all, and what binds most of it.
    pub(super) fn sum_of_all(&self) -> Figure {
        let mut reasons: Vec<(&str, f64)> = Vec::new();
        for answer in &self.answers {
            match reasons.iter_mut().find(|(why, _)| *why == answer.bottleneck) {
                Some((_, sum)) => *sum += answer.rate.gb(),
                None => reasons.push((&answer.bottleneck, answer.rate.gb())),
            }
        }
        let greatest = reasons.iter().map(|(_, sum)| *sum).fold(0.0, f64::max);
        // of equals, the first
        let most = reasons.iter().find(|(_, sum)| *sum >= greatest * (1.0 - 1e-9)).map_or("", |(why, _)| *why);
        let rate = self.answers.iter().map(|a| a.rate.gb()).sum();
        Figure { rate, bottleneck: most.to_owned(), measured: None }
    }

    /// The slowest, and between which nodes.
    fn slowest(&self) -> Option<(Figure, [String; 2])> {
        let slowest = |(_, a): &(&Transfer, &SharedRate), (_, b): &(&Transfer, &SharedRate)| {
            a.rate.bytes_per_second().total_cmp(&b.rate.bytes_per_second())
        };
        let (transfer, answer) = self.transfers.iter().zip(&self.answers).min_by(slowest)?;
        let name = |id: NodeId| self.model.machine.fabric.node(id).name.clone();
        let figure = Figure { rate: answer.rate.gb(), bottleneck: answer.bottleneck.clone(), measured: None };
        Some((figure, [name(transfer.source), name(transfer.destination)]))
    }

    /// What binds the slowest.
    pub(super) fn slowest_bottleneck(&self) -> String {
        self.slowest().map_or_else(String::new, |(figure, _)| figure.bottleneck)
    }

    fn together(&self) -> Option<Together> {
        let (slowest, slowest_pair) = self.slowest()?;
        Some(Together { sum: self.sum_of_all(), slowest, slowest_pair })
    }
}

/// Every GPU to every other.
pub(super) fn all_to_all(flows: &Flows) -> Option<AllToAll> {
    let pairs: Vec<Pair> = flows.pairs().collect();
    let transfers = |pairs: &[Pair]| pairs.iter().map(|pair| flows.transfer(*pair)).collect();
    let together = solved(flows.model, transfers(&pairs))?.together()?;
    let (time, last) = time_of_equal(flows, &pairs)?;
    let bottleneck = solved(flows.model, transfers(&last))?.slowest_bottleneck();
    let equal = Figure { rate: pairs.len() as f64 / time / 1e9, bottleneck, measured: None };
    Some(AllToAll { together, equal })
}

/// How long one byte of each takes until all have arrived, in seconds, and which are the last. What has ended leaves its
/// share to the rest.
fn time_of_equal(flows: &Flows, pairs: &[Pair]) -> Option<(f64, Vec<Pair>)> {
    let mut open: Vec<(Pair, f64)> = pairs.iter().map(|pair| (*pair, 1.0)).collect();
    let mut time = 0.0;
    loop {
        let running: Vec<Pair> = open.iter().map(|(pair, _)| *pair).collect();
        let rates = flows.rates(&running)?;
        let ends = |((_, left), rate): (&(Pair, f64), &f64)| left / rate;
        let step = open.iter().zip(&rates).map(ends).fold(f64::INFINITY, f64::min);
        if !step.is_finite() {
            return None;
        }
        time += step;
        let mut at = 0;
        open.retain_mut(|(_, left)| {
            *left -= rates.get(at).copied().unwrap_or(0.0) * step;
            at += 1;
            // what is left of a byte by rounding has arrived
            *left > 1e-9
        });
        if open.is_empty() {
            return Some((time, running));
        }
    }
}

/// All others to one, for every one.
pub(super) fn all_to_one(flows: &Flows) -> Option<AllToOne> {
    let to = |one: usize| -> Vec<Pair> { (0..flows.gpus()).filter(|i| *i != one).map(|i| (i, one)).collect() };
    if flows.gpus() < 2 {
        return None;
    }
    let sums: Vec<f64> =
        (0..flows.gpus()).map(|one| Some(flows.rates(&to(one))?.iter().sum())).collect::<Option<Vec<f64>>>()?;
    let least = sums.iter().copied().fold(f64::INFINITY, f64::min);
    let best = sums.iter().copied().fold(0.0, f64::max);
    // rounding is no difference: the first of those that are alike
    let worst = sums.iter().position(|sum| *sum <= least * (1.0 + 1e-9))?;
    let set = to(worst).into_iter().map(|pair| flows.transfer(pair)).collect();
    let figure = solved(flows.model, set)?.sum_of_all();
    let best = if best <= least * (1.0 + 1e-9) { figure.rate } else { best / 1e9 };
    Some(AllToOne { worst: figure, worst_to: flows.name(worst).to_owned(), best })
}

/// Transfers of GPUs with the host memory nearest to each.
pub(super) fn with_host(model: &Model, from_host: bool) -> Option<Vec<Transfer>> {
    let fabric = &model.machine.fabric;
    let transfer = |gpu: NodeId| {
        let host = fabric.nearest_host(gpu)?;
        let (source, destination) = if from_host { (host, gpu) } else { (gpu, host) };
        Some(Transfer { source, destination, engine: Engine::Ce, op: Operation::Write, peer: PeerAccess::Enabled })
    };
    fabric.of_kind(NodeKind::Gpu).map(transfer).collect()
}

/// Every GPU and its host memory at once.
pub(super) fn host_feed(model: &Model, from_host: bool) -> Option<Together> {
    solved(model, with_host(model, from_host)?)?.together()
}
