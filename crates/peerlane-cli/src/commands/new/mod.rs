//! `peerlane new`: from a slot table to a checked system file.

mod dialogue;

use std::ffi::OsStr;
use std::io::{self, BufReader, IsTerminal, Write};
use std::path::Path;

use clap::Parser;
use peerlane::builder::{Bridge, Card, Plan, Product, Seat, Sheet, SlotLine, Switch};
use peerlane::fabric::PcieWidth;
use peerlane::input_file::{self, Kind};
use peerlane::one_line::{one_line, shown};

use crate::args::{Cli, NewArgs};
use crate::render::line_width;
use crate::render::style::{self, paint};
use crate::render::text::{fit, hang, width};
use crate::{Failure, Outcome, output_file};

pub(crate) fn run(args: &NewArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let name = machine_name(&args.file)?;
    if !args.force && args.file.symlink_metadata().is_ok() {
        return Err(Failure::new(format!(
            "{} exists; choose another name, or replace it with --force",
            shown(&args.file)
        )));
    }
    output_file::check(&args.file)?;
    let plan = if args.cpu.is_some() {
        let plan = sheet(args, name)?.plan().map_err(|errors| Failure::new(errors.join("\n")))?;
        write_lanes(out, &plan)?;
        plan
    } else if io::stdin().is_terminal() {
        dialogue::ask(&mut BufReader::new(io::stdin()), out, name, args.board.clone())?
    } else {
        let message = "standard input is no terminal to ask on; give --cpu, --slot and --card ('peerlane new --help')";
        return Err(Failure::new(message));
    };
    output_file::write(&args.file, plan.file())?;
    writeln!(out, "\nwrote {}\n", shown(&args.file))?;
    checked(args, out)
}

/// The verdict of `check` on the file.
fn checked(args: &NewArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let file = args.file.as_path();
    let detail = [(args.verbose, "--verbose"), (args.quiet, "--quiet")].into_iter().filter(|(given, _)| *given);
    let mut words: Vec<&OsStr> = ["peerlane", "check"].map(OsStr::new).into();
    words.extend(detail.map(|(_, option)| OsStr::new(option)));
    words.extend([OsStr::new("--"), file.as_os_str()]);
    match Cli::try_parse_from(words).map(|cli| cli.command) {
        Ok(Some(check)) => super::run(&check, out),
        _ => Err(Failure::new(format!("cannot check {}; try 'peerlane check'", shown(file)))),
    }
}

/// `my-box` of `my-box.toml`.
fn machine_name(file: &Path) -> Result<String, Failure> {
    let is_toml = file.extension().is_some_and(|e| e.eq_ignore_ascii_case("toml"));
    let stem = file.file_stem().map(|stem| one_line(&stem.to_string_lossy()).trim().to_owned());
    match stem.filter(|stem| is_toml && !stem.is_empty()) {
        Some(stem) => Ok(stem),
        None => Err(Failure::new(format!("{}: a system file's name ends in .toml", shown(file)))),
    }
}

/// What the flags state; all that is wrong with them at once.
fn sheet(args: &NewArgs, name: String) -> Result<Sheet, Failure> {
    let mut errors: Vec<String> = Vec::new();
    let board = args.board.as_deref().map(|board| one_line(board.trim()).into_owned());
    let mut sheet = Sheet { name, board, sockets: args.sockets, ..Sheet::default() };
    let mut keep = |flag: &str, error: String| errors.push(format!("{flag}: {error}"));
    if let Some(cpu) = &args.cpu {
        sheet.cpu = Product::cpu(cpu).map_err(|e| keep("--cpu", e)).ok();
    }
    for text in &args.switches {
        sheet.switches.extend(text.parse::<Switch>().map_err(|e| keep("--switch", e)));
    }
    for text in &args.slots {
        sheet.slots.extend(text.parse::<SlotLine>().map_err(|e| keep("--slot", e)));
    }
    if let Some(file) = &args.table {
        match SlotLine::table(&table(file)?) {
            Ok(slots) => sheet.slots.extend(slots),
            Err(wrong) => wrong.into_iter().for_each(|e| keep(&shown(file), e)),
        }
    }
    for text in &args.cards {
        sheet.cards.extend(Card::several(text).map_err(|e| keep("--card", e)).into_iter().flatten());
    }
    for text in &args.bridges {
        match text.split_once('-') {
            Some((a, b)) => {
                let between = [a.trim().to_owned(), b.trim().to_owned()];
                sheet.bridges.push(Bridge { between, bricks: None });
            }
            None => keep("--nvlink", format!("'{text}': write a pair, as in GPU0-GPU1")),
        }
    }
    if errors.is_empty() { Ok(sheet) } else { Err(Failure::new(errors.join("\n"))) }
}

fn table(file: &Path) -> Result<String, Failure> {
    Ok(peerlane::evidence::decode(&input_file::read(file, Kind::SlotTable)?).into_owned())
}

/// Shows CPUs and switches with their slots, what sits in them, and which lanes are free.
fn write_lanes(out: &mut dyn Write, plan: &Plan) -> io::Result<()> {
    for owner in &plan.owners {
        let lanes = match (owner.lanes, owner.free()) {
            (Some(lanes), Some(free)) => format!("{lanes} lanes: {} connected, {free} free", owner.used),
            _ => format!("{} lanes connected", owner.used),
        };
        let generation = owner.generation.map(|g| format!(" · PCIe {g}")).unwrap_or_default();
        let uplink = owner.uplink().map(|lanes| format!(" · uplink x{lanes}")).unwrap_or_default();
        let title =
            Some(owner.product.title()).filter(|title| owner.uplink().is_none() && *title != owner.product.name);
        let title = title.map(|title| format!(" · {title}")).unwrap_or_default();
        let line = format!("{}{title}{generation} · {lanes}{uplink}", owner.product.name);
        let columns = line_width().saturating_sub(width(&owner.name) + 2);
        writeln!(out, "{}  {}", paint(style::HEADING, &owner.name), fit(&line, columns))?;
        let column = owner.seats.iter().map(|seat| width(place(seat))).max().unwrap_or(0);
        for seat in &owner.seats {
            let devices: Vec<String> =
                seat.devices.iter().map(|d| format!("{}  {}, {}", d.name, d.product.name, runs(d.link))).collect();
            let inside = match (devices.is_empty(), seat.lanes) {
                (true, 0) => "empty; its lanes are used by the slot that shares them".to_owned(),
                (true, _) => "empty".to_owned(),
                _ => devices.join("; "),
            };
            let line = format!("{:column$}  {:<4} {inside}", place(seat), format!("x{}", seat.lanes));
            writeln!(out, "  {}", fit(&line, line_width() - 2))?;
        }
    }
    for group in &plan.groups {
        let words = |lanes: &Vec<u8>| {
            let words = lanes.iter().map(|l| if *l == 0 { "–".to_owned() } else { format!("x{l}") });
            words.collect::<Vec<_>>().join(" ")
        };
        let all: Vec<String> = group.allocations.iter().map(words).collect();
        hang(out, &format!("{} share lanes: ", group.slots.join(", ")), &all.join(" · "))?;
    }
    plan.notes.iter().try_for_each(|note| hang(out, "", note))
}

/// A slot's name, or what stands for it.
fn place(seat: &Seat) -> &str {
    seat.slot.as_deref().unwrap_or("on board")
}

fn runs(link: PcieWidth) -> String {
    if link.is_unknown() { "at an unknown width".to_owned() } else { format!("runs at {link}") }
}
