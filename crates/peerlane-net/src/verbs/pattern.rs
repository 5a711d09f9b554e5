//! The content of messages, and the comparison of what arrived.

use peerlane_gpu::pattern::pattern_word;
use peerlane_measure::measure::{Failure, Verdict};

use super::raw::Region;

/// Memory is read and written by 8 bytes, two words of the pattern.
const WORD: usize = 8;

fn word(seed: u32, index: usize) -> u64 {
    let half = |index: usize| u64::from(pattern_word(seed, index as u64));
    half(2 * index) | half(2 * index + 1) << 32
}

/// The words of a message, the last of which may reach beyond its end.
pub(super) fn content(bytes: usize, seed: u32) -> Vec<u64> {
    (0..bytes.div_ceil(WORD)).map(|index| word(seed, index)).collect()
}

/// Fills `bytes` bytes from `offset` on, which 8 divides.
pub(super) fn fill(region: &Region, offset: usize, bytes: usize, seed: u32) -> Result<(), Failure> {
    if let Some(mut memory) = region.gpu() {
        return memory.write(offset, &content(bytes, seed));
    }
    for index in 0..bytes / WORD {
        region.set_word(offset + index * WORD, word(seed, index));
    }
    let tail = bytes / WORD * WORD;
    for (at, byte) in (tail..bytes).zip(word(seed, tail / WORD).to_le_bytes()) {
        region.set_byte(offset + at, byte);
    }
    Ok(())
}

/// Compares `bytes` bytes from `offset` on, which 8 divides, with what `fill` writes: how many differ, and the first of them.
pub(super) fn differing(
    region: &Region,
    offset: usize,
    bytes: usize,
    seed: u32,
) -> Result<Option<(usize, usize)>, Failure> {
    if let Some(mut memory) = region.gpu() {
        let mut copy = vec![0; bytes.div_ceil(WORD)];
        memory.read(offset, &mut copy)?;
        return Ok(differing_copy(&copy, bytes, seed));
    }
    Ok(compare(bytes, seed, |index| region.word(offset + index * WORD), |at| region.byte(offset + at)))
}

/// The same of a copy of the message.
pub(super) fn differing_copy(copy: &[u64], bytes: usize, seed: u32) -> Option<(usize, usize)> {
    let word_of = |index: usize| copy.get(index).copied().unwrap_or_default();
    compare(bytes, seed, word_of, |at| word_of(at / WORD).to_le_bytes().get(at % WORD).copied().unwrap_or_default())
}

fn compare(
    bytes: usize,
    seed: u32,
    word_of: impl Fn(usize) -> u64,
    byte_of: impl Fn(usize) -> u8,
) -> Option<(usize, usize)> {
    let mut found: Option<(usize, usize)> = None;
    let mut compare = |at: usize, wanted: &[u8]| {
        for (i, byte) in wanted.iter().enumerate() {
            if byte_of(at + i) != *byte {
                found = Some(found.map_or((1, at + i), |(count, first)| (count + 1, first)));
            }
        }
    };
    for index in 0..bytes / WORD {
        let wanted = word(seed, index);
        if word_of(index) != wanted {
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
