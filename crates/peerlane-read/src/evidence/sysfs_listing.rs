//! A listing of `/sys/bus/pci/devices`, a function a line, as a short shell loop prints it:
//!
//! ```text
//! 0000:00:06.0 class=0x030200 ven=0x10de dev=0x2335 numa=-1 spd=32.0 GT/s PCIe w=16 max=32.0 GT/s PCIe/16 path=/sys/devices/…
//! ```

use super::sysfs_tree::{Function, address, tree};
use super::words::{hex, pci_id, pcie_width};
use super::{Fact, Found, PciDevice, PciRole, Text};

const TOOL: &str = super::tool::SYSFS_LISTING;

/// Finds listings in the text: lines that follow one another.
pub(super) fn scan(text: &Text, found: &mut Found) {
    text.walk(|first| {
        let functions: Vec<Function> =
            (first..text.len()).map_while(|i| function(text.line(i), i as u32 + 1)).collect();
        let last = (first + functions.len()).checked_sub(1).filter(|last| *last >= first)?;
        let tree = tree(functions);
        found.push(text, TOOL, text.numbers(first, last), Fact::Pci(tree));
        Some(last + 1)
    });
}

fn function(line: &str, number: u32) -> Option<Function> {
    let (name, fields) = line.trim().split_once(' ')?;
    let address = address(name)?;
    let class = hex(value(fields, "class=")?)?;
    let id = |key| value(fields, key).and_then(pci_id);
    let (speed, lanes) = value(fields, "max=").and_then(|m| m.rsplit_once('/')).unwrap_or_default();
    let device = PciDevice {
        address: Some(address),
        class: Some(class),
        vendor: id("ven="),
        device: id("dev="),
        // the kernel's -1 is no number here
        numa: value(fields, "numa=").and_then(|v| v.parse().ok()),
        running: pcie_width(value(fields, "spd=").unwrap_or_default(), value(fields, "w=").unwrap_or_default()),
        capable: pcie_width(speed, lanes),
        line: number,
        ..PciDevice::new(PciRole::Endpoint)
    };
    Some(Function { device, path: value(fields, "path=").map(str::to_owned) })
}

/// The value after `key`, up to the next ` word=`.
fn value<'a>(fields: &'a str, key: &str) -> Option<&'a str> {
    let at = fields.match_indices(key).map(|(at, _)| at).find(|at| *at == 0 || fields[..*at].ends_with(' '))?;
    let rest = &fields[at + key.len()..];
    let end = rest.find('=').map_or(rest.len(), |eq| rest[..eq].rfind(' ').unwrap_or(0));
    Some(rest[..end].trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_virtual_machine() {
        let text = "0000:00:00.0 class=0x060000 ven=0x8086 dev=0x0d57 numa=-1 spd= w= max=/ path=/sys/devices/pci0000:00/0000:00:00.0
0000:00:03.0 class=0x020000 ven=0x1af4 dev=0x1041 numa=-1 spd= w= max=/ path=/sys/devices/pci0000:00/0000:00:03.0
0000:00:06.0 class=0x030200 ven=0x10de dev=0x2335 numa=1 spd=32.0 GT/s PCIe w=16 max=64.0 GT/s PCIe/16 path=/sys/devices/pci0000:00/0000:00:06.0
other";
        let mut found = Found::default();
        scan(&Text::new("x", text.as_bytes()), &mut found);
        let Fact::Pci(tree) = &found.evidence[0].fact else { panic!() };
        let [root, nic, gpu] = &tree.devices[..] else { panic!("{tree:?}") };
        assert_eq!((root.role, nic.parent, gpu.parent), (PciRole::HostBridge, Some(0), Some(0)));
        assert!(nic.is_nic() && nic.running.is_unknown() && nic.numa.is_none());
        assert_eq!((gpu.running.to_string(), gpu.capable.to_string()), ("5.0 x16".to_owned(), "6.0 x16".to_owned()));
        assert_eq!((gpu.numa, gpu.line, found.evidence[0].origin.lines), (Some(1), 3, Some((1, 3))));
    }
}
