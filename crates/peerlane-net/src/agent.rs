//! A node's part of a run: it finds the head, joins, and makes its sides of the steps that the head names.

mod step;

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use peerlane_gpu::port_errors;
use peerlane_measure::measure::Failure;
use peerlane_measure::nodes::{Node, Step, Transport};
use peerlane_measure::run::FlagKind;

use crate::gpu::GpuSides;
use crate::handshake::{Refusal, answer};
use crate::launcher::HostPort;
use crate::message::{Hello, ToAgent, ToHead, VERSION};
use crate::secret::Secret;
use crate::tcp::Hub;
use crate::transport::{Part, Side};
use crate::verbs::Verbs;
use crate::wire::{End, Sender, halves};
use crate::{Error, JOIN, PULSE, SILENCE};
use step::Steps;

/// How long one attempt to reach the head may take.
const ATTEMPT: Duration = Duration::from_secs(3);

/// Where the kernel shows devices.
const SYS: &str = "/sys";

/// Time between attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// Time after which a refusal of the secret is believed. It may be that of another run's head, beside which the right one is not
/// there yet.
const BELIEVED: Duration = Duration::from_secs(5);

/// What an agent needs to join.
pub struct Join<'a> {
    /// Shared by all.
    pub secret: &'a Secret,
    /// Number of this process.
    pub rank: usize,
    /// How many processes its launcher started.
    pub size: usize,
    /// What it reports; absent of a process that is not the first of its node.
    pub node: Option<Node>,
    /// Its GPUs, where it has some.
    pub gpus: Option<Arc<GpuSides>>,
    /// Where the head may be, asked before each attempt.
    pub heads: &'a dyn Fn() -> Vec<HostPort>,
    /// Ports of heads that were given without one.
    pub ports: Vec<u16>,
    /// How long to look for the head.
    pub wait: Duration,
}

/// Takes part in a run until the head ends it.
///
/// # Errors
/// The head was not found, refused this process, or is gone.
pub fn take_part(join: Join<'_>) -> Result<(), Error> {
    let (stream, key) = find(&join)?;
    let head = stream.peer_addr().map_err(|e| Error::Gone(e.to_string()))?;
    let (sender, mut receiver) = halves(Arc::new(stream), &key, End::Agent);
    let sender = Arc::new(Mutex::new(sender));
    let Join { rank, size, node, gpus, .. } = join;
    let mut counted = port_errors(SYS.as_ref());
    let hello = Hello { version: VERSION.to_owned(), rank, size, node };
    say(&sender, &ToHead::Hello(Box::new(hello))).map_err(gone)?;
    let _pulse = Pulse::start(Arc::clone(&sender));
    let mut steps: Option<Steps> = None;
    loop {
        let message = receiver.receive(SILENCE).map_err(|e| match e.kind() {
            ErrorKind::TimedOut => {
                Error::Gone(format!("the head at {head} has been silent for {} s", SILENCE.as_secs()))
            }
            _ => gone(e),
        })?;
        match message {
            ToAgent::Alive => {}
            ToAgent::Done => return Ok(()),
            ToAgent::Refused(why) => return Err(Error::Refused(why)),
            ToAgent::Count => {
                let now = port_errors(SYS.as_ref());
                let ports: BTreeSet<String> = now.errors.keys().map(|(_, (port, _))| port.clone()).collect();
                let errors = now.clone().since(&counted, Vec::new(), false).errors;
                counted = now;
                say(&sender, &ToHead::Counted { ports: ports.into_iter().collect(), errors }).map_err(gone)?;
            }
            ToAgent::Start { address } => {
                let transports = Transports::open(address, join.secret, gpus.clone());
                steps = Some(Steps::new(Arc::new(transports), Arc::clone(&sender)));
            }
            other => match &mut steps {
                Some(steps) => steps.take(other),
                None => return Err(Error::Gone("the head named a step before the start".to_owned())),
            },
        }
    }
}

fn gone(e: io::Error) -> Error {
    Error::Gone(match e.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            "the head closed the connection".to_owned()
        }
        _ => format!("the connection to the head failed: {e}"),
    })
}

/// Sends a message to the head.
fn say(sender: &Mutex<Sender>, message: &ToHead) -> io::Result<()> {
    sender.lock().unwrap_or_else(PoisonError::into_inner).send(message, SILENCE)
}

/// Tells the head that this process runs, until dropped.
struct Pulse(Arc<AtomicBool>);

impl Pulse {
    fn start(sender: Arc<Mutex<Sender>>) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        let beat = move || {
            while !seen.load(Ordering::Relaxed) && say(&sender, &ToHead::Alive).is_ok() {
                thread::park_timeout(PULSE);
            }
        };
        let _ = thread::Builder::new().name("pulse".to_owned()).stack_size(crate::STACK).spawn(beat);
        Pulse(ended)
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A connection to the head, and its key.
fn find(join: &Join<'_>) -> Result<(TcpStream, Secret), Error> {
    let by = Instant::now() + join.wait;
    let mut refused: Option<(Instant, String)> = None;
    loop {
        let heads = (join.heads)();
        let mut last = None;
        for head in &heads {
            let ports = head.port.map_or_else(|| join.ports.clone(), |port| vec![port]);
            for (address, result) in ports.iter().flat_map(|port| attempts(&head.host, *port, join.secret, by)) {
                match result {
                    Ok(found) => return Ok(found),
                    Err(Refusal::Secret) => {
                        refused.get_or_insert((Instant::now(), address));
                    }
                    Err(why) => last = Some(format!("{address}: {why}")),
                }
            }
        }
        if let Some((since, address)) = &refused
            && (since.elapsed() > BELIEVED || Instant::now() >= by)
        {
            return Err(Error::Secret(address.clone()));
        }
        if Instant::now() >= by {
            let names: Vec<&str> = heads.iter().map(|head| head.host.as_str()).collect();
            let wait = join.wait.as_secs_f64();
            return Err(Error::NoHead { heads: names.join(", "), wait, last: last.unwrap_or_default() });
        }
        thread::sleep(PAUSE);
    }
}

/// An address, and the connection with its key or why there is none.
type Attempt = (String, Result<(TcpStream, Secret), Refusal>);

/// Attempts at all addresses of a host.
fn attempts(host: &str, port: u16, secret: &Secret, by: Instant) -> Vec<Attempt> {
    let addresses: Vec<SocketAddr> = match (host, port).to_socket_addrs() {
        Ok(addresses) => addresses.collect(),
        Err(e) => return vec![(host.to_owned(), Err(Refusal::Io(e)))],
    };
    let one = |address: SocketAddr| {
        let limit = ATTEMPT.min(by.saturating_duration_since(Instant::now())).max(Duration::from_millis(50));
        let stream = TcpStream::connect_timeout(&address, limit)?;
        stream.set_nodelay(true)?;
        let key = answer(&stream, secret, &JOIN, Instant::now() + limit)?;
        Ok((stream, key))
    };
    addresses.into_iter().map(|address| (address.to_string(), one(address))).collect()
}

/// What this node can measure with.
pub(crate) struct Transports {
    tcp: Result<Hub, String>,
    gpus: Option<Arc<GpuSides>>,
}

impl Transports {
    fn open(address: IpAddr, secret: &Secret, gpus: Option<Arc<GpuSides>>) -> Self {
        if let Some(gpus) = &gpus {
            gpus.listen(address, secret);
        }
        let tcp = Hub::open(address, secret).map_err(|e| format!("cannot listen at {address}: {e}"));
        Transports { tcp, gpus }
    }

    /// This node's side of a step.
    pub(crate) fn side(&self, step: &Step, part: Part) -> Result<Box<dyn Side>, Failure> {
        let Part { active, patience, .. } = part;
        match step.transport {
            Transport::Tcp if !step.is_of_gpus() => match &self.tcp {
                Ok(hub) => Ok(Box::new(hub.side(step, active, patience)?)),
                Err(why) => Err(Failure::new(FlagKind::Failed, why)),
            },
            Transport::Verbs if !step.is_of_gpus() => Ok(Box::new(Verbs::new(step, active, patience)?)),
            Transport::Nccl | Transport::Tcp | Transport::Verbs => match &self.gpus {
                Some(gpus) => Ok(Box::new(gpus.side(step, part)?)),
                None => Err(Failure::new(FlagKind::NotApplicable, "this node has no GPU that can be used")),
            },
        }
    }
}
