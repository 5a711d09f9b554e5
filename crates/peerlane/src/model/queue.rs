//! Rates of flows that burden each other's way back and wait for each other in queues.
//!
//! [`crate::share`] divides what is there. What is there hangs on the rates themselves in two ways, each found by fixed
//! point: requests and answers make a channel smaller for those who use it, and whoever has only so many bytes on their
//! way goes slower the longer each is on its way (Little's law). `docs/model.md`, sections 1 and 5.

use std::borrow::Cow;

use super::{Route, Staging};
use crate::share::{Allocation, Flow, ShareError, share};

/// A queue on the way of a transfer's requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wait {
    /// What is waited for: a resource with a time of service.
    pub server: usize,
    /// The room for requests on their way, a resource that the transfer uses.
    pub window: usize,
    /// How much more of the window a byte takes for each ns of waiting.
    pub per_ns: f64,
}

/// Flows over resources. All numbers of resources are places in these lists.
#[derive(Clone, Debug, Default)]
pub(crate) struct Problem {
    /// Of each resource, in bytes a second.
    capacities: Vec<f64>,
    /// How long each resource serves one request in ns, 0 where it makes nobody wait.
    services: Vec<f64>,
    flows: Vec<Flow>,
    overheads: Vec<Vec<(usize, f64)>>,
    waits: Vec<Vec<Wait>>,
}

/// A resource keeps at least this share of itself, whatever goes back over it.
const LEAST: f64 = 0.05;
/// Rounds that more than suffice: each shrinks the change by the overheads, which are fractions.
const ROUNDS: usize = 60;
/// Where all that waits has given way and a queue still grows, it is taken to be this full: 200 services long.
const FULLEST: f64 = 0.995;
/// Halvings of an interval of waits: to a part in 10⁹.
const HALVINGS: usize = 30;
/// Times that all queues are gone through where there are several: what waits at one gives way at the others.
const PASSES: usize = 4;

impl Problem {
    /// Resources of these capacities in bytes a second and times of service in ns; nothing to be moved.
    pub(crate) fn new(resources: impl Iterator<Item = (f64, f64)>) -> Self {
        let (capacities, services) = resources.unzip();
        Problem { capacities, services, ..Problem::default() }
    }

    /// Adds a resource of this capacity, of which flows take this much for each byte: `(flow, per byte)`.
    pub(crate) fn limit(&mut self, capacity: f64, uses: impl IntoIterator<Item = (usize, f64)>) {
        for (flow, per_byte) in uses {
            if let Some(flow) = self.flows.get_mut(flow) {
                flow.uses.push((self.capacities.len(), per_byte));
            }
        }
        self.capacities.push(capacity);
        self.services.push(0.0);
    }

    /// Adds a route; `place` gives a resource's number here, `None` for what nobody uses.
    pub(crate) fn add(&mut self, route: &Route, cap: f64, place: impl Fn(usize) -> Option<usize>) {
        let placed = |of: &[(usize, f64)]| -> Vec<(usize, f64)> {
            of.iter().filter_map(|&(r, per_byte)| Some((place(r)?, per_byte))).collect()
        };
        self.flows.push(Flow { uses: placed(&route.uses), weight: route.weight, cap });
        self.overheads.push(placed(&route.overheads));
        let wait = |w: &Wait| Some(Wait { server: place(w.server)?, window: place(w.window)?, ..*w });
        self.waits.push(route.waits.iter().filter_map(wait).collect());
    }

    /// The rates of all flows at once.
    ///
    /// A server that is busy for a share ρ of its time makes each request wait for service · ρ ÷ (1 − ρ), as one queue with
    /// independent arrivals does (Kleinrock, *Queueing Systems*, vol. 1, §3.2). Waiting slows those who wait, which
    /// empties the queue: there is one wait that agrees with itself.
    pub(crate) fn solve(&self) -> Result<Allocation, ShareError> {
        let mut servers: Vec<usize> = self.waits.iter().flatten().map(|w| w.server).collect();
        servers.sort_unstable();
        servers.dedup();
        servers.retain(|s| self.services.get(*s).is_some_and(|ns| *ns > 0.0));
        let mut waits = vec![0.0; self.capacities.len()];
        let mut allocation = self.allocate(&waits)?;
        for _ in 0..if servers.len() > 1 { PASSES } else { 1 } {
            for &server in &servers {
                allocation = self.settle(server, &mut waits, allocation)?;
            }
        }
        Ok(allocation)
    }

    /// Finds the wait at one server while the others keep theirs.
    fn settle(&self, server: usize, waits: &mut [f64], free: Allocation) -> Result<Allocation, ShareError> {
        // with the wait that flows cause unhindered, they cause less, or as much where their windows have room enough
        let (mut low, mut high) = (0.0, self.wait(server, self.load(server, &free)));
        waits[server] = high;
        let mut allocation = self.allocate(waits)?;
        if allocation.rates == free.rates {
            return Ok(allocation);
        }
        for _ in 0..HALVINGS {
            let middle = 0.5 * (low + high);
            waits[server] = middle;
            allocation = self.allocate(waits)?;
            if self.wait(server, self.load(server, &allocation)) > middle { low = middle } else { high = middle }
        }
        Ok(allocation)
    }

    /// The wait in ns at a server that is busy for this share of its time.
    fn wait(&self, server: usize, busy: f64) -> f64 {
        let busy = busy.clamp(0.0, FULLEST);
        self.services[server] * busy / (1.0 - busy)
    }

    /// The share of a server's time that flows of these rates take.
    fn load(&self, server: usize, allocation: &Allocation) -> f64 {
        let taken = |(flow, rate): (&Flow, &f64)| {
            flow.uses.iter().filter(|(r, _)| *r == server).map(|(_, per_byte)| per_byte * rate).sum::<f64>()
        };
        self.flows.iter().zip(&allocation.rates).map(taken).sum::<f64>() / self.capacities[server]
    }

    /// Rates while requests wait this long at each resource, in ns: a resource of capacity C has
    /// C − Σ overhead · rate left for those who use it.
    fn allocate(&self, waits: &[f64]) -> Result<Allocation, ShareError> {
        let mut flows = Cow::Borrowed(self.flows.as_slice());
        for (at, own) in self.waits.iter().enumerate().filter(|(_, own)| !own.is_empty()) {
            let flow = &mut flows.to_mut()[at];
            for Wait { server, window, per_ns } in own {
                flow.uses
                    .iter_mut()
                    .filter(|(r, _)| r == window)
                    .for_each(|(_, per_byte)| *per_byte += per_ns * waits[*server]);
            }
        }
        let mut allocation = share(&self.capacities, &flows)?;
        if self.overheads.iter().all(Vec::is_empty) {
            return Ok(allocation);
        }
        let mut left = self.capacities.clone();
        for _ in 0..ROUNDS {
            let mut next = self.capacities.clone();
            for (rate, overhead) in allocation.rates.iter().zip(&self.overheads).filter(|(rate, _)| rate.is_finite()) {
                overhead.iter().for_each(|&(r, per_byte)| next[r] -= per_byte * rate);
            }
            let change = |(a, b): (&f64, &f64)| (a - b).abs() / b.max(f64::MIN_POSITIVE);
            next.iter_mut().zip(&self.capacities).for_each(|(left, whole)| *left = left.max(LEAST * whole));
            let moved = left.iter().zip(&next).map(change).filter(|c| c.is_finite()).fold(0.0, f64::max);
            left = next;
            allocation = share(&left, &flows)?;
            if moved < 1e-7 {
                break;
            }
        }
        Ok(allocation)
    }
}

/// Each transfer's own cap in bytes a second, infinite where it has none. Staged transfers of one GPU wait for each
/// other's pieces.
pub(crate) fn caps<'r>(routes: impl Iterator<Item = &'r Route> + Clone) -> Vec<f64> {
    let staged: Vec<&Staging> = routes.clone().filter_map(|r| r.staging.as_ref()).collect();
    let beside = |s: &Staging| staged.iter().filter(|t| t.ends.iter().any(|n| s.ends.contains(n))).count();
    let cap = |route: &Route| match (&route.staging, &route.cap) {
        (Some(staging), _) => staging.rate(beside(staging)).bytes_per_second(),
        (None, Some((rate, _))) => rate.bytes_per_second(),
        (None, None) => f64::INFINITY,
    };
    routes.map(cap).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn flow(uses: &[(usize, f64)]) -> Flow {
        Flow { uses: uses.to_vec(), weight: 1.0, cap: f64::INFINITY }
    }

    /// Resources with times of service; flows with their uses, and where they wait.
    fn problem(resources: &[(f64, f64)], flows: Vec<(Flow, Vec<Wait>)>) -> Problem {
        let (capacities, services) = resources.iter().copied().unzip();
        let overheads = vec![Vec::new(); flows.len()];
        let (flows, waits) = flows.into_iter().unzip();
        Problem { capacities, services, flows, overheads, waits }
    }

    #[test]
    fn what_goes_back_shrinks_a_channel_and_waits_for_nobody() {
        // x + 0.1 y = 10, y + 0.2 x = 8
        let (x, y) = ((flow(&[(0, 1.0)]), Vec::new()), (flow(&[(1, 1.0)]), Vec::new()));
        let mut two = problem(&[(10.0, 0.0), (8.0, 0.0)], vec![x.clone(), y]);
        two.overheads = vec![vec![(1, 0.2)], vec![(0, 0.1)]];
        let got = two.solve().unwrap();
        let y = (8.0 - 0.2 * 10.0) / (1.0 - 0.02);
        assert!((got.rates[1] - y).abs() < 1e-6 && (got.rates[0] - (10.0 - 0.1 * y)).abs() < 1e-6, "{got:?}");
        // alone, nothing
        let mut one = problem(&[(10.0, 0.0), (8.0, 0.0)], vec![x]);
        one.overheads = vec![vec![(1, 0.2)]];
        assert_eq!(one.solve().unwrap().rates, [10.0]);
    }

    /// Flows of 100 over a round trip of 1 to a server of 300 that serves one request in 0.1.
    fn queueing(flows: usize, link: f64) -> Problem {
        let mut resources = vec![(300.0, 0.1)];
        let mut all = Vec::new();
        for _ in 0..flows {
            let (window, own) = (resources.len(), resources.len() + 1);
            resources.extend([(100.0, 0.0), (link, 0.0)]);
            all.push((flow(&[(0, 1.0), (window, 1.0), (own, 1.0)]), vec![Wait { server: 0, window, per_ns: 1.0 }]));
        }
        problem(&resources, all)
    }

    #[test]
    fn a_wait_agrees_with_the_rates_that_it_leaves() {
        let got = queueing(4, 90.0).solve().unwrap();
        let x = got.rates[0];
        let busy = 4.0 * x / 300.0;
        // Little's law: rate × (round trip + wait) = window
        assert!((x * (1.0 + 0.1 * busy / (1.0 - busy)) - 100.0).abs() < 1e-5, "{got:?}");
        assert!(got.rates.iter().all(|r| r == &x) && got.bindings[0] == crate::share::Binding::Resource(1));
        // two have room enough, and keep what their links give
        assert_eq!(queueing(2, 80.0).solve().unwrap().rates, [80.0, 80.0]);
    }

    #[test]
    fn who_does_not_wait_leaves_the_rest() {
        let mut some = queueing(3, 90.0);
        some.waits[2].clear();
        some.limit(40.0, [(1, 1.0)]);
        let got = some.solve().unwrap();
        assert_eq!(&got.rates[1..], [40.0, 90.0]);
        let busy = (got.rates[0] + 130.0) / 300.0;
        assert!(got.rates[0] * (1.0 + 0.1 * busy / (1.0 - busy)) <= 100.0 + 1e-6);
    }

    proptest! {
        #[test]
        fn no_queue_is_overrun_and_every_wait_is_one_of_a_queue(
            shape in prop::collection::vec((0usize..2, 1.0f64..200.0, 1.0f64..200.0, 0.5f64..3.0), 1..12),
            services in prop::array::uniform2(0.01f64..0.5),
        ) {
            let mut resources = vec![(300.0, services[0]), (200.0, services[1])];
            let mut all = Vec::new();
            for &(server, room, link, cost) in &shape {
                let (window, own) = (resources.len(), resources.len() + 1);
                resources.extend([(room, 0.0), (link, 0.0)]);
                let uses = [(server, cost), (window, 1.0), (own, 1.0)];
                all.push((flow(&uses), vec![Wait { server, window, per_ns: 1.0 }]));
            }
            let problem = problem(&resources, all);
            let got = problem.solve().unwrap();
            for server in 0..2 {
                let busy = problem.load(server, &got);
                prop_assert!(busy < 1.0 + 1e-12);
                let wait = problem.wait(server, busy);
                for (flow, rate) in shape.iter().zip(&got.rates).filter(|(f, _)| f.0 == server) {
                    prop_assert!(*rate > 0.0 && *rate <= flow.2 * (1.0 + 1e-12));
                    prop_assert!(rate * (1.0 + wait) <= flow.1 * (1.0 + 1e-4), "{} of {:?}", rate, flow);
                    // whom its link does not stop, its window does
                    let stopped = *rate > flow.2 * (1.0 - 1e-9) || rate * (1.0 + wait) > flow.1 * (1.0 - 1e-4);
                    prop_assert!(stopped || busy > 0.99, "{} of {:?}", rate, flow);
                }
            }
        }

        #[test]
        fn a_wider_link_slows_no_lone_flow(link in 1.0f64..400.0, more in 1.0f64..4.0) {
            let rate = |link| queueing(1, link).solve().unwrap().rates[0];
            prop_assert!(rate(link * more) >= rate(link) * (1.0 - 1e-9));
        }

        #[test]
        fn company_makes_nobody_faster(flows in 1usize..9, link in 1.0f64..400.0) {
            let rate = |flows| queueing(flows, link).solve().unwrap().rates[0];
            prop_assert!(rate(flows + 1) <= rate(flows) * (1.0 + 1e-9));
        }
    }
}
