//! Matrices on a terminal: aligned, and split by columns if too wide.

use std::io::{self, Write};

use peerlane::export::json::Classes;
use peerlane::fabric::{Fabric, NodeId, NodeKind, PathClass};
use peerlane::machine::{Machine, SourcedMatrix};
use peerlane::names::ranges;

use super::style::{self, paint};
use super::text::{fit, hang, width};
use super::{label, line_width};

/// Limit of columns for a name at the head of a row or column.
const NAME: usize = 16;

/// The text and style of a cell.
pub type Cell = (String, anstyle::Style);

/// Writes a matrix; every column is as wide as its widest cell, separated by one space.
pub fn grid(out: &mut dyn Write, rows: &[String], cols: &[String], cells: &[Vec<Cell>]) -> io::Result<()> {
    labelled_grid(out, NAME, rows, cols, cells)
}

/// The same with up to `most` columns for the heads of rows.
pub fn labelled_grid(
    out: &mut dyn Write,
    most: usize,
    rows: &[String],
    cols: &[String],
    cells: &[Vec<Cell>],
) -> io::Result<()> {
    let head = rows.iter().map(|r| width(r)).max().unwrap_or(0).min(most);
    let cell = |i: usize, j: usize| cells.get(i).and_then(|row: &Vec<Cell>| row.get(j));
    let columns: Vec<usize> = cols
        .iter()
        .enumerate()
        .map(|(j, col)| {
            let widest = (0..rows.len()).filter_map(|i| cell(i, j)).map(|(text, _)| width(text)).max();
            widest.unwrap_or(0).max(width(col).min(NAME)).max(4)
        })
        .collect();
    let mut start = 0;
    while start < cols.len() {
        let mut used = 2 + head;
        let mut end = start;
        while end < cols.len() && (end == start || used + 1 + columns[end] <= line_width()) {
            used += 1 + columns[end];
            end += 1;
        }
        if start > 0 {
            writeln!(out)?;
        }
        let titles = (start..end).map(|j| format!(" {:>w$}", fit(&cols[j], NAME), w = columns[j])).collect::<String>();
        writeln!(out, "  {:head$}{}", "", paint(style::HEADING, &titles))?;
        for (i, row) in rows.iter().enumerate() {
            write!(out, "  {}", paint(style::HEADING, &format!("{:head$}", fit(row, most))))?;
            for (j, &w) in columns.iter().enumerate().take(end).skip(start) {
                let (text, look) = cell(i, j).map_or(("", style::DIM), |(text, look)| (text.as_str(), *look));
                write!(out, " {}", paint(look, &format!("{text:>w$}")))?;
            }
            writeln!(out)?;
        }
        start = end;
    }
    Ok(())
}

/// Writes numbers; unknown ones as `-`.
pub fn numbers(out: &mut dyn Write, rows: &[String], cols: &[String], values: &[Vec<Option<f64>>]) -> io::Result<()> {
    heat(out, rows, cols, values, |_, _| style::PLAIN)
}

/// The same, with a style for each number.
pub fn heat(
    out: &mut dyn Write,
    rows: &[String],
    cols: &[String],
    values: &[Vec<Option<f64>>],
    look: impl Fn(usize, usize) -> anstyle::Style,
) -> io::Result<()> {
    let largest = values.iter().flatten().flatten().fold(0.0_f64, |m, v| m.max(v.abs()));
    let digits = if largest >= 10_000.0 {
        0
    } else if largest >= 1000.0 {
        1
    } else {
        2
    };
    let show = |i: usize, (j, value): (usize, &Option<f64>)| match value {
        Some(v) => (format!("{v:.digits$}"), look(i, j)),
        None => ("-".to_owned(), style::DIM),
    };
    let row = |(i, row): (usize, &Vec<Option<f64>>)| row.iter().enumerate().map(|cell| show(i, cell)).collect();
    let cells: Vec<Vec<Cell>> = values.iter().enumerate().map(row).collect();
    grid(out, rows, cols, &cells)
}

/// Limit of columns for a cell of a table.
const CELL: usize = 32;

/// Writes a table with headings: the last `numbers` columns are right-aligned, the others left-aligned.
pub fn table(out: &mut dyn Write, headings: &[String], rows: &[Vec<String>], numbers: usize) -> io::Result<()> {
    let words = headings.len().saturating_sub(numbers);
    let cell = |row: &[String], at: usize| fit(row.get(at).map_or("", String::as_str), CELL);
    let widths: Vec<usize> = (0..headings.len())
        .map(|at| rows.iter().map(Vec::as_slice).chain([headings]).map(|row| width(&cell(row, at))).max().unwrap_or(0))
        .collect();
    let line = |row: &[String]| {
        let cells = widths.iter().enumerate().map(|(at, &w)| match cell(row, at) {
            text if at < words => format!("{text:w$}"),
            text => format!("{text:>w$}"),
        });
        fit(format!("  {}", cells.collect::<Vec<_>>().join("  ")).trim_end(), line_width())
    };
    writeln!(out, "{}", paint(style::HEADING, &line(headings)))?;
    rows.iter().try_for_each(|row| writeln!(out, "{}", line(row)))
}

/// Up to this many NICs, those without RDMA are also shown.
const FEW_NICS: usize = 4;

/// The NICs that a matrix omits: those known to lack RDMA, if others have it or there are many.
fn for_management(fabric: &Fabric) -> Vec<NodeId> {
    let nics: Vec<NodeId> = fabric.of_kind(NodeKind::Nic).collect();
    let rdma = |id: &NodeId| fabric.node(*id).rdma;
    let gpus = fabric.of_kind(NodeKind::Gpu).next().is_some();
    if !gpus || !(nics.len() > FEW_NICS || nics.iter().any(|id| rdma(id) == Some(true))) {
        return Vec::new();
    }
    nics.into_iter().filter(|id| rdma(id) == Some(false)).collect()
}

/// Writes the path classes between GPUs and NICs; NICs with long names are numbered in the columns. A word of a
/// maker's own stands as its tool printed it.
pub fn classes(out: &mut dyn Write, machine: &Machine) -> io::Result<()> {
    let fabric = &machine.fabric;
    let left_out = for_management(fabric);
    let shown: Vec<NodeId> = fabric.devices().into_iter().filter(|id| !left_out.contains(id)).collect();
    let classes = Classes::among(fabric, &shown);
    let head = classes.rows.iter().map(|r| width(r)).max().unwrap_or(0);
    let all = 2 + head + classes.cols.iter().map(|c| 1 + width(c).max(4)).sum::<usize>();
    let (rows, cols) =
        if all <= line_width() { (classes.rows, classes.cols) } else { keyed(fabric, &shown, &classes.rows) };
    let stated = machine.stated_classes.as_ref().map(|(matrix, _)| matrix);
    let word = |a: NodeId, b: NodeId| {
        let place = |names: &[String], id: NodeId| names.iter().position(|name| *name == fabric.node(id).name);
        stated.and_then(|m| m.word(place(&m.rows, a)?, place(&m.cols, b)?))
    };
    let show = |(a, row): (&NodeId, &Vec<Option<PathClass>>)| -> Vec<Cell> {
        let cell = |(b, class): (&NodeId, &Option<PathClass>)| {
            let own = class.map_or_else(|| "?".to_owned(), |class| class.to_string());
            (word(*a, *b).map_or(own, str::to_owned), class.map_or(style::DIM, of_class))
        };
        shown.iter().zip(row).map(cell).collect()
    };
    let cells: Vec<Vec<Cell>> = shown.iter().zip(&classes.values).map(show).collect();
    grid(out, &rows, &cols, &cells)?;
    if !left_out.is_empty() {
        let names: Vec<&str> = left_out.iter().map(|id| fabric.node(*id).name.as_str()).collect();
        hang(out, "  ", &format!("not shown (no RDMA): {}", ranges(&names)))?;
    }
    Ok(())
}

/// Row names with a key, and the keys alone for columns: `a mlx5_bond_0`, `a`.
fn keyed(fabric: &Fabric, devices: &[NodeId], rows: &[String]) -> (Vec<String>, Vec<String>) {
    let mut nics = 0;
    let mut keys = Vec::new();
    for id in devices {
        let node = fabric.node(*id);
        if node.kind == NodeKind::Nic && width(&node.name) > 4 {
            keys.push(format!("N{nics}"));
            nics += 1;
        } else {
            nics += usize::from(node.kind == NodeKind::Nic);
            keys.push(node.name.clone());
        }
    }
    let label = |(row, key): (&String, &String)| if row == key { row.clone() } else { format!("{key:<4}{row}") };
    (rows.iter().zip(&keys).map(label).collect(), keys)
}

fn of_class(class: PathClass) -> anstyle::Style {
    match class {
        PathClass::Same => style::DIM,
        PathClass::Gpu(..) | PathClass::Pix | PathClass::Pxb => style::GOOD,
        PathClass::Phb | PathClass::Node => style::PLAIN,
        PathClass::Sys => style::WARN,
    }
}

/// Matrices of numbers with their descriptions and origins.
pub fn sourced(out: &mut dyn Write, all: &[SourcedMatrix]) -> io::Result<()> {
    for SourcedMatrix { matrix: m, origin, .. } in all {
        writeln!(out)?;
        hang(out, "", &m.describe())?;
        writeln!(out, "{}", paint(style::DIM, &fit(&label::origin(origin), line_width())))?;
        numbers(out, &m.rows, &m.cols, &m.values)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane::fabric::{FabricBuilder, Link, LinkKind, Node, PcieWidth};
    use peerlane::machine::MachineKind;

    fn lines(names: usize, value: f64) -> Vec<String> {
        let rows: Vec<String> = (0..names).map(|i| format!("GPU{i}")).collect();
        let mut out = Vec::new();
        numbers(&mut out, &rows, &rows, &vec![vec![Some(value); names]; names]).unwrap();
        let text = anstream::adapter::strip_str(&String::from_utf8(out).unwrap()).to_string();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn ten_gpus_with_two_decimals_fit() {
        let lines = lines(10, 123.45);
        assert_eq!(lines.len(), 11);
        assert!(lines.iter().all(|l| width(l) <= line_width()), "{lines:#?}");
    }

    #[test]
    fn a_table_is_aligned_and_never_too_wide() {
        let text = |n: usize| "word ".repeat(n);
        let rows = [vec!["a".to_owned(), "1.5".to_owned()], vec![text(2), "12.5".to_owned()], vec![]];
        let mut out = Vec::new();
        table(&mut out, &["what".to_owned(), "GB/s".to_owned()], &rows, 1).unwrap();
        let shown = anstream::adapter::strip_str(&String::from_utf8(out).unwrap()).to_string();
        assert_eq!(shown, "  what        GB/s\n  a            1.5\n  word word   12.5\n\n");
        let mut out = Vec::new();
        table(&mut out, &vec![text(9); 9], &[vec![text(9); 9]], 4).unwrap();
        let shown = anstream::adapter::strip_str(&String::from_utf8(out).unwrap()).to_string();
        assert!(shown.lines().all(|l| width(l) <= line_width()), "{shown}");
    }

    #[test]
    fn management_nics_stand_in_one_line() {
        let mut b = FabricBuilder::new();
        let root = b.node(Node::new("rc0", NodeKind::RootComplex));
        for (name, kind, rdma) in [
            ("GPU0", NodeKind::Gpu, None),
            ("mlx5_0", NodeKind::Nic, Some(true)),
            ("eno1", NodeKind::Nic, Some(false)),
            ("eno2", NodeKind::Nic, Some(false)),
            ("ens3", NodeKind::Nic, None),
        ] {
            let node = b.node(Node { rdma, ..Node::new(name, kind) });
            b.link(Link::new(root, node, LinkKind::pcie(PcieWidth::default())));
        }
        let mut out = Vec::new();
        let machine = Machine::new("m", MachineKind::Captured, b.build().unwrap());
        classes(&mut out, &machine).unwrap();
        let text = anstream::adapter::strip_str(&String::from_utf8(out).unwrap()).to_string();
        let heads: Vec<&str> = text.lines().next().unwrap().split_whitespace().collect();
        assert_eq!(heads, ["GPU0", "mlx5_0", "ens3"]);
        assert!(text.ends_with("not shown (no RDMA): eno1, eno2\n"), "{text}");
    }

    #[test]
    fn more_columns_than_fit_are_broken() {
        let lines = lines(30, 123.45);
        assert!(lines.len() > 31 && lines.iter().all(|l| width(l) <= line_width()));
    }
}
