//! The way between two nodes, hop by hop, and its class.

use super::class::PathClass;
use super::graph::Fabric;
use super::node::{LinkId, LinkKind, NodeId, NodeKind};

/// One link of a path, in the direction it is travelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Where it starts.
    pub from: NodeId,
    /// The link.
    pub link: LinkId,
    /// Where it ends.
    pub to: NodeId,
}

/// The way between two nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Its class.
    pub class: PathClass,
    /// Its links in order; empty from a node to itself.
    pub hops: Vec<Hop>,
}

impl Path {
    /// The nodes between the two ends.
    pub fn between(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.hops.iter().skip(1).map(|h| h.from)
    }
}

impl Fabric {
    /// The way data takes from `a` to `b`: over NVLink, xGMI or C2C where they join the two, else over
    /// PCIe. `None` where the fabric knows no way.
    pub fn path(&self, a: NodeId, b: NodeId) -> Option<Path> {
        if a == b {
            return Some(Path { class: PathClass::Same, hops: Vec::new() });
        }
        self.gpu_fabric_path(a, b).or_else(|| self.tree_path(a, b))
    }

    /// The class of the way from `a` to `b`.
    pub fn class(&self, a: NodeId, b: NodeId) -> Option<PathClass> {
        self.path(a, b).map(|p| p.class)
    }

    /// The way from `a` to `b` over NVLink, xGMI or C2C alone: directly, or through an NVSwitch.
    pub fn gpu_fabric_path(&self, a: NodeId, b: NodeId) -> Option<Path> {
        let own = |n: NodeId| self.links_of(n).iter().copied().filter(|(l, _)| self.link(*l).kind.is_gpu_fabric());
        if let Some((link, _)) = own(a).find(|(_, next)| *next == b) {
            let class = match self.link(link).kind {
                LinkKind::Nvlink { bricks, .. } => PathClass::Nvlink(bricks),
                LinkKind::Xgmi { .. } => PathClass::Xgmi,
                // no label of its own in the vendor's matrix; a CPU is never a column there
                _ => PathClass::Phb,
            };
            return Some(Path { class, hops: vec![Hop { from: a, link, to: b }] });
        }
        own(a).filter(|(_, mid)| self.node(*mid).kind == NodeKind::NvSwitch).find_map(|(up, mid)| {
            let (down, _) = own(b).find(|(_, next)| *next == mid)?;
            let bricks = |l| match self.link(l).kind {
                LinkKind::Nvlink { bricks, .. } => bricks,
                _ => 0,
            };
            let class = PathClass::Nvlink(bricks(up).min(bricks(down)));
            let hops = vec![Hop { from: a, link: up, to: mid }, Hop { from: mid, link: down, to: b }];
            Some(Path { class, hops })
        })
    }

    /// The way from `a` to `b` over PCIe and the CPUs, as if there were no NVLink between GPUs. A GPU
    /// that reaches its CPU by NVLink or C2C takes that way to host memory.
    pub fn tree_path(&self, a: NodeId, b: NodeId) -> Option<Path> {
        if a == b {
            return Some(Path { class: PathClass::Same, hops: Vec::new() });
        }
        let host_bound = |x: NodeId| matches!(self.node(x).kind, NodeKind::Host | NodeKind::Cpu);
        if !host_bound(a)
            && !host_bound(b)
            && let Some(path) = self.within_tree(a, b)
        {
            return Some(path);
        }
        let up = self.ascend(a, host_bound(b))?;
        let down = self.ascend(b, host_bound(a))?;
        let top = |hops: &[Hop], start| hops.last().map_or(start, |h| h.to);
        let (left, right) = (top(&up, a), top(&down, b));
        let across = self.between_packages(left, right)?;
        let mut hops = up;
        hops.extend(across);
        hops.extend(down.into_iter().rev().map(|h| Hop { from: h.to, link: h.link, to: h.from }));
        Some(Path { class: self.class_across(a, b, left == right), hops })
    }

    /// Both ends below one tree top.
    fn within_tree(&self, a: NodeId, b: NodeId) -> Option<Path> {
        let (mut left, mut right) = (Vec::new(), Vec::new());
        let (mut x, mut y) = (a, b);
        while x != y {
            if self.depth(x) >= self.depth(y) {
                let (link, up) = self.upstream(x)?;
                left.push(Hop { from: x, link, to: up });
                x = up;
            } else {
                let (link, up) = self.upstream(y)?;
                right.push(Hop { from: up, link, to: y });
                y = up;
            }
        }
        left.extend(right.into_iter().rev());
        let nodes = left.iter().map(|h| h.to).chain([a]);
        let mut switches = 0;
        let mut through_root = false;
        for node in nodes {
            switches += usize::from(self.node(node).kind == NodeKind::Switch);
            through_root |= self.node(node).kind == NodeKind::RootComplex;
        }
        let class = match (through_root, switches) {
            (true, _) => PathClass::Phb,
            (false, 0 | 1) => PathClass::Pix,
            (false, _) => PathClass::Pxb,
        };
        Some(Path { class, hops: left })
    }

    /// From a node up to its CPU package.
    fn ascend(&self, start: NodeId, to_memory: bool) -> Option<Vec<Hop>> {
        let mut hops = Vec::new();
        let mut at = start;
        if to_memory && self.node(start).kind == NodeKind::Gpu {
            let own = self
                .links_of(start)
                .iter()
                .find(|(link, next)| self.link(*link).kind.is_gpu_fabric() && self.node(*next).kind == NodeKind::Cpu);
            if let Some(&(link, cpu)) = own {
                return Some(vec![Hop { from: start, link, to: cpu }]);
            }
        }
        while let Some((link, up)) = self.upstream(at) {
            hops.push(Hop { from: at, link, to: up });
            at = up;
        }
        if self.node(at).kind == NodeKind::Cpu {
            return Some(hops);
        }
        let &(link, cpu) = self
            .links_of(at)
            .iter()
            .find(|(link, next)| self.link(*link).kind == LinkKind::OnDie && self.node(*next).kind == NodeKind::Cpu)?;
        hops.push(Hop { from: at, link, to: cpu });
        Some(hops)
    }

    /// The shortest way between two packages over SMP links.
    fn between_packages(&self, from: NodeId, to: NodeId) -> Option<Vec<Hop>> {
        let mut came: Vec<(NodeId, Hop)> = Vec::new();
        let mut frontier = vec![from];
        while !frontier.is_empty() && !frontier.contains(&to) {
            let mut next_frontier = Vec::new();
            for at in frontier {
                for &(link, next) in self.links_of(at) {
                    let fresh = next != from && came.iter().all(|(n, _)| *n != next);
                    if self.link(link).kind == LinkKind::Smp && fresh {
                        came.push((next, Hop { from: at, link, to: next }));
                        next_frontier.push(next);
                    }
                }
            }
            frontier = next_frontier;
        }
        let mut hops = Vec::new();
        let mut at = to;
        while at != from {
            let (_, hop) = came.iter().find(|(n, _)| *n == at)?;
            hops.push(*hop);
            at = hop.from;
        }
        hops.reverse();
        Some(hops)
    }

    fn class_across(&self, a: NodeId, b: NodeId, same_package: bool) -> PathClass {
        let domain = |n| self.node(self.tree_top(n)).domain;
        let host = |n: NodeId| self.node(n).kind == NodeKind::Host;
        match (domain(a), domain(b)) {
            (Some(x), Some(y)) if x == y => PathClass::Node,
            (Some(_), Some(_)) => PathClass::Sys,
            _ if same_package && (host(a) || host(b)) => PathClass::Phb,
            _ if same_package => PathClass::Node,
            _ => PathClass::Sys,
        }
    }
}
