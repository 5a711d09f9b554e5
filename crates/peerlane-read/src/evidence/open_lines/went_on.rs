//! Whether a program went on with its work after a line of trouble: a cache that could not be written, an optional part that is missing.
//!
//! A line counts as passed if it names no part of the machine and nothing that ends a program, and if what follows shows work: for a warning
//! that the program logged on, for anything else work that came to an end.

use super::super::Text;
use super::super::line_head::{Level, head};
use super::words::is_part_of_machine;
use peerlane_machine::fact::OpenKind;

/// Lines that a program logs after a warning where it goes on.
const LOGGED: usize = 5;

/// Lines that follow where a program goes on after more than a warning.
const FOLLOWED: usize = 20;

/// Whether a line is of the kind that a program may leave behind.
pub(super) fn may_be_passed(line: &str, kind: OpenKind) -> bool {
    matches!(kind, OpenKind::Warning | OpenKind::Error) && !is_part_of_machine(line)
}

/// The lines that show work.
pub(super) struct Progress {
    /// Lines with words, by index.
    lines: Vec<usize>,
    /// Lines that a program logs without a level of trouble.
    logged: Vec<usize>,
    /// The last line that says that work came to an end.
    ended: Option<usize>,
}

impl Progress {
    pub(super) fn of(text: &Text) -> Progress {
        let mut all = Progress { lines: Vec::new(), logged: Vec::new(), ended: None };
        for (i, line) in text.iter().filter(|(_, line)| !line.trim().is_empty()) {
            all.lines.push(i);
            let head = head(line);
            if head.is_log && head.level.is_none_or(|level| level == Level::Quiet) {
                all.logged.push(i);
            }
            if is_end_of_work(line) {
                all.ended = Some(i);
            }
        }
        all
    }

    /// Whether work is shown after a line.
    pub(super) fn is_after(&self, line: usize, kind: OpenKind) -> bool {
        let behind = |all: &[usize]| all.len() - all.partition_point(|i| *i <= line);
        let worked = self.ended.is_some_and(|end| end > line);
        match kind {
            OpenKind::Warning => worked || behind(&self.logged) >= LOGGED,
            _ => worked && behind(&self.lines) >= FOLLOWED,
        }
    }
}

/// Whether a line says that work came to its end: a bar at 100 %, what was installed or saved, steps, results with a number.
fn is_end_of_work(line: &str) -> bool {
    let words = [
        "Successfully ",
        "successfully",
        "100%|",
        " 100% ",
        "Finished",
        "finished",
        "completed",
        "Completed",
        "Saved ",
        "saved to",
    ];
    let denied = ["not ", "un", "fail", "Fail", "error", "Error"].iter().any(|word| line.contains(word));
    if words.iter().any(|word| line.contains(word)) {
        return !denied;
    }
    let line = line.trim();
    let installed = line.split_once(' ').is_some_and(|(first, rest)| {
        matches!(first, "Installed" | "Prepared" | "Resolved") && rest.starts_with(|c: char| c.is_ascii_digit())
    });
    // `"images_per_s": 0.17,`, `Throughput: 12.3 tok/s`
    let result = || {
        let (name, value) = line.trim_end_matches(',').split_once(": ")?;
        let name = name.trim_matches('"').to_ascii_lowercase();
        let is_rate = ["per_s", "throughput", "latency", "elapsed", "accuracy", "train_runtime", "tokens/s"];
        (is_rate.iter().any(|word| name.contains(word)) && value.starts_with(|c: char| c.is_ascii_digit()))
            .then_some(())
    };
    installed || result().is_some()
}
