//! Where strings end in the text of a source: there hostile text is inserted.

/// The end of one string.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Site {
    /// What it is the value of.
    pub(super) key: String,
    /// Its offset.
    pub(super) at: usize,
}

/// The end of the string that opens before `from`; backslashes escape.
fn end(text: &str, from: usize) -> usize {
    let mut escaped = false;
    for (i, b) in text.bytes().enumerate().skip(from) {
        match b {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return i,
            _ => {}
        }
    }
    text.len()
}

/// Every string of a JSON text, by the key that it belongs to; keys of objects as `key itself`.
pub(super) fn json_strings(text: &str) -> Vec<Site> {
    let (mut sites, mut key, mut from) = (Vec::new(), String::new(), 0);
    while let Some(open) = text[from..].find('"').map(|at| from + at + 1) {
        let close = end(text, open);
        if text[close + 1..].trim_start().starts_with(':') {
            text[open..close].clone_into(&mut key);
            sites.push(Site { key: format!("{key} itself"), at: close });
        } else {
            sites.push(Site { key: key.clone(), at: close });
        }
        from = close + 1;
    }
    sites
}

/// Every string of a TOML text but those of several lines, by its line's first key and the one before it.
pub(super) fn toml_strings(text: &str) -> Vec<Site> {
    let (mut sites, mut start, mut within) = (Vec::new(), 0, false);
    for line in text.split_inclusive('\n') {
        let key = line.split(['=', '[', '#']).next().unwrap_or_default().trim();
        if line.contains("\"\"\"") {
            within = !within;
        } else if !within {
            let mut from = 0;
            while let Some(open) = line[from..].find('"').map(|at| from + at + 1) {
                let close = end(line, open);
                let before = line[..open - 1].trim_end_matches([' ', '=', '[', '"', ',']);
                let own = before.rsplit([' ', '{', ',']).next().unwrap_or_default();
                sites.push(Site { key: format!("{key} {own}"), at: start + close });
                from = close + 1;
            }
        }
        start += line.len();
    }
    sites
}

/// Every attribute of an XML text, by its name.
pub(super) fn xml_attributes(text: &str) -> Vec<Site> {
    let (mut sites, mut from) = (Vec::new(), 0);
    while let Some(open) = text[from..].find("=\"").map(|at| from + at + 2) {
        let key = text[..open - 2].rsplit([' ', '\n', '<']).next().unwrap_or_default().to_owned();
        let Some(close) = text[open..].find('"').map(|at| open + at) else { break };
        sites.push(Site { key, at: close });
        from = close + 1;
    }
    sites
}

/// The ends of lines, by what stands before their first colon or tab.
pub(super) fn ends_of_values(text: &str) -> Vec<Site> {
    let mut start = 0;
    let lines = text.split_inclusive('\n').filter_map(|line| {
        let at = start + line.trim_end().len();
        start += line.len();
        let key = line.split([':', '\t']).next().unwrap_or_default().trim().to_owned();
        (!line.trim().is_empty()).then_some(Site { key, at })
    });
    lines.collect()
}

#[test]
fn strings_are_found() {
    let keys = |sites: Vec<Site>| sites.into_iter().map(|site| site.key).collect::<Vec<_>>();
    assert_eq!(keys(json_strings(r#"{"a": "x\"y", "b": ["c", 1]}"#)), ["a itself", "a", "b itself", "b"]);
    assert_eq!(keys(toml_strings("a = [\"x\"]\nb = { c = \"y\" }\nm = \"\"\"\n\"z\"\n\"\"\"\n")), ["a a", "b c"]);
    assert_eq!(keys(xml_attributes("<a b=\"1\" c=\"2\"/>")), ["b", "c"]);
    assert_eq!(ends_of_values("a: b\n\nc\n"), [Site { key: "a".into(), at: 4 }, Site { key: "c".into(), at: 7 }]);
}
