//! What all transports have in common: one node's side of a connection to another node's.
//!
//! Each transport makes two sides for one step, on two nodes or on one; an all-reduce has one on each of its nodes. They exchange their addresses, by whatever carries
//! text between them; then both connect; then one takes samples while the other serves; then the one that received verifies.

use std::time::{Duration, Instant};

use peerlane_machine::units::Seconds;
use peerlane_measure::measure::{Failure, Verdict};
use serde::{Deserialize, Serialize};

/// A node's part in a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// Whether it takes the samples.
    pub active: bool,
    /// How long it waits for the other side.
    pub patience: Seconds,
    /// Number of its first rank, among those of all nodes; 0 or 1 where there are two sides.
    pub first_rank: usize,
    /// How many ranks it has: GPUs of an all-reduce, else 1.
    pub ranks: usize,
}

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

    /// Takes `n` samples of at least `time` each, as the active side: bytes a second, or seconds. Fewer where they take longer
    /// than the side's patience, at least one: the value of a slow link is worth more than none.
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

/// Takes `n` samples, and no more once they took longer than `patience`, but one at least.
pub(crate) fn taken<E>(n: usize, patience: Duration, mut one: impl FnMut() -> Result<f64, E>) -> Result<Vec<f64>, E> {
    let began = Instant::now();
    let mut values = Vec::with_capacity(n);
    while values.len() < n && (values.is_empty() || began.elapsed() < patience) {
        values.push(one()?);
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_samples_are_fewer_and_one_at_least() {
        let in_time = |patience| {
            let mut count = 0;
            taken(8, Duration::from_millis(patience), || {
                std::thread::sleep(Duration::from_millis(20));
                count += 1;
                Ok::<_, ()>(f64::from(count))
            })
        };
        assert_eq!(in_time(60_000).unwrap().len(), 8);
        assert_eq!(in_time(0).unwrap(), [1.0]);
        let some = in_time(70).unwrap();
        assert!((1..=4).contains(&some.len()), "{some:?}");
        let mut left = 3;
        let fails = || {
            left -= 1;
            if left == 0 { Err("gone") } else { Ok(1.0) }
        };
        assert_eq!(taken(8, Duration::from_secs(60), fails), Err("gone"));
    }
}
