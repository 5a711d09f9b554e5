//! Drives and capture cards of a system file: drawn, predicted, judged and explained. Unified memory as `explain` shows it.

use crate::common::{checked, file, json, out, refused};

const BOX: &str = r#"
name = "box"
title = "Two sockets, a GPU with a drive below one switch"
[nodes]
cpu0 = { part = "epyc-rome" }
cpu1 = { part = "epyc-rome" }
plx0 = { kind = "switch" }
GPU0 = { part = "a100-pcie" }
GPU1 = { part = "a100-pcie" }
nvme0 = { part = "nvme-4-x4", read_rate = 6.5, write_rate = 3.0 }
nvme1 = { part = "nvme-3-x4" }
daq0 = { kind = "fpga", line_rate = 40 }
[[links]]
between = ["cpu0", "cpu1"]
smp = "xgmi"
[[links]]
between = ["cpu0", "plx0"]
pcie = "4.0 x16"
[[links]]
between = ["plx0", "GPU0"]
pcie = "4.0 x16"
[[links]]
between = ["plx0", "nvme0"]
pcie = "4.0 x2"
allowed = "4.0 x4"
[[links]]
between = ["cpu0", "nvme1"]
pcie = "3.0 x4"
[[links]]
between = ["cpu1", "GPU1"]
pcie = "4.0 x16"
[[links]]
between = ["plx0", "daq0"]
pcie = "3.0 x8"
"#;

fn system() -> String {
    file("devices", "box.toml", BOX)
}

#[test]
fn they_are_drawn_and_have_path_classes() {
    let text = out(&["map", &system()]);
    for part in [
        "2 GPUs, 2 drives, 1 capture card",
        "4.0 x2 of 4.0 x4 ─ nvme0  NVMe drive",
        "3.0 x8 ─ daq0  capture card",
        "  GPU0     X  SYS   PIX   PHB  PIX",
    ] {
        assert!(text.contains(part), "no '{part}' in\n{text}");
    }
}

#[test]
fn predictions_keep_to_the_drive_and_its_link() {
    let predicted = json(&["predict", &system(), "--json"]);
    let text = predicted.to_string();
    assert!(text.contains("\"engine\":\"device\""), "{text}");
    let explained = json(&["explain", &system(), "nvme0", "GPU0", "--json"]);
    let direct = |way: &str| explained["device"][way][0]["rate"].as_f64().unwrap();
    // x2 lanes carry 3.4 of the 6.5 that the drive reads, and more than the 3.0 that it writes
    assert!((3.2..3.7).contains(&direct("to_gpu")), "{explained}");
    assert!((direct("from_gpu") - 3.0).abs() < 1e-6, "{explained}");
    assert_eq!(explained["forward"]["rate"], explained["device"]["to_gpu"][0]["rate"]);
    assert!(json(&["explain", &system(), "GPU0", "GPU1", "--json"])["device"].is_null());
}

#[test]
fn they_are_judged_as_nics_are() {
    let text = checked(&["check", &system()]);
    for part in [
        "nvme0 runs at PCIe 4.0 x2, but both ends allow x4 [narrow-link",
        "nearest drive of GPU1: nvme0, nvme1 (SYS); one at PIX or PXB: GPU0",
        "nearest capture card of GPU1: daq0 (SYS)",
    ] {
        assert!(text.contains(part), "no '{part}' in\n{text}");
    }
}

#[test]
fn a_geforce_reads_through_host_memory() {
    let drive = ["--what-if", "nvme0=nvme-3-x4", "--what-if", "nvme0.at=cpu0 3.0 x4"];
    let text = out(&[&["explain", "7gforce", "nvme0", "GPU0"], &drive[..]].concat());
    assert!(text.contains("GPUDirect Storage: nvme0 → GPU0") && text.contains("compatibility mode"), "{text}");
    // an x1 riser carries less than the drive
    let rate = json(&[&["explain", "7gforce", "nvme0", "GPU0", "--json"], &drive[..]].concat());
    let rate = rate["device"]["to_gpu"][1]["rate"].as_f64().unwrap();
    assert!((0.7..0.9).contains(&rate), "{rate}");
}

#[test]
fn rates_are_of_the_devices_that_have_them() {
    for (from, to) in [
        ("daq0 = { kind = \"fpga\", line_rate = 40 }", "daq0 = { kind = \"fpga\", read_rate = 4 }"),
        ("read_rate = 6.5", "read_rate = 0"),
        ("read_rate = 6.5", "line_rate = 6.5"),
    ] {
        let name = file("devices", "refused.toml", BOX.replace(from, to));
        let error = refused(&["predict", &name]);
        assert!(error.contains("rate"), "{error}");
    }
}

#[test]
fn unified_memory_is_explained_with_the_host() {
    let text = out(&["explain", "microway-s822lc", "GPU0", "host"]);
    for part in ["Unified memory of host0 and GPU0", "  prefetch  ", "  page faults  ", "+25 %", "everything moves"] {
        assert!(text.contains(part), "no '{part}' in\n{text}");
    }
    assert_eq!(text.lines().find(|line| line.chars().count() > 100), None);
    let rates = |name| {
        let found = json(&["explain", name, "GPU0", "host", "--json"])["unified_memory"]["rates"].clone();
        [0, 1].map(|at| found[at]["rate"].as_f64().unwrap())
    };
    // the link decides prefetch, and the driver faults
    let ([prefetch, faults], [slow_prefetch, slow_faults]) = (rates("microway-s822lc"), rates("microway-p100-pcie"));
    assert!(prefetch > 2.0 * slow_prefetch && faults < 1.8 * slow_faults, "{prefetch} {faults}");
    // no GPU before Pascal has page faults
    let old = json(&["explain", "exxact-devbox", "GPU0", "host", "--json"]);
    assert!(old["unified_memory"].is_null());
}
