//! The steps of each family: one function for each [`Test`].
//!
//! All have a bound. What would grow with the square of the GPUs or faster is measured in full up to [`MOST_PAIRED`] of
//! them, and beyond that of a selection that each function states.

mod graphs;
mod halos;
mod host;
mod latency;
mod lattices;
mod nics;
mod pairs;
mod sets;
mod sweeps;

pub(super) use latency::staged_copies;

use super::rounds::round_robin;
use super::{Scope, Size, Step, Test, Transfer, UsableNics, Work};
use peerlane_machine::fabric::{Fabric, NodeKind};
use peerlane_machine::machine::Machine;
use peerlane_machine::matrix::{Engine, Operation};
use peerlane_machine::units::Bytes;

/// The most GPUs of which all pairs are measured. Of more, each with the next and with the one half way round.
pub(super) const MOST_PAIRED: usize = 64;

/// A message between GPUs: 1.4 ms at the 394 GB/s that an H200's copy engine moves over NVLink. Each one's start costs
/// some 10 µs, most for reads, which took 2 % of a message of half this size. Slower links are given less, as a
/// sample's time allows.
const PEER: Size = Size::UpTo(Bytes::from_mib(512));

/// A message of several transfers at once, which share what they run over.
const SHARED: Size = Size::UpTo(Bytes::from_mib(256));

/// A message between a GPU and host memory: 1.2 ms on PCIe 5.0 x16.
const HOST: Size = Size::UpTo(Bytes::from_mib(64));

/// A message within one GPU's memory: ten times what the largest GPU caches hold.
const LOCAL: Size = Size::UpTo(Bytes::from_mib(512));

/// A small copy, as the CUDA sample has it.
const SMALL: Size = Size::Exactly(Bytes(16));

/// The ring that dependent loads walk, as large as nvbandwidth's, since the time depends on it.
const RING: Size = Size::Exactly(Bytes::from_mib(2));

/// A flag.
const FLAG: Size = Size::Exactly(Bytes(4));

/// Managed memory: bounded, since it is moved page by page.
const MANAGED: Size = Size::UpTo(Bytes::from_mib(256));

/// Each array of host memory alone: four times the last caches of most CPUs, as STREAM asks for.
const ARRAY: Size = Size::Exactly(Bytes::from_mib(512));

/// How GPUs move data, in the order in which it is measured.
const KINDS: [(Engine, Operation); 4] = [
    (Engine::Ce, Operation::Write),
    (Engine::Ce, Operation::Read),
    (Engine::Sm, Operation::Write),
    (Engine::Sm, Operation::Read),
];

/// What a plan is made for.
pub(super) struct Site<'a> {
    machine: &'a Machine,
    fabric: &'a Fabric,
    scope: Scope,
    /// GPUs, in the order of the machine's own lists.
    pub(super) gpus: Vec<String>,
    /// Host memory by NUMA node.
    hosts: Vec<String>,
    /// NICs that do RDMA, as far as is known.
    nics: Vec<String>,
    /// Why other NICs than these are left out, or that there are none.
    no_nics: Option<String>,
}

impl<'a> Site<'a> {
    /// A machine's GPUs, host memory and NICs; of the NICs only those that can be measured, where that is known.
    pub(super) fn new(machine: &'a Machine, scope: Scope, usable: Option<&UsableNics>) -> Self {
        let fabric = &machine.fabric;
        let names = |kind| fabric.of_kind(kind).map(|id| fabric.node(id).name.clone()).collect();
        let mut nics: Vec<String> = names(NodeKind::Nic);
        nics.retain(|name| match usable {
            Some(usable) => usable.names.contains(name),
            None => fabric.find(name).is_some_and(|id| fabric.node(id).rdma != Some(false)),
        });
        let no_nics = usable.and_then(|usable| usable.why.clone());
        Site { machine, fabric, scope, gpus: names(NodeKind::Gpu), hosts: names(NodeKind::Host), nics, no_nics }
    }

    /// Pairs of GPUs, each once.
    fn pairs(&self) -> Vec<(&str, &str)> {
        let n = self.gpus.len();
        let pairs = if n <= MOST_PAIRED {
            round_robin(n)
        } else {
            let next = (0..n).map(|i| (i, (i + 1) % n));
            next.chain((0..n / 2).map(|i| (i, i + n / 2))).collect()
        };
        pairs.into_iter().map(|(a, b)| (self.gpus[a].as_str(), self.gpus[b].as_str())).collect()
    }

    /// Pairs of GPUs in both orders: all one way, then all the other.
    fn ordered_pairs(&self) -> Vec<(&str, &str)> {
        let pairs = self.pairs();
        let back = pairs.iter().map(|&(a, b)| (b, a));
        pairs.iter().copied().chain(back).collect()
    }

    /// How GPUs move data: in a quick plan by copy engine writes only.
    fn kinds(&self) -> &'static [(Engine, Operation)] {
        if self.scope == Scope::Quick { &KINDS[..1] } else { &KINDS }
    }

    /// What moves data where reads and writes are not distinguished.
    fn engines(&self) -> &'static [Engine] {
        if self.scope == Scope::Quick { &[Engine::Ce] } else { &[Engine::Ce, Engine::Sm] }
    }
}

/// The steps of a family, or why it has none here.
pub(super) fn steps(test: Test, site: &Site<'_>) -> Result<Vec<Step>, String> {
    let among_gpus = matches!(
        test,
        Test::Pairs
            | Test::PairsBoth
            | Test::Staged
            | Test::OneToAll
            | Test::AllToOne
            | Test::Permutations
            | Test::AllHost
            | Test::SignalLatency
            | Test::Collectives
            | Test::Halo
    );
    if site.gpus.is_empty() && !test.is_without_gpus() {
        return Err("it needs a GPU, and there is none".to_owned());
    }
    if test.is_of_nics() && site.nics.is_empty() {
        return Err(site.no_nics.clone().unwrap_or_else(|| "no NIC that does RDMA is known".to_owned()));
    }
    if among_gpus && site.gpus.len() < 2 {
        return Err("it needs two GPUs, and there is one".to_owned());
    }
    if test == Test::Numa && site.hosts.len() < 2 {
        return Err("it needs several NUMA nodes with memory, and only one is known".to_owned());
    }
    Ok(match test {
        Test::Staged => pairs::staged(site),
        Test::Local => pairs::local(site),
        Test::Pairs => pairs::one_way(site),
        Test::PairsBoth => pairs::both_ways(site),
        Test::OneToAll => sets::one_to_all(site),
        Test::AllToOne => sets::all_to_one(site),
        Test::Permutations => sets::permutations(site),
        Test::LoadLatency => latency::loads(site),
        Test::SignalLatency => latency::signals(site),
        Test::CopyLatency => latency::copies(site),
        Test::Host => host::one_way(site),
        Test::HostBoth => host::both_ways(site),
        Test::AllHost => sets::all_host(site),
        Test::Subsets => sets::subsets(site),
        Test::Pageable => host::pageable(site),
        Test::Numa => host::numa(site),
        Test::Sizes => sweeps::sizes(site),
        Test::Memory => host::memory(site),
        Test::Managed => host::managed(site),
        Test::Collectives => sweeps::collectives(site),
        Test::Halo => halos::halo(site),
        Test::SpinGlass => lattices::spin_glass(site),
        Test::Bfs => graphs::bfs(site),
        Test::Nic => nics::steps(site),
        Test::NicGpu => nics::with_gpus(site),
    })
}

/// A step that moves data.
fn moving(test: Test, transfers: Vec<Transfer>, size: Size) -> Step {
    Step { test, work: Work::Transfers(transfers), size }
}

/// One transfer, driven by an engine and operation.
fn driven(source: &str, destination: &str, (engine, op): (Engine, Operation)) -> Transfer {
    Transfer { engine, op, ..Transfer::new(source, destination) }
}

/// Both ways at once.
fn both(transfer: Transfer) -> Vec<Transfer> {
    vec![transfer.clone(), transfer.reversed()]
}
