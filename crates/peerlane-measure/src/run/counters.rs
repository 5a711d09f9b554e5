//! What a machine's counters rose by while steps ran: bytes that links carried, and errors.
//!
//! Counters are read between kinds of steps, or before the first and after the last, never while one is timed. Only
//! differences are recorded: what a counter stood at before says nothing about the run.

use std::collections::BTreeMap;

use peerlane_machine::schema::JsonSchema;
use serde::{Deserialize, Serialize};

use peerlane_machine::counter::ErrorCounter;
use peerlane_machine::transfer::Transfer;
use peerlane_machine::units::Seconds;

/// Bytes that steps sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Moved {
    /// From where, to where, and how.
    #[serde(flatten)]
    pub transfer: Transfer,
    /// Bytes in all, those of the warm-up too.
    pub bytes: u64,
}

/// Data that the NVLinks of one GPU carried, without what the protocol adds. Links are in the order of their numbers; one
/// whose counter could not be read is `null`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NvlinkData {
    /// The GPU.
    pub gpu: String,
    /// KiB that each link sent.
    pub sent_kib: Vec<Option<u64>>,
    /// KiB that each link received.
    pub received_kib: Vec<Option<u64>>,
}

/// A counter of errors that rose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Rise {
    /// Which.
    pub counter: ErrorCounter,
    /// Whose: a GPU's name, the PCI address of a bridge above one, or an adapter's port such as `mlx5_0/1`.
    pub of: String,
    /// Number of the GPU's NVLink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<u8>,
    /// By how much.
    pub by: u64,
}

/// A GPU at the end of the steps. What cannot be read is absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GpuCondition {
    /// Its name.
    pub gpu: String,
    /// Temperature in °C.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_c: Option<f64>,
    /// Power in W.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_w: Option<f64>,
    /// Clock of the multiprocessors in MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sm_clock_mhz: Option<u32>,
    /// Reasons that hold its clocks down, idleness left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clock_event_reasons: Vec<String>,
}

/// What counters rose by while steps ran: those of one kind, or of several that were over soon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Counted {
    /// The steps, as indices into [`crate::plan::Plan::steps`].
    pub steps: Vec<usize>,
    /// What the steps sent. Absent where that is not known: a step failed, or bytes of such steps are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<Vec<Moved>>,
    /// What NVLinks carried, by GPU; a GPU whose counters cannot be read is absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nvlinks: Vec<NvlinkData>,
    /// Counters of errors that were read, of any device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<ErrorCounter>,
    /// Those that rose.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<Rise>,
    /// The GPUs at the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<GpuCondition>,
    /// How long the steps took, with all that is done around their samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Seconds>,
    /// How long it took to read all counters once, at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reading: Option<Seconds>,
}

/// Whose counter: a device or port, and the number of an NVLink.
pub type Place = (String, Option<u8>);

/// What all counters stand at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// Errors.
    pub errors: BTreeMap<(ErrorCounter, Place), u64>,
    /// KiB that each NVLink of a GPU sent and received; `None` where that cannot be read.
    pub nvlinks: BTreeMap<String, Vec<Option<[u64; 2]>>>,
    /// Bytes sent so far, by the executor's own account.
    pub moved: BTreeMap<Transfer, u64>,
    /// Steps so far whose bytes the executor does not count.
    pub uncounted: usize,
    /// The GPUs.
    pub gpus: Vec<GpuCondition>,
}

impl Reading {
    /// Whether there is no counter to read.
    pub fn is_empty(&self) -> bool {
        self.errors.is_empty() && self.nvlinks.is_empty()
    }

    /// Adds what another executor of the same machine counted, from zero on; GPUs are as it found them.
    pub fn add(&mut self, other: Reading) {
        for (of, count) in other.errors {
            *self.errors.entry(of).or_default() += count;
        }
        for (gpu, links) in other.nvlinks {
            let own = self.nvlinks.entry(gpu).or_insert_with(|| vec![Some([0; 2]); links.len()]);
            for (own, more) in own.iter_mut().zip(links) {
                *own = own.zip(more).map(|(own, more)| [own[0] + more[0], own[1] + more[1]]);
            }
        }
        for (transfer, bytes) in other.moved {
            *self.moved.entry(transfer).or_default() += bytes;
        }
        self.uncounted += other.uncounted;
        self.gpus = other.gpus;
    }

    /// What rose since an earlier reading, while these steps ran; `known` where the bytes that they sent are. A counter that fell
    /// was reset, and counts as not read.
    pub fn since(self, before: &Reading, steps: Vec<usize>, known: bool) -> Counted {
        let mut read: Vec<ErrorCounter> = Vec::new();
        let mut errors = Vec::new();
        for ((counter, place), now) in self.errors {
            let key = (counter, place);
            let Some(by) = before.errors.get(&key).and_then(|then| now.checked_sub(*then)) else { continue };
            // in the order of counters
            if read.last() != Some(&counter) {
                read.push(counter);
            }
            if by > 0 {
                let (of, link) = key.1;
                errors.push(Rise { counter, of, link, by });
            }
        }
        let carried = |(gpu, now): (String, Vec<Option<[u64; 2]>>)| {
            let then = before.nvlinks.get(&gpu)?;
            let rise = |way: usize| -> Vec<Option<u64>> {
                let of = |(now, then): (&Option<[u64; 2]>, &Option<[u64; 2]>)| {
                    now.as_ref()?[way].checked_sub(then.as_ref()?[way])
                };
                now.iter().zip(then).map(of).collect()
            };
            let (sent_kib, received_kib) = (rise(0), rise(1));
            sent_kib.iter().any(Option::is_some).then_some(NvlinkData { gpu, sent_kib, received_kib })
        };
        let sent = |(transfer, now): (Transfer, u64)| {
            let bytes = now - before.moved.get(&transfer).copied().unwrap_or(0).min(now);
            (bytes > 0).then_some(Moved { transfer, bytes })
        };
        let known = known && self.uncounted == before.uncounted;
        Counted {
            steps,
            moved: known.then(|| self.moved.into_iter().filter_map(sent).collect()),
            nvlinks: self.nvlinks.into_iter().filter_map(carried).collect(),
            read,
            errors,
            gpus: self.gpus,
            spent: None,
            reading: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(replays: u64, sent: Option<u64>, moved: u64) -> Reading {
        let place = |link| ("GPU0".to_owned(), link);
        Reading {
            errors: [
                ((ErrorCounter::NvlinkReplay, place(Some(1))), replays),
                ((ErrorCounter::NvlinkReplay, place(Some(2))), 7),
                ((ErrorCounter::EccUncorrected, place(None)), 10 - replays),
            ]
            .into(),
            nvlinks: [("GPU0".to_owned(), vec![Some([100, 5]), sent.map(|n| [n, 5])])].into(),
            moved: [(Transfer::new("GPU0", "GPU1"), moved)].into(),
            ..Reading::default()
        }
    }

    #[test]
    fn only_what_rose_is_kept() {
        let counted = reading(9, Some(50), 900).since(&reading(4, Some(20), 100), vec![3], true);
        assert_eq!(counted.read, [ErrorCounter::NvlinkReplay], "the other was reset");
        let rise = Rise { counter: ErrorCounter::NvlinkReplay, of: "GPU0".to_owned(), link: Some(1), by: 5 };
        assert_eq!(counted.errors, [rise]);
        assert_eq!(counted.moved, Some(vec![Moved { transfer: Transfer::new("GPU0", "GPU1"), bytes: 800 }]));
        assert_eq!(counted.nvlinks[0].sent_kib, [Some(0), Some(30)]);
        let back: Counted = serde_json::from_str(&serde_json::to_string(&counted).unwrap()).unwrap();
        assert_eq!(back, counted);
    }

    #[test]
    fn what_was_not_read_or_counted_is_absent() {
        let unknown = Reading { uncounted: 1, ..reading(0, None, 0) };
        let counted = unknown.since(&reading(0, Some(20), 0), vec![0], true);
        assert_eq!((counted.moved, &counted.nvlinks[0].sent_kib[..]), (None, &[Some(0), None][..]));
        assert_eq!(reading(0, None, 5).since(&reading(0, None, 0), vec![], false).moved, None);
        assert!(Reading::default().is_empty() && !reading(0, None, 0).is_empty());
    }
}
