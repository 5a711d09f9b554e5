//! `peerlane simulate --scaling`: time, speed-up and efficiency by the number of nodes, as a table, a plot, JSON and CSV.

use std::io::{self, Write};

use peerlane::simulate::scaling::{Scaling, ScalingDocument, ScalingPoint, doubling, scaling};
use peerlane::simulate::workload::Workload;
use peerlane::units::Bytes;

use crate::args::SimulateArgs;
use crate::args::is_trace;
use crate::formats::csv::words;
use crate::formats::{json, rule};
use crate::render::style::{self, paint};
use crate::render::table::{columns, percent, size};
use crate::render::text::{hang, headline, number};
use crate::render::{chart, line_width};
use crate::target::clusters::clusters;
use crate::{Failure, Outcome, output_file};

/// Lines of a plot.
const HEIGHT: usize = 12;
/// Columns to its left.
const AXIS: usize = 8;
/// Limit of columns per point.
const STEP: usize = 6;

pub(crate) fn run(args: &SimulateArgs, how: Scaling, out: &mut dyn Write) -> Result<Outcome, Failure> {
    for path in [&args.csv, &args.svg].into_iter().flatten() {
        output_file::check(path)?;
    }
    let mut counts = args.grown.nodes.clone();
    counts.sort_unstable();
    counts.dedup();
    let mut grown = args.grown.clone();
    grown.nodes = counts.last().copied().into_iter().collect();
    let (clusters, incomplete) = clusters(&args.machines, &grown, args.hops.hop_latency)?;
    let refused = |e: peerlane::simulate::SimulateError| Failure::new(e.to_string());
    let [word] = args.workloads.as_slice() else {
        return Err(Failure::new("--scaling is for one workload: give one -w"));
    };
    if is_trace(word) || args.traces.compute_scale.is_some() {
        return Err(Failure::new("a trace is for a fixed number of nodes, so it cannot be scaled"));
    }
    let workload = word.parse::<Workload>().map_err(refused)?;
    let largest = args.sizes.0.iter().max().copied().unwrap_or(Bytes(0));
    if let Some(one) = clusters.iter().find(|cluster| cluster.nodes == 1) {
        let name = &one.name;
        return Err(Failure::new(format!(
            "--scaling is over numbers of nodes, and {name} is one machine: add --nodes and --network, or give a cluster"
        )));
    }
    let mut documents = Vec::new();
    for cluster in &clusters {
        let counts = match counts.as_slice() {
            [] | [_] => doubling(cluster.nodes_in_use()),
            several => several.to_vec(),
        };
        documents.push(scaling(cluster, &workload, largest, &counts, how).map_err(refused)?);
    }
    // a result that cannot be written is still shown
    let written = args.csv.as_ref().map_or(Ok(()), |path| output_file::write(path, csv(&documents)));
    let draw = |path| output_file::write(path, chart::nodes(&documents).map_err(Failure::new)?);
    let drawn = args.svg.as_deref().map_or(Ok(()), draw);
    if args.detail.json {
        match documents.as_slice() {
            [only] => json(out, only)?,
            all => json(out, &all)?,
        }
    } else {
        for (i, document) in documents.iter().enumerate() {
            rule(out, i == 0)?;
            show(out, document, workload.is_sized(), args.detail.verbose)?;
        }
    }
    written.and(drawn)?;
    Ok(Outcome { findings: false, incomplete })
}

fn show(out: &mut dyn Write, document: &ScalingDocument, sized: bool, verbose: bool) -> io::Result<()> {
    let ScalingDocument { target, workload, scaling, points, .. } = document;
    for line in headline(&format!("{target}: {workload}, {scaling} scaling")) {
        writeln!(out, "{}", paint(style::HEADING, &line))?;
    }
    writeln!(out)?;
    let headings = ["nodes", "GPUs", "size", "time us", "speed-up", "efficiency", "bound by"];
    let shown = |at: usize| sized || at != 2;
    let row = |p: &ScalingPoint| {
        let mark = if p.exact { "" } else { " *" };
        let cells = [
            p.nodes.to_string(),
            p.gpus.to_string(),
            size(p.size),
            format!("{}{mark}", number(p.time * 1e6)),
            number(p.speedup),
            percent(p.efficiency),
            p.held_by.clone().unwrap_or_default(),
        ];
        cells.into_iter().enumerate().filter(|(at, _)| shown(*at)).map(|(_, cell)| cell).collect()
    };
    let rows: Vec<Vec<String>> = points.iter().map(row).collect();
    let headings: Vec<String> =
        headings.iter().enumerate().filter(|(at, _)| shown(*at)).map(|(_, h)| (*h).to_owned()).collect();
    columns(out, &headings, &rows, 0)?;
    if points.iter().any(|p| !p.exact) {
        writeln!(out, "* approximate; 'simulate --use-nodes' shows why")?;
    }
    if points.len() > 1 {
        writeln!(out)?;
        plot(points).iter().try_for_each(|line| writeln!(out, "{line}"))?;
    }
    if let Some(why) = &document.ended_because {
        hang(out, "\nStopped: ", why)?;
    }
    if verbose {
        for sentence in &document.assumptions {
            hang(out, "Assumed: ", sentence)?;
        }
    }
    Ok(())
}

/// Measured and ideal speed-up by number of nodes, both axes logarithmic.
fn plot(points: &[ScalingPoint]) -> Vec<String> {
    let first = points.first().map_or(1.0, |p| f64::from(p.nodes));
    let ideal = |p: &ScalingPoint| f64::from(p.nodes) / first;
    let highest = points.iter().map(|p| p.speedup.max(ideal(p))).fold(1.0, f64::max);
    let step = ((line_width() - AXIS - 2) / points.len().max(1)).clamp(1, STEP);
    // the line of a value, counted from below; values less than 1 are in the lowest
    let line = |value: f64| {
        let share = if highest > 1.0 { value.max(1.0).ln() / highest.ln() } else { 0.0 };
        (share * (HEIGHT - 1) as f64).round() as usize
    };
    let mut lines = vec![paint(style::HEADING, "speed-up (o) and ideal speed-up (·) by number of nodes")];
    for at in (0..HEIGHT).rev() {
        let value = highest.powf(at as f64 / (HEIGHT - 1) as f64);
        // every third line has a label
        let label = if at % 3 == 0 || at == HEIGHT - 1 { short(value) } else { String::new() };
        let mut text = format!("{label:>w$} │", w = AXIS - 2);
        for point in points {
            let mark = match (line(point.speedup) == at, line(ideal(point)) == at) {
                (true, _) => 'o',
                (false, true) => '·',
                _ => ' ',
            };
            text.push_str(&format!("{mark:>step$}"));
        }
        lines.push(text.trim_end().to_owned());
    }
    lines.push(format!("{:>w$} └{}", "", "─".repeat(step * points.len()), w = AXIS - 2));
    // a label that would overlap its neighbour is omitted
    let mut labels = String::new();
    for (i, point) in points.iter().enumerate() {
        let label = short(f64::from(point.nodes));
        let end = AXIS + (i + 1) * step;
        if end > labels.chars().count() + label.len() {
            labels = format!("{labels:w$}{label}", w = end - label.len());
        }
    }
    lines.push(labels);
    lines
}

/// `512`, `16k`, `1.5`: four characters if possible.
fn short(value: f64) -> String {
    match value {
        v if v >= 9999.5 => format!("{:.0}k", v / 1024.0),
        v if v >= 9.95 => format!("{v:.0}"),
        v => {
            let text = format!("{v:.1}");
            text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
        }
    }
}

fn csv(documents: &[ScalingDocument]) -> String {
    let mut text = "target,workload,scaling,nodes,gpus,size,time_s,speedup,efficiency,held_by,exact\n".to_owned();
    for d in documents {
        for p in &d.points {
            let (target, workload) = (words(&d.target), words(&d.workload));
            let held = words(p.held_by.as_deref().unwrap_or_default());
            let ScalingPoint { nodes, gpus, size, time, speedup, efficiency, exact, .. } = p;
            text.push_str(&format!(
                "{target},{workload},{},{nodes},{gpus},{size},{time},{speedup},{efficiency},{held},{exact}\n",
                d.scaling
            ));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(nodes: u32, speedup: f64) -> ScalingPoint {
        let efficiency = speedup / f64::from(nodes);
        let (gpus, held_by) = (nodes as usize, None);
        ScalingPoint { nodes, gpus, size: 1, time: 1.0 / speedup, speedup, efficiency, held_by, exact: true }
    }

    #[test]
    fn a_plot_places_its_points_and_fits_the_terminal() {
        let lines = plot(&[point(1, 1.0), point(2, 2.0), point(4, 2.0), point(16, 0.5)]);
        assert_eq!(lines.len(), HEIGHT + 3);
        let at = |row: usize, i: usize| lines[HEIGHT - row].chars().nth(AXIS - 1 + STEP * (i + 1));
        // 11 lines up to a speed-up of 16: a speed-up of 2 is at line 2.75, one of 4 at 5.5
        assert_eq!([at(0, 0), at(3, 1), at(3, 2), at(6, 2)], [Some('o'), Some('o'), Some('o'), Some('·')]);
        assert_eq!([at(0, 3), at(11, 3)], [Some('o'), Some('·')]);
        let many: Vec<ScalingPoint> = (0..60).map(|i| point(100_000 + i, f64::from(i + 1))).collect();
        assert!(plot(&many).iter().all(|l| l.chars().count() <= line_width()), "{:#?}", plot(&many));
        let flat = plot(&[point(1, 1.0), point(1, 1.0)]);
        assert!(flat[HEIGHT].contains('o'), "{flat:#?}");
    }
}
