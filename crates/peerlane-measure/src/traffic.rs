//! What the links of a machine carry from moment to moment: samples of their counters, the rates between two samples, and
//! what each link should carry.
//!
//! A recording is JSON lines: a [`Head`] with the machine, then one [`Sample`] a line.

mod gauge;
mod simulated;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use peerlane_machine::fabric::PciAddress;
use peerlane_machine::schema::JsonSchema;
use peerlane_machine::units::Seconds;
use peerlane_read::evidence::from_json;
use serde::{Deserialize, Serialize};

use crate::run::{GpuState, RunError, Subject};

pub use gauge::{Gauge, Kind, gauges};
pub use simulated::SimulatedTraffic;

/// The name of a recording's format.
pub const SCHEMA: &str = "peerlane/traffic/1";

/// What two directions carry: sent by the device, and received by it.
pub type BothWays<T> = [T; 2];

/// The first line of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Head {
    /// Names this format.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// Version of peerlane that wrote it.
    pub peerlane: String,
    /// Whose links.
    pub machine: Subject,
    /// When it began, in seconds since 1970 (UTC); 0 where there is no clock, as on a simulated machine.
    pub began: u64,
    /// From a sample to the next.
    pub every: Seconds,
}

/// What the counters of a machine show at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// Since the first sample.
    pub at: Seconds,
    /// KiB that all NVLinks of a GPU have sent and received so far, without what the protocol adds.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub nvlink: BTreeMap<String, BothWays<u64>>,
    /// The same of each NVLink, in some of the samples: to read them takes a driver much longer. Absent where that cannot be
    /// read.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub nvlinks: BTreeMap<String, Vec<Option<BothWays<u64>>>>,
    /// Bytes a second that each GPU sends and receives over PCIe, headers included: over the last 20 ms, since the counters of
    /// drivers have 32 bits and begin anew twelve times a second at the full rate of 5.0 x16.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pcie: BTreeMap<String, BothWays<f64>>,
    /// Ports of network adapters: `mlx5_0/1`, `eth0`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub ports: BTreeMap<String, Port>,
    /// The GPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuState>,
    /// What cannot be read, and why: sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// What a simulated machine does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plays: Option<String>,
}

/// A port of a network adapter.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Port {
    /// Bytes that it has sent and received so far.
    pub bytes: BothWays<u64>,
    /// Where its adapter is on the PCI bus.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<PciAddress>,
}

/// Bytes a second. What was not read twice, or fell between, is absent: a counter that was reset says nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rates {
    /// All NVLinks of a GPU together.
    pub nvlink: BTreeMap<String, BothWays<f64>>,
    /// Each NVLink of a GPU, between the last two samples that have them.
    pub nvlinks: BTreeMap<String, Vec<Option<BothWays<f64>>>>,
    /// PCIe of each GPU.
    pub pcie: BTreeMap<String, BothWays<f64>>,
    /// Ports of network adapters.
    pub ports: BTreeMap<String, BothWays<f64>>,
}

/// Turns samples that follow each other into rates.
#[derive(Clone, Debug, Default)]
pub struct Follower {
    last: Sample,
    /// The last that has each NVLink, and the rates that it gave.
    links: Sample,
    of_links: BTreeMap<String, Vec<Option<BothWays<f64>>>>,
}

impl Follower {
    /// What flowed until this sample since the one before; of the first, only what is a rate already.
    pub fn rates(&mut self, sample: &Sample) -> Rates {
        let mut rates = sample.since(&self.last);
        if !sample.nvlinks.is_empty() {
            self.of_links = sample.since(&self.links).nvlinks;
            self.links = sample.clone();
        }
        rates.nvlinks.clone_from(&self.of_links);
        self.last = sample.clone();
        rates
    }
}

/// A recording that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// Its first line.
    pub head: Head,
    /// The samples.
    pub samples: Vec<Sample>,
    /// Lines that are cut or no samples, which are left out. The last line of a writer that died is mostly one.
    pub unreadable: usize,
}

/// Whether a text can only be meant as a recording.
pub fn looks_like_recording(text: &str) -> bool {
    text.trim_start_matches(['\u{feff}', ' ', '\t', '\r', '\n']).starts_with("{\"schema\":\"peerlane/traffic/")
}

impl Recording {
    /// Reads a recording.
    ///
    /// # Errors
    /// The first line is no head, or of another version's format.
    pub fn read(text: &str) -> Result<Recording, RunError> {
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        let head: Head = from_json(first)?;
        if head.schema != SCHEMA {
            return Err(RunError::Schema(head.schema));
        }
        let lines: Vec<&str> = rest.lines().filter(|line| !line.trim().is_empty()).collect();
        let all = lines.len();
        let samples: Vec<Sample> = lines.into_iter().filter_map(|line| from_json(line).ok()).collect();
        Ok(Recording { head, unreadable: all - samples.len(), samples })
    }
}

impl Sample {
    /// What flowed from an earlier sample to this one.
    fn since(&self, before: &Sample) -> Rates {
        let seconds = self.at.seconds() - before.at.seconds();
        let risen = |now: BothWays<u64>, then: BothWays<u64>| -> Option<BothWays<f64>> {
            let [sent, received] = [now[0].checked_sub(then[0])?, now[1].checked_sub(then[1])?];
            (seconds > 0.0).then(|| [sent as f64 / seconds, received as f64 / seconds])
        };
        let of_gpu = |(gpu, now): (&String, &Vec<Option<BothWays<u64>>>)| {
            let then = before.nvlinks.get(gpu)?;
            let of_link = |(now, then): (&Option<BothWays<u64>>, &Option<BothWays<u64>>)| {
                risen((*now)?, (*then)?).map(|rates| rates.map(|kib| kib * 1024.0))
            };
            Some((gpu.clone(), now.iter().zip(then).map(of_link).collect()))
        };
        let of_all = |(gpu, now): (&String, &BothWays<u64>)| {
            Some((gpu.clone(), risen(*now, *before.nvlink.get(gpu)?)?.map(|kib| kib * 1024.0)))
        };
        let of_port =
            |(port, now): (&String, &Port)| Some((port.clone(), risen(now.bytes, before.ports.get(port)?.bytes)?));
        Rates {
            nvlink: self.nvlink.iter().filter_map(of_all).collect(),
            nvlinks: self.nvlinks.iter().filter_map(of_gpu).collect(),
            pcie: self.pcie.clone(),
            ports: self.ports.iter().filter_map(of_port).collect(),
        }
    }
}
