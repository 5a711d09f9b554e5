//! Reports of exceptions as Python prints them: from `Traceback (most recent call last)` to the exception that closes them, which alone says what
//! went wrong. Several processes of a job print theirs at the same time, each with its own mark before the lines.

use std::collections::{HashMap, HashSet};

use super::super::Text;
use super::super::line_head::{Head, Level, head};
use super::without_place;
use super::words::is_traceback;

/// Lines that may follow where a program has ended: what its launcher says, a prompt, another one's output.
const TAIL: usize = 15;

/// Lines of others that may stand within a report.
const BETWEEN: usize = 8;

/// What joins the report of a cause to that of its consequence.
const CAUSE: &str = "The above exception was the direct cause of the following exception";

/// The same of an error that came while another one was handled.
const HANDLING: &str = "During handling of the above exception, another exception occurred";

/// How Python begins the report of an exception that changes nothing: in a destructor, a callback at the end.
const IGNORED: [&str; 3] = ["Exception ignored in", "Exception ignored on", "Error in atexit._run_exitfuncs"];

/// Exceptions that only carry another one, whose own report stands above or below them: of `multiprocessing`, `concurrent.futures`, `subprocess`,
/// Ray, torchrun, Dask.
const WRAPPERS: [&str; 16] = [
    "ProcessRaisedException",
    "ProcessExitedException",
    "RemoteTraceback",
    "_RemoteTraceback",
    "RemoteError",
    "RemoteException",
    "BrokenProcessPool",
    "CalledProcessError",
    "RayTaskError",
    "RayActorError",
    "ActorDiedError",
    "WorkerCrashedError",
    "ChildFailedError",
    "KilledWorker",
    "TrainingFailedError",
    "ExecutionError",
];

/// What of a text is within such reports.
pub(in super::super) struct Tracebacks {
    /// Lines that say nothing of their own: places in programs, with their sources, and exceptions that follow from the one before.
    within: Vec<bool>,
    /// The exceptions that close reports.
    ends: HashSet<usize>,
    /// Lines of reports whose exception was ignored, from their first line to the exception.
    ignored: HashSet<usize>,
    /// From which line on a report is the end of the text.
    tail: usize,
    /// Reports without an exception, by their first line: the last place that they name, with its source.
    cut: HashMap<usize, String>,
}

impl Tracebacks {
    pub(in super::super) fn of(text: &Text) -> Tracebacks {
        let mut all = Tracebacks {
            within: vec![false; text.len()],
            ends: HashSet::new(),
            ignored: HashSet::new(),
            tail: 0,
            cut: HashMap::new(),
        };
        let mut wrappers: Vec<usize> = Vec::new();
        // the processes whose report goes on, by their marks, with its first line and its last one so far
        let mut open: HashMap<String, (usize, usize)> = HashMap::new();
        // those whose next exception is a consequence
        let mut caused: HashSet<String> = HashSet::new();
        // those whose next report is of an exception that was ignored
        let mut ignoring: HashSet<String> = HashSet::new();
        // a warning's own source line stands below it
        let mut below_warning = false;
        let (mut behind, mut cut) = (Vec::new(), Vec::new());
        for (i, line) in text.iter() {
            let head = head(line);
            let whole = without_place(line.get(head.end..).unwrap_or_default());
            let rest = whole.trim();
            let is_indented = indentation(line, &head, whole) >= 2;
            let mut is_within = false;
            if IGNORED.iter().any(|start| rest.starts_with(start)) {
                ignoring.insert(mark(line, &head));
                all.ignored.insert(i);
                is_within = true;
            } else if is_traceback(rest) {
                open.insert(mark(line, &head), (i, i));
                is_within = true;
            } else if rest.starts_with(CAUSE) || rest.starts_with(HANDLING) {
                if rest.starts_with(CAUSE) {
                    caused.insert(mark(line, &head));
                }
                is_within = true;
            } else if !open.is_empty()
                && let Some((first, last)) = open.get_mut(&mark(line, &head))
            {
                if rest.is_empty() || is_indented {
                    is_within = true;
                    *last = i;
                } else if is_exception(rest) {
                    if is_wrapper(rest) {
                        wrappers.push(i);
                    }
                    let mark = mark(line, &head);
                    open.remove(&mark);
                    let is_ignored = ignoring.remove(&mark);
                    if is_ignored {
                        all.ignored.insert(i);
                    }
                    match caused.remove(&mark) || is_ignored {
                        true => is_within = true,
                        false => drop(all.ends.insert(i)),
                    }
                } else if i - *last > BETWEEN {
                    cut.push((*first, *last));
                    open.remove(&mark(line, &head));
                }
            } else if below_warning && is_indented {
                is_within = true;
            }
            below_warning = is_warning_of_python(rest);
            if let Some(within) = all.within.get_mut(i) {
                *within = is_within;
            }
            let is_of_program = !is_within && !rest.is_empty() && !is_of_launcher(rest);
            if is_of_program && head.level != Some(Level::Error) && !all.ends.contains(&i) {
                behind.push(i);
            }
        }
        // a report without its end is told by its first line
        cut.extend(open.values().copied());
        for (first, last) in cut {
            if let Some(within) = all.within.get_mut(first) {
                *within = false;
            }
            if let Some(place) = last_place(text, first, last) {
                all.cut.insert(first, place);
            }
        }
        all.pass_over(&wrappers);
        all.tail = behind.len().checked_sub(TAIL + 1).and_then(|at| behind.get(at)).map_or(0, |line| line + 1);
        all
    }

    /// Passes over exceptions that only carry another one, where that one is here; where its report is cut, that report is what ended the program.
    fn pass_over(&mut self, wrappers: &[usize]) {
        let Some(last) = wrappers.iter().max() else { return };
        let is_inner = |at: &&usize| !wrappers.contains(at);
        let inner_cut = self.cut.keys().copied().filter(|at| at > last).max();
        if self.ends.iter().filter(is_inner).count() == 0 && inner_cut.is_none() {
            return;
        }
        for at in wrappers {
            self.ends.remove(at);
            if let Some(within) = self.within.get_mut(*at) {
                *within = true;
            }
        }
        self.ends.extend(inner_cut);
    }

    /// The last place of a report that begins at this line and has no exception.
    pub(super) fn cut_at(&self, i: usize) -> Option<&str> {
        self.cut.get(&i).map(String::as_str)
    }

    /// Whether a line is one that the exception at the end of its report says better.
    pub(super) fn is_within(&self, i: usize) -> bool {
        self.within.get(i) == Some(&true)
    }

    /// Whether a line is of a report whose exception was ignored.
    pub(in super::super) fn is_ignored(&self, i: usize) -> bool {
        self.ignored.contains(&i)
    }

    /// Whether a line is the exception with which a program ended: nothing follows but what its launcher says.
    pub(super) fn ends_program(&self, i: usize) -> bool {
        i >= self.tail && self.ends.contains(&i)
    }
}

/// Whether a line is one of those in which a launcher reports that a process ended: torchrun's table of failures, `srun`, `mpirun`.
fn is_of_launcher(rest: &str) -> bool {
    const STARTS: [&str; 14] = [
        "Failures:",
        "<NO_OTHER_FAILURES>",
        "Root Cause (first observed failure)",
        "Other Failures:",
        "time      :",
        "host      :",
        "rank      :",
        "exitcode  :",
        "error_file:",
        "traceback :",
        "srun: ",
        "slurmstepd: ",
        "mpirun",
        "Sending process",
    ];
    let is_rule = rest.len() >= 8 && rest.bytes().all(|b| matches!(b, b'-' | b'=' | b'*'));
    let is_number =
        || rest.strip_prefix('[').and_then(|rest| rest.strip_suffix("]:")).is_some_and(|n| n.parse::<u32>().is_ok());
    is_rule
        || rest.ends_with(".py FAILED")
        || rest.contains("closing signal SIGTERM")
        || rest.contains("ChildFailedError")
        || STARTS.iter().any(|start| rest.starts_with(start))
        || is_number()
}

/// The name of an exception, with or without what it says: `KeyError: 'x'`, `queue.Empty`, `SystemExit: 1`.
fn is_exception(rest: &str) -> bool {
    let name = rest.split_once(": ").map_or(rest.trim_end_matches(':'), |(name, _)| name);
    let last = name.rsplit('.').next().unwrap_or_default();
    last.starts_with(|c: char| c.is_ascii_uppercase())
        && last.len() > 3
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.' || b == b'_')
}

/// Whether an exception only carries another one: `torch.multiprocessing.spawn.ProcessRaisedException: `.
fn is_wrapper(rest: &str) -> bool {
    let name = rest.split([':', '(']).next().unwrap_or_default();
    WRAPPERS.contains(&name.rsplit('.').next().unwrap_or(name).trim())
}

/// The last place that a report names, with the line of the program there: `main.py, line 102, in worker: barrier()`.
fn last_place(text: &Text, first: usize, last: usize) -> Option<String> {
    /// More of a line is not told.
    const LONGEST: usize = 120;
    let inner = |i: usize| {
        let line = text.line(i);
        line.get(head(line).end..).unwrap_or_default().trim()
    };
    let is_place = |line: &str| line.starts_with("File \"") && line.contains("\", line ");
    let at = (first + 1..=last).rev().find(|i| is_place(inner(*i)) && !inner(i + 1).is_empty())?;
    let (file, rest) = inner(at).strip_prefix("File \"")?.split_once('"')?;
    let file = file.rsplit(['/', '\\']).next().unwrap_or(file);
    let source = inner(at + 1);
    let source = if at < last && !is_place(source) { format!(": {source}") } else { String::new() };
    Some(format!("{file}{rest}{source}").chars().take(LONGEST).collect())
}

/// The blanks between what stands before a line and its first word; one parts the two.
fn indentation(line: &str, head: &Head, whole: &str) -> usize {
    let before = line.get(..head.end).unwrap_or_default();
    let eaten = before.len() - before.trim_end().len();
    eaten + whole.len() - whole.trim_start().len()
}

/// What stands before a line, without its numbers: those of times and places change from line to line.
fn mark(line: &str, head: &Head) -> String {
    let before = line.get(..head.end).unwrap_or_default().trim_end();
    let mut mark = String::with_capacity(before.len());
    let mut in_process = false;
    for c in before.chars() {
        in_process = c == '=' || in_process && c.is_ascii_digit();
        mark.push(if c.is_ascii_digit() && !in_process { '#' } else { c });
    }
    mark
}

/// `/x/y.py:2249: UserWarning: …`, as Python's `warnings` prints one above the line that it is about.
fn is_warning_of_python(rest: &str) -> bool {
    let Some((_, behind)) = rest.split_once(".py:") else { return false };
    let mut words = behind.split(": ");
    let number = words.next().unwrap_or_default();
    let category = words.next().unwrap_or_default();
    number.bytes().all(|b| b.is_ascii_digit()) && category.ends_with("Warning") && !category.contains(' ')
}
