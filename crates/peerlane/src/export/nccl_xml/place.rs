//! Which `<cpu>` each PCIe tree belongs to, and the bus id each device goes by.

use std::collections::{BTreeMap, HashMap, HashSet};

use peerlane_machine::fabric::{Fabric, NodeId, NodeKind, PciAddress};

/// What distinguishes one `<cpu>` from another, in the order they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Group {
    /// A NUMA node.
    Numa(u32),
    /// A locality domain whose NUMA node is not known.
    Domain(u32),
    /// A package of which no more is known.
    Package(NodeId),
    /// Nothing is known.
    Unknown,
}

fn is_device(kind: NodeKind) -> bool {
    matches!(kind, NodeKind::Gpu | NodeKind::Nic | NodeKind::Switch)
}

/// The tops of the PCIe trees that hold GPUs, NICs or switches, by `<cpu>`; each top once.
pub(super) fn groups(fabric: &Fabric) -> BTreeMap<Group, Vec<NodeId>> {
    let mut groups: BTreeMap<Group, Vec<NodeId>> = BTreeMap::new();
    let mut seen = HashSet::new();
    for id in fabric.ids().filter(|id| is_device(fabric.node(*id).kind)) {
        let top = fabric.tree_top(id);
        if seen.insert(top) {
            groups.entry(group(fabric, id, top)).or_default().push(top);
        }
    }
    groups
}

fn group(fabric: &Fabric, device: NodeId, top: NodeId) -> Group {
    let numa = |id| fabric.node(id).numa;
    let host = || fabric.nearest_host(device).and_then(numa);
    match numa(top).or_else(|| numa(device)).or_else(host) {
        Some(numa) => Group::Numa(numa),
        None => match (fabric.package(device), fabric.node(top).domain) {
            (None, _) => Group::Unknown,
            (_, Some(domain)) => Group::Domain(domain),
            (Some(package), None) => Group::Package(package),
        },
    }
}

/// Bus ids of GPUs, NICs and switches.
pub(super) struct BusIds {
    ids: HashMap<NodeId, PciAddress>,
    /// How many are made up.
    pub(super) invented: usize,
}

impl BusIds {
    /// Every device's own address, each once; made-up ones, of which none is in `known`, for the rest.
    pub(super) fn assign(fabric: &Fabric, known: impl Iterator<Item = PciAddress>) -> Self {
        let mut used: HashSet<PciAddress> = known.collect();
        let mut taken = HashSet::new();
        let mut ids = HashMap::new();
        let devices: Vec<NodeId> = fabric.ids().filter(|id| is_device(fabric.node(*id).kind)).collect();
        for id in &devices {
            if let Some(address) = fabric.node(*id).address.filter(|a| taken.insert(*a)) {
                ids.insert(*id, address);
                used.insert(address);
            }
        }
        // NCCL ignores the function, and the files that clouds ship start at ffff:ff:01.0
        let mut free = (0xff00..=0xffff_u32).rev().flat_map(|domain| {
            (0xf0..=0xff_u8)
                .rev()
                .flat_map(move |bus| (1..32).map(move |device| PciAddress { domain, bus, device, function: 0 }))
        });
        let mut invented = 0;
        for id in devices {
            if !ids.contains_key(&id)
                && let Some(address) = free.find(|a| !used.contains(a))
            {
                ids.insert(id, address);
                invented += 1;
            }
        }
        BusIds { ids, invented }
    }

    /// The bus id of a device.
    pub(super) fn of(&self, id: NodeId) -> Option<PciAddress> {
        self.ids.get(&id).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane_machine::fabric::{FabricBuilder, Node};

    #[test]
    fn made_up_bus_ids_collide_with_none() {
        let mut builder = FabricBuilder::new();
        let mut ids = Vec::new();
        for i in 0..600 {
            let mut node = Node::new(format!("GPU{i}"), NodeKind::Gpu);
            // the second has the address of the first
            node.address = "0000:01:00.0".parse().ok().filter(|_| i < 2);
            ids.push(builder.node(node));
        }
        let known = "ffff:ff:02.0".parse().unwrap();
        let bus_ids = BusIds::assign(&builder.build().unwrap(), [known].into_iter());
        let all: HashSet<PciAddress> = ids.iter().filter_map(|id| bus_ids.of(*id)).collect();
        assert_eq!((all.len(), bus_ids.invented), (600, 599));
        assert!(!all.contains(&known));
    }
}
