//! What a plain halo exchange takes (`docs/applications.md`): the rates of its paths, what its streams wait for, and how faces get into
//! each other's way.

use std::collections::HashSet;

use crate::model::Model;
use crate::model::exchange::ExchangeTime;
use peerlane_machine::exchange::Exchange;
use peerlane_machine::fabric::NodeId;
use peerlane_machine::halo::Halo;

// Constants without another source are from two H200 (`captures/h200x2-vm-runs/halo.json`) and from two and four
// (`captures/h200x4-vm-parts/applications.json`).

/// Seconds that an exchange of small faces takes longer where nothing else is under way. A kernel of its own stores faces that no
/// other computes, and staged faces wait for both copies of the step before: 10.2 and 34.7 µs for faces of 4 KiB between two
/// H200, less what telling it takes.
fn alone(method: Exchange) -> f64 {
    match method {
        Exchange::Stores => 5.6e-6,
        Exchange::Copies => 0.0,
        Exchange::Staged => 5e-6,
    }
}

/// Seconds for each further neighbour: 4 KiB among four in a ring take 12.4, 19.9 and 36.1 µs, and between two, whose faces go to one
/// neighbour, 10.3, 17.2 to 19.3, and 35.3.
fn for_each_neighbour(method: Exchange) -> f64 {
    match method {
        Exchange::Stores => 2.1e-6,
        Exchange::Copies => 1.5e-6,
        Exchange::Staged => 0.8e-6,
    }
}

/// Seconds of a wait for a word. Each face has a stream, and each stream waits for the words of all faces, so that a GPU with four waits
/// 16 times and one with two 4 times: 4 KiB as 2x2 take 33.3, 65.1 and 74.6 µs. That these waits, and not the streams, count is by the
/// program alone: six faces were not measured.
fn wait(method: Exchange) -> f64 {
    match method {
        Exchange::Stores => 1.74e-6,
        Exchange::Copies => 3.76e-6,
        Exchange::Staged => 3.21e-6,
    }
}

/// Faces, at the most, of which the waits of all are in the constants above.
const FACES: f64 = 2.0;

/// Faces and neighbours of a GPU that exchanges were measured with.
const MEASURED: (usize, usize) = (4, 2);

/// Bytes that a copy engine moves for one stream before it turns to another: samples of 64 MiB fall into groups 42.7 µs apart.
const PIECE: f64 = 16.0 * 1024.0 * 1024.0;

/// Pieces that are lost at the most where both faces go to one neighbour; usually one is.
const LOST: f64 = 3.0;

/// Kernels that are resident on a GPU at once, each on all of its multiprocessors: 64 KiB of 228 of their shared memory.
const AT_ONCE: usize = 3;

/// How many times as long the stores of more kernels take. Of four, three run and one is left; where two GPUs begin with the same
/// neighbour, it gets four faces while the other one gets two. 1.41 and 1.51 with faces of 64 and 16 MiB as 2x2.
const LEFT_OVER: f64 = 1.5;

/// The time of a halo exchange by the size of a face.
#[derive(Clone, Debug, PartialEq)]
pub struct HaloTime {
    exchange: ExchangeTime,
    method: Exchange,
    /// Faces that each part sends.
    faces: usize,
    /// Neighbours that they go to, of the part that has most.
    neighbours: usize,
    /// Those of them that get several.
    doubled: usize,
}

/// What gets into each other's way.
#[derive(Clone, Copy)]
struct Crowd {
    /// How many times as long all bytes take.
    times: f64,
    /// Pieces that a GPU waits for, while none moves.
    pieces: f64,
}

impl HaloTime {
    /// Seconds until all parts have got all faces of so many bytes, and know it.
    pub fn notified(&self, bytes: f64) -> f64 {
        self.after_words(self.moved(bytes, self.usual()))
    }

    /// The least and the most that it may be: as if no face was in another's way, and as slow as exchanges of this kind were.
    pub fn interval(&self, bytes: f64) -> [f64; 2] {
        let free = self.moved(bytes, Crowd { times: 1.0, pieces: 0.0 });
        let usual = self.usual();
        let most = match self.method {
            Exchange::Stores => self.moved(bytes, usual),
            Exchange::Copies => self.moved(bytes, Crowd { pieces: LOST * usual.pieces, ..usual }),
            Exchange::Staged => self.exchange.seconds_at_most(bytes),
        };
        [free, most].map(|moved| self.after_words(moved))
    }

    /// Whether exchanges with so many faces and neighbours were measured; what others take is extrapolated.
    pub fn is_confirmed(&self) -> bool {
        self.faces <= MEASURED.0 && self.neighbours <= MEASURED.1
    }

    /// Copies to several neighbours go through few engines in the order of issue. So two GPUs wait for one neighbour and then for the
    /// other: at the worst each gets its face as late as if all went through one (1.86 to 2.08 times, and 2.2 as 2x2).
    fn usual(&self) -> Crowd {
        match self.method {
            Exchange::Stores => Crowd { times: if self.faces > AT_ONCE { LEFT_OVER } else { 1.0 }, pieces: 0.0 },
            Exchange::Copies => Crowd { times: self.neighbours as f64, pieces: self.doubled as f64 },
            Exchange::Staged => Crowd { times: 1.0, pieces: 0.0 },
        }
    }

    /// Seconds of the faces alone. A piece goes at the rate of all faces of a GPU together.
    fn moved(&self, bytes: f64, crowd: Crowd) -> f64 {
        self.exchange.seconds(crowd.times * bytes + crowd.pieces * bytes.min(PIECE) / self.faces.max(1) as f64)
    }

    /// The first faces are on their way while the streams of the others still wait.
    fn after_words(&self, moved: f64) -> f64 {
        let faces = self.faces.max(1) as f64;
        let first = self.exchange.words()
            + alone(self.method)
            + for_each_neighbour(self.method) * self.neighbours.saturating_sub(1) as f64;
        let later = wait(self.method) * (faces.powi(2) - FACES.powi(2)).max(0.0);
        first + (later + moved / faces).max(moved)
    }
}

impl Model<'_> {
    /// What an exchange of all faces takes, by their size; `None` where a rate is not known, or where a method needs peer access
    /// that is not there.
    pub fn halo(&self, halo: &Halo) -> Option<HaloTime> {
        if halo.problem().is_some() {
            return None;
        }
        let gpus = self.named(&halo.gpus)?;
        let sends: Vec<(NodeId, NodeId)> = halo.sends().map(|sent| (gpus[sent.from], gpus[sent.to])).collect();
        let exchange = self.exchange_time(&sends, halo.exchange)?;
        let of_parts = (0..halo.gpus.len()).map(|part| {
            let to = halo.neighbours(part);
            let several = |one: &&usize| to.iter().filter(|other| other == one).count() > 1;
            let doubled: HashSet<usize> = to.iter().filter(several).copied().collect();
            (to.iter().collect::<HashSet<_>>().len(), doubled.len())
        });
        let (neighbours, doubled) = of_parts.max()?;
        Some(HaloTime { exchange, method: halo.exchange, faces: halo.sides(), neighbours, doubled })
    }
}
