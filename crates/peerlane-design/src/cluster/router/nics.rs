//! Which NIC a GPU uses, and which GPU a NIC serves.

use std::collections::{BTreeSet, HashMap};

use super::{Place, Router, Via};
use crate::cluster::network::{Network, Port};
use crate::cluster::{Cluster, ClusterError};
use peerlane_machine::fabric::{NodeId, NodeKind, PathClass};

/// Each GPU's NICs: of the nearest ones, in turn, as many as there are for each GPU that shares them, rounded up, as NCCL
/// takes them (`ncclTopoGetLocalNet`, `src/graph/topo.cc`). Host memory takes one.
pub(super) fn nearest_nics(cluster: &Cluster, cards: &[NodeId]) -> HashMap<NodeId, Vec<u32>> {
    let fabric = &cluster.node.fabric;
    let mut near: Vec<(NodeId, Vec<u32>)> = Vec::new();
    let mut sharing: HashMap<Vec<u32>, usize> = HashMap::new();
    for end in fabric.of_kind(NodeKind::Gpu).chain(fabric.of_kind(NodeKind::Host)) {
        let class = |nic: &NodeId| fabric.class(end, *nic);
        let Some(best) = cards.iter().filter_map(class).min() else { continue };
        let nics: Vec<u32> = (0_u32..).zip(cards).filter(|(_, nic)| class(nic) == Some(best)).map(|(i, _)| i).collect();
        if fabric.node(end).kind == NodeKind::Gpu {
            *sharing.entry(nics.clone()).or_default() += 1;
        }
        near.push((end, nics));
    }
    let mut turns: HashMap<Vec<u32>, usize> = HashMap::new();
    let own = |(end, nics): (NodeId, Vec<u32>)| {
        let gpus = sharing.get(&nics).copied().unwrap_or(1);
        let each = if fabric.node(end).kind == NodeKind::Gpu { nics.len().div_ceil(gpus) } else { 1 };
        let turn = turns.entry(nics.clone()).or_default();
        let own = (0..each).map(|i| nics[(*turn * each + i) % nics.len()]).collect();
        *turn += 1;
        (end, own)
    };
    near.into_iter().map(own).collect()
}

impl Router<'_> {
    /// The first NIC of a GPU, as an index into [`Cluster::nics`].
    pub fn nic_of(&self, gpu: NodeId) -> u32 {
        self.nics_of(gpu)[0]
    }

    /// The NICs over which a GPU's messages are split, as indices into [`Cluster::nics`]; at least one.
    pub fn nics_of(&self, gpu: NodeId) -> &[u32] {
        self.nics.get(&gpu).filter(|own| !own.is_empty()).map_or(&[0], Vec::as_slice)
    }

    /// The NICs of both ends of each equal part in which a message goes: a GPU's own in turn, or, where all of those are cut off
    /// at its node, the next one that works. Where no path joins those two, both ends take one that is joined.
    pub(crate) fn nic_pairs(&self, network: &Network, from: Place, to: Place, via: Via) -> Vec<[u32; 2]> {
        if let Via::Nic(nic) = via {
            return vec![[nic, nic]];
        }
        let [out, into] = [from, to].map(|place| self.working(place));
        let pair = |part: usize| [out[part % out.len()], into[part % into.len()]];
        let pairs = (0..out.len().max(into.len())).map(pair);
        if self.cut_off.is_empty() {
            return pairs.collect();
        }
        let joined = |[a, b]: &[u32; 2]| {
            let [a, b] = [(from, a), (to, b)].map(|(place, nic)| Port { node: place.node, nic: *nic });
            network.path(a, b, &mut Vec::new()).is_ok()
        };
        let other = |pair: [u32; 2]| {
            let same = (0..self.cards.len() as u32).map(|nic| [nic, nic]);
            [pair].into_iter().chain(same).find(joined).unwrap_or(pair)
        };
        pairs.map(other).collect()
    }

    /// Whether a place's own NICs are not all in use.
    pub(crate) fn is_cut(&self, place: Place) -> bool {
        self.cut_off.get(&place.node).is_some_and(|cut| self.nics_of(place.device).iter().any(|nic| cut.contains(nic)))
    }

    /// Nodes that have lost NICs.
    pub(crate) fn nodes_with_cut_off(&self) -> impl Iterator<Item = u32> {
        self.cut_off.keys().copied()
    }

    /// The NICs of a place that are not cut off; where all are, the nearest of its node that is not, the next by number of
    /// several. Its own where the node has none left, so that the network says so.
    pub(crate) fn working(&self, place: Place) -> Vec<u32> {
        let own = self.nics_of(place.device);
        let Some(cut) = self.cut_off.get(&place.node) else { return own.to_vec() };
        let left: Vec<u32> = own.iter().copied().filter(|nic| !cut.contains(nic)).collect();
        if !left.is_empty() {
            return left;
        }
        let (n, first) = (self.cards.len() as u32, own[0]);
        let others = (1..n).map(|step| (first + step) % n).filter(|nic| !cut.contains(nic));
        others.min_by_key(|nic| self.distance(place.device, *nic)).map_or_else(|| own.to_vec(), |nic| vec![nic])
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
    /// that are equally near, the one with fewest so far. NICs that a GPU has besides its own count, too; those that are cut off at
    /// a node in use do not, as the nodes of a ring agree on the number of its channels, nor do those nearer to a GPU that is not
    /// among these, nor those behind the other CPU of all GPUs that have nearer ones.
    pub(crate) fn rails(&self, gpus: &[NodeId]) -> Vec<(u32, usize)> {
        let fabric = &self.cluster.node.fabric;
        let mut serves = vec![0_usize; gpus.len()];
        let used = self.cluster.nodes_in_use();
        let cut: BTreeSet<u32> = self.cut_off.range(..used).flat_map(|(_, nics)| nics).copied().collect();
        let nics = (0_u32..).zip(&self.cards).filter(|(nic, _)| !cut.contains(nic));
        nics.filter_map(|(nic, card)| {
            let class = |gpu: usize| fabric.class(gpus[gpu], *card);
            let of_own = |gpu: &usize| !self.nics_of(gpus[*gpu]).contains(&nic);
            let best = (0..gpus.len()).filter_map(class).min()?;
            if fabric.of_kind(NodeKind::Gpu).filter_map(|gpu| fabric.class(gpu, *card)).any(|nearer| nearer < best) {
                return None;
            }
            let has_nearer =
                |gpu: &NodeId| self.cards.iter().filter_map(|card| fabric.class(*gpu, *card)).min() < Some(best);
            if best == PathClass::Sys && gpus.iter().all(has_nearer) {
                return None;
            }
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
