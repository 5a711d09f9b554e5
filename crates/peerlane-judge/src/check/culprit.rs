//! Which node explains that some cells of a matrix are bad: the one nearly all of whose cells are.

use std::collections::HashMap;

use super::view::cells::{Cell, End};

/// Share of a node's cells that must be bad for it to be the explanation.
const NEARLY_ALL: f64 = 0.75;

/// Where this share of all cells is bad, no one node explains it: they all are.
pub(super) const EVERYWHERE: f64 = 0.9;

/// Culprits named at most; what they leave is unexplained.
const MOST_CULPRITS: usize = 16;

/// In which role a node explains its cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Role {
    /// In every transfer.
    Any,
    /// Only as the row, the source.
    Source,
    /// Only as the column, the destination.
    Destination,
}

impl Role {
    /// `from GPU3`, `to GPU3`, `of GPU3`.
    pub(super) fn preposition(self) -> &'static str {
        match self {
            Role::Any => "of",
            Role::Source => "from",
            Role::Destination => "to",
        }
    }
}

/// Bad cells, as positions, with the node that explains them, if one does.
#[derive(Debug, PartialEq)]
pub(super) struct Group {
    /// The node and its role.
    pub(super) culprit: Option<(End, Role)>,
    /// Positions in the list of cells.
    pub(super) cells: Vec<usize>,
}

/// Splits the bad ones among `cells` (`bad` is as long as `cells`) by the node that explains them:
/// greedily, the node with the most bad cells first. Two cells at least make an explanation; cells between the same two
/// nodes, each of which would explain them, make none.
pub(super) fn blame(cells: &[Cell], bad: &[bool]) -> Vec<Group> {
    let keys = |c: &Cell| [(c.from, Role::Any), (c.to, Role::Any), (c.from, Role::Source), (c.to, Role::Destination)];
    let (mut total, mut wrong) = (HashMap::new(), HashMap::new());
    for (cell, bad) in cells.iter().zip(bad) {
        for key in keys(cell) {
            *total.entry(key).or_insert(0usize) += 1;
            *wrong.entry(key).or_insert(0usize) += usize::from(*bad);
        }
    }
    let share =
        |key: &(End, Role)| wrong.get(key).map_or(0.0, |w| *w as f64 / total.get(key).map_or(1.0, |t| *t as f64));
    let mut left: Vec<usize> = bad.iter().enumerate().filter_map(|(at, bad)| bad.then_some(at)).collect();
    let mut groups = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let everywhere = left.len() >= 2 && left.len() as f64 >= EVERYWHERE * cells.len() as f64;
    while groups.len() < MOST_CULPRITS && !everywhere {
        let mut explained = HashMap::new();
        for key in left.iter().filter_map(|at| cells.get(*at)).flat_map(keys) {
            *explained.entry(key).or_insert(0usize) += 1;
        }
        // most cells first; among equals the simpler role, then the earlier node
        let best = explained
            .into_iter()
            .filter(|(key, n)| *n >= 2 && share(key) >= NEARLY_ALL)
            .max_by_key(|((end, role), n)| (*n, std::cmp::Reverse((*role, *end))));
        let Some((culprit, _)) = best else { break };
        let (mine, rest): (Vec<usize>, Vec<usize>) =
            left.iter().partition(|at| cells.get(**at).is_some_and(|c| keys(c).contains(&culprit)));
        if is_tie(cells, &mine, culprit.0, &share) {
            open.extend(mine);
            left = rest;
            continue;
        }
        groups.push(Group { culprit: Some(culprit), cells: mine });
        left = rest;
    }
    left.extend(open);
    left.sort_unstable();
    if !left.is_empty() {
        groups.push(Group { culprit: None, cells: left });
    }
    groups
}

/// Whether all these cells are between a node and one other that would explain them as well.
fn is_tie(cells: &[Cell], mine: &[usize], culprit: End, share: &dyn Fn(&(End, Role)) -> f64) -> bool {
    let far = |at: &usize| cells.get(*at).map(|c| if c.from == culprit { c.to } else { c.from });
    let mut others = mine.iter().filter_map(far);
    let Some(other) = others.next() else { return false };
    others.all(|o| o == other) && share(&(other, Role::Any)) >= NEARLY_ALL
}

#[cfg(test)]
mod tests {
    use super::super::testing::{matrix, see, switched};
    use super::*;

    fn groups(rows: &[&[f64]], below: f64) -> Vec<(Option<(String, Role)>, usize)> {
        let mut machine = switched(rows.len());
        machine.matrices.push(matrix(rows));
        see(&machine, |view| {
            let cells = view.gpu_cells(&machine.matrices[0].matrix);
            let bad: Vec<bool> = cells.iter().map(|c| c.rate.gb() < below).collect();
            let name = |end| match end {
                End::Node(id) => view.name(id).to_owned(),
                End::Host => "host".to_owned(),
            };
            blame(&cells, &bad)
                .into_iter()
                .map(|g| (g.culprit.map(|(end, role)| (name(end), role)), g.cells.len()))
                .collect()
        })
    }

    #[test]
    fn a_slow_gpu_explains_its_row_and_column() {
        let m: [&[f64]; 3] = [&[0.0, 5.0, 12.0], &[5.0, 0.0, 5.0], &[12.0, 5.0, 0.0]];
        assert_eq!(groups(&m, 10.0), [(Some(("GPU1".to_owned(), Role::Any)), 4)]);
    }

    #[test]
    fn a_slow_source_explains_its_row_only() {
        let m: [&[f64]; 3] = [&[0.0, 12.0, 12.0], &[12.0, 0.0, 12.0], &[5.0, 5.0, 0.0]];
        assert_eq!(groups(&m, 10.0), [(Some(("GPU2".to_owned(), Role::Source)), 2)]);
    }

    #[test]
    fn where_all_are_bad_none_is_the_culprit() {
        let m: [&[f64]; 3] = [&[0.0, 5.0, 5.0], &[5.0, 0.0, 5.0], &[5.0, 5.0, 0.0]];
        assert_eq!(groups(&m, 10.0), [(None, 6)]);
    }

    #[test]
    fn of_two_gpus_that_only_meet_each_other_neither_is() {
        let nan = f64::NAN;
        let m: [&[f64]; 4] =
            [&[0.0, 5.0, nan, nan], &[5.0, 0.0, nan, nan], &[nan, nan, 0.0, 12.0], &[nan, nan, 12.0, 0.0]];
        assert_eq!(groups(&m, 10.0), [(None, 2)]);
    }

    #[test]
    fn one_outlier_has_no_culprit() {
        let m: [&[f64]; 3] = [&[0.0, 12.0, 5.0], &[12.0, 0.0, 12.0], &[12.0, 12.0, 0.0]];
        assert_eq!(groups(&m, 10.0), [(None, 1)]);
    }
}
