//! The path between two nodes of a machine, hop by hop.

use peerlane_design::upgrades::upgrades;
use peerlane_machine::fabric::{Fabric, Hop, Link, NodeId, NodeKind};
use peerlane_machine::machine::Machine;
use peerlane_machine::machine::lookup::HOST;
use peerlane_machine::matrix::Operation;
use peerlane_machine::units::{Bytes, Rate};
use peerlane_model::assumptions::Assumptions;
use peerlane_model::comparison::Comparison;
use peerlane_model::model::{
    Assume, HaloAdvice, HopLimit, Model, PeerAccess, Route, SharedRate, Transfer, halo_advice, rdma, unified_memory,
};
use peerlane_read::catalogue::Parts;

use super::OpenError;
use crate::export::json::{ExpectedCurve, ExpectedRate, ExplainedHop, ExplanationDocument, MeasuredCell};
use crate::export::label;

/// Sizes at which a path's rate is shown.
const SIZES: [Bytes; 5] = [Bytes(4 << 10), Bytes(64 << 10), Bytes(1 << 20), Bytes(16 << 20), Bytes(256 << 20)];

/// The path between two nodes of a machine, with what the model assumes where no source states it.
///
/// # Errors
/// Where the machine has no such nodes, or they are the same.
pub fn explain(machine: &Machine, a: &str, b: &str) -> Result<ExplanationDocument, OpenError> {
    let ends = machine.lookup_pair(a, b).map_err(|why| OpenError::new(why.to_string()))?;
    if ends.0 == ends.1 {
        return Err(OpenError::new(format!("'{a}' and '{b}' are the same node; give two different ones")));
    }
    let assumed = Assumptions::of(machine, Parts::embedded());
    let model = assumed.model(Parts::embedded(), Assume::Usual);
    let mut explained = between(&model, ends.0, ends.1);
    if let Ok(route) = model.route(&ahead(&model, ends.0, ends.1)) {
        explained.assumptions = assumed.sentences_of(&model, &route);
    }
    Ok(explained)
}

/// A copy from `a` to `b`, or a transfer by the NIC, drive or card among them.
fn ahead(model: &Model, a: NodeId, b: NodeId) -> Transfer {
    let engine = model.engine_between(a, b);
    Transfer { source: a, destination: b, engine, op: Operation::Write, peer: PeerAccess::Enabled }
}

/// Everything known about the path from `a` to `b`.
fn between<'a>(model: &'a Model<'a>, a: NodeId, b: NodeId) -> ExplanationDocument {
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
        rdma: rdma::describe(model, a, b),
        device: rdma::describe_device(model, a, b),
        unified_memory: unified_memory(model, a, b),
        halo: halo(model, a, b),
    }
}

/// How two GPUs should exchange faces.
fn halo(model: &Model, a: NodeId, b: NodeId) -> Option<HaloAdvice> {
    let is_gpu = |node| model.machine.fabric.node(node).kind == NodeKind::Gpu;
    (is_gpu(a) && is_gpu(b)).then(|| halo_advice(model, &[a, b], &[(a, b), (b, a)]))?
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
    let hop = |h: &HopLimit| ExplainedHop {
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
    let hop = |h: Hop| ExplainedHop {
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
