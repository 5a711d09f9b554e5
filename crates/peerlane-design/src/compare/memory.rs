//! GPUs' own memories: how large, what the data sheet states, and how much of that a copy within one reaches.

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use super::measured::{MeasuredAlone, MeasuredValue};
use super::together::Figure;
use peerlane_machine::fabric::{NodeId, NodeKind};
use peerlane_machine::fact::Fact;
use peerlane_machine::machine::Machine;
use peerlane_machine::matrix::{Engine, Operation};
use peerlane_model::model::{Model, PeerAccess, Transfer};

/// Bytes of a copy within a memory are counted where they are read and where they are written, as the CUDA samples do.
const READ_AND_WRITTEN: f64 = 2.0;

/// The memories of a machine's GPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct GpuMemory {
    /// The smallest and the largest, in GiB.
    pub size_gib: Option<[f64; 2]>,
    /// The least and the most that data sheets state, in GB/s.
    pub data_sheet: Option<[f64; 2]>,
    /// A copy within the slowest GPU's memory; each byte counts twice, once read and once written.
    pub copy: Option<Figure>,
    /// That GPU.
    pub copy_gpu: Option<String>,
    /// The predicted copies as shares of the data sheet, the lowest and the highest.
    pub share: Option<[f64; 2]>,
    /// The measured or published ones.
    pub measured_share: Option<MeasuredValue>,
}

/// What is known of them.
pub(super) fn gpu_memory(model: &Model, measured: &Option<MeasuredAlone>) -> Option<GpuMemory> {
    let fabric = &model.machine.fabric;
    let gpus: Vec<NodeId> = fabric.of_kind(NodeKind::Gpu).collect();
    let sheet = |gpu: NodeId| {
        let node = fabric.node(gpu);
        model.parts.get(node.part.as_deref()?)?.memory_rate(node.product.as_deref())
    };
    let copies: Vec<(NodeId, Figure)> = gpus.iter().filter_map(|gpu| Some((*gpu, copy(model, *gpu)?))).collect();
    let worst = copies.iter().min_by(|a, b| a.1.rate.total_cmp(&b.1.rate));
    let share = span(copies.iter().filter_map(|(gpu, figure)| Some(figure.rate / sheet(*gpu)?)));
    let memory = GpuMemory {
        size_gib: span(sizes(model.machine).into_iter()),
        data_sheet: span(gpus.iter().filter_map(|gpu| sheet(*gpu))),
        copy_gpu: worst.map(|(gpu, _)| fabric.node(*gpu).name.clone()),
        copy: worst
            .map(|(_, figure)| Figure { measured: measured.as_ref().map(|m| m.worst.clone()), ..figure.clone() }),
        share,
        measured_share: measured.as_ref().and_then(|measured| {
            // a share can be told of the GPUs whose number it is
            let of = |value: &MeasuredValue, ends: &[String; 2]| Some(value.low / sheet(fabric.find(&ends[0])?)?);
            let MeasuredAlone { worst, worst_pair, best, best_pair, .. } = measured;
            let [low, high] = span([of(worst, worst_pair)?, of(best, best_pair)?].into_iter())?;
            Some(MeasuredValue { low, high, ..worst.clone() })
        }),
    };
    (memory != GpuMemory::default()).then_some(memory)
}

/// A copy within a GPU, where the rate of its memory is known.
fn copy(model: &Model, gpu: NodeId) -> Option<Figure> {
    let (engine, op, peer) = (Engine::Ce, Operation::Write, PeerAccess::Enabled);
    let transfer = Transfer { source: gpu, destination: gpu, engine, op, peer };
    let answer = model.solve(&[transfer]).ok()?.into_iter().next()?;
    let rate = answer.rate.gb() * READ_AND_WRITTEN;
    (rate.is_finite() && rate > 0.0).then_some(Figure { rate, bottleneck: answer.bottleneck, measured: None })
}

/// In GiB, as tools print them of the machine's GPUs, or as products are called.
fn sizes(machine: &Machine) -> Vec<f64> {
    let gpus = machine.evidence.iter().flat_map(|e| match &e.fact {
        Fact::Gpus(gpus) => gpus.as_slice(),
        _ => &[],
    });
    let printed: Vec<f64> =
        gpus.filter_map(|gpu| gpu.memory).map(|size| size.0 as f64 / (1_u64 << 30) as f64).collect();
    if !printed.is_empty() {
        return printed;
    }
    let gpus = machine.fabric.of_kind(NodeKind::Gpu);
    gpus.filter_map(|gpu| in_name(machine.fabric.node(gpu).product.as_deref()?)).collect()
}

/// `Tesla P100-SXM2-16GB`: 16.
fn in_name(product: &str) -> Option<f64> {
    let words = product.split([' ', '-']);
    words.filter_map(|word| word.strip_suffix("GB")?.parse().ok()).find(|size: &f64| size.is_finite() && *size > 0.0)
}

/// The lowest and the highest.
fn span(values: impl Iterator<Item = f64>) -> Option<[f64; 2]> {
    values.fold(None, |span, value| {
        let [low, high] = span.unwrap_or([value, value]);
        Some([low.min(value), high.max(value)])
    })
}
