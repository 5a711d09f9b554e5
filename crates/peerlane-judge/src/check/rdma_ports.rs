//! Ports of RDMA adapters that are down, wait for a subnet manager, or run slower than their like.

use std::collections::BTreeMap;

use super::view::{Raised, View};
use super::words::{list, verb};
use super::{Certainty, Finding, FindingKind, Rule, Severity};
use peerlane_machine::fact::{Fact, RdmaPort};
use peerlane_machine::origin::Origin;
use peerlane_machine::subject::Subject;

pub(super) const RULE: Rule = Rule { id: "rdma-port", breaks: false, run };

/// What is the matter with a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Trouble {
    /// It is down although others of the network are up: what its physical state is.
    Down(String),
    /// It is down, as ports without a cable are; nothing says that it should be up.
    Unused,
    /// It is up and has no address: no subnet manager.
    Initializing,
    /// It runs at fewer Gb/s than others of its type, in both cases.
    Slow(String, String),
}

fn run(view: &View) -> Vec<Raised> {
    // several tools tell of one port: the first that does
    let mut ports: BTreeMap<(&str, Option<u8>), (&RdmaPort, &Origin)> = BTreeMap::new();
    for one in &view.machine.evidence {
        let Fact::RdmaPorts(told) = &one.fact else { continue };
        for port in told {
            ports.entry((port.device.as_str(), port.port)).or_insert((port, &one.origin));
        }
    }
    let all: Vec<(&RdmaPort, &Origin)> = ports.into_values().collect();
    let active = |p: &RdmaPort| p.state.as_deref() == Some("active");
    let mut groups: BTreeMap<Trouble, Vec<(String, &Origin)>> = BTreeMap::new();
    let several = |p: &RdmaPort| all.iter().filter(|(other, _)| other.device == p.device).count() > 1;
    let label = |p: &RdmaPort| match p.port.filter(|_| several(p)) {
        Some(port) => format!("{}/{port}", p.device),
        None => p.device.clone(),
    };
    for (port, origin) in &all {
        let peers = || all.iter().map(|(p, _)| *p).filter(|p| active(p) && p.layer == port.layer);
        let trouble = match port.state.as_deref() {
            Some("active") => {
                let like = peers().filter(|p| p.kind.is_some() && p.kind == port.kind);
                let best = like.filter_map(|p| p.gigabits).fold(0.0, f64::max);
                let slow = port.gigabits.filter(|own| *own < best);
                slow.map(|own| Trouble::Slow(own.to_string(), best.to_string()))
            }
            Some("initializing" | "init" | "armed") => Some(Trouble::Initializing),
            Some("down") => {
                let disabled = port.physical.as_deref() == Some("disabled");
                let ethernet = port.layer.as_deref() != Some("infiniband");
                let physical = || port.physical.clone().unwrap_or_else(|| "down".to_owned());
                let alone = ethernet || disabled || is_uncabled(port) || peers().next().is_none();
                Some(if alone { Trouble::Unused } else { Trouble::Down(physical()) })
            }
            _ => None,
        };
        if let Some(trouble) = trouble {
            groups.entry(trouble).or_default().push((label(port), origin));
        }
    }
    // without one port that is up, none serves
    let none_up = !all.is_empty() && !all.iter().any(|(p, _)| active(p));
    groups.into_iter().map(|(trouble, of)| report(view, &trouble, &of, none_up)).collect()
}

/// Whether a port waits for a link and no subnet manager has ever given it an address, as a spare one without a cable.
fn is_uncabled(port: &RdmaPort) -> bool {
    let waits = matches!(port.physical.as_deref(), Some("polling" | "disabled"));
    waits && matches!(port.lid, Some(0 | u16::MAX)) && port.manager_lid == Some(0)
}

fn report(view: &View, trouble: &Trouble, of: &[(String, &Origin)], none_up: bool) -> Raised {
    let names: Vec<String> = of.iter().map(|(name, _)| name.clone()).collect();
    let port_is = verb(&names, "the port is", "the ports are");
    let shown = list(&names);
    let (summary, expected, measured, fix) = match trouble {
        Trouble::Down(physical) => (
            format!("{shown}: {port_is} down ({physical}), where others of the InfiniBand network are up"),
            "state Active, as of the others".to_owned(),
            format!("state Down, physical state {physical}"),
            "Look at cable, transceiver and the switch's port; `mlxlink -d DEVICE` tells what it waits for. Leave it out of \
             NCCL_IB_HCA meanwhile.",
        ),
        Trouble::Unused => (
            format!("{shown}: {port_is} down{}", if none_up { ", and none is up: RDMA has no way out" } else { "" }),
            "state Active, if it is to be used".to_owned(),
            "state Down".to_owned(),
            "See whether it is cabled and enabled (`ip link`, `ibportstate`); one that is not to be used may stay so.",
        ),
        Trouble::Initializing => (
            format!("{shown}: {port_is} linked and not active: no subnet manager has answered"),
            "state Active".to_owned(),
            "state Initializing or Armed".to_owned(),
            "Start a subnet manager for the network (opensm, or the switch's own) and see with `sminfo` that it answers.",
        ),
        Trouble::Slow(own, best) => (
            format!("{shown}: {own} Gb/s, where others of the same type run at {best} Gb/s"),
            format!("{best} Gb/s"),
            format!("{own} Gb/s"),
            "If it is meant to be of the same network, see whether cable, transceiver and the switch's port are of that rate, \
             and with `mlxlink -d DEVICE` which one they agreed on; a network of its own may be slower.",
        ),
    };
    let warns = !matches!(trouble, Trouble::Unused) || none_up;
    let finding = Finding {
        summary,
        expected,
        measured,
        evidence: view.cite(of.iter().map(|(_, origin)| *origin)),
        fix: fix.to_owned(),
        confirm: "`ibstat`; `mlxlink -d DEVICE`; `ib_write_bw` to another host".to_owned(),
        ..Finding::of(
            &RULE,
            if matches!(trouble, Trouble::Unused | Trouble::Slow(..)) {
                FindingKind::Design
            } else {
                FindingKind::Fault
            },
            if warns { Severity::Warning } else { Severity::Info },
            match trouble {
                Trouble::Initializing => Certainty::Certain,
                Trouble::Down(_) | Trouble::Unused => Certainty::Likely,
                Trouble::Slow(..) => Certainty::Possible,
            },
            Subject::nodes_of(names),
        )
    };
    let loss = match trouble {
        Trouble::Slow(own, best) => match (own.parse::<f64>(), best.parse::<f64>()) {
            (Ok(own), Ok(best)) => 1.0 - own / best,
            _ => 0.0,
        },
        _ => 0.0,
    };
    Raised::new(finding, loss)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{findings, state, switched};
    use super::*;
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
        told(ports).into_iter().map(|f| (f.severity, join(&f.subjects, ""))).collect()
    }

    fn told(ports: &[RdmaPort]) -> Vec<Finding> {
        let mut machine = switched(1);
        state(&mut machine, "ibstat", Fact::RdmaPorts(ports.to_vec()));
        // again by another tool
        state(&mut machine, "ibstatus", Fact::RdmaPorts(ports.to_vec()));
        findings(&machine, run)
    }

    #[test]
    fn down_among_others_and_slow_among_its_like() {
        let (up, ib) = (port("mlx5_0", "active", 400.0, "infiniband"), "infiniband");
        let of = |severity, name: &str| vec![(severity, name.to_owned())];
        assert_eq!(found(&[up.clone(), port("mlx5_1", "down", 10.0, ib)]), of(Severity::Warning, "mlx5_1"));
        assert_eq!(found(&[up.clone(), port("mlx5_1", "active", 200.0, ib)]), of(Severity::Warning, "mlx5_1"));
        assert_eq!(found(&[up.clone(), port("mlx5_1", "initializing", 400.0, ib)]), of(Severity::Warning, "mlx5_1"));
        assert_eq!(found(&[up.clone(), up]), []);
    }

    #[test]
    fn an_ethernet_port_without_a_cable_is_good_to_know() {
        let down = port("mlx5_1", "down", 40.0, "ethernet");
        let up = port("mlx5_0", "active", 400.0, "infiniband");
        assert_eq!(found(&[up, down.clone()]), [(Severity::Info, "mlx5_1".to_owned())]);
        assert_eq!(found(&[down]), [(Severity::Warning, "mlx5_1".to_owned())], "none is up");
    }

    #[test]
    fn a_second_port_that_no_subnet_manager_has_ever_seen_is_unused() {
        let up = port("mlx4_0", "active", 56.0, "infiniband");
        let second = |lid, manager_lid| {
            let down = port("mlx4_0", "down", 10.0, "infiniband");
            told(&[up.clone(), RdmaPort { port: Some(2), lid, manager_lid, ..down }]).remove(0)
        };
        for lid in [0, 65535] {
            let spare = second(Some(lid), Some(0));
            assert_eq!((spare.severity, spare.kind), (Severity::Info, FindingKind::Design));
            assert_eq!(spare.summary, "mlx4_0/2: the port is down");
        }
        let lost = second(Some(868), Some(334));
        assert_eq!((lost.severity, lost.kind), (Severity::Warning, FindingKind::Fault));
        assert!(lost.summary.starts_with("mlx4_0/2: the port is down (polling)"), "{}", lost.summary);
        assert_eq!(second(None, None).kind, FindingKind::Fault, "not told");
    }

    #[test]
    fn several_ports_are_down_and_a_slow_one_may_be_meant_so() {
        let down = |name| port(name, "down", 10.0, "ethernet");
        let found = told(&[down("mlx5_0"), down("mlx5_1")]);
        assert!(found[0].summary.starts_with("mlx5_0, mlx5_1: the ports are down"), "{}", found[0].summary);
        let of = |name, gigabits| port(name, "active", gigabits, "infiniband");
        let slow = told(&[of("mlx5_0", 400.0), of("mlx5_1", 200.0)]);
        assert_eq!((slow[0].kind, slow[0].certainty), (FindingKind::Design, Certainty::Possible));
    }

    #[test]
    fn another_type_may_be_slower() {
        let mut slow = port("mlx5_1", "active", 100.0, "infiniband");
        slow.kind = Some("MT4123".to_owned());
        assert_eq!(found(&[port("mlx5_0", "active", 400.0, "infiniband"), slow]), []);
    }
}
