//! Weighted max-min fair rates of a set of flows that changes all the time.
//!
//! The same question as a [`Problem`](super::Problem), asked again and again with a few flows more or less. Flows of one demand are one
//! *class*. A change is repaired from the links of the classes that it concerns:
//! a link whose flows changed shares its capacity anew, taking the rates that other links hold its flows to as given;
//! that moves other links, the lowest level first, until none is left (`repair`). What then stands has the
//! certificate of a max-min fair allocation (each class has its cap, or a full link on which none has more per weight),
//! since every link was asked after the last change on it; [`Solver::certify`] asks all of them at once. Where a
//! repair reaches too far, all is filled from the bottom (`fill`).
//!
//! What a class burdens is taken off what a link has to share, so that a change of the class asks that link anew, too; since
//! burdens are fractions, such changes fade within a few links. Caps that fall with the number of flows (turns) are set when
//! that number changes. Flows that wait in queues are solved by the reference, with all that they are joined with by what
//! they use and burden (`queues`).

mod certify;
mod extras;
mod fill;
mod lists;
mod queues;
mod repair;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use super::problem::LEAST;
use super::{Demand, Resource, ShareError};
use extras::{Constraints, Extras};
use lists::Lists;

/// Relative change of a level that is not passed on: rounding, and below every figure that anyone is shown.
const SAME: f64 = 1e-13;
/// How far above its capacity a link may be used, relative: what [`SAME`] and rounding leave.
const OVER: f64 = 1e-12;

/// In [`Solver::users`]: a link that holds nothing.
const UNBOUNDED: u32 = u32::MAX;

/// What holds a class's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// A full link, by index.
    Link(u32),
    /// Its own cap.
    Cap,
    /// Nothing: it has no flows, or neither a cap nor a link of finite capacity.
    Nothing,
}

/// [`Class::bind`] of a class at its cap.
const AT_CAP: u32 = u32::MAX;
/// [`Class::bind`] of a class that nothing holds.
const UNBOUND: u32 = u32::MAX - 1;

/// The hot part of a class; half a cache line.
#[derive(Clone, Copy, Debug)]
struct Class {
    /// Rate over weight.
    level: f64,
    /// Weight times number of flows.
    mass: f64,
    /// Highest level, infinite where it has no cap.
    cap: f64,
    /// The link that holds it, or [`AT_CAP`], or [`UNBOUND`].
    bind: u32,
    /// Number of flows.
    count: u32,
}

/// A resource; half a cache line.
#[derive(Clone, Copy, Debug)]
struct Link {
    /// What is left of it; below 0 where more is burdened than may be.
    slack: f64,
    /// Level of the classes that it holds, infinite where it holds none.
    level: f64,
    /// No class that others hold is above this, as long as `steady`.
    highest: f32,
    /// Slack below which a link is asked that holds none.
    floor: f32,
    /// Number of classes with flows that it holds.
    bound: u32,
    /// How often it may share by what has changed before it is summed anew; 0 where the classes that it holds may not be
    /// the first in its list.
    steady: u8,
    /// Whether it waits in [`Solver::dirty`].
    queued: bool,
}

impl Link {
    /// One that nothing uses.
    fn idle(capacity: f64) -> Self {
        let floor = -(OVER * capacity).min(f64::from(f32::MAX)) as f32;
        Link { slack: capacity, level: f64::INFINITY, highest: 0.0, floor, bound: 0, steady: 0, queued: false }
    }
}

/// For keys that are hashes: each is its own.
#[derive(Default)]
struct Ready(u64);

impl Hasher for Ready {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|b| self.0 = self.0.rotate_left(8) ^ u64::from(*b));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// How often which method was used, and how far repairs reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// Solves that a local repair ended.
    pub repairs: u64,
    /// Solves that filled everything.
    pub fills: u64,
    /// Links that shared their capacity anew in repairs.
    pub links: u64,
    /// Changes of one class's level, also such as were changed again later in a repair.
    pub levels: u64,
}

/// The solver.
#[derive(Debug)]
pub struct Solver {
    links: Vec<Link>,
    capacities: Vec<f64>,
    classes: Vec<Class>,
    weights: Vec<f64>,
    /// Links of class `c`: `uses[starts[c]..starts[c + 1]]`.
    starts: Vec<usize>,
    uses: Vec<u32>,
    /// How many classes use a link, with flows or not; [`UNBOUNDED`] where its capacity is infinite, so that none is noted.
    users: Vec<u32>,
    /// Consumption per byte of each of `uses`; empty while all are 1.
    per_byte: Vec<f64>,
    /// Which classes use a link.
    lists: Lists,
    /// Whether the lists hold a class.
    listed: Vec<bool>,
    /// Uses by classes with flows, and uses in the lists by others.
    live: usize,
    dead: usize,
    /// Classes with flows, and where each class stands among them.
    alive: Vec<u32>,
    place: Vec<u32>,
    /// Classes by hash of route, weight and cap.
    known: HashMap<u64, u32, BuildHasherDefault<Ready>>,
    /// Classes whose number of flows has changed since the last solve, with the mass that the links know of.
    touched: Vec<(u32, f64)>,
    touch_mark: Vec<u32>,
    /// Links to be asked again, lowest level first.
    dirty: BinaryHeap<Reverse<(u64, u32)>>,
    /// Classes whose level this solve has changed, with the level before.
    changed: Vec<(u32, f64)>,
    change_mark: Vec<u32>,
    /// The number of the next solve, and of the last.
    epoch: u32,
    solved: u32,
    scratch: repair::Scratch,
    rising: Vec<fill::Rising>,
    is_rising: Vec<bool>,
    is_involved: Vec<bool>,
    /// Whether all weights are 1, so that every mass is a whole number.
    whole: bool,
    /// How long each resource serves one request in ns; empty where none makes anybody wait.
    services: Vec<f64>,
    extras: Extras,
    effort: Effort,
}

impl Solver {
    /// A solver for resources of these capacities, each at least 0, or infinite.
    pub fn new(capacities: &[f64]) -> Result<Self, ShareError> {
        if let Some((i, c)) = capacities.iter().enumerate().find(|(_, c)| c.is_nan() || **c < 0.0) {
            return Err(ShareError::Capacity(i, *c));
        }
        Ok(Solver {
            links: capacities.iter().copied().map(Link::idle).collect(),
            capacities: capacities.to_vec(),
            classes: Vec::new(),
            weights: Vec::new(),
            starts: vec![0],
            uses: Vec::new(),
            users: capacities.iter().map(|c| if c.is_infinite() { UNBOUNDED } else { 0 }).collect(),
            per_byte: Vec::new(),
            lists: Lists::new(capacities.len()),
            listed: Vec::new(),
            live: 0,
            dead: 0,
            alive: Vec::new(),
            place: Vec::new(),
            known: HashMap::default(),
            touched: Vec::new(),
            touch_mark: Vec::new(),
            dirty: BinaryHeap::new(),
            changed: Vec::new(),
            change_mark: Vec::new(),
            epoch: 1,
            solved: u32::MAX,
            scratch: repair::Scratch::default(),
            rising: vec![fill::Rising::default(); capacities.len()],
            is_rising: Vec::new(),
            is_involved: vec![false; capacities.len()],
            whole: true,
            services: Vec::new(),
            extras: Extras::default(),
            effort: Effort::default(),
        })
    }

    /// The same for resources of which some may make requests wait.
    pub fn of(resources: &[Resource]) -> Result<Self, ShareError> {
        let capacities: Vec<f64> = resources.iter().map(|r| r.capacity).collect();
        let mut solver = Solver::new(&capacities)?;
        if resources.iter().any(|r| r.service > 0.0) {
            solver.services = resources.iter().map(|r| r.service).collect();
        }
        Ok(solver)
    }

    /// The class of flows of this demand; see [`Solver::class`].
    pub fn class_of(&mut self, demand: &Demand) -> Result<u32, ShareError> {
        let Demand { uses, burdens, weight, .. } = demand;
        let (weight, cap) = (*weight, demand.cap);
        let mut own: Vec<(u32, f64)> = uses.iter().map(|&(r, k)| (number(r), k)).collect();
        if demand.is_plain() {
            return self.class(&own, weight, cap);
        }
        let mut burdened: Vec<(u32, f64)> = Vec::with_capacity(burdens.len());
        for &(r, per_byte) in burdens {
            let known = self.users.get(r).is_some() && per_byte.is_finite() && per_byte > 0.0;
            match own.iter_mut().find(|(used, _)| *used == number(r)) {
                _ if !known => return Err(ShareError::Flow(self.classes.len(), "what it burdens makes no sense")),
                // what it uses and burdens itself, it takes of its own part
                Some((_, own)) => *own += per_byte,
                None if self.users[r] == UNBOUNDED => {}
                None => burdened.push((number(r), per_byte)),
            }
        }
        self.insert(&own, weight, cap, Constraints::of(demand, &burdened))
    }

    /// The class of flows that use these resources: `(index, consumption per unit of rate)`, consumption positive; a
    /// resource that stands twice is consumed twice. The same arguments give the same class. It has no flows at first.
    ///
    /// # Errors
    /// Where a resource does not exist, or a weight, cap or consumption is out of range; the flow's number in the
    /// error is the class's.
    pub fn class(&mut self, uses: &[(u32, f64)], weight: f64, cap: f64) -> Result<u32, ShareError> {
        self.insert(uses, weight, cap, Constraints::default())
    }

    fn insert(&mut self, uses: &[(u32, f64)], weight: f64, cap: f64, asked: Constraints) -> Result<u32, ShareError> {
        let class = self.classes.len();
        let usable = |x: f64| x.is_normal() && x > 0.0;
        let refuse = |why| Err(ShareError::Flow(class, why));
        if !usable(weight) {
            return refuse("its weight must be a positive number");
        }
        if cap.is_nan() || cap < 0.0 {
            return refuse("its cap must be a number of at least 0, or infinite");
        }
        let first = self.uses.len();
        for &(link, per_byte) in uses {
            let Some(users) = self.users.get(link as usize) else {
                self.forget_uses(first);
                return refuse("it uses a resource that does not exist");
            };
            if !usable(per_byte) || !usable(per_byte * weight) {
                self.forget_uses(first);
                return refuse("its consumption must be a positive number, also times its weight");
            }
            if *users == UNBOUNDED {
                continue;
            }
            let before = &self.uses[first..];
            let twice = if before.contains(&link) { before.iter().position(|l| *l == link) } else { None };
            if per_byte != 1.0 || twice.is_some() {
                self.need_per_byte();
            }
            match twice {
                Some(at) => self.per_byte[first + at] += per_byte,
                None => {
                    self.uses.push(link);
                    if !self.per_byte.is_empty() || per_byte != 1.0 {
                        self.per_byte.push(per_byte);
                    }
                }
            }
        }
        if !asked.is_nothing() {
            self.need_per_byte();
        }
        let mut hash = self.hash_of(first, weight, cap, asked);
        while let Some(&other) = self.known.get(&hash) {
            if self.is_same(other, first, weight, cap, asked) {
                self.forget_uses(first);
                return Ok(other);
            }
            hash = hash.wrapping_add(1);
        }
        if self.uses.len().max(class) >= fill::RISING as usize {
            self.forget_uses(first);
            return refuse("all classes together have more uses than 32 bits can number");
        }
        self.known.insert(hash, class as u32);
        self.extras.add(class as u32, asked, cap, self.links.len());
        for link in &self.uses[first..] {
            self.users[*link as usize] += 1;
        }
        self.starts.push(self.uses.len());
        self.weights.push(weight);
        self.classes.push(Class { level: 0.0, mass: 0.0, cap: cap / weight, bind: UNBOUND, count: 0 });
        self.listed.push(false);
        self.place.push(0);
        self.is_rising.push(false);
        self.whole &= weight == 1.0;
        self.touch_mark.push(0);
        self.change_mark.push(0);
        Ok(class as u32)
    }

    /// Sets how many flows a class has; [`Solver::solve`] then gives the rates.
    pub fn set_count(&mut self, class: u32, count: u32) {
        let Some(known) = self.classes.get_mut(class as usize) else { return };
        if self.touch_mark[class as usize] != self.epoch {
            self.touch_mark[class as usize] = self.epoch;
            self.touched.push((class, known.mass));
        }
        self.extras.count(class, known.count, count);
        known.count = count;
        known.mass = self.weights[class as usize] * f64::from(count);
    }

    /// How many flows a class has.
    pub fn count(&self, class: u32) -> u32 {
        self.classes.get(class as usize).map_or(0, |c| c.count)
    }

    /// Whether counts have changed since the last solve.
    pub fn is_stale(&self) -> bool {
        !self.touched.is_empty()
    }

    /// Rate of each flow of a class as last solved; infinite where nothing holds it.
    pub fn rate(&self, class: u32) -> f64 {
        let (Some(known), Some(weight)) = (self.classes.get(class as usize), self.weights.get(class as usize)) else {
            return 0.0;
        };
        weight * known.level
    }

    /// Weight of a class's flows.
    pub fn weight(&self, class: u32) -> f64 {
        self.weights.get(class as usize).copied().unwrap_or(0.0)
    }

    /// What holds a class as last solved.
    pub fn hold(&self, class: u32) -> Hold {
        match self.classes.get(class as usize).map(|c| c.bind) {
            Some(AT_CAP) => Hold::Cap,
            Some(UNBOUND) | None => Hold::Nothing,
            Some(link) => Hold::Link(link),
        }
    }

    /// Number of classes that there have been.
    pub fn classes(&self) -> usize {
        self.classes.len()
    }

    /// What is consumed of a resource, in its units a second, as last solved.
    pub fn used(&self, link: u32) -> f64 {
        match (self.capacities.get(link as usize), self.links.get(link as usize)) {
            (Some(capacity), Some(known)) if capacity.is_finite() => capacity - known.slack,
            _ => 0.0,
        }
    }

    /// How much work it was so far.
    pub fn effort(&self) -> Effort {
        self.effort
    }

    /// Brings all rates up to date.
    pub fn solve(&mut self) {
        self.changed.clear();
        if !self.touched.is_empty() {
            if self.per_byte.is_empty() {
                self.solve_as::<true>()
            } else {
                self.solve_as::<false>()
            }
            self.touched.clear();
        }
        self.solved = self.epoch;
        self.epoch = self.epoch.wrapping_add(1).max(1);
    }

    /// The classes whose level (rate over weight) the last solve has changed, with the level before. Some may have the
    /// same level again.
    pub fn changed(&self) -> &[(u32, f64)] {
        &self.changed
    }

    /// Whether a class is among [`Solver::changed`].
    pub fn has_changed(&self, class: u32) -> bool {
        self.change_mark.get(class as usize) == Some(&self.solved)
    }

    /// `UNIT`: every consumption is 1 and is not stored.
    fn solve_as<const UNIT: bool>(&mut self) {
        let concerned: usize = self.touched.iter().map(|(c, _)| self.range(*c).len()).sum();
        self.tend_lists();
        let caps = self.extras.new_caps();
        if 3 * concerned <= self.live.max(64) && self.repair_touched::<UNIT>(&caps) {
            self.effort.repairs += 1;
            self.settle_queues(Some(&caps));
            return;
        }
        self.effort.fills += 1;
        for (class, cap) in caps {
            self.classes[class as usize].cap = cap / self.weights[class as usize];
        }
        self.fill::<UNIT>();
        self.settle_queues(None);
    }

    /// What a link has for those who use it.
    fn effective<const UNIT: bool>(&self, link: u32) -> f64 {
        let capacity = self.capacities[link as usize];
        if UNIT || !self.extras.burdens_any() {
            return capacity;
        }
        self.unburdened::<UNIT>(link).max(LEAST * capacity)
    }

    /// What is not burdened of a link; less than it has for those who use it where all but the least is.
    fn unburdened<const UNIT: bool>(&self, link: u32) -> f64 {
        let capacity = self.capacities[link as usize];
        if UNIT { capacity } else { capacity - self.extras.burdened(link) }
    }

    fn range(&self, class: u32) -> std::ops::Range<usize> {
        self.starts[class as usize]..self.starts[class as usize + 1]
    }

    /// Brings the lists up to date with the touched classes: one by one, or anew where most of them are new or gone.
    fn tend_lists(&mut self) {
        let mut fresh = 0;
        for i in 0..self.touched.len() {
            let (class, mass) = self.touched[i];
            let c = class as usize;
            let (before, after) = (mass > 0.0, self.classes[c].count > 0);
            if before == after {
                continue;
            }
            let uses = self.range(class).len();
            if after {
                self.live += uses;
                self.place[c] = self.alive.len() as u32;
                self.alive.push(class);
                if self.listed[c] { self.dead -= uses } else { fresh += uses }
            } else {
                self.live -= uses;
                self.dead += uses;
                let place = self.place[c];
                self.alive.swap_remove(place as usize);
                if let Some(moved) = self.alive.get(place as usize) {
                    self.place[*moved as usize] = place;
                }
            }
        }
        // listing anew looks at every link and class, which so many uses pay for; those of classes without flows are read with
        // each link that is asked
        let fixed = self.links.len() + self.classes.len();
        if self.lists.is_tight(fresh)
            || 4 * self.dead > self.live + fixed
            || (3 * fresh > self.live && 4 * fresh > fixed)
        {
            self.list_all();
            return;
        }
        for i in 0..self.touched.len() {
            let (class, _) = self.touched[i];
            if fresh > 0 && self.classes[class as usize].count > 0 && !self.listed[class as usize] {
                self.listed[class as usize] = true;
                for at in self.range(class) {
                    self.lists.add(self.uses[at], class, self.per_byte.get(at).copied());
                }
            }
        }
    }

    /// Lists the classes that have flows, and no others.
    fn list_all(&mut self) {
        let Solver { lists, alive, starts, uses, users, per_byte, listed, .. } = self;
        let spans = alive.iter().map(|c| (*c, starts[*c as usize]..starts[*c as usize + 1]));
        // where all classes have flows, it is known how long the lists are
        let lens = if alive.len() == listed.len() { users.as_slice() } else { &[] };
        lists.rebuild(spans, uses, per_byte, lens);
        listed.fill(false);
        for class in alive {
            listed[*class as usize] = true;
        }
        self.dead = 0;
        self.links.iter_mut().for_each(|link| link.steady = 0);
    }

    /// From now on consumption is stored.
    fn need_per_byte(&mut self) {
        if self.per_byte.len() < self.uses.len() {
            self.per_byte = vec![1.0; self.uses.len()];
        }
        self.lists.need_per_byte();
    }

    fn forget_uses(&mut self, from: usize) {
        self.uses.truncate(from);
        self.per_byte.truncate(from);
    }

    fn is_same(&self, class: u32, first: usize, weight: f64, cap: f64, asked: Constraints) -> bool {
        let known = self.extras.own_cap(class).map_or(self.classes[class as usize].cap, |own| own / weight);
        let range = self.range(class);
        self.weights[class as usize] == weight
            && known == cap / weight
            && self.uses[range.clone()] == self.uses[first..]
            && (self.per_byte.is_empty() || self.per_byte[range] == self.per_byte[first..])
            && self.extras.is_same(class, asked)
    }

    /// FNV-1a over words, with a last mix; the order of uses counts.
    fn hash_of(&self, first: usize, weight: f64, cap: f64, asked: Constraints) -> u64 {
        let per_byte = self.per_byte.get(first..).unwrap_or_default();
        let links = self.uses[first..].iter().map(|l| u64::from(*l));
        let numbers = per_byte.iter().filter(|k| **k != 1.0).chain([&weight, &cap]).map(|k| k.to_bits());
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for word in links.chain(numbers).chain(asked.words()) {
            hash = (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3);
            hash ^= hash >> 29;
        }
        hash
    }
}

/// A resource's number as links have it; one that is too large for that is none.
fn number(resource: usize) -> u32 {
    u32::try_from(resource).unwrap_or(u32::MAX)
}
