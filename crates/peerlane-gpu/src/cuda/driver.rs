//! The driver's library, and what its calls say.

use std::ffi::CStr;
use std::fmt;
use std::ptr;
use std::sync::OnceLock;

use crate::bindings::cuda::{CUresult, Cuda};
use crate::library::{self, Opened};

/// A call of the driver's that did not succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CudaError {
    /// The call.
    pub(crate) call: &'static str,
    /// What it returned; `None` where this driver has no such call.
    pub(crate) code: Option<u32>,
    /// The driver's words for it.
    pub(crate) words: String,
}

impl CudaError {
    /// Errors after which a context answers every call with the same error (CUDA driver API, `CUresult`).
    pub(crate) fn is_sticky(&self) -> bool {
        /// `CUDA_ERROR_ECC_UNCORRECTABLE`, `_NVLINK_UNCORRECTABLE`, `_CONTAINED`, `_ILLEGAL_ADDRESS`, `_LAUNCH_TIMEOUT`,
        /// `_ASSERT`, `_HARDWARE_STACK_ERROR` to `_LAUNCH_FAILED`, `_TENSOR_MEMORY_LEAK`, `_DEVICE_UNAVAILABLE`,
        /// `_SYSTEM_NOT_READY`, `_UNKNOWN`.
        const STICKY: [u32; 17] = [46, 214, 220, 226, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721, 802, 804, 999];
        self.code.is_some_and(|code| STICKY.contains(&code))
    }

    /// Whether this driver or device cannot do it at all.
    pub(crate) fn is_not_supported(&self) -> bool {
        matches!(self.code, None | Some(801))
    }

    /// Whether a device has as many peers as it can have (`CUDA_ERROR_TOO_MANY_PEERS`).
    pub(crate) fn is_too_many_peers(&self) -> bool {
        self.code == Some(711)
    }

    /// Whether there was too little memory.
    pub(crate) fn is_out_of_memory(&self) -> bool {
        self.code == Some(2)
    }
}

impl fmt::Display for CudaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Some(code) => write!(f, "{}: {} (CUDA error {code})", self.call, self.words),
            None => write!(f, "{}: this driver has no such call; it needs at least version 535", self.call),
        }
    }
}

impl std::error::Error for CudaError {}

/// The driver, opened and initialised.
pub(crate) struct Driver {
    pub(crate) api: Opened<Cuda>,
    /// Which file was loaded.
    pub(crate) file: String,
}

/// Calls a function of the driver's by its name, and turns its result into one of ours. The caller states why the
/// call is sound.
macro_rules! call {
    ($driver:expr, $name:ident($($argument:expr),* $(,)?)) => {
        match $driver.api.$name {
            // SAFETY: the function has the signature that the vendor's header gives it; that its arguments are valid is
            // for the place of the call to say.
            Some(function) => $driver.check(stringify!($name), unsafe { function($($argument),*) }),
            None => Err($crate::cuda::CudaError { call: stringify!($name), code: None, words: String::new() }),
        }
    };
}
pub(crate) use call;

impl Driver {
    /// Opens and initialises the driver, once a process.
    ///
    /// The error is one line: no library, too old a driver, or what `cuInit` says.
    pub(crate) fn open() -> Result<&'static Driver, String> {
        static DRIVER: OnceLock<Result<Driver, String>> = OnceLock::new();
        DRIVER.get_or_init(Self::load).as_ref().map_err(Clone::clone)
    }

    fn load() -> Result<Driver, String> {
        let api = library::cuda().map_err(|e| e.to_string())?;
        let driver = Driver { file: api.library().file().display().to_string(), api };
        call!(driver, cuInit(0)).map_err(|e| match e.code {
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
        call!(self, cuDriverGetVersion(&mut version)).ok()?;
        Some((version / 1000, version % 1000 / 10))
    }

    /// A result as ours.
    pub(crate) fn check(&self, call: &'static str, code: CUresult) -> Result<(), CudaError> {
        if code == CUresult::CUDA_SUCCESS {
            return Ok(());
        }
        let mut words = ptr::null();
        let known = self.api.cuGetErrorString.is_some_and(|describe| {
            // SAFETY: the driver writes the address of a static string, or null.
            (unsafe { describe(code, &mut words) }) == CUresult::CUDA_SUCCESS && !words.is_null()
        });
        let words = if known {
            // SAFETY: a string of the driver's own, terminated, and never freed.
            unsafe { CStr::from_ptr(words) }.to_string_lossy().into_owned()
        } else {
            "unknown error".to_owned()
        };
        Err(CudaError { call, code: Some(code.0), words })
    }
}
