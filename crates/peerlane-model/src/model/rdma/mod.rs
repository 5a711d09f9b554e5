//! A NIC that moves data between memory and its line: directly, by the GPU's BAR1 or NVIDIA's own peer-to-peer
//! protocol, or staged through host memory.
//!
//! [`NicPath`] is one end: its rate and what limits it, its stages, what is done once a buffer, how its engines move
//! bytes, and which resources of the [`Model`] it takes. Two ends and what lies between them make a [`Message`], with
//! its latency, its time and its rate at every size. [`describe`] lays out all of it for a GPU and a NIC.
//!
//! [`Model`]: super::Model
//!
//! ```
//! use peerlane_read::catalogue::{Parts, system};
//! use peerlane_model::model::Model;
//! use peerlane_model::model::rdma::{Message, Method, Network, NicDirection, nic_path};
//! use peerlane_machine::units::Bytes;
//!
//! let machine = system("quong-node").expect("it is in the catalogue")?;
//! let model = Model::new(&machine, Parts::embedded());
//! let find = |name| machine.fabric.find(name).expect("the node has it");
//! let (gpu, card) = (find("GPU0"), find("apenet0"));
//! let from = nic_path(&model, gpu, card, NicDirection::ToNetwork, Method::Nvp2p)?;
//! let to = nic_path(&model, gpu, card, NicDirection::FromNetwork, Method::Nvp2p)?;
//! let message = Message::new(from, Network::NEXT, to)?;
//! assert!(message.latency().likely.us() < 10.0);
//! let (short, long) = (message.rate_at(Bytes(512)), message.rate_at(Bytes::from_mib(4)));
//! assert!(short.gb() < 0.2 && long.gb() > 1.4);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Equations, constants and their sources: `docs/model-rdma.md`.

mod constants;
mod describe;
mod device;
mod engine;
mod hook;
mod message;
mod path;
#[cfg(test)]
mod tests;

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use super::ModelError;
use peerlane_machine::units::{Rate, Seconds};

pub use describe::{
    EngineRevision, LikeNodes, NicMessages, RdmaBestChunk, RdmaDescription, RdmaLimit, RdmaMeasured, RdmaMeasuredPoint,
    RdmaMethod, RdmaPoint, RdmaStage, RdmaStaging, ReceiveRevision, Repaid, describe,
};
pub use device::{DeviceDescription, DevicePath, DevicePathRate, describe_device};
pub use engine::{ReadEngine, ReceiveEngine, Stream};
pub(super) use hook::{Engines, engines, uses};
pub use message::{Message, Network, between, loopback, measured_staging, with_gpu};
pub(super) use path::planned;
pub use path::{NicPath, method_in_use, nic_path, nic_paths, staged_at};
pub use peerlane_machine::fabric::{Method, Pipeline};

/// Which way data goes through a NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NicDirection {
    /// From memory to the line: the NIC reads.
    ToNetwork,
    /// From the line to memory: the NIC writes.
    FromNetwork,
}

/// A time that is known within bounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Span {
    /// The least, in seconds.
    pub low: Seconds,
    /// The likely one, in seconds.
    pub likely: Seconds,
    /// The most, in seconds.
    pub high: Seconds,
}

impl Span {
    /// A time without bounds.
    pub const fn exactly(time: Seconds) -> Self {
        Span { low: time, likely: time, high: time }
    }

    /// `[least, likely, most]` in µs.
    pub(super) const fn of_us([low, likely, high]: [f64; 3]) -> Self {
        Span { low: Seconds::from_us(low), likely: Seconds::from_us(likely), high: Seconds::from_us(high) }
    }

    /// The same with a time added to all three.
    fn later(self, by: Seconds) -> Self {
        self + Span::exactly(by)
    }
}

impl std::ops::Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        let sum = |a: Seconds, b: Seconds| Seconds::new(a.seconds() + b.seconds());
        Span { low: sum(self.low, other.low), likely: sum(self.likely, other.likely), high: sum(self.high, other.high) }
    }
}

impl std::iter::Sum for Span {
    fn sum<I: Iterator<Item = Span>>(spans: I) -> Span {
        spans.fold(Span::exactly(Seconds::new(0.0)), |a, b| a + b)
    }
}

/// A step that a message, or a buffer, waits for.
#[derive(Clone, Debug, PartialEq)]
pub struct Stage {
    /// What happens: `apenet0 reads GPU0's memory`.
    pub name: String,
    /// How long it takes.
    pub time: Span,
    /// Where that is from.
    pub why: String,
    /// Whether it is assumed.
    pub assumed: bool,
}

/// The most that one thing on the way lets through.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// What: `apenet0–rc0, PCIe 2.0 x8`.
    pub what: String,
    /// The most.
    pub rate: Rate,
}

/// Why there is no path for a NIC.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RdmaError {
    /// One end is no NIC.
    #[error("{0} is no NIC; RDMA takes a NIC and a GPU or host memory")]
    NoNic(String),
    /// The other end holds no memory.
    #[error("{0} is neither a GPU nor host memory; RDMA takes one of them and a NIC")]
    NoMemory(String),
    /// This pair cannot do that.
    #[error("no {method} between {memory} and {nic}: {why}")]
    NotOffered {
        /// The method.
        method: Method,
        /// The GPU or host memory.
        memory: String,
        /// The NIC.
        nic: String,
        /// What is in the way.
        why: String,
    },
    /// The links between the two give no rate.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// No message crosses such a network.
    #[error("a network of {gb} GB/s and {us} µs carries nothing; the rate must be above 0, the latency 0 or more")]
    Network {
        /// Its rate.
        gb: f64,
        /// Its latency.
        us: f64,
    },
    /// A message needs an end that sends and one that receives, in this order.
    #[error("a message goes from a path to the network to one from the network, not {from:?} to {to:?}")]
    Ways {
        /// The way of the first path.
        from: NicDirection,
        /// The way of the second.
        to: NicDirection,
    },
}
