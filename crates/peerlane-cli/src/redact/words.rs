//! Names that are replaced wherever they stand: looked up word by word, so that the time grows with the text alone, however
//! many names there are.

use std::collections::HashMap;
use std::rc::Rc;

/// What is longer is no name, and replaced only where it was found.
const LONGEST: usize = 512;

/// What stands before a word that is not the name it looks like: `NUMA node1`, `system/node/node1`.
const BEFORE_OTHERS: [&str; 2] = ["NUMA ", "/node/"];

/// Whether a character is part of a word.
pub(super) fn adjoins(c: Option<char>) -> bool {
    c.is_some_and(|c| c.is_alphanumeric() || c == '_')
}

/// Names with their stand-ins.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// All names, and what they begin with up to the end of each of their words, in lower case. A beginning that is no name
    /// has no stand-in.
    beginnings: HashMap<Box<str>, Option<Rc<str>>>,
}

impl Words {
    /// Adds a name, unless it is there.
    pub(super) fn add(&mut self, name: &str, new: &str) {
        // what is no letter at its ends need not be found
        let name = name.trim_matches(|c| !adjoins(Some(c))).to_lowercase();
        if name.is_empty() || name.len() > LONGEST || matches!(self.beginnings.get(name.as_str()), Some(Some(_))) {
            return;
        }
        let mut end = 0;
        while let Some(word) = next_word(&name, end) {
            end = word.end;
            if end < name.len() && !self.beginnings.contains_key(&name[..end]) {
                self.beginnings.insert(name[..end].into(), None);
            }
        }
        self.beginnings.insert(name.into(), Some(new.into()));
    }

    /// A text with all names replaced that stand in it as whole words, the longest where several do; `None` if it has none.
    pub(super) fn replace(&self, text: &str) -> Option<String> {
        if self.beginnings.is_empty() {
            return None;
        }
        let mut done = String::new();
        let (mut from, mut at) = (0, 0);
        let mut lower = String::new();
        while let Some(word) = next_word(text, at) {
            at = word.end;
            let Some((end, new)) = self.longest(text, word.clone(), &mut lower) else { continue };
            let before = &text[..word.start];
            if BEFORE_OTHERS.iter().any(|other| before.ends_with(other)) || is_part(before) {
                continue;
            }
            done.push_str(&text[from..word.start]);
            done.push_str(new);
            (from, at) = (end, end);
        }
        (from > 0).then(|| done + &text[from..])
    }

    /// The longest name that begins with a word of a text: its end and its stand-in.
    fn longest(&self, text: &str, first: std::ops::Range<usize>, lower: &mut String) -> Option<(usize, &str)> {
        let (start, mut end) = (first.start, first.end);
        let mut best = None;
        lower.clear();
        lowered(&text[start..end], lower);
        while let Some(known) = self.beginnings.get(lower.as_str()) {
            best = known.as_deref().map(|new| (end, new)).or(best);
            let Some(next) = next_word(text, end).filter(|next| next.end - start <= LONGEST) else { break };
            lowered(&text[end..next.end], lower);
            end = next.end;
        }
        best
    }
}

/// Whether what stands before a word is the beginning of the name of a part, which is of the catalogue.
fn is_part(before: &str) -> bool {
    let name = before.bytes().rev().take(64).take_while(|b| b.is_ascii_alphanumeric() || *b == b'-').count();
    let begun = &before[..before.len() - name];
    begun.ends_with("part = \"") || begun.ends_with("extends = \"")
}

/// Appends a text in lower case.
fn lowered(text: &str, to: &mut String) {
    if text.is_ascii() {
        to.extend(text.bytes().map(|b| char::from(b.to_ascii_lowercase())));
    } else {
        to.push_str(&text.to_lowercase());
    }
}

/// The first whole word from a place on, which is not within a word.
fn next_word(text: &str, from: usize) -> Option<std::ops::Range<usize>> {
    let rest = text.get(from..)?;
    let start = from + rest.find(|c| adjoins(Some(c)))?;
    let end = text[start..].find(|c| !adjoins(Some(c))).map_or(text.len(), |len| start + len);
    Some(start..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_words_and_the_longest() {
        let mut words = Words::default();
        assert_eq!(words.replace("gpu-7"), None);
        for (name, new) in
            [("gpu-7", "host-1"), ("gpu-7.acme.org", "host-2"), ("gpu-no", "host-3"), ("node9", "host-4")]
        {
            words.add(name, new);
        }
        for (from, to) in [
            ("gpu-7 GPU-7.", "host-1 host-1."),
            ("(gpu-7.acme.org) gpu-7.acme.net", "(host-2) host-1.acme.net"),
            // no word that another begins or ends with
            ("gpu-77 xgpu-7 gpu-7x gpu_7", "gpu-77 xgpu-7 gpu-7x gpu_7"),
            // a longer name that does not go on hides no other one in it
            ("gpu-node9 gpu-no-node9", "gpu-host-4 host-3-host-4"),
            ("NUMA node9 /node/node9 node9", "NUMA node9 /node/node9 host-4"),
            ("part = \"epyc-node9\" x = \"a-node9\"", "part = \"epyc-node9\" x = \"a-host-4\""),
            ("ünode9 node9ü node9", "ünode9 node9ü host-4"),
        ] {
            assert_eq!(words.replace(from).as_deref().unwrap_or(from), to);
        }
    }
}
