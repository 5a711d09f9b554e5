//! `explain` of a GPU and a NIC: the three methods compared, on a terminal and as JSON.

use crate::common::{json, out};

fn explain(words: &[&str]) -> String {
    out(&[&["explain"], words].concat())
}

#[test]
fn the_methods_are_compared() {
    let text = explain(&["apenet-x56xx", "GPU0", "apenet0", "-v"]);
    for part in [
        "NVP2P        1.50 GB/s ◄ bound by apenet0's GPU-read engine",
        "BAR1         0.15 GB/s   bound by GPU0, which answers BAR1 reads 256 bytes at a time",
        "staged       2.70 GB/s   bound by apenet0's DMA engine",
        "once per buffer: register GPU0's buffer with apenet0",
        "cudaMemcpy GPU0 → host, waited for 7.00–10.0",
        "registration pays off after",
        "V3, new flow control    ◄",
        "optimised code          ◄",
    ] {
        assert!(text.contains(part), "no '{part}' in\n{text}");
    }
    let short = explain(&["apenet-x56xx", "GPU0", "apenet0"]);
    assert!(short.contains("  NVP2P                1.50"), "{short}");
    assert!(short.contains("registration pays off after") && short.lines().count() <= 45, "{short}");
    for nodes in [["GPU0", "apenet0"], ["apenet0", "GPU0"]] {
        for name in ["apenet-x56xx", "apenet-i7-plx", "quong-node"] {
            for verbose in [&[][..], &["-v"]] {
                let text = explain(&[&[name][..], &nodes, verbose].concat());
                let wide = text.lines().find(|line| line.chars().count() > 100);
                assert_eq!(wide, None, "{name}");
            }
        }
    }
}

#[test]
fn measured_curves_are_compared_with_expectations() {
    let text = explain(&["hpcac-tessa", "GPU0", "mlx5_2"]);
    assert!(text.contains("Measured by message size: ib_write_bw, BW average, GB/s"), "{text}");
    assert!(text.contains("12.10  0.97 of expected 12.42"), "{text}");
}

#[test]
fn json_has_rates_stages_and_curves_but_not_between_gpus() {
    let explained = json(&["explain", "k20-cx3-snb", "GPU0", "mlx4_0", "--json"]);
    let rdma = &explained["rdma"];
    assert_eq!((&rdma["gpu"], &rdma["nic"]), (&"GPU0".into(), &"mlx4_0".into()));
    let methods = rdma["to_network"].as_array().unwrap();
    let names: Vec<&str> = methods.iter().map(|m| m["method"].as_str().unwrap()).collect();
    assert_eq!(names, ["nvp2p", "bar1", "staged"]);
    assert!(methods[0]["not_offered"].as_str().unwrap().contains("not public") && methods[0]["rate"].is_null());
    assert!((methods[1]["rate"].as_f64().unwrap() - 0.8).abs() < 1e-9);
    assert!(methods[1]["setup"][0]["time"]["high"].as_f64().unwrap() > 9e-4, "seconds");
    assert_eq!(methods[2]["curve"].as_array().unwrap().len(), 8);
    let pair = json(&["explain", "exxact-devbox", "GPU0", "GPU1", "--json"]);
    assert!(pair["rdma"].is_null());
}

#[test]
fn the_method_in_use_is_marked_and_can_be_chosen() {
    let text = explain(&["hpcac-tessa", "GPU0", "mlx5_2", "-v"]);
    for part in [
        "BAR1        12.42 GB/s ◄ bound by",
        "◄ in use  BAR1: the only direct method here",
        "in chunks of 256 KiB, as many",
    ] {
        assert!(text.contains(part), "no '{part}' in\n{text}");
    }
    let chosen = "mlx5_2.method=staged:chunk=64K,depth=2";
    let text = explain(&["hpcac-tessa", "GPU0", "mlx5_2", "--what-if", chosen, "-v"]);
    for part in [
        "staged through host memory",
        "GPU0 → mlx5_2: 7.04 GB/s",
        "staged       7.04 GB/s ◄ bound by 2 × 64 KiB in flight at most",
        "◄ in use  staged: staged:chunk=64K,depth=2 was chosen for mlx5_2",
        "in chunks of 64 KiB, 2 in flight",
    ] {
        assert!(text.contains(part), "no '{part}' in\n{text}");
    }
    let best = json(&["explain", "hpcac-tessa", "GPU0", "mlx5_2", "--what-if", chosen, "--json"]);
    for row in best["rdma"]["staging"]["best"].as_array().unwrap() {
        let us = |key: &str| row[key].as_f64().unwrap();
        assert!(us("time") <= us("time_as_divided") && us("time_direct") < us("time"), "{row}");
    }
}

#[test]
fn every_command_uses_the_chosen_method() {
    let rate = |edit: &str| {
        let predicted = json(&["predict", "apenet-x56xx", "--what-if", edit, "--json"]);
        let text = predicted.to_string();
        assert!(!text.is_empty());
        let explained = json(&["explain", "apenet-x56xx", "GPU0", "apenet0", "--what-if", edit, "--json"]);
        explained["forward"]["rate"].as_f64().unwrap()
    };
    assert!((rate("apenet0.method=bar1") - 0.15).abs() < 1e-3 && (rate("apenet0.method=nvp2p") - 1.5).abs() < 1e-3);
    let time = |edit: &[&str]| {
        let words = ["simulate", "quong", "-w", "point-to-point:node0/GPU0:node1/GPU0", "-s", "1MiB", "--json"];
        json(&[&words[..], edit].concat())["points"][0]["time"].as_f64().unwrap()
    };
    let staged = time(&["--what-if", "apenet0.method=staged"]);
    assert!(time(&["--what-if", "apenet0.method=bar1"]) > 5.0 * time(&[]) && staged > time(&[]));
    let text = out(&["compare", "k20-cx3-snb", "--what-if", "mlx4_0.method=staged"]);
    assert!(text.contains("mlx4_0.method=staged"), "{text}");
}
