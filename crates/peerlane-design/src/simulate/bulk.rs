//! Rounds of very many transfers that start at once, without a [`ClusterRoute`](crate::cluster::ClusterRoute) for each.
//!
//! What each transfer would take by itself is added up on everything that it uses. Where nothing is asked for more than it
//! has, every transfer has that rate. What is asked for more is all that can hold a transfer below it, so that only such
//! resources, and the transfers that use them, go to the solver.

use std::collections::HashMap;

use super::SimulateError;
use super::bulk_sets::{Described, Known, Numbers, Part, Sets, Shared, root};
use super::estimate::Estimate;
use super::mix::mixed;
use super::play::{Played, Spent, Takes};
use super::program::Step;
use crate::cluster::{Router, Via};
use peerlane_machine::matrix::Engine;
use peerlane_model::solve::{Attended, Binding, Resource, Turns};

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

/// Nodes of one class have transfers of the same legs and rates at them, so that as much is asked of each.
struct Classes {
    /// By node.
    of: Vec<u32>,
    /// By class: the first node, which stands for all.
    first: Vec<u32>,
}

/// Resources of which more is asked than they have.
struct Scarce {
    classes: Classes,
    /// By `class of node × local resources + local resource`: whether it is used, and more is asked of it.
    over: Vec<bool>,
    /// By `node × local resources + local resource`; [`NONE`] where there is enough. Empty until [`Count::number`].
    locals: Vec<u32>,
    channels: HashMap<u64, u32>,
    /// Where several transfers are attended to in turn: numbers of resources without end.
    attended: HashMap<u64, u32>,
    resources: Vec<Resource>,
}

impl Scarce {
    fn add(&mut self, resource: Resource) -> u32 {
        self.resources.push(resource);
        self.resources.len() as u32 - 1
    }

    fn is_nothing(&self) -> bool {
        self.resources.is_empty() && !self.over.contains(&true)
    }
}

/// Turns at the places of this node.
fn turns_at(node: u32, turns: Turns) -> Option<Turns> {
    let at = |place: u64| place.checked_add(u64::from(node) << 32);
    let [a, b] = turns.places;
    Some(Turns { places: [at(a)?, at(b)?], ..turns })
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
                    let rate = self.kinds[kind as usize].resource.capacity;
                    if rate < lone {
                        (lone, held) = (rate, kind);
                    }
                }
            }
        }
        let start = delay + self.router.start((course.latency, course.message, course.copy), bytes, lone);
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

    /// The legs at nodes that stand for their class, each with the class and its transfer.
    fn at_first<'c>(&'c self, classes: &'c Classes) -> impl Iterator<Item = (&'c Flow, u32, &'c LocalLeg)> {
        let all = self.flows.iter().flat_map(|f| self.legs(f).map(move |(node, leg)| (f, node, leg)));
        all.filter_map(|(flow, node, leg)| {
            let class = classes.of[node as usize];
            (classes.first[class as usize] == node).then_some((flow, class, leg))
        })
    }

    /// Nodes by what legs are at them, at which rates.
    fn classes(&self) -> Classes {
        let nodes = self.flows.iter().flat_map(|f| f.legs).map(|(node, _)| node as usize + 1).max().unwrap_or(0);
        let mut marks = vec![0_u64; nodes];
        for flow in &self.flows {
            for (node, leg) in flow.legs.into_iter().filter(|(_, leg)| *leg != NONE) {
                let mark = &mut marks[node as usize];
                *mark = mark.wrapping_add(mixed(mixed(flow.lone.to_bits()) ^ u64::from(leg)));
            }
        }
        let mut known: HashMap<u64, u32> = HashMap::new();
        let mut first = Vec::new();
        let class = |(node, mark): (u32, &u64)| {
            *known.entry(*mark).or_insert_with(|| {
                first.push(node);
                first.len() as u32 - 1
            })
        };
        let of = (0..).zip(&marks).map(class).collect();
        Classes { of, first }
    }

    /// What more is asked of than it has where every transfer goes at the rate that it has by itself.
    fn scarce(&self) -> Scarce {
        let classes = self.classes();
        let mut asked = vec![0.0_f64; classes.first.len() * self.kinds.len()];
        let mut used = vec![false; asked.len()];
        for (flow, class, leg) in self.at_first(&classes) {
            for (kind, per_byte) in leg.uses.iter().chain(&leg.burdens) {
                asked[self.place(class, *kind)] += per_byte * flow.lone;
            }
            leg.uses.iter().for_each(|(kind, _)| used[self.place(class, *kind)] = true);
        }
        let mut over: Vec<bool> =
            asked.iter().enumerate().map(|(place, asked)| *asked > self.capacity(place) * (1.0 + OVER)).collect();
        self.add_queues(&classes, &asked, &mut over);
        // what is only burdened holds nobody
        over.iter_mut().zip(used).for_each(|(over, used)| *over &= used);
        let (locals, channels, attended) = (Vec::new(), HashMap::new(), HashMap::new());
        let mut scarce = Scarce { classes, over, locals, channels, attended, resources: Vec::new() };
        self.add_channels(&mut scarce);
        self.add_attended(&mut scarce);
        scarce
    }

    /// Numbers the scarce resources of all nodes.
    fn number(&self, scarce: &mut Scarce) {
        scarce.locals = vec![NONE; scarce.classes.of.len() * self.kinds.len()];
        for (node, leg) in self.flows.iter().flat_map(|flow| self.legs(flow)) {
            for (kind, _) in &leg.uses {
                let place = self.place(node, *kind);
                if scarce.locals[place] == NONE && scarce.over[self.place(scarce.classes.of[node as usize], *kind)] {
                    scarce.locals[place] = scarce.add(self.kinds[*kind as usize].resource);
                }
            }
        }
    }

    /// Marks channels of which more is asked than they have.
    fn add_channels(&self, scarce: &mut Scarce) {
        let mut all: Vec<(u64, f64)> = Vec::with_capacity(self.channels.len());
        // the first channels of all transfers, then the second ones …: long runs in order, which the sort makes use of
        for position in 0.. {
            let before = all.len();
            let at = |i: usize| Some((*self.channels(i).get(position)?, self.flows[i].lone));
            all.extend((0..self.flows.len()).filter_map(at));
            if all.len() == before {
                break;
            }
        }
        all.sort_by_key(|(channel, _)| *channel);
        // one alone has no more than a channel gives
        for same in all.chunk_by(|a, b| a.0 == b.0).filter(|same| same.len() > 1) {
            let asked: f64 = same.iter().map(|(_, rate)| rate).sum();
            let kind = self.channel_kinds.get(&self.router.channel_kind(same[0].0));
            let resource = kind.map_or(Resource::of(f64::INFINITY), |kind| self.kinds[*kind as usize].resource);
            if asked > resource.capacity * (1.0 + OVER) {
                let number = scarce.add(resource);
                scarce.channels.insert(same[0].0, number);
            }
        }
    }

    /// Marks windows that do not hold all requests on their way while these wait as long as all cause together, and what
    /// they wait for.
    fn add_queues(&self, classes: &Classes, asked: &[f64], over: &mut [bool]) {
        if self.legs.iter().all(|leg| leg.waits.is_empty()) {
            return;
        }
        let mut windows: HashMap<usize, f64> = HashMap::new();
        for (flow, class, leg) in self.at_first(classes) {
            for &(server, window, per_ns) in &leg.waits {
                let server = self.place(class, server);
                let resource = self.kinds[server % self.kinds.len()].resource;
                let waited = resource.wait(asked[server] / resource.capacity);
                *windows.entry(self.place(class, window)).or_insert(0.0) += per_ns * waited * flow.lone;
            }
        }
        for (window, more) in windows {
            over[window] |= asked[window] + more > self.capacity(window) * (1.0 + OVER);
        }
        for (_, class, leg) in self.at_first(classes) {
            for &(server, window, _) in &leg.waits {
                over[self.place(class, server)] |= over[self.place(class, window)];
            }
        }
    }

    /// Marks where transfers that take turns do so beside others.
    fn add_attended(&self, scarce: &mut Scarce) {
        if self.legs.iter().all(|leg| leg.turns.is_none()) {
            return;
        }
        let mut attended = Attended::default();
        let taking =
            || self.flows.iter().flat_map(|f| self.legs(f)).filter_map(|(node, leg)| turns_at(node, leg.turns?));
        taking().for_each(|turns| attended.add(&turns, 1));
        for turns in taking().filter(|turns| attended.beside(turns) > 1) {
            for place in turns.places {
                if !scarce.attended.contains_key(&place) {
                    let number = scarce.add(Resource::of(f64::INFINITY));
                    scarce.attended.insert(place, number);
                }
            }
        }
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

    /// With what is scarce shared: set by set of transfers that share something, directly or through others. Sets that are
    /// the same but for the numbers of what they use go the same way, so that each kind of them is solved once.
    fn solved(&self, scarce: &Scarce) -> Result<Bulk, SimulateError> {
        let mut held: Vec<u32> = self.flows.iter().map(|f| f.held).collect();
        let mut ends: Vec<f64> = self.flows.iter().map(|f| f.start + f.bytes / f.lone).collect();
        let sets = self.sets(scarce);
        let mut known = Known::default();
        let mut numbers = Numbers::new(scarce.resources.len());
        for set in sets.members.chunk_by(|a, b| sets.of[*a as usize] == sets.of[*b as usize]) {
            let described = self.describe(set, scarce, &mut numbers);
            let solved = known.find(described, |it| it.solve())?;
            for (flow, (end, kind)) in set.iter().zip(solved.ends.iter().zip(&solved.held)) {
                ends[*flow as usize] = *end;
                if let Some(kind) = kind {
                    held[*flow as usize] = *kind;
                }
            }
        }
        let moved = |(i, flow): (usize, &Flow)| (held[i], ends[i] - flow.start);
        let moved: Vec<(u32, f64)> = self.flows.iter().enumerate().map(moved).collect();
        Ok(self.bulk(&moved, false, None))
    }

    /// What a transfer asks of scarce resources: `(number, kind, what of it)`.
    fn route<'s>(&'s self, i: usize, scarce: &'s Scarce) -> impl Iterator<Item = (u32, u32, Part)> + 's {
        let number = |node: u32, kind: u32| {
            let number = scarce.locals[self.place(node, kind)];
            (number != NONE).then_some(number)
        };
        let locals = self.legs(&self.flows[i]).flat_map(move |(node, leg)| {
            let uses = leg.uses.iter().map(|&(kind, per_byte)| (kind, Part::Uses(per_byte)));
            let burdens = leg.burdens.iter().map(|&(kind, per_byte)| (kind, Part::Burdens(per_byte)));
            // one whose window has room for all does not wait
            let waits = leg.waits.iter().filter_map(move |&(server, window, per_ns)| {
                Some((server, Part::Waits { window: number(node, window)?, per_ns }))
            });
            let parts = uses.chain(burdens).chain(waits);
            let parts = parts.filter_map(move |(kind, part)| Some((number(node, kind)?, kind, part)));
            let turns = leg.turns.and_then(|turns| turns_at(node, turns)).into_iter().flat_map(|turns| turns.places);
            parts.chain(turns.filter_map(|place| Some((*scarce.attended.get(&place)?, 0, Part::Attended))))
        });
        // a round in which no channel is scarce asks for none
        let channels = if scarce.channels.is_empty() { &[] } else { self.channels(i) };
        locals.chain(channels.iter().filter_map(|channel| {
            let number = scarce.channels.get(channel)?;
            Some((*number, self.channel_kinds[&self.router.channel_kind(*channel)], Part::Uses(1.0)))
        }))
    }

    /// Sets of transfers that share something scarce.
    fn sets(&self, scarce: &Scarce) -> Sets {
        let mut parents: Vec<u32> = (0..scarce.resources.len() as u32).collect();
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
        let mut starts = vec![0_u32; scarce.resources.len() + 1];
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
    fn describe(&self, set: &[u32], scarce: &Scarce, numbers: &mut Numbers) -> Described {
        numbers.next_set();
        let mut all = Described::default();
        for &i in set {
            let flow = &self.flows[i as usize];
            for (resource, kind, part) in self.route(i as usize, scarce) {
                let number = numbers.of(resource);
                if number as usize == all.resources.len() {
                    all.resources.push(scarce.resources[resource as usize]);
                    all.kinds.push(kind);
                }
                // a window is used before it is waited for, and so has its number
                let part = match part {
                    Part::Waits { window, per_ns } => Part::Waits { window: numbers.of(window), per_ns },
                    other => other,
                };
                all.routes.push((number, part));
            }
            let turns = self.legs(flow).find_map(|(_, leg)| leg.turns);
            let transfer = Shared { start: flow.start, bytes: flow.bytes, lone: flow.lone, turns };
            all.transfers.push((transfer, all.routes.len() as u32));
        }
        all
    }
}
