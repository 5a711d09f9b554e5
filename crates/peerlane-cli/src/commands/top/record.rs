//! A recording on disk: it grows in `FILE.partial`, and becomes `FILE` at its end.

use std::path::{Path, PathBuf};

use peerlane::one_line::shown;
use peerlane::traffic::{Head, Sample};
use serde::Serialize;

use crate::Failure;
use crate::output_file::{Appended, Lock};

/// The ending of a growing recording.
const PARTIAL: &str = "partial";

pub(super) struct Recorder {
    path: PathBuf,
    lock: Lock,
    file: Appended,
    samples: usize,
}

impl Recorder {
    /// Begins a new file.
    pub(super) fn new(path: &Path, head: &Head) -> Result<Self, Failure> {
        let failed = |e: std::io::Error| Failure::new(format!("cannot record to {}: {e}", shown(path)));
        let lock = Lock::of(path).map_err(failed)?;
        for taken in [path.to_owned(), lock.beside(PARTIAL)] {
            if taken.exists() {
                return Err(Failure::new(format!("{} exists; give --record another name", shown(&taken))));
            }
        }
        let file = lock.grow(PARTIAL, &line(head)?).map_err(failed)?;
        Ok(Recorder { path: path.to_owned(), lock, file, samples: 0 })
    }

    /// Adds a sample. One that cannot be written now is written with the next.
    pub(super) fn add(&mut self, sample: &Sample) -> Result<(), Failure> {
        self.samples += 1;
        let _ = self.file.append(&line(sample)?);
        Ok(())
    }

    /// Gives the file its name; what was kept, as a line.
    pub(super) fn end(mut self) -> Result<String, Failure> {
        let partial = shown(self.file.path());
        let whole = self.file.retry().and_then(|()| self.file.sync()).and_then(|()| self.lock.keep(PARTIAL));
        whole.map_err(|e| Failure::new(format!("the recording is not whole: {partial}: {e}")))?;
        Ok(format!("{} samples in {1}; to see them again: peerlane top {1}", self.samples, shown(&self.path)))
    }
}

fn line(of: &impl Serialize) -> Result<String, Failure> {
    let text = serde_json::to_string(of).map_err(|e| Failure::new(format!("a sample has no form in JSON: {e}")))?;
    Ok(text + "\n")
}
