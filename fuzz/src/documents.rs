//! Files that people write, and records that peerlane writes: what is read comes back when it is written.

use peerlane::case::Case;
use peerlane::catalogue::{Parts, read_design};
use peerlane::check::Settings;
use peerlane::cluster::read_cluster;
use peerlane::fleet::{Dictionary, Node, compare};
use peerlane::infer::Inference;
use peerlane::measured_cluster;
use peerlane::nodes::NodesRun;
use peerlane::nodes_check::judge;
use peerlane::run::{Partial, Run};
use peerlane::site::{Comparison, Site};

use crate::machines::{comes_back, judged};

/// More nodes than this make an input slow without making it different.
const MOST_NODES: usize = 60;

fn text(data: &[u8]) -> Option<&str> {
    std::str::from_utf8(data).ok()
}

/// A system file: it is written and read again, predicted and judged.
pub fn system(data: &[u8]) {
    let Some(Ok(design)) = text(data).map(|text| read_design(text, "input.toml")) else { return };
    if design.machine.fabric.nodes().len() <= MOST_NODES {
        comes_back(&design.machine);
        judged(&Case::from(design));
    }
}

/// A cluster file, whose nodes are one machine of the catalogue.
pub fn cluster(data: &[u8]) {
    let node = |name: &str| self::node(name);
    if let Some(text) = text(data)
        && let Ok(cluster) = read_cluster(text, "input.toml", node)
    {
        assert!(cluster.nodes > 0);
    }
}

fn node(name: &str) -> Option<peerlane::machine::Machine> {
    peerlane::catalogue::system(name)?.ok()
}

/// The description of a part.
pub fn part(data: &[u8]) {
    if let Some(text) = text(data) {
        let _ = Parts::embedded().clone().add("input.toml", text);
    }
}

/// A site's thresholds and waivers.
pub fn rules(data: &[u8]) {
    let _ = text(data).map(Settings::read);
}

/// The record of a run: written, read and written again, it is the same.
pub fn run(data: &[u8]) {
    let Some(Ok(run)) = text(data).map(Run::from_json) else { return };
    let written = run.to_json().expect("a run is JSON");
    let again = Run::from_json(&written).unwrap_or_else(|e| panic!("{e}\n{written}"));
    assert_eq!(written, again.to_json().expect("a run is JSON"));
    if let Ok(case) = Case::of_run(run, "input.json")
        && case.machine.fabric.nodes().len() <= MOST_NODES
    {
        judged(&case);
    }
}

/// The record of a run that has not ended: its whole lines count, and each is counted once.
pub fn growing_run(data: &[u8]) {
    let Some(Ok(partial)) = text(data).map(Partial::read) else { return };
    partial.run.steps_done();
    assert!(partial.unreadable <= data.iter().filter(|b| **b == b'\n').count());
    partial.run.to_json().expect("a run is JSON");
}

/// The record between nodes, whole or growing: it is judged, and comes back when it is written.
pub fn nodes_run(data: &[u8]) {
    let Some(Ok((run, _))) = text(data).map(NodesRun::read) else { return };
    let site = Site::with_network(&run, None);
    judge(&Comparison::of(&site, &run), &Settings::default(), None);
    let _ = measured_cluster::cluster(&run);
    let written = run.to_json().expect("a record is JSON");
    let (again, _) = NodesRun::read(&written).unwrap_or_else(|e| panic!("{e}\n{written}"));
    assert_eq!(written, again.to_json().expect("a record is JSON"));
}

/// Records of a fleet, one after another, divided by lines of `---`.
pub fn fleet(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let dictionary = Dictionary::default();
    let nodes: Vec<Node> = text
        .split("\n---\n")
        .take(8)
        .enumerate()
        .filter_map(|(i, record)| Node::read(record, &format!("{i}.json"), &dictionary).ok())
        .collect();
    compare(&nodes, &dictionary, &Settings::default());
}

/// An inference: it joins the machine that it is of, or says why not.
pub fn inference(data: &[u8]) {
    let Some(Ok(found)) = text(data).map(Inference::from_json) else { return };
    serde_json::to_string(&found).expect("an inference is JSON");
    let Some(Ok(machine)) = peerlane::catalogue::system("7gforce") else { return };
    let mut case = Case::from(machine);
    if case.join(found, "input.json").is_ok() {
        judged(&case);
    }
}
