//! Plain `lstopo` text (`lstopo-no-graphics`, hwloc 1 to 3, with or without `-v`): indentation is the tree.
//!
//! ```text
//! Machine (126GB total)
//!   Package L#0
//!     NUMANode L#0 (P#0 63GB)
//!     L3 L#0 (25MB) + L2 L#0 (256KB) + Core L#0 + PU L#0 (P#0)
//!     HostBridge
//!       PCIBridge
//!         PCI 04:00.0 (3D)
//!           CoProc(CUDA) "cuda0"
//! ```
//!
//! Sizes are rounded there and so not used. Bridges have no address, and devices no vendor.

use super::limits::{MAX_DEVICES, MAX_FUNCTIONS};
use super::words::{hex, indent, pci_id};
use super::{Fact, Found, HostFacts, NumaNode, OsDevice, PciDevice, PciRole, PciTree, Text};
use peerlane_machine::fabric::{CpuList, PciAddress};
use peerlane_machine::units::{Bytes, Rate};

const TOOL: &str = super::tool::LSTOPO;

/// The most levels of indentation that are followed.
const MAX_DEPTH: usize = 256;

/// hwloc's short names of PCI classes, with their 16-bit codes.
const CLASSES: [(&str, u32); 12] = [
    ("3D", 0x0302),
    ("Display", 0x0380),
    ("ProcessingAccelerator", 0x1200),
    ("Ethernet", 0x0200),
    ("InfiniBand", 0x0207),
    ("Fabric", 0x0208),
    ("Network", 0x0280),
    ("NVMExp", 0x0108),
    ("SATA", 0x0106),
    ("RAID", 0x0104),
    ("SAS", 0x0107),
    ("IDE", 0x0101),
];

/// Finds `lstopo` output in the text.
pub(super) fn scan(text: &Text, found: &mut Found) {
    text.walk(|first| {
        let line = text.line(first).trim_start();
        if !line.starts_with("Machine (") && !line.starts_with("Machine L#") {
            return fragment(text, first, found);
        }
        let mut reader = Reader { tree: PciTree { has_tree: true, ..PciTree::default() }, ..Reader::default() };
        let end = text.block_end(first);
        (first..end).for_each(|i| reader.line(text.line(i), i as u32 + 1));
        let lines = text.numbers(first, end - 1);
        let (tree, host, unclear) = reader.finish();
        if unclear > 0 {
            let message = format!(
                "{unclear} VGA device(s) may be GPUs or a management controller's display: lstopo without CUDA or NVML does \
                 not show it; add lspci or nvidia-smi topo -m"
            );
            found.warn(text, TOOL, lines, message);
        }
        found.push(text, TOOL, lines, Fact::Pci(tree));
        found.push(text, TOOL, lines, Fact::Host(host));
        Some(end)
    });
}

/// Lines that somebody cut out of a tree, from a bridge or a device on: those of them that are objects, without a machine
/// around them. Devices that no bridge of these lines joins have one root complex, since they stand side by side.
fn fragment(text: &Text, first: usize, found: &mut Found) -> Option<usize> {
    let starts = |line: &str| ["HostBridge", "PCIBridge", "PCI "].iter().any(|kind| line.starts_with(kind));
    let head = text.line(first).trim_start();
    // the least indented line is the first, unless what stood above it was cut off
    let bridge = starts(head) && !head.starts_with("PCI ") && head.len() < 200;
    if !bridge {
        return None;
    }
    let is_object = |line: &str| {
        let line = line.trim_start();
        let device = ["CoProc", "OpenFabrics", "Net", "GPU", "Block", "DMA", "Co-Processor"];
        starts(line) || device.iter().any(|kind| line.starts_with(kind)) && line.contains('"')
    };
    let base = indent(text.line(first));
    let inside = |i: &usize| is_object(text.line(*i)) && indent(text.line(*i)) >= base;
    let end = first + (first..text.len()).take_while(inside).count();
    let mut reader = Reader { tree: PciTree { has_tree: true, ..PciTree::default() }, ..Reader::default() };
    let rooted = head.starts_with("HostBridge");
    if !rooted {
        reader.tree.devices.push(PciDevice::new(PciRole::HostBridge));
        reader.open.push(Scope { indent: 0, device: Some(0), ..Scope::default() });
    }
    for i in first..end {
        // below the root complex that is not shown
        let line = format!(" {}", text.line(i));
        reader.line(if rooted { text.line(i) } else { &line }, i as u32 + 1);
    }
    let (tree, ..) = reader.finish();
    let known = |d: &PciDevice| d.class.is_some_and(|c| matches!(c >> 16, 0x02 | 0x03 | 0x12));
    // a single device joins nothing
    if tree.devices.iter().filter(|d| known(d)).count() < 2 {
        return Some(end.max(first + 1));
    }
    found.push(text, TOOL, text.numbers(first, end - 1), Fact::Pci(tree));
    Some(end)
}

/// An object whose children may follow, with what they inherit.
#[derive(Default)]
struct Scope {
    indent: usize,
    package: Option<u32>,
    /// NUMA nodes just inside it: indices into `host.numa`.
    nodes: Vec<usize>,
    device: Option<usize>,
}

#[derive(Default)]
struct Reader {
    tree: PciTree,
    host: HostFacts,
    /// CPUs of each NUMA node.
    cpus: Vec<Vec<(u32, u32)>>,
    open: Vec<Scope>,
    /// VGA devices, which may or may not be GPUs.
    vga: Vec<usize>,
    packages: u32,
}

impl Reader {
    fn line(&mut self, line: &str, number: u32) {
        let indent = indent(line);
        while self.open.last().is_some_and(|s| s.indent >= indent) {
            self.open.pop();
        }
        if self.open.len() >= MAX_DEPTH {
            return;
        }
        let package = self.open.last().and_then(|s| s.package);
        let device = self.open.last().and_then(|s| s.device);
        self.open.push(Scope { indent, package, nodes: Vec::new(), device });
        // objects with a single child share a line with it
        for object in line.trim().split(" + ") {
            self.object(object, number);
        }
    }

    fn object(&mut self, object: &str, line: u32) {
        let kind = object.split([' ', '(']).next().unwrap_or_default();
        match kind {
            "Machine" => {
                self.host.name = value(object, "HostName");
                self.host.arch = value(object, "Architecture");
                self.host.product = value(object, "DMIProductName");
            }
            "Package" | "Socket" => {
                self.packages += 1;
                let package = index(object, "P#").or_else(|| index(object, "L#"));
                if let Some(scope) = self.open.last_mut() {
                    scope.package = package;
                }
                if self.host.cpu_model.is_none() {
                    self.host.cpu_model = value(object, "CPUModel");
                }
            }
            "NUMANode" => self.numa_node(object),
            "PU" => {
                if let (Some(cpu), Some(node)) = (index(object, "P#"), self.node()) {
                    self.cpus[node].push((cpu, cpu));
                }
            }
            "HostBridge" | "PCIBridge" | "PCI" => self.pci(kind, object, line),
            _ => self.os_device(kind, object),
        }
    }

    /// In hwloc 2 a node stands next to the cores it belongs to, in hwloc 1 around them.
    fn numa_node(&mut self, object: &str) {
        let Some(id) = index(object, "P#").or_else(|| index(object, "L#")) else { return };
        if self.host.numa.len() > MAX_DEVICES {
            return;
        }
        let package = self.open.last().and_then(|s| s.package);
        let memory = value(object, "local").and_then(|v| v.strip_suffix("KB")?.parse::<u64>().ok());
        let memory = memory.and_then(|kib| kib.checked_mul(1024)).map(Bytes);
        self.host.numa.push(NumaNode { id, memory, package, ..NumaNode::default() });
        self.cpus.push(Vec::new());
        let node = self.host.numa.len() - 1;
        for scope in self.open.iter_mut().rev().take(2) {
            scope.nodes.push(node);
        }
    }

    /// The one NUMA node of the nearest scope that has any.
    fn node(&self) -> Option<usize> {
        match self.open.iter().rev().find(|s| !s.nodes.is_empty())?.nodes[..] {
            [node] => Some(node),
            _ => None,
        }
    }

    fn pci(&mut self, kind: &str, object: &str, line: u32) {
        // one more than is kept, so that the cut is noticed
        if self.tree.devices.len() > MAX_FUNCTIONS {
            return;
        }
        let parent = self.open.last().and_then(|s| s.device);
        let mut device = match kind {
            "HostBridge" => {
                let numa = self.node().and_then(|n| self.host.numa.get(n)).map(|n| n.id);
                PciDevice { numa, ..PciDevice::new(PciRole::HostBridge) }
            }
            "PCIBridge" => PciDevice { class: Some(0x06_0400), ..PciDevice::new(PciRole::Bridge) },
            _ => PciDevice::new(PciRole::Endpoint),
        };
        // "PCI 04:00.0 (3D)", hwloc 1's "PCI 10de:15f8", and `-v`'s "(busid=… id=10de:15f8 class=0302(3D) link=…)"
        let word = object.split(' ').nth(1).unwrap_or_default();
        let busid = value(object, "busid").unwrap_or_else(|| word.to_owned());
        device.address = busid.parse().ok().filter(|_: &PciAddress| busid.contains('.'));
        let ids = value(object, "id").unwrap_or_else(|| word.to_owned());
        if let Some((vendor, id)) = ids.split_once(':').filter(|(v, d)| v.len() == 4 && d.len() == 4) {
            device.vendor = pci_id(vendor);
            device.device = pci_id(id);
        }
        let code = value(object, "class").and_then(|c| hex(c.get(..4)?));
        let class_word = object.rsplit_once('(').map_or("", |(_, w)| w.trim_end_matches(')'));
        let code = code.or_else(|| CLASSES.iter().find(|(w, _)| *w == class_word).map(|(_, c)| *c));
        device.class = code.map(|c| c << 8).or(device.class);
        device.link_rate = value(object, "link")
            .and_then(|l| l.strip_suffix("GB/s")?.parse().ok())
            .filter(|gb: &f64| *gb != 0.0)
            .map(Rate::from_gb);
        device.name = value(object, "PCIDevice");
        device.parent = parent;
        device.line = line;
        if class_word == "VGA" && device.class.is_none() {
            self.vga.push(self.tree.devices.len());
        }
        self.tree.devices.push(device);
        if let Some(scope) = self.open.last_mut() {
            scope.device = Some(self.tree.devices.len() - 1);
        }
    }

    /// `OpenFabrics "mlx5_0"`, `CoProc(CUDA) "cuda0"`; hwloc 1 writes `Net L#0 "eth0"`.
    fn os_device(&mut self, kind: &str, object: &str) {
        let device = self.open.last().and_then(|s| s.device).and_then(|d| self.tree.devices.get_mut(d));
        let name = object.rsplit_once('"').and_then(|(rest, _)| rest.rsplit_once('"')).map(|(_, name)| name);
        let (Some(device), Some(name)) = (device, name) else { return };
        let rdma = kind.contains("OpenFabrics");
        let class = match kind {
            _ if rdma || kind.contains("Net") => 0x02_0000,
            // a display controller's `card0` does not show what it is
            _ if ["GPU", "CoProc", "Co-Processor"].iter().any(|k| kind.contains(k)) && !is_display_node(name) => {
                0x03_0000
            }
            _ => return,
        };
        device.class = device.class.or(Some(class));
        if let Some(index) = name.strip_prefix("cuda").and_then(|n| n.parse().ok()) {
            device.gpu_index = Some(index);
        }
        // `lstopo -v` has the port's state among the attributes, by the numbers of the InfiniBand architecture
        let state = value(object, "Port1State");
        let down = state.as_deref() == Some("1");
        let note = state.map(|state| match state.as_str() {
            "1" => "port 1 down".to_owned(),
            "4" => "port 1 active".to_owned(),
            other => format!("port 1 in state {other}"),
        });
        device.os_devices.push(OsDevice { name: name.to_owned(), rdma, down, note, ..OsDevice::default() });
    }

    fn finish(mut self) -> (PciTree, HostFacts, usize) {
        for (node, cpus) in self.host.numa.iter_mut().zip(self.cpus) {
            node.cpus = Some(CpuList::from_ranges(cpus)).filter(|c| !c.is_empty());
        }
        self.host.sockets = Some(self.packages).filter(|n| *n > 0);
        let devices = &self.tree.devices;
        let unclear = self.vga.iter().filter(|d| devices.get(**d).is_some_and(|d| d.class.is_none())).count();
        (self.tree, self.host, unclear)
    }
}

/// The kernel's names for anything that draws.
fn is_display_node(name: &str) -> bool {
    name.starts_with("card") || name.starts_with("renderD") || name.starts_with("controlD")
}

/// The number after `P#` or `L#`.
fn index(object: &str, mark: &str) -> Option<u32> {
    let (_, rest) = object.split_once(mark)?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The value of `key=value` or `key="some words"`.
fn value(object: &str, key: &str) -> Option<String> {
    let mark = format!("{key}=");
    let starts = |at: &usize| *at == 0 || object[..*at].ends_with([' ', '(']);
    let at = object.match_indices(&mark).map(|(at, _)| at).find(starts)?;
    let rest = &object[at + mark.len()..];
    let text = match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => rest.split([' ', ')']).next(),
    };
    text.map(|t| t.trim().to_owned()).filter(|t| !t.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_cut_out_of_a_tree() {
        let text = "We see\n\n      PCIBridge\n        PCIBridge\n          PCI c1:00.0 (3D)\n            CoProc(CUDA) \"cuda0\"\n        PCIBridge\n          PCI c2:00.0 (InfiniBand)\n            OpenFabrics \"mlx5_0\"\nwhich is near\n";
        let mut found = Found::default();
        scan(&Text::new("t", text.as_bytes()), &mut found);
        let [one] = found.evidence.as_slice() else { panic!("{found:#?}") };
        let Fact::Pci(tree) = &one.fact else { panic!() };
        assert_eq!((tree.devices.len(), tree.devices[1].parent, one.origin.lines), (6, Some(0), Some((3, 9))));
        assert_eq!((tree.gpus().len(), tree.devices[3].parent), (1, Some(2)));
        let mut none = Found::default();
        scan(&Text::new("t", b"PCIBridge is a word\n  HostBridge\n"), &mut none);
        assert!(none.evidence.is_empty());
    }

    fn read(text: &str) -> (PciTree, HostFacts, Found) {
        let mut found = Found::default();
        scan(&Text::new("x", text.as_bytes()), &mut found);
        let (Fact::Pci(tree), Fact::Host(host)) = (&found.evidence[0].fact, &found.evidence[1].fact) else { panic!() };
        (tree.clone(), host.clone(), found)
    }

    #[test]
    fn hwloc_2() {
        let (tree, host, found) = read(
            "$ lstopo
Machine (126GB total)
  Package L#0
    NUMANode L#0 (P#0 63GB)
    L3 L#0 (25MB)
      L2 L#0 (256KB) + L1d L#0 (32KB) + Core L#0
        PU L#0 (P#0)
        PU L#1 (P#2)
    HostBridge
      PCIBridge
        PCIBridge
          PCI 04:00.0 (3D)
            CoProc(CUDA) \"cuda1\"
            GPU(NVML) \"nvml0\"
      PCIBridge
        PCI 0b:00.0 (VGA)
  Package L#1
    NUMANode L#1 (P#1 63GB)
    L3 L#1 (25MB) + L2 L#1 (256KB) + Core L#1 + PU L#2 (P#1)
    HostBridge
      PCI 81:00.0 (InfiniBand)
        Net \"ib0\"
        OpenFabrics \"mlx5_0\"

end",
        );
        assert_eq!(found.evidence[0].origin.lines, Some((2, 23)));
        let [root, _, lower, gpu, port, vga, far, nic] = &tree.devices[..] else { panic!("{tree:?}") };
        assert_eq!((root.numa, far.numa), (Some(0), Some(1)));
        assert_eq!(
            (lower.parent, gpu.parent, port.parent, vga.parent, nic.parent),
            (Some(1), Some(2), Some(0), Some(4), Some(6))
        );
        assert!(gpu.is_gpu() && !vga.is_gpu() && nic.is_nic());
        assert_eq!((gpu.gpu_index, gpu.line, gpu.address.unwrap().bus), (Some(1), 12, 4));
        assert_eq!(nic.os_devices.iter().map(|o| o.rdma).collect::<Vec<_>>(), [false, true]);
        assert!(found.warnings[0].message.starts_with("1 VGA"));
        assert_eq!(host.sockets, Some(2));
        assert_eq!(host.numa[0].cpus.as_ref().unwrap().to_string(), "0,2");
        assert_eq!(host.numa[1].package, Some(1));
    }

    #[test]
    fn hwloc_1_has_ids_for_addresses() {
        let (tree, host, _) = read(
            "Machine (64GB)
  NUMANode L#0 (P#0 32GB) + Socket L#0 + L3 L#0 (20MB)
    Core L#0 + PU L#0 (P#0)
  HostBridge L#0
    PCIBridge
      PCI 10de:17c2
        CoProc L#0 \"cuda0\"",
        );
        let gpu = &tree.devices[2];
        assert_eq!((gpu.address, gpu.vendor, gpu.device), (None, Some(0x10de), Some(0x17c2)));
        assert!(gpu.is_gpu());
        assert_eq!(host.numa[0].cpus.as_ref().unwrap().to_string(), "0");
    }

    #[test]
    fn verbose() {
        let (tree, host, _) = read(
            "Machine (P#0 total=1024KB HostName=n7 Architecture=x86_64)
  Package L#0 (P#0 CPUModel=\"A CPU @ 2 GHz\")
    NUMANode L#0 (P#3 local=1024KB total=1024KB)
    HostBridge L#0 (buses=0000:[00-0c])
      PCIBridge L#1 (busid=0000:00:03.0 id=8086:6f08 class=0604(PCIBridge) link=15.75GB/s buses=0000:[02-08])
        PCI L#0 (busid=0000:02:00.0 id=10de:15f8 class=0302(3D) link=15.75GB/s PCIDevice=\"GP100GL\")",
        );
        let [root, port, gpu] = &tree.devices[..] else { panic!("{tree:?}") };
        assert_eq!((root.numa, host.numa[0].memory), (Some(3), Some(Bytes(1 << 20))));
        assert_eq!(
            (port.vendor, port.class, port.link_rate),
            (Some(0x8086), Some(0x060400), Some(Rate::from_gb(15.75)))
        );
        assert_eq!((gpu.class, gpu.name.as_deref()), (Some(0x030200), Some("GP100GL")));
        assert_eq!((host.name.as_deref(), host.cpu_model.as_deref()), (Some("n7"), Some("A CPU @ 2 GHz")));
    }
}
