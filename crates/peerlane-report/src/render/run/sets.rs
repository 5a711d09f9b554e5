//! Sets of concurrent transfers: the rate of each, their sum, and its share of the sum of what they reach alone.

use std::io::{self, Write};

use peerlane::matrix::{Engine, Operation};
use peerlane::names::is_host;
use peerlane::plan::{Test, Work};
use peerlane::run::{Cell, TransferSet, ends};
use peerlane::transfer::Transfer;

use super::{View, decimals, heading, remarks};
use crate::render::matrix::table;

/// Limit of rates shown one by one; of more, the range is shown.
const EACH: usize = 4;

/// What sets of one table have in common.
type Kind = (Test, Engine, Option<Operation>, &'static str);

fn kind(set: &TransferSet) -> Option<Kind> {
    let first = set.transfers.first()?;
    let op = (!with_host(first)).then_some(first.op);
    Some((set.cell.test, first.engine, op, set.cell.unit.name()))
}

fn with_host(transfer: &Transfer) -> bool {
    is_host(&transfer.source) || is_host(&transfer.destination)
}

/// Writes a table for each family, engine and operation.
pub(super) fn write(out: &mut dyn Write, view: &View, all: &[TransferSet]) -> io::Result<()> {
    let mut kinds: Vec<Kind> = Vec::new();
    for kind in all.iter().filter_map(kind) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    for wanted in kinds {
        let of: Vec<&TransferSet> = all.iter().filter(|set| kind(set) == Some(wanted)).collect();
        let (test, engine, op, unit) = wanted;
        let mut words = vec!["concurrent rates"];
        words.extend(op.map(|op| if op == Operation::Read { "reads" } else { "writes" }));
        words.push(if engine == Engine::Sm { "SM copies" } else { "copy engine" });
        let cells: Vec<&Cell> = of.iter().map(|set| set.cell).collect();
        let sizes = remarks::sizes(&cells);
        words.extend([sizes.as_str(), unit]);
        heading(out, &words.join(", "), test.name())?;
        let headings = ["set", "each", "sum", "±", "vs alone"].map(str::to_owned);
        let rows: Vec<Vec<String>> = of.iter().flat_map(|set| rows(set)).collect();
        table(out, &headings, &rows, 3)?;
        remarks::flags(out, &cells, view.verbose)?;
        if view.verbose {
            super::list(out, &cells)?;
        }
    }
    Ok(())
}

/// One line per set; if its transfers go both to and from the host, a line for either direction below it.
fn rows(set: &TransferSet) -> Vec<Vec<String>> {
    let down: Vec<usize> = members(set, |t| is_host(&t.source));
    let up: Vec<usize> = members(set, |t| is_host(&t.destination));
    let all: Vec<usize> = (0..set.transfers.len()).collect();
    let width = remarks::relative_width(set.cell).map(remarks::percent).unwrap_or_default();
    let name = ends(&set.cell.work);
    let Some(value) = set.cell.value() else {
        return vec![vec![name, remarks::mark(set.cell).0.to_owned(), "-".to_owned()]];
    };
    let digits = decimals(std::iter::once(value));
    let share = |members: &[usize]| set.share_of_alone(members).map(|s| format!("{:.0} %", s * 100.0));
    let sum = format!("{value:.digits$}");
    if down.is_empty() || up.is_empty() {
        return vec![vec![name, each(set, &all), sum, width, share(&all).unwrap_or_default()]];
    }
    let part = |members: &[usize]| {
        let transfers = members.iter().filter_map(|at| set.transfers.get(*at).cloned()).collect();
        let sum: Option<f64> = members.iter().map(|at| set.each(*at)).sum();
        vec![
            format!("  {}", ends(&Work::Transfers(transfers))),
            each(set, members),
            sum.map(|s| format!("{s:.digits$}")).unwrap_or_default(),
            String::new(),
            share(members).unwrap_or_default(),
        ]
    };
    vec![vec![name, String::new(), sum, width, share(&all).unwrap_or_default()], part(&down), part(&up)]
}

fn members(set: &TransferSet, wanted: impl Fn(&Transfer) -> bool) -> Vec<usize> {
    set.transfers.iter().enumerate().filter(|(_, t)| wanted(t)).map(|(at, _)| at).collect()
}

/// `366.1 366.0 366.3`, or `360.2–366.4`.
fn each(set: &TransferSet, members: &[usize]) -> String {
    let rates: Vec<f64> = members.iter().filter_map(|at| set.each(*at)).collect();
    let digits = decimals(rates.iter().copied());
    let text = |v: &f64| format!("{v:.digits$}");
    let low = rates.iter().copied().reduce(f64::min);
    let high = rates.iter().copied().reduce(f64::max);
    match (low, high) {
        (Some(low), Some(high)) if rates.len() > EACH => format!("{}–{}", text(&low), text(&high)),
        _ => rates.iter().map(text).collect::<Vec<_>>().join(" "),
    }
}
