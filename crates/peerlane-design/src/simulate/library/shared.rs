//! What groups of GPUs that lie alike have of the way between nodes while all of them communicate.

use super::count::{Count, Held};
use super::edges::{Edge, ring, trees};
use super::{Algorithm, Library};
use crate::cluster::{Cluster, Component, Router};
use crate::simulate::SimulateError;
use peerlane_read::catalogue::Parts;

/// The NICs of all nodes, and the network.
pub(in super::super) struct Between<'a> {
    router: Router<'a>,
    cluster: &'a Cluster,
    nics: Held,
}

impl<'a> Between<'a> {
    /// Of a cluster with a network. `faster` is a component that carries a multiple of what it does.
    ///
    /// # Errors
    /// Where a rate is not known.
    pub(in super::super) fn new(
        cluster: &'a Cluster,
        faster: Option<&(Component, f64)>,
    ) -> Result<Self, SimulateError> {
        let mut router = Router::new(cluster, Parts::embedded());
        if let Some((component, factor)) = faster {
            router.scale(component.clone(), *factor);
        }
        let nics = count(cluster, &mut router).nics()?;
        Ok(Between { router, cluster, nics })
    }

    /// The pace of edges between nodes that go on at once, and what holds it: bytes a second for each byte of an edge.
    ///
    /// # Errors
    /// Where two nodes are not joined.
    pub(in super::super) fn pace(&mut self, edges: &[Edge]) -> Result<Share, SimulateError> {
        let nics = self.nics.clone();
        Ok(Share(count(self.cluster, &mut self.router).network(edges, &nics)?))
    }
}

fn count<'c, 'r, 'a>(cluster: &'c Cluster, router: &'r mut Router<'a>) -> Count<'c, 'r, 'a> {
    Count { cluster, router, nodes: cluster.nodes_in_use(), orders: vec![vec![0]], share: 1.0 }
}

/// Edges of rings and of trees through groups of nodes, `apart` from one to the next, that are all nodes of so many together; each
/// with so many bytes.
pub(in super::super) fn all_edges(nodes: usize, group: usize, apart: usize, bytes: f64) -> [Vec<Edge>; 2] {
    [ring(group as u32), trees(group as u32)].map(|of_group| {
        let starts = (0..nodes).filter(|node| node % (group * apart) < apart);
        let at = |start: usize, member: u32| start + member as usize * apart;
        let all =
            starts.flat_map(|start| of_group.iter().map(move |(a, b, share)| (at(start, *a), at(start, *b), share)));
        let inside = all.filter(|(a, b, _)| *a < nodes && *b < nodes);
        inside.map(|(a, b, share)| (a as u32, b as u32, share * bytes)).collect()
    })
}

/// A rate, and what holds it.
#[derive(Clone, Debug)]
pub(in super::super) struct Share(Held);

impl Share {
    /// Bytes a second.
    pub(in super::super) fn rate(&self) -> f64 {
        self.0.rate
    }

    /// What holds it, in words.
    pub(in super::super) fn by(&self) -> &str {
        &self.0.by
    }

    /// What one would replace to make that faster.
    pub(in super::super) fn component(&self) -> Option<&Component> {
        self.0.component.as_ref()
    }
}

impl Library {
    /// The same where no more than this goes between nodes: around their rings in bytes of bus bandwidth a second, up and down
    /// their trees in bytes of the collective.
    #[must_use]
    pub(in super::super) fn sharing(mut self, [ring, tree]: &[Share; 2]) -> Self {
        let factor = self.job.collective.bus_factor(self.job.ranks);
        for algorithm in Algorithm::ALL {
            let most = match algorithm {
                Algorithm::Tree | Algorithm::NvlsTree => tree.0.times(factor),
                _ => ring.0.clone(),
            };
            if self.carried.of(algorithm).is_some_and(|rate| rate > most.rate) {
                self.carried = self.carried.with(algorithm, Some(most.rate));
                self.held[algorithm as usize] = most;
            }
        }
        self
    }

    /// What holds the bytes of an algorithm, and what one would replace to make it faster.
    pub(in super::super) fn held_by(&self, algorithm: Algorithm) -> (&str, Option<&Component>) {
        let held = &self.held[algorithm as usize];
        (&held.by, held.component.as_ref())
    }
}
