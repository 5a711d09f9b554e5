//! PCI functions as a listing has them, each with the buses behind it, and the tree that follows.

use std::collections::{HashMap, HashSet};

use super::{PciDevice, PciRole, PciTree};

/// One function of a listing.
#[derive(Debug, Default)]
pub(super) struct Function {
    pub(super) device: PciDevice,
    /// The first bus behind a bridge.
    pub(super) secondary: Option<u8>,
    /// Whether it is a root port.
    pub(super) root_port: bool,
}

/// Hangs devices below the bridges whose secondary bus they are on, and root ports below host bridges.
pub(super) fn tree(mut functions: Vec<Function>) -> PciTree {
    let has_buses = functions.iter().any(|f| f.secondary.is_some());
    if !has_buses {
        let devices = functions.into_iter().map(|f| f.device).collect();
        return PciTree { devices, bridges_are_switches: false, has_tree: false };
    }
    // a bridge's secondary bus has a higher number than its own, so parents come first
    functions.sort_by_key(|f| f.device.address);
    let mut tree = PciTree::default();
    let mut above: HashMap<(u32, u8), usize> = HashMap::new();
    // bridges on the first bus are root ports, also where the line of their kind is not shown
    let is_top = |f: &Function| {
        let on_first_bus = f.secondary.is_some() && f.device.address.is_some_and(|a| a.bus == 0);
        f.root_port || on_first_bus || f.device.class == Some(0x06_0000)
    };
    let roots: HashSet<(u32, u8)> =
        functions.iter().filter(|f| is_top(f)).filter_map(|f| f.device.address.map(|a| (a.domain, a.bus))).collect();
    for Function { mut device, secondary, .. } in functions {
        let Some(address) = device.address else { continue };
        let bus = (address.domain, address.bus);
        if !above.contains_key(&bus) && roots.contains(&bus) {
            above.insert(bus, tree.devices.len());
            let name = Some(format!("PCI bus {:04x}:{:02x}", bus.0, bus.1));
            tree.devices.push(PciDevice { name, line: device.line, ..PciDevice::new(PciRole::HostBridge) });
        }
        device.parent = above.get(&bus).copied();
        if let Some(secondary) = secondary.filter(|s| *s > address.bus) {
            above.entry((address.domain, secondary)).or_insert(tree.devices.len());
        }
        tree.devices.push(device);
    }
    // a few functions of a document are no tree
    let mut ends = tree.devices.iter().filter(|d| d.is_gpu() || d.is_nic()).peekable();
    tree.has_tree = ends.peek().is_some() && ends.all(|d| d.parent.is_some());
    tree
}
