//! `peerlane selftest`: which planted faults `check` finds, and its false alarms.

use std::io::{self, Write};

use peerlane::selftest::{Case, Depth, Input, SelfTest, selftest};

use crate::args::SelftestArgs;
use crate::formats::json;
use crate::progress::Bar;
use crate::render::line_width;
use crate::render::style::{self, paint};
use crate::render::text::{count, wrap};
use crate::{Failure, Outcome};

mod fleet;

pub(crate) fn run(args: &SelftestArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    if let Some(machines) = args.fleet {
        return fleet::run(args, machines as usize, out);
    }
    let bar = Bar::counting(0, "cases");
    let result = selftest(Depth::Full, args.seed, &|_, all| {
        bar.of(all);
        bar.one();
    });
    drop(bar);
    if args.json {
        json(out, &result)?;
    } else {
        table(out, &result, args.verbose)?;
    }
    let good = result.recall >= peerlane::selftest::LEAST_RECALL && result.false_alarms == 0;
    Ok(Outcome { findings: !good, incomplete: false })
}

fn table(out: &mut dyn Write, result: &SelfTest, verbose: bool) -> io::Result<()> {
    for (input, title) in [(Input::Run, "Planted in runs"), (Input::Texts, "Planted in outputs of tools")] {
        let cases: Vec<&Case> = result.cases.iter().filter(|case| case.input == input).collect();
        of_input(out, title, &cases)?;
        writeln!(out)?;
    }
    let notable = |c: &&Case| verbose || c.found == Some(false) || !c.false_alarms.is_empty();
    for case in result.cases.iter().filter(notable) {
        one(out, case)?;
    }
    let verdict = format!(
        "{} of {} planted faults found ({:.1} %), {}; noise {:.0} %, seed {}",
        result.found,
        result.planted,
        100.0 * result.recall,
        count(result.false_alarms, "false alarm"),
        100.0 * result.noise,
        result.seed
    );
    writeln!(out, "{}", paint(style::HEADING, &verdict))
}

/// The kinds of one half, and how many of their cases were found.
fn of_input(out: &mut dyn Write, title: &str, cases: &[&Case]) -> io::Result<()> {
    let head =
        format!("{title:<28} {:>8} {:>9} {:>7} {:>7} {:>13}", "cases", "machines", "found", "missed", "false alarms");
    writeln!(out, "{}", paint(style::HEADING, &head))?;
    let mut kinds: Vec<Option<&str>> = Vec::new();
    for case in cases {
        if !kinds.contains(&case.fault.as_deref()) {
            kinds.push(case.fault.as_deref());
        }
    }
    for kind in kinds {
        let cases: Vec<&&Case> = cases.iter().filter(|c| c.fault.as_deref() == kind).collect();
        let mut machines: Vec<&str> = cases.iter().map(|c| c.machine.as_str()).collect();
        machines.sort_unstable();
        machines.dedup();
        let count = |found| cases.iter().filter(|c| c.found == Some(found)).count();
        let cell = |n: usize| if cases.iter().any(|c| c.found.is_some()) { n.to_string() } else { "-".to_owned() };
        let alarms: usize = cases.iter().map(|c| c.false_alarms.len()).sum();
        let (found, missed) = (cell(count(true)), cell(count(false)));
        let name = kind.unwrap_or("(none)");
        writeln!(out, "{name:<28} {:>8} {:>9} {found:>7} {missed:>7} {alarms:>13}", cases.len(), machines.len())?;
    }
    Ok(())
}

fn one(out: &mut dyn Write, case: &Case) -> io::Result<()> {
    let planted = if case.planted.is_empty() { "nothing planted" } else { &case.planted };
    let found = match case.found {
        Some(true) => format!("found by {}", case.by.join(", ")),
        Some(false) => "missed".to_owned(),
        None => String::new(),
    };
    let line = format!("{}, seed {}: {planted}; {found}", case.machine, case.seed);
    let alarms = case.false_alarms.iter().map(|a| format!("false alarm of {}: {}", a.rule, a.summary));
    let lines: Vec<String> = std::iter::once(line.trim_end_matches([';', ' ']).to_owned()).chain(alarms).collect();
    for (i, text) in lines.iter().enumerate() {
        let indent = if i == 0 { "" } else { "  " };
        for line in wrap(text, line_width() - 4) {
            writeln!(out, "{indent}{line}")?;
        }
    }
    Ok(())
}
