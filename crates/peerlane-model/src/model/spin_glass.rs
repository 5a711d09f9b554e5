//! Half-sweeps of a spin glass (`docs/applications.md`): what memory moves, and what the exchange of boundaries adds.

mod advice;

pub use advice::{SideAdvice, SpinGlassAdvice, spin_glass_advice};

use super::Model;
use super::exchange::ExchangeTime;
use peerlane_machine::exchange::Exchange;
use peerlane_machine::fabric::NodeId;
use peerlane_machine::spin_glass::SpinGlass;

/// Share of what copies within a GPU's memory reach that an update reaches: 9.01 ps a place on an H200 whose copies move
/// 4,218 GB/s, read and written together (L = 512, docs/applications.md).
const SHARE: f64 = 0.973;

/// Seconds from one launch to the next beside what its places take: a half-sweep of 3.55 µs at L = 64 and of 8.57 µs at L = 128,
/// on an H200.
const LAUNCH: f64 = 2.9e-6;

/// Share of the time of a place where a GPU's part is in its L2: 5.4 ps instead of 9.0 (the same two lattices).
const CACHED: f64 = 0.6;

/// Bytes of a GPU's part that its L2 holds, and that it holds no notable part of: H100 and H200 have 50 MB or more. Parts of 54.5 MB, a
/// quarter of L = 256, take 0.95 of the time of a place that comes from memory (`captures/h200x4-vm-parts/applications.json`).
const L2: (f64, f64) = (40e6, 57e6);

/// From this memory rate on, in bytes a second, GPUs have such an L2: H100, H200 and later; an A100 has 40 MB and 2.0e12.
const LARGE_L2: f64 = 2.5e12;

/// Bytes of a GPU's part that no cache of another GPU holds to a notable part.
const BEYOND_CACHES: f64 = 150e6;

/// What a half-sweep takes beyond its update and its exchange where these do not overlap: streams wait for words on both sides of
/// the kernel. As [`super::exchange`]'s figures, from the totals.
fn streams(method: Exchange) -> f64 {
    match method {
        Exchange::Stores => 8.0e-6,
        Exchange::Copies => 7.5e-6,
        Exchange::Staged => 16.5e-6,
    }
}

/// Faces of a slab, which the figures above are of.
const FACES: usize = 2;

/// Faces that a GPU was measured with.
const MEASURED: usize = 4;

/// Seconds that the exchange takes longer for each further face: four H200 as 1x2x2 less the same as slabs, which send as many bytes,
/// L = 256 and 512 (`captures/h200x4-vm-parts/applications.json`). Overlapped, each face has a stream that waits for its words;
/// else one stream does all, one face after the other.
fn further_face(method: Exchange, overlap: bool) -> f64 {
    match (method, overlap) {
        (Exchange::Stores, true) => 1.4e-6,
        (Exchange::Stores, false) => 2.6e-6,
        (Exchange::Copies, true) => 14.8e-6,
        (Exchange::Copies, false) => 5.8e-6,
        (Exchange::Staged, true) => 12e-6,
        (Exchange::Staged, false) => 14e-6,
    }
}

/// How many times as long a place takes in blocks, whose kernel is not that of slabs: two H200 that cut a lattice along Y or X take 5.0 ps
/// an update at L = 512, one kind of work after the other, and along Z 4.79 (`captures/h200x2-vm-runs/spin-glass-blocks.json`).
const IN_BLOCKS: f64 = 1.05;

/// Places of one colour that a thread updates.
const QUAD: f64 = 4.0;

/// How many times as long the places at the ends of rows take, where they are updated before the rest, each row's in other lines of
/// memory than the next one's: 47 and 229 µs both faces along X at L = 256 and 512 (the same record). The rest is not faster for it.
const APART: f64 = 10.6;

/// Where update and exchange take about as long, each delays the other: the whole takes as long as the sum of their powers
/// with this exponent says.
const ALIKE: f64 = 3.0;

/// What a half-sweep is predicted to take, by its parts, in seconds, of the GPU that takes longest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HalfSweep {
    /// Updating all places of a slab, in one launch.
    pub update: f64,
    /// Updating the boundary planes alone, in one launch.
    pub boundary: f64,
    /// Exchanging them, until the neighbours know.
    pub exchange: f64,
    /// All of it.
    pub total: f64,
    /// All of it, where the host memory that faces go through gives several GPUs the least that it may.
    pub most: f64,
}

/// How fast a GPU updates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Seconds of a place that comes from memory.
    pub place: f64,
    /// Whether the GPU has an L2 that makes small parts faster by a known share.
    pub large_l2: bool,
}

impl Pace {
    /// Where a GPU's memory moves so many bytes a second under copies.
    pub fn of(memory_rate: f64) -> Self {
        Pace { place: spin_update(memory_rate), large_l2: memory_rate >= LARGE_L2 }
    }

    /// Seconds of a place of a part of so many bytes; `None` where caches make it faster by what is not known.
    fn within(self, bytes: f64) -> Option<f64> {
        if !self.large_l2 {
            return (bytes >= BEYOND_CACHES).then_some(self.place);
        }
        let beyond = ((bytes - L2.0) / (L2.1 - L2.0)).clamp(0.0, 1.0);
        Some(self.place * (CACHED + (1.0 - CACHED) * beyond))
    }

    fn slower(self, other: Pace) -> Pace {
        Pace { place: self.place.max(other.place), large_l2: self.large_l2 && other.large_l2 }
    }
}

impl Model<'_> {
    /// How fast one GPU updates, where its memory's rate is known.
    pub fn spin_pace(&self, gpu: NodeId) -> Option<Pace> {
        Some(Pace::of(self.memory_rate(gpu)?.bytes_per_second()))
    }

    /// The pace of the slowest of these GPUs.
    pub(super) fn slowest_pace(&self, gpus: &[NodeId]) -> Option<Pace> {
        gpus.iter().map(|gpu| self.spin_pace(*gpu)).reduce(|a, b| Some(a?.slower(b?)))?
    }

    /// What a half-sweep takes; `None` where a rate is not known, or what caches do.
    pub fn spin_glass(&self, lattice: &SpinGlass) -> Option<HalfSweep> {
        let gpus = self.named(&lattice.gpus)?;
        self.spin_glass_at(lattice, self.slowest_pace(&gpus)?)
    }

    /// The same of GPUs of a given pace.
    pub fn spin_glass_at(&self, lattice: &SpinGlass, pace: Pace) -> Option<HalfSweep> {
        if lattice.problem().is_some() {
            return None;
        }
        let gpus = self.named(&lattice.gpus)?;
        let exchange = match gpus.len() {
            1 => None,
            _ => {
                let sends = lattice.grid().sends().map(|sent| (gpus[sent.from], gpus[sent.to])).collect::<Vec<_>>();
                Some(self.exchange_time(&sends, lattice.exchange)?)
            }
        };
        HalfSweep::of(lattice, pace, exchange.as_ref())
    }
}

/// Each GPU and its neighbours, the last and the first being such: with one neighbour both planes go the same way.
pub(super) fn around(gpus: &[NodeId]) -> Vec<(NodeId, NodeId)> {
    let n = gpus.len();
    (0..n).flat_map(|i| [(gpus[i], gpus[(i + 1) % n]), (gpus[i], gpus[(i + n - 1) % n])]).collect()
}

/// Bytes of each GPU's part.
fn part(lattice: &SpinGlass) -> f64 {
    lattice.bytes().0 as f64 / lattice.gpus.len().max(1) as f64
}

/// How many faces each GPU sends.
fn faces(lattice: &SpinGlass) -> usize {
    2 * lattice.messages().len()
}

/// Whether memory binds the lattice, and not caches.
pub(super) fn is_beyond_caches(lattice: &SpinGlass) -> bool {
    part(lattice) >= BEYOND_CACHES
}

impl HalfSweep {
    /// Of a lattice whose slowest GPU has this pace; without an exchange where one GPU has it whole.
    pub(super) fn of(lattice: &SpinGlass, pace: Pace, exchange: Option<&ExchangeTime>) -> Option<Self> {
        let place = pace.within(part(lattice))?;
        let extents = (0..lattice.gpus.len()).map(|i| lattice.part(i)[1]);
        let size = |extents: &[u32; 3]| extents.iter().map(|n| f64::from(*n)).product::<f64>();
        let largest = extents.max_by(|a, b| size(a).total_cmp(&size(b)))?;
        let cut = lattice.parts().map(|parts| parts > 1);
        // of one colour, of both faces along an axis
        let area = |axis: usize| size(&largest) / f64::from(largest[axis]);
        let surface = |axis: usize| if cut[axis] { area(axis) } else { 0.0 };
        let ends = surface(0) * 2.0 * QUAD * APART;
        let first = if lattice.overlap { ends } else { 0.0 };
        let slower = if lattice.blocks.is_some() { IN_BLOCKS } else { 1.0 };
        let update = LAUNCH + (size(&largest) / 2.0 * slower + first) * place;
        let Some(exchange) = exchange else {
            return Some(HalfSweep { update, boundary: 0.0, exchange: 0.0, total: update, most: update });
        };
        let boundary = LAUNCH + (surface(1) + surface(2) + ends) * place;
        // of faces that differ the mean: together they take what their bytes take
        let messages = lattice.messages();
        let bytes: f64 = messages.iter().map(|message| message.0 as f64).sum();
        let mean = bytes / messages.len().max(1) as f64;
        let further = further_face(lattice.exchange, lattice.overlap) * (faces(lattice).saturating_sub(FACES)) as f64;
        let total = |exchange: f64| match lattice.overlap {
            true => (update.powf(ALIKE) + (LAUNCH + exchange).powf(ALIKE)).powf(1.0 / ALIKE),
            false => update + exchange + streams(lattice.exchange),
        };
        let told = exchange.words() + further;
        let [usual, most] = [exchange.seconds(mean), exchange.seconds_at_most(mean)].map(|moved| told + moved);
        Some(HalfSweep { update, boundary, exchange: usual, total: total(usual), most: total(most) })
    }

    /// Whether GPUs with so many faces were measured; what others take is extrapolated.
    pub fn is_confirmed(lattice: &SpinGlass) -> bool {
        lattice.gpus.len() < 2 || faces(lattice) <= MEASURED
    }

    /// Whether an overlapped exchange is over before the rest is updated.
    pub(super) fn hides(&self) -> bool {
        self.exchange <= self.update - LAUNCH
    }
}

/// The time of an update where a GPU's memory moves so many bytes a second under copies.
pub fn spin_update(memory_rate: f64) -> f64 {
    SpinGlass::UPDATE as f64 / (SHARE * memory_rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane_read::catalogue::{Parts, system};

    #[test]
    fn a_lattice_that_grows_is_the_update_of_one_gpu_and_the_exchange_of_its_planes() {
        let machine = system("hgx-h200").unwrap().unwrap();
        let model = Model::new(&machine, Parts::embedded());
        let lattice = |gpus: usize, side, weak| SpinGlass {
            gpus: (0..gpus).map(|i| format!("GPU{i}")).collect(),
            blocks: None,
            side,
            weak,
            exchange: Exchange::Stores,
            overlap: true,
        };
        let of = |gpus, side, weak| model.spin_glass(&lattice(gpus, side, weak)).unwrap();
        for gpus in [2, 4, 8] {
            let (one, weak, strong) = (of(1, 512, false), of(gpus, 512, true), of(gpus, 512, false));
            assert_eq!(weak.update, one.update, "{gpus}");
            assert_eq!(weak.exchange, strong.exchange, "the same planes");
            assert!(weak.total < 1.03 * one.total && weak.total > one.total, "{gpus}: {weak:?}");
            assert!(strong.total > one.total / gpus as f64);
        }
        // a cube that a cache holds alone is held, too, beside others
        assert_eq!(of(4, 128, true).update, of(1, 128, false).update);
    }

    /// What validation/applications.md says of blocks and slabs.
    #[test]
    fn blocks_are_faster_than_slabs_where_the_exchange_of_many_gpus_shows() {
        let machine = system("hgx-h200").unwrap().unwrap();
        let model = Model::new(&machine, Parts::embedded());
        let of = |blocks: Option<[u32; 3]>, side, exchange, overlap| {
            let gpus = (0..8).map(|i| format!("GPU{i}")).collect();
            let lattice = SpinGlass { gpus, blocks, side, weak: false, exchange, overlap };
            let half = model.spin_glass(&lattice).unwrap();
            (half.total / (lattice.places() as f64 / 2.0) * 1e12, half)
        };
        for side in [256, 512, 1024, 2048] {
            let (slabs, flat, cubes) = (
                of(None, side, Exchange::Stores, true).1,
                of(Some([1, 2, 4]), side, Exchange::Stores, true).1,
                of(Some([2, 2, 2]), side, Exchange::Stores, true).1,
            );
            // a GPU sends 12 L² bytes of a slab, 9 of the others, which have more faces; the last alone cuts rows
            assert!((flat.exchange < slabs.exchange) == (side >= 1024) && flat.exchange < cubes.exchange);
            assert!(cubes.update > flat.update && flat.update > slabs.update, "{side}: {cubes:?} {slabs:?}");
            // hidden, it is the update that counts
            assert!(side < 512 || flat.total > slabs.total, "{side}");
        }
        let staged = |blocks, side| of(blocks, side, Exchange::Staged, true).0;
        for side in [256, 512, 1024, 2048] {
            let flat = staged(Some([1, 2, 4]), side);
            assert!((flat < staged(None, side)) == (side >= 512) && flat < staged(Some([2, 2, 2]), side), "{side}");
        }
    }

    #[test]
    fn what_faces_add_was_measured_with_four_of_them() {
        let lattice = |blocks: Option<[u32; 3]>, gpus: usize| SpinGlass {
            gpus: (0..gpus).map(|i| format!("GPU{i}")).collect(),
            blocks,
            side: 256,
            weak: false,
            exchange: Exchange::Copies,
            overlap: true,
        };
        let confirmed = [(None, 1), (None, 8), (Some([1, 2, 2]), 4), (Some([1, 2, 4]), 8)];
        assert!(confirmed.into_iter().all(|(blocks, gpus)| HalfSweep::is_confirmed(&lattice(blocks, gpus))));
        assert!(!HalfSweep::is_confirmed(&lattice(Some([2, 2, 2]), 8)));
    }
}
