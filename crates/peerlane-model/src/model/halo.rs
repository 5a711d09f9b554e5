//! Advice for a halo exchange: which method for faces of which size, and from which size overlap pays and hides it wholly
//! (`docs/applications.md`).

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

mod time;

pub use time::HaloTime;

use super::Model;
use super::exchange::ExchangeTime;
use super::spin_glass::{HalfSweep, Pace, SpinGlassAdvice, around, is_beyond_caches, spin_glass_advice};
use peerlane_machine::exchange::Exchange;
use peerlane_machine::fabric::NodeId;
use peerlane_machine::spin_glass::SpinGlass;

/// Sizes of faces whose times are given.
const FACES: [u64; 4] = [16 << 10, 256 << 10, 4 << 20, 64 << 20];

/// Which method to use for a halo exchange.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HaloAdvice {
    /// The fastest method, by the size of a face: each from its size on until the next one's.
    pub fastest: Vec<FastestFrom>,
    /// What each method takes; without those that need peer access where there is none.
    pub methods: Vec<MethodAdvice>,
    /// Bytes that the memory of the slowest GPU moves in a second under copies; null where that is not known.
    pub memory_rate: Option<f64>,
    /// From which spin glass on these GPUs together are faster than one; null where that is not known.
    pub spin_glass: Option<SpinGlassAdvice>,
}

/// From which size of a face a method is the fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FastestFrom {
    /// Bytes of a face.
    pub face: u64,
    /// The method.
    pub exchange: Exchange,
}

/// What an exchange by one method takes, and what overlap does for it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MethodAdvice {
    /// The method.
    pub exchange: Exchange,
    /// Bytes of a face, and microseconds of the exchange.
    pub times: Vec<(u64, f64)>,
    /// For a spin glass on these GPUs; null where their memory's rate is not known.
    pub spin_glass: Option<OverlapFrom>,
}

/// From which side L of a spin glass overlap pays. Sides are multiples of 64; null where no side up to 4096 is enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OverlapFrom {
    /// From here on memory alone binds; below, caches hold a notable part of the lattice, and sides are less certain.
    pub predicted: u32,
    /// From here on it makes a half-sweep faster.
    pub pays: Option<u32>,
    /// From here on the exchange is over before the rest is updated.
    pub hides: Option<u32>,
    /// Bytes of each GPU's part there.
    pub hides_bytes: Option<u64>,
}

impl HaloAdvice {
    /// Bytes that a GPU's memory must move in the meantime, to hide an exchange of faces of this size by the fastest method.
    pub fn hidden_by(&self, face: u64) -> Option<f64> {
        let times = self.methods.iter().flat_map(|method| &method.times).filter(|(size, _)| *size == face);
        let least = times.map(|(_, us)| *us).reduce(f64::min)?;
        Some(least * 1e-6 * self.memory_rate?)
    }
}

/// Advice for GPUs of which each pair's first sends a face to its second, all at once, and for a spin glass cut among `gpus`
/// in this order; `None` for fewer than two, and where no method's rate is known.
pub fn halo_advice(model: &Model, gpus: &[NodeId], sends: &[(NodeId, NodeId)]) -> Option<HaloAdvice> {
    if gpus.len() < 2 || sends.is_empty() {
        return None;
    }
    let timed = |method| Some((method, model.exchange_time(sends, method)?));
    let times: Vec<(Exchange, ExchangeTime)> = Exchange::ALL.into_iter().filter_map(timed).collect();
    if times.is_empty() {
        return None;
    }
    let rates = gpus.iter().map(|gpu| model.memory_rate(*gpu).map(|rate| rate.bytes_per_second()));
    let memory_rate = rates.reduce(|a, b| Some(a?.min(b?)))?;
    let pace = model.slowest_pace(gpus);
    let names: Vec<String> = gpus.iter().map(|gpu| model.machine.fabric.node(*gpu).name.clone()).collect();
    let methods = times.iter().map(|(exchange, time)| MethodAdvice {
        exchange: *exchange,
        times: FACES.iter().map(|face| (*face, time.notified(*face as f64) * 1e6)).collect(),
        spin_glass: pace.and_then(|pace| {
            let ring = model.exchange_time(&around(gpus), *exchange)?;
            overlap(&names, *exchange, pace, &ring)
        }),
    });
    let spin_glass = spin_glass_advice(model, gpus);
    Some(HaloAdvice { methods: methods.collect(), fastest: fastest(&times), memory_rate, spin_glass })
}

/// The lower envelope of the methods' times.
fn fastest(times: &[(Exchange, ExchangeTime)]) -> Vec<FastestFrom> {
    let best = |face: u64| {
        let at = times.iter().map(|(exchange, time)| (time.notified(face as f64), *exchange));
        at.reduce(|a, b| if b.0 < a.0 { b } else { a }).map(|(_, exchange)| exchange)
    };
    let mut all: Vec<FastestFrom> = Vec::new();
    let mut last = 1;
    for face in (0..=34).map(|power| 1_u64 << power) {
        let Some(exchange) = best(face) else { continue };
        if all.last().is_none_or(|known| known.exchange != exchange) {
            // bisected between the last power of two and this one
            let (mut not, mut yes) = (last, face);
            while yes - not > 1 {
                let half = not + (yes - not) / 2;
                if best(half) == Some(exchange) { yes = half } else { not = half }
            }
            all.push(FastestFrom { face: if all.is_empty() { 1 } else { yes }, exchange });
        }
        last = face;
    }
    all
}

/// From which sides overlap pays, and hides the exchange, at each larger one, too.
fn overlap(gpus: &[String], exchange: Exchange, pace: Pace, ring: &ExchangeTime) -> Option<OverlapFrom> {
    let lattice =
        |side: u32, overlap| SpinGlass { gpus: gpus.to_vec(), blocks: None, side, weak: false, exchange, overlap };
    let sides = (SpinGlass::STEP..=SpinGlass::LARGEST).step_by(SpinGlass::STEP as usize);
    let sides: Vec<u32> = sides.filter(|side| lattice(*side, true).problem().is_none()).collect();
    let from = |holds: &dyn Fn(u32) -> bool| sides.iter().rev().copied().take_while(|side| holds(*side)).last();
    let half_sweep = |side, overlap| HalfSweep::of(&lattice(side, overlap), pace, Some(ring));
    let hides = from(&|side| half_sweep(side, true).is_some_and(|half| half.hides()));
    Some(OverlapFrom {
        predicted: sides.iter().copied().find(|side| is_beyond_caches(&lattice(*side, true)))?,
        pays: from(&|side| half_sweep(side, true).zip(half_sweep(side, false)).is_some_and(|(a, b)| a.total < b.total)),
        hides,
        hides_bytes: hides.map(|side| lattice(side, true).bytes().0 / gpus.len() as u64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane_machine::fabric::NodeKind;
    use peerlane_read::catalogue::{Parts, system};

    /// Of faces each way between two GPUs.
    fn advice(name: &str, a: &str, b: &str) -> HaloAdvice {
        let machine = system(name).unwrap().unwrap();
        let [a, b] = [a, b].map(|gpu| machine.fabric.find(gpu).unwrap());
        halo_advice(&Model::new(&machine, Parts::embedded()), &[a, b], &[(a, b), (b, a)]).unwrap()
    }

    fn methods(advice: &HaloAdvice) -> Vec<Exchange> {
        advice.methods.iter().map(|method| method.exchange).collect()
    }

    fn fastest(advice: &HaloAdvice) -> Vec<(u64, Exchange)> {
        advice.fastest.iter().map(|from| (from.face, from.exchange)).collect()
    }

    #[test]
    fn kernels_store_small_faces_and_copy_engines_carry_large_ones_where_they_are_faster() {
        let nvlink = advice("hgx-h200", "GPU0", "GPU1");
        let [(1, Exchange::Stores), (from, Exchange::Copies)] = fastest(&nvlink)[..] else { panic!("{nvlink:?}") };
        // 13.3 us, for words and the copies' start-up, at the rates that both ways at once have
        assert!((68 << 20..73 << 20).contains(&from), "{from}");
        // at that size both take the same
        let machine = system("hgx-h200").unwrap().unwrap();
        let model = Model::new(&machine, Parts::embedded());
        let gpus: Vec<NodeId> = machine.fabric.of_kind(NodeKind::Gpu).take(2).collect();
        let sends = [(gpus[0], gpus[1]), (gpus[1], gpus[0])];
        let [stores, copies] = [Exchange::Stores, Exchange::Copies].map(|m| model.exchange_time(&sends, m).unwrap());
        assert!(copies.notified(from as f64) < stores.notified(from as f64));
        assert!(copies.notified(from as f64 - 1.0) >= stores.notified(from as f64 - 1.0));
        // as fast as what the copies' start-up is saved by, on a slower path
        let switch = advice("exxact-txr550", "GPU0", "GPU1");
        let [(1, Exchange::Stores), (from, Exchange::Copies)] = fastest(&switch)[..] else { panic!("{switch:?}") };
        assert!((2500 << 10..3 << 20).contains(&from), "{from}");
    }

    #[test]
    fn what_peer_access_is_not_there_for_is_left_out() {
        let across = advice("exxact-traditional", "GPU0", "GPU3");
        assert_eq!(fastest(&across), [(1, Exchange::Staged)]);
        assert_eq!(methods(&across), [Exchange::Staged]);
        assert_eq!(methods(&advice("exxact-txr550", "GPU0", "GPU7")), Exchange::ALL);
    }

    #[test]
    fn overlap_hides_from_where_the_rest_takes_as_long_as_the_exchange() {
        let nvlink = advice("hgx-h200", "GPU0", "GPU1");
        let staged = nvlink.methods[2].spin_glass.unwrap();
        // (L / 2 - 2) · 4.38 ps · L² against two messages of 6 L² bytes, down and up at 53 GB/s, and 3.9 us
        assert_eq!(staged.hides, Some(448));
        assert_eq!(staged.hides_bytes, Some(13 * 448_u64.pow(3) / 2));
        assert!(nvlink.methods[0].spin_glass.unwrap().hides < staged.hides);
        let hidden = nvlink.hidden_by(4 << 20).unwrap();
        let (_, us) = nvlink.methods[0].times[2];
        assert!((hidden / (us * 1e-6 * nvlink.memory_rate.unwrap()) - 1.0).abs() < 1e-9);
    }
}
