//! The work that a reader may do on one text: a safety net below readers that take time in proportion to a text's size.
//!
//! Work is counted in steps and not in seconds, so that a text gives the same result on any machine. A step is a line that is
//! looked at, with up to 64 bytes of it. A reader that looks at every line once takes as many steps as the text is long; those of
//! real captures take a few times that. One that has spent its budget sees the end of the text from then on, and what it
//! found before is kept, with a warning.

use std::cell::Cell;

/// Bytes of a line that are one step.
const BYTES_PER_STEP: usize = 64;

/// How many times a reader may look at a text from end to end. The most that any of the recorded captures takes is 8 times.
const PASSES: u64 = 64;

/// Steps that a reader may take whatever the length of the text.
const LEAST: u64 = 100_000;

/// Steps to look once at lines of so many bytes together.
pub(super) fn steps(lines: usize, bytes: usize) -> u64 {
    (lines + bytes / BYTES_PER_STEP) as u64
}

/// What a reader has spent, and may.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    spent: Cell<u64>,
    /// No limit until a reader begins.
    allowed: Cell<u64>,
    /// The line at which it was spent.
    spent_at: Cell<Option<usize>>,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { spent: Cell::new(0), allowed: Cell::new(u64::MAX), spent_at: Cell::new(None) }
    }
}

impl Budget {
    /// A reader begins with a text that takes so many steps to look at once.
    pub(super) fn begin(&self, pass: u64) {
        self.spent.set(0);
        self.allowed.set(LEAST.saturating_add(PASSES.saturating_mul(pass)));
        self.spent_at.set(None);
    }

    /// Spends steps on line `i` and on others of so many bytes together. False once there is nothing left.
    pub(super) fn spend(&self, i: usize, steps: u64) -> bool {
        let spent = self.spent.get().saturating_add(steps);
        self.spent.set(spent);
        let left = spent <= self.allowed.get();
        if !left && self.spent_at.get().is_none() {
            self.spent_at.set(Some(i));
        }
        left
    }

    /// The steps taken.
    pub(super) fn spent(&self) -> u64 {
        self.spent.get()
    }

    /// The index of the line at which the reader had to stop.
    pub(super) fn stopped_at(&self) -> Option<usize> {
        self.spent_at.get()
    }
}

#[cfg(test)]
mod tests {
    use super::super::read::Sees;
    use super::super::{Found, Reader, Text};
    use super::*;

    /// Looks at all lines below each line.
    fn square(text: &Text, found: &mut Found) {
        text.walk(|i| {
            let below = (i..text.len()).filter(|k| text.line(*k) == text.line(i)).count();
            found.warn(text, "square", text.numbers(i, i), below.to_string());
            None
        });
    }

    #[test]
    fn a_reader_that_takes_time_in_the_square_is_stopped_and_what_it_had_is_kept() {
        let found = |lines: usize| {
            Reader { name: "square", sees: Sees::Lines, scan: square }
                .read(&Text::new("x", "line\n".repeat(lines).as_bytes()))
        };
        let short = found(100);
        assert_eq!((short.warnings.len(), short.warnings[0].message.as_str()), (100, "100"));
        let long = found(20_000);
        let last = &long.warnings.last().unwrap();
        assert!(last.message.contains("stopped"), "{}", last.message);
        assert!((10..200).contains(&long.warnings.len()), "{}", long.warnings.len());
        assert!(long.steps < 2 * (LEAST + PASSES * 20_000), "{}", long.steps);
    }

    #[test]
    fn a_line_counts_by_its_length() {
        let text = Text::new("x", "a".repeat(6400).as_bytes());
        text.begin();
        let _ = (text.line(0), text.line(1));
        assert_eq!(text.steps(), 1 + 100 + 1);
    }
}
