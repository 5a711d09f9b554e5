//! Workloads in time, at the level of flows: each transfer moves at its max-min fair rate, which changes when another
//! starts or ends.
//!
//! [`solver`] finds rates and [`flows`] keeps the clock; both know resources, and nothing of machines.

pub mod flows;
mod heap;
pub mod solver;
