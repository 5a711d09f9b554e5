//! What two simple rules predict for the same transfers.
//!
//! *Raw*: the slowest link of the path at its raw rate, both ways twice that.
//!
//! *NCCL*: the constants of its source ([`peerlane_model::model::nccl`]), in GB/s of one direction. Traffic between GPUs through an
//! Intel root complex takes 6/5 of its rate, in 64-byte packets. A path has its slowest link's rate; both ways is twice
//! that; staging through host memory costs nothing; C2C and a NIC's line rate are those of their source.

use peerlane_machine::fabric::{CpuVendor, Interconnect, LinkKind, NodeId, NodeKind};
use peerlane_machine::matrix::{Direction, Engine, Matrix, Operation};
use peerlane_model::model::nccl::{INTEL_OVERHEAD, link_rate};
use peerlane_model::model::{Model, PeerAccess, Route, Transfer};
use peerlane_read::catalogue::vendor_of;

/// A rule to compare the model with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baseline {
    /// Raw link rates.
    Raw,
    /// NCCL's constants.
    Nccl,
}

/// What a rule predicts for each cell of a bandwidth matrix, in its unit; nothing for other quantities.
pub(super) fn baseline(model: &Model, rule: Baseline, matrix: &Matrix) -> Vec<Vec<Option<f64>>> {
    let per_unit = matrix.unit.rate(1.0).map(|r| r.gb());
    let cell = |row: &String, col: &String| {
        let rate = one(model, rule, matrix, row, col)?;
        let ways = if matrix.direction == Some(Direction::Bidirectional) { 2.0 } else { 1.0 };
        Some(rate * ways / per_unit?)
    };
    matrix.rows.iter().map(|row| matrix.cols.iter().map(|col| cell(row, col)).collect()).collect()
}

/// GB/s of one direction.
fn one(model: &Model, rule: Baseline, matrix: &Matrix, row: &str, col: &str) -> Option<f64> {
    let fabric = &model.machine.fabric;
    let end = |name: &str, other: &str| {
        if name == "host" { fabric.nearest_host(fabric.find(other)?) } else { fabric.find(name) }
    };
    let (source, destination) = (end(row, col)?, end(col, row)?);
    let transfer = Transfer {
        source,
        destination,
        engine: matrix.engine.unwrap_or(Engine::Ce),
        op: Operation::Write,
        peer: if matrix.p2p == Some(false) { PeerAccess::Disabled } else { PeerAccess::Enabled },
    };
    let route = model.route(&transfer).ok()?;
    let between_gpus = [source, destination].iter().all(|n| fabric.node(*n).kind == NodeKind::Gpu);
    let through_root = between_gpus && !route.staged && crosses_intel_root(model, &route);
    let links = route.hops.iter().filter_map(|hop| match rule {
        Baseline::Raw => raw(model, hop.from, hop.to),
        Baseline::Nccl => nccl(model, hop.from, hop.to),
    });
    let lines = [source, destination].into_iter().filter_map(|n| line(model, n));
    let slowest = links.chain(lines).min_by(f64::total_cmp)?;
    Some(if rule == Baseline::Nccl && through_root { slowest / INTEL_OVERHEAD } else { slowest })
}

/// A NIC's line rate.
fn line(model: &Model, node: NodeId) -> Option<f64> {
    let nic = model.machine.fabric.node(node);
    let of_product = || model.parts.get(nic.part.as_deref()?)?.constant("line_rate").map(|gbit| gbit / 8.0);
    nic.line_rate.map(|rate| rate.gb()).or_else(of_product)
}

fn link_of(model: &Model, from: NodeId, to: NodeId) -> Option<peerlane_machine::fabric::LinkId> {
    model.machine.fabric.links_of(from).iter().find(|(_, n)| *n == to).map(|(link, _)| *link)
}

/// The raw rate of a hop's channel.
fn raw(model: &Model, from: NodeId, to: NodeId) -> Option<f64> {
    let id = link_of(model, from, to)?;
    let stated = model.machine.fabric.link(id).part.as_deref().and_then(|key| model.parts.get(key));
    let stated = stated.and_then(|p| p.constant("raw_rate"));
    stated.or_else(|| model.resources.iter().find(|r| r.link == Some(id)).map(|r| r.capacity.gb()))
}

/// NCCL's rate of a hop.
fn nccl(model: &Model, from: NodeId, to: NodeId) -> Option<f64> {
    let fabric = &model.machine.fabric;
    let id = link_of(model, from, to)?;
    match fabric.link(id).kind {
        LinkKind::Gpu(link) if link.interconnect != Interconnect::Nvlink => raw(model, from, to),
        _ => link_rate(fabric, model.parts, id),
    }
}

/// Whether a route between GPUs crosses the root complex of a CPU that counts as Intel's.
fn crosses_intel_root(model: &Model, route: &Route) -> bool {
    let fabric = &model.machine.fabric;
    let intel = |root| vendor_of(fabric, model.parts, root) == Some(CpuVendor::Intel);
    route.hops.iter().any(|h| fabric.node(h.to).kind == NodeKind::RootComplex && intel(h.to))
}
