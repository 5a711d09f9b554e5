//! The embedded catalogue: `parts/*.toml` (component models) and `systems/*.toml` (whole machines).

mod part;
mod system;

pub use part::{Basis, Constant, Part, PartError, PartKind, Parts};
pub use system::{SystemError, SystemFile, read_system};

use crate::machine::Machine;

/// Names of the embedded systems, sorted.
pub fn system_names() -> impl Iterator<Item = &'static str> {
    std::iter::empty()
}

/// Text of an embedded system file.
pub fn system_text(_name: &str) -> Option<&'static str> {
    None
}

/// An embedded system by name.
pub fn system(name: &str) -> Option<Result<Machine, SystemError>> {
    system_text(name).map(|text| read_system(text, name))
}
