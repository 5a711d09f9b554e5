//! Which NIC a GPU uses, and which GPU a NIC serves.

use std::collections::HashMap;

use super::Router;
use crate::cluster::{Cluster, ClusterError};
use peerlane_machine::fabric::{NodeId, NodeKind, PathClass};

/// Each GPU's NIC: the nearest; where several are, GPUs that share them take turns.
pub(super) fn nearest_nics(cluster: &Cluster, cards: &[NodeId]) -> HashMap<NodeId, u32> {
    let fabric = &cluster.node.fabric;
    let mut turns: HashMap<Vec<u32>, u32> = HashMap::new();
    let ends = fabric.of_kind(NodeKind::Gpu).chain(fabric.of_kind(NodeKind::Host));
    ends.filter_map(|end| {
        let class = |nic: &NodeId| fabric.class(end, *nic);
        let best = cards.iter().filter_map(class).min()?;
        let near = (0_u32..).zip(cards).filter(|(_, nic)| class(nic) == Some(best));
        let near: Vec<u32> = near.map(|(i, _)| i).collect();
        let turn = turns.entry(near.clone()).or_default();
        let nic = near[*turn as usize % near.len()];
        *turn += 1;
        Some((end, nic))
    })
    .collect()
}

impl Router<'_> {
    /// The NIC of a GPU, as an index into [`Cluster::nics`].
    pub fn nic_of(&self, gpu: NodeId) -> u32 {
        self.nics.get(&gpu).copied().unwrap_or(0)
    }

    /// How far a GPU of a node is from the NIC of that index: 0 where they share a PCIe switch, and more with each class of
    /// paths.
    pub(crate) fn distance(&self, gpu: NodeId, nic: u32) -> u32 {
        const CLASSES: [PathClass; 5] =
            [PathClass::Pix, PathClass::Pxb, PathClass::Phb, PathClass::Node, PathClass::Sys];
        let class = self.cards.get(nic as usize).and_then(|card| self.cluster.node.fabric.class(gpu, *card));
        class.map_or(CLASSES.len(), |class| CLASSES.iter().filter(|nearer| **nearer < class).count()) as u32
    }

    /// Every NIC at the network with a GPU that it serves, by their indices in [`Cluster::nics`] and among the GPUs: of several
    /// that are equally near, the one with fewest so far. NICs that a GPU has besides its own count, too.
    pub(crate) fn rails(&self, gpus: &[NodeId]) -> Vec<(u32, usize)> {
        let fabric = &self.cluster.node.fabric;
        let mut serves = vec![0_usize; gpus.len()];
        let nics = (0_u32..).zip(&self.cards);
        nics.filter_map(|(nic, card)| {
            let class = |gpu: usize| fabric.class(gpus[gpu], *card);
            let of_own = |gpu: &usize| self.nic_of(gpus[*gpu]) != nic;
            let best = (0..gpus.len()).filter_map(class).min()?;
            let near = (0..gpus.len()).filter(|gpu| class(*gpu) == Some(best));
            let gpu = near.min_by_key(|gpu| (serves[*gpu], of_own(gpu)))?;
            serves[gpu] += 1;
            Some((nic, gpu))
        })
        .collect()
    }

    /// The NIC of that index.
    pub(super) fn card(&self, number: u32) -> Result<NodeId, ClusterError> {
        let card = self.cards.get(number as usize).or(self.cards.first()).copied();
        card.ok_or_else(|| ClusterError::NoNic(self.cluster.node.name.clone()))
    }
}
