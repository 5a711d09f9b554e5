//! A machine of which something can be expected, although sources leave open where its devices are or how wide its links.

use crate::assemble::assume_places;
use crate::catalogue::Parts;
use crate::machine::Machine;
use crate::model::{Assume, Model, Route};

/// A machine with what has to be taken to be so before anything can be expected of it.
#[derive(Clone, Debug)]
pub struct Assumed<'m> {
    machine: &'m Machine,
    placed: Option<(Machine, String)>,
}

impl<'m> Assumed<'m> {
    /// Places the GPUs of a machine, where no source does and their parts are known ([`assume_places`]).
    pub fn of(machine: &'m Machine, parts: &Parts) -> Self {
        Assumed { machine, placed: assume_places(machine, parts) }
    }

    /// The model of it, with widths and generations that no source tells ([`Model::assuming`]).
    pub fn model<'a>(&'a self, parts: &'a Parts, assume: Assume) -> Model<'a> {
        Model::assuming(self.placed.as_ref().map_or(self.machine, |(placed, _)| placed), parts, assume)
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
        self.placed.iter().map(|(_, sentence)| sentence.clone()).chain(others).collect()
    }
}
