//! The content of messages, and the comparison of what arrived.

use peerlane_gpu::pattern::pattern_word;
use peerlane_measure::measure::Verdict;

use super::raw::Region;

/// Memory is read and written by 8 bytes, two words of the pattern.
const WORD: usize = 8;

fn word(seed: u32, index: usize) -> u64 {
    let half = |index: usize| u64::from(pattern_word(seed, index as u64));
    half(2 * index) | half(2 * index + 1) << 32
}

/// Fills `bytes` bytes from `offset` on, which 8 divides.
pub(super) fn fill(region: &Region, offset: usize, bytes: usize, seed: u32) {
    for index in 0..bytes / WORD {
        region.set_word(offset + index * WORD, word(seed, index));
    }
    let tail = bytes / WORD * WORD;
    for (at, byte) in (tail..bytes).zip(word(seed, tail / WORD).to_le_bytes()) {
        region.set_byte(offset + at, byte);
    }
}

/// Compares `bytes` bytes from `offset` on, which 8 divides, with what `fill` writes: how many differ, and the first of them.
pub(super) fn differing(region: &Region, offset: usize, bytes: usize, seed: u32) -> Option<(usize, usize)> {
    let mut found: Option<(usize, usize)> = None;
    let mut compare = |at: usize, wanted: &[u8]| {
        for (i, byte) in wanted.iter().enumerate() {
            if region.byte(offset + at + i) != *byte {
                found = Some(found.map_or((1, at + i), |(count, first)| (count + 1, first)));
            }
        }
    };
    for index in 0..bytes / WORD {
        let wanted = word(seed, index);
        if region.word(offset + index * WORD) != wanted {
            compare(index * WORD, &wanted.to_le_bytes());
        }
    }
    let tail = bytes / WORD * WORD;
    let last = word(seed, tail / WORD).to_le_bytes();
    compare(tail, last.get(..bytes - tail).unwrap_or(&last));
    found
}

/// The verdict on what every queue pair received.
pub(super) fn verdict(differing: impl Iterator<Item = Option<(usize, usize)>>, bytes: usize) -> Verdict {
    let wrong = differing.enumerate().find_map(|(queue_pair, found)| found.map(|found| (queue_pair, found)));
    match wrong {
        None => Verdict::Intact,
        Some((queue_pair, (count, first))) => Verdict::Corrupt(format!(
            "{count} of {bytes} bytes of queue pair {queue_pair} differ, the first at {first}"
        )),
    }
}
