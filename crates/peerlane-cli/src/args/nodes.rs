//! Options of `measure` between nodes.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use peerlane::nodes::Transport;
use peerlane::units::Seconds;
use peerlane_net::launcher::HostPort;

use super::measure::duration;

/// What `measure --nodes` takes beside the options of `measure`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Between nodes")]
pub(crate) struct NodesArgs {
    /// Measure between the nodes on which srun, mpirun or torchrun started this command
    #[arg(long, conflicts_with_all = ["target", "faults"])]
    pub(crate) nodes: bool,
    /// Use only this transport; of a simulated cluster verbs or nccl
    #[arg(long, value_name = "TRANSPORT", value_parser = transport())]
    pub(crate) transport: Option<Transport>,
    /// File with the secret that all processes share, in place of the variable PEERLANE_SECRET
    #[arg(long, value_name = "FILE", requires = "nodes")]
    pub(crate) secret_file: Option<PathBuf>,
    /// Refuse a secret file that others than its owner may read, in place of a warning
    #[arg(long, requires = "secret_file")]
    pub(crate) strict_secrets: bool,
    /// Where the process of rank 0 is, if the launcher does not say it
    #[arg(long, value_name = "HOST[:PORT]", value_parser = HostPort::parse, requires = "nodes")]
    pub(crate) head: Option<HostPort>,
    /// File on a file system that all nodes share, in which rank 0 writes where it is
    #[arg(long, value_name = "FILE", requires = "nodes", conflicts_with = "head")]
    pub(crate) rendezvous: Option<PathBuf>,
    /// Number of this process, from 0, without a launcher
    #[arg(long, value_name = "N", requires = "nodes")]
    pub(crate) rank: Option<usize>,
    /// How many processes there are, without a launcher
    #[arg(long, value_name = "N", requires = "nodes")]
    pub(crate) size: Option<usize>,
    /// Take each process for a node, also where several are on one host: to try it out
    #[arg(long, requires = "nodes")]
    pub(crate) every_rank: bool,
    /// How long to wait until all processes have come
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s", requires = "nodes")]
    pub(crate) wait: Seconds,
    /// Silence after which an agent is lost, at most 60s; default: twice what a round may take, 10s without --budget
    #[arg(long, value_name = "TIME", value_parser = silence, requires = "nodes")]
    pub(crate) silence: Option<Seconds>,
}

/// A silence that connections outlast, and signs of life do not.
fn silence(text: &str) -> Result<Seconds, String> {
    let most = peerlane_net::SILENCE.as_secs_f64();
    let given = duration(text)?;
    if (1.0..=most).contains(&given.seconds()) {
        Ok(given)
    } else {
        Err(format!("agents show every half second that they live: 1s to {most:.0}s"))
    }
}

fn transport() -> impl TypedValueParser<Value = Transport> {
    let named = |name: String| Transport::ALL.into_iter().find(|t| t.name() == name).ok_or("no such transport");
    PossibleValuesParser::new(Transport::ALL.map(Transport::name)).try_map(named)
}
