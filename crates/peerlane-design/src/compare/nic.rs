//! GPUs and their NICs: by which path each reaches the nearest, how fast data goes there directly and through host memory, and how
//! long a small message to the next machine takes.

use std::collections::BTreeMap;

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use super::measured::{self, MeasuredAlone};
use super::together::Figure;
use peerlane_machine::fabric::{NodeId, NodeKind, PathClass};
use peerlane_model::model::Model;
use peerlane_model::model::rdma::{Message, Method, Network, NicDirection, NicPath, nic_path, staged_at};

/// Of more pairs of a GPU and a NIC nothing is computed.
const MOST_PAIRS: usize = 4096;

/// How the GPUs of a machine reach its RDMA NICs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct GpuNic {
    /// Path class between the GPU that is furthest from a NIC and its nearest NIC: `PIX` before `PXB`, `PHB`, `NODE` and `SYS`.
    pub class: String,
    /// These two.
    pub class_pair: [String; 2],
    /// From GPU memory to the NIC, for the GPU where that is slowest with its nearest NIC.
    pub to_nic: NicRates,
    /// From the NIC to GPU memory, likewise.
    pub from_nic: NicRates,
    /// A small message from a GPU of this machine to the same GPU of a like one next to it.
    pub message: Option<NicMessage>,
    /// All pairs of a GPU and a NIC, by path class, the nearest first.
    pub by_class: Vec<NicClass>,
    /// What was measured or published from GPU memory to a NIC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_to_nic: Option<MeasuredAlone>,
    /// What was measured or published from a NIC to GPU memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_from_nic: Option<MeasuredAlone>,
    /// The order of the class, the nearest first.
    #[serde(skip)]
    pub(super) rank: Option<PathClass>,
}

/// Rates of one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct NicRates {
    /// The NIC accesses GPU memory.
    pub direct: Option<Figure>,
    /// Its GPU and NIC.
    pub direct_pair: Option<[String; 2]>,
    /// How: by NVIDIA's protocol or through BAR1, whichever is faster.
    pub method: Option<Method>,
    /// The same pair through host memory.
    pub staged: Option<Figure>,
}

/// The latency of a message to a like machine, in µs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NicMessage {
    /// Where NICs access GPU memory.
    pub direct: Option<f64>,
    /// Through host memory on both sides.
    pub staged: Option<f64>,
    /// The GPU and the NIC.
    pub pair: [String; 2],
}

/// Pairs of one path class. Rates in GB/s, of the slowest pair.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct NicClass {
    /// The class.
    pub class: String,
    /// The same in its order.
    #[serde(skip)]
    pub rank: PathClass,
    /// How many pairs.
    pub pairs: usize,
    /// From GPU memory to the NIC, directly.
    pub to_nic: Option<f64>,
    /// From the NIC to GPU memory, directly.
    pub from_nic: Option<f64>,
    /// From GPU memory to the NIC through host memory.
    pub to_nic_staged: Option<f64>,
    /// From the NIC to GPU memory through host memory.
    pub from_nic_staged: Option<f64>,
}

/// A GPU with a NIC: their class, and each direction directly and staged.
struct Pair {
    gpu: NodeId,
    nic: NodeId,
    class: PathClass,
    direct: [Option<NicPath>; 2],
    staged: [Option<NicPath>; 2],
}

const WAYS: [NicDirection; 2] = [NicDirection::ToNetwork, NicDirection::FromNetwork];

/// How GPUs reach NICs; `None` where there are none of either, or no path between them is known.
pub(super) fn gpu_nic(model: &Model) -> Option<GpuNic> {
    let fabric = &model.machine.fabric;
    let gpus: Vec<NodeId> = fabric.of_kind(NodeKind::Gpu).collect();
    let nics: Vec<NodeId> = model.machine.rdma_nics().collect();
    if gpus.is_empty() || nics.is_empty() || gpus.len() * nics.len() > MOST_PAIRS {
        return None;
    }
    let ends = || gpus.iter().flat_map(|gpu| nics.iter().map(|nic| [*gpu, *nic]));
    let towards: Vec<[NodeId; 2]> = ends().collect();
    let back: Vec<[NodeId; 2]> = ends().map(|[gpu, nic]| [nic, gpu]).collect();
    let measured = [towards, back].map(|pairs| measured::by_nic(model.machine, &pairs));
    let pairs: Vec<Pair> = ends().filter_map(|[gpu, nic]| pair(model, gpu, nic)).collect();
    let name = |id: NodeId| fabric.node(id).name.clone();
    let names = |pair: &Pair| [name(pair.gpu), name(pair.nic)];
    // each GPU with the nearest of its NICs; of several, with the one that takes most from it
    let nearest = gpus.iter().filter_map(|gpu| {
        let of_gpu = pairs.iter().filter(|pair| pair.gpu == *gpu);
        of_gpu.min_by(|a, b| a.class.cmp(&b.class).then_with(|| gb(&b.direct[0]).total_cmp(&gb(&a.direct[0]))))
    });
    let nearest: Vec<&Pair> = nearest.collect();
    // of equals, the first
    let furthest = nearest.iter().rev().max_by_key(|pair| pair.class)?;
    let rates = |way: usize| {
        let known = nearest.iter().filter(|pair| pair.direct[way].is_some());
        let slowest = known.min_by(|a, b| gb(&a.direct[way]).total_cmp(&gb(&b.direct[way])));
        let worst = slowest.or(nearest.first());
        let measured = measured[way].as_ref().map(|measured| measured.worst.clone());
        NicRates {
            direct: slowest.and_then(|p| figure(&p.direct[way])).map(|figure| Figure { measured, ..figure }),
            direct_pair: slowest.map(|pair| names(pair)),
            method: slowest.and_then(|p| p.direct[way].as_ref()).map(|path| path.method),
            staged: worst.and_then(|p| figure(&p.staged[way])),
        }
    };
    let message = |pair: &Pair| {
        let us = |[to, from]: &[Option<NicPath>; 2]| {
            let message = Message::new(to.clone()?, Network::NEXT, from.clone()?).ok()?;
            Some(message.latency().likely.us())
        };
        let (direct, staged) = (us(&pair.direct), us(&pair.staged));
        (direct.is_some() || staged.is_some()).then(|| NicMessage { direct, staged, pair: names(pair) })
    };
    let longest = nearest.iter().filter_map(|pair| message(pair)).reduce(|a, b| {
        let us = |m: &NicMessage| m.direct.or(m.staged).unwrap_or(0.0);
        if us(&b) > us(&a) { b } else { a }
    });
    let [to_nic, from_nic] = [0, 1].map(rates);
    let [measured_to_nic, measured_from_nic] = measured;
    Some(GpuNic {
        class: furthest.class.to_string(),
        class_pair: names(furthest),
        rank: Some(furthest.class),
        to_nic,
        from_nic,
        message: longest,
        by_class: by_class(&pairs),
        measured_to_nic,
        measured_from_nic,
    })
}

/// One pair, directly by the method chosen for the NIC if there is one; `None` where no path between them is known.
fn pair(model: &Model, gpu: NodeId, nic: NodeId) -> Option<Pair> {
    let class = model.machine.fabric.class(gpu, nic)?;
    let path = |way, method| nic_path(model, gpu, nic, way, method).ok();
    let chosen = model.machine.fabric.node(nic).method;
    let direct = WAYS.map(|way| {
        let allowed = |method: &Method| chosen.is_none_or(|chosen| chosen == *method);
        let methods = [Method::Nvp2p, Method::Bar1].into_iter().filter(allowed).filter_map(|method| path(way, method));
        // of equals, NVIDIA's protocol
        methods.reduce(|a, b| if b.rate.bytes_per_second() > a.rate.bytes_per_second() { b } else { a })
    });
    Some(Pair { gpu, nic, class, direct, staged: WAYS.map(|way| path(way, staged_at(model, nic))) })
}

/// In GB/s; 0 where it is not known.
fn gb(path: &Option<NicPath>) -> f64 {
    path.as_ref().map_or(0.0, |path| path.rate.gb())
}

fn figure(path: &Option<NicPath>) -> Option<Figure> {
    let NicPath { rate, bottleneck, .. } = path.as_ref()?;
    Some(Figure { rate: rate.gb(), bottleneck: bottleneck.clone(), measured: None })
}

fn by_class(pairs: &[Pair]) -> Vec<NicClass> {
    let mut by_class: BTreeMap<PathClass, Vec<&Pair>> = BTreeMap::new();
    for pair in pairs {
        by_class.entry(pair.class).or_default().push(pair);
    }
    let of_class = |(class, pairs): (PathClass, Vec<&Pair>)| {
        let least = |of: fn(&Pair) -> &Option<NicPath>| {
            pairs.iter().filter_map(|pair| of(pair).as_ref()).map(|path| path.rate.gb()).reduce(f64::min)
        };
        NicClass {
            class: class.to_string(),
            rank: class,
            pairs: pairs.len(),
            to_nic: least(|pair| &pair.direct[0]),
            from_nic: least(|pair| &pair.direct[1]),
            to_nic_staged: least(|pair| &pair.staged[0]),
            from_nic_staged: least(|pair| &pair.staged[1]),
        }
    };
    by_class.into_iter().map(of_class).collect()
}
