//! Findings with the nodes, links and cells that they refer to.

use peerlane::check::Finding;
use peerlane::fabric::{LinkKind, NodeId};
use peerlane::fact::Fact;

use super::document::{CellRef, FindingView, MatrixView};

use super::tables::{Tables, above};
use crate::render::label;

/// Limit of cells that a finding refers to.
const MOST_CELLS: usize = 200;

/// Finds the subjects' nodes, links and cells.
pub(super) fn view(tables: &mut Tables, matrices: &[MatrixView], finding: &Finding) -> FindingView {
    let fabric = tables.fabric();
    let (mut boxes, mut links, mut cells) = (Vec::new(), Vec::new(), Vec::new());
    for subject in &finding.subjects {
        let ids: Vec<NodeId> = subject.nodes().into_iter().filter_map(|name| fabric.find(name)).collect();
        boxes.extend(ids.iter().map(|id| id.index()));
        let Some((a, b)) = subject.ends() else {
            for id in &ids {
                let own = if finding.rule == LANES_DOWN { gpu_links(tables, *id) } else { Vec::new() };
                if own.is_empty() {
                    let link = slow_link(tables, matrices, *id).or_else(|| Some(above(tables, *id)?.index()));
                    links.extend(link);
                }
                links.extend(own);
            }
            continue;
        };
        for (at, matrix) in matrices.iter().enumerate().filter(|(_, m)| !m.measured.is_empty()) {
            for (from, to) in [(a, b), (b, a)] {
                let row = matrix.rows.iter().position(|name| name == from);
                let col = matrix.cols.iter().position(|name| name == to);
                if let (Some(row), Some(col)) = (row, col)
                    && matrix.measured.get(row).and_then(|r| r.get(col)).copied().flatten().is_some()
                {
                    cells.push(CellRef { matrix: at, row, col });
                }
            }
        }
    }
    // a finding about one matrix names it with its numbers; cells of other matrices are no evidence for it
    let named = |cell: &CellRef| matrices.get(cell.matrix).is_some_and(|m| finding.measured.contains(&m.what));
    if cells.iter().any(named) {
        cells.retain(named);
    }
    cells.truncate(MOST_CELLS);
    boxes.sort_unstable();
    boxes.dedup();
    links.sort_unstable();
    links.dedup();
    let sources = finding.evidence.iter().map(|place| tables.source(place)).collect();
    FindingView { finding: finding.clone(), boxes, links, cells, sources }
}

/// The rule about a GPU's own interconnect: of its subjects these links are at fault, not the one in the tree.
const LANES_DOWN: &str = "nvlink-lanes-down";

/// The links of a GPU's own interconnect.
fn gpu_links(tables: &Tables, id: NodeId) -> Vec<usize> {
    let fabric = tables.fabric();
    let links = fabric.links_of(id).iter().map(|(link, _)| *link);
    links.filter(|link| matches!(fabric.link(*link).kind, LinkKind::Gpu(_))).map(|link| link.index()).collect()
}

/// Measured rates below this share of the expected ones point at a link.
const SLOW: f64 = 0.9;

/// The link at a node that should limit its slowest transfers, unless its own link in the tree is narrow, which explains
/// them: of a GPU with too few NVLinks, these and not the PCIe link above it.
fn slow_link(tables: &Tables, matrices: &[MatrixView], id: NodeId) -> Option<usize> {
    let fabric = tables.fabric();
    if above(tables, id).is_some_and(|link| label::is_narrow(fabric.link(link))) {
        return None;
    }
    let name = &fabric.node(id).name;
    let ratio = |matrix: &MatrixView, row: usize, col: usize| {
        let value = matrix.measured.get(row)?.get(col).copied().flatten()?;
        let expected = matrix.expected.get(row)?.get(col).copied().flatten()?;
        (matrix.more_is_better && expected > 0.0).then_some(value / expected)
    };
    let mut slowest: Option<(f64, usize)> = None;
    for matrix in matrices {
        for (row, from) in matrix.rows.iter().enumerate() {
            for (col, to) in matrix.cols.iter().enumerate().filter(|(_, to)| *to != from) {
                if from != name && to != name {
                    continue;
                }
                let path = matrix.paths.get(row).and_then(|paths| paths.get(col)).copied().flatten();
                if let (Some(ratio), Some(path)) = (ratio(matrix, row, col), path)
                    && slowest.is_none_or(|(least, _)| ratio < least)
                {
                    slowest = Some((ratio, path));
                }
            }
        }
    }
    let (_, path) = slowest.filter(|(ratio, _)| *ratio < SLOW)?;
    let path = tables.paths.get(path)?;
    let tightest = path.tightest.iter().filter_map(|at| tables.hops.get(*path.hops.get(*at)?));
    tightest.filter(|hop| hop.from == id.index() || hop.to == id.index()).find_map(|hop| hop.link)
}

/// The subject of a fact.
pub(super) fn tells(fact: &Fact) -> &'static str {
    match fact {
        Fact::Classes(_) => "path classes",
        Fact::P2p(_) => "peer-to-peer status",
        Fact::Gpus(_) => "GPUs",
        Fact::Nvlink(_) => "NVLink ports",
        Fact::Matrix(_) => "numbers between pairs",
        Fact::Curve(_) => "numbers against message size",
        Fact::Pci(_) => "PCI devices",
        Fact::Host(_) => "the host",
        Fact::Modules(_) => "kernel modules",
        Fact::Kernel(_) => "the kernel's command line and log",
        Fact::Sensors(_) => "temperatures",
        Fact::Corrupt(_) => "data that arrived changed",
        Fact::RdmaPorts(_) => "ports of adapters",
        Fact::Acs(_) => "Access Control Services",
        Fact::NcclGraph(_) => "NCCL's channels",
        Fact::NcclLog(_) => "NCCL's log",
        Fact::PcieLines(_) => "PCIe links",
        Fact::Gids(_) => "GID tables",
        Fact::FabricManager(_) => "the fabric manager",
        Fact::Rates(_) => "a table of rates",
        Fact::Health(_) => "states and counters of errors",
        Fact::Message(_) => "a message of a program",
        Fact::OpenLine(_) => "lines that are not known",
    }
}
