//! Pairs that are slower than the others of their path class, and the GPU that explains them.

use std::collections::BTreeMap;

use super::confirm;
use super::culprit::{Role, blame};
use super::view::{Cell, End, Raised, View, sureness};
use super::words::{self, median, percent};
use super::{Certainty, Cost, Finding, FindingKind, Rule, Severity, first_row_warm_up};
use peerlane_machine::fabric::{LinkKind, NodeId, NodeKind, PathClass};
use peerlane_machine::machine::SourcedMatrix;
use peerlane_machine::subject::Subject;

pub(super) const RULE: Rule = Rule { id: "uneven-path-class", breaks: false, run };

/// A pair must be this many times the median deviation below it, so that a noisy class is not a list of faults.
const OUTLYING: f64 = 4.0;

/// A class needs this many cells to have a usual rate.
const FEWEST: usize = 4;

/// The same where no classes are known: all pairs of four GPUs.
const FEWEST_UNKNOWN: usize = 12;

/// Below this share, a GPU that is as low in [`AGREEING`] matrices is slow, and not merely not alike: sound GPUs of one
/// product differ by a few percent, and not in the same way in each test.
const AGREED: f64 = 0.15;

/// Matrices that must show it.
const AGREEING: usize = 3;

/// What pairs that should be equally fast share: their class, the lanes of their narrowest link, whether
/// peer-to-peer works (refused pairs are staged), and the products at both ends.
type Alike<'a> = (Option<PathClass>, Option<u8>, Option<bool>, Option<(&'a str, &'a str)>);

fn alike<'a>(view: &View<'a>, cell: &Cell) -> Option<Alike<'a>> {
    let (a, b) = cell.nodes()?;
    let product = |id| view.fabric().node(id).product.as_deref();
    Some((view.class(a, b), narrowest(view, cell), view.p2p_works(a, b), product(a).zip(product(b))))
}

/// What is low of one class, and who explains it, over all matrices.
struct Low<'m> {
    /// Their class; of machines of which no class is known, none.
    class: Option<PathClass>,
    culprit: Option<(End, Role)>,
    /// The matrix, the usual rate there, the number, and how far below its class it is.
    odd: Vec<(&'m SourcedMatrix, f64, Cell, f64)>,
}

fn run(view: &View) -> Vec<Raised> {
    let mut low: Vec<Low> = Vec::new();
    for (at, measured) in view.bandwidths() {
        // staged copies take no path of a class; a cold first row has its own rule
        if measured.matrix.p2p != Some(false) && first_row_warm_up::shortfall(view, measured).is_none() {
            judge(view, at, measured, &mut low);
        }
    }
    low.iter().filter_map(|low| report(view, low)).collect()
}

/// Lanes of the narrowest PCIe link on the way, so that links of different width are not compared.
fn narrowest(view: &View, cell: &Cell) -> Option<u8> {
    let path = view.path(cell, Some(true))?;
    let lanes = path.hops.iter().filter_map(|hop| match &view.fabric().link(hop.link).kind {
        LinkKind::Pcie { running, .. } => running.lanes,
        _ => None,
    });
    lanes.min()
}

fn judge<'m>(view: &View, at: usize, measured: &'m SourcedMatrix, all: &mut Vec<Low<'m>>) {
    let cells = view.gpu_cells(&measured.matrix);
    // where the expectation knows every pair, deviations from it are compared, so that what it explains is no outlier
    let expected: Option<Vec<f64>> = cells.iter().map(|c| view.expected_rate(at, c).map(|r| r.gb())).collect();
    let level = |i: usize, c: &Cell| c.rate.gb() / expected.as_ref().and_then(|e| e.get(i)).copied().unwrap_or(1.0);
    let mut classes: BTreeMap<Alike, Vec<(usize, f64)>> = BTreeMap::new();
    for (i, cell) in cells.iter().enumerate() {
        let Some(alike) = alike(view, cell) else { continue };
        classes.entry(alike).or_default().push((i, level(i, cell)));
    }
    let no_classes = classes.keys().all(|(class, ..)| class.is_none());
    for ((class, ..), members) in classes {
        // pairs of unknown classes may differ for a good reason, unless they are alike but for those of one GPU
        if class.is_none() && (!no_classes || members.len() < FEWEST_UNKNOWN) {
            continue;
        }
        let own: Vec<Cell> = members.iter().filter_map(|(i, _)| cells.get(*i).copied()).collect();
        let levels: Vec<f64> = members.iter().map(|(_, v)| *v).collect();
        if let Some((gpu, usual)) = one_below_all(view, &own, &levels) {
            let of_gpu = |c: &Cell| c.from == End::Node(gpu) || c.to == End::Node(gpu);
            let usual_rate = median(own.iter().filter(|c| !of_gpu(c)).map(|c| c.rate.gb())).unwrap_or_default();
            let odd = own.iter().zip(&levels).filter(|(c, _)| of_gpu(c));
            let odd = odd.map(|(c, level)| (measured, usual_rate, *c, 1.0 - level / usual));
            put(all, class, Some((End::Node(gpu), Role::Any)), odd);
            continue;
        }
        let Some(usual) = median(members.iter().map(|(_, v)| *v)).filter(|_| members.len() >= FEWEST) else { continue };
        let deviation = median(members.iter().map(|(_, v)| (v / usual - 1.0).abs())).unwrap_or(0.0);
        let limit = view.settings.uneven_path_class.below.max(OUTLYING * deviation);
        let gaps: Vec<f64> = members.iter().map(|(_, v)| 1.0 - v / usual).collect();
        let low: Vec<bool> = gaps.iter().map(|gap| *gap > limit).collect();
        for group in blame(&own, &low).into_iter().filter(|g| class.is_some() || g.culprit.is_some()) {
            let usual_rate = median(own.iter().map(|c| c.rate.gb())).unwrap_or_default();
            let odd = group.cells.iter().filter_map(|i| Some((measured, usual_rate, *own.get(*i)?, *gaps.get(*i)?)));
            put(all, class, group.culprit, odd);
        }
    }
}

/// Adds what is low of a class to what the same culprit explains in other matrices.
fn put<'m>(
    all: &mut Vec<Low<'m>>,
    class: Option<PathClass>,
    culprit: Option<(End, Role)>,
    odd: impl Iterator<Item = (&'m SourcedMatrix, f64, Cell, f64)>,
) {
    let end = |culprit: Option<(End, Role)>| culprit.map(|(end, _)| end);
    match all.iter_mut().find(|l| l.class == class && end(l.culprit) == end(culprit)) {
        Some(known) => known.odd.extend(odd),
        None => all.push(Low { class, culprit, odd: odd.collect() }),
    }
}

/// The one GPU all of whose pairs are low, where the pairs of all others agree: of four GPUs its pairs are half of all, and no
/// median shows which half is odd. With the level of the others.
fn one_below_all(view: &View, cells: &[Cell], levels: &[f64]) -> Option<(NodeId, f64)> {
    let mut found = None;
    for gpu in view.of_kind(NodeKind::Gpu) {
        let of_gpu = |c: &Cell| c.from == End::Node(gpu) || c.to == End::Node(gpu);
        let both = || cells.iter().zip(levels);
        let others: Vec<f64> = both().filter(|(c, _)| !of_gpu(c)).map(|(_, v)| *v).collect();
        let mine: Vec<f64> = both().filter(|(c, _)| of_gpu(c)).map(|(_, v)| *v).collect();
        let Some(usual) = median(others.iter().copied()) else { continue };
        if others.len() < FEWEST || mine.len() < FEWEST {
            continue;
        }
        let deviation = others.iter().map(|v| (v / usual - 1.0).abs()).fold(0.0, f64::max);
        let limit = view.settings.uneven_path_class.below.max(2.0 * deviation);
        if mine.iter().all(|v| *v < (1.0 - limit) * usual) && found.replace((gpu, usual)).is_some() {
            return None;
        }
    }
    found
}

fn report(view: &View, low: &Low) -> Option<Raised> {
    let Low { class, culprit, odd } = low;
    let of = class.map_or_else(String::new, |class| format!("{class} "));
    let (measured, usual, worst, gap) = odd.iter().max_by(|a, b| a.3.total_cmp(&b.3))?;
    let settings = view.settings.uneven_path_class;
    let mut shown: Vec<*const SourcedMatrix> =
        odd.iter().filter(|(.., gap)| *gap >= AGREED).map(|(o, ..)| std::ptr::from_ref(*o)).collect();
    shown.sort_unstable();
    shown.dedup();
    let agreed = culprit.is_some() && AGREED < settings.much && shown.len() >= AGREEING;
    let much = *gap >= settings.much || agreed;
    let mut pairs: Vec<(String, String)> = Vec::new();
    for (a, b) in odd.iter().filter_map(|(_, _, cell, _)| cell.nodes()) {
        let pair = (view.name(a).to_owned(), view.name(b).to_owned());
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    let (kind, subjects, who, fix) = match culprit {
        Some((End::Node(id), role)) => {
            let kind = if much { FindingKind::Fault } else { FindingKind::Design };
            let fix = if class.is_none() {
                "Its link may be narrower, or it may be on another socket than the others: look at `nvidia-smi topo -m`, \
                 then compare link width under load, clocks, and active NVLinks with those of its peers."
            } else {
                "Compare this GPU with its peers: link width under load, clocks, temperature, and the slot it is in; \
                        exchange it with a neighbour to see whether the card or the place is slow."
            };
            let name = view.name(*id);
            (kind, vec![view.node(*id)], format!("{of}rates {} {name}", role.preposition()), fix)
        }
        _ => {
            let fix = "Measure again on an idle machine; if it stays, look at what only these pairs share.";
            let who = format!("{of}rates between {}", words::pairs(&pairs));
            let subjects = Subject::pairs_of(&pairs);
            (FindingKind::Measurement, subjects, who, fix)
        }
    };
    let matrix = &measured.matrix;
    let of_class = |c: &Cell| c.nodes().is_some_and(|(a, b)| view.class(a, b) == *class);
    let rates = view.gpu_cells(matrix).into_iter().filter(of_class).map(|c| c.rate.gb());
    let most = rates.fold(*usual, f64::max);
    let finding = Finding {
        summary: format!(
            "{}{} are up to {} below those of the other {of}pairs: {:.2} beside {most:.2} GB/s",
            who.chars().next().map_or_else(String::new, |c| c.to_uppercase().collect()),
            who.chars().skip(1).collect::<String>(),
            percent(*gap),
            worst.rate.gb()
        ),
        expected: format!("about {usual:.2} GB/s, the median of {of}pairs"),
        measured: format!(
            "{} {} ({}{})",
            view.arrow(matrix, worst),
            worst.rate,
            matrix.describe(),
            sureness(measured, worst)
        ),
        evidence: view.cite(odd.iter().flat_map(|(o, ..)| std::iter::once(&o.origin).chain(&o.also))),
        fix: fix.to_owned(),
        confirm: confirm::pairs("pairs", &subjects),
        cost: Cost::of_rate(worst.rate.gb() / (1.0 - gap), worst.rate.gb()),
        ..Finding::of(&RULE, kind, if much { Severity::Warning } else { Severity::Info }, Certainty::Possible, subjects)
    };
    Some(Raised::new(finding, *gap).shown_by(pairs))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{boxes, captured, findings, pcie, uniform, with_link};
    use super::*;

    #[test]
    fn a_source_slower_than_its_peers_is_named() {
        let mut machine = captured(boxes(&[2, 2], false));
        machine.matrices.push(uniform(4, 20.2, &[(3, 0, 18.36), (3, 1, 18.42)]));
        let found = findings(&machine, run);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Info));
        assert_eq!(found[0].subjects, ["GPU3"]);
        assert_eq!(
            found[0].summary,
            "SYS rates from GPU3 are up to 9 % below those of the other SYS pairs: 18.36 beside 20.20 GB/s"
        );
    }

    #[test]
    fn as_low_in_every_test_is_slow() {
        let mut machine = captured(boxes(&[4], false));
        let low = [(3, 0, 16.2), (3, 1, 16.3), (3, 2, 16.1), (0, 3, 16.2), (1, 3, 16.3), (2, 3, 16.2)];
        for _ in 0..2 {
            machine.matrices.push(uniform(4, 20.0, &low));
        }
        assert_eq!(findings(&machine, run)[0].severity, Severity::Info);
        machine.matrices.push(uniform(4, 20.0, &low));
        let found = findings(&machine, run);
        assert_eq!((found[0].severity, found[0].kind), (Severity::Warning, FindingKind::Fault));
        assert_eq!(found[0].subjects, ["GPU3"]);
    }

    #[test]
    fn without_classes_one_gpu_that_is_low_everywhere_is_named() {
        let found = |n: usize, low: &[(usize, usize, f64)]| {
            let mut b = peerlane_machine::fabric::FabricBuilder::new();
            for i in 0..n {
                b.node(peerlane_machine::fabric::Node::new(format!("GPU{i}"), peerlane_machine::fabric::NodeKind::Gpu));
            }
            let mut machine = captured(b);
            machine.matrices.push(uniform(n, 25.9, low));
            findings(&machine, run).into_iter().map(|f| f.summary).collect::<Vec<_>>()
        };
        let of_gpu2: Vec<(usize, usize, f64)> =
            [0, 1, 3].into_iter().flat_map(|i| [(i, 2, 12.9), (2, i, 12.9)]).collect();
        assert_eq!(
            found(4, &of_gpu2),
            ["Rates of GPU2 are up to 50 % below those of the other pairs: 12.90 beside 25.90 GB/s"]
        );
        // pairs of two sockets
        let across: Vec<(usize, usize, f64)> =
            [(0, 2), (0, 3), (1, 2), (1, 3)].into_iter().flat_map(|(a, b)| [(a, b, 12.9), (b, a, 12.9)]).collect();
        assert!(found(4, &across).is_empty());
        assert!(found(3, &[(0, 2, 12.9), (2, 0, 12.9), (1, 2, 12.9), (2, 1, 12.9)]).is_empty());
    }

    #[test]
    fn far_below_is_a_warning() {
        let mut machine = captured(boxes(&[4], false));
        machine.matrices.push(uniform(4, 20.0, &[(2, 3, 12.0)]));
        let found = findings(&machine, run);
        assert_eq!((found[0].severity, found[0].kind), (Severity::Warning, FindingKind::Measurement));
    }

    #[test]
    fn other_products_and_refused_pairs_are_not_compared() {
        let slow = [(2, 3, 12.0), (3, 2, 12.0)];
        let mut machine = captured(boxes(&[4], false));
        machine.matrices.push(uniform(4, 20.0, &slow));
        assert_eq!(findings(&machine, run).len(), 1);
        let ends = (machine.fabric.find("GPU2").unwrap(), machine.fabric.find("GPU3").unwrap());
        machine.p2p.insert(ends, peerlane_machine::fact::P2pStatus::NotSupported);
        machine.p2p.insert((ends.1, ends.0), peerlane_machine::fact::P2pStatus::NotSupported);
        assert!(findings(&machine, run).is_empty(), "staged");
        let mut b = boxes(&[4], false);
        for (name, product) in [("GPU0", "new"), ("GPU1", "new"), ("GPU2", "old"), ("GPU3", "old")] {
            let id = b.find(name).unwrap();
            b.node_mut(id).product = Some(product.to_owned());
        }
        let mut machine = captured(b);
        machine.matrices.push(uniform(4, 20.0, &slow));
        assert!(findings(&machine, run).is_empty(), "older products");
    }

    #[test]
    fn noise_and_other_widths_are_no_outliers() {
        let mut machine = captured(boxes(&[4], false));
        let noisy = [(0, 1, 10.2), (0, 2, 11.0), (0, 3, 12.4), (1, 2, 13.5), (1, 3, 14.7), (2, 3, 15.2), (2, 0, 10.9)];
        machine.matrices.push(uniform(4, 16.0, &noisy));
        assert!(findings(&machine, run).is_empty());
        machine.matrices.clear();
        with_link(&mut machine, "GPU3", pcie("3.0 x8", "3.0 x8"));
        machine.matrices.push(uniform(
            4,
            10.0,
            &[(0, 3, 6.0), (1, 3, 6.0), (2, 3, 6.0), (3, 0, 6.0), (3, 1, 6.0), (3, 2, 6.0)],
        ));
        assert!(findings(&machine, run).is_empty());
    }
}
