//! A machine of which something can be expected, although sources leave open where its devices are, how wide its links are, or
//! whether its GPUs reach each other directly.
//!
//! What a source leaves open is fitted to what the same source measured ([`Fit`]): sets of assumptions are scored by how likely
//! they make the measured values, each within the model's own interval, and the likeliest set is used, named and rated. Where
//! nothing was measured, what is usual is assumed ([`Assume`]). Nothing that a source states is overridden.

mod candidates;
mod clues;
mod cpus;
mod fit;
mod likelihood;
mod observed;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use cpus::inter_socket_part;
pub use fit::{Fit, Rating, Unexplained};

use crate::model::{Assume, FittedWidths, Model, Route};
use peerlane_machine::machine::Machine;
use peerlane_read::assemble::{assume_places, placements};
use peerlane_read::catalogue::Parts;

/// A machine with what has to be taken to be so before anything can be expected of it.
#[derive(Clone, Debug)]
pub struct Assumptions<'m> {
    machine: &'m Machine,
    /// The machine with the places, CPUs and peer access that are assumed, where any is.
    assumed: Option<Machine>,
    places: Option<String>,
    widths: Arc<FittedWidths>,
    fit: Option<Fit>,
}

impl<'m> Assumptions<'m> {
    /// Places the GPUs of a machine, where no source does: by what was measured between them ([`placements`]), else where their
    /// parts are known at one CPU ([`assume_places`]). Fits what else is open to what was measured.
    pub fn of(machine: &'m Machine, parts: &Parts) -> Self {
        let fitted = |of: &Machine, places: Option<String>, prior: f64| {
            let fitted = fit::fit(of, parts, places.is_some())?;
            Some((fitted.likelihood + prior, fitted, places))
        };
        // what was measured between GPUs shows where they are as well as how wide their links are
        let placed =
            placements(machine, parts).into_iter().filter_map(|p| fitted(&p.machine, Some(p.sentence), p.prior));
        let best = placed.reduce(|best, next| if next.0 > best.0 { next } else { best });
        let (placed, places) = if best.is_none() { assume_places(machine, parts).unzip() } else { (None, None) };
        let best = best.or_else(|| fitted(placed.as_ref().unwrap_or(machine), places.clone(), 0.0));
        match best {
            Some((_, fit::Fitted { machine: assumed, widths, fit, .. }, places)) => {
                Assumptions { machine, assumed: Some(assumed), places, widths: Arc::new(widths), fit: Some(fit) }
            }
            None => Assumptions { machine, assumed: placed, places, widths: Arc::default(), fit: None },
        }
    }

    /// The machine with places for its GPUs, where no source states any, by nothing that was measured on it: what is predicted before
    /// anybody measures.
    pub fn unmeasured(machine: &Machine, parts: &Parts) -> Machine {
        let mut bare = machine.clone();
        bare.matrices.clear();
        bare.statements.clear();
        bare.curves.clear();
        let placed = assume_places(&bare, parts).map(|(placed, _)| placed.fabric);
        placed.map_or_else(|| machine.clone(), |fabric| Machine { fabric, ..machine.clone() })
    }

    /// The model of it, with widths and generations that no source states ([`Model::assuming`]).
    pub fn model<'a>(&'a self, parts: &'a Parts, assume: Assume) -> Model<'a> {
        Model::fitted(self.assumed.as_ref().unwrap_or(self.machine), parts, assume, Arc::clone(&self.widths))
    }

    /// The machine with all that is taken to be so as long as no source states otherwise, written into it: what commands use that
    /// build on a machine alone, so that all of them build on the same.
    pub fn assumed_machine(&self, parts: &Parts) -> Machine {
        let mut machine = self.model(parts, Assume::Usual).assumed_machine();
        let others: Vec<String> = self.with_places(Vec::new());
        let open: Vec<String> = others.into_iter().filter(|s| !machine.assumptions.contains(s)).collect();
        machine.assumptions.splice(0..0, open);
        machine
    }

    /// What was fitted to measured values, or to what dates the source; `None` where sources state all of it, or show nothing
    /// that it could be fitted to.
    pub fn fit(&self) -> Option<&Fit> {
        self.fit.as_ref()
    }

    /// What was taken to be so, in sentences; none where sources tell all that matters.
    pub fn sentences(&self, model: &Model) -> Vec<String> {
        self.with_places(model.assumptions())
    }

    /// The same of what a route goes over.
    pub fn sentences_of(&self, model: &Model, route: &Route) -> Vec<String> {
        self.with_places(model.assumptions_of(route))
    }

    fn with_places(&self, others: Vec<String>) -> Vec<String> {
        let fitted = self.fit.iter().flat_map(Fit::sentences);
        self.places.iter().cloned().chain(fitted).chain(others).collect()
    }
}
