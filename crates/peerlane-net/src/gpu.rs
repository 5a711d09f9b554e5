//! GPU memory at an agent's end: sides of steps that need CUDA are in a process of their own, which this one starts, tells what
//! to do a line at a time, and kills when it hangs. So an agent never loads CUDA, and outlives what a driver does.

mod process;
mod serve;

use std::io;
use std::net::IpAddr;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use peerlane_gpu::search;
use peerlane_gpu::session::Killer;
use peerlane_machine::transfer::Registration;
use peerlane_machine::units::Seconds;
use peerlane_measure::measure::{Failure, Verdict};
use peerlane_measure::nodes::{Nic, NodeGpu, Step, Transport};
use peerlane_measure::run::FlagKind;
use serde::{Deserialize, Serialize};

use crate::message;
use crate::secret::Secret;
use crate::transport::{Part, Side};
use process::Process;
pub use serve::serve_gpus;

/// The hidden command of the program that calls [`serve_gpus`].
pub const COMMAND: &str = "gpu-sides";

/// How long the driver may take to open all GPUs.
const OPENING: Duration = Duration::from_secs(40);

/// How long a driver may take to give an adapter a GPU's memory, and for all adapters of a node.
const REGISTERING: Duration = Duration::from_secs(5);
const REGISTERING_ALL: Duration = Duration::from_secs(10);

/// How long a side may take to let go of a step.
const LEAVING: Duration = Duration::from_secs(2);

/// How long the side that serves may go on after the other one has its samples.
const GRACE: Duration = Duration::from_secs(1);

/// How often a wait looks around.
const LOOK: Duration = Duration::from_millis(5);

/// By how much the agent waits longer for an answer than the side has for it.
const LONGER: f64 = 1.2;

/// Times that a side may take all of its patience while it samples: to start, for the samples, and until all has arrived.
const SAMPLING: u32 = 3;

/// What the process is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Ask {
    /// Open the GPUs, and say which there are.
    Open,
    /// Say how a NIC's adapter gets at a GPU's memory.
    Register {
        nic: String,
        gpu: String,
    },
    Prepare {
        step: Box<Step>,
        part: Part,
        at: Option<Listening>,
    },
    Connect {
        peer: String,
    },
    Sample {
        samples: usize,
        time: Seconds,
    },
    Serve,
    /// End serving; this alone has no answer.
    Stop,
    Verify,
    /// Let go of the step.
    Leave,
}

/// Where other nodes reach this one, and what they must know.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Listening {
    address: IpAddr,
    key: Vec<u8>,
}

/// What it answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Answer {
    Opened(Found),
    Registered {
        registration: Option<Registration>,
        why: Option<String>,
    },
    Address(String),
    Done,
    Values(Vec<f64>),
    Verdict(message::Verdict),
    Failed {
        kind: FlagKind,
        message: String,
        /// Whether nothing of this process can be relied on after it.
        #[serde(default = "always")]
        ends: bool,
    },
}

fn always() -> bool {
    true
}

/// What there is to measure with on this node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// GPUs that CUDA shows and nobody else uses.
    pub gpus: Vec<NodeGpu>,
    /// NCCL's version.
    pub nccl: Option<String>,
    /// What is missing, in sentences.
    pub notes: Vec<String>,
}

/// What is started: this program, or what a test has in its place.
type Program = dyn Fn() -> io::Result<Command> + Send + Sync;

/// The GPUs of this node, by way of their process.
pub struct GpuSides {
    program: Box<Program>,
    process: Mutex<Option<Process>>,
    at: Mutex<Option<Listening>>,
    /// Ends the process while somebody waits for its answer.
    killer: Mutex<Option<Killer>>,
    /// Whether a driver is opening the GPUs, which takes longer than a step.
    opening: AtomicBool,
    /// How many GPUs there are.
    shown: AtomicUsize,
    /// Number of the side that has the process.
    number: AtomicU64,
}

impl GpuSides {
    /// Opens the GPUs of this node. What fails is in the notes.
    pub fn open() -> (Arc<GpuSides>, Found) {
        let program = || {
            let mut command = search::own_command()?;
            command.arg(COMMAND);
            Ok(command)
        };
        GpuSides::of(Box::new(program))
    }

    fn of(program: Box<Program>) -> (Arc<GpuSides>, Found) {
        let sides = Arc::new(GpuSides {
            program,
            process: Mutex::default(),
            at: Mutex::default(),
            killer: Mutex::default(),
            opening: AtomicBool::default(),
            shown: AtomicUsize::default(),
            number: AtomicU64::default(),
        });
        let found = match sides.lock(OPENING).map(|mut process| sides.running(&mut process).cloned()) {
            Ok(Ok(found)) => found,
            Ok(Err(failure)) | Err(failure) => {
                Found { notes: vec![format!("GPUs: {}", failure.message)], ..Found::default() }
            }
        };
        sides.shown.store(found.gpus.len(), Ordering::Relaxed);
        if found.gpus.is_empty() {
            sides.end(&mut sides.process.lock().unwrap_or_else(PoisonError::into_inner));
        }
        (sides, found)
    }

    /// Finds out how NICs get at the memory of the GPUs that are named beside them. Those of which that is not found out have none
    /// after it; why, in sentences.
    pub fn register(self: &Arc<Self>, nics: &mut [Nic]) -> Vec<String> {
        let (began, mut notes, mut hung) = (Instant::now(), Vec::new(), false);
        for nic in nics {
            let Some(gpu) = &mut nic.gpu else { continue };
            let asked = Ask::Register { nic: nic.name.clone(), gpu: gpu.name.clone() };
            let answer = if hung || began.elapsed() > REGISTERING_ALL {
                Err(Failure::new(FlagKind::Hung, "others took too long"))
            } else {
                self.lock(REGISTERING).and_then(|mut process| self.ask(&mut process, &asked, REGISTERING))
            };
            match answer {
                Ok(Answer::Registered { registration, why }) => (gpu.registration, gpu.why) = (registration, why),
                other => {
                    hung = true;
                    let why = other.map_or_else(|failure| failure.message, |answer| unexpected(&answer).message);
                    notes.push(format!("{}: whether it takes GPU memory is not known: {why}", nic.name));
                    nic.gpu = None;
                }
            }
        }
        self.revive();
        notes
    }

    /// Starts the process again where it has ended, beside whoever needs it next.
    fn revive(self: &Arc<Self>) {
        let ended = |process: &mut Option<Process>| process.as_mut().is_none_or(Process::has_ended);
        let needed =
            self.shown.load(Ordering::Relaxed) > 0 && self.process.try_lock().is_ok_and(|mut held| ended(&mut held));
        if needed {
            let sides = Arc::clone(self);
            let open = move || drop(sides.lock(OPENING).map(|mut process| sides.running(&mut process).map(drop)));
            // without a thread the next step opens them
            let _ = thread::Builder::new().name("GPUs again".to_owned()).spawn(open);
        }
    }

    /// Asks the process. After one that it does not outlive, what comes next gets a new process.
    fn ask(&self, held: &mut Option<Process>, ask: &Ask, patience: Duration) -> Result<Answer, Failure> {
        let Some(process) = held else {
            return Err(Failure::new(FlagKind::Failed, "the GPUs' process has ended"));
        };
        let answer = process.ask(ask, patience);
        self.checked(answer, held)
    }

    fn checked(&self, answer: Result<Answer, Failure>, held: &mut Option<Process>) -> Result<Answer, Failure> {
        let (answer, ends) = match answer {
            Ok(Answer::Failed { kind, message, ends }) => {
                (Err(Failure::new(kind, message)), ends && kind != FlagKind::NotApplicable)
            }
            Ok(answer) => (Ok(answer), false),
            Err(failure) => (Err(failure), true),
        };
        if ends {
            self.end(held);
        }
        answer
    }

    /// Where TCP is to listen, with the run's secret.
    pub(crate) fn listen(&self, address: IpAddr, secret: &Secret) {
        let at = Listening { address, key: secret.key().to_vec() };
        *self.at.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
    }

    /// This node's side of a step.
    pub(crate) fn side(self: &Arc<Self>, step: &Step, part: Part) -> Result<GpuSide, Failure> {
        let patience = Duration::from_secs_f64((LONGER * part.patience.seconds()).clamp(0.1, 3600.0));
        // an adapter's earlier step ends by itself in that time; one of NCCL's may never
        let is_nccl = step.transport == Transport::Nccl;
        let number = {
            let mut process = self.lock(if is_nccl { patience / 4 } else { patience })?;
            self.running(&mut process)?;
            1 + self.number.fetch_add(1, Ordering::Relaxed)
        };
        let sampling = if is_nccl { patience } else { SAMPLING * patience };
        let mut side = GpuSide { sides: Arc::clone(self), number, patience, sampling, address: String::new() };
        let at = self.at.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match side.ask(Ask::Prepare { step: Box::new(step.clone()), part, at }, patience)? {
            Answer::Address(address) => side.address = address,
            other => return Err(unexpected(&other)),
        }
        Ok(side)
    }

    /// The process, once nobody else talks to it: whoever does not let go of it in time loses it.
    fn lock(&self, patience: Duration) -> Result<MutexGuard<'_, Option<Process>>, Failure> {
        let began = Instant::now();
        let mut killed = false;
        loop {
            match self.process.try_lock() {
                Ok(process) => return Ok(process),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if began.elapsed() < patience => {}
                Err(TryLockError::WouldBlock) if self.opening.load(Ordering::Relaxed) => {
                    return Err(Failure::new(FlagKind::Failed, "the GPUs are being opened again"));
                }
                Err(TryLockError::WouldBlock) if !killed => {
                    killed = true;
                    self.kill();
                }
                Err(TryLockError::WouldBlock) if began.elapsed() < 2 * patience + LEAVING => {}
                Err(TryLockError::WouldBlock) => {
                    return Err(Failure::new(FlagKind::Hung, "an earlier step still holds the GPUs' process"));
                }
            }
            thread::sleep(LOOK);
        }
    }

    fn kill(&self) {
        if let Some(killer) = &*self.killer.lock().unwrap_or_else(PoisonError::into_inner) {
            killer.kill();
        }
    }

    /// The process's GPUs; it is started where it does not run.
    fn running<'p>(&self, process: &'p mut Option<Process>) -> Result<&'p Found, Failure> {
        if process.as_mut().is_none_or(Process::has_ended) {
            self.end(process);
            let failed = |e: io::Error| Failure::new(FlagKind::Failed, format!("cannot start a process: {e}"));
            let mut started = (self.program)().and_then(Process::start).map_err(failed)?;
            *self.killer.lock().unwrap_or_else(PoisonError::into_inner) = Some(started.session.killer());
            self.opening.store(true, Ordering::Relaxed);
            let opened = started.ask(&Ask::Open, OPENING);
            self.opening.store(false, Ordering::Relaxed);
            match opened? {
                Answer::Opened(found) => started.found = found,
                other => return Err(unexpected(&other)),
            }
            // GPUs of a process that is still ending are not shown; the next step tries again
            let (shown, all) = (started.found.gpus.len(), self.shown.load(Ordering::Relaxed));
            if shown < all {
                let why = started.found.notes.first().map_or_else(String::new, |why| format!(" ({why})"));
                return Err(Failure::new(
                    FlagKind::Failed,
                    format!("{shown} of {all} GPUs could be opened again{why}"),
                ));
            }
            *process = Some(started);
        }
        match process {
            Some(process) => Ok(&process.found),
            None => Err(Failure::new(FlagKind::Failed, "there is no process for the GPUs")),
        }
    }

    fn end(&self, process: &mut Option<Process>) {
        *self.killer.lock().unwrap_or_else(PoisonError::into_inner) = None;
        *process = None;
    }
}

fn unexpected(answer: &Answer) -> Failure {
    match answer {
        Answer::Failed { kind, message, .. } => Failure::new(*kind, message),
        other => Failure::new(FlagKind::Failed, format!("the GPUs' process answered {other:?}")),
    }
}

/// One side of a step, in the GPUs' process.
pub(crate) struct GpuSide {
    sides: Arc<GpuSides>,
    number: u64,
    patience: Duration,
    /// The longest that samples take, beside their own time.
    sampling: Duration,
    address: String,
}

impl GpuSide {
    fn ask(&self, ask: Ask, patience: Duration) -> Result<Answer, Failure> {
        let mut held = self.sides.lock(patience)?;
        self.sides.ask(&mut held, &ask, patience)
    }
}

impl Side for GpuSide {
    fn address(&self) -> String {
        self.address.clone()
    }

    fn connect(&mut self, peer: &str) -> Result<(), Failure> {
        match self.ask(Ask::Connect { peer: peer.to_owned() }, self.patience)? {
            Answer::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    fn sample(&mut self, n: usize, time: Seconds) -> Result<Vec<f64>, Failure> {
        let wanted = Duration::from_secs_f64((n as f64 * time.seconds()).clamp(0.0, 3600.0));
        match self.ask(Ask::Sample { samples: n, time }, self.sampling + wanted)? {
            Answer::Values(values) => Ok(values),
            other => Err(unexpected(&other)),
        }
    }

    fn serve(&mut self, until: &dyn Fn() -> bool) -> Result<(), Failure> {
        let mut held = self.sides.lock(self.patience)?;
        let Some(process) = &mut *held else {
            return Err(Failure::new(FlagKind::Failed, "the GPUs' process has ended"));
        };
        let answer = process.serve(until);
        match self.sides.checked(answer, &mut held)? {
            Answer::Done => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    fn verify(&mut self) -> Result<Verdict, Failure> {
        match self.ask(Ask::Verify, self.patience)? {
            Answer::Verdict(verdict) => Ok(verdict.into()),
            other => Err(unexpected(&other)),
        }
    }
}

impl Drop for GpuSide {
    fn drop(&mut self) {
        // a process that does not let go is killed by this; a later side has let go of this one's
        if let Ok(mut held) = self.sides.lock(LEAVING)
            && self.sides.number.load(Ordering::Relaxed) == self.number
        {
            let _ = self.sides.ask(&mut held, &Ask::Leave, LEAVING);
        }
        self.sides.revive();
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests;
