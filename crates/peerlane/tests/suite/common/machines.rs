//! Random machines: trees of switches below two sockets.

use peerlane::fabric::{FabricBuilder, Link, LinkKind, Node, NodeKind, PcieGeneration, PcieWidth};
use peerlane::machine::{Machine, MachineKind};
use proptest::prelude::*;

/// Stands for a CPU whose part says how requests queue for its memory.
pub(crate) const QUEUEING: &str = "Intel(R) Xeon(R), queueing";

const LANES: [u8; 5] = [1, 2, 4, 8, 16];

/// Widths of the links below each of two sockets: per switch its uplink and its GPUs' links.
pub(crate) type Shape = Vec<Vec<(PcieWidth, Vec<PcieWidth>)>>;

pub(crate) fn width() -> impl Strategy<Value = PcieWidth> {
    (0usize..6, 0usize..5).prop_map(|(g, l)| PcieWidth::new(PcieGeneration::ALL[g], LANES[l]))
}

pub(crate) fn shape() -> impl Strategy<Value = Shape> {
    let switch = (width(), prop::collection::vec(width(), 1..4));
    prop::collection::vec(prop::collection::vec(switch, 1..3), 2)
}

pub(crate) fn machine(shape: &Shape, cpu: &str) -> Machine {
    let mut b = FabricBuilder::new();
    let mut cpus = Vec::new();
    let mut gpus = 0;
    for (s, switches) in shape.iter().enumerate() {
        // one kind of host whose memory makes requests wait, and GPUs whose room for requests is known
        let known = |key: &str| (cpu == QUEUEING).then(|| key.to_owned());
        let package = Node {
            product: Some(cpu.to_owned()),
            part: known("emerald-rapids-h200x4-vm"),
            ..Node::new(format!("cpu{s}"), NodeKind::Cpu)
        };
        let package = b.node(package);
        let rc = b.node(Node { domain: Some(s as u32), ..Node::new(format!("rc{s}"), NodeKind::RootComplex) });
        let host = b.node(Node::new(format!("host{s}"), NodeKind::Host));
        b.link(Link::new(rc, package, LinkKind::OnDie));
        b.link(Link::new(host, package, LinkKind::OnDie));
        for (k, (uplink, links)) in switches.iter().enumerate() {
            let switch = b.node(Node::new(format!("switch{s}.{k}"), NodeKind::Switch));
            b.link(Link::new(rc, switch, LinkKind::pcie(*uplink)));
            for width in links {
                let gpu = b.node(Node { part: known("h200"), ..Node::new(format!("GPU{gpus}"), NodeKind::Gpu) });
                b.link(Link::new(switch, gpu, LinkKind::pcie(*width)));
                gpus += 1;
            }
        }
        cpus.push(package);
    }
    b.link(Link::new(cpus[0], cpus[1], LinkKind::Smp));
    Machine::new("random", MachineKind::Design, b.build().unwrap())
}
