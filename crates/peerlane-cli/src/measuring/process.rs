//! A worker process: start, listen, and kill within a bounded wait.

use std::env;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use peerlane::one_line;
use peerlane::plan::Plan;
use peerlane::tune;
use peerlane::units::Seconds;
use peerlane_gpu::{LastWords, search};

use serde::Serialize;

use crate::system;

use super::protocol::{AHEAD, Message, Request, Trial};

/// The hidden command that makes this program a worker.
pub(crate) const COMMAND: &str = "worker";

/// How long a process may take to die: the driver frees a GPU's memory meanwhile.
const DYING: Duration = Duration::from_secs(10);

/// How often a dying process is polled.
const LOOK: Duration = Duration::from_millis(5);

/// The longest single wait for a message.
pub(crate) const TICK: Duration = Duration::from_millis(50);

/// If a wait takes this much longer than requested, this process was stopped or the machine slept.
const OVERSLEPT: Duration = Duration::from_secs(1);

/// Extra patience beyond that of a step, since the worker's own report on a hung step is more precise.
const GRACE: f64 = 1.25;

/// How many times longer than a step opening the machine may take.
const OPENING: f64 = 3.0;

/// Something received from a worker.
pub(crate) enum Heard {
    /// A message.
    Message(Box<Message>),
    /// An invalid line.
    Garbled(String),
    /// The end of its output.
    Closed,
}

/// A running worker.
pub(crate) struct Worker {
    child: Child,
    heard: Receiver<Heard>,
    last: LastWords,
    /// Sends to its stdin. The worker ends when stdin is closed, which is when this is dropped.
    lines: Sender<Vec<u8>>,
}

impl Worker {
    /// Starts a worker.
    pub(crate) fn start(request: &Request) -> io::Result<Worker> {
        Self::spawn(request.trial.as_ref(), line(request)?)
    }

    /// Starts a worker for this machine's GPUs before it is known what it is to do. It starts the driver and NVML meanwhile.
    pub(crate) fn ahead() -> io::Result<Worker> {
        Self::spawn(None, format!("{AHEAD}\n").into_bytes())
    }

    /// Gives a worker that was started ahead its request.
    pub(crate) fn request(&self, request: &Request) -> io::Result<()> {
        self.send(line(request)?)
    }

    /// Starts the process, and sends it a line.
    fn spawn(trial: Option<&Trial>, line: Vec<u8>) -> io::Result<Worker> {
        let mut command = search::own_command()?;
        if let Some(trial) = trial {
            let inherited =
                env::vars_os().map(|(name, _)| name).filter(|name| name.as_encoded_bytes().starts_with(b"NCCL_"));
            for name in inherited {
                command.env_remove(name);
            }
            command.envs(&trial.variables).envs(tune::ALWAYS);
        }
        // Ctrl-C is for this process only, which then ends the worker in order
        system::own_group(&mut command);
        let mut child =
            command.arg(COMMAND).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let missing = || io::Error::other("a pipe to the worker is missing");
        let stdin = child.stdin.take().ok_or_else(missing)?;
        let stdout = child.stdout.take().ok_or_else(missing)?;
        let stderr = child.stderr.take().ok_or_else(missing)?;
        let (lines, more) = mpsc::channel();
        thread::spawn(move || feed(stdin, &line, &more));
        let (send, heard) = mpsc::channel();
        thread::spawn(move || listen(BufReader::new(stdout), &send));
        let last = LastWords::of(stderr)?;
        Ok(Worker { child, heard, last, lines })
    }

    /// Sends a further plan to a worker that expects more.
    pub(crate) fn ask(&self, plan: &Plan) -> io::Result<()> {
        self.send(line(plan)?)
    }

    fn send(&self, line: Vec<u8>) -> io::Result<()> {
        self.lines.send(line).map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))
    }

    /// The next message within `patience`.
    pub(crate) fn hear(&self, patience: Duration) -> Option<Heard> {
        match self.heard.recv_timeout(patience) {
            Ok(heard) => Some(heard),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Heard::Closed),
        }
    }

    /// Kills it. Its earlier messages can still be received. False if it does not die, like a process in a driver call
    /// that never returns.
    pub(crate) fn kill(&mut self) -> bool {
        self.kill_within(DYING)
    }

    /// The same, waiting at most so long for its end.
    pub(crate) fn kill_within(&mut self, patience: Duration) -> bool {
        // killing a process that has already ended fails, which is fine
        let _ = self.child.kill();
        self.ended_within(patience).is_some()
    }

    /// Waits for its end; `None` if it takes too long.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.ended_within(DYING)
    }

    fn ended_within(&mut self, patience: Duration) -> Option<ExitStatus> {
        let began = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if began.elapsed() < patience => thread::sleep(LOOK),
                Ok(None) | Err(_) => return None,
            }
        }
    }

    /// Its process number.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, in words, with the last lines of its stderr.
    pub(crate) fn epitaph(&mut self) -> String {
        let how = match self.ended() {
            Some(status) => match (system::killed_by(status), status.code()) {
                (Some(signal), _) => format!("was killed by {signal}"),
                (None, Some(code)) => format!("ended with status {code}"),
                (None, None) => "ended".to_owned(),
            },
            None => "closed its output but still runs".to_owned(),
        };
        match self.last.said() {
            None => format!("the measuring process {how}"),
            Some(words) => format!("the measuring process {how}; its last output: {words}"),
        }
    }
}

/// A line of JSON.
fn line(of: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(of)?;
    line.push(b'\n');
    Ok(line)
}

/// How long a worker has been silent while this process listened.
pub(crate) struct Silence {
    since: Instant,
}

impl Silence {
    /// Starts now.
    pub(crate) fn new() -> Self {
        Silence { since: Instant::now() }
    }

    /// The next message of a worker within a tick.
    pub(crate) fn hear(&mut self, worker: &Worker) -> Option<Heard> {
        let asked = Instant::now();
        let heard = worker.hear(TICK);
        self.listened(asked.elapsed(), heard.is_some());
        heard
    }

    /// Counts a wait, with or without a message. Whatever stopped this process for longer than it wanted to wait may also
    /// have stopped the worker.
    fn listened(&mut self, time: Duration, heard: bool) {
        if heard || time > TICK + OVERSLEPT {
            self.since = Instant::now();
        }
    }

    /// The silence in seconds, once it is longer than a step, or opening the machine, may take.
    pub(crate) fn too_long(&self, patience: Seconds, opened: bool) -> Option<f64> {
        let limit = patience.seconds() * if opened { GRACE } else { OPENING };
        Some(self.since.elapsed().as_secs_f64()).filter(|silent| *silent > limit)
    }
}

/// Writes the request and further plans, and keeps stdin open.
fn feed(mut stdin: ChildStdin, line: &[u8], more: &Receiver<Vec<u8>>) {
    // an error means that the worker has ended, which is noticed elsewhere
    let _ = stdin.write_all(line);
    while let Ok(line) = more.recv() {
        let _ = stdin.write_all(&line);
    }
}

/// What a worker writes: the names and messages of libraries, too, each on one line.
fn message(line: &[u8]) -> Result<Message, serde_json::Error> {
    one_line::read(&mut serde_json::Deserializer::from_slice(line))
}

fn listen(lines: impl BufRead, send: &Sender<Heard>) {
    for line in lines.split(b'\n') {
        let heard = match line.as_deref().map(message) {
            Ok(Ok(message)) => Heard::Message(Box::new(message)),
            Ok(Err(error)) => Heard::Garbled(error.to_string()),
            Err(_) => break,
        };
        if send.send(heard).is_err() {
            return;
        }
    }
    // an error means that the receiver is gone
    let _ = send.send(Heard::Closed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_without_listening_does_not_count_as_silence() {
        let patience = Seconds::new(20.0);
        let silent = |seconds| Silence { since: Instant::now() - Duration::from_secs(seconds) };
        let mut silence = silent(26);
        silence.listened(TICK, false);
        assert!(silence.too_long(patience, true).is_some_and(|s| (26.0..27.0).contains(&s)));
        assert!(silence.too_long(patience, false).is_none(), "opening takes longer");
        assert!(silent(24).too_long(patience, true).is_none() && silent(61).too_long(patience, false).is_some());
        silence.listened(Duration::from_secs(3600), false);
        assert!(silence.too_long(patience, true).is_none(), "the machine slept");
        let mut answered = silent(26);
        answered.listened(TICK, true);
        assert!(answered.too_long(patience, true).is_none());
    }
}
