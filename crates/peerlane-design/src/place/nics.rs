//! Which NIC each GPU of a job should use.

use std::cell::RefCell;
use std::collections::HashMap;

use super::search::{ROUNDING, sorted};
use peerlane_machine::fabric::{Fabric, NodeId, NodeKind};
use peerlane_model::flows::{Flows, Pair};

/// So many assignments of one set of GPUs are all tried; of more, a good one is improved.
const MOST_TRIED: usize = 64;

/// So many sets of NICs are looked at.
const MOST_SETS: usize = 128;

/// The NICs of a machine that read and write GPU memory.
pub(super) fn candidates(fabric: &Fabric) -> Vec<NodeId> {
    fabric.of_kind(NodeKind::Nic).filter(|n| fabric.node(*n).rdma != Some(false)).collect()
}

/// A NIC for each GPU.
#[derive(Clone, Debug, Default)]
pub(super) struct Assigned {
    /// In the order of the GPUs, the end that is its NIC; `None` where no NIC reaches it at a known rate.
    pub nics: Vec<Option<usize>>,
    /// What all get while each sends and receives at once, summed, in bytes a second.
    pub rate: f64,
}

/// NICs to choose from.
pub(super) struct Nics<'f, 'm, 'a> {
    flows: &'f Flows<'m, 'a>,
    /// The ends that are NICs.
    ends: Vec<usize>,
    /// How many may be used.
    wanted: usize,
    /// What a GPU and a NIC reach both ways, alone.
    alone: HashMap<Pair, f64>,
    known: RefCell<HashMap<Vec<usize>, Assigned>>,
}

impl<'f, 'm, 'a> Nics<'f, 'm, 'a> {
    /// At most `wanted` of the NICs among the ends.
    pub(super) fn new(flows: &'f Flows<'m, 'a>, ends: Vec<usize>, wanted: usize) -> Self {
        let mut alone = HashMap::new();
        for gpu in 0..flows.gpus() {
            for nic in ends.iter().copied() {
                let both = [(gpu, nic), (nic, gpu)];
                if let Some(rates) = flows.rates(&both) {
                    alone.insert((gpu, nic), rates.iter().sum());
                }
            }
        }
        let wanted = wanted.clamp(1, ends.len().max(1));
        Nics { flows, ends, wanted, alone, known: RefCell::new(HashMap::new()) }
    }

    /// The ends that are NICs.
    pub(super) fn ends(&self) -> &[usize] {
        &self.ends
    }

    /// What a GPU and a NIC reach both ways, alone, in bytes a second.
    fn alone(&self, gpu: usize, nic: usize) -> f64 {
        self.alone.get(&(gpu, nic)).copied().unwrap_or(0.0)
    }

    /// No so many GPUs get more.
    pub(super) fn most(&self, gpus: usize) -> f64 {
        gpus as f64 * self.alone.values().copied().fold(0.0, f64::max)
    }

    /// The best NICs found for these GPUs.
    pub(super) fn assign(&self, order: &[usize]) -> Assigned {
        let set = sorted(order);
        let found = self.known.borrow().get(&set).cloned();
        let found = found.unwrap_or_else(|| {
            let assigned = self.best(&set);
            self.known.borrow_mut().insert(set.clone(), assigned.clone());
            assigned
        });
        let of = |gpu: &usize| set.binary_search(gpu).ok().and_then(|at| found.nics.get(at).copied().flatten());
        Assigned { nics: order.iter().map(of).collect(), rate: found.rate }
    }

    /// For each GPU the NIC that it reaches fastest; of equals, that of the fewest.
    pub(super) fn nearest_of(&self, gpus: &[usize]) -> Assigned {
        self.nearest(gpus, &self.ends)
    }

    fn best(&self, gpus: &[usize]) -> Assigned {
        let mut best = Assigned { nics: vec![None; gpus.len()], rate: 0.0 };
        let ways = self.wanted.checked_pow(gpus.len() as u32).unwrap_or(usize::MAX);
        let sets = subsets(&self.ends, self.wanted);
        let all = ways.saturating_mul(sets.len()) <= MOST_TRIED;
        for set in &sets {
            let found = if all { self.tried(gpus, set, ways) } else { self.improved(gpus, set) };
            if found.rate > best.rate * (1.0 + ROUNDING) {
                best = found;
            }
        }
        best
    }

    /// Every assignment of these NICs.
    fn tried(&self, gpus: &[usize], set: &[usize], ways: usize) -> Assigned {
        let mut best = self.nearest(gpus, set);
        for way in 0..ways {
            let digit = |at: usize| way / set.len().pow(at as u32) % set.len();
            let nics: Vec<Option<usize>> = (0..gpus.len()).map(|at| Some(set[digit(at)])).collect();
            let rate = self.rate(gpus, &nics);
            if rate > best.rate * (1.0 + ROUNDING) {
                best = Assigned { nics, rate };
            }
        }
        best
    }

    /// Each GPU to the NIC that it reaches fastest; of equals, to that of the fewest.
    fn nearest(&self, gpus: &[usize], set: &[usize]) -> Assigned {
        let mut nics: Vec<Option<usize>> = Vec::new();
        for gpu in gpus {
            let most = set.iter().map(|nic| self.alone(*gpu, *nic)).fold(0.0, f64::max);
            let fast = set.iter().filter(|nic| most > 0.0 && self.alone(*gpu, **nic) >= most * (1.0 - ROUNDING));
            nics.push(fast.min_by_key(|nic| nics.iter().filter(|n| **n == Some(**nic)).count()).copied());
        }
        let rate = self.rate(gpus, &nics);
        Assigned { nics, rate }
    }

    /// The nearest, with single GPUs moved as long as that helps.
    fn improved(&self, gpus: &[usize], set: &[usize]) -> Assigned {
        let mut best = self.nearest(gpus, set);
        let nearest: f64 = best.nics.iter().zip(gpus).map(|(nic, g)| nic.map_or(0.0, |nic| self.alone(*g, nic))).sum();
        'improving: while best.rate < nearest * (1.0 - ROUNDING) {
            for (at, nic) in (0..gpus.len()).flat_map(|at| set.iter().map(move |nic| (at, *nic))) {
                let mut nics = best.nics.clone();
                if nics[at].is_none_or(|before| before == nic) {
                    continue;
                }
                nics[at] = Some(nic);
                let rate = self.rate(gpus, &nics);
                if rate > best.rate * (1.0 + ROUNDING) {
                    best = Assigned { nics, rate };
                    continue 'improving;
                }
            }
            break;
        }
        best
    }

    /// What these GPUs get through these NICs while each sends and receives, summed, in bytes a second.
    pub(super) fn rate(&self, gpus: &[usize], nics: &[Option<usize>]) -> f64 {
        let both = |(gpu, nic): (&usize, &Option<usize>)| nic.map(|nic| [(*gpu, nic), (nic, *gpu)]);
        let set: Vec<Pair> = gpus.iter().zip(nics).filter_map(both).flatten().collect();
        self.flows.rates(&set).map_or(0.0, |rates| rates.iter().sum())
    }
}

/// Every choice of so many; the first ones where there are too many.
fn subsets(of: &[usize], take: usize) -> Vec<Vec<usize>> {
    let mut all: Vec<Vec<usize>> = Vec::new();
    let mut open: Vec<(usize, Vec<usize>)> = vec![(0, Vec::new())];
    while let Some((from, chosen)) = open.pop() {
        if chosen.len() == take {
            all.push(chosen);
            if all.len() == MOST_SETS {
                break;
            }
            continue;
        }
        for at in (from..of.len()).rev() {
            open.push((at + 1, [chosen.as_slice(), &[of[at]]].concat()));
        }
    }
    all
}
