//! What a command was given about one machine.

use crate::infer::{Inference, RecordError};
use peerlane_machine::fabric::NodeKind;
use peerlane_machine::fault::Planted;
use peerlane_machine::machine::Machine;
use peerlane_machine::origin::Origin;
use peerlane_measure::run::{Run, RunError, TOOL};
use peerlane_read::catalogue::System;

/// What printed an inference, for its origin.
const INFER: &str = "peerlane infer";

/// A run that was recorded, and where the record stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// The run.
    pub run: Run,
    /// Where its numbers stand.
    pub origin: Origin,
}

/// One machine with all that a command was given about it.
#[derive(Clone, Debug)]
pub struct Case {
    /// The machine, with the numbers of a run where it was rebuilt from one.
    pub machine: Machine,
    /// The run that the machine was rebuilt from, if it was.
    pub run: Option<Recorded>,
    /// What sets of transfers were found to share, and where that stands.
    pub inferred: Vec<(Inference, Origin)>,
    /// Noise and faults by which a simulated machine of it answers. No part of the design.
    pub planted: Planted,
}

impl From<Machine> for Case {
    fn from(machine: Machine) -> Self {
        Case { machine, run: None, inferred: Vec::new(), planted: Planted::default() }
    }
}

impl From<System> for Case {
    fn from(System { machine, planted }: System) -> Self {
        Case { planted, ..Case::from(machine) }
    }
}

impl Case {
    /// The machine of a run that stands in this file.
    ///
    /// Fails where [`Run::machine`] does.
    pub fn of_run(run: Run, file: &str) -> Result<Self, RunError> {
        let machine = run.machine_of(file)?;
        let origin = Origin { source: file.into(), tool: TOOL, lines: None };
        Ok(Case { run: Some(Recorded { run, origin }), ..Case::from(machine) })
    }

    /// The run, without where it stands.
    pub fn run(&self) -> Option<&Run> {
        self.run.as_ref().map(|recorded| &recorded.run)
    }

    /// Adds an inference that stands in this file, if the machine has the GPUs that it names.
    pub fn join(&mut self, found: Inference, file: &str) -> Result<(), RecordError> {
        let fabric = &self.machine.fabric;
        let is_gpu = |name: &str| fabric.find(name).is_some_and(|id| fabric.node(id).kind == NodeKind::Gpu);
        if let Some(missing) = found.gpus().find(|name| !is_gpu(name)) {
            let (of, missing) = (found.machine.clone(), missing.to_owned());
            return Err(RecordError::OtherMachine { of, missing, machine: self.machine.name.clone() });
        }
        self.inferred.push((found, Origin { source: file.into(), tool: INFER, lines: None }));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::infer::{FlowKind, InferredGroup, recorded};
    use peerlane_read::catalogue;

    #[test]
    fn an_inference_joins_only_its_machine() {
        let case = |name| Case::from(catalogue::system(name).unwrap().unwrap());
        let mut eight = case("exxact-txr550");
        let mut found = recorded(&eight.machine, None, "what is on record");
        found.groups.push(InferredGroup {
            members: vec!["GPU6".to_owned(), "GPU7".to_owned()],
            direction: FlowKind::Both,
            capacity: 20.0,
            low: 19.0,
            high: 21.0,
            confidence: 0.9,
            sets: Vec::new(),
        });
        let refused = case("exxact-devbox").join(found.clone(), "i.json").unwrap_err();
        assert_eq!(refused.to_string(), "it is of exxact-txr550 and names GPU6, which exxact-devbox has not");
        eight.join(found, "i.json").unwrap();
        assert_eq!(eight.inferred[0].1.to_string(), "i.json (peerlane infer)");
    }
}
