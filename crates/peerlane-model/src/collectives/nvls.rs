//! What NVLink SHARP carries: NVSwitches that add up what GPUs hold, and send one result to all.

use super::tuner::Generation;
use peerlane_machine::fabric::{Fabric, NodeId, NodeKind};
use peerlane_machine::transfer::Collective;

/// What an all-reduce in the switches reaches of the rate at which a GPU sends, by generation; `None` of those without.
/// A GPU sends what it holds once and receives the sum once, so that it needs half of what a ring does.
const REACHED: [Option<f64>; 5] = [None, None, Some(0.75), Some(0.65), None];

/// Bus bandwidth in bytes a second; `None` where the GPUs have no such switches in common. `sent` is what a GPU sends, in
/// bytes a second, as it does in a ring.
pub fn nvls_rate(
    fabric: &Fabric,
    generation: Generation,
    gpus: &[NodeId],
    sent: f64,
    collective: Collective,
) -> Option<f64> {
    let reached = REACHED[generation as usize]?;
    let at_switch = |gpu: &NodeId| {
        let links = fabric.links_of(*gpu).iter();
        links.clone().any(|(_, other)| fabric.node(*other).kind == NodeKind::NvSwitch)
    };
    if !gpus.iter().all(at_switch) {
        return None;
    }
    match collective {
        Collective::AllReduce => Some(sent * reached * collective.bus_factor(gpus.len())),
        // half of it: every GPU receives, or sends, all parts but its own
        Collective::AllGather | Collective::ReduceScatter => Some(sent * reached),
        Collective::Broadcast | Collective::AllToAll | Collective::SendReceive => None,
    }
}
