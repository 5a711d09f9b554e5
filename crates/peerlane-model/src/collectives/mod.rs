//! What collectives do, once: the rings that an all-reduce goes around, and what they carry.
//!
//! `compare`, `place`, `simulate` and the rules ask `Rings::best`, so that one machine has one answer. How rings are
//! found, and what their rate is, stands in `docs/compare.md`, *Rings*. How long NCCL takes by
//! algorithm and protocol is in [`tuner`], what its settings change of it on one machine in [`tuning`].

mod algorithm;
mod bound;
mod exchange;
mod mesh;
mod nccl_ring;
mod nvls;
mod over;
mod rings;
mod search;
mod settings;
#[cfg(test)]
mod tests;
pub mod tuner;
pub mod tuning;

pub use algorithm::{Algorithm, Choice, NoChoice, Protocol};
pub use nccl_ring::nccl_ring;
pub use nvls::nvls_rate;
pub use over::{joint, together};
pub use rings::Ring;
pub use rings::{Rings, bus_bandwidth, most_through};
pub use settings::{Level, Settings, Variables};
