//! The tree of `lspci -t` and `lspci -tv`.
//!
//! Branches of one bus stand below each other: `+-` and `\-` in a column belong to the bus that opened
//! in that column. `03.1-[01-13]` is a bridge with the buses behind it, `[0000:20]` a root bus.

use super::super::limits::MAX_FUNCTIONS;
use super::super::words::indent;
use super::super::{Fact, Found, PciDevice, PciRole, PciTree, Text};
use super::{class_of, named};
use peerlane_machine::fabric::PciAddress;

const TOOL: &str = crate::evidence::tool::LSPCI_TREE;

/// The most levels of a tree that are followed.
const MAX_DEPTH: usize = 64;

pub(super) fn scan(text: &Text, found: &mut Found) {
    text.walk(|first| {
        let mut reader = Reader::default();
        match root(text.line(first)) {
            Some(start) => reader.line(text.line(first), start, first as u32 + 1),
            // a piece from the middle of a tree
            None => {
                let start = branch(text.line(first)).filter(|at| is_device(text.line(first), *at))?;
                is_device(text.line(first + 1), branch(text.line(first + 1))?).then_some(())?;
                reader.begin_within(start, first as u32 + 1);
                reader.line(text.line(first), start, first as u32 + 1);
            }
        }
        let mut i = first + 1;
        while let Some(column) = branch(text.line(i)) {
            if !reader.resume(column) {
                break;
            }
            reader.line(text.line(i), column, i as u32 + 1);
            i += 1;
        }
        let tree = PciTree { devices: reader.devices, bridges_are_switches: false, has_tree: true };
        if tree.devices.len() > 1 {
            found.push(text, TOOL, text.numbers(first, i - 1), Fact::Pci(tree));
        }
        Some(i)
    });
}

/// The column at which a tree begins: `-[0000:00]-` or `-+-[0000:00]-`; in an excerpt also `+-[0000:40]-`.
fn root(line: &str) -> Option<usize> {
    let column = indent(line);
    let rest = line.get(column..)?;
    let whole = rest.strip_prefix('-').map(|rest| rest.strip_prefix("+-").unwrap_or(rest));
    let excerpt = || rest.strip_prefix("+-").or_else(|| rest.strip_prefix("\\-"));
    let rest = whole.or_else(excerpt)?.strip_prefix('[')?;
    let (bus, after) = rest.split_once(']')?;
    (buses(bus).is_some() && after.starts_with('-')).then_some(column)
}

/// The column of a line's branch, `+-` or `\-`.
fn branch(line: &str) -> Option<usize> {
    let column = line.find(|c| c != ' ' && c != '|')?;
    let rest = line.get(column..)?;
    (rest.starts_with("+-") || rest.starts_with("\\-")).then_some(column)
}

/// Whether a branch leads to a device: `+-08.0-[5c]----00.0  Name`, `+-03.4  Name`.
fn is_device(line: &str, column: usize) -> bool {
    let Some(rest) = line.get(column + 2..) else { return false };
    let number = rest.get(..4).unwrap_or_default();
    device_and_function(number).is_some()
        && rest.get(4..).is_some_and(|tail| tail.starts_with("-[") || tail.starts_with("  "))
}

/// `03.1`.
fn device_and_function(text: &str) -> Option<(u8, u8)> {
    let (device, function) = text.split_once('.')?;
    let device = u8::from_str_radix(device, 16).ok().filter(|d| *d < 32)?;
    let function = u8::from_str_radix(function, 16).ok().filter(|f| *f < 8)?;
    Some((device, function))
}

/// Domain and first bus of `0000:20`, `01-13` or `05`.
fn buses(text: &str) -> Option<(Option<u32>, u8)> {
    let (domain, range) = match text.split_once(':') {
        Some((domain, range)) if (4..=8).contains(&domain.len()) => {
            (Some(u32::from_str_radix(domain, 16).ok()?), range)
        }
        Some(_) => return None,
        None => (None, text),
    };
    let first = range.split('-').next().filter(|b| b.len() == 2)?;
    Some((domain, u8::from_str_radix(first, 16).ok()?))
}

/// A bus: its number, and the host bridge or bridge it is behind.
#[derive(Clone, Copy)]
struct Bus {
    domain: u32,
    /// Unknown for the bus with which a piece of a tree begins.
    number: Option<u8>,
    above: usize,
    depth: usize,
}

#[derive(Default)]
struct Reader {
    devices: Vec<PciDevice>,
    /// Open branches by column; `None` where root buses branch.
    open: Vec<(usize, Option<Bus>)>,
    bus: Option<Bus>,
}

impl Reader {
    /// Goes back to the bus whose branches stand in `column`, or in a neighbouring one: pasted into a document, the
    /// first line of a tree often moves by one. Columns of one tree are further apart than that.
    fn resume(&mut self, column: usize) -> bool {
        while self.open.last().is_some_and(|(c, _)| *c > column + 1) {
            self.open.pop();
        }
        match self.open.last() {
            Some((c, bus)) if c.abs_diff(column) <= 1 => {
                self.bus = *bus;
                true
            }
            _ => false,
        }
    }

    /// Begins a piece from the middle of a tree, whose first branch stands in `column` of a bus that is not shown.
    fn begin_within(&mut self, column: usize, line: u32) {
        self.devices.push(PciDevice { name: Some("PCI bus".to_owned()), line, ..PciDevice::new(PciRole::HostBridge) });
        self.bus = Some(Bus { domain: 0, number: None, above: 0, depth: 0 });
        self.open.push((column, self.bus));
    }

    /// Reads a line from `column` on.
    fn line(&mut self, line: &str, column: usize, number: u32) {
        let mut at = column;
        let mut device: Option<usize> = None;
        while let Some(rest) = line.get(at..).filter(|r| !r.is_empty()) {
            if self.devices.len() > MAX_FUNCTIONS {
                return;
            }
            if rest.starts_with('-') || rest.starts_with('\\') {
                at += 1;
            } else if rest.starts_with('+') {
                if self.open.last().is_none_or(|(c, _)| *c < at) && self.open.len() < MAX_DEPTH {
                    self.open.push((at, self.bus));
                }
                at += 1;
            } else if let Some((range, _)) = rest.strip_prefix('[').and_then(|r| r.split_once(']')) {
                let Some((domain, first)) = buses(range).filter(|_| self.depth() < MAX_DEPTH) else { return };
                self.enter(device.take(), domain, first, range, number);
                at += range.len() + 2;
            } else if let (Some((slot, function)), Some(bus)) = (rest.get(..4).and_then(device_and_function), self.bus)
            {
                let tail = rest.get(4..).unwrap_or_default();
                let of_bus = |bus_number| PciAddress { domain: bus.domain, bus: bus_number, device: slot, function };
                device = Some(self.add(bus.number.map(of_bus), bus.above, number));
                if tail.starts_with("-[") {
                    at += 4;
                    continue;
                }
                self.name(device, tail, function);
                return;
            } else {
                return;
            }
        }
    }

    /// Levels of a bus that would open here.
    fn depth(&self) -> usize {
        self.bus.map_or(0, |b| b.depth + 1)
    }

    fn add(&mut self, address: Option<PciAddress>, above: usize, line: u32) -> usize {
        self.devices.push(PciDevice { address, parent: Some(above), line, ..PciDevice::new(PciRole::Endpoint) });
        self.devices.len() - 1
    }

    /// Buses open: below the bridge just read, or at the top.
    fn enter(&mut self, bridge: Option<usize>, domain: Option<u32>, first: u8, range: &str, line: u32) {
        let domain = domain.or(self.bus.map(|b| b.domain)).unwrap_or(0);
        let above = match bridge.and_then(|b| Some((b, self.devices.get_mut(b)?))) {
            Some((index, device)) => {
                device.role = PciRole::Bridge;
                device.class = Some(0x06_0400);
                index
            }
            None => {
                let name = Some(format!("PCI bus {range}"));
                self.devices.push(PciDevice { name, line, ..PciDevice::new(PciRole::HostBridge) });
                self.devices.len() - 1
            }
        };
        let depth = self.depth();
        self.bus = Some(Bus { domain, number: Some(first), above, depth });
    }

    fn name(&mut self, device: Option<usize>, text: &str, function: u8) {
        let named = named(text);
        if let Some(device) = device.and_then(|d| self.devices.get_mut(d)) {
            device.class = class_of(&named, function);
            device.vendor = named.vendor;
            device.device = named.device;
            device.name = named.name;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: &str = r"Then:
-+-[0000:00]-+-00.0  Intel Corporation Device 0d57
 |           +-03.1-[01-05]----00.0-[02-05]--+-00.0-[03]----00.0  NVIDIA Corporation GA100 [A100 PCIe 40GB]
 |           |                               +-08.0-[04]--+-00.0  Mellanox Technologies MT28908 Family [ConnectX-6]
 |           |                               |            \-00.1  Mellanox Technologies MT28908 Family [ConnectX-6]
 |           |                               \-0c.0-[05]--
 |           \-05.1  Intel Corporation Device 0d58
 \-[0001:80]---01.0-[81]----00.0  NVIDIA Corporation GA100 [A100 PCIe 40GB]
end";

    fn read(text: &str) -> Vec<(PciTree, (u32, u32))> {
        let mut found = Found::default();
        scan(&Text::new("x", text.as_bytes()), &mut found);
        let facts = found.evidence.into_iter().map(|e| match e.fact {
            Fact::Pci(tree) => (tree, e.origin.lines.unwrap()),
            other => panic!("{other:?}"),
        });
        facts.collect()
    }

    #[test]
    fn branches_hang_where_they_stand() {
        let all = read(TREE);
        let (tree, lines) = &all[0];
        assert_eq!(*lines, (2, 8));
        let shape: Vec<(String, Option<usize>)> =
            tree.devices.iter().map(|d| (d.address.map_or("-".to_owned(), |a| a.to_string()), d.parent)).collect();
        let expected = [
            ("-", None),
            ("0000:00:00.0", Some(0)),
            ("0000:00:03.1", Some(0)),
            ("0000:01:00.0", Some(2)),
            ("0000:02:00.0", Some(3)),
            ("0000:03:00.0", Some(4)),
            ("0000:02:08.0", Some(3)),
            ("0000:04:00.0", Some(6)),
            ("0000:04:00.1", Some(6)),
            ("0000:02:0c.0", Some(3)),
            ("0000:00:05.1", Some(0)),
            ("-", None),
            ("0001:80:01.0", Some(11)),
            ("0001:81:00.0", Some(12)),
        ];
        assert_eq!(shape, expected.map(|(a, p)| (a.to_owned(), p)));
        assert!(tree.devices[5].is_gpu() && tree.devices[8].is_nic());
        assert_eq!((tree.devices[9].role, tree.devices[9].line), (PciRole::Bridge, 6));
        assert_eq!(tree.devices[13].name.as_deref(), Some("NVIDIA Corporation GA100 [A100 PCIe 40GB]"));
    }

    #[test]
    fn depth_is_limited() {
        let all = read(&format!("-[0000:00]-{}", "00.0-[01]--".repeat(1000)));
        assert!(all[0].0.devices.len() <= MAX_DEPTH + 1);
    }

    #[test]
    fn a_piece_from_the_middle() {
        let all = read(
            " |           |        +-02.1  Mellanox Technologies MT28908 Family [ConnectX-6]\n \
             |           |        +-04.0-[21-22]----00.0  NVIDIA Corporation GA100 [A100 PCIe 40GB]\n \
             |           |        \\-10.0-[23]----00.0  NVIDIA Corporation GA100 [A100 PCIe 40GB]\n |           |\n",
        );
        let [(tree, (1, 3))] = &all[..] else { panic!("{all:?}") };
        let gpus: Vec<String> =
            tree.devices.iter().filter(|d| d.is_gpu()).map(|d| d.address.unwrap().to_string()).collect();
        assert_eq!(gpus, ["0000:21:00.0", "0000:23:00.0"]);
        assert_eq!((tree.devices[1].address, tree.devices[1].is_nic()), (None, true));
        assert!(read(" +-01.5 of it\n +-02.1 more\n").is_empty());
    }

    #[test]
    fn one_root_without_names_and_no_tree() {
        let all = read("-[0000:00]-+-00.0\n           \\-02.0-[01]----00.0\n");
        assert_eq!(all[0].0.devices.len(), 4);
        assert!(read("- [x] done\n-[ab] cd\n-[0000:00]\n").is_empty());
    }

    #[test]
    fn excerpts_and_a_first_line_that_moved() {
        let found = read(
            " +-[0000:40]-+-00.0  AMD Root Complex
 |           \\-01.1-[41]----00.0  NVIDIA Corporation GA100
 \\-[0000:00]-+-00.0  AMD Root Complex
            +-01.1-[01]----00.0  NVIDIA Corporation GA100
            \\-02.1-[02]----00.0  NVIDIA Corporation GA100
",
        );
        let [(tree, _)] = &found[..] else { panic!("{found:?}") };
        let gpus: Vec<String> =
            tree.devices.iter().filter(|d| d.is_gpu()).map(|d| d.address.unwrap().to_string()).collect();
        assert_eq!(gpus, ["0000:41:00.0", "0000:01:00.0", "0000:02:00.0"]);
    }
}
