//! The head: where agents come together, and from where their steps are driven.

mod agents;
mod round;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use peerlane_measure::nodes::Node;

use crate::door::{Door, Welcome};
use crate::message::{Hello, ToAgent, ToHead, VERSION};
use crate::secret::Secret;
use crate::wire::{self, End, halves};
use crate::{Error, JOIN, SILENCE};
pub use agents::Agents;

/// How long an agent may take to say who it is.
const HELLO: Duration = Duration::from_secs(10);

/// Connections without the secret at once, beside one of each process.
const STRANGERS: usize = 256;

/// How often a wait looks whether it was interrupted.
const LOOK: Duration = Duration::from_millis(100);

/// How long a message to an agent may take to leave.
const SEND: Duration = Duration::from_secs(1);

/// The connection to a process that has shown the secret.
struct Link {
    sender: Mutex<wire::Sender>,
    /// When it was heard last.
    heard: Mutex<Instant>,
    /// Its address, and the head's as it reached it.
    peer: IpAddr,
    own: IpAddr,
}

impl Link {
    fn send(&self, message: &ToAgent) -> std::io::Result<()> {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).send(message, SEND)
    }

    fn close(&self) {
        self.sender.lock().unwrap_or_else(PoisonError::into_inner).close();
    }

    fn heard(&self) -> Instant {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What happened on a connection, which has that number.
enum Event {
    Came(usize, Arc<Link>, Box<Hello>),
    Said(usize, ToHead),
    Gone(usize, String),
}

/// A port at which agents can join.
pub struct Head {
    door: Door,
    events: Receiver<Event>,
}

/// Who came, by rank: the number of the connection, the connection, what it said.
type Came = BTreeMap<usize, (usize, Arc<Link>, Box<Hello>)>;

impl Head {
    /// Listens at the first free one of these ports, for as many processes.
    ///
    /// # Errors
    /// Where none is free.
    pub fn listen(secret: &Secret, ports: &[u16], size: usize) -> Result<Self, Error> {
        allow_open_files();
        let (sender, events) = mpsc::channel();
        let (mut last, mut bound) = (String::new(), None);
        for port in ports {
            // one socket for both families, where the system has both
            let listener = TcpListener::bind((Ipv6Addr::UNSPECIFIED, *port)).or_else(|e| {
                if e.kind() == ErrorKind::AddrInUse {
                    Err(e)
                } else {
                    TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port))
                }
            });
            match listener {
                Ok(listener) => {
                    bound = Some(listener);
                    break;
                }
                Err(e) => last = e.to_string(),
            }
        }
        let listener = bound.ok_or_else(|| Error::NoPort { ports: ports.to_vec(), last })?;
        let door = Door::open(listener, secret.clone(), size + STRANGERS, welcome(sender))
            .map_err(|e| Error::NoPort { ports: ports.to_vec(), last: e.to_string() })?;
        Ok(Head { door, events })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.door.address().port()
    }

    /// Waits until all processes have come; then nothing listens here any more. `came` is told how many have, and ends the
    /// wait by giving false. If `same_host`, several may be on one host.
    ///
    /// # Errors
    /// Some did not come in time, or do not belong to this run. Those that came hear why.
    pub fn gather(
        self,
        size: usize,
        wait: Duration,
        same_host: bool,
        came: &mut dyn FnMut(usize) -> bool,
    ) -> Result<Agents, Error> {
        let by = Instant::now() + wait;
        let mut all = Came::new();
        let gathered = self.all(size, by, came, &mut all).and_then(|()| named(&all, same_host));
        match gathered {
            Ok(nodes) => Agents::start(self.events, all, nodes),
            Err(why) => {
                for (_, link, _) in all.values() {
                    let _ = link.send(&ToAgent::Refused(why.to_string()));
                }
                Err(why)
            }
        }
    }

    fn all(&self, size: usize, by: Instant, came: &mut dyn FnMut(usize) -> bool, all: &mut Came) -> Result<(), Error> {
        while all.len() < size {
            if !came(all.len()) {
                return Err(Error::Interrupted);
            }
            let left = by.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let missing = (0..size).filter(|rank| !all.contains_key(rank)).collect();
                return Err(Error::Missing { came: all.len(), size, missing, refused: self.door.refused() });
            }
            match self.events.recv_timeout(left.min(LOOK)) {
                Ok(Event::Came(number, link, hello)) => {
                    if let Err(why) = belongs(&hello, size, all) {
                        let _ = link.send(&ToAgent::Refused(why.to_string()));
                        return Err(why);
                    }
                    all.insert(hello.rank, (number, link, hello));
                }
                Ok(Event::Gone(number, why)) => {
                    if let Some((rank, (.., hello))) = all.iter().find(|(_, (n, ..))| *n == number) {
                        return Err(Error::Left { rank: *rank, host: host(hello), why });
                    }
                }
                Ok(Event::Said(..)) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err(Error::Interrupted),
            }
        }
        came(all.len());
        Ok(())
    }
}

/// Lets this process open as many files as the system allows: many systems start one with 1,024, and each agent needs one.
fn allow_open_files() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, getrlimit, setrlimit};
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = limit.maximum;
        // what is refused shows when a connection cannot be opened
        let _ = setrlimit(Resource::Nofile, limit);
    }
}

/// What the thread of each connection does once the secret was shown.
fn welcome(events: Sender<Event>) -> Arc<Welcome> {
    let count = std::sync::atomic::AtomicUsize::new(0);
    let events = Mutex::new(events);
    Arc::new(move |stream: Arc<TcpStream>, purpose, key| {
        if purpose != JOIN {
            return;
        }
        let address = |address: std::io::Result<std::net::SocketAddr>| address.map(|a| a.ip().to_canonical());
        let (Ok(peer), Ok(own)) = (address(stream.peer_addr()), address(stream.local_addr())) else { return };
        let (sender, mut receiver) = halves(stream, &key, End::Head);
        let Ok(ToHead::Hello(hello)) = receiver.receive(HELLO) else { return };
        let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let link = Arc::new(Link { sender: Mutex::new(sender), heard: Mutex::new(Instant::now()), peer, own });
        let events = events.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let _ = events.send(Event::Came(number, Arc::clone(&link), hello));
        let why = loop {
            match receiver.receive::<ToHead>(SILENCE) {
                Ok(message) => {
                    *link.heard.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
                    if !matches!(message, ToHead::Alive) && events.send(Event::Said(number, message)).is_err() {
                        return;
                    }
                }
                Err(e) => break e,
            }
        };
        let why = match why.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => "its agent closed the connection".to_owned(),
            ErrorKind::TimedOut => "its agent has been silent".to_owned(),
            _ => format!("the connection to its agent failed: {why}"),
        };
        let _ = events.send(Event::Gone(number, why));
    })
}

fn host(hello: &Hello) -> String {
    hello.node.as_ref().map_or_else(|| "a node".to_owned(), |node| node.host.clone())
}

/// Whether a process is one of this run's.
fn belongs(hello: &Hello, size: usize, all: &Came) -> Result<(), Error> {
    let (rank, host) = (hello.rank, host(hello));
    if hello.version != VERSION {
        return Err(Error::Version { rank, host, version: hello.version.clone() });
    }
    if hello.size != size || rank >= size {
        return Err(Error::Size { rank, host, theirs: hello.size, size });
    }
    match all.get(&rank) {
        Some((.., other)) => Err(Error::Twice { rank, hosts: [self::host(other), host] }),
        None => Ok(()),
    }
}

/// The nodes in order of rank, each with a name of its own.
fn named(all: &Came, same_host: bool) -> Result<Vec<Node>, Error> {
    let mut ranks: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (rank, (.., hello)) in all {
        if let Some(node) = &hello.node {
            ranks.entry(&node.host).or_default().push(*rank);
        }
    }
    let together = ranks.iter().find(|(_, ranks)| ranks.len() > 1);
    if let Some((host, ranks)) = together.filter(|_| !same_host) {
        return Err(Error::SameHost { host: (*host).to_owned(), ranks: ranks.clone() });
    }
    let node = |(rank, (.., hello)): (&usize, &(usize, Arc<Link>, Box<Hello>))| {
        let mut node = hello.node.clone()?;
        if ranks.get(node.host.as_str()).is_some_and(|ranks| ranks.len() > 1) {
            node.host = format!("{}-{rank}", node.host);
        }
        Some(node)
    };
    let nodes: Vec<Node> = all.iter().filter_map(node).collect();
    if nodes.len() < 2 {
        return Err(Error::OneNode { size: all.len() });
    }
    Ok(nodes)
}
