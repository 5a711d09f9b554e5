//! `peerlane explain`: the path between two nodes, hop by hop, with what limits it and why.

use std::io::{self, Write};

use peerlane::assumptions::Assumptions;
use peerlane::catalogue::Parts;
use peerlane::comparison::Comparison;
use peerlane::export::json::{ExpectedCurve, ExpectedRate, ExplainedHop, ExplanationDocument, MeasuredCell};
use peerlane::fabric::{Fabric, Link, NodeId, NodeKind};
use peerlane::machine::Machine;
use peerlane::matrix::Operation;
use peerlane::model::{Assume, Model, PeerAccess, Route, SharedRate, Transfer};
use peerlane::names::ranges;
use peerlane::units::{Bytes, Rate};
use peerlane::upgrades::{Upgrade, upgrades};

use super::{heading, json, on_assumptions};
use crate::args::ExplainArgs;
use crate::render::style::{self, paint};
use crate::render::text::{fit, hang, number, span, width, wrap};
use crate::render::{self, label, line_width};
use crate::target::{is_target, load_changed};
use crate::{Failure, Outcome};

/// Sizes at which a path's rate is shown.
const SIZES: [Bytes; 5] = [Bytes(4 << 10), Bytes(64 << 10), Bytes(1 << 20), Bytes(16 << 20), Bytes(256 << 20)];

/// The name of the host memory nearest to the other end.
const HOST: &str = "host";

pub(crate) fn run(args: &ExplainArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let [targets @ .., a, b] = args.words.as_slice() else {
        return Err(Failure::new("explain takes two nodes: peerlane explain [TARGET] A B"));
    };
    let first = a;
    let [a, b] = [a, b].map(|word| word.to_string_lossy());
    let (a, b) = (&*a, &*b);
    if targets.is_empty() && is_target(first) {
        return Err(Failure::new(format!("explain takes two nodes after the TARGET: peerlane explain {a} A {b}")));
    }
    let loaded = load_changed(targets, args.machine.as_deref(), &args.what_if.edits)?;
    let has_both = |m: &&Machine| find(&m.fabric, a, b).is_ok();
    let Some(first) = loaded.machines().next() else { return Err(Failure::new("no machine found")) };
    let machine = loaded.machines().find(has_both).unwrap_or(first);
    let ends = find(&machine.fabric, a, b).map_err(Failure::Message)?;
    if ends.0 == ends.1 {
        return Err(Failure::new(format!("'{a}' and '{b}' are the same node; give two different ones")));
    }
    let assumed = Assumptions::of(machine, Parts::embedded());
    let model = assumed.model(Parts::embedded(), Assume::Usual);
    let mut explained = explain(&model, ends.0, ends.1);
    if let Ok(route) = model.route(&ahead(&model, ends.0, ends.1)) {
        explained.assumptions = assumed.sentences_of(&model, &route);
    }
    if args.detail.json {
        json(out, &explained)?;
    } else {
        let others = loaded.machines().filter(has_both).count();
        if others > 1 {
            crate::say(&format!(
                "{others} machines have both nodes; showing '{}' (use --machine for another)",
                machine.name
            ));
        }
        show(out, machine, &explained, args.detail.verbose)?;
    }
    Ok(Outcome { findings: false, incomplete: loaded.incomplete })
}

/// The two nodes, or an error that lists the nodes.
fn find(fabric: &Fabric, a: &str, b: &str) -> Result<(NodeId, NodeId), String> {
    let one = |name: &str, other: &str| {
        let host = || fabric.find(other).filter(|_| name == HOST).and_then(|o| fabric.nearest_host(o));
        fabric.find(name).or_else(host).ok_or_else(|| {
            let mut names: Vec<&str> = fabric.nodes().iter().map(|n| n.name.as_str()).collect();
            names.sort_by_key(|n| fabric.find(n).map(|id| fabric.node(id).kind));
            format!("no node '{name}'; the nodes are: {}", ranges(&names))
        })
    };
    Ok((one(a, b)?, one(b, a)?))
}

/// A copy from `a` to `b`, or a transfer by the NIC, drive or card among them.
fn ahead(model: &Model, a: NodeId, b: NodeId) -> Transfer {
    let engine = model.engine_between(a, b);
    Transfer { source: a, destination: b, engine, op: Operation::Write, peer: PeerAccess::Enabled }
}

/// Everything known about the path from `a` to `b`.
fn explain<'a>(model: &'a Model<'a>, a: NodeId, b: NodeId) -> ExplanationDocument {
    let machine = model.machine;
    let fabric = &machine.fabric;
    let ahead = ahead(model, a, b);
    let back = Transfer { source: b, destination: a, ..ahead };
    let mut unknown = Vec::new();
    let mut solve = |transfers: &[Transfer]| match model.solve(transfers) {
        Ok(answers) => total(&answers, &model.interval(transfers).unwrap_or_default()),
        Err(error) => {
            let why = error.to_string();
            if !unknown.contains(&why) {
                unknown.push(why);
            }
            None
        }
    };
    let (forward, backward, both) = (solve(&[ahead]), solve(&[back]), solve(&[ahead, back]));
    let route = model.route(&ahead).ok();
    let hops = match &route {
        Some(route) => limited_hops(fabric, route),
        None => plain_hops(fabric, a, b),
    };
    ExplanationDocument {
        schema: "peerlane/explanation/2",
        machine: machine.name.clone(),
        a: fabric.node(a).name.clone(),
        b: fabric.node(b).name.clone(),
        class: route.as_ref().map(|r| r.class).or_else(|| fabric.class(a, b)),
        staged: route.as_ref().map(|r| r.staged),
        staged_because: route.and_then(|r| r.staged_because).map(|why| why.to_string()),
        hops,
        forward,
        backward,
        both,
        curve: ExpectedCurve::of(model, &ahead, &SIZES),
        unknown,
        assumptions: Vec::new(),
        upgrades: upgrades(model, &ahead),
        measured: measured(&Comparison::of(model), a, b),
        rdma: peerlane::model::rdma::describe(model, a, b),
        device: peerlane::model::rdma::describe_device(model, a, b),
        unified_memory: peerlane::model::unified_memory(model, a, b),
    }
}

/// The sum of concurrent rates with its interval and bottlenecks.
fn total(answers: &[SharedRate], intervals: &[[Rate; 2]]) -> Option<ExpectedRate> {
    let mut reasons: Vec<&str> = answers.iter().map(|a| a.bottleneck.as_str()).collect();
    reasons.dedup();
    let rate = answers.iter().map(|a| a.rate.gb()).sum();
    let [low, high] = [0, 1].map(|end| intervals.iter().map(|interval| interval[end].gb()).sum());
    (!answers.is_empty()).then(|| ExpectedRate { rate, low, high, bottleneck: reasons.join("; other direction: ") })
}

fn limited_hops(fabric: &Fabric, route: &Route) -> Vec<ExplainedHop> {
    let limits = route.hops.iter().filter_map(|h| h.limit).map(|l| l.gb());
    let tightest = limits.fold(f64::INFINITY, f64::min);
    let hop = |h: &peerlane::model::HopLimit| ExplainedHop {
        from: fabric.node(h.from).name.clone(),
        to: fabric.node(h.to).name.clone(),
        link: link_between(fabric, h.from, h.to).map(label::link),
        limit: h.limit.map(|l| l.gb()),
        why: h.why.clone(),
        tightest: h.limit.is_some_and(|l| l.gb() <= tightest * 1.001),
        evidence: evidence(link_between(fabric, h.from, h.to)),
    };
    route.hops.iter().map(hop).collect()
}

/// The path, where the model has no rate for it.
fn plain_hops(fabric: &Fabric, a: NodeId, b: NodeId) -> Vec<ExplainedHop> {
    let hops = fabric.path(a, b).map(|p| p.hops).unwrap_or_default();
    let hop = |h: peerlane::fabric::Hop| ExplainedHop {
        from: fabric.node(h.from).name.clone(),
        to: fabric.node(h.to).name.clone(),
        link: Some(label::link(fabric.link(h.link))),
        limit: None,
        why: String::new(),
        tightest: false,
        evidence: evidence(Some(fabric.link(h.link))),
    };
    hops.into_iter().map(hop).collect()
}

fn link_between(fabric: &Fabric, a: NodeId, b: NodeId) -> Option<&Link> {
    fabric.links_of(a).iter().find(|(_, n)| *n == b).map(|(link, _)| fabric.link(*link))
}

/// The evidence for a link.
fn evidence(link: Option<&Link>) -> Vec<String> {
    let Some(link) = link else { return Vec::new() };
    let assumed = link.assumed.then(|| "assumed".to_owned());
    assumed.into_iter().chain(link.origins.iter().map(ToString::to_string)).collect()
}

/// Measured and published numbers between the two, in either direction.
fn measured(comparison: &Comparison, a: NodeId, b: NodeId) -> Vec<MeasuredCell> {
    let fabric = &comparison.model().machine.fabric;
    let is = |name: &str, id: NodeId| {
        fabric.find(name) == Some(id) || (name == HOST && fabric.node(id).kind == NodeKind::Host)
    };
    let mut all = Vec::new();
    for series in comparison.series() {
        let matrix = series.matrix();
        for (i, row) in matrix.rows.iter().enumerate() {
            for (j, col) in matrix.cols.iter().enumerate() {
                let Some(measured) = series.measured(i, j) else { continue };
                if !(is(row, a) && is(col, b) || is(row, b) && is(col, a)) {
                    continue;
                }
                all.push(MeasuredCell {
                    quantity: matrix.quantity,
                    op: matrix.op,
                    what: matrix.describe(),
                    row: row.clone(),
                    col: col.clone(),
                    low: measured.value,
                    high: measured.upto,
                    unit: matrix.unit,
                    expected: series.expected(i, j).map(|e| e.value),
                    published: measured.source.published(),
                    evidence: measured.source.to_string(),
                });
            }
        }
    }
    all
}

fn show(out: &mut dyn Write, machine: &Machine, e: &ExplanationDocument, verbose: bool) -> io::Result<()> {
    heading(out, machine)?;
    writeln!(out, "\n{}", paint(style::HEADING, &format!("{} → {}", e.a, e.b)))?;
    let class = e.class.map_or_else(|| "unknown path".to_owned(), |c| format!("{c}: {}", c.meaning()));
    hang(out, "  class      ", &class)?;
    match (e.staged, &e.staged_because) {
        (Some(false), _) => hang(out, "  transfer   ", "direct")?,
        (Some(true), Some(why)) => hang(out, "  transfer   ", &format!("staged through host memory: {why}"))?,
        (Some(true), None) => hang(out, "  transfer   ", "staged through host memory")?,
        (None, _) => {}
    }
    hops(out, &e.hops, verbose)?;
    writeln!(out, "\n{}", paint(style::HEADING, "Expected"))?;
    for (ends, rate) in [
        (format!("{} → {}", e.a, e.b), &e.forward),
        (format!("{} → {}", e.b, e.a), &e.backward),
        ("both at once".to_owned(), &e.both),
    ] {
        if let Some(rate) = rate {
            let label = format!("  {:<20} {:>8} GB/s  ", fit(&ends, 20), number(rate.rate));
            let range = format!("{} to {}", number(rate.low), number(rate.high));
            hang(out, &label, &format!("{range}; bound by {}", rate.bottleneck))?;
        }
    }
    if let Some(curve) = &e.curve {
        by_size(out, curve)?;
    }
    for why in &e.unknown {
        hang(out, "  ", why)?;
    }
    on_assumptions(out, &e.assumptions)?;
    write_upgrades(out, e)?;
    measurements(out, &e.measured)?;
    e.rdma.as_ref().map_or(Ok(()), |rdma| render::rdma::show(out, rdma, verbose))?;
    e.device.as_ref().map_or(Ok(()), |device| render::device::show(out, device))?;
    e.unified_memory.as_ref().map_or(Ok(()), |found| render::unified::show(out, found))
}

/// The time of a small copy, and rates by size.
fn by_size(out: &mut dyn Write, curve: &ExpectedCurve) -> io::Result<()> {
    let label = format!("  {:<20} {:>8} us    ", "small copy", number(curve.latency));
    let [low, high] = curve.latency_interval;
    hang(out, &label, &format!("{} to {}; {}", number(low), number(high), curve.latency_why))?;
    let rates = curve.rates.iter().map(|(size, rate)| format!("{} {}", Bytes(*size), number(*rate)));
    let half = format!("half the asymptotic rate at {:.0} KiB", curve.half_size as f64 / 1024.0);
    let rates = rates.collect::<Vec<_>>().join(", ");
    hang(out, &format!("  {:<36}", "rate by copy size, GB/s"), &format!("{rates}; {half}"))?;
    curve.staged_from.map_or(Ok(()), |size| {
        let staged = format!("faster for {} and more", Bytes(size));
        hang(out, &format!("  {:<36}", "staged through host memory"), &staged)
    })
}

/// Changes that would raise the rate, the largest gain first.
fn write_upgrades(out: &mut dyn Write, e: &ExplanationDocument) -> io::Result<()> {
    if e.upgrades.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", paint(style::HEADING, &format!("What would raise the rate {} → {}", e.a, e.b)))?;
    for Upgrade { what, edits, rate, factor, bottleneck } in &e.upgrades {
        let label = format!("  {:>8} GB/s {:>7}  ", number(*rate), times(*factor));
        hang(out, &label, &format!("{what}; then bound by {bottleneck}"))?;
        let flags: Vec<String> = edits.iter().map(|e| format!("--what-if '{e}'")).collect();
        for line in wrap(&flags.join(" "), line_width() - width(&label)) {
            writeln!(out, "{:indent$}{}", "", paint(style::DIM, &line), indent = width(&label))?;
        }
    }
    Ok(())
}

/// `+28 %`, `× 6.7`.
fn times(factor: f64) -> String {
    if factor < 2.0 { format!("+{:.0} %", (factor - 1.0) * 100.0) } else { format!("× {factor:.1}") }
}

fn hops(out: &mut dyn Write, hops: &[ExplainedHop], verbose: bool) -> io::Result<()> {
    if hops.is_empty() {
        return Ok(());
    }
    let any_limit = hops.iter().any(|h| h.limit.is_some());
    writeln!(
        out,
        "\n{}",
        paint(
            style::HEADING,
            if any_limit { "Hops, with the rate that each allows a single transfer" } else { "Hops" }
        )
    )?;
    let paths: Vec<String> = hops
        .iter()
        .map(|h| match &h.link {
            Some(link) => format!("{} ─ {link} ─ {}", h.from, h.to),
            None => format!("{} → {}", h.from, h.to),
        })
        .collect();
    let column = paths.iter().map(|p| width(p)).max().unwrap_or(0).min(42);
    for (hop, path) in hops.iter().zip(&paths) {
        let limit = hop.limit.map_or_else(String::new, |l| format!("{} GB/s", number(l)));
        let (mark, look) = if hop.tightest { ("◄", style::WARN) } else { (" ", style::PLAIN) };
        let why = wrap(label::reason(hop.limit, &hop.why), line_width().saturating_sub(column + 19));
        let first = why.first().map_or("", String::as_str);
        let line = format!("  {:column$} {} {}", fit(path, column), paint(look, &format!("{limit:>11} {mark}")), first);
        writeln!(out, "{}", line.trim_end())?;
        for more in why.iter().skip(1) {
            writeln!(out, "{:indent$}{more}", "", indent = column + 17)?;
        }
        if verbose && !hop.evidence.is_empty() {
            for line in wrap(&hop.evidence.join("; "), line_width() - 6) {
                writeln!(out, "      {}", paint(style::DIM, &line))?;
            }
        }
    }
    Ok(())
}

fn measurements(out: &mut dyn Write, cells: &[MeasuredCell]) -> io::Result<()> {
    if cells.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{}", paint(style::HEADING, "Measured or published"))?;
    for cell in cells {
        let value = format!("{} {}", span(cell.low, cell.high), cell.unit);
        let ratio = match cell.expected {
            Some(e) if e > 0.0 => format!("{} of expected {}", span(cell.low / e, cell.high / e), number(e)),
            _ => String::new(),
        };
        let ends = fit(&format!("{} → {}", cell.row, cell.col), 24);
        writeln!(out, "{}", format!("  {ends:<24} {value:>16}  {ratio}").trim_end())?;
        for line in wrap(&format!("{}; {}", cell.what, cell.evidence), line_width() - 6) {
            writeln!(out, "      {}", paint(style::DIM, &line))?;
        }
    }
    Ok(())
}
