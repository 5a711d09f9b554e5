//! Times and rates by message size, a column a path and method; the faster of two methods is marked.

use std::io::{self, Write};

use peerlane::expectation::ExpectedCurve;
use peerlane::model::rdma::{LikeNodes, Method, NicMessages};
use peerlane::units::Bytes;

use super::line_width;
use super::style::{self, paint};
use super::text::{fit, hang, number};

/// Columns of the sizes.
const LABEL: usize = 13;

/// Columns of a path.
const COLUMN: usize = 21;

/// One method of one path.
struct Column {
    /// From, to, class, method.
    head: [String; 4],
    /// Microseconds and GB/s by size.
    points: Vec<[f64; 2]>,
    /// Whether it is compared with the other methods of its path.
    compared: bool,
    /// Below the sizes: the asymptotic rate, and the time of the smallest.
    foot: [String; 2],
}

/// Writes copies, those of a path beside each other.
pub fn copies(out: &mut dyn Write, curves: &[ExpectedCurve]) -> io::Result<()> {
    let column = |curve: &ExpectedCurve| Column {
        head: [
            curve.from.clone(),
            curve.to.clone(),
            curve.class.map_or_else(String::new, |class| class.to_string()),
            if curve.staged { "staged" } else { "direct" }.to_owned(),
        ],
        points: curve.times.iter().zip(&curve.rates).map(|((_, time), (_, rate))| [*time, *rate]).collect(),
        compared: true,
        foot: [number(curve.rate), number(curve.latency)],
    };
    let groups: Vec<Vec<Column>> = curves
        .chunk_by(|a, b| (&a.from, &a.to) == (&b.from, &b.to))
        .map(|path| path.iter().map(column).collect())
        .collect();
    let sizes: Vec<u64> = curves.first().map_or_else(Vec::new, |c| c.rates.iter().map(|(size, _)| *size).collect());
    let rows = ["from", "to", "class", ""];
    let words = |c: &ExpectedCurve| Some((format!("{} → {}", c.from, c.to), c.crossover()?));
    let answers: Vec<(String, String)> = curves.iter().filter_map(words).collect();
    let title = "Copies by size, copy engine, one way, many one behind another";
    table(out, title, &answers, rows, &sizes, &groups)
}

/// Writes messages through NICs, those of a GPU and a NIC beside each other.
pub fn messages(out: &mut dyn Write, all: &[NicMessages]) -> io::Result<()> {
    let group = |of: &NicMessages| {
        let column = |like: &LikeNodes| {
            let host = like.method == Method::Host;
            Column {
                head: [
                    if host { "host".to_owned() } else { of.gpu.clone() },
                    of.nic.clone(),
                    of.class.filter(|_| !host).map_or_else(String::new, |class| class.to_string()),
                    like.method.to_string(),
                ],
                points: like.curve.iter().map(|p| [p.time.likely.us(), p.rate]).collect(),
                compared: !host,
                foot: [number(like.rate), number(like.latency.likely.us())],
            }
        };
        of.methods.iter().map(column).collect()
    };
    let groups: Vec<Vec<Column>> = all.iter().map(group).collect();
    let curve = all.first().and_then(|of| of.methods.first()).map(|like| like.curve.as_slice()).unwrap_or_default();
    let sizes: Vec<u64> = curve.iter().map(|p| p.size.0).collect();
    let title = "Messages by size between two such nodes: time of one alone, rate of many one behind another";
    let words = |(of, like): (&NicMessages, &LikeNodes)| {
        let (path, method) = (format!("{} → {}", of.gpu, of.nic), like.method);
        let has_staged = of.methods.iter().any(|like| matches!(like.method, Method::Staged(_)));
        let direct = matches!(method, Method::Nvp2p | Method::Bar1) && has_staged;
        let said = match like.staging_from {
            Some(size) => format!("one staged message is faster than {method} from {size}"),
            None => format!("{method} is faster than one staged message up to 1 GiB"),
        };
        direct.then_some((path, said))
    };
    let likes = all.iter().flat_map(|of| of.methods.iter().map(move |like| (of, like)));
    let answers: Vec<(String, String)> = likes.filter_map(words).collect();
    table(out, title, &answers, ["from", "through", "class", "method"], &sizes, &groups)
}

/// Writes which method is the faster one by size, path by path.
fn crossovers(out: &mut dyn Write, answers: &[(String, String)]) -> io::Result<()> {
    if answers.is_empty() {
        return Ok(());
    }
    for (path, words) in answers {
        hang(out, &format!("  {path:<18} "), words)?;
    }
    writeln!(out, "  {}", paint(style::DIM, "◄ marks the faster method for one of a size"))
}

/// Writes the answers, and then groups of columns, as many beside each other as fit.
fn table(
    out: &mut dyn Write,
    title: &str,
    answers: &[(String, String)],
    rows: [&str; 4],
    sizes: &[u64],
    groups: &[Vec<Column>],
) -> io::Result<()> {
    let fitting = (line_width().saturating_sub(LABEL) / COLUMN).max(1);
    let mut blocks: Vec<Vec<(&Column, Vec<bool>)>> = Vec::new();
    for group in groups.iter().filter(|group| !group.is_empty()) {
        let fastest = fastest(group, sizes.len());
        for (i, column) in group.iter().enumerate() {
            let begins = i == 0 && blocks.last().is_none_or(|block| block.len() + group.len() > fitting);
            if begins || blocks.last().is_none_or(|block| block.len() >= fitting) {
                blocks.push(Vec::new());
            }
            let marks = fastest.iter().map(|at| *at == Some(i)).collect();
            blocks.last_mut().into_iter().for_each(|block| block.push((column, Vec::clone(&marks))));
        }
    }
    for (n, block) in blocks.iter().enumerate() {
        let row = |out: &mut dyn Write, name: &str, cells: String| {
            writeln!(out, "{}", format!("  {name:<width$}{cells}", width = LABEL - 2).trim_end())
        };
        writeln!(out)?;
        if n == 0 {
            hang(out, "", &paint(style::HEADING, title))?;
            crossovers(out, answers)?;
        }
        for (i, name) in rows.iter().enumerate() {
            row(out, name, block.iter().map(|(c, _)| format!(" {:>18}  ", fit(&c.head[i], 18))).collect())?;
        }
        row(out, "", block.iter().map(|_| format!(" {:>9} {:>8}  ", "us", "GB/s")).collect())?;
        for (at, size) in sizes.iter().enumerate() {
            let cell = |(column, marks): &(&Column, Vec<bool>)| {
                let Some([time, rate]) = column.points.get(at) else { return " ".repeat(COLUMN) };
                let mark = if marks.get(at) == Some(&true) { "◄" } else { " " };
                format!(" {:>9} {:>8} {mark}", number(*time), number(*rate))
            };
            row(out, &Bytes(*size).to_string(), block.iter().map(cell).collect())?;
        }
        row(out, "asymptote", block.iter().map(|(c, _)| format!(" {:>9} {:>8}  ", "", c.foot[0])).collect())?;
        row(out, "smallest", block.iter().map(|(c, _)| format!(" {:>9} {:>8}  ", c.foot[1], "")).collect())?;
    }
    Ok(())
}

/// Which column takes the least time, by size; `None` where there is nothing to choose from.
fn fastest(group: &[Column], sizes: usize) -> Vec<Option<usize>> {
    let of = |at: usize| {
        let times = group.iter().enumerate().filter(|(_, column)| column.compared);
        let mut times: Vec<(usize, f64)> = times.filter_map(|(i, c)| Some((i, c.points.get(at)?[0]))).collect();
        times.sort_by(|a, b| a.1.total_cmp(&b.1));
        times.first().filter(|_| times.len() > 1).map(|(i, _)| *i)
    };
    (0..sizes).map(of).collect()
}
