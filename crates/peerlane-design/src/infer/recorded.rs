//! Inference from what was measured before: the sets that a run happens to hold, and matrices of pairs.

use std::collections::BTreeMap;

use super::adaptive::conclude;
use super::document::{Inference, Unidentifiable};
use super::explore::noise;
use super::flows::FlowKind;
use super::hypothesis::Group;
use super::members::Members;
use super::pairs::rate_groups;
use super::trials::Trial;
use peerlane_machine::fabric::NodeKind;
use peerlane_machine::machine::Machine;
use peerlane_machine::matrix::{Engine, Quantity};
use peerlane_machine::names::{is_host, natural};
use peerlane_machine::transfer::{HostMemory, Transfer, Via};
use peerlane_measure::plan::{Test, Work};
use peerlane_measure::run::{Cell, Run};

/// Repeats that a recorded number is taken for, where the record does not say how often memory was allocated.
const REPEATS: usize = 3;

/// Flows that ran at once, by name, each with its rate in GB/s.
type Set = Vec<(String, f64)>;

/// What a run on a machine, or else its published numbers tell; nothing is asked.
pub fn recorded(machine: &Machine, run: Option<&Run>, source: &str) -> Inference {
    let mut found = Inference::empty(&machine.name, source);
    let mut sets: BTreeMap<FlowKind, Vec<Set>> = BTreeMap::new();
    for cell in run.iter().flat_map(|run| &run.cells) {
        if let Some((way, set)) = of_cell(cell) {
            sets.entry(way).or_default().push(set);
        }
    }
    for way in FlowKind::ALL {
        if let Some(sets) = sets.remove(&way) {
            concluded(way, &sets, &mut found);
        }
    }
    let (groups, open) = rate_groups(machine);
    found.rate_groups = groups;
    // where sets of pairs ran, they have told
    if !found.coverage.iter().any(|a| a.direction == FlowKind::GpuToGpu) {
        found.unidentifiable.extend(open);
    }
    if found.coverage.iter().all(|a| a.direction == FlowKind::GpuToGpu) {
        found.unidentifiable.extend(never_with_host(machine));
    }
    found
}

/// Adds what the sets of one direction tell.
fn concluded(way: FlowKind, sets: &[Set], found: &mut Inference) {
    if !sets.iter().any(|set| set.len() > 1) {
        return;
    }
    let mut names: Vec<String> = sets.iter().flatten().map(|(name, _)| name.clone()).collect();
    names.sort_by(|a, b| natural(a).cmp(&natural(b)));
    names.dedup();
    let left_out = names.len().saturating_sub(Members::MOST);
    names.truncate(Members::MOST);
    if left_out > 0 {
        found.notes.push(format!("{}: {left_out} of the flows are left out, too many to search", way.words()));
    }
    let trial = |set: &Set| {
        let mut flows: Vec<(usize, f64)> = Vec::new();
        for (name, rate) in set {
            flows.push((names.iter().position(|n| n == name)?, *rate));
        }
        flows.sort_by_key(|f| f.0);
        let members: Members = flows.iter().map(|f| f.0).collect();
        // a flow that is in a set twice is none
        let whole = members.len() == flows.len();
        whole.then(|| Trial { set: members, rates: flows.iter().map(|f| f.1).collect(), repeats: REPEATS })
    };
    let trials: Vec<Trial> = sets.iter().filter_map(trial).collect();
    let lone: Vec<&str> = (0..names.len())
        .filter(|i| !trials.iter().any(|t| t.set == Members::one(*i)))
        .filter_map(|i| names.get(i).map(String::as_str))
        .collect();
    if !lone.is_empty() {
        found.notes.push(format!(
            "{}: {} never ran alone; the most that each reached is taken for that",
            way.words(),
            peerlane_machine::names::list(&lone)
        ));
    }
    let known = if way == FlowKind::GpuToGpu { ports(&names, &trials) } else { Vec::new() };
    let outcome = conclude(names.len(), noise(way), trials, known);
    found.add(way, &names, &outcome, None);
}

/// Each GPU has one way out and one way in for all of its pairs, as wide as the fastest of them.
fn ports(names: &[String], trials: &[Trial]) -> Vec<Group> {
    let ends: Vec<(&str, &str)> = names.iter().filter_map(|name| name.split_once('→')).collect();
    let of = |end: &str, out: bool| -> Members {
        let at = |e: &(&str, &str)| if out { e.0 == end } else { e.1 == end };
        ends.iter().enumerate().filter(|(_, e)| at(e)).map(|(i, _)| i).collect()
    };
    let mut gpus: Vec<&str> = ends.iter().flat_map(|(from, to)| [*from, *to]).collect();
    gpus.sort_unstable();
    gpus.dedup();
    let port = |members: Members| {
        let ran = trials.iter().any(|t| t.set.and(members).len() > 1);
        let rates = members.iter().flat_map(|i| trials.iter().filter_map(move |t| t.rate(i)));
        let capacity = rates.fold(0.0, f64::max);
        (ran && capacity > 0.0).then_some(Group { members, capacity })
    };
    gpus.into_iter().flat_map(|gpu| [of(gpu, true), of(gpu, false)]).filter_map(port).collect()
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
    let read = transfers.iter().any(|t| t.op == peerlane_machine::matrix::Operation::Read);
    let complete = rates.len() == transfers.len() && rates.iter().all(|r| *r > 0.0 && r.is_finite());
    let pairs: Vec<(&str, &str, f64)> =
        transfers.iter().zip(&rates).map(|(t, r)| (t.source.as_str(), t.destination.as_str(), *r)).collect();
    // reads and writes of one pair are two engines' work
    (complete && !read).then(|| classified(&pairs)).flatten()
}

/// The direction of transfers, each from, to and at a rate, with the rate of each flow; `None` of mixed ones.
fn classified(transfers: &[(&str, &str, f64)]) -> Option<(FlowKind, Set)> {
    let (down, rest): (Vec<_>, Vec<_>) = transfers.iter().partition(|(from, ..)| is_host(from));
    let (up, peers): (Vec<_>, Vec<_>) = rest.into_iter().partition(|(_, to, _)| is_host(to));
    let to_names = |all: &[(&str, &str, f64)], down: bool| -> Set {
        all.iter().map(|(from, to, rate)| (if down { *to } else { *from }.to_owned(), *rate)).collect()
    };
    match (down.as_slice(), up.as_slice(), peers.as_slice()) {
        (down, [], []) => Some((FlowKind::HostToDevice, to_names(down, true))),
        ([], up, []) => Some((FlowKind::DeviceToHost, to_names(up, false))),
        (down, up, []) => {
            let up = to_names(up, false);
            let both = to_names(down, true).into_iter().map(|(gpu, rate)| {
                let back = up.iter().find(|(other, _)| *other == gpu)?;
                Some((gpu, rate + back.1))
            });
            let both: Set = both.collect::<Option<_>>()?;
            (both.len() == up.len()).then_some((FlowKind::Both, both))
        }
        ([], [], peers) => {
            let flows = peers.iter().map(|(from, to, rate)| (format!("{from}→{to}"), *rate));
            Some((FlowKind::GpuToGpu, flows.collect()))
        }
        _ => None,
    }
}

/// What nobody has measured yet.
fn never_with_host(machine: &Machine) -> Option<Unidentifiable> {
    let fabric = &machine.fabric;
    let gpus: Vec<String> = fabric.of_kind(NodeKind::Gpu).map(|id| fabric.node(id).name.clone()).collect();
    (gpus.len() > 1).then(|| Unidentifiable {
        members: gpus.clone(),
        direction: FlowKind::HostToDevice,
        at_least: None,
        why: "no two of these copied from host memory at once, so that what they share on the way does not show"
            .to_owned(),
        would_tell: vec![gpus],
    })
}
