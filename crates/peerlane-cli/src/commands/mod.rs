//! One file per command.

pub(crate) mod accuracy;
pub(crate) mod check;
mod clusters;
pub(crate) mod compare;
pub(crate) mod explain;
pub(crate) mod fleet;
pub(crate) mod gate;
pub(crate) mod gather;
pub(crate) mod infer;
pub(crate) mod map;
pub(crate) mod measure;
pub(crate) mod new;
pub(crate) mod nodes;
pub(crate) mod place;
pub(crate) mod predict;
pub(crate) mod report;
mod scaling;
pub(crate) mod selftest;
pub(crate) mod shell;
pub(crate) mod simulate;
mod site;
pub(crate) mod sweep;
pub(crate) mod systems;
pub(crate) mod tune;

use std::io::{self, Write};

use peerlane::machine::Machine;
use serde::Serialize;

use crate::render::style::{self, paint};
use crate::render::text::{hang, headline};

/// Writes a document as JSON.
fn json(out: &mut dyn Write, document: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, document)?;
    writeln!(out)
}

/// Writes a machine's name and title.
fn heading(out: &mut dyn Write, machine: &Machine) -> io::Result<()> {
    let title = match &machine.title {
        Some(title) if *title != machine.name => format!("{}: {title}", machine.name),
        _ => machine.name.clone(),
    };
    for line in headline(&title) {
        writeln!(out, "{}", paint(style::HEADING, &line))?;
    }
    match &machine.recognized {
        Some(recognized) => hang(out, "", &recognized.to_string()),
        None => Ok(()),
    }
}
