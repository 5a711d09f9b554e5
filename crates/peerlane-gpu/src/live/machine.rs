//! The GPUs together: who reaches whom, and the memory that steps use.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::thread;

use peerlane::names::is_host;
use peerlane::plan::Transfer;
use peerlane::run::Conditions;

use super::failure::Problem;
use super::gate::{Gate, SharedGate};
use super::gpu::{Gpu, Opened};
use super::pool::{Place, Pool};
use super::{GpuName, OpenError};
use crate::cuda::{Buffer, Device, Driver};
use crate::nccl::{Communicators, Loaded};

/// Memory of a GPU that is left to others.
const SPARE: u64 = 1 << 30;

/// All that steps share.
pub(crate) struct Machine {
    driver: &'static Driver,
    // what was made on GPUs goes before them
    /// By the GPUs that are their ranks.
    communicators: Vec<(Vec<String>, Rc<Communicators>)>,
    pub(crate) gate: SharedGate,
    pool: Pool,
    gpus: Vec<Rc<Gpu>>,
    /// Whether peer access is on, by index of who reaches and who is reached; absent where it was never set.
    access: BTreeMap<(usize, usize), bool>,
    seed: u32,
}

impl Machine {
    /// Opens the driver and the GPUs, all at once, since each takes some tenths of a second.
    pub(crate) fn open(names: &[GpuName]) -> Result<Self, OpenError> {
        let whole = |reason: String| OpenError { gpu: None, reason };
        let of =
            |gpu: &str, reason: String| OpenError { gpu: Some(gpu.to_owned()), reason: format!("{gpu}: {reason}") };
        let driver = Driver::open().map_err(whole)?;
        let devices = Device::all(driver).map_err(|e| whole(e.to_string()))?;
        let mut found = Vec::new();
        for GpuName { name, address } in names {
            let here = |device: &&Device| device.address().is_ok_and(|a| a.as_ref() == Some(address));
            let Some(device) = devices.iter().find(here) else {
                let why = format!("CUDA does not show it at {address}; is it hidden by CUDA_VISIBLE_DEVICES?");
                return Err(of(name, why));
            };
            found.push((name, *device));
        }
        let opened: Vec<_> = thread::scope(|scope| {
            let started: Vec<_> = found.iter().map(|(_, device)| scope.spawn(|| Opened::new(*device))).collect();
            started.into_iter().map(|thread| thread.join()).collect()
        });
        let mut gpus = Vec::new();
        for ((name, _), opened) in found.into_iter().zip(opened) {
            match opened {
                Ok(Ok(opened)) => gpus.push(Rc::new(Gpu::new(name.clone(), opened))),
                Ok(Err(error)) => return Err(of(name, error.to_string())),
                Err(_) => return Err(of(name, "opening it failed".to_owned())),
            }
        }
        let first = gpus.first().ok_or_else(|| whole("no GPU to open".to_owned()))?;
        let gate = Gate::new(&first.context).map_err(|e| of(&first.name, e.to_string()))?;
        let gate = Rc::new(RefCell::new(gate));
        Ok(Machine {
            driver,
            gpus,
            gate,
            pool: Pool::default(),
            access: BTreeMap::new(),
            communicators: Vec::new(),
            seed: 0,
        })
    }

    /// What is known of the libraries so far.
    pub(crate) fn conditions(&self) -> Conditions {
        let cuda = self.driver.version().map(|(major, minor)| format!("{major}.{minor}"));
        let mut libraries = vec![self.driver.file.clone()];
        let nccl = self.communicators.first().map(|(_, made)| made.loaded);
        libraries.extend(nccl.map(|loaded| loaded.file.clone()));
        Conditions { cuda, nccl: nccl.and_then(Loaded::version), libraries, ..Conditions::default() }
    }

    fn index(&self, name: &str) -> Result<usize, Problem> {
        let at = self.gpus.iter().position(|gpu| gpu.name == name);
        at.ok_or_else(|| Problem::NotApplicable(format!("{name} is no GPU that was opened here")))
    }

    /// A GPU by name.
    pub(crate) fn gpu(&self, name: &str) -> Result<Rc<Gpu>, Problem> {
        Ok(Rc::clone(&self.gpus[self.index(name)?]))
    }

    /// A GPU by name, or `other` where the name is the host's.
    pub(crate) fn gpu_or(&self, name: &str, other: &Rc<Gpu>) -> Result<Rc<Gpu>, Problem> {
        if is_host(name) { Ok(Rc::clone(other)) } else { self.gpu(name) }
    }

    /// A buffer on a node by name: see [`Pool::take`].
    pub(crate) fn buffer(
        &mut self,
        node: &str,
        number: usize,
        allocation: usize,
        bytes: usize,
    ) -> Result<Rc<dyn Buffer>, Problem> {
        let place = match node.strip_prefix("host") {
            Some(numa) if is_host(node) => numa.parse().map_or(Place::Host, Place::Node),
            _ => Place::Gpu(self.index(node)?),
        };
        self.pool.take(&self.gpus, (place, number, allocation), bytes)
    }

    /// The most that a message of transfers at once may hold, so that all of them fit into what is free.
    pub(crate) fn fitting(&self, transfers: &[&Transfer], wanted: usize) -> Result<usize, Problem> {
        let mut most = wanted;
        for (index, gpu) in self.gpus.iter().enumerate() {
            let ends = transfers.iter().flat_map(|t| [&t.source, &t.destination]).filter(|n| **n == gpu.name).count();
            if ends == 0 {
                continue;
            }
            let (free, _) = gpu.context.memory()?;
            let share = free.saturating_sub(SPARE).max(free / 4) + self.pool.held(index);
            let share = usize::try_from(share / ends as u64).unwrap_or(usize::MAX);
            while most > share && most > 1 << 20 {
                most /= 2;
            }
        }
        let ends = transfers.iter().flat_map(|t| [&t.source, &t.destination]).filter(|n| is_host(n)).count();
        if ends > 0
            && let Some(free) = crate::host::available()
        {
            while (most * ends) as u64 > free / 2 && most > 1 << 20 {
                most /= 2;
            }
        }
        Ok(most)
    }

    /// Lets one GPU reach another's memory, or no longer.
    pub(crate) fn access(&mut self, from: &Gpu, to: &Gpu, on: bool) -> Result<(), Problem> {
        let pair = (self.index(&from.name)?, self.index(&to.name)?);
        for (a, b) in [pair, (pair.1, pair.0)] {
            let known = self.access.get(&(a, b)).copied();
            if known == Some(on) || known.is_none() && !on {
                continue;
            }
            let (from, to) = (&self.gpus[a], &self.gpus[b]);
            if on && !from.context.device.can_access(&to.context.device) {
                return Err(Problem::NotApplicable(format!("no peer access from {} to {}", from.name, to.name)));
            }
            from.context.set_access(&to.context, on)?;
            self.access.insert((a, b), on);
        }
        Ok(())
    }

    /// NCCL's communicators of these GPUs, made once.
    pub(crate) fn communicators(&mut self, gpus: &[String]) -> Result<Rc<Communicators>, Problem> {
        if let Some((_, made)) = self.communicators.iter().find(|(names, _)| names == gpus) {
            return Ok(Rc::clone(made));
        }
        let loaded = Loaded::open().map_err(Problem::NotApplicable)?;
        let devices: Result<Vec<i32>, Problem> = gpus.iter().map(|n| Ok(self.gpu(n)?.context.device.handle)).collect();
        let made = Rc::new(Communicators::join(loaded, &devices?)?);
        self.communicators.push((gpus.to_vec(), Rc::clone(&made)));
        Ok(made)
    }

    /// Content that no step before had.
    pub(crate) fn next_seed(&mut self) -> u32 {
        self.seed = self.seed.wrapping_add(1);
        self.seed
    }
}
