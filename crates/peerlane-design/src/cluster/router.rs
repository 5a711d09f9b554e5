//! What a transfer between two GPUs of a cluster uses: of the source's node, of the network, of the destination's node.

use std::collections::HashMap;

use super::names::{Component, alike};
use super::network::Port;
use super::{Cluster, ClusterError};
use peerlane_machine::copy_time::Startup;
use peerlane_machine::fabric::{NodeId, NodeKind};
use peerlane_machine::matrix::{Engine, Operation};
use peerlane_machine::units::{Bytes, Seconds};
use peerlane_model::model::rdma::{self, Message, Method, NicPath, method_in_use, nic_path};
use peerlane_model::model::{Model, PeerAccess, Transfer};
use peerlane_model::solve::{Demand, Resource, Turns};
use peerlane_read::catalogue::Parts;

/// A GPU, NIC or host memory of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The node, from 0.
    pub node: u32,
    /// The device within it.
    pub device: NodeId,
}

/// Which path between two places a transfer takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Via {
    /// The model's: directly where both ends can, a NIC by the method chosen for it.
    #[default]
    Direct,
    /// By this method, at both ends of a message between nodes. Within a node only staged.
    By(Method),
    /// Within a node, out through its NIC and back.
    Card,
    /// Between nodes, through the NIC of this index in [`Cluster::nics`] at both ends.
    Nic(u32),
}

impl Via {
    /// Through host memory, at both ends of a message between nodes.
    pub const STAGED: Via = Via::By(Method::STAGED);
}

/// How a transfer goes.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterRoute {
    /// What it asks of the router's resources, in bytes.
    pub demand: Demand,
    /// Its rate alone, in bytes a second.
    pub lone: f64,
    /// What is behind its own cap, where it has one.
    pub cap_why: Option<String>,
    /// Time from its start to its first byte, in seconds; of a message by stages what switches on the way add to them.
    pub latency: f64,
    /// Which of the router's messages it is, where it takes the stages of adapters.
    message: Option<u32>,
    /// What it takes besides the moving of its bytes, where a copy engine makes it within a node.
    copy: Option<Startup>,
}

/// A path within a node.
#[derive(Clone, Debug)]
pub(crate) struct Leg {
    /// What it asks of the resources of the node's model, in bytes.
    pub demand: Demand,
    pub cap_why: Option<String>,
    staged: bool,
    fabric: bool,
    /// What a copy by engines takes besides the moving of its bytes.
    startup: Option<Startup>,
    /// What the NIC does, where it is the path to or from one.
    end: Option<Box<NicPath>>,
}

/// How a transfer goes, by reference: a leg within a node, or one at each end of a path through the network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RouteRef {
    /// `(node, leg)`.
    pub legs: [(u32, u32); 2],
    /// How many of the two there are.
    pub count: usize,
    /// Time from its start to its first byte, in seconds, but for the stages of its message.
    pub latency: f64,
    /// See [`ClusterRoute`].
    pub message: Option<u32>,
    /// See [`ClusterRoute`].
    pub copy: Option<Startup>,
}

/// Resources get their number when a path first uses them, so that a large cluster has only those in use.
pub struct Router<'a> {
    cluster: &'a Cluster,
    model: Model<'a>,
    legs: Vec<Leg>,
    leg_numbers: HashMap<(NodeId, NodeId, Engine, Via), u32>,
    /// Messages by stages, and which legs they join.
    messages: Vec<Message>,
    message_numbers: HashMap<[u32; 2], u32>,
    /// NICs: those at the network, or of a machine without one all.
    cards: Vec<NodeId>,
    numbers: HashMap<u64, u32>,
    keys: Vec<u64>,
    resources: Vec<Resource>,
    /// By GPU: the index of its NIC in `cards`.
    nics: HashMap<NodeId, u32>,
    channels: Vec<u64>,
    /// Whether anything avoids a failed link.
    rerouted: bool,
    /// Components that carry another multiple of what they do.
    scales: Vec<(Component, f64)>,
    /// Keys of resources that were asked for by kind.
    kinds: Vec<u64>,
}

/// Marks the key of a channel; others are `node << 24 | resource`.
const CHANNEL: u64 = 1 << 63;
/// Bits of a resource within a node.
const LOCAL: u32 = 24;

impl<'a> Router<'a> {
    /// A router for a cluster.
    pub fn new(cluster: &'a Cluster, parts: &'a Parts) -> Self {
        let cards = match &cluster.network {
            Some(_) => cluster.nics.clone(),
            None => super::network_nics(&cluster.node, false).unwrap_or_default(),
        };
        Router {
            cluster,
            model: Model::new(&cluster.node, parts),
            legs: Vec::new(),
            leg_numbers: HashMap::new(),
            messages: Vec::new(),
            message_numbers: HashMap::new(),
            numbers: HashMap::new(),
            keys: Vec::new(),
            resources: Vec::new(),
            nics: nearest_nics(cluster, &cards),
            cards,
            channels: Vec::new(),
            rerouted: false,
            scales: Vec::new(),
            kinds: Vec::new(),
        }
    }

    /// Makes all resources of a component carry `factor` times what they do, for routes from now on.
    pub fn scale(&mut self, component: Component, factor: f64) {
        self.scales.push((component, factor));
    }

    /// The component of resources that are called so, but for their numbers ([`Router::group`]), where any is in use.
    pub fn component(&self, group: &str) -> Option<Component> {
        let key = self.keys.iter().chain(&self.kinds).find(|key| alike(&self.name_of(**key)) == group)?;
        Some(self.component_of(*key))
    }

    fn component_of(&self, key: u64) -> Component {
        if let (true, Some(network)) = (key & CHANNEL != 0, &self.cluster.network) {
            return network.component(key & !CHANNEL);
        }
        let resource = self.resource(key);
        let is_nic = |node: NodeId| self.cluster.node.fabric.node(node).kind == NodeKind::Nic;
        if resource.node.is_some_and(is_nic) {
            return Component::Adapters;
        }
        let name = resource.link.map_or_else(|| resource.name.clone(), |link| self.model.described(link));
        Component::Named(alike(&self.on_node(key, &name)))
    }

    /// Whether anything that was routed avoids a failed link.
    pub fn rerouted(&self) -> bool {
        self.rerouted
    }

    /// What each resource carries, in bytes a second, and how long it serves a request, by number.
    pub fn resources(&self) -> &[Resource] {
        &self.resources
    }

    /// A resource in words: `node3/GPU0–plx0, PCIe 3.0 x16, towards plx0`.
    pub fn name(&self, resource: usize) -> String {
        self.keys.get(resource).map_or_else(String::new, |key| self.name_of(*key))
    }

    fn name_of(&self, key: u64) -> String {
        if key & CHANNEL != 0 {
            let network = self.cluster.network.as_ref();
            return network.map_or_else(String::new, |n| n.name(key & !CHANNEL));
        }
        self.on_node(key, &self.resource(key).name)
    }

    fn on_node(&self, key: u64, name: &str) -> String {
        if self.cluster.network.is_none() { name.to_owned() } else { format!("node{}/{name}", key >> LOCAL) }
    }

    /// The resource of the nodes' model that a key is of.
    fn resource(&self, key: u64) -> &peerlane_model::model::Resource {
        &self.model.resources[(key & ((1 << LOCAL) - 1)) as usize]
    }

    /// The model of a node.
    pub(crate) fn model(&self) -> &Model<'a> {
        &self.model
    }

    /// The name with `#` for the numbers of nodes, devices, switches: what resources of one kind have in common.
    pub fn group(&self, resource: usize) -> String {
        alike(&self.name(resource))
    }

    /// Bytes a second that a GPU's memory moves, where its part says.
    pub fn memory_rate(&self, gpu: NodeId) -> Option<f64> {
        self.model.memory_rate(gpu).map(|rate| rate.bytes_per_second())
    }

    /// The NIC of a GPU, as an index into [`Cluster::nics`].
    pub fn nic_of(&self, gpu: NodeId) -> u32 {
        self.nics.get(&gpu).copied().unwrap_or(0)
    }

    /// Every NIC at the network with a GPU that it serves, by their indices in [`Cluster::nics`] and among the GPUs: of several
    /// that are equally near, the one with fewest so far. NICs that a GPU has besides its own count, too.
    pub(crate) fn rails(&self, gpus: &[NodeId]) -> Vec<(u32, usize)> {
        let fabric = &self.cluster.node.fabric;
        let mut serves = vec![0_usize; gpus.len()];
        let nics = (0_u32..).zip(&self.cards);
        nics.filter_map(|(nic, card)| {
            let class = |gpu: usize| fabric.class(gpus[gpu], *card);
            let of_own = |gpu: &usize| self.nic_of(gpus[*gpu]) != nic;
            let best = (0..gpus.len()).filter_map(class).min()?;
            let near = (0..gpus.len()).filter(|gpu| class(*gpu) == Some(best));
            let gpu = near.min_by_key(|gpu| (serves[*gpu], of_own(gpu)))?;
            serves[gpu] += 1;
            Some((nic, gpu))
        })
        .collect()
    }

    /// How a transfer goes from one place to another. `engine` drives it within a node; between nodes the NICs do.
    pub fn way(&mut self, from: Place, to: Place, engine: Engine) -> Result<ClusterRoute, ClusterError> {
        self.way_by(from, to, engine, Via::Direct)
    }

    /// The same over one of several paths.
    pub fn way_by(&mut self, from: Place, to: Place, engine: Engine, via: Via) -> Result<ClusterRoute, ClusterError> {
        let mut channels = std::mem::take(&mut self.channels);
        channels.clear();
        let course = self.course(from, to, engine, via, &mut channels)?;
        let RouteRef { latency, message, copy, .. } = course;
        let mut way = ClusterRoute { demand: Demand::default(), lone: 0.0, cap_why: None, latency, message, copy };
        self.take(course.legs[0], &mut way)?;
        for channel in &channels {
            let number = self.number(CHANNEL | channel)?;
            way.demand.uses.push((number, 1.0));
        }
        self.channels = channels;
        if course.count == 2 {
            self.take(course.legs[1], &mut way)?;
        }
        way.lone = way.demand.alone(|r| self.resources[r]).0;
        Ok(way)
    }

    /// The same without a number for everything that it uses; appends the network's channels.
    pub(crate) fn course(
        &mut self,
        from: Place,
        to: Place,
        engine: Engine,
        via: Via,
        channels: &mut Vec<u64>,
    ) -> Result<RouteRef, ClusterError> {
        let latencies = self.cluster.latencies;
        if via == Via::Card {
            return self.loopback(from, to);
        }
        if from.node == to.node {
            let number = self.leg(from.device, to.device, engine, via)?;
            let leg = &self.legs[number as usize];
            // a copy engine's start is the model's; kernels have NCCL's
            let copy = leg.startup.map(|startup| startup.times(latencies.stages));
            let latency = if copy.is_some() {
                Seconds::new(0.0)
            } else if leg.staged {
                latencies.staged
            } else if leg.fabric {
                latencies.nvlink
            } else {
                latencies.pcie
            };
            let latency = latency.seconds();
            return Ok(RouteRef { legs: [(from.node, number); 2], count: 1, latency, message: None, copy });
        }
        let Some(network) = &self.cluster.network else {
            return Err(ClusterError::Disconnected(self.cluster.name_of(from), self.cluster.name_of(to)));
        };
        let (out, into) = match via {
            Via::Nic(nic) => (nic, nic),
            _ => (self.nic_of(from.device), self.nic_of(to.device)),
        };
        let (out_nic, into_nic) = (self.card(out)?, self.card(into)?);
        let first = channels.len();
        let ports = [Port { node: from.node, nic: out }, Port { node: to.node, nic: into }];
        network.path(ports[0], ports[1], channels)?;
        self.rerouted = self.rerouted || network.goes_round(ports[0], ports[1])?;
        let fixed = latencies.network.filter(|_| matches!(via, Via::Direct | Via::Nic(_)));
        // the stages of two adapters are those of neighbours
        let crossed = channels.len() - first;
        let hops = if fixed.is_some() { network.hops(crossed) } else { crossed.saturating_sub(1) };
        let latency = fixed.map_or(0.0, Seconds::seconds) + hops as f64 * network.hop_latency.seconds();
        let (a, b) =
            (self.leg(from.device, out_nic, Engine::Nic, via)?, self.leg(into_nic, to.device, Engine::Nic, via)?);
        let message = if fixed.is_none() { Some(self.message([a, b])?) } else { None };
        Ok(RouteRef { legs: [(from.node, a), (to.node, b)], count: 2, latency, message, copy: None })
    }

    /// Out through a node's NIC and back.
    fn loopback(&mut self, from: Place, to: Place) -> Result<RouteRef, ClusterError> {
        if from.node != to.node {
            let [a, b] = [from, to].map(|place| self.cluster.name_of(place));
            return Err(ClusterError::Model(format!("a loopback is within one node, and {a} and {b} are in two")));
        }
        let nic = self.card(self.nic_of(from.device))?;
        let out = self.leg(from.device, nic, Engine::Nic, Via::Card)?;
        let back = self.leg(nic, to.device, Engine::Nic, Via::Card)?;
        let message = Some(self.message([out, back])?);
        Ok(RouteRef { legs: [(from.node, out), (to.node, back)], count: 2, latency: 0.0, message, copy: None })
    }

    fn card(&self, number: u32) -> Result<NodeId, ClusterError> {
        let card = self.cards.get(number as usize).or(self.cards.first()).copied();
        card.ok_or_else(|| ClusterError::NoNic(self.cluster.node.name.clone()))
    }

    /// The message of two legs.
    fn message(&mut self, legs: [u32; 2]) -> Result<u32, ClusterError> {
        if let Some(number) = self.message_numbers.get(&legs) {
            return Ok(*number);
        }
        let refuse = |why: &str| ClusterError::Model(why.to_owned());
        let [Some(out), Some(back)] = legs.map(|leg| self.legs[leg as usize].end.clone()) else {
            return Err(refuse("a message needs a NIC at both ends"));
        };
        let message = Message::new(*out, rdma::Network::NEXT, *back).map_err(|e| refuse(&e.to_string()))?;
        self.messages.push(message);
        let number = self.messages.len() as u32 - 1;
        self.message_numbers.insert(legs, number);
        Ok(number)
    }

    /// Seconds before a route's bytes move at the rate that they have then.
    ///
    /// Of a message by stages, such that alone, at its lone rate, it takes [`Message::time`]: engines that have
    /// fetched the first bytes by the time that the stages end, or that fill a buffer first, shorten or lengthen it.
    pub fn start_of(&self, way: &ClusterRoute, bytes: f64) -> f64 {
        self.start((way.latency, way.message, way.copy), bytes, way.lone)
    }

    /// The same of a course.
    pub(crate) fn start(
        &self,
        (latency, message, copy): (f64, Option<u32>, Option<Startup>),
        bytes: f64,
        lone: f64,
    ) -> f64 {
        if let Some(startup) = copy {
            return latency + startup.overhead(bytes, bytes / lone);
        }
        let Some(message) = message.and_then(|m| self.messages.get(m as usize)) else { return latency };
        let [fill, busy] = message.bytes_time(Bytes(bytes.round() as u64)).map(Seconds::seconds);
        let steady = bytes / lone;
        // where the network, or an engine that works for both ends, is slower than either end
        let shared = lone < message.rate().bytes_per_second() * (1.0 - 1e-9);
        let busy = if shared { busy.max(steady) } else { busy };
        let stages = message.latency().likely.seconds();
        latency + (stages + fill + busy - steady).max(0.0) * self.cluster.latencies.stages
    }

    /// A leg of a [`RouteRef`].
    pub(crate) fn leg_of(&self, number: u32) -> &Leg {
        &self.legs[number as usize]
    }

    /// A resource of the nodes' model, and what it and its like in other nodes are called.
    pub(crate) fn local(&mut self, resource: usize) -> Result<(Resource, String), ClusterError> {
        self.kinds.push(resource as u64);
        let known = self.rated(resource as u64)?;
        Ok((known, alike(&self.name_of(resource as u64))))
    }

    /// The same of a channel.
    pub(crate) fn channel(&mut self, channel: u64) -> Result<(f64, String), ClusterError> {
        self.kinds.push(CHANNEL | channel);
        let known = self.rated(CHANNEL | channel)?;
        Ok((known.capacity, alike(&self.name_of(CHANNEL | channel))))
    }

    /// Channels of one kind carry the same, and are called the same but for their numbers.
    pub(crate) fn channel_kind(&self, channel: u64) -> u64 {
        self.cluster.network.as_ref().map_or(0, |n| n.kind(channel))
    }

    /// The one place that queries the model for how data moves within a node.
    fn leg(&mut self, from: NodeId, to: NodeId, engine: Engine, via: Via) -> Result<u32, ClusterError> {
        if let Some(number) = self.leg_numbers.get(&(from, to, engine, via)) {
            return Ok(*number);
        }
        let leg = if engine == Engine::Nic { self.to_nic(from, to, via)? } else { self.within(from, to, engine, via)? };
        let number = self.legs.len() as u32;
        self.legs.push(leg);
        self.leg_numbers.insert((from, to, engine, via), number);
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

    fn take(&mut self, (node, leg): (u32, u32), way: &mut ClusterRoute) -> Result<(), ClusterError> {
        let known = &self.legs[leg as usize];
        let Demand { uses, burdens, waits, .. } = &known.demand;
        let queues = waits.iter().flat_map(|w| [w.server, w.window]);
        let all: Vec<usize> = uses.iter().chain(burdens).map(|(r, _)| *r).chain(queues).collect();
        let (cap, cap_why) = (known.demand.own_cap(), known.cap_why.clone());
        let key = |resource: usize| u64::from(node) << LOCAL | resource as u64;
        for resource in all {
            self.number(key(resource))?;
        }
        let demand = self.legs[leg as usize].demand.renamed(|r| self.numbers.get(&key(r)).map(|n| *n as usize));
        // a device's place is one of its node
        let turns = demand.turns.map(|t| Turns { places: t.places.map(|place| u64::from(node) << LOCAL | place), ..t });
        if cap < way.demand.own_cap() {
            way.cap_why = cap_why;
        }
        // a loopback takes some things on both legs
        way.demand.join(&Demand { turns, ..demand });
        Ok(())
    }

    /// A resource as it is solved for, with what its component is scaled by.
    fn rated(&self, key: u64) -> Result<Resource, ClusterError> {
        let (rate, service) = match &self.cluster.network {
            Some(network) if key & CHANNEL != 0 => (network.capacity(key & !CHANNEL), 0.0),
            _ => (self.resource(key).capacity, self.resource(key).service),
        };
        let scaled = if self.scales.is_empty() { None } else { Some(self.component_of(key)) };
        let factors = self.scales.iter().filter(|(component, _)| Some(component) == scaled.as_ref());
        let rate = rate * factors.map(|(_, factor)| factor).product::<f64>();
        let capacity = rate.bytes_per_second();
        if capacity.is_nan() || capacity <= 0.0 {
            return Err(ClusterError::Capacity(self.name_of(key), rate));
        }
        Ok(Resource { capacity, service })
    }

    fn number(&mut self, key: u64) -> Result<usize, ClusterError> {
        if let Some(number) = self.numbers.get(&key) {
            return Ok(*number as usize);
        }
        let resource = self.rated(key)?;
        self.numbers.insert(key, self.keys.len() as u32);
        self.keys.push(key);
        self.resources.push(resource);
        Ok(self.keys.len() - 1)
    }
}

/// Each GPU's NIC: the nearest; where several are, GPUs that share them take turns.
fn nearest_nics(cluster: &Cluster, cards: &[NodeId]) -> HashMap<NodeId, u32> {
    let fabric = &cluster.node.fabric;
    let mut turns: HashMap<Vec<u32>, u32> = HashMap::new();
    let ends = fabric.of_kind(NodeKind::Gpu).chain(fabric.of_kind(NodeKind::Host));
    ends.filter_map(|end| {
        let class = |nic: &NodeId| fabric.class(end, *nic);
        let best = cards.iter().filter_map(class).min()?;
        let near = (0_u32..).zip(cards).filter(|(_, nic)| class(nic) == Some(best));
        let near: Vec<u32> = near.map(|(i, _)| i).collect();
        let turn = turns.entry(near.clone()).or_default();
        let nic = near[*turn as usize % near.len()];
        *turn += 1;
        Some((end, nic))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Wanted;
    use peerlane_machine::units::Seconds;
    use peerlane_read::catalogue::system;

    fn hgx(nodes: u32) -> Cluster {
        let wanted: Wanted = "rail".parse().unwrap();
        Cluster::of(system("hgx-h200").unwrap().unwrap(), nodes, &wanted, None, Seconds::from_us(0.3)).unwrap()
    }

    #[test]
    fn a_message_uses_both_nodes_and_what_lies_between() {
        let cluster = hgx(4);
        let mut router = Router::new(&cluster, Parts::embedded());
        let from = cluster.find("node0/GPU3").unwrap();
        let way = router.way(from, cluster.find("node2/GPU3").unwrap(), Engine::Sm).unwrap();
        let names: Vec<String> = way.demand.uses.iter().map(|(r, _)| router.name(*r)).collect();
        assert!(names.iter().any(|n| n == "node0/mlx5_3 line, sending"), "{names:?}");
        assert!(names.iter().any(|n| n.starts_with("node0 port3 to ")), "{names:?}");
        assert!(names.iter().any(|n| n.starts_with("node2/GPU3–sw1")), "{names:?}");
        // through the switch that both hang on, not through the CPU
        assert!(!names.iter().any(|n| n.contains("rc")), "{names:?}");
        assert!((way.latency - 3.0e-6).abs() < 1e-12, "{}", way.latency);
        assert!((way.lone / 49.68e9 - 1.0).abs() < 0.001, "{}", way.lone);
    }

    #[test]
    fn what_is_replaced_as_one_is_one_component() {
        let wanted: Wanted = "fat-tree:2".parse().unwrap();
        let node = system("hgx-h200").unwrap().unwrap();
        let cluster = Cluster::of(node, 32, &wanted, None, Seconds::from_us(0.3)).unwrap();
        let mut router = Router::new(&cluster, Parts::embedded());
        let [a, b, near] = ["node0/GPU3", "node31/GPU3", "node0/GPU0"].map(|name| cluster.find(name).unwrap());
        for (from, to) in [(a, b), (b, a), (a, near), (near, a)] {
            router.way(from, to, Engine::Sm).unwrap();
        }
        let component = |group: &str| router.component(group).map(|component| component.to_string());
        let adapters = Some(Component::Adapters.to_string());
        assert_eq!(component("node#/mlx#_# line, sending"), adapters);
        assert_eq!(component("node# port# to leaf#"), adapters);
        assert_eq!(component("leaf# to node# port#"), adapters);
        assert_eq!(component("leaf# to spine#").as_deref(), Some("leaf# – spine#"));
        assert_eq!(component("spine# to leaf#").as_deref(), Some("leaf# – spine#"));
        let link = Some("node#/GPU#–nvswitch, NVLink 4 x18");
        assert_eq!(component("node#/GPU#–nvswitch, NVLink 4 x18, towards nvswitch").as_deref(), link);
        assert_eq!(component("node#/GPU#–nvswitch, NVLink 4 x18, towards GPU#").as_deref(), link);
        assert_eq!(component("a cap"), None);
    }

    #[test]
    fn copies_by_engines_start_as_predicted() {
        let machine = system("h200x4-vm").unwrap().unwrap();
        let cluster = Cluster::single(machine.clone());
        let model = Model::new(&machine, Parts::embedded());
        let mut router = Router::new(&cluster, Parts::embedded());
        for (from, to, via) in [
            ("GPU0", "GPU1", Via::Direct),
            ("GPU0", "GPU1", Via::STAGED),
            ("host0", "GPU1", Via::Direct),
            ("GPU2", "host0", Via::Direct),
        ] {
            let [source, destination] = [from, to].map(|name| machine.fabric.find(name).unwrap());
            let peer = if via == Via::STAGED { PeerAccess::Disabled } else { PeerAccess::Enabled };
            let transfer = Transfer { source, destination, engine: Engine::Ce, op: Operation::Write, peer };
            let startup = model.startup(&transfer).unwrap();
            let [a, b] = [source, destination].map(|device| Place { node: 0, device });
            let way = router.way_by(a, b, Engine::Ce, via).unwrap();
            for bytes in [16.0, 65_536.0, 1e6, 1e9] {
                let expected = startup.overhead(bytes, bytes / way.lone);
                assert!((router.start_of(&way, bytes) / expected - 1.0).abs() < 1e-12, "{from} {to} {bytes}");
            }
            // NCCL's kernels have its protocol's times
            if via == Via::Direct && from == "GPU0" {
                assert!((router.way_by(a, b, Engine::Sm, via).unwrap().latency - 0.6e-6).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn names_that_are_not_there() {
        let cluster = hgx(4);
        for name in ["node4/GPU0", "node0/GPU8", "node0/sw0", "GPU0", "nodex/GPU0", "node0/mlx5_0"] {
            let refused = cluster.find(name);
            assert!(matches!(refused, Err(ClusterError::Unknown(..) | ClusterError::Lookup(_))), "{name}");
        }
        let single = Cluster::single(system("exxact-devbox").unwrap().unwrap());
        assert!(single.find("GPU3").is_ok() && single.find("node0/GPU3").is_err());
    }

    #[test]
    fn a_machine_without_a_nic_is_no_cluster() {
        let machine = system("exxact-devbox").unwrap().unwrap();
        let got = Cluster::of(machine, 2, &Wanted::Switch, None, Seconds::new(0.0));
        assert!(matches!(got, Err(ClusterError::NoNic(_))));
    }
}
