//! The report that the script `report.sh` of home rigs writes (club-3090): `- **GPU 0:** NAME | …` with the GPU's power and
//! PCIe link below it, as lists of keys and values.

use super::limits::MAX_DEVICES;
use super::text::Span;
use super::words::{gpu_number, mebibytes, number_and_unit};
use super::{Fact, Found, GpuFacts, HostFacts, Text};
use peerlane_machine::fabric::PcieGeneration;

const TOOL: &str = "rig report";

pub(super) fn scan(text: &Text, found: &mut Found) {
    // no GPU is listed without these
    if !text.holds(&["**GPU ", "- GPU "]) {
        return;
    }
    let mut report = Report::default();
    for (i, line) in text.iter() {
        let line = line.trim_start_matches('>');
        let Some((key, value)) = item(line) else { continue };
        let nested = line.starts_with([' ', '\t']);
        if let Some(gpu) = gpu(key, value) {
            // the same number again is another machine
            if report.gpus.iter().rev().take(1).any(|last| last.index >= gpu.index) {
                std::mem::take(&mut report).push(text, found);
            }
            report.lines.add(i);
            if report.gpus.len() <= MAX_DEVICES {
                report.gpus.push(gpu);
            }
        } else if nested && let Some(gpu) = report.gpus.last_mut() {
            if field(gpu, key, value).is_some() {
                report.lines.extend(i);
            }
        } else {
            report.host(key, value, i);
        }
    }
    report.push(text, found);
}

/// `- **Power:** limit=290.00 W`: key and value of an item of a list.
fn item(line: &str) -> Option<(&str, &str)> {
    let item = line.trim().strip_prefix(['-', '*'])?.trim_start();
    let (key, value) = item.split_once(':')?;
    Some((key.trim_matches(['*', ' ']), value.trim_start_matches('*').trim()))
}

/// `GPU 0` and `NVIDIA GeForce RTX 3090 | 24576 MiB | driver 595.71.05 | VBIOS … | persistence=Enabled`.
fn gpu(key: &str, value: &str) -> Option<GpuFacts> {
    let index = key.strip_prefix("GPU ")?.trim().parse().ok().or_else(|| gpu_number(key))?;
    let mut parts = value.split(" | ");
    let name = parts.next()?.trim();
    let mut gpu = GpuFacts::listed(index, name);
    let mut known = false;
    for part in parts {
        let part = part.trim();
        if let Some(driver) = part.strip_prefix("driver ") {
            gpu.driver = Some(driver.to_owned());
            known = true;
        } else if let Some((memory, "MiB")) = number_and_unit(part) {
            gpu.memory = Some(mebibytes(memory));
            known = true;
        }
    }
    known.then_some(gpu)
}

/// A line below a GPU.
fn field(gpu: &mut GpuFacts, key: &str, value: &str) -> Option<()> {
    let after = |mark: &str| value.split_once(mark).map(|(_, rest)| rest);
    let number = |mark: &str| {
        let rest = after(mark)?;
        rest.split([' ', ',', '|', ')']).next()?.trim().parse::<f64>().ok().filter(|n| n.is_finite())
    };
    let lanes = |n: f64| Some(n as u8).filter(|lanes| [1, 2, 4, 8, 16, 32].contains(lanes));
    match key {
        "Power" => {
            gpu.power_limit = number("limit=");
            gpu.power = number("current_draw=");
        }
        "PCIe" => {
            // `x8 lanes negotiated (GPU max x16, Gen up to 4) | bus 00000000:01:00.0`; what it calls the most is the GPU's own
            let running = value.strip_prefix('x').and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
            gpu.running.lanes = running.and_then(lanes);
            gpu.capable.lanes = number("max x").and_then(lanes);
            gpu.capable.generation = number("Gen up to ").and_then(|n| PcieGeneration::from_number(n as u8));
            gpu.address = after("bus ").and_then(|bus| bus.split_whitespace().next()?.parse().ok());
        }
        _ => return None,
    }
    Some(())
}

/// One report.
#[derive(Default)]
struct Report {
    host: HostFacts,
    host_lines: Span,
    gpus: Vec<GpuFacts>,
    lines: Span,
}

impl Report {
    fn host(&mut self, key: &str, value: &str, i: usize) {
        match key {
            // `AMD Ryzen 7 5800X 8-Core Processor (12 threads)`
            "CPU" => self.host.cpu_model = Some(value.split(" (").next().unwrap_or(value).to_owned()),
            "Environment" if value.ends_with("(virtualized)") => {
                let kind = value.split_whitespace().next().unwrap_or_default();
                // containers hide nothing of PCIe
                if matches!(kind, "lxc" | "docker" | "podman" | "wsl") {
                    return;
                }
                self.host.hypervisor = Some(kind.to_owned());
            }
            _ => return,
        }
        self.host_lines.add(i);
    }

    fn push(self, text: &Text, found: &mut Found) {
        let Some(lines) = self.lines.numbers(text) else { return };
        found.push(text, TOOL, lines, Fact::Gpus(self.gpus));
        if let Some(lines) = self.host_lines.numbers(text) {
            found.push(text, TOOL, lines, Fact::Host(self.host));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    const REPORT: &str = "\
# some rig report

## System
- **Kernel:** 6.8.0
- **Environment:** kvm (virtualized)

## CPU + RAM
- **CPU:** Some Ryzen 8-Core Processor (12 threads)

## GPU hardware

- **GPU 0:** NVIDIA Card A | 24576 MiB | driver 595.71.05 | VBIOS 94.02 | persistence=Enabled
  - **Power:** limit=290.00 W (default=350.00 W, max=350.00 W) | current_draw=10.61 W ⚠ capped
  - **PCIe:** x8 lanes negotiated (GPU max x16, Gen up to 4) | bus 00000000:01:00.0 ⚠ narrow
- **GPU 1:** NVIDIA Card A | 24576 MiB | driver 595.71.05 | VBIOS 94.02 | persistence=Enabled
  - **Power:** limit=350.00 W (default=350.00 W, max=350.00 W) | current_draw=25.69 W
  - **PCIe:** x16 lanes negotiated (GPU max x16, Gen up to 3) | bus 00000000:65:00.0
";

    #[test]
    fn gpus_and_host() {
        let found = scanned(scan, REPORT);
        let [gpus, host] = found.evidence.as_slice() else { panic!("{found:#?}") };
        let Fact::Gpus(gpus) = &gpus.fact else { panic!() };
        assert_eq!((gpus[0].running.lanes, gpus[0].capable.to_string().as_str()), (Some(8), "4.0 x16"));
        assert_eq!((gpus[0].power_limit, gpus[0].power, gpus[1].running.lanes), (Some(290.0), Some(10.61), Some(16)));
        assert_eq!(gpus[1].address.unwrap().to_string(), "0000:65:00.0");
        let Fact::Host(host) = &host.fact else { panic!() };
        assert_eq!(
            (host.cpu_model.as_deref(), host.hypervisor.as_deref()),
            (Some("Some Ryzen 8-Core Processor"), Some("kvm"))
        );
    }

    #[test]
    fn lists_of_others() {
        for text in ["- **GPU 0:** the fast one\n", "- GPU 1: x | y\n", "- **CPU:** AMD\n"] {
            assert_eq!(scanned(scan, text), Found::default(), "{text}");
        }
    }
}
