//! Inference from what was measured before: the sets that a run happens to hold, and matrices of pairs.

use std::collections::BTreeMap;

use super::adaptive::conclude;
use super::document::{Inference, Unidentifiable};
use super::explore::noise;
use super::flows::{Flow, FlowKind};
use super::hypothesis::Group;
use super::members::Members;
use super::pairs::rate_groups;
use super::trials::Trial;
use peerlane_machine::fabric::NodeKind;
use peerlane_machine::machine::Machine;
use peerlane_machine::matrix::{Engine, Operation, Quantity};
use peerlane_machine::names::{is_host, list, natural};
use peerlane_machine::transfer::{HostMemory, Transfer, Via};
use peerlane_measure::plan::{Test, Work};
use peerlane_measure::run::{Cell, Run};

/// Repeats that a recorded number is taken for, where the record does not say how often memory was allocated.
const REPEATS: usize = 3;

/// Flows that ran at once, each with its rate in GB/s.
type Set = Vec<(Flow, f64)>;

/// What a run on a machine, or else its published numbers show; nothing is measured.
pub fn recorded(machine: &Machine, run: Option<&Run>, source: &str) -> Inference {
    let mut found = Inference::empty(&machine.name, source);
    let mut sets: BTreeMap<FlowKind, Vec<Set>> = BTreeMap::new();
    for cell in run.iter().flat_map(|run| &run.cells) {
        if let Some((direction, set)) = of_cell(cell) {
            sets.entry(direction).or_default().push(set);
        }
    }
    for direction in FlowKind::ALL {
        if let Some(sets) = sets.remove(&direction) {
            concluded(direction, &sets, &mut found);
        }
    }
    let (groups, open) = rate_groups(machine);
    found.rate_groups = groups;
    // where sets of pairs ran, they have decided it
    if !found.coverage.iter().any(|a| a.direction == FlowKind::GpuToGpu) {
        found.unidentifiable.extend(open);
    }
    if found.coverage.iter().all(|a| a.direction == FlowKind::GpuToGpu) {
        found.unidentifiable.extend(never_with_host(machine));
    }
    found
}

/// Adds what the sets of one direction show.
fn concluded(direction: FlowKind, sets: &[Set], found: &mut Inference) {
    if !sets.iter().any(|set| set.len() > 1) {
        return;
    }
    let mut known: Vec<&Flow> = sets.iter().flatten().map(|(flow, _)| flow).collect();
    known.sort_by_key(|flow| natural(&flow.name));
    known.dedup();
    let left_out = known.len().saturating_sub(Members::MOST);
    known.truncate(Members::MOST);
    let names: Vec<String> = known.iter().map(|flow| flow.name.clone()).collect();
    if left_out > 0 {
        found.notes.push(format!("{}: {left_out} of the flows are left out, too many to search", direction.words()));
    }
    let trial = |set: &Set| {
        let place = |(flow, rate): &(Flow, f64)| Some((known.iter().position(|k| *k == flow)?, *rate));
        let mut flows: Vec<(usize, f64)> = set.iter().map(place).collect::<Option<_>>()?;
        flows.sort_by_key(|f| f.0);
        let members: Members = flows.iter().map(|f| f.0).collect();
        // a flow that is in a set twice is none
        let whole = members.len() == flows.len();
        whole.then(|| Trial {
            set: members,
            rates: flows.iter().map(|f| f.1).collect(),
            repeats: REPEATS,
            spread: None,
        })
    };
    let trials: Vec<Trial> = sets.iter().filter_map(trial).collect();
    let never_alone = |(i, _): &(usize, &String)| !trials.iter().any(|t| t.set == Members::one(*i));
    let lone: Vec<&String> = names.iter().enumerate().filter(never_alone).map(|(_, name)| name).collect();
    if !lone.is_empty() {
        let (direction, lone) = (direction.words(), list(&lone));
        found.notes.push(format!("{direction}: {lone} never ran alone; the most that each reached is taken for that"));
    }
    let known = if direction == FlowKind::GpuToGpu { ports(&known, &trials) } else { Vec::new() };
    let outcome = conclude(names.len(), noise(direction), trials, known);
    found.add(direction, &names, &outcome, None);
}

/// Each GPU has one way out and one way in for all of its pairs, as wide as the fastest of them.
fn ports(flows: &[&Flow], trials: &[Trial]) -> Vec<Group> {
    let of = |gpu: &str, end: fn(&Transfer) -> &str| -> Members {
        flows
            .iter()
            .enumerate()
            .filter(|(_, flow)| flow.transfers.iter().any(|t| end(t) == gpu))
            .map(|(i, _)| i)
            .collect()
    };
    let mut gpus: Vec<&str> = flows.iter().flat_map(|flow| flow.transfers.iter().flat_map(Transfer::gpus)).collect();
    gpus.sort_unstable();
    gpus.dedup();
    let port = |members: Members| {
        let ran = trials.iter().any(|t| t.set.and(members).len() > 1);
        let rates = members.iter().flat_map(|i| trials.iter().filter_map(move |t| t.rate(i)));
        let capacity = rates.fold(0.0, f64::max);
        (ran && capacity > 0.0).then_some(Group { members, capacity })
    };
    gpus.into_iter().flat_map(|gpu| [of(gpu, |t| &t.source), of(gpu, |t| &t.destination)]).filter_map(port).collect()
}

/// The set that a cell is of: copies by copy engines, from or to pinned memory, or directly between GPUs.
fn of_cell(cell: &Cell) -> Option<(FlowKind, Set)> {
    let Work::Transfers(transfers) = &cell.work else { return None };
    let usual = |t: &Transfer| {
        let numa = [&t.source, &t.destination].into_iter().any(|n| is_host(n) && n != "host");
        t.engine == Engine::Ce && t.via == Via::Direct && t.memory == HostMemory::Pinned && !numa
    };
    let lone_family = matches!(cell.test, Test::Sizes | Test::Local);
    if cell.quantity != Quantity::Bandwidth || lone_family || !transfers.iter().all(usual) {
        return None;
    }
    let value = cell.usable()?.value;
    let rates: Vec<f64> = if transfers.len() == 1 { vec![value] } else { cell.each.iter().map(|e| e.value).collect() };
    let read = transfers.iter().any(|t| t.op == Operation::Read);
    let complete = rates.len() == transfers.len() && rates.iter().all(|r| *r > 0.0 && r.is_finite());
    // reads and writes of one pair are two engines' work
    (complete && !read).then(|| classified(transfers.iter().zip(rates).collect())).flatten()
}

/// The direction of transfers, each with its rate, and the rate of each flow; `None` of mixed ones.
fn classified(transfers: Vec<(&Transfer, f64)>) -> Option<(FlowKind, Set)> {
    let (down, rest): (Vec<_>, Vec<_>) = transfers.into_iter().partition(|(t, _)| is_host(&t.source));
    let (up, peers): (Vec<_>, Vec<_>) = rest.into_iter().partition(|(t, _)| is_host(&t.destination));
    let flow = |direction| {
        move |(t, rate): &(&Transfer, f64)| {
            let gpu = if is_host(&t.source) { &t.destination } else { &t.source };
            let flow = if direction == FlowKind::GpuToGpu {
                Flow::between(gpu, &t.destination)
            } else {
                Flow::with_host(gpu, direction)
            };
            (flow, *rate)
        }
    };
    let flows = |all: &[(&Transfer, f64)], direction| Some((direction, all.iter().map(flow(direction)).collect()));
    match (down.as_slice(), up.as_slice(), peers.as_slice()) {
        (down, [], []) => flows(down, FlowKind::HostToDevice),
        ([], up, []) => flows(up, FlowKind::DeviceToHost),
        (down, up, []) if down.len() == up.len() => {
            let back = |gpu: &str| up.iter().find(|(t, _)| t.source == gpu).map(|(_, rate)| rate);
            let both = |(t, rate): &(&Transfer, f64)| {
                Some((Flow::with_host(&t.destination, FlowKind::Both), rate + back(&t.destination)?))
            };
            Some((FlowKind::Both, down.iter().map(both).collect::<Option<_>>()?))
        }
        ([], [], peers) => flows(peers, FlowKind::GpuToGpu),
        _ => None,
    }
}

/// What nobody has measured yet.
fn never_with_host(machine: &Machine) -> Option<Unidentifiable> {
    let fabric = &machine.fabric;
    let gpus: Vec<String> = fabric.of_kind(NodeKind::Gpu).map(|id| fabric.node(id).name.clone()).collect();
    let why = "no two of these copied from host memory at once, so that what they share on the path does not show";
    (gpus.len() > 1).then(|| Unidentifiable::new(FlowKind::HostToDevice, gpus.clone(), None, why, vec![gpus]))
}
