//! Standard output that libraries write to, while another process reads what this one says.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a failed test panics; it chooses its programs itself"
)]

use std::io::{self, Write};
use std::process::{self, Command};

use peerlane_gpu::take_output;

/// Set where this test is the process that speaks.
const SPEAKER: &str = "PEERLANE_TEST_SPEAKER";

#[test]
fn what_libraries_print_is_no_message() {
    if std::env::var_os(SPEAKER).is_some() {
        let mut own = take_output().unwrap();
        // by number, as a library writes
        io::stdout().write_all(b"NCCL INFO Bootstrap\n").unwrap();
        io::stdout().flush().unwrap();
        // what this process starts writes there, too
        Command::new("sh").args(["-c", "echo started"]).status().unwrap();
        own.write_all(b"a message\n").unwrap();
        process::exit(0);
    }
    let own = std::env::current_exe().unwrap();
    let said = Command::new(own).arg("what_libraries_print_is_no_message").env(SPEAKER, "1").output().unwrap();
    let (out, trouble) = (String::from_utf8(said.stdout).unwrap(), String::from_utf8(said.stderr).unwrap());
    assert!(said.status.success(), "{out}{trouble}");
    assert!(out.ends_with("a message\n") && !out.contains("NCCL") && !out.contains("started"), "{out}");
    assert_eq!(trouble, "NCCL INFO Bootstrap\nstarted\n");
}
