//! Ports of RDMA adapters that are down, wait for a subnet manager, or run slower than others of their type.

use std::collections::BTreeMap;

use super::prelude::*;
use peerlane_machine::fact::RdmaPort;
use peerlane_machine::names::natural;

pub(super) const RULE: Rule = Rule::new("rdma-port", Many(run));

/// How many adapters of one type a machine has that has one for each GPU.
const SETS: [usize; 3] = [4, 8, 16];

/// What is wrong with a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Trouble {
    /// It is down although others of the network are up: its physical state.
    Down(String),
    /// It is down although most of the adapters of its type, as many as a machine has GPUs, are up: its physical state, and how
    /// many are up.
    Missing(String, usize),
    /// It is down, as ports without a cable are; nothing shows that it should be up.
    Unused,
    /// It is up and not active: its state, and whether it knows a subnet manager that has not set it up.
    Initializing(String, Option<u16>),
    /// It runs slower than others of its type: both rates in Mb/s, and whether it alone does so in a set of one for each GPU.
    Slow(u64, u64, bool),
}

fn run(view: &View) -> Vec<Raised> {
    // several tools report the same port: the first counts, unless a later one shows that it is not active
    let active = |p: &RdmaPort| p.state.as_deref() == Some("active");
    let mut ports: BTreeMap<(&str, Option<u8>), (&RdmaPort, &Origin)> = BTreeMap::new();
    for (port, origin) in view.rdma_ports() {
        let known = ports.entry((port.device.as_str(), port.port)).or_insert((port, origin));
        if active(known.0) && !active(port) {
            *known = (port, origin);
        }
    }
    let all: Vec<(&RdmaPort, &Origin)> = ports.into_values().collect();
    let several = |p: &RdmaPort| all.iter().filter(|(other, _)| other.device == p.device).count() > 1;
    let label = |p: &RdmaPort| match p.port.filter(|_| several(p)) {
        Some(port) => format!("{}/{port}", p.device),
        None => p.device.clone(),
    };
    let mut groups: BTreeMap<Trouble, Vec<(String, &Origin)>> = BTreeMap::new();
    for (port, origin) in &all {
        let peers: Vec<&RdmaPort> =
            all.iter().map(|(p, _)| *p).filter(|p| active(p) && p.layer == port.layer).collect();
        let alike = all
            .iter()
            .map(|(p, _)| *p)
            .filter(|p| p.kind.is_some() && (&p.kind, &p.layer) == (&port.kind, &port.layer));
        let complete = SETS.contains(&alike.count());
        if let Some(trouble) = trouble(port, &peers, complete) {
            groups.entry(trouble).or_default().push((label(port), origin));
        }
    }
    let none_up = !all.iter().any(|(p, _)| active(p));
    groups.into_iter().map(|(trouble, of)| report(view, &trouble, &of, none_up)).collect()
}

/// What is wrong with a port, compared with the active ones of its network; `complete` where the ports of its type are as many as
/// machines have GPUs.
fn trouble(port: &RdmaPort, peers: &[&RdmaPort], complete: bool) -> Option<Trouble> {
    match port.state.as_deref()? {
        "active" => {
            let alike = peers.iter().filter(|p| p.kind.is_some() && p.kind == port.kind);
            let best = alike.clone().filter_map(|p| p.gigabits).fold(0.0, f64::max);
            let slow = port.gigabits.filter(|own| *own < best);
            let slower = alike.filter(|p| p.gigabits.is_some_and(|rate| rate < best)).count();
            slow.map(|own| Trouble::Slow(megabits(own), megabits(best), complete && slower == 1))
        }
        state @ ("initializing" | "initialize" | "init" | "armed") => {
            let manager = port.manager_lid.filter(|lid| !matches!(lid, &(0 | u16::MAX)));
            Some(Trouble::Initializing(state.to_owned(), manager))
        }
        "down" => {
            let disabled = port.physical.as_deref() == Some("disabled");
            let ethernet = port.layer.as_deref() != Some("infiniband");
            let unused = ethernet || disabled || is_uncabled(port) || peers.is_empty();
            let physical = || port.physical.clone().unwrap_or_else(|| "down".to_owned());
            let up = peers.iter().filter(|p| p.kind == port.kind).count();
            Some(match unused {
                // three quarters of a set of 4, 8 or 16 are in use: the rest is meant to be
                true if complete && SETS.iter().any(|set| up < *set && up * 4 >= *set * 3) => {
                    Trouble::Missing(physical(), up)
                }
                true => Trouble::Unused,
                false => Trouble::Down(physical()),
            })
        }
        _ => None,
    }
}

fn megabits(gigabits: f64) -> u64 {
    (gigabits * 1000.0).round() as u64
}

/// Whether a port waits for a link and no subnet manager has ever given it an address, like a spare one without a cable.
fn is_uncabled(port: &RdmaPort) -> bool {
    let waits = matches!(port.physical.as_deref(), Some("polling" | "disabled"));
    waits && matches!(port.lid, Some(0 | u16::MAX)) && port.manager_lid == Some(0)
}

fn report(view: &View, trouble: &Trouble, of: &[(String, &Origin)], none_up: bool) -> Raised {
    let mut names: Vec<String> = of.iter().map(|(name, _)| name.clone()).collect();
    names.sort_by(|a, b| natural(a).cmp(&natural(b)));
    let port_is = verb(&names, "the port is", "the ports are");
    let shown = list(&names);
    let raised = match trouble {
        Trouble::Down(physical) => RULE
            .raise(Fault, Warning, Likely)
            .summary(format!("{shown}: {port_is} down ({physical}), but others of the InfiniBand network are up"))
            .expected("state Active, like the others")
            .measured(format!("state Down, physical state {physical}"))
            .fix(
                "Replace the cable or the transceiver, or try another port of the switch; `mlxlink -d DEVICE` shows \
                 what the port waits for. Until it is up, leave it out of NCCL_IB_HCA.",
            ),
        Trouble::Missing(physical, up) => RULE
            .raise(Fault, Warning, Possible)
            .summary(format!("{shown}: {port_is} down ({physical}), but the other {up} adapters of this type are up"))
            .expected("state Active, like the others of a set of one adapter for each GPU")
            .measured(format!("state Down, physical state {physical}"))
            .fix(
                "Enable the port (`ip link set INTERFACE up`). If it stays down, replace the cable or the \
                 transceiver, or try another port of the switch. Until it is up, leave it out of NCCL_IB_HCA.",
            ),
        Trouble::Unused => RULE
            // spare ports are common, so that one beside others that are up limits nothing
            .raise(Design, if none_up { Warning } else { Info }, Likely)
            .summary(format!(
                "{shown}: {port_is} down{}",
                if none_up { ", and no port is up: no RDMA to other hosts" } else { ", or not in use" }
            ))
            .expected("state Active, if the port is to be used")
            .measured("state Down")
            .fix(
                "If the port is not intended to be used, do nothing. Otherwise connect its cable and enable it (`ip \
                 link`, `ibportstate`).",
            ),
        Trouble::Initializing(state, Some(manager)) => RULE
            .raise(Fault, Warning, Certain)
            .summary(format!(
                "{shown}: {port_is} linked but not active ({state}): the subnet manager (LID {manager}) has not set it up yet"
            ))
            .expected("state Active, with a LID of its own")
            .measured(format!("state {state}, SM LID {manager}"))
            .fix(
                "Wait a minute and look again. If it stays so, check that the subnet manager still responds (`sminfo`) and read its \
                 log for this port's GUID: a partition or a list of GUIDs may leave it out. In a virtual machine the host or the \
                 cloud sets the port up.",
            ),
        Trouble::Initializing(state, None) => RULE
            .raise(Fault, Warning, Certain)
            .summary(format!("{shown}: {port_is} linked but not active ({state}): no subnet manager has set it up"))
            .expected("state Active")
            .measured(format!("state {state}"))
            .fix(
                "Start a subnet manager for the network (opensm, or the switch's own), and check with `sminfo` that it \
                 responds.",
            ),
        Trouble::Slow(own, best, alone) => slower(&shown, *own as f64 / 1000.0, *best as f64 / 1000.0, *alone),
    };
    raised
        .evidence(view.cite(of.iter().map(|(_, origin)| *origin)))
        .confirm("`ibstat`; `mlxlink -d DEVICE`; `ib_write_bw` to another host")
        .about_nodes(names)
}

/// A port that runs slower than others of its type, in Gb/s.
/// A separate network may be slower on purpose; one port alone of a set hardly is.
fn slower(shown: &str, own: f64, best: f64, alone: bool) -> Raised {
    RULE.raise(if alone { Fault } else { Design }, Warning, if alone { Likely } else { Possible })
        .summary(format!("{shown}: {own} Gb/s, but others of the same type run at {best} Gb/s"))
        .expected(format!("{best} Gb/s"))
        .measured(format!("{own} Gb/s"))
        .fix(
            "If it belongs to the same network, use a cable, a transceiver and a switch port of that rate; `mlxlink \
             -d DEVICE` shows the negotiated one. A separate network may be slower on purpose.",
        )
        .losing(1.0 - own / best)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, state, switched};
    use super::*;
    use crate::finding::Finding;
    use peerlane_machine::subject::join;

    fn port(device: &str, state: &str, gigabits: f64, layer: &str) -> RdmaPort {
        RdmaPort {
            device: device.to_owned(),
            port: Some(1),
            kind: Some("MT4129".to_owned()),
            state: Some(state.to_owned()),
            physical: Some("polling".to_owned()),
            gigabits: Some(gigabits),
            layer: Some(layer.to_owned()),
            ..RdmaPort::default()
        }
    }

    fn found(ports: &[RdmaPort]) -> Vec<(Severity, String)> {
        reported(ports).into_iter().map(|f| (f.severity, join(&f.subjects, ""))).collect()
    }

    fn reported(ports: &[RdmaPort]) -> Vec<Finding> {
        let mut machine = switched(1);
        state(&mut machine, "ibstat", Fact::RdmaPorts(ports.to_vec()));
        // again by another tool
        state(&mut machine, "ibstatus", Fact::RdmaPorts(ports.to_vec()));
        findings(&machine, run)
    }

    #[test]
    fn most_of_a_set_of_one_for_each_gpu() {
        let found = |up: usize, down: usize| {
            let ports = (0..up + down).map(|i| RdmaPort {
                physical: Some(if i < up { "linkup" } else { "disabled" }.to_owned()),
                ..port(&format!("mlx5_{i}"), if i < up { "active" } else { "down" }, 400.0, "ethernet")
            });
            let mut machine = switched(2);
            state(&mut machine, "ibstat", Fact::RdmaPorts(ports.collect()));
            findings(&machine, run).iter().map(|f| f.kind).collect::<Vec<_>>()
        };
        assert_eq!((found(6, 2), found(8, 0)), (vec![Fault], vec![]));
        assert_eq!((found(4, 4), found(9, 1), found(1, 3)), (vec![Design], vec![Design], vec![Design]));
    }

    #[test]
    fn down_among_others_and_slow_among_its_like() {
        let (up, ib) = (port("mlx5_0", "active", 400.0, "infiniband"), "infiniband");
        let of = |severity, name: &str| vec![(severity, name.to_owned())];
        assert_eq!(found(&[up.clone(), port("mlx5_1", "down", 10.0, ib)]), of(Error, "mlx5_1"));
        assert_eq!(found(&[up.clone(), port("mlx5_1", "active", 200.0, ib)]), of(Warning, "mlx5_1"));
        assert_eq!(found(&[up.clone(), port("mlx5_1", "initializing", 400.0, ib)]), of(Error, "mlx5_1"));
        assert_eq!(found(&[up.clone(), up]), []);
    }

    #[test]
    fn an_ethernet_port_without_a_cable_is_good_to_know() {
        let down = port("mlx5_1", "down", 40.0, "ethernet");
        let up = port("mlx5_0", "active", 400.0, "infiniband");
        assert_eq!(found(&[up, down.clone()]), [(Info, "mlx5_1".to_owned())]);
        assert_eq!(found(&[down]), [(Warning, "mlx5_1".to_owned())], "none is up");
    }

    #[test]
    fn a_second_port_without_a_subnet_manager_is_unused() {
        let up = port("mlx4_0", "active", 56.0, "infiniband");
        let second = |lid, manager_lid| {
            let down = port("mlx4_0", "down", 10.0, "infiniband");
            reported(&[up.clone(), RdmaPort { port: Some(2), lid, manager_lid, ..down }]).remove(0)
        };
        for lid in [0, 65535] {
            let spare = second(Some(lid), Some(0));
            assert_eq!((spare.severity, spare.kind), (Info, Design));
            assert_eq!(spare.summary, "mlx4_0/2: the port is down, or not in use");
        }
        let lost = second(Some(868), Some(334));
        assert_eq!((lost.severity, lost.kind), (Error, Fault));
        assert!(lost.summary.starts_with("mlx4_0/2: the port is down (polling)"), "{}", lost.summary);
        assert_eq!(second(None, None).kind, Fault, "unknown");
    }

    #[test]
    fn a_port_that_waits_for_its_subnet_manager() {
        let waits = |manager_lid| {
            let port = port("mlx5_0", "initializing", 200.0, "infiniband");
            reported(&[RdmaPort { lid: Some(65535), manager_lid, ..port }]).remove(0).summary
        };
        assert!(
            waits(Some(361)).ends_with("the subnet manager (LID 361) has not set it up yet"),
            "{}",
            waits(Some(361))
        );
        assert!(waits(Some(0)).ends_with("no subnet manager has set it up"), "{}", waits(Some(0)));
        assert_eq!(waits(None), waits(Some(0)));
    }

    #[test]
    fn several_ports_are_down_and_a_slow_one_may_be_meant_so() {
        let down = |name| port(name, "down", 10.0, "ethernet");
        let found = reported(&[down("mlx5_0"), down("mlx5_1")]);
        assert!(found[0].summary.starts_with("mlx5_0, mlx5_1: the ports are down"), "{}", found[0].summary);
        let of = |name, gigabits| port(name, "active", gigabits, "infiniband");
        let slow = reported(&[of("mlx5_0", 400.0), of("mlx5_1", 200.0)]);
        assert_eq!((slow[0].kind, slow[0].certainty), (Design, Possible));
    }

    #[test]
    fn another_type_may_be_slower() {
        let mut slow = port("mlx5_1", "active", 100.0, "infiniband");
        slow.kind = Some("MT4123".to_owned());
        assert_eq!(found(&[port("mlx5_0", "active", 400.0, "infiniband"), slow]), []);
    }
}
