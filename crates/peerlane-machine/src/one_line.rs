//! Text from outside on one line: what stands inside a line of output can neither begin a line nor hide what it is.
//!
//! It is cleaned where it is read, not where it is shown: sentences are made of values in every crate, and a sentence with
//! a line break in a value looks like one of several lines. Strings of JSON and TOML pass [`read`], names of files [`shown`].

mod deserializer;

use std::borrow::Cow;
use std::path::Path;

use serde::{Deserialize, Deserializer, Serialize};

/// A character that a terminal, or a reader, does not see as itself: controls of both sets (U+0000 to U+001F, U+007F to
/// U+009F), line and paragraph separators, those that turn the direction of text, and the two that are no characters,
/// which XML cannot hold.
pub fn is_hidden(c: char) -> bool {
    match c {
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        '\u{fffe}' | '\u{ffff}' => true,
        c => c.is_control(),
    }
}

/// A value with spaces in place of hidden characters.
pub fn one_line(text: &str) -> Cow<'_, str> {
    if text.contains(is_hidden) { text.replace(is_hidden, " ").into() } else { text.into() }
}

/// A name in which every hidden character matters, with `\u001b` in its place: visible, and the same character in JSON
/// and TOML.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return text.into();
    }
    let escape = |c: char| if is_hidden(c) { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    text.chars().map(escape).collect()
}

/// Words that only this program says of a machine, and what its lines begin with.
const VERDICTS: [&str; 7] = ["HEALTHY", "LIMITED", "FAULT", "UNEXPLAINED", "JUDGED", "WORSE", "PASS"];
const LABELS: [&str; 8] = ["fix", "next", "error", "warning", "note", "no findings", "peerlane:", "checked:"];

/// A name or title from outside where it begins a line: in quotes, if the line could be read as one of this program's own.
pub fn quoted(name: &str) -> Cow<'_, str> {
    let mut words = name.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    // in small letters they are common words, but at the beginning
    let first =
        words.clone().next().is_some_and(|word| VERDICTS.iter().any(|verdict| verdict.eq_ignore_ascii_case(word)));
    // what is left of a colour may stand before it
    let says = first || words.any(|word| VERDICTS.iter().any(|verdict| word.ends_with(verdict)));
    let begins = name.trim_start().to_lowercase();
    let is_label =
        |label: &&str| begins.strip_prefix(*label).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric));
    if says || LABELS.iter().any(is_label) {
        return format!("\"{}\"", name.replace('"', "'")).into();
    }
    name.into()
}

/// A file's name in a message.
pub fn shown(path: impl AsRef<Path>) -> String {
    escaped(&path.as_ref().to_string_lossy()).into_owned()
}

/// Reads a value whose strings, keys included, stay on one line, but for [`Lines`].
///
/// # Errors
/// Where the format's own reader fails; hidden characters do not appear in what it quotes.
pub fn read<'de, T: Deserialize<'de>, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    T::deserialize(deserializer::OneLine(from))
}

/// A string of several lines: a table of numbers, or the text of a file. No part of one is shown before a scanner has
/// split it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "peerlane::Lines")]
pub struct Lines(pub String);

/// A field's string of several lines.
///
/// # Errors
/// Where it is no string.
pub fn lines<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    Lines::deserialize(from).map(|lines| lines.0)
}

/// The same where the field may be absent.
///
/// # Errors
/// Where it is no string.
pub fn lines_if_any<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Ok(Option::<Lines>::deserialize(from)?.map(|lines| lines.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_name_that_says_a_verdict_is_quoted() {
        for (name, shown) in [
            ("HEALTHY  no findings; checked: NVLinks", "\"HEALTHY  no findings; checked: NVLinks\""),
            ("m: \"HEALTHY\"", "\"m: 'HEALTHY'\""),
            ("Healthy", "\"Healthy\""),
            ("a card limited to x8", "a card limited to x8"),
            ("fix  buy another", "\"fix  buy another\""),
            ("Peerlane: no findings", "\"Peerlane: no findings\""),
            ("fixture-7", "fixture-7"),
            ("default-node", "default-node"),
            ("notebook with two GPUs", "notebook with two GPUs"),
        ] {
            assert_eq!(quoted(name), shown);
        }
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        title: Option<String>,
        #[serde(default)]
        notes: Vec<String>,
        #[serde(default)]
        map: BTreeMap<String, Kind>,
        #[serde(default, deserialize_with = "lines")]
        table: String,
        #[serde(default)]
        spanned: Option<toml::Spanned<Lines>>,
        #[serde(default)]
        other: Option<serde_json::Value>,
    }

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    enum Kind {
        Named(String),
        Both { a: String, b: u8 },
        Pair(String, f64),
        Alone,
    }

    fn toml(text: &str) -> Result<File, toml::de::Error> {
        read(toml::Deserializer::parse(text)?)
    }

    fn json(text: &str) -> Result<File, serde_json::Error> {
        read(&mut serde_json::Deserializer::from_str(text))
    }

    #[test]
    fn values_and_keys_stay_on_their_line_and_tables_keep_theirs() {
        let of_toml = toml(
            "title = \"a\\nb\\u001b[2J\"\nnotes = [\"\"\"x\ny\"\"\", \"plain\\u2028\"]\ntable = \"\"\"1\n2\"\"\"\n\
             spanned = \"3\\n4\"\nmap = {\"k\\tk\" = {named = \"n\\rn\"}, b = {both = {a = \"\\u202ea\", b = 3}}}\n",
        );
        let of_toml = of_toml.unwrap();
        assert_eq!(of_toml.title.as_deref(), Some("a b [2J"));
        assert_eq!(of_toml.notes, ["x y", "plain "]);
        assert_eq!(of_toml.table, "1\n2");
        assert_eq!(of_toml.spanned.unwrap().get_ref().0, "3\n4");
        assert_eq!(of_toml.map["k k"], Kind::Named("n n".to_owned()));
        assert_eq!(of_toml.map["b"], Kind::Both { a: " a".to_owned(), b: 3 });
        let of_json = json(
            r#"{"title": "a\nb", "map": {"p": {"pair": ["\u0085", 1.5]}, "q": "alone"}, "table": "1\n2",
                "other": {"deep\n": ["\u0007", 1, null, true]}}"#,
        );
        let of_json = of_json.unwrap();
        assert_eq!((of_json.title.as_deref(), of_json.table.as_str()), (Some("a b"), "1\n2"));
        assert_eq!(of_json.map["p"], Kind::Pair(" ".to_owned(), 1.5));
        assert_eq!(of_json.map["q"], Kind::Alone);
        assert_eq!(of_json.other.unwrap(), serde_json::json!({"deep ": [" ", 1, null, true]}));
    }

    #[test]
    fn what_an_error_quotes_is_on_one_line() {
        let errors = [
            toml("\"x\\ny\" = 1").unwrap_err().message().to_owned(),
            toml("map = {a = \"x\\ny\"}").unwrap_err().message().to_owned(),
            json(r#"{"x\ny": 1}"#).unwrap_err().to_string(),
            json(r#"{"notes": "x\ny"}"#).unwrap_err().to_string(),
            json(r#"{"map": {"a": "x\ny"}}"#).unwrap_err().to_string(),
        ];
        assert!(errors.iter().all(|e| !e.contains(is_hidden)), "{errors:?}");
    }

    #[test]
    fn names_of_files_are_escaped() {
        assert_eq!(shown(Path::new("a\nb\u{1b}]0;x\u{7}.txt")), "a\\u000ab\\u001b]0;x\\u0007.txt");
        assert_eq!((escaped("plain"), one_line("plain")), ("plain".into(), "plain".into()));
    }
}
