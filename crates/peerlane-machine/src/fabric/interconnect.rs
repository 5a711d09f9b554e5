//! GPUs' own interconnects as data: the one table of NVLink, xGMI, NVLink-C2C and their kin, by generation.
//!
//! A new interconnect is a variant of [`Interconnect`] and a row of [`FAMILIES`]; a new generation is a row of its family. Files,
//! edits, the model, exports and drawings ask this table. PCIe's generations are [`super::PcieGeneration`]; links between CPU
//! packages are parts of the catalogue (`kind = "smp"`).

use std::fmt;

use crate::units::Rate;

/// A family of links that join GPUs with each other, with switches of their own, or with a CPU, apart from PCIe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Interconnect {
    /// NVIDIA's NVLink.
    Nvlink,
    /// AMD's xGMI, or Infinity Fabric link.
    Xgmi,
    /// NVLink-C2C between a CPU and a GPU of one module.
    C2c,
    /// UALink between accelerators, directly or through its switches.
    Ualink,
    /// Another maker's own link, of which no rate is known here.
    Other,
}

/// What is known of a family.
#[derive(Debug)]
pub struct Family {
    /// Which.
    pub interconnect: Interconnect,
    /// Name in system files, edits and JSON: `nvlink`. Constants of parts begin with it.
    pub key: &'static str,
    /// Name as people write it: `NVLink`.
    pub title: &'static str,
    /// How class matrices and drawings label such a link.
    pub label: Label,
    /// What one link of a bundle is called.
    pub link: &'static str,
    /// An edit that makes such a link.
    pub example: &'static str,
    /// Bytes of a request, per byte of a kernel's read that it requests.
    pub request: f64,
    /// What is taken where the generation is not known, if anything can be.
    pub usual: Option<Generation>,
    /// Its generations, oldest first.
    pub generations: &'static [Generation],
}

/// How a link is labelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// With the number of links behind: `NV18`.
    Counted(&'static str),
    /// In class matrices without the number: `XGMI`.
    Plain(&'static str),
    /// In drawings alone: no class matrix has a label for it, and its ends are no columns of one.
    Drawn(&'static str),
}

/// One generation. Rates are GB/s a direction; three numbers are the slow end, the value and the fast end of a range.
#[derive(Debug)]
pub struct Generation {
    /// Its number in files: 4.
    pub number: u8,
    /// Its name behind the family's: `4`. Empty where nobody numbers it.
    pub name: &'static str,
    /// Raw rate of one link before any loss, where it is published.
    pub link_rate: Option<[f64; 3]>,
    /// Raw rate of all links of one device, where only that is published.
    pub device_rate: Option<[f64; 3]>,
    /// Rates of one link by which tools' output identifies this generation, where that is not the raw rate.
    pub printed: &'static [f64],
    /// The highest rate that tools print of one link, where that is above the raw rate.
    pub highest: Option<f64>,
    /// Share of the raw rate that copy engines get as payload.
    pub copies: [f64; 3],
    /// Share of it that kernels get.
    pub kernels: [f64; 3],
    /// What both directions at once leave of twice one direction.
    pub both_ways: f64,
    /// What goes from a GPU to a CPU gets of that share.
    pub toward_cpu: [f64; 3],
    /// Where these are from.
    pub source: &'static str,
}

/// How far the share that copies get of an NVLink may be from its value, as a share of it.
const NVLINK_RANGE: f64 = 0.08;

const fn ranged(share: f64) -> [f64; 3] {
    let fast = share * (1.0 + NVLINK_RANGE);
    [share * (1.0 - NVLINK_RANGE), share, if fast > 1.0 { 1.0 } else { fast }]
}

const fn exact(value: f64) -> [f64; 3] {
    [value; 3]
}

/// A generation of NVLink: the vendor's rate of a brick, then measured shares of it for copies, for kernels, and of both
/// directions at once.
const fn nvlink(
    number: u8,
    name: &'static str,
    [brick, copies, kernels, both_ways]: [f64; 4],
    source: &'static str,
) -> Generation {
    Generation { kernels: ranged(kernels), both_ways, ..plain(number, name, exact(brick), ranged(copies), source) }
}

/// A generation of which no losses are known beyond a share of each direction.
const fn plain(
    number: u8,
    name: &'static str,
    link_rate: [f64; 3],
    share: [f64; 3],
    source: &'static str,
) -> Generation {
    Generation {
        number,
        name,
        link_rate: Some(link_rate),
        device_rate: None,
        printed: &[],
        highest: None,
        copies: share,
        kernels: share,
        both_ways: 1.0,
        toward_cpu: exact(1.0),
        source,
    }
}

/// Share of xGMI that protocol and error correction leave: 48 of 64 GB/s by AMD (ROCm/rccl, issue 1210), of which MI300X reach
/// 47.5 to 49.0 (TransferBench in AMD's guide to them); MI100 get 70 of 92 both ways (ROCm/legacy-rocm-build, issue 2499).
const XGMI_SHARE: [f64; 3] = [0.7, 0.755, 0.82];

/// A lane carries 200 Gb/s of data a direction; it signals at 212.5 GT/s for forward error correction and encoding. A station has four
/// lanes, 100 GB/s, and links are x1, x2 or x4 of one. Nothing of it was measured yet.
const UALINK_200G: Generation = plain(
    1,
    "200G",
    exact(25.0),
    [0.7, 0.93, 0.95],
    "UALink 200G 1.0 specification (April 2025): 200 Gb/s a lane and direction; 93 % effective peak bandwidth by the consortium",
);

/// The table.
pub const FAMILIES: [Family; 5] = [
    Family {
        interconnect: Interconnect::Nvlink,
        key: "nvlink",
        title: "NVLink",
        label: Label::Counted("NV"),
        link: "brick",
        example: "nvlink 2",
        // one flit for each line
        request: 16.0 / 128.0,
        usual: None,
        generations: &[
            nvlink(
                1,
                "1",
                [20.0, 0.8825, 0.8825, 1.0],
                "NVLink 1 brick 20 GB/s; 35.3 of 40 GB/s on P100 (Microway, 2016)",
            ),
            Generation {
                printed: &[25.781],
                highest: Some(25.781),
                ..nvlink(2, "2", [25.0, 0.958, 0.9, 0.98], "NVLink 2 brick 25 GB/s; 47.9 of 50 GB/s on V100 (Dell)")
            },
            Generation {
                printed: &[25.0],
                highest: Some(25.781),
                ..nvlink(
                    3,
                    "3",
                    [25.0, 0.921, 0.87, 0.96],
                    "NVLink 3 brick 25 GB/s; 276.3 of 300 GB/s on A100 (nvbandwidth's README)",
                )
            },
            nvlink(
                4,
                "4",
                [26.5625, 0.8285, 0.774, 0.989],
                "NVLink 4 brick 26.56 GB/s; 396 of 478 GB/s measured on H200",
            ),
            Generation {
                printed: &[53.125, 50.0],
                ..nvlink(5, "5", [53.125, 0.8, 0.755, 0.98], "NVLink 5 brick 53.1 GB/s; share as of NVLink 4")
            },
            Generation {
                link_rate: None,
                device_rate: Some([1500.0, 1800.0, 1800.0]),
                ..nvlink(
                    6,
                    "6",
                    [0.0, 0.8, 0.755, 0.98],
                    "NVLink 6: 1,800 GB/s a direction and GPU (NVIDIA: 3.6 TB/s both ways; a product page says 1,500), the number of links \
                     unpublished; share as of NVLink 5",
                )
            },
        ],
    },
    Family {
        interconnect: Interconnect::Xgmi,
        key: "xgmi",
        title: "xGMI",
        label: Label::Plain("XGMI"),
        link: "link",
        example: "xgmi 1",
        request: 0.0,
        usual: Some(plain(
            0,
            "",
            [46.0, 50.0, 64.0],
            XGMI_SHARE,
            "50 GB/s a link and direction (AMD CDNA 2 whitepaper: 100 both ways), 46 before and 64 after, of which 0.755 is payload",
        )),
        generations: &[
            plain(2, "2", exact(46.0), XGMI_SHARE, "46 GB/s a link and direction: 92 both ways (AMD, MI50 to MI100)"),
            plain(
                3,
                "3",
                exact(50.0),
                XGMI_SHARE,
                "50 GB/s a link and direction: 100 both ways (AMD CDNA 2 whitepaper)",
            ),
            plain(
                4,
                "4",
                exact(64.0),
                XGMI_SHARE,
                "64 GB/s a link and direction: 128 both ways (AMD CDNA 3 whitepaper)",
            ),
        ],
    },
    Family {
        interconnect: Interconnect::C2c,
        key: "c2c",
        title: "NVLink-C2C",
        label: Label::Drawn("C2C"),
        link: "link",
        example: "c2c 450",
        request: 0.0,
        usual: Some(Generation {
            kernels: [0.72, 0.76, 0.93],
            both_ways: 0.485,
            toward_cpu: [0.8, 0.867, 0.9],
            ..plain(
                0,
                "",
                exact(450.0),
                [0.74, 0.75, 0.84],
                "450 GB/s a direction by the vendor (NVIDIA Grace Hopper Superchip whitepaper: 900 in all); copies from host memory \
                 335 to 346, to it 273 to 300, 160 each at once; kernels 342 (GH200: microsoft/superbenchmark, nvbandwidth; \
                 NVIDIA/nvbandwidth, issues 23 and 41)",
            )
        }),
        generations: &[],
    },
    Family {
        interconnect: Interconnect::Ualink,
        key: "ualink",
        title: "UALink",
        // no tool labels it yet
        label: Label::Counted("UAL"),
        link: "lane",
        example: "ualink 4",
        request: 0.0,
        usual: Some(UALINK_200G),
        generations: &[UALINK_200G],
    },
    Family {
        interconnect: Interconnect::Other,
        key: "link",
        title: "the maker's own link",
        label: Label::Counted("LINK"),
        link: "link",
        example: "link 4",
        request: 0.0,
        usual: None,
        generations: &[],
    },
];

impl Interconnect {
    /// What is known of the family.
    pub fn family(self) -> &'static Family {
        &FAMILIES[self as usize]
    }

    /// The family that a system file or an edit calls so, in any case.
    pub fn by_key(key: &str) -> Option<Self> {
        FAMILIES.iter().find(|family| family.key.eq_ignore_ascii_case(key)).map(|family| family.interconnect)
    }

    /// What is known of a generation; of an unknown one, what is usual.
    pub fn generation(self, number: Option<u8>) -> Option<&'static Generation> {
        let family = self.family();
        match number {
            Some(number) => family.generations.iter().find(|g| g.number == number),
            None => family.usual.as_ref(),
        }
    }

    /// The generation whose links tools print with this rate.
    pub fn generation_of_rate(self, rate: Rate) -> Option<u8> {
        let alike = |gb: f64| (rate.gb() - gb).abs() < 0.2;
        let generations = || self.family().generations.iter();
        let of_link = |g: &&Generation| g.link_rate.is_some_and(|[_, gb, _]| alike(gb));
        let printed = generations().find(|g| g.printed.iter().any(|gb| alike(*gb)));
        printed.or_else(|| generations().find(of_link)).map(|g| g.number)
    }

    /// Whether one bundle is all there is of it between two nodes, so that nobody counts its links.
    pub fn is_single(self) -> bool {
        matches!(self.family().label, Label::Drawn(_))
    }
}

impl Generation {
    /// The highest rate that tools print of one link.
    pub fn highest_rate(&self) -> Option<f64> {
        self.highest.or(self.link_rate.map(|[_, value, _]| value))
    }
}

/// A bundle of links of one interconnect between two nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GpuLink {
    /// Of which family.
    pub interconnect: Interconnect,
    /// Of which generation, if known.
    pub generation: Option<u8>,
    /// How many links, if known; never 0.
    pub links: Option<u8>,
    /// Rate of the whole bundle in one direction, where a source gives it.
    pub rate: Option<Rate>,
}

impl GpuLink {
    /// A bundle of which nothing else is known.
    pub fn new(interconnect: Interconnect) -> Self {
        GpuLink { interconnect, generation: None, links: None, rate: None }
    }

    /// So many bricks of NVLink.
    pub fn nvlink(generation: Option<u8>, bricks: u8) -> Self {
        GpuLink { generation, links: Some(bricks), ..Self::new(Interconnect::Nvlink) }
    }

    /// So many links of xGMI.
    pub fn xgmi(links: Option<u8>) -> Self {
        GpuLink { links, ..Self::new(Interconnect::Xgmi) }
    }

    /// NVLink-C2C of that rate.
    pub fn c2c(rate: Option<Rate>) -> Self {
        GpuLink { rate, ..Self::new(Interconnect::C2c) }
    }

    /// Reads how a file or an edit describes a bundle: links (`2`), generation and links (`4 x18`), a generation (`gen6`), a rate
    /// (`900 GB/s`; of a family whose links nobody counts, `900`).
    pub fn parse(interconnect: Interconnect, text: &str) -> Result<Self, NoGpuLink> {
        let refused = || NoGpuLink { text: text.to_owned(), interconnect };
        let mut link = Self::new(interconnect);
        let mut words = text.split_whitespace().peekable();
        let positive = |number: &str| number.parse::<u8>().ok().filter(|n| *n > 0);
        let rate =
            |number: &str| number.parse::<f64>().ok().filter(|gb| gb.is_finite() && *gb > 0.0).map(Rate::from_gb);
        while let Some(word) = words.next() {
            if let Some(count) = word.strip_prefix('x') {
                let count = positive(count).filter(|_| link.links.is_none()).ok_or_else(refused)?;
                link.links = Some(count);
            } else if words.next_if(|unit| *unit == "GB/s").is_some() {
                link.rate = Some(rate(word).filter(|_| link.rate.is_none()).ok_or_else(refused)?);
            } else if let Some(found) = interconnect.named(word, words.peek().is_some()) {
                link.generation = Some(found).filter(|_| link.generation.is_none());
                link.generation.ok_or_else(refused)?;
            } else if interconnect.is_single() {
                link.rate = Some(rate(word).filter(|_| link.rate.is_none()).ok_or_else(refused)?);
            } else {
                link.links = Some(positive(word).filter(|_| link.links.is_none()).ok_or_else(refused)?);
            }
        }
        if link == Self::new(interconnect) && !interconnect.is_single() { Err(refused()) } else { Ok(link) }
    }

    /// How a file writes it: what [`GpuLink::parse`] reads.
    pub fn written(&self) -> String {
        let mut words = Vec::new();
        let generation = self.generation.and_then(|g| self.interconnect.generation(Some(g)));
        words.extend(
            generation.map(|g| if self.links.is_some() { g.name.to_owned() } else { format!("gen{}", g.name) }),
        );
        words.extend(self.links.map(|n| format!("x{n}")));
        words.extend(self.rate.map(|rate| format!("{} GB/s", rate.gb())));
        words.join(" ")
    }

    /// `4 bricks`.
    pub fn counted(&self) -> String {
        let link = self.interconnect.family().link;
        match self.links {
            Some(1) => format!("1 {link}"),
            Some(n) => format!("{n} {link}s"),
            None => format!("an unknown number of {link}s"),
        }
    }

    /// How drawings label it: `NV18`, `XGMI×4`, `C2C`.
    pub fn label(&self) -> String {
        match (self.interconnect.family().label, self.links) {
            (Label::Counted(label), Some(n)) => format!("{label}{n}"),
            (Label::Counted(label), None) => format!("{label}?"),
            (Label::Plain(label) | Label::Drawn(label), Some(n)) => format!("{label}×{n}"),
            (Label::Plain(label) | Label::Drawn(label), None) => label.to_owned(),
        }
    }
}

impl fmt::Display for GpuLink {
    /// `NVLink 4 x18`, `xGMI x4`, `NVLink-C2C`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.interconnect.family().title)?;
        match self.generation.map(|number| (number, self.interconnect.generation(Some(number)))) {
            Some((_, Some(known))) => write!(f, " {}", known.name)?,
            Some((number, None)) => write!(f, " {number}")?,
            None => {}
        }
        self.links.map_or(Ok(()), |n| write!(f, " x{n}"))
    }
}

impl Interconnect {
    /// The generation that a word names: `gen4`, a name that is no number, or, if more words follow, a number.
    fn named(self, word: &str, more: bool) -> Option<u8> {
        let (name, is_name) = match word.strip_prefix("gen") {
            Some(name) => (name, true),
            None => (word, more || word.parse::<f64>().is_err()),
        };
        let generation = self.family().generations.iter().find(|g| g.name.eq_ignore_ascii_case(name));
        generation.filter(|_| is_name).map(|g| g.number)
    }
}

/// The text describes no bundle of links.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct NoGpuLink {
    /// The text.
    text: String,
    /// What it was to be.
    interconnect: Interconnect,
}

impl fmt::Display for NoGpuLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = self.interconnect.family();
        write!(
            f,
            "'{}' is no {}: write the number of its {}s, as in {}",
            self.text, family.title, family.link, family.example
        )?;
        let names: Vec<&str> = family.generations.iter().map(|g| g.name).collect();
        if let [.., last] = names.as_slice() {
            write!(f, ", or generation and number, as in \"{last} x2\"; generations are {}", names.join(", "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_says_where_it_is_from() {
        for family in &FAMILIES {
            assert_eq!(family.interconnect.family().key, family.key);
            assert_eq!(Interconnect::by_key(family.key), Some(family.interconnect));
            for generation in family.generations.iter().chain(&family.usual) {
                assert!(generation.source.len() > 10, "{} {}", family.key, generation.name);
                assert!(generation.link_rate.is_some() || generation.device_rate.is_some());
                for [slow, value, fast] in [generation.copies, generation.kernels] {
                    assert!(0.0 < slow && slow <= value && value <= fast && fast <= 1.0);
                }
            }
            assert!(family.generations.windows(2).all(|w| w[0].number < w[1].number));
        }
    }

    #[test]
    fn bundles_are_read_as_they_are_written() {
        let read = |interconnect, text| GpuLink::parse(interconnect, text);
        use Interconnect::{C2c, Nvlink, Xgmi};
        assert_eq!(read(Nvlink, "2"), Ok(GpuLink::nvlink(None, 2)));
        assert_eq!(read(Nvlink, "4 x18"), Ok(GpuLink::nvlink(Some(4), 18)));
        assert_eq!(read(Xgmi, "x4"), Ok(GpuLink::xgmi(Some(4))));
        assert_eq!(read(C2c, "900"), Ok(GpuLink::c2c(Some(Rate::from_gb(900.0)))));
        assert_eq!(read(C2c, ""), Ok(GpuLink::c2c(None)));
        assert_eq!(read(Nvlink, "gen5"), Ok(GpuLink { generation: Some(5), ..GpuLink::new(Nvlink) }));
        for (interconnect, text) in
            [(Nvlink, "4 x18"), (Nvlink, "gen5"), (Xgmi, "3 x2"), (Nvlink, "gen5 900 GB/s"), (C2c, "450 GB/s")]
        {
            assert_eq!(read(interconnect, text).unwrap().written(), text);
        }
        for bad in ["", "0", "x0", "x1 x2", "4 x18 x2", "fast", "-1 GB/s", "99 x2", "4 4 x2"] {
            assert!(read(Nvlink, bad).is_err(), "{bad}");
        }
        let error = read(Nvlink, "99 x2").unwrap_err().to_string();
        assert!(error.contains("1, 2, 3, 4, 5, 6"), "{error}");
        assert_eq!(GpuLink::nvlink(Some(4), 18).to_string(), "NVLink 4 x18");
        assert_eq!(GpuLink::xgmi(None).to_string(), "xGMI");
        assert_eq!(
            (GpuLink::xgmi(Some(4)).label(), GpuLink::c2c(None).label()),
            ("XGMI×4".to_owned(), "C2C".to_owned())
        );
    }

    #[test]
    fn generations_by_name_and_without_a_number_of_links() {
        let ualink = GpuLink::parse(Interconnect::Ualink, "200g x4").unwrap();
        assert_eq!((ualink.generation, ualink.links), (Some(1), Some(4)));
        assert_eq!(
            (ualink.to_string(), ualink.written(), ualink.label()),
            ("UALink 200G x4".into(), "200G x4".into(), "UAL4".into())
        );
        let nvlink = GpuLink::parse(Interconnect::Nvlink, "gen6").unwrap();
        assert_eq!(
            (nvlink.to_string(), nvlink.written(), nvlink.label()),
            ("NVLink 6".into(), "gen6".into(), "NV?".into())
        );
    }

    #[test]
    fn a_printed_rate_tells_the_generation() {
        let of = |gb| Interconnect::Nvlink.generation_of_rate(Rate::from_gb(gb));
        assert_eq!([20.0, 25.781, 25.0, 26.562, 53.125, 50.0].map(of), [1, 2, 3, 4, 5, 5].map(Some));
        assert_eq!(of(64.0), None);
        let most = |number| Interconnect::Nvlink.generation(Some(number)).unwrap().highest_rate();
        assert_eq!([1, 2, 3, 5].map(most), [20.0, 25.781, 25.781, 53.125].map(Some));
    }
}
