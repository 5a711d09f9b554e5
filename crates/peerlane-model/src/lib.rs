//! What a machine should do: resources, routes and the one problem that is solved; rings of collectives; what is expected where
//! something was measured.
//!
//! Knows no run and no method of measuring.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests open files and start programs of their own"))]

pub mod assumptions;
pub mod collectives;
pub mod comparison;
pub mod expectation;
pub mod flows;
pub mod model;
pub mod solve;
