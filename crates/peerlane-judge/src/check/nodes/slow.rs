//! Findings on what is slow: the part at fault, how much is left, what its loopback tells, and what to do.

use std::collections::{BTreeMap, BTreeSet};

use super::alone::{Alone, MANY, is_a_distance, shared};
use super::everywhere;
use super::peers::{by_peers, usual_of_peers};
use super::prelude::*;
use super::words::{LOOK_BESIDE_GPU, transport};
use crate::check::nic_gpu_slow;
use peerlane_design::site::since;
use peerlane_measure::nodes::{Compared, Direction, End, NodesRun, Place, Probe, Step, Suspect, Transport, suspects};

pub(in crate::check) const SLOW_NODE: Rule =
    Rule::new("slow-node", Look::Nodes(|view| raised(view.slow("slow-node")))).explains("packet-loss slow-all-reduce");

pub(in crate::check) const SLOW_NIC: Rule =
    Rule::new("slow-nic", Look::Nodes(|view| raised(view.slow("slow-nic")))).explains("packet-loss slow-all-reduce");

pub(in crate::check) const SLOW_SWITCH: Rule =
    Rule::new("slow-switch", Look::Nodes(|view| raised(view.slow("slow-switch"))))
        .explains("slow-all-reduce")
        .watched();

pub(in crate::check) const LATE_BETWEEN_NODES: Rule =
    Rule::new("late-between-nodes", Look::Nodes(|view| raised(view.slow("late-between-nodes")))).watched();

pub(in crate::check) const SLOW_BETWEEN_NODES: Rule =
    Rule::new("slow-between-nodes", Look::Nodes(slow_between_nodes)).explains("packet-loss slow-all-reduce").watched();

/// Slow paths, and where no single one is, all of a rail.
fn slow_between_nodes(view: &View) -> Vec<Raised> {
    let mut found: Vec<Finding> = view.slow(SLOW_BETWEEN_NODES.id).collect();
    let known = view.found.iter().map(|raised| &raised.finding).chain(&found);
    let all = everywhere::with_hosts(view.run, view.joined, known, [&SLOW_BETWEEN_NODES, &SLOW_NODE]);
    found.extend(all);
    raised(found)
}

/// A suspect with what its values are.
struct Slow {
    place: Place,
    direction: Direction,
    transport: Transport,
    probe: Probe,
    latency: bool,
    /// Whether of GPU memory.
    gpus: bool,
    /// Whether host memory has a value beside each of it.
    beside_host: bool,
    left: f64,
    /// Medians of what it explains.
    measured: f64,
    usual: f64,
    values: usize,
    /// Whether `usual` is what the cluster's description gives, not what peers reach.
    expected: bool,
}

impl Slow {
    /// Of two nodes each explains the values of the other one: it is the one whose loopback is slow, too, or else what is between
    /// them for all that is known. `step` is one of those that it explains.
    fn of_two_nodes(self, joined: &[ComparedStep], step: &Step) -> Slow {
        let (node, nic) = match &self.place {
            Place::Node(node) => (*node, None),
            Place::Nic(node, nic) => (*node, Some(nic.clone())),
            Place::Path(..) | Place::Switch(_) => return self,
        };
        let other = 1 - node.min(1);
        let is_slow = |node: usize| {
            let key = nic.clone().map_or(Key::Node(node, Direction::Both), |nic| Key::Nic(node, nic, Direction::Both));
            loopback(joined, &key) == Loopback::Slow
        };
        match (is_slow(node), is_slow(other)) {
            (true, _) => self,
            (false, true) => {
                let direction = match self.direction {
                    Direction::Both => Direction::Both,
                    Direction::Out => Direction::In,
                    Direction::In => Direction::Out,
                };
                Slow { place: nic.map_or(Place::Node(other), |nic| Place::Nic(other, nic)), direction, ..self }
            }
            (false, false) => {
                let direction = if self.direction == Direction::Both { Direction::Both } else { Direction::Out };
                Slow { place: Place::Path(step.from.clone(), step.to.clone()), direction, ..self }
            }
        }
    }
}

/// What is slow, by part: of one part all transports, and its latencies, together.
/// `source` states what values are compared with where nothing is predicted; what NCCL reaches with the nodes of `explained` has its
/// cause elsewhere.
pub(super) fn slow(
    run: &NodesRun,
    joined: &[ComparedStep],
    ends: Option<&Site>,
    source: &str,
    explained: &BTreeSet<usize>,
) -> Vec<Finding> {
    let mut found: Vec<Slow> = Vec::new();
    let kind = |j: &ComparedStep| (j.cell.step.transport, j.cell.step.probe, j.cell.step.is_of_gpus());
    let kinds: BTreeSet<(Transport, Probe, bool)> = joined.iter().map(kind).collect();
    let hosts = HostRates::of(joined.iter().map(|j| j.cell));
    for (transport, probe, gpus) in kinds {
        let of_kind = |j: &&ComparedStep| kind(j) == (transport, probe, gpus);
        let by_verbs = gpus && transport == Transport::Verbs && run.nodes.len() > 2;
        let usual = if by_verbs {
            usual_of_peers(&hosts, run.nodes.len(), ends, joined.iter().filter(of_kind))
        } else {
            BTreeMap::new()
        };
        // what is predicted of both ends, or of the network, and not only of ports
        let mut predicted = Vec::new();
        let values: Vec<Compared> = joined
            .iter()
            .filter(of_kind)
            .filter_map(|j| {
                let (expected, through) =
                    j.expected.as_ref().map(|e| (j.against(), e.binding.through.clone())).unwrap_or_default();
                // two nodes have no peers
                if expected.is_none() && run.nodes.len() <= 2 {
                    return None;
                }
                let mut compared = j.cell.compared(expected, through)?;
                let of_peers = if by_verbs { by_peers(&hosts, j, ends, &usual) } else { None };
                if of_peers.is_some() {
                    (compared.expected, compared.beside) = (None, of_peers);
                }
                predicted.push(of_peers.is_none() && j.expected.as_ref().is_some_and(|e| e.binding.is_known()));
                Some(compared)
            })
            .collect();
        let is_known = |suspect: &Suspect| {
            // other pairs may load the links of a path, other than those beside which host memory was measured there
            let beside = |i: &usize| hosts.is_of_pair(values[*i].step);
            let of_path = matches!(suspect.place, Place::Path(..));
            let by_distance = || probe == Probe::Latency && suspect.values.iter().all(|i| is_a_distance(&values, *i));
            !of_path || (!by_verbs || suspect.values.iter().all(beside)) && !by_distance()
        };
        found.extend(suspects(&values, run.nodes.len()).into_iter().filter(is_known).map(|suspect| {
            let median = |mut of: Vec<f64>| {
                of.sort_by(f64::total_cmp);
                of.get(of.len() / 2).copied().unwrap_or(0.0)
            };
            let measured = median(suspect.values.iter().map(|i| values[*i].value).collect());
            let usual = if probe == Probe::Latency { measured * suspect.left } else { measured / suspect.left };
            let step = suspect.values.first().map(|i| values[*i].step);
            let slow = Slow {
                transport,
                probe,
                latency: probe == Probe::Latency,
                gpus,
                beside_host: suspect.values.iter().all(|i| hosts.get(values[*i].step).is_some()),
                left: suspect.left,
                measured,
                usual,
                values: suspect.values.len(),
                expected: suspect.values.iter().all(|i| predicted[*i]),
                place: suspect.place,
                direction: suspect.direction,
            };
            match step.filter(|_| run.nodes.len() == 2) {
                Some(step) => slow.of_two_nodes(joined, step),
                None => slow,
            }
        }));
    }
    let mut groups: BTreeMap<Key, Vec<Slow>> = BTreeMap::new();
    let nodes: BTreeSet<usize> =
        found.iter().filter_map(|slow| if let Place::Node(node) = slow.place { Some(node) } else { None }).collect();
    for slow in found {
        groups.entry(Key::of(run, &slow, &nodes)).or_default().push(slow);
    }
    let by_nccl = |group: &[Slow]| group.iter().all(|slow| slow.transport == Transport::Nccl);
    let has_cause = |key: &Key, group: &[Slow]| match key {
        Key::Node(node, _) => explained.contains(node) && by_nccl(group),
        Key::Pair(a, b) => (explained.contains(a) || explained.contains(b)) && by_nccl(group),
        Key::Switch(_) | Key::Nic(..) => false,
    };
    groups.retain(|key, group| !has_cause(key, group));
    let is_path = |key: &Key, group: &[Slow]| {
        // a longer route shares more links, and its messages take longer, too
        let is_rate = |slow: &Slow| !slow.latency;
        matches!(key, Key::Pair(..))
            && group.iter().any(is_rate)
            && !group.iter().filter(|slow| is_rate(slow)).any(|slow| slow.expected)
    };
    let (paths, others): (Vec<_>, Vec<_>) = groups.into_iter().partition(|(key, group)| is_path(key, group));
    let mut findings: Vec<Finding> =
        others.iter().map(|(key, group)| finding(run, joined, key, group, source)).collect();
    let alone = Alone::of(run);
    let (mut shares, by_themselves): (Vec<_>, Vec<_>) =
        paths.iter().partition(|(key, _)| matches!(key, Key::Pair(a, b) if alone.is_shared((*a, *b))));
    let finding = |(key, group): &(Key, Vec<Slow>)| finding(run, joined, key, group, source);
    if by_themselves.len() > MANY {
        shares.extend(by_themselves);
    } else {
        findings.extend(by_themselves.into_iter().map(finding));
    }
    if !shares.is_empty() {
        findings.push(shared(&SLOW_BETWEEN_NODES, &shares.into_iter().map(finding).collect::<Vec<_>>()));
    }
    findings
}

/// Parts of the later record that are slower than in the earlier one; `source` names the earlier one.
pub(crate) fn slower_than(before: &NodesRun, after: &NodesRun, source: &str) -> Vec<Finding> {
    let steps: Vec<ComparedStep> = since(before, after).into_iter().map(|(step, _)| step).collect();
    slow(after, &steps, None, source, &BTreeSet::new())
}

/// What is one finding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Switch(String),
    Node(usize, Direction),
    Nic(usize, String, Direction),
    Pair(usize, usize),
}

impl Key {
    /// Of a suspect; the only NIC of a node that is slow by TCP, too, is the node.
    fn of(run: &NodesRun, slow: &Slow, nodes: &BTreeSet<usize>) -> Key {
        match &slow.place {
            Place::Switch(name) => Key::Switch(name.clone()),
            Place::Node(node) => Key::Node(*node, slow.direction),
            Place::Nic(node, nic) => {
                let only = run.nodes.get(*node).is_some_and(|of| of.nics.len() == 1);
                if only && nodes.contains(node) {
                    Key::Node(*node, slow.direction)
                } else {
                    Key::Nic(*node, nic.clone(), slow.direction)
                }
            }
            Place::Path(a, b) => Key::Pair(a.node.min(b.node), a.node.max(b.node)),
        }
    }
}

fn finding(run: &NodesRun, joined: &[ComparedStep], key: &Key, group: &[Slow], source: &str) -> Finding {
    let late = group.iter().all(|slow| slow.latency);
    // by the same NICs host memory is as fast as ever; of more nodes than two a pair alone is no matter of its ends
    let only_gpus = group.iter().all(|slow| slow.gpus && slow.transport == Transport::Verbs && slow.beside_host)
        && (run.nodes.len() == 2 || !matches!(key, Key::Pair(..)));
    let staged = group.iter().all(|slow| slow.probe == Probe::SendStaged);
    let worst = group.iter().filter(|slow| slow.latency == late).min_by(|a, b| a.left.total_cmp(&b.left));
    let (left, measured, usual) = worst.map_or((1.0, 0.0, 0.0), |slow| (slow.left, slow.measured, slow.usual));
    let loopback = loopback(joined, key);
    let (rule, subjects, part) = match key {
        Key::Switch(name) => {
            let part = if name.contains(" to ") { format!("the link {name}") } else { format!("switch {name}") };
            (&SLOW_SWITCH, vec![Subject::Node(name.clone())], part)
        }
        Key::Node(node, _) => (&SLOW_NODE, vec![Subject::Node(host(run, *node))], host(run, *node)),
        Key::Nic(node, nic, _) => {
            let name = format!("{}/{nic}", host(run, *node));
            (&SLOW_NIC, vec![Subject::Node(name.clone())], name)
        }
        Key::Pair(a, b) => {
            let (a, b) = (host(run, *a), host(run, *b));
            (&SLOW_BETWEEN_NODES, vec![Subject::Pair(a.clone(), b.clone())], format!("between {a} and {b}"))
        }
    };
    let rule = match (late, only_gpus) {
        (true, _) => &LATE_BETWEEN_NODES,
        (_, true) => &nic_gpu_slow::RULE,
        _ => rule,
    };
    let cause = match key {
        _ if only_gpus && staged => STAGED,
        _ if only_gpus => BESIDE_GPU,
        Key::Pair(..) if run.nodes.len() == 2 => "two nodes do not tell whether it is an end or the path",
        _ => cause(key, loopback),
    };
    let percent = format!("{:.0} %", 100.0 * left);
    let summary = match (key, late) {
        (Key::Pair(..), true) => format!("messages take {:.1} times as long {part}", 1.0 / left),
        (_, true) => format!("{part}: messages to and from it take {:.1} times as long", 1.0 / left),
        (Key::Pair(..), false) => {
            format!("{}{part}, {percent} of the rate is left{}: {cause}", ways(group), of_gpus(only_gpus))
        }
        (Key::Switch(_), false) => format!("{part}: {percent} of the rate is left to all that goes through it"),
        (Key::Node(_, direction) | Key::Nic(_, _, direction), false) => {
            let ways = match direction {
                Direction::Both => "to and from all others",
                Direction::Out => "in what it sends, and none is missing in what it receives",
                Direction::In => "in what it receives, and none is missing in what it sends",
            };
            format!("{part} has {percent} of the rate{} {ways}: {cause}", of_gpus(only_gpus))
        }
    };
    let parts: Vec<String> = group.iter().map(described).collect();
    let unit = if late { Unit::Microseconds } else { Unit::GigabytesPerSecond };
    let lost = if late { (measured - usual) * 1e6 } else { (usual - measured) / 1e9 };
    let source = if group.iter().any(|slow| slow.expected) { "predicted" } else { source };
    let certainty = if run.nodes.len() > 2 { Certainty::Likely } else { Certainty::Possible };
    let (fix, confirm) = match only_gpus {
        true if staged => {
            (LOOK_AT_COPIES.to_owned(), "`peerlane measure` on each node: copies between host and GPU".to_owned())
        }
        true => beside_gpu(run, key),
        false => advice(run, key, late, loopback),
    };
    rule.raise(FindingKind::Fault, Severity::Warning, certainty)
        .about(subjects)
        .summary(summary)
        .expected(format!("{}, {source}", quantity(late, usual)))
        .measured(parts.join("; "))
        .fix(fix)
        .confirm(confirm)
        .cost((lost > 0.0).then_some(Cost { lost, unit, share: 1.0 - left }))
        .finding
}

/// `verbs: 24.82 GB/s in 12 values`.
fn described(slow: &Slow) -> String {
    let nics = match &slow.place {
        Place::Path(End { nic: Some(nic), .. }, _) => format!(" by {nic}"),
        _ => String::new(),
    };
    let value = quantity(slow.latency, slow.measured);
    let values = if slow.values == 1 { "1 value".to_owned() } else { format!("{} values", slow.values) };
    let of = match (slow.transport, slow.probe) {
        (Transport::Nccl, _) => "",
        (_, Probe::SendStaged) => " with staged GPU memory",
        _ => of_gpus(slow.gpus),
    };
    format!("{}{nics}{of}: {value} in {values}", transport(slow.transport))
}

fn of_gpus(gpus: bool) -> &'static str {
    if gpus { " with GPU memory" } else { "" }
}

/// Why GPU memory alone is slow.
const BESIDE_GPU: &str = "with host memory it is as fast as ever, so it is what lies between the NIC and its GPU";

/// Why GPU memory is slow where it is staged, and neither directly nor with host memory.
const STAGED: &str =
    "with host memory, and directly, it is as fast as ever, so it is the GPU's copies to or from host memory";

/// What to do about it.
const LOOK_AT_COPIES: &str = "Move the GPU's card if its link is narrow (`nvidia-smi -q`), bind the NIC's memory to \
     its own NUMA node, and boot with `iommu=pt`.";

/// What to do where GPU memory alone is slow, and what would confirm it.
pub(super) fn beside_gpu(run: &NodesRun, key: &Key) -> (String, String) {
    let nodes = match key {
        Key::Node(node, _) | Key::Nic(node, ..) => host(run, *node),
        Key::Pair(a, b) => format!("{} and {}", host(run, *a), host(run, *b)),
        Key::Switch(name) => name.clone(),
    };
    (
        format!("On {nodes} {LOOK_BESIDE_GPU}"),
        format!("on {nodes}: `peerlane measure --tests nic,nic-gpu`; `lspci -vvv | grep ACSCtl`"),
    )
}

/// `from node1 to node2 only, `, where a pair is slow one way.
fn ways(group: &[Slow]) -> &'static str {
    if group.iter().all(|slow| slow.direction == Direction::Out) { "one way " } else { "" }
}

/// What the loopback of an end shows.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Loopback {
    /// As slow as what crosses the network, or nearly.
    Slow,
    /// As fast as that of others.
    Fast,
    Unknown,
}

/// Whether loopbacks of the part are slow, compared with those of others.
fn loopback(joined: &[ComparedStep], key: &Key) -> Loopback {
    let is_of = |end: &End| match key {
        Key::Node(node, _) => end.node == *node,
        Key::Nic(node, nic, _) => end.node == *node && end.nic.as_ref() == Some(nic),
        Key::Switch(_) | Key::Pair(..) => false,
    };
    let mut of: BTreeMap<Transport, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for one in joined.iter().filter(|j| j.cell.step.is_loopback()) {
        let Some(value) = one.cell.value() else { continue };
        let (own, others) = of.entry(one.cell.step.transport).or_default();
        if is_of(&one.cell.step.from) { own.push(value) } else { others.push(value) }
    }
    let median = |mut values: Vec<f64>| {
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied()
    };
    // of two transports that of the adapters counts
    let shares = of.into_iter().rev().filter_map(|(_, (own, others))| Some(median(own)? / median(others)?));
    match shares.into_iter().next() {
        Some(share) if share < 0.93 => Loopback::Slow,
        Some(_) => Loopback::Fast,
        None => Loopback::Unknown,
    }
}

fn cause(key: &Key, loopback: Loopback) -> &'static str {
    match (key, loopback) {
        (Key::Node(..), Loopback::Slow) => "its loopback is slow too, so it is the host or what its NICs share",
        (Key::Node(..), Loopback::Fast) => {
            "its loopback is as fast as that of others, so it is its way into the network"
        }
        (Key::Nic(..), Loopback::Slow) => "its loopback is slow too, so it is the NIC or its PCIe path",
        (Key::Nic(..), Loopback::Fast) => {
            "its loopback is as fast as that of others, so it is its cable or switch port"
        }
        (Key::Node(..) | Key::Nic(..), Loopback::Unknown) => "the node, its NIC or its cable",
        (Key::Pair(..) | Key::Switch(_), _) => "both ends are as fast as ever with others, so it is the path",
    }
}

/// What to do, and what would confirm it.
fn advice(run: &NodesRun, key: &Key, late: bool, loopback: Loopback) -> (String, String) {
    let name = |node: usize| host(run, node);
    match (key, loopback) {
        _ if late => (
            "Set the node as the others are: CPU frequency and idle states, interrupt moderation, NUMA node of the \
             process. For a path, compare its route through the network."
                .to_owned(),
            "`cpupower frequency-info`, `ethtool -c`, `traceroute`".to_owned(),
        ),
        (Key::Switch(name), _) => (
            format!(
                "Replace the cables of ports of {name} that run slowly or have errors, and bring links up that are \
                 down, so that others carry their load. If its ports are sound, correct its routing."
            ),
            "counters of the switch, `ibdiagnet`".to_owned(),
        ),
        (Key::Node(node, _), Loopback::Slow | Loopback::Unknown) => (
            format!(
                "Do what `peerlane check live` advises on {}: PCIe links, IOMMU, CPU clocks. If it names no \
                 cause, end other jobs there.",
                name(*node)
            ),
            format!("`ssh {} peerlane check live`", name(*node)),
        ),
        (Key::Node(node, _), Loopback::Fast) => (
            format!(
                "Correct what the NICs of {} have in common in the network: leaf switch, its uplinks, rate \
                 limits.",
                name(*node)
            ),
            "counters of the leaf switch; `ethtool -S`".to_owned(),
        ),
        (Key::Nic(node, nic, _), Loopback::Slow) => (
            format!(
                "Reseat or replace {nic} on {}. Before that, compare its PCIe link and firmware with those of \
                 another node.",
                name(*node)
            ),
            format!("`ssh {} lspci -vv`: LnkSta of {nic}; `mlxlink`", name(*node)),
        ),
        (Key::Nic(node, nic, direction), _) => {
            let one_way = match direction {
                Direction::Both => "",
                Direction::Out | Direction::In => {
                    " Loss in one direction shows in its error counters and as retransmissions at the sender."
                }
            };
            (
                format!(
                    "Replace the cable of {nic} on {}, then try another switch port. Port speed and error counters, \
                     here and at the switch, show which it is.{one_way}",
                    name(*node)
                ),
                format!("`ssh {} rdma statistic show link {nic}`, `perfquery`, `ethtool -S`", name(*node)),
            )
        }
        (Key::Pair(a, b), _) if run.nodes.len() == 2 => (
            format!(
                "Exchange the cables between {} and {}. Port speed and error counters of their NICs and at the \
                 switch show what is slow; a third node in the run shows which end it is.",
                name(*a),
                name(*b)
            ),
            "`perfquery`, `ethtool -S`, `rdma statistic show` on both hosts".to_owned(),
        ),
        (Key::Pair(a, b), _) => (
            format!(
                "Replace or relieve the slow link on the route between {} and {}: the counters of the switches \
                 on the way show it.",
                name(*a),
                name(*b)
            ),
            "`ibtracert`, counters of the switches on the way".to_owned(),
        ),
    }
}
