//! What machines report, beside rates or without any, as `peerlane gather` saves it. Rules judge each by its facts, and where
//! alike machines report a better value of the same fact, that counts as well.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::machines::Machine;
use super::outliers::Suspect;
use super::read::{Dictionary, Node, described, uuids};
use super::usual::FEWEST;
use super::{facts, names};
use crate::check::OUTLIER;
use crate::check::raised::Raised;
use crate::finding::{Certainty, FindingKind, Severity};
use peerlane_machine::fabric::{Interconnect, LinkKind, NodeKind};
use peerlane_machine::fact::Fact as Stated;
use peerlane_machine::machine::Machine as Described;
use peerlane_machine::machine::description::MachineDescription;
use peerlane_machine::subject::Subject;

/// This share of the machines of a kind must report the same for another value to be odd.
const MOST: f64 = 0.8;

/// Facts that a finding lists; more are counted.
const LISTED: usize = 3;

/// Something that a machine reports of a part, of which more is better.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fact {
    /// `PCIe lanes of GPU0`
    what: String,
    of: Vec<String>,
    value: f64,
}

/// What was saved of a machine.
#[derive(Clone, Copy, Debug)]
pub struct Capture<'a> {
    /// The folder or the archive.
    pub file: &'a str,
    /// Its host's name, where that was saved.
    pub host: Option<&'a str>,
    /// When it was taken, in seconds since 1970; 0 where that is unknown.
    pub taken: u64,
    /// Names and texts of what was saved.
    pub texts: &'a [(&'a str, &'a str)],
}

impl Node {
    /// A machine without rates.
    pub fn captured(machine: &Described, capture: &Capture, dictionary: &Dictionary) -> Node {
        let fabric = serde_json::to_string(&MachineDescription::of(machine)).unwrap_or_default();
        let described = described(&fabric, dictionary);
        let host = capture.host.filter(|host| !names::is_nameless(host)).map(str::to_owned);
        let (mut outlines, mut content) = (DefaultHasher::new(), DefaultHasher::new());
        for (name, text) in capture.texts {
            (name, text).hash(&mut content);
            (name, facts::outline(text)).hash(&mut outlines);
        }
        (&machine.name, &host, capture.taken).hash(&mut content);
        Node {
            named_by_host: host.is_some(),
            name: host.or_else(|| names::of_path(capture.file)).unwrap_or_else(|| machine.name.clone()),
            file: capture.file.to_owned(),
            kind: described.kind.clone(),
            products: described.products.clone(),
            gpus: described.gpus,
            driver: driver(machine),
            began: capture.taken,
            content: content.finish(),
            label: None,
            uuids: uuids(capture.texts.iter().map(|(_, text)| *text)),
            facts: outlines.finish(),
            numbers: Vec::new(),
            lacks: false,
            captured: Some(reported(machine)),
            between: None,
        }
    }
}

fn driver(machine: &Described) -> Option<String> {
    machine.evidence.iter().find_map(|e| match &e.fact {
        Stated::Gpus(gpus) => gpus.iter().find_map(|gpu| gpu.driver.clone()),
        _ => None,
    })
}

/// Lanes of GPUs and NICs, NVLinks that are up, and rates of ports. A link's generation is not compared: idle links lower it.
pub(super) fn reported(machine: &Described) -> Vec<Fact> {
    let fabric = &machine.fabric;
    let mut facts = Vec::new();
    let mut add = |what: String, of: Vec<String>, value: f64| facts.push(Fact { what, of, value });
    for link in fabric.links().iter().filter(|link| !link.assumed) {
        let ends = [fabric.node(link.a), fabric.node(link.b)];
        let own = ends.iter().find(|node| matches!(node.kind, NodeKind::Gpu | NodeKind::Nic));
        if let (LinkKind::Pcie { running, .. }, Some(own)) = (&link.kind, own) {
            let lanes = running.lanes;
            lanes
                .into_iter()
                .for_each(|n| add(format!("PCIe lanes of {}", own.name), vec![own.name.clone()], n.into()));
        }
        if let Some(links) = link.kind.bundle(Interconnect::Nvlink).and_then(|bundle| bundle.links) {
            let between = ends.map(|node| node.name.clone());
            add(format!("NVLinks between {} and {}", between[0], between[1]), between.into(), links.into());
        }
    }
    for node in fabric.nodes().iter().filter(|node| node.kind == NodeKind::Nic) {
        let rate = node.line_rate.map(|rate| 8.0 * rate.gb());
        rate.into_iter().for_each(|gb| add(format!("Gb/s of {}", node.name), vec![node.name.clone()], gb));
    }
    facts
}

/// Which machines of a kind report less than nearly all others, in their order; `own`: what each reports.
pub(super) fn fewer_than_peers(members: &[&Machine], own: &[&[Fact]]) -> Vec<Option<Suspect>> {
    let mut values: HashMap<&str, Vec<f64>> = HashMap::new();
    own.iter().copied().flatten().for_each(|fact| values.entry(&fact.what).or_default().push(fact.value));
    let usual: BTreeMap<&str, (f64, usize)> = values
        .iter()
        .filter_map(|(what, all)| {
            let count = |value: f64| all.iter().filter(|other| **other == value).count();
            let value = all.iter().copied().max_by_key(|value| count(*value))?;
            let alike = count(value);
            (alike >= FEWEST && alike as f64 >= MOST * all.len() as f64).then_some((*what, (value, alike)))
        })
        .collect();
    let fewer = |(machine, facts): (&&Machine, &&[Fact])| {
        let less: Vec<(&Fact, f64, usize)> = facts
            .iter()
            .filter_map(|fact| {
                let (value, alike) = *usual.get(fact.what.as_str())?;
                (fact.value < value).then_some((fact, value, alike))
            })
            .collect();
        suspect(machine, &less)
    };
    members.iter().zip(own).map(fewer).collect()
}

fn suspect(machine: &Machine, less: &[(&Fact, f64, usize)]) -> Option<Suspect> {
    let (first, usual, alike) = less.first()?;
    let loss = |(fact, usual, _): &(&Fact, f64, usize)| 1.0 - fact.value / usual;
    let more = if less.len() > 1 { format!("; and {} more", less.len() - 1) } else { String::new() };
    let shown: Vec<String> =
        less.iter().take(LISTED).map(|(fact, usual, _)| format!("{} {}, not {usual}", fact.what, fact.value)).collect();
    let mut nodes: Vec<String> = less.iter().flat_map(|(fact, ..)| fact.of.clone()).collect();
    nodes.sort();
    nodes.dedup();
    let raised = OUTLIER.raise(FindingKind::Fault, Severity::Warning, Certainty::Certain)
        .summary(format!("{}: {}, and {usual} on {alike} machines of its kind{more}", first.what, first.value))
        .expected(format!("{} {usual}", first.what))
        .measured(super::listed(&shown, less.len()))
        .fix("Reseat the card or the cable, and swap it with a neighbour's: the fault goes with it or stays with the slot.")
        .confirm("`peerlane measure --quick` on the machine")
        .evidence(cited(machine))
        .about(nodes.into_iter().map(Subject::Node).collect());
    Some(of_facts(raised, less.iter().map(loss).fold(0.0, f64::max), less.len()))
}

/// Which machines of a kind have an older driver than nearly all others, in their order.
pub(super) fn older_drivers(members: &[&Machine]) -> Vec<Option<Suspect>> {
    let driver = |machine: &Machine| {
        let read = machine.newest.driver.as_ref().or_else(|| machine.captured()?.driver.as_ref());
        read.map(|version| (version.clone(), version.split('.').map(|n| n.parse().unwrap_or(0)).collect::<Vec<u32>>()))
    };
    let own: Vec<_> = members.iter().map(|machine| driver(machine)).collect();
    let mut counts: BTreeMap<&Vec<u32>, usize> = BTreeMap::new();
    own.iter().flatten().for_each(|(_, version)| *counts.entry(version).or_default() += 1);
    let known: usize = counts.values().sum();
    let usual = counts.into_iter().max_by_key(|(_, many)| *many);
    let usual = usual.filter(|(_, many)| *many >= FEWEST && *many as f64 >= MOST * known as f64);
    let older = |(machine, own): (&&Machine, &Option<(String, Vec<u32>)>)| {
        let ((usual, alike), (version, parts)) = (usual?, own.as_ref()?);
        let newer: Vec<String> = usual.iter().map(u32::to_string).collect();
        let newer = newer.join(".");
        (parts < usual).then(|| {
            let raised = OUTLIER
                .raise(FindingKind::Fault, Severity::Info, Certainty::Certain)
                .summary(format!("driver {version}, and {newer} on {alike} machines of its kind"))
                .expected(format!("driver {newer}"))
                .measured(format!("driver {version}"))
                .fix("Update the driver. While an update of the fleet goes on, do nothing.")
                .confirm("`nvidia-smi`")
                .evidence(cited(machine))
                .about(vec![Subject::Machine(machine.name.clone())]);
            of_facts(raised, 0.0, 1)
        })
    };
    members.iter().zip(&own).map(older).collect()
}

fn cited(machine: &Machine) -> Vec<String> {
    let tool = if machine.newest.captured.is_some() { "gather" } else { "measure" };
    vec![format!("{} (peerlane {tool})", machine.newest.file)]
}

fn of_facts(raised: Raised, loss: f64, numbers: usize) -> Suspect {
    Suspect { finding: raised.finding, worst: None, loss, numbers, repeats: 1 }
}
