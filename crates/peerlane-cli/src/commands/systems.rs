//! `peerlane systems`: the catalogue.

use std::io::Write;

use peerlane::catalogue::{Parts, system_names};
use peerlane::export::json::SystemsDocument;
use peerlane::machine::Machine;

use super::{heading, inventory, json};
use crate::args::{SystemsAction, SystemsArgs};
use crate::render::style::{self, paint};
use crate::render::text::{hang, width, wrap};
use crate::render::{WIDTH, findings, tree};
use crate::target::system;
use crate::{Failure, Outcome};

pub(crate) fn run(args: &SystemsArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    match &args.action {
        Some(SystemsAction::Show { name }) => {
            let machine = system(name)?;
            if args.detail.json {
                json(out, &SystemsDocument::new([&machine], true))?;
            } else {
                show(out, &machine, args.detail.verbose)?;
            }
        }
        None | Some(SystemsAction::List) => {
            let machines = system_names().map(system).collect::<Result<Vec<Machine>, Failure>>()?;
            if args.detail.json {
                json(out, &SystemsDocument::new(&machines, false))?;
            } else {
                list(out, &machines)?;
            }
        }
    }
    Ok(Outcome::default())
}

fn list(out: &mut dyn Write, machines: &[Machine]) -> Result<(), Failure> {
    let column = machines.iter().map(|m| width(&m.name)).max().unwrap_or(0);
    for machine in machines {
        let title = machine.title.clone().unwrap_or_else(|| inventory(machine));
        let name = paint(style::HEADING, &format!("{:column$}", machine.name));
        for (i, line) in wrap(&title, WIDTH.saturating_sub(column + 2)).iter().enumerate() {
            let name = if i == 0 { name.clone() } else { " ".repeat(column) };
            writeln!(out, "{name}  {line}")?;
        }
    }
    Ok(())
}

fn show(out: &mut dyn Write, machine: &Machine, verbose: bool) -> Result<(), Failure> {
    heading(out, machine)?;
    writeln!(out, "{}", inventory(machine))?;
    if let Some(source) = &machine.source {
        hang(out, "source: ", source)?;
    }
    writeln!(out)?;
    tree::write(out, &machine.fabric, tree::Options { verbose })?;
    slots(out, machine)?;
    super::map::observed(out, &machine.matrices)?;
    let statements: Vec<String> = machine.statements.iter().map(|s| s.text.clone()).collect();
    findings::sentences(out, "Stated", &statements, usize::MAX)?;
    findings::sentences(out, "Notes", &machine.notes, usize::MAX)?;
    findings::sentences(out, "Unknown", &machine.unknown, usize::MAX)?;
    findings::sentences(out, "Assumed", &machine.assumptions, usize::MAX)?;
    if verbose { parts(out, machine) } else { Ok(()) }
}

fn slots(out: &mut dyn Write, machine: &Machine) -> Result<(), Failure> {
    if machine.slots.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", paint(style::HEADING, "Slots"))?;
    for slot in &machine.slots {
        let port = slot.port.as_ref().map(|p| format!(" at {p}")).unwrap_or_default();
        let shares = if slot.shares.is_empty() {
            String::new()
        } else {
            format!(", shares lanes with {}", slot.shares.join(", "))
        };
        hang(out, "  ", &format!("{}: x{} connector, x{} wired{port}{shares}", slot.name, slot.physical, slot.wired))?;
    }
    Ok(())
}

/// The parts that the machine is made of, with each constant's value, basis and source.
fn parts(out: &mut dyn Write, machine: &Machine) -> Result<(), Failure> {
    let nodes = machine.fabric.nodes().iter().filter_map(|n| n.part.as_deref());
    let links = machine.fabric.links().iter().filter_map(|l| l.part.as_deref());
    let mut keys: Vec<&str> = nodes.chain(links).collect();
    keys.sort_unstable();
    keys.dedup();
    if !keys.is_empty() {
        writeln!(out, "\n{}", paint(style::HEADING, "Parts"))?;
    }
    for part in keys.into_iter().filter_map(|key| Parts::embedded().get(key)) {
        hang(out, "  ", &format!("{}: {}", part.name, part.title))?;
        for (name, constant) in &part.constants {
            let basis = format!("{:?}", constant.basis).to_lowercase();
            let label = format!("    {name} = {} {}, {basis}: ", constant.value, constant.unit);
            if width(&label) < WIDTH / 2 {
                hang(out, &label, &constant.source)?;
            } else {
                writeln!(out, "{}", label.trim_end())?;
                hang(out, "      ", &constant.source)?;
            }
        }
    }
    Ok(())
}
