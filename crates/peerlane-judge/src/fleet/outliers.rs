//! Which of many machines differ from the others of their kind.

use std::collections::{BTreeMap, HashMap};

use schemars::JsonSchema;
use serde::Serialize;

use super::{Dictionary, Node, What, listed, subjects};
use crate::check::raised::Raised;
use crate::check::{Certainty, Finding, FindingKind, OUTLIER, Settings, Severity};
use peerlane_machine::subject::Subject;
use peerlane_measure::run::FlagKind;

/// Machines of a kind that it takes to know what is usual.
const FEWEST: usize = 4;

/// A standard deviation below this is that of too few digits.
const LEAST_DEVIATION: f64 = 0.003;

/// A number that is alone must be this many times as far off as one of several.
const ALONE: f64 = 1.5;

/// This share of the others must have a number for one without it to be an outlier.
const OTHERS: f64 = 0.8;

/// From this loss on it is an error.
const MUCH: f64 = 0.5;

/// A machine with fewer GPUs is an outlier where this many times as many have more.
const MORE: usize = 4;

/// Numbers that a finding lists; more are counted.
const LISTED: usize = 6;

/// Many machines compared with each other.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Fleet {
    /// Names this format.
    #[schemars(extend("const" = "peerlane/fleet/2"))]
    pub schema: &'static str,
    /// Runs that were compared.
    pub runs: usize,
    /// The kinds of machines, the most common first.
    pub kinds: Vec<Kind>,
    /// The outliers, the worst first.
    pub outliers: Vec<Outlier>,
}

/// Machines with the same GPUs, NICs and path classes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Kind {
    /// How many there are.
    pub machines: usize,
    /// GPUs of each.
    pub gpus: usize,
    /// Their products.
    pub products: Vec<String>,
    /// One of them.
    pub example: String,
    /// Whether there are enough to know what is usual.
    pub compared: bool,
    /// The largest standard deviation between machines, of all kinds of numbers, as a share; robust.
    pub spread: f64,
}

/// A machine that differs from the others of its kind.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Outlier {
    /// Its name.
    pub machine: String,
    /// Its run.
    pub file: String,
    /// Numbers that are off, or missing.
    pub numbers: usize,
    /// What is wrong, as a finding.
    pub finding: Finding,
}

/// A number on the bad side of its peers'.
struct Off<'a> {
    what: &'a What,
    value: f64,
    usual: f64,
    worse: f64,
    deviations: f64,
}

/// Compares machines of each kind with each other.
pub fn compare(nodes: &[Node], dictionary: &Dictionary, settings: &Settings) -> Fleet {
    let known = dictionary.take();
    let mut by_kind: BTreeMap<&str, Vec<&Node>> = BTreeMap::new();
    nodes.iter().for_each(|node| by_kind.entry(&node.kind).or_default().push(node));
    let mut groups: Vec<Vec<&Node>> = by_kind.into_values().collect();
    groups.sort_by_key(|members| std::cmp::Reverse(members.len()));
    let mut fleet = Fleet { schema: "peerlane/fleet/2", runs: nodes.len(), kinds: Vec::new(), outliers: Vec::new() };
    for members in &groups {
        let Some(first) = members.first() else { continue };
        let compared = members.len() >= FEWEST;
        let usual = Usual::of(members, &known);
        fleet.kinds.push(Kind {
            machines: members.len(),
            gpus: first.gpus,
            products: first.products.clone(),
            example: first.name.clone(),
            compared,
            spread: usual.deviations.values().copied().fold(0.0, f64::max),
        });
        if compared {
            fleet.outliers.extend(members.iter().filter_map(|node| usual.judge(node, &known, settings)));
        }
        fleet.outliers.extend(fewer_gpus(members, &groups));
    }
    fleet.outliers.sort_by(|a, b| {
        let cost = |o: &Outlier| o.finding.cost.map_or(1.0, |c| c.share);
        b.finding.severity.cmp(&a.finding.severity).then(cost(b).total_cmp(&cost(a))).then(a.file.cmp(&b.file))
    });
    fleet
}

/// The usual numbers of a kind.
struct Usual {
    /// Median by number, and how many have one.
    medians: HashMap<u64, (f64, usize)>,
    /// Standard deviation between machines by class, as a share.
    deviations: HashMap<String, f64>,
    machines: usize,
}

fn median(values: &mut [f64]) -> f64 {
    let middle = values.len().saturating_sub(1) / 2;
    let (_, value, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    *value
}

impl Usual {
    fn of(members: &[&Node], known: &HashMap<u64, What>) -> Usual {
        let mut values: HashMap<u64, Vec<f64>> = HashMap::new();
        for number in members.iter().flat_map(|node| &node.numbers) {
            if let Some([value, ..]) = number.value {
                values.entry(number.key).or_default().push(value);
            }
        }
        let mut medians = HashMap::new();
        let mut off: HashMap<&str, Vec<f64>> = HashMap::new();
        for (key, mut of) in values {
            let usual = median(&mut of);
            medians.insert(key, (usual, of.len()));
            let Some(what) = known.get(&key) else { continue };
            off.entry(&what.class).or_default().extend(of.iter().map(|v| (v / usual).ln().abs()));
        }
        // 1.4826 median absolute deviations are a standard deviation of normal noise
        let deviation = |of: &mut Vec<f64>| (1.4826 * median(of)).max(LEAST_DEVIATION);
        let deviations = off.into_iter().map(|(class, mut of)| (class.to_owned(), deviation(&mut of))).collect();
        Usual { medians, deviations, machines: members.len() }
    }

    fn judge(&self, node: &Node, known: &HashMap<u64, What>, settings: &Settings) -> Option<Outlier> {
        let limits = settings.fleet;
        let mut off: Vec<Off> = Vec::new();
        let mut missing: Vec<(&What, FlagKind)> = Vec::new();
        for number in &node.numbers {
            let (Some(what), Some(&(usual, others))) = (known.get(&number.key), self.medians.get(&number.key)) else {
                continue;
            };
            match (number.value, number.void) {
                (Some([value, ..]), _) => {
                    let sigma = self.deviations.get(&what.class).copied().unwrap_or(LEAST_DEVIATION);
                    let worse = what.worse(value, usual);
                    // both as logarithms, so that half and double are as far
                    let deviations = -(1.0 - worse).max(f64::MIN_POSITIVE).ln() / sigma;
                    if worse > limits.below && deviations > limits.deviations {
                        off.push(Off { what, value, usual, worse, deviations });
                    }
                }
                (None, Some(kind)) if others as f64 >= OTHERS * self.machines as f64 => missing.push((what, kind)),
                _ => {}
            }
        }
        let far = |o: &Off| o.worse > ALONE * limits.below && o.deviations > ALONE * limits.deviations;
        let counts = off.len() > 1 || off.first().is_some_and(far) || !missing.is_empty();
        counts.then(|| self.report(node, off, &missing))
    }

    fn report(&self, node: &Node, mut off: Vec<Off>, missing: &[(&What, FlagKind)]) -> Outlier {
        off.sort_by(|a, b| b.worse.total_cmp(&a.worse));
        let worst = off.first();
        let named = subjects(off.iter().map(|o| o.what).chain(missing.iter().map(|(what, _)| *what)));
        let numbers = off.len() + missing.len();
        let rate =
            |o: &Off| format!("{} {:.2} {}, usually {:.2}", o.what.describe(), o.value, o.what.unit.name(), o.usual);
        let mut shown: Vec<String> = off.iter().take(LISTED).map(rate).collect();
        let why = |kind: &FlagKind| match kind {
            FlagKind::Hung => "hung",
            FlagKind::Corrupt => "corrupt",
            FlagKind::Implausible => "implausible",
            FlagKind::NotApplicable => "refused",
            _ => "failed",
        };
        let room = LISTED.saturating_sub(shown.len()).max(1);
        shown.extend(missing.iter().take(room).map(|(what, kind)| format!("{} {}", what.describe(), why(kind))));
        let (reach, expected) = match worst {
            Some(o) => (
                format!("worse by up to {:.0} %", 100.0 * o.worse),
                format!("{} about {:.2} {}, the median", o.what.describe(), o.usual, o.what.unit.name()),
            ),
            None => ("without a value".to_owned(), "the values of the others".to_owned()),
        };
        let share = worst.map_or(1.0, |o| o.worse);
        let severity = if !missing.is_empty() || share >= MUCH { Severity::Error } else { Severity::Warning };
        let sure = worst.is_none_or(|o| o.deviations > 10.0);
        let certainty = if sure { Certainty::Certain } else { Certainty::Likely };
        let others = self.machines - 1;
        let raised = raise(node, severity, certainty)
            .summary(format!(
                "{}: {numbers} numbers are {reach}, compared with {others} machines of its kind",
                node.name
            ))
            .expected(expected)
            .measured(listed(&shown, numbers))
            .fix(
                "Read what `peerlane check` finds in this run. If that names no cause, swap the card with a \
                 neighbour's: the rate follows the card, or stays with the slot.",
            )
            .confirm(format!("`peerlane check {}`, and a second run on the machine", node.file))
            .cost(worst.and_then(|o| o.what.cost(o.usual, o.value)))
            .about(named);
        outlier(node, numbers, raised)
    }
}

fn raise(node: &Node, severity: Severity, certainty: Certainty) -> Raised {
    let raised = Raised::new(OUTLIER, FindingKind::Fault, severity, certainty);
    raised.evidence(vec![format!("{} (peerlane measure)", node.file)])
}

fn outlier(node: &Node, numbers: usize, raised: Raised) -> Outlier {
    Outlier { machine: node.name.clone(), file: node.file.clone(), numbers, finding: raised.finding }
}

/// Machines of a rare kind that have fewer GPUs of the same product than a far more common one.
fn fewer_gpus(members: &[&Node], groups: &[Vec<&Node>]) -> Vec<Outlier> {
    let Some(first) = members.first().filter(|n| !n.products.is_empty()) else { return Vec::new() };
    let usual = groups.iter().filter_map(|g| Some((g.first()?, g.len()))).find(|(other, n)| {
        other.products == first.products && other.gpus > first.gpus && *n >= FEWEST.max(MORE * members.len())
    });
    let Some((usual, others)) = usual else { return Vec::new() };
    let report = |node: &&Node| {
        let raised = raise(node, Severity::Error, Certainty::Possible)
            .summary(format!(
                "{}: {} GPUs, but {others} machines with the same GPUs have {}",
                node.name, node.gpus, usual.gpus
            ))
            .expected(format!("{} GPUs", usual.gpus))
            .measured(format!("{} GPUs", node.gpus))
            .fix(
                "Look for Xid 79 in the kernel log, and for the missing card with `lspci`. If it is another allocation \
                 of a virtual machine, do nothing.",
            )
            .confirm("`nvidia-smi -L`; `lspci -d 10de:`")
            .about(vec![Subject::Machine(node.name.clone())]);
        outlier(node, 0, raised)
    };
    members.iter().map(report).collect()
}
