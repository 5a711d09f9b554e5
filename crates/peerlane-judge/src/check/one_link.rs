//! Which link explains that rates over it are low: none that crosses it is higher than it would let through.

use std::collections::HashMap;

use peerlane_machine::fabric::{LinkId, NodeId};

/// A sound rate this many times the highest low one shows that the link lets more through.
const REFUTES: f64 = 1.15;

/// Low rates that a link must explain at least.
const FEWEST: usize = 2;

/// Links named at most; what they leave is unexplained.
const MOST: usize = 16;

/// A number with the links that its data crosses.
#[derive(Clone)]
pub(super) struct Crossing {
    /// The links, each with the node that it is entered from.
    pub(super) links: Vec<(LinkId, NodeId)>,
    /// Whether data also goes in the other direction.
    pub(super) both_ways: bool,
    /// Rate of one direction.
    pub(super) rate: f64,
    /// Whether it is too low.
    pub(super) low: bool,
}

/// A link, and the node that it is entered from where only that direction is low.
type Key = (LinkId, Option<NodeId>);

/// What is known of a link.
#[derive(Default)]
struct Seen {
    /// Low rates over it, as positions.
    low: Vec<usize>,
    /// The highest of them.
    most: f64,
    /// The highest sound rate over it.
    sound: f64,
    /// Rates over it.
    all: usize,
}

/// A link that explains low rates.
#[derive(Debug, PartialEq)]
pub(super) struct Explained {
    /// The link.
    pub(super) link: LinkId,
    /// Where it is entered from, if only that direction is low.
    pub(super) from: Option<NodeId>,
    /// Positions of what it explains.
    pub(super) low: Vec<usize>,
}

/// Links that explain low rates, that with the most first; and the positions of low rates that none explains. Of links
/// that only the same rates cross, the one of a device is named.
pub(super) fn explain(crossings: &[Crossing], of_device: impl Fn(LinkId) -> bool) -> (Vec<Explained>, Vec<usize>) {
    let mut left: Vec<usize> = crossings.iter().enumerate().filter(|(_, c)| c.low).map(|(at, _)| at).collect();
    let mut explained = Vec::new();
    while explained.len() < MOST {
        let seen = look(crossings, &left);
        let holds = |s: &Seen| s.low.len() >= FEWEST && s.sound <= REFUTES * s.most;
        // the most explained; of alike ones the one with the fewest others, so that the link of a GPU is named before one
        // above it; then one direction before both
        let best = seen.iter().filter(|(_, s)| holds(s)).max_by_key(|((link, from), s)| {
            let fewest = std::cmp::Reverse(s.all);
            (s.low.len(), fewest, of_device(*link), from.is_some(), std::cmp::Reverse((*link, *from)))
        });
        let Some(((link, from), found)) = best else { break };
        left.retain(|at| !found.low.contains(at));
        explained.push(Explained { link: *link, from: *from, low: found.low.clone() });
    }
    (explained, left)
}

fn look(crossings: &[Crossing], left: &[usize]) -> HashMap<Key, Seen> {
    let mut seen: HashMap<Key, Seen> = HashMap::new();
    for (at, crossing) in crossings.iter().enumerate() {
        let open = left.contains(&at);
        // what another link explains says nothing about this one
        if crossing.low && !open {
            continue;
        }
        for &(link, from) in &crossing.links {
            let mut keys = vec![(link, None), (link, Some(from))];
            if crossing.both_ways {
                keys.truncate(1);
            }
            for key in keys {
                let known = seen.entry(key).or_default();
                known.all += 1;
                if open {
                    known.low.push(at);
                    known.most = known.most.max(crossing.rate);
                } else {
                    known.sound = known.sound.max(crossing.rate);
                }
            }
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::super::testing::{boxes, captured};
    use super::*;
    use peerlane_machine::fabric::Fabric;

    /// All ordered pairs of two GPUs below each of two switches, and all with host memory; `slow` is at 3.
    fn crossings(fabric: &Fabric, slow: &dyn Fn(NodeId, NodeId) -> bool) -> Vec<Crossing> {
        let mut nodes: Vec<NodeId> = ["GPU0", "GPU1", "GPU2", "GPU3"].iter().map(|n| fabric.find(n).unwrap()).collect();
        nodes.extend(["host0", "host1"].iter().map(|n| fabric.find(n).unwrap()));
        let mut all = Vec::new();
        for &a in &nodes {
            for &b in &nodes {
                let Some(path) = fabric.path(a, b).filter(|_| a != b) else { continue };
                let limited = |l: LinkId| !matches!(fabric.link(l).kind, peerlane_machine::fabric::LinkKind::OnDie);
                let crossed = path.hops.iter().filter(|h| limited(h.link)).map(|h| (h.link, h.from));
                let crossed: Vec<(LinkId, NodeId)> = crossed.collect();
                let low = path.hops.iter().any(|hop| slow(hop.from, hop.to));
                all.push(Crossing { links: crossed, both_ways: false, rate: if low { 3.0 } else { 12.0 }, low });
            }
        }
        all
    }

    fn blamed(slow: &dyn Fn(&str, &str) -> bool) -> (Vec<(String, String, bool)>, usize) {
        let machine = captured(boxes(&[2, 2], true));
        let fabric = &machine.fabric;
        let name = |id: NodeId| fabric.node(id).name.as_str();
        let (explained, left) = explain(&crossings(fabric, &|a, b| slow(name(a), name(b))), |_| false);
        let ends = |e: &Explained| {
            let link = fabric.link(e.link);
            (name(link.a).to_owned(), name(link.b).to_owned(), e.from.is_some())
        };
        (explained.iter().map(ends).collect(), left.len())
    }

    #[test]
    fn host_copies_distinguish_the_two_uplinks() {
        let (links, left) = blamed(&|a, b| [a, b].contains(&"switch0") && [a, b].contains(&"rc0"));
        assert_eq!((links, left), (vec![("rc0".to_owned(), "switch0".to_owned(), false)], 0));
    }

    #[test]
    fn the_link_of_a_gpu_and_one_direction_of_it() {
        let (links, left) = blamed(&|a, b| [a, b].contains(&"GPU2"));
        assert_eq!((links, left), (vec![("switch1".to_owned(), "GPU2".to_owned(), false)], 0));
        let (links, left) = blamed(&|a, b| (a, b) == ("GPU2", "switch1"));
        assert_eq!((links, left), (vec![("switch1".to_owned(), "GPU2".to_owned(), true)], 0));
    }

    #[test]
    fn of_links_in_a_row_the_one_of_the_gpu_is_named() {
        let machine = captured(boxes(&[1, 2], true));
        let fabric = &machine.fabric;
        let gpu = fabric.find("GPU0").unwrap();
        let switch = fabric.find("switch0").unwrap();
        let links: Vec<(LinkId, NodeId)> =
            [fabric.upstream(gpu).unwrap(), fabric.upstream(switch).unwrap()].map(|(link, up)| (link, up)).to_vec();
        let one = Crossing { links, both_ways: true, rate: 3.0, low: true };
        let (explained, _) = explain(&[one.clone(), one], |link| link == fabric.upstream(gpu).unwrap().0);
        assert_eq!(explained[0].link, fabric.upstream(gpu).unwrap().0);
    }

    #[test]
    fn a_slow_pair_is_no_link() {
        let machine = captured(boxes(&[2, 2], true));
        let fabric = &machine.fabric;
        let mut all = crossings(fabric, &|_, _| false);
        for crossing in &mut all {
            let ends = [crossing.links.first().unwrap().1, crossing.links.last().unwrap().1];
            if ends[0] == fabric.find("GPU0").unwrap() && ends[1] == fabric.find("switch1").unwrap() {
                (crossing.low, crossing.rate) = (true, 3.0);
            }
        }
        let low = all.iter().filter(|c| c.low).count();
        let (explained, left) = explain(&all, |_| false);
        assert_eq!((explained, left.len(), low), (vec![], 2, 2));
    }
}
