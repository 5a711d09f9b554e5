//! The TOML of a system file as it stands there, for reading and writing: names are not yet looked up, nothing is filled in.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use toml::Spanned;

use peerlane_machine::curve::Curve;
use peerlane_machine::fabric::{CpuList, CpuVendor, Interconnect, NodeKind, PciAddress};
use peerlane_machine::gap::Gap;
use peerlane_machine::machine::{Facts, Slot};
use peerlane_machine::matrix::{Direction, Engine, HostMemory, Operation, Pattern, Quantity, Unit};
use peerlane_machine::one_line::Lines;

/// A system file.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SystemFile {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) name: String,
    pub(super) title: Option<String>,
    pub(super) source: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) notes: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) assumptions: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) unknown: Vec<Gap>,
    pub(super) facts: Option<Facts>,
    /// Written a node a line, apart from the rest.
    #[serde(default, skip_serializing)]
    pub(super) nodes: BTreeMap<Spanned<String>, NodeEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) links: Vec<Spanned<LinkEntry>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) slots: Vec<Spanned<Slot>>,
    pub(super) topology: Option<Topology>,
    /// A device → the others whose PCIe path to it nothing states.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) unknown_paths: BTreeMap<Spanned<String>, Vec<Spanned<String>>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) p2p: Vec<PeerEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) published: Vec<PublishedEntry>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) statements: Vec<Spanned<StatementEntry>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) rates: Vec<Spanned<RatesEntry>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) curves: Vec<Spanned<Curve>>,
    #[serde(alias = "virtual", skip_serializing)]
    pub(super) simulated: Option<SimulatedEntry>,
    #[serde(default, skip_serializing)]
    pub(super) faults: Vec<Spanned<FaultEntry>>,
}

/// A node: `GPU0 = { part = "h200" }`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NodeEntry {
    pub(super) part: Option<Spanned<String>>,
    pub(super) kind: Option<NodeKind>,
    /// The CPU that a root complex or host memory belongs to.
    pub(super) of: Option<Spanned<String>>,
    /// The card that it sits on together with others.
    pub(super) card: Option<Spanned<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) aliases: Vec<String>,
    pub(super) product: Option<String>,
    /// Who makes a CPU of no known part.
    pub(super) vendor: Option<CpuVendor>,
    pub(super) address: Option<PciAddress>,
    pub(super) numa: Option<u32>,
    pub(super) cpus: Option<CpuList>,
    pub(super) domain: Option<u32>,
    /// Of a NIC or a capture card: Gb/s of its port.
    pub(super) line_rate: Option<f64>,
    /// Of a drive: GB/s that it reads.
    pub(super) read_rate: Option<f64>,
    /// GB/s that it writes.
    pub(super) write_rate: Option<f64>,
    /// Of a NIC: how it accesses GPU memory, as `--what-if` has it.
    pub(super) method: Option<Spanned<String>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) assumed: bool,
    /// Of a CPU: it stands for sockets that nothing names, so that it has no memory of which anything is known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) stand_in: bool,
    pub(super) note: Option<String>,
}

/// A link, of the one kind that is given.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LinkEntry {
    pub(super) between: [Spanned<String>; 2],
    pub(super) pcie: Option<Spanned<String>>,
    pub(super) allowed: Option<Spanned<String>>,
    pub(super) slot: Option<Spanned<String>>,
    pub(super) nvlink: Option<BundleEntry>,
    pub(super) nvlink_generation: Option<u8>,
    pub(super) smp: Option<Spanned<String>>,
    pub(super) xgmi: Option<BundleEntry>,
    pub(super) c2c: Option<BundleEntry>,
    pub(super) ualink: Option<BundleEntry>,
    pub(super) link: Option<BundleEntry>,
    pub(super) c2c_rate: Option<f64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) assumed: bool,
    pub(super) note: Option<String>,
}

/// How a link describes its bundle: its number of links, that it exists, or words as in `"4 x18"`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub(super) enum BundleEntry {
    Links(u8),
    There(bool),
    Words(String),
}

impl LinkEntry {
    /// Where it names its bundle of an interconnect.
    pub(super) fn bundle_mut(&mut self, interconnect: Interconnect) -> &mut Option<BundleEntry> {
        match interconnect {
            Interconnect::Nvlink => &mut self.nvlink,
            Interconnect::Xgmi => &mut self.xgmi,
            Interconnect::C2c => &mut self.c2c,
            Interconnect::Ualink => &mut self.ualink,
            Interconnect::Other => &mut self.link,
        }
    }

    /// The GPU interconnects that it names.
    pub(super) fn bundles(&self) -> impl Iterator<Item = (Interconnect, &BundleEntry)> {
        let given = [
            (Interconnect::Nvlink, &self.nvlink),
            (Interconnect::Xgmi, &self.xgmi),
            (Interconnect::C2c, &self.c2c),
            (Interconnect::Ualink, &self.ualink),
            (Interconnect::Other, &self.link),
        ];
        let given = given.into_iter().filter_map(|(interconnect, entry)| Some((interconnect, entry.as_ref()?)));
        given.filter(|(_, entry)| **entry != BundleEntry::There(false))
    }
}

/// `[topology]`: the class matrix that the source prints.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Topology {
    pub(super) matrix: Spanned<Lines>,
}

/// Whether peer-to-peer works, as a source states it.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum PeerAnswer {
    Yes,
    No,
}

/// `[[p2p]]`: a later entry overrules an earlier one.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PeerEntry {
    pub(super) status: PeerAnswer,
    /// Both ways each; all pairs of GPUs where it is not given.
    pub(super) pairs: Option<Vec<[Spanned<String>; 2]>>,
}

/// `[[published]]`: a matrix of numbers.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PublishedEntry {
    pub(super) quantity: Quantity,
    pub(super) direction: Option<Direction>,
    pub(super) p2p: Option<bool>,
    pub(super) op: Option<Operation>,
    pub(super) engine: Option<Engine>,
    pub(super) unit: Unit,
    pub(super) size: Option<u64>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) title: String,
    /// The kind of host memory, and which transfers ran at once; by the title where they are not given.
    pub(super) memory: Option<HostMemory>,
    pub(super) pattern: Option<Pattern>,
    /// Why numbers of it differ from what the links explain, where that is known.
    pub(super) known_cause: Option<String>,
    /// All GPUs where it is not given; `cols` too.
    pub(super) rows: Option<Vec<Spanned<String>>>,
    pub(super) cols: Option<Vec<Spanned<String>>>,
    pub(super) matrix: Spanned<Lines>,
}

/// `[[statements]]`: a figure stated in words.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StatementEntry {
    pub(super) text: String,
    pub(super) quantity: Quantity,
    pub(super) direction: Option<Direction>,
    pub(super) p2p: Option<bool>,
    pub(super) from: Vec<Spanned<String>>,
    pub(super) to: Vec<Spanned<String>>,
    pub(super) value: Option<f64>,
    pub(super) low: Option<f64>,
    pub(super) high: Option<f64>,
    pub(super) unit: Unit,
}

/// `[[rates]]`: a table of rates whose rows are named in words.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RatesEntry {
    pub(super) words: Vec<String>,
    pub(super) columns: Vec<String>,
    pub(super) unit: Unit,
    pub(super) rows: Vec<Spanned<RatesRow>>,
}

/// A row of `[[rates]]`; `nan` stands for no value.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RatesRow {
    pub(super) words: Vec<String>,
    pub(super) values: Vec<f64>,
}

/// `[simulated]`: how a simulated machine of it answers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SimulatedEntry {
    pub(super) noise: Option<Spanned<f64>>,
    pub(super) seed: Option<u64>,
}

/// `[[faults]]`: something that is wrong with a simulated machine, of the one kind that is given.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FaultEntry {
    pub(super) link: Option<[Spanned<String>; 2]>,
    pub(super) pcie: Option<Spanned<String>>,
    pub(super) nvlink: Option<Spanned<u8>>,
    pub(super) from: Option<Spanned<String>>,
    pub(super) to: Option<Spanned<String>>,
    pub(super) p2p_off: Option<[Spanned<String>; 2]>,
    pub(super) hang: Option<[Spanned<String>; 2]>,
    pub(super) corrupt: Option<[Spanned<String>; 2]>,
    pub(super) lost: Option<Spanned<String>>,
    pub(super) throttle: Option<Spanned<String>>,
    pub(super) bimodal: Option<Spanned<String>>,
    pub(super) cold: Option<Spanned<String>>,
    pub(super) detour: Option<Spanned<String>>,
    pub(super) errors: Option<Spanned<String>>,
    pub(super) counter: Option<Spanned<String>>,
    pub(super) per_gb: Option<Spanned<f64>>,
    pub(super) factor: Option<f64>,
    pub(super) after: Option<usize>,
    pub(super) samples: Option<usize>,
}
