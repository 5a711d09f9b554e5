//! The process that calls CUDA, as the one that started it sees it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use peerlane_gpu::LastWords;

use super::{Answer, Ask, Found};

/// The longest answer.
const LONGEST_LINE: u64 = 1 << 20;

/// How long a killed process may take to be gone.
const DYING: Duration = Duration::from_secs(1);

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Unheard {
    /// It still runs, as far as is known.
    Silent(Duration),
    Ended,
}

/// A running process.
pub(super) struct Process {
    child: Arc<Mutex<Child>>,
    stdin: Option<ChildStdin>,
    answers: Receiver<Answer>,
    last: LastWords,
    /// Its GPUs, once it has opened them.
    pub(super) found: Found,
}

/// Kills the process, from whatever thread.
#[derive(Clone)]
pub(super) struct Killer(Arc<Mutex<Child>>);

impl Killer {
    pub(super) fn kill(&self) {
        // one that has already ended cannot be killed, which is fine
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).kill();
    }
}

impl Process {
    pub(super) fn start(mut command: Command) -> io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        let missing = || io::Error::other("a pipe to the process is missing");
        let stdin = child.stdin.take().ok_or_else(missing)?;
        let (stdout, stderr) = (child.stdout.take().ok_or_else(missing)?, child.stderr.take().ok_or_else(missing)?);
        let (send, answers) = mpsc::channel();
        let listen = move || {
            let mut lines = BufReader::new(stdout);
            while let Some(answer) = line(&mut lines).and_then(|line| serde_json::from_slice(&line).ok()) {
                if send.send(answer).is_err() {
                    break;
                }
            }
        };
        thread::Builder::new().name("GPUs' answers".to_owned()).spawn(listen)?;
        let last = LastWords::of(stderr)?;
        let child = Arc::new(Mutex::new(child));
        Ok(Process { child, stdin: Some(stdin), answers, last, found: Found::default() })
    }

    pub(super) fn killer(&self) -> Killer {
        Killer(Arc::clone(&self.child))
    }

    pub(super) fn has_ended(&mut self) -> bool {
        !matches!(self.child.lock().unwrap_or_else(PoisonError::into_inner).try_wait(), Ok(None))
    }

    pub(super) fn tell(&mut self, ask: &Ask) -> Result<(), Unheard> {
        let Some(stdin) = &mut self.stdin else { return Err(Unheard::Ended) };
        let mut line = serde_json::to_vec(ask).map_err(|_| Unheard::Ended)?;
        line.push(b'\n');
        stdin.write_all(&line).map_err(|_| Unheard::Ended)
    }

    pub(super) fn hear(&mut self, patience: Duration) -> Result<Answer, Unheard> {
        self.answers.recv_timeout(patience).map_err(|e| match e {
            RecvTimeoutError::Timeout => Unheard::Silent(patience),
            RecvTimeoutError::Disconnected => Unheard::Ended,
        })
    }

    pub(super) fn ask(&mut self, ask: &Ask, patience: Duration) -> Result<Answer, Unheard> {
        self.tell(ask)?;
        self.hear(patience)
    }

    /// How it ended, with its last words.
    pub(super) fn epitaph(&mut self) -> String {
        let began = Instant::now();
        while !self.has_ended() && began.elapsed() < DYING {
            thread::sleep(super::LOOK);
        }
        let status = self.child.lock().unwrap_or_else(PoisonError::into_inner).try_wait();
        let how = status.ok().flatten().map_or_else(|| "closed its output".to_owned(), |status| status.to_string());
        match self.last.said() {
            None => format!("the GPUs' process ended: {how}"),
            Some(words) => format!("the GPUs' process ended: {how}; its last output: {words}"),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // it ends when its input does, unless the driver holds it
        self.stdin = None;
        self.killer().kill();
        let began = Instant::now();
        while !self.has_ended() && began.elapsed() < DYING {
            thread::sleep(super::LOOK);
        }
    }
}

fn line(from: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    let read = from.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
    read.ok().filter(|bytes| *bytes > 0).map(|_| line)
}
