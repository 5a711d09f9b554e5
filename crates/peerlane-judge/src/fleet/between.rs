//! Records between nodes, as they are compared: the numbers of each node, and what the judge of such a record finds.
//!
//! A node's number is what all but a quarter of its partners show: a node, a NIC or a cable at fault slows nearly all of them, a
//! slow path or a slow partner does not.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, PoisonError};

use super::document::Test as Column;
use super::read::Dictionary;
use super::usual::FEWEST;
use super::{Node, Number, What, names};
use crate::check::{OUTLIER, Settings};
use crate::finding::{Certainty, Finding, FindingKind, Severity};
use crate::nodes::judge;
use peerlane_design::cluster::ClusterError;
use peerlane_design::site::{Comparison, Site};
use peerlane_machine::blame;
use peerlane_machine::matrix::{Quantity, Unit};
use peerlane_machine::subject::Subject;
use peerlane_measure::nodes::{Cell, End, Node as Host, NodesRun, Probe, Transport};
use peerlane_measure::run::FlagKind;

/// Values with other nodes that it takes to know a node from its partners.
const PARTNERS: usize = 3;

/// Nodes that differ from the most common ones of their record in what NICs they have, up to this share of its nodes, have lost
/// something; more are another kind.
const RARE: f64 = 0.2;

/// What a record says beside the numbers of its nodes.
#[derive(Debug, PartialEq)]
pub(super) struct About {
    /// The record's name: `node001 and 31 more`.
    pub(super) name: String,
    /// Its file.
    pub(super) file: String,
    /// When it began, in seconds since 1970; 0 where that is unknown.
    pub(super) began: u64,
    /// Stands for its content.
    pub(super) content: u64,
    /// Whether nothing of its plan is missing.
    pub(super) complete: bool,
    /// How many answers it has.
    pub(super) cells: usize,
    /// The hosts of its nodes, with their NICs.
    pub(super) hosts: BTreeMap<String, BTreeSet<String>>,
    /// What is at fault.
    pub(super) accused: Vec<Accused>,
}

/// A fault that the judge of records between nodes found.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Accused {
    /// The host; `None` of a path or a switch.
    pub(super) host: Option<String>,
    /// The finding; its subjects are parts of the host, or the machine.
    pub(super) finding: Finding,
    /// The subjects as `check` prints them, which waivers may name.
    pub(super) written: Vec<Subject>,
}

/// Which way a node's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Way {
    Loopback,
    Sent,
    Received,
    Both,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Loopback => "loopback",
            Way::Sent => "sent",
            Way::Received => "received",
            Way::Both => "to and fro",
        }
    }
}

/// What a node's number is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Of<'a> {
    transport: Transport,
    probe: Probe,
    /// Whether of GPU memory.
    gpus: bool,
    nic: Option<&'a str>,
    way: Way,
}

/// The values of a number.
#[derive(Default)]
struct Values {
    known: Vec<[f64; 3]>,
    /// Why the first of those without a value has none.
    void: Option<FlagKind>,
    tried: usize,
}

impl Node {
    /// What is compared of each node of a record between nodes; `file` is the record's name.
    ///
    /// # Errors
    /// Where the cluster that was simulated cannot be read.
    pub fn between(run: &NodesRun, file: &str, dictionary: &Dictionary) -> Result<Vec<Node>, ClusterError> {
        let judged = judge(&Comparison::of(&Site::of(run)?, run), &Settings::default(), None);
        let names: Vec<String> = run.nodes.iter().map(|node| name(run, node)).collect();
        let mut content = DefaultHasher::new();
        (&run.name, run.began, run.complete, &names, run.lost.len()).hash(&mut content);
        for cell in &run.cells {
            (cell.round, cell.step.from.node, cell.estimate.map(|e| e.value.to_bits())).hash(&mut content);
        }
        let (kinds, missing) = kinds(&run.nodes);
        let findings = judged.findings.iter().chain(&missing);
        let about = Arc::new(About {
            name: run.name.clone(),
            file: file.to_owned(),
            began: run.began,
            content: content.finish(),
            complete: run.complete,
            cells: run.cells.len(),
            hosts: names.iter().cloned().zip(run.nodes.iter().map(nics)).collect(),
            accused: findings.flat_map(|finding| accused(run, &names, finding)).collect(),
        });
        let numbers = numbers(run, dictionary);
        let node = |(((host, name), numbers), kind): (((&Host, String), Vec<Number>), String)| {
            let mut products: Vec<String> = host.gpus.iter().map(|gpu| gpu.product.clone()).collect();
            products.sort();
            products.dedup();
            let mut content = DefaultHasher::new();
            (about.content, &name).hash(&mut content);
            Node {
                name,
                file: file.to_owned(),
                kind,
                products,
                gpus: host.gpus.len(),
                driver: None,
                began: run.began,
                content: content.finish(),
                named_by_host: !names::is_nameless(&host.host),
                label: None,
                uuids: Vec::new(),
                facts: 0,
                numbers,
                lacks: run.missing().is_some(),
                captured: None,
                between: Some(about.clone()),
            }
        };
        Ok(run.nodes.iter().zip(names).zip(numbers).zip(kinds).map(node).collect())
    }

    /// Whether two records between nodes can be of one machine: some NICs have the same names, and some GPUs are the same.
    pub(super) fn between_alike(&self, other: &Node) -> bool {
        let nics = |node: &Node| {
            node.between.as_ref().and_then(|about| about.hosts.get(&node.name).cloned()).unwrap_or_default()
        };
        let (own, others) = (nics(self), nics(other));
        let some = |none: bool, shared: bool| none || shared;
        some(own.is_empty() || others.is_empty(), own.intersection(&others).next().is_some())
            && some(
                self.products.is_empty() || other.products.is_empty(),
                self.products.iter().any(|product| other.products.contains(product)),
            )
    }
}

fn nics(node: &Host) -> BTreeSet<String> {
    node.nics.iter().map(|nic| nic.name.clone()).collect()
}

/// A node's host name; one that many machines have gets the record's.
fn name(run: &NodesRun, node: &Host) -> String {
    if names::is_nameless(&node.host) { format!("{} of {}", node.host, run.name) } else { node.host.clone() }
}

/// What nodes must have in common to be compared: their GPUs and NICs with the rates of their ports. The few that have less than
/// most of their record stay with these, since they lost it; and are named where a NIC is missing.
fn kinds(nodes: &[Host]) -> (Vec<String>, Vec<Finding>) {
    let kind = |node: &Host| {
        let gpus: BTreeSet<&str> = node.gpus.iter().map(|gpu| gpu.product.as_str()).collect();
        let nics = node.nics.iter().map(|nic| {
            let rate = nic.rate.map_or_else(String::new, |rate| format!(" {:.1}", rate.gb()));
            format!("{} {}{rate}", nic.name, nic.link_layer.as_deref().unwrap_or_default())
        });
        let words = |all: Vec<&str>| all.join(", ");
        let nics: Vec<String> = nics.collect();
        format!("between nodes\n{}\n{}", words(gpus.into_iter().collect()), nics.join(", "))
    };
    let own: Vec<String> = nodes.iter().map(kind).collect();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    own.iter().for_each(|kind| *counts.entry(kind).or_default() += 1);
    let Some((usual, _)) = counts.iter().max_by_key(|(_, count)| **count) else { return (own, Vec::new()) };
    let example = own.iter().position(|kind| kind == usual).and_then(|at| nodes.get(at));
    let Some(example) = example else { return (own, Vec::new()) };
    let is_less = |node: &Host| {
        node.nics.iter().all(|nic| example.nics.iter().any(|other| other.name == nic.name))
            && node.gpus.iter().all(|gpu| example.gpus.iter().any(|other| other.product == gpu.product))
    };
    let rare =
        |kind: &String| counts.get(kind.as_str()).is_some_and(|count| *count as f64 <= RARE * nodes.len() as f64);
    let lost: Vec<bool> = nodes.iter().zip(&own).map(|(node, own)| rare(own) && is_less(node)).collect();
    let alike = counts.get(*usual).copied().unwrap_or(0);
    let missing = |node: &Host| {
        let missing = nics(example).difference(&nics(node)).cloned().collect::<Vec<String>>();
        (!missing.is_empty() && alike >= FEWEST).then(|| without(node, &missing, [example.nics.len(), alike]))
    };
    let findings = nodes.iter().zip(&lost).filter(|(_, lost)| **lost).filter_map(|(node, _)| missing(node)).collect();
    let adopt = |(own, lost): (&String, &bool)| if *lost { (*usual).to_owned() } else { own.clone() };
    (own.iter().zip(&lost).map(adopt).collect(), findings)
}

/// That a node lacks NICs which nearly all others of its record have.
fn without(node: &Host, missing: &[String], [usual, alike]: [usize; 2]) -> Finding {
    let (host, has) = (&node.host, node.nics.len());
    let raised = OUTLIER.raise(FindingKind::Fault, Severity::Warning, Certainty::Likely);
    let raised = raised
        .summary(format!(
            "{has} NICs that can be measured, and {usual} on {alike} nodes of the record: {} is missing",
            missing.join(", ")
        ))
        .expected(format!("{usual} NICs"))
        .measured(format!("{has} NICs"))
        .fix(
            "Reseat the adapter if `lspci` does not show it; otherwise load its driver and enable its port. The \
             kernel log has the driver's reason.",
        )
        .confirm(format!("`ssh {host} ibv_devinfo`"))
        .about(vec![Subject::Node(host.clone())]);
    raised.finding
}

/// What a finding says of each of its hosts, and of what lies between them.
fn accused(run: &NodesRun, names: &[String], finding: &Finding) -> Vec<Accused> {
    if !finding.is_trouble() {
        return Vec::new();
    }
    let named = |host: &str| {
        let at = run.nodes.iter().position(|node| node.host == host);
        at.and_then(|at| names.get(at)).cloned()
    };
    let mut of_hosts: BTreeMap<String, (Vec<Subject>, Vec<Subject>)> = BTreeMap::new();
    let mut all = Vec::new();
    for subject in &finding.subjects {
        let own = match subject {
            Subject::Node(text) => match (named(text), text.rsplit_once('/')) {
                (Some(host), _) => Some((host.clone(), Subject::Machine(host))),
                (None, Some((host, part))) => named(host).map(|host| (host, Subject::Node(part.to_owned()))),
                (None, None) => None,
            },
            _ => None,
        };
        match own {
            Some((host, own)) => {
                let (subjects, written) = of_hosts.entry(host).or_default();
                subjects.push(own);
                written.push(subject.clone());
            }
            None => all.push(Accused {
                host: None,
                finding: Finding { subjects: vec![subject.clone()], ..finding.clone() },
                written: vec![subject.clone()],
            }),
        }
    }
    all.extend(of_hosts.into_iter().map(|(host, (subjects, written))| Accused {
        host: Some(host),
        finding: Finding { subjects, ..finding.clone() },
        written,
    }));
    all
}

/// The numbers of each node, in order.
fn numbers(run: &NodesRun, dictionary: &Dictionary) -> Vec<Vec<Number>> {
    let mut all: Vec<HashMap<Of, Values>> = Vec::new();
    all.resize_with(run.nodes.len(), HashMap::new);
    // suspects are measured again with others than all are
    // latencies depend on how far a node's partners happen to be
    let of_ends = |cell: &&Cell| {
        let step = &cell.step;
        !cell.again && step.probe != Probe::Latency && !step.is_among_many() && !step.is_of_load()
    };
    for cell in run.cells.iter().filter(of_ends) {
        for (end, way) in ends(cell) {
            let step = &cell.step;
            let (transport, probe, gpus) = (step.transport, step.probe, step.is_of_gpus());
            let of = Of { transport, probe, gpus, nic: end.nic.as_deref(), way };
            let Some(values) = all.get_mut(end.node).map(|own| own.entry(of).or_default()) else { continue };
            values.tried += 1;
            match (cell.value(), cell.estimate) {
                (Some(value), Some(estimate)) => values.known.push([value, estimate.low, estimate.high]),
                _ => {
                    values.void =
                        values.void.or_else(|| cell.flags.iter().map(|flag| flag.kind).find(|kind| kind.voids()))
                }
            }
        }
    }
    let mut known = dictionary.known.lock().unwrap_or_else(PoisonError::into_inner);
    let mut of_node = |own: HashMap<Of, Values>| {
        let mut numbers: Vec<Number> = Vec::with_capacity(own.len());
        for (of, values) in own {
            let least = if of.way == Way::Loopback { 1 } else { PARTNERS };
            let number = if values.known.len() >= least {
                (usual(values.known), None)
            } else if values.known.is_empty() && values.tried >= least {
                (None, values.void)
            } else {
                continue;
            };
            let mut key = DefaultHasher::new();
            ("between nodes", of).hash(&mut key);
            let key = key.finish();
            known.entry(key).or_insert_with(|| what(of));
            numbers.push(Number::new(key, number.0, number.1));
        }
        numbers.sort_by_key(|number| number.key);
        numbers
    };
    all.into_iter().map(&mut of_node).collect()
}

fn ends(cell: &Cell) -> impl Iterator<Item = (&End, Way)> {
    let step = &cell.step;
    let [from, to] = match (step.is_loopback(), step.probe.is_both_ways()) {
        (true, _) => [Some(Way::Loopback), None],
        (false, true) => [Some(Way::Both); 2],
        (false, false) => [Some(Way::Sent), Some(Way::Received)],
    };
    [(&step.from, from), (&step.to, to)].into_iter().filter_map(|(end, way)| Some((end, way?)))
}

/// The value that is bad only where nearly all are, in GB/s.
fn usual(mut values: Vec<[f64; 3]>) -> Option<[f64; 3]> {
    values.sort_by(|[a, ..], [b, ..]| a.total_cmp(b));
    let at = (blame::NEARLY_ALL * values.len() as f64).ceil() as usize;
    values.get(at.saturating_sub(1)).map(|value| value.map(|rate| rate * 1e-9))
}

fn what(of: Of) -> What {
    let Of { transport, probe, gpus, nic, way } = of;
    let memory = if gpus && transport != Transport::Nccl { " of GPU memory" } else { "" };
    let quantity = if probe == Probe::SendReceive { Quantity::BusBandwidth } else { Quantity::Bandwidth };
    let family = format!("{transport} {probe}{memory}");
    let part = nic.map_or_else(String::new, |nic| format!("{nic}, "));
    // what never leaves a host is as fast as its CPU runs TCP
    let by_cpu = transport == Transport::Tcp && way == Way::Loopback;
    What {
        quantity,
        unit: Unit::GigabytesPerSecond,
        words: format!("{part}{}", way.name()),
        gpus: nic.into_iter().map(str::to_owned).collect(),
        set: false,
        one_way: false,
        by_cpu,
        class: format!("between nodes: {family}, {}", way.name()),
        column: Column {
            name: format!("between nodes: {family}, {}", way.name()),
            family: "between nodes".to_owned(),
            method: family.clone(),
            class: way.name().to_owned(),
        },
        test: family,
    }
}
