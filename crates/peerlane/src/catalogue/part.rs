//! Component models: a GPU, a switch chip, a CPU, a NIC or an inter-socket link, with constants that
//! each name their source.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fabric::{NodeKind, PcieWidth};

/// What kind of component a part describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PartKind {
    /// A GPU.
    Gpu,
    /// A network adapter.
    Nic,
    /// A PCIe switch.
    Switch,
    /// An NVSwitch.
    #[serde(rename = "nvswitch")]
    NvSwitch,
    /// A CPU package with its root complexes and memory.
    Cpu,
    /// An inter-socket link.
    Smp,
}

impl PartKind {
    /// The kind of node that is made of such a part; an inter-socket link is no node.
    pub fn node_kind(self) -> Option<NodeKind> {
        match self {
            Self::Gpu => Some(NodeKind::Gpu),
            Self::Nic => Some(NodeKind::Nic),
            Self::Switch => Some(NodeKind::Switch),
            Self::NvSwitch => Some(NodeKind::NvSwitch),
            Self::Cpu => Some(NodeKind::Cpu),
            Self::Smp => None,
        }
    }
}

/// How a constant is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// A vendor's document.
    Datasheet,
    /// Follows from equations and other constants.
    Derived,
    /// Chosen so that the model meets a published or measured number.
    Fitted,
    /// Measured by this project.
    Measured,
    /// Taken for lack of better.
    Assumed,
}

/// A number with its unit and source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Constant {
    /// The number.
    pub value: f64,
    /// Its unit: `GB/s`, `B`, `ns`, `us`, `lanes`, `1` for a ratio.
    pub unit: String,
    /// How it is known.
    pub basis: Basis,
    /// Where it is from.
    pub source: String,
}

/// A component model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Key: `pex8747`, `titan-x-maxwell`.
    pub name: String,
    /// What it is, in a line.
    pub title: String,
    /// Its kind.
    pub kind: PartKind,
    /// Where its facts are from.
    pub source: String,
    /// Words that must all occur in a product name for this part to be taken, any of the lists.
    #[serde(default)]
    pub matches: Vec<Vec<String>>,
    /// Words of which none may occur in it.
    #[serde(default)]
    pub excludes: Vec<String>,
    /// CPUID `vendor:family:model` of a CPU, in decimal: `GenuineIntel:6:143`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cpu_ids: Vec<String>,
    /// PCI `vendor:device` ids, lower-case hexadecimal.
    #[serde(default)]
    pub pci_ids: Vec<String>,
    /// The widest PCIe link it supports upstream.
    #[serde(
        default,
        deserialize_with = "pcie_width",
        serialize_with = "write_pcie_width",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(with = "Option<String>")]
    pub pcie: Option<PcieWidth>,
    /// PCIe lanes of a switch chip or CPU package in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lanes: Option<u32>,
    /// NVLink generation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvlink_generation: Option<u8>,
    /// NVLink bricks (ports) it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvlink_bricks: Option<u8>,
    /// Constants of the model.
    #[serde(default)]
    pub constants: BTreeMap<String, Constant>,
}

fn pcie_width<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<PcieWidth>, D::Error> {
    let text = String::deserialize(d)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

fn write_pcie_width<S: serde::Serializer>(width: &Option<PcieWidth>, s: S) -> Result<S::Ok, S::Error> {
    match width {
        Some(width) => s.collect_str(width),
        None => s.serialize_none(),
    }
}

impl Part {
    /// A constant's value, if the part has it.
    pub fn constant(&self, name: &str) -> Option<f64> {
        self.constants.get(name).map(|c| c.value)
    }

    /// Whether a product name as machines print it means this part.
    pub fn matches_product(&self, product: &str) -> bool {
        self.matching_words(product).is_some()
    }

    /// How many words of a product name single this part out; `None` where the name means another.
    fn matching_words(&self, product: &str) -> Option<usize> {
        let product = product.to_lowercase();
        let words: Vec<&str> = product.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).collect();
        let has = |word: &String| words.contains(&word.as_str());
        if self.excludes.iter().any(has) {
            return None;
        }
        self.matches.iter().filter(|all| !all.is_empty() && all.iter().all(has)).map(Vec::len).max()
    }
}

/// Why a part file is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("part {file}: {message}")]
pub struct PartError {
    /// Which file.
    pub file: String,
    /// What is wrong, and where.
    pub message: String,
}

/// A set of parts by key.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    by_name: BTreeMap<String, Part>,
}

impl Parts {
    /// The embedded parts.
    pub fn embedded() -> &'static Parts {
        static PARTS: std::sync::OnceLock<Parts> = std::sync::OnceLock::new();
        PARTS.get_or_init(|| {
            let mut parts = Parts::default();
            for (file, text) in super::embedded::PARTS {
                // a test reads every one; here there is nobody to tell
                let _ = parts.add(file, text);
            }
            parts
        })
    }

    /// Adds a part from its TOML text.
    pub fn add(&mut self, file: &str, text: &str) -> Result<(), PartError> {
        let part: Part =
            toml::from_str(text).map_err(|e| PartError { file: file.to_owned(), message: e.to_string() })?;
        self.by_name.insert(part.name.clone(), part);
        Ok(())
    }

    /// A part by key.
    pub fn get(&self, name: &str) -> Option<&Part> {
        self.by_name.get(name)
    }

    /// All parts, by key.
    pub fn iter(&self) -> impl Iterator<Item = &Part> {
        self.by_name.values()
    }

    /// The part of that kind that a product name means; the one with the most matching words wins.
    pub fn for_product(&self, kind: PartKind, product: &str) -> Option<&Part> {
        let fitting = self.iter().filter(|p| p.kind == kind);
        let ranked = fitting.filter_map(|p| p.matching_words(product).map(|words| (words, p)));
        ranked.max_by_key(|(words, _)| *words).map(|(_, p)| p)
    }

    /// The CPU part of that CPUID vendor, family and model.
    ///
    /// AMD families are understood both as AMD counts them (23) and as NCCL does (143), which shifts
    /// the extended family by four bits before it adds it.
    pub fn for_cpu_id(&self, vendor: &str, family: u32, model: u32) -> Option<&Part> {
        // the base family is 15 wherever there is an extended one
        let family = if family > 15 && (family - 15).is_multiple_of(16) { 15 + (family - 15) / 16 } else { family };
        let id = format!("{vendor}:{family}:{model}");
        self.iter().find(|p| p.cpu_ids.contains(&id))
    }

    /// The part with that PCI id.
    pub fn for_pci_id(&self, vendor: u16, device: u16) -> Option<&Part> {
        let id = format!("{vendor:04x}:{device:04x}");
        self.iter().find(|p| p.pci_ids.contains(&id))
    }
}
