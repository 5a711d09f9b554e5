//! Arguments of `top`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use peerlane::units::Seconds;

use super::Redact;
use super::measure::duration;

const KEYS: &str = "\
TARGET is one of:
  live        this machine (the default); no root is needed
  NAME        a system in the catalogue, simulated: copies that follow each other
  FILE.toml   a system that you describe yourself, simulated
  FILE.jsonl  a recording of --record, played again

Keys: space freezes, ← and → go through the past, End returns to now, p shows the past of each
link, l each NVLink, ↑ and ↓ scroll, q ends.

A link's bar is full at what one copy alone should get of it. Traffic of NVLinks is counted without
what the protocol adds, that of PCIe with it.";

/// Arguments of `top`.
#[derive(Debug, Args)]
#[command(after_help = KEYS)]
pub(crate) struct TopArgs {
    /// 'live', a system name, a system file, or a recording
    #[arg(value_name = "TARGET")]
    pub(crate) target: Option<OsString>,
    /// Time from a sample to the next, at least 100ms
    #[arg(long, value_name = "TIME", value_parser = period, default_value = "1s")]
    pub(crate) every: Seconds,
    /// End after this time
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    pub(crate) length: Option<Seconds>,
    /// Print one picture, of the first two samples, and end
    #[arg(long, conflicts_with_all = ["length", "record"])]
    pub(crate) once: bool,
    /// Keep every sample in this new file, a line of JSON each
    #[arg(long, value_name = "FILE.jsonl")]
    pub(crate) record: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) redact: Redact,
}

/// A time that counters can follow: NVML's rates of PCIe take 40 ms.
fn period(text: &str) -> Result<Seconds, String> {
    duration(text).and_then(|time| match time.seconds() {
        0.1..=3600.0 => Ok(time),
        _ => Err("write a time from 100ms to 1h".to_owned()),
    })
}
