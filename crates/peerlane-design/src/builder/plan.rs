//! A sheet, checked: where every card sits, at which width, and what is left.

mod text;

use std::collections::{BTreeMap, BTreeSet};

use super::lanes::{Group, allot, groups, split};
use super::{Card, Product, Sheet, SlotLine};
use peerlane_machine::fabric::{CpuVendor, NodeKind, PcieGeneration, PcieWidth};
use peerlane_machine::names::closest;
use peerlane_read::catalogue::{Part, read_design};

/// The most CPUs, and the most switches, slots and cards each, of a board.
const MOST_SOCKETS: usize = 8;
const MOST: usize = 256;

/// A machine that can be built as its sheet has it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// CPUs and switches, with what hangs at each.
    pub owners: Vec<Owner>,
    /// Slots that share lanes.
    pub groups: Vec<Group>,
    /// What a builder should know of it, in sentences.
    pub notes: Vec<String>,
    file: String,
}

/// A CPU or switch whose lanes slots and devices use.
#[derive(Clone, Debug)]
pub struct Owner {
    /// Its node's name.
    pub name: String,
    /// As its builder named it.
    pub product: Product,
    /// Its fastest port's generation.
    pub generation: Option<PcieGeneration>,
    /// Lanes for slots and devices; unknown for some switches.
    pub lanes: Option<u32>,
    /// Lanes of them that are connected, whether or not a card uses them.
    pub used: u32,
    /// What hangs there, in the order of the slot table.
    pub seats: Vec<Seat>,
    /// The node above a switch, and its uplink.
    pub(super) above: Option<(String, PcieWidth)>,
}

/// A slot, or a device that is soldered on.
#[derive(Clone, Debug)]
pub struct Seat {
    /// The slot's name; `None` for a device without one.
    pub slot: Option<String>,
    /// Lanes that reach it in this design.
    pub lanes: u8,
    /// Devices in it with their links; none in an empty slot.
    pub devices: Vec<Device>,
    pub(super) physical: u8,
    pub(super) shares: Vec<String>,
    /// The generation that the slot itself is limited to.
    pub(super) generation: Option<PcieGeneration>,
}

/// A device in its place.
#[derive(Clone, Debug)]
pub struct Device {
    /// Its node's name.
    pub name: String,
    /// As its builder named it.
    pub product: Product,
    /// The link at which it runs.
    pub link: PcieWidth,
    /// Lanes of the slot that it can use.
    pub(super) offered: u8,
}

impl Sheet {
    /// Checks all of it, and writes the file.
    ///
    /// # Errors
    /// Everything that cannot be built, a sentence each.
    pub fn plan(&self) -> Result<Plan, Vec<String>> {
        let mut errors = Vec::new();
        let owners = self.owners(&mut errors);
        if owners.is_empty() {
            return Err(errors);
        }
        let mut planning = Planning { sheet: self, owners, errors };
        let used = planning.seats();
        planning.budgets();
        let Planning { owners, mut errors, .. } = planning;
        let notes = self.notes(&owners);
        let file = text::file(self, &owners, &mut errors);
        if errors.is_empty()
            && let Err(refused) = read_design(&file, &self.name)
        {
            errors.extend(refused.problems.into_iter().map(|p| p.message));
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        Ok(Plan { owners, groups: groups(&self.slots, &used), notes, file })
    }

    fn owners(&self, errors: &mut Vec<String>) -> Vec<Owner> {
        let Some(cpu) = &self.cpu else {
            errors.push("there is no CPU; give one, as in --cpu 'EPYC 9554'".to_owned());
            return Vec::new();
        };
        if self.sockets == 0 || self.sockets > MOST_SOCKETS {
            errors.push(format!("{} sockets; a board has 1 to {MOST_SOCKETS}", self.sockets));
            return Vec::new();
        }
        for (what, n) in [("switches", self.switches.len()), ("slots", self.slots.len()), ("cards", self.cards.len())] {
            if n > MOST {
                errors.push(format!("{n} {what}; at most {MOST} are read"));
                return Vec::new();
            }
        }
        let lanes = cpu.part.and_then(|part| for_devices(part, self.sockets));
        let mut owners: Vec<Owner> =
            (0..self.sockets).map(|i| Owner::new(format!("cpu{i}"), cpu, lanes, None)).collect();
        for switch in &self.switches {
            let Some(above) = owners.iter_mut().find(|o| o.name == switch.at) else {
                let hint = nearest(&switch.at, owners.iter().map(|o| o.name.as_str()));
                errors.push(format!(
                    "switch {} is at '{}', which is no CPU and no switch above it; {hint}",
                    switch.name, switch.at
                ));
                continue;
            };
            let mut width = narrower(pcie(above.product.part), pcie(switch.product.part));
            if let Some(own) = switch.width {
                width = narrower(width, own);
            }
            let uplink = u32::from(width.lanes.unwrap_or(0));
            above.used += uplink;
            let lanes = switch.product.part.and_then(|part| part.lanes);
            let above = Some((switch.at.clone(), width));
            let mut owner = Owner::new(switch.name.clone(), &switch.product, lanes, above);
            owner.used = uplink;
            owners.push(owner);
        }
        owners
    }

    fn notes(&self, owners: &[Owner]) -> Vec<String> {
        let mut notes = Vec::new();
        let part = self.cpu.as_ref().and_then(|cpu| cpu.part);
        if let Some((part, lanes)) = part.and_then(|part| Some((part, part.lanes?)))
            && for_devices(part, self.sockets) != Some(lanes)
        {
            let rest = if part.name == "epyc-naples" { "64" } else { "48 (three links) or 64 (four)" };
            notes.push(format!("Each CPU has {lanes} lanes; the links between the sockets take {rest} of them."));
        }
        let split = |seat: &&Seat| seat.devices.len() > 1;
        for seat in owners.iter().flat_map(|owner| &owner.seats).filter(split) {
            let widths: Vec<String> = seat.devices.iter().map(|d| format!("x{}", d.offered)).collect();
            let slot = seat.slot.as_deref().unwrap_or_default();
            notes.push(format!("{slot} is split into {}: set its bifurcation in the firmware.", widths.join("/")));
        }
        notes
    }
}

struct Planning<'s> {
    sheet: &'s Sheet,
    owners: Vec<Owner>,
    errors: Vec<String>,
}

impl Planning<'_> {
    /// Seats every slot and card; which slots are in use.
    fn seats(&mut self) -> Vec<bool> {
        let Sheet { slots, cards, .. } = self.sheet;
        let own = self.owners.iter().map(|o| o.name.clone());
        let all: Vec<String> = own.chain(slots.iter().map(|s| s.name.clone())).collect();
        let mut names: BTreeSet<&str> = BTreeSet::new();
        let twice: Vec<&String> = all.iter().filter(|name| !names.insert(name)).collect();
        self.errors.extend(twice.into_iter().map(|name| format!("'{name}' is the name of two things; rename one")));
        self.sharing();
        let used: Vec<bool> = slots.iter().map(|slot| cards.iter().any(|card| card.at == slot.name)).collect();
        let lanes = allot(slots, &used);
        let mut numbers = BTreeMap::new();
        let mut devices: Vec<(usize, String)> = Vec::new();
        for (i, card) in cards.iter().enumerate() {
            let module = |p: &&Part| !self.sheet.assumed && (p.module_nvlinks().is_some() || p.is_on_cpu_module());
            if let Some(known) = card.product.part.filter(module) {
                self.errors.push(format!(
                    "{} ({}) is a module of a baseboard, and fits no slot; start from a system of the catalogue: \
                     'peerlane map --format system hgx-h100'",
                    card.product.name, known.title
                ));
            }
            if !names.contains(card.at.as_str()) {
                let hint = nearest(&card.at, names.iter().copied());
                self.errors.push(format!("{} is at '{}', which is no slot; {hint}", card.product.name, card.at));
            }
            let stem = stem(&card.product);
            let number = numbers.entry(stem).or_insert(0_usize);
            devices.push((i, format!("{stem}{number}")));
            *number += 1;
        }
        for (slot, lanes) in slots.iter().zip(lanes) {
            let inside: Vec<_> = devices.iter().filter(|(i, _)| cards[*i].at == slot.name).collect();
            let Some(at) = self.owners.iter().position(|o| o.name == slot.at) else {
                let hint = nearest(&slot.at, self.owners.iter().map(|o| o.name.as_str()));
                self.errors.push(format!("slot {} is at '{}', which is no CPU or switch; {hint}", slot.name, slot.at));
                continue;
            };
            let Some(shares) = split(lanes, inside.len().max(1)) else {
                let n = inside.len();
                self.errors.push(format!(
                    "{n} cards are in {}, and its x{lanes} cannot be split for them{}",
                    slot.name,
                    legal(lanes)
                ));
                continue;
            };
            if lanes == 0 && !inside.is_empty() {
                let busy = slots.iter().zip(&used).filter(|(other, used)| **used && shared(slot, other));
                let busy: Vec<&str> = busy.map(|(other, _)| other.name.as_str()).collect();
                self.errors.push(format!("{} has no lanes while {} is in use", slot.name, busy.join(" or ")));
                continue;
            }
            let placed = inside.into_iter().zip(shares);
            let devices = placed
                .map(|((i, name), offered)| self.device(&cards[*i], name, offered, slot.generation, at))
                .collect();
            let owner = &mut self.owners[at];
            owner.used += u32::from(lanes);
            owner.seats.push(Seat {
                slot: Some(slot.name.clone()),
                lanes,
                devices,
                physical: slot.physical,
                shares: slot.shares.clone(),
                generation: slot.generation,
            });
        }
        for (i, name) in &devices {
            let card = &cards[*i];
            let Some(at) = self.owners.iter().position(|o| o.name == card.at) else { continue };
            let most = narrower(pcie(card.product.part), pcie(self.owners[at].product.part)).lanes;
            let lanes = card.width.and_then(|w| w.lanes).or(most).unwrap_or(16);
            let device = self.device(card, name, lanes, None, at);
            let owner = &mut self.owners[at];
            owner.used += u32::from(lanes);
            let (shares, generation) = (Vec::new(), None);
            owner.seats.push(Seat { slot: None, lanes, devices: vec![device], physical: lanes, shares, generation });
        }
        used
    }

    fn device(&mut self, card: &Card, name: &str, offered: u8, slot: Option<PcieGeneration>, at: usize) -> Device {
        let owner = pcie(self.owners[at].product.part);
        let most =
            narrower(narrower(owner, pcie(card.product.part)), PcieWidth { generation: slot, lanes: Some(offered) });
        let link = match card.width {
            Some(own) => {
                let above = own.lanes > most.lanes || own.generation.is_some() && own.generation > most.generation;
                if above && most.generation.is_some() {
                    let (product, place) = (&card.product.name, &card.at);
                    self.errors.push(format!("{product} cannot run at {own} at {place}: card and place allow {most}"));
                }
                narrower(most, own)
            }
            None => most,
        };
        Device { name: name.to_owned(), link, offered, product: card.product.clone() }
    }

    /// Slots that share lanes have to be there, and one of two has to state what it has while the other is in use.
    fn sharing(&mut self) {
        let slots = &self.sheet.slots;
        for slot in slots {
            for other in &slot.shares {
                match slots.iter().find(|s| s.name == *other) {
                    None => {
                        let hint = nearest(other, slots.iter().map(|s| s.name.as_str()));
                        self.errors.push(format!(
                            "{} shares lanes with '{other}', which is no slot; {hint}, or add a line for it",
                            slot.name
                        ));
                    }
                    Some(found) if slot.widths.len() < 2 && found.widths.len() < 2 => self.errors.push(format!(
                        "{} and {other} share lanes, and neither has a second width; write what one has while the other is \
                         in use, as in '{} x{}/x0'",
                        slot.name, slot.name, slot.widths[0]
                    )),
                    Some(_) => {}
                }
            }
        }
    }

    fn budgets(&mut self) {
        for owner in &self.owners {
            let Some(lanes) = owner.lanes.filter(|lanes| owner.used > *lanes) else { continue };
            let seats = owner.seats.iter().map(|seat| {
                let what = seat.slot.as_deref().or(seat.devices.first().map(|d| d.name.as_str())).unwrap_or_default();
                format!("{what} x{}", seat.lanes)
            });
            let below = self.owners.iter().filter_map(|o| {
                let (_, width) = o.above.as_ref().filter(|(above, _)| *above == owner.name)?;
                Some(format!("{} x{}", o.name, width.lanes.unwrap_or(0)))
            });
            let own = owner.above.as_ref().map(|(_, width)| format!("its uplink x{}", width.lanes.unwrap_or(0)));
            let all: Vec<String> = own.into_iter().chain(below).chain(seats).collect();
            self.errors.push(format!(
                "{} ({}) has {lanes} lanes, but {} are connected: {}; if slots share lanes, write so, as in \
                 'SLOT2 x16/x8 @{} shares SLOT3'",
                owner.name,
                owner.product.name,
                owner.used,
                all.join(", "),
                owner.name
            ));
        }
    }
}

impl Owner {
    fn new(name: String, product: &Product, lanes: Option<u32>, above: Option<(String, PcieWidth)>) -> Self {
        Owner {
            name,
            generation: pcie(product.part).generation,
            lanes,
            used: 0,
            seats: Vec::new(),
            product: product.clone(),
            above,
        }
    }

    /// Lanes that are connected to nothing, where it is known how many there are.
    pub fn free(&self) -> Option<u32> {
        self.lanes.map(|lanes| lanes.saturating_sub(self.used))
    }

    /// Its uplink's lanes, of a switch.
    pub fn uplink(&self) -> Option<u8> {
        self.above.as_ref().and_then(|(_, width)| width.lanes)
    }
}

impl Plan {
    /// The system file.
    pub fn file(&self) -> &str {
        &self.file
    }
}

/// Lanes of a CPU for slots and devices. Two EPYC packages are joined by three or four links of 16 lanes of each.
fn for_devices(part: &Part, sockets: usize) -> Option<u32> {
    let lanes = part.lanes?;
    let taken = match (sockets, part.vendor, part.name.as_str()) {
        (2.., Some(CpuVendor::Amd), "epyc-naples") => 64,
        (2.., Some(CpuVendor::Amd), name) if name.starts_with("epyc") => 48,
        _ => 0,
    };
    Some(lanes.saturating_sub(taken))
}

/// How slots of this many lanes may be split.
fn legal(lanes: u8) -> String {
    let splits = (2..=4).filter_map(|cards| split(lanes, cards));
    let splits: Vec<String> =
        splits.map(|parts| parts.iter().map(|l| format!("x{l}")).collect::<Vec<_>>().join("/")).collect();
    if splits.is_empty() { String::new() } else { format!("; it splits into {}", splits.join(", ")) }
}

fn shared(a: &SlotLine, b: &SlotLine) -> bool {
    a.shares.contains(&b.name) || b.shares.contains(&a.name)
}

pub(super) fn stem(product: &Product) -> &'static str {
    let mellanox = |part: &Part| part.name.starts_with("connectx") || part.name.starts_with("bluefield");
    match product.kind {
        NodeKind::Gpu => "GPU",
        NodeKind::Nic if product.part.is_some_and(mellanox) => "mlx5_",
        NodeKind::Nic => "nic",
        NodeKind::Nvme => "nvme",
        _ => "fpga",
    }
}

fn nearest<'n>(asked: &str, names: impl Iterator<Item = &'n str>) -> String {
    let names: Vec<&str> = names.collect();
    match closest(asked, names.iter().copied()).as_slice() {
        [] => format!("there are: {}", peerlane_machine::names::list(&names)),
        near => format!("nearest: {}", near.join(", ")),
    }
}

pub(super) fn pcie(part: Option<&Part>) -> PcieWidth {
    part.and_then(|part| part.pcie).unwrap_or_default()
}

/// The lower of two, where known.
pub(super) fn narrower(a: PcieWidth, b: PcieWidth) -> PcieWidth {
    fn least<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
        match (a, b) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
    PcieWidth { generation: least(a.generation, b.generation), lanes: least(a.lanes, b.lanes) }
}
