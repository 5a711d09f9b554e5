//! What a workload does, without saying how long it takes: rounds of steps, which step waits for which, and how often a
//! round is repeated.

use std::sync::Arc;

use crate::cluster::{Place, Via};

/// One thing that happens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Step {
    /// Bytes go from one place to another.
    Move {
        /// Source.
        from: Place,
        /// Destination; bytes that stay where they are take no time, unless they go through a NIC.
        to: Place,
        /// How many.
        bytes: f64,
        /// Seconds before it starts, besides what its way takes.
        delay: f64,
        /// Which way.
        via: Via,
    },
    /// The GPUs of a group do a collective.
    Together {
        /// Which group of its round ([`Round::groups`]).
        group: u32,
        /// The collective's size, as nccl-tests counts it.
        bytes: f64,
        /// Seconds before its first byte.
        delay: f64,
    },
    /// A GPU computes.
    Compute {
        /// Which.
        on: Place,
        /// For how long, in seconds.
        seconds: f64,
    },
}

impl Step {
    /// A move without a delay.
    pub fn send(from: Place, to: Place, bytes: f64) -> Self {
        Step::Move { from, to, bytes, delay: 0.0, via: Via::Direct }
    }
}

/// What a repetition of a round waits for of the one before.
#[derive(Clone, Debug, PartialEq)]
pub enum Carried {
    /// All of it.
    All,
    /// `(a, b)`: step b waits for step a of the repetition before; a step named in no pair waits for nothing. A transfer
    /// that waits for itself waits for its link: its start-up may pass until the last byte of the repetition before has
    /// left. All others wait for data, and then for their start-up.
    Pairs(Vec<(u32, u32)>),
}

/// GPUs that do a collective together, at a rate that is known where they have their paths to themselves.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Sets of transfers, which share those paths with all others: from, to, and the bytes of each byte of the collective.
    pub moves: Arc<[(Place, Place, f64)]>,
    /// Bytes of the collective a second; `None` where its paths alone limit it.
    pub rate: Option<f64>,
    /// What limits that rate.
    pub by: String,
}

/// Steps, and how they wait for each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Round {
    /// What it is, for people.
    pub name: String,
    /// The steps.
    pub steps: Vec<Step>,
    /// The groups that do collectives.
    pub groups: Arc<[Group]>,
    /// `(a, b)`: step b waits for step a.
    pub within: Vec<(u32, u32)>,
    /// What a repetition waits for.
    pub carried: Carried,
    /// How often it is done.
    pub repeats: u64,
    /// By how many groups of nodes that share nothing the same is done; the steps are those of one.
    pub alike: u64,
}

impl Round {
    /// Steps that all start at once, done once.
    pub fn at_once(name: impl Into<String>, steps: Vec<Step>) -> Self {
        let groups = Arc::default();
        Round { name: name.into(), steps, groups, within: Vec::new(), carried: Carried::All, repeats: 1, alike: 1 }
    }

    /// Steps that are repeated, each waiting for steps of the repetition before ([`Carried::Pairs`]).
    pub fn repeated(name: impl Into<String>, steps: Vec<Step>, pairs: Vec<(u32, u32)>, repeats: u64) -> Self {
        Round { carried: Carried::Pairs(pairs), repeats, ..Round::at_once(name, steps) }
    }
}

/// Edges of a directed graph, by where they start.
#[derive(Clone, Debug)]
pub(super) struct Adjacency {
    starts: Vec<u32>,
    targets: Vec<u32>,
}

impl Adjacency {
    /// Of so many nodes; edges of others are left out.
    pub(super) fn new(nodes: usize, edges: impl Iterator<Item = (u32, u32)> + Clone) -> Self {
        let edges = edges.filter(|(a, b)| (*a.max(b) as usize) < nodes);
        let mut starts = vec![0; nodes + 1];
        edges.clone().for_each(|(from, _)| starts[from as usize + 1] += 1);
        for i in 0..nodes {
            starts[i + 1] += starts[i];
        }
        let mut next = starts.clone();
        let mut targets = vec![0; starts[nodes] as usize];
        for (from, to) in edges {
            targets[next[from as usize] as usize] = to;
            next[from as usize] += 1;
        }
        Adjacency { starts, targets }
    }

    /// Where the edges from a node lead, in the order in which they were given.
    pub(super) fn of(&self, node: u32) -> &[u32] {
        &self.targets[self.starts[node as usize] as usize..self.starts[node as usize + 1] as usize]
    }
}

/// Rounds one after the other; each begins when all of the one before has ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// The rounds.
    pub rounds: Vec<Round>,
}

impl Program {
    /// Bytes of all its transfers.
    pub fn bytes(&self) -> f64 {
        let moved = |round: &Round, step: &Step| match step {
            Step::Move { bytes, .. } => *bytes,
            Step::Together { group, bytes, .. } => {
                let moves =
                    round.groups.get(*group as usize).map_or(0.0, |g| g.moves.iter().map(|(.., share)| share).sum());
                bytes * moves
            }
            Step::Compute { .. } => 0.0,
        };
        let of_round =
            |r: &Round| r.steps.iter().map(|step| moved(r, step)).sum::<f64>() * (r.repeats * r.alike) as f64;
        self.rounds.iter().map(of_round).sum()
    }
}
