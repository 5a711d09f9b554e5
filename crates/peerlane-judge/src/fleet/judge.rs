//! The fleet as a whole: machines, kinds, what is wrong with which machine, and what is a property of a kind.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::hash::BuildHasherDefault;
use std::sync::Arc;

use super::captured::{Fact, fewer_than_peers, older_drivers};
use super::document::{Figures, Fleet, Kind, Member, Outlier, SCHEMA, Shared, Test, Unread};
use super::history::{onset, words};
use super::machines::{Machine, machines};
use super::network;
use super::outliers::{Suspect, Worst, among_peers, fewer_gpus, since_before};
use super::rules::{Again, Look, Seen, look};
use super::shown::{digits, short, time};
use super::usual::{FEWEST, Limits, Usual};
use super::{AsItIs, Dictionary, Keyed, Node, What};
use crate::action::Action;
use crate::check::{Settings, WORSE_THAN_BEFORE, is_never_usual};
use crate::finding::Finding;
use crate::verdict::Verdict;
use peerlane_machine::subject::{self, Subject};

/// Findings of a rule on this share of a kind's machines are a property of the kind.
const MOST: f64 = 0.5;

/// Further findings on the same part that a sentence names.
const FURTHER: usize = 2;

/// Records, and what else is known.
#[derive(Clone, Copy)]
pub struct Records<'a> {
    /// Records of now, in any order.
    pub nodes: &'a [Node],
    /// Earlier ones to compare with.
    pub baseline: &'a [Node],
    /// What their numbers are.
    pub dictionary: &'a Dictionary,
    /// Thresholds and waivers.
    pub settings: &'a Settings,
    /// Reads a record once more, so that the rules can look at it; without, they do not.
    pub again: Option<Again<'a>>,
}

/// Compares machines with their peers and with themselves, without the rules.
pub fn compare(nodes: &[Node], dictionary: &Dictionary, settings: &Settings) -> Fleet {
    judge(&Records { nodes, baseline: &[], dictionary, settings, again: None }, Vec::new())
}

/// What is wrong with which of the machines that left these records.
pub fn judge(records: &Records, mut unread: Vec<Unread>) -> Fleet {
    let Records { nodes, baseline, dictionary, settings, .. } = *records;
    let known = dictionary.take();
    let (all, notes) = machines(nodes, baseline);
    let abouts = network::records(&all);
    let own = kinds(all.iter().filter(|machine| machine.newest.between.is_none()));
    let of_nodes = kinds(all.iter().filter_map(Machine::of_nodes));
    let columns = columns(&all, &known);
    unread.sort();
    let mut fleet = Fleet {
        schema: SCHEMA,
        records: 0,
        kinds: Vec::new(),
        tests: columns.keys().map(|test| (*test).clone()).collect(),
        machines: Vec::new(),
        outliers: Vec::new(),
        network: Vec::new(),
        waived: 0,
        notes,
        unread,
    };
    let counted = all.iter().filter(|machine| machine.newest.between.is_none());
    fleet.records = abouts.len() + counted.map(|machine| machine.records.len() - machine.baseline).sum::<usize>();
    let mut members: BTreeMap<&str, Member> = BTreeMap::new();
    let ends = network::at_ends(&abouts);
    for (group, is_of_nodes) in own.iter().map(|group| (group, false)).chain(of_nodes.iter().map(|group| (group, true)))
    {
        let usual = usual(group, &known);
        let of_kind = if is_of_nodes {
            let (of_kind, of_network) = judged_by_nodes(group, usual.as_ref(), &ends, (records, &known));
            fleet.network.extend(of_network);
            of_kind
        } else {
            judged(group, usual.as_ref(), &own, (records, &known))
        };
        let spread = usual.as_ref().map_or(0.0, |usual| usual.spread(known.values()));
        // the machines that are listed by another kind already
        let known_by_name = group.iter().filter(|machine| members.contains_key(machine.name.as_str())).count();
        let first = group.iter().find(|machine| !members.contains_key(machine.name.as_str()));
        let at = match first {
            Some(first) => {
                fleet.kinds.push(Kind {
                    machines: group.len() - known_by_name,
                    gpus: first.newest.gpus,
                    products: first.newest.products.clone(),
                    example: first.name.clone(),
                    compared: usual.is_some(),
                    spread,
                    shared: of_kind.shared.clone(),
                });
                fleet.kinds.len() - 1
            }
            None => {
                let at = group.first().and_then(|machine| members.get(machine.name.as_str())).map_or(0, |m| m.kind);
                fleet.kinds.get_mut(at).into_iter().for_each(|kind| kind.shared.extend(of_kind.shared.clone()));
                at
            }
        };
        for (machine, own) in group.iter().zip(of_kind.members) {
            fleet.waived += own.seen.waived;
            let own_verdict = own.seen.verdict;
            let (columns, shared) = ((&columns, &known), of_kind.shared.as_slice());
            let (mut found, waived) = outliers(machine, own.suspects, own.seen, shared, columns, settings);
            fleet.waived += waived;
            // no finding on a part explains it
            let of_driver = own.driver.into_iter().collect();
            let (of_driver, waived) = outliers(machine, of_driver, Seen::default(), &[], columns, settings);
            fleet.waived += waived;
            found.extend(of_driver);
            let is_judged = own_verdict.map_or(usual.is_some() || is_of_nodes, |own| own != Verdict::NotJudged);
            let incomplete = machine.newest.lacks;
            // faults that the kind shares are held against none; a limit remains one
            let limit = own_verdict.filter(|own| *own == Verdict::Limited).unwrap_or(Verdict::Healthy);
            let verdict = Verdict::of(found.iter().map(|outlier| &outlier.finding), is_judged, !incomplete).max(limit);
            let scores = scores(machine, usual.as_ref(), columns.0, &known);
            let member = Member {
                name: machine.name.clone(),
                kind: at,
                records: machine.records.len() - machine.baseline,
                first: time(machine.records.iter().skip(machine.baseline).map(|node| node.began).min()),
                last: time(machine.records.iter().map(|node| node.began).max()),
                verdict,
                incomplete,
                action: found.iter().map(|outlier| outlier.action).min(),
                scores,
            };
            match members.get_mut(machine.name.as_str()) {
                Some(known) => join(known, member),
                None => drop(members.insert(&machine.name, member)),
            }
            fleet.outliers.extend(found);
        }
    }
    let (of_network, waived) = network::between(&abouts, settings);
    fleet.network.extend(of_network);
    fleet.waived += waived;
    let place: HashMap<&str, usize> = all.iter().enumerate().map(|(at, machine)| (machine.name.as_str(), at)).collect();
    fleet.machines = members.into_values().collect();
    fleet.machines.sort_by_key(|member| place.get(member.name.as_str()));
    for outliers in [&mut fleet.outliers, &mut fleet.network] {
        outliers.sort_by(|a, b| {
            // losses within a tenth are as large, so that what shows again and again comes first
            let tenths = |o: &Outlier| (10.0 * o.loss).round() as i64;
            (b.finding.severity, tenths(b), b.repeats).cmp(&(a.finding.severity, tenths(a), a.repeats)).then_with(
                || b.loss.total_cmp(&a.loss).then(place.get(a.machine.as_str()).cmp(&place.get(b.machine.as_str()))),
            )
        });
    }
    fleet
}

/// Adds what records between nodes show of a machine to what its own do.
fn join(known: &mut Member, more: Member) {
    known.records += more.records;
    known.first = known.first.take().into_iter().chain(more.first).min();
    known.last = known.last.take().into_iter().chain(more.last).max();
    known.action = known.action.into_iter().chain(more.action).min();
    known.verdict = known.verdict.max(more.verdict);
    known.incomplete |= more.incomplete;
    for (slot, score) in known.scores.iter_mut().zip(more.scores) {
        *slot = slot.or(score);
    }
}

/// What is usual in a kind, where it has enough machines.
fn usual(group: &[&Machine], known: &Keyed<What>) -> Option<Usual> {
    let measured: Vec<&Machine> = group.iter().copied().filter(|machine| machine.newest.captured.is_none()).collect();
    (measured.len() >= FEWEST).then(|| Usual::of(&measured, known))
}

/// What is suspect and at fault on one machine of a kind.
struct OfMachine {
    suspects: Vec<Suspect>,
    seen: Seen,
    /// That its driver is older than that of its peers.
    driver: Option<Suspect>,
}

/// The same of all of them, and what is a property of the kind.
struct OfKind {
    members: Vec<OfMachine>,
    shared: Vec<Shared>,
}

/// What differs on each machine from its peers, and from itself before.
fn suspects(group: &[&Machine], usual: Option<&Usual>, known: &Keyed<What>, settings: &Settings) -> Vec<Vec<Suspect>> {
    let of = |machine: &&Machine| {
        let mut found: Vec<Suspect> =
            usual.iter().flat_map(|usual| among_peers(machine, usual, known, settings)).collect();
        let earlier = since_before(machine, usual, known, settings);
        let fresh = earlier.into_iter().filter(|s| !found.iter().any(|f| overlap(&f.finding, &s.finding)));
        let fresh: Vec<Suspect> = fresh.collect();
        found.extend(fresh);
        found
    };
    group.iter().map(of).collect()
}

/// Machines of a kind by their own records; `kinds` are all of these.
fn judged(
    group: &[&Machine],
    usual: Option<&Usual>,
    kinds: &[Vec<&Machine>],
    (records, known): (&Records, &Keyed<What>),
) -> OfKind {
    let settings = records.settings;
    let mut suspects = suspects(group, usual, known, settings);
    for (machine, own) in group.iter().zip(&mut suspects) {
        own.extend(fewer_gpus(machine, group.len(), kinds));
    }
    let mut seen = match records.again {
        Some(again) => ruled(group, &suspects, usual, known, again, settings),
        None => vec![Seen::default(); group.len()],
    };
    let mut shared = shared(&seen, group.len());
    let facts: Vec<Arc<[Fact]>> = seen.iter().map(|seen| seen.facts.clone()).collect();
    let facts = group.iter().zip(&facts);
    let facts: Vec<&[Fact]> = facts.map(|(machine, read)| machine.facts().map_or(&read[..], Vec::as_slice)).collect();
    for ((fewer, suspects), seen) in fewer_than_peers(group, &facts).into_iter().zip(&mut suspects).zip(&mut seen) {
        match fewer {
            // what rates show as well is its consequence
            Some(fewer) if suspects.iter().any(|s| overlap(&s.finding, &fewer.finding)) => {
                seen.faults.push(fewer.finding)
            }
            fewer => suspects.extend(fewer),
        }
    }
    shared.extend(drift(&mut suspects, group.len()));
    let drivers = older_drivers(group);
    let members = suspects.into_iter().zip(seen).zip(drivers);
    let members = members.map(|((suspects, seen), driver)| OfMachine { suspects, seen, driver }).collect();
    OfKind { members, shared }
}

/// Machines of a kind by records between nodes, and what is a matter of the network between them. `ends` are machines at the end of
/// several slow paths.
fn judged_by_nodes(
    group: &[&Machine],
    usual: Option<&Usual>,
    ends: &BTreeMap<String, Finding>,
    (records, known): (&Records, &Keyed<What>),
) -> (OfKind, Vec<Outlier>) {
    let settings = records.settings;
    let mut suspects = suspects(group, usual, known, settings);
    let mut seen: Vec<Seen> = group.iter().map(|machine| network::seen(machine, settings)).collect();
    let of_network = network::of_records(group, &mut suspects, &seen);
    let shared = shared(&seen, group.len());
    for ((machine, seen), suspects) in group.iter().zip(&mut seen).zip(&mut suspects) {
        network::explained(&machine.name, seen, suspects);
        // a part of it that is known to be at fault explains them
        if seen.faults.is_empty() {
            seen.faults.extend(ends.get(&machine.newest.name).cloned());
        }
    }
    let members = suspects.into_iter().zip(seen).map(|(suspects, seen)| OfMachine { suspects, seen, driver: None });
    (OfKind { members: members.collect(), shared }, of_network)
}

/// Machines by kind, the most common first.
fn kinds<'m, 'a: 'm>(all: impl Iterator<Item = &'m Machine<'a>>) -> Vec<Vec<&'m Machine<'a>>> {
    let mut by_kind: BTreeMap<&str, Vec<&Machine>> = BTreeMap::new();
    all.for_each(|machine| by_kind.entry(&machine.newest.kind).or_default().push(machine));
    let mut groups: Vec<Vec<&Machine>> = by_kind.into_values().collect();
    groups.sort_by_key(|members| std::cmp::Reverse(members.len()));
    groups
}

/// The columns of all numbers, with their places.
fn columns<'k>(all: &[Machine], known: &'k Keyed<What>) -> BTreeMap<&'k Test, usize> {
    let both = all.iter().flat_map(|machine| [Some(machine), machine.between.as_deref()]).flatten();
    let keys: HashSet<u64, BuildHasherDefault<AsItIs>> =
        both.flat_map(|machine| &machine.current).map(|(number, _)| number.key).collect();
    let found: BTreeSet<&Test> =
        keys.iter().filter_map(|key| known.get(key)).filter(|w| !w.by_cpu).map(|w| &w.column).collect();
    found.into_iter().enumerate().map(|(at, test)| (test, at)).collect()
}

/// The worst value of each column over the median.
fn scores(
    machine: &Machine,
    usual: Option<&Usual>,
    columns: &BTreeMap<&Test, usize>,
    known: &Keyed<What>,
) -> Vec<Option<f32>> {
    let mut scores: Vec<Option<f32>> = vec![None; columns.len()];
    let Some(usual) = usual else { return scores };
    for (number, _) in &machine.current {
        let Some(what) = known.get(&number.key) else { continue };
        let Some(slot) = columns.get(&what.column).and_then(|at| scores.get_mut(*at)) else { continue };
        let (Some([value, ..]), Some(median)) = (number.value(), usual.median(number.key)) else { continue };
        let score = if what.is_rate() { value / median } else { median / value };
        // three digits: what a cell shows
        let score = ((1000.0 * score).round() / 1000.0) as f32;
        *slot = Some(slot.map_or(score, |worst| worst.min(score)));
    }
    scores
}

/// What the rules find on each machine of a kind.
fn ruled(
    members: &[&Machine],
    suspects: &[Vec<Suspect>],
    usual: Option<&Usual>,
    known: &Keyed<What>,
    again: Again,
    settings: &Settings,
) -> Vec<Seen> {
    let looks = members.iter().zip(suspects).map(|(machine, suspects)| {
        let limits = Limits::of(settings, usize::MAX);
        let typical = || usual.is_some_and(|usual| usual.is_typical(machine, known, limits));
        let alike = suspects.is_empty()
            && !machine.newest.lacks
            && settings.waive.is_empty()
            && (machine.newest.captured.is_some() || typical());
        Look {
            name: &machine.name,
            node: machine.newest,
            like: alike.then_some(machine.newest.facts),
            wanted: suspects.iter().filter_map(|suspect| Some(suspect.worst.as_ref()?.figures.measured)).collect(),
        }
    });
    // what was gathered beside a run
    let gathered = |machine: &&&Machine| machine.newest.captured.is_none();
    let also = members.iter().filter(gathered).filter_map(|machine| {
        let node = machine.captured()?;
        let like = settings.waive.is_empty().then_some(node.facts);
        Some(Look { name: &machine.name, node, like, wanted: Vec::new() })
    });
    let looks: Vec<Look> = looks.chain(also).collect();
    let mut seen = look(&looks, again, settings);
    let places: HashMap<&str, usize> = members.iter().enumerate().map(|(at, m)| (m.name.as_str(), at)).collect();
    for (more, look) in seen.split_off(members.len()).into_iter().zip(looks.iter().skip(members.len())) {
        let Some(own) = places.get(look.name).and_then(|at| seen.get_mut(*at)) else { continue };
        own.waived += more.waived;
        let fresh = more.faults.into_iter().filter(|f| !own.faults.iter().any(|o| o.rule == f.rule && overlap(o, f)));
        let fresh: Vec<Finding> = fresh.collect();
        own.faults.extend(fresh);
    }
    seen
}

/// Findings of rules that most machines have.
fn shared(seen: &[Seen], machines: usize) -> Vec<Shared> {
    if machines < FEWEST {
        return Vec::new();
    }
    let mut by_rule: BTreeMap<&str, (&Finding, usize)> = BTreeMap::new();
    for one in seen {
        let mut own: BTreeMap<&str, &Finding> = BTreeMap::new();
        for finding in one.faults.iter().filter(|finding| !is_never_usual(&finding.rule)) {
            own.entry(&finding.rule).or_insert(finding);
        }
        own.into_iter().for_each(|(rule, finding)| by_rule.entry(rule).or_insert((finding, 0)).1 += 1);
    }
    let most = |(_, n): &(&Finding, usize)| *n as f64 > MOST * machines as f64;
    let shared = by_rule.into_values().filter(most);
    shared.map(|(f, n)| Shared { rule: f.rule.clone(), summary: f.summary.clone(), machines: n }).collect()
}

/// That most machines of a kind are worse than before, as after an upgrade of a driver; none of them is then suspect of it.
fn drift(suspects: &mut [Vec<Suspect>], machines: usize) -> Option<Shared> {
    let drifted = |suspect: &Suspect| suspect.finding.rule == WORSE_THAN_BEFORE.id;
    let worse = suspects.iter().filter(|own| own.iter().any(drifted)).count();
    if machines < FEWEST || worse as f64 <= MOST * machines as f64 {
        return None;
    }
    let summary = suspects.iter().flatten().find(|s| drifted(s)).map(|s| s.finding.summary.clone())?;
    suspects.iter_mut().for_each(|own| own.retain(|suspect| !drifted(suspect)));
    Some(Shared { rule: WORSE_THAN_BEFORE.id.to_owned(), summary, machines: worse })
}

/// Whether two findings are about the same part, or one of them about the machine.
fn overlap(a: &Finding, b: &Finding) -> bool {
    let nodes =
        |finding: &Finding| finding.subjects.iter().flat_map(Subject::nodes).map(str::to_owned).collect::<Vec<_>>();
    let (a, b) = (nodes(a), nodes(b));
    a.is_empty() || b.is_empty() || a.iter().any(|node| b.contains(node))
}

/// The outliers of one machine, and how many the site waives. What a rule finds on the part that is suspect explains it.
fn outliers(
    machine: &Machine,
    suspects: Vec<Suspect>,
    mut seen: Seen,
    shared: &[Shared],
    (columns, known): (&BTreeMap<&Test, usize>, &Keyed<What>),
    settings: &Settings,
) -> (Vec<Outlier>, usize) {
    seen.faults.retain(|finding| !shared.iter().any(|shared| shared.rule == finding.rule));
    let named = std::mem::take(&mut seen.repeats);
    let repeats = |subjects: &[Subject]| named.get(&subject::join(subjects, " ")).copied().unwrap_or(1);
    let (mut outliers, mut waived) = (Vec::new(), 0);
    for suspect in suspects {
        if settings.waiver(&machine.name, &suspect.finding).is_some() {
            waived += 1;
            continue;
        }
        let (mut causes, rest): (Vec<Finding>, Vec<Finding>) =
            seen.faults.into_iter().partition(|finding| overlap(&suspect.finding, finding));
        seen.faults = rest;
        let figures = suspect.worst.as_ref().map(|worst| {
            let known = seen.expected.iter().find(|(of, _)| *of == worst.figures.measured);
            Figures { expected: known.map(|(_, expected)| *expected), ..worst.figures }
        });
        let test = suspect.worst.as_ref().and_then(|worst| columns.get(&known.get(&worst.key)?.column).copied());
        let mut action = Action::of(&suspect.finding);
        let mut finding = suspect.finding.clone();
        let history = suspect.worst.as_ref().map(|worst| machine.history(worst.key)).unwrap_or_default();
        let values: Vec<f64> = history.iter().map(|past| past.value).collect();
        let what = suspect.worst.as_ref().and_then(|worst| known.get(&worst.key));
        let onset = what.and_then(|what| onset(what, &values, settings.fleet.below / 2.0));
        let mut why = why(&suspect, figures);
        if let Some(since) = onset.map(|at| words(&history, at)).filter(|words| !words.is_empty()) {
            why = format!("{why}; {since}");
        }
        let times = causes.iter().map(|cause| repeats(&cause.subjects)).max().unwrap_or(1);
        if !causes.is_empty() {
            let cause = causes.remove(0);
            let nodes = |subjects: &[Subject]| subjects.iter().flat_map(Subject::nodes).count();
            let (fewer, count) = (nodes(&cause.subjects), nodes(&finding.subjects));
            if count == 0 || fewer > 0 && fewer < count {
                finding.subjects.clone_from(&cause.subjects);
            }
            action = action.min(Action::of(&cause));
            finding = Finding { severity: finding.severity.max(cause.severity), subjects: finding.subjects, ..cause };
            for further in causes.iter().take(FURTHER) {
                action = action.min(Action::of(further));
                why = format!("{why}; also {} [{}]", further.summary, further.rule);
            }
        }
        outliers.push(Outlier {
            action,
            why,
            worst: figures.map(Figures::rounded),
            loss: digits(suspect.loss),
            numbers: suspect.numbers,
            test,
            since: onset.and_then(|at| history.get(at)?.began.clone()),
            history,
            ..of_rule(&machine.name, &machine.newest.file, finding, suspect.repeats.max(times))
        });
    }
    for finding in seen.faults {
        if settings.waiver(&machine.name, &finding).is_some() {
            waived += 1;
            continue;
        }
        let repeats = repeats(&finding.subjects);
        outliers.push(of_rule(&machine.name, &machine.newest.file, finding, repeats));
    }
    (outliers, waived)
}

/// What a rule finds on a machine, or between machines.
pub(super) fn of_rule(machine: &str, file: &str, finding: Finding, repeats: usize) -> Outlier {
    Outlier {
        machine: machine.to_owned(),
        action: Action::of(&finding),
        why: format!("measured: {}; expected: {}", finding.measured, finding.expected),
        loss: digits(finding.cost.map_or(0.0, |cost| cost.share.clamp(0.0, 1.0))),
        finding,
        worst: None,
        numbers: 0,
        repeats,
        test: None,
        history: Vec::new(),
        since: None,
        file: file.to_owned(),
    }
}

impl Figures {
    /// With six digits: more than any measurement provides.
    pub(super) fn rounded(self) -> Figures {
        let [expected, peers, before] = [self.expected, self.peers, self.before].map(|value| value.map(digits));
        Figures { measured: digits(self.measured), expected, peers, before, unit: self.unit }
    }
}

/// `GPU2→GPU0 (pairs, bandwidth) 237.5 GB/s; expected 372.0, peers 396.1, before 395.8`
fn why(suspect: &Suspect, figures: Option<Figures>) -> String {
    let (Some(Worst { words, .. }), Some(figures)) = (&suspect.worst, figures) else {
        return suspect.finding.measured.clone();
    };
    let Figures { measured, expected, peers, before, unit } = figures;
    let against = [("expected", expected), ("peers", peers), ("before", before)];
    let against = against.into_iter().filter_map(|(name, value)| Some(format!("{name} {}", short(value?))));
    let all = against.collect::<Vec<_>>().join(", ");
    // what has no value is named there
    let missing = if suspect.loss >= 1.0 { format!("; {}", suspect.finding.measured) } else { String::new() };
    format!("{words} {} {}; {all}{missing}", short(measured), unit.name())
}
