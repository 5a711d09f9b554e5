//! RDMA NICs and NVIDIA GPUs, but no kernel module through which NICs access GPU memory.

use super::prelude::*;

pub(super) const RULE: Rule = Rule::new("missing-peer-module", One(run));

/// The driver's module through which NICs access GPU memory, and its predecessor.
pub(super) const PEER_MODULES: [&str; 2] = ["nvidia_peermem", "nv_peer_mem"];

fn run(view: &View) -> Option<Raised> {
    let loaded = |name: &str| view.modules().any(|(modules, _)| modules.loaded.contains_key(name));
    let nics = view.names_of(&view.rdma_nics());
    let has_gpu = view.fabric().of_kind(NodeKind::Gpu).next().is_some();
    // without the driver's own module the listing is partial, or the GPUs are from another vendor
    if nics.is_empty() || !has_gpu || !loaded("nvidia") || PEER_MODULES.into_iter().any(loaded) {
        return None;
    }
    let raised = RULE
        .raise(Fault, Info, Possible)
        .summary("Neither nvidia_peermem nor nv_peer_mem is loaded: GPUDirect RDMA works only through dma-buf")
        .expected(format!("one of {} loaded, or dma-buf in use", PEER_MODULES.join(", ")))
        .measured("the nvidia driver is loaded, the peer module is not")
        .evidence(view.cite(view.modules().map(|(_, origin)| origin)))
        .fix(
            "Run `modprobe nvidia_peermem` after the RDMA drivers load, or use dma-buf (open kernel modules, Linux 5.12 or \
             later). NCCL then reports \"GPU Direct RDMA Enabled\".",
        )
        .confirm("`lsmod | grep peermem`; `NCCL_DEBUG=INFO` reports whether GPU Direct RDMA is in use")
        .about_nodes(nics);
    Some(raised)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{boxes, captured, findings, pcie, rdma_nic, state};
    use super::*;
    use peerlane_machine::fabric::Link;
    use peerlane_machine::fact::Modules;

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
