//! Measuring between nodes as a user meets it: a simulated cluster, its record, and what commands do with that.

use std::fs;
use std::path::PathBuf;

use crate::common::{err, json, out, path, peerlane, refused, status, stdout};

/// A file of this test's own, which is not there yet.
fn fresh(name: &str) -> (PathBuf, String) {
    let file = path("nodes", name);
    let _ = fs::remove_file(&file);
    let _ = fs::remove_file(file.with_extension("json.partial"));
    let text = file.to_str().unwrap().to_owned();
    (file, text)
}

#[test]
fn a_planted_fault_is_measured_recorded_and_named() {
    let (_, file) = fresh("fault.json");
    let faults = "slow-node:node3:0.5,lost-node:node9:12,corrupt:node12";
    let measured = peerlane(&["measure", "cluster:quong", "--faults", faults, "-o", &file]);
    // the steps of the node that was lost have no value
    assert_eq!(status(&measured), 2, "{}", err(&measured));
    assert!(err(&measured).contains("planned steps have no value"), "{}", err(&measured));
    assert!(err(&measured).contains("16 nodes, simulated, quong: verbs and nccl, "), "{}", err(&measured));
    assert!(err(&measured).contains(" at most "), "the bound is announced: {}", err(&measured));
    assert!(stdout(&measured).contains("lost     node9: its agent no longer answers"), "{}", stdout(&measured));
    let checked = peerlane(&["check", &file]);
    assert_eq!(status(&checked), 2);
    let text = stdout(&checked);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "quong: 16 nodes with 1 NIC, verbs and nccl, simulated");
    assert!(lines[1].starts_with("FAULT  "), "{text}");
    assert!(lines.iter().take(4).any(|line| line.starts_with("fix    ")), "{text}");
    assert!(lines.iter().all(|line| line.chars().count() <= 100), "{text}");
    let document = json_of(&peerlane(&["check", &file, "--json"]));
    let mut rules: Vec<&str> =
        document["findings"].as_array().unwrap().iter().map(|f| f["rule"].as_str().unwrap()).collect();
    rules.sort_unstable();
    // of verbs the NIC receives changed data, of NCCL the GPU
    assert_eq!(rules, ["corrupt-data", "corrupt-data", "lost-node", "slow-node"], "{document:#}");
    let shares = document["pairs"].as_array().unwrap().iter().filter_map(|pair| pair["share"].as_f64());
    assert!(shares.collect::<Vec<_>>().is_sorted(), "the worst pairs come first");
    assert_eq!(status(&peerlane(&["check", &file, "--fail-on", "never"])), 2, "work that was not done");
}

fn json_of(output: &std::process::Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn one_transport_of_a_simulated_cluster() {
    let run = json(&["measure", "cluster:hgx-h200-x32", "--transport", "nccl", "--json"]);
    let probes: std::collections::BTreeSet<&str> =
        run["cells"].as_array().unwrap().iter().map(|cell| cell["probe"].as_str().unwrap()).collect();
    assert_eq!(probes.into_iter().collect::<Vec<_>>(), ["all-reduce", "send-receive"]);
    let shown = out(&["measure", "cluster:hgx-h200-x32", "--transport", "nccl"]);
    assert!(shown.contains("all-reduce, 256 GPUs"), "{shown}");
    let tcp = refused(&["measure", "cluster:hgx-h200-x32", "--transport", "tcp"]);
    assert!(tcp.contains("its transports are verbs and nccl"), "{tcp}");
}

#[test]
fn a_healthy_cluster_is_healthy() {
    let (_, file) = fresh("healthy.json");
    out(&["measure", "cluster:quong", "-o", &file]);
    let text = out(&["check", &file]);
    assert!(
        text.contains("\nHEALTHY  no findings; checked: rates by verbs, latencies by verbs, rates by NCCL\n"),
        "{text}"
    );
    // the name alone and a cluster file are the same TARGETs as everywhere
    assert_eq!(json(&["measure", "quong", "--json"])["nodes"].as_array().unwrap().len(), 16);
}

#[test]
fn what_was_interrupted_is_resumed() {
    let (file, name) = fresh("resumed.json");
    out(&["measure", "cluster:quong", "-o", &name]);
    let whole = fs::read_to_string(&file).unwrap();
    let run: serde_json::Value = serde_json::from_str(&peerlane::run::unsealed(&whole)).unwrap();
    let cells = run["cells"].as_array().unwrap();
    // what a writer that died leaves: a head, some cells, and a cut line
    let mut head = run.clone();
    head["cells"] = serde_json::json!([]);
    let some = serde_json::json!({ "cells": &cells[..cells.len() / 2] });
    let partial = file.with_extension("json.partial");
    let head = format!("{{\"schema\":\"peerlane/nodes/2\",{}", &head.to_string()[1..]).replacen(
        ",\"schema\":\"peerlane/nodes/2\"",
        "",
        1,
    );
    fs::write(&partial, format!("{head}\n{some}\n{{\"cells\":[{{\"fr")).unwrap();
    fs::remove_file(&file).unwrap();
    let begun = peerlane(&["measure", "cluster:quong", "-o", &name]);
    assert!(status(&begun) == 2 && err(&begun).contains("resume it with --resume"), "{}", err(&begun));
    let other = peerlane(&["measure", "cluster:apenet-pair", "-o", &name, "--resume"]);
    assert!(status(&other) == 2 && err(&other).contains("record of another cluster"), "{}", err(&other));
    out(&["measure", "cluster:quong", "-o", &name, "--resume"]);
    assert!(!partial.exists());
    let resumed: serde_json::Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(resumed["complete"], true);
    assert_eq!(resumed["cells"].as_array().unwrap().len(), cells.len());
}

/// Writes a record's content, whose format readers know by its first field.
fn written(file: &PathBuf, run: &serde_json::Value) {
    let mut run = run.clone();
    run.as_object_mut().unwrap().remove("checksum");
    let rest = run.to_string().replacen("\"schema\":\"peerlane/nodes/2\",", "", 1);
    fs::write(file, format!("{{\"schema\":\"peerlane/nodes/2\",{}", &rest[1..])).unwrap();
}

/// The record of nodes that described themselves: texts by node, in place of the cluster that was simulated.
fn of_real_nodes(file: &PathBuf, texts: &dyn Fn(usize) -> Option<String>) {
    let mut run: serde_json::Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    let fields = run.as_object_mut().unwrap();
    fields.retain(|name, _| !["cluster", "system"].contains(&name.as_str()));
    for (at, node) in run["nodes"].as_array_mut().unwrap().iter_mut().enumerate() {
        let Some(text) = texts(at) else { continue };
        node["evidence"] = serde_json::json!([{ "name": "topo.xml", "text": text }]);
    }
    written(file, &run);
}

#[test]
fn other_commands_are_about_the_nodes_or_name_the_one_that_reads_it() {
    let (file, name) = fresh("others.json");
    out(&["measure", "cluster:apenet-pair", "-o", &name]);
    for command in ["predict", "map"] {
        assert_eq!(out(&[command, &name]), out(&[command, "apenet-x56xx"]), "{command} is of the record's nodes");
    }
    of_real_nodes(&file, &|_| None);
    for command in ["predict", "map", "simulate", "place", "tune"] {
        let output = peerlane(&[command, &name]);
        let said = err(&output);
        let precise =
            said.contains("record between nodes") && said.contains("check") || said.contains("described itself");
        assert!(status(&output) == 2 && precise, "{command}: {said}");
    }
}

#[test]
fn a_record_is_simulated_as_a_cluster_with_the_capacities_that_were_measured() {
    let cluster =
        "name = \"eight\"\nnode = \"hgx-h200\"\nnodes = 8\n[network]\nshape = \"rail\"\nhop_latency_us = 0.2\n";
    let cluster = crate::common::file("nodes", "eight.toml", cluster);
    let (_, whole) = fresh("whole.json");
    out(&["measure", &format!("cluster:{cluster}"), "-o", &whole]);
    let (_, slow) = fresh("slow.json");
    out(&[
        "measure",
        &format!("cluster:{cluster}"),
        "--faults",
        "slow-cable:node5/mlx5_0:0.3,lost-node:node2:400",
        "-o",
        &slow,
    ]);
    let time = |target: &str, workload: &str| {
        let document = json(&["simulate", target, "-w", workload, "--sizes", "64MiB", "--json"]);
        let point = &document["points"][0];
        (point["time"].as_f64().unwrap(), document.to_string())
    };
    let send = "point-to-point:node5/GPU0:node1/GPU0";
    for workload in ["all-reduce", "all-to-all", send] {
        let [(designed, _), (measured, _)] = [&cluster, &whole].map(|target| time(target, workload));
        assert!((measured / designed - 1.0).abs() < 0.01, "{workload}: {designed} {measured}");
    }
    let [(whole, _), (slow, said)] = [&whole, &slow].map(|target| time(target, send));
    assert!((whole / slow - 0.3).abs() < 0.01, "{whole} {slow}");
    assert!(said.contains("links that nodes share are not in it"), "{said}");
}

#[test]
fn what_a_node_told_of_its_links_is_what_its_paths_should_carry() {
    let (file, name) = fresh("links.json");
    let cluster =
        "name = \"four\"\nnode = \"hpcac-tessa\"\nnodes = 4\n[network]\nshape = \"switch\"\nhop_latency_us = 0.2\n";
    let cluster = format!("cluster:{}", crate::common::file("nodes", "four.toml", cluster));
    out(&["measure", &cluster, "--faults", "slow-node:node3:0.56", "-o", &name]);
    let xml = out(&["map", "hpcac-tessa", "--format", "nccl-xml"]);
    let wide = "link_width=\"16\"";
    let narrow = |xml: &str| {
        // the card of mlx5_0, in a slot of half the width
        let (before, after) = xml.rsplit_once("class=\"0x020000\"").unwrap();
        format!("{before}class=\"0x020000\"{}", after.replacen(wide, "link_width=\"8\"", 1))
    };
    of_real_nodes(&file, &|node| Some(if node == 3 { narrow(&xml) } else { xml.clone() }));
    let judged = json_of(&peerlane(&["check", &name, "--json"]));
    let found: Vec<(&str, &str)> = judged["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|f| Some((f["rule"].as_str()?, f["subjects"][0].as_str()?)))
        .collect();
    assert!(found.contains(&("narrow-nic", "node3/mlx5_0")), "{found:?}");
    assert!(!found.contains(&("slow-nic", "node3/mlx5_0")), "its link explains what it reaches: {found:?}");
    assert!(found.iter().any(|(rule, of)| *rule == "slow-nic" && of.starts_with("node3/")), "{found:?}");
    let writes = |gpus: bool| {
        let of = move |pair: &&serde_json::Value| pair["probe"] == "write" && pair["gpus"].is_array() == gpus;
        judged["pairs"].as_array().unwrap().iter().filter(of)
    };
    // GPU memory: no more than host memory by the same NICs, and within what the model allows
    for pair in writes(true) {
        let [from, to] = ["from", "to"].map(|end| pair[end].as_str().unwrap());
        let by_host = writes(false).find(|host| host["from"] == from && host["to"] == to).unwrap();
        let [expected, most] = [&pair["expected"], &by_host["measured"]].map(|rate| rate.as_f64().unwrap());
        assert!(expected <= most * 1.000_001, "{pair} {by_host}");
        // what host memory reached may leave one number
        let least = pair["expected_range"][0].as_f64().unwrap_or(expected);
        assert!(least < pair["measured"].as_f64().unwrap() && pair["bound_by"].is_string(), "{pair}");
    }
    for pair in writes(false) {
        let [from, to] = ["from", "to"].map(|end| pair[end].as_str().unwrap());
        let of_narrow = [from, to].iter().any(|end| ["node3/mlx5_0", "node3/mlx5_1"].contains(end));
        let (expected, why) = (pair["expected"].as_f64().unwrap() / 1e9, pair["bound_by"].as_str().unwrap());
        if of_narrow {
            assert!((6.0..7.5).contains(&expected) && why.contains("x8"), "{pair}");
        } else {
            assert!((11.0..13.0).contains(&expected), "{pair}");
        }
    }
    // where peer traffic of all nodes is redirected, none stands out
    let mut run: serde_json::Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    for cell in run["cells"].as_array_mut().unwrap() {
        if cell["probe"] == "write" && cell["from"]["memory"]["device"].is_string() {
            for value in ["value", "low", "high"] {
                cell[value] = (0.2 * cell[value].as_f64().unwrap()).into();
            }
        }
    }
    let (redirected, redirected_name) = fresh("redirected.json");
    written(&redirected, &run);
    let shown = stdout(&peerlane(&["check", &redirected_name, "-v"]));
    assert!(shown.contains("\nGPU memory by verbs: 16 NICs as dmabuf.\n"), "{shown}");
    let judged = json_of(&peerlane(&["check", &redirected_name, "--json"]));
    let of_rule = judged["findings"].as_array().unwrap().iter().filter(|f| f["rule"] == "nic-gpu-slow");
    let summaries: Vec<&str> = of_rule.filter_map(|f| f["summary"].as_str()).collect();
    let [only] = &summaries[..] else { panic!("{summaries:?}") };
    assert!(only.ends_with("of what the paths between NICs and GPUs should carry, on nearly all nodes"), "{only}");
    // one of the machines
    let map = out(&["map", &name, "--machine", "node3"]);
    assert!(map.contains("x8") && !out(&["map", &name, "--machine", "node1"]).contains("x8 "), "{map}");
    let redacted = peerlane(&["map", &name, "--machine", "1", "--redact"]);
    assert!(status(&redacted) == 0 && !stdout(&redacted).contains("node0"), "{}", err(&redacted));
}

#[test]
fn check_of_a_record_has_the_formats_and_settings_of_machines() {
    let (_, file) = fresh("formats.json");
    out(&["measure", "cluster:quong", "--faults", "slow-node:node3:0.5", "-o", &file]);
    let formatted = |format: &str| stdout(&peerlane(&["check", &file, "--format", format]));
    let junit = formatted("junit");
    assert!(junit.contains("<testsuite name=\"quong\" tests=\"18\" failures=\"1\" skipped=\"0\">"), "{junit}");
    assert!(junit.contains("name=\"slow-node: node3\""), "{junit}");
    let markdown = formatted("markdown");
    assert!(markdown.starts_with("## quong: 16 nodes") && markdown.contains("\n| from | to | what |"), "{markdown}");
    let prometheus = formatted("prometheus");
    let is = |start: &str| prometheus.lines().filter(|line| line.starts_with(start)).count();
    // each node's NIC: what it sends, receives, and its loopback; its GPU by the NIC, directly and staged; and by NCCL
    assert_eq!(is("peerlane_end_bandwidth_bytes_per_second{"), 16 * 8, "{prometheus}");
    assert!(prometheus.contains("node=\"node3\",nic=\"apenet0\",gpu=\"GPU0\",transport=\"verbs\",test=\"write\""));
    assert_eq!(is("peerlane_verdict{machine=\"quong\",verdict=\"fault\"} 1"), 1, "{prometheus}");
    assert_eq!(is("peerlane_finding{machine=\"quong\",rule=\"slow-node\""), 1, "{prometheus}");
    let waive = "[[waive]]\nrule = \"slow-node\"\nmachines = [\"quong\"]\nreason = \"its NIC is on order\"\n";
    let rules = crate::common::file("nodes", "rules.toml", waive);
    let accepted = out(&["check", &file, "--rules", &rules]);
    assert!(accepted.contains("\nHEALTHY  ") && accepted.contains("1 finding accepted by the site"), "{accepted}");
    let redacted = json_of(&peerlane(&["check", &file, "--redact", "--json"]));
    assert!(!redacted.to_string().contains("node3"), "{redacted:#}");
    assert_eq!(redacted["findings"].as_array().unwrap().len(), 1);
}

#[test]
fn the_page_of_a_record_has_its_findings_and_every_node() {
    let (_, file) = fresh("page.json");
    out(&["measure", "cluster:quong", "--faults", "slow-node:node3:0.5", "-o", &file]);
    let (html, name) = fresh("page.html");
    out(&["report", &file, "-o", &name]);
    let page = crate::report::document(&fs::read_to_string(&html).unwrap());
    let schema = serde_json::from_str(include_str!("../../../../schema/fleet-page-1.json")).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let wrong: Vec<String> = validator.iter_errors(&page).map(|e| format!("{} {e}", e.instance_path())).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    assert_eq!((page["nodes"]["verdict"].as_str(), page["outliers"][0]["machine"].as_u64()), (Some("FAULT"), Some(3)));
    // what is measured and expected are those of the finding
    let half = page["outliers"][0]["measured"].as_f64().unwrap() / page["outliers"][0]["expected"].as_f64().unwrap();
    assert!((half - 0.5).abs() < 0.02, "{half}");
    let machines = page["machines"].as_array().unwrap();
    assert_eq!(
        (machines.len(), page["tests"].as_array().unwrap().len()),
        (16, 5 * 16),
        "a column a node, of five kinds: what all reach together is none"
    );
    // a row sends, a column receives; of writes node3 is slow in both
    let writes = page["nodes"]["values"].as_array().unwrap().iter().position(|of| of["name"] == "verbs write").unwrap();
    for (row, machine) in machines.iter().enumerate() {
        for (test, score) in page["tests"].as_array().unwrap().iter().zip(machine["scores"].as_array().unwrap()) {
            let Some(score) = score.as_u64().filter(|_| test["values"] == writes) else { continue };
            let slow = row == 3 || test["node"] == 3;
            assert!(if slow { score < 550 } else { score > 900 }, "{row} {test}: {score}");
        }
    }
    let shares: Vec<u64> =
        page["nodes"]["pairs"].as_array().unwrap().iter().map(|pair| pair["score"].as_u64().unwrap()).collect();
    assert!(shares.is_sorted() && shares[0] < 550, "the worst come first: {shares:?}");
    // check writes the same page, and --redact leaves no name
    assert_eq!(status(&peerlane(&["check", &file, "--html", &name, "--redact"])), 1);
    let redacted = fs::read_to_string(&html).unwrap();
    assert!(redacted.contains("FAULT") && !redacted.contains("node3"));
    let refused = peerlane(&["report", &file, "-o", &name, "--machine", "a"]);
    assert!(status(&refused) == 2 && err(&refused).contains("--machine is for machines"), "{}", err(&refused));
}

#[test]
fn the_page_lists_all_reduces_and_where_they_drop() {
    let (_, file) = fresh("groups.json");
    out(&["measure", "cluster:hgx-h200-x32", "--faults", "slow-gpus:node9:0.5", "--transport", "nccl", "-o", &file]);
    let (html, name) = fresh("groups.html");
    out(&["report", &file, "-o", &name]);
    let page = crate::report::document(&fs::read_to_string(&html).unwrap());
    let groups = page["nodes"]["groups"].as_array().unwrap();
    let planned: Vec<&serde_json::Value> = groups
        .iter()
        .filter(|of| of["members"] == format!("node0 to node{}", of["nodes"].as_u64().unwrap() - 1))
        .collect();
    let of = |nodes: u64| planned.iter().find(|of| of["nodes"] == nodes).unwrap();
    assert_eq!((of(8)["gpus"].as_u64(), of(8)["slow"].as_str()), (Some(64), Some("")));
    assert_eq!(of(16)["slow"].as_str(), Some("node9"), "{groups:#?}");
    for (nodes, slow) in [(2, false), (4, false), (8, false), (16, true), (32, true)] {
        let group = if nodes == 2 { groups.iter().find(|of| of["nodes"] == 2).unwrap() } else { of(nodes) };
        let score = group["score"].as_u64().unwrap();
        assert_eq!(score < 600, slow, "{group}");
    }
    assert!(groups.len() > 5, "halves of those that joined: {groups:#?}");
    let pairs = page["nodes"]["pairs"].as_array().unwrap();
    assert!(pairs.iter().all(|pair| pair["what"] != "nccl all-reduce"), "between no two nodes");
}

#[test]
fn two_records_of_a_cluster_are_compared() {
    let (_, healthy) = fresh("before.json");
    let (_, slow) = fresh("after.json");
    let (_, other) = fresh("other.json");
    out(&["measure", "cluster:quong", "-o", &healthy]);
    out(&["measure", "cluster:quong", "--faults", "slow-node:node3:0.7", "-o", &slow]);
    out(&["measure", "cluster:tessa-pair", "--transport", "verbs", "-o", &other]);
    let worse = out(&["compare", &healthy, &slow]);
    assert!(worse.contains("WORSE    node3 has"), "{worse}");
    assert!(worse.lines().all(|line| line.chars().count() <= 100), "{worse}");
    let better = out(&["compare", &slow, &healthy]);
    assert!(better.contains("BETTER   this is over: node3 has"), "{better}");
    assert!(out(&["compare", &slow, &slow]).contains("nothing changed beyond noise"));
    let document = json(&["compare", &healthy, &slow, "--json"]);
    assert_eq!(
        (document["schema"].as_str(), &document["worse"][0]["rule"]),
        (Some("peerlane/nodes-compare/1"), &"slow-node".into())
    );
    let baseline = stdout(&peerlane(&["check", &slow, "--baseline", &healthy]));
    assert!(baseline.contains("since the earlier record, node3 has"), "{baseline}");
    let alone = refused(&["compare", &healthy, &other]);
    assert!(alone.contains("have no value of the same nodes and NICs"), "{alone}");
    assert!(refused(&["compare", &healthy, &healthy, &slow]).contains("two at a time"));
    assert!(refused(&["compare", &healthy, "7gforce"]).contains("no record between nodes"));
}

#[test]
fn options_of_machines_and_unknown_faults_are_refused() {
    // each round is of all nodes, and its values take memory
    let many =
        "name = \"many\"\nnode = \"hgx-h200\"\nnodes = 1000000\n[network]\nshape = \"rail:2\"\nhop_latency_us = 0.2\n";
    let many = format!("cluster:{}", crate::common::file("nodes", "many.toml", many));
    for (args, expected) in [
        (&["measure", "cluster:quong", "--quick"][..], "--quick is for one machine"),
        (&["measure", "cluster:quong", "--faults", "slow:node1"], "no such fault; write slow-node:NODE:SHARE"),
        (&["measure", "cluster:quong", "--faults", "slow-node:node16:0.5"], "its nodes are node0 to node15"),
        (&["measure", "cluster:quong", "--budget", "1s"], "allow that with --budget"),
        (&["measure", &many], "1000000 nodes; a simulated measurement has at most 2048"),
        (&["measure", "cluster:nothing"], "no cluster 'nothing'; there are apenet-pair, "),
        (&["measure", "h200x4-vm", "--all-pairs"], "--all-pairs is for clusters"),
    ] {
        let said = refused(args);
        assert!(said.contains(expected), "{args:?}: {said}");
    }
}

#[test]
fn leaf_switches_and_their_uplinks_are_inferred_from_a_record() {
    let mut text = String::from(
        "name = \"two-leaves\"\nnode = \"hpcac-tessa\"\nnodes = 8\n[network]\nshape = \"links\"\nhop_latency_us = 0.2\n",
    );
    for (node, nic) in (0..8).flat_map(|node| (0..4).map(move |nic| (node, nic))) {
        let ends = format!("\"node{node}/mlx5_{nic}\", \"leaf{}\"", node / 4);
        text += &format!("[[links]]\nbetween = [{ends}]\nrate = 40.0\n");
    }
    // 16 NICs below each leaf, and half of what they carry above
    (0..2).for_each(|leaf| text += &format!("[[links]]\nbetween = [\"leaf{leaf}\", \"spine\"]\nrate = 320.0\n"));
    let cluster = crate::common::file("nodes", "two-leaves.toml", &text);
    let (_, plain) = fresh("leaves.json");
    let (_, loaded) = fresh("uplinks.json");
    let target = format!("cluster:{cluster}");
    let base = ["measure", &target, "--transport", "verbs"];
    out(&[&base[..], &["-o", &plain]].concat());
    out(&[&base[..], &["--uplinks", "-o", &loaded]].concat());
    let first = |file: &str| out(&["infer", file]).split("\n\n").next().unwrap_or_default().replace('\n', " ");
    assert_eq!(
        (first(&plain).as_str(), first(&loaded).as_str()),
        (
            "two-leaves, 8 nodes: 2 leaf switches, and links above them that carried all that was sent at once",
            "two-leaves, 8 nodes: 2 leaf switches, and links above them that are 2.0 times oversubscribed"
        )
    );
    let shown = out(&["infer", &plain]);
    assert!(shown.contains("measure --uplinks"), "{shown}");
    let document = json(&["infer", &loaded, "--json"]);
    let (kept, name) = fresh("inference.json");
    out(&["infer", &loaded, "-o", &name]);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&fs::read_to_string(&kept).unwrap()).unwrap(), document);
    let schema = serde_json::from_str(include_str!("../../../../schema/nodes-inference-1.json")).unwrap();
    assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&document));
    let rails = document["rails"].as_array().unwrap();
    assert_eq!((rails.len(), &rails[0]["groups"][1]["nodes"][0]), (4, &"node4".into()));
    let shown = out(&["infer", &loaded]);
    assert!(shown.contains("mlx5_0–mlx5_3 (verbs)") && shown.contains("node0–node3: "), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 100), "{shown}");
    // nothing of the cluster file is looked at, and what loads links accuses nobody
    let mut run: serde_json::Value = serde_json::from_str(&fs::read_to_string(&loaded).unwrap()).unwrap();
    run.as_object_mut().unwrap().remove("cluster");
    let (file, name) = fresh("unknown.json");
    written(&file, &run);
    assert_eq!(json(&["infer", &name, "--json"])["rails"], document["rails"]);
    for record in [&loaded, &name] {
        assert!(out(&["check", record]).contains("HEALTHY"), "{record}");
    }
}
