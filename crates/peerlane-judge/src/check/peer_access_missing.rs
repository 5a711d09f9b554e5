//! Pairs that a run found without peer access, although the design has it or other such pairs do.

use super::from_run::{pairs_with, subjects};
use super::view::{Raised, View};
use super::{Certainty, Finding, FindingKind, Rule, Severity, words};
use peerlane_machine::fabric::NodeId;
use peerlane_machine::matrix::{Engine, Operation};
use peerlane_machine::transfer::{Transfer as Planned, Via};
use peerlane_measure::plan::Work;
use peerlane_measure::run::FlagKind;
use peerlane_model::model::{PeerAccess, Transfer};

pub(super) const RULE: Rule = Rule { id: "peer-access-missing", breaks: true, run };

fn run(view: &View) -> Vec<Raised> {
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
        // a status that a source states has its own rule; what the model stages is no surprise
        if view.p2p_works(a, b) != Some(false) && goes_directly(view, a, b) && should(view, a, b) {
            refused.push((flagged.pair, detail));
        }
    }
    let Some((_, detail)) = refused.first() else { return Vec::new() };
    let pairs: Vec<(String, String)> = refused.iter().map(|(pair, _)| pair.clone()).collect();
    let named = subjects(&pairs);
    let finding = Finding {
        summary: format!("Peer access between {} is refused, and should work", words::pairs(&pairs)),
        expected: if view.is_captured() {
            "peer access, as other pairs of this machine with as short a way have it".to_owned()
        } else {
            "peer access, as the design has it".to_owned()
        },
        measured: format!("the run was refused it ({detail})"),
        evidence: view.cite(view.case.run.iter().map(|recorded| &recorded.origin)),
        fix: "See what `nvidia-smi topo -p2p r` says of the pair; then whether MIG, a container or virtual machine, or the \
               driver's registry keys keep the two apart, and whether the IOMMU puts them into groups of their own."
            .to_owned(),
        confirm: "`nvidia-smi topo -p2p r`".to_owned(),
        ..Finding::of(&RULE, FindingKind::Fault, Severity::Error, Certainty::Certain, named)
    };
    vec![Raised::new(finding, 0.5).shown_by(pairs)]
}

fn goes_directly(view: &View, source: NodeId, destination: NodeId) -> bool {
    let (engine, op, peer) = (Engine::Ce, Operation::Write, PeerAccess::Enabled);
    let transfer = Transfer { source, destination, engine, op, peer };
    view.model.route(&transfer).is_ok_and(|route| !route.staged)
}

/// Whether this pair should have it: by its design, or because other pairs have whose way is as long or longer. A product
/// or a driver that offers none refuses all.
fn should(view: &View, a: NodeId, b: NodeId) -> bool {
    if !view.is_captured() {
        return true;
    }
    let Some(class) = view.class(a, b) else { return false };
    let works = |(x, y): &(NodeId, NodeId)| {
        view.class(*x, *y).is_some_and(|c| c >= class)
            && view.bandwidths().any(|(_, o)| {
                let direct = o.matrix.p2p == Some(true) && o.origin.tool == super::view::MEASURED;
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
    fn a_longer_way_may_be_refused() {
        let steps = [(("GPU0", "GPU2"), REFUSED), (("GPU0", "GPU1"), Ok(12.0))];
        assert!(findings(&measured(captured(boxes(&[2, 2], true)), steps), run).is_empty());
    }
}
