//! Reads the topology that NCCL and RCCL log under `NCCL_DEBUG_SUBSYS=GRAPH`, in the forms of releases 2.5 to 2.30:
//!
//! ```text
//! host:12:34 [0] NCCL INFO === System : maxBw 48.0 totalBw 240.0 ===
//! host:12:34 [0] NCCL INFO CPU/0-0 (1/2/-1)
//! host:12:34 [0] NCCL INFO + PCI[24.0] - PCI/0-1000 (1000c0101000a096)
//! host:12:34 [0] NCCL INFO               + PCI[24.0] - GPU/0-7000 (0)
//! host:12:34 [0] NCCL INFO                             + NVL[240.0] - NVS/0-0
//! ```
//!
//! The format is that of `ncclTopoPrintRec` in NCCL's `src/graph/topo.cc`: a device stands behind the link that leads to it, and
//! its own links begin in the column of its name. Every process prints the part of the machine that its communicator uses, so
//! what all processes of a host print is put together.

use std::collections::BTreeMap;

use super::limits::MAX_FUNCTIONS;
use super::nccl_log::{bus_id, networks, process, split};
use super::streams::LINE_PREFIX;
use super::{
    Fact, Found, HostFacts, NumaNode, NvlinkEnd, NvlinkPort, OsDevice, PciDevice, PciRole, PciTree, Text, tool,
};
use peerlane_machine::fabric::{PciAddress, PcieGeneration, PcieWidth};
use peerlane_machine::units::Rate;

const TOOL: &str = tool::NCCL_LOG;

/// The most processes whose lines are kept separate; more hosts and processes than any log shows.
const MAX_PROCESSES: usize = 4096;

/// How many columns a line may be off, having lost characters: links of a device stand at least 13 columns to the right
/// of its own.
const SLACK: usize = 4;

/// A link of a device inside the machine, as a line of the tree begins.
const LINKS: [&str; 5] = ["PCI[", "NVL[", "XGMI[", "NET[", "C2C["];

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["=== System :", "+ PCI["]) {
        return;
    }
    let mut hosts: BTreeMap<&str, Host> = BTreeMap::new();
    let mut processes: BTreeMap<&str, Vec<(usize, usize)>> = BTreeMap::new();
    for (i, line) in text.iter() {
        let (process, words) = match split(line, "NCCL INFO ") {
            // some people cut the process off, and leave the device
            Some((prefix, words)) => {
                (process(prefix).or(prefix.split_whitespace().next_back()).unwrap_or_default(), words)
            }
            None => ("", line),
        };
        if processes.len() >= MAX_PROCESSES && !processes.contains_key(process) {
            continue;
        }
        let name = process.split_once(':').map_or("", |(host, _)| host);
        if let Some((kind, names)) = networks(words.trim()) {
            let host = hosts.entry(name).or_default();
            // sockets are listed where there is nothing else
            if host.networks.is_empty() || (kind != "Socket" && host.networks.len() < names.len()) {
                host.networks = names;
            }
        } else if words.trim_start().starts_with("=== System :") {
            processes.insert(process, Vec::new());
        } else if let Some(entry) = Entry::read(words) {
            let above = processes.entry(process).or_default();
            hosts.entry(name).or_default().add(&entry, above, i);
        }
    }
    hosts.retain(|_, host| host.nodes.iter().any(|n| n.kind == Kind::Gpu));
    let several = hosts.len() > 1;
    for (name, host) in hosts {
        let lines = || host.lines.iter().map(|i| (*i, 0)).collect::<Vec<_>>();
        let part = several.then(|| text.part(&lines(), Some(name)));
        host.push(part.as_ref().unwrap_or(text), name, several, found);
    }
}

/// What a node of NCCL's topology is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// A NUMA node with its root complexes.
    Cpu,
    /// A PCIe switch.
    Switch,
    Gpu,
    Nic,
    /// All NVSwitches.
    NvSwitch,
    /// A port of a NIC.
    Net,
}

/// A node as it is named: `GPU/1B000 (0)`, since 2.22 `GPU/0-1b000 (0)` with the number of the host.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Named<'a> {
    kind: Kind,
    system: u64,
    id: u64,
    /// What stands in the brackets behind it.
    detail: &'a str,
}

impl<'a> Named<'a> {
    fn read(words: &'a str) -> Option<Self> {
        let (kind, rest) = words.split_once('/')?;
        let kind = match kind {
            "CPU" => Kind::Cpu,
            "PCI" => Kind::Switch,
            "GPU" => Kind::Gpu,
            "NIC" => Kind::Nic,
            "NVS" => Kind::NvSwitch,
            "NET" => Kind::Net,
            _ => return None,
        };
        let end = rest.find(|c: char| !c.is_ascii_hexdigit() && c != '-').unwrap_or(rest.len());
        let (id, rest) = rest.split_at(end);
        let (system, id) = id.split_once('-').unwrap_or(("0", id));
        let detail = rest.trim().strip_prefix('(').map_or("", |d| d.split(')').next().unwrap_or_default());
        let hex = |digits| u64::from_str_radix(digits, 16).ok();
        Some(Named { kind, system: hex(system)?, id: hex(id)?, detail })
    }
}

/// A line of the tree: a CPU, or a link to what it names.
#[derive(Debug, PartialEq)]
struct Entry<'a> {
    column: usize,
    /// The link's kind and what NCCL gives it in GB/s, where it is no constant.
    link: Option<(&'a str, Option<f64>)>,
    /// The column of the name.
    at: usize,
    named: Named<'a>,
}

impl<'a> Entry<'a> {
    fn read(words: &'a str) -> Option<Self> {
        let line = words.trim_start();
        let column = words.len() - line.len();
        if line.starts_with("CPU/") {
            return Some(Entry { column, link: None, at: column, named: Named::read(line)? });
        }
        let link = line.strip_prefix("+ ").or_else(|| line.strip_prefix('+')).unwrap_or(line);
        let known = LINKS.iter().any(|kind| link.starts_with(kind));
        let (left, right) = link.split_once("] - ").filter(|_| known || line.starts_with('+'))?;
        let (kind, rate) = left.split_once('[')?;
        let at = words.len() - right.len();
        // the first release prints whole numbers, and for all but NVLink they are constants
        let known = rate.contains('.') || kind.trim() == "NVL";
        let rate = rate.trim().parse().ok().filter(|r: &f64| known && r.is_finite() && *r > 0.0);
        Some(Entry { column, link: Some((kind.trim(), rate)), at, named: Named::read(right.trim_start())? })
    }
}

/// A device of a host.
#[derive(Debug)]
struct Node {
    /// The host among those that share NVLink.
    system: u64,
    kind: Kind,
    id: u64,
    /// The device above it.
    parent: Option<usize>,
    /// What NCCL gives the link to it in GB/s.
    rate: Option<f64>,
    /// The PCI ids of a switch, 16 bits each: vendor, device, and those of the subsystem.
    product: Option<u64>,
    /// Ports of a NIC.
    ports: Vec<Port>,
    /// NVLinks, xGMI links and NVLink-C2C of a GPU: to what, and NCCL's rate of all of them together.
    links: Vec<Link>,
    line: usize,
}

#[derive(Debug)]
struct Port {
    number: u64,
    gigabits: Option<f64>,
    /// Whether it has a GUID, as RDMA devices do; sockets have their number for it.
    guid: bool,
}

#[derive(Debug, PartialEq)]
struct Link {
    kind: LinkKind,
    to: (Kind, u64),
    rate: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LinkKind {
    Nvlink,
    Xgmi,
    C2c,
}

/// What the processes of one host print.
#[derive(Debug, Default)]
struct Host {
    nodes: Vec<Node>,
    index: BTreeMap<(u64, Kind, u64), usize>,
    networks: Vec<String>,
    arch: Option<&'static str>,
    /// The systems of a log that names several hosts by numbers (GPUs that share NVLink across hosts).
    systems: BTreeMap<u64, usize>,
    /// Lines whose place in the tree cannot be seen.
    astray: usize,
    /// Lines that are some columns to the right.
    indented: usize,
    lines: Vec<usize>,
}

impl Host {
    /// Adds a line; `above` are the devices that it may hang on, each with the column of its name.
    fn add(&mut self, entry: &Entry, above: &mut Vec<(usize, usize)>, line: usize) {
        if self.nodes.len() >= MAX_FUNCTIONS || self.lines.len() >= 16 * MAX_FUNCTIONS {
            return;
        }
        self.lines.push(line);
        let named = entry.named;
        let Some((link, rate)) = entry.link else {
            let arch = match named.detail.split('/').next() {
                Some("1") => Some("x86_64"),
                Some("2") => Some("ppc64le"),
                Some("3") => Some("arm64"),
                _ => None,
            };
            self.arch = self.arch.or(arch);
            let at = self.node(named.system, &named, None, None, line);
            above.clear();
            above.push((entry.at, at));
            return;
        };
        while above.last().is_some_and(|(column, _)| *column > entry.column + SLACK) {
            above.pop();
        }
        self.indented += usize::from(entry.column > SLACK);
        let Some(&(column, parent)) = above.last() else {
            self.astray += 1;
            return;
        };
        // a line between has been lost
        if column + SLACK < entry.column {
            self.astray += 1;
        }
        match link {
            "PCI" if matches!(named.kind, Kind::Switch | Kind::Gpu | Kind::Nic) => {
                // NICs have another number in the place of their host's
                let system = self.nodes.get(parent).map_or(0, |above| above.system);
                let at = self.node(system, &named, Some(parent), rate, line);
                above.push((entry.at, at));
            }
            "NET" => self.port(parent, &named),
            "NVL" | "XGMI" | "C2C" => {
                let kind = match link {
                    "NVL" => LinkKind::Nvlink,
                    "XGMI" => LinkKind::Xgmi,
                    _ => LinkKind::C2c,
                };
                let link = Link { kind, to: (named.kind, named.id), rate };
                let gpu = self.nodes.get_mut(parent).filter(|n| n.kind == Kind::Gpu);
                if let Some(gpu) = gpu.filter(|g| g.links.len() < 64 && !g.links.contains(&link)) {
                    gpu.links.push(link);
                }
            }
            _ => {}
        }
    }

    fn node(&mut self, system: u64, named: &Named, parent: Option<usize>, rate: Option<f64>, line: usize) -> usize {
        let next = self.nodes.len();
        let at = *self.index.entry((system, named.kind, named.id)).or_insert(next);
        if at == next {
            *self.systems.entry(system).or_default() += 1;
            let product = u64::from_str_radix(named.detail, 16).ok().filter(|_| named.kind == Kind::Switch);
            let (ports, links) = (Vec::new(), Vec::new());
            self.nodes.push(Node { system, kind: named.kind, id: named.id, parent, rate, product, ports, links, line });
        }
        at
    }

    /// `NET/0 (GUID/port/25.000000)`, since 2.23 `NET/0-0 (collectives/GUID/port/25.000000)`: GB/s of its port.
    fn port(&mut self, nic: usize, named: &Named) {
        let Some(nic) = self.nodes.get_mut(nic).filter(|n| n.kind == Kind::Nic && n.ports.len() < 64) else { return };
        if named.kind != Kind::Net || nic.ports.iter().any(|p| p.number == named.id) {
            return;
        }
        let fields: Vec<&str> = named.detail.split('/').collect();
        let (guid, rate) = match fields.as_slice() {
            [.., guid, _, rate] => (u64::from_str_radix(guid, 16).ok(), rate.parse::<f64>().ok()),
            _ => (None, None),
        };
        let gigabits = rate.map(|gb| (gb * 8.0).round()).filter(|g| *g != 0.0);
        nic.ports.push(Port { number: named.id, gigabits, guid: guid.is_some_and(|g| g > 0xffff) });
    }
}

impl Host {
    fn push(&self, text: &Text, name: &str, several: bool, found: &mut Found) {
        let first = self.lines.first().copied().unwrap_or_default();
        let last = self.lines.last().copied().unwrap_or_default();
        let lines = if several { text.numbers(0, text.len().saturating_sub(1)) } else { text.numbers(first, last) };
        if several {
            let host = HostFacts { name: Some(name.to_owned()), ..HostFacts::default() };
            found.push(text, LINE_PREFIX, lines, Fact::Host(host));
        }
        if self.systems.len() > 1 {
            let message =
                format!("the topology shows {} hosts that share NVLink; that of the first is used", self.systems.len());
            found.warn(text, TOOL, lines, message);
        }
        // a page that swallows blanks at the start of lines leaves no tree to see
        let switches = self.nodes.iter().any(|n| n.kind == Kind::Switch);
        let has_tree = self.astray == 0 && (self.indented > 0 || !switches);
        if !has_tree {
            let message = "the indentation of NCCL's topology is lost in part, so the switches are not known; paste it as it was \
                           printed";
            found.warn(text, TOOL, lines, message);
        }
        found.push(text, TOOL, lines, Fact::Pci(self.tree(has_tree)));
        let (ports, unknown) = self.ports();
        if let Some(rate) = unknown {
            let message = format!("NCCL gives NVLinks {rate} GB/s together, which does not show how many there are");
            found.warn(text, TOOL, lines, message);
        }
        found.push(text, TOOL, lines, Fact::Nvlink(ports));
        let numa = self.used().filter(|(_, n)| n.kind == Kind::Cpu).filter_map(|(_, n)| numa(n.id));
        let numa = numa.map(|id| NumaNode { id, ..NumaNode::default() }).collect();
        let arch = self.arch.map(str::to_owned);
        found.push(text, TOOL, lines, Fact::Host(HostFacts { arch, numa, ..HostFacts::default() }));
    }

    /// The devices of the first host, with their place in `nodes`.
    fn used(&self) -> impl Iterator<Item = (usize, &Node)> {
        let first = self.systems.keys().next().copied();
        self.nodes.iter().enumerate().filter(move |(_, n)| Some(n.system) == first)
    }

    fn tree(&self, has_tree: bool) -> PciTree {
        let mut tree = PciTree { bridges_are_switches: true, has_tree, ..PciTree::default() };
        let maker = self.nodes.iter().flat_map(|n| &n.links).find_map(|link| match link.kind {
            LinkKind::Nvlink => Some(0x10de),
            LinkKind::Xgmi => Some(0x1002),
            LinkKind::C2c => None,
        });
        // parents stand before what hangs on them
        let mut places: BTreeMap<usize, usize> = BTreeMap::new();
        for (at, node) in self.used() {
            let parent = node.parent.and_then(|p| places.get(&p).copied());
            let role = match node.kind {
                Kind::Cpu => PciRole::HostBridge,
                Kind::Switch => PciRole::Bridge,
                _ => PciRole::Endpoint,
            };
            let address = bus(node.id).filter(|_| node.kind != Kind::Cpu);
            if role == PciRole::Endpoint && address.is_none() {
                continue;
            }
            let mut device = PciDevice { address, line: node.line as u32 + 1, ..PciDevice::new(role) };
            device.numa = self.cpu_of(at).and_then(|cpu| numa(cpu.id));
            device.parent = parent.filter(|_| has_tree);
            (device.running, device.link_rate) = node.rate.map(width).unwrap_or_default();
            match node.kind {
                Kind::Switch => {
                    let id = |shift| node.product.map(|p| (p >> shift) as u16).filter(|id| !matches!(id, 0 | 0xffff));
                    (device.vendor, device.device) = (id(48), id(32));
                    device.class = Some(0x06_0400);
                }
                Kind::Gpu => {
                    (device.class, device.vendor) = (Some(0x03_0200), maker);
                    let c2c = node.links.iter().find(|l| l.kind == LinkKind::C2c).and_then(|l| l.rate);
                    device.c2c = c2c.map(|gb| (1, Rate::from_gb(gb)));
                }
                Kind::Nic => {
                    device.class = Some(0x02_0000);
                    device.os_devices = node.ports.iter().map(|port| self.named(port)).collect();
                }
                _ => {}
            }
            // without a tree the CPUs lead nowhere
            if has_tree || role == PciRole::Endpoint {
                places.insert(at, tree.devices.len());
                tree.devices.push(device);
            }
        }
        tree
    }

    fn cpu_of(&self, mut at: usize) -> Option<&Node> {
        while let Some(parent) = self.nodes.get(at)?.parent {
            at = parent;
        }
        self.nodes.get(at).filter(|n| n.kind == Kind::Cpu)
    }

    /// A port by the name that the log gives its number, `mlx5_0:1/IB`.
    fn named(&self, port: &Port) -> OsDevice {
        let network = usize::try_from(port.number).ok().and_then(|n| self.networks.get(n));
        let plain = |name: &String| name.split(':').next().unwrap_or_default().to_owned();
        OsDevice {
            name: network.map_or_else(|| format!("NET{}", port.number), plain),
            rdma: port.guid || network.is_some_and(|n| n.ends_with("/IB") || n.ends_with("/RoCE")),
            gigabits: port.gigabits,
            down: false,
            note: Some(format!("NCCL net {}", port.number)),
        }
    }

    /// Links between GPUs; the rate of NVLinks whose number it does not show.
    fn ports(&self) -> (Vec<NvlinkPort>, Option<f64>) {
        let gpus: Vec<&Node> = self.used().map(|(_, n)| n).filter(|n| n.kind == Kind::Gpu).collect();
        let all = || gpus.iter().flat_map(|gpu| &gpu.links);
        let rates = |kind| all().filter(move |l| l.kind == kind).filter_map(|l| l.rate).collect::<Vec<f64>>();
        let (nvlinks, xgmi) = (rates(LinkKind::Nvlink), rates(LinkKind::Xgmi));
        let (of_nvlink, of_xgmi) = (unit(&nvlinks, &NVLINKS), unit(&xgmi, &XGMI_LINKS));
        let mut ports = Vec::new();
        let mut unknown = None;
        for gpu in gpus {
            for link in gpu.links.iter().filter(|l| l.kind != LinkKind::C2c) {
                let of = if link.kind == LinkKind::Xgmi { of_xgmi } else { of_nvlink };
                let count = link.rate.zip(of).map(|(rate, of)| (rate / of).round() as u8);
                let Some(count) = count else {
                    unknown = unknown.or(link.rate);
                    continue;
                };
                let (remote, remote_class) = match link.to.0 {
                    Kind::Gpu => (bus(link.to.1).map(NvlinkEnd::Device), Some(0x03_0200)),
                    Kind::NvSwitch => (Some(NvlinkEnd::Hidden), Some(0x06_8000)),
                    Kind::Cpu => (None, Some(0x06_8001)),
                    _ => continue,
                };
                ports.push(NvlinkPort {
                    address: bus(gpu.id),
                    count,
                    remote,
                    remote_class,
                    xgmi: link.kind == LinkKind::Xgmi,
                    ..NvlinkPort::default()
                });
            }
        }
        (ports, unknown)
    }
}

/// What NCCL gives one NVLink in GB/s, and how many of that kind a GPU has: `SM60_NVLINK_WIDTH` and its like in
/// `src/graph/topo.h` of all releases. Those of Blackwell all lead to switches.
const NVLINKS: [(f64, &[u8]); 8] = [
    (18.0, &[1, 2, 3, 4]),
    (20.0, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18]),
    (21.0, &[1, 2, 3, 4, 5, 6, 12]),
    (22.0, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
    (12.0, &[1, 2, 3, 4]),
    (20.6, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18]),
    (40.0, &[17, 18]),
    (40.1, &[10, 11, 12, 13, 14, 15, 16, 17, 18]),
];

/// The same of xGMI: `VEGA_XGMI_WIDTH` and its like in RCCL. Only MI200 has several links between two GPUs.
const XGMI_LINKS: [(f64, &[u8]); 3] = [(24.0, &[1]), (36.0, &[1, 2, 3, 4]), (48.0, &[1])];

/// The only rate of one link that all of these are multiples of.
fn unit(rates: &[f64], known: &[(f64, &[u8])]) -> Option<f64> {
    // NCCL prints one decimal
    let counted = |rate: f64, of: f64, counts: &[u8]| counts.iter().any(|n| (rate - f64::from(*n) * of).abs() < 0.06);
    let fits = |(of, counts): &&(f64, &[u8])| rates.iter().all(|rate| counted(*rate, *of, counts));
    let mut fitting = known.iter().filter(fits).map(|(of, _)| *of);
    fitting.next().filter(|_| !rates.is_empty() && fitting.next().is_none())
}

/// What NCCL's rate of a PCIe link shows. It is 12 GB/s for 3.0 x16, and half or double for each generation and width; from 12 on
/// no generation before 3.0 has it. NCCL takes it of what both ends can do.
fn width(rate: f64) -> (PcieWidth, Option<Rate>) {
    let is = |gb: f64| (rate - gb).abs() < 0.06;
    if is(96.0) {
        return (PcieWidth::new(PcieGeneration::Gen6, 16), None);
    }
    let like = [(12.0, PcieGeneration::Gen3), (24.0, PcieGeneration::Gen4), (48.0, PcieGeneration::Gen5)];
    let raw = like.into_iter().find(|(gb, _)| is(*gb)).and_then(|(_, of)| PcieWidth::new(of, 16).raw_rate());
    (PcieWidth::default(), raw)
}

/// The address of a device; NICs have the NUMA node in the highest byte, and interfaces without one are 0.
fn bus(id: u64) -> Option<PciAddress> {
    let id = id & 0x00ff_ffff_ffff_ffff;
    (id != 0).then(|| bus_id(&format!("{id:x}"))).flatten()
}

/// The number of a NUMA node; the kernel's −1 is none.
fn numa(id: u64) -> Option<u32> {
    u32::try_from(id).ok().filter(|n| *n < 4096)
}

#[cfg(test)]
mod tests;
