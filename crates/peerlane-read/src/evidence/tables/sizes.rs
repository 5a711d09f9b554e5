//! Sizes of messages as documents write them: `8M`, `1 GiB`, `128 KB`, or `128` below `Size (KB)`.
//!
//! Benchmarks double sizes, so that a prefix is a power of 1024 whatever its spelling.

/// The longest title of such a column.
const MAX_TITLE: usize = 32;

/// The bytes of one unit of a column with this title; `None` where it holds no sizes.
pub(super) fn unit(title: &str) -> Option<u64> {
    let low = title.trim_start_matches(['#', ' ']).to_lowercase();
    let is_size = low.len() <= MAX_TITLE
        && ["size", "bytes", "message", "msg"].iter().any(|word| low.starts_with(word))
        || low.ends_with(" size");
    let bracketed = low.split_once(['(', '[']).and_then(|(_, inner)| inner.split_once([')', ']']));
    is_size.then(|| bracketed.and_then(|(unit, _)| prefix(unit)).unwrap_or(1))
}

/// `B`, `bytes`, `K`, `kB`, `MiB`.
fn prefix(unit: &str) -> Option<u64> {
    let unit = unit.trim().to_lowercase();
    let power = match unit.chars().next() {
        None | Some('b') => 0,
        Some('k') => 1,
        Some('m') => 2,
        Some('g') => 3,
        _ => return None,
    };
    let rest = unit.get(usize::from(power > 0)..)?;
    matches!(rest, "" | "b" | "ib" | "byte" | "bytes" | "i").then_some(1024_u64.pow(power))
}

/// The bytes of a cell in a column of this unit, unless it is a plain number of bytes already.
pub(super) fn bytes(cell: &str, unit: u64) -> Option<u64> {
    let digits = cell.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(cell.len());
    let (number, own) = cell.split_at(digits);
    let number: f64 = number.parse().ok()?;
    let unit = if own.is_empty() { unit } else { prefix(own)? };
    let bytes = number * unit as f64;
    (unit > 1 && bytes.fract() == 0.0 && bytes < 1e15).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_all_spellings() {
        for (title, cell, wanted) in [
            ("# Size", "8M", Some(8 << 20)),
            ("Message size", "1 GiB", Some(1 << 30)),
            ("msg size (KB)", "128", Some(128 << 10)),
            ("Size (B)", "1024", None),
            ("size", "1024", None),
            ("bytes", "0.5K", Some(512)),
            ("Size", "large", None),
            ("Size", "12 ms", None),
        ] {
            assert_eq!(bytes(cell, unit(title).unwrap()), wanted, "{title}: {cell}");
        }
        for title in ["pair", "", "Transfer", "D\\D"] {
            assert_eq!(unit(title), None, "{title}");
        }
    }
}
