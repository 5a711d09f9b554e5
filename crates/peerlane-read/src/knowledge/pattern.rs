//! Patterns of messages: fixed words with named parts between them, `NET/IB : {nic}:{port} async fatal event: {event}`.
//!
//! A part is `{name}` or `{name:kind}`; `{_}` is any text and not kept. What a part may hold follows from its kind, by default from
//! its name. A pattern needs no place in its line: what stands before and after it is a program's, a launcher's or a person's.

use peerlane_machine::fabric::PciAddress;

/// Bytes of fixed words by which a pattern is looked for.
pub(super) const ANCHOR: usize = 8;

/// The most places that are tried for the words around parts.
const MOST_TRIES: usize = 32;

/// The longest text of a part, in bytes.
const LONGEST: usize = 400;

/// So many bytes behind a part's longest text may hold a mark of another entry, with what stands before it.
const MARKS: usize = 100;

/// What a part may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Anything within the line.
    Text,
    /// What has no space.
    Word,
    /// A decimal number.
    Number,
    /// A PCI address.
    Bdf,
}

impl Kind {
    fn of(name: &str, stated: Option<&str>) -> Option<Kind> {
        Some(match stated.unwrap_or(name) {
            "text" | "_" | "event" | "reason" | "call" | "what" => Kind::Text,
            "n" | "rank" | "gpu" | "code" | "count" | "port" => Kind::Number,
            "bdf" => Kind::Bdf,
            _ if stated.is_none() => Kind::Word,
            "word" => Kind::Word,
            _ => return None,
        })
    }

    fn allows(self, c: char) -> bool {
        match self {
            Kind::Text => c != '\n',
            Kind::Word => !c.is_whitespace(),
            Kind::Number => c.is_ascii_digit() || c == '-',
            Kind::Bdf => c.is_ascii_hexdigit() || matches!(c, ':' | '.'),
        }
    }

    fn fits(self, text: &str) -> bool {
        let is_whole = match self {
            Kind::Text => true,
            Kind::Bdf => text.parse::<PciAddress>().is_ok(),
            Kind::Word | Kind::Number => !text.is_empty(),
        };
        is_whole && text.len() <= LONGEST && text.chars().all(|c| self.allows(c))
    }
}

/// A piece of a pattern, with the byte at which it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece<'p> {
    Words(usize, &'p str),
    Part(&'p str, Kind),
}

fn pieces(pattern: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut all = Vec::new();
    let mut at = 0;
    while let Some(rest) = pattern.get(at..).filter(|rest| !rest.is_empty()) {
        let end = rest.find('{').unwrap_or(rest.len());
        if end > 0 {
            all.push(Piece::Words(at, &rest[..end]));
        }
        let Some(part) = rest.get(end + 1..) else { break };
        let (part, _) = part.split_once('}').ok_or_else(|| format!("'{{' without '}}' in \"{pattern}\""))?;
        let (name, kind) = part.split_once(':').map_or((part, None), |(name, kind)| (name, Some(kind)));
        let kind = Kind::of(name, kind).ok_or_else(|| format!("unknown kind of part in \"{{{part}}}\""))?;
        if matches!(all.last(), Some(Piece::Part(..))) {
            return Err(format!("two parts without words between them in \"{pattern}\""));
        }
        all.push(Piece::Part(name, kind));
        at += end + part.len() + 2;
    }
    Ok(all)
}

/// Places in the fixed words of a pattern by which it can be looked for, or what is wrong with the pattern.
pub(super) fn anchors(pattern: &str) -> Result<Vec<usize>, String> {
    let pieces = pieces(pattern)?;
    let within = |piece: &Piece| match piece {
        Piece::Words(at, words) => *at..(at + words.len() + 1).saturating_sub(ANCHOR).max(*at),
        Piece::Part(..) => 0..0,
    };
    let all: Vec<usize> = pieces.iter().flat_map(within).collect();
    if all.is_empty() {
        return Err(format!("no {ANCHOR} fixed characters in a row in \"{pattern}\""));
    }
    Ok(all)
}

/// How many fixed characters a pattern has.
pub(super) fn weight(pattern: &str) -> usize {
    let of = |piece: &Piece| if let Piece::Words(_, words) = piece { words.len() } else { 0 };
    pieces(pattern).unwrap_or_default().iter().map(of).sum()
}

/// Where a pattern fits, and what its parts hold.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fit<'p, 't> {
    /// Its first and last byte, exclusive.
    pub(crate) place: (usize, usize),
    /// Its parts, by name.
    pub(crate) parts: Vec<(&'p str, &'t str)>,
}

/// Fits a pattern to a text, where its words at `anchor` stand at byte `at`.
pub(super) fn fit<'p, 't>(pattern: &'p str, anchor: usize, text: &'t str, at: usize) -> Option<Fit<'p, 't>> {
    let pieces = pieces(pattern).ok()?;
    let holds =
        |piece: &Piece| matches!(piece, Piece::Words(from, words) if (*from..from + words.len()).contains(&anchor));
    let middle = pieces.iter().position(holds)?;
    let Some(Piece::Words(from, words)) = pieces.get(middle).copied() else { return None };
    let start_of_words = at.checked_sub(anchor - from)?;
    text.get(start_of_words..)?.strip_prefix(words)?;
    let mut parts = Vec::new();
    let mut tries = MOST_TRIES;
    let start = before(&pieces[..middle], text, start_of_words, &mut tries, &mut parts)?;
    parts.reverse();
    tries = MOST_TRIES;
    let end = after(&pieces[middle + 1..], text, start_of_words + words.len(), &mut tries, &mut parts)?;
    parts.retain(|(name, _)| *name != "_");
    Some(Fit { place: (start, end), parts })
}

/// Fits pieces that end at a byte; returns where they begin. Words may come several times before a part: the nearest place at which all
/// that precedes fits counts.
fn before<'p, 't>(
    pieces: &[Piece<'p>],
    text: &'t str,
    end: usize,
    tries: &mut usize,
    parts: &mut Vec<(&'p str, &'t str)>,
) -> Option<usize> {
    let [rest @ .., Piece::Part(name, kind)] = pieces else { return Some(end) };
    let earlier = text.get(..end)?;
    let [rest @ .., Piece::Words(_, words)] = rest else {
        let value = trailing(earlier, *kind);
        parts.push((name, value));
        return kind.fits(value).then_some(end - value.len());
    };
    // no part is longer, so that a line of any length takes no more time at each place
    let near = floor(earlier, earlier.len().saturating_sub(LONGEST + words.len()));
    let near_text = earlier.get(near..)?;
    let line = near + if words.contains('\n') { 0 } else { near_text.rfind('\n').map_or(0, |at| at + 1) };
    for (at, _) in earlier.get(line..)?.rmatch_indices(words) {
        *tries = tries.checked_sub(1)?;
        let Some(value) = earlier.get(line + at + words.len()..).filter(|value| kind.fits(value)) else { continue };
        let known = parts.len();
        parts.push((name, value));
        if let Some(start) = before(rest, text, line + at, tries, parts) {
            return Some(start);
        }
        parts.truncate(known);
    }
    None
}

/// Fits pieces that begin at a byte; returns where they end. Words may come several times after a part: the first place at which all
/// that follows fits counts.
fn after<'p, 't>(
    pieces: &[Piece<'p>],
    text: &'t str,
    start: usize,
    tries: &mut usize,
    parts: &mut Vec<(&'p str, &'t str)>,
) -> Option<usize> {
    let [Piece::Part(name, kind), rest @ ..] = pieces else { return Some(start) };
    let later = text.get(start..)?;
    let [Piece::Words(_, words), rest @ ..] = rest else {
        let value = leading(later.get(..floor(later, LONGEST + MARKS))?, *kind);
        parts.push((name, value));
        return kind.fits(value).then_some(start + value.len());
    };
    let later = later.get(..floor(later, LONGEST + words.len()))?;
    let end = later.match_indices('\n').nth(words.matches('\n').count()).map_or(later.len(), |(at, _)| at);
    for (at, _) in later.get(..end)?.match_indices(words) {
        *tries = tries.checked_sub(1)?;
        let Some(value) = later.get(..at).filter(|value| kind.fits(value)) else { continue };
        let known = parts.len();
        parts.push((name, value));
        if let Some(end) = after(rest, text, start + at + words.len(), tries, parts) {
            return Some(end);
        }
        parts.truncate(known);
    }
    None
}

/// The last place where characters of a text meet up to there.
fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// The part that a text begins with. A container's log ends its lines in words for a line's end.
fn leading(text: &str, kind: Kind) -> &str {
    let end = text.find(|c| !kind.allows(c)).unwrap_or(text.len());
    let value = text.get(..end).unwrap_or_default();
    let value = value.split("\\n\"").next().unwrap_or(value);
    let value = if kind == Kind::Text { one_entry(value) } else { value };
    let most = value.char_indices().map(|(at, _)| at).take_while(|at| *at <= LONGEST).last().unwrap_or(0);
    let value = if value.len() > LONGEST { value.get(..most).unwrap_or_default() } else { value };
    if kind == Kind::Text {
        value.trim_end()
    } else {
        value.trim_end_matches(['.', ',', ';', ':', ')', ']', '"', '\''])
    }
}

/// The text up to another entry of NCCL's log on the same line, without the host and the place that stand before its mark.
fn one_entry(text: &str) -> &str {
    let marks = [" NCCL WARN ", " NCCL INFO "];
    let Some(end) = marks.iter().filter_map(|mark| text.find(mark)).min() else { return text };
    let mut own = text.get(..end).unwrap_or(text);
    while let Some((rest, word)) = own.rsplit_once(' ')
        && (word.starts_with('[') || word.contains(':') && !word.ends_with(':'))
    {
        own = rest;
    }
    own
}

/// The part that a text ends with.
fn trailing(text: &str, kind: Kind) -> &str {
    let within = |c: &(usize, char)| kind.allows(c.1) && text.len() - c.0 <= LONGEST;
    let start = text.char_indices().rev().take_while(within).last().map_or(text.len(), |(at, _)| at);
    text.get(start..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(pattern: &'static str, text: &str) -> Option<Vec<(String, String)>> {
        let anchor = *anchors(pattern).unwrap().first().unwrap();
        let window = pattern.get(anchor..anchor + ANCHOR).unwrap();
        let mut places = text.match_indices(window).map(|(at, _)| at);
        let fit = places.find_map(|at| fit(pattern, anchor, text, at))?;
        Some(fit.parts.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    fn of(all: &[(&str, &str)]) -> Option<Vec<(String, String)>> {
        Some(all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn parts_stand_between_fixed_words() {
        let pattern = "NET/IB : {nic}:{port} async fatal event: {event}";
        assert_eq!(
            parts(pattern, "h:1:2 [0] NCCL WARN NET/IB : mlx5_0:1 async fatal event: local catastrophic error\nmore"),
            of(&[("nic", "mlx5_0"), ("port", "1"), ("event", "local catastrophic error")])
        );
        assert_eq!(parts(pattern, "NET/IB : mlx5 0:1 async fatal event: x"), None, "a word has no space");
        assert_eq!(parts(pattern, "NET/IB : mlx5_0:\n1 async fatal event: x"), None);
    }

    #[test]
    fn a_part_may_begin_or_end_a_pattern() {
        assert_eq!(
            parts("{bdf}: retraining failed", "[1.0] pcieport 0000:00:01.1: retraining failed"),
            of(&[("bdf", "0000:00:01.1")])
        );
        assert_eq!(parts("{bdf}: retraining failed", "[1.0] pcieport x: retraining failed"), None);
        assert_eq!(
            parts("connect to {peer}", "cannot connect to 10.0.0.2<41>, which"),
            of(&[("peer", "10.0.0.2<41>")])
        );
        assert_eq!(parts("Xid code {code:n},", "Xid code 79, pid"), of(&[("code", "79")]));
    }

    #[test]
    fn the_words_after_a_part_may_come_twice() {
        assert_eq!(
            parts("failed for {text} : {n} bytes", "failed for a : b : 12 bytes"),
            of(&[("text", "a : b"), ("n", "12")])
        );
        assert_eq!(
            parts("{bdf}: {_}has failed again", "pcieport 0000:40:01.1: pciehp: Slot(1): has failed again"),
            of(&[("bdf", "0000:40:01.1")])
        );
    }

    #[test]
    fn a_pattern_over_two_lines() {
        assert_eq!(parts("ulimit -l\nunlimited", "$ ulimit -l\nunlimited\n"), of(&[]));
    }

    #[test]
    fn bad_patterns_say_what_is_wrong() {
        for (pattern, words) in [
            ("short {n}", "no 8 fixed characters"),
            ("long enough {n", "without '}'"),
            ("long enough {n}{m}", "two parts"),
            ("long enough {n:float}", "unknown kind"),
        ] {
            assert!(anchors(pattern).unwrap_err().contains(words), "{pattern}");
        }
    }
}
