//! `validation/documents.md`: a table for each document, and totals.

use super::items::{Answer, Document, Item, Kind, State};

const HEAD: &str = "\
# Five documents, item by item

Every machine, table, figure, claim, practice and question of five published documents, with the command that answers it. A
number is compared with the printed one; *ratio* is the number in the output divided by the printed one. An item without a
number is answered where the output contains the phrases shown. Questions that the documents leave open are answered in
[questions.md](questions.md).

The documents are not part of this repository. `000.txt` in a command stands for the text of document 000; other names are
systems of the catalogue. A command that is several is tried as `one && two`.

| state | |
| --- | --- |
| works | the output answers the item: the number within 10 %, or the phrases. Where the document's own values for this kind of path scatter by more than 10 %, or it rounds more coarsely, the tolerance is as wide as that |
| partly | the output answers a part; what it does not answer is below the table |
| missing | no command answers it |
| wrong | the output contradicts the document |

`crates/peerlane-cli/tests/suite/documents/` has the items, and the test that runs every command and writes this page:
`UPDATE_DOCS=1 cargo test -p peerlane-cli documents::`.
";

/// A line of a table.
pub(super) struct Row {
    result: String,
    ratio: Option<f64>,
    /// Not tried: its document is not here.
    pub(super) kept: bool,
}

/// About three digits; no more than the output has.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

impl Row {
    pub(super) fn of(item: &Item, answer: &Answer) -> Self {
        let result = match (answer.value, item.phrases.first()) {
            (Some(value), _) => format!("{} {}", short(value), item.unit),
            (None, _) if !answer.is_as_tested => "–".to_owned(),
            (None, Some(phrase)) => format!("“{phrase}”"),
            (None, None) => "as expected".to_owned(),
        };
        // as the page shows it, so that the totals do not depend on which items were tried
        let ratio = answer.ratio.map(|ratio| (ratio * 100.0).round() / 100.0);
        Self { result: cell(result.trim_end()), ratio, kept: false }
    }

    /// As the page has it.
    pub(super) fn kept(item: &Item, page: &str) -> Self {
        let start = format!("| {} |", item.id);
        let line = page.lines().find(|line| line.starts_with(&start));
        let cells: Vec<&str> = line.unwrap_or_else(|| panic!("{}: never tried", item.id)).split(" | ").collect();
        let [.., result, _, ratio, _] = cells.as_slice() else { panic!("{}: no such row", item.id) };
        Self { result: (*result).to_owned(), ratio: ratio.parse().ok(), kept: true }
    }
}

fn kind(kind: Kind) -> String {
    format!("{kind:?}").to_lowercase()
}

fn state(state: State) -> String {
    format!("{state:?}").to_lowercase()
}

/// How many of these items are in each state.
fn totals<'a>(items: impl Iterator<Item = &'a Item> + Clone) -> String {
    let count = |state| items.clone().filter(|item| item.state == state).count();
    let counts = [State::Works, State::Partly, State::Missing, State::Wrong].map(|state| count(state).to_string());
    format!("{} | {}", items.clone().count(), counts.join(" | "))
}

fn middle(mut ratios: Vec<f64>) -> Option<f64> {
    ratios.sort_by(f64::total_cmp);
    ratios.get(ratios.len() / 2).copied()
}

pub(super) fn page(documents: &[Document], rows: &[Row]) -> String {
    let mut page = HEAD.to_owned();
    page += "\n## Totals\n\n| document | items | work | partly | missing | wrong |\n| --- | --- | --- | --- | --- | --- |\n";
    for document in documents {
        page += &format!("| {}: {} | {} |\n", document.number, document.title, totals(document.items.iter()));
    }
    page += &format!("| together | {} |\n", totals(documents.iter().flat_map(|document| &document.items)));
    let deviations: Vec<f64> = rows.iter().filter_map(|row| row.ratio).map(|ratio| (ratio - 1.0).abs()).collect();
    let within = |limit: f64| deviations.iter().filter(|deviation| **deviation <= limit).count();
    let (numbers, near, far) = (deviations.len(), within(0.10), within(0.25));
    if let Some(middle) = middle(deviations) {
        page += &format!(
            "\n{numbers} items have a number: {near} are within 10 % of the printed one, {far} within 25 %; the median \
             deviation is {:.0} %.\n",
            middle * 100.0
        );
    }
    let mut rows = rows.iter();
    for document in documents {
        page += &format!("\n## {}: {}\n\n", document.number, document.title);
        page += "| | line | kind | item | command | result | printed | ratio | state |\n";
        page += "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
        for (item, row) in document.items.iter().zip(&mut rows) {
            let command = cell(&item.command).replace('{', "").replace('}', ".txt");
            let printed = item.printed.map(|value| format!("{} {}", short(value), item.unit)).unwrap_or_default();
            let ratio = row.ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default();
            page += &format!(
                "| {} | {} | {} | {} | `{command}` | {} | {} | {ratio} | {} |\n",
                item.id,
                item.line,
                kind(item.kind),
                cell(&item.item),
                row.result,
                printed.trim_end(),
                state(item.state),
            );
        }
        let rest: Vec<&Item> = document.items.iter().filter(|item| item.state != State::Works).collect();
        if !rest.is_empty() {
            page += "\nNot, or not wholly, answered:\n\n";
        }
        for item in rest {
            page += &format!("* {} ({}): {}\n", item.id, state(item.state), item.why);
        }
    }
    page
}
