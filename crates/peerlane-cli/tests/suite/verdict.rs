//! One meaning of the verdict in every output (`docs/verdict.md`), and nothing good of what is missing.

use std::fs;
use std::path::Path;

use peerlane::run::unsealed;
use peerlane::verdict::Gate;
use serde_json::{Value, json};

use crate::common::{err, file, json as document, path, peerlane, some, status, stdout};

/// A verdict with all that follows from it.
struct Row {
    verdict: &'static str,
    exit: i32,
    failed: bool,
    skipped: bool,
    severity: Option<&'static str>,
}

const FAULT: Row = Row { verdict: "fault", exit: 1, failed: true, skipped: false, severity: Some("error") };
const UNEXPLAINED: Row =
    Row { verdict: "unexplained", exit: 0, failed: false, skipped: true, severity: Some("warning") };
const HEALTHY: Row = Row { verdict: "healthy", exit: 0, failed: false, skipped: false, severity: None };
const NOT_JUDGED: Row = Row { verdict: "not-judged", exit: 0, failed: false, skipped: true, severity: None };

/// Holds all outputs of `check` against the row. Work that was not done ends with 2, whatever the verdict.
fn hold(target: &str, row: &Row, is_complete: bool) {
    let run = |more: &[&str]| peerlane(&[&["check", target], more].concat());
    let output = run(&["--json"]);
    let checked: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{target}: {}", err(&output)));
    assert_eq!(checked["verdict"], row.verdict, "{target}: {:#}", checked["findings"]);
    assert_eq!(status(&output), if is_complete { row.exit } else { 2 }, "{target}");
    let missing = checked["machines"][0].get("missing").or(checked.get("missing"));
    assert_eq!(is_complete, missing.is_none(), "{target}: {missing:?}");
    assert_eq!(is_complete, !err(&output).contains("have no value") && !err(&output).contains("has no value"));
    let findings = checked["findings"].as_array().unwrap();
    let worst = findings.iter().filter(|f| f["severity"] != "info").find(|f| f["kind"] != "design");
    assert_eq!(worst.map(|f| f["severity"].as_str().unwrap()), row.severity, "{target}");
    let words = row.verdict.to_uppercase().replace('-', " ");
    assert!(stdout(&run(&[])).lines().any(|line| line.starts_with(&format!("{words}  "))), "{target}");
    let junit = stdout(&run(&["--format", "junit"]));
    assert_eq!(junit.contains("<failure "), row.failed, "{target}: {junit}");
    assert!(!row.skipped || junit.contains("<skipped message=\""), "{target}: {junit}");
    let metrics = stdout(&run(&["--format", "prometheus"]));
    for verdict in ["fault", "unexplained", "limited", "healthy", "not-judged"] {
        let is_set = metrics
            .lines()
            .any(|l| l.starts_with("peerlane_verdict{") && l.ends_with(&format!("verdict=\"{verdict}\"}} 1")));
        assert_eq!(is_set, verdict == row.verdict, "{target}: {metrics}");
    }
    // tests run at the same time, each with targets of its own
    let name = Path::new(target).file_name().unwrap().to_string_lossy();
    let page = path("verdict", &format!("{name}.html"));
    run(&["--html", page.to_str().unwrap()]);
    assert!(fs::read_to_string(&page).unwrap().contains(&format!("\"verdict\":\"{}\"", row.verdict)), "{target}");
    let never = run(&["--fail-on", "never"]);
    assert_eq!(status(&never), if is_complete { 0 } else { 2 });
}

/// A simulated machine with a fault.
fn planted(name: &str, fault: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../systems");
    let text = fs::read_to_string(folder.join("h200x4-vm.toml")).unwrap();
    file("verdict", &format!("{name}.toml"), format!("{text}\n[simulated]\nseed = 7\n\n{fault}\n"))
}

/// The record of a simulated machine, and whether all of it could be measured.
fn record(name: &str, target: &str) -> (String, bool) {
    let record = path("verdict", &format!("{name}.json"));
    let _ = fs::remove_file(&record);
    let record = record.to_str().unwrap().to_owned();
    let output = peerlane(&["measure", target, "--quick", "-o", &record]);
    assert!(matches!(status(&output), 0 | 2), "{}", err(&output));
    (record, status(&output) == 0)
}

fn edited(name: &str, record: &str, edit: impl FnOnce(&mut Value)) -> String {
    let mut run: Value = serde_json::from_str(&unsealed(&fs::read_to_string(record).unwrap())).unwrap();
    edit(&mut run);
    file("verdict", &format!("{name}.json"), run.to_string())
}

#[test]
fn one_fault_is_the_same_in_every_output() {
    let faults = [
        ("sound", "", HEALTHY, "ok: "),
        ("throttled", "[[faults]]\nthrottle = \"GPU2\"\nfactor = 0.5", FAULT, "isolate "),
        ("a-little-slow", "[[faults]]\nthrottle = \"GPU2\"\nfactor = 0.7", FAULT, "isolate "),
        ("lanes", "[[faults]]\nlink = [\"GPU0\", \"nvswitch\"]\nnvlink = 12", FAULT, "isolate "),
        ("lost", "[[faults]]\nlost = \"GPU1\"\nafter = 3", FAULT, "isolate "),
        ("corrupt", "[[faults]]\ncorrupt = [\"GPU0\", \"GPU1\"]", FAULT, "isolate "),
        ("refused", "[[faults]]\np2p_off = [\"GPU0\", \"GPU1\"]", FAULT, "isolate "),
        ("hung", "[[faults]]\nhang = [\"GPU0\", \"GPU1\"]", FAULT, "isolate "),
        ("memory", "[[faults]]\nerrors = \"GPU1\"\ncounter = \"ecc-uncorrected\"\nper_gb = 50.0", FAULT, "reset "),
        (
            "retrained",
            "[[faults]]\nerrors = \"GPU1\"\ncounter = \"nvlink-recovery\"\nper_gb = 50.0",
            UNEXPLAINED,
            "hold ",
        ),
    ];
    for (name, fault, row, gate) in some(faults, 3) {
        let target = planted(name, fault);
        let (record, is_complete) = record(name, &target);
        hold(&record, &row, is_complete);
        let gated = peerlane(&["gate", &target]);
        assert!(stdout(&gated).starts_with(gate), "{name}: {}", stdout(&gated));
        assert_eq!(status(&gated), row.exit, "{name}");
    }
}

#[test]
fn twelve_of_eighteen_links_are_one_fault_as_a_text_too() {
    let matrix = |links: &str| {
        let mut text = "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\n".to_owned();
        for i in 0..4 {
            let cells = (0..4).map(|j| if i == j { "X" } else { links }).collect::<Vec<_>>().join("\t");
            text += &format!("GPU{i}\t{cells}\t0-47\t0\n");
        }
        text
    };
    let ports = |links: usize| {
        let gpu = |gpu: usize| {
            let lines =
                (0..18).map(|n| format!("\t Link {n}: {}\n", if n < links { "26.562 GB/s" } else { "<inactive>" }));
            format!(
                "GPU {gpu}: NVIDIA H200 (UUID: GPU-0000000{gpu}-0000-0000-0000-000000000000)\n{}",
                lines.collect::<String>()
            )
        };
        (0..4).map(gpu).collect::<String>()
    };
    hold(&file("verdict", "twelve.txt", matrix("NV12") + &ports(12)), &FAULT, true);
    hold(&file("verdict", "eighteen.txt", matrix("NV18") + &ports(18)), &HEALTHY, true);
    let alone = file("verdict", "matrix.txt", matrix("NV18"));
    hold(&alone, &NOT_JUDGED, true);
    let shown = stdout(&peerlane(&["check", &alone]));
    assert!(shown.contains("NOT JUDGED  no fault in the topology; nothing measured"), "{shown}");
}

#[test]
fn a_trouble_that_nothing_explains_is_said_and_fails_where_asked() {
    let log = "[  100.0] NVRM: Xid (PCI:0000:3b:00): 74, pid=1, NVLink: fatal error detected on link 3\n";
    let text = file("verdict", "xid.txt", format!("{}{log}", "\tGPU0\tGPU1\nGPU0\tX\tPIX\nGPU1\tPIX\tX\n"));
    hold(&text, &UNEXPLAINED, true);
    for (line, exit) in [("fault", 0), ("error", 0), ("unexplained", 1), ("warning", 1), ("limited", 1), ("info", 1)] {
        let output = peerlane(&["check", &text, "--fail-on", line]);
        assert_eq!(status(&output), exit, "{line}");
        let junit = stdout(&peerlane(&["check", &text, "--fail-on", line, "--format", "junit"]));
        assert_eq!(junit.contains("<failure "), exit == 1, "{line}: {junit}");
    }
}

/// What NVML reported of a machine with four GPUs, without access to some of them.
fn without_access(name: &str, why: &str, gpus: &[u32]) -> String {
    let record = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures/h200x4-vm-runs/default.json");
    let run: Value = serde_json::from_str(&fs::read_to_string(record).unwrap()).unwrap();
    let mut texts = run["machine"]["evidence"].as_array().unwrap().iter().filter_map(|e| e["text"].as_str());
    let text = texts.rfind(|text| text.contains("peerlane/nvml/1")).unwrap();
    let mut nvml: Value = serde_json::from_str(text).unwrap();
    for gpu in nvml["gpus"].as_array_mut().unwrap().iter_mut().filter(|gpu| gpus.iter().any(|i| gpu["index"] == *i)) {
        *gpu = json!({ "index": gpu["index"] });
    }
    nvml["absent"] = json!([{ "field": "handle", "error": why, "gpus": gpus }]);
    // the document begins with its schema
    let schema = nvml.as_object_mut().unwrap().remove("schema").unwrap();
    file("verdict", &format!("{name}.json"), nvml.to_string().replacen('{', &format!("{{\"schema\":{schema},"), 1))
}

#[test]
fn a_gpu_without_access_is_no_healthy_gpu() {
    let gate = |text: &str| {
        let opened = peerlane::open([text]).unwrap();
        peerlane::gate::judge_case(opened.the_only("the gate").unwrap()).outcome
    };
    let one_lost = without_access("lost", "GPU is lost", &[1]);
    hold(&one_lost, &FAULT, true);
    assert_eq!(gate(&one_lost), Gate::Isolate);
    let none_answers = without_access("999", "Unknown Error", &[0, 1, 2, 3]);
    hold(&none_answers, &UNEXPLAINED, true);
    assert_eq!(gate(&none_answers), Gate::Hold);
}

/// A number from 0 to `below`, the same in every run of the tests.
fn chosen(seed: &mut u64, below: usize) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    usize::try_from(*seed >> 33).unwrap() % below
}

#[test]
fn what_is_gone_is_never_healthy() {
    let (record, is_complete) = record("whole", "h200x4-vm");
    assert!(is_complete);
    let mut seed = 7;
    for round in 0..4 {
        let without_cells = edited(&format!("cells-{round}"), &record, |run| {
            let cells = run["cells"].as_array_mut().unwrap();
            for _ in 0..=round {
                let at = chosen(&mut seed, cells.len());
                cells.remove(at);
            }
        });
        hold(&without_cells, &NOT_JUDGED, false);
        let without_values = edited(&format!("values-{round}"), &record, |run| {
            let cells = run["cells"].as_array_mut().unwrap();
            let at = chosen(&mut seed, cells.len());
            let cell = cells[at].as_object_mut().unwrap();
            for field in ["value", "low", "high"] {
                cell.remove(field);
            }
        });
        hold(&without_values, &NOT_JUDGED, false);
    }
    let given_up = edited("given-up", &record, |run| {
        let cells = run["cells"].as_array_mut().unwrap();
        let first = cells.len() * 4 / 10;
        for cell in cells.iter_mut().skip(first) {
            let cell = cell.as_object_mut().unwrap();
            ["value", "low", "high", "samples"].into_iter().for_each(|field| drop(cell.remove(field)));
            let flag = json!({ "kind": "failed", "detail": "the measuring process was killed twice" });
            cell.insert("flags".to_owned(), json!([flag]));
        }
    });
    hold(&given_up, &UNEXPLAINED, false);
    for gpu in ["GPU0", "GPU3"] {
        let without_a_gpu = edited(&format!("without-{gpu}"), &record, |run| {
            run["cells"].as_array_mut().unwrap().retain(|cell| !cell["work"].to_string().contains(gpu));
        });
        hold(&without_a_gpu, &NOT_JUDGED, false);
    }
}

#[test]
fn an_impossible_number_is_no_measurement() {
    let (record, _) = record("possible", "h200x4-vm");
    let of_rates = |run: &mut Value, change: &dyn Fn(f64) -> f64| {
        for cell in run["cells"].as_array_mut().unwrap().iter_mut().filter(|cell| cell["unit"] == "GB/s") {
            for field in ["value", "low", "high"] {
                let value = cell[field].as_f64().unwrap();
                cell[field] = json!(change(value));
            }
        }
    };
    for (name, change) in [
        ("negative", &(|value: f64| -value) as &dyn Fn(f64) -> f64),
        ("none", &|_| 0.0),
        ("beyond", &|value| value * 1e6),
    ] {
        let broken = edited(name, &record, |run| of_rates(run, change));
        hold(&broken, &NOT_JUDGED, false);
    }
}

#[test]
fn a_lower_rate_never_improves_the_verdict() {
    let (record, _) = record("lowered", "h200x4-vm");
    let rank = |verdict: &Value| {
        ["healthy", "limited", "not-judged", "unexplained", "fault"].iter().position(|v| verdict == v)
    };
    for wanted in [["GPU0", "GPU1"], ["host", "GPU2"]] {
        let mut before = rank(&document(&["check", &record, "--json"])["verdict"]);
        for (nth, factor) in [0.9, 0.8, 0.65, 0.4, 0.1].into_iter().enumerate() {
            let lower = edited(&format!("lower-{nth}"), &record, |run| {
                let transfer = |cell: &&mut Value| {
                    let work = cell["work"].to_string();
                    cell["unit"] == "GB/s" && wanted.iter().all(|end| work.contains(&format!("\"{end}\"")))
                };
                for cell in run["cells"].as_array_mut().unwrap().iter_mut().filter(transfer) {
                    for field in ["value", "low", "high"] {
                        cell[field] = json!(cell[field].as_f64().unwrap() * factor);
                    }
                    cell["samples"] = json!([]);
                }
            });
            let now: Value = serde_json::from_slice(&peerlane(&["check", &lower, "--json"]).stdout).unwrap();
            let now = rank(&now["verdict"]);
            assert!(now >= before, "{wanted:?} at {factor}: {now:?} after {before:?}");
            before = now;
        }
        assert_eq!(before, Some(4), "a tenth of a rate is a fault: {wanted:?}");
    }
}

/// Two hosts with two GPUs and two adapters of 400 Gb/s each, and what an all-reduce over them reached.
fn two_hosts(name: &str, busbw: f64) -> String {
    let port = |n: u32| {
        format!(
            "CA 'mlx5_{n}'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: \
             400\n\t\tBase lid: 1{n}\n\t\tSM lid: 1\n\t\tLink layer: InfiniBand\n"
        )
    };
    let ranks: String = (0..4)
        .map(|rank| {
            let (host, device, bus) = (rank / 2 + 1, rank % 2, ["19", "3b"][rank % 2]);
            format!("#  Rank  {rank} Group  0 Pid    10{device} on    h{host} device  {device} [0000:{bus}:00] NVIDIA H100 80GB HBM3\n")
        })
        .collect();
    let text = format!(
        "        GPU0    GPU1    NIC0    NIC1    CPU Affinity    NUMA Affinity   GPU NUMA ID\n\
         GPU0     X      NV18    PIX     NODE    0-47            0               N/A\n\
         GPU1    NV18     X      NODE    PIX     0-47            0               N/A\n\
         NIC0    PIX     NODE     X      NODE\n\
         NIC1    NODE    PIX     NODE     X\n\n\
         NIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n\n{}{}\n\
         # nThread 1 nGpus 1 minBytes 1073741824 maxBytes 1073741824 step: 2(factor) warmup iters: 5 iters: 20\n\
         # Using devices\n{ranks}\
         #                                                              out-of-place                       in-place\n\
         #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n\
         #        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n  \
         1073741824     268435456     float     sum      -1   9999    {:.2}    {busbw:.2}      0   9999    {:.2}    {busbw:.2}      0\n\
         # Avg bus bandwidth    : {busbw}\n",
        port(0),
        port(1),
        busbw / 1.5,
        busbw / 1.5
    );
    file("verdict", name, &text)
}

#[test]
fn an_all_reduce_over_hosts_is_compared_with_their_adapters() {
    for (name, busbw, verdict) in [
        ("hosts-slow.txt", 4.5, "fault"),
        ("hosts-half.txt", 40.0, "unexplained"),
        ("hosts-sound.txt", 92.0, "healthy"),
    ] {
        let checked = document(&["check", &two_hosts(name, busbw), "--json"]);
        assert_eq!(checked["verdict"], verdict, "{busbw} GB/s: {:#}", checked["findings"]);
    }
}

/// Programs and collectives of a sound machine stand beside what is expected of them, and none of them is a fault alone.
#[test]
fn programs_and_collectives_are_shown_beside_what_is_expected() {
    let shown = |name: &str| {
        let run = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures/h200x4-vm-parts").join(name);
        let output = peerlane(&["check", run.to_str().unwrap(), "-v"]);
        assert_eq!(status(&output), 0, "{}", err(&output));
        stdout(&output)
    };
    let applications = shown("applications.json");
    assert!(applications.contains("\nHEALTHY"), "{applications}");
    for row in [
        "GPU0–GPU3 as 2x2, copies, 4 KiB to 64 MiB",
        "GPU0–GPU3 as 1x2x2, copies, overlap, L=256 to L=512",
        "GPU0–GPU3, stores, 2^24 to 2^26",
    ] {
        let line =
            applications.lines().find(|line| line.trim_start().starts_with(row)).unwrap_or_else(|| panic!("{row}"));
        let ratio = line.split_whitespace().last().unwrap();
        let ends: Vec<f64> = ratio.split('–').map(|end| end.parse().unwrap()).collect();
        assert!(ends.iter().all(|end| (0.85..1.2).contains(end)), "{line}");
    }
    let collectives = shown("collectives.json");
    assert!(collectives.contains("Expected and measured") && !collectives.contains("nothing was measured"));
    assert!(collectives.contains("all-reduce of GPU0–GPU3, 8 B to 1 GiB"), "{collectives}");
    let evidence: Vec<&str> = collectives.lines().skip_while(|line| *line != "Evidence").skip(1).collect();
    let once: std::collections::HashSet<&&str> = evidence.iter().collect();
    assert!(evidence.len() == once.len() && evidence.len() >= 5, "{evidence:?}");
}

/// A name that reads like the verdict is in quotes, wherever it begins a line; the verdict stays the only one.
#[test]
fn a_name_does_not_speak_for_the_program() {
    let spoof = "HEALTHY  no findings; checked: NVLinks, link widths, path classes";
    for (i, field) in ["name = \"NAME\"", "name = \"m\"\ntitle = \"NAME\"", "name = \"\\u001b[32mNAME\\nx\\u202e\""]
        .iter()
        .enumerate()
    {
        let text = field.replace("NAME", spoof)
            + "\n[nodes]\ncpu0={kind=\"cpu\",vendor=\"amd\"}\nGPU0={kind=\"gpu\"}\nGPU1={kind=\"gpu\"}\n[[links]]\n\
               between=[\"cpu0\",\"GPU0\"]\npcie=\"3.0 x1\"\nallowed=\"4.0 x16\"\n[[links]]\nbetween=[\"cpu0\",\"GPU1\"]\npcie=\"4.0 x16\"\n";
        let file = file("verdict", &format!("spoof{i}.toml"), text);
        for args in [&["check"][..], &["map"], &["predict"], &["check", "--format", "markdown"]] {
            let shown = stdout(&crate::common::command(&[args, &[file.as_str()]].concat()).output().unwrap());
            let speaks = |line: &&str| line.trim_start_matches(['#', '*', ' ']).starts_with("HEALTHY");
            assert!(shown.lines().next().is_some_and(|line| line.contains('"')), "{args:?}: {shown}");
            assert_eq!(shown.lines().find(speaks), None, "{args:?}: {shown}");
        }
    }
}
