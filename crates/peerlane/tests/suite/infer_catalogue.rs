//! Inference on every system of the catalogue as a virtual machine, held against the resources of its model.

#[path = "../../examples/infer_trees/judge.rs"]
#[allow(dead_code, reason = "the other programs that include it use the rest")]
pub(super) mod judge;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::convert::Infallible;

use judge::{Judgement, permitted};
use peerlane::catalogue::{self, Parts};
use peerlane::fabric::{NodeId, NodeKind};
use peerlane::infer::{Design, Flow, FlowKind, Group, Hypothesis, Members, Noise, Trial, experiment, flows, most_sets};
use peerlane::machine::Machine;
use peerlane::matrix::{Engine, Operation};
use peerlane::model::{Model, PeerAccess, Transfer};
use peerlane::random::Random;

/// Relative standard deviations: of a repeat, and of what a set has in common.
const NOISE: Noise = Noise { each: 0.02, common: 0.01 };

/// Repeats of each set.
const REPEATS: usize = 6;

/// A resource counts if a rate changes by so much without it.
const LEAST: f64 = 0.05;

/// The model's rates may differ by so much from those of fixed limits, which queues and start-up are not.
const ALIKE: f64 = 0.03;

/// More flows, as of a rack's GPUs, take minutes to search.
const MOST_FLOWS: usize = 32;

/// The model with the transfers of some flows.
struct Oracle<'a> {
    model: Model<'a>,
    flows: Vec<Transfer>,
}

impl<'a> Oracle<'a> {
    /// `None` where the model has no rate for a flow, or a flow is staged, which its model does not do by fixed limits.
    fn new(machine: &'a Machine, way: FlowKind) -> Option<Self> {
        let model = Model::new(machine, Parts::embedded());
        let fabric = &machine.fabric;
        let hosts: Vec<NodeId> = fabric.of_kind(NodeKind::Host).collect();
        let node = |name: &str| fabric.find(name);
        let ends = |flow: &Flow| -> Vec<Transfer> {
            let [transfer] = flow.transfers.as_slice() else { return Vec::new() };
            let of = |name: &str| if name == "host" { hosts.clone() } else { node(name).into_iter().collect() };
            let (sources, destinations) = (of(&transfer.source), of(&transfer.destination));
            let pairs = sources.iter().flat_map(|s| destinations.iter().map(move |d| (*s, *d)));
            let made = |(source, destination)| Transfer {
                source,
                destination,
                engine: Engine::Ce,
                op: Operation::Write,
                peer: PeerAccess::Enabled,
            };
            pairs.map(made).collect()
        };
        let mut chosen = Vec::new();
        let flows = flows(machine, way);
        if flows.len() > MOST_FLOWS {
            return None;
        }
        for flow in flows {
            // the memory that is nearest is the one that is fastest
            let rates = ends(&flow).into_iter().filter_map(|t| Some((model.solve(&[t]).ok()?[0].rate.gb(), t)));
            let (_, transfer) = rates.reduce(|best, next| if next.0 > best.0 { next } else { best })?;
            if model.route(&transfer).ok()?.staged {
                return None;
            }
            chosen.push(transfer);
        }
        (chosen.len() > 1).then_some(Oracle { model, flows: chosen })
    }

    fn rates(&self, set: Members) -> Vec<f64> {
        let transfers: Vec<Transfer> = set.iter().map(|i| self.flows[i]).collect();
        self.model.solve(&transfers).unwrap().iter().map(|a| a.rate.gb()).collect()
    }

    /// Resources that several flows use, as groups.
    fn truth(&self) -> Hypothesis {
        let mut users: BTreeMap<usize, Vec<(usize, f64)>> = BTreeMap::new();
        for (i, transfer) in self.flows.iter().enumerate() {
            for (resource, each) in self.model.route(transfer).unwrap().demand.uses {
                users.entry(resource).or_default().push((i, each));
            }
        }
        let shared = users.into_iter().filter(|(_, users)| users.len() > 1);
        let groups = shared.map(|(resource, users)| {
            let each = users.iter().map(|u| u.1).sum::<f64>() / users.len() as f64;
            let members = users.iter().map(|u| u.0).collect();
            Group { members, capacity: self.model.resources[resource].capacity.gb() / each }
        });
        let groups = groups.collect();
        Hypothesis::new((0..self.flows.len()).map(|i| self.rates(Members::one(i))[0]).collect(), groups)
    }

    /// Whether fixed limits describe the model's rates.
    fn is_described_by(&self, truth: &Hypothesis, sets: &[Members]) -> bool {
        let off = |set: &Members| {
            let both = self.rates(*set).into_iter().zip(truth.rates(*set));
            both.map(|(a, b)| (a / b - 1.0).abs()).fold(0.0, f64::max)
        };
        sets.iter().take(200).all(|set| off(set) <= ALIKE)
    }

    fn infer(&self, seed: u64) -> (Hypothesis, usize) {
        let n = self.flows.len();
        let mut random = Random::from_seed(seed);
        let mut known: HashMap<Members, Vec<f64>> = HashMap::new();
        let ask = |set: Members| -> Result<Trial, Infallible> {
            let shift = NOISE.common * random.normal();
            let rates = known.entry(set).or_insert_with(|| self.rates(set)).iter().map(|rate| {
                let repeats = (0..REPEATS).map(|_| (NOISE.each * random.normal()).exp()).sum::<f64>();
                rate * repeats / REPEATS as f64 * shift.exp()
            });
            Ok(Trial { set, rates: rates.collect(), repeats: REPEATS, spread: None })
        };
        let design = Design { noise: NOISE, repeats: REPEATS, sets: most_sets(n) };
        let Ok(outcome) = experiment(n, design, ask);
        (outcome.hypothesis, outcome.trials.len())
    }
}

#[test]
fn what_can_be_told_of_every_system_is_found() {
    let mut sum = Judgement::default();
    let mut wrong: Vec<String> = Vec::new();
    let mut judged = BTreeSet::new();
    let mut other = BTreeSet::new();
    for name in catalogue::system_names() {
        let machine = catalogue::system(name).unwrap().unwrap();
        for way in [FlowKind::HostToDevice, FlowKind::DeviceToHost, FlowKind::GpuToGpu] {
            let Some(oracle) = Oracle::new(&machine, way) else { continue };
            let truth = oracle.truth();
            let sets = permitted(&truth, &mut Random::from_seed(1));
            if !oracle.is_described_by(&truth, &sets) {
                other.insert((name, way.name()));
                continue;
            }
            judged.insert(name);
            let (found, asked) = oracle.infer(1);
            assert!(asked <= most_sets(oracle.flows.len()), "{name}: {asked} sets");
            let one = judge::judge(&truth, &found.groups, &sets, LEAST);
            wrong.extend(one.wrong.iter().map(|w| format!("{name} {}: {w}", way.name())));
            sum.identifiable += one.identifiable;
            sum.found += one.found;
            sum.invented += one.invented;
            sum.groups += one.groups;
            sum.errors.extend(one.errors);
        }
    }
    sum.errors.sort_by(f64::total_cmp);
    let median = sum.errors[sum.errors.len() / 2];
    assert!(
        judged.len() >= 18 && sum.identifiable >= 55 && other.len() <= 9,
        "{} {judged:?} {other:?}",
        sum.identifiable
    );
    assert!(sum.found as f64 >= 0.98 * sum.identifiable as f64, "{wrong:?}");
    assert!(sum.invented as f64 <= 0.02 * sum.groups as f64, "{wrong:?}");
    assert!(median <= 0.03);
}
