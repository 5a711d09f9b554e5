//! hwloc's topology in XML (`lstopo machine.xml`), versions 2 and 3.
//!
//! Objects nest as the hardware does. A PCI tree hangs below the package, group or machine that it is
//! local to. Distance matrices hold NUMA latencies and the bandwidths of NVLink and xGMI.

mod distances;

use std::collections::HashMap;

use distances::{nvlinks, uncounted_hops};

use super::words::{hex, pci_id};
use super::xml::{Document, Element, documents};
use super::{Fact, Found, HostFacts, NumaNode, OsDevice, PciDevice, PciRole, PciTree, Text};
use peerlane_machine::fabric::CpuList;
use peerlane_machine::units::{Bytes, Rate};

const TOOL: &str = super::tool::LSTOPO_XML;

/// Finds hwloc topologies in the text.
pub(super) fn scan(text: &Text, found: &mut Found) {
    for document in documents(text, "topology") {
        // other programs call their roots so too
        if !document.children(0).any(|(_, e)| e.name == "object") {
            continue;
        }
        document.warn_if_broken(text, TOOL, found);
        let objects = Objects::read(&document);
        let host = host(&document);
        let links = nvlinks(&document, &objects);
        if let Some(gpus) = uncounted_hops(&document) {
            let message = format!(
                "hwloc counts one hop for every pair of the {gpus} GPUs that xGMI reaches, also over other GPUs: which have a direct \
                 link is unknown; add `rocm-smi --showtopo` or `amd-smi topology`, whose weights show it"
            );
            found.warn(text, TOOL, document.lines, message);
        }
        found.push(text, TOOL, document.lines, Fact::Pci(objects.tree));
        found.push(text, TOOL, document.lines, Fact::Nvlink(links));
        found.push(text, TOOL, document.lines, Fact::Host(host));
    }
}

/// The type of an object, such as `NUMANode`.
pub(super) fn kind(element: &Element) -> Option<&str> {
    if element.name == "object" { element.attribute("type") } else { None }
}

/// The value of an `<info>` just inside an object.
fn info<'a>(document: &'a Document, at: usize, name: &str) -> Option<&'a str> {
    let mut infos = document.children(at).filter(|(_, e)| e.name == "info");
    infos.find(|(_, e)| e.attribute("name") == Some(name)).and_then(|(_, e)| e.attribute("value"))
}

/// The nearest object of some kind around an element.
fn ancestor<'a>(document: &'a Document, of: &Element, wanted: impl Fn(&str) -> bool) -> Option<&'a Element> {
    let mut at = of.parent;
    while let Some(element) = at.and_then(|a| document.get(a)) {
        if kind(element).is_some_and(&wanted) {
            return Some(element);
        }
        at = element.parent;
    }
    None
}

fn host(document: &Document) -> HostFacts {
    let mut host = HostFacts::default();
    let mut packages = 0_u32;
    for (at, element) in document.iter() {
        let text = |name: &str| info(document, at, name).map(|v| v.trim().to_owned());
        // hwloc 3 keeps what describes the whole machine next to the root object
        if kind(element) == Some("Machine") || at == 0 {
            host.name = host.name.or_else(|| text("HostName"));
            host.product = host.product.or_else(|| text("DMIProductName")).or_else(|| text("PlatformModel"));
            host.arch = host.arch.or_else(|| text("Architecture"));
        }
        match kind(element) {
            Some("Package" | "Socket") => {
                packages += 1;
                host.cpu_model = host.cpu_model.or_else(|| text("CPUModel"));
                let id = |name| info(document, at, name).and_then(|v| v.parse().ok());
                if let (None, Some(vendor), Some(family), Some(model)) =
                    (&host.cpu_ids, text("CPUVendor"), id("CPUFamilyNumber"), id("CPUModelNumber"))
                {
                    host.cpu_ids = Some((vendor, family, model));
                }
            }
            Some("NUMANode") => {
                let Some(id) = element.number("os_index") else { continue };
                // hwloc 1 has packages inside NUMA nodes, later versions NUMA nodes inside packages
                let is_package = |k: &str| k == "Package" || k == "Socket";
                let inside = || document.children(at).map(|(_, e)| e).find(|e| kind(e).is_some_and(is_package));
                let package = ancestor(document, element, is_package).or_else(inside);
                host.numa.push(NumaNode {
                    id,
                    cpus: element.attribute("cpuset").and_then(CpuList::from_mask),
                    memory: element.number("local_memory").map(Bytes),
                    package: package.and_then(|p| p.number("os_index")),
                });
            }
            _ => {}
        }
    }
    host.sockets = Some(packages).filter(|n| *n > 0);
    host
}

/// The PCI tree, and which object is which device.
pub(super) struct Objects {
    /// The tree.
    pub(super) tree: PciTree,
    device_of: HashMap<usize, usize>,
}

impl Objects {
    fn read(document: &Document) -> Self {
        let masks = document.root().and_then(|r| r.attribute("version")).is_some_and(|v| v.starts_with('3'));
        let mut objects = Objects { tree: PciTree { has_tree: true, ..PciTree::default() }, device_of: HashMap::new() };
        for (at, element) in document.iter() {
            let device = match kind(element) {
                Some("Bridge") => Some(bridge(document, at, element)),
                Some("PCIDev") => Some(pci_device(document, at, element, PciRole::Endpoint)),
                Some("OSDev") => {
                    objects.os_device(document, at, element, masks);
                    None
                }
                _ => None,
            };
            if let Some(mut device) = device {
                device.parent = objects.device(document, element.parent);
                objects.device_of.insert(at, objects.tree.devices.len());
                objects.tree.devices.push(device);
            }
        }
        objects
    }

    /// The device that an object is, or that it belongs to.
    pub(super) fn device(&self, document: &Document, object: Option<usize>) -> Option<usize> {
        let mut at = object;
        while let Some(here) = at {
            if let Some(device) = self.device_of.get(&here) {
                return Some(*device);
            }
            at = document.get(here).and_then(|e| e.parent);
        }
        None
    }

    fn os_device(&mut self, document: &Document, at: usize, element: &Element, masks: bool) {
        let owner = self.device(document, element.parent);
        let (Some(device), Some(name)) = (owner.and_then(|d| self.tree.devices.get_mut(d)), element.attribute("name"))
        else {
            return;
        };
        let (network, openfabrics, accelerator) = os_device_kinds(element.number("osdev_type").unwrap_or(0), masks);
        if !(network || openfabrics || accelerator) {
            return;
        }
        if let Some(index) = name.strip_prefix("cuda").and_then(|n| n.parse().ok()) {
            device.gpu_index = Some(index);
        }
        if device.name.is_none() {
            device.name = info(document, at, "GPUModel").map(str::to_owned);
        }
        // the port states of the InfiniBand architecture
        let state = info(document, at, "Port1State");
        let down = state == Some("1");
        let note = state.map(|state| match state {
            "1" => "port 1 down".to_owned(),
            "4" => "port 1 active".to_owned(),
            other => format!("port 1 in state {other}"),
        });
        device.os_devices.push(OsDevice { name: name.to_owned(), rdma: openfabrics, gigabits: None, down, note });
    }
}

/// Network, OpenFabrics, GPU or co-processor: an enumeration in hwloc 2 (1 GPU, 2 network, 3 OpenFabrics,
/// 5 co-processor), a bit mask in hwloc 3 (4 GPU, 8 co-processor, 16 network, 32 OpenFabrics).
fn os_device_kinds(value: u32, mask: bool) -> (bool, bool, bool) {
    if mask {
        (value & 16 != 0, value & 32 != 0, value & 12 != 0)
    } else {
        (value == 2, value == 3, value == 1 || value == 5)
    }
}

fn bridge(document: &Document, at: usize, element: &Element) -> PciDevice {
    if element.attribute("bridge_type").is_some_and(|t| t.starts_with("1-")) {
        return pci_device(document, at, element, PciRole::Bridge);
    }
    let near = ancestor(document, element, |k| k != "Bridge");
    let numa = near.and_then(|e| e.attribute("nodeset")).and_then(CpuList::from_mask);
    // the CPUs of the whole machine are no locality
    let cpus = near.filter(|e| kind(e) != Some("Machine")).and_then(|e| e.attribute("cpuset"));
    PciDevice {
        name: element.attribute("bridge_pci").map(|range| format!("PCI buses {range}")),
        numa: numa.filter(|n| n.len() == 1).and_then(|n| n.ranges().first().map(|r| r.0)),
        cpus: cpus.and_then(CpuList::from_mask).filter(|c| !c.is_empty()),
        line: element.line,
        ..PciDevice::new(PciRole::HostBridge)
    }
}

fn pci_device(document: &Document, at: usize, element: &Element, role: PciRole) -> PciDevice {
    // "0302 [10de:15f8] [10de:118f] a1"
    let words: Vec<&str> = element.attribute("pci_type").unwrap_or_default().split_whitespace().collect();
    let ids = words.get(1).and_then(|w| w.trim_matches(['[', ']']).split_once(':'));
    let rate: Option<f64> = element.number("pci_link_speed");
    let class = words.first().and_then(|w| hex(w)).filter(|c| (1..=0xffff).contains(c)).map(|c| c << 8);
    // where configuration space could not be read, hwloc still has this from the NVIDIA driver
    let nvswitch = (element.attribute("subtype") == Some("NVSwitch")).then_some(0x06_8000);
    let known = |id: &u16| *id != 0;
    PciDevice {
        address: element.attribute("pci_busid").and_then(|b| b.parse().ok()),
        class: class.or(nvswitch),
        vendor: ids.and_then(|(v, _)| pci_id(v)).filter(known),
        device: ids.and_then(|(_, d)| pci_id(d)).filter(known),
        name: info(document, at, "PCIDevice").map(str::to_owned),
        link_rate: rate.filter(|r| *r != 0.0).map(Rate::from_gb),
        line: element.line,
        ..PciDevice::new(role)
    }
}

#[cfg(test)]
mod tests {
    use super::super::NvlinkEnd;
    use super::*;

    fn read(text: &str) -> Found {
        let mut found = Found::default();
        scan(&Text::new("x.xml", text.as_bytes()), &mut found);
        found
    }

    fn machine(version: &str, cuda: u32, ib: u32) -> String {
        format!(
            r#"<?xml version="1.0"?>
<topology version="{version}">
 <object type="Machine" os_index="0" cpuset="0x000000ff" nodeset="0x00000003" gp_index="1">
  <info name="HostName" value="n1"/>
  <object type="Package" os_index="1" cpuset="0x000000f0" nodeset="0x00000002" gp_index="3">
   <info name="CPUModel" value="A CPU"/>
   <object type="NUMANode" os_index="1" cpuset="0x000000f0" nodeset="0x00000002" gp_index="9" local_memory="1024"/>
   <object type="Bridge" gp_index="20" bridge_type="0-1" bridge_pci="0000:[80-82]">
    <object type="Bridge" gp_index="21" bridge_type="1-1" pci_busid="0000:80:01.0" pci_type="0604 [8086:6f08] [0000:0000] 01" pci_link_speed="7.876923">
     <object type="PCIDev" gp_index="22" pci_busid="0000:81:00.0" pci_type="0302 [10de:15f9] [10de:118f] a1" pci_link_speed="0.000000">
      <object type="OSDev" gp_index="30" name="cuda4" osdev_type="{cuda}"/>
     </object>
     <object type="PCIDev" gp_index="23" pci_busid="0000:82:00.0" pci_type="0207 [15b3:1017] [15b3:0003] 00">
      <object type="OSDev" gp_index="31" name="mlx5_0" osdev_type="{ib}"><info name="Port1State" value="4"/></object>
     </object>
    </object>
   </object>
  </object>
 </object>
 <distances2 type="NUMANode" nbobjs="2" kind="5" name="NUMALatency" indexing="os">
  <indexes length="4">0 1 </indexes><u64values length="6">10 21 </u64values><u64values length="6">21 10 </u64values>
 </distances2>
 <distances2hetero nbobjs="2" kind="25" name="NVLinkBandwidth">
  <indexes length="20">OSDev:30 Package:3 </indexes><u64values length="30">1000000 40000 40000 1000000 </u64values>
 </distances2hetero>
</topology>"#
        )
    }

    #[test]
    fn both_versions_read_alike() {
        let (two, three) = (read(&machine("2.0", 5, 3)), read(&machine("3.0", 12, 32)));
        assert_eq!(two.evidence, three.evidence);
        let Fact::Pci(tree) = &two.evidence[0].fact else { panic!() };
        let [root, port, gpu, nic] = &tree.devices[..] else { panic!("{tree:?}") };
        assert_eq!((root.role, root.numa), (PciRole::HostBridge, Some(1)));
        assert_eq!(root.cpus.as_ref().unwrap().to_string(), "4-7");
        assert_eq!((port.role, port.parent, port.class), (PciRole::Bridge, Some(0), Some(0x060400)));
        assert_eq!(port.link_rate, Some(Rate::from_gb(7.876923)));
        assert!(gpu.is_gpu() && gpu.link_rate.is_none());
        assert_eq!((gpu.gpu_index, gpu.device, gpu.parent), (Some(4), Some(0x15f9), Some(1)));
        assert!(nic.is_nic() && nic.os_devices[0].rdma);
        assert_eq!(nic.os_devices[0].note.as_deref(), Some("port 1 active"));
    }

    #[test]
    fn a_switch_whose_configuration_could_not_be_read() {
        let switch = r#"<object type="PCIDev" gp_index="24" subtype="NVSwitch" pci_busid="0000:83:00.0" pci_type="0000 [0000:0000] [0000:0000] 00"/>
     <object type="PCIDev" gp_index="22""#;
        let found = read(&machine("2.0", 5, 3).replace(r#"<object type="PCIDev" gp_index="22""#, switch));
        let Fact::Pci(tree) = &found.evidence[0].fact else { panic!() };
        assert!(tree.devices.iter().any(|d| d.is_nvswitch() && d.vendor.is_none()), "{tree:?}");
    }

    #[test]
    fn the_host() {
        let found = read(&machine("2.0", 5, 3));
        let Fact::Host(host) = &found.evidence[2].fact else { panic!() };
        assert_eq!((host.name.as_deref(), host.sockets), (Some("n1"), Some(1)));
        let node = &host.numa[0];
        assert_eq!((node.id, node.package, node.memory), (1, Some(1), Some(Bytes(1024))));
    }

    #[test]
    fn nvlink_from_a_matrix() {
        let found = read(&machine("2.0", 5, 3));
        let Fact::Nvlink(links) = &found.evidence[1].fact else { panic!() };
        assert_eq!(links.len(), 1);
        // two links of NVLink 1 to a POWER CPU, which has no PCI address
        assert_eq!((links[0].count, links[0].rate), (2, Some(Rate::from_gb(20.0))));
        assert_eq!((&links[0].remote, links[0].remote_class), (&None::<NvlinkEnd>, Some(0x068001)));
        assert_eq!(links[0].gpu, Some(4));
    }

    #[test]
    fn other_topologies_are_left_alone() {
        assert_eq!(read("<topology>\n<node/>\n</topology>"), Found::default());
    }
}
