//! Statements that cannot both be true, or that no machine can fulfil.

use super::view::{Raised, View};
use super::{Certainty, Finding, FindingKind, Rule, Severity};

pub(super) const RULE: Rule = Rule { id: "contradictory-evidence", breaks: true, run };

fn run(view: &View) -> Vec<Raised> {
    view.machine
        .contradictions
        .iter()
        .map(|contradiction| {
            let finding = Finding {
                rule: RULE.id.to_owned(),
            certainty: Certainty::Certain,
            confirm: "`peerlane gather -o FOLDER` on the machine, then `peerlane check FOLDER`".to_owned(),
            cost: None,
                // text that contradicts itself is no measurement; a description that does is wrong itself
                kind: if view.is_captured() { FindingKind::Measurement } else { FindingKind::Fault },
                severity: Severity::Error,
                subjects: contradiction.subjects.clone(),
                summary: contradiction.message.clone(),
                expected: "statements that one machine can fulfil".to_owned(),
                measured: "statements that exclude each other".to_owned(),
                evidence: view.cite(&contradiction.origins),
                fix: if view.is_captured() {
                    "Capture everything again on one machine at one time, untouched; what was retyped, cut or joined from \
                     several machines cannot be judged."
                } else {
                    "Correct the description: one of the statements is wrong."
                }
                .to_owned(),
            };
            Raised::new(finding, 0.0)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, origin, switched};
    use super::*;
    use peerlane_machine::machine::Contradiction;
    use peerlane_machine::subject::Subject;

    #[test]
    fn a_contradiction_is_an_error() {
        let mut machine = switched(2);
        assert!(findings(&machine, run).is_empty());
        machine.contradictions.push(Contradiction {
            message: "GPU0 reports NV4 to GPU1, GPU1 reports SYS to GPU0".to_owned(),
            subjects: Subject::pairs_of(&[("GPU0".to_owned(), "GPU1".to_owned())]),
            origins: vec![origin("nvidia-smi topo -m")],
        });
        let found = findings(&machine, run);
        assert_eq!(found[0].severity, Severity::Error);
        assert_eq!(found[0].evidence, ["test.txt:1-9 (nvidia-smi topo -m)"]);
    }
}
