//! A safe interface to NVML: a session, its devices, and one value per call.
//!
//! Any function may be absent and any call may fail: each returns a `Problem` that says which in a few words.
//! NVML can hang on a GPU that has fallen off the bus, so it should be called in a process that can be killed.

mod counters;
mod device;
mod states;
#[cfg(test)]
pub(crate) mod testing;
mod traffic;
mod words;

pub use states::{NvmlStates, Tolerated};
pub use traffic::Traffic;

pub(crate) use device::Device;
pub(crate) use words::WORDS_OF_P2P;

use std::ffi::{CString, c_char, c_uint};
use std::fmt;
use std::ptr;
use std::sync::{Mutex, OnceLock, PoisonError};

use peerlane_machine::fabric::PciAddress;
use peerlane_machine::one_line::shown;

use crate::bindings::nvml as ffi;
use crate::foreign::{self, MOST_GPUS};
use crate::library::LibraryError;
use crate::open;
use crate::timeline;

/// Why NVML returned no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    /// This library has no such function.
    Lacks(&'static str),
    /// It wrote more than its header says.
    Overran(&'static str),
    /// It reported success, and what it gave cannot be: the function, and what.
    Nonsense(&'static str, String),
    /// NVML's error code and message.
    Call(ffi::nvmlReturn_t, String),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Lacks(function) => write!(f, "this driver has no {function}"),
            Problem::Overran(function) => write!(f, "{function} wrote more than the header says: not relied on"),
            Problem::Nonsense(function, what) => write!(f, "NVML's {function}: {what}"),
            Problem::Call(_, words) => f.write_str(words),
        }
    }
}

impl Problem {
    /// Whether it is this NVML error.
    pub(crate) fn is(&self, code: ffi::nvmlReturn_t) -> bool {
        matches!(self, Problem::Call(own, _) if *own == code)
    }
}

/// NVML, initialised; dropping it shuts NVML down.
#[derive(Debug)]
pub(crate) struct Session {
    functions: ffi::Nvml,
    file: Option<String>,
    /// What was not initialised must not be shut down.
    initialised: bool,
}

/// Room for a value, and behind it for what a call writes beyond: that must not reach anything else of ours.
#[repr(C)]
struct Room<T> {
    value: T,
    beyond: [u64; 64],
}

impl<T> Room<T> {
    fn new(value: T) -> Self {
        Room { value, beyond: [0; 64] }
    }

    /// The address of the value. It is one of the whole, so that writing behind the value stays within what it may reach.
    fn place(room: &mut Self) -> *mut T {
        ptr::from_mut(room).cast()
    }

    /// The value, unless the call wrote more than its header says: then nothing it wrote is to be relied on.
    fn checked(self, function: &'static str) -> Result<T, Problem> {
        // the array lies in memory that a foreign function has had the address of
        if std::hint::black_box(self.beyond) == [0; 64] { Ok(self.value) } else { Err(Problem::Overran(function)) }
    }
}

/// Calls a function whose last argument is where it puts the value, which begins as the one given and has the type that the
/// header states. Each use is in an `unsafe` block whose comment states why the other arguments are what the function needs.
macro_rules! ask {
    ($session:expr, $function:ident($($argument:expr),* $(,)?), $value:expr) => {{
        let session: &Session = $session;
        let mut room = $crate::nvml::Room::new($value);
        let place = $crate::nvml::Room::place(&mut room);
        match session.functions.$function {
            None => Err(Problem::Lacks(stringify!($function))),
            Some(function) => session
                .told(function($($argument,)* place))
                .and_then(|()| room.checked(stringify!($function))),
        }
    }};
}
use ask;

/// Initialises NVML for this process, and leaves it so: sessions then open at once.
pub(crate) fn start_ahead() {
    static KEPT: OnceLock<Option<Session>> = OnceLock::new();
    let _span = timeline::begin("nvmlInit");
    KEPT.get_or_init(|| Session::open().ok());
}

impl Session {
    /// Opens the library and initialises it.
    ///
    /// The error is one line for the user.
    pub(crate) fn open() -> Result<Self, String> {
        // one after the other: a second initialisation waits for the first, and only counts up
        static STARTING: Mutex<()> = Mutex::new(());
        let _turn = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = open::nvml().map_err(|e: LibraryError| e.to_string())?;
        let file = shown(opened.library().file());
        // the library stays open until the process ends, so that its functions outlive the guard
        Self::start(*opened, Some(file))
    }

    /// Initialises a library that was opened.
    pub(crate) fn start(functions: ffi::Nvml, file: Option<String>) -> Result<Self, String> {
        let mut session = Session { functions, file, initialised: false };
        // SAFETY: takes nothing; a second initialisation only counts up.
        let code = session.functions.nvmlInit_v2.map(|init| unsafe { init() });
        match code.map(|code| session.told(code)) {
            Some(Ok(())) => {
                session.initialised = true;
                Ok(session)
            }
            Some(Err(problem)) => Err(session.meaning(&problem)),
            None => Err("NVML: this library has no nvmlInit_v2".to_owned()),
        }
    }

    /// The message for a failed initialisation, with advice.
    fn meaning(&self, problem: &Problem) -> String {
        let Problem::Call(code, words) = problem else { return format!("NVML: {problem}") };
        let file = self.file.as_deref().unwrap_or("libnvidia-ml.so.1");
        match *code {
            ffi::nvmlReturn_t::NVML_ERROR_LIB_RM_VERSION_MISMATCH => format!(
                "NVML: driver/library version mismatch: {file} is of another version than the kernel module that is \
                 loaded, as after an update; reboot, or load the module again (in a container: use the host's libraries)"
            ),
            ffi::nvmlReturn_t::NVML_ERROR_DRIVER_NOT_LOADED => {
                "NVML: the NVIDIA kernel module is not loaded, or its devices are not visible here (modprobe nvidia; \
                 in a container: start it with its GPUs)"
                    .to_owned()
            }
            ffi::nvmlReturn_t::NVML_ERROR_NO_PERMISSION => {
                "NVML: no permission: this user may not open /dev/nvidiactl".to_owned()
            }
            ffi::nvmlReturn_t::NVML_ERROR_GPU_IS_LOST | ffi::nvmlReturn_t::NVML_ERROR_IRQ_ISSUE => {
                format!("NVML: {words}: a GPU does not answer; see dmesg for Xid messages")
            }
            _ => format!("NVML: {words}"),
        }
    }

    /// The file of the library.
    pub(crate) fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// NVML's answer to a call.
    fn told(&self, code: ffi::nvmlReturn_t) -> Result<(), Problem> {
        if code == ffi::nvmlReturn_t::NVML_SUCCESS {
            return Ok(());
        }
        let words = self.functions.nvmlErrorString.and_then(|describe| {
            // SAFETY: any number may be asked.
            let words = unsafe { describe(code) };
            // SAFETY: null, or a text of the library's own, which it terminates and never frees.
            unsafe { foreign::text_at(words) }
        });
        Err(Problem::Call(code, words.unwrap_or_else(|| format!("NVML error {}", code.0))))
    }

    /// Version of the driver.
    pub(crate) fn driver(&self) -> Result<String, Problem> {
        const NAME: &str = "nvmlSystemGetDriverVersion";
        let function = self.functions.nvmlSystemGetDriverVersion.ok_or(Problem::Lacks(NAME))?;
        // SAFETY: the session is initialised, and `text` gives a buffer of the length that it states.
        self.text(NAME, |buffer, length| unsafe { function(buffer, length) })
    }

    /// Version of NVML.
    pub(crate) fn version(&self) -> Result<String, Problem> {
        const NAME: &str = "nvmlSystemGetNVMLVersion";
        let function = self.functions.nvmlSystemGetNVMLVersion.ok_or(Problem::Lacks(NAME))?;
        // SAFETY: the session is initialised, and `text` gives a buffer of the length that it states.
        self.text(NAME, |buffer, length| unsafe { function(buffer, length) })
    }

    /// Version of CUDA that the driver speaks: `13.0`.
    pub(crate) fn cuda(&self) -> Result<String, Problem> {
        // SAFETY: takes nothing but the place of the value.
        let number = unsafe { ask!(self, nvmlSystemGetCudaDriverVersion_v2(), 0) }?;
        let number = foreign::bounded("as its version of CUDA", number, 1000, 999_999)
            .map_err(|what| Problem::Nonsense("nvmlSystemGetCudaDriverVersion_v2", what))?;
        Ok(format!("{}.{}", number / 1000, number % 1000 / 10))
    }

    /// How many GPUs there are.
    pub(crate) fn count(&self) -> Result<u32, Problem> {
        // SAFETY: takes nothing but the place of the value.
        let count = unsafe { ask!(self, nvmlDeviceGetCount_v2(), 0) }?;
        foreign::bounded("GPUs", count, 0, MOST_GPUS).map_err(|what| Problem::Nonsense("nvmlDeviceGetCount_v2", what))
    }

    /// The GPU of that number.
    pub(crate) fn device(&self, index: u32) -> Result<Device<'_>, Problem> {
        // SAFETY: any index may be asked.
        let handle = unsafe { ask!(self, nvmlDeviceGetHandleByIndex_v2(index), ptr::null_mut()) }?;
        Device::new(self, handle).ok_or_else(|| null("nvmlDeviceGetHandleByIndex_v2"))
    }

    /// The GPU at an address.
    pub(crate) fn device_at(&self, address: PciAddress) -> Result<Device<'_>, Problem> {
        let name = CString::new(address.to_string()).unwrap_or_default();
        // SAFETY: the name ends with a zero, and outlives the call.
        let handle = unsafe { ask!(self, nvmlDeviceGetHandleByPciBusId_v2(name.as_ptr()), ptr::null_mut()) }?;
        Device::new(self, handle).ok_or_else(|| null("nvmlDeviceGetHandleByPciBusId_v2"))
    }

    /// A text that a call writes into a buffer.
    fn text(
        &self,
        function: &'static str,
        call: impl FnOnce(*mut c_char, c_uint) -> ffi::nvmlReturn_t,
    ) -> Result<String, Problem> {
        /// The longest that NVML has is 96.
        const LENGTH: usize = 128;
        let mut room = Room::new([0; LENGTH]);
        self.told(call(Room::place(&mut room).cast(), LENGTH as c_uint))?;
        text_in(function, &room.checked(function)?)
    }
}

/// A text up to its zero, which must be there.
fn text_in(function: &'static str, buffer: &[c_char]) -> Result<String, Problem> {
    let without_end = || Problem::Nonsense(function, format!("a text without an end in {} bytes", buffer.len()));
    foreign::text_in(buffer).ok_or_else(without_end)
}

/// Success without a handle.
fn null(function: &'static str) -> Problem {
    Problem::Nonsense(function, "success without a result (null)".to_owned())
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(shutdown) = self.functions.nvmlShutdown.filter(|_| self.initialised) {
            // SAFETY: it was initialised; handles borrow the session, and so are gone. What it says helps nobody any more.
            let _ = unsafe { shutdown() };
        }
    }
}

#[cfg(test)]
mod lies;

#[cfg(test)]
mod tests {
    use super::testing::{self, Fake};
    use super::*;
    use crate::library::Table;

    #[test]
    fn a_failed_start_is_one_line_that_says_what_to_do() {
        let line = |code| Session::start(testing::refusing(code), Some("/usr/lib/libnvidia-ml.so.1".to_owned())).err();
        let mismatch = line(ffi::nvmlReturn_t::NVML_ERROR_LIB_RM_VERSION_MISMATCH).unwrap();
        assert!(mismatch.contains("driver/library version mismatch: /usr/lib/libnvidia-ml.so.1 is"), "{mismatch}");
        let unloaded = line(ffi::nvmlReturn_t::NVML_ERROR_DRIVER_NOT_LOADED).unwrap();
        assert!(unloaded.contains("kernel module is not loaded"), "{unloaded}");
        assert!(line(ffi::nvmlReturn_t::NVML_ERROR_NO_PERMISSION).unwrap().contains("no permission"));
        assert_eq!(line(ffi::nvmlReturn_t::NVML_ERROR_UNKNOWN).unwrap(), "NVML: NVML error 999");
        assert!(Session::start(ffi::Nvml::NONE, None).err().unwrap().contains("nvmlInit_v2"));
    }

    #[test]
    fn a_library_without_functions_lacks_them() {
        let bare = ffi::Nvml { nvmlInit_v2: Fake::table().nvmlInit_v2, ..ffi::Nvml::NONE };
        let session = Session::start(bare, None).unwrap();
        assert_eq!(session.count(), Err(Problem::Lacks("nvmlDeviceGetCount_v2")));
        assert_eq!(session.driver().unwrap_err().to_string(), "this driver has no nvmlSystemGetDriverVersion");
    }

    #[test]
    fn versions_and_devices() {
        let session = Session::start(Fake::table(), None).unwrap();
        assert_eq!(session.driver().as_deref(), Ok("580.1"));
        assert_eq!((session.cuda().as_deref(), session.count()), (Ok("13.0"), Ok(3)));
        assert!(session.device(0).is_ok());
        let lost = session.device(2).err().unwrap();
        assert!(lost.is(ffi::nvmlReturn_t::NVML_ERROR_GPU_IS_LOST));
        assert_eq!(lost.to_string(), "GPU is lost");
        assert!(session.device_at("0000:02:00.0".parse().unwrap()).is_ok());
        assert!(session.device_at("0000:09:00.0".parse().unwrap()).is_err());
    }
}
