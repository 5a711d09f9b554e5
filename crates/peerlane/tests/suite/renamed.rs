//! What a machine's GPUs are called changes no finding: names with hyphens, dots and slashes, and bare numbers.

use peerlane::case::Case;
use peerlane::catalogue::{Parts, read_system, system_names, system_text};
use peerlane::check::{Context, Finding, check};
use peerlane::comparison::Comparison;
use peerlane::fabric::NodeKind;
use peerlane::fault::{Fault, Planted};
use peerlane::machine::Machine;
use peerlane::measure::execute;
use peerlane::model::Model;
use peerlane::plan::{Plan, Scope, Selection};
use peerlane::run::{Run, Subject};
use peerlane::simulated_machine::SimulatedMachine;

/// How GPU N is called, and whether the names count up, so that three of them in a row are printed as a range.
type Scheme = (fn(usize) -> String, bool);

const SCHEMES: [Scheme; 4] = [
    (|n| format!("gpu-{n}"), true),
    (|n| n.to_string(), true),
    (|n| format!("rack.3/b-{n}"), true),
    // b to y, bb to yb, …
    (|n| format!("a.{}{}", char::from(b'b' + (n % 24) as u8), "b".repeat(n / 24)), false),
];

/// The text with another name in place of each `GPU7`.
fn renamed(text: &str, name: fn(usize) -> String) -> String {
    let mut parts = text.split("GPU");
    let mut fresh = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        match part[..digits].parse() {
            Ok(number) => fresh.push_str(&name(number)),
            Err(_) => fresh.push_str(&format!("GPU{}", &part[..digits])),
        }
        fresh.push_str(&part[digits..]);
    }
    fresh
}

/// A system file with its GPUs renamed. `nvidia-smi topo -m` prints its own names: the matrix of a topology keeps them.
fn renamed_system(text: &str, name: fn(usize) -> String) -> String {
    let mut topology = false;
    let mut fresh = String::new();
    for line in text.lines() {
        topology = if line.starts_with('[') { line == "[topology]" } else { topology };
        let line = if topology { line.to_owned() } else { renamed(line, name) };
        // a name before `=` is a key, in which only letters, digits and hyphens may go without quotes
        fresh.push_str(&match line.split_once(" = ") {
            Some((key, rest)) if key.contains(['.', '/']) && !key.contains('"') => format!("\"{key}\" = {rest}\n"),
            _ => line + "\n",
        });
    }
    fresh
}

/// A machine read from the text of a system file, with the names of its stated classes.
fn read(text: &str, system: &str, name: fn(usize) -> String) -> Machine {
    let mut machine = read_system(text, system).unwrap_or_else(|e| panic!("{system}: {e}\n{text}"));
    if let Some((classes, _)) = &mut machine.stated_classes {
        classes.rows.iter_mut().chain(&mut classes.cols).for_each(|n| *n = renamed(n, name));
    }
    machine
}

fn findings(case: &Case) -> Vec<Finding> {
    let model = Model::new(&case.machine, Parts::embedded());
    check(&Context::of(case, &Comparison::of(&model)))
}

/// The finding as it should be on renamed GPUs.
fn expected(finding: &Finding, name: fn(usize) -> String) -> String {
    renamed(&shown(finding, true), name)
}

/// What must not change: rule, kind, severity, certainty, cost and subjects; and in words what is found.
fn shown(finding: &Finding, words: bool) -> String {
    let Finding { rule, kind, severity, certainty, subjects, cost, .. } = finding;
    let subjects: Vec<String> = subjects.iter().map(|s| format!("{s} {:?}", s.nodes())).collect();
    let cost = cost.map(|c| format!("{:.3}", c.share));
    let mut text = format!("{rule} {kind:?} {severity:?} {certainty:?} {cost:?} {}", subjects.join(" | "));
    if words {
        text.push_str(&format!(
            "\n{}\n{}\n{}\n{}",
            finding.summary, finding.expected, finding.measured, finding.confirm
        ));
    }
    text
}

/// The record of a machine of few GPUs, of which one is throttled and a pair of others hangs.
fn measured(machine: &Machine, text: &str, system: &str) -> Option<Run> {
    let gpus: Vec<String> =
        machine.fabric.of_kind(NodeKind::Gpu).map(|id| machine.fabric.node(id).name.clone()).collect();
    if !(2..=4).contains(&gpus.len()) {
        return None;
    }
    let mut plan = Plan::of(machine, Scope::Quick, &Selection::default(), Scope::Quick.method(gpus.len())).ok()?;
    plan.rounds = plan.rounds.concat().into_iter().map(|step| vec![step]).collect();
    let mut faults = vec![Fault::Throttle { gpu: gpus[1].clone(), factor: 0.5 }];
    if let [first, .., last] = gpus.as_slice()
        && gpus.len() > 2
    {
        faults.push(Fault::Hang { pair: [first.clone(), last.clone()] });
    }
    let settings = Planted { noise: 0.0, seed: 1, faults };
    let subject = Subject {
        name: machine.name.clone(),
        target: system.to_owned(),
        system: Some(text.to_owned()),
        evidence: Vec::new(),
    };
    let mut run = Run::new(machine, subject, plan.clone());
    let mut done = run.steps_done();
    loop {
        let mut executor =
            SimulatedMachine::new(machine, Parts::embedded(), &settings).impatient().taking_over(done.len());
        let ended = execute(&plan, &mut executor, &done, &mut |event| run.apply(event));
        let now = run.steps_done();
        if ended.is_ok() || now.len() == done.len() {
            break;
        }
        done = now;
    }
    run.complete = true;
    Some(run)
}

fn compare(system: &str, name: fn(usize) -> String, counts: bool, original: &[Finding], fresh: &[Finding]) {
    let key = |f: &Finding| f.rule.clone();
    assert_eq!(
        original.iter().map(key).collect::<Vec<_>>(),
        fresh.iter().map(key).collect::<Vec<_>>(),
        "{system} with {}:\n{original:#?}\n{fresh:#?}",
        name(0)
    );
    for (before, after) in original.iter().zip(fresh) {
        if counts {
            assert_eq!(shown(after, true), expected(before, name), "{system} with {}", name(0));
        } else {
            assert_eq!(shown(after, false), renamed(&shown(before, false), name), "{system} with {}", name(0));
        }
    }
}

#[test]
fn findings_do_not_hang_on_names() {
    let (mut found, mut runs) = (0, 0);
    for system in system_names() {
        let text = system_text(system).unwrap();
        let original = read(text, system, |n| format!("GPU{n}"));
        let before = findings(&Case::from(original.clone()));
        let run = measured(&original, text, system).map(|run| findings(&Case::of_run(run, system).unwrap()));
        for (name, counts) in SCHEMES {
            let text = renamed_system(text, name);
            let machine = read(&text, system, name);
            compare(system, name, counts, &before, &findings(&Case::from(machine.clone())));
            found += before.len();
            if let Some(run) = &run {
                let fresh = measured(&machine, &text, system).unwrap();
                compare(system, name, counts, run, &findings(&Case::of_run(fresh, system).unwrap()));
                runs += run.len();
            }
        }
    }
    assert!(found > 100 && runs > 40, "{found} findings, {runs} of runs");
}
