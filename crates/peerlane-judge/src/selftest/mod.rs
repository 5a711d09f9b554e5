//! Whether the rules find what is wrong, and are silent where nothing is: faults planted in simulated machines, measured by
//! the usual plan, and checked; and faults planted in the outputs of tools of such machines, read as a user's are.
//!
//! A simulated machine answers by the same model that the rules use, which would make this a test of the model against
//! itself; so each also differs from it as sound machines do ([`Effects`]), and its samples are noisy.
//! Seeds are fixed: the same version gives the same table. Another base seed gives other noise, other differences from
//! the model, and other machines and places to plant in, so that rules cannot be good at one table only.

mod fleet;
#[cfg(test)]
mod gate;
mod judge;
mod plants;
mod record;
mod texts;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use peerlane_machine::subject::Subject;
use peerlane_measure::simulated_machine::Effects;
use peerlane_read::catalogue;

pub use fleet::{Accused, FleetTest, SIZES, Tried, Trouble, Wish, fleet_test};
use record::{Bench, Today};

/// Relative standard deviation of a sample.
pub const NOISE: f64 = 0.02;

/// Share of the planted faults that must be found.
pub const LEAST_RECALL: f64 = 0.98;

/// Seeds of each machine without a fault.
const SOUND_SEEDS: u64 = 3;

/// What was planted, what was found, and the false alarms.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SelfTest {
    /// Names this format.
    #[schemars(extend("const" = "peerlane/selftest/1"))]
    pub schema: &'static str,
    /// Relative standard deviation of a sample.
    pub noise: f64,
    /// The seed of the cases' seeds and places.
    pub seed: u64,
    /// Planted faults that had to be found.
    pub planted: usize,
    /// How many of them were.
    pub found: usize,
    /// `found` as a share of `planted`.
    pub recall: f64,
    /// Findings of kind `fault` about sound parts.
    pub false_alarms: usize,
    /// The cases, those without a fault first.
    pub cases: Vec<Case>,
}

/// One machine with one fault, or none.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Case {
    /// What was checked.
    pub input: Input,
    /// The system of the catalogue.
    pub machine: String,
    /// The kind of fault; absent where nothing is wrong.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
    /// Description of what was planted; empty where nothing is wrong.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schemars(default)]
    pub planted: String,
    /// The seed of noise and effects.
    pub seed: u64,
    /// Whether it was found; absent where there was nothing to find.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<bool>,
    /// Rules that found it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub by: Vec<String>,
    /// Faults reported on sound parts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub false_alarms: Vec<Alarm>,
}

/// What a case checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Input {
    /// A run on a simulated machine.
    Run,
    /// The outputs of tools.
    Texts,
}

/// A finding that should not be.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Alarm {
    /// Its rule.
    pub rule: String,
    /// What it names.
    pub subjects: Vec<Subject>,
    /// Its summary.
    pub summary: String,
}

/// How much is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Every kind of fault on up to eight machines, every machine without one three times.
    Full,
    /// A few small machines only, one seed each: for tests of this itself.
    Brief,
}

/// Runs all cases that follow from a seed, the usual one being 0; `report` is called for each as it ends, with how many
/// there are.
pub fn selftest(depth: Depth, seed: u64, report: &(dyn Fn(&Case, usize) + Sync)) -> SelfTest {
    let runs = wanted(depth, seed).into_iter().map(Job::Run);
    let of_texts = texts::wanted(depth == Depth::Brief, seed, seed.wrapping_mul(APART)).into_iter().map(Job::Texts);
    let wanted: Vec<Job> = runs.chain(of_texts).collect();
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Case)>> = Mutex::new(Vec::new());
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(one) = wanted.get(at) else { break };
            if let Some(case) = one.case() {
                report(&case, wanted.len());
                done.lock().unwrap_or_else(PoisonError::into_inner).push((at, case));
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let mut cases = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    cases.sort_by_key(|(at, _)| *at);
    summed(seed, cases.into_iter().map(|(_, case)| case).collect())
}

fn summed(seed: u64, cases: Vec<Case>) -> SelfTest {
    let planted = cases.iter().filter(|c| c.found.is_some()).count();
    let found = cases.iter().filter(|c| c.found == Some(true)).count();
    SelfTest {
        schema: "peerlane/selftest/1",
        noise: NOISE,
        seed,
        planted,
        found,
        recall: if planted == 0 { 1.0 } else { found as f64 / planted as f64 },
        false_alarms: cases.iter().map(|c| c.false_alarms.len()).sum(),
        cases,
    }
}

/// A case of either half.
enum Job {
    Run(Wanted),
    Texts(texts::Wanted),
}

impl Job {
    fn case(&self) -> Option<Case> {
        match self {
            Job::Run(wanted) => wanted.case(),
            Job::Texts(wanted) => wanted.case(),
        }
    }
}

/// A case to run.
struct Wanted {
    system: &'static str,
    plant: Option<plants::Plant>,
    seed: u64,
}

/// Seeds of one base seed are this far from those of the next.
const APART: u64 = 1000;

fn wanted(depth: Depth, base: u64) -> Vec<Wanted> {
    let brief = ["microway-p100-pcie", "h200x4-vm", "exxact-devbox"];
    let systems: Vec<(&'static str, _)> = catalogue::system_names()
        .filter(|name| depth == Depth::Full || brief.contains(name))
        .filter_map(|name| Some((name, catalogue::system(name)?.ok()?)))
        .filter(|(_, machine)| plants::is_measurable(machine))
        .collect();
    let seeds = if depth == Depth::Full { SOUND_SEEDS } else { 1 };
    let sound = systems.iter().flat_map(|(system, _)| {
        (0..seeds).map(move |seed| Wanted { system, plant: None, seed: base.wrapping_mul(APART).wrapping_add(seed) })
    });
    let mut all: Vec<Wanted> = sound.collect();
    for kind in plants::KINDS {
        // fewer machines of a kind take several places each
        let able: Vec<(&'static str, Vec<plants::Plant>)> =
            systems.iter().map(|(system, machine)| (*system, plants::plants(kind, machine))).collect();
        let mut able: Vec<_> = able.into_iter().filter(|(_, plants)| !plants.is_empty()).collect();
        let most = if depth == Depth::Full { plants::CASES } else { 2 };
        // remainders fit any type
        let turned = |n: usize| usize::try_from(base % n.max(1) as u64).unwrap_or_default();
        let first = turned(able.len()) * most % able.len().max(1);
        able.rotate_left(first);
        let mut taken = 0;
        for turn in 0..plants::TURNS {
            for (i, (system, plants)) in able.iter().enumerate() {
                if taken == most {
                    break;
                }
                // each machine another of its places, so that no one place is all that is tried
                let Some(plant) = plants.get((i + turn + turned(plants.len())) % plants.len()) else { continue };
                all.push(Wanted {
                    system,
                    plant: Some(plant.clone()),
                    seed: base.wrapping_mul(APART).wrapping_add(100 + taken as u64),
                });
                taken += 1;
            }
        }
    }
    all
}

impl Wanted {
    /// `None` where the machine of the catalogue cannot be read.
    fn case(&self) -> Option<Case> {
        let text = catalogue::system_text(self.system)?;
        let design = catalogue::read_system(text, self.system).ok()?;
        let faults = self.plant.as_ref().map(|plant| plant.faults.as_slice()).unwrap_or_default();
        let today =
            Today { noise: NOISE, seed: self.seed, faults, effects: &[(self.seed, Effects::REAL)], shown: None };
        let run = Bench::usual(&design, self.system, text).measure(&today);
        Some(judge::judge(&design, &run, self.system, self.plant.as_ref(), self.seed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planted_faults_are_found_and_sound_machines_are_left_alone() {
        let heard = AtomicUsize::new(0);
        let result = selftest(Depth::Brief, 0, &|_, _| {
            heard.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(heard.load(Ordering::Relaxed), result.cases.len());
        let missed: Vec<&Case> = result.cases.iter().filter(|c| c.found == Some(false)).collect();
        assert!(missed.is_empty(), "{missed:#?}");
        let alarms: Vec<&Case> = result.cases.iter().filter(|c| !c.false_alarms.is_empty()).collect();
        assert!(alarms.is_empty(), "{alarms:#?}");
        let [of_runs, of_texts] = [Input::Run, Input::Texts]
            .map(|input| result.cases.iter().filter(|c| c.input == input && c.fault.is_none()).count());
        assert_eq!((of_runs, of_texts), (3, 6));
        // every kind was tried, and a GPU that starts cold is no fault
        for kind in plants::KINDS {
            assert!(result.cases.iter().any(|c| c.fault.as_deref() == Some(kind.name())), "{}", kind.name());
        }
        assert!(result.cases.iter().any(|c| c.fault.as_deref() == Some("cold") && c.found.is_none()));
    }

    #[test]
    fn missed_faults_and_alarms_count() {
        let case = |found: Option<bool>, alarms: usize| Case {
            input: Input::Run,
            machine: "m".to_owned(),
            fault: found.map(|_| "hang".to_owned()),
            planted: String::new(),
            seed: 0,
            found,
            by: Vec::new(),
            false_alarms: vec![Alarm { rule: String::new(), subjects: Vec::new(), summary: String::new() }; alarms],
        };
        let sum = summed(7, vec![case(None, 2), case(Some(true), 0), case(Some(false), 1), case(Some(true), 0)]);
        assert_eq!((sum.planted, sum.found, sum.false_alarms), (3, 2, 3));
        assert_eq!(sum.recall, 2.0 / 3.0);
    }
}
