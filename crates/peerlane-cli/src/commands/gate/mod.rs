//! `peerlane gate`: whether jobs may run on this machine, in a line, by a deadline.
//!
//! What may hang is in other processes: [`survey()`] reads what the machine reports about itself, a worker measures. A thread
//! talks to them; this process's first thread waits for its answer until the deadline, and then answers itself. It ends
//! without waiting for anything that may hang.

mod bars;
mod examination;
mod order;
mod prober;
mod state;
mod style;
mod survey;

use std::env;
use std::io::Write;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::JsonSchema;
use peerlane::action::Action;
use peerlane::gate::Conclusion;
use peerlane::input_file;
use peerlane::one_line::{escaped, shown};
use peerlane::verdict::Gate;
use serde::Serialize;

use self::examination::{Examination, Task};
use self::order::Filled;
use self::state::{Busy, Counts, Drain, Order, Store};
use self::style::{Status, Trouble};
pub(crate) use self::survey::survey;
use crate::args::GateArgs;
use crate::formats::json;
use crate::site::Site;
use crate::{Failure, Outcome, host as system_host, output_file};

/// Names the format of `--json`.
const SCHEMA: &str = "peerlane/gate/2";

/// A driver that hangs must do so this often in a row where calls are counted: a slow one looks the same once.
const HUNG_FAILURES: u32 = 2;

/// The result, for `--json`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct GateDocument {
    /// Names this format.
    #[schemars(extend("const" = SCHEMA))]
    schema: &'static str,
    /// Version of peerlane that wrote it.
    peerlane: &'static str,
    /// The host.
    host: String,
    /// The line that is printed without `--json`, of at most 80 characters.
    line: String,
    /// What the caller has to know.
    status: Status,
    /// The exit status.
    exit: u8,
    /// What this call concludes.
    #[serde(flatten)]
    concluded: Conclusion,
    /// GPUs of the machine.
    gpus: usize,
    /// Steps that were to be measured.
    planned: usize,
    /// Steps that were measured.
    measured: usize,
    /// Steps that were measured again, since their first value looked bad.
    repeated: usize,
    /// Seconds that the command took.
    seconds: f64,
    /// Seconds by which it had to end.
    deadline: f64,
    /// What the state file counts now; absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<Counted>,
    /// The command that was run, if one was.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<Commanded>,
    /// What was not done, or went wrong.
    notes: Vec<String>,
}

/// What the state file counts.
#[derive(Debug, Serialize, JsonSchema)]
struct Counted {
    /// Faults in a row.
    failures: u32,
    /// Passes in a row.
    passes: u32,
    /// How far draining is.
    drain: Drain,
}

/// A command that was run.
#[derive(Debug, Serialize, JsonSchema)]
struct Commanded {
    /// `drain` or `resume`.
    what: &'static str,
    /// Why it failed; absent where it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// Moments of a call.
#[derive(Clone, Copy)]
struct Times {
    began: Instant,
    /// When the verdict has to be there.
    verdict: Instant,
    /// When everything has to be done.
    end: Instant,
}

impl Times {
    /// A tenth is kept for the answer, and up to 4 s for a command.
    fn of(deadline: Duration, command: bool) -> Times {
        let began = Instant::now();
        let answer = deadline.mul_f64(0.1).clamp(Duration::from_millis(100), Duration::from_secs(1));
        let for_command = if command { deadline.mul_f64(0.2).min(Duration::from_secs(4)) } else { Duration::ZERO };
        let end = began + deadline.saturating_sub(answer.mul_f64(0.5));
        Times { began, verdict: began + deadline.saturating_sub(answer + for_command), end }
    }

    fn left(until: Instant) -> Duration {
        until.saturating_duration_since(Instant::now())
    }
}

/// Judges, prints and ends the process: children that hang keep nobody waiting.
pub(crate) fn run(args: &GateArgs, out: &mut dyn Write) -> Result<Outcome, Failure> {
    match gate(args, out) {
        Ok(status) => {
            out.flush()?;
            crate::system::end_now(i32::from(status))
        }
        Err(Failure::Message(why)) => {
            crate::console::say(&why);
            crate::system::end_now(i32::from(style::failed(args.exit)))
        }
        Err(output) => Err(output),
    }
}

fn gate(args: &GateArgs, out: &mut dyn Write) -> Result<u8, Failure> {
    for (option, command) in [("drain", &args.drain_command), ("resume", &args.resume_command)] {
        let checked = command.as_deref().map_or(Ok(Vec::new()), order::words);
        checked.map_err(|why| Failure::new(format!("--{option}-command: {why}")))?;
    }
    let deadline = Duration::try_from_secs_f64(args.deadline.seconds()).unwrap_or(Duration::MAX / 4);
    let times = Times::of(deadline, args.drain_command.is_some() || args.resume_command.is_some());
    let site = site_of(args, times)?;
    let mut notes = Vec::new();
    let mut trouble = Trouble::default();
    let (mut store, busy) = open(args, times, &mut notes, &mut trouble);
    if args.clear
        && let Some(store) = &mut store
    {
        store.state.clear();
    }
    let task = Task {
        target: args.target.clone(),
        passive: args.passive,
        gpus: args.gpus,
        since: store.as_ref().and_then(|store| store.state.ignored_before()),
        until: times.verdict,
    };
    let examined = match busy {
        Some(why) => Examination::not_judged(why),
        None => examined(task, site, times)?,
    };
    let Examination { conclusion: concluded, hung, gpus, planned, measured, repeated, run, notes: more } = examined;
    notes.extend(more);
    if let (Some(path), Some(run)) = (&args.output, &run) {
        let text = run.to_json().map_err(|e| Failure::new(e.to_string()))?;
        if let Err(Failure::Message(why)) = output_file::write(path, text) {
            notes.push(why);
            trouble.file = true;
        }
    }
    let seconds = times.began.elapsed().as_secs_f64();
    let mut line = concluded.line(&done(gpus, (measured, planned), seconds));
    let needed = if hung && store.is_some() { args.failures.max(HUNG_FAILURES) } else { args.failures };
    let counts = Counts { failures: needed, recoveries: args.recoveries };
    let mut alone = state::State::default();
    let state = store.as_mut().map_or(&mut alone, |store| &mut store.state);
    let order = state.count(&concluded, measured > 0, &line, counts);
    let failures = state.failures;
    keep(&mut store, &mut notes, &mut trouble);
    let command = order.and_then(|order| carry_out(order, args, &concluded, times));
    if let Some(Commanded { what, error: Some(why) }) = &command {
        trouble.command = true;
        notes.push(format!("the {what} command failed: {why}"));
    }
    if let (Some(order), Some(store)) = (order, &mut store)
        && command.as_ref().is_none_or(|commanded| commanded.error.is_none())
    {
        store.state.carried_out(order);
    }
    keep(&mut store, &mut notes, &mut trouble);
    let status = Status::of(concluded.outcome, failures, needed);
    if status == Status::Suspect {
        line =
            peerlane::gate::fit(&format!("suspect ({failures} of {needed}): {line}"), peerlane::gate::MOST_CHARACTERS);
    }
    let exit = style::code(args.exit, status, trouble);
    if args.verbose {
        details(&concluded, &notes);
    } else if trouble != Trouble::default() {
        notes.iter().for_each(|note| crate::console::say(note));
    }
    if args.json {
        let state = store.as_ref().map(|Store { state, .. }| Counted {
            failures: state.failures,
            passes: state.passes,
            drain: state.drain,
        });
        let document = GateDocument {
            schema: SCHEMA,
            peerlane: env!("CARGO_PKG_VERSION"),
            host: host(),
            line,
            status,
            exit,
            concluded,
            gpus,
            planned,
            measured,
            repeated,
            seconds: times.began.elapsed().as_secs_f64(),
            deadline: args.deadline.seconds(),
            state,
            command,
            notes,
        };
        json(out, &document)?;
    } else {
        writeln!(out, "{}", escaped(&line))?;
    }
    Ok(exit)
}

/// The rules and the earlier run, by the time the verdict has to be there: their file system may not answer.
fn site_of(args: &GateArgs, times: Times) -> Result<Site, Failure> {
    let (rules, baseline) = (args.rules.file.clone(), args.baseline.clone());
    let named: Vec<String> = [&rules, &baseline].into_iter().flatten().map(shown).collect();
    let site = input_file::within(Times::left(times.verdict), move || {
        Site::read(rules.as_deref())?.since(baseline.as_deref(), false)
    });
    site.unwrap_or_else(|| Err(Failure::new(format!("{}: no answer by the deadline", named.join(", ")))))
}

/// The state file, if there is one; or why another gate keeps this one from judging.
fn open(
    args: &GateArgs,
    times: Times,
    notes: &mut Vec<String>,
    trouble: &mut Trouble,
) -> (Option<Store>, Option<String>) {
    let Some(path) = &args.state else { return (None, None) };
    match Store::open(path, Times::left(times.verdict).mul_f64(0.5)) {
        Ok(store) => {
            notes.extend(store.note.clone());
            (Some(store), None)
        }
        Err(Busy::Taken(who)) => (None, Some(format!("another gate is running ({who})"))),
        Err(Busy::Failed(why)) => {
            notes.push(why);
            trouble.file = true;
            (None, None)
        }
    }
}

/// What a thread finds out until the verdict has to be there.
fn examined(task: Task, site: Site, times: Times) -> Result<Examination, Failure> {
    let (send, receive) = mpsc::channel();
    let work = move || {
        // nobody listens any more once the time is over
        let _ = send.send(examination::examine(&task, &site));
    };
    thread::Builder::new().spawn(work).map_err(|e| Failure::new(format!("cannot start a thread: {e}")))?;
    // it ends in time itself, unless something hangs that should not
    let grace = (Times::left(times.verdict) + Times::left(times.end)) / 2;
    match receive.recv_timeout(grace) {
        Ok(examined) => examined,
        Err(_) => Ok(Examination::not_judged("out of time")),
    }
}

/// Writes the state.
fn keep(store: &mut Option<Store>, notes: &mut Vec<String>, trouble: &mut Trouble) {
    if let Some(Err(why)) = store.as_mut().map(Store::write) {
        trouble.file = true;
        if !notes.contains(&why) {
            notes.push(why);
        }
    }
}

/// Runs the command of an order, if one is given.
fn carry_out(order: Order, args: &GateArgs, concluded: &Conclusion, times: Times) -> Option<Commanded> {
    let (what, command) = match order {
        Order::Drain => ("drain", args.drain_command.as_deref()),
        Order::Resume => ("resume", args.resume_command.as_deref()),
    };
    let action = concluded.action.map_or("", Action::id);
    let reason = peerlane::gate::fit(&format!("{action} {}", concluded.reason), peerlane::gate::MOST_CHARACTERS);
    let (host, reason) = (host(), reason.trim());
    let filled = Filled { host: &host, reason, action };
    let error = order::run(command?, &filled, Times::left(times.end)).err();
    Some(Commanded { what, error })
}

/// `8 GPUs, 96 tests, 2.1 s`
fn done(gpus: usize, (measured, planned): (usize, usize), seconds: f64) -> String {
    let s = |n: usize| if n == 1 { "" } else { "s" };
    let tests = match (measured, planned) {
        (0, _) => "nothing measured".to_owned(),
        _ if measured < planned => format!("{measured} of {planned} tests"),
        _ => format!("{measured} test{}", s(measured)),
    };
    format!("{gpus} GPU{}, {tests}, {seconds:.1} s", s(gpus))
}

/// Findings and notes on standard error.
fn details(concluded: &Conclusion, notes: &[String]) {
    for one in &concluded.findings {
        let f = &one.finding;
        let severity = f.severity.id();
        crate::console::say(&format!("{} [{}, {severity}]: {}", one.action, f.rule, f.summary));
        crate::console::say(&format!("  expected {}", f.expected));
        crate::console::say(&format!("  measured {}", f.measured));
        crate::console::say(&format!("  {}", f.fix));
    }
    notes.iter().for_each(|note| crate::console::say(note));
    if concluded.outcome == Gate::Unknown {
        crate::console::say(&format!("unknown: {}", concluded.reason));
    }
}

/// The node's name, as a scheduler knows it: `$SLURMD_NODENAME`, else the host's up to the first dot.
fn host() -> String {
    if let Some(name) = env::var("SLURMD_NODENAME").ok().filter(|name| !name.is_empty()) {
        return name;
    }
    let name = system_host::system().unwrap_or_default();
    name.split('.').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn schema_is_current() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/gate-2.json");
        let fresh = serde_json::to_string_pretty(&schemars::schema_for!(GateDocument)).unwrap() + "\n";
        if env::var_os("UPDATE_SCHEMA").is_some() {
            fs::write(&path, &fresh).unwrap();
        }
        assert!(fs::read_to_string(&path).unwrap_or_default() == fresh, "stale: run UPDATE_SCHEMA=1 cargo test schema");
    }

    #[test]
    fn the_verdict_comes_before_the_deadline_and_a_command_has_time() {
        for (deadline, command) in [(0.5, false), (0.5, true), (20.0, false), (20.0, true), (60.0, true)] {
            let deadline = Duration::from_secs_f64(deadline);
            let times = Times::of(deadline, command);
            assert!(times.began < times.verdict && times.verdict < times.end && times.end < times.began + deadline);
            let kept = (times.end - times.verdict).as_secs_f64();
            assert!(!command || kept >= 0.2 * deadline.as_secs_f64().min(20.0), "{deadline:?}: {kept}");
        }
    }
}
