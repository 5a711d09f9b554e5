//! What the model predicts for one step: the true values of a sample, before faults and noise of the sample.

use std::collections::BTreeSet;

use super::Fault;
use super::fault::{is_pair, ring};
use super::rates::{Driven, rates};
use crate::measure::Failure;
use crate::plan::{Method, Size, Step, StreamKernel, Work};
use crate::run::{FlagKind, NO_GPU_MEMORY};
use peerlane_machine::bfs::Bfs;
use peerlane_machine::copy_time::{CopyTime, Startup};
use peerlane_machine::exchange::Exchange;
use peerlane_machine::fabric::{NodeId, NodeKind};
use peerlane_machine::halo::Halo;
use peerlane_machine::machine::lookup::HOST;
use peerlane_machine::matrix::{Engine, Operation};
use peerlane_machine::names::is_host;
use peerlane_machine::spin_glass::SpinGlass;
use peerlane_machine::transfer::{Collective, HostMemory, NicEnd, Rdma, Transfer, Via};
use peerlane_machine::units::{Bytes, Rate, Seconds};
use peerlane_model::collectives::tuning::Tuning;
use peerlane_model::collectives::{Settings, Variables};
use peerlane_model::expectation::resolve;
use peerlane_model::model::rdma::{between, with_gpu};
use peerlane_model::model::{Model, ModelError, PeerAccess};

/// The least message where a size is to fit the sample's time.
const LEAST: u64 = 4096;

/// Seconds that an NCCL operation takes of itself: an all-reduce of up to 64 KiB among four H200 takes 19.6 to 21.9 µs
/// (nccl-tests 2.19, captures/h200x4-vm). Assumed of all machines.
const COLLECTIVE: f64 = 20.2e-6;

/// What a step's samples are.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Task {
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
pub(super) struct Site<'m, 'a> {
    pub model: &'m Model<'a>,
    pub faults: &'m [Fault],
    pub method: &'m Method,
    /// NCCL's variables, where collectives are to be NCCL's.
    pub nccl: Option<&'m Variables>,
}

/// The machine has no such path or ability, or the model knows nothing of it.
pub(super) fn not_applicable(message: impl Into<String>) -> Failure {
    Failure::new(FlagKind::NotApplicable, message)
}

impl Site<'_, '_> {
    /// The tasks of steps that run at once. All their transfers share the machine; what moves no data in bulk is
    /// taken to leave it alone.
    pub(super) fn tasks(&self, steps: &[&Step]) -> Result<Vec<Task>, Failure> {
        let transfers = |step: &Step| match &step.work {
            Work::Transfers(transfers) if transfers.is_empty() => Err(not_applicable("there is nothing to move")),
            Work::Transfers(transfers) => transfers.iter().map(|t| self.driven(t)).collect(),
            _ => Ok(Vec::new()),
        };
        let by_step = steps.iter().map(|step| transfers(step)).collect::<Result<Vec<Vec<Driven>>, _>>()?;
        let mut rates = self.rates(&by_step.concat())?.into_iter();
        let tasks = steps.iter().zip(&by_step).map(|(step, driven)| {
            let rates: Vec<f64> = rates.by_ref().take(driven.len()).collect();
            self.task(step, driven, &rates)
        });
        tasks.collect()
    }

    fn rates(&self, all: &[Driven]) -> Result<Vec<f64>, Failure> {
        rates(self.model, all, self.faults)
            .map_err(|e: ModelError| not_applicable(format!("the model does not predict this: {e}")))
    }

    fn task(&self, step: &Step, driven: &[Driven], rates: &[f64]) -> Result<Task, Failure> {
        match &step.work {
            Work::Transfers(_) => Ok(self.moving(step.size, driven, rates)),
            Work::Loads { gpu, memory } => self.loads(step.size, gpu, memory),
            Work::Signals { a, b } => {
                self.gpu(a)?;
                self.gpu(b)?;
                Err(not_applicable(format!("the model does not predict how long a signal between {a} and {b} takes")))
            }
            Work::SmallCopies(transfer) => self.small(step.size, transfer),
            Work::Collective { operation, gpus } => self.collective(step.size, *operation, gpus),
            Work::HostMemory { node, kernel } => self.host_memory(step.size, node, *kernel),
            Work::Halo(halo) => self.halo(step.size, halo),
            Work::SpinGlass(lattice) => self.spin_glass(step.size, lattice),
            Work::Bfs(search) => self.bfs(step.size, search),
            Work::Rdma(rdma) => self.rdma(step.size, rdma),
        }
    }

    fn find(&self, name: &str) -> Result<NodeId, Failure> {
        let machine = self.model.machine;
        machine.fabric.find(name).ok_or_else(|| not_applicable(format!("{} has no {name}", machine.name)))
    }

    fn gpu(&self, name: &str) -> Result<NodeId, Failure> {
        let id = self.find(name)?;
        let is_gpu = self.model.machine.fabric.node(id).kind == NodeKind::Gpu;
        if is_gpu { Ok(id) } else { Err(not_applicable(format!("{name} is no GPU"))) }
    }

    /// A transfer by its nodes, if this machine can make it.
    fn driven(&self, transfer: &Transfer) -> Result<Driven, Failure> {
        let Model { machine, .. } = self.model;
        let host = [&transfer.source, &transfer.destination].into_iter().any(|name| is_host(name));
        match transfer.memory {
            HostMemory::Pageable if host => {
                return Err(not_applicable("the model does not predict copies of pageable memory"));
            }
            HostMemory::ManagedFaults | HostMemory::ManagedPrefetch if host => {
                return Err(not_applicable("the model does not predict how managed memory moves"));
            }
            _ => {}
        }
        if transfer.via != Via::Direct {
            let refuse = |why: &str| Err(not_applicable(format!("{transfer}: {why}")));
            if transfer.source == transfer.destination || transfer.gpus().count() != 2 {
                return refuse("staging is between two GPUs");
            }
            if transfer.engine == Engine::Sm {
                return refuse("without peer access, no kernel reaches the other GPU");
            }
        }
        let unknown = || not_applicable(format!("{} has no path {transfer}", machine.name));
        for name in [&transfer.source, &transfer.destination].into_iter().filter(|name| *name != "host") {
            self.find(name)?;
        }
        let resolved = resolve(&machine.fabric, transfer).ok_or_else(unknown)?;
        // without peer access: what the driver then makes of a copy is requested as [`Via::Driver`]
        if let (Via::Direct, Ok(route)) = (transfer.via, self.model.route(&resolved))
            && route.staged
        {
            let why = route.staged_because.map_or_else(|| "no peer access".to_owned(), |why| why.to_string());
            return Err(not_applicable(format!("{transfer}: {why}")));
        }
        Ok(Driven { transfer: resolved, driver: self.find(transfer.driver())? })
    }

    /// What a GPU takes of itself takes this many times as long.
    fn slowness(&self, gpu: NodeId) -> f64 {
        let is = |name: &str| self.model.machine.fabric.find(name) == Some(gpu);
        let factors = self.faults.iter().filter_map(|fault| match fault {
            Fault::Throttle { gpu: throttled, factor } if is(throttled) => Some(1.0 / factor),
            _ => None,
        });
        factors.product()
    }

    /// Times by size where copies run at this rate once they move; a NIC's have no start-up that the model knows.
    fn copies(&self, driven: &Driven, rate: f64) -> CopyTime {
        let none = Startup::unhidden(Seconds::new(0.0));
        let startup = self.model.startup(&driven.transfer).unwrap_or(none).times(self.slowness(driven.driver));
        CopyTime { startup, rate: Rate::from_bytes_per_second(rate) }
    }

    /// Rates at a size, from asymptotic ones.
    fn moving(&self, size: Size, driven: &[Driven], rates: &[f64]) -> Task {
        let copies: Vec<CopyTime> = driven.iter().zip(rates).map(|(d, rate)| self.copies(d, *rate)).collect();
        let fastest = rates.iter().copied().fold(0.0, f64::max);
        let sample = self.method.sample_time.seconds();
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
    fn timed(&self, size: Size, values: Vec<f64>) -> Task {
        let size = size.most();
        let duration = values.iter().copied().fold(self.method.sample_time.seconds(), f64::max);
        Task { values, rates: false, size, duration }
    }

    fn loads(&self, size: Size, gpu: &str, memory: &str) -> Result<Task, Failure> {
        self.gpu(gpu)?;
        let transfer = Transfer { engine: Engine::Sm, op: Operation::Read, ..Transfer::new(memory, gpu) };
        let Driven { transfer, driver } = self.driven(&transfer)?;
        let own = transfer.source == transfer.destination;
        let load = if own { None } else { self.model.load(driver, transfer.source) };
        let load = load.ok_or_else(|| {
            not_applicable(format!("the model does not predict how long a load from {memory} to {gpu} takes"))
        })?;
        Ok(self.timed(size, vec![load.time.seconds() * self.slowness(driver)]))
    }

    fn small(&self, size: Size, transfer: &Transfer) -> Result<Task, Failure> {
        let driven = self.driven(transfer)?;
        let alone = self.rates(&[driven])?;
        let enqueue = self.model.enqueue(&driven.transfer);
        let (Some(rate), Some(enqueue)) = (alone.first(), enqueue) else {
            return Err(not_applicable(format!("the model does not predict how long a small copy {transfer} takes")));
        };
        let time = self.copies(&driven, *rate).time(size.most());
        Ok(self.timed(size, vec![time.seconds(), enqueue.time.seconds()]))
    }

    /// A bound: every rank sends to the next at once, or to all others, by kernels, as fast as the slowest of them
    /// goes; and a time for the operation itself.
    fn collective(&self, size: Size, operation: Collective, gpus: &[String]) -> Result<Task, Failure> {
        if gpus.iter().collect::<BTreeSet<_>>().len() != gpus.len() {
            return Err(not_applicable("a GPU is named twice among the ranks"));
        }
        if gpus.len() < 2 {
            return Err(not_applicable("a collective is between several GPUs"));
        }
        if let Some(variables) = self.nccl {
            return self.tuned(size, operation, gpus, variables);
        }
        let to_all = operation == Collective::AllToAll;
        let pairs: Vec<(&str, &str)> = if to_all {
            let others = |a: &str| gpus.iter().map(String::as_str).filter(move |b| *b != a).collect::<Vec<_>>();
            gpus.iter().flat_map(|a| others(a).into_iter().map(move |b| (a.as_str(), b))).collect()
        } else {
            ring(gpus).collect()
        };
        let sends = pairs.into_iter().map(|(a, b)| self.send(a, b)).collect::<Result<Vec<Driven>, _>>()?;
        let slowest = self.rates(&sends)?.into_iter().fold(f64::INFINITY, f64::min);
        let bus = if to_all { slowest * (gpus.len() - 1) as f64 } else { slowest };
        let time = COLLECTIVE + size.most().0 as f64 * operation.bus_factor(gpus.len()) / bus;
        Ok(self.timed(size, vec![time]))
    }

    /// What NCCL is predicted to take under these variables.
    fn tuned(&self, size: Size, operation: Collective, gpus: &[String], nccl: &Variables) -> Result<Task, Failure> {
        let ids = gpus.iter().map(|gpu| self.gpu(gpu)).collect::<Result<Vec<NodeId>, _>>()?;
        let unknown = || not_applicable(format!("the model does not predict this {} of NCCL's", operation.name()));
        let mut tuning = Tuning::of(self.model.machine, self.model.parts, ids, operation).ok_or_else(unknown)?;
        // as every run of a proof is
        let mut nccl = nccl.clone();
        nccl.entry("NCCL_NVLS_ENABLE".to_owned()).or_insert_with(|| "0".to_owned());
        let predicted = tuning.predict(&Settings::of(&nccl, operation), size.most()).ok_or_else(unknown)?;
        let time = size.most().0 as f64 * operation.bus_factor(gpus.len()) / predicted.rate;
        Ok(self.timed(size, vec![time]))
    }

    /// One rank's sending to another: directly, or through host memory where there is no other way.
    fn send(&self, from: &str, to: &str) -> Result<Driven, Failure> {
        let (source, destination) = (self.gpu(from)?, self.gpu(to)?);
        let (engine, op, peer) = (Engine::Sm, Operation::Write, PeerAccess::Enabled);
        let transfer = peerlane_model::model::Transfer { source, destination, engine, op, peer };
        Ok(Driven { transfer, driver: source })
    }

    /// The time of an exchange.
    fn halo(&self, size: Size, halo: &Halo) -> Result<Task, Failure> {
        let gpus = halo.gpus.iter().map(|gpu| self.gpu(gpu)).collect::<Result<Vec<NodeId>, _>>()?;
        if let Some(why) = halo.problem() {
            return Err(not_applicable(why));
        }
        let hindered = self.hindered(halo)?;
        let unknown = || not_applicable("the model does not predict this: a rate is not known");
        let predicted = self.model.halo(halo).ok_or_else(unknown)?;
        let slowness = gpus.into_iter().map(|gpu| self.slowness(gpu)).fold(1.0, f64::max);
        let startup = predicted.told(0.0);
        let moving = predicted.told(halo.face.0 as f64) - startup;
        Ok(self.timed(size, vec![startup * slowness + moving * hindered]))
    }

    /// So many times as long as without faults the slowest faces take, one leg of their way after the other.
    fn hindered(&self, halo: &Halo) -> Result<f64, Failure> {
        let engine = if halo.exchange == Exchange::Stores { Engine::Sm } else { Engine::Ce };
        let leg = |ends: &dyn Fn(&str, &str) -> Transfer| {
            let transfers = halo.sends().map(|sent| ends(&halo.gpus[sent.from], &halo.gpus[sent.to]));
            let driven =
                transfers.map(|t| self.driven(&Transfer { engine, ..t })).collect::<Result<Vec<Driven>, _>>()?;
            let slowest = |rates: Vec<f64>| 1.0 / rates.into_iter().fold(f64::INFINITY, f64::min);
            let free = Site { faults: &[], ..*self }.rates(&driven)?;
            Ok((slowest(self.rates(&driven)?), slowest(free)))
        };
        let legs: Vec<(f64, f64)> = match halo.exchange {
            Exchange::Staged => {
                vec![leg(&|from, _| Transfer::new(from, HOST))?, leg(&|_, to| Transfer::new(HOST, to))?]
            }
            Exchange::Stores | Exchange::Copies => vec![leg(&|from, to| Transfer::new(from, to))?],
        };
        let (hindered, free) = legs.into_iter().fold((0.0, 0.0), |sum, leg| (sum.0 + leg.0, sum.1 + leg.1));
        Ok(hindered / free)
    }

    /// The time of a place, as slow as the slowest of its GPUs.
    fn spin_glass(&self, size: Size, lattice: &SpinGlass) -> Result<Task, Failure> {
        let gpus = lattice.gpus.iter().map(|gpu| self.gpu(gpu)).collect::<Result<Vec<NodeId>, _>>()?;
        if let Some(why) = lattice.problem() {
            return Err(not_applicable(why));
        }
        let predicted = self.model.spin_glass(lattice).ok_or_else(|| {
            not_applicable(format!(
                "the model does not predict this: a rate is not known, or caches hold much of a lattice of L = {}",
                lattice.side
            ))
        })?;
        let mut values = vec![predicted.total / (lattice.places() as f64 / 2.0)];
        if gpus.len() > 1 {
            values.extend([predicted.update, predicted.boundary, predicted.exchange]);
        }
        let slowness = gpus.into_iter().map(|gpu| self.slowness(gpu)).fold(1.0, f64::max);
        Ok(self.timed(size, values.into_iter().map(|value| value * slowness).collect()))
    }

    /// The rate of searches, as slow as the slowest of their GPUs.
    fn bfs(&self, size: Size, search: &Bfs) -> Result<Task, Failure> {
        let gpus = search.gpus.iter().map(|gpu| self.gpu(gpu)).collect::<Result<Vec<NodeId>, _>>()?;
        if let Some(why) = search.problem() {
            return Err(not_applicable(why));
        }
        let predicted = self.model.bfs(search).ok_or_else(|| {
            not_applicable("the model does not predict this: a rate is not known, or the graph does not fit".to_owned())
        })?;
        let slowness = gpus.into_iter().map(|gpu| self.slowness(gpu)).fold(1.0, f64::max);
        let time = predicted.total * slowness;
        let duration = time * Bfs::ROOTS as f64;
        Ok(Task { values: vec![search.edges() as f64 / time], rates: true, size: size.most(), duration })
    }

    /// The rate from memory to memory, as slow as a planted fault makes a direction on the way.
    fn rdma(&self, size: Size, rdma: &Rdma) -> Result<Task, Failure> {
        let fabric = &self.model.machine.fabric;
        let end = |end: &NicEnd| -> Result<[NodeId; 2], Failure> {
            let nic = self.find(&end.nic)?;
            let near = || not_applicable(format!("no host memory is known near {}", end.nic));
            let memory =
                if end.memory == "host" { fabric.nearest_host(nic).ok_or_else(near)? } else { self.find(&end.memory)? };
            Ok([memory, nic])
        };
        let (from, to) = (end(&rdma.from)?, end(&rdma.to)?);
        let through = match rdma.gpu() {
            Some((gpu, nic)) => {
                let direct = rdma.via == Via::Direct;
                let off = |fault: &Fault| matches!(fault, Fault::PeerOff { pair } if is_pair(pair, gpu, nic));
                if direct && self.faults.iter().any(off) {
                    let refused = "dmabuf: refused; nvidia-peermem: refused";
                    return Err(not_applicable(format!("{NO_GPU_MEMORY} for {nic}: {refused}")));
                }
                with_gpu(self.model, self.gpu(gpu)?, from[1], is_host(&rdma.from.memory), !direct)
            }
            None => between(self.model, from, to),
        };
        let (rate, _) = through.map_err(|e| not_applicable(format!("the model does not predict {rdma}: {e}")))?;
        // what goes from where to where, one after the other
        let mut legs = vec![(from[0], from[1]), (to[1], to[0])];
        if rdma.gpu().is_some() && rdma.via != Via::Direct {
            legs = if is_host(&rdma.from.memory) {
                vec![(from[0], from[1]), (to[1], from[0]), (from[0], to[0])]
            } else {
                vec![(from[0], to[0]), (to[0], from[1]), (to[1], to[0])]
            };
        }
        let slow = self.faults.iter().filter_map(|fault| match fault {
            Fault::Slow { from: a, to: b, factor } => {
                let (a, b) = fabric.find(a).zip(fabric.find(b))?;
                let on_path = |x: NodeId, y: NodeId| {
                    (a, b) == (x, y)
                        || fabric.path(x, y).is_some_and(|path| path.hops.iter().any(|h| (h.from, h.to) == (a, b)))
                };
                let between = rdma.gpu().is_none() && (a, b) == (from[1], to[1]);
                (between || legs.iter().any(|(x, y)| on_path(*x, *y))).then_some(*factor)
            }
            _ => None,
        });
        let rate = rate.bytes_per_second() * slow.product::<f64>();
        let size = size.most();
        let duration = (size.0 as f64 / rate).max(self.method.sample_time.seconds());
        Ok(Task { values: vec![rate], rates: true, size, duration })
    }

    /// The peak of the memory bus, which is all that the model knows: a bound.
    fn host_memory(&self, size: Size, node: &str, kernel: StreamKernel) -> Result<Task, Failure> {
        let fabric = &self.model.machine.fabric;
        let nodes = if node == "host" { fabric.of_kind(NodeKind::Host).collect() } else { vec![self.find(node)?] };
        let capacity = |id: NodeId| {
            let of_node = self.model.resources.iter().find(|r| r.node == Some(id));
            of_node.filter(|_| fabric.node(id).kind == NodeKind::Host).map(|r| r.capacity.bytes_per_second())
        };
        let rate = nodes.iter().map(|id| capacity(*id)).sum::<Option<f64>>().filter(|rate| *rate > 0.0);
        let rate = rate.ok_or_else(|| not_applicable(format!("the memory rate of {node} is not known")))?;
        let arrays = match kernel {
            StreamKernel::Read => 1.0,
            StreamKernel::Copy => 2.0,
            StreamKernel::Triad => 3.0,
        };
        let size = size.most();
        let duration = (arrays * size.0 as f64 / rate).max(self.method.sample_time.seconds());
        Ok(Task { values: vec![rate], rates: true, size, duration })
    }
}
