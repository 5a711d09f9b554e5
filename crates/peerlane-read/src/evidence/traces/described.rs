//! What a trace is, in one line for who gave it to `check`: its ranks, its communication by kind, what is exposed, and what is wrong.

use std::collections::BTreeMap;

use peerlane_machine::units::Bytes;

use super::{Format, Recording, Size, TraceError, What, format_of, join, plan, read_all, utf8};

/// The most kinds of communication that are listed, and notes.
const MOST_KINDS: usize = 6;
const MOST_NOTES: usize = 3;

/// What a trace is that describes no machine, in words; `None` of anything else.
///
/// `from` is what can be played: the file, or the archive that holds it. Where `large`, it is more than is read as a text, so that no
/// reader of texts says more.
pub(crate) fn described(file: &str, from: &str, bytes: &[u8], large: bool) -> Option<String> {
    let name = match format_of(bytes)? {
        Format::Chakra => "an execution trace of Chakra",
        Format::Host => "PyTorch's trace of the host",
        Format::Nsys => "an export of Nsight Systems",
        Format::Events => "events of NCCL's profiler plugin",
        Format::Plan => {
            let (what, can) = utf8(bytes).and_then(plan::described).unwrap_or_else(|why| (why, false));
            let hint = format!("; 'peerlane simulate SYSTEM -w {from} --sizes SIZE' says how long it takes");
            return Some(what + if can { &hint } else { "" });
        }
        Format::Kineto if large => "a profile of PyTorch",
        Format::Inspector if large => "operations of NCCL Inspector",
        // readers of texts have more to say of these
        Format::Kineto | Format::Inspector | Format::Groups => return None,
    };
    let without = |why: &str| why.strip_prefix(file).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(why).to_owned();
    Some(match read_all(file, bytes) {
        Ok(ranks) => {
            let mut what = format!("{name}, {}", of_ranks(&ranks));
            // those of other ranks are in other files
            let whole = ranks.len() > 1 || ranks.iter().all(|rank| rank.world == Some(1));
            match join(ranks, 2) {
                Err(TraceError(why)) if whole => what += &format!("; it cannot be played: {}", without(&why)),
                _ => {
                    what += &format!("; how long it takes on a machine says 'peerlane simulate SYSTEM -w {from}'");
                }
            }
            what
        }
        Err(TraceError(why)) => {
            let why = without(&why);
            // the reader says what it is, or the format's name does
            if why.starts_with(name) { why } else { format!("{name} that cannot be played: {why}") }
        }
    })
}

fn of_ranks(ranks: &[Recording]) -> String {
    let mut kinds: BTreeMap<String, (usize, u64, f64)> = BTreeMap::new();
    let mut records = 0;
    for record in ranks.iter().flat_map(|rank| &rank.records) {
        records += 1;
        let (kind, bytes, time) = match &record.what {
            What::Collective { collective, bytes, .. } => {
                let (Size::Whole(bytes) | Size::Given(bytes)) = bytes;
                (collective.name().to_owned(), *bytes, record.took.unwrap_or_default())
            }
            What::Known(seconds, kind) => {
                (kind.map_or_else(|| "other communication".to_owned(), |kind| kind.name().to_owned()), 0, *seconds)
            }
            What::Send { bytes, .. } => ("send".to_owned(), *bytes, record.took.unwrap_or_default()),
            What::Compute(_) | What::Host(_) | What::Receive { .. } => continue,
        };
        let all = kinds.entry(kind).or_default();
        *all = (all.0 + 1, all.1.saturating_add(bytes), all.2 + time);
    }
    let n = ranks.len().max(1);
    let mut kinds: Vec<(String, (usize, u64, f64))> = kinds.into_iter().collect();
    kinds.sort_by(|a, b| b.1.2.total_cmp(&a.1.2).then(b.1.1.cmp(&a.1.1)));
    let more = kinds.len().saturating_sub(MOST_KINDS);
    let mut words: Vec<String> = kinds
        .into_iter()
        .take(MOST_KINDS)
        .map(|(kind, (count, bytes, time))| {
            let count = (count as f64 / n as f64 * 10.0).round() / 10.0;
            let bytes = if bytes > 0 { format!(", {}", Bytes(bytes / n as u64)) } else { String::new() };
            let time = if time > 0.0 { format!(", {:.3} ms", 1e3 * time / n as f64) } else { String::new() };
            format!("{count} {kind}{bytes}{time}")
        })
        .collect();
    if more > 0 {
        words.push(format!("{more} more kinds"));
    }
    let words = if words.is_empty() { "none".to_owned() } else { words.join("; ") };
    let each = if n == 1 { "" } else { " of a rank" };
    let ranks_word = if n == 1 { "rank" } else { "ranks" };
    let mut what = format!("{n} {ranks_word}, {records} records; communication{each}: {words}");
    let splits: Option<Vec<super::Split>> = ranks.iter().map(|rank| rank.recorded).collect();
    if let Some(splits) = splits {
        let split = super::Split::mean(&splits, 1);
        let ms = |seconds: f64| 1e3 * seconds;
        // a log of communication alone has nothing that hides it
        if split.computing > 0.0 {
            what += &format!("; {:.3} ms exposed of {:.3} ms a step", ms(split.exposed), ms(split.time));
        }
    }
    let mut notes: Vec<&String> = Vec::new();
    for note in ranks.iter().flat_map(|rank| &rank.notes) {
        if !notes.contains(&note) && notes.len() < MOST_NOTES {
            notes.push(note);
        }
    }
    for note in notes {
        what += &format!("; {}", note.trim_end_matches('.'));
    }
    what
}
