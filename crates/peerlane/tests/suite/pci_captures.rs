//! PCI trees of real machines: our own captures, and public ones where `PEERLANE_CORPUS` names their folder.

use std::path::{Path, PathBuf};

use crate::common::corpus_file;
use peerlane::evidence::read_path;
use peerlane::fact::{Fact, NvlinkEnd, NvlinkPort, PciDevice, PciRole, PciTree};

struct Seen {
    trees: Vec<PciTree>,
    links: Vec<NvlinkPort>,
    numa: usize,
    warnings: String,
}

fn read(path: &Path) -> Seen {
    let found = read_path(path).unwrap();
    let mut seen = Seen { trees: Vec::new(), links: Vec::new(), numa: 0, warnings: String::new() };
    for evidence in found.evidence {
        match evidence.fact {
            Fact::Pci(tree) => seen.trees.push(tree),
            Fact::Nvlink(links) => seen.links.extend(links),
            Fact::Host(host) => seen.numa = seen.numa.max(host.numa.len()),
            _ => {}
        }
    }
    for warning in found.warnings {
        seen.warnings.push_str(&warning.to_string());
    }
    seen
}

/// Root bridges, other bridges, GPUs, network adapters.
fn counts(tree: &PciTree) -> [usize; 4] {
    let count = |f: &dyn Fn(&PciDevice) -> bool| tree.devices.iter().filter(|d| f(d)).count();
    [
        count(&|d| d.role == PciRole::HostBridge),
        count(&|d| d.role == PciRole::Bridge),
        count(&PciDevice::is_gpu),
        count(&PciDevice::is_nic),
    ]
}

fn capture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures").join(name)
}

#[test]
fn the_virtual_machine_hides_its_switches() {
    let nccl = read(&capture("h200x4-vm/nccl-topo.xml"));
    assert_eq!(counts(&nccl.trees[0]), [1, 0, 4, 0]);
    assert!(nccl.links.iter().all(|l| l.count == 18 && l.remote == Some(NvlinkEnd::Hidden)));
    let sysfs = read(&capture("h200x4-vm/sysfs-pci.txt"));
    // the one network adapter is virtio
    assert_eq!(counts(&sysfs.trees[0]), [1, 0, 4, 1]);
    // NCCL reads a width of 0 where sysfs shows 16 lanes
    let width = |tree: &PciTree| tree.devices.iter().find(|d| d.is_gpu()).unwrap().running.to_string();
    assert_eq!((width(&nccl.trees[0]), width(&sysfs.trees[0])), ("5.0 x?".to_owned(), "5.0 x16".to_owned()));
}

#[test]
fn public_captures() {
    // file, [root bridges, other bridges, GPUs, network adapters], NVLink or xGMI entries, NUMA nodes, a warning
    let expected = [
        ("nccl-aws-p4d.xml", [2, 4, 8, 4], 0, 2, ""),
        ("nccl-aws-g5.48xl.xml", [2, 0, 0, 0], 0, 2, "what 9 device(s) are"),
        ("nccl-azure-nc48v4.xml", [2, 0, 2, 0], 2, 2, "eth0"),
        ("nccl-azure-ncv4.xml", [4, 0, 4, 0], 0, 4, "to itself"),
        ("nccl-azure-ndv2.xml", [2, 0, 8, 1], 0, 2, ""),
        ("nccl-azure-ndv5.xml", [2, 8, 8, 8], 0, 2, ""),
        ("nccl-gb10-dgx-spark.xml", [1, 0, 1, 1], 0, 0, "tailscale0"),
        ("rccl-topo_8p1h.xml", [2, 14, 8, 4], 24, 2, ""),
        ("hwloc-corona-mi50.xml", [6, 20, 4, 3], 0, 8, ""),
        ("hwloc-lassen-power9-v100.xml", [7, 15, 4, 6], 0, 2, ""),
        ("hwloc-pascal-p100.xml", [1, 8, 2, 3], 0, 2, ""),
        ("hwloc-power8-p100.xml", [4, 4, 4, 0], 8, 2, ""),
        ("full-rtx6000ada-wrx90-cx7.md", [4, 40, 2, 4], 0, 1, ""),
    ];
    for (file, shape, links, numa, warning) in expected {
        let Some(path) = corpus_file(file) else { continue };
        let seen = read(&path);
        let tree = seen.trees.iter().find(|t| t.has_tree).unwrap();
        assert_eq!((counts(tree), seen.links.len()), (shape, links), "{file}");
        // another format in the same file may tell the NUMA nodes
        assert!(seen.numa == numa || file.ends_with(".md"), "{file}: {} NUMA nodes", seen.numa);
        assert!(seen.warnings.contains(warning), "{file}: {}", seen.warnings);
    }
}
