//! How long neighbours take to exchange faces of their parts of a grid, by each method and any size
//! (`docs/applications.md`).

use std::collections::HashSet;

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

/// What several GPUs together got of the rates that the model gives them with one host memory, at the least: four H200 on
/// 27 November 2026, 118 of 182 GB/s to the host, 131 of 220 from it and 142 of 226 both ways, in a process on a virtual machine
/// (`captures/h200x4-vm-parts/host.json`). In others it was 0.7 to 1, and nothing inside the machine tells.
const HOST_LEVEL: f64 = 0.6;

/// With so many GPUs a host memory was not yet the limit.
const FEW: usize = 2;

/// The time of an exchange by one method, by the size of a face; all faces are sent at once.
#[derive(Clone, Debug, PartialEq)]
pub struct ExchangeTime {
    /// Seconds in addition to those of the bytes and the copies' own start-up.
    words: f64,
    /// The least share of the rates that may be reached.
    level: f64,
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

    /// Seconds until the last face of so many bytes is there.
    pub fn seconds(&self, bytes: f64) -> f64 {
        let slowest = |leg: &Vec<Send>| leg.iter().map(|s| s.startup + bytes / s.rate).fold(0.0, f64::max);
        self.legs.iter().map(slowest).sum()
    }

    /// The same at the least that a host memory may give to several GPUs.
    pub fn seconds_at_most(&self, bytes: f64) -> f64 {
        self.seconds(bytes / self.level)
    }

    /// Seconds until the neighbour knows, beside those of the bytes.
    pub(super) fn words(&self) -> f64 {
        self.words
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
        let to_host: Vec<NodeId> = sends.iter().map(|(from, _)| *from).collect();
        self.exchange_through(&to_host, sends, method)
    }

    /// What it takes until each of some GPUs has got so many bytes of each other. Where that is staged, each puts its own into host
    /// memory once, and all others fetch it there.
    pub(super) fn all_gather_time(&self, gpus: &[NodeId], method: Exchange) -> Option<ExchangeTime> {
        let pairs = gpus.iter().flat_map(|a| gpus.iter().map(move |b| (*a, *b)));
        let sends: Vec<(NodeId, NodeId)> = pairs.filter(|(a, b)| a != b).collect();
        self.exchange_through(gpus, &sends, method)
    }

    fn exchange_through(
        &self,
        to_host: &[NodeId],
        sends: &[(NodeId, NodeId)],
        method: Exchange,
    ) -> Option<ExchangeTime> {
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
                to_host.iter().map(|from| Some(moved(*from, host(*from)?))).collect::<Option<_>>()?,
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
        let senders: HashSet<NodeId> = sends.iter().map(|(from, _)| *from).collect();
        let level = if method == Exchange::Staged && senders.len() > FEW { HOST_LEVEL } else { 1.0 };
        Some(ExchangeTime { words: words(method), level, legs: legs.iter().map(leg).collect::<Option<_>>()? })
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
