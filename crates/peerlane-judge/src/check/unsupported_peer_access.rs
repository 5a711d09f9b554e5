//! Peer access over PCIe between GeForce cards for which NVIDIA's driver does not support it.

use super::prelude::*;
use peerlane_machine::fact::P2pStatus;

pub(super) const RULE: Rule = Rule::new("unsupported-peer-access", One(run));

fn run(view: &View) -> Option<Raised> {
    let granted = |a: NodeId, b: NodeId| view.machine.p2p.get(&(a, b)) == Some(&P2pStatus::Ok);
    let bricks = |id: NodeId| view.part(id).and_then(|part| part.nvlink_bricks).unwrap_or(0);
    let is_unsupported = |(a, b): &(NodeId, NodeId)| {
        // a bridge would give access over NVLink; classes show whether there is one
        let bridged = match view.class(*a, *b) {
            Some(class) => class.is_nvlink(),
            None => bricks(*a) > 0 && bricks(*b) > 0,
        };
        !bridged && granted(*a, *b) && ![*a, *b].iter().any(|gpu| view.model.offers_peer_access(*gpu))
    };
    let pairs = view.names(view.gpu_pairs().into_iter().filter(is_unsupported));
    if pairs.is_empty() {
        return None;
    }
    let subjects = Subject::pairs_of(&pairs);
    let raised = RULE
        .raise(Design, Info, Likely)
        .summary(format!(
            "Peer access is granted between {}, GeForce cards for which NVIDIA does not support it over PCIe",
            words::pairs(&pairs)
        ))
        .expected("no peer access: NVIDIA does not support it over PCIe on GeForce cards of this generation")
        .measured("the driver reports that they can access each other")
        .evidence(view.cite(view.peer_access().map(|(_, origin)| origin)))
        .fix(
            "Verify transferred data before you rely on it: CUDA's `simpleP2P` must end with \"Test passed\". A patched \
             kernel module grants access on purpose; drivers before 525.105 did so by mistake on RTX 40 cards and corrupted \
             data. With a patched module, turn the IOMMU and ACS off and Resizable BAR on.",
        )
        .confirm(format!("{}, which verifies the data", confirm::pairs("pairs", &subjects)))
        .about(subjects);
    Some(raised)
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
        see_with(&machine, Parts::embedded(), |view| run(view).iter().count())
    }

    #[test]
    fn only_cards_without_support_and_without_a_bridge() {
        assert_eq!(with("rtx-4090", "NVIDIA GeForce RTX 4090"), 1);
        assert_eq!(with("rtx-3090", "NVIDIA GeForce RTX 3090"), 0, "a bridge gives it");
        assert_eq!(with("rtx-a6000", "NVIDIA RTX A6000"), 0);
    }
}
