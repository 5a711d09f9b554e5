//! A cluster's switches for Slurm, which places jobs below as few of them as it can.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::cluster::network::{Network, Port, Shape};
use crate::cluster::{Cluster, ClusterError};

/// `topology.conf` for `topology/tree`: each switch with its nodes, or with the switches below it.
///
/// Where each NIC of a node has a leaf switch of its own (rails), the leaves of the same nodes are one switch: for Slurm a
/// node is at one.
///
/// # Errors
/// Where the network is no tree.
pub fn slurm_topology(cluster: &Cluster) -> Result<String, ClusterError> {
    let none = || ClusterError::Network("one machine has none; add --nodes and --network".to_owned());
    let network = cluster.network.as_ref().ok_or_else(none)?;
    let leaves: BTreeMap<u64, Vec<u64>> = match &network.shape {
        Shape::FatTree(tree) => {
            group((0..network.nodes).map(|node| (tree.leaf(network.nics, Port { node, nic: 0 }), node.into())))
        }
        Shape::Switch => BTreeMap::from([(0, (0..network.nodes.into()).collect())]),
        Shape::Torus(_) | Shape::Dragonfly(_) | Shape::Explicit(_) => {
            let why = format!(
                "{} is no tree of switches, which is all that Slurm's topology/tree can hold; leave topology.conf out",
                network.words()
            );
            return Err(ClusterError::Network(why));
        }
    };
    let mut out = String::new();
    let _ = head(&mut out, network);
    let (mut prefix, mut below) =
        ("leaf".to_owned(), named(&mut out, "leaf", leaves, |list| format!("Nodes=node{list}")));
    if let Shape::FatTree(tree) = &network.shape {
        for (level, children) in tree.down.iter().enumerate().skip(1) {
            // the top holds all, also where a leaf of it has places without nodes
            let top = level + 1 == tree.down.len();
            let above = group(below.iter().map(|(switch, place)| (if top { 0 } else { switch / children }, *place)));
            if below.len() < 2 {
                break;
            }
            // a digit at the end would run into the number
            let own = if top { "top".to_owned() } else { format!("middle{}", "-above".repeat(level - 1)) };
            below = named(&mut out, &own, above, |list| format!("Switches={prefix}{list}"));
            prefix = own;
        }
    }
    Ok(out)
}

fn head(out: &mut String, network: &Network) -> std::fmt::Result {
    writeln!(
        out,
        "# topology.conf, for TopologyPlugin=topology/tree in slurm.conf: {} nodes in {}",
        network.nodes,
        network.words()
    )?;
    if matches!(&network.shape, Shape::FatTree(tree) if tree.rail) {
        writeln!(out, "# A leaf stands for the {} leaf switches, one a NIC, of the same nodes.", network.nics)?;
    }
    Ok(())
}

/// Members by their switch.
fn group(members: impl Iterator<Item = (u64, u64)>) -> BTreeMap<u64, Vec<u64>> {
    let mut groups: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    members.for_each(|(switch, member)| groups.entry(switch).or_default().push(member));
    groups
}

/// Writes switches, numbered from 0, and returns what numbers them in the tree with these numbers.
fn named(
    out: &mut String,
    prefix: &str,
    switches: BTreeMap<u64, Vec<u64>>,
    holds: impl Fn(String) -> String,
) -> Vec<(u64, u64)> {
    let mut all = Vec::new();
    for (at, (switch, members)) in (0..).zip(switches) {
        let _ = writeln!(out, "SwitchName={prefix}{at} {}", holds(ranges(&members.into_iter().collect())));
        all.push((switch, at));
    }
    all
}

/// `[0-3,8]`, or a number alone: the end of a list of hosts.
fn ranges(numbers: &BTreeSet<u64>) -> String {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => runs.push((*number, *number)),
        }
    }
    if let [(first, last)] = runs.as_slice()
        && first == last
    {
        return first.to_string();
    }
    let run = |(first, last): &(u64, u64)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    format!("[{}]", runs.iter().map(run).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Wanted;
    use peerlane_machine::units::Seconds;
    use peerlane_read::catalogue::system;

    fn text(shape: &str, nodes: u32) -> Result<String, String> {
        let node = system("hgx-h200").unwrap().unwrap();
        let wanted: Wanted = shape.parse().unwrap();
        let cluster = Cluster::of(node, nodes, &wanted, None, Seconds::from_us(0.3)).unwrap();
        slurm_topology(&cluster).map_err(|e| e.to_string())
    }

    #[test]
    fn every_node_is_at_one_switch_and_all_are_below_the_top() {
        for (shape, nodes) in [("rail:2", 100), ("fat-tree:3", 300), ("fat-tree", 7), ("switch", 4), ("rail:3", 70)] {
            let text = text(shape, nodes).unwrap();
            let mut found = Vec::new();
            let mut below: BTreeSet<String> = BTreeSet::new();
            let mut named: BTreeSet<String> = BTreeSet::new();
            for line in text.lines().filter(|line| !line.starts_with('#')) {
                let (name, holds) = line.strip_prefix("SwitchName=").unwrap().split_once(' ').unwrap();
                assert!(named.insert(name.to_owned()), "{text}");
                let (key, list) = holds.split_once('=').unwrap();
                let (prefix, numbers) = list.split_at(list.find(|c: char| c == '[' || c.is_ascii_digit()).unwrap());
                let numbers = numbers.trim_matches(['[', ']']).split(',').flat_map(|run| {
                    let (first, last) = run.split_once('-').unwrap_or((run, run));
                    first.parse::<u32>().unwrap()..=last.parse().unwrap()
                });
                match key {
                    "Nodes" => found.extend(numbers),
                    _ => below.extend(numbers.map(|n| format!("{prefix}{n}"))),
                }
            }
            found.sort_unstable();
            assert_eq!(found, (0..nodes).collect::<Vec<_>>(), "{text}");
            assert!(below.is_subset(&named) && named.difference(&below).count() == 1, "{text}");
        }
        assert!(text("torus:4x4x1", 16).unwrap_err().contains("is no tree of switches"));
    }
}
