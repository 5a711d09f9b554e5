//! The likeliest set of assumptions, named and rated.
//!
//! The search starts from every PCIe width for all GPUs together, each with peer access and with staging, by CPUs of the time and
//! by none; from the best of these it changes one thing at a time until nothing is likelier.

use std::collections::HashMap;
use std::fmt;

use super::candidates::{Access, Candidate, Group, Open};
use super::clues::Clues;
use super::likelihood::{Score, Scorer};
use super::observed::{self, Observed};
use crate::comparison::Comparison;
use crate::expectation::{Expected, Metric};
use crate::model::{FittedWidths, Model};
use peerlane_machine::machine::{Machine, MachineKind};
use peerlane_machine::names::{natural, ranges};
use peerlane_machine::origin::Origin;
use peerlane_read::catalogue::Parts;

/// Machines with more devices are not fitted: no source of prose and matrices describes one, and pairs grow with the square.
const MOST_DEVICES: usize = 64;

/// Sets from which the search goes on.
const STARTS: usize = 3;

/// Rounds of changes; two are usual.
const ROUNDS: usize = 4;

/// ln of how many times as likely the best set is as one that is not worth considering: 100.
const WORTH: f64 = 4.6;

/// How far the values may lie apart that two sets expect of one path, where they count as the same.
const SAME: f64 = 0.1;

/// How sure the fit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rating {
    /// Nothing was measured that would show it: what was usual at the time.
    Usual,
    /// Another set is within three times as likely.
    Open,
    /// It is at least three times as likely as any other.
    Likely,
    /// It is at least 100 times as likely.
    Clear,
}

impl fmt::Display for Rating {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rating::Usual => "usual",
            Rating::Open => "open",
            Rating::Likely => "likely",
            Rating::Clear => "clear",
        })
    }
}

/// A measured value that no set of assumptions worth considering explains.
#[derive(Clone, Debug, PartialEq)]
pub struct Unexplained {
    /// What it is of.
    pub metric: Metric,
    /// Source and destination.
    pub ends: [String; 2],
    /// The value, in the metric's unit.
    pub measured: f64,
    /// The least and the most that any of the sets allows, in the same unit.
    pub allowed: [f64; 2],
    /// Where it stands.
    pub origin: Origin,
}

/// What was assumed of a machine to explain what was measured on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// What is assumed: `GPU0–GPU3 at PCIe 3.0 x16`.
    pub assumed: Vec<String>,
    /// How sure that is.
    pub rating: Rating,
    /// Share of the likelihood of all sets, from 0 to 1, that belongs to sets which expect the same of all that was measured,
    /// within a tenth: they may differ in what was not.
    pub agreement: f64,
    /// Measured values.
    pub measured: usize,
    /// Those of them that lie in their intervals.
    pub explained: usize,
    /// Sets of assumptions that were scored.
    pub scored: usize,
    /// What the next best set would change, and how many times less likely it is.
    pub next: Option<(String, f64)>,
    /// Lines of prose that count as weak evidence: `lines 12 and 30`.
    pub prose: Vec<String>,
    /// What dates the source: `SOC labels, 2016 at the latest`.
    pub dated: Option<String>,
    /// Measured values that no set explains.
    pub unexplained: Vec<Unexplained>,
    /// Whether it takes links of GPUs to have fewer lanes than their products, or any GPUs, are built with: a narrow link
    /// explains a low rate, and does not make it a sound one.
    pub narrow: bool,
}

/// Lanes of a GPU of which no product is known.
const LANES: u8 = 16;

impl Fit {
    /// In sentences, for people.
    pub fn sentences(&self) -> Vec<String> {
        let prose = match self.prose.as_slice() {
            [] => String::new(),
            lines => format!(" and the prose of {}", lines.join(", ")),
        };
        let dated = self.dated.as_ref().map_or(String::new(), |dated| format!(" ({dated})"));
        let basis = match self.rating {
            Rating::Usual if !self.prose.is_empty() => {
                format!("by the prose of {}{dated}; nothing was measured that would show it", self.prose.join(", "))
            }
            Rating::Usual => format!("usual at the time{dated}; nothing was measured that would show it"),
            rating => {
                let next = self.next.as_ref().map_or(String::new(), |(what, times)| {
                    let times = if *times >= 1000.0 { "over 1000".to_owned() } else { format!("{times:.1}") };
                    format!("; next: {what}, {times} times less likely")
                });
                format!(
                    "fitted to {} measured values{prose}{dated}, {} of them in its intervals; rated {rating} among {} sets{next}",
                    self.measured, self.explained, self.scored
                )
            }
        };
        let assumed = if self.assumed.is_empty() { "nothing else".to_owned() } else { self.assumed.join("; ") };
        vec![format!("{assumed}: {basis}")]
    }
}

/// A fit, with the machine and the widths that it assumes.
pub(super) struct Fitted {
    /// The logarithm of its likelihood with its prior, up to a constant.
    pub(super) likelihood: f64,
    pub(super) machine: Machine,
    pub(super) widths: FittedWidths,
    pub(super) fit: Fit,
}

/// Fits what a machine's sources leave open. `None` of machines that a person described, where nothing is open, and where
/// nothing shows what it could be. In places that are assumed (`placed`), something always is.
pub(super) fn fit(machine: &Machine, parts: &Parts, placed: bool) -> Option<Fitted> {
    if machine.kind != MachineKind::Captured || machine.fabric.devices().len() > MOST_DEVICES {
        return None;
    }
    let open = Open::of(machine, parts);
    if open.is_closed() && !placed {
        return None;
    }
    let clues = Clues::of(machine);
    let stated = Model::new(machine, parts);
    let observed = observed::of(machine, &Comparison::of(&stated));
    let unnamed = open.groups.iter().any(|group| group.able.is_none());
    if observed.is_empty() && !clues.states() && open.adapter.is_none() && !(clues.latest.is_some() && unnamed) {
        return None;
    }
    let mut search = Search {
        scorer: Scorer::new(machine, &observed, parts),
        open: &open,
        clues: &clues,
        known: HashMap::new(),
        measured: !observed.is_empty(),
    };
    let best = search.best()?;
    let Search { known, .. } = search;
    let fit = describe(machine, &open, &clues, &observed, &known, &best)?;
    let measured = !observed.is_empty();
    let machine = open.machine(machine, &best);
    let widths = open.links(&machine, parts, &best, measured);
    let likelihood = known.get(&best)?.value;
    Some(Fitted { likelihood, machine, widths, fit })
}

/// Sets of assumptions with their scores; a score's value has the prior in it.
type Known = HashMap<Candidate, Score>;

struct Search<'s, 'p> {
    scorer: Scorer<'p>,
    open: &'s Open<'p>,
    clues: &'s Clues,
    known: Known,
    measured: bool,
}

impl Search<'_, '_> {
    fn score(&mut self, candidate: &Candidate) -> f64 {
        if let Some(known) = self.known.get(candidate) {
            return known.value;
        }
        let prior = self.clues.prior(self.open, candidate);
        let mut score = match self.measured {
            true => self.scorer.score(self.open, candidate),
            false => Score { value: 0.0, expected: Vec::new() },
        };
        score.value += prior;
        let value = score.value;
        self.known.insert(candidate.clone(), score);
        value
    }

    /// The likeliest set.
    fn best(&mut self) -> Option<Candidate> {
        let open = self.open;
        let widths = match open.groups.iter().enumerate().max_by_key(|(i, _)| open.widths(*i).len()) {
            Some((widest, _)) => open.widths(widest).into_iter().map(|width| open.everywhere(width)).collect(),
            None => vec![Vec::new()],
        };
        // CPUs without a name, and the newest of the time
        let newest = open.cpus.iter().rposition(|(_, cpu)| self.clues.allows(cpu.year));
        let cpus = if self.measured { vec![None, newest] } else { vec![None] };
        let mut starts: Vec<(f64, Candidate)> = Vec::new();
        for widths in widths {
            for (&sockets, &within) in open.sockets().iter().flat_map(|s| open.within().iter().map(move |w| (s, w))) {
                for &cpu in &cpus {
                    let candidate = Candidate { widths: widths.clone(), cpu, sockets, within };
                    starts.push((self.score(&candidate), candidate));
                }
            }
        }
        starts.sort_by(|a, b| b.0.total_cmp(&a.0));
        starts.truncate(STARTS);
        let climbed = starts.into_iter().map(|(value, start)| self.climb(value, start)).collect::<Vec<_>>();
        climbed.into_iter().reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|best| best.1)
    }

    /// Changes one thing at a time until nothing is likelier.
    fn climb(&mut self, mut value: f64, mut at: Candidate) -> (f64, Candidate) {
        for _ in 0..ROUNDS {
            let before = value;
            for next in self.neighbours(&at) {
                let score = self.score(&next);
                // a named CPU for nothing explains nothing
                if score > value + 1e-9 {
                    (value, at) = (score, next);
                }
            }
            if value <= before {
                break;
            }
        }
        (value, at)
    }

    fn neighbours(&self, at: &Candidate) -> Vec<Candidate> {
        let open = self.open;
        let cpus = (0..open.cpus.len()).filter(|_| self.measured).map(Some).chain([None]);
        let mut all: Vec<Candidate> = cpus.map(|cpu| Candidate { cpu, ..at.clone() }).collect();
        all.extend(open.sockets().iter().map(|&sockets| Candidate { sockets, ..at.clone() }));
        all.extend(open.within().iter().map(|&within| Candidate { within, ..at.clone() }));
        for group in 0..open.groups.len() {
            all.extend(open.widths(group).into_iter().map(|width| {
                let mut next = at.clone();
                next.widths[group] = width;
                next
            }));
        }
        all
    }
}

fn describe(
    machine: &Machine,
    open: &Open,
    clues: &Clues,
    observed: &[Observed],
    known: &Known,
    best: &Candidate,
) -> Option<Fit> {
    let score = known.get(best)?;
    let worth: Vec<&Score> = known.values().filter(|other| score.value - other.value <= WORTH).collect();
    let (mut measured, mut explained) = (0, 0);
    let mut unexplained = Vec::new();
    for (i, of_kind) in observed.iter().enumerate() {
        measured += of_kind.count();
        let expected = |score: &Score| score.expected.get(i).cloned().flatten();
        if let Some(Expected { low, high, .. }) = expected(score) {
            explained += of_kind.count() - of_kind.outside([low, high]).count();
        }
        let each = worth.iter().filter_map(|score| expected(score));
        let allowed = each.map(|e| allowed(&e)).reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])]);
        let Some(allowed) = allowed else { continue };
        unexplained.extend(of_kind.outside(allowed).map(|number| Unexplained {
            metric: of_kind.metric(),
            ends: [number.row.clone(), number.col.clone()],
            measured: number.value,
            allowed,
            origin: of_kind.origin().clone(),
        }));
    }
    // another CPU with the same links is no other set of assumptions to a reader
    let differs =
        |other: &&Candidate| (&other.widths, other.sockets, other.within) != (&best.widths, best.sockets, best.within);
    let others = known.iter().filter(|(other, _)| differs(other));
    let next = others.max_by(|a, b| a.1.value.total_cmp(&b.1.value));
    let distance = next.map_or(f64::INFINITY, |(_, other)| score.value - other.value);
    let rating = match distance {
        _ if observed.is_empty() => Rating::Usual,
        d if d >= WORTH => Rating::Clear,
        d if d >= 3_f64.ln() => Rating::Likely,
        _ => Rating::Open,
    };
    let alike = |other: &Score| {
        let pairs = score.expected.iter().zip(&other.expected);
        pairs.into_iter().all(|(own, its)| match (own, its) {
            (Some(own), Some(its)) => (own.value - its.value).abs() <= SAME * own.value,
            (own, its) => own.is_none() == its.is_none(),
        })
    };
    let likelihood = |other: &Score| (other.value - score.value).exp();
    let agreement = known.values().filter(|other| alike(other)).map(likelihood).sum::<f64>()
        / known.values().map(likelihood).sum::<f64>();
    let dated = clues.latest.zip(clues.dated_by).map(|(latest, by)| format!("{by}: {latest} at the latest"));
    let next = next.map(|(other, _)| (changes(machine, open, best, other), distance.exp()));
    let narrow = open.groups.iter().zip(&best.widths).any(|(group, width)| {
        let built = group.able.and_then(|able| able.lanes).unwrap_or(LANES);
        width.lanes.is_some_and(|lanes| lanes < built)
    });
    let assumed = in_words(machine, open, best);
    Some(Fit {
        assumed,
        rating,
        agreement,
        measured,
        explained,
        scored: known.len(),
        next,
        dated,
        prose: clues.lines.clone(),
        unexplained,
        narrow,
    })
}

/// The least and the most that a value may be: twice as far from the middle as the interval's ends, in logarithms, as verdicts
/// take it.
fn allowed(expected: &Expected) -> [f64; 2] {
    let most = if expected.value > 0.0 { expected.high * expected.high / expected.value } else { expected.high };
    [expected.least(), most]
}

fn in_words(machine: &Machine, open: &Open, candidate: &Candidate) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for (i, width) in candidate.widths.iter().enumerate() {
        // groups of one width stand together
        if candidate.widths[..i].contains(width) {
            continue;
        }
        let of_width = open.groups.iter().zip(&candidate.widths).filter(|(_, other)| *other == width);
        words.push(format!("{} at PCIe {width}", gpus(machine, of_width.map(|(group, _)| group))));
    }
    words.extend(access(candidate.sockets).map(|how| format!("{how} between sockets")));
    words.extend(access(candidate.within).map(|how| format!("{how} within a socket")));
    let cpu = candidate.cpu.and_then(|cpu| open.cpus.get(cpu));
    words.extend(cpu.map(|(part, _)| format!("CPUs like {}", part.title)));
    words.extend(open.adapter.map(|part| format!("adapters: {}", part.title)));
    words
}

/// What another set of assumptions has that the best has not.
fn changes(machine: &Machine, open: &Open, best: &Candidate, other: &Candidate) -> String {
    let mut words: Vec<String> = Vec::new();
    for ((group, width), before) in open.groups.iter().zip(&other.widths).zip(&best.widths) {
        if width != before {
            words.push(format!("{} at PCIe {width}", gpus(machine, std::iter::once(group))));
        }
    }
    if other.sockets != best.sockets {
        words.extend(access(other.sockets).map(|how| format!("{how} between sockets")));
    }
    if other.within != best.within {
        words.extend(access(other.within).map(|how| format!("{how} within a socket")));
    }
    words.join(" and ")
}

fn access(access: Option<Access>) -> Option<&'static str> {
    Some(match access? {
        Access::Direct => "direct",
        Access::Staged => "staged",
    })
}

fn gpus<'g>(machine: &Machine, groups: impl Iterator<Item = &'g Group>) -> String {
    let ids = groups.flat_map(|group| &group.gpus);
    let mut names: Vec<&str> = ids.map(|gpu| machine.fabric.node(*gpu).name.as_str()).collect();
    names.sort_by_key(|name| natural(name));
    ranges(&names)
}
