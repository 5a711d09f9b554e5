//! Path classes that cannot tell what they should: every pair is SYS, although there are fewer sockets than GPUs.

use super::view::{Raised, View};
use super::{Certainty, Finding, FindingKind, Rule, Severity};
use crate::evidence::Fact;
use crate::fabric::{NodeKind, PathClass};

pub(super) const RULE: Rule = Rule { id: "coarse-labels", breaks: false, run };

/// From so many GPUs on all of which are SYS to each other, some must share a socket: few boards have more than two.
const FEWEST: usize = 3;

fn run(view: &View) -> Vec<Raised> {
    let gpus = view.of_kind(NodeKind::Gpu);
    let pairs = view.gpu_pairs();
    let all_sys = pairs.iter().all(|(a, b)| view.class(*a, *b) == Some(PathClass::Sys));
    if gpus.len() < FEWEST || !all_sys {
        return Vec::new();
    }
    let hosts = view.machine.evidence.iter().filter_map(|e| match &e.fact {
        Fact::Host(host) => Some(host),
        _ => None,
    });
    let sockets = hosts.filter_map(|h| h.sockets).max();
    // a board with a socket for each GPU has them far apart indeed
    if sockets.is_some_and(|n| n as usize >= gpus.len()) {
        return Vec::new();
    }
    let subjects: Vec<String> = gpus.iter().map(|id| view.name(*id).to_owned()).collect();
    let told = sockets.map_or_else(String::new, |n| format!(", on {n} sockets"));
    let finding = Finding {
        summary: format!(
            "All {} GPU pairs read SYS: the labels cannot tell which GPUs are near each other",
            pairs.len()
        ),
        expected: "classes that tell GPUs of one socket from those of another".to_owned(),
        observed: format!("{} GPUs, each in a NUMA node of its own by its label{told}", gpus.len()),
        evidence: view.cite(view.class_origins(&gpus)),
        mend: "Several NUMA nodes a socket (NPS, SNC) and virtual machines make each device its own node. Measure the \
               pairs, or read the PCIe tree (`lspci -tv`) of the host; NPS1 in the BIOS makes the labels mean sockets."
            .to_owned(),
        confirm: "`peerlane measure --tests pairs`; `lscpu | grep -e NUMA -e Socket`".to_owned(),
        ..Finding::of(&RULE, FindingKind::Measurement, Severity::Info, Certainty::Likely, subjects)
    };
    vec![Raised::new(finding, 0.0)]
}

#[cfg(test)]
mod tests {
    use super::super::testing::{boxes, captured, findings, state};
    use super::*;
    use crate::evidence::HostFacts;

    fn found(sockets: &[usize], stated: Option<u32>) -> usize {
        let mut machine = captured(boxes(sockets, false));
        if stated.is_some() {
            state(&mut machine, "lscpu", Fact::Host(HostFacts { sockets: stated, ..HostFacts::default() }));
        }
        findings(&machine, run).len()
    }

    #[test]
    fn only_where_every_pair_is_sys_and_sockets_are_too_few() {
        assert_eq!((found(&[1, 1, 1, 1], None), found(&[1, 1, 1, 1], Some(2))), (1, 1));
        assert_eq!((found(&[2, 2], None), found(&[1, 1], None), found(&[1, 1, 1, 1], Some(4))), (0, 0, 0));
    }
}
