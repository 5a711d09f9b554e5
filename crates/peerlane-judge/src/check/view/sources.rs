//! Where things stand: facts with their sources, and citations of them.

use super::View;
use crate::check::words::lines;
use peerlane_machine::fabric::NodeId;
use peerlane_machine::fact::{Fact, HostFacts, KernelFacts, Message, Modules, P2pMatrix, PciTree, RdmaPort};
use peerlane_machine::machine::SourcedMatrix;
use peerlane_machine::origin::Origin;
use peerlane_measure::run::TOOL;

impl<'a> View<'a> {
    /// The sources of statements: `file:lines (tool)`, once for each file and tool; the machine's citation
    /// where no statement has its own place.
    pub(in crate::check) fn cite<'o>(&self, origins: impl IntoIterator<Item = &'o Origin>) -> Vec<String> {
        let mut places: Vec<(&Origin, Vec<(u32, u32)>)> = Vec::new();
        for origin in origins {
            match places.iter_mut().find(|(o, _)| (&o.source, o.tool) == (&origin.source, origin.tool)) {
                Some((_, lines)) => lines.extend(origin.lines),
                None => places.push((origin, origin.lines.into_iter().collect())),
            }
        }
        if places.is_empty() {
            return self.machine.source.iter().cloned().collect();
        }
        let text = |(origin, ranges): &(&Origin, Vec<(u32, u32)>)| {
            let at = if ranges.is_empty() { String::new() } else { format!(":{}", lines(ranges)) };
            format!("{}{at} ({})", origin.source, origin.tool)
        };
        places.iter().map(text).collect()
    }

    /// The source of the run.
    pub(in crate::check) fn cite_run(&self) -> Vec<String> {
        self.cite(self.case.run.iter().map(|recorded| &recorded.origin))
    }

    /// Where the numbers of a matrix stand.
    pub(in crate::check) fn cite_matrix(&self, measured: &SourcedMatrix) -> Vec<String> {
        self.cite(origins(measured))
    }

    /// Where the classes between these nodes stand: the matrix that states them, else what the nodes rest on.
    pub(in crate::check) fn class_origins(&self, nodes: &[NodeId]) -> Vec<&'a Origin> {
        match &self.machine.stated_classes {
            Some((_, origin)) => vec![origin],
            None => nodes.iter().flat_map(|id| &self.fabric().node(*id).origins).collect(),
        }
    }

    /// The facts that `pick` takes, each with its source.
    pub(in crate::check) fn facts<T>(
        &self,
        pick: impl Fn(&'a Fact) -> Option<T>,
    ) -> impl Iterator<Item = (T, &'a Origin)> {
        self.machine.evidence.iter().filter_map(move |e| Some((pick(&e.fact)?, &e.origin)))
    }

    /// Listings of PCI devices.
    pub(in crate::check) fn pci_trees(&self) -> impl Iterator<Item = (&'a PciTree, &'a Origin)> {
        self.facts(|fact| match fact {
            Fact::Pci(tree) => Some(tree),
            _ => None,
        })
    }

    /// Ports of RDMA adapters, as tools list them: a port that several list comes several times.
    pub(in crate::check) fn rdma_ports(&self) -> impl Iterator<Item = (&'a RdmaPort, &'a Origin)> {
        let listed = self.facts(|fact| match fact {
            Fact::RdmaPorts(ports) => Some(ports),
            _ => None,
        });
        listed.flat_map(|(ports, origin)| ports.iter().map(move |port| (port, origin)))
    }

    /// Messages of programs that are known.
    pub(in crate::check) fn messages(&self) -> impl Iterator<Item = (&'a Message, &'a Origin)> {
        self.facts(|fact| match fact {
            Fact::Message(message) => Some(message),
            _ => None,
        })
    }

    /// Statements on peer access between GPUs.
    pub(in crate::check) fn peer_access(&self) -> impl Iterator<Item = (&'a P2pMatrix, &'a Origin)> {
        self.facts(|fact| match fact {
            Fact::P2p(matrix) if matrix.capability.is_access() => Some(matrix),
            _ => None,
        })
    }

    /// Listings of the kernel's modules.
    pub(in crate::check) fn modules(&self) -> impl Iterator<Item = (&'a Modules, &'a Origin)> {
        self.facts(|fact| match fact {
            Fact::Modules(modules) => Some(modules),
            _ => None,
        })
    }

    /// What sources report of the host.
    pub(in crate::check) fn hosts(&self) -> impl Iterator<Item = (&'a HostFacts, &'a Origin)> {
        self.facts(|fact| match fact {
            Fact::Host(host) => Some(host),
            _ => None,
        })
    }

    /// What the kernel's log and command line report.
    pub(in crate::check) fn kernels(&self) -> Vec<(&'a KernelFacts, &'a Origin)> {
        let kernel = |fact: &'a Fact| match fact {
            Fact::Kernel(kernel) => Some(kernel),
            _ => None,
        };
        self.facts(kernel).collect()
    }

    /// The hypervisor that a source names, and where.
    pub(in crate::check) fn hypervisor(&self) -> Option<(&'a str, &'a Origin)> {
        self.hosts().find_map(|(host, origin)| Some((host.hypervisor.as_deref()?, origin)))
    }
}

/// Where the numbers of a matrix stand, every time.
pub(in crate::check) fn origins(measured: &SourcedMatrix) -> impl Iterator<Item = &Origin> {
    std::iter::once(&measured.origin).chain(&measured.also)
}

/// The program that printed a matrix. A system file's titles begin with it: `p2pBandwidthLatencyTest, …`.
pub(in crate::check) fn program(measured: &SourcedMatrix) -> &str {
    if measured.published { measured.matrix.title.split(',').next().unwrap_or_default() } else { measured.origin.tool }
}

/// Whether `peerlane measure` measured it: medians of verified samples, with host memory next to each GPU.
pub(in crate::check) fn is_ours(measured: &SourcedMatrix) -> bool {
    !measured.published && measured.origin.tool == TOOL
}
