//! What the Linux kernel reports: its command line, and those lines of its log (`dmesg`, `journalctl -k`) that concern GPUs,
//! NVSwitches, adapters, PCIe errors, slow links, address space and the IOMMU.

mod devices;
mod freebsd;
mod gpus;
mod host;
mod iommu;
mod links;
mod pcie_errors;
mod windows;

use super::line_head::is_stamp_of_kernel;
use super::said::is_only_said;
use super::text::Span;
use super::words::pcie_width;
use super::{Fact, Found, Text};
use super::{IommuDomain, KernelFacts, LimitedLink, Logged};
use devices::Devices;
use host::Host;
use links::Links;
use peerlane_machine::fabric::{PciAddress, PcieWidth};
use windows::Windows;

pub(super) const TOOL: &str = super::tool::KERNEL_LOG;
pub(super) const COMMAND_LINE: &str = "/proc/cmdline";

/// Words of a command line that matter to paths between devices, by how they start.
const MATTERS: [&str; 5] = ["iommu", "intel_iommu=", "amd_iommu=", "pci=", "pcie_"];

/// What a text holds if any of its lines matters here. Each costs a pass over the text; a GPU that fell off the bus is named in
/// lines of `NVRM`.
const HALLMARKS: [&str; 11] = [
    "NVRM: ",
    ": SXid (",
    "AMD-Vi: ",
    "DMAR: ",
    ": BAR ",
    "PCIe Bus Error",
    "PCIe bandwidth",
    "iommu",
    "ommand line: ",
    "BOOT_IMAGE=",
    freebsd::HALLMARK,
];

/// The most devices of one log; a machine has fewer.
const MOST: usize = 512;

/// Lines with the kernel's own times or name that show a log where nothing else does.
const ENOUGH: usize = 3;

pub(super) fn scan(text: &Text, found: &mut Found) {
    let begins = || text.iter().take(MOST_BEFORE).any(|(_, line)| message(line).is_some());
    if !text.holds(&HALLMARKS) && !begins() {
        return;
    }
    // a console shows no times
    let starts = |words: &str| text.iter().take(MOST_BEFORE).any(|(_, line)| line.trim_start().starts_with(words));
    let is_console = starts("Linux version ") && starts("Kernel command line: ") && !begins();
    let mut facts = KernelFacts::default();
    let mut lines = Span::default();
    let (mut windows, mut devices, mut host) = (Windows::default(), Devices::default(), Host::default());
    let (mut ports, mut links) = (freebsd::Ports::default(), Links::default());
    let mut errors = pcie_errors::Details::default();
    let mut of_kernel = 0;
    let (mut by_log, mut has_iommu) = (false, false);
    let alone = text.iter().filter(|(_, line)| !line.trim().is_empty()).count() == 1;
    // the driver's sentence on a GPU that is gone goes over three lines
    let mut named: Option<(usize, PciAddress)> = None;
    for (i, line) in text.iter() {
        if line.find("NVRM: ").is_some_and(|from| is_only_said(text, i, from)) {
            continue;
        }
        let mut is_read = read_line(line, &mut facts) || windows.read(line, &mut facts);
        is_read |= errors.read(line, &mut facts);
        if let Some(message) = message(line).or(is_console.then_some(line)) {
            of_kernel += 1;
            facts.is_portable |= host::shows_portable(message);
            is_read |=
                devices.read(i, message, &mut facts) | host.read(i, message) | links.read(i, message, &mut facts);
        }
        named = gpus::named(line).map(|address| (i, address)).or(named);
        // an Xid names its GPU itself
        if line.contains("allen off the bus")
            && !line.contains("Xid (")
            && let Some((_, address)) = named.filter(|(at, _)| i <= at + 2)
        {
            is_read = true;
            if facts.lost.len() < MOST && !facts.lost.contains(&address) {
                facts.lost.push(address);
            }
        }
        by_log |= is_read;
        has_iommu |= iommu::shows_one(line);
        ports.read(i, line);
        let words = command_line(line, alone);
        if is_read || words.is_some() {
            lines.add(i);
        }
        for word in words.unwrap_or_default() {
            if facts.parameters.len() < MOST && !facts.parameters.iter().any(|known| known == word) {
                facts.parameters.push(word.to_owned());
            }
        }
    }
    // the policy of a machine without an IOMMU is passed over, but its log is read
    let asked = || facts.parameters.iter().any(|parameter| iommu::asks_for_one(parameter));
    let is_policy = !has_iommu && facts.iommu == Some(IommuDomain::Translated) && !asked();
    facts.iommu = facts.iommu.filter(|_| !is_policy);
    if let Some(lines) = lines.numbers(text).filter(|_| is_policy || facts != KernelFacts::default()) {
        let tool = if by_log { TOOL } else { COMMAND_LINE };
        found.push(text, tool, lines, Fact::Kernel(facts));
    }
    devices.push(text, found);
    ports.push(text, found);
    links.push(text, found);
    host.push(text, found);
    // a log without a line that matters is a log all the same
    if of_kernel >= ENOUGH && found.evidence.is_empty() {
        found.push(text, TOOL, text.numbers(0, text.len().saturating_sub(1)), Fact::Kernel(KernelFacts::default()));
    }
}

/// Lines before which a log shows itself where it has no hallmark.
const MOST_BEFORE: usize = 200;

/// What the kernel says in `[    1.759813] i915 …`, `Jul 20 16:15:36 host kernel: …`: as `dmesg` and syslog print its lines.
fn message(line: &str) -> Option<&str> {
    let line = line.trim_start_matches(['>', ' ']);
    let named = line.split_once(" kernel: ").map(|(_, rest)| rest);
    stamped(named.unwrap_or(line)).or(named)
}

/// What follows `[    1.759813] `, `[Tue Jan 20 10:17:48 2026] `, `[  +0.000659] `.
fn stamped(line: &str) -> Option<&str> {
    let (time, rest) = line.strip_prefix('[')?.split_once("] ")?;
    is_stamp_of_kernel(time).then_some(rest)
}

/// Whether a line is one that is read here.
pub(super) fn is_read(line: &str) -> bool {
    let mut facts = KernelFacts::default();
    read_line(line, &mut facts) || Windows::default().read(line, &mut facts)
}

/// Reads a line of a log; whether it was one of those that matter.
fn read_line(line: &str, facts: &mut KernelFacts) -> bool {
    if let Some((device, rest)) = line.split_once(": PCIe Bus Error: severity=") {
        return pcie_errors::bus_error(device, rest, facts).is_some();
    }
    if pcie_errors::bit(line).is_some() {
        return true;
    }
    if let Some((device, rest)) = line.split_once(" Gb/s available PCIe bandwidth, limited by ") {
        return limited(device, rest, facts).is_some();
    }
    // `mlx5_core 0001:44:00.0: 252.048 Gb/s available PCIe bandwidth (16.0 GT/s PCIe x16 link)`
    if let Some((device, _)) = line.split_once(" Gb/s available PCIe bandwidth (") {
        return logged_by(device).is_some_and(|address| {
            if facts.unlimited.len() < MOST && !facts.unlimited.contains(&address) {
                facts.unlimited.push(address);
            }
            true
        });
    }
    gpus::read(line, facts) || iommu::read(line, facts)
}

/// Counts something logged of a device.
fn count(all: &mut Vec<Logged>, one: Logged) {
    let room = all.len() < MOST;
    match all.iter_mut().find(|known| known.address == one.address) {
        Some(known) => {
            known.count = known.count.saturating_add(one.count);
            known.gpu |= one.gpu;
        }
        None if room => all.push(one),
        None => {}
    }
}

/// `mlx5_core 0001:43:00.0: 63.008` before, `8.0 GT/s PCIe x8 link at 0001:42:01.0 (capable of 126.016 Gb/s with 8.0 GT/s PCIe
/// x16 link)` after; what a device is capable of may stand on the port itself.
fn limited(device: &str, rest: &str, facts: &mut KernelFacts) -> Option<()> {
    let device = logged_by(device)?;
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

/// The device of `[    8.3] mlx5_core 0001:43:00.0: 63.008`.
fn logged_by(text: &str) -> Option<PciAddress> {
    text.rsplit_once(": ")?.0.split_whitespace().next_back()?.parse().ok()
}

/// `8.0 GT/s PCIe x8`; `8 GT/s x8` of older kernels.
fn width(text: &str) -> Option<PcieWidth> {
    let (rate, lanes) = text.split_once(" GT/s ")?;
    let lanes = lanes.strip_prefix("PCIe ").unwrap_or(lanes).strip_prefix('x')?;
    let width = pcie_width(&format!("{rate} GT/s"), lanes);
    width.raw_rate().map(|_| width)
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
    use peerlane_machine::fact::{PcieErrorKind, Recovery, Unassigned, Xid};
    use peerlane_machine::units::Bytes;

    fn scanned(text: &str) -> Option<(&'static str, KernelFacts)> {
        let mut found = Found::default();
        scan(&Text::new("test", text.as_bytes()), &mut found);
        found.evidence.into_iter().find_map(|e| match e.fact {
            Fact::Kernel(facts) => Some((e.origin.tool, facts)),
            _ => None,
        })
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
    fn a_boot_log_of_a_console_without_times() {
        let body = "Booting Linux on physical CPU 0x0\nLinux version 3.16.36 (a@b) #1 SMP\nKernel command line: root=/dev/ram\n";
        assert!(scanned(body).is_some());
        assert_eq!(scanned("Linux version 3.16.36 is old\n"), None);
    }

    #[test]
    fn a_default_type_of_domain_is_no_iommu() {
        let policy = "[    0.2] iommu: Default domain type: Translated\n[    0.3] pci 0000:01:00.0: [10de:2204] type 00 class 0x030000\n";
        let iommu = |more: &str| scanned(&format!("{policy}{more}")).map(|(_, facts)| facts.iommu);
        assert_eq!(iommu(""), Some(None));
        for shown in
            ["pci 0000:01:00.0: Adding to iommu group 14", "DMAR: Intel(R) Virtualization Technology for Directed I/O"]
        {
            assert_eq!(iommu(&format!("[    0.4] {shown}\n")), Some(Some(IommuDomain::Translated)), "{shown}");
        }
    }

    #[test]
    fn lids_and_batteries_are_of_portable_machines() {
        let pci = "[    0.3] pci 0000:01:00.0: 63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link at 0000:00:01.0 \
                   (capable of 126.016 Gb/s with 8.0 GT/s PCIe x16 link)\n";
        let portable = |line: &str| scanned(&format!("{pci}[    0.4] {line}\n")).unwrap().1.is_portable;
        assert!(
            portable("ACPI: button: Lid Switch [LID0]") && portable("ACPI: battery: Slot [BAT1] (battery present)")
        );
        assert!(
            !portable("ACPI: battery: Slot [BAT1] (battery absent)") && !portable("ACPI: button: Power Button [PWRB]")
        );
    }

    #[test]
    fn links_that_are_slower_than_their_devices() {
        let (_, facts) = scanned(
            "[    8.3] mlx5_core 0001:43:00.0: 63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link \
             at 0001:42:01.0 (capable of 126.016 Gb/s with 8.0 GT/s PCIe x16 link)\n[    8.4] mlx5_core 0001:44:00.0: \
             252.048 Gb/s available PCIe bandwidth (16.0 GT/s PCIe x16 link)\n",
        )
        .unwrap();
        assert_eq!(facts.unlimited.iter().map(ToString::to_string).collect::<Vec<_>>(), ["0001:44:00.0"]);
        let [limit] = facts.limited.as_slice() else { panic!("{facts:?}") };
        assert_eq!(
            (limit.device.to_string(), limit.at.to_string()),
            ("0001:43:00.0".to_owned(), "0001:42:01.0".to_owned())
        );
        assert_eq!((limit.width.to_string(), limit.capable.to_string()), ("3.0 x8".to_owned(), "3.0 x16".to_owned()));
        assert_eq!((width("8 GT/s x8"), width("2.5 GT/s x4")), ("3.0 x8".parse().ok(), "1.0 x4".parse().ok()));
    }

    #[test]
    fn errors_of_fifth_generation_nvlink_and_what_the_driver_asks_for() {
        let (_, facts) = scanned(
            "[1.0] NVRM: Xid (PCI:0000:dc:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 08 (0x021425c6 0x0)\n[1.1] \
             NVRM: Xid (PCI:0000:97:00): 145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2 0x8)\n[1.2] NVRM: Xid \
             (PCI:0000:ba:00): 45, pid=7, name=python3, Ch 00000002 caused by previous Xid 145\n[1.3] NVRM: Xid \
             (PCI:0000:dc:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)\n[1.4] \
             NVRM: Xid (PCI:0000:97:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 \
             (None)\n",
        )
        .unwrap();
        let at = |text: &str| text.parse::<PciAddress>().unwrap();
        let ba = at("ba:00.0");
        assert_eq!(
            facts.xids,
            [
                Xid { fatal: Some(true), ..Xid::new(at("dc:00.0"), 149) },
                Xid { fatal: Some(false), ..Xid::new(at("97:00.0"), 145) },
                Xid::new(ba, 45),
                Xid::new(ba, 145),
            ]
        );
        assert_eq!(facts.recovery, [Recovery { address: at("dc:00.0"), action: "GPU Reset Required".to_owned() }]);
    }

    #[test]
    fn errors_of_nvswitches_with_their_class() {
        let (_, facts) = scanned(
            "[7.1] nvidia-nvswitch0: SXid (PCI:0000:a1:00.0): 20034, Data {0x00000002, 0x00000000}\n\
             [7.2] nvidia-nvswitch0: SXid (PCI:0000:a1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up (First)\n\
             [7.3] nvidia-nvswitch0: SXid (PCI:0000:a1:00.0): 20034, Severity 1 Engine instance 30 Sub-engine instance 00\n\
             [7.4] nvidia-nvswitch3: SXid (PCI:0000:04:00.0): 22013, Non-fatal, Link 44 Minion Link DLREQ interrupt\n\
             [7.5] nvidia-nvswitch3: SXid (PCI:0000:04:00.0): 22013, Non-fatal, Link 45 Minion Link DLREQ interrupt\n",
        )
        .unwrap();
        let read: Vec<_> = facts.switch_xids.iter().map(|x| (x.code, x.fatal, x.what.as_str(), x.count)).collect();
        assert_eq!(read, [(20034, true, "LTSSM Fault Up", 1), (22013, false, "Minion Link DLREQ interrupt", 2)]);
        assert_eq!(facts.switch_xids[1].links, [44, 45]);
    }

    #[test]
    fn what_the_iommu_refuses() {
        let (_, facts) = scanned(
            "Sep 21 09:59:59 h kernel: nvidia 0000:07:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0003 \
             address=0x80000040]\nSep 21 09:59:59 h kernel: nvidia 0000:07:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT \
             domain=0x0003 address=0x80000080]\nAMD-Vi: Event logged [IO_PAGE_FAULT device=08:00.0 domain=0x0001 \
             address=0x1]\n[1.0] DMAR: [DMA Write NO_PASID] Request device [3b:00.0] fault addr 0x1 [fault reason \
             0x05]\n",
        )
        .unwrap();
        let read: Vec<_> = facts.iommu_faults.iter().map(|f| (f.address.to_string(), f.gpu, f.count)).collect();
        let one = |address: &str, gpu, count| (address.to_owned(), gpu, count);
        assert_eq!(read, [one("0000:07:00.0", true, 2), one("0000:08:00.0", false, 1), one("0000:3b:00.0", false, 1)]);
    }

    #[test]
    fn windows_without_address_space_and_those_that_get_it_later() {
        let (_, facts) = scanned(
            "[2.8] pci 0000:01:00.0: [10de:2204] type 00 class 0x030000 PCIe Legacy Endpoint\n\
             [2.9] pci 0000:01:00.0: BAR 1 [mem size 0x10000000 64bit pref]: can't assign; no space\n\
             [2.9] pci 0000:01:00.0: BAR 1 [mem size 0x10000000 64bit pref]: failed to assign\n\
             [2.9] pci 0000:01:00.0: BAR 3 [mem size 0x02000000 64bit pref]: failed to assign\n\
             [2.9] pci 0000:01:00.0: BAR 5 [io  size 0x0080]: failed to assign\n\
             [3.0] pci 0000:01:00.0: BAR 3 [mem 0x80000000-0x81ffffff 64bit pref]: assigned\n",
        )
        .unwrap();
        let address = "01:00.0".parse().unwrap();
        assert_eq!(facts.unassigned, [Unassigned { address, bar: 1, size: Some(Bytes::from_mib(256)), gpu: true }]);
    }

    #[test]
    fn hardware_errors_of_amds_driver() {
        let (_, facts) = scanned(
            "[8.7] amdgpu 0000:68:00.0: {1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!\n\
             [8.8] amdgpu 0000:9e:00.0: amdgpu: 0 uncorrectable hardware errors detected in umc block\n",
        )
        .unwrap();
        let read: Vec<_> = facts.uncorrectable.iter().map(|e| (e.address.to_string(), e.count)).collect();
        assert_eq!(read, [("0000:68:00.0".to_owned(), 1)]);
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
