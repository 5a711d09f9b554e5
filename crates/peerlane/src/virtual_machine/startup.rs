//! Times that do not depend on how much is moved: what starting a copy takes, and a load.
//!
//! The model knows rates and no latencies, so these are measurements, each of one GPU part. Only what was measured is
//! answered as a latency. The start-up of a copy, without which a sweep over sizes would have no ramp, falls back on
//! [`H200`]'s where its part has none.

use crate::evidence::{Engine, Operation};
use crate::plan::{Transfer, Via};

/// What is known of one part, in seconds.
#[derive(Debug)]
pub(super) struct Known {
    /// Key of the part.
    pub part: &'static str,
    /// A small copy into another GPU's memory.
    write: f64,
    /// A small copy by a copy engine out of another GPU's memory, where it differs from `write`.
    read: Option<f64>,
    /// A small copy through host memory, by the driver.
    staged: f64,
    /// A small copy within one GPU.
    local: f64,
    /// CPU time that enqueueing each of these four takes.
    enqueue: Option<Enqueue>,
    /// A dependent load from another GPU's memory, and from host memory.
    pub load: Option<Load>,
}

/// CPU time that enqueueing a copy takes, in seconds, by kind of copy.
#[derive(Debug)]
struct Enqueue {
    write: f64,
    read: f64,
    staged: f64,
    local: f64,
}

/// Dependent loads, in seconds each.
#[derive(Debug)]
pub(super) struct Load {
    /// From another GPU's memory, over NVLink.
    pub peer: f64,
    /// From pinned host memory.
    pub host: f64,
}

const US: f64 = 1e-6;
const NS: f64 = 1e-9;

/// Four H200 SXM of one host, driver 580.159.04, November 2026. Copies of 16 bytes: medians of the cells of
/// p2pBandwidthLatencyTest, with and without `--p2p_read` (captures/h200x4-vm); loads: nvbandwidth 0.8.
static H200: Known = Known {
    part: "h200",
    write: 2.23 * US,
    read: Some(13.29 * US),
    staged: 16.9 * US,
    local: 1.86 * US,
    enqueue: Some(Enqueue { write: 1.29 * US, read: 2.88 * US, staged: 4.26 * US, local: 3.42 * US }),
    load: Some(Load { peer: 827.0 * NS, host: 1171.0 * NS }),
};

/// All parts of which something is known. The older ones: medians of the latency matrices of p2pBandwidthLatencyTest
/// in `systems/` (Exxact, 2016; Microway on P100), where pairs of different sockets are staged.
static KNOWN: [&Known; 4] = [
    &H200,
    &Known {
        part: "titan-x-maxwell",
        write: 6.1 * US,
        read: None,
        staged: 16.2 * US,
        local: 4.1 * US,
        enqueue: None,
        load: None,
    },
    &Known {
        part: "tesla-p100-pcie",
        write: 7.85 * US,
        read: None,
        staged: 16.6 * US,
        local: 3.1 * US,
        enqueue: None,
        load: None,
    },
    &Known {
        part: "tesla-p100-sxm2",
        write: 8.05 * US,
        read: None,
        staged: 15.5 * US,
        local: 5.0 * US,
        enqueue: None,
        load: None,
    },
];

/// The time that an NCCL operation takes of itself: an all-reduce of up to 64 KiB among four H200 takes 19.6 to
/// 21.9 µs (nccl-tests 2.19, captures/h200x4-vm). Taken for all machines.
pub(super) const COLLECTIVE: f64 = 20.2 * US;

/// What is known of a part.
pub(super) fn of_part(part: Option<&str>) -> Option<&'static Known> {
    KNOWN.into_iter().find(|known| Some(known.part) == part)
}

/// What stands in for a part of which nothing is known.
pub(super) fn assumed() -> &'static Known {
    &H200
}

impl Known {
    /// Start-up of a transfer. One with host memory, and one by a kernel, counts as a write, for want of a
    /// measurement.
    pub(super) fn copy(&self, transfer: &Transfer) -> f64 {
        match Kind::of(transfer) {
            Kind::Staged => self.staged,
            Kind::Local => self.local,
            Kind::Read => self.read.unwrap_or(self.write),
            Kind::Write | Kind::Host => self.write,
        }
    }

    /// CPU time that enqueueing a small copy takes, where it was measured.
    pub(super) fn enqueue(&self, transfer: &Transfer) -> Option<f64> {
        let enqueue = self.enqueue.as_ref()?;
        match Kind::of(transfer) {
            Kind::Staged => Some(enqueue.staged),
            Kind::Local => Some(enqueue.local),
            Kind::Read => Some(enqueue.read),
            Kind::Write => Some(enqueue.write),
            Kind::Host => None,
        }
    }
}

/// Copies that start alike.
enum Kind {
    Local,
    Staged,
    Write,
    Read,
    Host,
}

impl Kind {
    fn of(transfer: &Transfer) -> Self {
        match transfer {
            t if t.gpus().count() < 2 && t.source != t.destination => Kind::Host,
            t if t.source == t.destination => Kind::Local,
            t if t.via != Via::Direct => Kind::Staged,
            t if t.op == Operation::Read && t.engine == Engine::Ce => Kind::Read,
            _ => Kind::Write,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_in_the_catalogue_and_a_copy_through_the_host_is_the_slowest() {
        for known in KNOWN {
            assert!(crate::catalogue::Parts::embedded().get(known.part).is_some(), "{}", known.part);
            assert!(known.local < known.write && known.write < known.staged, "{}", known.part);
        }
        assert!(of_part(Some("h200")).is_some_and(|k| k.load.is_some()));
        assert!(of_part(Some("gtx-1070")).is_none() && of_part(None).is_none());
    }

    #[test]
    fn each_kind_of_copy_has_its_time() {
        let write = Transfer::new("GPU0", "GPU1");
        let read = Transfer { op: Operation::Read, ..write.clone() };
        let kernel = Transfer { engine: Engine::Sm, ..read.clone() };
        let staged = Transfer { via: Via::Driver, ..write.clone() };
        let (local, host) = (Transfer::new("GPU0", "GPU0"), Transfer::new("host", "GPU0"));
        let us: Vec<f64> = [&write, &read, &kernel, &staged, &local, &host].map(|t| H200.copy(t) / US).to_vec();
        assert_eq!(us, [2.23, 13.29, 2.23, 16.9, 1.86, 2.23].map(|v: f64| v * US / US));
        assert_eq!(H200.enqueue(&host), None);
        assert_eq!(H200.enqueue(&staged), Some(4.26 * US));
    }
}
