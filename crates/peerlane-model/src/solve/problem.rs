//! What is solved: resources, and what flows ask of them.

use super::share::{Binding, Flow};
use super::turns::{Attended, Turns};

/// A resource keeps at least this share of itself, whatever goes back over it.
pub(super) const LEAST: f64 = 0.05;

/// Something of finite capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resource {
    /// Its units a second; may be infinite.
    pub capacity: f64,
    /// How long it serves one request in ns, 0 where it makes nobody wait.
    pub service: f64,
}

impl Resource {
    /// One that makes nobody wait.
    pub fn of(capacity: f64) -> Self {
        Resource { capacity, service: 0.0 }
    }

    /// What it has for those who use it where so much of it is burdened.
    pub fn left(&self, burdened: f64) -> f64 {
        (self.capacity - burdened).max(LEAST * self.capacity)
    }

    /// The wait in ns where it is busy for this share of its time: that of one queue with independent arrivals,
    /// service · ρ ÷ (1 − ρ) (Kleinrock, *Queueing Systems*, vol. 1, §3.2).
    pub fn wait(&self, busy: f64) -> f64 {
        let busy = busy.clamp(0.0, FULLEST);
        self.service * busy / (1.0 - busy)
    }
}

/// A queue on the way of a flow's requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wait {
    /// What is waited for: a resource with a time of service.
    pub server: usize,
    /// The room for requests on their way, a resource that the flow uses.
    pub window: usize,
    /// How much more of the window a byte takes for each ns of waiting.
    pub per_ns: f64,
}

/// What a flow asks of resources.
#[derive(Clone, Debug, PartialEq)]
pub struct Demand {
    /// `(resource, consumption per unit of its own rate)`. Each can stop it.
    pub uses: Vec<(usize, f64)>,
    /// The same for what it takes without waiting: requests, acknowledgements. They make the resource smaller for those
    /// who use it, and stop nobody else.
    pub burdens: Vec<(usize, f64)>,
    /// Where its requests wait in a queue, and what that takes of the room for requests on their way.
    pub waits: Vec<Wait>,
    /// Share of a full resource relative to others; positive.
    pub weight: f64,
    /// The most it can go by itself; infinite where nothing else limits it.
    pub cap: f64,
    /// A further cap, which falls with the number of flows that wait for each other's pieces.
    pub turns: Option<Turns>,
}

impl Default for Demand {
    /// Asks for nothing, with a weight of 1.
    fn default() -> Self {
        Demand {
            uses: Vec::new(),
            burdens: Vec::new(),
            waits: Vec::new(),
            weight: 1.0,
            cap: f64::INFINITY,
            turns: None,
        }
    }
}

impl Demand {
    /// Its cap where it is the only flow.
    pub fn own_cap(&self) -> f64 {
        self.turns.map_or(self.cap, |turns| turns.cap(1).min(self.cap))
    }

    /// Whether it asks for nothing but uses: then [`share()`](super::share()) alone gives its rate.
    pub fn is_plain(&self) -> bool {
        self.burdens.is_empty() && self.waits.is_empty() && self.turns.is_none()
    }

    /// The same with its resources called otherwise; what has no name is left out.
    pub fn renamed(&self, name: impl Fn(usize) -> Option<usize>) -> Demand {
        let all = |of: &[(usize, f64)]| of.iter().filter_map(|&(r, k)| Some((name(r)?, k))).collect();
        let wait = |w: &Wait| Some(Wait { server: name(w.server)?, window: name(w.window)?, per_ns: w.per_ns });
        Demand {
            uses: all(&self.uses),
            burdens: all(&self.burdens),
            waits: self.waits.iter().filter_map(wait).collect(),
            ..*self
        }
    }

    /// Takes what another takes, too: both are parts of one flow.
    pub fn join(&mut self, other: &Demand) {
        let add = |to: &mut Vec<(usize, f64)>, of: &[(usize, f64)]| {
            for &(r, per_byte) in of {
                match to.iter_mut().find(|(known, _)| *known == r) {
                    Some((_, before)) => *before += per_byte,
                    None => to.push((r, per_byte)),
                }
            }
        };
        add(&mut self.uses, &other.uses);
        add(&mut self.burdens, &other.burdens);
        self.waits.extend_from_slice(&other.waits);
        self.cap = self.cap.min(other.cap);
        self.turns = self.turns.or(other.turns);
    }

    /// Its rate where it is the only flow, and what stops it.
    ///
    /// Where it waits in queues, the problem with it alone is solved.
    pub fn alone(&self, resource: impl Fn(usize) -> Resource) -> (f64, Binding) {
        if !self.waits.is_empty() {
            let solved = Problem::of([self], resource).solve();
            let first = solved.ok().and_then(|s| Some((*s.rates.first()?, *s.bindings.first()?)));
            return first.unwrap_or((0.0, Binding::Nothing));
        }
        let cap = self.own_cap();
        let mut slowest = (cap, if cap.is_finite() { Binding::Cap } else { Binding::Nothing });
        for &(r, _) in &self.uses {
            let capacity = resource(r).capacity;
            let sum = |of: &[(usize, f64)]| of.iter().filter(|(o, _)| *o == r).map(|(_, k)| k).sum::<f64>();
            let rate = capacity / (sum(&self.uses) + sum(&self.burdens));
            if rate < slowest.0 {
                slowest = (rate, Binding::Resource(r));
            }
        }
        slowest
    }
}

/// Flows over resources. All numbers of resources are places in this problem's list.
#[derive(Clone, Debug, Default)]
pub struct Problem {
    pub(super) capacities: Vec<f64>,
    pub(super) services: Vec<f64>,
    /// What the caller calls each resource.
    names: Vec<usize>,
    /// Without the caps that [`Turns`] give, which the whole set decides.
    pub(super) flows: Vec<Flow>,
    pub(super) burdens: Vec<Vec<(usize, f64)>>,
    pub(super) waits: Vec<Vec<Wait>>,
    pub(super) turns: Vec<Option<Turns>>,
}

/// Rates of all flows of a problem at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// Rate of each flow; infinite where nothing stops it.
    pub rates: Vec<f64>,
    /// What binds each, in the caller's names.
    pub bindings: Vec<Binding>,
    /// How long requests wait where they do: `(resource, ns)`.
    pub waits: Vec<(usize, f64)>,
}

impl Problem {
    /// These demands, on those resources alone that they use: a few flows use few of a large machine's.
    pub fn of<'d>(demands: impl IntoIterator<Item = &'d Demand> + Clone, resource: impl Fn(usize) -> Resource) -> Self {
        let mut names: Vec<usize> = demands.clone().into_iter().flat_map(|d| d.uses.iter().map(|(r, _)| *r)).collect();
        names.sort_unstable();
        names.dedup();
        let (capacities, services) = names.iter().map(|r| resource(*r)).map(|r| (r.capacity, r.service)).unzip();
        let mut problem = Problem { capacities, services, names, ..Problem::default() };
        demands.into_iter().for_each(|demand| problem.add(demand));
        problem
    }

    /// Adds a flow. What is only burdened by all, and used by none, stops nobody, and is not kept.
    fn add(&mut self, demand: &Demand) {
        let place = |r: usize| self.names.binary_search(&r).ok();
        let placed = |of: &[(usize, f64)]| -> Vec<(usize, f64)> {
            of.iter().filter_map(|&(r, k)| Some((place(r)?, k))).collect()
        };
        let mut uses = placed(&demand.uses);
        let mut burdens = placed(&demand.burdens);
        // what it burdens and uses itself, it takes of its own part
        burdens.retain(|(r, k)| match uses.iter_mut().find(|(used, _)| used == r) {
            Some((_, own)) => {
                *own += k;
                false
            }
            None => true,
        });
        let wait = |w: &Wait| Some(Wait { server: place(w.server)?, window: place(w.window)?, per_ns: w.per_ns });
        self.waits.push(demand.waits.iter().filter_map(wait).collect());
        self.flows.push(Flow { uses, weight: demand.weight, cap: demand.cap });
        self.burdens.push(burdens);
        self.turns.push(demand.turns);
    }

    /// Adds a resource of this capacity, of which flows take this much for each byte: `(flow, per byte)`. It has no name.
    pub fn limit(&mut self, capacity: f64, uses: impl IntoIterator<Item = (usize, f64)>) {
        for (flow, per_byte) in uses {
            if let Some(flow) = self.flows.get_mut(flow) {
                flow.uses.push((self.capacities.len(), per_byte));
            }
        }
        self.capacities.push(capacity);
        self.services.push(0.0);
    }

    /// Holds a flow to this rate.
    pub fn hold(&mut self, flow: usize, cap: f64) {
        if let Some(flow) = self.flows.get_mut(flow) {
            flow.cap = flow.cap.min(cap);
        }
    }

    /// How many flows it has.
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Whether it has no flows.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// What the caller calls a resource.
    pub(super) fn name(&self, place: usize) -> Option<usize> {
        self.names.get(place).copied()
    }

    /// Each flow's cap while all are under way.
    pub(super) fn caps(&self) -> Vec<f64> {
        let attended = Attended::of(self.turns.iter().flatten());
        let cap = |(flow, turns): (&Flow, &Option<Turns>)| match turns {
            Some(turns) => flow.cap.min(attended.cap(turns)),
            None => flow.cap,
        };
        self.flows.iter().zip(&self.turns).map(cap).collect()
    }

    /// The wait in ns at a server that is busy for this share of its time.
    pub(super) fn wait(&self, server: usize, busy: f64) -> f64 {
        Resource { capacity: self.capacities[server], service: self.services[server] }.wait(busy)
    }

    /// The share of a server's time that flows of these rates take.
    pub(super) fn load(&self, server: usize, rates: &[f64]) -> f64 {
        let taken = |(flow, rate): (&Flow, &f64)| {
            flow.uses.iter().filter(|(r, _)| *r == server).map(|(_, per_byte)| per_byte * rate).sum::<f64>()
        };
        self.flows.iter().zip(rates).map(taken).sum::<f64>() / self.capacities[server]
    }

    /// What flows of these rates use of each resource, what they burden it with, and how long requests then wait for it.
    fn taken(&self, rates: &[f64]) -> (Vec<f64>, Vec<f64>, Vec<f64>) {
        let mut used = vec![0.0; self.capacities.len()];
        let mut burdened = used.clone();
        for ((flow, burdens), rate) in self.flows.iter().zip(&self.burdens).zip(rates) {
            flow.uses.iter().for_each(|(r, k)| used[*r] += k * rate);
            burdens.iter().for_each(|(r, k)| burdened[*r] += k * rate);
        }
        let waits = (0..used.len()).map(|r| self.wait(r, used[r] / self.capacities[r])).collect();
        (used, burdened, waits)
    }

    /// What is left of a resource where so much of it is burdened.
    fn left(&self, resource: usize, burdened: f64) -> f64 {
        Resource::of(self.capacities[resource]).left(burdened)
    }

    /// Whether all flows can have these rates at once, but for a part of `tolerance` of a capacity or cap.
    pub fn carries(&self, rates: &[f64], tolerance: f64) -> bool {
        let (mut used, burdened, waits) = self.taken(rates);
        for (own, rate) in self.waits.iter().zip(rates) {
            own.iter().for_each(|w| used[w.window] += rate * w.per_ns * waits[w.server]);
        }
        let fits = |r: usize| used[r] == 0.0 || used[r] <= self.left(r, burdened[r]) + tolerance * self.capacities[r];
        let below = |(rate, cap): (&f64, f64)| *rate <= cap * (1.0 + tolerance);
        (0..used.len()).all(fits) && rates.iter().zip(self.caps()).all(below)
    }

    /// The least that each flow has, whichever of the others are under way, where none goes faster than its `most`: its part
    /// of each resource that it uses, by weight, with all of them there, and what they burden and how they wait at most.
    pub fn least(&self, most: &[f64]) -> Vec<f64> {
        let (_, burdened, waits) = self.taken(most);
        let mut pulls = vec![0.0; self.capacities.len()];
        for (flow, own) in self.flows.iter().zip(&self.waits) {
            flow.uses.iter().for_each(|(r, k)| pulls[*r] += k * flow.weight);
            own.iter().for_each(|w| pulls[w.window] += flow.weight * w.per_ns * waits[w.server]);
        }
        let part = |flow: &Flow| {
            flow.uses
                .iter()
                .map(|(r, _)| flow.weight * self.left(*r, burdened[*r]) / pulls[*r])
                .fold(f64::INFINITY, f64::min)
        };
        self.flows.iter().zip(self.caps()).zip(most).map(|((flow, cap), most)| part(flow).min(cap).min(*most)).collect()
    }

    /// What is left of this level where requests have to wait.
    fn waited_for(&self, level: f64) -> f64 {
        let rates = |level: f64| self.flows.iter().map(|flow| flow.weight * level).collect::<Vec<f64>>();
        let fits = |level: f64| self.carries(&rates(level), 1e-12);
        if self.waits.iter().all(Vec::is_empty) || !level.is_finite() || fits(level) {
            return level;
        }
        let (mut low, mut high) = (0.0, level);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if fits(middle) { low = middle } else { high = middle }
        }
        low
    }
}

/// The most at which flows of these demands can go at once, each at its weight; infinite where nothing stops any. No solution
/// gives every flow more, and it gives flows that are all alike this.
pub fn evenly(demands: &[&Demand], resource: impl Fn(usize) -> Resource) -> f64 {
    // a search for rings asks this more often than anything else, so that no problem is made of it
    let mut taken: Vec<(usize, f64, f64)> = Vec::with_capacity(16 * demands.len());
    for demand in demands {
        let own = |r: usize| demand.uses.iter().any(|(used, _)| *used == r);
        taken.extend(demand.uses.iter().map(|&(r, k)| (r, k * demand.weight, 0.0)));
        let burden = |&(r, k): &(usize, f64)| if own(r) { (r, k, 0.0) } else { (r, 0.0, k) };
        taken.extend(demand.burdens.iter().map(burden).map(|(r, u, b)| (r, u * demand.weight, b * demand.weight)));
    }
    taken.sort_unstable_by_key(|(r, ..)| *r);
    let carried = taken.chunk_by(|a, b| a.0 == b.0).map(|same| {
        let (used, burdened) = same.iter().fold((0.0, 0.0), |(used, burdened), (_, u, b)| (used + u, burdened + b));
        let capacity = if used > 0.0 { resource(same[0].0).capacity } else { f64::INFINITY };
        (capacity / (used + burdened)).max(LEAST * capacity / used)
    });
    let turns = || demands.iter().filter_map(|demand| demand.turns.as_ref());
    let attended = Attended::of(turns());
    let cap = |demand: &&Demand| demand.turns.map_or(demand.cap, |t| demand.cap.min(attended.cap(&t))) / demand.weight;
    let level = carried.chain(demands.iter().map(cap)).fold(f64::INFINITY, f64::min);
    if demands.iter().all(|demand| demand.waits.is_empty()) {
        return level;
    }
    Problem::of(demands.iter().copied(), resource).waited_for(level)
}

/// Where all that waits has given way and a queue still grows, it is taken to be this full: 200 services long.
pub(super) const FULLEST: f64 = 0.995;
