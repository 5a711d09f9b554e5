//! JSON documents among other text, recognised by the first key of their object.

use std::borrow::Cow;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Deserializer, Error};

use super::Text;

/// Lines between an object's opening brace and its first key.
const KEY_GAP: usize = 3;

/// What strings may hold.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Strings {
    /// Names and messages: control characters become spaces, so that a value stays on its line and moves no cursor.
    OneLine,
    /// The text of files.
    Text,
}

/// Reads each object whose first key is `key`, with a value that starts with `value`, and passes it on with its lines.
/// Nothing below a document that is cut is read.
pub(super) fn documents<T: DeserializeOwned>(
    text: &Text,
    key: &str,
    value: &str,
    strings: Strings,
    mut pass: impl FnMut((u32, u32), Result<T, Error>),
) {
    let key = format!("\"{key}\"");
    text.walk(|i| {
        let start = opening(text, i, &key, value)?;
        let rest = text.joined().get(start..)?;
        let mut documents = Deserializer::from_str(rest).into_iter::<IgnoredAny>();
        let whole = documents.next()?;
        let document = rest.get(..documents.byte_offset()).unwrap_or_default();
        let read = whole.and_then(|_| match strings {
            Strings::OneLine => serde_json::from_str(&without_escaped_controls(document)),
            Strings::Text => serde_json::from_str(document),
        });
        let first = text.line_at(start) as usize - 1;
        let (last, next) = match &read {
            Ok(_) => {
                let last = text.line_at(start + documents.byte_offset().saturating_sub(1)) as usize - 1;
                (last, last.max(i) + 1)
            }
            Err(error) if error.is_eof() => (text.len() - 1, text.len()),
            Err(error) => (first + error.line().saturating_sub(1), i + 1),
        };
        pass(text.numbers(first, last), read);
        Some(next)
    });
}

/// Where the object opens whose first key stands on line `i`, as an offset into the whole text.
fn opening(text: &Text, i: usize, key: &str, value: &str) -> Option<usize> {
    let line = text.line(i);
    let is_ours = |at: &usize| {
        let after = line.get(at + key.len()..).and_then(|rest| rest.trim_start().strip_prefix(':'));
        after.is_some_and(|found| found.trim_start().starts_with(value))
    };
    let at = line.match_indices(key).map(|(at, _)| at).find(is_ours)?;
    let before = line.get(..at)?.trim_end();
    if !before.is_empty() {
        return before.ends_with('{').then(|| text.offset(i) + before.len() - 1);
    }
    let above = (i.saturating_sub(KEY_GAP)..i).rev().find(|j| !text.line(*j).trim().is_empty())?;
    let content = text.line(above).trim_end();
    content.ends_with('{').then(|| text.offset(above) + content.len() - 1)
}

/// JSON whose strings have spaces where they escape control characters, so that a value is one line and moves no
/// terminal's cursor.
fn without_escaped_controls(json: &str) -> Cow<'_, str> {
    if !json.contains('\\') {
        return json.into();
    }
    let mut plain = String::with_capacity(json.len());
    let mut rest = json;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        let code = after.strip_prefix('u').and_then(|u| u.get(..4)).and_then(|u| u32::from_str_radix(u, 16).ok());
        let length = if code.is_some() { 5 } else { after.chars().next().map_or(0, char::len_utf8) };
        let (escape, after) = after.split_at(length);
        match code.and_then(char::from_u32) {
            Some(c) if c.is_control() => plain.push(' '),
            _ if matches!(escape, "n" | "r" | "t" | "b" | "f") => plain.push(' '),
            _ => {
                plain.push('\\');
                plain.push_str(escape);
            }
        }
        rest = after;
    }
    plain.push_str(rest);
    plain.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_of_json_stay_on_their_line() {
        let json = r#"{"a\\n": "x\ny\u001b[2J\u0085\"\\u00e9\/", "b": 1}"#;
        let plain = without_escaped_controls(json);
        assert_eq!(plain, r#"{"a\\n": "x y [2J \"\\u00e9\/", "b": 1}"#);
        let cut = ["\\", "\\u", "\\u00", "\\u00é1", "\\é"];
        assert!(cut.iter().all(|text| without_escaped_controls(text) == *text));
    }
}
