//! What to build and how to use it: clusters and the workloads on them, limits that rates betray, changes of a design,
//! designs side by side, and where jobs should go.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests open files and start programs of their own"))]

pub mod builder;
pub mod case;
pub mod cluster;
pub mod compare;
pub mod infer;
pub mod measured_cluster;
pub mod nic_gpus;
pub mod place;
pub mod planner;
pub mod simulate;
pub mod simulated_cluster;
pub mod site;
pub mod tune;
pub mod upgrades;
pub mod what_if;
