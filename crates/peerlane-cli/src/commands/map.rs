//! `peerlane map`: a machine as a tree, as matrices, as a drawing, or in another program's format.

use std::io::{self, Write};

use peerlane::evidence::Matrix;
use peerlane::export::json::FabricDocument;
use peerlane::export::nccl_xml::to_nccl_xml;
use peerlane::export::system_toml::to_system_toml;
use peerlane::machine::{Machine, Observed};

use super::check::caveats;
use super::{between, heading, inventory, json};
use crate::args::{Format, MapArgs};
use crate::render::style::{self, paint};
use crate::render::text::{fit, hang, ranges};
use crate::render::{WIDTH, dot, label, matrix, svg, tree};
use crate::target::load;
use crate::{Failure, Outcome};

pub(crate) fn run(args: &MapArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let loaded = load(&args.machines.targets, args.machines.machine.as_deref())?;
    let machines = &loaded.machines;
    let format = if args.detail.json { Some(Format::Json) } else { args.format };
    match format {
        None => each(out, machines, |out, machine| overview(out, machine, args.detail.verbose))?,
        Some(Format::Tree) => each(out, machines, |out, machine| {
            heading(out, machine)?;
            Ok(tree::write(out, &machine.fabric, tree::Options { verbose: args.detail.verbose })?)
        })?,
        Some(Format::Matrix) => each(out, machines, all_matrices)?,
        Some(Format::Json) => json(out, &FabricDocument::new(machines))?,
        Some(Format::Dot) => {
            for machine in machines {
                dot::write(out, machine)?;
            }
        }
        Some(Format::Svg) => svg::write(out, the_only(machines)?)?,
        Some(Format::NcclXml) => out.write_all(to_nccl_xml(the_only(machines)?).as_bytes())?,
        Some(Format::System) => out.write_all(to_system_toml(the_only(machines)?).as_bytes())?,
    }
    Ok(Outcome { findings: false, incomplete: loaded.incomplete })
}

fn each(
    out: &mut dyn Write,
    machines: &[Machine],
    show: impl Fn(&mut dyn Write, &Machine) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for (i, machine) in machines.iter().enumerate() {
        between(out, i == 0)?;
        show(out, machine)?;
    }
    Ok(())
}

/// The machine of a format that holds one.
fn the_only(machines: &[Machine]) -> Result<&Machine, Failure> {
    match machines {
        [one] => Ok(one),
        _ => {
            let names: Vec<&str> = machines.iter().map(|m| m.name.as_str()).collect();
            Err(Failure::new(format!(
                "this format holds one machine and there are {}; choose with --machine: {}",
                names.len(),
                names.join(", ")
            )))
        }
    }
}

/// Tree, classes, the list of what else was found, what is not known.
fn overview(out: &mut dyn Write, machine: &Machine, verbose: bool) -> Result<(), Failure> {
    heading(out, machine)?;
    writeln!(out, "{}\n", inventory(machine))?;
    tree::write(out, &machine.fabric, tree::Options { verbose })?;
    if machine.fabric.devices().len() > 1 {
        classes(out, machine)?;
    }
    found(out, machine)?;
    caveats(out, machine, verbose)
}

fn classes(out: &mut dyn Write, machine: &Machine) -> io::Result<()> {
    let devices = machine.fabric.devices();
    let any = devices.iter().any(|a| devices.iter().any(|b| a != b && machine.fabric.class(*a, *b).is_some()));
    let title = if any { "Path classes" } else { "Path classes: none is known" };
    writeln!(out, "\n{}", paint(style::HEADING, title))?;
    if any { matrix::classes(out, &machine.fabric) } else { Ok(()) }
}

/// The numbers and tables found, each with where it stands.
fn found(out: &mut dyn Write, machine: &Machine) -> io::Result<()> {
    let mut lines: Vec<String> = Vec::new();
    if let Some((classes, origin)) = &machine.stated_classes {
        lines.push(format!("path classes, {}×{}: {}", classes.rows.len(), classes.cols.len(), label::origin(origin)));
    }
    lines.extend(machine.matrices.iter().map(|o| {
        let Matrix { rows, cols, .. } = &o.matrix;
        let names = |all: &[String]| ranges(&all.iter().map(String::as_str).collect::<Vec<_>>());
        let shape = match (rows.len(), cols.len()) {
            (1, _) | (_, 1) => format!("{} → {}", names(rows), names(cols)),
            (n, m) => format!("{n}×{m}"),
        };
        format!("{}, {shape}: {}", o.matrix.describe(), label::origin(&o.origin))
    }));
    lines.extend(machine.curves.iter().map(|(curve, origin)| {
        let ends = if curve.ends.is_empty() { String::new() } else { format!(" {}", curve.ends.join(" → ")) };
        let sizes = match curve.sizes.len() {
            1 => "1 message size".to_owned(),
            n => format!("{n} message sizes"),
        };
        format!("{}{ends}, {sizes}: {}", curve.what, label::origin(origin))
    }));
    lines.extend(machine.rates.iter().map(|(table, origin)| {
        format!("table of {} rows ({}): {}", table.rows.len(), table.rate_columns.join(", "), label::origin(origin))
    }));
    lines.extend(machine.statements.iter().map(|s| s.text.clone()));
    if !lines.is_empty() {
        writeln!(out, "\n{}", paint(style::HEADING, "Found with it"))?;
    }
    for line in lines {
        hang(out, "  · ", &line)?;
    }
    Ok(())
}

/// Path classes and every matrix of numbers in full.
fn all_matrices(out: &mut dyn Write, machine: &Machine) -> Result<(), Failure> {
    heading(out, machine)?;
    classes(out, machine)?;
    observed(out, &machine.matrices)?;
    Ok(())
}

/// Matrices of numbers with what they are and where they stand.
pub(crate) fn observed(out: &mut dyn Write, all: &[Observed]) -> io::Result<()> {
    for Observed { matrix: m, origin, .. } in all {
        writeln!(out)?;
        hang(out, "", &m.describe())?;
        writeln!(out, "{}", paint(style::DIM, &fit(&label::origin(origin), WIDTH)))?;
        matrix::numbers(out, &m.rows, &m.cols, &m.values)?;
    }
    Ok(())
}
