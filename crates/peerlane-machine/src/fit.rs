//! From a sweep over message sizes to the [`CopyTime`] behind it.
//!
//! Errors of measured times grow with the times, so that the squares of the relative residuals are minimised: least
//! squares with weights 1 ÷ t², in closed form for the line t₀ + s ÷ r∞. Where the smallest messages take longer than the
//! line has it, they are the floor t₁: of all sizes at which it may end, the one with the least squares is taken. No such
//! curve can follow a program that changes its protocol with the size; where it does, the fit lists the sizes at which it is
//! not reliable.

use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::copy_time::{CopyTime, Startup};
use crate::matrix::Unit;
use crate::units::{Bytes, Rate, Seconds};

/// The least sizes that a fit rests on: two more than would leave nothing to compare.
pub const LEAST_SIZES: usize = 4;

/// A relative residual beyond which the fit does not describe the size.
pub const MISFIT: f64 = 0.1;

/// What a sweep shows of a path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fit {
    /// Times by size; its start-up is 0 where the times leave none.
    pub copies: CopyTime,
    /// Root of the mean square of the relative residuals.
    pub rms: f64,
    /// The largest of them, without its sign.
    pub max: f64,
    /// Each size with its relative residual, fitted time over measured time less 1, by size.
    pub residuals: Vec<Residual>,
}

/// How far a fit is off at one size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Residual {
    /// Bytes of a message.
    pub size: Bytes,
    /// Fitted time over measured time, less 1.
    pub relative: f64,
}

/// Why a sweep gives no fit.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FitError {
    /// Two numbers cannot be fitted to so few.
    #[error("{0} message sizes are too few for a fit; it takes {LEAST_SIZES}")]
    TooFew(usize),
    /// A time is not positive and finite.
    #[error("the time of a message of {0} is no time above 0")]
    NoTime(Bytes),
    /// Larger messages take no longer.
    #[error("the time does not grow with the size, so that no rate follows")]
    NoRate,
}

impl Fit {
    /// From messages and what was measured of each, rates or times in a unit; `None` where there are too few, or no rate follows.
    pub fn of_values(unit: Unit, values: impl Iterator<Item = (Bytes, f64)>) -> Option<Self> {
        let values: Vec<(Bytes, f64)> = values.collect();
        let rates: Option<Vec<_>> = values.iter().map(|(size, value)| Some((*size, unit.rate(*value)?))).collect();
        let times = || values.iter().map(|(size, value)| Some((*size, unit.time(*value)?))).collect::<Option<Vec<_>>>();
        rates.map_or_else(|| Fit::of_times(&times()?).ok(), |rates| Fit::of_rates(&rates).ok())
    }

    /// From messages and the times that they took, in any order; a size may stand more than once.
    pub fn of_times(times: &[(Bytes, Seconds)]) -> Result<Self, FitError> {
        let mut points: Vec<(Bytes, f64)> = times.iter().map(|(size, time)| (*size, time.seconds())).collect();
        if let Some((size, _)) = points.iter().find(|(_, time)| !(time.is_normal() && *time > 0.0)) {
            return Err(FitError::NoTime(*size));
        }
        points.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        let sizes = points.chunk_by(|a, b| a.0 == b.0).count();
        if sizes < LEAST_SIZES {
            return Err(FitError::TooFew(sizes));
        }
        let copies = floored(&points).ok_or(FitError::NoRate)?;
        let residual = |&(size, time): &(Bytes, f64)| {
            let relative = copies.time(size).seconds() / time - 1.0;
            Residual { size, relative }
        };
        let residuals: Vec<Residual> = points.iter().map(residual).collect();
        let squares: f64 = residuals.iter().map(|r| r.relative * r.relative).sum();
        Ok(Fit {
            copies,
            rms: (squares / residuals.len() as f64).sqrt(),
            max: residuals.iter().map(|r| r.relative.abs()).fold(0.0, f64::max),
            residuals,
        })
    }

    /// From messages and the rates that they reached.
    pub fn of_rates(rates: &[(Bytes, Rate)]) -> Result<Self, FitError> {
        let time = |&(size, rate): &(Bytes, Rate)| (size, Seconds::new(size.0 as f64 / rate.bytes_per_second()));
        Fit::of_times(&rates.iter().map(time).collect::<Vec<_>>())
    }

    /// The sizes that the fit does not describe: off by more than [`MISFIT`], as where a program changes its
    /// protocol, or a message fits a cache.
    pub fn misfits(&self) -> impl Iterator<Item = &Residual> {
        self.residuals.iter().filter(|r| r.relative.abs() > MISFIT)
    }
}

/// The line through all points, or through all but the smallest messages, which then have the floor; `None` where no rate
/// follows. The points are in the order of their sizes.
fn floored(points: &[(Bytes, f64)]) -> Option<CopyTime> {
    let squares = |copies: &CopyTime| -> f64 {
        let off = |(size, time): &(Bytes, f64)| copies.time(*size).seconds() / time - 1.0;
        points.iter().map(|point| off(point).powi(2)).sum()
    };
    let of_line = |(each, per_byte): (f64, f64), least: f64| {
        let startup = Startup::new(Seconds::new(least.max(each)), Seconds::new(each));
        CopyTime { startup, rate: Rate::from_bytes_per_second(1.0 / per_byte) }
    };
    let whole = line(points)?;
    let mut best = of_line(whole, whole.0);
    let mut fewest = squares(&best);
    let sizes: Vec<&[(Bytes, f64)]> = points.chunk_by(|a, b| a.0 == b.0).collect();
    let mut first = 0;
    for small in sizes.iter().take(sizes.len().saturating_sub(LEAST_SIZES - 1)) {
        first += small.len();
        let (floor, rest) = points.split_at(first);
        let Some(found) = line(rest) else { continue };
        let copies = of_line(found, constant(floor));
        let now = squares(&copies);
        // two lines follow noise better than one, and exact times as well: only what is much better is a floor
        if now + EXACT < fewest * BETTER {
            (best, fewest) = (copies, now);
        }
    }
    Some(best)
}

/// What a floor must leave of the squares that are left without it, or with a shorter one.
const BETTER: f64 = 0.8;
/// Squares that the digits of exact times leave.
const EXACT: f64 = 1e-12;

/// The time with the least relative squares.
fn constant(points: &[(Bytes, f64)]) -> f64 {
    let sum = |power: i32| points.iter().map(|(_, time)| time.powi(-power)).sum::<f64>();
    sum(1) / sum(2)
}

/// Start-up and seconds a byte, neither below 0, with the least relative squares; `None` where no rate follows.
///
/// The residuals are t₀·u + g·v − 1 with u = 1 ÷ t and v = s ÷ t for each point. Gram and Schmidt's method for the
/// answer loses no digits where the sizes range over nine powers of ten, as the normal equations do.
fn line(points: &[(Bytes, f64)]) -> Option<(f64, f64)> {
    let u: Vec<f64> = points.iter().map(|(_, time)| 1.0 / time).collect();
    let v: Vec<f64> = points.iter().map(|(size, time)| size.0 as f64 / time).collect();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let sum = |a: &[f64]| a.iter().sum::<f64>();
    let along = dot(&u, &v) / dot(&u, &u);
    let across: Vec<f64> = v.iter().zip(&u).map(|(v, u)| v - along * u).collect();
    let per_byte = sum(&across) / dot(&across, &across);
    let startup = sum(&u) / dot(&u, &u) - along * per_byte;
    let (startup, per_byte) =
        // the best that is possible, where the best of all begins before its start
        if startup < 0.0 { (0.0, sum(&v) / dot(&v, &v)) } else { (startup, per_byte) };
    (startup.is_finite() && per_byte.is_normal() && per_byte > 0.0).then_some((startup, per_byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sweep(startup: f64, rate: f64) -> Vec<(Bytes, Seconds)> {
        let sizes = (3..=30).map(|p| 1_u64 << p);
        sizes.map(|s| (Bytes(s), Seconds::new(startup + s as f64 / rate))).collect()
    }

    #[test]
    fn half_of_the_rate_is_reached_at_the_half_rate_size() {
        let fit = Fit::of_times(&sweep(2e-6, 400e9)).unwrap();
        assert_eq!(fit.copies.half_size(), Bytes(800_000));
        assert!((fit.copies.rate_at(Bytes(800_000)).gb() - 200.0).abs() < 1e-6);
        assert!((fit.copies.time(Bytes(0)).us() - 2.0).abs() < 1e-9);
        assert_eq!(fit.misfits().count(), 0);
    }

    #[test]
    fn rates_say_what_times_say() {
        let times = sweep(13e-6, 25e9);
        let rate = |(s, t): &(Bytes, Seconds)| (*s, Rate::from_bytes_per_second(s.0 as f64 / t.seconds()));
        let rates: Vec<_> = times.iter().map(rate).collect();
        let (by_times, by_rates) = (Fit::of_times(&times).unwrap(), Fit::of_rates(&rates).unwrap());
        assert!((by_times.copies.rate.gb() - by_rates.copies.rate.gb()).abs() < 1e-6);
        assert!((by_times.copies.startup.each.us() - by_rates.copies.startup.each.us()).abs() < 1e-9);
        let nothing = [(Bytes(8), Rate::ZERO)];
        assert_eq!(Fit::of_rates(&nothing), Err(FitError::NoTime(Bytes(8))));
    }

    #[test]
    fn a_change_of_protocol_is_a_misfit_where_it_is() {
        let mut times = sweep(2e-6, 100e9);
        // between 16 and 64 KiB everything takes twice as long
        for (size, time) in &mut times {
            if (1 << 14..=1 << 16).contains(&size.0) {
                *time = Seconds::new(2.0 * time.seconds());
            }
        }
        let fit = Fit::of_times(&times).unwrap();
        let sizes: Vec<u64> = fit.misfits().map(|r| r.size.0).filter(|s| (1 << 14..=1 << 16).contains(s)).collect();
        assert_eq!(sizes, [1 << 14, 1 << 15, 1 << 16]);
        assert!(fit.max > 0.4 && fit.rms < fit.max && fit.rms > 0.1, "{} {}", fit.rms, fit.max);
    }

    #[test]
    fn a_start_up_below_nothing_is_nothing() {
        // a line that begins at −0.1
        let times = [(100, 0.9), (200, 1.9), (400, 3.9), (800, 7.9)].map(|(s, t)| (Bytes(s), Seconds::new(t)));
        let fit = Fit::of_times(&times).unwrap();
        assert_eq!((fit.copies.startup.each.seconds(), fit.copies.half_size()), (0.0, Bytes(0)));
        assert!((fit.copies.rate.bytes_per_second() - 105.2).abs() < 0.1, "{:?}", fit.copies);
    }

    #[test]
    fn too_little_gives_no_fit() {
        let times = sweep(1e-6, 1e9);
        assert_eq!(Fit::of_times(&[]), Err(FitError::TooFew(0)));
        assert_eq!(Fit::of_times(&times[..3]), Err(FitError::TooFew(3)));
        let same = [times[0]; 8];
        assert_eq!(Fit::of_times(&same), Err(FitError::TooFew(1)));
        let flat: Vec<_> = times.iter().map(|(s, _)| (*s, Seconds::new(1.0 / (1.0 + s.0 as f64)))).collect();
        assert_eq!(Fit::of_times(&flat), Err(FitError::NoRate));
        let broken = [(Bytes(8), Seconds::new(f64::NAN))];
        assert!(matches!(Fit::of_times(&broken), Err(FitError::NoTime(Bytes(8)))));
    }

    #[test]
    fn a_fit_is_the_best_of_its_neighbours() {
        let mut times = sweep(5e-6, 50e9);
        for (i, (_, time)) in times.iter_mut().enumerate() {
            *time = Seconds::new(time.seconds() * if i % 3 == 0 { 1.04 } else { 0.97 });
        }
        let fit = Fit::of_times(&times).unwrap();
        let squares = |startup: f64, rate: f64| {
            let off = |(s, t): &(Bytes, Seconds)| ((startup + s.0 as f64 / rate) / t.seconds() - 1.0).powi(2);
            times.iter().map(off).sum::<f64>()
        };
        let (startup, rate) = (fit.copies.startup.each.seconds(), fit.copies.rate.bytes_per_second());
        let best = squares(startup, rate);
        for (a, b) in [(1.01, 1.0), (0.99, 1.0), (1.0, 1.01), (1.0, 0.99)] {
            assert!(squares(startup * a, rate * b) > best, "{a} {b}");
        }
    }

    proptest! {
        #[test]
        fn a_floor_is_found(each in 0.5_f64..5.0, times in 1.5_f64..8.0, gb in 1.0_f64..500.0, noise in 0.0_f64..0.004) {
            let [least, each] = [each * times, each].map(Seconds::from_us);
            let copies = CopyTime { startup: Startup::new(least, each), rate: Rate::from_gb(gb) };
            // every power of two, and every eighth as a run by default has them
            for stride in [1, 3] {
                let noisy = |(i, k): (usize, u32)| {
                    let size = Bytes(1 << k);
                    let off = if i % 2 == 0 { 1.0 + noise } else { 1.0 - noise };
                    (size, Seconds::new(copies.time(size).seconds() * off))
                };
                let points: Vec<_> = (3..=30).step_by(stride).enumerate().map(noisy).collect();
                let fit = Fit::of_times(&points).unwrap();
                let ratio = fit.copies.half_size().0 as f64 / copies.half_size().0 as f64;
                // a floor just above the start-up shows in few of ten points, of which noise moves every other one
                prop_assert!((ratio - 1.0).abs() < 0.1, "{copies:?} {fit:?}");
                prop_assert!((fit.copies.rate.gb() / gb - 1.0).abs() < 0.01, "{copies:?} {fit:?}");
            }
        }

        #[test]
        fn exact_times_come_back(startup_us in 0.1_f64..100.0, rate_gb in 0.1_f64..1000.0, order in any::<u64>()) {
            let mut times = sweep(startup_us * 1e-6, rate_gb * 1e9);
            times.rotate_left((order % 28) as usize);
            let fit = Fit::of_times(&times).unwrap();
            prop_assert!((fit.copies.startup.each.us() / startup_us - 1.0).abs() < 1e-9, "{:?}", fit.copies);
            prop_assert!((fit.copies.rate.gb() / rate_gb - 1.0).abs() < 1e-9, "{:?}", fit.copies);
            prop_assert!(fit.max < 1e-9 && fit.rms <= fit.max);
            prop_assert!(fit.residuals.is_sorted_by_key(|r| r.size));
        }

        #[test]
        fn nonsense_is_refused_or_fitted(times in prop::collection::vec((any::<u64>(), any::<f64>()), 0..12)) {
            let times: Vec<_> = times.into_iter().map(|(s, t)| (Bytes(s), Seconds::new(t))).collect();
            if let Ok(fit) = Fit::of_times(&times) {
                prop_assert!(fit.copies.startup.each.seconds() >= 0.0 && fit.copies.rate.bytes_per_second() > 0.0);
            }
        }
    }
}
