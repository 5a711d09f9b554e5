//! `explain` of a GPU and a NIC: the three methods compared, on a terminal and as JSON.

use crate::common::{json, out};

fn explain(words: &[&str]) -> String {
    out(&[&["explain"], words].concat())
}

#[test]
fn the_methods_are_compared() {
    let text = explain(&["apenet-x56xx", "GPU0", "apenet0"]);
    for part in [
        "NVP2P        1.50 GB/s  bound by apenet0's GPU-read engine",
        "BAR1         0.15 GB/s  bound by GPU0, which answers BAR1 reads 256 bytes at a time",
        "staged       2.70 GB/s  bound by apenet0's DMA engine",
        "once per buffer: register GPU0's buffer with apenet0",
        "cudaMemcpy GPU0 → host, waited for 7.00–10.0",
        "registration pays off after",
        "V3, new flow control    ◄",
        "optimised code          ◄",
    ] {
        assert!(text.contains(part), "no '{part}' in\n{text}");
    }
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
