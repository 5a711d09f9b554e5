//! `mst status -v` of NVIDIA's firmware tools: PCI address, RDMA device, interface and NUMA node of each adapter.

use super::text::Span;
use super::{Fact, Found, OsDevice, PciDevice, PciRole, PciTree, Text};
use peerlane_machine::fabric::PciAddress;

const TOOL: &str = "mst status -v";

/// More adapters than any machine has, virtual functions included.
const MAX_DEVICES: usize = 1024;

const NETWORK: u32 = 0x02_0000;
const MELLANOX: u16 = 0x15b3;

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["DEVICE_TYPE"]) {
        return;
    }
    let mut columns: Option<Vec<&str>> = None;
    let mut lines = Span::default();
    let mut devices: Vec<PciDevice> = Vec::new();
    for (i, line) in text.iter() {
        let line = line.trim_start_matches('>').trim();
        let words: Vec<&str> = line.split_whitespace().take(MAX_WORDS).collect();
        if words.first() == Some(&"DEVICE_TYPE") && words.contains(&"PCI") {
            push(text, &mut lines, &mut devices, found);
            columns = Some(words);
        } else if let Some(header) = &columns {
            match device(header, &words, i) {
                Some(device) => {
                    lines.add(i);
                    if devices.len() < MAX_DEVICES {
                        devices.push(device);
                    }
                }
                None if line.is_empty() => {}
                None => columns = None,
            }
        }
    }
    push(text, &mut lines, &mut devices, found);
}

/// More words than a line of the table has.
const MAX_WORDS: usize = 16;

fn push(text: &Text, lines: &mut Span, devices: &mut Vec<PciDevice>, found: &mut Found) {
    if let Some(lines) = std::mem::take(lines).numbers(text) {
        let devices = std::mem::take(devices);
        found.push(text, TOOL, lines, Fact::Pci(PciTree { devices, ..PciTree::default() }));
    }
}

/// `ConnectX7(rev:0)  /dev/mst/mt4129_pciconf0  5e:00.0  mlx5_0  net-ibp94s0  0`; `NA` or an empty MST column where the
/// module is not loaded.
fn device(header: &[&str], words: &[&str], line: usize) -> Option<PciDevice> {
    let (kind, rest) = words.split_first()?;
    let at = rest.iter().position(|word| word.parse::<PciAddress>().is_ok())?;
    let address: PciAddress = rest.get(at)?.parse().ok()?;
    // the columns behind the address stand for themselves: RDMA, NET, NUMA
    let behind = header.iter().skip_while(|name| **name != "PCI").skip(1);
    let mut device = PciDevice {
        address: Some(address),
        class: Some(NETWORK),
        vendor: Some(MELLANOX),
        // `ConnectX7(rev:0)` is called so in no list of products
        name: Some(product(kind)),
        line: line as u32 + 1,
        ..PciDevice::new(PciRole::Endpoint)
    };
    for (name, value) in behind.zip(rest.get(at + 1..)?) {
        let os = |name: &str, rdma: bool| OsDevice { name: name.to_owned(), rdma, ..OsDevice::default() };
        match *name {
            _ if matches!(*value, "NA" | "N/A" | "-" | "-1") => {}
            "RDMA" => device.os_devices.extend(value.split(',').map(|rdma| os(rdma, true))),
            "NET" => {
                let interfaces = value.split(',').map(|net| os(net.strip_prefix("net-").unwrap_or(net), false));
                device.os_devices.extend(interfaces);
            }
            "NUMA" => device.numa = value.parse().ok(),
            _ => {}
        }
    }
    Some(device)
}

/// `ConnectX7(rev:0)` is a `ConnectX-7`, `BlueField3(rev:1)` a `BlueField-3`.
fn product(kind: &str) -> String {
    let name = kind.split('(').next().unwrap_or(kind);
    let digits = name.find(|c: char| c.is_ascii_digit()).filter(|at| *at > 0 && !name.contains('-'));
    digits.map_or_else(|| name.to_owned(), |at| format!("{}-{}", &name[..at], &name[at..]))
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    #[test]
    fn adapters() {
        let found = scanned(
            scan,
            "MST modules:\n------------\n    MST PCI module is not loaded\n    MST PCI configuration module loaded\nPCI devices:\n------------\n\
             DEVICE_TYPE             MST                           PCI       RDMA            NET                                     NUMA\n\
             ConnectX7(rev:0)        /dev/mst/mt4129_pciconf0      5e:00.0   mlx5_0          net-ibp94s0                             0\n\
             ConnectX6DX(rev:0)      NA                            0000:9c:00.1   mlx5_3     net-ens3f1np1                           -1\n\
             BlueField3(rev:1)       /dev/mst/mt41692_pciconf0     c1:00.0   mlx5_4          net-ens1                                1\n\n",
        );
        let [one] = found.evidence.as_slice() else { panic!("{found:#?}") };
        let Fact::Pci(tree) = &one.fact else { panic!() };
        let names: Vec<_> = tree.devices.iter().filter_map(|d| d.name.as_deref()).collect();
        assert_eq!(names, ["ConnectX-7", "ConnectX-6DX", "BlueField-3"]);
        assert_eq!((tree.devices[0].numa, tree.devices[1].numa, tree.devices[2].numa), (Some(0), None, Some(1)));
        let os: Vec<_> = tree.devices[0].os_devices.iter().map(|o| (o.name.as_str(), o.rdma)).collect();
        assert_eq!(os, [("mlx5_0", true), ("ibp94s0", false)]);
        assert_eq!(tree.devices[1].address.unwrap().to_string(), "0000:9c:00.1");
        assert_eq!(one.origin.lines, Some((8, 10)));
    }

    #[test]
    fn a_header_alone() {
        assert_eq!(scanned(scan, "DEVICE_TYPE MST PCI RDMA NET NUMA\nnothing here\n"), Found::default());
        assert_eq!(scanned(scan, "DEVICE_TYPE is a word\nx 5e:00.0\n"), Found::default());
    }
}
