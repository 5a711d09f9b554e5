//! Cells of CSV files (RFC 4180), which people open in spreadsheets, and the outliers of a fleet in them.

use peerlane::fleet::Fleet;
use peerlane::subject::join;

/// A cell of words, in quotation marks. One that a spreadsheet would calculate begins with an apostrophe; numbers are
/// written without this function.
pub fn words(text: &str) -> String {
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    format!("\"{guard}{}\"", text.replace('"', "\"\""))
}

/// A row for each outlier, the worst first.
pub fn outliers(fleet: &Fleet) -> String {
    let mut text = String::from(
        "machine,subjects,rule,severity,action,loss,measured,expected,peers,before,unit,repeats,summary,why,file\n",
    );
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
    for o in fleet.outliers.iter().chain(&fleet.network) {
        let cells = [
            words(&o.machine),
            words(&join(&o.finding.subjects, " ")),
            words(&o.finding.rule),
            words(o.finding.severity.id()),
            words(o.action.id()),
            o.loss.to_string(),
            number(o.worst.map(|worst| worst.measured)),
            number(o.worst.and_then(|worst| worst.expected)),
            number(o.worst.and_then(|worst| worst.peers)),
            number(o.worst.and_then(|worst| worst.before)),
            words(o.worst.map_or("", |worst| worst.unit.name())),
            o.repeats.to_string(),
            words(&o.finding.summary),
            words(&o.why),
            words(&o.file),
        ];
        text.push_str(&cells.join(","));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_of_words_is_a_formula() {
        for formula in ["=HYPERLINK(\"x\")", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"] {
            assert!(words(formula).starts_with("\"'"), "{formula}");
        }
        assert_eq!(words("a \"b\", c"), "\"a \"\"b\"\", c\"");
    }
}
