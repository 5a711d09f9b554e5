//! Records between nodes as a fleet: simulated clusters, measured day by day, with planted faults; the judge knows a cluster only
//! as a real one, by what was measured.

use peerlane::action::Action;
use peerlane::check::Settings;
use peerlane::cluster::{Cluster, read_cluster};
use peerlane::fleet::{Dictionary, Fleet, Node, Records, compare, judge};
use peerlane::nodes::{Method, Network, NodePlan, NodesRun, Transport, Wanted, execute};
use peerlane::simulated_cluster::{ClusterFault, SimulatedCluster, with_latencies_of_adapters};
use peerlane::subject::join;
use peerlane::{catalogue, nodes};

use crate::fleet::make::Maker;

/// Nodes with four NICs each, every one at a leaf switch of its own.
fn cluster(nodes: u32) -> Cluster {
    shaped("hpcac-tessa", nodes, "rail")
}

fn shaped(node: &str, nodes: u32, shape: &str) -> Cluster {
    let text = format!(
        "name = \"rails\"\nnode = \"{node}\"\nnodes = {nodes}\n[network]\nshape = \"{shape}\"\nhop_latency_us = 0.2\n"
    );
    let node = |name: &str| catalogue::system(name).and_then(Result::ok);
    with_latencies_of_adapters(read_cluster(&text, "rails", node).unwrap())
}

/// The record of a day, as real nodes would leave it: nothing of it says how the network is.
fn measured(cluster: &Cluster, faults: &str, day: u64, name: &str) -> NodesRun {
    let faults: Vec<ClusterFault> = faults.split_whitespace().map(|fault| fault.parse().unwrap()).collect();
    let mut network = SimulatedCluster::new(cluster, faults, 100 + day).unwrap();
    let wanted = Wanted { transports: vec![Transport::Verbs], ..Wanted::default() };
    let plan = NodePlan::of(network.nodes(), &wanted, Method::default()).unwrap();
    let mut run = NodesRun::new(name, "nodes", network.nodes().to_vec(), plan.clone());
    execute(&mut network, &plan, Vec::new(), &mut |event| {
        run.apply(event);
        true
    });
    run.began = 1_795_000_000 + 86_400 * day;
    // a port's rate would be an expectation
    run.nodes.iter_mut().flat_map(|node| &mut node.nics).for_each(|nic| nic.rate = None);
    run
}

fn read(run: &NodesRun, file: &str, dictionary: &Dictionary) -> Vec<Node> {
    Node::between(run, file, dictionary).unwrap()
}

/// The fleet of a record a day, each with its faults.
fn days(nodes: u32, faults: &[&str]) -> Fleet {
    of_days(&cluster(nodes), faults)
}

fn of_days(cluster: &Cluster, faults: &[&str]) -> Fleet {
    let dictionary = Dictionary::default();
    let day = |(day, faults): (usize, &&str)| {
        read(&measured(cluster, faults, day as u64, "node0 and more"), &format!("day{day}.json"), &dictionary)
    };
    let all: Vec<Node> = faults.iter().enumerate().flat_map(day).collect();
    compare(&all, &dictionary, &Settings::default())
}

/// Machine, parts, rule, action, records.
fn found(fleet: &Fleet) -> Vec<(String, String, String, Action, usize)> {
    let of = |o: &peerlane::fleet::Outlier| {
        (o.machine.clone(), join(&o.finding.subjects, " "), o.finding.rule.clone(), o.action, o.repeats)
    };
    let mut all: Vec<_> = fleet.outliers.iter().map(of).collect();
    all.sort();
    all
}

fn of_network(fleet: &Fleet) -> Vec<(String, String, usize)> {
    fleet.network.iter().map(|o| (join(&o.finding.subjects, " "), o.finding.rule.clone(), o.repeats)).collect()
}

#[test]
fn healthy_clusters_accuse_nobody_for_days() {
    for nodes in [4, 16, 40] {
        let fleet = days(nodes, &[""; 5]);
        assert_eq!((fleet.records, fleet.machines.len(), fleet.kinds.len()), (5, nodes as usize, 1));
        assert_eq!(
            (found(&fleet), of_network(&fleet)),
            (Vec::new(), Vec::new()),
            "{nodes} nodes: {:#?}",
            fleet.outliers
        );
        assert!(fleet.machines.iter().all(|machine| machine.records == 5 && machine.action.is_none()));
        assert!(fleet.kinds[0].compared && !fleet.tests.is_empty());
    }
}

#[test]
fn nobody_is_accused_for_being_at_the_edge_of_a_leaf_switch_or_behind_full_uplinks() {
    for (nodes, shape) in [(130, "fat-tree:2"), (110, "fat-tree:2:4"), (90, "fat-tree:2:2"), (48, "torus:4x4x3")] {
        let fleet = of_days(&shaped("k20-cx3-snb", nodes, shape), &["", ""]);
        let few = |o: &&peerlane::fleet::Outlier| o.action != Action::Monitor || o.finding.rule != "late-between-nodes";
        assert_eq!(fleet.outliers.iter().filter(few).count(), 0, "{shape}: {:#?}", fleet.outliers);
        assert!(fleet.outliers.len() < 3, "{shape}: {:#?}", fleet.outliers);
        assert_eq!(of_network(&fleet), [], "{shape}");
    }
}

#[test]
fn planted_faults_of_several_days_are_found_with_the_right_part_and_paths_accuse_no_node() {
    let path = "slow-path:node4-node5:0.5";
    let cable = "slow-cable:node7/mlx5_2:0.7";
    let node = "slow-node:node11:0.6";
    let fleet = days(
        16,
        &[
            path,
            &format!("{path} {cable} lost-node:node14:20"),
            &format!("{path} {cable}"),
            &format!("{path} {cable} {node} slow-nic:node2/mlx5_0:0.4"),
            &format!("{path} {cable} {node} lost-node:node9:6"),
        ],
    );
    let row = |machine: &str, part: &str, rule: &str, action, repeats| {
        (machine.to_owned(), part.to_owned(), rule.to_owned(), action, repeats)
    };
    assert_eq!(
        found(&fleet),
        [
            row("node11", "node11", "slow-node", Action::Isolate, 2),
            row("node7", "mlx5_2", "slow-nic", Action::Isolate, 4),
            row("node9", "node9", "lost-node", Action::Isolate, 1),
        ],
        "{:#?}",
        fleet.outliers
    );
    assert_eq!(of_network(&fleet), [("node4-node5".to_owned(), "slow-between-nodes".to_owned(), 5)]);
    assert!(fleet.network.iter().all(|found| found.action == Action::Monitor));
    let cable = fleet.outliers.iter().find(|o| o.machine == "node7").unwrap();
    let figures = cable.worst.unwrap();
    let known = figures.peers > Some(figures.measured) && figures.before.is_some();
    assert!(known && cable.why.contains("peers"), "{cable:#?}");
}

#[test]
fn a_part_that_comes_and_goes_is_watched() {
    let nic = "slow-nic:node6/mlx5_1:0.5";
    let fleet = days(12, &["", nic, "", nic, ""]);
    assert_eq!(found(&fleet), [("node6".to_owned(), "mlx5_1".to_owned(), "slow-nic".to_owned(), Action::Monitor, 2)]);
    assert!(
        fleet.outliers[0].finding.summary.starts_with("in 2 of 5 records, but not in the last: "),
        "{:#?}",
        fleet.outliers
    );
}

#[test]
fn a_node_at_the_end_of_other_slow_paths_each_day_is_watched_and_its_partners_are_not() {
    let path = |a: u32, b: u32| format!("slow-path:node{a}-node{b}:0.6");
    let faults = [path(3, 4), path(3, 5), path(3, 7)];
    let fleet = days(12, &[&faults[0], &faults[1], &faults[2]]);
    let accused: Vec<(&str, Action)> = fleet.outliers.iter().map(|o| (o.machine.as_str(), o.action)).collect();
    assert_eq!(accused, [("node3", Action::Monitor)], "{:#?}", fleet.outliers);
    assert!(
        fleet.outliers[0].finding.summary.contains("slow paths in 3 records, with 3 others"),
        "{:#?}",
        fleet.outliers
    );
    // two may be chance
    let fleet = days(12, &[&faults[0], &faults[1], ""]);
    assert_eq!(found(&fleet), []);
}

/// The same with all rates between nodes at a share.
fn scaled(run: &NodesRun, share: f64) -> NodesRun {
    let mut run = run.clone();
    let across = |cell: &&mut nodes::Cell| cell.step.probe != nodes::Probe::Latency && !cell.step.is_loopback();
    for cell in run.cells.iter_mut().filter(across) {
        for value in cell.estimate.iter_mut().flat_map(|e| [&mut e.value, &mut e.low, &mut e.high]) {
            *value *= share;
        }
    }
    run
}

#[test]
fn what_all_nodes_of_a_record_have_is_their_networks_and_a_baseline_shows_drift_of_one() {
    let (cluster, dictionary, settings) = (cluster(16), Dictionary::default(), Settings::default());
    let day = |day: u64, faults: &str| measured(&cluster, faults, day, "node0 and 15 more");
    let before = read(&day(0, ""), "before.json", &dictionary);
    let all_slower = read(&scaled(&day(1, ""), 0.8), "after.json", &dictionary);
    let of = |nodes: &[Node], baseline: &[Node]| {
        judge(&Records { nodes, baseline, dictionary: &dictionary, settings: &settings, again: None }, Vec::new())
    };
    let fleet = of(&all_slower, &before);
    assert_eq!((fleet.records, found(&fleet)), (1, Vec::new()), "{:#?}", fleet.outliers);
    let [only] = &fleet.network[..] else { panic!("{:#?}", fleet.network) };
    assert_eq!((only.finding.rule.as_str(), only.machine.as_str()), ("worse-than-before", "node0 and 15 more"));
    assert!(
        only.finding.summary.starts_with("16 of 16 nodes are worse than in earlier records, by up to 2"),
        "{only:#?}"
    );
    // a NIC that lost what is within the noise of neither its peers nor its past
    let one = read(&day(1, "slow-nic:node5/mlx5_3:0.88"), "after.json", &dictionary);
    let fleet = of(&one, &before);
    let named: Vec<(&str, String)> =
        fleet.outliers.iter().map(|o| (o.machine.as_str(), join(&o.finding.subjects, " "))).collect();
    assert_eq!((named, fleet.network.len()), (vec![("node5", "mlx5_3".to_owned())], 0), "{:#?}", fleet.outliers);
    let figures = fleet.outliers[0].worst.unwrap();
    assert!(figures.before > Some(figures.measured), "{:#?}", fleet.outliers);
    // one of twelve partitions of the same kind has a slower network
    let four = self::cluster(4);
    let partition = |at: usize| {
        let mut run =
            scaled(&measured(&four, "", at as u64, &format!("p{at}-0 and 3 more")), if at == 7 { 0.75 } else { 1.0 });
        run.nodes.iter_mut().for_each(|node| node.host = node.host.replace("node", &format!("p{at}-")));
        read(&run, &format!("p{at}.json"), &dictionary)
    };
    let fleet = of(&(0..12).flat_map(partition).collect::<Vec<Node>>(), &[]);
    assert_eq!((fleet.machines.len(), found(&fleet)), (48, Vec::new()), "{:#?}", fleet.outliers);
    let [only] = &fleet.network[..] else { panic!("{:#?}", fleet.network) };
    assert_eq!((only.finding.rule.as_str(), only.machine.as_str()), ("outlier", "p7-0 and 3 more"));
}

#[test]
fn a_hosts_own_records_and_those_between_nodes_are_of_one_machine() {
    let (cluster, dictionary, settings) = (cluster(6), Dictionary::default(), Settings::default());
    let between = read(&measured(&cluster, "slow-cable:node3/mlx5_1:0.5", 1, "six"), "six.json", &dictionary);
    let maker = Maker::new("h200x4-vm").unwrap();
    let own = |n: usize| {
        let text = maker.run(&format!("node{n}"), n as u64, None);
        Node::read(&text, &format!("node{n}.json"), &dictionary).unwrap()
    };
    let mut nodes: Vec<Node> = (0..8).map(own).collect();
    nodes.extend(between.clone());
    // a copy of a record counts once
    nodes.extend(read(&measured(&cluster, "slow-cable:node3/mlx5_1:0.5", 1, "six"), "copy.json", &dictionary));
    let fleet = judge(
        &Records { nodes: &nodes, baseline: &[], dictionary: &dictionary, settings: &settings, again: None },
        Vec::new(),
    );
    assert_eq!((fleet.records, fleet.machines.len(), fleet.kinds.len()), (9, 8, 1), "{:#?}", fleet.kinds);
    let counts: Vec<usize> = fleet.machines.iter().map(|machine| machine.records).collect();
    assert_eq!(counts, [2, 2, 2, 2, 2, 2, 1, 1]);
    let named: Vec<(&str, String)> =
        fleet.outliers.iter().map(|o| (o.machine.as_str(), join(&o.finding.subjects, " "))).collect();
    assert_eq!(named, [("node3", "mlx5_1".to_owned())]);
    assert!(fleet.notes.iter().any(|note| note.starts_with("1 records are copies")), "{:?}", fleet.notes);
    // both kinds of numbers are in the heat map
    let scores = &fleet.machines[3].scores;
    assert!(scores.iter().all(Option::is_some) && scores.iter().flatten().any(|score| *score < 0.6), "{scores:?}");
    // nodes without records of their own are of a kind of their own
    let alone = compare(&between, &dictionary, &settings);
    assert_eq!((alone.machines.len(), alone.kinds.len()), (6, 1));
    // another machine of the name is not merged in silence
    let mut stranger = measured(&cluster, "", 2, "strangers");
    stranger
        .nodes
        .iter_mut()
        .flat_map(|node| &mut node.nics)
        .for_each(|nic| nic.name = nic.name.replace("mlx5", "bnxt"));
    let fleet = compare(&[between, read(&stranger, "s.json", &dictionary)].concat(), &dictionary, &settings);
    assert_eq!(fleet.machines.len(), 12);
    assert!(fleet.notes.iter().any(|note| note.contains("other NICs or GPUs")), "{:?}", fleet.notes);
}

#[test]
fn a_node_that_lost_a_nic_is_named_and_stays_with_its_kind() {
    let (cluster, dictionary) = (cluster(12), Dictionary::default());
    let mut run = measured(&cluster, "", 1, "twelve");
    let lost = run.nodes[4].nics.remove(2);
    run.cells.retain(|cell| {
        [&cell.step.from, &cell.step.to].iter().all(|end| end.node != 4 || end.nic != Some(lost.name.clone()))
    });
    let fleet = compare(&read(&run, "run.json", &dictionary), &dictionary, &Settings::default());
    let named: Vec<(&str, &str, Action)> =
        fleet.outliers.iter().map(|o| (o.machine.as_str(), o.finding.rule.as_str(), o.action)).collect();
    assert_eq!((fleet.kinds.len(), named), (1, vec![("node4", "outlier", Action::Isolate)]), "{:#?}", fleet.outliers);
    let summary = &fleet.outliers[0].finding.summary;
    assert!(summary.contains("3 NICs") && summary.ends_with(": mlx5_2 is missing"), "{summary}");
}
