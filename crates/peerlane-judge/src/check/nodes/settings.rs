//! How ports are set up: the payload of their packets, and their address in a RoCE network. Ports of which nothing is known are
//! left out.

use std::collections::BTreeMap;

use super::prelude::*;
use peerlane_measure::nodes::{Gid, Nic, NodesRun};

pub(in crate::check) const RDMA_MTU: Rule = Rule::new("rdma-mtu", Look::Nodes(|view| raised(mtu(view.run)))).watched();

pub(in crate::check) const RDMA_GID: Rule = Rule::new("rdma-gid", Look::Nodes(|view| raised(gid(view.run))));

fn nics(run: &NodesRun) -> impl Iterator<Item = (String, &Nic)> {
    let named = move |node: usize, nic: &Nic| format!("{}/{}", host(run, node), nic.name);
    run.nodes.iter().enumerate().flat_map(move |(node, of)| of.nics.iter().map(move |nic| (named(node, nic), nic)))
}

/// Packets that are smaller at some ports than at others, or than all ports could have.
fn mtu(run: &NodesRun) -> Vec<Finding> {
    let mut sizes: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    let mut most = 0;
    for (name, nic) in nics(run) {
        let Some([active, could]) = nic.mtu else { continue };
        sizes.entry(active).or_default().push(name);
        most = most.max(could);
    }
    let fix = |to: u32| {
        format!(
            "Set the MTU of the network to hold packets of {to} bytes and their headers, at hosts and switches alike: on Ethernet \
             `ip link set dev … mtu 4200` or more (jumbo frames) on both; on InfiniBand in the subnet manager's partition."
        )
    };
    let confirm = "`ibv_devinfo`: active_mtu beside max_mtu; `ip link`; the switch port's MTU".to_owned();
    let Some((&largest, of_largest)) = sizes.last_key_value() else { return Vec::new() };
    if sizes.len() > 1 {
        let other = |(size, names): (&u32, &Vec<String>)| {
            let raised = RDMA_MTU.raise(FindingKind::Fault, Severity::Warning, Certainty::Certain);
            let names_in_words = listed(names, FEW);
            let others = match of_largest.len() {
                1 => "another port".to_owned(),
                many => format!("{many} others"),
            };
            let summary = format!(
                "{names_in_words}: packets carry {size} bytes, and those of {others} {largest}; a pair uses the smaller size"
            );
            Finding {
                measured: format!(
                    "active MTU {size}, as {} reported",
                    if names.len() == 1 { "the node" } else { "the nodes" }
                ),
                expected: format!("{largest}, as other ports have"),
                fix: fix(largest),
                confirm: confirm.clone(),
                ..raised.summary(summary).about(Subject::nodes_of(names.iter().cloned())).finding
            }
        };
        return sizes.iter().filter(|(size, _)| **size < largest).map(other).collect();
    }
    if largest >= most {
        return Vec::new();
    }
    let raised = RDMA_MTU.raise(FindingKind::Design, Severity::Info, Certainty::Certain);
    let summary = format!("packets of all ports carry {largest} bytes, and the ports could have {most}");
    vec![Finding {
        measured: format!("active MTU {largest} of {} ports", of_largest.len()),
        expected: format!("{most}, the ports' maximum"),
        fix: fix(most),
        confirm,
        ..raised.summary(summary).about(Subject::nodes_of(of_largest.iter().take(FEW).cloned())).finding
    }]
}

/// Ethernet ports whose address no router passes on, or that have none of RoCE v2.
fn gid(run: &NodesRun) -> Vec<Finding> {
    let wrong = [
        (Gid::None, Certainty::Certain, "have no GID of RoCE v2, so that RDMA over Ethernet cannot start there"),
        (
            Gid::LinkLocal,
            Certainty::Possible,
            "have a link-local GID only, which no router passes on and other tools may not choose",
        ),
    ];
    let of_kind = |(kind, certainty, words): (Gid, Certainty, &str)| {
        let names: Vec<String> = nics(run).filter(|(_, nic)| nic.gid == Some(kind)).map(|(name, _)| name).collect();
        if names.is_empty() {
            return None;
        }
        let raised = RDMA_GID.raise(FindingKind::Fault, Severity::Warning, certainty);
        let summary = format!("{} {words}", listed(&names, FEW));
        Some(Finding {
            measured: format!("the GID table of {} ports", names.len()),
            expected: "a RoCE v2 GID of an IPv4 address, or of a routed IPv6 address".to_owned(),
            fix: "Give the port's network interface an address: its GIDs follow from that. Where it has one, set the adapter to RoCE \
                  v2 (`cma_roce_mode`), and NCCL_IB_GID_INDEX where a program chose another entry."
                .to_owned(),
            confirm: "`show_gids`, or /sys/class/infiniband/…/ports/…/gid_attrs/types; `ip address`".to_owned(),
            ..raised.summary(summary).about(Subject::nodes_of(names)).finding
        })
    };
    wrong.into_iter().filter_map(of_kind).collect()
}
