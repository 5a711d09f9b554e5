//! The transport that always works: sockets, over whatever network the hosts' routing takes.

mod memory;
mod pattern;
mod streams;

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use peerlane_gpu::GpuSink;
use peerlane_machine::units::Seconds;
use peerlane_measure::measure::{Failure, Verdict};
use peerlane_measure::nodes::{Memory, Probe, Step};
use peerlane_measure::run::FlagKind;

use crate::door::Door;
use crate::handshake::{Purpose, answer};
use crate::secret::Secret;
use crate::transport::Side;
pub(crate) use memory::{Arriving, Ends, HEADER, Outgoing};
use streams::Streams;

/// The most streams of one step.
const MOST_STREAMS: u32 = 256;

/// The most bytes of one message.
const MOST_SIZE: u64 = 1 << 30;

/// A stream of a step, with its number.
type Arrived = (u32, Arc<TcpStream>);

/// The port at which other nodes' streams reach this one: one for all steps.
pub(crate) struct Hub {
    door: Door,
    secret: Secret,
    waiting: Arc<Mutex<HashMap<u64, Sender<Arrived>>>>,
}

impl Hub {
    /// Listens at this address of the host's.
    pub(crate) fn open(address: IpAddr, secret: &Secret) -> io::Result<Self> {
        let waiting: Arc<Mutex<HashMap<u64, Sender<Arrived>>>> = Arc::default();
        let to = Arc::clone(&waiting);
        let welcome = move |stream, purpose: Purpose, _key| {
            let Some((step, number)) = read_purpose(&purpose) else { return };
            let to = to.lock().unwrap_or_else(PoisonError::into_inner).get(&step).cloned();
            if let Some(to) = to {
                let _ = to.send((number, stream));
            }
        };
        let listener = TcpListener::bind((address, 0))?;
        let most = MOST_STREAMS as usize + 64;
        let door = Door::open(listener, secret.clone(), most, Arc::new(welcome))?;
        Ok(Hub { door, secret: secret.clone(), waiting })
    }

    /// One side of a step with host memory. The active one connects, the other one waits for it.
    pub(crate) fn side(&self, step: &Step, active: bool, patience: Seconds) -> Result<Tcp, Failure> {
        if let Some(end) =
            [&step.from, &step.to].into_iter().find(|end| end.nic.is_some() || end.memory != Memory::Host)
        {
            let nic = end.nic.as_deref().unwrap_or("a NIC");
            return Err(Failure::new(
                FlagKind::NotApplicable,
                format!("TCP takes the host's memory and routing, not {} and {nic}", end.memory),
            ));
        }
        self.side_of_any(step, active, patience)
    }

    /// The same whatever the memory is: the caller gives it, with the connection.
    pub(crate) fn side_of_any(&self, step: &Step, active: bool, patience: Seconds) -> Result<Tcp, Failure> {
        let not_applicable = |why: String| Failure::new(FlagKind::NotApplicable, why);
        if !matches!(step.probe, Probe::Send | Probe::SendBoth | Probe::Latency) {
            return Err(not_applicable(format!("TCP has no {}", step.probe)));
        }
        let (size, count) = (step.size.0, step.queue_pairs);
        if size == 0 || size > MOST_SIZE || count == 0 || count > MOST_STREAMS {
            return Err(not_applicable(format!(
                "{count} streams of {size} bytes: at most {MOST_STREAMS} of {MOST_SIZE}"
            )));
        }
        let mut id = [0; 8];
        getrandom::fill(&mut id).map_err(|e| failed(format!("no random numbers: {e}")))?;
        let id = u64::from_be_bytes(id);
        let arrivals = (!active).then(|| {
            let (sender, arrivals) = mpsc::channel();
            self.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(id, sender);
            arrivals
        });
        Ok(Tcp {
            id,
            probe: step.probe,
            size: size as usize,
            count,
            patience: Duration::from_secs_f64(patience.seconds().clamp(0.1, 3600.0)),
            secret: self.secret.clone(),
            address: self.door.address(),
            arrivals,
            waiting: Arc::clone(&self.waiting),
            streams: None,
        })
    }
}

/// One side of a step.
pub(crate) struct Tcp {
    /// The number that the waiting side made for the step.
    id: u64,
    probe: Probe,
    size: usize,
    count: u32,
    patience: Duration,
    secret: Secret,
    address: SocketAddr,
    /// Of the side that waits.
    arrivals: Option<Receiver<Arrived>>,
    waiting: Arc<Mutex<HashMap<u64, Sender<Arrived>>>>,
    streams: Option<Streams>,
}

impl Tcp {
    fn streams(&mut self) -> Result<&mut Streams, Failure> {
        self.streams.as_mut().ok_or_else(|| failed("the sides are not connected".to_owned()))
    }

    /// Connects, and gives each stream its memory: `ends` makes that of so many streams, with content that follows from a
    /// number of the step's.
    pub(crate) fn connect_with(
        &mut self,
        peer: &str,
        ends: &mut dyn FnMut(u64, usize) -> Result<Vec<Ends>, Failure>,
    ) -> Result<(), Failure> {
        let connected = match &self.arrivals {
            Some(arrivals) => self.arrived(arrivals)?,
            None => {
                let read = || {
                    let (address, id) = peer.split_once(' ')?;
                    Some((address.parse().ok()?, u64::from_str_radix(id, 16).ok()?))
                };
                let (address, id) = read().ok_or_else(|| failed(format!("'{peer}' is not an address of TCP")))?;
                self.id = id;
                self.connected(address, id)?
            }
        };
        let ends = ends(self.id, connected.len())?;
        self.streams = Some(Streams::new(connected.into_iter().zip(ends), self.probe, self.size, self.patience));
        Ok(())
    }

    /// What arrived in GPU memory, by stream.
    pub(crate) fn sinks(&mut self) -> Vec<&mut GpuSink> {
        self.streams.as_mut().map_or_else(Vec::new, Streams::sinks)
    }

    /// The number that content follows from, once the sides are connected.
    pub(crate) fn seed(&self) -> u64 {
        self.id
    }

    /// The streams from the other side, in the order of their numbers.
    fn arrived(&self, arrivals: &Receiver<Arrived>) -> Result<Vec<Arc<TcpStream>>, Failure> {
        let by = Instant::now() + self.patience;
        let mut streams: Vec<Option<Arc<TcpStream>>> = vec![None; self.count as usize];
        while let Some(missing) = streams.iter().position(Option::is_none) {
            let (number, stream) =
                arrivals.recv_timeout(by.saturating_duration_since(Instant::now())).map_err(|_| {
                    let why =
                        format!("stream {missing} of {} did not arrive at {}; a firewall?", self.count, self.address);
                    Failure::new(FlagKind::Hung, why)
                })?;
            if let Some(place) = streams.get_mut(number as usize) {
                *place = Some(stream);
            }
        }
        Ok(streams.into_iter().flatten().collect())
    }

    /// The streams to the other side.
    fn connected(&self, to: SocketAddr, id: u64) -> Result<Vec<Arc<TcpStream>>, Failure> {
        let by = Instant::now() + self.patience;
        let one = |number: u32| {
            let unreached = |why: String| failed(format!("cannot connect to {to}: {why}"));
            let left = by.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            let stream = TcpStream::connect_timeout(&to, left).map_err(|e| unreached(e.to_string()))?;
            let _ = stream.set_nodelay(true);
            answer(&stream, &self.secret, &write_purpose(id, number), by).map_err(|e| unreached(e.to_string()))?;
            Ok(Arc::new(stream))
        };
        (0..self.count).map(one).collect()
    }
}

impl Side for Tcp {
    fn address(&self) -> String {
        format!("{} {:016x}", self.address, self.id)
    }

    fn connect(&mut self, peer: &str) -> Result<(), Failure> {
        let size = self.size;
        self.connect_with(peer, &mut |seed, count| Ok((0..count).map(|_| Ends::of_host(seed, size)).collect()))
    }

    fn sample(&mut self, n: usize, time: Seconds) -> Result<Vec<f64>, Failure> {
        self.streams()?.sample(n, time)
    }

    fn serve(&mut self, until: &dyn Fn() -> bool) -> Result<(), Failure> {
        self.streams()?.serve(until)
    }

    fn verify(&mut self) -> Result<Verdict, Failure> {
        Ok(self.streams()?.verdict())
    }
}

impl Drop for Tcp {
    fn drop(&mut self) {
        if self.arrivals.is_some() {
            self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
        }
    }
}

fn failed(message: String) -> Failure {
    Failure::new(FlagKind::Failed, message)
}

/// What a stream is for: the step and the stream's number.
fn write_purpose(step: u64, number: u32) -> Purpose {
    let mut purpose = Purpose::default();
    purpose[..7].copy_from_slice(b"stream ");
    purpose[8..16].copy_from_slice(&step.to_be_bytes());
    purpose[16..20].copy_from_slice(&number.to_be_bytes());
    purpose
}

fn read_purpose(purpose: &Purpose) -> Option<(u64, u32)> {
    let step = u64::from_be_bytes(purpose[8..16].try_into().ok()?);
    let number = u32::from_be_bytes(purpose[16..20].try_into().ok()?);
    (write_purpose(step, number) == *purpose).then_some((step, number))
}

#[cfg(test)]
mod tests;
