//! Measuring between nodes: the transports that move bytes from one host to another.
//!
//! What to measure, and what the numbers mean, is in `peerlane-measure`; this crate knows no rules and renders nothing.

pub mod transport;
