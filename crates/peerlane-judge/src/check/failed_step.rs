//! Steps of a run that corrupt data, hang or fail, whatever they measure, and that no finding names yet. The rules of pairs, of NICs
//! and of lost GPUs say more of theirs.

use super::prelude::*;
use peerlane_machine::names::is_host;
use peerlane_measure::run::{Cell as Measured, FlagKind};

pub(super) const RULE: Rule = Rule::new("failed-step", Look::Left(left)).never_usual();

/// What can happen, the worst first.
const KINDS: [FlagKind; 3] = [FlagKind::Corrupt, FlagKind::Hung, FlagKind::Failed];

fn left(view: &View, known: &[Raised]) -> Vec<Raised> {
    let Some(run) = view.case.run() else { return Vec::new() };
    let gives_nothing = run.cells.iter().all(|cell| cell.value().is_none());
    let of_kind = |kind| {
        let cells: Vec<&Measured> =
            run.cells.iter().filter(|cell| cell.flag(kind).is_some() && !is_named(known, cell)).collect();
        report(view, kind, &cells, gives_nothing)
    };
    KINDS.into_iter().filter_map(of_kind).collect()
}

/// Whether an error names a GPU or a NIC of the step, or the machine as a whole.
fn is_named(known: &[Raised], cell: &Measured) -> bool {
    let devices: Vec<&str> = cell.work.nodes().into_iter().filter(|node| !is_host(node)).collect();
    let names = |raised: &Raised| {
        let finding = &raised.finding;
        finding.kind == Fault && finding.severity == Error && finding.is_about(&devices)
    };
    known.iter().any(names)
}

fn report(view: &View, kind: FlagKind, cells: &[&Measured], gives_nothing: bool) -> Option<Raised> {
    let detail = &cells.first()?.flag(kind)?.detail;
    let tests = distinct(cells.iter().map(|cell| cell.test.name()));
    let (what, expected, fix) = match kind {
        FlagKind::Corrupt => (
            "corrupt data",
            "data arrives unchanged",
            "Take the machine out of service: results are wrong without an error. Check the memory of GPUs and host for errors \
             (`nvidia-smi -q -d ECC`, EDAC in the kernel log), then Xid and AER messages, then the driver's release notes.",
        ),
        FlagKind::Hung => (
            "hang",
            "every step ends",
            "Reset the GPUs (`nvidia-smi --gpu-reset`) or restart the machine. If the kernel log has Xid messages, follow those \
             first. A step that hangs again by itself is a fault of what it uses: have that serviced.",
        ),
        _ => (
            "fail",
            "every step has a value",
            "Remove what the reason names, then measure these steps again with --resume. A GPU that has fallen off the bus needs \
             a cold restart.",
        ),
    };
    // a program that was stopped, or a driver that was in use, makes single steps fail on a sound machine
    let (severity, certainty) = match kind {
        FlagKind::Failed if gives_nothing => (Error, Likely),
        FlagKind::Failed => (Warning, Possible),
        _ => (Error, Certain),
    };
    let raised = RULE
        .raise(Fault, severity, certainty)
        .summary(format!("Steps of {} {what}: {} of {}", list(&tests), cells.len(), view.case.run()?.cells.len()))
        .expected(expected)
        .measured(detail.clone())
        .evidence(view.cite_run())
        .fix(fix)
        .confirm(format!("`peerlane measure --tests {}`", tests.join(",")))
        .about_nodes(shared(view, cells));
    Some(raised)
}

/// The GPUs that take part in each of these steps, unless all GPUs do.
fn shared<'c>(view: &View, cells: &[&'c Measured]) -> Vec<&'c str> {
    let all = view.of_kind(NodeKind::Gpu).len();
    let mut gpus = cells.first().map(|cell| cell.work.gpus()).unwrap_or_default();
    gpus.retain(|gpu| cells.iter().all(|cell| cell.work.gpus().contains(gpu)));
    if gpus.len() < all { gpus } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{measured, switched};
    use super::super::{Context, check};
    use super::*;
    use peerlane_machine::matrix::Operation;
    use peerlane_machine::subject::join;
    use peerlane_machine::transfer::{NicEnd, Rdma};
    use peerlane_measure::plan::{Test, Work};
    use peerlane_measure::run::Flag;
    use peerlane_model::comparison::Comparison;
    use peerlane_model::model::Model;
    use peerlane_read::catalogue::Parts;

    type Step = ((&'static str, &'static str), Result<f64, (FlagKind, &'static str)>);

    fn found(steps: &[Step]) -> Vec<(String, Severity, Certainty, String)> {
        let case = measured(switched(3), steps.to_vec());
        let model = Model::new(&case.machine, Parts::embedded());
        let all = check(&Context::of(&case, &Comparison::of(&model)));
        let own = all.into_iter().filter(|f| f.rule == RULE.id);
        own.map(|f| (f.summary.clone(), f.severity, f.certainty, join(&f.subjects, " "))).collect()
    }

    #[test]
    fn what_no_rule_of_pairs_names_is_a_fault_too() {
        let with = |kind| found(&[(("host", "GPU1"), Err((kind, "why"))), (("GPU0", "GPU2"), Ok(12.0))]);
        for (kind, what, severity, certainty) in [
            (FlagKind::Corrupt, "corrupt data", Error, Certain),
            (FlagKind::Hung, "hang", Error, Certain),
            (FlagKind::Failed, "fail", Warning, Possible),
        ] {
            let [(summary, is, sure, about)] = &with(kind)[..] else { panic!("{kind:?}") };
            assert!(summary.contains(what), "{summary}");
            assert_eq!((*is, *sure, about.as_str()), (severity, certainty, "GPU1"));
        }
        assert_eq!(with(FlagKind::NotApplicable), [], "no machine can do it");
    }

    #[test]
    fn a_pair_that_is_named_is_not_reported_again() {
        assert_eq!(found(&[(("GPU0", "GPU1"), Err((FlagKind::Corrupt, "why"))), (("GPU0", "GPU2"), Ok(12.0))]), []);
    }

    #[test]
    fn a_nic_that_is_named_is_not_reported_again() {
        let mut case = measured(switched(2), [(("GPU0", "GPU1"), Ok(12.0))]);
        let hung = Flag::new(FlagKind::Hung, "no sign of life");
        let of_host = |nic: &str| NicEnd { nic: nic.to_owned(), memory: "host0".to_owned() };
        let run = &mut case.run.as_mut().unwrap().run;
        let work = Work::Rdma(Rdma::of_host(of_host("mlx5_0"), of_host("mlx5_1"), Operation::Write));
        run.cells.push(Measured { test: Test::Nic, work, estimate: None, flags: vec![hung], ..run.cells[0].clone() });
        let model = Model::new(&case.machine, Parts::embedded());
        let all = check(&Context::of(&case, &Comparison::of(&model)));
        let errors: Vec<&str> = all.iter().filter(|f| f.severity == Error).map(|f| f.rule.as_str()).collect();
        assert_eq!(errors, ["nic-failed"]);
    }

    #[test]
    fn a_machine_on_which_nothing_works_is_at_fault() {
        let lost = Err((FlagKind::Failed, "fallen off the bus"));
        let all = found(&[(("GPU0", "GPU1"), lost), (("GPU1", "GPU2"), lost), (("host", "GPU0"), lost)]);
        let [(_, severity, certainty, about)] = &all[..] else { panic!("{all:?}") };
        assert_eq!((*severity, *certainty, about.as_str()), (Error, Likely, ""));
    }
}
