//! RDMA NICs and NVIDIA GPUs, but no kernel module that lets the one read the other's memory.

use super::view::{Raised, View};
use super::{Certainty, Finding, FindingKind, Rule, Severity};
use peerlane_machine::fabric::NodeKind;
use peerlane_machine::fact::{Fact, Modules};
use peerlane_machine::subject::Subject;

pub(super) const RULE: Rule = Rule { id: "missing-peer-module", breaks: false, run };

/// The driver's module, and the one that came before it.
const PEER_MODULES: [&str; 2] = ["nvidia_peermem", "nv_peer_mem"];

fn run(view: &View) -> Vec<Raised> {
    let listings: Vec<&Modules> = view
        .machine
        .evidence
        .iter()
        .filter_map(|e| match &e.fact {
            Fact::Modules(modules) => Some(modules),
            _ => None,
        })
        .collect();
    let loaded = |name: &str| listings.iter().any(|m| m.loaded.contains_key(name));
    let nics: Vec<String> = view.rdma_nics().into_iter().map(|id| view.name(id).to_owned()).collect();
    let has_gpu = view.fabric().of_kind(NodeKind::Gpu).next().is_some();
    // without the driver's own module the listing is partial, or the GPUs are another maker's
    if nics.is_empty() || !has_gpu || !loaded("nvidia") || PEER_MODULES.into_iter().any(loaded) {
        return Vec::new();
    }
    let finding = Finding {
        rule: RULE.id.to_owned(),
        certainty: Certainty::Possible,
        confirm: "`lsmod | grep peermem`; `NCCL_DEBUG=INFO` says whether GPU Direct RDMA is in use".to_owned(),
        cost: None,
        kind: FindingKind::Fault,
        severity: Severity::Info,
        subjects: Subject::nodes_of(nics),
        summary: "Neither nvidia_peermem nor nv_peer_mem is loaded: GPUDirect RDMA works only through dma-buf"
            .to_owned(),
        expected: format!("one of {} loaded, or dma-buf in use", PEER_MODULES.join(", ")),
        measured: "the nvidia driver is loaded, the peer module is not".to_owned(),
        evidence: view.cite_facts(|fact| matches!(fact, Fact::Modules(_))),
        fix:
            "`modprobe nvidia_peermem` after the RDMA drivers, or see that dma-buf serves (open kernel modules, Linux \
               5.12 or later; NCCL says \"GPU Direct RDMA Enabled\")."
                .to_owned(),
    };
    vec![Raised::new(finding, 0.0)]
}

#[cfg(test)]
mod tests {
    use super::super::testing::{boxes, captured, findings, pcie, rdma_nic, state};
    use super::*;
    use peerlane_machine::fabric::Link;

    fn with_modules(names: &[&str]) -> usize {
        let mut b = boxes(&[1], false);
        let (nic, rc) = (b.node(rdma_nic("mlx5_0")), b.find("rc0").unwrap());
        b.link(Link::new(rc, nic, pcie("3.0 x16", "3.0 x16")));
        let mut machine = captured(b);
        let loaded = names.iter().map(|n| ((*n).to_owned(), 1)).collect();
        state(&mut machine, "/proc/modules", Fact::Modules(Modules { loaded }));
        findings(&machine, run).len()
    }

    #[test]
    fn fires_only_where_the_driver_is_listed_without_its_peer_module() {
        assert_eq!(with_modules(&["nvidia", "mlx5_core"]), 1);
        assert_eq!(with_modules(&["nvidia", "nvidia_peermem"]), 0);
        assert_eq!(with_modules(&["nvidia", "nv_peer_mem"]), 0);
        assert_eq!(with_modules(&["mlx5_core"]), 0);
    }
}
