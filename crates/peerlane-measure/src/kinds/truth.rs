//! What a simulated machine is like: its model with its faults, by which each kind of work answers.

use super::rates::{Driven, rates};
use super::{Size, Step, Work};
use peerlane_machine::copy_time::{CopyTime, Startup};
use peerlane_machine::fabric::{NodeId, NodeKind};
use peerlane_machine::fault::Fault;
use peerlane_machine::matrix::Engine;
use peerlane_machine::names::is_host;
use peerlane_machine::transfer::{HostMemory, Transfer, Via};
use peerlane_machine::units::{Bytes, Rate, Seconds};
use peerlane_model::collectives::Variables;
use peerlane_model::expectation::resolve;
use peerlane_model::model::{Model, ModelError};

/// The least message where a size is to fit the sample's time.
const LEAST: u64 = 4096;

/// What a step's samples are.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// True values of one sample.
    pub values: Vec<f64>,
    /// Bytes a second, else seconds.
    pub rates: bool,
    /// Bytes of a message.
    pub size: Bytes,
    /// Seconds that one sample takes.
    pub duration: f64,
}

/// What steps that run at once are answered by.
pub struct Truth<'m, 'a> {
    pub(crate) model: &'m Model<'a>,
    pub(crate) faults: &'m [Fault],
    /// The least time that a sample takes.
    pub(crate) sample_time: Seconds,
    /// NCCL's variables, where collectives are to be NCCL's.
    pub(crate) nccl: Option<&'m Variables>,
}

impl Truth<'_, '_> {
    /// The tasks of steps that run at once, or why they cannot run. All their transfers share the machine; what moves no data in
    /// bulk is taken to leave it alone.
    pub(crate) fn tasks(&self, steps: &[&Step]) -> Result<Vec<Task>, String> {
        let transfers = |step: &Step| match &step.work {
            Work::Transfers(transfers) if transfers.is_empty() => Err("there is nothing to move".to_owned()),
            Work::Transfers(transfers) => self.all_driven(transfers),
            _ => Ok(Vec::new()),
        };
        let by_step = steps.iter().map(|step| transfers(step)).collect::<Result<Vec<Vec<Driven>>, _>>()?;
        let mut rates = self.rates(&by_step.concat())?.into_iter();
        let tasks = steps.iter().zip(&by_step).map(|(step, driven)| {
            let rates: Vec<f64> = rates.by_ref().take(driven.len()).collect();
            if driven.is_empty() {
                step.work.kind().simulate(step.size, self)
            } else {
                Ok(self.moving(step.size, driven, &rates))
            }
        });
        tasks.collect()
    }

    pub(super) fn rates(&self, all: &[Driven]) -> Result<Vec<f64>, String> {
        rates(self.model, all, self.faults).map_err(|e: ModelError| format!("the model does not predict this: {e}"))
    }

    pub(super) fn all_driven(&self, transfers: &[Transfer]) -> Result<Vec<Driven>, String> {
        transfers.iter().map(|transfer| self.driven(transfer)).collect()
    }

    pub(super) fn find(&self, name: &str) -> Result<NodeId, String> {
        let machine = self.model.machine;
        machine.fabric.find(name).ok_or_else(|| format!("{} has no {name}", machine.name))
    }

    pub(super) fn gpu(&self, name: &str) -> Result<NodeId, String> {
        let id = self.find(name)?;
        let is_gpu = self.model.machine.fabric.node(id).kind == NodeKind::Gpu;
        if is_gpu { Ok(id) } else { Err(format!("{name} is no GPU")) }
    }

    /// A transfer by its nodes, if this machine can make it.
    pub(super) fn driven(&self, transfer: &Transfer) -> Result<Driven, String> {
        let Model { machine, .. } = self.model;
        let host = [&transfer.source, &transfer.destination].into_iter().any(|name| is_host(name));
        match transfer.memory {
            HostMemory::Pageable if host => {
                return Err("the model does not predict copies of pageable memory".to_owned());
            }
            HostMemory::ManagedFaults | HostMemory::ManagedPrefetch if host => {
                return Err("the model does not predict how managed memory moves".to_owned());
            }
            _ => {}
        }
        if transfer.via != Via::Direct {
            let refuse = |why: &str| Err(format!("{transfer}: {why}"));
            if transfer.source == transfer.destination || transfer.gpus().count() != 2 {
                return refuse("staging is between two GPUs");
            }
            if transfer.engine == Engine::Sm {
                return refuse("without peer access, no kernel reaches the other GPU");
            }
        }
        let unknown = || format!("{} has no path {transfer}", machine.name);
        for name in [&transfer.source, &transfer.destination].into_iter().filter(|name| *name != "host") {
            self.find(name)?;
        }
        let resolved = resolve(&machine.fabric, transfer).ok_or_else(unknown)?;
        // without peer access: what the driver then makes of a copy is requested as [`Via::Driver`]
        if let (Via::Direct, Ok(route)) = (transfer.via, self.model.route(&resolved))
            && route.staged
        {
            let why = route.staged_because.map_or_else(|| "no peer access".to_owned(), |why| why.to_string());
            return Err(format!("{transfer}: {why}"));
        }
        Ok(Driven { transfer: resolved, driver: self.find(transfer.driver())? })
    }

    /// What a GPU takes of itself takes this many times as long.
    pub(super) fn slowness(&self, gpu: NodeId) -> f64 {
        let is = |name: &str| self.model.machine.fabric.find(name) == Some(gpu);
        let factors = self.faults.iter().filter_map(|fault| match fault {
            Fault::Throttle { gpu: throttled, factor } if is(throttled) => Some(1.0 / factor),
            _ => None,
        });
        factors.product()
    }

    /// The slowness of the slowest of some GPUs.
    pub(super) fn slowest(&self, gpus: &[String]) -> Result<f64, String> {
        gpus.iter().try_fold(1.0, |most: f64, gpu| Ok(most.max(self.slowness(self.gpu(gpu)?))))
    }

    /// Times by size where copies run at this rate once they move; a NIC's have no start-up that the model knows.
    pub(super) fn copies(&self, driven: &Driven, rate: f64) -> CopyTime {
        let none = Startup::unhidden(Seconds::new(0.0));
        let startup = self.model.startup(&driven.transfer).unwrap_or(none).times(self.slowness(driven.driver));
        CopyTime { startup, rate: Rate::from_bytes_per_second(rate) }
    }

    /// Rates at a size, from asymptotic ones.
    pub(super) fn moving(&self, size: Size, driven: &[Driven], rates: &[f64]) -> Task {
        let copies: Vec<CopyTime> = driven.iter().zip(rates).map(|(d, rate)| self.copies(d, *rate)).collect();
        let fastest = rates.iter().copied().fold(0.0, f64::max);
        let sample = self.sample_time.seconds();
        let size = match size {
            Size::Exactly(size) => size.0.max(1),
            Size::UpTo(most) => {
                // the nearest power of two below: what the conversion makes of any float is in range
                let fitting = (fastest * sample) as u64;
                let power = fitting.checked_ilog2().map_or(LEAST, |p| 1 << p);
                power.max(LEAST).min(most.0.max(1))
            }
        };
        let times: Vec<f64> = copies.iter().map(|copies| copies.time(Bytes(size)).seconds()).collect();
        Task {
            values: times.iter().map(|time| size as f64 / time).collect(),
            rates: true,
            size: Bytes(size),
            duration: times.into_iter().fold(sample, f64::max),
        }
    }

    /// A task whose samples are times; many operations fill a sample.
    pub(super) fn timed(&self, size: Size, values: Vec<f64>) -> Task {
        let size = size.most();
        let duration = values.iter().copied().fold(self.sample_time.seconds(), f64::max);
        Task { values, rates: false, size, duration }
    }

    /// A task whose sample is a rate, of one operation that goes so many times over a message.
    pub(super) fn rated(&self, size: Size, times: f64, rate: f64) -> Task {
        let size = size.most();
        let duration = (times * size.0 as f64 / rate).max(self.sample_time.seconds());
        Task { values: vec![rate], rates: true, size, duration }
    }
}
