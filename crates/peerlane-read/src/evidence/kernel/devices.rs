//! Devices in the kernel's log: what the PCI core lists when it starts, and devices whose drivers log.

use std::collections::HashMap;

use super::super::health::Health;
use super::super::pci_listing::{self, Function};
use super::super::text::Span;
use super::super::{Fact, Found, KernelFacts, PciDevice, PciRole, Text};
use super::MOST;
use peerlane_machine::fabric::PciAddress;
use peerlane_machine::fact::{Area, Grade};

/// The most functions of one log; two thousand are on large servers.
const MOST_FUNCTIONS: usize = 8192;

/// Drivers of GPUs and adapters, as lines name them before an address, with the vendor and the class of what they drive.
const DRIVERS: [(&str, u16, u32); 25] = [
    ("nvidia", 0x10de, 0x03_0200),
    ("nouveau", 0x10de, 0x03_0000),
    ("amdgpu", 0x1002, 0x03_0000),
    ("radeon", 0x1002, 0x03_0000),
    ("i915", 0x8086, 0x03_0000),
    ("i915_bpo", 0x8086, 0x03_0000),
    ("xe", 0x8086, 0x03_0000),
    ("mlx5_core", 0x15b3, 0x02_0000),
    ("mlx4_core", 0x15b3, 0x02_0000),
    ("bnxt_en", 0x14e4, 0x02_0000),
    ("tg3", 0x14e4, 0x02_0000),
    ("ice", 0x8086, 0x02_0000),
    ("idpf", 0x8086, 0x02_0000),
    ("i40e", 0x8086, 0x02_0000),
    ("ixgbe", 0x8086, 0x02_0000),
    ("igb", 0x8086, 0x02_0000),
    ("igc", 0x8086, 0x02_0000),
    ("e1000e", 0x8086, 0x02_0000),
    ("hfi1", 0x8086, 0x02_0800),
    ("efa", 0x1d0f, 0x02_0000),
    ("ena", 0x1d0f, 0x02_0000),
    ("cxgb4", 0x1425, 0x02_0000),
    ("ionic", 0x1dd8, 0x02_0000),
    ("qede", 0x1077, 0x02_0000),
    ("gve", 0x1ae0, 0x02_0000),
];

/// The free driver of NVIDIA's GPUs: no CUDA, and since Maxwell the clocks of the firmware.
const NOUVEAU: &str = "nouveau";

/// Words of NVIDIA's driver and of programs that need it.
const OF_NVIDIA: [&str; 5] = ["NVRM", "nvidia", "CUDA", "cuda", "NCCL"];

/// Whether a chip that nouveau names, `NVIDIA GP106 (136000a1)`, is one whose clocks it cannot raise: those since the second Maxwell.
fn keeps_clocks(rest: &str) -> bool {
    let chip = rest.strip_prefix("NVIDIA ").unwrap_or_default();
    ["GM2", "GP", "GV", "TU", "GA", "AD"].iter().any(|start| chip.starts_with(start))
}

/// Whether a driver is a GPU's.
pub(super) fn drives_gpus(driver: &str) -> bool {
    DRIVERS.iter().any(|(name, _, class)| *name == driver && class >> 16 == 0x03)
}

/// The device that words name last, `[1.7] i915 0000:00:02.0`, and the word before it.
pub(super) fn last_device(words: &str) -> Option<(&str, PciAddress)> {
    let (before, address) = words.trim_end().rsplit_once(' ')?;
    // most words are no address, and are passed over quickly
    let shape = address.as_bytes();
    if shape.len() < 7 || shape[shape.len() - 2] != b'.' || shape[shape.len() - 5] != b':' {
        return None;
    }
    Some((before.rsplit(' ').next().unwrap_or_default(), address.parse().ok()?))
}

/// What was read so far.
#[derive(Default)]
pub(super) struct Devices {
    functions: HashMap<PciAddress, Function>,
    /// The NUMA node of a root bus.
    numa: HashMap<(u32, u8), u32>,
    /// Buses below host bridges.
    roots: Vec<(u32, u8)>,
    lines: Span,
    /// GPUs that nouveau drives, with the line that says so, and whether it leaves them at low clocks; another driver may take them over.
    nouveau: Vec<(PciAddress, usize, bool)>,
}

impl Devices {
    /// Reads a message; whether it is one of these.
    pub(super) fn read(&mut self, i: usize, message: &str, facts: &mut KernelFacts) -> bool {
        if let Some((driver, address)) = initialized(message) {
            let read = self.device(i, driver, address, "", facts);
            if read {
                self.lines.add(i);
            }
            return read;
        }
        if is_of_gpu_on_chip(message) {
            facts.has_gpu_on_chip = true;
            return true;
        }
        let Some((subject, rest)) = message.split_once(": ") else { return false };
        let read = match last_device(subject) {
            Some((driver, address)) => self.device(i, driver, address, rest, facts),
            None => self.bus(subject, rest),
        };
        if read {
            self.lines.add(i);
        }
        read
    }

    /// `pci 0000:01:00.0: [10de:2204] type 00 class 0x030000`, `pci 0000:00:01.0: PCI bridge to [bus 01-02]`, and any line of a
    /// known driver.
    fn device(&mut self, i: usize, driver: &str, address: PciAddress, rest: &str, facts: &mut KernelFacts) -> bool {
        let line = i as u32 + 1;
        if let Some(device) = listed(rest) {
            if self.functions.len() < MOST_FUNCTIONS {
                let device = PciDevice { address: Some(address), line, ..device };
                self.functions.entry(address).or_default().device = device;
            }
            return true;
        }
        if let Some((bus, _)) = rest.strip_prefix("PCI bridge to [bus ").and_then(|rest| rest.split_once(['-', ']'])) {
            let (Ok(bus), Some(bridge)) = (u8::from_str_radix(bus, 16), self.functions.get_mut(&address)) else {
                return false;
            };
            bridge.secondary = Some(bus);
            return true;
        }
        let Some((_, vendor, class)) = DRIVERS.iter().find(|(name, ..)| *name == driver) else { return false };
        // the port of a desktop or of a board's own management says nothing of GPUs and fast adapters
        let is_slow_port = matches!(driver, "e1000e" | "igb" | "igc" | "tg3");
        if !is_slow_port && facts.started.len() < MOST && !facts.started.contains(&address) {
            facts.started.push(address);
        }
        self.nouveau.retain(|(known, ..)| *known != address || driver == NOUVEAU);
        // where it gives up, it names no chip
        let works = rest.is_empty() || rest.starts_with("NVIDIA ") || rest.starts_with("DRM: VRAM");
        if driver == NOUVEAU
            && works
            && self.nouveau.len() < MOST
            && !self.nouveau.iter().any(|(known, ..)| *known == address)
        {
            self.nouveau.push((address, i, keeps_clocks(rest)));
        }
        if self.functions.len() < MOST_FUNCTIONS {
            self.functions.entry(address).or_insert_with(|| {
                let endpoint = PciDevice::new(PciRole::Endpoint);
                let (vendor, class) = (Some(*vendor), Some(*class));
                let device = PciDevice { address: Some(address), vendor, class, line, ..endpoint };
                Function { device, ..Function::default() }
            });
        }
        true
    }

    /// `pci_bus 0000:17: on NUMA node 1`, `pci_bus 0000:17: root bus resource [bus 17-3a]`.
    fn bus(&mut self, subject: &str, rest: &str) -> bool {
        let Some(bus) = subject.strip_prefix("pci_bus ").and_then(bus_number) else { return false };
        if let Some(node) = rest.strip_prefix("on NUMA node ").and_then(|node| node.trim().parse().ok()) {
            self.numa.insert(bus, node);
            return true;
        }
        let is_root = rest.starts_with("root bus resource");
        if is_root && self.roots.len() < MOST && !self.roots.contains(&bus) {
            self.roots.push(bus);
        }
        is_root
    }

    /// States the devices, if there are GPUs, NVSwitches or adapters among them.
    pub(super) fn push(self, text: &Text, found: &mut Found) {
        let mut health = Health::default();
        let needs_cuda = text.holds(&OF_NVIDIA);
        for (address, line, is_slow) in &self.nouveau {
            let part = address.to_string();
            // a desktop needs no CUDA
            let grade = if needs_cuda || *is_slow { Grade::Limit } else { Grade::Note };
            health.trouble(Area::Driver, grade, Some(&part), "driven by", NOUVEAU, *line);
        }
        health.push(text, super::TOOL, found);
        let Some(lines) = self.lines.numbers(text) else { return };
        let mut functions: Vec<Function> = self.functions.into_values().collect();
        functions.sort_by_key(|f| f.device.address);
        if !functions.iter().any(|f| f.device.is_gpu() || f.device.is_nic() || f.device.is_nvswitch()) {
            return;
        }
        for Function { device, root_port, .. } in &mut functions {
            let Some(bus) = device.address.map(|a| (a.domain, a.bus)) else { continue };
            *root_port = self.roots.contains(&bus);
            device.numa = self.numa.get(&bus).copied();
        }
        let mut tree = pci_listing::tree(functions);
        for i in 0..tree.devices.len() {
            let above = tree.devices[i].parent.and_then(|parent| tree.devices.get(parent)?.numa);
            let device = &mut tree.devices[i];
            device.numa = device.numa.or(above);
        }
        found.push(text, super::TOOL, lines, Fact::Pci(tree));
    }
}

/// Whether a message is of a GPU's driver about a GPU on a chip: `nvgpu: 57000000.gpu gm20b_init_clk_setup_sw:1268 …`, `[drm]
/// Initialized panfrost 1.2.0 20180908 for ff9a0000.gpu on minor 1`.
fn is_of_gpu_on_chip(message: &str) -> bool {
    let of_nvidia = message.strip_prefix("nvgpu: ").or_else(|| message.strip_prefix("gk20a "));
    let device = of_nvidia.or_else(|| Some(message.strip_prefix("[drm] Initialized ")?.split_once(" for ")?.1));
    let name = device.and_then(|device| device.split([' ', ':']).next());
    let address = name.and_then(|name| name.strip_suffix(".gpu").or_else(|| name.strip_suffix(".gv11b")));
    address.is_some_and(|at| !at.is_empty() && at.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// The driver and the device of `[drm] Initialized i915 1.6.0 20080730 for 0000:00:02.0 on minor 0`, which the kernel's display code
/// logs when a driver has a GPU ready; newer kernels log no date.
fn initialized(message: &str) -> Option<(&str, PciAddress)> {
    let rest = message.strip_prefix("[drm] Initialized ")?;
    let (driver, rest) = rest.split_once(' ')?;
    let (_, device) = rest.split_once(" for ")?;
    Some((driver, device.split(' ').next()?.parse().ok()?))
}

/// `[10de:2204] type 00 class 0x030000 PCIe Legacy Endpoint`; before Linux 3.2 `[1002:71c4] type 0 class 0x000300`, without the last
/// byte of the class.
pub(super) fn listed(rest: &str) -> Option<PciDevice> {
    let (id, rest) = rest.strip_prefix('[')?.split_once("] type ")?;
    let (vendor, device) = id.split_once(':')?;
    let hex = |text: &str| u16::from_str_radix(text, 16).ok();
    let class = rest.split_once("class 0x")?.1.split_whitespace().next()?;
    let class = u32::from_str_radix(class, 16).ok().filter(|_| class.len() == 6)?;
    let is_old = rest.split(' ').next().is_some_and(|kind| kind.len() == 1);
    let class = if is_old { class << 8 & 0xff_ffff } else { class };
    let role = if class >> 8 == 0x0604 { PciRole::Bridge } else { PciRole::Endpoint };
    Some(PciDevice { vendor: hex(vendor), device: hex(device), class: Some(class), ..PciDevice::new(role) })
}

/// `0000:17`.
fn bus_number(text: &str) -> Option<(u32, u8)> {
    let (domain, bus) = text.split_once(':')?;
    Some((u32::from_str_radix(domain, 16).ok()?, u8::from_str_radix(bus, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::super::scan_text;
    use super::*;

    fn read(body: &str) -> Vec<Fact> {
        scan_text(&Text::new("t", body.as_bytes())).evidence.into_iter().map(|e| e.fact).collect()
    }

    fn tree(facts: &[Fact]) -> &peerlane_machine::fact::PciTree {
        facts.iter().find_map(|fact| if let Fact::Pci(tree) = fact { Some(tree) } else { None }).unwrap()
    }

    #[test]
    fn a_start_gives_the_tree() {
        let facts = read(
            "[    0.6] pci_bus 0000:16: root bus resource [bus 16-2f]\n\
             [    0.7] pci 0000:16:01.0: [8086:352a] type 01 class 0x060400 PCIe Root Port\n\
             [    0.7] pci 0000:16:01.0: PCI bridge to [bus 17]\n\
             [    0.8] pci 0000:17:00.0: [10de:2330] type 00 class 0x030200 PCIe Endpoint\n\
             [    0.9] pci_bus 0000:16: on NUMA node 1\n\
             [    4.0] nvidia 0000:17:00.0: enabling device (0140 -> 0142)\n",
        );
        let tree = tree(&facts);
        assert!(tree.has_tree);
        let gpus = tree.gpus();
        let [gpu] = gpus.as_slice() else { panic!("{tree:?}") };
        assert_eq!((gpu.device, gpu.numa), (Some(0x2330), Some(1)));
    }

    #[test]
    fn old_kernels_print_classes_without_their_last_byte() {
        let class = |rest: &str| listed(rest).and_then(|device| device.class);
        assert_eq!(class("[1002:71c4] type 0 class 0x000300"), Some(0x03_0000));
        assert_eq!(class("[10de:2204] type 00 class 0x030000 PCIe Endpoint"), Some(0x03_0000));
    }

    #[test]
    fn gpus_whose_driver_is_ready() {
        let log = |line: &str| read(&format!("[    1.0] Linux\n[    1.1] a\n[    8.0] {line}\n"));
        for (line, gpus) in [
            ("[drm] Initialized i915_bpo 1.6.0 20160229 for 0000:00:02.0 on minor 0", 1),
            ("[drm] Initialized xe 1.1.0 for 0000:03:00.0 on minor 1", 1),
            ("[drm] Initialized vmwgfx 2.20.0 20211206 for 0000:00:02.0 on minor 0", 0),
            ("[drm] Initialized drm 1.1.0 20060810", 0),
        ] {
            let started = |f: &Fact| if let Fact::Kernel(k) = f { k.started.len() } else { 0 };
            let count: usize = log(line).iter().map(started).sum();
            assert_eq!(count, gpus, "{line}");
        }
    }

    #[test]
    fn gpus_on_a_chip() {
        assert!(is_of_gpu_on_chip("nvgpu: 57000000.gpu           gm20b_init_clk_setup_sw:1268 [INFO]  GPCPLL"));
        assert!(is_of_gpu_on_chip("[drm] Initialized panfrost 1.2.0 20180908 for ff9a0000.gpu on minor 1"));
        for other in ["[drm] Initialized simpledrm 1.0.0 20200625 for simple-framebuffer.0 on minor 0", "nvgpu: loaded"]
        {
            assert!(!is_of_gpu_on_chip(other), "{other}");
        }
    }

    #[test]
    fn nouveau_is_a_limit_until_another_driver_takes_the_gpu() {
        let nouveau = "[    7.4] nouveau 0000:01:00.0: NVIDIA GF116 (0cf200a1)\n";
        let limits = |body: &str| {
            let facts = read(body);
            facts.iter().filter(|f| matches!(f, Fact::Health(h) if h.troubles[0].grade == Grade::Limit)).count()
        };
        assert_eq!(
            (limits(nouveau), limits(&format!("{nouveau}[    9.1] nvidia: loading out-of-tree module\n"))),
            (0, 1)
        );
        assert_eq!(limits(&nouveau.replace("GF116", "GP106")), 1);
        assert_eq!(limits(&format!("{nouveau}[    9.4] nvidia 0000:01:00.0: enabling device (0000 -> 0003)\n")), 0);
    }

    #[test]
    fn lines_of_drivers_name_devices() {
        let facts = read(
            "Jul 20 16:15:36 h kernel: nvidia 0000:04:00.0: enabling device (0000 -> 0003)\n\
             Jul 20 16:15:37 h kernel: mlx5_core 0000:05:00.0: firmware version: 20.31.1014\n\
             Jul 20 16:15:37 h kernel: snd_hda_intel 0000:04:00.1: enabling device (0000 -> 0002)\n",
        );
        let tree = tree(&facts);
        assert!(!tree.has_tree);
        let (gpus, nics) = (tree.gpus().len(), tree.devices.iter().filter(|d| d.is_nic()).count());
        assert_eq!((gpus, nics, tree.devices.len()), (1, 1, 2));
    }
}
