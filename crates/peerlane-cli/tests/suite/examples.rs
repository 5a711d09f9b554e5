//! The commands of `examples/`, of the README and of the quick starts work, and the examples show what they are for.

use std::fs;

use crate::common::{command, err, json, status, stdout};
use crate::docs::{hold, root};

/// What a command prints in the project's folder.
fn printed(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().skip(1).collect();
    let output = command(&words).current_dir(root()).output().unwrap();
    assert!(status(&output) < 2, "{line}: {}", err(&output));
    stdout(&output)
}

/// The commands of a text: its indented lines, and those in comments of a system file. A comment ends a command; quotes go.
fn commands(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| line.starts_with("    ") || line.starts_with('#'));
    let lines = lines.map(|line| line.trim_start_matches('#').split(" #").next().unwrap().trim().replace('\'', ""));
    lines.filter(|line| line.starts_with("peerlane ")).collect()
}

/// The same command where there is no GPU and no file of a reader: other targets, and another folder.
fn here(line: &str, folder: &str) -> String {
    let mut line = line.to_owned();
    for (theirs, ours) in [
        ("peerlane gate", "peerlane gate hgx-h200"),
        ("peerlane top", "peerlane top hgx-h200 --once"),
        // it asks on a terminal
        ("peerlane new my-box.toml", "peerlane new --help"),
        ("measure --tests", "measure hgx-h200 --tests"),
        ("live", "hgx-h200"),
        ("my-box.toml", "examples/box.toml"),
        ("/shared/peerlane", "examples/fleet"),
        ("topo.txt nvlink.txt all_reduce_perf.txt", "examples/slow-node"),
    ] {
        line = line.replace(theirs, ours);
    }
    line = line.replace("check run.json", &format!("check {folder}/run.json"));
    line.replace("-o ", &format!("-o {folder}/")).replace("--html ", &format!("--html {folder}/"))
}

#[test]
fn every_command_of_the_examples_works() {
    let mut run = 0;
    for file in ["README.md", "box.toml", "cluster.toml"] {
        for line in commands(&fs::read_to_string(root().join("examples").join(file)).unwrap()) {
            assert!(!printed(&line).is_empty(), "{line}");
            run += 1;
        }
    }
    assert!(run >= 9, "{run} commands: are they still recognised?");
}

#[test]
fn every_command_of_the_readme_and_the_quick_starts_works() {
    let folder = std::env::temp_dir().join(format!("peerlane-quick-starts-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let mut run = 0;
    let mut pages = vec![root().join("README.md")];
    pages.extend(
        ["training", "cluster", "rig", "building", "communication"]
            .map(|of| root().join(format!("docs/start-{of}.md"))),
    );
    pages.push(root().join("docs/traces.md"));
    for page in pages {
        for line in commands(&fs::read_to_string(page).unwrap()) {
            printed(&here(&line, folder.to_str().unwrap()));
            run += 1;
        }
    }
    fs::remove_dir_all(&folder).unwrap();
    assert!(run >= 20, "{run} commands: are they still recognised?");
}

#[test]
fn the_examples_show_what_they_are_for() {
    // the layout of the text is free to change
    let slow = printed("peerlane check examples/slow-node --json");
    assert!(slow.contains("nvlink-lanes-down") && slow.contains("GPU5: 12 active NVLinks"), "{slow}");
    let built_in = ["", " --redact"].map(|redact| printed(&format!("peerlane check slow-node -v{redact}")));
    assert_eq!(built_in[0].lines().next(), printed("peerlane check examples/slow-node").lines().next());
    assert!(built_in.iter().all(|text| text.contains("GPU5: 12 active NVLinks")), "{built_in:?}");
    let fleet = printed("peerlane fleet examples/fleet");
    assert!(fleet.contains("6 machines") && fleet.contains("node4 GPU2: isolate"), "{fleet}");
    let design = printed("peerlane check examples/box.toml --json");
    assert!(design.contains(r#""verdict": "limited""#) && design.contains("narrow-link"), "{design}");
}

/// The designs of the page about consumer cards, and the changes to `examples/rig.toml` that make them.
const RIGS: [(&str, &[&str]); 7] = [
    ("one card behind the chipset, x4", &[]),
    ("the same with peer access", &["p2p=on"]),
    ("eight lanes of the CPU each", &["GPU0.link=x8", "GPU1.at=cpu0 4.0 x8"]),
    ("the same with peer access", &["GPU0.link=x8", "GPU1.at=cpu0 4.0 x8", "p2p=on"]),
    ("sixteen lanes each, workstation CPU", &["cpu0.part=threadripper-pro-7000", "GPU1.at=cpu0 4.0 x16"]),
    ("the same with peer access", &["cpu0.part=threadripper-pro-7000", "GPU1.at=cpu0 4.0 x16", "p2p=on"]),
    ("an NVLink bridge", &["GPU0-GPU1=nvlink 4"]),
];

#[test]
fn the_page_about_consumer_cards_has_the_programs_figures() {
    let mut table = "| two RTX 3090 | rate (interval) | smallest copy, µs | 16 KiB, µs | 32 MiB, ms | a token, ms | a prompt, s |\n\
                     | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n"
        .to_owned();
    let mut prompts = Vec::new();
    for (name, changes) in RIGS {
        let changes: Vec<&str> = changes.iter().flat_map(|change| ["--what-if", change]).collect();
        let rig = root().join("examples/rig.toml");
        let rig = rig.to_str().unwrap();
        let path = json(&[&["explain", rig, "GPU0", "GPU1", "--json"], &changes[..]].concat());
        let job = ["simulate", rig, "-w", "all-reduce", "-s", "16KiB,32MiB", "--json"];
        let job = json(&[&job, &changes[..]].concat());
        let number = |value: &serde_json::Value| value.as_f64().unwrap();
        let [small, large] = [0, 1].map(|at| number(&job["points"][at]["time"]));
        let rate = ["rate", "low", "high"].map(|field| number(&path["forward"][field]));
        table += &format!(
            "| {name} | {:.1} ({:.1} to {:.1}) | {:.1} | {:.0} | {:.1} | {:.1} | {:.2} |\n",
            rate[0],
            rate[1],
            rate[2],
            number(&path["curve"]["latency"]),
            small * 1e6,
            large * 1e3,
            160.0 * small * 1e3,
            160.0 * large
        );
        prompts.push(160.0 * large);
    }
    // what the page says in words
    assert!(prompts[0] / prompts[3] > 3.5 && prompts[0] > 2.5 && prompts[6] < 0.2, "{prompts:?}");
    let page = root().join("docs/start-rig.md");
    let text = fs::read_to_string(&page).unwrap();
    let (begin, end) = ("<!-- rig -->\n", "<!-- end of rig -->\n");
    let (before, rest) = text.split_once(begin).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    hold(&page, &format!("{before}{begin}{table}{end}{after}"), "UPDATE_DOCS");
    assert!(fs::read_to_string(&page).unwrap().split_whitespace().count() <= 900, "a start page is short");
}
