//! Sets of transfers that ran at once, each with its rate alone.

use std::collections::HashMap;

use super::Cell;
use crate::kinds::is_set;
use crate::plan::{Test, Work};
use peerlane_machine::matrix::{Quantity, Unit};
use peerlane_machine::transfer::Transfer;

/// Transfers that ran at once, other than a pair of opposite ones.
#[derive(Clone, Debug, PartialEq)]
pub struct TransferSet<'a> {
    /// The cell: its value is the sum of the set, its `each` has the transfers' own values in their order.
    pub cell: &'a Cell,
    /// The transfers.
    pub transfers: &'a [Transfer],
    /// What each of them reached alone in the same run, in the cell's unit, where that was measured.
    pub alone: Vec<Option<f64>>,
}

impl TransferSet<'_> {
    /// The sum of some members' rates as a share of the sum of what they reach alone; `None` where one of the numbers
    /// is not known.
    pub fn share_of_alone(&self, members: &[usize]) -> Option<f64> {
        self.cell.usable()?;
        let mut sums = (0.0, 0.0);
        for &at in members {
            sums.0 += self.each(at)?;
            sums.1 += self.alone.get(at).copied().flatten()?;
        }
        (sums.1 > 0.0).then(|| sums.0 / sums.1)
    }

    /// The rate of one member.
    pub fn each(&self, at: usize) -> Option<f64> {
        match self.transfers {
            // a set of one needs no list
            [_] => self.cell.value().filter(|_| at == 0),
            _ => self.cell.usable().and(self.cell.each.get(at)).map(|e| e.value),
        }
    }
}

/// The transfers of a cell that count as a set.
fn members(cell: &Cell) -> Option<&[Transfer]> {
    let Work::Transfers(transfers) = &cell.work else { return None };
    is_set(cell.test, transfers).then_some(transfers.as_slice())
}

/// The sets among the cells, in their order.
pub fn sets(cells: &[Cell]) -> Vec<TransferSet<'_>> {
    let mut alone: HashMap<(&Transfer, Unit), f64> = HashMap::new();
    let lone = |cell: &&Cell| cell.quantity == Quantity::Bandwidth && cell.test != Test::Sizes;
    let single = |cell: &&Cell| matches!(&cell.work, Work::Transfers(t) if t.len() == 1);
    // a family of lone transfers knows better than a set that happens to have one member
    let (of_sets, of_lone): (Vec<&Cell>, Vec<&Cell>) =
        cells.iter().filter(lone).filter(single).partition(|cell| members(cell).is_some());
    for cell in of_sets.into_iter().chain(of_lone) {
        if let (Work::Transfers(transfers), Some(value)) = (&cell.work, cell.value()) {
            alone.extend(transfers.iter().map(|t| ((t, cell.unit), value)));
        }
    }
    let set = |cell| {
        let transfers = members(cell)?;
        let alone = transfers.iter().map(|t| alone.get(&(t, cell.unit)).copied()).collect();
        Some(TransferSet { cell, transfers, alone })
    };
    cells.iter().filter_map(set).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cell, moving, void};
    use super::*;
    use crate::run::{Estimate, FlagKind};

    #[test]
    fn a_set_knows_what_its_members_reach_alone() {
        let to = |gpu: &str| Transfer::new("host", gpu);
        let steps = [
            moving(Test::Host, &[to("GPU0")]),
            moving(Test::Subsets, &[to("GPU0")]),
            moving(Test::Subsets, &[to("GPU1")]),
            moving(Test::AllHost, &[to("GPU0"), to("GPU1")]),
        ];
        let mut cells: Vec<Cell> = steps.iter().zip([50.0, 49.0, 48.0, 70.0]).map(|(s, v)| cell(0, s, v)).collect();
        let estimate = |value| Estimate { value, low: value, high: value };
        cells[3].each = vec![estimate(36.0), estimate(34.0)];
        let all = sets(&cells);
        assert_eq!(all.len(), 3);
        assert_eq!((all[0].each(0), all[0].share_of_alone(&[0])), (Some(49.0), Some(0.98)));
        assert_eq!(all[2].alone, [Some(50.0), Some(48.0)]);
        assert_eq!((all[2].each(1), all[2].each(2)), (Some(34.0), None));
        assert_eq!((all[2].share_of_alone(&[0]), all[2].share_of_alone(&[0, 1])), (Some(0.72), Some(70.0 / 98.0)));
        assert_eq!(sets(&cells[3..])[0].share_of_alone(&[0]), None);
        assert_eq!(sets(&[void(0, &steps[3], FlagKind::Hung)])[0].each(0), None);
    }
}
