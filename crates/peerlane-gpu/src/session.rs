//! A child process that calls a driver, as the process that started it sees it: requests go out and messages come in, a line of
//! JSON each. It may hang, crash or be killed at any moment, and each of these is an [`Event`].

mod last_words;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use peerlane_machine::one_line;
use serde::Serialize;
use serde::de::DeserializeOwned;

use last_words::LastWords;

/// The longest message in bytes. The rest of a longer line is no message.
const LONGEST: u64 = 64 << 20;

/// How often a process that ends is polled.
const LOOK: Duration = Duration::from_millis(5);

/// If a wait takes this much longer than requested, this process was stopped or the machine slept.
const OVERSLEPT: Duration = Duration::from_secs(1);

/// What a process is called, and how it is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Role {
    /// Its name at the beginning of a sentence: `the measuring process`.
    pub name: &'static str,
    /// How often a wait for a message looks whether it is cancelled.
    pub tick: Duration,
    /// How long it may take to end: the driver frees memory meanwhile.
    pub dying: Duration,
}

/// What came of a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<M> {
    /// A message.
    Message(M),
    /// No more messages come: it has closed its output, or wrote what is no message. Why, in a sentence with the last lines of
    /// its standard error.
    Lost(String),
    /// No sign of life for this long, which is longer than was granted.
    Silent(Duration),
}

/// A running process that sends messages `M`. Its standard input closes when this is dropped, upon which it should end.
pub struct Session<M> {
    role: Role,
    child: Arc<Mutex<Child>>,
    requests: Sender<Vec<u8>>,
    messages: Receiver<Result<M, String>>,
    last_words: LastWords,
    /// When it last gave a sign of life or received a request.
    since: Instant,
}

/// Kills a process, from whatever thread.
#[derive(Clone)]
pub struct Killer(Arc<Mutex<Child>>);

impl Killer {
    /// Kills it, without waiting for its end.
    pub fn kill(&self) {
        // one that has already ended cannot be killed, which is fine
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).kill();
    }
}

impl<M: DeserializeOwned + Send + 'static> Session<M> {
    /// Starts a process.
    ///
    /// # Errors
    /// The program cannot be started, or the system gives no pipe or thread.
    pub fn start(role: Role, mut command: Command) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let missing = || io::Error::other(format!("a pipe to {} is missing", role.name));
        let stdin = child.stdin.take().ok_or_else(missing)?;
        let stdout = child.stdout.take().ok_or_else(missing)?;
        let stderr = child.stderr.take().ok_or_else(missing)?;
        let (requests, further) = mpsc::channel();
        // a process that does not read keeps only this thread waiting
        thread::Builder::new().name("requests".to_owned()).spawn(move || write(stdin, &further))?;
        let (send, messages) = mpsc::channel();
        thread::Builder::new().name("messages".to_owned()).spawn(move || read(BufReader::new(stdout), &send))?;
        let last_words = LastWords::of(stderr)?;
        Ok(Session { role, child: Arc::new(Mutex::new(child)), requests, messages, last_words, since: Instant::now() })
    }

    /// Sends a request; silence counts from here.
    ///
    /// # Errors
    /// The request has no form in JSON. That the process has ended is an [`Event`].
    pub fn send(&mut self, request: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        self.since = Instant::now();
        self.requests.send(line).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }

    /// Waits for the next message, at most until the process has been silent for `patience`.
    pub fn next(&mut self, patience: Duration) -> Event<M> {
        loop {
            if let Some(event) = self.next_unless(patience, &mut || false) {
                return event;
            }
        }
    }

    /// [`Session::next`], with a look before each tick whether the wait is cancelled; `None` if it is.
    pub fn next_unless(&mut self, patience: Duration, cancelled: &mut dyn FnMut() -> bool) -> Option<Event<M>> {
        while !cancelled() {
            let (asked, wait) = (Instant::now(), self.role.tick.min(patience.saturating_sub(self.silence())));
            match self.messages.recv_timeout(wait) {
                Ok(Ok(message)) => {
                    self.since = Instant::now();
                    return Some(Event::Message(message));
                }
                Ok(Err(problem)) => {
                    return Some(Event::Lost(format!("{} sent an invalid message: {problem}", self.role.name)));
                }
                Err(RecvTimeoutError::Disconnected) => return Some(Event::Lost(self.end_in_words())),
                Err(RecvTimeoutError::Timeout) => self.waited(wait, asked.elapsed()),
            }
            let silence = self.silence();
            if silence >= patience {
                return Some(Event::Silent(silence));
            }
        }
        None
    }

    /// The next message that it sent before it was killed; `None` after the last.
    pub fn left(&self) -> Option<M> {
        self.messages.recv_timeout(self.role.tick).ok()?.ok()
    }

    /// Whatever stopped this process for longer than it wanted to wait may also have stopped the other.
    fn waited(&mut self, wanted: Duration, took: Duration) {
        if took > wanted + OVERSLEPT {
            self.since = Instant::now();
        }
    }

    /// How long it has been silent while this process listened.
    pub fn silence(&self) -> Duration {
        self.since.elapsed()
    }

    /// Kills it and waits for its end. Messages from before can still be received. False if it does not end, like a process in
    /// a driver call that never returns.
    pub fn kill(&self) -> bool {
        self.kill_within(self.role.dying)
    }

    /// [`Session::kill`] with at most so long a wait.
    pub fn kill_within(&self, patience: Duration) -> bool {
        self.killer().kill();
        self.status_within(patience).is_some()
    }

    /// What kills it from another thread.
    pub fn killer(&self) -> Killer {
        Killer(Arc::clone(&self.child))
    }

    /// Waits for its end, which it comes to by itself.
    pub fn finish(&self) {
        self.status_within(self.role.dying);
    }

    /// Whether it runs no more.
    pub fn has_ended(&self) -> bool {
        self.status_within(Duration::ZERO).is_some()
    }

    /// Its process number.
    pub fn id(&self) -> u32 {
        self.child.lock().unwrap_or_else(PoisonError::into_inner).id()
    }

    fn status_within(&self, patience: Duration) -> Option<ExitStatus> {
        let began = Instant::now();
        loop {
            match self.child.lock().unwrap_or_else(PoisonError::into_inner).try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if began.elapsed() < patience => {}
                Ok(None) | Err(_) => return None,
            }
            thread::sleep(LOOK);
        }
    }

    fn end_in_words(&self) -> String {
        let how = match self.status_within(self.role.dying) {
            Some(status) => format!("{} ended: {status}", self.role.name),
            None => format!("{} closed its output but still runs", self.role.name),
        };
        match self.last_words.text() {
            None => how,
            Some(words) => format!("{how}; its last output: {words}"),
        }
    }
}

/// Writes requests, and keeps the input open until no more can come.
fn write(mut stdin: ChildStdin, requests: &Receiver<Vec<u8>>) {
    while let Ok(line) = requests.recv() {
        // an error means that the process has ended, which its closed output tells
        let _ = stdin.write_all(&line);
    }
}

/// Reads messages until the end of the output: the names and messages of libraries in them, too, each on one line.
fn read<M: DeserializeOwned>(mut output: impl BufRead, send: &Sender<Result<M, String>>) {
    loop {
        let mut line = Vec::new();
        match output.by_ref().take(LONGEST).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let message = one_line::read(&mut serde_json::Deserializer::from_slice(&line));
        // an error means that nobody receives any more
        if send.send(message.map_err(|e: serde_json::Error| e.to_string())).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLE: Role = Role { name: "the child", tick: Duration::from_millis(10), dying: Duration::from_secs(10) };

    /// Longer than any wait that should end early.
    const LONG: Duration = Duration::from_secs(30);

    #[allow(clippy::disallowed_methods, reason = "tests choose their programs themselves")]
    fn shell(script: &str) -> Session<String> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        Session::start(ROLE, command).unwrap()
    }

    fn lost(script: &str) -> String {
        match shell(script).next(LONG) {
            Event::Lost(why) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn requests_are_answered_until_the_input_closes() {
        let mut session = shell("cat; echo '\"bye\"'");
        for word in ["one", "two\nlines"] {
            session.send(&word).unwrap();
            let Event::Message(answer) = session.next(LONG) else { panic!("no answer") };
            assert_eq!(answer, word.replace('\n', " "), "text from elsewhere is shown on one line");
        }
        assert!(!session.has_ended());
        let Session { requests, messages, .. } = session;
        drop(requests);
        assert_eq!(messages.recv_timeout(LONG).unwrap(), Ok("bye".to_owned()));
    }

    #[test]
    fn the_end_is_reported_with_the_last_words() {
        let why = lost("echo misaligned >&2; echo address >&2; exit 3");
        assert_eq!(why, "the child ended: exit status: 3; its last output: misaligned / address");
        assert_eq!(lost("kill -SEGV $$").split(" (core").next(), Some("the child ended: signal: 11 (SIGSEGV)"));
        assert!(lost("echo nonsense; sleep 60").starts_with("the child sent an invalid message: expected"));
    }

    #[test]
    fn a_process_that_is_silent_can_be_killed_and_what_it_sent_counts() {
        let mut session = shell(r#"printf '"first"\n"second"\n'; exec sleep 60"#);
        assert_eq!(session.next(LONG), Event::Message("first".to_owned()));
        assert!(session.kill() && session.has_ended());
        assert_eq!((session.left().as_deref(), session.left()), (Some("second"), None));
        let patience = Duration::from_millis(100);
        let Event::Silent(silence) = shell("exec sleep 60").next(patience) else { panic!("no silence") };
        assert!((patience..LONG).contains(&silence), "{silence:?}");
    }

    #[test]
    fn a_wait_is_cancelled_within_a_tick() {
        let (began, mut looks) = (Instant::now(), 0);
        let mut cancelled = || {
            looks += 1;
            looks > 3
        };
        assert_eq!(shell("exec sleep 60").next_unless(LONG, &mut cancelled), None);
        assert!(began.elapsed() < LONG / 2, "{:?}", began.elapsed());
    }

    #[test]
    fn another_thread_can_kill_while_this_one_waits() {
        let mut session = shell("exec sleep 60");
        let killer = session.killer();
        thread::spawn(move || killer.kill());
        assert_eq!(session.next(LONG), Event::Lost("the child ended: signal: 9 (SIGKILL)".to_owned()));
    }

    #[test]
    fn time_without_listening_does_not_count_as_silence() {
        let mut session = shell("exec sleep 60");
        let before = Duration::from_secs(26);
        session.since = Instant::now() - before;
        session.waited(ROLE.tick, ROLE.tick);
        assert!(session.silence() >= before);
        session.waited(ROLE.tick, Duration::from_secs(3600));
        assert!(session.silence() < before, "the machine slept");
        session.since = Instant::now() - before;
        session.send(&"go on").unwrap();
        assert!(session.silence() < before, "it was not asked for anything");
    }
}
