//! Plays a graph of steps: when each starts and ends, and what held it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::Arc;

use super::SimulateError;
use super::flows::Flows;
use super::program::{Adjacency, Group, Step};
use crate::cluster::{ClusterRoute, Place, Router, Via};
use peerlane_machine::matrix::Engine;
use peerlane_model::solve::incremental::Hold;
use peerlane_model::solve::{Demand, Problem, ShareError};

/// Moments that are no further apart than this part of the clock are one.
const MOMENT: f64 = 1e-12;

/// What a transfer spends its time on.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Spent {
    /// A full resource, by its number in the router.
    Resource(u32),
    /// Full resources of one kind, in the router's words.
    Kind(String),
    /// Its own cap, in words.
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

/// What a step takes, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Takes {
    /// From when all that it waits for has arrived to its first byte.
    pub start: f64,
    /// From its first byte to its last, in which it keeps its link.
    pub moving: f64,
}

/// Routes, kept from one play to the next.
pub struct Player<'r, 'a> {
    router: &'r mut Router<'a>,
    engine: Engine,
    known: HashMap<(Place, Place, Via), usize>,
    routes: Vec<ClusterRoute>,
    /// Those that do collectives in what is played, and their routes, once they are known.
    groups: Arc<[Group]>,
    together: HashMap<u32, usize>,
}

impl<'r, 'a> Player<'r, 'a> {
    /// A player over a router. `engine` drives what stays within a node.
    pub fn new(router: &'r mut Router<'a>, engine: Engine) -> Self {
        Player {
            router,
            engine,
            known: HashMap::new(),
            routes: Vec::new(),
            groups: Arc::default(),
            together: HashMap::new(),
        }
    }

    /// Names the groups that do collectives in what is played next.
    pub fn with_groups(&mut self, groups: &Arc<[Group]>) {
        if !Arc::ptr_eq(&self.groups, groups) {
            self.groups = Arc::clone(groups);
            self.together.clear();
        }
    }

    /// The router, and what drives what stays within a node.
    pub(super) fn parts(&mut self) -> (&mut Router<'a>, Engine) {
        (self.router, self.engine)
    }

    /// The router.
    pub fn router(&self) -> &Router<'a> {
        self.router
    }

    /// Each step's number in `routes`; `None` where it computes, or its bytes stay.
    fn routed(&mut self, steps: &[Step]) -> Result<Vec<Option<usize>>, SimulateError> {
        let route = |step: &Step| {
            let (from, to, via) = match *step {
                Step::Compute { .. } => return Ok(None),
                Step::Together { group, .. } => return self.together(group),
                Step::Move { from, to, via, .. } => (from, to, via),
            };
            if from == to && via != Via::Card {
                return Ok(None);
            }
            if let Some(route) = self.known.get(&(from, to, via)) {
                return Ok(Some(*route));
            }
            self.routes.push(self.router.way_by(from, to, self.engine, via)?);
            self.known.insert((from, to, via), self.routes.len() - 1);
            Ok(Some(self.routes.len() - 1))
        };
        steps.iter().map(route).collect()
    }

    /// The number of a group's route; `None` where nothing moves.
    fn together(&mut self, number: u32) -> Result<Option<usize>, SimulateError> {
        if let Some(route) = self.together.get(&number) {
            return Ok(Some(*route));
        }
        let groups = Arc::clone(&self.groups);
        let Some(group) = groups.get(number as usize) else {
            return Err(SimulateError::Network(format!("no group {number} does a collective")));
        };
        if group.moves.is_empty() {
            return Ok(None);
        }
        self.routes.push(self.router.way_together(&group.moves, group.rate, &group.by)?);
        self.together.insert(number, self.routes.len() - 1);
        Ok(Some(self.routes.len() - 1))
    }

    /// Plays steps; `waits` are pairs `(a, b)`: b waits for a.
    ///
    /// # Errors
    /// Where a step's numbers make no sense, two places are not joined, steps wait for each other in a circle, or a
    /// transfer stands still.
    pub fn play(&mut self, steps: &[Step], waits: &[(u32, u32)]) -> Result<Played, SimulateError> {
        self.play_over_links(steps, waits, &[])
    }

    /// The same, where steps also wait for a link: of a pair `(a, b)` in `links`, the first byte of b waits for the last byte
    /// of a to leave. Unlike with `waits`, the start-up of b may pass meanwhile.
    ///
    /// # Errors
    /// As for [`Player::play`].
    pub fn play_over_links(
        &mut self,
        steps: &[Step],
        waits: &[(u32, u32)],
        links: &[(u32, u32)],
    ) -> Result<Played, SimulateError> {
        let routes = self.routed(steps)?;
        let mut stage = Stage::new(self, steps, &routes, waits, links)?;
        stage.run()?;
        let all = [waits, links].concat();
        Ok(Played { alone: self.alone(steps, &routes, &all), ..stage.played })
    }

    /// What each step takes, where that is the same whenever it starts and whatever else of these is under way: the
    /// resources carry all of them at the rate that each has alone.
    pub fn undisturbed(&mut self, steps: &[Step]) -> Result<Option<Vec<Takes>>, SimulateError> {
        let routes = self.routed(steps)?;
        let moving = || routes.iter().flatten().map(|route| &self.routes[*route]);
        let demands: Vec<&Demand> = moving().map(|route| &route.demand).collect();
        let problem = Problem::of(demands, |r| self.router.resources()[r]);
        if !problem.carries(&moving().map(|route| route.lone).collect::<Vec<f64>>(), MOMENT) {
            return Ok(None);
        }
        let takes = |(step, route): (&Step, &Option<usize>)| Takes {
            start: self.start_of(step, *route),
            moving: self.lasts(step, *route),
        };
        Ok(Some(steps.iter().zip(&routes).map(takes).collect()))
    }

    /// Seconds from a step's start to its first byte.
    fn start_of(&self, step: &Step, route: Option<usize>) -> f64 {
        let (Step::Move { bytes, delay, .. } | Step::Together { bytes, delay, .. }) = step else { return 0.0 };
        delay + route.map_or(0.0, |route| self.router.start_of(&self.routes[route], *bytes))
    }

    /// Seconds from its first byte on, where it has all that it uses to itself.
    fn lasts(&self, step: &Step, route: Option<usize>) -> f64 {
        match step {
            Step::Compute { seconds, .. } => *seconds,
            Step::Move { bytes, .. } | Step::Together { bytes, .. } => {
                route.map_or(0.0, |route| bytes / self.routes[route].lone)
            }
        }
    }

    /// The longest chain of steps, each of which has what it uses to itself and starts at once.
    fn alone(&self, steps: &[Step], routes: &[Option<usize>], waits: &[(u32, u32)]) -> f64 {
        let mut order = Order::new(steps.len(), waits);
        let mut ready = order.ready();
        let mut starts = vec![0.0_f64; steps.len()];
        let mut longest = 0.0_f64;
        while let Some(step) = ready.pop() {
            let s = step as usize;
            let end = starts[s] + self.lasts(&steps[s], routes[s]);
            longest = longest.max(end);
            order.after.of(step).iter().for_each(|next| starts[*next as usize] = starts[*next as usize].max(end));
            order.end(step, &mut ready);
        }
        longest
    }
}

/// Which steps wait for which.
pub(super) struct Order {
    after: Adjacency,
    /// How many steps that have not ended each waits for.
    pub(super) missing: Vec<u32>,
}

impl Order {
    pub(super) fn new(n: usize, waits: &[(u32, u32)]) -> Self {
        let after = Adjacency::new(n, waits.iter().copied());
        let mut missing = vec![0; n];
        (0..n as u32).flat_map(|step| after.of(step)).for_each(|next| missing[*next as usize] += 1);
        Order { after, missing }
    }

    /// Those that wait for nothing.
    pub(super) fn ready(&self) -> Vec<u32> {
        (0..).zip(&self.missing).filter(|(_, missing)| **missing == 0).map(|(step, _)| step).collect()
    }

    /// Ends a step; appends those that now wait for nothing more.
    pub(super) fn end(&mut self, step: u32, ready: &mut Vec<u32>) {
        for &next in self.after.of(step) {
            let missing = &mut self.missing[next as usize];
            *missing -= 1;
            if *missing == 0 {
                ready.push(next);
            }
        }
    }
}

/// A play under way.
struct Stage<'s, 'r, 'a> {
    player: &'s Player<'r, 'a>,
    steps: &'s [Step],
    routes: &'s [Option<usize>],
    order: Order,
    /// Which steps wait for the link of which.
    links: Order,
    /// Steps that only their link keeps from moving.
    parked: Vec<bool>,
    /// By route: its class of flows; [`UNUSED`] where no step takes it.
    classes: Vec<u32>,
    flows: Flows,
    /// Steps that begin to move, or have computed, at their own time; such floats order as their bits.
    timers: BinaryHeap<Reverse<(u64, u32)>>,
    moving: Vec<f64>,
    /// When the last transfer so far ended.
    moved_until: f64,
    left: usize,
    played: Played,
}

/// In place of a class.
const UNUSED: u32 = u32::MAX;

impl<'s, 'r, 'a> Stage<'s, 'r, 'a> {
    fn new(
        player: &'s Player<'r, 'a>,
        steps: &'s [Step],
        routes: &'s [Option<usize>],
        waits: &[(u32, u32)],
        links: &[(u32, u32)],
    ) -> Result<Self, SimulateError> {
        let refuse = |e: ShareError| SimulateError::Network(e.to_string());
        let mut flows = Flows::of(player.router.resources()).map_err(refuse)?;
        let mut classes = vec![UNUSED; player.routes.len()];
        for (i, (step, route)) in steps.iter().zip(routes).enumerate() {
            let number = match step {
                Step::Move { bytes, delay, .. } | Step::Together { bytes, delay, .. } => [*bytes, *delay],
                Step::Compute { seconds, .. } => [*seconds, 0.0],
            };
            if number.iter().any(|n| !n.is_finite() || *n < 0.0) {
                return Err(SimulateError::Step(i, format!("{number:?} must be numbers of at least 0")));
            }
            if let Some(route) = route.filter(|route| classes[*route] == UNUSED) {
                classes[route] = flows.class_of(&player.routes[route].demand).map_err(refuse)?;
            }
        }
        let n = steps.len();
        let played = Played { starts: vec![f64::NAN; n], ends: vec![f64::NAN; n], ..Played::default() };
        let (order, links, parked) = (Order::new(n, waits), Order::new(n, links), vec![false; n]);
        let (timers, moving, moved_until) = (BinaryHeap::new(), vec![0.0; n], 0.0);
        let left = n;
        Ok(Stage {
            player,
            steps,
            routes,
            order,
            links,
            parked,
            classes,
            flows,
            timers,
            moving,
            moved_until,
            left,
            played,
        })
    }

    fn run(&mut self) -> Result<(), SimulateError> {
        let mut ready = self.order.ready();
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
                if self.links.missing[step as usize] > 0 {
                    self.parked[step as usize] = true;
                } else {
                    self.begin(step, now, &mut ready);
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
            // a link that is busy now sets it later
            self.played.starts[s] = now;
            let wait = match self.steps[s] {
                Step::Compute { seconds, .. } => {
                    self.played.computed += seconds;
                    seconds
                }
                Step::Move { .. } | Step::Together { .. } => self.player.start_of(&self.steps[s], self.routes[s]),
            };
            self.timers.push(Reverse(((now + wait).to_bits(), step)));
        }
    }

    /// The first byte, where there is any.
    fn begin(&mut self, step: u32, now: f64, ready: &mut Vec<u32>) {
        let s = step as usize;
        let (Step::Move { bytes, .. } | Step::Together { bytes, .. }) = self.steps[s] else {
            return self.end(step, now, ready);
        };
        // a start-up that passes while the link is busy costs nothing
        let starting = now - self.played.starts[s];
        if starting > 0.0 {
            *self.played.spent.entry(Spent::Start).or_default() += starting;
        }
        match self.routes[s] {
            Some(route) if bytes > 0.0 => {
                self.moving[s] = now;
                self.flows.start(self.classes[route], bytes, step);
            }
            _ => self.end(step, now, ready),
        }
    }

    /// Books what held a transfer that has ended.
    fn moved(&mut self, step: u32, now: f64) {
        let s = step as usize;
        let Some(route) = self.routes[s] else { return };
        let spent = match self.flows.solver().hold(self.classes[route]) {
            Hold::Link(link) => Spent::Resource(link),
            Hold::Cap => Spent::Cap(self.player.routes[route].cap_why.clone().unwrap_or_default()),
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
        self.order.end(step, ready);
        let mut free = Vec::new();
        self.links.end(step, &mut free);
        for next in free {
            let start = &mut self.played.starts[next as usize];
            // NaN where it still waits for data
            *start = start.max(now);
            if self.parked[next as usize] {
                self.begin(next, now, ready);
            }
        }
    }
}
