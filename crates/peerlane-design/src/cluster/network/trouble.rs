//! What has failed or is slow: links, adapters, switches and nodes by their names.

use super::super::ClusterError;
use super::{Network, Shape};

impl Network {
    /// Takes out what carries this name, both ways; messages take another path where there is one.
    ///
    /// `uplink:leaf3/2` is the third link up from a switch of a fat tree, `link:A:B` what joins two, and `leaf3`, `router0.1`,
    /// `node5` or `node5 port1` all links of a switch, a node or an adapter.
    ///
    /// # Errors
    /// Where nothing is called so.
    pub fn fail(&mut self, what: &str) -> Result<(), ClusterError> {
        let channels = self.named(what)?;
        self.failed.extend(channels);
        Ok(())
    }

    /// Makes the same carry only this share of what it does.
    ///
    /// # Errors
    /// Where nothing is called so, or the share is not above 0 and at most 1.
    pub fn slow(&mut self, what: &str, share: f64) -> Result<(), ClusterError> {
        if !(share > 0.0 && share <= 1.0) {
            let why = format!("'{what}={share}': a share is above 0 and at most 1; what carries nothing has failed");
            return Err(ClusterError::Network(why));
        }
        for channel in self.named(what)? {
            let rate = self.capacity(channel) * share;
            self.measured.insert(channel, rate);
        }
        Ok(())
    }

    /// The channels of what is called so.
    fn named(&self, what: &str) -> Result<Vec<u64>, ClusterError> {
        if let (true, Shape::FatTree(tree)) = (what.starts_with("uplink:"), &self.shape) {
            return tree.uplink(what).map(Vec::from);
        }
        let is = |end: &str, name: &str| end == name || end.split_once(' ').is_some_and(|(node, _)| node == name);
        let joined = what.strip_prefix("link:").and_then(|ends| ends.split_once(':'));
        let is_part = |channel: &u64| {
            let [a, b] = self.ends(*channel);
            match joined {
                Some((x, y)) => (is(&a, x) && is(&b, y)) || (is(&a, y) && is(&b, x)),
                None => is(&a, what) || is(&b, what),
            }
        };
        let found: Vec<u64> = self.channels().into_iter().filter(is_part).collect();
        if found.is_empty() {
            let of = self.words();
            let why = format!(
                "'{what}': nothing is called so in {of}; write link:A:B with the names of both ends, or the name of a switch, a \
                 node, or an adapter, as node5/mlx5_1{}",
                if matches!(self.shape, Shape::FatTree(_)) { ", or uplink:leaf3/2" } else { "" }
            );
            return Err(ClusterError::Network(why));
        }
        Ok(found)
    }

    /// All channels of links.
    fn channels(&self) -> Vec<u64> {
        let ports = u64::from(self.nodes) * u64::from(self.nics);
        match &self.shape {
            Shape::Torus(torus) => (0..u64::from(self.nodes) * torus.size.len() as u64 * 2).collect(),
            Shape::FatTree(tree) => tree.channels(),
            Shape::Dragonfly(fly) => fly.channels(),
            Shape::Switch => (0..2 * ports).collect(),
            Shape::Explicit(links) => links.channels().collect(),
        }
    }
}
