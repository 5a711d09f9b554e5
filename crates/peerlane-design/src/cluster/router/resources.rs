//! What routes use, by key and by number: what each resource carries, its name and its component.

use super::Router;
use crate::cluster::ClusterError;
use crate::cluster::names::{Component, alike};
use peerlane_machine::fabric::{NodeId, NodeKind};
use peerlane_model::solve::Resource;

/// Marks the key of a channel; others are `node << 24 | resource`.
pub(super) const CHANNEL: u64 = 1 << 63;
/// Bits of a resource within a node.
const LOCAL: u32 = 24;

/// The key of a node's own: of its resource, or of its device.
pub(super) fn on(node: u32, local: u64) -> u64 {
    u64::from(node) << LOCAL | local
}

impl Router<'_> {
    /// Makes all resources of a component carry `factor` times what they do, for routes from now on.
    pub fn scale(&mut self, component: Component, factor: f64) {
        self.scales.push((component, factor));
    }

    /// The component of resources that are called so, but for their numbers ([`Router::group`]), where any is in use.
    pub fn component(&self, group: &str) -> Option<Component> {
        let key = self.keys.iter().chain(&self.kinds).find(|key| alike(&self.name_of(**key)) == group)?;
        Some(self.component_of(*key))
    }

    fn component_of(&self, key: u64) -> Component {
        if let (true, Some(network)) = (key & CHANNEL != 0, &self.cluster.network) {
            return network.component(key & !CHANNEL);
        }
        let resource = self.resource(key);
        let is_nic = |node: NodeId| self.cluster.node.fabric.node(node).kind == NodeKind::Nic;
        if resource.node.is_some_and(is_nic) {
            return Component::Adapters;
        }
        let name = resource.link.map_or_else(|| resource.name.clone(), |link| self.model.described(link));
        Component::Named(alike(&self.on_node(key, &name)))
    }

    /// What each resource carries, in bytes a second, and how long it serves a request, by number.
    pub fn resources(&self) -> &[Resource] {
        &self.resources
    }

    /// A resource in words: `node3/GPU0–plx0, PCIe 3.0 x16, towards plx0`.
    pub fn name(&self, resource: usize) -> String {
        self.keys.get(resource).map_or_else(String::new, |key| self.name_of(*key))
    }

    fn name_of(&self, key: u64) -> String {
        if key & CHANNEL != 0 {
            let network = self.cluster.network.as_ref();
            return network.map_or_else(String::new, |n| n.name(key & !CHANNEL));
        }
        self.on_node(key, &self.resource(key).name)
    }

    fn on_node(&self, key: u64, name: &str) -> String {
        if self.cluster.network.is_none() { name.to_owned() } else { format!("node{}/{name}", key >> LOCAL) }
    }

    /// The resource of the nodes' model that a key is of.
    fn resource(&self, key: u64) -> &peerlane_model::model::Resource {
        &self.model.resources[(key & ((1 << LOCAL) - 1)) as usize]
    }

    /// The name with `#` for the numbers of nodes, devices, switches: what resources of one kind have in common.
    pub fn group(&self, resource: usize) -> String {
        alike(&self.name(resource))
    }

    /// A resource of the nodes' model, and what it and its like in other nodes are called.
    pub(crate) fn local(&mut self, resource: usize) -> Result<(Resource, String), ClusterError> {
        self.kinds.push(resource as u64);
        let known = self.rated(resource as u64)?;
        Ok((known, alike(&self.name_of(resource as u64))))
    }

    /// The same of a channel.
    pub(crate) fn channel(&mut self, channel: u64) -> Result<(f64, String), ClusterError> {
        self.kinds.push(CHANNEL | channel);
        let known = self.rated(CHANNEL | channel)?;
        Ok((known.capacity, alike(&self.name_of(CHANNEL | channel))))
    }

    /// Channels of one kind carry the same, and are called the same but for their numbers.
    pub(crate) fn channel_kind(&self, channel: u64) -> u64 {
        self.cluster.network.as_ref().map_or(0, |n| n.kind(channel))
    }

    /// A resource as it is solved for, with what its component is scaled by.
    fn rated(&self, key: u64) -> Result<Resource, ClusterError> {
        let (rate, service) = match &self.cluster.network {
            Some(network) if key & CHANNEL != 0 => (network.capacity(key & !CHANNEL), 0.0),
            _ => (self.resource(key).capacity, self.resource(key).service),
        };
        let scaled = if self.scales.is_empty() { None } else { Some(self.component_of(key)) };
        let factors = self.scales.iter().filter(|(component, _)| Some(component) == scaled.as_ref());
        let rate = rate * factors.map(|(_, factor)| factor).product::<f64>();
        let capacity = rate.bytes_per_second();
        if capacity.is_nan() || capacity <= 0.0 {
            return Err(ClusterError::Capacity(self.name_of(key), rate));
        }
        Ok(Resource { capacity, service })
    }

    /// Its number, a new one where it is not yet in use.
    pub(super) fn number(&mut self, key: u64) -> Result<usize, ClusterError> {
        if let Some(number) = self.numbers.get(&key) {
            return Ok(*number as usize);
        }
        let resource = self.rated(key)?;
        self.numbers.insert(key, self.keys.len() as u32);
        self.keys.push(key);
        self.resources.push(resource);
        Ok(self.keys.len() - 1)
    }
}
