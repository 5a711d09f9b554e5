//! Host memory alone.

use peerlane_machine::schema::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Kind, Site, Size, Step, TableCell, Task, Test, Truth, Work};
use peerlane_machine::fabric::{NodeId, NodeKind};
use peerlane_machine::units::Bytes;

/// Each array: four times the last caches of most CPUs, as STREAM asks for.
const ARRAY: Size = Size::Exactly(Bytes::from_mib(512));

/// The kernel that runs over host memory, as STREAM names it; bytes are counted as STREAM counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StreamKernel {
    /// Sum what is read: 8 bytes an element.
    Read,
    /// `a = b`: 16 bytes an element.
    Copy,
    /// `a = b + s·c`: 24 bytes an element.
    Triad,
}

impl StreamKernel {
    fn name(self) -> &'static str {
        match self {
            StreamKernel::Read => "read",
            StreamKernel::Copy => "copy",
            StreamKernel::Triad => "triad",
        }
    }

    /// How many arrays it goes over.
    fn arrays(self) -> u32 {
        match self {
            StreamKernel::Read => 1,
            StreamKernel::Copy => 2,
            StreamKernel::Triad => 3,
        }
    }
}

/// [`Work::HostMemory`].
pub(super) struct HostMemory<'w> {
    pub(super) node: &'w str,
    pub(super) kernel: StreamKernel,
}

/// All host memory, and that of each NUMA node where there are several.
pub(super) fn steps(site: &Site<'_>) -> Vec<Step> {
    let several = if site.hosts.len() > 1 { site.hosts.as_slice() } else { &[] };
    let nodes: Vec<&str> = std::iter::once("host").chain(several.iter().map(String::as_str)).collect();
    let step = |node: &str, kernel| {
        let work = Work::HostMemory { node: node.to_owned(), kernel };
        Step { test: Test::Memory, work, size: ARRAY }
    };
    let kernels = [StreamKernel::Read, StreamKernel::Copy, StreamKernel::Triad];
    nodes.iter().flat_map(|node| kernels.map(|kernel| step(node, kernel))).collect()
}

impl<'w> Kind<'w> for HostMemory<'w> {
    fn words(&self) -> String {
        format!("{} {}", self.node, self.kernel.name())
    }

    fn nodes(&self) -> Vec<&'w str> {
        vec![self.node]
    }

    fn has_content(&self) -> bool {
        false
    }

    fn is_by_cpu(&self) -> bool {
        true
    }

    fn is_picked(&self, has: &dyn Fn(&str, &str) -> bool) -> bool {
        has(self.node, self.node)
    }

    fn table(&self) -> Option<TableCell> {
        Some(TableCell {
            title: "host memory alone, bytes counted as in STREAM".to_owned(),
            row: self.node.to_owned(),
            column: (self.kernel as u64, self.kernel.name().to_owned()),
            wide: false,
        })
    }

    /// The peak of the memory bus, which is all that the model knows: a bound.
    fn simulate(&self, size: Size, truth: &Truth) -> Result<Task, String> {
        let node = self.node;
        let fabric = &truth.model.machine.fabric;
        let nodes = if node == "host" { fabric.of_kind(NodeKind::Host).collect() } else { vec![truth.find(node)?] };
        let capacity = |id: NodeId| {
            let of_node = truth.model.resources.iter().find(|r| r.node == Some(id));
            of_node.filter(|_| fabric.node(id).kind == NodeKind::Host).map(|r| r.capacity.bytes_per_second())
        };
        let rate = nodes.iter().map(|id| capacity(*id)).sum::<Option<f64>>().filter(|rate| *rate > 0.0);
        let rate = rate.ok_or_else(|| format!("the memory rate of {node} is not known"))?;
        Ok(truth.rated(size, f64::from(self.kernel.arrays()), rate))
    }
}
