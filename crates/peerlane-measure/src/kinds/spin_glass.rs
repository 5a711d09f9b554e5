//! Applications on lattices.

use super::halo::{decomposition, via};
use super::{Kind, Path, Predicted, Scope, Site, Size, Step, TableCell, Task, Test, Truth, Work, are_picked, names};
use peerlane_machine::exchange::Exchange;
use peerlane_machine::matrix::{Quantity, Unit};
use peerlane_machine::names::{list, ranges};
use peerlane_machine::spin_glass::SpinGlass;
use peerlane_model::model::{HalfSweep, Model};

/// Sides at which everything is measured, from what caches hold to what takes 14 GB.
const SIDES: [u32; 5] = [64, 128, 256, 512, 1024];

/// The sides at which fewer GPUs than all are measured.
const SCALED: [u32; 2] = [256, 512];

/// The sides of each GPU's own cube where the lattice grows with their number.
const WEAK: [u32; 4] = [128, 256, 512, 1024];

/// The sides at which lattices in blocks are measured.
const IN_BLOCKS: [u32; 2] = [256, 512];

/// Sides beyond, up to what memory holds: 27, 48 and 112 GB, and of several GPUs 218, 377 and 893 GB. Which of them fit is known only
/// once they are allocated; the others have a cell that says how much is free. Lattices that are cut are overlapped: without, they
/// are slower at every side above 64.
const LARGE: [u32; 6] = [1280, 1536, 2048, 2560, 3072, SpinGlass::LARGEST];

/// The most places of a GPU: 112 GB.
const MOST: u64 = 1 << 33;

/// The sides beyond that so many GPUs may hold.
fn large(gpus: usize) -> impl Iterator<Item = u32> {
    LARGE.into_iter().filter(move |side| u64::from(*side).pow(3) <= MOST * gpus as u64)
}

/// How so many GPUs cut a lattice but into slabs along Z: two along X and along Y, more along two and along three axes. Along X there are the
/// fewest parts, since its faces are not contiguous.
fn blocks(gpus: usize) -> Vec<[u32; 3]> {
    let several = (2..=3).filter_map(|dimensions| decomposition(gpus, dimensions));
    let several = several.map(|[a, b, c]| [c, b, a]);
    match gpus {
        2 => vec![[2, 1, 1], [1, 2, 1]],
        _ => several.collect(),
    }
}

/// A spin glass on the first GPU alone, and on all others at [`SCALED`]; on the first 2, 4, 8 ... GPUs and on all, by every
/// exchange, overlapped and not; on all and on the first at [`LARGE`] sides, too, the smallest first. Lattices that grow with the GPUs are
/// overlapped, by every exchange. All GPUs also have blocks instead of slabs, at [`IN_BLOCKS`] sides. A quick plan has one lattice of each GPU,
/// and all of them by stores, overlapped.
pub(super) fn steps(site: &Site<'_>) -> Vec<Step> {
    let step = |lattice: SpinGlass| {
        let size = Size::Exactly(lattice.bytes());
        lattice.problem().is_none().then_some(Step { test: Test::SpinGlass, work: Work::SpinGlass(lattice), size })
    };
    let cut = |gpus: &[String], side, exchange, overlap| SpinGlass {
        gpus: gpus.to_vec(),
        blocks: None,
        side,
        weak: false,
        exchange,
        overlap,
    };
    let lattice = |gpus: &[String], side, exchange, overlap| step(cut(gpus, side, exchange, overlap));
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
    for count in counts.clone() {
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
    if quick {
        return steps;
    }
    for count in counts {
        let all = WEAK.into_iter().flat_map(|side| Exchange::ALL.map(|exchange| (side, exchange)));
        steps.extend(all.filter_map(|(side, exchange)| {
            step(SpinGlass { weak: true, ..cut(&site.gpus[..count], side, exchange, true) })
        }));
    }
    for parts in blocks(n) {
        let ways = IN_BLOCKS.into_iter().flat_map(|side| Exchange::ALL.map(|exchange| (side, exchange)));
        let ways = ways.flat_map(|(side, exchange)| [true, false].map(|overlap| (side, exchange, overlap)));
        steps.extend(ways.filter_map(|(side, exchange, overlap)| {
            step(SpinGlass { blocks: Some(parts), ..cut(&site.gpus, side, exchange, overlap) })
        }));
    }
    if n > 1 {
        let ways = large(n).flat_map(|side| Exchange::ALL.map(|exchange| (side, exchange)));
        steps.extend(ways.filter_map(|(side, exchange)| lattice(&site.gpus, side, exchange, true)));
    }
    // last: what they hold would leave no room for a lattice in one piece next to slabs
    steps.extend(large(1).filter_map(|side| lattice(&site.gpus[..1], side, Exchange::Stores, false)));
    steps
}

/// Updates of a half-sweep.
fn updates(lattice: &SpinGlass) -> f64 {
    lattice.places() as f64 / 2.0
}

impl<'w> Kind<'w> for &'w SpinGlass {
    fn words(&self) -> String {
        let how = match self.gpus.len() {
            1 => String::new(),
            _ => format!(", {}, {}", self.exchange.name(), if self.overlap { "overlap" } else { "serial" }),
        };
        format!("{}{}, L = {}{}{how}", list(&self.gpus), self.cut(), self.side, self.each())
    }

    fn nodes(&self) -> Vec<&'w str> {
        names(&self.gpus)
    }

    fn paths(&self) -> Vec<Path<'w>> {
        let (grid, via) = (self.grid(), via(self.exchange));
        let sends = grid.sends().filter_map(|sent| Some((self.gpus.get(sent.from)?, self.gpus.get(sent.to)?)));
        sends.map(|(from, to)| Path { from, to, via }).collect()
    }

    fn answers(&self) -> &'static [(Quantity, Unit)] {
        &[(Quantity::UpdateTime, Unit::Picoseconds)]
    }

    /// Of a lattice that is cut, also the three parts of its half-sweeps.
    fn numbers(&self) -> usize {
        if self.gpus.len() > 1 { 4 } else { 1 }
    }

    fn is_picked(&self, has: &dyn Fn(&str, &str) -> bool) -> bool {
        are_picked(&self.gpus, has)
    }

    fn table(&self) -> Option<TableCell> {
        let gpus = ranges(&self.gpus);
        let row = match self.gpus.len() {
            1 => gpus,
            _ => {
                let when = if self.overlap { "overlap" } else { "serial" };
                let weak = if self.weak { ", L a GPU" } else { "" };
                format!("{gpus}{}, {}, {when}{weak}", self.cut(), self.exchange.name())
            }
        };
        Some(TableCell {
            title: format!("spin glass, over-relaxation, {} of a place", Quantity::UpdateTime.name()),
            row,
            column: (self.side.into(), format!("L={}", self.side)),
            wide: false,
        })
    }

    fn predicted(&self, model: &Model) -> Option<Predicted> {
        let predicted = model.spin_glass(self)?;
        let ps = |half_sweep: f64| half_sweep / updates(self) * 1e12;
        Some(Predicted {
            value: ps(predicted.total),
            worst: ps(predicted.most),
            is_confirmed: HalfSweep::is_confirmed(self),
            exchange: Some(predicted.exchange / predicted.total),
        })
    }

    /// As slow as the slowest of its GPUs.
    fn simulate(&self, size: Size, truth: &Truth) -> Result<Task, String> {
        let slowness = truth.slowest(&self.gpus)?;
        self.problem().map_or(Ok(()), Err)?;
        let predicted = truth.model.spin_glass(self).ok_or_else(|| {
            format!(
                "the model does not predict this: a rate is not known, or caches hold much of a lattice of L = {}",
                self.side
            )
        })?;
        let mut values = vec![predicted.total / updates(self)];
        if self.gpus.len() > 1 {
            values.extend([predicted.update, predicted.boundary, predicted.exchange]);
        }
        Ok(truth.timed(size, values.into_iter().map(|value| value * slowness).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_have_the_fewest_parts_along_x() {
        assert_eq!(blocks(1), [[0; 3]; 0]);
        assert_eq!(blocks(2), [[2, 1, 1], [1, 2, 1]]);
        assert_eq!(blocks(4), [[1, 2, 2]]);
        assert_eq!(blocks(7), [[0; 3]; 0]);
        assert_eq!(blocks(8), [[1, 2, 4], [2, 2, 2]]);
        assert_eq!(blocks(16), [[1, 4, 4], [2, 2, 4]]);
    }

    #[test]
    fn a_gpu_is_given_no_more_than_the_largest_lattice_of_one() {
        let of = |gpus| large(gpus).collect::<Vec<_>>();
        assert_eq!(of(1), [1280, 1536, 2048]);
        assert_eq!(of(2), [1280, 1536, 2048, 2560]);
        assert_eq!(of(4), [1280, 1536, 2048, 2560, 3072]);
        assert_eq!(of(8), LARGE);
    }
}
