//! All GPUs together: their peer access, and the memory that steps use.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::thread;

use peerlane_machine::names::is_host;
use peerlane_machine::transfer::Transfer;
use peerlane_measure::run::{Conditions, FlagKind};

use super::gate::{Gate, SharedGate};
use super::gpu::{Gpu, Opened};
use super::pool::{Place, Pool};
use super::{GpuName, OpenError};
use crate::cuda::{Buffer, Device, Driver};
use crate::failure::Problem;
use crate::host;
use crate::nccl::{Communicators, Loaded};
use crate::timeline;

/// Who reaches, and who is reached, by index.
type Pair = (usize, usize);

/// Memory of a GPU that is left to others.
const SPARE: u64 = 1 << 30;

/// The driver, and the GPUs that it shows, not opened yet.
pub(crate) struct Found {
    driver: &'static Driver,
    devices: Vec<(String, Device)>,
}

impl Found {
    /// All GPUs that the driver shows, named by the order of their PCI addresses, which is nvidia-smi's.
    pub(crate) fn all() -> Result<(Vec<GpuName>, Vec<String>), String> {
        let driver = Driver::open()?;
        let mut devices = Vec::new();
        for device in Device::all(driver).map_err(|e| e.to_string())? {
            let of = |e: crate::cuda::CudaError| e.to_string();
            let address = device.address().map_err(of)?.ok_or("CUDA gives a GPU without a PCI address")?;
            devices.push((address, device.product().map_err(of)?));
        }
        devices.sort();
        let named =
            |(number, (address, _)): (usize, &(_, String))| GpuName { name: format!("GPU{number}"), address: *address };
        Ok((devices.iter().enumerate().map(named).collect(), devices.into_iter().map(|(_, product)| product).collect()))
    }

    /// Opens the driver and looks for GPUs. Those that it does not show are all named at once.
    pub(crate) fn look(names: &[GpuName]) -> Result<Self, OpenError> {
        let whole = |reason: String| OpenError { gpus: Vec::new(), kind: FlagKind::Failed, reason };
        let driver = Driver::open().map_err(whole)?;
        let shown = Device::all(driver).map_err(|e| whole(e.to_string()))?;
        let mut devices = Vec::new();
        let mut hidden = Vec::new();
        for GpuName { name, address } in names {
            let here = |device: &&Device| device.address().is_ok_and(|a| a.as_ref() == Some(address));
            match shown.iter().find(here) {
                Some(device) => devices.push((name.clone(), *device)),
                None => hidden.push(name.clone()),
            }
        }
        match hidden_from_us(hidden, devices.len()) {
            Some(error) => Err(error),
            None => Ok(Found { driver, devices }),
        }
    }
}

/// What it means that CUDA shows some GPUs, and not others. Where it shows none, there is nothing to go on with.
fn hidden_from_us(hidden: Vec<String>, shown: usize) -> Option<OpenError> {
    if hidden.is_empty() {
        return None;
    }
    let reason = format!("CUDA does not show {}; hidden by CUDA_VISIBLE_DEVICES?", hidden.join(", "));
    let gpus = if shown == 0 { Vec::new() } else { hidden };
    Some(OpenError { gpus, kind: FlagKind::NotApplicable, reason })
}

/// All that steps share.
pub(crate) struct Machine {
    driver: &'static Driver,
    // what was made on GPUs goes before them
    /// By the GPUs that are their ranks.
    communicators: Vec<(Vec<String>, Rc<Communicators>)>,
    /// Absent where no GPU is open.
    gate: Option<SharedGate>,
    pool: Pool,
    gpus: Vec<Rc<Gpu>>,
    /// Whether peer access is on, by index of who reaches and who is reached; absent where it was never set.
    access: BTreeMap<Pair, bool>,
    /// Those that the step which is being prepared relies on.
    relied_on: BTreeSet<Pair>,
    seed: u32,
}

impl Machine {
    /// Opens the GPUs, all at once, since each takes some tenths of a second.
    pub(crate) fn open(Found { driver, devices }: Found) -> Result<Self, OpenError> {
        let _span = timeline::begin("all contexts");
        let of = |gpu: &str, reason: String| OpenError {
            gpus: vec![gpu.to_owned()],
            kind: FlagKind::Failed,
            reason: format!("{gpu}: {reason}"),
        };
        let opened: Vec<_> = thread::scope(|scope| {
            let started: Vec<_> =
                devices.iter().map(|(name, device)| scope.spawn(|| Opened::new(name, *device))).collect();
            started.into_iter().map(|thread| thread.join()).collect()
        });
        let mut gpus = Vec::new();
        for ((name, _), opened) in devices.into_iter().zip(opened) {
            match opened {
                Ok(Ok(opened)) => gpus.push(Rc::new(Gpu::new(name, opened))),
                Ok(Err(error)) => return Err(of(&name, error.to_string())),
                Err(_) => return Err(of(&name, "it could not be opened".to_owned())),
            }
        }
        let gate = |gpu: &Rc<Gpu>| Gate::new(&gpu.context).map_err(|e| of(&gpu.name, e.to_string()));
        let gate = gpus.first().map(gate).transpose()?.map(|gate| Rc::new(RefCell::new(gate)));
        Ok(Machine {
            driver,
            gpus,
            gate,
            pool: Pool::default(),
            access: BTreeMap::new(),
            relied_on: BTreeSet::new(),
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

    /// What holds streams back until all is queued.
    pub(crate) fn gate(&self) -> Result<SharedGate, Problem> {
        self.gate.as_ref().map(Rc::clone).ok_or_else(|| Problem::NotApplicable("no GPU is open".to_owned()))
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

    /// Bytes of a GPU that are free, or that earlier steps used.
    pub(crate) fn room(&mut self, gpu: &str) -> Result<u64, Problem> {
        let index = self.index(gpu)?;
        let (free, _) = self.gpus[index].context.memory()?;
        Ok(free + self.pool.held(index))
    }

    /// The most that a message of transfers at once may hold, so that all of them fit into what is free.
    pub(crate) fn fitting(&mut self, transfers: &[&Transfer], wanted: usize) -> Result<usize, Problem> {
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
        for (node, ends) in host_ends(transfers) {
            self.make_room_on_host(&node, (most * ends) as u64);
            let free = host::available(host::node_of(&node)).unwrap_or(u64::MAX);
            while (most * ends) as u64 > free / 2 && most > 1 << 20 {
                most /= 2;
            }
        }
        Ok(most)
    }

    /// Gives back host memory that earlier steps used, if otherwise less than twice as much as is wanted would be free.
    pub(crate) fn make_room_on_host(&mut self, node: &str, wanted: u64) {
        if host::available(host::node_of(node)).is_some_and(|free| free / 2 < wanted) {
            self.pool.give_back_host();
        }
    }

    /// A step is about to be prepared, and what earlier ones relied on is not needed any more.
    pub(crate) fn begin(&mut self) {
        self.relied_on.clear();
    }

    /// Lets two GPUs reach each other's memory, or no longer.
    pub(crate) fn access(&mut self, from: &Gpu, to: &Gpu, on: bool) -> Result<(), Problem> {
        let pair = (self.index(&from.name)?, self.index(&to.name)?);
        for (a, b) in [pair, (pair.1, pair.0)] {
            if on {
                self.relied_on.insert((a, b));
            }
            let known = self.access.get(&(a, b)).copied();
            if known == Some(on) || known.is_none() && !on {
                continue;
            }
            let [from, to] = [a, b].map(|gpu| Rc::clone(&self.gpus[gpu]));
            if on && !from.context.device.can_access(&to.context.device) {
                return Err(Problem::NotApplicable(format!("no peer access from {} to {}", from.name, to.name)));
            }
            match from.context.set_access(&to.context, on) {
                Err(e) if e.is_too_many_peers() => {
                    self.give_up_access((a, b))?;
                    from.context.set_access(&to.context, on).map_err(|e| match e.is_too_many_peers() {
                        true => Problem::NotApplicable(format!(
                            "{} and {} have no room for another peer beside this step's: {e}",
                            from.name, to.name
                        )),
                        false => Problem::Cuda(e),
                    })?;
                }
                other => other?,
            }
            self.access.insert((a, b), on);
        }
        Ok(())
    }

    /// Makes room for a pair: without NVSwitch a GPU has at most eight peers at a time (CUDA C++ programming guide,
    /// peer-to-peer memory access).
    fn give_up_access(&mut self, pair: Pair) -> Result<(), Problem> {
        for (a, b) in dispensable(&self.access, &self.relied_on, pair) {
            self.gpus[a].context.set_access(&self.gpus[b].context, false)?;
            self.access.insert((a, b), false);
        }
        Ok(())
    }

    /// NCCL's communicators of these GPUs, made once, and anew where they were given up.
    pub(crate) fn communicators(&mut self, gpus: &[String]) -> Result<Rc<Communicators>, Problem> {
        self.communicators.retain(|(_, made)| !made.aborted());
        if let Some((_, made)) = self.communicators.iter().find(|(names, _)| names == gpus) {
            return Ok(Rc::clone(made));
        }
        let loaded = Loaded::open().map_err(Problem::NotApplicable)?;
        let ranks: Vec<Rc<Gpu>> = gpus.iter().map(|name| self.gpu(name)).collect::<Result<_, _>>()?;
        let devices: Vec<i32> = ranks.iter().map(|gpu| gpu.context.device.handle).collect();
        let made = Communicators::join(loaded, &devices)
            .map_err(|problem| problem.asked_of(ranks.iter().map(|gpu| gpu.context.synchronize())))?;
        let made = Rc::new(made);
        self.communicators.push((gpus.to_vec(), Rc::clone(&made)));
        Ok(made)
    }

    /// Content that no step before had.
    pub(crate) fn next_seed(&mut self) -> u32 {
        self.seed = self.seed.wrapping_add(1);
        self.seed
    }
}

/// How many buffers transfers have on each node of host memory; on the whole host, all of them.
fn host_ends(transfers: &[&Transfer]) -> BTreeMap<String, usize> {
    let mut ends = BTreeMap::new();
    for name in transfers.iter().flat_map(|t| [&t.source, &t.destination]).filter(|name| is_host(name)) {
        *ends.entry(name.clone()).or_default() += 1;
        if host::node_of(name).is_some() {
            *ends.entry("host".to_owned()).or_default() += 1;
        }
    }
    ends
}

/// Pairs of either GPU's that are on, though the step does not rely on them.
fn dispensable(access: &BTreeMap<Pair, bool>, relied_on: &BTreeSet<Pair>, (a, b): Pair) -> Vec<Pair> {
    let touches = |(x, y): Pair| [x, y].iter().any(|gpu| [a, b].contains(gpu));
    let on = access.iter().filter(|(_, on)| **on).map(|(pair, _)| *pair);
    on.filter(|pair| touches(*pair) && !relied_on.contains(pair)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ninth_peer_takes_the_place_of_those_that_the_step_does_not_need() {
        let both = |a, b| [((a, b), true), ((b, a), true)];
        let mut access: BTreeMap<Pair, bool> = (1..9).flat_map(|peer| both(0, peer)).chain(both(1, 2)).collect();
        access.insert((0, 8), false);
        let relied_on = BTreeSet::from([(0, 3), (3, 0), (0, 9), (9, 0)]);
        let given_up: BTreeSet<Pair> = dispensable(&access, &relied_on, (0, 9)).into_iter().collect();
        let wanted = [1, 2, 4, 5, 6, 7].into_iter().flat_map(|peer| [(0, peer), (peer, 0)]).chain([(8, 0)]);
        assert_eq!(given_up, wanted.collect(), "neither what is needed, nor what is off, nor what others have");
        assert_eq!(dispensable(&access, &access.keys().copied().collect(), (0, 9)), []);
    }

    #[test]
    fn memory_of_a_node_is_memory_of_the_host() {
        let transfers = [("host0", "GPU0"), ("GPU1", "host0"), ("GPU1", "GPU0"), ("host", "GPU1"), ("host1", "GPU0")];
        let transfers = transfers.map(|(from, to)| Transfer::new(from, to));
        let ends = host_ends(&transfers.iter().collect::<Vec<_>>());
        let named: Vec<(&str, usize)> = ends.iter().map(|(name, ends)| (name.as_str(), *ends)).collect();
        assert_eq!(named, [("host", 4), ("host0", 2), ("host1", 1)]);
    }

    #[test]
    fn all_hidden_gpus_are_named_at_once_and_the_others_are_worth_trying() {
        let hidden = || vec!["GPU2".to_owned(), "GPU3".to_owned()];
        assert_eq!(hidden_from_us(Vec::new(), 4), None);
        let some = hidden_from_us(hidden(), 2).unwrap();
        assert_eq!((some.gpus, some.kind), (hidden(), FlagKind::NotApplicable));
        assert_eq!(some.reason, "CUDA does not show GPU2, GPU3; hidden by CUDA_VISIBLE_DEVICES?");
        assert_eq!(hidden_from_us(hidden(), 0).unwrap().gpus, [""; 0]);
    }
}
