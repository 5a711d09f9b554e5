//! What samples say: their median with an interval, and what is odd about them.

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
    /// From samples in any order; `None` of no samples, or where one is no number.
    ///
    /// The interval is distribution-free: the k-th least and k-th greatest of n samples enclose the median with
    /// probability 1 − 2·P(Binomial(n, ½) < k), and k is the largest that keeps it at 95 % or above.
    pub fn of(samples: &[f64]) -> Option<Self> {
        if samples.is_empty() || samples.iter().any(|x| x.is_nan()) {
            return None;
        }
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let value = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0;
        let k = rank(n);
        Some(Median { value, low: sorted[k], high: sorted[n - 1 - k], n })
    }

    /// From the median to the farther end of its interval, as a share of the median; infinite for a median of 0.
    pub fn relative_width(&self) -> f64 {
        let farther = (self.high - self.value).max(self.value - self.low);
        if farther == 0.0 { 0.0 } else { farther / self.value.abs() }
    }
}

/// How many samples may be cut off at each end so that what is left encloses the median with 95 %.
fn rank(n: usize) -> usize {
    let mut probability = 0.5_f64.powi(i32::try_from(n).unwrap_or(i32::MAX));
    let mut below = probability;
    let mut k = 0;
    // beyond some thousand samples the first term is 0, and the whole range the honest answer
    while below > 0.0 && below <= 0.025 && k + 1 < n.div_ceil(2) {
        k += 1;
        probability *= (n - k + 1) as f64 / k as f64;
        below += probability;
    }
    k.saturating_sub(1)
}
