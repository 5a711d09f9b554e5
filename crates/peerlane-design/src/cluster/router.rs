//! What a transfer between two GPUs of a cluster uses: of the source's node, of the network, of the destination's node.

mod leg;
mod nics;
mod resources;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::names::Component;
use super::network::{Network, Port};
use super::{Cluster, ClusterError};
use leg::Leg;
use nics::nearest_nics;
use peerlane_machine::copy_time::Startup;
use peerlane_machine::fabric::NodeId;
use peerlane_machine::matrix::Engine;
use peerlane_machine::units::{Bytes, Seconds};
use peerlane_model::model::Model;
use peerlane_model::model::rdma::{self, Message, Method};
use peerlane_model::solve::{Demand, Resource, Turns};
use peerlane_read::catalogue::Parts;
use resources::{CHANNEL, on};

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

/// How a transfer goes, by reference: a leg within a node, or one at each end of a path through the network.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RouteRef {
    /// `(node, leg)`.
    pub legs: [(u32, u32); 2],
    /// How many of the two there are.
    pub count: usize,
    /// In how many equal parts it goes through the network, each on a path of its own; 1 within a node.
    pub parts: u32,
    /// Time from its start to its first byte, in seconds, but for the stages of its message.
    pub latency: f64,
    /// See [`ClusterRoute`].
    pub message: Option<u32>,
    /// See [`ClusterRoute`].
    pub copy: Option<Startup>,
}

/// The channels of a transfer, each once, with the share of the bytes that goes through it: `channels` are those of all
/// `parts`, one after the other.
pub(crate) fn shares(channels: &[u64], parts: u32) -> impl Iterator<Item = (u64, f64)> + '_ {
    let first = move |(at, channel): &(usize, &u64)| parts == 1 || !channels[..*at].contains(channel);
    channels.iter().enumerate().filter(first).map(move |(at, channel)| (*channel, share_of(at, channels, parts)))
}

/// The share of the bytes that goes through the channel at this place.
pub(crate) fn share_of(at: usize, channels: &[u64], parts: u32) -> f64 {
    match parts {
        1 => 1.0,
        _ => channels.iter().filter(|channel| **channel == channels[at]).count() as f64 / f64::from(parts),
    }
}

/// Resources get their number when a path first uses them, so that a large cluster has only those in use.
pub struct Router<'a> {
    cluster: &'a Cluster,
    model: Model<'a>,
    legs: Vec<Leg>,
    leg_numbers: HashMap<(NodeId, NodeId, Engine, Via), u32>,
    /// Means of several legs, by GPU, the NICs of the parts, from it or to it, and path.
    split_legs: HashMap<(NodeId, Vec<u32>, bool, Via), u32>,
    /// Messages by stages, each with how many parts it is sent in, and which legs they join.
    messages: Vec<(Message, u32)>,
    message_numbers: HashMap<[u32; 2], u32>,
    /// NICs: those at the network, or of a machine without one all.
    cards: Vec<NodeId>,
    numbers: HashMap<u64, u32>,
    keys: Vec<u64>,
    resources: Vec<Resource>,
    /// By GPU: the indices of its NICs in `cards`.
    nics: HashMap<NodeId, Vec<u32>>,
    /// By node: NICs whose links have failed.
    cut_off: BTreeMap<u32, BTreeSet<u32>>,
    channels: Vec<u64>,
    /// Whether anything avoids a failed link.
    rerouted: bool,
    /// Components that carry another multiple of what they do.
    scales: Vec<(Component, f64)>,
    /// Keys of resources that were asked for by kind.
    kinds: Vec<u64>,
}

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
            split_legs: HashMap::new(),
            messages: Vec::new(),
            message_numbers: HashMap::new(),
            numbers: HashMap::new(),
            keys: Vec::new(),
            resources: Vec::new(),
            nics: nearest_nics(cluster, &cards),
            cut_off: cluster.network.as_ref().map(Network::cut_off).unwrap_or_default(),
            cards,
            channels: Vec::new(),
            rerouted: false,
            scales: Vec::new(),
            kinds: Vec::new(),
        }
    }

    /// Whether anything that was routed avoids a failed link.
    pub fn rerouted(&self) -> bool {
        self.rerouted
    }

    /// The model of a node.
    pub(crate) fn model(&self) -> &Model<'a> {
        &self.model
    }

    /// Bytes a second that a GPU's memory moves, where its part says.
    pub fn memory_rate(&self, gpu: NodeId) -> Option<f64> {
        self.model.memory_rate(gpu).map(|rate| rate.bytes_per_second())
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
        for (channel, share) in shares(&channels, course.parts) {
            let number = self.number(CHANNEL | channel)?;
            way.demand.uses.push((number, share));
        }
        self.channels = channels;
        if course.count == 2 {
            self.take(course.legs[1], &mut way)?;
        }
        way.lone = way.demand.alone(|r| self.resources[r]).0;
        Ok(way)
    }

    /// How many transfers go that keep one pace, by byte of the pace: from, to, bytes. Where `rate` is given, they reach it
    /// while they have their paths to themselves, and use as much of these as they have then.
    pub(crate) fn way_together(
        &mut self,
        moves: &[(Place, Place, f64)],
        rate: Option<f64>,
        by: &str,
    ) -> Result<ClusterRoute, ClusterError> {
        let (mut uses, mut burdens): (BTreeMap<usize, f64>, BTreeMap<usize, f64>) = (BTreeMap::new(), BTreeMap::new());
        let (mut cap, mut latency) = (f64::INFINITY, 0.0_f64);
        for (from, to, share) in moves {
            let way = self.way(*from, *to, Engine::Sm)?;
            way.demand.uses.iter().for_each(|(r, per_byte)| *uses.entry(*r).or_default() += per_byte * share);
            way.demand.burdens.iter().for_each(|(r, per_byte)| *burdens.entry(*r).or_default() += per_byte * share);
            cap = cap.min(way.demand.cap / share);
            latency = latency.max(way.latency);
        }
        let mut demand = Demand {
            uses: uses.into_iter().collect(),
            burdens: burdens.into_iter().collect(),
            cap,
            ..Demand::default()
        };
        let (mut lone, mut cap_why) = (demand.alone(|r| self.resources[r]).0, None);
        if let Some(rate) = rate {
            let too_much = (lone / rate).min(1.0);
            let less = |of: &mut Vec<(usize, f64)>| of.iter_mut().for_each(|(_, per_byte)| *per_byte *= too_much);
            less(&mut demand.uses);
            less(&mut demand.burdens);
            (demand.cap, lone, latency) = (rate, rate, 0.0);
            cap_why = Some(by.to_owned());
        }
        Ok(ClusterRoute { demand, lone, cap_why, latency, message: None, copy: None })
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
            return Ok(RouteRef { legs: [(from.node, number); 2], count: 1, parts: 1, latency, message: None, copy });
        }
        let Some(network) = &self.cluster.network else {
            return Err(ClusterError::Disconnected(self.cluster.name_of(from), self.cluster.name_of(to)));
        };
        let (first, mut parts) = (channels.len(), 0);
        let nics = self.nic_pairs(network, from, to, via);
        let mut rerouted = !matches!(via, Via::Nic(_)) && (self.is_cut(from) || self.is_cut(to));
        for [a, b] in &nics {
            let [a, b] = [(from, a), (to, b)].map(|(place, nic)| Port { node: place.node, nic: *nic });
            parts += network.path(a, b, channels)?;
            rerouted = rerouted || network.goes_round(a, b)?;
        }
        self.rerouted |= rerouted;
        let fixed = latencies.network.filter(|_| matches!(via, Via::Direct | Via::Nic(_)));
        // the stages of two adapters are those of neighbours
        let crossed = (channels.len() - first) / parts as usize;
        let hops = if fixed.is_some() { network.hops(crossed) } else { crossed.saturating_sub(1) };
        let latency = fixed.map_or(0.0, Seconds::seconds) + hops as f64 * network.hop_latency.seconds();
        let [out, into] = [0, 1].map(|end| nics.iter().map(|pair| pair[end]).collect::<Vec<u32>>());
        let (a, b) = (self.leg_out(from.device, out, true, via)?, self.leg_out(to.device, into, false, via)?);
        let message = if fixed.is_none() { Some(self.message([a, b], nics.len() as u32)?) } else { None };
        Ok(RouteRef { legs: [(from.node, a), (to.node, b)], count: 2, parts, latency, message, copy: None })
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
        let message = Some(self.message([out, back], 1)?);
        Ok(RouteRef {
            legs: [(from.node, out), (to.node, back)],
            count: 2,
            parts: 1,
            latency: 0.0,
            message,
            copy: None,
        })
    }

    /// The message of two legs, in so many parts.
    fn message(&mut self, legs: [u32; 2], parts: u32) -> Result<u32, ClusterError> {
        if let Some(number) = self.message_numbers.get(&legs) {
            return Ok(*number);
        }
        let refuse = |why: &str| ClusterError::Model(why.to_owned());
        let [Some(out), Some(back)] = legs.map(|leg| self.legs[leg as usize].end.clone()) else {
            return Err(refuse("a message needs a NIC at both ends"));
        };
        let message = Message::new(*out, rdma::Network::NEXT, *back).map_err(|e| refuse(&e.to_string()))?;
        self.messages.push((message, parts));
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
        let Some((message, parts)) = message.and_then(|m| self.messages.get(m as usize)) else { return latency };
        let parts = f64::from(*parts);
        let [fill, busy] = message.bytes_time(Bytes((bytes / parts).round() as u64)).map(Seconds::seconds);
        let steady = bytes / lone;
        // where the network, or an engine that works for both ends, is slower than either end
        let shared = lone < parts * message.rate().bytes_per_second() * (1.0 - 1e-9);
        let busy = if shared { busy.max(steady) } else { busy };
        let stages = message.latency().likely.seconds();
        latency + (stages + fill + busy - steady).max(0.0) * self.cluster.latencies.stages
    }

    /// A leg of a [`RouteRef`].
    pub(crate) fn leg_of(&self, number: u32) -> &Leg {
        &self.legs[number as usize]
    }

    fn take(&mut self, (node, leg): (u32, u32), way: &mut ClusterRoute) -> Result<(), ClusterError> {
        let known = &self.legs[leg as usize];
        let Demand { uses, burdens, waits, .. } = &known.demand;
        let queues = waits.iter().flat_map(|w| [w.server, w.window]);
        let all: Vec<usize> = uses.iter().chain(burdens).map(|(r, _)| *r).chain(queues).collect();
        let (cap, cap_why) = (known.demand.own_cap(), known.cap_why.clone());
        let key = |resource: usize| on(node, resource as u64);
        for resource in all {
            self.number(key(resource))?;
        }
        let demand = self.legs[leg as usize].demand.renamed(|r| self.numbers.get(&key(r)).map(|n| *n as usize));
        // a device's place is one of its node
        let turns = demand.turns.map(|t| Turns { places: t.places.map(|place| on(node, place)), ..t });
        if cap < way.demand.own_cap() {
            way.cap_why = cap_why;
        }
        // a loopback takes some things on both legs
        way.demand.join(&Demand { turns, ..demand });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Wanted;
    use crate::cluster::tests::hgx;
    use peerlane_machine::matrix::Operation;
    use peerlane_machine::units::Seconds;
    use peerlane_model::model::{PeerAccess, Transfer};
    use peerlane_read::catalogue::system;

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
    fn a_gpu_with_several_nics_sends_over_all_of_them() {
        for (name, nics) in [("aws-p5", 4.0), ("hgx-h200", 1.0)] {
            let wanted: Wanted = "rail".parse().unwrap();
            let node = system(name).unwrap().unwrap();
            let cluster = Cluster::of(node, 2, &wanted, None, Seconds::from_us(0.3)).unwrap();
            let mut router = Router::new(&cluster, Parts::embedded());
            let [a, b] = ["node0/GPU3", "node1/GPU3"].map(|name| cluster.find(name).unwrap());
            assert_eq!(router.nics_of(a.device).len() as f64, nics);
            let nic = router.nic_of(a.device);
            let one = router.way_by(a, b, Engine::Sm, Via::Nic(nic)).unwrap();
            let all = router.way(a, b, Engine::Sm).unwrap();
            // the GPU's own link may hold all together
            let held =
                all.demand.uses.iter().find(|(r, share)| router.resources()[*r].capacity / share < 1.001 * all.lone);
            let by = held.map_or(String::new(), |(r, _)| router.name(*r));
            assert!(
                by.contains("GPU3") || (all.lone / one.lone / nics - 1.0).abs() < 1e-9,
                "{name}: {} {by}",
                all.lone
            );
            let sent: f64 =
                all.demand.uses.iter().filter(|(r, _)| router.name(*r).contains("to leaf")).map(|u| u.1).sum();
            assert!((sent - 1.0).abs() < 1e-12, "{name}: {sent}");
        }
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
}
