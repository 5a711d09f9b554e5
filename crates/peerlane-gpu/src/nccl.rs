//! NCCL, where its library is here.

use std::cell::RefCell;
use std::ffi::CStr;
use std::ptr;
use std::sync::OnceLock;

use crate::bindings::nccl::{Nccl, ncclComm_t, ncclDataType_t, ncclRedOp_t, ncclResult_t};
use crate::cuda::{Part, Stream};
use crate::library::{self, Opened};
use crate::live::Problem;

/// The library, opened.
pub(crate) struct Loaded {
    api: Opened<Nccl>,
    /// Which file.
    pub(crate) file: String,
}

const FLOAT: ncclDataType_t = ncclDataType_t::ncclFloat32;
const SUM: ncclRedOp_t = ncclRedOp_t::ncclSum;

/// What a rank does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    AllReduce,
    AllGather,
    ReduceScatter,
    /// From rank 0.
    Broadcast,
    /// To a rank.
    Send(usize),
    /// From a rank.
    Receive(usize),
}

macro_rules! call {
    ($loaded:expr, $name:ident($($argument:expr),* $(,)?)) => {
        match $loaded.api.$name {
            // SAFETY: the function has the signature that the vendor's header gives it; that its arguments are valid is
            // for the place of the call to say.
            Some(function) => $loaded.check(stringify!($name), unsafe { function($($argument),*) }),
            None => Err(Problem::NotApplicable(format!("this NCCL ({}) has no {}", $loaded.file, stringify!($name)))),
        }
    };
}

impl Loaded {
    /// Opens it, once a process. The error is one line.
    pub(crate) fn open() -> Result<&'static Loaded, String> {
        static LOADED: OnceLock<Result<Loaded, String>> = OnceLock::new();
        LOADED.get_or_init(Self::load).as_ref().map_err(Clone::clone)
    }

    fn load() -> Result<Loaded, String> {
        let api = library::nccl().map_err(|e| e.to_string())?;
        let loaded = Loaded { file: api.library().file().display().to_string(), api };
        Ok(loaded)
    }

    /// Its version, as it names it: `2.28.9`.
    pub(crate) fn version(&self) -> Option<String> {
        let mut version = 0;
        call!(self, ncclGetVersion(&mut version)).ok()?;
        // from 2.9 on, major · 10000 + minor · 100 + patch
        Some(format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100))
    }

    fn check(&self, name: &str, code: ncclResult_t) -> Result<(), Problem> {
        if code == ncclResult_t::ncclSuccess || code == ncclResult_t::ncclInProgress {
            return Ok(());
        }
        let text = self.api.ncclGetErrorString.map(|describe| {
            // SAFETY: it gives a static, terminated string for any code.
            unsafe { CStr::from_ptr(describe(code)) }.to_string_lossy().into_owned()
        });
        Err(Problem::Failed(format!("{name}: {} (NCCL error {})", text.unwrap_or_default(), code.0)))
    }
}

/// One communicator a rank.
pub(crate) struct Communicators {
    /// Whose they are.
    pub(crate) loaded: &'static Loaded,
    /// Empty once they were aborted.
    all: RefCell<Vec<ncclComm_t>>,
}

impl Communicators {
    /// Joins devices, by CUDA's ordinals. This takes seconds, and starts threads of NCCL's own.
    pub(crate) fn join(loaded: &'static Loaded, devices: &[i32]) -> Result<Self, Problem> {
        let count = i32::try_from(devices.len()).map_err(|_| Problem::Failed("too many ranks".to_owned()))?;
        let mut all = vec![ptr::null_mut(); devices.len()];
        call!(loaded, ncclCommInitAll(all.as_mut_ptr(), count, devices.as_ptr()))?;
        Ok(Communicators { loaded, all: RefCell::new(all) })
    }

    /// Starts what `work` asks for as one operation of all ranks.
    pub(crate) fn grouped(&self, work: impl FnOnce(&Self) -> Result<(), Problem>) -> Result<(), Problem> {
        call!(self.loaded, ncclGroupStart())?;
        let outcome = work(self);
        let ended = call!(self.loaded, ncclGroupEnd());
        outcome.and(ended)
    }

    /// Asks for one rank's part. Numbers are 32-bit floating point, and are summed. Within [`Self::grouped`].
    pub(crate) fn call(
        &self,
        rank: usize,
        operation: Operation,
        send: Part,
        receive: Part,
        count: usize,
        stream: &Stream,
    ) -> Result<(), Problem> {
        let Some(comm) = self.all.borrow().get(rank).copied() else {
            return Err(Problem::Failed(format!("no rank {rank}")));
        };
        let loaded = self.loaded;
        let stream = stream.handle();
        let (from, to) = (send.address() as *const _, receive.address() as *mut _);
        let peer = |rank: usize| i32::try_from(rank).unwrap_or(i32::MAX);
        match operation {
            Operation::AllReduce => call!(loaded, ncclAllReduce(from, to, count, FLOAT, SUM, comm, stream)),
            Operation::AllGather => call!(loaded, ncclAllGather(from, to, count, FLOAT, comm, stream)),
            Operation::ReduceScatter => {
                call!(loaded, ncclReduceScatter(from, to, count, FLOAT, SUM, comm, stream))
            }
            Operation::Broadcast => call!(loaded, ncclBroadcast(from, to, count, FLOAT, 0, comm, stream)),
            Operation::Send(to) => call!(loaded, ncclSend(from, count, FLOAT, peer(to), comm, stream)),
            Operation::Receive(from) => call!(loaded, ncclRecv(to, count, FLOAT, peer(from), comm, stream)),
        }
    }

    /// Whether an error has come up meanwhile.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        for comm in self.all.borrow().iter() {
            let mut state = ncclResult_t::ncclSuccess;
            call!(self.loaded, ncclCommGetAsyncError(*comm, &mut state))?;
            self.loaded.check("NCCL", state)?;
        }
        Ok(())
    }
}

impl Communicators {
    /// Gives them up after an error: kernels that wait for other ranks end, which nothing else makes them do.
    pub(crate) fn abort(&self) {
        for comm in self.all.take() {
            let _ = call!(self.loaded, ncclCommAbort(comm));
        }
    }

    /// Whether they were given up.
    pub(crate) fn aborted(&self) -> bool {
        self.all.borrow().is_empty()
    }
}

impl Drop for Communicators {
    fn drop(&mut self) {
        for comm in self.all.take() {
            let _ = call!(self.loaded, ncclCommDestroy(comm));
        }
    }
}
