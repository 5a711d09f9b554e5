//! System files: a machine that a person wrote down, from a manual or a document.

use crate::machine::Machine;

/// The TOML of a system file.
#[derive(Clone, Debug)]
pub struct SystemFile {}

/// Why a system file is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("system {file}: {message}")]
pub struct SystemError {
    /// Which file.
    pub file: String,
    /// What is wrong, where, and what to write instead.
    pub message: String,
}

/// Reads a system file. `file` names it in errors and origins.
pub fn read_system(_text: &str, file: &str) -> Result<Machine, SystemError> {
    Err(SystemError { file: file.to_owned(), message: String::new() })
}
