//! Lists of parts as people write them: `8x L40S + 2x 200G`.

use std::path::Path;

use super::Product;
use peerlane_machine::fabric::NodeKind;
use peerlane_machine::one_line::shown;
use peerlane_read::catalogue::Parts;

/// The most cards of a list.
const MOST: usize = 128;

/// Adapters by what a list calls their rate, with their parts.
const ADAPTERS: [(&str, &str); 10] = [
    ("25g", "connectx-4-lx"),
    ("fdr", "connectx-3"),
    ("100g", "connectx-5"),
    ("edr", "connectx-5"),
    ("hdr100", "connectx-6-hdr100"),
    ("200g", "connectx-6"),
    ("hdr", "connectx-6"),
    ("400g", "connectx-7"),
    ("ndr", "connectx-7"),
    ("800g", "connectx-8"),
];

/// Parts, with how many there are of each.
#[derive(Debug)]
pub(super) struct List {
    /// The machine's name: the list without spaces.
    pub(super) name: String,
    pub(super) parts: Vec<(usize, Product)>,
    /// Whether NVLink bridges join the GPUs in pairs.
    pub(super) bridged: bool,
}

/// Whether a text is written as a list of parts: items with `+` between them, at least one with a count, as in `2x RTX 4090`.
pub fn is_parts_list(text: &str) -> bool {
    let is_file = Path::new(text).extension().is_some_and(|e| e.to_string_lossy().chars().all(|c| c.is_alphabetic()));
    let items = || text.split('+').map(str::trim);
    let is_sum = items().all(|item| !item.is_empty()) && items().any(|item| counted(item).is_some());
    is_sum && !is_file && !text.contains(['/', '\\', '\n'])
}

/// `8x L40S` in number and name.
fn counted(item: &str) -> Option<(usize, &str)> {
    let end = item.find(|c: char| !c.is_ascii_digit())?;
    let (number, rest) = item.split_at(end);
    let name = rest.trim_start().strip_prefix(['x', 'X', '×'])?.trim();
    // digits that are no number are too many of them
    let count = number.parse().unwrap_or(usize::MAX);
    Some((count, name)).filter(|(_, name)| !number.is_empty() && !name.is_empty())
}

/// An adapter by its rate alone: `400G`, `200 Gb/s`, `NDR`.
fn adapter(name: &str) -> Option<Result<Product, String>> {
    let plain = name.to_lowercase().replace(' ', "");
    let plain = ["gbit/s", "gb/s", "gbps", "gbe"]
        .iter()
        .find_map(|unit| plain.strip_suffix(unit))
        .map_or(plain.clone(), |number| format!("{number}g"));
    let part = ADAPTERS.iter().find(|(rate, _)| *rate == plain).and_then(|(_, part)| Parts::embedded().get(part));
    let is_rate = plain.strip_suffix('g').is_some_and(|number| number.parse::<u32>().is_ok());
    match part {
        Some(part) => Some(Ok(Product { name: part.title.clone(), kind: NodeKind::Nic, part: Some(part) })),
        None if is_rate => {
            let rates = ADAPTERS.map(|(rate, _)| rate).join(", ");
            Some(Err(format!("no adapter of this rate is known: '{}'; these are: {rates}", shown(name))))
        }
        None => None,
    }
}

impl List {
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let mut list = List { name: text.split_whitespace().collect(), parts: Vec::new(), bridged: false };
        for item in text.split('+').map(str::trim) {
            let (count, name) = counted(item).unwrap_or((1, item));
            if name.eq_ignore_ascii_case("nvlink") {
                list.bridged = true;
                continue;
            }
            let product = adapter(name).unwrap_or_else(|| Product::listed(name))?;
            list.parts.push((count, product));
        }
        let all = list.parts.iter().map(|(count, _)| count).try_fold(0_usize, |all, n| all.checked_add(*n));
        match all {
            Some(all) if all <= MOST && list.parts.iter().all(|(count, _)| *count > 0) => Ok(list),
            _ => Err(format!("'{}': a count is 1 to {MOST}, and so is their sum", shown(text))),
        }
    }

    /// Each device of these kinds, in the list's order.
    pub(super) fn of(&self, kinds: &[NodeKind]) -> Vec<&Product> {
        let of = self.parts.iter().filter(|(_, product)| kinds.contains(&product.kind));
        of.flat_map(|(count, product)| std::iter::repeat_n(product, *count)).collect()
    }
}
