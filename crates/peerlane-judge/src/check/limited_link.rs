//! Links that the kernel found slower than their devices, when it took them into use.

use super::view::{Raised, View};
use super::words::{list, verb};
use super::{Certainty, Cost, Finding, FindingKind, Rule, Severity};
use peerlane_machine::fabric::{LinkKind, NodeKind, PcieWidth};
use peerlane_machine::fact::LimitedLink;
use peerlane_machine::origin::Origin;
use peerlane_machine::subject::Subject;

pub(super) const RULE: Rule = Rule { id: "limited-link", breaks: false, run };

/// A loss of this much, and more, is an error.
const MUCH: f64 = 0.7;

/// GPUs and fast adapters are made for so many lanes; disks for fewer.
const FEWEST: u8 = 8;

/// What links must share to be one finding.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    width: PcieWidth,
    capable: PcieWidth,
    device: Device,
}

/// What a limited device is to the machine.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Device {
    /// A GPU or an adapter of it.
    Peer,
    /// Perhaps one of those whose addresses are not known, by its lanes.
    Unknown,
    /// A disk, a sound card.
    Other,
}

fn run(view: &View) -> Vec<Raised> {
    let mut groups: Vec<(Key, Vec<(&LimitedLink, &Origin)>)> = Vec::new();
    let logs = view.kernels();
    for (limit, origin) in logs.iter().flat_map(|(log, origin)| log.limited.iter().map(move |limit| (limit, *origin))) {
        let (width, capable) = (limit.width, limit.capable);
        if is_known(view, limit) || !(below(width.lanes, capable.lanes) || below(width.generation, capable.generation))
        {
            continue;
        }
        let key = Key { width, capable, device: device(view, limit) };
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, of)) => of.push((limit, origin)),
            None => groups.push((key, vec![(limit, origin)])),
        }
    }
    groups.iter().filter_map(|(key, of)| report(view, *key, of)).collect()
}

fn report(view: &View, key: Key, of: &[(&LimitedLink, &Origin)]) -> Option<Raised> {
    let Key { width, capable, device } = key;
    let (first, _) = of.first()?;
    let mut names: Vec<String> = Vec::new();
    for (limit, _) in of {
        let node = view.fabric().nodes().iter().find(|node| node.address == Some(limit.device));
        let name = node.map_or_else(|| limit.device.to_string(), |node| node.name.clone());
        if !names.contains(&name) {
            names.push(name);
        }
    }
    // the generation may be that of a device that saved power: lanes alone are lost
    let lanes = |width: PcieWidth| width.lanes.map(f64::from);
    let narrow = below(width.lanes, capable.lanes);
    let lost =
        if narrow { lanes(width).zip(lanes(capable)).map_or(0.0, |(now, could)| 1.0 - now / could) } else { 0.0 };
    let rates = capable.raw_rate().zip(PcieWidth { lanes: width.lanes, ..capable }.raw_rate());
    let links = verb(&names, "a link", "links");
    let (summary, fix) = if narrow {
        (
            format!("The kernel found {} on {links} of PCIe {width} that could be {capable}", list(&names)),
            "Another slot (one wired for all lanes, from the CPU), reseating, a riser rated for the generation; the BIOS's \
             settings of bifurcation and link speed.",
        )
    } else {
        (
            format!(
                "The kernel found {} at PCIe {width}, at full width: may train up to {capable} under load",
                list(&names)
            ),
            "Nothing, if it was idle: read the link again under load before you believe it. A link that stays so is in a slot \
             or on a riser of that generation, or the BIOS sets its speed.",
        )
    };
    let more = if of.len() > 1 { format!("; {} devices have such a line", of.len()) } else { String::new() };
    let finding = Finding {
        summary,
        expected: format!("PCIe {capable}, which the device is capable of"),
        measured: format!("PCIe {width} at the port {}, above {}{more}", first.at, first.device),
        evidence: view.cite(of.iter().map(|(_, origin)| *origin)),
        fix: fix.to_owned(),
        confirm: "`lspci -vvv -s DEVICE | grep -E 'LnkCap|LnkSta'` while it works".to_owned(),
        cost: rates.filter(|_| narrow).and_then(|(could, now)| Cost::of_rate(could.gb(), now.gb())),
        ..Finding::of(
            &RULE,
            if narrow { FindingKind::Fault } else { FindingKind::Measurement },
            match device {
                Device::Peer if lost >= MUCH => Severity::Error,
                Device::Peer | Device::Unknown if narrow => Severity::Warning,
                _ => Severity::Info,
            },
            if narrow && device == Device::Peer { Certainty::Likely } else { Certainty::Possible },
            Subject::nodes_of(names),
        )
    };
    Some(Raised::new(finding, if device == Device::Other { 0.0 } else { lost }))
}

fn below<T: PartialOrd>(now: Option<T>, could: Option<T>) -> bool {
    matches!((now, could), (Some(now), Some(could)) if now < could)
}

fn device(view: &View, limit: &LimitedLink) -> Device {
    let peer = |kind| matches!(kind, NodeKind::Gpu | NodeKind::Nic | NodeKind::Card);
    let nodes = view.fabric().nodes();
    match nodes.iter().find(|node| node.address == Some(limit.device)) {
        Some(node) if peer(node.kind) => Device::Peer,
        None if limit.capable.lanes >= Some(FEWEST)
            && nodes.iter().any(|node| peer(node.kind) && node.address.is_none()) =>
        {
            Device::Unknown
        }
        _ => Device::Other,
    }
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
    use peerlane_machine::fabric::{FabricBuilder, Node, NodeKind};
    use peerlane_machine::fact::{Fact, KernelFacts};
    use peerlane_machine::subject::join;

    /// What is found of limited devices, by address and widths, beside an adapter at 43:00.0.
    fn told(limits: &[(&str, &str, &str)]) -> Vec<Finding> {
        let mut b = FabricBuilder::new();
        let mut nic = Node::new("mlx5_0", NodeKind::Nic);
        nic.address = Some("0000:43:00.0".parse().unwrap());
        b.node(nic);
        told_of(b, limits)
    }

    fn told_of(b: FabricBuilder, limits: &[(&str, &str, &str)]) -> Vec<Finding> {
        let mut machine = captured(b);
        let limit = |(device, running, capable): &(&str, &str, &str)| LimitedLink {
            device: device.parse().unwrap(),
            at: "0000:42:01.0".parse().unwrap(),
            width: width(running),
            capable: width(capable),
        };
        let limited = limits.iter().map(limit).collect();
        state(&mut machine, "kernel log", Fact::Kernel(KernelFacts { limited, ..KernelFacts::default() }));
        findings(&machine, run)
    }

    fn with(running: &str, capable: &str) -> Vec<Finding> {
        told(&[("0000:43:00.0", running, capable)])
    }

    #[test]
    fn what_the_kernel_says_is_told_with_the_port() {
        let found = with("3.0 x8", "3.0 x16");
        assert_eq!(
            (found.len(), found[0].severity, join(&found[0].subjects, " ")),
            (1, Severity::Warning, "mlx5_0".to_owned())
        );
        assert!(found[0].measured.contains("0000:42:01.0"), "{}", found[0].measured);
        assert_eq!(with("3.0 x1", "3.0 x16")[0].severity, Severity::Error);
    }

    #[test]
    fn a_low_generation_at_full_width_may_be_that_of_an_idle_device() {
        let found = with("1.0 x16", "4.0 x16");
        assert_eq!((found[0].severity, found[0].kind), (Severity::Info, FindingKind::Measurement));
        assert!(found[0].summary.contains("may train up to 4.0 x16 under load"), "{}", found[0].summary);
        assert!(found[0].cost.is_none());
        let narrow = with("1.0 x8", "4.0 x16");
        assert_eq!(
            (narrow[0].severity, narrow[0].cost.as_ref().unwrap().share),
            (Severity::Warning, 0.5),
            "by its lanes"
        );
        assert_eq!(with("4.0 x16", "4.0 x16"), vec![]);
    }

    #[test]
    fn unlike_widths_are_findings_of_their_own_and_other_devices_info() {
        let nvme = ("0000:81:00.0", "3.0 x1", "4.0 x4");
        let found = told(&[("0000:43:00.0", "3.0 x8", "3.0 x16"), nvme]);
        let told: Vec<_> = found.iter().map(|f| (f.severity, join(&f.subjects, ""))).collect();
        assert_eq!(told, [(Severity::Warning, "mlx5_0".to_owned()), (Severity::Info, "0000:81:00.0".to_owned())]);
        assert!(found[0].summary.contains("3.0 x8 that could be 3.0 x16"), "{}", found[0].summary);
        assert!(found[1].summary.contains("3.0 x1 that could be 4.0 x4"), "{}", found[1].summary);
    }

    #[test]
    fn a_device_that_may_be_the_adapter_without_an_address_is_possible() {
        let mut b = FabricBuilder::new();
        b.node(Node::new("mlx5_0", NodeKind::Nic));
        let found = told_of(b, &[("0000:43:00.0", "3.0 x8", "3.0 x16")]);
        assert_eq!((found[0].severity, found[0].certainty), (Severity::Warning, Certainty::Possible));
        let mut b = FabricBuilder::new();
        b.node(Node::new("mlx5_0", NodeKind::Nic));
        assert_eq!(told_of(b, &[("0000:81:00.0", "3.0 x1", "4.0 x4")])[0].severity, Severity::Info, "a disk's lanes");
    }

    #[test]
    fn without_such_a_line_nothing_is_said() {
        let machine = captured(FabricBuilder::new());
        assert_eq!(findings(&machine, run), vec![]);
    }
}
