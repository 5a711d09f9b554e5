//! What a machine should deliver.

use peerlane_design::simulate::library::ExpectedCollective;
use peerlane_machine::fabric::{NodeId, NodeKind};
use peerlane_machine::machine::Machine;
use peerlane_machine::matrix::{Engine, Operation};
use peerlane_machine::units::Bytes;
use peerlane_model::assumptions::Assumptions;
use peerlane_model::comparison::{Comparison, MachineComparison};
use peerlane_model::model::rdma::NicMessages;
use peerlane_model::model::{Model, PeerAccess, Transfer};

use crate::export::json::{ExpectedCurve, MachinePrediction};

/// Matrices of all paths; where sizes are given, copies and messages of these sizes, and collectives of those.
pub fn predict(
    machine: &Machine,
    assumed: &Assumptions,
    comparison: &Comparison,
    sizes: &[Bytes],
    collectives: &[Bytes],
) -> MachinePrediction {
    let predicted = predict_usual(machine, assumed, comparison, sizes, collectives);
    MachinePrediction { comparison: MachineComparison::of(comparison), ..predicted }
}

/// The same with an empty comparison, which takes longer than all the rest: of many GPUs seconds.
pub fn predict_usual(
    machine: &Machine,
    assumed: &Assumptions,
    comparison: &Comparison,
    sizes: &[Bytes],
    collectives: &[Bytes],
) -> MachinePrediction {
    let model = comparison.model();
    let matrices = comparison.predicted();
    let of_sizes = |any: &[Bytes]| !any.is_empty();
    MachinePrediction {
        name: machine.name.clone(),
        // assumptions about unused links do not matter
        assumptions: if matrices.is_empty() { Vec::new() } else { assumed.sentences(model) },
        matrices,
        curves: if of_sizes(sizes) { curves(model, sizes) } else { Vec::new() },
        messages: if of_sizes(sizes) { messages(model, sizes) } else { Vec::new() },
        collectives: if of_sizes(collectives) {
            ExpectedCollective::all(&assumed.assumed_machine(model.parts), collectives)
        } else {
            Vec::new()
        },
        comparison: MachineComparison::default(),
    }
}

/// One path of each kind, by class, end points and rates: the first in the machine's order. Direct copies stand before
/// those staged through host memory.
fn curves(model: &Model, sizes: &[Bytes]) -> Vec<ExpectedCurve> {
    let fabric = &model.machine.fabric;
    let gpus: Vec<NodeId> = fabric.of_kind(NodeKind::Gpu).collect();
    let mut kinds = Vec::new();
    let mut curves = Vec::new();
    let pairs = gpus.iter().flat_map(|a| gpus.iter().filter(move |b| *b != a).map(move |b| (*a, *b)));
    let hosts = gpus.iter().filter_map(|gpu| Some((fabric.nearest_host(*gpu)?, *gpu)));
    let paths = pairs.chain(hosts.flat_map(|(host, gpu)| [(host, gpu), (gpu, host)]));
    for (source, destination) in paths.take(MOST_PATHS) {
        let ends = [source, destination].map(|n| (fabric.node(n).kind, fabric.node(n).part.clone()));
        let mut methods = [PeerAccess::Enabled, PeerAccess::Disabled].map(|peer| {
            let (engine, op) = (Engine::Ce, Operation::Write);
            ExpectedCurve::of(model, &Transfer { source, destination, engine, op, peer }, sizes)
        });
        // without peer access of its own, a path has only one method
        if let [Some(one), Some(other)] = &methods
            && one.staged == other.staged
        {
            methods[1] = None;
        }
        let found: Vec<ExpectedCurve> = methods.into_iter().flatten().collect();
        let rates: Vec<_> = found.iter().map(|c| (c.class, c.staged, (c.rate * 100.0).round() as u64)).collect();
        let kind = (ends, rates);
        if !kinds.contains(&kind) {
            kinds.push(kind);
            curves.extend(found);
        }
    }
    curves
}

/// Messages through NICs: one GPU and NIC of each kind, the first in the machine's order.
fn messages(model: &Model, sizes: &[Bytes]) -> Vec<NicMessages> {
    let fabric = &model.machine.fabric;
    let nics: Vec<NodeId> = model.machine.rdma_nics().collect();
    let pairs = fabric.of_kind(NodeKind::Gpu).flat_map(|gpu| nics.iter().map(move |nic| (gpu, *nic)));
    let mut kinds = Vec::new();
    let mut all = Vec::new();
    for (gpu, nic) in pairs.take(MOST_PATHS) {
        let found = NicMessages::of(model, gpu, nic, sizes);
        let parts = [gpu, nic].map(|n| fabric.node(n).part.clone());
        let rates: Vec<_> = found.methods.iter().map(|m| (m.method, (m.rate * 100.0).round() as u64)).collect();
        let kind = (parts, found.class, rates);
        if !found.methods.is_empty() && !kinds.contains(&kind) {
            kinds.push(kind);
            all.push(found);
        }
    }
    all
}

/// Limit of paths that are searched for kinds.
const MOST_PATHS: usize = 4096;
