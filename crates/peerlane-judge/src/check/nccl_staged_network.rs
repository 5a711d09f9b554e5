//! What NCCL sends to other hosts by way of host memory: adapters without GPUDirect RDMA, or none that does RDMA at all.

use super::nccl;
use super::view::{Raised, View};
use super::words::list;
use super::{Certainty, Finding, FindingKind, Rule, Severity};
use peerlane_machine::fact::{Fact, NcclLog};
use peerlane_machine::origin::Origin;
use peerlane_machine::subject::Subject;

pub(super) const RULE: Rule = Rule { id: "nccl-staged-network", breaks: false, run };

/// The modules that let adapters read GPU memory.
const PEER_MODULES: [&str; 2] = ["nvidia_peermem", "nv_peer_mem"];

fn run(view: &View) -> Vec<Raised> {
    let mut raised = Vec::new();
    for (log, origin) in nccl::logs(view) {
        raised.extend(without_direct(view, log, origin));
        raised.extend(over_sockets(view, log, origin));
    }
    raised
}

/// Adapters that NCCL uses without GPUDirect RDMA.
fn without_direct(view: &View, log: &NcclLog, origin: &Origin) -> Option<Raised> {
    // channels that did get it, whatever was said of single adapters
    let over_network = || log.transports.iter().filter(|t| t.via.starts_with("NET/IB"));
    if log.staged.is_empty() || (over_network().next().is_some() && over_network().all(|t| t.via.contains("GDRDMA"))) {
        return None;
    }
    let far = log.staged.iter().find_map(|s| s.distance);
    let mut adapters: Vec<String> = Vec::new();
    for staged in &log.staged {
        // NCCL counts what it uses from 0
        let number = staged.adapter.parse::<usize>().ok();
        let name = match number.map(|n| log.networks.get(n)) {
            Some(Some(network)) => network.split(':').next().unwrap_or(network).to_owned(),
            Some(None) => format!("adapter {}", staged.adapter),
            None => staged.adapter.clone(),
        };
        if !adapters.contains(&name) {
            adapters.push(name);
        }
    }
    let modules = view.machine.evidence.iter().find_map(|e| match &e.fact {
        Fact::Modules(modules) => Some(&modules.loaded),
        _ => None,
    });
    let peer = modules.map(|loaded| PEER_MODULES.iter().any(|name| loaded.contains_key(*name)));
    let measured = match (far, peer) {
        (Some((far, most)), _) => {
            format!("GPU and adapter are too far apart for NCCL: distance {far}, where it takes {most} at most")
        }
        (None, Some(true)) => "GPU Direct RDMA Disabled, although a peer memory module is loaded".to_owned(),
        (None, Some(false)) => "GPU Direct RDMA Disabled, and no peer memory module is loaded".to_owned(),
        (None, None) => "GPU Direct RDMA Disabled".to_owned(),
    };
    let fix = if far.is_some() {
        "Give each GPU an adapter below its own switch (see `nvidia-smi topo -m`). Otherwise NCCL_NET_GDR_LEVEL=SYS makes \
         NCCL use GPUDirect RDMA over this way too: measure both, since host bridges forward such reads badly. In a \
         virtual machine give NCCL the host's topology (NCCL_TOPO_FILE)."
    } else if peer == Some(true) {
        "A module that was built without the adapters' peer-memory interface loads and registers nothing: install the \
         driver after MLNX_OFED or DOCA and load nvidia_peermem again, see the kernel log; or use dma-buf (open kernel \
         modules, Linux 5.12 or later, NCCL_DMABUF_ENABLE not 0). In a container both need the host's modules."
    } else {
        "`modprobe nvidia_peermem` after the RDMA drivers, or use dma-buf (open kernel modules, Linux 5.12 or later, \
         NCCL_DMABUF_ENABLE not 0); NCCL then says \"GPU Direct RDMA Enabled\"."
    };
    let finding = Finding {
        summary: format!(
            "NCCL uses {} without GPUDirect RDMA: what goes to other hosts is copied through host memory",
            list(&adapters)
        ),
        expected: "channels `via NET/IB/…/GDRDMA`, where GPU and adapter are below one switch".to_owned(),
        measured,
        evidence: view.cite([origin]),
        fix: fix.to_owned(),
        confirm: "`lsmod | grep peermem`; `dmesg | grep -i peermem`; `ib_write_bw --use_cuda=0 -d ADAPTER`; \
                  `NCCL_DEBUG=INFO` again"
            .to_owned(),
        ..Finding::of(
            &RULE,
            if far.is_some() { FindingKind::Design } else { FindingKind::Fault },
            Severity::Warning,
            if far.is_some() || peer == Some(false) { Certainty::Certain } else { Certainty::Likely },
            Subject::nodes_of(adapters),
        )
    };
    Some(Raised::new(finding, 0.0))
}

/// TCP between hosts.
fn over_sockets(view: &View, log: &NcclLog, origin: &Origin) -> Option<Raised> {
    let used = log.transports.iter().any(|t| t.via.starts_with("NET/Socket"));
    let chosen = log.network.as_deref() == Some("Socket") && log.hosts > 1;
    // within one host the network is chosen and not used
    if !used && !chosen {
        return None;
    }
    let nics: Vec<String> = view.rdma_nics().into_iter().map(|id| view.name(id).to_owned()).collect();
    let off = nccl::set(log, &["NCCL_IB_DISABLE"], |v| v != "0");
    let named = nccl::set(log, &["NCCL_IB_HCA", "NCCL_NET"], |_| true);
    let measured = match (off.first(), log.no_rdma) {
        (Some(variable), _) => format!("{variable} is set"),
        (None, true) => "NCCL found no RDMA device, or no libibverbs".to_owned(),
        (None, false) => "channels via NET/Socket".to_owned(),
    };
    let named = if named.is_empty() { String::new() } else { format!("; {}", named.join(", ")) };
    let finding = Finding {
        summary: "NCCL goes over TCP sockets between hosts".to_owned(),
        expected: if nics.is_empty() {
            "RDMA (`Using network IB`), where the hosts have adapters for it".to_owned()
        } else {
            format!("RDMA over {}", list(&nics))
        },
        measured: format!("{measured}{named}"),
        evidence: view.cite([origin]),
        fix: if off.is_empty() {
            "See `ibv_devinfo`: ports have to be active. In a container install libibverbs (rdma-core) and pass \
             /dev/infiniband with an unlimited locked-memory limit; NCCL_IB_HCA must name adapters that exist."
        } else {
            "Unset NCCL_IB_DISABLE, unless the adapters do not work: then fix those (`ibv_devinfo`, `ib_write_bw`)."
        }
        .to_owned(),
        confirm: "`ibv_devinfo`; `NCCL_DEBUG=INFO` says \"Using network IB\"".to_owned(),
        ..Finding::of(
            &RULE,
            FindingKind::Design,
            if nics.is_empty() && off.is_empty() { Severity::Info } else { Severity::Warning },
            Certainty::Certain,
            Subject::nodes_of(nics),
        )
    };
    Some(Raised::new(finding, 0.0))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{boxes, captured, findings, pcie, rdma_nic, state};
    use super::*;
    use peerlane_machine::fabric::Link;
    use peerlane_machine::fact::{Modules, NcclStaged, NcclTransport};

    fn found(log: NcclLog, modules: Option<&[&str]>) -> Vec<Finding> {
        let mut b = boxes(&[1], false);
        let (nic, rc) = (b.node(rdma_nic("mlx5_0")), b.find("rc0").unwrap());
        b.link(Link::new(rc, nic, pcie("3.0 x16", "3.0 x16")));
        let mut machine = captured(b);
        state(&mut machine, "NCCL_DEBUG=INFO", Fact::NcclLog(log));
        if let Some(names) = modules {
            let loaded = names.iter().map(|n| ((*n).to_owned(), 1)).collect();
            state(&mut machine, "lsmod", Fact::Modules(Modules { loaded }));
        }
        findings(&machine, run)
    }

    fn staged(distance: Option<(u32, u32)>) -> NcclLog {
        let staged = vec![NcclStaged { adapter: "0".to_owned(), gpu: None, distance }];
        NcclLog { staged, networks: vec!["mlx5_0:1/RoCE".to_owned()], ..NcclLog::default() }
    }

    fn over(via: &str) -> Vec<NcclTransport> {
        vec![NcclTransport { from: 0, to: 8, via: via.to_owned(), channels: 1 }]
    }

    #[test]
    fn the_reason_decides_the_mend() {
        let far = found(staged(Some((7, 4))), None);
        assert!(far[0].summary.contains("uses mlx5_0 without") && far[0].fix.contains("NCCL_NET_GDR_LEVEL"), "{far:?}");
        let loaded = found(staged(None), Some(&["nvidia", "nvidia_peermem"]));
        assert!(loaded[0].fix.contains("registers nothing"), "{loaded:?}");
        let missing = found(staged(None), Some(&["nvidia"]));
        assert!(missing[0].certainty == Certainty::Certain && missing[0].fix.starts_with("`modprobe"), "{missing:?}");
    }

    #[test]
    fn channels_with_it_are_no_trouble() {
        let used = NcclLog { transports: over("NET/IB/0/GDRDMA"), ..staged(None) };
        assert_eq!(found(used, None), []);
    }

    #[test]
    fn sockets_matter_between_hosts() {
        let chosen = NcclLog { network: Some("Socket".to_owned()), no_rdma: true, hosts: 1, ..NcclLog::default() };
        assert_eq!(found(chosen.clone(), None), []);
        let between = found(NcclLog { transports: over("NET/Socket/0"), ..chosen }, None);
        assert_eq!((between.len(), between[0].severity), (1, Severity::Warning));
        assert!(between[0].measured.contains("no RDMA device"));
    }
}
