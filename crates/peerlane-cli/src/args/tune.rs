//! Arguments of `tune`.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use peerlane::transfer::Collective;
use peerlane::tune::Setting;
use peerlane::units::Seconds;

use super::measure::duration;
use super::{Detail, Machines, Sizes, sizes};

const TUNED: &str = "\
TARGET is a machine as for 'check'. The settings to improve are NCCL_* of the environment and of
nccl.conf if it is 'live', those that an NCCL log shows if it has one, and those of --set.

--prove needs 'live', or a system to simulate. It starts NCCL in processes of its own, with and
without each setting in turn, and keeps what is faster in every pair. NVLink SHARP (NVLS) is off in
all of them, and never suggested: on a shared host it can take GPUs out of service.

`peerlane help nccl-advice` describes predictions and measurements.";

/// Arguments of `tune`.
#[derive(Debug, Args)]
#[command(after_help = TUNED)]
pub(crate) struct TuneArgs {
    #[command(flatten)]
    pub(crate) machines: Machines,
    #[command(flatten)]
    pub(crate) detail: Detail,
    /// The collective
    #[arg(short, long, value_name = "COLLECTIVE", default_value = "all-reduce", value_parser = collectives())]
    pub(crate) collective: Collective,
    /// The GPUs, rank 0 first; default: all
    #[arg(short, long, value_name = "GPU,…", value_delimiter = ',')]
    pub(crate) gpus: Vec<String>,
    /// Message sizes
    #[arg(long, value_name = "SIZE,…", value_parser = sizes, default_value = "64K,4M,256M")]
    pub(crate) sizes: Sizes,
    /// A variable of NCCL as if it were set; repeatable
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = setting)]
    pub(crate) set: Vec<Setting>,
    /// Measure each suggestion with and without, and keep only what helps
    #[arg(long)]
    pub(crate) prove: bool,
    /// Pairs of runs for each suggestion
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(6..=100), requires = "prove")]
    pub(crate) pairs: u16,
    /// Time after which no further pair is begun, as 5m or 90s
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration, requires = "prove")]
    pub(crate) budget: Seconds,
    /// Also write the result to this file, as JSON
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Also measure on GPUs that other processes are using
    #[arg(long, requires = "prove")]
    pub(crate) force: bool,
    /// Output format; default: suggestions with reasons
    #[arg(short, long, value_name = "FORMAT", conflicts_with = "json")]
    pub(crate) format: Option<TuneFormat>,
}

/// What `tune` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TuneFormat {
    /// Lines for a shell, each with its reason
    Env,
}

fn collectives() -> impl TypedValueParser<Value = Collective> {
    let all: Vec<Collective> = Collective::ALL.into_iter().filter(|c| *c != Collective::AllToAll).collect();
    let named = |name: String| Collective::ALL.into_iter().find(|c| c.name() == name).ok_or("no such collective");
    PossibleValuesParser::new(all.into_iter().map(Collective::name)).try_map(named)
}

/// `NCCL_PROTO=LL`.
fn setting(text: &str) -> Result<Setting, String> {
    let (name, value) = text.split_once('=').ok_or("write a variable as NCCL_PROTO=LL")?;
    let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    if !name.starts_with("NCCL_") || !name.chars().all(is_name) {
        return Err("a variable of NCCL begins with NCCL_, as in NCCL_PROTO=LL".to_owned());
    }
    Ok(Setting { name: name.to_owned(), value: value.to_owned(), source: "--set".to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_variables_of_nccl_are_set() {
        assert_eq!(setting("NCCL_ALGO=allreduce:tree").unwrap().value, "allreduce:tree");
        for wrong in ["NCCL_PROTO", "LD_PRELOAD=x", "NCCL_ =1", "nccl_proto=LL"] {
            assert!(setting(wrong).is_err(), "{wrong}");
        }
    }
}
