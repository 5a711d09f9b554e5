//! `peerlane sweep`: workloads on several machines or clusters, side by side.

use std::io::{self, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use peerlane::cluster::Cluster;
use peerlane::simulate::result::{Job, SimulationDocument, SweepDocument, simulate};
use peerlane::target::{changed_cluster, cluster};
use peerlane::units::Bytes;

use crate::args::SweepArgs;
use crate::formats::csv::words;
use crate::formats::json;
use crate::progress::Bar;
use crate::render::style::{self, paint};
use crate::render::table::{columns, percent};
use crate::render::text::{fit, hang, number};
use crate::target::clusters::{alone, grow, job, meant, take};
use crate::target::load;
use crate::{Failure, Outcome, output_file};

/// Columns for the name of a target.
const TARGET: usize = 30;

pub(crate) fn run(args: &SweepArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    args.csv.as_deref().map_or(Ok(()), output_file::check)?;
    let mut clusters = Vec::new();
    let mut incomplete = false;
    for target in &args.targets {
        match cluster(target) {
            Some(found) => {
                let found = found?;
                alone(&found, &args.grown)?;
                clusters.push(changed_cluster(found, &args.grown.what_if.edits)?);
            }
            None => {
                let loaded = load(std::slice::from_ref(target), None)?;
                incomplete |= loaded.incomplete;
                for machine in loaded.cases.into_iter().map(|case| case.machine) {
                    clusters.extend(grow(machine, &args.grown, args.hops.hop_latency)?);
                }
            }
        }
    }
    meant(&clusters, &args.grown)?;
    clusters.iter_mut().try_for_each(|c| take(c, &args.grown))?;
    let mut work = Vec::new();
    for word in &args.workloads {
        for cluster in &clusters {
            work.push((cluster, job(std::slice::from_ref(word), &args.sizes.0, cluster, (args.traces, &args.steps))?));
        }
    }
    let (documents, problems) = all_of(&work);
    incomplete |= !problems.is_empty();
    if !problems.is_empty() {
        crate::console::say(&problems.join("\n"));
    }
    // a result that cannot be written is still shown
    let written = args.csv.as_ref().map_or(Ok(()), |path| output_file::write(path, csv(&documents)));
    if args.detail.json {
        json(out, &SweepDocument::new(documents))?;
    } else {
        let table = if args.rank { rank } else { show };
        table(out, &documents)?;
        if args.detail.verbose {
            assumed(out, &documents)?;
        }
    }
    written?;
    Ok(Outcome { findings: false, incomplete })
}

/// Runs all simulations on all cores; also returns the problems, in sentences.
fn all_of(work: &[(&Cluster, Job)]) -> (Vec<SimulationDocument>, Vec<String>) {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(work.len()));
    let bar = Bar::counting(work.len(), "simulations");
    let cores = thread::available_parallelism().map_or(1, usize::from).min(work.len());
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while let Some((cluster, job)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let at = work.iter().position(|(c, j)| std::ptr::eq(*c, *cluster) && std::ptr::eq(j, job));
                    let result = simulate(cluster, job, false).map(|(document, _)| document);
                    let result = result.map_err(|e| format!("{}: {e}", cluster.name));
                    // a thread that has panicked has left nothing half-written in here
                    done.lock().unwrap_or_else(|e| e.into_inner()).push((at.unwrap_or(usize::MAX), result));
                    bar.one();
                }
            });
        }
    });
    drop(bar);
    let mut done = done.into_inner().unwrap_or_else(|e| e.into_inner());
    done.sort_by_key(|(at, _)| *at);
    let (mut documents, mut problems) = (Vec::new(), Vec::new());
    for (_, result) in done {
        match result {
            Ok(document) => documents.push(document),
            Err(problem) => problems.push(problem),
        }
    }
    (documents, problems)
}

/// One table a workload and size, fastest first.
fn show(out: &mut dyn Write, documents: &[SimulationDocument]) -> io::Result<()> {
    let mut seen: Vec<(&str, u64)> = Vec::new();
    for document in documents {
        for point in &document.points {
            let key = (document.workload.as_str(), point.size);
            if !seen.contains(&key) {
                seen.push(key);
            }
        }
    }
    for (i, (workload, size)) in seen.iter().enumerate() {
        if i > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{}", paint(style::HEADING, &format!("{workload}, {}", Bytes(*size))))?;
        let points = documents.iter().filter(|d| d.workload == *workload);
        let mut points: Vec<_> = points.filter_map(|d| Some((d, d.points.iter().find(|p| p.size == *size)?))).collect();
        points.sort_by(|a, b| a.1.time.total_cmp(&b.1.time));
        let headings = ["target", "GPUs", "time us", "algbw GB/s", "efficiency", "bound by"].map(str::to_owned);
        let rows: Vec<Vec<String>> = points
            .iter()
            .map(|(d, p)| {
                let held = p.binding.first().map_or("", |b| b.resource.as_str());
                let mark = if d.exact { "" } else { " *" };
                vec![
                    fit(&d.target, TARGET),
                    d.gpus.to_string(),
                    format!("{}{mark}", number(p.time * 1e6)),
                    number(p.algbw),
                    percent(p.efficiency),
                    held.to_owned(),
                ]
            })
            .collect();
        columns(out, &headings, &rows, 1)?;
    }
    if documents.iter().any(|d| !d.exact) {
        writeln!(out, "* approximate; 'peerlane simulate' shows why")?;
    }
    Ok(())
}

/// What is assumed of each target.
fn assumed(out: &mut dyn Write, documents: &[SimulationDocument]) -> io::Result<()> {
    let mut lines: Vec<String> = Vec::new();
    for document in documents {
        let of_target = document.assumptions.iter().map(|sentence| format!("{}: {sentence}", document.target));
        lines.extend(of_target.filter(|line| !lines.contains(line)).collect::<Vec<_>>());
    }
    lines.iter().try_for_each(|line| hang(out, "Assumed: ", line))
}

/// One line per target with the rate per GPU of each workload, the best over all workloads first.
fn rank(out: &mut dyn Write, documents: &[SimulationDocument]) -> io::Result<()> {
    let (mut targets, mut workloads): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for document in documents {
        for (all, name) in [(&mut targets, &document.target), (&mut workloads, &document.workload)] {
            if !all.contains(&name.as_str()) {
                all.push(name);
            }
        }
    }
    let of = |target: &str, workload: &str| documents.iter().find(|d| d.target == target && d.workload == workload);
    let sent = |target: &str, workload: &str| Some(of(target, workload)?.points.iter().max_by_key(|p| p.size)?.sent);
    let place = |target: &str, workload: &str| {
        let own = sent(target, workload)?;
        // values that print alike rank equally
        let better = |t: &&&str| sent(t, workload).is_some_and(|s| s > own * 1.005);
        Some((own, 1 + targets.iter().filter(better).count()))
    };
    let places = |target: &&str| workloads.iter().map(|w| place(target, w).map_or(targets.len(), |(_, p)| p)).sum();
    let mut order = targets.clone();
    order.sort_by_key(|target| -> usize { places(target) });
    let size = documents.iter().flat_map(|d| &d.points).map(|p| p.size).max().unwrap_or_default();
    let heading = format!("GB/s sent per GPU, and rank; sizes up to {}", Bytes(size));
    writeln!(out, "{}", paint(style::HEADING, &heading))?;
    let mut headings = vec!["target".to_owned(), "GPUs".to_owned()];
    headings.extend(workloads.iter().flat_map(|w| [(*w).to_owned(), "#".to_owned()]));
    headings.push(format!("{} bound by", workloads.first().copied().unwrap_or_default()));
    let rows = order.iter().map(|target| {
        let first = workloads.first().and_then(|w| of(target, w));
        let mut row = vec![fit(target, TARGET), first.map_or_else(String::new, |d| d.gpus.to_string())];
        for workload in &workloads {
            let cells = place(target, workload).map(|(sent, place)| [number(sent), place.to_string()]);
            row.extend(cells.unwrap_or_default());
        }
        let held = first.and_then(|d| d.points.iter().max_by_key(|p| p.size)?.binding.first());
        row.push(held.map_or_else(String::new, |b| b.component.clone()));
        row
    });
    columns(out, &headings, &rows.collect::<Vec<_>>(), 1)
}

fn csv(documents: &[SimulationDocument]) -> String {
    let mut text = "target,workload,gpus,size,time_s,algbw_gb_s,busbw_gb_s,efficiency,held_by,exact\n".to_owned();
    for d in documents {
        for p in &d.points {
            let bus = p.busbw.map_or_else(String::new, |b| b.to_string());
            let held = p.binding.first().map_or("", |b| b.resource.as_str());
            text.push_str(&format!(
                "{},{},{},{},{},{},{bus},{},{},{}\n",
                words(&d.target),
                words(&d.workload),
                d.gpus,
                p.size,
                p.time,
                p.algbw,
                p.efficiency,
                words(held),
                d.exact
            ));
        }
    }
    text
}
