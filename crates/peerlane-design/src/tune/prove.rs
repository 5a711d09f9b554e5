//! Measures suggestions with and without, interleaved, and keeps those that every pair of runs separates.
//!
//! NCCL reads its variables when it starts, so each run is a process. Runs of one block follow each other at once, and the
//! next block has them in reverse order (A B C, C B A, …), so that slow drifts cancel. The gain of a suggestion is the ratio
//! of its two runs of the same block; its median has a distribution-free 95 % interval ([`Median`]).

use std::collections::BTreeMap;

use peerlane_machine::matrix::Quantity;
use peerlane_machine::stats::Median;
use peerlane_machine::units::{Bytes, Seconds};
use peerlane_measure::plan::{Method, Plan, Size, Step, Test, Work};
use peerlane_measure::run::Cell;
use peerlane_model::collectives::Variables;

use super::candidates::Change;
use super::document::{Action, Gain, Proof, Proven, Setting, TuningDocument};
use super::{ALWAYS, may_run};

/// A gain below this is not worth a setting, however certain it is.
const WORTH: f64 = 1.02;

/// Ratios that a 95 % interval needs.
const LEAST_PAIRS: usize = 6;

/// Seconds until a process has opened the GPUs and joined the ranks: about 1 on two H200.
const START: f64 = 1.2;

/// Seconds in which a run measures one size, where its operations do not take longer.
const MEASURING: f64 = 0.2;

/// Operations that a size needs at least: to warm up, and for six samples.
const LEAST_OPERATIONS: f64 = 14.0;

/// How long a step may be silent before its process is given up.
const PATIENCE: Seconds = Seconds::new(30.0);

const GB: f64 = 1e9;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Pairs of runs of each suggestion.
    pub pairs: usize,
    /// Seconds after which no further block begins.
    pub budget: f64,
}

/// One set of variables that is run.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// All of NCCL's variables.
    pub variables: Variables,
    /// The GPUs in the order of ranks.
    pub gpus: Vec<String>,
}

/// Who runs NCCL.
pub trait Trials {
    /// What ends the measurement.
    type Error;
    /// The cells of a plan under an arm's variables, in a process of its own. `block` differs between repetitions.
    fn run(&mut self, arm: &Arm, block: usize, plan: &Plan) -> Result<Vec<Cell>, Self::Error>;
    /// Seconds since the measurement began.
    fn seconds(&mut self) -> f64;
    /// NCCL's version, when it is known.
    fn nccl(&self) -> Option<String>;
}

/// What is run, and which arms each suggestion compares.
struct Design {
    arms: Vec<Arm>,
    /// With all that have a predicted gain.
    all: usize,
    as_is: usize,
    /// For each suggestion its arms without and with it.
    pairs: Vec<Option<[usize; 2]>>,
    notes: Vec<String>,
}

impl Design {
    fn of(document: &TuningDocument) -> Design {
        let mut notes = Vec::new();
        let as_always = |s: &Setting| ALWAYS.contains(&(s.name.as_str(), s.value.as_str()));
        for setting in document.environment.iter().filter(|s| !may_run(&s.name, &s.value) && !as_always(s)) {
            notes.push(format!("{}={} was left out of every run.", setting.name, setting.value));
        }
        let as_is = Change::of(&document.environment, document.collective);
        let best = as_is.with_all(&document.suggestions);
        let order = document.suggestions.iter().find_map(|s| match &s.action {
            Action::Order { gpus, .. } => Some(gpus.clone()),
            _ => None,
        });
        let ordered = order.unwrap_or_else(|| document.gpus.clone());
        let mut design = Design { arms: Vec::new(), all: 0, as_is: 0, pairs: Vec::new(), notes };
        let arm = |change: &Change, gpus: &[String]| Arm { variables: change.variables.clone(), gpus: gpus.to_vec() };
        design.as_is = design.add(arm(&as_is, &document.gpus));
        design.all = design.add(arm(&best, &ordered));
        for suggestion in &document.suggestions {
            let pair = match (&suggestion.action, suggestion.predicted.is_empty()) {
                (Action::Bind { .. }, _) => [design.all; 2],
                (Action::Order { .. }, _) => [design.add(arm(&best, &document.gpus)), design.all],
                // what is predicted to help is in all runs but its own
                (action, false) => [design.add(arm(&best.without(action), &ordered)), design.all],
                (action, true) => [design.all, design.add(arm(&best.with(action), &ordered))],
            };
            design.pairs.push((pair[0] != pair[1]).then_some(pair));
        }
        design
    }

    /// The place of an arm, which is run once a block however many suggestions it serves.
    fn add(&mut self, arm: Arm) -> usize {
        self.arms.iter().position(|known| *known == arm).unwrap_or_else(|| {
            self.arms.push(arm);
            self.arms.len() - 1
        })
    }
}

fn plan(document: &TuningDocument, gpus: &[String]) -> Plan {
    let step = |rate: &super::document::Rate| Step {
        test: Test::Collectives,
        work: Work::Collective { operation: document.collective, gpus: gpus.to_vec() },
        size: Size::Exactly(rate.size),
    };
    let rounds: Vec<Vec<Step>> = document.as_is.iter().map(|rate| vec![step(rate)]).collect();
    let budget = Seconds::new(MEASURING * rounds.len() as f64);
    let method = Method { budget, most_samples: 24, patience: PATIENCE, ..Method::default() };
    Plan { method, rounds, skipped: Vec::new() }
}

/// About how many seconds [`prove`] will take, by the slowest predicted rates.
pub fn seconds_of(document: &TuningDocument, effort: Effort) -> f64 {
    let arms = Design::of(document).arms.len() as f64;
    let ranks = document.gpus.len();
    let of_size = |rate: &super::document::Rate| {
        let one = rate.size.0 as f64 * document.collective.bus_factor(ranks) / (rate.rate * GB);
        (LEAST_OPERATIONS * one).max(MEASURING)
    };
    arms * effort.pairs as f64 * (START + document.as_is.iter().map(of_size).sum::<f64>())
}

/// Measures the suggestions of a document and adds what was found to it.
pub fn prove<T: Trials>(document: &mut TuningDocument, effort: Effort, trials: &mut T) -> Result<(), T::Error> {
    let mut design = Design::of(document);
    let mut rates: Vec<Vec<BTreeMap<Bytes, f64>>> = vec![Vec::new(); design.arms.len()];
    let mut failed: BTreeMap<usize, String> = BTreeMap::new();
    let (mut blocks, mut runs) = (0, 0);
    while blocks < effort.pairs && (blocks == 0 || trials.seconds() < effort.budget) {
        let mut order: Vec<usize> = (0..design.arms.len()).collect();
        if blocks % 2 == 1 {
            order.reverse();
        }
        for at in order {
            if failed.contains_key(&at) {
                continue;
            }
            let arm = &design.arms[at];
            let cells = trials.run(arm, blocks, &plan(document, &arm.gpus))?;
            runs += 1;
            match by_size(&cells) {
                Ok(found) => rates[at].push(found),
                // a run that fails once is not tried again: it may hang
                Err(why) => drop(failed.insert(at, why)),
            }
        }
        blocks += 1;
    }
    if blocks < effort.pairs {
        design.notes.push(format!("Out of time after {blocks} of {} pairs.", effort.pairs));
    }
    let sizes: Vec<Bytes> = document.as_is.iter().map(|rate| rate.size).collect();
    let gains = |[before, after]: [usize; 2]| -> Vec<Gain> {
        sizes.iter().filter_map(|size| gain(&rates[before], &rates[after], *size)).collect()
    };
    let why = |[before, after]: [usize; 2]| {
        let side = |at: usize, words: &str| failed.get(&at).map(|why| format!("{words} it NCCL failed: {why}"));
        side(after, "with").or_else(|| side(before, "without"))
    };
    for (suggestion, pair) in document.suggestions.iter_mut().zip(&design.pairs) {
        suggestion.proven = Some(match pair {
            None => Proven { gains: Vec::new(), kept: false, why_not: Some("it is not measured".to_owned()) },
            Some(pair) => judged(gains(*pair), why(*pair)),
        });
    }
    let all = if design.all == design.as_is { Vec::new() } else { gains([design.as_is, design.all]) };
    if let Some(why) = failed.get(&design.as_is) {
        design.notes.push(format!("With the environment as it is NCCL failed: {why}"));
    }
    document.proof =
        Some(Proof { pairs: blocks, runs, seconds: trials.seconds(), nccl: trials.nccl(), all, notes: design.notes });
    Ok(())
}

/// Bus bandwidth in GB/s by size, or why one has none.
fn by_size(cells: &[Cell]) -> Result<BTreeMap<Bytes, f64>, String> {
    let mut found = BTreeMap::new();
    for cell in cells {
        if cell.is_void() {
            return Err(cell.flags.iter().find(|f| f.kind.voids()).map(ToString::to_string).unwrap_or_default());
        }
        if let (Quantity::BusBandwidth, Some(value)) = (cell.quantity, cell.value())
            && let Some(rate) = cell.unit.rate(value)
        {
            found.insert(cell.size, rate.gb());
        }
    }
    if found.is_empty() { Err("it gave no value".to_owned()) } else { Ok(found) }
}

/// The gain of the second of two arms over the first, block by block.
fn gain(before: &[BTreeMap<Bytes, f64>], after: &[BTreeMap<Bytes, f64>], size: Bytes) -> Option<Gain> {
    let of =
        |arm: &[BTreeMap<Bytes, f64>]| arm.iter().filter_map(|rates| rates.get(&size).copied()).collect::<Vec<_>>();
    let (before, after) = (of(before), of(after));
    let ratios: Vec<f64> = before.iter().zip(&after).map(|(before, after)| after / before).collect();
    let median = Median::of(&ratios)?;
    let middle = |values: &[f64]| Median::of(values).map(|median| median.value);
    Some(Gain {
        size,
        gain: median.value,
        low: median.low,
        high: median.high,
        before: middle(&before)?,
        after: middle(&after)?,
    })
    .filter(|_| ratios.len() >= LEAST_PAIRS)
}

fn judged(gains: Vec<Gain>, failed: Option<String>) -> Proven {
    let faster = |g: &Gain| g.low > 1.0 && g.gain >= WORTH;
    let slower = |g: &Gain| g.high < 1.0 && g.gain <= 1.0 / WORTH;
    let why_not = if let Some(why) = failed {
        Some(why)
    } else if gains.is_empty() {
        Some(format!("fewer than {LEAST_PAIRS} pairs were measured"))
    } else if let Some(slow) = gains.iter().find(|g| slower(g)) {
        Some(format!("slower at {}", slow.size))
    } else if !gains.iter().any(faster) {
        Some("no certain gain".to_owned())
    } else {
        None
    };
    Proven { gains, kept: why_not.is_none(), why_not }
}
