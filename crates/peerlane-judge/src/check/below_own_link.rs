//! GPUs whose every number is far below what the PCIe link of the product carries, where no source reports their links. Widths
//! that were fitted to these very numbers do not excuse them.

use super::prelude::*;
use super::slow_path::{PAYLOAD, is_payload_of};
use peerlane_machine::fabric::{PcieGeneration, PcieWidth};
use peerlane_machine::matrix::Engine;
use peerlane_machine::units::{Bytes, Rate};
use peerlane_model::assumptions::Rating;

pub(super) const RULE: Rule = Rule::new("below-own-link", Many(run));

/// Below this share of the raw rate of the product's link. Copies between GPUs reach 0.6 and more even through root
/// complexes that split them, or else those through the host do.
const BELOW: f64 = 0.4;

/// The same where all numbers are host copies: half the lanes reach no more.
const BELOW_HOST: f64 = 0.46;

/// Below this share not even links of half the generation and half the lanes explain it: an eighth, and what packets cost.
const BROKEN: f64 = 0.15;

/// Rates up to so many times the lowest are of links alike.
const ALIKE: f64 = 1.8;

/// The least that is built for a GPU of which no product is known: any since 2012 has it.
const LEAST: PcieWidth = PcieWidth::new(PcieGeneration::Gen3, 16);

/// Smaller copies are mostly start-up.
const LARGE: Bytes = Bytes::from_mib(4);

/// A GPU with its best number.
struct Low<'m> {
    gpu: NodeId,
    link: PcieWidth,
    /// Whether that is its product's link.
    product: bool,
    raw: Rate,
    /// Below which share of it this is low.
    below: f64,
    best: (&'m SourcedMatrix, Cell, Rate),
}

fn run(view: &View) -> Vec<Raised> {
    if !view.is_captured() {
        return Vec::new();
    }
    let mut low: Vec<Low> = view.of_kind(NodeKind::Gpu).into_iter().filter_map(|gpu| judge(view, gpu)).collect();
    let mut raised = Vec::new();
    // GPUs of one rate are one matter; one that reaches several times that of others is another
    while let Some(least) = lowest(&low, |l| l.best.2.gb()).map(|l| l.best.2.gb()) {
        let (alike, others): (Vec<Low>, Vec<Low>) = low.into_iter().partition(|l| l.best.2.gb() <= least * ALIKE);
        raised.extend(report(view, &alike));
        low = others;
    }
    raised
}

/// What is to be said of GPUs whose best rates are alike.
fn report(view: &View, low: &[Low]) -> Option<Raised> {
    let worst = lowest(low, |l| l.best.2.gb())?;
    let names: Vec<&str> = low.iter().map(|l| view.name(l.gpu)).collect();
    let has = match worst.product {
        true => format!("{} product has", verb(&names, "its", "their")),
        false => "a GPU has at least".to_owned(),
    };
    let Low { link, raw, best: (measured, cell, best), .. } = worst;
    let fits = fits(*link, *best);
    let fits = if fits.is_empty() { String::new() } else { format!(", the rate of PCIe {}", fits.join(" or ")) };
    let least = raw.gb() * PAYLOAD.start;
    // a slot with fewer lanes is a choice, and such a rate none that anyone makes
    let (kind, severity, certainty) = match best.gb() < BROKEN * raw.gb() {
        true => (Fault, Error, Likely),
        false => (Design, Warning, Possible),
    };
    let raised = RULE
        .raise(kind, severity, certainty)
        .summary(format!(
            "No measured rate of {} exceeds {best}{fits}; {has} PCIe {link}, which carries {raw}",
            list(&names),
        ))
        .expected(format!("with some peer or the host at least {} of the {raw} of PCIe {link}", percent(worst.below)))
        .measured(format!("{} {best} at most ({})", view.arrow(&measured.matrix, cell), measured.matrix.describe()))
        .evidence(view.cite(low.iter().map(|l| &l.best.0.origin)))
        .fix(
            "Move the card to a slot that is wired to the CPU at full width, and replace a riser or cable that is \
             not rated for the generation; M.2 and chipset slots may share lanes (see the board's manual). If the \
             link runs at full width under load, look for what both directions through it share: an IOMMU, link \
             power saving (ASPM), or memory of another socket.",
        )
        .confirm(confirm::WIDTH)
        .cost(Cost::of_rate(least, best.gb()))
        .about_nodes(names)
        .losing(1.0 - best.gb() / least);
    Some(raised)
}

/// A GPU whose link no source reports, and whose numbers are all low; direct copies or host copies must be among them.
fn judge<'m>(view: &View<'m>, gpu: NodeId) -> Option<Low<'m>> {
    let reported = |(running, allowed): (PcieWidth, PcieWidth)| running.lanes.or(allowed.lanes).is_some();
    if view.pcie_above(gpu).is_some_and(reported) {
        return None;
    }
    let own = view.part(gpu).and_then(|part| part.pcie);
    let fitted = view.fit.as_ref().is_some_and(|fit| fit.rating > Rating::Usual);
    let link = own.or(Some(LEAST).filter(|_| fitted && view.part(gpu).is_none()))?;
    let raw = link.raw_rate()?;
    let mut best: Option<(&SourcedMatrix, Cell, Rate)> = None;
    let mut conclusive = false;
    let mut with_peers = false;
    for (at, measured) in view.bandwidths().filter(|(_, o)| is_of_large_copies(&o.matrix)) {
        for cell in view.cells_of(&measured.matrix, gpu) {
            // slow-path checks what has an expectation of its own
            if !fitted && view.expected_rate(at, &cell).is_some() {
                return None;
            }
            let direct = cell.nodes().is_some_and(|(a, b)| view.p2p_works(a, b) == Some(true));
            with_peers |= cell.nodes().is_some();
            conclusive |= cell.nodes().is_none() || (measured.matrix.p2p == Some(true) && direct);
            let rate = one_way(&measured.matrix, cell.rate);
            if best.as_ref().is_none_or(|(.., most)| rate > *most) {
                best = Some((measured, cell, rate));
            }
        }
    }
    let below = match (own.is_some(), conclusive) {
        (true, true) if with_peers => BELOW,
        (true, true) => BELOW_HOST,
        (false, true) => BROKEN,
        // copies through the host may be slow for other reasons, but not so slow
        (_, false) if fitted => BROKEN / 2.0,
        (_, false) => return None,
    };
    let best = best.filter(|(.., rate)| rate.gb() < below * raw.gb())?;
    Some(Low { gpu, link, product: own.is_some(), raw, below, best })
}

/// Whether a matrix is of large copies of pinned memory alone.
fn is_of_large_copies(matrix: &Matrix) -> bool {
    matrix.engine != Some(Engine::Sm)
        && matrix.direction != Some(Direction::BidirectionalShare)
        && matrix.size.is_none_or(|size| size >= LARGE)
        && matrix.is_of_pairs()
}

/// The narrower links whose payload rate this is: fewer lanes of a generation no newer.
fn fits(link: PcieWidth, rate: Rate) -> Vec<String> {
    let (Some(generation), Some(lanes)) = (link.generation, link.lanes) else { return Vec::new() };
    // boards with PCIe 1 and 2 do not hold such a card, unless it is as old itself
    let oldest = if generation <= PcieGeneration::Gen3 { PcieGeneration::Gen1 } else { PcieGeneration::Gen3 };
    let generations = PcieGeneration::ALL.into_iter().rev().filter(|g| (oldest..=generation).contains(g));
    let all = generations
        .flat_map(|g| [1, 2, 4, 8, 16].into_iter().filter(|n| *n <= lanes).map(move |n| PcieWidth::new(g, n)));
    let fitting = all.filter(|width| *width != link && is_payload_of(*width, rate));
    fitting.take(3).map(|width| width.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{captured, see_with, uniform};
    use super::*;
    use crate::finding::Finding;
    use peerlane_machine::fabric::{FabricBuilder, Node};
    use peerlane_machine::fact::P2pStatus;
    use peerlane_machine::subject::join;
    use peerlane_read::catalogue::Parts;

    #[test]
    fn a_gpu_that_is_several_times_as_fast_is_another_matter() {
        let mut b = FabricBuilder::new();
        for name in ["GPU0", "GPU1", "GPU2", "GPU3"] {
            let mut node = Node::new(name, NodeKind::Gpu);
            node.part = Some("rtx-4090".to_owned());
            b.node(node);
        }
        let mut machine = captured(b);
        let gpus: Vec<NodeId> = machine.fabric.of_kind(NodeKind::Gpu).collect();
        let mut rates = uniform(4, 0.8, &[]);
        for (row, values) in rates.matrix.values.iter_mut().enumerate() {
            for (column, value) in values.iter_mut().enumerate().filter(|(column, _)| row >= 2 && *column >= 2) {
                *value = value.filter(|_| row != column).map(|_| 3.0);
            }
        }
        machine.matrices = vec![rates];
        for (a, b) in gpus.iter().flat_map(|a| gpus.iter().map(move |b| (*a, *b))).filter(|(a, b)| a != b) {
            machine.p2p.insert((a, b), P2pStatus::Ok);
        }
        let all = see_with(&machine, Parts::embedded(), |view| {
            run(view).into_iter().map(|r| r.finding.summary).collect::<Vec<_>>()
        });
        assert_eq!(all.len(), 2, "{all:?}");
        assert!(all[0].contains("GPU0, GPU1 exceeds") && all[1].contains("GPU2, GPU3 exceeds"), "{all:?}");
    }

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
    fn a_quarter_of_the_products_link_is_reported_with_what_it_fits() {
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
