//! A device of one machine, with all that is stated of it.

use peerlane_machine::fabric::CpuList;
use peerlane_machine::fact::GpuFacts;
use peerlane_machine::origin::Origin;
use peerlane_machine::units::Rate;

/// A GPU or NIC.
#[derive(Clone, Debug, Default)]
pub(super) struct Device {
    /// Node name: `GPU0`, `mlx5_0`, `NIC0`.
    pub(super) name: String,
    /// Other names.
    pub(super) aliases: Vec<String>,
    /// True for a GPU.
    pub(super) gpu: bool,
    /// All that is known of it, merged; for a NIC only address, name and widths are used.
    pub(super) facts: GpuFacts,
    /// CPUs local to it.
    pub(super) cpus: Option<CpuList>,
    /// NUMA node.
    pub(super) numa: Option<u32>,
    /// For a NIC, whether it does RDMA.
    pub(super) rdma: Option<bool>,
    /// For a NIC, Gb/s of its port as it is stated of it.
    pub(super) line_rate: Option<f64>,
    /// Raw rate of its PCIe link, where a source gives only that.
    pub(super) link_rate: Option<Rate>,
    /// Rate of its NVLink-C2C in one direction, all links together.
    pub(super) c2c: Option<Rate>,
    /// PCI vendor and device.
    pub(super) pci_id: Option<(u16, u16)>,
    /// Catalogue part.
    pub(super) part: Option<String>,
    /// Statements about it.
    pub(super) origins: Vec<Origin>,
}

impl Device {
    /// Adds a statement about it, once.
    pub(super) fn rests_on(&mut self, origin: &Origin) {
        // lines differ first, and what was added last is the likeliest to come again
        let same = |known: &Origin| known.lines == origin.lines && known == origin;
        if !self.origins.iter().rev().any(same) {
            self.origins.push(origin.clone());
        }
    }
}
