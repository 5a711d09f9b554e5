//! `peerlane simulate`: how long a workload takes on a machine or a cluster, what limits it, and what would help.

mod scaling;
mod step;

use std::io::{self, Write};

use peerlane::cluster::Cluster;
use peerlane::collectives::Ring;
use peerlane::one_line::shown;
use peerlane::simulate::estimate::Estimate;
use peerlane::simulate::model_step::timeline;
use peerlane::simulate::outcome::STARTING;
use peerlane::simulate::picture;
use peerlane::simulate::result::{Binding, Help, Point, SimulationDocument, simulate};

use crate::args::SimulateArgs;
use crate::formats::{json, rule};
use crate::progress::Bar;
use crate::render::style::{self, paint};
use crate::render::table::{columns, percent, size};
use crate::render::text::{hang, headline, number};
use crate::render::{chart, halo, model_step};
use crate::target::clusters::{clusters, job};
use crate::{Failure, Outcome, output_file};

pub(crate) fn run(args: &SimulateArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    if let Some(how) = args.scaling {
        return scaling::run(args, how, out);
    }
    for path in [&args.trace, &args.svg].into_iter().flatten() {
        output_file::check(path)?;
    }
    let (clusters, incomplete) = clusters(&args.machines, &args.grown, args.hops.hop_latency)?;
    if let (Some(path), 2..) = (&args.trace, clusters.len()) {
        let (path, n) = (shown(path), clusters.len());
        return Err(Failure::new(format!(
            "--trace {path}: a trace is of one cluster, and there are {n}; give one TARGET and one of --nodes"
        )));
    }
    let mut documents = Vec::new();
    let mut written = Ok(());
    for cluster in &clusters {
        let job = job(&args.workloads, &args.sizes.0, cluster, (args.traces, &args.steps))?;
        let _bar = Bar::waiting(&format!("simulating {}", cluster.name));
        let (document, last) = simulate(cluster, &job, args.helps).map_err(|e| Failure::new(e.to_string()))?;
        if let Some(path) = &args.trace {
            let text = match &document.step {
                Some(step) => timeline::chrome_trace(step),
                None => picture::chrome_trace(cluster, &last, document.points.last()),
            };
            // a result that cannot be written is still shown
            written = output_file::write(path, text);
        }
        documents.push(document);
    }
    if let Some(path) = &args.svg {
        written = written.and_then(|()| output_file::write(path, chart::sizes(&documents).map_err(Failure::new)?));
    }
    if args.detail.json {
        match documents.as_slice() {
            [only] => json(out, only)?,
            all => json(out, &all)?,
        }
    } else {
        for (i, (document, cluster)) in documents.iter().zip(&clusters).enumerate() {
            rule(out, i == 0)?;
            show(out, document, cluster, args.detail.verbose)?;
        }
    }
    written?;
    Ok(Outcome { findings: false, incomplete })
}

fn show(out: &mut dyn Write, document: &SimulationDocument, cluster: &Cluster, verbose: bool) -> io::Result<()> {
    let title = match &cluster.title {
        Some(title) => format!("{}: {title}", cluster.name),
        None => cluster.name.clone(),
    };
    for line in headline(&title) {
        writeln!(out, "{}", paint(style::HEADING, &line))?;
    }
    writeln!(out, "\n{} on {}", document.workload, crate::render::text::count(document.gpus, "GPU"))?;
    if let Some(trace) = &document.trace {
        step::show(out, trace)?;
    } else if let Some(step) = &document.step {
        model_step::show(out, step, verbose)?;
    } else {
        sizes(out, document)?;
    }
    if let Some(rings) = &document.rings {
        around(out, rings, cluster.network.is_some())?;
    }
    if let Some(idle) = document.points.last().and_then(|p| p.idle).filter(|_| document.trace.is_none()) {
        writeln!(out, "GPUs compute {} of the time.", percent(1.0 - idle))?;
    }
    if let Some(last) = document.points.last().filter(|p| p.binding.len() > 1 && document.step.is_none()) {
        writeln!(out, "\n{}", paint(style::HEADING, &format!("Bottlenecks at {}, by transfer time", size(last.size))))?;
        for binding in last.binding.iter().take(if verbose { usize::MAX } else { 6 }) {
            hang(out, &format!("  {:>6}  ", percent(binding.share)), &binding.resource)?;
        }
    }
    if let Some(last) = document.points.last().filter(|p| last_differs(p)) {
        writeln!(out, "\n{}", paint(style::HEADING, "Bottlenecks of the last transfer of each round, by round time"))?;
        for binding in &last.last_held_by {
            hang(out, &format!("  {:>6}  ", percent(binding.share)), &binding.resource)?;
        }
    }
    if let Some(advice) = &document.spin_glass {
        writeln!(out, "\n{}", paint(style::HEADING, "Several GPUs against one, exchanging as within a machine"))?;
        halo::spin_glass(out, advice)?;
    }
    match document.rerouted {
        Some(true) => writeln!(out, "\nTraffic is routed around the failed link.")?,
        Some(false) => writeln!(out, "\nNo transfer would have used the failed link.")?,
        None => {}
    }
    if let Some(helps) = &document.helps {
        let steps = document.trace.as_ref().map_or(1, |trace| trace.steps);
        what_helps(out, helps, steps)?;
    }
    if let Some(Estimate { because, error }) = &document.estimate {
        let error = error.map_or_else(String::new, |error| format!("; error at most {}", percent(error)));
        hang(out, "\nEstimate: ", &format!("{because}{error}"))?;
    }
    if verbose {
        for sentence in &document.assumptions {
            hang(out, "Assumed: ", sentence)?;
        }
    }
    Ok(())
}

/// A line for each size.
fn sizes(out: &mut dyn Write, document: &SimulationDocument) -> io::Result<()> {
    let bus = document.points.iter().any(|p| p.busbw.is_some());
    let mut headings = vec!["size".to_owned(), "time us".to_owned(), "algbw GB/s".to_owned()];
    if bus {
        headings.push("busbw GB/s".to_owned());
    }
    headings.extend(["efficiency".to_owned(), "bound by (share of transfer time)".to_owned()]);
    let rows: Vec<Vec<String>> = document.points.iter().map(|p| row(p, bus)).collect();
    columns(out, &headings, &rows, 0)
}

/// The rings in use.
fn around(out: &mut dyn Write, rings: &[Ring], within: bool) -> io::Result<()> {
    let sum = number(rings.iter().map(|ring| ring.rate).sum());
    let within = if within { " within a node" } else { "" };
    let title = match rings {
        [_] => format!("One ring{within}, {sum} GB/s"),
        all => format!("{} concurrent rings{within}, {sum} GB/s", all.len()),
    };
    writeln!(out, "\n{}", paint(style::HEADING, &title))?;
    rings.iter().try_for_each(|ring| hang(out, &format!("  {:>6}  ", number(ring.rate)), &ring.order.join(" ")))
}

/// Whether the bottleneck of the last transfers differs from that of most transfers.
fn last_differs(point: &Point) -> bool {
    let first = |all: &[Binding]| all.first().map(|b| b.resource.clone());
    let moving: Vec<Binding> = point.binding.iter().filter(|b| b.resource != STARTING).cloned().collect();
    first(&point.last_held_by).is_some() && first(&point.last_held_by) != first(&moving)
}

fn row(point: &Point, bus: bool) -> Vec<String> {
    let held = point.binding.first().map_or_else(String::new, |b| format!("{}, {}", percent(b.share), b.resource));
    let mut row = vec![size(point.size), number(point.time * 1e6), number(point.algbw)];
    if bus {
        row.push(point.busbw.map_or_else(String::new, number));
    }
    row.extend([percent(point.efficiency), held]);
    row
}

fn what_helps(out: &mut dyn Write, helps: &[Help], steps: usize) -> io::Result<()> {
    writeln!(out, "\n{}", paint(style::HEADING, "What would help: time with one of these twice as fast"))?;
    for help in helps {
        let label =
            format!("  {:>10} us, {:>6} less  ", number(help.time * 1e6 / steps as f64), percent(help.saves.max(0.0)));
        hang(out, &label, &help.resource)?;
    }
    Ok(())
}
