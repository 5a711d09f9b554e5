//! What to do about it: rules over one machine, runs of many, and how far both and the model are right.

pub mod accuracy;
pub mod check;
pub mod fleet;
pub mod selftest;
