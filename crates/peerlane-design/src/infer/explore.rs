//! The whole experiment on a machine: each direction alone, then whether directions disturb each other.

use std::collections::BTreeMap;

use super::adaptive::{Design, Outcome, experiment, most_sets};
use super::document::{Coverage, Experiment, Inference, InferredGroup, Interference, Rate, SCHEMA, Unidentifiable};
use super::flows::{ALLOCATIONS, Flow, FlowKind, flows, plan};
use super::members::Members;
use super::trials::{Noise, Trial};
use peerlane_machine::machine::Machine;
use peerlane_machine::names::list;
use peerlane_measure::plan::Plan;
use peerlane_measure::run::Cell;

/// What a limit of both directions together carries depends on how many share it: four H200 GPUs both ways carry 186 GB/s
/// by two, 200 by three and 202 by four, and of one set some GPUs up to 20 % more than others as their memory lies.
const BOTH: Noise = Noise { each: 0.05, common: 0.06 };

/// The mean range of three values of a normal distribution is 1.69 standard deviations (Tippett 1925).
const RANGE_OF_THREE: f64 = 1.69;

/// The standard deviation of the median of three values of a normal distribution, over that of their mean.
const MEDIAN_OF_THREE: f64 = 1.16;

/// Sets that were not driven and are named; the rest are counted.
const NAMED: usize = 6;

/// Asks a machine for the rates of chosen sets of transfers, each direction alone, and infers what they share.
///
/// `ask` answers a plan of one step with its cells. A flow that has no value alone is left out and noted; where a set has
/// none, its direction ends there. Its error ends the experiment.
pub fn explore<E>(
    machine: &Machine,
    source: &str,
    directions: &[FlowKind],
    ask: &mut dyn FnMut(&Plan) -> Result<Vec<Cell>, E>,
) -> Result<Inference, E> {
    let mut found = Inference::empty(&machine.name, source);
    let mut whole: BTreeMap<FlowKind, Vec<Flow>> = BTreeMap::new();
    for direction in directions {
        if let Some(flows) = one_direction(machine, *direction, ask, &mut found)? {
            whole.insert(*direction, flows);
        }
    }
    for direction in [FlowKind::HostToDevice, FlowKind::DeviceToHost] {
        if let (Some(host), Some(peers)) = (whole.get(&direction), whole.get(&FlowKind::GpuToGpu)) {
            found.interference.extend(interference(direction, host, peers, ask)?);
        }
    }
    Ok(found)
}

impl Inference {
    /// Of which nothing is known yet.
    pub(super) fn empty(machine: &str, source: &str) -> Self {
        Inference {
            schema: SCHEMA.to_owned(),
            machine: machine.to_owned(),
            source: source.to_owned(),
            ..Inference::default()
        }
    }
}

/// What flows with host memory and flows between GPUs leave of each other. Each kind is measured alone again, together with both
/// at once, since what contends hangs on where its memory lies.
fn interference<E>(
    direction: FlowKind,
    host: &[Flow],
    peers: &[Flow],
    ask: &mut dyn FnMut(&Plan) -> Result<Vec<Cell>, E>,
) -> Result<Option<Interference>, E> {
    let mut sums = |flows: [&[Flow]; 2]| -> Result<Option<[f64; 2]>, E> {
        let all = || flows.into_iter().flatten();
        let Ok(rates) = rates(&ask(&plan(all()))?, all()) else { return Ok(None) };
        let (a, b) = rates.split_at(flows[0].len());
        Ok(Some([a.iter().sum(), b.iter().sum()]))
    };
    let (Some([by_host, _]), Some([_, by_peers])) = (sums([host, &[]])?, sums([&[], peers])?) else { return Ok(None) };
    let Some(rates) = sums([host, peers])? else { return Ok(None) };
    let kept = [rates[0] / by_host, rates[1] / by_peers];
    Ok(Some(Interference { directions: [direction, FlowKind::GpuToGpu], kept, rates }))
}

/// The experiment on one direction. Gives its flows, if they could be asked.
fn one_direction<E>(
    machine: &Machine,
    direction: FlowKind,
    ask: &mut dyn FnMut(&Plan) -> Result<Vec<Cell>, E>,
    found: &mut Inference,
) -> Result<Option<Vec<Flow>>, E> {
    let mut known: Vec<Flow> = Vec::new();
    let mut pilot: BTreeMap<Members, Vec<f64>> = BTreeMap::new();
    let (mut refused, mut staged) = (Vec::new(), Vec::new());
    for direct in flows(machine, direction).into_iter().take(Members::MOST) {
        let mut flow = direct;
        let alone = loop {
            let cells = ask(&plan(std::iter::once(&flow)))?;
            match (rates(&cells, std::iter::once(&flow)), flow.staged()) {
                (Err(_), Some(next)) => flow = next,
                (alone, _) => break alone,
            }
        };
        match alone {
            Ok(alone) => {
                staged.extend(flow.is_staged().then(|| flow.name.clone()));
                pilot.insert(Members::one(known.len()), alone);
                known.push(flow);
            }
            Err(why) => refused.push((flow.name, why)),
        }
    }
    if let Some((_, why)) = refused.first() {
        let names: Vec<&str> = refused.iter().map(|(name, _)| name.as_str()).collect();
        found.notes.push(format!("{}: {} cannot be measured: {why}", direction.words(), names.join(", ")));
    }
    if !staged.is_empty() {
        let names = staged.join(", ");
        found
            .notes
            .push(format!("{}: {names} go through host memory, since there is no direct path", direction.words()));
    }
    if known.is_empty() {
        return Ok(None);
    }
    let noise = noise(direction);
    let design = Design { noise, repeats: ALLOCATIONS, sets: most_sets(known.len()) };
    let mut runs: BTreeMap<Members, usize> = BTreeMap::new();
    let outcome = experiment(known.len(), design, |set| -> Result<Trial, Stop<E>> {
        if let Some(rates) = pilot.remove(&set) {
            return Ok(Trial { set, rates, repeats: ALLOCATIONS, spread: None });
        }
        let times = runs.entry(set).or_insert(0);
        let order = reordered(set, *times);
        *times += 1;
        let flows = || order.iter().filter_map(|i| known.get(*i));
        let cells = ask(&plan(flows())).map_err(Stop::Error)?;
        let by_order = rates(&cells, flows()).map_err(|why| Stop::NoValue { set, why })?;
        let mut rates = vec![0.0; set.len()];
        order.iter().zip(by_order).for_each(|(i, rate)| rates[set.rank(*i)] = rate);
        Ok(Trial { set, rates, repeats: ALLOCATIONS, spread: cells.first().and_then(spread) })
    });
    match outcome {
        Ok(outcome) => {
            let names: Vec<String> = known.iter().map(|f| f.name.clone()).collect();
            found.add(direction, &names, &outcome, Some((design.sets, design.repeats)));
            Ok(Some(known))
        }
        Err(Stop::Error(error)) => Err(error),
        Err(Stop::NoValue { set, why }) => {
            let names: Vec<&str> = set.iter().filter_map(|i| known.get(i)).map(|f| f.name.as_str()).collect();
            let (direction, names) = (direction.words(), list(&names));
            found
                .notes
                .push(format!("{direction}: the set of {names} has no value, so that nothing is concluded: {why}"));
            Ok(None)
        }
    }
}

/// The flows of a set in the order in which they are issued: another one each time that the set runs, so that what depends
/// on the order is not taken for a limit.
fn reordered(set: Members, times: usize) -> Vec<usize> {
    let mut order: Vec<usize> = set.iter().collect();
    if times % 2 == 1 {
        order.reverse();
    }
    let by = times / 2 % order.len().max(1);
    order.rotate_left(by);
    order
}

/// The least noise that is assumed, whatever a few samples show: of one allocation of one flow, and of what all flows of a set
/// have in common. Four H200 GPUs agree to 0.5 % where nothing contends; that a machine shares as the solver does is not true to
/// better than this.
pub(super) fn noise(direction: FlowKind) -> Noise {
    if direction == FlowKind::Both { BOTH } else { Noise::ALONE }
}

/// Why an experiment ends early.
enum Stop<E> {
    Error(E),
    NoValue { set: Members, why: String },
}

/// The rate of each flow by the cells of a step, in GB/s; else why there is none.
fn rates<'a>(cells: &[Cell], flows: impl Iterator<Item = &'a Flow>) -> Result<Vec<f64>, String> {
    let Some(cell) = cells.first() else { return Err("it was not answered".to_owned()) };
    let Some(estimate) = cell.usable() else {
        let why = cell.flags.iter().find(|f| f.kind.voids()).map(ToString::to_string);
        return Err(why.unwrap_or_else(|| "it has no value".to_owned()));
    };
    // a set of one transfer needs no list
    let each: Vec<f64> =
        if cell.each.is_empty() { vec![estimate.value] } else { cell.each.iter().map(|e| e.value).collect() };
    let mut left = each.into_iter();
    let rates: Vec<f64> = flows.map(|f| left.by_ref().take(f.transfers.len()).sum()).collect();
    if rates.iter().all(|r| *r > 0.0 && r.is_finite()) { Ok(rates) } else { Err("a rate is missing".to_owned()) }
}

/// The relative standard deviation of an allocation, by the range of three: the mean over a set's transfers. A median of
/// three is less certain than their mean, which counts as more noise.
pub(super) fn spread(cell: &Cell) -> Option<f64> {
    let each = cell.each.iter().filter(|e| e.value > 0.0);
    let widths: Vec<f64> = each.map(|e| (e.high - e.low) / e.value).collect();
    let mean = widths.iter().sum::<f64>() / widths.len() as f64;
    (!widths.is_empty() && mean.is_finite()).then(|| MEDIAN_OF_THREE * mean / RANGE_OF_THREE)
}

impl Inference {
    /// Adds what the trials of one direction came to. `design` is how many sets were allowed, and the repeats of each.
    pub(super) fn add(
        &mut self,
        direction: FlowKind,
        names: &[String],
        outcome: &Outcome,
        design: Option<(usize, usize)>,
    ) {
        let named = |set| named(names, set);
        let first = self.experiments.len();
        for trial in &outcome.trials {
            let rates = trial.rates.iter().map(|r| digits(*r)).collect();
            self.experiments.push(Experiment { direction, members: named(trial.set), rates });
        }
        for support in &outcome.supports {
            self.groups.push(InferredGroup {
                members: named(support.group.members),
                direction,
                capacity: digits(support.group.capacity),
                low: digits(support.low),
                high: digits(support.high),
                confidence: digits(support.confidence),
                sets: support.full_in.iter().map(|i| first + i).collect(),
            });
        }
        let alone = names.iter().zip(&outcome.hypothesis.solo);
        self.coverage.push(Coverage {
            direction,
            flows: names.len(),
            alone: alone.map(|(flow, rate)| Rate { flow: flow.clone(), rate: digits(*rate) }).collect(),
            sets: outcome.trials.len(),
            allowed: design.map(|d| d.0),
            repeats: design.map(|d| d.1),
        });
        self.leave_open(direction, names, outcome);
    }

    /// What the trials leave open: what no set fills, and what was not driven.
    fn leave_open(&mut self, direction: FlowKind, names: &[String], outcome: &Outcome) {
        let named = |set| named(names, set);
        let most = |set: Members| {
            let sums = outcome.trials.iter().filter(|t| set.within(t.set)).map(|t| t.sum_of(set));
            sums.reduce(f64::max).map(digits)
        };
        let all = Members::first(names.len());
        let groups = &outcome.hypothesis.groups;
        let covered = groups.iter().any(|g| g.members == all);
        if all.len() > 1 && !covered && outcome.trials.iter().any(|t| t.set == all) {
            let why = "no set of these fills a limit that all share, if there is one";
            self.unidentifiable.push(Unidentifiable::new(direction, named(all), most(all), why, Vec::new()));
        }
        for group in &outcome.suspected {
            let set = named(group.members);
            let why = "some sets are slower, but no more than noise could make them";
            self.unidentifiable.push(Unidentifiable::new(direction, set.clone(), most(group.members), why, vec![set]));
        }
        let mut undriven: Vec<Members> = outcome.undriven.clone();
        undriven.sort_by_key(|m| (m.len(), *m));
        let more = undriven.len().saturating_sub(NAMED);
        for set in undriven.into_iter().take(NAMED) {
            let at_least = most(set);
            let why = match at_least {
                Some(_) => "no set made these carry what they could together",
                None => "no set held all of these",
            };
            self.unidentifiable.push(Unidentifiable::new(direction, named(set), at_least, why, vec![named(set)]));
        }
        if more > 0 {
            self.notes.push(format!("{}: {more} more sets were not driven as far as they can be", direction.words()));
        }
    }
}

fn named(names: &[String], set: Members) -> Vec<String> {
    set.iter().filter_map(|i| names.get(i).cloned()).collect()
}

/// With four digits that matter, so that a document shows no more than is known.
pub(super) fn digits(x: f64) -> f64 {
    format!("{x:.3e}").parse().unwrap_or(x)
}
