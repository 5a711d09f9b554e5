//! `rdma_topo topo` of rdma-core, text and JSON: the ConnectX-8 adapters with Data Direct, and the GPU near each.
//!
//! Its DMA function is on the same PCIe switch as the GPU, in a segment of its own; the adapter's other functions are below the
//! CPU. So adapter and GPU are given a common switch, which is what their data takes.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Deserializer;

use super::limits::MAX_JSON_BYTES;
use super::text::Span;
use super::{Fact, Found, OsDevice, PciDevice, PciRole, PciTree, Text};
use peerlane_machine::fabric::PciAddress;

const TOOL: &str = "rdma_topo";

/// More adapters than any machine has.
const MAX_COMPLEXES: usize = 256;

const NETWORK: u32 = 0x02_0000;
const DISPLAY: u32 = 0x03_0200;
const MELLANOX: u16 = 0x15b3;
const NVIDIA: u16 = 0x10de;

pub(super) fn scan(text: &Text, found: &mut Found) {
    if text.holds(&["RDMA NIC="]) {
        lines(text, found);
    }
    if text.holds(&["\"rdma_nic_pf_bdf\""]) {
        json(text, found);
    }
}

/// One adapter and its GPU.
#[derive(Default)]
struct Complex {
    nic: Option<PciAddress>,
    gpu: Option<PciAddress>,
    /// Whether the adapter has a DMA function next to the GPU.
    direct: bool,
    name: Option<String>,
    numa: Option<u32>,
    rdma: Vec<String>,
    net: Vec<String>,
}

fn lines(text: &Text, found: &mut Found) {
    let mut all: Vec<Complex> = Vec::new();
    let mut span = Span::default();
    for (i, line) in text.iter() {
        let line = line.trim_start_matches('>');
        if let Some(complex) = head(line.trim()) {
            span.add(i);
            if all.len() < MAX_COMPLEXES {
                all.push(complex);
            }
            continue;
        }
        let Some(last) = all.last_mut().filter(|_| line.starts_with([' ', '\t'])) else { continue };
        let line = line.trim();
        let list = |value: &str| value.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>();
        match line.split_once(": ") {
            Some(("NUMA Node", value)) => last.numa = value.trim().parse().ok(),
            Some(("RDMA device" | "RDMA devices", value)) => last.rdma = list(value),
            Some(("Net device" | "Net devices", value)) => last.net = list(value),
            Some(_) => continue,
            None if last.name.is_none() && !line.is_empty() => last.name = Some(line.to_owned()),
            None => continue,
        }
        span.extend(i);
    }
    if let Some(lines) = span.numbers(text) {
        push(text, lines, all, found);
    }
}

/// `RDMA NIC=0000:03:00.0, GPU=0009:06:00.0, RDMA DMA Function=0009:03:00.0`
fn head(line: &str) -> Option<Complex> {
    let mut complex = Complex::default();
    for part in line.strip_prefix("RDMA NIC=").map(|_| line)?.split(", ") {
        let (key, value) = part.split_once('=')?;
        let address: PciAddress = value.trim().parse().ok()?;
        match key {
            "RDMA NIC" => complex.nic = Some(address),
            "GPU" => complex.gpu = Some(address),
            "RDMA DMA Function" => complex.direct = true,
            _ => {}
        }
    }
    Some(complex)
}

/// An element of the list that `--json` prints.
#[derive(Deserialize)]
struct Element {
    rdma_nic_pf_bdf: Option<String>,
    gpu_bdf: Option<String>,
    rdma_dma_bdf: Option<String>,
    rdma_nic_vpd_name: Option<String>,
    numa_node: Option<u32>,
    /// By PCI address: kind of device, names.
    #[serde(default)]
    subsystems: BTreeMap<String, BTreeMap<String, Vec<String>>>,
}

fn json(text: &Text, found: &mut Found) {
    text.walk(|i| {
        // the list opens on a line of its own
        if text.line(i).trim() != "[" || text.line(i + 1).trim() != "{" {
            return None;
        }
        let start = text.offset(i);
        let rest = text.joined().get(start..)?;
        let end = (0..=rest.len().min(MAX_JSON_BYTES)).rev().find(|at| rest.is_char_boundary(*at))?;
        let mut documents = Deserializer::from_str(rest.get(..end)?).into_iter::<Vec<Element>>();
        let list = documents.next()?;
        let read = documents.byte_offset();
        text.spend(i, if list.is_ok() { read } else { end }).then_some(())?;
        let list = list.ok()?;
        let last = text.line_at(start + read.saturating_sub(1)) as usize - 1;
        let address = |text: &Option<String>| text.as_ref().and_then(|bdf| bdf.parse().ok());
        let complexes = list.into_iter().take(MAX_COMPLEXES).filter_map(|element| {
            let names = |kind: &str| {
                let of = element.subsystems.values().filter_map(|kinds| kinds.get(kind)).flatten();
                of.cloned().collect::<Vec<_>>()
            };
            let (rdma, net) = (names("infiniband"), names("net"));
            Some(Complex {
                nic: Some(address(&element.rdma_nic_pf_bdf)?),
                gpu: address(&element.gpu_bdf),
                direct: element.rdma_dma_bdf.is_some(),
                name: element.rdma_nic_vpd_name,
                numa: element.numa_node,
                rdma,
                net,
            })
        });
        push(text, text.numbers(i, last), complexes.collect(), found);
        Some(last + 1)
    });
}

fn push(text: &Text, lines: (u32, u32), all: Vec<Complex>, found: &mut Found) {
    let mut devices = Vec::new();
    for complex in all {
        let os = |name: String, rdma: bool| OsDevice { name, rdma, ..OsDevice::default() };
        let names = complex.rdma.into_iter().map(|name| os(name, true));
        let mut near = vec![PciDevice {
            address: complex.nic,
            class: Some(NETWORK),
            vendor: Some(MELLANOX),
            name: complex.name,
            numa: complex.numa,
            os_devices: names.chain(complex.net.into_iter().map(|name| os(name, false))).collect(),
            ..PciDevice::new(PciRole::Endpoint)
        }];
        near.extend(complex.gpu.map(|address| PciDevice {
            address: Some(address),
            class: Some(DISPLAY),
            vendor: Some(NVIDIA),
            numa: complex.numa,
            ..PciDevice::new(PciRole::Endpoint)
        }));
        let parent = devices.len();
        let joined = complex.direct && near.len() > 1;
        if joined {
            devices.push(PciDevice { numa: complex.numa, ..PciDevice::new(PciRole::HostBridge) });
            devices.push(PciDevice { parent: Some(parent), ..PciDevice::new(PciRole::Bridge) });
        }
        for mut device in near {
            device.parent = joined.then_some(parent + 1);
            device.line = lines.0;
            devices.push(device);
        }
    }
    let has_tree = !devices.is_empty() && devices.iter().all(|d| d.parent.is_some() || d.role == PciRole::HostBridge);
    if !has_tree {
        devices.retain(|d| d.role == PciRole::Endpoint);
        devices.iter_mut().for_each(|d| d.parent = None);
    }
    found.push(text, TOOL, lines, Fact::Pci(PciTree { devices, bridges_are_switches: true, has_tree }));
}

#[cfg(test)]
mod tests {
    use super::super::testing::scanned;
    use super::*;

    fn tree(text: &str) -> PciTree {
        let found = scanned(scan, text);
        let [one] = found.evidence.as_slice() else { panic!("{found:#?}") };
        let Fact::Pci(tree) = &one.fact else { panic!() };
        tree.clone()
    }

    #[test]
    fn adapters_with_data_direct_are_near_their_gpus() {
        let text = "\
RDMA NIC=0000:03:00.0, GPU=0009:06:00.0, RDMA DMA Function=0009:03:00.0
\tNVIDIA ConnectX-8 Mezz
\tNUMA Node: 0
\tNIC PCI device: 0000:03:00.0
\tRDMA device: mlx5_0
\tNet device: ibp3s0
RDMA NIC=0002:03:00.0, GPU=0010:06:00.0, RDMA DMA Function=0010:03:00.0
\tNUMA Node: 1
\tRDMA device: mlx5_1
";
        let tree = tree(text);
        assert!(tree.has_tree && tree.bridges_are_switches);
        assert_eq!((tree.gpus().len(), tree.devices.len()), (2, 8));
        let nic = &tree.devices[2];
        assert_eq!((nic.os_devices[0].name.as_str(), nic.numa, nic.parent), ("mlx5_0", Some(0), Some(1)));
        assert_eq!(nic.name.as_deref(), Some("NVIDIA ConnectX-8 Mezz"));
        assert_eq!(tree.devices[3].parent, Some(1));
    }

    #[test]
    fn as_json() {
        let tree = tree(
            "[\n    {\n        \"rdma_nic_pf_bdf\": \"0000:03:00.0\",\n        \"rdma_dma_bdf\": \"0009:03:00.0\",\n        \"gpu_bdf\": \"0009:06:00.0\",\n\
             \x20       \"subsystems\": {\"0000:03:00.0\": {\"infiniband\": [\"mlx5_0\"], \"net\": [\"ibp3s0\"]}},\n        \"numa_node\": 0\n    }\n]\n",
        );
        assert_eq!((tree.devices.len(), tree.devices[2].os_devices.len(), tree.gpus().len()), (4, 2, 1));
    }

    #[test]
    fn adapters_without_it_keep_their_places_unknown() {
        let tree = tree("RDMA NIC=0000:03:00.0, GPU=0000:06:00.0\n\tNUMA Node: 0\n\tRDMA device: mlx5_0\n");
        assert_eq!((tree.has_tree, tree.devices.len()), (false, 2));
    }

    #[test]
    fn what_only_looks_like_it() {
        for text in ["RDMA NIC=none\n", "\"rdma_nic_pf_bdf\"\n[\n{\n", "see RDMA NIC=0000:03:00.0\n"] {
            assert_eq!(scanned(scan, text), Found::default(), "{text}");
        }
    }
}
