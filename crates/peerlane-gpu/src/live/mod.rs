//! The live machine: it runs the steps of a plan on this machine's GPUs.

mod bfs;
mod collective;
mod copies;
mod gate;
mod gpu;
mod halo;
mod host_clock;
mod host_memory;
mod kernels;
mod latency;
mod machine;
mod nic_memory;
mod pipeline;
mod pool;
mod ranks;
mod spin_glass;
mod staged;
mod window;

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use peerlane_machine::fabric::PciAddress;
use peerlane_machine::matrix::{Engine, Quantity};
use peerlane_machine::transfer::{HostMemory, Transfer, Via};
use peerlane_machine::units::{Bytes, Seconds};
use peerlane_measure::measure::{Executor, Failure, Sample, Verdict};
use peerlane_measure::plan::{Method, Step, Work};
use peerlane_measure::run::{Conditions, FlagKind, GpuState, Reading};
use serde::{Deserialize, Serialize};

use self::copies::Copies;
use self::machine::{Found, Machine};
pub use self::nic_memory::{NicMemory, NicStage};
pub use self::ranks::Ranks;
pub use self::staged::{GpuSink, GpuSource};
use crate::counters::FileCounters;
use crate::cuda::Driver;
use crate::failure::Problem;
use crate::nvml::{self, NvmlStates, Tolerated};
use crate::timeline;

/// A GPU by its node's name, and where it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuName {
    /// `GPU0` …
    pub name: String,
    /// Its PCI address, by which CUDA's numbering is left alone.
    pub address: PciAddress,
}

/// Why the GPUs cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct OpenError {
    /// The GPUs that are at fault, where it is some; the others may be worth trying.
    pub gpus: Vec<String>,
    /// What their steps are: [`FlagKind::Failed`], or [`FlagKind::NotApplicable`] where they are not for this process.
    pub kind: FlagKind,
    /// The reason, in a line.
    pub reason: String,
}

/// Steps that are ready to run.
trait Prepared {
    /// Takes `n` samples of each step.
    fn sample(&mut self, n: usize) -> Result<Vec<Vec<Sample>>, Problem>;

    /// Compares what was moved; one verdict a step.
    fn verify(&mut self) -> Result<Vec<Verdict>, Problem>;

    /// Bytes that each transfer has sent so far, warm-up and pilots included; `None` where they are not counted.
    fn sent(&self) -> Option<Vec<(Transfer, u64)>> {
        None
    }
}

/// The GPUs of this machine, ready to work.
///
/// Anything that cannot work is said once, when it is opened, in [`Live::conditions`], or as the failure of a step.
pub struct Live {
    // what is prepared refers to the machine's memory, and so goes first
    prepared: Option<Box<dyn Prepared>>,
    machine: Machine,
    states: Option<NvmlStates>,
    files: FileCounters,
    /// What released steps sent.
    sent: BTreeMap<Transfer, u64>,
    /// Steps whose bytes are not counted.
    uncounted: usize,
    began: Instant,
    initialisation: Seconds,
    notes: Vec<String>,
}

/// Starts what needs no request, and takes longest: the driver and NVML, each in a thread. [`Live::open`] waits for them. No GPU
/// is touched: there is no context before it is known that nobody else uses the GPU.
pub fn start_ahead() {
    // where a thread cannot be started, opening does it
    let _ = thread::Builder::new().spawn(|| drop(Driver::open()));
    let _ = thread::Builder::new().spawn(nvml::start_ahead);
}

/// How long GPUs may still be in use by processes that are ending: the driver clears up after them for some tenths of a second.
pub const LEAVING: Duration = Duration::from_secs(1);

/// How long after it was seen that a GPU is in use it is looked at again.
pub const LOOK_AGAIN: Duration = Duration::from_millis(100);

impl Live {
    /// Opens the driver and the named GPUs, unless they are in use by a process that is not tolerated.
    ///
    /// Without any GPU, host memory alone can be measured.
    pub fn open(gpus: &[GpuName], tolerated: &Tolerated) -> Result<Live, OpenError> {
        let began = Instant::now();
        let open_states = || {
            let _span = timeline::begin("NVML");
            NvmlStates::open(gpus.iter().map(|gpu| (gpu.name.as_str(), gpu.address)))
        };
        // neither needs the other, and each takes some tenths of a second
        let (states, found) = thread::scope(|scope| {
            let states = scope.spawn(open_states);
            let found = Found::look(gpus);
            (states.join().unwrap_or_else(|_| Err("NVML could not be opened".to_owned())), found)
        });
        let (states, notes) = match states {
            Ok(states) => (Some(states), Vec::new()),
            Err(why) => (None, vec![format!("no GPU states: {why}")]),
        };
        // what is hidden from this process is not its business, whoever uses it
        let found = found?;
        // before this process itself works on them
        let looking = timeline::begin("who uses the GPUs");
        let mut busy = states.as_ref().map(|states| states.busy(tolerated)).unwrap_or_default();
        let by = Instant::now() + LEAVING;
        while let Some(states) = states.as_ref().filter(|_| !busy.is_empty() && Instant::now() < by) {
            thread::sleep(LOOK_AGAIN);
            busy = states.busy(tolerated);
        }
        drop(looking);
        if !busy.is_empty() {
            let busy: Vec<String> = busy.into_iter().map(|(gpu, how)| format!("{gpu} ({how})")).collect();
            let reason = format!("in use by other processes: {}; use --force to measure anyway", busy.join(", "));
            return Err(OpenError { gpus: Vec::new(), kind: FlagKind::Failed, reason });
        }
        let machine = Machine::open(found)?;
        let initialisation = Seconds::new(began.elapsed().as_secs_f64());
        let files = FileCounters::of(Path::new("/sys"), gpus.iter().map(|gpu| (gpu.name.as_str(), gpu.address)));
        let (sent, uncounted, began) = (BTreeMap::new(), 0, Instant::now());
        Ok(Live { prepared: None, machine, states, files, sent, uncounted, began, initialisation, notes })
    }

    /// What is known of the machine and its libraries by now; those that a step needs are opened then. GPU states are
    /// told apart.
    pub fn conditions(&self) -> Conditions {
        let (initialisation, notes) = (Some(self.initialisation), self.notes.clone());
        Conditions { initialisation, notes, startup: timeline::phases(), ..self.machine.conditions() }
    }

    /// What steps use.
    fn machine(&mut self) -> &mut Machine {
        &mut self.machine
    }

    fn lay_out(
        &mut self,
        steps: &[&Step],
        method: &Method,
        allocation: usize,
    ) -> Result<(Box<dyn Prepared>, Vec<Bytes>), Problem> {
        let machine = &mut self.machine;
        machine.begin();
        let transfers = |step: &&'_ Step| match &step.work {
            Work::Transfers(transfers) => !transfers.iter().any(holds_up_the_cpu),
            _ => false,
        };
        if steps.iter().all(transfers) {
            let wanted: Vec<copies::Wanted> = steps
                .iter()
                .filter_map(|step| match &step.work {
                    Work::Transfers(transfers) => Some((transfers.as_slice(), step.size)),
                    _ => None,
                })
                .collect();
            let (copies, sizes) = Copies::prepare(machine, &wanted, method, allocation)?;
            return Ok((Box::new(copies), sizes));
        }
        let [step] = steps else {
            return Err(Problem::Failed("only transfers between GPUs can run concurrently".to_owned()));
        };
        let size = step.size;
        Ok(match &step.work {
            Work::Transfers(transfers) => {
                let [transfer] = transfers.as_slice() else {
                    return Err(Problem::NotApplicable("the CPU can only run such transfers one by one".to_owned()));
                };
                match transfer.memory {
                    HostMemory::Pageable => single(host_clock::Pageable::prepare(machine, transfer, size, method)?),
                    _ => single(host_clock::Managed::prepare(machine, transfer, size)?),
                }
            }
            Work::Loads { gpu, memory } => single(latency::Loads::prepare(machine, gpu, memory, size)?),
            Work::Signals { a, b } => single(latency::Signals::prepare(machine, a, b)?),
            Work::SmallCopies(transfer) => single(latency::SmallCopies::prepare(machine, transfer, size, allocation)?),
            Work::Collective { operation, gpus } => {
                single(collective::Collectives::prepare(machine, *operation, gpus, size)?)
            }
            Work::SpinGlass(lattice) => single(spin_glass::SpinGlass::prepare(machine, lattice, method)?),
            Work::Halo(grid) => single(halo::Halo::prepare(machine, grid, method)?),
            Work::Bfs(search) => single(bfs::Bfs::prepare(machine, search)?),
            Work::Rdma(rdma) => {
                return Err(Problem::NotApplicable(format!(
                    "{rdma}: RDMA is measured by verbs, and not by the GPUs' driver"
                )));
            }
            Work::HostMemory { node, kernel } => {
                machine.make_room_on_host(node, host_memory::ARRAYS * size.most().0);
                single(host_memory::HostStream::prepare(node, *kernel, size, method)?)
            }
        })
    }

    /// Gives back what was prepared, and keeps account of what it sent.
    fn put_away(&mut self) {
        let Some(prepared) = self.prepared.take() else { return };
        match prepared.sent() {
            Some(sent) => {
                sent.into_iter().for_each(|(transfer, bytes)| *self.sent.entry(transfer).or_default() += bytes)
            }
            None => self.uncounted += 1,
        }
    }

    fn prepared(&mut self) -> Result<&mut Box<dyn Prepared>, Failure> {
        let none = || Failure { kind: FlagKind::Failed, message: "nothing is prepared".to_owned(), fatal: false };
        self.prepared.as_mut().ok_or_else(none)
    }
}

/// By what share small copies differed from process to process, where their samples did not: the driver lays out its
/// queues and its staging memory anew. Of 20 direct and 12 staged cells of two runs on four H200 the most were 3.5 % and
/// 14 % in time, 3.0 % and 12 % in what enqueueing costs.
const BETWEEN_RUNS: [f64; 2] = [0.04, 0.15];

impl Executor for Live {
    fn runs_while_preparing(&self) -> bool {
        true
    }

    fn between_runs(&self, work: &Work, _: Quantity) -> f64 {
        match work {
            Work::SmallCopies(transfer) => BETWEEN_RUNS[usize::from(transfer.via != Via::Direct)],
            _ => 0.0,
        }
    }

    fn prepare(&mut self, steps: &[&Step], method: &Method, allocation: usize) -> Result<Vec<Bytes>, Failure> {
        self.put_away();
        let (prepared, sizes) = self.lay_out(steps, method, allocation)?;
        self.prepared = Some(prepared);
        Ok(sizes)
    }

    fn sample(&mut self, n: usize) -> Result<Vec<Vec<Sample>>, Failure> {
        Ok(self.prepared()?.sample(n)?)
    }

    fn verify(&mut self) -> Result<Vec<Verdict>, Failure> {
        Ok(self.prepared()?.verify()?)
    }

    fn release(&mut self) {
        self.put_away();
    }

    fn states(&mut self) -> Vec<GpuState> {
        self.states.as_ref().map(NvmlStates::states).unwrap_or_default()
    }

    fn counters(&mut self) -> Reading {
        self.put_away();
        let mut reading = self.states.as_ref().map(NvmlStates::counters).unwrap_or_default();
        self.files.read(&mut reading);
        Reading { moved: self.sent.clone(), uncounted: self.uncounted, ..reading }
    }

    fn now(&mut self) -> Seconds {
        Seconds::new(self.began.elapsed().as_secs_f64())
    }
}

fn single<P: Prepared + 'static>((prepared, size): (P, Bytes)) -> (Box<dyn Prepared>, Vec<Bytes>) {
    (Box::new(prepared), vec![size])
}

/// Whether a transfer blocks the thread that asks for it, so that no gate can hold it.
fn holds_up_the_cpu(transfer: &Transfer) -> bool {
    transfer.memory != HostMemory::Pinned && transfer.engine != Engine::Nic && transfer.via == Via::Direct
}
