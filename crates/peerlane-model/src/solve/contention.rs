//! Rates of flows that burden each other's resources and wait for each other in queues.
//!
//! [`share()`] divides what is there. What is there hangs on the rates themselves in two ways, each found by fixed
//! point: requests and answers make a channel smaller for those who use it, and whoever has only so many bytes on their
//! way goes slower the longer each is on its way (Little's law). `docs/model.md`.

use std::borrow::Cow;

use super::certify;
use super::problem::{LEAST, Problem, Solution};
use super::share::{Allocation, Binding, Flow, ShareError, share};

/// Rounds in which what is left beside burdens is found: mostly five or six are taken.
const ROUNDS: usize = 120;
/// Each time that so many rounds have not sufficed, only half as much of a change is made: where another resource
/// binds on each side of a solution, whole changes may jump to and fro over it.
const HALVED_AFTER: usize = 12;
/// Relative change of what is left of a resource that ends the rounds; the rates then agree with it to a fraction of that.
const SETTLED: f64 = 1e-10;
/// Steps in which a wait is found: mostly less than ten are taken.
const STEPS: usize = 80;
/// Relative width of an interval in which a wait is found, and by which it may miss what it causes.
const NARROW: f64 = 1e-12;
/// Times that all queues are gone through where there are several: what waits at one gives way at the others.
const PASSES: usize = 15;
/// Relative change of all waits that ends them.
const AGREED: f64 = 1e-10;
/// Part of a wait by which it may miss what it causes where it is a solution, and not merely the place of a jump.
const ROOT: f64 = 1e-7;
/// So many queues at most are solved one within the other where that has not sufficed.
const NESTED: usize = 3;
/// Where that has not sufficed, all are moved at once, by ever smaller parts of the way: near a full queue a millionth of
/// the load is a thousandth of the wait, so that only a small part of a change does not overshoot.
const PARTS: i32 = 10;
/// Rounds with each part.
const ROUNDS_OF_PART: usize = 500;

impl Problem {
    /// The rates of all flows at once.
    ///
    /// A server that is busy for a share ρ of its time makes each request wait for service · ρ ÷ (1 − ρ), as one queue with
    /// independent arrivals does (Kleinrock, *Queueing Systems*, vol. 1, §3.2). Waiting slows those who wait, which
    /// empties the queue: there is one wait that agrees with itself. (Where a flow also burdens much of what others need,
    /// there may be several; one of them is given, always the same for the same problem.)
    pub fn solve(&self) -> Result<Solution, ShareError> {
        let plain = self.waits.iter().all(Vec::is_empty) && self.burdens.iter().all(Vec::is_empty);
        let (allocation, waits) = if plain && self.turns.iter().all(Option::is_none) {
            (share(&self.capacities, &self.flows)?, Vec::new())
        } else {
            self.contended()?
        };
        let named = |binding| match binding {
            Binding::Resource(r) => self.name(r).map_or(Binding::Cap, Binding::Resource),
            other => other,
        };
        let Allocation { rates, bindings } = allocation;
        Ok(Solution { rates, bindings: bindings.into_iter().map(named).collect(), waits })
    }

    /// With burdens, queues and turns: rates, and the waits by the resources' names.
    fn contended(&self) -> Result<(Allocation, Vec<(usize, f64)>), ShareError> {
        let mut flows = self.flows.clone();
        flows.iter_mut().zip(self.caps()).for_each(|(flow, cap)| flow.cap = cap);
        let mut servers: Vec<usize> = self.waits.iter().flatten().map(|w| w.server).collect();
        servers.sort_unstable();
        servers.dedup();
        servers.retain(|s| self.services.get(*s).is_some_and(|ns| *ns > 0.0));
        let mut contention = Contention { problem: self, flows, waits: vec![0.0; self.capacities.len()] };
        let allocation = contention.allocate()?;
        let mut allocation = contention.settle_all(&servers, allocation)?;
        if !contention.holds(&servers, &allocation) {
            allocation = contention.settle_together(&servers)?;
        }
        Ok((allocation, contention.named(&servers)))
    }
}

/// How much of a change is made in a round.
fn part(round: usize) -> f64 {
    0.5_f64.powi((round / HALVED_AFTER) as i32)
}

/// The rates in the making.
struct Contention<'p> {
    problem: &'p Problem,
    /// With the caps that they have among each other.
    flows: Vec<Flow>,
    /// How long requests wait at each resource, in ns.
    waits: Vec<f64>,
}

impl Contention<'_> {
    /// The wait at a server that its flows cause at these rates.
    fn caused(&self, server: usize, all: &Allocation) -> f64 {
        self.problem.wait(server, self.problem.load(server, &all.rates))
    }

    /// The waits at servers, by the resources' names.
    fn named(&self, servers: &[usize]) -> Vec<(usize, f64)> {
        servers.iter().filter_map(|s| Some((self.problem.name(*s)?, self.waits[*s]))).collect()
    }

    /// Whether these are rates that agree with the waits, and with what burdens leave.
    fn holds(&self, servers: &[usize], all: &Allocation) -> bool {
        let solution = Solution { rates: all.rates.clone(), bindings: Vec::new(), waits: self.named(servers) };
        certify(self.problem, &solution, ROOT).is_ok()
    }

    /// Finds waits and what burdens leave, all at once, each time by a part of the way that gets smaller.
    ///
    /// Where one flow burdens what another waits for, two states may agree with themselves at one wait: who is starved, and
    /// who keeps burdens away. A search for the wait, with what is left found anew at each, ends at the jump between them.
    /// This goes from nothing burdened to the one that it meets.
    fn settle_together(&mut self, servers: &[usize]) -> Result<Allocation, ShareError> {
        let mut left = self.problem.capacities.clone();
        let mut busy = vec![0.0; left.len()];
        self.waits.fill(0.0);
        let mut allocation = share(&left, &self.waiting())?;
        for part in (0..PARTS).flat_map(|i| [0.5 * 0.25_f64.powi(i); ROUNDS_OF_PART]) {
            let mut moved = 0.0_f64;
            let next = self.left_beside(&allocation);
            for (left, next) in left.iter_mut().zip(next).filter(|(left, _)| left.is_finite()) {
                moved = moved.max((next - *left).abs() / *left);
                *left += part * (next - *left);
            }
            for s in servers {
                let next = self.problem.load(*s, &allocation.rates).min(1.0);
                moved = moved.max((next - busy[*s]).abs());
                busy[*s] += part * (next - busy[*s]);
                self.waits[*s] = self.problem.wait(*s, busy[*s]);
            }
            allocation = share(&left, &self.waiting())?;
            if moved < NARROW {
                break;
            }
        }
        Ok(allocation)
    }

    /// Finds the waits at all servers. `now`: the rates as they are.
    fn settle_all(&mut self, servers: &[usize], now: Allocation) -> Result<Allocation, ShareError> {
        if servers.len() < 2 {
            return self.settle(servers, now);
        }
        let mut allocation = now;
        let mut passes = Extrapolation::default();
        for _ in 0..PASSES {
            let before = self.waits.clone();
            for server in servers {
                allocation = self.settle(std::slice::from_ref(server), allocation)?;
            }
            if servers.iter().all(|s| (self.waits[*s] - before[*s]).abs() <= AGREED * before[*s]) {
                return Ok(allocation);
            }
            if passes.add(&self.waits) {
                passes.extrapolate(&mut self.waits);
                for s in servers {
                    self.waits[*s] = self.waits[*s].clamp(0.0, self.problem.wait(*s, 1.0));
                }
                allocation = self.allocate()?;
            }
        }
        let mut order = servers.to_vec();
        for _ in 0..if order.len() <= NESTED { order.len() } else { 0 } {
            // an inner wait may jump while the outer one grows, but does not where it is the outer one itself
            order.rotate_left(1);
            allocation = self.settle(&order, allocation)?;
            let missed = |s: &usize| (self.caused(*s, &allocation) - self.waits[*s]).abs();
            if servers.iter().all(|s| missed(s) <= ROOT * self.waits[*s]) {
                break;
            }
        }
        Ok(allocation)
    }

    /// Sets the wait at a server, and those at others as they are then. Gives the rates, with the wait and by how much it
    /// falls short of what it causes.
    fn attempt(&mut self, server: usize, wait: f64, inner: &[usize]) -> Result<(Allocation, (f64, f64)), ShareError> {
        self.waits[server] = wait;
        let allocation = self.allocate()?;
        let allocation = self.settle(inner, allocation)?;
        let missed = self.caused(server, &allocation) - wait;
        Ok((allocation, (wait, missed)))
    }

    /// Finds the waits at servers, each with those after it found anew, while all others keep theirs. `now`: the rates as
    /// they are.
    fn settle(&mut self, servers: &[usize], now: Allocation) -> Result<Allocation, ShareError> {
        let [server, inner @ ..] = servers else { return Ok(now) };
        let (server, now) = (*server, self.settle(inner, now)?);
        let caused = self.caused(server, &now);
        let mut from = (self.waits[server], caused - self.waits[server]);
        if from.1 == 0.0 {
            return Ok(now);
        }
        let settled = |(wait, missed): (f64, f64)| missed.abs() <= NARROW * wait;
        let (mut allocation, mut to) = self.attempt(server, caused, inner)?;
        // the longer all wait, the shorter the queue: the wait that causes itself is between one and what that causes.
        // Where what waits burdens what others wait for, it may be further on, but not below 0 or above that of a full server
        let most = self.problem.wait(server, 1.0);
        for _ in 0..STEPS {
            if settled(to) || (to.1 > 0.0) != (from.1 > 0.0) {
                break;
            }
            let step = to.1.abs().max(2.0 * (to.0 - from.0).abs()).copysign(to.1);
            from = to;
            (allocation, to) = self.attempt(server, (to.0 + step).clamp(0.0, most), inner)?;
        }
        // it is found by regula falsi, in the Illinois variant
        let (mut low, mut high) = if from.0 < to.0 { (from, to) } else { (to, from) };
        for step in 1..STEPS {
            if settled(to) || high.0 - low.0 <= NARROW * high.0 {
                break;
            }
            let between = low.0 + (high.0 - low.0) * low.1 / (low.1 - high.1);
            // now and then the middle, so that no shape of the curve can hold it up
            let next =
                if step % 4 > 0 && between > low.0 && between < high.0 { between } else { 0.5 * (low.0 + high.0) };
            (allocation, to) = self.attempt(server, next, inner)?;
            if to.1 > 0.0 {
                (low, high.1) = (to, 0.5 * high.1);
            } else {
                (high, low.1) = (to, 0.5 * low.1);
            }
        }
        Ok(allocation)
    }

    /// Rates while requests wait so long: a resource of capacity C has C − Σ burden · rate left for those who use it.
    fn allocate(&self) -> Result<Allocation, ShareError> {
        let Problem { capacities, burdens, .. } = self.problem;
        let flows = self.waiting();
        let mut allocation = share(capacities, &flows)?;
        if burdens.iter().all(Vec::is_empty) {
            return Ok(allocation);
        }
        let mut left = capacities.clone();
        let mut rounds = Extrapolation::default();
        for round in 0..ROUNDS {
            let mut next = self.left_beside(&allocation);
            let mut moved = 0.0_f64;
            for ((left, next), whole) in left.iter().zip(&mut next).zip(capacities) {
                if round >= HALVED_AFTER && whole.is_finite() {
                    *next = left + part(round) * (*next - left);
                }
                let change = (left - *next).abs() / next.max(f64::MIN_POSITIVE);
                moved = if change.is_finite() { moved.max(change) } else { moved };
            }
            if moved == 0.0 {
                break;
            }
            left = next;
            if moved >= SETTLED && rounds.add(&left) {
                rounds.extrapolate(&mut left);
                left.iter_mut().zip(capacities).for_each(|(left, whole)| *left = left.clamp(LEAST * whole, *whole));
            }
            allocation = share(&left, &flows)?;
            if moved < SETTLED {
                break;
            }
        }
        Ok(allocation)
    }

    /// The flows, each with what its windows hold while requests wait so long.
    fn waiting(&self) -> Cow<'_, [Flow]> {
        if self.waits.iter().all(|ns| *ns == 0.0) {
            return Cow::Borrowed(&self.flows);
        }
        let mut waiting = self.flows.clone();
        for (flow, waits) in waiting.iter_mut().zip(&self.problem.waits) {
            for wait in waits {
                let more = wait.per_ns * self.waits[wait.server];
                if let Some((_, per_byte)) = flow.uses.iter_mut().find(|(r, _)| *r == wait.window) {
                    *per_byte += more;
                }
            }
        }
        Cow::Owned(waiting)
    }

    /// What burdens leave of each resource: C − Σ burden · rate.
    fn left_beside(&self, all: &Allocation) -> Vec<f64> {
        let Problem { capacities, burdens, .. } = self.problem;
        let mut left = capacities.clone();
        for (rate, burdens) in all.rates.iter().zip(burdens).filter(|(rate, _)| rate.is_finite()) {
            burdens.iter().for_each(|&(r, per_byte)| left[r] -= per_byte * rate);
        }
        left.iter_mut().zip(capacities).for_each(|(left, whole)| *left = left.max(LEAST * whole));
        left
    }
}

/// Where a fixed-point iteration leads to that goes on as its last three points do (Aitken's Δ² for vectors; Irons and
/// Tuck, 1969). Exact where one linear mode is left.
#[derive(Default)]
struct Extrapolation {
    points: Vec<Vec<f64>>,
}

impl Extrapolation {
    /// One more point. Whether there are three, all of them reached without extrapolation.
    fn add(&mut self, point: &[f64]) -> bool {
        self.points.push(point.to_vec());
        self.points.len() == 3
    }

    /// Moves the last of three points to where they lead; the next points are counted from there.
    fn extrapolate(&mut self, last: &mut [f64]) {
        let points = std::mem::take(&mut self.points);
        let [a, b, _] = points.as_slice() else { return };
        let (mut along, mut square) = (0.0, 0.0);
        for ((a, b), c) in a.iter().zip(b).zip(last.iter()).filter(|(_, c)| c.is_finite()) {
            let turn = (c - b) - (b - a);
            along += (c - b) * turn;
            square += turn * turn;
        }
        if square > 0.0 {
            let part = along / square;
            let moved = |(b, c): (&f64, &mut f64)| {
                if c.is_finite() {
                    *c -= part * (*c - b)
                }
            };
            b.iter().zip(last.iter_mut()).for_each(moved);
        }
        self.points.push(last.to_vec());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{Demand, Resource, Turns, Wait, certify};
    use super::*;

    fn uses(uses: &[(usize, f64)]) -> Demand {
        Demand { uses: uses.to_vec(), ..Demand::default() }
    }

    fn problem(resources: &[(f64, f64)], demands: &[Demand]) -> Problem {
        Problem::of(demands, |r| Resource { capacity: resources[r].0, service: resources[r].1 })
    }

    #[test]
    fn what_goes_back_shrinks_a_channel_and_waits_for_nobody() {
        // x + 0.1 y = 10, y + 0.2 x = 8
        let x = Demand { burdens: vec![(1, 0.2)], ..uses(&[(0, 1.0)]) };
        let y = Demand { burdens: vec![(0, 0.1)], ..uses(&[(1, 1.0)]) };
        let resources = [(10.0, 0.0), (8.0, 0.0)];
        let got = problem(&resources, &[x.clone(), y]).solve().unwrap();
        let y = (8.0 - 0.2 * 10.0) / (1.0 - 0.02);
        assert!((got.rates[1] - y).abs() < 1e-8 && (got.rates[0] - (10.0 - 0.1 * y)).abs() < 1e-8, "{got:?}");
        // alone, nothing
        assert_eq!(problem(&resources, &[x]).solve().unwrap().rates, [10.0]);
        // what it uses and burdens itself it takes of its own part
        let both = Demand { burdens: vec![(0, 0.25)], ..uses(&[(0, 1.0)]) };
        assert_eq!(problem(&resources, &[both]).solve().unwrap().rates, [8.0]);
    }

    /// Flows of 100 over a round trip of 1 to a server of 300 that serves one request in 0.1, each over a link of its own.
    fn queueing(flows: usize, link: f64) -> (Vec<(f64, f64)>, Vec<Demand>) {
        let mut resources = vec![(300.0, 0.1)];
        let mut all = Vec::new();
        for _ in 0..flows {
            let (window, own) = (resources.len(), resources.len() + 1);
            resources.extend([(100.0, 0.0), (link, 0.0)]);
            let waits = vec![Wait { server: 0, window, per_ns: 1.0 }];
            all.push(Demand { waits, ..uses(&[(0, 1.0), (window, 1.0), (own, 1.0)]) });
        }
        (resources, all)
    }

    fn solved(flows: usize, link: f64) -> Solution {
        let (resources, all) = queueing(flows, link);
        problem(&resources, &all).solve().unwrap()
    }

    #[test]
    fn a_wait_agrees_with_the_rates_that_it_leaves() {
        let got = solved(4, 90.0);
        let x = got.rates[0];
        let busy = 4.0 * x / 300.0;
        // Little's law: rate × (round trip + wait) = window
        assert!((x * (1.0 + 0.1 * busy / (1.0 - busy)) - 100.0).abs() < 1e-8, "{got:?}");
        assert!(got.rates.iter().all(|r| r == &x) && got.bindings[0] == Binding::Resource(1));
        assert!(matches!(got.waits[..], [(0, wait)] if (wait - 0.1 * busy / (1.0 - busy)).abs() < 1e-8));
        // two have room enough, and keep what their links give
        assert_eq!(solved(2, 80.0).rates, [80.0, 80.0]);
    }

    #[test]
    fn who_does_not_wait_leaves_the_rest() {
        let (resources, mut all) = queueing(3, 90.0);
        all[2].waits.clear();
        let mut some = problem(&resources, &all);
        some.limit(40.0, [(1, 1.0)]);
        let got = some.solve().unwrap();
        assert_eq!(&got.rates[1..], [40.0, 90.0]);
        let busy = (got.rates[0] + 130.0) / 300.0;
        assert!(got.rates[0] * (1.0 + 0.1 * busy / (1.0 - busy)) <= 100.0 + 1e-6);
    }

    #[test]
    fn turns_fall_with_those_who_take_them() {
        let turns = |places| Some(Turns { rate: 10.0, seconds: 0.1, places });
        let all = [[0, 1], [1, 2], [3, 4]].map(|places| Demand { turns: turns(places), ..Demand::default() });
        let got = problem(&[], &all).solve().unwrap();
        assert!(got.rates.iter().zip([5.0, 5.0, 10.0]).all(|(a, b)| (a - b).abs() < 1e-12), "{got:?}");
        assert_eq!(got.bindings, [Binding::Cap; 3]);
    }

    proptest! {
        #[test]
        fn no_queue_is_overrun_and_every_wait_is_one_of_a_queue(
            shape in prop::collection::vec((0usize..2, 1.0f64..200.0, 1.0f64..200.0, 0.5f64..3.0), 1..12),
            services in prop::array::uniform2(0.01f64..0.5),
        ) {
            let mut resources = vec![(300.0, services[0]), (200.0, services[1])];
            let mut all: Vec<Demand> = Vec::new();
            for &(server, room, link, cost) in &shape {
                let (window, own) = (resources.len(), resources.len() + 1);
                resources.extend([(room, 0.0), (link, 0.0)]);
                let waits = vec![Wait { server, window, per_ns: 1.0 }];
                all.push(Demand { waits, ..uses(&[(server, cost), (window, 1.0), (own, 1.0)]) });
            }
            let problem = problem(&resources, &all);
            let got = problem.solve().unwrap();
            certify(&problem, &got, 1e-8).map_err(TestCaseError::fail)?;
            for (server, (capacity, service)) in resources.iter().take(2).enumerate() {
                let own = shape.iter().zip(&got.rates).filter(|(f, _)| f.0 == server);
                let busy = own.map(|(f, rate)| f.3 * rate).sum::<f64>() / capacity;
                prop_assert!(busy < 1.0 + 1e-12);
                let wait = service * busy.min(0.995) / (1.0 - busy.min(0.995));
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
            let rate = |link| solved(1, link).rates[0];
            prop_assert!(rate(link * more) >= rate(link) * (1.0 - 1e-9));
        }

        #[test]
        fn company_makes_nobody_faster(flows in 1usize..9, link in 1.0f64..400.0) {
            let rate = |flows| solved(flows, link).rates[0];
            prop_assert!(rate(flows + 1) <= rate(flows) * (1.0 + 1e-9));
        }
    }
}
