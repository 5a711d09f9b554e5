//! Sets of transfers that start by themselves and share scarce resources: solved, and each kind of set once.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher};

use super::SimulateError;
use super::flows::Flows;
use crate::solve::incremental::Hold;

/// A transfer of a set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shared {
    /// Until the first byte, in seconds.
    pub start: f64,
    pub bytes: f64,
    /// Rate by itself.
    pub lone: f64,
    /// Whether each of its repetitions waits for the one before.
    pub waits: bool,
}

/// A set in numbers of its own.
#[derive(Debug, Default)]
pub(super) struct Described {
    /// Transfers, and where the uses of each end in `routes`.
    pub transfers: Vec<(Shared, u32)>,
    /// `(resource of the set, consumption per byte)`.
    pub routes: Vec<(u32, f64)>,
    /// By resource of the set: what it carries.
    pub capacities: Vec<f64>,
    /// By resource of the set: its kind.
    pub kinds: Vec<u32>,
}

/// How a set goes.
#[derive(Debug)]
pub(super) struct Solved {
    /// When each transfer ends.
    pub ends: Vec<f64>,
    /// By what kind of resource each is held then; `None` where by what holds it by itself.
    pub held: Vec<Option<u32>>,
    /// The most that one takes with its least part of each resource, which it has when all others are under way.
    pub longest_least: f64,
    /// When the first ends.
    pub first: f64,
    /// Whether all end at one moment, and each repetition of each waits for the one before.
    pub together: bool,
}

impl Described {
    fn route(&self, transfer: usize) -> &[(u32, f64)] {
        let from = if transfer == 0 { 0 } else { self.transfers[transfer - 1].1 };
        &self.routes[from as usize..self.transfers[transfer].1 as usize]
    }

    /// All that decides how it goes, bit by bit.
    fn words(&self) -> impl Iterator<Item = u64> {
        let transfers = self.transfers.iter().flat_map(|(t, end)| {
            let marks = u64::from(*end) << 1 | u64::from(t.waits);
            [t.start.to_bits(), t.bytes.to_bits(), t.lone.to_bits(), marks]
        });
        let routes = self.routes.iter().flat_map(|(r, per_byte)| [u64::from(*r), per_byte.to_bits()]);
        let resources = self.capacities.iter().zip(&self.kinds).flat_map(|(c, k)| [c.to_bits(), u64::from(*k)]);
        transfers.chain(routes).chain(resources)
    }

    fn sizes(&self) -> [usize; 3] {
        [self.transfers.len(), self.routes.len(), self.capacities.len()]
    }

    fn same(&self, other: &Described) -> bool {
        self.sizes() == other.sizes() && self.words().eq(other.words())
    }

    /// Plays it.
    pub(super) fn solve(&self) -> Result<Solved, SimulateError> {
        let network = |e: crate::solve::ShareError| SimulateError::Network(e.to_string());
        let n = self.transfers.len();
        let mut flows = Flows::new(&self.capacities).map_err(network)?;
        let mut classes = Vec::with_capacity(n);
        for (i, (transfer, _)) in self.transfers.iter().enumerate() {
            classes.push(flows.class(self.route(i), 1.0, transfer.lone).map_err(network)?);
        }
        let start = |i: u32| self.transfers[i as usize].0.start;
        let mut order: Vec<u32> = (0..n as u32).collect();
        order.sort_by(|a, b| start(*a).total_cmp(&start(*b)));
        let (mut ends, mut held) = (vec![0.0; n], vec![None; n]);
        let (mut next, mut ended) = (0, Vec::new());
        loop {
            let begins = order.get(next).map(|i| start(*i));
            let Some(now) = flows.next_end().into_iter().chain(begins).reduce(f64::min) else { break };
            ended.clear();
            flows.advance(now, &mut ended);
            for &i in &ended {
                ends[i as usize] = now;
                if let Hold::Link(link) = flows.solver().hold(classes[i as usize]) {
                    held[i as usize] = Some(self.kinds[link as usize]);
                }
            }
            while let Some(&i) = order.get(next).filter(|i| start(**i) <= now) {
                flows.start(classes[i as usize], self.transfers[i as usize].0.bytes, i);
                next += 1;
            }
        }
        if flows.active() > 0 {
            return Err(SimulateError::Stalled(flows.active()));
        }
        let last = ends.iter().copied().fold(0.0_f64, f64::max);
        let first = ends.iter().copied().fold(f64::INFINITY, f64::min);
        let waits = self.transfers.iter().all(|(t, _)| t.waits);
        let together = waits && first >= last * (1.0 - super::counted::TOGETHER);
        Ok(Solved { ends, held, longest_least: self.longest_least(), first, together })
    }

    fn longest_least(&self) -> f64 {
        let mut weight = vec![0.0; self.capacities.len()];
        self.routes.iter().for_each(|(r, per_byte)| weight[*r as usize] += per_byte);
        let takes = |(i, (transfer, _)): (usize, &(Shared, u32))| {
            let parts = self.route(i).iter().map(|(r, _)| self.capacities[*r as usize] / weight[*r as usize]);
            transfer.start + transfer.bytes / parts.fold(transfer.lone, f64::min)
        };
        self.transfers.iter().enumerate().map(takes).fold(0.0, f64::max)
    }
}

/// Sets that were solved.
#[derive(Default)]
pub(super) struct Known {
    sets: Vec<(Described, Solved)>,
    by_hash: HashMap<u64, Vec<u32>>,
    hasher: std::hash::BuildHasherDefault<Mix>,
}

impl Known {
    /// How a set goes: as one that is the same, or as `solve` says.
    pub(super) fn find(
        &mut self,
        set: Described,
        solve: impl Fn(&Described) -> Result<Solved, SimulateError>,
    ) -> Result<&Solved, SimulateError> {
        let mut hasher = self.hasher.build_hasher();
        set.words().for_each(|word| word.hash(&mut hasher));
        let alike = self.by_hash.entry(hasher.finish()).or_default();
        let known = alike.iter().copied().find(|k| self.sets[*k as usize].0.same(&set));
        let at = match known {
            Some(at) => at as usize,
            None => {
                let solved = solve(&set)?;
                alike.push(self.sets.len() as u32);
                self.sets.push((set, solved));
                self.sets.len() - 1
            }
        };
        Ok(&self.sets[at].1)
    }
}

/// A fast hash of words: sets with the same one are compared, so that it decides nothing but the time that takes (steps of
/// SplitMix64; Steele et al., 2014).
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.write_u64(u64::from(*b)));
    }

    fn write_u64(&mut self, word: u64) {
        let x = (self.0 ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        self.0 = (x ^ (x >> 29)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    }
}
