//! `peerlane plan`: the splits of a model over a cluster that train it fastest.

use std::io::{self, Write};

use peerlane::planner::{Loss, PlanDocument, PlannedSplit, Request};

use crate::args::{Machines, PlanArgs};
use crate::formats::json;
use crate::progress::Bar;
use crate::render::model_step;
use crate::render::style::{self, paint};
use crate::render::table::{columns, percent};
use crate::render::text::{count, hang, headline, number};
use crate::target::clusters::clusters;
use crate::{Failure, Outcome};

pub(crate) fn run(args: &PlanArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let machines = Machines { targets: vec![args.target.clone()], machine: None };
    let (clusters, incomplete) = clusters(&machines, &args.grown, args.hops.hop_latency)?;
    let [cluster] = clusters.as_slice() else {
        return Err(Failure::new(format!(
            "plan: the TARGET and --nodes give {} clusters: plan for one",
            clusters.len()
        )));
    };
    let refused = |e: peerlane::simulate::SimulateError| Failure::new(e.to_string());
    let (measured, top) = (args.step_time.clone(), usize::from(args.top));
    let request = Request::new(&args.model, args.batch, args.seq, &args.with, measured, top).map_err(refused)?;
    let plan = {
        let _bar = Bar::waiting("planning");
        request.plan(cluster).map_err(refused)?
    };
    if args.detail.json {
        json(out, &plan)?;
    } else {
        show(out, &plan, args.detail.verbose)?;
    }
    Ok(Outcome { findings: false, incomplete })
}

fn show(out: &mut dyn Write, plan: &PlanDocument, verbose: bool) -> io::Result<()> {
    let title = format!("{} on {}: {}", plan.model, plan.target, count(plan.gpus, "GPU"));
    for line in headline(&title) {
        writeln!(out, "{}", paint(style::HEADING, &line))?;
    }
    let (batch, seq) = (plan.batch, plan.seq);
    hang(
        out,
        "",
        &format!("{} of {seq} tokens a step; {} of {} splits fit", count(batch, "sequence"), plan.fitting, plan.splits),
    )?;
    let computing = &plan.computing;
    hang(
        out,
        "",
        &format!("{}, products at {} TFLOP/s: {}\n", computing.gpu, number(computing.tflops), computing.how),
    )?;
    let experts = plan.best.iter().any(|split| split.ep > 1);
    let contexts = plan.best.iter().any(|split| split.cp > 1);
    let mut headings = vec!["step s", "MFU", "GB", "bubble", "exposed", "tp"];
    headings.extend(contexts.then_some("cp"));
    headings.extend(["pp", "v", "dp"]);
    headings.extend(experts.then_some("ep"));
    headings.extend(["zero", "mbs", "recompute", "slower by"]);
    let headings: Vec<String> = headings.into_iter().map(str::to_owned).collect();
    let row = |split: &PlannedSplit| {
        let step = &split.step;
        let share =
            |on: &[&str]| step.spent.iter().filter(|s| on.contains(&s.on)).fold(0.0, |sum, spent| sum + spent.share);
        let mut row = vec![
            number(step.time),
            percent(step.mfu.unwrap_or_default()),
            format!("{:.0}", step.memory.total / 1e9),
            percent(share(&["bubble"])),
            percent(share(&["tensor", "context", "experts", "stages", "copies"])),
            split.tp.to_string(),
        ];
        row.extend(contexts.then(|| split.cp.to_string()));
        let chunks = if split.zero_bubble { "zb".to_owned() } else { split.chunks.to_string() };
        row.extend([split.pp.to_string(), chunks, split.dp.to_string()]);
        row.extend(experts.then(|| split.ep.to_string()));
        row.extend([
            split.zero.to_string(),
            split.mbs.to_string(),
            recomputed(split.recompute).to_owned(),
            slower(plan, split),
        ]);
        row
    };
    columns(out, &headings, &plan.best.iter().map(row).collect::<Vec<_>>(), 0)?;
    if let Some(first) = plan.best.first() {
        let step = &first.step;
        writeln!(out, "\n{}", paint(style::HEADING, "The first"))?;
        let tokens = model_step::whole(step.tokens_per_second);
        let each = model_step::whole(step.tokens_per_second_per_gpu);
        hang(out, "  tokens/s    ", &format!("{tokens}; {each} a GPU"))?;
        if let Some(by) = &step.bottleneck {
            hang(out, "  bottleneck  ", by)?;
        }
        // as one line, to be copied
        writeln!(out, "  {}", first.workload)?;
    }
    if let Some(large) = &plan.too_large {
        let gb = number(large.memory / 1e9);
        writeln!(out, "\nFaster with more memory: {} s with {gb} GB a GPU\n  {}", number(large.time), large.workload)?;
    }
    if verbose {
        for sentence in &plan.assumptions {
            hang(out, "Assumed: ", sentence)?;
        }
    }
    Ok(())
}

/// What is computed again.
fn recomputed(recompute: &str) -> &str {
    match recompute {
        "selective" => "some",
        "full" => "all",
        none => none,
    }
}

/// Why a split comes after the first: what it spends most more time on; and of the first, why it comes before a faster one.
fn slower(plan: &PlanDocument, split: &PlannedSplit) -> String {
    let Some(first) = plan.best.first() else { return String::new() };
    let fastest = plan.best.iter().map(|split| split.step.time).fold(f64::INFINITY, f64::min);
    if std::ptr::eq(first, split) {
        let faster = first.step.time > fastest;
        return if faster { "first: simpler".to_owned() } else { String::new() };
    }
    if split.step.time < first.step.time {
        let less = percent(1.0 - split.step.time / first.step.time);
        let more = match split.kinds == first.kinds {
            true => format!("cp {} for {}", split.cp, first.cp),
            false => format!("{} kinds for {}", split.kinds, first.kinds),
        };
        return format!("{less} faster, {more}");
    }
    let more = percent(split.step.time / first.step.time - 1.0);
    match split.loses_by.first().filter(|loss| loss.time > 0.0) {
        Some(Loss { on, time }) if *time >= 1.0 => format!("{more}, {on} {} s", number(*time)),
        Some(Loss { on, time }) => format!("{more}, {on} {} ms", number(*time * 1e3)),
        None => more,
    }
}
