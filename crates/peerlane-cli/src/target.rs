//! From TARGET to machines, as the library opens them, with what only a program has: this machine, a default, redaction.

pub(crate) mod clusters;
pub(crate) mod nodes;
mod redacted;

use std::borrow::Cow;
use std::ffi::OsString;
use std::io::{self, Write};

use peerlane::machine::Machine;
use peerlane::target::{EXAMPLE, OpenError, Opened, Opener, READS, pick};
use peerlane::what_if::Edit;

use crate::console::PREFIX;
use crate::progress::Bar;
use crate::render::{line_width, text::wrap};
use crate::{Failure, live};

/// Opens machines; clusters are refused.
fn opener() -> Opener<'static> {
    Opener::new(&live::read)
}

/// Notices as lines for stderr.
pub(crate) fn in_lines(notices: &[String]) -> String {
    let wrapped = |notice: &String| match notice == READS {
        true => wrap(READS, line_width() - PREFIX.len()).join("\n"),
        false => notice.clone(),
    };
    notices.iter().map(wrapped).collect::<Vec<_>>().join("\n")
}

/// Reads targets; without any, this machine or the showcase. `only` picks one of several machines.
pub(crate) fn load(targets: &[OsString], only: Option<&str>) -> Result<Opened, Failure> {
    let _bar = reading(targets);
    finished(opener().open(named(targets)?.iter()), only)
}

/// The same, with what identifies machines taken out of all that is read.
pub(crate) fn load_redacted(targets: &[OsString], only: Option<&str>) -> Result<Opened, Failure> {
    let _bar = reading(targets);
    finished(redacted::open(&opener(), &named(targets)?), only)
}

/// The same as [`load`], with edits applied. Measurements of a machine are not carried over to the changed one.
pub(crate) fn load_changed(targets: &[OsString], only: Option<&str>, edits: &[Edit]) -> Result<Opened, Failure> {
    Ok(load(targets, only)?.changed(edits)?)
}

/// Progress while targets are read; who types into standard input is not disturbed.
fn reading(targets: &[OsString]) -> Option<Bar> {
    let is_typed = targets.iter().any(|target| target == "-");
    (!is_typed).then(|| Bar::waiting("reading what was given"))
}

fn finished(opened: Result<Opened, OpenError>, only: Option<&str>) -> Result<Opened, Failure> {
    let opened = opened?;
    if !opened.notices.is_empty() {
        crate::console::say(&in_lines(&opened.notices));
    }
    Ok(match only {
        Some(wanted) => opened.only(wanted)?,
        None => opened,
    })
}

/// The targets, or what stands for none.
fn named(targets: &[OsString]) -> Result<Cow<'_, [OsString]>, Failure> {
    if targets.is_empty() { Ok(vec![default_target()?.into()].into()) } else { Ok(targets.into()) }
}

/// Writes a line for each input that was read as text.
pub(crate) fn write_coverage(opened: &Opened, out: &mut dyn Write) -> io::Result<()> {
    for c in &opened.coverage {
        let (understood, ignored, doubtful) = (c.understood, c.ignored, c.doubtful);
        writeln!(out, "{}: {understood} lines understood, {ignored} ignored, {doubtful} doubtful", c.source)?;
    }
    Ok(())
}

/// `live` if there is an NVIDIA GPU, otherwise the example, with a message: where none is wanted, a script is not told that an
/// example is ill.
fn default_target() -> Result<String, Failure> {
    if live::has_nvidia_gpu() {
        return Ok("live".to_owned());
    }
    if crate::console::quiet() {
        return Err(Failure::new("no NVIDIA GPU found and no TARGET given"));
    }
    crate::console::note(&format!(
        "No NVIDIA GPU found and no TARGET given: showing the example {EXAMPLE} (eight H200, one with NVLinks down).\n\
         Try 'peerlane check FILE' with output of your machine, or through a pipe: nvidia-smi topo -m | peerlane check -",
    ));
    Ok(EXAMPLE.to_owned())
}

/// Whether `--machine` names this machine, which was measured and is the only one.
pub(crate) fn is_named(machine: &Machine, wanted: Option<&str>) -> Result<(), Failure> {
    wanted.map_or(Ok(()), |wanted| Ok(pick(std::iter::once(machine), wanted).map(|_| ())?))
}
