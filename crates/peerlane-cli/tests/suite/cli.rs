//! The binary as a user meets it: exit statuses, JSON, broken input, widths, colours.

use crate::common::{command, err, file, json, path, peerlane, some, status, stdout, with_input};

fn systems() -> Vec<String> {
    let list = json(&["systems", "--json"]);
    let names = list["systems"].as_array().unwrap().iter();
    names.map(|s| s["name"].as_str().unwrap().to_owned()).collect()
}

const TOPO: &str = "\
\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity
GPU0\t X \tPIX\tSYS\tSYS\t0-15\t0
GPU1\tPIX\t X \tSYS\tSYS\t0-15\t0
GPU2\tSYS\tSYS\t X \tPIX\t16-31\t1
GPU3\tSYS\tSYS\tPIX\t X \t16-31\t1
";

#[test]
fn check_fails_on_the_severity_asked_for() {
    let at = |severity: &str| status(&peerlane(&["check", "7gforce", "--fail-on", severity]));
    assert_eq!((at("info"), at("warning"), at("error"), at("never")), (1, 1, 1, 0));
    assert_eq!(status(&peerlane(&["check", "7gforce"])), 1);
    assert_eq!(status(&peerlane(&["check", "exxact-traditional"])), 0);
    assert_eq!(status(&peerlane(&["check", "7gforce", "--fail-on", "sometimes"])), 2);
}

#[test]
fn check_shows_the_risers_and_what_to_do() {
    let text = stdout(&peerlane(&["check", "7gforce"]));
    assert!(text.lines().nth(1).unwrap().contains("PCIe 3.0 x1"), "{text}");
    assert!(text.lines().nth(2).unwrap().contains("riser"), "{text}");
    assert!(text.contains("3.0 x1 of 3.0 x8 ─ GPU0–GPU2"), "{text}");
    let all = stdout(&peerlane(&["check", "7gforce", "-v"]));
    assert!(all.contains("3.0 x1 of 3.0 x8 ─ GPU0  ") && all.contains("host → GPU0–GPU5"), "{all}");
}

#[test]
fn check_json_has_the_promised_shape() {
    let one = json(&["check", "7gforce", "--json"]);
    assert_eq!(one["schema"], "peerlane/check/3");
    assert!(["healthy", "limited", "not-judged", "unexplained", "fault"].contains(&one["verdict"].as_str().unwrap()));
    assert_eq!(
        (&one["machines"][0]["verdict"], &one["findings"][0]["machine"]),
        (&one["verdict"], &one["machines"][0]["name"])
    );
    let finding = &one["findings"][0];
    for field in ["rule", "kind", "severity", "subjects", "summary", "expected", "measured", "evidence", "fix"] {
        assert!(!finding[field].is_null(), "{field}");
    }
    let two = json(&["check", "7gforce", "exxact-txr414", "--json"]);
    assert_eq!(two["machines"].as_array().unwrap().len(), 2);
    assert_eq!(two["findings"][0]["machine"], "7gforce");
    assert!(two["machines"][1]["comparison"]["tables"].is_array());
}

#[test]
fn json_has_every_number_beside_what_it_should_be() {
    let checked = json(&["check", "exxact-devbox", "--json"]);
    let predicted = json(&["predict", "exxact-devbox", "--json"]);
    let tables = checked["machines"][0]["comparison"]["tables"].as_array().unwrap();
    assert_eq!(predicted["comparison"]["tables"].as_array().unwrap(), tables);
    // a published cell has all that is known of it
    let table = tables.iter().find(|t| t["direction"] == "bidirectional" && t["p2p"] == true).unwrap();
    let cell = &table["cells"][0];
    let number = |field: &str| cell[field].as_f64().unwrap();
    assert!(number("low") <= number("expected") && number("expected") <= number("high"), "{cell}");
    let measured = &cell["measured"][0];
    assert!(measured["published"] == true && measured["origin"].is_string(), "{cell}");
    assert!((number("ratio") - measured["value"].as_f64().unwrap() / number("expected")).abs() < 1e-12, "{cell}");
    assert!(cell["binding"].is_string() && cell["link"].as_array().unwrap().len() == 2, "{cell}");
    // and the matrices of `predict` hold the same numbers
    let staged = |t: &&serde_json::Value| t["p2p"] == false && t["direction"] == "unidirectional";
    let cell = &tables.iter().find(staged).unwrap()["cells"][0];
    let matrix = predicted["matrices"].as_array().unwrap().iter().find(staged).unwrap();
    assert!(cell["expected"].is_f64() && cell["expected"] == matrix["values"][0][1], "{cell}");
}

#[test]
fn map_json_has_the_promised_shape() {
    let map = json(&["map", "hpcac-tessa", "--json"]);
    assert_eq!(map["schema"], "peerlane/fabric/1");
    let machine = &map["machines"][0];
    assert_eq!(machine["name"], "hpcac-tessa");
    let nodes = machine["nodes"].as_array().unwrap();
    assert_eq!(nodes.iter().filter(|n| n["kind"] == "gpu").count(), 4);
    let pcie = machine["links"].as_array().unwrap().iter().find(|l| l["kind"] == "pcie").unwrap();
    assert_eq!(pcie["running"]["lanes"], 16);
    let n = machine["classes"]["rows"].as_array().unwrap().len();
    let values = machine["classes"]["values"].as_array().unwrap();
    assert!(values.len() == n && values.iter().all(|row| row.as_array().unwrap().len() == n));
    assert_eq!(map, json(&["map", "hpcac-tessa", "--format", "json"]));
}

#[test]
fn predict_json_is_flat_for_one_machine_and_named_for_several() {
    let one = json(&["predict", "exxact-devbox", "--json"]);
    assert_eq!((&one["schema"], &one["machine"]), (&"peerlane/prediction/2".into(), &"exxact-devbox".into()));
    let matrix = &one["matrices"][0];
    assert_eq!((&matrix["quantity"], &matrix["unit"]), (&"bandwidth".into(), &"GB/s".into()));
    assert!(matrix["values"][0][0].is_null() && matrix["values"][0][1].is_f64());
    assert!(matrix["bottlenecks"][0][1].is_string());
    let two = json(&["predict", "exxact-devbox", "7gforce", "--json"]);
    assert_eq!(two["machines"][1]["name"], "7gforce");
    assert_eq!(two["matrices"][0]["machine"], "exxact-devbox");
}

#[test]
fn predict_shows_rates_by_size_and_intervals() {
    let shown = stdout(&peerlane(&["predict", "exxact-traditional", "--sizes=4K,1M"]));
    assert!(shown.contains("4 KiB") && shown.contains("1 MiB") && !shown.contains("64 MiB"), "{shown}");
    let found = json(&["predict", "exxact-traditional", "--sizes", "--json"]);
    let curve = &found["curves"][0];
    assert!(curve["rate"].as_f64() > curve["rates"][0][1].as_f64(), "{curve}");
    for (at, size) in curve["rates"].as_array().unwrap().iter().enumerate() {
        let (bytes, rate) = (size[0].as_f64().unwrap(), size[1].as_f64().unwrap());
        let time = curve["times"][at][1].as_f64().unwrap();
        assert!((bytes / time / 1e3 / rate - 1.0).abs() < 1e-6, "{curve}");
    }
    let matrix = &found["matrices"][0];
    let of = |field: &str| matrix[field][0][1].as_f64().unwrap();
    assert!(of("low") < of("values") && of("values") < of("high"), "{matrix}");
}

#[test]
fn sizes_mark_the_faster_method_and_its_crossover() {
    let text = stdout(&peerlane(&["predict", "hgx-h100", "--sizes=64K,1M,4M"]));
    // the column of marks moves from BAR1 to staging where the crossover is
    let far = &text[text.rfind("through").unwrap()..];
    let row = |size: &str| far.lines().find(|line| line.trim_start().starts_with(size)).unwrap().trim_end();
    assert!(!row("1 MiB").ends_with('◄') && row("1 MiB").contains('◄'), "{far}");
    assert!(row("4 MiB").ends_with('◄'), "{far}");
    // answers come before the tables
    let before = &text[..text.rfind("through").unwrap()];
    assert!(before.contains("GPU0 → mlx5_4      one staged message is faster than BAR1 from 2 MiB"), "{text}");
    assert!(text.contains("GPU0 → GPU1        direct is faster than staged"), "{text}");
    let found = json(&["predict", "hgx-h100", "--sizes=64K", "--json"]);
    let messages = found["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 3, "PIX, NODE and SYS");
    assert_eq!(messages[0]["methods"][1]["curve"][0]["size"], 65536);
}

#[test]
fn collectives_list_where_the_protocol_changes() {
    let text = stdout(&peerlane(&["predict", "hgx-h100", "--collectives=8,16M"]));
    let line = text.lines().find(|line| line.starts_with("  all-gather ")).unwrap();
    assert!(line.contains("ring ll, ring ll128 from "), "{line}");
}

#[test]
fn accuracy_says_how_near_the_model_comes() {
    let shown = stdout(&peerlane(&["accuracy"]));
    assert!(shown.contains("bandwidth, peerlane, groups") && shown.contains("NCCL's constants"), "{shown}");
    let found = json(&["accuracy", "--json"]);
    assert_eq!(found["schema"], "peerlane/accuracy/1");
    let overall = &found["overall"];
    for predictor in ["peerlane", "nccl", "raw"] {
        for over in ["cells", "groups"] {
            for field in ["median", "p85", "worst"] {
                assert!(overall[predictor][over][field].is_f64(), "{predictor} {over} {field}");
            }
        }
    }
    let matrix = &found["systems"][0]["matrices"][0];
    for field in ["label", "cells", "median", "p85", "worst", "kind"] {
        assert!(!matrix[field].is_null(), "{field}");
    }
    assert_eq!(stdout(&peerlane(&["accuracy", "--page"])), include_str!("../../../../validation/accuracy.md"));
}

#[test]
fn explain_names_each_hop_and_what_binds() {
    let text = stdout(&peerlane(&["explain", "exxact-devbox", "GPU0", "GPU2"]));
    let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("no {what} in {text}"));
    assert!(at("─ plx0") < at("─ rc0") && at("─ rc0") < at("─ plx1"));
    assert!(text.contains("direct") && text.contains("bound by"));

    let far = stdout(&peerlane(&["explain", "exxact-traditional", "GPU0", "GPU2"]));
    assert!(far.contains("staged through host memory") && far.contains("QPI"), "{far}");

    let near = json(&["explain", "hpcac-tessa", "GPU0", "mlx5_2", "--json"]);
    assert_eq!((&near["class"], &near["staged"]), (&"PIX".into(), &false.into()));
    let hops = near["hops"].as_array().unwrap();
    assert!(hops.iter().all(|h| !h["to"].as_str().unwrap().starts_with("cpu")));
}

#[test]
fn explain_begins_with_the_answer() {
    let text = stdout(&peerlane(&["explain", "7gforce", "GPU0", "GPU6"]));
    let order = [
        "GPU0 → GPU6: 0.85 GB/s",
        "  bound by   GPU0–plx0, PCIe 3.0 x1",
        "  upgrade    10.15 GB/s (× 12.0)",
        "  measured   0.82 GB/s, 0.97 of the 0.85 expected; in all 12 values, 0.89–1.16 of expected",
        "Hops, with the rate",
        "Other upgrades",
        "Copies by size",
        "crossover  direct is faster",
        "Measured or published",
        "from 7gforce (published figures)",
    ];
    let places = order.map(|part| text.find(part).unwrap_or_else(|| panic!("no '{part}' in\n{text}")));
    assert!(places.is_sorted(), "{text}");
    let answer = text.lines().position(|line| line.contains("upgrade ")).unwrap();
    assert!(answer < 6, "{text}");
}

#[test]
fn nodes_are_found_by_the_names_that_people_type() {
    let run = |words: &[&str]| stdout(&peerlane(words));
    let named = run(&["explain", "dgx-a100", "GPU0", "GPU1"]);
    for [a, b] in [["gpu0", "GPU 1"], ["0", "1"], ["gpu-0", "Gpu1"]] {
        assert_eq!(run(&["explain", "dgx-a100", a, b]), named, "{a} {b}");
    }
    let rate =
        |edit: &str| json(&["explain", "7gforce", "GPU0", "GPU6", "--what-if", edit, "--json"])["forward"].clone();
    assert_eq!(rate("gpu0-PLX0=x8"), rate("GPU0-plx0=x8"));
    assert_eq!(rate("0.link=x8"), rate("GPU0.link=x8"));
    let placed = |busy: &str| json(&["place", "dgx-1v", "--gpus", "4", "--busy", busy, "--json"])["choices"].clone();
    assert_eq!(placed("gpu1,2"), placed("GPU1,GPU2"));
    let tuned = |gpus: &str| run(&["tune", "dgx-1v", "--gpus", gpus]);
    assert_eq!(tuned("0,gpu1"), tuned("GPU0,GPU1"));
    let message = |ends: &str| run(&["simulate", "dgx-1v", "-w", ends, "-s", "1MiB", "--json"]);
    let times = [message("point-to-point:GPU0:GPU1"), message("point-to-point:gpu0:1")];
    let [a, b] = times.map(|text| serde_json::from_str::<serde_json::Value>(&text).unwrap()["points"].clone());
    assert_eq!(a, b);
    let measured = |pair: &str| run(&["measure", "h200x4-vm", "--quick", "--pairs", pair]);
    assert_eq!(measured("gpu0-1"), measured("GPU0-GPU1"));
    let listing = "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-3b0c0ea1-9d4b-0d6c-2f5a-111111111111)\n\
                   GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-4b0c0ea1-9d4b-0d6c-2f5a-111111111111)\n";
    let list = crate::common::file("names", "list.txt", listing);
    let topo = crate::common::file("names", "topo.txt", "\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X \n");
    let by_uuid = run(&["explain", &list, &topo, "GPU-3b0c0ea1", "GPU-4b0c0ea1-9d4b"]);
    assert!(by_uuid.contains("GPU0 → GPU1"), "{by_uuid}");
    let wrong = peerlane(&["explain", "dgx-a100", "GPO0", "GPU1"]);
    assert!(err(&wrong).contains("no node 'GPO0' (did you mean GPU0"), "{}", err(&wrong));
}

#[test]
fn explain_lists_the_nodes_it_has() {
    let wrong = peerlane(&["explain", "exxact-devbox", "GPU0", "GPU9"]);
    assert_eq!(status(&wrong), 2);
    assert!(err(&wrong).contains("no node 'GPU9'") && err(&wrong).contains("GPU0–GPU3"), "{}", err(&wrong));
    let short = peerlane(&["explain", "exxact-devbox", "GPU0"]);
    assert_eq!(status(&short), 2);
    assert!(err(&short).contains("two nodes"), "{}", err(&short));
    assert_eq!(status(&peerlane(&["explain", "exxact-devbox", "GPU0", "GPU0"])), 2);
}

#[test]
fn unknown_targets_suggest_names() {
    let typo = peerlane(&["check", "7gforse"]);
    assert_eq!(status(&typo), 2);
    assert!(err(&typo).contains("no such system or file: '7gforse'; did you mean 7gforce?"), "{}", err(&typo));
    assert!(stdout(&typo).is_empty());
    let odd = peerlane(&["systems", "show", "nothing-like-it-at-all"]);
    assert_eq!(status(&odd), 2);
}

#[test]
fn broken_input_is_said_and_is_status_2() {
    let noise: Vec<u8> = (0..4000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
    for (name, content, says) in [
        ("empty.txt", b"".as_slice(), "empty.txt is empty"),
        ("noise.bin", noise.as_slice(), "binary"),
        ("prose.txt", b"The weather is fine.\n".as_slice(), "nothing recognised"),
        ("nonsense.toml", b"= = [[nonsense".as_slice(), "nonsense.toml"),
        ("latin.toml", b"name = \"\xff\"".as_slice(), "UTF-8"),
    ] {
        let path = file("cli", name, content);
        for command in ["check", "map", "predict"] {
            let output = peerlane(&[command, &path]);
            assert_eq!(status(&output), 2, "{command} {name}");
            assert!(err(&output).contains(says), "{command} {name}: {}", err(&output));
            assert!(!err(&output).contains("panicked"), "{}", err(&output));
        }
    }
}

#[test]
fn what_is_read_is_listed_in_lines_of_100_columns() {
    let said = err(&with_input(&["check", "-"], b"The weather is fine.\n"));
    for tool in ["ibstat", "amd-smi", "dcgmi", "-L", "nvidia-smi", "lspci"] {
        assert!(said.contains(tool), "{tool}: {said}");
    }
    assert!(said.lines().count() > 2 && said.lines().all(|line| line.chars().count() <= 100), "{said}");
}

#[test]
fn what_can_be_read_of_several_targets_is_shown() {
    let output = peerlane(&["map", &file("cli", "topo.txt", TOPO.as_bytes()), "/no/such/file"]);
    assert_eq!(status(&output), 2);
    assert!(stdout(&output).contains("GPU3") && err(&output).contains("/no/such/file"));
}

#[test]
fn standard_input_is_a_target() {
    let output = with_input(&["map", "-"], TOPO.as_bytes());
    assert_eq!(status(&output), 0, "{}", err(&output));
    assert!(stdout(&output).contains("4 GPUs"), "{}", stdout(&output));
    assert_eq!(status(&with_input(&["map", "-"], b"")), 2);
}

#[test]
fn one_of_several_machines_can_be_chosen() {
    let args = ["map", "7gforce", "exxact-devbox", "--format", "svg"];
    let both = peerlane(&args);
    assert_eq!(status(&both), 2);
    assert!(err(&both).contains("--machine"), "{}", err(&both));
    for choice in ["exxact-devbox", "2"] {
        let one = peerlane(&[args.as_slice(), &["--machine", choice]].concat());
        assert_eq!(status(&one), 0);
        assert!(stdout(&one).starts_with("<svg ") && stdout(&one).contains("exxact-devbox"));
    }
    assert_eq!(status(&peerlane(&["map", "7gforce", "--machine", "3"])), 2);
}

#[test]
fn nothing_is_wider_than_100_columns_or_coloured_in_a_pipe() {
    let names = systems();
    assert!(names.len() >= 10);
    for name in some(&names, 4) {
        for args in [
            vec!["check", name],
            vec!["check", name, "-v"],
            vec!["map", name],
            vec!["map", name, "-v"],
            vec!["map", name, "--format", "matrix"],
            vec!["predict", name],
            vec!["predict", name, "--sizes"],
            vec!["systems", "show", name, "-v"],
        ] {
            let output = peerlane(&args);
            assert!(status(&output) < 2, "{args:?}: {}", err(&output));
            let text = stdout(&output);
            assert!(!text.contains('\u{1b}'), "{args:?}");
            for line in text.lines() {
                assert!(line.chars().count() <= 100, "{args:?}: {} columns: {line}", line.chars().count());
            }
        }
    }
    for args in [vec!["systems"], vec!["accuracy"], vec!["accuracy", "-v"]] {
        assert!(stdout(&peerlane(&args)).lines().all(|l| l.chars().count() <= 100), "{args:?}");
    }
}

#[test]
fn systems_show_all_that_their_source_states() {
    for (name, all) in [
        ("exxact-devbox", vec!["8999 US dollars", "yes: among GPU0–GPU3", "26.13", "0-11"]),
        ("exxact-traditional", vec!["yes: GPU0 ↔ GPU1; GPU2 ↔ GPU3", "no: GPU0, GPU1 ↔ GPU2, GPU3", "10-19,30-39"]),
        ("exxact-txr414-20", vec!["4 rack units", "140 TFLOP/s"]),
        ("apenet-x56xx", vec!["Fermi BAR1", "0.15", "GPU_P2P_TX +RX"]),
        ("k20-cx3-snb", vec!["0.8", "~ 5 GB/s"]),
        ("hpcac-tessa", vec!["98.95", "6.633025", "iterations 10000"]),
        ("7gforce", vec!["195 GB/s inside a 1070", "2.26"]),
    ] {
        let text = stdout(&peerlane(&["systems", "show", name]));
        for part in all {
            assert!(text.contains(part), "{name} lacks {part}:\n{text}");
        }
    }
    let text = stdout(&peerlane(&["systems", "show", "7gforce"]));
    assert_eq!(text.matches("inside a 1070").count(), 1, "said once for six alike");
}

#[test]
fn every_system_can_be_drawn_and_written_in_every_format() {
    for name in systems() {
        for (format, start) in [("svg", "<svg "), ("dot", "graph "), ("nccl-xml", "<"), ("system", "")] {
            let output = peerlane(&["map", &name, "--format", format]);
            assert_eq!(status(&output), 0, "{name} {format}: {}", err(&output));
            assert!(stdout(&output).starts_with(start) && stdout(&output).len() > 100, "{name} {format}");
        }
    }
}

#[test]
fn without_gpu_and_target_the_showcase_says_so() {
    if std::path::Path::new("/proc/driver/nvidia").exists() {
        eprintln!("skipped: this machine has an NVIDIA driver");
        return;
    }
    let output = peerlane(&["check"]);
    assert_eq!(status(&output), 1);
    assert!(err(&output).starts_with("peerlane: No NVIDIA GPU found"), "{}", err(&output));
    assert_eq!(stdout(&output), stdout(&peerlane(&["check", "slow-node"])));
    assert!(err(&peerlane(&["check", "slow-node"])).is_empty());
}

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let mut child = command(&["map", "exxact-txr414-20", "--json"]).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((status(&output), err(&output)), (0, String::new()));
}

#[test]
fn standard_input_is_named_once() {
    let output = with_input(&["map", "-", "-"], TOPO.as_bytes());
    assert_eq!((status(&output), stdout(&output)), (2, String::new()));
    assert!(err(&output).contains("given twice"), "{}", err(&output));
}

#[test]
#[cfg(target_os = "linux")]
fn the_number_of_a_pipe_is_no_name() {
    let output = with_input(&["map", "/dev/fd/0"], TOPO.as_bytes());
    assert!(stdout(&output).starts_with("machine 1\n"), "{}", stdout(&output));
}

#[test]
fn a_folder_of_things_that_are_no_text_is_said_in_a_few_lines() {
    let folder = path("cli", "binaries");
    std::fs::create_dir_all(&folder).unwrap();
    for i in 0..50 {
        std::fs::write(folder.join(i.to_string()), [0_u8; 64]).unwrap();
    }
    let output = peerlane(&["map", folder.to_str().unwrap()]);
    assert_eq!(status(&output), 2);
    let said = err(&output);
    let of_folder = said.lines().filter(|line| line.contains("cli/binaries")).count();
    assert!(said.contains("47 more warnings") && of_folder == 5, "{said}");
}

#[test]
fn a_system_file_may_be_utf_16() {
    let shown = stdout(&peerlane(&["map", "7gforce", "--format", "system"]));
    let bytes: Vec<u8> = format!("\u{feff}{shown}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    let output = peerlane(&["map", &file("cli", "utf16.toml", &bytes)]);
    assert_eq!(status(&output), 0, "{}", err(&output));
}

#[test]
fn the_same_options_before_and_after_every_command() {
    let shown = |args: &[&str]| stdout(&peerlane(args));
    for options in [["-v"], ["-q"], ["--color=always"]] {
        let after = shown(&[&["check", "7gforce"], &options[..]].concat());
        assert_eq!(shown(&[&options[..], &["check", "7gforce"]].concat()), after);
        assert_ne!(shown(&["check", "7gforce"]), after, "{options:?}");
    }
    let forced = command(&["map", "7gforce", "--color", "never"]).env("CLICOLOR_FORCE", "1").output().unwrap();
    assert_eq!(stdout(&forced), shown(&["map", "7gforce"]));
    for (wrong, why) in [
        (&["check", "-v", "-q"][..], "cannot be used with"),
        (&["--licenses", "check"], "without a command"),
        (&["-v"], "a command is missing"),
    ] {
        assert_eq!(status(&peerlane(wrong)), 2, "{wrong:?}");
        assert!(err(&peerlane(wrong)).contains(why), "{wrong:?}: {}", err(&peerlane(wrong)));
    }
}

#[test]
fn quiet_commands_keep_their_errors() {
    assert!(err(&peerlane(&["map"])).contains("showing the example"));
    // an example is nobody's machine, and a script reads no note
    let quiet = peerlane(&["check", "-q"]);
    assert_eq!((status(&quiet), stdout(&quiet)), (2, String::new()));
    assert!(err(&quiet).contains("no NVIDIA GPU found and no TARGET given"));
    assert!(err(&peerlane(&["map", "-q", "no-such-machine"])).contains("no-such-machine"));
}
