//! Measuring between nodes: one agent on each, a head that drives them, and the transports that move bytes from one host to
//! another.
//!
//! What to measure, and what the numbers mean, is in `peerlane-measure`; this crate knows no rules and renders nothing. Its
//! [`Agents`] are a [`Network`](peerlane_measure::nodes::Network). `docs/security.md` says what listens and what is sent.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests open files and start programs of their own"))]

mod agent;
mod door;
mod error;
pub mod gpu;
pub mod gpu_memory;
mod handshake;
mod head;
pub mod launcher;
mod local;
mod message;
mod secret;
mod tcp;
pub mod transport;
pub mod verbs;
mod wire;

use std::time::Duration;

pub use agent::{Join, take_part};
pub use error::Error;
pub use head::{Agents, Head};
pub use local::LocalNics;
pub use secret::Secret;

/// What a connection to the head is for.
const JOIN: handshake::Purpose = *b"join                            ";

/// How often head and agents show that they live.
const PULSE: Duration = Duration::from_millis(500);

/// Silence after which a connection is closed by either end. That after which an agent is lost is the plan's
/// ([`peerlane_measure::nodes::Method::silence`]), and no longer, so that the head decides who is lost.
pub const SILENCE: Duration = Duration::from_secs(60);

/// Stack of threads of which there may be thousands.
const STACK: usize = 256 << 10;

#[cfg(test)]
mod tests;

// what tests of this crate and those beside it share calls it so
#[cfg(test)]
extern crate self as peerlane_net;
