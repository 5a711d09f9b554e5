//! Path classes: the labels `nvidia-smi topo -m` prints for the way between two devices.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The class of a path between two devices, nearest first, as NVIDIA defines them.
///
/// Printed as `nvidia-smi topo -m` prints it today; the older `SOC` reads as [`PathClass::Sys`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(with = "String")]
pub enum PathClass {
    /// `X`: the device itself.
    Same,
    /// `NV#`: a bonded set of # NVLinks, directly or through NVSwitch.
    Nvlink(u8),
    /// `XGMI`: AMD's GPU-to-GPU links, of a count that `rocm-smi` does not print.
    Xgmi,
    /// `PIX`: at most a single PCIe bridge (one switch, or two functions of one card).
    Pix,
    /// `PXB`: several PCIe bridges, without a host bridge.
    Pxb,
    /// `PHB`: a PCIe host bridge, typically the CPU's.
    Phb,
    /// `NODE`: the interconnect between host bridges of one NUMA node.
    Node,
    /// `SYS`: the interconnect between NUMA nodes (QPI, UPI, xGMI …); `SOC` in old releases.
    Sys,
}

impl PathClass {
    /// Whether the class speaks of the PCIe hierarchy, which NVLink and xGMI hide.
    pub fn is_pcie(self) -> bool {
        matches!(self, Self::Pix | Self::Pxb | Self::Phb | Self::Node | Self::Sys)
    }

    /// What the class means, in a few words.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Same => "the device itself",
            Self::Nvlink(_) => "NVLink",
            Self::Xgmi => "xGMI between GPUs",
            Self::Pix => "one PCIe switch",
            Self::Pxb => "several PCIe switches, no host bridge",
            Self::Phb => "through a PCIe host bridge",
            Self::Node => "between host bridges of one NUMA node",
            Self::Sys => "between NUMA nodes",
        }
    }
}

impl fmt::Display for PathClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same => f.pad("X"),
            Self::Nvlink(n) => f.pad(&format!("NV{n}")),
            Self::Xgmi => f.pad("XGMI"),
            Self::Pix => f.pad("PIX"),
            Self::Pxb => f.pad("PXB"),
            Self::Phb => f.pad("PHB"),
            Self::Node => f.pad("NODE"),
            Self::Sys => f.pad("SYS"),
        }
    }
}

/// The text is no path class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no path class (X, NV#, PIX, PXB, PHB, NODE, SYS, SOC)")]
pub struct NoPathClass(String);

impl FromStr for PathClass {
    type Err = NoPathClass;

    fn from_str(s: &str) -> Result<Self, NoPathClass> {
        Ok(match s {
            "X" => Self::Same,
            "PIX" => Self::Pix,
            "PXB" => Self::Pxb,
            "PHB" => Self::Phb,
            "NODE" => Self::Node,
            "SYS" | "SOC" => Self::Sys,
            "XGMI" => Self::Xgmi,
            _ => match s.strip_prefix("NV").map(str::parse::<u8>) {
                Some(Ok(n)) if n > 0 => Self::Nvlink(n),
                _ => return Err(NoPathClass(s.to_owned())),
            },
        })
    }
}

impl Serialize for PathClass {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PathClass {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_and_new_names() {
        assert_eq!("SOC".parse(), Ok(PathClass::Sys));
        assert_eq!("NV18".parse(), Ok(PathClass::Nvlink(18)));
        assert!("NV".parse::<PathClass>().is_err());
        assert!("NV0".parse::<PathClass>().is_err());
        assert!("GPU0".parse::<PathClass>().is_err());
        assert_eq!(PathClass::Node.to_string(), "NODE");
    }
}
