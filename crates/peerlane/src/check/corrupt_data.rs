//! Pairs on which what arrives is not what was sent.

use super::from_run::{Tally, tally};
use super::view::{Raised, View};
use super::{Certainty, Finding, FindingKind, Rule, Severity, confirm, words};
use crate::run::FlagKind;

pub(super) const RULE: Rule = Rule { id: "corrupt-data", breaks: true, run };

fn run(view: &View) -> Vec<Raised> {
    let Some(Tally { pairs, cells, subjects, detail }) = tally(view, FlagKind::Corrupt) else { return Vec::new() };
    let finding = Finding {
        summary: format!("Data sent directly between {} arrives changed", words::pairs(&pairs)),
        expected: "what arrives is what was sent".to_owned(),
        observed: format!("{cells} steps did not compare equal ({detail})"),
        evidence: view.cite(view.machine.measured.iter().map(|m| &m.origin)),
        mend:
            "Do not use peer access between them (NCCL_P2P_DISABLE=1, or NCCL_P2P_LEVEL below their class) until it is \
               mended: results are wrong without an error. Look at the driver's release notes, ACS and IOMMU settings, \
               and PCIe errors in the kernel log (AER)."
                .to_owned(),
        confirm: confirm::pairs("pairs", &subjects),
        ..Finding::of(&RULE, FindingKind::Fault, Severity::Error, Certainty::Certain, subjects)
    };
    vec![Raised::new(finding, 1.0).shown_by(pairs)]
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, measured, switched};
    use super::*;

    #[test]
    fn corruption_is_an_error_and_rates_of_others_are_not() {
        let mut machine = switched(4);
        let bad = |a, b| ((a, b), Err((FlagKind::Corrupt, "1 of 1024 words differs")));
        measured(&mut machine, [bad("GPU1", "GPU0"), bad("GPU1", "GPU2"), bad("GPU3", "GPU1")]);
        let found = findings(&machine, run);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Error));
        assert_eq!(found[0].subjects, ["GPU1"]);
        measured(&mut machine, [(("GPU0", "GPU1"), Ok(12.0))]);
        assert!(findings(&machine, run).is_empty());
    }
}
