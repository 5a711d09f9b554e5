//! Which of how many processes this one is, and where the first one is: from the variables of Slurm, Open MPI, torchrun
//! and MPICH, or from options.

mod hostlist;

use std::fmt;

/// Port numbers that a job's head may listen on: below those that systems give to outgoing connections.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// How many of them a job tries, since another program may hold some.
const TRIES: u16 = 8;

/// Who started the processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Launcher {
    /// `srun`.
    Slurm,
    /// `mpirun` of Open MPI.
    OpenMpi,
    /// `torchrun`.
    Torchrun,
    /// A launcher that speaks PMI: `mpiexec` of MPICH or Intel MPI.
    Pmi,
    /// `RANK` and `WORLD_SIZE`, as Kubernetes jobs and scripts set them.
    Environment,
    /// A person, by options.
    Options,
}

impl fmt::Display for Launcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Launcher::Slurm => "Slurm",
            Launcher::OpenMpi => "Open MPI",
            Launcher::Torchrun => "torchrun",
            Launcher::Pmi => "MPICH",
            Launcher::Environment => "RANK and WORLD_SIZE",
            Launcher::Options => "--rank and --size",
        })
    }
}

/// A host with the port that was given for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// Name or address.
    pub host: String,
    /// Absent: one of the job's ports.
    pub port: Option<u16>,
}

impl HostPort {
    /// Reads `node01`, `node01:29400`, `10.0.0.1:29400`, `fe80::1` or `[fe80::1]:29400`.
    ///
    /// # Errors
    /// In words, where it is none of these.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not HOST or HOST:PORT");
        let port = |digits: &str| digits.parse::<u16>().ok().filter(|port| *port > 0).ok_or_else(wrong);
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => match rest.split_once(']').ok_or_else(wrong)? {
                (host, "") => (host, None),
                (host, after) => (host, Some(port(after.strip_prefix(':').ok_or_else(wrong)?)?)),
            },
            // several colons are an address of IPv6 without a port
            None if text.matches(':').count() > 1 => (text, None),
            None => match text.split_once(':') {
                Some((host, digits)) => (host, Some(port(digits)?)),
                None => (text, None),
            },
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:%".contains(c);
        if host.is_empty() || !host.chars().all(plain) {
            return Err(wrong());
        }
        Ok(HostPort { host: host.to_owned(), port })
    }
}

/// The place of this process among those that were started together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Who says so.
    pub launcher: Launcher,
    /// Number of this process; 0 is the head.
    pub rank: usize,
    /// How many processes were started.
    pub size: usize,
    /// Number of this process among those of its node; 0 measures.
    pub local_rank: usize,
    /// Where the head may be, the most likely first. Empty where nothing says it.
    pub heads: Vec<HostPort>,
    /// The nodes, where the launcher lists them.
    pub nodes: Vec<String>,
    /// What tells this job from others on the same hosts.
    pub job: String,
}

/// What a person gave instead of a launcher's variables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// `--rank`.
    pub rank: Option<usize>,
    /// `--size`.
    pub size: Option<usize>,
    /// `--head`.
    pub head: Option<HostPort>,
}

/// Why there is no [`Place`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No launcher.
    #[error(
        "no launcher found: none of the variables of Slurm, Open MPI, MPICH or torchrun is set; start one process a node with \
         'srun -N 4 --ntasks-per-node=1 peerlane measure --nodes', mpirun or torchrun, or give --rank, --size and --head to each"
    )]
    None,
    /// One of the two options.
    #[error("give --rank and --size together: both, or neither where a launcher sets them")]
    Half,
    /// A variable or option is no number, or too large.
    #[error("{name} is '{value}': {why}")]
    Value {
        /// The variable or option.
        name: String,
        /// Its value.
        value: String,
        /// What is wrong.
        why: String,
    },
    /// A launcher that started each process for itself, or nobody else.
    #[error(
        "{0} started 1 process: there is nothing between nodes to measure; if more were started, each believes to be alone: \
         the launcher is not the one whose variables are set"
    )]
    Alone(Launcher),
}

/// The most processes of one run.
pub const MOST_RANKS: usize = 100_000;

impl Place {
    /// The place that options or a launcher's variables state; `get` gives a variable's value.
    ///
    /// # Errors
    /// See [`enum@Error`].
    pub fn of(get: &dyn Fn(&str) -> Option<String>, given: &Given) -> Result<Self, Error> {
        let get = |name: &str| get(name).filter(|value| !value.is_empty());
        let mut place = match (given.rank, given.size) {
            (Some(rank), Some(size)) => {
                Place { rank, size, ..Place::new(Launcher::Options, "", Vec::new()) }.checked("--rank", rank)?
            }
            (None, None) => Self::of_launcher(&get)?,
            _ => return Err(Error::Half),
        };
        if let Some(head) = &given.head {
            place.heads = vec![head.clone()];
        }
        if place.size == 1 {
            return Err(Error::Alone(place.launcher));
        }
        Ok(place)
    }

    fn of_launcher(get: &dyn Fn(&str) -> Option<String>) -> Result<Self, Error> {
        // inside a job of Slurm, mpirun and torchrun leave Slurm's variables set, with the ranks of what started them
        if get("OMPI_COMM_WORLD_RANK").is_some() {
            let job = get("PMIX_NAMESPACE").or_else(|| get("OMPI_MCA_ess_base_jobid")).unwrap_or_default();
            let nodes = slurm_nodes(get)?;
            let mut heads: Vec<HostPort> = nodes.first().map(|node| name(node)).into_iter().collect();
            heads.extend(mpirun_hosts(get));
            let local = get("OMPI_COMM_WORLD_LOCAL_SIZE");
            if local.is_some() && local == get("OMPI_COMM_WORLD_SIZE") {
                heads = vec![name("localhost")];
            }
            let names = ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"];
            return Place { nodes, ..Place::new(Launcher::OpenMpi, &job, heads) }.numbered(get, names);
        }
        let torch = get("TORCHELASTIC_RUN_ID");
        if torch.is_some() {
            return Self::of_environment(get, Launcher::Torchrun, &torch.unwrap_or_default());
        }
        if get("SLURM_PROCID").is_some() {
            let nodes = slurm_nodes(get)?;
            let heads = nodes.first().map(|node| name(node)).into_iter().collect();
            let part = |name| get(name).unwrap_or_default();
            let job = format!("{}.{}", part("SLURM_JOB_ID"), part("SLURM_STEP_ID"));
            let size = if get("SLURM_STEP_NUM_TASKS").is_some() { "SLURM_STEP_NUM_TASKS" } else { "SLURM_NTASKS" };
            return Place { nodes, ..Place::new(Launcher::Slurm, &job, heads) }
                .numbered(get, ["SLURM_PROCID", size, "SLURM_LOCALID"]);
        }
        if get("PMI_RANK").is_some() {
            let job = get("PMI_JOBID").unwrap_or_default();
            let names = ["PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"];
            return Place::new(Launcher::Pmi, &job, Vec::new()).numbered(get, names);
        }
        if get("RANK").is_some() && get("WORLD_SIZE").is_some() {
            return Self::of_environment(get, Launcher::Environment, "");
        }
        Err(Error::None)
    }

    /// By `RANK`, `WORLD_SIZE`, `LOCAL_RANK`, `MASTER_ADDR` and `MASTER_PORT`. On that port torchrun itself listens, so
    /// it only tells jobs apart.
    fn of_environment(get: &dyn Fn(&str) -> Option<String>, launcher: Launcher, run: &str) -> Result<Self, Error> {
        let address = "MASTER_ADDR";
        let heads = match get(address) {
            Some(value) => {
                vec![HostPort::parse(&value).map_err(|why| Error::Value { name: address.to_owned(), value, why })?]
            }
            None => Vec::new(),
        };
        let job = format!("{run} {}", get("MASTER_PORT").unwrap_or_default());
        Place::new(launcher, &job, heads).numbered(get, ["RANK", "WORLD_SIZE", "LOCAL_RANK"])
    }

    fn new(launcher: Launcher, job: &str, heads: Vec<HostPort>) -> Self {
        Place { launcher, rank: 0, size: 0, local_rank: 0, heads, nodes: Vec::new(), job: job.to_owned() }
    }

    fn numbered(self, get: &dyn Fn(&str) -> Option<String>, [rank, size, local]: [&str; 3]) -> Result<Self, Error> {
        let number = |name: &str| match get(name) {
            None => Ok(None),
            Some(value) => match value.parse::<usize>() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(Error::Value { name: name.to_owned(), value, why: "not a number".to_owned() }),
            },
        };
        let missing =
            |name: &str| Error::Value { name: name.to_owned(), value: String::new(), why: "not set".to_owned() };
        let place = Place {
            rank: number(rank)?.ok_or_else(|| missing(rank))?,
            size: number(size)?.ok_or_else(|| missing(size))?,
            local_rank: number(local)?.unwrap_or(0),
            ..self
        };
        let at = place.rank;
        place.checked(rank, at)
    }

    fn checked(self, name: &str, rank: usize) -> Result<Self, Error> {
        let why = if self.size > MOST_RANKS {
            format!("of {} processes; the most are {MOST_RANKS}", self.size)
        } else if rank >= self.size {
            format!("of {} processes the last has rank {}", self.size, self.size.saturating_sub(1))
        } else {
            return Ok(self);
        };
        Err(Error::Value { name: name.to_owned(), value: rank.to_string(), why })
    }

    /// The ports that this job's head may listen on: the same in all its processes.
    pub fn ports(&self) -> Vec<u16> {
        // FNV-1a: any spread will do
        let hash = self
            .job
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        let count = PORTS.end - PORTS.start;
        let first = (hash % u64::from(count)) as u16;
        (0..TRIES).map(|i| PORTS.start + (first + i) % count).collect()
    }
}

fn name(host: &str) -> HostPort {
    HostPort { host: host.to_owned(), port: None }
}

/// The nodes of this step of Slurm's, else of the job.
fn slurm_nodes(get: &dyn Fn(&str) -> Option<String>) -> Result<Vec<String>, Error> {
    let listed = ["SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"];
    match listed.into_iter().find_map(|name| Some((name, get(name)?))) {
        Some((name, value)) => {
            hostlist::expand(&value).map_err(|why| Error::Value { name: name.to_owned(), value, why })
        }
        None => Ok(Vec::new()),
    }
}

/// Addresses of the host of Open MPI's `mpirun`, where rank 0 often is too: `1.0;tcp://10.0.0.1,10.1.0.1:3608;tcp6://…`.
fn mpirun_hosts(get: &dyn Fn(&str) -> Option<String>) -> Vec<HostPort> {
    let uri = get("OMPI_MCA_orte_hnp_uri").or_else(|| get("PRTE_MCA_prte_hnp_uri")).unwrap_or_default();
    let lists = uri.split(';').filter_map(|part| part.strip_prefix("tcp://").or_else(|| part.strip_prefix("tcp4://")));
    let hosts = lists.filter_map(|list| list.rsplit_once(':')).flat_map(|(hosts, _)| hosts.split(','));
    hosts.filter_map(|host| HostPort::parse(host).ok()).collect()
}

#[cfg(test)]
mod tests;
