//! TOML → entries, with all that is wrong: what cannot be read is taken out, and the rest is read again.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue, Deserializer, Error};

use super::file::SystemFile;
use super::problems::Problems;
use super::source::Source;
use peerlane_machine::names::closest;
use peerlane_machine::one_line;

/// Reads a file's entries. `None` where its TOML is broken: then nothing that follows can be relied on.
pub(super) fn read(text: &str, source: &Source, problems: &mut Problems) -> Option<SystemFile> {
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut last = None;
    for error in &errors {
        // a broken line has one cause
        let line = error.span().map(|at| source.line(at.start));
        if last.is_none() || last != Some(line) {
            note(error, source, problems);
        }
        last = Some(line);
    }
    // a key that is given twice leaves the rest as it is
    if errors.iter().any(|error| error.message() != "duplicate key") {
        return None;
    }
    let mut table = table;
    loop {
        let error = match one_line::read(Deserializer::from(table.clone())) {
            Ok(system) => return Some(system),
            Err(error) => error,
        };
        note(&error, source, problems);
        let entry = error.span().and_then(|at| take_out(table.get_mut(), &at));
        match entry {
            Some(entry) if !problems.is_full() => problems.damaged(entry),
            _ if error.message() == "missing field `name`" && !table.get_ref().contains_key("name") => {
                let at = table.span();
                let name = Spanned::new(at.clone(), "name".into());
                table.get_mut().insert(name, Spanned::new(at, DeValue::String("unnamed".into())));
            }
            _ => return None,
        }
    }
}

fn note(error: &Error, source: &Source, problems: &mut Problems) {
    let message = with_nearest(error.message());
    match error.span() {
        Some(at) => problems.keep_of::<()>(&at, Err(source.error(at.clone(), message))),
        None => problems.keep::<()>(Err(source.refuse(message))),
    };
}

/// ``unknown field `pci`, expected one of …`` with the nearest of the names instead of all.
fn with_nearest(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let is_unknown = message.starts_with("unknown field") || message.starts_with("unknown variant");
    let (true, Some((wrong, known))) = (is_unknown, quoted.split_first()) else { return message.replace('\n', " ") };
    match closest(wrong, known.iter().copied()).first() {
        Some(near) => {
            let head = message.split('`').next().unwrap_or_default();
            format!("{head}`{wrong}`; did you mean `{near}`?")
        }
        None => message.replace('\n', " "),
    }
}

/// Takes out the smallest entry that holds `at`, and returns the extent of the element of a list or table that it was in.
fn take_out(table: &mut DeTable, at: &Range<usize>) -> Option<Range<usize>> {
    let key = table.iter_mut().find_map(|(key, value)| {
        let extent = extent(value);
        let all = key.span().start.min(extent.start)..extent.end;
        if let Some(inner) = take_out_of(value.get_mut(), at) {
            // an element of a list such as [[links]] is the entry, not the list
            return Some(Err(inner.unwrap_or(all)));
        }
        let here = holds(&key.span(), at) || holds(&value.span(), at);
        here.then(|| Ok((key.clone(), all)))
    })?;
    match key {
        Ok((key, extent)) => {
            table.remove(&key);
            Some(extent)
        }
        Err(extent) => Some(extent),
    }
}

/// The same within a value: `None` where nothing was taken out, `Some(None)` where the value itself is the entry.
fn take_out_of(value: &mut DeValue, at: &Range<usize>) -> Option<Option<Range<usize>>> {
    match value {
        DeValue::Table(table) => {
            let nested = table.iter().any(|(_, v)| matches!(v.get_ref(), DeValue::Table(_) | DeValue::Array(_)));
            take_out(table, at).map(|extent| nested.then_some(extent))
        }
        DeValue::Array(array) => take_out_of_list(array, at).map(Some),
        _ => None,
    }
}

fn take_out_of_list(array: &mut DeArray, at: &Range<usize>) -> Option<Range<usize>> {
    let found = array.iter_mut().enumerate().find_map(|(i, value)| {
        let extent = extent(value);
        let inside = take_out_of(value.get_mut(), at).is_some();
        (inside || holds(&value.span(), at)).then_some((i, inside, extent))
    });
    let (i, inside, extent) = found?;
    if !inside {
        let others = array.iter().enumerate().filter(|(member, _)| *member != i);
        *array = others.map(|(_, value)| value.clone()).collect();
    }
    Some(extent)
}

fn holds(span: &Range<usize>, at: &Range<usize>) -> bool {
    span.start <= at.start && at.end <= span.end
}

/// From where a value begins to where the last of its members ends; the span of `[[links]]` is that of its header.
fn extent(value: &Spanned<DeValue>) -> Range<usize> {
    let own = value.span();
    let members: Vec<Range<usize>> = match value.get_ref() {
        DeValue::Table(table) => table.values().map(extent).collect(),
        DeValue::Array(array) => array.iter().map(extent).collect(),
        _ => Vec::new(),
    };
    members.into_iter().fold(own, |all, member| all.start.min(member.start)..all.end.max(member.end))
}
