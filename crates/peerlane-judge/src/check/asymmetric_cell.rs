//! A cell that differs from its mirror: in a bidirectional matrix both sum the same two directions, so
//! one of them is noise.

use std::collections::HashMap;

use super::prelude::*;

pub(super) const RULE: Rule = Rule::new("asymmetric-cell", Many(run));

/// From here on a difference between two directions is a warning.
const MUCH: f64 = 0.40;

/// The other pairs of the class must agree this much better than the outlier.
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
    let is_outlier =
        |m: &&Mirrored| m.difference > threshold && usual(&mirrored, m).unwrap_or(0.0) <= BETTER * m.difference;
    let mut outliers: Vec<&Mirrored> = mirrored.iter().filter(is_outlier).collect();
    outliers.sort_by(|a, b| b.difference.total_cmp(&a.difference));
    let worst = outliers.first()?;
    let subjects: Vec<Subject> = outliers.iter().map(|m| view.subject(matrix, &m.one)).collect();
    let has_like = others(&mirrored, worst).any(|m| m.class == worst.class);
    let class = worst.class.filter(|_| has_like).map_or("other".to_owned(), |c| c.to_string());
    let peers = usual(&mirrored, worst)
        .map_or(String::new(), |median| format!("; {class} pairs differ by {} (median)", percent(median)));
    let why = if summed { ", although each cell sums both" } else { "" };
    let between = view.between(matrix, outliers.iter().map(|m| &m.one));
    let limit = percent(threshold);
    let raised = RULE
        .raise(Measurement, if summed || worst.difference >= MUCH { Warning } else { Info }, Likely)
        .summary(format!(
            "The rates of the two directions between {between} differ by up to {}{why}",
            percent(worst.difference)
        ))
        .expected(format!("the two directions within {limit} of each other{peers}"))
        .measured(format!(
            "{} {} and {} {} ({}){}",
            view.arrow(matrix, &worst.one),
            worst.one.rate,
            view.arrow(matrix, &worst.other),
            worst.other.rate,
            matrix.describe(),
            range_of_class(&mirrored, worst)
        ))
        .evidence(view.cite_matrix(measured))
        .fix(if summed {
            "Measure again several times on an idle machine; until then, ignore the outlier."
        } else {
            "Measure again on an idle machine. If the difference remains, look for what treats the directions \
             differently: ACS on one port, a switch that forwards posted writes slowly, a GPU in use."
        })
        .confirm(confirm::pairs("pairs-both", &subjects))
        .about(subjects);
    Some(raised)
}

fn mirrors(view: &View, cells: &[Cell]) -> Vec<Mirrored> {
    let by_nodes: HashMap<(NodeId, NodeId), &Cell> = cells.iter().filter_map(|c| Some((c.nodes()?, c))).collect();
    let mirrored = |one: &Cell| {
        let (a, b) = one.nodes().filter(|(a, b)| a < b)?;
        let other = *by_nodes.get(&(b, a))?;
        let (x, y) = (one.rate.gb(), other.rate.gb());
        let difference = (x - y).abs() / x.max(y);
        Some(Mirrored { class: view.class(a, b), one: *one, other: *other, difference })
    };
    cells.iter().filter_map(mirrored).collect()
}

fn others<'m>(all: &'m [Mirrored], one: &Mirrored) -> impl Iterator<Item = &'m Mirrored> {
    all.iter().filter(move |m| !std::ptr::eq(*m, one))
}

/// The range of the other pairs of the same class, as the end of a sentence; empty where there are none.
fn range_of_class(all: &[Mirrored], outlier: &Mirrored) -> String {
    let same = others(all, outlier).filter(|m| m.class == outlier.class);
    let rates: Vec<f64> = same.flat_map(|m| [m.one.rate.gb(), m.other.rate.gb()]).collect();
    let (low, high) = rates.iter().fold((f64::INFINITY, 0.0_f64), |(l, h), r| (l.min(*r), h.max(*r)));
    match outlier.class {
        Some(class) if !rates.is_empty() => format!("; the other {class} pairs have {low:.2} to {high:.2}"),
        _ => String::new(),
    }
}

/// The median difference of the other pairs of the same class, or of all others where the class has none; `None` without
/// other pairs.
fn usual(all: &[Mirrored], one: &Mirrored) -> Option<f64> {
    median(others(all, one).filter(|m| m.class == one.class).map(|m| m.difference))
        .or_else(|| median(others(all, one).map(|m| m.difference)))
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
    fn one_outlier_among_agreeing_cells() {
        let mut machine = captured(boxes(&[2, 2], false));
        machine.matrices.push(summed(uniform(4, 12.0, &[(1, 2, 17.07), (2, 1, 12.17), (0, 3, 12.4)])));
        let found = findings(&machine, run);
        assert_eq!((found.len(), found[0].severity), (1, Warning));
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
        assert_eq!(expected(2), "the two directions within 10 % of each other");
        assert_eq!(expected(3), "the two directions within 10 % of each other; PHB pairs differ by 0 % (median)");
    }

    #[test]
    fn noise_everywhere_is_no_outlier() {
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
        assert_eq!(findings(&machine, run)[0].severity, Info);
    }
}
