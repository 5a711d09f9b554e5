//! What goes over the streams of a step.
//!
//! A message is a header of 16 bytes (what it is, and a number) and, if it is data, the step's bytes of content. The side that
//! takes samples sends data until the time is over, then `END`; the other one answers how many messages arrived. So a
//! rate is of bytes that have arrived, and its time ends when the sender knows that. Content is the same in every message of a
//! direction, so that it can be compared without taking time from the sender: the last message of each sample is.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Barrier};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use peerlane_gpu::GpuSink;
use peerlane_machine::units::Seconds;
use peerlane_measure::measure::{Failure, Verdict};
use peerlane_measure::nodes::Probe;
use peerlane_measure::run::FlagKind;

use super::memory::{Arriving, Ends, HEADER, Outgoing};
use crate::transport::taken;

/// Kinds of messages: data, whose number counts them; the end of a sample, with the count of messages.
const DATA: u64 = 1;
const END: u64 = 2;
/// How many messages arrived.
const ARRIVED: u64 = 3;
/// The other side is to send too, for this many nanoseconds.
const BOTH: u64 = 4;
/// A message that is to be sent back.
const PING: u64 = 5;

/// What reading gives where the other side has ended, between messages.
const ENDED: io::ErrorKind = io::ErrorKind::NotConnected;

/// How often the serving side looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(2);

/// The connected streams of one side.
pub(super) struct Streams {
    streams: Vec<Stream>,
    probe: Probe,
    size: usize,
    patience: Duration,
}

/// One stream.
struct Stream {
    socket: Arc<TcpStream>,
    /// Header and content that this side sends.
    out: Box<dyn Outgoing>,
    incoming: Incoming,
}

/// What arrives on a stream.
struct Incoming(Box<dyn Arriving>);

impl Streams {
    pub(super) fn new(
        sockets: impl Iterator<Item = (Arc<TcpStream>, Ends)>,
        probe: Probe,
        size: usize,
        patience: Duration,
    ) -> Self {
        let stream = |(socket, Ends { out, incoming }): (Arc<TcpStream>, Ends)| {
            // once, not for each call: a system call more would show in a latency
            let _ = socket.set_read_timeout(Some(patience));
            let _ = socket.set_write_timeout(Some(patience));
            Stream { socket, out, incoming: Incoming(incoming) }
        };
        Streams { streams: sockets.map(stream).collect(), probe, size, patience }
    }

    /// What arrived in GPU memory, by stream.
    pub(super) fn sinks(&mut self) -> Vec<&mut GpuSink> {
        self.streams.iter_mut().filter_map(|stream| stream.incoming.0.sink()).collect()
    }

    /// Takes up to `n` samples after one that is not counted, in which TCP finds its window.
    pub(super) fn sample(&mut self, n: usize, time: Seconds) -> Result<Vec<f64>, Failure> {
        let time = Duration::from_secs_f64(time.seconds().clamp(1e-6, 3600.0));
        let patience = self.patience;
        let mut one = || if self.probe == Probe::Latency { self.half_round_trip(time) } else { self.rate(time) };
        one().and_then(|_| taken(n, patience, one)).map_err(failure)
    }

    /// All streams at once: the bytes that arrived, by the time from the first start to the last answer.
    fn rate(&mut self, time: Duration) -> io::Result<f64> {
        let (probe, start) = (self.probe, Barrier::new(self.streams.len()));
        let spans = thread::scope(|scope| {
            let one = |stream| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    let began = Instant::now();
                    let messages = Stream::run(stream, probe, time)?;
                    Ok((messages, began, Instant::now()))
                })
            };
            let threads: Vec<_> = self.streams.iter_mut().map(one).collect();
            joined(threads)
        })?;
        let messages: u64 = spans.iter().map(|(messages, ..)| messages).sum();
        let began = spans.iter().map(|(_, began, _)| *began).min();
        let ended = spans.iter().map(|(.., ended)| *ended).max();
        let (Some(began), Some(ended)) = (began, ended) else { return Ok(0.0) };
        Ok(messages as f64 * self.size as f64 / (ended - began).as_secs_f64())
    }

    /// On the first stream: the mean time of a message to and fro, halved.
    fn half_round_trip(&mut self, time: Duration) -> io::Result<f64> {
        let Some(stream) = self.streams.first_mut() else { return Err(io::ErrorKind::NotConnected.into()) };
        let began = Instant::now();
        let mut count = 0_u64;
        while count == 0 || began.elapsed() < time {
            stream.send(PING, count)?;
            stream.expect(PING, count)?;
            count += 1;
        }
        let mean = began.elapsed().as_secs_f64() / count as f64;
        stream.incoming.0.compare();
        Ok(mean / 2.0)
    }

    /// Answers the other side until told to stop.
    pub(super) fn serve(&mut self, until: &dyn Fn() -> bool) -> Result<(), Failure> {
        let sockets: Vec<_> = self.streams.iter().map(|stream| Arc::clone(&stream.socket)).collect();
        let (served, stopped) = thread::scope(|scope| {
            let threads: Vec<_> = self.streams.iter_mut().map(|s| scope.spawn(|| s.serve())).collect();
            while !threads.iter().all(ScopedJoinHandle::is_finished) && !until() {
                thread::sleep(LOOK);
            }
            let stopped = until();
            // wakes those that wait for another sample
            for socket in &sockets {
                let _ = socket.shutdown(Shutdown::Both);
            }
            (joined(threads), stopped)
        });
        match served {
            Err(e) if !stopped => Err(failure(e)),
            _ => Ok(()),
        }
    }

    /// Whether what arrived is what was sent.
    pub(super) fn verdict(&self) -> Verdict {
        let compared = || self.streams.iter().map(|stream| stream.incoming.0.compared()).enumerate();
        for (number, of) in compared() {
            if let Some((_, Some(how))) = of {
                return Verdict::Corrupt(format!("stream {number}: {how}"));
            }
        }
        let used = if self.probe == Probe::Latency { 1 } else { self.streams.len() };
        let missing = compared().take(used).find(|(_, of)| !of.is_some_and(|(compared, _)| compared));
        match missing {
            Some((number, _)) => Verdict::Unverified(format!("nothing arrived on stream {number}")),
            None => Verdict::Intact,
        }
    }
}

impl Stream {
    /// One sample on this stream: how many messages arrived.
    fn run(&mut self, probe: Probe, time: Duration) -> io::Result<u64> {
        if probe == Probe::SendBoth {
            self.header(BOTH, time.as_nanos() as u64)?;
            return self.both(time);
        }
        let sent = self.send_for(time)?;
        match self.next()? {
            (ARRIVED, arrived) if arrived == sent => Ok(sent),
            other => Err(unexpected(other)),
        }
    }

    /// What the other side's samples need, until it has no more: it may close before the head's order to stop is here.
    fn serve(&mut self) -> io::Result<()> {
        let mut arrived = 0;
        loop {
            let message = match self.next() {
                Err(e) if e.kind() == ENDED => return Ok(()),
                message => message?,
            };
            match message {
                (DATA, number) if number == arrived => arrived += 1,
                (END, sent) if sent == arrived => {
                    self.incoming.0.settle()?;
                    self.header(ARRIVED, arrived)?;
                    self.incoming.0.compare();
                    arrived = 0;
                }
                (PING, number) => {
                    self.send(PING, number)?;
                    // what is compared takes time from the answer to the next one, so few are
                    if number == 0 {
                        self.incoming.0.compare();
                    }
                }
                (BOTH, nanoseconds) => {
                    self.both(Duration::from_nanos(nanoseconds.min(3_600_000_000_000)))?;
                }
                other => return Err(unexpected(other)),
            }
        }
    }

    /// Both ways at once: how many messages arrived on both sides.
    fn both(&mut self, time: Duration) -> io::Result<u64> {
        let Stream { socket, out, incoming } = self;
        let (sent, arrived) = thread::scope(|scope| {
            let sender = scope.spawn(|| send_for(socket, out.as_mut(), time));
            let mut arrived = 0;
            let received = loop {
                match incoming.next(socket) {
                    Ok((DATA, number)) if number == arrived => arrived += 1,
                    Ok((END, sent)) if sent == arrived => break Ok(arrived),
                    Ok(other) => break Err(unexpected(other)),
                    Err(e) => break Err(e),
                }
            };
            let sent = sender.join().unwrap_or_else(|_| Err(io::Error::other("the sending thread failed")));
            io::Result::Ok((sent?, received?))
        })?;
        self.header(ARRIVED, arrived)?;
        match self.next()? {
            (ARRIVED, theirs) if theirs == sent => {}
            other => return Err(unexpected(other)),
        }
        self.incoming.0.compare();
        Ok(sent + arrived)
    }

    fn send_for(&mut self, time: Duration) -> io::Result<u64> {
        send_for(&self.socket, self.out.as_mut(), time)
    }

    /// A message with content.
    fn send(&mut self, kind: u64, number: u64) -> io::Result<()> {
        let message = self.out.message()?;
        write_header(message, kind, number);
        (&*self.socket).write_all(message)
    }

    /// A message without.
    fn header(&mut self, kind: u64, number: u64) -> io::Result<()> {
        (&*self.socket).write_all(&header(kind, number))
    }

    fn next(&mut self) -> io::Result<(u64, u64)> {
        self.incoming.next(&self.socket)
    }

    fn expect(&mut self, kind: u64, number: u64) -> io::Result<()> {
        match self.next()? {
            got if got == (kind, number) => Ok(()),
            other => Err(unexpected(other)),
        }
    }
}

impl Incoming {
    /// The next message, and its content if it has one; [`ENDED`] where the other side closed the connection after a whole one.
    fn next(&mut self, mut socket: &TcpStream) -> io::Result<(u64, u64)> {
        let mut header = [0; HEADER];
        let held = loop {
            match socket.read(&mut header) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Ok(0) => return Err(ENDED.into()),
                held => break held?,
            }
        };
        socket.read_exact(&mut header[held..])?;
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| header[at + i]));
        let (kind, number) = (word(0), word(8));
        if kind == DATA || kind == PING {
            socket.read_exact(self.0.room()?)?;
            self.0.filled()?;
        }
        Ok((kind, number))
    }
}

/// Sends data until the time is over, and how many messages there were.
fn send_for(mut socket: &TcpStream, out: &mut dyn Outgoing, time: Duration) -> io::Result<u64> {
    let began = Instant::now();
    let mut sent = 0;
    while sent == 0 || began.elapsed() < time {
        let message = out.message()?;
        write_header(message, DATA, sent);
        socket.write_all(message)?;
        sent += 1;
    }
    socket.write_all(&header(END, sent))?;
    Ok(sent)
}

fn header(kind: u64, number: u64) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    write_header(&mut header, kind, number);
    header
}

fn write_header(out: &mut [u8], kind: u64, number: u64) {
    out[..8].copy_from_slice(&kind.to_le_bytes());
    out[8..HEADER].copy_from_slice(&number.to_le_bytes());
}

/// The results of all threads, or the first failure.
fn joined<T>(threads: Vec<ScopedJoinHandle<'_, io::Result<T>>>) -> io::Result<Vec<T>> {
    let results: Vec<io::Result<T>> = threads
        .into_iter()
        .map(|thread| thread.join().unwrap_or_else(|_| Err(io::Error::other("a stream's thread failed"))))
        .collect();
    results.into_iter().collect()
}

fn unexpected((kind, number): (u64, u64)) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("message {kind} {number} out of order"))
}

fn failure(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => {
            Failure::new(FlagKind::Hung, "the other side stopped moving bytes")
        }
        ENDED | io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => {
            Failure::new(FlagKind::Failed, "the other side closed the connection")
        }
        _ => Failure::new(FlagKind::Failed, format!("TCP: {error}")),
    }
}

#[cfg(test)]
impl Streams {
    /// Makes this side send one wrong byte.
    pub(super) fn spoil(&mut self) {
        let message = self.streams[0].out.message().unwrap();
        message[HEADER + 100] ^= 1;
    }
}
