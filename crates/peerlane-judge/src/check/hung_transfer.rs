//! Pairs whose transfers never end.

use super::from_run::{Tally, tally};
use super::view::{Raised, View};
use super::{Certainty, Finding, FindingKind, Rule, Severity, confirm, words};
use peerlane_measure::run::FlagKind;

pub(super) const RULE: Rule = Rule { id: "hung-transfer", breaks: true, run };

fn run(view: &View) -> Vec<Raised> {
    let Some(Tally { pairs, cells, subjects, detail }) = tally(view, FlagKind::Hung) else { return Vec::new() };
    let finding = Finding {
        summary: format!("Transfers between {} never end", words::pairs(&pairs)),
        expected: "every transfer ends".to_owned(),
        measured: format!("{cells} steps did not end in time ({detail})"),
        evidence: view.cite(view.case.run.iter().map(|recorded| &recorded.origin)),
        fix:
            "Turn ACS redirection and the IOMMU's translation off on the way (`iommu=pt`), which hang peer traffic on \
               some chipsets; look for Xid errors in the kernel log. Until then keep these pairs off peer access \
               (NCCL_P2P_DISABLE=1)."
                .to_owned(),
        confirm: confirm::pairs("pairs", &subjects),
        ..Finding::of(&RULE, FindingKind::Fault, Severity::Error, Certainty::Certain, subjects)
    };
    vec![Raised::new(finding, 1.0).shown_by(pairs)]
}

#[cfg(test)]
mod tests {
    use super::super::testing::{measured, switched};
    use super::*;
    use peerlane_machine::subject::join;

    #[test]
    fn a_pair_that_hangs_is_named_once() {
        let hung = [("GPU0", "GPU1"), ("GPU1", "GPU0")].map(|ends| (ends, Err((FlagKind::Hung, "no sign of life"))));
        let case = measured(switched(3), hung.into_iter().chain([(("GPU0", "GPU2"), Ok(12.0))]));
        let found = super::super::testing::findings(&case, run);
        assert_eq!((found.len(), join(&found[0].subjects, " ")), (1, "GPU0-GPU1".to_owned()));
        assert_eq!(found[0].summary, "Transfers between GPU0 and GPU1 never end");
        assert!(found[0].measured.starts_with("2 steps"));
    }

    #[test]
    fn what_ends_is_silent() {
        let case = measured(switched(3), [(("GPU0", "GPU1"), Err((FlagKind::NotApplicable, "no access")))]);
        assert!(super::super::testing::findings(&case, run).is_empty());
    }
}
