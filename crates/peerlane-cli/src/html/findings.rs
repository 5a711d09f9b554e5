//! Findings with the nodes, links and cells that they refer to.

use peerlane::check::Finding;
use peerlane::fabric::NodeId;
use peerlane::fact::Fact;

use super::document::{CellRef, FindingView, MatrixView};

use super::tables::{Tables, above};

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
            links.extend(ids.iter().flat_map(|id| above(tables, *id)).map(|link| link.index()));
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
        Fact::SetupFailures(_) => "error messages",
    }
}
