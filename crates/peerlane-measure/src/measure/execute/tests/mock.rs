//! An executor that follows a script.

use crate::measure::{Executor, Failure, Sample, Verdict, execute};
use crate::plan::{Method, Plan, Step, Work};
use crate::run::{Cell, Event, GpuState};
use peerlane_machine::units::{Bytes, Seconds};

/// Why steps cannot be prepared.
type Refuse<'a> = dyn Fn(&[&Step]) -> Option<Failure> + 'a;

/// What is found in an allocation of a step.
type Judge<'a> = dyn Fn(&Step, usize) -> Verdict + 'a;

/// Cells, the events in words, and how it ended.
type Outcome = (Vec<Cell>, Vec<String>, Result<(), Failure>);

/// What a scripted executor is asked for one number.
pub(super) struct Ask<'a> {
    pub(super) step: &'a Step,
    /// Which of the step's numbers.
    pub(super) number: usize,
    /// Steps that run, this one too.
    pub(super) company: usize,
    pub(super) allocation: usize,
    /// Counted since memory was allocated.
    pub(super) sample: usize,
    /// The same, of all.
    pub(super) nth: u64,
}

impl Ask<'_> {
    /// Between −1 and 1, the same each time.
    pub(super) fn noise(&self) -> f64 {
        let z = (self.nth + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let z = (z ^ (z >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        ((z ^ (z >> 32)) >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }

    pub(super) fn is_from(&self, source: &str) -> bool {
        matches!(&self.step.work, Work::Transfers(t) if t[0].source == source)
    }
}

/// An executor that follows a script, with its own clock.
pub(super) struct Mock<'a> {
    value: Box<dyn FnMut(&Ask<'_>) -> f64 + 'a>,
    /// Why steps cannot be prepared.
    pub(super) refuse: Box<Refuse<'a>>,
    pub(super) verdict: Box<Judge<'a>>,
    pub(super) states: Vec<GpuState>,
    /// Seconds of each sample.
    pub(super) cost: f64,
    pub(super) clock: f64,
    prepared: Vec<Step>,
    pub(super) allocation: usize,
    pub(super) sample: usize,
    pub(super) nth: u64,
    /// Steps of each `prepare`.
    pub(super) log: Vec<usize>,
    pub(super) released: usize,
    pub(super) looks: usize,
}

impl<'a> Mock<'a> {
    pub(super) fn new(value: impl FnMut(&Ask<'_>) -> f64 + 'a) -> Self {
        Mock {
            value: Box::new(value),
            refuse: Box::new(|_| None),
            verdict: Box::new(|_, _| Verdict::Intact),
            states: Vec::new(),
            cost: 1e-3,
            clock: 5.0,
            prepared: Vec::new(),
            allocation: 0,
            sample: 0,
            nth: 0,
            log: Vec::new(),
            released: 0,
            looks: 0,
        }
    }

    /// Answers a plan: its cells, and how it ended.
    pub(super) fn run(&mut self, plan: &Plan, done: &[usize]) -> Outcome {
        let (mut cells, mut events) = (Vec::new(), Vec::new());
        let result = execute(plan, self, &done.iter().copied().collect(), &mut |event| match event {
            Event::Started(round) => events.push(format!("started {round}")),
            Event::Cells(new) => {
                events.push(format!("cells of {:?}", new.iter().map(|c| c.step).collect::<Vec<_>>()));
                cells.extend(new);
            }
            Event::States(_) => events.push("states".to_owned()),
            Event::Counted(counted) => events.push(format!("counted {:?}", counted.steps)),
            Event::Finished(_) => events.push("finished".to_owned()),
        });
        (cells, events, result)
    }
}

impl Executor for Mock<'_> {
    fn prepare(&mut self, steps: &[&Step], _: &Method, allocation: usize) -> Result<Vec<Bytes>, Failure> {
        assert!(self.prepared.is_empty(), "nothing is prepared twice");
        self.log.push(steps.len());
        if let Some(failure) = (self.refuse)(steps) {
            return Err(failure);
        }
        self.prepared = steps.iter().map(|s| (*s).clone()).collect();
        (self.allocation, self.sample) = (allocation, 0);
        Ok(vec![Bytes(1 << 20); steps.len()])
    }

    fn sample(&mut self, n: usize) -> Result<Vec<Vec<Sample>>, Failure> {
        let mut all = vec![Vec::new(); self.prepared.len()];
        for _ in 0..n {
            for (step, samples) in self.prepared.iter().zip(&mut all) {
                let numbers = match &step.work {
                    Work::Transfers(t) => t.len(),
                    Work::SmallCopies(_) => 2,
                    _ => 1,
                };
                let (company, allocation, sample) = (self.prepared.len(), self.allocation, self.sample);
                let mut ask = |number| {
                    self.nth += 1;
                    (self.value)(&Ask { step, number, company, allocation, sample, nth: self.nth })
                };
                samples.push((0..numbers).map(&mut ask).collect());
            }
            self.sample += 1;
            self.clock += self.cost;
        }
        Ok(all)
    }

    fn verify(&mut self) -> Result<Vec<Verdict>, Failure> {
        Ok(self.prepared.iter().map(|step| (self.verdict)(step, self.allocation)).collect())
    }

    fn release(&mut self) {
        self.prepared.clear();
        self.released += 1;
    }

    fn states(&mut self) -> Vec<GpuState> {
        self.looks += 1;
        self.states.clone()
    }

    fn now(&mut self) -> Seconds {
        Seconds::new(self.clock)
    }
}
