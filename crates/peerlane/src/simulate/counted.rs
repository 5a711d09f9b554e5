//! Rounds of very many transfers that start at once, without a [`Way`](crate::cluster::Way) for each.
//!
//! What each transfer would take by itself is added up on everything that it uses. Where nothing is asked for more than it
//! has, every transfer has that rate. What is asked for more is all that can hold a transfer below it, so that only such
//! resources, and the transfers that use them, go to the solver.

use std::collections::HashMap;

use super::SimulateError;
use super::counted_sets::{Described, Known, Shared};
use super::play::{Played, Spent};
use super::program::Step;
use crate::cluster::{Router, Via};
use crate::evidence::Engine;

/// How much more than it has may be asked of a resource: what rounding leaves.
const OVER: f64 = 1e-12;
/// Times that differ by less are one.
pub(super) const TOGETHER: f64 = 1e-9;
/// Starts and ends of more transfers than this are not kept.
const MOST_KEPT: usize = 200_000;
/// In place of a number: none.
const NONE: u32 = u32::MAX;

/// A transfer.
#[derive(Clone, Copy)]
struct Flow {
    /// Until the first byte, in seconds.
    start: f64,
    bytes: f64,
    /// Rate by itself.
    lone: f64,
    /// What holds it then: index into `Counted::kinds`.
    held: u32,
    /// `(node, leg)` of both ends; the second is [`NONE`] within a node.
    legs: [(u32, u32); 2],
    /// Its channels: up to here, from where those of the one before end.
    channels: u32,
}

/// A round as it goes when all its transfers start at once.
pub(super) struct Counted {
    pub played: Played,
    /// Whether each of its repetitions takes as long, where each transfer waits for some of the repetition before.
    pub repeats: bool,
}

/// What resources of one kind carry, and what they are called.
struct Kind {
    rate: f64,
    name: String,
}

/// A leg's uses: `(index among the local resources in use, consumption per byte)`.
struct LocalLeg {
    uses: Vec<(u32, f64)>,
    lone: f64,
    held: u32,
}

/// All that is counted over.
struct Count<'r, 'a> {
    router: &'r mut Router<'a>,
    kinds: Vec<Kind>,
    /// By resource of the nodes' model: which of those in use.
    locals: HashMap<usize, u32>,
    legs: Vec<LocalLeg>,
    channel_kinds: HashMap<u64, u32>,
    flows: Vec<Flow>,
    channels: Vec<u64>,
}

/// Counts a round; `pairs` say what a repetition waits for. `None` where a step is no transfer between two places.
pub(super) fn counted(
    router: &mut Router,
    engine: Engine,
    steps: &[Step],
    pairs: &[(u32, u32)],
) -> Result<Option<Counted>, SimulateError> {
    let mut count = Count {
        router,
        kinds: Vec::new(),
        locals: HashMap::new(),
        legs: Vec::new(),
        channel_kinds: HashMap::new(),
        flows: Vec::with_capacity(steps.len()),
        channels: Vec::new(),
    };
    for (i, step) in steps.iter().enumerate() {
        if !count.add(i, step, engine)? {
            return Ok(None);
        }
    }
    let scarce = count.scarce();
    let mut waits = vec![false; steps.len()];
    pairs.iter().filter(|(a, b)| a == b).for_each(|(a, _)| waits[*a as usize] = true);
    if scarce.capacities.is_empty() {
        Ok(Some(count.undisturbed(&waits)))
    } else {
        count.solved(&scarce, &waits).map(Some)
    }
}

/// Resources of which more is asked than they have.
struct Scarce {
    /// By `node × local resources + local resource`; [`NONE`] where there is enough.
    locals: Vec<u32>,
    channels: HashMap<u64, u32>,
    capacities: Vec<f64>,
}

impl Count<'_, '_> {
    fn add(&mut self, i: usize, step: &Step, engine: Engine) -> Result<bool, SimulateError> {
        let Step::Move { from, to, bytes, delay, via } = *step else { return Ok(false) };
        if from == to || via != Via::Direct {
            return Ok(false);
        }
        if [bytes, delay].iter().any(|n| !n.is_finite() || *n < 0.0) {
            return Err(SimulateError::Step(i, format!("{:?} must be numbers of at least 0", [bytes, delay])));
        }
        let first = self.channels.len();
        let course = self.router.course(from, to, engine, via, &mut self.channels)?;
        let mut legs = course.legs;
        if course.count == 1 {
            legs[1] = (legs[0].0, NONE);
        }
        let (mut lone, mut held) = (f64::INFINITY, 0);
        for (at, &(_, leg)) in legs[..course.count].iter().enumerate() {
            self.learn(leg)?;
            let leg = &self.legs[leg as usize];
            if leg.lone < lone {
                (lone, held) = (leg.lone, leg.held);
            }
            if at == 0 {
                for c in first..self.channels.len() {
                    let kind = self.kind_of(self.channels[c])?;
                    let rate = self.kinds[kind as usize].rate;
                    if rate < lone {
                        (lone, held) = (rate, kind);
                    }
                }
            }
        }
        let start = delay + self.router.start(course.latency, course.message, bytes, lone);
        self.flows.push(Flow { start, bytes, lone, held, legs, channels: self.channels.len() as u32 });
        Ok(true)
    }

    fn kind_of(&mut self, channel: u64) -> Result<u32, SimulateError> {
        let key = self.router.channel_kind(channel);
        if let Some(kind) = self.channel_kinds.get(&key) {
            return Ok(*kind);
        }
        let (rate, name) = self.router.channel(channel)?;
        let kind = self.kinds.len() as u32;
        self.kinds.push(Kind { rate, name });
        self.channel_kinds.insert(key, kind);
        Ok(kind)
    }

    /// Makes a leg known; legs are numbered in the order in which they are first used.
    fn learn(&mut self, leg: u32) -> Result<(), SimulateError> {
        while self.legs.len() <= leg as usize {
            let of = self.router.leg_of(self.legs.len() as u32).clone();
            let mut uses = Vec::with_capacity(of.uses.len());
            let (mut lone, mut held) = (of.cap, self.kinds.len() as u32);
            if let Some(name) = of.cap_why {
                self.kinds.push(Kind { rate: of.cap, name });
            }
            for (resource, per_byte) in of.uses {
                let slot = match self.locals.get(&resource) {
                    Some(slot) => *slot,
                    None => {
                        let (rate, name) = self.router.local(resource)?;
                        self.kinds.push(Kind { rate, name });
                        let slot = self.kinds.len() as u32 - 1;
                        self.locals.insert(resource, slot);
                        slot
                    }
                };
                uses.push((slot, per_byte));
                let rate = self.kinds[slot as usize].rate / per_byte;
                if rate < lone {
                    (lone, held) = (rate, slot);
                }
            }
            self.legs.push(LocalLeg { uses, lone, held });
        }
        Ok(())
    }

    fn uses(&self, flow: &Flow) -> impl Iterator<Item = (u64, u32, f64)> {
        let kinds = self.kinds.len() as u64;
        flow.legs.into_iter().filter(|(_, leg)| *leg != NONE).flat_map(move |(node, leg)| {
            let uses = self.legs[leg as usize].uses.iter();
            uses.map(move |(slot, per_byte)| (u64::from(node) * kinds + u64::from(*slot), *slot, *per_byte))
        })
    }

    fn channels(&self, i: usize) -> &[u64] {
        let first = if i == 0 { 0 } else { self.flows[i - 1].channels };
        &self.channels[first as usize..self.flows[i].channels as usize]
    }

    fn scarce(&self) -> Scarce {
        let nodes = self.flows.iter().flat_map(|f| f.legs).map(|(node, _)| node as usize + 1).max().unwrap_or(0);
        let mut asked = vec![0.0_f64; nodes * self.kinds.len()];
        let mut of_channels: Vec<(u64, f64)> = Vec::with_capacity(self.channels.len());
        for (i, flow) in self.flows.iter().enumerate() {
            for (place, _, per_byte) in self.uses(flow) {
                asked[place as usize] += per_byte * flow.lone;
            }
            of_channels.extend(self.channels(i).iter().map(|c| (*c, flow.lone)));
        }
        let locals = vec![NONE; asked.len()];
        let mut scarce = Scarce { locals, channels: HashMap::new(), capacities: Vec::new() };
        for (place, asked) in asked.iter().enumerate() {
            let rate = self.kinds[place % self.kinds.len()].rate;
            if *asked > rate * (1.0 + OVER) {
                scarce.locals[place] = scarce.capacities.len() as u32;
                scarce.capacities.push(rate);
            }
        }
        of_channels.sort_unstable_by_key(|(channel, _)| *channel);
        for same in of_channels.chunk_by(|a, b| a.0 == b.0) {
            let asked: f64 = same.iter().map(|(_, rate)| rate).sum();
            let kind = self.channel_kinds.get(&self.router.channel_kind(same[0].0));
            let rate = kind.map_or(f64::INFINITY, |kind| self.kinds[*kind as usize].rate);
            if asked > rate * (1.0 + OVER) {
                scarce.channels.insert(same[0].0, scarce.capacities.len() as u32);
                scarce.capacities.push(rate);
            }
        }
        scarce
    }

    /// Every transfer at the rate that it has by itself.
    fn undisturbed(&self, waits: &[bool]) -> Counted {
        let ends = |f: &Flow| f.start + f.bytes / f.lone;
        let slowest = self.flows.iter().zip(waits).map(|(f, w)| (ends(f), *w));
        // of equals one that waits for itself
        let (time, repeats) = slowest.fold((0.0, false), |a, b| if b.0 > a.0 || (b.0 == a.0 && b.1) { b } else { a });
        let ends: Vec<f64> = self.flows.iter().take(MOST_KEPT).map(ends).collect();
        let together = self.flows.iter().all(|f| f.start + f.bytes / f.lone >= time * (1.0 - TOGETHER));
        Counted {
            played: self.played(time, ends, &|_, flow| (flow.held, flow.bytes / flow.lone)),
            repeats: repeats || together,
        }
    }

    fn played(&self, time: f64, ends: Vec<f64>, moved: &dyn Fn(usize, &Flow) -> (u32, f64)) -> Played {
        let mut by_kind = vec![0.0; self.kinds.len()];
        let (mut starting, mut alone, mut last) = (0.0, 0.0_f64, (0.0, NONE));
        for (i, flow) in self.flows.iter().enumerate() {
            starting += flow.start;
            alone = alone.max(flow.bytes / flow.lone);
            let (kind, seconds) = moved(i, flow);
            by_kind[kind as usize] += seconds;
            let end = flow.start + seconds;
            if end > last.0 * (1.0 + TOGETHER) {
                last = (end, kind);
            }
        }
        let mut played = Played { time, starts: vec![0.0; ends.len()], ends, alone, ..Played::default() };
        played.last = self.kinds.get(last.1 as usize).map(|kind| Spent::Kind(kind.name.clone()));
        if starting > 0.0 {
            played.spent.insert(Spent::Start, starting);
        }
        for (kind, seconds) in self.kinds.iter().zip(by_kind).filter(|(_, s)| *s > 0.0) {
            *played.spent.entry(Spent::Kind(kind.name.clone())).or_default() += seconds;
        }
        played
    }

    /// With what is scarce shared: set by set of transfers that share something, directly or through others. Sets that are
    /// the same but for the numbers of what they use go the same way, so that each kind of them is solved once.
    fn solved(&self, scarce: &Scarce, waits: &[bool]) -> Result<Counted, SimulateError> {
        let mut held: Vec<u32> = self.flows.iter().map(|f| f.held).collect();
        let mut ends: Vec<f64> = self.flows.iter().map(|f| f.start + f.bytes / f.lone).collect();
        let sets = self.sets(scarce);
        let mut known = Known::default();
        let mut numbers = Numbers::new(scarce.capacities.len());
        let mut longest_least = 0.0_f64;
        // sets that end at one moment, whose transfers wait for themselves
        let mut together = 0.0_f64;
        for set in sets.members.chunk_by(|a, b| sets.of[*a as usize] == sets.of[*b as usize]) {
            let described = self.describe(set, scarce, waits, &mut numbers);
            let solved = known.find(described, |it| it.solve())?;
            for (flow, (end, kind)) in set.iter().zip(solved.ends.iter().zip(&solved.held)) {
                ends[*flow as usize] = *end;
                if let Some(kind) = kind {
                    held[*flow as usize] = *kind;
                }
            }
            longest_least = longest_least.max(solved.longest_least);
            if solved.together {
                together = together.max(solved.first);
            }
        }
        let time = ends.iter().copied().fold(0.0_f64, f64::max);
        let due = time * (1.0 - TOGETHER);
        let all = ends.iter().all(|e| *e >= due);
        let by_itself = |i: usize| sets.of[i] == NONE && waits[i] && ends[i] >= due;
        // no transfer gets less than its part of each scarce resource on its way were all of the others on it under way:
        // where none takes longer than `time` even so, none starts the k-th time later than k × `time`; and where those
        // of a set with one of the slowest all end with it, and each waits for itself, they begin every repetition
        // together, and so take `time` each time
        let bounded = longest_least <= time * (1.0 + TOGETHER);
        let repeats = all || (bounded && (together >= due || (0..ends.len()).any(by_itself)));
        let by = |i: usize, flow: &Flow| (held[i], ends[i] - flow.start);
        let mut played = self.played(time, Vec::new(), &by);
        let kept = ends.len().min(MOST_KEPT);
        played.starts = vec![0.0; kept];
        played.ends = ends[..kept].to_vec();
        Ok(Counted { played, repeats })
    }

    /// The scarce resources on a transfer's way: `(number, kind, consumption per byte)`.
    fn route<'s>(&'s self, i: usize, scarce: &'s Scarce) -> impl Iterator<Item = (u32, u32, f64)> + 's {
        let locals = self.uses(&self.flows[i]).filter_map(|(place, kind, per_byte)| {
            let number = scarce.locals[place as usize];
            (number != NONE).then_some((number, kind, per_byte))
        });
        // a round in which no channel is scarce asks for none
        let channels = if scarce.channels.is_empty() { &[] } else { self.channels(i) };
        locals.chain(channels.iter().filter_map(|channel| {
            let number = scarce.channels.get(channel)?;
            Some((*number, self.channel_kinds[&self.router.channel_kind(*channel)], 1.0))
        }))
    }

    /// Sets of transfers that share something scarce.
    fn sets(&self, scarce: &Scarce) -> Sets {
        let mut parents: Vec<u32> = (0..scarce.capacities.len() as u32).collect();
        let mut of = vec![NONE; self.flows.len()];
        for (i, _) in self.flows.iter().enumerate().filter(|(_, f)| f.bytes > 0.0) {
            for (number, _, _) in self.route(i, scarce) {
                match of[i] {
                    NONE => of[i] = number,
                    // the lower number stands for all
                    first => {
                        let [a, b] = [root(&mut parents, first), root(&mut parents, number)];
                        parents[a.max(b) as usize] = a.min(b);
                    }
                }
            }
        }
        let mut starts = vec![0_u32; scarce.capacities.len() + 1];
        for set in of.iter_mut().filter(|set| **set != NONE) {
            *set = root(&mut parents, *set);
            starts[*set as usize + 1] += 1;
        }
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        let mut members = vec![0_u32; starts.last().copied().unwrap_or(0) as usize];
        for (i, set) in (0_u32..).zip(&of).filter(|(_, set)| **set != NONE) {
            let at = &mut starts[*set as usize];
            members[*at as usize] = i;
            *at += 1;
        }
        Sets { of, members }
    }

    /// A set in numbers of its own, so that sets that go the same way read the same.
    fn describe(&self, set: &[u32], scarce: &Scarce, waits: &[bool], numbers: &mut Numbers) -> Described {
        numbers.next_set();
        let mut all = Described::default();
        for &i in set {
            let flow = &self.flows[i as usize];
            for (resource, kind, per_byte) in self.route(i as usize, scarce) {
                let number = numbers.of(resource);
                if number as usize == all.capacities.len() {
                    all.capacities.push(scarce.capacities[resource as usize]);
                    all.kinds.push(kind);
                }
                all.routes.push((number, per_byte));
            }
            let waits = waits[i as usize];
            let transfer = Shared { start: flow.start, bytes: flow.bytes, lone: flow.lone, waits };
            all.transfers.push((transfer, all.routes.len() as u32));
        }
        all
    }
}

/// Which transfers share something.
struct Sets {
    /// By transfer: the number of its set, or [`NONE`].
    of: Vec<u32>,
    /// Transfers, set by set, in their order.
    members: Vec<u32>,
}

/// Numbers of a set's own for the scarce resources that it uses, in the order of their use.
struct Numbers {
    /// By resource: of which set its number is, and the number.
    of: Vec<(u32, u32)>,
    set: u32,
    used: u32,
}

impl Numbers {
    fn new(resources: usize) -> Self {
        Numbers { of: vec![(0, 0); resources], set: 0, used: 0 }
    }

    fn next_set(&mut self) {
        self.set += 1;
        self.used = 0;
    }

    fn of(&mut self, resource: u32) -> u32 {
        let known = &mut self.of[resource as usize];
        if known.0 != self.set {
            *known = (self.set, self.used);
            self.used += 1;
        }
        known.1
    }
}

/// The resource that stands for all that are joined with this.
fn root(parents: &mut [u32], mut of: u32) -> u32 {
    while parents[of as usize] != of {
        let above = parents[parents[of as usize] as usize];
        parents[of as usize] = above;
        of = above;
    }
    of
}
