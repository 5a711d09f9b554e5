//! Places for GPUs whose location no source states, so that expectations exist for them.

use crate::catalogue::Parts;
use peerlane_machine::fabric::{FabricBuilder, Link, LinkKind, Node, NodeId, NodeKind, PcieGeneration, PcieWidth};
use peerlane_machine::machine::{Machine, MachineKind};
use peerlane_machine::matrix::{Direction, Quantity};
use peerlane_machine::names::ranges;
use peerlane_machine::units::Rate;

/// The fastest link that a GPU has.
const FASTEST: PcieWidth = PcieWidth::new(PcieGeneration::Gen5, 16);

/// The machine with its GPUs at root ports of one CPU, and a sentence that states this, where no source states where any of them is:
/// the shortest PCIe path without a switch, so that what is expected of it is the most to expect. `None` where the place of
/// any GPU or a link between two is known, where direct copies are faster than PCIe, and where neither product nor rate is known.
///
/// A program that prints nothing but rates leaves it so (p2pBandwidthLatencyTest, nvbandwidth).
pub fn assume_places(machine: &Machine, parts: &Parts) -> Option<(Machine, String)> {
    let fabric = &machine.fabric;
    let gpus: Vec<NodeId> = fabric.of_kind(NodeKind::Gpu).collect();
    let placed = |gpu: &NodeId| !fabric.links_of(*gpu).is_empty();
    // a product that no part describes may have the fastest that there is
    let own = |gpu: &NodeId| fabric.node(*gpu).part.as_deref().and_then(|key| parts.get(key)?.pcie);
    let links = gpus.iter().map(|gpu| own(gpu).unwrap_or(FASTEST));
    let fastest = links.filter_map(|width| width.raw_rate()).map(Rate::gb).fold(0.0, f64::max);
    let fitted = machine.kind == MachineKind::Captured && machine.is_measured();
    let known = fitted || gpus.iter().all(|gpu| own(gpu).is_some());
    if !known
        || gpus.is_empty()
        || gpus.iter().any(placed)
        || machine.stated_classes.is_some()
        || outruns(machine, fastest)
    {
        return None;
    }
    let names: Vec<&str> = gpus.iter().map(|gpu| fabric.node(*gpu).name.as_str()).collect();
    let sentence = match names.len() {
        1 => format!("{} at a root port of the CPU: no source states where it is", ranges(&names)),
        _ => format!("{} at root ports of one CPU: no source states where they are", ranges(&names)),
    };
    let mut machine = machine.clone();
    let first = |kind| fabric.of_kind(kind).next();
    let [cpu, root, host] = [NodeKind::Cpu, NodeKind::RootComplex, NodeKind::Host].map(first);
    let mut builder = std::mem::take(&mut machine.fabric).into_builder();
    let [cpu, root, host] =
        [(cpu, "cpu", NodeKind::Cpu), (root, "rc", NodeKind::RootComplex), (host, "host", NodeKind::Host)]
            .map(|(known, stem, kind)| known.unwrap_or_else(|| add(&mut builder, stem, kind)));
    let inside = |builder: &mut FabricBuilder, a, b| {
        let joined = builder.links().iter().any(|l| (l.a, l.b) == (a, b) || (l.b, l.a) == (a, b));
        if !joined {
            builder.link(Link { assumed: true, ..Link::new(a, b, LinkKind::OnDie) });
        }
    };
    inside(&mut builder, root, cpu);
    inside(&mut builder, host, cpu);
    for gpu in gpus {
        builder.link(Link { assumed: true, ..Link::new(root, gpu, LinkKind::pcie(PcieWidth::default())) });
    }
    machine.fabric = builder.build().ok()?;
    Some((machine, sentence))
}

/// Whether copies between two GPUs go faster than a link of so many GB/s a direction lets them.
pub(super) fn outruns(machine: &Machine, fastest: f64) -> bool {
    let mut matrices = machine.matrices.iter().map(|measured| &measured.matrix);
    matrices.any(|m| {
        let ways = if m.direction == Some(Direction::Bidirectional) { 2.0 } else { 1.0 };
        let faster = |value: &f64| m.unit.rate(*value).is_some_and(|rate| rate.gb() > ways * fastest);
        let between = m
            .rows
            .iter()
            .zip(&m.values)
            .flat_map(|(row, values)| m.cols.iter().zip(values).filter(move |(col, _)| *col != row));
        m.quantity == Quantity::Bandwidth && between.filter_map(|(_, value)| value.as_ref()).any(faster)
    })
}

fn add(builder: &mut FabricBuilder, stem: &str, kind: NodeKind) -> NodeId {
    let name = builder.fresh_name(stem);
    builder.node(Node { assumed: true, ..Node::new(name, kind) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{Text, scan_text};
    use peerlane_machine::fabric::{GpuLink, PathClass};

    fn of_gpus(part: Option<&str>, linked: bool) -> Machine {
        let mut b = FabricBuilder::new();
        let gpus = ["GPU0", "GPU1"]
            .map(|name| b.node(Node { part: part.map(str::to_owned), ..Node::new(name, NodeKind::Gpu) }));
        if linked {
            b.link(Link::new(gpus[0], gpus[1], LinkKind::Gpu(GpuLink::nvlink(Some(3), 4))));
        }
        Machine::new("m", MachineKind::Captured, b.build().unwrap())
    }

    #[test]
    fn gpus_of_no_place_are_at_one_cpu() {
        let (placed, sentence) = assume_places(&of_gpus(Some("rtx-a6000"), false), Parts::embedded()).unwrap();
        assert_eq!(sentence, "GPU0, GPU1 at root ports of one CPU: no source states where they are");
        let [source, destination] = ["GPU0", "GPU1"].map(|name| placed.fabric.find(name).unwrap());
        assert_eq!(placed.fabric.class(source, destination), Some(PathClass::Phb));
    }

    #[test]
    fn what_is_known_stays() {
        let placed = |machine: &Machine| assume_places(machine, Parts::embedded()).map(|(placed, _)| placed);
        assert!(placed(&of_gpus(Some("rtx-a6000"), true)).is_none(), "a link is known");
        assert!(placed(&of_gpus(None, false)).is_none(), "of no part");
        assert!(placed(&placed(&of_gpus(Some("rtx-a6000"), false)).unwrap()).is_none());
    }

    #[test]
    fn rates_above_pcie_are_of_another_link() {
        let placed = |rate: &str| {
            let text = format!(
                "[P2P (Peer-to-Peer) GPU Bandwidth Latency Test]\n\
                 Device: 0, NVIDIA RTX A6000, pciBusID: 1, pciDeviceID: 0, pciDomainID:0\n\
                 Device: 1, NVIDIA RTX A6000, pciBusID: 2, pciDeviceID: 0, pciDomainID:0\n\
                 Unidirectional P2P=Enabled Bandwidth (P2P Writes) Matrix (GB/s)\n   D\\D     0      1\n     \
                 0 670.00  {rate}\n     1  {rate} 670.00\n"
            );
            let machine = super::super::assemble(scan_text(&Text::new("p2p.txt", text.as_bytes()))).remove(0);
            assume_places(&machine, Parts::embedded()).is_some()
        };
        assert!(placed("26.30"));
        assert!(!placed("52.70"), "an NVLink bridge");
    }
}
