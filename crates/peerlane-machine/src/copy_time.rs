//! How long a copy takes, by its size: a start-up, a ramp and a rate.
//!
//! A copy however small takes a time t₁. Copies in a queue that is never empty hide some of it behind the one before, and
//! each still adds t₀ to the moving of its bytes. So a copy of s bytes takes
//!
//! > time(s) = max(t₁, t₀ + s ÷ r∞)
//!
//! where r∞ is the rate of a copy without end. A copy that goes in pieces through two stages at once has one stage to itself
//! until its first piece is through; that adds t₂ · min(1, s ÷ piece) to t₀. Where nothing is hidden, t₁ = t₀, and this is Hockney's line ("The communication
//! challenge for MPP: Intel Paragon and Meiko CS-2", Parallel Computing 20, 1994; in the terms of LogGP, Alexandrov and others,
//! SPAA 1995, t₀ is L + 2o and r∞ is 1 ÷ G). The model predicts such curves (`model::Model::copy_time`), the simulated
//! machine answers by them, and [`crate::fit`] finds them in measured sweeps.

use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::{Bytes, Rate, Seconds};

/// What copies take besides the moving of their bytes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Startup {
    /// Time of a copy however small, t₁; no less than `each`.
    pub least: Seconds,
    /// Time that each copy of a full queue adds to its moving, t₀.
    pub each: Seconds,
    /// What the first piece adds of a copy in pieces, t₂; a smaller copy has its share of it.
    #[serde(default, skip_serializing_if = "is_none")]
    pub fill: Seconds,
    /// The size of a piece.
    #[serde(default, skip_serializing_if = "is_empty")]
    pub piece: Bytes,
}

fn is_none(time: &Seconds) -> bool {
    time.seconds() == 0.0
}

fn is_empty(piece: &Bytes) -> bool {
    piece.0 == 0
}

impl Startup {
    /// From t₁, and what a full queue leaves of it, t₀, which is at most as much.
    pub fn new(least: Seconds, each: Seconds) -> Self {
        let each = Seconds::new(each.seconds().min(least.seconds()));
        Startup { least, each, fill: Seconds::new(0.0), piece: Bytes(0) }
    }

    /// Where a queue hides nothing: t₁ = t₀.
    pub fn unhidden(time: Seconds) -> Self {
        Startup::new(time, time)
    }

    /// The same of copies in pieces, of which the first adds `fill`.
    pub fn in_pieces(self, fill: Seconds, piece: Bytes) -> Self {
        Startup { fill, piece, ..self }
    }

    /// The same, all times multiplied.
    pub fn times(self, factor: f64) -> Self {
        let [least, each, fill] = [self.least, self.each, self.fill].map(|t| Seconds::new(t.seconds() * factor));
        Startup { least, each, fill, ..self }
    }

    /// Seconds of a copy that are not the moving of its bytes, where that takes `moving` seconds.
    pub fn overhead(self, bytes: f64, moving: f64) -> f64 {
        self.before(bytes).max(self.least.seconds() - moving)
    }

    /// Seconds that a copy of a full queue adds to its moving.
    fn before(self, bytes: f64) -> f64 {
        let piece = self.piece.0 as f64;
        let share = if bytes < piece { bytes / piece } else { 1.0 };
        self.each.seconds() + share * self.fill.seconds()
    }
}

/// How long copies of one kind take, by size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CopyTime {
    /// What each takes besides its bytes.
    pub startup: Startup,
    /// Rate of a copy without end, r∞: the asymptote, in bytes a second.
    pub rate: Rate,
}

impl CopyTime {
    /// Time of a copy of this size, in a queue of such.
    pub fn time(&self, size: Bytes) -> Seconds {
        let bytes = size.0 as f64;
        let moving = bytes / self.rate.bytes_per_second();
        Seconds::new((self.startup.before(bytes) + moving).max(self.startup.least.seconds()))
    }

    /// Rate of copies of this size; none of 0 bytes.
    pub fn rate_at(&self, size: Bytes) -> Rate {
        Rate::from_bytes_per_second(size.0 as f64 / self.time(size).seconds())
    }

    /// Bytes at which half of the asymptotic rate is reached, n½.
    pub fn half_size(&self) -> Bytes {
        let Startup { least, each, fill, piece } = self.startup;
        let [least, each, fill] = [least, each, fill].map(Seconds::seconds);
        let (rate, piece) = (self.rate.bytes_per_second(), piece.0 as f64);
        let whole = (each + fill) * rate;
        // half of it is reached where what is lost equals the moving
        let ramp = if whole >= piece { whole } else { each * rate / (1.0 - fill * rate / piece).max(0.1) };
        let ramp = ramp.max(least / 2.0 * rate);
        // what the conversion makes of any float is in range
        Bytes(ramp.round() as u64)
    }

    /// The size from which on copies by `other` are faster; `None` where they never are, or where they always are.
    pub fn beaten_from(&self, other: &CopyTime) -> Option<Bytes> {
        let slower = |size: u64| self.time(Bytes(size)) > other.time(Bytes(size));
        if slower(1) || !slower(u64::MAX >> 1) {
            return None;
        }
        // where the other is faster for large copies, it is so for all above some size: its start-up takes longer
        let (mut not, mut yes) = (1, u64::MAX >> 1);
        while yes - not > 1 {
            let half = not + (yes - not) / 2;
            if slower(half) { yes = half } else { not = half }
        }
        Some(Bytes(yes))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn curve(least: f64, each: f64, gb: f64) -> CopyTime {
        CopyTime { startup: Startup::new(Seconds::from_us(least), Seconds::from_us(each)), rate: Rate::from_gb(gb) }
    }

    #[test]
    fn a_ramp_begins_where_the_least_time_ends() {
        let reads = curve(13.0, 2.0, 400.0);
        // 11 us at 400 GB/s
        assert_eq!(reads.time(Bytes(16)), reads.startup.least);
        assert_eq!(reads.time(Bytes(4_400_000)), reads.startup.least);
        assert!((reads.time(Bytes(40_000_000)).us() - 102.0).abs() < 1e-9);
        assert_eq!((reads.half_size(), curve(2.0, 2.0, 400.0).half_size()), (Bytes(2_600_000), Bytes(800_000)));
        // no copy adds more to others than it takes alone
        assert_eq!(Startup::new(Seconds::from_us(1.0), Seconds::from_us(2.0)).each, Seconds::from_us(1.0));
    }

    #[test]
    fn a_faster_path_with_a_longer_start_wins_from_one_size_on() {
        let (direct, staged) = (curve(2.0, 2.0, 10.0), curve(12.0, 12.0, 20.0));
        // 10 us are 200 kB at the difference of 50 ps a byte
        let from = direct.beaten_from(&staged).unwrap();
        assert!((200_000..=200_001).contains(&from.0), "{from:?}");
        assert_eq!(staged.beaten_from(&direct), None);
        assert_eq!(direct.beaten_from(&direct), None);
    }

    proptest! {
        #[test]
        fn rates_rise_to_the_asymptote(least in 0.0_f64..50.0, share in 0.0_f64..=1.0, gb in 0.01_f64..5000.0) {
            let curve = curve(least, least * share, gb);
            let mut last = (Seconds::new(0.0), 0.0);
            for shift in 0..50 {
                let size = Bytes(1 << shift);
                let now = (curve.time(size), curve.rate_at(size).gb());
                prop_assert!(now.0 >= last.0 && now.1 >= last.1 * (1.0 - 1e-12) && now.1 <= gb * (1.0 + 1e-12), "{size:?} {now:?}");
                last = now;
            }
            let half = curve.half_size();
            if half.0 > 1000 {
                prop_assert!((curve.rate_at(half).gb() / gb - 0.5).abs() < 0.001);
            }
        }

        #[test]
        fn the_faster_of_two_is_told_on_both_sides(
            a in (0.1_f64..20.0, 1.0_f64..400.0),
            b in (0.1_f64..20.0, 1.0_f64..400.0),
        ) {
            let [a, b] = [a, b].map(|(us, gb)| curve(us, us, gb));
            if let Some(size) = a.beaten_from(&b) {
                prop_assert!(a.time(size) > b.time(size));
                prop_assert!(a.time(Bytes(size.0 - 1)) <= b.time(Bytes(size.0 - 1)));
            }
        }
    }
}
