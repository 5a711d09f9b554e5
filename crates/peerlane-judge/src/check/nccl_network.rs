//! Connections between hosts that fail or cannot work: what NCCL's log shows of adapters, addresses and interfaces.

use super::gids;
use super::nccl;
use super::prelude::*;
use peerlane_machine::fact::{NcclLog, SetupFailure, SetupFailureKind};

pub(super) const RULE: Rule = Rule::new("nccl-network", Many(run)).watched();

/// Interfaces of containers and virtual machines, which other hosts do not reach. NCCL itself leaves out `docker`, `virbr` and
/// `lo` where there is another.
const VIRTUAL: [&str; 9] = ["br-", "docker", "veth", "virbr", "cni", "cali", "flannel", "podman", "lxc"];

fn run(view: &View) -> Vec<Raised> {
    let of_log = |(log, origin): (&NcclLog, &Origin)| {
        let one = failed(view, log, origin).or_else(|| virtual_interfaces(view, log, origin));
        one.into_iter().collect::<Vec<_>>()
    };
    nccl::logs(view).into_iter().flat_map(of_log).collect()
}

/// Whether a failed connection is explained by interfaces that end at their host.
pub(super) fn names_interfaces(view: &View) -> bool {
    let named = |(log, origin)| failing(view, log).is_some() && virtual_interfaces(view, log, origin).is_some();
    nccl::logs(view).into_iter().any(named)
}

/// Why a connection over RDMA fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// InfiniBand at one end, Ethernet at the other.
    LinkTypes,
    /// The entry of the GID table that NCCL takes cannot be read.
    Gid,
    /// The adapters' addresses do not reach each other.
    Address,
    /// Packets are lost, or the far end is gone.
    Lost,
    /// An adapter may not read or write the memory that it was given.
    Protection,
    /// Memory cannot be locked.
    Locked,
}

impl Failure {
    /// By NCCL's own words, from the most to the least specific; numbers are those of `enum ibv_wc_status`.
    const ALL: [(Failure, &'static [&'static str]); 6] = [
        (Failure::LinkTypes, &["Try selecting NICs of only one link type"]),
        (Failure::Gid, &["ncclIbRoceGetVersionNum", "Call to ibv_query_gid failed"]),
        (
            Failure::Locked,
            &[
                "ibv_reg_mr failed with error Cannot allocate memory",
                "ibv_create_cq failed with error Cannot",
                "Call to ibv_create_qp failed",
                "iova2 failed with error Cannot",
            ],
        ),
        (
            Failure::Protection,
            &["status=4 ", "status=IBV_WC_LOC_PROT_ERR", "with error 4,", "status=10 ", "with error 10,"],
        ),
        (Failure::Lost, &["status=12 ", "status=IBV_WC_RETRY_EXC_ERR", "with error 12,"]),
        (Failure::Address, &["Call to ibv_modify_qp failed"]),
    ];

    fn of(warning: &str) -> Option<Self> {
        let fits = |(_, words): &&(Failure, &[&str])| words.iter().any(|w| warning.contains(w));
        Self::ALL.iter().find(fits).map(|(failure, _)| *failure)
    }
}

fn failed(view: &View, log: &NcclLog, origin: &Origin) -> Option<Raised> {
    let failures = log.warnings.iter().filter_map(|w| Some((Failure::of(w)?, w)));
    let rank = |failure: &Failure| Failure::ALL.iter().position(|(of, _)| of == failure);
    let (failure, warning) = failures.min_by_key(|(failure, _)| rank(failure))?;
    let of = |layer: &str| -> Vec<String> {
        let name = |n: &String| n.strip_suffix(layer).map(|n| n.split(':').next().unwrap_or(n).to_owned());
        distinct(log.networks.iter().filter_map(name))
    };
    let redirects =
        view.facts(|fact| matches!(fact, Fact::Acs(lines) if lines.redirecting > 0).then_some(())).next().is_some();
    let (ib, roce) = (of("/IB"), of("/RoCE"));
    let mixed = !ib.is_empty() && !roce.is_empty();
    let failure = if failure == Failure::Address && mixed { Failure::LinkTypes } else { failure };
    let few = if ib.len() < roce.len() { &ib } else { &roce };
    let (summary, fix, confirm) = match failure {
        Failure::LinkTypes if mixed => (
            format!(
                "NCCL connects InfiniBand and Ethernet (RoCE) adapters with each other, which cannot work: {} {} {}",
                list(few),
                if few.len() == 1 { "is" } else { "are" },
                if ib.len() < roce.len() { "InfiniBand" } else { "RoCE" },
            ),
            format!(
                "Let NCCL use adapters of one link type, on all hosts: NCCL_IB_HCA=^{} leaves {} out.",
                few.join(","),
                if few.len() == 1 { "it" } else { "them" },
            ),
            "`ibv_devinfo | grep -e hca_id -e link_layer`; `NCCL_DEBUG=INFO` prints the adapters behind \"NET/IB : Using\"",
        ),
        Failure::LinkTypes => (
            "NCCL connects InfiniBand and Ethernet (RoCE) adapters with each other, which cannot work".to_owned(),
            "Set NCCL_IB_HCA to adapters of one link type, on all hosts.".to_owned(),
            "`ibv_devinfo | grep -e hca_id -e link_layer`",
        ),
        Failure::Gid => (
            "NCCL cannot read the GID that it selects of a RoCE adapter".to_owned(),
            match gids::advice(view) {
                Some(of_table) => format!("{of_table} Every host and pod of the job must have that entry."),
                None => "Set NCCL_IB_GID_INDEX to a RoCE v2 entry that exists on every host (`show_gids`), or unset \
                         it: NCCL 2.21 and later select one themselves. In a container or pod with its own interface \
                         (macvlan, SR-IOV), only some entries of the GID table exist; give all pods the same."
                    .to_owned(),
            },
            "`show_gids` in each container",
        ),
        Failure::Address => (
            format!(
                "RDMA adapters cannot connect to those of another host: ibv_modify_qp fails{}",
                reason(warning).map_or_else(String::new, |why| format!(" ({why})")),
            ),
            match gids::advice(view) {
                Some(of_table) => format!(
                    "{of_table} The addresses must be routed between the hosts: check VLANs. If adapters reach only \
                     those of their own rail, set NCCL_CROSS_NIC=0."
                ),
                None => "On RoCE, set NCCL_IB_GID_INDEX to the RoCE v2 entry with an IPv4 address (`show_gids`; often \
                         3). Each adapter's address must be routed to the other host: check subnets and VLANs. If \
                         adapters reach only those of their own rail, set NCCL_CROSS_NIC=0. On InfiniBand, ports must \
                         be active and in one fabric. If some adapters are on another network, leave them out with \
                         NCCL_IB_HCA."
                    .to_owned(),
            },
            "`show_gids` on both hosts; `ibv_devinfo`; `ib_write_bw -d ADAPTER -x GID_INDEX` between them",
        ),
        Failure::Lost => (
            "RDMA transfers to another host are not acknowledged: retries are used up".to_owned(),
            "If the far process ended, find its own error first. Else packets are lost: check cables and ports, and on \
             RoCE flow control (PFC, ECN) and routes of each rail. NCCL_IB_TIMEOUT=22 helps only where the network is \
             slow, not broken."
                .to_owned(),
            "`ibv_devinfo`; `ib_write_bw -d ADAPTER` between these hosts",
        ),
        Failure::Protection if redirects => (
            "RDMA adapters are refused access to memory that NCCL gave them, and ACS redirects transfers between devices"
                .to_owned(),
            "Turn off ACS redirection at all ports between adapters and GPUs (see acs-redirect), in the BIOS or with \
             setpci after each start. GPUDirect RDMA may fail where it is on."
                .to_owned(),
            "`lspci -vvv | grep ACSCtl`; the same job with NCCL_NET_GDR_LEVEL=LOC",
        ),
        Failure::Protection => (
            "RDMA adapters are refused access to memory that NCCL gave them".to_owned(),
            "If the job works with NCCL_NET_GDR_LEVEL=LOC, turn off ACS and IOMMU translation, and install driver \
             and peer memory module of matching releases: access between adapter and GPU fails. If it fails there \
             too, look for a program that frees memory or forks during a transfer."
                .to_owned(),
            "`lspci -vvv | grep ACSCtl`; `lsmod | grep peermem`; the same job with NCCL_NET_GDR_LEVEL=LOC",
        ),
        Failure::Locked => (
            "NCCL cannot lock memory for RDMA".to_owned(),
            "Raise the limit of locked memory: `ulimit -l unlimited`, in a container `--ulimit memlock=-1`, for a service \
             LimitMEMLOCK=infinity."
                .to_owned(),
            "`NCCL_DEBUG=INFO` again, without the warning",
        ),
    };
    let raised = RULE
        .raise(Fault, Error, if failure == Failure::LinkTypes { Certain } else { Likely })
        .summary(summary)
        .expected("RDMA connections between all hosts of the job")
        .measured(warning.trim_end_matches(['.', ' ', '_']))
        .evidence(view.cite([origin]))
        .fix(fix)
        .confirm(confirm)
        .about_nodes(if mixed { few.clone() } else { Vec::new() });
    Some(raised)
}

/// What the system answers: `… failed with error Network is unreachable errno 101`, newer `… failed with 110 Connection timed
/// out, on dev …`.
fn reason(warning: &str) -> Option<&str> {
    let (_, rest) = warning.split_once("failed with ")?;
    let rest = rest.strip_prefix("error ").unwrap_or(rest).trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ');
    let rest = rest.split(" errno ").next().unwrap_or(rest).split(',').next().unwrap_or(rest);
    Some(rest.trim_end_matches(['.', ' ', '_'])).filter(|r| !r.is_empty())
}

/// A connection over TCP that fails, by NCCL or by what runs it.
fn failing(view: &View, log: &NcclLog) -> Option<String> {
    let warning = log.warnings.iter().find(|w| w.to_lowercase().contains("socket") || w.contains("Call to connect"));
    let mut messages = view.facts(|fact| if let Fact::SetupFailures(all) = fact { Some(all) } else { None });
    let is_of_tcp = |f: &&SetupFailure| matches!(f.kind, SetupFailureKind::Connect | SetupFailureKind::SystemCall);
    warning.cloned().or_else(|| messages.find_map(|(all, _)| Some(all.iter().find(is_of_tcp)?.message.clone())))
}

/// TCP over interfaces that exist within one host alone.
fn virtual_interfaces(view: &View, log: &NcclLog, origin: &Origin) -> Option<Raised> {
    let over_tcp = log.network.as_deref().is_none_or(|n| n == "Socket") && log.networks.is_empty();
    let name = |socket: &String| socket.split(':').next().unwrap_or_default().to_owned();
    let (own, real): (Vec<String>, Vec<String>) =
        log.sockets.iter().map(name).partition(|n| VIRTUAL.iter().any(|v| n.starts_with(v)));
    let first = real.first()?;
    if own.is_empty() || !over_tcp {
        return None;
    }
    let failing = failing(view, log);
    let (severity, certainty) = if failing.is_some() { (Error, Likely) } else { (Info, Possible) };
    let raised = RULE
        .raise(Fault, severity, certainty)
        .summary(format!(
            "NCCL uses {} of this host for TCP ({}), which other hosts cannot reach",
            if own.len() == 1 { "a virtual interface".to_owned() } else { format!("{} virtual interfaces", own.len()) },
            own.iter().take(3).cloned().collect::<Vec<_>>().join(", ") + if own.len() > 3 { " …" } else { "" },
        ))
        .expected("interfaces of the network that joins the hosts of the job")
        .measured(failing.map_or_else(|| "NET/Socket lists them".to_owned(), |w| w.trim().to_owned()))
        .evidence(view.cite([origin]))
        .fix(format!(
            "If the job has several hosts, set NCCL_SOCKET_IFNAME={} (the interface that they share) on all of them.",
            real.iter().find(|n| n.starts_with("bond")).unwrap_or(first)
        ))
        .confirm("`NCCL_DEBUG=INFO` prints the interfaces behind \"NET/Socket : Using\"");
    Some(raised)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, state, switched};
    use super::*;
    use crate::finding::Finding;
    use peerlane_machine::fact::Fact;

    fn found(warnings: &[&str], networks: &[&str], sockets: &[&str]) -> Vec<Finding> {
        let own = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
        let mut machine = switched(2);
        let (warnings, networks, sockets) = (own(warnings), own(networks), own(sockets));
        state(
            &mut machine,
            "NCCL_DEBUG=INFO",
            Fact::NcclLog(NcclLog { warnings, networks, sockets, ..NcclLog::default() }),
        );
        findings(&machine, run)
    }

    const UNREACHABLE: &str = "misc/ibvwrap.cc:187 Call to ibv_modify_qp failed with error Network is unreachable";

    #[test]
    fn the_odd_adapter_is_named() {
        let all = found(&[UNREACHABLE], &["mlx5_3:1/IB", "mlx5_0:1/IB", "mlx5_2:1/RoCE"], &[]);
        let [one] = &all[..] else { panic!("{all:?}") };
        assert!(
            one.summary.ends_with("mlx5_2 is RoCE") && one.fix.contains("NCCL_IB_HCA=^mlx5_2 leaves it out"),
            "{one:?}"
        );
        let own = "NET/IB : Attempted to connect incompatible devices: [0]mlx5_0:1/IB and [1]mlx5_1:1/RoCE. Try \
                   selecting NICs of only one link type using NCCL_IB_HCA";
        assert!(found(&[UNREACHABLE, own], &[], &[])[0].summary.contains("InfiniBand and Ethernet"));
    }

    #[test]
    fn adapters_of_one_kind_that_do_not_connect() {
        for (warning, why) in [
            (UNREACHABLE, "(Network is unreachable)"),
            ("Call to ibv_modify_qp failed with error Connection timed out_", "(Connection timed out)"),
            ("Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1", "(Connection timed out)"),
            ("Call to ibv_modify_qp failed with error Invalid argument errno 22", "(Invalid argument)"),
        ] {
            let all = found(&[warning], &["mlx5_0:1/RoCE"], &[]);
            assert!(all.len() == 1 && all[0].summary.ends_with(why), "{all:?}");
            assert!(all[0].fix.contains("NCCL_IB_GID_INDEX"));
        }
    }

    #[test]
    fn each_failure_has_its_own_advice() {
        let fix = |warning| found(&[warning], &[], &[])[0].fix.clone();
        assert!(fix("NET/IB: read failed in ncclIbRoceGetVersionNum: Invalid argument").contains("macvlan"));
        assert!(
            fix("NET/IB : Got completion from peer 10.0.0.2<41> with status=12 opcode=0 len=0 vendor err 129 (Send)")
                .contains("PFC")
        );
        assert!(
            fix("NET/IB : Got completion from peer 10.0.0.2<41> with error 4, opcode 1, len 0, vendor err 81")
                .contains("ACS")
        );
        assert!(fix("Call to ibv_reg_mr failed with error Cannot allocate memory").contains("memlock"));
        assert_eq!(found(&["Cuda failure 'out of memory'"], &["mlx5_0:1/IB", "mlx5_1:1/RoCE"], &[]), []);
    }

    #[test]
    fn bridges_of_containers_are_left_out_by_name() {
        let sockets = ["bond0:10.0.0.1<0>", "br-05ab:172.19.0.1<0>", "veth61:fe80::b8<0>"];
        let listed = found(&[], &[], &sockets);
        assert!(listed[0].severity == Info && listed[0].fix.contains("NCCL_SOCKET_IFNAME=bond0"), "{listed:?}");
        assert_eq!(found(&["misc/socket.cc:49 Call to connect failed"], &[], &sockets)[0].severity, Error);
        let mut machine = switched(2);
        let kind = SetupFailureKind::SystemCall;
        let failure =
            SetupFailure { kind, subject: None, message: "ncclSystemError: System call".to_owned(), count: 1 };
        let sockets_of = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
        let log = NcclLog { sockets: sockets_of(&sockets), ..NcclLog::default() };
        state(&mut machine, "NCCL_DEBUG=INFO", Fact::NcclLog(log));
        state(&mut machine, "error messages", Fact::SetupFailures(vec![failure]));
        assert_eq!(findings(&machine, run)[0].severity, Error, "what a framework reports");
        assert_eq!(found(&[], &["mlx5_0:1/IB"], &sockets), [], "RDMA is used");
        assert_eq!(found(&[], &[], &sockets[..1]), []);
    }
}
