//! What to do about it: rules over one machine, comparisons of many runs, and how accurate both and the model are.

pub mod accuracy;
pub mod check;
pub mod fleet;
pub mod selftest;
