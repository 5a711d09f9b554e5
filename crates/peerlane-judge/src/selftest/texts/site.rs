//! The state of a machine whose tools' output is written: a design of the catalogue with addresses, and what varies
//! between sound machines.

use peerlane_machine::fabric::{Interconnect, LinkKind, NodeId, NodeKind, PciAddress, PcieGeneration, PcieWidth};
use peerlane_machine::machine::Machine;
use peerlane_machine::random::Random;
use peerlane_model::collectives::bus_bandwidth;
use peerlane_model::model::Model;
use peerlane_read::catalogue::{Part, Parts};

/// Catalogue systems that a site is made of: all their GPUs and adapters are products with known links.
pub(super) const SYSTEMS: [&str; 9] = [
    "hgx-h200",
    "h200x4-vm",
    "dgx-1",
    "dgx-1v",
    "microway-p100-pcie",
    "hpcac-tessa",
    "exxact-devbox",
    "exxact-txr430",
    "exxact-txr550",
];

/// What `nvidia-smi` calls the GPUs of those systems that give no product name.
const PRODUCTS: [(&str, &str); 4] = [
    ("h200", "NVIDIA H200"),
    ("tesla-p100-sxm2", "Tesla P100-SXM2-16GB"),
    ("v100-sxm2", "Tesla V100-SXM2-32GB"),
    ("titan-x-maxwell", "GeForce GTX TITAN X"),
];

/// RDMA adapters: the part, the type that `ibstat` prints, and the port's rate in Gb/s.
const ADAPTERS: [(&str, &str, u32); 3] =
    [("connectx-4", "MT4115", 100), ("connectx-6-hdr100", "MT4123", 100), ("connectx-7", "MT4129", 400)];

/// CPUs: the part, and a model of it as `lscpu` names it.
const CPUS: [(&str, &str); 6] = [
    ("emerald-rapids", "INTEL(R) XEON(R) PLATINUM 8558"),
    ("emerald-rapids-h200x4-vm", "INTEL(R) XEON(R) PLATINUM 8558"),
    ("xeon-e5-v2", "Intel(R) Xeon(R) CPU E5-2650 v2 @ 2.60GHz"),
    ("xeon-e5-v3", "Intel(R) Xeon(R) CPU E5-2640 v3 @ 2.60GHz"),
    ("xeon-e5-v4", "Intel(R) Xeon(R) CPU E5-2698 v4 @ 2.20GHz"),
    ("xeon-scalable", "Intel(R) Xeon(R) Platinum 8168 CPU @ 2.70GHz"),
];

/// Generation of NVLink from which GPUs register with a fabric where NVSwitches join them.
const WITH_FABRIC: u8 = 4;

/// A machine as its tools show it.
#[derive(Clone)]
pub(super) struct Site {
    pub(super) host: String,
    /// The model of the CPUs, and how many there are.
    pub(super) cpu: &'static str,
    pub(super) sockets: usize,
    /// Seconds since boot of the first message of the kernel.
    pub(super) uptime: f64,
    /// Whether links rest at the first generation, as those of idle GPUs do.
    pub(super) idle: bool,
    pub(super) gpus: Vec<Gpu>,
    pub(super) nics: Vec<Nic>,
    /// PCI functions in the order of `lspci`.
    pub(super) functions: Vec<Function>,
    /// Path classes between GPUs and then adapters, in their order.
    pub(super) classes: Vec<Vec<String>>,
    /// Messages of the kernel.
    pub(super) log: Vec<String>,
    /// NCCL's variables that are set, and warnings.
    pub(super) variables: Vec<(&'static str, &'static str)>,
    pub(super) warnings: Vec<String>,
    pub(super) direct_rdma: bool,
    /// Bus bandwidth of an all-reduce with large messages, and what rings carry, in GB/s; where it is known.
    pub(super) all_reduce: Option<(f64, f64)>,
    /// Wrong values in the all-reduce's largest message.
    pub(super) wrong: u64,
}

#[derive(Clone)]
pub(super) struct Gpu {
    pub(super) product: String,
    pub(super) address: PciAddress,
    /// Its position among the site's functions.
    pub(super) function: usize,
    pub(super) numa: usize,
    /// NVLinks, those of them that are up, and the rate of one in GB/s.
    pub(super) links: u32,
    pub(super) up: u32,
    pub(super) link_rate: f64,
    /// State and status of the NVLink fabric, where it has one.
    pub(super) fabric: Option<[&'static str; 2]>,
    /// Whether memory rows wait to be remapped, and whether that failed; absent before Ampere.
    pub(super) rows: Option<(bool, bool)>,
    /// What slows it: the name of a clock event reason.
    pub(super) slowed_by: Option<&'static str>,
    pub(super) temperature: u32,
}

#[derive(Clone)]
pub(super) struct Nic {
    pub(super) name: String,
    /// As `ibstat` names the product.
    pub(super) kind: &'static str,
    pub(super) ethernet: bool,
    pub(super) up: bool,
    /// Of the port, in Gb/s.
    pub(super) rate: u32,
}

#[derive(Clone)]
pub(super) enum What {
    /// A root port, or a port of a switch, with the buses below it; whether it is a switch's downstream port.
    Bridge {
        buses: [u8; 2],
        port: &'static str,
    },
    Gpu,
    Nic,
}

#[derive(Clone)]
pub(super) struct Function {
    pub(super) address: PciAddress,
    pub(super) what: What,
    /// `10de:2335`, where known.
    pub(super) id: String,
    pub(super) running: PcieWidth,
    pub(super) capable: PcieWidth,
    pub(super) redirects: bool,
    /// The switch whose port it is.
    pub(super) switch: Option<NodeId>,
}

/// Functions as they are numbered.
struct Numbering<'a> {
    machine: &'a Machine,
    functions: Vec<Function>,
    /// Nodes of GPUs and adapters with their functions, in order.
    ends: Vec<(NodeId, usize)>,
    next_bus: u8,
}

impl Numbering<'_> {
    /// Numbers a node below a port, which gets the next bus; false where its link is unknown.
    fn place(
        &mut self,
        at: PciAddress,
        port: &'static str,
        width: PcieWidth,
        node: NodeId,
        switch: Option<NodeId>,
    ) -> Option<()> {
        let of = self.functions.len();
        let bus = self.bus()?;
        self.bridge(at, port, width, switch);
        match self.machine.fabric.node(node).kind {
            NodeKind::Switch => {
                let inside = self.bus()?;
                self.bridge(on(bus, 0), "Upstream Port", width, Some(node));
                let own = self.functions.len() - 1;
                for (n, (width, below)) in (0..).zip(children(self.machine, node)?) {
                    self.place(on(inside, n), "Downstream Port (Slot+)", width, below, Some(node))?;
                }
                self.close(own, inside);
            }
            NodeKind::Card => {
                let functions = self.machine.fabric.downstream(node).map(|(_, id)| id);
                for (n, id) in (0..).zip(functions.collect::<Vec<_>>()) {
                    self.end(PciAddress { function: n, ..on(bus, 0) }, width, id);
                }
            }
            NodeKind::Gpu | NodeKind::Nic => self.end(on(bus, 0), width, node),
            _ => return None,
        }
        self.close(of, bus);
        Some(())
    }

    fn bus(&mut self) -> Option<u8> {
        let bus = self.next_bus;
        self.next_bus = bus.checked_add(1)?;
        Some(bus)
    }

    fn bridge(&mut self, address: PciAddress, port: &'static str, width: PcieWidth, switch: Option<NodeId>) {
        let what = What::Bridge { buses: [0, 0], port };
        self.functions.push(Function { switch, ..function(address, what, width) });
    }

    /// Enters the buses below a bridge, once they are numbered.
    fn close(&mut self, bridge: usize, first: u8) {
        let last = self.next_bus - 1;
        if let Some(What::Bridge { buses, .. }) = self.functions.get_mut(bridge).map(|f| &mut f.what) {
            *buses = [first, last];
        }
    }

    fn end(&mut self, address: PciAddress, width: PcieWidth, node: NodeId) {
        let of = self.machine.fabric.node(node);
        let part = of.part.as_deref().and_then(|part| Parts::embedded().get(part));
        let id = part.and_then(|part| part.pci_ids.first().cloned()).unwrap_or_default();
        self.ends.push((node, self.functions.len()));
        let what = if of.kind == NodeKind::Gpu { What::Gpu } else { What::Nic };
        self.functions.push(Function { id, ..function(address, what, width) });
    }
}

fn on(bus: u8, device: u8) -> PciAddress {
    PciAddress { domain: 0, bus, device, function: 0 }
}

fn function(address: PciAddress, what: What, width: PcieWidth) -> Function {
    let id = String::new();
    Function { address, what, id, running: width, capable: width, redirects: false, switch: None }
}

/// What is below a node, with the widths of the links; `None` where one is unknown.
fn children(machine: &Machine, node: NodeId) -> Option<Vec<(PcieWidth, NodeId)>> {
    let fabric = &machine.fabric;
    let links = fabric.downstream(node).filter_map(|(link, below)| match fabric.link(link).kind {
        LinkKind::Pcie { running, .. } => Some(running.raw_rate().map(|_| (running, below))),
        _ => None,
    });
    links.collect()
}

impl Site {
    /// A sound machine of a design, as a seed varies it; `None` where the design lacks what tools would print.
    pub(super) fn of(machine: &Machine, random: &mut Random) -> Option<Site> {
        let fabric = &machine.fabric;
        let mut numbering = Numbering { machine, functions: Vec::new(), ends: Vec::new(), next_bus: 0 };
        let mut numa: Vec<(NodeId, usize)> = Vec::new();
        let mut sockets: Vec<Option<NodeId>> = Vec::new();
        let tops = fabric.ids().filter(|id| matches!(fabric.node(*id).kind, NodeKind::Host | NodeKind::RootComplex));
        for top in tops.collect::<Vec<_>>() {
            let below = children(machine, top)?;
            if below.is_empty() {
                continue;
            }
            let host = fabric.nearest_host(top);
            let socket = sockets.iter().position(|known| *known == host).unwrap_or_else(|| {
                sockets.push(host);
                sockets.len() - 1
            });
            let gap = u8::try_from(1 + random.below(6)).ok()?;
            numbering.next_bus = numbering.next_bus.checked_add(gap)?;
            let root = numbering.bus()?;
            let before = numbering.ends.len();
            for (n, (width, node)) in (1..).zip(below) {
                numbering.place(on(root, n), "Root Port (Slot+)", width, node, None)?;
            }
            numa.extend(numbering.ends.iter().skip(before).map(|(id, _)| (*id, socket)));
        }
        let Numbering { functions, ends, .. } = numbering;
        let of_kind = |kind| ends.iter().filter(move |(id, _)| fabric.node(*id).kind == kind).copied();
        let order: Vec<NodeId> = of_kind(NodeKind::Gpu).chain(of_kind(NodeKind::Nic)).map(|(id, _)| id).collect();
        let classes = order.iter().map(|a| {
            let class =
                |b: &NodeId| if a == b { Some("X".to_owned()) } else { fabric.class(*a, *b).map(|c| c.to_string()) };
            order.iter().map(class).collect()
        });
        let socket = |id: NodeId| numa.iter().find(|(of, _)| *of == id).map_or(0, |(_, socket)| *socket);
        let switched = fabric.of_kind(NodeKind::NvSwitch).next().is_some();
        let gpus: Option<Vec<Gpu>> = of_kind(NodeKind::Gpu)
            .map(|(id, at)| gpu(machine, id, functions.get(at)?.address, at, socket(id), switched, random))
            .collect();
        let nics: Option<Vec<Nic>> = of_kind(NodeKind::Nic).zip(0..).map(|((id, _), n)| nic(machine, id, n)).collect();
        let cpu = fabric.of_kind(NodeKind::Cpu).find_map(|id| fabric.node(id).part.as_deref())?;
        let mut site = Site {
            cpu: CPUS.iter().find(|(part, _)| *part == cpu)?.1,
            sockets: sockets.len(),
            host: format!("node{:02}", random.below(90)),
            uptime: 10.0 + 1e5 * random.uniform(),
            idle: random.below(2) == 0,
            gpus: gpus.filter(|gpus| gpus.len() > 1)?,
            nics: nics?,
            classes: classes.collect::<Option<_>>()?,
            functions,
            log: Vec::new(),
            variables: Vec::new(),
            warnings: Vec::new(),
            direct_rdma: true,
            all_reduce: bus_bandwidth(&Model::new(machine, Parts::embedded()))
                .map(|bound| (bound * (0.78 + 0.17 * random.uniform()), bound)),
            wrong: 0,
        };
        site.vary(random);
        Some(site)
    }

    /// What sound machines log and show without a fault.
    fn vary(&mut self, random: &mut Random) {
        if !self.nics.is_empty() && random.below(2) == 0 {
            // the board's own Ethernet ports, without cables
            for n in 0..=random.below(2) {
                let name = format!("mlx5_{}", self.nics.len() + n);
                self.nics.push(Nic { name, kind: "MT4127", ethernet: true, up: false, rate: 25 });
            }
        }
        let Some(gpu) = self.gpus.get(random.below(self.gpus.len())) else { return };
        let address = gpu.address;
        let bus = short(address);
        let of_programs = [
            format!(
                "NVRM: Xid (PCI:{bus}): 13, pid=41, name=python3, Graphics SM Warp Exception on (GPC 0, TPC 1, SM 0): Out Of Range Address"
            ),
            format!(
                "NVRM: Xid (PCI:{bus}): 31, pid=4711, name=python3, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS"
            ),
            format!("NVRM: Xid (PCI:{bus}): 43, pid=4711, name=python3, Ch 00000010"),
            format!("NVRM: Xid (PCI:{bus}): 45, pid=4711, name=python3, Ch 00000010"),
        ];
        self.log.push("Linux version 6.8.0-60-generic (buildd@lcy02) (x86_64-linux-gnu-gcc 13.3.0)".to_owned());
        self.log.push("Command line: BOOT_IMAGE=/vmlinuz-6.8.0-60-generic root=/dev/sda2 ro quiet iommu=pt".to_owned());
        self.log.push("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95.05".to_owned());
        let kept = random.below(of_programs.len() + 1);
        self.log.extend(of_programs.into_iter().skip(kept));
        // a few corrected errors are chance
        self.log.extend((0..random.below(4)).map(|_| corrected(address)));
    }

    /// Names of all its GPUs.
    pub(super) fn gpu_names(&self) -> impl Iterator<Item = String> + use<> {
        (0..self.gpus.len()).map(|i| format!("GPU{i}"))
    }

    /// Whether two GPUs reach each other by NVLink or below one switch, where NCCL uses peer-to-peer.
    pub(super) fn is_near(&self, a: usize, b: usize) -> bool {
        let class = self.classes.get(a).and_then(|row| row.get(b));
        class.is_some_and(|class| class.starts_with("NV") || class == "PIX" || class == "PXB")
    }
}

/// `0000:18:00`, as the kernel module and NCCL's tests name a GPU.
pub(super) fn short(address: PciAddress) -> String {
    let name = address.to_string();
    name.split('.').next().unwrap_or_default().to_owned()
}

/// The kernel's message of a corrected error.
pub(super) fn corrected(address: PciAddress) -> String {
    format!("nvidia {address}: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)")
}

fn part_of(machine: &Machine, id: NodeId) -> Option<&'static Part> {
    Parts::embedded().get(machine.fabric.node(id).part.as_deref()?)
}

fn gpu(
    machine: &Machine,
    id: NodeId,
    address: PciAddress,
    function: usize,
    numa: usize,
    switched: bool,
    random: &mut Random,
) -> Option<Gpu> {
    let fabric = &machine.fabric;
    let part = part_of(machine, id)?;
    let known = PRODUCTS.iter().find(|(name, _)| *name == part.name).map(|(_, product)| (*product).to_owned());
    let bundles =
        fabric.links_of(id).iter().filter_map(|(link, _)| fabric.link(*link).kind.bundle(Interconnect::Nvlink));
    let links = bundles.map(|bundle| u32::from(bundle.links.unwrap_or(0))).sum();
    let is_new = part.pcie.and_then(|width| width.generation) >= Some(PcieGeneration::Gen4);
    Some(Gpu {
        product: fabric.node(id).product.clone().or(known)?,
        address,
        function,
        numa,
        links,
        up: links,
        link_rate: part.constant("nvlink_brick_rate").unwrap_or(0.0) / 1e9,
        fabric: (switched && part.nvlink_generation >= Some(WITH_FABRIC)).then_some(["Completed", "Success"]),
        rows: is_new.then_some((false, false)),
        slowed_by: None,
        temperature: u32::try_from(28 + random.below(35)).unwrap_or_default(),
    })
}

fn nic(machine: &Machine, id: NodeId, n: usize) -> Option<Nic> {
    let part = machine.fabric.node(id).part.as_deref();
    let (_, kind, rate) = ADAPTERS.into_iter().find(|(name, ..)| Some(*name) == part)?;
    Some(Nic { name: format!("mlx5_{n}"), kind, ethernet: false, up: true, rate })
}
