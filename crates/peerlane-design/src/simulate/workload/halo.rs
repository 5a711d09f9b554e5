//! Halo exchange: GPUs as the places of a periodic grid, each of which sends a face to both neighbours along every
//! dimension, all at once.

use super::super::program::{Program, Round, Step};
use crate::cluster::Place;

/// So many places as a grid that is as near to a cube as their number allows, the longest side first.
pub(super) fn grid(places: usize, dimensions: u32) -> Vec<usize> {
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

/// One exchange of faces of `size` bytes.
pub(super) fn program(places: &[Place], dimensions: u32, size: f64) -> Program {
    let sides = grid(places.len(), dimensions);
    let mut steps = Vec::new();
    for at in 0..places.len() {
        let mut stride = 1;
        for side in &sides {
            let x = at / stride % side;
            if *side > 1 {
                for next in [(x + 1) % side, (x + side - 1) % side] {
                    steps.push(Step::send(places[at], places[at - x * stride + next * stride], size));
                }
            }
            stride *= side;
        }
    }
    Program { rounds: vec![Round::at_once(format!("halo exchange on a grid of {sides:?}"), steps)] }
}

#[cfg(test)]
mod tests {
    use super::*;

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
