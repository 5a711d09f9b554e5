//! Half-sweeps of a spin glass (`docs/applications.md`): what memory moves, and what the exchange of boundaries adds.

use super::Model;
use super::exchange::ExchangeTime;
use peerlane_machine::fabric::NodeId;
use peerlane_machine::spin_glass::SpinGlass;

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
        if lattice.problem().is_some() || !is_beyond_caches(lattice) {
            return None;
        }
        let gpus: Vec<NodeId> =
            lattice.gpus.iter().map(|name| self.machine.fabric.find(name)).collect::<Option<_>>()?;
        let slowest = gpus.iter().map(|gpu| self.spin_update(*gpu)).reduce(|a, b| Some(a?.max(b?)))??;
        let exchange = match gpus.len() {
            1 => None,
            _ => Some(self.exchange_time(&around(&gpus), lattice.exchange)?),
        };
        Some(HalfSweep::of(lattice, slowest, exchange.as_ref()))
    }
}

/// Each GPU and its neighbours, the last and the first being such: with one neighbour both planes go the same way.
pub(super) fn around(gpus: &[NodeId]) -> Vec<(NodeId, NodeId)> {
    let n = gpus.len();
    (0..n).flat_map(|i| [(gpus[i], gpus[(i + 1) % n]), (gpus[i], gpus[(i + n - 1) % n])]).collect()
}

/// Whether memory binds the lattice, and not caches.
pub(super) fn is_beyond_caches(lattice: &SpinGlass) -> bool {
    lattice.bytes().0 as f64 / lattice.gpus.len() as f64 >= BEYOND_CACHES
}

impl HalfSweep {
    /// Of a lattice whose slowest GPU takes so many seconds to update a place; without an exchange where one GPU has it whole.
    pub(super) fn of(lattice: &SpinGlass, place: f64, exchange: Option<&ExchangeTime>) -> Self {
        let half_plane = f64::from(lattice.side).powi(2) / 2.0 * place;
        let planes = (0..lattice.gpus.len()).map(|i| lattice.slab(i)).map(|(from, to)| to - from).max().unwrap_or(0);
        let (update, boundary) = (f64::from(planes) * half_plane, 2.0 * half_plane);
        let Some(exchange) = exchange else {
            return HalfSweep { update, boundary: 0.0, exchange: 0.0, total: GAP + update };
        };
        let exchange = exchange.seconds(lattice.message().0 as f64);
        let total = match lattice.overlap {
            true => 2.0 * GAP + boundary + (update - boundary).max(exchange),
            false => GAP + update + exchange,
        };
        HalfSweep { update, boundary, exchange, total }
    }

    /// Whether an overlapped exchange is over before the rest is updated.
    pub(super) fn hides(&self) -> bool {
        self.exchange <= self.update - self.boundary
    }
}

/// The time of an update where a GPU's memory moves so many bytes a second under copies.
pub fn spin_update(memory_rate: f64) -> f64 {
    SpinGlass::UPDATE as f64 / (SHARE * memory_rate)
}
