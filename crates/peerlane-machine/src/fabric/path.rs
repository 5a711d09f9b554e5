//! The path between two nodes, hop by hop, and its class.

use std::collections::{HashMap, VecDeque};

use super::class::PathClass;
use super::graph::{Fabric, is_root};
use super::interconnect::{Interconnect, Label};
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

/// The path between two nodes.
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

/// The class of a path over bundles of GPUs' own links, one after another: with as many links as the fewest.
fn label_of(links: &[&LinkKind]) -> PathClass {
    let bundle = |kind: &&LinkKind| if let LinkKind::Gpu(link) = kind { Some(*link) } else { None };
    let Some(first) = links.iter().find_map(bundle) else { return PathClass::Phb };
    match first.interconnect.family().label {
        Label::Counted(_) => {
            let fewest = links.iter().filter_map(bundle).map(|link| link.links.unwrap_or(0)).min();
            PathClass::Gpu(first.interconnect, fewest.unwrap_or(0))
        }
        Label::Plain(_) => PathClass::Gpu(first.interconnect, 0),
        // the vendor's matrix has no label for it; a CPU is never a column there
        Label::Drawn(_) => PathClass::Phb,
    }
}

impl Fabric {
    /// The path that data takes from `a` to `b`: over NVLink, xGMI or C2C where they join the two, else over
    /// PCIe. `None` where the fabric has no path.
    pub fn path(&self, a: NodeId, b: NodeId) -> Option<Path> {
        if a == b {
            return Some(Path { class: PathClass::Same, hops: Vec::new() });
        }
        self.gpu_fabric_path(a, b).or_else(|| self.tree_path(a, b))
    }

    /// The class of the path from `a` to `b`.
    pub fn class(&self, a: NodeId, b: NodeId) -> Option<PathClass> {
        self.path(a, b).map(|p| p.class)
    }

    /// The path from `a` to `b` over NVLink, xGMI or C2C alone: directly, through an NVSwitch, or over xGMI from GPU to GPU.
    pub fn gpu_fabric_path(&self, a: NodeId, b: NodeId) -> Option<Path> {
        let own = |n: NodeId| self.links_of(n).iter().copied().filter(|(l, _)| self.link(*l).kind.is_gpu_fabric());
        if let Some((link, _)) = own(a).find(|(_, next)| *next == b) {
            let class = label_of(&[&self.link(link).kind]);
            return Some(Path { class, hops: vec![Hop { from: a, link, to: b }] });
        }
        let switched = own(a).filter(|(_, mid)| self.node(*mid).kind == NodeKind::NvSwitch).find_map(|(up, mid)| {
            let (down, _) = own(b).find(|(_, next)| *next == mid)?;
            let class = label_of(&[up, down].map(|l| &self.link(l).kind));
            let hops = vec![Hop { from: a, link: up, to: mid }, Hop { from: mid, link: down, to: b }];
            Some(Path { class, hops })
        });
        switched.or_else(|| self.xgmi_path(a, b))
    }

    /// The shortest path from GPU to GPU over xGMI, which GPUs forward; of several, the one whose narrowest bundle is widest.
    fn xgmi_path(&self, a: NodeId, b: NodeId) -> Option<Path> {
        let bundle = |link: LinkId| match self.link(link).kind {
            LinkKind::Gpu(bundle) if bundle.interconnect == Interconnect::Xgmi => Some(bundle.links.unwrap_or(1)),
            _ => None,
        };
        let own = |n: NodeId| self.links_of(n).iter().filter_map(move |(l, next)| Some((*l, *next, bundle(*l)?)));
        own(b).next()?;
        let mut paths: Vec<(Vec<Hop>, u8)> = vec![(Vec::new(), u8::MAX)];
        let mut reached = vec![a];
        while !paths.is_empty() {
            let mut longer: Vec<(Vec<Hop>, u8)> = Vec::new();
            for (hops, width) in &paths {
                let from = hops.last().map_or(a, |hop| hop.to);
                for (link, to, links) in own(from).filter(|(_, to, _)| !reached.contains(to)) {
                    let width = links.min(*width);
                    let same = longer.iter().position(|(hops, _)| hops.last().is_some_and(|hop| hop.to == to));
                    let hops = hops.iter().copied().chain([Hop { from, link, to }]).collect();
                    match same {
                        Some(at) if longer[at].1 >= width => {}
                        Some(at) => longer[at] = (hops, width),
                        None => longer.push((hops, width)),
                    }
                }
            }
            if let Some((hops, _)) = longer.iter().find(|(hops, _)| hops.last().is_some_and(|hop| hop.to == b)) {
                let kinds: Vec<&LinkKind> = hops.iter().map(|hop| &self.link(hop.link).kind).collect();
                return Some(Path { class: label_of(&kinds), hops: hops.clone() });
            }
            reached.extend(longer.iter().filter_map(|(hops, _)| hops.last().map(|hop| hop.to)));
            paths = longer;
        }
        None
    }

    /// The path from `a` to `b` over PCIe and the CPUs, as if there were no NVLink between GPUs. A GPU
    /// that reaches its CPU by NVLink or C2C takes that path to host memory. `None` too where a cut-off matrix
    /// leaves open how far apart the two are.
    pub fn tree_path(&self, a: NodeId, b: NodeId) -> Option<Path> {
        if a == b {
            return Some(Path { class: PathClass::Same, hops: Vec::new() });
        }
        if self.is_path_unknown(a, b) {
            return None;
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
            through_root |= is_root(self.node(node).kind);
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
        // a GPU without PCIe of its own reaches everything through its CPU
        if (to_memory || self.upstream(start).is_none())
            && self.node(start).kind == NodeKind::Gpu
            && let Some((link, cpu)) = self.joined_cpu(start, LinkKind::is_gpu_fabric)
        {
            return Some(vec![Hop { from: start, link, to: cpu }]);
        }
        while let Some((link, up)) = self.upstream(at) {
            hops.push(Hop { from: at, link, to: up });
            at = up;
        }
        if self.node(at).kind == NodeKind::Cpu {
            return Some(hops);
        }
        let (link, cpu) = self.joined_cpu(at, |kind| *kind == LinkKind::OnDie)?;
        hops.push(Hop { from: at, link, to: cpu });
        Some(hops)
    }

    /// The shortest path between two packages over SMP links.
    fn between_packages(&self, from: NodeId, to: NodeId) -> Option<Vec<Hop>> {
        let mut came: HashMap<NodeId, Hop> = HashMap::new();
        let mut open = VecDeque::from([from]);
        'search: while let Some(at) = open.pop_front() {
            if at == to {
                break;
            }
            for &(link, next) in self.links_of(at) {
                if self.link(link).kind == LinkKind::Smp && next != from && !came.contains_key(&next) {
                    came.insert(next, Hop { from: at, link, to: next });
                    open.push_back(next);
                    // most packages are neighbours
                    if next == to {
                        break 'search;
                    }
                }
            }
        }
        let mut hops = Vec::new();
        let mut at = to;
        while at != from {
            let hop = came.get(&at)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::{FabricBuilder, FabricError, GpuLink, Link, Node, PcieWidth};

    /// Two sockets; two cascaded switches and a lone GPU on the first, NVLink to the CPU on the second.
    fn two_sockets() -> Fabric {
        let mut b = FabricBuilder::new();
        let pcie = || LinkKind::pcie(PcieWidth::default());
        let mut add = |name: &str, kind| b.node(Node::new(name, kind));
        let (cpu0, cpu1) = (add("cpu0", NodeKind::Cpu), add("cpu1", NodeKind::Cpu));
        let (rc0, rc1, rc2) =
            (add("rc0", NodeKind::RootComplex), add("rc1", NodeKind::RootComplex), add("rc2", NodeKind::RootComplex));
        let (host0, host1) = (add("host0", NodeKind::Host), add("host1", NodeKind::Host));
        let (top, low) = (add("top", NodeKind::Switch), add("low", NodeKind::Switch));
        let gpus: Vec<_> = (0..5).map(|i| add(&format!("GPU{i}"), NodeKind::Gpu)).collect();
        for (x, y, kind) in [
            (cpu0, rc0, LinkKind::OnDie),
            (cpu0, rc1, LinkKind::OnDie),
            (cpu1, rc2, LinkKind::OnDie),
            (cpu0, host0, LinkKind::OnDie),
            (cpu1, host1, LinkKind::OnDie),
            (cpu0, cpu1, LinkKind::Smp),
            (rc0, top, pcie()),
            (top, gpus[0], pcie()),
            (top, low, pcie()),
            (low, gpus[1], pcie()),
            (rc0, gpus[2], pcie()),
            (rc1, gpus[3], pcie()),
            (rc2, gpus[4], pcie()),
            (cpu1, gpus[4], LinkKind::Gpu(GpuLink::nvlink(Some(1), 2))),
        ] {
            b.link(Link::new(x, y, kind));
        }
        b.build().unwrap()
    }

    fn class(f: &Fabric, a: &str, b: &str) -> Option<PathClass> {
        f.class(f.find(a).unwrap(), f.find(b).unwrap())
    }

    #[test]
    fn classes_as_the_vendor_defines_them() {
        let f = two_sockets();
        for (a, b, expected) in [
            ("GPU0", "GPU0", PathClass::Same),
            ("GPU0", "GPU1", PathClass::Pxb),
            ("GPU0", "GPU2", PathClass::Phb),
            ("GPU0", "GPU3", PathClass::Node),
            ("GPU1", "GPU4", PathClass::Sys),
            ("GPU1", "host0", PathClass::Phb),
            ("GPU1", "host1", PathClass::Sys),
        ] {
            assert_eq!((class(&f, a, b), class(&f, b, a)), (Some(expected), Some(expected)), "{a} {b}");
        }
    }

    #[test]
    fn a_gpu_on_its_cpus_nvlink_takes_it_to_memory_and_pcie_to_peers() {
        let f = two_sockets();
        let id = |name| f.find(name).unwrap();
        let names = |p: Path| p.between().map(|n| f.node(n).name.clone()).collect::<Vec<_>>();
        assert_eq!(names(f.path(id("GPU4"), id("host1")).unwrap()), ["cpu1"]);
        assert_eq!(names(f.path(id("GPU4"), id("GPU3")).unwrap()), ["rc2", "cpu1", "cpu0", "rc1"]);
        assert_eq!(names(f.path(id("GPU1"), id("GPU2")).unwrap()), ["low", "top", "rc0"]);
    }

    #[test]
    fn a_link_straight_to_a_cpu_crosses_its_host_bridge() {
        let mut b = FabricBuilder::new();
        let switch = b.node(Node::new("switch0", NodeKind::Switch));
        let cpu = b.node(Node::new("cpu0", NodeKind::Cpu));
        let host = b.node(Node::new("host0", NodeKind::Host));
        let gpus = [0, 1].map(|i| b.node(Node::new(format!("GPU{i}"), NodeKind::Gpu)));
        b.link(Link::new(cpu, host, LinkKind::OnDie));
        for (above, below) in [(cpu, switch), (switch, gpus[0]), (cpu, gpus[1])] {
            b.link(Link::new(above, below, LinkKind::pcie(PcieWidth::default())));
        }
        let f = b.build().unwrap();
        assert_eq!(f.tree_top(switch), cpu);
        assert_eq!(class(&f, "GPU0", "GPU1"), Some(PathClass::Phb));
        assert_eq!(class(&f, "GPU0", "host0"), Some(PathClass::Phb));
    }

    #[test]
    fn packages_in_a_ring_take_the_shorter_way() {
        let mut b = FabricBuilder::new();
        let cpus: Vec<_> = (0..5).map(|i| b.node(Node::new(format!("cpu{i}"), NodeKind::Cpu))).collect();
        for i in 0..5 {
            b.link(Link::new(cpus[i], cpus[(i + 1) % 5], LinkKind::Smp));
        }
        let lone = b.node(Node::new("lone", NodeKind::Cpu));
        let f = b.build().unwrap();
        let between = |to| f.tree_path(cpus[0], to).map(|p| p.between().collect::<Vec<_>>());
        assert_eq!(between(cpus[1]), Some(vec![]));
        assert_eq!(between(cpus[2]), Some(vec![cpus[1]]));
        assert_eq!(between(cpus[3]), Some(vec![cpus[4]]));
        assert_eq!(between(lone), None);
    }

    #[test]
    fn each_hop_starts_where_the_last_ended() {
        let f = two_sockets();
        for a in f.ids() {
            for b in f.ids() {
                let Some(path) = f.path(a, b) else { continue };
                let mut at = a;
                for hop in &path.hops {
                    assert_eq!((hop.from, f.link(hop.link).other(at)), (at, hop.to));
                    at = hop.to;
                }
                assert_eq!(at, b);
            }
        }
    }

    #[test]
    fn a_device_below_two_ports_is_refused() {
        let mut b = two_sockets().into_builder();
        let (gpu, rc) = (b.find("GPU3").unwrap(), b.find("rc2").unwrap());
        b.link(Link::new(rc, gpu, LinkKind::pcie(PcieWidth::default())));
        let refused = b.build().unwrap_err();
        assert_eq!(refused, FabricError::TwoParents("GPU3".into(), "rc1".into(), "rc2".into()));
    }
}
