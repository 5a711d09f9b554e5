//! Takes the tags off a web page, so that what it quotes reads as it was printed.

/// HTML elements that pages put into quoted output, which stand for nothing. Neither these nor [`BLOCKS`] are names that
/// hwloc's or NCCL's XML uses.
const INLINE: [&str; 20] = [
    "a", "b", "body", "code", "em", "font", "html", "i", "img", "kbd", "samp", "section", "small", "span", "strong",
    "sub", "sup", "tbody", "thead", "tt",
];

/// Elements that begin and end a line.
const BLOCKS: [&str; 21] = [
    "blockquote",
    "br",
    "caption",
    "dd",
    "div",
    "dl",
    "dt",
    "figure",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "hr",
    "li",
    "ol",
    "p",
    "table",
    "tfoot",
    "ul",
];

/// Longer tags are none.
const MAX_TAG: usize = 512;

/// Longer than the longest of these names.
const MAX_NAME: usize = 12;

/// A row of a table that is longer has no end.
const MAX_ROW: usize = 16 << 10;

/// Whether a text is a web page, or a piece of one.
pub(super) fn is_page(text: &str) -> bool {
    ["<pre", "<code", "<td", "<span", "<samp"].iter().any(|tag| text.contains(tag))
}

/// Gives the lines of a page without tags, each with the number, from 1, of the line where it begins: a row of a table is one
/// line, with a bar before each cell, and text has characters for entities.
pub(super) fn lines<'a>(source: impl Iterator<Item = &'a str>, give: &mut impl FnMut(u32, &str)) {
    let mut page =
        Page { line: String::new(), begun: 1, number: 0, given: true, in_row: false, preformatted: false, give };
    for line in source {
        page.number += 1;
        page.given = false;
        let mut rest = line;
        while let Some(at) = rest.find(['<', '&']) {
            let (before, from) = rest.split_at(at);
            page.add(before);
            rest = page.tag(from).or_else(|| page.entity(from)).unwrap_or_else(|| {
                page.add(&from[..1]);
                &from[1..]
            });
        }
        page.add(rest);
        page.end_of_line(line);
    }
    page.flush();
}

/// A page as it is gone through.
struct Page<'f, F> {
    /// The line so far, and the number of the line where it begins.
    line: String,
    begun: u32,
    /// The number of the source's line, and whether something of it was given or waits.
    number: u32,
    given: bool,
    in_row: bool,
    preformatted: bool,
    give: &'f mut F,
}

impl<F: FnMut(u32, &str)> Page<'_, F> {
    fn add(&mut self, text: &str) {
        if self.line.is_empty() {
            self.begun = self.number;
        }
        self.line.push_str(text);
    }

    /// Gives the line so far, if it holds anything.
    fn flush(&mut self) {
        if !self.line.trim().is_empty() {
            (self.give)(self.begun, &self.line);
            self.given = true;
        }
        self.line.clear();
    }

    fn end_of_line(&mut self, source: &str) {
        if self.in_row && !self.preformatted && self.line.len() <= MAX_ROW {
            return self.add(" ");
        }
        self.in_row = false;
        self.flush();
        // a line of tags alone is none
        if !self.given && source.trim().is_empty() {
            (self.give)(self.number, "");
        }
    }

    /// Takes a tag; returns what follows it.
    fn tag<'a>(&mut self, from: &'a str) -> Option<&'a str> {
        let inner = from.strip_prefix('<')?;
        let named = inner.strip_prefix('/').unwrap_or(inner);
        let length = named.bytes().take(MAX_NAME).take_while(u8::is_ascii_alphanumeric).count();
        let name = named.get(..length)?.to_ascii_lowercase();
        let known = ["pre", "td", "th", "tr"].contains(&name.as_str())
            || INLINE.contains(&name.as_str())
            || BLOCKS.contains(&name.as_str());
        if !known || !named.get(length..)?.starts_with([' ', '/', '>']) {
            return None;
        }
        // no further than the next tag, so that a text full of `<` costs little
        let end = inner.bytes().take(MAX_TAG).take_while(|b| *b != b'<').position(|b| b == b'>')?;
        let opens = named.len() == inner.len();
        match name.as_str() {
            "td" | "th" if opens => self.add("|"),
            "tr" if !self.preformatted => {
                self.in_row = opens;
                self.flush();
            }
            "pre" => {
                self.preformatted = opens;
                if !self.in_row {
                    self.flush();
                }
            }
            "table" => {
                self.in_row = false;
                self.flush();
            }
            block if BLOCKS.contains(&block) && self.in_row => self.add(" "),
            block if BLOCKS.contains(&block) => self.flush(),
            _ => {}
        }
        inner.get(end + 1..)
    }

    /// Takes an entity; returns what follows it.
    fn entity<'a>(&mut self, from: &'a str) -> Option<&'a str> {
        const ENTITIES: [(&str, &str); 18] = [
            ("lt", "<"),
            ("gt", ">"),
            ("amp", "&"),
            ("quot", "\""),
            ("apos", "'"),
            ("nbsp", " "),
            ("thinsp", "\u{2009}"),
            ("minus", "-"),
            ("ndash", "–"),
            ("mdash", "—"),
            ("micro", "µ"),
            ("mu", "µ"),
            ("rarr", "→"),
            ("larr", "←"),
            ("harr", "↔"),
            ("times", "×"),
            ("asymp", "≈"),
            ("bsol", "\\"),
        ];
        let inner = from.strip_prefix('&')?;
        let end = inner.bytes().take(MAX_NAME).position(|b| b == b';')?;
        let name = inner.get(..end)?;
        let number = name.strip_prefix('#').and_then(|digits| match digits.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok(),
            None => digits.parse().ok(),
        });
        match (number.and_then(char::from_u32), ENTITIES.iter().find(|(known, _)| *known == name)) {
            // a newline within a line is a blank
            (Some(c), _) if c.is_control() => self.add(" "),
            (Some(c), _) => self.add(c.encode_utf8(&mut [0; 4])),
            (None, Some((_, text))) => self.add(text),
            (None, None) => return None,
        }
        inner.get(end + 1..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Vec<(u32, String)> {
        let mut all = Vec::new();
        lines(text.split('\n'), &mut |number, line| all.push((number, line.to_owned())));
        all
    }

    fn one(text: &str) -> String {
        page(text).into_iter().map(|(_, line)| line).collect::<Vec<_>>().join("/")
    }

    #[test]
    fn tags_go_and_other_signs_stay() {
        assert_eq!(one("<span class=\"l\">CPU -&gt; GPU</span><br/>"), "CPU -> GPU");
        assert_eq!(one("Link 0: <inactive> a < b & c"), "Link 0: <inactive> a < b & c");
        assert_eq!(one("<object type=\"PU\"/> <pci busid=\"0\">"), "<object type=\"PU\"/> <pci busid=\"0\">");
        assert_eq!(one("5&#160;&#xb5;s &minus;1 &unknown; &#0;"), "5\u{a0}µs -1 &unknown;  ");
        assert!(is_page("<p>x</p>\n<pre>y") && !is_page("<system version=\"1\"><cpu/></system>"));
    }

    #[test]
    fn a_row_is_a_line_however_the_page_breaks_it() {
        let rows = [(1, "|a|b".to_owned()), (1, "|c|d".to_owned())];
        assert_eq!(page("<table><tr><th>a</th><th>b</th></tr><tr><td>c<td>d</table>"), rows);
        let broken = page("<table>\n<tr>\n<td>a</td>\n<td>b\n<p>c</p></td>\n</tr>\n\n</table>\nx");
        let broken: Vec<_> = broken.iter().map(|(n, line)| (*n, line.split_whitespace().collect::<String>())).collect();
        assert_eq!(broken, [(2, "|a|bc".to_owned()), (7, String::new()), (9, "x".to_owned())]);
    }

    #[test]
    fn preformatted_lines_and_blank_ones_stay() {
        assert_eq!(
            page("<pre>a\n\n b<br>c</pre>\n"),
            [(1, "a".to_owned()), (2, String::new()), (3, " b".to_owned()), (3, "c".to_owned()), (4, String::new())]
        );
        assert_eq!(page("<p>a</p><p>b</p>"), [(1, "a".to_owned()), (1, "b".to_owned())]);
    }
}
