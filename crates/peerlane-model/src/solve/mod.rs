//! One problem, solved one way: flows that share resources.
//!
//! A [`Problem`] has resources and [`Demand`]s on them: what a flow uses, what it burdens without waiting for it, where its
//! requests queue, its weight and its cap. [`share()`] is the reference for what is only used; `contention` finds the rates
//! that agree with burdens and queues; [`incremental`] keeps the rates of a set of flows that changes all the time. What
//! each finds, [`certify()`] can check without knowing how it was found.
//!
//! Knows resources and flows, and nothing of PCIe, GPUs or time.

mod certify;
mod contention;
pub mod incremental;
mod problem;
mod share;
mod turns;

pub use certify::certify;
pub use problem::{Demand, Problem, Resource, Solution, Wait, evenly};
pub use share::{Allocation, Binding, Flow, ShareError, share};
pub use turns::{Attended, Turns};
