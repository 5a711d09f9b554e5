//! One file per command. What several commands share is not here: no command's file imports another's.

mod accuracy;
mod check;
mod compare;
mod explain;
mod fleet;
mod gate;
mod gather;
mod help;
mod infer;
mod map;
mod measure;
mod new;
mod place;
mod plan;
mod predict;
mod report;
mod selftest;
pub(crate) mod shell;
mod simulate;
mod sweep;
mod systems;
mod top;
mod tune;

use std::io::{self, Write};

use peerlane::machine::Machine;

use crate::args::Command;
use crate::render::headline::title;
use crate::render::style::{self, paint};
use crate::render::text::{hang, headline};
use crate::{Failure, Outcome};

/// Runs a command.
pub(crate) fn run(command: &Command, out: &mut dyn Write) -> Result<Outcome, Failure> {
    match command {
        Command::Check(args) => check::run(args, out),
        Command::Map(args) => map::run(args, out),
        Command::Predict(args) => predict::run(args, out),
        Command::Report(args) => report::run(args),
        Command::Explain(args) => explain::run(args, out),
        Command::Simulate(args) => simulate::run(args, out),
        Command::Sweep(args) => sweep::run(args, out),
        Command::Compare(args) => compare::run(args, out),
        Command::New(args) => new::run(args, out),
        Command::Gather(args) => gather::run(args, out),
        Command::Fleet(args) => fleet::run(args, out),
        Command::Gate(args) => gate::run(args, out),
        Command::Discover => crate::live::worker(),
        Command::Survey(args) => gate::survey(args),
        Command::Place(args) => place::run(args, out),
        Command::Plan(args) => plan::run(args, out),
        Command::Top(args) => top::run(args, out),
        Command::Meter => top::meter(),
        Command::Tune(args) => tune::run(args, out),
        Command::Infer(args) => infer::run(args, out),
        Command::Measure(args) => measure::run(args, out),
        Command::GpuSides => crate::measuring::nodes::gpu_sides(),
        Command::Worker => crate::measuring::worker::run(),
        Command::Systems(args) => systems::run(args, out),
        Command::Accuracy(args) => accuracy::run(args, out),
        Command::Completions(args) => shell::completions(args, out),
        Command::Help(args) => help::run(args, out),
        Command::Man(args) => shell::man(args, out),
        Command::Selftest(args) => selftest::run(args, out),
    }
}

/// Writes a machine's name and title.
fn heading(out: &mut dyn Write, machine: &Machine) -> io::Result<()> {
    for line in headline(&title(machine)) {
        writeln!(out, "{}", paint(style::HEADING, &line))?;
    }
    match &machine.recognized {
        Some(recognized) => hang(out, "", &recognized.to_string()),
        None => Ok(()),
    }
}
