//! Dragonflies (Kim, Dally, Scott and Abts, *Technology-driven, highly-scalable dragonfly topology*, ISCA 2008), with
//! minimal routing: at most one link within a group, one between groups, one within the other group.

use std::collections::BTreeSet;

use super::super::ClusterError;
use super::{Routing, port_name};

/// A dragonfly: `groups` groups of `routers` routers with `ports` ports each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dragonfly {
    /// Groups, every two of which are joined by as many links, at least one.
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
    /// a router) that holds so many ports. A router has as many global links as ports where none are given, or as many as
    /// join each two groups.
    pub(super) fn sized(
        ports: u64,
        size: Option<([u32; 3], Option<u32>)>,
    ) -> Result<(Self, Vec<String>), ClusterError> {
        let ([groups, routers, each], links) = size.unwrap_or_else(|| {
            let holds = |p: u64| 2 * p * p * (2 * p * p + 1);
            let p = (1..1000).find(|p| holds(*p) >= ports).unwrap_or(1000);
            ([ports.div_ceil(2 * p * p).max(1) as u32, 2 * p as u32, p as u32], None)
        });
        if u64::from(groups) * u64::from(routers) * u64::from(each) < ports {
            let why = format!("a dragonfly of {groups}x{routers}x{each} has fewer ports than there are NICs, {ports}");
            return Err(ClusterError::Network(why));
        }
        let least = (groups - 1).div_ceil(routers);
        let global = links.unwrap_or_else(|| each.max(least));
        if global < least {
            let why = format!(
                "{routers} routers with {global} links to other groups each join fewer than {groups} groups; {least} each do"
            );
            return Err(ClusterError::Network(why));
        }
        let fly = Dragonfly { groups, routers, ports: each, global };
        let stated = format!(
            "The dragonfly has {groups} groups of {routers} routers with {each} ports and {global} links to other groups each."
        );
        Ok((fly, if size.is_some_and(|(_, links)| links.is_some()) { Vec::new() } else { vec![stated] }))
    }

    /// Links between any two groups.
    pub(crate) fn between(&self) -> u64 {
        let others = u64::from(self.groups).saturating_sub(1).max(1);
        u64::from(self.global) * u64::from(self.routers) / others
    }

    /// The router of group `from` at which link `link` to group `to` ends: the links of a group are dealt out to its routers
    /// in turn.
    pub(crate) fn gate(&self, from: u64, to: u64, link: u64) -> u64 {
        let slot = if to < from { to } else { to - 1 };
        (link * u64::from(self.groups - 1) + slot) % u64::from(self.routers)
    }

    /// By the link between the groups that is chosen, or the next one whose path has no failed link; with adaptive routing
    /// over all that have none. `None` where every path has one.
    pub(crate) fn path(
        &self,
        [from, to]: [u64; 2],
        routing: Routing,
        failed: &BTreeSet<u64>,
        channels: &mut Vec<u64>,
    ) -> Option<u32> {
        let (all, choice) = (self.between(), routing.choice(from, to));
        let within = u64::from(self.ports) * u64::from(self.routers);
        let links = if from / within == to / within { 1 } else { all };
        let mut parts = 0;
        for link in 0..links {
            let first = channels.len();
            self.by(from, to, (choice + link) % links, channels);
            if channels[first..].iter().any(|channel| failed.contains(channel)) {
                channels.truncate(first);
                continue;
            }
            parts += 1;
            if routing != Routing::Adaptive {
                break;
            }
        }
        (parts > 0).then_some(parts)
    }

    /// Over this link between the groups.
    fn by(&self, from: u64, to: u64, link: u64, channels: &mut Vec<u64>) {
        let (ports, routers) = (u64::from(self.ports), u64::from(self.routers));
        let (a, b) = (from / ports, to / ports);
        channels.push(from * 8);
        let (ga, gb) = (a / routers, b / routers);
        if ga == gb {
            channels.extend((a != b).then(|| self.local(ga, a % routers, b % routers)));
        } else {
            let (out, into) = (self.gate(ga, gb, link), self.gate(gb, ga, link));
            channels.extend((a % routers != out).then(|| self.local(ga, a % routers, out)));
            channels.push(self.global_link(ga, gb, link));
            channels.extend((b % routers != into).then(|| self.local(gb, into, b % routers)));
        }
        channels.push(to * 8 + 1);
    }

    /// The channel from router `x` to router `y` of a group.
    pub(crate) fn local(&self, group: u64, x: u64, y: u64) -> u64 {
        let routers = u64::from(self.routers);
        ((group * routers + x) * routers + y) * 8 + 2
    }

    /// The channel of one of the links from one group to another.
    pub(crate) fn global_link(&self, from: u64, to: u64, link: u64) -> u64 {
        ((from * u64::from(self.groups) + to) * self.between() + link) * 8 + 3
    }

    /// All links, both ways.
    pub(super) fn channels(&self) -> Vec<u64> {
        let (groups, routers) = (u64::from(self.groups), u64::from(self.routers));
        let ports = groups * routers * u64::from(self.ports);
        let mut all: Vec<u64> = (0..ports).flat_map(|port| [port * 8, port * 8 + 1]).collect();
        let two = |n: u64| (0..n).flat_map(move |a| (0..n).map(move |b| (a, b))).filter(|(a, b)| a != b);
        for (a, b) in two(groups) {
            all.extend((0..self.between()).map(|link| self.global_link(a, b, link)));
        }
        all.extend((0..groups).flat_map(|g| two(routers).map(move |(x, y)| self.local(g, x, y))));
        all
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
                let (pair, link) = (n / self.between(), n % self.between());
                let (a, b) = (pair / groups, pair % groups);
                [a * routers + self.gate(a, b, link), b * routers + self.gate(b, a, link)].map(router)
            }
        }
    }
}
