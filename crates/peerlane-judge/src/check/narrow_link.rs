//! A PCIe link that runs narrower or slower than both its ends and its slot allow, or a card in a slot
//! that has fewer lanes than the card.

use std::collections::{HashMap, HashSet};

use super::confirm;
use super::gpu_setting::gpus_with;
use super::view::{Raised, View};
use super::words::{list, verb};
use super::{Certainty, Cost, Finding, FindingKind, Rule, Severity};
use peerlane_machine::fabric::{LinkId, LinkKind, NodeId, NodeKind, PcieGeneration, PcieWidth};
use peerlane_machine::origin::Origin;
use peerlane_machine::subject::Subject;

pub(super) const RULE: Rule = Rule { id: "narrow-link", breaks: false, run };

/// From this loss on a narrow link is an error: x4 where x16 could be.
const MUCH: f64 = 4.0;

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
    could: PcieWidth,
    /// What offers more.
    offers: Offers,
}

/// What a link's limit is known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Offers {
    Slot,
    BothEnds,
    /// The slot's limit is not known.
    OneEnd,
}

/// Links that run below what both ends and the slot allow, idle ones left out.
pub(super) fn links(view: &View) -> HashSet<LinkId> {
    let fabric = view.fabric();
    fabric
        .ids()
        .filter_map(|id| judge(view, id))
        .filter(|(_, key)| matches!(key.reason, Reason::BelowAllowed | Reason::BelowSlot))
        .map(|(link, _)| link)
        .collect()
}

fn run(view: &View) -> Vec<Raised> {
    let mut groups: Vec<(Key, Vec<(LinkId, NodeId)>)> = Vec::new();
    let mut at: HashMap<Key, usize> = HashMap::new();
    for id in view.fabric().ids() {
        let Some((link, key)) = judge(view, id) else { continue };
        let index = *at.entry(key).or_insert(groups.len());
        match groups.get_mut(index) {
            Some((_, members)) => members.push((link, id)),
            None => groups.push((key, vec![(link, id)])),
        }
    }
    let mut raised: Vec<Raised> = groups.iter().map(|(key, members)| report(view, key, members)).collect();
    raised.extend(unplaced(view));
    raised
}

/// Lanes now and at most, the GPUs, and where that stands.
type Unplaced<'a> = ((u8, u8), Vec<String>, Vec<&'a Origin>);

/// GPUs of which a source tells the lanes, but none what is above them (`nvidia-smi -q` alone). The generation may be
/// that of an idle link.
fn unplaced(view: &View) -> Vec<Raised> {
    let narrow = gpus_with(view, |gpu| {
        below(gpu.running.lanes, gpu.allowed.lanes).then_some((gpu.running.lanes?, gpu.allowed.lanes?))
    });
    let mut groups: Vec<Unplaced> = Vec::new();
    for (name, lanes, origin) in narrow {
        if view.fabric().find(&name).is_none_or(|id| view.fabric().upstream(id).is_some()) {
            continue;
        }
        match groups.iter_mut().find(|(known, ..)| *known == lanes) {
            Some((_, names, origins)) => {
                names.push(name);
                origins.push(origin);
            }
            None => groups.push((lanes, vec![name], vec![origin])),
        }
    }
    let report = |((now, could), names, origins): Unplaced| {
        let factor = f64::from(could) / f64::from(now.max(1));
        let (who, run) = (list(&names), verb(&names, "runs", "run"));
        let finding = Finding {
            summary: format!("{who} {run} at PCIe x{now} where the card, if not its slot, allows x{could}"),
            expected: format!("PCIe x{could}"),
            measured: format!("PCIe x{now}"),
            evidence: view.cite(origins),
            fix: format!(
                "If the slot is wired for x{could}, reseat the card and look at its riser and at the BIOS's bifurcation \
                 of this slot; else a wider slot is what it takes."
            ),
            confirm: confirm::width(),
            ..Finding::of(&RULE, FindingKind::Fault, by_loss(factor), Certainty::Possible, Subject::nodes_of(names))
        };
        Raised::new(finding, 1.0 - 1.0 / factor)
    };
    groups.into_iter().map(report).collect()
}

/// Whether the link above an endpoint or card is narrow. Switch ports are not judged: bridges report
/// odd widths, and a narrow uplink shows in what the devices below it reach.
fn judge(view: &View, id: NodeId) -> Option<(LinkId, Key)> {
    let fabric = view.fabric();
    if !matches!(fabric.node(id).kind, NodeKind::Gpu | NodeKind::Nic | NodeKind::Card) {
        return None;
    }
    let (at, _) = fabric.upstream(id)?;
    let link = fabric.link(at);
    let LinkKind::Pcie { running, allowed, slot } = &link.kind else { return None };
    let (running, allowed) = (*running, *allowed);
    if link.assumed || running.is_unknown() {
        return None;
    }
    if let (Some(carried), Some(raw)) = (view.carried(at), running.raw_rate())
        && carried > raw * PROOF
    {
        return None;
    }
    let offers = match (slot, &link.note) {
        (Some(_), _) => Offers::Slot,
        // what a captured link's note says: that only one end's limit is known
        (None, Some(_)) if view.is_captured() => Offers::OneEnd,
        _ => Offers::BothEnds,
    };
    let key = |reason, running, could| Some((at, Key { reason, running, could, offers }));
    if below(running.lanes, allowed.lanes) {
        // on a captured machine the generation may be that of an idle link: only the lanes count
        let now = if view.is_captured() { PcieWidth { generation: None, ..running } } else { running };
        return key(Reason::BelowAllowed, now, allowed);
    }
    if below(running.generation, allowed.generation) {
        return key(if view.is_captured() { Reason::Idle } else { Reason::BelowAllowed }, running, allowed);
    }
    let wired = slot.as_ref().and_then(|name| view.machine.slots.iter().find(|s| s.name == *name)).map(|s| s.wired);
    let card = view.part(id).and_then(|part| part.pcie);
    let could = PcieWidth { generation: running.generation, lanes: card.and_then(|c| c.lanes) };
    match (below(running.lanes, could.lanes), below(running.lanes, wired)) {
        (true, true) => key(Reason::BelowSlot, running, PcieWidth { lanes: could.lanes.min(wired), ..could }),
        (true, false) => key(Reason::CardWider, running, could),
        _ => None,
    }
}

fn below<T: PartialOrd>(now: Option<T>, could: Option<T>) -> bool {
    matches!((now, could), (Some(now), Some(could)) if now < could)
}

/// How many times slower the link is than it could be, as far as is known.
fn loss_factor(running: PcieWidth, could: PcieWidth) -> f64 {
    let lanes = match (running.lanes, could.lanes) {
        (Some(now), Some(could)) if now > 0 => f64::from(could) / f64::from(now),
        _ => 1.0,
    };
    let rate = |g: PcieGeneration| g.gigatransfers() * g.encoding();
    match (running.generation, could.generation) {
        (Some(now), Some(could)) => lanes * rate(could) / rate(now),
        _ => lanes,
    }
}

/// The devices at the end of a link: the node itself, or the ports of a card.
fn devices(view: &View, id: NodeId) -> Vec<String> {
    let fabric = view.fabric();
    let ports: Vec<String> = fabric.downstream(id).map(|(_, below)| fabric.node(below).name.clone()).collect();
    if ports.is_empty() { vec![view.name(id).to_owned()] } else { ports }
}

fn report(view: &View, key: &Key, members: &[(LinkId, NodeId)]) -> Raised {
    let Key { reason, running, could, offers } = *key;
    let subjects: Vec<String> = members.iter().flat_map(|(_, id)| devices(view, *id)).collect();
    let who = list(&subjects);
    let run = verb(&subjects, "runs", "run");
    let factor = loss_factor(running, could);
    let now = describe(running);
    let offer = if running.generation == could.generation || running.generation.is_none() {
        PcieWidth { generation: None, ..could }.to_string()
    } else {
        describe(could)
    };
    let offerer = match offers {
        Offers::Slot => "the slot offers",
        Offers::BothEnds => "both ends allow",
        Offers::OneEnd => "the device, if not its slot, allows",
    };
    let (summary, fix) = match reason {
        Reason::BelowAllowed | Reason::BelowSlot => {
            (format!("{who} {run} at {now} where {offerer} {offer}"), mend_fault(view, running, could, members))
        }
        Reason::CardWider => (
            format!("{who} {run} at {now}, all that the slot is wired for; the card could use {offer}"),
            format!(
                "Move {who} to a slot that is wired for {offer}, or let the BIOS give this slot more lanes, \
                 if the board can; else plan with {now}."
            ),
        ),
        Reason::Idle => (
            format!(
                "{who} showed {now} where {} is possible, at full width: idle links save power this way",
                describe(could)
            ),
            "Nothing, if it was idle: read the link again under load before you believe it.".to_owned(),
        ),
    };
    let (kind, severity) = match reason {
        Reason::Idle => (FindingKind::Measurement, Severity::Info),
        Reason::CardWider => (FindingKind::Design, by_loss(factor)),
        Reason::BelowAllowed | Reason::BelowSlot => (FindingKind::Fault, by_loss(factor)),
    };
    let rate = |w: PcieWidth| w.raw_rate().map_or(String::new(), |r| format!(" ({r} each way before packet headers)"));
    let gb = |w: PcieWidth| w.raw_rate().map(|r| r.gb());
    // of a captured link only the lanes are compared
    let at = PcieWidth { generation: running.generation.or(could.generation), ..running };
    let cost = gb(could).zip(gb(at)).and_then(|(could, now)| Cost::of_rate(could, now));
    let origins: Vec<&Origin> = members
        .iter()
        .flat_map(|(link, id)| view.fabric().link(*link).origins.iter().chain(&view.fabric().node(*id).origins))
        .collect();
    let finding = Finding {
        rule: RULE.id.to_owned(),
        certainty: Certainty::Likely,
        confirm: confirm::width(),
        cost: cost.filter(|_| reason != Reason::Idle),
        kind,
        severity,
        subjects: Subject::nodes_of(subjects),
        summary,
        expected: format!("{}{}", describe(could), rate(could)),
        measured: format!("{now}{}", rate(running)),
        evidence: view.cite(origins),
        fix,
    };
    Raised::new(finding, if reason == Reason::Idle { 0.0 } else { 1.0 - 1.0 / factor })
}

fn by_loss(factor: f64) -> Severity {
    if factor >= MUCH { Severity::Error } else { Severity::Warning }
}

fn describe(width: PcieWidth) -> String {
    format!("PCIe {width}")
}

/// What to do, by what the link runs at.
fn mend_fault(view: &View, running: PcieWidth, could: PcieWidth, members: &[(LinkId, NodeId)]) -> String {
    let captured = view.is_captured();
    let gpus = members.iter().any(|(_, id)| view.fabric().node(*id).kind == NodeKind::Gpu);
    let want = could.lanes.map_or("full-width".to_owned(), |l| format!("x{l}"));
    if !below(running.lanes, could.lanes) {
        return "Set the slot's link speed to Auto or to the higher generation in the BIOS; a riser or cable that is not \
                rated for it falls back: replace it."
            .to_owned();
    }
    match running.lanes {
        Some(1) if gpus => format!(
            "An x1 link is what a mining riser gives: put the card in the slot itself, or on a riser rated for {want} \
             at this generation."
        ),
        Some(1..=4) if captured => format!(
            "Move the card to a slot with {want} to the CPU (x1 to x4 slots often hang on the chipset), check the BIOS for \
             bifurcation or lane sharing with M.2, and replace a riser that is not rated for {want}."
        ),
        _ => format!(
            "Reseat the card and its riser, check the contacts, and look in the BIOS for bifurcation or a neighbour that \
             shares the slot's lanes; else use another slot that gives {want}."
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{
        boxes, captured, findings, matrix, pcie, see_with, switched, uniform, width, with_link,
    };
    use super::*;
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
    fn lanes_of_gpus_that_hang_nowhere() {
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
        assert!(found[0].summary.starts_with("GPU1 runs at PCIe x8 where the card"), "{}", found[0].summary);
    }

    #[test]
    fn six_risers_are_one_error_and_the_wide_card_a_design_warning() {
        let found = with_card(&risers());
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].summary, "GPU0–GPU5 run at PCIe 3.0 x1 where the slot offers x8");
        assert_eq!((found[0].kind, found[0].severity), (FindingKind::Fault, Severity::Error));
        assert_eq!(found[0].subjects.len(), 6);
        assert_eq!(found[0].evidence, ["a document"]);
        assert_eq!(found[1].subjects, ["GPU6"]);
        assert_eq!((found[1].kind, found[1].severity), (FindingKind::Design, Severity::Warning));
        assert!(found[1].summary.contains("the card could use x16"), "{}", found[1].summary);
    }

    #[test]
    fn a_slot_with_more_lanes_makes_it_a_fault() {
        let mut machine = risers();
        machine.slots[6].wired = 16;
        let found = with_card(&machine);
        assert_eq!((found[1].kind, found[1].severity), (FindingKind::Fault, Severity::Warning));
    }

    #[test]
    fn a_low_generation_at_full_width_is_idle() {
        let mut machine = switched(2);
        with_link(&mut machine, "GPU0", pcie("1.0 x16", "3.0 x16"));
        let found = findings(&machine, run);
        assert_eq!((found[0].severity, found[0].kind), (Severity::Info, FindingKind::Measurement));
        machine.matrices.push(uniform(2, 12.0, &[]));
        assert!(findings(&machine, run).is_empty(), "12 GB/s do not pass through Gen1 x16");
    }

    #[test]
    fn lanes_count_even_when_idle() {
        let mut machine = switched(2);
        with_link(&mut machine, "GPU0", pcie("1.0 x4", "3.0 x16"));
        machine.matrices.push(matrix(&[&[0.0, 0.7], &[0.7, 0.0]]));
        let found = findings(&machine, run);
        assert_eq!(found[0].severity, Severity::Error);
        assert_eq!(found[0].summary, "GPU0 runs at PCIe x4 where both ends allow 3.0 x16".replace("3.0 ", ""));
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
