//! Pairs whose transfers hang.

use super::from_run::{Tally, tally};
use super::prelude::*;
use peerlane_measure::run::FlagKind;

pub(super) const RULE: Rule = Rule::new("hung-transfer", One(run))
    .never_usual()
    .explains("p2p-slower-than-staged asymmetric-cell uneven-path-class");

fn run(view: &View) -> Option<Raised> {
    let Tally { pairs, cells, subjects, detail } = tally(view, FlagKind::Hung)?;
    let raised = RULE
        .raise(Fault, Error, Certain)
        .summary(format!("Transfers between {} hang", words::pairs(&pairs)))
        .expected("every transfer completes")
        .measured(format!("{cells} steps timed out ({detail})"))
        .evidence(view.cite_run())
        .fix(
            "Boot with `iommu=pt` and clear ACS redirection: translation and redirection hang peer traffic on some \
             chipsets. If the kernel log has Xid errors, follow those first. Until this is fixed, keep peer access \
             off for these pairs (NCCL_P2P_DISABLE=1).",
        )
        .confirm(confirm::pairs("pairs", &subjects))
        .about(subjects)
        .shown_by(pairs);
    Some(raised)
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
        assert_eq!(found[0].summary, "Transfers between GPU0 and GPU1 hang");
        assert!(found[0].measured.starts_with("2 steps"));
    }

    #[test]
    fn what_ends_is_silent() {
        let case = measured(switched(3), [(("GPU0", "GPU1"), Err((FlagKind::NotApplicable, "no access")))]);
        assert!(super::super::testing::findings(&case, run).is_empty());
    }
}
