//! The path between two nodes: the answer, the hops, what goes by size, and what all of it rests on.

use std::io::{self, Write};

use peerlane::export::json::{ExpectedCurve, ExpectedRate, ExplainedHop, ExplanationDocument, MeasuredCell};
use peerlane::units::Bytes;
use peerlane::upgrades::Upgrade;

use super::style::{self, paint};
use super::text::{fit, hang, number, span, width, wrap};
use super::{device, halo, label, line_width, rdma, unified};

/// Rows of measured values that are shown by default.
const FEW: usize = 8;

/// Expectations this close to each other are of the same copies.
const SAME: f64 = 0.005;

/// Columns before the text of the answer's lines.
const LABEL: usize = 13;

/// Writes everything; `verbose` adds every measured value, and the evidence for each link and value; `halo` the exchange of
/// faces.
pub fn show(out: &mut dyn Write, e: &ExplanationDocument, verbose: bool, halo: bool) -> io::Result<()> {
    answer(out, e)?;
    hops(out, &e.hops, verbose)?;
    more_upgrades(out, e.upgrades.get(1..).unwrap_or_default())?;
    e.rdma.as_ref().map_or(Ok(()), |found| rdma::show(out, found, verbose))?;
    e.device.as_ref().map_or(Ok(()), |found| device::show(out, found))?;
    e.unified_memory.as_ref().map_or(Ok(()), |found| unified::show(out, found))?;
    e.curve.as_ref().map_or(Ok(()), |curve| by_size(out, curve))?;
    if let Some(advice) = e.halo.as_ref().filter(|_| halo) {
        heading(out, "Halo exchange, a face each way at once")?;
        halo::show(out, advice)?;
    }
    measurements(out, e, verbose)?;
    assumptions(out, e)
}

fn heading(out: &mut dyn Write, text: &str) -> io::Result<()> {
    writeln!(out, "\n{}", paint(style::HEADING, text))
}

/// A line of the answer.
fn line(out: &mut dyn Write, name: &str, text: &str) -> io::Result<()> {
    hang(out, &format!("  {name:<width$}", width = LABEL - 2), text)
}

/// What one wants to know first: the rate, what binds it, the upgrade worth most.
fn answer(out: &mut dyn Write, e: &ExplanationDocument) -> io::Result<()> {
    let rate = e.forward.as_ref().map_or("rate unknown".to_owned(), |rate| format!("{} GB/s", number(rate.rate)));
    let within = e.forward.as_ref().map_or(String::new(), interval);
    writeln!(out, "\n{}{within}", paint(style::HEADING, &format!("{} → {}: {rate}", e.a, e.b)))?;
    if let Some(forward) = &e.forward {
        line(out, "bound by", &forward.bottleneck)?;
    }
    e.unknown.iter().try_for_each(|why| line(out, "unknown", why))?;
    match e.upgrades.first() {
        Some(best) => {
            line(out, "upgrade", &format!("{} GB/s ({}): {}", number(best.rate), times(best.factor), best.what))?;
            flags(out, best, LABEL)?;
        }
        None if e.forward.is_some() => line(out, "upgrade", "none known that raises the rate")?,
        None => {}
    }
    if let Some(measured) = summary(e) {
        line(out, "measured", &measured)?;
    }
    let class = e.class.map_or_else(|| "unknown".to_owned(), |class| format!("{class}: {}", class.meaning()));
    let transfer = match (e.staged, &e.staged_because) {
        (Some(false), _) => "; direct".to_owned(),
        (Some(true), Some(why)) => format!("; staged through host memory: {why}"),
        (Some(true), None) => "; staged through host memory".to_owned(),
        (None, _) => String::new(),
    };
    line(out, "path", &format!("{class}{transfer}"))?;
    let bound = |rate: &ExpectedRate| match &e.forward {
        Some(forward) if forward.bottleneck == rate.bottleneck => String::new(),
        _ => format!("; bound by {}", rate.bottleneck),
    };
    for (name, rate) in [("reverse", &e.backward), ("both ways", &e.both)] {
        if let Some(rate) = rate {
            line(out, name, &format!("{} GB/s{}{}", number(rate.rate), interval(rate), bound(rate)))?;
        }
    }
    Ok(())
}

/// ` (386.3–409.1)`.
fn interval(rate: &ExpectedRate) -> String {
    format!(" ({})", span(rate.low, rate.high))
}

/// `395.5 GB/s, 1.00 of the 396.1 expected; in all 34 values, 0.92–1.11 of expected`: what was measured of the copies that the
/// answer is about, then all that was measured.
fn summary(e: &ExplanationDocument) -> Option<String> {
    let cells = &e.measured;
    let ratio = |cell: &MeasuredCell| [cell.low, cell.high].map(|v| v / cell.expected.unwrap_or(0.0));
    let (low, high) = cells
        .iter()
        .flat_map(ratio)
        .filter(|ratio| ratio.is_finite())
        .fold((f64::INFINITY, 0.0_f64), |(low, high), ratio| (low.min(ratio), high.max(ratio)));
    let of = if low.is_finite() { format!(", {} of expected", span(low, high)) } else { String::new() };
    let all = (!cells.is_empty()).then(|| format!("{}{of}", super::text::count(cells.len(), "value")))?;
    Some(match cells.iter().find_map(|cell| answering(e, cell)) {
        Some(answer) if cells.len() > 1 => format!("{answer}; in all {all}"),
        Some(answer) => answer,
        None => all,
    })
}

/// `395.5 GB/s, 1.00 of the 396.1 expected`, of a rate that was measured of the very copies whose rate is the answer.
fn answering(e: &ExplanationDocument, cell: &MeasuredCell) -> Option<String> {
    let expected = cell.expected.filter(|_| cell.row == e.a || cell.col == e.b)?;
    let same = (cell.unit.rate(expected)?.gb() / e.forward.as_ref()?.rate - 1.0).abs() < SAME;
    let (rate, unit) = (span(cell.low, cell.high), cell.unit.name());
    let ratio = span(cell.low / expected, cell.high / expected);
    same.then(|| format!("{rate} {unit}, {ratio} of the {} expected", number(expected)))
}

/// The changes of an upgrade, to be given to any command.
fn flags(out: &mut dyn Write, upgrade: &Upgrade, indent: usize) -> io::Result<()> {
    let flags: Vec<String> = upgrade.edits.iter().map(|e| format!("--what-if '{e}'")).collect();
    for line in wrap(&flags.join(" "), line_width() - indent) {
        writeln!(out, "{:indent$}{}", "", paint(style::DIM, &line))?;
    }
    Ok(())
}

/// The upgrades that raise the rate less than the first.
fn more_upgrades(out: &mut dyn Write, upgrades: &[Upgrade]) -> io::Result<()> {
    if upgrades.is_empty() {
        return Ok(());
    }
    heading(out, "Other upgrades")?;
    for upgrade in upgrades {
        let label = format!("  {:>8} GB/s {:>7}  ", number(upgrade.rate), times(upgrade.factor));
        hang(out, &label, &format!("{}; then bound by {}", upgrade.what, upgrade.bottleneck))?;
        flags(out, upgrade, width(&label))?;
    }
    Ok(())
}

/// `+28 %`, `× 6.7`.
fn times(factor: f64) -> String {
    if factor < 2.0 { format!("+{:.0} %", (factor - 1.0) * 100.0) } else { format!("× {factor:.1}") }
}

fn hops(out: &mut dyn Write, hops: &[ExplainedHop], verbose: bool) -> io::Result<()> {
    if hops.is_empty() {
        return Ok(());
    }
    let any_limit = hops.iter().any(|h| h.limit.is_some());
    heading(out, if any_limit { "Hops, with the rate that each allows a single transfer" } else { "Hops" })?;
    let paths: Vec<String> = hops
        .iter()
        .map(|h| match &h.link {
            Some(link) => format!("{} ─ {link} ─ {}", h.from, h.to),
            None => format!("{} → {}", h.from, h.to),
        })
        .collect();
    let column = paths.iter().map(|p| width(p)).max().unwrap_or(0).min(42);
    for (hop, path) in hops.iter().zip(&paths) {
        let limit = hop.limit.map_or_else(String::new, |l| format!("{} GB/s", number(l)));
        let (mark, look) = if hop.tightest { ("◄", style::WARN) } else { (" ", style::PLAIN) };
        let why = wrap(label::reason(hop.limit, &hop.why), line_width().saturating_sub(column + 19));
        let first = why.first().map_or("", String::as_str);
        let line = format!("  {:column$} {} {}", fit(path, column), paint(look, &format!("{limit:>11} {mark}")), first);
        writeln!(out, "{}", line.trim_end())?;
        for more in why.iter().skip(1) {
            writeln!(out, "{:indent$}{more}", "", indent = column + 17)?;
        }
        if verbose && !hop.evidence.is_empty() {
            dim(out, &hop.evidence.join("; "))?;
        }
    }
    Ok(())
}

/// An indented line in the background.
fn dim(out: &mut dyn Write, text: &str) -> io::Result<()> {
    for line in wrap(text, line_width() - 6) {
        writeln!(out, "      {}", paint(style::DIM, &line))?;
    }
    Ok(())
}

/// Times and rates by size, and where another method is faster.
fn by_size(out: &mut dyn Write, curve: &ExpectedCurve) -> io::Result<()> {
    heading(out, "Copies by size, of many one behind another")?;
    for ((size, rate), (_, time)) in curve.rates.iter().zip(&curve.times) {
        writeln!(out, "  {:<9} {:>8} us {:>8} GB/s", Bytes(*size).to_string(), number(*time), number(*rate))?;
    }
    writeln!(out, "  {:<9} {:>11} {:>8} GB/s", "asymptote", "", number(curve.rate))?;
    let [low, high] = curve.latency_interval;
    let small = format!("{} us ({}): {}", number(curve.latency), span(low, high), curve.latency_why);
    line(out, "smallest", &small)?;
    line(out, "half rate", &format!("from {:.0} KiB", curve.half_size as f64 / 1024.0))?;
    curve.crossover().map_or(Ok(()), |text| line(out, "crossover", &text))
}

/// What was measured or published, both directions beside each other.
fn measurements(out: &mut dyn Write, e: &ExplanationDocument, verbose: bool) -> io::Result<()> {
    let mut rows: Vec<(&MeasuredCell, [Option<&MeasuredCell>; 2])> = Vec::new();
    for cell in &e.measured {
        // the reverse direction begins with the node of any name that the first one ends with
        let reverse = usize::from(cell.row == e.b || cell.col == e.a);
        let same = |(first, both): &&mut (&MeasuredCell, [Option<&MeasuredCell>; 2])| {
            first.what == cell.what && first.evidence == cell.evidence && both[reverse].is_none()
        };
        match rows.iter_mut().find(same) {
            Some((_, both)) => both[reverse] = Some(cell),
            None => {
                let mut both = [None; 2];
                both[reverse] = Some(cell);
                rows.push((cell, both));
            }
        }
    }
    if rows.is_empty() {
        return Ok(());
    }
    heading(out, "Measured or published, and the ratio to what is expected")?;
    writeln!(out, "  {:>15} {:>15}", fit(&format!("{} → {}", e.a, e.b), 15), fit(&format!("{} → {}", e.b, e.a), 15))?;
    for (first, both) in rows.iter().take(if verbose { usize::MAX } else { FEW }) {
        hang(out, &format!("  {} {}  ", value(both[0]), value(both[1])), &first.what)?;
        if verbose {
            dim(out, &first.evidence)?;
        }
    }
    if !verbose && rows.len() > FEW {
        dim(out, &format!("and {} more (-v shows them)", rows.len() - FEW))?;
    }
    if verbose {
        return Ok(());
    }
    let mut sources: Vec<String> = rows.iter().map(|(cell, _)| source(&cell.evidence)).collect();
    sources.dedup();
    dim(out, &format!("from {}", sources.join(", ")))
}

/// `   396.1   1.00`.
fn value(cell: Option<&MeasuredCell>) -> String {
    let Some(cell) = cell else { return format!("{:>15}", "–") };
    let ratio = cell.expected.filter(|e| *e > 0.0).map(|e| span(cell.low / e, cell.high / e)).unwrap_or_default();
    format!("{:>9} {ratio:>5}", span(cell.low, cell.high))
}

/// A source without its lines: `h200x4-vm (published figures)` of `h200x4-vm:161-166 (published figures)`.
fn source(evidence: &str) -> String {
    let Some((file, tool)) = evidence.rsplit_once(" (") else { return evidence.to_owned() };
    let is_lines = |text: &str| text.chars().all(|c| c.is_ascii_digit() || matches!(c, '-' | ','));
    let file = file.rsplit_once(':').filter(|(_, lines)| is_lines(lines)).map_or(file, |(file, _)| file);
    format!("{file} ({tool}")
}

fn assumptions(out: &mut dyn Write, e: &ExplanationDocument) -> io::Result<()> {
    if e.assumptions.is_empty() {
        return Ok(());
    }
    heading(out, "Assumed")?;
    e.assumptions.iter().try_for_each(|sentence| hang(out, "  · ", sentence))
}
