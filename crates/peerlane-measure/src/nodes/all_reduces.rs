//! All-reduces of growing groups of nodes: where their rate drops, and which of the nodes that joined there it is.
//!
//! Each group has the nodes of the one before it and some more, so that a drop is theirs. To find the one, the group before is
//! measured again with half of those that joined, and so on.

use std::collections::BTreeSet;

use super::schedule::all_reduce;
use super::{Cell, Node, Step};

/// A group with less than this of what the group before it had, or of its share of what is expected, has a slow node among those
/// that joined. NCCL's own choices change its rate by up to a tenth from one number of nodes to the next.
const DROP: f64 = 0.8;

/// A drop of the rate.
pub struct Drop<'a> {
    /// The first group with it.
    pub cell: &'a Cell,
    /// The group before, if there is a smaller one.
    pub before: Option<&'a Cell>,
    /// The nodes that may be it: those that joined, less those with which a group was measured again and was fast. None are left where
    /// each was fast: then no single node is the cause.
    pub joined: Vec<usize>,
    /// Whether a group was measured again with just these, and was slow.
    pub shown: bool,
    /// What is left of the rate.
    pub left: f64,
}

/// The drops of a record's all-reduces, those of small groups first. `expected` is what a cell should reach, where that is known;
/// without it groups are compared with smaller ones alone.
pub fn drops<'a>(cells: &'a [Cell], expected: &dyn Fn(&Cell) -> Option<f64>) -> Vec<Drop<'a>> {
    let share = |cell: &Cell| Some(cell.value()? / expected(cell).unwrap_or(1.0));
    let known = |cell: &Cell| expected(cell).is_some();
    let (again, mut groups): (Vec<&Cell>, Vec<&Cell>) =
        cells.iter().filter(|cell| cell.step.is_among_many() && cell.value().is_some()).partition(|cell| cell.again);
    groups.sort_by_key(|cell| cell.step.nodes().count());
    let mut drops = Vec::new();
    let mut before: Option<&Cell> = None;
    for cell in groups {
        let usual = match before {
            Some(before) if known(before) == known(cell) => share(before),
            Some(_) => None,
            None => known(cell).then_some(1.0),
        };
        if let (Some(usual), Some(own)) = (usual, share(cell))
            && own < DROP * usual
        {
            let had: BTreeSet<usize> = before.iter().flat_map(|before| before.step.nodes()).collect();
            let mut joined: BTreeSet<usize> = cell.step.nodes().filter(|node| !had.contains(node)).collect();
            let (middle, mut shown) = ((own * usual).sqrt(), false);
            for tried in &again {
                let nodes: BTreeSet<usize> = tried.step.nodes().collect();
                let more: BTreeSet<usize> = nodes.difference(&had).copied().collect();
                if !had.is_subset(&nodes) || more.is_empty() || !more.iter().all(|node| joined.contains(node)) {
                    continue;
                }
                match share(tried) {
                    Some(share) if share < middle => (joined, shown) = (more, true),
                    Some(_) => {
                        joined.retain(|node| !more.contains(node));
                        shown = false;
                    }
                    None => {}
                }
            }
            drops.push(Drop { cell, before, joined: joined.into_iter().collect(), shown, left: own / usual });
        }
        before = Some(cell);
    }
    drops
}

/// The all-reduce that tells more of the nodes at which a rate drops; none where one is left, nothing dropped, or a node of `slow`
/// explains it.
pub(super) fn next(nodes: &[Node], cells: &[Cell], slow: &BTreeSet<usize>) -> Option<Step> {
    let open = |drop: &Drop| !drop.joined.iter().any(|node| slow.contains(node));
    drops(cells, &|_| None).into_iter().filter(open).find_map(|drop| {
        // half of them; a last one by itself, which may be left only because the others are fast
        let some = drop.joined.get(..drop.joined.len().div_ceil(2)).filter(|some| !some.is_empty())?;
        if drop.shown && some.len() == drop.joined.len() {
            return None;
        }
        let of: Vec<usize> = drop.before?.step.nodes().chain(some.iter().copied()).collect();
        let step = all_reduce(nodes, &of);
        // one that failed tells nothing, and is not tried again
        (!cells.iter().any(|cell| cell.step == step)).then_some(step)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Verdict;
    use crate::nodes::{NodeGpu, Samples};

    fn nodes(n: usize) -> Vec<Node> {
        let gpu = |at| NodeGpu { name: format!("GPU{at}"), product: "H200".to_owned(), address: None };
        (0..n)
            .map(|at| Node { host: format!("node{at}"), gpus: (0..8).map(gpu).collect(), ..Node::default() })
            .collect()
    }

    fn cell(step: Step, again: bool, slow: &[usize]) -> Cell {
        let rate = if step.nodes().any(|node| slow.contains(&node)) { 100e9 } else { 300e9 };
        Cell::of(step, 0, again, Ok(Samples { values: vec![rate; 8], verdict: Verdict::Intact }))
    }

    /// The groups of a schedule, then halves until one node is left; with how many halves.
    fn found(slow: &[usize]) -> (Vec<Vec<usize>>, usize) {
        let nodes = nodes(32);
        let group = |n: usize| all_reduce(&nodes, &(0..n).collect::<Vec<_>>());
        let mut cells: Vec<Cell> = [2, 4, 8, 16, 32].map(|n| cell(group(n), false, slow)).into();
        let mut halves = 0;
        while let Some(step) = next(&nodes, &cells, &BTreeSet::new()) {
            cells.push(cell(step, true, slow));
            halves += 1;
        }
        (drops(&cells, &|_| None).into_iter().map(|drop| drop.joined).collect(), halves)
    }

    #[test]
    fn the_node_at_which_the_rate_drops_is_found_by_halves() {
        assert_eq!(found(&[]), (vec![], 0));
        for node in [2, 3, 5, 8, 11, 15, 16, 31] {
            let (joined, halves) = found(&[node]);
            assert!(joined == [vec![node]] && halves <= 5, "{node}: {joined:?} {halves}");
        }
        let cells: Vec<Cell> =
            [2, 4].map(|n| cell(all_reduce(&nodes(4), &(0..n).collect::<Vec<_>>()), false, &[3])).into();
        assert_eq!(next(&nodes(4), &cells, &BTreeSet::from([3])), None, "pairs showed it");
        // of the first group nothing shows it but what is expected
        assert_eq!(found(&[1]).0.len(), 0);
        let cells = [cell(all_reduce(&nodes(2), &[0, 1]), false, &[1])];
        let known = drops(&cells, &|_| Some(300e9));
        assert!(known.len() == 1 && known[0].joined == [0, 1] && (known[0].left - 1.0 / 3.0).abs() < 1e-9);
    }

    #[test]
    fn a_rate_that_falls_with_each_node_is_no_nodes_fault() {
        let nodes = nodes(16);
        // a quarter less from 8 to 16 nodes, bit by bit
        let rate = |step: &Step| 300e9 * (1.0 - 0.035 * (step.nodes().count() as f64 - 8.0).max(0.0));
        let cell = |step: Step, again| {
            let values = vec![rate(&step); 8];
            Cell::of(step, 0, again, Ok(Samples { values, verdict: Verdict::Intact }))
        };
        let group = |n: usize| all_reduce(&nodes, &(0..n).collect::<Vec<_>>());
        let mut cells: Vec<Cell> = [2, 4, 8, 16].map(|n| cell(group(n), false)).into();
        while let Some(step) = next(&nodes, &cells, &BTreeSet::new()) {
            cells.push(cell(step, true));
        }
        let [drop] = &drops(&cells, &|_| None)[..] else { panic!() };
        assert!(drop.joined.is_empty() && !drop.shown, "{:?}", drop.joined);
    }

    #[test]
    fn what_failed_is_not_tried_again() {
        let nodes = nodes(8);
        let group = |n: usize| all_reduce(&nodes, &(0..n).collect::<Vec<_>>());
        let mut cells: Vec<Cell> = [2, 4, 8].map(|n| cell(group(n), false, &[6])).into();
        let step = next(&nodes, &cells, &BTreeSet::new()).unwrap();
        let failure = crate::measure::Failure::new(crate::run::FlagKind::Hung, "no answer");
        cells.push(Cell::of(step, 3, true, Err(failure)));
        assert_eq!(next(&nodes, &cells, &BTreeSet::new()), None);
    }
}
