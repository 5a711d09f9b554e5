//! What a source measured, one number for each kind of path: pairs that are alike measure alike, so that a median stands for all
//! of them and a matrix of a hundred cells does not weigh a hundred times.

use crate::comparison::{Comparison, Source};
use crate::expectation::Metric;
use peerlane_machine::fabric::{Fabric, PathClass};
use peerlane_machine::machine::{Machine, SourcedMatrix};
use peerlane_machine::matrix::{Matrix, Quantity};
use peerlane_machine::origin::Origin;

/// Kinds of paths that are looked at; texts have a dozen.
const MOST_KINDS: usize = 48;

/// Numbers that are looked at.
const MOST_NUMBERS: usize = 1 << 16;

/// Numbers of one metric on paths that are alike.
#[derive(Debug)]
pub(super) struct Observed {
    metric: Metric,
    class: Option<PathClass>,
    ends: [String; 2],
    cells: Vec<Number>,
    title: String,
    origin: Origin,
}

/// A measured number, or the middle of a stated range, with its ends.
#[derive(Debug)]
pub(super) struct Number {
    pub(super) value: f64,
    range: [f64; 2],
    pub(super) row: String,
    pub(super) col: String,
}

/// All that a machine's sources measured of paths between GPUs and host memory.
pub(super) fn of(machine: &Machine, comparison: &Comparison) -> Vec<Observed> {
    let fabric = &machine.fabric;
    let mut all: Vec<Observed> = Vec::new();
    let unstated = Origin { source: machine.name.as_str().into(), tool: "text", lines: None };
    let mut room = MOST_NUMBERS;
    for series in comparison.series().iter().filter(|series| series.is_of_pairs()) {
        let (metric, matrix) = (series.metric(), series.matrix());
        // a figure in words is one number, of however many paths
        let in_words = matches!(series.source(), Source::Statement(_));
        let before = all.len();
        if !matches!(metric.quantity, Quantity::Bandwidth | Quantity::Latency) {
            continue;
        }
        for (i, row) in matrix.rows.iter().enumerate() {
            for (j, col) in matrix.cols.iter().enumerate() {
                let range = series.measured(i, j).map(|m| [m.value, m.upto]);
                let Some(range) = range.filter(|r| r[0] > 0.0 && row != col && room > 0) else { continue };
                room -= 1;
                let ends = [row, col].map(|name| kind(fabric, name));
                let class = fabric.find(row).zip(fabric.find(col)).and_then(|(a, b)| fabric.class(a, b));
                let value = (range[0] * range[1]).sqrt();
                let cell = Number { value, range, row: row.clone(), col: col.clone() };
                let alike = |o: &Observed| o.metric == metric && (in_words || (o.class == class && o.ends == ends));
                let from = if in_words { before } else { 0 };
                match all.iter().skip(from).position(alike).map(|at| at + from) {
                    Some(known) => all[known].cells.push(cell),
                    None if all.len() < MOST_KINDS => {
                        let title = matrix.title.clone();
                        let origin = series.source().origin().unwrap_or(&unstated).clone();
                        all.push(Observed { metric, class, ends, cells: vec![cell], title, origin });
                    }
                    None => {}
                }
            }
        }
    }
    for observed in &mut all {
        observed.cells.sort_by(|a, b| a.value.total_cmp(&b.value));
    }
    all
}

/// A device's product, or what it is.
fn kind(fabric: &Fabric, name: &str) -> String {
    match fabric.find(name).map(|id| fabric.node(id)) {
        Some(node) => node.part.clone().or_else(|| node.product.clone()).unwrap_or_else(|| node.kind.name().to_owned()),
        None => name.to_owned(),
    }
}

impl Observed {
    /// How many numbers it stands for.
    pub(super) fn count(&self) -> usize {
        self.cells.len()
    }

    /// The number in the middle, as a matrix of its own.
    pub(super) fn median(&self) -> Option<SourcedMatrix> {
        let Number { value, row, col, .. } = self.cells.get(self.cells.len().saturating_sub(1) / 2)?;
        let matrix = Matrix {
            values: vec![vec![Some(*value)]],
            title: self.title.clone(),
            ..self.metric.matrix(vec![row.clone()], vec![col.clone()])
        };
        let origin = self.origin.clone();
        let (also, spread) = (Vec::new(), Vec::new());
        Some(SourcedMatrix { matrix, origin, also, published: false, known_cause: None, spread })
    }

    /// Those of its numbers that lie outside an interval; of a range, if all of it does.
    pub(super) fn outside(&self, [least, most]: [f64; 2]) -> impl Iterator<Item = &Number> {
        self.cells.iter().filter(move |number| number.range[1] < least || number.range[0] > most)
    }

    /// What its numbers are of.
    pub(super) fn metric(&self) -> Metric {
        self.metric
    }

    /// Where the first of them stands.
    pub(super) fn origin(&self) -> &Origin {
        &self.origin
    }
}
