use super::*;
use crate::cluster::embedded;
use peerlane_measure::nodes;
use peerlane_measure::nodes::{Cell, Compared, Direction, Event, NodePlan, Wanted, execute, suspects};

fn cluster() -> Cluster {
    with_latencies_of_adapters(embedded("hgx-h200-x32").unwrap().unwrap())
}

/// What one transport measures on the cluster with some faults.
fn by(transport: Transport, cluster: &Cluster, faults: &str) -> (Vec<Cell>, Vec<Lost>) {
    let faults = faults.split_whitespace().map(|fault| fault.parse().unwrap()).collect();
    let mut network = SimulatedCluster::new(cluster, faults, 1).unwrap();
    let plan = NodePlan::of(network.nodes(), &Wanted::default(), Method::default()).unwrap();
    assert_eq!(plan.transports, [Transport::Tcp, Transport::Verbs, Transport::Nccl]);
    let wanted = Wanted { transports: vec![transport], ..Wanted::default() };
    let plan = NodePlan::of(network.nodes(), &wanted, Method::default()).unwrap();
    let mut cells = Vec::new();
    let complete = execute(&mut network, &plan, Vec::new(), &mut |event| {
        if let Event::Cells(new) = event {
            cells.extend(new);
        }
        true
    });
    assert!(complete && network.now().seconds() <= plan.bound.seconds());
    (cells, network.lost)
}

fn measured(cluster: &Cluster, faults: &str) -> (Vec<Cell>, Vec<Lost>) {
    by(Transport::Verbs, cluster, faults)
}

fn by_nccl(cluster: &Cluster, faults: &str) -> Vec<Cell> {
    by(Transport::Nccl, cluster, faults).0
}

#[test]
fn nccl_between_nodes_is_what_the_model_of_collectives_predicts() {
    let cluster = cluster();
    let cells = by_nccl(&cluster, "");
    // no pair is a suspect; groups between two of the plan tell where the rate drops
    let is_narrowed = |cell: &Cell| cell.again && cell.step.probe == Probe::AllReduce;
    assert!(cells.iter().all(|cell| cell.value().is_some() && (!cell.again || is_narrowed(cell))));
    // one GPU of each node by one NIC of 400 Gbit/s; all eight by eight
    let pairs: Vec<f64> = cells.iter().filter(|c| c.step.probe == Probe::SendReceive).filter_map(Cell::value).collect();
    assert!(pairs.len() > 100 && pairs.iter().all(|rate| (30e9..50e9).contains(rate)), "{pairs:?}");
    let all: Vec<(usize, f64)> = cells
        .iter()
        .filter(|cell| cell.step.probe == Probe::AllReduce && !cell.again)
        .map(|cell| (cell.step.nodes().count(), cell.value().unwrap()))
        .collect();
    assert_eq!(all.iter().map(|(nodes, _)| *nodes).collect::<Vec<_>>(), [2, 4, 8, 16, 32]);
    assert!(all.iter().all(|(_, rate)| (100e9..500e9).contains(rate)), "{all:?}");
}

#[test]
fn nccl_shows_a_slow_node_and_the_all_reduces_with_it() {
    let cluster = cluster();
    let cells = by_nccl(&cluster, "slow-nic:node5/mlx5_2:0.5 slow-node:node9:0.5");
    let healthy = by_nccl(&cluster, "");
    let of =
        |cells: &[Cell], step: &Step| cells.iter().find(|c| c.step == *step && !c.again).and_then(Cell::value).unwrap();
    for cell in healthy.iter().filter(|cell| !cell.again) {
        let left = of(&cells, &cell.step) / cell.value().unwrap();
        // the NIC of another GPU matters only where all GPUs take part
        let slow = cell.step.nodes().any(|node| node == 9 || node == 5 && cell.step.is_among_many());
        assert!((left - if slow { 0.5 } else { 1.0 }).abs() < 0.05, "{:?} {left}", cell.step);
    }
    let parts: Vec<Compared> = cells.iter().filter(|c| !c.again).filter_map(|c| c.compared(None, Vec::new())).collect();
    let found: Vec<nodes::Place> = suspects(&parts, 32).into_iter().map(|suspect| suspect.place).collect();
    assert_eq!(found, [nodes::Place::Node(9)]);
    let corrupt = by_nccl(&cluster, "corrupt:node3");
    assert!(corrupt.iter().all(|c| c.value().is_none() == c.step.nodes().any(|node| node == 3)));
}

/// The parts that explain what is slower than predicted.
fn found(cluster: &Cluster, cells: &[Cell]) -> Vec<(nodes::Place, Direction)> {
    let mut predictor = Predictor::new(cluster);
    let rates: Vec<&Cell> = cells.iter().filter(|c| c.step.probe == Probe::Write).collect();
    let mut all: Vec<Compared> = Vec::new();
    for round in rates.chunk_by(|a, b| a.round == b.round) {
        let predicted = predictor.round(&round.iter().map(|cell| &cell.step).collect::<Vec<_>>());
        all.extend(round.iter().zip(predicted).filter_map(|(cell, predicted)| {
            let Expected { value, binding, .. } = predicted?;
            cell.compared(Some(value), binding.through)
        }));
    }
    suspects(&all, cluster.nodes as usize).into_iter().map(|s| (s.place, s.direction)).collect()
}

#[test]
fn a_healthy_cluster_delivers_what_is_predicted() {
    let cluster = cluster();
    let (cells, lost) = measured(&cluster, "");
    assert!(lost.is_empty() && cells.iter().all(|cell| cell.value().is_some()));
    let mut predictor = Predictor::new(&cluster);
    for cell in &cells {
        let value = predictor.round(&[&cell.step])[0].as_ref().unwrap().value;
        let ratio = cell.value().unwrap() / value;
        assert!((0.97..1.03).contains(&ratio), "{ratio} {cell:?}");
    }
    let rate = cells.iter().find(|c| c.step.probe == Probe::Write && !c.step.is_loopback()).unwrap().value().unwrap();
    assert!((45e9..50e9).contains(&rate), "{rate}");
    let latency = cells.iter().find(|c| c.step.probe == Probe::Latency).unwrap().value().unwrap();
    assert!((0.5e-6..4e-6).contains(&latency), "{latency}");
    assert_eq!(found(&cluster, &cells), []);
}

#[test]
fn planted_faults_are_found_where_they_are() {
    let cluster = cluster();
    let nic = |node| nodes::Place::Nic(node, "mlx5_3".to_owned());
    for (fault, place, direction) in [
        ("slow-node:node7:0.5", nodes::Place::Node(7), Direction::Both),
        ("slow-nic:node9/mlx5_3:0.9", nic(9), Direction::Both),
        ("slow-cable:node9/mlx5_3:0.9", nic(9), Direction::Both),
        ("one-way:node30/mlx5_3:0.4", nic(30), Direction::Out),
        ("slow-switch:leaf3:0.6", nodes::Place::Switch("leaf3".to_owned()), Direction::Both),
    ] {
        let (cells, _) = measured(&cluster, fault);
        assert_eq!(found(&cluster, &cells), [(place, direction)], "{fault}");
    }
}

#[test]
fn a_slow_path_is_no_slow_node() {
    let cluster = cluster();
    let (cells, _) = measured(&cluster, "slow-path:node4-node5:0.5");
    let cells: Vec<Cell> = cells.into_iter().filter(|cell| !cell.step.is_of_gpus()).collect();
    let found = found(&cluster, &cells);
    let on_path = |place: &nodes::Place| matches!(place, nodes::Place::Path(a, b) if a.node + b.node == 9);
    assert!(found.len() == 8 && found.iter().all(|(place, _)| on_path(place)), "{found:?}");
}

#[test]
fn lost_nodes_and_changed_data_cost_their_own_cells() {
    let cluster = cluster();
    let (cells, lost) = measured(&cluster, "lost-node:node3:20 corrupt:node8/mlx5_1");
    assert_eq!(lost.iter().map(|lost| lost.node).collect::<Vec<_>>(), [3]);
    for cell in cells {
        let step = &cell.step;
        let expected = if [step.from.node, step.to.node].contains(&3) && cell.round >= 20 {
            cell.flag(FlagKind::Failed).or(cell.flag(FlagKind::Hung)).is_some()
        } else if step.to.node == 8 && step.to.nic.as_deref() == Some("mlx5_1") && !step.is_loopback() {
            cell.flag(FlagKind::Corrupt).is_some()
        } else {
            cell.value().is_some()
        };
        assert!(expected, "{cell:?}");
    }
}

#[test]
fn faults_of_what_is_not_there_are_refused() {
    let cluster = cluster();
    for (fault, expected) in [
        ("slow-node:node32:0.5", "its nodes are node0 to node31"),
        ("slow-nic:node1/mlx5_8:0.5", "have no NIC mlx5_8, but mlx5_0, "),
        ("slow-switch:leaf99:0.5", "no path of the measurement takes it; there are leaf0, "),
        ("slow-link:leaf0-spine99:0.5", "no path of the measurement takes it"),
    ] {
        let refused = SimulatedCluster::new(&cluster, vec![fault.parse().unwrap()], 1).err().unwrap();
        assert!(refused.contains(expected), "{refused}");
    }
}
