//! Applications on graphs.

use super::Site;
use crate::plan::{Scope, Size, Step, Test, Work};
use peerlane_machine::bfs::Bfs;
use peerlane_machine::exchange::Exchange;

/// Scales, from 134 MB to 17 GB of arcs.
const SCALES: [u32; 6] = [20, 22, 24, 25, 26, 27];

/// The scales at which all GPUs but the first are measured, and the sets of several.
const SCALED: [u32; 2] = [24, 26];

/// Searches on the first GPU alone, and on all others at [`SCALED`]; on the first 2, 4, 8 ... GPUs and on all, by every exchange. A
/// quick plan has one graph on each GPU, and one on all of them.
pub(super) fn bfs(site: &Site<'_>) -> Vec<Step> {
    let search = |gpus: &[String], scale: u32, exchange| {
        let search = Bfs { gpus: gpus.to_vec(), scale, exchange };
        let size = Size::Exactly(search.bytes());
        search.problem().is_none().then_some(Step { test: Test::Bfs, work: Work::Bfs(search), size })
    };
    let quick = site.scope == Scope::Quick;
    let scaled = if quick { &SCALED[..1] } else { &SCALED };
    let n = site.gpus.len();
    let mut steps = Vec::new();
    for (i, gpu) in site.gpus.iter().enumerate() {
        let scales = if quick || i > 0 { scaled } else { &SCALES };
        steps.extend(scales.iter().filter_map(|scale| search(std::slice::from_ref(gpu), *scale, Exchange::Stores)));
    }
    let fewer = (1..).map(|power| 1 << power).take_while(|count| *count < n && !quick);
    for count in fewer.chain((n > 1).then_some(n)) {
        let exchanges = if quick { &Exchange::ALL[..1] } else { &Exchange::ALL };
        for scale in scaled {
            steps.extend(exchanges.iter().filter_map(|exchange| search(&site.gpus[..count], *scale, *exchange)));
        }
    }
    steps
}
