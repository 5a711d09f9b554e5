//! `peerlane selftest --fleet`: which bad machines are found among thousands, and who is accused of nothing.

use std::io::{self, Write};

use peerlane::selftest::{Accused, FleetTest, SIZES, Tried, Trouble, Wish, fleet_test};

use crate::args::SelftestArgs;
use crate::formats::json;
use crate::progress::Bar;
use crate::render::line_width;
use crate::render::style::{self, paint};
use crate::render::text::{count, wrap};
use crate::{Failure, Outcome};

/// Share of the planted faults that must be found among peers.
const LEAST_FOUND: f64 = 0.98;

/// Machines without a fault of which a gate accuses at most one.
const ALONE: usize = 2000;

pub(super) fn run(args: &SelftestArgs, machines: usize, out: &mut dyn Write) -> Result<Outcome, Failure> {
    let wish = match args.curve {
        Some(times) => Wish::curve(machines, times as usize, args.seed),
        None => Wish::usual(machines, args.faults as usize, ALONE.min(machines), args.seed),
    };
    let bar = Bar::counting(machines, "machines");
    let test = fleet_test(&wish, &|| bar.one());
    drop(bar);
    if args.json {
        json(out, &test)?;
    } else if args.curve.is_some() {
        curve(out, &test)?;
    } else {
        table(out, &test, args.verbose)?;
    }
    let [found, _] = test.found();
    let good = args.curve.is_some() || found as f64 >= LEAST_FOUND * test.faults.len() as f64;
    Ok(Outcome { findings: !good || test.false_alarms.len() > 1, incomplete: false })
}

fn table(out: &mut dyn Write, test: &FleetTest, verbose: bool) -> io::Result<()> {
    let head = format!("{:<16} {:>8} {:>18} {:>14}", "Fault", "planted", "found among peers", "found alone");
    writeln!(out, "{}", paint(style::HEADING, &head))?;
    for kind in Trouble::ALL {
        let of: Vec<&Tried> = test.faults.iter().filter(|f| f.kind == kind).collect();
        let found = of.iter().filter(|f| f.found).count();
        let alone = of.iter().filter(|f| f.found_alone).count();
        if !of.is_empty() {
            writeln!(out, "{:<16} {:>8} {found:>18} {alone:>14}", kind.name(), of.len())?;
        }
    }
    for fault in test.faults.iter().filter(|f| verbose || !f.found) {
        let how = match (fault.found, fault.found_alone) {
            (true, true) => "found among peers and alone",
            (true, false) => "found among peers",
            (false, true) => "found alone only",
            (false, false) => "missed",
        };
        paragraph(out, &format!("{} ({}): {}; {how}", fault.machine, fault.design, fault.planted))?;
    }
    accused(out, "among peers", &test.false_alarms)?;
    accused(out, "alone", &test.alone_false_alarms)?;
    let [found, alone] = test.found();
    let designs = test.designs.iter().map(|(name, n)| format!("{n} {name}")).collect::<Vec<_>>().join(", ");
    let verdict = format!(
        "{found} of {} faults found among {} machines ({designs}), {}; alone {alone}, {} in {} machines; seed {}",
        test.faults.len(),
        test.machines,
        count(test.false_alarms.len(), "false alarm"),
        count(test.alone_false_alarms.len(), "false alarm"),
        test.alone,
        test.seed
    );
    for line in wrap(&verdict, line_width()) {
        writeln!(out, "{}", paint(style::HEADING, &line))?;
    }
    Ok(())
}

/// For each kind the share that is found at each size, among peers and alone.
fn curve(out: &mut dyn Write, test: &FleetTest) -> io::Result<()> {
    let sizes = SIZES.map(|size| format!("{:>5.0} %", 100.0 * size)).concat();
    writeln!(out, "{}", paint(style::HEADING, &format!("{:<26}{sizes}", "Found, of a loss of")))?;
    for kind in Trouble::ALL.into_iter().filter(|kind| kind.has_size()) {
        for (how, found) in [("among peers", (|f| f.found) as fn(&Tried) -> bool), ("alone", |f| f.found_alone)] {
            let share = |size: &f64| {
                let of: Vec<&Tried> = test.faults.iter().filter(|f| f.kind == kind && f.size == Some(*size)).collect();
                match of.len() {
                    0 => format!("{:>7}", "-"),
                    n => format!("{:>5.0} %", 100.0 * of.iter().filter(|f| found(f)).count() as f64 / n as f64),
                }
            };
            let name = if how == "alone" { "" } else { kind.name() };
            writeln!(out, "{name:<14}{how:<12}{}", SIZES.iter().map(share).collect::<String>())?;
        }
    }
    accused(out, "among peers", &test.false_alarms)?;
    let verdict = format!(
        "{} in {} machines, {} faulty; seed {}",
        count(test.false_alarms.len(), "false alarm"),
        test.machines,
        test.faults.len(),
        test.seed
    );
    writeln!(out, "{}", paint(style::HEADING, &verdict))
}

fn accused(out: &mut dyn Write, how: &str, all: &[Accused]) -> io::Result<()> {
    all.iter().try_for_each(|Accused { machine, alarm }| {
        paragraph(out, &format!("false alarm {how}: {machine}, {}: {}", alarm.rule, alarm.summary))
    })
}

fn paragraph(out: &mut dyn Write, text: &str) -> io::Result<()> {
    wrap(text, line_width() - 2).iter().enumerate().try_for_each(|(i, line)| {
        let indent = if i == 0 { "" } else { "  " };
        writeln!(out, "{indent}{line}")
    })
}
