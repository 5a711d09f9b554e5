//! Progress of work that takes noticeable time, on stderr: nothing in a pipe, with `--quiet`, or within the first second.

use std::borrow::Cow;
use std::io::{self, IsTerminal};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use peerlane::one_line::escaped;

/// Shorter work shows nothing.
const WAIT: Duration = Duration::from_secs(1);

/// Between two drawings of a bar whose numbers stand still.
const TICK: Duration = Duration::from_millis(200);

/// Whether progress is shown at all: stderr is a terminal, and nobody wants quiet.
pub(crate) fn is_shown() -> bool {
    io::stderr().is_terminal() && !crate::console::quiet()
}

/// A line on stderr while it lives. Threads may share it.
pub(crate) struct Bar {
    bar: ProgressBar,
    /// The thread that begins to draw after [`WAIT`], unless its sender is dropped before.
    drawer: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Bar {
    /// `[=====>   ] 12/40 cases, 8s left`.
    pub(crate) fn counting(all: usize, what: &'static str) -> Self {
        Bar::new(is_shown(), Some(all), &format!("[{{bar:24}}] {{pos}}/{{len}} {what}, {{eta}} left"))
    }

    /// `⠁ reading captures, 4s`, for work whose end nobody knows.
    pub(crate) fn waiting(what: &str) -> Self {
        let bar = Bar::new(is_shown(), None, "{spinner} {msg}, {elapsed}");
        bar.message(what);
        bar
    }

    /// A bar of its own look. `all`: the number of pieces, if known. The template is in the language of indicatif.
    pub(crate) fn new(shown: bool, all: Option<usize>, template: &str) -> Self {
        let bar = ProgressBar::with_draw_target(all.map(|all| all as u64), ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        let drawn = bar.clone();
        let (ended, wait) = channel::<()>();
        let draw = move || {
            if wait.recv_timeout(WAIT) == Err(RecvTimeoutError::Timeout) {
                drawn.set_draw_target(ProgressDrawTarget::stderr());
                drawn.enable_steady_tick(TICK);
            }
        };
        // without a thread there is no bar, and the work goes on
        let drawer = shown.then(|| thread::Builder::new().name("progress".to_owned()).spawn(draw).ok()).flatten();
        Bar { bar, drawer: drawer.map(|thread| (ended, thread)) }
    }

    /// One more piece is done.
    pub(crate) fn one(&self) {
        self.bar.inc(1);
    }

    /// There are so many pieces.
    pub(crate) fn of(&self, all: usize) {
        self.bar.set_length(all as u64);
    }

    /// So many pieces are done.
    pub(crate) fn done(&self, done: usize) {
        self.bar.set_position(done as u64);
    }

    /// What is being done.
    pub(crate) fn message(&self, text: &str) {
        self.bar.set_message(Cow::Owned::<str>(escaped(text).into_owned()));
    }

    /// A message for the user, above the line.
    pub(crate) fn say(&self, message: &str) {
        self.bar.suspend(|| crate::console::say(message));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some((ended, thread)) = self.drawer.take() {
            drop(ended);
            // a thread that panicked has drawn nothing that matters
            let _ = thread.join();
        }
        self.bar.finish_and_clear();
    }
}
