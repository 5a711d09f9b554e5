//! A message from one memory to another: two ends, and what lies between them.

use super::path::{NicPath, later, nic_path};
use super::{Method, NicDirection, Pipeline, RdmaError, Span, Stage};
use crate::model::{Model, ModelError};
use peerlane_machine::fabric::NodeId;
use peerlane_machine::units::{Bytes, Rate, Seconds};

/// What lies between two NICs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Network {
    /// Time that it adds to what two neighbours take: switches and cables on the way.
    pub latency: Seconds,
    /// The most that it carries, where that is less than the NICs' lines.
    pub rate: Option<Rate>,
}

impl Network {
    /// Two NICs side by side, at the full rate of their lines.
    pub const NEXT: Network = Network { latency: Seconds::new(0.0), rate: None };
}

/// A message between two memories.
#[derive(Clone, Debug)]
pub struct Message {
    /// The end that sends.
    pub source: NicPath,
    /// What lies between.
    pub network: Network,
    /// The end that receives.
    pub destination: NicPath,
}

impl Message {
    /// Joins two ends. Fails where the first does not lead to the network, or the second not from it, and where the
    /// network's rate is not above 0 or its latency below.
    pub fn new(source: NicPath, network: Network, destination: NicPath) -> Result<Self, RdmaError> {
        let (rate, latency) = (network.rate.map_or(1.0, |r| r.bytes_per_second()), network.latency.seconds());
        if !(rate.is_finite() && rate > 0.0 && latency.is_finite() && latency >= 0.0) {
            return Err(RdmaError::Network { gb: rate / 1e9, us: latency * 1e6 });
        }
        match (source.way, destination.way) {
            (NicDirection::ToNetwork, NicDirection::FromNetwork) => Ok(Message { source, network, destination }),
            (from, to) => Err(RdmaError::Ways { from, to }),
        }
    }

    /// All that an empty message waits for, in order.
    pub fn stages(&self) -> impl Iterator<Item = &Stage> {
        self.source.stages.iter().chain(&self.destination.stages)
    }

    /// Time of an empty message: the sum of its stages.
    pub fn latency(&self) -> Span {
        (self.source.latency() + self.destination.latency()).later(self.network.latency)
    }

    /// Time of a message of `size`, alone: its stages, what must be filled first, and the slowest of all that moves its
    /// bytes, which works on them while the others do.
    pub fn time(&self, size: Bytes) -> Span {
        let line = self.network.rate.map_or(0.0, |r| size.0 as f64 / r.bytes_per_second());
        let busy = later(later(self.source.busy(size), self.destination.busy(size)), Seconds::new(line));
        self.latency().later(self.source.fill(size)).later(self.destination.fill(size)).later(busy)
    }

    /// What of [`time`](Self::time) its bytes take: what must be filled first, and the slowest of all that moves them.
    pub fn bytes_time(&self, size: Bytes) -> [Seconds; 2] {
        let fill = self.source.fill(size).seconds() + self.destination.fill(size).seconds();
        [Seconds::new(fill), later(self.source.busy(size), self.destination.busy(size))]
    }

    /// Rate of a message without end.
    pub fn rate(&self) -> Rate {
        self.slowest().0
    }

    /// What binds that rate, for people.
    pub fn bottleneck(&self) -> &str {
        self.slowest().1
    }

    fn slowest(&self) -> (Rate, &str) {
        let ends = [&self.source, &self.destination].map(|end| (end.rate, end.bottleneck.as_str()));
        let [a, b] = ends;
        let end = if b.0.bytes_per_second() < a.0.bytes_per_second() { b } else { a };
        match self.network.rate {
            Some(rate) if rate.bytes_per_second() < end.0.bytes_per_second() => (rate, "the network"),
            _ => end,
        }
    }

    /// Rate of messages of `size` that follow each other without a pause.
    pub fn rate_at(&self, size: Bytes) -> Rate {
        let each = later(self.source.repeated(size), self.destination.repeated(size));
        let rate = Rate::from_bytes_per_second(size.0 as f64 / each.seconds());
        self.network.rate.map_or(rate, |line| rate.min(line))
    }

    /// `(size, time alone, rate in a train)` for each size.
    pub fn curve<'s>(&'s self, sizes: &'s [Bytes]) -> impl Iterator<Item = (Bytes, Span, Rate)> + 's {
        sizes.iter().map(|size| (*size, self.time(*size), self.rate_at(*size)))
    }
}

/// Rate of data that leaves one memory and comes back to another, through one NIC, and what binds it.
///
/// The way out and the way in are one transfer, which takes the resources of both; so an engine that works for both is
/// shared. Fails as [`nic_path`] does.
pub fn loopback(model: &Model, [from, to]: [(NodeId, Method); 2], nic: NodeId) -> Result<(Rate, String), RdmaError> {
    let out = nic_path(model, from.0, nic, NicDirection::ToNetwork, from.1)?;
    let back = nic_path(model, to.0, nic, NicDirection::FromNetwork, to.1)?;
    Ok(joined(model, &out, &back))
}

/// How `measure` stages a GPU's memory: messages of 1 MiB, in so many slots of host memory at an end.
pub fn measured_staging(slots: u32) -> Method {
    Method::Staged(Pipeline { chunk: Bytes::from_mib(1), depth: Some(slots) })
}

/// Slots of what is [staged within a machine](peerlane_machine::transfer::Via::Pipeline).
const SLOTS: u32 = 2;

/// Rate of a GPU's data that leaves through a NIC and comes back to the host memory nearest to it, or the other way, and what binds it:
/// directly, by reads and writes of the GPU's window (BAR1), or staged in that host memory.
///
/// Fails as [`nic_path`] does, and where no host memory is known near the NIC.
pub fn with_gpu(
    model: &Model,
    gpu: NodeId,
    nic: NodeId,
    to_gpu: bool,
    staged: bool,
) -> Result<(Rate, String), RdmaError> {
    let fabric = &model.machine.fabric;
    let host = fabric.nearest_host(nic).ok_or_else(|| {
        let (from, to) = (fabric.node(gpu).name.clone(), fabric.node(nic).name.clone());
        ModelError::Unknown { from, to, why: "no host memory is known near the NIC".to_owned() }
    })?;
    let of_gpu = (gpu, if staged { measured_staging(SLOTS) } else { Method::Bar1 });
    let of_host = (host, Method::Host);
    loopback(model, if to_gpu { [of_host, of_gpu] } else { [of_gpu, of_host] }, nic)
}

/// Rate of data that leaves one host memory through a NIC and comes back to another through a NIC, the same or another one of the
/// machine, and what binds it: `[memory, NIC]` of each end.
///
/// Of what lies between two NICs it is taken to carry what their lines do. Fails as [`nic_path`] does.
pub fn between(model: &Model, from: [NodeId; 2], to: [NodeId; 2]) -> Result<(Rate, String), RdmaError> {
    let out = nic_path(model, from[0], from[1], NicDirection::ToNetwork, Method::Host)?;
    let back = nic_path(model, to[0], to[1], NicDirection::FromNetwork, Method::Host)?;
    Ok(joined(model, &out, &back))
}

/// Both ways as one transfer.
fn joined(model: &Model, out: &NicPath, back: &NicPath) -> (Rate, String) {
    let slowest = if back.rate.bytes_per_second() < out.rate.bytes_per_second() { back } else { out };
    let mut slowest = (slowest.rate, slowest.bottleneck.clone());
    for (resource, per_byte) in &out.demand.uses {
        let Some((_, more)) = back.demand.uses.iter().find(|(r, _)| r == resource) else { continue };
        let rate = Rate::from_bytes_per_second(model.capacities[*resource] / (per_byte + more));
        if rate.bytes_per_second() < slowest.0.bytes_per_second() {
            slowest = (rate, format!("{}, out and back", model.resources[*resource].name));
        }
    }
    slowest
}
