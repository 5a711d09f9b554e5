//! Peer access over PCIe between GeForce cards to which NVIDIA's driver gives none.

use super::view::{Raised, View};
use super::{Certainty, Finding, FindingKind, Rule, Severity, confirm, words};
use peerlane_machine::fabric::NodeId;
use peerlane_machine::fact::{Fact, P2pStatus};
use peerlane_machine::subject::Subject;

pub(super) const RULE: Rule = Rule { id: "unsupported-peer-access", breaks: false, run };

fn run(view: &View) -> Vec<Raised> {
    let granted = |a: NodeId, b: NodeId| view.machine.p2p.get(&(a, b)) == Some(&P2pStatus::Ok);
    let bricks = |id: NodeId| view.part(id).and_then(|part| part.nvlink_bricks).unwrap_or(0);
    let is_odd = |(a, b): &(NodeId, NodeId)| {
        // a bridge would give access over NVLink; classes tell whether there is one
        let bridged = match view.class(*a, *b) {
            Some(class) => class.is_nvlink(),
            None => bricks(*a) > 0 && bricks(*b) > 0,
        };
        !bridged && granted(*a, *b) && ![*a, *b].iter().any(|gpu| view.model.offers_peer_access(*gpu))
    };
    let odd: Vec<(NodeId, NodeId)> = view.gpu_pairs().into_iter().filter(is_odd).collect();
    if odd.is_empty() {
        return Vec::new();
    }
    let subjects: Vec<Subject> = odd.iter().map(|(a, b)| view.pair(*a, *b)).collect();
    let finding = Finding {
        summary: format!(
            "Peer access is granted between {}, GeForce cards to which NVIDIA's driver gives none over PCIe",
            words::pairs(&view.names(&odd))
        ),
        expected: "no peer access: NVIDIA supports none over PCIe on GeForce cards of this generation".to_owned(),
        measured: "the driver says that they can access each other".to_owned(),
        evidence: view.cite_facts(|fact| matches!(fact, Fact::P2p(m) if m.capability.is_access())),
        fix: "A changed kernel module does this on purpose; drivers before 525.105 did it by mistake on RTX 40 cards, and the data \
               was wrong. Compare data before it is used: CUDA's `simpleP2P` must end in \"Test passed\". With a changed module \
               IOMMU and ACS have to be off and Resizable BAR on."
            .to_owned(),
        confirm: format!("{}, which compares what arrives with what was sent", confirm::pairs("pairs", &subjects)),
        ..Finding::of(&RULE, FindingKind::Design, Severity::Info, Certainty::Likely, subjects)
    };
    vec![Raised::new(finding, 0.0)]
}

#[cfg(test)]
mod tests {
    use super::super::testing::{captured, see_with};
    use super::*;
    use peerlane_machine::fabric::{FabricBuilder, Node, NodeKind};
    use peerlane_read::catalogue::Parts;

    fn with(part: &str, product: &str) -> usize {
        let mut b = FabricBuilder::new();
        for name in ["GPU0", "GPU1"] {
            let mut node = Node::new(name, NodeKind::Gpu);
            (node.part, node.product) = (Some(part.to_owned()), Some(product.to_owned()));
            b.node(node);
        }
        let mut machine = captured(b);
        let gpus: Vec<NodeId> = machine.fabric.of_kind(NodeKind::Gpu).collect();
        machine.p2p.extend([((gpus[0], gpus[1]), P2pStatus::Ok), ((gpus[1], gpus[0]), P2pStatus::Ok)]);
        see_with(&machine, Parts::embedded(), |view| run(view).len())
    }

    #[test]
    fn only_cards_without_support_and_without_a_bridge() {
        assert_eq!(with("rtx-4090", "NVIDIA GeForce RTX 4090"), 1);
        assert_eq!(with("rtx-3090", "NVIDIA GeForce RTX 3090"), 0, "a bridge gives it");
        assert_eq!(with("rtx-a6000", "NVIDIA RTX A6000"), 0);
    }
}
