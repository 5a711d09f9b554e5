//! A live `/sys`, or a copy of one: PCI functions with their tree, RDMA and network devices, NUMA nodes.
//!
//! The tree is what the entries of `bus/pci/devices` link to. `/proc` next to it is read too, where it
//! is there. Only root may read configuration space past its first 64 bytes, where ACS and payload
//! sizes stand.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use super::config_space;
use super::sysfs_tree::{Function, address, function_of, tree};
use super::tree::{Below, Disk, Files, Item, MAX_ENTRIES, Recorder, Tree};
use super::words::{hex, pci_id, pcie_width};
use super::{Fact, Found, HostFacts, NumaNode, Origin, OsDevice, PciDevice, PciRole, PciTree, Text, Warning};
use crate::input_file::Refused;
use peerlane_machine::fabric::{CpuList, PciAddress};
use peerlane_machine::one_line::{one_line, shown};
use peerlane_machine::units::Bytes;

const TOOL: &str = super::tool::SYSFS;

/// The most that is read of one attribute; configuration space has 4 KiB.
const MAX_ATTRIBUTE_BYTES: u64 = 64 << 10;

/// The most that is read of a file below `/proc`.
const MAX_PROC_BYTES: u64 = 16 << 20;

/// The most levels of folders below `devices/pci0000:00` that are entered.
const MAX_DEPTH: usize = 32;

/// Folders that show a `sys`: the PCI devices, and what a capture without them has.
const SIGNS: [&str; 2] = ["bus/pci/devices", "devices/system"];

/// What a machine's tree holds at its top, or a `sys` at its own.
pub(super) const OWN: [&str; 5] = ["sys", "proc", "bus", "class", "devices"];

/// Whether a folder is, or holds, a `sys`.
pub(super) fn is_root(path: &Path) -> bool {
    is_sys(path) || holds_sys(path)
}

/// Whether it is one itself.
pub(super) fn is_sys(path: &Path) -> bool {
    Disk::of(path).is_ok_and(|disk| SIGNS.iter().any(|sign| disk.is_folder(sign)))
}

/// The folder that is, or holds, the `sys` that a file lies in; empty for the top.
pub(super) fn root_of(path: &str) -> Option<String> {
    let signs = SIGNS.iter().flat_map(|sign| [format!("sys/{sign}/"), format!("{sign}/")]);
    let at = signs.filter_map(|sign| path.find(&sign)).min()?;
    let before = path.get(..at)?;
    (before.is_empty() || before.ends_with('/')).then(|| before.trim_end_matches('/').to_owned())
}

fn holds_sys(path: &Path) -> bool {
    Disk::of(path).is_ok_and(|disk| SIGNS.iter().any(|sign| disk.is_folder(&format!("sys/{sign}"))))
}

/// Reads the machine below `root`.
pub(super) fn read(root: &Path) -> Result<Found, Refused> {
    let disk = Disk::of(root)?;
    let name = shown(root);
    if holds_sys(root) {
        return Ok(read_tree(&name, &disk));
    }
    // a `sys` alone: `/proc` is its neighbour
    let parent = root.parent().map(Disk::of).transpose()?;
    Ok(read_parts(&name, &disk, &Below { tree: parent.as_ref().map_or(&disk as &dyn Tree, |p| p), folder: "proc" }))
}

/// Reads the machine of a tree that is, or holds, a `sys`.
pub(super) fn read_tree(name: &str, tree: &dyn Tree) -> Found {
    let folder = if SIGNS.iter().any(|sign| tree.is_folder(&format!("sys/{sign}"))) { "sys" } else { "" };
    read_parts(name, &Below { tree, folder }, &Below { tree, folder: "proc" })
}

/// The files that [`read_path`](super::read_path) reads of the machine below `root`, such as `/`: below `sys/` and
/// `proc/`, as they stand there but for what `cpuinfo` repeats, so that they give the same machine elsewhere.
///
/// # Errors
/// Where there is no such folder.
pub fn record(root: &Path) -> Result<Files, Refused> {
    let disk = Disk::of(root)?;
    let recorder = Recorder::new(&disk);
    read_tree("", &recorder);
    Ok(shortened(recorder))
}

fn shortened(recorder: Recorder) -> Files {
    let mut files = recorder.into_files();
    for (_, item) in files.iter_mut().filter(|(path, _)| *path == "proc/cpuinfo") {
        if let Item::File(bytes) = item {
            *bytes = super::cpuinfo::shortened(&String::from_utf8_lossy(bytes)).into_bytes();
        }
    }
    files
}

/// The same without the files of PCI functions that do not concern the paths between GPUs, NICs and memory.
///
/// # Errors
/// Where there is no such folder.
pub fn record_what_matters(root: &Path) -> Result<Files, Refused> {
    let disk = Disk::of(root)?;
    let recorder = Recorder::new(&disk);
    let found = read_tree("", &recorder);
    let tree = found.evidence.into_iter().find_map(|e| if let Fact::Pci(tree) = e.fact { Some(tree) } else { None });
    let kept: HashSet<PciAddress> = tree.iter().flat_map(|t| &t.devices).filter_map(|d| d.address).collect();
    let mut files = shortened(recorder);
    files.retain(|path, _| function_of(path).is_none_or(|function| kept.contains(&function)));
    Ok(files)
}

fn read_parts(name: &str, sys: &dyn Tree, proc: &dyn Tree) -> Found {
    let source: Arc<str> = name.into();
    let origin = Origin { source, tool: TOOL, lines: None };
    let mut found = Found::default();
    let mut functions = functions(sys);
    os_devices(sys, &mut functions);
    gpu_names(proc, &mut functions);
    let hidden = functions.iter().any(|f| f.1);
    let tree = tree(functions.into_iter().map(|f| f.0).collect());
    if hidden && !tree.devices.is_empty() {
        found.warnings.push(Warning::at(
            &origin,
            "configuration space can be read only by root: ACS, payload and read-request sizes are unknown",
        ));
    }
    if tree != (PciTree { has_tree: true, ..PciTree::default() }) {
        found.push_of(origin.clone(), Fact::Pci(tree));
    }
    let host = host(sys, proc);
    if host != HostFacts::default() {
        found.push_of(origin, Fact::Host(host));
    }
    for (file, scan) in [("cpuinfo", super::cpuinfo::scan as fn(&Text, &mut Found)), ("modules", super::modules::scan)]
    {
        if let Some(bytes) = proc.bytes(file, MAX_PROC_BYTES) {
            scan(&Text::new(&format!("{}/proc/{file}", name.trim_end_matches('/')), &bytes), &mut found);
        }
    }
    found
}

/// A short attribute, trimmed, on one line.
fn attribute(tree: &dyn Tree, folder: &str, name: &str) -> Option<String> {
    table(tree, folder, name).map(|text| one_line(&text).into_owned())
}

/// An attribute of several lines, trimmed.
fn table(tree: &dyn Tree, folder: &str, name: &str) -> Option<String> {
    let bytes = tree.bytes(&format!("{folder}/{name}"), MAX_ATTRIBUTE_BYTES)?;
    let text = String::from_utf8_lossy(&bytes).trim().to_owned();
    Some(text).filter(|t| !t.is_empty())
}

/// Every function; and whether its configuration space is there but hidden past the header.
fn functions(sys: &dyn Tree) -> Vec<(Function, bool)> {
    let folder = "bus/pci/devices";
    let mut copied: Option<HashMap<PciAddress, String>> = None;
    let listed: Vec<(PciAddress, String)> =
        sys.names(folder).iter().filter_map(|name| Some((address(name)?, format!("{folder}/{name}")))).collect();
    let entries = match listed.is_empty() {
        false => listed,
        // a capture that left out the links
        true => walk(sys).into_iter().map(|(own, path)| (own, format!("devices/{path}"))).collect(),
    };
    let mut all = Vec::new();
    for (own, entry) in entries {
        // virtual functions repeat their physical one
        let physical = format!("{entry}/physfn");
        if sys.link(&physical).is_some() || sys.is_folder(&physical) {
            continue;
        }
        let path = sys.link(&entry).or_else(|| {
            // in a copy made by following links, only the folders under devices/ show the tree
            copied.get_or_insert_with(|| walk(sys)).get(&own).cloned()
        });
        let config = sys.bytes(&format!("{entry}/config"), MAX_ATTRIBUTE_BYTES).unwrap_or_default();
        let hidden = config.len() == 64 && config_space::has_capabilities(&config);
        all.push((Function { device: device(sys, &entry, own, &config), path }, hidden));
    }
    all
}

fn device(sys: &dyn Tree, entry: &str, address: PciAddress, config: &[u8]) -> PciDevice {
    let text = |name| attribute(sys, entry, name).unwrap_or_default();
    let id = |name| attribute(sys, entry, name).as_deref().and_then(pci_id);
    let control = config_space::device_control(config);
    PciDevice {
        address: Some(address),
        class: hex(&text("class")),
        vendor: id("vendor"),
        device: id("device"),
        running: pcie_width(&text("current_link_speed"), &text("current_link_width")),
        capable: pcie_width(&text("max_link_speed"), &text("max_link_width")),
        // -1 where the firmware does not state it
        numa: text("numa_node").parse().ok(),
        cpus: cpus(sys, entry, "local_cpulist", "local_cpus").filter(|c| !c.is_empty()),
        acs: config_space::acs(config),
        max_payload: control.map(|c| c.max_payload),
        max_read_request: control.map(|c| c.max_read_request),
        relaxed_ordering: control.map(|c| c.relaxed_ordering),
        bar_bytes: largest_prefetchable(&table(sys, entry, "resource").unwrap_or_default()),
        ..PciDevice::new(PciRole::Endpoint)
    }
}

/// CPUs as a list, or, in captures of older kernels, as a mask.
fn cpus(sys: &dyn Tree, folder: &str, list: &str, mask: &str) -> Option<CpuList> {
    // an empty list is a list: the memory of a GPU is a node without CPUs
    let bytes = sys.bytes(&format!("{folder}/{list}"), MAX_ATTRIBUTE_BYTES);
    match bytes.as_deref().map(String::from_utf8_lossy) {
        Some(text) if text.trim().is_empty() => Some(CpuList::default()),
        Some(text) => text.trim().parse().ok(),
        None => CpuList::from_mask(&attribute(sys, folder, mask)?),
    }
}

/// The largest prefetchable memory BAR. A line is start, end and flags; the first six are the BARs.
fn largest_prefetchable(resource: &str) -> Option<u64> {
    /// The kernel's `IORESOURCE_MEM | IORESOURCE_PREFETCH`.
    const FLAGS: u64 = 0x200 | 0x2000;
    let number = |t: &str| u64::from_str_radix(t.trim_start_matches("0x"), 16).ok();
    let sizes = resource.lines().take(6).filter_map(|line| {
        let mut words = line.split_whitespace().map(number);
        let (start, end, flags) = (words.next()??, words.next()??, words.next()??);
        if flags & FLAGS == FLAGS { end.checked_sub(start)?.checked_add(1) } else { None }
    });
    sizes.max()
}

/// Paths below `devices` by address, for trees without links.
fn walk(sys: &dyn Tree) -> HashMap<PciAddress, String> {
    let mut found = HashMap::new();
    let roots = sys.names("devices").into_iter().filter(|n| n.starts_with("pci"));
    let mut open: Vec<(String, usize)> = roots.map(|n| (n, 0)).collect();
    while let Some((path, depth)) = open.pop() {
        for name in sys.names(&format!("devices/{path}")) {
            let inner = format!("{path}/{name}");
            let Some(own) = address(&name) else { continue };
            if depth >= MAX_DEPTH || found.len() >= MAX_ENTRIES || sys.link(&format!("devices/{inner}")).is_some() {
                continue;
            }
            found.insert(own, inner.clone());
            open.push((inner, depth + 1));
        }
    }
    found
}

/// The PCI function that an entry of `/sys/class` belongs to.
fn owner(sys: &dyn Tree, entry: &str) -> Option<PciAddress> {
    let device = format!("{entry}/device");
    let links = [sys.link(entry), sys.link(&device)];
    links.iter().flatten().find_map(|l| function_of(l)).or_else(|| {
        let uevent = table(sys, &device, "uevent")?;
        uevent.lines().find_map(|l| l.strip_prefix("PCI_SLOT_NAME=")).and_then(address)
    })
}

/// RDMA and network devices, added to their functions.
fn os_devices(sys: &dyn Tree, functions: &mut [(Function, bool)]) {
    let at: HashMap<PciAddress, usize> =
        functions.iter().enumerate().filter_map(|(i, f)| Some((f.0.device.address?, i))).collect();
    let mut add = |entry: &str, devices: Vec<OsDevice>| {
        let function = owner(sys, entry).and_then(|a| functions.get_mut(*at.get(&a)?));
        if let Some((function, _)) = function {
            function.device.os_devices.extend(devices);
        }
    };
    for name in sys.names("class/infiniband") {
        let entry = format!("class/infiniband/{name}");
        let ports: Vec<String> = sys.names(&format!("{entry}/ports"));
        let mut devices: Vec<OsDevice> = ports.iter().map(|p| rdma_port(sys, &entry, &name, p)).collect();
        if devices.is_empty() {
            devices.push(OsDevice { name, rdma: true, ..OsDevice::default() });
        }
        // one that software makes of a network device is on no bus, and the rate that it reports means nothing
        match attribute(sys, &entry, "parent").filter(|_| owner(sys, &entry).is_none()) {
            Some(parent) if !parent.contains('/') => {
                devices.iter_mut().for_each(|device| device.gigabits = None);
                add(&format!("class/net/{parent}"), devices);
            }
            _ => add(&entry, devices),
        }
    }
    for name in sys.names("class/net") {
        let entry = format!("class/net/{name}");
        // Mb/s; -1 without a link, and unreadable while the interface is down
        let megabits =
            attribute(sys, &entry, "speed").and_then(|s| s.parse::<f64>().ok()).filter(|s| *s != 0.0 && *s != -1.0);
        let note = attribute(sys, &entry, "operstate");
        let down = note.as_deref() == Some("down");
        add(&entry, vec![OsDevice { name, rdma: false, gigabits: megabits.map(|m| m / 1000.0), down, note }]);
    }
}

fn rdma_port(sys: &dyn Tree, entry: &str, name: &str, port: &str) -> OsDevice {
    let folder = format!("{entry}/ports/{port}");
    // "200 Gb/sec (4X HDR)", "4: ACTIVE", "InfiniBand"
    let rate = attribute(sys, &folder, "rate").and_then(|r| r.split(' ').next()?.parse().ok());
    let state = attribute(sys, &folder, "state").and_then(|s| Some(s.split_once(": ")?.1.to_owned()));
    let down = state.as_deref().is_some_and(|s| s.eq_ignore_ascii_case("down"));
    let layer = attribute(sys, &folder, "link_layer");
    let words: Vec<String> = [Some(format!("port {port}")), state, layer].into_iter().flatten().collect();
    OsDevice { name: name.to_owned(), rdma: true, gigabits: rate, down, note: Some(words.join(" ")) }
}

/// Product names that NVIDIA's driver gives.
fn gpu_names(proc: &dyn Tree, functions: &mut [(Function, bool)]) {
    for (function, _) in functions.iter_mut().filter(|f| f.0.device.is_gpu()) {
        let Some(address) = function.device.address else { continue };
        let folder = format!("driver/nvidia/gpus/{address}");
        let information = table(proc, &folder, "information").unwrap_or_default();
        let model = information.lines().find_map(|l| l.strip_prefix("Model:"));
        function.device.name = model.map(|m| one_line(m.trim()).into_owned());
    }
}

fn host(sys: &dyn Tree, proc: &dyn Tree) -> HostFacts {
    let mut host = HostFacts {
        product: attribute(sys, "class/dmi/id", "product_name"),
        name: attribute(proc, "sys/kernel", "hostname"),
        ..HostFacts::default()
    };
    for name in sys.names("devices/system/node") {
        let Some(id) = name.strip_prefix("node").and_then(|n| n.parse().ok()) else { continue };
        let node = format!("devices/system/node/{name}");
        let cpus = cpus(sys, &node, "cpulist", "cpumap");
        let first = cpus.as_ref().and_then(|c| c.ranges().first().map(|r| r.0));
        let topology = |cpu| format!("devices/system/cpu/cpu{cpu}/topology");
        host.numa.push(NumaNode {
            id,
            cpus,
            memory: table(sys, &node, "meminfo").as_deref().and_then(mem_total),
            package: first.and_then(|c| attribute(sys, &topology(c), "physical_package_id")?.parse().ok()),
        });
    }
    host.numa.sort_by_key(|n| n.id);
    host
}

/// `Node 0 MemTotal:       131841560 kB`, in KiB.
fn mem_total(meminfo: &str) -> Option<Bytes> {
    let value = meminfo.lines().find_map(|l| l.split_once("MemTotal:")).map(|(_, v)| v)?;
    let kib: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024).map(Bytes)
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use super::*;

    /// A folder that goes when the test ends.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("peerlane-sysfs-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Scratch(path)
        }

        fn write(&self, file: &str, content: &str) {
            let path = self.0.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }

        fn function(&self, folder: &str, class: &str, vendor: &str) {
            for (name, value) in [("class", class), ("vendor", vendor), ("device", "0x1234"), ("numa_node", "-1")] {
                self.write(&format!("{folder}/{name}"), value);
            }
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn pci(found: &Found) -> &PciTree {
        match &found.evidence[0].fact {
            Fact::Pci(tree) => tree,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn links_make_the_tree() {
        let root = Scratch::new("links");
        let port = "sys/devices/pci0000:00/0000:00:03.0";
        let (gpu, nic) = (format!("{port}/0000:02:00.0"), format!("{port}/0000:02:00.1"));
        root.function(port, "0x060400", "0x8086");
        root.function(&gpu, "0x030200", "0x10de");
        root.function(&nic, "0x020700", "0x15b3");
        root.write(&format!("{gpu}/current_link_speed"), "8.0 GT/s PCIe\n");
        root.write(&format!("{gpu}/current_link_width"), "8\n");
        root.write(&format!("{gpu}/numa_node"), "1\n");
        root.write(&format!("{gpu}/local_cpulist"), "8-15\n");
        root.write(
            &format!("{gpu}/resource"),
            "0x00000000b4000000 0x00000000b4ffffff 0x0000000000040200\n0x0000013000000000 0x0000013fffffffff 0x000000000014220c\n",
        );
        root.write(&format!("{nic}/infiniband/mlx5_0/ports/1/rate"), "200 Gb/sec (4X HDR)\n");
        root.write(&format!("{nic}/infiniband/mlx5_0/ports/1/state"), "4: ACTIVE\n");
        root.write(&format!("{nic}/infiniband/mlx5_0/ports/1/link_layer"), "InfiniBand\n");
        root.write("sys/devices/system/node/node1/cpulist", "8-15\n");
        root.write("sys/devices/system/node/node1/distance", "21 10\n");
        root.write("sys/devices/system/node/node1/meminfo", "Node 1 MemTotal:       1024 kB\n");
        root.write("sys/devices/system/node/node255/cpulist", "\n");
        root.write("sys/devices/system/cpu/cpu8/topology/physical_package_id", "1\n");
        root.write("proc/driver/nvidia/gpus/0000:02:00.0/information", "Model: \t\t A GPU\nIRQ: 1\n");
        for folder in ["sys/bus/pci/devices", "sys/class/infiniband"] {
            fs::create_dir_all(root.0.join(folder)).unwrap();
        }
        for folder in [port, &gpu, &nic] {
            let name = folder.rsplit('/').next().unwrap();
            let target = format!("../../../{}", folder.trim_start_matches("sys/"));
            symlink(target, root.0.join("sys/bus/pci/devices").join(name)).unwrap();
        }
        let target = format!("../../{}/infiniband/mlx5_0", nic.trim_start_matches("sys/"));
        symlink(target, root.0.join("sys/class/infiniband/mlx5_0")).unwrap();

        assert!(is_root(&root.0) && is_root(&root.0.join("sys")));
        let found = read(&root.0).unwrap();
        let tree = pci(&found);
        let [top, bridge, gpu, nic] = &tree.devices[..] else { panic!("{tree:?}") };
        assert_eq!(
            (top.role, bridge.role, gpu.parent, nic.parent),
            (PciRole::HostBridge, PciRole::Bridge, Some(1), Some(1))
        );
        assert_eq!((gpu.running.to_string(), gpu.numa, gpu.bar_bytes), ("3.0 x8".to_owned(), Some(1), Some(64 << 30)));
        assert_eq!((gpu.name.as_deref(), nic.numa), (Some("A GPU"), None));
        let port = &nic.os_devices[0];
        assert_eq!(
            (port.rdma, port.gigabits, port.note.as_deref()),
            (true, Some(200.0), Some("port 1 ACTIVE InfiniBand"))
        );
        let Fact::Host(host) = &found.evidence[1].fact else { panic!() };
        assert_eq!(host.numa[1].cpus, Some(CpuList::default()));
        let node = &host.numa[0];
        assert_eq!((node.id, node.package, node.memory), (1, Some(1), Some(Bytes(1 << 20))));
        assert_eq!(found.evidence[0].origin.lines, None);
    }

    #[test]
    fn an_adapter_made_by_software_is_that_of_its_network_device() {
        let root = Scratch::new("rxe");
        let nic = "sys/devices/pci0000:00/0000:00:03.0";
        root.function(nic, "0x020000", "0x1af4");
        root.write(&format!("{nic}/virtio0/net/eth0/speed"), "-1\n");
        let rxe = "sys/devices/virtual/infiniband/rxe0";
        root.write(&format!("{rxe}/parent"), "eth0\n");
        root.write(&format!("{rxe}/ports/1/rate"), "2.5 Gb/sec (1X SDR)\n");
        root.write(&format!("{rxe}/ports/1/state"), "4: ACTIVE\n");
        let links = [
            ("sys/bus/pci/devices/0000:00:03.0", "../../../devices/pci0000:00/0000:00:03.0"),
            ("sys/class/infiniband/rxe0", "../../devices/virtual/infiniband/rxe0"),
            ("sys/class/net/eth0", "../../devices/pci0000:00/0000:00:03.0/virtio0/net/eth0"),
        ];
        for (link, target) in links {
            let link = root.0.join(link);
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(target, link).unwrap();
        }
        let found = read(&root.0).unwrap();
        let devices = pci(&found).devices.last().unwrap().os_devices.clone();
        let names: Vec<(&str, bool, Option<f64>)> =
            devices.iter().map(|d| (d.name.as_str(), d.rdma, d.gigabits)).collect();
        // the rate that it reports means nothing
        assert_eq!(names, [("rxe0", true, None), ("eth0", false, None)]);
    }

    #[test]
    fn a_capture_without_the_bus_and_with_masks() {
        let root = Scratch::new("masks");
        root.function("host1/sys/devices/pci0000:00/0000:00:03.0/0000:02:00.0", "0x030200", "0x10de");
        root.write("host1/sys/devices/system/node/node0/cpumap", "00000000,0000000f\n");
        let tops = super::super::read_path(&root.0).unwrap();
        let devices = &pci(&tops).devices;
        assert_eq!(devices.iter().map(|d| d.parent).collect::<Vec<_>>(), [None, Some(0), Some(1)]);
        let Fact::Host(host) = &tops.evidence[1].fact else { panic!() };
        assert_eq!(host.numa[0].cpus.as_ref().map(ToString::to_string).as_deref(), Some("0-3"));
    }

    #[test]
    fn a_copy_without_links_is_walked() {
        let root = Scratch::new("copy");
        for base in ["bus/pci/devices", "devices/pci0000:00/0000:00:03.0"] {
            root.function(&format!("{base}/0000:02:00.0"), "0x030200", "0x10de");
        }
        root.write("bus/pci/devices/0000:02:00.0/uevent", "PCI_SLOT_NAME=0000:02:00.0\n");
        let mut header = vec![0_u8; 64];
        header[6] = 0x10;
        fs::write(root.0.join("bus/pci/devices/0000:02:00.0/config"), header).unwrap();
        root.write("class/net/eth0/device/uevent", "DRIVER=x\nPCI_SLOT_NAME=0000:02:00.0\n");
        root.write("class/net/eth0/speed", "100000\n");
        let found = read(&root.0).unwrap();
        let tree = pci(&found);
        assert_eq!(tree.devices.iter().map(|d| d.parent).collect::<Vec<_>>(), [None, Some(0), Some(1)]);
        assert_eq!(tree.devices[2].os_devices[0].gigabits, Some(100.0));
        assert!(found.warnings[0].message.contains("root"));
    }
}
