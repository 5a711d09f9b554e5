//! Which steps a user picks.
//!
//! `--pairs` takes any number of these, also several in one text with commas between:
//!
//! | written | means |
//! | --- | --- |
//! | `GPU0-GPU1` | data between the two, either way |
//! | `GPU0>GPU1`, `GPU0→GPU1` | data that goes from the first to the second |
//! | `GPU0-host`, `GPU0>host1` | the same with host memory; `host` is that of any NUMA node |
//! | `GPU3`, `host` | whatever it has a part in |
//!
//! A step stays if all its transfers are picked: `GPU0-host,GPU1-host` leaves, of the subsets, the three of these two.

use super::{PlanError, Test, UsableNics, Work};
use peerlane_machine::fabric::NodeKind;
use peerlane_machine::machine::Machine;
use peerlane_machine::machine::lookup::HOST;
use peerlane_machine::names::{is_host, ranges};

/// What a user picks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only these tests; empty for what the scope means.
    pub tests: Vec<Test>,
    /// Only steps between these: `GPU0-GPU1`, `GPU0>host`, `GPU3`; empty for all.
    pub pairs: Vec<String>,
    /// The NICs that can be measured, where that was found out; else all of the machine that do RDMA.
    pub nics: Option<UsableNics>,
}

/// One of the pairs that are picked.
enum Pick {
    /// Everything of a node.
    Node(String),
    /// Data from the first to the second.
    OneWay(String, String),
    /// Data between the two.
    Either(String, String),
}

/// All that are picked; of none, everything is.
pub(super) struct Chosen(Vec<Pick>);

impl Selection {
    /// Its pairs, as far as the machine has them.
    pub(super) fn chosen(&self, machine: &Machine) -> Result<Chosen, PlanError> {
        let texts = self.pairs.iter().flat_map(|text| text.split(',')).map(str::trim).filter(|text| !text.is_empty());
        let picks = texts.map(|text| pick(text, machine).map_err(|why| PlanError::Pair { text: text.to_owned(), why }));
        picks.collect::<Result<_, _>>().map(Chosen)
    }
}

/// What one text means.
fn pick(text: &str, machine: &Machine) -> Result<Pick, String> {
    if let Some(name) = named(text, machine) {
        return Ok(Pick::Node(name));
    }
    let mut unknown = None;
    // a name may hold a separator itself, so that every place is tried
    for separator in ["→", "->", ">", "-"] {
        for (at, _) in text.match_indices(separator) {
            let (left, right) = (text[..at].trim(), text[at + separator.len()..].trim());
            match (named(left, machine), named(right, machine)) {
                (Some(a), Some(b)) if separator == "-" => return Ok(Pick::Either(a, b)),
                (Some(a), Some(b)) => return Ok(Pick::OneWay(a, b)),
                (Some(_), None) if !right.is_empty() => _ = unknown.get_or_insert(right),
                (_, _) if !left.is_empty() => _ = unknown.get_or_insert(left),
                _ => {}
            }
        }
    }
    let fabric = &machine.fabric;
    let gpus: Vec<&str> = fabric.of_kind(NodeKind::Gpu).map(|id| fabric.node(id).name.as_str()).collect();
    let hosts = fabric.of_kind(NodeKind::Host).map(|id| fabric.node(id).name.as_str());
    let hosts: Vec<&str> = std::iter::once("host").chain(hosts.filter(|name| *name != "host")).collect();
    let there = format!("this machine has {} and {}", ranges(&gpus), ranges(&hosts));
    match unknown {
        Some(name) if named(name, machine).is_none() => Err(format!("there is no {name}; {there}")),
        _ => Err(format!("write GPU0-GPU1, GPU0>GPU1, GPU0-host or GPU0; {there}")),
    }
}

/// The name of the GPU, NIC or host memory that is meant.
fn named(text: &str, machine: &Machine) -> Option<String> {
    if text.eq_ignore_ascii_case(HOST) {
        return Some(HOST.to_owned());
    }
    let id = machine.lookup_any(text, |kind| matches!(kind, NodeKind::Gpu | NodeKind::Host | NodeKind::Nic)).ok()?;
    Some(machine.fabric.node(id).name.clone())
}

impl Chosen {
    /// Whether a step that does this stays.
    pub(super) fn allow(&self, work: &Work) -> bool {
        self.0.is_empty() || work.kind().is_picked(&|from, to| self.has(from, to))
    }

    /// Whether data that goes from one to the other is picked.
    fn has(&self, source: &str, destination: &str) -> bool {
        let is = |picked: &str, name: &str| picked == name || (picked == "host" && is_host(name));
        self.0.iter().any(|pick| match pick {
            Pick::Node(n) => is(n, source) || is(n, destination),
            Pick::OneWay(a, b) => is(a, source) && is(b, destination),
            Pick::Either(a, b) => (is(a, source) && is(b, destination)) || (is(b, source) && is(a, destination)),
        })
    }
}
