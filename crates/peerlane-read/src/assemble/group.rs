//! Which statements are about the same machine.
//!
//! A document may describe several machines, and one machine may be described by several files. What
//! one run of a program printed stays together (a *run*: consecutive statements of one tool, none
//! twice). Each run goes to the machine that it positively matches (same addresses, NIC names, host
//! name, or the very same numbers), else to the nearest earlier one that it does not contradict.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::evidence::{LINE_PREFIX, tool};
use peerlane_machine::curve::Curve;
use peerlane_machine::fabric::{PathClass, PciAddress};
use peerlane_machine::fact::{ClassMatrix, Evidence, Fact, GpuFacts, P2pCapability};
use peerlane_machine::matrix::Matrix;
use peerlane_machine::names::gpu_number;

use super::folders;
use super::platforms;
use super::stated::ByName;

/// Statements of one machine.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    /// In the order they were found.
    pub(super) evidence: Vec<Evidence>,
    identity: Identity,
    /// The folder of its host, where a bundle has one for each.
    pub(super) folder: Option<String>,
}

/// What distinguishes machines.
#[derive(Clone, Debug, Default)]
struct Identity {
    /// GPUs in all, where a statement covers every one.
    gpus: Option<usize>,
    /// GPUs at least, from statements about some.
    at_least: usize,
    /// NVIDIA's GPUs, and all, in a listing of the whole bus. A driver may show fewer: it knows its own
    /// maker's only, and one may be lost.
    on_bus: Option<(usize, usize)>,
    /// GPU product names, normalised.
    names: BTreeSet<String>,
    /// PCI addresses of GPUs, without function.
    addresses: BTreeSet<PciAddress>,
    /// NIC names.
    nics: BTreeSet<String>,
    /// Host name or a label in the text.
    host: Option<String>,
}

/// How a run relates to a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Same,
    Possible,
    Other,
}

/// Splits statements by machine.
pub(super) fn group(evidence: Vec<Evidence>) -> Vec<Cluster> {
    let mut clusters: Vec<Cluster> = Vec::new();
    let folders = folders::hosts(&evidence);
    let labelled = labelled_sources(&evidence);
    for run in runs(platforms::split(evidence)) {
        let mut identity = Identity::of(&run);
        let source = run.first().map(|e| e.origin.source.clone());
        let label = |labels: &BTreeMap<Arc<str>, String>| source.as_ref().and_then(|s| labels.get(s)).cloned();
        let folder = label(&folders);
        identity.host = label(&labelled).or(folder.clone()).or(identity.host);
        match home(&clusters, &run, &identity, source.as_ref()) {
            Some(at) => clusters[at].take(run, &identity),
            None => {
                let mut cluster = Cluster { folder, ..Cluster::default() };
                cluster.take(run, &identity);
                clusters.push(cluster);
            }
        }
    }
    clusters
}

/// Sources that are the lines of one host, whose name stands before each line: so all of them are about that host.
fn labelled_sources(evidence: &[Evidence]) -> BTreeMap<Arc<str>, String> {
    let label = |one: &Evidence| match &one.fact {
        Fact::Host(host) if one.origin.tool == LINE_PREFIX => Some((one.origin.source.clone(), host.name.clone()?)),
        _ => None,
    };
    evidence.iter().filter_map(label).collect()
}

/// Consecutive statements of one source and tool, split where a statement of one kind comes again.
fn runs(evidence: Vec<Evidence>) -> Vec<Vec<Evidence>> {
    let mut runs: Vec<Vec<Evidence>> = Vec::new();
    let mut printed = Printed::default();
    for one in evidence {
        let same_tool = |run: &&mut Vec<Evidence>| {
            run.last().is_some_and(|e| e.origin.source == one.origin.source && e.origin.tool == one.origin.tool)
        };
        match runs.last_mut().filter(same_tool) {
            Some(run) if printed.add(&one.fact) => run.push(one),
            _ => {
                printed = Printed::default();
                printed.add(&one.fact);
                runs.push(vec![one]);
            }
        }
    }
    runs
}

/// What a run has printed so far, as far as it shows that a further statement is another run's.
#[derive(Default)]
struct Printed {
    classes: bool,
    gpus: bool,
    p2p: Vec<P2pCapability>,
    /// Matrices by title.
    matrices: HashMap<String, Vec<Matrix>>,
    /// The rows of matrices of several.
    rows: Option<Vec<String>>,
    /// The machine that curves, and that tables of rates, name.
    curves: Option<Option<String>>,
    rates: Option<Option<String>>,
}

impl Printed {
    /// Adds a statement, unless it answers a question that was answered before, so that one run does not print both.
    fn add(&mut self, fact: &Fact) -> bool {
        let first = |known: &mut Option<Option<String>>, name: Option<&String>| {
            known.get_or_insert_with(|| name.cloned()).as_ref() == name
        };
        match fact {
            Fact::Matrix(matrix) => {
                // pair matrices of differing GPUs are of two machines
                let several = matrix.rows.len() > 1;
                if several && self.rows.as_ref().is_some_and(|rows| *rows != matrix.rows) {
                    return false;
                }
                let alike = self.matrices.entry(matrix.title.clone()).or_default();
                if alike.iter().any(|other| same_measure(other, matrix)) {
                    return false;
                }
                alike.push(Matrix { values: Vec::new(), ..matrix.clone() });
                if several {
                    self.rows.get_or_insert_with(|| matrix.rows.clone());
                }
                true
            }
            Fact::Curve(curve) => first(&mut self.curves, curve_label(curve)),
            Fact::Rates(table) => first(&mut self.rates, platforms::machine_name(table)),
            Fact::Classes(_) => !std::mem::replace(&mut self.classes, true),
            Fact::Gpus(_) => !std::mem::replace(&mut self.gpus, true),
            Fact::P2p(matrix) => {
                let again = self.p2p.contains(&matrix.capability);
                self.p2p.push(matrix.capability);
                !again
            }
            _ => true,
        }
    }
}

pub(super) fn same_measure(a: &Matrix, b: &Matrix) -> bool {
    let key = |m: &Matrix| (m.quantity, m.direction, m.p2p, m.op, m.engine, m.size);
    key(a) == key(b) && a.title == b.title && a.rows == b.rows && a.cols == b.cols
}

fn curve_label(curve: &Curve) -> Option<&String> {
    curve.settings.get("label")
}

fn home(clusters: &[Cluster], run: &[Evidence], identity: &Identity, source: Option<&Arc<str>>) -> Option<usize> {
    let related: Vec<(usize, Relation)> =
        clusters.iter().enumerate().map(|(i, c)| (i, c.relation(run, identity))).collect();
    if let Some((i, _)) = related.iter().rev().find(|(_, r)| *r == Relation::Same) {
        return Some(*i);
    }
    let possible = |(_, relation): &&(usize, Relation)| *relation == Relation::Possible;
    let here = |i: usize| clusters[i].evidence.iter().any(|e| Some(&e.origin.source) == source);
    if let Some((i, _)) = related.iter().rev().filter(possible).find(|(i, _)| here(*i)) {
        return Some(*i);
    }
    // across files only where there is no doubt which
    let elsewhere: Vec<usize> = related.iter().filter(possible).map(|(i, _)| *i).collect();
    let sized: Vec<usize> = elsewhere
        .iter()
        .copied()
        .filter(|i| identity.size().is_some() && clusters[*i].identity.size() == identity.size())
        .collect();
    match (sized.as_slice(), elsewhere.as_slice()) {
        ([one], _) | ([], [one]) => Some(*one),
        _ => None,
    }
}

impl Cluster {
    /// GPUs, as far as statements give their number.
    pub(super) fn gpus(&self) -> usize {
        self.identity.size().unwrap_or(self.identity.at_least)
    }

    fn take(&mut self, run: Vec<Evidence>, identity: &Identity) {
        self.evidence.extend(run);
        self.identity.merge(identity);
    }

    fn relation(&self, run: &[Evidence], other: &Identity) -> Relation {
        let sure = self.identity.surely_same(other);
        if self.identity.contradicts(other) {
            return Relation::Other;
        }
        let mut same = sure;
        for new in run {
            for old in &self.evidence {
                match (&old.fact, &new.fact) {
                    (Fact::Classes(a), Fact::Classes(b)) if same_classes(a, b) => same = true,
                    // names of NICs and products are alike on all nodes of a cluster, classes of one machine never differ
                    (Fact::Classes(a), Fact::Classes(b)) if !sure || !agree(a, b) => return Relation::Other,
                    (Fact::Matrix(a), Fact::Matrix(b)) if same_measure(a, b) && a.values == b.values => same = true,
                    (Fact::Matrix(a), Fact::Matrix(b)) if same_measure(a, b) && !sure => return Relation::Other,
                    _ => {}
                }
            }
        }
        if same { Relation::Same } else { Relation::Possible }
    }
}

fn same_classes(a: &ClassMatrix, b: &ClassMatrix) -> bool {
    (a.cols == b.cols && a.cells == b.cells && a.cpu_affinity == b.cpu_affinity) || pci_views(a, b)
}

/// Whether the classes that both know are the same, or differ as those of `topo -m` and `topo -mp` do.
fn agree(a: &ClassMatrix, b: &ClassMatrix) -> bool {
    let others = ByName::of(b);
    a.rows.iter().enumerate().all(|(i, row)| {
        a.cols.iter().enumerate().all(|(j, col)| {
            let own = a.cells.get(i).and_then(|r| r.get(j)).copied().flatten();
            let both = own.zip(others.cell(row, col));
            both.is_none_or(|(x, y)| x == y || x.is_nvlink() != y.is_nvlink())
        })
    })
}

/// Whether one is `topo -m` and the other `topo -mp` of the same machine.
pub(super) fn pci_views(a: &ClassMatrix, b: &ClassMatrix) -> bool {
    // two pairs of GPUs, one with a bridge and one without, look the same, so that something else must identify this machine
    let marked = |m: &ClassMatrix| {
        let affinities: BTreeSet<String> = m.cpu_affinity.iter().flatten().map(ToString::to_string).collect();
        affinities.len() > 1 || m.cells.iter().flatten().flatten().any(|c| c.is_pcie())
    };
    two_views(a, b) && [a, b].iter().all(|m| nvlinks(m) == 0 || marked(m))
}

/// Whether, if they are of one machine, one is `topo -m` and the other `topo -mp`, which shows the PCIe class of
/// NVLinked pairs too.
pub(super) fn two_views(a: &ClassMatrix, b: &ClassMatrix) -> bool {
    a.cols == b.cols
        && a.rows == b.rows
        && a.cpu_affinity == b.cpu_affinity
        && (nvlinks(a) == 0) != (nvlinks(b) == 0)
        && agree(a, b)
}

fn nvlinks(m: &ClassMatrix) -> usize {
    m.cells.iter().flatten().filter(|c| c.is_some_and(PathClass::is_nvlink)).count()
}

impl Identity {
    fn of(run: &[Evidence]) -> Self {
        let mut identity = Identity::default();
        for one in run {
            identity.merge(&Identity::of_fact(&one.fact, one.origin.tool));
        }
        identity
    }

    fn of_fact(fact: &Fact, by: &str) -> Self {
        let mut id = Identity::default();
        let count = |names: &[String]| names.iter().filter(|n| is_gpu_label(n)).count();
        match fact {
            Fact::Classes(m) => {
                id.gpus = Some(count(&m.cols).max(count(&m.rows)));
                let real = |n: &String| m.nic_names.get(n).unwrap_or(n).clone();
                id.nics = m.cols.iter().filter(|n| !is_gpu_label(n)).map(real).collect();
            }
            Fact::P2p(m) => id.gpus = Some(count(&m.cols)),
            Fact::Matrix(m) => match (count(&m.rows), count(&m.cols)) {
                (r, c) if r.max(c) > 1 => id.gpus = Some(r.max(c)),
                (r, c) => id.at_least = r.max(c),
            },
            Fact::Gpus(gpus) => {
                let whole = [tool::NVIDIA_SMI, tool::P2P_TEST, tool::NVBANDWIDTH, tool::NVBANDWIDTH_JSON, tool::NVML]
                    .contains(&by);
                if whole {
                    id.gpus = Some(gpus.len());
                }
                id.at_least = gpus.len();
                id.names = gpus.iter().filter_map(|g: &GpuFacts| g.name.as_deref()).map(normal_name).collect();
                id.addresses = gpus.iter().filter_map(|g| g.address).map(without_function).collect();
            }
            Fact::Pci(tree) => {
                let gpus = tree.gpus();
                if tree.has_tree && !tree.bridges_are_switches && !gpus.is_empty() {
                    let nvidia = gpus.iter().filter(|d| d.vendor == Some(0x10de)).count();
                    id.on_bus = Some((nvidia, gpus.len()));
                } else {
                    id.gpus = Some(gpus.len()).filter(|n| tree.has_tree && *n > 0);
                    id.at_least = gpus.len();
                }
                id.addresses = gpus.iter().filter_map(|d| d.address).map(without_function).collect();
                let nics = tree.devices.iter().filter(|d| d.is_nic()).flat_map(|d| &d.os_devices);
                id.nics = nics.filter(|o| o.rdma).map(|o| o.name.clone()).collect();
            }
            Fact::Curve(curve) => {
                id.nics = curve.ends.iter().filter(|e| !is_gpu_label(e) && *e != "host").cloned().collect();
                id.host = curve_label(curve).cloned();
            }
            Fact::Rates(table) => id.host = platforms::machine_name(table).cloned(),
            Fact::Host(host) => id.host = host.name.clone(),
            Fact::RdmaPorts(ports) => id.nics = ports.iter().map(|p| p.device.clone()).collect(),
            Fact::NcclLog(log) => {
                id.host = log.host.clone();
                id.addresses = log.ranks.values().filter_map(|r| r.address).map(without_function).collect();
            }
            _ => {}
        }
        id
    }

    fn merge(&mut self, other: &Identity) {
        // a program that sees some of the GPUs only (CUDA_VISIBLE_DEVICES) may come first
        self.gpus = self.gpus.max(other.gpus);
        self.at_least = self.at_least.max(other.at_least);
        self.on_bus = self.on_bus.or(other.on_bus);
        self.names.extend(other.names.iter().cloned());
        self.addresses.extend(&other.addresses);
        self.nics.extend(other.nics.iter().cloned());
        self.host = self.host.take().or_else(|| other.host.clone());
    }

    fn surely_same(&self, other: &Identity) -> bool {
        let addresses = self.addresses.len() > 1 && other.addresses.len() > 1;
        let subset = self.addresses.is_subset(&other.addresses) || other.addresses.is_subset(&self.addresses);
        let hosts = self.host.is_some() && self.host == other.host;
        let nics = !other.nics.is_disjoint(&self.nics);
        (addresses && subset) || hosts || nics || !self.names.is_disjoint(&other.names)
    }

    /// Whether all of its GPUs are known by address and are among the other's.
    fn sees_some_of(&self, other: &Identity) -> bool {
        self.gpus == Some(self.addresses.len())
            && other.gpus == Some(other.addresses.len())
            && self.addresses.is_subset(&other.addresses)
    }

    fn contradicts(&self, other: &Identity) -> bool {
        let counts = match (self.gpus, other.gpus) {
            (Some(a), Some(b)) => a != b && !self.sees_some_of(other) && !other.sees_some_of(self),
            (Some(a), None) => other.at_least > a,
            (None, Some(b)) => self.at_least > b,
            (None, None) => false,
        };
        let hosts = matches!((&self.host, &other.host), (Some(a), Some(b)) if a != b);
        let listings = matches!((self.on_bus, other.on_bus), (Some(a), Some(b)) if a != b);
        let bus = listings || self.does_not_fit_bus_of(other) || other.does_not_fit_bus_of(self);
        let addresses = !self.addresses.is_empty()
            && !other.addresses.is_empty()
            && !self.addresses.is_subset(&other.addresses)
            && !other.addresses.is_subset(&self.addresses);
        let known = |n: &String, names: &BTreeSet<String>| {
            names.iter().any(|m| m.starts_with(n.as_str()) || n.starts_with(m.as_str()))
        };
        let names = !self.names.is_empty()
            && !other.names.is_empty()
            && !other.names.iter().all(|n| known(n, &self.names))
            && !self.names.iter().all(|n| known(n, &other.names));
        counts || bus || hosts || addresses || names
    }

    /// Whether the driver's GPUs cannot be those on the other's bus: more, or so many fewer that, without
    /// addresses, it is rather another machine than a lost GPU.
    fn does_not_fit_bus_of(&self, other: &Identity) -> bool {
        let Some((nvidia, all)) = other.on_bus else { return false };
        let among = !self.addresses.is_empty() && self.addresses.is_subset(&other.addresses);
        let few = |n: usize| !among && n != nvidia && n + 1 < all;
        self.at_least > all || self.gpus.is_some_and(|n| n > all || few(n))
    }

    /// GPUs in all, for telling machines apart by size.
    fn size(&self) -> Option<usize> {
        self.gpus.or(self.on_bus.map(|(_, all)| all))
    }
}

/// `GPU0` … `GPU15`, and `GPU0/1`, a die of a card.
pub(super) fn is_gpu_label(name: &str) -> bool {
    gpu_number(name.split_once('/').map_or(name, |(card, _)| card)).is_some()
}

fn without_function(address: PciAddress) -> PciAddress {
    PciAddress { function: 0, ..address }
}

/// Product names differ by tool: vendor and brand come and go, long ones are cut.
fn normal_name(name: &str) -> String {
    let lower = name.to_lowercase();
    let words = lower.split_whitespace().filter(|w| !matches!(*w, "nvidia" | "tesla" | "geforce" | "quadro"));
    words.collect::<Vec<_>>().join(" ").trim_end_matches("...").to_owned()
}
