//! Path classes: the labels `nvidia-smi topo -m` prints for the path between two devices.

use std::fmt;
use std::str::FromStr;

use crate::schema::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::interconnect::{FAMILIES, Family, Interconnect, Label};

/// The class of a path between two devices, nearest first, as NVIDIA defines them.
///
/// Printed as `nvidia-smi topo -m` prints it today; the older `SOC` reads as [`PathClass::Sys`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, JsonSchema)]
#[schemars(with = "String")]
pub enum PathClass {
    /// `X`: the device itself.
    Same,
    /// GPUs' own links, so many of them (0 where their number is not known), directly or through a switch of theirs: `NV#`, a bonded
    /// set of # NVLinks; `XGMI`, of a count that `rocm-smi` does not print.
    Gpu(Interconnect, u8),
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
    /// `XGMI`.
    pub const XGMI: Self = Self::Gpu(Interconnect::Xgmi, 0);

    /// `NV#`.
    pub const fn nvlink(bricks: u8) -> Self {
        Self::Gpu(Interconnect::Nvlink, bricks)
    }

    /// Whether it is `NV#`.
    pub fn is_nvlink(self) -> bool {
        matches!(self, Self::Gpu(Interconnect::Nvlink, _))
    }

    /// Whether the path is GPUs' own links, which hide the PCIe hierarchy.
    pub fn is_gpu_link(self) -> bool {
        matches!(self, Self::Gpu(..))
    }

    /// Whether the class describes the PCIe hierarchy, which NVLink and xGMI hide.
    pub fn is_pcie(self) -> bool {
        matches!(self, Self::Pix | Self::Pxb | Self::Phb | Self::Node | Self::Sys)
    }

    /// What the class means, in a few words.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Same => "the device itself",
            Self::Gpu(Interconnect::Xgmi, _) => "xGMI between GPUs",
            Self::Gpu(interconnect, _) => interconnect.family().title,
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
            Self::Gpu(interconnect, n) => match interconnect.family().label {
                Label::Counted(label) if *n == 0 => f.pad(&format!("{label}?")),
                Label::Counted(label) => f.pad(&format!("{label}{n}")),
                Label::Plain(label) | Label::Drawn(label) => f.pad(label),
            },
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
            _ => FAMILIES.iter().find_map(|family| of_family(family, s)).ok_or_else(|| NoPathClass(s.to_owned()))?,
        })
    }
}

fn of_family(family: &Family, s: &str) -> Option<PathClass> {
    let links = match family.label {
        Label::Counted(label) => match s.strip_prefix(label)? {
            "?" => 0,
            count => count.parse().ok().filter(|n| *n > 0)?,
        },
        Label::Plain(label) => (s == label).then_some(0)?,
        Label::Drawn(_) => return None,
    };
    Some(PathClass::Gpu(family.interconnect, links))
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
        assert_eq!("NV18".parse(), Ok(PathClass::nvlink(18)));
        assert!("NV".parse::<PathClass>().is_err());
        assert!("NV0".parse::<PathClass>().is_err());
        assert!("GPU0".parse::<PathClass>().is_err());
        assert_eq!(PathClass::Node.to_string(), "NODE");
    }
}
