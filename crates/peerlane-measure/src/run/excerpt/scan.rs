//! A walk through JSON that passes over most of it: quick, and as strict as a reader of all of it. Whatever is wrong or rare
//! is `None`, for a reader that says why.

use serde::Deserialize;
use serde_json::Deserializer;

/// Levels of lists and objects below a value that is passed over.
const MOST_LEVELS: usize = 64;

/// Digits of a number that a `f64` holds exactly, and so divides once by a power of ten and is the nearest to what stands
/// there, as any good reader's.
const EXACT: usize = 15;

/// A place in a JSON text.
#[derive(Debug)]
pub(super) struct Scan<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scan<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Scan { text, at: 0 }
    }

    /// Where it is.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The text from an earlier place to here.
    pub(super) fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or_default()
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The next character that is no blank.
    fn next(&mut self) -> Option<u8> {
        while let Some(byte) = self.peek() {
            if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t') {
                return Some(byte);
            }
            self.at += 1;
        }
        None
    }

    /// Takes a character, after blanks.
    fn takes(&mut self, byte: u8) -> bool {
        let is = self.next() == Some(byte);
        self.at += usize::from(is);
        is
    }

    /// Passes over a text that stands here.
    pub(super) fn passes(&mut self, text: &str) -> bool {
        let is = self.text.as_bytes().get(self.at..).is_some_and(|rest| rest.starts_with(text.as_bytes()));
        self.at += if is { text.len() } else { 0 };
        is
    }

    /// That nothing follows.
    pub(super) fn end(&mut self) -> Option<()> {
        self.next().is_none().then_some(())
    }

    /// Visits the fields of an object, or the others after one (`inside`). The visitor reads the value.
    pub(super) fn fields(
        &mut self,
        inside: bool,
        mut visit: impl FnMut(&mut Self, &'a str) -> Option<()>,
    ) -> Option<()> {
        let mut more = inside;
        if !inside && !self.takes(b'{') {
            return None;
        }
        loop {
            if self.takes(b'}') {
                return Some(());
            }
            if more && !self.takes(b',') {
                return None;
            }
            more = true;
            self.next();
            let start = self.at;
            self.string()?;
            let key = self.text.get(start + 1..self.at - 1)?;
            if key.contains('\\') || !self.takes(b':') {
                return None;
            }
            visit(self, key)?;
        }
    }

    /// Visits the items of a list. The visitor reads the value.
    pub(super) fn items(&mut self, mut visit: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        if !self.takes(b'[') {
            return None;
        }
        let mut more = false;
        loop {
            if self.takes(b']') {
                return Some(());
            }
            if more && !self.takes(b',') {
                return None;
            }
            more = true;
            self.next();
            visit(self)?;
        }
    }

    /// Passes over a value and returns its text.
    pub(super) fn value(&mut self) -> Option<&'a str> {
        self.next();
        let start = self.at;
        self.pass(MOST_LEVELS)?;
        Some(self.since(start))
    }

    /// The same for a list or an object that is mostly the same as the last one.
    pub(super) fn known(&mut self, last: &mut String) -> Option<&'a str> {
        self.next();
        let start = self.at;
        // a list or an object ends where its last bracket is, whatever follows
        if last.is_empty() || !self.passes(last) {
            let value = self.value()?;
            last.clear();
            if value.starts_with(['{', '[']) {
                last.push_str(value);
            }
        }
        Some(self.since(start))
    }

    /// Reads a value.
    pub(super) fn typed<T: Deserialize<'a>>(&mut self) -> Option<T> {
        self.next();
        let mut values = Deserializer::from_str(self.rest()).into_iter();
        let value = values.next()?.ok()?;
        self.at += values.byte_offset();
        Some(value)
    }

    /// Reads a number, or `null`.
    pub(super) fn number(&mut self) -> Option<Option<f64>> {
        let text = self.value()?;
        // only powers of ten up to 10²² are exact, and so many digits are not
        let (mut digits, mut count, mut decimals) = (0_u64, 0, None);
        for byte in text.bytes() {
            match byte {
                b'0'..=b'9' => {
                    digits = digits.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
                    count += 1;
                }
                b'.' => decimals = Some(count),
                _ => return serde_json::from_str(text).ok(),
            }
        }
        if count > EXACT {
            return serde_json::from_str(text).ok();
        }
        let decimals = decimals.map_or(0, |before| count - before);
        Some(Some(digits as f64 / POWERS.get(decimals)?))
    }

    /// Passes over a value, with so many levels below it.
    fn pass(&mut self, levels: usize) -> Option<()> {
        match self.next()? {
            b'"' => self.string(),
            b'{' => {
                let levels = levels.checked_sub(1)?;
                self.at += 1;
                self.members(b'}', |scan| {
                    scan.next();
                    scan.string()?;
                    scan.takes(b':').then_some(())?;
                    scan.pass(levels)
                })
            }
            b'[' => {
                let levels = levels.checked_sub(1)?;
                self.at += 1;
                self.members(b']', |scan| scan.pass(levels))
            }
            b't' => self.passes("true").then_some(()),
            b'f' => self.passes("false").then_some(()),
            b'n' => self.passes("null").then_some(()),
            _ => self.digits(),
        }
    }

    fn members(&mut self, end: u8, one: impl Fn(&mut Self) -> Option<()>) -> Option<()> {
        if self.takes(end) {
            return Some(());
        }
        loop {
            one(self)?;
            if !self.takes(b',') {
                return self.takes(end).then_some(());
            }
        }
    }

    /// Passes over a string.
    fn string(&mut self) -> Option<()> {
        if self.peek() != Some(b'"') {
            return None;
        }
        self.at += 1;
        loop {
            let rest = self.text.as_bytes().get(self.at..)?;
            self.at += rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f))? + 1;
            match self.text.as_bytes().get(self.at - 1)? {
                b'"' => return Some(()),
                b'\\' => match self.peek()? {
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 1,
                    b'u' => {
                        let hex = self.text.as_bytes().get(self.at + 1..self.at + 5)?;
                        hex.iter().all(u8::is_ascii_hexdigit).then_some(())?;
                        self.at += 5;
                    }
                    _ => return None,
                },
                _ => return None,
            }
        }
    }

    /// Passes over a number.
    fn digits(&mut self) -> Option<()> {
        self.at += usize::from(self.peek() == Some(b'-'));
        let zero = self.peek() == Some(b'0');
        let whole = self.run()?;
        if zero && whole > 1 {
            return None;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.run()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), Some(b'+' | b'-')));
            self.run()?;
        }
        Some(())
    }

    /// Passes over one digit or more; how many.
    fn run(&mut self) -> Option<usize> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        (self.at > start).then_some(self.at - start)
    }
}

/// Powers of ten up to [`EXACT`].
const POWERS: [f64; EXACT + 1] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn passed(text: &str) -> Option<&str> {
        let mut scan = Scan::new(text);
        let value = scan.value()?;
        scan.end()?;
        Some(value)
    }

    #[test]
    fn what_is_no_json_is_not_passed_over() {
        let whole = r#"{"a": [1, -0.5e+3, "x\"\\\u00e9", true, null, {}, []], "b": {"c": false}}"#;
        assert_eq!(passed(whole), Some(whole));
        for at in 0..whole.len() {
            assert_eq!(passed(&whole[..at]), None, "{at}");
            for put in ["", " ", "\"", "\\", "1", ".", ",", "]", "}", "e", "\u{1}"] {
                let text = format!("{}{put}{}", &whole[..at], &whole[at + 1..]);
                let right = serde_json::from_str::<Value>(&text).is_ok();
                assert_eq!(passed(&text).is_some(), right, "{text}");
            }
        }
    }

    #[test]
    fn a_value_that_stands_again_is_the_same_and_another_is_read() {
        let mut last = String::new();
        for text in ["{\"a\":1}", "{\"a\":1}", "{\"a\":12}", "null", "[1]", "[1]"] {
            let mut scan = Scan::new(text);
            assert_eq!((scan.known(&mut last), scan.end()), (Some(text), Some(())));
        }
        assert_eq!(Scan::new("[1").known(&mut last), None);
    }

    proptest! {
        #[test]
        fn numbers_are_those_of_the_general_reader(value in any::<f64>(), whole in any::<u64>(), short in 0_u64..10_000_000, at in 0_usize..8) {
            let digits = format!("{short:07}");
            let short = format!("{}.{}", short / 10_u64.pow(at as u32), &digits[7 - at..]);
            let texts = [format!("{value}"), format!("{value:e}"), format!("{value:.3}"), whole.to_string(), short];
            for text in texts {
                let read = serde_json::from_str::<f64>(&text).ok();
                prop_assert_eq!(Scan::new(&text).number().flatten().map(f64::to_bits), read.map(f64::to_bits), "{}", text);
            }
        }
    }
}
