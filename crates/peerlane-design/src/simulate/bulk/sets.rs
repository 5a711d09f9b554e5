//! Sets of transfers that start by themselves and share scarce resources: solved, and each kind of set once.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher};

use super::scarce::{Scarce, turns_at};
use super::{Bulk, Count, Flow, NONE};
use crate::cluster::shares;
use crate::simulate::SimulateError;
use crate::simulate::flows::Flows;
use crate::simulate::mix::Mix;
use peerlane_model::solve::incremental::Hold;
use peerlane_model::solve::{Demand, Resource, Turns, Wait};

/// A transfer of a set.
#[derive(Clone, Copy, Debug)]
struct Shared {
    /// Until the first byte, in seconds.
    start: f64,
    bytes: f64,
    /// Rate by itself.
    lone: f64,
    /// Where it is attended to in turn with others: at what its parts say.
    turns: Option<Turns>,
}

/// What a transfer asks of a resource of its set.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    /// So much per byte.
    Uses(f64),
    /// So much per byte, without waiting for it.
    Burdens(f64),
    /// To be served; waiting takes so much of this window per byte and ns.
    Waits {
        /// The window, as a resource.
        window: u32,
        /// Share of it.
        per_ns: f64,
    },
    /// A turn.
    Attended,
}

impl Part {
    fn words(self) -> [u64; 2] {
        match self {
            Part::Uses(per_byte) => [0, per_byte.to_bits()],
            Part::Burdens(per_byte) => [1, per_byte.to_bits()],
            Part::Waits { window, per_ns } => [2 | u64::from(window) << 8, per_ns.to_bits()],
            Part::Attended => [3, 0],
        }
    }
}

/// A set in numbers of its own.
#[derive(Debug, Default)]
struct Described {
    /// Transfers, and where the uses of each end in `routes`.
    transfers: Vec<(Shared, u32)>,
    /// `(resource of the set, what is asked of it)`.
    routes: Vec<(u32, Part)>,
    /// By its number in the set.
    resources: Vec<Resource>,
    /// By resource of the set: its kind.
    kinds: Vec<u32>,
}

/// How a set goes.
#[derive(Debug)]
struct Solved {
    /// When each transfer ends.
    ends: Vec<f64>,
    /// By what kind of resource each is held then; `None` where by what holds it by itself.
    held: Vec<Option<u32>>,
}

impl Described {
    fn route(&self, transfer: usize) -> &[(u32, Part)] {
        let from = if transfer == 0 { 0 } else { self.transfers[transfer - 1].1 };
        &self.routes[from as usize..self.transfers[transfer].1 as usize]
    }

    /// All that decides how it goes, bit by bit.
    fn words(&self) -> impl Iterator<Item = u64> {
        let transfers = self.transfers.iter().flat_map(|(t, end)| {
            let turns = t.turns.map_or([0; 2], |turns| [turns.rate.to_bits(), turns.seconds.to_bits()]);
            [t.start.to_bits(), t.bytes.to_bits(), t.lone.to_bits(), u64::from(*end)].into_iter().chain(turns)
        });
        let route = |(r, part): &(u32, Part)| {
            let [what, how_much] = part.words();
            [u64::from(*r) | what << 32, how_much]
        };
        let routes = self.routes.iter().flat_map(route);
        let resources = self.resources.iter().zip(&self.kinds);
        let resources = resources.flat_map(|(r, k)| [r.capacity.to_bits(), r.service.to_bits(), u64::from(*k)]);
        transfers.chain(routes).chain(resources)
    }

    fn sizes(&self) -> [usize; 3] {
        [self.transfers.len(), self.routes.len(), self.resources.len()]
    }

    fn same(&self, other: &Described) -> bool {
        self.sizes() == other.sizes() && self.words().eq(other.words())
    }

    /// Plays it.
    fn solve(&self) -> Result<Solved, SimulateError> {
        let network = |e: peerlane_model::solve::ShareError| SimulateError::Network(e.to_string());
        let n = self.transfers.len();
        let mut flows = Flows::of(&self.resources).map_err(network)?;
        let demands: Vec<Demand> = (0..n).map(|i| self.demand(i)).collect();
        let classes: Result<Vec<u32>, _> = demands.iter().map(|demand| flows.class_of(demand)).collect();
        let classes = classes.map_err(network)?;
        let start = |i: u32| self.transfers[i as usize].0.start;
        let mut order: Vec<u32> = (0..n as u32).collect();
        order.sort_by(|a, b| start(*a).total_cmp(&start(*b)));
        let (mut ends, mut held) = (vec![0.0; n], vec![None; n]);
        let (mut next, mut ended) = (0, Vec::new());
        loop {
            let begins = order.get(next).map(|i| start(*i));
            let Some(now) = flows.next_end().into_iter().chain(begins).reduce(f64::min) else { break };
            ended.clear();
            flows.advance(now, &mut ended);
            for &i in &ended {
                ends[i as usize] = now;
                if let Hold::Link(link) = flows.solver().hold(classes[i as usize]) {
                    held[i as usize] = Some(self.kinds[link as usize]);
                }
            }
            while let Some(&i) = order.get(next).filter(|i| start(**i) <= now) {
                flows.start(classes[i as usize], self.transfers[i as usize].0.bytes, i);
                next += 1;
            }
        }
        if flows.active() > 0 {
            return Err(SimulateError::Stalled(flows.active()));
        }
        Ok(Solved { ends, held })
    }

    /// What a transfer asks of the set's resources; by itself it has its lone rate, whatever gives it that.
    fn demand(&self, transfer: usize) -> Demand {
        let (shared, _) = self.transfers[transfer];
        let mut demand = Demand { cap: shared.lone, ..Demand::default() };
        let mut places = Vec::new();
        for &(number, part) in self.route(transfer) {
            let resource = number as usize;
            match part {
                Part::Uses(per_byte) => demand.uses.push((resource, per_byte)),
                Part::Burdens(per_byte) => demand.burdens.push((resource, per_byte)),
                Part::Waits { window, per_ns } => {
                    demand.waits.push(Wait { server: resource, window: window as usize, per_ns });
                }
                Part::Attended => places.push(u64::from(number)),
            }
        }
        if let ([a, b], Some(turns)) = (places.as_slice(), shared.turns) {
            demand.turns = Some(Turns { places: [*a, *b], ..turns });
        }
        demand
    }
}

/// Sets that were solved.
#[derive(Default)]
struct Known {
    sets: Vec<(Described, Solved)>,
    by_hash: HashMap<u64, Vec<u32>>,
    hasher: std::hash::BuildHasherDefault<Mix>,
}

impl Known {
    /// How a set goes: as one that is the same, or as `solve` says.
    fn find(
        &mut self,
        set: Described,
        solve: impl Fn(&Described) -> Result<Solved, SimulateError>,
    ) -> Result<&Solved, SimulateError> {
        let mut hasher = self.hasher.build_hasher();
        set.words().for_each(|word| word.hash(&mut hasher));
        let alike = self.by_hash.entry(hasher.finish()).or_default();
        let known = alike.iter().copied().find(|k| self.sets[*k as usize].0.same(&set));
        let at = match known {
            Some(at) => at as usize,
            None => {
                let solved = solve(&set)?;
                alike.push(self.sets.len() as u32);
                self.sets.push((set, solved));
                self.sets.len() - 1
            }
        };
        Ok(&self.sets[at].1)
    }
}

/// Which transfers share something.
struct Sets {
    /// By transfer: the number of its set, or `u32::MAX`.
    of: Vec<u32>,
    /// Transfers, set by set, in their order.
    members: Vec<u32>,
}

/// Numbers of a set's own for the scarce resources that it uses, in the order of their use.
struct Numbers {
    /// By resource: of which set its number is, and the number.
    of: Vec<(u32, u32)>,
    set: u32,
    used: u32,
}

impl Numbers {
    fn new(resources: usize) -> Self {
        Numbers { of: vec![(0, 0); resources], set: 0, used: 0 }
    }

    fn next_set(&mut self) {
        self.set += 1;
        self.used = 0;
    }

    fn of(&mut self, resource: u32) -> u32 {
        let known = &mut self.of[resource as usize];
        if known.0 != self.set {
            *known = (self.set, self.used);
            self.used += 1;
        }
        known.1
    }
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

impl Count<'_, '_> {
    /// With what is scarce shared: set by set of transfers that share something, directly or through others. Sets that are
    /// the same but for the numbers of what they use go the same way, so that each kind of them is solved once.
    pub(super) fn solved(&self, scarce: &Scarce) -> Result<Bulk, SimulateError> {
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
        locals.chain(shares(channels, self.flows[i].parts).filter_map(|(channel, share)| {
            let number = scarce.channels.get(&channel)?;
            Some((*number, self.channel_kinds[&self.router.channel_kind(channel)], Part::Uses(share)))
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
