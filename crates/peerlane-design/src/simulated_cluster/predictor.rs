//! What each step of a round should deliver: its path through nodes and network, solved together with those of the others.

use std::collections::HashMap;

use super::{memory_near, nccl};
use crate::cluster::{Cluster, ClusterRoute, Place, Router, Via};
use peerlane_machine::matrix::Engine;
use peerlane_measure::nodes::{End, Memory, Probe, Step, Transport};
use peerlane_model::expectation::{Bottleneck, Expected};
use peerlane_model::model::rdma::{NicDirection, measured_staging, nic_path};
use peerlane_model::solve::{Problem, Resource};
use peerlane_read::catalogue::Parts;

/// A step's path.
pub(super) struct Known {
    pub(super) route: ClusterRoute,
    pub(super) through: Vec<String>,
}

/// What faults leave.
pub(super) struct Share<'f> {
    /// Of what a step would have alone.
    pub(super) of_step: &'f dyn Fn(&Step) -> f64,
    /// Of the capacity of a resource.
    pub(super) of_resource: &'f dyn Fn(usize, &Router) -> f64,
}

impl Share<'_> {
    /// Without faults.
    pub(super) const NONE: Share<'static> = Share { of_step: &|_| 1.0, of_resource: &|_, _| 1.0 };
}

/// What a cluster should deliver.
pub struct Predictor<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) router: Router<'a>,
    pub(super) nccl: nccl::Rates,
    /// By nodes, NIC and memory; a node's loopback is with itself.
    pub(super) routes: HashMap<Key, Option<Known>>,
}

/// What a path is between: two nodes, and at each end the same NIC with a memory of its own.
pub(super) type Key = (usize, usize, String, [Memory; 2]);

impl<'a> Predictor<'a> {
    /// Of a cluster. Its latencies should be those of adapters ([`with_latencies_of_adapters`](super::with_latencies_of_adapters)).
    pub fn new(cluster: &'a Cluster) -> Self {
        let router = Router::new(cluster, Parts::embedded());
        Predictor { cluster, router, nccl: HashMap::new(), routes: HashMap::new() }
    }

    /// What each step should deliver while the others of its round run, in bytes a second or of a latency in seconds; `None` where the cluster has no such path, or the
    /// model no rate for it.
    pub fn round(&mut self, steps: &[&Step]) -> Vec<Option<Expected>> {
        self.solved(steps, &Share::NONE)
    }

    /// The same where a step keeps a share of what it would have alone, and a resource a share of its capacity.
    pub(super) fn solved(&mut self, steps: &[&Step], share: &Share) -> Vec<Option<Expected>> {
        // rounds are of one transport
        if steps.first().is_some_and(|step| step.transport == Transport::Nccl) {
            return self.by_nccl(steps, share);
        }
        let keys: Vec<Option<Key>> = steps.iter().map(|step| self.known(step)).collect();
        let copied: Vec<Option<f64>> = steps.iter().map(|step| self.copied(step)).collect();
        // what faults of nodes, NICs and cables leave binds GPU memory only where it is less than its own path carries
        let hosts: Vec<Option<Step>> = steps.iter().map(|step| step.is_of_gpus().then(|| of_host(step))).collect();
        let host_keys: Vec<Option<Key>> = hosts.iter().map(|step| self.known(step.as_ref()?)).collect();
        let has = |i: &usize| keys[*i].as_ref().is_some_and(|key| self.routes.get(key).is_some_and(Option::is_some));
        let rates: Vec<usize> = (0..steps.len()).filter(|i| has(i) && steps[*i].probe != Probe::Latency).collect();
        let is_both = |step: &Step| matches!(step.probe, Probe::WriteBoth | Probe::SendBoth);
        // the other direction of what goes both ways comes after all first ones
        let back: Vec<Step> =
            rates.iter().map(|i| steps[*i]).filter(|step| is_both(step)).map(Step::reversed).collect();
        let back: Vec<Option<Key>> = back.iter().map(|step| self.known(step)).collect();
        let routed = |key: &Option<Key>| key.as_ref().and_then(|key| self.routes.get(key)?.as_ref());
        let known: Vec<Option<&Known>> = keys.iter().map(routed).collect();
        let forth = rates.iter().filter_map(|i| known[*i].map(|known| &known.route.demand));
        let demands: Vec<_> = forth.chain(back.iter().filter_map(|key| Some(&routed(key)?.route.demand))).collect();
        let mut problem = Problem::of(demands.iter().copied(), |r| self.resource(r, share));
        for (flow, step) in rates.iter().enumerate() {
            if let Some(known) = known[*step] {
                let left = (share.of_step)(steps[*step]);
                let (of_nic, nic) = match (&hosts[*step], routed(&host_keys[*step])) {
                    (Some(host), Some(host_route)) => ((share.of_step)(host), host_route.route.lone),
                    _ => (left, known.route.lone),
                };
                let own = known.route.lone.min(copied[*step].unwrap_or(f64::INFINITY));
                let most = (of_nic * nic).min(left / of_nic * own);
                if most < known.route.lone {
                    problem.hold(flow, most);
                }
            }
        }
        let mut solved = problem.solve().map(|solution| solution.rates).unwrap_or_default();
        let mut returned = solved.split_off(rates.len().min(solved.len())).into_iter();
        let mut solved = solved.into_iter();
        let predicted = |(i, step): (usize, &&Step)| {
            let known = known[i]?;
            let value = match step.probe {
                Probe::Latency => self.router.start_of(&known.route, step.size.0 as f64),
                _ => solved.next()?,
            };
            let value = if is_both(step) { value + returned.next().unwrap_or(value) } else { value };
            let binding = Bottleneck { through: known.through.clone(), ..Bottleneck::default() };
            (value.is_finite() && value > 0.0).then(|| Expected::exactly(value, binding))
        };
        steps.iter().enumerate().map(predicted).collect()
    }

    /// A resource of the router's, with what faults leave of it.
    pub(super) fn resource(&self, at: usize, share: &Share) -> Resource {
        let Resource { capacity, service } = self.router.resources()[at];
        Resource { capacity: capacity * (share.of_resource)(at, &self.router), service }
    }

    /// The most that the copies of a staged step allow, in bytes a second.
    fn copied(&self, step: &Step) -> Option<f64> {
        let fabric = &self.cluster.node.fabric;
        let of = |end: &End, way| {
            let (gpu, nic) = (fabric.find(end.memory.device()?)?, fabric.find(end.nic.as_deref()?)?);
            let path = nic_path(self.router.model(), gpu, nic, way, measured_staging(step.queue_pairs)).ok()?;
            Some(path.rate.bytes_per_second())
        };
        if step.probe != Probe::SendStaged {
            return None;
        }
        Some(of(&step.from, NicDirection::ToNetwork)?.min(of(&step.to, NicDirection::FromNetwork)?))
    }

    /// Routes a step, if the cluster has its ends.
    pub(super) fn known(&mut self, step: &Step) -> Option<Key> {
        if step.transport != Transport::Verbs || step.from.nic != step.to.nic {
            return None;
        }
        let nic = step.from.nic.clone()?;
        let key = (step.from.node, step.to.node, nic, [&step.from, &step.to].map(|end| memory(step, end)));
        if !self.routes.contains_key(&key) {
            let route = self.route(step, &key.2);
            self.routes.insert(key.clone(), route);
        }
        Some(key)
    }

    fn route(&mut self, step: &Step, nic: &str) -> Option<Known> {
        let fabric = &self.cluster.node.fabric;
        let id = fabric.find(nic)?;
        let index = self.cluster.nics.iter().position(|own| *own == id)? as u32;
        let place = |node: usize, memory: &Memory| {
            let device = fabric.find(&memory.to_string()).or_else(|| memory_near(self.cluster, id).ok())?;
            ((node as u64) < u64::from(self.cluster.nodes)).then_some(Place { node: node as u32, device })
        };
        let [from, to] = [&step.from, &step.to].map(|end| place(end.node, &memory(step, end)));
        let (from, to) = (from?, to?);
        let via = if step.is_loopback() { Via::Card } else { Via::Nic(index) };
        let route = self.router.way_by(from, to, Engine::Nic, via).ok()?;
        let mut through: Vec<String> = Vec::new();
        for (resource, _) in &route.demand.uses {
            let name = self.router.name(*resource);
            let Some((a, b)) = name.split_once(" to ") else { continue };
            let switches: Vec<&str> = [a, b].into_iter().filter(|end| !is_port(end)).collect();
            through.extend(switches.iter().map(|switch| (*switch).to_owned()));
            if switches.len() == 2 {
                through.push(name);
            }
        }
        through.sort();
        through.dedup();
        Some(Known { route, through })
    }
}

/// The memory that the NIC of an end reads or writes: the nearest of the host where a GPU's is staged.
fn memory(step: &Step, end: &End) -> Memory {
    if step.probe == Probe::SendStaged { Memory::Host } else { end.memory.clone() }
}

/// The same step with host memory at both ends.
fn of_host(step: &Step) -> Step {
    let host = |end: &End| End { memory: Memory::Host, ..end.clone() };
    Step { from: host(&step.from), to: host(&step.to), ..step.clone() }
}

/// Whether the end of a channel is a node's port, not a switch.
fn is_port(end: &str) -> bool {
    end.strip_prefix("node").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}
