//! All matrices of numbers with their expected values: measured, published, stated in words, or only predicted.

use peerlane::comparison::{Expected, ExpectedMatrix, Metric, Series, Source};
use peerlane::fabric::{Fabric, NodeId};
use peerlane::machine::{SourcedMatrix, Spread, Statement};
use peerlane::matrix::{Direction, Engine, Matrix, Operation, Quantity, Unit};
use peerlane::model::{PeerAccess, Transfer};
use peerlane::names::{is_host, natural, ranges};
use peerlane::run::{self, CellMatrix, FlagKind, Run};

use super::document::{MatrixView, Remark, SpreadView};
use super::figures::Kind;
use super::tables::{MOST_DEVICES, Tables, bound, bounds, short_grid};

/// Limit of cells of all matrices together; beyond it, the largest are omitted. A larger page could not be attached
/// to a ticket.
const MOST_CELLS: usize = 40_000;

/// The column of copies within one GPU's memory, in recorded runs.
const SELF: &str = "self";

/// All matrices, measured ones first.
pub(super) fn all(tables: &mut Tables, run: Option<&Run>) -> Vec<MatrixView> {
    let comparison = tables.comparison;
    let machine = tables.model.machine;
    let held = run.map(|run| (run, run::matrices(&run.cells)));
    let mut views = Vec::new();
    for series in comparison.matrices() {
        let own = held.as_ref().and_then(|(run, all)| {
            let same = all.iter().find(|own| own.matrix == *series.matrix())?;
            Some((*run, same))
        });
        views.push(of_measured(tables, series, own));
    }
    // peerlane's own measurements before published ones
    views.sort_by_key(|view| view.obtained != "measured");
    let mut known: Vec<Matrix> = machine.matrices.iter().map(|o| o.matrix.clone()).collect();
    for group in groups(&machine.statements) {
        let matrix = together(&group);
        views.push(of_statements(tables, &group, &matrix));
        known.push(matrix);
    }
    for expected in comparison.predicted() {
        if !known.iter().any(|matrix| covers(matrix, &expected)) {
            views.push(of_prediction(tables, &expected));
        }
    }
    let size = |view: &MatrixView| view.rows.len() * view.cols.len();
    while views.iter().map(size).sum::<usize>() > MOST_CELLS
        && let Some(largest) = views.iter().enumerate().max_by_key(|(_, view)| size(view)).map(|(at, _)| at)
    {
        views.remove(largest);
    }
    views
}

fn of_measured(tables: &mut Tables, series: &Series, own: Option<(&Run, &CellMatrix)>) -> MatrixView {
    let matrix = series.matrix();
    let mut view = blank(tables, matrix);
    view.obtained = if series.source().published() { "published" } else { "measured" };
    view.title = Some(matrix.title.clone()).filter(|t| !t.is_empty());
    view.measured = short_grid(&matrix.values);
    expect(tables, &mut view, |i, j| series.expected(i, j).cloned());
    if let Source::Matrix(SourcedMatrix { origin, also, spread, .. }) = series.source() {
        let of = |s: &Option<Spread>| s.map(|s| SpreadView { n: s.n, low: bound(s.low), high: bound(s.high) });
        view.spread = spread.iter().map(|row| row.iter().map(of).collect()).collect();
        view.sources = tables.sources(std::slice::from_ref(origin));
        view.sources.extend(tables.sources(also));
    }
    for at in view.sources.clone() {
        tables.tells(at, &view.what);
    }
    if let Some((run, own)) = own {
        for (i, row) in own.cells.iter().enumerate() {
            for (j, at) in row.iter().enumerate() {
                let flags = at.and_then(|at| run.cells.get(at)).map(|cell| cell.flags.as_slice()).unwrap_or_default();
                for flag in flags {
                    let word = tables.word(&flag.detail);
                    view.remarks.push(Remark { row: i, col: j, word, flagged: is_doubtful(flag.kind) });
                }
            }
        }
    }
    view
}

/// Whether a flag makes a number doubtful.
fn is_doubtful(kind: FlagKind) -> bool {
    !matches!(kind, FlagKind::Beside | FlagKind::Alone | FlagKind::Unverified)
}

/// Groups of statements that can share a matrix: of the same kind, with the same rows or columns.
fn groups(statements: &[Statement]) -> Vec<Vec<&Statement>> {
    let mut groups: Vec<Vec<&Statement>> = Vec::new();
    for statement in statements {
        let matrix = statement.to_matrix();
        let fits = |group: &&mut Vec<&Statement>| {
            group.iter().all(|other| {
                let overlap = other.from.iter().any(|f| statement.from.contains(f))
                    && other.to.iter().any(|t| statement.to.contains(t));
                let side = other.from == statement.from || other.to == statement.to;
                other.to_matrix().describe() == matrix.describe()
                    && !overlap
                    && (side || is_local(other) && is_local(statement))
            })
        };
        match groups.iter_mut().find(fits) {
            Some(group) => group.push(statement),
            None => groups.push(vec![statement]),
        }
    }
    groups
}

/// Whether a statement is about copies within one GPU's memory.
fn is_local(statement: &Statement) -> bool {
    statement.from.len() == 1 && statement.from == statement.to
}

/// Statements as one matrix, which holds the lowest value in every cell.
fn together(group: &[&Statement]) -> Matrix {
    let names = |of: fn(&Statement) -> &[String]| {
        let mut names: Vec<String> = group.iter().flat_map(|s| of(s)).cloned().collect();
        names.sort_by(|a, b| natural(a).cmp(&natural(b)).then(a.cmp(b)));
        names.dedup();
        names
    };
    let (rows, cols) = (names(|s| &s.from), names(|s| &s.to));
    let cols = if group.iter().all(|s| is_local(s)) { vec![SELF.to_owned()] } else { cols };
    let values = grid(&rows, &cols, |row, col| stated(group, row, col).map(|s| s.low));
    let mut texts: Vec<&str> = Vec::new();
    for statement in group {
        if !texts.contains(&statement.text.as_str()) {
            texts.push(&statement.text);
        }
    }
    let title = texts.join("; ");
    let first = group.first();
    Matrix {
        quantity: first.map_or(Quantity::Bandwidth, |s| s.quantity),
        direction: first.and_then(|s| s.direction),
        p2p: first.and_then(|s| s.p2p),
        unit: first.map_or(Unit::GigabytesPerSecond, |s| s.unit),
        rows,
        cols,
        values,
        title,
        ..Matrix::default()
    }
}

/// The statement about two ends.
fn stated<'s>(group: &[&'s Statement], row: &str, col: &str) -> Option<&'s Statement> {
    let col = if col == SELF { row } else { col };
    group.iter().copied().find(|s| s.to_matrix().between(row, col).is_some())
}

fn grid<T>(rows: &[String], cols: &[String], cell: impl Fn(&str, &str) -> T) -> Vec<Vec<T>> {
    rows.iter().map(|row| cols.iter().map(|col| cell(row, col)).collect()).collect()
}

fn of_statements(tables: &mut Tables, group: &[&Statement], matrix: &Matrix) -> MatrixView {
    let mut view = blank(tables, matrix);
    view.obtained = "stated in words";
    view.title = Some(matrix.title.clone());
    view.measured = short_grid(&matrix.values);
    let high = grid(&matrix.rows, &matrix.cols, |row, col| stated(group, row, col).map(|s| s.high));
    if high != matrix.values {
        view.upto = short_grid(&high);
    }
    let (comparison, metric) = (tables.comparison, Metric::of(matrix));
    // sources do not state whether they count copies within a GPU once or twice
    let among = |row: &str, col: &str| if col == SELF { None } else { comparison.expected(&metric, row, col) };
    expect(tables, &mut view, |i, j| among(matrix.rows.get(i)?, matrix.cols.get(j)?));
    view
}

fn of_prediction(tables: &mut Tables, expected: &ExpectedMatrix) -> MatrixView {
    let (comparison, metric) = (tables.comparison, expected.metric());
    let mut view = blank(tables, &metric.matrix(expected.rows.clone(), expected.cols.clone()));
    view.obtained = "predicted";
    expect(tables, &mut view, |i, j| comparison.expected(&metric, expected.rows.get(i)?, expected.cols.get(j)?));
    view
}

/// Whether a measured matrix covers a prediction; unstated properties match anything.
fn covers(seen: &Matrix, expected: &ExpectedMatrix) -> bool {
    seen.quantity == expected.quantity
        && seen.direction == expected.direction
        && seen.p2p == expected.p2p
        && (seen.op.is_none() || seen.op == expected.op)
        && (seen.engine.is_none() || seen.engine == expected.engine)
        && seen.rows == expected.rows
        && seen.cols == expected.cols
}

/// A matrix with its ends and paths, without numbers.
fn blank(tables: &mut Tables, matrix: &Matrix) -> MatrixView {
    let many = matrix.rows.len() > MOST_DEVICES || matrix.cols.len() > MOST_DEVICES;
    let mut paths = Vec::new();
    if !many {
        for row in &matrix.rows {
            let asked = matrix.cols.iter().map(|col| transfer(tables.fabric(), matrix, row, col));
            let asked: Vec<Option<Transfer>> = asked.collect();
            paths.push(asked.into_iter().map(|t| t.and_then(|t| tables.path(t))).collect());
        }
    }
    let pairs = !matrix.rows.iter().chain(&matrix.cols).any(|name| is_host(name));
    let one_way = !matches!(matrix.direction, Some(Direction::Bidirectional));
    MatrixView {
        what: matrix.describe(),
        ends: if matrix.rows == matrix.cols {
            format!("among {}", ranges(&matrix.rows))
        } else {
            format!("{} → {}", ranges(&matrix.rows), ranges(&matrix.cols))
        },
        title: None,
        obtained: "measured",
        quantity: matrix.quantity,
        unit: matrix.unit,
        more_is_better: matrix.unit.rate(1.0).is_some(),
        kind: Kind::of(matrix),
        rows: matrix.rows.clone(),
        cols: matrix.cols.clone(),
        orientation: match (pairs && one_way, matrix.op, matrix.quantity) {
            (true, Some(Operation::Read), Quantity::Bandwidth) => Some("rows read from columns"),
            (true, _, Quantity::Bandwidth) => Some("rows send to columns"),
            (false, _, Quantity::Bandwidth) if !pairs => Some("rows send to columns"),
            (_, _, Quantity::LoadLatency) => Some("rows load from columns"),
            _ => None,
        },
        measured: Vec::new(),
        upto: Vec::new(),
        expected: Vec::new(),
        least: Vec::new(),
        most: Vec::new(),
        bound: Vec::new(),
        spread: Vec::new(),
        remarks: Vec::new(),
        paths,
        sources: Vec::new(),
    }
}

/// Adds the expected numbers.
fn expect(tables: &mut Tables, view: &mut MatrixView, at: impl Fn(usize, usize) -> Option<Expected>) {
    let grid: Vec<Vec<Option<Expected>>> =
        (0..view.rows.len()).map(|i| (0..view.cols.len()).map(|j| at(i, j)).collect()).collect();
    if !grid.iter().flatten().any(Option::is_some) {
        return;
    }
    let of = |number: fn(&Expected) -> f64| -> Vec<Vec<Option<f64>>> {
        grid.iter().map(|row| row.iter().map(|e| e.as_ref().map(number)).collect()).collect()
    };
    view.expected = short_grid(&of(|e| e.value));
    view.least = bounds(&of(|e| e.low));
    view.most = bounds(&of(|e| e.high));
    for row in &grid {
        let words = row.iter().map(|e| {
            let words = &e.as_ref()?.binding.words;
            (!words.is_empty()).then(|| tables.word(words))
        });
        view.bound.push(words.collect());
    }
}

/// The transfer of a cell: rows send to columns, readers are the rows, host memory is the nearest.
fn transfer(fabric: &Fabric, matrix: &Matrix, row: &str, col: &str) -> Option<Transfer> {
    let end = |name: &str, other: &str| -> Option<NodeId> {
        let found = fabric.find(name);
        if found.is_none() && is_host(name) { fabric.nearest_host(fabric.find(other)?) } else { found }
    };
    let (a, b) = (end(row, col)?, end(col, row)?);
    if a == b {
        return None;
    }
    let op = matrix.op.unwrap_or(Operation::Write);
    let host = is_host(row) || is_host(col);
    let pulls = (op == Operation::Read || matrix.quantity == Quantity::LoadLatency) && !host;
    let (source, destination) = if pulls { (b, a) } else { (a, b) };
    let peer = if matrix.p2p == Some(false) { PeerAccess::Disabled } else { PeerAccess::Enabled };
    Some(Transfer { source, destination, engine: matrix.engine.unwrap_or(Engine::Ce), op, peer })
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane::catalogue::{self, Parts};
    use peerlane::comparison::Comparison;
    use peerlane::model::Model;

    fn views(name: &str) -> Vec<MatrixView> {
        let machine = catalogue::system(name).unwrap().unwrap();
        let model = Model::new(&machine, Parts::embedded());
        all(&mut Tables::new(&Comparison::of(&model)), None)
    }

    #[test]
    fn statements_in_words_share_rows_or_columns() {
        let views = views("7gforce");
        let stated: Vec<_> = views.iter().filter(|v| v.obtained == "stated in words").collect();
        let shape = |v: &MatrixView| (v.rows.len(), v.cols.len());
        assert_eq!(stated.iter().map(|v| shape(v)).collect::<Vec<_>>(), [(7, 1)]);
        assert_eq!(stated[0].cols, [SELF]);
        assert_eq!((stated[0].measured[0][0], stated[0].measured[6][0]), (Some(195.0), Some(256.0)));
        assert!(stated[0].upto.is_empty());
    }

    #[test]
    fn measured_matrices_are_not_predicted_again() {
        let of = |name: &str| {
            let views = views(name);
            let both = |v: &&MatrixView| v.what.starts_with("bandwidth, both ways, summed, P2P on");
            views.iter().filter(both).map(|v| v.obtained).collect::<Vec<_>>()
        };
        assert_eq!(of("exxact-txr550"), ["published"]);
        assert_eq!(of("dgx-1"), ["predicted"]);
    }
}
