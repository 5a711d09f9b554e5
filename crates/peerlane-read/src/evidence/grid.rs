//! Tables of numbers with numbered columns and rows, as p2pBandwidthLatencyTest and nvbandwidth print them.

use super::Text;

/// A header of fewer columns reaches no terminal's edge.
const MIN_WIDE: usize = 8;
/// More GPUs than any machine has; what claims more is no such table.
const MAX_GPUS: usize = 512;

/// A table read from a header line and the rows below it.
#[derive(Debug, PartialEq)]
pub(super) struct Grid {
    /// Column numbers, ascending.
    pub(super) cols: Vec<u32>,
    /// Row numbers, ascending.
    pub(super) rows: Vec<u32>,
    /// A list per row, as long as `cols`; `None` for `X`, `N/A` and dashes.
    pub(super) cells: Vec<Vec<Option<f64>>>,
    /// Index of the last line.
    pub(super) last: usize,
    /// Whether a row is short or left out ("...").
    pub(super) cut: bool,
}

impl Grid {
    /// The rows' names, `GPU0` ….
    pub(super) fn row_names(&self) -> Vec<String> {
        gpu_names(&self.rows)
    }

    /// The cell in the row and the column of these numbers.
    pub(super) fn at(&self, row: u32, col: u32) -> Option<f64> {
        let i = self.rows.iter().position(|r| *r == row)?;
        let j = self.cols.iter().position(|c| *c == col)?;
        self.cells.get(i)?.get(j).copied().flatten()
    }

    /// The columns' names, `GPU0` ….
    pub(super) fn col_names(&self) -> Vec<String> {
        gpu_names(&self.cols)
    }
}

/// `GPU0` … for these numbers.
pub(super) fn gpu_names(numbers: &[u32]) -> Vec<String> {
    numbers.iter().map(|n| format!("GPU{n}")).collect()
}

/// Reads the table whose header is line `header`: `corner` (nothing where empty), then column numbers.
///
/// A short row is kept, filled up with `None`, and ends the table: which cells it lacks is known only
/// where the text is cut at its end. `None` where the line is no such header or no row follows.
pub(super) fn read(text: &Text, header: usize, corner: &str) -> Option<Grid> {
    read_rows(text, header, corner, false)
}

/// The same of a table that has blank lines between its rows, and one row a column at most.
pub(super) fn read_spaced(text: &Text, header: usize, corner: &str) -> Option<Grid> {
    read_rows(text, header, corner, true)
}

fn read_rows(text: &Text, header: usize, corner: &str, spaced: bool) -> Option<Grid> {
    let line = text.line(header).trim();
    let (cols, mut narrow) = ascending(line.strip_prefix(corner)?)?;
    let mut grid = Grid { cols, rows: Vec::new(), cells: Vec::new(), last: header, cut: narrow };
    for i in header + 1..text.len() {
        let line = text.line(i).trim();
        if line == "..." {
            grid.cut = true;
            continue;
        }
        if spaced && line.is_empty() && grid.rows.len() < grid.cols.len() {
            continue;
        }
        let Some((number, mut cells)) = row(line) else { break };
        // a named corner means that rows and columns are the same devices; others are the rest of a wrapped line
        // a terminal's edge may cut a cell in two whose column's number it cuts off
        if grid.rows.is_empty() && grid.cols.len() >= MIN_WIDE && cells.len() == grid.cols.len() + 1 {
            (narrow, grid.cut) = (true, true);
        }
        let foreign = !corner.is_empty() && grid.cols.binary_search(&number).is_err();
        let disorder = grid.rows.last().is_some_and(|before| number <= *before);
        if disorder || grid.rows.len() >= MAX_GPUS || (foreign && !narrow) || (cells.len() > grid.cols.len() && !narrow)
        {
            break;
        }
        let short = cells.len() < grid.cols.len();
        // where the text ends within a row, its last number may be a part of one
        if short && is_end_of_text(text, i) {
            cells.pop();
        }
        if cells.is_empty() {
            grid.cut = true;
            break;
        }
        cells.resize(grid.cols.len(), None);
        grid.rows.push(number);
        grid.cells.push(cells);
        grid.last = i;
        if short {
            grid.cut = true;
            break;
        }
    }
    (!grid.rows.is_empty()).then_some(grid)
}

/// Whether nothing follows a line but blank lines and the fence of a document.
fn is_end_of_text(text: &Text, i: usize) -> bool {
    (i + 1..text.len()).all(|k| matches!(text.line(k).trim(), "" | "```" | "~~~" | "..." | "…"))
}

/// The columns, and whether the last one was left out: `9     1` is 9 and a 10 that is cut at the terminal's edge.
fn ascending(columns: &str) -> Option<(Vec<u32>, bool)> {
    let mut columns: Vec<u32> = columns.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
    let cut =
        matches!(columns.as_slice(), [.., before, last] if *before >= 9 && *last == before.saturating_add(1) / 10);
    columns.truncate(columns.len() - usize::from(cut));
    ((1..=MAX_GPUS).contains(&columns.len()) && columns.is_sorted_by(|a, b| a < b)).then_some((columns, cut))
}

fn row(line: &str) -> Option<(u32, Vec<Option<f64>>)> {
    let mut words = line.split_whitespace();
    let number = words.next()?.parse().ok()?;
    let cells: Option<Vec<_>> = words.map(cell).collect();
    Some((number, cells.filter(|c| !c.is_empty())?))
}

/// A cell; the outer `None` where it is neither a number nor a mark for "nothing".
pub(super) fn cell(word: &str) -> Option<Option<f64>> {
    match word {
        "X" | "N/A" | "-" | "–" | "—" => Some(None),
        _ => word.parse::<f64>().ok().map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(body: &str, corner: &str) -> Option<Grid> {
        read(&Text::new("t", body.as_bytes()), 0, corner)
    }

    #[test]
    fn numbers_of_columns_may_be_the_largest() {
        assert_eq!(ascending("4294967295 0"), None);
    }

    #[test]
    fn marks_are_nothing_and_prose_ends_it() {
        let g = grid("  D\\D  0  1\n  0  X  1.5\n  1 2.5  —\nThe 2 are equal.\n", "D\\D").unwrap();
        assert_eq!(g.cells, [[None, Some(1.5)], [Some(2.5), None]]);
        assert_eq!((g.last, g.cut), (2, false));
        assert_eq!(g.row_names(), ["GPU0", "GPU1"]);
    }

    #[test]
    fn the_last_number_of_a_text_that_is_cut_may_be_a_part() {
        let g = grid(" 0 1 2\n 0 1.5 2.5 3.5\n 1 2.5 3", "").unwrap();
        assert_eq!((g.cells[1].clone(), g.cut), (vec![Some(2.5), None, None], true));
        assert_eq!(grid(" 0 1 2\n 0 1.5 2.5 3.5\n 1 2", "").unwrap().rows, [0]);
    }

    #[test]
    fn short_and_missing_rows_are_said() {
        let g = grid(" 0 1 2\n 0 1 2 3\n...\n 2 4\nend\n", "").unwrap();
        assert_eq!(g.cells[1], [Some(4.0), None, None]);
        assert_eq!((g.rows, g.cut), (vec![0, 2], true));
    }

    #[test]
    fn cut_or_wrapped_at_the_edge_of_a_terminal() {
        let header = "D\\D 0 1 2 3 4 5 6 7 8 9 1\n";
        let row = |n: u32| format!("{n} 0 1 2 3 4 5 6 7 8 9 3.\n");
        let g = grid(&format!("{header}{}{}{}", row(0), row(1), row(10)), "D\\D").unwrap();
        assert_eq!((g.cols.len(), g.rows, g.cut), (10, vec![0, 1, 10], true));
        assert_eq!(g.cells[1][9], Some(9.0));
        let header = "D\\D 0 1 2 3 4 5 6 7 8 9\n";
        let g = grid(&format!("{header}{}{}", row(0), row(12)), "D\\D").unwrap();
        assert_eq!((g.cols.len(), g.rows, g.cut), (10, vec![0, 12], true));
        // the rest of a wrapped header is no row
        assert_eq!(grid("D\\D 0 1 2\n3 4\n0 1 2 3\n4 5\n", "D\\D"), None);
    }

    #[test]
    fn no_table() {
        for body in ["D\\D 0 1\n", "D\\D\n0 1\n", "D\\D 1 0\n0 1 2\n", "GPU 0 1\n0 1 2\n", ""] {
            assert_eq!(grid(body, "D\\D"), None, "{body}");
        }
    }
}
