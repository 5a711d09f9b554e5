//! Rates that change from one allocation or sample to the next, and the GPU that they have in common.

use super::culprit::blame;
use super::from_run::measured;
use super::view::{Cell, End, Raised, View};
use super::words::percent;
use super::{Certainty, Finding, FindingKind, Rule, Severity, confirm};
use peerlane_machine::names::is_host;
use peerlane_machine::subject::Subject;
use peerlane_machine::transfer::Transfer;
use peerlane_machine::units::Rate;
use peerlane_measure::plan::Work;
use peerlane_measure::run::{self, FlagKind};

pub(super) const RULE: Rule = Rule { id: "unsteady-rate", breaks: false, run };

/// From here on it is a warning.
const MUCH: f64 = 0.25;

/// Where this share of all numbers changes, the machine was busy or the noise is great.
const MANY: f64 = 0.5;

/// A number with the share that it changes by.
struct Unsteady<'a> {
    cell: &'a run::Cell,
    by: f64,
}

fn run(view: &View) -> Vec<Raised> {
    let Some(measured) = measured(view) else { return Vec::new() };
    // of sets that share a memory, where theirs lies matters on every machine
    let of_one_pair = |cell: &&run::Cell| match &cell.work {
        Work::Transfers(all) => match all.as_slice() {
            [_] => true,
            [one, back] => *back == one.reversed(),
            _ => false,
        },
        _ => false,
    };
    let (mut cells, mut judged) = (Vec::new(), Vec::new());
    for (i, cell) in measured.cells.iter().filter(of_one_pair).enumerate() {
        let (Work::Transfers(all), Some(value)) = (&cell.work, cell.value()) else { continue };
        let Some((from, to)) = all.first().and_then(|t| ends(view, t)) else { continue };
        // positions are of no matter to who is to blame
        cells.push(Cell { i, j: 0, from, to, rate: Rate::from_gb(value) });
        judged.push(Unsteady { cell, by: change(cell) });
    }
    let unsteady: Vec<bool> = judged.iter().map(|u| u.by > view.settings.unsteady_rate.apart).collect();
    let count = unsteady.iter().filter(|u| **u).count();
    if count == 0 || count as f64 > MANY * judged.len() as f64 && view.gpu_pairs().len() > 1 {
        return Vec::new();
    }
    // a pair one way is steady where both ways are not: only cells of as many transfers are compared
    let several = |u: &&Unsteady| matches!(&u.cell.work, Work::Transfers(all) if all.len() > 1);
    let only_both = judged.iter().zip(&unsteady).filter(|(_, bad)| **bad).all(|(u, _)| several(&u));
    let kept: Vec<usize> =
        (0..judged.len()).filter(|i| !only_both || judged.get(*i).as_ref().is_some_and(several)).collect();
    let cells: Vec<Cell> = kept.iter().filter_map(|i| cells.get(*i).copied()).collect();
    let bad: Vec<bool> = kept.iter().filter_map(|i| unsteady.get(*i).copied()).collect();
    let groups = blame(&cells, &bad);
    let members = |at: &[usize]| at.iter().filter_map(|i| judged.get(*kept.get(*i)?)).collect::<Vec<_>>();
    groups.iter().filter_map(|g| report(view, g.culprit.map(|(end, _)| end), &members(&g.cells))).collect()
}

fn ends(view: &View, transfer: &Transfer) -> Option<(End, End)> {
    let end = |name: &str| match view.fabric().find(name) {
        Some(id) => Some(End::Node(id)),
        None => is_host(name).then_some(End::Host),
    };
    Some((end(&transfer.source)?, end(&transfer.destination)?)).filter(|(a, b)| a != b)
}

/// The pair that transfers are between.
fn pair(work: &Work) -> Option<Subject> {
    let Work::Transfers(all) = work else { return None };
    all.first().map(|t| Subject::Pair(t.source.clone(), t.destination.clone()))
}

/// By what share of the highest a cell's levels differ; 0 where it has one level.
fn change(cell: &run::Cell) -> f64 {
    if cell.flag(FlagKind::Modes).is_none() {
        return 0.0;
    }
    let (low, high) = cell.modes.iter().fold((f64::MAX, 0.0_f64), |(l, h), m| (l.min(*m), h.max(*m)));
    if high > 0.0 && low <= high { 1.0 - low / high } else { 0.0 }
}

fn report(view: &View, culprit: Option<End>, unsteady: &[&Unsteady]) -> Option<Raised> {
    let worst = unsteady.iter().max_by(|a, b| a.by.total_cmp(&b.by))?;
    let pairs: Vec<String> = unsteady.iter().map(|u| run::ends(&u.cell.work)).collect();
    let (who, subjects) = match culprit {
        Some(End::Node(id)) => (format!("{} rates of {}", unsteady.len(), view.name(id)), vec![view.node(id)]),
        _ => {
            let mut subjects: Vec<Subject> = unsteady.iter().filter_map(|u| pair(&u.cell.work)).collect();
            subjects.dedup();
            (format!("{} rates ({})", unsteady.len(), super::words::list(&pairs)), subjects)
        }
    };
    let levels: Vec<String> = worst.cell.modes.iter().map(|m| format!("{m:.2}")).collect();
    let flag = worst.cell.flag(FlagKind::Modes).map_or("", |f| f.detail.as_str());
    let finding = Finding {
        summary: format!("{who} have several levels, up to {} apart", percent(worst.by)),
        expected: format!("one level: samples and allocations within {}", percent(view.settings.unsteady_rate.apart)),
        measured: format!("{}: {} GB/s ({flag})", run::ends(&worst.cell.work), levels.join(", ")),
        evidence: view.cite(view.case.run.iter().map(|recorded| &recorded.origin)),
        fix: "Where a rate hangs on where memory lies, allocate once and keep it, and compare medians of several \
               allocations. If it goes with one GPU, look at its clocks and at who else uses it."
            .to_owned(),
        confirm: confirm::pairs("pairs,pairs-both", &subjects),
        ..Finding::of(
            &RULE,
            FindingKind::Measurement,
            if worst.by >= MUCH { Severity::Warning } else { Severity::Info },
            Certainty::Likely,
            subjects,
        )
    };
    Some(Raised::new(finding, worst.by))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, measured, switched};
    use super::*;
    use peerlane_design::case::Case;
    use peerlane_measure::run::Flag;

    fn with_levels(levels: &[(usize, [f64; 2])]) -> Case {
        let pairs = [
            ("GPU0", "GPU1"),
            ("GPU1", "GPU0"),
            ("GPU0", "GPU2"),
            ("GPU2", "GPU0"),
            ("GPU1", "GPU2"),
            ("GPU2", "GPU1"),
        ];
        let mut case = measured(switched(3), pairs.map(|p| (p, Ok(12.0))));
        let cells = &mut case.run.as_mut().unwrap().run.cells;
        for (at, modes) in levels {
            cells[*at].modes = modes.to_vec();
            cells[*at].flags = vec![Flag::new(FlagKind::Modes, "samples fall into groups")];
        }
        case
    }

    #[test]
    fn levels_of_one_gpu_name_it() {
        let two = [10.0, 12.0];
        let found = findings(&with_levels(&[(2, two), (3, two), (4, two)]), run);
        assert_eq!((found.len(), found[0].kind), (1, FindingKind::Measurement));
        assert_eq!(found[0].subjects, ["GPU2"]);
        assert!(found[0].measured.contains("10.00, 12.00 GB/s"), "{}", found[0].measured);
    }

    #[test]
    fn small_changes_and_a_noisy_machine_are_silent() {
        assert!(findings(&with_levels(&[(2, [11.8, 12.0])]), run).is_empty());
        let all: Vec<(usize, [f64; 2])> = (0..6).map(|i| (i, [10.0, 12.0])).collect();
        assert!(findings(&with_levels(&all), run).is_empty());
    }
}
