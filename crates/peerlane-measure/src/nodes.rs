//! What many nodes deliver to each other: what is measured, by whom, and what came of it.
//!
//! Nothing here opens a socket or knows a NIC's library. Agents on real nodes and a simulated cluster are both a
//! [`Network`], so that schedule, record and judgement are the same for both. `docs/network.md` gives the method.

mod all_reduces;
mod execute;
mod levels;
mod pairings;
mod record;
mod schedule;
mod suspects;

pub use all_reduces::{Drop, drops};
pub use execute::execute;
pub use levels::Levels;
pub use record::{Cell, Event, MAX_NODES_BYTES, NodesRun, SCHEMA, looks_like_nodes_run};
pub use schedule::{LongerRounds, NodePlan, NodePlanError, Wanted};
pub use suspects::{Compared, Direction, Place, Suspect, suspects, usual};

use peerlane_machine::schema::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::{Failure, Verdict};
use crate::run::{Rise, SourceText};
use peerlane_machine::fabric::PciAddress;
use peerlane_machine::one_line::lines_if_any;
use peerlane_machine::transfer::{Collective, Registration};
use peerlane_machine::units::{Bytes, Rate, Seconds};

/// What moves the bytes of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// Sockets, over whatever network the host's routing takes.
    Tcp,
    /// RDMA through libibverbs, from a NIC to a NIC.
    Verbs,
    /// NCCL, between GPUs, over whatever network it finds: what applications get.
    Nccl,
}

impl Transport {
    /// All of them, in the order in which they are measured.
    pub const ALL: [Transport; 3] = [Transport::Tcp, Transport::Verbs, Transport::Nccl];

    /// As options and the record write it.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Tcp => "tcp",
            Transport::Verbs => "verbs",
            Transport::Nccl => "nccl",
        }
    }
}

impl std::fmt::Display for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// What is done between two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Probe {
    /// RDMA writes by `from` into the memory of `to`.
    Write,
    /// RDMA reads by `to` of the memory of `from`: data moves from `from` to `to` here too.
    Read,
    /// Sends by `from`, which `to` receives.
    Send,
    /// Writes both ways at once; the rate is the sum.
    WriteBoth,
    /// Sends both ways at once; the rate is the sum.
    SendBoth,
    /// Sends by verbs of GPU memory that is copied to host memory at one end and from there at the other.
    SendStaged,
    /// A message to and fro; the time is half of that.
    Latency,
    /// Each of two ranks of NCCL sends to the other one and receives from it in one operation; the rate is that of one
    /// direction, nccl-tests' bus bandwidth of `sendrecv_perf`.
    SendReceive,
    /// An all-reduce by NCCL among all GPUs of some nodes; the rate is nccl-tests' bus bandwidth.
    AllReduce,
}

impl Probe {
    /// As the record writes it.
    pub fn name(self) -> &'static str {
        match self {
            Probe::Write => "write",
            Probe::Read => "read",
            Probe::Send => "send",
            Probe::WriteBoth => "write-both",
            Probe::SendBoth => "send-both",
            Probe::SendStaged => "send-staged",
            Probe::Latency => "latency",
            Probe::SendReceive => "send-receive",
            Probe::AllReduce => "all-reduce",
        }
    }

    /// Whether the value is a rate of data that moves one way.
    pub fn is_one_way(self) -> bool {
        matches!(self, Probe::Write | Probe::Read | Probe::Send | Probe::SendStaged)
    }

    /// Whether data moves both ways, so that exchanging the ends measures the same again.
    pub fn is_both_ways(self) -> bool {
        matches!(self, Probe::WriteBoth | Probe::SendBoth | Probe::Latency | Probe::SendReceive | Probe::AllReduce)
    }

    /// Which collective of NCCL's it is, if it is one.
    pub fn collective(self) -> Option<Collective> {
        match self {
            Probe::SendReceive => Some(Collective::SendReceive),
            Probe::AllReduce => Some(Collective::AllReduce),
            _ => None,
        }
    }
}

impl std::fmt::Display for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// Which memory an end reads or writes.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Memory {
    /// That of a device, by its name among the node's GPUs: `GPU0`.
    Device(String),
    /// One buffer on each device of the node.
    Devices,
    /// The host's.
    #[default]
    Host,
    /// That of one NUMA node of the host.
    Numa(u32),
}

impl Memory {
    /// The host's, of one NUMA node where that is known.
    pub fn of_host(numa_node: Option<u32>) -> Self {
        numa_node.map_or(Memory::Host, Memory::Numa)
    }

    /// Whether it is GPU memory.
    pub fn is_device(&self) -> bool {
        matches!(self, Memory::Device(_) | Memory::Devices)
    }

    /// The name of the device, of one alone.
    pub fn device(&self) -> Option<&str> {
        if let Memory::Device(name) = self { Some(name) } else { None }
    }
}

impl std::fmt::Display for Memory {
    /// As a machine's fabric names it: `GPU0`, `host`, `host1`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Memory::Device(name) => f.write_str(name),
            Memory::Devices => f.write_str("GPUs"),
            Memory::Host => f.write_str("host"),
            Memory::Numa(node) => write!(f, "host{node}"),
        }
    }
}

impl std::fmt::Debug for Memory {
    /// The name: the noise of simulated steps is drawn by their `Debug`, and stays what it was.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

/// One end of a step.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct End {
    /// Index among [`Network::nodes`].
    pub node: usize,
    /// Name of the NIC; absent of TCP, which takes the path that the host's routing gives, and of NCCL, which chooses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic: Option<String>,
    /// Where the buffer is.
    #[serde(deserialize_with = "record::memory")]
    pub memory: Memory,
}

/// One measurement between two ends, which may be one end twice: a loopback.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// Where data comes from.
    pub from: End,
    /// Where it goes.
    pub to: End,
    /// What moves it.
    pub transport: Transport,
    /// What is done.
    pub probe: Probe,
    /// Bytes a message.
    pub size: Bytes,
    /// Queue pairs or streams of TCP at once, or ranks of NCCL.
    pub queue_pairs: u32,
    /// Of an all-reduce the nodes beside those of `from`, which has the first rank, and `to`, in the order of ranks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub between: Vec<usize>,
}

impl Step {
    /// The same in the other direction.
    #[must_use]
    pub fn reversed(&self) -> Self {
        Step { from: self.to.clone(), to: self.from.clone(), ..self.clone() }
    }

    /// Whether it stays within one node.
    pub fn is_loopback(&self) -> bool {
        self.from.node == self.to.node
    }

    /// The nodes that take part, in the order of ranks; a loopback's is there twice.
    pub fn nodes(&self) -> impl Iterator<Item = usize> + '_ {
        [self.from.node].into_iter().chain(self.between.iter().copied()).chain([self.to.node])
    }

    /// Whether it moves GPU memory, not that of hosts.
    pub fn is_of_gpus(&self) -> bool {
        self.from.memory.is_device()
    }

    /// Whether more than two ends take part as equals, so that its value says nothing of the path between `from` and `to`.
    pub fn is_among_many(&self) -> bool {
        self.probe == Probe::AllReduce
    }

    /// Whether it is one of those that load the links between switches, so that its value says more of these than of its ends.
    pub fn is_of_load(&self) -> bool {
        matches!(self.probe, Probe::WriteBoth | Probe::SendBoth)
    }

    /// Algorithm bandwidth by bus bandwidth, as nccl-tests defines them: 1 of what is no collective.
    pub fn algorithm_share(&self) -> f64 {
        self.probe.collective().map_or(1.0, |collective| 1.0 / collective.bus_factor(self.queue_pairs as usize))
    }
}

/// What a port's address in a RoCE network is, as routers see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Gid {
    /// RoCE v2 with an IPv4 address.
    Ipv4,
    /// RoCE v2 with an IPv6 address that routers pass on.
    Ipv6,
    /// RoCE v2 with a link-local address only.
    LinkLocal,
    /// None of RoCE v2.
    None,
}

/// A NIC's port that an agent can measure with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Nic {
    /// Name: `mlx5_0`.
    pub name: String,
    /// What its port runs at, as it reports; absent where that is unknown or means nothing, as with soft-RoCE.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// `InfiniBand` or `Ethernet`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_layer: Option<String>,
    /// The host memory to measure with: that of its NUMA node, where that is known.
    #[serde(deserialize_with = "record::memory")]
    pub memory: Memory,
    /// Payload of a packet at most, as the port has it now and as it could have it: 256 to 4096 bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<[u32; 2]>,
    /// Of an Ethernet port its best address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<Gid>,
    /// The GPU whose memory it is measured with: of those that can be used, the nearest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<NicGpu>,
}

impl Nic {
    /// The GPU whose memory its adapter reads and writes without staging, if it does.
    pub fn direct_gpu(&self) -> Option<&str> {
        self.gpu.as_ref().filter(|gpu| gpu.registration.is_some()).map(|gpu| gpu.name.as_str())
    }
}

/// A GPU beside a NIC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NicGpu {
    /// Its name among the node's GPUs.
    pub name: String,
    /// How the adapter gets at its memory; absent where it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration: Option<Registration>,
    /// Why not as a dmabuf, or why in no way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A GPU that an agent can measure with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeGpu {
    /// Name, by the order of PCI addresses of the GPUs that CUDA shows: `GPU0`.
    pub name: String,
    /// Its product, as the driver names it.
    pub product: String,
    /// Its PCI address, by which it is found among all GPUs of its machine; absent of a simulated node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<PciAddress>,
}

/// What an agent reports about its node when it joins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Node {
    /// Host name, different for each node of a run.
    pub host: String,
    /// Its NICs that verbs can open, in order of their names.
    #[serde(default)]
    pub nics: Vec<Nic>,
    /// Its GPUs that can be used now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<NodeGpu>,
    /// Version of its NCCL, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nccl: Option<String>,
    /// What the machine printed about itself, from which it can be rebuilt.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub evidence: Vec<SourceText>,
    /// Of a node of a simulated cluster that is built otherwise than the others, its system file.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "lines_if_any")]
    pub system: Option<String>,
    /// What was missing or unusual, in sentences: why there are no verbs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// What the ports of a node's NICs counted of errors while a plan was carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PortErrors {
    /// Index among [`Network::nodes`].
    pub node: usize,
    /// Ports that have such counters: `mlx5_0/1`.
    pub ports: Vec<String>,
    /// Counters that rose; all others did not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Rise>,
}

impl PortErrors {
    /// Adds what was counted later.
    fn add(&mut self, more: &[Rise]) {
        for rise in more {
            let same = |own: &&mut Rise| (own.counter, &own.of) == (rise.counter, &rise.of);
            match self.errors.iter_mut().find(same) {
                Some(own) => own.by = own.by.saturating_add(rise.by),
                None => self.errors.push(rise.clone()),
            }
        }
    }
}

/// A node that no longer answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Lost {
    /// Index among [`Network::nodes`].
    pub node: usize,
    /// What happened, in words: `its agent closed the connection`.
    pub why: String,
}

/// How steps are measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Method {
    /// About how long the steps of one round run, connecting apart.
    pub time: Seconds,
    /// Samples of each step, which divide that time. A median's 95 % interval needs 6.
    pub samples: usize,
    /// The longest that a round may take, connecting and verifying included, before what has not answered is given up as
    /// hung.
    pub patience: Seconds,
    /// How long an agent may show no sign of life before its node is lost.
    #[serde(default = "Method::silence_before")]
    pub silence: Seconds,
}

impl Method {
    /// What records without it had.
    fn silence_before() -> Seconds {
        Seconds::new(4.0)
    }

    /// The longest that a round takes, whatever happens: a node that dies is known as lost only after its silence.
    pub fn longest(&self) -> Seconds {
        Seconds::new(self.patience.seconds().max(self.silence.seconds()))
    }
}

impl Default for Method {
    fn default() -> Self {
        Method { time: Seconds::new(0.2), samples: 8, patience: Seconds::new(5.0), silence: Seconds::new(10.0) }
    }
}

/// What came of one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples {
    /// Bytes a second, or of a latency seconds, in the order in which they were taken.
    pub values: Vec<f64>,
    /// Whether what arrived is what was sent.
    pub verdict: Verdict,
}

/// Nodes that can measure each other.
pub trait Network {
    /// All of them, also those that were lost.
    fn nodes(&self) -> &[Node];

    /// Runs the steps of one round at once; an answer for each step, in order. Returns within [`Method::longest`] and
    /// little more. A lost node costs its own steps only.
    fn round(&mut self, steps: &[Step], method: &Method) -> Vec<Result<Samples, Failure>>;

    /// The nodes that were lost so far, in the order in which that was noticed. They get no further steps.
    fn lost(&self) -> &[Lost];

    /// Time since the network was made, by its own clock.
    fn now(&mut self) -> Seconds;

    /// What ports counted of errors since the network was made, or this was called last; nodes that have no such counters, or do
    /// not answer within that time, are left out.
    fn port_errors(&mut self, within: Seconds) -> Vec<PortErrors> {
        let _ = within;
        Vec::new()
    }
}
