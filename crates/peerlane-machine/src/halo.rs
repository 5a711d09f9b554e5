//! A plain halo exchange: GPUs as the parts of a periodic grid, each of which sends a face to both neighbours along every
//! dimension.

use std::fmt;

use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::exchange::Exchange;
use crate::units::Bytes;

/// Exchanges of faces, one behind the other: all parts send all of their faces at once.
///
/// `docs/applications.md` has the method and what is checked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Halo {
    /// The GPUs, each with a part of the grid: along the first dimension first.
    pub gpus: Vec<String>,
    /// Parts along each dimension. Along one with a single part nothing is sent; where there are two, both of a part's faces go
    /// to the same neighbour.
    pub parts: [u32; 3],
    /// Bytes of each face.
    pub face: Bytes,
    /// How faces get to the neighbours.
    pub exchange: Exchange,
}

/// A face that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The part that sends it, by its place in the list of GPUs.
    pub from: usize,
    /// Which of its faces: along each dimension with several parts the lower one, and then the upper one.
    pub side: usize,
    /// The part that gets it.
    pub to: usize,
}

impl Halo {
    /// What faces are multiples of: the widest load of a kernel, so that faces can lie next to each other.
    pub const STEP: u64 = 16;

    /// The largest face.
    pub const MOST: Bytes = Bytes::from_mib(1024);

    /// The dimensions along which faces are sent.
    fn dimensions(&self) -> impl Iterator<Item = usize> {
        let parts = self.parts;
        (0..3).filter(move |d| parts[*d] > 1)
    }

    /// How many parts there are.
    fn count(&self) -> u128 {
        self.parts.iter().map(|n| u128::from(*n)).product()
    }

    /// How many faces each part sends, and gets.
    pub fn sides(&self) -> usize {
        2 * self.dimensions().count()
    }

    /// Where a face that leaves by one side comes in.
    pub fn opposite(side: usize) -> usize {
        side ^ 1
    }

    /// The neighbour of a part beyond each of its sides; none where there are not as many GPUs as parts.
    pub fn neighbours(&self, part: usize) -> Vec<usize> {
        if self.count() != self.gpus.len() as u128 {
            return Vec::new();
        }
        let [width, height, depth] = self.parts.map(|n| n.max(1) as usize);
        let place = [part % width, part / width % height, part / (width * height) % depth];
        let (extents, strides) = ([width, height, depth], [1, width, width * height]);
        let along = |d: usize| {
            let (at, n) = (place[d], extents[d]);
            [(at + n - 1) % n, (at + 1) % n].map(|next| part - at * strides[d] + next * strides[d])
        };
        self.dimensions().flat_map(along).collect()
    }

    /// All faces that are sent in one exchange.
    pub fn sends(&self) -> impl Iterator<Item = Sent> + '_ {
        (0..self.gpus.len()).flat_map(|from| {
            let to = self.neighbours(from).into_iter().enumerate();
            to.map(move |(side, to)| Sent { from, side, to })
        })
    }

    /// The parts along each dimension, without those beyond which there is one only: `8`, `4x2`, `2x2x2`.
    pub fn decomposition(&self) -> String {
        written(self.parts)
    }

    /// Why no GPUs can do it.
    pub fn problem(&self) -> Option<String> {
        let Self { gpus, face, .. } = self;
        let parts = self.count();
        if parts != gpus.len() as u128 {
            return Some(format!("{} are {parts} parts, and there are {} GPUs", self.decomposition(), gpus.len()));
        }
        if gpus.len() < 2 {
            return Some("a halo exchange needs two parts".to_owned());
        }
        let fits = face.0 > 0 && face.0.is_multiple_of(Self::STEP) && *face <= Self::MOST;
        (!fits).then(|| format!("a face of {} bytes is no multiple of {} up to {}", face.0, Self::STEP, Self::MOST))
    }
}

impl fmt::Display for Halo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (parts, n) = (self.decomposition(), self.gpus.len());
        write!(f, "halo exchange, {parts} parts on {n} GPUs, faces of {}, {}", self.face, self.exchange.name())
    }
}

/// Parts along each dimension, without those beyond which there is one only: `8`, `4x2`, `2x2x2`.
pub fn written(parts: [u32; 3]) -> String {
    let count = 3 - parts.iter().rev().take_while(|n| **n == 1).count();
    let parts: Vec<String> = parts.iter().take(count.max(1)).map(u32::to_string).collect();
    parts.join("x")
}

/// So many places as a grid that is as near to a cube as their number allows, the longest side first.
pub fn grid(places: usize, dimensions: u32) -> Vec<usize> {
    let mut sides = Vec::new();
    let mut left = places.max(1);
    for d in (1..=dimensions).rev() {
        // the smallest divisor that leaves the other dimensions no longer than this one
        let least = (1..=left).find(|n| left.is_multiple_of(*n) && n.pow(d) >= left).unwrap_or(left);
        sides.push(least);
        left /= least;
    }
    sides.sort_unstable_by(|a, b| b.cmp(a));
    sides
}

#[cfg(test)]
mod tests {
    use super::*;

    fn halo(parts: [u32; 3]) -> Halo {
        let n: u32 = parts.iter().product();
        let gpus = (0..n).map(|i| format!("GPU{i}")).collect();
        Halo { gpus, parts, face: Bytes::from_mib(1), exchange: Exchange::Stores }
    }

    #[test]
    fn a_part_has_two_neighbours_along_each_dimension_with_several_parts() {
        assert_eq!(halo([4, 1, 1]).neighbours(0), [3, 1]);
        assert_eq!(halo([4, 2, 1]).neighbours(5), [4, 6, 1, 1]);
        assert_eq!(halo([1, 1, 3]).neighbours(0), [2, 1]);
        assert_eq!(halo([2, 2, 2]).neighbours(6), [7, 7, 4, 4, 2, 2]);
        assert_eq!([[2, 1, 1], [2, 2, 1], [2, 2, 2], [1, 3, 1]].map(|parts| halo(parts).sides()), [2, 4, 6, 2]);
    }

    #[test]
    fn every_place_gets_one_face_from_the_neighbour_beyond_it() {
        for parts in [[2, 1, 1], [8, 1, 1], [4, 2, 1], [2, 2, 2], [3, 2, 2], [1, 2, 3]] {
            let halo = halo(parts);
            let mut got = vec![vec![0; halo.sides()]; halo.gpus.len()];
            for Sent { from, side, to } in halo.sends() {
                got[to][Halo::opposite(side)] += 1;
                assert_eq!(halo.neighbours(to)[Halo::opposite(side)], from, "{parts:?}");
                assert_ne!(from, to);
            }
            assert!(got.iter().flatten().all(|n| *n == 1), "{parts:?}: {got:?}");
        }
    }

    #[test]
    fn an_exchange_that_no_gpus_can_do_says_why() {
        let with = |gpus: &[&str], parts, face| Halo {
            gpus: gpus.iter().map(|name| (*name).to_owned()).collect(),
            parts,
            face: Bytes(face),
            exchange: Exchange::Copies,
        };
        assert_eq!(with(&["GPU0", "GPU1"], [2, 1, 1], 16).problem(), None);
        let problem = |halo: Halo| halo.problem().unwrap();
        assert_eq!(problem(with(&["GPU0"], [1; 3], 16)), "a halo exchange needs two parts");
        assert_eq!(problem(with(&["GPU0", "GPU1"], [2, 2, 1], 16)), "2x2 are 4 parts, and there are 2 GPUs");
        assert_eq!(
            problem(with(&["GPU0"], [u32::MAX; 3], 16)).split(' ').next().unwrap(),
            "4294967295x4294967295x4294967295"
        );
        assert_eq!(
            problem(with(&["GPU0", "GPU1"], [2, 1, 1], 24)),
            "a face of 24 bytes is no multiple of 16 up to 1 GiB"
        );
        assert!(with(&["GPU0", "GPU1"], [2, 1, 1], 0).problem().is_some());
        assert!(with(&["GPU0", "GPU1"], [2, 1, 1], u64::MAX - 15).problem().is_some());
    }

    #[test]
    fn an_exchange_is_named_by_its_parts_and_faces() {
        assert_eq!(halo([4, 2, 1]).to_string(), "halo exchange, 4x2 parts on 8 GPUs, faces of 1 MiB, stores");
        assert_eq!([[2, 1, 1], [1, 1, 3], [1, 1, 1]].map(|parts| halo(parts).decomposition()), ["2", "1x1x3", "1"]);
    }

    #[test]
    fn grids_are_near_to_cubes() {
        let cases =
            [(8, 3, vec![2, 2, 2]), (16, 2, vec![4, 4]), (12, 3, vec![3, 2, 2]), (7, 2, vec![7, 1]), (5, 1, vec![5])];
        for (places, dimensions, expected) in cases {
            assert_eq!(grid(places, dimensions), expected, "{places} in {dimensions}");
        }
        for n in 1..200 {
            assert_eq!(grid(n, 3).iter().product::<usize>(), n);
        }
    }
}
