//! Halo exchange: GPUs as the places of a periodic grid, each of which sends a face to both neighbours along every
//! dimension, all at once.

use super::super::program::{Program, Round, Step};
use crate::cluster::Place;
use peerlane_machine::halo::grid;

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
