//! Families of steps: their names, what they need, and when they are measured.

use std::fmt;

use peerlane_machine::schema::JsonSchema;
use serde::{Deserialize, Serialize};

use super::site::Site;
use super::transfers::{host, pairs, sets, sizes};
use super::{Step, bfs, collective, halo, host_memory, loads, rdma, signals, small_copies, spin_glass};

/// A family of steps, as `--tests` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Test {
    /// Each ordered pair of GPUs, one way.
    Pairs,
    /// Each pair of GPUs, both ways at once.
    PairsBoth,
    /// Pairs without peer access: through host memory, by the driver and by a pipeline of our own.
    Staged,
    /// Each GPU and pinned host memory, one way.
    Host,
    /// Each GPU and pinned host memory, both ways at once.
    HostBoth,
    /// Each GPU and pageable host memory.
    Pageable,
    /// Each GPU and the memory of each NUMA node.
    Numa,
    /// Managed memory, by faults and prefetched.
    Managed,
    /// Copies within one GPU's memory.
    Local,
    /// One GPU and all others at once, data going out.
    OneToAll,
    /// One GPU and all others at once, data coming in.
    AllToOne,
    /// All pairs of a permutation of the GPUs at once.
    Permutations,
    /// Every GPU and the host at once.
    AllHost,
    /// Every subset of the GPUs and the host at once.
    Subsets,
    /// Dependent loads from a GPU into another's memory, and into the host's.
    LoadLatency,
    /// A flag passed to and fro between kernels of two GPUs.
    SignalLatency,
    /// Small copies, as the CUDA sample counts them, and what enqueueing them costs the CPU.
    CopyLatency,
    /// Rate against message size.
    Sizes,
    /// Host memory alone.
    Memory,
    /// NCCL's collectives.
    Collectives,
    /// Faces that GPUs exchange with their neighbours in a grid.
    Halo,
    /// Over-relaxation of a spin glass, as an application whose GPUs exchange boundaries.
    SpinGlass,
    /// Breadth-first search, as an application whose GPUs exchange what each found.
    Bfs,
    /// Each NIC and the host memory nearest to it: out and back through the adapter, and to each other NIC, by RDMA.
    Nic,
    /// Each GPU with each NIC, by RDMA: from its memory out and back to host memory, and the other way; directly, and staged.
    NicGpu,
}

/// How much is measured: which families where none are named, and how deep each goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd)]
pub enum Scope {
    /// What the CUDA sample `p2pBandwidthLatencyTest` measures, and the host one way; in 0.2 s on two GPUs, 2 s on four.
    Quick,
    /// What nvbandwidth's whole list measures, and latencies; in 2 s on two GPUs, 5 s on four.
    #[default]
    Default,
    /// All that can be measured, but managed memory and NICs, whose network others use, only when requested.
    Full,
}

/// What a machine must have for a family.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    Gpu,
    TwoGpus,
    /// A GPU, and host memory of several NUMA nodes.
    NumaNodes,
    Nic,
    GpuAndNic,
}

/// A family of steps.
pub(crate) struct Family {
    test: Test,
    name: &'static str,
    needs: Needs,
    /// The smallest scope that has it; `None` where it is measured only when it is named.
    scope: Option<Scope>,
    steps: fn(&Site<'_>) -> Vec<Step>,
}

const fn family(
    test: Test,
    name: &'static str,
    needs: Needs,
    scope: Option<Scope>,
    steps: fn(&Site<'_>) -> Vec<Step>,
) -> Family {
    Family { test, name, needs, scope, steps }
}

const QUICK: Option<Scope> = Some(Scope::Quick);
const USUAL: Option<Scope> = Some(Scope::Default);
const FULL: Option<Scope> = Some(Scope::Full);

/// All families, in the order in which a plan measures them.
///
/// What needs peer access off comes first, since it cannot be taken back from memory that others use.
const FAMILIES: &[Family] = &[
    family(Test::Staged, "staged", Needs::TwoGpus, QUICK, pairs::staged),
    family(Test::Local, "local", Needs::Gpu, USUAL, pairs::local),
    family(Test::Pairs, "pairs", Needs::TwoGpus, QUICK, pairs::one_way),
    family(Test::PairsBoth, "pairs-both", Needs::TwoGpus, QUICK, pairs::both_ways),
    family(Test::OneToAll, "one-to-all", Needs::TwoGpus, USUAL, sets::one_to_all),
    family(Test::AllToOne, "all-to-one", Needs::TwoGpus, USUAL, sets::all_to_one),
    family(Test::Permutations, "permutations", Needs::TwoGpus, FULL, sets::permutations),
    family(Test::LoadLatency, "load-latency", Needs::Gpu, USUAL, loads::steps),
    family(Test::SignalLatency, "signal-latency", Needs::TwoGpus, USUAL, signals::steps),
    family(Test::CopyLatency, "copy-latency", Needs::Gpu, QUICK, small_copies::steps),
    family(Test::Host, "host", Needs::Gpu, QUICK, host::one_way),
    family(Test::HostBoth, "host-both", Needs::Gpu, USUAL, host::both_ways),
    family(Test::AllHost, "all-host", Needs::TwoGpus, USUAL, sets::all_host),
    family(Test::Subsets, "subsets", Needs::Gpu, FULL, sets::subsets),
    family(Test::Pageable, "pageable", Needs::Gpu, FULL, host::pageable),
    family(Test::Numa, "numa", Needs::NumaNodes, FULL, host::numa),
    family(Test::Sizes, "sizes", Needs::Gpu, FULL, sizes::steps),
    family(Test::Memory, "memory", Needs::Gpu, FULL, host_memory::steps),
    family(Test::Managed, "managed", Needs::Gpu, None, host::managed),
    family(Test::Collectives, "collectives", Needs::TwoGpus, FULL, collective::steps),
    family(Test::Halo, "halo", Needs::TwoGpus, FULL, halo::steps),
    family(Test::SpinGlass, "spin-glass", Needs::Gpu, FULL, spin_glass::steps),
    family(Test::Bfs, "bfs", Needs::Gpu, FULL, bfs::steps),
    family(Test::Nic, "nic", Needs::Nic, None, rdma::between_nics),
    family(Test::NicGpu, "nic-gpu", Needs::GpuAndNic, None, rdma::with_gpus),
];

impl Test {
    /// All of them, in the order in which a plan measures them.
    pub const ALL: [Test; FAMILIES.len()] = {
        let mut all = [Test::Pairs; FAMILIES.len()];
        let mut at = 0;
        while at < all.len() {
            all[at] = FAMILIES[at].test;
            at += 1;
        }
        all
    };

    fn family(self) -> Option<&'static Family> {
        FAMILIES.iter().find(|family| family.test == self)
    }

    /// Whether it can be measured on a machine without a GPU and without a GPU's driver.
    pub fn is_without_gpus(self) -> bool {
        self.family().is_some_and(|family| family.needs == Needs::Nic)
    }

    /// Whether it is RDMA, so that the NICs that can be opened must be known.
    pub fn is_of_nics(self) -> bool {
        self.family().is_some_and(|family| family.needs.nics())
    }

    /// As `--tests` and the record write it.
    pub fn name(self) -> &'static str {
        self.family().map_or("", |family| family.name)
    }

    /// Its steps on a machine, or why it has none there.
    pub(crate) fn steps(self, site: &Site<'_>) -> Result<Vec<Step>, String> {
        let family = self.family().ok_or_else(|| "it is not known".to_owned())?;
        family.needs.missing(site).map_or_else(|| Ok((family.steps)(site)), Err)
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Scope {
    /// The families of a scope, in the order in which they are measured.
    pub fn tests(self) -> Vec<Test> {
        let of_scope = FAMILIES.iter().filter(|family| family.scope.is_some_and(|least| least <= self));
        of_scope.map(|family| family.test).collect()
    }
}

impl Needs {
    fn nics(self) -> bool {
        matches!(self, Needs::Nic | Needs::GpuAndNic)
    }

    /// What a machine lacks of it.
    fn missing(self, site: &Site<'_>) -> Option<String> {
        let why = match self {
            _ if site.gpus.is_empty() && self != Needs::Nic => "it needs a GPU, and there is none",
            _ if self.nics() && site.nics.is_empty() => {
                return Some(site.no_nics.clone().unwrap_or_else(|| "no NIC that does RDMA is known".to_owned()));
            }
            Needs::TwoGpus if site.gpus.len() < 2 => "it needs two GPUs, and there is one",
            Needs::NumaNodes if site.hosts.len() < 2 => {
                "it needs several NUMA nodes with memory, and only one is known"
            }
            _ => return None,
        };
        Some(why.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_family_is_in_the_table_under_the_name_that_records_write() {
        for test in Test::ALL {
            assert_eq!(serde_json::to_value(test).unwrap(), test.name());
        }
        let distinct: std::collections::BTreeSet<Test> = Test::ALL.into_iter().collect();
        let schema = serde_json::to_value(schemars::schema_for!(Test)).unwrap();
        assert_eq!((distinct.len(), schema["oneOf"].as_array().unwrap().len()), (Test::ALL.len(), Test::ALL.len()));
    }
}
