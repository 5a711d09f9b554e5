//! A cell that differs from its mirror: in a bidirectional matrix both sum the same two directions, so
//! one of them is noise.

use super::confirm;
use super::view::{Cell, Raised, View};
use super::words::{median, percent};
use super::{Certainty, Finding, FindingKind, Rule, Severity};
use peerlane_machine::fabric::{NodeId, PathClass};
use peerlane_machine::machine::SourcedMatrix;
use peerlane_machine::matrix::Direction;
use peerlane_machine::subject::Subject;

pub(super) const RULE: Rule = Rule { id: "asymmetric-cell", breaks: false, run };

/// From here on a difference between two directions is no info any more.
const MUCH: f64 = 0.40;

/// The other pairs of the class must agree this much better than the odd one.
const BETTER: f64 = 0.5;

/// A cell with its mirror.
struct Mirrored {
    class: Option<PathClass>,
    one: Cell,
    other: Cell,
    /// Difference as a share of the greater.
    difference: f64,
}

fn run(view: &View) -> Vec<Raised> {
    view.bandwidths().filter_map(|(_, measured)| judge(view, measured)).collect()
}

fn judge(view: &View, measured: &SourcedMatrix) -> Option<Raised> {
    let matrix = &measured.matrix;
    let summed = match matrix.direction? {
        Direction::Bidirectional => true,
        Direction::Unidirectional => false,
        // one direction's share while both run: either may get more
        Direction::BidirectionalShare => return None,
    };
    let mirrored = mirrors(view, &view.gpu_cells(matrix));
    let limits = view.settings.asymmetric_cell;
    let threshold = if summed { limits.both_ways } else { limits.one_way };
    let mut odd: Vec<&Mirrored> = mirrored
        .iter()
        .enumerate()
        .filter(|(at, m)| m.difference > threshold && usual(&mirrored, *at).unwrap_or(0.0) <= BETTER * m.difference)
        .map(|(_, m)| m)
        .collect();
    odd.sort_by(|a, b| b.difference.total_cmp(&a.difference));
    let worst = odd.first()?;
    let subjects: Vec<Subject> = odd.iter().map(|m| view.subject(matrix, &m.one)).collect();
    let has_like = mirrored.iter().any(|m| m.class == worst.class && !std::ptr::eq(m, *worst));
    let class = worst.class.filter(|_| has_like).map_or("other".to_owned(), |c| c.to_string());
    let peers = mirrored.iter().position(|m| std::ptr::eq(m, *worst)).and_then(|at| usual(&mirrored, at));
    let peers = peers.map_or(String::new(), |median| format!("; {class} pairs differ by {} (median)", percent(median)));
    let why = if summed { ", although both sum the same two directions" } else { "" };
    let between = view.between(matrix, odd.iter().map(|m| &m.one));
    let limit = percent(threshold);
    let finding = Finding {
        rule: RULE.id.to_owned(),
            certainty: Certainty::Likely,
            confirm: confirm::pairs("pairs-both", &subjects),
            cost: None,
        kind: FindingKind::Measurement,
        severity: if summed || worst.difference >= MUCH { Severity::Warning } else { Severity::Info },
        summary: format!(
            "Between {between} a cell and its mirror differ by up to {}{why}",
            percent(worst.difference)
        ),
        subjects,
        expected: format!("cell and mirror within {limit}{peers}"),
        measured: format!(
            "{} {} and {} {} ({}){}",
            view.arrow(matrix, &worst.one),
            worst.one.rate,
            view.arrow(matrix, &worst.other),
            worst.other.rate,
            matrix.describe(),
            others(&mirrored, worst)
        ),
        evidence: view.cite_matrix(measured),
        fix: if summed {
            "Measure again, several times and on an idle machine; leave the odd cell out until then."
        } else {
            "Measure again; if it stays, look for something that treats the two directions differently: ACS on one port, \
             a switch's posted writes, a busy GPU."
        }
        .to_owned(),
    };
    Some(Raised::new(finding, 0.0))
}

fn mirrors(view: &View, cells: &[Cell]) -> Vec<Mirrored> {
    let nodes = |c: &Cell| c.nodes();
    let by_nodes: std::collections::HashMap<(NodeId, NodeId), &Cell> =
        cells.iter().filter_map(|c| Some((nodes(c)?, c))).collect();
    cells
        .iter()
        .filter_map(|one| {
            let (a, b) = nodes(one).filter(|(a, b)| a < b)?;
            let other = *by_nodes.get(&(b, a))?;
            let (x, y) = (one.rate.gb(), other.rate.gb());
            let difference = (x - y).abs() / x.max(y);
            Some(Mirrored { class: view.class(a, b), one: *one, other: *other, difference })
        })
        .collect()
}

/// Between what the other pairs of the same class lie, as the end of a sentence; empty where there are none.
fn others(all: &[Mirrored], odd: &Mirrored) -> String {
    let same = all.iter().filter(|m| m.class == odd.class && !std::ptr::eq(*m, odd));
    let rates: Vec<f64> = same.flat_map(|m| [m.one.rate.gb(), m.other.rate.gb()]).collect();
    let (low, high) = rates.iter().fold((f64::INFINITY, 0.0_f64), |(l, h), r| (l.min(*r), h.max(*r)));
    match odd.class {
        Some(class) if !rates.is_empty() => format!("; the other {class} pairs have {low:.2} to {high:.2}"),
        _ => String::new(),
    }
}

/// The median difference of the other pairs of the same class, or of all others where the class has none; `None` without
/// other pairs.
fn usual(all: &[Mirrored], at: usize) -> Option<f64> {
    let class = all.get(at).and_then(|m| m.class);
    let others = || all.iter().enumerate().filter(move |(i, _)| *i != at).map(|(_, m)| m);
    median(others().filter(|m| m.class == class).map(|m| m.difference))
        .or_else(|| median(others().map(|m| m.difference)))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{boxes, captured, findings, uniform};
    use super::*;

    fn summed(mut measured: SourcedMatrix) -> SourcedMatrix {
        measured.matrix.direction = Some(Direction::Bidirectional);
        measured
    }

    #[test]
    fn one_odd_cell_among_agreeing_ones() {
        let mut machine = captured(boxes(&[2, 2], false));
        machine.matrices.push(summed(uniform(4, 12.0, &[(1, 2, 17.07), (2, 1, 12.17), (0, 3, 12.4)])));
        let found = findings(&machine, run);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
        assert_eq!(found[0].subjects, ["GPU1-GPU2"]);
        assert!(found[0].summary.contains("29 %"), "{}", found[0].summary);
    }

    #[test]
    fn two_gpus_have_no_other_pairs() {
        let expected = |gpus| {
            let mut machine = captured(boxes(&[gpus], false));
            machine.matrices.push(summed(uniform(gpus, 12.0, &[(0, 1, 17.0)])));
            findings(&machine, run).remove(0).expected
        };
        assert_eq!(expected(2), "cell and mirror within 10 %");
        assert_eq!(expected(3), "cell and mirror within 10 %; PHB pairs differ by 0 % (median)");
    }

    #[test]
    fn noise_all_over_is_no_odd_cell() {
        let mut machine = captured(boxes(&[3], false));
        machine.matrices.push(summed(uniform(3, 10.0, &[(0, 1, 12.0), (0, 2, 12.5), (1, 2, 12.2)])));
        assert!(findings(&machine, run).is_empty());
    }

    #[test]
    fn directions_may_differ_a_little() {
        let mut machine = captured(boxes(&[3], false));
        machine.matrices.push(uniform(3, 10.0, &[(0, 1, 8.5)]));
        assert!(findings(&machine, run).is_empty());
        machine.matrices.push(uniform(3, 10.0, &[(0, 1, 7.0)]));
        assert_eq!(findings(&machine, run)[0].severity, Severity::Info);
    }
}
