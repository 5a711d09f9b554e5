//! The program as its users see it. One program of tests, so that it is linked once: `cargo test -p peerlane-cli NAME::` runs one module.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, and says why it is skipped"
)]

mod ahead;
mod between;
mod cli;
mod collect;
mod common;
mod compare;
mod devices;
mod docs;
mod documents;
#[cfg(unix)]
mod doors;
mod examples;
mod explain_rdma;
mod facts;
mod files;
mod fleet;
mod foreign;
mod gate;
mod gather;
mod golden;
mod growing;
mod help;
mod hostile;
mod infer;
mod judgement;
mod licences;
mod measure;
mod new;
mod nodes;
mod one_answer;
mod options;
mod place;
mod planted;
mod planted_sites;
mod reading;
mod recipes;
mod redact;
mod report;
mod runs;
mod schemas;
mod screens;
mod simulate;
mod stability;
mod terminal;
mod thresholds;
mod tune;
mod verdict;
