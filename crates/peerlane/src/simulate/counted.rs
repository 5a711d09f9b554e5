//! Rounds of very many transfers that start at once, without a [`Way`](crate::cluster::Way) for each.
//!
//! What each transfer would take by itself is added up on everything that it uses. Where nothing is asked for more than it
//! has, every transfer has that rate. What is asked for more is all that can hold a transfer below it, so that only such
//! resources, and the transfers that use them, go to the solver.

use std::collections::HashMap;

use super::SimulateError;
use super::flows::Flows;
use super::play::{Played, Spent};
use super::program::Step;
use super::solver::Hold;
use crate::cluster::Router;
use crate::evidence::Engine;

/// How much more than it has may be asked of a resource: what rounding leaves.
const OVER: f64 = 1e-12;
/// Times that differ by less are one.
const TOGETHER: f64 = 1e-9;
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
    /// By `node × local resources + local resource`.
    locals: HashMap<u64, u32>,
    channels: HashMap<u64, u32>,
    capacities: Vec<f64>,
}

impl Count<'_, '_> {
    fn add(&mut self, i: usize, step: &Step, engine: Engine) -> Result<bool, SimulateError> {
        let Step::Move { from, to, bytes, delay } = *step else { return Ok(false) };
        if from == to {
            return Ok(false);
        }
        if [bytes, delay].iter().any(|n| !n.is_finite() || *n < 0.0) {
            return Err(SimulateError::Step(i, format!("{:?} must be numbers of at least 0", [bytes, delay])));
        }
        let first = self.channels.len();
        let course = self.router.course(from, to, engine, &mut self.channels)?;
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
        let start = delay + course.latency;
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
        let mut scarce = Scarce { locals: HashMap::new(), channels: HashMap::new(), capacities: Vec::new() };
        for (place, asked) in asked.iter().enumerate() {
            let rate = self.kinds[place % self.kinds.len()].rate;
            if *asked > rate * (1.0 + OVER) {
                scarce.locals.insert(place as u64, scarce.capacities.len() as u32);
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
        let (mut starting, mut alone) = (0.0, 0.0_f64);
        for (i, flow) in self.flows.iter().enumerate() {
            starting += flow.start;
            alone = alone.max(flow.bytes / flow.lone);
            let (kind, seconds) = moved(i, flow);
            by_kind[kind as usize] += seconds;
        }
        let mut played = Played { time, starts: vec![0.0; ends.len()], ends, alone, ..Played::default() };
        if starting > 0.0 {
            played.spent.insert(Spent::Start, starting);
        }
        for (kind, seconds) in self.kinds.iter().zip(by_kind).filter(|(_, s)| *s > 0.0) {
            *played.spent.entry(Spent::Kind(kind.name.clone())).or_default() += seconds;
        }
        played
    }

    /// With what is scarce shared.
    fn solved(&self, scarce: &Scarce, waits: &[bool]) -> Result<Counted, SimulateError> {
        let network = |e: crate::share::ShareError| SimulateError::Network(e.to_string());
        let mut flows = Flows::new(&scarce.capacities).map_err(network)?;
        let mut shared: Vec<(u32, u32)> = Vec::new();
        let mut routes: Vec<(u32, f64)> = Vec::new();
        let mut first = vec![0_u32];
        let mut kind_of = vec![0_u32; scarce.capacities.len()];
        let mut time = 0.0_f64;
        let mut ends: Vec<f64> = self.flows.iter().map(|f| f.start + f.bytes / f.lone).collect();
        for (i, flow) in self.flows.iter().enumerate() {
            let begun = routes.len();
            for (place, kind, per_byte) in self.uses(flow) {
                if let Some(number) = scarce.locals.get(&place) {
                    kind_of[*number as usize] = kind;
                    routes.push((*number, per_byte));
                }
            }
            for channel in self.channels(i) {
                if let Some(number) = scarce.channels.get(channel) {
                    kind_of[*number as usize] = self.channel_kinds[&self.router.channel_kind(*channel)];
                    routes.push((*number, 1.0));
                }
            }
            if routes.len() == begun || flow.bytes == 0.0 {
                routes.truncate(begun);
                time = time.max(ends[i]);
                continue;
            }
            let class = flows.class(&routes[begun..], 1.0, flow.lone).map_err(network)?;
            shared.push((i as u32, class));
            first.push(routes.len() as u32);
        }
        let held = self.at_once(&mut flows, &shared, &mut ends, &kind_of)?;
        time = shared.iter().map(|(i, _)| ends[*i as usize]).fold(time, f64::max);
        let repeats =
            self.repeats(&ends, time, waits, &Sharing { shared: &shared, first: &first, routes: &routes, scarce });
        let by = |i: usize, flow: &Flow| (held[i], ends[i] - flow.start);
        let mut played = self.played(time, Vec::new(), &by);
        let kept = ends.len().min(MOST_KEPT);
        played.starts = vec![0.0; kept];
        played.ends = ends[..kept].to_vec();
        Ok(Counted { played, repeats })
    }

    /// When those that share anything end, and by what kind of resource each transfer is held.
    fn at_once(
        &self,
        flows: &mut Flows,
        shared: &[(u32, u32)],
        ends: &mut [f64],
        kind_of: &[u32],
    ) -> Result<Vec<u32>, SimulateError> {
        let mut held: Vec<u32> = self.flows.iter().map(|f| f.held).collect();
        let mut order: Vec<u32> = (0..shared.len() as u32).collect();
        let start = |s: u32| self.flows[shared[s as usize].0 as usize].start;
        order.sort_by(|a, b| start(*a).total_cmp(&start(*b)));
        let (mut next, mut ended) = (0, Vec::new());
        loop {
            let begins = order.get(next).map(|s| start(*s));
            let Some(now) = flows.next_end().into_iter().chain(begins).reduce(f64::min) else { break };
            ended.clear();
            flows.advance(now, &mut ended);
            for &s in &ended {
                let (i, class) = shared[s as usize];
                ends[i as usize] = now;
                if let Hold::Link(link) = flows.solver().hold(class) {
                    held[i as usize] = kind_of[link as usize];
                }
            }
            while let Some(&s) = order.get(next).filter(|s| start(**s) <= now) {
                let (i, class) = shared[s as usize];
                flows.start(class, self.flows[i as usize].bytes, s);
                next += 1;
            }
        }
        if flows.active() > 0 { Err(SimulateError::Stalled(flows.active())) } else { Ok(held) }
    }

    /// Whether a chain of such repetitions takes so many times as long as one.
    ///
    /// No transfer gets less than its part of each scarce resource on its way were all of the others on it under way.
    /// Where none takes longer than `time` even so, none starts the k-th time later than k × `time`. And where those
    /// that share anything, directly or through others, with one of the slowest all end with it, and each waits for
    /// itself, they begin every repetition together, and so take `time` each time.
    fn repeats(&self, ends: &[f64], time: f64, waits: &[bool], sharing: &Sharing) -> bool {
        let due = time * (1.0 - TOGETHER);
        if ends.iter().all(|e| *e >= due) {
            return true;
        }
        let Sharing { shared, first, routes, scarce } = *sharing;
        let route = |s: usize| &routes[first[s] as usize..first[s + 1] as usize];
        let mut weight = vec![0.0; scarce.capacities.len()];
        routes.iter().for_each(|(r, per_byte)| weight[*r as usize] += per_byte);
        let mut parents: Vec<u32> = (0..scarce.capacities.len() as u32).collect();
        for (s, (i, _)) in shared.iter().enumerate() {
            let flow = &self.flows[*i as usize];
            let part = |r: u32| scarce.capacities[r as usize] / weight[r as usize];
            let least = route(s).iter().map(|(r, _)| part(*r)).fold(flow.lone, f64::min);
            if flow.start + flow.bytes / least > time * (1.0 + TOGETHER) {
                return false;
            }
            let a = root(&mut parents, route(s)[0].0);
            for (r, _) in &route(s)[1..] {
                let b = root(&mut parents, *r);
                parents[b as usize] = a;
            }
        }
        // whether all of a set end together
        let mut together = vec![true; scarce.capacities.len()];
        let mut slow = vec![false; scarce.capacities.len()];
        let mut lone_slow = vec![true; ends.len()];
        for (s, (i, _)) in shared.iter().enumerate() {
            let set = root(&mut parents, route(s)[0].0) as usize;
            let late = ends[*i as usize] >= due;
            slow[set] |= late;
            together[set] &= late && waits[*i as usize];
            lone_slow[*i as usize] = false;
        }
        let by_itself = |i: usize| lone_slow[i] && waits[i] && ends[i] >= due;
        slow.iter().zip(&together).any(|(s, t)| *s && *t) || (0..ends.len()).any(by_itself)
    }
}

/// Transfers that share scarce resources, and which.
struct Sharing<'s> {
    /// `(transfer, class)`.
    shared: &'s [(u32, u32)],
    /// Where the route of each begins in `routes`.
    first: &'s [u32],
    routes: &'s [(u32, f64)],
    scarce: &'s Scarce,
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
