//! `peerlane simulate`: how long a workload takes on a machine or a cluster, what holds it, and what would help.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use peerlane::cluster::{self, Cluster, Wanted};
use peerlane::machine::Machine;
use peerlane::simulate::answer::{Binding, Help, Job, Point, SimulationDocument, simulate};
use peerlane::simulate::outcome::STARTING;
use peerlane::simulate::picture;
use peerlane::simulate::workload::{Workload, read_trace};
use peerlane::units::{Bytes, Rate, Seconds};

use super::json;
use crate::args::{Grown, Machines, SimulateArgs};
use crate::render::WIDTH;
use crate::render::style::{self, paint};
use crate::render::text::{fit, hang, number, width, wrap};
use crate::target::{load, system_file};
use crate::{Failure, Outcome};

pub(crate) fn run(args: &SimulateArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    if let Some(how) = args.scaling {
        return super::scaling::run(args, how, out);
    }
    let (clusters, incomplete) = clusters(&args.machines, &args.grown)?;
    let mut documents = Vec::new();
    for cluster in &clusters {
        let job = job(&args.workload, &args.sizes.0, cluster)?;
        let (document, last) = simulate(cluster, &job, args.helps).map_err(|e| Failure::new(e.to_string()))?;
        if let Some(path) = &args.trace {
            let text = picture::chrome_trace(cluster, &last.events);
            fs::write(path, text).map_err(|e| Failure::new(format!("{}: {e}", path.display())))?;
        }
        documents.push(document);
    }
    if args.detail.json {
        match documents.as_slice() {
            [only] => json(out, only)?,
            all => json(out, &all)?,
        }
    } else {
        for (i, (document, cluster)) in documents.iter().zip(&clusters).enumerate() {
            super::between(out, i == 0)?;
            show(out, document, cluster, args.detail.verbose)?;
        }
    }
    Ok(Outcome { findings: false, incomplete })
}

/// What is to be simulated, and whether some of it could not be read.
pub(super) fn clusters(machines: &Machines, grown: &Grown) -> Result<(Vec<Cluster>, bool), Failure> {
    let mut clusters = Vec::new();
    let mut incomplete = false;
    match clusters_of(&machines.targets) {
        Some(found) => clusters.extend(found?),
        None => {
            let loaded = load(&machines.targets, machines.machine.as_deref())?;
            incomplete = loaded.incomplete;
            for machine in loaded.cases.into_iter().map(|case| case.machine) {
                clusters.extend(grow(machine, grown)?);
            }
        }
    }
    if clusters.iter().any(|c| c.nodes > 1) && !grown.nodes.is_empty() && clusters_of(&machines.targets).is_some() {
        return Err(Failure::new("the TARGET is a cluster already; --nodes and --network are for machines"));
    }
    clusters.iter_mut().try_for_each(|c| take(c, grown))?;
    Ok((clusters, incomplete))
}

/// The clusters, where the targets are such.
pub(super) fn clusters_of(targets: &[String]) -> Option<Result<Vec<Cluster>, Failure>> {
    let all: Vec<_> = targets.iter().map(|t| cluster_of(t)).collect();
    if all.is_empty() || all.iter().all(Option::is_none) {
        return None;
    }
    let each = all.into_iter().zip(targets).map(|(found, target)| match found {
        Some(found) => found,
        None => Err(Failure::new(format!("'{target}' is no cluster; clusters and machines are simulated apart"))),
    });
    Some(each.collect())
}

/// A cluster of the catalogue, or of a file.
pub(super) fn cluster_of(target: &str) -> Option<Result<Cluster, Failure>> {
    if let Some(found) = cluster::embedded(target) {
        return Some(found.map_err(|e| Failure::new(e.to_string())));
    }
    let path = Path::new(target);
    if path.extension().is_none_or(|e| !e.eq_ignore_ascii_case("toml")) || !path.is_file() {
        return None;
    }
    let text = match system_file(path, target) {
        Ok(text) => text,
        Err(why) => return Some(Err(Failure::new(why))),
    };
    if !cluster::looks_like_cluster(&text) {
        return None;
    }
    let machine = |name: &str| -> Option<Machine> {
        if let Some(found) = peerlane::catalogue::system(name) {
            return found.ok();
        }
        let beside = path.parent().unwrap_or(Path::new("")).join(name);
        let text = system_file(&beside, name).ok()?;
        peerlane::catalogue::read_system(&text, name).ok()
    };
    Some(cluster::read_cluster(&text, target, machine).map_err(|e| Failure::new(e.to_string())))
}

/// One machine, or as many of it as are asked for.
pub(super) fn grow(machine: Machine, grown: &Grown) -> Result<Vec<Cluster>, Failure> {
    let Some(network) = &grown.network else { return Ok(vec![Cluster::single(machine)]) };
    let refuse = |e: String| Failure::new(e);
    let wanted: Wanted = network.parse().map_err(|e: cluster::ClusterError| refuse(e.to_string()))?;
    let positive = |what: &str, value: f64| {
        if value.is_finite() && value >= 0.0 {
            Ok(value)
        } else {
            Err(refuse(format!("{what} {value}: a number above 0")))
        }
    };
    let rate = grown.link_rate.map(|r| positive("--link-rate", r)).transpose()?.map(Rate::from_gbit);
    if rate.is_some_and(|r| r.bytes_per_second() == 0.0) {
        return Err(refuse("--link-rate 0: a link that carries nothing joins nothing".to_owned()));
    }
    let hop = Seconds::from_us(positive("--hop-latency", grown.hop_latency)?);
    let of = |n: &u32| Cluster::of(machine.clone(), *n, &wanted, rate, hop).map_err(|e| refuse(e.to_string()));
    grown.nodes.iter().map(of).collect()
}

/// Takes fewer nodes or GPUs, where fewer are asked for, and takes out links.
pub(super) fn take(cluster: &mut Cluster, grown: &Grown) -> Result<(), Failure> {
    let gpus = cluster.gpus().len();
    let (nodes, per_node) = (grown.use_nodes.unwrap_or(cluster.nodes), grown.gpus_per_node.unwrap_or(gpus));
    if nodes == 0 || nodes > cluster.nodes || per_node == 0 || per_node > gpus {
        let Cluster { name, nodes: all, .. } = &*cluster;
        return Err(Failure::new(format!(
            "{name} has {all} nodes with {gpus} GPUs each; {nodes} with {per_node} are asked for"
        )));
    }
    cluster.taking = (nodes, per_node);
    for link in &grown.fail {
        let Some(network) = &mut cluster.network else {
            return Err(Failure::new(format!("{} has no network, so that '{link}' is no link of it", cluster.name)));
        };
        network.fail(link).map_err(|e| Failure::new(e.to_string()))?;
        cluster.name = format!("{}, without {link}", cluster.name);
        cluster.assumptions.push(format!("{link} has failed; what it carried takes the next of its other ways."));
    }
    Ok(())
}

/// What a word for a workload means.
pub(super) fn job(word: &str, sizes: &[Bytes], cluster: &Cluster) -> Result<Job, Failure> {
    let refused = |e: peerlane::simulate::SimulateError| Failure::new(e.to_string());
    if !word.ends_with(".jsonl") {
        let workload = word.parse::<Workload>().map_err(refused)?;
        return Job::of(workload, sizes.to_vec(), cluster).map_err(refused);
    }
    let text = fs::read_to_string(word).map_err(|e| Failure::new(format!("{word}: {e}")))?;
    let trace = read_trace(&text, cluster).map_err(|e| Failure::new(format!("{word}: {e}")))?;
    Ok(Job::Program(word.to_owned(), trace.program, trace.bytes as u64))
}

fn show(out: &mut dyn Write, document: &SimulationDocument, cluster: &Cluster, verbose: bool) -> io::Result<()> {
    let title = match &cluster.title {
        Some(title) => format!("{}: {title}", cluster.name),
        None => cluster.name.clone(),
    };
    for line in wrap(&title, WIDTH) {
        writeln!(out, "{}", paint(style::HEADING, &line))?;
    }
    writeln!(out, "\n{} on {}", document.workload, crate::render::text::count(document.gpus, "GPU"))?;
    let bus = document.points.iter().any(|p| p.busbw.is_some());
    let mut headings = vec!["size".to_owned(), "time us".to_owned(), "algbw GB/s".to_owned()];
    if bus {
        headings.push("busbw GB/s".to_owned());
    }
    headings.extend(["of alone".to_owned(), "held by (share of the transfers' time)".to_owned()]);
    let rows: Vec<Vec<String>> = document.points.iter().map(|p| row(p, bus)).collect();
    columns(out, &headings, &rows, 0)?;
    if let Some(idle) = document.points.last().and_then(|p| p.idle) {
        writeln!(out, "GPUs compute {} of the time.", percent(1.0 - idle))?;
    }
    if let Some(last) = document.points.last().filter(|p| p.binding.len() > 1) {
        writeln!(out, "\n{}", paint(style::HEADING, &format!("What holds the transfers at {}", size(last.size))))?;
        for binding in last.binding.iter().take(if verbose { usize::MAX } else { 6 }) {
            hang(out, &format!("  {:>6}  ", percent(binding.share)), &binding.resource)?;
        }
    }
    if let Some(last) = document.points.last().filter(|p| told_apart(p)) {
        writeln!(
            out,
            "\n{}",
            paint(style::HEADING, "What holds the last transfer of each round, by the rounds' time")
        )?;
        for binding in &last.last_held_by {
            hang(out, &format!("  {:>6}  ", percent(binding.share)), &binding.resource)?;
        }
    }
    match document.rerouted {
        Some(true) => writeln!(out, "\nTransfers go round the failed link.")?,
        Some(false) => writeln!(out, "\nNothing of this would have taken the failed link.")?,
        None => {}
    }
    if let Some(helps) = &document.helps {
        what_helps(out, helps)?;
    }
    if let Some(why) = &document.inexact_because {
        hang(out, "\nNot exact: ", why)?;
    }
    if verbose {
        for sentence in &document.assumptions {
            hang(out, "Assumed: ", sentence)?;
        }
    }
    Ok(())
}

/// Whether what holds the last transfers is another thing than what holds most.
fn told_apart(point: &Point) -> bool {
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

fn what_helps(out: &mut dyn Write, helps: &[Help]) -> io::Result<()> {
    writeln!(out, "\n{}", paint(style::HEADING, "What would help: each of these twice as fast, by itself"))?;
    for help in helps {
        let label = format!("  {:>10} us, {:>6} less  ", number(help.time * 1e6), percent(help.saves.max(0.0)));
        hang(out, &label, &help.resource)?;
    }
    Ok(())
}

/// Writes a table: the first `words` columns to the left, the last one too, as far as the width goes; others to the right.
pub(super) fn columns(out: &mut dyn Write, headings: &[String], rows: &[Vec<String>], words: usize) -> io::Result<()> {
    let cell = |row: &[String], at: usize| row.get(at).cloned().unwrap_or_default();
    let all = || rows.iter().map(Vec::as_slice).chain([headings]);
    let widths: Vec<usize> =
        (0..headings.len()).map(|at| all().map(|row| width(&cell(row, at))).max().unwrap_or(0)).collect();
    let line = |row: &[String]| {
        let cells = widths.iter().enumerate().map(|(at, &w)| match cell(row, at) {
            text if at < words || at + 1 == widths.len() => format!("{text:w$}"),
            text => format!("{text:>w$}"),
        });
        fit(format!("  {}", cells.collect::<Vec<_>>().join("  ")).trim_end(), WIDTH)
    };
    writeln!(out, "{}", paint(style::HEADING, &line(headings)))?;
    rows.iter().try_for_each(|row| writeln!(out, "{}", line(row)))
}

/// `64 KiB`; where a number of bytes is no round one, about how many.
pub(super) fn size(bytes: u64) -> String {
    let exact = Bytes(bytes).to_string();
    if exact.len() <= "1023 MiB".len() {
        return exact;
    }
    let gib = bytes as f64 / (1_u64 << 30) as f64;
    if gib >= 1.0 { format!("{} GiB", number(gib)) } else { format!("{} MiB", number(gib * 1024.0)) }
}

/// `37 %`, `0.4 %`.
pub(super) fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    if percent >= 10.0 || percent == 0.0 { format!("{percent:.0} %") } else { format!("{percent:.1} %") }
}
