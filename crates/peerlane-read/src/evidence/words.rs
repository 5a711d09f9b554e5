//! Words of a line and the names of devices, as the tables of several tools need them.

use peerlane_machine::fabric::{PcieGeneration, PcieWidth};
use peerlane_machine::matrix::Unit;
pub(super) use peerlane_machine::names::{gpu_number, number_after as numbered};
use peerlane_machine::units::Bytes;

use super::plausible::NO_SIZE;

/// Months as logs write them.
pub(super) const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A word and where it starts in its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Word<'a> {
    /// The word.
    pub(super) text: &'a str,
    /// Byte offset in the line.
    pub(super) at: usize,
}

/// The words of a line. Bars count as blanks, so that Markdown tables and quotes read like plain ones.
pub(super) fn words(line: &str) -> impl Iterator<Item = Word<'_>> {
    let blank = |c: char| c.is_whitespace() || c == '|';
    line.split(blank).filter(|w| !w.is_empty()).map(move |text| {
        // split() yields parts of `line`, so that the distance of the two starts is the offset
        let at = text.as_ptr() as usize - line.as_ptr() as usize;
        Word { text, at }
    })
}

/// Whether a word names a NIC: `NIC0`, or an RDMA device such as `mlx5_0`, `mlx5_bond_0`, `ibp24s0`, `hfi1_0`.
///
/// Kernel device names start in lower case and hold a digit; a table's other cells do not.
pub(super) fn is_nic(word: &str) -> bool {
    numbered(word, "NIC").is_some()
        || (word.starts_with(|c: char| c.is_ascii_lowercase())
            && word.bytes().any(|b| b.is_ascii_digit())
            && word.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')))
}

/// Whether a word names a GPU or a NIC.
pub(super) fn is_device(word: &str) -> bool {
    gpu_number(word).is_some() || is_nic(word)
}

/// What the first words that occur in a text stand for; each meaning has one or more words.
pub(super) fn meaning<T: Copy>(text: &str, meanings: &[(&[&str], T)]) -> Option<T> {
    meanings.iter().find(|(words, _)| words.iter().any(|w| text.contains(w))).map(|(_, meaning)| *meaning)
}

/// `key: value` or `key : value`, both trimmed, parted at the first colon.
pub(super) fn key_value(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    Some((key.trim(), value.trim()))
}

/// A rate as it is written: a finite number above 0.
pub(super) fn rate_of(text: &str) -> Option<f64> {
    text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0)
}

/// A number and what follows it, trimmed: `151W` is 151 and `W`, `+45.0 °C` is 45 and `°C`.
pub(super) fn number_and_unit(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '+' | '-'))).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok()?, unit.trim()))
}

/// A size in MiB. One that cannot be, such as one below zero, is more than anything has, so that it is doubted and not taken for 0.
pub(super) fn mebibytes(number: f64) -> Bytes {
    if number >= 0.0 { Bytes::from_mib(number as u64) } else { NO_SIZE }
}

/// The unit that a text names, as a word or in brackets (`Bandwidth (GB/s)`, `BW average[Gb/sec]`), and what a value is to be
/// multiplied by to be in it. Authors' decimal prefixes are powers of 1000.
pub(super) fn unit_in(text: &str) -> Option<(Unit, f64)> {
    text.split(|c: char| !(c.is_alphanumeric() || c == '/')).filter(|word| !word.is_empty()).find_map(unit)
}

/// `GB/s`, `GiB/sec`, `MBytes/s`, `Gbps`, `Gbit/s`, `us`, `µs`, `ns`.
fn unit(word: &str) -> Option<(Unit, f64)> {
    match word {
        "us" | "usec" | "\u{b5}s" | "\u{3bc}s" => return Some((Unit::Microseconds, 1.0)),
        "ns" | "nsec" => return Some((Unit::Nanoseconds, 1.0)),
        _ => {}
    }
    let per_second = ["/s", "/sec", "/Sek", "/second"].iter().find_map(|end| word.strip_suffix(end));
    // `Mops` are no octets
    let counted = per_second.or_else(|| word.strip_suffix("ps").filter(|counted| !counted.ends_with('o')))?;
    let (prefix, rest) = counted.split_at_checked(1)?;
    let power = ["k", "M", "G", "T"].iter().position(|p| *p == prefix || (*p == "k" && prefix == "K"))? as i32 + 1;
    let (binary, counted) =
        rest.strip_prefix('i').filter(|rest| rest.starts_with('B')).map_or((false, rest), |r| (true, r));
    match counted {
        "B" | "Byte" | "Bytes" | "byte" | "bytes" | "o" if binary => {
            Some((Unit::MebibytesPerSecond, 1024_f64.powi(power - 2)))
        }
        "B" | "Byte" | "Bytes" | "byte" | "bytes" | "o" => Some((Unit::GigabytesPerSecond, 1000_f64.powi(power - 3))),
        "b" | "bit" | "bits" | "Bit" | "Bits" => Some((Unit::GigabitsPerSecond, 1000_f64.powi(power - 3))),
        _ => None,
    }
}

/// A link from the spellings of its speed (`16.0 GT/s PCIe`, `8 GT/s`, `2.5GT/s`, `Unknown`) and width
/// (`16`, `x16`; 0 and 255 mean unknown).
pub(super) fn pcie_width(speed: &str, width: &str) -> PcieWidth {
    let speed = speed.trim();
    let digits = speed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(speed.len());
    let (number, unit) = speed.split_at(digits);
    let gigatransfers: Option<f64> = number.parse().ok().filter(|_| unit.trim_start().starts_with("GT/s"));
    let lanes: Option<u8> = width.trim().trim_start_matches('x').parse().ok();
    PcieWidth {
        generation: gigatransfers.and_then(PcieGeneration::from_gigatransfers),
        lanes: lanes.filter(|n| [1, 2, 4, 8, 12, 16, 32].contains(n)),
    }
}

/// How many bytes a line is indented by.
pub(super) fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// A PCI vendor or device id in hexadecimal.
pub(super) fn pci_id(text: &str) -> Option<u16> {
    hex(text).and_then(|id| u16::try_from(id).ok())
}

/// A hexadecimal number with or without `0x`.
pub(super) fn hex(text: &str) -> Option<u32> {
    let text = text.trim();
    u32::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_know_their_place() {
        let line = "| GPU0\t X |";
        let all: Vec<Word> = words(line).collect();
        assert_eq!(all, [Word { text: "GPU0", at: 2 }, Word { text: "X", at: 8 }]);
        assert_eq!(&line[all[1].at..], "X |");
    }

    #[test]
    fn numbers_and_units() {
        assert_eq!(number_and_unit(" +45.0°C  (high)"), Some((45.0, "°C  (high)")));
        assert_eq!(number_and_unit("16x"), Some((16.0, "x")));
        assert_eq!(number_and_unit("N/A"), None);
        assert_eq!(number_and_unit("1-16 GB/s"), None);
    }

    #[test]
    fn units_in_every_spelling() {
        for (text, unit, scale) in [
            ("Bandwidth (GB/s)", Unit::GigabytesPerSecond, 1.0),
            ("BW average[Gb/sec]", Unit::GigabitsPerSecond, 1.0),
            ("MBytes/s", Unit::GigabytesPerSecond, 1e-3),
            ("in GiB/s", Unit::MebibytesPerSecond, 1024.0),
            ("KiB/s", Unit::MebibytesPerSecond, 1.0 / 1024.0),
            ("Go/s", Unit::GigabytesPerSecond, 1.0),
            ("10 Gbps", Unit::GigabitsPerSecond, 1.0),
            ("Mbit/s", Unit::GigabitsPerSecond, 1e-3),
            ("Latenz (µs)", Unit::Microseconds, 1.0),
            ("ns", Unit::Nanoseconds, 1.0),
        ] {
            assert_eq!(unit_in(text), Some((unit, scale)), "{text}");
        }
        for text in ["It busses along", "steps", "GB", "tok/s", "Messages/s", "GT/s", "maps", "Mops"] {
            assert_eq!(unit_in(text), None, "{text}");
        }
    }

    #[test]
    fn devices_and_others() {
        for device in ["GPU0", "GPU15", "NIC3", "mlx5_0", "mlx5_bond_0", "ibp24s0", "hfi1_0", "rocep1s0f0"] {
            assert!(is_device(device), "{device}");
        }
        for other in ["GPU", "GPU+1", "GPU0:", "X", "NV18", "0-19", "Legend:", "mlx5_0:", "nvidia-smi", "NODE"] {
            assert!(!is_device(other), "{other}");
        }
    }

    #[test]
    fn links_in_every_spelling() {
        assert_eq!(pcie_width("16.0 GT/s PCIe", "16").to_string(), "4.0 x16");
        assert_eq!(pcie_width("8 GT/s", "x8").to_string(), "3.0 x8");
        assert_eq!(pcie_width("2.5GT/s", "1").to_string(), "1.0 x1");
        assert_eq!(pcie_width("32.0 GT/s PCIe", "0").to_string(), "5.0 x?");
        for (speed, width) in [("Unknown", "255"), ("", ""), ("16.0", "0"), ("GT/s", "x")] {
            assert!(pcie_width(speed, width).is_unknown(), "{speed}");
        }
        assert_eq!((hex("0x10de"), hex("10de"), hex("")), (Some(0x10de), Some(0x10de), None));
    }
}
