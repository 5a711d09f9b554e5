//! Local repair: from the links of the classes that came, went or changed in number, outwards as far as levels move.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{AT_CAP, Class, Link, OVER, SAME, Solver, UNBOUND};

/// So often a link shares by differences before what is used of it is summed anew, so that rounding does not add up.
const STEADY: u8 = 64;

/// The classes of the link at hand; kept to spare allocations.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    classes: Vec<u32>,
    /// Their routes, one after the other, where all of them move.
    routes: Vec<u32>,
    /// Consumption of the link per unit of level.
    pulls: Vec<f64>,
    /// The level that others hold the class to.
    limits: Vec<f64>,
}

/// Weight times consumption of all that may rise, what the rest takes, and the level at which it is full.
struct Shared {
    level: f64,
    full: bool,
}

impl Scratch {
    fn clear(&mut self) {
        self.classes.clear();
        self.pulls.clear();
        self.limits.clear();
    }

    /// The level at which a link of that capacity is full where each class goes up to its own limit.
    fn share(&self, capacity: f64) -> Shared {
        let mut rising: f64 = self.pulls.iter().sum();
        let mut taken = 0.0;
        let mut level = capacity / rising;
        // each pass finds some that stop below the level, which gives the others more
        loop {
            let stop = level * (1.0 + SAME);
            let (mut still, mut stopped) = (0.0, 0.0);
            for (pull, limit) in self.pulls.iter().zip(&self.limits) {
                if *limit <= stop { stopped += pull * limit } else { still += pull }
            }
            if still == 0.0 {
                return Shared { level: f64::INFINITY, full: false };
            }
            if still == rising && stopped == taken {
                return Shared { level, full: true };
            }
            (rising, taken) = (still, stopped);
            level = level.max((capacity - taken).max(0.0) / rising);
        }
    }
}

/// Whether a change from one level to another is not passed on.
fn is_same(level: f64, next: f64) -> bool {
    (next - level).abs() <= SAME * next.max(level)
}

/// A level, rounded up.
fn at_least(level: f64) -> f32 {
    ((level * (1.0 + f64::from(f32::EPSILON))) as f32).max(f32::MIN_POSITIVE)
}

impl Solver {
    /// Repairs the rates after the touched classes changed. False where it reached so far that filling is cheaper;
    /// levels and links are then in no order, and have to be filled.
    pub(super) fn repair_touched<const UNIT: bool>(&mut self, caps: &[(u32, f64)]) -> bool {
        // a class that starts does so below its new cap; others keep theirs until the links know of all that has changed
        for (class, cap) in caps {
            let known = &mut self.classes[*class as usize];
            if known.level == 0.0 {
                known.cap = cap / self.weights[*class as usize];
            }
        }
        for i in 0..self.touched.len() {
            let (class, before) = self.touched[i];
            self.bring_in::<UNIT>(class, before);
        }
        for (class, cap) in caps {
            self.set_cap::<UNIT>(*class, cap / self.weights[*class as usize]);
        }
        self.repair::<UNIT>()
    }

    /// Asks links until none is left, or the work is that of filling.
    pub(super) fn repair<const UNIT: bool>(&mut self) -> bool {
        // changes fade along burdens, but take more looks for that
        let reach = if UNIT || !self.extras.burdens_any() { 1 } else { 16 };
        let mut left = (reach * self.live.max(64)) as isize;
        while let Some(Reverse((_, link))) = self.dirty.pop() {
            self.links[link as usize].queued = false;
            self.effort.links += 1;
            let looked = self.ask_held::<UNIT>(link).unwrap_or_else(|| self.ask::<UNIT>(link));
            left -= looked as isize;
            if left < 0 {
                return false;
            }
        }
        true
    }

    fn per_byte<const UNIT: bool>(&self, at: usize) -> f64 {
        if UNIT { 1.0 } else { self.per_byte[at] }
    }

    fn queue(links: &mut [Link], dirty: &mut BinaryHeap<Reverse<(u64, u32)>>, link: u32, key: f64) {
        let known = &mut links[link as usize];
        if !known.queued {
            known.queued = true;
            // levels are not negative, and such floats order as their bits
            dirty.push(Reverse((key.max(0.0).to_bits(), link)));
        }
    }

    /// Tells the links of a class's new number of flows.
    fn bring_in<const UNIT: bool>(&mut self, class: u32, before: f64) {
        let Class { level, mass, cap, bind, .. } = self.classes[class as usize];
        if mass == before {
            return;
        }
        if before > 0.0 {
            self.move_links::<UNIT>(class, level * (mass - before), level, UNBOUND);
            if mass == 0.0 {
                self.set_level_only(class, 0.0);
                self.release(bind);
                self.classes[class as usize].bind = UNBOUND;
            }
            return;
        }
        // a class that starts is given to the link that seems to hold it; others take it over where that is wrong
        let mut tightest = (cap, AT_CAP);
        for at in self.range(class) {
            let link = &self.links[self.uses[at] as usize];
            let alone = link.slack.max(0.0) / (mass * self.per_byte::<UNIT>(at));
            let estimate = if link.bound > 0 { link.level } else { alone };
            if estimate < tightest.0 || (tightest.1 == AT_CAP && estimate.is_infinite()) {
                tightest = (estimate, self.uses[at]);
            }
        }
        let (estimate, bind) = tightest;
        if bind == AT_CAP {
            self.classes[class as usize].bind = if cap.is_finite() { AT_CAP } else { UNBOUND };
            self.set_level_only(class, cap);
            if cap.is_finite() {
                self.move_links::<UNIT>(class, cap * mass, cap, UNBOUND);
            }
            return;
        }
        self.set_level_only(class, 0.0);
        self.classes[class as usize].bind = bind;
        self.links[bind as usize].bound += 1;
        self.links[bind as usize].steady = 0;
        Self::queue(&mut self.links, &mut self.dirty, bind, estimate);
    }

    /// Gives a class another cap.
    fn set_cap<const UNIT: bool>(&mut self, class: u32, cap: f64) {
        let Class { level, mass, bind, cap: before, .. } = self.classes[class as usize];
        self.classes[class as usize].cap = cap;
        if mass == 0.0 || before == cap || (bind != AT_CAP && level <= cap) {
            return;
        }
        self.release(bind);
        self.classes[class as usize].bind = AT_CAP;
        self.set_level_only(class, cap);
        self.move_links::<UNIT>(class, (cap - level) * mass, cap, UNBOUND);
    }

    /// A link holds one class less.
    fn release(&mut self, link: u32) {
        if let Some(known) = self.links.get_mut(link as usize) {
            known.bound = known.bound.saturating_sub(1);
            known.steady = 0;
            if known.bound == 0 {
                known.level = f64::INFINITY;
            }
        }
    }

    /// Sets a level and remembers the one before.
    pub(super) fn set_level_only(&mut self, class: u32, level: f64) {
        let i = class as usize;
        if self.change_mark[i] != self.epoch {
            self.change_mark[i] = self.epoch;
            self.changed.push((class, self.classes[i].level));
        }
        self.classes[i].level = level;
    }

    /// A class takes so much more of its links, `asking` apart; those that this concerns are asked again.
    fn move_links<const UNIT: bool>(&mut self, class: u32, more: f64, level: f64, asking: u32) {
        let range = self.range(class);
        let Solver { links, dirty, uses, per_byte, .. } = self;
        let per_byte = per_byte.get(range.clone()).unwrap_or_default();
        Self::pass_on::<UNIT>(links, dirty, (&uses[range], per_byte), (more, level), asking);
        self.move_burdens::<UNIT>(class, more);
    }

    /// The same for a class of this route, and what it consumes of each of its links.
    fn pass_on<const UNIT: bool>(
        links: &mut [Link],
        dirty: &mut BinaryHeap<Reverse<(u64, u32)>>,
        (route, per_byte): (&[u32], &[f64]),
        (more, level): (f64, f64),
        asking: u32,
    ) {
        let above = at_least(level);
        for (at, &i) in route.iter().enumerate() {
            let link = &mut links[i as usize];
            link.slack -= if UNIT { more } else { more * per_byte[at] };
            let other = i != asking;
            link.highest = if other { link.highest.max(above) } else { link.highest };
            // hardly ever all of these, so that the processor need not wait for one link before it fetches the next
            if other & !link.queued & ((link.bound > 0) | (link.slack < f64::from(link.floor))) {
                // where a link holds classes, its own level hardly moves; asked at the class's, it would be asked again after
                // each link between the two
                let key = if link.bound > 0 { link.level } else { level };
                Self::queue(links, dirty, i, key);
            }
        }
    }

    /// A class burdens its links by so much more.
    fn move_burdens<const UNIT: bool>(&mut self, class: u32, more: f64) {
        if UNIT || !more.is_finite() {
            return;
        }
        for at in 0..self.extras.burdens(class).len() {
            let (i, per_byte) = self.extras.burdens(class)[at];
            self.extras.burden(i, more * per_byte);
            let link = &mut self.links[i as usize];
            link.slack -= more * per_byte;
            let room = OVER * self.capacities[i as usize];
            if link.slack < -room || (link.bound > 0 && link.slack > room) {
                let key = link.level;
                Self::queue(&mut self.links, &mut self.dirty, i, key);
            }
        }
    }

    /// The level at which a link is full where it goes on to hold the classes that it holds; `None` where classes may come or go,
    /// or a sum is due.
    fn held_level<const UNIT: bool>(&self, link: u32) -> Option<f64> {
        let Link { slack, highest, bound, steady, .. } = self.links[link as usize];
        if steady == 0 {
            return None;
        }
        let (members, per_byte) = self.lists.of(link);
        let (mut pulls, mut used, mut cap) = (0.0, 0.0, f64::INFINITY);
        for (at, class) in members.get(..bound as usize)?.iter().enumerate() {
            let known = &self.classes[*class as usize];
            let pull = if UNIT { known.mass } else { known.mass * per_byte[at] };
            pulls += pull;
            used += pull * known.level;
            cap = known.cap.min(cap);
        }
        let burdened = self.effective::<UNIT>(link) - self.unburdened::<UNIT>(link);
        let next = (slack + burdened + used) / pulls;
        let stop = next * (1.0 + SAME);
        (next.is_finite() && next > 0.0 && f64::from(highest) <= stop && cap > stop).then_some(next)
    }

    /// Shares what has become free of a link, or is missing, among the classes that it holds, without a look at the others:
    /// none of them is above the new level. Gives the number of uses that it looked at.
    fn ask_held<const UNIT: bool>(&mut self, link: u32) -> Option<usize> {
        let next = self.held_level::<UNIT>(link)?;
        let known = &mut self.links[link as usize];
        known.level = next;
        known.steady -= 1;
        let held = known.bound as usize;
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.classes.clear();
        scratch.classes.extend(self.lists.of(link).0.iter().take(held));
        // routes are anywhere in memory: all are fetched before the first is gone along
        scratch.routes.clear();
        scratch.classes.iter().for_each(|class| scratch.routes.extend_from_slice(&self.uses[self.range(*class)]));
        let mut routes = scratch.routes.as_slice();
        for class in &scratch.classes {
            let range = self.range(*class);
            let (route, rest) = routes.split_at(range.len());
            routes = rest;
            let Class { level, mass, .. } = self.classes[*class as usize];
            if is_same(level, next) {
                continue;
            }
            self.effort.levels += 1;
            self.set_level_only(*class, next);
            let per_byte = self.per_byte.get(range).unwrap_or_default();
            let more = (next - level) * mass;
            Self::pass_on::<UNIT>(&mut self.links, &mut self.dirty, (route, per_byte), (more, next), link);
            self.move_burdens::<UNIT>(*class, more);
        }
        let looked = scratch.classes.len() + scratch.routes.len();
        self.scratch = scratch;
        Some(looked)
    }

    /// Gives a class another level, where it differs, and passes it on to its links. Gives the number of uses that it looked at.
    fn move_class<const UNIT: bool>(&mut self, class: u32, (level, next): (f64, f64), mass: f64, asking: u32) -> usize {
        if is_same(level, next) {
            return 0;
        }
        self.effort.levels += 1;
        self.set_level_only(class, next);
        self.move_links::<UNIT>(class, (next - level) * mass, next, asking);
        self.range(class).len() + self.extras.burdens(class).len()
    }

    /// Shares one link anew, taking the levels to which others hold its classes as given. Gives the number of uses
    /// that it looked at.
    fn ask<const UNIT: bool>(&mut self, link: u32) -> usize {
        let capacity = self.effective::<UNIT>(link);
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        let (members, per_byte) = self.lists.of(link);
        let mut looked = members.len();
        let mut used = 0.0;
        for (at, class) in members.iter().enumerate() {
            let known = &self.classes[*class as usize];
            if known.mass == 0.0 {
                continue;
            }
            let pull = if UNIT { known.mass } else { known.mass * per_byte[at] };
            let limit = if known.bind == link { known.cap } else { known.level };
            scratch.classes.push(*class);
            scratch.pulls.push(pull);
            scratch.limits.push(limit);
            used += pull * limit;
        }
        let shared =
            if used <= capacity { Shared { level: f64::INFINITY, full: false } } else { scratch.share(capacity) };
        let stop = shared.level * (1.0 + SAME);
        let (mut used, mut highest) = (0.0, 0.0_f64);
        for ((class, pull), limit) in scratch.classes.iter().zip(&scratch.pulls).zip(&scratch.limits) {
            let Class { level, mass, bind, .. } = self.classes[*class as usize];
            let mut next = level;
            if shared.full && *limit > stop {
                if bind != link {
                    self.release(bind);
                    if let Some(level) = self.links.get(bind as usize).filter(|l| l.bound > 0).map(|l| l.level) {
                        Self::queue(&mut self.links, &mut self.dirty, bind, level);
                    }
                    self.classes[*class as usize].bind = link;
                    self.links[link as usize].bound += 1;
                }
                next = shared.level;
            } else if bind == link {
                self.release(link);
                self.classes[*class as usize].bind = AT_CAP;
                next = *limit;
            }
            looked += self.move_class::<UNIT>(*class, (level, next), mass, link);
            let Class { level, bind, .. } = self.classes[*class as usize];
            used += pull * level;
            if bind != link {
                highest = level.max(highest);
            }
        }
        let slack = self.unburdened::<UNIT>(link) - used;
        let known = &mut self.links[link as usize];
        known.slack = slack;
        known.level = if known.bound > 0 { shared.level } else { f64::INFINITY };
        (known.highest, known.steady) = (at_least(highest), if known.bound > 0 { STEADY } else { 0 });
        if known.bound > 0 {
            let classes = &self.classes;
            self.lists.put_first(link, |class| classes[class as usize].bind == link);
        }
        self.scratch = scratch;
        looked
    }
}
