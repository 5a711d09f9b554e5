//! How long neighbours take to exchange faces of their parts of a grid, by each method and any size
//! (`docs/applications.md`).

use super::{Model, PeerAccess, Transfer};
use peerlane_machine::exchange::Exchange;
use peerlane_machine::fabric::NodeId;
use peerlane_machine::matrix::{Engine, Operation};

/// Seconds from when a face is computed until its neighbour knows that it is there, beside what the bytes and the copies' own
/// start-up take: words in memory tell it, which kernels and streams wait for. Two H200 of one host, faces of 25 kB, what
/// exchanges alone take less the rest (`captures/h200x2-vm-runs/spin-glass.json`, docs/applications.md).
fn words(method: Exchange) -> f64 {
    match method {
        Exchange::Stores => 4.6e-6,
        Exchange::Copies => 15.6e-6,
        Exchange::Staged => 25e-6,
    }
}

/// The time of an exchange by one method, by the size of a face; all faces are sent at once.
#[derive(Clone, Debug, PartialEq)]
pub struct ExchangeTime {
    /// Seconds in addition to those of the bytes and the copies' own start-up.
    words: f64,
    /// One behind the other: into the neighbour's memory; or into host memory, and from there.
    legs: Vec<Vec<Send>>,
}

/// A face on its way.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Send {
    /// Seconds before its first byte.
    startup: f64,
    /// Bytes a second while all others are sent.
    rate: f64,
}

impl ExchangeTime {
    /// Seconds until the last face of so many bytes is there and its neighbour knows.
    pub fn notified(&self, bytes: f64) -> f64 {
        self.seconds(bytes) + self.words
    }

    /// The same where each exchange begins so much later.
    pub(super) fn later(self, seconds: f64) -> Self {
        ExchangeTime { words: self.words + seconds, ..self }
    }

    /// Seconds until the last face of so many bytes is there.
    pub fn seconds(&self, bytes: f64) -> f64 {
        let slowest = |leg: &Vec<Send>| leg.iter().map(|s| s.startup + bytes / s.rate).fold(0.0, f64::max);
        self.legs.iter().map(slowest).sum()
    }
}

impl Model<'_> {
    /// Nodes by their names; `None` where one is not there.
    pub(super) fn named(&self, names: &[String]) -> Option<Vec<NodeId>> {
        names.iter().map(|name| self.machine.fabric.find(name)).collect()
    }

    /// What an exchange takes in which each pair's first GPU sends a face to its second; `None` where a rate is not known, or
    /// where a method needs peer access that is not there.
    ///
    /// A kernel that stores what it computes is running anyway, so that its stores have no start-up. A copy has
    /// that of its kind; and a staged face that of two.
    pub fn exchange_time(&self, sends: &[(NodeId, NodeId)], method: Exchange) -> Option<ExchangeTime> {
        let engine = if method == Exchange::Stores { Engine::Sm } else { Engine::Ce };
        let moved = |source, destination| Transfer {
            source,
            destination,
            engine,
            op: Operation::Write,
            peer: PeerAccess::Enabled,
        };
        let host = |gpu| self.machine.fabric.nearest_host(gpu);
        let legs: Vec<Vec<Transfer>> = match method {
            Exchange::Staged => vec![
                sends.iter().map(|(from, _)| Some(moved(*from, host(*from)?))).collect::<Option<_>>()?,
                sends.iter().map(|(from, to)| Some(moved(host(*from)?, *to))).collect::<Option<_>>()?,
            ],
            Exchange::Stores | Exchange::Copies => {
                let direct: Vec<Transfer> = sends.iter().map(|(from, to)| moved(*from, *to)).collect();
                if direct.iter().any(|send| self.route(send).map_or(true, |route| route.staged)) {
                    return None;
                }
                vec![direct]
            }
        };
        let leg = |transfers: &Vec<Transfer>| self.sends(transfers, method != Exchange::Stores);
        Some(ExchangeTime { words: words(method), legs: legs.iter().map(leg).collect::<Option<_>>()? })
    }

    fn sends(&self, transfers: &[Transfer], started: bool) -> Option<Vec<Send>> {
        let rates = self.rates(transfers).ok()?;
        let send = |(transfer, rate): (&Transfer, f64)| {
            let startup = if started { self.startup(transfer)?.least.seconds() } else { 0.0 };
            Some(Send { startup, rate })
        };
        transfers.iter().zip(rates).map(send).collect()
    }
}
