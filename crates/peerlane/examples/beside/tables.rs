//! Numbers of two programs, cell by cell, as Markdown.

use std::collections::BTreeMap;
use std::fmt::Write;

use peerlane::matrix::{Direction, Engine, Matrix, Operation, Quantity};
use peerlane::names::is_host;
use peerlane::plan::{Test, Work};
use peerlane::run::{Cell, Estimate, ends};

use crate::counterpart::{counterpart, family};

/// The most cells of one row of a table that are named.
const NAMED: usize = 4;

/// A number so many times as good as another program's wants an explanation: rates differ less than times.
const FAR_BETTER: (f64, f64) = (1.1, 1.5);

/// One place of another program's matrix and ours.
pub(crate) struct Place<'a> {
    row: String,
    col: String,
    theirs: f64,
    ours: f64,
    cell: &'a Cell,
}

impl Place<'_> {
    fn ratio(&self) -> f64 {
        self.ours / self.theirs
    }

    /// Whether it misses what is asked for: rates of at least 0.99, loads within 3 %, copies no slower than by 1 %.
    fn misses(&self) -> bool {
        match self.cell.quantity {
            Quantity::Bandwidth => self.ratio() < 0.99,
            Quantity::LoadLatency => (self.ratio() - 1.0).abs() > 0.03,
            _ => self.ratio() > 1.01,
        }
    }

    fn is_far_better(&self) -> bool {
        match self.cell.quantity {
            Quantity::Bandwidth => self.ratio() > FAR_BETTER.0,
            _ => 1.0 / self.ratio() > FAR_BETTER.1,
        }
    }

    fn words(&self) -> String {
        let modes = &self.cell.modes;
        let modes = if modes.is_empty() { String::new() } else { format!(", modes {}", numbers(modes)) };
        let sides = format!("{} of {}", number(self.ours), number(self.theirs));
        format!("{}→{} {:.3} ({sides}{modes})", self.row, self.col, self.ratio())
    }
}

/// The places that both have measured.
pub(crate) fn compare<'a>(theirs: &Matrix, cells: &'a [Cell]) -> Vec<Place<'a>> {
    let mut places = Vec::new();
    for row in &theirs.rows {
        for col in &theirs.cols {
            let both = theirs.between(row, col).filter(|v| *v > 0.0).zip(counterpart(cells, theirs, row, col));
            let Some((theirs, (cell, ours))) = both else { continue };
            places.push(Place { row: row.clone(), col: col.clone(), theirs, ours, cell });
        }
    }
    places
}

/// One row for each matrix that has a counterpart; below, the cells that miss what is asked for, those far better, and
/// the matrices without a counterpart.
pub(crate) fn beside(whose: &str, theirs: &[Matrix], cells: &[Cell]) -> String {
    const RATIOS: &str = "medians | lowest | highest | miss |\n|---|--:|--:|--:|--:|--:|--:|--:|";
    let mut out = String::new();
    line(&mut out, &format!("| test | cells | {whose}: min / median / max | peerlane: the same | {RATIOS}"));
    let (mut missing, mut better, mut without) = (String::new(), String::new(), Vec::new());
    for matrix in theirs {
        let places = compare(matrix, cells);
        let of = |f: fn(&Place) -> f64| spread(places.iter().map(f).collect());
        let (Some(a), Some(b), Some(r)) = (of(|p| p.theirs), of(|p| p.ours), of(|p| p.ratio())) else {
            without.push(format!("`{}`", matrix.title));
            continue;
        };
        let name = match matrix.quantity {
            Quantity::EnqueueLatency => format!("{}, CPU", matrix.title),
            _ => matrix.title.clone(),
        };
        let misses: Vec<&Place> = places.iter().filter(|p| p.misses()).collect();
        let far: Vec<&Place> = places.iter().filter(|p| p.is_far_better()).collect();
        let count = places.len();
        let row = format!("{count} | {} {} | {} | {:.3}", numbers(&a), matrix.unit, numbers(&b), b[1] / a[1]);
        line(&mut out, &format!("| {name} | {row} | {:.3} | {:.3} | {} |", r[0], r[2], misses.len()));
        for (list, of_row) in [(&mut missing, misses), (&mut better, far)] {
            if !of_row.is_empty() {
                line(list, &format!("* {name}, {} of {count}: {}", of_row.len(), named(of_row)));
            }
        }
    }
    let lists = [("miss what is asked for", missing), ("are far better, which wants an explanation", better)];
    for (what, list) in lists.iter().filter(|(_, list)| !list.is_empty()) {
        line(&mut out, &format!("\nCells that {what}:\n\n{}", list.trim_end()));
    }
    if !without.is_empty() {
        line(&mut out, &format!("\nWithout a counterpart in this run: {}.", without.join(", ")));
    }
    out
}

/// The farthest first.
fn named(mut places: Vec<&Place>) -> String {
    let far = |p: &Place| p.ratio().ln().abs();
    places.sort_by(|a, b| far(b).total_cmp(&far(a)));
    let mut words: Vec<String> = places.iter().take(NAMED).map(|p| p.words()).collect();
    words.extend((places.len() > NAMED).then(|| "…".to_owned()));
    words.join("; ")
}

/// Of pairs and of the host, the better number of several programs in each place. Their titles say how many had one.
pub(crate) fn better(all: &[Matrix]) -> Vec<Matrix> {
    type Kind = (Test, Vec<String>, Vec<String>, Option<Engine>, Option<Operation>, Option<Direction>);
    let mut kinds: BTreeMap<Kind, (usize, Matrix)> = BTreeMap::new();
    for one in all {
        let ends = || one.rows.iter().flat_map(|row| one.cols.iter().map(move |col| (row, col)));
        let Some(test) = ends().find(|(row, col)| row != col).and_then(|(row, col)| family(one, row, col)) else {
            continue;
        };
        if !matches!(test, Test::Pairs | Test::PairsBoth | Test::Host | Test::HostBoth) {
            continue;
        }
        // where the sample says nothing it writes
        let op = matches!(test, Test::Pairs | Test::PairsBoth).then_some(one.op.unwrap_or(Operation::Write));
        let kind = (test, one.rows.clone(), one.cols.clone(), one.engine, op, one.direction);
        let (programs, best) = kinds.entry(kind).or_insert_with(|| {
            let values = vec![vec![None; one.cols.len()]; one.rows.len()];
            (0, Matrix { op, p2p: None, values, ..one.clone() })
        });
        *programs += 1;
        for (i, row) in best.values.iter_mut().enumerate() {
            for (j, best) in row.iter_mut().enumerate().filter(|(j, _)| one.rows.get(i) != one.cols.get(*j)) {
                *best = one.value(i, j).into_iter().chain(*best).reduce(f64::max);
            }
        }
    }
    let titled = |(programs, m): (usize, Matrix)| {
        let ends = match (m.rows.first().is_some_and(|r| is_host(r)), m.cols.first().is_some_and(|c| is_host(c))) {
            (true, _) => "host → GPU",
            (_, true) => "GPU → host",
            _ => "GPU → GPU",
        };
        let how = m.describe().replace("bandwidth, ", "").replace(", GB/s", "");
        Matrix { title: format!("{ends}, {how} (best of {programs})"), ..m }
    };
    kinds.into_values().map(titled).collect()
}

/// How many cells of all there are, and how many miss.
pub(crate) fn verdict(theirs: &[Matrix], cells: &[Cell]) -> (usize, usize) {
    let places: Vec<Place> = theirs.iter().flat_map(|m| compare(m, cells)).collect();
    (places.len(), places.iter().filter(|p| p.misses()).count())
}

/// How well two runs of one plan agree, by kind of cell, and which cells do not or have modes.
pub(crate) fn repeats(first: &[Cell], second: &[Cell]) -> String {
    let mut kinds: BTreeMap<(bool, String), (usize, usize)> = BTreeMap::new();
    let mut odd = String::new();
    for a in first {
        let Some(b) = second.iter().find(|b| (b.step, b.quantity) == (a.step, a.quantity) && b.work == a.work) else {
            continue;
        };
        let Some((x, y)) = a.usable().zip(b.usable()) else { continue };
        let apart = (x.value / y.value - 1.0).abs();
        let within = |v: f64, e: Estimate| (e.low..=e.high).contains(&v);
        let agree = apart <= 0.01 || within(x.value, y) || within(y.value, x);
        let (contended, kind) = kind(a);
        let count = kinds.entry((contended, kind.clone())).or_default();
        *count = (count.0 + 1, count.1 + usize::from(agree));
        if !agree || (contended && !(a.modes.is_empty() && b.modes.is_empty())) {
            let side = |c: &Cell, e: Estimate| match c.modes.as_slice() {
                [] => format!("{} ({} to {})", number(e.value), number(e.low), number(e.high)),
                modes => {
                    format!("{} ({} to {}), modes {}", number(e.value), number(e.low), number(e.high), numbers(modes))
                }
            };
            let what = format!("{} {}{}, {kind}", a.test, ends(&a.work), manner(&a.work));
            let agree = if agree { "yes" } else { "no" };
            let sides = format!("{} | {}", side(a, x), side(b, y));
            line(&mut odd, &format!("| {what} | {sides} | {:.1} % | {agree} |", apart * 100.0));
        }
    }
    let mut out = String::from("| cells | compared | agree | share |\n|---|--:|--:|--:|\n");
    let mut row = |name: &str, (n, agree): (usize, usize)| {
        line(&mut out, &format!("| {name} | {n} | {agree} | {:.1} % |", 100.0 * agree as f64 / n.max(1) as f64));
    };
    for ((contended, kind), count) in &kinds {
        row(&format!("{}: {kind}", if *contended { "contended" } else { "uncontended" }), *count);
    }
    let alone = kinds.iter().filter(|((contended, _), _)| !contended).map(|(_, count)| count);
    row("**all uncontended**", alone.fold((0, 0), |sum, count| (sum.0 + count.0, sum.1 + count.1)));
    if !odd.is_empty() {
        line(&mut out, "\nCells that disagree, and contended ones with modes:\n");
        line(
            &mut out,
            &format!("| cell | first | second | apart | agree |\n|---|--:|--:|--:|---|\n{}", odd.trim_end()),
        );
    }
    out
}

/// Whether transfers of a cell share an end, and what kind of cell it is.
fn kind(cell: &Cell) -> (bool, String) {
    match &cell.work {
        Work::Transfers(t) if t.len() > 2 || (t.len() == 2 && t[1] != t[0].reversed()) => {
            (true, "sets at once".to_owned())
        }
        Work::Transfers(t) if t.len() == 2 => (true, "both ways".to_owned()),
        Work::Transfers(_) => (false, "one transfer".to_owned()),
        _ => (false, cell.quantity.name().to_owned()),
    }
}

fn manner(work: &Work) -> String {
    let Work::Transfers(t) = work else { return String::new() };
    t.first().map(|t| format!(" {:?} {:?}", t.engine, t.op).to_lowercase()).unwrap_or_default()
}

/// Least, median and most.
fn spread(mut values: Vec<f64>) -> Option<[f64; 3]> {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    let median = (values.get(n / 2)? + values.get((n - 1) / 2)?) / 2.0;
    Some([*values.first()?, median, *values.last()?])
}

fn numbers(values: &[f64]) -> String {
    values.iter().map(|v| number(*v)).collect::<Vec<_>>().join(" / ")
}

/// Four digits or so.
pub(crate) fn number(v: f64) -> String {
    if v >= 100.0 { format!("{v:.1}") } else { format!("{v:.2}") }
}

/// Writing to a string cannot fail.
pub(crate) fn line(out: &mut String, text: &str) {
    let _ = writeln!(out, "{text}");
}

#[cfg(test)]
mod tests {
    use peerlane::transfer::Transfer;

    use super::*;
    use crate::counterpart::tests::{cell, matrix};

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        assert_eq!(spread(vec![4.0, 1.0, 2.0, 3.0]), Some([1.0, 2.5, 4.0]));
        assert_eq!(spread(vec![2.0]), Some([2.0; 3]));
        assert_eq!(spread(Vec::new()), None);
    }

    #[test]
    fn the_better_program_counts_in_each_place() {
        let one_way = |values: [f64; 2]| Matrix {
            cols: vec!["GPU1".to_owned(), "GPU2".to_owned()],
            values: vec![values.map(Some).to_vec()],
            ..matrix("", Direction::Unidirectional, "GPU0", "GPU1", 0.0)
        };
        let written = Matrix { op: Some(Operation::Write), ..one_way([396.0, 300.0]) };
        let best = better(&[one_way([360.0, 370.0]), written]);
        assert_eq!((best.len(), &best[0].values), (1, &vec![vec![Some(396.0), Some(370.0)]]));
        assert!(best[0].title.ends_with("(best of 2)"), "{}", best[0].title);
        let cells = ["GPU1", "GPU2"].map(|to| cell(Test::Pairs, &[Transfer::new("GPU0", to)], &[370.0]));
        assert_eq!(verdict(&best, &cells), (2, 1));
        let table = beside("best", &best, &cells);
        assert!(
            table.contains("| 2 | 370.0 / 383.0 / 396.0 GB/s | 370.0 / 370.0 / 370.0 | 0.966 | 0.934 | 1.000 | 1 |")
        );
        assert!(table.contains("GPU0→GPU1 0.934 (370.0 of 396.0)") && !table.contains("GPU0→GPU2"), "{table}");
    }

    #[test]
    fn what_is_too_good_is_named() {
        let theirs = [matrix("one_to_all_write_ce", Direction::Unidirectional, "GPU0", "others", 365.0)];
        let cells = [cell(Test::OneToAll, &["GPU1", "GPU2"].map(|to| Transfer::new("GPU0", to)), &[390.0, 390.0])];
        let table = beside("x", &theirs, &cells);
        assert!(table.contains("are far better") && table.contains("GPU0→others 2.137 (780.0 of 365.0)"), "{table}");
        assert!(!table.contains("that miss"), "{table}");
    }

    #[test]
    fn what_has_no_counterpart_is_said() {
        let theirs = [matrix("host_to_device_memcpy_ce", Direction::Unidirectional, "host", "GPU0", 55.0)];
        assert!(
            beside("x", &theirs, &[]).ends_with("Without a counterpart in this run: `host_to_device_memcpy_ce`.\n")
        );
    }

    #[test]
    fn runs_agree_within_an_interval_or_one_percent() {
        let wide = |mut cell: Cell, half: f64| {
            let value = cell.value().unwrap();
            cell.estimate = Some(Estimate { value, low: value - half, high: value + half });
            cell
        };
        let step = |step, cell: Cell| Cell { step, ..cell };
        let alone = |i, value| step(i, cell(Test::Host, &[Transfer::new("host", format!("GPU{i}"))], &[value]));
        let set = ["GPU0", "GPU1"].map(|gpu| Transfer::new("host", gpu));
        let moded = Cell { modes: vec![80.0, 100.0], ..step(3, cell(Test::AllHost, &set, &[50.0, 50.0])) };
        let first = [alone(0, 100.0), wide(alone(1, 100.0), 6.0), alone(2, 100.0), moded];
        let second =
            [alone(0, 100.9), alone(1, 95.0), alone(2, 95.0), step(3, cell(Test::AllHost, &set, &[50.0, 50.0]))];
        let told = repeats(&first, &second);
        assert!(told.contains("| uncontended: one transfer | 3 | 2 | 66.7 % |"), "{told}");
        assert!(told.contains("| contended: sets at once | 1 | 1 | 100.0 % |"), "{told}");
        assert!(
            told.contains("host→GPU2") && told.contains("modes 80.00 / 100.0") && !told.contains("host→GPU0 "),
            "{told}"
        );
    }
}
