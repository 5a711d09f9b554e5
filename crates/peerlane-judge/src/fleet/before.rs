//! What changed on a machine since an earlier run.

use std::collections::HashMap;

use super::{Dictionary, Node, What, subjects};
use crate::check::{Certainty, Cost, Finding, FindingKind, Settings, Severity};
use peerlane_machine::subject::Subject;
use peerlane_measure::run::FlagKind;

/// From this loss on it is an error.
const MUCH: f64 = 0.5;

/// Numbers that a finding lists; more are counted.
const LISTED: usize = 4;

/// A number that changed.
struct Changed<'a> {
    what: &'a What,
    before: f64,
    now: f64,
    /// As a share; positive where it is worse.
    worse: f64,
}

/// What is worse, better or missing now. A number counts as changed where its interval and the earlier one's are apart and
/// it differs by more than `fleet.below`.
pub fn against(before: &Node, now: &Node, dictionary: &Dictionary, settings: &Settings) -> Vec<Finding> {
    let known = dictionary.take();
    let earlier: HashMap<u64, [f64; 3]> = before.numbers.iter().filter_map(|n| Some((n.key, n.value?))).collect();
    let (mut worse, mut better, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    let mut compared = 0;
    for number in &now.numbers {
        let (Some(what), Some([old, old_low, old_high])) = (known.get(&number.key), earlier.get(&number.key)) else {
            continue;
        };
        compared += 1;
        let Some([value, low, high]) = number.value else {
            missing.extend(number.void.map(|kind| (what, kind)));
            continue;
        };
        let share = what.worse(value, *old);
        let apart = low > *old_high || high < *old_low;
        let one = Changed { what, before: *old, now: value, worse: share };
        if apart && share > settings.fleet.below {
            worse.push(one);
        } else if apart && -share > settings.fleet.below {
            better.push(one);
        }
    }
    let mut findings = Vec::new();
    if compared == 0 {
        findings.push(note(
            before,
            now,
            "nothing that the earlier run measured was measured again".to_owned(),
            Vec::new(),
        ));
        return findings;
    }
    if before.gpus != now.gpus || before.kind != now.kind {
        let what = format!("GPUs, NICs or path classes differ: {} GPUs before, {} now", before.gpus, now.gpus);
        findings.push(note(before, now, what, Vec::new()));
    }
    if let (Some(old), Some(new)) = (&before.driver, &now.driver)
        && old != new
    {
        findings.push(note(before, now, format!("the driver was {old} and is {new}"), Vec::new()));
    }
    findings.extend(worsened(before, now, worse, &missing));
    if !better.is_empty() {
        let named = subjects(better.iter().map(|c| c.what));
        let most = better.iter().map(|c| -c.worse).fold(0.0, f64::max);
        let what = format!("{} of {compared} numbers are better, by up to {:.0} %", better.len(), 100.0 * most);
        findings.push(note(before, now, what, named));
    }
    findings
}

fn worsened(before: &Node, now: &Node, mut worse: Vec<Changed>, missing: &[(&What, FlagKind)]) -> Option<Finding> {
    if worse.is_empty() && missing.is_empty() {
        return None;
    }
    worse.sort_by(|a, b| b.worse.total_cmp(&a.worse));
    let worst = worse.first();
    let count = worse.len() + missing.len();
    let named = subjects(worse.iter().map(|c| c.what).chain(missing.iter().map(|(what, _)| *what)));
    let mut seen: Vec<String> = Vec::new();
    for c in worse.iter().take(LISTED) {
        seen.push(format!("{} {:.2} {}, before {:.2}", c.what.describe(), c.now, c.what.unit.name(), c.before));
    }
    seen.extend(missing.iter().take(LISTED).map(|(what, _)| format!("{} has no value", what.describe())));
    let more = count.saturating_sub(seen.len());
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    let by = worst.map_or_else(String::new, |c| format!(" by up to {:.0} %", 100.0 * c.worse));
    let bad = !missing.is_empty() || worst.is_some_and(|c| c.worse >= MUCH);
    Some(Finding {
        severity: if bad { Severity::Error } else { Severity::Warning },
        kind: FindingKind::Fault,
        certainty: Certainty::Certain,
        subjects: named,
        summary: format!("{count} numbers are worse than before{by}"),
        expected: format!("what {} has", before.file),
        measured: format!("{}{more}", seen.join("; ")),
        fix: "Look at what changed since: driver, BIOS and kernel, a moved card, another program on the machine."
            .to_owned(),
        confirm: "a second run; `peerlane check` on it names links and GPUs".to_owned(),
        cost: worst
            .filter(|c| c.what.unit.rate(1.0).is_some())
            .and_then(|c| Cost::of_rate(c.what.unit.rate(c.before)?.gb(), c.what.unit.rate(c.now)?.gb())),
        ..note(before, now, String::new(), Vec::new())
    })
}

fn note(before: &Node, now: &Node, summary: String, subjects: Vec<Subject>) -> Finding {
    Finding {
        rule: "worse-than-before".to_owned(),
        kind: FindingKind::Measurement,
        severity: Severity::Info,
        subjects,
        summary: format!("Since {}: {summary}", before.file),
        expected: "no change".to_owned(),
        measured: summary,
        evidence: vec![format!("{} (peerlane measure)", now.file), format!("{} (peerlane measure)", before.file)],
        fix: "Nothing.".to_owned(),
        certainty: Certainty::Certain,
        confirm: "a second run".to_owned(),
        cost: None,
    }
}
