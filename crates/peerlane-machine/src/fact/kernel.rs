//! What the kernel reports of GPUs, PCIe and the IOMMU.

use crate::fabric::{PciAddress, PcieWidth};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcieError {
    /// The device.
    pub address: PciAddress,
    /// How bad they are.
    pub kind: PcieErrorKind,
    /// How many.
    pub count: u32,
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
    /// Links that are slower than their devices.
    pub limited: Vec<LimitedLink>,
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
