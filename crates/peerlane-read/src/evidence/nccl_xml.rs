//! NCCL's topology file (`NCCL_TOPO_DUMP_FILE`, `NCCL_TOPO_FILE`; version 1) and RCCL's (version 2).
//!
//! `system > cpu > pci > … > gpu | nic`: each `<cpu>` stands for a NUMA node with its host bridges,
//! each bridge for a whole switch. Files written by hand for virtual machines leave much out and make
//! up bus ids of the form `ffff:ff:01.0`.

use std::collections::{BTreeSet, HashMap};

use super::words::{hex, pci_id, pcie_width};
use super::xml::{Document, Element, documents};
use super::{Fact, Found, HostFacts, NumaNode, NvlinkEnd, NvlinkPort, OsDevice, PciDevice, PciRole, PciTree, Text};
use peerlane_machine::fabric::{CpuList, PciAddress};
use peerlane_machine::units::Rate;

const TOOL: &str = super::tool::NCCL_XML;

/// The most names that a warning lists.
const MAX_NAMES: usize = 4;

/// Finds topology files in the text.
pub(super) fn scan(text: &Text, found: &mut Found) {
    for document in documents(text, "system") {
        let has_cpus = document.children(0).any(|(_, e)| e.name == "cpu");
        if !has_cpus && document.root().and_then(|r| r.attribute("version")).is_none() {
            continue;
        }
        document.warn_if_broken(text, TOOL, found);
        let topology = Topology::read(&document);
        for message in topology.doubts.messages() {
            found.warn(text, TOOL, document.lines, message);
        }
        found.push(text, TOOL, document.lines, Fact::Pci(topology.tree));
        found.push(text, TOOL, document.lines, Fact::Nvlink(topology.nvlinks));
        found.push(text, TOOL, document.lines, Fact::Host(topology.host));
    }
}

/// The contents of one file.
#[derive(Default)]
struct Topology {
    tree: PciTree,
    nvlinks: Vec<NvlinkPort>,
    host: HostFacts,
    doubts: Doubts,
    /// NVLink entries whose far end is known by a made-up bus id alone.
    made_up_targets: Vec<(usize, PciAddress)>,
}

impl Topology {
    fn read(document: &Document) -> Self {
        let mut topology = Topology::default();
        topology.tree.bridges_are_switches = true;
        topology.tree.has_tree = true;
        // element index → device index; parents stand before children
        let mut device_of: Vec<Option<usize>> = Vec::new();
        for (at, element) in document.iter() {
            let parent = element.parent.and_then(|p| document.get(p));
            let above = element.parent.and_then(|p| device_of.get(p).copied().flatten());
            let mut own = above;
            match (element.name.as_str(), parent.map(|p| p.name.as_str())) {
                ("cpu", Some("system")) => own = Some(topology.cpu(element)),
                ("pci", _) => own = Some(topology.pci(document, at, element, above)),
                ("gpu", Some("pci")) => topology.gpu(element, above),
                ("nic", _) => {}
                ("net", Some("nic")) => topology.net(element, above),
                ("nvlink" | "xgmi", Some("gpu")) => topology.nvlink(element, above),
                ("c2c", Some("gpu")) => topology.c2c(element, above),
                ("pcilink", _) => topology.doubts.pci_links += 1,
                _ => own = None,
            }
            device_of.push(own);
        }
        topology.resolve_made_up();
        topology.doubts.no_class =
            topology.tree.devices.iter().filter(|d| d.role == PciRole::Endpoint && is_unidentified(d)).count();
        topology
    }

    /// Finds the GPUs that made-up bus ids mean within this file.
    fn resolve_made_up(&mut self) {
        let devices = self.tree.devices.iter().filter(|d| d.address.is_none());
        let gpus: HashMap<PciAddress, u32> =
            devices.filter_map(|d| Some((d.name.as_deref()?.parse().ok()?, d.gpu_index?))).collect();
        for (at, address) in std::mem::take(&mut self.made_up_targets) {
            if let Some(port) = self.nvlinks.get_mut(at) {
                port.remote = gpus.get(&address).map(|index| NvlinkEnd::Gpu(*index));
            }
        }
    }

    fn add(&mut self, device: PciDevice) -> usize {
        self.tree.devices.push(device);
        self.tree.devices.len() - 1
    }

    fn cpu(&mut self, element: &Element) -> usize {
        let cpus = element.attribute("affinity").and_then(CpuList::from_mask).filter(|c| !c.is_empty());
        // -1 where the kernel knows no NUMA node
        let numa: Option<u32> = element.number("numaid");
        if let Some(id) = numa.filter(|id| self.host.numa.iter().all(|n| n.id != *id)) {
            self.host.numa.push(NumaNode { id, cpus: cpus.clone(), ..NumaNode::default() });
        }
        if self.host.arch.is_none() {
            self.host.arch = element.attribute("arch").filter(|a| !a.is_empty()).map(str::to_owned);
        }
        if let (None, Some(vendor), Some(family), Some(model)) =
            (&self.host.cpu_ids, element.attribute("vendor"), element.number("familyid"), element.number("modelid"))
        {
            self.host.cpu_ids = Some((vendor.to_owned(), family, model));
        }
        if let Some(hash) = element.attribute("host_hash") {
            self.doubts.hosts.insert(hash.to_owned());
        }
        self.add(PciDevice { numa, cpus, line: element.line, ..PciDevice::new(PciRole::HostBridge) })
    }

    fn pci(&mut self, document: &Document, at: usize, element: &Element, above: Option<usize>) -> usize {
        let class = element.attribute("class").and_then(hex).filter(|c| (1..=0xff_ffff).contains(c));
        let has = |name: &str| document.children(at).any(|(_, e)| e.name == name);
        let is_bridge = class.is_some_and(|c| c >> 8 == 0x0604) || has("pci");
        let role = if is_bridge && !has("gpu") && !has("nic") { PciRole::Bridge } else { PciRole::Endpoint };
        let busid = element.attribute("busid").unwrap_or_default();
        let address = busid.parse().ok().filter(|a: &PciAddress| !is_made_up(*a));
        // 0 and 0xffff are what hand-written files put for "none"
        let id = |name| element.attribute(name).and_then(pci_id).filter(|v| *v != 0 && *v != 0xffff);
        let speed = element.attribute("link_speed").unwrap_or_default();
        let width = element.attribute("link_width").unwrap_or_default();
        self.add(PciDevice {
            name: Some(busid.to_owned()).filter(|b| address.is_none() && !b.is_empty()),
            address,
            parent: above,
            class,
            vendor: id("vendor"),
            device: id("device"),
            running: pcie_width(speed, width),
            line: element.line,
            ..PciDevice::new(role)
        })
    }

    fn gpu(&mut self, element: &Element, above: Option<usize>) {
        if let Some(device) = above.and_then(|d| self.tree.devices.get_mut(d)) {
            device.gpu_index = element.number("dev");
        }
    }

    fn net(&mut self, element: &Element, above: Option<usize>) {
        let name = element.attribute("name").unwrap_or_default().to_owned();
        let device = above.and_then(|d| self.tree.devices.get_mut(d));
        let Some(device) = device.filter(|d| d.role != PciRole::HostBridge) else {
            self.doubts.virtual_nets.push(name);
            return;
        };
        let megabits: Option<f64> = element.number("speed");
        let note = [("dev", "NCCL net"), ("port", "port")]
            .iter()
            .filter_map(|(key, word)| Some(format!("{word} {}", element.attribute(key)?)))
            .collect::<Vec<_>>()
            .join(", ");
        let net = OsDevice {
            rdma: is_rdma(&name, element),
            name,
            gigabits: megabits.filter(|m| *m != 0.0 && *m != -1.0).map(|m| m / 1000.0),
            note: Some(note).filter(|n| !n.is_empty()),
            down: false,
        };
        // NCCL puts the functions of a card into the first; below it, each is a separate port
        let others = device.os_devices.iter().all(|o| o.name != net.name);
        if net.rdma && others && device.os_devices.iter().any(|o| o.rdma) {
            let port = PciDevice { address: None, parent: above, line: element.line, ..device.clone() };
            self.add(PciDevice { os_devices: vec![net], ..port });
        } else {
            device.os_devices.push(net);
        }
    }

    fn nvlink(&mut self, element: &Element, above: Option<usize>) {
        let device = above.and_then(|d| self.tree.devices.get(d));
        let count: u8 = element.number("count").unwrap_or(0);
        let (Some(device), 1..) = (device, count) else { return };
        let target = element.attribute("target").unwrap_or_default();
        let remote = match target.parse::<PciAddress>() {
            Ok(address) if device.address == Some(address) => {
                self.doubts.to_itself.push(address.to_string());
                return;
            }
            Ok(address) if is_made_up(address) => {
                self.made_up_targets.push((self.nvlinks.len(), address));
                None
            }
            Ok(address) => Some(NvlinkEnd::Device(address)),
            Err(_) if target.contains('f') && target.chars().all(|c| "f:.0".contains(c)) => Some(NvlinkEnd::Hidden),
            Err(_) => None,
        };
        self.nvlinks.push(NvlinkPort {
            gpu: device.gpu_index,
            address: device.address,
            count,
            remote,
            remote_class: element.attribute("tclass").and_then(hex),
            xgmi: element.name == "xgmi",
            ..NvlinkPort::default()
        });
    }

    /// `bw` is that of one link in MB/s, one direction; NCCL multiplies it by `count`.
    fn c2c(&mut self, element: &Element, above: Option<usize>) {
        let megabytes: Option<f64> = element.number("bw");
        let count = element.number("count");
        if let (Some(device), Some(mb), Some(count)) =
            (above.and_then(|d| self.tree.devices.get_mut(d)), megabytes, count)
        {
            device.c2c = Some((count, Rate::from_bytes_per_second(mb * 1e6)));
        }
    }
}

/// Whether neither class nor content shows what an endpoint is.
fn is_unidentified(device: &PciDevice) -> bool {
    device.class.is_none() && device.gpu_index.is_none() && device.os_devices.is_empty()
}

/// `ffff:ff:…` stands in hand-written files for bridges whose address their author could not see;
/// `export::nccl_xml` makes up its own in that corner too.
fn is_made_up(address: PciAddress) -> bool {
    (0xff00..=0xffff).contains(&address.domain) && address.bus >= 0xf0
}

/// NCCL lists sockets and RDMA devices alike. Sockets have their index for a guid, and no GPUDirect.
fn is_rdma(name: &str, net: &Element) -> bool {
    const RDMA_DRIVERS: [&str; 9] =
        ["mlx5_", "mlx4_", "irdma", "bnxt_re", "efa", "rocep", "rdmap", "hfi1_", "ionic_rdma"];
    let guid = net.attribute("guid").and_then(|g| u64::from_str_radix(g.trim().trim_start_matches("0x"), 16).ok());
    // nvidia-smi calls RDMA devices NIC0 … and no others, and peerlane writes what it knows them by
    let numbered = name.strip_prefix("NIC").is_some_and(|n| n.parse::<u32>().is_ok());
    numbered
        || RDMA_DRIVERS.iter().any(|d| name.starts_with(d))
        || net.attribute("gdr") == Some("1")
        || guid.is_some_and(|g| g > 0xffff)
        || (guid.is_none() && name.starts_with("ib"))
}

/// What a reader should know about one file.
#[derive(Default)]
struct Doubts {
    virtual_nets: Vec<String>,
    to_itself: Vec<String>,
    no_class: usize,
    pci_links: usize,
    hosts: BTreeSet<String>,
}

impl Doubts {
    fn messages(&self) -> Vec<String> {
        let mut all = Vec::new();
        let some = |names: &[String]| {
            let more = if names.len() > MAX_NAMES { " …" } else { "" };
            format!("{}{more}", names.iter().take(MAX_NAMES).cloned().collect::<Vec<_>>().join(", "))
        };
        if !self.virtual_nets.is_empty() {
            let (count, names) = (self.virtual_nets.len(), some(&self.virtual_nets));
            all.push(format!("left out {count} network interface(s) that belong to no PCI device: {names}"));
        }
        if !self.to_itself.is_empty() {
            let (count, names) = (self.to_itself.len(), some(&self.to_itself));
            all.push(format!("left out {count} NVLink entries from a GPU to itself ({names}): correct the file"));
        }
        if self.no_class > 0 {
            all.push(format!(
                "the file does not show what {} device(s) are: no class, no <gpu>, no <net>; add a class, or another source \
                 such as lspci",
                self.no_class
            ));
        }
        if self.pci_links > 0 {
            all.push(format!("{} <pcilink> element(s) between switches are not used", self.pci_links));
        }
        if self.hosts.len() > 1 {
            all.push(format!(
                "the file describes {} hosts; their device numbers repeat, so give one host's part",
                self.hosts.len()
            ));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Found, PciTree) {
        let mut found = Found::default();
        scan(&Text::new("x.xml", text.as_bytes()), &mut found);
        let tree = found.evidence.iter().find_map(|e| match &e.fact {
            Fact::Pci(tree) => Some(tree.clone()),
            _ => None,
        });
        (found, tree.unwrap_or_default())
    }

    #[test]
    fn a_switch_with_gpu_and_nic() {
        let (found, tree) = read(
            r#"<system version="1">
  <cpu host_hash="0x1" numaid="1" affinity="ff00" arch="x86_64" vendor="GenuineIntel" familyid="6" modelid="85">
    <pci busid="0000:3a:00.0" class="0x060400" vendor="0x1000" device="0xc010" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:3c:00.0" class="0x030200" vendor="0x10de" device="0x20b0" link_speed="Unknown" link_width="0">
        <gpu dev="5" sm="80" rank="5" gdr="1">
          <nvlink target="0000:c4:00.0" count="12" tclass="0x068000"/>
          <nvlink target="fffffff:ffff:ff" count="6" tclass="0x068000"/>
        </gpu>
      </pci>
      <pci busid="0000:3d:00.1" class="0x020700" vendor="0x15b3" device="0x101b" link_speed="16 GT/s" link_width="16">
        <nic><net name="mlx5_3" dev="2" speed="200000" port="1" guid="0xa2c1f00003d70c50" gdr="1"/></nic>
      </pci>
    </pci>
    <nic><net name="eth0" dev="0" speed="10000" port="0" guid="0x0" gdr="0"/></nic>
  </cpu>
</system>"#,
        );
        let [cpu, switch, gpu, nic] = &tree.devices[..] else { panic!("{tree:?}") };
        assert!(tree.bridges_are_switches && tree.has_tree);
        assert_eq!(
            (cpu.role, cpu.numa, cpu.cpus.as_ref().unwrap().to_string()),
            (PciRole::HostBridge, Some(1), "8-15".to_owned())
        );
        assert_eq!(
            (switch.role, switch.parent, switch.running.to_string()),
            (PciRole::Bridge, Some(0), "4.0 x16".to_owned())
        );
        assert!(gpu.is_gpu() && gpu.running.is_unknown());
        assert_eq!((gpu.gpu_index, gpu.parent, gpu.line), (Some(5), Some(1), 4));
        assert!(nic.is_nic());
        let net = &nic.os_devices[0];
        assert_eq!((net.name.as_str(), net.rdma, net.gigabits), ("mlx5_3", true, Some(200.0)));
        let Fact::Nvlink(links) = &found.evidence[1].fact else { panic!() };
        assert_eq!(links[0].remote, Some(NvlinkEnd::Device("c4:00.0".parse().unwrap())));
        assert_eq!((links[1].remote.clone(), links[1].count), (Some(NvlinkEnd::Hidden), 6));
        let Fact::Host(host) = &found.evidence[2].fact else { panic!() };
        assert_eq!(host.cpu_ids, Some(("GenuineIntel".to_owned(), 6, 85)));
        assert_eq!(found.warnings.len(), 1);
        assert!(found.warnings[0].message.contains("eth0"));
    }

    #[test]
    fn files_written_by_hand() {
        let (found, tree) = read(
            r#"<!-- made by hand -->
<system version="1">
  <cpu numaid="0">
    <pci busid="ffff:ff:01.0" class="0x060400" vendor="0xffff" device="0xffff" link_speed="8 GT/s" link_width="16">
      <pci busid="0000:10:1c.0" class="0x030200" link_speed="" link_width="0"/>
    </pci>
    <pci busid="0000:00:16.0"/>
  </cpu>
</system>"#,
        );
        let [_, bridge, gpu, unsaid] = &tree.devices[..] else { panic!("{tree:?}") };
        assert_eq!((bridge.address, bridge.vendor, bridge.name.as_deref()), (None, None, Some("ffff:ff:01.0")));
        assert!(gpu.is_gpu() && gpu.gpu_index.is_none());
        assert_eq!((unsaid.class, unsaid.role), (None, PciRole::Endpoint));
        assert!(found.warnings[0].message.contains("what 1 device"));
    }

    #[test]
    fn a_link_to_itself_is_a_mistake() {
        let (found, _) = read(
            r#"<system version="1"><cpu numaid="-1"><pci busid="0001:00:00.0" class="0x030200"><gpu dev="0">
            <nvlink target="0001:00:00.0" count="12"/><c2c bw="43125" count="8"/></gpu></pci></cpu></system>"#,
        );
        assert!(found.warnings[0].message.contains("to itself"));
        assert_eq!(found.evidence.len(), 1);
        let Fact::Pci(tree) = &found.evidence[0].fact else { panic!() };
        assert_eq!(tree.devices[1].c2c, Some((8, Rate::from_gb(43.125))));
        assert_eq!(tree.devices[0].numa, None);
    }

    #[test]
    fn xgmi_of_rccl() {
        let (found, _) = read(
            "<system version='2'><cpu numaid='0'><pci busid='0000:1d:00.0' class='0x038000'><gpu dev='0' gcn='908'>\n<xgmi target='0000:20:00.0' count='2' tclass='0x038000'/>",
        );
        let Fact::Nvlink(links) = &found.evidence[1].fact else { panic!() };
        assert_eq!((links[0].xgmi, links[0].count, links[0].gpu), (true, 2, Some(0)));
        assert!(found.warnings[0].message.contains("breaks off"));
    }
}
