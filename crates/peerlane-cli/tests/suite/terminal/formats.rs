//! Readers of what the program writes for other programs: the text must be read as that format, and nothing more.

use quick_xml::Reader;
use quick_xml::events::Event;

pub(super) fn json(text: &str) -> Result<(), String> {
    serde_json::from_str::<serde_json::Value>(text).map(|_| ()).map_err(|e| e.to_string())
}

/// Well-formed, with characters that XML 1.0 allows, and no element by the name that is planted.
pub(super) fn xml(text: &str) -> Result<(), String> {
    let allowed =
        |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    if let Some(bad) = text.chars().find(|c| !allowed(*c)) {
        return Err(format!("{bad:?} is no character of XML"));
    }
    let mut reader = Reader::from_str(text);
    reader.config_mut().check_end_names = true;
    let (mut depth, mut elements) = (0, 0);
    loop {
        match reader.read_event().map_err(|e| format!("{e} at {}", reader.buffer_position()))? {
            Event::Eof if depth == 0 && elements > 0 => return Ok(()),
            Event::Eof => return Err("it is cut".to_owned()),
            event @ (Event::Start(_) | Event::Empty(_)) => {
                let (Event::Start(tag) | Event::Empty(tag)) = &event else { continue };
                elements += 1;
                depth += i32::from(matches!(event, Event::Start(_)));
                let name: &str = tag.name().0;
                if name == "b" {
                    return Err("the planted element".to_owned());
                }
                for attribute in tag.attributes() {
                    let attribute = attribute.map_err(|e| e.to_string())?;
                    quick_xml::escape::unescape(&attribute.value).map_err(|e| e.to_string())?;
                    if attribute.value.contains('<') {
                        return Err("a bare < in an attribute".to_owned());
                    }
                }
            }
            Event::End(_) => depth -= 1,
            Event::GeneralRef(reference) => {
                let name: &str = &reference;
                if !["amp", "lt", "gt", "quot", "apos"].contains(&name) && !name.starts_with('#') {
                    return Err(format!("&{name}; is unknown"));
                }
            }
            _ => {}
        }
    }
}

/// Outside code, nothing that GitHub would act on.
pub(super) fn markdown(text: &str) -> Result<(), String> {
    let mut fence: Option<&str> = None;
    for line in text.lines() {
        let ticks = &line[..line.len() - line.trim_start_matches('`').len()];
        match fence {
            Some(open) if ticks == open && line == ticks => fence = None,
            None if ticks.len() > 2 => fence = Some(ticks),
            Some(_) => {}
            None => {
                // code spans of one tick each, as they are written
                let plain: String = line.split('`').step_by(2).collect();
                let plain = plain.strip_prefix("## ").unwrap_or(&plain);
                let mine =
                    ["<details><summary>The machine</summary>", "<details><summary>All values</summary>", "</details>"]
                        .contains(&plain);
                let acts = plain.contains(['@', '#']) || plain.replace("\\<", "").contains('<') && !mine;
                if acts || line.matches('`').count() % 2 == 1 || plain.replace("\\[", "").contains('[') {
                    return Err(format!("something acts in {line:?}"));
                }
            }
        }
    }
    if fence.is_some() { Err("a fence is open".to_owned()) } else { Ok(()) }
}

/// Prometheus' text format 0.0.4: comments, and `name{label="value",…} number`.
pub(super) fn prometheus(text: &str) -> Result<(), String> {
    for line in text.lines().filter(|line| !line.starts_with("# ") && !line.is_empty()) {
        let wrong = || format!("no sample: {line:?}");
        let name = line.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').ok_or_else(wrong)?;
        let mut rest = &line[name..];
        if let Some(mut labels) = rest.strip_prefix('{') {
            loop {
                let (label, after) = labels.split_once("=\"").ok_or_else(wrong)?;
                if label.is_empty() || !label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
                    return Err(wrong());
                }
                let mut chars = after.char_indices();
                let end = loop {
                    match chars.next().ok_or_else(wrong)? {
                        (at, '"') => break at,
                        (_, '\\') if !matches!(chars.next(), Some((_, '\\' | '"' | 'n'))) => return Err(wrong()),
                        _ => {}
                    }
                };
                let after = &after[end + 1..];
                if let Some(more) = after.strip_prefix(',') {
                    labels = more;
                } else {
                    rest = after.strip_prefix('}').ok_or_else(wrong)?;
                    break;
                }
            }
        }
        rest.trim().parse::<f64>().map_err(|_| wrong())?;
    }
    Ok(())
}

/// DOT: every line is a statement whose quotation marks pair.
pub(super) fn dot(text: &str) -> Result<(), String> {
    for line in text.lines() {
        let mut marks = 0;
        let mut chars = line.chars();
        while let Some(c) = chars.next() {
            match c {
                '\\' => drop(chars.next()),
                '"' => marks += 1,
                _ => {}
            }
        }
        if marks % 2 != 0 || !line.ends_with(['{', '}', ';']) {
            return Err(format!("no statement: {line:?}"));
        }
    }
    Ok(())
}

#[test]
fn the_readers_refuse_what_they_should() {
    assert!(xml("<a b='&lt;'>&amp;</a>").is_ok());
    for bad in ["<a>", "<a></b>", "<a x='<'/>", "<a>\u{1}</a>", "<a>&nbsp;</a>", "<a>\u{fffe}</a>", "<a><b/></a>", ""] {
        assert!(xml(bad).is_err(), "{bad:?}");
    }
    assert!(markdown("## x\n* \\<b `@a #1`\n```text\n@a\n```\n").is_ok());
    for bad in ["@a", "x #12", "<b>", "[l](u)", "`", "```\n@a"] {
        assert!(markdown(bad).is_err(), "{bad:?}");
    }
    assert!(prometheus("# HELP a b\na{b=\"x\\\"\\n\"} 1\na 2e3\n").is_ok());
    for bad in ["FAKE: verdict ok", "a{b=\"x\"y\"} 1", "a{b=\"\\x\"} 1", "a{b=\"x\"} one"] {
        assert!(prometheus(bad).is_err(), "{bad:?}");
    }
    assert!(dot("graph {\n  \"a\\\"\" -- \"b\";\n}").is_ok() && dot("\"a\" -- \"b").is_err());
}
