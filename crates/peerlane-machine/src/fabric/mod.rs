//! The typed graph of one machine: nodes, links, the paths between any two nodes and their classes.
//!
//! PCIe is a forest: each device hangs below one root complex, through switches. Root complexes join
//! at CPU packages, packages by SMP links. NVLink, xGMI and C2C lie outside that tree. A [`Fabric`] is
//! immutable and carries an index, so that [`Fabric::path`] and [`Fabric::class`] take time in
//! proportion to the path and not to the machine.

mod class;
mod cpu_list;
mod graph;
mod interconnect;
mod lanes;
mod nic_method;
mod node;
mod path;
mod pci;
mod vendor;

pub use class::{NoPathClass, PathClass};
pub use cpu_list::{CpuList, NoCpuList};
pub use graph::{Fabric, FabricBuilder, FabricError};
pub use interconnect::{FAMILIES, Family, Generation, GpuLink, Interconnect, Label, NoGpuLink};
pub use lanes::{LaneBudget, LaneOwner, lane_budgets};
pub use nic_method::{Method, NoMethod, Pipeline};
pub use node::{DriveRates, Link, LinkId, LinkKind, Node, NodeId, NodeKind};
pub use path::{Hop, Path};
pub use pci::{NoPciAddress, NoPcieWidth, PciAddress, PcieGeneration, PcieWidth};
pub use vendor::CpuVendor;
