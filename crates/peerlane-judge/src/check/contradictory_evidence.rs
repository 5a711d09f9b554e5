//! Statements that contradict each other, or that no machine can satisfy.

use super::prelude::*;
use peerlane_machine::machine::Contradiction;

pub(super) const RULE: Rule = Rule::new("contradictory-evidence", Many(run));

fn run(view: &View) -> Vec<Raised> {
    // captures that contradict each other are bad measurements; a description that does is wrong
    let (kind, fix) = if view.is_captured() {
        let fix = "Capture everything again, on one machine at one time, and do not edit it. Output that was retyped, cut, or \
                   joined from several machines cannot be checked.";
        (Measurement, fix)
    } else {
        (Fault, "Correct the description: one of the statements is wrong.")
    };
    let report = |contradiction: &Contradiction| {
        RULE.raise(kind, Error, Certain)
            .summary(contradiction.message.clone())
            .expected("statements that one machine can satisfy")
            .measured("statements that exclude each other")
            .evidence(view.cite(&contradiction.origins))
            .fix(fix)
            .confirm("`peerlane gather -o FOLDER` on the machine, then `peerlane check FOLDER`")
            .about(contradiction.subjects.clone())
    };
    view.machine.contradictions.iter().map(report).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, origin, switched};
    use super::*;
    use peerlane_machine::subject::Subject;

    #[test]
    fn a_contradiction_of_captures_is_not_explained() {
        let mut machine = switched(2);
        assert!(findings(&machine, run).is_empty());
        machine.contradictions.push(Contradiction {
            message: "GPU0 reports NV4 to GPU1, GPU1 reports SYS to GPU0".to_owned(),
            subjects: Subject::pairs_of(&[("GPU0".to_owned(), "GPU1".to_owned())]),
            origins: vec![origin("nvidia-smi topo -m")],
        });
        let found = findings(&machine, run);
        assert_eq!((found[0].severity, found[0].kind), (Warning, Measurement));
        assert_eq!(found[0].evidence, ["test.txt:1-9 (nvidia-smi topo -m)"]);
    }
}
