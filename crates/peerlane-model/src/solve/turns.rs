//! Transfers that go piece by piece through one that attends to all of them in turn.

use std::collections::HashMap;

/// A cap that falls with the number n of flows that are attended to at the same two places:
/// 1 ÷ (1 ÷ rate + (n − 1) · seconds).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Turns {
    /// The rate of a flow that is attended to alone.
    pub rate: f64,
    /// Seconds that each unit of what moves waits for each other flow that is attended to.
    pub seconds: f64,
    /// Where it is attended to; two flows wait for each other's pieces where they have one of these in common.
    pub places: [u64; 2],
}

impl Turns {
    /// The cap while so many flows are attended to, this one among them.
    pub fn cap(&self, flows: u32) -> f64 {
        1.0 / (1.0 / self.rate + self.seconds * f64::from(flows.max(1) - 1))
    }

    fn pair(&self) -> [u64; 2] {
        let [a, b] = self.places;
        [a.min(b), a.max(b)]
    }
}

/// How many flows are attended to, by place.
#[derive(Clone, Debug, Default)]
pub struct Attended {
    at: HashMap<u64, u32>,
    /// Those that have both places of a pair, which [`Attended::beside`] must not count twice.
    pairs: HashMap<[u64; 2], u32>,
}

impl Attended {
    /// How many flows of each of these are under way.
    pub(crate) fn of<'t>(turns: impl Iterator<Item = &'t Turns>) -> Self {
        let mut attended = Attended::default();
        turns.for_each(|t| attended.add(t, 1));
        attended
    }

    /// So many flows more, or less.
    pub fn add(&mut self, turns: &Turns, flows: i64) {
        let change = |known: &mut u32| *known = (i64::from(*known) + flows).max(0) as u32;
        let [a, b] = turns.pair();
        change(self.at.entry(a).or_default());
        if a != b {
            change(self.at.entry(b).or_default());
            change(self.pairs.entry([a, b]).or_default());
        }
    }

    /// How many flows are attended to where this one is.
    pub fn beside(&self, turns: &Turns) -> u32 {
        let [a, b] = turns.pair();
        let at = |place| self.at.get(&place).copied().unwrap_or(0);
        if a == b {
            return at(a);
        }
        (at(a) + at(b)).saturating_sub(self.pairs.get(&[a, b]).copied().unwrap_or(0))
    }

    /// The cap of a flow among these.
    pub fn cap(&self, turns: &Turns) -> f64 {
        turns.cap(self.beside(turns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_of_one_place_wait_for_each_other() {
        let turns = |places| Turns { rate: 12e9, seconds: 9e-6 / 1_048_576.0, places };
        let all = [turns([0, 1]), turns([1, 0]), turns([2, 3])];
        let mut attended = Attended::of(all.iter());
        let with = |n: f64| 1.0 / (1.0 / 12e9 + (n - 1.0) * 9e-6 / 1_048_576.0);
        let caps = |attended: &Attended| all.map(|t| attended.cap(&t).round());
        assert_eq!(caps(&attended), [with(2.0).round(), with(2.0).round(), with(1.0).round()]);
        // one more between the pairs is beside all of them
        attended.add(&turns([1, 2]), 1);
        assert_eq!(caps(&attended), [with(3.0).round(), with(3.0).round(), with(2.0).round()]);
        attended.add(&turns([1, 2]), -1);
        attended.add(&turns([0, 1]), -1);
        assert_eq!(attended.beside(&all[0]), 1);
        assert_eq!(Attended::default().cap(&all[0]), all[0].cap(1), "alone");
    }
}
