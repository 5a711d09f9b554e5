//! The PCIe tree that path classes imply: what seed drawings titled "expected topology" do by hand.
//!
//! Classes between devices of one machine form an ultrametric: if A–B is `PIX` and B–C is `PIX`, then
//! A–C is `PIX`; the way between two devices is as far as the lowest level that holds both. So each
//! class, read as "at most this far", splits the devices into groups, and the groups nest: NUMA
//! domains, root complexes, switch trees, single switches. Where cells do not nest, no machine has them.

use peerlane_machine::fabric::PathClass;

use super::skeleton::{Branch, Domain, Root, Switch, Uplink};

/// What is known of the devices, by index.
pub(super) struct Devices<'a> {
    /// Which.
    pub(super) members: &'a [usize],
    /// The class between two, if stated; either may stand first.
    pub(super) class: &'a dyn Fn(usize, usize) -> Option<PathClass>,
    /// Whether two are known to share a NUMA node, where no class shows it (`None`: not known).
    pub(super) same_node: &'a dyn Fn(usize, usize) -> Option<bool>,
    /// Whether two are ports of one card.
    pub(super) same_card: &'a dyn Fn(usize, usize) -> bool,
    /// The link above one.
    pub(super) uplink: &'a dyn Fn(usize) -> Uplink,
}

/// Builds the tree. Every pair whose PCIe class is stated gets it back unless the classes do not
/// nest; pairs whose class is hidden (by NVLink, or cut off) get the farthest that the rest allows.
pub(super) fn implied_tree(devices: &Devices) -> Vec<Domain> {
    let domains = split(devices.members, |a, b| within(devices, a, b, PathClass::Node));
    let domains = join_hidden(devices, domains);
    domains
        .into_iter()
        .map(|members| {
            let roots = split(&members, |a, b| within(devices, a, b, PathClass::Phb)).into_iter();
            let root =
                |root: Vec<usize>| Root { implied: true, branches: below_root(devices, &root), ..Root::default() };
            Domain { numa: None, roots: roots.map(root).collect() }
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
                _ => {
                    let below = switches.iter().map(|group| match one_switch(devices, group) {
                        alone @ (Branch::Device(..) | Branch::Card(..)) => switch(vec![alone]),
                        switch => switch,
                    });
                    switch(below.collect())
                }
            }
        })
        .collect()
}

/// Devices at most one bridge apart: a lone device, a lone card, or a switch over both.
fn one_switch(devices: &Devices, members: &[usize]) -> Branch {
    let mut units: Vec<Branch> = split(members, |a, b| (devices.same_card)(a, b))
        .into_iter()
        .map(|unit| match unit.as_slice() {
            [one] => Branch::Device(*one, (devices.uplink)(*one)),
            [first, ..] => Branch::Card(unit.clone(), (devices.uplink)(*first)),
            [] => switch(Vec::new()),
        })
        .collect();
    if units.len() == 1 { units.remove(0) } else { switch(units) }
}

fn switch(branches: Vec<Branch>) -> Branch {
    Branch::Switch(Switch { implied: true, branches, ..Switch::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use PathClass::*;

    fn tree(n: usize, class: impl Fn(usize, usize) -> Option<PathClass>) -> Vec<Domain> {
        let members: Vec<usize> = (0..n).collect();
        implied_tree(&Devices { members: &members, class: &class, ..NOTHING })
    }

    const NOTHING: Devices = Devices {
        members: &[],
        class: &|_, _| None,
        same_node: &|_, _| None,
        same_card: &|_, _| false,
        uplink: &|_| Uplink::default(),
    };

    fn device(d: usize) -> Branch {
        Branch::Device(d, Uplink::default())
    }

    fn branches(domain: &Domain) -> Vec<&[Branch]> {
        domain.roots.iter().map(|root| root.branches.as_slice()).collect()
    }

    #[test]
    fn two_banks_behind_one_root_complex() {
        let domains = tree(4, |a, b| Some(if a / 2 == b / 2 { Pix } else { Phb }));
        let bank = |a, b| switch(vec![device(a), device(b)]);
        assert_eq!(domains.iter().map(branches).collect::<Vec<_>>(), [[[bank(0, 1), bank(2, 3)]]]);
    }

    #[test]
    fn sockets_and_host_bridges() {
        let domains = tree(4, |a, b| Some(if a / 2 == b / 2 { Node } else { Sys }));
        assert_eq!(domains.len(), 2);
        assert_eq!(branches(&domains[0]), [[device(0)], [device(1)]]);
    }

    #[test]
    fn hidden_classes_join_by_numa_node_only() {
        let hidden = |_: usize, _: usize| Some(PathClass::nvlink(18));
        assert_eq!(tree(4, hidden).len(), 4);
        let domains = implied_tree(&Devices {
            members: &[0, 1, 2, 3],
            class: &hidden,
            same_node: &|a, b| Some(a / 2 == b / 2),
            ..NOTHING
        });
        assert_eq!(domains.len(), 2);
    }

    #[test]
    fn a_card_needs_no_switch() {
        let domains = implied_tree(&Devices {
            members: &[0, 1, 2],
            class: &|a, b| Some(if a + b == 3 { Pix } else { Phb }),
            same_card: &|a, b| a + b == 3,
            ..NOTHING
        });
        assert_eq!(branches(&domains[0]), [[device(0), Branch::Card(vec![1, 2], Uplink::default())]]);
    }
}
