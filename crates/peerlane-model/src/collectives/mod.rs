//! What collectives do, once: the rings that an all-reduce goes around, and what they carry.
//!
//! `compare`, `place`, `simulate` and the rules ask `Rings::best`, so that one machine has one answer. How rings are
//! found, and what their rate is, stands in `docs/compare.md`, *Rings*. What NCCL's settings change of it is in
//! [`tuning`].

mod bound;
mod nccl_ring;
mod over;
mod rings;
mod search;
mod settings;
#[cfg(test)]
mod tests;
pub mod tuning;

pub use nccl_ring::nccl_ring;
pub use over::together;
pub use rings::Ring;
pub use rings::{Rings, bus_bandwidth, most_through};
pub use settings::{Algorithm, Level, Protocol, Settings, Variables};
