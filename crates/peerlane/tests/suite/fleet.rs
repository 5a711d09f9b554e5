//! Many machines of a kind, a few of them sick: all found, none falsely; and one machine against its earlier self.

#[path = "../../examples/fleet/make.rs"]
pub(crate) mod make;

use make::Maker;
use peerlane::case::Case;
use peerlane::catalogue::Parts;
use peerlane::check::{Context, Finding, FindingKind, Settings, Severity, check};
use peerlane::comparison::Comparison;
use peerlane::counter::ErrorCounter;
use peerlane::fault::Fault;
use peerlane::fleet::{Dictionary, Node, Records, against, compare, judge};
use peerlane::model::Model;
use peerlane::run::{Run, unsealed};
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
    assert_eq!((fleet.records, fleet.kinds.len(), fleet.kinds[0].machines), (60, 1, 60));
    let mut found: Vec<&str> = fleet.outliers.iter().map(|odd| odd.machine.as_str()).collect();
    found.sort_unstable();
    let sick: Vec<String> = (0..60).filter(|n| is_sick(*n)).map(|n| format!("node{n:02}")).collect();
    assert_eq!(found, sick, "{:#?}", fleet.outliers);
    // GPU2 and GPU3 hang in the third of them
    let hung = fleet.outliers.iter().find(|odd| odd.machine == "node23").unwrap();
    assert_eq!((hung.finding.severity, join(&hung.finding.subjects, " ")), (Severity::Error, "GPU2-GPU3".to_owned()));
    assert!(hung.why.contains("hung"), "{}", hung.why);
}

#[test]
fn other_machines_are_another_kind_and_few_are_not_compared() {
    let dictionary = Dictionary::default();
    let read = |system: &str, seed: u64| {
        let text = Maker::new(system).unwrap().run(&format!("n{seed}"), seed, None);
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

/// The verdicts: machine, rule, subjects, severity.
fn verdicts(nodes: &[Node], dictionary: &Dictionary) -> Vec<(String, String, String, Severity)> {
    let fleet = compare(nodes, dictionary, &Settings::default());
    let of = |o: &peerlane::fleet::Outlier| {
        (o.machine.clone(), o.finding.rule.clone(), join(&o.finding.subjects, " "), o.finding.severity)
    };
    let mut all: Vec<_> = fleet.outliers.iter().map(of).collect();
    all.sort();
    all
}

#[test]
fn order_copies_and_further_sound_machines_change_no_verdict() {
    let maker = Maker::new("h200x4-vm").unwrap();
    let dictionary = Dictionary::default();
    let node = |n: usize| {
        let name = format!("node{n:02}");
        let text = maker.run(&name, n as u64, (n % 8 == 5).then(|| maker.sickness(n / 8)));
        Node::read(&text, &format!("{name}.json"), &dictionary).unwrap()
    };
    let nodes: Vec<Node> = (0..24).map(node).collect();
    let expected = verdicts(&nodes, &dictionary);
    assert_eq!(expected.len(), 3, "{expected:?}");
    for seed in 1..6 {
        let mut shuffled = nodes.clone();
        shuffled.sort_by_key(|node| {
            node.file
                .bytes()
                .fold(seed, |sum: u64, b| sum.wrapping_mul(6_364_136_223_846_793_005).rotate_left(17) ^ u64::from(b))
        });
        shuffled.extend(nodes.iter().skip(seed as usize).step_by(3).cloned());
        assert_eq!(verdicts(&shuffled, &dictionary), expected);
    }
    let mut more = nodes.clone();
    for n in [30, 31, 32] {
        more.push(node(n));
        assert_eq!(verdicts(&more, &dictionary), expected, "with a sound machine more");
    }
}

#[test]
fn a_machine_that_was_slow_before_shows_it_and_a_few_runs_accuse_nobody() {
    let maker = Maker::new("exxact-devbox").unwrap();
    let dictionary = Dictionary::default();
    let read = |name: &str, seed: u64, at: u64, sick: bool| {
        let slow = Fault::Throttle { gpu: "GPU2".to_owned(), factor: 0.6 };
        let text =
            unsealed(&maker.run(name, seed, sick.then_some(slow))).replace("\"began\":0", &format!("\"began\":{at}"));
        Node::read(&text, &format!("{name}-{at}.json"), &dictionary).unwrap()
    };
    // four runs of one machine
    let alone: Vec<Node> = (1..5).map(|at| read("a", at, at, false)).collect();
    let fleet = compare(&alone, &dictionary, &Settings::default());
    assert_eq!((fleet.machines.len(), fleet.machines[0].records, fleet.outliers.len()), (1, 4, 0));
    // and a last one that is slow
    let mut drifted = alone.clone();
    drifted.push(read("a", 9, 9, true));
    let fleet = compare(&drifted, &dictionary, &Settings::default());
    assert_eq!(fleet.outliers.len(), 1, "{:#?}", fleet.outliers);
    let worse = &fleet.outliers[0];
    assert_eq!(
        (worse.finding.rule.as_str(), join(&worse.finding.subjects, " ").as_str()),
        ("worse-than-before", "GPU2")
    );
    let figures = worse.worst.unwrap();
    assert!(figures.before > Some(figures.measured), "{worse:?}");
    // among peers one that is slow in each of three records
    let mut peers: Vec<Node> = (0..12).map(|n| read(&format!("n{n}"), 20 + n, 1, false)).collect();
    peers.extend((1..4).map(|at| read("slow", 40 + at, at, true)));
    let fleet = compare(&peers, &dictionary, &Settings::default());
    let found: Vec<_> = fleet.outliers.iter().map(|o| (o.machine.as_str(), o.repeats)).collect();
    assert_eq!(found, [("slow", 3)], "{:#?}", fleet.outliers);
}

#[test]
fn what_check_finds_in_a_record_fleet_finds_too() {
    let maker = Maker::new("h200x4-vm").unwrap();
    let dictionary = Dictionary::default();
    let errors = Fault::Errors { gpu: "GPU3".to_owned(), counter: ErrorCounter::NvlinkReplay, per_gb: 50.0 };
    // rates show nothing of errors
    let sick = |n: usize| if n == 0 { Some(errors.clone()) } else { (n % 6 == 5).then(|| maker.sickness(n / 6)) };
    let texts: Vec<String> = (0..36).map(|n| maker.run(&format!("node{n:02}"), n as u64, sick(n))).collect();
    let read = |(n, text): (usize, &String)| Node::read(text, &format!("{n}"), &dictionary).unwrap();
    let nodes: Vec<Node> = texts.iter().enumerate().map(read).collect();
    let again = |node: &Node| {
        let run = Run::from_json(&texts[node.file.parse::<usize>().unwrap()]).ok()?;
        Case::of_run(run, &node.file).ok()
    };
    let (settings, again) = (Settings::default(), Some(&again as _));
    let fleet = judge(
        &Records { nodes: &nodes, baseline: &[], dictionary: &dictionary, settings: &settings, again },
        Vec::new(),
    );
    let mut checked = 0;
    for (n, text) in texts.iter().enumerate() {
        let case = Case::of_run(Run::from_json(text).unwrap(), "run.json").unwrap();
        let model = Model::new(&case.machine, Parts::embedded());
        let comparison = Comparison::of(&model);
        let is_fault = |f: &Finding| f.kind == FindingKind::Fault && f.severity >= Severity::Warning;
        let alone: Vec<Finding> = check(&Context::of(&case, &comparison)).into_iter().filter(is_fault).collect();
        let here: Vec<_> = fleet.outliers.iter().filter(|o| o.machine == format!("node{n:02}")).collect();
        for finding in &alone {
            let named = |o: &&&peerlane::fleet::Outlier| {
                o.finding.rule == finding.rule || o.why.contains(&format!("[{}]", finding.rule))
            };
            assert!(here.iter().any(|o| named(&o)), "node{n:02}: {} is missing in {here:#?}", finding.rule);
            checked += 1;
        }
        for outlier in here.iter().filter(|o| o.finding.rule != "outlier") {
            assert!(
                alone.iter().any(|f| f.rule == outlier.finding.rule),
                "node{n:02}: check does not find {}",
                outlier.finding.rule
            );
        }
        assert_eq!(here.is_empty(), sick(n).is_none(), "node{n:02}: {here:#?}");
    }
    assert!(checked >= 7, "{checked}");
}
