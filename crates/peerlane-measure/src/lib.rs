//! What a machine does: what to measure, the method, the record of a run, and the simulated machine that answers as a real one.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests open files and start programs of their own"))]

pub mod kinds;
pub mod measure;
pub mod nodes;
pub mod plan;
pub mod run;
pub mod simulated_machine;
pub mod traffic;
