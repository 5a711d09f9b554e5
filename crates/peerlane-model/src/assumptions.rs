//! A machine of which something can be expected, although sources leave open where its devices are or how wide its links.

use crate::model::{Assume, Model, Route};
use peerlane_machine::machine::Machine;
use peerlane_read::assemble::assume_places;
use peerlane_read::catalogue::Parts;

/// A machine with what has to be taken to be so before anything can be expected of it.
#[derive(Clone, Debug)]
pub struct Assumptions<'m> {
    machine: &'m Machine,
    placed: Option<(Machine, String)>,
}

impl<'m> Assumptions<'m> {
    /// Places the GPUs of a machine, where no source does and their parts are known ([`assume_places`]).
    pub fn of(machine: &'m Machine, parts: &Parts) -> Self {
        Assumptions { machine, placed: assume_places(machine, parts) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{PeerAccess, Transfer};
    use peerlane_machine::fabric::{FabricBuilder, Node, NodeKind};
    use peerlane_machine::machine::MachineKind;
    use peerlane_machine::matrix::{Engine, Operation};

    #[test]
    fn gpus_of_no_place_reach_what_their_slots_can() {
        let mut b = FabricBuilder::new();
        let [source, destination] = ["GPU0", "GPU1"]
            .map(|name| b.node(Node { part: Some("rtx-a6000".to_owned()), ..Node::new(name, NodeKind::Gpu) }));
        let machine = Machine::new("m", MachineKind::Captured, b.build().unwrap());
        let assumed = Assumptions::of(&machine, Parts::embedded());
        let model = assumed.model(Parts::embedded(), Assume::Parts);
        let transfer = |peer| Transfer { source, destination, engine: Engine::Ce, op: Operation::Write, peer };
        let (answer, [low, high]) = model.solve_with_interval(&[transfer(PeerAccess::Enabled)]).unwrap().remove(0);
        assert!((answer.rate.gb() - 26.35).abs() < 0.01 && low.gb() < 14.0 && high.gb() < 28.0, "{answer:?}");
        assert_eq!(
            model.assumptions(),
            ["GPU0, GPU1 at PCIe 4.0 x16, the most that can be done there: no source tells their widths"]
        );
        assert!(model.solve(&[transfer(PeerAccess::Disabled)]).unwrap()[0].rate < answer.rate);
    }
}
