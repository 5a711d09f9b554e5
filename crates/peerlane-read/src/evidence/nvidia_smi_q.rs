//! `nvidia-smi -q`: everything the driver reports of each GPU, as indented `key : value` lines, or with `-x` as XML.

mod xml;

use std::collections::HashSet;

use super::text::Span;
use super::words::{indent, mebibytes, number_and_unit};
use super::{Fact, Found, GpuFacts, NvlinkDomain, Text};
use peerlane_machine::fabric::{PciAddress, PcieGeneration, PcieWidth};

const TOOL: &str = "nvidia-smi -q";

/// Deeper nesting than any driver prints.
const MAX_DEPTH: usize = 8;

pub(super) fn scan(text: &Text, found: &mut Found) {
    let mut log = Log::default();
    text.walk(|i| {
        let line = text.line(i).trim();
        if line.contains("NVSMI LOG") {
            log.finish(text, found);
        } else if let Some(version) = value_of(line, "Driver Version") {
            log.driver = stated(version);
        } else if let Some(count) = value_of(line, "Attached GPUs") {
            log.attached = count.parse().ok();
        } else if let Some(address) = gpu_line(line).filter(|_| has_fields(text, i)) {
            return Some(log.take(text, i, address, found));
        }
        None
    });
    log.finish(text, found);
    xml::scan(text, found);
}

/// `GPU 00000000:C1:00.0`.
pub(super) fn gpu_line(line: &str) -> Option<PciAddress> {
    line.strip_prefix("GPU ")?.parse().ok()
}

/// Whether line `i` is followed by a deeper one that names a field.
fn has_fields(text: &Text, i: usize) -> bool {
    let next = text.line(i + 1);
    indent(next) > indent(text.line(i)) && (next.contains(" : ") || indent(text.line(i + 2)) > indent(next))
}

/// The value of `key   : value` where the key is that one.
fn value_of<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let (k, value) = line.split_once(" : ")?;
    (k.trim() == key).then(|| value.trim())
}

/// A value other than a placeholder.
fn stated(value: &str) -> Option<String> {
    let placeholder = matches!(value, "" | "N/A" | "[N/A]" | "Unknown Error" | "None" | "Not Supported");
    (!placeholder).then(|| value.to_owned())
}

/// One run of the tool.
#[derive(Default)]
struct Log {
    driver: Option<String>,
    attached: Option<usize>,
    addresses: HashSet<PciAddress>,
    gpus: Vec<GpuFacts>,
    lines: Span,
}

impl Log {
    /// Reads the GPU of line `first`; returns the line after it.
    fn take(&mut self, text: &Text, first: usize, address: PciAddress, found: &mut Found) -> usize {
        if !self.addresses.insert(address) {
            self.finish(text, found);
            self.addresses.insert(address);
        }
        let mut gpu = GpuFacts { address: Some(address), driver: self.driver.clone(), ..GpuFacts::default() };
        let base = indent(text.line(first));
        let mut sections: Vec<(usize, &str)> = Vec::new();
        let mut last = first;
        for i in first + 1..text.len() {
            let line = text.line(i);
            if line.trim().is_empty() {
                continue;
            }
            let depth = indent(line);
            if depth <= base {
                break;
            }
            last = i;
            sections.retain(|(d, _)| *d < depth);
            match line.split_once(" : ") {
                Some((key, value)) => {
                    let path = |up: usize| sections.iter().rev().nth(up).map_or("", |(_, name)| *name);
                    set(&mut gpu, path(1), path(0), key.trim(), value.trim());
                }
                None if sections.len() < MAX_DEPTH => sections.push((depth, line.trim())),
                None => {}
            }
        }
        finished(&mut gpu);
        self.gpus.push(gpu);
        self.lines.add(first);
        self.lines.add(last);
        last + 1
    }

    /// Pushes what was read and starts anew.
    fn finish(&mut self, text: &Text, found: &mut Found) {
        let mut log = std::mem::take(self);
        let Some(lines) = log.lines.numbers(text) else { return };
        // GPUs come in order of their index; where some are missing, nobody knows which
        if log.attached == Some(log.gpus.len()) {
            for (i, gpu) in log.gpus.iter_mut().enumerate() {
                gpu.index = u32::try_from(i).ok();
            }
        }
        found.push(text, TOOL, lines, Fact::Gpus(log.gpus));
    }
}

/// Whether a line of the fabric's health report names something wrong. That routes recover now is no fault.
fn is_unhealthy(key: &str, value: &str) -> bool {
    match key {
        "Summary" => matches!(value, "Unhealthy" | "Limited Capacity" | "Degraded"),
        "Bandwidth" => value == "Degraded",
        "Route Unhealthy" | "Access Timeout Recovery" => value == "True",
        "Incorrect Configuration" => stated(value).is_some() && !value.eq_ignore_ascii_case("false"),
        _ => false,
    }
}

/// Takes one field, in the section `section` of the section `outer`.
pub(super) fn set(gpu: &mut GpuFacts, outer: &str, section: &str, key: &str, value: &str) {
    let number = || number_and_unit(value).map(|(n, _)| n);
    let bytes = || number_and_unit(value).filter(|(_, unit)| *unit == "MiB").map(|(n, _)| mebibytes(n));
    match (section, key) {
        ("", "Product Name") => gpu.name = stated(value),
        ("", "GPU UUID") => gpu.uuid = stated(value),
        ("MIG Mode", "Current") => gpu.mig = answer(value),
        ("PCIe Generation", key) => {
            let generation = number().and_then(|n| PcieGeneration::from_number(n as u8));
            match key {
                "Max" => gpu.allowed.generation = generation,
                "Current" => gpu.running.generation = generation,
                "Device Max" => gpu.capable.generation = generation,
                _ => {}
            }
        }
        ("Link Width", key) => {
            let lanes = number().map(|n| n as u8).filter(|lanes| *lanes > 0);
            match key {
                "Max" => gpu.allowed = PcieWidth { lanes, ..gpu.allowed },
                "Current" => gpu.running = PcieWidth { lanes, ..gpu.running },
                _ => {}
            }
        }
        ("PCI", key) if key.eq_ignore_ascii_case("Replays Since Reset") => gpu.replays = value.parse().ok(),
        ("FB Memory Usage", "Total") => gpu.memory = bytes(),
        ("BAR1 Memory Usage", "Total") => gpu.bar1 = bytes(),
        ("Utilization", "GPU" | "Gpu") => gpu.utilization = number(),
        ("Temperature", "GPU Current Temp") => gpu.temperature = number(),
        ("Temperature", "GPU Slowdown Temp") => at_limit(gpu, "GPU", gpu.temperature, number()),
        ("Temperature", "Memory Current Temp") => gpu.memory_temperature = number(),
        ("Temperature", "Memory Max Operating Temp") => at_limit(gpu, "memory", gpu.memory_temperature, number()),
        ("Remapped Rows", "Pending") => gpu.remap_pending = answer(value),
        ("Remapped Rows", "Remapping Failure Occurred") => {
            gpu.remap_failed = answer(value);
        }
        ("Fabric", "State") => gpu.fabric_state = stated(value),
        ("Fabric", "Status") => gpu.fabric_status = stated(value),
        ("Fabric", "ClusterUUID") => {
            // all zeros: the GPU is in no domain of several hosts
            let cluster = stated(value).filter(|uuid| uuid.bytes().any(|b| !matches!(b, b'0' | b'-')));
            let clique = gpu.nvlink_domain.take().and_then(|domain| domain.clique);
            gpu.nvlink_domain = cluster.map(|cluster| NvlinkDomain { cluster, clique });
        }
        // comes before the domain's identifier, without which it means nothing
        ("Fabric", "CliqueId") => {
            let clique = value.parse().ok();
            gpu.nvlink_domain = Some(NvlinkDomain { cluster: String::new(), clique });
        }
        ("Health", key) if outer == "Fabric" && is_unhealthy(key, value) => {
            gpu.fabric_health.push(format!("{key}: {value}"));
        }
        ("", "GPU C2C Mode" | "C2C Mode") => gpu.c2c = answer(value),
        ("", "GPU Recovery Action") => gpu.recovery = stated(value),
        // drivers before 545 print `Power Draw` and `Power Limit`; newer ones add readings of the whole module
        ("GPU Power Readings" | "Power Readings", "Power Draw" | "Instantaneous Power Draw" | "Average Power Draw") => {
            gpu.power = gpu.power.or_else(number);
        }
        ("GPU Power Readings" | "Power Readings", "Current Power Limit" | "Power Limit") => gpu.power_limit = number(),
        ("Clocks Event Reasons" | "Clocks Throttle Reasons", reason) if value == "Active" => {
            gpu.clock_event_reasons.push(reason.to_owned());
        }
        _ if matches!(outer, "Clocks Event Reasons" | "Clocks Throttle Reasons") && value == "Active" => {
            gpu.clock_event_reasons.push(key.to_owned());
        }
        _ => {}
    }
}

/// A part at the temperature at which the driver slows the GPU down.
fn at_limit(gpu: &mut GpuFacts, part: &str, now: Option<f64>, limit: Option<f64>) {
    if let (Some(now), Some(limit)) = (now, limit)
        && limit > 0.0
        && now >= limit
    {
        gpu.clock_event_reasons.push(format!("thermal limit of the {part}: {now:.0} of {limit:.0} °C"));
    }
}

/// Drops what means nothing without a field that did not come.
fn finished(gpu: &mut GpuFacts) {
    if gpu.nvlink_domain.as_ref().is_some_and(|domain| domain.cluster.is_empty()) {
        gpu.nvlink_domain = None;
    }
}

fn answer(value: &str) -> Option<bool> {
    match value {
        "Yes" | "Enabled" => Some(true),
        "No" | "Disabled" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane_machine::units::Bytes;

    fn scanned(text: &str) -> Found {
        let mut found = Found::default();
        scan(&Text::new("test", text.as_bytes()), &mut found);
        found
    }

    fn gpus(found: &Found, i: usize) -> &[GpuFacts] {
        let Fact::Gpus(gpus) = &found.evidence[i].fact else { panic!() };
        gpus
    }

    const NEW: &str = "==============NVSMI LOG==============

Driver Version                            : 580.1
Attached GPUs                             : 2
GPU 00000000:41:00.0
    Product Name                          : NVIDIA H100
    MIG Mode
        Current                           : Enabled
        Pending                           : Disabled
    PCI
        Bus                               : 0x41
        GPU Link Info
            PCIe Generation
                Max                       : 4
                Current                   : 1
                Device Current            : 1
                Device Max                : 5
                Host Max                  : 4
            Link Width
                Max                       : 16x
                Current                   : 8x
        Replays Since Reset               : 7
    Performance State                     : P8
    Clocks Event Reasons
        Idle                              : Not Active
        HW Slowdown                       : Active
            HW Thermal Slowdown           : Active
            HW Power Brake Slowdown       : Not Active
        SW Power Cap                      : Active
    Clocks Event Reasons Counters
        SW Power Capping                  : 0 us
    FB Memory Usage
        Total                             : 81559 MiB
        Used                              : 4 MiB
    BAR1 Memory Usage
        Total                             : 131072 MiB
    Utilization
        GPU                               : 3 %
    Temperature
        GPU Current Temp                  : 41 C
        GPU Slowdown Temp                 : 88 C
    GPU Power Readings
        Average Power Draw                : N/A
        Instantaneous Power Draw          : 70.5 W
        Current Power Limit               : 350.00 W
        Default Power Limit               : 400.00 W
    Module Power Readings
        Instantaneous Power Draw          : 900 W
        Current Power Limit               : 999 W
    Max Clocks
        Memory                            : 2619 MHz
    Fabric
        State                             : In Progress
        Status                            : N/A

GPU 00000000:42:00.0
    Product Name                          : NVIDIA H100
    PCI
        GPU Link Info
            Link Width
                Current                   : N/A
";

    #[test]
    fn what_a_new_driver_tells() {
        let found = scanned(NEW);
        assert_eq!(found.evidence[0].origin.lines, Some((5, 61)));
        let [gpu, other] = gpus(&found, 0) else { panic!() };
        assert_eq!(gpu.allowed.to_string(), "4.0 x16");
        assert_eq!(gpu.running.to_string(), "1.0 x8");
        assert_eq!(gpu.capable.to_string(), "5.0 x?");
        assert_eq!((gpu.power, gpu.power_limit, gpu.temperature), (Some(70.5), Some(350.0), Some(41.0)));
        assert_eq!((gpu.mig, gpu.replays, gpu.index), (Some(true), Some(7), Some(0)));
        assert_eq!(gpu.clock_event_reasons, ["HW Slowdown", "HW Thermal Slowdown", "SW Power Cap"]);
        assert_eq!((gpu.memory, gpu.bar1), (Some(Bytes::from_mib(81559)), Some(Bytes::from_mib(131_072))));
        assert_eq!(gpu.fabric_state.as_deref(), Some("In Progress"));
        assert_eq!(gpu.driver.as_deref(), Some("580.1"));
        assert_eq!((other.index, other.running, other.mig), (Some(1), PcieWidth::default(), None));
    }

    #[test]
    fn old_names_and_several_logs() {
        let old = "GPU 0000:05:00.0\n    Power Readings\n        Power Draw : 39.1 W\n        Power Limit : 150.00 W\n    \
                   Clocks Throttle Reasons\n        SW Power Cap : Active\n    Utilization\n        Gpu : 5 %\n";
        let found = scanned(&format!("{old}{old}"));
        assert_eq!(found.evidence.len(), 2, "the same GPU again is another run");
        let [gpu] = gpus(&found, 1) else { panic!() };
        assert_eq!((gpu.power, gpu.power_limit, gpu.utilization), (Some(39.1), Some(150.0), Some(5.0)));
        assert_eq!((gpu.index, gpu.clock_event_reasons.len()), (None, 1));
        assert_eq!(scanned("GPU 0000:05:00.0\nis a GPU\nGPU 01:00.0 : here\n"), Found::default());
    }

    #[test]
    fn rows_that_wait_to_be_remapped() {
        let text = "GPU 00000000:41:00.0\n    Product Name : NVIDIA A100\n    Remapped Rows\n        Correctable Error : 0\n        \
                    Uncorrectable Error : 4\n        Pending : Yes\n        Remapping Failure Occurred : No\n";
        let found = scanned(text);
        let [gpu] = gpus(&found, 0) else { panic!() };
        assert_eq!((gpu.remap_pending, gpu.remap_failed), (Some(true), Some(false)));
    }
}
