//! What may stand behind the measurements: each flow's rate alone, and groups of flows that share a limit.
//!
//! The forward model is weighted max-min sharing with equal weights, as in [`peerlane_model::solve::share()`], specialised to sets of
//! bits, since the search solves it some hundred thousand times.

use super::members::Members;

/// Flows that share a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group {
    /// Which.
    pub members: Members,
    /// What they carry together at most, in the unit of the flows' rates.
    pub capacity: f64,
}

impl Group {
    /// Whether flows of a set fill it at these rates.
    pub(super) fn is_full(&self, set: Members, rates: &[f64]) -> bool {
        sum_of(rates, set, self.members) >= self.capacity * (1.0 - 1e-6)
    }

    /// Whether these rates are more than it allows.
    pub(super) fn is_over(&self, set: Members, rates: &[f64]) -> bool {
        sum_of(rates, set, self.members) > self.capacity * (1.0 + 1e-9)
    }
}

/// Rates alone, and groups.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hypothesis {
    /// Rate of each flow alone.
    pub solo: Vec<f64>,
    /// What they share. Any family of sets; that of a tree has none that cross.
    pub groups: Vec<Group>,
}

impl Hypothesis {
    /// Of these.
    pub fn new(solo: Vec<f64>, groups: Vec<Group>) -> Self {
        Hypothesis { solo, groups }
    }

    /// The rates of a set of flows that run at once, in the order of their indices: all rise together until a group is
    /// full or a flow meets its rate alone; those stop, and the rest rise on.
    pub fn rates(&self, set: Members) -> Vec<f64> {
        let mut rates = vec![0.0; set.len()];
        let mut left: Vec<f64> = self.groups.iter().map(|g| g.capacity).collect();
        let mut open = set;
        while !open.is_empty() {
            let mut level = f64::INFINITY;
            let mut full = Members::NONE;
            for (group, left) in self.groups.iter().zip(&left) {
                let active = group.members.and(open);
                let at = left.max(0.0) / active.len() as f64;
                if !active.is_empty() && at < level {
                    (level, full) = (at, active);
                }
            }
            // a group's level only rises when members stop below it, so all of these stop where they are alone
            let alone: Members = open.iter().filter(|&i| self.alone(i) <= level).collect();
            let stopped = if alone.is_empty() { full } else { alone };
            for i in stopped.iter() {
                let rate = if alone.is_empty() { level } else { self.alone(i) };
                rates[set.rank(i)] = rate;
                for (group, left) in self.groups.iter().zip(&mut left) {
                    if group.members.has(i) {
                        *left -= rate;
                    }
                }
            }
            open = open.minus(stopped);
            if stopped.is_empty() {
                break;
            }
        }
        rates
    }

    /// What a set of flows carries in all.
    pub fn total(&self, set: Members) -> f64 {
        self.rates(set).iter().sum()
    }

    /// A flow's rate alone; 0 of one that there is not.
    pub fn alone(&self, flow: usize) -> f64 {
        self.solo.get(flow).copied().unwrap_or(0.0)
    }

    /// The same with other groups.
    pub fn with(&self, groups: Vec<Group>) -> Self {
        Hypothesis { solo: self.solo.clone(), groups }
    }

    /// The same with one group in the place of another.
    pub fn replacing(&self, at: usize, group: Group) -> Self {
        let mut new = self.clone();
        if let Some(old) = new.groups.get_mut(at) {
            *old = group;
        }
        new
    }
}

/// The part of `rates`, which are those of `set`, that belongs to `members`.
pub(super) fn sum_of(rates: &[f64], set: Members, members: Members) -> f64 {
    set.iter().zip(rates).filter(|(i, _)| members.has(*i)).map(|(_, rate)| rate).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use peerlane_model::solve::{Flow, share};

    proptest! {
        #[test]
        fn rates_are_those_of_the_share_solver(
            solo in prop::collection::vec(0.5f64..20.0, 1..12),
            groups in prop::collection::vec((any::<u64>(), 1.0f64..60.0), 0..8),
            set in any::<u64>(),
        ) {
            let n = solo.len();
            let within = |bits: u64| (0..n).filter(|i| bits >> i & 1 == 1).collect::<Members>();
            let groups: Vec<Group> =
                groups.into_iter().map(|(bits, capacity)| Group { members: within(bits), capacity }).collect();
            let set = within(set);
            let uses = |i: usize| groups.iter().enumerate().filter(move |(_, g)| g.members.has(i)).map(|(g, _)| (g, 1.0));
            let flows: Vec<Flow> =
                set.iter().map(|i| Flow { uses: uses(i).collect(), weight: 1.0, cap: solo[i] }).collect();
            let capacities: Vec<f64> = groups.iter().map(|g| g.capacity).collect();
            let expected = share(&capacities, &flows).unwrap().rates;
            let got = Hypothesis::new(solo, groups).rates(set);
            prop_assert_eq!(got.len(), expected.len());
            for (a, b) in got.iter().zip(&expected) {
                prop_assert!((a - b).abs() < 1e-9, "{:?} {:?}", got, expected);
            }
        }
    }
}
