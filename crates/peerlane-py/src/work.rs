//! Work without the interpreter's lock, and what becomes of errors and panics.

use std::any::Any;
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

create_exception!(peerlane, Error, PyValueError, "Why something has no answer: the words of the program.");

/// Runs this without the interpreter's lock. An error or a panic is an [`Error`].
pub(crate) fn work<T: Send, E: Display>(py: Python<'_>, run: impl FnOnce() -> Result<T, E> + Send) -> PyResult<T> {
    // what `run` changes is its own, and is lost with it
    let done = py.detach(|| catch_unwind(AssertUnwindSafe(|| run().map_err(|e| e.to_string()))).map_err(reason));
    done.and_then(|result| result).map_err(Error::new_err)
}

fn reason(panic: Box<dyn Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("an error in peerlane itself, please report it: {}", text.unwrap_or("no message"))
}
