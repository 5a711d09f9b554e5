//! Which NIC each GPU of a job should use.

use std::cell::RefCell;
use std::collections::HashMap;

use super::{ROUNDING, sorted};
use peerlane_machine::fabric::{NodeId, NodeKind};
use peerlane_machine::fact::{Fact, RdmaPort};
use peerlane_machine::machine::Machine;
use peerlane_model::flows::{Flows, Pair};

/// So many assignments of one set of GPUs are all tried; of more, a good one is improved.
const MOST_TRIED: usize = 64;

/// So many sets of NICs are looked at.
const MOST_SETS: usize = 128;

/// A NIC below this share of the fastest that a GPU reaches is left to others, however near it is: a port for management.
const SLOW: f64 = 0.5;

/// The NICs of a machine that read and write GPU memory: those that are up, and of one link layer, since a queue pair connects
/// InfiniBand with InfiniBand and RoCE with RoCE only. Of two layers, the one whose NICs are nearer to the GPUs, then the one
/// with more of them.
pub(super) fn candidates(machine: &Machine) -> Vec<NodeId> {
    let fabric = &machine.fabric;
    let mut all: Vec<NodeId> = fabric.of_kind(NodeKind::Nic).filter(|n| fabric.node(*n).rdma != Some(false)).collect();
    let ports = Ports::of(machine);
    if all.iter().any(|nic| ports.is_up(*nic) == Some(true)) {
        all.retain(|nic| ports.is_up(*nic) != Some(false));
    }
    let of_layer = |layer: &str| -> Vec<NodeId> {
        all.iter().copied().filter(|nic| ports.layer(*nic).is_none_or(|known| known == layer)).collect()
    };
    let mut layers: Vec<&str> = all.iter().filter_map(|nic| ports.layer(*nic)).collect();
    layers.sort_unstable();
    layers.dedup();
    let score = |nics: &Vec<NodeId>| {
        let near = |gpu| nics.iter().filter_map(|nic| fabric.class(gpu, *nic)).min();
        let mut classes: Vec<_> = fabric.of_kind(NodeKind::Gpu).map(|gpu| (near(gpu).is_none(), near(gpu))).collect();
        // the GPU that is farthest decides first
        classes.sort_unstable_by(|a, b| b.cmp(a));
        (classes, std::cmp::Reverse(nics.len()))
    };
    match layers.as_slice() {
        [] | [_] => all,
        several => several.iter().map(|layer| of_layer(layer)).min_by_key(score).unwrap_or_default(),
    }
}

/// What `ibstat` and its like report of the ports of NICs.
struct Ports<'m>(HashMap<NodeId, Vec<&'m RdmaPort>>);

impl<'m> Ports<'m> {
    fn of(machine: &'m Machine) -> Self {
        let mut ports: HashMap<NodeId, Vec<&RdmaPort>> = HashMap::new();
        for one in &machine.evidence {
            let Fact::RdmaPorts(listed) = &one.fact else { continue };
            for port in listed {
                if let Some(nic) = machine.fabric.find(&port.device) {
                    ports.entry(nic).or_default().push(port);
                }
            }
        }
        Ports(ports)
    }

    /// Whether one of its ports is active; `None` where no source states it.
    fn is_up(&self, nic: NodeId) -> Option<bool> {
        let mut states = self.0.get(&nic)?.iter().filter_map(|port| port.state.as_deref()).peekable();
        states.peek()?;
        Some(states.any(|state| state == "active"))
    }

    fn layer(&self, nic: NodeId) -> Option<&'m str> {
        self.0.get(&nic)?.iter().find_map(|port| port.layer.as_deref())
    }
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

    /// For each GPU the NIC of the nearest class; of those the fastest, and of equals that of the fewest.
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

    /// Each GPU to the NIC of the nearest class, but for slow ones; of those to the fastest, and of equals to that of the fewest.
    fn nearest(&self, gpus: &[usize], set: &[usize]) -> Assigned {
        let fabric = &self.flows.model.machine.fabric;
        let class = |gpu: usize, nic: usize| fabric.class(self.flows.ends[gpu], self.flows.ends[nic]);
        let mut nics: Vec<Option<usize>> = Vec::new();
        for gpu in gpus {
            let fastest = |set: &[usize]| set.iter().map(|nic| self.alone(*gpu, *nic)).fold(0.0, f64::max);
            let most = fastest(set);
            let usable = set.iter().copied().filter(|nic| most > 0.0 && self.alone(*gpu, *nic) >= most * SLOW);
            let usable: Vec<usize> = usable.collect();
            let nearest = usable.iter().filter_map(|nic| class(*gpu, *nic)).min();
            let near: Vec<usize> = usable.into_iter().filter(|nic| class(*gpu, *nic) == nearest).collect();
            let most = fastest(&near);
            let fast = near.iter().filter(|nic| self.alone(*gpu, **nic) >= most * (1.0 - ROUNDING));
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
