//! Many machines of a kind, a few of them sick: all found, none falsely; and one machine against its earlier self.

#[path = "../../examples/fleet/make.rs"]
mod make;

use make::Maker;
use peerlane::check::{Settings, Severity};
use peerlane::fault::Fault;
use peerlane::fleet::{Dictionary, Node, against, compare};
use peerlane::subject::join;

/// Every so many machines one is sick.
const EVERY: usize = 10;

#[test]
fn the_sick_are_found_and_no_others() {
    let maker = Maker::new("h200x4-vm").unwrap();
    let dictionary = Dictionary::default();
    let is_sick = |n: usize| n % EVERY == 3;
    let node = |n: usize| {
        let name = format!("node{n:02}");
        let text = maker.run(&name, n as u64, is_sick(n).then(|| maker.sickness(n / EVERY)));
        Node::read(&text, &format!("{name}.json"), &dictionary).unwrap()
    };
    let nodes: Vec<Node> = (0..60).map(node).collect();
    let fleet = compare(&nodes, &dictionary, &Settings::default());
    assert_eq!((fleet.runs, fleet.kinds.len(), fleet.kinds[0].machines), (60, 1, 60));
    let mut found: Vec<&str> = fleet.outliers.iter().map(|odd| odd.machine.as_str()).collect();
    found.sort_unstable();
    let sick: Vec<String> = (0..60).filter(|n| is_sick(*n)).map(|n| format!("node{n:02}")).collect();
    assert_eq!(found, sick, "{:#?}", fleet.outliers);
    // GPU2 and GPU3 hang in the third of them
    let hung = fleet.outliers.iter().find(|odd| odd.machine == "node23").unwrap();
    assert_eq!((hung.finding.severity, join(&hung.finding.subjects, " ")), (Severity::Error, "GPU2-GPU3".to_owned()));
    assert!(hung.finding.measured.contains("hung"), "{}", hung.finding.measured);
}

#[test]
fn other_machines_are_another_kind_and_few_are_not_compared() {
    let dictionary = Dictionary::default();
    let read = |system: &str, seed: u64| {
        let text = Maker::new(system).unwrap().run("n", seed, None);
        Node::read(&text, "n.json", &dictionary).unwrap()
    };
    let nodes = [read("h200x4-vm", 1), read("exxact-devbox", 1), read("h200x4-vm", 2)];
    let fleet = compare(&nodes, &dictionary, &Settings::default());
    let kinds: Vec<(usize, bool)> = fleet.kinds.iter().map(|k| (k.machines, k.compared)).collect();
    assert_eq!((kinds, fleet.outliers.len()), (vec![(2, false), (1, false)], 0));
    assert!(Node::read("{}", "n.json", &dictionary).is_err());
}

#[test]
fn what_changed_since_is_told_and_what_did_not_is_not() {
    let maker = Maker::new("exxact-devbox").unwrap();
    let dictionary = Dictionary::default();
    let read = |sick: Option<Fault>, file: &str| Node::read(&maker.run("n", 7, sick), file, &dictionary).unwrap();
    let (before, same) = (read(None, "before.json"), read(None, "same.json"));
    assert_eq!(against(&before, &same, &dictionary, &Settings::default()), []);
    let slow = Fault::Throttle { gpu: "GPU2".to_owned(), factor: 0.6 };
    let now = read(Some(slow), "now.json");
    let findings = against(&before, &now, &dictionary, &Settings::default());
    assert_eq!((findings.len(), join(&findings[0].subjects, " ")), (1, "GPU2".to_owned()));
    assert!(findings[0].summary.contains("worse than before by up to 4"), "{}", findings[0].summary);
    let back = against(&now, &before, &dictionary, &Settings::default());
    assert_eq!((back.len(), back[0].severity), (1, Severity::Info));
}
