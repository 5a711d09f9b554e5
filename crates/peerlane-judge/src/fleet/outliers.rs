//! What is suspect about a machine: numbers that differ from those of its peers, and from its own earlier ones.

use std::collections::BTreeMap;

use super::culprit::{Group, groups};
use super::document::Figures;
use super::history::onset;
use super::machines::Machine;
use super::usual::{Bad, FEWEST, Limits, Usual, median};
use super::{Keyed, What, listed};
use crate::check::raised::Raised;
use crate::check::{OUTLIER, Rule, Settings, WORSE_THAN_BEFORE};
use crate::finding::{Certainty, Finding, FindingKind, Severity};
use peerlane_machine::subject::Subject;
use peerlane_measure::run::FlagKind;

/// A number that is alone must be this many times as far off as one of several.
const ALONE: f64 = 1.5;

/// From this loss on it is a fault.
const MUCH: f64 = 0.5;

/// A machine with fewer GPUs is an outlier where this many times as many have more.
const MORE: usize = 4;

/// Numbers that a finding lists; more are counted.
const LISTED: usize = 3;

/// The worst number of a suspect part.
#[derive(Debug)]
pub(super) struct Worst {
    /// In the dictionary.
    pub(super) key: u64,
    /// What it is called.
    pub(super) words: String,
    pub(super) figures: Figures,
}

/// Something suspect about a machine.
#[derive(Debug)]
pub(super) struct Suspect {
    /// As a finding.
    pub(super) finding: Finding,
    pub(super) worst: Option<Worst>,
    /// The share that is lost.
    pub(super) loss: f64,
    /// Numbers that are bad.
    pub(super) numbers: usize,
    /// Records that show it.
    pub(super) repeats: usize,
}

/// What differs from a machine's peers.
pub(super) fn among_peers(machine: &Machine, usual: &Usual, known: &Keyed<What>, settings: &Settings) -> Vec<Suspect> {
    let limits = Limits::of(settings, usual.machines);
    let bad = machine.current.iter().filter_map(|(number, _)| usual.bad(number, known.get(&number.key)?, limits));
    let others = usual.machines - 1;
    let shows = |keys: &BTreeMap<u64, &What>| {
        let records = machine.records.iter().filter(|node| node.kind == machine.newest.kind);
        let bad = |node: &&&super::Node| {
            keys.iter().any(|(key, what)| node.number(*key).is_some_and(|n| usual.bad(n, what, limits).is_some()))
        };
        records.filter(bad).count().max(1)
    };
    let report = |group: Group| {
        counts(&group, |b| {
            limits.times(ALONE).exceeded(b.what, [b.value?; 3], b.usual, || usual.deviation(b.what)).map(drop)
        })
        .then(|| report(machine, group, (&OUTLIER, &format!("{others} machines of its kind")), &shows))
    };
    let all: Vec<&What> = machine.current.iter().filter_map(|(number, _)| known.get(&number.key)).collect();
    let suspects = groups(&machine.name, bad.collect(), &all).into_iter().filter_map(report);
    let mut suspects: Vec<Suspect> = suspects.collect();
    for worst in suspects.iter_mut().filter_map(|suspect| suspect.worst.as_mut()) {
        worst.figures.before = before(machine, worst.key);
    }
    suspects
}

/// What is worse than in a machine's own earlier records. `usual` has the spread between machines, where there are enough.
pub(super) fn since_before(
    machine: &Machine,
    usual: Option<&Usual>,
    known: &Keyed<What>,
    settings: &Settings,
) -> Vec<Suspect> {
    if machine.records.len() == 1 {
        return Vec::new();
    }
    let mut bad: Vec<Bad> = Vec::new();
    let mut shown: BTreeMap<u64, usize> = BTreeMap::new();
    for (number, _) in &machine.current {
        let (Some(what), earlier) = (known.get(&number.key), machine.earlier(number.key)) else { continue };
        if earlier.is_empty() {
            continue;
        }
        // since a loss only the records before it say what the number was
        let newest = number.value().map(|[value, ..]| value);
        let all: Vec<f64> = earlier.iter().map(|[value, ..]| *value).chain(newest).collect();
        let first = newest.and_then(|_| onset(what, &all, settings.fleet.below / 2.0));
        let earlier = &earlier[..first.unwrap_or(earlier.len())];
        let mut values: Vec<f64> = earlier.iter().map(|[value, ..]| *value).collect();
        let old = median(&mut values);
        let Some(value) = number.value() else {
            // a path that is refused now was set up otherwise before
            bad.extend(number.void.filter(|void| *void != FlagKind::NotApplicable).map(|void| Bad {
                key: number.key,
                what,
                value: None,
                usual: old,
                worse: 1.0,
                deviations: f64::INFINITY,
                void: Some(void),
            }));
            continue;
        };
        // an earlier run that a site names as its baseline counts in full
        let limits = if machine.baseline > 0 {
            Limits::of(settings, usize::MAX)
        } else {
            Limits::of(settings, 2 * values.len())
        };
        let sigma = || usual.map_or(0.003, |usual| usual.deviation(what));
        let worst = |of: f64, earlier: &[f64; 3]| if what.is_rate() { of.min(earlier[1]) } else { of.max(earlier[2]) };
        let worst = earlier.iter().fold(old, worst);
        if let Some((worse, deviations)) = limits.exceeded(what, value, old, sigma)
            && what.worse(value[0], worst) > settings.fleet.below / 2.0
        {
            bad.push(Bad { key: number.key, what, value: Some(value[0]), usual: old, worse, deviations, void: None });
            shown.insert(number.key, all.len() - earlier.len());
        }
    }
    let all: Vec<&What> = machine.current.iter().filter_map(|(number, _)| known.get(&number.key)).collect();
    let alone = |b: &Bad| (b.worse > 2.0 * ALONE * settings.fleet.below).then_some(());
    let shows = |keys: &BTreeMap<u64, &What>| keys.keys().filter_map(|key| shown.get(key)).max().copied().unwrap_or(1);
    let own = match machine.records.len() - 1 {
        1 => "its earlier record".to_owned(),
        n => format!("{n} earlier records of it"),
    };
    let report = |group: Group| {
        counts(&group, alone).then(|| {
            let mut suspect = report(machine, group, (&WORSE_THAN_BEFORE, &own), &shows);
            if let Some(Worst { key, figures, .. }) = &mut suspect.worst {
                (figures.before, figures.peers) = (figures.peers, usual.and_then(|usual| usual.median(*key)));
            }
            suspect
        })
    };
    groups(&machine.name, bad, &all).into_iter().filter_map(report).collect()
}

/// The median of a number's earlier values.
fn before(machine: &Machine, key: u64) -> Option<f64> {
    let mut values: Vec<f64> = machine.earlier(key).iter().map(|[value, ..]| *value).collect();
    (!values.is_empty()).then(|| median(&mut values))
}

/// Whether a group accuses anybody: two numbers, one that is far off, or one that is missing; those of the CPU never do.
fn counts(group: &Group, far: impl Fn(&Bad) -> Option<()>) -> bool {
    let sound = || group.bad.iter().filter(|b| !b.what.by_cpu || b.void.is_some());
    sound().count() > 1 || sound().any(|b| b.void.is_some() || far(b).is_some())
}

fn report(
    machine: &Machine,
    group: Group,
    (rule, others): (&Rule, &str),
    shows: &dyn Fn(&BTreeMap<u64, &What>) -> usize,
) -> Suspect {
    let Group { subjects, mut bad } = group;
    let order = |b: &Bad| (b.value.is_none(), b.what.by_cpu);
    bad.sort_by(|a, b| {
        order(a)
            .cmp(&order(b))
            .then(b.worse.total_cmp(&a.worse))
            .then_with(|| a.what.words.cmp(&b.what.words))
            .then(a.key.cmp(&b.key))
    });
    let worst = bad.iter().find(|b| b.value.is_some() && !b.what.by_cpu).cloned();
    let missing: Vec<&Bad> = bad.iter().filter(|b| b.value.is_none()).collect();
    let numbers = bad.len();
    let one = |b: &Bad| match (b.value, b.void) {
        (Some(value), _) => format!("{} {value:.2} {}, not {:.2}", b.what.describe(), b.what.unit.name(), b.usual),
        (None, void) => format!("{} {}", b.what.describe(), why(void)),
    };
    let mut shown: Vec<String> = missing.iter().take(LISTED - 1).map(|b| one(b)).collect();
    shown.extend(bad.iter().filter(|b| b.value.is_some()).take(LISTED - shown.len()).map(one));
    let count = if numbers == 1 { "1 number".to_owned() } else { format!("{numbers} numbers") };
    let are = if numbers == 1 { "is" } else { "are" };
    let reach = match (&worst, missing.len()) {
        (Some(o), 0) => format!("{are} worse by up to {:.0} %", 100.0 * o.worse),
        (Some(o), n) => format!("{are} worse by up to {:.0} %, {n} of them without a value", 100.0 * o.worse),
        (None, _) => format!("without a value ({})", why(missing.first().and_then(|b| b.void))),
    };
    let loss = if missing.is_empty() { worst.as_ref().map_or(0.0, |o| o.worse.clamp(0.0, 1.0)) } else { 1.0 };
    let sure = worst.as_ref().is_none_or(|o| o.deviations > 10.0);
    // less than the peers is no fault as long as nothing known explains it
    let certainty = match loss >= MUCH {
        true if sure => Certainty::Certain,
        true => Certainty::Likely,
        false => Certainty::Possible,
    };
    let than = if rule.id == OUTLIER.id { "than those of" } else { "than in" };
    let repeats = shows(&bad.iter().map(|b| (b.key, b.what)).collect());
    let raised = raise(machine, rule, certainty)
        .summary(match worst {
            Some(_) => format!("{count} {reach} {than} {others}"),
            None => format!("{count} {reach}, unlike {others}"),
        })
        .expected(
            worst
                .as_ref()
                .map_or_else(|| "a value".to_owned(), |o| format!("about {:.2} {}", o.usual, o.what.unit.name())),
        )
        .measured(listed(&shown, numbers))
        .fix(
            "Do what `peerlane check` advises for this record. If it names no cause, swap the card with a \
             neighbour's.",
        )
        .confirm(format!("`peerlane check {}`, and a second run on the machine", machine.newest.file))
        .cost(worst.as_ref().and_then(|o| o.what.cost(o.usual, o.value?)))
        .about(subjects);
    Suspect {
        finding: raised.finding,
        worst: worst.and_then(|o| {
            let figures =
                Figures { measured: o.value?, expected: None, peers: Some(o.usual), before: None, unit: o.what.unit };
            Some(Worst { key: o.key, words: o.what.describe(), figures })
        }),
        loss,
        numbers,
        repeats,
    }
}

fn why(void: Option<FlagKind>) -> &'static str {
    match void {
        Some(FlagKind::Hung) => "hung",
        Some(FlagKind::Corrupt) => "corrupt",
        Some(FlagKind::Implausible) => "implausible",
        Some(FlagKind::NotApplicable) => "refused",
        _ => "failed",
    }
}

fn raise(machine: &Machine, rule: &Rule, certainty: Certainty) -> Raised {
    let raised = rule.raise(FindingKind::Fault, Severity::Warning, certainty);
    raised.evidence(vec![format!("{} (peerlane measure)", machine.newest.file)])
}

/// That a machine of a rare kind has fewer GPUs of the same product than a far more common one.
pub(super) fn fewer_gpus(machine: &Machine, alike: usize, groups: &[Vec<&Machine>]) -> Option<Suspect> {
    let node = machine.newest;
    let more = |group: &&Vec<&Machine>| {
        let other = group.first().map(|machine| machine.newest);
        let same = other.is_some_and(|other| other.products == node.products && other.gpus > node.gpus);
        same && group.len() >= FEWEST.max(MORE * alike)
    };
    let usual = groups.iter().find(more).filter(|_| !node.products.is_empty())?;
    let gpus = usual.first()?.newest.gpus;
    let raised = raise(machine, &OUTLIER, Certainty::Possible)
        .summary(format!("{} GPUs, but {} machines with the same GPUs have {gpus}", node.gpus, usual.len()))
        .expected(format!("{gpus} GPUs"))
        .measured(format!("{} GPUs", node.gpus))
        .fix(
            "Reseat the missing card and switch the machine's power off and on (`lspci` shows whether it is back, \
             Xid 79 in the kernel log whether it fell off). If it is another allocation of a virtual machine, do \
             nothing.",
        )
        .confirm("`nvidia-smi -L`; `lspci -d 10de:`")
        .about(vec![Subject::Machine(machine.name.clone())]);
    let repeats = machine.records.iter().filter(|other| other.gpus == node.gpus).count();
    Some(Suspect {
        finding: raised.finding,
        worst: None,
        loss: 1.0 - node.gpus as f64 / gpus as f64,
        numbers: 0,
        repeats,
    })
}
