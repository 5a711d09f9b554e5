mod gpu_memory;

use super::*;
use crate::finding::{Certainty, FindingKind, Severity};
use peerlane_design::cluster::{Cluster, embedded, read_cluster};
use peerlane_design::simulated_cluster::{ClusterFault, SimulatedCluster, with_latencies_of_adapters};
use peerlane_design::site::Site;
use peerlane_machine::random::Random;
use peerlane_machine::subject::Subject;
use peerlane_measure::nodes::{Method, Network, NodePlan, Wanted, execute};
use peerlane_read::catalogue;

fn hgx() -> Cluster {
    with_latencies_of_adapters(embedded("hgx-h200-x32").unwrap().unwrap())
}

fn measured(cluster: &Cluster, faults: Vec<ClusterFault>, seed: u64) -> NodesRun {
    measured_by(vec![Transport::Verbs], cluster, faults, seed)
}

fn measured_by(transports: Vec<Transport>, cluster: &Cluster, faults: Vec<ClusterFault>, seed: u64) -> NodesRun {
    let mut network = SimulatedCluster::new(cluster, faults, seed).unwrap();
    let wanted = Wanted { transports, ..Wanted::default() };
    let plan = NodePlan::of(network.nodes(), &wanted, Method::default()).unwrap();
    let mut run = NodesRun::new(&cluster.name, "cluster", network.nodes().to_vec(), plan.clone());
    execute(&mut network, &plan, Vec::new(), &mut |event| {
        run.apply(event);
        true
    });
    run
}

/// The verdict by default settings.
fn verdict_on(run: &NodesRun, cluster: Option<&Cluster>) -> NodesCheck {
    let site = Site::with_network(run, cluster.cloned());
    judge(&Comparison::of(&site, run), &Settings::default(), None)
}

fn found(cluster: &Cluster, faults: &str) -> Vec<Finding> {
    let run = measured(cluster, faults.split_whitespace().map(|fault| fault.parse().unwrap()).collect(), 3);
    verdict_on(&run, Some(cluster)).findings
}

/// Two servers whose NIC reads GPUs slower than its line, and a record of them without what GPU memory reached.
fn tessa_pair(faults: &str) -> (Cluster, NodesRun) {
    let cluster = with_latencies_of_adapters(embedded("tessa-pair").unwrap().unwrap());
    let mut run = measured(&cluster, faults.split_whitespace().map(|fault| fault.parse().unwrap()).collect(), 3);
    run.cells.retain(|cell| !cell.step.is_of_gpus());
    (cluster, run)
}

#[test]
fn a_healthy_cluster_is_healthy() {
    let cluster = hgx();
    let run = measured(&cluster, Vec::new(), 3);
    for known in [Some(&cluster), None] {
        let judged = verdict_on(&run, known);
        assert_eq!((judged.verdict, judged.findings), (Verdict::Healthy, Vec::new()));
        assert_eq!(judged.checked, ["rates by verbs", "latencies by verbs"]);
    }
}

#[test]
fn each_fault_is_named_with_what_its_loopback_tells() {
    let cluster = hgx();
    for (fault, rule, words) in [
        (
            "slow-node:node7:0.5",
            "slow-node",
            "node7 has 50 % of the rate to and from all others: its loopback is slow too",
        ),
        ("slow-nic:node9/mlx5_3:0.9", "slow-nic", "it is the NIC or its PCIe path"),
        ("slow-cable:node9/mlx5_3:0.7", "slow-nic", "node9/mlx5_3 has 70 % of the rate"),
        ("slow-cable:node9/mlx5_3:0.7", "slow-nic", "it is its cable or switch port"),
        ("one-way:node30/mlx5_3:0.4", "slow-nic", "in what it sends, and none is missing in what it receives"),
        ("slow-switch:leaf3:0.6", "slow-switch", "switch leaf3: 60 % of the rate is left"),
        ("slow-path:node4-node5:0.5", "slow-between-nodes", "between node4 and node5, 50 % of the rate is left"),
        ("lost-node:node3:30", "lost-node", "node3 was lost: its agent no longer answers"),
        ("corrupt:node8/mlx5_1", "corrupt-data", "data changed on its way to node8/mlx5_1"),
    ] {
        let findings = found(&cluster, fault);
        let [only] = &findings[..] else { panic!("{fault}: {findings:#?}") };
        assert!(only.rule == rule && only.summary.contains(words), "{fault}: {only:#?}");
        assert!(!only.fix.is_empty() && !only.confirm.is_empty() && !only.measured.is_empty(), "{only:#?}");
    }
}

#[test]
fn peers_are_enough_where_no_network_is_known() {
    let cluster = hgx();
    let faults = "slow-node:node7:0.5 slow-cable:node9/mlx5_3:0.8";
    let run = measured(&cluster, faults.split(' ').map(|fault| fault.parse().unwrap()).collect(), 3);
    let mut subjects: Vec<String> = verdict_on(&run, None).findings.iter().map(|f| f.subjects[0].to_string()).collect();
    subjects.sort();
    assert_eq!(subjects, ["node7", "node9/mlx5_3"]);
}

#[test]
fn two_nodes_without_an_expectation_have_only_their_directions() {
    let (cluster, mut run) = tessa_pair("");
    assert_eq!(verdict_on(&run, Some(&cluster)).findings, Vec::new());
    run.nodes.iter_mut().flat_map(|node| &mut node.nics).for_each(|nic| nic.rate = None);
    let judged = verdict_on(&run, None);
    // steps with GPU memory are missing
    assert_eq!((judged.verdict, judged.findings), (Verdict::NotJudged, Vec::new()));
    assert_eq!(judged.checked, ["one direction against the other by verbs"]);
    run.cells.retain(|cell| cell.step.from.node == 0 || cell.step.is_loopback());
    assert_eq!(verdict_on(&run, None).verdict, Verdict::NotJudged);
}

#[test]
fn of_two_nodes_one_direction_is_compared_with_the_other() {
    for (left, severity) in [(0.9, None), (0.7, Some(Severity::Error)), (0.3, Some(Severity::Error))] {
        let (_, mut run) = tessa_pair(&format!("one-way:node1:{left}"));
        run.nodes.iter_mut().flat_map(|node| &mut node.nics).for_each(|nic| nic.rate = None);
        let findings = verdict_on(&run, None).findings;
        assert_eq!(findings.first().map(|finding| finding.severity), severity, "{findings:#?}");
        for finding in &findings {
            let words = "% of the rate of the other direction is left";
            let whose = finding.summary.starts_with("one way, from node1/") && finding.summary.contains(words);
            assert!(finding.rule == "slow-between-nodes" && whose, "{finding:#?}");
        }
    }
}

/// 1,000 nodes with two NICs each, in a fat tree; 20 faults that leave 40 to 95 %, drawn.
#[test]
fn twenty_faults_among_a_thousand_nodes_are_found() {
    let text = "name = \"thousand\"\nnode = \"k20-cx3-snb\"\nnodes = 1000\n[network]\nshape = \"fat-tree:2\"\nhop_latency_us = 0.2\n";
    let node = |name: &str| catalogue::system(name).and_then(Result::ok);
    let cluster = with_latencies_of_adapters(read_cluster(text, "thousand", node).unwrap());
    let nic = cluster.node.fabric.node(cluster.nics[0]).name.clone();
    let mut random = Random::from_seed(20);
    let mut nodes = std::collections::BTreeSet::new();
    while nodes.len() < 19 {
        // a slow switch hides what is less slow behind it: leaf5 has nodes 160 to 191
        nodes.extend(Some(random.below(1000)).filter(|node| !(160..192).contains(node)));
    }
    let mut planted: Vec<(String, &str)> = Vec::new();
    let mut faults = Vec::new();
    for (at, node) in nodes.into_iter().enumerate() {
        let left = 0.4 + 0.55 * random.uniform();
        let (fault, rule) = match at % 4 {
            0 => (format!("slow-node:node{node}:{left:.3}"), "slow-nic"),
            1 => (format!("slow-nic:node{node}/{nic}:{left:.3}"), "slow-nic"),
            2 => (format!("slow-cable:node{node}/{nic}:{left:.3}"), "slow-nic"),
            _ => (format!("one-way:node{node}:{left:.3}"), "slow-nic"),
        };
        planted.push((format!("node{node}/{nic}"), rule));
        faults.push(fault.parse().unwrap());
    }
    faults.push("slow-switch:leaf5:0.6".parse().unwrap());
    planted.push(("leaf5".to_owned(), "slow-switch"));
    let run = measured(&cluster, faults, 9);
    let findings = verdict_on(&run, Some(&cluster)).findings;
    let has = |(subject, rule): &&(String, &str)| {
        findings.iter().any(|f| f.rule == *rule && f.subjects[0].to_string() == *subject)
    };
    let missed: Vec<_> = planted.iter().filter(|p| !has(p)).collect();
    assert!(missed.is_empty(), "{missed:?}\n{:?}", findings.iter().map(|f| &f.summary).collect::<Vec<_>>());
    assert!(findings.len() <= planted.len() + 1, "{:?}", findings.iter().map(|f| &f.summary).collect::<Vec<_>>());
}

#[test]
fn what_changed_since_an_earlier_record_is_named_and_noise_is_not() {
    let cluster = hgx();
    let fault = |text: &str| vec![text.parse().unwrap()];
    let healthy = measured(&cluster, Vec::new(), 3);
    let noise = compare(("a", &healthy), ("b", &measured(&cluster, Vec::new(), 4)));
    assert_eq!((noise.worse, noise.better, noise.pairs, noise.alone), (Vec::new(), Vec::new(), Vec::new(), [0, 0]));
    let slow = measured(&cluster, fault("slow-cable:node9/mlx5_3:0.7"), 4);
    let change = compare(("a", &healthy), ("b", &slow));
    let [only] = &change.worse[..] else { panic!("{:#?}", change.worse) };
    assert!(
        only.subjects == Subject::nodes_of(["node9/mlx5_3"]) && only.expected.ends_with("in the earlier record"),
        "{only:#?}"
    );
    assert!(change.better.is_empty() && !change.pairs.is_empty());
    for changed in &change.pairs {
        let ends = [&changed.from, &changed.to];
        assert!(ends.iter().any(|end| end.as_str() == "node9/mlx5_3"), "{changed:#?}");
    }
    // the other way about it is repaired
    let repaired = compare(("b", &slow), ("a", &healthy));
    assert_eq!((repaired.worse.len(), repaired.better.len()), (0, 1));
    // nodes in another order are the same nodes
    let mut turned = slow.clone();
    turned.nodes.reverse();
    let last = turned.nodes.len() - 1;
    for cell in &mut turned.cells {
        (cell.step.from.node, cell.step.to.node) = (last - cell.step.from.node, last - cell.step.to.node);
    }
    let same = compare(("a", &slow), ("b", &turned));
    assert_eq!((same.worse.len(), same.better.len(), same.pairs.len(), same.alone), (0, 0, 0, [0, 0]));
    let with_baseline = judge(&Comparison::of(&Site::default(), &slow), &Settings::default(), Some(&healthy)).findings;
    assert!(with_baseline.iter().any(|f| f.rule == "worse-than-before"), "{with_baseline:#?}");
    let again = judge(&Comparison::of(&Site::default(), &slow), &Settings::default(), Some(&slow)).findings;
    assert!(!again.iter().any(|f| f.rule == "worse-than-before"), "{again:#?}");
}

#[test]
fn a_site_accepts_findings_of_nodes() {
    let cluster = hgx();
    let run = measured(&cluster, vec!["slow-cable:node9/mlx5_3:0.7".parse().unwrap()], 3);
    let text = "[[waive]]\nrule = \"slow-nic\"\nsubjects = [\"node9/mlx5_3\"]\nreason = \"ordered\"\n";
    let settings = Settings::read(text).unwrap();
    let site = Site::with_network(&run, Some(cluster));
    let judged = judge(&Comparison::of(&site, &run), &settings, None);
    assert_eq!((judged.verdict, judged.findings.len(), judged.waived.len()), (Verdict::Healthy, 0, 1));
    assert_eq!(judged.waived[0].reason, "ordered");
}

#[test]
fn ports_that_are_set_up_otherwise_are_named_and_others_are_not() {
    use peerlane_measure::nodes::Gid;
    let cluster = hgx();
    let healthy = measured(&cluster, Vec::new(), 3);
    let set = |mtu: [u32; 2], gid: Option<Gid>| {
        let mut run = healthy.clone();
        let nics = run.nodes.iter_mut().flat_map(|node| &mut node.nics);
        nics.for_each(|nic| (nic.mtu, nic.gid) = (Some(mtu), gid));
        run
    };
    let found = |run: &NodesRun| -> Vec<(String, Severity, String)> {
        let findings = verdict_on(run, Some(&cluster)).findings;
        findings.into_iter().map(|f| (f.rule, f.severity, f.summary)).collect()
    };
    assert_eq!(found(&healthy), [], "records before this have no such facts");
    assert_eq!(found(&set([4096, 4096], Some(Gid::Ipv4))), []);
    assert_eq!(found(&set([4096, 4096], Some(Gid::Ipv6))), []);
    let [(rule, severity, words)] = &found(&set([1024, 4096], Some(Gid::Ipv4)))[..] else { panic!() };
    assert_eq!((rule.as_str(), *severity), ("rdma-mtu", Severity::Info), "all alike, and nothing is broken: {words}");
    let mut one = set([4096, 4096], Some(Gid::Ipv4));
    one.nodes[7].nics[2].mtu = Some([1024, 4096]);
    one.nodes[9].nics[0].gid = Some(Gid::LinkLocal);
    one.nodes[3].nics[1].gid = Some(Gid::None);
    let all = found(&one);
    let has = |rule: &str, severity, start: &str| {
        all.iter().any(|(r, s, words)| r == rule && *s == severity && words.starts_with(start))
    };
    assert!(
        has("rdma-mtu", Severity::Error, "node7/mlx5_2: packets carry 1024 bytes, and those of 255 others 4096"),
        "{all:?}"
    );
    assert!(has("rdma-gid", Severity::Warning, "node9/mlx5_0 have a link-local GID only"), "{all:?}");
    assert!(has("rdma-gid", Severity::Error, "node3/mlx5_1 have no GID of RoCE v2"), "{all:?}");
    assert_eq!(all.len(), 3, "{all:?}");
}

/// What is found by verbs and NCCL.
fn found_by_both(cluster: &Cluster, faults: &str) -> Vec<Finding> {
    let faults = faults.split_whitespace().map(|fault| fault.parse().unwrap()).collect();
    verdict_on(&measured_by(vec![Transport::Verbs, Transport::Nccl], cluster, faults, 3), Some(cluster)).findings
}

#[test]
fn a_nic_in_a_far_slot_is_named_with_what_it_costs() {
    let cluster = hgx();
    // the first GPU's is in every pair, that of another one in all-reduces alone
    for (nic, measured) in [("mlx5_0", "NCCL from GPU0 "), ("mlx5_3", "all-reduce of ")] {
        let findings = found_by_both(&cluster, &format!("far-nic:node7/{nic}"));
        let [only] = &findings[..] else { panic!("{findings:#?}") };
        let gpus = if nic == "mlx5_0" { "GPU0 and GPU1" } else { "GPU2 and GPU3" };
        assert_eq!((only.rule.as_str(), only.kind), ("gpu-nic-apart", FindingKind::Fault), "{only:#?}");
        assert_eq!(only.subjects, Subject::nodes_of([format!("node7/{nic}")]));
        let start = format!("node7/{nic} is below no GPU's switch, and the path to {gpus} is SYS, ");
        assert!(only.summary.starts_with(&start), "{only:#?}");
        assert!(only.measured.starts_with(measured) && only.expected.ends_with("by the model"), "{only:#?}");
        assert!(only.cost.is_some_and(|cost| (0.05..0.95).contains(&cost.share)), "{only:#?}");
    }
}

#[test]
fn nodes_that_are_alike_have_no_nic_in_a_wrong_slot() {
    let mut looked = 0;
    for name in catalogue::system_names() {
        let text = format!(
            "name = \"pair\"\nnode = \"{name}\"\nnodes = 2\n[network]\nshape = \"switch\"\nhop_latency_us = 0.2\n"
        );
        let node = |name: &str| catalogue::system(name).and_then(Result::ok);
        let Ok(cluster) = read_cluster(&text, "pair", node) else { continue };
        let cluster = with_latencies_of_adapters(cluster);
        let Ok(network) = SimulatedCluster::new(&cluster, Vec::new(), 1) else { continue };
        let has_gpus = network.nodes().iter().all(|node| !node.gpus.is_empty());
        let by = [Transport::Verbs].into_iter().chain(has_gpus.then_some(Transport::Nccl)).collect();
        let run = measured_by(by, &cluster, Vec::new(), 1);
        let findings = verdict_on(&run, Some(&cluster)).findings;
        looked += 1;
        assert!(findings.iter().all(|found| found.kind == FindingKind::Design), "{name}: {findings:#?}");
        if name.starts_with("hgx") || name.starts_with("dgx") {
            assert_eq!(findings, [], "{name}");
        }
    }
    assert!(looked > 10, "{looked}");
}

#[test]
fn gpus_that_share_their_near_nics_differ_from_nobody() {
    let cluster = hgx();
    let healthy = measured(&cluster, Vec::new(), 3);
    let far = measured(&cluster, vec!["far-nic:node7/mlx5_3".parse().unwrap()], 3);
    let apart = |run: &NodesRun| {
        let findings = verdict_on(run, Some(&cluster)).findings;
        findings.into_iter().filter(|found| found.rule == "gpu-nic-apart").count()
    };
    assert_eq!((apart(&healthy), apart(&far)), (0, 1));
    // all nodes built so: how they are, and no node's fault
    let mut alike = far.clone();
    let system = far.nodes[7].system.clone();
    alike.nodes.iter_mut().for_each(|node| node.system.clone_from(&system));
    assert_eq!(apart(&alike), 0);
}

#[test]
fn lost_packets_are_named_by_direction_and_end() {
    let cluster = hgx();
    for (fault, subject, words) in [
        ("loses-in:node7/mlx5_3:100", "node7/mlx5_3", "packets are lost on their way to it"),
        ("loses-out:node7/mlx5_3:100", "node7/mlx5_3", "packets that it sends are lost"),
    ] {
        let findings = found(&cluster, fault);
        let [only] = &findings[..] else { panic!("{fault}: {findings:#?}") };
        assert!(only.rule == "packet-loss" && only.summary.contains(words), "{only:#?}");
        assert_eq!(only.subjects, Subject::nodes_of([subject]));
        let counter = if fault.contains("-in") { "port-out-of-sequence +" } else { "port-sequence-nak +" };
        assert!(only.measured.contains(counter), "{only:#?}");
    }
    let both = found(&cluster, "loses-in:node7/mlx5_3:100 loses-out:node9/mlx5_3:100");
    let of: Vec<String> = both.iter().map(|f| f.subjects[0].to_string()).collect();
    assert_eq!(of, ["node7/mlx5_3", "node9/mlx5_3"], "{both:#?}");
    // what is slow for it is one finding, with the counters
    let slow = found(&cluster, "loses-out:node7/mlx5_3:100 one-way:node7/mlx5_3:0.5");
    let [only] = &slow[..] else { panic!("{slow:#?}") };
    assert!(only.rule == "slow-nic" && only.measured.contains("packets that it sends are lost"), "{only:#?}");
    assert_eq!(found(&cluster, "loses-out:node7/mlx5_3:1"), [], "a few packets are chance");
}

#[test]
fn of_two_nodes_packets_are_lost_one_way() {
    let (cluster, run) = tessa_pair("loses-out:node1/mlx5_0:100");
    let findings = verdict_on(&run, Some(&cluster)).findings;
    let [only] = &findings[..] else { panic!("{findings:#?}") };
    assert_eq!(only.summary, "one way, from node1/mlx5_0 to node0/mlx5_0, packets are lost");
}

#[test]
fn errors_of_a_link_are_those_of_what_arrives() {
    use peerlane_machine::counter::ErrorCounter;
    use peerlane_measure::nodes::PortErrors;
    use peerlane_measure::run::Rise;
    let cluster = hgx();
    let mut run = measured(&cluster, Vec::new(), 3);
    let rise = |counter, by| Rise { counter, of: "mlx5_2/1".to_owned(), link: None, by };
    let with = |run: &mut NodesRun, errors| {
        run.ports = vec![PortErrors { node: 4, ports: vec!["mlx5_2/1".to_owned()], errors }]
    };
    with(&mut run, vec![rise(ErrorCounter::PortSymbol, 12), rise(ErrorCounter::PortAckTimeout, 3)]);
    assert_eq!(verdict_on(&run, Some(&cluster)).findings, []);
    with(&mut run, vec![rise(ErrorCounter::PortSymbol, 1200)]);
    let findings = verdict_on(&run, Some(&cluster)).findings;
    let [only] = &findings[..] else { panic!("{findings:#?}") };
    assert_eq!(only.summary, "node4/mlx5_2: what arrives there has errors of the link");
    assert!(only.measured.ends_with("node4/mlx5_2 port-symbol +1200"), "{only:#?}");
}

#[test]
fn nccl_is_compared_with_verbs_on_the_same_pairs() {
    let cluster = hgx();
    let findings = found_by_both(&cluster, "no-gpudirect:node7:0.4");
    let [only] = &findings[..] else { panic!("{findings:#?}") };
    // the cause, with what it costs
    assert!(only.rule == "nic-gpu-refused" && only.measured.contains("; all-reduce of 8 nodes "), "{only:#?}");
    assert_eq!(only.summary, "node7: 8 NICs take no GPU memory: no GPUDirect RDMA there");
    // adapters that take it, and an NCCL that does not use it
    let below = |faults: &str| {
        let faults = faults.split(' ').map(|fault| fault.parse().unwrap()).collect();
        let mut run = measured_by(vec![Transport::Verbs, Transport::Nccl], &cluster, faults, 3);
        for gpu in run.nodes.iter_mut().flat_map(|node| &mut node.nics).filter_map(|nic| nic.gpu.as_mut()) {
            gpu.registration = Some(peerlane_machine::transfer::Registration::NvidiaPeermem);
        }
        verdict_on(&run, Some(&cluster)).findings
    };
    let findings = below("no-gpudirect:node7:0.4");
    let [only] = &findings[..] else { panic!("{findings:#?}") };
    assert!(only.rule == "nccl-below-verbs" && only.summary.starts_with("node7: NCCL reaches "), "{only:#?}");
    assert!(only.measured.contains(": NCCL ") && only.measured.contains(" from host memory by node"), "{only:#?}");
    let all: Vec<String> = (0..32).map(|node| format!("no-gpudirect:node{node}:0.4")).collect();
    assert_eq!(
        below(&all.join(" ")).first().map(|f| (f.rule.as_str(), f.summary.starts_with("all nodes: "))),
        Some(("nccl-below-verbs", true))
    );
    // a slow NIC is no matter of NCCL, whichever it is
    for fault in
        ["slow-nic:node7/mlx5_0:0.4", "slow-cable:node7/mlx5_1:0.4", "slow-node:node7:0.3", "slow-path:node4-node5:0.4"]
    {
        let findings = found_by_both(&cluster, fault);
        assert!(!findings.iter().any(|f| f.rule == "nccl-below-verbs"), "{fault}: {findings:#?}");
    }
    let run = measured_by(vec![Transport::Verbs, Transport::Nccl], &cluster, Vec::new(), 3);
    let same = verdict_on(&run, Some(&cluster)).same_pairs.unwrap();
    assert!(same.pairs > 100 && (0.7..1.2).contains(&same.median), "{same:?}");
}

#[test]
fn the_node_that_slows_all_reduces_is_found_and_explained_ones_are_no_finding_of_their_own() {
    let cluster = hgx();
    for node in ["node9", "node3", "node30"] {
        let findings = found_by_both(&cluster, &format!("slow-gpus:{node}:0.5"));
        let [only] = &findings[..] else { panic!("{findings:#?}") };
        assert_eq!((only.rule.as_str(), only.certainty), ("slow-all-reduce", Certainty::Likely), "{only:#?}");
        assert_eq!(only.subjects, Subject::nodes_of([node]));
        assert!(only.cost.is_some_and(|cost| (0.45..0.55).contains(&cost.share)), "{only:#?}");
    }
    // of the first group only what is expected shows it
    let findings = found_by_both(&cluster, "slow-gpus:node1:0.5");
    let [only] = &findings[..] else { panic!("{findings:#?}") };
    assert_eq!(only.subjects, Subject::nodes_of(["node0", "node1"]), "{only:#?}");
    for (fault, rule) in [
        ("slow-node:node9:0.5", "slow-node"),
        ("slow-nic:node5/mlx5_2:0.5", "slow-nic"),
        ("slow-switch:leaf3:0.5", "slow-switch"),
        ("slow-path:node3-node4:0.5", "slow-between-nodes"),
    ] {
        let findings = found_by_both(&cluster, fault);
        let [only] = &findings[..] else { panic!("{fault}: {findings:#?}") };
        assert!(only.rule == rule && only.measured.contains("; all-reduce of "), "{only:#?}");
    }
    assert_eq!(found_by_both(&cluster, ""), []);
}

#[test]
fn leaf_switches_and_full_links_of_a_network_that_is_not_known_are_nobodys_fault() {
    let node = |name: &str| catalogue::system(name).and_then(Result::ok);
    for (nodes, shape) in [(120, "fat-tree:2"), (300, "fat-tree:2"), (120, "fat-tree:2:4"), (40, "rail")] {
        let text = format!(
            "name = \"c\"\nnode = \"k20-cx3-snb\"\nnodes = {nodes}\n[network]\nshape = \"{shape}\"\nhop_latency_us = 0.2\n"
        );
        let cluster = with_latencies_of_adapters(read_cluster(&text, "c", node).unwrap());
        for (faults, expected) in [("", vec![]), ("slow-node:node7:0.5", vec!["node7/mlx4_0"])] {
            let mut run = measured(&cluster, faults.split_whitespace().map(|f| f.parse().unwrap()).collect(), 3);
            run.nodes.iter_mut().flat_map(|node| &mut node.nics).for_each(|nic| nic.rate = None);
            let judged = verdict_on(&run, None);
            let faults = judged.findings.iter().filter(|finding| finding.is_trouble());
            let named: Vec<String> = faults.flat_map(|f| &f.subjects).map(Subject::to_string).collect();
            assert_eq!(named, expected, "{shape}: {:#?}", judged.findings);
        }
    }
}

#[test]
fn of_two_nodes_the_loopback_tells_the_end_and_else_it_is_between_them() {
    let (_, run) = tessa_pair("slow-nic:node1/mlx5_2:0.6");
    let cluster = with_latencies_of_adapters(embedded("tessa-pair").unwrap().unwrap());
    let findings = verdict_on(&run, Some(&cluster)).findings;
    let [only] = &findings[..] else { panic!("{findings:#?}") };
    assert!(only.summary.starts_with("node1/mlx5_2 has 60 % of the rate to and from all others: its loopback is slow"));
    for (fault, words) in [
        ("slow-cable:node1/mlx5_2:0.6", "between node0 and node1, 60 % of the rate is left: two nodes do not tell"),
        (
            "one-way:node1/mlx5_2:0.6",
            "one way between node0 and node1, 60 % of the rate is left: two nodes do not tell",
        ),
    ] {
        let (_, run) = tessa_pair(fault);
        let findings = verdict_on(&run, Some(&cluster)).findings;
        let [only] = &findings[..] else { panic!("{fault}: {findings:#?}") };
        assert!(only.rule == "slow-between-nodes" && only.summary.starts_with(words), "{only:#?}");
        assert!(only.measured.starts_with("verbs by mlx5_2: 7."), "{only:#?}");
    }
}

#[test]
fn a_lone_rail_that_is_slow_both_ways_is_named_where_it_is_known_what_it_should_carry() {
    let (_, mut run) = tessa_pair("slow-cable:node1/mlx5_0:0.6");
    run.nodes.iter_mut().for_each(|node| node.nics.truncate(1));
    run.cells.retain(|cell| cell.step.from.nic.as_deref() == Some("mlx5_0"));
    let findings = verdict_on(&run, None).findings;
    let [only] = &findings[..] else { panic!("{findings:#?}") };
    assert_eq!(only.summary, "all pairs of nodes reach 60 % of what ports and links should carry, by mlx5_0");
    let (_, mut sound) = tessa_pair("");
    sound.cells.retain(|cell| cell.step.from.nic.as_deref() == Some("mlx5_0"));
    assert_eq!(verdict_on(&sound, None).findings, []);
}

#[test]
fn paths_that_share_links_while_others_run_are_nobodys_fault() {
    let node = |name: &str| catalogue::system(name).and_then(Result::ok);
    for (nodes, shape) in [(9, "fat-tree:2"), (25, "fat-tree:2:2")] {
        let text = format!("name = \"c\"\nnode = \"hgx-h200\"\nnodes = {nodes}\n[network]\nshape = \"{shape}\"\n");
        let cluster = with_latencies_of_adapters(read_cluster(&text, "c", node).unwrap());
        for (fault, named) in [
            ("", None),
            ("slow-nic-gpu:node1/mlx5_7:0.6", Some("nic-gpu-slow node1/mlx5_7")),
            ("slow-path:node0-node1:0.5", Some("slow-between-nodes node0-node1")),
            ("no-gpudirect:node1:0.4", Some("nic-gpu-refused node1")),
        ] {
            let run = measured(&cluster, fault.split_whitespace().map(|fault| fault.parse().unwrap()).collect(), 50);
            let findings = verdict_on(&run, None).findings;
            let faults = findings.iter().filter(|finding| finding.kind == FindingKind::Fault);
            let found: Vec<String> = faults.map(|f| format!("{} {}", f.rule, f.subjects[0])).collect();
            assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), Vec::from_iter(named), "{shape} {fault}");
        }
    }
}
