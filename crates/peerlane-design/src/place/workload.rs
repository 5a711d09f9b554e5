//! What the GPUs of a job exchange, as sets of transfers that run at once.

use std::fmt;
use std::str::FromStr;

use peerlane_machine::schema::JsonSchema;
use serde::{Deserialize, Serialize};

use peerlane_model::flows::Pair;

/// What the GPUs of a job do at once. A job of one GPU has nobody to exchange with: it is fed by its host, whatever its
/// workload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// An all-reduce around the best rings of the job's GPUs, as NCCL does it, whatever their order.
    #[default]
    AllReduce,
    /// Each sends to the next and the last to the first: one ring in the order of the job.
    Ring,
    /// Each sends to every other.
    AllToAll,
    /// Each exchanges with the one before and the one after it, both ways; the ends have one neighbour.
    Halo,
    /// Each reads from the host memory nearest to it.
    HostFeed,
    /// The first with the second, the third with the fourth and so on, both ways. Of an odd number the last is idle.
    Pairs,
}

impl Workload {
    /// All of them.
    pub const ALL: [Workload; 6] =
        [Self::AllReduce, Self::Ring, Self::AllToAll, Self::Halo, Self::HostFeed, Self::Pairs];

    /// The name used in arguments and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all-reduce",
            Self::Ring => "ring",
            Self::AllToAll => "all-to-all",
            Self::Halo => "halo",
            Self::HostFeed => "host-feed",
            Self::Pairs => "pairs",
        }
    }

    /// What a job of this size does.
    pub(super) fn of(self, size: usize) -> Workload {
        if size == 1 { Self::HostFeed } else { self }
    }

    /// Whether the order of a job's GPUs changes what is sent.
    pub(super) fn is_ordered(self) -> bool {
        matches!(self, Self::Ring | Self::Halo | Self::Pairs)
    }

    /// Whether kernels drive it, as they do NCCL's collectives, and not copy engines.
    pub(super) fn is_of_kernels(self) -> bool {
        matches!(self, Self::AllReduce | Self::Ring)
    }

    /// The transfers that the last GPU adds to those before it; `complete` where no more follow. `host` gives the end
    /// that is the host memory of a GPU. Of an all-reduce those of one ring in this order.
    pub(super) fn added(self, order: &[usize], complete: bool, host: impl Fn(usize) -> usize) -> Vec<Pair> {
        let Some((&last, before)) = order.split_last() else { return Vec::new() };
        let both = |other: usize| [(other, last), (last, other)];
        match self {
            Self::AllReduce | Self::Ring => {
                let step = before.last().map(|prev| (*prev, last));
                let close = before.first().filter(|_| complete).map(|first| (last, *first));
                step.into_iter().chain(close).collect()
            }
            Self::AllToAll => before.iter().copied().flat_map(both).collect(),
            Self::Halo => before.last().copied().into_iter().flat_map(both).collect(),
            Self::Pairs => {
                before.last().copied().filter(|_| order.len().is_multiple_of(2)).into_iter().flat_map(both).collect()
            }
            Self::HostFeed => vec![(host(last), last)],
        }
    }

    /// All transfers of a job.
    pub(super) fn pairs(self, order: &[usize], host: impl Fn(usize) -> usize) -> Vec<Pair> {
        let workload = self.of(order.len());
        (1..=order.len()).flat_map(|n| workload.added(&order[..n], n == order.len(), &host)).collect()
    }

    /// How many transfers a job of this size makes.
    pub(super) fn count(self, size: usize) -> usize {
        match self.of(size) {
            Self::AllReduce | Self::Ring => size,
            Self::AllToAll => size * size.saturating_sub(1),
            Self::Halo => 2 * size.saturating_sub(1),
            Self::HostFeed => size,
            Self::Pairs => size / 2 * 2,
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The sizes of jobs, written as `2x4` (two jobs of four GPUs each) or `1x4+2x2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Jobs(pub Vec<usize>);

/// A text that gives no jobs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}': jobs are written as COUNTxGPUS, joined by +: 2x4, 1x4+2x2, of up to 1024 GPUs in all")]
pub struct NoJobs(String);

/// The GPUs of the largest cluster that is placed.
const MOST_GPUS: usize = super::MOST_ACROSS;

impl FromStr for Jobs {
    type Err = NoJobs;

    fn from_str(text: &str) -> Result<Self, NoJobs> {
        let refused = || NoJobs(text.chars().take(40).collect());
        let mut sizes = Vec::new();
        for part in text.split('+') {
            let (count, size) = part.trim().split_once(['x', '×']).ok_or_else(refused)?;
            let number = |n: &str| n.trim().parse::<usize>().ok().filter(|n| (1..=MOST_GPUS).contains(n));
            let (count, size) = number(count).zip(number(size)).ok_or_else(refused)?;
            sizes.extend(std::iter::repeat_n(size, count));
            if sizes.iter().sum::<usize>() > MOST_GPUS {
                return Err(refused());
            }
        }
        Ok(Jobs(sizes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_as_people_write_them() {
        let sizes = |text: &str| text.parse::<Jobs>().map(|jobs| jobs.0);
        assert_eq!(sizes("2x4"), Ok(vec![4, 4]));
        assert_eq!(sizes("1x4+2x2"), Ok(vec![4, 2, 2]));
        for wrong in ["", "4", "x4", "0x4", "2x0", "2x4+", "99999x99999", "2x600", "-1x2"] {
            assert!(sizes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn transfers_of_each_workload() {
        let host = |gpu: usize| 10 + gpu;
        let of = |workload: Workload, order: &[usize]| {
            let mut pairs = workload.pairs(order, host);
            assert_eq!(pairs.len(), workload.count(order.len()), "{workload} {order:?}");
            pairs.sort_unstable();
            pairs
        };
        assert_eq!(of(Workload::Ring, &[0, 2, 1]), [(0, 2), (1, 0), (2, 1)]);
        assert_eq!(of(Workload::Ring, &[0, 1]), [(0, 1), (1, 0)]);
        assert_eq!(of(Workload::Halo, &[0, 2, 1]), [(0, 2), (1, 2), (2, 0), (2, 1)]);
        assert_eq!(of(Workload::Pairs, &[3, 0, 1]), [(0, 3), (3, 0)]);
        assert_eq!(of(Workload::AllToAll, &[0, 1, 2]).len(), 6);
        assert_eq!(of(Workload::HostFeed, &[2, 1]), [(11, 1), (12, 2)]);
        // alone, there is only the host
        assert_eq!(of(Workload::Ring, &[5]), [(15, 5)]);
    }
}
