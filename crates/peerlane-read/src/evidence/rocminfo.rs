//! `rocminfo`: the agents that ROCm sees, CPUs and GPUs, with product, address and memory.

use super::text::Used;
use super::words::key_value;
use super::{Fact, Found, GpuFacts, HostFacts, Text};
use peerlane_machine::fabric::PciAddress;
use peerlane_machine::units::Bytes;

const TOOL: &str = "rocminfo";

/// More agents than any machine has.
const MOST: usize = 512;

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["Marketing Name:"]) {
        return;
    }
    let mut output = Output::default();
    for (i, line) in text.iter() {
        let line = line.trim_start_matches('>').trim();
        if line.starts_with("Agent ") && line.split_whitespace().count() == 2 {
            output.end();
        } else if let Some((key, value)) = key_value(line) {
            output.take(key, value, i);
        }
    }
    output.end();
    if let Some(lines) = output.lines.numbers(text, found) {
        found.push(text, TOOL, lines, Fact::Gpus(output.gpus));
        found.push(text, TOOL, lines, Fact::Host(output.host));
    }
}

/// All agents, and the one that is being read.
#[derive(Default)]
struct Output {
    gpus: Vec<GpuFacts>,
    host: HostFacts,
    lines: Used,
    agent: Agent,
}

#[derive(Default)]
struct Agent {
    kind: Option<String>,
    /// Its short name: `gfx942` of a GPU, a CPU's product.
    label: Option<String>,
    name: Option<String>,
    uuid: Option<String>,
    place: Option<u32>,
    domain: u32,
    memory: Option<Bytes>,
}

impl Agent {
    /// What an agent is by its names, where its kind was left out.
    fn guess(&self) -> Option<&'static str> {
        let (label, name) = (self.label.as_deref()?, self.name.as_deref()?);
        let is_gpu = label.strip_prefix("gfx").is_some_and(|rest| rest.bytes().all(|b| b.is_ascii_alphanumeric()));
        let is_cpu =
            label == name && ["Processor", "EPYC", "Xeon", "Ryzen", "CPU"].iter().any(|word| name.contains(word));
        if is_gpu { Some("GPU") } else { is_cpu.then_some("CPU") }
    }
}

impl Output {
    fn take(&mut self, key: &str, value: &str, i: usize) {
        // a list that was filtered has no heads: each name begins an agent; other names are of its instruction set
        if key == "Name" && !value.starts_with("amdgcn") {
            if self.agent.kind.is_none() && self.agent.label.is_some() {
                self.end();
            }
            self.agent.label = Some(value.to_owned());
            self.lines.add(i);
            return;
        }
        let agent = &mut self.agent;
        match key {
            "Marketing Name" if !value.is_empty() => agent.name = Some(value.to_owned()),
            "Uuid" => agent.uuid = Some(value.to_owned()),
            "Device Type" => agent.kind = Some(value.to_owned()),
            "BDFID" => agent.place = value.parse().ok(),
            "Domain" => agent.domain = value.parse().unwrap_or_default(),
            // the first pool is all of the agent's memory
            "Size" if agent.memory.is_none() && value.ends_with("KB") => {
                let kib = value.split(['(', ' ']).next().and_then(|n| n.parse::<u64>().ok());
                agent.memory = kib.map(|kib| Bytes(kib.saturating_mul(1024)));
            }
            _ => return,
        }
        self.lines.add(i);
    }

    fn end(&mut self) {
        let agent = std::mem::take(&mut self.agent);
        match agent.kind.as_deref().or(agent.guess()) {
            Some("GPU") if self.gpus.len() < MOST => self.gpus.push(GpuFacts {
                index: u32::try_from(self.gpus.len()).ok(),
                name: agent.name,
                uuid: agent.uuid.filter(|uuid| uuid.starts_with("GPU-") && !uuid.ends_with("XX")),
                address: agent.place.filter(|place| *place > 0).and_then(|place| address(agent.domain, place)),
                memory: agent.memory,
                ..GpuFacts::default()
            }),
            Some("CPU") => {
                self.host.sockets = Some(self.host.sockets.unwrap_or(0).saturating_add(1));
                self.host.cpu_model = self.host.cpu_model.take().or(agent.name);
            }
            _ => {}
        }
    }
}

/// The address of bus, device and function as one number.
fn address(domain: u32, place: u32) -> Option<PciAddress> {
    format!("{domain:04x}:{:02x}:{:02x}.{}", place >> 8 & 0xff, place >> 3 & 0x1f, place & 7).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    #[test]
    fn agents() {
        let found = scanned(
            scan,
            "*******\nAgent 1\n*******\n  Name: AMD EPYC 9654 96-Core Processor\n  Marketing Name:          AMD EPYC 9654 96-Core Processor\n  Device Type:             CPU\n\
             *******\nAgent 2\n*******\n  Name:                    gfx942\n  Uuid:                    GPU-2d1b\n  Marketing Name:          AMD Instinct MI300X\n\
             \x20 Device Type:             GPU\n  BDFID:                   1280\n  Pool Info:\n      Size:                    201310208(0xbffc000) KB\n",
        );
        let [gpus, host] = found.evidence.as_slice() else { panic!("{found:#?}") };
        let (Fact::Gpus(gpus), Fact::Host(host)) = (&gpus.fact, &host.fact) else { panic!() };
        assert_eq!((host.sockets, host.cpu_model.as_deref()), (Some(1), Some("AMD EPYC 9654 96-Core Processor")));
        let gpu = &gpus[0];
        assert_eq!((gpu.index, gpu.name.as_deref()), (Some(0), Some("AMD Instinct MI300X")));
        assert_eq!(gpu.address.unwrap().to_string(), "0000:05:00.0");
        assert_eq!(gpu.memory, Some(Bytes(201_310_208 * 1024)));
    }

    #[test]
    fn a_list_that_was_filtered() {
        let gpu = "  Name:                    gfx942\n  Marketing Name:          AMD Instinct MI300X\n      Name:                    amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-\n";
        let cpu = "  Name:                    AMD EPYC 9654 96-Core Processor\n  Marketing Name:          AMD EPYC 9654 96-Core Processor\n";
        let found = scanned(scan, &format!("{cpu}{cpu}{gpu}{gpu}  Name:                    gfx9"));
        let [gpus, host] = found.evidence.as_slice() else { panic!("{found:#?}") };
        let (Fact::Gpus(gpus), Fact::Host(host)) = (&gpus.fact, &host.fact) else { panic!() };
        assert_eq!((gpus.len(), gpus[1].name.as_deref(), host.sockets), (2, Some("AMD Instinct MI300X"), Some(2)));
    }

    #[test]
    fn other_lists() {
        assert_eq!(scanned(scan, "Marketing Name: a word\nDevice Type: GPU?\n").evidence, []);
    }
}
