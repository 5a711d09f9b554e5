//! The program: what every path between the GPUs, NICs and host memory of a machine is, should
//! deliver, does deliver, and what to do about the difference.
//!
//! The analysis is in the library `peerlane`. This one turns arguments into machines (`target`), runs one
//! command on them (`commands`) and prints the result (`render`). It is a library so that other entry points than
//! `main.rs` can be the program, too: the Python package's.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests open files and start programs of their own"))]

mod args;
mod commands;
mod confine;
mod console;
mod fleet;
mod host;
mod live;
mod measuring;
#[expect(clippy::disallowed_methods, reason = "opens files to write them")]
mod output_file;
mod pages;
mod printable;
mod program;
mod progress;
mod redact;
mod site;
#[expect(clippy::disallowed_methods, reason = "makes folders durable")]
mod system;
mod target;

use std::env;
use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;
use std::sync::OnceLock;

use clap::error::{ContextKind, ContextValue, ErrorKind};

#[cfg(not(test))]
use peerlane_derive::JsonSchema;
#[cfg(test)]
use schemars::JsonSchema;

use args::{Cli, Color};
use console::say;
use peerlane::evidence::Found;
use peerlane::input_file::Refused;
use peerlane::one_line::{escaped, is_hidden};
use peerlane::target::{OpenError, TargetKind};
use peerlane_report::{formats, render};
use printable::Filter;

/// The outcome of a command that ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Outcome {
    /// There are findings at or above `--fail-on`.
    findings: bool,
    /// Part of the work could not be done; stderr says which.
    incomplete: bool,
}

/// Why a command failed.
#[derive(Debug)]
enum Failure {
    /// A message for the user.
    Message(String),
    /// The output could not be written.
    Output(io::Error),
}

impl Failure {
    fn new(message: impl Into<String>) -> Self {
        Failure::Message(message.into())
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        Failure::Message(target::in_lines(error.notices()))
    }
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        Failure::Message(refused.to_string())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Output(error)
    }
}

/// What to say of a TARGET in place of a command: `peerlane live`.
fn no_command(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let is_target = error.kind() == ErrorKind::InvalidSubcommand && TargetKind::of(word.as_ref()).is_ok();
    is_target.then(|| format!("'{word}' is a TARGET, not a command; to check it: peerlane check {word}"))
}

/// When this program began, in seconds since 1970 (UTC).
fn began() -> f64 {
    static BEGAN: OnceLock<f64> = OnceLock::new();
    *BEGAN.get_or_init(peerlane_gpu::timeline::now)
}

/// The columns of the terminal that standard output is, or `COLUMNS`.
fn terminal_width() -> Option<usize> {
    let wanted = env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    wanted.or_else(|| terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0)))
}

/// The words that this program was started with, its own name first.
static WORDS: OnceLock<Vec<OsString>> = OnceLock::new();

/// What the user wrote after the program's name.
fn arguments() -> impl Iterator<Item = &'static OsString> {
    WORDS.get().into_iter().flatten().skip(1)
}

/// What this machine reports about itself, as evidence.
///
/// # Errors
/// Why no GPU was found.
pub fn this_machine() -> Result<Found, String> {
    live::read()
}

/// The program, with its own name as the first of its words. It is meant to be called once in a process.
#[must_use]
pub fn main(words: impl IntoIterator<Item = OsString>) -> ExitCode {
    ExitCode::from(status(words))
}

/// The same; returns the exit status.
pub fn status(words: impl IntoIterator<Item = OsString>) -> u8 {
    let words = WORDS.get_or_init(|| words.into_iter().collect());
    began();
    if let Some(columns) = terminal_width() {
        render::set_terminal_width(columns);
    }
    // nothing has such a name, and messages quote arguments
    if let Some(word) = words.iter().map(|word| word.to_string_lossy().into_owned()).find(|w| w.contains(is_hidden)) {
        say(&format!(
            "an argument has a character that no terminal shows: '{}'; a file can be given as '-'",
            escaped(&word)
        ));
        return 2;
    }
    let cli = match args::parse(words) {
        Ok(cli) => cli,
        Err(error) => {
            if let Some(hint) = no_command(&error) {
                say(&hint);
                return 2;
            }
            let text = error.render().ansi().to_string();
            // an error while printing an error is ignored
            let _ = match error.use_stderr() {
                true => Filter::new(anstream::stderr().lock()).write_all(text.as_bytes()),
                false => Filter::new(anstream::stdout().lock()).write_all(text.as_bytes()),
            };
            return if error.use_stderr() { 2 } else { 0 };
        }
    };
    match cli.terminal.color {
        Color::Auto => {}
        Color::Always => anstream::ColorChoice::Always.write_global(),
        Color::Never => anstream::ColorChoice::Never.write_global(),
    }
    if cli.terminal.quiet {
        console::be_quiet();
    }
    system::outlive_size_limit();
    let result = run(&cli);
    if let Err(Failure::Message(message)) = &result {
        say(message);
    }
    if let Err(Failure::Output(error)) = &result
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        say(&format!("cannot write the output: {error}"));
    }
    exit_status(&result)
}

fn run(cli: &Cli) -> Result<Outcome, Failure> {
    let mut out = BufWriter::new(Filter::new(anstream::stdout().lock()));
    let command = match (&cli.command, cli.licenses) {
        (Some(command), false) => command,
        (None, true) => {
            commands::shell::licences(&mut out)?;
            out.flush()?;
            return Ok(Outcome::default());
        }
        (Some(_), true) => return Err(Failure::new("--licenses is given without a command")),
        (None, false) => return Err(Failure::new("a command is missing; 'peerlane --help' lists them")),
    };
    if let Err(why) = confine::confine(command)
        && cli.terminal.verbose
    {
        console::note(&why);
    }
    let outcome = commands::run(command, &mut out);
    // the output of a failed command up to its failure is still useful
    out.flush()?;
    outcome
}

/// 0: healthy or done. 1: findings at or above `--fail-on`. 2: failed, or only partly done.
///
/// A reader that closes the pipe early is no error.
fn exit_status(result: &Result<Outcome, Failure>) -> u8 {
    match result {
        Ok(Outcome { incomplete: true, .. }) => 2,
        Ok(Outcome { findings: true, .. }) => 1,
        Ok(_) => 0,
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => 0,
        Err(_) => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses() {
        let ok = |findings, incomplete| exit_status(&Ok(Outcome { findings, incomplete }));
        assert_eq!((ok(false, false), ok(true, false), ok(true, true)), (0, 1, 2));
        assert_eq!(exit_status(&Err(Failure::new("no"))), 2);
        assert_eq!(exit_status(&Err(io::Error::from(io::ErrorKind::BrokenPipe).into())), 0);
        assert_eq!(exit_status(&Err(io::Error::from(io::ErrorKind::StorageFull).into())), 2);
    }
}
