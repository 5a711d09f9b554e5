//! The library as its users see it. One program of tests, so that it is linked once: `cargo test -p peerlane NAME::` runs one module.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and says why it is skipped"
)]

mod apenet_pictures;
mod application_pictures;
mod archives;
mod assemble_properties;
mod benchmark_captures;
mod captures;
mod check_catalogue;
mod collective_figures;
mod collectives;
mod common;
mod compare_doc;
mod doubted_readings;
mod elsewhere;
mod fitted_assumptions;
mod fleet;
mod fleet_nodes;
mod flow_properties;
mod host_contention;
mod imports;
mod infer_catalogue;
mod infer_noise;
mod interconnects;
mod limits;
mod model_example;
mod model_properties;
mod nvml;
mod one_problem;
mod open;
mod pci_captures;
mod pci_joining;
mod rdma;
mod recorded_runs;
mod renamed;
mod share_properties;
mod simulate;
mod simulate_apenet;
mod sound_machines;
mod staging;
