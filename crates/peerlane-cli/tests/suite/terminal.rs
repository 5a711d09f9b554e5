//! What strangers wrote cannot act on a terminal, nor pass for a line of this program.
//!
//! Hostile text is planted in every string of every kind of source: line breaks before a false verdict, tabs, escape
//! sequences, the second set of controls, and characters that turn the direction of text. All commands read it, with colours
//! and without. A strict scanner then reads every byte of both outputs; it shares no code with the program.

mod formats;
mod oracle;
mod plant;
mod sources;

use std::collections::BTreeSet;
use std::process::Output;

use crate::common::{command, everything, file, path, peerlane, status, stdout};
use oracle::scan;
use plant::{Site, json_strings, toml_strings, xml_attributes};

/// In the notation of JSON and TOML.
const ESCAPED: &str = r"x\nFAKE: verdict ok\r\nFAKE: verdict ok\t\u001b]0;title\u0007\u001b[2J\u001b[1;5m\u009b31m\u0085\u202e\u2066\u2028<b a='1'>&amp;]]>\ufffe @someone #12 `|` [l](//u)z";

/// As it is. No line break: in a capture one ends the line.
const RAW: &str = "x\tz\u{1b}]0;title\u{7}\u{1b}[2J\u{1b}[1;5m\u{9b}31m\u{202e}\u{2066} @someone #12 `|` [l](//u)z";

/// In a name of a file.
const NAME: &str = "x\nFAKE: verdict ok\t\u{1b}]0;title\u{7}\u{1b}[2J\u{202e}";

/// In the notation of XML.
const REFERENCES: &str = "x&#10;FAKE: verdict ok&#9;&#27;]0;title&#7;&#27;[2J&#155;31m&#133;&#8238;&#8232;&lt;b&gt;&amp;amp;]]&gt; @someone #12 `|` [l](//u)z";

/// Runs a command; both its outputs must be clean. Its exit status.
fn clean(args: &[&str], colour: bool) -> i32 {
    status(&output(args, colour))
}

fn output(args: &[&str], colour: bool) -> Output {
    let mut command = command(args);
    if colour {
        command.env("CLICOLOR_FORCE", "1");
    }
    let output = command.output().unwrap();
    for (stream, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
        if let Err(why) = scan(bytes, colour) {
            panic!("{args:?}, {stream}, colours {colour}: {why}");
        }
    }
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"), "{args:?}");
    output
}

/// All commands that show a machine.
fn all_commands(target: &str) {
    let nodes = nodes(target);
    let (a, b) = (nodes.first().map_or("GPU0", String::as_str), nodes.get(1).map_or("GPU1", String::as_str));
    let colours: &[bool] = if everything() { &[false, true] } else { &[true] };
    for &colour in colours {
        for args in [
            &["check", target, "-v", "--fail-on", "never"][..],
            &["map", target, "-v"],
            &["map", target, "-f", "matrix"],
            &["check", target, "--redact", "--fail-on", "never"],
            &["predict", target, "-v", "--sizes=4K,1M"],
            &["explain", target, a, b, "-v"],
            &["compare", target, "exxact-devbox", "-v"],
            &["place", target, "-v"],
            &["infer", target, "--recorded", "-v"],
            &["simulate", target, "--sizes", "1MiB", "-v"],
            &["sweep", target, "exxact-devbox", "--sizes", "1MiB", "-v"],
        ] {
            clean(args, colour);
        }
    }
    for (command, format, reads) in [
        ("check", "json", formats::json as fn(&str) -> Result<(), String>),
        ("check", "markdown", formats::markdown),
        ("check", "prometheus", formats::prometheus),
        ("check", "junit", formats::xml),
        ("map", "dot", formats::dot),
        ("map", "svg", formats::xml),
        ("map", "json", formats::json),
        ("map", "nccl-xml", formats::xml),
        ("map", "system", |_| Ok(())),
    ] {
        let output = output(&[command, target, "--format", format], true);
        // a folder of several machines has no single drawing
        if status(&output) < 2 {
            reads(&stdout(&output)).unwrap_or_else(|why| panic!("{format} of {target}: {why}"));
        }
    }
    for format in ["env", "numactl", "rankfile", "hostfile", "slurm", "nccl"] {
        clean(&["place", target, "--format", format], true);
    }
    for other in ["predict", "place", "simulate"] {
        clean(&[other, target, "--json"], true);
    }
    clean(&["report", target, "-o", "-"], true);
}

/// The GPUs and NICs of a target, as `map --json` names them.
fn nodes(target: &str) -> Vec<String> {
    let output = peerlane(&["map", target, "--json"]);
    let Ok(map) = serde_json::from_slice::<serde_json::Value>(&output.stdout) else { return Vec::new() };
    let nodes = map["machines"][0]["nodes"].as_array().cloned().unwrap_or_default();
    let ends = nodes.iter().filter(|n| n["kind"] == "gpu" || n["kind"] == "nic");
    ends.filter_map(|n| n["name"].as_str().map(str::to_owned)).collect()
}

/// Plants `hostile` in the strings of all keys that the program accepts it in, and lets all commands read that. On the way
/// every other string is refused, with messages that are clean.
fn everywhere(name: &str, text: &str, sites: &[Site], hostile: &str) {
    let planted = |keys: &[&str]| {
        let mut planted = text.to_owned();
        for site in sites.iter().rev().filter(|site| keys.contains(&site.key.as_str())) {
            planted.insert_str(site.at, hostile);
        }
        planted
    };
    let keys: Vec<&str> = sites.iter().map(|site| site.key.as_str()).collect::<BTreeSet<_>>().into_iter().collect();
    let mut open = vec![keys];
    let mut accepted = Vec::new();
    while let Some(keys) = open.pop() {
        let some = file("terminal", &format!("some-{name}"), planted(&keys));
        if clean(&["map", &some, "-v"], false) == 0 {
            accepted.extend(keys);
        } else if keys.len() > 1 {
            let (one, other) = keys.split_at(keys.len() / 2);
            open.extend([one.to_vec(), other.to_vec()]);
        }
    }
    println!("{name}: hostile text is accepted in {accepted:?}");
    assert!(!accepted.is_empty(), "{name}: no string is free");
    all_commands(&file("terminal", name, planted(&accepted)));
}

#[test]
fn system_files() {
    let text = sources::system_file();
    everywhere("system.toml", &text, &toml_strings(&text), ESCAPED);
    // the name of a node, wherever it stands
    let named = text.replace("\"mlx5_0\"", "mlx5_0").replace("mlx5_0", &format!("\"mlx5_0{ESCAPED}\""));
    all_commands(&file("terminal", "named.toml", named));
}

#[test]
fn clusters() {
    let text = sources::CLUSTER;
    let sites = toml_strings(text);
    let mut shown = 0;
    let table = path("terminal", "cluster.csv");
    let table = table.to_str().unwrap();
    let formula = text.replace("name = \"pair\"", "name = \"=HYPERLINK(1)\"");
    clean(&["sweep", &file("terminal", "formula.toml", formula), "--sizes", "1MiB", "--csv", table], false);
    assert!(std::fs::read_to_string(table).unwrap().contains("\n\"'=HYPERLINK(1)\","));
    for site in &sites {
        let mut planted = text.to_owned();
        planted.insert_str(site.at, ESCAPED);
        let path = file("terminal", "cluster.toml", planted);
        shown += i32::from(clean(&["simulate", &path, "--sizes", "1MiB"], true) == 0);
        clean(&["sweep", &path, "--sizes", "1MiB", "-v"], false);
    }
    assert!(shown > 2);
}

#[test]
fn records_of_simulated_machines() {
    let design = file("terminal", "recorded.toml", sources::system_file());
    let record = path("terminal", "recorded.json");
    let record = record.to_str().unwrap();
    let _ = std::fs::remove_file(record);
    let output = peerlane(&["measure", &design, "--quick", "-o", record]);
    assert!(status(&output) < 2, "{output:?}");
    let text = std::fs::read_to_string(record).unwrap();
    let text = peerlane::run::unsealed(&text).into_owned();
    everywhere("record.json", &text, &json_strings(&text), ESCAPED);
    // a fleet of three, and one against another
    let hostile = path("terminal", "record.json");
    let hostile = hostile.to_str().unwrap();
    for colour in [false, true] {
        clean(&["check", hostile, hostile, record, "-v"], colour);
        clean(&["check", record, "--baseline", hostile], colour);
    }
    clean(&["check", hostile, hostile, record, "--json"], false);
}

#[test]
fn records_of_live_machines() {
    let text = sources::live_record();
    everywhere("live.json", &text, &json_strings(&text), ESCAPED);
}

#[test]
fn texts_of_the_driver_as_json() {
    for (name, text) in [("nvml.json", sources::evidence("nvml.json")), ("files.json", sources::evidence("files.json"))]
    {
        everywhere(name, &text, &json_strings(&text), ESCAPED);
    }
    let text = sources::capture("nvbandwidth.json");
    everywhere("nvbandwidth.json", &text, &json_strings(&text), ESCAPED);
}

#[test]
fn topologies_in_xml() {
    let text = sources::capture("nccl-topo.xml");
    everywhere("nccl.xml", &text, &xml_attributes(&text), REFERENCES);
    let text = sources::LSTOPO;
    everywhere("lstopo.xml", text, &xml_attributes(text), REFERENCES);
}

#[test]
fn printed_texts() {
    for (name, text) in sources::printed() {
        everywhere(name, &text, &plant::ends_of_values(&text), RAW);
    }
}

#[test]
fn names_of_files_and_entries() {
    let folder = sources::folder(NAME);
    all_commands(&folder);
    let archive = file("terminal", "names.tar", sources::tar(NAME));
    assert_eq!(clean(&["map", &archive, "-v"], true), 0);
    all_commands(&archive);
    let tree = sources::sysfs(NAME);
    all_commands(&tree);
}

#[test]
fn settings_traces_and_inferences() {
    let rules = "[[waive]]\nrule = \"narrow-link\"\nmachines = [\"7gforce\"]\nsubjects = [\"GPU0\"]\nreason = \"y\"\n";
    for site in toml_strings(rules) {
        let mut planted = rules.to_owned();
        planted.insert_str(site.at, ESCAPED);
        let path = file("terminal", "rules.toml", planted);
        clean(&["check", "7gforce", "--rules", &path, "-v"], true);
    }
    let trace = "{\"id\":\"a\",\"from\":\"GPU0\",\"to\":\"GPU1\",\"bytes\":1e6}\n{\"id\":\"b\",\"after\":[\"a\"],\"on\":\"GPU1\",\"seconds\":1e-3}\n";
    for site in json_strings(trace) {
        let mut planted = trace.to_owned();
        planted.insert_str(site.at, ESCAPED);
        let path = file("terminal", "trace.jsonl", planted);
        clean(&["simulate", "exxact-devbox", "--workload", &path], true);
    }
    let inferred = path("terminal", "inferred.json");
    let inferred = inferred.to_str().unwrap();
    let measured = "../../captures/h200x4-vm-runs/default.json";
    assert!(status(&peerlane(&["infer", measured, "--recorded", "-o", inferred])) < 2);
    let text = std::fs::read_to_string(inferred).unwrap();
    let sites = json_strings(&text);
    for key in sites.iter().map(|site| &site.key).collect::<BTreeSet<_>>() {
        let mut planted = text.clone();
        for site in sites.iter().rev().filter(|site| site.key == *key) {
            planted.insert_str(site.at, ESCAPED);
        }
        let path = file("terminal", "inferred-hostile.json", planted);
        clean(&["check", measured, &path, "-v"], true);
        clean(&["check", &path], false);
    }
}

#[test]
fn arguments_and_the_environment() {
    for colour in [false, true] {
        for args in [
            &[NAME][..],
            &["check", NAME],
            &["check", &format!("--{NAME}")],
            &["check", "7gforce", "--fail-on", NAME],
            &["check", "7gforce", "--machine", NAME],
            &["check", "7gforce", "--rules", NAME],
            &["check", "7gforce", "--baseline", NAME],
            &["check", "7gforce", "--html", NAME],
            &["map", "7gforce", "--what-if", NAME],
            &["map", "7gforce", "--what-if", &format!("GPU0.link={NAME}")],
            &["explain", "7gforce", NAME, "GPU0"],
            &["measure", "7gforce", "--pairs", NAME],
            &["measure", "7gforce", "--budget", NAME],
            &["measure", "7gforce", "--quick", "-o", &format!("{NAME}/x")],
            &["simulate", NAME],
            &["simulate", "7gforce", "--workload", NAME],
            &["simulate", "7gforce", "--network", NAME, "--nodes", "2"],
            &["sweep", "7gforce", "--csv", &format!("{NAME}/x")],
            &["place", "7gforce", "--busy", NAME],
            &["place", "7gforce", "--topology", &format!("{NAME}/x")],
            &["systems", "show", NAME],
            &["infer", "7gforce", "--directions", NAME],
            &["gather", "-o", &format!("{NAME}/x")],
            &["report", "7gforce", "-o", &format!("{NAME}/x")],
            &["man", NAME],
            &["completions", NAME],
        ] {
            assert_eq!(clean(args, colour), 2, "{args:?}");
        }
    }
    let mut check = command(&["check", "7gforce"]);
    let output = check.env("PEERLANE_RULES", format!("/no/{NAME}")).output().unwrap();
    assert_eq!(status(&output), 2);
    scan(&output.stderr, false).unwrap();
    // a script must not be given a name that ends its line
    let folder = path("terminal", &format!("folder {NAME}"));
    std::fs::create_dir_all(&folder).unwrap();
    let mut place = command(&["place", "7gforce", "--format", "nccl", "--topology", "topology.xml"]);
    let output = place.current_dir(folder).output().unwrap();
    assert_eq!(status(&output), 2);
    scan(&output.stderr, false).and(scan(&output.stdout, false)).unwrap();
}

#[test]
fn what_needs_no_input_is_clean() {
    for args in [&["--help"][..], &["--version"], &["systems"], &["man"], &["completions", "zsh"], &["accuracy"]] {
        for colour in [false, true] {
            assert_eq!(clean(args, colour), 0, "{args:?}");
        }
    }
    assert!(stdout(&peerlane(&["--version"])).starts_with("peerlane "));
}
