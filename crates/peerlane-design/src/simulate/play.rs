//! Plays a graph of steps: when each starts and ends, and what held it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};

use super::SimulateError;
use super::flows::Flows;
use super::program::Step;
use crate::cluster::{ClusterRoute, Place, Router, Via};
use peerlane_machine::matrix::Engine;
use peerlane_model::solve::incremental::Hold;
use peerlane_model::solve::{Demand, Problem};

/// Moments that are no further apart than this part of the clock are one.
const MOMENT: f64 = 1e-12;

/// What a transfer spends its time on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Spent {
    /// A full resource, by its number in the router.
    Resource(u32),
    /// Full resources of one kind, in the router's words.
    Kind(String),
    /// A cap of its own, in words.
    Cap(String),
    /// Before the first byte.
    Start,
}

/// What happened.
#[derive(Clone, Debug, Default)]
pub struct Played {
    /// When the last step ended.
    pub time: f64,
    /// When each step started, in seconds from the first.
    pub starts: Vec<f64>,
    /// When each ended.
    pub ends: Vec<f64>,
    /// Seconds of all transfers together, by what held them when they ended.
    pub spent: BTreeMap<Spent, f64>,
    /// What held the transfer that moved last when it ended.
    pub last: Option<Spent>,
    /// Seconds of all computing together.
    pub computed: f64,
    /// How long it would take were every transfer alone on its way and started at once.
    pub alone: f64,
}

/// Ways, kept from one play to the next.
pub struct Player<'r, 'a> {
    router: &'r mut Router<'a>,
    engine: Engine,
    known: HashMap<(Place, Place, Via), u32>,
    ways: Vec<ClusterRoute>,
}

/// Step without a way: it computes, or its bytes stay.
const STAYS: u32 = u32::MAX;

impl<'r, 'a> Player<'r, 'a> {
    /// A player over a router. `engine` drives what stays within a node.
    pub fn new(router: &'r mut Router<'a>, engine: Engine) -> Self {
        Player { router, engine, known: HashMap::new(), ways: Vec::new() }
    }

    /// The router, and what drives what stays within a node.
    pub(super) fn parts(&mut self) -> (&mut Router<'a>, Engine) {
        (self.router, self.engine)
    }

    /// The router.
    pub fn router(&self) -> &Router<'a> {
        self.router
    }

    fn way(&mut self, step: &Step) -> Result<u32, SimulateError> {
        let Step::Move { from, to, via, .. } = *step else { return Ok(STAYS) };
        if from == to && via != Via::Card {
            return Ok(STAYS);
        }
        if let Some(way) = self.known.get(&(from, to, via)) {
            return Ok(*way);
        }
        let way = self.router.way_by(from, to, self.engine, via)?;
        self.ways.push(way);
        let number = self.ways.len() as u32 - 1;
        self.known.insert((from, to, via), number);
        Ok(number)
    }

    /// Plays steps; `waits` are pairs `(a, b)`: b waits for a.
    ///
    /// # Errors
    /// Where a step's numbers make no sense, two places are not joined, steps wait for each other in a circle, or a
    /// transfer stands still.
    pub fn play(&mut self, steps: &[Step], waits: &[(u32, u32)]) -> Result<Played, SimulateError> {
        let ways: Vec<u32> = steps.iter().map(|s| self.way(s)).collect::<Result<_, _>>()?;
        let mut stage = Stage::new(steps, waits, self, &ways)?;
        stage.run()?;
        let Stage { mut played, .. } = stage;
        played.alone = self.alone(steps, waits, &ways);
        Ok(played)
    }

    /// How long each step takes, where that is the same whenever it starts and whatever else of these is under way: the
    /// resources carry all of them at the rate that each has alone.
    pub fn undisturbed(&mut self, steps: &[Step]) -> Result<Option<Vec<f64>>, SimulateError> {
        let ways: Vec<u32> = steps.iter().map(|s| self.way(s)).collect::<Result<_, _>>()?;
        let moving = || ways.iter().filter(|w| **w != STAYS).map(|way| &self.ways[*way as usize]);
        let demands: Vec<&Demand> = moving().map(|way| &way.demand).collect();
        let problem = Problem::of(demands, |r| self.router.resources()[r]);
        if !problem.carries(&moving().map(|way| way.lone).collect::<Vec<f64>>(), MOMENT) {
            return Ok(None);
        }
        let takes = |(step, way): (&Step, &u32)| match (step, *way) {
            (Step::Compute { seconds, .. }, _) => *seconds,
            (Step::Move { delay, .. }, STAYS) => *delay,
            (Step::Move { bytes, delay, .. }, way) => {
                let way = &self.ways[way as usize];
                delay + self.router.start_of(way, *bytes) + bytes / way.lone
            }
        };
        Ok(Some(steps.iter().zip(&ways).map(takes).collect()))
    }

    /// The longest chain of steps, each of which has what it uses to itself.
    fn alone(&self, steps: &[Step], waits: &[(u32, u32)], ways: &[u32]) -> f64 {
        let after = Followers::new(steps.len(), waits);
        let mut missing = after.missing.clone();
        let mut ready: Vec<u32> = (0..steps.len() as u32).filter(|s| missing[*s as usize] == 0).collect();
        let mut starts = vec![0.0_f64; steps.len()];
        let mut longest = 0.0_f64;
        while let Some(step) = ready.pop() {
            let s = step as usize;
            let takes = match (&steps[s], ways[s]) {
                (Step::Compute { seconds, .. }, _) => *seconds,
                (_, STAYS) => 0.0,
                (Step::Move { bytes, .. }, way) => bytes / self.ways[way as usize].lone,
            };
            let end = starts[s] + takes;
            longest = longest.max(end);
            for &next in after.of(step) {
                let n = next as usize;
                starts[n] = starts[n].max(end);
                missing[n] -= 1;
                if missing[n] == 0 {
                    ready.push(next);
                }
            }
        }
        longest
    }
}

/// Which steps wait for a step.
struct Followers {
    starts: Vec<u32>,
    steps: Vec<u32>,
    /// How many steps each waits for.
    missing: Vec<u32>,
}

impl Followers {
    fn new(n: usize, waits: &[(u32, u32)]) -> Self {
        let mut starts = vec![0; n + 1];
        let mut missing = vec![0; n];
        let known = |(a, b): &&(u32, u32)| (*a as usize) < n && (*b as usize) < n;
        for (a, b) in waits.iter().filter(known) {
            starts[*a as usize + 1] += 1;
            missing[*b as usize] += 1;
        }
        for i in 0..n {
            starts[i + 1] += starts[i];
        }
        let mut next = starts.clone();
        let mut steps = vec![0; starts[n] as usize];
        for (a, b) in waits.iter().filter(known) {
            let at = &mut next[*a as usize];
            steps[*at as usize] = *b;
            *at += 1;
        }
        Followers { starts, steps, missing }
    }

    fn of(&self, step: u32) -> &[u32] {
        &self.steps[self.starts[step as usize] as usize..self.starts[step as usize + 1] as usize]
    }
}

/// A play under way.
struct Stage<'s> {
    steps: &'s [Step],
    after: Followers,
    missing: Vec<u32>,
    /// By step: its class of flows, or [`STAYS`].
    classes: Vec<u32>,
    latencies: Vec<f64>,
    caps: Vec<Option<&'s str>>,
    flows: Flows,
    /// Steps that begin to move, or have computed, at a time of their own; such floats order as their bits.
    timers: BinaryHeap<Reverse<(u64, u32)>>,
    moving: Vec<f64>,
    /// When the last transfer so far ended.
    moved_until: f64,
    left: usize,
    played: Played,
}

impl<'s> Stage<'s> {
    fn new(steps: &'s [Step], waits: &[(u32, u32)], player: &'s Player, ways: &[u32]) -> Result<Self, SimulateError> {
        let mut flows = Flows::of(player.router.resources()).map_err(|e| SimulateError::Network(e.to_string()))?;
        let mut of_way = vec![STAYS; player.ways.len()];
        let mut classes = Vec::with_capacity(steps.len());
        let mut latencies = Vec::with_capacity(steps.len());
        let mut caps = Vec::with_capacity(steps.len());
        for (i, (step, way)) in steps.iter().zip(ways).enumerate() {
            let number = match step {
                Step::Move { bytes, delay, .. } => [*bytes, *delay],
                Step::Compute { seconds, .. } => [*seconds, 0.0],
            };
            if number.iter().any(|n| !n.is_finite() || *n < 0.0) {
                return Err(SimulateError::Step(i, format!("{number:?} must be numbers of at least 0")));
            }
            let Some(known) = player.ways.get(*way as usize) else {
                classes.push(STAYS);
                latencies.push(0.0);
                caps.push(None);
                continue;
            };
            let class = &mut of_way[*way as usize];
            if *class == STAYS {
                *class = flows.class_of(&known.demand).map_err(|e| SimulateError::Network(e.to_string()))?;
            }
            classes.push(*class);
            let bytes = if let Step::Move { bytes, .. } = step { *bytes } else { 0.0 };
            latencies.push(player.router.start_of(known, bytes));
            caps.push(known.cap_why.as_deref());
        }
        let after = Followers::new(steps.len(), waits);
        let missing = after.missing.clone();
        let n = steps.len();
        let played = Played { starts: vec![f64::NAN; n], ends: vec![f64::NAN; n], ..Played::default() };
        let (timers, moving) = (BinaryHeap::new(), vec![0.0; n]);
        Ok(Stage {
            steps,
            after,
            missing,
            classes,
            latencies,
            caps,
            flows,
            timers,
            moving,
            moved_until: 0.0,
            left: n,
            played,
        })
    }

    fn run(&mut self) -> Result<(), SimulateError> {
        let mut ready: Vec<u32> = (0..self.steps.len() as u32).filter(|s| self.missing[*s as usize] == 0).collect();
        let mut ended = Vec::new();
        let mut now = 0.0;
        loop {
            self.start(&mut ready, now);
            let flow = self.flows.next_end();
            let timer = self.timers.peek().map(|Reverse((bits, _))| f64::from_bits(*bits));
            let Some(next) = flow.into_iter().chain(timer).reduce(f64::min) else { break };
            now = now.max(next);
            ended.clear();
            self.flows.advance(now, &mut ended);
            for &step in &ended {
                self.moved(step, now);
                self.end(step, now, &mut ready);
            }
            let horizon = now + MOMENT * now;
            while let Some(Reverse((_, step))) =
                self.timers.peek().copied().filter(|Reverse((t, _))| f64::from_bits(*t) <= horizon)
            {
                self.timers.pop();
                match self.steps[step as usize] {
                    Step::Move { bytes, .. } if self.classes[step as usize] != STAYS && bytes > 0.0 => {
                        self.moving[step as usize] = now;
                        self.flows.start(self.classes[step as usize], bytes, step);
                    }
                    _ => self.end(step, now, &mut ready),
                }
            }
        }
        self.played.time = now;
        if self.flows.active() > 0 {
            return Err(SimulateError::Stalled(self.flows.active()));
        }
        if self.left > 0 {
            let stuck = (0..self.steps.len()).filter(|s| self.played.ends[*s].is_nan());
            return Err(SimulateError::Circle(stuck.collect()));
        }
        Ok(())
    }

    fn start(&mut self, ready: &mut Vec<u32>, now: f64) {
        // the order in which steps became ready must not matter
        ready.sort_unstable();
        for step in ready.drain(..) {
            let s = step as usize;
            self.played.starts[s] = now;
            let wait = match self.steps[s] {
                Step::Compute { seconds, .. } => {
                    self.played.computed += seconds;
                    seconds
                }
                Step::Move { delay, .. } => {
                    let wait = delay + self.latencies[s];
                    if wait > 0.0 {
                        *self.played.spent.entry(Spent::Start).or_default() += wait;
                    }
                    wait
                }
            };
            self.timers.push(Reverse(((now + wait).to_bits(), step)));
        }
    }

    /// Books what held a transfer that has ended.
    fn moved(&mut self, step: u32, now: f64) {
        let s = step as usize;
        let spent = match self.flows.solver().hold(self.classes[s]) {
            Hold::Link(link) => Spent::Resource(link),
            Hold::Cap => Spent::Cap(self.caps[s].unwrap_or_default().to_owned()),
            Hold::Nothing => return,
        };
        // of those that end at one moment, the first
        if now > self.moved_until * (1.0 + MOMENT) {
            self.played.last = Some(spent.clone());
            self.moved_until = now;
        }
        *self.played.spent.entry(spent).or_default() += now - self.moving[s];
    }

    fn end(&mut self, step: u32, now: f64, ready: &mut Vec<u32>) {
        self.played.ends[step as usize] = now;
        self.left -= 1;
        for &next in self.after.of(step) {
            let missing = &mut self.missing[next as usize];
            *missing -= 1;
            if *missing == 0 {
                ready.push(next);
            }
        }
    }
}
