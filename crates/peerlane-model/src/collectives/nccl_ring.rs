//! The first ring that NCCL's search would find, for comparison.
//!
//! Published facts (github.com/NVIDIA/nccl, `src/graph/search.cc` at 5067397c; its constants in [`crate::model::nccl`]). A
//! ring must have a speed left on every link of every path, each way by itself; speeds are tried from the fastest of a
//! list on, at each of them paths up to NVLink only, then up to PIX, PXB, PHB and SYS; for each of these the order of PCI
//! addresses first, then from every GPU depth first, next GPUs by bandwidth, hops and number. x86 CPUs of Intel take a
//! sixth off what goes through one root complex. Further channels, paths over a third GPU, tuning and plugins are left out.

use std::collections::HashMap;

use crate::model::nccl::{INTEL_OVERHEAD, MOST_STEPS, link_rate, speeds};
use peerlane_machine::fabric::{CpuVendor, Fabric, Hop, Interconnect, LinkId, LinkKind, NodeId, PathClass};
use peerlane_read::catalogue::{Parts, vendor_of};

/// NCCL subtracts in thousandths.
const ROUNDING: f64 = 1e-3;

/// A way between two GPUs as NCCL sees it.
struct NcclPath {
    hops: Vec<Hop>,
    /// GB/s of the slowest hop.
    width: f64,
    /// NVLink, PIX, PXB, PHB, SYS.
    rank: u8,
    /// Whether an Intel root complex is passed.
    intel: bool,
}

/// The order of the first ring; `None` where NCCL would know no width of a link, or finds none.
pub fn nccl_ring(fabric: &Fabric, parts: &Parts, gpus: &[NodeId]) -> Option<Vec<usize>> {
    let n = gpus.len();
    if n < 2 {
        return None;
    }
    let mut ways = Vec::with_capacity(n * n);
    for (a, b) in gpus.iter().flat_map(|a| gpus.iter().map(move |b| (*a, *b))) {
        ways.push(if a == b { None } else { Some(way(fabric, parts, a, b)?) });
    }
    let most = ways.iter().flatten().map(|way| way.width).fold(0.0, f64::max);
    for speed in speeds(nvlink_generation(fabric, parts, gpus)).iter().copied().filter(|speed| *speed <= most) {
        for rank in 0..5 {
            let mut search =
                Search { fabric, parts, ways: &ways, n, speed, rank, left: HashMap::new(), steps: MOST_STEPS };
            let found = search.ring(vec![0], Some(&(0..n).collect::<Vec<_>>()));
            let found = found.or_else(|| (0..n).find_map(|start| search.ring(vec![start], None)));
            if found.is_some() {
                return found;
            }
        }
    }
    None
}

/// The newest NVLink of these GPUs, by their parts or their links.
fn nvlink_generation(fabric: &Fabric, parts: &Parts, gpus: &[NodeId]) -> Option<u8> {
    let by_part = |gpu: &NodeId| parts.get(fabric.node(*gpu).part.as_deref()?)?.nvlink_generation;
    let links = gpus.iter().flat_map(|gpu| fabric.links_of(*gpu));
    let by_link = links.filter_map(|(link, _)| fabric.link(*link).kind.bundle(Interconnect::Nvlink)?.generation);
    gpus.iter().filter_map(by_part).chain(by_link).max()
}

fn way(fabric: &Fabric, parts: &Parts, a: NodeId, b: NodeId) -> Option<NcclPath> {
    let path = fabric.path(a, b)?;
    let width = path.hops.iter().map(|hop| width(fabric, parts, hop.link)).collect::<Option<Vec<_>>>()?;
    let rank = match path.class {
        PathClass::Gpu(Interconnect::Nvlink, _) => 0,
        PathClass::Pix => 1,
        PathClass::Pxb => 2,
        PathClass::Phb => 3,
        _ => 4,
    };
    let through_root = path.class == PathClass::Phb;
    let intel = through_root && vendor_of(fabric, parts, a) == Some(CpuVendor::Intel);
    Some(NcclPath { width: width.into_iter().fold(f64::INFINITY, f64::min), hops: path.hops, rank, intel })
}

/// A link's bandwidth as NCCL counts it, in GB/s; `None` where it is not known, or no NVIDIA GPU has such.
fn width(fabric: &Fabric, parts: &Parts, link: LinkId) -> Option<f64> {
    match fabric.link(link).kind {
        LinkKind::OnDie | LinkKind::OnCard => Some(f64::INFINITY),
        _ => link_rate(fabric, parts, link),
    }
}

struct Search<'s> {
    fabric: &'s Fabric,
    parts: &'s Parts,
    ways: &'s [Option<NcclPath>],
    n: usize,
    speed: f64,
    rank: u8,
    /// What is left of each link, by the end it leads to.
    left: HashMap<(LinkId, NodeId), f64>,
    steps: usize,
}

impl Search<'_> {
    /// A ring that begins so; along `forced`, if there is such an order.
    fn ring(&mut self, mut order: Vec<usize>, forced: Option<&[usize]>) -> Option<Vec<usize>> {
        self.steps = self.steps.checked_sub(1)?;
        let last = *order.last()?;
        if order.len() == self.n {
            let first = *order.first()?;
            return self.take(last, first).then(|| {
                self.give_back(last, first);
                order
            });
        }
        let next = match forced {
            Some(forced) => forced.get(order.len()).copied().into_iter().collect(),
            None => self.next(last, &order),
        };
        for gpu in next {
            if self.take(last, gpu) {
                order.push(gpu);
                let found = self.ring(order.clone(), forced);
                order.pop();
                self.give_back(last, gpu);
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }

    fn way(&self, a: usize, b: usize) -> Option<&NcclPath> {
        self.ways.get(a * self.n + b)?.as_ref()
    }

    /// GPUs that are left, by bandwidth, hops and number.
    fn next(&self, last: usize, order: &[usize]) -> Vec<usize> {
        let mut open: Vec<usize> = (1..self.n).map(|i| (last + i) % self.n).filter(|g| !order.contains(g)).collect();
        let key = |g: &usize| {
            let way = self.way(last, *g);
            // widths are compared as whole numbers
            (std::cmp::Reverse(way.map_or(0, |w| w.width as u64)), way.map_or(usize::MAX, |w| w.hops.len()))
        };
        open.sort_by_key(key);
        open
    }

    /// Takes the speed off the links of a path, if all of them have it.
    fn take(&mut self, a: usize, b: usize) -> bool {
        let Some(needs) = self.needs(a, b) else { return false };
        let enough = needs.iter().all(|(channel, need)| self.left_of(*channel) >= need - ROUNDING);
        if enough {
            for (channel, need) in needs {
                let left = self.left_of(channel) - need;
                self.left.insert(channel, left);
            }
        }
        enough
    }

    fn give_back(&mut self, a: usize, b: usize) {
        for (channel, need) in self.needs(a, b).unwrap_or_default() {
            let left = self.left_of(channel) + need;
            self.left.insert(channel, left);
        }
    }

    fn left_of(&self, channel: (LinkId, NodeId)) -> f64 {
        let whole = || width(self.fabric, self.parts, channel.0).unwrap_or(0.0);
        self.left.get(&channel).copied().unwrap_or_else(whole)
    }

    /// What a path takes of each link; `None` where its kind is not tried yet.
    fn needs(&self, a: usize, b: usize) -> Option<Vec<((LinkId, NodeId), f64)>> {
        let way = self.way(a, b).filter(|way| way.rank <= self.rank)?;
        let need = |hop: &Hop| {
            let over_pcie = matches!(self.fabric.link(hop.link).kind, LinkKind::Pcie { .. });
            let speed = if over_pcie && way.intel { self.speed * INTEL_OVERHEAD } else { self.speed };
            ((hop.link, hop.to), speed)
        };
        // NVSwitch and root complexes have no limit of their own
        Some(way.hops.iter().map(need).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane_machine::fabric::NodeKind;
    use peerlane_read::catalogue::system;

    fn of(name: &str) -> Option<Vec<usize>> {
        let machine = system(name).unwrap().unwrap();
        let gpus: Vec<NodeId> = machine.fabric.of_kind(NodeKind::Gpu).collect();
        nccl_ring(&machine.fabric, Parts::embedded(), &gpus)
    }

    #[test]
    fn rings_as_its_rules_find_them() {
        // 40 on double links only: from GPU0 to the first double link, and round
        assert_eq!(of("dgx-1v"), Some(vec![0, 3, 2, 1, 5, 6, 7, 4]));
        // where one order is as good as another, that of the PCI addresses
        assert_eq!(of("exxact-traditional"), Some(vec![0, 1, 2, 3]));
        assert_eq!(of("h200x4-vm"), Some(vec![0, 1, 2, 3]));
    }
}
