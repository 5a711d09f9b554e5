//! The series of one metric together, and what the model predicts beside them.

use std::collections::HashMap;

use super::{Comparison, MOST_ENDS, Series, Source};
use crate::expectation::requested::{Requested, further, usual};
use crate::expectation::{Expected, HOST, ITSELF, Metric};
use peerlane_machine::fabric::{Fabric, NodeKind};
use peerlane_machine::machine::Spread;
use peerlane_machine::matrix::Quantity;
use peerlane_machine::units::Bytes;

/// The most GPUs and NICs of a machine of which all that can be predicted has tables. Of a larger one those that were measured
/// have, and those that `predict` shows.
pub const MOST_COMPARED: usize = 64;

/// Rates of smaller transfers say nothing of those of any size.
const LARGE: Bytes = Bytes(1 << 20);

/// All numbers of one metric between ends of one kind.
#[derive(Debug)]
pub struct Table<'c> {
    /// What the numbers are of.
    pub metric: Metric,
    /// The test's title, where the metric does not say what it does.
    pub title: Option<&'c str>,
    /// Sources.
    pub rows: Vec<String>,
    /// Destinations.
    pub cols: Vec<String>,
    /// Those that were measured or can be predicted, row by row.
    pub cells: Vec<Cell<'c>>,
}

/// One path of a table.
#[derive(Debug)]
pub struct Cell<'c> {
    /// Index of its row.
    pub row: usize,
    /// Index of its column.
    pub col: usize,
    /// What should stand there; `None` where the model cannot say.
    pub expected: Option<Expected>,
    /// All that was measured, published figures first.
    pub measured: Vec<Measurement<'c>>,
}

/// A measured number.
#[derive(Clone, Copy, Debug)]
pub struct Measurement<'c> {
    /// The number, or the low end of a stated range.
    pub value: f64,
    /// The same number, or the high end of a stated range.
    pub upto: f64,
    /// How sure it is, where the source says.
    pub spread: Option<Spread>,
    /// Where it comes from.
    pub source: Source<'c>,
}

impl Cell<'_> {
    /// Measured ÷ expected, of the last number that a program measured, else of the last that was published.
    pub fn ratio(&self) -> Option<f64> {
        let expected = self.expected.as_ref()?.value;
        let ratio = self.measured.last()?.value / expected;
        (expected > 0.0 && ratio.is_finite()).then_some(ratio)
    }
}

/// What kind of ends a table's rows or columns are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    /// Nodes of one kind; `host` is host memory.
    Nodes(NodeKind),
    /// The memory of the row's GPU.
    Itself,
    /// Several kinds, or names that the machine does not have.
    Mixed,
}

impl Ends {
    fn of(fabric: &Fabric, names: &[String]) -> Self {
        let kind = |name: &String| match name.as_str() {
            HOST => Self::Nodes(NodeKind::Host),
            ITSELF => Self::Itself,
            name => fabric.find(name).map_or(Self::Mixed, |id| Self::Nodes(fabric.node(id).kind)),
        };
        let mut kinds = names.iter().map(kind);
        let first = kinds.next().unwrap_or(Self::Mixed);
        if kinds.all(|other| other == first) { first } else { Self::Mixed }
    }
}

/// A table before its cells are filled.
struct Group<'c, 'a> {
    metric: Metric,
    title: Option<&'c str>,
    ends: [Ends; 2],
    rows: Vec<String>,
    cols: Vec<String>,
    series: Vec<&'c Series<'a>>,
}

/// All tables of a comparison.
pub(super) fn all<'c>(comparison: &'c Comparison) -> Vec<Table<'c>> {
    let model = comparison.model();
    let fabric = &model.machine.fabric;
    let mut groups: Vec<Group> = Vec::new();
    for series in comparison.series().iter().filter(|s| s.matrix().values.iter().flatten().any(Option::is_some)) {
        measured(&mut groups, fabric, series);
    }
    let mut asked = usual(model);
    if fabric.devices().len() <= MOST_COMPARED {
        asked.extend(further(model));
    }
    for asked in asked {
        predicted(&mut groups, fabric, asked);
    }
    let tables = groups.into_iter().map(|group| group.table(comparison));
    tables.filter(|table| !table.cells.is_empty()).collect()
}

/// Adds a series to the table of its metric.
fn measured<'c, 'a>(groups: &mut Vec<Group<'c, 'a>>, fabric: &Fabric, series: &'c Series<'a>) {
    let matrix = series.matrix();
    let metric = series.metric();
    let title = (!series.is_of_pairs()).then_some(matrix.title.as_str());
    let on_diagonal = |i: usize, row: &String| {
        matrix.cols.iter().enumerate().all(|(j, col)| col == row || matrix.value(i, j).is_none())
    };
    let mut ends = [&matrix.rows, &matrix.cols].map(|names| Ends::of(fabric, names));
    if matrix.rows.iter().enumerate().all(|(i, row)| on_diagonal(i, row)) {
        ends[1] = Ends::Itself;
    }
    let same = |group: &&mut Group| {
        let alike = (group.metric, group.title, group.ends) == (metric, title, ends);
        alike && (!ends.contains(&Ends::Mixed) || (&group.rows, &group.cols) == (&matrix.rows, &matrix.cols))
    };
    let group = match groups.iter_mut().find(same) {
        Some(group) => group,
        None => {
            let (rows, cols) = (Vec::new(), Vec::new());
            groups.push(Group { metric, title, ends, rows, cols, series: Vec::new() });
            let Some(group) = groups.last_mut() else { return };
            group
        }
    };
    join(&mut group.rows, &matrix.rows);
    join(&mut group.cols, &matrix.cols);
    group.series.push(series);
}

/// Adds a prediction: to the table of its metric, or as one of its own; unless a table has all of it.
fn predicted(groups: &mut Vec<Group>, fabric: &Fabric, asked: Requested) {
    let Requested { metric, rows, cols } = asked;
    let ends = [&rows, &cols].map(|names| Ends::of(fabric, names));
    let alike = |group: &Group| group.title.is_none() && group.ends == ends && is_same(&group.metric, &metric);
    let has = |all: &[String], some: &[String]| some.iter().all(|name| all.contains(name));
    let large = |of: &Metric| metric.quantity != Quantity::Bandwidth || of.size.is_none_or(|size| size >= LARGE);
    if groups.iter().any(|g| alike(g) && large(&g.metric) && has(&g.rows, &rows) && has(&g.cols, &cols)) {
        return;
    }
    let fits = |group: &&mut Group| alike(group) && group.metric.size.is_none() && group.metric.unit == metric.unit;
    match groups.iter_mut().find(fits) {
        Some(group) => {
            join(&mut group.rows, &rows);
            join(&mut group.cols, &cols);
        }
        None => groups.push(Group { metric, title: None, ends, rows, cols, series: Vec::new() }),
    }
}

/// Whether two metrics mean the same, where one does not say all that the other does; of any size and unit.
fn is_same(a: &Metric, b: &Metric) -> bool {
    fn fit<T: PartialEq>(a: Option<T>, b: Option<T>) -> bool {
        a.is_none() || b.is_none() || a == b
    }
    let peers = |metric: &Metric| metric.p2p != Some(false);
    (a.quantity, a.direction, peers(a)) == (b.quantity, b.direction, peers(b))
        && fit(a.op, b.op)
        && fit(a.engine, b.engine)
}

fn join(names: &mut Vec<String>, others: &[String]) {
    let known: std::collections::HashSet<&String> = names.iter().collect();
    let new: Vec<String> = others.iter().filter(|name| !known.contains(name)).cloned().collect();
    names.extend(new);
}

impl<'c> Group<'c, '_> {
    fn table(self, comparison: &'c Comparison) -> Table<'c> {
        let Group { metric, title, ends, rows, cols, series } = self;
        let is_predicted = title.is_none() && rows.len().max(cols.len()) <= MOST_ENDS;
        let places = series.iter().map(|series| {
            let at = |names: &'c [String]| names.iter().enumerate().map(|(i, n)| (n.as_str(), i)).collect();
            let maps: [HashMap<&str, usize>; 2] = [at(&series.matrix().rows), at(&series.matrix().cols)];
            (*series, maps)
        });
        let mut places: Vec<_> = places.collect();
        places.sort_by_key(|(series, _)| !series.source().published());
        let mut cells = Vec::new();
        for (i, row) in rows.iter().enumerate() {
            for (j, col) in cols.iter().enumerate() {
                if ends[1] == Ends::Itself && col != row && col != ITSELF {
                    continue;
                }
                let find = |(series, [rows, cols]): &(&'c Series, [HashMap<&str, usize>; 2])| {
                    series.measured(*rows.get(row.as_str())?, *cols.get(col.as_str())?)
                };
                let measured: Vec<Measurement> = places.iter().filter_map(find).collect();
                let expected = if is_predicted { comparison.expected(&metric, row, col) } else { None };
                if expected.is_some() || !measured.is_empty() {
                    cells.push(Cell { row: i, col: j, expected, measured });
                }
            }
        }
        Table { metric, title, rows, cols, cells }
    }
}
