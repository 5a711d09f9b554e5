use proptest::prelude::*;

use super::*;

/// Numbers that look random, the same each time (SplitMix64).
struct Noise(u64);

impl Noise {
    /// Between 0 and 1, both excluded.
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (((z ^ (z >> 31)) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    fn many(&mut self, n: usize, mut of: impl FnMut(&mut Self) -> f64) -> Vec<f64> {
        (0..n).map(|_| of(self)).collect()
    }
}

#[test]
fn ranks_are_those_of_the_tables() {
    for (n, k) in [(6, 1), (7, 1), (8, 1), (9, 2), (11, 2), (12, 3), (15, 4), (17, 5), (20, 6), (25, 8), (30, 10)] {
        assert_eq!(cut(n) + 1, k, "{n}");
    }
    for (n, k) in [(40, 14), (50, 18), (60, 22), (100, 40), (1000, 469)] {
        assert_eq!(cut(n) + 1, k, "{n}");
    }
    // by counting: of all 2ⁿ ways to lie below or above the median, those with fewer than k below
    for n in 6..=120 {
        let mut row = vec![1_u128];
        for _ in 0..n {
            row = std::iter::once(1).chain(row.windows(2).map(|w| w[0] + w[1])).chain([1]).collect();
        }
        let below = |k: usize| row[..k].iter().sum::<u128>();
        let k = cut(n) + 1;
        assert!(40 * below(k) <= 1 << n && 40 * below(k + 1) > 1 << n, "{n}: {k}");
    }
    // where the formula takes over it continues the exact ranks
    assert!((cut(1001) as i64 - cut(1000) as i64).abs() <= 1);
    assert_eq!((0..6).map(cut).collect::<Vec<_>>(), [0; 6]);
}

#[test]
fn a_median_with_its_interval() {
    let samples: Vec<f64> = (1..=9).rev().map(f64::from).collect();
    assert_eq!(Median::of(&samples), Some(Median { value: 5.0, low: 2.0, high: 8.0, n: 9 }));
    assert_eq!(Median::of(&[4.0, 1.0]), Some(Median { value: 2.5, low: 1.0, high: 4.0, n: 2 }));
    assert_eq!(Median::of(&samples).unwrap().relative_width(), 0.6);
    assert_eq!(Median::of(&[0.0; 7]).unwrap().relative_width(), 0.0);
    assert_eq!(Median::of(&[-1.0, 0.0, 1.0]).unwrap().relative_width(), f64::INFINITY);
    for odd in [&[][..], &[f64::NAN, 1.0], &[1.0, f64::INFINITY]] {
        assert_eq!(Median::of(odd), None);
    }
}

#[test]
fn the_interval_holds_the_median_as_often_as_it_says() {
    let mut noise = Noise(1);
    for n in [6, 9, 20, 61] {
        let mut held = 0;
        for _ in 0..4000 {
            // exponential: its median is ln 2
            let m = Median::of(&noise.many(n, |r| -r.uniform().ln())).unwrap();
            held += usize::from(m.low <= std::f64::consts::LN_2 && std::f64::consts::LN_2 <= m.high);
        }
        assert!(held >= 3760, "{n}: {held} of 4000");
    }
}

#[test]
fn groups_widen_the_interval_by_what_lies_between_them() {
    let group = |at: f64| (0..9).map(|i| at + f64::from(i) / 100.0).collect::<Vec<_>>();
    let alike = [group(100.0), group(100.0), group(100.0)];
    let m = Median::of_groups(&alike).unwrap();
    assert_eq!((m.value, m.n), (100.04, 27));
    assert!(m.relative_width() < 0.001);
    let differing = [group(90.0), group(100.0), group(101.0)];
    let m = Median::of_groups(&differing).unwrap();
    assert_eq!((m.value, m.low, m.high), (100.04, 90.04, 101.04));
    assert_eq!(Median::of_groups(&[group(7.0)]), Median::of(&group(7.0)));
    assert_eq!(Median::of_groups(&[]), None);
    assert_eq!(levels(&differing, 0.02), [90.04, 100.54]);
    assert_eq!(levels(&differing, 0.001), [90.04, 100.04, 101.04]);
    assert!(levels(&alike, 0.001).is_empty());
}

#[test]
fn outliers_are_far_in_their_own_scale_and_in_the_asked_one() {
    let mut samples = vec![10.0, 10.1, 9.9, 10.0, 10.05, 9.95, 10.02, 13.0, 9.98, 10.01];
    assert_eq!(outliers(&samples, 0.01), [7]);
    assert!(outliers(&samples, 0.5).is_empty(), "too near to matter");
    samples[7] = 10.0;
    assert!(outliers(&samples, 0.0001).is_empty());
    let mut equal = vec![5.0; 20];
    assert!(outliers(&equal, 0.0).is_empty());
    equal[3] = 6.0;
    assert_eq!(outliers(&equal, 0.01), [3], "with a deviation of 0 in most");
    assert!(outliers(&[], 0.0).is_empty());
}

#[test]
fn drift_is_a_trend_that_matters() {
    let rising: Vec<f64> = (0..30).map(|i| 100.0 + 0.2 * f64::from(i) + f64::from(i * 7 % 5) * 0.1).collect();
    let found = drift(&rising, 0.01).unwrap();
    assert!((found.share - 0.0563).abs() < 0.004 && found.z > 3.5, "{found:?}");
    let falling: Vec<f64> = rising.iter().rev().copied().collect();
    let mirrored = drift(&falling, 0.01).unwrap();
    assert!((mirrored.share + found.share).abs() < 1e-9 && mirrored.z == -found.z);
    assert_eq!(drift(&rising, 0.1), None, "smaller than what matters");
    assert_eq!(drift(&rising[..5], 0.0), None, "too few");
    assert_eq!(drift(&[3.0; 50], 0.0), None);
    let long: Vec<f64> = (0..100_000).map(|i| 1.0 + f64::from(i) * 1e-5).collect();
    assert!((drift(&long, 0.01).unwrap().share - 0.666).abs() < 0.01);
    // by hand: 6 samples, all rising: S = 15, σ² = 28.33
    let z = drift(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 0.0).unwrap().z;
    assert!((z - 14.0 / (6.0 * 5.0 * 17.0 / 18.0_f64).sqrt()).abs() < 1e-9);
}

#[test]
fn noise_seldom_looks_like_a_trend() {
    let mut noise = Noise(2);
    for n in [6, 10, 30, 60] {
        let found = (0..5000).filter(|_| drift(&noise.many(n, |r| 100.0 + r.normal()), 0.0).is_some()).count();
        assert!(found < 75, "{n}: {found} of 5000, and 1 % are expected");
    }
}

#[test]
fn a_rate_that_goes_back_and_forth_between_levels_has_no_trend() {
    let mut noise = Noise(5);
    // 20 samples on the low level and 8 on the high one, on average, as copies both ways with the host gave
    let series = |r: &mut Noise| -> Vec<f64> {
        let mut all = Vec::new();
        let mut high = r.uniform() < 0.3;
        while all.len() < 60 {
            let stay = 1 + (if high { -8.0 } else { -20.0 } * r.uniform().ln()) as usize;
            all.extend((0..stay).map(|_| if high { 74.0 } else { 65.0 } + r.normal()));
            high = !high;
        }
        all.truncate(60);
        all
    };
    let found = (0..2000).filter(|_| drift(&series(&mut noise), 0.03).is_some()).count();
    assert!(found < 120, "{found} of 2000; sample by sample it would be 500");
}

#[test]
fn noise_with_one_peak_seldom_falls_into_groups() {
    type Of = fn(&mut Noise) -> f64;
    let kinds: [(&str, Of); 6] = [
        ("normal", Noise::normal),
        ("uniform", Noise::uniform),
        ("exponential", |r| -r.uniform().ln()),
        ("log-normal", |r| r.normal().exp()),
        ("Laplace", |r| r.uniform().ln() - r.uniform().ln()),
        ("Cauchy", |r| r.normal() / r.normal()),
    ];
    let mut noise = Noise(3);
    for n in [6, 7, 9, 12, 15, 18, 24, 33, 60, 180] {
        for (kind, of) in kinds {
            let found = (0..2000).filter(|_| !modes(&noise.many(n, |r| 1000.0 + of(r)), 0.0).is_empty()).count();
            assert!(found < 20, "{kind}, n {n}: {found} of 2000");
        }
    }
}

#[test]
fn clear_groups_are_found() {
    let mut noise = Noise(4);
    for (n, apart) in [(12, 14.0), (18, 10.0), (30, 8.0), (60, 7.0), (180, 8.0)] {
        let mut found = 0;
        for _ in 0..500 {
            let samples: Vec<f64> =
                (0..n).map(|i| 1000.0 + noise.normal() + if i % 3 == 0 { apart } else { 0.0 }).collect();
            let centres = modes(&samples, 0.0);
            found += usize::from(centres.len() == 2 && (centres[1] - centres[0] - apart).abs() < 2.0);
        }
        assert!(found > 475, "{n}: {found} of 500");
    }
    let three: Vec<f64> = (0..30).map(|i| [1.0, 2.0, 10.0][i % 3] + i as f64 * 1e-3).collect();
    assert_eq!(modes(&three, 0.01).len(), 3);
    assert!(modes(&three, 20.0).is_empty(), "too near to matter");
    // steps of a clock are groups too, but as small as its steps
    let steps: Vec<f64> = (0..30).map(|i| if i % 2 == 0 { 1.0 } else { 1.001 }).collect();
    assert_eq!((modes(&steps, 0.01).len(), modes(&steps, 0.0001).len()), (0, 2));
}

proptest! {
    #[test]
    fn nothing_panics_and_ends_are_in_order(
        samples in prop::collection::vec(any::<f64>(), 0..80),
        least in 0.0..1.0,
    ) {
        if let Some(m) = Median::of(&samples) {
            prop_assert!(m.low <= m.value && m.value <= m.high);
            prop_assert!(m.n == samples.len());
        }
        let far = outliers(&samples, least);
        prop_assert!(far.len() * 2 <= samples.len());
        drift(&samples, least);
        let centres = modes(&samples, least);
        prop_assert!(centres.len() != 1 && centres.is_sorted());
        let groups: Vec<Vec<f64>> = samples.chunks(7).map(<[f64]>::to_vec).collect();
        if let Some(m) = Median::of_groups(&groups) {
            prop_assert!(m.low <= m.value && m.value <= m.high);
        }
        levels(&groups, least);
    }

    #[test]
    fn order_does_not_matter_and_scale_carries_over(
        samples in prop::collection::vec(1.0..2.0, 1..60),
        scale in 1e-9..1e12,
    ) {
        let of = Median::of(&samples).unwrap();
        let mut other: Vec<f64> = samples.iter().map(|x| x * scale).collect();
        other.reverse();
        let scaled = Median::of(&other).unwrap();
        prop_assert!(f64::abs(scaled.value / scale - of.value) < 1e-9);
        prop_assert!(f64::abs(scaled.relative_width() - of.relative_width()) < 1e-9);
        prop_assert_eq!(modes(&samples, 0.01).len(), modes(&other, 0.01).len());
    }
}
