//! The page: the built template with an embedded document.
//!
//! Text reaches the page in three ways, each escaped accordingly: as JSON in a data block, which must not contain `<`; as
//! the title; and as Markdown for browsers without scripts. The content security policy in the template allows only the
//! script and style sheet that it was built with, by their hashes, and no network requests.

use serde::Serialize;

use super::document::ReportDocument;
use crate::render::svg::escape;

/// The template, built by `web/`.
const TEMPLATE: &str = include_str!("../../page/report.html");

/// Placeholders in a template; each occurs once.
const TITLE: &str = "PEERLANE-TITLE";
const PLAIN: &str = "PEERLANE-MARKDOWN";
const DATA: &str = "\"PEERLANE-DATA\"";

/// The page of a document.
pub fn page(document: &ReportDocument) -> Result<String, serde_json::Error> {
    let names: Vec<&str> = document.machines.iter().map(|m| m.name.as_str()).collect();
    let together = document.comparison.iter().map(|c| c.markdown.as_str());
    let markdown: Vec<&str> = together.chain(document.machines.iter().map(|m| m.markdown.as_str())).collect();
    fill(TEMPLATE, &names.join(", "), document, &markdown.join("\n"))
}

/// A template with its title, its document and its text for browsers without scripts.
pub(super) fn fill(
    template: &str,
    title: &str,
    document: &impl Serialize,
    plain: &str,
) -> Result<String, serde_json::Error> {
    let data = in_script(&serde_json::to_string(document)?);
    let title = escape(title);
    // line breaks matter there, and are harmless
    let plain = plain.split('\n').map(escape).collect::<Vec<_>>().join("\n");
    let mut page = String::with_capacity(template.len() + data.len() + plain.len());
    let mut rest = template;
    // in one pass, so that inserted text is never searched for placeholders
    for (place, text) in [(TITLE, &title), (DATA, &data), (PLAIN, &plain)] {
        let Some((before, after)) = rest.split_once(place) else { continue };
        page.push_str(before);
        page.push_str(text);
        rest = after;
    }
    page.push_str(rest);
    Ok(page)
}

/// JSON that is safe in a `script` element: nothing in it can end the element or open a comment. Line separators are
/// valid in JSON but were not in old JavaScript.
fn in_script(json: &str) -> String {
    let mut out = String::with_capacity(json.len() + json.len() / 50);
    for c in json.chars() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::document::SCHEMA;
    use super::*;

    #[test]
    fn the_templates_have_each_placeholder_once_in_order() {
        for template in [TEMPLATE, super::super::fleet::TEMPLATE] {
            let at = [TITLE, DATA, PLAIN].map(|place| template.find(place).unwrap());
            assert!(at.is_sorted());
            for place in [TITLE, DATA, PLAIN] {
                assert_eq!(template.matches(place).count(), 1, "{place}");
            }
        }
    }

    #[test]
    fn hostile_text_is_contained() {
        let hostile = "</script><script>alert(1)</script><!--\u{2028}\"PEERLANE-DATA\"PEERLANE-MARKDOWN";
        let escaped = in_script(&serde_json::to_string(hostile).unwrap());
        assert!(!escaped.contains(['<', '>', '&', '\u{2028}']));
        assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), hostile);
        let document = ReportDocument { schema: SCHEMA, peerlane: "0", machines: Vec::new(), comparison: None };
        let page = page(&document).unwrap();
        assert!(page.contains("\"schema\":\"peerlane/report/2\"") && !page.contains("PEERLANE-"));
    }
}
