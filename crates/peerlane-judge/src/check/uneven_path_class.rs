//! Pairs that are slower than the others of their path class, and the GPU that explains them.

use std::collections::BTreeMap;

use super::culprit::{Role, blame};
use super::first_row_warm_up;
use super::prelude::*;
use super::view::sources::is_ours;

pub(super) const RULE: Rule =
    Rule::new("uneven-path-class", Many(run)).explains("p2p-slower-than-staged asymmetric-cell contended-slow");

/// A pair must be this many times the median deviation below it, so that a noisy class is not a list of faults.
const OUTLYING: f64 = 4.0;

/// A class needs this many cells to have a usual rate.
const FEWEST: usize = 4;

/// The same where no classes are known: all pairs of four GPUs.
const FEWEST_UNKNOWN: usize = 12;

/// From this shortfall on, a GPU that is as low in [`AGREEING`] matrices is slow, and not merely different: sound GPUs of one
/// product differ by a few percent, and not in the same way in each test.
const AGREED: f64 = 0.15;

/// Matrices that must show it.
const AGREEING: usize = 3;

/// From this shortfall on, a pair that `peerlane measure` measured is slow, if its class is large enough to know how much
/// its pairs differ.
const SURE: f64 = 0.10;

/// Of such a class, how many times the median deviation: alike pairs of sound machines stay within five.
const SURELY_OUTLYING: f64 = 8.0;

/// Cells of such a class.
const ENOUGH: usize = 8;

/// What pairs that should be equally fast share: their class, the lanes of their narrowest link, whether
/// peer-to-peer works (refused pairs are staged), and the products at both ends.
type Alike<'a> = (Option<PathClass>, Option<u8>, Option<bool>, Option<(&'a str, &'a str)>);

/// Who explains numbers that are low.
type Culprit = Option<(End, Role)>;

fn alike<'a>(view: &View<'a>, cell: &Cell) -> Option<Alike<'a>> {
    let (a, b) = cell.nodes()?;
    let product = |id| view.fabric().node(id).product.as_deref();
    Some((view.class(a, b), narrowest(view, cell), view.p2p_works(a, b), product(a).zip(product(b))))
}

/// A number that is low.
struct Outlier<'m> {
    measured: &'m SourcedMatrix,
    cell: Cell,
    /// The usual rate there, in GB/s.
    usual: f64,
    /// How far below its class it is.
    gap: f64,
    /// Whether that is more than alike pairs ever differ.
    sure: bool,
}

/// What is low of one class, and who explains it, over all matrices.
struct Low<'m> {
    /// Their class; `None` on machines without known classes.
    class: Option<PathClass>,
    culprit: Culprit,
    outliers: Vec<Outlier<'m>>,
}

fn run(view: &View) -> Vec<Raised> {
    let mut low: Vec<Low> = Vec::new();
    for (at, measured) in view.bandwidths() {
        // staged copies take no path of a class; first-row-warm-up reports a cold first row
        if measured.matrix.p2p != Some(false) && first_row_warm_up::shortfall(view, measured).is_none() {
            judge(view, at, measured, &mut low);
        }
    }
    low.iter().filter_map(|low| report(view, low)).collect()
}

/// Lanes of the narrowest PCIe link on the path, so that links of different width are not compared.
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
    // where the expectation knows every pair, deviations from it are compared, so that what it explains is not an outlier
    let expected: Option<Vec<f64>> = cells.iter().map(|c| view.expected_gb(at, c)).collect();
    let level = |i: usize, c: &Cell| c.rate.gb() / expected.as_ref().and_then(|e| e.get(i)).copied().unwrap_or(1.0);
    let mut classes: BTreeMap<Alike, Vec<(Cell, f64)>> = BTreeMap::new();
    for (i, cell) in cells.iter().enumerate() {
        let Some(alike) = alike(view, cell) else { continue };
        classes.entry(alike).or_default().push((*cell, level(i, cell)));
    }
    let no_classes = classes.keys().all(|(class, ..)| class.is_none());
    for ((class, ..), members) in classes {
        // pairs of unknown classes may differ for a good reason, unless they are alike but for those of one GPU
        if class.is_none() && (!no_classes || members.len() < FEWEST_UNKNOWN) {
            continue;
        }
        let enough = is_ours(measured) && members.len() >= ENOUGH;
        let outlier = |cell: Cell, usual, gap, deviation: f64| {
            let sure = enough && gap >= SURE.max(SURELY_OUTLYING * deviation);
            Outlier { measured, cell, usual, gap, sure }
        };
        if let Some((gpu, usual)) = one_below_all(view, &members) {
            let (mine, others): (Vec<&_>, Vec<&_>) = members.iter().partition(|(c, _)| c.is_of(gpu));
            let usual_rate = median(others.iter().map(|(c, _)| c.rate.gb())).unwrap_or_default();
            let deviation = deviation(others, usual);
            let outliers = mine.into_iter().map(|(c, level)| outlier(*c, usual_rate, 1.0 - level / usual, deviation));
            add(all, class, Some((End::Node(gpu), Role::Any)), outliers);
            continue;
        }
        let Some(usual) = median(members.iter().map(|(_, v)| *v)).filter(|_| members.len() >= FEWEST) else { continue };
        let deviation = deviation(&members, usual);
        let limit = view.settings.uneven_path_class.below.max(OUTLYING * deviation);
        let usual_rate = median(members.iter().map(|(c, _)| c.rate.gb())).unwrap_or_default();
        let own: Vec<Cell> = members.iter().map(|(c, _)| *c).collect();
        let low: Vec<bool> = members.iter().map(|(_, v)| 1.0 - v / usual > limit).collect();
        for group in blame(&own, &low).into_iter().filter(|g| class.is_some() || g.culprit.is_some()) {
            let outliers = group.cells.iter().filter_map(|i| members.get(*i));
            add(all, class, group.culprit, outliers.map(|(c, v)| outlier(*c, usual_rate, 1.0 - v / usual, deviation)));
        }
    }
}

/// The share of a rate that the pairs of one GPU must lack, where peerlane measured them, of what those of the other GPUs reach. Pairs
/// of one class that are sound differ by 1 to 2 % ([`peerlane_measure::simulated_machine::Effects::REAL`]).
const APART: f64 = 0.15;

/// How far numbers are from what is usual, in the median.
fn deviation<'a>(members: impl IntoIterator<Item = &'a (Cell, f64)>, usual: f64) -> f64 {
    median(members.into_iter().map(|(_, v)| (v / usual - 1.0).abs())).unwrap_or(0.0)
}

/// Adds what is low of a class to what the same culprit explains in other matrices.
fn add<'m>(
    all: &mut Vec<Low<'m>>,
    class: Option<PathClass>,
    culprit: Culprit,
    outliers: impl Iterator<Item = Outlier<'m>>,
) {
    let end = |culprit: Culprit| culprit.map(|(end, _)| end);
    match all.iter_mut().find(|l| l.class == class && end(l.culprit) == end(culprit)) {
        Some(known) => known.outliers.extend(outliers),
        None => all.push(Low { class, culprit, outliers: outliers.collect() }),
    }
}

/// The one GPU all of whose pairs are low, where the pairs of all others agree: of four GPUs its pairs are half of all, and
/// no median shows which half is low. With the level of the others.
fn one_below_all(view: &View, members: &[(Cell, f64)]) -> Option<(NodeId, f64)> {
    // all of its pairs are below all others, so that the lowest is one of them
    let (lowest, _) = lowest(members, |(_, value)| *value)?;
    let mut found = None;
    for gpu in view.of_kind(NodeKind::Gpu).into_iter().filter(|gpu| lowest.is_of(*gpu)) {
        let (mine, others): (Vec<_>, Vec<_>) = members.iter().partition(|(c, _)| c.is_of(gpu));
        let Some(usual) = median(others.iter().map(|(_, v)| *v)) else { continue };
        if others.len() < FEWEST || mine.len() < FEWEST {
            continue;
        }
        let deviation = others.iter().map(|(_, v)| (v / usual - 1.0).abs()).fold(0.0, f64::max);
        let limit = view.settings.uneven_path_class.below.max(2.0 * deviation);
        if mine.iter().all(|(_, v)| *v < (1.0 - limit) * usual) && found.replace((gpu, usual)).is_some() {
            return None;
        }
    }
    found
}

/// Whether the GPU that explains them is slow in so many matrices that it is no accident.
fn is_agreed(low: &Low) -> bool {
    let agreed = low.outliers.iter().filter(|o| o.gap >= AGREED);
    low.culprit.is_some() && distinct(agreed.map(|o| std::ptr::from_ref(o.measured))).len() >= AGREEING
}

fn report(view: &View, low: &Low) -> Option<Raised> {
    let Low { class, culprit, outliers } = low;
    let of = class.map_or_else(String::new, |class| format!("{class} "));
    let worst = highest(outliers, |o| o.gap)?;
    let Outlier { measured, cell, usual, gap, .. } = worst;
    let settings = view.settings.uneven_path_class;
    let own = |o: &Outlier| is_ours(o.measured) && o.gap >= APART;
    let is_one_gpu = matches!(culprit, Some((End::Node(_), _)));
    let sure = outliers.iter().any(|o| o.sure) || is_one_gpu && outliers.iter().any(own);
    let much = *gap >= settings.much || AGREED < settings.much && is_agreed(low) || sure;
    let pairs = view.names(outliers.iter().filter_map(|o| o.cell.nodes()));
    let (kind, subjects, who, fix) = match culprit {
        Some((End::Node(id), role)) => {
            let fix = if class.is_none() {
                "Correct what differs from its peers: link width under load, clocks, active NVLinks, or the socket \
                 it is on (`nvidia-smi topo -m`). If nothing does, swap it with a neighbour to find out whether the \
                 card or the slot is slow."
            } else {
                "Correct what differs from its peers: link width under load, clocks or temperature. If nothing does, \
                 swap it with a neighbour to find out whether the card or the slot is slow."
            };
            let who = format!("rates {} {}", role.preposition(), view.name(*id));
            (if much { Fault } else { Design }, vec![view.node(*id)], who, fix)
        }
        _ => {
            let fix = "Measure again on an idle machine. If they stay low, look at what only these pairs share.";
            let who = format!("rates between {}", words::pairs(&pairs));
            (if sure { Fault } else { Measurement }, Subject::pairs_of(&pairs), who, fix)
        }
    };
    let who = match class {
        Some(class) => format!("{class} {who}"),
        None => who.replacen("rates", "Rates", 1),
    };
    let of_class = |c: &Cell| c.nodes().is_some_and(|(a, b)| view.class(a, b) == *class);
    let rates = view.gpu_cells(&measured.matrix).into_iter().filter(of_class).map(|c| c.rate.gb());
    let most = rates.fold(*usual, f64::max);
    let raised = RULE
        .raise(kind, if much { Warning } else { Info }, if sure { Likely } else { Possible })
        .summary(format!(
            "{who} are up to {} below those of the other {of}pairs: {:.2} compared with {most:.2} GB/s",
            percent(*gap),
            cell.rate.gb()
        ))
        .expected(format!("about {usual:.2} GB/s, the median of {of}pairs"))
        .measured(view.quote(measured, cell))
        .evidence(view.cite(outliers.iter().flat_map(|o| origins(o.measured))))
        .fix(fix)
        .confirm(confirm::pairs("pairs", &subjects))
        .cost(Cost::of_rate(cell.rate.gb() / (1.0 - gap), cell.rate.gb()))
        .about(subjects)
        .losing(*gap)
        .shown_by(pairs);
    Some(raised)
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
        assert_eq!((found.len(), found[0].severity), (1, Info));
        assert_eq!(found[0].subjects, ["GPU3"]);
        assert_eq!(
            found[0].summary,
            "SYS rates from GPU3 are up to 9 % below those of the other SYS pairs: 18.36 compared with 20.20 GB/s"
        );
    }

    #[test]
    fn as_low_in_every_test_is_slow() {
        let mut machine = captured(boxes(&[4], false));
        let low = [(3, 0, 16.2), (3, 1, 16.3), (3, 2, 16.1), (0, 3, 16.2), (1, 3, 16.3), (2, 3, 16.2)];
        for _ in 0..2 {
            machine.matrices.push(uniform(4, 20.0, &low));
        }
        assert_eq!(findings(&machine, run)[0].severity, Info);
        machine.matrices.push(uniform(4, 20.0, &low));
        let found = findings(&machine, run);
        assert_eq!((found[0].severity, found[0].kind), (Warning, Fault));
        assert_eq!(found[0].subjects, ["GPU3"]);
    }

    #[test]
    fn a_pair_that_we_measured_far_below_its_class_is_slow() {
        let of = |tool, rate| {
            let mut machine = captured(boxes(&[4], false));
            let mut measured = uniform(4, 20.0, &[(0, 1, rate)]);
            measured.origin.tool = tool;
            machine.matrices.push(measured);
            findings(&machine, run).into_iter().map(|f| (f.kind, f.severity, f.certainty)).collect::<Vec<_>>()
        };
        let ours = peerlane_measure::run::TOOL;
        assert_eq!(of(ours, 17.4), [(Fault, Error, Likely)]);
        assert_eq!(of(ours, 18.6), [(Measurement, Info, Possible)]);
        assert_eq!(of("p2pBandwidthLatencyTest", 17.4), [(Measurement, Info, Possible)]);
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
            ["Rates of GPU2 are up to 50 % below those of the other pairs: 12.90 compared with 25.90 GB/s"]
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
        assert_eq!((found[0].severity, found[0].kind), (Warning, Measurement));
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
