//! Fitting text into columns: wrapping, truncating and counting.

use std::io::{self, Write};

use super::line_width;

/// The width of a text in columns.
pub fn width(text: &str) -> usize {
    text.chars().count()
}

/// The text, truncated with `…` if it is wider than `columns`: between words, unless that leaves less than half.
pub fn fit(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let cut: String = text.chars().take(columns.saturating_sub(1)).collect();
    match cut.rsplit_once(' ') {
        Some((words, _)) if 2 * width(words) >= columns => format!("{} …", words.trim_end()),
        _ => format!("{cut}…"),
    }
}

/// At most `most` lines of at most `columns`; what is left out is marked with `…`.
pub fn clip(text: &str, columns: usize, most: usize) -> Vec<String> {
    let mut lines = wrap(text, columns);
    if lines.len() > most {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            while width(last) + 2 > columns
                && let Some((shorter, _)) = last.rsplit_once(' ')
            {
                *last = shorter.to_owned();
            }
            last.push_str(" …");
        }
    }
    lines
}

/// Lines of at most `columns`, broken between words; a longer word is broken behind a mark such as `,` or `/`, if it has one.
pub fn wrap(text: &str, columns: usize) -> Vec<String> {
    let columns = columns.max(8);
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        let mut word = word;
        if !line.is_empty() && width(&line) + 1 + width(word) > columns {
            lines.push(std::mem::take(&mut line));
        }
        while width(word) > columns {
            let at = word.char_indices().nth(columns).map_or(word.len(), |(i, _)| i);
            let mark = word[..at].rfind([',', '/', '=', ';', '|', '.', '-', ':']).map(|i| i + 1);
            let (head, tail) = word.split_at(mark.filter(|mark| 2 * mark >= at).unwrap_or(at));
            lines.push(head.to_owned());
            word = tail;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    if !line.is_empty() {
        lines.push(line);
    }
    lines
}

/// A title on lines, of which only the first begins at the margin: no word of it can be mistaken for another title.
pub fn headline(text: &str) -> Vec<String> {
    let whole = wrap(text, line_width());
    if whole.len() < 2 {
        return whole;
    }
    let lines = wrap(text, line_width() - 2).into_iter().enumerate();
    lines.map(|(i, line)| if i == 0 { line } else { format!("  {line}") }).collect()
}

/// Writes `label` and then `text`, wrapped with a hanging indent.
pub fn hang(out: &mut dyn Write, label: &str, text: &str) -> io::Result<()> {
    let indent = width(label);
    for (i, line) in wrap(text, line_width().saturating_sub(indent)).iter().enumerate() {
        if i == 0 {
            writeln!(out, "{label}{line}")?;
        } else {
            writeln!(out, "{:indent$}{line}", "")?;
        }
    }
    Ok(())
}

/// `1 GPU`, `7 GPUs`.
pub fn count(n: usize, what: &str) -> String {
    match (n, what.strip_suffix('x'), what.strip_suffix("ch")) {
        (1, _, _) => format!("1 {what}"),
        (_, Some(stem), _) => format!("{n} {}ces", stem),
        (_, _, Some(_)) => format!("{n} {what}es"),
        _ => format!("{n} {what}s"),
    }
}

/// A number with about three significant digits, for tables.
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 1000.0 => 0,
        v if v >= 100.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

/// A number with three significant digits at most, for sentences: `243`, `24.3`, `2.43`.
pub(crate) fn rounded(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.digits$}")
}

/// `0.73–0.82`, or one number if both print alike.
pub fn span(low: f64, high: f64) -> String {
    let (a, b) = (number(low), number(high));
    if a == b { a } else { format!("{a}–{b}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapping_keeps_every_word() {
        assert_eq!(wrap("one two three four", 9), ["one two", "three", "four"]);
        assert_eq!(wrap("abcdefghijklmnop", 8), ["abcdefgh", "ijklmnop"]);
        assert!(wrap("", 10).is_empty());
        assert_eq!((fit("abcdef", 4), fit("one two three", 9)), ("abc…".into(), "one two …".into()));
        assert_eq!(wrap("--query=index,width,name x", 14), ["--query=index,", "width,name x"]);
        assert_eq!(clip("one two three four five", 9, 2), ["one two", "three …"]);
        assert_eq!(clip("one two", 9, 2), ["one two"]);
        assert_eq!(fit("äöü", 3), "äöü");
    }

    #[test]
    fn plurals_and_numbers() {
        assert_eq!((count(1, "switch"), count(2, "switch")), ("1 switch".into(), "2 switches".into()));
        assert_eq!((count(2, "matrix"), count(0, "GPU")), ("2 matrices".into(), "0 GPUs".into()));
        assert_eq!((span(0.734, 0.82), span(2.0, 2.001)), ("0.73–0.82".into(), "2.00".into()));
        assert_eq!(number(392.87), "392.9");
    }
}
