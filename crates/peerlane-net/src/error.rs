//! Why a run of many nodes cannot begin, or go on.

/// Why a run of many nodes cannot begin, or go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No port to listen at.
    #[error("cannot listen at port {}: {last}; give another one to all processes with --head HOST:PORT", list(ports))]
    NoPort {
        /// Those that were tried.
        ports: Vec<u16>,
        /// What the system said of the last one.
        last: String,
    },
    /// The head was not found.
    #[error(
        "no head found at {heads} within {wait:.0} s{}; does the process of rank 0 run, and may this host connect to it? \
         --head HOST:PORT names another place",
        said(last)
    )]
    NoHead {
        /// Where it was looked for.
        heads: String,
        /// Seconds.
        wait: f64,
        /// What the last attempt met.
        last: String,
    },
    /// The head has another secret.
    #[error("{0} refuses this secret: PEERLANE_SECRET, or the file of --secret-file, differs from the head's")]
    Secret(String),
    /// Not all processes came.
    #[error(
        "{came} of {size} processes came; missing: rank {}{}", list(missing),
        match refused { 0 => String::new(), n => format!("; {n} connections showed another secret") }
    )]
    Missing {
        /// How many came.
        came: usize,
        /// How many the launcher started.
        size: usize,
        /// Which did not.
        missing: Vec<usize>,
        /// Connections with a wrong secret.
        refused: usize,
    },
    /// Another version.
    #[error("rank {rank} on {host} runs peerlane {version}, and the head {}: install one version on all nodes", env!("CARGO_PKG_VERSION"))]
    Version {
        /// Whose.
        rank: usize,
        /// Where.
        host: String,
        /// Which.
        version: String,
    },
    /// Processes of differently started runs.
    #[error(
        "rank {rank} on {host} was started as one of {theirs} processes, and the head as one of {size}: they are not of one run"
    )]
    Size {
        /// Whose.
        rank: usize,
        /// Where.
        host: String,
        /// Its number of processes.
        theirs: usize,
        /// The head's.
        size: usize,
    },
    /// One rank, two processes.
    #[error("rank {rank} came twice, from {} and {}: each was started for itself, so the launcher is not the one whose variables are set", hosts[0], hosts[1])]
    Twice {
        /// Which.
        rank: usize,
        /// Where both are.
        hosts: [String; 2],
    },
    /// A process left before the run began.
    #[error("rank {rank} on {host} left before all had come: {why}")]
    Left {
        /// Which.
        rank: usize,
        /// Where.
        host: String,
        /// In words.
        why: String,
    },
    /// Several agents on one host.
    #[error(
        "ranks {} are all on {host}: start one process a node (srun --ntasks-per-node=1, mpirun --map-by ppr:1:node), or take each for a \
         node with --every-rank",
        list(ranks)
    )]
    SameHost {
        /// Which.
        host: String,
        /// Its ranks.
        ranks: Vec<usize>,
    },
    /// Nothing between nodes.
    #[error(
        "all {size} processes are on one node: there is nothing between nodes to measure; --every-rank takes each for a node"
    )]
    OneNode {
        /// How many processes.
        size: usize,
    },
    /// The head does not want this process.
    #[error("the head ended the run: {0}")]
    Refused(String),
    /// The head is gone, or the connection.
    #[error("{0}")]
    Gone(String),
    /// By the user.
    #[error("interrupted while waiting for the other processes")]
    Interrupted,
}

/// The first numbers of a list, and how many more there are.
fn list<T: ToString>(numbers: &[T]) -> String {
    const SHOWN: usize = 8;
    let mut shown = numbers.iter().take(SHOWN).map(T::to_string).collect::<Vec<_>>().join(", ");
    if numbers.len() > SHOWN {
        shown.push_str(&format!(" and {} more", numbers.len() - SHOWN));
    }
    shown
}

fn said(last: &str) -> String {
    if last.is_empty() { String::new() } else { format!(" ({last})") }
}
