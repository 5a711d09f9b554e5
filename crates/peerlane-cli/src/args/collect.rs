//! Arguments of commands that save a record of this host: `gather` and `measure`.

use std::path::PathBuf;

use clap::Args;

/// A record in a directory that many hosts share.
#[derive(Debug, Args)]
pub(crate) struct Collect {
    /// Save under a new name, DIR/HOST/TIME, in a directory that hosts share (docs/fleet.md)
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    pub(crate) to: Option<PathBuf>,
    /// This host's name for --to; default: the system's
    #[arg(long, value_name = "NAME", requires = "to", conflicts_with = "output")]
    pub(crate) host: Option<String>,
}
