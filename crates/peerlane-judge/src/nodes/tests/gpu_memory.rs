//! GPU memory between nodes, by verbs.

use super::*;

#[test]
fn gpu_memory_is_judged_beside_host_memory_by_the_same_nics() {
    let cluster = hgx();
    let run = measured(&cluster, Vec::new(), 3);
    // three partners each way of every NIC, and neighbours through host memory by the first
    let of = |probe: Probe| run.cells.iter().filter(|c| c.step.is_of_gpus() && c.step.probe == probe).count();
    assert_eq!((of(Probe::Write), of(Probe::SendStaged)), (32 * 8 * 3, 32));
    let judged = verdict_on(&run, Some(&cluster));
    let gpus = judged.pairs.iter().filter(|pair| pair.gpus.is_some());
    assert!(gpus.clone().all(|pair| pair.share.is_some_and(|share| (0.95..1.05).contains(&share))));
    for known in [true, false] {
        let found = |faults: &str| {
            let run = measured(&cluster, faults.split_whitespace().map(|fault| fault.parse().unwrap()).collect(), 3);
            verdict_on(&run, known.then_some(&cluster)).findings
        };
        let findings = found("slow-nic-gpu:node9/mlx5_3:0.6");
        let [only] = &findings[..] else { panic!("{findings:#?}") };
        assert_eq!(only.rule, "nic-gpu-slow", "{only:#?}");
        let words =
            "node9/mlx5_3 has 60 % of the rate with GPU memory to and from all others: with host memory it is as fast";
        assert!(only.summary.starts_with(words), "{only:#?}");
        assert!(only.measured.starts_with("verbs with GPU memory: ") && only.fix.contains("ACS"), "{only:#?}");
        // what slows host memory too is no matter of GPUs
        for fault in ["slow-nic:node9/mlx5_3:0.6", "slow-cable:node9/mlx5_3:0.6"] {
            let findings = found(fault);
            let [only] = &findings[..] else { panic!("{fault}: {findings:#?}") };
            assert_eq!(only.rule, "slow-nic", "{only:#?}");
        }
    }
}

#[test]
fn adapters_that_take_no_gpu_memory_are_named_where_gpus_offer_it() {
    let cluster = hgx();
    let mut run = measured(&cluster, Vec::new(), 3);
    let refuse = |run: &mut NodesRun, node: usize, nic: usize, why: &str| {
        let gpu = run.nodes[node].nics[nic].gpu.as_mut().unwrap();
        (gpu.registration, gpu.why) = (None, Some(why.to_owned()));
    };
    let loaded =
        "dmabuf: Operation not supported; nvidia-peermem: Bad address, though the module nvidia_peermem is loaded";
    refuse(&mut run, 4, 2, loaded);
    let findings = verdict_on(&run, Some(&cluster)).findings;
    let [only] = &findings[..] else { panic!("{findings:#?}") };
    assert_eq!(only.summary, "node4/mlx5_2 takes no GPU memory: no GPUDirect RDMA there");
    assert!(
        only.measured == loaded && only.fix.contains("The module is loaded and gives the adapters nothing"),
        "{only:#?}"
    );
    assert!(only.expected.ends_with(", as 255 other NICs of the run do"), "{only:#?}");
    refuse(&mut run, 4, 3, "nvidia-peermem: Bad address, since the module is not loaded");
    (0..8).for_each(|nic| refuse(&mut run, 5, nic, loaded));
    let findings = verdict_on(&run, Some(&cluster)).findings;
    assert_eq!(
        findings[0].summary,
        "node4/mlx5_2, node4/mlx5_3 and node5: 10 NICs take no GPU memory: no GPUDirect RDMA there"
    );
}

#[test]
fn pairs_that_are_faster_through_host_memory_are_a_matter_of_design() {
    let cluster = with_latencies_of_adapters(embedded("tessa-pair").unwrap().unwrap());
    let findings = found(&cluster, "");
    let [only] = &findings[..] else { panic!("{findings:#?}") };
    assert_eq!((only.rule.as_str(), only.kind), ("nic-gpu-slow", FindingKind::Design));
    assert!(only.summary.ends_with(" of its rate at worst, in 2 of 2 pairs"), "{only:#?}");
}

#[test]
fn records_compare_gpu_memory_with_gpu_memory() {
    let cluster = with_latencies_of_adapters(embedded("tessa-pair").unwrap().unwrap());
    let run = measured(&cluster, Vec::new(), 3);
    let same = compare(("a", &run), ("b", &run));
    assert!(same.worse.is_empty() && same.better.is_empty() && same.pairs.is_empty(), "{same:#?}");
    assert!(same.changes.iter().all(|change| change.before == change.after), "{:?}", same.changes);
    // of a record from before only host memory
    let mut before = run.clone();
    before.cells.retain(|cell| !cell.step.is_of_gpus());
    let grown = compare(("a", &before), ("b", &run));
    assert!(grown.changes.iter().all(|change| !change.gpus && change.before == change.after), "{:?}", grown.changes);
    assert_eq!(grown.alone, [0, run.cells.len() - before.cells.len()]);
}

#[test]
fn of_three_nodes_what_slows_host_memory_is_no_matter_of_gpus() {
    let node = |name: &str| catalogue::system(name).and_then(Result::ok);
    for name in ["hgx-h200", "hpcac-tessa", "k20-cx3-snb"] {
        for (nodes, shape) in [(3, "switch"), (4, "rail"), (5, "switch")] {
            let text = format!("name = \"c\"\nnode = \"{name}\"\nnodes = {nodes}\n[network]\nshape = \"{shape}\"\n");
            let cluster = with_latencies_of_adapters(read_cluster(&text, "c", node).unwrap());
            for (fault, rule) in [
                ("", None),
                ("slow-node:node1:0.7", Some("slow-n")),
                ("slow-path:node0-node1:0.5", Some("slow-between")),
            ] {
                let run =
                    measured(&cluster, fault.split_whitespace().map(|fault| fault.parse().unwrap()).collect(), 50);
                for known in [true, false] {
                    let findings = verdict_on(&run, known.then_some(&cluster)).findings;
                    let faults = findings.iter().filter(|finding| finding.kind == FindingKind::Fault);
                    let rules: Vec<&str> = faults.map(|finding| finding.rule.as_str()).collect();
                    let as_planted = rules.len() == rule.iter().len()
                        && rules.iter().zip(rule).all(|(found, planted)| found.starts_with(planted));
                    assert!(as_planted, "{name} {nodes} {fault} {known}: {rules:?}");
                }
            }
        }
    }
}
