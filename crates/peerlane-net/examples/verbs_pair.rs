//! Two nodes measure each other by verbs, without the rest of peerlane: for trying an adapter, and for `scripts/softroce`.
//!
//! ```text
//! node1$ verbs_pair serve mlx5_0 PORT
//! node2$ verbs_pair measure mlx5_0 node1:PORT PROBE SIZE QUEUE-PAIRS SAMPLES SECONDS [--spoil]
//! ```
//!
//! PROBE: write, read, send, write-both, send-both or latency; SECONDS is the least time of a sample. `--spoil` changes one
//! byte of what is sent. The port asks for no secret: use it on a network where everybody may measure.

#![allow(clippy::print_stdout, reason = "a program")]
#![allow(clippy::print_stderr, reason = "a program")]

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

use peerlane_machine::stats::Median;
use peerlane_machine::units::{Bytes, Seconds};
use peerlane_measure::nodes::{End, Memory, Probe, Step, Transport};
use peerlane_net::transport::Side;
use peerlane_net::verbs::{Verbs, nics};

/// The longest wait for the other side, and for an adapter that reports nothing.
const PATIENCE: Duration = Duration::from_secs(5);

const PROBES: [Probe; 6] = [Probe::Write, Probe::Read, Probe::Send, Probe::WriteBoth, Probe::SendBoth, Probe::Latency];

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Lines to and from the other side.
struct Line {
    reader: BufReader<TcpStream>,
    stream: TcpStream,
}

impl Line {
    fn new(stream: TcpStream) -> Outcome<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Line { reader: BufReader::new(stream.try_clone()?), stream })
    }

    fn send(&mut self, text: &str) -> Outcome<()> {
        Ok(self.stream.write_all(format!("{text}\n").as_bytes())?)
    }

    fn receive(&mut self) -> Outcome<String> {
        let mut text = String::new();
        if self.reader.read_line(&mut text)? == 0 {
            return Err("the other side closed the connection".into());
        }
        Ok(text.trim_end().to_owned())
    }

    /// Whether the other side wrote something, or is gone.
    fn has_news(&self) -> bool {
        let _ = self.stream.set_nonblocking(true);
        let news = self.stream.peek(&mut [0]);
        let _ = self.stream.set_nonblocking(false);
        !news.is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock)
    }
}

/// The step that the words `PROBE SIZE QUEUE-PAIRS` name; each side knows its own NIC only.
fn step(nic: &str, words: &[&str]) -> Outcome<Step> {
    let [probe, size, queue_pairs] = words else { return Err("PROBE SIZE QUEUE-PAIRS are wanted".into()) };
    let probe = PROBES.into_iter().find(|p| p.name() == *probe).ok_or_else(|| format!("no probe is called {probe}"))?;
    let memory = nics().0.into_iter().find(|n| n.name == nic).map_or(Memory::Host, |n| n.memory);
    let end = End { node: 0, nic: Some(nic.to_owned()), memory };
    let (size, queue_pairs) = (Bytes(size.parse()?), queue_pairs.parse()?);
    Ok(Step { from: end.clone(), to: end, transport: Transport::Verbs, probe, size, queue_pairs, between: Vec::new() })
}

fn side(step: &Step, active: bool) -> Outcome<Verbs> {
    Ok(Verbs::new(step, active, Seconds::new(PATIENCE.as_secs_f64()))?)
}

/// Answers one step of the other side's.
fn answer(nic: &str, stream: TcpStream) -> Outcome<()> {
    let mut line = Line::new(stream)?;
    let wanted = line.receive()?;
    let mut side = side(&step(nic, &wanted.split(' ').collect::<Vec<_>>())?, false)?;
    line.send(&side.address())?;
    side.connect(&line.receive()?)?;
    line.send("ready")?;
    side.serve(&|| line.has_news())?;
    line.receive()?;
    line.send(&format!("{:?}", side.verify()?))
}

fn serve(nic: &str, port: &str) -> Outcome<()> {
    let listener = TcpListener::bind(("0.0.0.0", port.parse()?))?;
    for stream in listener.incoming() {
        if let Err(why) = answer(nic, stream?) {
            println!("{nic}: {why}");
        }
    }
    Ok(())
}

fn measure(nic: &str, address: &str, rest: &[&str]) -> Outcome<()> {
    let (rest, spoil) = match rest {
        [rest @ .., "--spoil"] => (rest, true),
        rest => (rest, false),
    };
    let [what @ .., samples, seconds] = rest else {
        return Err("PROBE SIZE QUEUE-PAIRS SAMPLES SECONDS are wanted".into());
    };
    let step = step(nic, what)?;
    let mut line = Line::new(TcpStream::connect(address)?)?;
    line.send(&what.join(" "))?;
    let mut side = side(&step, true)?;
    if spoil {
        side.spoil();
    }
    let peer = line.receive()?;
    line.send(&side.address())?;
    side.connect(&peer)?;
    line.receive()?;
    let values = side.sample(samples.parse()?, Seconds::new(seconds.parse()?))?;
    line.send("done")?;
    let (there, here) = (line.receive()?, side.verify()?);
    let median = Median::of(&values).ok_or("no samples")?;
    let (unit, scale) = if step.probe == Probe::Latency { ("µs", 1e6) } else { ("MB/s", 1e-6) };
    println!(
        "{} {} B x{}: {:.3} {unit} [{:.3}, {:.3}] of {}; there {there}; here {here:?}",
        step.probe,
        step.size.0,
        step.queue_pairs,
        median.value * scale,
        median.low * scale,
        median.high * scale,
        values.len(),
    );
    Ok(())
}

fn run() -> Outcome<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["nics"] => {
            println!("{:#?}", nics());
            Ok(())
        }
        ["serve", nic, port] => serve(nic, port),
        ["measure", nic, address, rest @ ..] => measure(nic, address, rest),
        _ => Err(
            "usage: verbs_pair nics | serve NIC PORT | measure NIC HOST:PORT PROBE SIZE QUEUE-PAIRS SAMPLES SECONDS"
                .into(),
        ),
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("verbs_pair: {why}");
            ExitCode::FAILURE
        }
    }
}
