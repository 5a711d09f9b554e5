//! Paths within a node, each queried once: between its devices, and between a memory and a NIC.

use super::{Router, Via};
use crate::cluster::ClusterError;
use peerlane_machine::copy_time::Startup;
use peerlane_machine::fabric::{NodeId, NodeKind};
use peerlane_machine::matrix::{Engine, Operation};
use peerlane_model::model::rdma::{self, Method, NicPath, method_in_use, nic_path};
use peerlane_model::model::{PeerAccess, Transfer};
use peerlane_model::solve::{Demand, Turns, Wait};

/// A path within a node.
#[derive(Clone, Debug)]
pub(crate) struct Leg {
    /// What it asks of the resources of the node's model, in bytes.
    pub demand: Demand,
    pub cap_why: Option<String>,
    pub(super) staged: bool,
    pub(super) fabric: bool,
    /// What a copy by engines takes besides the moving of its bytes.
    pub(super) startup: Option<Startup>,
    /// What the NIC does, where it is the path to or from one.
    pub(super) end: Option<Box<NicPath>>,
}

impl Leg {
    /// What is sent in equal parts over these legs at once, each of which keeps its own limit.
    fn of_parts(legs: &[&Leg]) -> Option<Leg> {
        let slowest = legs.iter().min_by(|a, b| a.demand.own_cap().total_cmp(&b.demand.own_cap()))?;
        let parts = legs.len() as f64;
        let mut demand = Demand::default();
        for leg in legs {
            let share = |of: &[(usize, f64)]| of.iter().map(|(r, per_byte)| (*r, per_byte / parts)).collect();
            let Demand { uses, burdens, waits, .. } = &leg.demand;
            let waits = waits.iter().map(|wait| Wait { per_ns: wait.per_ns / parts, ..*wait }).collect();
            demand.join(&Demand { uses: share(uses), burdens: share(burdens), waits, ..Demand::default() });
        }
        demand.cap = slowest.demand.cap * parts;
        let turns = slowest.demand.turns;
        demand.turns = turns.map(|t| Turns { rate: t.rate * parts, seconds: t.seconds / parts, ..t });
        Some(Leg { demand, ..(*slowest).clone() })
    }
}

impl Router<'_> {
    /// The one place that queries the model for how data moves within a node.
    pub(super) fn leg(&mut self, from: NodeId, to: NodeId, engine: Engine, via: Via) -> Result<u32, ClusterError> {
        if let Some(number) = self.leg_numbers.get(&(from, to, engine, via)) {
            return Ok(*number);
        }
        let leg = if engine == Engine::Nic { self.to_nic(from, to, via)? } else { self.within(from, to, engine, via)? };
        let number = self.legs.len() as u32;
        self.legs.push(leg);
        self.leg_numbers.insert((from, to, engine, via), number);
        Ok(number)
    }

    /// From a GPU to the network (`out`), or back, in equal parts through these NICs.
    pub(super) fn leg_out(&mut self, gpu: NodeId, nics: Vec<u32>, out: bool, via: Via) -> Result<u32, ClusterError> {
        let key = (gpu, nics, out, via);
        if let Some(number) = self.split_legs.get(&key) {
            return Ok(*number);
        }
        let mut legs = Vec::new();
        for nic in &key.1 {
            let nic = self.card(*nic)?;
            let (from, to) = if out { (gpu, nic) } else { (nic, gpu) };
            legs.push(self.leg(from, to, Engine::Nic, via)?);
        }
        let number = if let [only] = legs.as_slice() {
            *only
        } else {
            let of: Vec<&Leg> = legs.iter().map(|number| &self.legs[*number as usize]).collect();
            let whole = Leg::of_parts(&of);
            self.legs.extend(whole);
            self.legs.len() as u32 - 1
        };
        self.split_legs.insert(key, number);
        Ok(number)
    }

    /// From a memory to a NIC, or back, by the given method, the one chosen for the NIC, or the faster direct one.
    fn to_nic(&self, from: NodeId, to: NodeId, via: Via) -> Result<Leg, ClusterError> {
        let kind = |node: NodeId| self.cluster.node.fabric.node(node).kind;
        let (memory, nic, way) = if kind(to) == NodeKind::Nic {
            (from, to, rdma::NicDirection::ToNetwork)
        } else {
            (to, from, rdma::NicDirection::FromNetwork)
        };
        let refuse = |e: rdma::RdmaError| ClusterError::Model(e.to_string());
        let method = match (kind(memory), via) {
            (NodeKind::Host, _) => Method::Host,
            (_, Via::By(method)) => method,
            _ => method_in_use(&self.model, memory, nic),
        };
        let path = nic_path(&self.model, memory, nic, way, method).map_err(refuse)?;
        let mut demand = path.demand.clone();
        // what no resource stands for: waiting for copies, a cap
        let capped = demand.cap <= path.rate.bytes_per_second() * (1.0 + 1e-9);
        let cap_why = capped.then(|| path.bottleneck.clone());
        demand.cap = if capped { demand.cap } else { f64::INFINITY };
        Ok(Leg { demand, cap_why, staged: method.is_staged(), fabric: false, startup: None, end: Some(Box::new(path)) })
    }

    fn within(&self, from: NodeId, to: NodeId, engine: Engine, via: Via) -> Result<Leg, ClusterError> {
        let peer = match via {
            Via::By(Method::Staged(_)) => PeerAccess::Disabled,
            Via::By(method) => {
                let [a, b] = [from, to].map(|node| self.cluster.node.fabric.node(node).name.as_str());
                let why = format!("{method} is how a NIC accesses memory, and {a} and {b} are in one node");
                return Err(ClusterError::Model(why));
            }
            Via::Direct | Via::Card | Via::Nic(_) => PeerAccess::Enabled,
        };
        let transfer = Transfer { source: from, destination: to, engine, op: Operation::Write, peer };
        let route = self.model.route(&transfer).map_err(|e| ClusterError::Model(e.to_string()))?;
        let fabric = &self.cluster.node.fabric;
        let over_fabric = fabric.gpu_fabric_path(from, to).is_some();
        let startup = if engine == Engine::Ce { self.model.startup(&transfer) } else { None };
        let cap_why = route.cap.map(|(_, why)| why);
        Ok(Leg { demand: route.demand, cap_why, staged: route.staged, fabric: over_fabric, startup, end: None })
    }
}
