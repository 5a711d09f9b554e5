//! `peerlane`, the program: all of it is in the library of this package.

use std::process::ExitCode;

fn main() -> ExitCode {
    peerlane_cli::main(std::env::args_os())
}
