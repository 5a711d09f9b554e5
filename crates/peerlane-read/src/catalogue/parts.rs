//! A set of parts by key: read, changed, and found by what machines and people call them.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::constant::Constant;
use super::part::{Part, PartKind, fits};
use super::spread::Spreads;
use peerlane_machine::fabric::NodeKind;

/// Why a part file is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("part {file}: {message}")]
pub struct PartError {
    /// Which file.
    pub file: String,
    /// What is wrong, and where.
    pub message: String,
}

fn parse(file: &str, text: &str) -> Result<Part, PartError> {
    toml::from_str(text).map_err(|e| PartError { file: file.to_owned(), message: e.to_string() })
}

/// A set of parts by key.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    by_name: BTreeMap<String, Part>,
    spreads: Spreads,
    end: End,
    ends: OnceLock<Box<[Parts; 2]>>,
}

/// Which end of its range each constant has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// None: its value.
    #[default]
    Value,
    /// The end that makes transfers slower.
    Slow,
    /// The end that makes them faster.
    Fast,
}

impl End {
    /// The one of three numbers, ordered by what they do to transfers.
    pub fn of(self, slow: f64, value: f64, fast: f64) -> f64 {
        match self {
            End::Value => value,
            End::Slow => slow,
            End::Fast => fast,
        }
    }
}

/// Whether more of a constant makes a transfer slower.
fn is_slower_when_greater(name: &str) -> bool {
    ["_latency", "_cost", "_packet"].iter().any(|end| name.ends_with(end))
}

impl Parts {
    /// The embedded parts.
    pub fn embedded() -> &'static Parts {
        static PARTS: OnceLock<Parts> = OnceLock::new();
        PARTS.get_or_init(|| {
            // tests read all of it; here nobody would read the error
            let parts = Parts::read(super::embedded::PARTS).unwrap_or_default();
            parts.with_spreads(toml::from_str(super::embedded::SPREADS).unwrap_or_default())
        })
    }

    /// Reads part files, `(name, text)`, in any order.
    pub fn read<'t>(files: impl IntoIterator<Item = &'t (&'t str, &'t str)>) -> Result<Parts, PartError> {
        let mut parts = Parts::default();
        let mut waiting: Vec<(&str, Part)> =
            files.into_iter().map(|(file, text)| Ok((*file, parse(file, text)?))).collect::<Result<_, _>>()?;
        while !waiting.is_empty() {
            let is_ready = |part: &Part| part.extends.as_ref().is_none_or(|key| parts.by_name.contains_key(key));
            let (ready, later): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|(_, part)| is_ready(part));
            // what waits for a part that never comes is inserted for its error
            let (ready, later) = if ready.is_empty() { (later, ready) } else { (ready, later) };
            for (file, part) in ready {
                parts.insert(file, part)?;
            }
            waiting = later;
        }
        Ok(parts)
    }

    /// The same parts with other spreads.
    pub fn with_spreads(self, spreads: Spreads) -> Parts {
        Parts { spreads, ends: OnceLock::new(), ..self }
    }

    /// How far measured numbers lie from predictions, by kind of transfer.
    pub fn spreads(&self) -> &Spreads {
        &self.spreads
    }

    /// Adds a part from its TOML text.
    pub fn add(&mut self, file: &str, text: &str) -> Result<(), PartError> {
        self.insert(file, parse(file, text)?)
    }

    /// Adds a part; `file` names it in errors.
    pub fn insert(&mut self, file: &str, mut part: Part) -> Result<(), PartError> {
        let refused = |message: String| PartError { file: file.to_owned(), message };
        if let Some(key) = &part.extends {
            let base = self.by_name.get(key).ok_or_else(|| refused(format!("it extends {key}, which no part is")))?;
            part.vendor = part.vendor.or(base.vendor);
            part.generation = part.generation.or(base.generation);
            part.pcie = part.pcie.or(base.pcie);
            part.lanes = part.lanes.or(base.lanes);
            let family = (base.kind == PartKind::Family).then(|| base.name.clone());
            for (name, constant) in &base.constants {
                let inherited = || Constant { family: constant.family.clone().or(family.clone()), ..constant.clone() };
                part.constants.entry(name.clone()).or_insert_with(inherited);
            }
        }
        if part.kind != PartKind::Cpu && (part.vendor.is_some() || part.generation.is_some()) {
            return Err(refused("`vendor` and `generation` belong to parts of kind = \"cpu\"".to_owned()));
        }
        self.by_name.insert(part.name.clone(), part);
        Ok(())
    }

    /// Gives a part a constant of its own; nothing where there is no such part.
    pub fn set_constant(&mut self, part: &str, name: &str, constant: Constant) {
        if let Some(part) = self.by_name.get_mut(part) {
            part.constants.insert(name.to_owned(), constant);
        }
        self.ends = OnceLock::new();
    }

    /// The same parts without what was taken from this system's numbers: such constants are what other sources give,
    /// or absent.
    pub fn leaving_out(&self, system: &str) -> Parts {
        let mut parts = Parts { ends: OnceLock::new(), ..self.clone() };
        for part in parts.by_name.values_mut() {
            part.constants.retain(|_, constant| {
                let fitted = constant.fitted_to.iter().any(|s| s == system);
                match constant.known_elsewhere() {
                    Some(other) if fitted => *constant = other,
                    None if fitted => return false,
                    _ => {}
                }
                true
            });
        }
        parts
    }

    /// The same parts with every constant at the slow end of its range.
    pub fn slow(&self) -> &Parts {
        &self.ends()[0]
    }

    /// The same parts with every constant at the fast end of its range.
    pub fn fast(&self) -> &Parts {
        &self.ends()[1]
    }

    /// Which end of their ranges the constants have.
    pub fn end(&self) -> End {
        self.end
    }

    fn ends(&self) -> &[Parts; 2] {
        self.ends.get_or_init(|| Box::new([End::Slow, End::Fast].map(|end| self.at(end))))
    }

    fn at(&self, end: End) -> Parts {
        let mut parts = Parts { end, ends: OnceLock::new(), ..self.clone() };
        for part in parts.by_name.values_mut() {
            for (name, constant) in &mut part.constants {
                let [low, high] = constant.range();
                let (slow, fast) = if is_slower_when_greater(name) { (high, low) } else { (low, high) };
                constant.value = end.of(slow, constant.value, fast);
            }
        }
        parts
    }

    /// Constants that were taken from this system's numbers, each with its name: `peer_rate of xeon-e5-v2`.
    pub fn fitted_to(&self, system: &str) -> impl Iterator<Item = (String, &Constant)> {
        let all = self.iter().flat_map(|p| p.constants.iter().map(move |(name, c)| (p, name, c)));
        let fitted = all.filter(move |(_, _, c)| c.family.is_none() && c.fitted_to.iter().any(|s| s == system));
        fitted.map(|(part, name, c)| (format!("{name} of {}", part.name), c))
    }

    /// A part by key.
    pub fn get(&self, name: &str) -> Option<&Part> {
        self.by_name.get(name)
    }

    /// The part that a person means: its key, or a product name that fits one part best: `RTX 4090`, `ConnectX-6 Dx`.
    pub fn meant(&self, name: &str) -> Option<&Part> {
        let by_key = || self.get(&name.trim().to_lowercase().replace([' ', '_'], "-"));
        let by_product = || {
            let fitting: Vec<_> = self.iter().filter_map(|p| Some((p.matching_words(name)?, p))).collect();
            let most = fitting.iter().map(|(words, _)| *words).max()?;
            let mut best = fitting.iter().filter(|(words, _)| *words == most);
            // two that fit alike are two answers
            best.next().filter(|_| best.next().is_none()).map(|(_, part)| *part)
        };
        // run together: RTX4090
        let by_letters = || {
            let plain = |text: &str| text.to_lowercase().chars().filter(|c| c.is_alphanumeric()).collect::<String>();
            let plain_pattern =
                |words: &[String]| words.concat().replace(|c: char| !c.is_alphanumeric() && !"#*".contains(c), "");
            let asked = plain(name);
            // a name in full before those of a scheme
            let one = |is_it: &dyn Fn(&str) -> bool| {
                let of =
                    |p: &&Part| plain(&p.name) == asked || p.matches.iter().any(|words| is_it(&plain_pattern(words)));
                let mut fitting = self.iter().filter(of);
                fitting.next().filter(|_| fitting.next().is_none())
            };
            one(&|pattern| pattern == asked).or_else(|| one(&|pattern| fits(pattern, &asked)))
        };
        self.get(name).or_else(by_key).or_else(by_product).or_else(by_letters)
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

    /// The part of that product of a node of this kind.
    pub fn of_node(&self, kind: NodeKind, product: Option<&str>) -> Option<&Part> {
        self.for_product(PartKind::of_node(kind)?, product?)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::embedded::PARTS;
    use peerlane_machine::fabric::CpuVendor;

    #[test]
    fn every_embedded_part_parses() {
        let parts = Parts::read(PARTS).unwrap_or_else(|e| panic!("{e}"));
        for (file, _) in PARTS {
            assert_eq!(parts.get(file).map(|p| p.name.as_str()), Some(*file), "key and file name differ");
        }
        assert_eq!(parts.iter().count(), PARTS.len());
        assert_eq!(Parts::embedded().iter().count(), PARTS.len());
    }

    #[test]
    fn parts_are_found_as_people_name_them() {
        let meant = |name: &str| Parts::embedded().meant(name).map(|p| p.name.as_str());
        for (name, key) in [
            ("rtx-4090", "rtx-4090"),
            ("RTX 4090", "rtx-4090"),
            ("NVIDIA GeForce RTX 4090", "rtx-4090"),
            ("Tesla P100-PCIE-16GB", "tesla-p100-pcie"),
            ("ConnectX-6 Dx", "connectx-6-dx"),
            ("H100_NVL", "h100-nvl"),
            ("RTX 4090 Laptop GPU", "geforce-40-laptop"),
        ] {
            assert_eq!(meant(name), Some(key), "{name}");
        }
        for name in ["", "GeForce", "abacus"] {
            assert_eq!(meant(name), None, "{name}");
        }
        for part in Parts::embedded().iter() {
            assert_eq!(meant(&part.name), Some(part.name.as_str()));
        }
    }

    #[test]
    fn every_constant_says_what_it_is_and_where_it_is_from() {
        for part in Parts::embedded().iter() {
            assert!(!part.source.is_empty() && !part.title.is_empty(), "{}", part.name);
            for (name, constant) in &part.constants {
                let units = ["GB/s", "Gb/s", "TFLOP/s", "GB", "B", "ns", "us", "1"];
                assert!(units.contains(&constant.unit.as_str()), "{} {name}: {}", part.name, constant.unit);
                assert!(constant.value.is_finite() && constant.value >= 0.0, "{} {name}", part.name);
                assert!(constant.source.len() > 10, "{} {name}", part.name);
                assert!(!name.ends_with("_efficiency") || constant.value <= 1.0, "{} {name}", part.name);
            }
        }
    }

    #[test]
    fn product_names_find_their_part() {
        let cases = [
            (PartKind::Gpu, "GeForce GTX 1070", Some("gtx-1070")),
            (PartKind::Gpu, "GeForce GTX 1070 Ti", Some("geforce-10")),
            (PartKind::Gpu, "GeForce GTX TITAN X", Some("titan-x-maxwell")),
            (PartKind::Gpu, "NVIDIA TITAN X (Pascal)", Some("nvidia-pascal")),
            (PartKind::Gpu, "Tesla P100-SXM2-16GB", Some("tesla-p100-sxm2")),
            (PartKind::Gpu, "GP100GL [Tesla P100 PCIe 16GB]", Some("tesla-p100-pcie")),
            (PartKind::Gpu, "Tesla V100-SXM2-32GB", Some("v100-sxm2")),
            (PartKind::Gpu, "NVIDIA A100-SXM4-80GB", Some("a100-sxm4")),
            (PartKind::Gpu, "NVIDIA A100-SXM4-40GB", Some("a100-sxm4-40gb")),
            (PartKind::Gpu, "NVIDIA A100 80GB PCIe", Some("a100-pcie")),
            (PartKind::Gpu, "NVIDIA A100-PCIE-40GB", Some("a100-pcie-40gb")),
            (PartKind::Gpu, "NVIDIA H100 80GB HBM3", Some("h100-sxm5")),
            (PartKind::Gpu, "NVIDIA H100 PCIe", Some("h100-pcie")),
            (PartKind::Gpu, "NVIDIA H200", Some("h200")),
            (PartKind::Gpu, "NVIDIA H200 NVL", Some("h200-nvl")),
            (PartKind::Gpu, "NVIDIA GB200", Some("gb200")),
            (PartKind::Gpu, "NVIDIA RTX 6000 Ada Generation", Some("rtx-6000-ada")),
            (PartKind::Gpu, "NVIDIA RTX PRO 6000 Blackwell Server Edition", Some("rtx-pro-6000")),
            (PartKind::Gpu, "Tesla T4", Some("tesla-t4")),
            (PartKind::Cpu, "Intel(R) Xeon(R) CPU E5-2630 v4 @ 2.20GHz", Some("xeon-e5-v4")),
            (PartKind::Cpu, "Intel(R) Xeon(R) CPU E5-2670 0 @ 2.60GHz", Some("xeon-e5-v1")),
            (PartKind::Cpu, "Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz", Some("xeon-scalable")),
            (PartKind::Cpu, "INTEL(R) XEON(R) PLATINUM 8568Y+", Some("emerald-rapids")),
            (PartKind::Cpu, "AMD EPYC 7742 64-Core Processor", Some("epyc-rome")),
            (PartKind::Cpu, "AMD EPYC 9575F 64-Core Processor", Some("epyc-turin")),
            (PartKind::Cpu, "AMD Ryzen Threadripper PRO 7965WX 24-Cores", Some("threadripper-pro-7000")),
            (PartKind::Cpu, "AMD Ryzen Threadripper PRO 5975WX 32-Cores", Some("threadripper-pro")),
            (PartKind::Cpu, "POWER8NVL, altivec supported", Some("power8")),
            (PartKind::Switch, "PEX 8747 48-Lane, 5-Port PCI Express Gen 3 (8.0 GT/s) Switch", Some("pex8747")),
            (PartKind::Switch, "Switchtec PFX 100xG5", Some("switchtec-gen5")),
            (PartKind::Nic, "MT28908 Family [ConnectX-6]", Some("connectx-6")),
            (PartKind::Nic, "MT2892 Family [ConnectX-6 Dx]", Some("connectx-6-dx")),
            (PartKind::Nic, "MT27710 Family [ConnectX-4 Lx]", Some("connectx-4-lx")),
            (PartKind::Nic, "MT27800 Family [ConnectX-5]", Some("connectx-5")),
            (PartKind::Nic, "MT28800 Family [ConnectX-5 Ex]", Some("connectx-5-ex")),
            (PartKind::Nic, "CX8 Family [ConnectX-8]", Some("connectx-8")),
            (PartKind::Nic, "MT43244 BlueField-3 integrated ConnectX-7 network controller", Some("bluefield-3")),
            (PartKind::Nic, "MT42822 BlueField-2 integrated ConnectX-6 Dx network controller", Some("bluefield-2")),
            (PartKind::Nic, "Ethernet Controller E810-C for QSFP", Some("e810-c")),
            (PartKind::Gpu, "NVIDIA A10", Some("a10")),
            (PartKind::Gpu, "NVIDIA A10G", Some("a10g")),
            (PartKind::Gpu, "NVIDIA A30", Some("a30")),
            (PartKind::Gpu, "NVIDIA A40", Some("a40")),
            (PartKind::Gpu, "NVIDIA L4", Some("l4")),
            (PartKind::Gpu, "NVIDIA L40", Some("l40")),
            (PartKind::Gpu, "NVIDIA L40S", Some("l40s")),
            (PartKind::Gpu, "NVIDIA T400 4GB", Some("t-series")),
            (PartKind::Gpu, "NVIDIA T4000", None),
            (PartKind::Gpu, "NVIDIA RTX A6000", Some("rtx-a6000")),
            (PartKind::Gpu, "Quadro RTX 6000", Some("quadro-rtx-8000")),
            (PartKind::Gpu, "NVIDIA TITAN RTX", Some("titan-rtx")),
            (PartKind::Gpu, "NVIDIA TITAN V", Some("titan-v")),
            (PartKind::Gpu, "NVIDIA RTX A5000", Some("rtx-a5000")),
            (PartKind::Gpu, "NVIDIA RTX 5000 Ada Generation", Some("rtx-5000-ada")),
            (PartKind::Gpu, "NVIDIA GeForce RTX 3080", Some("rtx-3080")),
            (PartKind::Gpu, "NVIDIA GeForce RTX 3080 Ti", Some("geforce-30-x16")),
            (PartKind::Gpu, "NVIDIA GeForce RTX 5080", Some("rtx-5080")),
            (PartKind::Gpu, "NVIDIA A800-SXM4-80GB", Some("a800-sxm4")),
            (PartKind::Gpu, "NVIDIA A800 80GB PCIe", Some("a800-pcie")),
            (PartKind::Gpu, "NVIDIA L20", Some("l20")),
            (PartKind::Gpu, "NVIDIA GeForce RTX 4090 D", Some("geforce-40-x16")),
            (PartKind::Gpu, "NVIDIA GeForce RTX 3090 Ti", Some("rtx-3090-ti")),
            (PartKind::Gpu, "Tesla P100-PCIE-12GB", Some("nvidia-pascal")),
            (PartKind::Gpu, "Tesla V100S-PCIE-32GB", Some("v100s-pcie")),
            (PartKind::Gpu, "Tesla K80", Some("tesla-k80")),
            (PartKind::Gpu, "NVIDIA H100 NVL", Some("h100-nvl")),
            (PartKind::Gpu, "NVIDIA H20", Some("h20")),
            (PartKind::Gpu, "NVIDIA GH200 480GB", Some("gh200-480gb")),
            (PartKind::Gpu, "NVIDIA GH200 144G HBM3e", Some("gh200-144gb")),
            (PartKind::Gpu, "NVIDIA B300 SXM6 AC", Some("b300")),
            (PartKind::Gpu, "Aldebaran/MI200 [Instinct MI250X/MI250]", Some("mi250")),
            (PartKind::Gpu, "AMD Instinct MI300X", Some("mi300x")),
            (PartKind::Cpu, "Intel(R) Xeon(R) 6960P", Some("granite-rapids")),
            (PartKind::Gpu, "NVIDIA GeForce GTS 450", Some("nvidia-fermi")),
            (PartKind::Gpu, "GF106 [GeForce GTS 450]", Some("nvidia-fermi")),
            (PartKind::Gpu, "GeForce GT 330M", Some("nvidia-gt200")),
            (PartKind::Gpu, "NVIDIA GeForce RTX 3050", Some("geforce-30-x8")),
            (PartKind::Gpu, "Quadro RTX 4000 Mobile / Max-Q", Some("nvidia-turing")),
            (PartKind::Gpu, "NVIDIA RTX PRO 4000 Blackwell Generation Laptop GPU", Some("nvidia-blackwell")),
            (PartKind::Gpu, "NVIDIA H100", Some("nvidia-hopper")),
            (PartKind::Gpu, "Tahiti XT [Radeon HD 7970]", Some("radeon-gcn-cards")),
            (PartKind::Gpu, "Cypress", Some("radeon-terascale")),
            (PartKind::Gpu, "NVIDIA CMP 170HX", Some("nvidia-mining")),
        ];
        for (kind, product, key) in cases {
            let found = Parts::embedded().for_product(kind, product).map(|p| p.name.as_str());
            assert_eq!(found, key, "{product}");
            let words = |p: &Part| p.matching_words(product).filter(|_| p.kind == kind);
            let most = Parts::embedded().iter().filter_map(words).max();
            let equals = Parts::embedded().iter().filter(|p| most.is_some() && words(p) == most).count();
            assert!(equals <= 1, "{product} means {equals} parts equally well");
        }
    }

    #[test]
    fn ids_find_their_part() {
        let parts = Parts::embedded();
        let cpu = |vendor, family, model| parts.for_cpu_id(vendor, family, model).map(|p| p.name.as_str());
        assert_eq!(cpu("GenuineIntel", 6, 207), Some("emerald-rapids"));
        assert_eq!(cpu("AuthenticAMD", 143, 49), Some("epyc-rome"), "as NCCL counts families");
        assert_eq!(cpu("AuthenticAMD", 23, 49), Some("epyc-rome"), "as AMD counts them");
        assert_eq!(cpu("AuthenticAMD", 175, 17), Some("epyc-genoa"));
        assert_eq!(parts.for_pci_id(0x10de, 0x2335).map(|p| p.name.as_str()), Some("h200"));
        let mut known = std::collections::BTreeMap::new();
        for part in parts.iter() {
            for id in part.pci_ids.iter().chain(&part.cpu_ids) {
                assert_eq!(known.insert(id, &part.name), None, "{id} means two parts");
            }
        }
    }

    #[test]
    fn every_cpu_names_its_vendor_and_nothing_else_does() {
        for part in Parts::embedded().iter() {
            assert_eq!(part.vendor.is_some(), part.kind == PartKind::Cpu, "{}", part.name);
            assert_eq!(part.generation.is_some(), part.vendor == Some(CpuVendor::Intel), "{}", part.name);
        }
        let part = |kind, vendor| {
            let text =
                format!("name = \"x\"\ntitle = \"t\"\nkind = \"{kind}\"\nsource = \"s\"\nvendor = \"{vendor}\"\n");
            Parts::default().add("x.toml", &text).map_err(|e| e.to_string())
        };
        assert_eq!(part("cpu", "amd"), Ok(()));
        let error = part("cpu", "intle").unwrap_err();
        assert!(error.contains("line 5") && error.contains("intle") && error.contains("`intel`, `amd`"), "{error}");
        let error = part("gpu", "nvidia").unwrap_err();
        assert_eq!(error, "part x.toml: `vendor` and `generation` belong to parts of kind = \"cpu\"");
    }

    #[test]
    fn a_part_extends_one_that_is_there() {
        let constant =
            |value| format!("value = {value}\nunit = \"GB/s\"\nbasis = \"assumed\"\nsource = \"a test of parts\"");
        let head = |name| format!("name = \"{name}\"\ntitle = \"t\"\nkind = \"cpu\"\nsource = \"s\"\n");
        let base = format!("{}lanes = 80\n[constants.a]\n{}\n[constants.b]\n{}", head("x"), constant(1), constant(2));
        let more = format!("{}extends = \"x\"\n[constants.b]\n{}", head("y"), constant(3));
        let mut parts = Parts::default();
        let error = parts.add("y", &more).unwrap_err().to_string();
        assert_eq!(error, "part y: it extends x, which no part is");
        parts.add("x", &base).unwrap();
        parts.add("y", &more).unwrap();
        let y = parts.get("y").unwrap();
        assert_eq!((y.lanes, y.constant("a"), y.constant("b")), (Some(80), Some(1.0), Some(3.0)));
    }

    #[test]
    fn nonsense_is_refused_with_the_files_name() {
        let error = Parts::default().add("x.toml", "name = 3").unwrap_err().to_string();
        assert!(error.starts_with("part x.toml: ") && error.contains("line 1"), "{error}");
        let typo = PARTS[0].1.replace("title", "titel");
        assert!(Parts::default().add("x.toml", &typo).unwrap_err().to_string().contains("titel"));
    }
}
