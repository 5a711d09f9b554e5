//! Systems of the catalogue as simulated machines with noise, and what can be known of their limits.

use std::collections::{BTreeMap, BTreeSet};

use peerlane::catalogue::{self, Parts};
use peerlane::expectation::resolve;
use peerlane::fabric::NodeKind;
use peerlane::fault::Planted;
use peerlane::infer::{FlowKind, Group, Hypothesis, Inference, Members, explore, flows};
use peerlane::machine::Machine;
use peerlane::measure::execute;
use peerlane::model::{Model, Transfer};
use peerlane::plan::{Method, Plan, Size, Step, Test, Work};
use peerlane::random::Random;
use peerlane::run::Event;
use peerlane::simulated_machine::SimulatedMachine;
use peerlane::transfer::{self, Via};
use peerlane::units::{Bytes, Seconds};

use super::judge::{self, permitted};

/// The model's rates may differ by so much from those of fixed limits.
const ALIKE: f64 = 0.03;

/// A limit counts if a rate changes by so much without it.
const LEAST: f64 = 0.05;

/// Larger machines take minutes.
const MOST_GPUS: usize = 16;

/// What was stated of one system, held against what is true.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdicts {
    /// Limits that could be found.
    pub(crate) identifiable: usize,
    /// Of them, found.
    pub(crate) found: usize,
    /// Each stated limit: its confidence, and whether it is there.
    pub(crate) stated: Vec<(f64, bool)>,
    /// What went wrong, in words.
    pub(crate) wrong: Vec<String>,
}

/// A system with the truth about each direction.
pub(crate) struct System {
    pub(crate) name: String,
    machine: Machine,
    truths: BTreeMap<FlowKind, Truth>,
}

/// What is shared one way.
enum Truth {
    /// Fixed limits, with the sets that show them.
    Limits(Hypothesis, Vec<Members>),
    /// The model has queues or windows there: the rates alone, and the groups that show without noise.
    Shown(Vec<f64>, BTreeSet<Members>),
}

impl System {
    pub(crate) fn new(name: &str) -> Option<Self> {
        let machine = catalogue::system(name)?.ok()?;
        if machine.fabric.of_kind(NodeKind::Gpu).count() > MOST_GPUS {
            return None;
        }
        let quiet = infer(&machine, 0.0, 0);
        let mut truths = BTreeMap::new();
        for kind in FlowKind::ALL {
            let names: Vec<String> = flows(&machine, kind).into_iter().map(|f| f.name).collect();
            if names.len() < 2 {
                continue;
            }
            let groups = quiet.groups.iter().filter(|g| g.direction == kind);
            let shown: BTreeSet<Members> = groups.map(|g| members(&names, &g.members)).collect();
            let alone = quiet.coverage.iter().filter(|c| c.direction == kind).flat_map(|c| &c.alone);
            let alone: Vec<f64> = alone.map(|a| a.rate).collect();
            let truth = limits(&machine, kind, &alone).unwrap_or(Truth::Shown(alone, shown));
            truths.insert(kind, truth);
        }
        Some(System { name: name.to_owned(), machine, truths })
    }

    /// What an inference at this noise gets right.
    pub(crate) fn verdicts(&self, noise: f64, seed: u64) -> Verdicts {
        let found = infer(&self.machine, noise, seed);
        let mut all = Verdicts::default();
        for (kind, truth) in &self.truths {
            let names: Vec<String> = flows(&self.machine, *kind).into_iter().map(|f| f.name).collect();
            let stated: Vec<_> = found.groups.iter().filter(|g| g.direction == *kind).collect();
            let groups: Vec<Group> =
                stated.iter().map(|g| Group { members: members(&names, &g.members), capacity: g.capacity }).collect();
            let quiet = |set| rates(&self.machine, *kind, set);
            let (right, missing) = truth.holds(&groups, &quiet);
            all.identifiable += truth.count();
            all.found += truth.count() - missing.len();
            let label = format!("{} {} noise {noise} seed {seed}", self.name, kind.name());
            for ((group, is_there), stated) in groups.iter().zip(&right).zip(&stated) {
                all.stated.push((stated.confidence, *is_there));
                if !is_there {
                    let (members, capacity) = (group.members, group.capacity);
                    all.wrong.push(format!("{label}: invented {members} {capacity:.2} ({:.4})", stated.confidence));
                }
            }
            all.wrong.extend(missing.iter().map(|m| format!("{label}: missing {m}")));
        }
        all
    }
}

impl Truth {
    fn count(&self) -> usize {
        match self {
            Truth::Limits(truth, sets) => judge::identifiable(truth, sets, LEAST).groups.len(),
            Truth::Shown(_, groups) => groups.len(),
        }
    }

    /// Whether each of these groups is there, and which are missing.
    /// `quiet` is what a set of flows reaches without noise.
    fn holds(&self, groups: &[Group], quiet: &dyn Fn(Members) -> Option<f64>) -> (Vec<bool>, Vec<Members>) {
        match self {
            Truth::Limits(truth, sets) => {
                let held = judge::judge(truth, groups, sets, LEAST);
                (held.right, held.missing)
            }
            Truth::Shown(solo, there) => {
                let has = |m: &Members| groups.iter().any(|g| g.members == *m);
                // it is there if its members, and nothing else, carry less than the other groups let them
                let slows = |at: usize, group: &Group| {
                    let mut others = groups.to_vec();
                    others.remove(at);
                    let without = Hypothesis::new(solo.clone(), others).total(group.members);
                    quiet(group.members).is_some_and(|total| total < without * (1.0 - LEAST / 2.0))
                };
                let right = |(at, group): (usize, &Group)| there.contains(&group.members) || slows(at, group);
                let right = groups.iter().enumerate().map(right).collect();
                (right, there.iter().filter(|m| !has(m)).copied().collect())
            }
        }
    }
}

fn members(names: &[String], of: &[String]) -> Members {
    of.iter().filter_map(|name| names.iter().position(|n| n == name)).collect()
}

/// `peerlane infer` on a simulated machine.
fn infer(machine: &Machine, noise: f64, seed: u64) -> Inference {
    let planted = Planted { noise, seed, faults: Vec::new() };
    let mut executor = SimulatedMachine::new(machine, Parts::embedded(), &planted).impatient();
    let explored = explore(machine, "a simulated machine", &FlowKind::ALL, &mut |plan| {
        let mut cells = Vec::new();
        let mut keep = |event| {
            if let Event::Cells(new) = event {
                cells.extend(new);
            }
        };
        execute(plan, &mut executor, &BTreeSet::new(), &mut keep).map(|()| cells)
    });
    explored.unwrap_or_default()
}

/// What a set of flows reaches together without noise.
fn rates(machine: &Machine, kind: FlowKind, set: Members) -> Option<f64> {
    let planted = Planted { noise: 0.0, seed: 0, faults: Vec::new() };
    let mut executor = SimulatedMachine::new(machine, Parts::embedded(), &planted).impatient();
    let all = flows(machine, kind);
    let transfers = || set.iter().flat_map(|i| all.get(i).into_iter().flat_map(|f| f.transfers.clone()));
    let method = Method { budget: Seconds::new(0.1), allocations: 1, ..Method::default() };
    // directly, or through host memory where there is no other way
    [Via::Direct, Via::Driver].into_iter().find_map(|via| {
        let work = Work::Transfers(transfers().map(|t| transfer::Transfer { via, ..t }).collect());
        let step = Step { test: Test::Subsets, work, size: Size::UpTo(Bytes::from_mib(256)) };
        let plan = Plan { method, rounds: vec![vec![step]], skipped: Vec::new() };
        let mut total = None;
        let mut keep = |event| {
            if let Event::Cells(cells) = event {
                total = cells.first().and_then(|cell| Some(cell.usable()?.value));
            }
        };
        execute(&plan, &mut executor, &BTreeSet::new(), &mut keep).ok()?;
        total
    })
}

/// The resources of the model that several flows use, if fixed limits describe its rates.
fn limits(machine: &Machine, kind: FlowKind, alone: &[f64]) -> Option<Truth> {
    let model = Model::new(machine, Parts::embedded());
    let fabric = &machine.fabric;
    let mut chosen: Vec<Vec<Transfer>> = Vec::new();
    for flow in flows(machine, kind) {
        let transfers: Option<Vec<Transfer>> = flow.transfers.iter().map(|t| resolve(fabric, t)).collect();
        chosen.push(transfers?);
    }
    let rates = |set: Members| -> Option<Vec<f64>> {
        let transfers: Vec<Transfer> = set.iter().flat_map(|i| chosen[i].iter().copied()).collect();
        let mut solved = model.solve(&transfers).ok()?.into_iter().map(|a| a.rate.gb());
        Some(set.iter().map(|i| solved.by_ref().take(chosen[i].len()).sum()).collect())
    };
    let n = chosen.len();
    let mut users: BTreeMap<usize, Members> = BTreeMap::new();
    for (i, transfers) in chosen.iter().enumerate() {
        for transfer in transfers {
            for (resource, _) in model.route(transfer).ok()?.demand.uses {
                let of = users.entry(resource).or_default();
                *of = of.or(Members::one(i));
            }
        }
    }
    let solo: Vec<f64> = (0..n).filter_map(|i| rates(Members::one(i))?.first().copied()).collect();
    let is_it = |(model, measured): (&f64, &f64)| (model / measured - 1.0).abs() <= ALIKE;
    if solo.len() != n || alone.len() != n || !solo.iter().zip(alone).all(is_it) {
        // through host memory, or not known
        return None;
    }
    let shared: BTreeSet<Members> = users.into_values().filter(|m| m.len() > 1).collect();
    let mut groups = Vec::new();
    // from the smallest up, so that a limit is what its members carry less than what hangs below them could
    for members in by_size(shared) {
        let together: f64 = rates(members)?.iter().sum();
        let below = Hypothesis::new(solo.clone(), groups.clone());
        if together < below.total(members) * (1.0 - 1e-6) {
            groups.push(Group { members, capacity: together });
        }
    }
    let truth = Hypothesis::new(solo, groups);
    let sets = permitted(&truth, &mut Random::from_seed(1));
    let off = |set: &Members| {
        let both = rates(*set).into_iter().flatten().zip(truth.rates(*set)).map(|(a, b)| (a / b - 1.0).abs());
        both.fold(0.0, f64::max)
    };
    sets.iter().take(200).all(|set| off(set) <= ALIKE).then_some(Truth::Limits(truth, sets))
}

fn by_size(all: BTreeSet<Members>) -> Vec<Members> {
    let mut all: Vec<Members> = all.into_iter().collect();
    all.sort_by_key(|m| m.len());
    all
}
