//! PCIe lanes: more in use than available, or most of the slots' lanes unused.

use std::collections::HashMap;

use super::prelude::*;
use peerlane_machine::fabric::{LaneOwner, lane_budgets};
use peerlane_machine::machine::Slot;

pub(super) const RULE: Rule = Rule::new("lane-budget", Many(run));

/// Below this share of the slots' lanes in use, with a link narrower than its slot, the board is wasted.
const WASTED: f64 = 0.30;

fn run(view: &View) -> Vec<Raised> {
    // a running machine uses no more lanes than it has; in the catalogue, too many is a mistake
    let mut raised = if view.is_captured() { Vec::new() } else { overdrawn(view) };
    raised.extend(slots(view));
    raised
}

/// What all findings of this rule share.
fn lanes(view: &View, kind: FindingKind, severity: Severity, used: u32) -> Raised {
    RULE.raise(kind, severity, Certain)
        .measured(format!("{used} lanes"))
        .evidence(view.cite([]))
        .confirm("`lspci -vvv | grep LnkSta:` under load, compared with the slot table in the board's manual")
}

/// Switches and CPUs with more lanes in use than they have.
fn overdrawn(view: &View) -> Vec<Raised> {
    let budgets = lane_budgets(view.fabric(), |id| view.part(id)?.lanes);
    let over = budgets.into_iter().filter(|b| b.used > b.offered);
    over.map(|b| {
        let owner = match b.owner {
            LaneOwner::Cpu => "CPU",
            LaneOwner::Switch => "switch, including its upstream port,",
        };
        let summary = format!("The links at {} use {} lanes; the {owner} has {}", b.name, b.used, b.offered);
        over_budget(view, &[b.name], summary, (b.used, b.offered))
    })
    .collect()
}

fn over_budget(view: &View, names: &[String], summary: String, (used, available): (u32, u32)) -> Raised {
    lanes(view, Fault, Error, used)
        .summary(summary)
        .expected(format!("at most {available} lanes"))
        .fix("Give some links fewer lanes, as the board's manual allows, or use more switches or CPUs for the devices.")
        .about_nodes(names)
        .losing(1.0 - f64::from(available) / f64::from(used.max(1)))
}

/// A slot with the links through it.
struct Filled<'a> {
    slot: &'a Slot,
    used: u32,
    devices: Vec<String>,
}

fn slots(view: &View) -> Vec<Raised> {
    let Some(filled) = fill(view) else { return Vec::new() };
    let wired = |f: &Filled| u32::from(f.slot.wired);
    let report = |f: &Filled| {
        let summary = format!("Slot {} is wired for x{}, but its links use {} lanes", f.slot.name, wired(f), f.used);
        over_budget(view, &f.devices, summary, (f.used, wired(f)))
    };
    let mut raised: Vec<Raised> = filled.iter().filter(|f| f.used > wired(f)).map(report).collect();
    let available: u32 = filled.iter().map(wired).sum();
    let used: u32 = filled.iter().map(|f| f.used).sum();
    let share = f64::from(used) / f64::from(available.max(1));
    let narrow = filled.iter().filter(|f| f.used > 0 && f.used < wired(f));
    let narrow: Vec<&String> = narrow.flat_map(|f| &f.devices).collect();
    if raised.is_empty() && share < WASTED && !narrow.is_empty() {
        let unused = lanes(view, Design, Warning, used)
            .summary(format!("{used} of the slots' {available} lanes are in use ({})", percent(share)))
            .expected(format!("links as wide as their slots, {available} lanes in total"))
            .fix("Connect the cards at the slots' full width before you buy another board: the lanes are there.")
            .about_nodes(narrow)
            .losing(1.0 - share);
        raised.push(unused);
    }
    raised
}

/// The slots with the lanes that links through them use; `None` where there are no slots, or a link's width is unknown.
fn fill<'a>(view: &View<'a>) -> Option<Vec<Filled<'a>>> {
    let fabric = view.fabric();
    let slots = &view.machine.slots;
    let mut filled: Vec<Filled> = slots.iter().map(|slot| Filled { slot, used: 0, devices: Vec::new() }).collect();
    let at: HashMap<&str, usize> = slots.iter().enumerate().map(|(i, s)| (s.name.as_str(), i)).collect();
    for (i, link) in fabric.links().iter().enumerate() {
        let LinkKind::Pcie { running, slot: Some(slot), .. } = &link.kind else { continue };
        let Some(f) = at.get(slot.as_str()).and_then(|i| filled.get_mut(*i)) else { continue };
        f.used += u32::from(running.lanes?);
        let lower = |n: &NodeId| fabric.upstream(*n).is_some_and(|(up, _)| up.index() == i);
        let device = [link.a, link.b].into_iter().find(lower).unwrap_or(link.b);
        f.devices.push(view.name(device).to_owned());
    }
    (!filled.is_empty()).then_some(filled)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{boxes, captured, findings, see_with, width, with_link};
    use super::*;
    use peerlane_machine::machine::{Machine, MachineKind};
    use peerlane_read::catalogue::Parts;

    /// GPUs with the given lanes, each in a slot of its own, wired as given.
    fn board(lanes: &[(&str, u8)]) -> Machine {
        let mut machine = captured(boxes(&[lanes.len()], false));
        machine.kind = MachineKind::Design;
        for (i, (running, wired)) in lanes.iter().enumerate() {
            let name = format!("slot {i}");
            let kind = LinkKind::Pcie { running: width(running), allowed: width("?"), slot: Some(name.clone()) };
            with_link(&mut machine, &format!("GPU{i}"), kind);
            machine.slots.push(Slot { name, physical: 16, wired: *wired, port: None, shares: vec![] });
        }
        machine
    }

    #[test]
    fn fourteen_of_sixty_four_lanes() {
        let x1 = ("3.0 x1", 8);
        let found = findings(&board(&[("3.0 x8", 16), x1, x1, x1, x1, x1, x1]), run);
        assert_eq!((found.len(), found[0].severity), (1, Warning));
        assert_eq!(found[0].summary, "14 of the slots' 64 lanes are in use (22 %)");
    }

    #[test]
    fn a_link_wider_than_its_slot_is_an_error() {
        let found = findings(&board(&[("3.0 x16", 8)]), run);
        assert_eq!((found[0].kind, found[0].severity), (Fault, Error));
    }

    #[test]
    fn free_slots_and_unknown_widths_are_silent() {
        let mut machine = board(&[("3.0 x16", 16)]);
        for i in 1..7 {
            machine.slots.push(Slot { name: format!("slot {i}"), physical: 16, wired: 16, port: None, shares: vec![] });
        }
        assert!(findings(&machine, run).is_empty(), "a free slot is no waste");
        assert!(findings(&board(&[("3.0 x1", 16), ("?", 16)]), run).is_empty());
    }

    #[test]
    fn a_cpu_has_only_so_many_lanes() {
        let mut b = boxes(&[3], false);
        let cpu = b.find("cpu0").unwrap();
        b.node_mut(cpu).part = Some("cpu40".to_owned());
        let mut machine = captured(b);
        let mut parts = Parts::default();
        parts.add("cpu40", "name='cpu40'\ntitle='t'\nkind='cpu'\nsource='s'\nlanes=40\n").unwrap();
        let count = |machine: &Machine| see_with(machine, &parts, |view| run(view).len());
        assert_eq!(count(&machine), 0, "a machine that runs cannot overdraw");
        machine.kind = MachineKind::Design;
        assert_eq!(count(&machine), 1);
    }
}
