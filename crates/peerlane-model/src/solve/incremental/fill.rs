//! Everything from the bottom: progressive filling, link by link in the order of their levels.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Range;

use super::{AT_CAP, Class, OVER, Solver, UNBOUND};

/// A class that has not stopped yet.
pub(super) const RISING: u32 = u32::MAX - 2;
/// Classes that are fetched side by side.
const AT_ONCE: usize = 64;
/// One in so many of the other links comes into the heap at a time, which then stays in a cache. Most that come up have a
/// higher level meanwhile, and go back.
const PORTION: usize = 32;
/// Times that all is filled again with what the rates before burden, and the change at which it is left to repairs.
const AGAIN: usize = 12;
const CLOSE: f64 = 1e-6;
/// So many are looked at to say which these are.
const SAMPLE: usize = 1024;

/// Classes that stop.
#[derive(Default)]
struct Fetched {
    /// Where the uses of each are, its mass, and the level at which it stops.
    classes: Vec<(Range<usize>, f64, f64)>,
    /// Their routes, one after the other.
    routes: Vec<u32>,
}

/// A link while the level rises: what is left of it, and what still pulls. Both are kept by differences. What is left
/// is as exact as a new sum would be; the pull is where masses are whole numbers, and is summed anew where they are not.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rising {
    left: f64,
    pull: f64,
}

impl Rising {
    fn level(&self) -> f64 {
        if self.pull > 0.0 { self.left.max(0.0) / self.pull } else { 0.0 }
    }
}

impl Solver {
    /// Finds all rates from nothing.
    pub(super) fn fill<const UNIT: bool>(&mut self) {
        self.forget_queued();
        // the level before this solve, of all that may have another now
        let alive = std::mem::take(&mut self.alive);
        let gone: Vec<u32> =
            self.touched.iter().map(|t| t.0).filter(|c| self.classes[*c as usize].count == 0).collect();
        for class in alive.iter().chain(&gone) {
            self.set_level_only(*class, f64::INFINITY);
        }
        let burdened = !UNIT && self.extras.burdens_any();
        if burdened {
            self.count_burdens(&[]);
        }
        let mut involved = self.reset::<UNIT>(&alive, &gone);
        self.climb::<UNIT>(&alive, &involved);
        for _ in 0..if burdened { AGAIN } else { 0 } {
            // what the last rates burden is taken off for the next
            if self.count_burdens(&alive) < CLOSE {
                break;
            }
            involved = self.reset::<UNIT>(&alive, &[]);
            self.climb::<UNIT>(&alive, &involved);
        }
        if burdened {
            self.count_burdens(&alive);
        }
        // what differences of sums put in the wrong order is put right from each link that shows it
        self.queue_wrong(&involved);
        if !self.repair::<UNIT>() {
            self.ask_reference(&alive);
        }
        self.alive = alive;
        let Solver { changed, change_mark, classes, .. } = self;
        changed.retain(|(class, before)| {
            let differs = classes[*class as usize].level != *before;
            if !differs {
                change_mark[*class as usize] = 0;
            }
            differs
        });
    }

    /// No link waits to be asked any more.
    fn forget_queued(&mut self) {
        for Reverse((_, link)) in self.dirty.drain() {
            self.links[link as usize].queued = false;
        }
    }

    /// From the classes' levels: by how much each link is burdened. Gives the largest change of what a link has to share, as a
    /// part of it.
    fn count_burdens(&mut self, alive: &[u32]) -> f64 {
        let before = self.extras.clear_burdens();
        for class in alive {
            let Class { level, mass, .. } = self.classes[*class as usize];
            for at in 0..if level.is_finite() { self.extras.burdens(*class).len() } else { 0 } {
                let (link, per_byte) = self.extras.burdens(*class)[at];
                self.extras.burden(link, mass * level * per_byte);
            }
        }
        let mut moved = 0.0_f64;
        for (i, before) in (0_u32..).zip(before) {
            let change = self.extras.burdened(i) - before.value();
            self.links[i as usize].slack -= change;
            if change != 0.0 {
                moved = moved.max(change.abs() / self.effective::<false>(i));
            }
        }
        moved
    }

    /// Makes every class with flows rise from nothing; gives the links that it concerns.
    fn reset<const UNIT: bool>(&mut self, alive: &[u32], gone: &[u32]) -> Vec<u32> {
        let mut involved = Vec::new();
        // where the lists hold no other classes, what most of them pull, which have one flow, is the lists' lengths
        let by_lists = UNIT && self.whole && gone.is_empty() && self.dead == 0;
        if by_lists {
            for (i, link) in (0_u32..).zip(&mut self.links) {
                let pull = self.lists.of(i).0.len() as f64;
                if pull > 0.0 {
                    self.rising[i as usize] = Rising { left: self.capacities[i as usize], pull };
                    self.is_involved[i as usize] = true;
                    (link.bound, link.level, link.steady, link.queued) = (0, f64::INFINITY, 0, false);
                    involved.push(i);
                }
            }
        }
        for class in alive.iter().chain(gone) {
            let mut mass = self.classes[*class as usize].mass;
            if by_lists {
                mass -= 1.0;
                if mass == 0.0 {
                    continue;
                }
            }
            for at in self.range(*class) {
                let i = self.uses[at];
                if !self.is_involved[i as usize] {
                    self.is_involved[i as usize] = true;
                    let left = self.effective::<UNIT>(i);
                    let state = &mut self.rising[i as usize];
                    let link = &mut self.links[i as usize];
                    *state = Rising { left, pull: 0.0 };
                    (link.bound, link.level, link.steady, link.queued) = (0, f64::INFINITY, 0, false);
                    involved.push(i);
                }
                self.rising[i as usize].pull += if UNIT { mass } else { mass * self.per_byte[at] };
            }
        }
        for class in gone {
            let class = &mut self.classes[*class as usize];
            (class.bind, class.level) = (UNBOUND, 0.0);
        }
        for class in alive {
            let i = *class as usize;
            let class = &mut self.classes[i];
            (class.bind, class.level) = (RISING, f64::INFINITY);
            self.is_rising[i] = true;
        }
        involved
    }

    /// Raises all together; links and caps stop them.
    fn climb<const UNIT: bool>(&mut self, alive: &[u32], involved: &[u32]) {
        let cap_of = |c: &u32| self.classes[*c as usize].cap;
        let mut by_cap: Vec<u32> = alive.iter().copied().filter(|c| cap_of(c).is_finite()).collect();
        by_cap.sort_unstable_by(|a, b| cap_of(a).total_cmp(&cap_of(b)).then(a.cmp(b)));
        let mut caps = by_cap.into_iter().peekable();
        // only where pulls are exact no link comes back with a level other than that of its differences
        let mut queue = Queue::new(involved, &self.rising, UNIT && self.whole);
        let (mut stopping, mut fetched) = (Vec::new(), Fetched::default());
        loop {
            while caps.next_if(|c| self.classes[*c as usize].bind != RISING).is_some() {}
            let next = queue.next(&self.rising);
            let cap = caps.peek().map(|c| self.classes[*c as usize].cap);
            let (key, link) = match (next, cap) {
                (Some((level, link)), cap) if cap.is_none_or(|cap| level <= cap) => {
                    queue.heap.pop();
                    (level, link)
                }
                (_, Some(cap)) => {
                    if let Some(class) = caps.next() {
                        self.stop_all::<UNIT>(&[class], cap, AT_CAP, &mut fetched);
                    }
                    continue;
                }
                _ => break,
            };
            let level = self.level_of::<UNIT>(link, &mut stopping);
            // its pull may have drifted; then it comes up too early
            let early = |next: &Reverse<(u64, u32)>| level > f64::from_bits(next.0.0);
            if level > key
                && !stopping.is_empty()
                && (queue.heap.peek().is_some_and(early) || cap.is_some_and(|c| level > c))
            {
                queue.heap.push(Reverse((level.to_bits(), link)));
                continue;
            }
            self.links[link as usize].level = level;
            self.stop_all::<UNIT>(&stopping, level, link, &mut fetched);
        }
        for i in involved {
            self.is_involved[*i as usize] = false;
            let least = self.effective::<UNIT>(*i) - self.unburdened::<UNIT>(*i);
            let link = &mut self.links[*i as usize];
            link.slack = self.rising[*i as usize].left - least;
            if link.bound == 0 {
                link.level = f64::INFINITY;
            }
        }
        for class in alive {
            let class = &mut self.classes[*class as usize];
            if class.bind == RISING {
                class.bind = UNBOUND;
            }
        }
    }

    /// Level at which a link is full, given what has stopped, and what is still rising on it.
    fn level_of<const UNIT: bool>(&self, link: u32, still: &mut Vec<u32>) -> f64 {
        still.clear();
        let (members, per_byte) = self.lists.of(link);
        let capacity = self.effective::<UNIT>(link);
        if UNIT && self.whole {
            // sums of whole numbers are exact, also by differences; and what is left is as exact as a new sum
            let rising = members.iter().filter(|c| self.is_rising[**c as usize]);
            // no more are left than pull, so that the list need not be read to its end
            still.extend(rising.take(self.rising[link as usize].pull as usize));
            return self.rising[link as usize].level();
        }
        let (mut taken, mut pulls) = (0.0, 0.0);
        for (at, i) in members.iter().enumerate() {
            let class = &self.classes[*i as usize];
            let pull = if UNIT { class.mass } else { class.mass * per_byte[at] };
            if class.bind == RISING {
                pulls += pull;
                still.push(*i);
            } else {
                taken += pull * class.level;
            }
        }
        (capacity - taken).max(0.0) / pulls
    }

    /// Stops classes at a level. Where many stop, they and their routes, which are anywhere in memory, are fetched side by
    /// side before any route is gone along.
    fn stop_all<const UNIT: bool>(&mut self, all: &[u32], level: f64, bind: u32, fetched: &mut Fetched) {
        for some in all.chunks(AT_ONCE) {
            fetched.routes.clear();
            fetched.classes.clear();
            for i in some {
                let range = self.range(*i);
                let class = &mut self.classes[*i as usize];
                // a link whose sum has drifted may come up late, with a class whose cap is lower
                let (level, bind) = if class.cap < level { (class.cap, AT_CAP) } else { (level, bind) };
                (class.level, class.bind) = (level, bind);
                fetched.classes.push((range, class.mass, level));
                self.is_rising[*i as usize] = false;
                if let Some(link) = self.links.get_mut(bind as usize) {
                    link.bound += 1;
                }
            }
            let Fetched { classes, routes } = &mut *fetched;
            for (range, _, _) in classes.iter() {
                routes.extend_from_slice(&self.uses[range.clone()]);
            }
            let mut routes = routes.iter();
            for (range, mass, level) in classes.iter() {
                for (at, link) in range.clone().zip(&mut routes) {
                    let state = &mut self.rising[*link as usize];
                    let pull = if UNIT { *mass } else { mass * self.per_byte[at] };
                    state.left -= pull * level;
                    state.pull -= pull;
                }
            }
        }
    }

    /// Queues the links that are not as they should be.
    fn queue_wrong(&mut self, involved: &[u32]) {
        for i in involved {
            let link = &mut self.links[*i as usize];
            let room = OVER * self.capacities[*i as usize];
            if link.slack < -room || (link.bound > 0 && link.slack > room) {
                link.queued = true;
                self.dirty.push(Reverse((link.level.to_bits(), *i)));
            }
        }
    }

    /// Last resort, for weights of which no sum of doubles tells anything: the solver that sums in twice the precision.
    fn ask_reference(&mut self, alive: &[u32]) {
        self.forget_queued();
        let cap = |c: u32| self.classes[c as usize].cap * self.weights[c as usize];
        let problem = self.problem(alive, cap);
        // each class was checked when it came
        if let Ok(solution) = problem.solve() {
            self.take_over(alive, &solution);
        }
    }
}

/// Links in the order of their levels, of which only the lowest are in order.
struct Queue {
    /// Levels and links; a level may be too low, since others have stopped.
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    /// Links of which none is below `limit`.
    others: Vec<u32>,
    limit: f64,
    /// Whether the links' pulls are exact.
    exact: bool,
}

impl Queue {
    fn new(involved: &[u32], rising: &[Rising], exact: bool) -> Self {
        let others: Vec<u32> = involved.iter().copied().filter(|i| rising[*i as usize].pull > 0.0).collect();
        Queue { heap: BinaryHeap::new(), others, limit: 0.0, exact }
    }

    /// The link that fills up next, left on top of the heap, and its level.
    fn next(&mut self, rising: &[Rising]) -> Option<(f64, u32)> {
        loop {
            let Some(mut top) = self.heap.peek_mut() else {
                if self.others.is_empty() {
                    return None;
                }
                self.refill(rising);
                continue;
            };
            let Reverse((bits, link)) = *top;
            let state = &rising[link as usize];
            if self.exact && state.pull == 0.0 {
                PeekMut::pop(top);
                continue;
            }
            let now = state.level();
            if now.to_bits() <= bits {
                return Some((f64::from_bits(bits), link));
            }
            if now > self.limit {
                PeekMut::pop(top);
                self.others.push(link);
            } else {
                *top = Reverse((now.to_bits(), link));
            }
        }
    }

    /// Brings the lowest of the others into the heap.
    fn refill(&mut self, rising: &[Rising]) {
        let Queue { heap, others, limit, exact } = self;
        if *exact {
            others.retain(|i| rising[*i as usize].pull > 0.0);
        }
        let level = |i: &u32| rising[*i as usize].level();
        *limit = f64::INFINITY;
        if *exact && others.len() > SAMPLE {
            let mut sample: Vec<f64> = others.iter().step_by(others.len() / SAMPLE).map(level).collect();
            let at = sample.len() / PORTION;
            *limit = *sample.select_nth_unstable_by(at, f64::total_cmp).1;
        }
        let limit = *limit;
        let mut lowest = Vec::new();
        others.retain(|i| {
            let level = level(i);
            if level <= limit {
                lowest.push(Reverse((level.to_bits(), *i)));
            }
            level > limit
        });
        *heap = BinaryHeap::from(lowest);
    }
}
