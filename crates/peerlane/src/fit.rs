//! From a sweep over message sizes to the start-up time and the rate behind it.
//!
//! Hockney's model ("The communication challenge for MPP: Intel Paragon and Meiko CS-2", Parallel Computing 20, 1994)
//! says that a message of s bytes takes t₀ + s ÷ r∞. In LogGP's terms (Alexandrov, Ionescu, Schauser and Scheiman,
//! SPAA 1995), t₀ is L + 2o and r∞ is 1 ÷ G. Half of r∞ is reached at n½ = t₀ · r∞ bytes.
//!
//! Errors of measured times grow with the times, so that the squares of the relative residuals are minimised: least
//! squares with weights 1 ÷ t², in closed form. A line cannot follow a program that changes its protocol with the
//! size; where it does, the fit says at which sizes it is not to be believed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::{Bytes, Rate, Seconds};

/// The least sizes that a fit rests on: two more than would leave nothing to compare.
pub const LEAST_SIZES: usize = 4;

/// A relative residual beyond which the fit does not describe the size.
pub const MISFIT: f64 = 0.1;

/// What a sweep says of a way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fit {
    /// Time of a message without content, t₀; 0 where the times leave none.
    pub startup: Seconds,
    /// Rate of a message without end, r∞, in bytes a second.
    pub rate: Rate,
    /// Bytes at which half of it is reached, n½ = t₀ · r∞.
    pub half_size: Bytes,
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
    /// Two numbers cannot be told from so few.
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
        let (startup, per_byte) = line(&points).ok_or(FitError::NoRate)?;
        let residual = |&(size, time): &(Bytes, f64)| {
            let relative = (startup + per_byte * size.0 as f64) / time - 1.0;
            Residual { size, relative }
        };
        let residuals: Vec<Residual> = points.iter().map(residual).collect();
        let squares: f64 = residuals.iter().map(|r| r.relative * r.relative).sum();
        Ok(Fit {
            startup: Seconds::new(startup),
            rate: Rate::from_bytes_per_second(1.0 / per_byte),
            half_size: Bytes((startup / per_byte).round() as u64),
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

    /// The time of a message.
    pub fn time(&self, size: Bytes) -> Seconds {
        Seconds::new(self.startup.seconds() + size.0 as f64 / self.rate.bytes_per_second())
    }

    /// The rate of a message.
    pub fn rate_at(&self, size: Bytes) -> Rate {
        Rate::from_bytes_per_second(size.0 as f64 / self.time(size).seconds())
    }

    /// The sizes that the fit does not describe: off by more than [`MISFIT`], as where a program changes its
    /// protocol, or a message fits a cache.
    pub fn misfits(&self) -> impl Iterator<Item = &Residual> {
        self.residuals.iter().filter(|r| r.relative.abs() > MISFIT)
    }
}

/// Start-up and seconds a byte, neither below 0, with the least relative squares; `None` where no rate follows.
///
/// The residuals are t₀·u + g·v − 1 with u = 1 ÷ t and v = s ÷ t for each point. Gram and Schmidt's way to the
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
        assert_eq!(fit.half_size, Bytes(800_000));
        assert!((fit.rate_at(fit.half_size).gb() - 200.0).abs() < 1e-6);
        assert!((fit.time(Bytes(0)).us() - 2.0).abs() < 1e-9);
        assert_eq!(fit.misfits().count(), 0);
    }

    #[test]
    fn rates_say_what_times_say() {
        let times = sweep(13e-6, 25e9);
        let rate = |(s, t): &(Bytes, Seconds)| (*s, Rate::from_bytes_per_second(s.0 as f64 / t.seconds()));
        let rates: Vec<_> = times.iter().map(rate).collect();
        let (by_times, by_rates) = (Fit::of_times(&times).unwrap(), Fit::of_rates(&rates).unwrap());
        assert!((by_times.rate.gb() - by_rates.rate.gb()).abs() < 1e-6);
        assert!((by_times.startup.us() - by_rates.startup.us()).abs() < 1e-9);
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
        assert_eq!((fit.startup.seconds(), fit.half_size), (0.0, Bytes(0)));
        assert!((fit.rate.bytes_per_second() - 105.2).abs() < 0.1, "{:?}", fit.rate);
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
        let (startup, rate) = (fit.startup.seconds(), fit.rate.bytes_per_second());
        let best = squares(startup, rate);
        for (a, b) in [(1.01, 1.0), (0.99, 1.0), (1.0, 1.01), (1.0, 0.99)] {
            assert!(squares(startup * a, rate * b) > best, "{a} {b}");
        }
    }

    proptest! {
        #[test]
        fn exact_times_come_back(startup_us in 0.1_f64..100.0, rate_gb in 0.1_f64..1000.0, order in any::<u64>()) {
            let mut times = sweep(startup_us * 1e-6, rate_gb * 1e9);
            times.rotate_left((order % 28) as usize);
            let fit = Fit::of_times(&times).unwrap();
            prop_assert!((fit.startup.us() / startup_us - 1.0).abs() < 1e-9, "{}", fit.startup.us());
            prop_assert!((fit.rate.gb() / rate_gb - 1.0).abs() < 1e-9, "{}", fit.rate.gb());
            prop_assert!(fit.max < 1e-9 && fit.rms <= fit.max);
            prop_assert!(fit.residuals.is_sorted_by_key(|r| r.size));
        }

        #[test]
        fn nonsense_is_refused_or_fitted(times in prop::collection::vec((any::<u64>(), any::<f64>()), 0..12)) {
            let times: Vec<_> = times.into_iter().map(|(s, t)| (Bytes(s), Seconds::new(t))).collect();
            if let Ok(fit) = Fit::of_times(&times) {
                prop_assert!(fit.startup.seconds() >= 0.0 && fit.rate.bytes_per_second() > 0.0);
            }
        }
    }
}
