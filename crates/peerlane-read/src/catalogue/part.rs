//! Component models: a GPU, a switch chip, a CPU, a NIC or an inter-socket link, with constants that
//! each name their source.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::constant::Constant;
use peerlane_machine::fabric::{CpuVendor, NodeKind, PcieWidth};

/// What kind of component a part describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartKind {
    /// A GPU.
    Gpu,
    /// A network adapter.
    Nic,
    /// A drive.
    Nvme,
    /// An FPGA or a capture card.
    Fpga,
    /// A PCIe switch.
    Switch,
    /// An NVSwitch.
    #[serde(rename = "nvswitch")]
    NvSwitch,
    /// A CPU package with its root complexes and memory.
    Cpu,
    /// An inter-socket link.
    Smp,
    /// What parts of one design have in common: GPUs of an architecture. No machine has one.
    Family,
}

impl PartKind {
    /// The kind of part that a node of this kind is made of.
    pub fn of_node(kind: NodeKind) -> Option<Self> {
        [Self::Gpu, Self::Nic, Self::Nvme, Self::Fpga, Self::Switch, Self::NvSwitch, Self::Cpu]
            .into_iter()
            .find(|k| k.node_kind() == Some(kind))
    }

    /// The kind of node that is made of such a part; an inter-socket link is no node, nor is a family.
    pub fn node_kind(self) -> Option<NodeKind> {
        match self {
            Self::Gpu => Some(NodeKind::Gpu),
            Self::Nic => Some(NodeKind::Nic),
            Self::Nvme => Some(NodeKind::Nvme),
            Self::Fpga => Some(NodeKind::Fpga),
            Self::Switch => Some(NodeKind::Switch),
            Self::NvSwitch => Some(NodeKind::NvSwitch),
            Self::Cpu => Some(NodeKind::Cpu),
            Self::Smp | Self::Family => None,
        }
    }
}

/// Generations of Intel's CPUs, as far as NCCL's constants distinguish them; newer ones count as the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CpuGeneration {
    /// Broadwell and all before it: QPI.
    Broadwell,
    /// Skylake to Ice Lake.
    Skylake,
    /// Sapphire Rapids.
    SapphireRapids,
    /// Emerald Rapids and all after it.
    EmeraldRapids,
}

/// A component model.
#[derive(Clone, Debug, PartialEq, Deserialize)]
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
    /// Who makes a CPU. Every CPU of the catalogue names it.
    pub vendor: Option<CpuVendor>,
    /// The generation of a CPU, where constants go by it.
    pub generation: Option<CpuGeneration>,
    /// Key of a part or family whose width, lanes and constants hold where this one states none.
    pub extends: Option<String>,
    /// Words that must all occur in a product name for this part to be taken, any of the lists. `#` stands for a digit, `*` at the
    /// end for any rest: makers name the products of a generation by a scheme.
    #[serde(default)]
    pub matches: Vec<Vec<String>>,
    /// Words of which none may occur in it.
    #[serde(default)]
    pub excludes: Vec<String>,
    /// CPUID `vendor:family:model` of a CPU, in decimal: `GenuineIntel:6:143`.
    #[serde(default)]
    pub cpu_ids: Vec<String>,
    /// PCI `vendor:device` ids, lower-case hexadecimal.
    #[serde(default)]
    pub pci_ids: Vec<String>,
    /// The widest PCIe link it supports upstream.
    #[serde(default, deserialize_with = "pcie_width")]
    pub pcie: Option<PcieWidth>,
    /// PCIe lanes of a switch chip or CPU package in all.
    pub lanes: Option<u32>,
    /// Whether a hypervisor emulates it, so that the reported widths of its links mean nothing.
    #[serde(default)]
    pub emulated: bool,
    /// Whether it is a module of a board (SXM, OAM, a superchip), whose link to the board has all its lanes.
    #[serde(default)]
    pub module: bool,
    /// NVLink generation.
    pub nvlink_generation: Option<u8>,
    /// NVLink bricks (ports) it has.
    pub nvlink_bricks: Option<u8>,
    /// GB/s that the memory of a product moves, by words of its name, where a part stands for several products.
    #[serde(default)]
    pub memory_rates: BTreeMap<String, f64>,
    /// Constants of the model.
    #[serde(default)]
    pub constants: BTreeMap<String, Constant>,
}

fn pcie_width<'de, D: serde::Deserializer<'de>>(d: D) -> Result<Option<PcieWidth>, D::Error> {
    let text = String::deserialize(d)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

/// Whether a product's name is of the GeForce cards since Ampere, of which NVIDIA's driver gives none access to a peer over PCIe
/// (NCCL issues 1127 and 1309); those with NVLink have it over that.
pub fn without_peer_access(product: &str) -> bool {
    let product = product.to_lowercase();
    let words: Vec<&str> = product.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let card = words.windows(2).any(|w| match w {
        ["rtx", number] => {
            number.len() == 4
                && ["30", "40", "50"].iter().any(|start| number.starts_with(start))
                && number.ends_with('0')
                && !number.ends_with("000")
        }
        _ => false,
    });
    card && !words.contains(&"ada") && !words.contains(&"generation") && !words.contains(&"quadro")
}

impl Part {
    /// A constant's value, if the part has it.
    pub fn constant(&self, name: &str) -> Option<f64> {
        self.constants.get(name).map(|c| c.value)
    }

    /// Whether it is a GPU of one module with its CPU, which NVLink-C2C joins.
    pub fn is_on_cpu_module(&self) -> bool {
        const MODULES: [&str; 5] = ["gh200", "gb200", "gb300", "gb10", "vr200"];
        MODULES.iter().any(|module| self.name.starts_with(module))
    }

    /// NVLinks and their generation of a GPU that is a module for boards with NVLink, and not a card for bridges: such boards join
    /// all of them.
    pub fn module_nvlinks(&self) -> Option<(u32, u8)> {
        Some((u32::from(self.nvlink_bricks?), self.nvlink_generation?)).filter(|_| self.module)
    }

    /// GB/s that the memory of this product moves: that of the part, else that of the most words that the product's name has.
    pub fn memory_rate(&self, product: Option<&str>) -> Option<f64> {
        let of_product = || {
            let product = product?.to_lowercase();
            let words: Vec<&str> = words_of(&product).collect();
            let fitting = self.memory_rates.iter().filter(|(all, _)| all.split(' ').all(|word| words.contains(&word)));
            fitting.max_by_key(|(all, _)| all.split(' ').count()).map(|(_, rate)| *rate)
        };
        self.constant("memory_rate").or_else(of_product).filter(|rate| rate.is_finite() && *rate > 0.0)
    }

    /// How many words of a product name single this part out, and how many of these it names in full, which count where two parts have
    /// as many; `None` where the name means another.
    pub(super) fn matching_words(&self, product: &str) -> Option<(usize, usize)> {
        let product = product.to_lowercase();
        let words: Vec<&str> = words_of(&product).collect();
        let has = |pattern: &String| words.iter().any(|word| fits(pattern, word));
        if self.excludes.iter().any(has) {
            return None;
        }
        let named = |all: &Vec<String>| all.iter().filter(|word| !word.contains(['#', '*'])).count();
        let fitting = self.matches.iter().filter(|all| !all.is_empty() && all.iter().all(has));
        fitting.map(|all| (all.len(), named(all))).max()
    }
}

/// The words of a product's name.
fn words_of(product: &str) -> impl Iterator<Item = &str> {
    product.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// Whether a word is one that a pattern means: `#` is a digit, `*` at the end any rest.
pub(super) fn fits(pattern: &str, word: &str) -> bool {
    let (stem, open) = pattern.strip_suffix('*').map_or((pattern, false), |stem| (stem, true));
    let is_long_enough = if open { word.len() >= stem.len() } else { word.len() == stem.len() };
    is_long_enough && stem.bytes().zip(word.bytes()).all(|(p, b)| if p == b'#' { b.is_ascii_digit() } else { p == b })
}
