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
//! [`open`] takes what the program calls TARGET, and the result answers as the program's commands do:
//!
//! ```
//! use peerlane::check::Settings;
//! use peerlane::verdict::Verdict;
//!
//! let node = peerlane::open(["slow-node"])?;
//! let check = node.check(&Settings::default());
//! assert_eq!(check.verdict, Verdict::Fault);
//! assert!(check.findings[0].finding.summary.contains("NVLink"));
//! # Ok::<(), peerlane::target::OpenError>(())
//! ```
//!
//! What a machine should deliver, between two of its GPUs:
//!
//! ```
//! let machine = peerlane::open(["h200x4-vm"])?;
//! let path = machine.explain("GPU0", "GPU1")?;
//! let forward = path.forward.expect("the catalogue knows its links");
//! assert!(forward.low <= forward.rate && forward.rate <= forward.high);
//! println!("{} to {}: {:.0} GB/s, by {}", path.a, path.b, forward.rate, forward.bottleneck);
//! # Ok::<(), peerlane::target::OpenError>(())
//! ```
//!
//! Two designs side by side:
//!
//! ```
//! use peerlane::target::{compare, designs};
//!
//! let names = ["h200x4-vm", "7gforce"];
//! let opened = names.map(|name| peerlane::open([name]).map(|opened| (name, opened)));
//! let opened = opened.into_iter().collect::<Result<Vec<_>, _>>()?;
//! let document = compare(&designs(opened, &[])?);
//! assert_eq!(document.designs.len(), 2);
//! # Ok::<(), peerlane::target::OpenError>(())
//! ```
//!
//! The library prints nothing, touches no GPU, and opens files in [`input_file`] alone.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests open files and start programs of their own"))]

pub mod export;
pub mod target;

pub use target::{Opened, Opener, open};

pub use peerlane_design::{
    builder, case, cluster, compare, infer, measured_cluster, nic_gpus, place, planner, simulate, simulated_cluster,
    site, tune, upgrades, what_if,
};
pub use peerlane_judge::{accuracy, action, check, fleet, gate, nodes as nodes_check, selftest, thresholds, verdict};
pub use peerlane_machine::{
    bfs, copy_time, counter, curve, date, exchange, fabric, fact, fault, fit, gap, halo, machine, matrix, names,
    one_line, origin, random, spin_glass, stats, subject, transfer, units,
};
pub use peerlane_measure::{kinds, measure, nodes, plan, run, simulated_machine, traffic};
pub use peerlane_model::{assumptions, collectives, comparison, expectation, model, solve};
pub use peerlane_read::{assemble, catalogue, evidence, input_file, knowledge, traces};
