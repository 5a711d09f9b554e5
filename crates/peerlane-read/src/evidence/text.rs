//! A text as scanners read it: numbered lines, without terminal escapes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::budget::{self, Budget};
use super::words::indent;
use super::{Found, markup};
use peerlane_machine::one_line::is_hidden;

/// Lines of one source, numbered from 1, free of ANSI escapes, carriage returns and byte-order marks.
#[derive(Clone, Debug)]
pub struct Text {
    source: Arc<str>,
    /// All lines, each ended by a newline: one allocation, however many lines there are.
    joined: String,
    /// Where each line starts in `joined`.
    starts: Vec<u32>,
    /// The number of each line, from 1, where they are some lines of a longer text.
    picked: Option<Vec<u32>>,
    /// The work that the reader of now may do.
    budget: Budget,
}

impl Text {
    /// Decodes (see [`decode`]), splits and cleans. What lies beyond 4 GiB is ignored.
    pub fn new(source: &str, bytes: &[u8]) -> Self {
        let text = decode_text(bytes);
        let mut all = Text::empty(source.into(), text.len(), None);
        if markup::is_page(&text) {
            markup::lines(lines(&text), &mut |number, line| {
                let mut plain = String::with_capacity(line.len());
                clean(line, &mut plain);
                all.add_numbered(number, &plain);
            });
        } else {
            lines(&text).for_each(|line| all.add(|joined| clean(line, joined)));
        }
        all
    }

    /// How many lines [`Text::new`] would make of it, without the memory that they take.
    pub(super) fn count_lines(bytes: &[u8]) -> usize {
        let text = decode_text(bytes);
        let mut count = 0;
        match markup::is_page(&text) {
            true => markup::lines(lines(&text), &mut |_, _| count += 1),
            false => count = lines(&text).count(),
        }
        count
    }

    fn empty(source: Arc<str>, bytes: usize, picked: Option<Vec<u32>>) -> Self {
        let joined = String::with_capacity(bytes + 1);
        Text { source, joined, starts: Vec::new(), picked, budget: Budget::default() }
    }

    /// Adds a line, which `write` appends without its newline.
    fn add(&mut self, write: impl FnOnce(&mut String)) {
        if let Ok(start) = u32::try_from(self.joined.len()) {
            self.starts.push(start);
            write(&mut self.joined);
            self.joined.push('\n');
        }
    }

    /// Adds a line that has this number, from 1.
    fn add_numbered(&mut self, number: u32, line: &str) {
        self.picked.get_or_insert_default().push(number);
        self.add(|joined| joined.push_str(line));
    }

    /// Some lines, by index and the byte from which they are kept; `label` is added to the source's name.
    pub(super) fn part(&self, lines: &[(usize, usize)], label: Option<&str>) -> Self {
        let source = label.map_or(self.source.clone(), |label| format!("{} [{label}]", self.source).into());
        let number = |&(i, _): &(usize, usize)| self.numbers(i, i).0;
        let mut part = Text::empty(source, 0, Some(lines.iter().map(number).collect()));
        for &(i, from) in lines {
            part.add(|joined| joined.push_str(self.line(i).get(from..).unwrap_or_default()));
        }
        part
    }

    /// The text with those lines empty for which `gone` holds.
    pub(super) fn without(&self, gone: &[bool]) -> Self {
        let mut rest = Text::empty(self.source.clone(), self.joined.len(), self.picked.clone());
        for (i, line) in self.iter() {
            rest.add(|joined| joined.push_str(if gone.get(i).copied().unwrap_or(false) { "" } else { line }));
        }
        rest
    }

    /// The text with some lines replaced, by index, each by none or several, which keep its number.
    pub(super) fn rewritten(&self, lines: &BTreeMap<usize, Vec<String>>) -> Self {
        let mut changed = Text::empty(self.source.clone(), self.joined.len(), Some(Vec::with_capacity(self.len())));
        for (i, line) in self.iter() {
            match lines.get(&i) {
                None => changed.add_numbered(self.numbers(i, i).0, line),
                Some(others) => others.iter().for_each(|other| changed.add_numbered(self.numbers(i, i).0, other)),
            }
        }
        changed
    }

    /// The source's name.
    pub fn source(&self) -> &Arc<str> {
        &self.source
    }

    /// How many lines.
    pub fn len(&self) -> usize {
        self.starts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// Where line `i` starts in all lines joined; their end where there is no such line.
    pub(super) fn offset(&self, i: usize) -> usize {
        self.starts.get(i).map_or(self.joined.len(), |start| *start as usize)
    }

    /// The line, from 1, that holds the byte at `offset` of all lines joined.
    pub(super) fn line_at(&self, offset: usize) -> u32 {
        self.starts.partition_point(|start| *start as usize <= offset) as u32
    }

    /// All lines, each ended by a newline.
    pub(super) fn joined(&self) -> &str {
        &self.joined
    }

    /// The line at index `i` (from 0), or `""` past the end; so is every line for a reader that has spent its budget.
    pub fn line(&self, i: usize) -> &str {
        let line = self.joined.get(self.offset(i)..self.offset(i + 1).saturating_sub(1)).unwrap_or_default();
        if self.budget.spend(i, budget::steps(1, line.len())) { line } else { "" }
    }

    /// All lines with their index from 0, as far as the budget goes.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &str)> {
        (0..self.len()).map(|i| (i, self.line(i))).take_while(|_| self.stopped_at().is_none())
    }

    /// A reader begins, with a budget of its own.
    pub(super) fn begin(&self) {
        self.budget.begin(budget::steps(self.len(), self.joined.len()));
    }

    /// Counts a look at so many bytes from line `i` on, other than by [`Text::line`]. False where the budget does not allow it.
    pub(super) fn spend(&self, i: usize, bytes: usize) -> bool {
        self.budget.spend(i, budget::steps(1, bytes))
    }

    /// The steps that the reader has taken.
    pub(super) fn steps(&self) -> u64 {
        self.budget.spent()
    }

    /// The line at which the reader had spent its budget.
    pub(super) fn stopped_at(&self) -> Option<usize> {
        self.budget.stopped_at()
    }

    /// Whether any of these stands anywhere; far faster than a look for them in each line.
    pub(super) fn holds(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.spend(0, self.joined.len()) && self.joined.contains(word))
    }

    /// The same in one pass, for many words of at least two bytes.
    pub(super) fn holds_one_of(&self, words: &[&str]) -> bool {
        if !self.spend(0, self.joined.len()) {
            return false;
        }
        // by their first two bytes most places are passed over
        let mut begins = [0_u64; 1 << 10];
        let place = |a: u8, b: u8| (usize::from(a) << 2 | usize::from(b) >> 6, 1_u64 << (b & 63));
        for word in words {
            if let [a, b, ..] = word.as_bytes() {
                let (slot, bit) = place(*a, *b);
                begins[slot] |= bit;
            }
        }
        let all = self.joined.as_bytes();
        let may = |at: &usize| {
            let (slot, bit) = place(all[*at], all[*at + 1]);
            begins[slot] & bit != 0
        };
        let begin = |at: usize| words.iter().any(|word| all[at..].starts_with(word.as_bytes()));
        (0..all.len().saturating_sub(1)).filter(may).any(begin)
    }

    /// Goes through the lines: `read` is given an index and returns the one to go on with, `None` for the next line.
    pub(super) fn walk(&self, mut read: impl FnMut(usize) -> Option<usize>) {
        let mut i = 0;
        while i < self.len() && self.stopped_at().is_none() {
            i = read(i).unwrap_or(i + 1);
        }
    }

    /// The index after the block of line `first`: the lines below it that are indented deeper, up to an empty one.
    pub(super) fn block_end(&self, first: usize) -> usize {
        let inside = |i: &usize| indent(self.line(*i)) > indent(self.line(first)) && !self.line(*i).trim().is_empty();
        first + 1 + (first + 1..self.len()).take_while(inside).count()
    }

    /// The inclusive line numbers, from 1, of the indices `first ..= last`.
    pub fn numbers(&self, first: usize, last: usize) -> (u32, u32) {
        let number = |i: usize| match &self.picked {
            Some(picked) => picked.get(i).or(picked.last()).copied().unwrap_or(1),
            None => i as u32 + 1,
        };
        (number(first), number(last))
    }

    /// Lines `first ..= last` joined again.
    pub fn join(&self, first: usize, last: usize) -> &str {
        let all = self.offset(first)..self.offset(last.saturating_add(1)).saturating_sub(1);
        let joined = self.joined.get(all).unwrap_or_default();
        if self.spend(first, joined.len()) { joined } else { "" }
    }
}

/// Lines of a text, by index: from the first to the last that was added.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span(Option<(usize, usize)>);

impl Span {
    /// Adds a line, which is the last from now on.
    pub(super) fn add(&mut self, i: usize) {
        self.0 = Some((self.0.map_or(i, |(first, _)| first), i));
    }

    /// The same, where a line was added before.
    pub(super) fn extend(&mut self, i: usize) {
        self.0 = self.0.map(|(first, _)| (first, i));
    }

    /// Its line numbers, from 1, inclusive; `None` where no line was added.
    pub(super) fn numbers(self, text: &Text) -> Option<(u32, u32)> {
        self.0.map(|(first, last)| text.numbers(first, last))
    }
}

/// The lines that a reader used of a text, by index, in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Used(Vec<usize>);

impl Used {
    /// Adds a line.
    pub(super) fn add(&mut self, i: usize) {
        if self.0.last() != Some(&i) {
            self.0.push(i);
        }
    }

    /// Adds the lines of another.
    pub(super) fn join(&mut self, other: &Used) {
        self.0.extend(&other.0);
    }

    /// The numbers, from 1, of the first and the last line. Those between that were not used are noted as such.
    pub(super) fn numbers(mut self, text: &Text, found: &mut Found) -> Option<(u32, u32)> {
        self.0.sort_unstable();
        let (first, last) = self.0.first().copied().zip(self.0.last().copied())?;
        for pair in self.0.windows(2) {
            let between = pair.first().copied().unwrap_or(0) + 1..pair.last().copied().unwrap_or(0);
            found.unused.extend(between.map(|i| text.numbers(i, i).0));
        }
        Some(text.numbers(first, last))
    }
}

/// The text of a file: UTF-8, or UTF-16 where a byte-order mark shows it (as PowerShell's `>` writes
/// it), without that mark. What cannot be decoded becomes U+FFFD.
pub fn decode(bytes: &[u8]) -> Cow<'_, str> {
    let utf16 = |of: fn([u8; 2]) -> u16| {
        let units = bytes.chunks_exact(2).skip(1).filter_map(|pair| Some(of(pair.try_into().ok()?)));
        Cow::Owned(char::decode_utf16(units).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect())
    };
    match bytes {
        [0xff, 0xfe, ..] => utf16(u16::from_le_bytes),
        [0xfe, 0xff, ..] => utf16(u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest),
        _ => String::from_utf8_lossy(bytes),
    }
}

/// The same of what a machine printed or a person wrote down, which may be Windows-1252, of which Latin-1 is a part: it has bytes
/// beyond ASCII and none of them is UTF-8.
fn decode_text(bytes: &[u8]) -> Cow<'_, str> {
    let has_mark = [&[0xff, 0xfe][..], &[0xfe, 0xff], &[0xef, 0xbb, 0xbf]].iter().any(|mark| bytes.starts_with(mark));
    if has_mark || !is_single_byte(bytes) {
        return decode(bytes);
    }
    Cow::Owned(bytes.iter().map(|b| of_windows(*b)).collect())
}

/// Whether a text has bytes that are no UTF-8, and no character of several bytes that is.
fn is_single_byte(bytes: &[u8]) -> bool {
    let mut chunks = bytes.utf8_chunks();
    let mut invalid = false;
    chunks.all(|chunk| {
        invalid |= !chunk.invalid().is_empty();
        chunk.valid().is_ascii()
    }) && invalid
}

/// A byte of Windows-1252 as a character.
fn of_windows(byte: u8) -> char {
    const UPPER: [char; 32] = [
        '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}', '\u{90}', '‘',
        '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
    ];
    let in_upper = byte.checked_sub(0x80).and_then(|at| UPPER.get(usize::from(at)));
    in_upper.copied().unwrap_or(char::from(byte))
}

/// How much of a file is examined to see whether it is text, in bytes.
const BINARY_HEAD: usize = 4096;

/// A NUL, or many other control characters, among the first bytes.
pub(super) fn is_binary(bytes: &[u8]) -> bool {
    let head = decode(&bytes[..bytes.len().min(BINARY_HEAD)]);
    let control = head.chars().filter(|c| c.is_ascii_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{1b}')).count();
    head.contains('\0') || control * 20 > head.len()
}

/// The lines of a text without their ends; files of old systems end them by a lone carriage return.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let end = if text.contains('\n') { '\n' } else { '\r' };
    text.split_terminator(end).map(move |line| if end == '\n' { line.strip_suffix('\r').unwrap_or(line) } else { line })
}

/// Adds a line without ANSI escape sequences (`ESC [ … letter`, `ESC ] … BEL`) and hidden characters
/// but the tab.
fn clean(line: &str, out: &mut String) {
    // most lines are plain
    if line.bytes().all(|b| matches!(b, b' '..=b'~' | b'\t')) {
        return out.push_str(line);
    }
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => match chars.peek() {
                Some('[') => {
                    chars.next();
                    while chars.next().is_some_and(|c| !('\u{40}'..='\u{7e}').contains(&c)) {}
                }
                Some(']') => while chars.next().is_some_and(|c| c != '\u{7}') {},
                _ => {
                    chars.next();
                }
            },
            '\t' => out.push(c),
            '\u{a0}' => out.push(' '),
            c if is_hidden(c) => {}
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_counted_as_they_are_split() {
        for bytes in
            [b"a\r\nb\rc\n\nd".as_slice(), b"a\rb\r", b"\n", b"", b"bar 1 %\rbar 2 %\ndone", b"\xff\xfea\0\n\0b\0"]
        {
            assert_eq!(Text::count_lines(bytes), Text::new("x", bytes).len(), "{bytes:?}");
        }
        assert_eq!(Text::count_lines(b"1 %\r2 %\r3 %\ndone\n"), 2, "a progress bar is one line");
    }

    #[test]
    fn escapes_and_returns_go_tabs_stay() {
        let t = Text::new("x", b"\xef\xbb\xbf\t\x1b[4mGPU0\tGPU1\x1b[0m\r\nGPU0\t X \xff\r\n");
        assert_eq!(t.line(0), "\tGPU0\tGPU1");
        assert_eq!(t.line(1), "GPU0\t X \u{fffd}");
        assert_eq!(t.len(), 2);
        assert_eq!(t.line(9), "");
    }

    #[test]
    fn lines_are_found_by_number_and_by_offset() {
        let t = Text::new("x", b"ab\r\n\ncd");
        assert_eq!(t.iter().collect::<Vec<_>>(), [(0, "ab"), (1, ""), (2, "cd")]);
        assert_eq!((t.join(0, 1), t.join(1, 2), t.join(2, 9), t.join(3, 9)), ("ab\n", "\ncd", "cd", ""));
        assert_eq!((t.join(2, 1), t.join(0, usize::MAX)), ("", "ab\n\ncd"));
        assert_eq!((t.line_at(0), t.line_at(3), t.line_at(4), t.offset(2)), (1, 2, 3, 4));
        assert!(Text::new("x", b"").is_empty());
    }

    #[test]
    fn one_byte_a_character() {
        assert_eq!(Text::new("x", b"Latenz (\xb5s) \x96 gr\xf6\xdfer").line(0), "Latenz (µs) – größer");
        assert_eq!(Text::new("x", b"\xc2\xb5s and \xff").line(0), "µs and \u{fffd}", "one broken byte of UTF-8");
    }

    #[test]
    fn powershells_utf16_and_lone_carriage_returns() {
        let little: Vec<u8> = "\u{feff}GPU0\r\n\u{1f600}x".encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = "\u{feff}GPU0\nGPU1".encode_utf16().flat_map(u16::to_be_bytes).collect();
        assert_eq!(Text::new("x", &little).join(0, 9), "GPU0\n\u{1f600}x");
        assert_eq!(Text::new("x", &big).join(0, 9), "GPU0\nGPU1");
        assert_eq!(Text::new("x", b"\xff\xfe\x00\xd8").line(0), "\u{fffd}");
        assert_eq!(Text::new("x", b"a\rb\r").join(0, 9), "a\nb");
    }
}
