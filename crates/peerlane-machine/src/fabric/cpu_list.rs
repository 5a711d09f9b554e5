//! Sets of logical CPUs or NUMA nodes, as lists (`0-9,20-29`) and as masks (`00000000,ff000000`).

use std::fmt;
use std::str::FromStr;

use crate::schema::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest mask that is read; 11 000 CPUs fit.
const MAX_MASK_BYTES: usize = 4096;

/// The longest list that is read.
const MAX_LIST_BYTES: usize = 64 << 10;

/// A set of small numbers held as sorted, disjoint, inclusive ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, JsonSchema)]
#[schemars(with = "String")]
pub struct CpuList(Vec<(u32, u32)>);

/// The text is no CPU list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a list of CPUs such as 0-9,20-29")]
pub struct NoCpuList(String);

impl CpuList {
    /// The set of these ranges, which may overlap; reversed ones are dropped.
    pub fn from_ranges(ranges: impl IntoIterator<Item = (u32, u32)>) -> Self {
        let mut all: Vec<_> = ranges.into_iter().filter(|(a, b)| a <= b).collect();
        all.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(all.len());
        for (a, b) in all {
            match merged.last_mut() {
                Some(last) if a <= last.1.saturating_add(1) => last.1 = last.1.max(b),
                _ => merged.push((a, b)),
            }
        }
        CpuList(merged)
    }

    /// A mask of comma-separated 32-bit words, most significant first, as the kernel, NCCL and hwloc write it.
    ///
    /// None where it is longer than that of any machine: thousands of devices may repeat it.
    pub fn from_mask(mask: &str) -> Option<Self> {
        if mask.len() > MAX_MASK_BYTES {
            return None;
        }
        let words: Vec<&str> = mask.trim().split(',').map(|w| w.trim_start_matches("0x")).collect();
        let mut ranges = Vec::new();
        for (i, word) in words.iter().rev().enumerate() {
            let bits = if word.is_empty() { 0 } else { u32::from_str_radix(word, 16).ok()? };
            let base = u32::try_from(i).ok()?.checked_mul(32)?;
            ranges.extend((0..32).filter(|b| bits >> b & 1 == 1).map(|b| (base + b, base + b)));
        }
        Some(Self::from_ranges(ranges))
    }

    /// The ranges, ascending.
    pub fn ranges(&self) -> &[(u32, u32)] {
        &self.0
    }

    /// How many members.
    pub fn len(&self) -> u64 {
        self.0.iter().map(|(a, b)| u64::from(b - a) + 1).sum()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `n` is a member.
    pub fn contains(&self, n: u32) -> bool {
        self.0.iter().any(|&(a, b)| (a..=b).contains(&n))
    }
}

impl FromStr for CpuList {
    type Err = NoCpuList;

    fn from_str(s: &str) -> Result<Self, NoCpuList> {
        if s.len() > MAX_LIST_BYTES {
            return Err(NoCpuList(format!("{}…", s.chars().take(40).collect::<String>())));
        }
        // as the kernel writes the CPUs of a NUMA node that has only memory
        if s.is_empty() {
            return Ok(Self::from_ranges(Vec::new()));
        }
        let range = |part: &str| {
            let (a, b) = part.split_once('-').unwrap_or((part, part));
            let (a, b): (u32, u32) = (a.trim().parse().ok()?, b.trim().parse().ok()?);
            (a <= b).then_some((a, b))
        };
        let ranges: Option<Vec<_>> = s.split(',').map(range).collect();
        ranges.map(Self::from_ranges).ok_or_else(|| NoCpuList(s.to_owned()))
    }
}

impl fmt::Display for CpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> =
            self.0.iter().map(|&(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") }).collect();
        f.pad(&parts.join(","))
    }
}

impl Serialize for CpuList {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CpuList {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_without_cpus_comes_back() {
        let none: CpuList = "".parse().unwrap();
        assert!(none.is_empty() && none.to_string().is_empty());
    }

    #[test]
    fn longer_ones_than_any_machines_are_none() {
        assert!(CpuList::from_mask(&"ffffffff,".repeat(1000)).is_none());
        let refused = "0,2,".repeat(20_000).parse::<CpuList>().unwrap_err();
        assert!(refused.to_string().len() < 120, "{refused}");
    }

    #[test]
    fn lists_and_masks_agree() {
        let list: CpuList = "24-31".parse().unwrap();
        assert_eq!(CpuList::from_mask("00000000,ff000000"), Some(list));
        assert_eq!("0-0,8-8".parse::<CpuList>().unwrap().to_string(), "0,8");
        assert_eq!("0-9,20-29".parse::<CpuList>().unwrap().len(), 20);
        assert!("N/A".parse::<CpuList>().is_err());
        assert!("9-3".parse::<CpuList>().is_err());
        assert_eq!(CpuList::from_mask("0x00000303,0x03030000,,0x03030303").unwrap().len(), 4 + 4 + 8);
    }
}
