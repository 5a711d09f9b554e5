//! The Heisenberg spin glass: a lattice of L³ classical spins with random couplings to the six neighbours, cut along Z
//! among the GPUs, and updated by over-relaxation, all even places and then all odd ones (Bernaschi, Bisson and Rossetti,
//! 2013; Rossetti's talk of 2013).
//!
//! A half-sweep of a GPU updates half of the spins of its planes, those of both boundary planes first; these it then
//! sends to both neighbours, who need them for their next half-sweep. With overlap the rest is updated meanwhile; without,
//! sending waits for all. Staged, a message is copied
//! to host memory, sent from there to the other's, and copied again; with a chunk or a depth these three overlap.

use super::super::SimulateError;
use super::super::parameters::Parameters;
use super::super::program::{Program, Round, Step};
use crate::cluster::{Cluster, Place, Router, Via};
use peerlane_machine::fabric::{Method, NoMethod};
use peerlane_model::model::spin_update;

/// A spin is three single-precision numbers.
const SPIN_BYTES: f64 = 12.0;
/// Memory that one update moves where nothing is kept in a cache: its spin, six neighbours and six couplings read, its
/// spin written.
const UNCACHED: f64 = 7.0 * SPIN_BYTES + 6.0 * 4.0 + SPIN_BYTES;
/// From this memory rate on, in bytes a second under copies, a GPU's L2 holds the planes that an update reads again: 4 MB on a
/// P100 of 732 GB/s, 6 MB on a V100 of 900, and more on all later ones. Below are Fermi and Kepler, with at most 1.5 MB.
const CACHING: f64 = 450e9;
/// What a copy between GPU and host memory costs before its first byte, mostly waiting for it: the middle of the 7 to 10 µs
/// of Rossetti's talk.
const MEMCPY: f64 = 8.5e-6;

/// What may be written.
const KNOWN: &str = "l=256, sweeps=10, ns=…(of an update), overlap or serial, p2p, staged, nvp2p, bar1 or staged:chunk=256K,depth=4, strong or weak";

/// How a boundary plane gets to a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Messages {
    /// Directly, by the method that the NIC uses.
    Direct,
    /// A copy to host memory, a message from there, and a copy to the other GPU, one after another.
    Copied,
    /// By this method.
    By(Method),
}

/// A run.
#[derive(Clone, Debug, PartialEq)]
pub struct SpinGlass {
    /// Side of the lattice; of one GPU's share along Z with `weak`.
    pub side: usize,
    /// Full sweeps.
    pub sweeps: usize,
    /// Seconds of an update; from the memory's rate where not given.
    pub update: Option<f64>,
    /// Whether the bulk is updated while the boundary is sent.
    pub overlap: bool,
    /// How messages go.
    pub messages: Messages,
    /// Whether the lattice grows with the number of GPUs.
    pub weak: bool,
}

impl SpinGlass {
    pub(super) fn read(text: &str) -> Result<Self, SimulateError> {
        let (method, text) = method(text)?;
        let mut given = Parameters::new("spin-glass", &text);
        let side = given.count("l", 256, 1 << 16)?;
        let sweeps = given.count("sweeps", 10, 10_000)?;
        let ns = given.number("ns", f64::INFINITY)?;
        let overlap = given.word(&["overlap", "serial"]) == "overlap";
        let messages = match method {
            Some(method) => Messages::By(method),
            None if given.word(&["p2p", "staged"]) == "staged" => Messages::Copied,
            None => Messages::Direct,
        };
        let weak = given.word(&["strong", "weak"]) == "weak";
        given.finish(KNOWN)?;
        let update = ns.is_finite().then_some(ns * 1e-9);
        Ok(SpinGlass { side, sweeps, update, overlap, messages, weak })
    }

    pub(super) fn words(&self) -> String {
        let ns = self.update.map_or_else(String::new, |s| format!(",ns={}", s * 1e9));
        let overlap = if self.overlap { "overlap" } else { "serial" };
        let messages = match self.messages {
            Messages::Direct => "p2p".to_owned(),
            Messages::Copied => "staged".to_owned(),
            Messages::By(method) => method.written(),
        };
        let weak = if self.weak { "weak" } else { "strong" };
        format!("spin-glass:l={},sweeps={}{ns},{overlap},{messages},{weak}", self.side, self.sweeps)
    }

    pub(super) fn program(&self, cluster: &Cluster, router: &Router) -> Result<Program, SimulateError> {
        let refuse = |why: String| Err(SimulateError::Workload(format!("spin-glass: {why}")));
        let places = cluster.places();
        let Some(first) = places.first() else { return refuse("there is no GPU".to_owned()) };
        let n = places.len();
        let side = self.side as f64;
        let planes = if self.weak { side } else { side / n as f64 };
        if n > 1 && planes < 2.0 {
            return refuse(format!("{} planes among {n} GPUs; each needs two", self.side));
        }
        let of_rate = |rate: f64| if rate < CACHING { UNCACHED / rate } else { spin_update(rate) };
        let known = || router.memory_rate(first.device).map(of_rate);
        let Some(update) = self.update.or_else(known) else {
            let name = cluster.name_of(*first);
            return refuse(format!("the memory rate of {name} is not known; give the time of an update, ns=0.8"));
        };
        // half of the places of a plane, of both boundary planes
        let boundary = if n > 1 { side * side } else { 0.0 };
        let bulk = planes * side * side / 2.0 - boundary;
        let message = side * side / 2.0 * SPIN_BYTES;
        let (mut steps, mut within, mut pairs) = (Vec::new(), Vec::new(), Vec::new());
        let mut arrivals: Vec<Vec<u32>> = vec![Vec::new(); n];
        let mut computing = Vec::new();
        for (i, at) in places.iter().enumerate() {
            let edge = steps.len() as u32;
            steps.push(Step::Compute { on: *at, seconds: boundary * update });
            steps.push(Step::Compute { on: *at, seconds: bulk * update });
            within.push((edge, edge + 1));
            computing.push(edge);
            let ready = if self.overlap { edge } else { edge + 1 };
            let neighbours = if n > 1 { vec![(i + 1) % n, (i + n - 1) % n] } else { Vec::new() };
            for to in neighbours {
                let chain = self.message(cluster, *at, places[to], message)?;
                within.push((ready, steps.len() as u32));
                for (k, step) in chain.iter().enumerate() {
                    if k > 0 {
                        within.push((steps.len() as u32 - 1, steps.len() as u32));
                    }
                    steps.push(*step);
                }
                let last = steps.len() as u32 - 1;
                arrivals[to].push(last);
                // what is sent must not be overwritten, either
                pairs.push((last, edge));
            }
        }
        for (edge, arrivals) in computing.into_iter().zip(arrivals) {
            pairs.push((edge + 1, edge));
            pairs.extend(arrivals.into_iter().map(|a| (a, edge)));
        }
        pairs.sort_unstable();
        pairs.dedup();
        let round = Round::repeated("over-relaxation, half-sweeps", steps, pairs, 2 * self.sweeps as u64);
        Ok(Program { rounds: vec![Round { within, ..round }] })
    }

    fn message(&self, cluster: &Cluster, from: Place, to: Place, bytes: f64) -> Result<Vec<Step>, SimulateError> {
        match self.messages {
            Messages::Direct => return Ok(vec![Step::send(from, to, bytes)]),
            Messages::By(method) => {
                let via = if from.node == to.node && !method.is_staged() { Via::Direct } else { Via::By(method) };
                return Ok(vec![Step::Move { from, to, bytes, delay: 0.0, via }]);
            }
            Messages::Copied => {}
        }
        let host = |at: Place| {
            let device = cluster.node.fabric.nearest_host(at.device);
            device.map(|device| Place { device, ..at }).ok_or_else(|| {
                let name = cluster.name_of(at);
                SimulateError::Workload(format!("spin-glass: no host memory is known that {name} could stage through"))
            })
        };
        let (near, far) = (host(from)?, host(to)?);
        let copy = |from, to| Step::Move { from, to, bytes, delay: MEMCPY, via: Via::Direct };
        Ok(vec![copy(from, near), Step::send(near, far, bytes), copy(far, to)])
    }
}

/// The method among the parameters, and the others. `staged` alone is none: its copies wait for each other.
fn method(text: &str) -> Result<(Option<Method>, String), SimulateError> {
    let (mut written, mut others) = (Vec::new(), Vec::new());
    for word in text.split(',').map(str::trim) {
        let method = word == "nvp2p" || word == "bar1" || word.starts_with("staged:");
        let parameter = word.starts_with("chunk=") || word.starts_with("depth=");
        if method || (parameter && !written.is_empty()) { written.push(word) } else { others.push(word) }
    }
    if written.is_empty() {
        return Ok((None, text.to_owned()));
    }
    let method = written.join(",").parse();
    let method = method.map_err(|e: NoMethod| SimulateError::Workload(format!("spin-glass: {e}")))?;
    Ok((Some(method), others.join(",")))
}
