//! Rates that change between allocations or samples, and the GPU that they have in common.

use super::culprit::blame;
use super::prelude::*;
use peerlane_machine::names::is_host;
use peerlane_machine::transfer::Transfer;
use peerlane_machine::units::Rate;
use peerlane_measure::plan::Work;
use peerlane_measure::run::{self, FlagKind};

pub(super) const RULE: Rule = Rule::new("unsteady-rate", Many(run));

/// From here on it is a warning.
const MUCH: f64 = 0.25;

/// Where this share of all numbers changes, the machine was busy or the noise is great.
const MANY: f64 = 0.5;

/// A number with the share that it changes by.
struct Judged<'a> {
    measured: &'a run::Cell,
    /// How many transfers it is of: one, or a pair both ways.
    transfers: usize,
    cell: Cell,
    by: f64,
}

fn run(view: &View) -> Vec<Raised> {
    let Some(run) = view.case.run() else { return Vec::new() };
    let mut judged: Vec<Judged> = run.cells.iter().filter_map(|cell| judge(view, cell)).collect();
    let is_unsteady = |j: &Judged| j.by > view.settings.unsteady_rate.apart;
    let count = judged.iter().filter(|j| is_unsteady(j)).count();
    if count == 0 || count as f64 > MANY * judged.len() as f64 && view.gpu_pairs().len() > 1 {
        return Vec::new();
    }
    // a pair one way may be steady where both ways are not: only cells of as many transfers are compared
    if judged.iter().filter(|j| is_unsteady(j)).all(|j| j.transfers > 1) {
        judged.retain(|j| j.transfers > 1);
    }
    let cells: Vec<Cell> = judged.iter().map(|j| j.cell).collect();
    let unsteady: Vec<bool> = judged.iter().map(is_unsteady).collect();
    let members = |at: &[usize]| at.iter().filter_map(|i| judged.get(*i)).collect::<Vec<_>>();
    let groups = blame(&cells, &unsteady);
    groups.iter().filter_map(|g| report(view, g.culprit.map(|(end, _)| end), &members(&g.cells))).collect()
}

/// A number of one pair. Of sets that share a memory, where their buffers are matters on every machine.
fn judge<'a>(view: &View, measured: &'a run::Cell) -> Option<Judged<'a>> {
    let Work::Transfers(all) = &measured.work else { return None };
    let transfer = match all.as_slice() {
        [one] => one,
        [one, back] if *back == one.reversed() => one,
        _ => return None,
    };
    let end = |name: &str| match view.fabric().find(name) {
        Some(id) => Some(End::Node(id)),
        None => is_host(name).then_some(End::Host),
    };
    let (from, to) = (end(&transfer.source)?, end(&transfer.destination)?);
    // blame does not look at positions
    let cell = Cell { i: 0, j: 0, from, to, rate: Rate::from_gb(measured.value()?) };
    (from != to).then(|| Judged { measured, transfers: all.len(), cell, by: change(measured) })
}

/// By what share of the highest a cell's levels differ; 0 where it has one level.
fn change(cell: &run::Cell) -> f64 {
    if cell.flag(FlagKind::Modes).is_none() {
        return 0.0;
    }
    let (low, high) = cell.modes.iter().fold((f64::MAX, 0.0_f64), |(l, h), m| (l.min(*m), h.max(*m)));
    if high > 0.0 && low <= high { 1.0 - low / high } else { 0.0 }
}

fn report(view: &View, culprit: Option<End>, unsteady: &[&Judged]) -> Option<Raised> {
    let worst = highest(unsteady, |u| u.by)?;
    let pair = |work: &Work| match work {
        Work::Transfers(all) => all.first().map(|t: &Transfer| Subject::Pair(t.source.clone(), t.destination.clone())),
        _ => None,
    };
    let (who, subjects) = match culprit {
        Some(End::Node(id)) => (format!("{} rates of {}", unsteady.len(), view.name(id)), vec![view.node(id)]),
        _ => {
            let pairs: Vec<String> = unsteady.iter().map(|u| run::ends(&u.measured.work)).collect();
            let subjects = distinct(unsteady.iter().filter_map(|u| pair(&u.measured.work)));
            (format!("{} rates ({})", unsteady.len(), list(&pairs)), subjects)
        }
    };
    let levels: Vec<String> = worst.measured.modes.iter().map(|m| format!("{m:.2}")).collect();
    let flag = worst.measured.flag(FlagKind::Modes).map_or("", |f| f.detail.as_str());
    let raised = RULE
        .raise(Measurement, if worst.by >= MUCH { Warning } else { Info }, Likely)
        .summary(format!("{who} have several levels, up to {} apart", percent(worst.by)))
        .expected(format!("one level: samples and allocations within {}", percent(view.settings.unsteady_rate.apart)))
        .measured(format!("{}: {} GB/s ({flag})", run::ends(&worst.measured.work), levels.join(", ")))
        .evidence(view.cite_run())
        .fix(
            "If the rate depends on where memory is allocated, allocate once and keep it, and compare medians of several \
             allocations. If it follows one GPU, check its clocks and what else uses it.",
        )
        .confirm(confirm::pairs("pairs,pairs-both", &subjects))
        .about(subjects)
        .losing(worst.by);
    Some(raised)
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
        assert_eq!((found.len(), found[0].kind), (1, Measurement));
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
