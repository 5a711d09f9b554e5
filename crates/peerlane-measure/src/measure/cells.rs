//! From samples to cells: values in their units, and flags for anomalies.

use super::sampling::Sampled;
use super::{Failure, Sample, Verdict};
use crate::plan::{Method, Step, Work};
use crate::run::{Cell, Estimate, Flag, FlagKind, Phases};
use peerlane_machine::exchange::Exchange;
use peerlane_machine::matrix::{Quantity, Unit};
use peerlane_machine::stats::{Drift, Median, drift, levels, modes, outliers};

/// An effect is worth a remark if it is larger than so many times the asked precision: what is smaller changes
/// nothing that a person would do, and the samples are kept.
const MATTERS: f64 = 3.0;

/// The cells of a step that was measured; `flags` say how, and `between_runs` by what share of itself a quantity differs
/// from run to run.
pub(super) fn cells(
    index: usize,
    step: &Step,
    taken: &Sampled,
    method: &Method,
    flags: &[Flag],
    between_runs: &dyn Fn(Quantity) -> f64,
) -> Vec<Cell> {
    let mut flags = flags.to_vec();
    let kind = step.work.kind();
    match &taken.verdict {
        Verdict::Corrupt(how) => flags.push(Flag::new(FlagKind::Corrupt, how)),
        Verdict::Unverified(why) if kind.has_content() => flags.push(Flag::new(FlagKind::Unverified, why)),
        _ => {}
    }
    let cell = |&(quantity, unit): &(Quantity, Unit)| {
        let value = |sample: &Sample| kind.value(taken.size, (quantity, unit), sample);
        let groups = by_group(&taken.groups, value);
        let median = Median::of_groups(&groups);
        let (modes, mut remarks) = anomalies(&groups, median, method.precision, unit);
        remarks.splice(0..0, flags.iter().cloned());
        Cell {
            step: index,
            test: step.test,
            work: step.work.clone(),
            size: taken.size,
            quantity,
            unit,
            estimate: median.map(|median| wider(estimate(median), between_runs(quantity))),
            n: median.map_or(0, |m| m.n),
            each: each(step, taken),
            phases: phases(step, taken),
            registration: None,
            modes,
            flags: remarks,
            samples: groups.concat(),
        }
    };
    kind.answers().iter().map(cell).collect()
}

/// The cells of a step that has no value.
pub fn void(index: usize, step: &Step, failure: &Failure) -> Vec<Cell> {
    let flag = Flag::new(failure.kind, &failure.message);
    let cell = |&(quantity, unit): &_| Cell::void(index, step, step.size.most(), quantity, unit, flag.clone());
    step.work.kind().answers().iter().map(cell).collect()
}

/// Of several transfers, each one's rate.
fn each(step: &Step, taken: &Sampled) -> Vec<Estimate> {
    let count = match &step.work {
        Work::Transfers(transfers) if transfers.len() > 1 => transfers.len(),
        _ => 0,
    };
    let rate =
        |i: usize| Median::of_groups(&by_group(&taken.groups, |s: &Sample| s.get(i).map_or(f64::NAN, |r| r / 1e9)));
    (0..count).filter_map(rate).map(estimate).collect()
}

/// Of a lattice that is cut, what a half-sweep takes by part.
fn phases(step: &Step, taken: &Sampled) -> Option<Phases> {
    let Work::SpinGlass(lattice) = &step.work else { return None };
    if lattice.gpus.len() < 2 {
        return None;
    }
    let half = lattice.places() as f64 / 2.0;
    // the kernel itself stores, while it updates
    let apart = !lattice.overlap && lattice.exchange != Exchange::Stores;
    let part = |value: &dyn Fn(&[f64; 4]) -> f64| {
        let of = |sample: &Sample| sample.first_chunk().map_or(f64::NAN, |parts| 1e6 * value(parts));
        Median::of_groups(&by_group(&taken.groups, of)).map(estimate)
    };
    Some(Phases {
        update: part(&|parts| parts[1])?,
        boundary: part(&|parts| parts[2])?,
        exchange: part(&|parts| parts[3])?,
        wait: part(&|[place, update, _, exchange]| place * half - update - if apart { *exchange } else { 0.0 })?,
    })
}

fn by_group(groups: &[Vec<Sample>], value: impl Fn(&Sample) -> f64) -> Vec<Vec<f64>> {
    groups.iter().map(|group| group.iter().map(&value).collect()).collect()
}

fn estimate(median: Median) -> Estimate {
    Estimate { value: median.value, low: median.low, high: median.high }
}

/// An interval that reaches farther by a share of its value.
fn wider(Estimate { value, low, high }: Estimate, by: f64) -> Estimate {
    let more = by * value.abs();
    Estimate { value, low: low - more, high: high + more }
}

/// Groups of values, and flags for anomalies: that they lie on several levels, else that some are far off
/// and farther than the interval reaches; that they drift; that the interval is wide.
fn anomalies(groups: &[Vec<f64>], median: Option<Median>, precision: f64, unit: Unit) -> (Vec<f64>, Vec<Flag>) {
    let Some(median) = median else { return (Vec::new(), Vec::new()) };
    let matters = MATTERS * precision;
    let mut flags = Vec::new();
    let values = |all: &[f64]| {
        let words: Vec<String> = all.iter().map(|x| short(*x)).collect();
        format!("{} {}", words.join(", "), unit.name())
    };
    let (mut centres, mut what) = (levels(groups, matters), "it changes when memory is allocated anew:");
    if centres.is_empty() {
        (centres, what) = (modes(&groups.concat(), matters), "samples fall into groups around");
    }
    if !centres.is_empty() {
        flags.push(Flag::new(FlagKind::Modes, format!("{what} {}", values(&centres))));
    }
    // samples of another level are no outliers, nor are those within the interval
    let outlying = |x: &f64| centres.is_empty() && !(median.low..=median.high).contains(x);
    let far = groups.iter().flat_map(|g| outliers(g, matters).into_iter().map(|i| g[i])).filter(outlying);
    let far: Vec<f64> = far.collect();
    if let Some(farthest) = far.iter().max_by(|a, b| (*a - median.value).abs().total_cmp(&(*b - median.value).abs())) {
        let detail = format!("{} of {} samples lie far off, at most at {}", far.len(), median.n, values(&[*farthest]));
        flags.push(Flag::new(FlagKind::Outliers, detail));
    }
    let strongest = |a: &Drift, b: &Drift| a.share.abs().total_cmp(&b.share.abs());
    if let Some(Drift { share, .. }) = groups.iter().filter_map(|g| drift(g, matters)).max_by(strongest) {
        let (trend, percent) = (if share > 0.0 { "rise" } else { "fall" }, share.abs() * 100.0);
        flags.push(Flag::new(FlagKind::Drift, format!("samples {trend} by {percent:.1} % while they are taken")));
    }
    let width = median.relative_width();
    let imprecise = match median.n {
        ..6 => Some(format!("{} samples give no 95 % interval, only a range", median.n)),
        _ => (width > precision)
            .then(|| format!("within {:.1} %; {:.1} % was requested", width * 100.0, precision * 100.0)),
    };
    flags.extend(imprecise.map(|detail| Flag::new(FlagKind::Imprecise, detail)));
    (centres, flags)
}

/// With four digits that matter.
fn short(x: f64) -> String {
    let digits = if x == 0.0 { 0.0 } else { (3.0 - x.abs().log10().floor()).clamp(0.0, 9.0) };
    format!("{x:.*}", digits as usize)
}
