//! The precision of numbers and their flags, in words.

use std::collections::BTreeMap;
use std::io::{self, Write};

use peerlane::run::{Cell, FlagKind, ends};

use crate::render::style::{self, paint};
use crate::render::text::{hang, wrap};
use crate::render::{comparison, line_width};

/// Limit of cells that are named one by one; more are counted.
const NAMED: usize = 4;

/// A flag in a word or two.
pub(super) fn word(kind: FlagKind) -> &'static str {
    match kind {
        FlagKind::Outliers => "outliers",
        FlagKind::Drift => "drift",
        FlagKind::Modes => "multimodal",
        FlagKind::Imprecise => "imprecise",
        FlagKind::Clocks => "clocks",
        FlagKind::Beside => "concurrent",
        FlagKind::Alone => "alone",
        FlagKind::Unverified => "not verified",
        FlagKind::Busy => "busy",
        FlagKind::Corrupt => "corrupt",
        FlagKind::Implausible => "implausible",
        FlagKind::NotApplicable => "not applicable",
        FlagKind::Failed => "failed",
        FlagKind::Hung => "hung",
    }
}

/// What a table shows in place of a missing number.
pub(super) fn mark(cell: &Cell) -> (&'static str, anstyle::Style) {
    match cell.flags.iter().map(|f| f.kind).find(|k| k.voids()) {
        Some(FlagKind::NotApplicable) => ("n/a", style::DIM),
        Some(FlagKind::Hung) => ("hung", style::BAD),
        Some(FlagKind::Corrupt) => ("corrupt", style::BAD),
        Some(FlagKind::Implausible) => ("implausible", style::BAD),
        _ => ("failed", style::BAD),
    }
}

/// Whether a number is doubtful.
pub(super) fn is_doubtful(cell: &Cell) -> bool {
    let harmless = |kind| matches!(kind, FlagKind::Beside | FlagKind::Alone | FlagKind::Unverified);
    cell.flags.iter().any(|f| !f.kind.voids() && !harmless(f.kind))
}

/// `6`, `6–18`.
fn range(numbers: impl Iterator<Item = usize>) -> String {
    let (least, most) = numbers.fold((usize::MAX, 0), |(a, b), n| (a.min(n), b.max(n)));
    if least >= most { most.to_string() } else { format!("{least}–{most}") }
}

/// The distance from the value to the farther end of its interval, as a share of the value.
pub(super) fn relative_width(cell: &Cell) -> Option<f64> {
    let e = cell.usable()?;
    let farther = (e.high - e.value).max(e.value - e.low);
    if farther == 0.0 { Some(0.0) } else { Some(farther / e.value.abs()).filter(|w| w.is_finite()) }
}

/// `256 MiB`, `32 MiB–64 MiB`: message sizes suit each pair's rate.
pub(super) fn sizes(of: &[&Cell]) -> String {
    let sizes = || of.iter().filter(|c| c.value().is_some()).map(|c| c.size);
    match (sizes().min(), sizes().max()) {
        (Some(least), Some(most)) if least != most => format!("{least}–{most}"),
        (Some(one), _) => one.to_string(),
        _ => "no size".to_owned(),
    }
}

/// `0.3 %`; two digits, rounded up.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let decimals = if percent >= 10.0 { 0 } else { 1 };
    let step = 10_f64.powi(decimals);
    format!("{:.*} %", decimals as usize, (percent * step - 1e-9).ceil().max(0.0) / step)
}

/// One line: samples and intervals of all cells, and the names of those with an interval wider than requested.
pub(super) fn precision_line(out: &mut dyn Write, of: &[&Cell], precision: f64) -> io::Result<()> {
    let known: Vec<(&Cell, f64)> = of.iter().filter_map(|c| Some((*c, relative_width(c)?))).collect();
    if known.is_empty() {
        return Ok(());
    }
    let (wide, narrow): (Vec<_>, Vec<_>) = known.iter().partition(|(_, w)| *w > precision);
    let most = |cells: &[(&Cell, f64)]| cells.iter().fold(0.0, |most: f64, (_, w)| most.max(*w));
    // an interval of the median needs 6 samples
    let few = known.iter().filter(|(c, _)| c.n < 6).count();
    let kind = if few == known.len() { "range" } else { "95 % interval" };
    let mut text = format!("n {}; {kind} within ±", range(known.iter().map(|(c, _)| c.n)));
    match (narrow.is_empty(), wide.as_slice()) {
        (_, []) => text.push_str(&percent(most(&narrow))),
        (true, _) => text.push_str(&percent(most(&wide))),
        (false, few) if few.len() <= NAMED => {
            let named: Vec<String> = few.iter().map(|(c, w)| format!("{} ±{}", ends(&c.work), percent(*w))).collect();
            text.push_str(&format!("{} except {}", percent(most(&narrow)), named.join(", ")));
        }
        (false, many) => {
            text.push_str(&percent(most(&narrow)));
            text.push_str(&format!(" except {} of {}: up to ±{}", many.len(), known.len(), percent(most(many))));
        }
    }
    if few > 0 && few < known.len() {
        text.push_str(&format!("; range instead for {few} with fewer than 6 samples"));
    }
    for line in wrap(&text, line_width() - 2) {
        writeln!(out, "  {}", paint(style::DIM, &line))?;
    }
    Ok(())
}

/// A line for each kind of flag: the cells and the detail.
pub(super) fn flags(out: &mut dyn Write, of: &[&Cell], verbose: bool) -> io::Result<()> {
    let mut kinds: BTreeMap<FlagKind, Vec<(&Cell, &str)>> = BTreeMap::new();
    for cell in of {
        for flag in &cell.flags {
            // harmless flags, and those covered by the line above, are not shown
            let shown = !matches!(flag.kind, FlagKind::Beside | FlagKind::Imprecise);
            if shown || verbose {
                kinds.entry(flag.kind).or_default().push((cell, &flag.detail));
            }
        }
    }
    // the worst first
    for (kind, cells) in kinds.iter().rev() {
        let mut details: Vec<&str> = cells.iter().map(|(_, detail)| *detail).filter(|d| !d.is_empty()).collect();
        details.dedup();
        let detail = match details.as_slice() {
            [] => String::new(),
            [one] => format!(": {one}"),
            [first, ..] => format!(": {first}, and similar"),
        };
        let look = match kind {
            FlagKind::NotApplicable | FlagKind::Beside | FlagKind::Alone | FlagKind::Unverified => style::DIM,
            kind if kind.voids() => style::BAD,
            _ => style::WARN,
        };
        let mut line = Vec::new();
        let label = format!("{}, ", word(*kind));
        hang(&mut line, &" ".repeat(2 + label.chars().count()), &format!("{}{detail}", who(cells, of.len())))?;
        let text = String::from_utf8_lossy(&line).into_owned();
        let rest = text.get(2 + label.len()..).unwrap_or_default();
        write!(out, "  {}{rest}", paint(look, &label))?;
    }
    Ok(())
}

/// Cells in short.
fn who(cells: &[(&Cell, &str)], of: usize) -> String {
    let mut names: Vec<String> = Vec::new();
    for (cell, _) in cells {
        let name = ends(&cell.work);
        if !names.contains(&name) && names.len() <= NAMED {
            names.push(name);
        }
    }
    let arrows: Option<Vec<(&str, &str)>> = names.iter().map(|name| name.split_once('→')).collect();
    match arrows {
        _ if cells.len() == of && of > 1 => format!("all {of}"),
        _ if names.len() <= NAMED => names.join(", "),
        Some(_) => {
            let all: Vec<String> = cells.iter().map(|(cell, _)| ends(&cell.work)).collect();
            let pairs: Vec<(&str, &str)> = all.iter().filter_map(|name| name.split_once('→')).collect();
            comparison::between(&pairs)
        }
        None => format!("{} of {of}", cells.len()),
    }
}
