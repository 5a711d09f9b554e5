//! What makes a set of assumptions likely before any measured value is looked at: the age of labels and drivers, years, and what
//! the prose states. All of it is weak: a handful of measured values outweighs it.

use super::candidates::{Access, Candidate, Open};
use peerlane_machine::fabric::{PcieGeneration, PcieWidth};
use peerlane_machine::fact::{Claim, Fact};
use peerlane_machine::machine::Machine;
use peerlane_machine::names::list;
use peerlane_read::catalogue::Part;

/// The year from which servers with GPUs of a PCIe generation were sold: Kepler, A100, H100.
const GENERATIONS: [(PcieGeneration, u16); 5] = [
    (PcieGeneration::Gen1, 2004),
    (PcieGeneration::Gen2, 2007),
    (PcieGeneration::Gen3, 2012),
    (PcieGeneration::Gen4, 2020),
    (PcieGeneration::Gen5, 2022),
];

/// The first year in which each branch of NVIDIA's Linux driver was released.
const DRIVERS: [(u32, u16); 13] = [
    (295, 2012),
    (310, 2013),
    (331, 2014),
    (346, 2015),
    (361, 2016),
    (378, 2017),
    (390, 2018),
    (418, 2019),
    (440, 2020),
    (460, 2021),
    (510, 2022),
    (525, 2023),
    (550, 2024),
];

/// The last year of drivers that print `SOC`: 384.69, of August 2017, still does.
const LAST_SOC: u16 = 2017;

/// The year that is taken of a source without a date.
const NO_DATE: u16 = 2022;

/// What products of a later year than the source weigh: nothing measured by an honest source is so unlikely.
const ANACHRONISM: f64 = -25.0;

/// What a remark in prose weighs against a set of assumptions that contradicts it.
const DENIED: f64 = -5.0;

/// What it counts for a CPU that the prose names it.
const NAMED: f64 = 1.5;

/// A width in words, of GPUs of some product or of all.
struct Stated {
    /// The products, in lower case.
    about: Vec<String>,
    width: PcieWidth,
}

/// What is known before measured values are looked at.
pub(super) struct Clues {
    /// The last year in which the source can have been written.
    pub(super) latest: Option<u16>,
    /// What that rests on.
    pub(super) dated_by: Option<&'static str>,
    widths: Vec<Stated>,
    /// Whether GPUs of different sockets reach each other directly.
    sockets: Option<bool>,
    /// Whether GPUs of one do.
    within: Option<bool>,
    /// The key of a CPU that the prose names.
    cpu: Option<&'static str>,
    /// Lines of prose that count: `lines 12 and 30`.
    pub(super) lines: Vec<String>,
}

impl Clues {
    pub(super) fn of(machine: &Machine) -> Self {
        let soc = machine.stated_classes.as_ref().is_some_and(|(matrix, _)| matrix.old_names);
        let written = machine.remarks.iter().filter_map(|remark| match remark.claim {
            Claim::Year(year) => Some(year),
            _ => None,
        });
        let drivers = machine.evidence.iter().filter_map(|evidence| match &evidence.fact {
            Fact::Gpus(gpus) => gpus.iter().find_map(|gpu| branch_year(gpu.driver.as_deref()?)),
            _ => None,
        });
        let dates = [
            (soc.then_some(LAST_SOC), "SOC labels"),
            (written.max(), "its dates"),
            // a branch stays in use for about two years
            (drivers.max().map(|year| year + 2), "its driver"),
        ];
        let latest = dates.into_iter().filter_map(|(year, by)| Some((year?, by))).min_by_key(|(year, _)| *year);
        let widths = machine.remarks.iter().filter_map(|remark| match remark.claim {
            Claim::Width(width) => {
                Some(Stated { about: remark.about.iter().map(|word| word.to_lowercase()).collect(), width })
            }
            _ => None,
        });
        let peer_access = |of: bool| {
            machine.remarks.iter().rev().find_map(|remark| match remark.claim {
                Claim::PeerAccess { direct, across } if of || !across => Some(direct),
                _ => None,
            })
        };
        let cpu = machine.remarks.iter().find_map(|remark| match remark.claim {
            Claim::Cpu(key) => Some(key),
            _ => None,
        });
        Clues {
            latest: latest.map(|l| l.0),
            dated_by: latest.map(|l| l.1),
            widths: widths.collect(),
            sockets: peer_access(true),
            within: peer_access(false),
            cpu,
            lines: lines(machine),
        }
    }

    /// Whether prose states a width or peer access.
    pub(super) fn states(&self) -> bool {
        !self.widths.is_empty() || self.sockets.is_some()
    }

    /// Whether a product of that year was there when the source was written.
    pub(super) fn allows(&self, year: u16) -> bool {
        self.latest.is_none_or(|latest| year <= latest)
    }

    /// The logarithm of how likely a set of assumptions is, up to a constant.
    pub(super) fn prior(&self, open: &Open, candidate: &Candidate) -> f64 {
        let widths = open.groups.iter().zip(&candidate.widths).map(|(group, width)| self.of_width(group, *width));
        let cpu = candidate.cpu.and_then(|cpu| open.cpus.get(cpu)).map(|(part, cpu)| (*part, cpu.year));
        let age = |year: u16| f64::from(self.latest.unwrap_or(NO_DATE).saturating_sub(year));
        let of_cpu = cpu.map_or(0.0, |(_, year)| match self.allows(year) {
            true => -1.0 - 0.1 * age(year),
            false => ANACHRONISM,
        });
        let of_parts = cpu.map_or(0.0, |(part, _)| of_generations(part, candidate));
        let forwards = cpu.and_then(|(part, _)| part.constant("peer_across_sockets")).map(|value| value > 0.0);
        let of_sockets = match (candidate.sockets, forwards) {
            (Some(Access::Direct), Some(false)) => -6.0,
            (Some(Access::Staged), Some(true)) => -2.0,
            _ => 0.0,
        };
        let of_within = if candidate.within == Some(Access::Staged) { -2.5 } else { 0.0 };
        let denied = |stated: Option<bool>, access: Option<Access>| {
            stated.zip(access).is_some_and(|(direct, access)| direct != (access == Access::Direct))
        };
        let denied = [denied(self.sockets, candidate.sockets), denied(self.within, candidate.within)];
        let stated = denied.into_iter().filter(|denied| *denied).count() as f64 * DENIED;
        let is_named = |part: &Part| self.cpu.is_some_and(|key| key == part.name);
        let of_name = if cpu.is_some_and(|(part, _)| is_named(part)) { NAMED } else { 0.0 };
        widths.sum::<f64>() + of_cpu + of_name + of_parts + of_sockets + of_within + stated
    }

    fn of_width(&self, group: &super::candidates::Group, width: PcieWidth) -> f64 {
        let (Some(generation), Some(lanes)) = (width.generation, width.lanes) else { return ANACHRONISM };
        let of_lanes = match lanes {
            16.. => 0.0,
            8..16 => -1.5,
            4..8 => -3.0,
            _ => -4.0,
        };
        let year = GENERATIONS.iter().find(|(known, _)| *known == generation).map_or(2026, |(_, year)| *year);
        let behind = |newest: PcieGeneration| f64::from(newest.number().saturating_sub(generation.number()));
        let of_generation = match group.able.and_then(|able| able.generation) {
            // a GPU of a known product was mostly in a host that is as new
            Some(able) => -2.0 * behind(able),
            None if !self.allows(year) => ANACHRONISM,
            None => {
                let usual =
                    self.latest.map_or(PcieGeneration::Gen4, |latest| newest_of(latest).min(PcieGeneration::Gen4));
                if generation > usual { -1.0 } else { -0.7 * behind(usual) }
            }
        };
        let product = group.product.to_lowercase();
        let named = |about: &String| product.split_whitespace().any(|word| word == about);
        let about = |stated: &&Stated| stated.about.is_empty() || stated.about.iter().any(named);
        let denied = |stated: &Stated| {
            stated.width.lanes.is_some_and(|stated| stated != lanes)
                || stated.width.generation.is_some_and(|stated| stated != generation)
        };
        // what names the product counts, else what names none
        let mut stated: Vec<&Stated> = self.widths.iter().filter(about).collect();
        if stated.iter().any(|stated| !stated.about.is_empty()) {
            stated.retain(|stated| !stated.about.is_empty());
        }
        let (against, of_all) = (stated.iter().filter(|stated| denied(stated)).count(), stated.len().max(1));
        // a stated width is not rare for being narrow
        let of_lanes = if against < stated.len() { 0.0 } else { of_lanes };
        of_lanes + of_generation + DENIED * against as f64 / of_all as f64
    }
}

/// The sources and lines of remarks that count.
fn lines(machine: &Machine) -> Vec<String> {
    let counts =
        |claim: &Claim| matches!(claim, Claim::Width(_) | Claim::PeerAccess { .. } | Claim::Cpu(_) | Claim::Nic(_));
    let mut by_source: Vec<(&str, Vec<String>)> = Vec::new();
    for remark in machine.remarks.iter().filter(|remark| counts(&remark.claim)) {
        let line = remark.origin.lines.map_or(String::new(), |(line, _)| line.to_string());
        match by_source.iter_mut().find(|(source, _)| *source == &*remark.origin.source) {
            Some((_, lines)) if lines.contains(&line) => {}
            Some((_, lines)) => lines.push(line),
            None => by_source.push((&remark.origin.source, vec![line])),
        }
    }
    let several = by_source.len() > 1;
    let words = |(source, lines): (&str, Vec<String>)| {
        let word = if lines.len() == 1 { "line" } else { "lines" };
        let of = if several { format!(" of {source}") } else { String::new() };
        format!("{word} {}{of}", list(&lines))
    };
    by_source.into_iter().map(words).collect()
}

/// Root ports are of the CPU's generation, or set to an older one.
fn of_generations(cpu: &Part, candidate: &Candidate) -> f64 {
    let Some(able) = cpu.pcie.and_then(|width| width.generation) else { return 0.0 };
    let each = candidate.widths.iter().filter_map(|width| width.generation);
    let each = each.map(|generation| match generation > able {
        true => -6.0,
        false => -0.5 * f64::from(able.number() - generation.number()),
    });
    each.fold(0.0, f64::min)
}

/// The newest generation that GPUs of a year had.
fn newest_of(year: u16) -> PcieGeneration {
    let sold = GENERATIONS.iter().filter(|(_, from)| *from <= year);
    sold.map(|(generation, _)| *generation).max().unwrap_or(PcieGeneration::Gen1)
}

fn branch_year(driver: &str) -> Option<u16> {
    let branch: u32 = driver.split('.').next()?.trim().parse().ok()?;
    DRIVERS.iter().rev().find(|(from, _)| *from <= branch).map(|(_, year)| *year)
}
