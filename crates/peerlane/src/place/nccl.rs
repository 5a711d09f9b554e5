//! The first ring that NCCL's search would find, for comparison.
//!
//! Published facts (github.com/NVIDIA/nccl, `src/graph/search.cc` and `topo.h` at 01afd20a; the speeds of v2.18 on). A
//! ring must have a speed left on every link of every path, each way by itself; speeds are tried from the fastest of a
//! list on, at each of them paths up to NVLink only, then up to PIX, PXB, PHB and SYS; for each of these the order of PCI
//! addresses first, then from every GPU depth first, next GPUs by bandwidth, hops and number. Links count lanes × speed ÷ 80
//! over PCIe (12 for 3.0 x16), 18 to 40.1 a brick of NVLink, and by CPU between sockets; x86 CPUs of Intel take a sixth
//! off what goes through one root complex. Further channels, paths over a third GPU, tuning and plugins are left out.

use std::collections::HashMap;

use crate::catalogue::{Parts, vendor_of};
use crate::fabric::{CpuVendor, Fabric, GpuLink, Hop, Interconnect, LinkId, LinkKind, NodeId, PathClass};
use crate::model::nccl_smp_rate;

/// Speeds that are tried, in GB/s: until sm80, and from sm90 on.
const SPEEDS: [&[f64]; 2] = [
    &[40.0, 30.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0],
    &[60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 15.0, 12.0, 11.0, 6.0, 3.0],
];

/// Steps that one search may take (`NCCL_SEARCH_TIMEOUT`).
const MOST_STEPS: usize = 1 << 14;

/// NCCL subtracts in thousandths.
const ROUNDING: f64 = 1e-3;

/// What Intel's root complexes cost (`INTEL_P2P_OVERHEAD`).
const INTEL_OVERHEAD: f64 = 6.0 / 5.0;

/// A way between two GPUs as NCCL sees it.
struct Way {
    hops: Vec<Hop>,
    /// GB/s of the slowest hop.
    width: f64,
    /// NVLink, PIX, PXB, PHB, SYS.
    rank: u8,
    /// Whether an Intel root complex is passed.
    intel: bool,
}

/// The order of the first ring; `None` where NCCL would know no width of a link, or finds none.
pub(super) fn ring(fabric: &Fabric, parts: &Parts, gpus: &[NodeId]) -> Option<Vec<usize>> {
    let n = gpus.len();
    if n < 2 {
        return None;
    }
    let mut ways = Vec::with_capacity(n * n);
    for (a, b) in gpus.iter().flat_map(|a| gpus.iter().map(move |b| (*a, *b))) {
        ways.push(if a == b { None } else { Some(way(fabric, parts, a, b)?) });
    }
    let most = ways.iter().flatten().map(|way| way.width).fold(0.0, f64::max);
    let speeds = SPEEDS[usize::from(has_nvlink_4(fabric, gpus))];
    for speed in speeds.iter().copied().filter(|speed| *speed <= most) {
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

fn has_nvlink_4(fabric: &Fabric, gpus: &[NodeId]) -> bool {
    let links = gpus.iter().flat_map(|gpu| fabric.links_of(*gpu));
    links
        .into_iter()
        .any(|(link, _)| fabric.link(*link).kind.bundle(Interconnect::Nvlink).is_some_and(|l| l.generation >= Some(4)))
}

fn way(fabric: &Fabric, parts: &Parts, a: NodeId, b: NodeId) -> Option<Way> {
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
    Some(Way { width: width.into_iter().fold(f64::INFINITY, f64::min), hops: path.hops, rank, intel })
}

/// A link's bandwidth as NCCL counts it, in GB/s; `None` where it is not known, or no NVIDIA GPU has such.
fn width(fabric: &Fabric, parts: &Parts, link: LinkId) -> Option<f64> {
    let link = fabric.link(link);
    match &link.kind {
        LinkKind::Pcie { running, .. } => {
            let (generation, lanes) = (running.generation?, running.lanes?);
            Some(0.75 * f64::from(lanes) * f64::powi(2.0, i32::from(generation.number()) - 3))
        }
        LinkKind::Gpu(GpuLink { interconnect: Interconnect::Nvlink, generation, links, .. }) => {
            let brick = match generation {
                Some(1) => 18.0,
                Some(4) => 20.6,
                Some(5..) => 40.1,
                _ => 20.0,
            };
            Some(brick * f64::from((*links)?))
        }
        LinkKind::Smp => Some(nccl_smp_rate(fabric, parts, link.a).0),
        LinkKind::OnDie | LinkKind::OnCard => Some(f64::INFINITY),
        LinkKind::Gpu(_) => None,
    }
}

struct Search<'s> {
    fabric: &'s Fabric,
    parts: &'s Parts,
    ways: &'s [Option<Way>],
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

    fn way(&self, a: usize, b: usize) -> Option<&Way> {
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
    use crate::catalogue::system;
    use crate::fabric::NodeKind;

    fn of(name: &str) -> Option<Vec<usize>> {
        let machine = system(name).unwrap().unwrap();
        let gpus: Vec<NodeId> = machine.fabric.of_kind(NodeKind::Gpu).collect();
        ring(&machine.fabric, Parts::embedded(), &gpus)
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
