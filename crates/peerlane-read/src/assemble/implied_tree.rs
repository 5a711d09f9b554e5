//! The PCIe tree that path classes imply: what seed drawings titled "expected topology" do by hand.
//!
//! Classes between devices of one machine form an ultrametric: if A–B is `PIX` and B–C is `PIX`, then
//! A–C is `PIX`; the way between two devices is as far as the lowest level that holds both. So each
//! class, read as "at most this far", splits the devices into groups, and the groups nest: NUMA
//! domains, root complexes, switch trees, single switches. Where cells do not nest, no machine has them.

use peerlane_machine::fabric::PathClass;

/// A part of the tree below a root complex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Branch {
    /// A device, by its index.
    Device(usize),
    /// Several endpoints of one card, on one link.
    Card(Vec<usize>),
    /// A switch and what hangs below it.
    Switch(Vec<Branch>),
}

/// The devices of one NUMA domain: a list of branches for each root complex.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Domain {
    /// Root complexes, each with the branches below it.
    pub(super) roots: Vec<Vec<Branch>>,
}

/// What is known of the devices, by index.
pub(super) struct Devices<'a> {
    /// How many.
    pub(super) count: usize,
    /// The class between two, if stated; either may stand first.
    pub(super) class: &'a dyn Fn(usize, usize) -> Option<PathClass>,
    /// Whether two are known to share a NUMA node, where no class says so (`None`: not known).
    pub(super) same_node: &'a dyn Fn(usize, usize) -> Option<bool>,
    /// Whether two are ports of one card.
    pub(super) same_card: &'a dyn Fn(usize, usize) -> bool,
}

/// Builds the tree. Every pair whose PCIe class is stated gets it back unless the classes do not
/// nest; pairs whose class is hidden (by NVLink, or cut off) get the farthest that the rest allows.
pub(super) fn implied_tree(devices: &Devices) -> Vec<Domain> {
    let all: Vec<usize> = (0..devices.count).collect();
    let domains = split(&all, |a, b| within(devices, a, b, PathClass::Node));
    let domains = join_hidden(devices, domains);
    domains
        .into_iter()
        .map(|members| Domain {
            roots: split(&members, |a, b| within(devices, a, b, PathClass::Phb))
                .into_iter()
                .map(|root| below_root(devices, &root))
                .collect(),
        })
        .collect()
}

fn within(devices: &Devices, a: usize, b: usize, at_most: PathClass) -> bool {
    (devices.same_card)(a, b) || (devices.class)(a, b).is_some_and(|c| c.is_pcie() && c <= at_most)
}

/// Connected components of `near`, in the order of their first members.
fn split(members: &[usize], near: impl Fn(usize, usize) -> bool) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut left: Vec<usize> = members.to_vec();
    while !left.is_empty() {
        let mut group = vec![left.remove(0)];
        let mut at = 0;
        while at < group.len() {
            let from = group[at];
            let (joined, rest): (Vec<_>, Vec<_>) = left.into_iter().partition(|&x| near(from, x));
            group.extend(joined);
            left = rest;
            at += 1;
        }
        group.sort_unstable();
        groups.push(group);
    }
    groups
}

/// Joins domains between which every class is hidden and whose devices share a NUMA node.
fn join_hidden(devices: &Devices, domains: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    let mut joined: Vec<Vec<usize>> = Vec::new();
    for domain in domains {
        let fits = joined.iter().position(|other| {
            let pairs = || other.iter().flat_map(|&a| domain.iter().map(move |&b| (a, b)));
            let stated = pairs().any(|(a, b)| (devices.class)(a, b).is_some_and(PathClass::is_pcie));
            !stated && pairs().any(|(a, b)| (devices.same_node)(a, b) == Some(true))
        });
        match fits {
            Some(i) => {
                joined[i].extend(domain);
                joined[i].sort_unstable();
            }
            None => joined.push(domain),
        }
    }
    joined
}

/// The branches of one root complex.
fn below_root(devices: &Devices, members: &[usize]) -> Vec<Branch> {
    split(members, |a, b| within(devices, a, b, PathClass::Pxb))
        .into_iter()
        .map(|tree| {
            let switches = split(&tree, |a, b| within(devices, a, b, PathClass::Pix));
            match switches.as_slice() {
                [one] => one_switch(devices, one),
                // several bridges on the way, none of them the host's: a switch above switches
                _ => Branch::Switch(
                    switches
                        .iter()
                        .map(|group| match one_switch(devices, group) {
                            Branch::Switch(below) => Branch::Switch(below),
                            alone => Branch::Switch(vec![alone]),
                        })
                        .collect(),
                ),
            }
        })
        .collect()
}

/// Devices at most one bridge apart: a lone device, a lone card, or a switch over both.
fn one_switch(devices: &Devices, members: &[usize]) -> Branch {
    let mut units: Vec<Branch> = split(members, |a, b| (devices.same_card)(a, b))
        .into_iter()
        .map(|unit| match unit.as_slice() {
            [one] => Branch::Device(*one),
            _ => Branch::Card(unit),
        })
        .collect();
    if units.len() == 1 { units.remove(0) } else { Branch::Switch(units) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PathClass::*;

    fn tree(n: usize, class: impl Fn(usize, usize) -> Option<PathClass>) -> Vec<Domain> {
        implied_tree(&Devices { count: n, class: &class, same_node: &|_, _| None, same_card: &|_, _| false })
    }

    #[test]
    fn two_banks_behind_one_root_complex() {
        let domains = tree(4, |a, b| Some(if a / 2 == b / 2 { Pix } else { Phb }));
        let bank = |a, b| Branch::Switch(vec![Branch::Device(a), Branch::Device(b)]);
        assert_eq!(domains, vec![Domain { roots: vec![vec![bank(0, 1), bank(2, 3)]] }]);
    }

    #[test]
    fn sockets_and_host_bridges() {
        let domains = tree(4, |a, b| Some(if a / 2 == b / 2 { Node } else { Sys }));
        assert_eq!(domains.len(), 2);
        assert_eq!(domains[0].roots, vec![vec![Branch::Device(0)], vec![Branch::Device(1)]]);
    }

    #[test]
    fn hidden_classes_join_by_numa_node_only() {
        let hidden = |_: usize, _: usize| Some(PathClass::nvlink(18));
        assert_eq!(tree(4, hidden).len(), 4);
        let domains = implied_tree(&Devices {
            count: 4,
            class: &hidden,
            same_node: &|a, b| Some(a / 2 == b / 2),
            same_card: &|_, _| false,
        });
        assert_eq!(domains.len(), 2);
    }

    #[test]
    fn a_card_needs_no_switch() {
        let domains = implied_tree(&Devices {
            count: 3,
            class: &|a, b| Some(if a + b == 3 { Pix } else { Phb }),
            same_node: &|_, _| None,
            same_card: &|a, b| a + b == 3,
        });
        assert_eq!(domains[0].roots, vec![vec![Branch::Device(0), Branch::Card(vec![1, 2])]]);
    }
}
