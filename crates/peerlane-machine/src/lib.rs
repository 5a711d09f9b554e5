//! What a machine is: units, names and numbers, the graph of its devices and links, what is measured between them, where a
//! statement comes from, and what can be wrong.
//!
//! Knows no file format, no model and no program.

pub mod bfs;
pub mod blame;
pub mod bounds;
pub mod copy_time;
pub mod counter;
pub mod curve;
pub mod date;
pub mod exchange;
pub mod fabric;
pub mod fact;
pub mod fault;
pub mod fit;
pub mod gap;
pub mod halo;
pub mod machine;
pub mod matrix;
pub mod names;
pub mod one_line;
pub mod origin;
pub mod random;
pub mod schema;
pub mod spin_glass;
pub mod stats;
pub mod subject;
pub mod transfer;
pub mod units;
