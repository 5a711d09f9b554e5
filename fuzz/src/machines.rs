//! Machines that texts describe, and what is said of them.

use std::collections::BTreeSet;

use peerlane::assemble::assemble;
use peerlane::case::Case;
use peerlane::catalogue::{Parts, read_system, write_system};
use peerlane::check::{Context, check, verdict};
use peerlane::comparison::{Comparison, MachineComparison};
use peerlane::evidence::{Text, scan_text};
use peerlane::export::nccl_xml::to_nccl_xml;
use peerlane::fabric::{Fabric, NodeKind, PathClass};
use peerlane::infer::recorded;
use peerlane::machine::Machine;
use peerlane::model::Model;
use peerlane::place::{Request, Workload, place};

/// More devices than this make an input slow without making it different.
const MOST_DEVICES: usize = 40;

fn machines(data: &[u8]) -> Vec<Machine> {
    let mut all = assemble(scan_text(&Text::new("input", data)));
    all.retain(|machine| machine.fabric.devices().len() <= MOST_DEVICES);
    all.truncate(2);
    all
}

/// What is written as a system file is read again and means the same; from then on it is written the same.
pub fn round_trip(data: &[u8]) {
    machines(data).iter().for_each(comes_back);
}

/// The same of one machine.
pub(crate) fn comes_back(machine: &Machine) {
    let Ok(text) = write_system(machine) else { return };
    let again = read(&text);
    let after: BTreeSet<_> = classes(&again.fabric).into_iter().collect();
    let lost: Vec<_> = classes(&machine.fabric).into_iter().filter(|pair| !after.contains(pair)).collect();
    assert!(lost.is_empty(), "{lost:?} in\n{text}");
    // reading states what it assumes, which is written from then on
    let text = write_system(&again).expect("what was read can be written");
    assert_eq!(text, write_system(&read(&text)).expect("what was read can be written"));
}

fn read(text: &str) -> Machine {
    read_system(text, "input").unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn classes(fabric: &Fabric) -> Vec<(&str, &str, Option<PathClass>)> {
    let devices = fabric.devices();
    let pairs = devices.iter().flat_map(|a| devices.iter().map(move |b| (*a, *b)));
    pairs.map(|(a, b)| (fabric.node(a).name.as_str(), fabric.node(b).name.as_str(), fabric.class(a, b))).collect()
}

/// Predictions, findings and verdict of what a text describes, and the documents that hold them.
pub fn judge(data: &[u8]) {
    machines(data).into_iter().for_each(|machine| judged(&Case::from(machine)));
}

/// The same of one machine.
pub(crate) fn judged(case: &Case) {
    let model = Model::new(&case.machine, Parts::embedded());
    let comparison = Comparison::of(&model);
    for table in comparison.predicted() {
        for value in [&table.values, &table.low, &table.high].into_iter().flatten().flatten().flatten() {
            assert!(value.is_finite() && *value >= 0.0, "{}: {value}", table.metric().describe());
        }
    }
    let context = Context::of(case, &comparison);
    let findings = check(&context);
    verdict(&context, &findings);
    serde_json::to_string(&findings).expect("findings are JSON");
    serde_json::to_string(&MachineComparison::of(&comparison)).expect("a comparison is JSON");
    to_nccl_xml(&case.machine);
}

/// Limits that published rates betray.
pub fn limits(data: &[u8]) {
    for machine in machines(data) {
        let found = recorded(&machine, None, "input");
        serde_json::to_string(&found).expect("an inference is JSON");
    }
}

/// Where jobs should go: a job of half of the GPUs, by the workload that the first byte chooses.
pub fn placement(data: &[u8]) {
    let Some((first, text)) = data.split_first() else { return };
    for machine in machines(text) {
        let gpus = machine.fabric.of_kind(NodeKind::Gpu).count();
        let workload = Workload::ALL[usize::from(*first) % Workload::ALL.len()];
        let request = Request { jobs: vec![gpus.div_ceil(2)], workload, ..Request::default() };
        if let Ok(document) = place(&Model::new(&machine, Parts::embedded()), &request) {
            let placed: usize = document.choices.iter().map(|choice| choice.gpus.len()).sum();
            assert_eq!(placed, gpus.div_ceil(2));
        }
    }
}
