//! Measuring between nodes, with the record on disk from the first cell on.
//!
//! As that of a run, a growing record is in `FILE.partial` and replaces `FILE` at its end; `FILE.lock` keeps both for one
//! process. Who answers is the caller's: agents, or a simulated cluster.

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use peerlane::input_file::{self, Kind};
use peerlane::nodes::{Cell, Event, Network, NodesRun, execute, looks_like_nodes_run};
use peerlane::one_line::shown;
use peerlane::run::Partial;

use super::interrupt::Interrupt;
use crate::output_file::{Appended, Lock};
use crate::progress::Bar;
use crate::redact::Redactor;
use crate::{Failure, Outcome};

/// The ending of a growing record.
const PARTIAL: &str = "partial";

/// How much of a file is read to see what it is, in bytes.
const HEAD: u64 = 4096;

/// How much may be lost if the whole machine stops.
const SYNC: Duration = Duration::from_secs(1);

/// A file for a record of many nodes, which no other process writes.
pub(crate) struct NodesFile {
    lock: Lock,
    path: std::path::PathBuf,
}

impl NodesFile {
    /// For a new record. An unfinished one is not replaced.
    pub(crate) fn new(path: &Path) -> Result<Self, Failure> {
        let file = NodesFile::at(path)?;
        let partial = file.lock.beside(PARTIAL);
        if partial.exists() {
            let partial = shown(&partial);
            return Err(Failure::new(format!("{partial} is an unfinished run: resume it with --resume, or remove it")));
        }
        Ok(file)
    }

    /// To resume the record in it.
    pub(crate) fn resume(path: &Path) -> Result<(Self, NodesRun), Failure> {
        let file = NodesFile::at(path)?;
        let partial = file.lock.beside(PARTIAL);
        let from = if partial.exists() { partial.clone() } else { path.to_owned() };
        if !from.exists() {
            let nothing = format!("nothing to resume: neither {} nor {} exists", shown(&partial), shown(path));
            return Err(Failure::new(nothing));
        }
        let text = input_file::read(&from, Kind::NodesRun)?;
        let read = NodesRun::read(&String::from_utf8_lossy(&text));
        let (run, _) = read.map_err(|e| Failure::new(format!("{}: {e}", shown(&from))))?;
        Ok((file, run))
    }

    fn at(path: &Path) -> Result<Self, Failure> {
        let refused = |why: &str| Failure::new(format!("cannot record the run in {}: {why}", shown(path)));
        let lock = Lock::of(path).map_err(|e| refused(&e.to_string()))?;
        match input_file::head(path, HEAD) {
            Ok(text) if !text.is_empty() && !looks_like_nodes_run(&String::from_utf8_lossy(&text)) => {
                Err(refused("the file exists and is no record between nodes; give another file, or remove it"))
            }
            Err(error) if !error.is_absent() => Err(refused(&error.cause.to_string())),
            Ok(_) | Err(_) => Ok(NodesFile { lock, path: path.to_owned() }),
        }
    }
}

/// Carries out the plan of a record, which may have cells already. The record is complete where all is answered. A redactor
/// replaces what identifies in what the network reports; the record's head is the caller's.
///
/// # Errors
/// Where the record cannot be written: what was measured until then is in the partial record.
pub(crate) fn carry_out(
    network: &mut dyn Network,
    mut run: NodesRun,
    file: Option<&NodesFile>,
    redactor: Option<Redactor>,
    interrupt: &Interrupt,
) -> Result<NodesRun, Failure> {
    let mut redactor = redactor;
    let kept: Vec<Cell> = run.kept();
    run.cells.clone_from(&kept);
    run.lost.clear();
    let unwritten =
        |file: &NodesFile, e: io::Error| Failure::new(format!("cannot record the run in {}: {e}", shown(&file.path)));
    let mut growing = match file {
        Some(file) => Some(grow(file, &run).map_err(|e| unwritten(file, e))?),
        None => None,
    };
    let mut failed = None;
    let mut synced = Instant::now();
    let bar = Bar::counting(run.plan.rounds, "rounds");
    let plan = run.plan.clone();
    execute(network, &plan, kept, &mut |mut event| {
        if let Some(redactor) = &mut redactor {
            redactor.serialised(&mut event);
        }
        if let Event::Round(at, of) = event {
            bar.of(of);
            bar.done(at);
        } else if let Some(growing) = &mut growing {
            let written = line(&event).and_then(|line| growing.append(&line)).and_then(|()| {
                if synced.elapsed() < SYNC {
                    return Ok(());
                }
                synced = Instant::now();
                growing.sync()
            });
            failed = failed.take().or(written.err());
        }
        run.apply(event);
        failed.is_none() && !interrupt.asked()
    });
    drop(bar);
    if let Some(file) = file {
        if let Some(error) = failed {
            return Err(unwritten(file, error));
        }
        let text = run.to_json().map_err(|e| Failure::new(e.to_string()))?;
        file.lock.write(&text).and_then(|()| file.lock.remove(PARTIAL)).map_err(|e| unwritten(file, e))?;
    }
    Ok(run)
}

fn line(event: &Event) -> io::Result<String> {
    Partial::event_line(event).map_err(io::Error::other)
}

/// Holds the sides of steps that need CUDA, for the agent that started this process.
pub(crate) fn gpu_sides() -> Result<Outcome, Failure> {
    peerlane_net::gpu::serve_gpus(|| crate::system::end_now(2))?;
    Ok(Outcome::default())
}

/// Begins the growing record with what an earlier process has measured.
fn grow(file: &NodesFile, run: &NodesRun) -> io::Result<Appended> {
    let mut text = run.header_line().map_err(io::Error::other)?;
    if !run.cells.is_empty() {
        text += &line(&Event::Cells(run.cells.clone()))?;
    }
    file.lock.grow(PARTIAL, &text)
}
