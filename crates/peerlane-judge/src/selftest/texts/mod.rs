//! Faults planted in the outputs of tools: for machines of the catalogue, what an operator would paste, with what varies
//! between sound machines; read by the usual scanners, and checked.

mod ibstat;
mod kernel;
mod lscpu;
mod lspci;
mod nccl;
mod nvidia_smi;
mod plants;
mod site;

use super::{Alarm, Case, Input, SOUND_SEEDS};
use crate::check::{Context, check, checked, distinct, verdict};
use crate::finding::{Finding, FindingKind};
use crate::verdict::Verdict;
use peerlane_design::case::Case as Given;
use peerlane_machine::machine::Machine;
use peerlane_machine::random::Random;
use peerlane_measure::run::SourceText;
use peerlane_model::comparison::Comparison;
use peerlane_model::model::Model;
use peerlane_read::assemble::assemble;
use peerlane_read::catalogue::{self, Parts};
use peerlane_read::evidence::{Found, Text, scan_text};
use plants::{KINDS, Kind, Plant};
use site::{SYSTEMS, Site};

/// Cases of each kind; Xids have as many codes.
const CASES: usize = 10;
const XIDS: usize = 20;

/// How many of ten cases have the output of a tool that the fault does not need.
const OFTEN: usize = 7;

/// Tools whose output is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    Topo,
    Query,
    Nvlink,
    Dmesg,
    Ibstat,
    Lspci,
    Lscpu,
    NcclLog,
    NcclTests,
}

impl Tool {
    const ALL: [Tool; 9] = [
        Tool::Topo,
        Tool::Query,
        Tool::Nvlink,
        Tool::Dmesg,
        Tool::Ibstat,
        Tool::Lspci,
        Tool::Lscpu,
        Tool::NcclLog,
        Tool::NcclTests,
    ];

    fn command(self) -> &'static str {
        match self {
            Tool::Topo => "nvidia-smi topo -m",
            Tool::Query => "nvidia-smi -q",
            Tool::Nvlink => "nvidia-smi nvlink -s",
            Tool::Dmesg => "dmesg",
            Tool::Ibstat => "ibstat",
            Tool::Lspci => "lspci -nnvvv",
            Tool::Lscpu => "lscpu",
            Tool::NcclLog => "NCCL_DEBUG=INFO python3 train.py",
            Tool::NcclTests => "./build/all_reduce_perf -b 1M -e 1G -f 4",
        }
    }

    /// What it prints of a machine; empty where it has nothing to print.
    fn output(self, site: &Site) -> String {
        match self {
            Tool::Topo => nvidia_smi::topo(site),
            Tool::Query => nvidia_smi::query(site),
            Tool::Nvlink => nvidia_smi::nvlink(site),
            Tool::Dmesg => kernel::dmesg(site),
            Tool::Ibstat => ibstat::ibstat(site),
            Tool::Lspci => lspci::lspci(site),
            Tool::Lscpu => lscpu::lscpu(site),
            Tool::NcclLog => nccl::log(site),
            Tool::NcclTests => nccl::all_reduce(site),
        }
    }

    /// What its text is called.
    fn file(self) -> String {
        format!("{self:?}.txt").to_lowercase()
    }

    /// Whether `srun` may have started it.
    fn is_of_job(self) -> bool {
        matches!(self, Tool::NcclLog | Tool::NcclTests)
    }
}

/// What tools print of the machines of one design, for records.
pub(super) struct Report(Site);

impl Report {
    /// Of a design; `None` where it lacks what tools would print.
    pub(super) fn of(machine: &Machine) -> Option<Report> {
        Site::of(machine, &mut Random::new(0, &machine.name)).map(Report)
    }

    /// The texts of a machine; the port of one adapter may have trained at half its rate.
    pub(super) fn texts(&self, halved: Option<&str>) -> Vec<SourceText> {
        let mut site = self.0.clone();
        site.nics.iter_mut().filter(|nic| Some(nic.name.as_str()) == halved).for_each(|nic| nic.rate /= 2);
        let shown = [Tool::Topo, Tool::Query, Tool::Nvlink, Tool::Ibstat, Tool::Lspci, Tool::Lscpu];
        let text = |tool: Tool| SourceText { name: tool.file(), text: tool.output(&site) };
        shown.into_iter().map(text).filter(|source| !source.text.is_empty()).collect()
    }
}

/// A case to run.
pub(super) struct Wanted {
    system: &'static str,
    kind: Option<Kind>,
    turn: usize,
    seed: u64,
}

/// The cases that follow from a base seed, of these systems; those without a fault first.
pub(super) fn wanted(is_brief: bool, base: u64, first: u64) -> Vec<Wanted> {
    let systems = if is_brief { SYSTEMS.get(..2) } else { SYSTEMS.get(..) }.unwrap_or_default();
    let sound = systems.iter().flat_map(|system| {
        (0..SOUND_SEEDS).map(|n| Wanted { system, kind: None, turn: 0, seed: first.wrapping_add(n) })
    });
    let mut all: Vec<Wanted> = sound.collect();
    for kind in KINDS {
        let fits = |system: &&&str| {
            let site = site(system, &mut Random::new(0, system));
            site.is_some_and(|mut site| kind.plant(&mut site, 0, &mut Random::new(0, "place")).is_some())
        };
        let able: Vec<&&str> = systems.iter().filter(fits).collect();
        let most = match kind {
            _ if is_brief => 2,
            Kind::Xid => XIDS,
            _ => CASES,
        };
        for turn in 0..most {
            // remainders fit any type
            let start = usize::try_from(base % able.len().max(1) as u64).unwrap_or_default();
            let Some(system) = able.get((start + turn) % able.len().max(1)) else { break };
            let seed = first.wrapping_add(500 + turn as u64);
            // forms change also where machines come round as often
            all.push(Wanted { system, kind: Some(kind), turn: turn + turn / able.len().max(1), seed });
        }
    }
    all
}

fn site(system: &str, random: &mut Random) -> Option<Site> {
    Site::of(&catalogue::system(system)?.ok()?, random)
}

impl Wanted {
    /// `None` where the machine of the catalogue cannot be read or cannot have the fault.
    pub(super) fn case(&self) -> Option<Case> {
        let what = self.kind.map_or("sound", Kind::name);
        let mut random = Random::new(self.seed, &format!("{} {what}", self.system));
        let mut site = site(self.system, &mut random)?;
        let plant = match self.kind {
            Some(kind) => Some(kind.plant(&mut site, self.turn, &mut random)?),
            None => None,
        };
        let texts = texts(&site, plant.as_ref(), &mut random);
        Some(self.judge(&texts, plant.as_ref()))
    }

    fn judge(&self, texts: &[(String, String)], plant: Option<&Plant>) -> Case {
        let mut read = Found::default();
        for (name, text) in texts {
            read.append(scan_text(&Text::new(name, text.as_bytes())));
        }
        let mut findings: Vec<Finding> = Vec::new();
        let mut alarms: Vec<Alarm> = Vec::new();
        let mut alarm = |rule: &str, summary: String| {
            alarms.push(Alarm { rule: rule.to_owned(), subjects: Vec::new(), summary });
        };
        let machines = assemble(read);
        if machines.len() != 1 {
            alarm("(machines)", format!("read as {} machines", machines.len()));
        }
        for machine in machines {
            let given = Given::from(machine);
            let model = Model::new(&given.machine, Parts::embedded());
            let comparison = Comparison::of(&model);
            let context = Context::of(&given, &comparison);
            let found = check(&context);
            let reached = verdict(&context, &found);
            // a matrix of path classes alone is judged, though it does not make a machine healthy
            let is_unread = reached == Verdict::NotJudged && checked(&context).is_empty();
            if plant.is_none() && (is_unread || reached == Verdict::Unexplained) {
                alarm("(verdict)", reached.words().to_owned());
            }
            findings.extend(found);
        }
        let is_fault = |f: &&Finding| f.kind == FindingKind::Fault;
        let rule = self.kind.and_then(Kind::rule);
        let names = |f: &Finding| {
            let counts = f.is_trouble() || rule == Some(f.rule.as_str());
            counts && plant.is_some_and(|plant| plant.explains(f))
        };
        let by = distinct(findings.iter().filter(|f| names(f)).map(|f| f.rule.clone()));
        let others = findings.iter().filter(is_fault).filter(|f| !plant.is_some_and(|plant| plant.explains(f)));
        alarms.extend(others.map(|f| Alarm {
            rule: f.rule.clone(),
            subjects: f.subjects.clone(),
            summary: f.summary.clone(),
        }));
        Case {
            input: Input::Texts,
            machine: self.system.to_owned(),
            fault: self.kind.map(|kind| kind.name().to_owned()),
            planted: plant.map(|plant| plant.words.clone()).unwrap_or_default(),
            seed: self.seed,
            found: plant.map(|_| findings.first().is_some_and(names)),
            false_alarms: alarms,
            by,
        }
    }
}

/// Names and texts: one of each tool, or one with all. The tools that place the fault are among them, others by chance.
fn texts(site: &Site, plant: Option<&Plant>, random: &mut Random) -> Vec<(String, String)> {
    let needed = plant.map_or(&[][..], |plant| plant.shown_by);
    let mut given: Vec<(Tool, String)> = Vec::new();
    for tool in Tool::ALL {
        let is_chosen = random.below(10) < OFTEN;
        if is_chosen || tool == Tool::Topo || needed.contains(&tool) {
            given.push((tool, tool.output(site)));
        }
    }
    given.retain(|(_, text)| !text.is_empty());
    let as_one = random.below(2) == 0;
    if as_one {
        let all = given.iter().map(|(tool, text)| format!("{}@{}:~$ {}\n{text}\n", "admin", site.host, tool.command()));
        return vec![("all.txt".to_owned(), all.collect())];
    }
    let by_srun = random.below(2) == 0;
    let one = |(tool, text): (Tool, String)| {
        let name = tool.file();
        let of_srun = || text.lines().map(|line| format!("{}{line}\n", nccl::OF_SRUN)).collect();
        if by_srun && tool.is_of_job() { (name, of_srun()) } else { (name, text) }
    };
    given.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_system_has_outputs() {
        for system in SYSTEMS {
            let site = site(system, &mut Random::new(1, system)).unwrap_or_else(|| panic!("{system}"));
            for tool in Tool::ALL {
                let may_be_empty = matches!(tool, Tool::Nvlink | Tool::Ibstat | Tool::NcclTests);
                assert!(may_be_empty || !tool.output(&site).is_empty(), "{system}: {tool:?}");
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_texts() {
        let of = |seed| {
            let mut random = Random::new(seed, "x");
            let site = site("dgx-1v", &mut random).unwrap();
            texts(&site, None, &mut random)
        };
        assert_eq!(of(3), of(3));
        assert_ne!(of(3), of(4));
    }
}
