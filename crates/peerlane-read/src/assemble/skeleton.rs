//! A machine's tree before it becomes a fabric: packages, NUMA domains, root complexes, and what hangs
//! below each. Both a class matrix and a PCI listing lead here.

use peerlane_machine::fabric::{PciAddress, PcieWidth};
use peerlane_machine::origin::Origin;

/// The link above a device or switch.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Uplink {
    /// As it runs.
    pub(super) running: PcieWidth,
    /// The most that both ends allow, where known.
    pub(super) allowed: PcieWidth,
    /// The most that the lower end could do.
    pub(super) capable: PcieWidth,
}

/// Something below a root complex.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Branch {
    /// A device of the inventory, by index.
    Device(usize, Uplink),
    /// Functions of one card.
    Card(Vec<usize>, Uplink),
    /// A switch.
    Switch(Switch),
}

/// A switch and what hangs below it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Switch {
    /// Its upstream port.
    pub(super) address: Option<PciAddress>,
    /// PCI vendor and device of the upstream port.
    pub(super) pci_id: Option<(u16, u16)>,
    /// Product name.
    pub(super) product: Option<String>,
    /// The link above it.
    pub(super) uplink: Uplink,
    /// True where only a matrix's shape implies it.
    pub(super) implied: bool,
    /// What hangs below.
    pub(super) branches: Vec<Branch>,
}

/// A root complex.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Root {
    /// `pci0000:00`, where known.
    pub(super) address: Option<PciAddress>,
    /// True where only a matrix's shape implies it.
    pub(super) implied: bool,
    /// What else a reader should know.
    pub(super) note: Option<String>,
    /// What hangs below.
    pub(super) branches: Vec<Branch>,
}

/// The root complexes of one NUMA domain.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Domain {
    /// NUMA node by the machine's numbering, where known.
    pub(super) numa: Option<u32>,
    /// Root complexes.
    pub(super) roots: Vec<Root>,
}

/// The whole.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Skeleton {
    /// Whether it is what a class matrix implies, and no listing of what there is.
    pub(super) of_classes: bool,
    /// NUMA domains.
    pub(super) domains: Vec<Domain>,
    /// The statement it rests on.
    pub(super) origin: Option<Origin>,
}

impl Domain {
    /// All devices of the domain.
    pub(super) fn devices(&self) -> Vec<usize> {
        self.roots.iter().flat_map(|r| devices_below(&r.branches)).collect()
    }
}

/// All devices below some branches. The depth is that of the tree, which its makers bound.
pub(super) fn devices_below(branches: &[Branch]) -> Vec<usize> {
    let mut all = Vec::new();
    let mut left: Vec<&Branch> = branches.iter().rev().collect();
    while let Some(branch) = left.pop() {
        match branch {
            Branch::Device(d, _) => all.push(*d),
            Branch::Card(ds, _) => all.extend(ds),
            Branch::Switch(s) => left.extend(s.branches.iter().rev()),
        }
    }
    all
}
