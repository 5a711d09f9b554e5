//! Cells of CSV files (RFC 4180), which people open in spreadsheets.

/// A cell of words, in quotation marks. One that a spreadsheet would calculate begins with an apostrophe; numbers are
/// written without this function.
pub fn words(text: &str) -> String {
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { "'" } else { "" };
    format!("\"{guard}{}\"", text.replace('"', "\"\""))
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
