//! CPUs by generation, and what joins two of them.

use peerlane_read::catalogue::Part;

/// A CPU that stands for its generation.
pub(super) struct Cpu {
    /// Key of its part.
    pub(super) part: &'static str,
    /// The year of its first product.
    pub(super) year: u16,
    /// Key of the part of the link between two of them, where the catalogue has one.
    pub(super) between: Option<&'static str>,
}

const fn cpu(part: &'static str, year: u16, between: &'static str) -> Cpu {
    let between = if between.is_empty() { None } else { Some(between) };
    Cpu { part, year, between }
}

/// Key of the part of the links between two packages of a CPU, where the catalogue has one.
pub fn inter_socket_part(cpu: &Part) -> Option<&'static str> {
    let known = CPUS.iter().find(|known| known.part == cpu.name).and_then(|known| known.between);
    known.or(match cpu.name.as_str() {
        "xeon-e5-v2" => Some("qpi-snb"),
        name if name.starts_with("epyc") => Some("xgmi"),
        _ => None,
    })
}

/// CPUs whose constants differ, the oldest first.
pub(super) const CPUS: [Cpu; 17] = [
    cpu("xeon-x56xx-tylersburg", 2010, "qpi-nehalem"),
    cpu("xeon-e5-v1", 2012, "qpi-snb"),
    cpu("xeon-e5-v2", 2013, ""),
    cpu("power8", 2014, "xbus-power8"),
    cpu("xeon-e5-v3", 2014, "qpi-haswell"),
    cpu("xeon-e5-v4", 2016, "qpi-broadwell"),
    cpu("xeon-scalable", 2017, "upi-skylake"),
    cpu("epyc-naples", 2017, ""),
    cpu("power9", 2017, "xbus-power9"),
    cpu("epyc-rome", 2019, ""),
    cpu("epyc-milan", 2021, ""),
    cpu("ice-lake", 2021, "upi-ice-lake"),
    cpu("epyc-genoa", 2022, ""),
    cpu("sapphire-rapids", 2023, "upi-sapphire-rapids"),
    cpu("emerald-rapids", 2023, "upi-emerald-rapids"),
    cpu("epyc-turin", 2024, ""),
    cpu("granite-rapids", 2024, "upi-granite-rapids"),
];
