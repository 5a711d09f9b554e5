//! The program as tests of its commands start it.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

pub(crate) fn peerlane(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_peerlane")).args(args).stdin(Stdio::null()).output().unwrap()
}

/// What it prints where it ends well.
pub(crate) fn out(args: &[&str]) -> String {
    let output = peerlane(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The same as JSON.
pub(crate) fn json(args: &[&str]) -> Value {
    serde_json::from_str(&out(args)).unwrap()
}
