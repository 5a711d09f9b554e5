//! GPUs of which no number comes near what the PCIe link of the product carries, where nothing tells their links.

use super::slow_path::{PAYLOAD, is_payload_of};
use super::view::{Cell, End, Raised, View, one_way};
use super::words::{list, percent};
use super::{Certainty, Cost, Finding, FindingKind, Rule, Severity, confirm};
use peerlane_machine::fabric::{NodeId, NodeKind, PcieGeneration, PcieWidth};
use peerlane_machine::machine::SourcedMatrix;
use peerlane_machine::matrix::{Direction, Engine, Matrix};
use peerlane_machine::subject::Subject;
use peerlane_machine::units::{Bytes, Rate};

pub(super) const RULE: Rule = Rule { id: "below-own-link", breaks: false, run };

/// Below this share of the raw rate of the product's link. Copies between GPUs reach 0.6 and more even through root
/// complexes that split them, or else those through the host do.
const BELOW: f64 = 0.4;

/// The same where all numbers are host copies: half the lanes reach no more.
const BELOW_HOST: f64 = 0.46;

/// Smaller copies are mostly start-up.
const LARGE: Bytes = Bytes::from_mib(4);

/// A GPU with the best that it shows.
struct Low<'m> {
    gpu: NodeId,
    link: PcieWidth,
    raw: Rate,
    /// Below which share of it this is low.
    below: f64,
    best: (&'m SourcedMatrix, Cell, Rate),
}

fn run(view: &View) -> Vec<Raised> {
    if !view.is_captured() {
        return Vec::new();
    }
    let gpus = view.of_kind(NodeKind::Gpu);
    let mut low: Vec<Low> = gpus.into_iter().filter_map(|gpu| judge(view, gpu)).collect();
    low.sort_by(|a, b| a.best.2.gb().total_cmp(&b.best.2.gb()));
    let Some(worst) = low.first() else { return Vec::new() };
    let names: Vec<String> = {
        let mut ids: Vec<NodeId> = low.iter().map(|l| l.gpu).collect();
        ids.sort_by_key(|id| id.index());
        ids.into_iter().map(|id| view.name(id).to_owned()).collect()
    };
    let (measured, cell, best) = &worst.best;
    let fitting = fits(worst.link, *best);
    let fits =
        if fitting.is_empty() { String::new() } else { format!(", as a link of PCIe {} gives", fitting.join(" or ")) };
    let share = best.gb() / worst.raw.gb();
    let products = if names.len() == 1 { "its product has" } else { "their product has" };
    let finding = Finding {
        summary: format!(
            "Nothing measured of {} goes above {best}{fits}; {products} PCIe {}, which carries {}",
            list(&names),
            worst.link,
            worst.raw
        ),
        expected: format!("with some partner or the host at least {} of the {} of PCIe {}", percent(worst.below), worst.raw, worst.link),
        measured: format!("{} {best} at most ({})", view.arrow(&measured.matrix, cell), measured.matrix.describe()),
        evidence: view.cite(low.iter().map(|l| &l.best.0.origin)),
        fix: "Read the width and generation of the links under load. A slot may be wired for fewer lanes, hang below the \
               chipset or share lanes with M.2 (the board's manual), a riser may hold the generation down, and an older CPU \
               or board has an older one. If the width is full, look for what both ways through it have in common: an IOMMU, power \
               saving of the link (ASPM), or memory of another socket."
            .to_owned(),
        confirm: confirm::width(),
        cost: Cost::of_rate(worst.raw.gb() * PAYLOAD.start, best.gb()),
        ..Finding::of(&RULE, FindingKind::Design, Severity::Warning, Certainty::Possible, Subject::nodes_of(names))
    };
    vec![Raised::new(finding, 1.0 - share / PAYLOAD.start)]
}

/// A GPU whose link no source tells, and whose numbers are all low; direct copies or host copies must be among them.
fn judge<'m>(view: &View<'m>, gpu: NodeId) -> Option<Low<'m>> {
    let known = view.fabric().upstream(gpu).is_some_and(|(link, _)| {
        let link = view.fabric().link(link);
        matches!(&link.kind, peerlane_machine::fabric::LinkKind::Pcie { running, allowed, .. }
            if running.lanes.is_some() || allowed.lanes.is_some())
    });
    if known {
        return None;
    }
    let link = view.part(gpu)?.pcie?;
    let raw = link.raw_rate()?;
    let mut best: Option<(&SourcedMatrix, Cell, Rate)> = None;
    let mut telling = false;
    let mut with_peers = false;
    for (at, measured) in view.bandwidths().filter(|(_, o)| is_telling(&o.matrix)) {
        for cell in view.cells(&measured.matrix) {
            if ![cell.from, cell.to].contains(&End::Node(gpu)) {
                continue;
            }
            // slow-path judges what can be expected
            if view.expected_rate(at, &cell).is_some() {
                return None;
            }
            let direct = cell.nodes().is_some_and(|(a, b)| view.p2p_works(a, b) == Some(true));
            with_peers |= cell.nodes().is_some();
            telling |= cell.nodes().is_none() || (measured.matrix.p2p == Some(true) && direct);
            let rate = one_way(&measured.matrix, cell.rate);
            if best.as_ref().is_none_or(|(.., most)| rate > *most) {
                best = Some((measured, cell, rate));
            }
        }
    }
    let below = if with_peers { BELOW } else { BELOW_HOST };
    let best = best.filter(|(.., rate)| telling && rate.gb() < below * raw.gb())?;
    Some(Low { gpu, link, raw, below, best })
}

/// Whether a matrix is of large copies of pinned memory alone.
fn is_telling(matrix: &Matrix) -> bool {
    let title = matrix.title.to_lowercase();
    matrix.engine != Some(Engine::Sm)
        && matrix.direction != Some(Direction::BidirectionalShare)
        && matrix.size.is_none_or(|size| size >= LARGE)
        && !["pageable", "managed", "_to_all", "all_to_", "one_to_all", "_to_one"].iter().any(|w| title.contains(w))
}

/// The narrower links whose payload rate this is: fewer lanes of a generation no newer.
fn fits(link: PcieWidth, rate: Rate) -> Vec<String> {
    let (Some(generation), Some(lanes)) = (link.generation, link.lanes) else { return Vec::new() };
    let generations = PcieGeneration::ALL.into_iter().rev().filter(|g| *g <= generation);
    let all = generations
        .flat_map(|g| [1, 2, 4, 8, 16].into_iter().filter(|n| *n <= lanes).map(move |n| PcieWidth::new(g, n)));
    let fitting = all.filter(|width| *width != link && is_payload_of(*width, rate));
    // those of PCIe 1 and 2 are of boards that no such card is in, unless it is as old itself
    let recent =
        |w: &PcieWidth| w.generation.is_some_and(|g| g >= PcieGeneration::Gen3) || generation <= PcieGeneration::Gen3;
    fitting.filter(recent).take(3).map(|width| width.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{captured, see_with, uniform};
    use super::*;
    use peerlane_machine::fabric::{FabricBuilder, Node};
    use peerlane_machine::fact::P2pStatus;
    use peerlane_machine::subject::join;
    use peerlane_read::catalogue::Parts;

    fn with(rate: f64, works: bool, product: Option<&str>) -> Vec<Finding> {
        let mut b = FabricBuilder::new();
        for name in ["GPU0", "GPU1"] {
            let mut node = Node::new(name, NodeKind::Gpu);
            node.part = product.map(str::to_owned);
            b.node(node);
        }
        let mut machine = captured(b);
        let (on, mut off) = (uniform(2, rate, &[]), uniform(2, rate * 0.9, &[]));
        off.matrix.p2p = Some(false);
        machine.matrices = vec![on, off];
        let gpus: Vec<NodeId> = machine.fabric.of_kind(NodeKind::Gpu).collect();
        let status = if works { P2pStatus::Ok } else { P2pStatus::NotSupported };
        machine.p2p.extend([((gpus[0], gpus[1]), status), ((gpus[1], gpus[0]), status)]);
        see_with(&machine, Parts::embedded(), |view| run(view).into_iter().map(|r| r.finding).collect())
    }

    #[test]
    fn a_quarter_of_the_products_link_is_told_with_what_it_fits() {
        let found = with(6.5, true, Some("rtx-4090"));
        assert_eq!((found.len(), join(&found[0].subjects, " ")), (1, "GPU0 GPU1".to_owned()));
        assert!(found[0].summary.contains("4.0 x4 or 3.0 x8"), "{}", found[0].summary);
    }

    #[test]
    fn a_fast_one_an_unknown_one_and_staged_copies_alone_are_none() {
        assert_eq!(with(20.0, true, Some("rtx-4090")), vec![]);
        assert_eq!(with(6.5, true, None), vec![]);
        assert_eq!(with(6.5, false, Some("rtx-4090")), vec![], "copies through the host may be slow for other reasons");
    }
}
