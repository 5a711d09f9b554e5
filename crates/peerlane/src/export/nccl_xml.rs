//! A machine as NCCL's topology file, for `NCCL_TOPO_FILE`.
//!
//! Names of elements, classes and link speeds are those that NCCL's `graph/xml.cc` and `graph/topo.cc`
//! read. NCCL knows NUMA nodes and no host bridges: all root complexes of one NUMA node become one
//! `<cpu>`. What it detects on the machine itself (`sm`, `rank`, `gdr`) is left out where unknown.

mod place;

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use quick_xml::escape::escape;

use self::place::{BusIds, Group, groups};
use peerlane_machine::fabric::{
    CpuList, Fabric, Interconnect, Link, LinkKind, Node, NodeId, NodeKind, PciAddress, PcieWidth,
};
use peerlane_machine::fact::{Fact, GpuFacts, PciDevice, PciRole};
use peerlane_machine::machine::Machine;
use peerlane_machine::names::gpu_number;

/// NCCL's stand-in for an NVSwitch, or another far end, whose address is not known.
const HIDDEN: &str = "fffffff:ffff:ff";

/// The longest attribute that NCCL reads.
const MAX_ATTRIBUTE: usize = 254;

/// The most levels of switches that are written.
const MAX_DEPTH: usize = 64;

/// Writes the machine as an NCCL topology file, version 1; with xGMI links as RCCL's, version 2.
///
/// Where a device's bus id is not known one is made up, from domains `ff00` to `ffff` and buses `f0` to
/// `ff`, which no machine has; a comment at the top says how many.
pub fn to_nccl_xml(machine: &Machine) -> String {
    let writer = Writer::new(machine);
    let mut body = String::new();
    for (at, (group, tops)) in writer.groups.iter().enumerate() {
        writer.cpu(&mut body, at, *group, tops);
    }
    let version = if writer.has_xgmi() { 2 } else { 1 };
    format!("<!--\n{}-->\n<system version=\"{version}\">\n{body}</system>\n", writer.comment())
}

struct Writer<'a> {
    machine: &'a Machine,
    fabric: &'a Fabric,
    listed: HashMap<PciAddress, &'a PciDevice>,
    gpus: Vec<&'a GpuFacts>,
    bus_ids: BusIds,
    groups: BTreeMap<Group, Vec<NodeId>>,
    /// Whether `numaid` counts the groups, because not all NUMA numbers are known.
    numbered: bool,
}

impl<'a> Writer<'a> {
    fn new(machine: &'a Machine) -> Self {
        let mut listed = HashMap::new();
        let mut gpus = Vec::new();
        for evidence in &machine.evidence {
            match &evidence.fact {
                Fact::Pci(tree) => {
                    for device in &tree.devices {
                        if let Some(address) = device.address {
                            listed.entry(address).or_insert(device);
                        }
                    }
                }
                Fact::Gpus(all) => gpus.extend(all),
                _ => {}
            }
        }
        let bus_ids = BusIds::assign(&machine.fabric, listed.keys().copied());
        let groups = groups(&machine.fabric);
        let numbered = groups.len() > 1 && !groups.keys().all(|g| matches!(g, Group::Numa(_)));
        Writer { machine, fabric: &machine.fabric, listed, gpus, bus_ids, groups, numbered }
    }

    fn cpu(&self, out: &mut String, at: usize, group: Group, tops: &[NodeId]) {
        let numa = match group {
            Group::Numa(numa) if !self.numbered => i64::from(numa),
            // NCCL distinguishes <cpu>s by their number alone
            _ if self.numbered => at as i64,
            _ => -1,
        };
        let _ = write!(out, "  <cpu numaid=\"{numa}\"");
        let cpus = tops.iter().find_map(|top| self.local_cpus(*top, group));
        if let Some(mask) = cpus.as_ref().and_then(mask) {
            let _ = write!(out, " affinity=\"{mask}\"");
        }
        let hosts = self.machine.evidence.iter().filter_map(|e| match &e.fact {
            Fact::Host(host) => Some(host),
            _ => None,
        });
        let (mut arch, mut ids) = (None, None);
        for host in hosts {
            arch = arch.or(host.arch.as_ref());
            ids = ids.or(host.cpu_ids.as_ref());
        }
        if let Some(arch) = arch {
            let _ = write!(out, " arch=\"{}\"", escape(arch.as_str()));
        }
        if let Some((vendor, family, model)) = ids {
            let vendor = escape(vendor.as_str());
            let _ = write!(out, " vendor=\"{vendor}\" familyid=\"{family}\" modelid=\"{model}\"");
        }
        out.push_str(">\n");
        for top in tops {
            if self.fabric.node(*top).kind == NodeKind::RootComplex {
                self.below(out, *top, 2);
            } else {
                self.device(out, *top, PcieWidth::default(), 2);
            }
        }
        out.push_str("  </cpu>\n");
    }

    /// CPUs near a top: its own, those of the NUMA node's memory, or its package's.
    fn local_cpus(&self, top: NodeId, group: Group) -> Option<CpuList> {
        let of_numa = || match group {
            Group::Numa(numa) => self
                .fabric
                .of_kind(NodeKind::Host)
                .map(|h| self.fabric.node(h))
                .find(|h| h.numa == Some(numa))
                .and_then(|h| h.cpus.clone()),
            _ => None,
        };
        let of_package = || self.fabric.package(top).and_then(|p| self.fabric.node(p).cpus.clone());
        let own = self.fabric.node(top).cpus.clone();
        own.or_else(of_numa).or_else(of_package).filter(|c| !c.is_empty())
    }

    /// Everything just below a node of the tree.
    fn below(&self, out: &mut String, id: NodeId, depth: usize) {
        for (link, next) in self.fabric.downstream(id) {
            let width = match self.fabric.link(link).kind {
                LinkKind::Pcie { running, allowed, .. } => PcieWidth {
                    generation: running.generation.or(allowed.generation),
                    lanes: running.lanes.or(allowed.lanes),
                },
                _ => PcieWidth::default(),
            };
            // NCCL has no use for drives
            if !matches!(self.fabric.node(next).kind, NodeKind::Nvme | NodeKind::Fpga) {
                self.device(out, next, width, depth);
            }
        }
    }

    /// One `<pci>` with what is in it.
    fn device(&self, out: &mut String, id: NodeId, width: PcieWidth, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        let node = self.fabric.node(id);
        if node.kind == NodeKind::Card {
            // its functions share the card's link; those of unknown address stand with the first, as NCCL
            // itself writes them all
            let functions = self.fabric.downstream(id).map(|(_, function)| function);
            let (known, mut first): (Vec<NodeId>, Vec<NodeId>) =
                functions.partition(|f| self.fabric.node(*f).address.is_some());
            first.splice(..0, known.first().copied());
            self.element(out, &first, width, depth);
            for function in known.iter().skip(1) {
                self.element(out, &[*function], width, depth);
            }
            return;
        }
        self.element(out, &[id], width, depth);
    }

    /// One `<pci>` for a device, or for all ports of a card.
    fn element(&self, out: &mut String, ids: &[NodeId], width: PcieWidth, depth: usize) {
        let Some((id, bus_id)) = ids.first().and_then(|id| Some((*id, self.bus_ids.of(*id)?))) else { return };
        let node = self.fabric.node(id);
        let known = self.known(node);
        let class = self.class(id);
        let pad = "  ".repeat(depth);
        let _ = write!(out, "{pad}<pci busid=\"{bus_id}\" class=\"0x{class:06x}\"");
        if let Some((vendor, device)) = known.and_then(|d| Some((d.vendor?, d.device?))) {
            let _ = write!(out, " vendor=\"0x{vendor:04x}\" device=\"0x{device:04x}\"");
        }
        // as the kernel spells them; NCCL compares whole strings
        let speed = width.generation.map_or(String::new(), |g| format!("{:.1} GT/s PCIe", g.gigatransfers()));
        let _ = writeln!(out, " link_speed=\"{speed}\" link_width=\"{}\">", width.lanes.unwrap_or(0));
        match node.kind {
            NodeKind::Gpu => self.gpu(out, id, node, known, depth + 1),
            NodeKind::Nic => self.nic(out, ids, depth + 1),
            _ => self.below(out, id, depth + 1),
        }
        let _ = writeln!(out, "{pad}</pci>");
    }

    /// What a listing says of a node; hand-written files give one address to two things.
    fn known(&self, node: &Node) -> Option<&'a PciDevice> {
        let listed = node.address.and_then(|a| self.listed.get(&a).copied());
        listed.filter(|d| (d.role == PciRole::Endpoint) == (node.kind != NodeKind::Switch))
    }

    /// A device's class code, as listed or as its kind mostly has.
    fn class(&self, id: NodeId) -> u32 {
        let node = self.fabric.node(id);
        self.known(node).and_then(|d| d.class).unwrap_or(match node.kind {
            NodeKind::Gpu => 0x03_0200,
            NodeKind::Nic => 0x02_0000,
            _ => 0x06_0400,
        })
    }

    fn gpu(&self, out: &mut String, id: NodeId, node: &Node, known: Option<&PciDevice>, depth: usize) {
        let index = gpu_number(&node.name).map(|n| n as usize);
        let position = self.fabric.of_kind(NodeKind::Gpu).position(|g| g == id);
        let index = index.or(position).unwrap_or_default();
        let facts = self.gpus.iter().find(|g| match (g.address, node.address) {
            (Some(a), Some(b)) => a == b,
            _ => g.index.is_some_and(|i| i as usize == index),
        });
        let pad = "  ".repeat(depth);
        let _ = write!(out, "{pad}<gpu dev=\"{index}\"");
        if let Some((major, minor)) = facts.and_then(|g| g.compute_capability) {
            let _ = write!(out, " sm=\"{}\"", u32::from(major) * 10 + u32::from(minor));
        }
        out.push_str(">\n");
        for ((target, class), count) in self.nvlinks(id) {
            let _ = writeln!(out, "{pad}  <nvlink target=\"{target}\" count=\"{count}\" tclass=\"{class}\"/>");
        }
        for (link, far) in self.fabric.links_of(id) {
            let Some(bundle) = self.fabric.link(*link).kind.bundle(Interconnect::Xgmi) else { continue };
            if let Some(target) = self.bus_ids.of(*far) {
                let (count, class) = (bundle.links.unwrap_or(1), self.class(*far));
                let _ = writeln!(out, "{pad}  <xgmi target=\"{target}\" count=\"{count}\" tclass=\"0x{class:06x}\"/>");
            }
        }
        if let Some((count, rate)) = known.and_then(|d| d.c2c) {
            // MB/s of one link
            let _ = writeln!(out, "{pad}  <c2c bw=\"{:.0}\" count=\"{count}\"/>", rate.bytes_per_second() / 1e6);
        }
        let _ = writeln!(out, "{pad}</gpu>");
    }

    /// Links by far end and its class.
    fn nvlinks(&self, id: NodeId) -> BTreeMap<(String, &'static str), u32> {
        let mut links = BTreeMap::new();
        for (link, far) in self.fabric.links_of(id) {
            let bricks = self.fabric.link(*link).kind.nvlinks();
            if bricks == 0 {
                continue;
            }
            let node = self.fabric.node(*far);
            let class = match node.kind {
                NodeKind::Gpu => "0x030200",
                NodeKind::NvSwitch => "0x068000",
                // POWER's NVLink bridges
                NodeKind::Cpu => "0x068001",
                _ => continue,
            };
            let address = self.bus_ids.of(*far).or(node.address);
            let target = address.map_or(HIDDEN.to_owned(), |a| a.to_string());
            *links.entry((target, class)).or_insert(0) += bricks;
        }
        links
    }

    fn nic(&self, out: &mut String, ids: &[NodeId], depth: usize) {
        let pad = "  ".repeat(depth);
        let _ = writeln!(out, "{pad}<nic>");
        for id in ids {
            let node = self.fabric.node(*id);
            let listed = self.known(node).and_then(|d| d.os_devices.iter().find(|o| o.rdma));
            let name = listed.map(|o| &o.name).or(node.aliases.first()).unwrap_or(&node.name);
            let position = self.fabric.of_kind(NodeKind::Nic).position(|n| n == *id).unwrap_or_default();
            let _ = write!(out, "{pad}  <net name=\"{}\" dev=\"{position}\"", escape(name.as_str()));
            if let Some(gigabits) = listed.and_then(|o| o.gigabits) {
                let _ = write!(out, " speed=\"{:.0}\"", gigabits * 1000.0);
            }
            out.push_str(" port=\"1\"/>\n");
        }
        let _ = writeln!(out, "{pad}</nic>");
    }

    fn has_xgmi(&self) -> bool {
        self.fabric.links().iter().any(|l| l.kind.bundle(Interconnect::Xgmi).is_some())
    }

    /// What a reader of the file must know; two hyphens would end an XML comment.
    fn comment(&self) -> String {
        let mut text = format!("NCCL topology of {}, written by peerlane.\n", self.machine.name.replace("--", "- -"));
        if self.bus_ids.invented > 0 {
            let _ = writeln!(
                text,
                "{} bus ids of the form ffff:ff:01.0 are invented, because the real ones are not known: replace those of \
                 GPUs and NICs before NCCL reads this on the machine.",
                self.bus_ids.invented
            );
        }
        if self.numbered {
            text.push_str("NUMA numbers are not known for all; numaid counts the groups of this file.\n");
        }
        if let Some(tops) = self.groups.get(&Group::Unknown).filter(|tops| self.groups.len() > 1 || tops.len() > 1) {
            text.push_str("The last <cpu> holds what no source places.\n");
            if tops.len() > 1 {
                text.push_str("NCCL will take it for one NUMA node, which no source says: part it where it is not.\n");
            }
        }
        if self.has_xgmi() {
            text.push_str("xGMI links make this RCCL's version of the format.\n");
            let uncounted = |l: &Link| l.kind.bundle(Interconnect::Xgmi).is_some_and(|b| b.links.is_none());
            if self.fabric.links().iter().any(uncounted) {
                text.push_str("How many xGMI links join a pair is not known; one is written.\n");
            }
        }
        let left_out = self.fabric.links().iter().filter_map(|l| match &l.kind {
            LinkKind::Gpu(b) if b.interconnect == Interconnect::Nvlink && b.links.is_some() => None,
            LinkKind::Gpu(b) if matches!(b.interconnect, Interconnect::Xgmi | Interconnect::C2c) => None,
            LinkKind::Gpu(b) => Some(b.interconnect.family().title),
            _ => None,
        });
        if let Some(title) = left_out.min() {
            let _ = writeln!(
                text,
                "Links of {title} are left out, which this format has no words for or whose number is not known."
            );
        }
        text
    }
}

/// Words of 32 bits, most significant first; `None` where it would be longer than NCCL reads.
fn mask(cpus: &CpuList) -> Option<String> {
    let last = cpus.ranges().last()?.1;
    let words = usize::try_from(last / 32).ok()? + 1;
    if words * 9 - 1 > MAX_ATTRIBUTE {
        return None;
    }
    let mut bits = vec![0_u32; words];
    for cpu in cpus.ranges().iter().flat_map(|&(a, b)| a..=b) {
        if let Some(word) = bits.get_mut((cpu / 32) as usize) {
            *word |= 1 << (cpu % 32);
        }
    }
    Some(bits.iter().rev().map(|w| format!("{w:08x}")).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use peerlane_machine::fabric::{FabricBuilder, GpuLink, Link, PcieGeneration};
    use peerlane_machine::fact::{Evidence, HostFacts, NvlinkEnd, PciTree};
    use peerlane_machine::machine::MachineKind;
    use peerlane_machine::origin::Origin;
    use peerlane_read::evidence::{Text, scan_text};

    fn pcie(generation: PcieGeneration, lanes: u8) -> LinkKind {
        LinkKind::pcie(PcieWidth::new(generation, lanes))
    }

    /// Two sockets; on the first a switch with two GPUs, on the second a NIC of unknown address.
    fn machine() -> Machine {
        let mut b = FabricBuilder::new();
        let nvlink = LinkKind::Gpu(GpuLink::nvlink(None, 4));
        let mut roots = Vec::new();
        for socket in 0..2_u32 {
            let cpu = b.node(Node::new(format!("cpu{socket}"), NodeKind::Cpu));
            let mut root = Node::new(format!("root{socket}"), NodeKind::RootComplex);
            root.numa = Some(socket);
            root.cpus = Some(CpuList::from_ranges([(socket * 40, socket * 40 + 39)]));
            let root = b.node(root);
            b.link(Link::new(cpu, root, LinkKind::OnDie));
            roots.push(root);
        }
        let switch = b.node(Node::new("switch0", NodeKind::Switch));
        b.link(Link::new(roots[0], switch, pcie(PcieGeneration::Gen4, 16)));
        let mut gpus = Vec::new();
        for i in 0..2 {
            let mut gpu = Node::new(format!("GPU{i}"), NodeKind::Gpu);
            gpu.address = format!("0000:0{}:00.0", i + 1).parse().ok();
            let gpu = b.node(gpu);
            b.link(Link::new(switch, gpu, pcie(PcieGeneration::Gen4, 8)));
            gpus.push(gpu);
        }
        b.link(Link::new(gpus[0], gpus[1], nvlink.clone()));
        let nvswitch = b.node(Node::new("nvswitch", NodeKind::NvSwitch));
        b.link(Link::new(gpus[0], nvswitch, nvlink.clone()));
        b.link(Link::new(gpus[0], nvswitch, nvlink));
        // which NCCL has no use for
        let drive = b.node(Node::new("nvme0", NodeKind::Nvme));
        b.link(Link::new(switch, drive, pcie(PcieGeneration::Gen4, 4)));
        let nic = b.node(Node::new("a<b&\"c", NodeKind::Nic));
        b.link(Link::new(roots[1], nic, LinkKind::pcie(PcieWidth::default())));
        let mut machine = Machine::new("two--sockets", MachineKind::Design, b.build().unwrap());
        let host = HostFacts { cpu_ids: Some(("GenuineIntel".into(), 6, 85)), ..HostFacts::default() };
        let gpu = GpuFacts { index: Some(1), compute_capability: Some((8, 6)), ..GpuFacts::default() };
        for fact in [Fact::Host(host), Fact::Gpus(vec![gpu])] {
            let origin = Origin { source: Arc::from("x"), tool: "x", lines: None };
            machine.evidence.push(Evidence { origin, fact });
        }
        machine
    }

    fn read(xml: &str) -> (PciTree, Vec<Fact>) {
        let found = scan_text(&Text::new("x.xml", xml.as_bytes()));
        assert_eq!(found.warnings, []);
        let facts: Vec<Fact> = found.evidence.into_iter().map(|e| e.fact).collect();
        let tree = facts.iter().find_map(|f| if let Fact::Pci(tree) = f { Some(tree.clone()) } else { None });
        (tree.unwrap(), facts)
    }

    #[test]
    fn read_back_it_is_the_same_machine() {
        let xml = to_nccl_xml(&machine());
        let (tree, facts) = read(&xml);
        let shape: Vec<_> = tree.devices.iter().map(|d| (d.role, d.parent, d.running.to_string())).collect();
        let expected = [
            (PciRole::HostBridge, None, "?"),
            (PciRole::Bridge, Some(0), "4.0 x16"),
            (PciRole::Endpoint, Some(1), "4.0 x8"),
            (PciRole::Endpoint, Some(1), "4.0 x8"),
            (PciRole::HostBridge, None, "?"),
            (PciRole::Endpoint, Some(4), "?"),
        ];
        assert_eq!(shape, expected.map(|(r, p, w)| (r, p, w.to_owned())));
        let [root, switch, gpu, _, far, nic] = &tree.devices[..] else { panic!() };
        assert_eq!((root.numa, far.cpus.as_ref().unwrap().to_string()), (Some(0), "40-79".to_owned()));
        assert_eq!((gpu.gpu_index, gpu.address), (Some(0), "01:00.0".parse().ok()));
        // made-up bus ids are known for what they are
        assert_eq!((switch.address, nic.address), (None, None));
        assert_eq!(nic.os_devices[0].name, "a<b&\"c");
        let links: Vec<_> = facts.iter().filter_map(|f| if let Fact::Nvlink(l) = f { Some(l) } else { None }).collect();
        let ends: Vec<_> = links[0].iter().map(|l| (l.gpu, l.count, l.remote.clone())).collect();
        let gpu = |text: &str| Some(NvlinkEnd::Device(text.parse().unwrap()));
        assert_eq!(
            ends,
            [(Some(0), 4, gpu("02:00.0")), (Some(0), 8, Some(NvlinkEnd::Hidden)), (Some(1), 4, gpu("01:00.0"))]
        );
    }

    #[test]
    fn the_file_says_what_is_invented() {
        let xml = to_nccl_xml(&machine());
        assert!(xml.starts_with("<!--\n") && xml.contains("2 bus ids"), "{xml}");
        assert_eq!(xml.matches("--").count(), 2, "two hyphens end a comment");
        assert!(
            xml.contains("vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"85\"")
                && xml.contains("dev=\"1\" sm=\"86\"")
        );
        assert!(xml.contains("affinity=\"000000ff,ffffffff\"") && xml.contains("link_speed=\"16.0 GT/s PCIe\""));
    }

    #[test]
    fn nothing_known_is_still_a_file() {
        let mut b = FabricBuilder::new();
        b.node(Node::new("GPU0", NodeKind::Gpu));
        let machine = Machine::new("m", MachineKind::Captured, b.build().unwrap());
        let (tree, _) = read(&to_nccl_xml(&machine));
        assert_eq!(tree.devices.len(), 2);
        assert_eq!(tree.devices[0].numa, None);
    }

    #[test]
    fn long_masks_are_left_out() {
        assert_eq!(mask(&CpuList::from_ranges([(0, 3), (32, 32)])).as_deref(), Some("00000001,0000000f"));
        assert_eq!(mask(&CpuList::from_ranges([(0, 4_000_000_000)])), None);
    }
}
