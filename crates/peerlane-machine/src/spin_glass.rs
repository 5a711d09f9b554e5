//! The spin glass that GPUs compute together: how it is cut, and what an update moves.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exchange::Exchange;
use crate::units::Bytes;

/// Over-relaxation of a three-dimensional Heisenberg spin glass, cut along Z into as many slabs as there are GPUs.
///
/// `docs/applications.md` has the physics and the layout.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct SpinGlass {
    /// The GPUs, each a slab, in the order along Z; the last is the first one's neighbour.
    pub gpus: Vec<String>,
    /// Places along each axis: a multiple of [`SpinGlass::STEP`].
    pub side: u32,
    /// Whether `side` is that of each GPU's own cube, so that the lattice grows with their number: the cubes lie next to each other
    /// along Z.
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

    /// Bytes that a place takes: three single-precision numbers and a byte of couplings.
    pub const PLACE: u64 = 13;

    /// Bytes that the update of a place moves between a GPU and its memory where each line is moved once: its spin, as much of
    /// its neighbours, and its couplings read, its spin written.
    pub const UPDATE: u64 = 37;

    /// Planes along Z.
    pub fn planes(&self) -> u32 {
        let cubes = if self.weak { u32::try_from(self.gpus.len()).unwrap_or(u32::MAX) } else { 1 };
        self.side.saturating_mul(cubes.max(1))
    }

    /// Places of the lattice.
    pub fn places(&self) -> u64 {
        u64::from(self.side).pow(2) * u64::from(self.planes())
    }

    /// Bytes of the whole lattice.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.places() * Self::PLACE)
    }

    /// Bytes of a boundary plane's spins of one colour: a message.
    pub fn message(&self) -> Bytes {
        Bytes(u64::from(self.side).pow(2) / 2 * 12)
    }

    /// First plane of a GPU's slab, and of the next one's.
    pub fn slab(&self, index: usize) -> (u32, u32) {
        let n = self.gpus.len().max(1) as u64;
        let from = |i: u64| (u64::from(self.planes()) * i / n) as u32;
        (from(index as u64), from(index as u64 + 1))
    }

    /// What follows the side where it is that of each GPU's own cube.
    pub fn each(&self) -> &'static str {
        if self.weak { " a GPU" } else { "" }
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
        let planes = self.planes();
        (planes as usize / gpus.len() < 3)
            .then(|| format!("{planes} planes among {} GPUs; each needs three", gpus.len()))
    }
}

impl fmt::Display for SpinGlass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spin glass, L = {}{}, {} GPU", self.side, self.each(), self.gpus.len())?;
        if self.gpus.len() > 1 {
            write!(f, "s, {}, {}", self.exchange.name(), if self.overlap { "overlap" } else { "serial" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lattice(gpus: usize, side: u32) -> SpinGlass {
        let gpus = (0..gpus).map(|i| format!("GPU{i}")).collect();
        SpinGlass { gpus, side, weak: false, exchange: Exchange::Stores, overlap: true }
    }

    #[test]
    fn slabs_cover_the_lattice_once_and_differ_by_a_plane_at_most() {
        for gpus in 1..=16 {
            for side in [64, 192, 320] {
                let lattice = lattice(gpus, side);
                let slabs: Vec<(u32, u32)> = (0..gpus).map(|i| lattice.slab(i)).collect();
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
        assert_eq!(largest.message(), Bytes(6 << 24));
        assert_eq!(largest.slab(7), (3584, 4096));
    }

    #[test]
    fn a_lattice_that_grows_has_a_cube_for_each_gpu() {
        let weak = SpinGlass { weak: true, ..lattice(3, 128) };
        assert_eq!((weak.planes(), weak.places(), weak.slab(1)), (384, 3 << 21, (128, 256)));
        assert_eq!(weak.message(), lattice(3, 128).message());
        assert_eq!(weak.to_string(), "spin glass, L = 128 a GPU, 3 GPUs, stores, overlap");
        // planes are enough however many GPUs there are
        assert_eq!(SpinGlass { weak: true, ..lattice(40, 64) }.problem(), None);
    }

    #[test]
    fn a_lattice_that_no_kernel_can_update_says_why() {
        assert_eq!(lattice(2, 64).problem(), None);
        assert_eq!(lattice(0, 64).problem().unwrap(), "a lattice needs a GPU");
        assert_eq!(lattice(1, 100).problem().unwrap(), "a side of 100 is no multiple of 64 up to 4096");
        assert_eq!(lattice(40, 64).problem().unwrap(), "64 planes among 40 GPUs; each needs three");
    }
}
