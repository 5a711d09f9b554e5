//! A snapshot of NVML gives the machine that `nvidia-smi`'s texts give.

use std::path::Path;

use peerlane::assemble::assemble;
use peerlane::evidence::nvml::{Ancestor, Gpu, Nvlink, P2p, Pair, Pcie, RemoteKind, SCHEMA, Share, Snapshot};
use peerlane::evidence::{Text, read_path, scan_text};
use peerlane::fabric::{PcieGeneration, PcieWidth};
use peerlane::machine::Machine;
use peerlane::units::Bytes;

/// What NVML tells on the machine of `captures/h200x2-vm`.
fn h200x2() -> Snapshot {
    let width = PcieWidth::new(PcieGeneration::Gen5, 16);
    let link = |link: u8| Nvlink {
        link,
        active: Some(true),
        version: Some(6),
        megabytes_per_second: Some(26_562),
        remote: Some(RemoteKind::Switch),
        remote_bus_id: Some("FFFFFFFF:FF:FF.0".to_owned()),
        ..Nvlink::default()
    };
    let gpu = |index: u32| Gpu {
        index,
        name: Some("NVIDIA H200".to_owned()),
        address: format!("00000000:00:0{}.0", 6 + index).parse().ok(),
        memory: Some(Share { total: Bytes::from_mib(143_771), used: Bytes(0) }),
        pcie: Pcie { running: width, allowed: width, capable: width, replays: Some(0), ..Pcie::default() },
        nvlinks: (0..18).map(link).collect(),
        cpus: "0-31".parse().ok(),
        numa: "0".parse().ok(),
        ..Gpu::default()
    };
    let ok = || Some("OK".to_owned());
    let p2p = || P2p { read: ok(), write: ok(), nvlink: ok(), atomics: ok(), prop: Some("NS".to_owned()) };
    let pair = |from, to| Pair { from, to, ancestor: Some(Ancestor::HostBridge), p2p: p2p() };
    Snapshot {
        schema: SCHEMA.to_owned(),
        driver: Some("580.159.04".to_owned()),
        gpus: vec![gpu(0), gpu(1)],
        pairs: vec![pair(0, 1), pair(1, 0)],
        ..Snapshot::default()
    }
}

fn of_snapshot(snapshot: &Snapshot) -> Machine {
    let text = serde_json::to_string_pretty(snapshot).unwrap();
    let mut machines = assemble(scan_text(&Text::new("nvml.json", text.as_bytes())));
    assert_eq!(machines.len(), 1);
    machines.remove(0)
}

fn of_texts() -> Machine {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures/h200x2-vm");
    let mut found = peerlane::evidence::Found::default();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap().to_string_lossy().starts_with("nvidia-smi") {
            found.append(read_path(&path).unwrap());
        }
    }
    let mut machines = assemble(found);
    assert_eq!(machines.len(), 1);
    machines.remove(0)
}

/// Nodes, links and classes as text, without where they are from.
fn shape(machine: &Machine) -> Vec<String> {
    let fabric = &machine.fabric;
    let name = |id| fabric.node(id).name.as_str();
    let nodes = fabric.nodes().iter().map(|n| format!("{} {:?} {:?} {:?}", n.name, n.kind, n.part, n.address));
    let links = fabric.links().iter().map(|l| format!("{}-{} {:?}", name(l.a), name(l.b), l.kind));
    let ids: Vec<_> = fabric.of_kind(peerlane::fabric::NodeKind::Gpu).collect();
    let pairs = ids.iter().flat_map(|a| ids.iter().map(move |b| (*a, *b)));
    let classes = pairs.clone().map(|(a, b)| format!("{}-{} {:?}", name(a), name(b), fabric.class(a, b)));
    let p2p = pairs.map(|(a, b)| format!("{}-{} {:?}", name(a), name(b), machine.p2p.get(&(a, b))));
    let mut all: Vec<String> = nodes.chain(links).chain(classes).chain(p2p).collect();
    all.sort();
    all
}

#[test]
fn the_machine_is_that_of_the_texts() {
    let mut snapshot = h200x2();
    // nvidia-smi shows no PCIe class under NVLinks
    snapshot.pairs.iter_mut().for_each(|p| p.ancestor = None);
    let (ours, theirs) = (of_snapshot(&snapshot), of_texts());
    assert_eq!(shape(&ours), shape(&theirs));
    assert!(ours.contradictions.is_empty(), "{:?}", ours.contradictions);
    let nvswitch = ours.fabric.of_kind(peerlane::fabric::NodeKind::NvSwitch).count();
    assert_eq!(nvswitch, 1, "a hidden one");
}

#[test]
fn with_the_texts_beside_it_it_is_one_machine() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures/h200x2-vm");
    let mut found = read_path(&folder).unwrap();
    let text = serde_json::to_string(&h200x2()).unwrap();
    found.append(scan_text(&Text::new("nvml.json", text.as_bytes())));
    let machines = assemble(found);
    assert_eq!(machines.len(), 1, "{:?}", machines.iter().map(|m| &m.name).collect::<Vec<_>>());
    assert!(machines[0].contradictions.is_empty(), "{:?}", machines[0].contradictions);
}

#[test]
fn what_lies_below_the_nvlinks_is_known_too() {
    let machine = of_snapshot(&h200x2());
    let ids: Vec<_> = machine.fabric.of_kind(peerlane::fabric::NodeKind::Gpu).collect();
    let root = |id| machine.fabric.upstream(id).map(|(_, above)| machine.fabric.node(above).name.clone());
    assert!(root(ids[0]).is_some() && root(ids[0]) == root(ids[1]), "PHB: one host bridge");
    assert_eq!(machine.fabric.class(ids[0], ids[1]).unwrap().to_string(), "NV18");
}
