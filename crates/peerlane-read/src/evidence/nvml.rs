//! What NVML reports, as the JSON document that live discovery writes: see [`Snapshot`].

mod snapshot;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

pub use snapshot::{
    Absent, Ancestor, FabricState, Gpu, Modes, Now, Nvlink, NvlinkErrors, P2p, Pair, Pcie, Process, RemoteKind, SCHEMA,
    Share, Snapshot,
};

use super::json;
use super::limits::MAX_DEVICES;
use super::nvidia_smi_nvlink::far_end;
use super::nvidia_smi_topo_p2p::status;
use super::{ClassMatrix, Fact, Found, GpuFacts, NvlinkEnd, NvlinkPort, P2pCapability, P2pMatrix, P2pStatus, Text};
use peerlane_machine::fabric::PathClass;
use peerlane_machine::units::Rate;

const TOOL: &str = super::tool::NVML;

/// The schema's name up to its number.
const NAMES_IT: &str = "\"peerlane/nvml/";

/// Class codes of what NVLinks lead to: NVSwitch, and the bridge of a POWER processor.
const NVSWITCH_CLASS: u32 = 0x06_8000;
const NPU_CLASS: u32 = 0x06_8001;

pub(super) fn scan(text: &Text, found: &mut Found) {
    json::documents(text, "schema", NAMES_IT, |lines, read| match read {
        Ok(snapshot) => take(text, lines, snapshot, found),
        Err(error) => found.warn(text, TOOL, lines, format!("the snapshot cannot be read: {error}")),
    });
}

fn take(text: &Text, lines: (u32, u32), mut snapshot: Snapshot, found: &mut Found) {
    if snapshot.schema != SCHEMA {
        let message =
            format!("it is a {} document, of another version than {SCHEMA}; nothing of it is read", snapshot.schema);
        found.warn(text, TOOL, lines, message);
        return;
    }
    let all = snapshot.gpus.len();
    snapshot.gpus.sort_by_key(|gpu| gpu.index);
    snapshot.gpus.dedup_by_key(|gpu| gpu.index);
    if snapshot.gpus.len() < all {
        found.warn(text, TOOL, lines, "two GPUs have one number; the first is used");
    }
    // matrices grow with the square
    snapshot.gpus.truncate(MAX_DEVICES);
    for message in warnings(&snapshot) {
        found.warn(text, TOOL, lines, message);
    }
    for fact in facts(&snapshot) {
        found.push(text, TOOL, lines, fact);
    }
}

/// What a person should know that no fact carries.
fn warnings(snapshot: &Snapshot) -> Vec<String> {
    let names = |with: &dyn Fn(&Gpu) -> bool| -> Vec<String> {
        snapshot.gpus.iter().filter(|g| with(g)).map(|g| format!("GPU{}", g.index)).collect()
    };
    let warn = |gpus: Vec<String>, what: &str| (!gpus.is_empty()).then(|| format!("{}: {what}", gpus.join(", ")));
    let prohibited = |g: &Gpu| g.modes.compute.as_deref() == Some("Prohibited");
    [
        warn(names(&|g| g.modes.mig == Some(true)), "MIG is on: its instances cannot reach other GPUs directly"),
        warn(names(&prohibited), "its compute mode prohibits computing (nvidia-smi -c 0)"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What the snapshot states, as the facts that other sources give.
fn facts(snapshot: &Snapshot) -> Vec<Fact> {
    if snapshot.gpus.is_empty() {
        return Vec::new();
    }
    let names: Vec<String> = snapshot.gpus.iter().map(|g| format!("GPU{}", g.index)).collect();
    let place: HashMap<u32, usize> = snapshot.gpus.iter().enumerate().map(|(i, g)| (g.index, i)).collect();
    let mut pairs = vec![vec![None; names.len()]; names.len()];
    for pair in &snapshot.pairs {
        if let Some((from, to)) = place.get(&pair.from).zip(place.get(&pair.to)).filter(|(a, b)| a != b) {
            pairs[*from][*to] = Some(pair);
        }
    }
    let mut all = vec![Fact::Gpus(snapshot.gpus.iter().map(|gpu| gpu_facts(gpu, snapshot)).collect())];
    let ports: Vec<NvlinkPort> =
        snapshot.gpus.iter().flat_map(|gpu| gpu.nvlinks.iter().map(|link| port(gpu.index, link))).collect();
    if !ports.is_empty() {
        all.push(Fact::Nvlink(ports));
    }
    let pcie = class_matrix(snapshot, &names, |a, b| ancestor(&pairs, a, b));
    let class = |a: usize, b: usize| match nvlinks(snapshot, &pairs, a, b) {
        0 => ancestor(&pairs, a, b),
        n => Some(PathClass::nvlink(n)),
    };
    let both = class_matrix(snapshot, &names, class);
    let has_pcie = pcie.cells.iter().flatten().any(|c| c.is_some_and(PathClass::is_pcie));
    let differ = both.cells != pcie.cells;
    all.push(Fact::Classes(both));
    for (capability, of) in CAPABILITIES {
        let state = |pair: &Option<&Pair>| pair.and_then(|p| status(of(&p.p2p).as_deref()?));
        let cells: Vec<Vec<Option<P2pStatus>>> = pairs.iter().map(|row| row.iter().map(state).collect()).collect();
        if cells.iter().flatten().any(Option::is_some) {
            all.push(Fact::P2p(P2pMatrix { capability, rows: names.clone(), cols: names.clone(), cells }));
        }
    }
    // as `topo -mp` shows in addition to `topo -m`: what lies below the NVLinks; the addresses show that it is the same machine
    if differ && has_pcie && snapshot.gpus.iter().all(|g| g.address.is_some()) {
        let of = |g: &Gpu| GpuFacts { index: Some(g.index), address: g.address, ..GpuFacts::default() };
        all.push(Fact::Gpus(snapshot.gpus.iter().map(of).collect()));
        all.push(Fact::Classes(pcie));
    }
    all
}

type Of = fn(&P2p) -> &Option<String>;

const CAPABILITIES: [(P2pCapability, Of); 5] = [
    (P2pCapability::Read, |p| &p.read),
    (P2pCapability::Write, |p| &p.write),
    (P2pCapability::Nvlink, |p| &p.nvlink),
    (P2pCapability::Atomics, |p| &p.atomics),
    (P2pCapability::Prop, |p| &p.prop),
];

/// NVML's error where it gives no access to a GPU, or lost it on the way.
fn unreachable(gpu: &Gpu, snapshot: &Snapshot) -> Option<String> {
    let of_gpu = |absent: &&Absent| absent.gpus.contains(&gpu.index);
    let hides = |absent: &&Absent| absent.field == "handle" || absent.error.contains("is lost");
    snapshot.absent.iter().filter(of_gpu).find(hides).map(|absent| absent.error.clone())
}

type Pairs<'a> = [Vec<Option<&'a Pair>>];

fn gpu_facts(gpu: &Gpu, snapshot: &Snapshot) -> GpuFacts {
    // what every GPU without a fabric reports is no statement about one
    let fabric = gpu.fabric.as_ref().map(|f| f.state.clone()).filter(|state| state != "Not Supported");
    GpuFacts {
        index: Some(gpu.index),
        name: gpu.name.clone(),
        address: gpu.address,
        uuid: gpu.uuid.clone(),
        running: gpu.pcie.running,
        allowed: gpu.pcie.allowed,
        capable: gpu.pcie.capable,
        temperature: gpu.now.temperature_c,
        power: gpu.now.power_w,
        power_limit: gpu.now.power_limit_w,
        utilization: gpu.now.utilization.map(f64::from),
        memory: gpu.memory.map(|m| m.total),
        bar1: gpu.bar1.map(|m| m.total),
        compute_capability: gpu.compute_capability,
        mig: gpu.modes.mig,
        clock_event_reasons: gpu.now.clock_event_reasons.clone().unwrap_or_default(),
        replays: gpu.pcie.replays,
        fabric_state: fabric,
        driver: snapshot.driver.clone(),
        unreachable: unreachable(gpu, snapshot),
        ..GpuFacts::default()
    }
}

fn port(gpu: u32, link: &Nvlink) -> NvlinkPort {
    let active = link.active == Some(true);
    let end = link.remote_bus_id.as_deref().and_then(far_end);
    // an NVSwitch that has no address here is hidden as much as one of all ones
    let unaddressed = matches!(link.remote, Some(RemoteKind::Switch)).then_some(NvlinkEnd::Hidden);
    NvlinkPort {
        gpu: Some(gpu),
        port: Some(link.link),
        active,
        rate: link.megabytes_per_second.filter(|_| active).map(|mb| Rate::from_bytes_per_second(mb as f64 * 1e6)),
        remote: end.or(unaddressed).filter(|_| active),
        remote_class: match link.remote {
            Some(RemoteKind::Switch) => Some(NVSWITCH_CLASS),
            Some(RemoteKind::Npu) => Some(NPU_CLASS),
            Some(RemoteKind::Gpu | RemoteKind::Unknown) | None => None,
        },
        ..NvlinkPort::default()
    }
}

fn class_matrix(
    snapshot: &Snapshot,
    names: &[String],
    class: impl Fn(usize, usize) -> Option<PathClass>,
) -> ClassMatrix {
    let count = names.len();
    let cell = |a: usize, b: usize| if a == b { Some(PathClass::Same) } else { class(a, b) };
    ClassMatrix {
        rows: names.to_vec(),
        cols: names.to_vec(),
        cells: (0..count).map(|a| (0..count).map(|b| cell(a, b)).collect()).collect(),
        cpu_affinity: snapshot.gpus.iter().map(|g| g.cpus.clone().filter(|c| !c.is_empty())).collect(),
        numa_affinity: snapshot.gpus.iter().map(|g| g.numa.clone().filter(|n| !n.is_empty())).collect(),
        gpu_numa: snapshot.gpus.iter().map(|g| g.memory_numa).collect(),
        ..ClassMatrix::default()
    }
}

/// The PCIe class of a pair, which is the same both ways.
fn ancestor(pairs: &Pairs, a: usize, b: usize) -> Option<PathClass> {
    let stated = |a: usize, b: usize| pairs[a][b].and_then(|p| p.ancestor);
    Some(match stated(a, b).or_else(|| stated(b, a))? {
        // a board with two GPUs joins them by its own switch; `nvidia-smi` has no other word for it
        Ancestor::Internal | Ancestor::Single => PathClass::Pix,
        Ancestor::Multiple => PathClass::Pxb,
        Ancestor::HostBridge => PathClass::Phb,
        Ancestor::Node => PathClass::Node,
        Ancestor::System => PathClass::Sys,
    })
}

/// How many NVLinks join two GPUs: those that lead from one to the other; else, where both have links to
/// NVSwitches and NVML does not deny that they meet there, the fewer of these.
fn nvlinks(snapshot: &Snapshot, pairs: &Pairs, a: usize, b: usize) -> u8 {
    let count = |links: usize| u8::try_from(links).unwrap_or(u8::MAX);
    let ends = |gpu: usize| {
        let up = snapshot.gpus[gpu].nvlinks.iter().filter(|l| l.active == Some(true));
        up.filter_map(|l| Some((l.remote, port(0, l).remote?)))
    };
    let direct = |from: usize, to: usize| {
        let address = snapshot.gpus[to].address.map(NvlinkEnd::Device);
        ends(from).filter(|(_, end)| address.as_ref() == Some(end)).count()
    };
    let joined = direct(a, b).max(direct(b, a));
    if joined > 0 {
        return count(joined);
    }
    let switched = |gpu: usize| {
        let to_switch = |(kind, end): &(Option<RemoteKind>, NvlinkEnd)| match kind {
            Some(RemoteKind::Switch) => true,
            Some(RemoteKind::Gpu | RemoteKind::Npu) => false,
            Some(RemoteKind::Unknown) | None => *end == NvlinkEnd::Hidden,
        };
        ends(gpu).filter(to_switch).count()
    };
    let denied = |a: usize, b: usize| {
        let state = pairs[a][b].and_then(|p| status(p.p2p.nvlink.as_deref()?));
        state.is_some_and(|s| !matches!(s, P2pStatus::Ok | P2pStatus::Unknown))
    };
    if denied(a, b) || denied(b, a) { 0 } else { count(switched(a).min(switched(b))) }
}
