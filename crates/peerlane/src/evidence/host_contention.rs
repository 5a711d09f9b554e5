//! Reads our own listing of copies between host and GPUs, alone and at once, as `captures/h200x4-vm` has it.
//!
//! A line is a set and its rates in GB/s: `solo h2d [55.4, 55.5]` is each GPU alone; `pair h2d 0 1 […]` and
//! `all h2d […]` are several at once, a rate a GPU; `bidir 0 […]` is one GPU both ways, host to device first,
//! `all bidir […]` all of them so; `h2d/d2h 0 1 […]` copies to the first GPU and from the second. The rates
//! of a GPU alone become matrices; what ran at once has no place in a matrix and becomes a table of rates.

use super::grid::gpu_names;
use super::limits::MAX_ROWS;
use super::{Direction, Engine, Fact, Found, Matrix, Quantity, RateRow, RateTable, Text, Unit};
use crate::units::Rate;

const TOOL: &str = "host contention run";

/// Names of the rate columns; a set has at most a rate a direction and GPU.
const ORDINALS: [&str; 16] = [
    "first",
    "second",
    "third",
    "fourth",
    "fifth",
    "sixth",
    "seventh",
    "eighth",
    "ninth",
    "tenth",
    "eleventh",
    "twelfth",
    "thirteenth",
    "fourteenth",
    "fifteenth",
    "sixteenth",
];

pub(super) fn scan(text: &Text, found: &mut Found) {
    let mut i = 0;
    while i < text.len() {
        let sets: Vec<Set> = (i..text.len()).take(MAX_ROWS).map_while(|j| Set::parse(text.line(j).trim())).collect();
        if sets.iter().any(|set| set.kind == "solo") {
            block(text, i, &sets, found);
        }
        i += sets.len().max(1);
    }
}

/// One line.
struct Set<'a> {
    kind: &'a str,
    direction: &'a str,
    /// The GPUs it names; none for all.
    gpus: Vec<u32>,
    rates: Vec<f64>,
}

impl<'a> Set<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (words, rates) = line.strip_suffix(']')?.split_once('[')?;
        let words: Vec<&str> = words.split_whitespace().collect();
        let (kind, direction, gpus) = match words.as_slice() {
            [kind @ ("solo" | "pair" | "all"), way @ ("h2d" | "d2h"), gpus @ ..] => (*kind, *way, gpus),
            ["all", "bidir"] => ("all", "h2d+d2h", [].as_slice()),
            ["bidir", gpus @ ..] => ("bidir", "h2d+d2h", gpus),
            ["h2d/d2h", gpus @ ..] => ("pair", "h2d/d2h", gpus),
            _ => return None,
        };
        let gpus = gpus.iter().map(|g| g.parse()).collect::<Result<_, _>>().ok()?;
        let rates: Vec<f64> = rates.split(',').map(|r| r.trim().parse()).collect::<Result<_, _>>().ok()?;
        (rates.len() <= ORDINALS.len()).then_some(Set { kind, direction, gpus, rates })
    }
}

fn block(text: &Text, first: usize, sets: &[Set], found: &mut Found) {
    let mut table = RateTable {
        word_columns: ["set", "direction", "GPUs"].map(str::to_owned).to_vec(),
        rate_columns: Vec::new(),
        rows: Vec::new(),
    };
    let columns = sets.iter().filter(|set| set.kind != "solo").map(|set| set.rates.len()).max().unwrap_or(0);
    table.rate_columns.extend(ORDINALS.iter().take(columns).map(|name| (*name).to_owned()));
    let gpus = sets.iter().filter(|set| set.kind == "solo").map(|set| set.rates.len()).max().unwrap_or(0);
    for (i, set) in sets.iter().enumerate() {
        let line = first + i;
        if set.kind == "solo" {
            found.push(text, TOOL, text.numbers(line, line), Fact::Matrix(solo(set)));
            continue;
        }
        let numbers: Vec<String> = match set.gpus.as_slice() {
            [] => (0..gpus).map(|n| n.to_string()).collect(),
            named => named.iter().map(u32::to_string).collect(),
        };
        let mut rates: Vec<_> = set.rates.iter().map(|r| Some(Rate::from_gb(*r))).collect();
        rates.resize(columns, None);
        let words = vec![set.kind.to_owned(), set.direction.to_owned(), numbers.join(" ")];
        table.rows.push(RateRow { words, rates, line: line as u32 + 1 });
    }
    if let (Some(top), Some(bottom)) = (table.rows.first(), table.rows.last()) {
        found.push(text, TOOL, (top.line, bottom.line), Fact::Rates(table));
    }
}

fn solo(set: &Set) -> Matrix {
    let gpus = gpu_names(&(0..set.rates.len() as u32).collect::<Vec<_>>());
    let host = vec!["host".to_owned()];
    let cells = set.rates.iter().map(|r| Some(*r));
    let (rows, cols, values) = match set.direction {
        "h2d" => (host, gpus, vec![cells.collect()]),
        _ => (gpus, host, cells.map(|c| vec![c]).collect()),
    };
    Matrix {
        quantity: Quantity::Bandwidth,
        direction: Some(Direction::Unidirectional),
        p2p: None,
        op: None,
        engine: Some(Engine::Ce),
        unit: Unit::GigabytesPerSecond,
        size: None,
        rows,
        cols,
        values,
        title: format!("{} {}", set.kind, set.direction),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alone_and_at_once() {
        let body = "notes [1]\nsolo h2d [55.4, 55.5]\npair h2d 0 1 [54.0, 54.1]\nsolo d2h [50.0, 50.1]\n\
                    all bidir [20.0, 27.0, 21.0, 28.0]\nbidir 1 [51.0, 50.0]\nh2d/d2h 1 0 [53.0, 52.0]\n";
        let mut found = Found::default();
        scan(&Text::new("t", body.as_bytes()), &mut found);
        let [down, up, rates] = found.evidence.as_slice() else { panic!("{found:#?}") };
        let (Fact::Matrix(down), Fact::Matrix(up), Fact::Rates(rates)) = (&down.fact, &up.fact, &rates.fact) else {
            panic!()
        };
        assert_eq!((down.between("host", "GPU1"), up.between("GPU0", "host")), (Some(55.5), Some(50.0)));
        assert_eq!(rates.rate_columns.len(), 4);
        assert_eq!(rates.rows[0].words, ["pair", "h2d", "0 1"]);
        assert_eq!((rates.rows[0].rates[1], rates.rows[0].rates[2]), (Some(Rate::from_gb(54.1)), None));
        assert_eq!(rates.rows[1].words, ["all", "h2d+d2h", "0 1"]);
        assert_eq!(rates.rows[3].words, ["pair", "h2d/d2h", "1 0"]);
        assert_eq!(rates.rows[3].line, 7);
    }

    #[test]
    fn lists_in_other_texts_are_left_alone() {
        let mut found = Found::default();
        scan(&Text::new("t", b"all h2d [1.0]\nbidir 0 [2]\n"), &mut found);
        assert_eq!(found, Found::default());
    }
}
