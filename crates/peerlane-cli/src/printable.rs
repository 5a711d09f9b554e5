//! What may reach a terminal: printable text, line breaks, and the styles that this program uses. All output passes
//! this filter, and needs it least: what strangers wrote is on one line and without hidden characters since it was read
//! ([`peerlane::one_line`]). What a filter cannot see is whose a line break is.

use std::io::{self, Write};

use peerlane::one_line::escaped;

/// The most bytes of a style's sequence.
const MOST_STYLE: usize = 12;

/// Appends text, with hidden characters but line breaks escaped as `\u001b`: visible in text, and the same character in
/// JSON and TOML. A tab, which this program never writes and values of captured tables may have, is a space.
fn append(text: &str, out: &mut Vec<u8>) {
    for (i, line) in text.split('\n').enumerate() {
        if i > 0 {
            out.push(b'\n');
        }
        out.extend_from_slice(escaped(&line.replace('\t', " ")).as_bytes());
    }
}

/// Whether the parameters of a style's sequence are among those of `render/style.rs`, and of clap's help.
fn is_style(parameters: &str) -> bool {
    matches!(parameters, "0" | "1" | "2" | "4" | "31" | "32" | "33" | "36" | "38;5;16")
        || parameters.strip_prefix("48;5;").is_some_and(|n| matches!(n, "153" | "208" | "215" | "223"))
}

/// What stands at an escape character.
enum Style<'t> {
    /// A style of this program, and what follows.
    Ours(&'t str, &'t str),
    /// Nothing that may pass.
    Foreign,
    /// It may become one.
    Cut,
}

fn style(text: &str) -> Style<'_> {
    let Some(rest) = text.strip_prefix("\u{1b}[") else {
        return if text.len() == 1 { Style::Cut } else { Style::Foreign };
    };
    let digits = rest.bytes().take_while(|b| b.is_ascii_digit() || *b == b';').count();
    let (parameters, end) = rest.split_at(digits);
    match end.strip_prefix('m') {
        Some(after) if is_style(parameters) => Style::Ours(&text[..text.len() - after.len()], after),
        None if end.is_empty() && text.len() < MOST_STYLE => Style::Cut,
        _ => Style::Foreign,
    }
}

/// A writer that lets only printable text and this program's styles through.
pub(crate) struct Filter<W: Write> {
    out: W,
    /// The end of what was written, where it may be the beginning of a character or of a style.
    held: Vec<u8>,
}

impl<W: Write> Filter<W> {
    pub(crate) fn new(out: W) -> Self {
        Filter { out, held: Vec::new() }
    }

    /// Passes on `bytes`; at the `end` of all output nothing is held back.
    fn pass(&mut self, bytes: &[u8], end: bool) -> io::Result<()> {
        let mut all = std::mem::take(&mut self.held);
        all.extend_from_slice(bytes);
        let mut shown = Vec::with_capacity(all.len());
        let mut rest = all.as_slice();
        while !rest.is_empty() {
            let (text, bad) = match std::str::from_utf8(rest) {
                Ok(text) => (text, None),
                Err(error) => {
                    let (text, _) = rest.split_at(error.valid_up_to());
                    (std::str::from_utf8(text).unwrap_or_default(), Some(error.error_len()))
                }
            };
            if let Some(cut) = self.text(text, end, &mut shown) {
                self.held = rest[text.len() - cut..].to_vec();
                break;
            }
            rest = &rest[text.len()..];
            match bad {
                None => {}
                Some(None) if !end => {
                    self.held = rest.to_vec();
                    break;
                }
                Some(length) => {
                    shown.extend_from_slice("\u{fffd}".as_bytes());
                    rest = &rest[length.unwrap_or(rest.len())..];
                }
            }
        }
        self.out.write_all(&shown)
    }

    /// Appends what may be shown of a text; `Some` with how many of its last bytes may begin a style.
    fn text(&self, text: &str, end: bool, shown: &mut Vec<u8>) -> Option<usize> {
        let mut rest = text;
        while let Some(at) = rest.find('\u{1b}') {
            let (plain, from) = rest.split_at(at);
            append(plain, shown);
            match style(from) {
                Style::Ours(sequence, after) => {
                    shown.extend_from_slice(sequence.as_bytes());
                    rest = after;
                }
                Style::Cut if !end => return Some(from.len()),
                Style::Cut | Style::Foreign => {
                    append("\u{1b}", shown);
                    rest = &from[1..];
                }
            }
        }
        append(rest, shown);
        None
    }
}

impl<W: Write> Write for Filter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pass(bytes, false)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass(&[], true)?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filtered(pieces: &[&[u8]]) -> String {
        let mut filter = Filter::new(Vec::new());
        for piece in pieces {
            filter.write_all(piece).unwrap();
        }
        filter.flush().unwrap();
        String::from_utf8(filter.out).unwrap()
    }

    #[test]
    fn only_our_styles_and_printable_text_pass() {
        for (from, to) in [
            ("a\tb\nGPU0–GPU1 µs\n\n", "a b\nGPU0–GPU1 µs\n\n"),
            ("\u{1b}[1m\u{1b}[32mgood\u{1b}[0m", "\u{1b}[1m\u{1b}[32mgood\u{1b}[0m"),
            ("\u{1b}]52;c;cm0gLXJm\u{7}", "\\u001b]52;c;cm0gLXJm\\u0007"),
            ("\u{1b}[2J\u{1b}[8mx\u{1b}", "\\u001b[2J\\u001b[8mx\\u001b"),
            ("\u{1b}[38;5;16;8m", "\\u001b[38;5;16;8m"),
            ("one\rtwo \u{9b}31m \u{202e}x\u{2028}", "one\\u000dtwo \\u009b31m \\u202ex\\u2028"),
        ] {
            assert_eq!(filtered(&[from.as_bytes()]), to);
            // wherever writes are cut
            let bytes: Vec<&[u8]> = from.as_bytes().chunks(1).collect();
            assert_eq!(filtered(&bytes), to);
        }
        assert_eq!(filtered(&[b"a\xff\xc3"]), "a\u{fffd}\u{fffd}");
    }

    #[test]
    fn every_style_of_the_program_passes() {
        use crate::render::style::{BAD, DIM, GOOD, GPU, HEADING, INNER, NIC, WARN, of_heat, paint};
        let heats = [0.1, 0.6, 0.9, 1.0, 1.2].map(of_heat);
        for style in [BAD, DIM, GOOD, GPU, HEADING, INNER, NIC, WARN].into_iter().chain(heats) {
            let text = paint(style, "x");
            assert_eq!(filtered(&[text.as_bytes()]), text);
        }
    }

    #[test]
    fn an_escaped_character_is_the_same_in_json() {
        let written = filtered(&["\"a\u{9b}b\u{202e}\"".as_bytes()]);
        assert_eq!(serde_json::from_str::<String>(&written).unwrap(), "a\u{9b}b\u{202e}");
    }
}
