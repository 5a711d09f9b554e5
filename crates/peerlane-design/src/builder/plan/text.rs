//! The system file of a plan, with comments for whoever edits it next.

use std::fmt::Write;

use super::{Owner, Seat, Sheet};
use peerlane_machine::fabric::NodeKind;
use peerlane_model::assumptions::inter_socket_part;

/// Of a node whose place nobody has stated.
const ASSUMED: &str = ", assumed = true";

/// The file's text; `errors` gains what cannot be written.
pub(super) fn file(sheet: &Sheet, owners: &[Owner], errors: &mut Vec<String>) -> String {
    let mut out = format!(
        "# Written by 'peerlane new'. 'peerlane help system-files' describes the format; 'peerlane check FILE' checks it again.\n\
         name = {}\n",
        quoted(&sheet.name)
    );
    let cards: Vec<(&str, usize)> = sheet.cards.iter().fold(Vec::new(), |mut all, card| {
        match all.iter_mut().find(|(name, _)| *name == card.product.name) {
            Some((_, n)) => *n += 1,
            None => all.push((&card.product.name, 1)),
        }
        all
    });
    let cards = cards.iter().map(|(name, n)| if *n == 1 { (*name).to_owned() } else { format!("{n} × {name}") });
    let cards = cards.collect::<Vec<_>>().join(", ");
    let board = sheet.board.as_deref().unwrap_or(if sheet.assumed { "A machine" } else { "A board" });
    let title = if cards.is_empty() { board.to_owned() } else { format!("{board} with {cards}") };
    line(&mut out, format_args!("title = {}", quoted(&title)));
    let source = match sheet.assumed {
        true => "a list of parts".to_owned(),
        false => format!("the slot table of {}", sheet.board.as_deref().unwrap_or("the board")),
    };
    line(&mut out, format_args!("source = {}", quoted(&source)));
    nodes(&mut out, sheet, owners);
    slots(&mut out, owners);
    links(&mut out, sheet, owners, errors);
    out
}

fn line(out: &mut String, text: std::fmt::Arguments) {
    // writing to a string does not fail
    let _ = writeln!(out, "{text}");
}

fn nodes(out: &mut String, sheet: &Sheet, owners: &[Owner]) {
    out.push_str("\n[nodes]\n");
    for (i, owner) in owners.iter().enumerate() {
        let part = owner.product.part.map(|part| part.name.as_str()).unwrap_or("none");
        let is_cpu = owner.product.kind == NodeKind::Cpu;
        let numa = if is_cpu && sheet.sockets > 1 { format!(", numa = {i}") } else { String::new() };
        let product = if is_cpu { format!(", product = {}", quoted(&owner.product.name)) } else { String::new() };
        line(
            out,
            format_args!(
                "{} = {{ part = {}{product}{numa}{} }} # {}",
                key(&owner.name),
                quoted(part),
                if sheet.assumed && !is_cpu { ASSUMED } else { "" },
                owner.product.title()
            ),
        );
    }
    for device in owners.iter().flat_map(|owner| &owner.seats).flat_map(|seat| &seat.devices) {
        let what = match device.product.part {
            Some(part) => format!("part = {}", quoted(&part.name)),
            None => format!("kind = {}", quoted(device.product.kind.name())),
        };
        line(out, format_args!("{} = {{ {what}, product = {} }}", key(&device.name), quoted(&device.product.name)));
    }
}

/// A slot's name; those of a split slot are numbered.
fn slot_names(seat: &Seat) -> Vec<String> {
    let Some(slot) = &seat.slot else { return Vec::new() };
    match seat.devices.len() {
        0 | 1 => vec![slot.clone()],
        n => (1..=n).map(|i| format!("{slot}.{i}")).collect(),
    }
}

fn slots(out: &mut String, owners: &[Owner]) {
    let mut first = true;
    for owner in owners {
        for seat in &owner.seats {
            for (i, name) in slot_names(seat).into_iter().enumerate() {
                if std::mem::take(&mut first) {
                    out.push_str("\n# physical: lanes that the connector has room for; wired: lanes that reach it with these cards.\n");
                } else {
                    out.push('\n');
                }
                let split = seat.devices.len() > 1;
                let (physical, wired) = match seat.devices.get(i) {
                    Some(device) if split => (device.offered, device.offered),
                    _ => (seat.physical, seat.lanes),
                };
                line(out, format_args!("[[slots]]\nname = {}\nphysical = {physical}\nwired = {wired}", quoted(&name)));
                line(out, format_args!("port = {}", quoted(&owner.name)));
                if !seat.shares.is_empty() {
                    let shares: Vec<String> = seat.shares.iter().map(|name| quoted(name)).collect();
                    line(out, format_args!("shares = [{}]", shares.join(", ")));
                }
            }
        }
    }
}

fn links(out: &mut String, sheet: &Sheet, owners: &[Owner], errors: &mut Vec<String>) {
    for i in 1..sheet.sockets {
        let part = sheet.cpu.as_ref().and_then(|cpu| cpu.part).and_then(inter_socket_part).unwrap_or("?");
        for j in 0..i {
            line(out, format_args!("\n[[links]]\nbetween = [\"cpu{j}\", \"cpu{i}\"]\nsmp = {}", quoted(part)));
        }
    }
    out.push_str("\n# pcie: the generation and lanes at which a link runs.\n");
    let mut first = true;
    let assumed = if sheet.assumed { "\nassumed = true" } else { "" };
    let mut begin = |out: &mut String, a: &str, b: &str| {
        let gap = if std::mem::take(&mut first) { "" } else { "\n" };
        line(out, format_args!("{gap}[[links]]\nbetween = [{}, {}]{assumed}", quoted(a), quoted(b)));
    };
    for owner in owners {
        if let Some((above, width)) = &owner.above {
            begin(out, above, &owner.name);
            line(out, format_args!("pcie = \"{width}\""));
        }
        for seat in &owner.seats {
            let slots = slot_names(seat);
            for (i, device) in seat.devices.iter().enumerate() {
                begin(out, &owner.name, &device.name);
                line(out, format_args!("pcie = \"{}\"", device.link));
                if let Some(slot) = slots.get(i) {
                    line(out, format_args!("slot = {}", quoted(slot)));
                }
                let part = device.product.part;
                let own = part.and_then(|part| part.pcie).and_then(|pcie| pcie.lanes).unwrap_or(device.offered);
                let generation =
                    seat.generation.filter(|slot| part.and_then(|p| p.pcie?.generation).is_none_or(|own| own > *slot));
                if let Some(generation) = generation {
                    let lanes = own.min(device.offered);
                    line(out, format_args!("allowed = \"{generation} x{lanes}\" # the slot's generation"));
                }
            }
        }
    }
    let devices = || owners.iter().flat_map(|owner| &owner.seats).flat_map(|seat| &seat.devices);
    for pair in &sheet.bridges {
        let bricks = pair.between.each_ref().map(|name| {
            let device = devices().find(|device| device.name.eq_ignore_ascii_case(name))?;
            Some((device.name.as_str(), device.product.part?.nvlink_bricks?))
        });
        match bricks {
            [Some((a, of_a)), Some((b, of_b))] if a != b => {
                begin(out, a, b);
                line(out, format_args!("nvlink = {}", pair.bricks.unwrap_or(of_a.min(of_b))));
            }
            _ => errors.push(format!(
                "an NVLink bridge joins two different GPUs with NVLink, not {} and {}",
                pair.between[0], pair.between[1]
            )),
        }
    }
}

/// A string of TOML.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// A key of TOML, in quotes where it needs them.
fn key(name: &str) -> String {
    let bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if bare { name.to_owned() } else { quoted(name) }
}
