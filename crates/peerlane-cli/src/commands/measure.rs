//! `peerlane measure`: measures the paths of a live or simulated machine, records the run, and shows it.

mod cluster;
mod nodes;

use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write};
use std::sync::mpsc;
use std::thread;

use peerlane::one_line::shown;
use peerlane::plan::{Selection, Test, UsableNics};
use peerlane::run::{Conditions, Limits, Run};

use crate::args::{Collect, MeasureArgs};
use crate::host::HostName;
use crate::measuring::interrupt::Interrupt;
use crate::measuring::keeper::Keeper;
use crate::measuring::machine::{Measured, here, resolve_redacted};
use crate::measuring::protocol::Device;
use crate::measuring::runner::{ahead, begin, gpus, plan, supervise};
use crate::measuring::supervisor::Ending;
use crate::output_file::shared::Slot;
use crate::redact::Redactor;
use crate::{Failure, Outcome, live, render};

pub(crate) fn run(args: &MeasureArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    if args.between.nodes {
        return nodes::run(args, out);
    }
    if let Some(described) = cluster::described(args.target.as_deref()) {
        return cluster::run(args, described?, out);
    }
    let between = [
        ("--all-pairs", args.all_pairs),
        ("--uplinks", args.uplinks),
        ("--transport", args.between.transport.is_some()),
        ("--faults", !args.faults.is_empty()),
    ];
    for (option, given) in between {
        if given {
            let clusters = "clusters: peerlane measure cluster:NAME";
            let all = if option == "--faults" { "" } else { " or --nodes" };
            return Err(Failure::new(format!("{option} is for {clusters}{all} {option} …")));
        }
    }
    let mut redactor = args.redact.given.then(Redactor::default);
    if let (Some(redactor), Some(name)) = (&mut redactor, &args.collect.host) {
        redactor.learn_host(name);
    }
    let without_gpus = |test: &Test| test.is_without_gpus();
    let no_gpus = !args.tests.is_empty() && args.tests.iter().all(without_gpus);
    let ahead = if no_gpus { None } else { ahead(args.target.as_deref()) };
    let need_gpu = !args.tests.iter().any(without_gpus);
    let mut measured = resolve_redacted(args.target.as_deref(), "measure", redactor.as_mut(), need_gpu)?;
    let of_nics = args.tests.iter().any(|test| test.is_of_nics());
    let nics = if of_nics { usable_nics(&mut measured, redactor.as_mut()) } else { None };
    let selection = Selection { tests: args.tests.clone(), pairs: args.pairs.clone(), nics };
    let mut method = args.scope().method(gpus(&measured.machine));
    method.precision = args.precision.unwrap_or(method.precision);
    method.budget = args.budget.unwrap_or(method.budget);
    method.patience = args.patience.unwrap_or(method.patience);
    let mut new = begin(&measured, plan(&measured, args.scope(), &selection, method)?);
    let slot = slot(&args.collect, args.redact.given, &mut new.conditions)?;
    let interrupt = Interrupt::listen()?;
    let (mut keeper, mut run) = match &args.output {
        None if let Some(slot) = slot => (Keeper::shared(slot), new),
        Some(path) if args.resume => {
            let (keeper, earlier) = Keeper::resume(path)?;
            same(&earlier, &new).map_err(|why| Failure::new(format!("{}: {why}", shown(path))))?;
            (keeper, resumed(earlier, &new))
        }
        Some(path) => (Keeper::new(path)?, new),
        None => (Keeper::none(), new),
    };
    let to_a_pipe = args.detail.json && !io::stdout().is_terminal();
    let shown = io::stderr().is_terminal() && !to_a_pipe && !crate::console::quiet();
    let ending = supervise(&measured, ahead, (args.force.given, redactor), &mut run, &mut keeper, shown, &interrupt)?;
    if args.detail.json {
        out.write_all(run.to_json().map_err(|e| Failure::new(e.to_string()))?.as_bytes())?;
    } else {
        render::run::write(out, &run, args.detail.verbose)?;
    }
    out.flush()?;
    let why = match ending {
        Ending::Interrupted => Some("interrupted".to_owned()),
        Ending::OutOfTime => {
            let left = run.plan.steps().count() - run.steps_done().len();
            Some(format!("out of time with {left} steps left; --budget allows more"))
        }
        Ending::Complete | Ending::Refused(_) => None,
    };
    if let Some(why) = why {
        crate::console::say(&format!("{why}; {}", hint(&keeper)));
    } else if let Some(path) = keeper.written().filter(|_| keeper.is_shared()) {
        crate::console::note(&format!("recorded in {}", peerlane::one_line::shown(path)));
    }
    let missing = run.missing(&Limits::of(&measured.machine)).is_some();
    Ok(Outcome { incomplete: ending != Ending::Complete || missing || keeper.failed(), findings: false })
}

/// The place of the record in a directory that hosts share, if one was given. The record then has the host's name from
/// the command line, or its stand-in.
fn slot(collect: &Collect, redact: bool, conditions: &mut Conditions) -> Result<Option<Slot>, Failure> {
    let Some(directory) = &collect.to else { return Ok(None) };
    let host = HostName::of(collect.host.as_deref(), redact)?;
    let began = if conditions.began > 0 { conditions.began } else { here().began };
    let slot = Slot::new(directory, &host.folder, began, "json")?;
    if conditions.host.is_some() || collect.host.is_some() {
        conditions.host = Some(host.name);
    }
    Ok(Some(slot))
}

/// The NICs of this machine that verbs can open; nothing of a simulated one.
fn usable_nics(measured: &mut Measured, mut redactor: Option<&mut Redactor>) -> Option<UsableNics> {
    let Device::Live { nics, .. } = &mut measured.device else { return None };
    // a library of a NIC's vendor may hang
    let (sender, found) = mpsc::channel();
    let asked = thread::Builder::new().spawn(move || drop(sender.send(peerlane_net::verbs::nics())));
    let Some((found, mut why)) = asked.ok().and_then(|_| found.recv_timeout(live::PATIENCE).ok()) else {
        let why = format!("libibverbs did not list its adapters within {} s", live::PATIENCE.as_secs());
        return Some(UsableNics { names: Vec::new(), why: Some(why) });
    };
    let fabric = &measured.machine.fabric;
    // names that people gave are replaced, here as in what describes the machine
    let mut shown = |text: &str| redactor.as_mut().map_or_else(|| text.to_owned(), |redactor| redactor.line(text));
    why.iter_mut().for_each(|why| *why = shown(why));
    for found in found {
        let name = shown(&found.name);
        match fabric.find(&name) {
            Some(id) => drop(nics.insert(fabric.node(id).name.clone(), found.name)),
            None => why.push(format!("{name} is at none of the PCI devices that are known")),
        }
    }
    let why = (!why.is_empty()).then(|| why.join("; "));
    Some(UsableNics { names: nics.keys().cloned().collect(), why })
}

/// Whether an earlier run matches a new one, so that it can be resumed.
fn same(earlier: &Run, new: &Run) -> Result<(), String> {
    let gpus = |run: &Run| {
        let nodes = run.fabric["nodes"].as_array().cloned().unwrap_or_default();
        let named = nodes.into_iter().filter(|n| n["kind"] == "gpu");
        named.map(|n| (n["name"].to_string(), n["address"].to_string())).collect::<Vec<_>>()
    };
    let (was, is) = (&earlier.machine, &new.machine);
    if was.target != is.target {
        return Err(format!("it is a run on {}, not on {}", was.target, is.target));
    }
    if was.system != is.system {
        return Err(format!("{} has changed since the run began", is.target));
    }
    if gpus(earlier) != gpus(new) {
        return Err("its machine has different GPUs".to_owned());
    }
    if earlier.plan.rounds != new.plan.rounds {
        return Err("its plan differs; give the same tests and pairs as when it began".to_owned());
    }
    let (was, is) = (earlier.plan.method.precision, new.plan.method.precision);
    if was == is { Ok(()) } else { Err(format!("its precision is {was}, not {is}")) }
}

/// An earlier run, to be resumed; its time limits may differ.
fn resumed(earlier: Run, new: &Run) -> Run {
    let mut run = earlier;
    run.reopen();
    run.plan.method = new.plan.method;
    if run.complete {
        crate::console::note("this run is complete; nothing is left to measure");
    }
    run
}

/// How to resume a run that ended early.
fn hint(keeper: &Keeper) -> String {
    if keeper.path().is_none() || keeper.failed() {
        return "record a run with -o FILE to be able to resume it".to_owned();
    }
    if let Some(path) = keeper.path().filter(|_| keeper.left_as_it_was()) {
        return format!("nothing was measured, and {} is unchanged", shown(&path));
    }
    let mut words: Vec<String> = crate::arguments().map(|word| quoted(word)).collect();
    if let Some(path) = keeper.path().filter(|_| keeper.is_shared()) {
        words = without(words, &["--to", "--host"]);
        words.extend(["-o".to_owned(), quoted(path.as_os_str())]);
    }
    if !words.iter().any(|word| word == "--resume") {
        words.push("--resume".to_owned());
    }
    format!("to resume: peerlane {}", words.join(" "))
}

/// Words without these options and their values.
fn without(words: Vec<String>, options: &[&str]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        if options.contains(&word.as_str()) {
            words.next();
        } else if !options.iter().any(|option| word.strip_prefix(option).is_some_and(|rest| rest.starts_with('='))) {
            kept.push(word);
        }
    }
    kept
}

/// A word as a shell reads it.
fn quoted(word: &OsStr) -> String {
    let Some(word) = word.to_str() else {
        let byte = |b: &u8| {
            if (b' '..=b'~').contains(b) && !br"'\".contains(b) {
                char::from(*b).to_string()
            } else {
                format!(r"\x{b:02x}")
            }
        };
        return format!("$'{}'", word.as_encoded_bytes().iter().map(byte).collect::<String>());
    };
    let plain = |c: char| c.is_alphanumeric() || "-_./=,:%+→".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}
