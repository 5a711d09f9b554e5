//! `fleet`: whose a record is, what is read and what is not, and that sound machines are not accused.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use peerlane::run::unsealed;
use serde_json::Value;

use crate::common::{command, err, path, with_input};

/// A new folder.
fn folder(name: &str) -> PathBuf {
    let folder = path("fleet", name);
    drop(fs::remove_dir_all(&folder));
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn run(folder: &Path, args: &[&str]) -> Output {
    command(args).current_dir(folder).output().unwrap()
}

fn document(folder: &Path, args: &[&str]) -> Value {
    let output = run(folder, &[&["fleet", "--json"], args].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", err(&output)))
}

fn captured(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures").join(name);
    fs::read_to_string(path).unwrap()
}

/// The record of a sound machine under another name.
fn of(host: &str) -> String {
    captured("h200x2-vm-runs/default.json").replace("\"host\":\"vm\"", &format!("\"host\":\"{host}\""))
}

fn machines(document: &Value) -> Vec<(String, u64)> {
    let all = document["machines"].as_array().unwrap().iter();
    all.map(|m| (m["name"].as_str().unwrap().to_owned(), m["records"].as_u64().unwrap())).collect()
}

#[test]
fn folders_streams_and_what_cannot_be_read() {
    let folder = folder("fleet-read");
    for path in ["runs/node1", "runs/node2"] {
        fs::create_dir_all(folder.join(path)).unwrap();
    }
    let text = of("localhost");
    fs::write(folder.join("runs/node1/run.json"), &text).unwrap();
    fs::write(folder.join("runs/node2/run.json"), text.replace("580.159.04", "580.159.05")).unwrap();
    fs::write(folder.join("runs/node3-20261101T0200.json"), of("node3")).unwrap();
    fs::write(folder.join("runs/copy.json"), of("node3")).unwrap();
    fs::write(folder.join("runs/cut.json"), &text[..text.len() / 2]).unwrap();
    fs::write(folder.join("runs/empty.json"), "").unwrap();
    fs::write(folder.join("runs/latin.json"), [b'{', 0xe9, 0xff]).unwrap();
    fs::write(folder.join("runs/other.json"), "{\"schema\": \"peerlane/inference/2\"}").unwrap();
    fs::write(folder.join("runs/notes.txt"), "a person wrote this").unwrap();
    let found = document(&folder, &["runs"]);
    assert_eq!(machines(&found), [("node1".into(), 1), ("node2".into(), 1), ("node3".into(), 1)]);
    let unread: Vec<&str> = found["unread"].as_array().unwrap().iter().map(|u| u["name"].as_str().unwrap()).collect();
    assert_eq!(unread, ["runs/cut.json", "runs/empty.json", "runs/latin.json"]);
    assert_eq!(found["outliers"].as_array().unwrap().len(), 0, "{found:#}");
    // labels stand in front of lines that mix
    let one = |label: &str, text: &str| text.lines().map(|l| format!("{label}: {l}\n")).collect::<Vec<_>>();
    let (a, b) = (one("gpu-7", &text), one("gpu-8", &text.replace("580.159.04", "580.159.06")));
    let mixed: String = a.iter().zip(&b).flat_map(|(a, b)| [a.as_str(), b.as_str()]).collect();
    let output = with_input(&["fleet", "--json", "-"], (mixed + "gpu-9: bash: peerlane: not found\n").as_bytes());
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(machines(&found), [("gpu-7".into(), 1), ("gpu-8".into(), 1)]);
    assert_eq!((output.status.code(), found["unread"][0]["name"].as_str()), (Some(2), Some("-:gpu-9")));
}

#[test]
fn runs_of_one_machine_are_its_history() {
    let folder = folder("fleet-history");
    let text = of("node1");
    for (at, name) in ["a.json", "b.json", "c.json", "d.json"].iter().enumerate() {
        // the CPU's times of one run differ from the next by half
        let began = format!("\"began\":{}", 1_795_357_805 + 1000 * at);
        fs::write(folder.join(name), text.replace("\"began\":1795357805", &began)).unwrap();
    }
    let found = document(&folder, &["."]);
    assert_eq!(machines(&found), [("node1".into(), 4)]);
    assert_eq!((found["outliers"].as_array().unwrap().len(), &found["kinds"][0]["compared"]), (0, &Value::Bool(false)));
}

#[test]
fn the_captured_runs_accuse_nobody_by_comparison() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures");
    let found = document(&folder, &["h200x4-vm-runs", "h200x2-vm-runs"]);
    let compared = |o: &&Value| matches!(o["rule"].as_str(), Some("outlier" | "worse-than-before"));
    let accused: Vec<&Value> = found["outliers"].as_array().unwrap().iter().filter(compared).collect();
    assert!(accused.is_empty(), "{accused:#?}");
    assert!(found["notes"][0].as_str().unwrap().contains("contradict each other"), "{found:#}");
}

#[test]
fn every_format_names_the_machine_at_fault() {
    let folder = folder("fleet-formats");
    for n in 0..8 {
        // a millionth more each, so that none is a copy
        let mut text = of(&format!("node{n}")).replace("\"wall\":5.12125", &format!("\"wall\":5.1212{n}"));
        if n == 5 {
            text = slower(&text);
        }
        fs::write(folder.join(format!("{n}.json")), text).unwrap();
    }
    let found = document(&folder, &["."]);
    let outliers = found["outliers"].as_array().unwrap();
    assert!(!outliers.is_empty() && outliers.iter().all(|o| o["machine"] == "node5"), "{found:#}");
    for format in ["text", "json", "csv", "junit", "prometheus", "markdown"] {
        let output = run(&folder, &["fleet", "--format", format, "."]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("node5"), "{format}: {text}");
        assert!(format != "text" || text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
    // `check` of many is the same
    let checked = run(&folder, &["check", "--json", "."]);
    assert_eq!(serde_json::from_slice::<Value>(&checked.stdout).unwrap(), found);
    // what was so before is no news, and what is worse since then is
    let before = document(&folder, &["5.json", "--baseline", "5.json"]);
    assert!(!before["outliers"].to_string().contains("worse-than-before"), "{before:#}");
}

/// The same record with copies from and to the host at half of their rates.
fn slower(text: &str) -> String {
    let mut run: Value = serde_json::from_str(text).unwrap();
    for cell in run["cells"].as_array_mut().unwrap() {
        if cell["test"].as_str().is_some_and(|test| test.starts_with("host")) {
            for field in ["value", "low", "high"] {
                cell[field] = (cell[field].as_f64().unwrap() / 2.0).into();
            }
        }
    }
    run.to_string()
}

/// What `peerlane gather` saves of a machine of the captures under another name, with a change of what NVML reports.
fn gathered(folder: &Path, host: &str, change: impl Fn(&str) -> String) {
    gathered_of("h200x4-vm-runs/default.json", folder, host, |name, text| {
        if name == "nvml.json" { change(text) } else { text.to_owned() }
    });
}

/// The same of a record of the captures, with a change of each text.
fn gathered_of(record: &str, folder: &Path, host: &str, change: impl Fn(&str, &str) -> String) -> PathBuf {
    let run: Value = serde_json::from_str(&captured(record)).unwrap();
    let folder = folder.join(host);
    fs::create_dir_all(folder.join("root/proc/sys/kernel")).unwrap();
    fs::write(folder.join("root/proc/sys/kernel/hostname"), format!("{host}\n")).unwrap();
    for source in run["machine"]["evidence"].as_array().unwrap() {
        let (name, text) = (source["name"].as_str().unwrap(), source["text"].as_str().unwrap());
        fs::write(folder.join(name), change(name, text)).unwrap();
    }
    let manifest = "{\n  \"schema\": \"peerlane/gather/1\",\n  \"taken\": 1795249012\n}\n";
    fs::write(folder.join("manifest.json"), manifest).unwrap();
    folder
}

/// `ibstat` of four adapters with these rates in Gb/s.
fn ibstat(rates: [u32; 4]) -> String {
    let port = |(n, rate): (usize, u32)| {
        format!(
            "CA 'mlx5_{n}'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\
             \t\tRate: {rate}\n\t\tBase lid: {}\n\t\tSM lid: 1\n\t\tLink layer: InfiniBand\n",
            n + 17
        )
    };
    rates.into_iter().enumerate().map(port).collect()
}

/// A change of what NVML reports of one GPU.
fn of_gpu(gpu: usize, from: &str, to: &str) -> impl Fn(&str) -> String {
    move |text| {
        let (at, _) = text.match_indices("\"index\":").nth(gpu).unwrap();
        let (before, own) = text.split_at(at);
        assert!(own.contains(from), "{own}");
        format!("{before}{}", own.replacen(from, to, 1))
    }
}

#[test]
fn gathered_machines_are_judged_by_their_facts_and_by_their_peers() {
    let folder = folder("fleet-gathered");
    let all = folder.join("all");
    ["node1", "node2", "node4", "node5", "node6"].iter().for_each(|host| gathered(&all, host, str::to_owned));
    gathered(&all, "node3", of_gpu(1, "\"lanes\": 16", "\"lanes\": 8"));
    gathered(&all, "node7", of_gpu(2, "\"active\": true", "\"active\": false"));
    // a host's archive, as `gather --to` writes it, and a record next to what was gathered
    gathered(&folder, "node8", str::to_owned);
    let packed = peerlane::evidence::pack(&peerlane::evidence::collect(&folder.join("node8")).unwrap(), 0).unwrap();
    fs::create_dir_all(all.join("node8")).unwrap();
    fs::write(all.join("node8/20261121T083005Z.tar.zst"), packed).unwrap();
    let run4 = captured("h200x4-vm-runs/default.json").replace("\"host\":\"vm\"", "\"host\":\"node9\"");
    fs::write(all.join("node1/run.json"), run4).unwrap();
    let found = document(&folder, &["all"]);
    let names: Vec<String> = machines(&found).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, (1..10).map(|n| format!("node{n}")).collect::<Vec<_>>());
    assert_eq!(found["unread"], Value::Array(Vec::new()));
    let outliers = found["outliers"].as_array().unwrap();
    let of = |o: &Value| (o["machine"].as_str().unwrap().to_owned(), o["rule"].as_str().unwrap().to_owned());
    assert_eq!(
        outliers.iter().map(of).collect::<Vec<_>>(),
        [("node3".into(), "narrow-link".into()), ("node7".into(), "nvlink-lanes-down".into())]
    );
    for (outlier, gpu, why) in [
        (&outliers[0], "GPU1", "PCIe lanes of GPU1 8, not 16"),
        (&outliers[1], "GPU2", "NVLinks between nvswitch0 and GPU2 17, not 18"),
    ] {
        let text = outlier.to_string();
        assert!(text.contains(gpu) && text.contains(why), "{text}");
    }
    let text = run(&folder, &["fleet", "all"]);
    assert!(String::from_utf8_lossy(&text.stdout).contains("no rates"), "{}", String::from_utf8_lossy(&text.stdout));
}

/// Outliers as machine, rule and summary.
fn outliers(document: &Value) -> Vec<[String; 3]> {
    let all = document["outliers"].as_array().unwrap().iter();
    all.map(|o| ["machine", "rule", "summary"].map(|field| o[field].as_str().unwrap().to_owned())).collect()
}

#[test]
fn gathered_facts_alone_show_who_differs_from_its_peers() {
    const TOPO: &str = "\tGPU0\tGPU1\tNIC0\tNIC1\tNIC2\tNIC3\tCPU Affinity\tNUMA Affinity\n\
        GPU0\t X \tPIX\tPIX\tPIX\tSYS\tSYS\t0-31\t0\n\
        GPU1\tPIX\t X \tPIX\tPIX\tSYS\tSYS\t0-31\t0\n\
        NIC0\tPIX\tPIX\t X \tPIX\tSYS\tSYS\t\t\n\
        NIC1\tPIX\tPIX\tPIX\t X \tSYS\tSYS\t\t\n\
        NIC2\tSYS\tSYS\tSYS\tSYS\t X \tPIX\t\t\n\
        NIC3\tSYS\tSYS\tSYS\tSYS\tPIX\t X \t\t\n\n\
        NIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n  NIC2: mlx5_2\n  NIC3: mlx5_3\n";
    let folder = folder("fleet-facts");
    // a fleet of three kinds, none of which is at fault for being another
    for n in 0..6 {
        let same = |_: &str, text: &str| text.to_owned();
        gathered_of("h200x2-vm-runs/default.json", &folder.join("all"), &format!("two{n}"), same);
        let driver = |name: &str, text: &str| match (n, name) {
            (2, "nvml.json") => text.replace("580.159.04", "535.161.08"),
            _ => text.to_owned(),
        };
        gathered_of("h200x4-vm-runs/default.json", &folder.join("all"), &format!("four{n}"), driver);
        let host = folder.join("all").join(format!("nic{n}"));
        fs::create_dir_all(&host).unwrap();
        fs::write(
            host.join("manifest.json"),
            format!("{{\n  \"schema\": \"peerlane/gather/1\",\n  \"taken\": {n}\n}}\n"),
        )
        .unwrap();
        fs::write(host.join("topo.txt"), TOPO).unwrap();
        // two of four: on the machine alone that may be another network
        let rates = if n == 4 { [200, 200, 400, 400] } else { [400; 4] };
        fs::write(host.join("ibstat.txt"), ibstat(rates)).unwrap();
    }
    let found = document(&folder, &["all"]);
    assert_eq!(found["kinds"].as_array().unwrap().len(), 3, "{}", found["kinds"]);
    let found = outliers(&found);
    let of = |machine: &str| found.iter().filter(|o| o[0] == machine).map(|o| o[2].as_str()).collect::<Vec<_>>();
    assert_eq!(found.len(), 2, "{found:#?}");
    assert_eq!(of("four2"), ["driver 535.161.08, and 580.159.4 on 5 machines of its kind"]);
    assert_eq!(of("nic4").len(), 1, "{found:#?}");
    assert!(of("nic4")[0].starts_with("Gb/s of "), "{found:#?}");
}

#[test]
fn a_gathered_machine_with_fewer_gpus_than_its_peers_is_named() {
    let folder = folder("fleet-fewer");
    for n in 0..5 {
        gathered(&folder.join("all"), &format!("node{n}"), str::to_owned);
    }
    // gone from NVML and from the bus
    let nvml = fs::read_to_string(folder.join("all/node0/nvml.json")).unwrap();
    let nvml: Value = serde_json::from_str(&nvml).unwrap();
    let address = nvml["gpus"][3]["address"].as_str().unwrap().to_lowercase();
    gathered_of("h200x4-vm-runs/default.json", &folder.join("all"), "node5", |name, text| {
        let mut value: Value = serde_json::from_str(text).unwrap();
        if name == "nvml.json" {
            value["gpus"].as_array_mut().unwrap().pop();
        } else {
            for files in value.as_object_mut().unwrap().values_mut().filter_map(Value::as_object_mut) {
                let of_it = |text: &str| text.contains(&address);
                files.retain(|path, content| !of_it(path) && !content.as_str().is_some_and(of_it));
            }
        }
        // readers look for the schema at the start
        let schema = value.as_object_mut().unwrap().remove("schema").unwrap();
        format!("{{\n  \"schema\": {schema}, {}", &value.to_string()[1..])
    });
    let found = outliers(&document(&folder, &["all"]));
    let [only] = found.as_slice() else { panic!("{found:#?}") };
    assert_eq!(only[0], "node5");
    assert!(only[2].contains("3 GPUs, but 5 machines"), "{only:?}");
}

#[test]
fn machines_are_named_by_files_folders_and_archives() {
    let folder = folder("fleet-named");
    for n in 1..6 {
        gathered(&folder, &format!("node{n}"), str::to_owned);
    }
    let packed = peerlane::evidence::pack(&peerlane::evidence::collect(&folder.join("node1")).unwrap(), 0).unwrap();
    fs::write(folder.join("20261121T083005Z.tar.zst"), packed).unwrap();
    fs::write(folder.join("node6.json"), of("node6")).unwrap();
    let text = |from: &str, to: &str| {
        fs::create_dir_all(folder.join(to).parent().unwrap()).unwrap();
        fs::copy(folder.join(from), folder.join(to)).unwrap();
    };
    text("node2/nvml.json", "node7-nvml.json");
    text("node2/nvml.json", "node8/nvml.json");
    text("node2/files.json", "node8/files.json");
    text("node2/nvml.json", "node9/nvml.txt");
    fs::write(folder.join("prose.txt"), "no machine\n").unwrap();
    let named = [
        "20261121T083005Z.tar.zst",
        "node2/manifest.json",
        "node3",
        "node6.json",
        "node7-nvml.json",
        "node8/nvml.json",
        "node8/files.json",
        "node9",
        "prose.txt",
    ];
    let found = document(&folder, &named);
    let names: Vec<String> = machines(&found).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, [1, 2, 3, 6, 7, 8, 9].map(|n| format!("node{n}")));
    assert!(machines(&found).iter().all(|(_, records)| *records == 1), "{:?}", machines(&found));
    let unread = found["unread"].as_array().unwrap();
    assert_eq!(unread.len(), 1, "{unread:?}");
    assert!(unread[0].to_string().contains("no tool's output that shows GPUs"), "{unread:?}");
    let redacted = document(&folder, &[&["--redact"], &named[..]].concat());
    assert_eq!(redacted["machines"].as_array().unwrap().len(), 7);
}

#[test]
fn records_between_nodes_are_read_from_a_folder_and_every_format_names_part_and_path() {
    let folder = folder("fleet-nodes");
    let faults = ["slow-path:node4-node5:0.5", "slow-path:node4-node5:0.5,slow-node:node7:0.5", "slow-node:node7:0.5"];
    for (day, faults) in faults.iter().enumerate() {
        let file = format!("day{day}.json");
        let measured = run(&folder, &["measure", "cluster:quong", "--faults", faults, "-o", &file]);
        assert!(measured.status.success(), "{}", err(&measured));
        let text = unsealed(&fs::read_to_string(folder.join(&file)).unwrap()).into_owned();
        let began = format!("\"began\":{}", 1_795_000_000 + 86_400 * day);
        assert!(text.contains("\"began\":0"));
        fs::write(folder.join(&file), text.replace("\"began\":0", &began)).unwrap();
    }
    // what is still being written is a part of the whole
    let whole = fs::read_to_string(folder.join("day2.json")).unwrap();
    let mut growing: Value = serde_json::from_str(&whole).unwrap();
    let cells = growing["cells"].as_array_mut().unwrap().split_off(40);
    (growing["cells"], growing["complete"]) = (Value::Array(cells), Value::Bool(false));
    let text = growing.to_string().replacen("\"schema\":\"peerlane/nodes/2\",", "", 1);
    fs::write(folder.join("day2.json.partial"), format!("{{\"schema\":\"peerlane/nodes/2\",{}", &text[1..])).unwrap();
    let found = document(&folder, &["."]);
    assert_eq!(found["records"], 3, "{:#}", found["notes"]);
    assert_eq!((machines(&found).len(), found["unread"].as_array().unwrap().len()), (16, 0));
    let outliers = found["outliers"].as_array().unwrap();
    let [outlier] = outliers.as_slice() else { panic!("{found:#}") };
    assert_eq!(
        (&outlier["machine"], &outlier["rule"], &outlier["action"], &outlier["repeats"]),
        (&"node7".into(), &"slow-node".into(), &"isolate".into(), &2.into())
    );
    // a path of two records that is not in the last
    let network = found["network"].as_array().unwrap();
    assert_eq!((network.len(), &network[0]["subjects"][0]), (1, &"node4-node5".into()), "{network:#?}");
    let schema: Value = serde_json::from_str(include_str!("../../../../schema/fleet-4.json")).unwrap();
    assert!(jsonschema::validator_for(&schema).unwrap().is_valid(&found));
    for format in ["text", "json", "csv", "junit", "prometheus", "markdown"] {
        let output = run(&folder, &["fleet", "--format", format, "."]);
        assert_eq!(output.status.code(), Some(1), "{format}: {}", err(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("node7") && text.contains("node4-node5"), "{format}: {text}");
        assert!(format != "text" || text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
    let page = run(&folder, &["fleet", ".", "--html", "fleet.html", "-q"]);
    assert!(String::from_utf8_lossy(&page.stdout).contains("node7"), "{}", err(&page));
    let page = crate::report::document(&fs::read_to_string(folder.join("fleet.html")).unwrap());
    let of = |at: usize| (page["outliers"][at]["machine"].as_u64(), page["outliers"][at]["part"].as_str());
    assert_eq!((of(0), of(1)), ((Some(7), Some("node7")), (None, Some("node4-node5"))), "{:#}", page["outliers"]);
    // three of them are a fleet for `check`, too; a waiver names what `check` prints; --redact leaves no name
    let checked = run(&folder, &["check", "--json", "day0.json", "day1.json", "day2.json"]);
    let checked: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(checked["outliers"][0]["why"], found["outliers"][0]["why"]);
    let waive = "[[waive]]\nrule = \"slow-node\"\nsubjects = [\"node7\"]\nreason = \"known\"\n\
                 [[waive]]\nrule = \"outlier\"\nreason = \"the same\"\n";
    fs::write(folder.join("rules.toml"), waive).unwrap();
    let waived = document(&folder, &["day2.json", "--rules", "rules.toml"]);
    assert!(waived["outliers"].as_array().unwrap().is_empty() && waived["waived"].as_u64() > Some(0), "{waived:#}");
    let redacted = document(&folder, &["day2.json", "--redact"]);
    assert_eq!(redacted["outliers"].as_array().unwrap().len(), 1, "{redacted:#}");
    assert!(!redacted.to_string().contains("node7"), "{redacted:#}");
}
