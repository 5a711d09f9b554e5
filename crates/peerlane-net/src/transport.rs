//! What all transports have in common: one node's side of a connection to another node's.
//!
//! Each transport makes two sides for one step, on two nodes or on one. They exchange their addresses, by whatever carries
//! text between them; then both connect; then one takes samples while the other serves; then the one that received verifies.

use peerlane_machine::units::Seconds;
use peerlane_measure::measure::{Failure, Verdict};

/// One node's side of a connection to another node's.
///
/// Every call returns within a bounded time, whatever the other side does.
pub trait Side: Send {
    /// What the other side needs to connect to this one: text without line breaks, which only the same transport reads.
    fn address(&self) -> String;

    /// Connects to the other side, which has that address.
    ///
    /// # Errors
    /// An address that cannot be read, and what the transport refused.
    fn connect(&mut self, peer: &str) -> Result<(), Failure>;

    /// Takes `n` samples of at least `time` each, as the active side: bytes a second, or seconds.
    ///
    /// # Errors
    /// What went wrong with the connection, in words.
    fn sample(&mut self, n: usize, time: Seconds) -> Result<Vec<f64>, Failure>;

    /// Does what the other side's samples need of this one, until told to stop: for RDMA writes and reads, nothing.
    ///
    /// # Errors
    /// What went wrong with the connection, in words.
    fn serve(&mut self, until: &dyn Fn() -> bool) -> Result<(), Failure>;

    /// Compares what arrived with what was sent, on the side that received.
    ///
    /// # Errors
    /// What went wrong with the connection, in words.
    fn verify(&mut self) -> Result<Verdict, Failure>;
}
