//! Rates far below what the path should give, and which narrower link they fit.

use std::collections::BTreeMap;

use super::confirm;
use super::culprit::{Group, Role, blame};
use super::view::{Cell, End, Raised, View, expected_rate, one_way, sureness};
use super::words::percent;
use super::{Certainty, Cost, Finding, FindingKind, Rule, Severity, narrow_link};
use crate::evidence::Matrix;
use crate::expectation::ExpectedMatrix;
use crate::fabric::{LinkId, LinkKind, PcieGeneration, PcieWidth};
use crate::machine::Observed;
use crate::units::Rate;

pub(super) const RULE: Rule = Rule { id: "slow-path", breaks: false, run };

/// Below this share of the expectation a rate is slow. The model meets published tables to 13 % at worst;
/// run-to-run spread of staged copies comes on top.
const SLOW: f64 = 0.75;

/// The same for copies through host memory, whose rate hangs on chunk sizes, memory and CPU: one published table
/// spans a factor of two over alike pairs.
const SLOW_STAGED: f64 = 0.5;

/// Below this share it is an error.
const VERY_SLOW: f64 = 0.25;

/// Share of a link's raw rate that large copies reach: 64-byte packets at the low end (0.645 at Gen3 x16), 256-byte
/// reads over x1 at the high end (0.89). Neugebauer et al., "Understanding PCIe performance for end host
/// networking", SIGCOMM 2018.
const PAYLOAD: std::ops::Range<f64> = 0.64..0.92;

/// A number with what should stand in its place.
struct Slow<'m> {
    matrix: &'m Matrix,
    observed: Option<&'m Observed>,
    cell: Cell,
    expected: Rate,
    bottleneck: Option<&'m str>,
}

impl Slow<'_> {
    fn share(&self) -> f64 {
        self.cell.rate.bytes_per_second() / self.expected.bytes_per_second()
    }
}

fn run(view: &View) -> Vec<Raised> {
    let narrow = narrow_link::links(view);
    // a link that narrow-link reports explains what is slow behind it
    let explained = |matrix: &Matrix, cell: &Cell| {
        !narrow.is_empty()
            && view.path(cell, matrix.p2p).is_some_and(|p| p.hops.iter().any(|h| narrow.contains(&h.link)))
    };
    let mut raised = Vec::new();
    for (at, observed) in view.bandwidths() {
        let Some(Some(expected)) = view.expected.get(at) else { continue };
        let matrix = &observed.matrix;
        let cells = view.cells(matrix);
        let judged: Vec<(Cell, Option<Rate>)> = cells.iter().map(|c| (*c, expected_rate(expected, c))).collect();
        let bad: Vec<bool> = judged
            .iter()
            .map(|(cell, rate)| {
                rate.is_some_and(|rate| is_slow(view, matrix, cell, cell.rate, rate)) && !explained(matrix, cell)
            })
            .collect();
        for group in split(&cells, &bad, expected) {
            let slow = group.cells.iter().filter_map(|at| {
                let (cell, rate) = judged.get(*at)?;
                let bottleneck = bottleneck(expected, cell);
                Some(Slow { matrix, observed: Some(observed), cell: *cell, expected: (*rate)?, bottleneck })
            });
            raised.extend(report(view, group.culprit, &slow.collect::<Vec<_>>()));
        }
    }
    for stated in &view.stated {
        let Some(expected) = &stated.expected else { continue };
        // the figure is of a set: slow only if even its highest value is too low for every transfer of the set
        let unit = stated.statement.unit;
        let Some(high) = unit.rate(stated.statement.high) else { continue };
        let slow: Option<Vec<Slow>> = view
            .cells(&stated.matrix)
            .into_iter()
            .map(|cell| {
                let rate =
                    expected_rate(expected, &cell).filter(|rate| is_slow(view, &stated.matrix, &cell, high, *rate))?;
                let fresh = !explained(&stated.matrix, &cell);
                let bottleneck = bottleneck(expected, &cell);
                fresh.then_some(Slow { matrix: &stated.matrix, observed: None, cell, expected: rate, bottleneck })
            })
            .collect();
        raised.extend(slow.and_then(|slow| report(view, None, &slow)));
    }
    raised
}

/// Whether a rate in the cell's place is too far below the expectation.
fn is_slow(view: &View, matrix: &Matrix, cell: &Cell, rate: Rate, expected: Rate) -> bool {
    let refused = || cell.nodes().is_some_and(|(a, b)| view.p2p_works(a, b) == Some(false));
    let share = if matrix.p2p == Some(false) || refused() { SLOW_STAGED } else { SLOW };
    rate.bytes_per_second() < share * expected.bytes_per_second()
}

fn bottleneck<'m>(expected: &'m ExpectedMatrix, cell: &Cell) -> Option<&'m str> {
    expected.bottlenecks.get(cell.i)?.get(cell.j)?.as_deref()
}

/// By the node that explains them; what is left, by what binds them.
fn split(cells: &[Cell], bad: &[bool], expected: &ExpectedMatrix) -> Vec<Group> {
    let mut groups = Vec::new();
    for group in blame(cells, bad) {
        if group.culprit.is_some() {
            groups.push(group);
            continue;
        }
        let mut by_bottleneck: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for at in group.cells {
            let binds = cells.get(at).and_then(|c| bottleneck(expected, c)).unwrap_or_default();
            by_bottleneck.entry(binds).or_default().push(at);
        }
        groups.extend(by_bottleneck.into_values().map(|cells| Group { culprit: None, cells }));
    }
    groups
}

fn report(view: &View, culprit: Option<(End, Role)>, slow: &[Slow]) -> Option<Raised> {
    let worst = slow.iter().min_by(|a, b| a.share().total_cmp(&b.share()))?;
    let best = slow.iter().map(Slow::share).fold(worst.share(), f64::max);
    let count = slow.len();
    let (what, subjects) = match culprit {
        Some((End::Node(id), role)) => {
            let name = view.name(id);
            (format!("{count} rates {} {name}", role.preposition()), vec![name.to_owned()])
        }
        _ => {
            let pairs = slow.iter().map(|s| view.subject(s.matrix, &s.cell)).collect();
            let between = view.between(worst.matrix, slow.iter().map(|s| &s.cell));
            (format!("Rates between {between}"), pairs)
        }
    };
    let reach = if best - worst.share() < 0.01 {
        percent(best)
    } else {
        format!("{:.0} to {}", worst.share() * 100.0, percent(best))
    };
    let fits = fits(view, worst);
    let hint = if fits.is_empty() {
        String::new()
    } else {
        format!("; {} is what {} gives", one_way(worst.matrix, worst.cell.rate), fits.join(" or "))
    };
    let because = worst.bottleneck.filter(|b| !b.is_empty()).map_or(String::new(), |b| format!(", bound by {b}"));
    let evidence = match worst.observed {
        Some(observed) => view.cite_matrix(observed),
        None => view.cite([]),
    };
    let mend = if fits.is_empty() {
        "Measure again on an idle machine; then look at power and thermal limits, ACS and IOMMU settings on the way, and \
         the NUMA binding of host buffers."
    } else {
        "Read the width of the links on the way under load (`nvidia-smi -q`, `lspci -vv`), and reseat or move the card \
         whose link is narrow."
    };
    let finding = Finding {
        rule: RULE.id.to_owned(),
        certainty: Certainty::Likely,
        confirm: confirm::pairs("pairs,host", &subjects),
        cost: Cost::of_rate(worst.expected.gb(), worst.cell.rate.gb()),
        kind: FindingKind::Fault,
        severity: if worst.share() < VERY_SLOW { Severity::Error } else { Severity::Warning },
        subjects,
        summary: format!("{what} reach {reach} of what the path should give{hint}"),
        expected: format!("{} {}{because}", view.arrow(worst.matrix, &worst.cell), worst.expected),
        observed: format!(
            "{} {} ({}{})",
            view.arrow(worst.matrix, &worst.cell),
            worst.cell.rate,
            worst.matrix.describe(),
            worst.observed.map(|o| sureness(o, &worst.cell)).unwrap_or_default()
        ),
        evidence,
        mend: mend.to_owned(),
    };
    Some(Raised { finding, loss: 1.0 - worst.share() })
}

/// The narrower PCIe links whose payload rate the slow cell has: fewer lanes of the same generation, or the
/// same lanes at a lower one, of the narrowest link on its way.
fn fits(view: &View, slow: &Slow) -> Vec<String> {
    let rate = one_way(slow.matrix, slow.cell.rate).bytes_per_second();
    let hops = view.path(&slow.cell, slow.matrix.p2p).map(|p| p.hops).unwrap_or_default();
    let known = |link: LinkId| match &view.fabric().link(link).kind {
        LinkKind::Pcie { running, allowed, .. } => {
            let width = if view.is_captured() && allowed.raw_rate().is_some() { *allowed } else { *running };
            Some((width, width.raw_rate()?))
        }
        _ => None,
    };
    let narrowest = hops
        .iter()
        .filter_map(|hop| known(hop.link))
        .min_by(|(_, a), (_, b)| a.bytes_per_second().total_cmp(&b.bytes_per_second()));
    let Some((width, _)) = narrowest else { return Vec::new() };
    let (Some(generation), Some(lanes)) = (width.generation, width.lanes) else { return Vec::new() };
    let fewer = [1, 2, 4, 8, 16].into_iter().filter(|n| *n < lanes).map(|n| PcieWidth::new(generation, n));
    let older = PcieGeneration::ALL.into_iter().filter(|g| *g < generation).map(|g| PcieWidth::new(g, lanes));
    let mut fitting = Vec::new();
    for width in fewer.chain(older) {
        if width.raw_rate().is_some_and(|raw| PAYLOAD.contains(&(rate / raw.bytes_per_second()))) {
            fitting.push(format!("PCIe {width}"));
        }
    }
    fitting
}

#[cfg(test)]
mod tests {
    use super::super::testing::{matrix, pcie, see, switched, uniform, with_link};
    use super::*;
    use crate::machine::Machine;

    /// The expectation of `value` everywhere.
    fn expect(observed: &Observed, value: Option<f64>) -> ExpectedMatrix {
        let m = &observed.matrix;
        ExpectedMatrix {
            quantity: m.quantity,
            direction: m.direction,
            p2p: m.p2p,
            op: m.op,
            engine: m.engine,
            unit: m.unit,
            rows: m.rows.clone(),
            cols: m.cols.clone(),
            values: m.values.iter().map(|r| r.iter().map(|_| value).collect()).collect(),
            low: Vec::new(),
            high: Vec::new(),
            bottlenecks: m.values.iter().map(|r| r.iter().map(|_| Some("the switch".to_owned())).collect()).collect(),
        }
    }

    fn findings(machine: &Machine, value: Option<f64>) -> Vec<Finding> {
        see(machine, |view| {
            view.expected = machine.matrices.iter().map(|o| Some(expect(o, value))).collect();
            run(view).into_iter().map(|r| r.finding).collect()
        })
    }

    #[test]
    fn a_slow_gpu_is_named_with_the_link_it_fits() {
        let mut machine = switched(3);
        machine.matrices.push(matrix(&[&[0.0, 12.9, 0.75], &[12.9, 0.0, 0.75], &[0.75, 0.75, 0.0]]));
        let found = findings(&machine, Some(13.0));
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].subjects.as_slice(), found[0].severity), (&["GPU2".to_owned()][..], Severity::Error));
        assert!(found[0].summary.ends_with("0.75 GB/s is what PCIe 3.0 x1 gives"), "{}", found[0].summary);
        assert!(found[0].expected.contains("the switch"));
    }

    #[test]
    fn staged_copies_may_be_slower() {
        let mut machine = switched(2);
        machine.matrices.push(uniform(2, 8.0, &[]));
        assert_eq!(findings(&machine, Some(13.0)).len(), 1);
        machine.matrices[0].matrix.p2p = Some(false);
        assert!(findings(&machine, Some(13.0)).is_empty());
    }

    #[test]
    fn cells_of_one_bottleneck_are_one_finding() {
        let mut machine = switched(4);
        machine.matrices.push(uniform(4, 13.0, &[(0, 1, 6.0), (2, 3, 5.0)]));
        let found = findings(&machine, Some(13.0));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].subjects, ["GPU0-GPU1", "GPU2-GPU3"]);
        assert_eq!(found[0].severity, Severity::Warning);
    }

    #[test]
    fn unknown_met_and_explained_rates_are_silent() {
        let mut machine = switched(3);
        machine.matrices.push(uniform(3, 0.8, &[]));
        assert!(findings(&machine, None).is_empty());
        assert!(findings(&machine, Some(0.8)).is_empty());
        for gpu in ["GPU0", "GPU1", "GPU2"] {
            with_link(&mut machine, gpu, pcie("3.0 x1", "3.0 x16"));
        }
        assert!(findings(&machine, Some(13.0)).is_empty());
    }
}
