//! Applications on lattices.

use super::Site;
use crate::plan::{Scope, Size, Step, Test, Work};
use peerlane_machine::exchange::Exchange;
use peerlane_machine::spin_glass::SpinGlass;

/// Sides, from what caches hold to what takes 14 GB.
const SIDES: [u32; 5] = [64, 128, 256, 512, 1024];

/// The sides at which fewer GPUs than all are measured.
const SCALED: [u32; 2] = [256, 512];

/// A spin glass on the first GPU alone, and on all others at [`SCALED`]; on the first 2, 4, 8 ... GPUs and on all, by every
/// exchange, overlapped and not. A quick plan has one lattice of each GPU, and all of them by stores, overlapped.
pub(super) fn spin_glass(site: &Site<'_>) -> Vec<Step> {
    let lattice = |gpus: &[String], side: u32, exchange, overlap| {
        let lattice = SpinGlass { gpus: gpus.to_vec(), side, exchange, overlap };
        let size = Size::Exactly(lattice.bytes());
        lattice.problem().is_none().then_some(Step { test: Test::SpinGlass, work: Work::SpinGlass(lattice), size })
    };
    let quick = site.scope == Scope::Quick;
    let n = site.gpus.len();
    let mut steps = Vec::new();
    for (i, gpu) in site.gpus.iter().enumerate() {
        let sides: &[u32] = match (quick, i) {
            (true, _) => &SCALED[..1],
            (false, 0) => &SIDES,
            (false, _) => &SCALED,
        };
        let alone = std::slice::from_ref(gpu);
        steps.extend(sides.iter().filter_map(|side| lattice(alone, *side, Exchange::Stores, false)));
    }
    let fewer = (1..).map(|power| 1 << power).take_while(|count| *count < n);
    let counts = fewer.chain((n > 1).then_some(n));
    for count in counts {
        let gpus = &site.gpus[..count];
        let sides: &[u32] = match quick {
            true => &SCALED[..1],
            false if count == n => &SIDES,
            false => &SCALED,
        };
        for side in sides {
            for exchange in Exchange::ALL {
                for overlap in [true, false] {
                    if !quick || (count == n && overlap && exchange == Exchange::Stores) {
                        steps.extend(lattice(gpus, *side, exchange, overlap));
                    }
                }
            }
        }
    }
    steps
}
