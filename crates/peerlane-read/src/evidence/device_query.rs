//! Reads the output of CUDA's `deviceQuery`: the devices, and which can access which.

use super::health::Health;
use super::limits::MAX_DEVICES as MAX_LISTED;
use super::p2p_test::{Access, MAX_DEVICES};
use super::{Fact, Found, GpuFacts, Text};
use peerlane_machine::fabric::PciAddress;
use peerlane_machine::fact::{Area, Message};
use peerlane_machine::units::Bytes;

const TOOL: &str = "deviceQuery";

pub(super) fn scan(text: &Text, found: &mut Found) {
    let mut run = Run::default();
    let mut access = Access::default();
    for (i, line) in text.iter() {
        let line = line.trim();
        // the sample's last line but one, in old releases the last; it comes only where all devices answered
        if line.starts_with("deviceQuery, CUDA Driver") && line.contains("NumDevs = ") && !line.contains("NumDevs = 0")
        {
            let mut health = Health::default();
            health.sound(Area::Test, i);
            health.push(text, TOOL, found);
        }
        if let Some(count) = detected(line) {
            run.flush(text, found);
            run.detected = Some((count, i));
        } else if let Some(gpu) = device(line) {
            if run.gpus.last().is_some_and(|before| before.index >= gpu.index) {
                run.flush(text, found);
            }
            run.first = if run.gpus.is_empty() { i } else { run.first };
            if run.gpus.len() <= MAX_LISTED {
                run.gpus.push(gpu);
            }
            (run.last, run.open) = (i, true);
        } else if run.may_begin() && begins_without_head(line) && run.gpus.len() <= MAX_LISTED {
            run.first = if run.gpus.is_empty() { i } else { run.first };
            run.gpus.push(GpuFacts::default());
            (run.last, run.open) = (i, true);
        } else if run.open {
            if run.gpus.last_mut().is_some_and(|gpu| field(line, gpu)) {
                run.last = i;
            }
            if let Some(gpu) = run.gpus.last().filter(|gpu| is_without_ecc(line, gpu)) {
                found.push(text, TOOL, text.numbers(i, i), ecc_off(gpu, line));
            }
            // the last line of a block; one that was cut out ends with the paragraph
            let is_cut = line.is_empty() && run.gpus.last().is_some_and(|gpu| gpu.index.is_none());
            run.open = !is_cut && !line.starts_with("Compute Mode:") && !line.starts_with("deviceQuery, CUDA Driver");
        }
        match peer_access(line) {
            Some(([(from, _), (to, _)], answer @ ("Yes" | "No"))) => access.add((from, to), answer == "Yes", i),
            _ if !line.is_empty() => access.flush(text, TOOL, found),
            _ => {}
        }
    }
    run.flush(text, found);
    access.flush(text, TOOL, found);
}

/// The devices of one run.
#[derive(Default)]
struct Run {
    gpus: Vec<GpuFacts>,
    first: usize,
    last: usize,
    /// Whether lines still belong to the last device.
    open: bool,
    /// How many devices the run detected, and where.
    detected: Option<(usize, usize)>,
}

impl Run {
    /// Whether a block may begin without a head: the one before has its own, or has ended.
    fn may_begin(&self) -> bool {
        !self.open || self.gpus.last().is_some_and(|gpu| gpu.index.is_none() && gpu.memory.is_some())
    }

    fn flush(&mut self, text: &Text, found: &mut Found) {
        let mut run = std::mem::take(self);
        // a title alone shows nothing
        run.gpus.retain(|gpu| gpu.index.is_some() || gpu.memory.is_some() && gpu.compute_capability.is_some());
        if run.gpus.is_empty() {
            return;
        }
        if let Some((count, line)) = run.detected.filter(|(count, _)| *count != run.gpus.len()) {
            let message = format!("{} of {count} detected devices are listed", run.gpus.len());
            found.warn(text, TOOL, text.numbers(line, run.last), message);
        }
        // what it reports of a GPU the driver has answered
        let mut health = Health::default();
        for _ in run.gpus.iter().filter(|gpu| gpu.memory.is_some()) {
            health.sound(Area::Driver, run.first);
        }
        found.push(text, TOOL, text.numbers(run.first, run.last), Fact::Gpus(run.gpus));
        health.push(text, TOOL, found);
    }
}

/// `Detected 4 CUDA Capable device(s)`.
fn detected(line: &str) -> Option<usize> {
    line.strip_prefix("Detected ")?.split_once(" CUDA Capable device")?.0.parse().ok()
}

/// `Device 0: "NAME"`.
fn device(line: &str) -> Option<GpuFacts> {
    let (index, name) = line.strip_prefix("Device ")?.split_once(": \"")?;
    let name = name.strip_suffix('"')?;
    Some(GpuFacts::listed(index.parse().ok()?, name))
}

/// Whether a device's block begins here without its own head, as people copy it: `CUDA Driver Version / Runtime Version  10.1 / 10.0`.
fn begins_without_head(line: &str) -> bool {
    line.strip_prefix("CUDA Driver Version / Runtime Version").is_some_and(|rest| rest.starts_with([' ', ':', '\t']))
}

/// Reads one line of a device's block; false where nothing of it is kept.
fn field(line: &str, gpu: &mut GpuFacts) -> bool {
    let Some((label, value)) = line.split_once(':') else { return false };
    let value = value.trim();
    match label.trim() {
        "CUDA Capability Major/Minor version number" => {
            gpu.compute_capability = value.split_once('.').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        }
        "Total amount of global memory" => {
            let bytes = value.split_once('(').and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
            gpu.memory = bytes.map(Bytes);
        }
        "Device PCI Domain ID / Bus ID / location ID" | "Device PCI Bus ID / PCI location ID" => {
            gpu.address = address(value);
        }
        _ => return false,
    }
    true
}

/// GPUs of data centers, which have ECC; other names may have none, and print the same.
const WITH_ECC: [&str; 10] = ["Tesla", "A100", "A800", "H100", "H200", "H800", "B200", "A30", "A40", "L40"];

/// `Device has ECC support: Disabled` of a GPU that has it.
fn is_without_ecc(line: &str, gpu: &GpuFacts) -> bool {
    let off = line
        .split_once(':')
        .is_some_and(|(label, value)| label.trim() == "Device has ECC support" && value.trim() == "Disabled");
    off && has_ecc(gpu)
}

/// Whether a GPU is made for data centres, where its memory is meant to be checked.
pub(super) fn has_ecc(gpu: &GpuFacts) -> bool {
    let name = gpu.name.as_deref().unwrap_or_default();
    WITH_ECC.iter().any(|word| name.split([' ', '-']).any(|part| part == *word))
}

/// That its memory is not checked, as a line shows.
pub(super) fn ecc_off(gpu: &GpuFacts, line: &str) -> Fact {
    let parts = gpu.index.map(|index| ("gpu", index.to_string())).into_iter().collect();
    Fact::Message(Message { id: "gpu-ecc-off", parts, quote: line.trim().to_owned(), host: None, count: 1 })
}

/// `2 / 1 / 0`: domain, bus and device in decimal; old releases print no domain, where only 0 was possible.
fn address(value: &str) -> Option<PciAddress> {
    let numbers: Vec<u32> = value.split('/').map(|n| n.trim().parse()).collect::<Result<_, _>>().ok()?;
    let (domain, bus, device) = match numbers.as_slice() {
        [domain, bus, device] => (*domain, *bus, *device),
        [bus, device] => (0, *bus, *device),
        _ => return None,
    };
    let device = u8::try_from(device).ok().filter(|d| *d < 32)?;
    Some(PciAddress { domain, bus: u8::try_from(bus).ok()?, device, function: 0 })
}

/// `> Peer access from NAME (GPU0) -> NAME (GPU1) : Yes`: number and name of both ends, and the answer.
pub(super) fn peer_access(line: &str) -> Option<([(u32, &str); 2], &str)> {
    fn end(text: &str) -> Option<(u32, &str)> {
        let (name, number) = text.trim_end().strip_suffix(')')?.rsplit_once("(GPU")?;
        Some((number.parse().ok().filter(|n| *n < MAX_DEVICES)?, name.trim_end()))
    }
    let (pair, answer) = line.strip_prefix("> Peer access from ")?.rsplit_once(':')?;
    let (from, to) = pair.split_once(" -> ")?;
    Some(([end(from)?, end(to)?], answer.trim()))
}

#[cfg(test)]
mod tests {
    use super::super::P2pStatus;
    use super::super::testing::scanned;
    use super::*;

    #[test]
    fn ecc_of_gpus_that_have_it_and_the_result() {
        let run = |name: &str| {
            let block = format!(
                "Device 0: \"{name}\"\n  Device has ECC support:                        Disabled\n  Compute Mode:\n"
            );
            let end = "deviceQuery, CUDA Driver = CUDART, NumDevs = 1\nResult = PASS\n";
            let facts: Vec<Fact> = scanned(scan, &(block + end)).evidence.into_iter().map(|e| e.fact).collect();
            let count = |is: fn(&Fact) -> bool| facts.iter().filter(|fact| is(fact)).count();
            (count(|f| matches!(f, Fact::Message(_))), count(|f| matches!(f, Fact::Health(h) if h.sound == 1)))
        };
        assert_eq!((run("Tesla V100-PCIE-32GB"), run("NVIDIA GeForce GTX 1080")), ((1, 1), (0, 1)));
    }

    #[test]
    fn a_device_and_its_peers() {
        let found = scanned(
            scan,
            "Detected 2 CUDA Capable device(s)\n\nDevice 0: \"Card\"\n\
             CUDA Capability Major/Minor version number:    6.1\n\
             Total amount of global memory:                 8192 MBytes (8589934592 bytes)\n\
             Memory Clock rate:                             715 Mhz\n\
             Memory Bus Width:                              256-bit\n\
             Concurrent copy and kernel execution:          Yes with 2 copy engine(s)\n\
             Device PCI Domain ID / Bus ID / location ID:   10 / 25 / 3\n\
             Compute Mode:\n\n\
             > Peer access from Card (GPU0) -> Card (GPU1) : No\n\
             > Peer access from Card (GPU1) -> Card (GPU0) : Yes\n",
        );
        let Fact::Gpus(gpus) = &found.evidence[0].fact else { panic!() };
        let gpu = &gpus[0];
        assert_eq!(gpu.address.unwrap().to_string(), "000a:19:03.0");
        assert_eq!((gpu.memory, gpu.compute_capability), (Some(Bytes(8 << 30)), Some((6, 1))));
        let p2p = found.evidence.iter().find_map(|e| if let Fact::P2p(p2p) = &e.fact { Some(p2p) } else { None });
        let Some(p2p) = p2p else { panic!("{found:?}") };
        assert_eq!(p2p.cells, [[None, Some(P2pStatus::NotSupported)], [Some(P2pStatus::Ok), None]]);
        assert_eq!(found.warnings.len(), 1, "one device is missing");
    }

    #[test]
    fn blocks_that_were_copied_without_their_heads() {
        let block = |bus: u32| {
            format!(
                "Card {bus} deviceQuery:\nCUDA Driver Version / Runtime Version          12.4 / 12.1\n\
                 CUDA Capability Major/Minor version number:    8.6\n\
                 Total amount of global memory:                 8192 MBytes (8589934592 bytes)\n\
                 Device PCI Domain ID / Bus ID / location ID:   0 / {bus} / 0\n\n"
            )
        };
        let found = scanned(scan, &(block(3) + &block(7)));
        let lists =
            found.evidence.iter().filter_map(|e| if let Fact::Gpus(gpus) = &e.fact { Some(gpus) } else { None });
        let addresses: Vec<String> =
            lists.flatten().map(|gpu| gpu.address.map_or_else(String::new, |at| at.to_string())).collect();
        assert_eq!(addresses, ["0000:03:00.0", "0000:07:00.0"]);
        let sound = found.evidence.iter().any(|e| matches!(&e.fact, Fact::Health(report) if report.sound == 2));
        assert!(sound, "{found:?}");
        assert_eq!(scanned(scan, "CUDA Driver Version / Runtime Version 12.4 / 12.1\n"), Found::default());
    }

    #[test]
    fn an_address_without_domain() {
        let found = scanned(scan, "Device 0: \"Old\"\n  Device PCI Bus ID / PCI location ID:           2 / 0\n");
        let Fact::Gpus(gpus) = &found.evidence[0].fact else { panic!() };
        assert_eq!(gpus[0].address.unwrap().to_string(), "0000:02:00.0");
        assert_eq!(address("300 / 0"), None);
    }

    #[test]
    fn two_runs_are_two_facts() {
        let found = scanned(scan, "Device 0: \"A\"\nDevice 1: \"A\"\nDevice 0: \"B\"\nDevice 0: Unquoted\n");
        assert_eq!(found.evidence.len(), 2);
    }
}
