//! NCCL's collectives.

use std::collections::{BTreeMap, BTreeSet};

use super::rates::Driven;
use super::transfers::sizes::messages;
use super::{CurveWords, Kind, Path, Site, Size, Step, Task, Test, Truth, Work, are_picked, each_with_each, names};
use peerlane_machine::fabric::NodeId;
use peerlane_machine::matrix::{Engine, Operation, Quantity, Unit};
use peerlane_machine::names::list;
use peerlane_machine::transfer::{Collective, Via};
use peerlane_machine::units::Bytes;
use peerlane_model::collectives::tuning::Tuning;
use peerlane_model::collectives::{Settings, Variables};
use peerlane_model::model::{self, PeerAccess};

/// Seconds that an NCCL operation takes of itself: an all-reduce of up to 64 KiB among four H200 takes 19.6 to 21.9 µs
/// (nccl-tests 2.19, captures/h200x4-vm). Assumed of all machines.
const OPERATION: f64 = 20.2e-6;

/// [`Work::Collective`].
pub(super) struct Ranks<'w> {
    pub(super) operation: Collective,
    pub(super) gpus: &'w [String],
}

/// Every collective among all GPUs.
pub(super) fn steps(site: &Site<'_>) -> Vec<Step> {
    let step = |operation, size| {
        let work = Work::Collective { operation, gpus: site.gpus.clone() };
        Step { test: Test::Collectives, work, size }
    };
    Collective::ALL.into_iter().flat_map(|op| messages(site.scope).map(move |size| step(op, size))).collect()
}

impl<'w> Ranks<'w> {
    /// Who sends to whom: everyone to everyone, or each rank to the next, and the last to the first.
    fn sends(&self) -> Vec<(&'w str, &'w str)> {
        let gpus = self.gpus;
        match self.operation {
            Collective::AllToAll => each_with_each(gpus).collect(),
            _ => gpus.iter().zip(gpus.iter().cycle().skip(1)).map(|(a, b)| (a.as_str(), b.as_str())).collect(),
        }
    }

    /// The bus bandwidth of an operation that takes so many seconds, in bytes a second; or the seconds of one of such a bandwidth.
    fn bus(&self, size: Bytes, by: f64) -> f64 {
        size.0 as f64 * self.operation.bus_factor(self.gpus.len()) / by
    }

    /// What NCCL is predicted to take under these variables.
    fn tuned(&self, size: Size, truth: &Truth, nccl: &Variables) -> Result<Task, String> {
        let ids = self.gpus.iter().map(|gpu| truth.gpu(gpu)).collect::<Result<Vec<NodeId>, _>>()?;
        let operation = self.operation;
        let unknown = || format!("the model does not predict this {} of NCCL's", operation.name());
        let mut tuning = Tuning::of(truth.model.machine, truth.model.parts, ids, operation).ok_or_else(unknown)?;
        // as every run of a proof is
        let mut nccl = nccl.clone();
        nccl.entry("NCCL_NVLS_ENABLE".to_owned()).or_insert_with(|| "0".to_owned());
        let predicted = tuning.predict(&Settings::of(&nccl, operation), size.most()).ok_or_else(unknown)?;
        Ok(truth.timed(size, vec![self.bus(size.most(), predicted.rate)]))
    }
}

impl<'w> Kind<'w> for Ranks<'w> {
    fn words(&self) -> String {
        format!("{} of {}", self.operation.name(), list(self.gpus))
    }

    fn nodes(&self) -> Vec<&'w str> {
        names(self.gpus)
    }

    fn paths(&self) -> Vec<Path<'w>> {
        self.sends().into_iter().map(|(from, to)| Path { from, to, via: Via::Direct }).collect()
    }

    fn answers(&self) -> &'static [(Quantity, Unit)] {
        &[(Quantity::BusBandwidth, Unit::GigabytesPerSecond), (Quantity::Latency, Unit::Microseconds)]
    }

    fn value(&self, size: Bytes, (quantity, _): (Quantity, Unit), sample: &[f64]) -> f64 {
        let seconds = self.headline(sample);
        if quantity == Quantity::BusBandwidth { self.bus(size, seconds) / 1e9 } else { seconds * 1e6 }
    }

    /// Which of the ways among its GPUs the library takes is not known.
    fn is_picked(&self, has: &dyn Fn(&str, &str) -> bool) -> bool {
        are_picked(self.gpus, has)
    }

    fn is_swept(&self) -> bool {
        true
    }

    fn curve(&self) -> CurveWords {
        let settings = BTreeMap::from([("ranks".to_owned(), self.gpus.len().to_string())]);
        (self.operation.name().to_owned(), self.gpus.to_vec(), settings)
    }

    /// A bound: every rank sends to the next at once, or to all others, by kernels, as fast as the slowest of them
    /// goes; and a time for the operation itself.
    fn simulate(&self, size: Size, truth: &Truth) -> Result<Task, String> {
        let gpus = self.gpus;
        if gpus.iter().collect::<BTreeSet<_>>().len() != gpus.len() {
            return Err("a GPU is named twice among the ranks".to_owned());
        }
        if gpus.len() < 2 {
            return Err("a collective is between several GPUs".to_owned());
        }
        if let Some(variables) = truth.nccl {
            return self.tuned(size, truth, variables);
        }
        // directly, or through host memory where there is no other way
        let send = |(from, to)| {
            let (source, destination) = (truth.gpu(from)?, truth.gpu(to)?);
            let (engine, op, peer) = (Engine::Sm, Operation::Write, PeerAccess::Enabled);
            let transfer = model::Transfer { source, destination, engine, op, peer };
            Ok(Driven { transfer, driver: source })
        };
        let sends = self.sends().into_iter().map(send).collect::<Result<Vec<Driven>, String>>()?;
        let slowest = truth.rates(&sends)?.into_iter().fold(f64::INFINITY, f64::min);
        let to_all = self.operation == Collective::AllToAll;
        let bus = if to_all { slowest * (gpus.len() - 1) as f64 } else { slowest };
        Ok(truth.timed(size, vec![OPERATION + self.bus(size.most(), bus)]))
    }
}
