//! Turning names and numbers into short texts.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;

use peerlane_machine::fabric::CpuList;
pub(super) use peerlane_machine::names::list;
use peerlane_machine::names::natural;

/// Groups of pairs shown before their list is cut.
const SHOWN: usize = 12;

/// Pairs in as few words as they allow: `any two of GPU0–GPU3`, `GPU0, GPU1 and GPU2, GPU3`,
/// `GPU0 and GPU3; GPU1 and GPU2`. Each pair is expected once.
pub(super) fn pairs(pairs: &[(String, String)]) -> String {
    let mut ends: Vec<&String> = distinct(pairs.iter().flat_map(|(a, b)| [a, b]));
    if ends.len() > 2 && pairs.len() == ends.len() * (ends.len() - 1) / 2 {
        ends.sort_by(|a, b| natural(a).cmp(&natural(b)));
        return format!("any two of {}", list(&ends));
    }
    // the partners of each end, then the ends of equal partners
    let mut partners: BTreeMap<&String, Vec<String>> = BTreeMap::new();
    pairs.iter().for_each(|(a, b)| partners.entry(a).or_default().push(b.clone()));
    partners.values_mut().for_each(|names| names.sort_by(|a, b| natural(a).cmp(&natural(b))));
    let mut equal = grouped(partners.into_iter().map(|(end, partners)| (partners, end)));
    let more = equal.len().saturating_sub(SHOWN);
    equal.truncate(SHOWN);
    let shown: Vec<String> =
        equal.iter().map(|(partners, ends)| format!("{} and {}", list(ends), list(partners))).collect();
    let shown = shown.join("; ");
    if more > 0 { format!("{shown}; and {more} more") } else { shown }
}

/// `21-26,84`: line ranges joined where they touch or overlap.
pub(super) fn lines(ranges: &[(u32, u32)]) -> String {
    CpuList::from_ranges(ranges.iter().copied()).to_string()
}

/// `runs` or `run`, by the number of subjects.
pub(super) fn verb<S>(subjects: &[S], one: &'static str, many: &'static str) -> &'static str {
    if subjects.len() == 1 { one } else { many }
}

/// `8 %` of a share between 0 and 1.
pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// The value in the middle; the lower of two. `None` of nothing.
pub(super) fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.into_iter().filter(|v| !v.is_nan()).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len().checked_sub(1)? / 2).copied()
}

/// The item whose number is lowest; the first of equals.
pub(super) fn lowest<T>(items: impl IntoIterator<Item = T>, number: impl Fn(&T) -> f64) -> Option<T> {
    items.into_iter().min_by(|a, b| number(a).total_cmp(&number(b)))
}

/// The item whose number is highest; the first of equals.
pub(super) fn highest<T>(items: impl IntoIterator<Item = T>, number: impl Fn(&T) -> f64) -> Option<T> {
    items.into_iter().min_by(|a, b| number(b).total_cmp(&number(a)))
}

/// Each item once, in the order of its first occurrence.
pub(crate) fn distinct<T: Clone + Eq + Hash>(items: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut known = HashSet::new();
    items.into_iter().filter(|item| known.insert(item.clone())).collect()
}

/// Values by key, the keys in the order of their first occurrence.
pub(super) fn grouped<K: Clone + Eq + Hash, V>(items: impl IntoIterator<Item = (K, V)>) -> Vec<(K, Vec<V>)> {
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    let mut at: HashMap<K, usize> = HashMap::new();
    for (key, value) in items {
        let index = *at.entry(key.clone()).or_insert(groups.len());
        match groups.get_mut(index) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}

/// Whether a limit is known to be below another.
pub(super) fn below<T: PartialOrd>(now: Option<T>, possible: Option<T>) -> bool {
    matches!((now, possible), (Some(now), Some(possible)) if now < possible)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_in_few_words() {
        let of = |list: &[(&str, &str)]| {
            let list: Vec<(String, String)> = list.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
            pairs(&list)
        };
        assert_eq!(of(&[("GPU0", "GPU1")]), "GPU0 and GPU1");
        assert_eq!(of(&[("GPU0", "GPU1"), ("GPU0", "GPU2"), ("GPU1", "GPU2")]), "any two of GPU0–GPU2");
        let across = [("GPU0", "GPU2"), ("GPU0", "GPU3"), ("GPU1", "GPU2"), ("GPU1", "GPU3")];
        assert_eq!(of(&across), "GPU0, GPU1 and GPU2, GPU3");
        assert_eq!(of(&[("GPU0", "GPU3"), ("GPU1", "GPU2")]), "GPU0 and GPU3; GPU1 and GPU2");
        let unsorted = [("GPU0", "GPU7"), ("GPU0", "GPU5"), ("GPU0", "GPU6"), ("GPU1", "GPU2")];
        assert_eq!(of(&unsorted), "GPU0 and GPU5–GPU7; GPU1 and GPU2");
    }

    #[test]
    fn medians() {
        assert_eq!(median([3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median([2.0, 1.0]), Some(1.0));
        assert_eq!(median([]), None);
    }
}
