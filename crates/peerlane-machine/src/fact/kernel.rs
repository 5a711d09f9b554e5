//! What the kernel reports of GPUs, PCIe and the IOMMU.

use crate::fabric::{PciAddress, PcieWidth};
use crate::units::Bytes;

/// What the IOMMU does with the accesses of devices that the kernel drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IommuDomain {
    /// Each is translated.
    Translated,
    /// They pass.
    Passthrough,
    /// There is none, or it is off.
    Off,
}

/// Errors of one code that NVIDIA's driver logged of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Xid {
    /// The GPU.
    pub address: PciAddress,
    /// The code, by NVIDIA's list of Xid errors.
    pub code: u32,
    /// How often.
    pub count: u32,
    /// Whether any of them was fatal, where the driver states it (NVLink 5: Xid 144 to 150).
    pub fatal: Option<bool>,
}

impl Xid {
    /// One error of a code.
    pub fn new(address: PciAddress, code: u32) -> Self {
        Xid { address, code, count: 1, fatal: None }
    }
}

/// What NVIDIA's driver asks for to recover a GPU (Xid 154).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The GPU.
    pub address: PciAddress,
    /// The action, as the driver names it: `GPU Reset Required`.
    pub action: String,
}

/// Errors of one code that NVIDIA's driver logged of an NVSwitch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchXid {
    /// The NVSwitch.
    pub address: PciAddress,
    /// The code, by NVIDIA's list of SXid errors.
    pub code: u32,
    /// Whether the driver calls it fatal.
    pub fatal: bool,
    /// What it is, as the driver names it: `LTSSM Fault Up`.
    pub what: String,
    /// Ports it was logged of.
    pub links: Vec<u32>,
    /// How often.
    pub count: u32,
}

/// Something that the kernel logged of a device, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Logged {
    /// The device.
    pub address: PciAddress,
    /// Whether the line names a GPU's driver as the device's.
    pub gpu: bool,
    /// How often.
    pub count: u32,
}

/// A memory window of a device for which the kernel found no address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unassigned {
    /// The device.
    pub address: PciAddress,
    /// The number of the base address register.
    pub bar: u8,
    /// Its size, where the line states it.
    pub size: Option<Bytes>,
    /// Whether the log shows that the device is a GPU, by its vendor and class.
    pub gpu: bool,
}

/// How bad a PCIe error is (advanced error reporting).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PcieErrorKind {
    /// The link repeated what was broken.
    Corrected,
    /// A transaction was lost.
    NonFatal,
    /// The link is not to be trusted.
    Fatal,
}

/// PCIe errors of one kind that the kernel logged of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PcieError {
    /// The device.
    pub address: PciAddress,
    /// How bad they are.
    pub kind: PcieErrorKind,
    /// How many.
    pub count: u32,
    /// Bits of the status that name them: `BadTLP`, `CmpltTO`.
    pub bits: Vec<&'static str>,
    /// Whether further errors came before the kernel had read the first.
    pub is_burst: bool,
}

/// What the kernel reports of GPUs, PCIe and the IOMMU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelFacts {
    /// Words of its command line that matter to paths between devices: `iommu=pt`.
    pub parameters: Vec<String>,
    /// What the IOMMU does by default, as the log has it.
    pub iommu: Option<IommuDomain>,
    /// Whether the log states that the IOMMU is disabled.
    pub iommu_disabled: bool,
    /// Errors of GPUs.
    pub xids: Vec<Xid>,
    /// GPUs that the driver reports as fallen off the bus, other than by an Xid error.
    pub lost: Vec<PciAddress>,
    /// Errors of PCIe links.
    pub pcie_errors: Vec<PcieError>,
    /// What the driver asks for to recover GPUs.
    pub recovery: Vec<Recovery>,
    /// Errors of NVSwitches.
    pub switch_xids: Vec<SwitchXid>,
    /// Uncorrectable hardware errors that AMD's driver reports of its GPUs.
    pub uncorrectable: Vec<Logged>,
    /// Accesses of devices that the IOMMU refused.
    pub iommu_faults: Vec<Logged>,
    /// Memory windows without address space.
    pub unassigned: Vec<Unassigned>,
    /// Links that are slower than their devices.
    pub limited: Vec<LimitedLink>,
    /// Devices with all the PCIe bandwidth that they are capable of, as their drivers logged.
    pub unlimited: Vec<PciAddress>,
    /// GPUs and network adapters of which their drivers logged anything.
    pub started: Vec<PciAddress>,
    /// How often the link of a network interface, or of a PCIe controller on a chip, came up.
    pub links_up: u32,
    /// Whether the driver of a GPU that is no PCI device, as systems on a chip have them, logged anything.
    pub has_gpu_on_chip: bool,
    /// Whether the log shows a lid or a battery: the machine is portable, and its devices are soldered.
    pub is_portable: bool,
}

impl KernelFacts {
    /// Whether the log would show failures of GPUs, adapters and their links: their drivers wrote into it. What a command line and the
    /// IOMMU's start show are settings.
    pub fn is_telling(&self) -> bool {
        let settings = KernelFacts {
            parameters: self.parameters.clone(),
            iommu: self.iommu,
            iommu_disabled: self.iommu_disabled,
            is_portable: self.is_portable,
            ..KernelFacts::default()
        };
        *self != settings
    }
}

/// A link that the kernel found slower than a device below it, when it took the device into use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitedLink {
    /// The device.
    pub device: PciAddress,
    /// The port of the slow link, at the device or above it.
    pub at: PciAddress,
    /// What that link runs at.
    pub width: PcieWidth,
    /// What the device is capable of.
    pub capable: PcieWidth,
}
