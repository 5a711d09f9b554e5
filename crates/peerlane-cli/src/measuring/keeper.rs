//! The record of a run on disk, from its first cell on.
//!
//! A growing run is in `FILE.partial`: a line with the record so far, then one line per event. At its end it is written
//! to `FILE.new`, which then atomically replaces `FILE`; so `FILE` is complete at any time.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use peerlane::run::{Event, Partial, Run, looks_like_run};

use super::progress::Progress;
use crate::Failure;

/// How much may be lost if the whole machine stops.
const SYNC: Duration = Duration::from_secs(1);

/// How much of a file is read to see whether it is a run.
const HEAD: u64 = 256;

/// Records a run, if a file was given.
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    /// The record's file.
    path: Option<PathBuf>,
    /// The growing record.
    growing: Option<Growing>,
    /// Whether a write has failed.
    failed: bool,
    /// Whether the file was left with an earlier run, because there is nothing to replace it with.
    left: bool,
}

#[derive(Debug)]
struct Growing {
    file: File,
    path: PathBuf,
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
        let path = real(path)?;
        let partial = beside(&path, "partial");
        if partial.exists() {
            return Err(Failure::new(format!(
                "{0} is an unfinished run: resume it with --resume, or remove it",
                partial.display()
            )));
        }
        if path.exists() && !read(&path).map_err(Failure::new)?.complete {
            return Err(Failure::new(format!(
                "{0} is an incomplete run: resume it with --resume, or remove it",
                path.display()
            )));
        }
        Ok(Keeper { path: Some(path), ..Keeper::default() })
    }

    /// Resumes the run in this file, or in its partial record.
    pub(crate) fn resume(path: &Path) -> Result<(Self, Run), Failure> {
        let path = real(path)?;
        let partial = beside(&path, "partial");
        let run = if partial.exists() {
            read_partial(&partial)
        } else if path.exists() {
            read(&path)
        } else {
            Err(format!("nothing to resume: neither {} nor {} exists", partial.display(), path.display()))
        };
        Ok((Keeper { path: Some(path), ..Keeper::default() }, run.map_err(Failure::new)?))
    }

    /// The record's file.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Whether a write has failed.
    pub(crate) fn failed(&self) -> bool {
        self.failed
    }

    /// Whether the file still holds an earlier run, because the new one has no values.
    pub(crate) fn left_as_it_was(&self) -> bool {
        self.left
    }

    /// Begins the growing record.
    pub(crate) fn start(&mut self, run: &Run, progress: &Progress) {
        let Some(path) = &self.path else { return };
        let partial = beside(path, "partial");
        match Growing::start(partial.clone(), run) {
            Ok(growing) => self.growing = Some(growing),
            Err(error) => self.fail(&partial, &error, progress),
        }
    }

    /// Adds an event.
    pub(crate) fn append(&mut self, event: &Event, progress: &Progress) {
        let Some(growing) = &mut self.growing else { return };
        if let Err(error) = growing.append(event) {
            let path = growing.path.clone();
            self.growing = None;
            self.fail(&path, &error, progress);
        }
    }

    /// To be called often: flushes events to disk within a second.
    pub(crate) fn tick(&mut self, progress: &Progress) {
        let Some(growing) = &mut self.growing else { return };
        if let Err(error) = growing.sync() {
            let path = growing.path.clone();
            self.growing = None;
            self.fail(&path, &error, progress);
        }
    }

    /// Writes the complete record; one without cells replaces no other. False if it could not be written, or no file was
    /// given.
    pub(crate) fn finish(&mut self, run: &Run, progress: &Progress) -> bool {
        let Some(path) = self.path.clone() else { return false };
        self.left = run.cells.is_empty() && path.exists();
        if !self.left
            && let Err(error) = write_whole(&path, run)
        {
            self.fail(&path, &error, progress);
            return false;
        }
        self.growing = None;
        match fs::remove_file(beside(&path, "partial")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                self.fail(&beside(&path, "partial"), &error, progress);
            }
            _ => {}
        }
        true
    }

    fn fail(&mut self, path: &Path, error: &io::Error, progress: &Progress) {
        self.failed = true;
        progress.say(&format!("cannot record the run in {}: {error}", path.display()));
    }
}

impl Growing {
    fn start(path: PathBuf, run: &Run) -> io::Result<Self> {
        let new = beside(&path, "new");
        let mut file = File::create(&new)?;
        let mut text = Partial::header_line(run).map_err(io::Error::other)?;
        if !run.cells.is_empty() {
            text += &Partial::event_line(&Event::Cells(run.cells.clone())).map_err(io::Error::other)?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        fs::rename(&new, &path)?;
        sync_folder(&path)?;
        let file = OpenOptions::new().append(true).open(&path)?;
        Ok(Growing { file, path, synced: Instant::now(), dirty: false })
    }

    fn append(&mut self, event: &Event) -> io::Result<()> {
        self.file.write_all(Partial::event_line(event).map_err(io::Error::other)?.as_bytes())?;
        self.dirty = true;
        self.sync()
    }

    fn sync(&mut self) -> io::Result<()> {
        if self.dirty && self.synced.elapsed() >= SYNC {
            self.file.sync_data()?;
            self.synced = Instant::now();
            self.dirty = false;
        }
        Ok(())
    }
}

fn write_whole(path: &Path, run: &Run) -> io::Result<()> {
    let new = beside(path, "new");
    let written = (|| {
        let text = run.to_json().map_err(io::Error::other)?;
        let mut file = File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)?;
        sync_folder(path)
    })();
    if written.is_err() {
        // an incomplete file is useless, and may be what fills the disk
        let _ = fs::remove_file(&new);
    }
    written
}

/// Makes a rename durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    match path.parent().filter(|p| !p.as_os_str().is_empty()) {
        Some(folder) => File::open(folder)?.sync_all(),
        None => File::open(".")?.sync_all(),
    }
}

/// `run.json.partial` for `run.json`.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".");
    name.push(ending);
    name.into()
}

/// The resolved path. Only a run may exist there, since it will be replaced.
fn real(path: &Path) -> Result<PathBuf, Failure> {
    let refused = |why: &str| Failure::new(format!("cannot record the run in {}: {why}", path.display()));
    match fs::metadata(path) {
        Ok(meta) if !meta.is_file() => Err(refused("not a regular file")),
        Ok(_) => {
            let real = fs::canonicalize(path).map_err(|e| refused(&e.to_string()))?;
            if is_run(&real).map_err(|e| refused(&e.to_string()))? {
                Ok(real)
            } else {
                Err(refused("the file exists and is not a run; give another file, or remove it"))
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
            if path.file_name().is_none() {
                Err(refused("the path names no file"))
            } else if folder.is_dir() {
                Ok(path.to_owned())
            } else {
                Err(refused(&format!("no such folder: {}", folder.display())))
            }
        }
        Err(error) => Err(refused(&error.to_string())),
    }
}

/// Whether a file is a run.
pub(crate) fn is_run(path: &Path) -> io::Result<bool> {
    let mut head = Vec::new();
    File::open(path)?.take(HEAD).read_to_end(&mut head)?;
    Ok(looks_like_run(&String::from_utf8_lossy(&head)))
}

fn read(path: &Path) -> Result<Run, String> {
    let problem = |why: &str| format!("{}: {why}", path.display());
    let text = fs::read_to_string(path).map_err(|e| problem(&e.to_string()))?;
    Run::from_json(&text).map_err(|e| problem(&e.to_string()))
}

/// Reads a growing record. A truncated last line was being written when its writer died; its steps are run again.
fn read_partial(path: &Path) -> Result<Run, String> {
    let problem = |why: &str| format!("{}: {why}", path.display());
    let bytes = fs::read(path).map_err(|e| problem(&e.to_string()))?;
    let read = Partial::read(&String::from_utf8_lossy(&bytes)).map_err(|e| problem(&e.to_string()))?;
    Ok(read.run)
}

#[cfg(test)]
mod tests {
    use super::super::testing;
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
        let (mut keeper, mut rest) = Keeper::resume(&path).unwrap();
        assert_eq!(rest.cells.iter().map(|c| c.step).collect::<Vec<_>>(), [1]);
        assert!(Keeper::new(&path).is_err(), "what is there is not overwritten");

        kept(&mut keeper, &mut rest, &[0], &progress);
        rest.complete = true;
        assert!(keeper.finish(&rest, &progress) && !keeper.failed());
        assert_eq!(read(&path).unwrap(), rest);
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
        fs::remove_file(&path).unwrap();

        let mut good = new_run();
        let mut keeper = Keeper::new(&path).unwrap();
        kept(&mut keeper, &mut good, &[0, 1], &progress);
        good.complete = true;
        assert!(keeper.finish(&good, &progress) && !keeper.left_as_it_was());
        let mut again = Keeper::new(&path).unwrap();
        kept(&mut again, &mut new_run(), &[], &progress);
        assert!(again.finish(&new_run(), &progress) && again.left_as_it_was());
        assert_eq!(read(&path).unwrap(), good);
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
        let full = OpenOptions::new().append(true).open("/dev/full").unwrap();
        let growing = Growing { file: full, path: "/dev/full".into(), synced: Instant::now(), dirty: false };
        let path = Some("/dev/full/run.json".into());
        let mut keeper = Keeper { path, growing: Some(growing), ..Keeper::default() };
        let event = answer(&run, 0);
        keeper.append(&event, &progress);
        assert!(keeper.failed() && keeper.growing.is_none());
        keeper.append(&event, &progress);
        keeper.tick(&progress);
        run.apply(event);
        assert!(!keeper.finish(&run, &progress));
    }
}
