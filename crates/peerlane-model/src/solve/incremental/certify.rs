//! The certificate by which a solution is recognised, asked of all classes and links at once.

use super::{Solver, UNBOUND};
use crate::solve::{Attended, Binding, Solution, certify};

impl Solver {
    /// Says what is wrong with the rates as last solved, if anything is by more than `tolerance` (relative):
    /// [`certify()`](crate::solve::certify()), of the problem that all classes with flows pose.
    pub fn certify(&self, tolerance: f64) -> Result<(), String> {
        let mut attended = Attended::default();
        for class in &self.alive {
            let flows = i64::from(self.classes[*class as usize].count);
            self.extras.turns(*class).iter().for_each(|turns| attended.add(turns, flows));
        }
        let cap = |c: u32| match (self.extras.turns(c), self.extras.own_cap(c)) {
            (Some(turns), Some(own)) => own.min(attended.cap(&turns)),
            _ => self.classes[c as usize].cap * self.weights[c as usize],
        };
        let binding = |c: &u32| match self.classes[*c as usize].bind {
            super::AT_CAP => Binding::Cap,
            UNBOUND => Binding::Nothing,
            link => Binding::Resource(link as usize),
        };
        let solution = Solution {
            rates: self.alive.iter().map(|c| self.rate(*c)).collect(),
            bindings: self.alive.iter().map(binding).collect(),
            waits: self.extras.queues.iter().map(|(link, ns)| (*link as usize, *ns)).collect(),
        };
        certify(&self.problem(&self.alive, cap), &solution, tolerance)
    }
}
