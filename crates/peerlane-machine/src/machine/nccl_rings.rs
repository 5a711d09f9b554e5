//! The rings that NCCL reports: in its log, and in the graphs that it dumps.

use super::Machine;
use crate::fabric::{NodeId, NodeKind};
use crate::fact::{Fact, NcclGraph, NcclLog};
use crate::origin::Origin;
use crate::units::Rate;

/// NCCL's number for graphs whose channels are rings.
const RING: u32 = 4;

/// Rings of one order.
#[derive(Clone, Debug, PartialEq)]
pub struct NcclRings<'a> {
    /// The GPUs in the order of the ring.
    pub gpus: Vec<NodeId>,
    /// How many channels go so.
    pub channels: usize,
    /// What NCCL gives each of them; a log does not show it.
    pub rate: Option<Rate>,
    /// Where it is reported.
    pub origin: &'a Origin,
}

impl Machine {
    /// The rings that NCCL reports, those through GPUs of this machine alone.
    pub fn nccl_rings(&self) -> Vec<NcclRings<'_>> {
        let mut all: Vec<NcclRings> = Vec::new();
        for evidence in &self.evidence {
            let (rings, rate) = match &evidence.fact {
                Fact::NcclGraph(graph) if graph.pattern == RING => (self.of_graph(graph), Some(graph.speed)),
                Fact::NcclLog(log) => (self.of_log(log), None),
                _ => continue,
            };
            let origin = &evidence.origin;
            for gpus in rings.into_iter().flatten().filter(|gpus| gpus.len() > 1) {
                match all.iter_mut().find(|known| known.gpus == gpus && known.origin == origin) {
                    Some(known) => known.channels += 1,
                    None => all.push(NcclRings { gpus, channels: 1, rate: rate.map(Rate::from_gb), origin }),
                }
            }
        }
        all
    }

    fn of_graph(&self, graph: &NcclGraph) -> Vec<Option<Vec<NodeId>>> {
        let gpu = |number: &u32| self.gpu_numbered(*number);
        graph.channels.iter().map(|ring| ring.iter().map(gpu).collect()).collect()
    }

    fn of_log(&self, log: &NcclLog) -> Vec<Option<Vec<NodeId>>> {
        log.rings.iter().map(|ring| ring.iter().map(|rank| self.gpu_of_rank(log, *rank)).collect()).collect()
    }

    /// The GPU that a program calls by this number, as captures are named by it.
    pub fn gpu_numbered(&self, number: u32) -> Option<NodeId> {
        let found = self.fabric.find(&format!("GPU{number}"));
        found.filter(|id| self.fabric.node(*id).kind == NodeKind::Gpu)
    }

    /// The GPU of a rank of NCCL's that this machine has.
    pub fn gpu_of_rank(&self, log: &NcclLog, rank: u32) -> Option<NodeId> {
        let rank = log.ranks.get(&rank)?;
        let mut gpus = self.fabric.of_kind(NodeKind::Gpu);
        let at = rank.address.and_then(|at| gpus.find(|id| self.fabric.node(*id).address == Some(at)));
        at.or_else(|| self.gpu_numbered(rank.driver?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Machine, MachineKind};
    use crate::fabric::{FabricBuilder, Node, NodeKind};
    use crate::fact::{Evidence, Fact, NcclGraph, NcclLog, NcclRank};
    use crate::origin::Origin;

    #[test]
    fn rings_of_logs_and_graphs_are_counted_by_order() {
        let mut b = FabricBuilder::new();
        for i in 0..4 {
            b.node(Node::new(format!("GPU{i}"), NodeKind::Gpu));
        }
        let mut machine = Machine::new("m", MachineKind::Captured, b.build().unwrap());
        let origin = Origin { source: "nccl.txt".into(), tool: "NCCL", lines: None };
        let rank = |driver| NcclRank { driver: Some(driver), ..NcclRank::default() };
        let ranks = [(0, rank(3)), (1, rank(2)), (2, rank(9))].into();
        let log = NcclLog { ranks, rings: vec![vec![0, 1], vec![0, 1], vec![0, 2]], ..NcclLog::default() };
        let ring = NcclGraph { pattern: 4, speed: 12.0, channels: vec![vec![0, 2, 1]] };
        let tree = NcclGraph { pattern: 1, ..ring.clone() };
        for fact in [Fact::NcclLog(log), Fact::NcclGraph(ring), Fact::NcclGraph(tree)] {
            machine.evidence.push(Evidence { origin: origin.clone(), fact });
        }
        let found = machine.nccl_rings();
        let name = |id: &_| machine.fabric.node(*id).name.as_str();
        let shown = |r: &super::NcclRings| {
            let gpus: Vec<&str> = r.gpus.iter().map(name).collect();
            (gpus.join(" "), r.channels, r.rate.map(|rate| rate.gb()))
        };
        let expected = [("GPU3 GPU2".to_owned(), 2, None), ("GPU0 GPU2 GPU1".to_owned(), 1, Some(12.0))];
        assert_eq!(found.iter().map(shown).collect::<Vec<_>>(), expected, "GPU9 is on another host");
    }
}
