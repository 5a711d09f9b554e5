//! What machines print, read into typed statements with their origins.
//!
//! One file per source. Each scanner looks through a whole [`Text`] for its own format, recognises it
//! by content and never by file name, and pushes what it finds into [`Found`]: an [`Evidence`] per
//! block, warnings for what it could not read. A text may hold many formats and several machines
//! among prose. No scanner panics, and none invents what is missing.

mod accelerator_table;
mod aer;
mod applications;
mod archive;
mod budget;
mod checks;
#[cfg(test)]
mod closed_loop;
mod coverage;
mod grid;
mod headings;
mod health;
mod host_headings;
mod json;
mod limits;
mod line_head;
mod markup;
mod messages;
mod open_lines;
mod plausible;
mod read;
mod repair;
mod said;
mod storage;
mod streams;
mod tables;
mod tensorflow;
#[cfg(test)]
mod testing;
mod text;
pub mod tool;
mod torch_profile;
mod tree;
mod words;

mod amd_links;
mod amd_smi;
mod bandwidth_test;
mod config_space;
mod container_info;
mod counters;
mod cpuinfo;
mod dcgm_metrics;
mod dcgmi_diag;
mod dcgmi_nvlink;
mod deepep;
mod device_query;
mod ethtool;
mod fabric_manager;
mod files_json;
mod gaudi;
mod gdrcopy;
mod gpu_burn;
mod gpu_list;
mod gpu_rows;
mod ib_routes;
mod ibdev2netdev;
mod iblinkinfo;
mod ibnetdiscover;
mod imex;
mod installers;
mod inxi;
mod ip_link;
mod job_state;
mod kernel;
mod kubernetes;
mod labelled_matrix;
mod lscpu;
mod lshw;
mod lspci;
mod lspci_lines;
mod lstopo_text;
mod lstopo_xml;
mod mlperf;
mod mlxlink;
mod modules;
mod mst_status;
mod nccl_averages;
mod nccl_graph;
mod nccl_inspector;
mod nccl_log;
mod nccl_tests;
mod nccl_tests_checks;
mod nccl_tests_json;
mod nccl_topology;
mod nccl_xml;
mod node_state;
mod numactl;
mod nvbandwidth;
mod nvbandwidth_json;
mod nvbandwidth_tests;
mod nvidia_smi_csv;
mod nvidia_smi_nvlink;
mod nvidia_smi_q;
mod nvidia_smi_q_lines;
mod nvidia_smi_table;
mod nvidia_smi_topo;
mod nvidia_smi_topo_p2p;
mod nvloom;
pub mod nvml;
mod osu;
mod p2p_test;
mod p2pmark;
mod path_matrix;
mod pci_listing;
mod perftest;
mod program_gpus;
mod progress;
mod prose;
mod rate_table;
mod rdma_ports;
mod rdma_topo;
mod retired_pages;
mod rig_report;
mod rocm_bandwidth_test;
mod rocm_smi;
mod rocminfo;
mod rvs;
mod sensors;
mod servers;
mod services;
mod show_gids;
mod simple_p2p;
mod slots;
mod slurm;
mod slurm_jobs;
mod sysfs;
mod sysfs_listing;
mod sysfs_tree;
pub mod traces;
mod transferbench;
mod transports;
mod ucx_perftest;
mod xml;
mod xorg;

pub(crate) use streams::LINE_PREFIX;

pub use archive::{Packing, Unpacked, pack, unpacked};
pub use json::from_json;
pub(crate) use limits::MAX_PAIRS;
pub use limits::MAX_STATEMENTS;
pub use read::{
    MAX_FILES, MAX_SOURCE_BYTES, READERS, ReadError, Reader, collect, json_files, read_files, read_path, read_stream,
    scan_text, unpack,
};
pub use sysfs::{record, record_what_matters};
pub use text::{Text, decode};
pub use tree::{Files, Item};

use std::sync::Arc;

use peerlane_machine::curve::{Curve, Series};
use peerlane_machine::fact::{
    Acs, AcsLines, ClassMatrix, CorruptData, Evidence, FabricManager, Fact, Gid, GpuFacts, HostFacts, IommuDomain,
    KernelFacts, LimitedLink, Logged, Modules, NcclGraph, NcclLog, NcclRank, NcclStaged, NcclTransport, NumaNode,
    NvlinkDomain, NvlinkEnd, NvlinkPort, OsDevice, P2pCapability, P2pMatrix, P2pStatus, PciDevice, PciRole, PciTree,
    PcieError, PcieErrorKind, PcieLines, RateRow, RateTable, RdmaPort, Recovery, Remark, SensorReading, SwitchXid,
    Unassigned, Xid,
};
use peerlane_machine::matrix::{Direction, Engine, Matrix, Operation, Quantity, Unit};
use peerlane_machine::names::gpu_number;
use peerlane_machine::origin::{Coverage, Origin, Warning};

/// A heading in a document, which may name the machine that the following blocks describe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    /// Where.
    pub source: Arc<str>,
    /// Its line, from 1.
    pub line: u32,
    /// Its text without markup.
    pub text: String,
}

/// What scanning found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Statements, sorted by source and line when [`scan_text`] returns.
    pub evidence: Vec<Evidence>,
    /// Warnings.
    pub warnings: Vec<Warning>,
    /// Files of a folder or an archive that could not be read, each with the reason.
    pub unread: Vec<String>,
    /// Recorded steps among files, which describe no machine: each file, and what it is.
    pub traces: Vec<String>,
    /// The headings just above statements.
    pub headings: Vec<Heading>,
    /// What sentences around the statements state.
    pub remarks: Vec<Remark>,
    /// Lines that may name a machine: headings, and labels such as `name:`.
    pub sections: Vec<Heading>,
    /// How much of each text was understood.
    pub coverage: Vec<Coverage>,
    /// Lines within statements that no reader used, from 1.
    pub unused: Vec<u32>,
    /// How many statements are not kept, being more than [`MAX_STATEMENTS`].
    pub left_out: usize,
    /// The work of reading, in steps: a line that a reader looks at, with up to 64 bytes of it.
    pub steps: u64,
    /// The memory of the statements, roughly.
    pub bytes: usize,
}

impl Found {
    /// Adds a statement that stands on `lines` (from 1, inclusive) of `text`, unless it is empty. One that lists more
    /// than any machine has is cut, and numbers that cannot be are taken out, each with a warning.
    pub fn push(&mut self, text: &Text, tool: &'static str, lines: (u32, u32), fact: Fact) {
        self.push_of(Origin { source: text.source().clone(), tool, lines: Some(lines) }, fact);
    }

    /// The same for what stands on no lines.
    pub(super) fn push_of(&mut self, origin: Origin, mut fact: Fact) {
        if fact.is_empty() {
            return;
        }
        let cut = limits::cut(&mut fact);
        if let Fact::Matrix(matrix) = fact {
            fact = Fact::Matrix(matrix.typed_by_title());
        }
        let impossible = plausible::take_out(&mut fact);
        if self.keep(Evidence { origin: origin.clone(), fact }) {
            cut.into_iter().chain(impossible).for_each(|message| self.warn_of(origin.clone(), message));
        }
    }

    /// Adds a statement while there is room; else it is only counted.
    pub(crate) fn keep(&mut self, one: Evidence) -> bool {
        let bytes = self.bytes + limits::bytes(&one.fact);
        let fits = self.evidence.len() < MAX_STATEMENTS && bytes <= limits::MAX_FOUND_BYTES;
        if fits {
            self.bytes = bytes;
            self.evidence.push(one);
        } else {
            self.left_out += 1;
        }
        fits
    }

    /// Adds a warning about `lines` of `text`. So many that nobody reads them all are not kept.
    pub fn warn(&mut self, text: &Text, tool: &'static str, lines: (u32, u32), message: impl Into<String>) {
        self.warn_of(Origin { source: text.source().clone(), tool, lines: Some(lines) }, message);
    }

    fn warn_of(&mut self, origin: Origin, message: impl Into<String>) {
        if self.warnings.len() < limits::MAX_WARNINGS {
            self.warnings.push(Warning::new(Some(origin), message));
        }
    }

    /// Takes over everything another scan found, within the same limits.
    pub fn append(&mut self, mut other: Found) {
        self.unread.extend(other.unread);
        self.traces.append(&mut other.traces);
        self.left_out += other.left_out;
        self.unused.append(&mut other.unused);
        self.steps += other.steps;
        for one in other.evidence.drain(..) {
            self.keep(one);
        }
        let room = limits::MAX_WARNINGS.saturating_sub(self.warnings.len()).min(other.warnings.len());
        self.warnings.extend(other.warnings.drain(..room));
        self.coverage.append(&mut other.coverage);
        self.headings.append(&mut other.headings);
        self.remarks.append(&mut other.remarks);
        self.sections.append(&mut other.sections);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_over_stays_within_limits_and_is_counted() {
        let text = Text::new("x", b"");
        let mut one = Found::default();
        for _ in 0..MAX_STATEMENTS + 2 {
            one.push(&text, "tool", (1, 1), Fact::Gpus(vec![GpuFacts::default()]));
            one.warn(&text, "tool", (1, 1), "odd");
        }
        assert_eq!((one.evidence.len(), one.left_out, one.warnings.len()), (MAX_STATEMENTS, 2, limits::MAX_WARNINGS));
        let mut all = Found::default();
        all.push(&text, "tool", (1, 1), Fact::Gpus(vec![GpuFacts::default()]));
        all.append(one);
        assert_eq!((all.evidence.len(), all.left_out, all.warnings.len()), (MAX_STATEMENTS, 3, limits::MAX_WARNINGS));
    }
}
