//! Libraries that do no work and report what a test wants; every call is logged.

use std::cell::{Cell, RefCell};
use std::ffi::{c_char, c_int};
use std::ptr;
use std::sync::Mutex;

use crate::bindings::cuda::CUresult;
use crate::bindings::nccl::ncclResult_t;
use crate::bindings::nvml::nvmlReturn_t;

thread_local! {
    static CODE: Cell<u32> = const { Cell::new(0) };
    static LOG: RefCell<Vec<&'static str>> = const { RefCell::new(Vec::new()) };
}

/// What a function returns: the code that was set, or no text.
pub(crate) trait Answer {
    fn of(code: u32) -> Self;

    fn answer(call: &'static str) -> Self
    where
        Self: Sized,
    {
        log(call);
        Self::of(CODE.get())
    }
}

impl Answer for CUresult {
    fn of(code: u32) -> Self {
        CUresult(code)
    }
}

impl Answer for nvmlReturn_t {
    fn of(code: u32) -> Self {
        nvmlReturn_t(code)
    }
}

impl Answer for ncclResult_t {
    fn of(code: u32) -> Self {
        ncclResult_t(code)
    }
}

impl Answer for c_int {
    fn of(code: u32) -> Self {
        code as c_int
    }
}

impl Answer for () {
    fn of(_: u32) -> Self {}
}

impl<T> Answer for *mut T {
    fn of(_: u32) -> Self {
        ptr::null_mut()
    }
}

impl Answer for *const c_char {
    fn of(_: u32) -> Self {
        ptr::null()
    }
}

/// Lets all fakes of this thread return a code, 0 of which is success, and forgets what was called.
pub(crate) fn set(code: u32) {
    CODE.set(code);
    LOG.take();
}

pub(crate) fn log(call: &'static str) {
    LOG.with_borrow_mut(|log| log.push(call));
}

/// What was called since it was last asked.
pub(crate) fn called() -> Vec<&'static str> {
    LOG.take()
}

/// A value that lives as long as the process, and that a search for leaks finds.
pub(crate) fn keep<T: Send + Sync>(value: T) -> &'static T {
    static KEPT: Mutex<Vec<usize>> = Mutex::new(Vec::new());
    let kept: &'static T = Box::leak(Box::new(value));
    KEPT.lock().unwrap().push(std::ptr::from_ref(kept) as usize);
    kept
}
