//! The pattern that fills buffers, as the kernels `fill` and `verify` compute it, for the CPU's side of a check.

/// The word at `index` (counted in 4-byte words) of a buffer filled under `seed`.
///
/// Under one seed no two indices below 2³² (16 GiB) have the same word, and at one index no two seeds
/// do: data in the wrong place, or of an earlier step, never passes for right.
#[must_use]
pub const fn pattern_word(seed: u32, index: u64) -> u32 {
    let (high, low) = ((index >> 32) as u32, index as u32);
    let mut x = seed.wrapping_add(high.wrapping_mul(0x85eb_ca6b));
    x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    x = (x ^ (x >> 16)).wrapping_add(low.wrapping_mul(0x9e37_79b9));
    x ^ (x >> 16)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Values that a separate computation with unbounded integers gave, and that GPUs gave
    /// (`scripts/gpu/kernel_check.cu` compares whole buffers).
    #[test]
    fn known_values() {
        assert_eq!(pattern_word(0, 0), 0);
        assert_eq!(pattern_word(0, 1), 0x9e37_e78e);
        assert_eq!(pattern_word(1, 0), 0x6889_f849);
        assert_eq!(pattern_word(77, 300_006), 0xf1ce_a949);
        assert_eq!(pattern_word(u32::MAX, 3), 0x420e_ad7b);
        assert_eq!(pattern_word(5, 1 << 32), 0xca12_fcdf);
        assert_eq!(pattern_word(5, (1 << 33) - 1), 0x2bda_96ce);
    }

    #[test]
    fn neither_index_nor_seed_repeats_a_word() {
        let by_index: HashSet<u32> = (0..100_000).map(|index| pattern_word(9, index)).collect();
        assert_eq!(by_index.len(), 100_000);
        let by_seed: HashSet<u32> = (0..100_000).map(|seed| pattern_word(seed, 12_345)).collect();
        assert_eq!(by_seed.len(), 100_000);
    }
}
