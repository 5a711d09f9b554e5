//! Tori of any dimensions, with dimension-order routing.

use std::collections::BTreeSet;

use super::super::ClusterError;
use super::Routing;

/// A torus; a node's number is that of its place, the first dimension fastest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torus {
    /// Nodes along each dimension.
    pub size: Vec<u32>,
}

impl Torus {
    /// A torus for so many nodes.
    pub fn new(size: &[u32], nodes: u32) -> Result<Self, ClusterError> {
        let places = size.iter().try_fold(1_u32, |product, n| product.checked_mul(*n)).filter(|_| !size.is_empty());
        if places != Some(nodes) {
            let words = size.iter().map(u32::to_string).collect::<Vec<_>>().join("x");
            let why = format!("a torus of {words} has not as many places as there are nodes, {nodes}");
            return Err(ClusterError::Network(why));
        }
        Ok(Torus { size: size.to_vec() })
    }

    /// Dimension by dimension, the shorter way round, or the other where that has a failed link. Of two ways that are equal
    /// static routing takes the one upwards, adaptive routing both, and a hash one for each dimension.
    pub(crate) fn path(
        &self,
        [from, to]: [u32; 2],
        routing: Routing,
        failed: &BTreeSet<u64>,
        channels: &mut Vec<u64>,
    ) -> Option<u32> {
        let ties = self.tied(from, to);
        let parts = if routing == Routing::Adaptive && ties { 2 } else { 1 };
        for part in 0..parts {
            let hash = match routing {
                Routing::Ecmp(_) => routing.choice(from.into(), to.into()),
                Routing::Static | Routing::Adaptive => u64::MAX * part,
            };
            self.one_path([from, to], hash, failed, channels)?;
        }
        Some(parts as u32)
    }

    /// Whether both ways round are equal along any dimension.
    fn tied(&self, from: u32, to: u32) -> bool {
        let mut stride = 1;
        self.size.iter().any(|&n| {
            let away = (to / stride % n + n - from / stride % n) % n;
            stride *= n;
            2 * away == n
        })
    }

    /// A path; bit d of `down` chooses between equal ways along dimension d.
    fn one_path(&self, [from, to]: [u32; 2], down: u64, failed: &BTreeSet<u64>, channels: &mut Vec<u64>) -> Option<()> {
        let (mut here, mut stride) = (from, 1);
        for (d, &n) in self.size.iter().enumerate() {
            let away = (to / stride % n + n - here / stride % n) % n;
            let up = 2 * away < n || (2 * away == n && down >> (d % 64) & 1 == 0);
            let first = channels.len();
            let end = self.along(here, [d as u32, stride], away, up, channels);
            if channels[first..].iter().any(|channel| failed.contains(channel)) {
                channels.truncate(first);
                self.along(here, [d as u32, stride], away, !up, channels);
                if channels[first..].iter().any(|channel| failed.contains(channel)) {
                    return None;
                }
            }
            here = end;
            stride *= n;
        }
        Some(())
    }

    /// Along one dimension to the node that is so many places upwards, up or down.
    fn along(&self, from: u32, [d, stride]: [u32; 2], away: u32, up: bool, channels: &mut Vec<u64>) -> u32 {
        let n = self.size[d as usize];
        let mut here = from;
        for _ in 0..if up || away == 0 { away } else { n - away } {
            channels.push((u64::from(here) * self.size.len() as u64 + u64::from(d)) * 2 + u64::from(!up));
            let x = here / stride % n;
            let next = if up { (x + 1) % n } else { (x + n - 1) % n };
            here = here - x * stride + next * stride;
        }
        here
    }

    pub(super) fn ends(&self, channel: u64) -> [String; 2] {
        let dimensions = self.size.len() as u64;
        let (down, place) = (channel % 2 == 1, channel / 2);
        let (node, d) = (place / dimensions, (place % dimensions) as usize);
        let stride: u64 = self.size[..d].iter().map(|n| u64::from(*n)).product();
        let n = u64::from(self.size[d]);
        let x = node / stride % n;
        let next = if down { (x + n - 1) % n } else { (x + 1) % n };
        [node, node - x * stride + next * stride].map(|node| format!("node{node}"))
    }
}
