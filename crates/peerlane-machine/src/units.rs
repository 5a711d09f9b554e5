//! Quantities with their units. Bytes are bytes; a GB/s is 10⁹ bytes a second; a MiB is 2²⁰ bytes and
//! appears only where another program prints it.

use std::fmt;
use std::str::FromStr;

use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};

/// A number of bytes.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    /// `n` MiB of 2²⁰ bytes.
    pub const fn from_mib(n: u64) -> Self {
        Bytes(n.saturating_mul(1 << 20))
    }
}

/// A text that is no size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}': write a size as 8B, 64KiB, 1MiB or 1GiB")]
pub struct NoSize(String);

impl FromStr for Bytes {
    type Err = NoSize;

    /// Reads `8B`, `64KiB`, `1.5M`. `KB` is 1,000 bytes; `KiB`, and `K` as in nccl-tests, are 1,024.
    fn from_str(text: &str) -> Result<Self, NoSize> {
        let text = text.trim();
        let refused = || NoSize(text.to_owned());
        let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let factor = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 1_u64,
            "kb" => 1_000,
            "mb" => 1_000_000,
            "gb" => 1_000_000_000,
            "tb" => 1_000_000_000_000,
            "k" | "kib" => 1 << 10,
            "m" | "mib" => 1 << 20,
            "g" | "gib" => 1 << 30,
            "t" | "tib" => 1 << 40,
            _ => return Err(refused()),
        };
        let number = text.strip_suffix(unit).and_then(|n| n.parse::<f64>().ok()).map(|n| n * factor as f64);
        let bytes = number.filter(|n| n.is_finite() && *n >= 0.0 && *n < 1e18);
        bytes.map(|n| Bytes(n.round() as u64)).ok_or_else(refused)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const STEPS: [(u64, &str); 4] = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        for (step, name) in STEPS {
            if self.0 >= step && self.0.is_multiple_of(step) {
                return write!(f, "{} {name}", self.0 / step);
            }
        }
        for (step, name) in STEPS {
            if self.0 >= step {
                return write!(f, "{:.1} {name}", self.0 as f64 / step as f64);
            }
        }
        write!(f, "{} B", self.0)
    }
}

/// A rate of data, in bytes a second, of one direction unless its context is "both".
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Rate(f64);

impl Rate {
    /// No data moves.
    pub const ZERO: Rate = Rate(0.0);

    /// `v` bytes a second.
    pub const fn from_bytes_per_second(v: f64) -> Self {
        Rate(v)
    }

    /// `v` GB/s of 10⁹ bytes.
    pub const fn from_gb(v: f64) -> Self {
        Rate(v * 1e9)
    }

    /// `v` MiB/s of 2²⁰ bytes: what `bandwidthTest` and perftest print as "MB/s".
    pub const fn from_mib(v: f64) -> Self {
        Rate(v * 1048576.0)
    }

    /// `v` Gb/s of 10⁹ bits.
    pub const fn from_gbit(v: f64) -> Self {
        Rate(v * 1e9 / 8.0)
    }

    /// In bytes a second.
    pub const fn bytes_per_second(self) -> f64 {
        self.0
    }

    /// In GB/s of 10⁹ bytes.
    pub const fn gb(self) -> f64 {
        self.0 / 1e9
    }

    /// The slower of two.
    pub fn min(self, other: Rate) -> Rate {
        Rate(self.0.min(other.0))
    }
}

impl std::ops::Mul<f64> for Rate {
    type Output = Rate;
    fn mul(self, k: f64) -> Rate {
        Rate(self.0 * k)
    }
}

impl std::ops::Add for Rate {
    type Output = Rate;
    fn add(self, other: Rate) -> Rate {
        Rate(self.0 + other.0)
    }
}

impl fmt::Display for Rate {
    /// `12.22 GB/s`; one decimal from 100 on, since no machine repeats more.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gb = self.gb();
        if gb >= 100.0 { write!(f, "{gb:.1} GB/s") } else { write!(f, "{gb:.2} GB/s") }
    }
}

/// A time in seconds.
#[derive(Clone, Copy, Default, Debug, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Seconds(f64);

impl Seconds {
    /// `v` seconds.
    pub const fn new(v: f64) -> Self {
        Seconds(v)
    }

    /// `v` microseconds.
    pub const fn from_us(v: f64) -> Self {
        Seconds(v * 1e-6)
    }

    /// In seconds.
    pub const fn seconds(self) -> f64 {
        self.0
    }

    /// In microseconds.
    pub const fn us(self) -> f64 {
        self.0 * 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mebibytes_are_not_megabytes() {
        // bandwidthTest's 33236.9 "MB/s" of seed 002
        assert!((Rate::from_mib(33236.9).gb() - 34.851).abs() < 1e-3);
        assert_eq!(Rate::from_gbit(100.0), Rate::from_gb(12.5));
    }

    #[test]
    fn sizes_print_as_people_write_them() {
        assert_eq!(Bytes(8).to_string(), "8 B");
        assert_eq!(Bytes::from_mib(32).to_string(), "32 MiB");
        assert_eq!(Bytes(1500).to_string(), "1.5 KiB");
    }
}
