//! Rings that run at once: which are worth having, and what each then carries.

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use super::bound::{most, through_each};
use super::mesh::rings_over_all_links;
use super::over::{Over, ring_pairs, together};
use super::search::Search;
use crate::flows::{Flows, Pair, interchangeable};
use crate::model::Model;
use peerlane_machine::matrix::Engine;

/// A further ring is worth its while if all of them then carry more by this share of what the first does.
const WORTH: f64 = 0.02;

/// A further ring is sought on what those so far leave of every resource: all that they leave, and what they would at half
/// their rates, for a ring that shares what binds them.
const TAKEN: [f64; 2] = [1.0, 0.5];

/// Up to so many GPUs the search begins at each of them where it has to.
const MOST_BEGUN: usize = 8;

/// More rings than any mesh has.
const MOST_RINGS: usize = 16;

/// Equal but for rounding and the steps of the solver.
const ROUNDING: f64 = 1e-6;

/// One ring.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Ring {
    /// The GPUs, each sending to the next and the last to the first.
    pub order: Vec<String>,
    /// What each of its transfers reaches, all at one pace, while all rings run, in GB/s.
    pub rate: f64,
}

/// Rings over the same GPUs, all running at once.
#[derive(Clone, Debug, PartialEq)]
pub struct Rings {
    /// Each one's GPUs by their places in [`Flows`], every one sending to the next, and its pace in bytes a second. The
    /// first is the fastest by itself.
    pub rings: Vec<(Vec<usize>, f64)>,
    /// Whether no single ring is faster than the first is by itself.
    pub exact: bool,
    /// No rings over paths of this kind carry more, in bytes a second.
    pub(crate) bound: f64,
}

impl Rings {
    /// The best rings of these GPUs; `None` below two, or where a pair's rate is not known. `kinds` are groups of GPUs
    /// that can change places without any rate changing ([`crate::flows::interchangeable`]).
    pub fn best(flows: &Flows, gpus: &[usize], kinds: &[Vec<usize>]) -> Option<Rings> {
        let mut gpus = gpus.to_vec();
        gpus.sort_unstable();
        let mut best = Rings::one_by_one(flows, &gpus, kinds)?;
        // on a mesh, where one ring leaves links that make no other, begin the search elsewhere
        let most_begun = if gpus.len() <= MOST_BEGUN { gpus.len() } else { 1 };
        for _ in 1..most_begun {
            if best.rings.len() < 2 || best.rate() >= best.bound * (1.0 - ROUNDING) {
                break;
            }
            gpus.rotate_left(1);
            if let Some(other) =
                Rings::one_by_one(flows, &gpus, kinds).filter(|o| o.rate() > best.rate() * (1.0 + ROUNDING))
            {
                best = other;
            }
        }
        if best.rings.len() > 1 && best.rate() < best.bound * (1.0 - ROUNDING) {
            gpus.sort_unstable();
            best.take_all_links(flows, &gpus);
        }
        for (order, _) in &mut best.rings {
            let first = (0..order.len()).min_by_key(|at| order[*at]).unwrap_or(0);
            order.rotate_left(first);
        }
        Some(best)
    }

    /// The first ring, and then always that which adds most.
    fn one_by_one(flows: &Flows, gpus: &[usize], kinds: &[Vec<usize>]) -> Option<Rings> {
        let over = Over::new(flows, gpus, kinds);
        if over.len() < 2 || !over.is_complete() {
            return None;
        }
        let alone = over.each_alone();
        let first = Search::first(&over, &alone).best()?;
        // NCCL's channels all go over paths of one kind, too
        let kind = ring_pairs(&first.order).into_iter().filter_map(|pair| over.path(pair)).max()?;
        let of_kind = |pair: Pair| over.path(pair).is_some_and(|path| path <= kind);
        let bound = most(&over, &alone, |i, j| of_kind((i, j)));
        let mut orders = vec![first.order.clone()];
        let mut paces = over.paces(&orders)?;
        let sum = |paces: &[f64]| paces.iter().sum::<f64>();
        let least = sum(&paces) * WORTH;
        while orders.len() < MOST_RINGS && sum(&paces) < bound * (1.0 - ROUNDING) {
            let further = |share: f64| {
                let (left, taken) = left_by(&over, &orders, &paces, share);
                Search::further(&over, &left, |pair| of_kind(pair) && !taken.contains(&pair)).best()
            };
            let mut best: Option<(Vec<usize>, Vec<f64>)> = None;
            for share in TAKEN {
                let Some(ring) = further(share) else { continue };
                let all = [orders.as_slice(), std::slice::from_ref(&ring.order)].concat();
                let Some(rates) = over.paces(&all) else { continue };
                if best.as_ref().is_none_or(|(_, known)| sum(&rates) > sum(known) * (1.0 + ROUNDING)) {
                    best = Some((ring.order, rates));
                }
            }
            let Some((order, more)) = best.filter(|(_, more)| sum(more) > sum(&paces) + least) else { break };
            orders.push(order);
            paces = more;
        }
        let bound = bound.max(sum(&paces));
        let exact = first.exact || sum(&paces) >= bound * (1.0 - ROUNDING);
        let places = |order: Vec<usize>| order.into_iter().filter_map(|at| gpus.get(at).copied()).collect();
        Some(Rings { rings: orders.into_iter().map(places).zip(paces).collect(), exact, bound })
    }

    /// Takes rings over all links of a mesh at once instead, where they carry more.
    fn take_all_links(&mut self, flows: &Flows, gpus: &[usize]) {
        let over = Over::new(flows, gpus, &[]);
        for orders in rings_over_all_links(&over, &over.each_alone(), MOST_RINGS) {
            let Some(paces) = over.paces(&orders) else { continue };
            if paces.iter().sum::<f64>() > self.rate() * (1.0 + ROUNDING) {
                let places = |order: Vec<usize>| order.into_iter().filter_map(|at| gpus.get(at).copied()).collect();
                self.rings = orders.into_iter().map(places).zip(paces).collect();
                self.bound = self.bound.max(self.rate());
                self.exact |= self.rate() >= self.bound * (1.0 - ROUNDING);
            }
        }
    }

    /// One ring in this order; `None` as for [`Rings::best`].
    pub fn in_order(flows: &Flows, gpus: &[usize]) -> Option<Rings> {
        let over = Over::new(flows, gpus, &[]);
        let pace = *over.paces(&[(0..over.len()).collect()]).filter(|_| over.len() > 1)?.first()?;
        Some(Rings { rings: vec![(gpus.to_vec(), pace)], exact: true, bound: pace })
    }

    /// Rings of these orders, as a library reports them; `None` where a pair's rate is not known.
    pub fn given(flows: &Flows, orders: Vec<Vec<usize>>) -> Option<Rings> {
        let sets: Vec<Vec<Pair>> = orders.iter().map(|order| ring_pairs(order)).collect();
        let paces = together(flows, &sets)?;
        let bound = paces.iter().sum();
        Some(Rings { rings: orders.into_iter().zip(paces).collect(), exact: true, bound })
    }

    /// What all of them carry, in bytes a second: the bus bandwidth, as nccl-tests counts it, of an all-reduce of large
    /// messages.
    pub fn rate(&self) -> f64 {
        self.rings.iter().map(|(_, pace)| pace).sum()
    }

    /// The transfers of each ring.
    pub fn sets(&self) -> Vec<Vec<Pair>> {
        self.rings.iter().map(|(order, _)| ring_pairs(order)).collect()
    }

    /// The rings in names.
    pub fn named(&self, flows: &Flows) -> Vec<Ring> {
        let names = |order: &[usize]| order.iter().map(|gpu| flows.name(*gpu).to_owned()).collect();
        self.rings.iter().map(|(order, pace)| Ring { order: names(order), rate: pace / 1e9 }).collect()
    }
}

/// For each of these GPUs the most that any rings among some of them carry through it, in bytes a second.
pub fn most_through(flows: &Flows, gpus: &[usize]) -> Vec<f64> {
    let over = Over::new(flows, gpus, &[]);
    through_each(&over, &over.each_alone())
}

/// The bus bandwidth, in GB/s as nccl-tests counts it, that the best rings through all GPUs of a machine carry; `None` where
/// a pair's rate is not known.
pub fn bus_bandwidth(model: &Model) -> Option<f64> {
    let flows = Flows::new(model, Engine::Sm);
    let gpus: Vec<usize> = (0..flows.gpus()).collect();
    Rings::best(&flows, &gpus, &interchangeable(&flows)).map(|rings| rings.rate() / 1e9)
}

/// What rings leave of every resource at this share of their rates, and the pairs that have a pace of their own, such as that of buffers in host memory,
/// which serve one ring.
fn left_by(over: &Over, orders: &[Vec<usize>], paces: &[f64], share: f64) -> (Vec<f64>, Vec<Pair>) {
    let mut left = over.flows.capacities.clone();
    let mut taken = Vec::new();
    for (order, pace) in orders.iter().zip(paces) {
        for pair in ring_pairs(order) {
            let Some(flow) = over.flow(pair) else { continue };
            for &(r, per_byte) in flow.demand.uses.iter().chain(&flow.demand.burdens) {
                if let Some(left) = left.get_mut(r) {
                    *left = (*left - per_byte * pace * share).max(0.0);
                }
            }
            if flow.demand.own_cap().is_finite() {
                taken.push(pair);
            }
        }
    }
    (left, taken)
}
