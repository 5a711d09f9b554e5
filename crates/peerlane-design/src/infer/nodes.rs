//! Which nodes share a leaf switch, and what the uplinks of these carry, from a record between nodes.
//!
//! Nothing but measured values is looked at. Latencies tell which nodes are near each other ([`Levels`]); rates of pairs that leave a
//! group, beside what their ends reach at other times, tell what the group's links to the others carry. `docs/inference.md` states
//! what that can decide.

mod uplinks;

use std::collections::{BTreeMap, BTreeSet};

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use peerlane_machine::stats::Median;
use peerlane_measure::nodes::{Levels, NodesRun, Probe, Transport};

pub use uplinks::Uplink;
use uplinks::{Flow, Flows};

/// Names the format of [`NodesInference`].
const SCHEMA: &str = "peerlane/nodes-inference/1";

/// From this factor on links to others are called oversubscribed.
const OVERSUBSCRIBED: f64 = 1.1;

/// What the values between nodes show of the network between them.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NodesInference {
    /// Names this format.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: &'static str,
    /// The record's name.
    pub name: String,
    /// How many nodes took part.
    pub nodes: usize,
    /// NIC by NIC: the same one of all nodes may have a network of its own.
    pub rails: Vec<RailInference>,
}

/// What values by one NIC of each node show.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RailInference {
    /// What moved the bytes.
    pub transport: Transport,
    /// The NIC; absent of TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nic: Option<String>,
    /// Nodes that are nearer to each other than to all others: at one leaf switch. None where latencies do not divide the nodes.
    pub groups: Vec<NodeGroup>,
    /// What remains unknown, each with what would tell.
    pub undetermined: Vec<Undetermined>,
}

/// Nodes at one leaf switch.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NodeGroup {
    /// Their hosts.
    pub nodes: Vec<String>,
    /// Pairs within it that were measured.
    pub pairs: usize,
    /// Median latency among them, in microseconds.
    pub within: f64,
    /// The same to all others.
    pub beyond: f64,
    /// What leaves it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out: Option<Uplink>,
    /// What comes in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub into: Option<Uplink>,
}

/// Something that the values cannot decide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Undetermined {
    /// What is unknown and why, in a sentence.
    pub what: String,
    /// The measurement that would decide it.
    pub would_tell: String,
}

impl RailInference {
    /// The factor by which the links between groups are oversubscribed: the median of groups whose links were full.
    pub fn oversubscription(&self) -> Option<f64> {
        let full =
            self.groups.iter().flat_map(|group| [&group.out, &group.into]).flatten().filter(|link| link.is_full());
        let times: Vec<f64> = full.map(|link| link.times).collect();
        Median::of(&times).map(|median| median.value).filter(|times| *times >= OVERSUBSCRIBED)
    }
}

/// What a record shows.
pub fn infer_nodes(run: &NodesRun) -> NodesInference {
    let mut rails: BTreeMap<(Transport, Option<&str>), ()> = BTreeMap::new();
    for cell in run.cells.iter().filter(|cell| is_of_hosts(cell)) {
        rails.insert((cell.step.transport, cell.step.from.nic.as_deref()), ());
    }
    let of = |(transport, nic): (Transport, Option<&str>)| rail(run, transport, nic);
    let rails = rails.into_keys().map(of).collect();
    NodesInference { schema: SCHEMA, name: run.name.clone(), nodes: run.nodes.len(), rails }
}

/// Whether a value is of a path between two hosts' memories.
fn is_of_hosts(cell: &peerlane_measure::nodes::Cell) -> bool {
    let step = &cell.step;
    step.transport != Transport::Nccl && !step.is_loopback() && !step.is_of_gpus() && cell.value().is_some()
}

fn rail(run: &NodesRun, transport: Transport, nic: Option<&str>) -> RailInference {
    let host = |node: &usize| run.nodes.get(*node).map_or_else(|| format!("node {node}"), |node| node.host.clone());
    let hosts = |nodes: &[usize]| nodes.iter().map(host).collect::<Vec<String>>();
    let mut pairs: Vec<(usize, usize, f64)> = Vec::new();
    let mut flows: Vec<Flow> = Vec::new();
    let of_rail = |cell: &&peerlane_measure::nodes::Cell| {
        is_of_hosts(cell) && cell.step.transport == transport && cell.step.from.nic.as_deref() == nic
    };
    let rounds = nics_of_rounds(run, transport);
    for cell in run.cells.iter().filter(of_rail) {
        let (Some(value), step) = (cell.value(), &cell.step) else { continue };
        match step.probe {
            Probe::Latency => pairs.push((step.from.node, step.to.node, value)),
            _ => flows.extend(Flow::of(cell, rounds.get(&cell.round).map_or(1, BTreeSet::len).max(1))),
        }
    }
    let flows = Flows::of(flows);
    let Some(levels) = Levels::of(&pairs) else {
        let undetermined = undivided(&pairs, &flows).into_iter().collect();
        return RailInference { transport, nic: nic.map(str::to_owned), groups: Vec::new(), undetermined };
    };
    let nearest = levels.nearest();
    let (several, alone): (Vec<&Vec<usize>>, Vec<&Vec<usize>>) = nearest.iter().partition(|group| group.len() > 1);
    let latency = |of: &dyn Fn(usize, usize) -> bool| {
        let of: Vec<f64> = pairs.iter().filter(|(a, b, _)| of(*a, *b)).map(|(.., value)| 1e6 * value).collect();
        (of.len(), Median::of(&of).map_or(0.0, |median| median.value))
    };
    let group = |nodes: &&Vec<usize>| {
        let own: BTreeSet<usize> = nodes.iter().copied().collect();
        let (count, within) = latency(&|a, b| own.contains(&a) && own.contains(&b));
        let (_, beyond) = latency(&|a, b| own.contains(&a) != own.contains(&b));
        NodeGroup {
            nodes: hosts(nodes),
            pairs: count,
            within,
            beyond,
            out: flows.uplink(&own, true),
            into: flows.uplink(&own, false),
        }
    };
    let groups: Vec<NodeGroup> = several.iter().map(group).collect();
    let mut undetermined = unmeasured(&nearest, &pairs, &hosts);
    if !alone.is_empty() {
        let nodes: Vec<String> = alone.iter().flat_map(|group| hosts(group)).collect();
        undetermined.push(Undetermined {
            what: format!(
                "whether {} share a leaf switch with any: all that they were measured with are farther than nodes at one switch are",
                listed(&nodes)
            ),
            would_tell: "measure --all-pairs".to_owned(),
        });
    }
    undetermined.extend(unloaded(&groups));
    undetermined.extend(one_at_a_time(&rounds));
    RailInference { transport, nic: nic.map(str::to_owned), groups, undetermined }
}

/// That latencies do not divide the nodes, with what rates show nevertheless.
fn undivided(pairs: &[(usize, usize, f64)], flows: &Flows) -> Option<Undetermined> {
    let latencies: Vec<f64> = pairs.iter().map(|(.., value)| 1e6 * value).collect();
    let median = Median::of(&latencies)?;
    let what = "which nodes share a switch: latencies do not divide the nodes into groups";
    let around = format!("the median is {:.2} µs", median.value);
    Some(match flows.fullest() {
        Some((slowed, all, share)) => Undetermined {
            what: format!(
                "{what} ({around}). Yet {slowed} of {all} pairs of a round reach {:.0} % of what their ends reach at other times: \
                 something that they share is full",
                100.0 * share
            ),
            would_tell: "measure --all-pairs --uplinks; a switch's own counters".to_owned(),
        },
        None => Undetermined {
            what: format!(
                "{what} ({around}), as where all are at one switch, or no two at one were measured with each other; and no round was \
                 slower than others"
            ),
            would_tell: "measure --all-pairs --uplinks".to_owned(),
        },
    })
}

/// Groups of which no pair was measured: they may be one.
fn unmeasured(
    groups: &[Vec<usize>],
    pairs: &[(usize, usize, f64)],
    hosts: &dyn Fn(&[usize]) -> Vec<String>,
) -> Vec<Undetermined> {
    let of: BTreeMap<usize, usize> =
        groups.iter().enumerate().flat_map(|(at, group)| group.iter().map(move |node| (*node, at))).collect();
    let both = |(a, b, _): &(usize, usize, f64)| Some((*of.get(a)?, *of.get(b)?));
    let known: BTreeSet<(usize, usize)> = pairs.iter().filter_map(both).map(|(a, b)| (a.min(b), a.max(b))).collect();
    let mut found = Vec::new();
    for (a, one) in groups.iter().enumerate().filter(|(_, group)| group.len() > 1) {
        for (b, other) in groups.iter().enumerate().skip(a + 1).filter(|(_, group)| group.len() > 1) {
            if !known.contains(&(a, b)) {
                found.push(Undetermined {
                    what: format!(
                        "whether {} and {} share a leaf switch: no pair of the one with the other was measured",
                        listed(&hosts(one)),
                        listed(&hosts(other))
                    ),
                    would_tell: "measure --all-pairs".to_owned(),
                });
            }
        }
    }
    found
}

/// Uplinks that no round filled, and how much of what the nodes could send they were seen to carry.
fn unloaded(groups: &[NodeGroup]) -> Option<Undetermined> {
    let idle: Vec<&NodeGroup> = groups
        .iter()
        .filter(|group| ![&group.out, &group.into].into_iter().flatten().any(Uplink::is_full))
        .filter(|group| {
            let seen = |link: &Option<Uplink>| link.as_ref().is_none_or(|link| link.times >= OVERSUBSCRIBED);
            seen(&group.out) || seen(&group.into)
        })
        .collect();
    let first = idle.first()?;
    let names: Vec<String> = idle.iter().map(|group| listed(&group.nodes)).collect();
    let seen = match &first.out {
        Some(link) => format!(
            "out of {} they were seen to carry {:.1} of the {:.1} GB/s that its nodes reach together, which filled nothing",
            listed(&first.nodes),
            link.capacity,
            link.wanted
        ),
        None => "no pair left them".to_owned(),
    };
    Some(Undetermined {
        what: format!("what the uplinks of {} carry at most: {seen}", names.join("; ")),
        would_tell: "measure --uplinks, which loads them both ways with all NICs at once".to_owned(),
    })
}

/// That no two NICs of a node were in use at once, where nodes have several.
fn one_at_a_time(nics: &BTreeMap<usize, BTreeSet<&str>>) -> Option<Undetermined> {
    let all: BTreeSet<&str> = nics.values().flatten().copied().collect();
    (all.len() > 1 && nics.values().all(|own| own.len() < 2)).then(|| Undetermined {
        what: format!(
            "whether the {} NICs of a node share the links above their switches: one of them was measured at a time, so that uplinks \
             that all of them share carried a part of what they may have to",
            all.len()
        ),
        would_tell: "measure --uplinks, which loads them both ways with all NICs at once".to_owned(),
    })
}

/// The NICs that were in use in each round of rates.
fn nics_of_rounds(run: &NodesRun, transport: Transport) -> BTreeMap<usize, BTreeSet<&str>> {
    let mut nics: BTreeMap<usize, BTreeSet<&str>> = BTreeMap::new();
    let of_transport = |cell: &&peerlane_measure::nodes::Cell| {
        is_of_hosts(cell) && cell.step.transport == transport && cell.step.probe != Probe::Latency
    };
    for cell in run.cells.iter().filter(of_transport) {
        nics.entry(cell.round).or_default().extend(cell.step.from.nic.as_deref());
    }
    nics
}

/// Names in short.
fn listed(names: &[String]) -> String {
    peerlane_machine::names::ranges(names)
}

#[cfg(test)]
mod tests;
