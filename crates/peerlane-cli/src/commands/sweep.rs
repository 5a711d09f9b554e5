//! `peerlane sweep`: workloads on several machines or clusters, side by side.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use indicatif::{ProgressBar, ProgressDrawTarget};
use peerlane::cluster::Cluster;
use peerlane::simulate::answer::{Job, SimulationDocument, SweepDocument, simulate};
use peerlane::units::Bytes;

use super::json;
use super::simulate::{cluster_of, columns, grow, job, percent, take};
use crate::args::SweepArgs;
use crate::render::style::{self, paint};
use crate::render::text::{fit, number};
use crate::target::load;
use crate::{Failure, Outcome};

/// Columns for the name of a target.
const TARGET: usize = 30;

pub(crate) fn run(args: &SweepArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let mut clusters = Vec::new();
    let mut incomplete = false;
    for target in &args.targets {
        match cluster_of(target) {
            Some(found) => clusters.push(found?),
            None => {
                let loaded = load(std::slice::from_ref(target), None)?;
                incomplete |= loaded.incomplete;
                for machine in loaded.machines {
                    clusters.extend(grow(machine, &args.grown)?);
                }
            }
        }
    }
    clusters.iter_mut().try_for_each(|c| take(c, &args.grown))?;
    let mut work = Vec::new();
    for word in &args.workloads {
        for cluster in &clusters {
            work.push((cluster, job(word, &args.sizes.0, cluster)?));
        }
    }
    let (documents, problems) = all_of(&work);
    incomplete |= !problems.is_empty();
    if !problems.is_empty() {
        crate::say(&problems.join("\n"));
    }
    if let Some(path) = &args.csv {
        fs::write(path, csv(&documents)).map_err(|e| Failure::new(format!("{}: {e}", path.display())))?;
    }
    if args.detail.json {
        json(out, &SweepDocument::new(documents))?;
    } else {
        show(out, &documents)?;
    }
    Ok(Outcome { findings: false, incomplete })
}

/// Every simulation, on all cores; what could not be simulated, in sentences.
fn all_of(work: &[(&Cluster, Job)]) -> (Vec<SimulationDocument>, Vec<String>) {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(work.len()));
    let target = if io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(work.len() as u64), target);
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
                    bar.inc(1);
                }
            });
        }
    });
    bar.finish_and_clear();
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
        let headings = ["target", "GPUs", "time us", "algbw GB/s", "of alone", "held by"].map(str::to_owned);
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
        writeln!(out, "* not exact: simulate says why")?;
    }
    Ok(())
}

fn csv(documents: &[SimulationDocument]) -> String {
    let mut text = "target,workload,gpus,size,time_s,algbw_gb_s,busbw_gb_s,efficiency,held_by,exact\n".to_owned();
    let quoted = |s: &str| format!("\"{}\"", s.replace('"', "\"\""));
    for d in documents {
        for p in &d.points {
            let bus = p.busbw.map_or_else(String::new, |b| b.to_string());
            let held = p.binding.first().map_or("", |b| b.resource.as_str());
            text.push_str(&format!(
                "{},{},{},{},{},{},{bus},{},{},{}\n",
                quoted(&d.target),
                quoted(&d.workload),
                d.gpus,
                p.size,
                p.time,
                p.algbw,
                p.efficiency,
                quoted(held),
                d.exact
            ));
        }
    }
    text
}
