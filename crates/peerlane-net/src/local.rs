//! RDMA between the NICs of one machine, or through one and back: both sides are in this process.

use std::collections::BTreeMap;
use std::time::Instant;

use peerlane_gpu::Mapping;
use peerlane_machine::matrix::Operation;
use peerlane_machine::transfer::NicEnd;
use peerlane_machine::units::{Bytes, Seconds};
use peerlane_measure::measure::{Executor, Failure, Sample, Verdict};
use peerlane_measure::nodes::{End, Probe, Transport};
use peerlane_measure::plan::{Method, Size, Step, Work};
use peerlane_measure::run::{FlagKind, GpuState};

use crate::transport::Side;
use crate::verbs::Verbs;

/// Share of a step's patience after which an adapter that reports nothing has hung: less than a watchdog waits, so that the
/// adapter is named.
const PATIENCE: f64 = 0.3;

/// The NICs of this machine, for steps of [`Work::Rdma`] alone, one at a time.
pub struct LocalNics {
    /// Names that libibverbs has for the NICs of a plan.
    devices: BTreeMap<String, String>,
    prepared: Option<Sides>,
    /// What was unusual, in sentences, each once.
    notes: Vec<String>,
    began: Instant,
}

/// Both sides of a step.
struct Sides {
    /// The one that takes samples.
    active: Verbs,
    passive: Verbs,
    op: Operation,
    /// The least that a sample takes.
    time: Seconds,
}

impl LocalNics {
    /// With libibverbs' names of a plan's NICs, where they differ.
    #[must_use]
    pub fn new(devices: BTreeMap<String, String>) -> Self {
        LocalNics { devices, prepared: None, notes: Vec::new(), began: Instant::now() }
    }

    /// What was unusual so far, in sentences.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// An end as verbs know it. Memory that the system does not let this process place is any memory.
    fn end(&mut self, end: &NicEnd) -> End {
        let nic = self.devices.get(&end.nic).unwrap_or(&end.nic).clone();
        let node = end.memory.strip_prefix("host").and_then(|node| node.parse().ok());
        let mut memory = end.memory.clone();
        if let Some(node) = node
            && let Err(e) = Mapping::new(1, Some(node))
        {
            let note = format!("memory for RDMA is not bound to NUMA node {node}: {e}");
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
            memory = "host".to_owned();
        }
        End { node: 0, nic: Some(nic), memory }
    }

    fn sides(&mut self) -> Result<&mut Sides, Failure> {
        self.prepared.as_mut().ok_or_else(|| Failure::new(FlagKind::Failed, "nothing is prepared"))
    }
}

impl Executor for LocalNics {
    fn prepare(&mut self, steps: &[&Step], method: &Method, _: usize) -> Result<Vec<Bytes>, Failure> {
        self.release();
        let [step] = steps else {
            return Err(Failure::new(FlagKind::Failed, "RDMA is measured one step at a time"));
        };
        let Work::Rdma(rdma) = &step.work else {
            return Err(Failure::new(FlagKind::NotApplicable, "NICs do nothing but RDMA"));
        };
        let (Size::Exactly(size) | Size::UpTo(size)) = step.size;
        let probe = if rdma.op == Operation::Read { Probe::Read } else { Probe::Write };
        let (from, to) = (self.end(&rdma.from), self.end(&rdma.to));
        let wanted = peerlane_measure::nodes::Step {
            from,
            to,
            transport: Transport::Verbs,
            probe,
            size,
            queue_pairs: 1,
            between: Vec::new(),
        };
        let patience = Seconds::new(PATIENCE * method.patience.seconds());
        let mut active = Verbs::new(&wanted, true, patience)?;
        let mut passive = Verbs::new(&wanted, false, patience)?;
        let address = active.address();
        active.connect(&passive.address())?;
        passive.connect(&address)?;
        self.prepared = Some(Sides { active, passive, op: rdma.op, time: method.sample_time });
        Ok(vec![size])
    }

    fn sample(&mut self, n: usize) -> Result<Vec<Vec<Sample>>, Failure> {
        let sides = self.sides()?;
        // the other side's adapter does its part by itself
        let rates = sides.active.sample(n, sides.time)?;
        Ok(vec![rates.into_iter().map(|rate| vec![rate]).collect()])
    }

    fn verify(&mut self) -> Result<Vec<Verdict>, Failure> {
        let sides = self.sides()?;
        let receiver = if sides.op == Operation::Read { &mut sides.active } else { &mut sides.passive };
        Ok(vec![receiver.verify()?])
    }

    fn release(&mut self) {
        self.prepared = None;
    }

    fn states(&mut self) -> Vec<GpuState> {
        Vec::new()
    }

    fn now(&mut self) -> Seconds {
        Seconds::new(self.began.elapsed().as_secs_f64())
    }
}
