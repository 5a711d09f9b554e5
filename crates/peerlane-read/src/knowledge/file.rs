//! Files of knowledge: TOML, of this project or of a site.

use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;

use super::pattern::{ANCHOR, anchors};
use super::{ADDED, Class, ENTRIES, Entry, Pattern, Weight};
use crate::input_file::{self, Kind, Refused};
use peerlane_machine::one_line::shown;

/// The most files of a site's folder.
const MAX_FILES: usize = 256;

/// The most entries of a site: ten times those of the program.
const MAX_ENTRIES: usize = 8192;

/// The longest text of an entry, in bytes.
const MAX_TEXT: usize = 2000;

/// The longest name of an entry, in bytes.
const MAX_NAME: usize = 100;

/// Why a file of knowledge cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KnowledgeError {
    /// The folder or a file cannot be read.
    #[error(transparent)]
    File(#[from] Refused),
    /// A file is no TOML of the right form.
    #[error("{0}: {1}")]
    Form(String, String),
    /// An entry is wrong.
    #[error("{0}: entry '{1}': {2}")]
    Entry(String, String, String),
    /// Too much of something.
    #[error("{0}: more than {1}; give fewer")]
    TooMany(String, String),
}

/// A file as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    program: String,
    /// Where the words were published, for all entries that state nothing else.
    #[serde(default)]
    source: String,
    #[serde(default)]
    marks: Vec<String>,
    entry: Vec<Written>,
}

/// An entry as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    pub(super) id: String,
    /// None where a rule finds the entry by its name.
    #[serde(default)]
    pub(super) pattern: Vec<String>,
    #[serde(default)]
    marks: Option<Vec<String>>,
    #[serde(default)]
    with: Vec<String>,
    #[serde(default)]
    instead_of: Vec<String>,
    #[serde(default)]
    resolves: Vec<String>,
    #[serde(default)]
    consequence_of: Vec<String>,
    class: Option<String>,
    severity: Option<String>,
    #[serde(default)]
    family: bool,
    #[serde(default)]
    pub(super) rule: String,
    #[serde(default)]
    reset: bool,
    #[serde(default)]
    summary: String,
    #[serde(default)]
    fix: String,
    #[serde(default)]
    confirm: String,
    /// The releases that print it; for people who maintain the file.
    #[serde(default)]
    versions: String,
    #[serde(default)]
    source: String,
    pub(super) example: Vec<String>,
}

/// An entry whose texts are owned.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) program: String,
    pub(super) marks: Vec<String>,
    pub(super) class: Class,
    pub(super) weight: Weight,
    pub(super) written: Written,
}

/// Reads the entries of a file.
pub(super) fn read(name: &str, text: &str) -> Result<Vec<Read>, KnowledgeError> {
    let file: File = toml::from_str(text).map_err(|e| KnowledgeError::Form(name.to_owned(), e.to_string()))?;
    let File { program, source, marks, entry } = file;
    entry
        .into_iter()
        .map(|written| {
            let id: String = written.id.chars().take(MAX_NAME).collect();
            let wrong = |what: String| KnowledgeError::Entry(name.to_owned(), id.clone(), what);
            let class = class(written.class.as_deref()).map_err(wrong)?;
            let weight = weight(written.severity.as_deref()).map_err(wrong)?;
            sound(&written, weight, &source).map_err(wrong)?;
            let marks = written.marks.clone().unwrap_or_else(|| marks.clone());
            Ok(Read { program: program.clone(), marks, class, weight, written })
        })
        .collect()
}

/// Whether an entry has all that it needs.
fn sound(written: &Written, weight: Weight, source: &str) -> Result<(), String> {
    let texts = [&written.summary, &written.fix, &written.confirm, &written.versions, &written.source];
    if texts.into_iter().chain(&written.pattern).chain(&written.example).any(|text| text.len() > MAX_TEXT) {
        return Err(format!("a text is longer than {MAX_TEXT} bytes"));
    }
    if written.id.len() > MAX_NAME {
        return Err(format!("its name is longer than {MAX_NAME} bytes"));
    }
    if written.id.is_empty() || !written.id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        return Err("the name has other characters than a-z, 0-9 and -".to_owned());
    }
    for pattern in &written.pattern {
        anchors(pattern)?;
    }
    if written.pattern.is_empty() && written.rule.is_empty() {
        return Err("it needs a pattern".to_owned());
    }
    let is_reported = weight != Weight::Nothing && written.rule.is_empty();
    if is_reported && (written.summary.is_empty() || written.fix.is_empty()) {
        return Err("it needs a summary and a fix".to_owned());
    }
    if written.source.is_empty() && source.is_empty() {
        return Err("it needs a source".to_owned());
    }
    Ok(())
}

fn class(word: Option<&str>) -> Result<Class, String> {
    Ok(match word.unwrap_or("internal") {
        "fabric" => Class::Fabric,
        "host" => Class::Host,
        "driver" => Class::Driver,
        "hardware" => Class::Hardware,
        "setting" => Class::Setting,
        "other-end" => Class::OtherEnd,
        "caller" => Class::Caller,
        "internal" => Class::Internal,
        other => {
            return Err(format!(
                "unknown class '{other}'; the classes are fabric, host, driver, hardware, setting, other-end, caller, internal"
            ));
        }
    })
}

fn weight(word: Option<&str>) -> Result<Weight, String> {
    Ok(match word.unwrap_or("likely") {
        "certain" => Weight::Certain,
        "likely" => Weight::Likely,
        "possible" => Weight::Possible,
        "limit" => Weight::Limit,
        "note" => Weight::Note,
        "none" => Weight::Nothing,
        other => {
            return Err(format!("unknown severity '{other}'; it is certain, likely, possible, limit, note or none"));
        }
    })
}

/// For each pattern the place of its rarest words among all of these.
pub(super) fn places(all: &[Read]) -> HashMap<&str, usize> {
    let mut often: HashMap<&str, u32> = HashMap::new();
    let patterns = || all.iter().flat_map(|read| &read.written.pattern);
    let window = |pattern: &'_ str, at: usize| -> Option<(usize, usize)> {
        pattern.get(at..at + ANCHOR).map(|_| (at, at + ANCHOR))
    };
    for pattern in patterns() {
        for at in anchors(pattern).unwrap_or_default() {
            if let Some((from, to)) = window(pattern, at) {
                *often.entry(&pattern[from..to]).or_default() += 1;
            }
        }
    }
    let rarest = |pattern: &str| {
        let windows = anchors(pattern).unwrap_or_default();
        let windows = windows.into_iter().filter_map(|at| window(pattern, at));
        windows.min_by_key(|(from, to)| often.get(&pattern[*from..*to]).copied().unwrap_or(0)).map_or(0, |(at, _)| at)
    };
    patterns().map(|pattern| (pattern.as_str(), rarest(pattern))).collect()
}

/// Adds the entries of all `.toml` files of a folder, for the life of the program. They come before the program's own, and what they
/// explain is marked.
pub fn add(folder: &Path) -> Result<usize, KnowledgeError> {
    let name = || shown(folder);
    let listed = input_file::Folder::of(folder)?;
    let mut all: Vec<Read> = Vec::new();
    let mut files = 0;
    for entry in listed.entries(folder)? {
        if entry.path.extension().is_none_or(|e| e != "toml") || entry.is_hidden() {
            continue;
        }
        files += 1;
        if files > MAX_FILES {
            return Err(KnowledgeError::TooMany(name(), format!("{MAX_FILES} files")));
        }
        let file = shown(&entry.path);
        let bytes = listed.read(&entry.path, Kind::Design)?;
        let text = String::from_utf8(bytes).map_err(|e| KnowledgeError::Form(file.clone(), e.to_string()))?;
        all.extend(read(&file, &text)?);
        if all.len() > MAX_ENTRIES {
            return Err(KnowledgeError::TooMany(name(), format!("{MAX_ENTRIES} entries")));
        }
    }
    let kept = kept(&all);
    if let Some(twin) = kept.iter().find(|own| ENTRIES.iter().any(|entry| entry.id == own.id)) {
        let what = "the program has an entry of this name; choose another".to_owned();
        return Err(KnowledgeError::Entry(name(), twin.id.to_owned(), what));
    }
    let count = kept.len();
    // entries live as long as the program: the first folder counts
    ADDED.get_or_init(|| kept);
    Ok(count)
}

/// Entries for the life of the program.
fn kept(all: &[Read]) -> Vec<Entry> {
    let places = places(all);
    let text = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
    let list = |list: &[String]| -> &'static [&'static str] {
        Box::leak(list.iter().map(|one| text(one)).collect::<Vec<_>>().into_boxed_slice())
    };
    let pattern = |pattern: &String| {
        let anchor = places.get(pattern.as_str()).copied().unwrap_or(0);
        Pattern { text: text(pattern), anchor }
    };
    let entry = |read: &Read| {
        let written = &read.written;
        Entry {
            id: text(&written.id),
            program: text(&read.program),
            patterns: Box::leak(written.pattern.iter().map(pattern).collect::<Vec<_>>().into_boxed_slice()),
            marks: list(&read.marks),
            with: list(&written.with),
            instead_of: list(&written.instead_of),
            resolves: list(&written.resolves),
            consequence_of: list(&written.consequence_of),
            class: read.class,
            weight: read.weight,
            family: written.family,
            rule: text(&written.rule),
            reset: written.reset,
            summary: text(&written.summary),
            fix: text(&written.fix),
            confirm: text(&written.confirm),
            added: true,
        }
    };
    all.iter().map(entry).collect()
}

#[cfg(test)]
pub(super) use table::write;

/// Writes the table of the program's own entries.
#[cfg(test)]
mod table {
    use std::fmt::Write;

    use super::{Read, places};

    pub(in crate::knowledge) fn write(all: &[Read]) -> String {
        let places = places(all);
        let mut sorted: Vec<&Read> = all.iter().collect();
        sorted.sort_by(|a, b| a.written.id.cmp(&b.written.id));
        let mut out =
            "// Generated from knowledge/*.toml: UPDATE_KNOWLEDGE=1 cargo test -p peerlane-read knowledge::\n&[\n"
                .to_owned();
        for read in sorted {
            let w = &read.written;
            let patterns: String = w
                .pattern
                .iter()
                .map(|text| format!("Pattern {{ text: {text:?}, anchor: {} }}, ", places[text.as_str()]))
                .collect();
            writeln!(
                out,
                "Entry {{ id: {:?}, program: {:?}, patterns: &[{patterns}], marks: &{:?}, with: &{:?}, instead_of: &{:?}, \
                 resolves: &{:?}, consequence_of: &{:?}, class: Class::{:?}, weight: Weight::{:?}, family: {}, rule: {:?}, reset: {}, summary: {:?}, \
                 fix: {:?}, confirm: {:?}, added: false }},",
                w.id, read.program, read.marks, w.with, w.instead_of, w.resolves, w.consequence_of, read.class, read.weight, w.family,
                w.rule, w.reset, w.summary, w.fix, w.confirm,
            )
            .unwrap();
        }
        out + "]\n"
    }
}
