//! RDMA through the NICs of one machine.

use super::place::{Ends, Place, Shape};
use super::site::round_robin;
use super::{Kind, Scope, Site, Size, Step, Task, Test, Truth, Work, arrow};
use peerlane_machine::fabric::{NodeId, PathClass};
use peerlane_machine::fault::Fault;
use peerlane_machine::matrix::{Direction, Engine, Operation};
use peerlane_machine::names::is_host;
use peerlane_machine::transfer::{NicEnd, Rdma, Via};
use peerlane_machine::units::Bytes;
use peerlane_model::model::rdma::{between, with_gpu};

/// How the reason begins with which a NIC's step has no value since the adapter takes no GPU memory, neither as a dmabuf nor by
/// nvidia-peermem: the NIC and the reasons follow.
pub const NO_GPU_MEMORY: &str = "no GPU memory";

/// Up to so many NICs, all pairs are measured: those of one machine. Of more, each with the next and with the one half way round.
const MOST_NICS: usize = 8;

/// A message: long enough that its start does not count, short enough that many are under way.
const MESSAGE: Size = Size::Exactly(Bytes::from_mib(1));

/// Out and back through each NIC; then each pair, both ways. In full by reads, too.
///
/// What goes from one NIC to another leaves the machine, and shares the network with whoever uses it.
pub(super) fn between_nics(site: &Site<'_>) -> Vec<Step> {
    let n = site.nics.len();
    let mut pairs: Vec<(usize, usize)> = if n <= MOST_NICS {
        round_robin(n)
    } else {
        (0..n).map(|i| (i, (i + 1) % n)).chain((0..n / 2).map(|i| (i, i + n / 2))).collect()
    };
    pairs.extend(pairs.clone().into_iter().map(|(a, b)| (b, a)));
    let ends: Vec<NicEnd> = site.nics.iter().map(|nic| end(site, nic)).collect();
    let ops = if site.scope == Scope::Full { &[Operation::Write, Operation::Read][..] } else { &[Operation::Write] };
    let all = (0..n).map(|i| (i, i)).chain(pairs);
    let all: Vec<(NicEnd, NicEnd)> =
        all.filter_map(|(a, b)| Some((ends.get(a)?.clone(), ends.get(b)?.clone()))).collect();
    let step = |op: Operation, (from, to): &(NicEnd, NicEnd)| Step {
        test: Test::Nic,
        work: Work::Rdma(Rdma::of_host(from.clone(), to.clone(), op)),
        size: MESSAGE,
    };
    ops.iter().flat_map(|op| all.iter().map(|ends| step(*op, ends))).collect()
}

/// Each GPU with each NIC: data of the GPU's memory goes out through the NIC and back to the host memory nearest to it, and the other
/// way; directly, then staged in that host memory.
pub(super) fn with_gpus(site: &Site<'_>) -> Vec<Step> {
    let mut steps = Vec::new();
    for via in [Via::Direct, Via::Pipeline] {
        for to_gpu in [false, true] {
            for (gpu, nic) in gpus_and_nics(site) {
                let host = end(site, nic);
                let of_gpu = NicEnd { nic: nic.to_owned(), memory: gpu.to_owned() };
                let (from, to) = if to_gpu { (host, of_gpu) } else { (of_gpu, host) };
                let work = Work::Rdma(Rdma { from, to, op: Operation::Write, via });
                steps.push(Step { test: Test::NicGpu, work, size: MESSAGE });
            }
        }
    }
    steps
}

/// Up to so many, all pairs of a GPU and a NIC are measured: eight GPUs and as many NICs as their machines have. Of more, each GPU with
/// its nearest NIC and with the one half way round from there.
const MOST_WITH_GPUS: usize = 128;

fn gpus_and_nics<'s>(site: &'s Site<'_>) -> Vec<(&'s str, &'s str)> {
    let (gpus, nics) = (&site.gpus, &site.nics);
    if gpus.len() * nics.len() <= MOST_WITH_GPUS {
        return gpus.iter().flat_map(|gpu| nics.iter().map(move |nic| (gpu.as_str(), nic.as_str()))).collect();
    }
    let fabric = site.fabric;
    let class = |gpu: &str, nic: &str| fabric.class(fabric.find(gpu)?, fabric.find(nic)?);
    let far = |class: Option<PathClass>| class.unwrap_or(PathClass::Sys);
    let pairs = |gpu: &'s String| {
        let nearest = (0..nics.len()).min_by_key(|at| far(class(gpu, &nics[*at]))).unwrap_or(0);
        let half = (nearest + nics.len() / 2) % nics.len();
        let other = (half != nearest).then_some(half);
        std::iter::once(nearest).chain(other).map(move |at| (gpu.as_str(), nics[at].as_str()))
    };
    gpus.iter().flat_map(pairs).collect()
}

/// A NIC with the memory nearest to it.
fn end(site: &Site<'_>, nic: &str) -> NicEnd {
    let fabric = site.fabric;
    let near = fabric.find(nic).and_then(|id| fabric.nearest_host(id)).map(|id| fabric.node(id).name.clone());
    NicEnd { nic: nic.to_owned(), memory: near.unwrap_or_else(|| "host".to_owned()) }
}

/// The host memory or GPU of an end, and its NIC.
fn nodes_of(end: &NicEnd, truth: &Truth) -> Result<[NodeId; 2], String> {
    let nic = truth.find(&end.nic)?;
    let near = || format!("no host memory is known near {}", end.nic);
    let fabric = &truth.model.machine.fabric;
    let memory =
        if end.memory == "host" { fabric.nearest_host(nic).ok_or_else(near)? } else { truth.find(&end.memory)? };
    Ok([memory, nic])
}

/// What goes from where to where, one after the other.
fn legs(rdma: &Rdma, from: [NodeId; 2], to: [NodeId; 2]) -> Vec<(NodeId, NodeId)> {
    if rdma.gpu().is_none() || rdma.via == Via::Direct {
        vec![(from[0], from[1]), (to[1], to[0])]
    } else if is_host(&rdma.from.memory) {
        vec![(from[0], from[1]), (to[1], from[0]), (from[0], to[0])]
    } else {
        vec![(from[0], to[0]), (to[0], from[1]), (to[1], to[0])]
    }
}

impl<'w> Kind<'w> for &'w Rdma {
    fn words(&self) -> String {
        let (from, to) = Rdma::ends(self);
        arrow(from, to) + if self.via == Via::Direct { "" } else { ", staged" }
    }

    fn nodes(&self) -> Vec<&'w str> {
        vec![&self.from.memory, &self.to.memory]
    }

    fn via(&self) -> Via {
        self.via
    }

    fn ends(&self) -> Option<(&'w str, &'w str)> {
        Some(Rdma::ends(self))
    }

    fn place(&self, _: Test) -> Option<Place<'w>> {
        let (source, destination) = Rdma::ends(self);
        let direction = Some(Direction::Unidirectional);
        let of = |ends| Shape { direction, ..Shape::new(ends, Engine::Nic) };
        if self.gpu().is_some() {
            let ends = if is_host(&self.from.memory) { Ends::FromNic } else { Ends::ToNic };
            let shape = Shape { via: self.via, ..of(ends) };
            return Some(Place { shape, row: source, col: destination, mirrored: false });
        }
        let swapped = self.op == Operation::Read;
        let (row, col) = if swapped { (destination, source) } else { (source, destination) };
        Some(Place { shape: Shape { op: Some(self.op), ..of(Ends::Nics) }, row, col, mirrored: false })
    }

    /// The rate from memory to memory, as slow as a planted fault makes a direction on the way.
    fn simulate(&self, size: Size, truth: &Truth) -> Result<Task, String> {
        let fabric = &truth.model.machine.fabric;
        let (from, to) = (nodes_of(&self.from, truth)?, nodes_of(&self.to, truth)?);
        let through = match self.gpu() {
            Some((gpu, nic)) => {
                let off = |fault: &Fault| match fault {
                    Fault::PeerOff { pair } => self.paths().iter().any(|path| path.joins(pair)),
                    _ => false,
                };
                if truth.faults.iter().any(off) {
                    return Err(format!("{NO_GPU_MEMORY} for {nic}: dmabuf: refused; nvidia-peermem: refused"));
                }
                let staged = self.via != Via::Direct;
                with_gpu(truth.model, truth.gpu(gpu)?, from[1], is_host(&self.from.memory), staged)
            }
            None => between(truth.model, from, to),
        };
        let (rate, _) = through.map_err(|e| format!("the model does not predict {self}: {e}"))?;
        let legs = legs(self, from, to);
        let slow = truth.faults.iter().filter_map(|fault| match fault {
            Fault::Slow { from: a, to: b, factor } => {
                let (a, b) = fabric.find(a).zip(fabric.find(b))?;
                let on_path = |x: NodeId, y: NodeId| {
                    (a, b) == (x, y)
                        || fabric.path(x, y).is_some_and(|path| path.hops.iter().any(|h| (h.from, h.to) == (a, b)))
                };
                let between = self.gpu().is_none() && (a, b) == (from[1], to[1]);
                (between || legs.iter().any(|(x, y)| on_path(*x, *y))).then_some(*factor)
            }
            _ => None,
        });
        Ok(truth.rated(size, 1.0, rate.bytes_per_second() * slow.product::<f64>()))
    }
}
