//! Machines for tests.

use peerlane_machine::fabric::NodeKind;
use peerlane_machine::machine::Machine;
use peerlane_read::catalogue::{read_system, system, system_names};

/// Boxes without symmetry: GPUs of every width, below switches and roots, some joined by NVLink, on one or two sockets.
pub(crate) fn odd_boxes() -> Vec<Machine> {
    let widths = ["3.0 x1", "3.0 x4", "3.0 x8", "3.0 x16"];
    (0..24_usize)
        .map(|seed| {
            let n = 3 + seed % 5;
            let mut text = format!("name = \"odd{seed}\"\n[nodes]\n");
            let cpu = |name: &str| format!("{name} = {{ kind = \"cpu\", product = \"Intel Xeon\" }}\n");
            text += &(cpu("cpu0") + &cpu("cpu1"));
            text += "sw0 = { kind = \"switch\" }\nsw1 = { kind = \"switch\" }\n";
            (0..n).for_each(|i| text += &format!("GPU{i} = {{ kind = \"gpu\" }}\n"));
            let mut link =
                |a: &str, b: &str, kind: &str| text += &format!("[[links]]\nbetween = [\"{a}\", \"{b}\"]\n{kind}\n");
            link("cpu0", "cpu1", "smp = \"qpi-haswell\"");
            link("cpu0", "sw0", "pcie = \"3.0 x8\"");
            link(["cpu0", "cpu1", "sw0"][seed % 3], "sw1", "pcie = \"3.0 x16\"");
            for i in 0..n {
                let above = ["sw0", "sw1", "cpu0", "cpu1"][(seed * 7 + i * 5) % 4];
                let width = widths[(seed * 3 + i * i + i) % 4];
                link(above, &format!("GPU{i}"), &format!("pcie = \"{width}\""));
            }
            if seed % 2 == 1 {
                link("GPU0", "GPU2", "nvlink = 2\nnvlink_generation = 1");
            }
            if seed % 3 == 1 {
                text += "[[p2p]]\nstatus = \"no\"\npairs = [[\"GPU0\", \"GPU1\"]]\n";
            }
            read_system(&text, "odd").unwrap()
        })
        .collect()
}

/// Those, and all of the catalogue with several GPUs.
pub(crate) fn all_boxes() -> Vec<Machine> {
    let mut all: Vec<Machine> = system_names().map(|name| system(name).unwrap().unwrap()).collect();
    all.retain(|m| m.fabric.of_kind(NodeKind::Gpu).count() > 1);
    all.extend(odd_boxes());
    all
}
