//! Flows in time: bytes that move at the rates of a [`Solver`], which change whenever a flow starts or ends.
//!
//! Nothing is touched that does not change. A class keeps the bytes that each of its flows has moved since it
//! last had none, up to the moment at which its rate last changed; a flow ends when that number reaches the one at
//! which it started plus its size. Only the classes whose rate has changed get a new time in the heap of ends.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::heap::TimeHeap;
use peerlane_model::solve::incremental::{Effort, Solver};
use peerlane_model::solve::{Demand, Resource, ShareError};

/// Ends that are no further apart than this part of the clock are one moment.
const MOMENT: f64 = 1e-12;

/// Progress of a class.
#[derive(Clone, Copy, Debug)]
struct Progress {
    /// Bytes that each flow has moved until `at`.
    moved: f64,
    at: f64,
    /// The first of the class's [`Flows::ends`], infinite where there is none: here, it is read with the rest.
    end: f64,
}

/// Of a class without flows.
const IDLE: Progress = Progress { moved: 0.0, at: 0.0, end: f64::INFINITY };

/// Where a flow of a class ends, by the class's `moved`, and what the caller calls it. Such floats order as their bits.
type End = Reverse<(u64, u32)>;

/// Flows over resources, and a clock.
#[derive(Debug)]
pub struct Flows {
    solver: Solver,
    now: f64,
    progress: Vec<Progress>,
    ends: Vec<BinaryHeap<End>>,
    /// Classes by when their next flow ends.
    next: TimeHeap,
    /// Classes of which a flow has started or ended since the last solve.
    touched: Vec<u32>,
    active: usize,
}

impl Flows {
    /// No flows, at time 0, over resources of these capacities in bytes (or whatever flows consume) a second.
    pub fn new(capacities: &[f64]) -> Result<Self, ShareError> {
        Solver::new(capacities).map(Flows::with)
    }

    /// The same for resources of which some may make requests wait.
    pub fn of(resources: &[Resource]) -> Result<Self, ShareError> {
        Solver::of(resources).map(Flows::with)
    }

    fn with(solver: Solver) -> Self {
        Flows {
            solver,
            now: 0.0,
            progress: Vec::new(),
            ends: Vec::new(),
            next: TimeHeap::default(),
            touched: Vec::new(),
            active: 0,
        }
    }

    /// The class of flows that use these resources; see [`Solver::class`].
    pub fn class(&mut self, uses: &[(u32, f64)], weight: f64, cap: f64) -> Result<u32, ShareError> {
        let class = self.solver.class(uses, weight, cap)?;
        self.known(class);
        Ok(class)
    }

    /// The class of flows of this demand; see [`Solver::class_of`].
    pub fn class_of(&mut self, demand: &Demand) -> Result<u32, ShareError> {
        let class = self.solver.class_of(demand)?;
        self.known(class);
        Ok(class)
    }

    fn known(&mut self, class: u32) {
        if class as usize >= self.progress.len() {
            self.progress.push(IDLE);
            self.ends.push(BinaryHeap::new());
        }
    }

    /// The clock, in seconds.
    pub fn now(&self) -> f64 {
        self.now
    }

    /// How many flows are under way.
    pub fn active(&self) -> usize {
        self.active
    }

    /// Starts a flow of so many bytes now. `tag` is what [`Flows::advance`] gives back when it ends.
    pub fn start(&mut self, class: u32, bytes: f64, tag: u32) {
        let Some(progress) = self.progress.get_mut(class as usize) else { return };
        let count = self.solver.count(class);
        if count == 0 {
            *progress = Progress { at: self.now, ..IDLE };
        } else {
            let rate = self.solver.rate(class);
            catch_up(progress, rate, self.now);
        }
        let end = progress.moved + bytes.max(0.0);
        progress.end = progress.end.min(end);
        self.ends[class as usize].push(Reverse((end.to_bits(), tag)));
        self.solver.set_count(class, count + 1);
        self.touched.push(class);
        self.active += 1;
    }

    /// When the next flow ends; `None` where none does: there is none, or all that are left stand still.
    pub fn next_end(&mut self) -> Option<f64> {
        self.settle();
        self.next.first().map(|(time, _)| time).filter(|t| t.is_finite())
    }

    /// Finds rates where flows have started or ended, and from them the ends.
    fn settle(&mut self) {
        if !self.solver.is_stale() {
            return;
        }
        self.solver.solve();
        let Flows { solver, progress, next, now, touched, .. } = self;
        for (class, level) in solver.changed() {
            catch_up(&mut progress[*class as usize], level * solver.weight(*class), *now);
        }
        let changed = solver.changed().iter().map(|(class, _)| class);
        for class in changed.chain(touched.iter().filter(|class| !solver.has_changed(**class))) {
            let Progress { moved, end, .. } = progress[*class as usize];
            if end.is_infinite() {
                next.remove(*class);
                continue;
            }
            let left = (end - moved).max(0.0);
            let time = if left == 0.0 { *now } else { *now + left / solver.rate(*class) };
            next.set(*class, time);
        }
        touched.clear();
    }

    /// Moves the clock to `to`, which must not be after [`Flows::next_end`], and appends the tags of the flows that end
    /// then, in order of class and tag.
    pub fn advance(&mut self, to: f64, ended: &mut Vec<u32>) {
        self.settle();
        self.now = self.now.max(to);
        let horizon = self.now + MOMENT * self.now.abs();
        let first = ended.len();
        while let Some((_, class)) = self.next.first().filter(|(time, _)| *time <= horizon) {
            self.next.remove(class);
            let c = class as usize;
            let rate = self.solver.rate(class);
            catch_up(&mut self.progress[c], rate, self.now);
            // the first is due, which rounding of what was moved must not deny
            let within = if rate.is_finite() { rate * MOMENT * self.now.abs() } else { f64::INFINITY };
            let moved = self.progress[c].moved;
            let mut count = self.solver.count(class);
            let mut forced = true;
            while let Some(Reverse((end, tag))) = self.ends[c].peek() {
                if !forced && f64::from_bits(*end) > moved + within {
                    break;
                }
                ended.push(*tag);
                self.ends[c].pop();
                count -= 1;
                self.active -= 1;
                forced = false;
            }
            let first = self.ends[c].peek();
            self.progress[c].end = first.map_or(f64::INFINITY, |Reverse((end, _))| f64::from_bits(*end));
            self.solver.set_count(class, count);
            self.touched.push(class);
        }
        ended[first..].sort_unstable();
    }

    /// Rate of each flow of a class now, in bytes a second.
    pub fn rate(&mut self, class: u32) -> f64 {
        self.settle();
        self.solver.rate(class)
    }

    /// The solver as last asked.
    pub fn solver(&self) -> &Solver {
        &self.solver
    }

    /// How much work finding rates was so far.
    pub fn effort(&self) -> Effort {
        self.solver.effort()
    }
}

fn catch_up(progress: &mut Progress, rate: f64, now: f64) {
    if now > progress.at {
        progress.moved += rate * (now - progress.at);
        progress.at = now;
    }
}
