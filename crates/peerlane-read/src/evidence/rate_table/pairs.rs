//! The ends of the copies whose rates a table lists, where its rows name them.

use std::collections::BTreeSet;

use super::super::labelled_matrix::titled;
use super::super::words::{gpu_number, is_nic};
use super::super::{Direction, Matrix, RateTable, Unit};
use peerlane_machine::units::Rate;

/// What a column of ends may be headed.
const SOURCES: [&str; 8] = ["src", "source", "from", "sender", "initiator", "quelle", "von", "源"];
const TARGETS: [&str; 9] = ["dst", "dest", "destination", "to", "target", "receiver", "ziel", "nach", "目标"];

/// What parts two ends in one cell. A sign that points both ways comes first, since others are part of it.
const ARROWS: [(&str, Option<Direction>); 8] = [
    ("<->", Some(Direction::Bidirectional)),
    ("↔", Some(Direction::Bidirectional)),
    ("⇄", Some(Direction::Bidirectional)),
    ("->", None),
    ("→", None),
    ("=>", None),
    (" to ", None),
    ("⇒", None),
];

/// Heads of columns whose rates nobody measured.
const STATED: [&str; 9] = ["theoret", "expect", "spec", "nominal", "target", "limit", "line rate", "soll", "理论"];

/// The two ends of a row, and the direction if they show it.
struct Pair {
    from: String,
    to: String,
    direction: Option<Direction>,
}

/// A matrix for each column of measured rates; `None` where some row does not name both ends. The line above the table may name the
/// direction.
pub(super) fn matrices(table: &RateTable, above: &str) -> Option<Vec<Matrix>> {
    let pairs: Option<Vec<Pair>> = table.rows.iter().map(|row| pair(&table.word_columns, &row.words)).collect();
    let pairs = pairs?;
    let names = |of: fn(&Pair) -> &String| pairs.iter().map(of).collect::<BTreeSet<_>>().into_iter().cloned().collect();
    let (rows, cols): (Vec<String>, Vec<String>) = (names(|pair| &pair.from), names(|pair| &pair.to));
    // two rates of one pair differ in something else: a size, a setting
    let several = pairs.len() > pairs.iter().map(|pair| (&pair.from, &pair.to)).collect::<BTreeSet<_>>().len();
    let both = pairs.iter().find_map(|pair| pair.direction);
    let matrix = |(j, title): (usize, &String)| {
        let mut values = vec![vec![None; cols.len()]; rows.len()];
        for (pair, row) in pairs.iter().zip(&table.rows) {
            let at = rows.iter().position(|r| *r == pair.from).zip(cols.iter().position(|c| *c == pair.to));
            let cell = at.and_then(|(i, k)| values.get_mut(i)?.get_mut(k));
            if let Some(cell) = cell {
                *cell = row.rates.get(j).copied().flatten().map(Rate::gb);
            }
        }
        let plain = titled(format!("{above} {title}").trim(), Unit::GigabytesPerSecond);
        Matrix { direction: plain.direction.or(both), rows: rows.clone(), cols: cols.clone(), values, ..plain }
    };
    let is_measured = |(_, head): &(usize, &String)| !STATED.iter().any(|word| head.to_lowercase().contains(word));
    (!several).then(|| table.rate_columns.iter().enumerate().filter(is_measured).map(matrix).collect())
}

/// Whether the columns of words are the ends of copies.
pub(super) fn are_named(table: &RateTable) -> bool {
    table.rows.first().is_some_and(|row| pair(&table.word_columns, &row.words).is_some())
}

fn pair(heads: &[String], words: &[String]) -> Option<Pair> {
    let column = |names: &[&str]| {
        let is = |head: &String| {
            let head = head.to_lowercase();
            head.split(|c: char| !c.is_alphanumeric()).any(|word| names.contains(&word))
        };
        heads.iter().position(is).and_then(|j| words.get(j))
    };
    if let (Some(from), Some(to)) = (column(&SOURCES), column(&TARGETS)) {
        return Some(Pair { from: end(from, heads, &SOURCES)?, to: end(to, heads, &TARGETS)?, direction: None });
    }
    words.iter().find_map(|cell| {
        let (arrow, direction) = ARROWS.iter().find(|(arrow, _)| cell.contains(arrow))?;
        let (from, to) = cell.split_once(arrow)?;
        let number_after = |text: &str| text.trim().to_owned();
        let (from, to) = (number_after(from), number_after(to));
        Some(Pair { from: end(&from, &[], &[])?, to: end(&to, &[], &[])?, direction: *direction })
    })
}

/// An end by its name; a number alone where the head of its column says that GPUs are numbered.
fn end(cell: &str, heads: &[String], names: &[&str]) -> Option<String> {
    let plain = cell.trim().trim_end_matches(':');
    let joined: String = plain.split_whitespace().collect();
    let upper = joined.to_ascii_uppercase();
    let numbered = || {
        let is_gpu = |head: &&String| {
            let head = head.to_lowercase();
            head.contains("gpu") && names.iter().any(|name| head.contains(name))
        };
        plain.parse::<u32>().ok().filter(|_| heads.iter().find(is_gpu).is_some())
    };
    match upper.as_str() {
        "HOST" | "CPU" | "H" => Some("host".to_owned()),
        gpu if gpu_number(gpu).is_some() => Some(upper),
        _ if is_nic(&joined) => Some(joined),
        _ => numbered().map(|n| format!("GPU{n}")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::RateRow;
    use super::*;

    fn table(heads: &[&str], rate: &str, rows: &[(&[&str], f64)]) -> RateTable {
        let own = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        let row = |(words, rate): &(&[&str], f64)| RateRow {
            words: own(words),
            rates: vec![Some(Rate::from_gb(*rate))],
            line: 1,
        };
        RateTable {
            word_columns: own(heads),
            rate_columns: vec![rate.to_owned()],
            rows: rows.iter().map(row).collect(),
        }
    }

    #[test]
    fn arrows_and_columns_name_ends() {
        let arrows =
            table(&["Path"], "unidirectional (GB/s)", &[(&["GPU 0 -> GPU 1"], 26.0), (&["GPU1 → host"], 12.0)]);
        let [m] = &matrices(&arrows, "").unwrap()[..] else { panic!() };
        assert_eq!((m.between("GPU0", "GPU1"), m.between("GPU1", "host")), (Some(26.0), Some(12.0)));
        assert_eq!(m.direction, Some(Direction::Unidirectional));
        let columns = table(&["Src GPU", "Dst GPU"], "GB/s", &[(&["0", "1"], 26.0), (&["1", "0"], 25.0)]);
        let [m] = &matrices(&columns, "").unwrap()[..] else { panic!() };
        assert_eq!((m.between("GPU1", "GPU0"), m.direction), (Some(25.0), None));
        let both = table(&["Pair"], "GB/s", &[(&["GPU0 <-> GPU1"], 50.0), (&["GPU0 ↔ GPU2"], 51.0)]);
        assert_eq!(matrices(&both, "").unwrap()[0].direction, Some(Direction::Bidirectional));
    }

    #[test]
    fn rows_without_both_ends_are_no_paths() {
        for (heads, rows) in [
            (vec!["Pair"], [(&["near"][..], 50.0), (&["far"][..], 12.0)]),
            (vec!["Card"], [(&["GPU0"][..], 50.0), (&["GPU1"][..], 12.0)]),
            (vec!["Path", "size"], [(&["GPU0 -> GPU1", "1M"][..], 50.0), (&["GPU0 -> GPU1", "2M"][..], 12.0)]),
            (vec!["From", "To"], [(&["0", "1"][..], 50.0), (&["1", "0"][..], 12.0)]),
            (vec!["Path"], [(&["GPU0 -> GPU1"][..], 50.0), (&["others"][..], 12.0)]),
        ] {
            assert!(matrices(&table(&heads, "GB/s", &rows), "").is_none(), "{heads:?}");
        }
    }
}
