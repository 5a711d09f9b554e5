//! Findings that need no comparison: lost nodes, changed data, failures.

use std::collections::{BTreeMap, BTreeSet};

use super::prelude::*;
use crate::check::corrupt_data;
use peerlane_machine::blame::{Observation, explain};
use peerlane_measure::nodes::{Cell, End, Memory, NodesRun, Probe};
use peerlane_measure::run::{Flag, FlagKind};

pub(in crate::check) const LOST_NODE: Rule = Rule::new("lost-node", Look::Nodes(|view| raised(lost(view.run))));

pub(in crate::check) const FAILED_BETWEEN_NODES: Rule =
    Rule::new("failed-between-nodes", Look::Nodes(|view| raised(failed(view.run)))).never_usual();

fn finding(rule: &Rule, subjects: Vec<Subject>, summary: String) -> Finding {
    let raised = rule.raise(FindingKind::Fault, Severity::Error, Certainty::Certain);
    raised.summary(summary).about(subjects).finding
}

/// Nodes that no longer answered.
pub(crate) fn lost(run: &NodesRun) -> Vec<Finding> {
    run.lost
        .iter()
        .map(|lost| {
            let name = host(run, lost.node);
            let of = |cell: &&Cell| cell.step.nodes().any(|node| node == lost.node);
            let missing = run.cells.iter().filter(of).filter(|cell| cell.value().is_none()).count();
            Finding {
                measured: format!("{missing} steps with it have no value; all others were measured without it"),
                fix: format!(
                    "Take {name} out of the job, or measure again once you know why it stopped: its kernel log \
                     (`dmesg`), memory, and the link that its agent uses."
                ),
                confirm: format!("`ping {name}`, `ssh {name} dmesg`"),
                ..finding(&LOST_NODE, vec![Subject::Node(name.clone())], format!("{name} was lost: {}", lost.why))
            }
        })
        .collect()
}

/// Data that did not arrive as it was sent.
pub(in crate::check) fn corrupt(view: &View) -> Vec<Raised> {
    let found = grouped(view.run, &[FlagKind::Corrupt])
        .into_iter()
        .map(|Group { subjects, words, cells, first, .. }| Finding {
            measured: format!("{cells} steps, first: {first}"),
            expected: "what arrives is what was sent".to_owned(),
            fix: "Use these paths for nothing until it is understood: replace the NIC, then its cable, and look for memory errors \
                  of both hosts (`dmesg`, EDAC). Networks check what they carry, so that data mostly changes in hosts."
                .to_owned(),
            confirm: "measure again; `dmesg | grep -i -e edac -e 'hardware error'` on both hosts".to_owned(),
            ..finding(&corrupt_data::RULE, subjects, format!("data changed on its way {words}"))
        });
    raised(found)
}

/// Steps that failed although both nodes answer.
fn failed(run: &NodesRun) -> Vec<Finding> {
    grouped(run, &[FlagKind::Failed, FlagKind::Hung, FlagKind::Implausible])
        .into_iter()
        .map(|Group { subjects, words, cells, first, gpus }| Finding {
            measured: format!("{cells} steps, first: {first}"),
            fix: if gpus {
                "Remove what the reason names: it is the driver's or the adapter's, since host memory works by the \
                 same NIC. The kernel log has Xid errors and faults of the IOMMU."
            } else {
                "Remove what the reason names. Connections that fail one way only point to a firewall or to \
                 different subnets; those of one NIC to its port, its GID or its partition key."
            }
            .to_owned(),
            confirm: if gpus {
                "`dmesg`; `peerlane measure --tests nic-gpu` there"
            } else {
                "`rdma link`, `ibv_devinfo` on both hosts"
            }
            .to_owned(),
            ..finding(&FAILED_BETWEEN_NODES, subjects, format!("nothing could be measured {words}"))
        })
        .collect()
}

struct Group {
    subjects: Vec<Subject>,
    words: String,
    cells: usize,
    first: String,
    /// Whether of GPU memory by a NIC alone.
    gpus: bool,
}

/// An end with one memory, or a NIC with whatever memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct At<'a> {
    node: usize,
    nic: Option<&'a str>,
    memory: Option<&'a Memory>,
}

impl<'a> At<'a> {
    /// What an end is an example of.
    fn all(end: &'a End) -> impl Iterator<Item = Self> {
        let exact = At { node: end.node, nic: end.nic.as_deref(), memory: Some(&end.memory) };
        let nic = exact.nic.map(|_| At { memory: None, ..exact });
        nic.into_iter().chain([exact])
    }

    fn is(&self, end: &End) -> bool {
        let memory = self.memory.is_none_or(|memory| *memory == end.memory);
        (self.node, self.nic) == (end.node, end.nic.as_deref()) && memory
    }

    fn is_gpu_beside_nic(&self) -> bool {
        self.nic.is_some() && self.memory.is_some_and(Memory::is_device)
    }
}

/// The ends of a step, each with whether it receives: of NCCL's pairs both do.
fn observe(cell: &Cell, bad: bool) -> Observation<(bool, At<'_>)> {
    let is_exchange = cell.step.probe == Probe::SendReceive;
    let received = At::all(&cell.step.to).map(|at| (true, at));
    let sent = At::all(&cell.step.from).map(|at| (is_exchange, at));
    Observation { parts: received.chain(sent).collect(), affected_by: Vec::new(), class: (), bad }
}

/// Steps with a flag, by the end that explains them, else by pairs; those with a lost node are left out.
fn grouped(run: &NodesRun, kinds: &[FlagKind]) -> Vec<Group> {
    let lost: BTreeSet<usize> = run.lost.iter().map(|lost| lost.node).collect();
    let flag = |cell: &Cell| -> Option<Flag> { kinds.iter().find_map(|kind| cell.flag(*kind)).cloned() };
    let alive = |cell: &&Cell| !cell.step.nodes().any(|node| lost.contains(&node));
    let across: Vec<&Cell> = run.cells.iter().filter(alive).collect();
    // nothing of a failed all-reduce tells which of its nodes it is
    let (among, across): (Vec<&Cell>, Vec<&Cell>) = across.into_iter().partition(|cell| cell.step.is_among_many());
    let observed: Vec<_> = across.iter().map(|cell| observe(cell, flag(cell).is_some())).collect();
    let found = explain(&observed, |_, _| 2);
    let failed = |places: &[usize]| -> Vec<(&Cell, Flag)> {
        places.iter().filter_map(|at| across.get(*at)).filter_map(|cell| Some((*cell, flag(cell)?))).collect()
    };
    let mut groups = Vec::new();
    for ((receives, at), places) in &found.explained {
        let mine = failed(places);
        let Some((cell, first)) = mine.first() else { continue };
        let name = end(run, if at.is(&cell.step.to) { &cell.step.to } else { &cell.step.from });
        let memory = if at.is_gpu_beside_nic() { "GPU memory at " } else { "" };
        let words = format!("{} {memory}{name}", if *receives { "to" } else { "from" });
        groups.push(Group {
            subjects: vec![Subject::Node(name)],
            words,
            cells: mine.len(),
            first: first.detail.clone(),
            gpus: at.is_gpu_beside_nic(),
        });
    }
    let mut pairs: BTreeMap<(usize, usize), Vec<(&Cell, Flag)>> = BTreeMap::new();
    for (cell, flag) in failed(&found.left) {
        pairs.entry((cell.step.from.node, cell.step.to.node)).or_default().push((cell, flag));
    }
    if let (false, Some((_, first))) = (pairs.is_empty(), pairs.values().flatten().next()) {
        let name = |(a, b): &(usize, usize)| {
            if a == b {
                format!("within {}", host(run, *a))
            } else {
                format!("{} → {}", host(run, *a), host(run, *b))
            }
        };
        let names: Vec<String> = pairs.keys().map(name).collect();
        let subjects = pairs.keys().map(|(a, b)| {
            if a == b { Subject::Node(host(run, *a)) } else { Subject::Pair(host(run, *a), host(run, *b)) }
        });
        let cells = pairs.values().map(Vec::len).sum();
        let words = format!("between nodes: {}", listed(&names, FEW));
        groups.push(Group { subjects: subjects.collect(), words, cells, first: first.detail.clone(), gpus: false });
    }
    let among: Vec<(&Cell, Flag)> = among.into_iter().filter_map(|cell| Some((cell, flag(cell)?))).collect();
    if let Some((cell, first)) = among.first() {
        groups.push(Group {
            subjects: vec![Subject::Group {
                nodes: cell.step.nodes().map(|node| host(run, node)).collect(),
                words: format!("all-reduce of {} nodes", cell.step.nodes().count()),
            }],
            words: format!("in the all-reduce of {} nodes", cell.step.nodes().count()),
            cells: among.len(),
            first: first.detail.clone(),
            gpus: false,
        });
    }
    groups
}
