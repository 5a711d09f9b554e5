//! Class matrix → skeleton, by way of the tree it implies.

use std::collections::{HashMap, HashSet};

use peerlane_machine::fabric::PathClass;
use peerlane_machine::names::numbered;
use peerlane_machine::origin::Origin;

use super::device::Device;
use super::implied_tree::{Devices, implied_tree};
use super::inventory::Inventory;
use super::skeleton::{Skeleton, Uplink};
use super::stated::Stated;

/// The skeleton that the class matrix implies.
pub(super) fn from_classes(all: &Inventory, origin: &Origin) -> Skeleton {
    let devices = &all.devices;
    let below = all.pci_classes.as_ref().map(|matrix| Stated::of(matrix, devices));
    let under_nvlink = |a: usize, b: usize| below.as_ref()?.class(a, b);
    let stated = &all.stated;
    let class = |a: usize, b: usize| {
        let own = stated.class(a, b).filter(|c| c.is_pcie());
        own.or_else(|| under_nvlink(a, b).filter(|c| c.is_pcie()))
    };
    // devices that only other sources know have no place in this tree
    let listed: Vec<usize> = (0..devices.len()).filter(|&d| stated.lists(d)).collect();
    // nor have those whose rows are cut off, where only NVLinks of others lead to them
    let is_placed = |d: &usize| {
        let near_cpus = devices[*d].numa.is_some() || devices[*d].cpus.is_some();
        near_cpus || listed.iter().any(|&other| other != *d && class(*d, other).is_some())
    };
    let members: Vec<usize> = match listed.iter().any(is_placed) {
        true => listed.iter().copied().filter(is_placed).collect(),
        false => listed,
    };
    let cards = card_pairs(all, stated, &members);
    let mut domains = implied_tree(&Devices {
        members: &members,
        class: &class,
        same_node: &|a, b| same_node(&devices[a], &devices[b]),
        same_card: &|a, b| cards.contains(&(a.min(b), a.max(b))),
        uplink: &|d| uplink(&devices[d]),
    });
    for domain in &mut domains {
        domain.numa = domain.devices().iter().find_map(|&d| devices[d].numa);
    }
    Skeleton { of_classes: true, domains, origin: Some(origin.clone()) }
}

fn same_node(a: &Device, b: &Device) -> Option<bool> {
    match (a.numa, b.numa) {
        (Some(x), Some(y)) => Some(x == y),
        _ => a.cpus.as_ref().zip(b.cpus.as_ref()).map(|(x, y)| x == y),
    }
}

/// Pairs of NICs that are ports of one card: functions of one PCI device, or, where there is no address,
/// the only two NICs of a `PIX` group whose names follow each other.
fn card_pairs(all: &Inventory, stated: &Stated, members: &[usize]) -> HashSet<(usize, usize)> {
    let devices = &all.devices;
    let nics: Vec<usize> = members.iter().copied().filter(|&d| !devices[d].gpu).collect();
    let pix = |a: usize, b: usize| stated.class(a, b) == Some(PathClass::Pix);
    // how many other NICs are so near to each
    let near = |a: usize| nics.iter().filter(|&&c| c != a && pix(a, c)).count();
    let near: HashMap<usize, usize> = nics.iter().map(|&a| (a, near(a))).collect();
    let mut pairs = HashSet::new();
    for (i, &a) in nics.iter().enumerate() {
        for &b in &nics[i + 1..] {
            if !pix(a, b) {
                continue;
            }
            let one_card = match devices[a].facts.address.zip(devices[b].facts.address) {
                Some((x, y)) => x.same_device(y),
                None => near.get(&a) == Some(&1) && consecutive(real_name(&devices[a]), real_name(&devices[b])),
            };
            if one_card {
                pairs.insert((a.min(b), a.max(b)));
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

/// The link above a device, as far as the device itself knows it.
pub(super) fn uplink(device: &Device) -> Uplink {
    let facts = &device.facts;
    Uplink { running: facts.running, allowed: facts.allowed, capable: facts.capable }
}
