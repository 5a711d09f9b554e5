//! One transfer at a time: between two GPUs, one way and both ways, and with host memory; and which pairs go directly.

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use super::together::{Figure, solved, with_host};
use peerlane_machine::fact::P2pStatus;
use peerlane_machine::matrix::Direction;
use peerlane_model::flows::{Flows, Pair};
use peerlane_model::model::{Model, Transfer};

/// Transfers of one kind, each alone.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Alone {
    /// The slowest.
    pub worst: Figure,
    /// Its source and destination.
    pub worst_pair: [String; 2],
    /// The mean over all, in GB/s.
    pub mean: Figure,
    /// The fastest, in GB/s.
    pub best: f64,
    /// How many have a rate.
    pub known: usize,
    /// How many there are.
    pub of: usize,
}

/// Which GPUs reach which without host memory in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Reach {
    /// Ordered pairs that go directly.
    pub direct: usize,
    /// All ordered pairs.
    pub of: usize,
    /// GPUs that the GPU with the fewest reaches directly.
    pub least: usize,
    /// GPUs that the GPU with the most reaches directly.
    pub most: usize,
}

/// Every ordered pair of GPUs: one way, or both ways at once and summed, where each pair counts twice, as in a matrix.
pub(super) fn among(flows: &Flows, direction: Direction) -> Option<Alone> {
    let set = |(i, j)| match direction {
        Direction::Unidirectional => vec![(i, j)],
        _ => vec![(i, j), (j, i)],
    };
    let sets: Vec<Vec<Pair>> = flows.pairs().map(set).collect();
    let sums = sets.iter().map(|set| flows.rates(set).map(|rates| rates.iter().sum::<f64>()));
    summary(flows.model, sums.collect(), |at| sets.get(at)?.iter().map(|pair| Some(flows.transfer(*pair))).collect())
}

/// Host memory and each GPU, one way.
pub(super) fn host(model: &Model, from_host: bool) -> Option<Alone> {
    let transfers = with_host(model, from_host)?;
    let rate = |t: &Transfer| model.solve(&[*t]).ok().and_then(|a| a.first().map(|a| a.rate.bytes_per_second()));
    summary(model, transfers.iter().map(rate).collect(), |at| Some(vec![*transfers.get(at)?]))
}

/// Of sums in bytes a second; what runs in the worst place is solved again for what binds it.
fn summary(model: &Model, sums: Vec<Option<f64>>, transfers: impl Fn(usize) -> Option<Vec<Transfer>>) -> Option<Alone> {
    let known: Vec<(usize, f64)> = sums.iter().enumerate().filter_map(|(at, s)| Some((at, (*s)?))).collect();
    let least = known.iter().map(|(_, s)| *s).fold(f64::INFINITY, f64::min);
    // rounding is no difference: the first of those that are alike
    let (worst, _) = *known.iter().find(|(_, s)| *s <= least * (1.0 + 1e-9))?;
    let set = transfers(worst)?;
    let first = *set.first()?;
    let name = |id| model.machine.fabric.node(id).name.clone();
    let figure = solved(model, set)?.sum_of_all();
    let mean = known.iter().map(|(_, s)| s).sum::<f64>() / known.len() as f64 / 1e9;
    Some(Alone {
        worst: figure,
        worst_pair: [name(first.source), name(first.destination)],
        mean: Figure { rate: mean, ..Figure::default() },
        best: known.iter().map(|(_, s)| *s).fold(0.0, f64::max) / 1e9,
        known: known.len(),
        of: sums.len(),
    })
}

/// Which pairs go directly, by their paths or else as a source states it; `None` below two GPUs, and where nothing is known of any.
pub(super) fn reach(flows: &Flows) -> Option<Reach> {
    let n = flows.gpus();
    let goes = |(i, j): Pair| {
        let stated = || Some(*flows.model.machine.p2p.get(&(flows.ends[i], flows.ends[j]))? == P2pStatus::Ok);
        flows.flow((i, j)).map(|flow| !flow.staged).or_else(stated)
    };
    let direct = |pair: Pair| usize::from(goes(pair) == Some(true));
    if !flows.pairs().any(|pair| goes(pair).is_some()) {
        return None;
    }
    let reached: Vec<usize> = (0..n).map(|i| (0..n).filter(|j| i != *j).map(|j| direct((i, j))).sum()).collect();
    (n > 1).then(|| Reach {
        direct: reached.iter().sum(),
        of: n * (n - 1),
        least: reached.iter().copied().min().unwrap_or(0),
        most: reached.iter().copied().max().unwrap_or(0),
    })
}
