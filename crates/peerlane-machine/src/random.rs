//! Noise that comes back with its seed.

/// A stream of pseudo-random numbers: SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
/// generators", OOPSLA 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

/// Deviates beyond this many standard deviations are cut off, so that noise has a bound.
pub const MOST_DEVIATION: f64 = 4.0;

impl Random {
    /// The stream of a seed.
    pub fn from_seed(seed: u64) -> Self {
        Random(seed)
    }

    /// The stream of a seed and a text: each text has its own, whatever was drawn before.
    pub fn new(seed: u64, of: &str) -> Self {
        // FNV-1a, 64 bits
        let hash = of.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        let mut stream = Random(seed);
        Random(stream.next() ^ hash)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform: above 0, and at most 1.
    pub fn uniform(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// An index below `n`, each as likely; 0 where there is none.
    pub fn below(&mut self, n: usize) -> usize {
        ((self.uniform() * n as f64) as usize).min(n.saturating_sub(1))
    }

    /// A normal deviate of mean 0 and standard deviation 1 (Box and Muller), cut off at [`MOST_DEVIATION`].
    pub fn normal(&mut self) -> f64 {
        let (radius, angle) = ((-2.0 * self.uniform().ln()).sqrt(), std::f64::consts::TAU * self.uniform());
        (radius * angle.cos()).clamp(-MOST_DEVIATION, MOST_DEVIATION)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_splitmix64() {
        // first outputs for seed 1234567, as published with the algorithm's reference code
        let mut random = Random(1_234_567);
        assert_eq!([random.next(), random.next()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn deviates_are_normal_and_come_back() {
        let draw = |seed, of| {
            let mut random = Random::new(seed, of);
            (0..20_000).map(|_| random.normal()).collect::<Vec<f64>>()
        };
        let all = draw(7, "GPU0");
        assert_eq!(all, draw(7, "GPU0"));
        assert_ne!(all, draw(8, "GPU0"));
        assert_ne!(all, draw(7, "GPU1"));
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        let variance = all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / all.len() as f64;
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
        assert!(all.iter().all(|x| x.abs() <= MOST_DEVIATION));
    }
}
