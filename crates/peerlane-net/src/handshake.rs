//! How two processes show each other that they know the secret, without sending it.
//!
//! The one that connects answers first: a stranger who connects gets a random number and nothing to try guesses on.
//!
//! ```text
//! connects                                         listens
//!            ── "peerlane-net/1\n" ──→
//!            ←── 32 random bytes S ──
//!            ── 32 random bytes C, 32 bytes purpose, HMAC(secret, "agent", S, C, purpose) ──→
//!            ←── 1, HMAC(secret, "head", S, C, purpose)  or  0 ──
//! ```
//!
//! The key of what follows on the connection is HMAC(secret, "key", S, C, purpose).

use std::io::{self, ErrorKind};
use std::net::TcpStream;
use std::time::Instant;

use crate::secret::{Secret, TAG};
use crate::wire::{read, write};

/// What a connection begins with; another number where this exchange changes.
const MAGIC: &[u8; 15] = b"peerlane-net/1\n";

const NONCE: usize = 32;

/// What a connection is for, as the one that connects says and both sign.
pub(crate) type Purpose = [u8; 32];

/// Why a connection was not made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    /// The other one does not accept this one's secret, or shows none of its own.
    #[error("it has another secret")]
    Secret,
    /// What listens there is not peerlane.
    #[error("what listens there is not peerlane, or a version with another exchange")]
    Stranger,
    /// The socket.
    #[error(transparent)]
    Io(#[from] io::Error),
}

fn nonce() -> io::Result<[u8; NONCE]> {
    let mut bytes = [0; NONCE];
    getrandom::fill(&mut bytes).map_err(|e| io::Error::other(format!("no random numbers: {e}")))?;
    Ok(bytes)
}

/// As the one that connected. Gives the connection's key.
pub(crate) fn answer(stream: &TcpStream, secret: &Secret, purpose: &Purpose, by: Instant) -> Result<Secret, Refusal> {
    write(stream, MAGIC, by)?;
    let mut theirs = [0; NONCE];
    read(stream, &mut theirs, by).map_err(|e| match e.kind() {
        // neither says a word to what it does not know
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => Refusal::Stranger,
        _ => Refusal::Io(e),
    })?;
    let own = nonce()?;
    let proof = secret.tag(&[b"agent", &theirs, &own, purpose]);
    write(stream, &[&own, &purpose[..], &proof].concat(), by)?;
    let mut accepted = [0; 1];
    read(stream, &mut accepted, by)?;
    match accepted {
        [1] => {}
        [0] => return Err(Refusal::Secret),
        _ => return Err(Refusal::Stranger),
    }
    let mut proof = [0; TAG];
    read(stream, &mut proof, by)?;
    if !secret.is_tag(&[b"head", &theirs, &own, purpose], &proof) {
        return Err(Refusal::Secret);
    }
    Ok(secret.derived(&[b"key", &theirs, &own, purpose]))
}

/// As the one that listened. Gives the purpose and the connection's key.
pub(crate) fn challenge(stream: &TcpStream, secret: &Secret, by: Instant) -> Result<(Purpose, Secret), Refusal> {
    let mut magic = [0; MAGIC.len()];
    read(stream, &mut magic, by)?;
    if magic != *MAGIC {
        return Err(Refusal::Stranger);
    }
    let own = nonce()?;
    write(stream, &own, by)?;
    let (mut theirs, mut purpose, mut proof) = ([0; NONCE], Purpose::default(), [0; TAG]);
    for part in [&mut theirs, &mut purpose, &mut proof] {
        read(stream, part, by)?;
    }
    if !secret.is_tag(&[b"agent", &own, &theirs, &purpose], &proof) {
        write(stream, &[0], by)?;
        return Err(Refusal::Secret);
    }
    let proof = secret.tag(&[b"head", &own, &theirs, &purpose]);
    write(stream, &[&[1], &proof[..]].concat(), by)?;
    Ok((purpose, secret.derived(&[b"key", &own, &theirs, &purpose])))
}
