//! A machine that exists only as a model: it answers the plans of a live one, with noise and planted faults,
//! so that everything which measures can be tested, and tried, without a GPU.
//!
//! The truth that it answers by is [`Model`] on the machine's design with its faults: rates, times by size, latencies. It
//! gives no published figure back, even of a machine that carries some, and what the model does not know it refuses as
//! [`FlagKind::NotApplicable`].
//!
//! Its clock goes on by the time that its samples stand for; no time passes in the world.

mod counters;
mod effects;
mod fault;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

pub use effects::Effects;

use crate::kinds::{Task, Truth};
use crate::measure::{Executor, Failure, Sample, Verdict};
use crate::plan::{Method, Step, Work};
use crate::run::{FlagKind, GpuState, Reading};
use counters::Ledger;
use peerlane_machine::fabric::NodeKind;
use peerlane_machine::fault::{Fault, Planted};
use peerlane_machine::machine::Machine;
use peerlane_machine::random::Random;
use peerlane_machine::transfer::Transfer;
use peerlane_machine::units::{Bytes, Seconds};
use peerlane_model::collectives::Variables;
use peerlane_model::model::Model;
use peerlane_read::catalogue::Parts;

/// How many times a sample's deviation transfers that contend for a memory deviate by where theirs lies: differences of
/// up to 10 % between allocations were measured on four H200. Always towards less: some placements are worse than what
/// the model knows, none is better.
const ALLOCATION_NOISE: f64 = 5.0;

/// How many times a sample's deviation the processes of NCCL deviate from each other: by about 1 % on two H200.
const PROCESS_NOISE: f64 = 2.0;

/// A simulated machine.
pub struct SimulatedMachine<'a> {
    /// The design with its faults.
    truth: Machine,
    parts: &'a Parts,
    settings: Planted,
    /// NCCL's variables in this process, and its number among repetitions; without them collectives run as fast as their
    /// paths allow.
    nccl: Option<(Variables, usize)>,
    /// How it differs from the model, each with the seed of its draws.
    effects: Vec<(u64, Effects)>,
    /// Whether a hung pair is reported instead of waited for.
    impatient: bool,
    /// Seconds.
    clock: f64,
    /// Steps that were prepared, the first time that each was.
    answered: usize,
    /// GPUs that were lost before this executor was made.
    absent: BTreeSet<String>,
    /// What ended it.
    spoilt: Option<Failure>,
    prepared: Vec<Prepared>,
    ledger: Ledger,
}

/// A step that is ready to run.
struct Prepared {
    task: Task,
    random: Random,
    /// Samples so far.
    taken: usize,
    /// Share of the rate at the first sample, and samples until it is all.
    cold: Vec<(f64, usize)>,
    hangs: bool,
    verdict: Verdict,
    gpus: Vec<String>,
    /// What one message of each transfer passes.
    passed: Vec<counters::Passed>,
}

impl<'a> SimulatedMachine<'a> {
    /// A machine of this design.
    pub fn new(machine: &Machine, parts: &'a Parts, settings: &Planted) -> Self {
        SimulatedMachine {
            truth: fault::truth(machine, &settings.faults),
            parts,
            settings: settings.clone(),
            nccl: None,
            effects: Vec::new(),
            impatient: false,
            clock: 0.0,
            answered: 0,
            absent: BTreeSet::new(),
            spoilt: None,
            prepared: Vec::new(),
            ledger: Ledger::of(&machine.fabric, &settings.faults),
        }
    }

    /// The same machine, differing from its model by these effects.
    pub fn with_effects(self, effects: Effects) -> Self {
        let seed = self.settings.seed;
        self.with_effects_of(seed, effects)
    }

    /// The same machine, differing by these effects, too. Machines share those of one seed: what all of a design have
    /// in common, what one machine has on every day, what is so today.
    pub fn with_effects_of(mut self, seed: u64, effects: Effects) -> Self {
        self.effects.push((seed, effects));
        self
    }

    /// The same machine, whose collectives are NCCL's under these variables, in one of several processes: each deviates by
    /// itself, as processes on real machines do.
    pub fn with_nccl(self, variables: Variables, process: usize) -> Self {
        SimulatedMachine { nccl: Some((variables, process)), ..self }
    }

    /// The same machine, which reports a hung pair where others never answer: for callers that cannot leave it
    /// behind.
    pub fn impatient(self) -> Self {
        SimulatedMachine { impatient: true, ..self }
    }

    /// The same machine for an executor that takes over from another, after so many steps of the plan. A GPU that
    /// was lost by then is not there from the start, as on a live machine whose driver is started anew.
    pub fn taking_over(mut self, steps: usize) -> Self {
        self.answered = steps;
        let lost = self.settings.faults.iter().filter_map(|fault| match fault {
            Fault::Lost { gpu, after } if *after < steps => Some(gpu.clone()),
            _ => None,
        });
        self.absent = lost.collect();
        self
    }

    /// The GPU among those of the prepared steps that is lost by now.
    fn lost(&self) -> Option<&str> {
        let takes_part = |gpu: &String| self.prepared.iter().any(|p| p.gpus.contains(gpu));
        self.settings.faults.iter().find_map(|fault| match fault {
            Fault::Lost { gpu, after } if *after < self.answered && takes_part(gpu) => Some(gpu.as_str()),
            _ => None,
        })
    }

    fn usable(&self) -> Result<(), Failure> {
        self.spoilt.clone().map_or(Ok(()), Err)
    }

    fn make_ready(&self, step: &Step, mut task: Task, allocation: usize, together: usize) -> Prepared {
        let Planted { noise, seed, faults } = &self.settings;
        let text = serde_json::to_string(step).unwrap_or_default();
        let process = self.nccl.as_ref().map(|nccl| format!(" {nccl:?}")).unwrap_or_default();
        let stream = |what: &str| Random::new(*seed, &format!("{what} {allocation} {text}{process}"));
        let gpus: Vec<String> = step.work.gpus().into_iter().map(str::to_owned).collect();
        if let Work::Transfers(transfers) = &step.work
            && transfers.len() > 1
        {
            let mut placing = stream("placing");
            let spread = if contends(transfers) { ALLOCATION_NOISE * noise } else { 0.0 };
            for (value, transfer) in task.values.iter_mut().zip(transfers) {
                let modes = faults.iter().map(|fault| match fault {
                    Fault::Bimodal { gpu, factor } if allocation % 2 == 1 && transfer.gpus().any(|g| g == gpu) => {
                        *factor
                    }
                    _ => 1.0,
                });
                *value *= modes.product::<f64>() * (-spread * placing.normal().abs()).exp();
            }
        }
        if self.nccl.is_some() {
            let mut placing = stream("process");
            task.values.iter_mut().for_each(|value| *value *= (PROCESS_NOISE * noise * placing.normal()).exp());
        }
        for (seed, effects) in &self.effects {
            let factors = effects.factors(*seed, step, &self.truth.fabric, task.values.len(), task.rates);
            task.values.iter_mut().zip(factors).for_each(|(value, factor)| *value *= factor);
        }
        let takes_part = |gpu: &String| gpus.contains(gpu);
        let cold = faults.iter().filter_map(|fault| match fault {
            Fault::Cold { gpu, factor, samples } if takes_part(gpu) => Some((*factor, *samples)),
            _ => None,
        });
        let hangs = faults.iter().any(|f| matches!(f, Fault::Hang { pair } if crosses(&step.work, pair)));
        Prepared {
            cold: cold.collect(),
            hangs,
            verdict: self.verdict(step, task.size),
            random: stream(&format!("sampling among {together}")),
            task,
            taken: 0,
            gpus,
            passed: Vec::new(),
        }
    }

    /// Corruption changes one word in the middle of each message.
    fn verdict(&self, step: &Step, size: Bytes) -> Verdict {
        if !step.work.kind().has_content() {
            return Verdict::Intact;
        }
        let planted = self.settings.faults.iter().find_map(|fault| match fault {
            Fault::Corrupt { pair } if crosses(&step.work, pair) => Some(pair),
            _ => None,
        });
        let words = size.0.div_ceil(4).max(1);
        planted.map_or(Verdict::Intact, |[a, b]| {
            Verdict::Corrupt(format!("between {a} and {b}: 1 of {words} words differs, word {}", words / 2))
        })
    }
}

/// Whether several transfers leave one memory, or arrive in one.
fn contends(transfers: &[Transfer]) -> bool {
    let mut seen = BTreeSet::new();
    let mut again = |outgoing: bool, name: &str| !seen.insert((outgoing, name.to_owned()));
    transfers.iter().any(|t| again(true, &t.source) || again(false, &t.destination))
}

/// Whether some data of a work goes directly across a pair.
fn crosses(work: &Work, pair: &[String; 2]) -> bool {
    work.kind().paths().iter().any(|path| path.joins(pair))
}

impl Prepared {
    fn sample(&mut self, noise: f64) -> Sample {
        let taken = self.taken;
        let warmth = self.cold.iter().map(|&(factor, samples)| {
            let share = if taken < samples { taken as f64 / samples as f64 } else { 1.0 };
            factor + (1.0 - factor) * share
        });
        let warmth: f64 = warmth.product();
        self.taken += 1;
        let (rates, random) = (self.task.rates, &mut self.random);
        let one = |value: &f64| {
            let noisy = value * (noise * random.normal()).exp();
            if rates { noisy * warmth } else { noisy / warmth }
        };
        self.task.values.iter().map(one).collect()
    }
}

impl Executor for SimulatedMachine<'_> {
    fn prepare(&mut self, steps: &[&Step], method: &Method, allocation: usize) -> Result<Vec<Bytes>, Failure> {
        self.usable()?;
        self.release();
        if allocation == 0 {
            self.answered += steps.len();
        }
        let gone = steps.iter().flat_map(|s| s.work.gpus()).find(|gpu| self.absent.contains(*gpu));
        if let Some(gpu) = gone {
            return Err(Failure::new(FlagKind::Failed, format!("{gpu} is not there: it has fallen off the bus")));
        }
        let model = Model::new(&self.truth, self.parts);
        let nccl = self.nccl.as_ref().map(|(variables, _)| variables);
        let truth = Truth { model: &model, faults: &self.settings.faults, sample_time: method.sample_time, nccl };
        let tasks = truth.tasks(steps).map_err(|why| Failure::new(FlagKind::NotApplicable, why))?;
        let prepared = steps.iter().zip(tasks).map(|(step, task)| self.make_ready(step, task, allocation, steps.len()));
        self.prepared = prepared.collect();
        for (prepared, step) in self.prepared.iter_mut().zip(steps) {
            prepared.passed = self.ledger.passed(&model, step, allocation);
        }
        Ok(self.prepared.iter().map(|p| p.task.size).collect())
    }

    /// Where a hung pair is among the prepared steps, this does not return, unless the machine is impatient.
    fn sample(&mut self, n: usize) -> Result<Vec<Vec<Sample>>, Failure> {
        self.usable()?;
        let hangs = self.prepared.iter().any(|p| p.hangs);
        let end = match self.lost() {
            Some(gpu) => Some((FlagKind::Failed, format!("{gpu} has fallen off the bus"))),
            None => (hangs && self.impatient).then(|| (FlagKind::Hung, "it did not end in time".to_owned())),
        };
        if let Some((kind, message)) = end {
            self.spoilt = Some(Failure { kind, message, fatal: true });
            self.usable()?;
        }
        if hangs {
            loop {
                std::thread::sleep(Duration::from_secs(3600));
            }
        }
        let longest = self.prepared.iter().map(|p| p.task.duration).fold(0.0, f64::max);
        self.clock += longest * n as f64;
        for prepared in &self.prepared {
            self.ledger.add(&prepared.passed, prepared.task.size, n);
        }
        let noise = self.settings.noise;
        Ok(self.prepared.iter_mut().map(|p| (0..n).map(|_| p.sample(noise)).collect()).collect())
    }

    fn verify(&mut self) -> Result<Vec<Verdict>, Failure> {
        self.usable()?;
        Ok(self.prepared.iter().map(|p| p.verdict.clone()).collect())
    }

    fn release(&mut self) {
        self.prepared.clear();
    }

    /// Names, what holds the clocks of a throttled GPU down, and planted PCIe replays. A simulated machine has no
    /// temperature.
    fn states(&mut self) -> Vec<GpuState> {
        let fabric = &self.truth.fabric;
        let throttled =
            |name: &str| self.settings.faults.iter().any(|f| matches!(f, Fault::Throttle { gpu, .. } if gpu == name));
        let state = |gpu: &str| GpuState {
            gpu: gpu.to_owned(),
            clock_event_reasons: throttled(gpu).then(|| "HW Thermal Slowdown".to_owned()).into_iter().collect(),
            pcie_replays: self.ledger.replays(gpu),
            ..GpuState::default()
        };
        let names = fabric.of_kind(NodeKind::Gpu).map(|id| fabric.node(id).name.as_str());
        names.filter(|name| !self.absent.contains(*name)).map(state).collect()
    }

    /// Those of its model: bytes that the links of each route carried, and planted errors.
    fn counters(&mut self) -> Reading {
        self.ledger.reading(&self.absent)
    }

    fn now(&mut self) -> Seconds {
        Seconds::new(self.clock)
    }
}
