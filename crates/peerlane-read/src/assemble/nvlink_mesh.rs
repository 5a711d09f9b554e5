//! The NVLink bundles and switches that `NV#` cells imply.

use std::collections::HashMap;

/// More NVLinks than any GPU has had so far: 18, on Hopper and Blackwell.
pub(super) const MOST_BRICKS: u32 = 18;

/// NVLink as far as a matrix shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Mesh {
    /// Direct bundles: two devices, number of bricks.
    pub(super) bundles: Vec<(usize, usize, u8)>,
    /// Groups joined by NVSwitch: each member with its bricks.
    pub(super) switched: Vec<Vec<(usize, u8)>>,
    /// Groups for which direct links and a switch are both possible.
    pub(super) undecided: Vec<Vec<usize>>,
    /// Devices with more bricks in direct bundles than any GPU has, though no switch explains it.
    pub(super) impossible: Vec<(usize, u32)>,
}

/// Reads `bricks(a, b)`, the # of `NV#`, for all pairs below `count`; `stated(a, b)` is false where a
/// capture is cut and lacks a pair. `ports(a)` is how many NVLinks device `a` has in all,
/// where known; `switched(a)` whether its links are known to end in a switch.
pub(super) fn nvlink_mesh(
    count: usize,
    bricks: impl Fn(usize, usize) -> Option<u8>,
    stated: impl Fn(usize, usize) -> bool,
    ports: impl Fn(usize) -> Option<u32>,
    switched: impl Fn(usize) -> bool,
) -> Mesh {
    let mut mesh = Mesh::default();
    let bricks = &bricks;
    for group in components(count, bricks) {
        let pairs = || group.iter().flat_map(|&a| group.iter().map(move |&b| (a, b))).filter(|&(a, b)| a != b);
        // a switch gives each member its own bricks, and each pair the fewer of its two
        let to_others = |a: usize| group.iter().filter_map(move |&b| if a == b { None } else { bricks(a, b) });
        let most: HashMap<usize, u8> = group.iter().map(|&a| (a, to_others(a).max().unwrap_or(0))).collect();
        let own = |a: usize| most.get(&a).copied().unwrap_or(0);
        let total = |a: usize| to_others(a).map(u32::from).sum();
        let by_switch = pairs().filter(|&(a, b)| stated(a, b)).all(|(a, b)| bricks(a, b) == Some(own(a).min(own(b))));
        let too_many = |a: usize| total(a) > ports(a).unwrap_or(MOST_BRICKS);
        let crowded: Vec<usize> = group.iter().copied().filter(|&a| too_many(a)).collect();
        let known_switch = by_switch && group.iter().any(|&a| switched(a));
        if known_switch || (by_switch && group.len() >= 3 && !crowded.is_empty()) {
            mesh.switched.push(group.iter().map(|&a| (a, own(a))).collect());
            continue;
        }
        if by_switch && group.len() >= 3 {
            mesh.undecided.push(group.clone());
        }
        mesh.impossible.extend(crowded.into_iter().map(|a| (a, total(a))));
        for (i, &a) in group.iter().enumerate() {
            mesh.bundles.extend(group[i + 1..].iter().filter_map(|&b| Some((a, b, bricks(a, b)?))));
        }
    }
    mesh
}

/// Connected groups of at least two devices.
fn components(count: usize, bricks: &impl Fn(usize, usize) -> Option<u8>) -> Vec<Vec<usize>> {
    let mut placed = vec![false; count];
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for start in 0..count {
        if placed[start] {
            continue;
        }
        placed[start] = true;
        let mut group = vec![start];
        let mut at = 0;
        while let Some(&from) = group.get(at) {
            let joined: Vec<usize> = (0..count).filter(|&to| !placed[to] && bricks(from, to).is_some()).collect();
            joined.iter().for_each(|&to| placed[to] = true);
            group.extend(joined);
            at += 1;
        }
        group.sort_unstable();
        groups.push(group);
    }
    groups.retain(|g| g.len() > 1);
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mesh(count: usize, bricks: impl Fn(usize, usize) -> Option<u8>) -> Mesh {
        nvlink_mesh(count, bricks, |_, _| true, |_| None, |_| false)
    }

    #[test]
    fn eight_times_nv18_needs_a_switch() {
        let m = mesh(8, |a, b| (a != b).then_some(18));
        assert_eq!(m.switched, vec![(0..8).map(|g| (g, 18)).collect::<Vec<_>>()]);
        assert!(m.bundles.is_empty() && m.impossible.is_empty());
    }

    #[test]
    fn four_times_nv4_may_be_direct() {
        let m = mesh(4, |a, b| (a != b).then_some(4));
        assert_eq!((m.bundles.len(), m.undecided.len()), (6, 1));
    }

    #[test]
    fn a_lost_gpu_leaves_the_others_on_the_switch() {
        let m = mesh(4, |a, b| (a != b && a != 3 && b != 3).then_some(18));
        assert_eq!(m.switched[0].len(), 3);
    }

    #[test]
    fn cut_rows_do_not_hide_a_switch() {
        let known = |a: usize, b: usize| a.min(b) < 2;
        let m = nvlink_mesh(4, |a, b| (a != b && known(a, b)).then_some(18), known, |_| None, |_| false);
        assert_eq!(m.switched[0].len(), 4);
    }

    #[test]
    fn fewer_bricks_on_one_gpu() {
        let m = mesh(4, |a, b| (a != b).then_some(if a == 2 || b == 2 { 17 } else { 18 }));
        assert_eq!(m.switched, vec![vec![(0, 18), (1, 18), (2, 17), (3, 18)]]);
    }

    #[test]
    fn nv18_to_two_peers_without_a_switch_cannot_be() {
        let m = mesh(3, |a, b| (a + b == 1 || a + b == 3).then_some(18));
        assert_eq!(m.impossible, vec![(1, 36)]);
    }
}
