use super::super::{Nic, NicGpu, NodeGpu};
use super::*;
use peerlane_machine::transfer::Registration;
use std::collections::{BTreeSet, HashSet};

fn node(host: usize, nics: usize) -> Node {
    let nic = |n| Nic { name: format!("mlx5_{n}"), memory: Memory::Numa(n as u32 / 2), ..Nic::default() };
    Node { host: format!("node{host}"), nics: (0..nics).map(nic).collect(), ..Node::default() }
}

fn nodes(nics: &[usize]) -> Vec<Node> {
    nics.iter().enumerate().map(|(i, n)| node(i, *n)).collect()
}

#[test]
fn no_end_is_twice_in_a_round_and_every_node_has_partners() {
    for (nodes, all_pairs) in
        [(nodes(&[0, 0]), false), (nodes(&[2; 3]), false), (nodes(&[4; 33]), false), (nodes(&[2, 0, 1, 2]), true)]
    {
        let uplinks = nodes.len() != 4;
        let wanted = Wanted { all_pairs, uplinks, ..Wanted::default() };
        let plan = NodePlan::of(&nodes, &wanted, Method::default()).unwrap();
        let rounds = plan.rounds_of(&nodes);
        assert_eq!(rounds.len(), plan.rounds);
        assert_eq!(rounds.concat().iter().any(Step::is_of_load), uplinks);
        let mut steps = HashSet::new();
        for round in &rounds {
            let ends = round.iter().flat_map(|s| if s.is_loopback() { vec![&s.from] } else { vec![&s.from, &s.to] });
            let ends: Vec<_> = ends.collect();
            assert_eq!(ends.iter().collect::<BTreeSet<_>>().len(), ends.len());
            assert!(round.iter().all(|step| steps.insert(step.clone())), "a step comes twice");
        }
        for (node, of) in nodes.iter().enumerate() {
            for transport in [Transport::Tcp, Transport::Verbs] {
                let across = |s: &&Step| s.transport == transport && !s.is_loopback();
                let sends = steps.iter().filter(across).any(|s| s.from.node == node && s.probe != Probe::Latency);
                let receives = steps.iter().filter(across).any(|s| s.to.node == node && s.probe != Probe::Latency);
                let expected = transport == Transport::Tcp || !of.nics.is_empty();
                assert_eq!((sends, receives), (expected, expected), "{node} {transport}");
            }
        }
    }
}

#[test]
fn uplinks_are_loaded_by_all_and_by_fewer_and_fewer() {
    let nodes = nodes(&[4; 1000]);
    let of = |uplinks: bool| {
        let wanted = Wanted { transports: vec![Transport::Verbs], uplinks, ..Wanted::default() };
        NodePlan::of(&nodes, &wanted, Method::default()).unwrap()
    };
    let (plain, loaded) = (of(false), of(true));
    let rounds = loaded.rounds_of(&nodes);
    let counts: Vec<usize> = rounds[plain.rounds..].iter().map(|round| round.len() / 4).collect();
    assert_eq!(counts, [500, 500, 250, 125, 63, 31, 16, 8, 4, 2, 1]);
    assert!(rounds[plain.rounds..].iter().flatten().all(|step| step.probe == Probe::WriteBoth));
}

#[test]
fn budgets_hold_or_are_refused() {
    let nodes = nodes(&[1; 100]);
    let of = |budget: f64| {
        let wanted = Wanted { budget: Some(Seconds::new(budget)), ..Wanted::default() };
        NodePlan::of(&nodes, &wanted, Method::default())
    };
    let usual = NodePlan::of(&nodes, &Wanted::default(), Method::default()).unwrap();
    for budget in [45.0, 60.0, 1000.0] {
        let plan = of(budget).unwrap();
        assert_eq!(plan.bound.seconds(), budget, "{plan:?}");
        assert!(plan.method.patience.seconds() > plan.method.time.seconds());
        assert!(plan.all() + plan.hung() <= budget + 1e-9, "{plan:?}");
        let silence = (2.0 * plan.method.patience.seconds()).max(4.0);
        assert!((plan.method.silence.seconds() - silence).abs() < 1e-9, "{plan:?}");
    }
    // what a slow machine needs: the same samples, and the rest of the budget to take them
    let (long, usual) = (of(1000.0).unwrap().method, usual.method);
    assert_eq!((long.time, long.patience.seconds()), (usual.time, LONGEST_PATIENCE));
    let refused = of(5.0).unwrap_err().to_string();
    assert!(refused.contains("--budget"), "{refused}");
    // a silence that is given is kept, and counted
    let silence = Some(Seconds::new(60.0));
    let wanted = Wanted { silence, ..Wanted::default() };
    let plan = NodePlan::of(&nodes, &wanted, Method::default()).unwrap();
    assert_eq!((Some(plan.method.silence), plan.bound.seconds()), (silence, plan.all() + 240.0));
    let short = Wanted { budget: Some(Seconds::new(60.0)), ..wanted };
    let refused = NodePlan::of(&nodes, &short, Method::default()).unwrap_err();
    let NodePlanError::Budget { least, .. } = refused else { panic!("{refused}") };
    let enough = Wanted { budget: Some(Seconds::new(least.seconds() + 1.0)), ..short };
    assert!(NodePlan::of(&nodes, &enough, Method::default()).is_ok(), "{refused}");
}

#[test]
fn what_cannot_be_measured_is_refused_in_words() {
    let of = |nodes: &[Node], transport: Option<Transport>| {
        let wanted = Wanted { transports: transport.into_iter().collect(), ..Wanted::default() };
        NodePlan::of(nodes, &wanted, Method::default()).map(|plan| plan.transports).map_err(|e| e.to_string())
    };
    let lone = "measuring between nodes needs two nodes or more, and there is 1";
    assert_eq!(of(&nodes(&[1]), None).unwrap_err(), lone);
    let mut without = nodes(&[0, 0]);
    without[0].notes.push("libibverbs.so.1 is not installed".to_owned());
    let why = "no two nodes have a NIC that verbs can open (libibverbs.so.1 is not installed); use --transport tcp";
    assert_eq!(of(&without, Some(Transport::Verbs)).unwrap_err(), why);
    assert_eq!(of(&without, None), Ok(vec![Transport::Tcp]));
    assert_eq!(of(&nodes(&[1, 1]), None), Ok(vec![Transport::Tcp, Transport::Verbs]));
}

#[test]
fn nccl_joins_the_gpus_of_nodes_that_have_both() {
    let gpu = |n| NodeGpu { name: format!("GPU{n}"), product: "NVIDIA H200".to_owned(), address: None };
    let nccl = |count| Node { gpus: (0..count).map(gpu).collect(), nccl: Some("2.28.3".to_owned()), ..node(0, 0) };
    let mut nodes: Vec<Node> = (0..6).map(|_| nccl(2)).collect();
    nodes[3].gpus.clear();
    nodes[4].nccl = None;
    let wanted = Wanted { transports: vec![Transport::Nccl], ..Wanted::default() };
    let plan = NodePlan::of(&nodes, &wanted, Method::default()).unwrap();
    let rounds = plan.rounds_of(&nodes);
    assert_eq!((plan.rounds, plan.nccl.unwrap().rounds), (rounds.len(), rounds.len()));
    let steps = rounds.concat();
    let pairs: Vec<&Step> = steps.iter().filter(|s| s.probe == Probe::SendReceive).collect();
    assert_eq!(pairs.len(), 6, "every pair of nodes 0, 1, 2 and 5 once");
    let all: Vec<&Step> = steps.iter().filter(|s| s.probe == Probe::AllReduce).collect();
    let nodes_of: Vec<Vec<usize>> = all.iter().map(|s| s.nodes().collect()).collect();
    assert_eq!(nodes_of, [vec![0, 1], vec![0, 1, 2, 5]]);
    assert_eq!(all.iter().map(|s| s.queue_pairs).collect::<Vec<_>>(), [4, 8]);
    assert!((all[1].algorithm_share() - 8.0 / 14.0).abs() < 1e-12);
    // with a budget NCCL's rounds are shorter in the same proportion
    for budget in [100.0, 200.0] {
        let wanted = Wanted { budget: Some(Seconds::new(budget)), ..Wanted::default() };
        let plan = NodePlan::of(&nodes, &wanted, Method::default()).unwrap();
        assert!(plan.all() + plan.hung() <= budget + 1e-9, "{plan:?}");
        assert_eq!(plan.method_of(&all.iter().map(|s| (*s).clone()).collect::<Vec<_>>()), plan.nccl.unwrap().method);
    }
    // GPU memory by TCP needs no NCCL: the five nodes with GPUs, both ways
    let wanted_tcp = Wanted { transports: vec![Transport::Tcp], ..Wanted::default() };
    let tcp = NodePlan::of(&nodes, &wanted_tcp, Method::default()).unwrap().rounds_of(&nodes).concat();
    let staged: Vec<&Step> = tcp.iter().filter(|step| step.is_of_gpus()).collect();
    assert_eq!(staged.len(), 20);
    assert!(staged.iter().all(|s| s.probe == Probe::Send && s.to.memory.is_device() && !s.is_loopback()), "{staged:?}");
    let refused = NodePlan::of(&nodes[3..5], &wanted, Method::default()).unwrap_err().to_string();
    assert_eq!(refused, "no two nodes have a GPU and NCCL; use --transport tcp");
}

#[test]
fn gpu_memory_by_verbs_has_few_partners_where_adapters_take_it_and_is_staged_by_neighbours() {
    let mut nodes = nodes(&[2; 20]);
    for (at, nic) in nodes.iter_mut().flat_map(|node| node.nics.iter_mut().enumerate()) {
        let registration = Some(Registration::Dmabuf);
        nic.gpu = Some(NicGpu { name: format!("GPU{}", 3 * at), registration, why: None });
    }
    // refused by one adapter, and no GPU on one node
    nodes[4].nics[1].gpu.as_mut().unwrap().registration = None;
    nodes[7].nics.iter_mut().for_each(|nic| nic.gpu = None);
    let wanted = Wanted { transports: vec![Transport::Verbs], ..Wanted::default() };
    let plan = NodePlan::of(&nodes, &wanted, Method::default()).unwrap();
    let rounds = plan.rounds_of(&nodes);
    assert_eq!(rounds.len(), plan.rounds);
    let of_gpus: Vec<&Vec<Step>> = rounds.iter().filter(|round| round.iter().any(Step::is_of_gpus)).collect();
    assert!(of_gpus.iter().all(|round| round.iter().all(|step| step.is_of_gpus() && step.to.memory.is_device())));
    let steps: Vec<&Step> = of_gpus.into_iter().flatten().collect();
    let count = |probe: Probe, nic: &str, node: usize| {
        let of = |step: &&&Step| step.probe == probe && step.from.nic.as_deref() == Some(nic);
        let of: Vec<_> = steps.iter().filter(of).collect();
        assert!(of.iter().all(|step| step.to.nic == step.from.nic && !step.is_loopback()));
        [of.iter().filter(|s| s.from.node == node).count(), of.iter().filter(|s| s.to.node == node).count()]
    };
    for (nic, memory) in [("mlx5_0", "GPU0"), ("mlx5_1", "GPU3")] {
        let refused = if nic == "mlx5_1" { 4 } else { 7 };
        for node in 0..20 {
            let partners = if node == refused || node == 7 { 0 } else { 3 };
            assert_eq!(count(Probe::Write, nic, node), [partners; 2], "{nic} {node}");
        }
        assert!(
            steps.iter().filter(|s| s.from.nic.as_deref() == Some(nic)).all(|s| s.from.memory.device() == Some(memory))
        );
    }
    for node in 0..20 {
        let staged = usize::from(node != 7);
        assert_eq!(count(Probe::SendStaged, "mlx5_0", node), [staged; 2], "{node}");
    }
    assert!(!steps.iter().any(|s| s.probe == Probe::SendStaged && s.from.nic.as_deref() == Some("mlx5_1")));
    // adapters that take none stage nevertheless
    nodes.iter_mut().flat_map(|n| &mut n.nics).filter_map(|n| n.gpu.as_mut()).for_each(|gpu| gpu.registration = None);
    let steps = NodePlan::of(&nodes, &wanted, Method::default()).unwrap().rounds_of(&nodes).concat();
    let probes: BTreeSet<Probe> = steps.iter().filter(|step| step.is_of_gpus()).map(|step| step.probe).collect();
    assert_eq!(probes, BTreeSet::from([Probe::SendStaged]));
}

#[test]
fn a_gpu_has_any_name() {
    let gpu = NodeGpu { name: "accelerator-0".to_owned(), product: "NVIDIA H200".to_owned(), address: None };
    let nodes: Vec<Node> = (0..2).map(|host| Node { gpus: vec![gpu.clone()], ..node(host, 0) }).collect();
    let rails = rails(&nodes, Transport::Tcp);
    let of_gpus: Vec<bool> = rails.iter().map(|rail| rail.iter().all(|end| end.memory.is_device())).collect();
    assert_eq!(of_gpus, [false, true]);
}
