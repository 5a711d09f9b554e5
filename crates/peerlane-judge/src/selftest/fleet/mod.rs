//! Whether the bad machines of a fleet are found, and no good one is accused: thousands of simulated machines, a few with a
//! planted fault, each with constants of its own that the judge does not know.
//!
//! All machines of a design share what the model has wrong about it ([`Effects::REAL`]); each differs from the others
//! ([`Effects::MACHINE`]), and every run from the last ([`Effects::DAY`]). Each is judged among its peers, and some alone.
//!
//! A record describes its machine by what tools print there, as that of a live machine does: nothing of the planted faults but
//! what such a tool would print. Some machines have a second record of the same day.

mod faults;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use peerlane_machine::fabric::NodeKind;
use peerlane_machine::fault::{Fault, NOISE, Planted};
use peerlane_machine::machine::Machine;
use peerlane_machine::random::Random;
use peerlane_machine::subject::Subject;
use peerlane_machine::units::Seconds;
use peerlane_measure::plan::Scope;
use peerlane_measure::run::{Run, Subject as Shown};
use peerlane_measure::simulated_machine::Effects;
use peerlane_read::assemble::assemble;
use peerlane_read::catalogue;
use peerlane_read::evidence::{Found, Text, scan_text};

use super::plants::Plant;
use super::record::{Bench, Today};
use super::texts::Report;
use super::{APART, Alarm};
use crate::check::Settings;
use crate::finding::Finding;
use crate::fleet::{Again, Dictionary, Node, Records, judge};
use crate::gate;
use peerlane_design::case::Case;

pub use faults::Trouble;

/// The designs of a fleet, and how many of five machines are of each: eight GPUs behind NVSwitch, in a cube mesh of NVLink,
/// and on PCIe switches.
const DESIGNS: [(&str, usize); 3] = [("hgx-h200", 3), ("dgx-1v", 1), ("exxact-txr550", 1)];

/// Sizes of faults of which a detection curve is made: shares of a rate that are lost.
pub const SIZES: [f64; 9] = [0.03, 0.05, 0.08, 0.10, 0.15, 0.20, 0.30, 0.45, 0.60];

/// The least and the most that faults take where they are not of given sizes.
const USUAL: [f64; 2] = [0.10, 0.60];

/// Of so many machines one has an earlier record of the same day, beside those whose fault began meanwhile.
const TWICE: usize = 10;

/// When the earlier and the later records of the day begin, in seconds since 1970.
const MOMENTS: [u64; 2] = [1_795_593_600, 1_795_636_800];

/// The gate's usual deadline.
const DEADLINE: Seconds = Seconds::new(20.0);

/// What is tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Wish {
    /// How many machines the fleet has.
    pub machines: usize,
    /// How many of those without a fault are also judged alone.
    pub alone: usize,
    /// Faults, with the share of a rate that each takes where it can be any; one a machine.
    pub faults: Vec<(Trouble, f64)>,
    /// The seed of everything.
    pub seed: u64,
}

impl Wish {
    /// Some faults of all kinds in turn, each that can be of any size taking 10 to 60 % of a rate.
    pub fn usual(machines: usize, faults: usize, alone: usize, seed: u64) -> Wish {
        let mut sizes = Random::new(seed, "sizes of faults");
        let [least, most] = USUAL;
        let faults = (0..faults).filter_map(|i| Trouble::ALL.get(i % Trouble::ALL.len()));
        let faults = faults.map(|trouble| (*trouble, least + (most - least) * sizes.uniform())).collect();
        Wish { machines, alone, faults, seed }
    }

    /// Each kind that has a size, so often at each of [`SIZES`].
    pub fn curve(machines: usize, times: usize, seed: u64) -> Wish {
        let sized = Trouble::ALL.into_iter().filter(|trouble| trouble.has_size());
        let faults = sized.flat_map(|trouble| SIZES.map(|size| (trouble, size))).collect::<Vec<_>>();
        Wish { machines, alone: 0, faults: faults.repeat(times), seed }
    }
}

/// What was planted in a fleet, what was found, and who was accused of nothing.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FleetTest {
    /// Names this format.
    #[schemars(extend("const" = "peerlane/selftest-fleet/1"))]
    pub schema: &'static str,
    /// The seed of everything.
    pub seed: u64,
    /// How many machines the fleet has.
    pub machines: usize,
    /// Their designs, with how many there are of each.
    pub designs: BTreeMap<String, usize>,
    /// The planted faults.
    pub faults: Vec<Tried>,
    /// Outliers that are machines without a fault, or name parts without one.
    pub false_alarms: Vec<Accused>,
    /// Machines without a fault that were judged alone.
    pub alone: usize,
    /// Those of them that a gate would have isolated or reset.
    pub alone_false_alarms: Vec<Accused>,
}

/// One planted fault.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Tried {
    /// Its kind.
    pub kind: Trouble,
    /// The machine's design.
    pub design: String,
    /// The machine.
    pub machine: String,
    /// Description.
    pub planted: String,
    /// The share of a rate that it takes, where it can be any.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    pub size: Option<f64>,
    /// Whether the machine is an outlier among its peers, with the right part named.
    pub found: bool,
    /// Whether a gate finds it on the machine alone.
    pub found_alone: bool,
}

/// Who is accused of nothing.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Accused {
    /// The machine.
    pub machine: String,
    /// The finding.
    #[serde(flatten)]
    pub alarm: Alarm,
}

impl FleetTest {
    /// How many faults were found among peers, and alone.
    pub fn found(&self) -> [usize; 2] {
        [self.faults.iter().filter(|f| f.found).count(), self.faults.iter().filter(|f| f.found_alone).count()]
    }
}

/// A design of the fleet.
struct Design {
    name: &'static str,
    text: &'static str,
    machine: Machine,
    /// What tools print of it, and the machine that is read from that.
    report: Report,
    shown: Machine,
}

/// A machine of the fleet.
struct Member {
    name: String,
    design: usize,
    fault: Option<(Trouble, f64, Plant)>,
    alone: bool,
    /// Whether it has an earlier record of the day, too.
    is_seen_twice: bool,
}

/// What a gate finds on one machine.
#[derive(Clone, Debug, PartialEq)]
struct AtGate {
    /// Whether it takes the machine out of service.
    takes_out: bool,
    alarm: Alarm,
}

/// What one machine's runs show.
struct Seen {
    /// One, or two of the same day.
    nodes: Vec<Node>,
    /// What a gate finds, if it is judged alone.
    alone: Vec<AtGate>,
}

/// Makes a fleet, measures each machine by the quick plan, and judges them; `report` is called for each as it ends.
pub fn fleet_test(wish: &Wish, report: &(dyn Fn() + Sync)) -> FleetTest {
    let designs: Vec<Design> = DESIGNS.iter().filter_map(|(name, _)| Design::of(name)).collect();
    let members = members(wish, &designs);
    let benches: Vec<Bench> = designs.iter().map(|d| Bench::new(&d.machine, d.name, d.text, Scope::Quick)).collect();
    let dictionary = Dictionary::default();
    let next = AtomicUsize::new(0);
    let done: Mutex<BTreeMap<usize, Seen>> = Mutex::new(BTreeMap::new());
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(member) = members.get(at) else { break };
            let Some((bench, design)) = benches.get(member.design).zip(designs.get(member.design)) else { break };
            let seen = member.seen(bench, design, wish.seed, &dictionary);
            done.lock().unwrap_or_else(PoisonError::into_inner).insert(at, seen);
            report();
        }
    };
    let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let seen: Vec<Seen> = done.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect();
    let (nodes, alone): (Vec<Vec<Node>>, Vec<Vec<AtGate>>) = seen.into_iter().map(|s| (s.nodes, s.alone)).unzip();
    // a record is measured once more where the rules look at it: thousands would not fit into memory
    let places: BTreeMap<&str, usize> = members.iter().enumerate().map(|(at, m)| (m.name.as_str(), at)).collect();
    let again = |node: &Node| {
        let member = members.get(*places.get(node.name.as_str())?)?;
        let (bench, design) = benches.get(member.design).zip(designs.get(member.design))?;
        let moment = MOMENTS.iter().position(|moment| *moment == node.began)?;
        Case::of_run(member.measured(bench, design, wish.seed, moment), &node.file).ok()
    };
    let accused = among_peers(&nodes.concat(), &dictionary, &again);
    summed(wish, &designs, &members, &accused, &alone)
}

/// The outliers by machine.
fn among_peers(nodes: &[Node], dictionary: &Dictionary, again: Again) -> BTreeMap<String, Vec<Alarm>> {
    let settings = Settings::default();
    let records = Records { nodes, baseline: &[], dictionary, settings: &settings, again: Some(again) };
    let mut accused: BTreeMap<String, Vec<Alarm>> = BTreeMap::new();
    for outlier in judge(&records, Vec::new()).outliers {
        let alarm =
            Alarm { rule: outlier.finding.rule, subjects: outlier.finding.subjects, summary: outlier.finding.summary };
        accused.entry(outlier.machine).or_default().push(alarm);
    }
    accused
}

/// What a gate finds.
fn at_gate(design: &Design, shown: Shown, planted: &Planted, effects: &[(u64, Effects)]) -> Vec<AtGate> {
    let concluded = gate::simulate(&design.machine, (&design.shown, shown), planted, effects, DEADLINE).conclusion;
    let found = concluded.findings.into_iter().map(|one| {
        let Finding { rule, subjects, summary, .. } = one.finding;
        AtGate { takes_out: one.action.takes_out(), alarm: Alarm { rule, subjects, summary } }
    });
    found.collect()
}

fn summed(
    wish: &Wish,
    designs: &[Design],
    members: &[Member],
    accused: &BTreeMap<String, Vec<Alarm>>,
    alone: &[Vec<AtGate>],
) -> FleetTest {
    let mut test = FleetTest {
        schema: "peerlane/selftest-fleet/1",
        seed: wish.seed,
        machines: members.len(),
        designs: BTreeMap::new(),
        faults: Vec::new(),
        false_alarms: Vec::new(),
        alone: members.iter().filter(|m| m.alone && m.fault.is_none()).count(),
        alone_false_alarms: Vec::new(),
    };
    for (member, alone) in members.iter().zip(alone) {
        let Some(design) = designs.get(member.design) else { continue };
        *test.designs.entry(design.name.to_owned()).or_default() += 1;
        let among = accused.get(&member.name).map(Vec::as_slice).unwrap_or_default();
        let about = |alarm: &&Alarm| member.touches(&alarm.subjects, design);
        if let Some((kind, size, plant)) = &member.fault {
            test.faults.push(Tried {
                kind: *kind,
                design: design.name.to_owned(),
                machine: member.name.clone(),
                planted: plant.words.clone(),
                size: kind.has_size().then_some(*size),
                found: among.iter().any(|a| about(&a)),
                found_alone: alone.iter().any(|one| (one.takes_out || kind.is_watched()) && about(&&one.alarm)),
            });
        }
        let accuse = |alarm: &Alarm| Accused { machine: member.name.clone(), alarm: alarm.clone() };
        test.false_alarms.extend(among.iter().filter(|a| !about(a)).map(accuse));
        if member.fault.is_none() {
            let taken_out = alone.iter().filter(|one| one.takes_out).map(|one| accuse(&one.alarm));
            test.alone_false_alarms.extend(taken_out);
        }
    }
    test.faults.sort_by(|a, b| a.kind.cmp(&b.kind).then(a.size.unwrap_or(1.0).total_cmp(&b.size.unwrap_or(1.0))));
    test
}

/// The machines in the order of their names. Faults go to machines drawn by chance among those that have a place for them.
fn members(wish: &Wish, designs: &[Design]) -> Vec<Member> {
    let cycle: Vec<usize> =
        DESIGNS.iter().enumerate().flat_map(|(i, (_, many))| std::iter::repeat_n(i, *many)).collect();
    let mut all: Vec<Member> = (0..wish.machines)
        .map(|i| Member {
            name: format!("node{i:04}"),
            design: cycle.get(i % cycle.len()).copied().unwrap_or_default(),
            fault: None,
            alone: false,
            is_seen_twice: i % TWICE == 0,
        })
        .collect();
    let mut random = Random::new(wish.seed, "places of faults");
    for (trouble, size) in &wish.faults {
        // as often as it takes to find one without a fault that has such a place; fewer faults than that are planted else
        for _ in 0..64 * DESIGNS.len() {
            let at = random.below(all.len());
            let Some(member) = all.get_mut(at).filter(|member| member.fault.is_none()) else { continue };
            let Some(design) = designs.get(member.design) else { continue };
            if let Some(plant) = trouble.plant(&design.machine, *size, &mut random) {
                (member.fault, member.alone) = (Some((*trouble, *size, plant)), true);
                member.is_seen_twice |= trouble.begins_meanwhile();
                break;
            }
        }
    }
    all.iter_mut().filter(|member| member.fault.is_none()).take(wish.alone).for_each(|member| member.alone = true);
    all
}

impl Design {
    fn of(name: &'static str) -> Option<Design> {
        let text = catalogue::system_text(name)?;
        let machine = catalogue::read_system(text, name).ok()?;
        let report = Report::of(&machine)?;
        let mut found = Found::default();
        let texts = report.texts(None);
        texts.iter().for_each(|source| found.append(scan_text(&Text::new(&source.name, source.text.as_bytes()))));
        let mut all = assemble(found);
        let shown = all.pop().filter(|_| all.is_empty())?;
        Some(Design { name, text, machine, report, shown })
    }

    /// What the record of a machine of it says about it.
    fn subject(&self, halved: Option<&str>) -> Shown {
        let (name, target) = (self.name.to_owned(), "live".to_owned());
        Shown { name, target, system: None, evidence: self.report.texts(halved) }
    }
}

impl Member {
    fn seen(&self, bench: &Bench, design: &Design, seed: u64, dictionary: &Dictionary) -> Seen {
        let last = MOMENTS.len() - 1;
        let first = if self.is_seen_twice { 0 } else { last };
        let node = |moment: usize| {
            let run = self.measured(bench, design, seed, moment);
            Node::of(&run, &format!("{}/{moment}.json", self.name), dictionary)
        };
        let alone = if self.alone {
            let today = self.today(seed, last);
            let planted = Planted { noise: NOISE, seed: today, faults: self.faults(last).to_vec() };
            at_gate(design, design.subject(self.halved()), &planted, &self.effects(seed, last))
        } else {
            Vec::new()
        };
        Seen { nodes: (first..=last).map(node).collect(), alone }
    }

    /// Its record of one of the [`MOMENTS`].
    fn measured(&self, bench: &Bench, design: &Design, seed: u64, moment: usize) -> Run {
        let shown = design.subject(self.halved());
        let mut run = bench.measure(&Today {
            noise: NOISE,
            seed: self.today(seed, moment),
            faults: self.faults(moment),
            effects: &self.effects(seed, moment),
            shown: Some((&design.shown, &shown)),
        });
        run.conditions.host = Some(self.name.clone());
        run.conditions.began = MOMENTS.get(moment).copied().unwrap_or_default();
        run
    }

    /// What is wrong with it at one of the [`MOMENTS`].
    fn faults(&self, moment: usize) -> &[Fault] {
        let began = |trouble: &Trouble| moment > 0 || !trouble.begins_meanwhile();
        let fault = self.fault.as_ref().filter(|(trouble, ..)| began(trouble));
        fault.map(|(.., plant)| plant.faults.as_slice()).unwrap_or_default()
    }

    /// The adapter whose port runs at half its rate.
    fn halved(&self) -> Option<&str> {
        self.fault.as_ref().and_then(|(trouble, _, plant)| trouble.halved(plant))
    }

    fn own(&self, seed: u64) -> u64 {
        Random::new(seed, &self.name).below(usize::MAX) as u64
    }

    fn today(&self, seed: u64, moment: usize) -> u64 {
        self.own(seed).wrapping_add(moment as u64).wrapping_mul(APART)
    }

    fn effects(&self, seed: u64, moment: usize) -> [(u64, Effects); 3] {
        let day = (self.today(seed, moment), Effects::DAY);
        [(seed, Effects::REAL), (self.own(seed), Effects::MACHINE), day]
    }

    /// Whether a finding names what is planted here, and nothing else: the machine itself where all its GPUs are hit.
    fn touches(&self, subjects: &[Subject], design: &Design) -> bool {
        let Some((.., plant)) = &self.fault else { return false };
        let gpus = || design.machine.fabric.of_kind(NodeKind::Gpu).map(|id| &design.machine.fabric.node(id).name);
        let itself = |s: &Subject| *s == *self.name && gpus().all(|gpu| plant.touches(&Subject::Node(gpu.clone())));
        !subjects.is_empty() && subjects.iter().all(|s| plant.touches(s) || itself(s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_fleet_gives_away_its_bad_machines_and_no_other() {
        let mut wish = Wish::usual(60, 6, 5, 1);
        wish.faults.extend([Trouble::NicHalf, Trouble::NvlinkErrors].map(|trouble| (trouble, 0.5)));
        let ended = AtomicUsize::new(0);
        let test = fleet_test(&wish, &|| {
            ended.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!((ended.load(Ordering::Relaxed), test.machines, test.alone), (60, 60, 5));
        assert_eq!(test.faults.len(), 8, "{:#?}", test.faults);
        assert!(test.faults.iter().all(|f| f.found), "{:#?}", test.faults);
        assert_eq!(test.false_alarms, []);
        assert_eq!(test.alone_false_alarms, []);
        assert_eq!(test, fleet_test(&wish, &|| ()), "the same seed is the same fleet");
    }

    #[test]
    fn what_tools_print_is_read_as_the_design() {
        for (name, _) in DESIGNS {
            let Design { machine, shown, report, .. } = Design::of(name).unwrap();
            let ends = |m: &Machine| -> Vec<_> {
                [NodeKind::Gpu, NodeKind::Nic].into_iter().flat_map(|kind| m.fabric.of_kind(kind)).collect()
            };
            let classes = |m: &Machine| -> Vec<_> {
                ends(m).iter().flat_map(|a| ends(m).into_iter().map(|b| m.fabric.class(*a, b))).collect()
            };
            assert_eq!(classes(&machine), classes(&shown), "{name}");
            let gpus = |m: &Machine| m.fabric.of_kind(NodeKind::Gpu).map(|id| m.fabric.node(id).name.clone()).collect();
            let (of_design, of_shown): (Vec<String>, Vec<String>) = (gpus(&machine), gpus(&shown));
            assert_eq!(of_design, of_shown, "{name}");
            let halved: String = report.texts(Some("mlx5_2")).into_iter().map(|source| source.text).collect();
            let sound: String = report.texts(None).into_iter().map(|source| source.text).collect();
            assert_eq!(halved != sound, machine.fabric.find("mlx5_2").is_some(), "{name}");
        }
    }

    /// Losses that no published table would show the model to be wrong by, and that its own peers give away.
    #[test]
    fn a_gate_alone_finds_a_fifth_less_by_the_machines_own_peers() {
        let design = Design::of("hgx-h200").unwrap();
        let effects = [(1, Effects::REAL), (2, Effects::MACHINE), (3, Effects::DAY)];
        let at = |faults: &[_]| {
            at_gate(
                &design,
                design.subject(None),
                &Planted { noise: NOISE, seed: 3, faults: faults.to_vec() },
                &effects,
            )
        };
        assert_eq!(at(&[]), []);
        for trouble in [Trouble::SlowPair, Trouble::SlowGpu, Trouble::SlowSlot, Trouble::FarBuffers] {
            let plant = trouble.plant(&design.machine, 0.2, &mut Random::new(1, trouble.name())).unwrap();
            let alarms = at(&plant.faults);
            let alarms: Vec<Alarm> = alarms.into_iter().filter(|one| one.takes_out).map(|one| one.alarm).collect();
            let right = |alarm: &Alarm| alarm.subjects.iter().all(|subject| plant.touches(subject));
            assert!(!alarms.is_empty() && alarms.iter().all(right), "{}: {alarms:#?}", plant.words);
        }
    }

    #[test]
    fn a_machine_accused_of_another_fault_is_not_found() {
        let design = Design::of("hgx-h200").unwrap();
        let plant = Trouble::Hot.plant(&design.machine, 0.3, &mut Random::new(1, "")).unwrap();
        let hot = plant.words.split(' ').nth(2).unwrap().to_owned();
        let other = if hot == "GPU0" { "GPU1" } else { "GPU0" };
        let fault = Some((Trouble::Hot, 0.3, plant));
        let members = [Member { name: "n".to_owned(), design: 0, fault, alone: true, is_seen_twice: false }];
        let wish = Wish { machines: 1, alone: 0, faults: Vec::new(), seed: 0 };
        let accused_of = |gpu: &str| {
            let alarm =
                Alarm { rule: String::new(), subjects: vec![Subject::Node(gpu.to_owned())], summary: String::new() };
            let accused = BTreeMap::from([("n".to_owned(), vec![alarm])]);
            summed(&wish, std::slice::from_ref(&design), &members, &accused, &[Vec::new()])
        };
        let (right, wrong) = (accused_of(&hot), accused_of(other));
        assert_eq!((right.found(), right.false_alarms.len()), ([1, 0], 0));
        assert_eq!((wrong.found(), wrong.false_alarms.len()), ([0, 0], 1));
    }
}
