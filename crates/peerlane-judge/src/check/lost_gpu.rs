//! GPUs that stopped responding during a run, or to which the driver gives no access.

use super::gpu_setting::gpus_with;
use super::prelude::*;
use peerlane_measure::run::{Cell, FlagKind};

pub(super) const RULE: Rule = Rule::new("lost-gpu", Many(run))
    .never_usual()
    .explains("hung-transfer p2p-slower-than-staged asymmetric-cell uneven-path-class slow-path contended-slow");

/// Steps that must have failed, and none succeeded after the first.
const FEWEST: usize = 3;

fn run(view: &View) -> Vec<Raised> {
    [reported(view, true), reported(view, false), during_run(view)].into_iter().flatten().collect()
}

/// GPUs that the driver reports as lost, or those to which it gives no access for another reason.
fn reported(view: &View, lost: bool) -> Option<Raised> {
    let gpus = gpus_with(view, |gpu| {
        let why = gpu.unreachable.clone()?;
        // a container may hide a GPU that works
        let is_hidden = why.to_lowercase().contains("permission");
        (why.contains("is lost") == lost && !is_hidden).then_some(why)
    })?;
    let names = list(&gpus.names);
    let raised = if gpus.values.iter().any(|why| why.contains("ERR!")) {
        RULE.raise(Fault, Error, Likely)
            .summary(format!("{names}: the driver cannot read its state any more"))
            .fix(
                "Read the kernel log for Xid errors of it, and restart the machine: a reset mostly fails then. If it comes back, \
                 check its fan, temperature, power cables and riser, and have it serviced.",
            )
    } else if lost {
        RULE.raise(Fault, Error, Certain)
            .summary(format!("{names}: fallen off the bus, as the driver reports"))
            .fix(FIX)
    } else {
        RULE.raise(Fault, Error, Possible)
            .summary(format!("{names}: the driver gives no access, and does not say why"))
            .fix("Reload the driver, or restart the machine. What came before is in the kernel log: Xid errors, or a driver that was updated while it ran.")
    };
    let raised = raised
        .expected("a handle for each GPU that NVML counts")
        .measured(distinct(gpus.values).join("; "))
        .evidence(view.cite(gpus.origins))
        .confirm(CONFIRM)
        .about_nodes(gpus.names);
    Some(raised)
}

const FIX: &str = "Reseat the card, its riser and its power cables, and switch the machine's power off and on: only a cold restart \
                   may bring the GPU back. If it falls off the bus again (Xid 79 in the kernel log), check its temperature and \
                   power supply, and have it serviced.";

const CONFIRM: &str = "`nvidia-smi -L`; `dmesg | grep -i -e xid -e aer`";

fn during_run(view: &View) -> Option<Raised> {
    let run = view.case.run()?;
    let gpus = view.of_kind(NodeKind::Gpu);
    let mut lost: Vec<(&str, &str)> = Vec::new();
    for &id in &gpus {
        let name = view.name(id);
        let mut own: Vec<&Cell> = run.cells.iter().filter(|c| c.work.gpus().contains(&name)).collect();
        own.sort_by_key(|cell| cell.step);
        let failed = |cell: &&Cell| cell.flag(FlagKind::Failed).is_some();
        let Some(first) = own.iter().position(failed) else { continue };
        // a step that no machine can do says nothing about this GPU
        let after = || own.iter().skip(first).filter(|c| c.flag(FlagKind::NotApplicable).is_none());
        // steps that failed together with one other GPU may be that GPU's fault
        let others_fault = gpus.iter().any(|other| {
            *other != id && after().filter(|c| failed(c)).all(|c| c.work.gpus().contains(&view.name(*other)))
        });
        if after().count() >= FEWEST && after().all(failed) && !others_fault {
            let flag = own.get(first).and_then(|cell| cell.flag(FlagKind::Failed));
            lost.push((name, flag.map_or("", |f| f.detail.as_str())));
        }
    }
    // where every GPU failed, the run itself broke off
    let (_, detail) = lost.first().filter(|_| lost.len() < view.fabric().of_kind(NodeKind::Gpu).count())?;
    let names: Vec<&str> = lost.iter().map(|(name, _)| *name).collect();
    let raised = RULE
        .raise(Fault, Error, Certain)
        .summary(format!("{}: lost during the run; every later step with it failed", list(&names)))
        .expected("a GPU that responds until the end of the run")
        .measured(*detail)
        .evidence(view.cite_run())
        .fix(FIX)
        .confirm(CONFIRM)
        .about_nodes(names);
    Some(raised)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, measured, switched};
    use super::*;
    use peerlane_machine::subject::join;

    type Cell = ((&'static str, &'static str), Result<f64, (FlagKind, &'static str)>);

    fn failed(a: &'static str, b: &'static str) -> Cell {
        ((a, b), Err((FlagKind::Failed, "GPU2 has fallen off the bus")))
    }

    #[test]
    fn the_gpu_all_of_whose_later_steps_failed_is_lost() {
        let steps: Vec<Cell> = vec![
            (("GPU0", "GPU2"), Ok(12.0)),
            failed("GPU2", "GPU0"),
            (("GPU0", "GPU1"), Ok(12.0)),
            failed("GPU1", "GPU2"),
            failed("GPU2", "GPU1"),
            (("GPU1", "GPU0"), Ok(12.0)),
        ];
        let found = findings(&measured(switched(3), steps.clone()), run);
        assert_eq!((found.len(), join(&found[0].subjects, " ")), (1, "GPU2".to_owned()));
        assert_eq!(found[0].measured, "GPU2 has fallen off the bus");
        let back = steps.into_iter().chain([(("GPU0", "GPU2"), Ok(12.0))]);
        assert!(findings(&measured(switched(3), back), run).is_empty(), "one that works again was not lost");
    }

    #[test]
    fn of_two_gpus_the_one_that_fails_alone_is_lost() {
        let gone = Err((FlagKind::Failed, "GPU0 has fallen off the bus"));
        let steps: Vec<Cell> = vec![
            (("GPU0", "GPU1"), Ok(12.0)),
            (("host", "GPU0"), gone),
            (("host", "GPU1"), Ok(12.0)),
            (("GPU0", "host"), gone),
            (("GPU0", "GPU1"), gone),
            (("GPU1", "GPU0"), gone),
            (("GPU0", "GPU1"), gone),
        ];
        let found = findings(&measured(switched(2), steps), run);
        assert_eq!((found.len(), join(&found[0].subjects, " ")), (1, "GPU0".to_owned()));
    }

    #[test]
    fn a_run_that_broke_off_lost_no_gpu() {
        let steps = vec![failed("GPU0", "GPU1"), failed("GPU1", "GPU0"), failed("GPU0", "GPU1")];
        assert!(findings(&measured(switched(2), steps), run).is_empty());
    }
}
