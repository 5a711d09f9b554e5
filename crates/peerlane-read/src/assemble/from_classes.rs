//! Class matrix → skeleton, by way of the tree it implies.

use peerlane_machine::fabric::PathClass;
use peerlane_machine::fact::ClassMatrix;
use peerlane_machine::names::numbered;
use peerlane_machine::origin::Origin;

use super::implied_tree::{self, Devices, implied_tree};
use super::inventory::{Device, Inventory};
use super::skeleton::{Branch, Domain, Root, Skeleton, Switch, Uplink};

/// The skeleton that the class matrix implies.
pub(super) fn from_classes(all: &Inventory, matrix: &ClassMatrix, origin: &Origin) -> Skeleton {
    let devices = &all.devices;
    let under_nvlink = |a: usize, b: usize| stated(all.pci_classes.as_ref()?, &devices[a], &devices[b]);
    let class = |a: usize, b: usize| {
        let own = stated(matrix, &devices[a], &devices[b]).filter(|c| c.is_pcie());
        own.or_else(|| under_nvlink(a, b).filter(|c| c.is_pcie()))
    };
    let same_node = |a: usize, b: usize| same_node(&devices[a], &devices[b]);
    let listed = |d: &Device| stated_name(matrix, d).is_some();
    // devices that only other sources know have no place in this tree
    let members: Vec<usize> = (0..devices.len()).filter(|&d| listed(&devices[d])).collect();
    let cards = card_pairs(all, matrix, &members);
    let tree = implied_tree(&Devices {
        count: members.len(),
        class: &|a, b| class(members[a], members[b]),
        same_node: &|a, b| same_node(members[a], members[b]),
        same_card: &|a, b| {
            let pair = (members[a].min(members[b]), members[a].max(members[b]));
            cards.contains(&pair)
        },
    });
    let domains = tree.into_iter().map(|domain| Domain {
        numa: None,
        roots: domain
            .roots
            .into_iter()
            .map(|branches| Root {
                implied: true,
                branches: branches.iter().map(|b| branch(all, &members, b)).collect(),
                ..Root::default()
            })
            .collect(),
    });
    let mut domains: Vec<Domain> = domains.collect();
    for domain in &mut domains {
        domain.numa = domain.devices().iter().find_map(|&d| devices[d].numa);
    }
    Skeleton { of_classes: true, domains, origin: Some(origin.clone()) }
}

/// A device's name in the matrix.
pub(super) fn stated_name<'a>(matrix: &ClassMatrix, device: &'a Device) -> Option<&'a str> {
    let listed = |name: &&String| matrix.cols.contains(name) || matrix.rows.contains(name);
    std::iter::once(&device.name).chain(&device.aliases).find(listed).map(String::as_str)
}

/// The class that the matrix states between two devices.
pub(super) fn stated(matrix: &ClassMatrix, a: &Device, b: &Device) -> Option<PathClass> {
    matrix.between(stated_name(matrix, a)?, stated_name(matrix, b)?)
}

fn same_node(a: &Device, b: &Device) -> Option<bool> {
    match (a.numa, b.numa) {
        (Some(x), Some(y)) => Some(x == y),
        _ => a.cpus.as_ref().zip(b.cpus.as_ref()).map(|(x, y)| x == y),
    }
}

/// Pairs of NICs that are ports of one card: functions of one PCI device, or, where no address tells,
/// the only two NICs of a `PIX` group whose names follow each other.
fn card_pairs(all: &Inventory, matrix: &ClassMatrix, members: &[usize]) -> Vec<(usize, usize)> {
    let devices = &all.devices;
    let nics: Vec<usize> = members.iter().copied().filter(|&d| !devices[d].gpu).collect();
    let pix = |a: usize, b: usize| stated(matrix, &devices[a], &devices[b]) == Some(PathClass::Pix);
    let mut pairs = Vec::new();
    for (i, &a) in nics.iter().enumerate() {
        for &b in &nics[i + 1..] {
            if !pix(a, b) {
                continue;
            }
            let one_card = match devices[a].facts.address.zip(devices[b].facts.address) {
                Some((x, y)) => x.same_device(y),
                None => {
                    let others = nics.iter().any(|&c| c != a && c != b && pix(a, c));
                    !others && consecutive(real_name(&devices[a]), real_name(&devices[b]))
                }
            };
            if one_card {
                pairs.push((a.min(b), a.max(b)));
            }
        }
    }
    pairs
}

fn real_name(device: &Device) -> &str {
    device.aliases.first().unwrap_or(&device.name)
}

/// `mlx5_0` and `mlx5_1`, in either order.
fn consecutive(a: &str, b: &str) -> bool {
    matches!((numbered(a), numbered(b)), (Some((s, m)), Some((t, n))) if s == t && m.abs_diff(n) == 1)
}

/// The implied tree's depth is at most two switches, so this recursion is too.
fn branch(all: &Inventory, members: &[usize], implied: &implied_tree::Branch) -> Branch {
    match implied {
        implied_tree::Branch::Device(d) => Branch::Device(members[*d], uplink(&all.devices[members[*d]])),
        implied_tree::Branch::Card(ds) => {
            let ports: Vec<usize> = ds.iter().map(|&d| members[d]).collect();
            let link = ports.first().map(|&d| uplink(&all.devices[d])).unwrap_or_default();
            Branch::Card(ports, link)
        }
        implied_tree::Branch::Switch(below) => Branch::Switch(Switch {
            implied: true,
            branches: below.iter().map(|b| branch(all, members, b)).collect(),
            ..Switch::default()
        }),
    }
}

/// The link above a device, as far as the device itself knows it.
pub(super) fn uplink(device: &Device) -> Uplink {
    let facts = &device.facts;
    Uplink { running: facts.running, allowed: facts.allowed, capable: facts.capable }
}
