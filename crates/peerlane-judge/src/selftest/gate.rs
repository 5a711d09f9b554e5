//! How many planted faults the gate finds alone, and how often it isolates a sound machine.

use super::plants::{self, KINDS, Plant};
use super::{NOISE, catalogue};
use crate::gate::{Conclusion, judge_case, simulate};
use crate::verdict::Gate;
use peerlane_design::case::Case;
use peerlane_machine::fabric::NodeKind;
use peerlane_machine::fault::Planted;
use peerlane_machine::machine::Machine;
use peerlane_machine::units::Seconds;
use peerlane_measure::run::Subject;
use peerlane_measure::simulated_machine::Effects;

/// Counts of one kind.
#[derive(Debug, Default)]
struct Count {
    planted: usize,
    /// Isolated, with the right place.
    isolated: usize,
    /// Named as isolate, reset or monitor, with the right place.
    found: usize,
    missed: Vec<String>,
}

fn systems(names: &[&str]) -> Vec<(&'static str, &'static str, Machine)> {
    let usable = |name: &&str| names.is_empty() || names.contains(name);
    let all = catalogue::system_names().filter(usable).filter_map(|name| {
        let text = catalogue::system_text(name)?;
        let machine = catalogue::read_system(text, name).ok()?;
        let gpus = machine.fabric.of_kind(NodeKind::Gpu).count();
        // a machine whose own published text shows a fault cannot be sound
        let sound = judge_case(&Case::from(machine.clone())).outcome != Gate::Isolate;
        (plants::is_measurable(&machine) && sound && (2..=8).contains(&gpus)).then_some((name, text, machine))
    });
    all.collect()
}

fn examined(text: &str, machine: &Machine, plant: Option<&Plant>, seed: u64) -> Conclusion {
    let faults = plant.map(|plant| plant.faults.clone()).unwrap_or_default();
    let planted = Planted { noise: NOISE, seed, faults };
    let subject = Subject::of_system(&machine.name, &machine.name, text);
    simulate(machine, (machine, subject), &planted, &[(seed, Effects::REAL)], Seconds::new(20.0)).conclusion
}

/// Sound machines that were isolated, of how many.
fn false_alarms(names: &[&str], seeds: std::ops::Range<u64>) -> (Vec<String>, usize) {
    let mut alarms = Vec::new();
    let mut all = 0;
    for (name, text, machine) in systems(names) {
        for seed in seeds.clone() {
            let verdict = examined(text, &machine, None, seed);
            all += 1;
            if verdict.outcome != Gate::Ok {
                alarms.push(format!("{name} seed {seed}: {}", verdict.line("")));
            }
        }
    }
    (alarms, all)
}

/// Counts by kind, of at most `most` places each.
fn planted(names: &[&str], most: usize, seed: u64) -> Vec<(&'static str, Count)> {
    let systems = systems(names);
    let of_kind = |kind: plants::Kind| {
        let mut count = Count::default();
        let places: Vec<_> = systems.iter().map(|(name, text, m)| (*name, *text, m, plants::plants(kind, m))).collect();
        let turns = (0..plants::TURNS).flat_map(|turn| places.iter().map(move |place| (turn, place)));
        let chosen = turns.filter_map(|(turn, (name, text, m, plants))| Some((name, text, m, plants.get(turn)?)));
        for (name, text, machine, plant) in chosen.take(most) {
            let verdict = examined(text, machine, Some(plant), seed + count.planted as u64);
            let right = |one: &&crate::gate::Acted| {
                !one.finding.subjects.is_empty() && one.finding.subjects.iter().all(|s| plant.touches(s))
            };
            let named = verdict.findings.iter().any(|one| right(&one));
            count.planted += 1;
            count.found += usize::from(named);
            let isolated = verdict.findings.iter().filter(right).any(|one| one.action.takes_out());
            count.isolated += usize::from(isolated);
            if !isolated {
                count.missed.push(format!("{name}: {}: {}", plant.words, verdict.line("")));
            }
        }
        (kind.name(), count)
    };
    KINDS.into_iter().filter(|kind| kind.must_be_found()).map(of_kind).collect()
}

const SMALL: [&str; 3] = ["microway-p100-pcie", "h200x4-vm", "exxact-devbox"];

#[test]
fn planted_faults_are_isolated_and_sound_machines_are_not() {
    let (alarms, _) = false_alarms(&SMALL, 0..3);
    assert!(alarms.is_empty(), "{alarms:#?}");
    let counts = planted(&SMALL, 1, 100);
    // the gate allocates once
    let counts: Vec<_> = counts.into_iter().filter(|(kind, _)| *kind != "bimodal").collect();
    let planted: usize = counts.iter().map(|(_, count)| count.planted).sum();
    let found: usize = counts.iter().map(|(_, count)| count.found).sum();
    assert!(planted >= 10 && 10 * found >= 9 * planted, "{counts:#?}");
}

/// `PEERLANE_GATE_SEEDS=60 PEERLANE_GATE_PLACES=12 cargo test -p peerlane-judge --lib selftest::gate -- --ignored --nocapture`
#[test]
#[ignore = "takes minutes; prints what the gate finds by kind, and its false alarms"]
#[expect(clippy::print_stdout, reason = "its result is a table to read")]
fn what_the_gate_finds_alone() {
    let number = |name: &str, usual: u64| std::env::var(name).ok().and_then(|n| n.parse().ok()).unwrap_or(usual);
    let (seeds, places) = (number("PEERLANE_GATE_SEEDS", 10), number("PEERLANE_GATE_PLACES", 10));
    let mut all = Count::default();
    for (kind, count) in planted(&[], usize::try_from(places).unwrap(), 100) {
        println!("{kind:10} planted {:3}  isolated {:3}  named {:3}", count.planted, count.isolated, count.found);
        count.missed.iter().for_each(|missed| println!("    {missed}"));
        all.planted += count.planted;
        all.isolated += count.isolated;
        all.found += count.found;
    }
    println!("all        planted {:3}  isolated {:3}  named {:3}", all.planted, all.isolated, all.found);
    let (alarms, runs) = false_alarms(&[], 0..seeds);
    println!("sound runs {runs}, isolated {}", alarms.len());
    alarms.iter().for_each(|alarm| println!("    {alarm}"));
}
