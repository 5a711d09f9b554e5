//! Weighted max-min fair sharing of resources among flows. Knows resources and flows, and nothing of
//! PCIe, GPUs or time.
//!
//! Progressive filling (Bertsekas and Gallager, *Data Networks*, 2nd ed., §6.5.2): all flows rise together, each at
//! its weight, until a resource is full or a flow meets its cap; the flows that this stops keep their rate and
//! the rest rise on. Each flow then has a full resource on which no flow has more per weight, or its cap:
//! the certificate by which the tests recognise the answer.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A flow: what it consumes of each resource per byte a second of its own rate, its weight, its own cap.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// `(resource index, consumption per unit of rate)`; consumption is positive. A resource that stands
    /// twice is consumed twice.
    pub uses: Vec<(usize, f64)>,
    /// Share of a saturated resource relative to other flows; positive.
    pub weight: f64,
    /// The most it can go by itself; infinite where nothing else limits it.
    pub cap: f64,
}

/// What stops a flow from going faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// A saturated resource, by index.
    Resource(usize),
    /// Its own cap.
    Cap,
    /// Nothing: it has no finite cap and uses no resource of finite capacity. Its rate is infinite.
    Nothing,
}

/// The allocation.
#[derive(Clone, Debug, PartialEq)]
pub struct Allocation {
    /// Rate of each flow; [`f64::INFINITY`] where [`Binding::Nothing`] stops it.
    pub rates: Vec<f64>,
    /// What binds each flow.
    pub bindings: Vec<Binding>,
}

/// Why a problem has no answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ShareError {
    /// A capacity is negative or no number.
    #[error("resource {0} has capacity {1}, which must be a number of at least 0")]
    Capacity(usize, f64),
    /// A flow's weight, cap or consumption is out of range, or it names a resource that is not there.
    #[error("flow {0}: {1}")]
    Flow(usize, &'static str),
}

/// Shares `capacities` among `flows`, each given by its resource's units a second.
///
/// Capacities may be infinite, or 0, which stops every flow that uses the resource. Takes time in
/// O(E log L) for E uses and L resources and flows. Rates keep to the capacities within rounding (a few
/// times 10⁻¹⁶ of each, per flow).
pub fn share(capacities: &[f64], flows: &[Flow]) -> Result<Allocation, ShareError> {
    validate(capacities, flows)?;
    let mut filling = Filling::new(capacities, flows);
    let mut by_cap: Vec<usize> = (0..flows.len()).filter(|i| flows[*i].cap.is_finite()).collect();
    by_cap.sort_by(|a, b| (flows[*a].cap / flows[*a].weight).total_cmp(&(flows[*b].cap / flows[*b].weight)));
    let mut caps = by_cap.into_iter().peekable();
    loop {
        while caps.next_if(|i| filling.stopped(*i)).is_some() {}
        let full = filling.next_full();
        let capped = caps.peek().map(|i| (flows[*i].cap / flows[*i].weight, *i));
        match (full, capped) {
            (Some((level, resource)), Some((at, _))) if level <= at => filling.fill(resource, level),
            (_, Some((at, flow))) => filling.stop(flow, at, Binding::Cap),
            (Some((level, resource)), None) => filling.fill(resource, level),
            (None, None) => break,
        }
    }
    Ok(Allocation { rates: filling.rates, bindings: filling.bindings })
}

fn validate(capacities: &[f64], flows: &[Flow]) -> Result<(), ShareError> {
    if let Some((i, c)) = capacities.iter().enumerate().find(|(_, c)| c.is_nan() || **c < 0.0) {
        return Err(ShareError::Capacity(i, *c));
    }
    for (i, flow) in flows.iter().enumerate() {
        let usable = |x: f64| x.is_normal() && x > 0.0;
        if !usable(flow.weight) {
            return Err(ShareError::Flow(i, "its weight must be a positive number"));
        }
        if flow.cap.is_nan() || flow.cap < 0.0 {
            return Err(ShareError::Flow(i, "its cap must be a number of at least 0, or infinite"));
        }
        for &(resource, consumption) in &flow.uses {
            if resource >= capacities.len() {
                return Err(ShareError::Flow(i, "it uses a resource that does not exist"));
            }
            if !usable(consumption) || !usable(consumption * flow.weight) {
                return Err(ShareError::Flow(i, "its consumption must be a positive number, also times its weight"));
            }
        }
    }
    Ok(())
}

/// A sum that keeps what rounding drops (Dekker's two-sum), so that taking away all that was added leaves
/// nothing even where the terms differ by many orders of magnitude.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sum {
    high: f64,
    low: f64,
}

impl Sum {
    pub(super) fn add(&mut self, x: f64) {
        let sum = self.high + x;
        let part = sum - self.high;
        self.low += (self.high - (sum - part)) + (x - part);
        self.high = sum;
    }

    pub(super) fn value(self) -> f64 {
        self.high + self.low
    }
}

/// One resource while the level rises.
#[derive(Clone, Copy, Default)]
struct State {
    /// Consumption by flows that have stopped.
    taken: Sum,
    /// Weight times consumption of those still rising.
    rising: Sum,
    /// Uses by flows still rising.
    users: u32,
}

/// The state of progressive filling.
struct Filling<'a> {
    capacities: &'a [f64],
    flows: &'a [Flow],
    states: Vec<State>,
    /// Flows of resource `r`: `users[starts[r]..starts[r + 1]]`.
    starts: Vec<usize>,
    users: Vec<usize>,
    /// Levels at which resources fill up. An entry may be too low, never too high, since the level only
    /// rises as flows stop; it is corrected when it comes up. Non-negative floats order as their bits.
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    rates: Vec<f64>,
    bindings: Vec<Binding>,
    stopped: Vec<bool>,
    level: f64,
}

impl<'a> Filling<'a> {
    fn new(capacities: &'a [f64], flows: &'a [Flow]) -> Self {
        let mut states = vec![State::default(); capacities.len()];
        let mut starts = vec![0; capacities.len() + 1];
        for flow in flows {
            for &(r, consumption) in &flow.uses {
                states[r].rising.add(flow.weight * consumption);
                states[r].users += 1;
                starts[r + 1] += 1;
            }
        }
        for r in 0..capacities.len() {
            starts[r + 1] += starts[r];
        }
        let mut next = starts.clone();
        let mut users = vec![0; starts.last().copied().unwrap_or(0)];
        for (i, flow) in flows.iter().enumerate() {
            for &(r, _) in &flow.uses {
                users[next[r]] = i;
                next[r] += 1;
            }
        }
        let mut filling = Filling {
            capacities,
            flows,
            states,
            starts,
            users,
            heap: BinaryHeap::with_capacity(capacities.len()),
            rates: vec![f64::INFINITY; flows.len()],
            bindings: vec![Binding::Nothing; flows.len()],
            stopped: vec![false; flows.len()],
            level: 0.0,
        };
        for r in 0..capacities.len() {
            filling.heap.extend(filling.fills_at(r).map(|level| Reverse((level.to_bits(), r))));
        }
        filling
    }

    /// The level at which resource `r` is full, if ever.
    fn fills_at(&self, r: usize) -> Option<f64> {
        let state = &self.states[r];
        if state.users == 0 || self.capacities[r].is_infinite() {
            return None;
        }
        let left = (self.capacities[r] - state.taken.value()).max(0.0);
        Some((left / state.rising.value()).max(self.level))
    }

    /// The resource that fills up next, and at which level.
    fn next_full(&mut self) -> Option<(f64, usize)> {
        while let Some(&Reverse((bits, r))) = self.heap.peek() {
            match self.fills_at(r) {
                Some(level) if level.to_bits() == bits => return Some((level, r)),
                Some(level) => {
                    self.heap.pop();
                    self.heap.push(Reverse((level.to_bits(), r)));
                    if f64::from_bits(bits) >= level {
                        return Some((level, r));
                    }
                }
                None => {
                    self.heap.pop();
                }
            }
        }
        None
    }

    fn stopped(&self, flow: usize) -> bool {
        self.stopped[flow]
    }

    /// Stops every flow on `resource`, which is full at `level`.
    fn fill(&mut self, resource: usize, level: f64) {
        for at in self.starts[resource]..self.starts[resource + 1] {
            let flow = self.users[at];
            if !self.stopped[flow] {
                self.stop(flow, level, Binding::Resource(resource));
            }
        }
    }

    fn stop(&mut self, flow: usize, level: f64, binding: Binding) {
        let Flow { uses, weight, cap } = &self.flows[flow];
        self.level = self.level.max(level);
        let rate = if binding == Binding::Cap { *cap } else { (weight * level).min(*cap) };
        self.stopped[flow] = true;
        self.rates[flow] = rate;
        self.bindings[flow] = binding;
        for &(r, consumption) in uses {
            let state = &mut self.states[r];
            state.taken.add(rate * consumption);
            state.rising.add(-weight * consumption);
            state.users -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(uses: &[(usize, f64)]) -> Flow {
        Flow { uses: uses.to_vec(), weight: 1.0, cap: f64::INFINITY }
    }

    #[test]
    fn the_textbook_line() {
        // one long flow over two links against one short flow on each
        let flows = [flow(&[(0, 1.0), (1, 1.0)]), flow(&[(0, 1.0)]), flow(&[(1, 1.0)])];
        let got = share(&[10.0, 4.0], &flows).unwrap();
        assert_eq!(got.rates, [2.0, 8.0, 2.0]);
        assert_eq!(got.bindings, [Binding::Resource(1), Binding::Resource(0), Binding::Resource(1)]);
    }

    #[test]
    fn weights_caps_and_consumption() {
        let mut flows = [flow(&[(0, 1.0)]), flow(&[(0, 2.0)]), flow(&[(0, 1.0)])];
        flows[0].weight = 3.0;
        flows[2].cap = 1.0;
        let got = share(&[11.0], &flows).unwrap();
        assert_eq!(got.rates, [6.0, 2.0, 1.0]);
        assert_eq!(got.bindings[2], Binding::Cap);
    }

    #[test]
    fn nothing_stops_a_free_flow_and_zero_stops_all() {
        let got = share(&[0.0, f64::INFINITY], &[flow(&[]), flow(&[(0, 1.0)]), flow(&[(1, 1.0)])]).unwrap();
        assert_eq!(got.rates, [f64::INFINITY, 0.0, f64::INFINITY]);
        assert_eq!(got.bindings, [Binding::Nothing, Binding::Resource(0), Binding::Nothing]);
        assert!(share(&[], &[]).unwrap().rates.is_empty());
    }

    #[test]
    fn weights_of_any_size_keep_to_the_capacity() {
        let mut flows = vec![flow(&[(0, 1.0), (1, 1.0)]), flow(&[(0, 1.0)])];
        flows[0].weight = 1e15;
        flows[1].weight = 1e-15;
        let got = share(&[1.0, 0.25], &flows).unwrap();
        assert!((got.rates[0] - 0.25).abs() < 1e-12 && (got.rates[1] - 0.75).abs() < 1e-12, "{got:?}");
    }

    #[test]
    fn refuses_what_makes_no_sense() {
        assert!(matches!(share(&[f64::NAN], &[]), Err(ShareError::Capacity(0, _))));
        assert!(matches!(share(&[-1.0], &[]), Err(ShareError::Capacity(0, _))));
        let bad = |change: fn(&mut Flow)| {
            let mut f = flow(&[(0, 1.0)]);
            change(&mut f);
            matches!(share(&[1.0], &[f]), Err(ShareError::Flow(0, _)))
        };
        assert!(bad(|f| f.weight = 0.0));
        assert!(bad(|f| f.weight = f64::INFINITY));
        assert!(bad(|f| f.cap = f64::NAN));
        assert!(bad(|f| f.uses[0].1 = 0.0));
        assert!(bad(|f| f.uses[0].0 = 1));
        assert!(bad(|f| (f.weight, f.uses[0].1) = (1e200, 1e200)));
    }
}
