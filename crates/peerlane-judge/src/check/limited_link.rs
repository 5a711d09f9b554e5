//! Links that the kernel reported as slower than their devices, when it enumerated them.

use super::prelude::*;
use peerlane_machine::fabric::{PcieGeneration, PcieWidth};
use peerlane_machine::fact::{Evidence, Fact, LimitedLink};
use peerlane_read::evidence::tool;

pub(super) const RULE: Rule = Rule::new("limited-link", Many(run));

/// GPUs and fast adapters are built for so many lanes; disks for fewer.
const FEWEST: u8 = 8;

/// Disks are built for so many.
const OF_A_DISK: u8 = 4;

/// What links must share to be one finding.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    width: PcieWidth,
    capable: PcieWidth,
    device: Device,
}

/// What a limited device is to the machine.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Device {
    /// A GPU or an adapter of it.
    Peer,
    /// By its lanes, perhaps one of those whose addresses are unknown.
    Unknown,
    /// By its lanes, a card or an adapter; nothing but the log is known of the machine, so that its slot may have no more.
    OfALog,
    /// By its lanes, a disk, whose link does not save power while the kernel enumerates it.
    Disk,
    /// A sound card.
    Other,
}

fn run(view: &View) -> Vec<Raised> {
    let logs = view.kernels();
    let limits = logs.iter().flat_map(|(log, origin)| log.limited.iter().map(move |limit| (limit, *origin)));
    let is_limited = |limit: &LimitedLink| {
        below(limit.width.lanes, limit.capable.lanes) || below(limit.width.generation, limit.capable.generation)
    };
    let judged = limits.filter(|(limit, _)| is_limited(limit) && !is_known(view, limit));
    let keyed = judged.map(|(limit, origin)| {
        (Key { width: limit.width, capable: limit.capable, device: device(view, limit) }, (limit, origin))
    });
    grouped(keyed).iter().filter_map(|(key, of)| report(view, *key, of)).collect()
}

fn report(view: &View, key: Key, of: &[(&LimitedLink, &Origin)]) -> Option<Raised> {
    let Key { width, capable, device } = key;
    let (first, _) = of.first()?;
    let name = |address| view.at(address).map_or_else(|| format!("{address}"), |id| view.name(id).to_owned());
    let names = distinct(of.iter().map(|(limit, _)| name(limit.device)));
    // the generation may be that of a device in power saving: only lanes are certainly lost
    let narrow = below(width.lanes, capable.lanes);
    let lost = match (width.lanes, capable.lanes) {
        (Some(now), Some(possible)) if narrow => 1.0 - f64::from(now) / f64::from(possible),
        _ => 0.0,
    };
    // a device that saves power is at 2.5 GT/s; at any other rate the slot is of that generation
    let of_slot = width.generation.is_some_and(|generation| generation > PcieGeneration::Gen1);
    let running = if of_slot { width } else { PcieWidth { lanes: width.lanes, ..capable } };
    let rates = capable.raw_rate().zip(running.raw_rate());
    // several devices at one port are behind a switch, whose link to the CPU is the narrow one
    let is_shared = of.len() > 1 && of.iter().all(|(limit, _)| limit.at == first.at);
    // a soldered device has no slot
    let portable = is_portable(view);
    // devices that save power are at 2.5 GT/s: at any other rate it is the port that allows no more
    let is_port = !narrow
        && device != Device::Disk
        && width.generation > Some(PcieGeneration::Gen1)
        && view.at(first.device).is_some_and(|id| view.fabric().node(id).kind.is_device());
    let (summary, fix) = if narrow {
        (
            if is_shared {
                format!(
                    "The kernel found the port {} at PCIe {width}, above {}, which are capable of {capable}",
                    first.at,
                    list(&names)
                )
            } else {
                format!("The kernel found {} at PCIe {width}, although capable of {capable}", list(&names))
            },
            if portable {
                "The machine has a lid or a battery: devices of portable machines are soldered, often with fewer lanes than \
                 the chip has. Plan with this rate."
            } else {
                "Reseat the card, or move it to a slot that is wired for all lanes from the CPU. Use a riser rated for the \
                 generation, and check bifurcation and link speed in the BIOS. If the board has no better slot, plan with \
                 this rate."
            },
        )
    } else if is_port {
        (
            format!(
                "The kernel found {} at PCIe {width}, although capable of {capable}: the port {} allows no more",
                list(&names),
                first.at
            ),
            if portable {
                "The machine has a lid or a battery: its devices are soldered to ports that are slower. Plan with this rate."
            } else {
                "Move the card to a slot of its generation, best of the CPU: those of chipsets and older boards are slower. The BIOS may set \
                 the speed of the slot, too. If there is no faster one, plan with this rate."
            },
        )
    } else if device == Device::Disk {
        (
            format!("The kernel found {} at PCIe {width}, although capable of {capable}", list(&names)),
            "If the device is to read and write at its rate, move it to a slot of its generation, best of the CPU: those of \
             chipsets and of older boards are slower.",
        )
    } else {
        (
            format!(
                "The kernel found {} at PCIe {width}, at full width; may train up to {capable} under load",
                list(&names)
            ),
            "Read the link again under load. If it was idle, do nothing; if the speed stays low, the slot or riser is of \
             that generation, or the BIOS sets the speed.",
        )
    };
    let severity = match device {
        Device::Peer | Device::Unknown | Device::OfALog if narrow => Warning,
        Device::Disk => Warning,
        _ if is_port => Warning,
        _ => Info,
    };
    let more = if of.len() > 1 { format!("; {} devices have such a line", of.len()) } else { String::new() };
    let kind = match device {
        Device::Disk => Design,
        _ if is_port => Design,
        _ if narrow && portable => Design,
        _ if !narrow => Measurement,
        Device::OfALog => Design,
        _ => Fault,
    };
    let certainty = if narrow && device == Device::Peer { Likely } else { Possible };
    let raised = RULE
        .raise(kind, severity, certainty)
        .summary(summary)
        .expected(format!("PCIe {capable}, which the device is capable of"))
        .measured(format!("PCIe {width} at the port {}, above {}{more}", first.at, first.device))
        .evidence(view.cite(of.iter().map(|(_, origin)| *origin)))
        .fix(fix)
        .confirm(confirm::WIDTH_OF_DEVICE)
        .cost(rates.filter(|_| narrow).and_then(|(possible, now)| Cost::of_rate(possible.gb(), now.gb())))
        .about_nodes(names)
        .losing(if matches!(device, Device::Disk | Device::Other) { 0.0 } else { lost });
    Some(raised)
}

fn is_portable(view: &View) -> bool {
    view.kernels().iter().any(|(log, _)| log.is_portable)
}

fn device(view: &View, limit: &LimitedLink) -> Device {
    let is_peer = |kind: NodeKind| kind.is_device() || kind == NodeKind::Card;
    let fabric = view.fabric();
    // messages and lines that are not known tell nothing of devices
    let of_log =
        |e: &Evidence| e.origin.tool == tool::KERNEL_LOG || matches!(e.fact, Fact::Message(_) | Fact::OpenLine(_));
    let evidence = &view.machine.evidence;
    let is_log = || evidence.iter().all(of_log) && evidence.iter().any(|e| matches!(e.fact, Fact::Pci(_)));
    match view.at(limit.device).map(|id| fabric.node(id).kind) {
        Some(kind) if is_peer(kind) && is_log() => match limit.capable.lanes {
            lanes if lanes >= Some(FEWEST) => Device::OfALog,
            _ => Device::Other,
        },
        Some(kind) if is_peer(kind) => Device::Peer,
        None if limit.capable.lanes >= Some(FEWEST) => match fabric.nodes().iter().find(|node| is_peer(node.kind)) {
            None => Device::OfALog,
            Some(_) if fabric.nodes().iter().any(|node| is_peer(node.kind) && node.address.is_none()) => {
                Device::Unknown
            }
            Some(_) => Device::Other,
        },
        // tunnels of Thunderbolt call themselves 1.0
        None if limit.capable.lanes == Some(OF_A_DISK) && limit.width.generation > Some(PcieGeneration::Gen1) => {
            Device::Disk
        }
        _ => Device::Other,
    }
}

/// Whether a listing reports the device's link, so that narrow-link checks it.
fn is_known(view: &View, limit: &LimitedLink) -> bool {
    let link = view.at(limit.device).and_then(|id| view.pcie_above(id));
    link.is_some_and(|(running, _)| running.lanes.is_some())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{captured, findings, state, width};
    use super::*;
    use crate::finding::Finding;
    use peerlane_machine::fabric::{FabricBuilder, Node, NodeKind};
    use peerlane_machine::fact::{Fact, KernelFacts};
    use peerlane_machine::subject::join;

    /// What is found of limited devices, by address and widths, with an adapter at 43:00.0.
    fn reported(limits: &[(&str, &str, &str)]) -> Vec<Finding> {
        let mut b = FabricBuilder::new();
        let mut nic = Node::new("mlx5_0", NodeKind::Nic);
        nic.address = Some("0000:43:00.0".parse().unwrap());
        b.node(nic);
        reported_of(b, limits)
    }

    fn reported_of(b: FabricBuilder, limits: &[(&str, &str, &str)]) -> Vec<Finding> {
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
        reported(&[("0000:43:00.0", running, capable)])
    }

    #[test]
    fn the_kernels_report_is_given_with_the_port() {
        let found = with("3.0 x8", "3.0 x16");
        assert_eq!((found.len(), found[0].severity, join(&found[0].subjects, " ")), (1, Error, "mlx5_0".to_owned()));
        assert!(found[0].measured.contains("0000:42:01.0"), "{}", found[0].measured);
    }

    #[test]
    fn a_low_generation_at_full_width_may_be_that_of_an_idle_device() {
        let found = with("1.0 x16", "4.0 x16");
        assert_eq!((found[0].severity, found[0].kind), (Info, Measurement));
        assert!(found[0].summary.contains("may train up to 4.0 x16 under load"), "{}", found[0].summary);
        assert!(found[0].cost.is_none());
        let narrow = with("1.0 x8", "4.0 x16");
        assert_eq!((narrow[0].severity, narrow[0].cost.as_ref().unwrap().share), (Error, 0.5), "by its lanes");
        assert_eq!(with("4.0 x16", "4.0 x16"), vec![]);
    }

    #[test]
    fn unlike_widths_are_findings_of_their_own_and_disks_are_limits() {
        let nvme = ("0000:81:00.0", "3.0 x1", "4.0 x4");
        let found = reported(&[("0000:43:00.0", "3.0 x8", "3.0 x16"), nvme]);
        let reported: Vec<_> = found.iter().map(|f| (f.severity, join(&f.subjects, ""))).collect();
        assert_eq!(reported, [(Error, "mlx5_0".to_owned()), (Warning, "0000:81:00.0".to_owned())]);
        assert!(found[0].summary.contains("3.0 x8, although capable of 3.0 x16"), "{}", found[0].summary);
        assert!(found[1].summary.contains("3.0 x1, although capable of 4.0 x4"), "{}", found[1].summary);
    }

    #[test]
    fn devices_of_portable_machines_are_as_built() {
        let mut b = FabricBuilder::new();
        let mut gpu = Node::new("GPU0", NodeKind::Gpu);
        gpu.address = Some("0000:43:00.0".parse().unwrap());
        b.node(gpu);
        let mut machine = captured(b);
        let limit = LimitedLink {
            device: "0000:43:00.0".parse().unwrap(),
            at: "0000:00:01.0".parse().unwrap(),
            width: width("4.0 x8"),
            capable: width("4.0 x16"),
        };
        let facts = KernelFacts { limited: vec![limit], is_portable: true, ..KernelFacts::default() };
        state(&mut machine, "kernel log", Fact::Kernel(facts));
        let found = findings(&machine, run);
        assert_eq!((found.len(), found[0].kind), (1, Design));
        assert!(!found[0].fix.contains("Reseat"), "{}", found[0].fix);
    }

    #[test]
    fn a_device_that_may_be_the_adapter_without_an_address_is_possible() {
        let mut b = FabricBuilder::new();
        b.node(Node::new("mlx5_0", NodeKind::Nic));
        let found = reported_of(b, &[("0000:43:00.0", "3.0 x8", "3.0 x16")]);
        assert_eq!((found[0].severity, found[0].certainty), (Warning, Possible));
        let mut b = FabricBuilder::new();
        b.node(Node::new("mlx5_0", NodeKind::Nic));
        assert_eq!(reported_of(b, &[("0000:81:00.0", "3.0 x1", "4.0 x4")])[0].severity, Warning, "a disk's lanes");
    }

    #[test]
    fn without_such_a_line_nothing_is_said() {
        let machine = captured(FabricBuilder::new());
        assert_eq!(findings(&machine, run), vec![]);
    }
}
