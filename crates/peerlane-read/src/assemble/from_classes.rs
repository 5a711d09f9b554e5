//! Class matrix → skeleton, by way of the tree it implies.

use std::collections::HashMap;

use peerlane_machine::fabric::PathClass;
use peerlane_machine::fact::ClassMatrix;
use peerlane_machine::names::numbered;
use peerlane_machine::origin::Origin;

use super::implied_tree::{Devices, implied_tree};
use super::inventory::{Device, Inventory};
use super::skeleton::{Skeleton, Uplink};

/// The skeleton that the class matrix implies.
pub(super) fn from_classes(all: &Inventory, matrix: &ClassMatrix, origin: &Origin) -> Skeleton {
    let devices = &all.devices;
    let below = all.pci_classes.as_ref().map(|matrix| Stated::of(matrix, devices));
    let under_nvlink = |a: usize, b: usize| below.as_ref()?.class(a, b);
    let stated = Stated::of(matrix, devices);
    let class = |a: usize, b: usize| {
        let own = stated.class(a, b).filter(|c| c.is_pcie());
        own.or_else(|| under_nvlink(a, b).filter(|c| c.is_pcie()))
    };
    // devices that only other sources know have no place in this tree
    let members: Vec<usize> = (0..devices.len()).filter(|&d| stated.lists(d)).collect();
    let cards = card_pairs(all, &stated, &members);
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

/// The classes that a matrix states between devices. Names are looked up once: pairs grow with the square.
pub(super) struct Stated<'m> {
    matrix: &'m ClassMatrix,
    /// For each device that the matrix lists, its row and its column.
    places: Vec<Option<(Option<usize>, Option<usize>)>>,
}

impl<'m> Stated<'m> {
    pub(super) fn of(matrix: &'m ClassMatrix, devices: &[Device]) -> Self {
        // of names that stand twice, the first counts
        let index = |names: &'m [String]| -> HashMap<&'m str, usize> {
            names.iter().enumerate().rev().map(|(i, name)| (name.as_str(), i)).collect()
        };
        let (rows, cols) = (index(&matrix.rows), index(&matrix.cols));
        let place = |device: &Device| {
            let names = std::iter::once(&device.name).chain(&device.aliases);
            let places = names.map(|name| (rows.get(name.as_str()).copied(), cols.get(name.as_str()).copied()));
            places.into_iter().find(|place| *place != (None, None))
        };
        Stated { matrix, places: devices.iter().map(place).collect() }
    }

    /// Whether the matrix lists a device.
    pub(super) fn lists(&self, device: usize) -> bool {
        self.places.get(device).is_some_and(Option::is_some)
    }

    /// The class between two devices, from either cell.
    pub(super) fn class(&self, a: usize, b: usize) -> Option<PathClass> {
        let place = |device: usize| self.places.get(device).copied().flatten();
        let ((row_a, col_a), (row_b, col_b)) = (place(a)?, place(b)?);
        let cell = |row: Option<usize>, col: Option<usize>| self.matrix.cells.get(row?)?.get(col?).copied().flatten();
        cell(row_a, col_b).or_else(|| cell(row_b, col_a))
    }
}

fn same_node(a: &Device, b: &Device) -> Option<bool> {
    match (a.numa, b.numa) {
        (Some(x), Some(y)) => Some(x == y),
        _ => a.cpus.as_ref().zip(b.cpus.as_ref()).map(|(x, y)| x == y),
    }
}

/// Pairs of NICs that are ports of one card: functions of one PCI device, or, where there is no address,
/// the only two NICs of a `PIX` group whose names follow each other.
fn card_pairs(all: &Inventory, stated: &Stated, members: &[usize]) -> Vec<(usize, usize)> {
    let devices = &all.devices;
    let nics: Vec<usize> = members.iter().copied().filter(|&d| !devices[d].gpu).collect();
    let pix = |a: usize, b: usize| stated.class(a, b) == Some(PathClass::Pix);
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

/// The link above a device, as far as the device itself knows it.
pub(super) fn uplink(device: &Device) -> Uplink {
    let facts = &device.facts;
    Uplink { running: facts.running, allowed: facts.allowed, capable: facts.capable }
}
