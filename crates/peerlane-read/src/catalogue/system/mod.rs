//! System files: a machine that a person wrote down, from a manual or a document, read and written by one type.
//!
//! `docs/system-files.md` describes the format. What a file leaves out is filled in only where it
//! follows from the rest: a CPU has host memory, a PCIe link at a CPU goes through its root complex,
//! a link allows what both its parts and its slot do.

mod assumptions;
mod fabric;
mod faults;
mod file;
mod lanes;
mod measured;
mod source;
mod widths;
mod write;

pub(crate) use widths::exceeds;
pub use widths::{common_nvlink, common_width};
pub use write::write_system;

use crate::catalogue::Parts;
use file::SystemFile;
use peerlane_machine::fault::Planted;
use peerlane_machine::machine::{Machine, MachineKind};
use peerlane_machine::one_line;
use source::Source;

/// The tool that a file's nodes and links name as their origin.
const TOOL: &str = "system file";

/// A node with this part has none, whatever its product.
const NO_PART: &str = "none";

/// Why a system file is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("system {file}: {message}")]
pub struct SystemError {
    /// Which file.
    pub file: String,
    /// What is wrong, on which line, and what to write instead.
    pub message: String,
}

/// What a system file holds.
#[derive(Clone, Debug)]
pub struct System {
    /// The machine.
    pub machine: Machine,
    /// Noise and faults by which a simulated machine of it answers. No part of the design: nothing of the machine is
    /// changed by them.
    pub planted: Planted,
}

/// Reads a system file of a user's. `file` names it in errors and origins.
///
/// Fails on text that is no TOML of this format, on names that are not there, on links that make no
/// PCIe tree or run wider than they can, on more lanes than a switch or CPU has, and on tables of the
/// wrong shape.
pub fn read_design(text: &str, file: &str) -> Result<System, SystemError> {
    read(text, file, MachineKind::Design)
}

/// The machine of [`read_design`].
pub fn read_system(text: &str, file: &str) -> Result<Machine, SystemError> {
    read_design(text, file).map(|system| system.machine)
}

pub(super) fn read(text: &str, file: &str, kind: MachineKind) -> Result<System, SystemError> {
    let source = Source::new(file, text);
    let system: SystemFile = toml::Deserializer::parse(text).and_then(one_line::read).map_err(|e| match e.span() {
        Some(span) => source.error(span, e.message()),
        None => source.refuse(e.message().to_owned()),
    })?;
    if system.name.trim().is_empty() {
        return Err(source.refuse("`name` is empty; name the machine, as in name = \"node1\"".to_owned()));
    }
    let parts = Parts::embedded();
    let fabric = fabric::build(&system, &source, parts)?;
    lanes::check(&fabric, &system.slots, &source, parts)?;

    let mut machine = Machine::new(&system.name, kind, fabric);
    machine.assumptions = assumptions::sentences(&system.assumptions, &machine.fabric, parts);
    measured::add(&system, &source, &mut machine)?;
    let planted = faults::read(&system, &source, &machine.fabric)?;
    machine.title = system.title;
    machine.source = system.source;
    machine.slots = system.slots.into_iter().map(toml::Spanned::into_inner).collect();
    machine.facts = system.facts.unwrap_or_default();
    machine.notes = system.notes;
    machine.unknown = system.unknown;
    Ok(System { machine, planted })
}

#[cfg(test)]
mod tests;
