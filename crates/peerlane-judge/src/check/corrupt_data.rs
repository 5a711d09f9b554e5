//! Pairs on which what arrives is not what was sent, and programs that say so of a whole test.

use super::from_run::{Tally, tally};
use super::view::{Raised, View};
use super::{Certainty, Finding, FindingKind, Rule, Severity, confirm, words};
use peerlane_machine::curve::Curve;
use peerlane_machine::fabric::NodeKind;
use peerlane_machine::fact::Fact;
use peerlane_machine::origin::Origin;
use peerlane_measure::run::FlagKind;

pub(super) const RULE: Rule = Rule { id: "corrupt-data", breaks: true, run };

/// What to do meanwhile, and where the cause may be.
fn fix(of: &str, more: &str) -> String {
    format!(
        "Do not use peer access{of} (NCCL_P2P_DISABLE=1, or NCCL_P2P_LEVEL below their class) until it is fixed: results are \
         wrong without an error. Look at the driver's release notes, ACS and IOMMU settings, and PCIe errors in the kernel \
         log (AER).{more}"
    )
}

fn run(view: &View) -> Vec<Raised> {
    in_run(view).into_iter().chain(in_tests(view)).collect()
}

/// What other programs compared: nvbandwidth's pattern, the wrong values that nccl-tests counts, OSU's validation.
fn in_tests(view: &View) -> Option<Raised> {
    let told = view.machine.evidence.iter().filter_map(|e| match &e.fact {
        Fact::Corrupt(wrong) => Some((format!("{}: {}", wrong.test, wrong.detail), &e.origin)),
        _ => None,
    });
    let counted = view.machine.curves.iter().filter_map(|(curve, origin)| Some((wrong(curve)?, origin)));
    let found: Vec<(String, &Origin)> = told.chain(counted).collect();
    let (first, _) = found.first()?;
    let more = if found.len() > 1 { format!("; and {} more tests", found.len() - 1) } else { String::new() };
    let nvlink =
        view.of_kind(NodeKind::Gpu).into_iter().any(|id| view.part(id).is_some_and(|p| p.nvlink_bricks.is_some()));
    let of: std::collections::BTreeSet<&str> = found.iter().map(|(_, origin)| origin.tool).collect();
    // a program that was built for other GPUs or another toolkit may be wrong itself
    let finding = Finding {
        summary: format!("Data arrives changed, as {} found", of.into_iter().collect::<Vec<_>>().join(" and ")),
        expected: "what arrives is what was sent".to_owned(),
        measured: format!("{first}{more}"),
        evidence: view.cite(found.iter().map(|(_, origin)| *origin)),
        fix: fix(
            "",
            match nvlink {
                true => {
                    " A program that was built for other GPUs shows this, too: build it here and repeat. On a virtual machine see that \
                         all its GPUs are of one partition of the NVSwitches."
                }
                false => " A program that was built for other GPUs shows this, too: build it here and repeat.",
            },
        ),
        confirm: "`peerlane measure --tests pairs`, which names the pairs whose data changes".to_owned(),
        ..Finding::of(&RULE, FindingKind::Fault, Severity::Error, Certainty::Likely, Vec::new())
    };
    Some(Raised::new(finding, 1.0))
}

/// What a table of a benchmark says of wrong data, if it does.
fn wrong(curve: &Curve) -> Option<String> {
    if curve.settings.get("Validation").is_some_and(|v| v == "failed") {
        return Some(format!("{}: validation failed", curve.what));
    }
    // old releases of nccl-tests print the greatest error of a floating-point sum there, which is small and no count
    let of_series = curve.series.iter().filter(|s| s.name.starts_with("wrong")).filter_map(|series| {
        let rows =
            curve.sizes.iter().zip(&series.values).filter_map(|(size, v)| Some((size, v.filter(|v| *v >= 1.0)?)));
        rows.max_by(|a, b| a.1.total_cmp(&b.1))
    });
    let (size, count) = of_series.max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(format!("{}: {count} wrong values in messages of {size}", curve.what))
}

fn in_run(view: &View) -> Option<Raised> {
    let Tally { pairs, cells, subjects, detail } = tally(view, FlagKind::Corrupt)?;
    let finding = Finding {
        summary: format!("Data sent directly between {} arrives changed", words::pairs(&pairs)),
        expected: "what arrives is what was sent".to_owned(),
        measured: format!("{cells} steps did not compare equal ({detail})"),
        evidence: view.cite(view.case.run.iter().map(|recorded| &recorded.origin)),
        fix: fix(" between them", ""),
        confirm: confirm::pairs("pairs", &subjects),
        ..Finding::of(&RULE, FindingKind::Fault, Severity::Error, Certainty::Certain, subjects)
    };
    Some(Raised::new(finding, 1.0).shown_by(pairs))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, measured, origin, state, switched};
    use super::*;
    use peerlane_machine::curve::Series;
    use peerlane_machine::fact::CorruptData;
    use peerlane_machine::units::Bytes;

    #[test]
    fn programs_that_compare_are_believed() {
        let mut machine = switched(2);
        state(&mut machine, "nvbandwidth", Fact::Corrupt(CorruptData { test: "a_test".into(), detail: "odd".into() }));
        let found = findings(&machine, run);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Error));
        assert!(found[0].measured.contains("a_test: odd"), "{}", found[0].measured);
    }

    #[test]
    fn wrong_values_count_and_rounding_does_not() {
        let with = |wrong: f64| {
            let series = Series { name: "wrong in-place".into(), unit: None, values: vec![Some(0.0), Some(wrong)] };
            let curve = Curve {
                what: "all_reduce_perf".into(),
                sizes: vec![Bytes(8), Bytes(16)],
                series: vec![series],
                ..Curve::default()
            };
            let mut machine = switched(2);
            machine.curves.push((curve, origin("nccl-tests")));
            findings(&machine, run)
        };
        assert_eq!((with(0.0), with(5e-7)), (vec![], vec![]));
        assert!(with(3.0)[0].measured.contains("3 wrong values in messages of 16 B"), "{:?}", with(3.0));
    }

    #[test]
    fn corruption_is_an_error_and_rates_of_others_are_not() {
        let bad = |a, b| ((a, b), Err((FlagKind::Corrupt, "1 of 1024 words differs")));
        let steps = [bad("GPU1", "GPU0"), bad("GPU1", "GPU2"), bad("GPU3", "GPU1")];
        let found = findings(&measured(switched(4), steps), run);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Error));
        assert_eq!(found[0].subjects, ["GPU1"]);
        assert!(findings(&measured(switched(4), [(("GPU0", "GPU1"), Ok(12.0))]), run).is_empty());
    }
}
