//! Rounds of very many transfers that start at once, without a [`ClusterRoute`](crate::cluster::ClusterRoute) for each.
//!
//! What each transfer would take by itself is added up on everything that it uses. Where nothing is asked for more than it
//! has, every transfer has that rate. What is asked for more is all that can hold a transfer below it, so that only such
//! resources, and the transfers that use them, go to the solver.

mod scarce;
mod sets;

use std::collections::HashMap;

use super::SimulateError;
use super::estimate::Estimate;
use super::play::{Played, Spent, Takes};
use super::program::Step;
use crate::cluster::{Router, Via, share_of};
use peerlane_machine::matrix::Engine;
use peerlane_model::solve::{Binding, Resource, Turns};
use scarce::Scarce;

/// How much more than it has may be asked of a resource: what rounding leaves.
const OVER: f64 = 1e-12;
/// Times that differ by less are one.
const TOGETHER: f64 = 1e-9;
/// Starts and ends of more transfers than this are not kept.
const MOST_KEPT: usize = 200_000;
/// From so many transfers on, those that disturb each other only by what they burden are not solved, where that
/// makes no more than [`SMALL`] of a difference.
const MANY: usize = 100_000;
/// Part of a round's time.
const SMALL: f64 = 0.01;
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
    /// What holds it then: index into `Bulk::kinds`.
    held: u32,
    /// `(node, leg)` of both ends; the second is [`NONE`] within a node.
    legs: [(u32, u32); 2],
    /// Its channels: up to here, from where those of the one before end.
    channels: u32,
    /// In how many equal parts it goes through the network.
    parts: u32,
}

/// A round as it goes when all its transfers start at once.
pub(super) struct Bulk {
    pub played: Played,
    /// What each transfer takes.
    pub takes: Vec<Takes>,
    /// Whether none disturbs another, so that each takes that whenever it starts.
    pub undisturbed: bool,
    /// Why its time is an upper bound, and the share by which it may be too long.
    pub bound: Option<Estimate>,
}

/// What resources of one kind carry, and what they are called.
struct Kind {
    resource: Resource,
    name: String,
}

/// What a leg asks for, in kinds of resources of its node.
struct LocalLeg {
    /// `(kind, consumption per byte)`.
    uses: Vec<(u32, f64)>,
    burdens: Vec<(u32, f64)>,
    /// `(server, window, share of the window per byte and ns)`.
    waits: Vec<(u32, u32, f64)>,
    turns: Option<Turns>,
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

/// Counts a round. `None` where a step is no transfer between two places.
pub(super) fn counted(router: &mut Router, engine: Engine, steps: &[Step]) -> Result<Option<Bulk>, SimulateError> {
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
    let mut scarce = count.scarce();
    if scarce.is_nothing() {
        return Ok(Some(count.undisturbed()));
    }
    if steps.len() >= MANY
        && let Some(bounded) = count.bounded(&scarce)
    {
        return Ok(Some(bounded));
    }
    count.number(&mut scarce);
    count.solved(&scarce).map(Some)
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
                    let share = share_of(c - first, &self.channels[first..], course.parts);
                    let rate = self.kinds[kind as usize].resource.capacity / share;
                    if rate < lone {
                        (lone, held) = (rate, kind);
                    }
                }
            }
        }
        let start = delay + self.router.start((course.latency, course.message, course.copy), bytes, lone);
        self.flows.push(Flow {
            start,
            bytes,
            lone,
            held,
            legs,
            channels: self.channels.len() as u32,
            parts: course.parts,
        });
        Ok(true)
    }

    fn kind_of(&mut self, channel: u64) -> Result<u32, SimulateError> {
        let key = self.router.channel_kind(channel);
        if let Some(kind) = self.channel_kinds.get(&key) {
            return Ok(*kind);
        }
        let (rate, name) = self.router.channel(channel)?;
        let kind = self.kinds.len() as u32;
        self.kinds.push(Kind { resource: Resource::of(rate), name });
        self.channel_kinds.insert(key, kind);
        Ok(kind)
    }

    /// Makes a leg known; legs are numbered in the order in which they are first used.
    fn learn(&mut self, leg: u32) -> Result<(), SimulateError> {
        while self.legs.len() <= leg as usize {
            let of = self.router.leg_of(self.legs.len() as u32);
            let (demand, cap_why) = (of.demand.clone(), of.cap_why.clone());
            let queues = demand.waits.iter().flat_map(|w| [w.server, w.window]);
            for resource in demand.uses.iter().chain(&demand.burdens).map(|(r, _)| *r).chain(queues) {
                if !self.locals.contains_key(&resource) {
                    let (known, name) = self.router.local(resource)?;
                    self.locals.insert(resource, self.kinds.len() as u32);
                    self.kinds.push(Kind { resource: known, name });
                }
            }
            let kind = |r: usize| self.locals.get(&r).copied().unwrap_or(0);
            let all = |of: &[(usize, f64)]| of.iter().map(|&(r, per_byte)| (kind(r), per_byte)).collect();
            let (lone, binding) = demand.alone(|r| self.kinds[kind(r) as usize].resource);
            let mut leg = LocalLeg {
                uses: all(&demand.uses),
                burdens: all(&demand.burdens),
                waits: demand.waits.iter().map(|w| (kind(w.server), kind(w.window), w.per_ns)).collect(),
                turns: demand.turns,
                lone,
                held: if let Binding::Resource(r) = binding { kind(r) } else { self.kinds.len() as u32 },
            };
            // what it burdens and uses itself, it takes of its own part
            leg.burdens.retain(|(r, k)| match leg.uses.iter_mut().find(|(used, _)| used == r) {
                Some((_, own)) => {
                    *own += k;
                    false
                }
                None => true,
            });
            if let Some(name) = cap_why {
                self.kinds.push(Kind { resource: Resource::of(demand.own_cap()), name });
            }
            self.legs.push(leg);
        }
        Ok(())
    }

    /// The legs of a flow, each with its node.
    fn legs(&self, flow: &Flow) -> impl Iterator<Item = (u32, &LocalLeg)> {
        let legs = flow.legs.into_iter().filter(|(_, leg)| *leg != NONE);
        legs.map(|(node, leg)| (node, &self.legs[leg as usize]))
    }

    /// Where a resource of a node stands in lists by place.
    fn place(&self, node: u32, kind: u32) -> usize {
        node as usize * self.kinds.len() + kind as usize
    }

    fn capacity(&self, place: usize) -> f64 {
        self.kinds[place % self.kinds.len()].resource.capacity
    }

    fn channels(&self, i: usize) -> &[u64] {
        let first = if i == 0 { 0 } else { self.flows[i - 1].channels };
        &self.channels[first as usize..self.flows[i].channels as usize]
    }

    /// Every transfer at the rate that it has by itself.
    fn undisturbed(&self) -> Bulk {
        let moved = |flow: &Flow| (flow.held, flow.bytes / flow.lone);
        self.bulk(&self.flows.iter().map(moved).collect::<Vec<_>>(), true, None)
    }

    /// A round in which each transfer is held by this kind of resource, and moves for so long.
    fn bulk(&self, moved: &[(u32, f64)], undisturbed: bool, bound: Option<Estimate>) -> Bulk {
        let takes: Vec<Takes> = self
            .flows
            .iter()
            .zip(moved)
            .map(|(flow, (_, moving))| Takes { start: flow.start, moving: *moving })
            .collect();
        Bulk { played: self.played(&takes, moved), takes, undisturbed, bound }
    }

    /// Very many transfers that only burden each other, each as slow as it can be: with what all others burden at their lone
    /// rates taken off what it uses. No repetition takes longer. `None` where more is asked for by use alone, and where that
    /// is far from the lone rates.
    fn bounded(&self, scarce: &Scarce) -> Option<Bulk> {
        let others = !scarce.channels.is_empty() || !scarce.attended.is_empty();
        if others || self.legs.iter().any(|leg| !leg.waits.is_empty()) {
            return None;
        }
        let mut used = vec![0.0; scarce.over.len()];
        let (mut pulls, mut burdened) = (used.clone(), used.clone());
        for (flow, class, leg) in self.at_first(&scarce.classes) {
            for &(kind, per_byte) in &leg.uses {
                used[self.place(class, kind)] += per_byte * flow.lone;
                pulls[self.place(class, kind)] += per_byte;
            }
            leg.burdens.iter().for_each(|&(kind, k)| burdened[self.place(class, kind)] += k * flow.lone);
        }
        let scarce_places = || (0..used.len()).filter(|place| scarce.over[*place]);
        if scarce_places().any(|place| used[place] > self.capacity(place) * (1.0 + OVER)) {
            return None;
        }
        let mut least = vec![f64::INFINITY; used.len()];
        for place in scarce_places() {
            least[place] = Resource::of(self.capacity(place)).left(burdened[place]) / pulls[place];
        }
        // by class of node and leg: the least rate, and what gives it
        let slowest = |class: u32, leg: &LocalLeg| {
            let parts = leg.uses.iter().map(|(kind, _)| (least[self.place(class, *kind)], *kind));
            parts.fold((f64::INFINITY, NONE), |a, b| if b.0 < a.0 { b } else { a })
        };
        let classes = 0..scarce.classes.first.len() as u32;
        let by_leg: Vec<(f64, u32)> =
            classes.flat_map(|class| self.legs.iter().map(move |leg| slowest(class, leg))).collect();
        let moved = |flow: &Flow| {
            let legs = flow.legs.into_iter().filter(|(_, leg)| *leg != NONE);
            let place = |(node, leg)| scarce.classes.of[node as usize] as usize * self.legs.len() + leg as usize;
            let parts = legs.map(|end| by_leg[place(end)]);
            let (rate, kind) = parts.fold((flow.lone, flow.held), |a, b| if b.0 < a.0 { b } else { a });
            (kind, flow.bytes / rate)
        };
        let moved: Vec<(u32, f64)> = self.flows.iter().map(moved).collect();
        let time = |moved: &dyn Fn(usize, &Flow) -> f64| {
            self.flows.iter().enumerate().map(|(i, f)| f.start + moved(i, f)).fold(0.0, f64::max)
        };
        let longer = time(&|i, _| moved[i].1) / time(&|_, f| f.bytes / f.lone) - 1.0;
        if longer > SMALL {
            return None;
        }
        let because = format!("{} steps that come towards each other are as slow as they can be", self.flows.len());
        Some(self.bulk(&moved, false, Some(Estimate { because, error: Some(longer) })))
    }

    fn played(&self, takes: &[Takes], moved: &[(u32, f64)]) -> Played {
        let mut by_kind = vec![0.0; self.kinds.len()];
        let (mut starting, mut alone, mut last) = (0.0, 0.0_f64, (0.0, NONE));
        for ((flow, takes), (kind, seconds)) in self.flows.iter().zip(takes).zip(moved) {
            starting += flow.start;
            alone = alone.max(flow.bytes / flow.lone);
            by_kind[*kind as usize] += seconds;
            let end = takes.start + takes.moving;
            if end > last.0 * (1.0 + TOGETHER) {
                last = (end, *kind);
            }
        }
        let time = takes.iter().map(|t| t.start + t.moving).fold(0.0, f64::max);
        let ends: Vec<f64> = takes.iter().take(MOST_KEPT).map(|t| t.start + t.moving).collect();
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
}
