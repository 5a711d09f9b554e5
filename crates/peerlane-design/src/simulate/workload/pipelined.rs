//! Collectives in chunks as streams: which transfers keep one pace, without a program of all of them.

use super::super::streams::Stream;
use super::collectives::{Layout, chunks};
use super::{Algorithm, Workload};
use crate::cluster::{Cluster, Router};
use crate::simulate::node_rings::NodeRings;

/// Chains, or two trees.
pub(in super::super) struct Pipelined {
    layout: Layout,
    /// Chains as positions; of trees empty.
    chains: Vec<(Vec<usize>, f64)>,
    size: f64,
    /// How many chunks go through each.
    pub chunks: u64,
}

impl Workload {
    /// This workload in streams; `None` where it is not done in chunks along chains or trees of nodes.
    pub(in super::super) fn pipelined(
        &self,
        cluster: &Cluster,
        router: &Router,
        rings: Option<&NodeRings>,
        size: f64,
    ) -> Option<Pipelined> {
        let layout = Layout::new(cluster, router, rings.map(|rings| &rings.rings), false);
        match self {
            Workload::AllReduce(Algorithm::Tree) => {
                Some(Pipelined { layout, chains: Vec::new(), size, chunks: chunks(size / 2.0) })
            }
            Workload::Broadcast => {
                let chains = layout.chains();
                let largest = chains.iter().map(|(_, share)| *share).fold(0.0, f64::max);
                Some(Pipelined { layout, chains, size, chunks: chunks(size * largest) })
            }
            _ => None,
        }
    }
}

impl Pipelined {
    /// Each stream, with the bytes of a chunk of it.
    pub(in super::super) fn streams(&self) -> Vec<(Stream<'_>, f64)> {
        let chunks = self.chunks as f64;
        let layout = &self.layout;
        if self.chains.is_empty() {
            let tree = |tree: usize| {
                let stream = Stream::new(move |visit| {
                    layout.tree_places(tree).for_each(|at| {
                        visit(at.place, at.place_above, 1.0);
                        visit(at.place_above, at.place, 1.0);
                    });
                });
                (stream, self.size / 2.0 / chunks)
            };
            return (0..2).map(tree).collect();
        }
        let bytes = |(_, share): &(Vec<usize>, f64)| self.size * share / chunks;
        self.chains.iter().map(|chain| (Stream::of_pairs(&chain.0, &layout.places), bytes(chain))).collect()
    }
}
