use super::*;
use crate::cluster::{Cluster, read_cluster};
use crate::simulated_cluster::{SimulatedCluster, with_latencies_of_adapters};
use peerlane_measure::nodes::{Method, Network, NodePlan, Wanted, execute};
use peerlane_read::catalogue;

/// A cluster of nodes with one NIC each.
fn cluster(text: &str) -> Cluster {
    let node = |name: &str| catalogue::system(name).and_then(Result::ok);
    with_latencies_of_adapters(read_cluster(text, "test", node).unwrap())
}

/// Leaf switches with so many nodes each, at 40 Gb/s, below one spine; the link of each carries what its nodes do by `factor`. Nodes are
/// dealt to the leaves in turn where they are `mixed`.
fn leaves(count: usize, of: usize, factor: f64, mixed: bool) -> Cluster {
    let line = 40.0;
    let mut text = format!(
        "name = \"test\"\nnode = \"k20-cx3-snb\"\nnodes = {}\n[network]\nshape = \"links\"\nhop_latency_us = 0.2\n",
        count * of
    );
    for node in 0..count * of {
        let leaf = if mixed { node % count } else { node / of };
        text += &format!("[[links]]\nbetween = [\"node{node}\", \"leaf{leaf}\"]\nrate = 40.0\n");
    }
    for leaf in 0..count {
        let rate = line * of as f64 / factor;
        text += &format!("[[links]]\nbetween = [\"leaf{leaf}\", \"spine\"]\nrate = {rate}\n");
    }
    cluster(&text)
}

/// What a record of real nodes would show: nothing of it says how the network is.
fn inferred(cluster: &Cluster, uplinks: bool, all_pairs: bool) -> NodesInference {
    with_faults(cluster, uplinks, all_pairs, "")
}

fn with_faults(cluster: &Cluster, uplinks: bool, all_pairs: bool, faults: &str) -> NodesInference {
    let faults = faults.split_whitespace().map(|fault| fault.parse().unwrap()).collect();
    let mut network = SimulatedCluster::new(cluster, faults, 5).unwrap();
    let wanted = Wanted { transports: vec![Transport::Verbs], uplinks, all_pairs, ..Wanted::default() };
    let plan = NodePlan::of(network.nodes(), &wanted, Method::default()).unwrap();
    let mut run = NodesRun::new("test", "nodes", network.nodes().to_vec(), plan.clone());
    execute(&mut network, &plan, Vec::new(), &mut |event| {
        run.apply(event);
        true
    });
    run.nodes.iter_mut().flat_map(|node| &mut node.nics).for_each(|nic| nic.rate = None);
    infer_nodes(&run)
}

fn rail(found: &NodesInference) -> &RailInference {
    let [only] = &found.rails[..] else { panic!("{found:#?}") };
    only
}

#[test]
fn leaf_switches_and_oversubscribed_uplinks_are_found() {
    for (count, of) in [(2, 4), (4, 4), (4, 8), (3, 16), (6, 10)] {
        for factor in [1.5, 2.0, 3.0, 4.0] {
            let found = inferred(&leaves(count, of, factor, false), true, false);
            let rail = rail(&found);
            let groups: Vec<Vec<String>> = rail.groups.iter().map(|group| group.nodes.clone()).collect();
            let expected: Vec<Vec<String>> =
                (0..count).map(|leaf| (0..of).map(|node| format!("node{}", leaf * of + node)).collect()).collect();
            assert_eq!(groups, expected, "{count} × {of}");
            let times = rail.oversubscription().unwrap_or(0.0);
            assert!((times / factor - 1.0).abs() < 0.05, "{count} × {of}, {factor}: {times}; {rail:#?}");
            for link in rail.groups.iter().flat_map(|group| [&group.out, &group.into]) {
                let link = link.as_ref().unwrap();
                assert!(link.is_full() && link.slowed >= FEW && link.low <= link.capacity, "{factor}: {link:?}");
            }
            assert!(rail.undetermined.is_empty(), "{:?}", rail.undetermined);
        }
    }
}

/// Slowed pairs that a full link has at least.
const FEW: usize = 4;

#[test]
fn nothing_is_claimed_where_nothing_is_oversubscribed() {
    let flat =
        "name = \"test\"\nnode = \"k20-cx3-snb\"\nnodes = 24\n[network]\nshape = \"switch\"\nhop_latency_us = 0.2\n";
    let tree = |shape: &str, nodes: u32| {
        format!(
            "name = \"test\"\nnode = \"k20-cx3-snb\"\nnodes = {nodes}\n[network]\nshape = \"{shape}\"\nhop_latency_us = 0.2\n"
        )
    };
    // the fourth has nodes that no pair of the plan finds at one switch
    let all = [
        cluster(flat),
        leaves(4, 8, 1.0, false),
        leaves(4, 8, 0.5, false),
        leaves(3, 5, 1.0, true),
        cluster(&tree("fat-tree:2:1", 96)),
        cluster(&tree("torus:4x4x2", 32)),
    ];
    for (at, cluster) in all.iter().enumerate() {
        for uplinks in [false, true] {
            let found = inferred(cluster, uplinks, false);
            let rail = rail(&found);
            assert_eq!(rail.oversubscription(), None, "{at}: {rail:#?}");
            let full = rail.groups.iter().flat_map(|g| [&g.out, &g.into]).flatten().filter(|link| link.is_full());
            assert_eq!(full.count(), 0, "{at}: {rail:#?}");
            assert_eq!(rail.groups.is_empty(), [0, 3, 5].contains(&at), "{at}: {rail:#?}");
            assert!(!rail.groups.is_empty() || !rail.undetermined.is_empty(), "{at}: {rail:#?}");
        }
    }
}

#[test]
fn fat_trees_with_fixed_routes_have_the_factor_of_their_ports() {
    // of 64 ports 42 go down and 21 up, and 48 and 12
    for (shape, nodes, leaf, factor) in [("fat-tree:2:2", 126, 42, 2.0), ("fat-tree:2:4", 96, 48, 4.0)] {
        let text = format!(
            "name = \"test\"\nnode = \"k20-cx3-snb\"\nnodes = {nodes}\n[network]\nshape = \"{shape}\"\nhop_latency_us = 0.2\n"
        );
        let found = inferred(&cluster(&text), true, false);
        let rail = rail(&found);
        let sizes: Vec<usize> = rail.groups.iter().map(|group| group.nodes.len()).collect();
        assert_eq!(sizes, vec![leaf; nodes / leaf], "{shape}");
        let times = rail.oversubscription().unwrap_or(0.0);
        // routes that are fixed do not fill all links alike
        assert!((times / factor - 1.0).abs() < 0.15, "{shape}: {times}, not {factor}");
    }
}

#[test]
fn one_leaf_with_fewer_uplinks_is_told_from_the_others() {
    let mut text = String::from(
        "name = \"test\"\nnode = \"k20-cx3-snb\"\nnodes = 32\n[network]\nshape = \"links\"\nhop_latency_us = 0.2\n",
    );
    (0..32).for_each(|node| {
        text += &format!("[[links]]\nbetween = [\"node{node}\", \"leaf{}\"]\nrate = 40.0\n", node / 8)
    });
    for leaf in 0..4 {
        let rate = if leaf == 2 { 40.0 * 8.0 / 3.0 } else { 40.0 * 8.0 };
        text += &format!("[[links]]\nbetween = [\"leaf{leaf}\", \"spine\"]\nrate = {rate}\n");
    }
    let found = inferred(&cluster(&text), true, false);
    let full: Vec<(usize, f64)> = rail(&found)
        .groups
        .iter()
        .enumerate()
        .filter_map(|(at, group)| group.out.as_ref().filter(|link| link.is_full()).map(|link| (at, link.times)))
        .collect();
    assert!(full.len() == 1 && full[0].0 == 2 && (full[0].1 / 3.0 - 1.0).abs() < 0.05, "{full:?}");
}

#[test]
fn the_default_plan_shows_leaves_and_what_it_cannot_tell() {
    for (count, of, factor) in [(4, 8, 2.0), (4, 8, 4.0), (3, 16, 3.0)] {
        let found = inferred(&leaves(count, of, factor, false), false, false);
        let times = rail(&found).oversubscription().unwrap_or(0.0);
        assert!((times / factor - 1.0).abs() < 0.05, "{count} × {of}, {factor}: {found:#?}");
    }
    // four NICs of a node at one leaf: one rail at a time fills nothing, all at once do
    let mut text = String::from(
        "name = \"test\"\nnode = \"hpcac-tessa\"\nnodes = 16\n[network]\nshape = \"links\"\nhop_latency_us = 0.2\n",
    );
    for (node, nic) in (0..16).flat_map(|node| (0..4).map(move |nic| (node, nic))) {
        text += &format!("[[links]]\nbetween = [\"node{node}/mlx5_{nic}\", \"leaf{}\"]\nrate = 40.0\n", node / 4);
    }
    (0..4).for_each(|leaf| text += &format!("[[links]]\nbetween = [\"leaf{leaf}\", \"spine\"]\nrate = 320.0\n"));
    for uplinks in [false, true] {
        let found = inferred(&cluster(&text), uplinks, false);
        assert_eq!(found.rails.len(), 4);
        for rail in &found.rails {
            let times = rail.oversubscription();
            let open = rail.undetermined.iter().any(|open| open.would_tell.contains("--uplinks"));
            assert_eq!((rail.groups.len(), times.is_some(), open), (4, uplinks, !uplinks), "{rail:#?}");
            assert!(times.is_none_or(|times| (times / 2.0 - 1.0).abs() < 0.05), "{times:?}");
        }
    }
    // nodes dealt to the leaves in turn: neighbours are far, and all is found
    for all_pairs in [false, true] {
        let found = inferred(&leaves(4, 8, 2.0, true), true, all_pairs);
        let rail = rail(&found);
        let first = &rail.groups[0].nodes;
        assert_eq!((rail.groups.len(), first[1].as_str()), (4, "node4"), "{all_pairs}: {rail:#?}");
        assert!((rail.oversubscription().unwrap_or(0.0) / 2.0 - 1.0).abs() < 0.05, "{all_pairs}: {rail:#?}");
    }
}

#[test]
fn slow_nodes_and_paths_are_no_uplinks() {
    let faults = "slow-node:node3:0.5 slow-path:node9-node11:0.4 slow-cable:node17/mlx4_0:0.7 one-way:node20:0.6 lost-node:node30:9";
    for (factor, expected) in [(1.0, None), (2.0, Some(2.0))] {
        for uplinks in [false, true] {
            let found = with_faults(&leaves(4, 8, factor, false), uplinks, false, faults);
            let rail = rail(&found);
            assert_eq!(rail.groups.len(), 4, "{factor}: {rail:#?}");
            let close = |times: f64| expected.is_some_and(|expected: f64| (times / expected - 1.0).abs() < 0.1);
            let times = rail.oversubscription();
            assert!(times.map_or(expected.is_none(), close), "{factor}, {uplinks}: {times:?}; {rail:#?}");
        }
    }
}
