//! `peerlane predict`: the rates that a machine should reach and what limits them, and the times of small copies.

use std::io::{self, Write};

use peerlane::assumptions::Assumptions;
use peerlane::catalogue::Parts;
use peerlane::comparison::{Comparison, ExpectedMatrix, Metric, Table};
use peerlane::export::json::{MachinePrediction, PredictionDocument};
use peerlane::fabric::Fabric;
use peerlane::model::Assume;
use peerlane::names::ranges;
use peerlane::simulate::library::{ExpectedCollective, ExpectedPoint};
use peerlane::target::{predict, predict_usual};
use peerlane::units::Bytes;

use super::heading;
use crate::args::PredictArgs;
use crate::formats::{json, rule};
use crate::render::comparison::between as pairs_in_words;
use crate::render::style::{self, paint};
use crate::render::text::{hang, number, width, wrap};
use crate::render::whole::on_assumptions;
use crate::render::{self, line_width, matrix};
use crate::target::load_changed;
use crate::{Failure, Outcome};

/// Bottlenecks shown below a matrix by default.
const BOTTLENECKS: usize = 6;

pub(crate) fn run(args: &PredictArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let loaded = load_changed(&args.machines.targets, args.machines.machine.as_deref(), &args.what_if.edits)?;
    let mut predictions = Vec::new();
    for (i, machine) in loaded.machines().enumerate() {
        let assumed = Assumptions::of(machine, Parts::embedded());
        let model = assumed.model(Parts::embedded(), Assume::Usual);
        let comparison = Comparison::of(&model);
        let [sizes, rates] = [&args.sizes, &args.collectives].map(|sizes| sizes.as_deref().unwrap_or_default());
        if args.detail.json {
            predictions.push(predict(machine, &assumed, &comparison, sizes, rates));
            continue;
        }
        let MachinePrediction { matrices, assumptions, curves, messages, .. } =
            predict_usual(machine, &assumed, &comparison, sizes, &[]);
        rule(out, i == 0)?;
        heading(out, machine)?;
        if matrices.is_empty() {
            writeln!(out, "Too little is known about the links to predict anything.")?;
        } else if matrices.iter().all(|matrix| matrix.unit.rate(1.0).is_none()) {
            writeln!(out, "Too little is known about the links to predict rates.")?;
        }
        on_assumptions(out, &assumptions)?;
        let by_size = !curves.is_empty() || args.collectives.is_some();
        let shown: &[ExpectedMatrix] = if args.detail.verbose || !by_size { &matrices } else { &[] };
        let measured =
            if shown.is_empty() || comparison.series().is_empty() { Vec::new() } else { comparison.tables() };
        for expected in shown {
            show(out, &model.machine.fabric, expected, args.detail.verbose)?;
            beside(out, &measured, expected)?;
        }
        render::sizes::copies(out, &curves)?;
        render::sizes::messages(out, &messages)?;
        if let Some(sizes) = &args.collectives {
            collective_rates(out, sizes, &assumed)?;
        }
    }
    if args.detail.json {
        json(out, &PredictionDocument::new(predictions))?;
    }
    Ok(Outcome { findings: false, incomplete: loaded.incomplete })
}

/// Times and bus bandwidths of collectives, a row a size, and from which sizes the library changes its algorithm or protocol.
fn collective_rates(out: &mut dyn Write, sizes: &[Bytes], assumed: &Assumptions) -> io::Result<()> {
    let [least, most] = [sizes.iter().min(), sizes.iter().max()].map(|size| size.map_or(0, |size| size.0));
    let powers = (0..=40).map(|p| Bytes(1 << p)).filter(|size| (least..=most).contains(&size.0));
    let asked: Vec<Bytes> = sizes.iter().copied().chain(powers).collect();
    let both = ExpectedCollective::all(&assumed.assumed_machine(Parts::embedded()), &asked);
    let split = |mut of: ExpectedCollective| {
        let powers = of.points.split_off(sizes.len());
        (of, powers)
    };
    let (all, powers): (Vec<ExpectedCollective>, Vec<Vec<ExpectedPoint>>) = both.into_iter().map(split).unzip();
    let Some(first) = all.first() else {
        return writeln!(out, "Collectives need two GPUs, and a known rate of each pair.");
    };
    let title = format!("Collectives among {} GPUs, as NCCL or RCCL does them (us, busbw in GB/s)", first.gpus);
    writeln!(out, "\n{}", paint(style::HEADING, &title))?;
    let columns: Vec<Vec<String>> = all.iter().map(collective_column).collect();
    let mut rest = columns.as_slice();
    while !rest.is_empty() {
        let (shown, more) = rest.split_at(fitting(rest));
        if rest.len() < columns.len() {
            writeln!(out)?;
        }
        let sizes = first.points.iter().map(|point| Bytes(point.size).to_string());
        for (i, size) in std::iter::once("size".to_owned()).chain(sizes).enumerate() {
            let cells: String = shown.iter().filter_map(|column| column.get(i)).map(String::as_str).collect();
            writeln!(out, "  {size:<SIZE$}{cells}")?;
        }
        rest = more;
    }
    writeln!(out, "\n  R ring, T tree, N NVLink SHARP; l LL, m LL128, s Simple")?;
    writeln!(out, "  assumed: a process for each GPU, and NVLink SHARP where the switches have it")?;
    writeln!(out, "  more: peerlane help collectives")?;
    all.iter().zip(&powers).try_for_each(|(of, powers)| changes(out, of, powers))
}

/// Columns of a size: `256 MiB`.
const SIZE: usize = 7;

/// How many of these columns fit a line; at least one.
fn fitting(columns: &[Vec<String>]) -> usize {
    let widths = columns.iter().scan(2 + SIZE, |before, column| {
        *before += column.iter().map(|cell| width(cell)).max().unwrap_or(0);
        Some(*before)
    });
    widths.take_while(|end| *end <= line_width()).count().max(1)
}

/// A collective's name, and a cell a size, all equally wide.
fn collective_column(of: &ExpectedCollective) -> Vec<String> {
    let times: Vec<String> = of.points.iter().map(|point| number(point.time * 1e6)).collect();
    let rates: Vec<String> = of.points.iter().map(|point| number(point.busbw)).collect();
    let widest = |all: &[String]| all.iter().map(|text| width(text)).max().unwrap_or(0);
    // the usual widths, so that tables of several machines look alike
    let [time, rate] = [widest(&times).max(6), widest(&rates).max(5)];
    let cells = of.points.iter().zip(times.iter().zip(&rates));
    let cells = cells.map(|(point, (us, gb))| format!("  {us:>time$} {gb:>rate$} {}", method(point)));
    let name = format!("  {:>w$}", of.collective.name(), w = time + rate + 4);
    std::iter::once(name).chain(cells).collect()
}

/// The sizes from which NCCL or RCCL changes its algorithm or protocol.
fn changes(out: &mut dyn Write, of: &ExpectedCollective, powers: &[ExpectedPoint]) -> io::Result<()> {
    let name = |point: &ExpectedPoint| format!("{} {}", point.algorithm, point.protocol);
    let same = powers.chunk_by(|a, b| name(a) == name(b)).filter_map(<[ExpectedPoint]>::first);
    let steps = same.enumerate().map(|(i, point)| match i {
        0 => name(point),
        _ => format!("{} from {}", name(point), Bytes(point.size)),
    });
    hang(out, &format!("  {:<14} ", of.collective.name()), &steps.collect::<Vec<_>>().join(", "))
}

/// The algorithm and the protocol: `Rs`.
fn method(point: &ExpectedPoint) -> String {
    let algorithm = match point.algorithm.as_str() {
        "ring" => 'R',
        "tree" => 'T',
        _ => 'N',
    };
    let protocol = match point.protocol.as_str() {
        "ll" => 'l',
        "ll128" => 'm',
        _ => 's',
    };
    format!("{algorithm}{protocol}")
}

fn show(out: &mut dyn Write, fabric: &Fabric, expected: &ExpectedMatrix, verbose: bool) -> io::Result<()> {
    writeln!(out)?;
    hang(out, "", &expected.metric().describe())?;
    matrix::numbers(out, &expected.rows, &expected.cols, &expected.values)?;
    let groups = by_bottleneck(expected, |what| if verbose { what.to_owned() } else { alike(fabric, what) });
    let most = if verbose { usize::MAX } else { BOTTLENECKS };
    let label = if expected.unit.rate(1.0).is_some() { "bound by" } else { "time of" };
    for Bound { what, pairs, interval: [below, above] } in groups.iter().take(most) {
        let [below, above] = [below, above].map(|share| share.round());
        let within = pairs.iter().all(|(a, b)| a == b);
        let names = || ranges(&pairs.iter().map(|(gpu, _)| *gpu).collect::<Vec<&str>>());
        let ends = if within { format!("within {}", names()) } else { pairs_in_words(pairs) };
        let text = format!("{ends}: {what}; interval −{below} to +{above} %");
        for (i, line) in wrap(&text, line_width() - 14).iter().enumerate() {
            writeln!(out, "  {} {line}", paint(style::DIM, &format!("{:11}", if i == 0 { label } else { "" })))?;
        }
    }
    if groups.len() > most {
        writeln!(
            out,
            "  {}",
            paint(style::DIM, &format!("and {} more bottlenecks (-v shows them)", groups.len() - most))
        )?;
    }
    Ok(())
}

/// What was measured of the same paths, and which of it lies outside the interval: no prediction passes over it.
fn beside(out: &mut dyn Write, measured: &[Table], expected: &ExpectedMatrix) -> io::Result<()> {
    let metric = expected.metric();
    // a program that copies with peer access says nothing of writes, nor of what drives it
    let same = |of: Metric| {
        (of.quantity, of.direction, of.unit) == (metric.quantity, metric.direction, metric.unit)
            && of.p2p.unwrap_or(true) == metric.p2p.unwrap_or(true)
            && (of.engine.is_none() || of.engine == metric.engine)
    };
    let (mut ratios, mut outside) = (Vec::new(), Vec::new());
    for table in measured.iter().filter(|table| same(table.metric) && table.title.is_none()) {
        for cell in &table.cells {
            let [row, col] = [table.rows.get(cell.row), table.cols.get(cell.col)];
            let Some((row, col)) = row.zip(col).filter(|(r, c)| expected.rows.contains(r) && expected.cols.contains(c))
            else {
                continue;
            };
            for (measured, expected) in cell.measured.iter().filter_map(|m| Some((m, cell.expected.as_ref()?))) {
                ratios.push(measured.value / expected.value);
                if measured.upto < expected.low || measured.value > expected.high {
                    outside.push(format!("{row} → {col} {}", number(measured.value)));
                }
            }
        }
    }
    if ratios.is_empty() {
        return Ok(());
    }
    ratios.sort_by(f64::total_cmp);
    let ends = [ratios.first(), ratios.get(ratios.len() / 2), ratios.last()].map(|r| r.copied().unwrap_or_default());
    let mut text =
        format!("{} values, {:.2} to {:.2} of these, {:.2} in the middle", ratios.len(), ends[0], ends[2], ends[1]);
    if !outside.is_empty() {
        let more = outside.len().saturating_sub(BOTTLENECKS);
        outside.truncate(BOTTLENECKS);
        text.push_str(&format!("; outside the interval: {}", outside.join(", ")));
        if more > 0 {
            text.push_str(&format!(" and {more} more"));
        }
    }
    for (i, line) in wrap(&text, line_width() - 14).iter().enumerate() {
        writeln!(out, "  {} {line}", paint(style::DIM, &format!("{:11}", if i == 0 { "measured" } else { "" })))?;
    }
    Ok(())
}

/// The text with `#` for the numbers of nodes, so that similar bottlenecks are shown once.
fn alike(fabric: &Fabric, what: &str) -> String {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = String::with_capacity(what.len());
    let mut rest = what;
    while !rest.is_empty() {
        let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        let (word, tail) = rest.split_at(end);
        match word.trim_end_matches(|c: char| c.is_ascii_digit()) {
            stem if stem.len() < word.len() && fabric.find(word).is_some() => {
                out.push_str(stem);
                out.push('#');
            }
            _ => out.push_str(word),
        }
        let mut others = tail.chars();
        out.extend(others.next());
        rest = others.as_str();
    }
    out
}

/// Pairs with the same bottleneck.
struct Bound<'e> {
    what: String,
    pairs: Vec<(&'e str, &'e str)>,
    /// The largest distances of interval ends from the values, in %.
    interval: [f64; 2],
}

/// Bottlenecks with their pairs, the most common first.
fn by_bottleneck(expected: &ExpectedMatrix, said: impl Fn(&str) -> String) -> Vec<Bound<'_>> {
    let mut groups: Vec<Bound> = Vec::new();
    for (i, (row, line)) in expected.rows.iter().zip(&expected.bottlenecks).enumerate() {
        for (j, (col, what)) in expected.cols.iter().zip(line).enumerate() {
            let Some(what) = what else { continue };
            let at = |grid: &[Vec<Option<f64>>]| grid.get(i).and_then(|row| row.get(j)).copied().flatten();
            let value = at(&expected.values);
            let off = |end: Option<f64>| end.zip(value).map_or(0.0, |(end, value)| (end / value - 1.0).abs() * 100.0);
            let [below, above] = [off(at(&expected.low)), off(at(&expected.high))];
            let what = said(what);
            match groups.iter_mut().find(|group| group.what == what) {
                Some(group) => {
                    group.pairs.push((row, col));
                    group.interval = [group.interval[0].max(below), group.interval[1].max(above)];
                }
                None => groups.push(Bound { what, pairs: vec![(row, col)], interval: [below, above] }),
            }
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.pairs.len()));
    groups
}
