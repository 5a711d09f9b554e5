//! `nvidia-smi topo -m`, `-q` (what is judged of it) and `nvlink -s`, as driver 580 prints them.

use std::fmt::Write;

use super::site::{Gpu, Site};
use peerlane_machine::fabric::{PcieGeneration, PcieWidth};

/// CPUs of a socket.
pub(super) const CPUS: usize = 32;

/// `nvidia-smi topo -m`.
pub(super) fn topo(site: &Site) -> String {
    let adapters = site.classes.len() - site.gpus.len();
    let names: Vec<String> = site.gpu_names().chain((0..adapters).map(|n| format!("NIC{n}"))).collect();
    let mut text = format!("\t{}\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\n", names.join("\t"));
    for (i, (name, row)) in names.iter().zip(&site.classes).enumerate() {
        let cells: Vec<String> =
            row.iter().map(|class| if class == "X" { " X ".to_owned() } else { class.clone() }).collect();
        let place = site.gpus.get(i).map_or_else(String::new, |gpu| {
            format!("{}-{}\t{}\t\tN/A", gpu.numa * CPUS, (gpu.numa + 1) * CPUS - 1, gpu.numa)
        });
        // String takes all that is written
        let _ = writeln!(text, "{name}\t{}\t{place}", cells.join("\t"));
    }
    text.push_str(
        "\nLegend:\n\n  X    = Self\n  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes \
         (e.g., QPI/UPI)\n",
    );
    if adapters > 0 {
        text.push_str("\nNIC Legend:\n\n");
        for (n, nic) in site.nics.iter().take(adapters).enumerate() {
            let _ = writeln!(text, "  NIC{n}: {}", nic.name);
        }
    }
    text
}

/// `nvidia-smi nvlink -s`.
pub(super) fn nvlink(site: &Site) -> String {
    let mut text = String::new();
    for (i, gpu) in site.gpus.iter().enumerate().filter(|(_, gpu)| gpu.links > 0) {
        let _ = writeln!(text, "GPU {i}: {} (UUID: GPU-1b1c1d1e-0000-0000-0000-{i:012})", gpu.product);
        for link in 0..gpu.links {
            // the first links stay up
            let _ = match link < gpu.up {
                true => writeln!(text, "\t Link {link}: {:.3} GB/s", gpu.link_rate),
                false => writeln!(text, "\t Link {link}: <inactive>"),
            };
        }
    }
    text
}

/// `nvidia-smi -q`.
pub(super) fn query(site: &Site) -> String {
    let mut text = format!(
        "\n==============NVSMI LOG==============\n\nTimestamp                                              : Fri Nov 20 10:24:33 2026\n\
         Driver Version                                         : 580.95.05\n\
         CUDA Version                                           : 13.0\n\n\
         Attached GPUs                                          : {}\n",
        site.gpus.len()
    );
    for gpu in &site.gpus {
        one(&mut text, site, gpu);
    }
    text
}

/// A line of a section at a depth, its value where the others' are.
fn line(text: &mut String, depth: usize, key: &str, value: &str) {
    let _ = writeln!(text, "{}{key:<width$} : {value}", "    ".repeat(depth), width = 54 - 4 * depth);
}

fn one(text: &mut String, site: &Site, gpu: &Gpu) {
    let address = gpu.address;
    let _ = writeln!(text, "GPU 0000{address}");
    line(text, 1, "Product Name", &gpu.product);
    text.push_str("    PCI\n");
    line(text, 2, "Bus Id", &format!("0000{address}"));
    text.push_str("        GPU Link Info\n            PCIe Generation\n");
    let [running, capable] =
        site.functions.get(gpu.function).map_or([PcieWidth::default(); 2], |f| [f.running, f.capable]);
    let generation = |width: PcieWidth| width.generation.map_or_else(|| "N/A".to_owned(), |g| g.number().to_string());
    let lanes = |width: PcieWidth| width.lanes.map_or_else(|| "N/A".to_owned(), |lanes| format!("{lanes}x"));
    line(text, 4, "Max", &generation(capable));
    line(text, 4, "Current", &generation(if site.idle { idle(running) } else { running }));
    text.push_str("            Link Width\n");
    line(text, 4, "Max", &lanes(capable));
    line(text, 4, "Current", &lanes(running));
    line(text, 2, "Replays Since Reset", "0");
    line(text, 1, "Performance State", if site.idle { "P8" } else { "P0" });
    text.push_str("    Clocks Event Reasons\n");
    let active = |is: bool| if is { "Active" } else { "Not Active" };
    let by = |reason: &str| gpu.slowed_by.is_some_and(|slowed| slowed == reason);
    line(text, 2, "Idle", active(site.idle && gpu.slowed_by.is_none()));
    line(text, 2, "SW Power Cap", active(false));
    line(text, 2, "HW Slowdown", active(gpu.slowed_by.is_some()));
    line(text, 3, "HW Thermal Slowdown", active(by("HW Thermal Slowdown")));
    line(text, 3, "HW Power Brake Slowdown", active(by("HW Power Brake Slowdown")));
    line(text, 2, "SW Thermal Slowdown", active(false));
    text.push_str("    Utilization\n");
    line(text, 2, "GPU", if site.idle { "0 %" } else { "97 %" });
    if let Some((pending, failed)) = gpu.rows {
        let yes = |is: bool| if is { "Yes" } else { "No" };
        text.push_str("    Remapped Rows\n");
        line(text, 2, "Correctable Error", "0");
        line(text, 2, "Uncorrectable Error", if pending || failed { "1" } else { "0" });
        line(text, 2, "Pending", yes(pending));
        line(text, 2, "Remapping Failure Occurred", yes(failed));
    }
    text.push_str("    Temperature\n");
    line(text, 2, "GPU Current Temp", &format!("{} C", gpu.temperature));
    if let Some([state, status]) = gpu.fabric {
        text.push_str("    Fabric\n");
        line(text, 2, "State", state);
        line(text, 2, "Status", status);
    }
    text.push('\n');
}

/// What a link of an idle GPU runs at.
pub(super) fn idle(running: PcieWidth) -> PcieWidth {
    PcieWidth { generation: Some(PcieGeneration::Gen1), ..running }
}
