//! Finds in one pass over a text the places where patterns may fit: by eight bytes of each pattern's fixed words.
//!
//! An automaton over the same words takes milliseconds to build, at each start of the program; this takes microseconds.

use super::Entry;
use super::pattern::{ANCHOR, Fit, fit, weight};

/// Bits by which most places of a text are passed over.
const BITS: u32 = 16;

/// The words of all patterns.
pub(crate) struct Index {
    entries: Vec<&'static Entry>,
    bits: Vec<u64>,
    /// Words, with the entry and its pattern, in order.
    words: Vec<(u64, u32, u32)>,
}

/// A place where an entry fits.
pub(crate) struct Hit<'t> {
    /// The entry.
    pub(crate) entry: &'static Entry,
    /// The place and its parts.
    pub(crate) fit: Fit<'static, 't>,
    /// The fixed characters of its pattern.
    pub(crate) weight: usize,
}

impl Index {
    /// An index of these entries.
    pub(super) fn of(entries: Vec<&'static Entry>) -> Self {
        let mut index = Index { entries, bits: vec![0; 1 << (BITS - 6)], words: Vec::new() };
        for (at, entry) in index.entries.iter().enumerate() {
            for (nth, pattern) in entry.patterns.iter().enumerate() {
                let Some(word) = pattern.text.as_bytes().get(pattern.anchor..).and_then(first) else { continue };
                let (slot, bit) = place(word);
                if let Some(bits) = index.bits.get_mut(slot) {
                    *bits |= bit;
                }
                index.words.push((word, at as u32, nth as u32));
            }
        }
        index.words.sort_unstable();
        index
    }

    /// Calls `found` for each place of a text where an entry fits, in the order of their words.
    pub(crate) fn search<'t>(&self, text: &'t str, mut found: impl FnMut(Hit<'t>)) {
        for (at, window) in text.as_bytes().windows(ANCHOR).enumerate() {
            let Some(word) = first(window) else { continue };
            let (slot, bit) = place(word);
            if self.bits.get(slot).is_none_or(|bits| bits & bit == 0) {
                continue;
            }
            let from = self.words.partition_point(|(known, ..)| *known < word);
            for (_, entry, nth) in self.words.iter().skip(from).take_while(|(known, ..)| *known == word) {
                let Some(entry) = self.entries.get(*entry as usize).copied() else { continue };
                let Some(pattern) = entry.patterns.get(*nth as usize) else { continue };
                if let Some(fit) = fit(pattern.text, pattern.anchor, text, at) {
                    found(Hit { entry, fit, weight: weight(pattern.text) });
                }
            }
        }
    }
}

fn first(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk::<ANCHOR>().map(|chunk| u64::from_le_bytes(*chunk))
}

/// The place of a word among the bits, by multiplicative hashing (Knuth, *The Art of Computer Programming* 3, 6.4).
fn place(word: u64) -> (usize, u64) {
    let hash = word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BITS);
    ((hash >> 6) as usize, 1 << (hash & 63))
}
