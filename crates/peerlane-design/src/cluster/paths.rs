//! How rings through several nodes pass a node: in by one NIC, along all of its GPUs, out by another.
//!
//! Each NIC is entered once and left once. A library searches for such paths; here a few sets of them are compared.

use peerlane_model::collectives::together;
use peerlane_model::flows::{Flows, Pair};

/// Most sets of paths that are compared of each kind.
const MOST_SETS: usize = 8;
/// What a step of distance to the NIC costs, in places of the list of paths: an exit near its NIC comes first.
const FAR: f64 = 1e6;
/// A better set carries more by this share.
const BETTER: f64 = 1.0 + 1e-9;

/// The way of one ring through a node.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NodePath {
    /// The NIC by which it comes, and the one by which it leaves.
    pub entry: u32,
    pub exit: u32,
    /// The node's GPUs, in order.
    pub gpus: Vec<usize>,
}

/// Sets of paths, of which each has one for every entry: a NIC with the GPU next to it. `orders` are rings within the node;
/// `distance` is that of a GPU from a NIC.
///
/// The paths are the rings, cut open at the entry, in one direction or both; and zigzags, which use every link of a full
/// mesh of an even number of GPUs once (Williams, *Experimental designs balanced for the estimation of residual effects of
/// treatments*, 1949).
pub(crate) fn candidates(
    entries: &[(u32, usize)],
    orders: &[Vec<usize>],
    distance: impl Fn(usize, u32) -> u32,
) -> Vec<Vec<NodePath>> {
    let assigned = |paths: &dyn Fn(usize) -> Vec<Vec<usize>>| -> Vec<Vec<NodePath>> {
        let by_entry: Vec<Vec<Vec<usize>>> = entries.iter().map(|(_, gpu)| paths(*gpu)).collect();
        let kinds = by_entry.iter().map(Vec::len).max().unwrap_or(0).min(MOST_SETS);
        (0..kinds).map(|preferred| assign(entries, &by_entry, preferred, &distance)).collect()
    };
    let mut found = assigned(&|gpu| orders.iter().map(|order| cut(order, gpu)).collect());
    let near = |path: &NodePath| {
        path.gpus.last().is_none_or(|gpu| distance(*gpu, path.exit) == nearest(*gpu, entries, &distance))
    };
    // what one ring does, it does in either direction
    if orders.len() == 1 && found.first().is_some_and(|paths| paths.iter().all(near)) {
        return found;
    }
    let turned: Vec<Vec<usize>> = orders.iter().map(|order| order.iter().rev().copied().collect()).collect();
    found.extend(assigned(&|gpu| orders.iter().chain(&turned).map(|order| cut(order, gpu)).collect()));
    if let Some(order) = orders.first().filter(|order| order.len() % 2 == 0) {
        let mut gpus = order.clone();
        gpus.sort_unstable();
        found.extend(assigned(&|gpu| vec![zigzag(&gpus, gpu)]));
    }
    found
}

/// The set of paths whose transfers within the node carry most together.
pub(crate) fn most_within(
    flows: &Flows,
    entries: &[(u32, usize)],
    orders: &[Vec<usize>],
    distance: impl Fn(usize, u32) -> u32,
) -> Vec<NodePath> {
    let mut sets = candidates(entries, orders, distance).into_iter();
    let mut best = sets.next().unwrap_or_default();
    if best.len() < 2 {
        return best;
    }
    let mut most = carried(flows, &best);
    for paths in sets {
        let rate = carried(flows, &paths);
        if rate > most * BETTER {
            (best, most) = (paths, rate);
        }
    }
    best
}

/// What these paths carry within a node, in bytes a second; 0 where a rate is not known.
fn carried(flows: &Flows, paths: &[NodePath]) -> f64 {
    let pairs = |path: &NodePath| path.gpus.windows(2).map(|pair| (pair[0], pair[1])).collect();
    let sets: Vec<Vec<Pair>> = paths.iter().map(pairs).collect();
    together(flows, &sets).filter(|rates| rates.iter().all(|r| r.is_finite())).map_or(0.0, |rates| rates.iter().sum())
}

fn nearest(gpu: usize, entries: &[(u32, usize)], distance: impl Fn(usize, u32) -> u32) -> u32 {
    entries.iter().map(|(nic, _)| distance(gpu, *nic)).min().unwrap_or(0)
}

/// A ring as a path that begins at this GPU.
fn cut(order: &[usize], gpu: usize) -> Vec<usize> {
    let mut path = order.to_vec();
    path.rotate_left(order.iter().position(|g| *g == gpu).unwrap_or(0));
    path
}

/// From this GPU to the next one, the one before, the one after the next, and so on.
fn zigzag(gpus: &[usize], first: usize) -> Vec<usize> {
    let n = gpus.len();
    let start = gpus.iter().position(|g| *g == first).unwrap_or(0);
    let step = |i: usize| if i % 2 == 1 { i.div_ceil(2) } else { n - i / 2 };
    (0..n).map(|i| gpus[(start + step(i)) % n]).collect()
}

/// Gives each entry a path and an exit, every NIC one: as near to the path's last GPU as is possible for all together, and
/// of paths that are equal in this the one whose turn it is, from `preferred` on.
fn assign(
    entries: &[(u32, usize)],
    paths: &[Vec<Vec<usize>>],
    preferred: usize,
    distance: impl Fn(usize, u32) -> u32,
) -> Vec<NodePath> {
    let best = |entry: usize, exit: u32| -> (f64, usize) {
        let own = &paths[entry];
        let cost = |at: usize| {
            let away = own[at].last().map_or(0, |gpu| distance(*gpu, exit));
            f64::from(away) * FAR
                + ((at + entry * own.len() + own.len() - (entry + preferred) % own.len()) % own.len()) as f64
        };
        (0..own.len()).map(|at| (cost(at), at)).min_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, 0))
    };
    let exits: Vec<u32> = entries.iter().map(|(nic, _)| *nic).collect();
    let costs: Vec<Vec<f64>> =
        (0..entries.len()).map(|entry| exits.iter().map(|exit| best(entry, *exit).0).collect()).collect();
    let path = |(entry, to): (usize, usize)| NodePath {
        entry: exits[entry],
        exit: exits[to],
        gpus: paths[entry].get(best(entry, exits[to]).1).cloned().unwrap_or_default(),
    };
    cheapest(&costs).into_iter().enumerate().map(path).collect()
}

/// For each row a column of its own, at the least sum (Kuhn, *The Hungarian method for the assignment problem*, 1955): rows
/// are added one by one along a shortest path of exchanges.
fn cheapest(costs: &[Vec<f64>]) -> Vec<usize> {
    let n = costs.len();
    // potentials of rows and columns; column 0 and row 0 stand for none
    let (mut rows, mut columns, mut row_of) = (vec![0.0; n + 1], vec![0.0; n + 1], vec![0; n + 1]);
    for row in 1..=n {
        row_of[0] = row;
        let (mut least, mut before, mut done) = (vec![f64::INFINITY; n + 1], vec![0; n + 1], vec![false; n + 1]);
        let mut at = 0;
        while row_of[at] != 0 {
            done[at] = true;
            let (from, mut step, mut next) = (row_of[at], f64::INFINITY, 0);
            for column in 1..=n {
                if done[column] {
                    continue;
                }
                let reduced = costs[from - 1][column - 1] - rows[from] - columns[column];
                if reduced < least[column] {
                    (least[column], before[column]) = (reduced, at);
                }
                if least[column] < step {
                    (step, next) = (least[column], column);
                }
            }
            for column in 0..=n {
                if done[column] {
                    rows[row_of[column]] += step;
                    columns[column] -= step;
                } else {
                    least[column] -= step;
                }
            }
            at = next;
        }
        while at != 0 {
            row_of[at] = row_of[before[at]];
            at = before[at];
        }
    }
    let mut found = vec![0; n];
    (1..=n).for_each(|column| found[row_of[column] - 1] = column - 1);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_cheapest_assignment_is_that_of_all_permutations() {
        let mut random = peerlane_machine::random::Random::from_seed(3);
        for _ in 0..200 {
            let costs: Vec<Vec<f64>> = (0..4).map(|_| (0..4).map(|_| random.below(9) as f64).collect()).collect();
            let sum = |columns: &[usize]| columns.iter().enumerate().map(|(r, c)| costs[r][*c]).sum::<f64>();
            let all = (0..256).map(|code| [code % 4, code / 4 % 4, code / 16 % 4, code / 64]);
            let permutations = all.filter(|c| c.iter().collect::<BTreeSet<_>>().len() == 4);
            let least = permutations.map(|c| sum(&c)).fold(f64::INFINITY, f64::min);
            let found = cheapest(&costs);
            assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), 4);
            assert_eq!(sum(&found), least, "{costs:?}");
        }
    }

    #[test]
    fn zigzags_use_every_link_of_a_full_mesh_once_and_end_at_different_gpus() {
        for n in [2, 4, 8, 16] {
            let gpus: Vec<usize> = (0..n).collect();
            let paths: Vec<Vec<usize>> = gpus.iter().map(|gpu| zigzag(&gpus, *gpu)).collect();
            let links: BTreeSet<(usize, usize)> =
                paths.iter().flat_map(|p| p.windows(2).map(|w| (w[0], w[1])).collect::<Vec<_>>()).collect();
            assert_eq!(links.len(), n * (n - 1));
            assert_eq!(paths.iter().filter_map(|p| p.last()).collect::<BTreeSet<_>>().len(), n);
        }
    }

    #[test]
    fn every_nic_is_entered_once_and_left_once() {
        // rings that would all leave at GPU 3
        let orders = [vec![0, 1, 2, 3], vec![1, 0, 2, 3], vec![2, 0, 1, 3]];
        let entries: Vec<(u32, usize)> = (0..4).map(|nic| (nic, nic as usize)).collect();
        for paths in candidates(&entries, &orders, |gpu, nic| u32::from(gpu != nic as usize)) {
            let ends = |of: fn(&NodePath) -> u32| paths.iter().map(of).collect::<BTreeSet<u32>>();
            assert_eq!((ends(|p| p.entry).len(), ends(|p| p.exit).len()), (4, 4), "{paths:?}");
            assert!(paths.iter().all(|p| p.gpus.first() == Some(&(p.entry as usize))), "{paths:?}");
        }
    }
}
