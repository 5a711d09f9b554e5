//! The page: the built template with a document in it.
//!
//! Text reaches the page in three ways, each with its own guard: as JSON in a data block, where no `<` may stand; as the
//! title, escaped; and as Markdown for readers without scripts, escaped. The page's policy (in the template) allows the
//! one script and style sheet it was built with, by their hashes, and no request to any network.

use super::document::ReportDocument;
use crate::render::svg::escape;

/// The template: `web/` builds it.
const TEMPLATE: &str = include_str!("../../page/report.html");

/// Where the template takes what; each stands in it once.
const TITLE: &str = "PEERLANE-TITLE";
const PLAIN: &str = "PEERLANE-MARKDOWN";
const DATA: &str = "\"PEERLANE-DATA\"";

/// The page of a document.
pub(crate) fn page(document: &ReportDocument) -> Result<String, serde_json::Error> {
    let data = in_script(&serde_json::to_string(document)?);
    let names: Vec<&str> = document.machines.iter().map(|m| m.name.as_str()).collect();
    let title = escape(&names.join(", "));
    let together = document.comparison.iter().map(|c| c.markdown.as_str());
    let markdown: Vec<&str> = together.chain(document.machines.iter().map(|m| m.markdown.as_str())).collect();
    // line breaks matter there, and are no danger
    let plain = markdown.join("\n").split('\n').map(escape).collect::<Vec<_>>().join("\n");
    let mut page = String::with_capacity(TEMPLATE.len() + data.len() + plain.len());
    let mut rest = TEMPLATE;
    // in one walk, so that no text is searched for places once it is in
    for (place, text) in [(TITLE, &title), (DATA, &data), (PLAIN, &plain)] {
        let Some((before, after)) = rest.split_once(place) else { continue };
        page.push_str(before);
        page.push_str(text);
        rest = after;
    }
    page.push_str(rest);
    Ok(page)
}

/// JSON that can stand in a `script` element: nothing in it can end the element or open a comment. Line separators are
/// valid in JSON and were none in old JavaScript.
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
    fn the_template_has_a_place_for_everything_in_order() {
        let at = [TITLE, DATA, PLAIN].map(|place| TEMPLATE.find(place).unwrap());
        assert!(at.is_sorted());
        for place in [TITLE, DATA, PLAIN] {
            assert_eq!(TEMPLATE.matches(place).count(), 1, "{place}");
        }
    }

    #[test]
    fn no_text_leaves_its_place() {
        let hostile = "</script><script>alert(1)</script><!--\u{2028}\"PEERLANE-DATA\"PEERLANE-MARKDOWN";
        let escaped = in_script(&serde_json::to_string(hostile).unwrap());
        assert!(!escaped.contains(['<', '>', '&', '\u{2028}']));
        assert_eq!(serde_json::from_str::<String>(&escaped).unwrap(), hostile);
        let document = ReportDocument { schema: SCHEMA, peerlane: "0", machines: Vec::new(), comparison: None };
        let page = page(&document).unwrap();
        assert!(page.contains("\"schema\":\"peerlane/report/2\"") && !page.contains("PEERLANE-"));
    }
}
