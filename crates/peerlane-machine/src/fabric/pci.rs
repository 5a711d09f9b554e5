//! PCI addresses and PCIe links: what a slot's link is and what both its ends could do.

use std::fmt;
use std::str::FromStr;

use crate::schema::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::units::Rate;

/// A PCI address, `domain:bus:device.function`.
///
/// Reads every spelling the tools use (`c1:00.0`, `0000:C1:00.0`, `00000000:C1:00.0`, and without a
/// function, `0000:c1:00`); prints `0000:c1:00.0`. NCCL's stand-in for an NVSwitch that a virtual
/// machine hides, `fffffff:ffff:ff`, is no address: see [`PciAddress::from_str`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(with = "String")]
pub struct PciAddress {
    /// PCI domain ("segment").
    pub domain: u32,
    /// Bus number.
    pub bus: u8,
    /// Device number, below 32.
    pub device: u8,
    /// Function number, below 8.
    pub function: u8,
}

impl PciAddress {
    /// Whether both are functions of one device: two ports of one card, a GPU and its audio.
    pub fn same_device(self, other: PciAddress) -> bool {
        (self.domain, self.bus, self.device) == (other.domain, other.bus, other.device)
    }
}

/// The text is no PCI address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no PCI address (domain:bus:device.function)")]
pub struct NoPciAddress(String);

impl FromStr for PciAddress {
    type Err = NoPciAddress;

    fn from_str(s: &str) -> Result<Self, NoPciAddress> {
        let parse = || {
            let mut fields = s.trim().rsplitn(3, ':');
            let last = fields.next()?;
            let (slot, function) = match last.split_once('.') {
                Some((slot, function)) => (slot, u8::from_str_radix(function, 16).ok()?),
                None => (last, 0),
            };
            let bus = u8::from_str_radix(fields.next()?, 16).ok()?;
            let domain = match fields.next() {
                Some(d) if d.len() <= 8 => u32::from_str_radix(d, 16).ok()?,
                Some(_) => return None,
                None => 0,
            };
            let device = u8::from_str_radix(slot, 16).ok()?;
            (device < 32 && function < 8).then_some(PciAddress { domain, bus, device, function })
        };
        parse().ok_or_else(|| NoPciAddress(s.to_owned()))
    }
}

impl fmt::Display for PciAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { domain, bus, device, function } = self;
        f.pad(&format!("{domain:04x}:{bus:02x}:{device:02x}.{function:x}"))
    }
}

impl Serialize for PciAddress {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PciAddress {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A PCIe generation; the variants are the specification's major revisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(with = "u8")]
pub enum PcieGeneration {
    /// 2.5 GT/s, 8b/10b.
    Gen1,
    /// 5 GT/s, 8b/10b.
    Gen2,
    /// 8 GT/s, 128b/130b.
    Gen3,
    /// 16 GT/s, 128b/130b.
    Gen4,
    /// 32 GT/s, 128b/130b.
    Gen5,
    /// 64 GT/s, 242 of 256 bytes of a FLIT.
    Gen6,
}

impl PcieGeneration {
    /// All, slowest first.
    pub const ALL: [Self; 6] = [Self::Gen1, Self::Gen2, Self::Gen3, Self::Gen4, Self::Gen5, Self::Gen6];

    /// 1 to 6.
    pub fn number(self) -> u8 {
        self as u8 + 1
    }

    /// The generation of that number.
    pub fn from_number(n: u8) -> Option<Self> {
        Self::ALL.get(usize::from(n).checked_sub(1)?).copied()
    }

    /// Transfers a second and lane, in GT/s.
    pub fn gigatransfers(self) -> f64 {
        [2.5, 5.0, 8.0, 16.0, 32.0, 64.0][self as usize]
    }

    /// The generation whose transfer rate this is, within 3 %.
    pub fn from_gigatransfers(gt: f64) -> Option<Self> {
        Self::ALL.into_iter().find(|g| (gt / g.gigatransfers() - 1.0).abs() < 0.03)
    }

    /// Payload bits per transferred bit: 8/10, 128/130, and 242/256 in FLIT mode.
    pub fn encoding(self) -> f64 {
        match self {
            Self::Gen1 | Self::Gen2 => 8.0 / 10.0,
            Self::Gen3 | Self::Gen4 | Self::Gen5 => 128.0 / 130.0,
            Self::Gen6 => 242.0 / 256.0,
        }
    }
}

impl fmt::Display for PcieGeneration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.0", self.number())
    }
}

impl Serialize for PcieGeneration {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_u8(self.number())
    }
}

impl<'de> Deserialize<'de> for PcieGeneration {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let n = u8::deserialize(d)?;
        Self::from_number(n).ok_or_else(|| serde::de::Error::custom(format!("no PCIe generation {n}")))
    }
}

/// A PCIe link's generation and lanes; each may be unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct PcieWidth {
    /// Generation, if known.
    pub generation: Option<PcieGeneration>,
    /// Lanes, if known; never 0.
    pub lanes: Option<u8>,
}

impl PcieWidth {
    /// A link of known generation and lanes.
    pub const fn new(generation: PcieGeneration, lanes: u8) -> Self {
        Self { generation: Some(generation), lanes: Some(lanes) }
    }

    /// Whether neither is known.
    pub fn is_unknown(self) -> bool {
        self.generation.is_none() && self.lanes.is_none()
    }

    /// The only width of that raw rate (within 1 %) that a component of at most `limit` can run at.
    ///
    /// hwloc gives a link's rate and not its width: 15.75 GB/s is 3.0 x16 or 4.0 x8, but on a
    /// component that ends at 3.0 it can only be the former.
    pub fn from_raw_rate(rate: Rate, limit: PcieWidth) -> Option<Self> {
        let (most, lanes) = (limit.generation?, limit.lanes?);
        let mut fitting = PcieGeneration::ALL.into_iter().filter(|g| *g <= most).flat_map(|g| {
            [1u8, 2, 4, 8, 16]
                .into_iter()
                .filter(move |w| *w <= lanes)
                .map(move |w| PcieWidth::new(g, w))
                .filter(move |w| w.raw_rate().is_some_and(|raw| (raw.gb() / rate.gb() - 1.0).abs() < 0.01))
        });
        fitting.next().filter(|_| fitting.next().is_none())
    }

    /// Bytes a second and direction after line encoding: GT/s × lanes × code ÷ 8.
    pub fn raw_rate(self) -> Option<Rate> {
        let (g, lanes) = (self.generation?, self.lanes?);
        Some(Rate::from_gb(g.gigatransfers() * f64::from(lanes) * g.encoding() / 8.0))
    }
}

impl fmt::Display for PcieWidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match (self.generation, self.lanes) {
            (Some(g), Some(w)) => format!("{g} x{w}"),
            (Some(g), None) => format!("{g} x?"),
            (None, Some(w)) => format!("x{w}"),
            (None, None) => "?".to_owned(),
        };
        f.pad(&text)
    }
}

/// The text is no PCIe link.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no PCIe link: write generation and lanes, as in \"3.0 x16\"")]
pub struct NoPcieWidth(String);

impl FromStr for PcieWidth {
    type Err = NoPcieWidth;

    /// Reads `3.0 x16`, `3 x16`, `gen3 x16`, `x8`, `3.0 x?`, `?`.
    fn from_str(s: &str) -> Result<Self, NoPcieWidth> {
        let bad = || NoPcieWidth(s.to_owned());
        let mut width = PcieWidth::default();
        for word in s.split_whitespace() {
            if word == "?" || word == "x?" {
                continue;
            } else if let Some(lanes) = word.strip_prefix('x') {
                let lanes: u8 = lanes.parse().map_err(|_| bad())?;
                if ![1, 2, 4, 8, 12, 16, 32].contains(&lanes) || width.lanes.is_some() {
                    return Err(bad());
                }
                width.lanes = Some(lanes);
            } else {
                let digits = word.trim_start_matches("gen").trim_start_matches("Gen").trim_end_matches(".0");
                let generation = digits.parse().ok().and_then(PcieGeneration::from_number);
                if generation.is_none() || width.generation.is_some() {
                    return Err(bad());
                }
                width.generation = generation;
            }
        }
        if s.trim().is_empty() { Err(bad()) } else { Ok(width) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_in_every_spelling() {
        let a: PciAddress = "00000000:C1:00.0".parse().unwrap();
        assert_eq!(a.to_string(), "0000:c1:00.0");
        assert_eq!("c1:00.0".parse(), Ok(a));
        assert_eq!("9FA3:00:00.0".parse::<PciAddress>().unwrap().to_string(), "9fa3:00:00.0");
        assert_eq!("0000:00:06".parse::<PciAddress>().unwrap().to_string(), "0000:00:06.0");
        for bad in ["fffffff:ffff:ff", "", "x", "00:20.9", "1:2:3:4.0", "FFFFFFFF:FF:FF.0"] {
            assert!(bad.parse::<PciAddress>().is_err(), "{bad}");
        }
    }

    #[test]
    fn widths_round_trip() {
        for text in ["3.0 x16", "5.0 x?", "x8", "?"] {
            assert_eq!(text.parse::<PcieWidth>().unwrap().to_string(), text);
        }
        assert_eq!("gen4 x8".parse::<PcieWidth>().unwrap().to_string(), "4.0 x8");
        for bad in ["", "x0", "x3", "9.0 x16", "3.0 3.0", "fast"] {
            assert!(bad.parse::<PcieWidth>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_rate_is_a_width_only_where_one_fits() {
        let limit = |text: &str| text.parse::<PcieWidth>().unwrap();
        let rate = Rate::from_gb(15.753846);
        assert_eq!(PcieWidth::from_raw_rate(rate, limit("3.0 x16")), Some(limit("3.0 x16")));
        assert_eq!(PcieWidth::from_raw_rate(rate, limit("4.0 x16")), None);
        assert_eq!(PcieWidth::from_raw_rate(rate, limit("?")), None);
    }

    #[test]
    fn raw_rates_are_the_textbook_ones() {
        let gen3 = PcieWidth::new(PcieGeneration::Gen3, 16).raw_rate().unwrap().gb();
        assert!((gen3 - 15.754).abs() < 1e-3);
        let gen2 = PcieWidth::new(PcieGeneration::Gen2, 8).raw_rate().unwrap().gb();
        assert!((gen2 - 4.0).abs() < 1e-12);
    }
}
