//! Sizes of messages, as people write them.

use std::str::FromStr;

use peerlane_machine::units::{Bytes, NoSize};

/// Sizes of messages: `8B..1GiB`, every power of two times the first; `1MiB,64MiB`. Units are those of nccl-tests: `K`, `KB`
/// and `KiB` are all 1,024 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(pub Vec<Bytes>);

/// Most sizes of one range.
const MOST: usize = 64;

/// A text that gives no sizes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSizes {
    /// This part is no size.
    #[error(transparent)]
    Size(#[from] NoSize),
    /// This range goes down.
    #[error("'{0}' ends below its start")]
    Backwards(String),
    /// So many.
    #[error("{0} sizes; at most {MOST}")]
    TooMany(usize),
}

impl FromStr for Sizes {
    type Err = NoSizes;

    fn from_str(text: &str) -> Result<Self, NoSizes> {
        let mut all = Vec::new();
        for part in text.split(',') {
            match part.split_once("..") {
                None => all.push(part.parse()?),
                Some((low, high)) => {
                    let (low, high) = (low.parse::<Bytes>()?.0.max(1), high.parse::<Bytes>()?.0);
                    if high < low {
                        return Err(NoSizes::Backwards(part.to_owned()));
                    }
                    let doubled = std::iter::successors(Some(low), |s| s.checked_mul(2)).take_while(|s| *s <= high);
                    all.extend(doubled.map(Bytes));
                }
            }
        }
        if all.len() > MOST { Err(NoSizes::TooMany(all.len())) } else { Ok(Sizes(all)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_as_people_write_them() {
        let sizes = |text: &str| text.parse::<Sizes>().map(|s| s.0.into_iter().map(|b| b.0).collect::<Vec<_>>());
        assert_eq!(sizes("1..8"), Ok(vec![1, 2, 4, 8]));
        assert_eq!(sizes("64K, 1.5MiB"), Ok(vec![65_536, 1_572_864]));
        assert_eq!(sizes("8..4"), Err(NoSizes::Backwards("8..4".to_owned())));
        assert_eq!(sizes(&["1"; 65].join(",")), Err(NoSizes::TooMany(65)));
        for wrong in ["", "x", "1e3", "-1", "1..", "9e99T", "1,,2", "1.2.3"] {
            assert!(sizes(wrong).is_err(), "{wrong}");
        }
    }
}
