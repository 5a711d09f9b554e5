//! Which statements speak of the same machine.
//!
//! A document may describe several machines, and one machine may be described by several files. What
//! one run of a program printed stays together (a *run*: consecutive statements of one tool, none
//! twice). Each run goes to the machine that it positively matches (same addresses, NIC names, host
//! name, or the very same numbers), else to the nearest earlier one that it does not contradict.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::evidence::{Curve, Evidence, Fact, GpuFacts, Matrix};
use crate::fabric::PciAddress;

use super::platforms;

/// Statements of one machine.
#[derive(Debug, Default)]
pub(super) struct Cluster {
    /// In the order they were found.
    pub(super) evidence: Vec<Evidence>,
    /// A digest of each statement.
    digests: Vec<Digest>,
    identity: Identity,
}

/// What two statements are compared by. Documents may hold thousands of matrices, too many to compare
/// each with each in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Digest {
    Classes {
        /// Equal where classes and affinities are.
        content: u64,
    },
    Matrix {
        /// Equal for one quantity between the same ends.
        measure: u64,
        /// Equal for the same rows.
        rows: u64,
        /// Whether it has more than one.
        square: bool,
        /// Equal for the same numbers.
        values: u64,
    },
    Other,
}

impl Digest {
    fn of(fact: &Fact) -> Self {
        match fact {
            Fact::Classes(m) => Digest::Classes { content: hash(&(&m.cols, &m.cells, &m.cpu_affinity)) },
            Fact::Matrix(m) => {
                let how = (m.quantity, m.direction, m.p2p, m.op, m.engine, m.size);
                Digest::Matrix {
                    measure: hash(&(how, &m.title, &m.rows, &m.cols)),
                    rows: hash(&m.rows),
                    square: m.rows.len() > 1,
                    values: values_digest(m),
                }
            }
            _ => Digest::Other,
        }
    }
}

/// Equal for matrices of the same numbers.
pub(super) fn values_digest(matrix: &Matrix) -> u64 {
    let bits = |row: &Vec<Option<f64>>| -> Vec<Option<u64>> { row.iter().map(|v| v.map(f64::to_bits)).collect() };
    hash(&matrix.values.iter().map(bits).collect::<Vec<_>>())
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// What tells machines apart.
#[derive(Clone, Debug, Default)]
struct Identity {
    /// GPUs in all, where a statement covers every one.
    gpus: Option<usize>,
    /// GPUs at least, from statements about some.
    at_least: usize,
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
    for run in runs(platforms::split(evidence)) {
        let identity = Identity::of(&run.evidence);
        let source = run.evidence.first().map(|e| e.origin.source.clone());
        match home(&clusters, &run, &identity, source.as_ref()) {
            Some(at) => clusters[at].take(run, &identity),
            None => {
                let mut cluster = Cluster::default();
                cluster.take(run, &identity);
                clusters.push(cluster);
            }
        }
    }
    clusters
}

/// Consecutive statements of one program.
#[derive(Debug)]
struct Run {
    evidence: Vec<Evidence>,
    digests: Vec<Digest>,
}

/// Consecutive statements of one source and tool, split where a statement of one kind comes again.
fn runs(evidence: Vec<Evidence>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for one in evidence {
        let digest = Digest::of(&one.fact);
        let same_tool = |run: &Run| {
            let last = run.evidence.last().map(|e| &e.origin);
            last.is_some_and(|o| o.source == one.origin.source && o.tool == one.origin.tool)
                && !run.evidence.iter().zip(&run.digests).any(|(e, d)| same_subject((&e.fact, *d), (&one.fact, digest)))
        };
        if !runs.last().is_some_and(same_tool) {
            runs.push(Run { evidence: Vec::new(), digests: Vec::new() });
        }
        if let Some(run) = runs.last_mut() {
            run.evidence.push(one);
            run.digests.push(digest);
        }
    }
    runs
}

/// Whether two statements would answer one question, so that one run does not print both.
fn same_subject((a, x): (&Fact, Digest), (b, y): (&Fact, Digest)) -> bool {
    match (a, b) {
        (Fact::Matrix(_), Fact::Matrix(_)) => match (x, y) {
            (
                Digest::Matrix { measure: m, rows: r, square: true, .. },
                Digest::Matrix { measure: n, rows: s, square: true, .. },
            ) => m == n || r != s, // pair matrices of differing GPUs are of two machines
            (Digest::Matrix { measure: m, .. }, Digest::Matrix { measure: n, .. }) => m == n,
            _ => false,
        },
        (Fact::Curve(a), Fact::Curve(b)) => curve_label(a) != curve_label(b),
        (Fact::Rates(a), Fact::Rates(b)) => platforms::machine_name(a) != platforms::machine_name(b),
        (Fact::Classes(_), Fact::Classes(_)) | (Fact::Gpus(_), Fact::Gpus(_)) => true,
        (Fact::P2p(a), Fact::P2p(b)) => a.capability == b.capability,
        _ => false,
    }
}

fn curve_label(curve: &Curve) -> Option<&String> {
    curve.settings.get("label")
}

fn home(clusters: &[Cluster], run: &Run, identity: &Identity, source: Option<&Arc<str>>) -> Option<usize> {
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
        .filter(|i| identity.gpus.is_some() && clusters[*i].identity.gpus == identity.gpus)
        .collect();
    match (sized.as_slice(), elsewhere.as_slice()) {
        ([one], _) | ([], [one]) => Some(*one),
        _ => None,
    }
}

impl Cluster {
    fn take(&mut self, run: Run, identity: &Identity) {
        self.evidence.extend(run.evidence);
        self.digests.extend(run.digests);
        self.identity.merge(identity);
    }

    fn relation(&self, run: &Run, other: &Identity) -> Relation {
        let sure = self.identity.surely_same(other);
        if self.identity.contradicts(other) {
            return Relation::Other;
        }
        let mut same = sure;
        for new in &run.digests {
            for old in &self.digests {
                match (old, new) {
                    (Digest::Classes { content: a }, Digest::Classes { content: b }) if a == b => same = true,
                    (Digest::Classes { .. }, Digest::Classes { .. }) if !sure => return Relation::Other,
                    (Digest::Matrix { measure: m, values: v, .. }, Digest::Matrix { measure: n, values: w, .. })
                        if m == n =>
                    {
                        match v == w {
                            true => same = true,
                            false if !sure => return Relation::Other,
                            false => {}
                        }
                    }
                    _ => {}
                }
            }
        }
        if same { Relation::Same } else { Relation::Possible }
    }
}

impl Identity {
    fn of(run: &[Evidence]) -> Self {
        let mut identity = Identity::default();
        for one in run {
            identity.merge(&Identity::of_fact(&one.fact, one.origin.tool));
        }
        identity
    }

    fn of_fact(fact: &Fact, tool: &str) -> Self {
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
                let whole = matches!(tool, "nvidia-smi" | "p2pBandwidthLatencyTest" | "nvbandwidth" | "nvbandwidth -j");
                if whole {
                    id.gpus = Some(gpus.len());
                }
                id.at_least = gpus.len();
                id.names = gpus.iter().filter_map(|g: &GpuFacts| g.name.as_deref()).map(normal_name).collect();
                id.addresses = gpus.iter().filter_map(|g| g.address).map(without_function).collect();
            }
            Fact::Pci(tree) => {
                let gpus: Vec<_> = tree.devices.iter().filter(|d| d.is_gpu()).collect();
                if tree.has_tree && !gpus.is_empty() {
                    id.gpus = Some(gpus.len());
                }
                id.at_least = gpus.len();
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
            Fact::NcclLog(log) => {
                id.host = log.host.clone();
                id.addresses = log.ranks.values().filter_map(|(_, a)| *a).map(without_function).collect();
            }
            _ => {}
        }
        id
    }

    fn merge(&mut self, other: &Identity) {
        self.gpus = self.gpus.or(other.gpus);
        self.at_least = self.at_least.max(other.at_least);
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

    fn contradicts(&self, other: &Identity) -> bool {
        let counts = match (self.gpus, other.gpus) {
            (Some(a), Some(b)) => a != b,
            (Some(a), None) => other.at_least > a,
            (None, Some(b)) => self.at_least > b,
            (None, None) => false,
        };
        let hosts = matches!((&self.host, &other.host), (Some(a), Some(b)) if a != b);
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
        counts || hosts || addresses || names
    }
}

/// `GPU0` … `GPU15`.
pub(super) fn is_gpu_label(name: &str) -> bool {
    gpu_index(name).is_some()
}

/// 3 of `GPU3`.
pub(super) fn gpu_index(name: &str) -> Option<u32> {
    name.strip_prefix("GPU")?.parse().ok()
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
