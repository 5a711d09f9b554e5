//! The spin glass that GPUs compute together: how it is cut, and what an update moves.

use std::fmt;

use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exchange::Exchange;
use crate::halo::{Halo, written};
use crate::units::Bytes;

/// Over-relaxation of a three-dimensional Heisenberg spin glass, cut along Z into as many slabs as there are GPUs, or into blocks.
///
/// `docs/applications.md` has the physics and the layout.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct SpinGlass {
    /// The GPUs, each with a slab, in the order along Z, or with a block, along X first; the last is the first one's neighbour.
    pub gpus: Vec<String>,
    /// Blocks along X, Y and Z; absent: slabs along Z.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<[u32; 3]>,
    /// Places along each axis: a multiple of [`SpinGlass::STEP`].
    pub side: u32,
    /// Whether `side` is that of each GPU's own cube, so that the lattice grows with their number: the cubes lie next to each other
    /// as the parts do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub weak: bool,
    /// How boundary planes are exchanged; of one GPU alone it means nothing.
    pub exchange: Exchange,
    /// Whether all but the boundary is updated while the boundary is exchanged.
    pub overlap: bool,
}

impl SpinGlass {
    /// What sides are multiples of: rows of one colour are then read by eight threads or more, four places each.
    pub const STEP: u32 = 64;

    /// The largest side: 893 GB, more than eight GPUs of 2026 hold beside anything else.
    pub const LARGEST: u32 = 4096;

    /// Places along X that a thread updates, of both colours.
    const QUAD: u32 = 8;

    /// Bytes that a place takes: three single-precision numbers and a byte of couplings.
    pub const PLACE: u64 = 13;

    /// Bytes that the update of a place moves between a GPU and its memory where each line is moved once: its spin, as much of
    /// its neighbours, and its couplings read, its spin written.
    pub const UPDATE: u64 = 37;

    /// Parts along X, Y and Z.
    pub fn parts(&self) -> [u32; 3] {
        self.blocks.unwrap_or([1, 1, u32::try_from(self.gpus.len()).unwrap_or(u32::MAX).max(1)])
    }

    /// Places along X, Y and Z.
    pub fn extents(&self) -> [u32; 3] {
        self.parts().map(|parts| self.side.saturating_mul(if self.weak { parts.max(1) } else { 1 }))
    }

    /// Places of the lattice.
    pub fn places(&self) -> u64 {
        self.extents().iter().fold(1, |all: u64, places| all.saturating_mul(u64::from(*places)))
    }

    /// Bytes of the whole lattice.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.places().saturating_mul(Self::PLACE))
    }

    /// Where a GPU's part begins along X, Y and Z, and how many places it has.
    pub fn part(&self, index: usize) -> [[u32; 3]; 2] {
        let (parts, extents) = (self.parts().map(|n| u64::from(n.max(1))), self.extents());
        let index = index as u64;
        let place = [index % parts[0], index / parts[0] % parts[1], index / (parts[0] * parts[1])];
        let from = |axis: usize, number: u64| (u64::from(extents[axis]) * number / parts[axis]) as u32;
        let begin = [0, 1, 2].map(|axis| from(axis, place[axis]));
        [begin, [0, 1, 2].map(|axis| from(axis, place[axis] + 1) - begin[axis])]
    }

    /// The parts as those of a grid whose faces are sent.
    pub fn grid(&self) -> Halo {
        let face = Bytes(self.messages().last().map_or(0, |message| message.0));
        Halo { gpus: self.gpus.clone(), parts: self.parts(), face, exchange: self.exchange }
    }

    /// Bytes of a face's spins of one colour, along each axis with several parts: a message.
    pub fn messages(&self) -> Vec<Bytes> {
        let [_, part] = self.part(0);
        let along = (0..3).filter(|axis| self.parts()[*axis] > 1);
        let area = |axis: usize| (0..3).filter(|a| *a != axis).map(|a| u64::from(part[a])).product::<u64>();
        along.map(|axis| Bytes(area(axis).saturating_mul(6))).collect()
    }

    /// What follows the side where it is that of each GPU's own cube.
    pub fn each(&self) -> &'static str {
        if self.weak { " a GPU" } else { "" }
    }

    /// What follows the GPUs where they have blocks: ` as 2x2x2`.
    pub fn cut(&self) -> String {
        self.blocks.map_or_else(String::new, |parts| format!(" as {}", written(parts)))
    }

    /// Why no GPU can compute it.
    pub fn problem(&self) -> Option<String> {
        let Self { gpus, side, .. } = self;
        if gpus.is_empty() {
            return Some("a lattice needs a GPU".to_owned());
        }
        if *side == 0 || !side.is_multiple_of(Self::STEP) || *side > Self::LARGEST {
            return Some(format!("a side of {side} is no multiple of {} up to {}", Self::STEP, Self::LARGEST));
        }
        let (parts, extents) = (self.parts(), self.extents());
        if self.blocks.is_none() {
            let planes = extents[2];
            return (planes as usize / gpus.len() < 3)
                .then(|| format!("{planes} planes among {} GPUs; each needs three", gpus.len()));
        }
        let count: u128 = parts.iter().map(|n| u128::from(*n)).product();
        let words = written(parts);
        if count != gpus.len() as u128 {
            return Some(format!("{words} are {count} blocks, and there are {} GPUs", gpus.len()));
        }
        let whole = |axis: usize, step: u32| extents[axis].is_multiple_of(parts[axis] * step);
        let even = whole(0, Self::QUAD) && whole(1, 2) && whole(2, 2);
        let wide = extents[0] / parts[0] >= 2 * Self::QUAD && (1..3).all(|axis| extents[axis] / parts[axis] >= 4);
        (!even || !wide).then(|| {
            format!("{side} places as {words} blocks; each needs a multiple of {} along X, and an even number along Y and Z", Self::QUAD)
        })
    }
}

impl fmt::Display for SpinGlass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spin glass, L = {}{}, {} GPU", self.side, self.each(), self.gpus.len())?;
        if self.gpus.len() > 1 {
            write!(
                f,
                "s{}, {}, {}",
                self.cut(),
                self.exchange.name(),
                if self.overlap { "overlap" } else { "serial" }
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lattice(gpus: usize, side: u32) -> SpinGlass {
        let gpus = (0..gpus).map(|i| format!("GPU{i}")).collect();
        SpinGlass { gpus, blocks: None, side, weak: false, exchange: Exchange::Stores, overlap: true }
    }

    #[test]
    fn slabs_cover_the_lattice_once_and_differ_by_a_plane_at_most() {
        for gpus in 1..=16 {
            for side in [64, 192, 320] {
                let lattice = lattice(gpus, side);
                let slab = |i| lattice.part(i).map(|along| along[2]);
                let slabs: Vec<(u32, u32)> = (0..gpus).map(slab).map(|[from, planes]| (from, from + planes)).collect();
                assert_eq!((slabs[0].0, slabs[gpus - 1].1), (0, side));
                assert!(slabs.windows(2).all(|pair| pair[0].1 == pair[1].0));
                let planes: Vec<u32> = slabs.iter().map(|(from, to)| to - from).collect();
                assert!(planes.iter().max().unwrap() - planes.iter().min().unwrap() <= 1);
            }
        }
    }

    #[test]
    fn places_and_bytes_of_the_largest_lattice_are_more_than_32_bits_hold() {
        let largest = lattice(8, SpinGlass::LARGEST);
        assert_eq!(largest.problem(), None);
        assert_eq!(largest.places(), 1 << 36);
        assert_eq!(largest.bytes(), Bytes(13 << 36));
        assert_eq!(largest.messages(), [Bytes(6 << 24)]);
        assert_eq!(largest.part(7), [[0, 0, 3584], [4096, 4096, 512]]);
    }

    #[test]
    fn a_lattice_that_grows_has_a_cube_for_each_gpu() {
        let weak = SpinGlass { weak: true, ..lattice(3, 128) };
        assert_eq!((weak.extents(), weak.places()), ([128, 128, 384], 3 << 21));
        assert_eq!(weak.part(1), [[0, 0, 128], [128; 3]]);
        assert_eq!(weak.messages(), lattice(3, 128).messages());
        assert_eq!(weak.to_string(), "spin glass, L = 128 a GPU, 3 GPUs, stores, overlap");
        // planes are enough however many GPUs there are
        assert_eq!(SpinGlass { weak: true, ..lattice(40, 64) }.problem(), None);
    }

    fn blocks(parts: [u32; 3], side: u32) -> SpinGlass {
        SpinGlass { blocks: Some(parts), ..lattice(parts.iter().product::<u32>() as usize, side) }
    }

    #[test]
    fn blocks_cover_the_lattice_once() {
        for parts in [[2, 1, 1], [1, 2, 1], [2, 2, 1], [2, 2, 2], [1, 4, 2], [4, 2, 2]] {
            for weak in [false, true] {
                let lattice = SpinGlass { weak, ..blocks(parts, 64) };
                assert_eq!(lattice.problem(), None, "{lattice}");
                let (all, grid) = (lattice.extents(), lattice.grid());
                let axes: Vec<usize> = (0..3).filter(|axis| parts[*axis] > 1).collect();
                let mut places = 0;
                for i in 0..lattice.gpus.len() {
                    let [from, extents] = lattice.part(i);
                    places += extents.iter().map(|n| u64::from(*n)).product::<u64>();
                    for (side, other) in grid.neighbours(i).into_iter().enumerate() {
                        let axis = axes[side / 2];
                        let beyond = from[axis] + if side % 2 == 1 { extents[axis] } else { all[axis] - 1 };
                        let [there, wide] = lattice.part(other).map(|along| along[axis]);
                        assert!((there..there + wide).contains(&(beyond % all[axis])), "{lattice}: {i} and {other}");
                    }
                }
                assert_eq!(places, lattice.places());
            }
        }
        assert_eq!(blocks([2, 2, 2], 128).messages(), [Bytes(64 * 64 * 6); 3]);
        assert_eq!(blocks([4, 2, 1], 128).messages(), [Bytes(64 * 128 * 6), Bytes(32 * 128 * 6)]);
        assert_eq!(blocks([2, 2, 2], 128).to_string(), "spin glass, L = 128, 8 GPUs as 2x2x2, stores, overlap");
    }

    #[test]
    fn blocks_that_no_kernel_can_update_say_why() {
        let wrong = |parts, side| blocks(parts, side).problem().unwrap();
        let needs = "each needs a multiple of 8 along X, and an even number along Y and Z";
        assert_eq!(wrong([3, 1, 1], 64), format!("64 places as 3 blocks; {needs}"));
        // eight places are one thread's, and have no two ends
        assert_eq!(wrong([8, 1, 1], 64), format!("64 places as 8 blocks; {needs}"));
        let few = SpinGlass { gpus: vec!["GPU0".to_owned()], ..blocks([2, 2, 1], 64) };
        assert_eq!(few.problem().unwrap(), "2x2 are 4 blocks, and there are 1 GPUs");
        let none = SpinGlass { blocks: Some([0, 1, 1]), ..lattice(1, 64) };
        assert_eq!(none.problem().unwrap(), "0 are 0 blocks, and there are 1 GPUs");
        let many = SpinGlass { blocks: Some([u32::MAX; 3]), weak: true, ..lattice(1, 64) };
        assert!(many.problem().is_some() && many.places() > 0);
    }

    #[test]
    fn a_lattice_that_no_kernel_can_update_says_why() {
        assert_eq!(lattice(2, 64).problem(), None);
        assert_eq!(lattice(0, 64).problem().unwrap(), "a lattice needs a GPU");
        assert_eq!(lattice(1, 100).problem().unwrap(), "a side of 100 is no multiple of 64 up to 4096");
        assert_eq!(lattice(40, 64).problem().unwrap(), "64 planes among 40 GPUs; each needs three");
    }
}
