//! Takes the tags off a web page, so that what it quotes reads as it was printed.

/// HTML elements that pages put around and into quoted output. None is a name that hwloc's or NCCL's XML uses.
const ELEMENTS: [&str; 27] = [
    "a", "b", "body", "br", "code", "div", "em", "font", "h1", "h2", "h3", "h4", "html", "i", "li", "p", "pre", "samp",
    "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "tt",
];

/// Longer tags are none.
const MAX_TAG: usize = 512;

/// Longer than the longest of these names.
const MAX_NAME: usize = 8;

/// Whether a text is a web page, or a piece of one.
pub(super) fn is_page(text: &str) -> bool {
    ["<pre", "<code", "<td", "<span", "<samp"].iter().any(|tag| text.contains(tag))
}

/// The line without tags, cells parted by bars, and with characters for their entities.
pub(super) fn clean(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(['<', '&']) {
        let (before, from) = rest.split_at(at);
        out.push_str(before);
        let (text, length) = tag(from).or_else(|| entity(from)).unwrap_or((&from[..1], 1));
        out.push_str(text);
        rest = &from[length..];
    }
    out.push_str(rest);
    out
}

/// What a tag stands for and its length.
fn tag(from: &str) -> Option<(&'static str, usize)> {
    let inner = from.strip_prefix('<')?;
    let named = inner.strip_prefix('/').unwrap_or(inner);
    let length = named.bytes().take(MAX_NAME).take_while(u8::is_ascii_alphanumeric).count();
    let name = named.get(..length)?;
    let is = |element: &str| name.eq_ignore_ascii_case(element);
    if !ELEMENTS.iter().any(|e| is(e)) || !named.get(length..)?.starts_with([' ', '/', '>']) {
        return None;
    }
    // no further than the next tag, so that a text full of `<` costs little
    let end = inner.bytes().take(MAX_TAG).take_while(|b| *b != b'<').position(|b| b == b'>')?;
    let text = match named.len() == inner.len() {
        true if is("td") || is("th") => "|",
        true if is("br") || is("tr") => " ",
        _ => "",
    };
    Some((text, end + 2))
}

fn entity(from: &str) -> Option<(&'static str, usize)> {
    const ENTITIES: [(&str, &str); 7] = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&amp;", "&"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&nbsp;", " "),
        ("&#34;", "\""),
    ];
    ENTITIES.iter().find(|(name, _)| from.starts_with(name)).map(|(name, text)| (*text, name.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_go_and_other_signs_stay() {
        assert_eq!(clean("<span class=\"l\">CPU -&gt; GPU</span><br/>"), "CPU -> GPU ");
        assert_eq!(clean("<tr><td>GPU0</td><TD>X</TD></tr>"), " |GPU0|X");
        assert_eq!(clean("Link 0: <inactive> a < b & c"), "Link 0: <inactive> a < b & c");
        assert_eq!(clean("<object type=\"PU\"/> <pci busid=\"0\">"), "<object type=\"PU\"/> <pci busid=\"0\">");
        assert!(is_page("<p>x</p>\n<pre>y") && !is_page("<system version=\"1\"><cpu/></system>"));
    }
}
