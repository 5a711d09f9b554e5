//! What is wrong with a system file: all of it, in the order of its lines.

use std::fmt;
use std::ops::Range;

/// The most problems that are listed; who has more corrects these first.
pub(super) const MOST: usize = 50;

/// Why a system file is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemError {
    /// Which file.
    pub file: String,
    /// Everything that is wrong, at least one problem.
    pub problems: Vec<Problem>,
}

/// One thing that is wrong with a system file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// On which line; `None` where it concerns the file as a whole.
    pub line: Option<u32>,
    /// What is wrong, and what to write instead.
    pub message: String,
}

impl SystemError {
    /// With one problem, of the file as a whole.
    pub(super) fn whole(file: &str, message: String) -> Self {
        SystemError { file: file.to_owned(), problems: vec![Problem { line: None, message }] }
    }
}

impl std::error::Error for SystemError {}

impl fmt::Display for SystemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.problems.as_slice() {
            [one] => write!(f, "system {}: {one}", self.file),
            all => {
                let (more, n) = (if all.len() < MOST { "" } else { "at least " }, all.len());
                write!(f, "system {}: {more}{n} errors", self.file)?;
                all.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
            }
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// Problems as they are found.
#[derive(Debug, Default)]
pub(super) struct Problems {
    all: Vec<Problem>,
    /// Entries of which a part was unreadable. What else seems to be wrong with them may follow from that.
    damaged: Vec<Range<usize>>,
}

impl Problems {
    /// The value, or `None` with its problems noted.
    pub(super) fn keep<T>(&mut self, result: Result<T, SystemError>) -> Option<T> {
        result.map_err(|error| self.all.extend(error.problems)).ok()
    }

    /// The same for what is said of the entry at `at`.
    pub(super) fn keep_of<T>(&mut self, at: &Range<usize>, result: Result<T, SystemError>) -> Option<T> {
        if self.damaged.iter().any(|d| d.start <= at.start && at.start < d.end) {
            result.ok()
        } else {
            self.keep(result)
        }
    }

    pub(super) fn damaged(&mut self, entry: Range<usize>) {
        self.damaged.push(entry);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.all.len() >= MOST
    }

    /// Refuses the file if there is any.
    pub(super) fn settle(mut self, file: &str) -> Result<(), SystemError> {
        self.all.sort();
        self.all.dedup();
        self.all.truncate(MOST);
        if self.all.is_empty() { Ok(()) } else { Err(SystemError { file: file.to_owned(), problems: self.all }) }
    }
}
