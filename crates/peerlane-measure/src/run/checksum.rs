//! The checksum of a record, so that one that was damaged or changed after it was written is not judged as if it were whole.
//!
//! It is of all bytes of the file but its own line. A flip of bits within any eight bytes changes it with certainty. It is no
//! signature: who wants to change a record removes the line, and the record is then read as one without checksum, as those of
//! earlier versions are. Each line of a growing record has one of its own, as its last field.

use std::borrow::Cow;
use std::ops::Range;

use super::RunError;

/// What the field is called, with the beginning of its value.
const KEY: &str = "\"checksum\":\"";
const FORM: &str = "fnv64:";

/// The field stands among the first bytes, behind the schema.
const HEAD: usize = 512;

/// What closes the field and a line of a growing record.
const CLOSE: &str = "\"}";

/// Digits of a checksum.
const DIGITS: usize = 16;

/// Writes the field behind the first field of a record, which is the schema's, on a line of its own.
pub(crate) fn sealed(text: &str) -> String {
    let Some(at) = text.match_indices('\n').nth(1).map(|(at, _)| at + 1) else { return text.to_owned() };
    let (head, rest) = text.split_at(at);
    format!("{head}{KEY}{FORM}{:016x}\",\n{rest}", of(&[head, rest]))
}

/// Whether a record is as it was written; one without the field is read as it is.
///
/// # Errors
/// Where it was changed since.
pub(crate) fn check(text: &str) -> Result<(), RunError> {
    match line(text) {
        Ok(None) => Ok(()),
        Ok(Some((at, sum))) if of(&[&text[..at.start], &text[at.end..]]) == sum => Ok(()),
        _ => Err(RunError::Changed),
    }
}

/// A record, or a line of a growing one, without the field, if it is as it was written: what changes its text on purpose begins
/// with this.
pub fn unsealed(text: &str) -> Cow<'_, str> {
    match line(text) {
        Ok(Some((at, _))) if check(text).is_ok() => Cow::Owned(format!("{}{}", &text[..at.start], &text[at.end..])),
        Err(()) => opened_line(text.trim_end()).unwrap_or(Cow::Borrowed(text)),
        _ => Cow::Borrowed(text),
    }
}

/// A line of a growing record, an object, with the field at its end.
pub(crate) fn sealed_line(json: &str) -> String {
    match json.strip_suffix('}') {
        Some(open) => format!("{open},{KEY}{FORM}{:016x}{CLOSE}\n", of(&[json])),
        None => format!("{json}\n"),
    }
}

/// A line of a growing record without the field; one that never had it, as those of earlier versions, is as it is.
///
/// # Errors
/// Where it was changed since.
pub(crate) fn opened_line(line: &str) -> Result<Cow<'_, str>, RunError> {
    // a flip of one bit leaves the key or the value's beginning
    if !line.contains(KEY) && !line.contains(FORM) {
        return Ok(Cow::Borrowed(line));
    }
    let before = line.len().checked_sub(1 + KEY.len() + FORM.len() + DIGITS + CLOSE.len());
    let open = before.and_then(|at| line.get(..at)).ok_or(RunError::Changed)?;
    let json = format!("{open}}}");
    if sealed_line(&json).trim_end_matches('\n') == line { Ok(Cow::Owned(json)) } else { Err(RunError::Changed) }
}

/// Where the field's line is, and what it says; an error where it is damaged.
fn line(text: &str) -> Result<Option<(Range<usize>, u64)>, ()> {
    let head = text.char_indices().map(|(at, _)| at).take_while(|at| *at <= HEAD).last().unwrap_or_default();
    let head = if text.len() <= HEAD { text } else { &text[..head] };
    let Some(start) = head.find(KEY) else {
        // half of the field, or all of it in another place
        return if text.contains(FORM) || text.contains(KEY) { Err(()) } else { Ok(None) };
    };
    let digits = start + KEY.len() + FORM.len();
    let end = digits + DIGITS + "\",\n".len();
    let sum = text.get(digits..digits + DIGITS).and_then(|digits| u64::from_str_radix(digits, 16).ok());
    let is_whole = text.get(start + KEY.len()..digits) == Some(FORM) && text.get(digits + DIGITS..end) == Some("\",\n");
    // in one form only, so that no flip within it is overlooked
    let sum = sum.filter(|sum| is_whole && text.get(digits..digits + DIGITS) == Some(&format!("{sum:016x}")));
    sum.map(|sum| Some((start..end, sum))).ok_or(())
}

/// FNV-1a over words of eight bytes: each step is one-to-one, so that texts that differ in one word never agree.
fn of(parts: &[&str]) -> u64 {
    const PRIME: u64 = 0x0100_0000_01b3;
    let step = |state: u64, word: u64| (state ^ word).wrapping_mul(PRIME);
    let mut state = 0xcbf2_9ce4_8422_2325;
    for part in parts {
        let mut words = part.as_bytes().chunks_exact(8);
        for word in words.by_ref() {
            state = step(state, word.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte)));
        }
        state = words.remainder().iter().fold(state, |state, byte| step(state, u64::from(*byte)));
        state = step(state, part.len() as u64);
    }
    state
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cell, moving, run};
    use super::super::{Event, Partial, Run};
    use super::*;
    use crate::plan::Test;
    use peerlane_machine::random::Random;
    use peerlane_machine::transfer::Transfer;

    fn record() -> Run {
        let steps = [("GPU0", "GPU1"), ("GPU1", "GPU0")].map(|(a, b)| moving(Test::Pairs, &[Transfer::new(a, b)]));
        let mut run = run("h200x4-vm", steps.to_vec());
        run.complete = true;
        run.cells = vec![cell(0, &steps[0], 396.0), cell(1, &steps[1], 395.5)];
        run
    }

    #[test]
    fn no_flip_of_a_bit_passes() {
        let text = record().to_json().unwrap();
        assert_eq!(Run::from_json(&text).unwrap(), record());
        let mut random = Random::from_seed(7);
        // anywhere, and in the field itself
        let field = text.find(KEY).unwrap();
        let anywhere = (0..200).map(|_| (random.below(text.len()), random.below(8)));
        let places: Vec<(usize, usize)> =
            anywhere.chain((field..field + 40).flat_map(|at| (0..8).map(move |bit| (at, bit)))).collect();
        for (at, bit) in places {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            // as files are read
            let flipped = String::from_utf8_lossy(&bytes);
            let read = Run::from_json(&flipped);
            assert!(read.is_err(), "bit {bit} of byte {at}: {:?}", &flipped.get(at.saturating_sub(20)..at + 20));
            assert!(Partial::read(&flipped).is_err(), "bit {bit} of byte {at}");
        }
    }

    #[test]
    fn a_flip_in_a_growing_record_is_named_by_its_line() {
        let whole = record();
        let events = whole.cells.iter().map(|cell| Partial::event_line(&Event::Cells(vec![cell.clone()])).unwrap());
        let text: String = std::iter::once(Partial::header_line(&whole).unwrap()).chain(events).collect();
        let read = Partial::read(&text).unwrap();
        assert_eq!((read.run.cells.len(), read.unreadable, read.damaged), (2, 0, Vec::new()));
        let kept = read.run.cells;
        let starts: Vec<usize> = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        for at in (0..text.len()).filter(|at| *at + 400 > starts[1] || *at % 7 == 0) {
            let bit = at % 8;
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1 << bit;
            let line = starts.iter().filter(|start| **start <= at).count();
            match Partial::read(&String::from_utf8_lossy(&bytes)) {
                // what describes the run is needed
                Err(_) => assert_eq!(line, 1, "bit {bit} of byte {at}"),
                Ok(read) => {
                    let ends_line = bytes[at] == b'\n' || text.as_bytes()[at] == b'\n';
                    assert!(read.unreadable > 0 && (ends_line || read.damaged == [line]), "bit {bit} of byte {at}");
                    assert!(read.run.cells.len() < 2 && read.run.cells.iter().all(|cell| kept.contains(cell)));
                }
            }
        }
        // what earlier versions wrote has none
        let old: String = text.lines().map(|line| format!("{}\n", opened_line(line).unwrap())).collect();
        assert!(!old.contains("checksum"));
        assert_eq!(Partial::read(&old).unwrap(), Partial::read(&text).unwrap());
    }

    #[test]
    fn who_removes_the_line_may_edit() {
        let text = record().to_json().unwrap();
        let edited = text.replace("395.5", "95.5");
        assert_eq!(Run::from_json(&edited), Err(RunError::Changed));
        let line = text.lines().find(|line| line.contains("checksum")).unwrap();
        let without = edited.replace(&format!("{line}\n"), "");
        assert_eq!(Run::from_json(&without).unwrap().cells[1].value(), Some(95.5));
        assert_eq!(unsealed(&text), text.replace(&format!("{line}\n"), ""));
        assert_eq!(unsealed(&edited), edited, "what was changed stays so");
        // written anew by another program, its fields in another order
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(Run::from_json(&value.to_string()), Err(RunError::Changed));
    }
}
