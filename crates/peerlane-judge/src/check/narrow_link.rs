//! A PCIe link that runs narrower or slower than both its ends and its slot allow, or a card in a slot that has fewer lanes
//! than the card.

use std::collections::HashSet;

use super::gpu_setting::gpus_with;
use super::prelude::*;
use peerlane_machine::fabric::{LinkId, PcieGeneration, PcieWidth};
use peerlane_machine::fact::{GpuFacts, PciDevice};
use peerlane_read::assemble::standing;

pub(super) const RULE: Rule = Rule::new("narrow-link", Many(run))
    .explains("p2p-slower-than-staged asymmetric-cell uneven-path-class contended-slow");

/// A measured rate this much above a link's raw rate shows that the width was read while idle: the next width or generation
/// carries twice as much, of which some 85 % arrives, and no sound number is off by a quarter.
const PROOF: f64 = 1.25;

/// Why a link is narrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Reason {
    /// Both ends and the slot allow more.
    BelowAllowed,
    /// The slot has more lanes than the link runs with.
    BelowSlot,
    /// The slot or the board's wiring has fewer lanes than the card.
    CardWider,
    /// Full width at a low generation, as an idle link runs.
    Idle,
}

/// What links must share to be one finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    reason: Reason,
    running: PcieWidth,
    possible: PcieWidth,
    /// What allows more.
    limit: Limit,
}

/// What a link's limit is known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Limit {
    Slot,
    BothEnds,
    /// The slot's limit is unknown.
    OneEnd,
}

/// Links that run below what both ends and the slot allow, idle ones left out.
pub(super) fn links(view: &View) -> HashSet<LinkId> {
    let judged = view.fabric().ids().filter_map(|id| judge(view, id));
    judged
        .filter(|(key, _)| matches!(key.reason, Reason::BelowAllowed | Reason::BelowSlot))
        .map(|(_, (link, _))| link)
        .collect()
}

fn run(view: &View) -> Vec<Raised> {
    let groups = grouped(view.fabric().ids().filter_map(|id| judge(view, id)));
    let placed = groups.iter().map(|(key, members)| report(view, key, members));
    placed.chain(narrow_unplaced(view)).collect()
}

/// A device whose lanes a source states, but not what is above it: the lanes that it runs with, and those that it has.
struct Unplaced<'a> {
    lanes: (u8, u8),
    /// Its speed is below its own, too.
    is_slower: bool,
    id: NodeId,
    origin: &'a Origin,
}

/// The devices of which `nvidia-smi -q`, or `lspci` of the device alone, states lanes.
fn unplaced<'a>(view: &View<'a>) -> Vec<Unplaced<'a>> {
    let fabric = view.fabric();
    let mut all: Vec<Unplaced> = Vec::new();
    let mut add = |id: Option<NodeId>, lanes: (Option<u8>, Option<u8>), is_slower: bool, origin: &'a Origin| {
        let is_new = |id: &NodeId| fabric.upstream(*id).is_none() && all.iter().all(|known| known.id != *id);
        if let (Some(id), (Some(now), Some(possible))) = (id.filter(is_new), lanes) {
            all.push(Unplaced { lanes: (now, possible), is_slower, id, origin });
        }
    };
    let stated = |gpu: &GpuFacts| {
        let is_stated = gpu.running.lanes.is_some() && !standing::may_be_idle(gpu);
        is_stated.then_some((gpu.running.lanes, gpu.allowed.lanes))
    };
    if let Some(gpus) = gpus_with(view, stated) {
        let members = gpus.names.iter().zip(gpus.values).zip(gpus.origins);
        members.for_each(|((name, lanes), origin)| add(fabric.find(name), lanes, false, origin));
    }
    for (tree, origin) in view.pci_trees() {
        let keeps_lanes =
            |d: &&PciDevice| !standing::drops_lanes(d.running.generation.max(d.capable.generation)) && d.c2c.is_none();
        for device in tree.devices.iter().filter(keeps_lanes) {
            let id = device.address.and_then(|address| view.at(address)).filter(|id| fabric.node(*id).kind.is_device());
            let is_slower = below(device.running.generation, device.capable.generation);
            add(id, (device.running.lanes, device.capable.lanes), is_slower, origin);
        }
    }
    all
}

/// Whether the lanes of a device that is not placed are known, with those that it has.
pub(super) fn is_unplaced_known(view: &View) -> bool {
    !unplaced(view).is_empty()
}

/// Devices with fewer lanes than they have, where nothing states what is above them. The generation may be that of an idle link.
fn narrow_unplaced(view: &View) -> Vec<Raised> {
    let fabric = view.fabric();
    let narrow = unplaced(view).into_iter().filter(|device| device.lanes.0 < device.lanes.1);
    let report = |((now, possible), members): ((u8, u8), Vec<Unplaced>)| {
        let factor = f64::from(possible) / f64::from(now.max(1));
        let names = view.names_of(&members.iter().map(|device| device.id).collect::<Vec<_>>());
        let shares = |device: &Unplaced| may_share_lanes(view, device.id, factor);
        // adapters do not slow down while they are idle, and a slot that has fewer lanes is not slower, too
        let is_gpu = |device: &Unplaced| fabric.node(device.id).kind == NodeKind::Gpu;
        let lost_both = members.iter().all(|device| device.is_slower && !is_gpu(device));
        // no slot for such a card has an eighth of its lanes
        let (kind, certainty) = match members.iter().all(shares) {
            true => (Design, Possible),
            false if factor >= 8.0 || lost_both => (Fault, Likely),
            false => (Fault, Possible),
        };
        RULE.raise(kind, Warning, certainty)
            .summary(format!(
                "{} {} at PCIe x{now}, but the card, if not its slot, allows x{possible}",
                list(&names),
                verb(&names, "runs", "run")
            ))
            .expected(format!("PCIe x{possible}"))
            .measured(format!("PCIe x{now}"))
            .evidence(view.cite(members.iter().map(|device| device.origin)))
            .fix(format!(
                "If the slot is wired for x{possible}, reseat the card, and check its riser and the slot's bifurcation in \
                 the BIOS. Otherwise use a wider slot."
            ))
            .confirm(if members.iter().all(is_gpu) { confirm::WIDTH } else { confirm::WIDTH_OF_DEVICE })
            .about_nodes(names)
            .losing(1.0 - 1.0 / factor)
    };
    grouped(narrow.map(|device| (device.lanes, device))).into_iter().map(report).collect()
}

/// Whether a GPU's slot may have that many times fewer lanes than the card: boards share sixteen lanes between two slots, and
/// those for desktops have one of four lanes at the chipset.
fn may_share_lanes(view: &View, id: NodeId, factor: f64) -> bool {
    let node = view.fabric().node(id);
    let product = node.product.as_deref().unwrap_or_default();
    node.kind == NodeKind::Gpu
        && !product.contains("SXM")
        && factor <= if product.contains("GeForce") { 4.0 } else { 2.0 }
}

/// Whether the link above an endpoint or card is narrow. Switch ports are not checked: bridges report
/// wrong widths, and a narrow uplink shows in what the devices below it reach.
fn judge(view: &View, id: NodeId) -> Option<(Key, (LinkId, NodeId))> {
    let fabric = view.fabric();
    if !(fabric.node(id).kind.is_device() || fabric.node(id).kind == NodeKind::Card) {
        return None;
    }
    let (at, _) = fabric.upstream(id)?;
    let link = fabric.link(at);
    let LinkKind::Pcie { running, allowed, slot } = &link.kind else { return None };
    let (running, allowed) = (*running, *allowed);
    let stated = running;
    if link.assumed || running.is_unknown() {
        return None;
    }
    if let (Some(carried), Some(raw)) = (view.carried(at), running.raw_rate())
        && carried > raw * PROOF
    {
        return None;
    }
    let limit = match (slot, &link.note) {
        (Some(_), _) => Limit::Slot,
        // a captured link has a note where only one end's limit is known
        (None, Some(_)) if view.is_captured() => Limit::OneEnd,
        _ => Limit::BothEnds,
    };
    let key = |reason, running, possible| Some((Key { reason, running, possible, limit }, (at, id)));
    if below(running.lanes, allowed.lanes) {
        // on a captured machine the generation may be that of an idle link: only the lanes count
        let now = if view.is_captured() { PcieWidth { generation: None, ..running } } else { running };
        return key(Reason::BelowAllowed, now, allowed);
    }
    let idle = below(running.generation, allowed.generation);
    if idle && !view.is_captured() {
        return key(Reason::BelowAllowed, running, allowed);
    }
    let wired = slot.as_ref().and_then(|name| view.machine.slots.iter().find(|s| s.name == *name)).map(|s| s.wired);
    let card = view.part(id).and_then(|part| part.pcie);
    let running = if idle { PcieWidth { generation: allowed.generation, ..running } } else { running };
    let possible = PcieWidth { generation: running.generation, lanes: card.and_then(|c| c.lanes) };
    match (below(running.lanes, possible.lanes), below(running.lanes, wired)) {
        (true, true) => key(Reason::BelowSlot, running, PcieWidth { lanes: possible.lanes.min(wired), ..possible }),
        (true, false) => key(Reason::CardWider, running, possible),
        _ if idle => key(Reason::Idle, stated, allowed),
        _ => None,
    }
}

/// How many times slower the link is than possible, as far as is known.
fn loss_factor(running: PcieWidth, possible: PcieWidth) -> f64 {
    let lanes = match (running.lanes, possible.lanes) {
        (Some(now), Some(possible)) if now > 0 => f64::from(possible) / f64::from(now),
        _ => 1.0,
    };
    let rate = |g: PcieGeneration| g.gigatransfers() * g.encoding();
    match (running.generation, possible.generation) {
        (Some(now), Some(possible)) => lanes * rate(possible) / rate(now),
        _ => lanes,
    }
}

/// The devices at the end of a link: the node itself, or the ports of a card.
fn devices(view: &View, id: NodeId) -> Vec<String> {
    let ports: Vec<NodeId> = view.fabric().downstream(id).map(|(_, below)| below).collect();
    view.names_of(if ports.is_empty() { std::slice::from_ref(&id) } else { &ports })
}

fn report(view: &View, key: &Key, members: &[(LinkId, NodeId)]) -> Raised {
    let Key { reason, running, possible, limit } = *key;
    let names: Vec<String> = members.iter().flat_map(|(_, id)| devices(view, *id)).collect();
    let (who, run) = (list(&names), verb(&names, "runs", "run"));
    let factor = loss_factor(running, possible);
    let (now, full) = (format!("PCIe {running}"), format!("PCIe {possible}"));
    let same_generation = running.generation == possible.generation || running.generation.is_none();
    let more = if same_generation { PcieWidth { generation: None, ..possible }.to_string() } else { full.clone() };
    let allows = match limit {
        Limit::Slot => "the slot allows",
        Limit::BothEnds => "both ends allow",
        Limit::OneEnd => "the device, if not its slot, allows",
    };
    let shares = limit == Limit::OneEnd && members.iter().all(|(_, id)| may_share_lanes(view, *id, factor));
    let (kind, certainty) = if shares { (Design, Possible) } else { (Fault, Likely) };
    let raised = match reason {
        Reason::BelowAllowed | Reason::BelowSlot => RULE
            .raise(kind, Warning, certainty)
            .summary(format!("{who} {run} at {now}, but {allows} {more}"))
            .fix(fix(view, running, possible, members)),
        Reason::CardWider => RULE
            .raise(Design, Warning, Likely)
            .summary(format!("{who} {run} at {now}, all that the slot is wired for; the card supports {more}"))
            .fix(format!(
                "Move {who} to a slot that is wired for {more}, or give this slot more lanes in the BIOS, if the board \
                 can. Otherwise plan with {now}."
            )),
        Reason::Idle => RULE
            .raise(Measurement, Info, Likely)
            .summary(format!(
                "{who} showed {now} at full width, but {full} is possible: idle links save power this way"
            ))
            .fix("Read the link again under load. If it was idle, do nothing."),
    };
    let drives = members.iter().all(|(_, id)| matches!(view.fabric().node(*id).kind, NodeKind::Nvme | NodeKind::Fpga));
    let confirm = if drives { confirm::WIDTH_OF_DEVICE } else { confirm::WIDTH };
    let rate = |w: PcieWidth| w.raw_rate().map_or(String::new(), |r| format!(" ({r} each way before packet headers)"));
    let raised =
        raised
            .expected(format!("{full}{}", rate(possible)))
            .measured(format!("{now}{}", rate(running)))
            .evidence(view.cite(members.iter().flat_map(|(link, id)| {
                view.fabric().link(*link).origins.iter().chain(&view.fabric().node(*id).origins)
            })))
            .confirm(confirm)
            .about_nodes(names);
    if reason == Reason::Idle {
        return raised;
    }
    // of a captured link only the lanes are compared
    let at = PcieWidth { generation: running.generation.or(possible.generation), ..running };
    let rates = possible.raw_rate().zip(at.raw_rate());
    raised.cost(rates.and_then(|(possible, now)| Cost::of_rate(possible.gb(), now.gb()))).losing(1.0 - 1.0 / factor)
}

/// What to do, by what the link runs at.
fn fix(view: &View, running: PcieWidth, possible: PcieWidth, members: &[(LinkId, NodeId)]) -> String {
    let gpus = members.iter().any(|(_, id)| view.fabric().node(*id).kind == NodeKind::Gpu);
    let full = possible.lanes.map_or("full width".to_owned(), |lanes| format!("x{lanes}"));
    if !below(running.lanes, possible.lanes) {
        return "Set the slot's link speed to Auto or to the higher generation in the BIOS. If it stays low, replace \
                the riser or cable, if there is one: links fall back where it is not rated for the generation."
            .to_owned();
    }
    match running.lanes {
        Some(1) if gpus => format!(
            "Put the card in the slot itself, or on a riser rated for {full} at this generation: x1 is the width of a \
             mining riser."
        ),
        Some(1..=4) if view.is_captured() => format!(
            "Move the card to a slot with {full} to the CPU (x1 to x4 slots often connect through the chipset). If it \
             is in one, check the BIOS for bifurcation or lanes shared with M.2, and replace a riser that is not rated \
             for {full}."
        ),
        _ => format!(
            "Reseat the card and its riser, check the contacts, and check the BIOS for bifurcation or a neighbour that \
             shares the slot's lanes. Otherwise use another slot with {full}."
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{
        boxes, captured, findings, matrix, pcie, see_with, switched, uniform, width, with_link,
    };
    use super::*;
    use crate::finding::Finding;
    use peerlane_machine::fabric::Node;
    use peerlane_machine::machine::{MachineKind, Slot};
    use peerlane_machine::subject::join;
    use peerlane_read::catalogue::Parts;

    const CARD: &str = "name='gtx'\ntitle='t'\nkind='gpu'\nsource='s'\npcie='3.0 x16'\n";

    /// Six x1 risers in x8 slots and one card at x8 in an x8 slot.
    fn risers() -> peerlane_machine::machine::Machine {
        let mut b = boxes(&[7], true);
        for i in 0..7 {
            let gpu = b.find(&format!("GPU{i}")).unwrap();
            b.node_mut(gpu).part = Some("gtx".to_owned());
        }
        let mut machine = captured(b);
        machine.kind = MachineKind::Design;
        machine.source = Some("a document".to_owned());
        for i in 0..7 {
            let running = width(if i < 6 { "3.0 x1" } else { "3.0 x8" });
            let slot = Some(format!("PCIE{i}"));
            with_link(&mut machine, &format!("GPU{i}"), LinkKind::Pcie { running, allowed: width("3.0 x8"), slot });
            let slot = Slot { name: format!("PCIE{i}"), physical: 16, wired: 8, port: None, shares: vec![] };
            machine.slots.push(slot);
        }
        machine
    }

    fn with_card(machine: &peerlane_machine::machine::Machine) -> Vec<Finding> {
        let mut parts = Parts::default();
        parts.add("gtx", CARD).unwrap();
        see_with(machine, &parts, |view| run(view).into_iter().map(|r| r.finding).collect())
    }

    #[test]
    fn lanes_of_gpus_without_a_parent() {
        use peerlane_machine::fact::{Fact, GpuFacts};
        let mut b = peerlane_machine::fabric::FabricBuilder::new();
        for name in ["GPU0", "GPU1"] {
            b.node(peerlane_machine::fabric::Node::new(name, NodeKind::Gpu));
        }
        let mut machine = super::super::testing::captured(b);
        let gpu = |index, running: &str| GpuFacts {
            index: Some(index),
            running: running.parse().unwrap(),
            allowed: "4.0 x16".parse().unwrap(),
            ..GpuFacts::default()
        };
        super::super::testing::state(
            &mut machine,
            "nvidia-smi -q",
            Fact::Gpus(vec![gpu(0, "1.0 x16"), gpu(1, "4.0 x8")]),
        );
        let found = super::super::testing::findings(&machine, run);
        assert_eq!((found.len(), join(&found[0].subjects, " ")), (1, "GPU1".to_owned()));
        assert_eq!(found[0].kind, Design, "two slots share sixteen lanes");
        let mut kind_of = |product: &str, lanes: &str| {
            let mut b = machine.fabric.clone().into_builder();
            let id = b.find("GPU1").unwrap();
            b.node_mut(id).product = Some(product.to_owned());
            machine.fabric = b.build().unwrap();
            let Fact::Gpus(gpus) = &mut machine.evidence[0].fact else { panic!() };
            gpus[1].running = lanes.parse().unwrap();
            let found = super::super::testing::findings(&machine, run);
            (found[0].kind, found[0].certainty)
        };
        assert_eq!(kind_of("NVIDIA GeForce RTX 3090", "4.0 x4"), (Design, Possible), "a slot of a desktop's chipset");
        assert_eq!(kind_of("NVIDIA RTX A4000", "4.0 x4"), (Fault, Possible));
        assert_eq!(kind_of("NVIDIA GeForce RTX 4090", "4.0 x1"), (Fault, Likely));
        assert_eq!(kind_of("NVIDIA H100 80GB HBM3 SXM", "4.0 x8"), (Fault, Possible), "a module shares with nobody");
        assert!(found[0].summary.starts_with("GPU1 runs at PCIe x8, but the card"), "{}", found[0].summary);
    }

    #[test]
    fn lanes_of_a_gpu_that_lspci_lists_alone() {
        let found = |capable: &str| {
            let text = format!(
                "01:00.0 3D controller: NVIDIA Corporation Device 2330 (rev a1)\n\tCapabilities: [60] Express (v2) Endpoint, MSI \
                 00\n\t\tLnkCap:\tPort #0, Speed {capable}, Width x16\n\t\tLnkSta:\tSpeed 2.5GT/s, Width x1 (downgraded)\n"
            );
            let scanned = peerlane_read::evidence::scan_text(&peerlane_read::evidence::Text::new("t", text.as_bytes()));
            let machine = peerlane_read::assemble::assemble(scanned).remove(0);
            super::super::testing::findings(&machine, run).into_iter().map(|f| f.certainty).collect::<Vec<_>>()
        };
        assert_eq!(found("16GT/s"), [Likely]);
        assert_eq!(found("64GT/s"), [], "an idle link of PCIe 6.0 drops lanes");
    }

    #[test]
    fn six_risers_are_one_fault_and_the_wide_card_a_design_warning() {
        let found = with_card(&risers());
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].summary, "GPU0–GPU5 run at PCIe 3.0 x1, but the slot allows x8");
        assert_eq!((found[0].kind, found[0].severity), (Fault, Error));
        assert_eq!(found[0].subjects.len(), 6);
        assert_eq!(found[0].evidence, ["a document"]);
        assert_eq!(found[1].subjects, ["GPU6"]);
        assert_eq!((found[1].kind, found[1].severity), (Design, Warning));
        assert!(found[1].summary.contains("the card supports x16"), "{}", found[1].summary);
    }

    #[test]
    fn a_slot_with_more_lanes_makes_it_a_fault() {
        let mut machine = risers();
        machine.slots[6].wired = 16;
        let found = with_card(&machine);
        assert_eq!((found[1].kind, found[1].severity), (Fault, Error));
    }

    #[test]
    fn a_low_generation_at_full_width_is_idle() {
        let mut machine = switched(2);
        with_link(&mut machine, "GPU0", pcie("1.0 x16", "3.0 x16"));
        let found = findings(&machine, run);
        assert_eq!((found[0].severity, found[0].kind), (Info, Measurement));
        machine.matrices.push(uniform(2, 12.0, &[]));
        assert!(findings(&machine, run).is_empty(), "12 GB/s do not pass through Gen1 x16");
    }

    #[test]
    fn lanes_count_even_when_idle() {
        let mut machine = switched(2);
        with_link(&mut machine, "GPU0", pcie("1.0 x4", "3.0 x16"));
        machine.matrices.push(matrix(&[&[0.0, 0.7], &[0.7, 0.0]]));
        let found = findings(&machine, run);
        assert_eq!((found[0].severity, found[0].cost.map(|c| c.share)), (Error, Some(0.75)));
        assert_eq!(found[0].summary, "GPU0 runs at PCIe x4, but both ends allow x16");
    }

    #[test]
    fn bridges_unknown_and_assumed_widths_stay_unflagged() {
        let mut machine = switched(2);
        with_link(&mut machine, "switch0", pcie("1.0 x1", "3.0 x16"));
        with_link(&mut machine, "GPU0", pcie("?", "3.0 x16"));
        with_link(&mut machine, "GPU1", pcie("3.0 x8", "?"));
        assert!(findings(&machine, run).is_empty());
        let mut b = boxes(&[1], false);
        let (gpu, rc) = (b.node(Node::new("GPU9", NodeKind::Gpu)), b.find("rc0").unwrap());
        let mut link = peerlane_machine::fabric::Link::new(rc, gpu, pcie("3.0 x1", "3.0 x16"));
        link.assumed = true;
        b.link(link);
        assert!(findings(&captured(b), run).is_empty());
    }
}
