//! The extension of the Python package `peerlane`: the library's answers as JSON and as columns, and the program.
//!
//! What users see is in `python/peerlane/`. Every function works without the interpreter's lock, and a panic is an exception.

mod document;
mod node;
mod table;
mod work;

use pyo3::prelude::*;

/// See the crate.
#[pymodule]
mod _native {
    use std::ffi::OsString;
    use std::io::{self, Write};
    use std::path::PathBuf;

    use pyo3::prelude::*;

    #[pymodule_export]
    use super::document::Document;
    #[pymodule_export]
    use super::node::{Node, compare};
    #[pymodule_export]
    use super::table::Table;
    #[pymodule_export]
    use super::work::Error;
    use super::work::work;

    /// The version of the package.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");

    /// Says what starts the program again: its workers.
    #[pyfunction]
    fn started_by(file: PathBuf, words: Vec<OsString>) {
        peerlane_gpu::search::started_by(file, words);
    }

    /// Panics with these words: for the test that a panic is an exception.
    #[pyfunction]
    fn fail(py: Python<'_>, words: &str) -> PyResult<()> {
        let words = words.to_owned();
        work(py, || -> Result<(), String> { std::panic::resume_unwind(Box::new(words)) })
    }

    /// The program, with its name as the first word; returns its exit status.
    #[pyfunction]
    fn main(py: Python<'_>, words: Vec<OsString>) -> PyResult<u8> {
        work(py, || {
            let status = peerlane_cli::status(words);
            // nothing ends this library's standard library when the interpreter ends
            let _ = io::stdout().flush();
            Ok::<u8, String>(status)
        })
    }
}
