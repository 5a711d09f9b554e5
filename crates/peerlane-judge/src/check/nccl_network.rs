//! Connections between hosts that fail or cannot work: what NCCL's log shows of adapters, addresses and interfaces.

use super::messages;
use super::nccl;
use super::prelude::*;
use peerlane_machine::fact::NcclLog;

pub(super) const RULE: Rule = Rule::new("nccl-network", Many(run)).watched();

/// Interfaces of containers and virtual machines, which other hosts do not reach. NCCL itself leaves out `docker`, `virbr` and
/// `lo` where there is another.
const VIRTUAL: [&str; 9] = ["br-", "docker", "veth", "virbr", "cni", "cali", "flannel", "podman", "lxc"];

/// Messages of connections over RDMA that fail between adapters of different link types.
const UNCONNECTED: [&str; 3] = ["nccl-ib-modify-qp", "nccl-ib-link-types", "nccl-ib-retry"];

/// Messages of TCP connections that fail.
const OF_TCP: [&str; 5] =
    ["nccl-connect", "nccl-connect-retries", "nccl-socket-closed", "nccl-system-call", "nccl-socket-call"];

fn run(view: &View) -> Vec<Raised> {
    let of_log = |(log, origin): (&NcclLog, &Origin)| {
        let one = mixed(view, log, origin).or_else(|| virtual_interfaces(view, log, origin));
        one.into_iter().collect::<Vec<_>>()
    };
    nccl::logs(view).into_iter().flat_map(of_log).collect()
}

/// Adapters of two link types where connections fail: the few of one type are named.
fn mixed(view: &View, log: &NcclLog, origin: &Origin) -> Option<Raised> {
    let of = |layer: &str| -> Vec<String> {
        let name = |n: &String| n.strip_suffix(layer).map(|n| n.split(':').next().unwrap_or(n).to_owned());
        distinct(log.networks.iter().filter_map(name))
    };
    let (ib, roce) = (of("/IB"), of("/RoCE"));
    if ib.is_empty() || roce.is_empty() || !messages::is_reported(view, &UNCONNECTED) {
        return None;
    }
    let few = if ib.len() < roce.len() { &ib } else { &roce };
    let them = if few.len() == 1 { "it" } else { "them" };
    let raised = RULE
        .raise(Fault, Error, Certain)
        .summary(format!(
            "NCCL connects InfiniBand and Ethernet (RoCE) adapters with each other, which cannot work: {} {} {}",
            list(few),
            verb(few, "is", "are"),
            if ib.len() < roce.len() { "InfiniBand" } else { "RoCE" },
        ))
        .expected("adapters of one link type at both ends of each connection")
        .measured(format!("NET/IB lists {} on InfiniBand and {} on Ethernet", list(&ib), list(&roce)))
        .evidence(view.cite([origin]))
        .fix(format!(
            "Let NCCL use adapters of one link type, on all hosts: NCCL_IB_HCA=^{} leaves {them} out.",
            few.join(",")
        ))
        .confirm(
            "`ibv_devinfo | grep -e hca_id -e link_layer`; `NCCL_DEBUG=INFO` prints the adapters behind \"NET/IB : Using\"",
        )
        .about_nodes(few.clone());
    Some(raised)
}

/// A connection over TCP that fails, by NCCL or by what runs it.
fn failing(view: &View, log: &NcclLog) -> Option<String> {
    let warning = log.warnings.iter().find(|w| w.to_lowercase().contains("socket") || w.contains("Call to connect"));
    let mut messages = view.messages().filter(|(message, _)| OF_TCP.contains(&message.id));
    warning.cloned().or_else(|| messages.next().map(|(message, _)| message.quote.clone()))
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
    use peerlane_machine::fact::Message;

    fn found(warnings: &[&str], networks: &[&str], sockets: &[&str], message: Option<&'static str>) -> Vec<Finding> {
        let own = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
        let mut machine = switched(2);
        let (warnings, networks, sockets) = (own(warnings), own(networks), own(sockets));
        let log = NcclLog { warnings, networks, sockets, ..NcclLog::default() };
        state(&mut machine, "NCCL_DEBUG=INFO", Fact::NcclLog(log));
        if let Some(id) = message {
            state(
                &mut machine,
                "NCCL",
                Fact::Message(Message { id, quote: "as printed".to_owned(), count: 1, ..Message::default() }),
            );
        }
        findings(&machine, run)
    }

    #[test]
    fn its_messages_are_known() {
        let unknown = UNCONNECTED.iter().chain(&OF_TCP).find(|id| peerlane_read::knowledge::entry(id).is_none());
        assert_eq!(unknown, None);
    }

    #[test]
    fn the_adapter_of_another_link_type_is_named() {
        let networks = ["mlx5_3:1/IB", "mlx5_0:1/IB", "mlx5_2:1/RoCE"];
        let all = found(&[], &networks, &[], Some("nccl-ib-modify-qp"));
        let [one] = &all[..] else { panic!("{all:?}") };
        assert!(
            one.summary.ends_with("mlx5_2 is RoCE") && one.fix.contains("NCCL_IB_HCA=^mlx5_2 leaves it out"),
            "{one:?}"
        );
        assert_eq!(found(&[], &networks, &[], None), [], "nothing fails");
        assert_eq!(found(&[], &networks[..2], &[], Some("nccl-ib-modify-qp")), [], "adapters of one type");
    }

    #[test]
    fn bridges_of_containers_are_left_out_by_name() {
        let sockets = ["bond0:10.0.0.1<0>", "br-05ab:172.19.0.1<0>", "veth61:fe80::b8<0>"];
        let listed = found(&[], &[], &sockets, None);
        assert!(listed[0].severity == Info && listed[0].fix.contains("NCCL_SOCKET_IFNAME=bond0"), "{listed:?}");
        assert_eq!(found(&["misc/socket.cc:49 Call to connect failed"], &[], &sockets, None)[0].severity, Error);
        let reported = found(&[], &[], &sockets, Some("nccl-system-call"));
        assert_eq!(reported[0].severity, Error, "what a framework reports");
        assert_eq!(found(&[], &["mlx5_0:1/IB"], &sockets, None), [], "RDMA is used");
        assert_eq!(found(&[], &[], &sockets[..1], None), []);
    }
}
