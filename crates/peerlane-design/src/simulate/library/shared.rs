//! What groups of GPUs that lie alike have of the way between nodes while all of them communicate.

use super::count::{Count, Held};
use super::edges::Edge;
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
    Count { cluster, router, nodes: cluster.taking.0.min(cluster.nodes), orders: vec![vec![0]], share: 1.0 }
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
    /// The same where no more than this goes between nodes, in bytes a second of bus bandwidth.
    #[must_use]
    pub(in super::super) fn sharing(mut self, most: &Share) -> Self {
        for algorithm in Algorithm::ALL {
            if self.carried.of(algorithm).is_some_and(|rate| rate > most.rate()) {
                self.carried = self.carried.with(algorithm, Some(most.rate()));
                self.held[algorithm as usize] = most.0.clone();
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
