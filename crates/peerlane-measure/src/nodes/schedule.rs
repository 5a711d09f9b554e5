//! The rounds of a measurement between nodes, and how long they take at most.

use peerlane_machine::schema::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pairings::{Round, near, shifts, tournament};
use super::{End, Memory, Method, Node, Probe, Step, Transport};
use peerlane_machine::units::{Bytes, Seconds};

/// Up to so many nodes, all pairs take no longer than shifts.
const FEW: usize = 8;

/// A message of a rate: long enough that its start does not count.
const LARGE: Bytes = Bytes::from_mib(1);

/// A message of a latency.
const SMALL: Bytes = Bytes(8);

/// Streams of TCP, since one is bound by a core.
const STREAMS: u32 = 4;

/// Queue pairs of staged GPU memory, each with a slot of host memory at both ends: one message is copied out of the GPU, one is
/// under way, one is copied into the GPU, and one waits for the word that its slot is free.
const SLOTS: u32 = 4;

/// Distances of partners whose GPU memory is measured by verbs, and is staged: what lies between the nodes is known from host
/// memory, so that few partners tell what the path between GPU and NIC adds at each end.
const GPU_DISTANCES: usize = 4;
const STAGED_DISTANCES: usize = 1;

/// A message of NCCL's: as long as what applications exchange, and as nccl-tests' usual range ends.
const NCCL_PAIR: Bytes = Bytes::from_mib(64);

/// What an all-reduce adds up: long enough that its steps around many nodes count little.
const NCCL_ALL: Bytes = Bytes::from_mib(256);

/// What a round takes besides its samples: the orders to the agents, connecting, verifying.
const SETTING_UP: Seconds = Seconds::new(0.3);

/// The same of NCCL, whose ranks look for their network anew in each round.
const NCCL_SETTING_UP: Seconds = Seconds::new(1.5);

/// By how much NCCL's samples are longer, since its messages are; and its patience.
const NCCL_LONGER: f64 = 4.0;

/// The most rounds in which suspects are measured again, of each rail.
pub(super) const AGAIN: usize = 8;

/// Nodes that may be lost, each in a round that takes all of [`Method::longest`], before time is short.
const LOSSES: f64 = 3.0;

/// By how much an agent may be silent for longer than a round may take: one that is slow, as on a loaded machine, costs its
/// steps, and only one that is gone all that come after.
const SILENCE: f64 = 2.0;

/// The shortest silence that loses a node: several of the signs of life that agents give.
const LEAST_SILENCE: f64 = 4.0;

/// The part of a short budget that patience may take, all of it together.
const WAITING: f64 = 1.0 / 3.0;

/// The longest patience that a long budget gives: slow machines need more than the usual one, and what hangs costs all of it.
const LONGEST_PATIENCE: f64 = 30.0;

/// The shortest time for the samples of a round.
const SHORTEST: Seconds = Seconds::new(0.02);

/// What is requested.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    /// Only these transports; all that the nodes have where there are none.
    pub transports: Vec<Transport>,
    /// Every pair, both ways.
    pub all_pairs: bool,
    /// Rounds that load the links between switches, too.
    pub uplinks: bool,
    /// The most time for everything.
    pub budget: Option<Seconds>,
    /// The most time for a round; what the budget leaves for it where it is absent.
    pub patience: Option<Seconds>,
    /// The longest silence of an agent; twice the time for a round where it is absent.
    pub silence: Option<Seconds>,
}

/// Why there is nothing to measure.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NodePlanError {
    /// One node, or none.
    #[error("measuring between nodes needs two nodes or more, and there {}", if *.0 == 1 { "is 1" } else { "are none" })]
    TooFew(usize),
    /// No two nodes have NICs for verbs.
    #[error("no two nodes have a NIC that verbs can open{0}; use --transport tcp")]
    NoVerbs(String),
    /// No two nodes have GPUs and NCCL.
    #[error("no two nodes have a GPU and NCCL{0}; use --transport tcp")]
    NoNccl(String),
    /// The budget is too short.
    #[error("{rounds} rounds take at least {least:.0} s; allow that with --budget, or measure less, with one --transport or without --all-pairs", least = .least.seconds())]
    Budget {
        /// Rounds.
        rounds: usize,
        /// What they take.
        least: Seconds,
    },
}

/// What is measured between nodes: the same for the same nodes, so that the record needs not list it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodePlan {
    /// The transports, in order.
    pub transports: Vec<Transport>,
    /// Whether every pair is measured, both ways; else partners at distances of powers of two.
    pub all_pairs: bool,
    /// Whether rounds follow in which all NICs of many nodes send and receive at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub uplinks: bool,
    /// How each round is measured.
    pub method: Method,
    /// How rounds of NCCL are measured, which take longer, where there are some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nccl: Option<LongerRounds>,
    /// Rounds, but for those in which suspects are measured again.
    pub rounds: usize,
    /// The most rounds in which suspects are measured again.
    pub again: usize,
    /// The longest that all of it takes, whatever happens.
    pub bound: Seconds,
}

/// Rounds that take longer than others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LongerRounds {
    /// How many, of all rounds.
    pub rounds: usize,
    /// The most of those in which suspects are measured again.
    pub again: usize,
    /// How they are measured.
    pub method: Method,
}

impl NodePlan {
    /// The plan for some nodes.
    ///
    /// # Errors
    /// With fewer than two nodes, without NICs for requested verbs, or with a budget that is too short.
    pub fn of(nodes: &[Node], wanted: &Wanted, method: Method) -> Result<Self, NodePlanError> {
        if nodes.len() < 2 {
            return Err(NodePlanError::TooFew(nodes.len()));
        }
        let joins = |transport: &Transport| rails(nodes, *transport).iter().any(|rail| rail.len() > 1);
        let is_wanted = |t: &Transport| wanted.transports.is_empty() || wanted.transports.contains(t);
        let transports: Vec<Transport> = Transport::ALL.into_iter().filter(|t| is_wanted(t) && joins(t)).collect();
        if transports.is_empty() {
            let nccl = wanted.transports.contains(&Transport::Nccl);
            let of_it =
                |note: &&String| nccl == (note.contains("GPU") || note.contains("NCCL") || note.contains("CUDA"));
            let why = nodes.iter().flat_map(|node| &node.notes).find(of_it);
            let why = why.map_or_else(String::new, |why| format!(" ({why})"));
            return Err(if nccl { NodePlanError::NoNccl(why) } else { NodePlanError::NoVerbs(why) });
        }
        let all_pairs = wanted.all_pairs || nodes.len() <= FEW;
        let unbounded = Seconds::new(0.0);
        let uplinks = wanted.uplinks;
        let mut plan =
            NodePlan { transports, all_pairs, uplinks, method, nccl: None, rounds: 0, again: 0, bound: unbounded };
        let rounds = plan.rounds_of(nodes);
        plan.rounds = rounds.len();
        plan.again = AGAIN * plan.transports.iter().map(|t| rails(nodes, *t).len()).sum::<usize>();
        plan.nccl = plan.transports.contains(&Transport::Nccl).then(|| LongerRounds {
            rounds: rounds.iter().filter(|steps| is_nccl(steps)).count(),
            again: AGAIN,
            method,
        });
        let silence = |patience: Seconds| {
            wanted.silence.unwrap_or_else(|| Seconds::new((SILENCE * patience.seconds()).max(LEAST_SILENCE)))
        };
        let usual = wanted.patience.unwrap_or(method.patience);
        plan.set(method.time, usual, silence(usual));
        let Some(budget) = wanted.budget else {
            plan.bound = Seconds::new(plan.all() + plan.hung());
            return Ok(plan);
        };
        if wanted.patience.is_none() {
            // a round begins only where there is time for it to hang, and for nodes to be lost; without a given silence, what
            // the losses take of it is that
            let by_nccl = if plan.nccl.is_some() { NCCL_LONGER } else { 1.0 };
            let by_silence = if wanted.silence.is_none() { SILENCE } else { 1.0 };
            let of_hung = (1.0 + LOSSES) * by_nccl.max(by_silence);
            let left = (budget.seconds() - plan.all()) / of_hung;
            let short = usual.seconds().min(WAITING * budget.seconds() / of_hung);
            let patience = if left > usual.seconds() { left.min(LONGEST_PATIENCE) } else { short };
            let patience = Seconds::new(patience);
            plan.set(method.time, patience, silence(patience));
        }
        let (weight, setting_up) = (plan.weight(), plan.setting_up());
        let each = (budget.seconds() - plan.hung() - setting_up) / weight;
        if each < SHORTEST.seconds() {
            let least = weight * SHORTEST.seconds() + setting_up;
            // below that, silence is as short as it can be, or as it was given
            let with_hung = least + plan.hung();
            let least = wanted.patience.map_or((least / (1.0 - WAITING)).max(with_hung), |_| with_hung);
            return Err(NodePlanError::Budget { rounds: plan.rounds + plan.again, least: Seconds::new(least) });
        }
        let Method { patience, silence, .. } = plan.method;
        plan.set(Seconds::new(method.time.seconds().min(each)), patience, silence);
        // all of it: what is left over is for rounds that take longer than they usually do
        plan.bound = budget;
        Ok(plan)
    }

    /// Sets the time and patience of rounds, and of NCCL's by how much they are longer; and the longest silence of agents.
    fn set(&mut self, time: Seconds, patience: Seconds, silence: Seconds) {
        (self.method.time, self.method.patience, self.method.silence) = (time, patience, silence);
        if let Some(LongerRounds { method, .. }) = &mut self.nccl {
            method.silence = silence;
            method.time = Seconds::new(NCCL_LONGER * time.seconds());
            let most = LONGEST_PATIENCE.max(patience.seconds());
            method.patience = Seconds::new((NCCL_LONGER * patience.seconds()).min(most));
        }
    }

    /// How a round with these steps is measured.
    pub fn method_of(&self, steps: &[Step]) -> Method {
        self.nccl.filter(|_| is_nccl(steps)).map_or(self.method, |nccl| nccl.method)
    }

    /// The longest that a round of any kind takes, whatever happens.
    pub fn longest_round(&self) -> Seconds {
        self.nccl.map_or(self.method, |nccl| nccl.method).longest()
    }

    /// The time that hung rounds may take.
    fn hung(&self) -> f64 {
        (1.0 + LOSSES) * self.longest_round().seconds()
    }

    /// Rounds, suspects' included where `again`: those of NCCL, and the others.
    fn counts(&self, again: bool) -> (f64, f64) {
        let of = |rounds: usize, more: usize| (rounds + if again { more } else { 0 }) as f64;
        let nccl = self.nccl.map_or(0.0, |nccl| of(nccl.rounds, nccl.again));
        (nccl, of(self.rounds, self.again) - nccl)
    }

    /// What all rounds take for each second of samples of a round that is not NCCL's.
    fn weight(&self) -> f64 {
        let (nccl, others) = self.counts(true);
        NCCL_LONGER * nccl + others
    }

    /// What all rounds take besides their samples.
    fn setting_up(&self) -> f64 {
        let (nccl, others) = self.counts(true);
        NCCL_SETTING_UP.seconds() * nccl + SETTING_UP.seconds() * others
    }

    /// How long all rounds take where none hangs.
    fn all(&self) -> f64 {
        self.weight() * self.method.time.seconds() + self.setting_up()
    }

    /// How long it takes where no part is suspected.
    pub fn usual(&self) -> Seconds {
        let (nccl, others) = self.counts(false);
        let time = self.method.time.seconds();
        let each = |longer: f64, setting_up: Seconds| longer * time + setting_up.seconds();
        Seconds::new(nccl * each(NCCL_LONGER, NCCL_SETTING_UP) + others * each(1.0, SETTING_UP))
    }

    /// The rounds for the nodes that the plan was made for: of each transport and rail loopback, latency, rate; of GPU memory by
    /// verbs the rate between neighbours. Of NCCL pairs, then all-reduces among the first 2, 4, 8 … nodes and among all.
    pub fn rounds_of(&self, nodes: &[Node]) -> Vec<Vec<Step>> {
        let mut rounds = Vec::new();
        for &transport in &self.transports {
            for rail in rails(nodes, transport) {
                let of_gpus = rail.iter().any(|end| end.memory.is_device());
                if transport == Transport::Verbs && of_gpus {
                    let steps = |(a, b): &(usize, usize)| step(transport, false, &rail[*a], &rail[*b]);
                    let pairings = near(rail.len(), GPU_DISTANCES);
                    rounds.extend(pairings.iter().map(|pairs| pairs.iter().map(steps).collect()));
                    continue;
                }
                let pairings = if self.all_pairs { tournament(rail.len()) } else { shifts(rail.len()) };
                if transport == Transport::Nccl {
                    let pair = |(a, b): &(usize, usize)| step(transport, false, &rail[*a], &rail[*b]);
                    rounds.extend(once(&pairings).iter().map(|pairs| pairs.iter().map(pair).collect()));
                    let all: Vec<usize> = rail.iter().map(|end| end.node).collect();
                    rounds.extend(grown(rail.len()).map(|count| vec![all_reduce(nodes, &all[..count])]));
                    continue;
                }
                // GPU memory over TCP has the host's latency, and its loopback no network
                if !of_gpus {
                    rounds.push(rail.iter().map(|end| step(transport, false, end, end)).collect());
                }
                let steps = |latency: bool, pairs: &Round| {
                    pairs.iter().map(|(a, b)| step(transport, latency, &rail[*a], &rail[*b])).collect::<Vec<_>>()
                };
                if !of_gpus {
                    rounds.extend(once(&pairings).iter().map(|pairs| steps(true, pairs)));
                }
                for pairs in &pairings {
                    rounds.push(steps(false, pairs));
                    if self.all_pairs {
                        rounds.push(steps(false, &pairs.iter().map(|(a, b)| (*b, *a)).collect()));
                    }
                }
            }
            if transport == Transport::Verbs {
                rounds.extend(staged(nodes));
            }
        }
        if self.uplinks {
            let of = [Transport::Verbs, Transport::Tcp].into_iter().find(|of| self.transports.contains(of));
            rounds.extend(of.into_iter().flat_map(|transport| together(nodes, transport)));
        }
        rounds.retain(|steps| !steps.is_empty());
        rounds
    }
}

/// Rounds in which neighbours move GPU memory through host memory, by the first NIC of each that has a GPU.
fn staged(nodes: &[Node]) -> Vec<Vec<Step>> {
    let end = |(node, of): (usize, &Node)| {
        let nic = of.nics.iter().find(|nic| nic.gpu.is_some())?;
        Some(End { node, nic: Some(nic.name.clone()), memory: Memory::Device(nic.gpu.as_ref()?.name.clone()) })
    };
    let ends: Vec<End> = nodes.iter().enumerate().filter_map(end).collect();
    let step = |(a, b): &(usize, usize)| Step {
        probe: Probe::SendStaged,
        queue_pairs: SLOTS,
        ..step(Transport::Verbs, false, &ends[*a], &ends[*b])
    };
    near(ends.len(), STAGED_DISTANCES).iter().map(|pairs| pairs.iter().map(step).collect()).collect()
}

/// Rounds in which nodes send and receive at once by all NICs: neighbours, then nodes half way round and a little more each time; of
/// the latter all, every second, fourth and so on, and last one pair. No pair comes twice.
fn together(nodes: &[Node], transport: Transport) -> Vec<Vec<Step>> {
    let half = nodes.len() / 2;
    let near: Vec<(usize, usize)> = (0..half).map(|pair| (2 * pair, 2 * pair + 1)).collect();
    let far = |more: usize| -> Option<Vec<(usize, usize)>> {
        let every = 1_usize.checked_shl(u32::try_from(more).ok()?)?;
        let pairs: Vec<_> = (0..half.saturating_sub(more)).step_by(every).map(|a| (a, a + half + more)).collect();
        (every < 2 * half).then_some(pairs)
    };
    let fewer: Vec<Vec<(usize, usize)>> = (0..).map_while(far).collect();
    let rails: Vec<Vec<End>> =
        rails(nodes, transport).into_iter().filter(|rail| !rail.iter().any(|end| end.memory.is_device())).collect();
    let steps = |pairs: &Vec<(usize, usize)>| {
        let both = |(a, b): &(usize, usize)| {
            let end = |rail: &[End], node: usize| rail.iter().find(|end| end.node == node).cloned();
            let of_rail = |rail: &Vec<End>| Some(both_ways(transport, &end(rail, *a)?, &end(rail, *b)?));
            rails.iter().filter_map(of_rail).collect::<Vec<Step>>()
        };
        pairs.iter().flat_map(both).collect::<Vec<Step>>()
    };
    let near = if fewer.first() == Some(&near) { None } else { Some(near) };
    near.iter().chain(&fewer).map(steps).collect()
}

/// The step that measures the rate between two ends, both ways at once.
fn both_ways(transport: Transport, a: &End, b: &End) -> Step {
    let probe = if transport == Transport::Verbs { Probe::WriteBoth } else { Probe::SendBoth };
    Step { probe, ..step(transport, false, a, b) }
}

/// Rounds without those pairs that come in the other direction, too: a latency is the same both ways.
fn once(rounds: &[Round]) -> Vec<Round> {
    let mut known = std::collections::HashSet::new();
    let mut new = |(a, b): &(usize, usize)| known.insert((*a.min(b), *a.max(b)));
    let rounds = rounds.iter().map(|round| round.iter().copied().filter(|pair| new(pair)).collect());
    rounds.filter(|round: &Round| !round.is_empty()).collect()
}

/// 2, 4, 8 and so on, and the number itself.
fn grown(all: usize) -> impl Iterator<Item = usize> {
    let doubled = std::iter::successors(Some(2), |n: &usize| n.checked_mul(2));
    doubled.take_while(move |n| *n < all).chain((all > 1).then_some(all))
}

/// The all-reduce among all GPUs of these nodes.
pub(super) fn all_reduce(nodes: &[Node], all: &[usize]) -> Step {
    let end = |node| End { node, nic: None, memory: Memory::Devices };
    let gpus: usize = all.iter().filter_map(|node| nodes.get(*node)).map(|node| node.gpus.len()).sum();
    let (first, last) = (all.first().copied().unwrap_or(0), all.last().copied().unwrap_or(0));
    Step {
        from: end(first),
        to: end(last),
        transport: Transport::Nccl,
        probe: Probe::AllReduce,
        size: NCCL_ALL,
        queue_pairs: u32::try_from(gpus).unwrap_or(u32::MAX),
        between: all.get(1..all.len().saturating_sub(1)).unwrap_or_default().to_vec(),
    }
}

fn is_nccl(steps: &[Step]) -> bool {
    steps.first().is_some_and(|step| step.transport == Transport::Nccl)
}

/// The first GPU of each of these nodes; none where that is one alone.
fn of_first_gpus(nodes: &[Node], has: impl Fn(&Node) -> bool) -> Vec<End> {
    let end = |(node, of): (usize, &Node)| {
        let gpu = of.gpus.first().filter(|_| has(of))?;
        Some(End { node, nic: None, memory: Memory::Device(gpu.name.clone()) })
    };
    let ends: Vec<End> = nodes.iter().enumerate().filter_map(end).collect();
    if ends.len() > 1 { ends } else { Vec::new() }
}

/// The ends that measure each other: of TCP all nodes, then the first GPUs of those that have some; of verbs each node's first NIC
/// with host memory, second NIC and so on, then the same with GPU memory where their adapters get at it; of NCCL each node's first
/// GPU.
pub(super) fn rails(nodes: &[Node], transport: Transport) -> Vec<Vec<End>> {
    let indexed = || nodes.iter().enumerate();
    match transport {
        Transport::Tcp => {
            let host = indexed().map(|(node, _)| End { node, nic: None, memory: Memory::Host }).collect();
            return [host, of_first_gpus(nodes, |_| true)].into_iter().filter(|rail| !rail.is_empty()).collect();
        }
        Transport::Nccl => {
            return vec![of_first_gpus(nodes, |node| node.nccl.is_some())];
        }
        Transport::Verbs => {}
    }
    let most = nodes.iter().map(|node| node.nics.len()).max().unwrap_or(0);
    let rail = |rail: usize, gpus: bool| {
        let end = |(node, of): (usize, &Node)| {
            let nic = of.nics.get(rail)?;
            let memory = if gpus { Memory::Device(nic.direct_gpu()?.to_owned()) } else { nic.memory.clone() };
            Some(End { node, nic: Some(nic.name.clone()), memory })
        };
        indexed().filter_map(end).collect::<Vec<End>>()
    };
    let with_gpus = (0..most).map(|at| rail(at, true)).filter(|rail| rail.len() > 1);
    (0..most).map(|at| rail(at, false)).chain(with_gpus).collect()
}

/// The step that measures the latency or the rate from one end to another.
pub(super) fn step(transport: Transport, latency: bool, from: &End, to: &End) -> Step {
    let (probe, size) = match (latency, transport) {
        (true, _) => (Probe::Latency, SMALL),
        (false, Transport::Tcp) => (Probe::Send, LARGE),
        (false, Transport::Verbs) => (Probe::Write, LARGE),
        (false, Transport::Nccl) => (Probe::SendReceive, NCCL_PAIR),
    };
    let queue_pairs = match transport {
        Transport::Nccl => 2,
        Transport::Tcp if !latency => STREAMS,
        Transport::Tcp | Transport::Verbs => 1,
    };
    Step { from: from.clone(), to: to.clone(), transport, probe, size, queue_pairs, between: Vec::new() }
}

#[cfg(test)]
mod tests;
