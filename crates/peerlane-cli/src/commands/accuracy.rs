//! `peerlane accuracy`: the errors of the model against every number in the catalogue, or of any machine.

use std::ffi::OsString;
use std::io::{self, Write};

use peerlane::accuracy::{Accuracy, ClassScore, Errors, Figure, Kind, Scores, SinglePath, evaluate, page};
use peerlane::target::Opened;

use crate::args::AccuracyArgs;
use crate::formats::json;
use crate::progress::Bar;
use crate::render::style::{self, paint};
use crate::render::text::{fit, number, wrap};
use crate::target::load;
use crate::{Failure, Outcome};

/// Groups and cells shown by default.
const FEW: usize = 12;

pub(crate) fn run(args: &AccuracyArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let bar = Bar::waiting("comparing predictions with what was measured");
    let (accuracy, incomplete) = scored(&args.targets)?;
    drop(bar);
    if args.json {
        json(out, &accuracy)?;
    } else if args.page {
        write!(out, "{}", page(&accuracy))?;
    } else {
        show(out, &accuracy, args.verbose)?;
    }
    Ok(Outcome { incomplete, ..Outcome::default() })
}

/// The score of these targets, each read by itself: a fleet's machines are not one; and whether some could not be read.
fn scored(targets: &[OsString]) -> Result<(Accuracy, bool), Failure> {
    if targets.is_empty() {
        return Ok((evaluate(), false));
    }
    let mut all = Opened::default();
    for target in targets {
        let opened = load(std::slice::from_ref(target), None)?;
        all.incomplete |= opened.incomplete;
        all.cases.extend(opened.cases);
    }
    Ok((all.accuracy()?, all.incomplete))
}

fn show(out: &mut dyn Write, accuracy: &Accuracy, verbose: bool) -> io::Result<()> {
    writeln!(out, "{}", heading("Error of predictions, in %", ["cells", "median", "p85", "worst"]))?;
    let o = &accuracy.overall;
    let mut scores = |what: &str, scores: &Scores| -> io::Result<()> {
        errors(out, &format!("{what}, cells"), &scores.cells)?;
        errors(out, &format!("{what}, groups"), &scores.groups)
    };
    scores("bandwidth, peerlane", &o.bandwidth.peerlane)?;
    scores("bandwidth, NCCL's constants", &o.bandwidth.nccl)?;
    scores("bandwidth, raw link rates", &o.bandwidth.raw)?;
    scores("latency, peerlane", &o.latency)?;
    classes(out, accuracy)?;
    systems(out, accuracy)?;
    groups(out, accuracy, verbose)?;
    figures(out, accuracy, verbose)?;
    far(out, accuracy, verbose)
}

/// Every figure with its prediction; by default those that lie outside their interval, the worst first.
fn figures(out: &mut dyn Write, accuracy: &Accuracy, verbose: bool) -> io::Result<()> {
    let all = accuracy.targets.iter().flat_map(|target| target.figures.iter().map(|figure| (&target.name, figure)));
    let mut shown: Vec<_> = all.filter(|(_, figure)| verbose || !figure.is_inside()).collect();
    let error = |figure: &Figure| figure.error().map_or(f64::INFINITY, f64::abs);
    let title = if verbose {
        "Figures".to_owned()
    } else {
        shown.sort_by(|a, b| error(b.1).total_cmp(&error(a.1)));
        format!("{} figures outside their interval", shown.len())
    };
    if shown.is_empty() {
        return Ok(());
    }
    let head = format!("{title:<42} {:>9} {:>9} {:>17} {:>8}", "measured", "predicted", "from, to", "error");
    writeln!(out, "\n{}", paint(style::HEADING, &head))?;
    for (name, figure) in shown.into_iter().take(if verbose { usize::MAX } else { FEW }) {
        let what = format!("{name} {}: {}", figure.class.name(), figure.label.replace("bandwidth, ", ""));
        let (predicted, range, error) = match figure.predicted {
            Some(p) => (number(p.value), format!("{}, {}", number(p.low), number(p.high)), figure.error().map(signed)),
            None => ("none".to_owned(), String::new(), None),
        };
        let (measured, error) = (number(figure.measured), error.unwrap_or_default());
        labelled(out, &what, 40, &format!("{measured:>9} {predicted:>9} {range:>17} {error:>8}"))?;
    }
    Ok(())
}

/// A row whose label is wrapped to so many columns; the others stand next to its first line.
fn labelled(out: &mut dyn Write, label: &str, columns: usize, others: &str) -> io::Result<()> {
    let lines = wrap(label, columns);
    let first = lines.first().map_or("", String::as_str);
    writeln!(out, "{}", format!("  {first:<columns$} {others}").trim_end())?;
    lines.iter().skip(1).try_for_each(|line| writeln!(out, "    {line}"))
}

fn classes(out: &mut dyn Write, accuracy: &Accuracy) -> io::Result<()> {
    let head = format!(
        "{:<24} {:>8} {:>9} {:>9} {:>9} {:>9} {:>15}",
        "Classes, errors in %", "figures", "median", "p85", "bias", "inside", "no prediction"
    );
    writeln!(out, "\n{}", paint(style::HEADING, &head))?;
    let share = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |s| format!("{:.0}", s * 100.0));
    let error = |error: Option<f64>| error.map_or_else(|| "-".to_owned(), percent);
    for ClassScore { class, n, median, p85, bias, inside, none } in &accuracy.classes {
        let [median, p85] = [median, p85].map(|e| error(*e));
        let bias = bias.map_or_else(|| "-".to_owned(), signed);
        let (inside, none) = (share(*inside), share(Some(*none).filter(|none| *none > 0.0)));
        let row = format!("  {:<22} {n:>8} {median:>9} {p85:>9} {bias:>9} {inside:>9} {none:>15}", class.name());
        writeln!(out, "{row}")?;
    }
    let SinglePath { n, median, p85, inside, half_width } = &accuracy.single_path;
    let (median, p85, inside) = (error(*median), error(*p85), share(*inside));
    writeln!(out, "  {:<22} {n:>8} {median:>9} {p85:>9} {:>9} {inside:>9}", "single paths together", "")?;
    if let Some(width) = half_width {
        let text = format!("median half-width of the intervals of single paths: {} %", percent(*width));
        writeln!(out, "  {}", paint(style::DIM, &text))?;
    }
    Ok(())
}

fn systems(out: &mut dyn Write, accuracy: &Accuracy) -> io::Result<()> {
    writeln!(out, "\n{}", heading("Systems, bandwidths, median in %", ["cells", "error", "held out", ""]))?;
    for l in &accuracy.left_out {
        let row = format!("  {:<52} {:>8} {:>9} {:>9}", l.system, l.cells, percent(l.known), percent(l.median));
        writeln!(out, "{row}")?;
    }
    writeln!(
        out,
        "  {}",
        paint(style::DIM, "held out: predicted without the constants that were fitted to the system itself")
    )
}

fn groups(out: &mut dyn Write, accuracy: &Accuracy, verbose: bool) -> io::Result<()> {
    let mut order: Vec<_> = accuracy.groups.iter().collect();
    if !verbose {
        order.sort_by(|a, b| b.error.abs().total_cmp(&a.error.abs()));
        order.truncate(FEW);
    }
    let title = if verbose { "Groups, in %" } else { "Groups with the largest errors, in %" };
    writeln!(out, "\n{}", heading(title, ["cells", "error", "NCCL", "raw"]))?;
    for g in order {
        // errors are in %, so the unit is dropped
        let what = match g.label.rsplit_once(", ") {
            Some((what, unit)) if unit.ends_with("/s") || matches!(unit, "us" | "ns") => what,
            _ => &g.label,
        };
        let label = format!("{} {}: {}", g.system, g.path, what.replace("bandwidth, ", ""));
        let kind = if g.kind == Kind::Fitted { "fitted" } else { "" };
        let [error, nccl, raw] = [Some(g.error), g.nccl, g.raw].map(|e| e.map_or_else(String::new, signed));
        labelled(out, &label, 52, &format!("{:>8} {error:>9} {nccl:>9} {raw:>9} {kind}", g.cells))?;
    }
    Ok(())
}

fn far(out: &mut dyn Write, accuracy: &Accuracy, verbose: bool) -> io::Result<()> {
    if accuracy.far.is_empty() {
        return Ok(());
    }
    let most = if verbose { usize::MAX } else { FEW };
    let title = format!("{} cells off by more than 15 %", accuracy.far.len());
    let head = format!("{title:<42} {:>9} {:>9} {:>8}", "measured", "predicted", "error");
    writeln!(out, "\n{}", paint(style::HEADING, &head))?;
    for c in accuracy.far.iter().take(most) {
        let cell = format!("{} {} → {}", c.system, c.row, c.col);
        let inside = if c.within { "  within the interval" } else { "" };
        let row = format!(
            "  {:<40} {:>9.2} {:>9.2} {:>8}{inside}",
            fit(&cell, 40),
            c.published,
            c.predicted,
            signed(c.error)
        );
        writeln!(out, "{row}")?;
    }
    if accuracy.far.len() > most {
        writeln!(out, "  {}", paint(style::DIM, &format!("and {} more (-v shows them)", accuracy.far.len() - most)))?;
    }
    Ok(())
}

fn heading(title: &str, columns: [&str; 4]) -> String {
    let [a, b, c, d] = columns;
    paint(style::HEADING, format!("{title:<54} {a:>8} {b:>9} {c:>9} {d:>9}").trim_end()).to_string()
}

fn errors(out: &mut dyn Write, what: &str, e: &Errors) -> io::Result<()> {
    if e.n == 0 {
        return Ok(());
    }
    writeln!(out, "  {what:<52} {:>8} {:>9} {:>9} {:>9}", e.n, percent(e.median), percent(e.p85), percent(e.worst))
}

fn percent(error: f64) -> String {
    format!("{:.1}", error * 100.0)
}

fn signed(error: f64) -> String {
    format!("{:+.1}", error * 100.0)
}
