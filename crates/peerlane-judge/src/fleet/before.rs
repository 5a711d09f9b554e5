//! What changed on a machine since an earlier run.

use super::{Dictionary, Keyed, Node, What, listed, subjects};
use crate::check::{Settings, WORSE_THAN_BEFORE};
use crate::finding::{Certainty, Finding, FindingKind, Severity};
use peerlane_machine::subject::Subject;
use peerlane_measure::run::FlagKind;

/// From this loss on it is a fault.
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
    let earlier: Keyed<[f64; 3]> = before.numbers.iter().filter_map(|n| Some((n.key, n.value()?))).collect();
    let (mut worse, mut better, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    let mut compared = 0;
    for number in &now.numbers {
        let (Some(what), Some([old, old_low, old_high])) = (known.get(&number.key), earlier.get(&number.key)) else {
            continue;
        };
        compared += 1;
        let Some([value, low, high]) = number.value() else {
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
    let note = |change: String, subjects| note(before, now, change, subjects);
    if compared == 0 {
        return vec![note("nothing that the earlier run measured was measured again".to_owned(), Vec::new())];
    }
    let mut findings = Vec::new();
    if before.gpus != now.gpus || before.kind != now.kind {
        let change = format!("GPUs, NICs or path classes differ: {} GPUs before, {} now", before.gpus, now.gpus);
        findings.push(note(change, Vec::new()));
    }
    if let (Some(old), Some(new)) = (&before.driver, &now.driver)
        && old != new
    {
        findings.push(note(format!("the driver was {old} and is {new}"), Vec::new()));
    }
    findings.extend(worsened(before, now, worse, &missing));
    if !better.is_empty() {
        let named = subjects(better.iter().map(|c| c.what));
        let most = better.iter().map(|c| -c.worse).fold(0.0, f64::max);
        let change = format!("{} of {compared} numbers are better, by up to {:.0} %", better.len(), 100.0 * most);
        findings.push(note(change, named));
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
    let rate =
        |c: &Changed| format!("{} {:.2} {}, before {:.2}", c.what.describe(), c.now, c.what.unit.name(), c.before);
    let mut shown: Vec<String> = worse.iter().take(LISTED).map(rate).collect();
    shown.extend(missing.iter().take(LISTED).map(|(what, _)| format!("{} has no value", what.describe())));
    let by = worst.map_or_else(String::new, |c| format!(" by up to {:.0} %", 100.0 * c.worse));
    let bad = !missing.is_empty() || worst.is_some_and(|c| c.worse >= MUCH);
    let raised = WORSE_THAN_BEFORE
        // a little less is no fault as long as nothing known explains it
        .raise(FindingKind::Fault, Severity::Warning, if bad { Certainty::Certain } else { Certainty::Possible })
        .summary(format!(
            "{} worse than before{by}",
            if count == 1 { "1 number is".to_owned() } else { format!("{count} numbers are") }
        ))
        .expected(format!("the numbers of {}", before.file))
        .measured(listed(&shown, count))
        .evidence(evidence(before, now))
        .fix("Check what has changed since: driver, BIOS and kernel, a moved card, another program on the machine.")
        .confirm("a second run; `peerlane check` on it names links and GPUs")
        .cost(worst.and_then(|c| c.what.cost(c.before, c.now)))
        .about(named);
    Some(raised.finding)
}

fn note(before: &Node, now: &Node, change: String, subjects: Vec<Subject>) -> Finding {
    let raised = WORSE_THAN_BEFORE
        .raise(FindingKind::Measurement, Severity::Info, Certainty::Certain)
        .summary(format!("Since {}: {change}", before.file))
        .expected("no change")
        .measured(change)
        .evidence(evidence(before, now))
        .fix("Do nothing.")
        .confirm("a second run")
        .about(subjects);
    raised.finding
}

fn evidence(before: &Node, now: &Node) -> Vec<String> {
    [now, before].map(|node| format!("{} (peerlane measure)", node.file)).into()
}
