//! A port on which only those who know the secret get an answer.
//!
//! Each connection has a thread of its own until it has shown the secret, a few seconds at most. So one that stalls delays
//! nobody, and where there are too many, the oldest stranger is dropped.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use crate::handshake::{Purpose, Refusal, challenge};
use crate::secret::Secret;

/// How long a connection may take to show the secret.
const LIMIT: Duration = Duration::from_secs(5);

/// Stack of a connection's thread: there may be thousands.
const STACK: usize = 256 << 10;

/// What becomes of a connection that has shown the secret. It runs in the connection's own thread.
pub(crate) type Welcome = dyn Fn(Arc<TcpStream>, Purpose, Secret) + Send + Sync;

/// An open port. It is closed when this is dropped.
pub(crate) struct Door {
    address: SocketAddr,
    open: Arc<AtomicBool>,
    refused: Arc<AtomicUsize>,
}

impl Door {
    /// Listens; `most` is how many connections may be without the secret at once.
    pub(crate) fn open(listener: TcpListener, secret: Secret, most: usize, welcome: Arc<Welcome>) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let door = Door { address, open: Arc::new(AtomicBool::new(true)), refused: Arc::default() };
        let (open, refused) = (Arc::clone(&door.open), Arc::clone(&door.refused));
        let strangers: Arc<Mutex<VecDeque<Weak<TcpStream>>>> = Arc::default();
        thread::Builder::new().name("door".to_owned()).spawn(move || {
            while let Ok(stream) = accepted(&listener) {
                if !open.load(Ordering::Relaxed) {
                    break;
                }
                let Some(stream) = stream else { continue };
                let stream = Arc::new(stream);
                remember(&strangers, &stream, most);
                let (secret, welcome, refused) = (secret.clone(), Arc::clone(&welcome), Arc::clone(&refused));
                let strangers = Arc::clone(&strangers);
                let _ = thread::Builder::new().stack_size(STACK).spawn(move || {
                    let shown = challenge(&stream, &secret, Instant::now() + LIMIT);
                    forget(&strangers, &stream);
                    match shown {
                        Ok((purpose, key)) => welcome(stream, purpose, key),
                        Err(Refusal::Secret) => {
                            refused.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(Refusal::Stranger | Refusal::Io(_)) => {}
                    }
                });
            }
        })?;
        Ok(door)
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many connections showed a wrong secret.
    pub(crate) fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.open.store(false, Ordering::Relaxed);
        // wakes the thread that accepts
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(if address.is_ipv4() {
                IpAddr::from([127, 0, 0, 1])
            } else {
                IpAddr::from([0_u16, 0, 0, 0, 0, 0, 0, 1])
            });
        }
        let _ = TcpStream::connect_timeout(&address, Duration::from_secs(1));
    }
}

/// The next connection; none where it was gone before it could be taken, or no file can be opened at the moment.
fn accepted(listener: &TcpListener) -> io::Result<Option<TcpStream>> {
    match listener.accept() {
        Ok((stream, _)) => {
            let _ = stream.set_nodelay(true);
            Ok(Some(stream))
        }
        Err(e) if e.kind() == io::ErrorKind::InvalidInput => Err(e),
        Err(_) => {
            thread::sleep(Duration::from_millis(10));
            Ok(None)
        }
    }
}

fn remember(strangers: &Mutex<VecDeque<Weak<TcpStream>>>, stream: &Arc<TcpStream>, most: usize) {
    let mut strangers = strangers.lock().unwrap_or_else(PoisonError::into_inner);
    strangers.push_back(Arc::downgrade(stream));
    if strangers.len() > most
        && let Some(oldest) = strangers.pop_front().and_then(|oldest| oldest.upgrade())
    {
        let _ = oldest.shutdown(Shutdown::Both);
    }
}

fn forget(strangers: &Mutex<VecDeque<Weak<TcpStream>>>, stream: &Arc<TcpStream>) {
    let mut strangers = strangers.lock().unwrap_or_else(PoisonError::into_inner);
    strangers.retain(|other| !std::ptr::eq(other.as_ptr(), Arc::as_ptr(stream)));
}
