//! Pairs without peer access in a run, although the design has it or similar pairs do.

use super::from_run::{pairs_with, subjects};
use super::prelude::*;
use peerlane_machine::matrix::{Engine, Operation};
use peerlane_machine::transfer::{Transfer as Planned, Via};
use peerlane_measure::plan::Work;
use peerlane_measure::run::{FlagKind, TOOL};
use peerlane_model::model::{PeerAccess, Transfer};

pub(super) const RULE: Rule = Rule::new("peer-access-missing", One(run));

fn run(view: &View) -> Option<Raised> {
    let fabric = view.fabric();
    let copies = |work: &Work| {
        let lone = |t: &Planned| t.via == Via::Direct && t.engine == Engine::Ce;
        matches!(work, Work::Transfers(all) if all.iter().all(lone))
    };
    let mut refused: Vec<((String, String), &str)> = Vec::new();
    for flagged in pairs_with(view, FlagKind::NotApplicable) {
        let Some((_, detail)) = flagged.cells.iter().find(|(cell, _)| copies(&cell.work)) else { continue };
        let (a, b) = &flagged.pair;
        let Some((a, b)) = fabric.find(a).zip(fabric.find(b)) else { continue };
        // p2p-refused reports what a source states; a path that the model stages needs no access
        if view.p2p_works(a, b) != Some(false) && goes_directly(view, a, b) && should_work(view, a, b) {
            refused.push((flagged.pair, detail));
        }
    }
    let (_, detail) = refused.first()?;
    let pairs: Vec<(String, String)> = refused.iter().map(|(pair, _)| pair.clone()).collect();
    let raised = RULE
        .raise(Fault, Error, Certain)
        .summary(format!("Peer access between {} is refused but should work", words::pairs(&pairs)))
        .expected(if view.is_captured() {
            "peer access, as on other pairs of this machine with no shorter a path"
        } else {
            "peer access, as in the design"
        })
        .measured(format!("the run was refused access ({detail})"))
        .evidence(view.cite_run())
        .fix(
            "Turn off IOMMU translation (`iommu=pt`) and ACS redirection, and remove what separates the two GPUs: \
             MIG, a container, a virtual machine or the driver's registry keys. `nvidia-smi topo -p2p r` shows the \
             driver's reason for the pair.",
        )
        .confirm("`nvidia-smi topo -p2p r`")
        .about(subjects(&pairs))
        .losing(0.5)
        .shown_by(pairs);
    Some(raised)
}

fn goes_directly(view: &View, source: NodeId, destination: NodeId) -> bool {
    let (engine, op, peer) = (Engine::Ce, Operation::Write, PeerAccess::Enabled);
    let transfer = Transfer { source, destination, engine, op, peer };
    view.model.route(&transfer).is_ok_and(|route| !route.staged)
}

/// Whether this pair should have access: by its design, or because pairs with as long a path or a longer one do. Products
/// and drivers without access refuse all.
fn should_work(view: &View, a: NodeId, b: NodeId) -> bool {
    if !view.is_captured() {
        return true;
    }
    let Some(class) = view.class(a, b) else { return false };
    let works = |(x, y): &(NodeId, NodeId)| {
        view.class(*x, *y).is_some_and(|c| c >= class)
            && view.bandwidths().any(|(_, o)| {
                let direct = o.matrix.p2p == Some(true) && o.origin.tool == TOOL;
                direct && o.matrix.between(view.name(*x), view.name(*y)).is_some()
            })
    };
    view.gpu_pairs().iter().any(works)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{boxes, captured, findings, measured, switched};
    use super::*;
    use peerlane_machine::machine::MachineKind;
    use peerlane_machine::subject::join;

    const REFUSED: Result<f64, (FlagKind, &str)> = Err((FlagKind::NotApplicable, "no peer access"));

    #[test]
    fn what_the_design_has_or_others_have_is_missed() {
        let steps = [(("GPU0", "GPU1"), REFUSED), (("GPU1", "GPU0"), REFUSED)];
        let mut case = measured(switched(3), steps);
        assert!(findings(&case, run).is_empty(), "perhaps no pair has it");
        case.machine.kind = MachineKind::Design;
        let found = findings(&case, run);
        assert_eq!((found.len(), join(&found[0].subjects, " ")), (1, "GPU0-GPU1".to_owned()));
        let case = measured(switched(3), steps.into_iter().chain([(("GPU0", "GPU2"), Ok(12.0))]));
        assert_eq!(findings(&case, run).len(), 1);
    }

    #[test]
    fn a_longer_path_may_be_refused() {
        let steps = [(("GPU0", "GPU2"), REFUSED), (("GPU0", "GPU1"), Ok(12.0))];
        assert!(findings(&measured(captured(boxes(&[2, 2], true)), steps), run).is_empty());
    }
}
