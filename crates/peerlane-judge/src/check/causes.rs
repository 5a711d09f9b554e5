//! One cause, one finding: what another finding explains is not reported again.

use super::raised::Raised;
use super::{RULES, coarse_labels};
use peerlane_machine::subject::Subject;

/// Drops what a cause explains. The cause takes over the evidence, and the cost where it had none or less.
pub(super) fn fold(raised: Vec<Raised>) -> Vec<Raised> {
    let mut all: Vec<Option<Raised>> = once(raised).into_iter().map(Some).collect();
    for rule in RULES.iter().filter(|rule| rule.is_cause()) {
        for at in 0..all.len() {
            let Some(mut cause) = all.get_mut(at).and_then(|slot| slot.take_if(|r| is_cause(r, rule.id))) else {
                continue;
            };
            for slot in &mut all {
                let explained = |r: &mut Raised| rule.may_explain(&r.finding.rule) && covers(&cause, r);
                if let Some(symptom) = slot.take_if(explained) {
                    adopt(&mut cause, symptom);
                }
            }
            if let Some(slot) = all.get_mut(at) {
                *slot = Some(cause);
            }
        }
    }
    all.into_iter().flatten().collect()
}

/// The same finding of two logs or runs of one machine is one, which cites both.
fn once(raised: Vec<Raised>) -> Vec<Raised> {
    let mut all: Vec<Raised> = Vec::with_capacity(raised.len());
    for another in raised {
        let is_same = |known: &&mut Raised| {
            let (a, b) = (&known.finding, &another.finding);
            (&a.rule, &a.summary, &a.subjects) == (&b.rule, &b.summary, &b.subjects)
        };
        match all.iter_mut().find(is_same) {
            Some(known) => adopt(known, another),
            None => all.push(another),
        }
    }
    all
}

/// A finding strong enough to explain others: an info explains nothing, except labels that are too coarse.
fn is_cause(raised: &Raised, rule: &str) -> bool {
    let f = &raised.finding;
    f.rule == rule && (rule == coarse_labels::RULE.id || f.is_trouble())
}

/// Whether everything that shows a symptom is at the cause.
fn covers(cause: &Raised, symptom: &Raised) -> bool {
    if cause.finding.rule == coarse_labels::RULE.id {
        return true;
    }
    let at_cause = |a: &str, b: &str| {
        let is_pair = |x: &str, y: &str| (x, y) == (a, b) || (x, y) == (b, a);
        let subject = |s: &Subject| match (s, s.ends()) {
            (_, Some((x, y))) => is_pair(x, y),
            (Subject::Node(one), _) => one == a || one == b,
            _ => false,
        };
        cause.finding.subjects.iter().any(subject) || cause.pairs.iter().any(|(x, y)| is_pair(x, y))
    };
    if !symptom.pairs.is_empty() {
        return symptom.pairs.iter().all(|(a, b)| at_cause(a, b));
    }
    let subject = |s: &Subject| match s.ends() {
        Some((a, b)) => at_cause(a, b),
        None => cause.finding.subjects.contains(s),
    };
    !symptom.finding.subjects.is_empty() && symptom.finding.subjects.iter().all(subject)
}

/// Takes over what shows a symptom, and its cost.
pub(super) fn adopt(cause: &mut Raised, symptom: Raised) {
    for place in symptom.finding.evidence {
        if !cause.finding.evidence.contains(&place) {
            cause.finding.evidence.push(place);
        }
    }
    let cost = symptom.finding.cost;
    if cost.is_some_and(|new| cause.finding.cost.is_none_or(|known| new.share > known.share)) {
        cause.finding.cost = cost;
    }
    cause.loss = cause.loss.max(symptom.loss);
    cause.pairs.extend(symptom.pairs);
}

#[cfg(test)]
mod tests {
    use super::super::rule::{Look, Rule};
    use super::*;
    use crate::finding::Certainty;
    use crate::finding::{FindingKind, Severity};

    fn raised(id: &'static str, kind: FindingKind, subjects: Vec<Subject>, pairs: &[(&str, &str)]) -> Raised {
        let rule = Rule::new(id, Look::One(|_| None));
        let pairs = pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned()));
        let raised = rule.raise(kind, Severity::Warning, Certainty::Likely).evidence(vec![format!("{id}.txt")]);
        raised.about(subjects).losing(0.5).shown_by(pairs)
    }

    fn nodes(name: &str) -> Vec<Subject> {
        Subject::nodes_of([name])
    }

    fn rules(all: Vec<Raised>) -> Vec<String> {
        fold(all).into_iter().map(|r| r.finding.rule).collect()
    }

    #[test]
    fn a_narrow_link_explains_what_is_slow_behind_it() {
        let (fault, design) = (FindingKind::Fault, FindingKind::Design);
        let uneven = || raised("uneven-path-class", design, nodes("GPU0"), &[("GPU0", "GPU1"), ("GPU1", "GPU2")]);
        let narrow = raised("narrow-link", fault, nodes("GPU1"), &[]);
        let left = fold(vec![uneven(), narrow]);
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].finding.evidence, ["narrow-link.txt", "uneven-path-class.txt"]);
        let elsewhere = raised("narrow-link", fault, nodes("GPU0"), &[]);
        assert_eq!(rules(vec![uneven(), elsewhere]), ["uneven-path-class", "narrow-link"]);
        let by_design = raised("narrow-link", design, nodes("GPU1"), &[]);
        assert_eq!(rules(vec![uneven(), by_design]).len(), 2);
    }

    #[test]
    fn chains_end_at_the_first_cause() {
        let fault = FindingKind::Fault;
        let slow = raised("slow-path", fault, nodes("GPU1"), &[("GPU0", "GPU1")]);
        let odd = raised(
            "asymmetric-cell",
            FindingKind::Measurement,
            vec![Subject::Pair("GPU0".to_owned(), "GPU1".to_owned())],
            &[],
        );
        let hot = raised("hot-or-throttled", fault, nodes("GPU1"), &[]);
        assert_eq!(rules(vec![odd, slow, hot]), ["hot-or-throttled"]);
    }
}
