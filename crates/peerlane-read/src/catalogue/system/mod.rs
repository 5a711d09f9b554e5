//! System files: a machine that a person wrote down, from a manual or a document, read and written by one type.
//!
//! `docs/system-files.md` describes the format. What a file leaves out is filled in only where it
//! follows from the rest: a CPU has host memory, a PCIe link at a CPU goes through its root complex,
//! a link allows what both its parts and its slot do.

mod assumptions;
mod entries;
mod fabric;
mod faults;
mod file;
mod lanes;
mod measured;
mod names;
mod problems;
mod source;
mod widths;
mod write;

pub use problems::{Problem, SystemError};
pub(crate) use widths::exceeds;
pub use widths::{common_nvlink, common_width};
pub use write::write_system;

use crate::catalogue::Parts;
use peerlane_machine::fault::Planted;
use peerlane_machine::machine::{Facts, Machine, MachineKind};
use problems::Problems;
use source::Source;

/// The tool that a file's nodes and links name as their origin.
const TOOL: &str = "system file";

/// A node with this part has none, whatever its product.
const NO_PART: &str = "none";

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
/// wrong shape; the error lists all of it.
pub fn read_design(text: &str, file: &str) -> Result<System, SystemError> {
    read(text, file, MachineKind::Design)
}

/// The machine of [`read_design`].
pub fn read_system(text: &str, file: &str) -> Result<Machine, SystemError> {
    read_design(text, file).map(|system| system.machine)
}

pub(super) fn read(text: &str, file: &str, kind: MachineKind) -> Result<System, SystemError> {
    let source = Source::new(file, text);
    let mut problems = Problems::default();
    let entries = entries::read(text, &source, &mut problems);
    let Some((system, fabric)) = entries.and_then(|system| {
        let fabric = fabric::build(&system, &source, Parts::embedded(), &mut problems)?;
        Some((system, fabric))
    }) else {
        problems.settle(source.name())?;
        return Err(source.refuse("it holds no machine".to_owned()));
    };
    if system.name.trim().is_empty() {
        problems.keep::<()>(Err(source.refuse("`name` is empty; name the machine, as in name = \"node1\"".to_owned())));
    }
    for (name, value) in stated(&system.facts.unwrap_or_default()) {
        if !(0.0..=MOST_OF_A_FACT).contains(&value) {
            let message = format!("facts.{name} is {value}; write a number from 0 to {MOST_OF_A_FACT:e}");
            problems.keep::<()>(Err(source.refuse(message)));
        }
    }
    lanes::check(&fabric, &system.slots, &source, Parts::embedded(), &mut problems);
    let mut machine = Machine::new(&system.name, kind, fabric);
    machine.assumptions = assumptions::sentences(&system.assumptions, &machine.fabric, Parts::embedded());
    measured::add(&system, &source, &mut machine, &mut problems);
    let planted = faults::read(&system, &source, &machine.fabric, &mut problems);
    problems.settle(source.name())?;
    machine.title = system.title;
    machine.source = system.source;
    machine.slots = system.slots.into_iter().map(toml::Spanned::into_inner).collect();
    machine.facts = system.facts.unwrap_or_default();
    machine.notes = system.notes;
    machine.unknown = system.unknown;
    Ok(System { machine, planted })
}

/// No price, height, power or rate is more.
const MOST_OF_A_FACT: f64 = 1e12;

/// The numbers of a machine's facts that are stated.
fn stated(facts: &Facts) -> Vec<(&'static str, f64)> {
    let Facts { price_usd, rack_units, year: _, power_w, tflops } = *facts;
    let all = [("price_usd", price_usd), ("rack_units", rack_units), ("power_w", power_w), ("tflops", tflops)];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

#[cfg(test)]
mod tests;
