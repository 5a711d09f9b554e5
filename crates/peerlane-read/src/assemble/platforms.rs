//! Published tables of rates whose rows are of several machines, distinguished by a word in each row.

use std::collections::HashMap;

use peerlane_machine::fact::{Evidence, Fact, RateRow, RateTable};

/// Headers of columns that name a machine.
const MACHINE_COLUMNS: [&str; 5] = ["platform", "system", "machine", "server", "node"];

/// CPU generations and chipsets that stand for a machine where a row begins with one. "Tylesburg" is
/// how some documents spell Intel's Tylersburg.
const PLATFORMS: [&str; 24] = [
    "nehalem",
    "westmere",
    "tylersburg",
    "tylesburg",
    "sandy bridge",
    "ivy bridge",
    "haswell",
    "broadwell",
    "skylake",
    "cascade lake",
    "ice lake",
    "sapphire rapids",
    "emerald rapids",
    "granite rapids",
    "naples",
    "rome",
    "milan",
    "genoa",
    "turin",
    "power8",
    "power9",
    "grace",
    "threadripper",
    "plx",
];

/// Splits tables of several machines into one table for each.
pub(super) fn split(evidence: Vec<Evidence>) -> Vec<Evidence> {
    let mut all = Vec::with_capacity(evidence.len());
    for one in evidence {
        let Evidence { origin, fact: Fact::Rates(table) } = one else {
            all.push(one);
            continue;
        };
        let Some(column) = machine_column(&table) else {
            all.push(Evidence { origin, fact: Fact::Rates(table) });
            continue;
        };
        let (word_columns, rate_columns) = (table.word_columns, table.rate_columns);
        // in the order of first mention
        let mut parts: Vec<Vec<RateRow>> = Vec::new();
        let mut part_of: HashMap<String, usize> = HashMap::new();
        for row in table.rows {
            let Some(name) = row.words.get(column) else { continue };
            let part = *part_of.entry(name.clone()).or_insert(parts.len());
            match parts.get_mut(part) {
                Some(rows) => rows.push(row),
                None => parts.push(vec![row]),
            }
        }
        for rows in parts {
            let part = RateTable { rows, word_columns: word_columns.clone(), rate_columns: rate_columns.clone() };
            all.push(Evidence { origin: origin.clone(), fact: Fact::Rates(part) });
        }
    }
    all
}

/// The machine that all rows of a table are about, where they name one.
pub(super) fn machine_name(table: &RateTable) -> Option<&String> {
    let column = machine_column(table)?;
    table.rows.first()?.words.get(column).filter(|name| !name.is_empty())
}

fn machine_column(table: &RateTable) -> Option<usize> {
    let titled = |header: &String| MACHINE_COLUMNS.contains(&header.trim().to_lowercase().as_str());
    if let Some(column) = table.word_columns.iter().position(titled) {
        return Some(column);
    }
    let names_platform = |word: &String| {
        let word = word.to_lowercase();
        PLATFORMS.iter().any(|p| word.starts_with(p))
    };
    let all = table.rows.iter().all(|r| r.words.first().is_some_and(names_platform));
    (all && !table.rows.is_empty()).then_some(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane_machine::origin::Origin;

    fn table(columns: &[&str], rows: &[&[&str]]) -> Vec<Evidence> {
        let row =
            |words: &&[&str]| RateRow { words: words.iter().map(|w| w.to_string()).collect(), ..RateRow::default() };
        let table = RateTable {
            word_columns: columns.iter().map(|c| c.to_string()).collect(),
            rows: rows.iter().map(row).collect(),
            ..RateTable::default()
        };
        vec![Evidence {
            origin: Origin { source: "test".into(), tool: "document table", lines: Some((1, 9)) },
            fact: Fact::Rates(table),
        }]
    }

    #[test]
    fn a_platform_column_splits() {
        let rows: [&[&str]; 3] = [&["read", "A"], &["write", "B"], &["loop", "A"]];
        assert_eq!(split(table(&["", "Platform"], &rows)).len(), 2);
        assert_eq!(split(table(&["", "Method"], &rows)).len(), 1);
    }

    #[test]
    fn rows_that_begin_with_a_platform_split() {
        let rows: [&[&str]; 2] = [&["Sandy Bridge Gen3"], &["Haswell"]];
        let parts = split(table(&["which"], &rows));
        let Fact::Rates(first) = &parts[0].fact else { panic!() };
        assert_eq!(machine_name(first).map(String::as_str), Some("Sandy Bridge Gen3"));
        assert_eq!(parts.len(), 2);
    }
}
