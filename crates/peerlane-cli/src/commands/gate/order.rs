//! The commands that drain and resume a node: split into words once, then filled in, and run without a shell.

use std::time::Duration;

use peerlane::one_line::escaped;
use peerlane_gpu::search;

use crate::program::{Silent, ask};

/// Limit of what a command may print, in bytes.
const MOST_OUTPUT: u64 = 1 << 20;

/// What placeholders stand for.
pub(super) struct Filled<'a> {
    /// `%h`
    pub(super) host: &'a str,
    /// `%r`
    pub(super) reason: &'a str,
    /// `%a`
    pub(super) action: &'a str,
}

/// Splits a command into words, as a shell does with quotes and backslashes, and does nothing else that a shell does.
pub(super) fn words(command: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = command.chars();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (Some(end), c) if c == end => quote = None,
            (Some('\''), c) => word.get_or_insert_default().push(c),
            (_, '\\') => word.get_or_insert_default().push(characters.next().ok_or("it ends with a backslash")?),
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err("a quote is not closed".to_owned());
    }
    words.extend(word);
    if words.is_empty() { Err("it is empty".to_owned()) } else { Ok(words) }
}

impl Filled<'_> {
    /// A word with its placeholders filled in. What is filled in is not looked at again.
    fn fill(&self, word: &str) -> String {
        let mut out = String::new();
        let mut characters = word.chars();
        while let Some(c) = characters.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            match characters.next() {
                Some('h') => out.push_str(self.host),
                Some('r') => out.push_str(&escaped(self.reason)),
                Some('a') => out.push_str(self.action),
                Some('%') => out.push('%'),
                Some(other) => out.extend(['%', other]),
                None => out.push('%'),
            }
        }
        out
    }
}

/// Runs a command for at most `patience`; the error says in a line what went wrong.
pub(super) fn run(command: &str, filled: &Filled, patience: Duration) -> Result<(), String> {
    let words = words(command)?;
    let mut words = words.iter().map(|word| filled.fill(word));
    let name = words.next().unwrap_or_default();
    let failed = |why: String| format!("{name}: {why}");
    let mut command = search::command(&name).map_err(|missing| failed(missing.to_string()))?;
    let said = ask(command.args(words), patience, MOST_OUTPUT).map_err(|silent: Silent| failed(silent.to_string()))?;
    if said.status.success() {
        return Ok(());
    }
    let words = if said.trouble.is_empty() { String::new() } else { format!(": {}", said.trouble) };
    Err(failed(format!("{}{words}", said.status)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVIL: Filled = Filled { host: "n1", reason: "a'b\"; $(touch /tmp/x) `id` %h \n", action: "isolate" };

    #[test]
    fn words_are_split_before_they_are_filled_in() {
        let split = words("scontrol update nodename=%h state=drain reason=\"%r now\" 'a b'").unwrap();
        let filled: Vec<String> = split.iter().map(|word| EVIL.fill(word)).collect();
        assert_eq!(filled[..4], ["scontrol", "update", "nodename=n1", "state=drain"]);
        assert_eq!(filled[4], "reason=a'b\"; $(touch /tmp/x) `id` %h \\u000a now");
        assert_eq!((filled[5].as_str(), filled.len()), ("a b", 6));
        assert_eq!(EVIL.fill("100%% %a %x %"), "100% isolate %x %");
        assert_eq!(words("a '' \"b\\\"c\" d\\ e").unwrap(), ["a", "", "b\"c", "d e"]);
        for wrong in ["", "  ", "a 'b", "a \"b", "a\\"] {
            assert!(words(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_command_fails_in_words_and_in_time() {
        let run = |command: &str| run(command, &EVIL, Duration::from_millis(300));
        assert_eq!(run("true"), Ok(()));
        assert!(run("sh -c 'echo no >&2; exit 3'").unwrap_err().contains("exit status: 3: no"));
        assert!(run("/no/such/program").unwrap_err().contains("not installed"));
        assert!(run("sleep 30").unwrap_err().contains("no answer within 0.3 s"));
    }
}
