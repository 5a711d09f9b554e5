//! Devices of PCI listings joined to those that other statements name: by address, by name, or by order.

use crate::evidence::tool;
use peerlane_machine::fabric::PciAddress;
use peerlane_machine::fact::{PciDevice, PciTree};
use peerlane_machine::origin::{Origin, Warning};
use peerlane_machine::units::{Bytes, Rate};

use super::device::Device;
use super::inventory::{Inventory, names_a_node};
use super::merge::known_or;

impl Inventory {
    /// Addresses, ids and widths from PCI listings; devices that only they know.
    pub(super) fn join_pci(&mut self) {
        let mut free = 0;
        // where other sources name adapters, a flat listing does not say which of its functions they are
        let named = self.devices.iter().any(|d| !d.gpu);
        for (tree, origin) in self.trees.clone() {
            let gpus = tree.gpus();
            self.address_gpus_by_order(&gpus);
            self.address_nics_by_order(&tree);
            let driver = self.devices.iter().filter(|d| d.gpu).count();
            let nameless = self.devices.iter().any(|d| d.gpu && d.facts.address.is_none());
            // those with their own number first, so that the others do not take it
            let (numbered, others): (Vec<_>, Vec<_>) =
                gpus.iter().copied().enumerate().partition(|(_, d)| d.gpu_index.is_some());
            let mut lost = Vec::new();
            for (position, pci) in numbered.into_iter().chain(others) {
                let at = match pci.address.and_then(|a| self.at(a)) {
                    Some(at) => at,
                    None if pci.gpu_index.is_none() && driver > 0 && (nameless || !tree.has_tree) => {
                        lost.extend(pci.address.filter(|_| nameless && tree.has_tree));
                        continue;
                    }
                    None if self.is_full(&origin) => break,
                    None => {
                        let at = self.add_gpu(pci, position, &origin);
                        // another maker's card is none of this driver's
                        if driver > 0 && pci.vendor == Some(NVIDIA) {
                            self.undriven(&self.devices[at].name.clone(), pci, &origin);
                        }
                        at
                    }
                };
                self.join_one(at, pci, &origin);
            }
            self.unmatched(driver, gpus.len(), &lost, &origin);
            let mut nics: Vec<&PciDevice> = tree.devices.iter().filter(|d| d.is_nic() && !is_paravirtual(d)).collect();
            // a card's further ports stand where it does
            nics.sort_by_key(|d| d.address.or_else(|| tree.devices.get(d.parent?)?.address));
            for pci in nics {
                let name = nic_name(pci);
                let by_name = || name.and_then(|n| self.find(n));
                // virtual functions without an interface are no ports
                let at = match pci.address.and_then(|a| self.at(a)).or_else(by_name) {
                    Some(at) => at,
                    None if self.is_full(&origin) => break,
                    None if (tree.has_tree || !named) && (name.is_some() || !pci.is_virtual_function()) => {
                        let name = name.map_or_else(|| self.free_nic_name(&mut free), str::to_owned);
                        self.add(&name, &origin)
                    }
                    None => continue,
                };
                self.join_one(at, pci, &origin);
            }
        }
        self.sort_devices();
    }

    /// A name that no device has, numbered from `next` on.
    fn free_nic_name(&self, next: &mut u32) -> String {
        loop {
            let name = format!("NIC{next}");
            *next += 1;
            if self.find(&name).is_none() {
                return name;
            }
        }
    }

    /// A GPU that only a listing shows: by its number there, else by its place in order, else by the next
    /// free number; never one that another source has put elsewhere.
    fn add_gpu(&mut self, pci: &PciDevice, position: usize, origin: &Origin) -> usize {
        let free = |n: &u32| {
            let known = self.find(&format!("GPU{n}")).map(|at| &self.devices[at]);
            known.is_none_or(|d| d.facts.address.is_none() || pci.address.is_none())
        };
        let wanted = pci.gpu_index.unwrap_or(position as u32);
        let number = std::iter::once(wanted).chain(0..).find(free).unwrap_or(wanted);
        self.add(&format!("GPU{number}"), origin)
    }

    /// Warns that the driver does not show a GPU that is on the bus.
    fn undriven(&mut self, name: &str, pci: &PciDevice, origin: &Origin) {
        let driver = self.devices.iter().filter(|d| d.gpu && d.name != name).flat_map(|d| &d.origins);
        let Some(by) = driver.map(|o| o.tool).find(|t| tool::numbers_as_the_driver(t)) else { return };
        let Some(address) = pci.address else { return };
        let origin = Origin { lines: (pci.line > 0).then_some((pci.line, pci.line)), ..origin.clone() };
        self.warnings.push(Warning::at(
            &origin,
            format!(
                "the GPU at {address} is on the bus, and {by} does not show it; it is called {name} here: check whether its \
                 driver is loaded, another guest has it, or it has fallen off (dmesg, Xid 79)"
            ),
        ));
    }

    /// Warns that GPUs without addresses cannot be matched with more, or fewer, that have them.
    fn unmatched(&mut self, named: usize, listed: usize, lost: &[PciAddress], origin: &Origin) {
        if lost.is_empty() {
            return;
        }
        self.warnings.push(Warning::at(
            origin,
            format!(
                "{} GPUs are listed here and {named} by the driver, so they cannot be matched; add bus ids \
                 (nvidia-smi, nvidia-smi -q)",
                listed
            ),
        ));
    }

    /// `nvidia-smi` numbers GPUs by PCI address, so a listing of as many GPUs, or of as many of NVIDIA's,
    /// gives addresses by order.
    fn address_gpus_by_order(&mut self, listed: &[&PciDevice]) {
        let unaddressed = self.devices.iter().filter(|d| d.gpu).all(|d| d.facts.address.is_none());
        let count = self.devices.iter().filter(|d| d.gpu).count();
        let nvidia: Vec<&PciDevice> = listed.iter().copied().filter(|d| d.vendor == Some(NVIDIA)).collect();
        let listed = if listed.len() == count { listed } else { &nvidia };
        if !unaddressed || count != listed.len() || listed.iter().any(|d| d.address.is_none()) {
            return;
        }
        for (device, pci) in self.devices.iter_mut().filter(|d| d.gpu).zip(listed) {
            device.facts.address = pci.address;
        }
        self.index_all();
    }

    /// The kernel numbers `mlx5_0` … in the order it probes PCI, so as many NVIDIA (Mellanox) functions
    /// without names get the names in order of address.
    fn address_nics_by_order(&mut self, tree: &PciTree) {
        let mellanox = |d: &&PciDevice| {
            let named = d.name.as_deref().is_some_and(|n| n.contains("Mellanox") || n.contains("ConnectX"));
            d.is_nic() && d.os_devices.is_empty() && (d.vendor == Some(0x15b3) || named)
        };
        let mut listed = in_address_order(tree.devices.iter().filter(mellanox));
        let number = |d: &Device| {
            let names = std::iter::once(&d.name).chain(&d.aliases);
            names.filter_map(|n| n.strip_prefix("mlx5_")?.parse::<u32>().ok()).next()
        };
        let mut named: Vec<&mut Device> =
            self.devices.iter_mut().filter(|d| d.facts.address.is_none() && number(d).is_some()).collect();
        if named.len() != listed.len() {
            listed.retain(|d| !d.is_virtual_function());
        }
        if named.len() != listed.len() || listed.iter().any(|d| d.address.is_none()) {
            return;
        }
        named.sort_by_key(|d| number(d));
        for (device, pci) in named.into_iter().zip(listed) {
            device.facts.address = pci.address;
        }
        self.index_all();
    }

    fn join_one(&mut self, at: usize, pci: &PciDevice, origin: &Origin) {
        let device = &mut self.devices[at];
        let facts = &mut device.facts;
        facts.address = facts.address.or(pci.address);
        facts.name = facts.name.take().or_else(|| pci.name.clone());
        facts.running = known_or(facts.running, pci.running);
        facts.capable = known_or(facts.capable, pci.capable);
        facts.bar1 = facts.bar1.or(pci.bar_bytes.map(Bytes));
        device.numa = device.numa.or(pci.numa);
        device.cpus = device.cpus.take().or_else(|| pci.cpus.clone());
        device.pci_id = device.pci_id.or(pci.vendor.zip(pci.device));
        device.link_rate = device.link_rate.or(pci.link_rate);
        let c2c = pci.c2c.map(|(count, rate)| rate * f64::from(count));
        device.c2c = device.c2c.or(c2c.filter(|rate| *rate > Rate::ZERO));
        if !device.gpu {
            device.rdma = device.rdma.or_else(|| does_rdma(pci));
            for os in &pci.os_devices {
                if names_a_node(&os.name) && device.name != os.name && !device.aliases.contains(&os.name) {
                    device.aliases.push(os.name.clone());
                }
            }
        }
        device.rests_on(origin);
        self.index_one(at);
    }
}

/// NVIDIA's PCI vendor number.
const NVIDIA: u16 = 0x10de;

fn in_address_order<'a>(devices: impl Iterator<Item = &'a PciDevice>) -> Vec<&'a PciDevice> {
    let mut all: Vec<&PciDevice> = devices.collect();
    all.sort_by_key(|d| d.address);
    all
}

/// The name a NIC goes by: its RDMA device, else its network interface.
fn nic_name(pci: &PciDevice) -> Option<&str> {
    let mut named = pci.os_devices.iter().filter(|os| names_a_node(&os.name));
    named.clone().find(|o| o.rdma).or_else(|| named.next()).map(|os| os.name.as_str())
}

/// PCI vendor number of virtio devices.
const VIRTIO: u16 = 0x1af4;

/// Whether a network adapter is the hypervisor's software, which has no link, and so no path. One in hardware
/// with a virtio interface has a link.
fn is_paravirtual(pci: &PciDevice) -> bool {
    pci.vendor == Some(VIRTIO)
        && pci.running.is_unknown()
        && pci.capable.is_unknown()
        && !pci.os_devices.iter().any(|o| o.rdma)
}

/// Whether a function does RDMA: by its class (InfiniBand, Omni-Path), its vendor (ConnectX, Slingshot),
/// or the devices that the operating system shows on it. Ports of 1 Gb/s and a virtual machine's
/// paravirtual adapter do not.
fn does_rdma(pci: &PciDevice) -> Option<bool> {
    const MELLANOX: u16 = 0x15b3;
    const CRAY: u16 = 0x17db;
    let fabric = pci.class.is_some_and(|c| matches!(c >> 8, 0x0207 | 0x0208));
    let vendor = matches!(pci.vendor, Some(MELLANOX | CRAY));
    if fabric || vendor || pci.os_devices.iter().any(|o| o.rdma) {
        return Some(true);
    }
    let slow = pci.name.as_deref().is_some_and(is_gigabit);
    (slow || pci.vendor == Some(VIRTIO) || !pci.os_devices.is_empty()).then_some(false)
}

/// Whether a name means 1 Gb/s: `I350 Gigabit Network Connection`, and not `82599ES 10-Gigabit SFI/SFP+ …`.
fn is_gigabit(name: &str) -> bool {
    let Some((before, _)) = name.split_once("Gigabit") else { return false };
    let word = before.split([' ', '-']).rfind(|w| !w.is_empty()).unwrap_or_default();
    word.is_empty() || !word.chars().all(|c| c.is_ascii_digit())
}
