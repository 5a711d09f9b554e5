//! A text as scanners see it: numbered lines, without terminal escapes.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::markup;

/// Lines of one source, numbered from 1, free of ANSI escapes, carriage returns and byte-order marks.
#[derive(Clone, Debug)]
pub struct Text {
    source: Arc<str>,
    lines: Vec<String>,
    /// The number of each line, from 1, where they are some lines of a longer text.
    picked: Option<Vec<u32>>,
}

impl Text {
    /// Splits and cleans. Bytes that are no UTF-8 become U+FFFD.
    pub fn new(source: &str, bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_start_matches('\u{feff}');
        let page = markup::is_page(text);
        let line = |line: &str| if page { markup::clean(&clean(line)) } else { clean(line) };
        Text { source: source.into(), lines: text.lines().map(line).collect(), picked: None }
    }

    /// Some lines, by index and the byte from which they are kept; `label` is added to the source's name.
    pub(super) fn part(&self, lines: &[(usize, usize)], label: Option<&str>) -> Self {
        let source = label.map_or(self.source.clone(), |label| format!("{} [{label}]", self.source).into());
        let kept = |&(i, from): &(usize, usize)| self.line(i).get(from..).unwrap_or_default().to_owned();
        let number = |&(i, _): &(usize, usize)| self.numbers(i, i).0;
        Text { source, lines: lines.iter().map(kept).collect(), picked: Some(lines.iter().map(number).collect()) }
    }

    /// The text with some lines empty.
    pub(super) fn without(&self, lines: &BTreeSet<usize>) -> Self {
        let kept = |(i, line): (usize, &str)| if lines.contains(&i) { String::new() } else { line.to_owned() };
        Text { source: self.source.clone(), lines: self.iter().map(kept).collect(), picked: self.picked.clone() }
    }

    /// The source's name.
    pub fn source(&self) -> &Arc<str> {
        &self.source
    }

    /// How many lines.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The line at index `i` (from 0), or `""` past the end.
    pub fn line(&self, i: usize) -> &str {
        self.lines.get(i).map_or("", String::as_str)
    }

    /// All lines with their index from 0.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines.iter().map(String::as_str).enumerate()
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
    pub fn join(&self, first: usize, last: usize) -> String {
        self.lines.get(first..=last.min(self.lines.len().saturating_sub(1))).unwrap_or_default().join("\n")
    }
}

/// Removes ANSI escape sequences (`ESC [ … letter`, `ESC ] … BEL`) and control characters but the tab.
fn clean(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
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
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_and_returns_go_tabs_stay() {
        let t = Text::new("x", b"\xef\xbb\xbf\t\x1b[4mGPU0\tGPU1\x1b[0m\r\nGPU0\t X \xff\r\n");
        assert_eq!(t.line(0), "\tGPU0\tGPU1");
        assert_eq!(t.line(1), "GPU0\t X \u{fffd}");
        assert_eq!(t.len(), 2);
        assert_eq!(t.line(9), "");
    }
}
