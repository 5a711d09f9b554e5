//! What classes ask for beside uses: burdens, turns, and waits. Nothing is kept while no class asks for any.

use std::collections::HashMap;

use super::super::share::Sum;
use super::super::{Attended, Demand, Turns, Wait};

/// What a class asks for beside uses, with its own resources left out of its burdens.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Constraints<'d> {
    pub burdens: &'d [(u32, f64)],
    pub waits: &'d [Wait],
    pub turns: Option<Turns>,
}

impl<'d> Constraints<'d> {
    pub(super) fn of(demand: &'d Demand, burdens: &'d [(u32, f64)]) -> Self {
        Constraints { burdens, waits: &demand.waits, turns: demand.turns }
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.burdens.is_empty() && self.waits.is_empty() && self.turns.is_none()
    }

    /// All that decides it.
    pub(super) fn words(&self) -> impl Iterator<Item = u64> {
        let burdens = self.burdens.iter().flat_map(|(l, k)| [u64::from(*l) | 1 << 40, k.to_bits()]);
        let waits = self.waits.iter().flat_map(|w| [w.server as u64, w.window as u64, w.per_ns.to_bits()]);
        let turns =
            self.turns.into_iter().flat_map(|t| [t.rate.to_bits(), t.seconds.to_bits(), t.places[0], t.places[1]]);
        burdens.chain(waits).chain(turns)
    }
}

/// The same of all classes.
#[derive(Debug, Default)]
pub(super) struct Extras {
    /// Burdens of class `c`: `burdens[starts[c]..starts[c + 1]]`.
    starts: Vec<usize>,
    burdens: Vec<(u32, f64)>,
    /// By link: how much of it is burdened now.
    burdened: Vec<Sum>,
    /// Classes that take turns, and their caps without them.
    turns: HashMap<u32, (Turns, f64)>,
    /// Classes by place.
    at: HashMap<u64, Vec<u32>>,
    attended: Attended,
    /// Places where more or fewer are attended to than at the last solve.
    touched: Vec<u64>,
    waits: HashMap<u32, Vec<Wait>>,
    /// How many classes that wait have flows.
    pub waiting: usize,
    /// How long requests wait at a link, in ns, as last solved.
    pub queues: HashMap<u32, f64>,
}

impl Extras {
    /// Whether any class burdens a link.
    pub(super) fn burdens_any(&self) -> bool {
        !self.burdens.is_empty()
    }

    /// A new class, with the number after the last.
    pub(super) fn add(&mut self, class: u32, asked: Constraints, cap: f64, links: usize) {
        if !asked.burdens.is_empty() && self.burdened.is_empty() {
            self.burdened = vec![Sum::default(); links];
        }
        if !asked.burdens.is_empty() || !self.starts.is_empty() {
            // classes before the first that burdens anything have no burdens
            self.starts.resize(class as usize + 1, self.burdens.len());
            self.burdens.extend_from_slice(asked.burdens);
            self.starts.push(self.burdens.len());
        }
        if let Some(turns) = asked.turns {
            self.turns.insert(class, (turns, cap));
            for place in turns.places {
                self.at.entry(place).or_default().push(class);
            }
        }
        if !asked.waits.is_empty() {
            self.waits.insert(class, asked.waits.to_vec());
        }
    }

    /// What a class burdens.
    pub(super) fn burdens(&self, class: u32) -> &[(u32, f64)] {
        let c = class as usize;
        match (self.starts.get(c), self.starts.get(c + 1)) {
            (Some(start), Some(end)) => &self.burdens[*start..*end],
            _ => &[],
        }
    }

    pub(super) fn turns(&self, class: u32) -> Option<Turns> {
        self.turns.get(&class).map(|(turns, _)| *turns)
    }

    pub(super) fn waits(&self, class: u32) -> &[Wait] {
        self.waits.get(&class).map_or(&[], Vec::as_slice)
    }

    pub(super) fn is_same(&self, class: u32, asked: Constraints) -> bool {
        self.burdens(class) == asked.burdens && self.waits(class) == asked.waits && self.turns(class) == asked.turns
    }

    /// A class has another number of flows.
    pub(super) fn count(&mut self, class: u32, before: u32, now: u32) {
        if !self.waits.is_empty() && self.waits.contains_key(&class) {
            self.waiting = self.waiting + usize::from(now > 0) - usize::from(before > 0);
        }
        if let Some((turns, _)) = self.turns.get(&class) {
            self.attended.add(turns, i64::from(now) - i64::from(before));
            self.touched.extend(turns.places);
        }
    }

    /// Classes whose cap may have changed since the last time, with their caps.
    pub(super) fn new_caps(&mut self) -> Vec<(u32, f64)> {
        if self.touched.is_empty() {
            return Vec::new();
        }
        let touched = std::mem::take(&mut self.touched);
        let mut classes: Vec<u32> = touched.iter().filter_map(|place| self.at.get(place)).flatten().copied().collect();
        classes.sort_unstable();
        classes.dedup();
        classes.into_iter().filter_map(|class| Some((class, self.cap(class)?))).collect()
    }

    /// The cap of a class that takes turns.
    fn cap(&self, class: u32) -> Option<f64> {
        let (turns, own) = self.turns.get(&class)?;
        Some(own.min(self.attended.cap(turns)))
    }

    /// How much of a link is burdened.
    pub(super) fn burdened(&self, link: u32) -> f64 {
        self.burdened.get(link as usize).map_or(0.0, |sum| sum.value())
    }

    /// A class burdens its links by so much more.
    pub(super) fn burden(&mut self, link: u32, more: f64) {
        if let Some(sum) = self.burdened.get_mut(link as usize) {
            sum.add(more);
        }
    }

    /// A link is not burdened any more.
    pub(super) fn unburden(&mut self, link: u32) {
        if let Some(sum) = self.burdened.get_mut(link as usize) {
            *sum = Sum::default();
        }
    }

    /// Nothing is burdened any more; gives by how much each link was.
    pub(super) fn clear_burdens(&mut self) -> Vec<Sum> {
        let none = vec![Sum::default(); self.burdened.len()];
        std::mem::replace(&mut self.burdened, none)
    }

    /// The cap without turns of a class that takes them.
    pub(super) fn own_cap(&self, class: u32) -> Option<f64> {
        self.turns.get(&class).map(|(_, own)| *own)
    }
}
