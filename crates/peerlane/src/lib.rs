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

pub mod export;

pub use peerlane_design::{
    builder, case, cluster, compare, infer, measured_cluster, nic_gpus, place, simulate, simulated_cluster, site, tune,
    upgrades, what_if,
};
pub use peerlane_judge::{accuracy, action, check, fleet, gate, nodes as nodes_check, selftest, thresholds, verdict};
pub use peerlane_machine::{
    bfs, copy_time, counter, curve, date, exchange, fabric, fact, fault, fit, gap, halo, machine, matrix, names,
    one_line, origin, random, spin_glass, stats, subject, transfer, units,
};
pub use peerlane_measure::{measure, nodes, plan, run, simulated_machine};
pub use peerlane_model::{assumptions, collectives, comparison, expectation, model, solve};
pub use peerlane_read::{assemble, catalogue, evidence};
