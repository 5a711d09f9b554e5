//! JSON documents among other text, recognised by the first key of their object.

use peerlane_machine::one_line;
use serde::de::{DeserializeOwned, Error as _, IgnoredAny};
use serde_json::{Deserializer, Error};

use super::Text;
use super::limits::MAX_JSON_BYTES;

/// Lines between an object's opening brace and its first key.
const KEY_GAP: usize = 3;

/// Reads one value, whose strings stay on one line but for those that are declared as [`Lines`](one_line::Lines).
///
/// # Errors
/// Where the text is no JSON of this type, or holds more.
pub fn from_json<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    let mut reader = Deserializer::from_str(text);
    let value = one_line::read(&mut reader)?;
    reader.end()?;
    Ok(value)
}

/// Reads each object whose first key is `key`, with a value that starts with `value`, and passes it on with its lines.
/// Nothing below a document that is cut is read.
pub(super) fn documents<T: DeserializeOwned>(
    text: &Text,
    key: &str,
    value: &str,
    mut pass: impl FnMut((u32, u32), Result<T, Error>),
) {
    let key = format!("\"{key}\"");
    if !text.holds(&[&key]) {
        return;
    }
    text.walk(|i| {
        let start = opening(text, i, &key, value)?;
        let rest = text.joined().get(start..)?;
        let end = (0..=rest.len().min(MAX_JSON_BYTES)).rev().find(|at| rest.is_char_boundary(*at))?;
        let (rest, cut) = (rest.get(..end)?, end < rest.len());
        let mut documents = Deserializer::from_str(rest).into_iter::<IgnoredAny>();
        let whole = documents.next()?;
        let document = rest.get(..documents.byte_offset()).unwrap_or_default();
        // what cannot be read was looked at all the same
        let to_fault = |e: &Error| text.offset(text.line_at(start) as usize - 1 + e.line()).saturating_sub(start);
        let looked_at = whole.as_ref().err().map_or(document.len(), to_fault);
        text.spend(i, looked_at).then_some(())?;
        let too_long = cut && whole.as_ref().is_err_and(Error::is_eof);
        let message = || Error::custom(format!("it is longer than {} MiB", MAX_JSON_BYTES >> 20));
        let whole = whole.map_err(|error| if too_long { message() } else { error });
        let read = whole.and_then(|_| from_json(document));
        let first = text.line_at(start) as usize - 1;
        let (last, next) = match &read {
            Ok(_) => {
                let last = text.line_at(start + documents.byte_offset().saturating_sub(1)) as usize - 1;
                (last, last.max(i) + 1)
            }
            Err(error) if too_long || error.is_eof() => (text.len() - 1, text.len()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_of_json_stay_on_their_line() {
        let read: serde_json::Value = from_json(r#"{"a\n": "x\ny\u001b[2J\u0085\"\\u00e9\/", "b": 1}"#).unwrap();
        assert_eq!(read, serde_json::json!({"a ": "x y [2J \"\\u00e9/", "b": 1}));
        assert!(from_json::<u8>("1 2").is_err() && from_json::<u8>("1 ").is_ok());
    }
}
