//! Anomalies of samples: some lie far off, they drift, or they fall into groups.
//!
//! Each finding must be convincing, so that noise does not raise it, and large enough to matter: larger than a share
//! `least` of the median, the requested precision.

use super::{middle, sorted};

/// Modified z-score from which on a sample is an outlier (Iglewicz and Hoaglin, How to Detect and Handle Outliers,
/// 1993).
const FAR: f64 = 3.5;

/// Median of the absolute deviation of a normal distribution, in standard deviations.
const NORMAL_MAD: f64 = 0.6745;

/// Mean of the same.
const NORMAL_MEAN_DEVIATION: f64 = 0.7979;

/// Two-sided 1 % point of the standard normal distribution.
const SIGNIFICANT: f64 = 2.576;

/// The least samples in which a trend or groups can be detected.
const LEAST: usize = 6;

/// Blocks of neighbouring samples in which a trend is looked for. Rates stay on a level for several samples before they
/// change to another, and the test takes what it compares for independent.
const TREND_BLOCKS: usize = 12;

/// Indices of the samples whose modified z-score 0.6745·|x − median| / MAD is above 3.5, and that lie farther from
/// the median than a share `least` of it.
///
/// Where more than half of the samples are equal the MAD is 0, and the mean absolute deviation takes its place.
pub fn outliers(samples: &[f64], least: f64) -> Vec<usize> {
    let Some(ordered) = sorted(samples) else { return Vec::new() };
    let median = middle(&ordered);
    let Some(deviations) = sorted(&samples.iter().map(|x| (x - median).abs()).collect::<Vec<_>>()) else {
        return Vec::new();
    };
    let mad = middle(&deviations);
    let scale = if mad > 0.0 {
        mad / NORMAL_MAD
    } else {
        deviations.iter().sum::<f64>() / deviations.len() as f64 / NORMAL_MEAN_DEVIATION
    };
    let far = (FAR * scale).max(least * median.abs());
    (0..samples.len()).filter(|&i| (samples[i] - median).abs() > far).collect()
}

/// A trend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// Change from the first sample to the last, as a share of the median; negative where they fall.
    pub share: f64,
    /// Standard deviations of the test's statistic from what no trend would give.
    pub z: f64,
}

/// A trend in samples, in the order in which they were taken: significant by the Mann–Kendall test (two-sided at 1 %),
/// with the median slope of all pairs (Theil–Sen) as its size, where that is larger than `least`. Of more than twelve
/// samples, medians of at most twelve blocks of neighbours take their place.
pub fn drift(samples: &[f64], least: f64) -> Option<Drift> {
    let all = samples.len();
    let block = all.div_ceil(TREND_BLOCKS).max(1);
    let samples: Vec<f64> = samples.chunks(block).map(|b| Some(middle(&sorted(b)?))).collect::<Option<_>>()?;
    let ordered = sorted(&samples)?;
    let (n, median) = (samples.len(), middle(&ordered));
    if n < LEAST || median == 0.0 {
        return None;
    }
    let mut slopes = Vec::with_capacity(n * (n - 1) / 2);
    let mut rising = 0_i64;
    for (i, a) in samples.iter().enumerate() {
        for (distance, b) in samples[i + 1..].iter().enumerate() {
            rising += i64::from(b > a) - i64::from(b < a);
            slopes.push((b - a) / (distance + 1) as f64);
        }
    }
    let pairs = |t: f64| t * (t - 1.0) * (2.0 * t + 5.0);
    let tied: f64 = ordered.chunk_by(|a, b| a == b).map(|equal| pairs(equal.len() as f64)).sum();
    let variance = (pairs(n as f64) - tied) / 18.0;
    let z = (rising - rising.signum()) as f64 / variance.sqrt();
    let slope = middle(&sorted(&slopes)?);
    let share = slope * (all - 1) as f64 / block as f64 / median.abs();
    (z.abs() > SIGNIFICANT && share.abs() > least).then_some(Drift { share, z })
}

/// Centres of the groups that samples fall into, where there are several.
///
/// The samples in order are cut in two where the squares around both means are least. The halves are groups if each
/// holds a fifth of the samples and three at least, the means differ by more than a share `least` of the median, and
/// the gap between the halves is wider than max(1.5, 72/n) pooled standard deviations of a half. That threshold was
/// set by simulation: one-peaked noise (normal, uniform, exponential, log-normal, Laplace, Student's t, Cauchy) passes
/// it in fewer than 1 % of trials at any n. Each group is then examined likewise.
pub fn modes(samples: &[f64], least: f64) -> Vec<f64> {
    let Some(ordered) = sorted(samples) else { return Vec::new() };
    let smallest = (least * middle(&ordered).abs()).max(f64::MIN_POSITIVE);
    let mut centres = Vec::new();
    let mut open = vec![ordered.as_slice()];
    while let Some(group) = open.pop() {
        match cut_in_two(group, smallest) {
            // the lower one next, so that centres come in order
            Some((low, high)) => open.extend([high, low]),
            None => centres.push(middle(group)),
        }
    }
    if centres.len() > 1 { centres } else { Vec::new() }
}

/// Two groups, if there are two.
fn cut_in_two(ordered: &[f64], smallest: f64) -> Option<(&[f64], &[f64])> {
    let n = ordered.len();
    let fewest = n.div_ceil(5).max(3);
    if n < LEAST {
        return None;
    }
    // around the median and in shares of the range, so that large values keep their digits
    let (origin, range) = (middle(ordered), ordered[n - 1] - ordered[0]);
    if !(range > 0.0 && range.is_finite()) {
        return None;
    }
    let scaled: Vec<f64> = ordered.iter().map(|x| (x - origin) / range).collect();
    let squares =
        |half: &[f64], sum: f64, sum_of_squares: f64| (sum_of_squares - sum * sum / half.len() as f64).max(0.0);
    let all = scaled.iter().fold((0.0, 0.0), |(s, q), x| (s + x, q + x * x));
    let (mut sum, mut square) = (0.0, 0.0);
    let mut best: Option<(f64, usize, f64)> = None;
    for (i, x) in scaled.iter().enumerate() {
        (sum, square) = (sum + x, square + x * x);
        let (low, high) = scaled.split_at(i + 1);
        if low.len() < fewest || high.len() < fewest {
            continue;
        }
        let within = (squares(low, sum, square), squares(high, all.0 - sum, all.1 - square));
        if best.is_none_or(|(least, ..)| within.0 + within.1 < least) {
            let variance = |s: f64, half: &[f64]| s / (half.len() - 1) as f64;
            let pooled = f64::midpoint(variance(within.0, low), variance(within.1, high)).sqrt();
            best = Some((within.0 + within.1, i + 1, pooled));
        }
    }
    let (_, at, deviation) = best?;
    let (low, high) = ordered.split_at(at);
    let gap = scaled[at] - scaled[at - 1];
    let mean = |half: &[f64]| half.iter().map(|x| x / half.len() as f64).sum::<f64>();
    let convincing = gap > (72.0 / n as f64).max(1.5) * deviation && mean(high) - mean(low) > smallest;
    convincing.then_some((low, high))
}
