//! The PCI tree from the kernel's device paths, such as
//! `/sys/devices/pci0000:00/0000:00:03.0/0000:02:00.0`.
//!
//! A server has hundreds of PCI functions. Kept are GPUs, network adapters and NVSwitches, with the
//! bridges and host bridges above them.

use std::collections::HashMap;

use super::{PciDevice, PciRole, PciTree};
use peerlane_machine::fabric::PciAddress;

/// The most path components that are followed.
const MAX_DEPTH: usize = 64;

/// One function as the kernel lists it.
pub(super) struct Function {
    /// What is known of it; its role and parent follow from the paths.
    pub(super) device: PciDevice,
    /// Its path below `/sys/devices`, if known.
    pub(super) path: Option<String>,
}

/// One step of a device path that matters to the PCI tree.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Step {
    /// `pci0000:00`
    Root(String),
    /// `0000:02:00.0`
    Function(PciAddress),
}

/// The PCI steps of a device path. Where one hierarchy starts inside another (Intel VMD), the inner one.
fn steps(path: &str) -> Vec<Step> {
    let mut all = Vec::new();
    for part in path.split('/').take(MAX_DEPTH) {
        if let Some(bus) = part.strip_prefix("pci").filter(|b| b.contains(':')) {
            all = vec![Step::Root(bus.to_owned())];
        } else if let Some(address) = address(part) {
            all.push(Step::Function(address));
        }
    }
    all
}

/// A PCI address as the kernel names folders: domain, bus, device and function.
pub(super) fn address(part: &str) -> Option<PciAddress> {
    part.parse().ok().filter(|_| part.matches(':').count() == 2 && part.contains('.'))
}

/// The PCI function a device path lies in.
pub(super) fn function_of(path: &str) -> Option<PciAddress> {
    path.split('/').rev().find_map(address)
}

/// The functions that matter, and what is above them.
pub(super) fn tree(mut functions: Vec<Function>) -> PciTree {
    functions.sort_by_key(|f| f.device.address);
    let listed: HashMap<PciAddress, usize> =
        functions.iter().enumerate().filter_map(|(i, f)| Some((f.device.address?, i))).collect();
    let mut tree = PciTree { has_tree: true, ..PciTree::default() };
    let mut placed: HashMap<Step, usize> = HashMap::new();
    for function in functions.iter().filter(|f| matters(&f.device)) {
        let Some(own) = function.device.address.map(Step::Function) else { continue };
        let mut chain = steps(function.path.as_deref().unwrap_or_default());
        if chain.last() != Some(&own) {
            chain = vec![own];
        }
        tree.has_tree &= matches!(chain.first(), Some(Step::Root(_)));
        let mut parent = None;
        let last = chain.len() - 1;
        for (i, step) in chain.into_iter().enumerate() {
            let index = match placed.get(&step) {
                Some(index) => *index,
                None => {
                    let mut device = match &step {
                        Step::Root(bus) => PciDevice {
                            name: Some(format!("PCI bus {bus}")),
                            numa: function.device.numa,
                            cpus: function.device.cpus.clone(),
                            ..PciDevice::new(PciRole::HostBridge)
                        },
                        Step::Function(address) => match listed.get(address).and_then(|l| functions.get(*l)) {
                            Some(known) => known.device.clone(),
                            None => PciDevice { address: Some(*address), ..PciDevice::new(PciRole::Endpoint) },
                        },
                    };
                    if i < last && device.role == PciRole::Endpoint {
                        device.role = PciRole::Bridge;
                    }
                    device.parent = parent;
                    tree.devices.push(device);
                    placed.insert(step, tree.devices.len() - 1);
                    tree.devices.len() - 1
                }
            };
            parent = Some(index);
        }
    }
    tree
}

/// Whether it is a GPU, a network adapter or an NVSwitch.
fn matters(device: &PciDevice) -> bool {
    device.is_gpu() || device.is_nic() || (device.is_nvswitch() && device.vendor == Some(0x10de))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(address: &str, class: u32, vendor: u16, path: &str) -> Function {
        let device = PciDevice {
            address: Some(address.parse().unwrap()),
            class: Some(class),
            vendor: Some(vendor),
            ..PciDevice::new(PciRole::Endpoint)
        };
        Function { device, path: Some(path.to_owned()) }
    }

    #[test]
    fn bridges_above_what_matters_are_kept() {
        let tree = tree(vec![
            function("0000:02:00.0", 0x030200, 0x10de, "/sys/devices/pci0000:00/0000:00:03.0/0000:02:00.0"),
            function("0000:02:00.1", 0x040300, 0x10de, "/sys/devices/pci0000:00/0000:00:03.0/0000:02:00.1"),
            function("0000:00:03.0", 0x060400, 0x8086, "/sys/devices/pci0000:00/0000:00:03.0"),
            function("0000:00:04.0", 0x060400, 0x8086, "/sys/devices/pci0000:00/0000:00:04.0"),
            function(
                "10000:e1:00.0",
                0x020000,
                0x8086,
                "/sys/devices/pci0000:00/0000:00:05.5/pci10000:e0/10000:e1:00.0",
            ),
        ]);
        let shape: Vec<_> = tree.devices.iter().map(|d| (d.role, d.parent)).collect();
        assert_eq!(
            shape,
            [
                (PciRole::HostBridge, None),
                (PciRole::Bridge, Some(0)),
                (PciRole::Endpoint, Some(1)),
                (PciRole::HostBridge, None),
                (PciRole::Endpoint, Some(3)),
            ]
        );
        assert!(tree.has_tree);
        assert_eq!(function_of("../../devices/pci0000:00/0000:00:03.0/virtio0/net/eth0").unwrap().device, 3);
    }

    #[test]
    fn without_paths_there_is_no_tree() {
        let tree = tree(vec![function("0000:02:00.0", 0x030200, 0x10de, "")]);
        assert_eq!((tree.devices.len(), tree.has_tree), (1, false));
    }
}
