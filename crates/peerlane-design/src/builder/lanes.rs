//! How many lanes each slot has: shared lanes go to the slots in use, and several cards in one slot split it.

use std::collections::BTreeSet;

use super::SlotLine;

/// The most slots of a group of which every allocation is listed.
const MOST_LISTED: usize = 6;

/// Slots that share lanes, with what each of them can have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Their names.
    pub slots: Vec<String>,
    /// Lanes of each, for every set of them that may be in use; the design's own first. Zero: not usable.
    pub allocations: Vec<Vec<u8>>,
}

/// Indices of the slots that each slot shares lanes with, whichever of the two lines says so.
fn sharers(slots: &[SlotLine]) -> Vec<Vec<usize>> {
    let share =
        |a: &SlotLine, b: &SlotLine| a.name != b.name && (a.shares.contains(&b.name) || b.shares.contains(&a.name));
    let of = |slot: &SlotLine| (0..slots.len()).filter(|i| share(slot, &slots[*i])).collect();
    slots.iter().map(of).collect()
}

/// Lanes of every slot where those of `used` hold cards.
///
/// A slot in use has its first width, and a later one for each slot in use that it shares with. An empty slot has what
/// those leave: none where one of them runs at the full width of several that it can have.
pub(super) fn allot(slots: &[SlotLine], used: &[bool]) -> Vec<u8> {
    let sharers = sharers(slots);
    let nth = |i: usize| {
        let busy = sharers[i].iter().filter(|j| used[**j]).count();
        slots[i].widths[busy.min(slots[i].widths.len() - 1)]
    };
    let mut lanes: Vec<u8> = (0..slots.len()).map(|i| if used[i] { nth(i) } else { 0 }).collect();
    for i in (0..slots.len()).filter(|i| !used[*i]) {
        let takes_all = |j: &usize| slots[*j].widths.len() > 1 && lanes[*j] == slots[*j].widths[0];
        if !sharers[i].iter().any(takes_all) {
            lanes[i] = nth(i);
        }
    }
    lanes
}

/// Every group of slots that share lanes.
pub(super) fn groups(slots: &[SlotLine], used: &[bool]) -> Vec<Group> {
    let sharers = sharers(slots);
    let mut seen = BTreeSet::new();
    let mut groups = Vec::new();
    for first in 0..slots.len() {
        let mut members = BTreeSet::from([first]);
        let mut waiting = vec![first];
        while let Some(i) = waiting.pop() {
            waiting.extend(sharers[i].iter().filter(|j| members.insert(**j)));
        }
        if members.len() < 2 || !seen.insert(members.clone()) {
            continue;
        }
        let members: Vec<usize> = members.into_iter().collect();
        let of = |used: &[bool]| -> Vec<u8> {
            let lanes = allot(slots, used);
            members.iter().map(|i| if used[*i] { lanes[*i] } else { 0 }).collect()
        };
        let mut allocations = vec![of(used)];
        if members.len() <= MOST_LISTED {
            for set in 1..1_u32 << members.len() {
                let mut some = vec![false; slots.len()];
                for (bit, i) in members.iter().enumerate() {
                    some[*i] = set >> bit & 1 == 1;
                }
                let lanes = of(&some);
                // a slot in use without lanes is no allocation
                let legal = members.iter().zip(&lanes).all(|(i, lanes)| !some[*i] || *lanes > 0);
                if legal && !allocations.contains(&lanes) {
                    allocations.push(lanes);
                }
            }
        }
        allocations.retain(|lanes| lanes.iter().any(|lanes| *lanes > 0));
        groups.push(Group { slots: members.iter().map(|i| slots[*i].name.clone()).collect(), allocations });
    }
    groups
}

/// Lanes of each of several cards in one slot, which the firmware splits (bifurcation); `None` where it cannot.
pub(super) fn split(lanes: u8, cards: usize) -> Option<Vec<u8>> {
    let (half, quarter) = (lanes / 2, lanes / 4);
    let parts = match cards {
        1 => vec![lanes],
        2 => vec![half; 2],
        3 => vec![half, quarter, quarter],
        4 => vec![quarter; 4],
        _ => return None,
    };
    // no firmware offers less than x4 for a share
    (cards == 1 || parts.iter().all(|lanes| *lanes >= 4)).then_some(parts)
}
