//! What nccl-tests find of the data that collectives deliver: `# Out of bounds values : 0 OK`.
//!
//! Wrong values are judged by the columns of the table; here only a run that checked its data and found them right counts.

use super::health::Health;
use super::{Found, Text};
use peerlane_machine::fact::Area;

const TOOL: &str = "nccl-tests";

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds_one_of(&["Out of bounds values", "algbw"]) {
        return;
    }
    if !text.holds(&["Out of bounds values"]) {
        return rows(text, found);
    }
    let mut health = Health::default();
    let mut is_checked = true;
    for (i, line) in text.iter() {
        if line.contains("nThread ") && line.contains("minBytes ") {
            // older releases print `check: 1`, and check by default
            is_checked = !(line.contains("validation: 0") || line.contains("check: 0"));
        } else if let Some((_, result)) = line.split_once("Out of bounds values") {
            let result: Vec<&str> = result.split([':', ' ']).filter(|word| !word.is_empty()).collect();
            if is_checked && result == ["0", "OK"] {
                health.sound(Area::Test, i);
            }
            is_checked = true;
        } else if line.contains(" N/A") {
            // rows without a count of wrong values were not checked
            is_checked &= !line.trim_start().starts_with(|c: char| c.is_ascii_digit());
        }
    }
    health.push(text, TOOL, found);
}

/// Rows of a table that is cut before its result: those with the deviation from what is right, which old releases print, or the count of wrong
/// values. A deviation by the rounding of its type is none.
fn rows(text: &Text, found: &mut Found) {
    let (mut health, mut columns, mut right) = (Health::default(), 0, Vec::new());
    let mut is_right = true;
    for (i, line) in text.iter() {
        let words: Vec<&str> = line.trim().trim_start_matches('#').split_whitespace().collect();
        let is_head = words.contains(&"algbw") && words.contains(&"busbw");
        if is_head {
            columns = if words.iter().any(|word| matches!(*word, "error" | "#wrong")) { words.len() } else { 0 };
            continue;
        }
        // a row that is cut has fewer words
        if columns == 0 || words.len() != columns || words.first().is_none_or(|size| size.parse::<u64>().is_err()) {
            continue;
        }
        let kind = words.get(2).copied().unwrap_or_default();
        let most = if kind.contains("half") || kind.contains("bf") || kind.contains("fp8") { 1e-2 } else { 1e-5 };
        let deviations = [words.last(), words.iter().rev().nth(4)];
        let is_one = |word: &&str| word.parse::<f64>().is_ok_and(|value| value.abs() <= most);
        let counted = deviations.iter().flatten().filter(|word| **word != &"N/A");
        is_right &= counted.clone().all(|word| is_one(word));
        if counted.count() > 0 {
            right.push(i);
        }
    }
    /// Fewer rows are no test.
    const FEWEST: usize = 3;
    if is_right && right.len() >= FEWEST {
        health.sound(Area::Test, right[0]);
        health.push(text, TOOL, found);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{health, scanned};
    use super::*;

    #[test]
    fn rows_of_a_table_that_is_cut() {
        let head = "#  size  count  type  redop  time  algbw  busbw  error  time  algbw  busbw  error\n";
        let row = |error: &str| format!("8 2 float sum 25.06 0.00 0.00 4e-07 25.95 0.00 0.00 {error}\n");
        let body = |error: &str| format!("{head}{}{}{}8 2 float", row("2e-07"), row("4e-07"), row(error));
        let read = health(scan, &body("1e-07"));
        assert_eq!((read.area, read.sound), (Area::Test, 1));
        for bad in ["3e+00", "nan"] {
            assert_eq!(scanned(scan, &body(bad)), Found::default(), "{bad}");
        }
        assert_eq!(scanned(scan, &format!("{head}{}", row("0"))), Found::default(), "one row");
    }

    #[test]
    fn data_that_were_checked() {
        let run = |validation: u32, wrong: &str, result: &str| {
            format!(
                "# nThread 1 nGpus 2 minBytes 8 maxBytes 8 step: 2(factor) warmup iters: 5 iters: 20 validation: {validation}\n\
                 8 2 float sum -1 9.1 0.00 0.00 {wrong} 9.0 0.00 0.00 {wrong}\n# Out of bounds values : {result}\n"
            )
        };
        let read = health(scan, &(run(1, "0", "0 OK") + &run(0, "N/A", "0 OK") + &run(1, "0", "0 OK")));
        assert_eq!((read.area, read.sound), (Area::Test, 2));
        for other in [run(0, "N/A", "0 OK"), run(1, "N/A", "0 OK"), run(1, "2", "2 FAILED")] {
            assert_eq!(scanned(scan, &other), Found::default(), "{other}");
        }
    }
}
