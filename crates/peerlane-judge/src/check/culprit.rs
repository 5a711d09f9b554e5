//! Which node explains that some cells of a matrix are bad: the one nearly all of whose cells are.

use super::view::cells::{Cell, End};
use peerlane_machine::blame::{self, Observation};

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

/// Splits the bad ones among `cells` (`bad` is as long as `cells`) by the node that explains them, the one with the most first
/// ([`blame::explain`]). Two cells at least make an explanation; cells between the same two nodes, each of which would explain them,
/// make none.
pub(super) fn blame(cells: &[Cell], bad: &[bool]) -> Vec<Group> {
    let observe = |(c, bad): (&Cell, &bool)| Observation {
        parts: vec![(Role::Any, c.from), (Role::Any, c.to), (Role::Source, c.from), (Role::Destination, c.to)],
        affected_by: Vec::new(),
        class: (),
        bad: *bad,
    };
    let all: Vec<Observation<(Role, End)>> = cells.iter().zip(bad).map(observe).collect();
    let bad: Vec<usize> = all.iter().enumerate().filter_map(|(at, one)| one.bad.then_some(at)).collect();
    if bad.len() >= 2 && bad.len() as f64 >= EVERYWHERE * all.len() as f64 {
        return vec![Group { culprit: None, cells: bad }];
    }
    let found = blame::explain(&all, |_, _| 2);
    let (mut groups, mut open) = (Vec::new(), found.left.clone());
    for ((role, end), mine) in &found.explained {
        let is_suspect = |other: End| found.is_suspect(&(Role::Any, other));
        if groups.len() == MOST_CULPRITS || partner(cells, mine, *end).is_some_and(is_suspect) {
            open.extend(mine);
        } else {
            groups.push(Group { culprit: Some((*end, *role)), cells: mine.clone() });
        }
    }
    open.sort_unstable();
    if !open.is_empty() {
        groups.push(Group { culprit: None, cells: open });
    }
    groups
}

/// The one node at the other end of all these cells.
fn partner(cells: &[Cell], mine: &[usize], culprit: End) -> Option<End> {
    let far = |at: &usize| cells.get(*at).map(|c| if c.from == culprit { c.to } else { c.from });
    let mut others = mine.iter().filter_map(far);
    let first = others.next()?;
    others.all(|other| other == first).then_some(first)
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
