//! What every path between the GPUs, NICs and host memory of a machine *is*, what it *should*
//! deliver, what it *does* deliver, and what to do about the difference.
//!
//! Data walks through the modules one way:
//!
//! ```text
//! evidence ─→ assemble ─→ fabric ─→ model (+ solve) ─→ check ─→ a report
//!                            ↑ │                        ↑
//!                    catalogue └──→ plan ─→ measure ─→ run
//! ```
//!
//! The library prints nothing, touches no GPU, and does no I/O outside [`evidence`].

pub mod accuracy;
pub mod assemble;
pub mod assumed;
pub mod case;
pub mod catalogue;
pub mod check;
pub mod cluster;
pub mod collectives;
pub mod compare;
pub mod comparison;
pub mod copy_time;
pub mod curve;
pub mod evidence;
pub mod expectation;
pub mod export;
pub mod fabric;
pub mod fact;
pub mod fault;
pub mod fit;
pub mod fleet;
mod flows;
pub mod gap;
pub mod infer;
pub mod lift;
pub mod machine;
pub mod matrix;
pub mod measure;
pub mod model;
pub mod names;
pub mod origin;
pub mod place;
pub mod plan;
mod random;
pub mod run;
pub mod selftest;
pub mod simulate;
pub mod solve;
pub mod stats;
pub mod subject;
pub mod transfer;
pub mod units;
pub mod virtual_machine;
pub mod what_if;
