//! What NCCL sends to other hosts through host memory: adapters without GPUDirect RDMA, or none that does RDMA at all.

use super::missing_peer_module::PEER_MODULES;
use super::nccl;
use super::prelude::*;
use peerlane_machine::fact::NcclLog;

pub(super) const RULE: Rule = Rule::new("nccl-staged-network", Many(run));

/// The first release that finds nvidia_peermem by `/sys/module` (`ncclIbGdrSupport` in `src/transport/net_ib.cc`; NCCL issue
/// 1676).
const BY_MODULE: (u32, u32) = (2, 23);

fn run(view: &View) -> Vec<Raised> {
    let of_log = |(log, origin)| without_direct(view, log, origin).into_iter().chain(over_sockets(view, log, origin));
    nccl::logs(view).into_iter().flat_map(of_log).collect()
}

/// Adapters that NCCL uses without GPUDirect RDMA.
fn without_direct(view: &View, log: &NcclLog, origin: &Origin) -> Option<Raised> {
    // channels that did get it, whatever was logged of single adapters
    let over_network = || log.transports.iter().filter(|t| t.via.starts_with("NET/IB"));
    if log.staged.is_empty() || (over_network().next().is_some() && over_network().all(|t| t.via.contains("GDRDMA"))) {
        return None;
    }
    // NCCL numbers what it uses from 0
    let name = |adapter: &String| match adapter.parse::<usize>().map(|n| log.networks.get(n)) {
        Ok(Some(network)) => network.split(':').next().unwrap_or(network).to_owned(),
        Ok(None) => format!("adapter {adapter}"),
        Err(_) => adapter.clone(),
    };
    let adapters = distinct(log.staged.iter().map(|staged| name(&staged.adapter)));
    let far = log.staged.iter().find_map(|s| s.distance);
    let modules = view.modules().next();
    let peer = modules.map(|(modules, _)| PEER_MODULES.iter().any(|name| modules.loaded.contains_key(*name)));
    let measured = match (far, peer) {
        (Some((far, most)), _) => {
            format!("GPU and adapter are too far apart for NCCL: distance {far}, NCCL's limit is {most}")
        }
        (None, Some(true)) => "GPU Direct RDMA Disabled, although a peer memory module is loaded".to_owned(),
        (None, Some(false)) => "GPU Direct RDMA Disabled, and no peer memory module is loaded".to_owned(),
        (None, None) => "GPU Direct RDMA Disabled".to_owned(),
    };
    let fix = if far.is_some() {
        "Try NCCL_NET_GDR_LEVEL=SYS, which lets NCCL use GPUDirect RDMA over this path too. Keep it only if it is \
         faster: many host bridges forward such reads slowly. In a virtual machine, give NCCL the host's topology \
         (NCCL_TOPO_FILE) instead. An adapter below the GPU's own switch is best (`nvidia-smi topo -m`)."
    } else if peer == Some(true) && log.release().is_some_and(|release| release < BY_MODULE) {
        "Use NCCL 2.23 or newer. Up to 2.22 it looks for the module in /sys/kernel/mm/memory_peers alone, where \
         nvidia_peermem of today's drivers and kernels is not listed."
    } else if peer == Some(true) {
        "Install the driver after MLNX_OFED or DOCA, load nvidia_peermem again and read the kernel log. A module that \
         was built without the adapters' peer-memory interface loads but registers nothing. Or use dma-buf (open \
         kernel modules, Linux 5.12 or later, NCCL_DMABUF_ENABLE not 0). In a container, both need the host's \
         modules."
    } else if peer.is_none() && log.release().is_none_or(|release| release < BY_MODULE) {
        "If `lsmod` shows nvidia_peermem, use NCCL 2.23 or newer. If not, run `modprobe nvidia_peermem` after the \
         RDMA drivers load. Up to 2.22, NCCL looks for the module in /sys/kernel/mm/memory_peers alone, where that of \
         today's drivers and kernels is not listed. Dma-buf needs no module (open kernel modules, Linux 5.12 or later)."
    } else {
        "Run `modprobe nvidia_peermem` after the RDMA drivers load, or use dma-buf (open kernel modules, Linux 5.12 or \
         later, NCCL_DMABUF_ENABLE not 0). NCCL then reports \"GPU Direct RDMA Enabled\"."
    };
    // a module that is loaded and does nothing is broken; without one, the setup is as someone left it
    let kind = if peer == Some(true) && far.is_none() { Fault } else { Design };
    let raised = RULE
        .raise(kind, Warning, if far.is_some() || peer == Some(false) { Certain } else { Likely })
        .summary(format!(
            "NCCL uses {} without GPUDirect RDMA: data for other hosts is copied through host memory",
            list(&adapters)
        ))
        .expected("channels `via NET/IB/…/GDRDMA`, where GPU and adapter are below one switch")
        .measured(measured)
        .evidence(view.cite([origin]))
        .fix(fix)
        .confirm(
            "`lsmod | grep peermem`; `dmesg | grep -i peermem`; `ib_write_bw --use_cuda=0 -d ADAPTER`; `NCCL_DEBUG=INFO` \
             again",
        )
        .about_nodes(adapters);
    Some(raised)
}

/// TCP between hosts.
fn over_sockets(view: &View, log: &NcclLog, origin: &Origin) -> Option<Raised> {
    let used = log.transports.iter().any(|t| t.via.starts_with("NET/Socket"));
    let chosen = log.network.as_deref() == Some("Socket") && log.hosts > 1;
    // within one host the network is chosen and not used
    if !used && !chosen {
        // a log of one process does not show whether there are other hosts
        let alone = log.network.as_deref() == Some("Socket") && log.no_rdma && log.size.is_none();
        return alone.then(|| without_rdma(view, origin));
    }
    let nics = view.names_of(&view.rdma_nics());
    let off = nccl::set(log, &["NCCL_IB_DISABLE"], |v| v != "0");
    let named = nccl::set(log, &["NCCL_IB_HCA", "NCCL_NET"], |_| true);
    let measured = match (off.first(), log.no_rdma) {
        (Some(variable), _) => format!("{variable} is set"),
        (None, true) => "NCCL found no RDMA device, or no libibverbs".to_owned(),
        (None, false) => "channels via NET/Socket".to_owned(),
    };
    let named = if named.is_empty() { String::new() } else { format!("; {}", named.join(", ")) };
    let raised = RULE
        .raise(Design, if nics.is_empty() && off.is_empty() && !used { Info } else { Warning }, Certain)
        .summary("NCCL uses TCP sockets between hosts")
        .expected(if nics.is_empty() {
            "RDMA (`Using network IB`), where the hosts have adapters for it".to_owned()
        } else {
            format!("RDMA over {}", list(&nics))
        })
        .measured(format!("{measured}{named}"))
        .evidence(view.cite([origin]))
        .fix(if off.is_empty() {
            "Bring the ports up, and set NCCL_IB_HCA to adapters that exist (`ibv_devinfo`). In a container, install \
             libibverbs (rdma-core) and pass /dev/infiniband with an unlimited locked-memory limit."
        } else {
            "Unset NCCL_IB_DISABLE. If it is set because the adapters do not work, fix those (`ibv_devinfo`, `ib_write_bw`)."
        })
        .confirm("`ibv_devinfo`; `NCCL_DEBUG=INFO` prints \"Using network IB\"")
        .about_nodes(nics);
    Some(raised)
}

/// No RDMA, in a log that does not show whether there are other hosts.
fn without_rdma(view: &View, origin: &Origin) -> Raised {
    RULE.raise(Design, Info, Possible)
        .summary("NCCL finds no RDMA device and takes TCP sockets for other hosts")
        .expected("RDMA (`Using network IB`), if the job has several hosts with adapters for it")
        .measured("NCCL found no RDMA device, or no libibverbs")
        .evidence(view.cite([origin]))
        .fix(
            "Within one host nothing is lost. If the job has several hosts with RDMA adapters: run `ibv_devinfo` where \
             NCCL runs. In a container, install libibverbs (rdma-core) and pass /dev/infiniband with an unlimited \
             locked-memory limit.",
        )
        .confirm("`ibv_devinfo`; `NCCL_DEBUG=INFO` prints \"Using network IB\"")
}

#[cfg(test)]
mod tests {
    use super::super::testing::{boxes, captured, findings, pcie, rdma_nic, state};
    use super::*;
    use crate::finding::Finding;
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
    fn the_reason_decides_the_fix() {
        let far = found(staged(Some((7, 4))), None);
        assert!(far[0].summary.contains("uses mlx5_0 without") && far[0].fix.contains("NCCL_NET_GDR_LEVEL"), "{far:?}");
        let loaded = found(staged(None), Some(&["nvidia", "nvidia_peermem"]));
        assert!(loaded[0].fix.contains("loads but registers nothing"), "{loaded:?}");
        let old = NcclLog { version: Some("2.22.3+cuda12.4".to_owned()), ..staged(None) };
        assert!(found(old, Some(&["nvidia_peermem"]))[0].fix.starts_with("Use NCCL 2.23"));
        assert!(found(staged(None), None)[0].fix.starts_with("If `lsmod` shows nvidia_peermem, use NCCL 2.23"));
        let missing = found(staged(None), Some(&["nvidia"]));
        assert!(missing[0].certainty == Certain && missing[0].fix.starts_with("Run `modprobe"), "{missing:?}");
    }

    #[test]
    fn channels_with_it_are_no_trouble() {
        let used = NcclLog { transports: over("NET/IB/0/GDRDMA"), ..staged(None) };
        assert_eq!(found(used, None), []);
    }

    #[test]
    fn sockets_matter_between_hosts() {
        let chosen = NcclLog { network: Some("Socket".to_owned()), no_rdma: true, hosts: 1, ..NcclLog::default() };
        let alone = found(chosen.clone(), None);
        assert!(
            alone.len() == 1 && alone[0].severity == Info && alone[0].fix.starts_with("Within one host"),
            "{alone:?}"
        );
        assert_eq!(found(NcclLog { size: Some(8), ..chosen.clone() }, None), [], "all ranks are of this host");
        let between = found(NcclLog { transports: over("NET/Socket/0"), ..chosen }, None);
        assert_eq!((between.len(), between[0].severity), (1, Warning));
        assert!(between[0].measured.contains("no RDMA device"));
    }
}
