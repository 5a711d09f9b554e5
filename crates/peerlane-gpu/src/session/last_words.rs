//! The last lines that a process writes to its standard error: a driver, or the loader, says there why it ends.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use peerlane_machine::one_line::one_line;

/// Lines that are kept.
const LINES: usize = 8;

/// The longest line in bytes; more of it is a line of its own.
const LONGEST: u64 = 4096;

/// How long to wait for the rest after the process has ended. A process it started may hold the pipe open for longer.
const REST: Duration = Duration::from_secs(1);

/// The last lines of a stream, which a thread of their own reads.
pub(super) struct LastWords {
    lines: Arc<Mutex<VecDeque<String>>>,
    /// Closed by the end of the stream.
    all: Receiver<()>,
}

impl LastWords {
    /// Begins to read. Fails where the system gives no thread.
    pub(super) fn of(stream: impl Read + Send + 'static) -> io::Result<Self> {
        let lines: Arc<Mutex<VecDeque<String>>> = Arc::default();
        let (at_end, all) = mpsc::channel::<()>();
        let kept = Arc::clone(&lines);
        thread::Builder::new().name("last words".to_owned()).spawn(move || {
            keep(BufReader::new(stream), &kept);
            drop(at_end);
        })?;
        Ok(LastWords { lines, all })
    }

    /// The last lines, oldest first, joined by ` / `, each without characters that are hidden; for once the process has
    /// ended, since it waits for the end of the stream, at most a second. `None` if there are none.
    pub(super) fn text(&self) -> Option<String> {
        // what a process wrote before it ended may still be in the pipe
        let _ = self.all.recv_timeout(REST);
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        (!lines.is_empty()).then(|| lines.iter().map(String::as_str).collect::<Vec<_>>().join(" / "))
    }
}

fn keep(mut stream: impl BufRead, lines: &Mutex<VecDeque<String>>) {
    loop {
        let mut line = Vec::new();
        match stream.by_ref().take(LONGEST).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        let line = one_line(String::from_utf8_lossy(&line).trim()).into_owned();
        if line.is_empty() {
            continue;
        }
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    /// Gives a chunk after a wait each time, then ends, or stays open.
    struct Late {
        chunks: VecDeque<&'static [u8]>,
        wait: Duration,
        stays: bool,
    }

    impl Read for Late {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            thread::sleep(self.wait);
            match self.chunks.pop_front() {
                Some(chunk) => {
                    buffer[..chunk.len()].copy_from_slice(chunk);
                    Ok(chunk.len())
                }
                None if self.stays => {
                    thread::sleep(Duration::from_secs(60));
                    Ok(0)
                }
                None => Ok(0),
            }
        }
    }

    fn text(chunks: &[&'static [u8]], stays: bool) -> Option<String> {
        let chunks = chunks.iter().copied().collect();
        LastWords::of(Late { chunks, wait: Duration::from_millis(50), stays }).unwrap().text()
    }

    #[test]
    fn what_is_still_on_its_way_is_waited_for() {
        assert_eq!(text(&[b"one\n", b"\n  two", b" \x1b[31m\nthree"], false).unwrap(), "one / two  [31m / three");
        assert_eq!(text(&[], false), None);
    }

    #[test]
    fn a_pipe_that_another_process_holds_open_is_not_waited_for_long() {
        let began = Instant::now();
        assert_eq!(text(&[b"words\n"], true).unwrap(), "words");
        assert!((REST..REST * 10).contains(&began.elapsed()), "{:?}", began.elapsed());
    }

    #[test]
    fn only_the_last_lines_are_kept() {
        let lines: &'static str = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n";
        assert_eq!(text(&[lines.as_bytes()], false).unwrap(), "3 / 4 / 5 / 6 / 7 / 8 / 9 / 10");
    }
}
