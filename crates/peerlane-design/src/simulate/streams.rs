//! Streams in steady state: what sets of transfers that each keep one pace reach together, counted and not played.
//!
//! The transfers of a ring, of a tree or of a chain send the same bytes in the same time: each waits for the one before it.
//! Such a set is one flow that takes what all of its transfers take, as in
//! [`peerlane_model::collectives::together`]. On a large cluster most nodes and links are asked for the same by the same
//! streams. Those of one kind stop a stream at one pace, so that one of each kind goes to the solver.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::SimulateError;
use super::mix::{Mix, mixed};
use crate::cluster::{Place, Router, Via};
use peerlane_machine::matrix::Engine;
use peerlane_model::solve::{Attended, Binding, Demand, Problem, Resource, Turns, Wait};

/// Takes one transfer after the other: from, to, and how many bytes it moves for each byte of its stream.
pub type Visit<'v> = &'v mut dyn FnMut(Place, Place, f64);

/// Transfers that all keep one pace.
pub struct Stream<'s>(Box<dyn Fn(Visit) + 's>);

impl<'s> Stream<'s> {
    /// The transfers that a function lists, in the same order whenever it is called.
    pub fn new(each: impl Fn(Visit) + 's) -> Self {
        Stream(Box::new(each))
    }

    /// A ring: each place sends to the next, and the last to the first.
    pub fn ring(places: Vec<Place>) -> Self {
        Stream::new(move |visit| {
            let next = places.iter().cycle().skip(1);
            places.iter().zip(next).for_each(|(from, to)| visit(*from, *to, 1.0));
        })
    }

    /// A chain of positions among places: each sends to the next.
    pub(super) fn of_pairs(chain: &'s [usize], places: &'s [Place]) -> Self {
        Stream::new(move |visit| chain.windows(2).for_each(|pair| visit(places[pair[0]], places[pair[1]], 1.0)))
    }

    /// All transfers in their order.
    pub(super) fn each(&self, visit: Visit) {
        (self.0)(visit);
    }

    /// These transfers.
    pub fn of(transfers: Vec<(Place, Place, f64)>) -> Self {
        Stream::new(move |visit| transfers.iter().for_each(|(from, to, weight)| visit(*from, *to, *weight)))
    }
}

/// What a stream reaches.
#[derive(Clone, Debug, PartialEq)]
pub struct Pace {
    /// In bytes a second; infinite where nothing stops it.
    pub rate: f64,
    /// What stops it: resources of one kind with `#` for their numbers, or a cap. `None` where nothing does.
    pub binding: Option<String>,
}

/// The paces of streams that all run at once. Kernels drive what stays within a node.
///
/// # Errors
/// Where two places are not joined, or the resources make no sense to the solver.
pub fn paces(router: &mut Router, streams: &[Stream]) -> Result<Vec<Pace>, SimulateError> {
    paces_by(router, Engine::Sm, streams)
}

/// The same with another engine within nodes.
pub(super) fn paces_by(router: &mut Router, engine: Engine, streams: &[Stream]) -> Result<Vec<Pace>, SimulateError> {
    let mut count = Count { router, engine, channels: Vec::new() };
    let kinds = count.kinds(streams)?;
    let joint = count.joint(streams, &kinds)?;
    joint.solve()
}

type Fast<K, V> = HashMap<K, V, BuildHasherDefault<Mix>>;

/// Nodes and channels that stand for all that are asked for the same.
struct Kinds {
    nodes: Vec<bool>,
    channels: Fast<u64, ()>,
}

struct Count<'r, 'a> {
    router: &'r mut Router<'a>,
    engine: Engine,
    channels: Vec<u64>,
}

/// What one transfer uses: its stream, its weight, its legs, its parts.
type Used = (usize, f64, [(u32, u32); 2], usize, u32);

impl Count<'_, '_> {
    /// Lists all transfers: legs, and channels in `self.channels`.
    fn each(&mut self, streams: &[Stream], mut take: impl FnMut(&mut Self, Used)) -> Result<(), SimulateError> {
        let mut failed = None;
        for (number, stream) in streams.iter().enumerate() {
            (stream.0)(&mut |from, to, weight| {
                if failed.is_some() || from == to || weight <= 0.0 {
                    return;
                }
                let mut channels = std::mem::take(&mut self.channels);
                channels.clear();
                let course = self.router.course(from, to, self.engine, Via::Direct, &mut channels);
                self.channels = channels;
                match course {
                    Ok(course) => take(self, (number, weight, course.legs, course.count, course.parts)),
                    Err(e) => failed = Some(e),
                }
            });
        }
        failed.map_or(Ok(()), |e| Err(e.into()))
    }

    /// Sums of hashes: equal sums are of equal terms, but for a chance of 2⁻⁶⁴.
    fn kinds(&mut self, streams: &[Stream]) -> Result<Kinds, SimulateError> {
        let mut nodes: Vec<u64> = Vec::new();
        let mut channels: Fast<u64, u64> = Fast::default();
        self.each(streams, |count, (stream, weight, legs, n, parts)| {
            let by_stream = mixed(weight.to_bits() ^ (stream as u64) << 1);
            for (node, leg) in &legs[..n] {
                let node = *node as usize;
                if node >= nodes.len() {
                    nodes.resize(node + 1, 0);
                }
                nodes[node] = nodes[node].wrapping_add(mixed(by_stream ^ mixed(u64::from(*leg))));
            }
            let by_part = mixed(by_stream ^ u64::from(parts));
            for channel in &count.channels {
                let mark = channels.entry(*channel).or_default();
                *mark = mark.wrapping_add(by_part);
            }
        })?;
        let mut known: Fast<u64, ()> = Fast::default();
        let nodes = nodes.iter().map(|mark| known.insert(*mark, ()).is_none()).collect();
        // by kind and mark the least number, so that the choice does not depend on the map's order
        let mut first: Fast<u64, u64> = Fast::default();
        for (channel, mark) in &channels {
            let kind = mixed(*mark ^ mixed(self.router.channel_kind(*channel)));
            let least = first.entry(kind).or_insert(*channel);
            *least = (*least).min(*channel);
        }
        Ok(Kinds { nodes, channels: first.into_values().map(|channel| (channel, ())).collect() })
    }

    /// What the streams ask of the nodes and channels that stand for all.
    fn joint(&mut self, streams: &[Stream], kinds: &Kinds) -> Result<Joint, SimulateError> {
        let mut joint = Joint::new(streams.len());
        let mut failed = None;
        self.each(streams, |count, (stream, weight, legs, n, parts)| {
            for (node, leg) in legs[..n].iter().filter(|(node, _)| kinds.nodes[*node as usize]) {
                if let Err(e) = joint.add_leg_of(count.router, stream, weight, 1, (*node, *leg)) {
                    failed = Some(e);
                }
            }
            for at in 0..count.channels.len() {
                let channel = count.channels[at];
                if kinds.channels.contains_key(&channel)
                    && let Err(e) = joint.add_channel(count.router, stream, weight / f64::from(parts), channel)
                {
                    failed = Some(e);
                }
            }
        })?;
        failed.map_or(Ok(joint), Err)
    }
}

/// Streams as flows.
pub(super) struct Joint {
    resources: Vec<Resource>,
    names: Vec<String>,
    /// `(node, resource of its model)` or `(u32::MAX, channel)`: its number.
    numbers: Fast<(u32, u64), usize>,
    /// By stream and resource.
    uses: Vec<Fast<usize, f64>>,
    burdens: Vec<Fast<usize, f64>>,
    waits: Vec<Vec<Wait>>,
    /// By stream: the least of its transfers' own caps, and why.
    caps: Vec<(f64, Option<String>)>,
    /// Transfers that are attended to in turn: the stream, the weight of each, how many there are, and their turns.
    turns: Vec<(usize, f64, i64, Turns)>,
}

impl Joint {
    pub(super) fn new(streams: usize) -> Self {
        Joint {
            resources: Vec::new(),
            names: Vec::new(),
            numbers: Fast::default(),
            uses: vec![Fast::default(); streams],
            burdens: vec![Fast::default(); streams],
            waits: vec![Vec::new(); streams],
            caps: vec![(f64::INFINITY, None); streams],
            turns: Vec::new(),
        }
    }

    fn number(
        &mut self,
        key: (u32, u64),
        known: impl FnOnce() -> Result<(Resource, String), crate::cluster::ClusterError>,
    ) -> Result<usize, SimulateError> {
        if let Some(number) = self.numbers.get(&key) {
            return Ok(*number);
        }
        let (resource, name) = known()?;
        self.resources.push(resource);
        self.names.push(name);
        self.numbers.insert(key, self.resources.len() - 1);
        Ok(self.resources.len() - 1)
    }

    /// So many transfers of one leg, `(node, leg)`, each with `weight` bytes for each byte of the stream.
    pub(super) fn add_leg_of(
        &mut self,
        router: &mut Router,
        stream: usize,
        weight: f64,
        transfers: i64,
        (node, leg): (u32, u32),
    ) -> Result<(), SimulateError> {
        let of = router.leg_of(leg);
        let (demand, cap_why) = (of.demand.clone(), of.cap_why.clone());
        let all = weight * transfers as f64;
        let mut local = |joint: &mut Joint, r: usize| joint.number((node, r as u64), || router.local(r));
        for &(r, per_byte) in &demand.uses {
            let number = local(self, r)?;
            *self.uses[stream].entry(number).or_default() += all * per_byte;
        }
        for &(r, per_byte) in &demand.burdens {
            let number = local(self, r)?;
            *self.burdens[stream].entry(number).or_default() += all * per_byte;
        }
        for wait in &demand.waits {
            let (server, window) = (local(self, wait.server)?, local(self, wait.window)?);
            self.waits[stream].push(Wait { server, window, per_ns: all * wait.per_ns });
        }
        if demand.cap / weight < self.caps[stream].0 {
            self.caps[stream] = (demand.cap / weight, cap_why);
        }
        if let Some(turns) = demand.turns {
            let places = turns.places.map(|place| place.wrapping_add(u64::from(node) << 32));
            self.turns.push((stream, weight, transfers, Turns { places, ..turns }));
        }
        Ok(())
    }

    pub(super) fn add_channel(
        &mut self,
        router: &mut Router,
        stream: usize,
        weight: f64,
        channel: u64,
    ) -> Result<(), SimulateError> {
        let known = || router.channel(channel).map(|(rate, name)| (Resource::of(rate), name));
        let number = self.number((u32::MAX, channel), known)?;
        *self.uses[stream].entry(number).or_default() += weight;
        Ok(())
    }

    pub(super) fn solve(mut self) -> Result<Vec<Pace>, SimulateError> {
        let mut attended = Attended::default();
        self.turns.iter().for_each(|(_, _, transfers, turns)| attended.add(turns, *transfers));
        for (stream, weight, _, turns) in &self.turns {
            let cap = attended.cap(turns) / weight;
            if cap < self.caps[*stream].0 {
                self.caps[*stream] = (cap, Some("taking turns".to_owned()));
            }
        }
        let sorted = |of: &Fast<usize, f64>| {
            let mut all: Vec<(usize, f64)> = of.iter().map(|(r, k)| (*r, *k)).collect();
            all.sort_unstable_by_key(|(r, _)| *r);
            all
        };
        let demand = |stream: usize| Demand {
            uses: sorted(&self.uses[stream]),
            burdens: sorted(&self.burdens[stream]),
            waits: self.waits[stream].clone(),
            cap: self.caps[stream].0,
            ..Demand::default()
        };
        let demands: Vec<Demand> = (0..self.uses.len()).map(demand).collect();
        let problem = Problem::of(&demands, |r| self.resources[r]);
        let solution = problem.solve().map_err(|e| SimulateError::Network(e.to_string()))?;
        let name = |(stream, binding): (usize, &Binding)| match binding {
            Binding::Resource(r) => self.names.get(*r).cloned(),
            Binding::Cap => self.caps[stream].1.clone(),
            Binding::Nothing => None,
        };
        let names = solution.bindings.iter().enumerate().map(name);
        Ok(solution.rates.iter().zip(names).map(|(rate, binding)| Pace { rate: *rate, binding }).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Cluster, Wanted};
    use peerlane_machine::units::Seconds;
    use peerlane_model::collectives::{Rings, together};
    use peerlane_model::flows::{Flows, interchangeable};
    use peerlane_read::catalogue::{Parts, system};

    fn hgx(nodes: u32, network: &str) -> Cluster {
        let wanted: Wanted = network.parse().unwrap();
        Cluster::of(system("hgx-h200").unwrap().unwrap(), nodes, &wanted, None, Seconds::from_us(0.3)).unwrap()
    }

    /// Rings of GPUs with the same place in their node.
    fn rails(cluster: &Cluster) -> Vec<Stream<'_>> {
        let gpus = cluster.gpus().len();
        let places = cluster.places();
        let rail = |i: usize| Stream::ring(places.iter().skip(i).step_by(gpus).copied().collect());
        (0..gpus).map(rail).collect()
    }

    #[test]
    fn rings_of_one_machine_go_as_the_model_says() {
        for name in ["h200x4-vm", "exxact-devbox", "exxact-txr550", "exxact-traditional", "dgx-1v", "hgx-h200"] {
            let machine = system(name).unwrap().unwrap();
            let cluster = Cluster::single(machine);
            let mut router = Router::new(&cluster, Parts::embedded());
            let (orders, paces_of_model) = {
                let flows = Flows::new(router.model(), Engine::Sm);
                let all: Vec<usize> = (0..cluster.gpus().len()).collect();
                let rings = Rings::best(&flows, &all, &interchangeable(&flows)).unwrap();
                let pairs = |order: &Vec<usize>| -> Vec<(usize, usize)> {
                    (0..order.len()).map(|i| (order[i], order[(i + 1) % order.len()])).collect()
                };
                let sets: Vec<_> = rings.rings.iter().map(|(order, _)| pairs(order)).collect();
                let orders: Vec<Vec<usize>> = rings.rings.into_iter().map(|(order, _)| order).collect();
                (orders, together(&flows, &sets).unwrap())
            };
            let places = cluster.places();
            let streams: Vec<Stream> =
                orders.iter().map(|order| Stream::ring(order.iter().map(|g| places[*g]).collect())).collect();
            let got = paces(&mut router, &streams).unwrap();
            for (pace, expected) in got.iter().zip(&paces_of_model) {
                assert!((pace.rate / expected - 1.0).abs() < 1e-9, "{name}: {pace:?}, {expected}");
                assert!(pace.binding.is_some(), "{name}");
            }
        }
    }

    #[test]
    fn a_ring_around_nodes_goes_as_fast_on_four_nodes_as_on_four_thousand() {
        let rate = |nodes: u32| {
            let cluster = hgx(nodes, "rail");
            let mut router = Router::new(&cluster, Parts::embedded());
            paces(&mut router, &rails(&cluster)).unwrap()
        };
        let (few, many) = (rate(4), rate(4096));
        assert_eq!(few, many);
        assert!((few[0].rate / 48.2e9 - 1.0).abs() < 0.01, "{:?}", few[0]);
        assert!(few.iter().all(|pace| pace.binding.as_ref().is_some_and(|b| b.contains('#'))), "{:?}", few[0]);
    }

    #[test]
    fn weights_count_bytes_for_each_byte_of_the_stream() {
        let cluster = hgx(2, "switch");
        let mut router = Router::new(&cluster, Parts::embedded());
        let places = cluster.places();
        let of = |weight: f64| Stream::of(vec![(places[0], places[8], weight)]);
        let alone = paces(&mut router, &[of(1.0)]).unwrap()[0].rate;
        assert!((alone / router.way(places[0], places[8], Engine::Sm).unwrap().lone - 1.0).abs() < 1e-12);
        let double = paces(&mut router, &[of(2.0)]).unwrap()[0].rate;
        assert!((2.0 * double / alone - 1.0).abs() < 1e-12);
        // two streams of one path share it, by pace
        let shared = paces(&mut router, &[of(1.0), of(3.0)]).unwrap();
        assert!((shared[0].rate * 4.0 / alone - 1.0).abs() < 1e-9, "{shared:?} {alone}");
        assert!((shared[0].rate / shared[1].rate - 1.0).abs() < 1e-9, "{shared:?}");
    }

    #[test]
    fn places_that_are_not_joined_are_refused() {
        let cluster = Cluster::single(system("hgx-h200").unwrap().unwrap());
        let mut router = Router::new(&cluster, Parts::embedded());
        let [a, mut b] = [cluster.places()[0], cluster.places()[1]];
        b.node = 1;
        assert!(paces(&mut router, &[Stream::of(vec![(a, b, 1.0)])]).is_err());
        assert_eq!(paces(&mut router, &[]).unwrap(), []);
    }
}
