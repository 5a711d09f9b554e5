//! RDMA between the NICs of one machine, or through one and back, with host memory or that of a GPU: both sides are in this process.

use std::collections::BTreeMap;
use std::time::Instant;

use peerlane_gpu::Mapping;
use peerlane_machine::matrix::Operation;
use peerlane_machine::names::{is_host, number_after};
use peerlane_machine::transfer::{NicEnd, Rdma, Registration, Via};
use peerlane_machine::units::{Bytes, Seconds};
use peerlane_measure::measure::{Executor, Failure, Sample, Verdict};
use peerlane_measure::nodes::{End, Memory, Probe, Transport};
use peerlane_measure::plan::{Method, Step, Work};
use peerlane_measure::run::{FlagKind, GpuState};

use crate::gpu_memory::{GpuStage, Gpus};
use crate::transport::Side;
use crate::verbs::{SLOTS, Verbs};

/// Share of a step's patience after which an adapter that reports nothing has hung: less than a watchdog waits, so that the
/// adapter is named.
const PATIENCE: f64 = 0.3;

/// The NICs of this machine, for steps of [`Work::Rdma`] alone, one at a time.
pub struct LocalNics {
    /// Names that libibverbs has for the NICs of a plan.
    devices: BTreeMap<String, String>,
    prepared: Option<Sides>,
    /// How the adapter got at the GPU memory of the step that was prepared last.
    registered: Option<Registration>,
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
    /// Of a GPU's memory that is staged: its copies, and whether they go to the GPU.
    stage: Option<(Box<dyn GpuStage>, bool)>,
}

impl LocalNics {
    /// With libibverbs' names of a plan's NICs, where they differ.
    #[must_use]
    pub fn new(devices: BTreeMap<String, String>) -> Self {
        LocalNics { devices, prepared: None, registered: None, notes: Vec::new(), began: Instant::now() }
    }

    /// What was unusual so far, in sentences.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// An end as verbs know it. Memory that the system does not let this process place is any memory.
    fn end(&mut self, end: &NicEnd) -> End {
        let nic = self.devices.get(&end.nic).unwrap_or(&end.nic).clone();
        let mut memory = match number_after(&end.memory, "host") {
            None if !is_host(&end.memory) => Memory::Device(end.memory.clone()),
            node => Memory::of_host(node),
        };
        if let Memory::Numa(node) = memory
            && let Err(e) = Mapping::new(1, Some(node))
        {
            self.note(format!("memory for RDMA is not bound to NUMA node {node}: {e}"));
            memory = Memory::Host;
        }
        End { node: 0, nic: Some(nic), memory }
    }

    fn note(&mut self, note: String) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// Prepares a step, whose memory may be that of these GPUs.
    ///
    /// # Errors
    /// In words, what adapters, system and driver refused.
    pub fn prepare_with(
        &mut self,
        mut gpus: Option<&mut dyn Gpus>,
        steps: &[&Step],
        method: &Method,
    ) -> Result<Vec<Bytes>, Failure> {
        self.release();
        self.registered = None;
        let [step] = steps else {
            return Err(Failure::new(FlagKind::Failed, "RDMA is measured one step at a time"));
        };
        let Work::Rdma(rdma) = &step.work else {
            return Err(Failure::new(FlagKind::NotApplicable, "NICs do nothing but RDMA"));
        };
        let size = step.size.most();
        let probe = if rdma.op == Operation::Read { Probe::Read } else { Probe::Write };
        let staged = rdma.via != Via::Direct;
        if staged && (rdma.gpu().is_none() || probe == Probe::Read) {
            let why = "staged is what a GPU's memory is written from, or to";
            return Err(Failure::new(FlagKind::NotApplicable, why));
        }
        let (from, to) = if staged { staged_ends(rdma) } else { (rdma.from.clone(), rdma.to.clone()) };
        let (from, to) = (self.end(&from), self.end(&to));
        let wanted = peerlane_measure::nodes::Step {
            from,
            to,
            transport: Transport::Verbs,
            probe,
            size,
            queue_pairs: if staged { SLOTS } else { 1 },
            between: Vec::new(),
        };
        let patience = Seconds::new(PATIENCE * method.patience.seconds());
        let mut side = |active: bool| {
            // a closure gives the borrow of all GPUs away only for one call
            let gpus = gpus.as_mut().map(|gpus| &mut **gpus as &mut dyn Gpus);
            Verbs::with_gpus(&wanted, active, patience, gpus)
        };
        let (mut active, mut passive) = (side(true)?, side(false)?);
        for side in [&active, &passive] {
            let Some((how, why)) = side.registered() else { continue };
            self.registered = Some(how);
            if let (Some((gpu, nic)), Some(why)) = (rdma.gpu(), why) {
                self.note(format!("{nic} uses {gpu}'s memory by {}, not as a dmabuf: {why}", how.name()));
            }
        }
        let address = active.address();
        active.connect(&passive.address())?;
        passive.connect(&address)?;
        let mut stage = None;
        if let (true, Some((gpu, _)), Some(gpus)) = (staged, rdma.gpu(), gpus) {
            let to_gpu = is_host(&rdma.from.memory);
            let side = if to_gpu { &passive } else { &active };
            let (host, slots) = side.slots(!to_gpu)?;
            let mut made = gpus.stage(gpu, &host, &slots, side.message())?;
            if to_gpu {
                passive.receive_into(&mut *made)?
            } else {
                active.send_from(&mut *made)?
            }
            stage = Some((made, to_gpu));
        } else if staged {
            return Err(Failure::new(FlagKind::NotApplicable, format!("no GPU was opened, and the step is {rdma}")));
        }
        self.prepared = Some(Sides { active, passive, op: rdma.op, time: method.sample_time, stage });
        Ok(vec![size])
    }

    fn sides(&mut self) -> Result<&mut Sides, Failure> {
        self.prepared.as_mut().ok_or_else(|| Failure::new(FlagKind::Failed, "nothing is prepared"))
    }
}

/// Both ends of a step whose GPU memory is staged: the host memory of the other end is in its place.
fn staged_ends(rdma: &Rdma) -> (NicEnd, NicEnd) {
    let host = if is_host(&rdma.from.memory) { &rdma.from.memory } else { &rdma.to.memory };
    let end = |end: &NicEnd| NicEnd { nic: end.nic.clone(), memory: host.clone() };
    (end(&rdma.from), end(&rdma.to))
}

impl Executor for LocalNics {
    fn prepare(&mut self, steps: &[&Step], method: &Method, _: usize) -> Result<Vec<Bytes>, Failure> {
        self.prepare_with(None, steps, method)
    }

    fn sample(&mut self, n: usize) -> Result<Vec<Vec<Sample>>, Failure> {
        let sides = self.sides()?;
        // the other side's adapter does its part by itself
        let rates = match &mut sides.stage {
            Some((stage, to_gpu)) => sides.active.staged_samples(n, sides.time, &mut **stage, *to_gpu)?,
            None => sides.active.sample(n, sides.time)?,
        };
        Ok(vec![rates.into_iter().map(|rate| vec![rate]).collect()])
    }

    fn verify(&mut self) -> Result<Vec<Verdict>, Failure> {
        let sides = self.sides()?;
        if let Some((stage, true)) = &mut sides.stage {
            return Ok(vec![sides.passive.verify_in(&mut **stage)?]);
        }
        let receiver = if sides.op == Operation::Read { &mut sides.active } else { &mut sides.passive };
        Ok(vec![receiver.verify()?])
    }

    fn registration(&self) -> Option<Registration> {
        self.registered
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
