//! Dragonflies (Kim, Dally, Scott and Abts, *Technology-driven, highly-scalable dragonfly topology*, ISCA 2008), with
//! minimal routing: at most one link within a group, one between groups, one within the other group.

use super::super::ClusterError;
use super::port_name;

/// A dragonfly: `groups` groups of `routers` routers with `ports` ports each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dragonfly {
    /// Groups, every two of which are joined by one link, or by as many as each router has to spare.
    pub groups: u32,
    /// Routers of a group, every two of which are joined by one link.
    pub routers: u32,
    /// Ports of nodes at a router.
    pub ports: u32,
    /// Links to other groups that each router has.
    pub global: u32,
}

impl Dragonfly {
    /// The sizes given, or the smallest balanced dragonfly (twice as many routers a group as ports and as global links
    /// a router) that holds so many ports.
    pub(super) fn sized(ports: u64, size: Option<[u32; 3]>) -> Result<(Self, Vec<String>), ClusterError> {
        let given = size.is_some();
        let [groups, routers, each] = match size {
            Some(size) => size,
            None => {
                let holds = |p: u64| 2 * p * p * (2 * p * p + 1);
                let p = (1..1000).find(|p| holds(*p) >= ports).unwrap_or(1000);
                [ports.div_ceil(2 * p * p).max(1) as u32, 2 * p as u32, p as u32]
            }
        };
        if u64::from(groups) * u64::from(routers) * u64::from(each) < ports {
            let why = format!("a dragonfly of {groups}x{routers}x{each} has fewer ports than there are NICs, {ports}");
            return Err(ClusterError::Network(why));
        }
        let global = (groups - 1).div_ceil(routers).max(1);
        let said = format!("The dragonfly has {groups} groups of {routers} routers with {each} ports each.");
        Ok((Dragonfly { groups, routers, ports: each, global }, if given { Vec::new() } else { vec![said] }))
    }

    /// The router of group `from` that is joined to group `to`.
    pub(crate) fn gate(&self, from: u64, to: u64) -> u64 {
        let slot = if to < from { to } else { to - 1 };
        slot / u64::from(self.global)
    }

    pub(crate) fn path(&self, from: u64, to: u64, channels: &mut Vec<u64>) {
        let (ports, routers) = (u64::from(self.ports), u64::from(self.routers));
        let (a, b) = (from / ports, to / ports);
        channels.push(from * 8);
        let (ga, gb) = (a / routers, b / routers);
        if ga == gb {
            channels.extend((a != b).then(|| self.local(ga, a % routers, b % routers)));
        } else {
            let (out, into) = (self.gate(ga, gb), self.gate(gb, ga));
            channels.extend((a % routers != out).then(|| self.local(ga, a % routers, out)));
            channels.push(self.global(ga, gb));
            channels.extend((b % routers != into).then(|| self.local(gb, into, b % routers)));
        }
        channels.push(to * 8 + 1);
    }

    /// The channel from router `x` to router `y` of a group.
    pub(crate) fn local(&self, group: u64, x: u64, y: u64) -> u64 {
        let routers = u64::from(self.routers);
        ((group * routers + x) * routers + y) * 8 + 2
    }

    /// The channel from one group to another.
    pub(crate) fn global(&self, from: u64, to: u64) -> u64 {
        (from * u64::from(self.groups) + to) * 8 + 3
    }

    /// Links of a channel: where a group has more global links than other groups, the pairs share them evenly.
    pub(super) fn parallel(&self, channel: u64) -> f64 {
        if channel % 8 != 3 || self.groups < 2 {
            return 1.0;
        }
        let (links, others) = (u64::from(self.global) * u64::from(self.routers), u64::from(self.groups - 1));
        (links / others).max(1) as f64
    }

    pub(super) fn ends(&self, nics: u32, channel: u64) -> [String; 2] {
        let (routers, groups) = (u64::from(self.routers), u64::from(self.groups));
        let n = channel / 8;
        let router = |number: u64| format!("router{}.{}", number / routers, number % routers);
        match channel % 8 {
            0 => [port_name(nics, n), router(n / u64::from(self.ports))],
            1 => [router(n / u64::from(self.ports)), port_name(nics, n)],
            2 => [n / routers, n / routers / routers * routers + n % routers].map(router),
            _ => {
                let (a, b) = (n / groups, n % groups);
                [a * routers + self.gate(a, b), b * routers + self.gate(b, a)].map(router)
            }
        }
    }
}
