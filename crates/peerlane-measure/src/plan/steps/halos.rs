//! Halo exchanges.

use super::Site;
use crate::plan::{Scope, Size, Step, Test, Work};
use peerlane_machine::exchange::Exchange;
use peerlane_machine::halo::{Halo, grid};
use peerlane_machine::units::Bytes;

/// Faces, from what starts alone take to what rates alone bind.
const FACES: [Bytes; 5] =
    [Bytes(4 << 10), Bytes(64 << 10), Bytes::from_mib(1), Bytes::from_mib(16), Bytes::from_mib(64)];

/// The face of a quick plan.
const QUICK: usize = 2;

/// Of the first 2, 4, 8 ... GPUs and of all, in as many dimensions as leave several parts along each, by every method. A quick plan
/// has all GPUs, and faces of one size.
pub(super) fn halo(site: &Site<'_>) -> Vec<Step> {
    let quick = site.scope == Scope::Quick;
    let n = site.gpus.len();
    let faces = if quick { &FACES[QUICK..=QUICK] } else { &FACES };
    let fewer = (1..).map(|power| 1 << power).take_while(|count| *count < n && !quick);
    let mut steps = Vec::new();
    for count in fewer.chain([n]) {
        for parts in (1..=3).filter_map(|dimensions| decomposition(count, dimensions)) {
            for exchange in Exchange::ALL {
                for face in faces {
                    let halo = Halo { gpus: site.gpus[..count].to_vec(), parts, face: *face, exchange };
                    steps.push(Step { test: Test::Halo, work: Work::Halo(halo), size: Size::Exactly(*face) });
                }
            }
        }
    }
    steps
}

/// So many parts, several along each of so many dimensions; `None` where their number has too few divisors.
pub(super) fn decomposition(count: usize, dimensions: u32) -> Option<[u32; 3]> {
    let sides = grid(count, dimensions);
    let mut parts = [1; 3];
    for (part, side) in parts.iter_mut().zip(&sides) {
        *part = u32::try_from(*side).ok()?;
    }
    sides.iter().all(|side| *side > 1).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_dimension_has_a_single_part() {
        let of = |count| [1, 2, 3].map(|dimensions| decomposition(count, dimensions));
        assert_eq!(of(2), [Some([2, 1, 1]), None, None]);
        assert_eq!(of(4), [Some([4, 1, 1]), Some([2, 2, 1]), None]);
        assert_eq!(of(7), [Some([7, 1, 1]), None, None]);
        assert_eq!(of(8), [Some([8, 1, 1]), Some([4, 2, 1]), Some([2, 2, 2])]);
        assert_eq!(of(16), [Some([16, 1, 1]), Some([4, 4, 1]), Some([4, 2, 2])]);
    }
}
