//! Pairs that corrupt data, and programs that report corrupted data in a whole test.

use super::from_run::{Tally, tally};
use super::nodes;
use super::prelude::*;
use peerlane_machine::curve::Curve;
use peerlane_measure::run::FlagKind;

pub(super) const RULE: Rule = Rule::new("corrupt-data", Many(run)).never_usual().and_nodes(nodes::failures::corrupt);

/// What to do until it is fixed, and where the cause may be.
fn fix(between: &str, more: &str) -> String {
    format!(
        "Do not use peer access{between} (NCCL_P2P_DISABLE=1, or NCCL_P2P_LEVEL below their class) until this is fixed: \
         results are wrong without an error. Check the driver's release notes, ACS and IOMMU settings, and PCIe errors in \
         the kernel log (AER).{more}"
    )
}

fn run(view: &View) -> Vec<Raised> {
    in_run(view).into_iter().chain(in_tests(view)).collect()
}

/// What other programs compared: nvbandwidth's pattern, the wrong values that nccl-tests counts, OSU's validation.
fn in_tests(view: &View) -> Option<Raised> {
    let stated = view.facts(|fact| match fact {
        Fact::Corrupt(wrong) => Some(format!("{}: {}", wrong.test, wrong.detail)),
        _ => None,
    });
    let counted = view.machine.curves.iter().filter_map(|(curve, origin)| Some((wrong(curve)?, origin)));
    let found: Vec<(String, &Origin)> = stated.chain(counted).collect();
    let (first, _) = found.first()?;
    let more = if found.len() > 1 { format!("; and {} more tests", found.len() - 1) } else { String::new() };
    let mut tools: Vec<&str> = found.iter().map(|(_, origin)| origin.tool).collect();
    tools.sort_unstable();
    tools.dedup();
    let has_bricks = |id: NodeId| view.part(id).is_some_and(|p| p.nvlink_bricks.is_some());
    // a program that was built for other GPUs or another toolkit may be wrong itself, and so may a release of NCCL
    let more_fix = if found.iter().all(|(_, origin)| origin.tool.starts_with("nccl-tests")) {
        " If it remains with NCCL_P2P_DISABLE=1, try the newest NCCL: some releases have such errors themselves."
    } else if view.of_kind(NodeKind::Gpu).into_iter().any(has_bricks) {
        " A program that was built for other GPUs reports this too: build it on this machine and repeat. In a virtual \
         machine, check that all its GPUs belong to one partition of the NVSwitches."
    } else {
        " A program that was built for other GPUs reports this too: build it on this machine and repeat."
    };
    let raised = RULE
        .raise(Fault, Error, Likely)
        .summary(format!("Transfers corrupt data, as {} reports", tools.join(" and ")))
        .expected("data arrives unchanged")
        .measured(format!("{first}{more}"))
        .evidence(view.cite(found.iter().map(|(_, origin)| *origin)))
        .fix(fix("", more_fix))
        .confirm("`peerlane measure --tests pairs`, which names the pairs that corrupt data");
    Some(raised)
}

/// What a benchmark's table reports of wrong data.
fn wrong(curve: &Curve) -> Option<String> {
    if curve.settings.get("Validation").is_some_and(|v| v == "failed") {
        return Some(format!("{}: validation failed", curve.what));
    }
    // old releases of nccl-tests print the greatest error of a floating-point sum there, which is small and no count
    let columns = curve.series.iter().filter(|s| s.name.starts_with("wrong"));
    let rows = columns.flat_map(|s| curve.sizes.iter().zip(s.values.iter().copied()));
    let counts = rows.filter_map(|(size, count)| Some((size, count.filter(|n| *n >= 1.0)?)));
    let (size, count) = highest(counts, |(_, count)| *count)?;
    let values = if count > 1.0 { "values" } else { "value" };
    Some(format!("{}: {count} wrong {values} in {size} messages", curve.what))
}

fn in_run(view: &View) -> Option<Raised> {
    let Tally { pairs, cells, subjects, detail } = tally(view, FlagKind::Corrupt)?;
    let raised = RULE
        .raise(Fault, Error, Certain)
        .summary(format!("Direct transfers between {} corrupt data", words::pairs(&pairs)))
        .expected("data arrives unchanged")
        .measured(format!("{cells} steps did not compare equal ({detail})"))
        .evidence(view.cite_run())
        .fix(fix(" between them", ""))
        .confirm(confirm::pairs("pairs", &subjects))
        .about(subjects)
        .shown_by(pairs);
    Some(raised)
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
        assert_eq!((found.len(), found[0].severity), (1, Error));
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
        assert!(with(3.0)[0].measured.contains("3 wrong values in 16 B messages"), "{:?}", with(3.0));
    }

    #[test]
    fn corruption_is_an_error_and_rates_of_others_are_not() {
        let bad = |a, b| ((a, b), Err((FlagKind::Corrupt, "1 of 1024 words differs")));
        let steps = [bad("GPU1", "GPU0"), bad("GPU1", "GPU2"), bad("GPU3", "GPU1")];
        let found = findings(&measured(switched(4), steps), run);
        assert_eq!((found.len(), found[0].severity), (1, Error));
        assert_eq!(found[0].subjects, ["GPU1"]);
        assert!(findings(&measured(switched(4), [(("GPU0", "GPU1"), Ok(12.0))]), run).is_empty());
    }
}
