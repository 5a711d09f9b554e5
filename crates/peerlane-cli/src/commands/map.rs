//! `peerlane map`: a machine as a tree, as matrices, as a drawing, or in the format of another program.

use std::io::{self, Write};

use peerlane::case::Case;
use peerlane::catalogue::{Parts, write_system};
use peerlane::export::json::FabricDocument;
use peerlane::export::nccl_xml::to_nccl_xml;
use peerlane::fact::Fact;
use peerlane::machine::{Machine, NcclRings, SourcedMatrix};
use peerlane::matrix::Matrix;
use peerlane::model::Model;
use peerlane::names::ranges;
use peerlane::origin::Origin;
use peerlane::target::Opened;
use peerlane::units::Rate;

use super::heading;
use crate::args::{Format, MapArgs};
use crate::formats::{json, rule};
use crate::render::style::{self, paint};
use crate::render::text::{count, hang};
use crate::render::{dot, findings, inference, label, matrix, run, svg, tree};
use crate::target::{load_changed, load_redacted, write_coverage};
use crate::{Failure, Outcome};

pub(crate) fn run(args: &MapArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let (targets, only, edits) = (&args.machines.targets, args.machines.machine.as_deref(), &args.what_if.edits);
    let loaded = match args.redact.given {
        true => load_redacted(targets, only)?.changed(edits)?,
        false => load_changed(targets, only, edits)?,
    };
    let one = || loaded.the_only("this format holds one machine");
    let format = if args.detail.json { Some(Format::Json) } else { args.format };
    match format {
        None => {
            each(out, &loaded, |out, case| overview(out, case, args.detail.verbose))?;
            if args.detail.verbose {
                write_coverage(&loaded, out)?;
            }
        }
        Some(Format::Tree) => each(out, &loaded, |out, case| {
            heading(out, &case.machine)?;
            Ok(tree::write(out, &case.machine.fabric, tree::Options { verbose: args.detail.verbose, fold: false })?)
        })?,
        Some(Format::Matrix) => each(out, &loaded, |out, case| all_matrices(out, case, args.detail.verbose))?,
        Some(Format::Json) => {
            let coverage = loaded.coverage.clone();
            json(out, &FabricDocument { coverage, ..FabricDocument::new(loaded.machines()) })?
        }
        Some(Format::Dot) => {
            for machine in loaded.machines() {
                dot::write(out, machine)?;
            }
        }
        Some(Format::Svg) => {
            let case = one()?;
            svg::write(out, case, &Model::new(&case.machine, Parts::embedded()))?
        }
        Some(Format::NcclXml) => out.write_all(to_nccl_xml(&one()?.machine).as_bytes())?,
        Some(Format::System) => {
            let text = write_system(&one()?.machine).map_err(|e| Failure::new(e.to_string()))?;
            out.write_all(text.as_bytes())?;
        }
    }
    Ok(Outcome { findings: false, incomplete: loaded.incomplete })
}

fn each(
    out: &mut dyn Write,
    loaded: &Opened,
    show: impl Fn(&mut dyn Write, &Case) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for (i, case) in loaded.cases.iter().enumerate() {
        rule(out, i == 0)?;
        show(out, case)?;
    }
    Ok(())
}

/// Tree, path classes, a list of what else was found, and what is unknown.
fn overview(out: &mut dyn Write, case: &Case, verbose: bool) -> Result<(), Failure> {
    let machine = &case.machine;
    heading(out, machine)?;
    if machine.fabric.nodes().is_empty() {
        writeln!(out, "only numbers; no device is named")?;
    } else {
        writeln!(out, "{}\n", label::inventory(machine))?;
        tree::write(out, &machine.fabric, tree::Options { verbose, fold: false })?;
    }
    if machine.fabric.devices().len() > 1 {
        classes(out, machine)?;
    }
    nccl_rings(out, machine)?;
    inferred(out, case)?;
    found(out, machine)?;
    Ok(findings::caveats(out, machine, verbose)?)
}

fn classes(out: &mut dyn Write, machine: &Machine) -> io::Result<()> {
    let devices = machine.fabric.devices();
    let words = machine.stated_classes.as_ref().is_some_and(|(matrix, _)| !matrix.words.is_empty());
    let any = words || devices.iter().any(|a| devices.iter().any(|b| a != b && machine.fabric.class(*a, *b).is_some()));
    let title = if any { "Path classes" } else { "Path classes: unknown" };
    writeln!(out, "\n{}", paint(style::HEADING, title))?;
    if any { matrix::classes(out, machine) } else { Ok(()) }
}

/// The rings that NCCL reports.
fn nccl_rings(out: &mut dyn Write, machine: &Machine) -> io::Result<()> {
    let rings = machine.nccl_rings();
    if !rings.is_empty() {
        writeln!(out, "\n{}", paint(style::HEADING, "NCCL rings"))?;
    }
    for NcclRings { gpus, channels, rate, origin } in rings {
        let names: Vec<&str> = gpus.iter().map(|id| machine.fabric.node(*id).name.as_str()).collect();
        let rate = rate.map(|rate| format!(" at {rate} each")).unwrap_or_default();
        let text = format!("{}{rate}: {}, {}", count(channels, "channel"), names.join(" "), label::origin(origin));
        hang(out, "  · ", &text)?;
    }
    Ok(())
}

/// Limits inferred from contention; the tree does not show them.
fn inferred(out: &mut dyn Write, case: &Case) -> io::Result<()> {
    for (found, origin) in case.inferred.iter().filter(|(found, _)| !found.groups.is_empty()) {
        writeln!(out, "\n{}", paint(style::HEADING, "Shared limits inferred from contention"))?;
        for group in &found.groups {
            let text = format!("{}: {}", group.direction.words(), inference::words(group));
            hang(out, "  ┄ ", &text)?;
        }
        hang(out, "  ", &paint(style::DIM, &format!("{}, {}", label::origin(origin), found.source)))?;
    }
    Ok(())
}

/// Further places with the same content.
fn again<'a>(origins: impl Iterator<Item = &'a Origin>) -> String {
    let lines: Vec<String> = origins.filter_map(|o| o.lines).map(|(a, b)| format!("{a}-{b}")).collect();
    if lines.is_empty() { String::new() } else { format!(", also at {}", lines.join(", ")) }
}

/// Limit of rows shown of a table of rates.
const MOST_RATES: usize = 20;

/// The numbers and tables found, each with its origin.
fn found(out: &mut dyn Write, machine: &Machine) -> io::Result<()> {
    let mut lines: Vec<String> = Vec::new();
    if let Some((classes, origin)) = &machine.stated_classes {
        let twins = machine
            .evidence
            .iter()
            .filter(|e| e.origin != *origin && matches!(&e.fact, Fact::Classes(m) if m == classes));
        let again = again(twins.map(|e| &e.origin));
        let spelt = if classes.old_names { "; spells SYS as SOC" } else { "" };
        let shape = format!("{}×{}", classes.rows.len(), classes.cols.len());
        lines.push(format!("path classes, {shape}: {}{again}{spelt}", label::origin(origin)));
    }
    lines.extend(machine.matrices.iter().map(|o| {
        let Matrix { rows, cols, .. } = &o.matrix;
        let shape = match (rows.len(), cols.len()) {
            (1, _) | (_, 1) => format!("{} → {}", ranges(rows), ranges(cols)),
            (n, m) => format!("{n}×{m}"),
        };
        let again = again(o.also.iter());
        format!("{}, {shape}: {}{again}", o.matrix.describe(), label::origin(&o.origin))
    }));
    lines.extend(machine.curves.iter().map(|(curve, origin)| {
        let ends = if curve.ends.is_empty() { String::new() } else { format!(" {}", curve.ends.join(" → ")) };
        let sizes = match curve.sizes.len() {
            1 => "1 message size".to_owned(),
            n => format!("{n} message sizes"),
        };
        format!("{}{ends}, {sizes}: {}", curve.what, label::origin(origin))
    }));
    for (table, origin) in &machine.rates {
        lines.push(format!("{}: {}", count(table.rows.len(), "published rate"), label::origin(origin)));
        lines.extend(table.rows.iter().take(MOST_RATES).map(|row| {
            let words: Vec<&str> = row.words.iter().map(String::as_str).filter(|w| !w.is_empty()).collect();
            let named = |(column, rate): (&String, &Option<Rate>)| rate.map(|r| format!("{column} {r}"));
            let rates: Vec<String> = table.rate_columns.iter().zip(&row.rates).filter_map(named).collect();
            format!("{}: {}", words.join(", "), rates.join(", "))
        }));
    }
    lines.extend(machine.statements.iter().map(|s| s.text.clone()));
    lines.dedup();
    if !lines.is_empty() {
        writeln!(out, "\n{}", paint(style::HEADING, "Also found"))?;
    }
    for line in lines {
        hang(out, "  · ", &line)?;
    }
    Ok(())
}

/// Path classes and every matrix of numbers in full; for a recorded run, as `measure` shows it.
fn all_matrices(out: &mut dyn Write, case: &Case, verbose: bool) -> Result<(), Failure> {
    let machine = &case.machine;
    match case.run() {
        None => {
            heading(out, machine)?;
            classes(out, machine)?;
            matrix::sourced(out, &machine.matrices)?;
        }
        Some(run) => {
            run::write(out, run, verbose)?;
            classes(out, machine)?;
            let published: Vec<SourcedMatrix> = machine.matrices.iter().filter(|o| o.published).cloned().collect();
            matrix::sourced(out, &published)?;
        }
    }
    Ok(())
}
