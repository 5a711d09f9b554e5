//! The blocks of `lspci -v`, `-vv` and `-vvv`, and the lines of plain `lspci`.
//!
//! A document may show single devices among prose: all of one text make one list. Bridges name the
//! buses behind them, so that a whole `lspci -vvv` yields the tree too.

use std::borrow::Cow;
use std::collections::HashSet;

use super::super::health::Health;
use super::super::lspci_lines;
use super::super::pci_listing::{self, Function};
use super::super::text::{Span, Used};
use super::super::{AcsLines, Fact, Found, KernelFacts, PciDevice, PciRole, Text, Unassigned};
use super::block::{Block, Detail};
use super::{CLASSES, health, named};
use peerlane_machine::fabric::PciAddress;

const TOOL: &str = "lspci -vvv";
const VERBOSE: &str = "lspci -v";
const DRIVERS: &str = "lspci -k";
const LIST_TOOL: &str = crate::evidence::tool::LSPCI;

pub(super) fn scan(text: &Text, found: &mut Found) {
    let mut list = List::default();
    let mut acs = (Span::default(), AcsLines::default());
    text.walk(|i| {
        let line = text.line(i);
        let whole = unwrapped(text, i);
        let Some(device) = header(&whole).or_else(|| headed(text, i)) else {
            if let Some(control) = acs_of_no_device(line) {
                acs.0.add(i);
                acs.1.functions = acs.1.functions.saturating_add(1);
                acs.1.redirecting = acs.1.redirecting.saturating_add(u32::from(redirects(control)));
            }
            return None;
        };
        if device.address.is_some_and(|a| list.addresses.contains(&a)) {
            // another machine, or the same at another time
            std::mem::take(&mut list).push(text, found);
        }
        // all configuration space reads as ones
        if line.contains("(rev ff)") && (device.is_gpu() || device.is_nic()) {
            let address = device.address.map(|a| a.to_string()).unwrap_or_default();
            let message = format!(
                "{address} does not answer (revision and header read as ff): it has fallen off the bus or sleeps; see dmesg"
            );
            found.warn(text, TOOL, text.numbers(i, i), message);
        }
        let line = i as u32 + 1;
        let mut block = Block { device: PciDevice { line, ..device }, at: i, ..Block::default() };
        let end = block_end(text, i);
        list.lines.add(i);
        for k in i + 1..end {
            let line = unwrapped(text, k);
            let detail = block.field(line.trim());
            if detail.is_some() {
                list.lines.add(k);
            }
            list.detail = list.detail.max(detail);
        }
        (i + 1..end).for_each(|k| health::line(&mut list.health, &block, text.line(k).trim(), k));
        list.addresses.extend(block.device.address);
        list.blocks.push(block);
        Some(end)
    });
    list.push(text, found);
    if let Some(lines) = acs.0.numbers(text) {
        found.push(text, TOOL, lines, Fact::Acs(acs.1));
    }
}

/// Lines that the edge of a window may have made of one.
const MAX_WRAPPED: usize = 3;

/// Whether a line is the rest of the one above it, at whose end a window wrapped it: it is not indented, as all fields are, and
/// fields follow it.
fn is_rest(text: &Text, k: usize) -> bool {
    const FIELDS: [&str; 16] = [
        "Subsystem:",
        "Control:",
        "Status:",
        "Flags:",
        "Latency",
        "Interrupt:",
        "NUMA node:",
        "Region ",
        "Memory at ",
        "I/O ",
        "Bus:",
        "Capabilities:",
        "Kernel ",
        "Lnk",
        "Dev",
        "IOMMU group:",
    ];
    let starts_plain = |line: &str| !line.is_empty() && !line.starts_with(char::is_whitespace);
    let is_field = |line: &str| {
        line.starts_with(char::is_whitespace) && FIELDS.iter().any(|field| line.trim_start().starts_with(field))
    };
    let line = text.line(k);
    // most lines are none: the line above belongs to a block, and so does a line below
    starts_plain(line)
        && header(line).is_none()
        && (k + 1..k + MAX_WRAPPED)
            .find(|below| !starts_plain(text.line(*below)))
            .is_some_and(|k| is_field(text.line(k)))
}

/// A line with the rest that a window wrapped.
fn unwrapped(text: &Text, i: usize) -> Cow<'_, str> {
    let line = text.line(i);
    // only lines of a block, and those that begin one, are looked at further
    let may_wrap = line.starts_with(char::is_whitespace) || line.starts_with(|c: char| c.is_ascii_hexdigit());
    if !may_wrap || line.trim().is_empty() || !is_rest(text, i + 1) {
        return line.into();
    }
    let rest = (i + 1..=i + MAX_WRAPPED).take_while(|k| is_rest(text, *k));
    rest.fold(line.to_owned(), |all, k| all + text.line(k)).into()
}

/// The line after a device's block.
fn block_end(text: &Text, first: usize) -> usize {
    let mut end = text.block_end(first);
    while end < text.len() && is_rest(text, end) {
        end = text.block_end(end);
    }
    end
}

/// The device that a person's heading or a quoted command names, where its fields stand below, indented as the tool prints them.
fn headed(text: &Text, i: usize) -> Option<PciDevice> {
    // most lines have nothing indented below them, so that their words need not be read
    if !text.line(i + 1).starts_with(char::is_whitespace) {
        return None;
    }
    let (address, role) = lspci_lines::named(text.line(i))?;
    let end = text.block_end(i);
    let is_field =
        |k: usize| ["LnkCap:", "LnkSta:", "ACSCtl:"].iter().any(|key| text.line(k).trim_start().starts_with(key));
    (i + 1..end).any(is_field).then(|| PciDevice { address: Some(address), ..PciDevice::new(role) })
}

/// What stands behind `ACSCtl:` on a line that no device's block holds, as `grep` leaves it.
fn acs_of_no_device(line: &str) -> Option<&str> {
    let control = line.trim_start_matches(['>', ' ', '\t']).strip_prefix("ACSCtl:")?;
    control.contains("SrcValid").then_some(control)
}

fn redirects(control: &str) -> bool {
    control.contains("ReqRedir+") || control.contains("CmpltRedir+")
}

/// `c1:00.0 VGA compatible controller [0300]: NVIDIA Corporation … [10de:26b1] (rev a1)`
fn header(line: &str) -> Option<PciDevice> {
    let (address, rest) = line.trim_start().split_once(' ')?;
    if !(7..=16).contains(&address.len()) || !address.contains('.') {
        return None;
    }
    let address: PciAddress = address.parse().ok()?;
    let (class, rest) = rest.split_once(": ")?;
    let class = class_code(class.trim())?;
    let named = named(rest);
    // boards' management controllers show pictures too: a display controller counts only with a known vendor
    let known = class >> 8 != 0x03 || named.vendor.is_some();
    let role = if class == 0x0604 { PciRole::Bridge } else { PciRole::Endpoint };
    Some(PciDevice {
        address: Some(address),
        class: Some(class << 8).filter(|_| known),
        vendor: named.vendor,
        device: named.device,
        name: named.name,
        ..PciDevice::new(role)
    })
}

/// The 16-bit code of `3D controller [0302]`, `3D controller` or `0302`.
fn class_code(text: &str) -> Option<u32> {
    let four = |t: &str| u32::from_str_radix(t, 16).ok().filter(|_| t.len() == 4);
    let in_brackets = text.strip_suffix(']').and_then(|t| t.rsplit_once('[')).and_then(|(_, code)| four(code));
    let by_name = || CLASSES.iter().find(|(name, _)| *name == text).map(|(_, code)| *code);
    in_brackets.or_else(|| four(text)).or_else(by_name)
}

/// The blocks of one text.
#[derive(Default)]
struct List {
    blocks: Vec<Block>,
    addresses: HashSet<PciAddress>,
    lines: Used,
    detail: Option<Detail>,
    health: Health,
}

impl List {
    fn push(mut self, text: &Text, found: &mut Found) {
        health::of_list(&self.blocks, &mut self.health);
        let tool = match self.detail {
            None => LIST_TOOL,
            Some(Detail::Driver) => DRIVERS,
            Some(Detail::Resources) => VERBOSE,
            Some(Detail::Link) => TOOL,
        };
        self.health.lend(&mut self.lines);
        let Some(lines) = self.lines.numbers(text, found) else { return };
        let mut unassigned = Vec::new();
        for block in self.blocks.iter().filter(|block| block.device.is_gpu() || block.device.is_nic()) {
            let Some(address) = block.device.address else { continue };
            let of_window = |bar: &u8| Unassigned { address, bar: *bar, size: None, gpu: true };
            unassigned.extend(block.unassigned.iter().map(of_window));
        }
        let function = |b: Block| Function { device: b.device, secondary: b.secondary, root_port: b.root_port };
        found.push(text, tool, lines, Fact::Pci(pci_listing::tree(self.blocks.into_iter().map(function).collect())));
        if !unassigned.is_empty() {
            found.push(text, tool, lines, Fact::Kernel(KernelFacts { unassigned, ..KernelFacts::default() }));
        }
        self.health.push(text, tool, found);
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Acs;
    use super::super::super::testing::scanned;
    use super::*;

    fn read(text: &str) -> Found {
        let mut found = Found::default();
        scan(&Text::new("x", text.as_bytes()), &mut found);
        found
    }

    fn first(found: &Found) -> &peerlane_machine::fact::PciTree {
        match &found.evidence[0].fact {
            Fact::Pci(tree) => tree,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_window_wrapped_its_lines() {
        let found = read(
            "06:00.0 VGA compatible contr\noller: NVIDIA Corporation GA102 [RTX 3090\n] (rev a1)\n\tLnkCap:\tPort #2, Speed 8GT/s, Width x16, Exit \nLatency L1\n\tLnkSta:\tSpeed 2.5GT/s (downgraded), Wid\nth x4 (downgraded)\n\tKernel driver in use: nvidia\n",
        );
        let [device] = &first(&found).devices[..] else { panic!("{found:?}") };
        assert_eq!((device.capable.to_string(), device.running.to_string()), ("3.0 x16".into(), "1.0 x4".into()));
        assert_eq!((device.name.as_deref(), device.is_gpu()), (Some("NVIDIA Corporation GA102 [RTX 3090]"), true));
        // prose between two listings is no rest
        let apart =
            read("01:00.0 3D controller: NVIDIA Corporation GA100\nIt has:\n\n\tLnkSta: Speed 8GT/s, Width x8\n");
        assert!(first(&apart).devices[0].running.is_unknown());
    }

    #[test]
    fn a_heading_above_indented_fields_names_their_device() {
        let found = scanned(
            scan,
            "# lspci -vvv -s 0000:03:04.0  (upstream bridge of 0000:05:00.0)\n\t\tLnkCap:\tPort #4, Speed 16GT/s, Width x1\n\
             \t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x1 (ok)\n\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+\n",
        );
        let Fact::Pci(tree) = &found.evidence[0].fact else { panic!("{found:#?}") };
        let port = &tree.devices[0];
        assert_eq!((port.role, port.capable.to_string()), (PciRole::Bridge, "4.0 x1".to_owned()));
        assert!(port.acs.is_some_and(|acs| acs.request_redirect) && found.evidence.len() == 2, "{found:#?}");
    }

    #[test]
    fn a_gpu_idle_and_its_bridge() {
        let found = read(
            "$ lspci -vvv
00:01.1 PCI bridge: Intel Corporation Device 1234 (rev 01) (prog-if 00 [Normal decode])
\tBus: primary=00, secondary=c1, subordinate=c1, sec-latency=0
\tCapabilities: [58] Express (v2) Root Port (Slot+), MSI 00
\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM L1
\t\tLnkSta:\tSpeed 16GT/s, Width x8 (downgraded)
\tCapabilities: [2a0 v1] Access Control Services
\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans+
\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir- CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-

c1:00.0 3D controller: NVIDIA Corporation GA100 (rev a1)
\tNUMA node: 1
\tRegion 0: Memory at b4000000 (32-bit, non-prefetchable) [size=16M]
\tRegion 1: Memory at 13000000000 (64-bit, prefetchable) [size=64G]
\tRegion 3: Memory at 14000000000 (64-bit, prefetchable) [size=32M]
\tCapabilities: [78] Express (v2) Endpoint, MSI 00
\t\tDevCap:\tMaxPayload 512 bytes, PhantFunc 0
\t\tDevCtl:\tCorrErr+ NonFatalErr+
\t\t\tRlxdOrd+ ExtTag+ PhantFunc- AuxPwr-
\t\t\tMaxPayload 256 bytes, MaxReadReq 4096 bytes
\t\tDevSta:\tCorrErr-
\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM L1
\t\tLnkCap2: Supported Link Speeds: 2.5-32GT/s
\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x16
",
        );
        let tree = first(&found);
        let [root, port, gpu] = &tree.devices[..] else { panic!("{tree:?}") };
        assert!(tree.has_tree && gpu.is_gpu());
        assert_eq!((root.role, port.parent, gpu.parent), (PciRole::HostBridge, Some(0), Some(1)));
        assert_eq!(port.acs, Some(Acs { capable: true, request_redirect: false, completion_redirect: true }));
        assert_eq!((port.running.to_string(), port.capable.to_string()), ("4.0 x8".to_owned(), "4.0 x16".to_owned()));
        assert_eq!((gpu.running.to_string(), gpu.capable.to_string()), ("1.0 x16".to_owned(), "4.0 x16".to_owned()));
        assert_eq!((gpu.max_payload, gpu.max_read_request, gpu.relaxed_ordering), (Some(256), Some(4096), Some(true)));
        assert_eq!((gpu.bar_bytes, gpu.numa, gpu.line), (Some(64 << 30), Some(1), 11));
        assert_eq!(found.evidence[0].origin.lines, Some((2, 24)));
    }

    #[test]
    fn windows_without_an_address() {
        let read = |regions: &str| {
            let found = read(&format!(
                "01:00.0 VGA compatible controller: NVIDIA Corporation GA102 [RTX 3090] (rev a1)\n{regions}"
            ));
            let of = |fact: &Fact| if let Fact::Kernel(facts) = fact { facts.unassigned.clone() } else { Vec::new() };
            found.evidence.iter().flat_map(|e| of(&e.fact)).map(|window| window.bar).collect::<Vec<_>>()
        };
        let one = "\tRegion 1: Memory at <unassigned> (64-bit, prefetchable) [disabled]\n\tRegion 5: I/O ports at <unassigned> [disabled]\n";
        assert_eq!(read(one), [1]);
        assert_eq!(read("\tMemory at <ignored> (32-bit, non-prefetchable) [disabled]\n"), [0]);
        let whole = "\tRegion 1: Memory at 13000000000 (64-bit, prefetchable) [size=64G]\n\tExpansion ROM at <unassigned> [disabled]\n";
        assert_eq!(read(whole), Vec::<u8>::new());
    }

    #[test]
    fn single_devices_among_prose_make_a_flat_list() {
        let found = read(
            "The GPU:\n  3b:00.0 3D controller [0302]: NVIDIA Corporation TU104GL [Tesla T4] [10de:1eb8] (rev a1)\nthe NIC\n86:00.0 Infiniband controller [0207]: Mellanox Technologies MT28908 [15b3:101b]\n12:30 lunch: soup\n03:00.0 VGA compatible controller: Some Vendor X\n",
        );
        let tree = first(&found);
        assert!(!tree.has_tree && found.evidence[0].origin.tool == LIST_TOOL);
        let [gpu, nic, vga] = &tree.devices[..] else { panic!("{tree:?}") };
        assert_eq!((gpu.class, gpu.device, nic.class), (Some(0x030200), Some(0x1eb8), Some(0x020700)));
        assert!(gpu.is_gpu() && nic.is_nic() && !vga.is_gpu());
    }

    #[test]
    fn an_address_again_begins_another_list() {
        let line = "3b:00.0 3D controller: NVIDIA Corporation TU104GL\n";
        assert_eq!(read(&format!("{line}{line}")).evidence.len(), 2);
    }
}
