//! From which lattice on several GPUs are faster than one, and by which method.

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use super::{HalfSweep, is_beyond_caches};
use crate::model::Model;
use crate::model::exchange::ExchangeTime;
use peerlane_machine::exchange::Exchange;
use peerlane_machine::fabric::NodeId;
use peerlane_machine::spin_glass::SpinGlass;

/// Sides that are shown.
const SHOWN: [u32; 6] = [64, 128, 256, 512, 1024, 2048];

/// From which side of a spin glass on several GPUs, a slab each, are faster than one of them.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SpinGlassAdvice {
    /// The GPUs.
    pub gpus: usize,
    /// The least multiple of 64 from which that holds for all larger ones, too; null where it holds for no side up to 4096.
    pub from: Option<u32>,
    /// Whether smaller ones are not predicted, since caches hold so much of them, so that it may hold for these, too.
    pub at_the_latest: bool,
    /// From here on memory alone binds; below, caches hold a notable part of each slab, and times are less certain.
    pub predicted: u32,
    /// What some sides take, and that one; without those that are not predicted.
    pub sides: Vec<SideAdvice>,
}

/// What a side takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SideAdvice {
    /// The side L.
    pub side: u32,
    /// Picoseconds of an update on one GPU.
    pub one: f64,
    /// Picoseconds of an update on all, by the fastest method.
    pub all: f64,
    /// That method.
    pub exchange: Exchange,
    /// Whether it is overlapped.
    pub overlap: bool,
}

/// Advice for these GPUs in this order; `None` for fewer than two, and where a rate is not known.
pub fn spin_glass_advice(model: &Model, gpus: &[NodeId]) -> Option<SpinGlassAdvice> {
    if gpus.len() < 2 {
        return None;
    }
    let pace = model.slowest_pace(gpus)?;
    let sends = super::around(gpus);
    let timed = |method| Some((method, model.exchange_time(&sends, method)?));
    let times: Vec<(Exchange, ExchangeTime)> = Exchange::ALL.into_iter().filter_map(timed).collect();
    let names: Vec<String> = gpus.iter().map(|gpu| model.machine.fabric.node(*gpu).name.clone()).collect();
    let lattice = |count: usize, side, exchange, overlap| {
        let gpus = names[..count].to_vec();
        SpinGlass { gpus, blocks: None, side, weak: false, exchange, overlap }
    };
    let ps = |lattice: &SpinGlass, half: HalfSweep| half.total / (lattice.places() as f64 / 2.0) * 1e12;
    let at = |side: u32| {
        let one = lattice(1, side, Exchange::Stores, false);
        let one = ps(&one, HalfSweep::of(&one, pace, None)?);
        let ways = times.iter().flat_map(|(exchange, time)| [true, false].map(|overlap| (*exchange, time, overlap)));
        let all = ways.filter_map(|(exchange, time, overlap)| {
            let lattice = lattice(names.len(), side, exchange, overlap);
            if lattice.problem().is_some() {
                return None;
            }
            let all = ps(&lattice, HalfSweep::of(&lattice, pace, Some(time))?);
            Some(SideAdvice { side, one, all, exchange, overlap })
        });
        all.min_by(|a, b| a.all.total_cmp(&b.all))
    };
    let sides: Vec<u32> = (SpinGlass::STEP..=SpinGlass::LARGEST).step_by(SpinGlass::STEP as usize).collect();
    let wins = |side: &u32| at(*side).is_some_and(|advice| advice.all < advice.one);
    let from = sides.iter().rev().copied().take_while(wins).last();
    let at_the_latest = from.is_some_and(|from| from > SpinGlass::STEP && at(from - SpinGlass::STEP).is_none());
    let beyond = |side: &u32| is_beyond_caches(&lattice(names.len(), *side, Exchange::Stores, true));
    let predicted = sides.iter().copied().find(beyond)?;
    let mut shown: Vec<u32> = SHOWN.into_iter().chain(from).collect();
    shown.sort_unstable();
    shown.dedup();
    let sides: Vec<SideAdvice> = shown.into_iter().filter_map(at).collect();
    (!sides.is_empty()).then_some(SpinGlassAdvice { gpus: gpus.len(), from, at_the_latest, predicted, sides })
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane_machine::fabric::NodeKind;
    use peerlane_read::catalogue::{Parts, system};

    fn advice(name: &str, count: usize) -> Option<SpinGlassAdvice> {
        let machine = system(name).unwrap().unwrap();
        let gpus: Vec<NodeId> = machine.fabric.of_kind(NodeKind::Gpu).take(count).collect();
        spin_glass_advice(&Model::new(&machine, Parts::embedded()), &gpus)
    }

    /// Two H200 were measured to be slower than one at L = 128, and faster at 256 (docs/applications.md).
    #[test]
    fn two_gpus_are_faster_from_where_memory_binds() {
        let two = advice("hgx-h200", 2).unwrap();
        assert!(matches!(two.from, Some(192 | 256)) && !two.at_the_latest, "{two:?}");
        let side = |side: u32| *two.sides.iter().find(|advice| advice.side == side).unwrap();
        assert!(side(128).all > side(128).one && side(256).all < 0.6 * side(256).one, "{two:?}");
        assert_eq!((side(256).exchange, side(256).overlap), (Exchange::Stores, true));
        // what was measured is 9.16 and 4.82 ps, of GPUs whose copies are 7 % faster than described
        assert!((9.0..10.2).contains(&side(256).one) && (4.7..5.5).contains(&side(256).all), "{two:?}");
        // each listed side is as the model says of that lattice
        let machine = system("hgx-h200").unwrap().unwrap();
        let lattice = SpinGlass {
            gpus: ["GPU0", "GPU1"].map(str::to_owned).to_vec(),
            blocks: None,
            side: 512,
            weak: false,
            exchange: side(512).exchange,
            overlap: side(512).overlap,
        };
        let half = Model::new(&machine, Parts::embedded()).spin_glass(&lattice).unwrap().total;
        assert!((half / 2_f64.powi(26) * 1e12 / side(512).all - 1.0).abs() < 1e-12);
    }

    #[test]
    fn more_gpus_are_faster_at_the_same_side_and_begin_later() {
        let [two, eight] = [2, 8].map(|count| advice("hgx-h200", count).unwrap());
        let all = |advice: &SpinGlassAdvice| advice.sides.iter().find(|a| a.side == 1024).unwrap().all;
        assert!(all(&eight) < 0.3 * all(&two), "{eight:?}");
        assert!(eight.from.is_some());
    }

    #[test]
    fn one_gpu_has_none_and_what_caches_hold_is_not_claimed() {
        assert_eq!(advice("hgx-h200", 1), None);
        // an A100's L2 is not known to make small lattices faster by how much
        let unsure = advice("dgx-a100", 2).unwrap();
        assert!(unsure.at_the_latest && unsure.sides.iter().all(|advice| advice.side >= 256), "{unsure:?}");
    }
}
