//! Honest sources of every kind, small ones, into which hostile text is planted.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::path;

const TOPO: &str = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tPIX\t0-7\t0\nGPU1\tPIX\t X \t0-7\t0\n";

/// The full example of `docs/system-files.md`, with what that leaves out.
pub(super) fn system_file() -> String {
    let page = include_str!("../../../../../docs/system-files.md");
    let example = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    // its class matrix is read as text; names of nodes stand in it
    let (before, rest) = example.split_once("[topology]").unwrap();
    let (_, after) = rest.split_once("[[p2p]]").unwrap();
    let more = "aliases = [\"first\"], product = \"a product\"";
    let example = format!("{before}[[p2p]]{after}");
    let example = example.replace("{ part = \"h100-pcie\" }", &format!("{{ part = \"h100-pcie\", {more} }}"));
    example.replacen("title = \"p2p", "known_cause = \"none\"\ntitle = \"p2p", 1)
}

pub(super) const CLUSTER: &str = "\
name = \"pair\"
title = \"Two nodes\"
source = \"a paper\"
notes = [\"a note\"]
assumptions = [\"an assumption\"]
node = \"apenet-x56xx\"
nodes = 2

[network]
shape = \"links\"
rate = 34
latency = \"adapters\"

[[links]]
between = [\"node0/apenet0\", \"node1/apenet0\"]
";

pub(super) const LSTOPO: &str = r#"<?xml version="1.0"?>
<topology version="2.0">
 <object type="Machine" os_index="0" cpuset="0x000000ff" nodeset="0x00000003" gp_index="1">
  <info name="HostName" value="n1"/>
  <object type="Package" os_index="1" cpuset="0x000000f0" nodeset="0x00000002" gp_index="3">
   <info name="CPUModel" value="A CPU"/>
   <object type="NUMANode" os_index="1" cpuset="0x000000f0" nodeset="0x00000002" gp_index="9" local_memory="1024"/>
   <object type="Bridge" gp_index="20" bridge_type="0-1" bridge_pci="0000:[80-82]">
    <object type="Bridge" gp_index="21" bridge_type="1-1" pci_busid="0000:80:01.0" pci_type="0604 [8086:6f08] [0000:0000] 01" pci_link_speed="7.876923">
     <object type="PCIDev" gp_index="22" pci_busid="0000:81:00.0" pci_type="0302 [10de:15f9] [10de:118f] a1" pci_link_speed="0.000000">
      <info name="PCIVendor" value="a vendor"/><info name="PCIDevice" value="a GPU"/>
      <object type="OSDev" gp_index="30" name="cuda4" osdev_type="5"><info name="GPUModel" value="a model"/></object>
     </object>
     <object type="PCIDev" gp_index="23" pci_busid="0000:82:00.0" pci_type="0207 [15b3:1017] [15b3:0003] 00">
      <object type="OSDev" gp_index="31" name="mlx5_0" osdev_type="3"><info name="Port1State" value="4"/></object>
     </object>
    </object>
   </object>
  </object>
 </object>
</topology>
"#;

fn captures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures")
}

pub(super) fn live_record() -> String {
    fs::read_to_string(captures().join("h200x2-vm-runs/default.json")).unwrap()
}

/// What a live machine reported, from its record.
pub(super) fn evidence(name: &str) -> String {
    let record: serde_json::Value = serde_json::from_str(&live_record()).unwrap();
    let texts = record["machine"]["evidence"].as_array().unwrap();
    texts.iter().find(|text| text["name"] == name).unwrap()["text"].as_str().unwrap().to_owned()
}

pub(super) fn capture(name: &str) -> String {
    fs::read_to_string(captures().join("h200x4-vm").join(name)).unwrap()
}

/// What tools print.
pub(super) fn printed() -> Vec<(&'static str, String)> {
    let pair = |name: &'static str| (name, fs::read_to_string(captures().join("h200x2-vm").join(name)).unwrap());
    let mut all: Vec<_> = ["nvidia-smi-q.txt", "nvidia-smi-topo-m.txt", "nvidia-smi.txt"].map(pair).into();
    // only with a matrix do these describe a machine
    let topology = capture("nvidia-smi-topo-m.txt");
    for name in ["p2pBandwidthLatencyTest.txt", "deviceQuery.txt", "all_reduce_perf.txt", "nvbandwidth.txt"] {
        all.push((name, format!("{}\n{topology}", capture(name))));
    }
    all
}

/// A folder of this name within another, with a file of this name.
pub(super) fn folder(name: &str) -> String {
    let folder = path("terminal", "named");
    let _ = fs::remove_dir_all(&folder);
    let inner = folder.join(name);
    fs::create_dir_all(&inner).unwrap();
    fs::write(inner.join(format!("{name}.txt")), TOPO).unwrap();
    fs::write(inner.join(format!("{name}.bin")), [0; 64]).unwrap();
    fs::write(folder.join("topo.txt"), TOPO).unwrap();
    folder.to_str().unwrap().to_owned()
}

/// A tree of sysfs whose names and attributes hold this.
pub(super) fn sysfs(hostile: &str) -> String {
    let root = path("terminal", "sysfs");
    let _ = fs::remove_dir_all(&root);
    for (file, content) in sysfs_files(hostile) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    root.to_str().unwrap().to_owned()
}

fn sysfs_files(hostile: &str) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let devices = [("02", "0x030200", "0x10de"), ("03", "0x030200", "0x10de"), ("04", "0x020700", "0x15b3")];
    for (bus, class, vendor) in devices {
        for base in ["bus/pci/devices", "devices/pci0000:00/0000:00:03.0"] {
            let folder = format!("sys/{base}/0000:{bus}:00.0");
            let values = [("class", class), ("vendor", vendor), ("device", "0x1234"), ("numa_node", "0")];
            files.extend(values.map(|(name, value)| (format!("{folder}/{name}"), value.to_owned())));
            files.push((format!("{folder}/current_link_speed"), format!("8.0 GT/s PCIe {hostile}")));
            files.push((format!("{folder}/uevent"), format!("PCI_SLOT_NAME=0000:{bus}:00.0\n")));
        }
        let information = format!("Model: \t\t A GPU {}\nIRQ: 1\n", hostile.replace('\n', " "));
        files.push((format!("proc/driver/nvidia/gpus/0000:{bus}:00.0/information"), information));
    }
    for name in ["eth0", hostile] {
        let folder = format!("sys/class/net/{name}");
        files.push((format!("{folder}/device/uevent"), "PCI_SLOT_NAME=0000:04:00.0\n".to_owned()));
        files.push((format!("{folder}/operstate"), hostile.to_owned()));
    }
    let port = "sys/class/infiniband/mlx5_0";
    files.push((format!("{port}/device/uevent"), "PCI_SLOT_NAME=0000:04:00.0\n".to_owned()));
    files.push((format!("{port}/ports/1/state"), format!("4: {hostile}")));
    files.push((format!("{port}/ports/1/link_layer"), hostile.to_owned()));
    files.push((format!("{port}/ports/{hostile}/state"), "4: ACTIVE".to_owned()));
    files.push(("sys/class/dmi/id/product_name".to_owned(), hostile.to_owned()));
    files.push(("proc/sys/kernel/hostname".to_owned(), hostile.to_owned()));
    files
}

/// An archive with files of this name and a tree of sysfs.
pub(super) fn tar(name: &str) -> Vec<u8> {
    let mut files = sysfs_files(name);
    files.retain(|(path, _)| path.len() < 100);
    files.push((format!("{name}.txt"), TOPO.to_owned()));
    files.push((format!("../{name}.txt"), TOPO.to_owned()));
    files.push((format!("{name}/sys/bus/pci/devices/x"), String::new()));
    files.push(("topo.txt".to_owned(), TOPO.to_owned()));
    let mut archive = Vec::new();
    for (path, content) in files {
        let mut header = [0_u8; 512];
        header[..path.len()].copy_from_slice(path.as_bytes());
        header[100..108].copy_from_slice(b"0000644\0");
        header[124..136].copy_from_slice(format!("{:011o}\0", content.len()).as_bytes());
        header[136..148].copy_from_slice(b"00000000000\0");
        header[148..156].fill(b' ');
        header[156] = b'0';
        header[257..265].copy_from_slice(b"ustar\x0000");
        let sum: u32 = header.iter().map(|b| u32::from(*b)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        archive.extend(header);
        archive.extend(content.as_bytes());
        archive.resize(archive.len().next_multiple_of(512), 0);
    }
    archive.extend([0; 1024]);
    archive
}
