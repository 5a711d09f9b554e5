//! Answers: short, with units, intervals and sources.

use std::collections::HashMap;

use peerlane::check::{Finding, Settings};
use peerlane::expectation::ExpectedMatrix;
use peerlane::export::json::{ExpectedRate, ExplanationDocument, PredictionDocument};
use peerlane::simulate::result::SimulationDocument;
use peerlane::simulate::workload::{Sizes, Workload};
use peerlane::units::Bytes;
use peerlane::{Opened, catalogue, cluster, target};
use schemars::JsonSchema;
use serde::Serialize;

use crate::input::{Allowed, Inputs};
use crate::tables::{NAMED, Table, cells, rounded};

/// Findings of a machine, at most.
const MOST_FINDINGS: usize = 12;

/// Of an answer's lists of sentences.
const MOST_LINES: usize = 12;

/// Machines of an answer.
const MOST_MACHINES: usize = 16;

/// What changes of a design change: paths listed at most, and by how much they differ at least.
const MOST_CHANGES: usize = 24;
const CHANGED: f64 = 0.01;

/// A judgement.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Checked {
    /// FAULT: something is broken or far below what it should be. UNEXPLAINED: something is wrong, and what it is is not known.
    /// LIMITED: it works as built, and the build or a setting costs something. HEALTHY: what could have shown a fault was read and is
    /// good. NOT JUDGED: nothing in the inputs could have shown a fault; this does not mean that there is none.
    pub(crate) verdict: &'static str,
    pub(crate) machines: Vec<CheckedMachine>,
    /// Lines that look like data of a known tool and were not understood.
    pub(crate) not_understood: Vec<String>,
    /// What a person should know of the inputs.
    pub(crate) notices: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct CheckedMachine {
    pub(crate) name: String,
    pub(crate) verdict: &'static str,
    /// What was judged: `link widths`, `rates`.
    pub(crate) judged: Vec<&'static str>,
    /// What would be worth judging and was not.
    pub(crate) not_judged: Vec<&'static str>,
    /// Commands whose output would tell more.
    pub(crate) next: Vec<&'static str>,
    /// The cause first.
    pub(crate) findings: Vec<FindingAnswer>,
    /// Findings that are left out here.
    pub(crate) more_findings: usize,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct FindingAnswer {
    pub(crate) rule: String,
    /// `error`, `warning` or `info`.
    pub(crate) severity: String,
    /// `certain`, `likely` or `possible`.
    pub(crate) certainty: String,
    pub(crate) summary: String,
    pub(crate) measured: String,
    pub(crate) expected: String,
    pub(crate) fix: String,
    /// What would confirm it: usually a command.
    pub(crate) confirm: String,
    /// Input and lines that it rests on.
    pub(crate) sources: Vec<String>,
}

impl FindingAnswer {
    fn of(finding: &Finding) -> Self {
        FindingAnswer {
            rule: finding.rule.clone(),
            severity: word(finding.severity),
            certainty: word(finding.certainty),
            summary: finding.summary.clone(),
            measured: finding.measured.clone(),
            expected: finding.expected.clone(),
            fix: finding.fix.clone(),
            confirm: finding.confirm.clone(),
            sources: few(&finding.evidence),
        }
    }
}

/// The word that JSON has for it.
fn word(value: impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

pub(crate) fn check(opened: &Opened) -> Result<Checked, String> {
    if opened.cases.is_empty() {
        return Err("a cluster is no machine: `simulate` answers for it".to_owned());
    }
    let document = opened.check(&Settings::default());
    let machines = document.machines.iter().take(MOST_MACHINES).map(|machine| CheckedMachine {
        name: machine.name.clone(),
        verdict: machine.verdict.words(),
        judged: machine.checked.clone(),
        not_judged: machine.unchecked.clone(),
        next: machine.next.clone(),
        findings: machine.findings.iter().take(MOST_FINDINGS).map(FindingAnswer::of).collect(),
        more_findings: machine.findings.len().saturating_sub(MOST_FINDINGS),
    });
    let lines = document.coverage.iter().flat_map(|input| {
        input.lines.iter().map(|line| format!("{}:{}: {} ({})", input.source, line.line, line.text, line.format))
    });
    Ok(Checked {
        verdict: document.verdict.words(),
        machines: machines.collect(),
        not_understood: lines.take(MOST_LINES).collect(),
        notices: few(&opened.notices),
    })
}

/// What should be reached.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Predicted {
    pub(crate) machines: Vec<PredictedMachine>,
    pub(crate) notices: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PredictedMachine {
    pub(crate) name: String,
    /// Rates in GB/s of 10^9 bytes and times in us, alone on their way unless `what` says otherwise.
    pub(crate) tables: Vec<Table>,
    /// What no source says and is assumed.
    pub(crate) assumptions: Vec<String>,
}

pub(crate) fn predict(opened: &Opened) -> Result<Predicted, String> {
    if opened.cases.is_empty() {
        return Err("a cluster is no machine: `simulate` answers for it".to_owned());
    }
    let document = opened.predict(&[], &[]);
    let machines = by_machine(&document).into_iter().take(MOST_MACHINES).map(|(name, matrices, assumptions)| {
        let tables = matrices.into_iter().filter_map(Table::of).collect();
        PredictedMachine { name, tables, assumptions }
    });
    Ok(Predicted { machines: machines.collect(), notices: few(&opened.notices) })
}

/// The matrices and assumptions of each machine.
fn by_machine(document: &PredictionDocument) -> Vec<(String, Vec<&ExpectedMatrix>, Vec<String>)> {
    match &document.machine {
        Some(name) => {
            let matrices = document.matrices.iter().map(|of| &of.matrix).collect();
            vec![(name.clone(), matrices, few(&document.assumptions))]
        }
        None => {
            let of = |machine: &peerlane::export::json::MachinePrediction| {
                let matrices =
                    document.matrices.iter().filter(|of| of.machine.as_deref() == Some(machine.name.as_str()));
                (machine.name.clone(), matrices.map(|of| &of.matrix).collect(), few(&machine.assumptions))
            };
            document.machines.iter().map(of).collect()
        }
    }
}

/// What changes of a design change.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Changed {
    /// Numbers that differ by more than 1 %, the largest difference first; alike ones together.
    pub(crate) changes: Vec<Change>,
    /// Groups that are left out here.
    pub(crate) more_changes: usize,
    /// The verdict on the design before and after, as `check` gives it without what was measured.
    pub(crate) verdict_before: &'static str,
    pub(crate) verdict_after: &'static str,
    /// Findings that only the changed design has.
    pub(crate) new_findings: Vec<FindingAnswer>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Change {
    pub(crate) machine: String,
    pub(crate) what: String,
    pub(crate) unit: String,
    pub(crate) before: Option<f64>,
    pub(crate) after: Option<f64>,
    /// How many paths, and the first few: `GPU0 -> GPU1`.
    pub(crate) count: usize,
    pub(crate) paths: Vec<String>,
}

/// A number by its machine, what it is, its unit and its path.
type Key = (String, String, String, String);

pub(crate) fn what_if(before: &Opened, after: &Opened) -> Changed {
    let numbers = |opened: &Opened| -> HashMap<Key, f64> {
        let document = opened.predict(&[], &[]);
        let of_machine = |(name, matrices, _): (String, Vec<&ExpectedMatrix>, Vec<String>)| -> Vec<_> {
            let of = |matrix: &ExpectedMatrix| {
                let (what, unit) = (matrix.metric().describe(), matrix.unit.to_string());
                let named = |cell: crate::tables::Cell| {
                    let path = format!("{} -> {}", cell.ends.0, cell.ends.1);
                    ((name.clone(), what.clone(), unit.clone(), path), cell.expected)
                };
                cells(matrix).map(named).collect::<Vec<_>>()
            };
            matrices.into_iter().flat_map(of).collect()
        };
        by_machine(&document).into_iter().flat_map(of_machine).collect()
    };
    let (was, is) = (numbers(before), numbers(after));
    let mut keys: Vec<_> = was.keys().chain(is.keys()).collect();
    keys.sort();
    keys.dedup();
    let far = |key: &Key| match (was.get(key), is.get(key)) {
        (Some(was), Some(is)) => (is / was).ln().abs(),
        _ => f64::INFINITY,
    };
    let mut changes: Vec<(f64, Change)> = Vec::new();
    for key in keys.into_iter().filter(|key| far(key) > CHANGED) {
        let (machine, what, unit, path) = key.clone();
        let (before, after) = (was.get(key).copied().map(rounded), is.get(key).copied().map(rounded));
        let alike = changes.iter_mut().map(|(_, change)| change).find(|change| {
            (&change.machine, &change.what, change.before, change.after) == (&machine, &what, before, after)
        });
        match alike {
            Some(change) => {
                change.count += 1;
                change.paths.extend((change.paths.len() < NAMED).then_some(path));
            }
            None => {
                changes.push((far(key), Change { machine, what, unit, before, after, count: 1, paths: vec![path] }))
            }
        }
    }
    changes.sort_by(|a, b| b.0.total_cmp(&a.0));
    let more_changes = changes.len().saturating_sub(MOST_CHANGES);
    let settings = Settings::default();
    let (old, new) = (before.check(&settings), after.check(&settings));
    let known = |finding: &Finding| {
        old.findings.iter().any(|o| o.finding.rule == finding.rule && o.finding.summary == finding.summary)
    };
    let fresh = new.findings.iter().map(|of| &of.finding).filter(|finding| !known(finding));
    Changed {
        changes: changes.into_iter().take(MOST_CHANGES).map(|(_, change)| change).collect(),
        more_changes,
        verdict_before: old.verdict.words(),
        verdict_after: new.verdict.words(),
        new_findings: fresh.take(MOST_FINDINGS).map(FindingAnswer::of).collect(),
    }
}

/// A path.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Explained {
    pub(crate) machine: String,
    pub(crate) from: String,
    pub(crate) to: String,
    /// As `nvidia-smi topo -m` calls it: `PIX`, `SYS`, `NV12`.
    pub(crate) class: Option<String>,
    /// Whether a copy goes through host memory, and why.
    pub(crate) staged: Option<bool>,
    pub(crate) staged_because: Option<String>,
    pub(crate) hops: Vec<Hop>,
    /// From the first to the second alone, the other way alone, and both at once as a sum.
    pub(crate) forward: Option<RateAnswer>,
    pub(crate) backward: Option<RateAnswer>,
    pub(crate) both_ways: Option<RateAnswer>,
    /// Time of the smallest copy.
    pub(crate) latency: Option<Latency>,
    /// Bytes from which a copy reaches half the rate.
    pub(crate) half_rate_from_bytes: Option<u64>,
    /// What was measured or published on this path.
    pub(crate) measured: Vec<String>,
    /// What would make it faster, the most first.
    pub(crate) upgrades: Vec<String>,
    pub(crate) assumptions: Vec<String>,
    pub(crate) unknown: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Latency {
    pub(crate) us: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Hop {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) link: Option<String>,
    pub(crate) limit_gb_s: Option<f64>,
    pub(crate) why: String,
    pub(crate) tightest: bool,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RateAnswer {
    pub(crate) gb_s: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) bound_by: String,
}

impl RateAnswer {
    fn of(rate: &ExpectedRate) -> Self {
        let bound_by = rate.bottleneck.clone();
        RateAnswer { gb_s: rounded(rate.rate), low: rounded(rate.low), high: rounded(rate.high), bound_by }
    }
}

pub(crate) fn explain(opened: &Opened, a: &str, b: &str) -> Result<Explained, String> {
    if opened.cases.len() > 1 {
        let names: Vec<&str> = opened.machines().map(|machine| machine.name.as_str()).take(MOST_MACHINES).collect();
        return Err(format!("the inputs describe several machines: say which by `machine`: {}", names.join(", ")));
    }
    let found: ExplanationDocument = opened.explain(a, b).map_err(|e| e.to_string())?;
    let hops = found.hops.iter().map(|hop| Hop {
        from: hop.from.clone(),
        to: hop.to.clone(),
        link: hop.link.clone(),
        limit_gb_s: hop.limit.map(rounded),
        why: hop.why.clone(),
        tightest: hop.tightest,
    });
    let measured = found.measured.iter().map(|cell| {
        let expected = cell.expected.map_or_else(String::new, |e| format!(", expected {}", rounded(e)));
        let ends = format!("{} -> {}", cell.row, cell.col);
        format!("{} {}, {}: {} {}{expected}", ends, cell.what, cell.evidence, rounded(cell.high), cell.unit)
    });
    let upgrades = found.upgrades.iter().map(|upgrade| {
        let edits = upgrade.edits.join(" ");
        format!("{}: {} GB/s, {:.2} times (what_if {edits})", upgrade.what, rounded(upgrade.rate), upgrade.factor)
    });
    Ok(Explained {
        machine: found.machine.clone(),
        from: found.a.clone(),
        to: found.b.clone(),
        class: found.class.as_ref().map(ToString::to_string),
        staged: found.staged,
        staged_because: found.staged_because.clone(),
        hops: hops.collect(),
        forward: found.forward.as_ref().map(RateAnswer::of),
        backward: found.backward.as_ref().map(RateAnswer::of),
        both_ways: found.both.as_ref().map(RateAnswer::of),
        latency: found.curve.as_ref().map(|curve| {
            let [us, low, high] = [curve.latency, curve.latency_interval[0], curve.latency_interval[1]].map(rounded);
            Latency { us, low, high }
        }),
        half_rate_from_bytes: found.curve.as_ref().map(|curve| curve.half_size),
        measured: measured.take(MOST_LINES).collect(),
        upgrades: upgrades.take(MOST_LINES).collect(),
        assumptions: few(&found.assumptions),
        unknown: few(&found.unknown),
    })
}

/// Designs side by side.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Compared {
    /// What follows, in sentences with figures.
    pub(crate) conclusion: Vec<String>,
    /// The names that it uses.
    pub(crate) designs: Vec<String>,
}

pub(crate) fn compare(inputs: &Inputs, allowed: &Allowed) -> Result<Compared, String> {
    let designs = target::designs(inputs.apart(allowed)?, &inputs.edits()?).map_err(|e| e.to_string())?;
    if designs.len() < 2 {
        return Err("one machine cannot be compared: give several inputs, or what_if".to_owned());
    }
    let document = target::compare(&designs);
    Ok(Compared {
        conclusion: document.conclusion,
        designs: document.designs.into_iter().map(|design| design.name).collect(),
    })
}

/// A workload, played.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Simulated {
    pub(crate) results: Vec<Run>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Run {
    pub(crate) target: String,
    pub(crate) workload: String,
    pub(crate) gpus: usize,
    pub(crate) points: Vec<PointAnswer>,
    /// Whether every step of the schedule was played, without a word on how well the model fits a machine: point to point some
    /// ten percent, small messages more. False where a time is estimated; then the largest error seen, as a share, and why.
    pub(crate) every_step_played: bool,
    pub(crate) error_at_most: Option<f64>,
    pub(crate) estimated_because: Option<String>,
    pub(crate) assumptions: Vec<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct PointAnswer {
    pub(crate) bytes: u64,
    pub(crate) time_us: f64,
    /// Size over time.
    pub(crate) algbw_gb_s: f64,
    /// As nccl-tests counts it.
    pub(crate) busbw_gb_s: Option<f64>,
    /// What held the transfers longest.
    pub(crate) bound_by: Option<String>,
}

pub(crate) fn simulate(opened: &Opened, workload: &str, sizes: &str) -> Result<Simulated, String> {
    let workload: Workload = workload.parse().map_err(|e| format!("{e}"))?;
    let sizes: Vec<Bytes> = sizes.parse::<Sizes>().map_err(|e| e.to_string())?.0;
    let documents = opened.simulate(&workload, &sizes).map_err(|e| e.to_string())?;
    let run = |document: SimulationDocument| Run {
        points: document
            .points
            .iter()
            .map(|point| PointAnswer {
                bytes: point.size,
                time_us: rounded(point.time * 1e6),
                algbw_gb_s: rounded(point.algbw),
                busbw_gb_s: point.busbw.map(rounded),
                bound_by: point.binding.first().map(|b| format!("{} ({:.0} %)", b.resource, 100.0 * b.share)),
            })
            .collect(),
        target: document.target,
        workload: document.workload,
        gpus: document.gpus,
        every_step_played: document.exact,
        error_at_most: document.estimate.as_ref().and_then(|estimate| estimate.error),
        estimated_because: document.estimate.map(|estimate| estimate.because),
        assumptions: few(&document.assumptions),
    };
    Ok(Simulated { results: documents.into_iter().map(run).collect() })
}

/// The catalogue.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Systems {
    pub(crate) machines: Vec<Named>,
    pub(crate) clusters: Vec<Named>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) title: Option<String>,
}

pub(crate) fn systems() -> Result<Systems, String> {
    let machines: Vec<_> =
        catalogue::system_names().filter_map(catalogue::system).collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    let clusters: Vec<_> =
        cluster::cluster_names().filter_map(cluster::embedded).collect::<Result<_, _>>().map_err(|e| e.to_string())?;
    Ok(Systems {
        machines: machines.into_iter().map(|m| Named { name: m.name.clone(), title: m.title.clone() }).collect(),
        clusters: clusters.into_iter().map(|c| Named { name: c.name.clone(), title: c.title.clone() }).collect(),
    })
}

fn few(lines: &[String]) -> Vec<String> {
    lines.iter().take(MOST_LINES).cloned().collect()
}
