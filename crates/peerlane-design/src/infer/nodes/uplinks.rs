//! What the links between a group of nodes and all others carry, from rates of pairs that ran at the same time.

use std::collections::{BTreeMap, BTreeSet};

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use peerlane_machine::blame::nearly_all;
use peerlane_machine::stats::Median;
use peerlane_measure::nodes::{Cell, Probe};

/// A pair with less than this share of what its ends reach at other times is slowed by what runs beside it.
const SLOWED: f64 = 0.93;

/// Slowed pairs that it takes, of all rounds that fill a link.
const FEWEST: usize = 4;

/// Rounds that carry nearly as much as the most are as full.
const AS_FULL: f64 = 0.97;

/// What the links between a group of nodes and all others carry, one way. Rates are in GB/s of 10⁹ bytes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Uplink {
    /// What they carried together at most; where they were full, that is what they carry.
    pub capacity: f64,
    /// Low end of its interval: the sum of those of the pairs.
    pub low: f64,
    /// High end.
    pub high: f64,
    /// What the group's nodes reach together, each at its best.
    pub wanted: f64,
    /// How many times as much that is: the factor of oversubscription where they were full, else an upper bound of it.
    pub times: f64,
    /// Rounds that filled them; 0 where none did.
    pub rounds: usize,
    /// Pairs that left the group in these rounds, or in the one that carried most.
    pub pairs: usize,
    /// How many of them were slowed.
    pub slowed: usize,
}

impl Uplink {
    /// Whether they were full.
    pub fn is_full(&self) -> bool {
        self.rounds > 0
    }
}

/// One direction of a pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    from: usize,
    to: usize,
    /// GB/s, with its interval.
    rate: [f64; 3],
    round: usize,
    /// Whether the other direction ran at the same time: rates alone are then another.
    both: bool,
    /// How many NICs of each node were in use in its round.
    nics: usize,
}

impl Flow {
    /// The flows of a measured rate: of one that is both ways half of it each. So many NICs of each node were in use in its round.
    pub(super) fn of(cell: &Cell, nics: usize) -> Vec<Flow> {
        let Some(estimate) = cell.estimate else { return Vec::new() };
        let step = &cell.step;
        let both = matches!(step.probe, Probe::WriteBoth | Probe::SendBoth);
        let share = if both { 0.5e-9 } else { 1e-9 };
        let rate = [estimate.value, estimate.low, estimate.high].map(|rate| share * rate);
        let (from, to, round) = (step.from.node, step.to.node, cell.round);
        let one = Flow { from, to, rate, round, both, nics };
        if both { vec![one, Flow { from: to, to: from, ..one }] } else { vec![one] }
    }
}

/// All flows of one NIC of each node, and what each node reaches at its best.
pub(super) struct Flows {
    all: Vec<Flow>,
    /// What each node reaches at its best, one way and both ways at once.
    best: [BTreeMap<usize, f64>; 2],
    /// What a pair reaches both ways with the fewest others, by what a node in the middle reaches one way.
    both: f64,
}

/// What leaves a group in one round.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    sum: [f64; 3],
    pairs: usize,
    slowed: usize,
    both: bool,
    nics: usize,
}

impl Load {
    /// Whether nearly all of its pairs are slowed: fewer are those whose routes meet.
    fn is_full(&self) -> bool {
        self.pairs > 1 && nearly_all(self.slowed, self.pairs)
    }
}

impl Flows {
    pub(super) fn of(all: Vec<Flow>) -> Self {
        let mut best: [BTreeMap<usize, f64>; 2] = Default::default();
        let mut rounds: BTreeMap<usize, Vec<f64>> = BTreeMap::new();
        for flow in &all {
            let [one_way, both] = &mut best;
            let of_kind = if flow.both { both } else { one_way };
            for node in [flow.from, flow.to] {
                let known = of_kind.entry(node).or_default();
                *known = known.max(flow.rate[0]);
            }
            if flow.both {
                rounds.entry(flow.round).or_default().push(flow.rate[0]);
            }
        }
        let median = |of: &[f64]| Median::of(of).map(|median| median.value);
        let usual = median(&best[0].values().copied().collect::<Vec<f64>>());
        let fewest = rounds.values().min_by_key(|rates| rates.len()).and_then(|rates| median(rates));
        let both = fewest.zip(usual).map_or(0.0, |(both, usual)| both / usual);
        Flows { all, best, both }
    }

    /// What a node reaches with few others at the same time, as far as was seen.
    fn of_node(&self, node: usize, both: bool) -> f64 {
        let [one_way, both_ways] = &self.best;
        let of = |best: &BTreeMap<usize, f64>| best.get(&node).copied().unwrap_or_default();
        if both { of(both_ways).max(self.both * of(one_way)) } else { of(one_way) }
    }

    /// What both ends of a flow reach at other times.
    fn alone(&self, flow: &Flow) -> f64 {
        self.of_node(flow.from, flow.both).min(self.of_node(flow.to, flow.both))
    }

    fn is_slowed(&self, flow: &Flow) -> bool {
        flow.rate[2] < SLOWED * self.alone(flow)
    }

    /// What the links of a group carry to all others, or from them.
    pub(super) fn uplink(&self, group: &BTreeSet<usize>, out: bool) -> Option<Uplink> {
        let mut loads: BTreeMap<usize, Load> = BTreeMap::new();
        for flow in &self.all {
            let (own, other) = if out { (flow.from, flow.to) } else { (flow.to, flow.from) };
            if !group.contains(&own) || group.contains(&other) {
                continue;
            }
            let load = loads.entry(flow.round).or_default();
            load.sum.iter_mut().zip(flow.rate).for_each(|(sum, rate)| *sum += rate);
            load.pairs += 1;
            load.slowed += usize::from(self.is_slowed(flow));
            load.both |= flow.both;
            load.nics = flow.nics;
        }
        // what other NICs send through the same links is not in the sum, so that rounds with as many are compared
        let nics = loads.values().map(|load| load.nics).max()?;
        loads.retain(|_, load| load.nics == nics);
        let most = |full: Option<bool>| {
            let of = loads.values().copied().filter(|load| full.is_none_or(|full| load.is_full() == full));
            of.max_by(|a, b| a.sum[0].total_cmp(&b.sum[0]))
        };
        // a link that carried more and slowed nobody was not full
        let slows = |load: &Load| most(Some(false)).is_none_or(|other| AS_FULL * other.sum[0] <= load.sum[0]);
        let fullest = most(Some(true)).filter(slows);
        let most = fullest.or(most(None))?;
        let full: Vec<&Load> =
            loads.values().filter(|load| load.is_full() && load.sum[0] >= AS_FULL * most.sum[0]).collect();
        let slowed: usize = full.iter().map(|load| load.slowed).sum();
        let is_full = fullest.is_some() && slowed >= FEWEST;
        let wanted: f64 = group.iter().map(|node| self.of_node(*node, most.both)).sum();
        let [capacity, low, high] = most.sum;
        Some(Uplink {
            capacity,
            low,
            high,
            wanted,
            times: wanted / capacity,
            rounds: if is_full { full.len() } else { 0 },
            pairs: if is_full { full.iter().map(|load| load.pairs).sum() } else { most.pairs },
            slowed: if is_full { slowed } else { most.slowed },
        })
    }

    /// Of the round in which most pairs are slowed, if nearly all are: how many, of how many, and the share that is left.
    pub(super) fn fullest(&self) -> Option<(usize, usize, f64)> {
        let mut rounds: BTreeMap<usize, (usize, usize, f64)> = BTreeMap::new();
        for flow in &self.all {
            let (slowed, all, left) = rounds.entry(flow.round).or_default();
            *all += 1;
            if self.is_slowed(flow) {
                *slowed += 1;
                *left += flow.rate[0] / self.alone(flow);
            }
        }
        let full = rounds.into_values().filter(|(slowed, all, _)| *slowed >= FEWEST && nearly_all(*slowed, *all));
        let most = full.max_by_key(|(slowed, ..)| *slowed)?;
        Some((most.0, most.1, most.2 / most.0 as f64))
    }
}
