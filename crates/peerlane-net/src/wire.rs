//! Bytes, and messages of JSON, over a socket: bounded in size and in time, and authentic.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use peerlane_machine::one_line;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::secret::{Secret, TAG};

/// The most bytes of a message: a node's evidence is the largest.
pub(crate) const MOST: usize = 8 << 20;

/// Reads all of `buffer`, or fails once the deadline has passed, however slowly bytes arrive.
pub(crate) fn read(mut stream: &TcpStream, buffer: &mut [u8], by: Instant) -> io::Result<()> {
    let mut done = 0;
    while done < buffer.len() {
        stream.set_read_timeout(Some(left(by)?))?;
        match stream.read(&mut buffer[done..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => done += n,
            Err(e) if retried(e.kind()) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Writes all bytes, or fails once the deadline has passed.
pub(crate) fn write(mut stream: &TcpStream, bytes: &[u8], by: Instant) -> io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        stream.set_write_timeout(Some(left(by)?))?;
        match stream.write(&bytes[done..]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(n) => done += n,
            Err(e) if retried(e.kind()) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

fn left(by: Instant) -> io::Result<Duration> {
    let left = by.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// Whether the loop's own look at the clock decides.
fn retried(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Interrupted | ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// The two ends of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The one that listened.
    Head,
    /// The one that connected.
    Agent,
}

impl End {
    fn label(self) -> &'static [u8] {
        match self {
            End::Head => b"head",
            End::Agent => b"agent",
        }
    }
}

/// The sending half. Each message carries a tag over its number and content.
#[derive(Debug)]
pub(crate) struct Sender {
    stream: Arc<TcpStream>,
    key: Secret,
    from: End,
    sent: u64,
}

/// The receiving half.
#[derive(Debug)]
pub(crate) struct Receiver {
    stream: Arc<TcpStream>,
    key: Secret,
    from: End,
    received: u64,
}

/// Both halves of a conversation, of which this process is `own`.
pub(crate) fn halves(stream: Arc<TcpStream>, key: &Secret, own: End) -> (Sender, Receiver) {
    let other = if own == End::Head { End::Agent } else { End::Head };
    let sender = Sender { stream: Arc::clone(&stream), key: key.clone(), from: own, sent: 0 };
    (sender, Receiver { stream, key: key.clone(), from: other, received: 0 })
}

impl Sender {
    /// Sends a message.
    pub(crate) fn send<T: Serialize>(&mut self, message: &T, limit: Duration) -> io::Result<()> {
        let body = serde_json::to_vec(message)?;
        let length = u32::try_from(body.len()).ok().filter(|_| body.len() <= MOST);
        let Some(length) = length else {
            let why = format!("a message of {} bytes; the most are {MOST}", body.len());
            return Err(io::Error::new(ErrorKind::InvalidInput, why));
        };
        let tag = self.key.tag(&[self.from.label(), &self.sent.to_be_bytes(), &body]);
        self.sent += 1;
        let frame = [&length.to_be_bytes(), body.as_slice(), &tag].concat();
        write(&self.stream, &frame, Instant::now() + limit)
    }

    /// Ends the conversation for both halves and both ends.
    pub(crate) fn close(&self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }
}

impl Receiver {
    /// The next message, which must arrive whole within `limit`.
    pub(crate) fn receive<T: DeserializeOwned>(&mut self, limit: Duration) -> io::Result<T> {
        let by = Instant::now() + limit;
        let mut length = [0; 4];
        read(&self.stream, &mut length, by)?;
        let length = u32::from_be_bytes(length) as usize;
        let bad = |why: String| io::Error::new(ErrorKind::InvalidData, why);
        if length > MOST {
            return Err(bad(format!("a message of {length} bytes; the most are {MOST}")));
        }
        let mut body = vec![0; length];
        read(&self.stream, &mut body, by)?;
        let mut tag = [0; TAG];
        read(&self.stream, &mut tag, by)?;
        if !self.key.is_tag(&[self.from.label(), &self.received.to_be_bytes(), &body], &tag) {
            return Err(bad("a message was changed on its way".to_owned()));
        }
        self.received += 1;
        one_line::read(&mut serde_json::Deserializer::from_slice(&body)).map_err(|e| bad(format!("a message: {e}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    const SOON: Duration = Duration::from_secs(5);

    fn pair() -> (Arc<TcpStream>, Arc<TcpStream>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (Arc::new(one), Arc::new(listener.accept().unwrap().0))
    }

    fn key() -> Secret {
        Secret::new("0123456789abcdef").unwrap()
    }

    #[test]
    fn messages_arrive_in_order() {
        let (one, other) = pair();
        let (mut sender, _) = halves(one, &key(), End::Agent);
        let (_, mut receiver) = halves(other, &key(), End::Head);
        for text in ["a", "b\nc", ""] {
            sender.send(&text, SOON).unwrap();
        }
        let texts: Vec<String> = (0..3).map(|_| receiver.receive(SOON).unwrap()).collect();
        assert_eq!(texts, ["a", "b c", ""], "strings stay on one line");
    }

    #[test]
    fn changed_repeated_and_reflected_messages_are_refused() {
        let frame = |change: &dyn Fn(&mut Vec<u8>), from| {
            let (one, other) = pair();
            let (mut sender, _) = halves(Arc::clone(&one), &key(), from);
            sender.send(&"text", SOON).unwrap();
            let mut bytes = vec![0; 4 + 6 + TAG];
            read(&other, &mut bytes, Instant::now() + SOON).unwrap();
            change(&mut bytes);
            write(&one, &bytes, Instant::now() + SOON).unwrap();
            let (_, mut receiver) = halves(other, &key(), End::Head);
            let first = receiver.receive::<String>(SOON);
            (first.is_ok(), receiver.receive::<String>(Duration::from_millis(50)).is_ok())
        };
        assert_eq!(frame(&|_| {}, End::Agent), (true, false));
        assert!(!frame(&|bytes| bytes[6] ^= 1, End::Agent).0);
        assert_eq!(
            frame(&|bytes| bytes.extend(bytes.clone()), End::Agent),
            (true, false),
            "a repetition has another number"
        );
        assert!(!frame(&|_| {}, End::Head).0, "one's own message, sent back");
        assert!(!frame(&|bytes| bytes[0] = 0x7f, End::Agent).0, "2 GB");
    }

    #[test]
    fn a_byte_a_moment_does_not_extend_the_deadline() {
        let (one, other) = pair();
        let began = Instant::now();
        let slow = std::thread::spawn(move || {
            for _ in 0..20 {
                let _ = (&*one).write_all(&[0]);
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let error = read(&other, &mut [0; 1000], began + Duration::from_millis(300)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(began.elapsed() < Duration::from_millis(800));
        slow.join().unwrap();
    }
}
