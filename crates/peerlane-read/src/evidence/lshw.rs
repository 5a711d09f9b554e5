//! `lshw`: GPUs and network adapters, as text, `-short -businfo`, `-json` and `-xml`.
//!
//! The three detailed forms have one field a line, so that one reader reads them all, and what is cut off.

use super::health::Health;
use super::text::Used;
use super::{Fact, Found, OsDevice, PciDevice, PciRole, PciTree, Text};
use peerlane_machine::fact::{Area, Grade};

const TOOL: &str = "lshw";

/// More devices than any machine has.
const MOST: usize = 4096;

pub(super) fn scan(text: &Text, found: &mut Found) {
    if !text.holds(&["pci@"]) {
        return;
    }
    let mut list = List::default();
    for (i, line) in text.iter() {
        let line = line.trim_start_matches(['>', ' ', '\t']).trim_end();
        if let Some(device) = businfo(line) {
            list.end();
            list.device = Some(device);
            list.used(i);
            list.end();
        } else if let Some(node) = node(line) {
            list.end();
            list.begin(node, line, i);
        } else if let Some((key, value)) = field(line) {
            list.take(key, value, i);
        }
    }
    list.end();
    let List { devices, mut lines, mut health, .. } = list;
    health.lend(&mut lines);
    if let Some(numbers) = lines.numbers(text, found) {
        found.push(text, TOOL, numbers, Fact::Pci(PciTree { devices, ..PciTree::default() }));
        health.push(text, TOOL, found);
    }
}

/// `pci@0000:41:00.0  ens1f0  network  MT2892 Family [ConnectX-6 Dx]`: the interface may be missing.
fn businfo(line: &str) -> Option<PciDevice> {
    let (address, rest) = line.strip_prefix("pci@")?.split_once(char::is_whitespace)?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let at = words.iter().take(2).position(|word| class(word).is_some())?;
    let mut device = PciDevice {
        address: Some(address.parse().ok()?),
        class: class(words.get(at)?),
        name: Some(words.get(at + 1..)?.join(" ")),
        ..PciDevice::new(PciRole::Endpoint)
    };
    device.vendor = device.name.as_deref().and_then(vendor);
    if let Some(name) = words.first().filter(|name| at > 0 && !name.starts_with('/')) {
        device.os_devices.push(OsDevice { name: (*name).to_owned(), ..OsDevice::default() });
    }
    Some(device)
}

/// The class of a node: `*-display:0 UNCLAIMED`, `"id" : "display",`, `<node id="display" …`.
fn node(line: &str) -> Option<&str> {
    let id = if let Some(rest) = line.strip_prefix("*-") {
        rest.split_whitespace().next()?
    } else if let Some(rest) = line.strip_prefix("\"id\"") {
        rest.split('"').nth(1)?
    } else {
        line.strip_prefix("<node id=\"")?.split('"').next()?
    };
    Some(id.split(':').next().unwrap_or(id))
}

/// A field in any of the three forms: `bus info: pci@…`, `"businfo" : "pci@…",`, `<businfo>pci@…</businfo>`.
fn field(line: &str) -> Option<(&str, &str)> {
    if let Some(rest) = line.strip_prefix('<') {
        if let Some(setting) = rest.strip_prefix("setting id=\"") {
            let (key, rest) = setting.split_once('"')?;
            return Some((key, rest.split('"').nth(1)?));
        }
        let (key, rest) = rest.split_once('>')?;
        return Some((key, rest.split_once("</")?.0));
    }
    let (key, value) = line.split_once(':')?;
    Some((key.trim().trim_matches('"'), value.trim().trim_end_matches(',').trim_matches('"')))
}

/// The class code of a kind of node.
fn class(kind: &str) -> Option<u32> {
    match kind {
        "display" => Some(0x03_0000),
        "network" => Some(0x02_0000),
        _ => None,
    }
}

/// The vendor's number, by its name.
fn vendor(name: &str) -> Option<u16> {
    const VENDORS: [(&str, u16); 6] = [
        ("NVIDIA", 0x10de),
        ("Advanced Micro Devices", 0x1002),
        ("Mellanox", 0x15b3),
        ("Intel", 0x8086),
        ("ASPEED", 0x1a03),
        ("Matrox", 0x102b),
    ];
    VENDORS.iter().find(|(word, _)| name.contains(word)).map(|(_, id)| *id)
}

/// The devices so far, and the one that is being read.
#[derive(Default)]
struct List {
    devices: Vec<PciDevice>,
    lines: Used,
    health: Health,
    device: Option<PciDevice>,
    /// Lines of the device that is being read.
    own: Vec<usize>,
    unclaimed: Option<usize>,
    /// Whether the interface has a link, with the line.
    link: Option<(bool, usize)>,
}

impl List {
    fn begin(&mut self, kind: &str, line: &str, i: usize) {
        let class = class(kind);
        if class.is_some() {
            self.device = Some(PciDevice { class, line: i as u32 + 1, ..PciDevice::new(PciRole::Endpoint) });
            self.used(i);
            self.unclaimed = line.ends_with("UNCLAIMED").then_some(i);
        }
    }

    fn used(&mut self, i: usize) {
        self.own.push(i);
    }

    fn take(&mut self, key: &str, value: &str, i: usize) {
        let Some(device) = self.device.as_mut() else { return };
        match key {
            "bus info" | "businfo" => device.address = value.strip_prefix("pci@").and_then(|at| at.parse().ok()),
            "product" => device.name = Some(value.split(" [1").next().unwrap_or(value).to_owned()),
            "vendor" => device.vendor = vendor(value),
            "logical name" | "logicalname" if !value.starts_with('/') && !value.starts_with('[') => {
                device.os_devices.push(OsDevice { name: value.to_owned(), ..OsDevice::default() });
            }
            "configuration" if value.contains(" link=") => self.link = Some((value.contains(" link=yes"), i)),
            "link" if matches!(value, "yes" | "no") => self.link = Some((value == "yes", i)),
            "claimed" if value == "false" => self.unclaimed = Some(i),
            _ => return,
        }
        self.used(i);
    }

    fn end(&mut self) {
        let own = std::mem::take(&mut self.own);
        let (unclaimed, link) = (self.unclaimed.take(), self.link.take());
        let Some(device) = self.device.take().filter(|device| device.address.is_some() && self.devices.len() < MOST)
        else {
            return;
        };
        own.into_iter().for_each(|i| self.lines.add(i));
        // a server's management controller shows a display that no driver needs
        let is_console = device.vendor.is_some_and(|vendor| [0x1a03, 0x102b].contains(&vendor));
        if let Some(i) = unclaimed.filter(|_| !is_console) {
            let part = device.address.map(|at| at.to_string());
            self.health.trouble(Area::Driver, Grade::Suspect, part.as_deref(), "UNCLAIMED:", "no driver", i);
        }
        if let Some((is_up, i)) = link {
            let name = device.os_devices.first().map(|os| os.name.clone());
            // a port without a cable is as it should be, and nothing here shows whether one is missing
            self.health.judge(Area::NetworkLink, (!is_up).then_some(Grade::Note), name.as_deref(), "link=", "no", i);
        }
        self.devices.push(device);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    fn devices(text: &str) -> Vec<(String, Option<u32>, Option<u16>, String)> {
        let found = scanned(scan, text);
        let Some(Fact::Pci(tree)) = found.evidence.into_iter().map(|e| e.fact).next() else { panic!("{text}") };
        let row = |d: PciDevice| (d.address.unwrap().to_string(), d.class, d.vendor, d.name.unwrap_or_default());
        tree.devices.into_iter().map(row).collect()
    }

    #[test]
    fn one_device_in_every_form() {
        let gpu =
            || vec![("0000:41:00.0".to_owned(), Some(0x03_0000), Some(0x10de), "GA100 [A100 PCIe 40GB]".to_owned())];
        let text = "  *-display\n       description: 3D controller\n       product: GA100 [A100 PCIe 40GB]\n       vendor: NVIDIA Corporation\n       bus info: pci@0000:41:00.0\n";
        assert_eq!(devices(text), gpu());
        let json = "{\n  \"id\" : \"display\",\n  \"class\" : \"display\",\n  \"product\" : \"GA100 [A100 PCIe 40GB]\",\n  \"vendor\" : \"NVIDIA Corporation\",\n  \"businfo\" : \"pci@0000:41:00.0\",\n}\n";
        assert_eq!(devices(json), gpu());
        let xml = "<node id=\"display\" claimed=\"true\" class=\"display\">\n <product>GA100 [A100 PCIe 40GB]</product>\n <vendor>NVIDIA Corporation</vendor>\n <businfo>pci@0000:41:00.0</businfo>\n";
        assert_eq!(devices(xml), gpu());
        let short = devices(
            "pci@0000:81:00.0  ens1f0np0  network        MT2892 Family [ConnectX-6 Dx]\npci@0000:41:00.0              display        GA100 [A100 PCIe 40GB]\n",
        );
        assert_eq!((short[0].1, short[1].1), (Some(0x02_0000), Some(0x03_0000)));
    }

    #[test]
    fn a_gpu_without_a_driver() {
        let text = "  *-display UNCLAIMED\n       product: GA100\n       vendor: NVIDIA Corporation\n       bus info: pci@0000:41:00.0\n";
        let found = scanned(scan, text);
        let Fact::Health(report) = &found.evidence[1].fact else { panic!("{found:#?}") };
        assert_eq!(
            (report.troubles[0].part.as_deref(), report.troubles[0].grade),
            (Some("0000:41:00.0"), Grade::Suspect)
        );
    }

    #[test]
    fn an_interface_without_a_link() {
        let text = "  *-network\n       product: MT2892\n       bus info: pci@0000:81:00.0\n       logical name: ens1\n       \
                    configuration: driver=mlx5_core link=no\n";
        let Fact::Health(report) = scanned(scan, text).evidence.remove(1).fact else { panic!() };
        assert_eq!((report.troubles[0].part.as_deref(), report.troubles[0].grade), (Some("ens1"), Grade::Note));
    }

    #[test]
    fn other_nodes() {
        for text in ["bus info: pci@0000:41:00.0\n", "*-cache\n product: x\n bus info: pci@0000:00:00.0\n"] {
            assert_eq!(scanned(scan, text), Found::default(), "{text}");
        }
    }
}
