//! What each reading counts: the one place that decides which of several is used, and which cannot be so.

use crate::catalogue::{Part, Parts, exceeds};
use peerlane_machine::fabric::{
    CpuVendor, Fabric, FabricError, LinkId, LinkKind, NodeId, NodeKind, PcieGeneration, PcieWidth,
};
use peerlane_machine::fact::{Evidence, Fact, GpuFacts, IommuDomain, KernelFacts, OsDevice, RdmaPort};
use peerlane_machine::machine::reading::{Doubt, Doubted, Quantity, Reading, Standing};
use peerlane_machine::origin::Origin;
use peerlane_machine::subject::Subject;

use super::device::Device;
use super::inventory::Inventory;

/// No design gives a switch less than a sixth of what one of its devices runs at: x4 above x16 is a quarter.
const FAR_BELOW: f64 = 6.0;

/// What devices run at where a switch above them with a fraction of it is misread, not slow, even if it is the only one: PCIe
/// 5.0 x16, in GB/s. Servers with such links have had no switch with an uplink of a sixth of that.
const MODERN: f64 = 60.0;

/// Percentage of utilisation from which on a GPU is busy.
const BUSY: f64 = 10.0;

/// Whether the lanes that a GPU's link ran with may be those of an idle link: from PCIe 6.0 on links drop lanes while idle (L0p),
/// and so do those of GPUs whose data goes over NVLink-C2C.
pub fn may_be_idle(gpu: &GpuFacts) -> bool {
    let busy = gpu.utilization.is_some_and(|share| share >= BUSY);
    !busy && (gpu.c2c == Some(true) || drops_lanes(gpu.allowed.generation.max(gpu.capable.generation)))
}

/// Whether a link of what can do this drops lanes while it is idle (L0p).
pub fn drops_lanes(most: Option<PcieGeneration>) -> bool {
    most >= Some(PcieGeneration::Gen6)
}

/// What the IOMMU does. That it is off, by command line or log, or that a command line asks for passthrough, is explicit: the
/// kernel logs a default type of domain all the same. The logged type is generic; that a command line turns it on counts less.
pub fn iommu(evidence: &[Evidence], vendor: Option<CpuVendor>) -> Option<Reading<IommuDomain>> {
    let kernels = || {
        evidence.iter().filter_map(|e| match &e.fact {
            Fact::Kernel(kernel) => Some((kernel, &e.origin)),
            _ => None,
        })
    };
    let readings = kernels().flat_map(|(kernel, origin)| {
        let reading = |value, standing| Reading { value, standing, origin: origin.clone() };
        let off = turned_off(kernel, vendor).then(|| reading(IommuDomain::Off, Standing::Explicit));
        let logged = kernel.iommu.map(|domain| reading(domain, Standing::Generic));
        let asked = asked(kernel).map(|domain| {
            let passes = domain == IommuDomain::Passthrough;
            reading(domain, if passes { Standing::Explicit } else { Standing::Requested })
        });
        [off, logged, asked].into_iter().flatten()
    });
    Reading::best(readings)
}

fn turned_off(kernel: &KernelFacts, vendor: Option<CpuVendor>) -> bool {
    // one driver's switch does not affect the other's hardware
    let off = kernel.parameters.iter().any(|p| match p.as_str() {
        "iommu=off" => true,
        "intel_iommu=off" => vendor != Some(CpuVendor::Amd),
        "amd_iommu=off" => vendor != Some(CpuVendor::Intel),
        _ => false,
    });
    kernel.iommu_disabled || off
}

/// What a command line requests of an IOMMU that is on.
fn asked(kernel: &KernelFacts) -> Option<IommuDomain> {
    let has = |words: &[&str]| kernel.parameters.iter().any(|p| words.contains(&p.as_str()));
    let passes = has(&["iommu.passthrough=1"])
        || kernel.parameters.iter().any(|p| p.strip_prefix("iommu=").is_some_and(|v| v.split(',').any(|w| w == "pt")));
    let starts = |word: &str| kernel.parameters.iter().any(|p| p.starts_with(word));
    let on = starts("intel_iommu=on")
        || starts("amd_iommu=on")
        || has(&["iommu=on", "iommu=force", "iommu.passthrough=0", "iommu=nopt"]);
    if passes { Some(IommuDomain::Passthrough) } else { on.then_some(IommuDomain::Translated) }
}

/// Gives every NIC the line rate that its port states, which beats its product's; those of ports that are down are doubted.
pub(super) fn line_rates(all: &mut Inventory, evidence: &[Evidence]) -> Vec<Doubted> {
    let mut doubted = Vec::new();
    let mut rates = Vec::new();
    for device in all.devices.iter().filter(|d| !d.gpu) {
        let readings = of_tools(device, evidence).into_iter().chain(of_listings(device, all));
        let readings: Vec<Reading<f64>> = readings.collect();
        let used = Reading::best(readings.iter().cloned());
        // what is known of a port that is up is no news of it while it was down
        let down = readings.into_iter().next().filter(|_| used.is_none());
        doubted.extend(down.map(|reading| Doubted {
            subjects: Subject::nodes_of([&device.name]),
            reading: Quantity::LineRate(reading.value),
            doubt: Doubt::PortDown,
            origin: Some(reading.origin),
        }));
        rates.push(used.map(|reading| reading.value));
    }
    for (device, rate) in all.devices.iter_mut().filter(|d| !d.gpu).zip(rates) {
        device.line_rate = rate;
    }
    doubted
}

fn stated(gigabits: f64, is_down: bool, origin: &Origin) -> Reading<f64> {
    let standing = if is_down { Standing::Implausible(Doubt::PortDown) } else { Standing::Explicit };
    Reading { value: gigabits, standing, origin: origin.clone() }
}

/// What `ibstat` and its like report; of a card with several ports under one name, the fastest that is up.
fn of_tools(device: &Device, evidence: &[Evidence]) -> Vec<Reading<f64>> {
    let is_it = |port: &&RdmaPort| port.device == device.name || device.aliases.contains(&port.device);
    let mut readings = Vec::new();
    for one in evidence {
        let Fact::RdmaPorts(ports) = &one.fact else { continue };
        let is_down = |port: &RdmaPort| port.state.as_deref().is_some_and(|state| state != "active");
        readings.extend(ports.iter().filter(is_it).filter_map(|p| Some(stated(p.gigabits?, is_down(p), &one.origin))));
    }
    readings.sort_by(|a, b| b.value.total_cmp(&a.value));
    readings
}

/// What sysfs and NCCL's XML report of the interfaces of its function.
fn of_listings(device: &Device, all: &Inventory) -> Vec<Reading<f64>> {
    let Some(address) = device.facts.address else { return Vec::new() };
    let functions = all.trees.iter().flat_map(|(tree, origin)| tree.devices.iter().map(move |d| (d, origin)));
    let own = functions.filter(|(d, _)| d.address == Some(address));
    let of = |os: &OsDevice, origin: &Origin| Some(stated(os.gigabits?, os.down, origin));
    own.flat_map(|(d, origin)| d.os_devices.iter().filter_map(move |os| of(os, origin))).collect()
}

/// The fabric without widths that cannot be so, and these.
pub(super) fn without_doubted(fabric: Fabric, all: &Inventory) -> Result<(Fabric, Vec<Doubted>), FabricError> {
    let mut found = implausible(&fabric);
    found.extend(idle(&fabric, all));
    if found.is_empty() {
        return Ok((fabric, Vec::new()));
    }
    let mut doubted: Vec<Doubted> = Vec::new();
    let names: Vec<(String, Option<Origin>)> = found
        .iter()
        .map(|(id, ..)| (fabric.node(fabric.link(*id).b).name.clone(), fabric.link(*id).origins.first().cloned()))
        .collect();
    let mut builder = fabric.into_builder();
    for ((id, reading, doubt), (name, origin)) in found.into_iter().zip(names) {
        let link = builder.link_mut(id);
        if let LinkKind::Pcie { running, allowed, .. } = &mut link.kind {
            match reading {
                Quantity::Allowed(_) => *allowed = PcieWidth::default(),
                _ => *running = PcieWidth::default(),
            }
        }
        link.note = Some(format!("{reading} is read and not used: {doubt}"));
        let alike = doubted.iter_mut().find(|d| (d.reading, &d.doubt) == (reading, &doubt));
        match alike {
            Some(known) => known.subjects.push(Subject::Node(name)),
            None => doubted.push(Doubted { subjects: Subject::nodes_of([name]), reading, doubt, origin }),
        }
    }
    Ok((builder.build()?, doubted))
}

fn implausible(fabric: &Fabric) -> Vec<(LinkId, Quantity, Doubt)> {
    let parts = Parts::embedded();
    let mut found = Vec::new();
    for (id, link) in fabric.link_ids().map(|id| (id, fabric.link(id))) {
        let LinkKind::Pcie { running, allowed, .. } = link.kind else { continue };
        let part = fabric.node(link.b).part.as_deref().and_then(|key| parts.get(key));
        let limit = part.and_then(|p| p.pcie);
        // a part's generation is sure of GPUs; NICs of one name have been sold with several
        let is_gpu = fabric.node(link.b).kind == NodeKind::Gpu;
        if is_gpu && limit.is_some_and(|limit| exceeds(running.generation, limit.generation)) {
            found.push((id, Quantity::Running(running), Doubt::AboveProduct));
        } else if exceeds(running.generation, allowed.generation) || exceeds(running.lanes, allowed.lanes) {
            found.push((id, Quantity::Allowed(allowed), Doubt::BelowRunning));
        }
    }
    let mut levels: Vec<Vec<(LinkId, PcieWidth, f64)>> = Vec::new();
    for switch in fabric.of_kind(NodeKind::Switch) {
        let Some((id, running, share)) = uplink(fabric, switch) else { continue };
        let part = fabric.node(switch).part.as_deref().and_then(|key| parts.get(key));
        if part.is_some_and(|p| p.emulated) && share > 1.0 {
            found.push((id, Quantity::Running(running), Doubt::Emulated));
            continue;
        }
        let level = fabric.depth(switch) as usize;
        if levels.len() <= level {
            levels.resize_with(level + 1, Vec::new);
        }
        if let Some(level) = levels.get_mut(level) {
            level.push((id, running, share));
        }
    }
    for level in levels {
        let misread = |(_, running, share): &(LinkId, PcieWidth, f64)| {
            let fastest = running.raw_rate().map_or(0.0, |rate| rate.gb() * share);
            *share > FAR_BELOW && (level.len() > 1 || fastest > MODERN)
        };
        if level.iter().all(misread) {
            found.extend(
                level.into_iter().map(|(id, running, _)| (id, Quantity::Running(running), Doubt::BelowEveryBranch)),
            );
        }
    }
    found
}

/// Links of GPUs whose lanes are those of an idle link.
fn idle(fabric: &Fabric, all: &Inventory) -> Vec<(LinkId, Quantity, Doubt)> {
    let gpus = all.devices.iter().filter(|d| d.gpu).filter_map(|device| {
        let (id, _) = fabric.upstream(fabric.find(&device.name)?)?;
        let LinkKind::Pcie { running, allowed, .. } = fabric.link(id).kind else { return None };
        let part = device.part.as_deref().and_then(|key| Parts::embedded().get(key));
        let on_c2c = part.is_some_and(Part::is_on_cpu_module);
        let facts = GpuFacts {
            allowed,
            c2c: Some(on_c2c || device.facts.c2c == Some(true) || device.c2c.is_some()),
            ..device.facts.clone()
        };
        let dropped = exceeds(allowed.lanes, running.lanes) && may_be_idle(&facts);
        dropped.then_some((id, Quantity::Running(running), Doubt::Idle))
    });
    gpus.collect()
}

/// The link above a switch with GPUs, what it runs at, and how many times faster the fastest device link below it is.
fn uplink(fabric: &Fabric, switch: NodeId) -> Option<(LinkId, PcieWidth, f64)> {
    let running = |id: LinkId| match fabric.link(id).kind {
        LinkKind::Pcie { running, .. } => Some((running, running.raw_rate()?.gb())),
        _ => None,
    };
    let (id, _) = fabric.upstream(switch)?;
    let (width, own) = running(id)?;
    let mut fastest: Option<f64> = None;
    let mut gpus = false;
    let mut open = vec![switch];
    while let Some(at) = open.pop() {
        for (link, below) in fabric.downstream(at) {
            gpus |= fabric.node(below).kind == NodeKind::Gpu;
            if fabric.node(below).kind != NodeKind::Switch {
                fastest = running(link).map(|(_, rate)| rate.max(fastest.unwrap_or(0.0))).or(fastest);
            }
            open.push(below);
        }
    }
    fastest.filter(|_| gpus).map(|rate| (id, width, rate / own))
}
