//! What the Linux kernel reports: its command line, and those lines of its log (`dmesg`, `journalctl -k`) that concern GPUs,
//! PCIe errors, slow links and the IOMMU.

use super::text::Span;
use super::words::pcie_width;
use super::{Fact, Found, Text};
use super::{IommuDomain, KernelFacts, LimitedLink, PcieError, PcieErrorKind, Xid};
use peerlane_machine::fabric::{PciAddress, PcieWidth};

const TOOL: &str = "kernel log";
const COMMAND_LINE: &str = "/proc/cmdline";

/// Words of a command line that matter to paths between devices, by how they start.
const MATTERS: [&str; 5] = ["iommu", "intel_iommu=", "amd_iommu=", "pci=", "pcie_"];

/// What a text holds if any of its lines matters here.
const HALLMARKS: [&str; 8] = [
    "NVRM: ",
    "PCIe Bus Error",
    "PCIe bandwidth",
    "iommu",
    "IOMMU",
    "ommand line: ",
    "BOOT_IMAGE=",
    "allen off the bus",
];

/// The most devices of one log; a machine has fewer.
const MOST: usize = 512;

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&HALLMARKS) {
        return;
    }
    let mut facts = KernelFacts::default();
    let mut lines = Span::default();
    let mut command_line_only = true;
    let alone = text.iter().filter(|(_, line)| !line.trim().is_empty()).count() == 1;
    // the driver's sentence on a GPU that is gone goes over three lines
    let mut named: Option<(usize, PciAddress)> = None;
    for (i, line) in text.iter() {
        let mut by_log = read_line(line, &mut facts);
        named = gpu_of_sentence(line).map(|address| (i, address)).or(named);
        // an Xid names its GPU itself
        if line.contains("allen off the bus")
            && !line.contains("Xid (")
            && let Some((_, address)) = named.filter(|(at, _)| i <= at + 2)
        {
            by_log = true;
            if facts.lost.len() < MOST && !facts.lost.contains(&address) {
                facts.lost.push(address);
            }
        }
        let words = command_line(line, alone);
        if !by_log && words.is_none() {
            continue;
        }
        command_line_only &= !by_log;
        for word in words.unwrap_or_default() {
            if facts.parameters.len() < MOST && !facts.parameters.iter().any(|known| known == word) {
                facts.parameters.push(word.to_owned());
            }
        }
        lines.add(i);
    }
    if let Some(lines) = lines.numbers(text).filter(|_| facts != KernelFacts::default()) {
        let tool = if command_line_only { COMMAND_LINE } else { TOOL };
        found.push(text, tool, lines, Fact::Kernel(facts));
    }
}

/// `NVRM: The NVIDIA GPU 0000:b3:00.0`, `NVRM: GPU 0000:09:00.0: GPU has fallen off the bus.`
fn gpu_of_sentence(line: &str) -> Option<PciAddress> {
    let (_, rest) = line.split_once("NVRM: ")?;
    let rest = rest.strip_prefix("The NVIDIA GPU ").or_else(|| rest.strip_prefix("GPU "))?;
    rest.split_whitespace().next()?.trim_end_matches(':').parse().ok()
}

/// Reads a line of a log; whether it was one of those that matter.
fn read_line(line: &str, facts: &mut KernelFacts) -> bool {
    if let Some((_, rest)) = line.split_once("NVRM: Xid (") {
        return xid(rest, facts).is_some();
    }
    if let Some((device, rest)) = line.split_once(": PCIe Bus Error: severity=") {
        return bus_error(device, rest, facts).is_some();
    }
    if let Some((device, rest)) = line.split_once(" Gb/s available PCIe bandwidth, limited by ") {
        return limited(device, rest, facts).is_some();
    }
    if let Some((_, kind)) = line.split_once("iommu: Default domain type: ") {
        facts.iommu = match kind.split_whitespace().next() {
            Some("Translated") => Some(IommuDomain::Translated),
            Some("Passthrough") => Some(IommuDomain::Passthrough),
            _ => return false,
        };
        return true;
    }
    // "DMAR: IOMMU disabled", "AMD-Vi: AMD IOMMU disabled on kernel command-line"
    if line.contains("IOMMU disabled") && (line.contains("DMAR: ") || line.contains("AMD-Vi: ")) {
        facts.iommu_disabled = true;
        return true;
    }
    false
}

/// `PCI:0000:65:00): 79, pid=…`, `0000:06:00): 6, …`.
fn xid(rest: &str, facts: &mut KernelFacts) -> Option<()> {
    let (place, rest) = rest.split_once("):")?;
    let place = place.strip_prefix("PCI:").unwrap_or(place);
    let address: PciAddress = if place.contains('.') { place.parse() } else { format!("{place}.0").parse() }.ok()?;
    let code: u32 = rest.trim_start().split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()?;
    if let Some(known) = facts.xids.iter_mut().find(|x| (x.address, x.code) == (address, code)) {
        known.count = known.count.saturating_add(1);
    } else if facts.xids.len() < MOST {
        facts.xids.push(Xid { address, code, count: 1 });
    }
    Some(())
}

/// `mlx5_core 0001:43:00.0: 63.008` before, `8.0 GT/s PCIe x8 link at 0001:42:01.0 (capable of 126.016 Gb/s with 8.0 GT/s PCIe
/// x16 link)` after; what a device is capable of may stand on the port itself.
fn limited(device: &str, rest: &str, facts: &mut KernelFacts) -> Option<()> {
    let device: PciAddress = device.rsplit_once(": ")?.0.split_whitespace().next_back()?.parse().ok()?;
    let (running, rest) = rest.split_once(" link at ")?;
    let (at, rest) = rest.split_once(" (capable of ")?;
    let capable = rest.split_once(" with ")?.1.split_once(" link")?.0;
    let limit = LimitedLink { device, at: at.trim().parse().ok()?, width: width(running)?, capable: width(capable)? };
    facts.limited.retain(|known| known.device != device);
    if facts.limited.len() < MOST {
        facts.limited.push(limit);
    }
    Some(())
}

/// `8.0 GT/s PCIe x8`; `8 GT/s x8` of older kernels.
fn width(text: &str) -> Option<PcieWidth> {
    let (rate, lanes) = text.split_once(" GT/s ")?;
    let lanes = lanes.strip_prefix("PCIe ").unwrap_or(lanes).strip_prefix('x')?;
    let width = pcie_width(&format!("{rate} GT/s"), lanes);
    width.raw_rate().map(|_| width)
}

/// `nvidia 0000:17:00.0` before, `Corrected, type=Data Link Layer, (Transmitter ID)` after.
fn bus_error(device: &str, rest: &str, facts: &mut KernelFacts) -> Option<()> {
    let address: PciAddress = device.split_whitespace().next_back()?.parse().ok()?;
    let rest = rest.to_ascii_lowercase();
    let kind = if rest.starts_with("correct") {
        PcieErrorKind::Corrected
    } else if rest.contains("non-fatal") || rest.contains("nonfatal") {
        PcieErrorKind::NonFatal
    } else if rest.contains("fatal") {
        PcieErrorKind::Fatal
    } else {
        return None;
    };
    if let Some(known) = facts.pcie_errors.iter_mut().find(|e| (e.address, e.kind) == (address, kind)) {
        known.count = known.count.saturating_add(1);
    } else if facts.pcie_errors.len() < MOST {
        facts.pcie_errors.push(PcieError { address, kind, count: 1 });
    }
    Some(())
}

/// The words of a command line that matter, where the line is one: after the kernel's own words for it, from
/// `BOOT_IMAGE=` on, or nothing but settings in a text of one line, as a collected file has it.
fn command_line(line: &str, alone: bool) -> Option<Vec<&str>> {
    let matters = |word: &&str| MATTERS.iter().any(|start| word.starts_with(start));
    let rest = ["Kernel command line: ", "Command line: "].iter().find_map(|words| Some(line.split_once(words)?.1));
    let rest = rest.or_else(|| line.trim_start().starts_with("BOOT_IMAGE=").then_some(line));
    if let Some(rest) = rest {
        return Some(rest.split_whitespace().filter(matters).collect());
    }
    if !alone {
        return None;
    }
    let plain =
        |word: &str| word.contains('=') && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.,:=/-".contains(&b));
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_one = words.iter().all(|word| plain(word)) && words.iter().any(|w| matters(w) && w.contains("iommu"));
    is_one.then(|| words.into_iter().filter(matters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scanned(text: &str) -> Option<(&'static str, KernelFacts)> {
        let mut found = Found::default();
        scan(&Text::new("test", text.as_bytes()), &mut found);
        assert!(found.evidence.len() <= 1);
        let one = found.evidence.pop()?;
        let Fact::Kernel(facts) = one.fact else { panic!() };
        Some((one.origin.tool, facts))
    }

    #[test]
    fn a_log_of_the_kernel() {
        let (tool, facts) = scanned(
            "[    0.000000] Command line: BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro intel_iommu=on quiet\n\
             [    2.201120] iommu: Default domain type: Translated\n\
             [ 7521.1] nvidia 0000:17:00.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)\n\
             [ 7522.1] nvidia 0000:17:00.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)\n\
             [ 7523.1] nvidia 0000:18:00.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Transaction Layer\n\
             [ 9001.5] NVRM: Xid (PCI:0000:65:00): 79, pid='<unknown>', GPU has fallen off the bus.\n\
             [ 9002.5] NVRM: Xid (0000:06:00): 31, Ch 0000001e\n",
        )
        .unwrap();
        assert_eq!((tool, facts.iommu), (TOOL, Some(IommuDomain::Translated)));
        assert_eq!(facts.parameters, ["intel_iommu=on"]);
        let xids: Vec<(String, u32)> = facts.xids.iter().map(|x| (x.address.to_string(), x.code)).collect();
        assert_eq!(xids, [("0000:65:00.0".to_owned(), 79), ("0000:06:00.0".to_owned(), 31)]);
        let errors: Vec<(PcieErrorKind, u32)> = facts.pcie_errors.iter().map(|e| (e.kind, e.count)).collect();
        assert_eq!(errors, [(PcieErrorKind::Corrected, 2), (PcieErrorKind::NonFatal, 1)]);
    }

    #[test]
    fn links_that_are_slower_than_their_devices() {
        let (_, facts) = scanned(
            "[    8.3] mlx5_core 0001:43:00.0: 63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link at 0001:42:01.0 \
             (capable of 126.016 Gb/s with 8.0 GT/s PCIe x16 link)\n\
             [    8.4] mlx5_core 0001:44:00.0: 252.048 Gb/s available PCIe bandwidth (16.0 GT/s PCIe x16 link)\n",
        )
        .unwrap();
        let [limit] = facts.limited.as_slice() else { panic!("{facts:?}") };
        assert_eq!(
            (limit.device.to_string(), limit.at.to_string()),
            ("0001:43:00.0".to_owned(), "0001:42:01.0".to_owned())
        );
        assert_eq!((limit.width.to_string(), limit.capable.to_string()), ("3.0 x8".to_owned(), "3.0 x16".to_owned()));
        assert_eq!((width("8 GT/s x8"), width("2.5 GT/s x4")), ("3.0 x8".parse().ok(), "1.0 x4".parse().ok()));
    }

    #[test]
    fn a_command_line_alone() {
        let (tool, facts) = scanned("BOOT_IMAGE=/boot/vmlinuz root=UUID=1 ro amd_iommu=on iommu=pt quiet\n").unwrap();
        assert_eq!((tool, facts.parameters.len()), (COMMAND_LINE, 2));
        assert_eq!(scanned("iommu=pt pci=realloc\n").unwrap().1.parameters, ["iommu=pt", "pci=realloc"]);
    }

    #[test]
    fn what_only_speaks_of_one() {
        for text in [
            "boot with iommu=pt or turn it off\n",
            "GRUB_CMDLINE_LINUX=\"intel_iommu=on iommu=pt\"\n",
            "Set this:\niommu=pt\n",
            "NVRM: Xid (somewhere): 79\n",
            "a=1 b=2\n",
            "x: PCIe Bus Error: severity=Corrected\n",
            "BOOT_IMAGE=/vmlinuz ro quiet\n",
        ] {
            assert_eq!(scanned(text), None, "{text}");
        }
    }
}
