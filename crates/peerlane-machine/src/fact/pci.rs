//! PCI devices and how they hang together, as `lspci`, `lstopo`, sysfs and NCCL each show them.

use std::collections::HashSet;

use crate::fabric::{CpuList, PciAddress, PcieWidth};
use crate::units::Rate;

/// PCI vendors that make GPUs, and AMD's number for everything else.
const NVIDIA: u16 = 0x10de;
const ATI: u16 = 0x1002;
const AMD: u16 = 0x1022;
const INTEL: u16 = 0x8086;

/// What a PCI function is to the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PciRole {
    /// A host bridge: the top of one PCI bus hierarchy (`pci0000:00`, lstopo's bridge 0-1).
    HostBridge,
    /// A bridge between buses: a root port, or a port of a switch.
    Bridge,
    /// Anything else.
    #[default]
    Endpoint,
}

/// ACS features of a port that redirect peer-to-peer traffic upstream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acs {
    /// The device can redirect requests.
    pub capable: bool,
    /// Request redirect is on.
    pub request_redirect: bool,
    /// Completion redirect is on.
    pub completion_redirect: bool,
}

/// An operating-system device that belongs to a PCI function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OsDevice {
    /// Its name: `mlx5_0`, `eth0`, `nvml0`, `cuda0`.
    pub name: String,
    /// Whether it is an RDMA device (`/sys/class/infiniband`, NCCL's `<net>` with a guid).
    pub rdma: bool,
    /// Line rate in Gb/s, if known.
    pub gigabits: Option<f64>,
    /// Whether its port is reported down.
    pub down: bool,
    /// Port state, link layer or other words the source gives.
    pub note: Option<String>,
}

/// One PCI function.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PciDevice {
    /// Its address; hand-written NCCL files have bridges without a true one.
    pub address: Option<PciAddress>,
    /// What it is to the tree.
    pub role: PciRole,
    /// Index of the device above it in [`PciTree::devices`].
    pub parent: Option<usize>,
    /// 24-bit class code, if known: 0x0604xx bridges, 0x0300xx and 0x0302xx GPUs, 0x02xxxx NICs.
    pub class: Option<u32>,
    /// Vendor id.
    pub vendor: Option<u16>,
    /// Device id.
    pub device: Option<u16>,
    /// Product name or description.
    pub name: Option<String>,
    /// The width its upstream link runs at.
    pub running: PcieWidth,
    /// The most that it can do itself.
    pub capable: PcieWidth,
    /// Rate of its upstream link after encoding, one direction, where the source gives only that
    /// (lstopo: 7.88 GB/s is Gen3 x8 or Gen4 x4).
    pub link_rate: Option<Rate>,
    /// NVLink-C2C to its CPU: how many links, and the rate of each in one direction.
    pub c2c: Option<(u8, Rate)>,
    /// NUMA node; `None` also for the kernel's −1.
    pub numa: Option<u32>,
    /// CPUs local to it.
    pub cpus: Option<CpuList>,
    /// ACS, where shown.
    pub acs: Option<Acs>,
    /// Maximum payload in use, in bytes.
    pub max_payload: Option<u16>,
    /// Maximum read request in use, in bytes.
    pub max_read_request: Option<u16>,
    /// Relaxed ordering enabled.
    pub relaxed_ordering: Option<bool>,
    /// Size of the largest prefetchable BAR in bytes (a GPU's BAR1).
    pub bar_bytes: Option<u64>,
    /// Operating-system devices on it.
    pub os_devices: Vec<OsDevice>,
    /// Which GPU it is by the CUDA or NCCL numbering, if known.
    pub gpu_index: Option<u32>,
    /// Line of the source it stands on, from 1.
    pub line: u32,
}

impl PciDevice {
    /// A function of which only its role is known.
    pub fn new(role: PciRole) -> Self {
        PciDevice { role, ..PciDevice::default() }
    }

    /// Whether the class code means GPU: display (0x03) or AMD's processing accelerators (0x1200, 0x0380).
    ///
    /// What draws a server's console is none: the controllers of boards' management chips, ATI's server
    /// graphics, and Intel's graphics inside the CPU, which are always on bus 0.
    pub fn is_gpu(&self) -> bool {
        let vendor_makes_gpus = match self.vendor {
            None | Some(NVIDIA) => true,
            Some(ATI) => !self.is_server_graphics(),
            Some(INTEL) => self.address.is_some_and(|a| a.bus != 0),
            Some(_) => false,
        };
        let shows_or_computes = self.class.is_some_and(|c| matches!(c >> 16, 0x03 | 0x12));
        self.role == PciRole::Endpoint && (self.gpu_index.is_some() || (shows_or_computes && vendor_makes_gpus))
    }

    /// ES1000 and Rage XL, by id or, where there is no id, by name.
    fn is_server_graphics(&self) -> bool {
        const IDS: [u16; 3] = [0x515e, 0x5969, 0x4752];
        match self.device {
            Some(id) => IDS.contains(&id),
            None => self.name.as_deref().is_some_and(|n| n.contains("ES1000") || n.contains("Rage XL")),
        }
    }

    /// Whether it is a virtual function by its name.
    pub fn is_virtual_function(&self) -> bool {
        self.name.as_deref().is_some_and(|n| n.contains("Virtual Function"))
    }

    /// Whether the class code means network adapter (0x02xxxx: Ethernet, InfiniBand …).
    pub fn is_nic(&self) -> bool {
        self.role == PciRole::Endpoint && self.class.is_some_and(|c| c >> 16 == 0x02)
    }

    /// Whether it is an NVSwitch (NVIDIA, class 0x0680, which is also NCCL's mark for one).
    pub fn is_nvswitch(&self) -> bool {
        self.class.is_some_and(|c| c >> 8 == 0x0680) && self.vendor.is_none_or(|v| v == 0x10de)
    }
}

/// PCI functions with their tree; parents stand before children.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PciTree {
    /// The functions.
    pub devices: Vec<PciDevice>,
    /// True where each bridge stands for a whole switch (NCCL's XML); false where upstream and
    /// downstream ports are listed one by one (sysfs, lspci, lstopo).
    pub bridges_are_switches: bool,
    /// True where parents are known; false for a flat list such as `lspci -vvv` without bridges.
    pub has_tree: bool,
}

impl PciTree {
    /// The GPUs, in order of address.
    ///
    /// Left out are the virtual functions of GPUs, and where there are other GPUs those inside AMD CPUs,
    /// which show the desktop.
    pub fn gpus(&self) -> Vec<&PciDevice> {
        let listed: Vec<&PciDevice> = self.devices.iter().filter(|d| d.is_gpu()).collect();
        let place = |d: &PciDevice| d.address.map(|a| (a.domain, a.bus, a.device));
        // functions of one device, by what else is there: a CPU's own have its vendor's security processor on the same device
        let in_cpu: HashSet<_> = self.devices.iter().filter(|d| d.vendor == Some(AMD)).filter_map(place).collect();
        let integrated =
            |d: &PciDevice| d.vendor == Some(ATI) && place(d).is_some_and(|p| p.1 == 0 || in_cpu.contains(&p));
        // the virtual functions that follow a physical one have its id and fill up its bus
        let key = |d: &PciDevice| Some((d.address?.domain, d.address?.bus, d.vendor?, d.device?));
        let virtualised: HashSet<_> =
            listed.iter().filter(|d| d.address.is_some_and(|a| a.function != 0)).filter_map(|d| key(d)).collect();
        let heads: HashSet<PciAddress> = listed.iter().filter_map(|d| d.address).filter(|a| a.function == 0).collect();
        let is_virtual = |d: &PciDevice| {
            let Some(at) = d.address.filter(|_| d.gpu_index.is_none()) else { return false };
            // a second head of an old card is a function too
            let of_another = at.function != 0 && heads.contains(&PciAddress { function: 0, ..at });
            let follows = (at.device, at.function) != (0, 0) && key(d).is_some_and(|k| virtualised.contains(&k));
            of_another || follows || d.is_virtual_function()
        };
        let mut real: Vec<&PciDevice> = listed.into_iter().filter(|d| !is_virtual(d)).collect();
        if real.iter().any(|d| !integrated(d)) {
            real.retain(|d| d.gpu_index.is_some() || !integrated(d));
        }
        real.sort_by_key(|d| d.address);
        real
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn display(address: &str, vendor: u16, device: u16) -> PciDevice {
        PciDevice {
            address: address.parse().ok(),
            class: Some(0x03_0200),
            vendor: Some(vendor),
            device: Some(device),
            ..PciDevice::new(PciRole::Endpoint)
        }
    }

    fn gpus(devices: &[PciDevice]) -> Vec<String> {
        let tree = PciTree { devices: devices.to_vec(), ..PciTree::default() };
        tree.gpus().iter().map(|d| d.address.unwrap().to_string()).collect()
    }

    #[test]
    fn consoles_are_no_gpus() {
        let es1000 = display("01:03.0", ATI, 0x515e);
        let nameless = PciDevice { device: None, name: Some("AMD [AMD/ATI] ES1000".into()), ..es1000.clone() };
        for console in [es1000, nameless, display("02:00.0", 0x1a03, 0x2000), display("00:02.0", INTEL, 0x4680)] {
            assert!(!console.is_gpu(), "{console:?}");
        }
        assert!(display("03:00.0", INTEL, 0x56a0).is_gpu() && display("03:00.0", ATI, 0x744c).is_gpu());
    }

    #[test]
    fn a_gpu_inside_an_amd_cpu_counts_only_where_it_is_the_only_one() {
        let inside = display("0d:00.0", ATI, 0x164e);
        let security = PciDevice { class: Some(0x10_8000), ..display("0d:00.2", AMD, 0x1649) };
        assert_eq!(gpus(&[inside.clone(), security.clone()]), ["0000:0d:00.0"]);
        let card = display("01:00.0", NVIDIA, 0x2684);
        assert_eq!(gpus(&[inside, security, card]), ["0000:01:00.0"]);
    }

    #[test]
    fn virtual_functions_are_no_gpus_of_their_own() {
        let physical = display("41:00.0", NVIDIA, 0x20b5);
        let mut all = vec![physical];
        all.extend(["41:00.4", "41:00.5", "41:01.0"].map(|a| display(a, NVIDIA, 0x20b5)));
        assert_eq!(gpus(&all), ["0000:41:00.0"]);
        // a virtual machine's GPUs are devices of one bus
        assert_eq!(gpus(&["00:04.0", "00:05.0"].map(|a| display(a, NVIDIA, 0x20b5))).len(), 2);
    }
}
