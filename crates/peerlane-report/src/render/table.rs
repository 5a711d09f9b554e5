//! Tables of words and numbers in columns, and the format of numbers in them.

use std::io::{self, Write};

use peerlane::units::Bytes;

use super::line_width;
use super::style::{self, paint};
use super::text::{fit, number, width};

/// Writes a table: the first `words` columns and the last are left-aligned, the others right-aligned.
pub fn columns(out: &mut dyn Write, headings: &[String], rows: &[Vec<String>], words: usize) -> io::Result<()> {
    let cell = |row: &[String], at: usize| row.get(at).cloned().unwrap_or_default();
    let all = || rows.iter().map(Vec::as_slice).chain([headings]);
    let widths: Vec<usize> =
        (0..headings.len()).map(|at| all().map(|row| width(&cell(row, at))).max().unwrap_or(0)).collect();
    let line = |row: &[String]| {
        let cells = widths.iter().enumerate().map(|(at, &w)| match cell(row, at) {
            text if at < words || at + 1 == widths.len() => format!("{text:w$}"),
            text => format!("{text:>w$}"),
        });
        fit(format!("  {}", cells.collect::<Vec<_>>().join("  ")).trim_end(), line_width())
    };
    writeln!(out, "{}", paint(style::HEADING, &line(headings)))?;
    rows.iter().try_for_each(|row| writeln!(out, "{}", line(row)))
}

/// Writes a table whose columns after the first `words` are numbers.
pub fn numbers(out: &mut dyn Write, headings: &[&str], rows: &[Vec<String>], words: usize) -> io::Result<()> {
    // the last column of all is left-aligned
    let ended = |row: Vec<String>| row.into_iter().chain([String::new()]).collect::<Vec<_>>();
    let headings = ended(headings.iter().map(|heading| (*heading).to_owned()).collect());
    columns(out, &headings, &rows.iter().cloned().map(ended).collect::<Vec<_>>(), words)
}

/// `64 KiB`; approximate if the number of bytes is not round.
pub fn size(bytes: u64) -> String {
    let exact = Bytes(bytes).to_string();
    if exact.len() <= "1023 MiB".len() {
        return exact;
    }
    let gib = bytes as f64 / (1_u64 << 30) as f64;
    if gib >= 1.0 { format!("{} GiB", number(gib)) } else { format!("{} MiB", number(gib * 1024.0)) }
}

/// `37 %`, `0.4 %`.
pub fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent >= 10.0 || percent == 0.0 { format!("{percent:.0} %") } else { format!("{percent:.1} %") }
}
