//! A site: hosts, each a machine where it is known, and the network between them where that is known. What a run of it measured
//! is compared with what its paths should carry by its [`Comparison`]. One machine is a site with one host.

mod comparison;
mod host_rates;

pub use comparison::{ComparedStep, Comparison, OFF, since};
pub use host_rates::HostRates;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::cluster::{Cluster, ClusterError};
use crate::measured_cluster::{machine_of, place};
use crate::nic_gpus::shown_gpu;
use crate::simulated_cluster::of_record;
use peerlane_machine::fabric::{NodeKind, PathClass};
use peerlane_machine::machine::Machine;
use peerlane_machine::units::Rate;
use peerlane_measure::nodes::{End, Nic, Node, NodesRun, Probe, Step, Transport};
use peerlane_model::expectation::{Expected, nic_end};
use peerlane_model::model::rdma::{Method, NicDirection, between, measured_staging, method_in_use, nic_path};
use peerlane_model::model::{Model, TcpEnd, offers_device_access, staged_by_tcp};
use peerlane_read::catalogue::Parts;

/// Which memory a step moves, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Moved {
    OfHost,
    /// Read and written by adapters.
    OfGpu,
    /// By way of so many slots of host memory.
    Staged(u32),
}

impl Moved {
    fn by(step: &Step) -> Self {
        match step.probe {
            Probe::SendStaged => Moved::Staged(step.queue_pairs),
            _ if step.is_of_gpus() => Moved::OfGpu,
            _ => Moved::OfHost,
        }
    }
}

/// What a NIC's end of a path carries, of a host that described itself, in bytes a second.
#[derive(Clone, Debug, Default)]
struct NicEnd {
    /// From memory to the NIC, and back.
    rates: HashMap<Moved, [Expected; 2]>,
    /// Out and back through the NIC with host memory, where that is known.
    back: Option<Expected>,
    /// Class of the path to the GPU that it is measured with.
    class: Option<PathClass>,
}

/// Hosts and the network between them, as far as they are known.
#[derive(Clone, Debug, Default)]
pub struct Site {
    hosts: Vec<Option<Arc<Machine>>>,
    network: Option<Cluster>,
    nics: HashMap<(usize, String), NicEnd>,
    /// By host the first GPU's end of TCP, where it sends and where it receives.
    tcp: HashMap<usize, [TcpEnd; 2]>,
}

impl Site {
    /// That of a record: of a simulated cluster all, of real nodes those that described themselves.
    ///
    /// # Errors
    /// Where the cluster that was simulated cannot be read again.
    pub fn of(run: &NodesRun) -> Result<Self, ClusterError> {
        Ok(Self::with_network(run, of_record(run).transpose()?))
    }

    /// The same where the network is known from elsewhere. Its nodes are alike but for those with a system file of their own. Widths
    /// and speeds that no source states are not assumed.
    pub fn with_network(run: &NodesRun, network: Option<Cluster>) -> Self {
        let alike = network.as_ref().map(|cluster| Arc::new(cluster.node.clone()));
        let own = |node| machine_of(node).map(Arc::new).or_else(|| alike.clone());
        let hosts: Vec<Option<Arc<Machine>>> = run.nodes.iter().map(own).collect();
        let by_verbs = run.cells.iter().filter(|cell| cell.step.transport == Transport::Verbs);
        let moved = by_verbs.map(|cell| Moved::by(&cell.step)).chain([Moved::OfHost]).collect();
        let (mut nics, mut tcp) = (HashMap::new(), HashMap::new());
        for (at, (node, machine)) in run.nodes.iter().zip(&hosts).enumerate() {
            let Some(machine) = machine.as_ref().filter(|_| !node.evidence.is_empty()) else { continue };
            let model = Model::new(machine, Parts::embedded());
            // the driver may show fewer GPUs to the agent than the machine has; they are alike
            if !node.gpus.is_empty()
                && let Some(gpu) = machine.fabric.of_kind(NodeKind::Gpu).next()
            {
                tcp.insert(at, [true, false].map(|out| TcpEnd::of(&model, gpu, out)));
            }
            let end = |nic: &Nic| Some(((at, nic.name.clone()), NicEnd::of(&model, node, nic, &moved)?));
            nics.extend(node.nics.iter().filter_map(end));
        }
        Site { hosts, network, nics, tcp }
    }

    /// The machine of each host, where it is known; hosts that are alike share one.
    pub fn machines(&self) -> &[Option<Arc<Machine>>] {
        &self.hosts
    }

    /// Whether adapters may read and write the memory of a host's GPU, by what is known of such GPUs.
    pub fn offers_rdma(&self, run: &NodesRun, node: usize, gpu: &str) -> bool {
        let offers = || {
            let machine = self.hosts.get(node)?.as_ref()?;
            let gpu = run.nodes.get(node)?.gpus.iter().find(|own| own.name == gpu)?;
            Some(offers_device_access(&machine.fabric, Parts::embedded(), shown_gpu(&machine.fabric, gpu)?))
        };
        offers().unwrap_or(true)
    }

    /// What the path between a NIC and its host's memory carries, the slower way.
    pub fn host_path(&self, node: usize, nic: &str) -> Option<&Expected> {
        let [out, into] = self.nics.get(&(node, nic.to_owned()))?.rates.get(&Moved::OfHost)?;
        Some(if into.value < out.value { into } else { out })
    }

    fn nic(&self, end: &End) -> Option<&NicEnd> {
        self.nics.get(&(end.node, end.nic.clone()?))
    }

    /// Classes of the paths between a step's NICs and the GPUs next to them, where they are known.
    pub fn classes(&self, step: &Step) -> [Option<PathClass>; 2] {
        [&step.from, &step.to].map(|end| self.nic(end)?.class)
    }

    /// What GPU memory should reach by TCP, staged at both ends, where host memory reaches `host` over the same path.
    fn staged(&self, step: &Step, host: f64) -> Option<Expected> {
        let (from, to) = (self.tcp.get(&step.from.node)?[0], self.tcp.get(&step.to.node)?[1]);
        let all = staged_by_tcp(Rate::from_bytes_per_second(host), step.queue_pairs, step.size, [from, to]);
        let [least, likely, most] = all.map(Rate::bytes_per_second);
        Some(Expected::new(likely, [least, most], "passes over memory at both ends, beside host memory's rate"))
    }

    /// What the ends of a step by verbs carry, in bytes a second: the slower one.
    fn ends(&self, step: &Step) -> Option<Expected> {
        let (moved, from, to) = (Moved::by(step), self.nic(&step.from)?, self.nic(&step.to)?);
        if step.is_loopback() && moved == Moved::OfHost {
            return from.back.clone().filter(|_| step.from.nic == step.to.nic);
        }
        let (from, to) = (&from.rates.get(&moved)?[0], &to.rates.get(&moved)?[1]);
        let slower = if to.value < from.value { to } else { from };
        Some(Expected::new(slower.value, [from.low.min(to.low), from.high.min(to.high)], slower.binding.clone()))
    }
}

impl NicEnd {
    /// Of a NIC that the machine has; `moved` are the ways in which memory was moved.
    fn of(model: &Model, node: &Node, nic: &Nic, moved: &BTreeSet<Moved>) -> Option<Self> {
        let fabric = &model.machine.fabric;
        let [memory, id] = place(model.machine, &nic.name, &nic.memory)?;
        let of_name = |name: &str| node.gpus.iter().find(|gpu| gpu.name == name);
        let gpu = nic.gpu.as_ref().and_then(|gpu| shown_gpu(fabric, of_name(&gpu.name)?));
        let exactly = |(rate, why): (Rate, String)| Expected::exactly(rate.bytes_per_second(), why);
        let end = |moved, way| match moved {
            Moved::OfHost => {
                let path = nic_path(model, memory, id, way, Method::Host).ok()?;
                Some(exactly((path.rate, path.bottleneck)))
            }
            Moved::OfGpu => nic_end(model, gpu?, id, way, method_in_use(model, gpu?, id)),
            Moved::Staged(slots) => nic_end(model, gpu?, id, way, measured_staging(slots)),
        };
        let both = |moved: &Moved| {
            Some((*moved, [end(*moved, NicDirection::ToNetwork)?, end(*moved, NicDirection::FromNetwork)?]))
        };
        Some(NicEnd {
            rates: moved.iter().filter_map(both).collect(),
            back: between(model, [memory, id], [memory, id]).ok().map(exactly),
            class: gpu.and_then(|gpu| fabric.class(gpu, id)),
        })
    }
}
