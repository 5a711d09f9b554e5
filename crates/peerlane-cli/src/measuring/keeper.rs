//! The record of a run on disk, from its first cell on.
//!
//! A growing run is in `FILE.partial`: a line with the record so far, then one line per event. At its end it atomically
//! replaces `FILE`; so `FILE` is complete at any time. `FILE.lock` keeps all three for one process.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use peerlane::input_file::{self, Kind, Refused};
use peerlane::one_line::shown;
use peerlane::run::{Event, Partial, Run, looks_like_run};

use super::progress::Progress;
use crate::Failure;
use crate::output_file::shared::Slot;
use crate::output_file::{Appended, Lock, beside};

/// How much may be lost if the whole machine stops.
const SYNC: Duration = Duration::from_secs(1);

/// How much of a file is read to see whether it is a run.
const HEAD: u64 = 256;

/// The ending of a growing record.
const PARTIAL: &str = "partial";

/// Records a run, if a file was given.
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    /// The record's file, for this process alone.
    place: Option<Place>,
    /// The growing record.
    growing: Option<Growing>,
    /// When an attempt to begin it failed.
    delayed: Option<Instant>,
    /// Whether the file lacks something that was measured.
    failed: bool,
    /// The file with the complete record.
    written: Option<PathBuf>,
    /// Whether the file was left with an earlier run, because there is nothing to replace it with.
    left: bool,
}

/// Where a record goes.
#[derive(Debug)]
enum Place {
    /// To a file that was named, and is locked.
    Named(PathBuf, Lock),
    /// To a directory that hosts share, under a name that no other process takes.
    Shared(Slot),
}

impl Place {
    fn path(&self) -> PathBuf {
        match self {
            Place::Named(path, _) => path.clone(),
            Place::Shared(slot) => slot.path(),
        }
    }

    fn grow(&mut self, content: &str) -> io::Result<Appended> {
        match self {
            Place::Named(_, lock) => lock.grow(PARTIAL, content),
            Place::Shared(slot) => slot.grow(PARTIAL, content),
        }
    }

    /// Writes the whole record, and returns its path.
    fn write(&self, run: &Run) -> io::Result<PathBuf> {
        let text = run.to_json().map_err(io::Error::other)?;
        match self {
            Place::Named(path, lock) => lock.write(&text).map(|()| path.clone()),
            Place::Shared(slot) => slot.publish(text.as_bytes()),
        }
    }

    fn remove_partial(&self) -> io::Result<()> {
        match self {
            Place::Named(_, lock) => lock.remove(PARTIAL),
            Place::Shared(slot) => slot.remove(PARTIAL),
        }
    }
}

#[derive(Debug)]
struct Growing {
    file: Appended,
    /// When it was last made durable, or an attempt failed.
    synced: Instant,
    dirty: bool,
}

impl Keeper {
    /// Records nothing.
    pub(crate) fn none() -> Self {
        Keeper::default()
    }

    /// Records a new run in this file.
    pub(crate) fn new(path: &Path) -> Result<Self, Failure> {
        let lock = lock(path)?;
        let partial = lock.beside(PARTIAL);
        if partial.exists() {
            return Err(Failure::new(format!(
                "{0} is an unfinished run: resume it with --resume, or remove it",
                shown(&partial)
            )));
        }
        if path.exists() && !read(path).map_err(Failure::new)?.complete {
            return Err(Failure::new(format!(
                "{0} is an incomplete run: resume it with --resume, or remove it",
                shown(path)
            )));
        }
        Ok(Keeper::at(path, lock))
    }

    /// Resumes the run in this file, or in its partial record.
    pub(crate) fn resume(path: &Path) -> Result<(Self, Run), Failure> {
        let lock = lock(path)?;
        let partial = lock.beside(PARTIAL);
        let run = if partial.exists() {
            read_partial(&partial)
        } else if path.exists() {
            read(path)
        } else {
            Err(format!("nothing to resume: neither {} nor {} exists", shown(&partial), shown(path)))
        };
        run.map(|run| (Keeper::at(path, lock), run)).map_err(Failure::new)
    }

    fn at(path: &Path, lock: Lock) -> Self {
        Keeper { place: Some(Place::Named(path.to_owned(), lock)), ..Keeper::default() }
    }

    /// Records a new run in a directory that hosts share.
    pub(crate) fn shared(slot: Slot) -> Self {
        Keeper { place: Some(Place::Shared(slot)), ..Keeper::default() }
    }

    /// The record's file.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        self.written.clone().or_else(|| self.place.as_ref().map(Place::path))
    }

    /// Whether the record is in a directory that hosts share.
    pub(crate) fn is_shared(&self) -> bool {
        matches!(self.place, Some(Place::Shared(_)))
    }

    /// The file with the complete record, once it is written.
    pub(crate) fn written(&self) -> Option<&Path> {
        self.written.as_deref()
    }

    /// Whether the file lacks something that was measured.
    pub(crate) fn failed(&self) -> bool {
        self.failed
    }

    /// Whether the file still holds an earlier run, because the new one has no values.
    pub(crate) fn left_as_it_was(&self) -> bool {
        self.left
    }

    /// Begins the growing record.
    pub(crate) fn start(&mut self, run: &Run, progress: &Progress) {
        let Some(place) = &mut self.place else { return };
        match Growing::start(place, run) {
            Ok(growing) => {
                self.growing = Some(growing);
                self.delayed = None;
            }
            Err(error) => {
                self.delayed = Some(Instant::now());
                let partial = beside(&place.path(), PARTIAL);
                self.fail(&partial, &error, progress);
            }
        }
    }

    /// Adds an event.
    pub(crate) fn append(&mut self, event: &Event, progress: &Progress) {
        self.write(progress, |growing| growing.append(event));
    }

    /// To be called often: flushes events to disk within a second, and retries what could not be written.
    pub(crate) fn tick(&mut self, run: &Run, progress: &Progress) {
        if self.delayed.is_some_and(|since| since.elapsed() >= SYNC) {
            self.start(run, progress);
        }
        self.write(progress, Growing::sync);
    }

    fn write(&mut self, progress: &Progress, write: impl FnOnce(&mut Growing) -> io::Result<()>) {
        let Some(growing) = &mut self.growing else { return };
        match write(growing) {
            Ok(()) if self.failed && growing.file.is_whole() => {
                self.failed = false;
                progress.say(&format!("{} can be written again; nothing is lost", shown(growing.file.path())));
            }
            Ok(()) => {}
            Err(error) => {
                let path = growing.file.path().to_owned();
                self.fail(&path, &error, progress);
            }
        }
    }

    /// Writes the complete record; one without cells replaces no other. False if it could not be written, or no file was
    /// given: the partial record then stays.
    pub(crate) fn finish(&mut self, run: &Run, progress: &Progress) -> bool {
        let Some(place) = &self.place else { return false };
        let path = place.path();
        self.left = run.cells.is_empty() && path.exists();
        let written = if self.left { Ok(path.clone()) } else { place.write(run) };
        if let Err(error) = written.map(|path| self.written = Some(path)) {
            self.failed = true;
            let kept = self.growing.as_mut().map(|growing| match growing.file.retry() {
                Ok(()) => format!("{} has everything; --resume completes it", shown(growing.file.path())),
                Err(_) => format!("{} has what was recorded before", shown(growing.file.path())),
            });
            let kept = kept.unwrap_or_else(|| "nothing is recorded".to_owned());
            progress.say(&format!("cannot record the run in {}: {error}; {kept}", shown(&path)));
            return false;
        }
        self.growing = None;
        self.failed = false;
        if let Err(error) = place.remove_partial() {
            self.fail(&beside(&path, PARTIAL), &error, progress);
        }
        true
    }

    /// Leaves the partial record with everything that was measured; none if nothing was.
    pub(crate) fn leave(&mut self, run: &Run, progress: &Progress) {
        if run.cells.is_empty() {
            self.growing = None;
            self.left = self.place.as_ref().is_none_or(|place| place.remove_partial().is_ok());
            return;
        }
        self.write(progress, |growing| {
            growing.file.retry()?;
            growing.file.sync()
        });
    }

    /// Reports the first failure in a row.
    fn fail(&mut self, path: &Path, error: &io::Error, progress: &Progress) {
        if !self.failed {
            progress.say(&format!("cannot record the run in {}: {error}; measuring continues", shown(path)));
        }
        self.failed = true;
    }
}

impl Growing {
    fn start(place: &mut Place, run: &Run) -> io::Result<Self> {
        let mut text = Partial::header_line(run).map_err(io::Error::other)?;
        if !run.cells.is_empty() {
            text += &Partial::event_line(&Event::Cells(run.cells.clone())).map_err(io::Error::other)?;
        }
        Ok(Growing { file: place.grow(&text)?, synced: Instant::now(), dirty: false })
    }

    fn append(&mut self, event: &Event) -> io::Result<()> {
        self.dirty = true;
        self.file.append(&Partial::event_line(event).map_err(io::Error::other)?)?;
        self.sync()
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.dirty && self.synced.elapsed() >= SYNC {
            self.synced = Instant::now();
            self.file.retry()?;
            self.file.sync()?;
            self.dirty = false;
        }
        Ok(())
    }
}

/// Locks the record's file. Only a run may exist there, since it will be replaced.
fn lock(path: &Path) -> Result<Lock, Failure> {
    let refused = |why: &str| Failure::new(format!("cannot record the run in {}: {why}", shown(path)));
    let lock = Lock::of(path).map_err(|e| refused(&e.to_string()))?;
    match is_run(path) {
        Ok(false) => Err(refused("the file exists and is not a run; give another file, or remove it")),
        Err(error) if !error.is_absent() => Err(refused(&error.cause.to_string())),
        Ok(true) | Err(_) => Ok(lock),
    }
}

/// Whether a file is a run.
pub(crate) fn is_run(path: &Path) -> Result<bool, Refused> {
    Ok(looks_like_run(&String::from_utf8_lossy(&input_file::head(path, HEAD)?)))
}

fn read(path: &Path) -> Result<Run, String> {
    let text = input_file::text(path, Kind::Run)?;
    Run::from_json(&text).map_err(|e| format!("{}: {e}", shown(path)))
}

/// Reads a growing record. A truncated last line was being written when its writer died; its steps are run again, and so are
/// those of lines that were damaged since, which is said.
fn read_partial(path: &Path) -> Result<Run, String> {
    let bytes = input_file::read(path, Kind::Run)?;
    let read = Partial::read(&String::from_utf8_lossy(&bytes)).map_err(|e| format!("{}: {e}", shown(path)))?;
    if !read.damaged.is_empty()
        && let Some(what) = read.left_out()
    {
        crate::console::say(&format!("{}: {what}", shown(path)));
    }
    Ok(read.run)
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use std::fs;

    use super::*;
    use peerlane::measure::{Failure, void};
    use peerlane::plan::{Size, Step, Test, Work};
    use peerlane::run::FlagKind;
    use peerlane::transfer::Transfer;
    use peerlane::units::Bytes;

    fn new_run() -> Run {
        let step = Step {
            test: Test::Pairs,
            work: Work::Transfers(vec![Transfer::new("GPU0", "GPU1")]),
            size: Size::UpTo(Bytes(8)),
        };
        let rounds = vec![vec![step.clone()], vec![step]];
        testing::run_of(rounds)
    }

    fn answer(run: &Run, step: usize) -> Event {
        let of = run.plan.steps().nth(step).unwrap();
        let failure = Failure { kind: FlagKind::Failed, message: "it failed".to_owned(), fatal: false };
        Event::Cells(void(step, of, &failure))
    }

    /// An empty folder for a test.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("peerlane-keeper-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn kept(keeper: &mut Keeper, run: &mut Run, steps: &[usize], progress: &Progress) {
        keeper.start(run, progress);
        for step in steps {
            let event = answer(run, *step);
            keeper.append(&event, progress);
            run.apply(event);
        }
    }

    #[test]
    fn a_record_is_read_back_without_its_truncated_line() {
        let folder = folder("cut");
        let path = folder.join("run.json");
        let mut run = new_run();
        let progress = Progress::new(false, &run);
        let mut keeper = Keeper::new(&path).unwrap();
        kept(&mut keeper, &mut run, &[1, 0], &progress);
        drop(keeper);
        let (_, whole) = Keeper::resume(&path).unwrap();
        assert_eq!(whole, run);

        let partial = folder.join("run.json.partial");
        let text = fs::read(&partial).unwrap();
        fs::write(&partial, &text[..text.len() - 5]).unwrap();
        let (keeper, mut rest) = Keeper::resume(&path).unwrap();
        assert_eq!(rest.cells.iter().map(|c| c.step).collect::<Vec<_>>(), [1]);
        for second in [Keeper::new(&path).map(drop), Keeper::resume(&path).map(drop)] {
            let Err(crate::Failure::Message(why)) = second else { panic!("two write one file") };
            assert!(why.contains(&format!("process {}", std::process::id())) && why.contains("is writing it"), "{why}");
        }
        drop(keeper);
        assert!(Keeper::new(&path).is_err(), "what is there is not overwritten");
        let (mut keeper, _) = Keeper::resume(&path).unwrap();

        kept(&mut keeper, &mut rest, &[0], &progress);
        rest.complete = true;
        assert!(keeper.finish(&rest, &progress) && !keeper.failed());
        assert_eq!(read(&path).unwrap(), rest);
        drop(keeper);
        let left: Vec<_> = fs::read_dir(&folder).unwrap().map(|f| f.unwrap().file_name()).collect();
        assert_eq!(left, ["run.json"]);
        assert!(Keeper::new(&path).is_ok(), "a complete run may be replaced");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn an_incomplete_record_is_resumed() {
        let folder = folder("incomplete");
        let path = folder.join("run.json");
        let mut run = new_run();
        let progress = Progress::new(false, &run);
        assert!(Keeper::resume(&path).is_err(), "there is nothing yet");
        let mut keeper = Keeper::new(&path).unwrap();
        kept(&mut keeper, &mut run, &[0], &progress);
        assert!(keeper.finish(&run, &progress));
        drop(keeper);
        assert!(Keeper::new(&path).is_err());
        assert_eq!(Keeper::resume(&path).unwrap().1, run);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_run_without_values_replaces_none() {
        let folder = folder("nothing");
        let path = folder.join("run.json");
        let progress = Progress::new(false, &new_run());
        let mut nothing = Keeper::new(&path).unwrap();
        kept(&mut nothing, &mut new_run(), &[], &progress);
        assert!(nothing.finish(&new_run(), &progress) && !nothing.left_as_it_was(), "there was no other");
        assert_eq!(read(&path).unwrap(), new_run());
        drop(nothing);
        fs::remove_file(&path).unwrap();

        let mut good = new_run();
        let mut keeper = Keeper::new(&path).unwrap();
        kept(&mut keeper, &mut good, &[0, 1], &progress);
        good.complete = true;
        assert!(keeper.finish(&good, &progress) && !keeper.left_as_it_was());
        drop(keeper);
        let mut again = Keeper::new(&path).unwrap();
        kept(&mut again, &mut new_run(), &[], &progress);
        assert!(again.finish(&new_run(), &progress) && again.left_as_it_was());
        assert_eq!(read(&path).unwrap(), good);
        drop(again);
        assert!(Keeper::new(&path).is_ok(), "nothing is left to resume");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn only_a_run_is_replaced() {
        let folder = folder("other");
        let path = folder.join("thesis.txt");
        fs::write(&path, "years of work").unwrap();
        assert!(Keeper::new(&path).is_err() && Keeper::resume(&path).is_err());
        assert!(Keeper::new(Path::new("/dev/null")).is_err());
        assert!(Keeper::new(&folder).is_err());
        assert!(Keeper::new(&folder.join("no/such/run.json")).is_err());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_full_disk_is_reported_once_and_measuring_continues() {
        let mut run = new_run();
        let progress = Progress::new(false, &run);
        let growing = Growing { file: Appended::full(), synced: Instant::now(), dirty: false };
        let mut keeper = Keeper { growing: Some(growing), ..Keeper::default() };
        let event = answer(&run, 0);
        keeper.append(&event, &progress);
        assert!(keeper.failed());
        keeper.append(&event, &progress);
        keeper.tick(&run, &progress);
        run.apply(event);
        assert!(!keeper.finish(&run, &progress));
    }
}
