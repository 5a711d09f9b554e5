//! GPUs of a design that the driver gives no access to each other: a limit that the drawing does not show.

use super::prelude::*;
use peerlane_model::model::NoPeerAccess;

pub(super) const RULE: Rule = Rule::new("no-peer-access", One(run));

fn run(view: &View) -> Option<Raised> {
    // of a machine that was looked at, what its driver reports counts
    if view.is_captured() {
        return None;
    }
    let is_without = |(a, b): &(NodeId, NodeId)| {
        view.p2p_works(*a, *b).is_none() && view.model.no_peer_access(*a, *b) == Some(NoPeerAccess::Product)
    };
    let pairs = view.names(view.gpu_pairs().into_iter().filter(is_without));
    if pairs.is_empty() {
        return None;
    }
    let subjects = Subject::pairs_of(&pairs);
    let raised = RULE
        .raise(Design, Info, Likely)
        .summary(format!(
            "There is no peer-to-peer access between {}: the driver does not offer it to this product over PCIe",
            words::pairs(&pairs)
        ))
        .expected("transfers between them go through host memory")
        .fix(
            "Nothing is wrong: NCCL and CUDA stage such transfers by themselves. Where the exchange between GPUs matters, choose \
             cards of the workstation or data-centre line, which have peer access over PCIe; `peerlane explain` has the rates.",
        )
        .confirm("`nvidia-smi topo -p2p r`")
        .about(subjects);
    Some(raised)
}

#[cfg(test)]
mod tests {
    use super::super::testing::see_with;
    use super::*;
    use peerlane_machine::machine::MachineKind;
    use peerlane_read::catalogue::{Parts, read_system, system};

    fn found(machine: &peerlane_machine::machine::Machine) -> Option<String> {
        see_with(machine, Parts::embedded(), |view| run(view).map(|raised| raised.finding.summary.clone()))
    }

    /// Two cards of a part on one CPU.
    fn two(part: &str) -> peerlane_machine::machine::Machine {
        let gpu = |n| format!("GPU{n} = {{ part = \"{part}\" }}\n");
        let link = |n| format!("[[links]]\nbetween = [\"cpu0\", \"GPU{n}\"]\npcie = \"4.0 x16\"\n");
        let head = "name = \"box\"\ntitle = \"Box\"\nsource = \"a test\"\n[nodes]\ncpu0 = { part = \"epyc-genoa\" }\n";
        read_system(&[head, &gpu(0), &gpu(1), &link(0), &link(1)].concat(), "box.toml").unwrap()
    }

    #[test]
    fn a_design_of_cards_without_peer_access_says_so() {
        let design = two("rtx-4090");
        assert!(found(&design).unwrap().starts_with("There is no peer-to-peer access between GPU0 and GPU1"));
        let mut captured = design;
        captured.kind = MachineKind::Captured;
        assert_eq!(found(&captured), None, "its driver reports what there is");
        assert_eq!(found(&two("rtx-a6000")), None);
        for name in ["hgx-h200", "7gforce"] {
            assert_eq!(found(&system(name).unwrap().unwrap()), None, "{name}");
        }
    }
}
