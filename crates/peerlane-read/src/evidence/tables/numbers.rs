//! Numbers as people and other languages write them: decimal commas, signs between thousands, typographic signs.

/// What a sign within numbers stands for, as far as the numbers show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Style {
    /// Some number has a comma that can only be a decimal sign.
    comma: bool,
    /// Some number has a point that can only be a decimal sign, or a comma that can only separate thousands.
    point: bool,
}

impl Style {
    /// What these words show; those that are no numbers show nothing.
    pub(super) fn of<'a>(words: impl Iterator<Item = &'a str>) -> Self {
        let mut style = Style::default();
        for (number, _) in words.flat_map(str::split_whitespace).filter_map(split) {
            match Reading::of(number) {
                Reading::Decimal { sign: ',', .. } | Reading::Grouped('.') => style.comma = true,
                Reading::Decimal { .. } | Reading::Grouped(',') => style.point = true,
                _ => {}
            }
        }
        style
    }

    /// This one, or another where this shows nothing.
    pub(super) fn or(self, other: Self) -> Self {
        if self == Style::default() { other } else { self }
    }
}

/// The ways to read a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// Digits alone.
    Plain,
    /// It has this decimal sign; other signs separate thousands.
    Decimal { sign: char, at: usize },
    /// Its signs separate thousands.
    Grouped(char),
    /// One sign before three digits: either.
    Either { sign: char, at: usize },
    /// A list, a version, a date.
    None,
}

impl Reading {
    fn of(number: &str) -> Self {
        let digits = number.trim_start_matches(['+', '-']);
        let signed = number.len() - digits.len();
        let mut signs = digits.char_indices().filter(|(_, c)| !c.is_ascii_digit());
        let (Some((first, sign)), last) = (signs.next(), digits.rfind(|c: char| !c.is_ascii_digit()).unwrap_or(0))
        else {
            return Reading::Plain;
        };
        let end = digits.get(last..).and_then(|rest| rest.chars().next()).unwrap_or(sign);
        let behind = digits.len() - last - end.len_utf8();
        let several = last > first;
        let decimal = Reading::Decimal { sign: end, at: signed + last };
        let grouped = |until: usize, sign: char| {
            let mut groups = digits.get(..until).unwrap_or_default().split(sign);
            groups.next().is_some_and(|g| (1..=3).contains(&g.len())) && groups.all(|g| g.len() == 3)
        };
        match (sign, end) {
            (',' | '.', _) if !several => {
                let whole = digits.get(..first).unwrap_or_default();
                let either = behind == 3 && (1..=3).contains(&whole.len()) && !whole.starts_with('0');
                if either { Reading::Either { sign, at: signed + last } } else { decimal }
            }
            (',' | '.', _) if sign == end => {
                if grouped(digits.len(), sign) {
                    Reading::Grouped(sign)
                } else {
                    Reading::None
                }
            }
            // apostrophes and narrow blanks only separate
            ('\'' | '’' | '\u{2009}' | '\u{202f}', _) if sign == end => {
                if grouped(digits.len(), sign) {
                    Reading::Grouped(sign)
                } else {
                    Reading::None
                }
            }
            (_, ',' | '.') => {
                if grouped(last, sign) {
                    decimal
                } else {
                    Reading::None
                }
            }
            _ => Reading::None,
        }
    }
}

/// A number with its signs, and what stands behind it: a unit, or nothing.
fn split(word: &str) -> Option<(&str, &str)> {
    let inner = |c: char| matches!(c, ',' | '.' | '\'' | '’' | '\u{2009}' | '\u{202f}');
    let sign = word.strip_prefix(['+', '-', '−', '~', '≈']).map_or(0, |rest| word.len() - rest.len());
    let digits = word.get(sign..)?;
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let end = digits.find(|c: char| !(c.is_ascii_digit() || inner(c))).unwrap_or(digits.len());
    let number = digits.get(..end)?.trim_end_matches(inner);
    let unit = digits.get(number.len()..)?;
    // an address, a range, a version
    let is_unit = unit.is_empty() || unit.starts_with(|c: char| c.is_alphabetic() || matches!(c, '%' | '*' | '°'));
    is_unit.then_some((number, unit))
}

/// A cell with its numbers as tools write them; its first number where that can be read in two ways.
pub(super) fn plain(cell: &str, style: Style) -> Result<String, &str> {
    let joined = joined(cell);
    let source = joined.as_deref().unwrap_or(cell);
    let mut plain = String::with_capacity(source.len());
    let mut words = source.split(' ');
    let first = words.next().unwrap_or_default();
    // what follows the first word is its unit, or the cell is a sentence
    match split(first) {
        Some((number, _)) if first.chars().any(|c| !c.is_ascii_digit()) => {
            let at = first.find(number).unwrap_or(0);
            let (before, after) =
                (first.get(..at).unwrap_or_default(), first.get(at + number.len()..).unwrap_or_default());
            plain.push_str(&before.replace('−', "-"));
            plain.push_str(&point(number, style).ok_or(cell)?);
            plain.push_str(after);
        }
        _ => plain.push_str(first),
    }
    for word in words {
        plain.push(' ');
        plain.push_str(word);
    }
    Ok(plain)
}

/// A number with a point; `None` where it has two readings.
fn point(number: &str, style: Style) -> Option<String> {
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    Some(match Reading::of(number) {
        Reading::Plain | Reading::None => number.to_owned(),
        Reading::Grouped(_) => digits(number),
        Reading::Decimal { sign, at } => {
            let (whole, rest) = number.split_at_checked(at)?;
            format!("{}.{}", digits(whole), rest.get(sign.len_utf8()..)?)
        }
        Reading::Either { sign, at } => {
            let thousands = match (sign, style.comma, style.point) {
                (',', true, false) | ('.', false, _) => false,
                (',', false, true) | ('.', true, false) => true,
                // a point is a decimal sign where both occur, as tools print it
                ('.', true, true) => false,
                _ => return None,
            };
            let (whole, rest) = number.split_at_checked(at)?;
            let rest = rest.get(sign.len_utf8()..)?;
            if thousands { format!("{whole}{rest}") } else { format!("{whole}.{rest}") }
        }
    })
}

/// `5 911 MB/s` without the blanks between its thousands.
fn joined(cell: &str) -> Option<String> {
    let is_group = |word: &str| word.len() >= 3 && word.bytes().take(3).all(|b| b.is_ascii_digit());
    let mut words = cell.split(' ');
    let first = words.next().filter(|w| (1..=3).contains(&w.len()) && w.bytes().all(|b| b.is_ascii_digit()))?;
    let mut number = first.to_owned();
    let mut rest = words.clone();
    while let Some(group) = words.next().filter(|w| is_group(w)) {
        let ends = group.as_bytes().get(3).is_none_or(|b| !b.is_ascii_digit());
        if !ends {
            return None;
        }
        number.push_str(group);
        rest = words.clone();
        if group.len() > 3 {
            break;
        }
    }
    (number.len() > first.len()).then(|| {
        rest.fold(number, |mut all, word| {
            all.push(' ');
            all.push_str(word);
            all
        })
    })
}

/// Whether a cell is a value: a number with or without a unit, a mark for none, a class of a path.
pub(super) fn is_value(cell: &str) -> bool {
    let is_class =
        |word: &str| word.len() <= 5 && word.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'#');
    let source = joined(cell);
    let mut words = source.as_deref().unwrap_or(cell).split_whitespace();
    let Some(first) = words.next() else { return false };
    let lone = words.clone().next().is_none();
    split(first).is_some() && words.count() <= 1
        || lone && (is_class(first) || matches!(first, "N/A" | "n/a" | "-" | "–" | "—"))
}

/// The unit of a cell that holds a number with one.
pub(super) fn unit(cell: &str) -> Option<&str> {
    let (first, rest) = cell.split_once(' ').unwrap_or((cell, ""));
    let (_, own) = split(first)?;
    let unit = if rest.is_empty() { own } else { rest.trim() };
    (!unit.is_empty() && (own.is_empty() || rest.is_empty())).then_some(unit)
}

/// Whether a line is a row of numbers that blanks part: two words or more, of which all but the first and a few are values.
pub(super) fn is_row(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let first = words.next().unwrap_or_default();
    // most lines are none, and what has no such sign stays as it is
    if first.len() > 16 || !line.contains([',', '\'', '’', '−', '\u{2009}', '\u{202f}']) {
        return false;
    }
    let is_number = |word: &str| split(word).is_some_and(|(_, unit)| unit.is_empty());
    let (mut all, mut numbers, mut marks) = (0, 0, 0);
    for word in words {
        // a path class: what follows it are lists of CPUs
        if word.len() > 1 && word.bytes().all(|b| b.is_ascii_uppercase()) {
            return false;
        }
        all += 1;
        numbers += usize::from(is_number(word));
        marks += usize::from(matches!(word, "X" | "N/A" | "-" | "–" | "—"));
    }
    let labelled = is_number(first) || first.bytes().any(|b| b.is_ascii_digit());
    labelled && numbers > 0 && (numbers + marks) * 3 >= all * 2
}

/// A line with some of its words replaced, blanks and tabs between them kept.
pub(super) fn in_place(line: &str, plain: &mut impl FnMut(&str) -> String) -> String {
    let mut out = String::with_capacity(line.len());
    for piece in line.split_inclusive(char::is_whitespace) {
        let word = piece.trim_end();
        if word.is_empty() {
            out.push_str(piece);
        } else {
            out.push_str(&plain(word));
            out.push_str(piece.get(word.len()..).unwrap_or_default());
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(cell: &str, style: Style) -> Option<String> {
        plain(cell, style).ok()
    }

    const COMMA: Style = Style { comma: true, point: false };
    const POINT: Style = Style { comma: false, point: true };

    #[test]
    fn numbers_with_one_reading_need_no_others() {
        for (cell, wanted) in [
            ("26,13", "26.13"),
            ("452.19", "452.19"),
            ("1.234,5", "1234.5"),
            ("1,234.5", "1234.5"),
            ("33,554,432", "33554432"),
            ("33.554.432", "33554432"),
            ("33'554'432", "33554432"),
            ("11\u{202f}658,4", "11658.4"),
            ("0,740", "0.740"),
            ("12,5 GB/s", "12.5 GB/s"),
            ("12,5GB/s", "12.5GB/s"),
            ("5 911 MB/s", "5911 MB/s"),
            ("33 554 432", "33554432"),
            ("−3,5", "-3.5"),
            ("~5,5 GB/s", "~5.5 GB/s"),
            ("GPU0", "GPU0"),
            ("0-9,20-29", "0-9,20-29"),
            ("0,2,4,6", "0,2,4,6"),
            ("12 1234", "12 1234"),
            ("", ""),
        ] {
            assert_eq!(read(cell, Style::default()).as_deref(), Some(wanted), "{cell}");
        }
    }

    #[test]
    fn numbers_with_two_readings_follow_the_others() {
        assert_eq!(read("13,469", Style::default()), None);
        assert_eq!(read("13,469", COMMA).as_deref(), Some("13.469"));
        assert_eq!(read("13,469", POINT).as_deref(), Some("13469"));
        assert_eq!(read("13.469", COMMA).as_deref(), Some("13469"));
        assert_eq!(read("13.469", Style::default()).as_deref(), Some("13.469"));
        assert_eq!(Style::of(["0", "26,13", "GPU0"].into_iter()), COMMA);
        assert_eq!(Style::of(["1,048,576", "3.5"].into_iter()), POINT);
        assert_eq!(Style::of(["0-9,20-29", "1,234", "CUDA"].into_iter()), Style::default());
    }

    #[test]
    fn values_and_rows() {
        for cell in ["12,5", "12.5 GB/s", "X", "PHB", "NV12", "N/A", "—", "5 911 MB/s"] {
            assert!(is_value(cell), "{cell}");
        }
        for cell in ["", "hello", "12 or more of them", "GPU0: NVIDIA", "Hello world"] {
            assert!(!is_value(cell), "{cell}");
        }
        assert!(is_row("0 X 26,13 20,31") && is_row("33554432 11658,4") && is_row("GPU0: — 53,9"));
        for line in ["0 X 26.13", "on 3,5 of 4 days", "GPU0 X PHB 0-9,20-29", "x", ""] {
            assert!(!is_row(line), "{line}");
        }
    }
}
