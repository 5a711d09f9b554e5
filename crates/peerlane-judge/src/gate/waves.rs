//! What to measure, that which shows most per second first.

use std::collections::BTreeSet;

use peerlane_machine::machine::Machine;
use peerlane_machine::units::Seconds;
use peerlane_measure::plan::{Method, Plan, Scope, Selection, Step, Test, Work};

/// Steps that are measured together before the record is judged again.
#[derive(Clone, Debug, PartialEq)]
pub struct Wave {
    /// What it shows.
    pub name: &'static str,
    /// Its steps by round.
    pub rounds: Vec<Vec<Step>>,
}

impl Wave {
    /// Number of its steps.
    pub fn steps(&self) -> usize {
        self.rounds.iter().map(Vec::len).sum()
    }
}

/// The waves of a machine. The first touches each GPU's links to the host and to its peers, in both directions: few steps,
/// and hardly a fault of a link or GPU that none of them shows. The other pairs follow, then both ways at once, latencies
/// and GPU memory.
pub fn waves(machine: &Machine) -> Vec<Wave> {
    let rounds = |test| rounds(machine, test);
    let (first, others) = touching(rounds(Test::Pairs));
    let mut links = rounds(Test::Host);
    links.extend(first);
    let all = [
        Wave { name: "links", rounds: links },
        Wave { name: "pairs", rounds: others },
        Wave { name: "both ways", rounds: rounds(Test::PairsBoth) },
        Wave { name: "latencies", rounds: rounds(Test::CopyLatency) },
        Wave { name: "GPU memory", rounds: rounds(Test::Local) },
    ];
    all.into_iter().filter(|wave| !wave.rounds.is_empty()).collect()
}

/// How a machine of so many GPUs is measured by the gate: as by `measure --quick`, in as much time as the caller gives.
pub(super) fn method(gpus: usize) -> Method {
    Method { patience: PATIENCE, ..Scope::Quick.method(gpus) }
}

/// Time after which a step counts as hung; one takes some milliseconds.
const PATIENCE: Seconds = Seconds::new(1.5);

fn rounds(machine: &Machine, test: Test) -> Vec<Vec<Step>> {
    let selection = Selection { tests: vec![test], pairs: Vec::new(), nics: None };
    Plan::of(machine, Scope::Quick, &selection, method(0)).map(|plan| plan.rounds).unwrap_or_default()
}

/// Divides rounds of pairs: those that together have each GPU as a source and as a destination, and the rest.
fn touching(rounds: Vec<Vec<Step>>) -> (Vec<Vec<Step>>, Vec<Vec<Step>>) {
    let ends = |round: &Vec<Step>| -> BTreeSet<(String, bool)> {
        let transfers = round.iter().filter_map(|step| match &step.work {
            Work::Transfers(transfers) => Some(transfers),
            _ => None,
        });
        transfers.flatten().flat_map(|t| [(t.source.clone(), true), (t.destination.clone(), false)]).collect()
    };
    let mut open: BTreeSet<(String, bool)> = rounds.iter().flat_map(ends).collect();
    let mut rounds: Vec<Option<Vec<Step>>> = rounds.into_iter().map(Some).collect();
    let mut first = Vec::new();
    while !open.is_empty() {
        let news = |round: &Option<Vec<Step>>| round.as_ref().map_or(0, |r| ends(r).intersection(&open).count());
        // of equals the earliest
        let best = rounds.iter_mut().rev().max_by_key(|round| news(round)).and_then(Option::take);
        let Some(best) = best else { break };
        open = &open - &ends(&best);
        first.push(best);
    }
    (first, rounds.into_iter().flatten().collect())
}
