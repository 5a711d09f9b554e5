//! Recorded steps on a cluster: collectives at a library's rate, computing as long as it was recorded, and how the time is spent.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use peerlane_machine::fabric::NodeId;
use peerlane_machine::matrix::Engine;
use peerlane_machine::schema::JsonSchema;
use peerlane_machine::transfer::Collective;
use peerlane_machine::units::Bytes;
use peerlane_model::collectives::Choice;
use peerlane_model::collectives::tuner::Ranks;
use peerlane_model::flows::Flows;
use peerlane_read::catalogue::Parts;
use peerlane_read::traces::{Act, Joined, Split};
use serde::Serialize;

use super::SimulateError;
use super::estimate::Estimate;
use super::library::{Exchange, Library};
use super::outcome::{Limits, Outcome, run_within};
use super::program::{Group, Program, Round, Step};
use crate::cluster::rings::RingFinder;
use crate::cluster::{Cluster, Component, Place, Router, Via};

/// The most GPUs of an all-to-all in a trace: all of its pairs are listed.
const MOST_ALL_TO_ALL: usize = 512;

/// What a trace does, on the GPUs of a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recorded {
    /// What is done.
    pub done: Vec<Done>,
    /// `(a, b)`: b waits for a.
    pub waits: Vec<(u32, u32)>,
    /// GPUs of those that do collectives.
    pub groups: Vec<Vec<Place>>,
    /// GPUs of the ranks; empty where the trace names GPUs itself.
    pub ranks: Vec<Place>,
    /// Steps in it; 0 where it does not say.
    pub steps: usize,
    /// What was recorded of a step.
    pub recorded: Option<Split>,
    /// What is assumed or left out, in sentences.
    pub notes: Vec<String>,
}

/// One thing that is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Done {
    /// Bytes go from one place to another.
    Message {
        /// Source.
        from: Place,
        /// Destination.
        to: Place,
        /// How many.
        bytes: f64,
        /// Seconds before it starts.
        delay: f64,
    },
    /// A GPU computes for so many seconds.
    Compute {
        /// Which.
        on: Place,
        /// How long.
        seconds: f64,
    },
    /// It waits for its host.
    Pause {
        /// Which.
        on: Place,
        /// How long.
        seconds: f64,
    },
    /// It communicates for a known time.
    Known {
        /// Which.
        on: Place,
        /// How long.
        seconds: f64,
    },
    /// A group does a collective.
    Collective {
        /// Which.
        collective: Collective,
        /// The group's place in [`Recorded::groups`].
        group: u32,
        /// Its size, as nccl-tests counts it.
        bytes: u64,
        /// The shortest time of a rank in the record.
        took: Option<f64>,
    },
}

/// How the time of a trace is spent.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TraceSummary {
    /// Ranks.
    pub ranks: usize,
    /// Steps in the trace, by which all times here are divided; 1 where it does not say.
    pub steps: usize,
    /// As simulated.
    pub simulated: Split,
    /// As recorded; kernels that wait for other ranks count as communication.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Split>,
    /// Collectives by kind and number of ranks, the longest first.
    pub collectives: Vec<CollectiveTime>,
    /// What is assumed or left out, in sentences.
    pub notes: Vec<String>,
}

/// Collectives of one kind among so many ranks, in a step, on average over their groups.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CollectiveTime {
    /// Which.
    pub collective: Collective,
    /// Ranks of one.
    pub ranks: usize,
    /// How many a group does.
    pub count: f64,
    /// Bytes of all of them, as nccl-tests counts sizes.
    pub bytes: f64,
    /// Seconds, from when all ranks have begun.
    pub time: f64,
    /// Of these, those in which a rank does not compute.
    pub exposed: f64,
    /// Recorded seconds of the rank that waited least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<f64>,
}

impl Recorded {
    /// Ranks' traces on the first GPUs of a cluster. Computing takes `compute` times as long as it was recorded.
    ///
    /// # Errors
    /// Where there are fewer GPUs than ranks, or the ratio makes no sense.
    pub fn of(joined: &Joined, cluster: &Cluster, compute: f64) -> Result<Self, SimulateError> {
        if !compute.is_finite() || compute <= 0.0 {
            return Err(SimulateError::Workload(format!("compute scale {compute}: must be above 0, as 0.8")));
        }
        let mut places = cluster.places();
        if places.len() < joined.ranks {
            let (ranks, gpus) = (joined.ranks, places.len());
            return Err(SimulateError::Workload(format!(
                "has {ranks} ranks, and {} has {gpus} GPUs: give a larger TARGET, or more --nodes with --network",
                cluster.name
            )));
        }
        places.truncate(joined.ranks);
        let at = |rank: u32| places[rank as usize];
        let done = joined.acts.iter().map(|act| match *act {
            Act::Compute(rank, seconds) => Done::Compute { on: at(rank), seconds: seconds * compute },
            Act::Pause(rank, seconds) => Done::Pause { on: at(rank), seconds },
            Act::Known(rank, seconds) => Done::Known { on: at(rank), seconds },
            Act::Message(from, to, bytes) => {
                Done::Message { from: at(from), to: at(to), bytes: bytes as f64, delay: 0.0 }
            }
            Act::Collective { collective, group, bytes, took } => Done::Collective { collective, group, bytes, took },
        });
        let mut notes = joined.notes.clone();
        if compute != 1.0 {
            notes.push(format!("Computing takes {compute} times as long as it was recorded."));
        }
        Ok(Recorded {
            done: done.collect(),
            waits: joined.waits.clone(),
            groups: joined.groups.iter().map(|group| group.iter().map(|rank| at(*rank)).collect()).collect(),
            steps: joined.steps,
            recorded: joined.recorded,
            notes,
            ranks: places,
        })
    }

    /// Bytes that are sent.
    pub fn bytes(&self) -> f64 {
        let of = |done: &Done| match done {
            Done::Message { bytes, .. } => *bytes,
            Done::Collective { collective, group, bytes, .. } => {
                let ranks = self.groups.get(*group as usize).map_or(0, Vec::len);
                *bytes as f64 * collective.bus_factor(ranks) * ranks as f64
            }
            _ => 0.0,
        };
        self.done.iter().map(of).sum()
    }

    /// Whether it says how long a step takes: it has collectives, or ranks.
    fn is_a_step(&self) -> bool {
        !self.groups.is_empty() || !self.ranks.is_empty()
    }

    /// As steps. `faster` is a component that carries a multiple of what it does.
    ///
    /// # Errors
    /// Where the library's rate is not known for a group.
    pub fn program(&self, cluster: &Cluster, faster: Option<&(Component, f64)>) -> Result<Program, SimulateError> {
        let router = Router::new(cluster, Parts::embedded());
        let flows = Flows::new(router.model(), Engine::Sm);
        let mut laid = Laid {
            cluster,
            faster,
            finder: RingFinder::new(&flows, |gpu| router.nic_of(gpu)),
            libraries: HashMap::new(),
            moves: HashMap::new(),
            numbers: HashMap::new(),
            groups: Vec::new(),
        };
        let mut steps = Vec::with_capacity(self.done.len());
        for done in &self.done {
            steps.push(match *done {
                Done::Message { from, to, bytes, delay } => Step::Move { from, to, bytes, delay, via: Via::Direct },
                Done::Compute { on, seconds } | Done::Pause { on, seconds } | Done::Known { on, seconds } => {
                    Step::Compute { on, seconds }
                }
                Done::Collective { collective, group, bytes, .. } => {
                    laid.step(collective, (group, self.members(group)), bytes)?
                }
            });
        }
        let round = Round { within: self.waits.clone(), groups: laid.groups.into(), ..Round::at_once("trace", steps) };
        Ok(Program { rounds: vec![round] })
    }

    /// Plays it.
    ///
    /// # Errors
    /// As [`Recorded::program`], and where two places are not joined.
    pub fn outcome(
        &self,
        cluster: &Cluster,
        router: &mut Router,
        faster: Option<&(Component, f64)>,
    ) -> Result<Outcome, SimulateError> {
        let program = self.program(cluster, faster)?;
        let limits = match self.is_a_step() {
            // each step's start and end tell how the time is spent
            true => Limits { events: usize::MAX, counted_from: usize::MAX, ..Limits::default() },
            false => Limits::default(),
        };
        // the library's kernels move bytes themselves
        let engine = if self.groups.is_empty() { Engine::Ce } else { Engine::Sm };
        let mut outcome = run_within(&program, router, engine, limits)?;
        // pauses and communication are no computing
        outcome.computed =
            self.done.iter().map(|done| if let Done::Compute { seconds, .. } = done { *seconds } else { 0.0 }).sum();
        if !self.groups.is_empty() {
            let because = "collectives take the time that is predicted for the library, and share their paths with what moves at the \
                           same time";
            outcome.estimate = Some(Estimate { because: because.to_owned(), error: None });
        }
        Ok(outcome)
    }

    /// When ranks come to collectives: by collective and rank, when all that this rank does before it has ended.
    fn arrivals(&self, outcome: &Outcome) -> HashMap<(u32, Place), f64> {
        let mut arrivals = HashMap::new();
        for &(before, after) in &self.waits {
            let (Some(first), Some(Done::Collective { group, .. })) =
                (self.done.get(before as usize), self.done.get(after as usize))
            else {
                continue;
            };
            let end = outcome.events.get(before as usize).map_or(0.0, |event| event.end);
            let members = self.members(*group);
            let mut at = |place: &Place| {
                let arrival: &mut f64 = arrivals.entry((after, *place)).or_default();
                *arrival = arrival.max(end);
            };
            match first {
                Done::Compute { on, .. } | Done::Pause { on, .. } | Done::Known { on, .. } => at(on),
                Done::Message { from, to, .. } => [from, to].into_iter().for_each(at),
                Done::Collective { group: of, .. } if of == group => members.iter().for_each(at),
                Done::Collective { group: of, .. } => {
                    let other: BTreeSet<&Place> = self.members(*of).iter().collect();
                    members.iter().filter(|place| other.contains(place)).for_each(at);
                }
            }
        }
        arrivals
    }

    fn members(&self, group: u32) -> &[Place] {
        self.groups.get(group as usize).map_or(&[], Vec::as_slice)
    }

    /// How the time is spent; `None` of a trace without ranks and collectives.
    pub fn summary(&self, outcome: &Outcome) -> Option<TraceSummary> {
        if !self.is_a_step() {
            return None;
        }
        let steps = self.steps.max(1);
        let (arrivals, mut waiting) = (self.arrivals(outcome), 0.0);
        let mut spans: BTreeMap<Place, Spans> = self.ranks.iter().map(|place| (*place, Spans::default())).collect();
        for ((number, done), event) in (0..).zip(&self.done).zip(&outcome.events) {
            let span = (event.start, event.end);
            match done {
                Done::Compute { on, .. } => spans.entry(*on).or_default().computing.push(span),
                Done::Pause { .. } => {}
                Done::Known { on, .. } => spans.entry(*on).or_default().communicating.push(span),
                Done::Message { from, to, .. } => {
                    [from, to].into_iter().for_each(|at| spans.entry(*at).or_default().communicating.push(span));
                }
                // a rank's kernel runs from when the rank comes
                Done::Collective { group, .. } => {
                    for at in self.members(*group) {
                        let came = arrivals.get(&(number, *at)).copied().unwrap_or_default().min(event.start);
                        waiting += event.start - came;
                        spans.entry(*at).or_default().communicating.push((came, event.end));
                    }
                }
            }
        }
        let mut kinds: BTreeMap<(Collective, usize), Times> = BTreeMap::new();
        spans.values_mut().for_each(|of| of.computing.sort_by(|a, b| a.0.total_cmp(&b.0)));
        for (done, event) in self.done.iter().zip(&outcome.events) {
            let Done::Collective { collective, group, bytes, took } = done else { continue };
            let members = self.members(*group);
            let hidden = members.iter().filter_map(|at| spans.get(at)).map(|of| of.hidden((event.start, event.end)));
            let hidden = hidden.sum::<f64>() / members.len().max(1) as f64;
            let time = event.end - event.start;
            let all = kinds.entry((*collective, members.len())).or_default();
            all.groups.insert(*group);
            all.count += 1.0;
            all.bytes += *bytes as f64;
            all.time += time;
            all.exposed += (time - hidden).max(0.0);
            all.recorded = all.recorded.zip(*took).map(|(before, took)| before + took);
        }
        let mut collectives: Vec<CollectiveTime> =
            kinds.into_iter().map(|((kind, ranks), of)| of.mean(kind, ranks, steps)).collect();
        collectives.sort_by(|a, b| b.time.total_cmp(&a.time));
        let splits: Vec<Split> =
            spans.into_values().map(|of| Split::of(outcome.time, of.computing, of.communicating)).collect();
        let waiting = Some(waiting / (splits.len().max(1) * steps) as f64);
        Some(TraceSummary {
            ranks: splits.len(),
            steps,
            simulated: Split { waiting, ..Split::mean(&splits, steps) },
            recorded: self.recorded,
            collectives,
            notes: self.notes.clone(),
        })
    }
}

/// What a rank did.
#[derive(Default)]
struct Spans {
    computing: Vec<(f64, f64)>,
    communicating: Vec<(f64, f64)>,
}

impl Spans {
    /// Seconds of a span in which it computes. Computing is in the order of its starts, and little of it overlaps.
    fn hidden(&self, (from, to): (f64, f64)) -> f64 {
        let end = self.computing.partition_point(|span| span.0 < to);
        let (mut hidden, mut until) = (0.0, to);
        for (start, stop) in self.computing[..end].iter().rev() {
            if until <= from {
                break;
            }
            hidden += (stop.min(until) - start.max(from)).max(0.0);
            until = until.min(*start);
            // what began earlier and is still under way is not looked for beyond some
            if *stop <= from && end > 64 {
                break;
            }
        }
        hidden
    }
}

/// Sums over collectives of one kind.
struct Times {
    groups: BTreeSet<u32>,
    count: f64,
    bytes: f64,
    time: f64,
    exposed: f64,
    recorded: Option<f64>,
}

impl Default for Times {
    fn default() -> Self {
        Times { groups: BTreeSet::new(), count: 0.0, bytes: 0.0, time: 0.0, exposed: 0.0, recorded: Some(0.0) }
    }
}

impl Times {
    fn mean(self, collective: Collective, ranks: usize, steps: usize) -> CollectiveTime {
        let n = (self.groups.len().max(1) * steps) as f64;
        CollectiveTime {
            collective,
            ranks,
            count: self.count / n,
            bytes: self.bytes / n,
            time: self.time / n,
            exposed: self.exposed / n,
            recorded: self.recorded.map(|all| all / n),
        }
    }
}

type Moves = Arc<[(Place, Place, f64)]>;

/// Groups on a cluster.
struct Laid<'l, 'm, 'a> {
    cluster: &'l Cluster,
    faster: Option<&'l (Component, f64)>,
    finder: RingFinder<'l, 'm, 'a>,
    /// By collective, a node's GPUs and the number of nodes.
    libraries: HashMap<(Collective, Vec<NodeId>, u32), Library>,
    moves: HashMap<(Collective, u32), Moves>,
    /// With when its bytes begin, and how many move: those of an exchange more slowly.
    numbers: HashMap<(Collective, u32, u64), (u32, f64, f64)>,
    groups: Vec<Group>,
}

impl Laid<'_, '_, '_> {
    fn step(
        &mut self,
        collective: Collective,
        (number, members): (u32, &[Place]),
        bytes: u64,
    ) -> Result<Step, SimulateError> {
        if let Some((group, delay, bytes)) = self.numbers.get(&(collective, number, bytes)) {
            return Ok(Step::Together { group: *group, bytes: *bytes, delay: *delay });
        }
        let mut moved = bytes as f64;
        let moves = match self.moves.get(&(collective, number)) {
            Some(moves) => Arc::clone(moves),
            None => {
                let moves: Moves = self.moves(collective, members)?.into();
                self.moves.insert((collective, number), Arc::clone(&moves));
                moves
            }
        };
        let (group, delay) = match collective {
            _ if moves.is_empty() => (Group { moves, rate: None, by: String::new() }, 0.0),
            Collective::AllToAll => {
                let exchange = Exchange::of(&self.part(members), Ranks::ProcessEach)?;
                let delay = exchange.before(bytes as f64);
                moved *= exchange.slower(bytes as f64);
                (Group { moves, rate: None, by: String::new() }, delay)
            }
            _ => {
                let (outcome, predicted) = self.library(collective, members)?.outcome(Bytes(bytes), Choice::FREE)?;
                let moving = predicted.time - predicted.startup;
                let rate = (moving > 0.0).then(|| bytes as f64 / moving);
                let by = outcome.spent.iter().find(|(by, _)| by != super::outcome::STARTING);
                (Group { moves, rate, by: by.map(|(by, _)| by.clone()).unwrap_or_default() }, predicted.startup)
            }
        };
        self.groups.push(group);
        let place = self.groups.len() as u32 - 1;
        self.numbers.insert((collective, number, bytes), (place, delay, moved));
        Ok(Step::Together { group: place, bytes: moved, delay })
    }

    /// What moves, by byte of the collective.
    fn moves(&mut self, collective: Collective, members: &[Place]) -> Result<Vec<(Place, Place, f64)>, SimulateError> {
        let n = members.len();
        if n < 2 {
            return Ok(Vec::new());
        }
        if collective == Collective::AllToAll {
            if n > MOST_ALL_TO_ALL {
                return Err(SimulateError::Workload(format!(
                    "has an all-to-all among {n} ranks, more than the {MOST_ALL_TO_ALL} whose pairs are listed: simulate it alone \
                     (-w all-to-all)"
                )));
            }
            let pairs = members.iter().flat_map(|a| members.iter().filter(move |b| *b != a).map(move |b| (*a, *b)));
            return Ok(pairs.map(|(a, b)| (a, b, 1.0 / n as f64)).collect());
        }
        let factor = collective.bus_factor(n);
        let edges = |(ring, share): (Vec<Place>, f64)| {
            let next: Vec<Place> = ring.iter().cycle().skip(1).take(ring.len()).copied().collect();
            ring.into_iter().zip(next).map(move |(a, b)| (a, b, share * factor))
        };
        Ok(self.finder.rings(members).into_iter().flat_map(edges).collect())
    }

    /// The cluster of these GPUs: as many nodes as they are in, with those GPUs that the node has which has most of them.
    fn part(&self, members: &[Place]) -> Cluster {
        let mut nodes: BTreeMap<u32, Vec<NodeId>> = BTreeMap::new();
        members.iter().for_each(|place| nodes.entry(place.node).or_default().push(place.device));
        let mut gpus = nodes.values().max_by_key(|gpus| gpus.len()).cloned().unwrap_or_default();
        gpus.sort_unstable();
        Cluster { only: gpus, taking: (nodes.len() as u32, usize::MAX), ..self.cluster.clone() }
    }

    /// The library on these GPUs.
    fn library(&mut self, collective: Collective, members: &[Place]) -> Result<&Library, SimulateError> {
        let cluster = self.part(members);
        let key = (collective, cluster.only.clone(), cluster.taking.0);
        if !self.libraries.contains_key(&key) {
            let library = Library::of(&cluster, collective, Choice::FREE, self.faster.cloned())?;
            self.libraries.insert(key.clone(), library);
        }
        Ok(&self.libraries[&key])
    }
}

#[cfg(test)]
mod tests;
