//! The samples of steps that run at once: prepare, warm up, sample until it is enough, verify, give back.

use super::{Executor, Failure, Sample, Verdict};
use crate::plan::{Method, Step, Work};
use crate::run::FlagKind;
use peerlane_machine::stats::Median;
use peerlane_machine::units::{Bytes, Seconds};

/// Samples of a batch while warming up.
const WARM_BATCH: usize = 2;

/// Batches in which a trend is looked for: two earlier and two later ones.
const WARM_WINDOW: usize = 4;

/// The most batches of a warm-up.
const WARM_MOST: usize = 12;

/// The part of a step's time after which warming up ends as soon as batches do not look like a trend, however few.
const WARM_SHARE: f64 = 0.25;

/// How much steps are given.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// Time, in which they are measured as well as they can be; what is least is done even where it is 0.
    pub(super) time: Seconds,
    /// The most samples of an allocation.
    pub(super) most: usize,
    /// How often memory is allocated.
    pub(super) allocations: usize,
}

impl Effort {
    /// What steps that run at once may have in so much time.
    pub(super) fn within<'a>(time: Seconds, method: &Method, steps: impl IntoIterator<Item = &'a Step>) -> Self {
        let allocations = steps.into_iter().map(|step| allocations(step, method)).max().unwrap_or(1);
        Effort { time, most: method.most_samples, allocations }
    }
}

/// How often a step's memory is allocated.
pub(super) fn allocations(step: &Step, method: &Method) -> usize {
    if step.work.kind().depends_on_allocation() { method.allocations.max(1) } else { 1 }
}

/// What was got of one step.
#[derive(Clone, Debug)]
pub(super) struct Sampled {
    /// Bytes a message.
    pub(super) size: Bytes,
    /// Samples of each allocation.
    pub(super) groups: Vec<Vec<Sample>>,
    /// The worst of all allocations.
    pub(super) verdict: Verdict,
}

impl Sampled {
    /// The step's one number: of several transfers their sum, else the first of a sample.
    pub(super) fn median(&self, work: &Work) -> Option<Median> {
        let groups: Vec<Vec<f64>> = self.groups.iter().map(|group| headlines(work, group)).collect();
        Median::of_groups(&groups)
    }
}

fn headlines(work: &Work, samples: &[Sample]) -> Vec<f64> {
    let kind = work.kind();
    samples.iter().map(|sample| kind.headline(sample)).collect()
}

/// Measures steps at once.
pub(super) fn take(
    executor: &mut dyn Executor,
    steps: &[&Step],
    method: &Method,
    effort: Effort,
) -> Result<Vec<Sampled>, Failure> {
    let end = executor.now().seconds() + effort.time.seconds();
    let mut all: Vec<Sampled> = Vec::new();
    for allocation in 0..effort.allocations {
        let now = executor.now().seconds();
        if allocation > 0 && now >= end {
            break;
        }
        let time = (end - now).max(0.0) / (effort.allocations - allocation) as f64;
        let one = Allocation { steps, method, most: effort.most.max(method.least_samples), end: now + time, time };
        let taken = one.take(executor, allocation).inspect_err(|failure| {
            if !failure.fatal {
                executor.release();
            }
        })?;
        executor.release();
        if allocation == 0 {
            all = taken;
            continue;
        }
        for (before, new) in all.iter_mut().zip(taken) {
            before.groups.extend(new.groups);
            before.verdict = worse(std::mem::replace(&mut before.verdict, Verdict::Intact), new.verdict);
        }
    }
    Ok(all)
}

/// The verdict that matters more; of two alike the earlier.
fn worse(a: Verdict, b: Verdict) -> Verdict {
    match (&a, &b) {
        (Verdict::Corrupt(_), _) | (_, Verdict::Intact) => a,
        (Verdict::Unverified(_), Verdict::Unverified(_)) => a,
        _ => b,
    }
}

/// One allocation of the memory of steps.
struct Allocation<'a> {
    steps: &'a [&'a Step],
    method: &'a Method,
    most: usize,
    /// By the executor's clock.
    end: f64,
    /// From its beginning.
    time: f64,
}

impl Allocation<'_> {
    fn take(&self, executor: &mut dyn Executor, allocation: usize) -> Result<Vec<Sampled>, Failure> {
        let sizes = executor.prepare(self.steps, self.method, allocation)?;
        if sizes.len() != self.steps.len() {
            return Err(broken(format!("{} sizes for {} steps", sizes.len(), self.steps.len())));
        }
        if allocation == 0 {
            self.warm_up(executor)?;
        } else {
            // all is warm but what is new
            self.batch(executor, WARM_BATCH)?;
        }
        let samples = self.sample(executor)?;
        let mut verdicts = executor.verify()?.into_iter();
        let mut verdict = || verdicts.next().unwrap_or_else(|| Verdict::Unverified("it was not compared".to_owned()));
        let taken = sizes.into_iter().zip(samples);
        Ok(taken.map(|(size, samples)| Sampled { size, groups: vec![samples], verdict: verdict() }).collect())
    }

    /// Runs the steps until the last batches show no trend, however late it is: what is measured before is neither the
    /// cold nor the warm rate. Where it is late, two batches that agree show it, or three that neither rise nor fall; one in
    /// itself where the steps ran before.
    fn warm_up(&self, executor: &mut dyn Executor) -> Result<(), Failure> {
        let late = self.end - (1.0 - WARM_SHARE) * self.time;
        let mut medians: Vec<Vec<f64>> = vec![Vec::new(); self.steps.len()];
        for _ in 0..WARM_MOST {
            let batch = self.batch(executor, WARM_BATCH)?;
            let mut alike = executor.runs_while_preparing();
            for ((of, step), samples) in medians.iter_mut().zip(self.steps).zip(&batch) {
                let values = headlines(&step.work, samples);
                alike &= values.windows(2).all(|two| is_settled(two, self.method.precision));
                of.extend(Median::of(&values).map(|m| m.value));
            }
            let trending = medians.iter().any(|of| is_trending(of, self.method.precision));
            let enough = medians.iter().all(|of| of.len() >= WARM_WINDOW);
            let settled = || medians.iter().all(|of| is_settled(of, self.method.precision));
            if (enough && !trending) || ((alike || settled()) && executor.now().seconds() >= late) {
                break;
            }
        }
        Ok(())
    }

    /// Samples until every step's interval is as narrow as requested, or there are as many as allowed, or the time is over.
    fn sample(&self, executor: &mut dyn Executor) -> Result<Vec<Vec<Sample>>, Failure> {
        let least = self.method.least_samples.max(1);
        let began = executor.now().seconds();
        let mut all: Vec<Vec<Sample>> = vec![Vec::new(); self.steps.len()];
        let mut n = 0;
        let mut wanted = least;
        loop {
            for (of, batch) in all.iter_mut().zip(self.batch(executor, wanted)?) {
                of.extend(batch);
            }
            n = all.iter().map(Vec::len).min().unwrap_or(n);
            let is_narrow =
                |values: &[f64]| Median::of(values).is_some_and(|m| m.relative_width() <= self.method.precision);
            let narrow = |(step, samples): (&&Step, &Vec<Sample>)| {
                let kind = step.work.kind();
                let of = |at: usize| samples.iter().filter_map(|sample| sample.get(at).copied()).collect::<Vec<f64>>();
                // a small copy answers by two numbers, and others by one, whatever is a part of it
                let mut others = 1..kind.numbers().min(kind.answers().len());
                is_narrow(&headlines(&step.work, samples)) && others.all(|at| is_narrow(&of(at)))
            };
            let left = self.end - executor.now().seconds();
            let enough = self.steps.iter().zip(&all).all(narrow) || n >= self.most || left <= 0.0;
            if n >= least && enough {
                return Ok(all);
            }
            // the interval's ranks move up every third sample
            let each = (self.end - left - began) / n.max(1) as f64;
            let fits = if each > 0.0 { (left / each) as usize } else { usize::MAX };
            wanted = if n < least { least - n } else { (n / 3).max(3).min(self.most - n).min(fits).max(1) };
        }
    }

    /// A batch of which every sample is what it should be.
    fn batch(&self, executor: &mut dyn Executor, n: usize) -> Result<Vec<Vec<Sample>>, Failure> {
        let batch = executor.sample(n)?;
        if batch.len() != self.steps.len() || batch.iter().any(Vec::is_empty) {
            return Err(broken("no samples of some step".to_owned()));
        }
        for (step, samples) in self.steps.iter().zip(&batch) {
            let kind = step.work.kind();
            let values = kind.numbers();
            if let Some(bad) = samples.iter().find(|sample| sample.len() != values) {
                return Err(broken(format!("a sample has {} numbers, not {values}", bad.len())));
            }
            let possible = |s: &Sample| s.iter().all(|x| x.is_finite()) && kind.is_possible(s);
            if let Some(bad) = samples.iter().find(|sample| !possible(sample)) {
                let message = format!(
                    "a sample is {bad:?}, which no time or rate can be: the library did not do the work, or the clock is wrong"
                );
                return Err(Failure::new(FlagKind::Implausible, message));
            }
        }
        Ok(batch)
    }
}

/// Whether the last two medians agree within the requested precision, or the last three neither rise nor fall.
fn is_settled(medians: &[f64], precision: f64) -> bool {
    let agree = |[a, b]: &[f64; 2]| (b - a).abs() <= precision * b.abs();
    let turns = |[a, b, c]: &[f64; 3]| (b - a) * (c - b) <= 0.0;
    medians.last_chunk().is_some_and(agree) || medians.last_chunk().is_some_and(turns)
}

/// Whether the last two medians differ from the two before by more than the requested precision, and by more than the two of a
/// half differ from each other, as noise alone seldom does and a cold start does at every batch.
fn is_trending(medians: &[f64], precision: f64) -> bool {
    let Some(&[a, b, c, d]) = medians.len().checked_sub(WARM_WINDOW).and_then(|at| medians.get(at..)) else {
        return false;
    };
    let change = ((c + d) - (a + b)).abs() / 2.0;
    let within = ((b - a).abs() + (d - c).abs()) / 2.0;
    change > precision * d.abs() && change > within
}

/// An executor that does not do what it promises.
fn broken(message: String) -> Failure {
    Failure::new(FlagKind::Failed, format!("the measurement is broken: {message}"))
}
