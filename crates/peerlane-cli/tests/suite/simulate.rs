//! `simulate` and `sweep` as a user runs them.

use peerlane::evidence::{Files, Item, pack};

use crate::common::{file, json, out, path, refused};

#[test]
fn the_json_is_of_its_schema() {
    for args in [
        vec!["simulate", "h200x4-vm", "--sizes", "8B..1MiB", "--helps", "--json"],
        vec!["simulate", "quong", "-w", "spin-glass:l=128", "--json"],
        vec!["simulate", "quong-20g", "-w", "spin-glass:l=64", "--scaling", "strong", "--json"],
        vec!["sweep", "exxact-devbox", "exxact-txr550", "-w", "all-to-all", "-w", "halo:2", "--json"],
    ] {
        let document = json(&args);
        let name = document["schema"].as_str().unwrap().trim_start_matches("peerlane/").replace('/', "-");
        let path = format!("{}/../../schema/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let schema: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let errors: Vec<String> =
            jsonschema::validator_for(&schema).unwrap().iter_errors(&document).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{args:?}: {errors:?}");
    }
}

#[test]
fn tables_fit_and_sizes_are_those_asked_for() {
    let text = out(&["simulate", "hgx-h200-x32", "-w", "all-reduce:rail", "--sizes", "1MiB,1GiB", "--helps", "-v"]);
    assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
    assert!(
        text.contains("all-reduce:rail on 256 GPUs") && text.contains("  1 MiB ") && text.contains("  1 GiB "),
        "{text}"
    );
    assert!(text.contains("What would help"), "{text}");
}

#[test]
fn scaling_is_a_table_a_plot_and_a_file() {
    let path = file("simulate", "scaling.csv", "");
    let rails = ["simulate", "hgx-h200", "--nodes", "40", "--network", "rail", "-w", "all-reduce:rail", "-s", "1GiB"];
    let text = out(&[&rails[..], &["--scaling", "weak", "--csv", &path, "-v"]].concat());
    assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
    let rows: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
    let counts: Vec<&str> = rows.iter().filter(|r| r.len() > 7 && r[2] == "1").map(|r| r[0]).collect();
    assert_eq!(counts, ["1", "2", "4", "8", "16", "32", "40"], "{text}");
    assert!(text.contains("speed-up (o) and ideal speed-up (·) by number of nodes"), "{text}");
    let csv = std::fs::read_to_string(&path).unwrap();
    assert_eq!(csv.lines().count(), 8);
    assert!(
        csv.lines().nth(2).unwrap().starts_with("\"40 × hgx-h200, rail\",\"all-reduce:rail\",weak,2,16,1073741824,")
    );
    // the numbers that are given, and the nodes that a cluster has
    let text = out(&["simulate", "quong", "-w", "halo:2", "-s", "1MiB", "--scaling", "strong", "--use-nodes", "6"]);
    assert!(text.contains("\n      6    12  "), "{text}");
    let rails = ["simulate", "hgx-h200", "--nodes", "9,3", "--network", "rail", "-s", "1MiB", "--scaling", "strong"];
    let text = out(&rails);
    assert!(text.contains("\n      3    24 ") && text.contains("\n      9    72 "), "{text}");
    assert!(refused(&["simulate", "quong", "--scaling", "up"]).contains("write weak or strong"));
    assert!(refused(&["simulate", "quong", "--csv", "x.csv"]).contains("--scaling"));
    assert!(refused(&["simulate", "quong", "-w", "bfs", "--scaling", "weak"]).contains("only strong scaling"));
}

#[test]
fn the_exxact_designs_are_ranked_as_the_document_says() {
    let path = format!("{}/../../docs/simulation.md", env!("CARGO_MANIFEST_DIR"));
    let document = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = document.split_once("```text\n$ peerlane sweep exxact-").unwrap();
    let (command, rest) = rest.split_once('\n').unwrap();
    let (old, after) = rest.split_once("```\n").unwrap();
    let command = format!("sweep exxact-{command}");
    let args: Vec<&str> = command.split_whitespace().collect();
    let text = out(&args);
    assert!(text.lines().all(|l| l.chars().count() <= 100), "{text}");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{before}```text\n$ peerlane {command}\n{text}```\n{after}")).unwrap();
    } else {
        assert_eq!(old, text, "docs/simulation.md is stale: UPDATE_DOCS=1 cargo test -p peerlane-cli simulate::");
    }
    // the article's argument: one root complex before two sockets, and switches before both
    let args: Vec<&str> = args.iter().copied().filter(|a| *a != "--rank").chain(["--json"]).collect();
    let sweep = json(&args);
    let sent = |target: &str, workload: &str| {
        let all = sweep["simulations"].as_array().unwrap();
        let found = all.iter().find(|s| s["target"] == target && s["workload"] == workload).unwrap();
        found["points"][0]["sent"].as_f64().unwrap()
    };
    for workload in ["all-reduce:ring", "all-to-all", "halo:2"] {
        assert!(sent("exxact-devbox", workload) > 1.5 * sent("exxact-traditional", workload), "{workload}");
        assert!(sent("exxact-txr550", workload) > 1.3 * sent("exxact-txr430", workload), "{workload}");
    }
    assert!(sent("exxact-txr414", "all-to-all") > 0.9 * sent("exxact-traditional", "all-to-all"));
    for slower in ["exxact-devbox", "exxact-txr550", "exxact-txr430", "exxact-traditional"] {
        assert!(sent("exxact-txr414", "all-reduce:ring") > sent(slower, "all-reduce:ring"), "{slower}");
    }
}

#[test]
fn the_catalogue_lists_its_clusters() {
    let list = out(&["systems"]);
    for name in peerlane::cluster::cluster_names() {
        assert!(list.lines().any(|l| l.starts_with(&format!("{name} "))), "{name}: {list}");
        let text = out(&["systems", "show", name]);
        assert!(text.contains("network: ") && text.lines().all(|l| l.chars().count() <= 100), "{text}");
    }
    let text = out(&["systems", "show", "quong"]);
    assert!(text.contains("16 of quong-node ('peerlane systems show quong-node'), 32 GPUs in all"), "{text}");
    assert!(text.contains("a torus of 4 × 4 × 1, links of 34.00 Gb/s each way"), "{text}");
    for args in [vec!["systems", "--json"], vec!["systems", "show", "tessa-pair", "--json"]] {
        let document = json(&args);
        let tessa = document["clusters"].as_array().unwrap().iter().find(|c| c["name"] == "tessa-pair").unwrap();
        assert_eq!((tessa["nodes"].as_u64(), tessa["gpus"].as_u64()), (Some(2), Some(8)), "{tessa}");
    }
}

#[test]
fn a_sweep_ranks_designs() {
    let csv = file("simulate", "sweep.csv", "");
    let designs = ["exxact-txr550", "exxact-devbox", "exxact-txr430"];
    let mut args = vec!["sweep", "-w", "all-to-all", "--csv", &csv];
    args.extend(designs);
    let text = out(&args);
    let at = |name: &str| text.find(name).unwrap_or_else(|| panic!("{name}: {text}"));
    assert!(at("exxact-devbox") < at("exxact-txr550") && at("exxact-txr550") < at("exxact-txr430"), "{text}");
    let rows = std::fs::read_to_string(csv).unwrap();
    assert_eq!(rows.lines().count(), 4, "{rows}");
    assert!(rows.starts_with("target,workload,gpus,size,time_s,"), "{rows}");
}

#[test]
fn a_chart_has_a_curve_for_each_target() {
    let chart = file("simulate", "chart.svg", "");
    let sizes =
        ["simulate", "exxact-devbox", "exxact-txr550", "-w", "all-to-all", "-s", "1MiB..16MiB", "--svg", &chart];
    assert!(out(&sizes).contains("16 MiB"));
    let svg = std::fs::read_to_string(&chart).unwrap();
    for words in
        ["<title>all-to-all</title>", ">1 MiB<", ">16 MiB<", ">exxact-devbox<", ">exxact-txr550<", ">algbw GB/s<"]
    {
        assert!(svg.contains(words), "{words}: {svg}");
    }
    out(&["simulate", "quong", "-w", "halo:2", "-s", "1MiB", "--scaling", "weak", "--svg", &chart]);
    let svg = std::fs::read_to_string(&chart).unwrap();
    assert!(svg.contains("<title>halo:2, weak scaling</title>") && svg.contains(">speed-up<"), "{svg}");
    // one point is no curve, and the chart that was there stays
    let error = refused(&["simulate", "quong", "-w", "spin-glass:l=64", "--svg", &chart]);
    assert!(error.contains("needs several sizes, or --scaling"), "{error}");
    assert_eq!(std::fs::read_to_string(&chart).unwrap(), svg);
}

#[test]
fn a_trace_runs_and_is_drawn() {
    let trace = file(
        "simulate",
        "two.jsonl",
        "{\"id\":\"a\",\"from\":\"GPU0\",\"to\":\"GPU1\",\"bytes\":1e6}\n{\"on\":\"GPU1\",\"seconds\":1e-3,\"after\":[\"a\"]}\n",
    );
    let picture = file("simulate", "two.json", "");
    let text = out(&["simulate", "exxact-devbox", "-w", &trace, "--trace", &picture]);
    assert!(text.contains("GPUs compute"), "{text}");
    let drawn: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(picture).unwrap()).unwrap();
    let events = drawn["traceEvents"].as_array().unwrap();
    let spans: Vec<_> = events.iter().filter(|e| e["ph"] == "X").collect();
    assert_eq!(spans.iter().map(|span| span["name"].as_str().unwrap()).collect::<Vec<_>>(), ["to GPU1", "compute"]);
    assert!((spans[1]["dur"].as_f64().unwrap() - 1000.0).abs() < 1e-6);
}

#[test]
fn a_cluster_of_ones_own() {
    let path = file(
        "simulate",
        "pair.toml",
        "name = \"pair\"\nnode = \"hgx-h200\"\nnodes = 2\n[network]\nshape = \"switch\"\nrate = 200\n",
    );
    let message = "point-to-point:node0/GPU3:node1/GPU3";
    let text = out(&["simulate", &path, "-w", message, "-s", "1GiB"]);
    assert!(text.contains("node# port# to switch"), "{text}");
}

#[test]
fn what_cannot_be_is_said() {
    let circle = file("simulate", "circle.jsonl", "{\"id\":\"a\",\"on\":\"GPU0\",\"seconds\":1,\"after\":[\"a\"]}\n");
    let hgx = ["simulate", "hgx-h200", "--network", "rail", "--nodes"];
    let with = |more: &[&'static str]| [&hgx[..], more].concat();
    let grown = [
        (with(&["0"]), "at least one node"),
        (with(&["4000000000"]), "ports; a network has 1 to"),
        (with(&["2", "--hop-latency", "nan"]), "--hop-latency"),
        (with(&["2", "--link-rate=-1"]), "--link-rate"),
        (with(&["2", "--use-nodes", "0"]), "0 nodes with 8 GPUs were requested"),
        (with(&["2", "--gpus-per-node", "0"]), "2 nodes with 0 GPUs were requested"),
        (with(&["2", "--fail", "uplink:leaf0/99"]), "uplink:leaf0/99"),
    ];
    for (args, expected) in &grown {
        let message = refused(args);
        assert!(message.contains(expected), "{args:?}: {message}");
    }
    let cases: [(&[&str], &str); 14] = [
        (&["simulate", "exxact-devbox", "-w", "all-reduce:star"], "no such workload; there are"),
        (&["simulate", "exxact-devbox", "-w", &circle], "line 1: it waits for itself"),
        (&["simulate", "exxact-devbox", "-w", "point-to-point:GPU0:GPU7"], "no node 'GPU7'; the nodes are: GPU0–GPU3"),
        (&["simulate", "exxact-devbox", "--nodes", "2", "--network", "switch"], "has no NIC"),
        (&["simulate", "quong", "--nodes", "2", "--network", "switch"], "is already a cluster"),
        (&["simulate", "hgx-h200", "--nodes", "3", "--network", "torus:2x2"], "not as many places"),
        (&["simulate", "hgx-h200", "--nodes", "2", "--network", "switch", "--link-rate", "0"], "must be above 0"),
        (&["simulate", "hgx-h200", "--nodes", "2", "--network", "switch", "--link-rate", "nan"], "--link-rate"),
        (&["simulate", "quong", "--use-nodes", "17"], "has 16 nodes"),
        (&["simulate", "quong", "--sizes", "1GiB..1B"], "ends below"),
        (&["simulate", "quong", "--sizes", "1 parsec"], "write a size as"),
        (&["simulate", "quong", "--sizes", "nan"], "write a size as"),
        (&["simulate", "quong", "--sizes", "1e9GiB"], "write a size as"),
        (&["check", "quong"], "quong is a cluster: use 'simulate' or 'sweep', or its node quong-node"),
    ];
    for (args, expected) in cases {
        let message = refused(args);
        assert!(message.contains(expected), "{args:?}: {message}");
    }
}

/// The example's folder, and a copy of it in which a text stands for another on one rank.
fn traces(name: &str, rank: usize, [from, to]: [&str; 2]) -> String {
    let folder = path("simulate", name);
    std::fs::create_dir_all(&folder).unwrap();
    for at in 0..2 {
        let one = format!("rank{at}.json");
        let text = std::fs::read_to_string(crate::docs::root().join("examples/trace").join(&one)).unwrap();
        let changed = if at == rank { text.replacen(from, to, 1) } else { text.clone() };
        assert!(at != rank || from == to || changed != text, "{from}");
        std::fs::write(folder.join(one), changed).unwrap();
    }
    folder.to_str().unwrap().to_owned()
}

#[test]
fn a_recorded_step_is_played_beside_its_record() {
    let whole = traces("whole", 0, ["", ""]);
    let json = |args: &[&str]| json(&[&["simulate", "h200x4-vm", "--json"], args].concat());
    let step = json(&["-w", &whole]);
    let of = |document: &serde_json::Value, key: &str| document["trace"]["simulated"][key].as_f64().unwrap();
    assert!((of(&step, "computing") * 1e6 - 3470.0).abs() < 1e-6 && step["trace"]["recorded"]["exposed"] == 0.00034);
    // files one by one are the folder
    let names = [format!("{whole}/rank1.json"), format!("{whole}/rank0.json")];
    let apart = json(&["-w", &names[0], "-w", &names[1]]);
    assert_eq!(apart["trace"]["simulated"], step["trace"]["simulated"]);
    // a slower way exposes more, and other GPUs compute in less
    let slower = json(&["-w", &whole, "--what-if", "GPU0-nvswitch=nvlink 4 x9"]);
    assert!(of(&slower, "exposed") > 1.5 * of(&step, "exposed"), "{slower}");
    let faster = json(&["-w", &whole, "--compute-scale", "0.5"]);
    assert!((of(&faster, "computing") / of(&step, "computing") - 0.5).abs() < 1e-9);
    let text = out(&["simulate", "h200x4-vm", "-w", &whole, "--helps"]);
    for words in ["recorded us", "exposed communication", "all-reduce", "What would help"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let error = refused(&["simulate", "hgx-h200-x32", "-w", &whole, "--scaling", "weak"]);
    assert!(error.contains("fixed number of nodes"), "{error}");
    let error = refused(&["simulate", "h200x4-vm", "-w", &whole, "-w", "all-reduce"]);
    assert!(error.contains("several -w are the files of one trace"), "{error}");
}

#[test]
fn recorded_steps_that_do_not_match_are_refused() {
    let bytes =
        traces("bytes", 1, ["nelems\": 67108864, \"Out msg nelems\": 67108864", "nelems\": 7, \"Out msg nelems\": 7"]);
    let error = refused(&["simulate", "h200x4-vm", "-w", &bytes]);
    assert!(error.contains("all-reduce, has 128 MiB on rank 0 and 14 B on rank 1"), "{error}");
    let kind = traces("kind", 1, ["\"allreduce\"", "\"_allgather_base\""]);
    let error = refused(&["simulate", "h200x4-vm", "-w", &kind]);
    assert!(
        error.contains("collective 1 among ranks 0 to 1 is all-reduce on rank 0 and all-gather on rank 1"),
        "{error}"
    );
    let cut = traces("cut", 1, ["\n]}\n", "\n"]);
    let error = refused(&["simulate", "h200x4-vm", "-w", &cut]);
    assert!(error.contains("rank1.json: a profile of PyTorch that is cut off"), "{error}");
    let error = refused(&["simulate", "h200x4-vm", "-w", "gone/rank0.et"]);
    assert!(error.contains("gone/rank0.et"), "{error}");
    let seed = crate::docs::root().join("fuzz/seeds/recording/chakra.et");
    let error = refused(&["check", seed.to_str().unwrap()]);
    assert!(error.contains("an execution trace of Chakra, 1 rank, 3 records; communication: 1 all-reduce"), "{error}");
    let text = out(&["simulate", "h200x4-vm", "-w", seed.to_str().unwrap()]);
    assert!(text.contains("One trace is given for 4 ranks"), "{text}");
}

#[test]
fn every_kind_of_trace_is_said_and_played() {
    for (name, what, played) in [
        (
            "nsys.jsonl",
            "an export of Nsight Systems, 2 ranks, 8 records; communication of a rank: 1 all-reduce",
            "recorded us",
        ),
        ("plugin.json", "events of NCCL's profiler plugin, 2 ranks, 2 records", "all-reduce"),
        ("inspector.json", "AllGather of a job", "all-gather"),
        ("host.json", "PyTorch's trace of the host, 1 rank, 2 records", "no times: collectives are"),
        ("plan.json", "an execution plan of MSCCL++, all-reduce 'halves', 2 GPUs", "'halves' of MSCCL++ at 1 MiB"),
    ] {
        let seed = crate::docs::root().join("fuzz/seeds/recording").join(name);
        let seed = seed.to_str().unwrap();
        let said = match name {
            "inspector.json" => out(&["check", "-v", seed]),
            _ => refused(&["check", seed]),
        };
        assert!(said.contains(what), "{name}: {said}");
        let sizes: &[&str] = if name == "plan.json" { &["--sizes", "1MiB"] } else { &[] };
        let text = out(&[&["simulate", "h200x4-vm", "-w", seed], sizes].concat());
        assert!(text.contains(played), "{name}: {text}");
        let json = json(&[&["simulate", "h200x4-vm", "--json", "-w", seed], sizes].concat());
        assert!(json["trace"]["simulated"]["time"].as_f64().unwrap() > 0.0, "{json}");
    }
}

#[test]
fn a_trace_may_lie_deep_in_a_folder_or_in_an_archive() {
    let seed = std::fs::read(crate::docs::root().join("fuzz/seeds/recording/chakra.et")).unwrap();
    let mut files = Files::default();
    let deep = path("simulate", "deep");
    std::fs::create_dir_all(deep.join("run/traces")).unwrap();
    for rank in 0..2 {
        let name = format!("run/traces/t.{rank}.et");
        std::fs::write(deep.join(&name), &seed).unwrap();
        files.insert(&name, Item::File(seed.clone()));
    }
    let packed = path("simulate", "traces.tar.zst");
    std::fs::write(&packed, pack(&files, 0).unwrap()).unwrap();
    let [deep, packed] = [&deep, &packed].map(|path| path.to_str().unwrap());
    let played = |at: &str| json(&["simulate", "h200x4-vm", "--json", "-w", at])["trace"]["simulated"].clone();
    assert_eq!(played(deep), played(packed));
    for at in [deep, packed] {
        let said = refused(&["check", at]);
        assert!(said.contains("t.1.et: an execution trace of Chakra, 1 rank, 3 records"), "{said}");
        assert!(!said.contains("nothing recognised"), "{said}");
    }
    assert!(refused(&["check", packed]).contains("traces.tar.zst'"), "the archive is what is played");
}

#[test]
fn a_computed_step_has_a_timeline() {
    let path = file("simulate", "step-timeline.json", "");
    let workload = "training:model=llama-3-8b,tp=2,pp=2,batch=16";
    let step = json(&["simulate", "hgx-h100", "-w", workload, "--json", "--trace", &path]);
    let trace: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    let of_first = |event: &&serde_json::Value| event["ph"] == "X" && event["pid"] == 0 && event["tid"] == 0;
    let all = trace["traceEvents"].as_array().unwrap();
    let time: f64 = all.iter().filter(of_first).map(|event| event["dur"].as_f64().unwrap()).sum();
    let printed = step["step"]["time"].as_f64().unwrap() * 1e6;
    assert!((time / printed - 1.0).abs() < 1e-6, "{time} us for {printed}");
}
