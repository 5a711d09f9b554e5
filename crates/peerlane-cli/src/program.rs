//! Runs other programs, and this one as a worker, with a time limit; abandons those that hang.

use std::io::{self, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use peerlane_gpu::search::Missing;

/// How often an ending process is polled.
const LOOK: Duration = Duration::from_millis(2);

/// Limit of stderr that is kept, in bytes.
const MOST_TROUBLE: u64 = 64 << 10;

/// The output of a program.
#[derive(Debug)]
pub(crate) struct Said {
    /// Its standard output.
    pub(crate) output: Vec<u8>,
    /// Its standard error, as one line.
    pub(crate) trouble: String,
    /// How it ended.
    pub(crate) status: ExitStatus,
}

/// Why a program gave no usable output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Silent {
    /// It is not installed.
    Absent,
    /// It did not end in time, and was killed.
    Hung(Duration),
    /// Anything else, in words.
    Failed(String),
}

impl std::fmt::Display for Silent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Silent::Absent => f.write_str("not installed"),
            Silent::Hung(patience) => write!(f, "no answer within {} s; killed", patience.as_secs_f64()),
            Silent::Failed(why) => f.write_str(why),
        }
    }
}

impl From<Missing> for Silent {
    fn from(missing: Missing) -> Self {
        if missing.ignored.is_empty() { Silent::Absent } else { Silent::Failed(missing.to_string()) }
    }
}

/// Runs a program to its end, for at most `patience`; keeps at most `most` bytes of its output.
pub(crate) fn ask(command: &mut Command, patience: Duration, most: u64) -> Result<Said, Silent> {
    let until = Instant::now() + patience;
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(|e| {
            if e.kind() == io::ErrorKind::NotFound { Silent::Absent } else { Silent::Failed(e.to_string()) }
        })?;
    let output = child.stdout.take().map(|pipe| listen(pipe, most + 1));
    let trouble = child.stderr.take().map(|pipe| listen(pipe, MOST_TROUBLE));
    let heard = |pipe: Option<Receiver<io::Result<Vec<u8>>>>| match pipe.map(|pipe| pipe.recv_timeout(left(until))) {
        Some(Ok(Ok(bytes))) => Ok(bytes),
        Some(Ok(Err(error))) => Err(Silent::Failed(error.to_string())),
        Some(Err(_)) | None => Err(Silent::Hung(patience)),
    };
    let said = heard(output).and_then(|output| {
        if output.len() as u64 > most {
            return Err(Silent::Failed(format!("its output exceeds {} MiB", most >> 20)));
        }
        let trouble = heard(trouble)?;
        Ok((output, trouble))
    });
    let ended = match said {
        Ok((output, trouble)) => end(&mut child, until).ok_or(Silent::Hung(patience)).map(|s| (output, trouble, s)),
        Err(silent) => Err(silent),
    };
    match ended {
        Ok((output, trouble, status)) => {
            let trouble = String::from_utf8_lossy(&trouble);
            let words: Vec<&str> = trouble.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
            Ok(Said { output, trouble: words.join("; "), status })
        }
        Err(silent) => {
            leave(child);
            Err(silent)
        }
    }
}

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

/// Reads a pipe in a thread, so that one that stays open keeps nobody waiting.
fn listen(pipe: impl Read + Send + 'static, most: u64) -> Receiver<io::Result<Vec<u8>>> {
    let (send, receive) = mpsc::channel();
    let read = move || {
        let mut bytes = Vec::new();
        let read = pipe.take(most).read_to_end(&mut bytes).map(|_| bytes);
        // nobody listens any more once patience has run out
        let _ = send.send(read);
    };
    // without a thread the channel closes, and that is no answer
    let _ = thread::Builder::new().spawn(read);
    receive
}

/// How it ended, if it does in time.
fn end(child: &mut Child, until: Instant) -> Option<ExitStatus> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if left(until).is_zero() => return None,
            Ok(None) => thread::sleep(LOOK),
            Err(_) => return None,
        }
    }
}

/// Kills a program and waits briefly for its end. One that hangs inside the driver cannot be killed and is abandoned.
fn leave(mut child: Child) {
    let _ = child.kill();
    end(&mut child, Instant::now() + Duration::from_millis(200));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, patience: f64, most: u64) -> Result<Said, Silent> {
        ask(Command::new("sh").args(["-c", script]), Duration::from_secs_f64(patience), most)
    }

    #[test]
    fn output_errors_and_status() {
        let said = shell("echo out; echo one >&2; echo; echo ' two' >&2; exit 3", 10.0, 99).unwrap();
        assert_eq!((said.output.as_slice(), said.trouble.as_str()), (&b"out\n\n"[..], "one; two"));
        assert_eq!(said.status.code(), Some(3));
        assert_eq!(ask(&mut Command::new("/no/such/program"), LOOK, 9).unwrap_err(), Silent::Absent);
    }

    #[test]
    fn a_program_that_hangs_is_killed() {
        let began = Instant::now();
        let hung = shell("sleep 30", 0.1, 99).unwrap_err();
        assert_eq!(hung.to_string(), "no answer within 0.1 s; killed");
        // closed pipes do not mean that it ended
        assert!(matches!(shell("exec >&- 2>&-; sleep 30", 0.1, 99), Err(Silent::Hung(_))));
        assert!(began.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn excessive_output_is_an_error() {
        let flood = shell("yes", 20.0, 1 << 20).unwrap_err();
        assert_eq!(flood, Silent::Failed("its output exceeds 1 MiB".to_owned()));
    }
}
