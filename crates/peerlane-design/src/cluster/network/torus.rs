//! Tori of any dimensions, with dimension-order routing.

use super::super::ClusterError;

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

    /// Dimension by dimension, the shorter way round; of two that are equal the one upwards.
    pub(crate) fn path(&self, from: u32, to: u32, channels: &mut Vec<u64>) {
        let (mut here, mut stride) = (from, 1);
        for (d, &n) in self.size.iter().enumerate() {
            let goal = to / stride % n;
            loop {
                let x = here / stride % n;
                if x == goal {
                    break;
                }
                let up = 2 * ((goal + n - x) % n) <= n;
                let next = if up { (x + 1) % n } else { (x + n - 1) % n };
                channels.push((u64::from(here) * self.size.len() as u64 + d as u64) * 2 + u64::from(!up));
                here = here - x * stride + next * stride;
            }
            stride *= n;
        }
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
