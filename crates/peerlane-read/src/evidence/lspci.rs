//! `lspci`: the tree of `-tv`, the blocks of `-v` to `-vvv`, and the plain list, with or without `-nn`.
//!
//! Without `-nn`, `lspci` prints names from the PCI id database instead of numbers. This module turns
//! the few names that matter here back into vendor ids and class codes; `tree` and `verbose` read the
//! two layouts.

mod block;
mod health;
mod tree;
mod verbose;

use super::words::pci_id;
use super::{Found, Text};

/// Finds `lspci` output in the text.
pub(super) fn scan(text: &Text, found: &mut Found) {
    tree::scan(text, found);
    verbose::scan(text, found);
}

/// Class names of the PCI id database with their 16-bit codes.
const CLASSES: [(&str, u32); 44] = [
    ("VGA compatible controller", 0x0300),
    ("3D controller", 0x0302),
    ("Display controller", 0x0380),
    ("Processing accelerators", 0x1200),
    ("PCI bridge", 0x0604),
    ("Host bridge", 0x0600),
    ("Bridge", 0x0680),
    ("Ethernet controller", 0x0200),
    ("Infiniband controller", 0x0207),
    ("Fabric controller", 0x0208),
    ("Network controller", 0x0280),
    ("Non-Volatile memory controller", 0x0108),
    ("SCSI storage controller", 0x0100),
    ("IDE interface", 0x0101),
    ("RAID bus controller", 0x0104),
    ("SATA controller", 0x0106),
    ("Serial Attached SCSI controller", 0x0107),
    ("Mass storage controller", 0x0180),
    ("Multimedia audio controller", 0x0401),
    ("Audio device", 0x0403),
    ("RAM memory", 0x0500),
    ("CXL", 0x0502),
    ("Memory controller", 0x0580),
    ("ISA bridge", 0x0601),
    ("Serial controller", 0x0700),
    ("Communication controller", 0x0780),
    ("PIC", 0x0800),
    ("DMA controller", 0x0801),
    ("SD Host controller", 0x0805),
    ("IOMMU", 0x0806),
    ("System peripheral", 0x0880),
    ("Co-processor", 0x0b40),
    ("FireWire (IEEE 1394)", 0x0c00),
    ("USB controller", 0x0c03),
    ("SMBus", 0x0c05),
    ("IPMI Interface", 0x0c07),
    ("Serial bus controller", 0x0c80),
    ("Encryption controller", 0x1080),
    ("Performance counters", 0x1101),
    ("Signal processing controller", 0x1180),
    ("Non-Essential Instrumentation", 0x1300),
    ("Unclassified device", 0x0000),
    ("Unassigned class", 0xff00),
    ("Class", 0xff00),
];

/// Vendor names of the PCI id database, as names begin, with their ids.
const VENDORS: [(&str, u16); 17] = [
    ("NVIDIA Corporation", 0x10de),
    ("Advanced Micro Devices, Inc. [AMD/ATI]", 0x1002),
    ("Advanced Micro Devices, Inc. [AMD]", 0x1022),
    ("Mellanox Technologies", 0x15b3),
    ("Intel Corporation", 0x8086),
    ("ASPEED Technology", 0x1a03),
    ("Matrox Electronics Systems", 0x102b),
    ("Cirrus Logic", 0x1013),
    ("Red Hat, Inc.", 0x1af4),
    ("VMware", 0x15ad),
    ("PLX Technology", 0x10b5),
    ("Broadcom / LSI", 0x1000),
    ("Broadcom Inc. and subsidiaries BCM", 0x14e4),
    ("Microsemi", 0x11f8),
    ("Amazon.com", 0x1d0f),
    ("Samsung Electronics", 0x144d),
    ("Xilinx", 0x10ee),
];

/// Device ids of NVSwitches, which an id database older than they are shows as `Device 22a3`.
const NVSWITCHES: [u16; 5] = [0x1ac0, 0x1ac1, 0x1ac2, 0x1af1, 0x22a3];

/// What a name shows of a device.
#[derive(Debug, Default, PartialEq)]
struct Named {
    vendor: Option<u16>,
    device: Option<u16>,
    name: Option<String>,
}

/// Splits `NVIDIA Corporation GA100 [A100] [10de:20b0] (rev a1) (prog-if …)` into name and ids.
fn named(text: &str) -> Named {
    let mut name = text.trim();
    for mark in [" (rev ", " (prog-if "] {
        name = name.split_once(mark).map_or(name, |(before, _)| before);
    }
    let mut ids = None;
    if let Some((before, pair)) = name.trim_end().strip_suffix(']').and_then(|n| n.rsplit_once('[')) {
        ids = id_pair(pair);
        if ids.is_some() {
            name = before;
        }
    }
    let bare = id_pair(name.trim());
    if bare.is_some() {
        // `-n`: numbers and no name
        (ids, name) = (bare, "");
    }
    let vendor = VENDORS.iter().find(|(start, _)| name.starts_with(start)).map(|(_, id)| *id);
    let unnamed = name.trim().rsplit_once("Device ").filter(|(_, id)| id.len() == 4).and_then(|(_, id)| pci_id(id));
    Named {
        vendor: ids.map(|(v, _)| v).or(vendor),
        device: ids.map(|(_, d)| d).or(unnamed),
        name: Some(name.trim().to_owned()).filter(|n| !n.is_empty()),
    }
}

/// `10de:20b0`
fn id_pair(text: &str) -> Option<(u16, u16)> {
    let (vendor, device) = text.split_once(':').filter(|(v, d)| v.len() == 4 && d.len() == 4)?;
    Some((pci_id(vendor)?, pci_id(device)?))
}

/// The 24-bit class code that a device's name implies, for the tree, which shows no class.
///
/// Only what the names make plain: NVIDIA's and AMD's GPUs, NVSwitches and network adapters. All else
/// stays unknown.
fn class_of(device: &Named, function: u8) -> Option<u32> {
    const NICS: [&str; 9] = [
        "ConnectX",
        "Ethernet",
        "InfiniBand",
        "Infiniband",
        "Omni-Path",
        "BlueField",
        "NetXtreme",
        "Elastic Fabric Adapter",
        "Elastic Network Adapter",
    ];
    const NO_NICS: [&str; 4] = ["Management", "DMA", "Crypto", "Bridge"];
    const NO_GPUS: [&str; 9] = ["Audio", "USB", "UCSI", "SMBus", "Memory", "Bridge", "Root Port", "MCP", "nForce"];
    const AMD_GPUS: [&str; 7] = ["Instinct", "Radeon", "Vega", "Navi", "Arcturus", "Aldebaran", "MI"];
    let name = device.name.as_deref()?;
    let has = |words: &[&str]| words.iter().any(|w| name.contains(w));
    match device.vendor {
        Some(0x10de) if name.contains("NVSwitch") || device.device.is_some_and(|d| NVSWITCHES.contains(&d)) => {
            Some(0x06_8000)
        }
        _ if (has(&NICS) || device.vendor == Some(0x15b3)) && !has(&NO_NICS) => Some(0x02_0000),
        // a GPU is function 0; the others, its audio and USB, have no names in an old database
        Some(0x10de) if function == 0 && !has(&NO_GPUS) => Some(0x03_0000),
        Some(0x1002) if function == 0 && (has(&AMD_GPUS) || is_unnamed(name)) && !has(&NO_GPUS) => Some(0x03_0000),
        _ => None,
    }
}

/// Whether an id database older than the device gave it no name: `… [AMD/ATI] Device 738c`.
fn is_unnamed(name: &str) -> bool {
    name.rsplit_once("] Device ").is_some_and(|(_, id)| id.len() == 4 && pci_id(id).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        let with_ids = named("NVIDIA Corporation GA100 [A100 SXM4 40GB] [10de:20b0] (rev a1)");
        assert_eq!((with_ids.vendor, with_ids.device), (Some(0x10de), Some(0x20b0)));
        assert_eq!(with_ids.name.as_deref(), Some("NVIDIA Corporation GA100 [A100 SXM4 40GB]"));
        let without = named("Mellanox Technologies MT2910 Family [ConnectX-7]");
        assert_eq!((without.vendor, without.device), (Some(0x15b3), None));
        assert_eq!(named("10de:15f8 (rev a1)"), Named { vendor: Some(0x10de), device: Some(0x15f8), name: None });
    }

    #[test]
    fn classes_from_names() {
        let class = |name, function| class_of(&named(name), function);
        assert_eq!(class("NVIDIA Corporation AD102GL [RTX 6000 Ada Generation]", 0), Some(0x030000));
        assert_eq!(class("NVIDIA Corporation AD102 High Definition Audio Controller", 1), None);
        assert_eq!(class("NVIDIA Corporation Device 22a3", 0), Some(0x068000));
        assert_eq!(class("NVIDIA Corporation Device 2330", 0), Some(0x030000));
        assert_eq!(class("Mellanox Technologies MT28908 Family [ConnectX-6]", 0), Some(0x020000));
        assert_eq!(class("Mellanox Technologies MT43244 BlueField-3 SoC Management Interface", 2), None);
        assert_eq!(class("Intel Corporation Ethernet Controller X710 for 10GBASE-T", 1), Some(0x020000));
        assert_eq!(class("ASPEED Technology, Inc. ASPEED Graphics Family", 0), None);
        assert_eq!(class("Advanced Micro Devices, Inc. [AMD/ATI] Device 738c", 0), Some(0x030000));
        assert_eq!(class("Advanced Micro Devices, Inc. [AMD/ATI] Device ab38", 1), None);
        assert_eq!(class("Advanced Micro Devices, Inc. [AMD] Device 14a4", 0), None);
    }
}
