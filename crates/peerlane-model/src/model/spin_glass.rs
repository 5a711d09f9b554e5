//! Half-sweeps of a spin glass (`docs/applications.md`): what memory moves, and what the exchange of boundaries adds.

use super::{Model, PeerAccess, Transfer};
use peerlane_machine::fabric::NodeId;
use peerlane_machine::matrix::{Engine, Operation};
use peerlane_machine::spin_glass::{Exchange, SpinGlass};

/// Share of what copies within a GPU's memory reach that an update reaches: 9.07 ps a place on an H200 whose copies move
/// 4,224 GB/s, read and written together (L = 512, median of six processes, docs/applications.md).
const SHARE: f64 = 0.966;

/// Seconds from the end of one half-sweep to the full pace of the next: from L = 512 to 256 on an H200 the time of a place
/// rises from 9.07 to 9.18 ps.
const GAP: f64 = 1e-6;

/// Bytes of a GPU's share that no cache holds to a notable part; below, less than [`SpinGlass::UPDATE`] moves. The largest L2
/// of a GPU with a known rate is 50 MB.
const BEYOND_CACHES: f64 = 150e6;

/// What a half-sweep is predicted to take, by its parts, in seconds, of the GPU that takes longest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HalfSweep {
    /// Updating all places of a slab.
    pub update: f64,
    /// Updating the boundary planes, which `update` holds too.
    pub boundary: f64,
    /// Exchanging them.
    pub exchange: f64,
    /// All of it.
    pub total: f64,
}

impl Model<'_> {
    /// The time of an update of one place by one GPU, in seconds, where its memory's rate is known.
    pub fn spin_update(&self, gpu: NodeId) -> Option<f64> {
        Some(spin_update(self.memory_rate(gpu)?.bytes_per_second()))
    }

    /// What a half-sweep takes; `None` where a rate is not known, or where caches hold a notable part of the lattice.
    pub fn spin_glass(&self, lattice: &SpinGlass) -> Option<HalfSweep> {
        let n = lattice.gpus.len();
        if lattice.problem().is_some() || lattice.bytes().0 as f64 / (n as f64) < BEYOND_CACHES {
            return None;
        }
        let gpus: Vec<NodeId> =
            lattice.gpus.iter().map(|name| self.machine.fabric.find(name)).collect::<Option<_>>()?;
        let half_plane = f64::from(lattice.side).powi(2) / 2.0;
        let slab = |(i, gpu): (usize, &NodeId)| {
            let (from, to) = lattice.slab(i);
            let each = half_plane * self.spin_update(*gpu)?;
            Some((f64::from(to - from) * each, 2.0 * each))
        };
        let slabs = gpus.iter().enumerate().map(slab).collect::<Option<Vec<(f64, f64)>>>()?;
        let (update, boundary) = slabs.into_iter().reduce(|a, b| (a.0.max(b.0), a.1.max(b.1)))?;
        if n == 1 {
            return Some(HalfSweep { update, boundary: 0.0, exchange: 0.0, total: GAP + update });
        }
        let exchange = self.exchange(lattice, &gpus)?;
        let total = match lattice.overlap {
            true => 2.0 * GAP + boundary + (update - boundary).max(exchange),
            false => GAP + update + exchange,
        };
        Some(HalfSweep { update, boundary, exchange, total })
    }

    /// Every GPU sends a plane to each of its neighbours, all at once.
    fn exchange(&self, lattice: &SpinGlass, gpus: &[NodeId]) -> Option<f64> {
        let n = gpus.len();
        let bytes = lattice.message().0 as f64;
        let neighbours = (0..n).flat_map(|i| [(gpus[i], gpus[(i + 1) % n]), (gpus[i], gpus[(i + n - 1) % n])]);
        let engine = if lattice.exchange == Exchange::Stores { Engine::Sm } else { Engine::Ce };
        let moved = |source, destination| Transfer {
            source,
            destination,
            engine,
            op: Operation::Write,
            peer: PeerAccess::Enabled,
        };
        if lattice.exchange != Exchange::Staged {
            let sends: Vec<Transfer> = neighbours.map(|(a, b)| moved(a, b)).collect();
            if sends.iter().any(|send| self.route(send).map_or(true, |route| route.staged)) {
                return None;
            }
            // with one neighbour both planes go the same way, one behind the other
            return self.slowest(&sends, bytes, lattice.exchange == Exchange::Copies);
        }
        let host = |gpu| self.machine.fabric.nearest_host(gpu);
        let down: Vec<Transfer> = neighbours.clone().map(|(a, _)| Some(moved(a, host(a)?))).collect::<Option<_>>()?;
        let up: Vec<Transfer> = neighbours.map(|(a, b)| Some(moved(host(a)?, b))).collect::<Option<_>>()?;
        Some(self.slowest(&down, bytes, true)? + self.slowest(&up, bytes, true)?)
    }

    /// Seconds until the last of some messages is there, with their start-ups where copy engines move them.
    fn slowest(&self, transfers: &[Transfer], bytes: f64, started: bool) -> Option<f64> {
        let rates = self.rates(transfers).ok()?;
        let times = transfers.iter().zip(rates).map(|(transfer, rate)| {
            let startup = if started { self.startup(transfer)?.least.seconds() } else { 0.0 };
            Some(startup + bytes / rate)
        });
        times.collect::<Option<Vec<f64>>>().map(|times| times.into_iter().fold(0.0, f64::max))
    }
}

/// The time of an update where a GPU's memory moves so many bytes a second under copies.
pub fn spin_update(memory_rate: f64) -> f64 {
    SpinGlass::UPDATE as f64 / (SHARE * memory_rate)
}
