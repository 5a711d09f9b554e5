//! JSON documents among other text, recognised by the first key of their object.

use serde::de::DeserializeOwned;
use serde_json::{Deserializer, Error};

use super::Text;

/// Lines between an object's opening brace and its first key.
const KEY_GAP: usize = 3;

/// Reads each object whose first key is `key`, with a value that starts with `value`, and passes it on with its lines.
/// Nothing below a document that is cut is read.
pub(super) fn documents<T: DeserializeOwned>(
    text: &Text,
    key: &str,
    value: &str,
    mut pass: impl FnMut((u32, u32), Result<T, Error>),
) {
    let key = format!("\"{key}\"");
    text.walk(|i| {
        let start = opening(text, i, &key, value)?;
        let mut documents = Deserializer::from_str(text.joined().get(start..)?).into_iter::<T>();
        let read = documents.next()?;
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
