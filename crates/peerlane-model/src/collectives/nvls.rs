//! What NVLink SHARP carries: NVSwitches that add up what GPUs hold, and send one result to all.

use super::tuner::Generation;
use peerlane_machine::fabric::{Fabric, NodeId, NodeKind};
use peerlane_machine::transfer::Collective;

/// What an all-reduce of eight GPUs in the switches reaches of the rate at which a GPU sends, by generation; `None` of those
/// without. A GPU sends what it holds once and receives the sum once. Hopper: 275 of 367 GB/s (NVIDIA/nccl-tests#212).
/// Blackwell: 0.60 to 0.615 of a GB200's with 72 GPUs (coreweave/nccl-tests#43), where NCCL's table has 0.74 for a Hopper's 0.85.
const REACHED: [Option<f64>; 5] = [None, None, Some(0.75), Some(0.62), None];

/// Up to so many GPUs it carries what a ring does; from there to eight it loses this part for each that is missing
/// (NVIDIA/nccl#1455: 258 GB/s of data with five H100, 273 with eight).
const LIKE_A_RING: usize = 4;
const LOST: f64 = 0.018;

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
        Collective::AllReduce if gpus.len() <= LIKE_A_RING => Some(sent),
        Collective::AllReduce => {
            let missing = 8_usize.saturating_sub(gpus.len()) as f64;
            Some(sent * reached * (1.0 - LOST * missing) * collective.bus_factor(gpus.len()))
        }
        Collective::AllGather | Collective::ReduceScatter => Some(sent * reached),
        Collective::Broadcast | Collective::AllToAll | Collective::SendReceive => None,
    }
}
