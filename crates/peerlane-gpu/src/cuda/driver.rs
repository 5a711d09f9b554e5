//! The driver's library, and what its calls say.

use std::fmt;
use std::ptr;
use std::sync::{Mutex, OnceLock, PoisonError, Weak};

use crate::bindings::cuda::{CUresult, Cuda};
use crate::foreign;
use crate::open;
use crate::timeline;
use peerlane_machine::one_line::shown;

/// A call of the driver's that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CudaError {
    /// The call.
    pub(crate) call: &'static str,
    /// Why.
    pub(crate) reason: Reason,
}

/// Why a call of the driver's did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// This driver has no such call.
    Absent,
    /// The driver refused: its number and its words for it.
    Refused(u32, String),
    /// The driver reported success, and what it gave cannot be.
    Nonsense(String),
}

impl CudaError {
    /// Success with a value that cannot be.
    pub(crate) fn nonsense(call: &'static str, what: impl Into<String>) -> Self {
        CudaError { call, reason: Reason::Nonsense(what.into()) }
    }

    /// The driver's number for it.
    pub(crate) fn code(&self) -> Option<u32> {
        match self.reason {
            Reason::Refused(code, _) => Some(code),
            Reason::Absent | Reason::Nonsense(_) => None,
        }
    }

    /// Errors after which a context answers every call with the same error (CUDA driver API, `CUresult`).
    pub(crate) fn is_sticky(&self) -> bool {
        /// `CUDA_ERROR_ECC_UNCORRECTABLE`, `_NVLINK_UNCORRECTABLE`, `_CONTAINED`, `_ILLEGAL_ADDRESS`, `_LAUNCH_TIMEOUT`,
        /// `_ASSERT`, `_HARDWARE_STACK_ERROR` to `_LAUNCH_FAILED`, `_TENSOR_MEMORY_LEAK`, `_DEVICE_UNAVAILABLE`,
        /// `_SYSTEM_NOT_READY`, `_UNKNOWN`.
        const STICKY: [u32; 17] = [46, 214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 802, 804, 999];
        self.code().is_some_and(|code| STICKY.contains(&code))
    }

    /// Whether this driver or device cannot do it at all.
    pub(crate) fn is_not_supported(&self) -> bool {
        self.reason == Reason::Absent || self.code() == Some(801)
    }

    /// Whether a device has as many peers as it can have (`CUDA_ERROR_TOO_MANY_PEERS`).
    pub(crate) fn is_too_many_peers(&self) -> bool {
        self.code() == Some(711)
    }

    /// Whether there was too little memory.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        self.code() == Some(2)
    }
}

impl fmt::Display for CudaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reason {
            Reason::Refused(code, words) => write!(f, "{}: {words} (CUDA error {code})", self.call),
            Reason::Absent => write!(f, "{}: this driver has no such call; it needs at least version 535", self.call),
            Reason::Nonsense(what) => write!(f, "CUDA's {}: {what}", self.call),
        }
    }
}

impl std::error::Error for CudaError {}

/// What may have work in progress.
pub(super) trait Busy: Send + Sync {
    /// Waits until it has none.
    fn synchronize(&self) -> Result<(), CudaError>;
}

/// The driver, opened and initialised.
pub(crate) struct Driver {
    /// Its functions. Its library is never closed.
    pub(crate) api: Cuda,
    /// Which file was loaded.
    pub(crate) file: String,
    /// Contexts that may have work in progress.
    contexts: Mutex<Vec<Weak<dyn Busy>>>,
}

/// Calls a function of the driver's by its name, and turns its result into one of ours. Each use is in an `unsafe` block
/// whose comment states why the arguments are what the function needs.
macro_rules! call {
    ($driver:expr, $name:ident($($argument:expr),* $(,)?)) => {
        match $driver.api.$name {
            Some(function) => $driver.check(stringify!($name), function($($argument),*)),
            None => Err($crate::cuda::CudaError { call: stringify!($name), reason: $crate::cuda::Reason::Absent }),
        }
    };
}
pub(crate) use call;

/// A handle or address that a call gave, which must not be null.
pub(crate) fn present<T>(call: &'static str, handle: *mut T) -> Result<*mut T, CudaError> {
    if handle.is_null() { Err(CudaError::nonsense(call, "success without a result (null)")) } else { Ok(handle) }
}

impl Driver {
    /// Opens and initialises the driver, once a process.
    ///
    /// The error is one line: no library, too old a driver, or what `cuInit` says.
    pub(crate) fn open() -> Result<&'static Driver, String> {
        static DRIVER: OnceLock<Result<Driver, String>> = OnceLock::new();
        DRIVER.get_or_init(Self::load).as_ref().map_err(Clone::clone)
    }

    fn load() -> Result<Driver, String> {
        let _span = timeline::begin("cuInit");
        let opened = open::cuda().map_err(|e| e.to_string())?;
        Self::start(*opened, shown(opened.library().file()))
    }

    /// Initialises a driver that was opened.
    pub(crate) fn start(api: Cuda, file: String) -> Result<Driver, String> {
        let driver = Driver { api, file, contexts: Mutex::default() };
        // SAFETY: cuInit takes flags, of which there are none, and may be called again.
        unsafe { call!(driver, cuInit(0)) }.map_err(|e| match e.code() {
            Some(100) => "the driver sees no GPU (CUDA error 100)".to_owned(),
            Some(802) => format!("{e}; is the fabric manager running, and of the driver's version?"),
            Some(803 | 804) => format!("{e}; the driver's library and kernel module are of different versions"),
            _ => e.to_string(),
        })?;
        Ok(driver)
    }

    /// Version of CUDA that the driver speaks, such as (13, 0).
    pub(crate) fn version(&self) -> Option<(i32, i32)> {
        let mut version = 0;
        // SAFETY: the place is one int, and outlives the call.
        unsafe { call!(self, cuDriverGetVersion(&mut version)) }.ok()?;
        (1000..1_000_000).contains(&version).then_some((version / 1000, version % 1000 / 10))
    }

    /// A context that may get work from now on.
    pub(super) fn remember(&self, context: Weak<dyn Busy>) {
        let mut contexts = self.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        contexts.retain(|known| known.strong_count() > 0);
        contexts.push(context);
    }

    /// Waits until no device has work in progress, so that memory can be given back which any of it may use. A context that
    /// refuses has none any more: an error ends all of a context's work.
    pub(super) fn settle(&self) {
        let contexts = self.contexts.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for context in contexts.iter().filter_map(Weak::upgrade) {
            let _ = context.synchronize();
        }
    }

    /// A result as ours.
    pub(crate) fn check(&self, call: &'static str, code: CUresult) -> Result<(), CudaError> {
        if code == CUresult::CUDA_SUCCESS {
            return Ok(());
        }
        let mut words = ptr::null();
        let known = self.api.cuGetErrorString.is_some_and(|describe| {
            // SAFETY: the place is one pointer, and outlives the call; any number may be asked.
            (unsafe { describe(code, &mut words) }) == CUresult::CUDA_SUCCESS
        });
        // SAFETY: null, or a string of the driver's own, which it terminates and never frees.
        let words = if known { unsafe { foreign::text_at(words) } } else { None };
        Err(CudaError { call, reason: Reason::Refused(code.0, words.unwrap_or_else(|| "unknown error".to_owned())) })
    }
}
