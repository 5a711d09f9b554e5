//! `peerlane-mcp`: peerlane for assistants, by the Model Context Protocol on standard input and output.
//!
//! People paste logs into an assistant. This server gives it numbers in place of guesses: what a machine is, should deliver and does
//! deliver, with units, intervals and sources. It executes nothing, connects to nothing, and reads no file outside the folders that
//! its user allowed.

mod answers;
mod input;
mod server;
mod strict;
mod tables;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use rmcp::ServiceExt;
use rmcp::transport::stdio;

use input::Allowed;
use server::Server;

/// Answers questions of assistants about multi-GPU machines: a server of the Model Context Protocol on standard input and
/// output. It executes nothing and opens no connection.
#[derive(Debug, Parser)]
#[command(name = "peerlane-mcp", version, max_term_width = 100)]
struct Arguments {
    /// Folder or file that may be read when a question names a path in it; repeatable. Without one, only texts that stand in the
    /// question itself are read
    #[arg(long = "allow", value_name = "PATH")]
    allowed: Vec<PathBuf>,
    /// Seconds that a question may take
    #[arg(long, value_name = "S", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    patience: u64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match serve(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            // standard output is the protocol's
            let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("peerlane-mcp: {why}\n").as_bytes());
            ExitCode::from(2)
        }
    }
}

fn serve(arguments: &Arguments) -> Result<(), String> {
    let server = Server::new(Allowed::of(&arguments.allowed)?, Duration::from_secs(arguments.patience));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|e| e.to_string())?;
    let served = runtime.block_on(async {
        let running = server.serve(stdio()).await.map_err(|e| e.to_string())?;
        running.waiting().await.map_err(|e| e.to_string())
    });
    // a question that takes too long does not keep the process
    runtime.shutdown_background();
    served.map(|_| ())
}
