//! Breadth-first searches (`docs/applications.md`): what memory moves, and what the exchange of levels adds.

use super::Model;
use peerlane_machine::bfs::Bfs;
use peerlane_machine::exchange::Exchange;
use peerlane_machine::fabric::NodeId;

/// Bytes that a search moves for each vertex, those without an edge included, as if all moved at the rate of copies within the
/// memory: from scale 26 to 27 a search of an H200 whose copies move 4,224 GB/s takes 15.3 ps longer a vertex (three processes,
/// docs/applications.md).
const VERTEX: f64 = 64.0;

/// Seconds of a level beside what its vertices take: 230 µs a search on that H200, at scale 24 and below and what is left of the
/// larger ones.
const LEVEL: f64 = 33e-6;

/// Seconds that a level takes longer for each further GPU: the host queues its work and waits for its count, too. Two H100, scale
/// 24 and 26 by stores and by copies, less what one of them needs and the bytes take: 14 to 32 µs (`captures/h100x2-vm-runs/bfs.json`).
const OTHER: f64 = 25e-6;

/// The same where what is found goes through host memory: two copies more, one behind the other.
const OTHER_STAGED: f64 = 45e-6;

/// Levels of a search: six to eight from a root of a Kronecker graph of scale 20 to 27.
const LEVELS: f64 = 7.0;

/// What a search is predicted to take, in seconds, of the GPU that takes longest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchTime {
    /// Looking for all levels, and the host's part in it.
    pub look: f64,
    /// Exchanging them.
    pub exchange: f64,
    /// All of it.
    pub total: f64,
    /// All of it, where the host memory that levels go through gives several GPUs the least that it may.
    pub most: f64,
}

impl Model<'_> {
    /// What a search takes; `None` where a rate is not known, or where a GPU does not hold its part.
    pub fn bfs(&self, search: &Bfs) -> Option<SearchTime> {
        let vertex = |name: &String| {
            let rate = self.memory_rate(self.machine.fabric.find(name)?)?;
            Some(VERTEX / rate.bytes_per_second())
        };
        let slowest = search.gpus.iter().map(vertex).reduce(|a, b| Some(a?.max(b?)))??;
        self.bfs_at(search, slowest)
    }

    /// The same of GPUs that need so many seconds for each vertex, beside the levels.
    pub fn bfs_at(&self, search: &Bfs, vertex: f64) -> Option<SearchTime> {
        if search.problem().is_some() {
            return None;
        }
        let gpus = self.named(&search.gpus)?;
        let n = gpus.len() as f64;
        let other = if search.exchange == Exchange::Staged { OTHER_STAGED } else { OTHER };
        let look = LEVELS * (LEVEL + (n - 1.0) * other) + search.vertices() as f64 / n * vertex;
        let [exchange, most] = if gpus.len() > 1 { self.all_gather(search, &gpus)? } else { [0.0, 0.0] };
        Some(SearchTime { look, exchange, total: look + exchange, most: look + most })
    }

    /// Every GPU sends its vertices of each level to every other: usually, and at the most.
    fn all_gather(&self, search: &Bfs, gpus: &[NodeId]) -> Option<[f64; 2]> {
        let bytes = search.bitmap().0 as f64 / gpus.len() as f64;
        let time = self.all_gather_time(gpus, search.exchange)?;
        Some([time.seconds(bytes), time.seconds_at_most(bytes)].map(|level| LEVELS * level))
    }
}
