//! What the reference solves: classes that wait in queues, with all that they are joined with.

use super::super::{Binding, Demand, Problem, Resource, Solution, Wait};
use super::{AT_CAP, Link, Solver, UNBOUND};

impl Solver {
    /// Solves the sets of classes, joined by the links that they use or burden, in which a class waits: all of them, or those
    /// in which a class has come, gone or changed in number, or has got another cap.
    pub(super) fn settle_queues(&mut self, caps: Option<&[(u32, f64)]>) {
        if self.extras.waiting == 0 {
            self.extras.queues.clear();
            return;
        }
        let mut parents: Vec<u32> = (0..self.links.len() as u32).collect();
        for class in &self.alive {
            let mut joined = self.joined(*class);
            if let Some(first) = joined.next() {
                joined.for_each(|link| join(&mut parents, first, link));
            }
        }
        let mut asked = vec![false; self.links.len()];
        let changed = self.touched.iter().chain(caps.unwrap_or_default()).map(|(class, _)| *class);
        for class in changed {
            for link in self.joined(class) {
                asked[root(&mut parents, link) as usize] = true;
            }
        }
        let alive = self.alive.iter().filter_map(|c| Some((root(&mut parents, self.joined(*c).next()?), *c)));
        let mut sets: Vec<(u32, u32)> = alive.filter(|(root, _)| caps.is_none() || asked[*root as usize]).collect();
        sets.sort_unstable();
        for set in sets.chunk_by(|a, b| a.0 == b.0) {
            let classes: Vec<u32> = set.iter().map(|(_, class)| *class).collect();
            if classes.iter().any(|c| !self.extras.waits(*c).is_empty()) {
                let problem = self.problem(&classes, |c| self.classes[c as usize].cap * self.weights[c as usize]);
                if let Ok(solution) = problem.solve() {
                    self.take_over(&classes, &solution);
                }
            }
        }
    }

    /// What classes ask for as one problem, each with all of its flows; a cap that turns give is the one given.
    pub(super) fn problem(&self, classes: &[u32], cap: impl Fn(u32) -> f64) -> Problem {
        let demand = |c: &u32| {
            let flows = f64::from(self.classes[*c as usize].count);
            let all = |k: f64| flows * k;
            let own = |at: usize| self.per_byte.get(at).copied().unwrap_or(1.0);
            let waits = self.extras.waits(*c).iter().map(|w| Wait { per_ns: all(w.per_ns), ..*w });
            Demand {
                uses: self.range(*c).map(|at| (self.uses[at] as usize, all(own(at)))).collect(),
                burdens: self.extras.burdens(*c).iter().map(|(l, k)| (*l as usize, all(*k))).collect(),
                waits: waits.collect(),
                weight: self.weights[*c as usize],
                cap: cap(*c),
                turns: None,
            }
        };
        let demands: Vec<Demand> = classes.iter().map(demand).collect();
        Problem::of(&demands, |link| Resource {
            capacity: self.capacities.get(link).copied().unwrap_or(f64::INFINITY),
            service: self.services.get(link).copied().unwrap_or(0.0),
        })
    }

    /// The links that a class uses or burdens.
    fn joined(&self, class: u32) -> impl Iterator<Item = u32> {
        self.uses[self.range(class)].iter().copied().chain(self.extras.burdens(class).iter().map(|(link, _)| *link))
    }

    /// Takes over rates of classes that share their links with no others.
    pub(super) fn take_over(&mut self, classes: &[u32], solution: &Solution) {
        for (class, (rate, binding)) in classes.iter().zip(solution.rates.iter().zip(&solution.bindings)) {
            let (c, level) = (*class as usize, rate / self.weights[*class as usize]);
            if self.classes[c].level != level {
                self.set_level_only(*class, level);
            }
            self.classes[c].bind = match binding {
                Binding::Resource(link) => *link as u32,
                Binding::Cap => AT_CAP,
                Binding::Nothing => UNBOUND,
            };
        }
        self.extras.queues.extend(solution.waits.iter().map(|(link, ns)| (*link as u32, *ns)));
        self.recount(classes);
    }

    /// From the levels and binds of classes that share their links with no others: what each link holds, at which level, how
    /// it is burdened, and what is left of it.
    fn recount(&mut self, classes: &[u32]) {
        for class in classes {
            for link in self.joined(*class).collect::<Vec<u32>>() {
                self.extras.unburden(link);
                self.links[link as usize] = Link::idle(self.capacities[link as usize]);
            }
        }
        for i in classes {
            let class = self.classes[*i as usize];
            if class.bind == UNBOUND || !class.level.is_finite() {
                continue;
            }
            if let Some(link) = self.links.get_mut(class.bind as usize) {
                link.bound += 1;
                link.level = class.level;
            }
            for at in self.range(*i) {
                let pull = class.mass * self.per_byte.get(at).copied().unwrap_or(1.0);
                self.links[self.uses[at] as usize].slack -= pull * class.level;
            }
            for at in 0..self.extras.burdens(*i).len() {
                let (link, per_byte) = self.extras.burdens(*i)[at];
                let taken = class.mass * class.level * per_byte;
                self.extras.burden(link, taken);
                self.links[link as usize].slack -= taken;
            }
        }
    }
}

/// The link that stands for all that are joined with this.
fn root(parents: &mut [u32], mut of: u32) -> u32 {
    while parents[of as usize] != of {
        let above = parents[parents[of as usize] as usize];
        parents[of as usize] = above;
        of = above;
    }
    of
}

fn join(parents: &mut [u32], a: u32, b: u32) {
    let [a, b] = [root(parents, a), root(parents, b)];
    // the lower number stands for all
    parents[a.max(b) as usize] = a.min(b);
}
