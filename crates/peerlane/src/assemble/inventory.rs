//! The devices of one machine, each statement about a device joined to it: by label, by PCI address,
//! or by order where addresses are all that one side has.

use std::collections::{BTreeMap, HashMap};

use crate::catalogue::{PartKind, Parts};
use crate::evidence::{
    ClassMatrix, Evidence, Fact, GpuFacts, HostFacts, NvlinkPort, Origin, PciDevice, PciTree, Warning,
};
use crate::fabric::{CpuList, PathClass, PciAddress, PcieWidth};
use crate::units::{Bytes, Rate};

use super::group::{gpu_index, is_gpu_label};

/// The most GPUs and NICs of one machine: more than any has, virtual functions included. Matrices over
/// all pairs of more would be of no use to anybody.
const MAX_DEVICES: usize = 1024;

/// The most NUMA nodes of one machine.
const MAX_NUMA_NODES: usize = 512;

/// The most statements that a device remembers having been named in.
const MAX_ORIGINS: usize = 512;

/// A GPU or NIC.
#[derive(Clone, Debug, Default)]
pub(super) struct Device {
    /// Node name: `GPU0`, `mlx5_0`, `NIC0`.
    pub(super) name: String,
    /// Other names.
    pub(super) aliases: Vec<String>,
    /// True for a GPU.
    pub(super) gpu: bool,
    /// All that is known of it, merged; for a NIC only address, name and widths are used.
    pub(super) facts: GpuFacts,
    /// CPUs local to it.
    pub(super) cpus: Option<CpuList>,
    /// NUMA node.
    pub(super) numa: Option<u32>,
    /// For a NIC, whether it does RDMA.
    pub(super) rdma: Option<bool>,
    /// Line rate in Gb/s, where told.
    pub(super) gigabits: Option<f64>,
    /// Raw rate of its PCIe link, where a source gives only that.
    pub(super) link_rate: Option<Rate>,
    /// PCI vendor and device.
    pub(super) pci_id: Option<(u16, u16)>,
    /// Catalogue part.
    pub(super) part: Option<String>,
    /// Statements about it.
    pub(super) origins: Vec<Origin>,
}

impl Device {
    fn named_in(&mut self, origin: &Origin) {
        if self.origins.len() < MAX_ORIGINS && !self.origins.contains(origin) {
            self.origins.push(origin.clone());
        }
    }
}

/// Everything about one machine, sorted by what it is about.
#[derive(Debug, Default)]
pub(super) struct Inventory {
    /// GPUs in order, then NICs.
    pub(super) devices: Vec<Device>,
    /// The class matrix.
    pub(super) classes: Option<(ClassMatrix, Origin)>,
    /// PCI trees, most telling first.
    pub(super) trees: Vec<(PciTree, Origin)>,
    /// Host facts, merged.
    pub(super) host: HostFacts,
    /// Statements about the host.
    pub(super) host_origins: Vec<Origin>,
    /// NVLink ports.
    pub(super) nvlinks: Vec<(Vec<NvlinkPort>, Origin)>,
    /// What is odd.
    pub(super) warnings: Vec<Warning>,
    /// Devices by name and alias.
    by_name: HashMap<String, usize>,
    /// Row and column of each device in the class matrix.
    listed: Vec<(Option<usize>, Option<usize>)>,
    /// Whether there are more devices than [`MAX_DEVICES`].
    overfull: bool,
}

impl Inventory {
    /// Sorts and joins the statements of one machine.
    pub(super) fn of(evidence: &[Evidence]) -> Self {
        let mut all = Inventory::default();
        for one in evidence {
            match &one.fact {
                Fact::Classes(m) if all.classes.is_none() => all.classes = Some((m.clone(), one.origin.clone())),
                Fact::Pci(tree) => all.trees.push((tree.clone(), one.origin.clone())),
                Fact::Nvlink(ports) => all.nvlinks.push((ports.clone(), one.origin.clone())),
                Fact::Host(host) => {
                    merge_host(&mut all.host, host);
                    all.host_origins.push(one.origin.clone());
                }
                _ => {}
            }
        }
        all.trees.sort_by_key(|(tree, origin)| telling(tree, origin.tool));
        all.label_devices(evidence);
        all.join_gpu_facts(evidence);
        all.join_pci();
        all.find_parts();
        all.index();
        all.find_in_matrix();
        if all.overfull {
            let message = format!("more than {MAX_DEVICES} GPUs and NICs: the others are left out");
            all.warnings.push(Warning { origin: None, message });
        }
        all
    }

    /// Sorts GPUs first, by number (a matrix may list NICs between), and indexes names.
    fn index(&mut self) {
        self.devices.sort_by_key(|d| (!d.gpu, d.facts.index.filter(|_| d.gpu)));
        self.by_name.clear();
        for (i, device) in self.devices.iter().enumerate() {
            for name in std::iter::once(&device.name).chain(&device.aliases) {
                self.by_name.entry(name.clone()).or_insert(i);
            }
        }
    }

    /// Finds each device's row and column in the class matrix, under the first of its names that it has there.
    fn find_in_matrix(&mut self) {
        let Some((matrix, _)) = &self.classes else { return };
        // the first row or column of a name, where a name is there twice
        let places = |names: &[String]| -> HashMap<String, usize> {
            names.iter().enumerate().rev().map(|(i, name)| (name.clone(), i)).collect()
        };
        let (rows, cols) = (places(&matrix.rows), places(&matrix.cols));
        let listed = |device: &Device| {
            let names = std::iter::once(&device.name).chain(&device.aliases);
            let places = names.map(|n| (rows.get(n).copied(), cols.get(n).copied()));
            places.into_iter().find(|place| *place != (None, None)).unwrap_or_default()
        };
        self.listed = self.devices.iter().map(listed).collect();
    }

    /// Whether the class matrix lists a device.
    pub(super) fn is_listed(&self, device: usize) -> bool {
        self.listed.get(device).is_some_and(|place| *place != (None, None))
    }

    /// What the class matrix says of a pair.
    pub(super) fn stated(&self, a: usize, b: usize) -> Option<PathClass> {
        let (matrix, _) = self.classes.as_ref()?;
        let (x, y) = (self.listed.get(a)?, self.listed.get(b)?);
        let cell = |row: Option<usize>, col: Option<usize>| matrix.cells.get(row?)?.get(col?).copied().flatten();
        cell(x.0, y.1).or_else(|| cell(y.0, x.1))
    }

    /// Index of the device with that name or alias.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Index of the device at that address; functions of a GPU count as one.
    pub(super) fn at(&self, address: PciAddress) -> Option<usize> {
        let exact = self.devices.iter().position(|d| d.facts.address == Some(address));
        exact.or_else(|| {
            let same = |d: &Device| d.gpu && d.facts.address.is_some_and(|a| a.same_device(address));
            self.devices.iter().position(same)
        })
    }

    /// The device of that name, added if there is room for it.
    fn add(&mut self, name: &str, origin: &Origin) -> Option<usize> {
        if let Some(at) = self.find(name) {
            self.devices[at].named_in(origin);
            return Some(at);
        }
        if self.devices.len() >= MAX_DEVICES {
            self.overfull = true;
            return None;
        }
        let gpu = is_gpu_label(name);
        let facts = GpuFacts { index: gpu_index(name), ..GpuFacts::default() };
        self.by_name.insert(name.to_owned(), self.devices.len());
        self.devices.push(Device {
            name: name.to_owned(),
            gpu,
            facts,
            origins: vec![origin.clone()],
            ..Device::default()
        });
        Some(self.devices.len() - 1)
    }

    /// Another name of a device.
    fn alias(&mut self, at: usize, name: &str) {
        let device = &mut self.devices[at];
        if device.name != name && !device.aliases.iter().any(|a| a == name) {
            device.aliases.push(name.to_owned());
            self.by_name.entry(name.to_owned()).or_insert(at);
        }
    }

    /// Devices by the names that matrices give them.
    fn label_devices(&mut self, evidence: &[Evidence]) {
        if let Some((matrix, origin)) = self.classes.clone() {
            for name in matrix.cols.iter().chain(&matrix.rows) {
                let Some(at) = self.add(name, &origin) else { continue };
                if let Some(real) = matrix.nic_names.get(name)
                    && self.find(real).is_none()
                {
                    self.alias(at, real);
                }
                if !self.devices[at].gpu {
                    // the driver lists RDMA devices only
                    self.devices[at].rdma = Some(true);
                }
            }
            for (i, name) in matrix.rows.iter().enumerate() {
                let Some(at) = self.find(name) else { continue };
                self.devices[at].cpus = matrix.cpu_affinity.get(i).cloned().flatten();
                let nodes = matrix.numa_affinity.get(i).and_then(Option::as_ref);
                self.devices[at].numa = nodes.filter(|n| n.len() == 1).map(|n| n.ranges()[0].0);
            }
        }
        for one in evidence {
            let names: Vec<&String> = match &one.fact {
                Fact::Matrix(m) => m.rows.iter().chain(&m.cols).collect(),
                Fact::P2p(m) => m.rows.iter().chain(&m.cols).collect(),
                Fact::Curve(c) => c.ends.iter().collect(),
                _ => continue,
            };
            // other ends are `host`, `self`, `others`, ranks; only RDMA programs name NICs
            let rdma = one.origin.tool == "perftest";
            for name in names.into_iter().filter(|n| is_gpu_label(n) || (rdma && *n != "host")) {
                let known = self.find(name).is_some();
                let Some(at) = self.add(name, &one.origin) else { continue };
                if !known && !self.devices[at].gpu {
                    self.devices[at].rdma = Some(true);
                }
            }
        }
    }

    fn join_gpu_facts(&mut self, evidence: &[Evidence]) {
        for one in evidence {
            let Fact::Gpus(gpus) = &one.fact else { continue };
            for (position, facts) in gpus.iter().enumerate() {
                let by_address = facts.address.and_then(|a| self.at(a));
                let index = facts.index.unwrap_or(position as u32);
                let Some(at) = by_address.or_else(|| self.add(&format!("GPU{index}"), &one.origin)) else { continue };
                let device = &mut self.devices[at];
                merge_gpu(&mut device.facts, facts);
                device.numa = device.numa.or(facts.numa);
                device.named_in(&one.origin);
            }
        }
        self.index();
    }

    /// Addresses, ids and widths from PCI listings; devices that only they know.
    fn join_pci(&mut self) {
        for (tree, origin) in self.trees.clone() {
            self.address_gpus_by_order(&tree);
            self.address_nics_by_order(&tree);
            let gpus: Vec<&PciDevice> = in_address_order(tree.devices.iter().filter(|d| d.is_gpu()));
            for (position, pci) in gpus.into_iter().enumerate() {
                let by_address = pci.address.and_then(|a| self.at(a));
                let number = pci.gpu_index.unwrap_or(position as u32);
                let whole = tree.has_tree || pci.gpu_index.is_some();
                let at = match by_address {
                    Some(at) => Some(at),
                    None if whole || !self.devices.iter().any(|d| d.gpu) => self.add(&format!("GPU{number}"), &origin),
                    None => None,
                };
                let Some(at) = at else { continue };
                self.join_one(at, pci, &origin);
            }
            let nics: Vec<&PciDevice> = in_address_order(tree.devices.iter().filter(|d| d.is_nic()));
            for pci in nics {
                let name = nic_name(pci);
                let by_name = || name.and_then(|n| self.find(n));
                // a flat listing names no place; only a tree adds NICs that nobody else lists
                let at = match pci.address.and_then(|a| self.at(a)).or_else(by_name) {
                    Some(at) => Some(at),
                    None if tree.has_tree => {
                        let free = (0..).map(|n| format!("NIC{n}")).find(|n| self.find(n).is_none());
                        let name = name.map(str::to_owned).or(free).unwrap_or_default();
                        self.add(&name, &origin)
                    }
                    None => None,
                };
                let Some(at) = at else { continue };
                self.join_one(at, pci, &origin);
            }
        }
        self.index();
    }

    /// `nvidia-smi` numbers GPUs by PCI address, so a listing of as many GPUs gives addresses by order.
    fn address_gpus_by_order(&mut self, tree: &PciTree) {
        let listed = in_address_order(tree.devices.iter().filter(|d| d.is_gpu()));
        let unaddressed = self.devices.iter().filter(|d| d.gpu).all(|d| d.facts.address.is_none());
        let count = self.devices.iter().filter(|d| d.gpu).count();
        if !unaddressed || count != listed.len() || listed.iter().any(|d| d.address.is_none()) {
            return;
        }
        for (device, pci) in self.devices.iter_mut().filter(|d| d.gpu).zip(listed) {
            device.facts.address = pci.address;
        }
    }

    /// The kernel numbers `mlx5_0` … in the order it probes PCI, so as many NVIDIA (Mellanox) functions
    /// without names of their own get the names in order of address.
    fn address_nics_by_order(&mut self, tree: &PciTree) {
        let mellanox = |d: &&PciDevice| {
            let named = d.name.as_deref().is_some_and(|n| n.contains("Mellanox") || n.contains("ConnectX"));
            d.is_nic() && d.os_devices.is_empty() && (d.vendor == Some(0x15b3) || named)
        };
        let listed = in_address_order(tree.devices.iter().filter(mellanox));
        let number = |d: &Device| {
            let names = std::iter::once(&d.name).chain(&d.aliases);
            names.filter_map(|n| n.strip_prefix("mlx5_")?.parse::<u32>().ok()).next()
        };
        let mut named: Vec<&mut Device> =
            self.devices.iter_mut().filter(|d| d.facts.address.is_none() && number(d).is_some()).collect();
        if named.len() != listed.len() || listed.iter().any(|d| d.address.is_none()) {
            return;
        }
        named.sort_by_key(|d| number(d));
        for (device, pci) in named.into_iter().zip(listed) {
            device.facts.address = pci.address;
        }
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
        if !device.gpu {
            device.rdma = device.rdma.or_else(|| does_rdma(pci));
            device.gigabits = device.gigabits.or(pci.os_devices.iter().find_map(|o| o.gigabits));
        }
        device.named_in(origin);
        if !device.gpu {
            for os in &pci.os_devices {
                self.alias(at, &os.name);
            }
        }
    }

    fn find_parts(&mut self) {
        let parts = Parts::embedded();
        for device in &mut self.devices {
            let kind = if device.gpu { PartKind::Gpu } else { PartKind::Nic };
            let by_id = device.pci_id.and_then(|(vendor, id)| parts.for_pci_id(vendor, id));
            let by_name = || device.facts.name.as_deref().and_then(|name| parts.for_product(kind, name));
            let part = by_id.filter(|p| p.kind == kind).or_else(by_name);
            device.part = part.map(|p| p.name.clone());
            if device.facts.running.is_unknown()
                && let Some((rate, limit)) = device.link_rate.zip(part.and_then(|p| p.pcie))
            {
                device.facts.running = PcieWidth::from_raw_rate(rate, limit).unwrap_or_default();
            }
        }
        // aliases that two devices share (eth0 of two virtual functions) name neither
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for name in self.devices.iter().flat_map(|d| d.aliases.iter().chain([&d.name])) {
            *seen.entry(name.clone()).or_default() += 1;
        }
        for device in &mut self.devices {
            device.aliases.retain(|a| seen.get(a) == Some(&1));
        }
    }
}

/// Order of trust among PCI trees: those that show every port first.
fn telling(tree: &PciTree, tool: &str) -> u8 {
    match tool {
        _ if !tree.has_tree => 9,
        "sysfs" => 0,
        "lspci -tv" => 1,
        "lstopo XML" => 2,
        "lstopo" => 3,
        "sysfs listing" => 4,
        _ if tree.bridges_are_switches => 6,
        _ => 5,
    }
}

fn in_address_order<'a>(devices: impl Iterator<Item = &'a PciDevice>) -> Vec<&'a PciDevice> {
    let mut all: Vec<&PciDevice> = devices.collect();
    all.sort_by_key(|d| d.address);
    all
}

/// The name a NIC goes by: its RDMA device, else its network interface.
fn nic_name(pci: &PciDevice) -> Option<&str> {
    let rdma = pci.os_devices.iter().find(|o| o.rdma);
    rdma.or_else(|| pci.os_devices.first()).map(|os| os.name.as_str())
}

/// Whether a function does RDMA: by its class (InfiniBand), its vendor (ConnectX), or the devices that
/// the operating system shows on it. A virtual machine's paravirtual adapter does not.
fn does_rdma(pci: &PciDevice) -> Option<bool> {
    const MELLANOX: u16 = 0x15b3;
    const VIRTIO: u16 = 0x1af4;
    let infiniband = pci.class.is_some_and(|c| c >> 8 == 0x0207);
    if infiniband || pci.vendor == Some(MELLANOX) || pci.os_devices.iter().any(|o| o.rdma) {
        return Some(true);
    }
    (pci.vendor == Some(VIRTIO) || !pci.os_devices.is_empty()).then_some(false)
}

fn known_or(a: PcieWidth, b: PcieWidth) -> PcieWidth {
    PcieWidth { generation: a.generation.or(b.generation), lanes: a.lanes.or(b.lanes) }
}

fn merge_gpu(into: &mut GpuFacts, from: &GpuFacts) {
    macro_rules! keep_known {
        ($($field:ident),*) => {
            $( if into.$field.is_none() { into.$field = from.$field.clone(); } )*
        };
    }
    keep_known!(
        index,
        address,
        uuid,
        temperature,
        power,
        power_limit,
        utilization,
        memory,
        bar1,
        memory_clock_mhz,
        memory_bus_bits,
        copy_engines,
        compute_capability,
        mig,
        performance_state,
        replays,
        fabric_state,
        numa,
        driver
    );
    // the plain table cuts names short, others print them whole
    if into.name.as_ref().map(String::len) < from.name.as_ref().map(String::len) {
        into.name.clone_from(&from.name);
    }
    into.running = known_or(into.running, from.running);
    into.allowed = known_or(into.allowed, from.allowed);
    into.capable = known_or(into.capable, from.capable);
    into.clock_event_reasons.extend(from.clock_event_reasons.iter().cloned());
    into.clock_event_reasons.sort();
    into.clock_event_reasons.dedup();
}

fn merge_host(into: &mut HostFacts, from: &HostFacts) {
    macro_rules! keep_known {
        ($($field:ident),*) => {
            $( if into.$field.is_none() { into.$field = from.$field.clone(); } )*
        };
    }
    keep_known!(name, product, arch, cpu_model, cpu_ids, sockets, cores_per_socket, threads, hypervisor);
    for node in &from.numa {
        let full = into.numa.len() >= MAX_NUMA_NODES;
        match into.numa.iter_mut().find(|n| n.id == node.id) {
            Some(known) => {
                known.cpus = known.cpus.take().or_else(|| node.cpus.clone());
                known.memory = known.memory.or(node.memory);
                known.package = known.package.or(node.package);
                if known.distances.is_empty() {
                    known.distances.clone_from(&node.distances);
                }
            }
            None if full => {}
            None => into.numa.push(node.clone()),
        }
    }
}
