//! Runs the program, for the tests of its commands.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The program with these arguments, without standard input; its output is captured.
pub(crate) fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_peerlane"));
    command.args(args).env_remove("CLICOLOR_FORCE").env_remove("COLUMNS");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs it.
pub(crate) fn peerlane(args: &[&str]) -> Output {
    command(args).output().unwrap()
}

/// Runs it with this standard input.
pub(crate) fn with_input(args: &[&str], input: &[u8]) -> Output {
    let mut child = command(args).stdin(Stdio::piped()).spawn().unwrap();
    // the program may close the pipe before it has read everything
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

/// Its standard output, if it exits with 0.
pub(crate) fn out(args: &[&str]) -> String {
    let output = peerlane(args);
    assert_eq!(status(&output), 0, "{args:?}: {}", err(&output));
    stdout(&output)
}

/// Its standard output, if it exits with 0 or 1.
pub(crate) fn checked(args: &[&str]) -> String {
    let output = peerlane(args);
    assert!(status(&output) < 2, "{args:?}: {}", err(&output));
    stdout(&output)
}

/// Its standard error, if it exits with 2.
pub(crate) fn refused(args: &[&str]) -> String {
    let output = peerlane(args);
    assert_eq!(status(&output), 2, "{args:?}: {}", stdout(&output));
    err(&output)
}

/// Its standard output as JSON, whatever its exit status.
pub(crate) fn json(args: &[&str]) -> Value {
    let output = peerlane(args);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{args:?}: {e}: {}", err(&output)))
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

pub(crate) fn status(output: &Output) -> i32 {
    output.status.code().unwrap()
}

/// A path in a folder for the files of one module of tests.
pub(crate) fn path(module: &str, name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(module);
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

/// A file with this content there.
pub(crate) fn file(module: &str, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = path(module, name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

/// One in so many of all, the first among them; all with `PEERLANE_EVERYTHING`, as .ci/nightly sets it.
pub(crate) fn some<T>(all: impl IntoIterator<Item = T>, one_in: usize) -> impl Iterator<Item = T> {
    let one_in = if everything() { 1 } else { one_in };
    all.into_iter().step_by(one_in)
}

/// Whether nothing is left out.
pub(crate) fn everything() -> bool {
    std::env::var_os("PEERLANE_EVERYTHING").is_some()
}
