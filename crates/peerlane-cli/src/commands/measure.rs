//! `peerlane measure`: measures the paths of a live or simulated machine, records the run, and shows it.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsStr;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::sync::mpsc;
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use peerlane::assemble::assemble;
use peerlane::catalogue;
use peerlane::fabric::{Node, NodeKind};
use peerlane::input_file::attribute;
use peerlane::machine::Machine;
use peerlane::one_line::shown;
use peerlane::plan::{Method, Plan, Scope, Selection, Test, UsableNics};
use peerlane::run::{Cell, Conditions, FlagKind, Limits, Run, Subject};

use peerlane::target::{TargetKind, design, unknown};
use peerlane_gpu::{GpuName, timeline};

use super::nodes;
use crate::args::{Collect, MeasureArgs};
use crate::host::{self, HostName};
use crate::measuring::interrupt::Interrupt;
use crate::measuring::keeper::Keeper;
use crate::measuring::process::Worker;
use crate::measuring::progress::Progress;
use crate::measuring::protocol::Device;
use crate::measuring::supervisor::{Ending, Supervisor, since_start};
use crate::output_file::shared::Slot;
use crate::redact::Redactor;
use crate::{Failure, Outcome, live, render};

/// The simulated machine suggested where there is no GPU.
const EXAMPLE: &str = "h200x4-vm";

/// A machine that can be measured.
pub(crate) struct Measured {
    pub(crate) machine: Machine,
    pub(crate) subject: Subject,
    pub(crate) device: Device,
    /// What is known about it before a worker has opened it.
    pub(crate) conditions: Conditions,
}

pub(crate) fn run(args: &MeasureArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    if args.between.nodes {
        return nodes::live::run(args, out);
    }
    if let Some(described) = nodes::measure::described(args.target.as_deref()) {
        return nodes::measure::run(args, described?, out);
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
    let interrupt = listen()?;
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
    let shown = io::stderr().is_terminal() && !to_a_pipe && !crate::quiet();
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
        crate::say(&format!("{why}; {}", hint(&keeper)));
    } else if let Some(path) = keeper.written().filter(|_| keeper.is_shared()) {
        crate::note(&format!("recorded in {}", peerlane::one_line::shown(path)));
    }
    Ok(Outcome { incomplete: ending != Ending::Complete || missing(&run) || keeper.failed(), findings: false })
}

/// A run for another command.
pub(crate) struct Taken {
    /// The run.
    pub(crate) run: Run,
    /// Whether some values are missing.
    pub(crate) incomplete: bool,
}

/// Measures this machine by the default plan, without recording it.
pub(crate) fn take_live(force: bool, redact: bool) -> Result<Taken, Failure> {
    let mut redactor = redact.then(Redactor::default);
    let ahead = ahead(None);
    let measured = this_machine("measure", redactor.as_mut(), true)?;
    let method = Scope::Default.method(gpus(&measured.machine));
    let mut run = begin(&measured, plan(&measured, Scope::Default, &Selection::default(), method)?);
    let shown = io::stderr().is_terminal() && !crate::quiet();
    let ending = supervise(&measured, ahead, (force, redactor), &mut run, &mut Keeper::none(), shown, &listen()?)?;
    let incomplete = ending != Ending::Complete || missing(&run);
    Ok(Taken { run, incomplete })
}

/// A worker that starts the driver while this process looks at the machine, if that is the one to measure.
fn ahead(target: Option<&OsStr>) -> Option<Worker> {
    let live = target.is_none_or(|target| target == "live") && live::has_nvidia_gpu();
    // where it cannot be started, the supervisor reports why it cannot later
    live.then(Worker::ahead)?.ok()
}

fn supervise(
    measured: &Measured,
    ahead: Option<Worker>,
    (force, redactor): (bool, Option<Redactor>),
    run: &mut Run,
    keeper: &mut Keeper,
    shown: bool,
    interrupt: &Interrupt,
) -> Result<Ending, Failure> {
    run.conditions.startup.extend(timeline::phases().into_iter().map(since_start));
    let mut progress = Progress::new(shown, run);
    let device = measured.device.clone();
    let limits = Limits::of(&measured.machine);
    let supervisor = Supervisor::new(device, force, limits, run, keeper, &mut progress, interrupt);
    let ending = supervisor.with(ahead).redacting(redactor).run();
    progress.end();
    if let Ending::Refused(reason) = ending {
        return Err(Failure::Message(reason));
    }
    // those who read a shared directory take a whole file for a whole run
    if ending == Ending::Interrupted && keeper.is_shared() {
        keeper.leave(run, &progress);
    } else {
        keeper.finish(run, &progress);
    }
    Ok(ending)
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

/// Starts to listen for signals.
pub(crate) fn listen() -> Result<Interrupt, Failure> {
    Interrupt::listen().map_err(|e| Failure::new(format!("cannot listen for signals: {e}")))
}

fn gpus(machine: &Machine) -> usize {
    machine.fabric.of_kind(NodeKind::Gpu).count()
}

fn plan(measured: &Measured, scope: Scope, selection: &Selection, method: Method) -> Result<Plan, Failure> {
    let plan = Plan::of(&measured.machine, scope, selection, method).map_err(|e| Failure::new(e.to_string()))?;
    if plan.steps().next().is_some() {
        return Ok(plan);
    }
    let why: Vec<String> = plan.skipped.iter().map(|s| format!("{}: {}", s.test, s.why)).collect();
    Err(Failure::new(format!("nothing to measure on {}\n{}", measured.machine.name, why.join("\n"))))
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

/// The record of a run before its first step.
fn begin(measured: &Measured, plan: Plan) -> Run {
    let conditions = measured.conditions.clone();
    Run { conditions, ..Run::new(&measured.machine, measured.subject.clone(), plan) }
}

/// Time and host, as reported by the operating system.
pub(super) fn here() -> Conditions {
    Conditions {
        began: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
        host: host::system(),
        kernel: attribute("/proc/sys/kernel/osrelease"),
        ..Conditions::default()
    }
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
    run.plan.method = new.plan.method;
    if run.complete {
        crate::note("this run is complete; nothing is left to measure");
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
    let mut words: Vec<String> = env::args_os().skip(1).map(|word| quoted(&word)).collect();
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

/// Whether a value is missing that this machine should have.
fn missing(run: &Run) -> bool {
    let no_value = |cell: &Cell| {
        let kinds = [FlagKind::Hung, FlagKind::Failed, FlagKind::Corrupt, FlagKind::Implausible];
        kinds.into_iter().any(|kind| cell.flag(kind).is_some())
    };
    run.cells.iter().any(no_value)
}

/// This machine and its GPUs, which it need not have where nothing is asked of them.
fn this_machine(command: &str, redactor: Option<&mut Redactor>, need_gpu: bool) -> Result<Measured, Failure> {
    let has_gpu = live::has_nvidia_gpu();
    if !has_gpu && need_gpu {
        return Err(Failure::new(format!(
            "no NVIDIA GPU found on this machine; try a simulated machine: peerlane {command} {EXAMPLE}"
        )));
    }
    let looking = timeline::begin("discovery");
    let mut look = if has_gpu { live::look().map_err(Failure::Message)? } else { live::look_without_gpu() };
    drop(looking);
    let mut conditions = here();
    if let Some(redactor) = redactor {
        redactor.learn_host(conditions.host.as_deref().unwrap_or_default());
        look.learn(redactor);
        look = look.redacted(redactor);
        redactor.serialised(&mut conditions);
    }
    of_look(look, conditions)
}

/// The machine that a look at this one shows, with its GPUs.
pub(super) fn of_look(look: live::Look, conditions: Conditions) -> Result<Measured, Failure> {
    let driver = look.snapshot.as_ref().and_then(|snapshot| snapshot.driver.clone());
    let conditions = Conditions { driver, ..conditions };
    let Some(machine) = assemble(look.found).into_iter().next() else {
        return Err(Failure::new("live: no GPU and no NIC found on this machine"));
    };
    let place = |node: &Node| Some(GpuName { name: node.name.clone(), address: node.address? });
    let gpus = machine.fabric.of_kind(NodeKind::Gpu).filter_map(|id| place(machine.fabric.node(id))).collect();
    let subject = Subject { name: machine.name.clone(), target: "live".to_owned(), system: None, evidence: look.texts };
    Ok(Measured { machine, subject, device: Device::Live { gpus, nics: BTreeMap::new() }, conditions })
}

/// The machine that TARGET names, for a command that measures it.
pub(crate) fn resolve(target: Option<&OsStr>, command: &str) -> Result<Measured, Failure> {
    resolve_redacted(target, command, None, true)
}

/// The same, with what identifies the machine taken out of what describes it.
fn resolve_redacted(
    target: Option<&OsStr>,
    command: &str,
    redactor: Option<&mut Redactor>,
    need_gpu: bool,
) -> Result<Measured, Failure> {
    let Some(path) = target.filter(|t| *t != "live") else { return this_machine(command, redactor, need_gpu) };
    let mut name = path.to_string_lossy().into_owned();
    let text = match catalogue::system_text(&name) {
        Some(text) => text.to_owned(),
        None => {
            let text = described(Path::new(path), &name)?;
            match redactor {
                Some(redactor) => {
                    redactor.learn(&text);
                    name = redactor.source(&name);
                    redactor.text(&text)
                }
                None => text,
            }
        }
    };
    let name = name.as_str();
    let machine = catalogue::read_system(&text, name).map_err(|e| Failure::new(e.to_string()))?;
    let subject = Subject::of_system(&machine.name, name, &text);
    Ok(Measured {
        machine,
        subject,
        device: Device::Virtual { name: name.to_owned(), system: text },
        conditions: Conditions::default(),
    })
}

/// The text of a system file; an error for any other target.
fn described(path: &Path, name: &str) -> Result<String, Failure> {
    let what = match TargetKind::of(path.as_os_str()) {
        Ok(TargetKind::SystemFile | TargetKind::ClusterFile) => return Ok(design(path)?),
        Ok(TargetKind::Run) => "is a recorded run",
        Ok(_) => "is captured text",
        Err(refused) if refused.is_absent() => {
            return Err(Failure::Message(unknown(name, "no such system or file")));
        }
        Err(refused) => return Err(refused.into()),
    };
    Err(Failure::new(format!(
        "{name} {what}: it can be checked, but not measured; give 'live', a system name or a system file"
    )))
}
