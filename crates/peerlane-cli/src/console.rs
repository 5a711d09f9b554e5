//! Messages for the user on standard error.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

use peerlane::one_line::escaped;

/// Prefix of every line on stderr.
pub(crate) const PREFIX: &str = "peerlane: ";

/// Whether `--quiet` was given.
static QUIET: AtomicBool = AtomicBool::new(false);

/// Leaves out progress and notes from here on.
pub(crate) fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Whether progress and notes are unwanted.
pub(crate) fn quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Writes a note to stderr, unless quiet: nothing went wrong, and the answer does not depend on it.
pub(crate) fn note(message: &str) {
    if !quiet() {
        say(message);
    }
}

/// Writes a message for the user to stderr.
pub(crate) fn say(message: &str) {
    let mut err = anstream::stderr().lock();
    for line in message.lines() {
        // errors are ignored: stderr may be closed
        let _ = writeln!(err, "{PREFIX}{}", escaped(line));
    }
}
