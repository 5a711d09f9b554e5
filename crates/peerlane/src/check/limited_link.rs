//! Links that the kernel found slower than their devices, when it took them into use.

use super::view::{Raised, View};
use super::words::list;
use super::{Certainty, Cost, Finding, FindingKind, Rule, Severity};
use crate::evidence::{LimitedLink, Origin};
use crate::fabric::LinkKind;

pub(super) const RULE: Rule = Rule { id: "limited-link", breaks: false, run };

/// A loss of this much, and more, is an error.
const MUCH: f64 = 0.7;

fn run(view: &View) -> Vec<Raised> {
    let logs = view.kernels();
    let said = logs.iter().flat_map(|(log, origin)| log.limited.iter().map(move |limit| (limit, *origin)));
    let said: Vec<(&LimitedLink, &Origin)> = said.filter(|(limit, _)| !is_known(view, limit)).collect();
    let share = |limit: &LimitedLink| {
        let raw = |width: crate::fabric::PcieWidth| width.raw_rate().map_or(0.0, |rate| rate.gb());
        1.0 - raw(limit.width) / raw(limit.capable).max(1e-9)
    };
    let Some((worst, _)) = said.iter().max_by(|a, b| share(a.0).total_cmp(&share(b.0))) else { return Vec::new() };
    let mut names: Vec<String> = Vec::new();
    for (limit, _) in &said {
        let node = view.fabric().nodes().iter().find(|node| node.address == Some(limit.device));
        let name = node.map_or_else(|| limit.device.to_string(), |node| node.name.clone());
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let lost = share(worst);
    let cost = worst.capable.raw_rate().zip(worst.width.raw_rate());
    let finding = Finding {
        summary: format!(
            "The kernel found {} on a link of PCIe {} that could be {}",
            list(&names),
            worst.width,
            worst.capable
        ),
        expected: format!("PCIe {}, which the device is capable of", worst.capable),
        observed: format!("PCIe {} at the port {}, above {}", worst.width, worst.at, worst.device),
        evidence: view.cite(said.iter().map(|(_, origin)| *origin)),
        mend: "Another slot (one wired for all lanes, from the CPU), reseating, a riser rated for the generation; the BIOS's \
               settings of bifurcation and link speed."
            .to_owned(),
        confirm: "`lspci -vvv -s DEVICE | grep -E 'LnkCap|LnkSta'` while it works".to_owned(),
        cost: cost.and_then(|(capable, width)| Cost::of_rate(capable.gb(), width.gb())),
        ..Finding::of(
            &RULE,
            FindingKind::Fault,
            if lost >= MUCH { Severity::Error } else { Severity::Warning },
            // a device that saves power may train up later
            Certainty::Likely,
            names,
        )
    };
    vec![Raised::new(finding, lost)]
}

/// Whether a listing tells the device's link, so that narrow-link judges it.
fn is_known(view: &View, limit: &LimitedLink) -> bool {
    let fabric = view.fabric();
    let Some(id) = fabric.ids().find(|id| fabric.node(*id).address == Some(limit.device)) else { return false };
    fabric.upstream(id).is_some_and(
        |(link, _)| matches!(&fabric.link(link).kind, LinkKind::Pcie { running, .. } if running.lanes.is_some()),
    )
}

#[cfg(test)]
mod tests {
    use super::super::testing::{captured, findings, state, width};
    use super::*;
    use crate::evidence::{Fact, KernelFacts};
    use crate::fabric::{FabricBuilder, Node, NodeKind};

    fn with(running: &str, capable: &str) -> Vec<Finding> {
        let mut b = FabricBuilder::new();
        let mut nic = Node::new("mlx5_0", NodeKind::Nic);
        nic.address = Some("0000:43:00.0".parse().unwrap());
        b.node(nic);
        let mut machine = captured(b);
        let limit = LimitedLink {
            device: "0000:43:00.0".parse().unwrap(),
            at: "0000:42:01.0".parse().unwrap(),
            width: width(running),
            capable: width(capable),
        };
        state(&mut machine, "kernel log", Fact::Kernel(KernelFacts { limited: vec![limit], ..KernelFacts::default() }));
        findings(&machine, run)
    }

    #[test]
    fn what_the_kernel_says_is_told_with_the_port() {
        let found = with("3.0 x8", "3.0 x16");
        assert_eq!(
            (found.len(), found[0].severity, found[0].subjects.join(" ")),
            (1, Severity::Warning, "mlx5_0".to_owned())
        );
        assert!(found[0].observed.contains("0000:42:01.0"), "{}", found[0].observed);
        assert_eq!(with("3.0 x1", "3.0 x16")[0].severity, Severity::Error);
    }

    #[test]
    fn without_such_a_line_nothing_is_said() {
        let machine = captured(FabricBuilder::new());
        assert_eq!(findings(&machine, run), vec![]);
    }
}
