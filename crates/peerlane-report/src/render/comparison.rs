//! Expected and measured numbers, one line per group of similar cells.

mod off;
mod programs;
mod table;

use std::collections::{HashMap, HashSet};

use peerlane::case::Case;
use peerlane::comparison::{Comparison, ExpectedMatrix, Series, Source, Standing};
use peerlane::fabric::{Fabric, NodeKind};
use peerlane::matrix::{Engine, Unit};
use peerlane::model::Model;
use peerlane::names::{natural, ranges};

use super::label;
use super::text::{count, span, width};
pub(crate) use off::{better, worse};
pub(crate) use programs::count as programs_measured;
use table::Shared;
pub use table::{Head, write};

/// Cells whose expected values differ by no more than this factor share a line.
const ALIKE: f64 = 1.05;

/// Limit of columns for the names of cells.
const BETWEEN: usize = 52;

/// All cells of the same metric.
pub struct Section {
    /// The metric.
    what: String,
    /// Where the numbers are from.
    sources: Vec<String>,
    unit: Unit,
    cells: Vec<Cell>,
    /// Whether each row is a name, and its columns are sizes: not the ends of a path.
    named: bool,
}

struct Line {
    /// The path class; none where an end is host memory, and from NIC to NIC; `loop` of a NIC with itself.
    class: Option<String>,
    between: String,
    cells: usize,
    /// Lowest and highest; none if nothing can be expected.
    expected: Option<(f64, f64)>,
    measured: Option<(f64, f64)>,
    /// Lowest and highest of measured ÷ expected.
    ratio: Option<(f64, f64)>,
}

/// One cell with its expected and measured values (lowest and highest).
#[derive(Clone)]
struct Cell {
    row: String,
    col: String,
    class: Option<String>,
    expected: Option<f64>,
    measured: Option<(f64, f64)>,
    /// How what was measured stands to what is expected, where both are known.
    standing: Option<Standing>,
}

/// How many values there are, and how many are as expected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Measured or published.
    pub values: usize,
    /// Of these, with an expectation.
    pub compared: usize,
    /// Of these, worse than expected.
    pub off: usize,
    /// Of these, better than expected: the expectation is in doubt.
    pub better: usize,
    /// Expectations without a value.
    pub expected: usize,
}

/// Counts the values.
pub fn tally(sections: &[Section]) -> Tally {
    let cells = || sections.iter().flat_map(|s| &s.cells);
    let count = |of: &dyn Fn(&Cell) -> bool| cells().filter(|c| of(c)).count();
    Tally {
        values: count(&|c| c.measured.is_some()),
        compared: count(&|c| c.measured.is_some() && c.expected.is_some()),
        off: count(&|c| c.standing == Some(Standing::Worse)),
        better: count(&|c| c.standing == Some(Standing::Better)),
        expected: count(&|c| c.measured.is_none() && c.expected.is_some()),
    }
}

/// Measured and published numbers with what is expected; expectations alone if there are no such numbers.
///
/// Matrices of the same metric are combined, unless `apart`. Path classes are those of `known`, since a model may assume
/// where devices are.
pub fn sections(comparison: &Comparison, known: &Fabric, apart: bool) -> Vec<Section> {
    let mut sections = Sections { fabric: known, apart, all: Vec::new() };
    let (rates, times): (Vec<&Series>, Vec<&Series>) =
        comparison.series().iter().filter(|s| s.is_predicted()).partition(|s| s.is_predicted_rate());
    for series in rates.into_iter().chain(times) {
        let source = match series.source() {
            Source::Matrix(measured) if apart => label::origin(&measured.origin),
            Source::Matrix(measured) if measured.published => "published".to_owned(),
            Source::Matrix(measured) => measured.origin.tool.to_owned(),
            Source::Statement(_) => "stated in words".to_owned(),
        };
        sections.add_series(source, series);
    }
    if sections.all.is_empty() {
        comparison.predicted().iter().for_each(|expected| sections.add_predicted(expected));
    }
    sections.all
}

/// The same with what programs and collectives of a run took; expectations alone are not shown beside these.
pub(crate) fn with_programs(sections: Vec<Section>, case: &Case, model: &Model) -> Vec<Section> {
    let programs = programs::sections(case, model);
    if programs.is_empty() {
        return sections;
    }
    let measured = |section: &Section| section.cells.iter().any(|cell| cell.measured.is_some());
    sections.into_iter().filter(measured).chain(programs).collect()
}

struct Sections<'a> {
    fabric: &'a Fabric,
    apart: bool,
    all: Vec<Section>,
}

impl Sections<'_> {
    /// Adds the cells that were measured or, if none was, those with an expectation.
    fn add_series(&mut self, source: String, series: &Series) {
        let matrix = series.matrix();
        let any_measured = matrix.values.iter().flatten().any(Option::is_some);
        // a NIC with itself is its loopback
        let with_diagonal = matrix.engine == Some(Engine::Nic);
        let cells = ends(&matrix.rows, &matrix.cols, with_diagonal).filter_map(|(i, j, row, col)| {
            let expected = series.expected(i, j).filter(|e| e.value > 0.0);
            let measured = series.measured(i, j).map(|m| (m.value, m.upto));
            let shown = if any_measured { measured.is_some() } else { expected.is_some() };
            let cell =
                || Cell { standing: series.standing(i, j), ..self.cell(row, col, expected.map(|e| e.value), measured) };
            // what RDMA takes from NIC to NIC is no path of the machine
            let is_nic = |name| self.fabric.find(name).is_some_and(|id| self.fabric.node(id).kind == NodeKind::Nic);
            let class = match (with_diagonal && is_nic(row) && is_nic(col), row == col) {
                (true, true) => Some("loop".to_owned()),
                (true, false) => None,
                (false, _) => return shown.then(cell),
            };
            shown.then(|| Cell { class, ..cell() })
        });
        let cells = cells.collect();
        self.add(matrix.describe(), source, matrix.unit, cells);
    }

    /// Adds the cells with an expectation.
    fn add_predicted(&mut self, expected: &ExpectedMatrix) {
        let cells = ends(&expected.rows, &expected.cols, false).filter_map(|(i, j, row, col)| {
            let value = expected.values.get(i)?.get(j).copied().flatten().filter(|v| *v > 0.0)?;
            Some(self.cell(row, col, Some(value), None))
        });
        let cells = cells.collect();
        self.add(expected.metric().describe(), String::new(), expected.unit, cells);
    }

    fn cell(&self, row: &str, col: &str, expected: Option<f64>, measured: Option<(f64, f64)>) -> Cell {
        let class = class(self.fabric, row, col);
        Cell { row: row.to_owned(), col: col.to_owned(), class, expected, measured, standing: None }
    }

    fn add(&mut self, what: String, source: String, unit: Unit, cells: Vec<Cell>) {
        let same = |s: &&mut Section| s.what == what && (!self.apart || s.sources.contains(&source));
        match self.all.iter_mut().find(same) {
            _ if cells.is_empty() => {}
            Some(section) => {
                section.cells.extend(cells);
                if !section.sources.contains(&source) {
                    section.sources.push(source);
                }
            }
            None => self.all.push(Section { what, sources: vec![source], unit, cells, named: false }),
        }
    }
}

/// The positions, those on the diagonal only where wanted, with their names.
fn ends<'n>(
    rows: &'n [String],
    cols: &'n [String],
    diagonal: bool,
) -> impl Iterator<Item = (usize, usize, &'n str, &'n str)> {
    let all = rows
        .iter()
        .enumerate()
        .flat_map(move |(i, row)| cols.iter().enumerate().map(move |(j, col)| (i, j, row.as_str(), col.as_str())));
    all.filter(move |(.., row, col)| diagonal || row != col)
}

impl Section {
    /// Whether it has any expectation.
    pub fn expects(&self) -> bool {
        self.cells.iter().any(|c| c.expected.is_some())
    }

    fn lines(&self) -> Vec<Line> {
        if self.named { by_name(&self.cells) } else { group(&self.cells) }
    }

    /// Its metric and source in one line of at most `columns`, without the part that is `shared` by all.
    fn heading(&self, columns: usize, shared: &Shared) -> String {
        let what = shared.prefix.map_or(self.what.as_str(), |p| self.what.strip_prefix(p).unwrap_or(&self.what));
        let what = shared.unit.map_or(what, |u| what.strip_suffix(u.name()).unwrap_or(what).trim_end_matches(", "));
        if shared.source.is_some() {
            return what.to_owned();
        }
        let first = self.sources.first().map_or("", String::as_str);
        let (whole, number) = match self.sources.len() {
            0 | 1 => (first.to_owned(), String::new()),
            n => (format!("{first} and {} more", n - 1), format!("{n} sources")),
        };
        // a source that does not fit is omitted; -v shows it
        let fits = |source: &String| width(what) + 2 + width(source) <= columns;
        let source = [whole, number].into_iter().find(fits).unwrap_or_default();
        format!("{what}  {source}").trim_end().to_owned()
    }
}

fn class(fabric: &Fabric, row: &str, col: &str) -> Option<String> {
    let (a, b) = (fabric.find(row)?, fabric.find(col)?);
    Some(fabric.class(a, b).map_or_else(|| "?".to_owned(), |c| c.to_string()))
}

fn group(cells: &[Cell]) -> Vec<Line> {
    let mut cells: Vec<&Cell> = cells.iter().collect();
    // stable: cells stay in the order of the matrix within a group
    let order = |c: &Cell| c.expected.unwrap_or(0.0);
    cells.sort_by(|a, b| a.class.cmp(&b.class).then(order(b).total_cmp(&order(a))));
    let mut groups: Vec<Vec<&Cell>> = Vec::new();
    for cell in cells {
        let alike = |first: &&Cell| first.class == cell.class && order(first) <= order(cell) * ALIKE;
        match groups.last_mut() {
            Some(group) if group.first().is_some_and(alike) => group.push(cell),
            _ => groups.push(vec![cell]),
        }
    }
    groups.iter().map(|cells| line(cells)).collect()
}

/// A line for each name, with the range of its sizes.
fn by_name(cells: &[Cell]) -> Vec<Line> {
    let mut groups: Vec<Vec<&Cell>> = Vec::new();
    for cell in cells {
        match groups.iter_mut().find(|group| group.first().is_some_and(|first| first.row == cell.row)) {
            Some(group) => group.push(cell),
            None => groups.push(vec![cell]),
        }
    }
    let named = |group: &Vec<&Cell>| {
        let [first, .., last] = group.as_slice() else {
            let between = group.iter().map(|cell| format!("{}, {}", cell.row, cell.col)).collect();
            return Line { between, ..line(group) };
        };
        Line { between: format!("{}, {} to {}", first.row, first.col, last.col), ..line(group) }
    };
    groups.iter().map(named).collect()
}

fn line(cells: &[&Cell]) -> Line {
    let bounds = |values: &mut dyn Iterator<Item = f64>| {
        values
            .fold(None, |acc: Option<(f64, f64)>, v| Some(acc.map_or((v, v), |(low, high)| (low.min(v), high.max(v)))))
    };
    let compared = || cells.iter().filter_map(|c| c.expected.zip(c.measured));
    let pairs: Vec<(&str, &str)> = cells.iter().map(|c| (c.row.as_str(), c.col.as_str())).collect();
    Line {
        class: cells.first().and_then(|c| c.class.clone()),
        between: between(&pairs),
        cells: cells.len(),
        expected: bounds(&mut cells.iter().filter_map(|c| c.expected)),
        measured: bounds(&mut cells.iter().filter_map(|c| c.measured).flat_map(|(low, high)| [low, high])),
        ratio: bounds(&mut compared().flat_map(|(e, (low, high))| [low / e, high / e])),
    }
}

impl Line {
    /// Its end points, with the path class.
    fn ends(&self) -> String {
        match &self.class {
            Some(class) => format!("{class:<5}{}", self.between),
            None => self.between.clone(),
        }
    }
}

/// Ordered pairs in words: `GPU0–GPU3 among themselves`, `GPU0, GPU1 ↔ GPU2, GPU3`, `host → GPU0–GPU5`.
pub fn between(pairs: &[(&str, &str)]) -> String {
    // pairs may be hundreds of thousands, and names are long: each is looked up once
    let (mut numbers, mut names) = (HashMap::new(), Vec::new());
    let mut number = |name| {
        *numbers.entry(name).or_insert_with(|| {
            names.push(name);
            names.len() - 1
        })
    };
    if pairs.iter().all(|(a, b)| a == b) {
        let mut alone: Vec<&str> = pairs.iter().map(|(a, _)| *a).collect();
        alone.sort_by_key(|name| natural(name));
        alone.dedup();
        return ranges(&alone);
    }
    let mut once = HashSet::new();
    let mut numbered: Vec<(usize, usize)> = pairs.iter().map(|(a, b)| (number(*a), number(*b))).collect();
    numbered.retain(|pair| once.insert(*pair));
    let named = |(a, b): &(usize, usize)| (names[*a], names[*b]);
    let pairs: Vec<(&str, &str)> = numbered.iter().map(named).collect();
    let (from, to): (HashSet<usize>, HashSet<usize>) = numbered.iter().copied().unzip();
    let has = |a: &str, b: &str| {
        let pair = numbers.get(a).copied().zip(numbers.get(b).copied());
        pair.is_some_and(|pair| once.contains(&pair))
    };
    let in_order = |wanted: &dyn Fn(&str) -> bool| {
        let mut chosen: Vec<&str> = names.iter().copied().filter(|n| wanted(n)).collect();
        chosen.sort_by_key(|n| natural(n));
        chosen
    };
    let is_of = |set: &HashSet<usize>, name: &str| numbers.get(name).is_some_and(|number| set.contains(number));
    let (sources, sinks) = (in_order(&|n| is_of(&from, n)), in_order(&|n| is_of(&to, n)));
    let (two_way, one_way): (Vec<_>, Vec<_>) = numbered.iter().partition(|(a, b)| once.contains(&(*b, *a)));
    let symmetric = one_way.is_empty();
    if !symmetric && !two_way.is_empty() {
        let [two_way, one_way] = [two_way, one_way].map(|some| some.iter().map(named).collect::<Vec<_>>());
        return format!("{}; {}", between(&two_way), between(&one_way));
    }
    if !symmetric {
        let all = sources.iter().map(|a| sinks.iter().filter(|b| *b != a).count()).sum::<usize>() == pairs.len();
        let less = if all { String::new() } else { format!(" ({} of the pairs)", pairs.len()) };
        return format!("{} → {}{less}", ranges(&sources), ranges(&sinks));
    }
    if let Some(cliques) = cliques(&sources, &has, pairs.len()) {
        let text = cliques.iter().map(|c| pair_or_group(c)).collect::<Vec<_>>().join("; ");
        if width(&text) <= BETWEEN - 7 {
            return text;
        }
    }
    let right = in_order(&|n| sources.first().is_some_and(|first| has(first, n)));
    let left = in_order(&|n| right.first().is_some_and(|first| has(first, n)));
    let apart = left.iter().all(|l| !right.contains(l) && right.iter().all(|r| has(l, r)));
    if apart && left.len() * right.len() * 2 == pairs.len() {
        return format!("{} ↔ {}", ranges(&left), ranges(&right));
    }
    format!("{} of {}", count(pairs.len() / 2, "pair"), ranges(&sources))
}

fn pair_or_group(names: &[&str]) -> String {
    match names {
        [a, b] => format!("{a} ↔ {b}"),
        _ => format!("among {}", ranges(names)),
    }
}

/// Groups of names such that exactly the pairs within a group occur, if there are such groups.
fn cliques<'a>(names: &[&'a str], has: &dyn Fn(&str, &str) -> bool, pairs: usize) -> Option<Vec<Vec<&'a str>>> {
    let mut cliques: Vec<Vec<&'a str>> = Vec::new();
    for &name in names {
        match cliques.iter_mut().find(|c| c.iter().all(|member| has(member, name))) {
            Some(clique) => clique.push(name),
            None => cliques.push(vec![name]),
        }
    }
    let within: usize = cliques.iter().map(|c| c.len() * (c.len() - 1)).sum();
    (within == pairs).then_some(cliques)
}

/// One line of the table in words.
pub struct Row {
    /// The metric.
    pub what: String,
    /// End points, with the path class.
    pub ends: String,
    /// How many cells it covers.
    pub cells: usize,
    /// Lowest and highest expectation; empty if nothing can be expected.
    pub expected: String,
    /// Lowest and highest measured number.
    pub measured: String,
    /// Lowest and highest of measured ÷ expected.
    pub ratio: String,
}

/// The lines, for other formats.
pub fn rows(sections: &[Section]) -> Vec<Row> {
    let text = |bounds: Option<(f64, f64)>| bounds.map_or_else(String::new, |(low, high)| span(low, high));
    let row = |section: &Section, line: Line| Row {
        what: section.what.clone(),
        ends: line.ends().replacen("  ", " ", 2),
        cells: line.cells,
        expected: text(line.expected),
        measured: text(line.measured),
        ratio: text(line.ratio),
    };
    sections.iter().flat_map(|s| s.lines().into_iter().map(move |line| row(s, line))).collect()
}

/// Whether there are measured numbers but no expectations.
pub fn only_measured(sections: &[Section]) -> bool {
    !sections.is_empty() && sections.iter().flat_map(|s| &s.cells).all(|c| c.expected.is_none() && c.measured.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::line_width;

    #[test]
    fn pairs_in_words() {
        let both = |pairs: &[(&'static str, &'static str)]| {
            pairs.iter().flat_map(|&(a, b)| [(a, b), (b, a)]).collect::<Vec<_>>()
        };
        assert_eq!(between(&[("host", "GPU0"), ("host", "GPU1"), ("host", "GPU2")]), "host → GPU0–GPU2");
        assert_eq!(between(&both(&[("GPU0", "GPU1"), ("GPU2", "GPU3")])), "GPU0 ↔ GPU1; GPU2 ↔ GPU3");
        assert_eq!(between(&both(&[("a0", "a1"), ("a0", "a2"), ("a1", "a2")])), "among a0–a2");
        assert_eq!(between(&both(&[("a0", "b0"), ("a0", "b1"), ("a1", "b0"), ("a1", "b1")])), "a0, a1 ↔ b0, b1");
        assert_eq!(between(&both(&[("a0", "a1"), ("a1", "a2"), ("a2", "a3")])), "3 pairs of a0–a3");
        assert_eq!(between(&[("a1", "a1"), ("a0", "a0"), ("a2", "a2")]), "a0–a2");
        assert_eq!(between(&[("a0", "b0"), ("a1", "b1")]), "a0, a1 → b0, b1 (2 of the pairs)");
    }

    #[test]
    fn lines_are_grouped_to_need_the_fewest_headings() {
        let cell = |row: &str, col: &str| Cell {
            row: row.to_owned(),
            col: col.to_owned(),
            class: Some("NV18".into()),
            expected: Some(396.1),
            measured: Some((393.4, 393.9)),
            standing: None,
        };
        let section = |what: &str, cells| Section {
            what: format!("bandwidth, {what}, GB/s"),
            sources: vec!["peerlane measure".to_owned()],
            unit: Unit::GigabytesPerSecond,
            cells,
            named: false,
        };
        let shown = |sections: &[Section]| {
            let mut out = Vec::new();
            write(&mut out, sections, Head::All { assuming: false }, usize::MAX).unwrap();
            let text = anstream::adapter::strip_str(&String::from_utf8(out).unwrap()).to_string();
            assert!(text.lines().all(|line| width(line) <= line_width()), "{text}");
            text.lines()
                .map(|l| l.split("  ").filter(|w| !w.is_empty()).collect::<Vec<_>>().join("|"))
                .collect::<Vec<_>>()
        };
        let pair = || vec![cell("GPU0", "GPU1"), cell("GPU1", "GPU0")];
        let long = "both ways, summed, P2P off, writes, copy engine, 32 MiB";
        let same_pairs = shown(&[section("one way", pair()), section(long, pair())]);
        assert!(
            same_pairs[1].starts_with("Expected and measured: bandwidth, GB/s, peerlane measure|"),
            "{same_pairs:#?}"
        );
        assert_eq!(same_pairs[2], "NV18 GPU0 ↔ GPU1");
        assert!(same_pairs[3].starts_with("one way|") && same_pairs[4].starts_with(long), "{same_pairs:#?}");
        let one_matrix = shown(&[section("one way", pair())]);
        assert_eq!(one_matrix[2], "bandwidth, one way, GB/s|peerlane measure");
        assert!(one_matrix[3].starts_with("NV18 GPU0 ↔ GPU1|"), "{one_matrix:#?}");
    }

    #[test]
    fn similar_cells_share_a_line() {
        let cell = |row, col, expected, measured| Cell {
            row: String::from(row),
            col: String::from(col),
            class: Some("PIX".into()),
            expected: Some(expected),
            measured: Some((measured, measured)),
            standing: None,
        };
        let cells =
            vec![cell("GPU0", "GPU1", 10.0, 9.0), cell("GPU0", "GPU2", 1.0, 0.5), cell("GPU1", "GPU0", 10.2, 10.2)];
        let lines = group(&cells);
        assert_eq!(lines.len(), 2);
        assert_eq!((lines[0].cells, lines[0].measured, lines[0].ratio), (2, Some((9.0, 10.2)), Some((0.9, 1.0))));
        assert_eq!(lines[1].ratio, Some((0.5, 0.5)));
    }
}
