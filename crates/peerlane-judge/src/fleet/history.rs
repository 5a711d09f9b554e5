//! A number over the records of one machine: what it was, and since when it is worse.

use std::fmt::Write;

use super::document::Past;
use super::shown::{digits, short, time};
use super::{Dictionary, Node, What};

/// Values that a sentence has; of more the last.
const SHOWN: usize = 8;

/// How many of these values, the oldest first, came before the number became worse: where the worst of the earlier and the best of
/// the later ones are furthest apart, by more than `least` as a share. `None` where no moment keeps them apart, as of a number that
/// goes up and down.
pub(super) fn onset(what: &What, values: &[f64], least: f64) -> Option<usize> {
    let worse = |a: f64, b: f64| if what.is_rate() { a.min(b) } else { a.max(b) };
    let better = |a: f64, b: f64| if what.is_rate() { a.max(b) } else { a.min(b) };
    // of each value and all after it the best
    let mut best: Vec<f64> = values.to_vec();
    for at in (1..best.len()).rev() {
        best[at - 1] = better(best[at - 1], best[at]);
    }
    let mut worst = *values.first()?;
    let mut found: Option<(f64, usize)> = None;
    for at in 1..values.len() {
        let gap = what.worse(best[at], worst);
        if gap > least && found.is_none_or(|(widest, _)| gap > widest) {
            found = Some((gap, at));
        }
        worst = worse(worst, values[at]);
    }
    found.map(|(_, at)| at)
}

/// `since 2026-11-21 08:34 (392.1, 391.8, 332.4, 332.0)`, where so many values came before.
pub(super) fn words(history: &[Past], onset: usize) -> String {
    let Some(first) = history.get(onset) else { return String::new() };
    let when = first.began.as_deref().map_or_else(|| "an undated record".to_owned(), minute);
    let from = history.len().saturating_sub(SHOWN);
    let values: Vec<String> = history.iter().skip(from).map(|past| short(past.value)).collect();
    let more = if from > 0 { format!("{} of {} records: ", SHOWN, history.len()) } else { String::new() };
    format!("since {when} ({more}{})", values.join(", "))
}

/// `2026-11-21T08:34:35Z` as `2026-11-21 08:34`.
fn minute(time: &str) -> String {
    time.get(..16).unwrap_or(time).replace('T', " ")
}

/// Every number of every record, a row each, as CSV: machine, start, file, test, ends, quantity, unit, value, and the ends of its interval.
/// `cell` writes a cell of words.
pub fn values(records: &[Node], dictionary: &Dictionary, cell: impl Fn(&str) -> String) -> String {
    let known = dictionary.take();
    let mut text = String::from("machine,began,file,test,between,quantity,unit,value,low,high\n");
    let mut order: Vec<&Node> = records.iter().collect();
    order.sort_by(|a, b| (&a.name, a.began, &a.file).cmp(&(&b.name, b.began, &b.file)));
    for node in order {
        let began = time(Some(node.began)).unwrap_or_default();
        let of_node = [cell(&node.name), cell(&began), cell(&node.file)].join(",");
        let mut rows: Vec<(&What, [f64; 3])> =
            node.numbers.iter().filter_map(|n| Some((known.get(&n.key)?, n.value()?))).collect();
        rows.sort_by(|(a, _), (b, _)| {
            (&a.test, &a.words, a.quantity.name()).cmp(&(&b.test, &b.words, b.quantity.name()))
        });
        for (what, [value, low, high]) in rows {
            let of = [cell(&what.test), cell(&what.words), cell(what.quantity.name()), cell(what.unit.name())];
            // writing to a string does not fail
            let _ = writeln!(text, "{of_node},{},{},{},{}", of.join(","), digits(value), digits(low), digits(high));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::document::Test;
    use peerlane_machine::matrix::{Quantity, Unit};

    fn what(quantity: Quantity, unit: Unit) -> What {
        let column = Test { name: String::new(), family: String::new(), method: String::new(), class: String::new() };
        let class = String::new();
        What {
            test: "pairs".to_owned(),
            quantity,
            unit,
            words: "GPU0→GPU1".to_owned(),
            gpus: Vec::new(),
            set: false,
            one_way: true,
            by_cpu: false,
            column,
            class,
        }
    }

    #[test]
    fn a_step_has_a_date_and_what_goes_up_and_down_has_none() {
        let rate = what(Quantity::Bandwidth, Unit::GigabytesPerSecond);
        for (values, wanted) in [
            (&[392.0, 392.1, 391.0, 333.0, 332.0, 332.5][..], Some(3)),
            (&[392.0, 332.0][..], Some(1)),
            (&[392.0, 380.0, 300.0, 290.0][..], Some(2)),
            (&[392.0, 332.0, 392.0, 332.0][..], None),
            (&[332.0, 392.0][..], None),
            (&[392.0][..], None),
            (&[][..], None),
        ] {
            assert_eq!(onset(&rate, values, 0.025), wanted, "{values:?}");
        }
        let time = what(Quantity::Latency, Unit::Microseconds);
        assert_eq!(onset(&time, &[2.0, 2.1, 3.0, 3.1], 0.025), Some(2));
        assert_eq!(onset(&time, &[3.0, 2.0], 0.025), None);
    }

    #[test]
    fn a_long_history_shows_its_end() {
        let past = |value: f64| Past { began: Some("2026-11-21T08:34:35Z".to_owned()), value };
        let short: Vec<Past> = [392.1, 391.8, 332.4].map(past).into();
        assert_eq!(words(&short, 2), "since 2026-11-21 08:34 (392.1, 391.8, 332.4)");
        let long: Vec<Past> = (0..12).map(|_| past(1.0)).collect();
        assert!(words(&long, 3).contains("(8 of 12 records: 1.000, "), "{}", words(&long, 3));
        assert_eq!(words(&short, 3), "");
    }
}
