//! Which splits there are, and which of them are fastest.
//!
//! Costs are those of a step ([`training`](crate::simulate::model_step::training)), so that a plan and a simulation say the same. Splits
//! are tried in the order of what they take without communication, which is the least that they can take, until no other can be
//! among the best.

use std::collections::BTreeMap;

use crate::simulate::SimulateError;
use crate::simulate::model_step::architecture::Architecture;
use crate::simulate::model_step::compute::Gpu;
use crate::simulate::model_step::rates::Rates;
use crate::simulate::model_step::spent::Cost;
use crate::simulate::model_step::split::{Batch, Recompute, Split, Training};
use crate::simulate::model_step::training::Stepper;

/// A sequence is not cut into fewer tokens.
const LEAST_TOKENS: usize = 1024;
/// Most chunks of a stage.
const MOST_CHUNKS: usize = 12;
/// What takes more than this multiple of the memory is not shown as what more memory would give.
const WORTH_SAYING: f64 = 1.5;
/// Most sequences of a micro-batch.
const MOST_SEQUENCES: usize = 64;
/// A split with fewer kinds of parallelism, or of as many one with shorter rings of keys and values, comes first where it is no slower than
/// this multiple of the fastest: what it takes to run more of them is not in the model, and few programs have long rings.
pub const WORTH_A_KIND: f64 = 1.02;

/// A split with what it costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Planned {
    /// How the model is divided.
    pub split: Split,
    /// What it takes.
    pub cost: Cost,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// The fastest that fit, the fastest first, but for one with fewer kinds of parallelism that is nearly as fast.
    pub best: Vec<Planned>,
    /// The fastest that does not fit, where it is faster than all that do.
    pub too_large: Option<Planned>,
    /// Splits that divide the model, the batch and the GPUs.
    pub splits: usize,
    /// Of these, those that fit.
    pub fitting: usize,
    /// Bytes of a GPU's memory that the smallest of them takes.
    pub least_memory: f64,
    /// Of these, those whose communication was looked at.
    pub tried: usize,
}

/// Splits of a job on so many GPUs, `node_size` of them a node, that are worth a look: tensor groups within a node, micro-batches of
/// a power of two, as many chunks as divide the layers.
pub fn candidates(job: &Training, gpus: usize, node_size: usize) -> Vec<Split> {
    let model = &job.model;
    let Batch::Sequences(batch) = job.batch else { return Vec::new() };
    let mut found = Vec::new();
    for tp in divisors(node_size.min(gpus)) {
        for cp in powers(job.seq / LEAST_TOKENS).filter(|cp| job.seq.is_multiple_of(*cp)) {
            for pp in 1..=model.layers {
                let of_copy = tp * cp * pp;
                if !gpus.is_multiple_of(of_copy) || !batch.is_multiple_of(gpus / of_copy) {
                    continue;
                }
                let dp = gpus / of_copy;
                let base = Split { tp, sp: tp > 1, cp, pp, dp, ..Split::default() };
                for mbs in powers(MOST_SEQUENCES).filter(|mbs| (batch / dp).is_multiple_of(*mbs)) {
                    let micro = batch / dp / mbs;
                    let chunks = (1..=MOST_CHUNKS).filter(|v| {
                        *v == 1 || (pp > 1 && micro.is_multiple_of(pp) && model.layers.is_multiple_of(pp * v))
                    });
                    for chunks in chunks {
                        for ep in experts(model, tp * cp * dp) {
                            let zeros: &[u8] = if pp == 1 && cp * dp > 1 { &[1, 2, 3] } else { &[1] };
                            for (zero, recompute) in
                                zeros.iter().flat_map(|zero| Recompute::ALL.map(|how| (*zero, how)))
                            {
                                let split = Split { mbs, chunks, ep, zero, recompute, ..base };
                                found.push(split);
                                if pp > 1 && chunks == 1 {
                                    found.push(Split { zero_bubble: true, ..split });
                                }
                            }
                        }
                    }
                }
            }
        }
    }
    found
}

fn experts(model: &Architecture, ranks: usize) -> Vec<usize> {
    match model.experts {
        None => vec![1],
        Some(experts) => divisors(experts.count).filter(|ep| ranks.is_multiple_of(*ep)).collect(),
    }
}

fn divisors(n: usize) -> impl Iterator<Item = usize> {
    (1..=n).filter(move |d| n.is_multiple_of(*d))
}

/// 1, 2, 4 … up to `most`, and always 1.
fn powers(most: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(1_usize), |n| n.checked_mul(2)).take_while(move |n| *n <= most.max(1))
}

/// How many kinds of parallelism a split has; gradients of weights that fill the bubble are one that few programs have.
pub fn kinds(split: &Split) -> usize {
    let Split { tp, cp, pp, dp, ep, zero_bubble, .. } = *split;
    [tp > 1, cp > 1, pp > 1, dp > 1, ep > 1, zero_bubble].into_iter().filter(|is| *is).count()
}

/// The `top` fastest of these splits that fit; before them one with fewer kinds of parallelism that is nearly as fast.
///
/// # Errors
/// Where a rate is not known.
pub fn search(
    job: &Training,
    gpu: &Gpu,
    gpus: usize,
    splits: &[Split],
    rates: &mut Rates,
    top: usize,
) -> Result<Found, SimulateError> {
    let mut found = Found { least_memory: f64::INFINITY, ..Found::default() };
    let mut silent = rates.silent();
    let mut least: Vec<(f64, bool, Split)> = Vec::new();
    for split in splits {
        let job = Training { split: *split, ..job.clone() };
        // what does not divide is no candidate
        let Ok(stepper) = Stepper::new(&job, gpu, gpus) else { continue };
        found.splits += 1;
        let cost = stepper.cost(&mut silent)?;
        let fits = cost.memory.fits.unwrap_or(true);
        found.fitting += usize::from(fits);
        found.least_memory = found.least_memory.min(cost.memory.total);
        least.push((cost.time(), fits, *split));
    }
    least.sort_by(|a, b| a.0.total_cmp(&b.0).then_with(|| a.2.cmp(&b.2)));
    let mut slowest = f64::INFINITY;
    // by their number of kinds and the length of rings, the fastest
    let mut simple: BTreeMap<(usize, usize), Planned> = BTreeMap::new();
    for (time, _, split) in least.iter().filter(|(_, fits, _)| *fits) {
        let kinds = (kinds(split), split.cp);
        let nearly = WORTH_A_KIND * found.best.first().map_or(f64::INFINITY, |first| first.cost.time());
        let fastest_alike = simple.get(&kinds).map_or(f64::INFINITY, |known| known.cost.time());
        if *time > slowest.max(nearly) {
            break;
        }
        if *time > slowest && *time >= fastest_alike {
            continue;
        }
        found.tried += 1;
        let job = Training { split: *split, ..job.clone() };
        let cost = Stepper::new(&job, gpu, gpus)?.cost(rates)?;
        let planned = Planned { split: *split, cost };
        if planned.cost.time() < fastest_alike {
            simple.insert(kinds, planned.clone());
        }
        found.best.push(planned);
        found.best.sort_by(|a, b| a.cost.time().total_cmp(&b.cost.time()).then_with(|| a.split.cmp(&b.split)));
        found.best.truncate(top);
        if found.best.len() == top {
            slowest = found.best.last().map_or(f64::INFINITY, |last| last.cost.time());
        }
    }
    let first = found.best.first().map_or(f64::INFINITY, |first| first.cost.time());
    if let Some(simplest) = simple.into_values().find(|planned| planned.cost.time() <= WORTH_A_KIND * first) {
        found.best.retain(|planned| planned.split != simplest.split);
        found.best.insert(0, simplest);
        found.best.truncate(top);
    }
    let most = gpu.memory.map_or(f64::INFINITY, |size| WORTH_SAYING * size);
    for (time, _, split) in least.iter().filter(|(_, fits, _)| !*fits) {
        let fastest = found.too_large.as_ref().map_or(first, |known| known.cost.time());
        if *time >= fastest {
            break;
        }
        let job = Training { split: *split, ..job.clone() };
        let stepper = Stepper::new(&job, gpu, gpus)?;
        if stepper.memory().total > most && !found.best.is_empty() {
            continue;
        }
        let cost = stepper.cost(rates)?;
        if cost.time() < fastest {
            found.too_large = Some(Planned { split: *split, cost });
        }
    }
    Ok(found)
}
