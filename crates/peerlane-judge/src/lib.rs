//! What to do about it: rules over one machine, comparisons of many runs, and how accurate both and the model are.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests open files and start programs of their own"))]

pub mod accuracy;
pub mod action;
pub mod check;
pub mod finding;
pub mod fleet;
pub mod gate;
pub mod nodes;
pub mod selftest;
pub mod thresholds;
pub mod verdict;
