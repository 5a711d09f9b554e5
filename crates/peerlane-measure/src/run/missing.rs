//! What a record lacks of its plan, whatever it says of itself.

use std::collections::BTreeMap;
use std::fmt;

use super::{Cell, Flag, Limits, Run};

/// Steps that should have a value and have none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// How many.
    pub steps: usize,
    /// Steps of the plan.
    pub planned: usize,
}

impl Missing {
    /// Of so many steps of a plan; `None` where nothing is missing.
    pub fn of(steps: usize, planned: usize) -> Option<Self> {
        (steps > 0).then_some(Missing { steps, planned })
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Missing { steps, planned } = self;
        let have = if *steps == 1 { "has" } else { "have" };
        write!(f, "{steps} of {planned} planned steps {have} no value")
    }
}

/// Whether a step with such a cell needs no other: it has a value, or a flag says why it needs none.
pub(crate) fn is_settled(value: Option<f64>, flags: &[Flag]) -> bool {
    value.is_some() || flags.iter().any(|flag| flag.kind.settles())
}

impl Run {
    /// The steps without a value that they should have, by what this machine can be.
    pub fn missing(&self, limits: &Limits) -> Option<Missing> {
        let cells = limits.flagged(&self.cells);
        let mut settled: BTreeMap<usize, bool> = BTreeMap::new();
        for cell in cells.iter() {
            let all = settled.entry(cell.step).or_insert(true);
            *all &= is_settled(cell.value(), &cell.flags);
        }
        let done = self.steps_done();
        let planned = self.plan.steps().count();
        let has = |step: &usize| done.contains(step) && settled.get(step).copied().unwrap_or(false);
        Missing::of((0..planned).filter(|step| !has(step)).count(), planned)
    }

    /// Takes out the cells whose steps have to be measured again where the run is resumed.
    pub fn reopen(&mut self) {
        let settled = |cell: &Cell| is_settled(cell.value(), &cell.flags);
        let open: Vec<usize> = self.cells.iter().filter(|cell| !settled(cell)).map(|cell| cell.step).collect();
        self.cells.retain(|cell| !open.contains(&cell.step));
        self.complete &= open.is_empty();
    }
}

#[cfg(test)]
mod tests {
    use super::super::FlagKind;
    use super::super::testing::{cell, moving, run, void};
    use super::*;
    use crate::plan::Test;
    use peerlane_machine::transfer::Transfer;

    #[test]
    fn a_step_without_a_value_is_missing_whatever_the_record_says() {
        let steps = [("GPU0", "GPU1"), ("GPU1", "GPU0")].map(|(a, b)| moving(Test::Pairs, &[Transfer::new(a, b)]));
        let mut run = run("h200x4-vm", steps.to_vec());
        let machine = run.machine().unwrap();
        let limits = Limits::of(&machine);
        run.complete = true;
        let mut with = |second: Option<Cell>| {
            run.cells = [cell(0, &steps[0], 396.0)].into_iter().chain(second).collect();
            run.missing(&limits).map(|missing| missing.to_string())
        };
        let one = Some("1 of 2 planned steps has no value".to_owned());
        assert_eq!(with(Some(cell(1, &steps[1], 395.0))), None);
        assert_eq!(with(None), one);
        assert_eq!(with(Some(Cell { estimate: None, ..cell(1, &steps[1], 395.0) })), one, "no flag states why");
        for kind in [FlagKind::Failed, FlagKind::Hung, FlagKind::Implausible] {
            assert_eq!(with(Some(void(1, &steps[1], kind))), one, "{kind:?}");
        }
        for kind in [FlagKind::NotApplicable, FlagKind::Corrupt] {
            assert_eq!(with(Some(void(1, &steps[1], kind))), None, "{kind:?}");
        }
        for impossible in [-395.0, 0.0, f64::INFINITY, f64::NAN, 1e9] {
            assert_eq!(with(Some(cell(1, &steps[1], impossible))), one, "{impossible}");
        }
    }

    #[test]
    fn a_record_is_reopened_at_what_failed() {
        let steps = [("GPU0", "GPU1"), ("GPU1", "GPU0")].map(|(a, b)| moving(Test::Pairs, &[Transfer::new(a, b)]));
        let mut run = run("h200x4-vm", steps.to_vec());
        run.complete = true;
        run.cells = vec![cell(0, &steps[0], 396.0), void(1, &steps[1], FlagKind::Failed)];
        run.reopen();
        assert_eq!((run.cells.len(), run.complete), (1, false));
        run.cells.push(void(1, &steps[1], FlagKind::NotApplicable));
        run.complete = true;
        run.reopen();
        assert_eq!((run.cells.len(), run.complete), (2, true));
    }
}
