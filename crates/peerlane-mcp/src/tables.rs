//! Expected rates and times, with equal paths together: an answer for a conversation, not for a program.

use std::collections::BTreeMap;

use peerlane::cluster::alike;
use peerlane::expectation::ExpectedMatrix;
use schemars::JsonSchema;
use serde::Serialize;

/// Groups of equal paths of a table, at most.
const MOST_GROUPS: usize = 12;

/// Paths that a group names.
pub(crate) const NAMED: usize = 6;

/// Numbers of one kind.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Table {
    /// What the numbers are of: `bandwidth, one way, P2P on, writes, copy engine`.
    pub(crate) what: String,
    /// Their unit.
    pub(crate) unit: String,
    /// Paths that are expected to be alike, the slowest first.
    pub(crate) paths: Vec<Paths>,
    /// Paths that are left out here: the fastest.
    pub(crate) more_paths: usize,
}

/// Paths that are expected to be alike.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Paths {
    /// How many.
    pub(crate) count: usize,
    /// The first few: `GPU0 -> GPU1`.
    pub(crate) examples: Vec<String>,
    /// What is expected.
    pub(crate) expected: f64,
    /// The least that it may be by the model's uncertainty.
    pub(crate) low: Option<f64>,
    /// The most.
    pub(crate) high: Option<f64>,
    /// What limits it; `#` stands for the numbers of several devices.
    pub(crate) bound_by: Option<String>,
}

/// One path of a matrix, by its ends.
pub(crate) struct Cell<'a> {
    pub(crate) ends: (&'a str, &'a str),
    pub(crate) expected: f64,
    low: Option<f64>,
    high: Option<f64>,
    bound_by: Option<&'a str>,
}

/// The paths of a matrix that have a number.
pub(crate) fn cells(matrix: &ExpectedMatrix) -> impl Iterator<Item = Cell<'_>> {
    let at = |of: &[Vec<Option<f64>>], row: usize, col: usize| of.get(row)?.get(col).copied().flatten();
    matrix.rows.iter().enumerate().flat_map(move |(row, from)| {
        matrix.cols.iter().enumerate().filter_map(move |(col, to)| {
            Some(Cell {
                ends: (from, to),
                expected: at(&matrix.values, row, col)?,
                low: at(&matrix.low, row, col),
                high: at(&matrix.high, row, col),
                bound_by: matrix.bottlenecks.get(row)?.get(col)?.as_deref(),
            })
        })
    })
}

impl Table {
    /// Of a matrix; none where it has no number.
    pub(crate) fn of(matrix: &ExpectedMatrix) -> Option<Table> {
        let mut groups: BTreeMap<(u64, String), Vec<Cell>> = BTreeMap::new();
        for cell in cells(matrix) {
            // three digits are what an answer shows
            let kind = (rounded(cell.expected).to_bits(), alike(cell.bound_by.unwrap_or_default()));
            groups.entry(kind).or_default().push(cell);
        }
        let mut paths: Vec<Paths> = groups.into_values().filter_map(Paths::of).collect();
        paths.sort_by(|a, b| a.expected.total_cmp(&b.expected));
        let more_paths = paths.iter().skip(MOST_GROUPS).map(|group| group.count).sum();
        paths.truncate(MOST_GROUPS);
        let what = matrix.metric().describe();
        (!paths.is_empty()).then(|| Table { what, unit: matrix.unit.to_string(), paths, more_paths })
    }
}

impl Paths {
    fn of(cells: Vec<Cell>) -> Option<Paths> {
        let first = cells.first()?;
        let least = |of: fn(&Cell) -> Option<f64>| cells.iter().filter_map(of).reduce(f64::min).map(rounded);
        let most = |of: fn(&Cell) -> Option<f64>| cells.iter().filter_map(of).reduce(f64::max).map(rounded);
        Some(Paths {
            count: cells.len(),
            examples: cells.iter().take(NAMED).map(|cell| format!("{} -> {}", cell.ends.0, cell.ends.1)).collect(),
            expected: rounded(first.expected),
            low: least(|cell| cell.low),
            high: most(|cell| cell.high),
            bound_by: first.bound_by.map(|bound| {
                let is_one = cells.iter().all(|cell| cell.bound_by == Some(bound));
                if is_one { bound.to_owned() } else { alike(bound) }
            }),
        })
    }
}

/// With three digits.
pub(crate) fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10_f64.powi(2 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bottlenecks_of_a_kind_are_alike() {
        assert_eq!(alike("GPU10–sw0, PCIe 3.0 x16"), "GPU#–sw#, PCIe 3.0 x16");
    }

    #[test]
    fn three_digits() {
        for (value, is) in [(276.34, 276.0), (13.588, 13.6), (0.012_345, 0.0123), (0.0, 0.0), (-1.999_6, -2.0)] {
            assert_eq!(rounded(value), is);
        }
    }
}
