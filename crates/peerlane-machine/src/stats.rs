//! What samples say: their median with an interval, and their anomalies.
//!
//! Nothing here assumes a shape of the noise. Times of transfers have a hard floor, a long tail, steps of a clock and
//! often several levels, so that ranks are used where a mean and a standard deviation would mislead.
//! `docs/measurement.md` gives the reasons and sources.

mod outliers;

pub use outliers::{Drift, drift, modes, outliers};

/// Samples from which on the interval's ranks are taken from the normal distribution; 0.5ⁿ is still a number there.
const MANY: usize = 1000;

/// Half of the standard normal distribution's two-sided 95 % point.
const HALF_Z: f64 = 1.959_964 / 2.0;

/// A median with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Median {
    /// The median.
    pub value: f64,
    /// Low end of its 95 % interval, or the least sample where there are fewer than 6.
    pub low: f64,
    /// High end, or the greatest.
    pub high: f64,
    /// Samples.
    pub n: usize,
}

impl Median {
    /// From samples in any order; `None` of no samples, or where one is no finite number.
    ///
    /// The interval is distribution-free: the k-th least and k-th greatest of n samples enclose the median with
    /// probability 1 − 2·P(Binomial(n, ½) < k), and k is the largest that keeps it at 95 % or above.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let sorted = sorted(samples)?;
        let n = sorted.len();
        let cut = cut(n);
        Some(Median { value: middle(&sorted), low: sorted[cut], high: sorted[n - 1 - cut], n })
    }

    /// From groups of samples, each of which was taken under conditions that were drawn anew (memory allocated
    /// again), so that the interval says where another draw may lie.
    ///
    /// The value is the median of the groups' medians. The interval holds that of all samples and the median of each
    /// group. Of one group it is [`Median::of`].
    pub fn of_groups(groups: &[Vec<f64>]) -> Option<Self> {
        let pooled = Median::of(&groups.concat())?;
        let medians: Vec<f64> = groups.iter().filter_map(|g| Median::of(g)).map(|m| m.value).collect();
        let medians = sorted(&medians)?;
        let (least, greatest) = (medians[0], medians[medians.len() - 1]);
        let (low, high) = (pooled.low.min(least), pooled.high.max(greatest));
        Some(Median { value: middle(&medians), low, high, n: pooled.n })
    }

    /// From the median to the farther end of its interval, as a share of the median; infinite for a median of 0.
    pub fn relative_width(&self) -> f64 {
        let farther = (self.high - self.value).max(self.value - self.low);
        if farther == 0.0 { 0.0 } else { farther / self.value.abs() }
    }
}

/// Centres of the levels that groups of samples lie on, where there are several: neighbours whose intervals do not
/// meet, and whose medians differ by more than a share `least` of themselves, are on different levels.
pub fn levels(groups: &[Vec<f64>], least: f64) -> Vec<f64> {
    let mut medians: Vec<Median> = groups.iter().filter_map(|g| Median::of(g)).collect();
    medians.sort_by(|a, b| a.value.total_cmp(&b.value));
    let apart = |a: &Median, b: &Median| a.high < b.low && b.value - a.value > least * a.value.abs();
    let levels: Vec<f64> = medians
        .chunk_by(|a, b| !apart(a, b))
        .map(|level| middle(&level.iter().map(|m| m.value).collect::<Vec<_>>()))
        .collect();
    if levels.len() > 1 { levels } else { Vec::new() }
}

/// In order; `None` of none, or where one is no finite number.
fn sorted(samples: &[f64]) -> Option<Vec<f64>> {
    if samples.is_empty() || !samples.iter().all(|x| x.is_finite()) {
        return None;
    }
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some(sorted)
}

/// Median of samples in order; 0 of none.
fn middle(sorted: &[f64]) -> f64 {
    match sorted.len() {
        0 => 0.0,
        n => f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2]),
    }
}

/// How many samples may be cut off at each end so that what is left encloses the median with 95 %.
fn cut(n: usize) -> usize {
    if n > MANY {
        // P(Binomial(n, ½) < k) ≈ Φ((k − ½ − n/2) / (√n / 2))
        let n = n as f64;
        return ((n + 1.0) / 2.0 - HALF_Z * n.sqrt()) as usize - 1;
    }
    let mut probability = 0.5_f64.powi(n as i32);
    let mut below = probability;
    let mut k = 0;
    while below <= 0.025 && k + 1 < n.div_ceil(2) {
        k += 1;
        probability *= (n - k + 1) as f64 / k as f64;
        below += probability;
    }
    k.saturating_sub(1)
}

#[cfg(test)]
mod tests;
