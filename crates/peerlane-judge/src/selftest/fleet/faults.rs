//! What is wrong with one machine of a fleet, and by how much.

use peerlane_machine::counter::ErrorCounter;
use peerlane_machine::fabric::{Interconnect, NodeId, NodeKind};
use peerlane_machine::fault::Fault;
use peerlane_machine::machine::Machine;
use peerlane_machine::random::Random;
use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use super::super::plants::{self, Kind, Plant};

/// NVLinks of a bundle from which on single links are lost.
const MANY_LINKS: u8 = 4;

/// How `nvidia-smi topo -m` calls adapters, up to their number.
const TOPO_NIC: &str = "NIC";

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Trouble {
    /// NVLinks of one GPU, or of two, are down.
    LinkShort,
    /// One direction between two GPUs is slow.
    SlowPair,
    /// All that one GPU sends and receives is slow, and its state shows nothing.
    SlowGpu,
    /// Heat holds the clocks of one GPU down.
    Hot,
    /// A GPU's PCIe link loses time in both directions, at its full width.
    SlowSlot,
    /// A GPU's PCIe link has fewer lanes, or a lower generation.
    NarrowSlot,
    /// A switch's uplink has a quarter of its lanes.
    NarrowUplink,
    /// ACS sends peer copies below one switch over the root complex.
    Acs,
    /// The IOMMU slows all peer copies over PCIe.
    Iommu,
    /// The buffers of one socket's GPUs are at the other socket.
    FarBuffers,
    /// Two GPUs have no peer access.
    PeerOff,
    /// Copies between two GPUs hang.
    Hang,
    /// Copies between two GPUs arrive changed.
    Corrupt,
    /// A GPU falls off the bus.
    Lost,
    /// The port of an adapter trained at half its rate.
    NicHalf,
    /// Errors of a GPU's NVLinks rise under load since the day's earlier record.
    NvlinkErrors,
}

impl Trouble {
    /// All kinds.
    pub const ALL: [Trouble; 16] = [
        Trouble::LinkShort,
        Trouble::SlowPair,
        Trouble::SlowGpu,
        Trouble::Hot,
        Trouble::SlowSlot,
        Trouble::NarrowSlot,
        Trouble::NarrowUplink,
        Trouble::Acs,
        Trouble::Iommu,
        Trouble::FarBuffers,
        Trouble::PeerOff,
        Trouble::Hang,
        Trouble::Corrupt,
        Trouble::Lost,
        Trouble::NicHalf,
        Trouble::NvlinkErrors,
    ];

    /// As tables and documents name it.
    pub fn name(self) -> &'static str {
        match self {
            Trouble::LinkShort => "link-short",
            Trouble::SlowPair => "slow-pair",
            Trouble::SlowGpu => "slow-gpu",
            Trouble::Hot => "hot",
            Trouble::SlowSlot => "slow-slot",
            Trouble::NarrowSlot => "narrow-slot",
            Trouble::NarrowUplink => "narrow-uplink",
            Trouble::Acs => "acs",
            Trouble::Iommu => "iommu",
            Trouble::FarBuffers => "far-buffers",
            Trouble::PeerOff => "peer-off",
            Trouble::Hang => "hang",
            Trouble::Corrupt => "corrupt",
            Trouble::Lost => "lost",
            Trouble::NicHalf => "nic-half",
            Trouble::NvlinkErrors => "nvlink-errors",
        }
    }

    /// Whether it takes a share of a rate that can be of any size.
    pub fn has_size(self) -> bool {
        use Trouble::{Acs, FarBuffers, Hot, Iommu, LinkShort, SlowGpu, SlowPair, SlowSlot};
        matches!(self, LinkShort | SlowPair | SlowGpu | Hot | SlowSlot | Acs | Iommu | FarBuffers)
    }

    /// Whether the day's earlier record of the machine is from before it.
    pub(super) fn begins_meanwhile(self) -> bool {
        self == Trouble::NvlinkErrors
    }

    /// Whether the gate's answer to it is to watch the machine: its rates are as ever.
    pub(super) fn is_watched(self) -> bool {
        self == Trouble::NvlinkErrors
    }

    /// The adapter whose port runs at half its rate, which the machine's tools print.
    pub(super) fn halved(self, plant: &Plant) -> Option<&str> {
        plant.place().find(|name| self == Trouble::NicHalf && !name.starts_with(TOPO_NIC))
    }

    /// Plants it in one of the machine's places. `size`: the share of the rate that is lost, where it can be any. `None`
    /// where the machine has no such place.
    pub(super) fn plant(self, machine: &Machine, size: f64, random: &mut Random) -> Option<Plant> {
        let all = match self {
            Trouble::LinkShort => links(machine, size),
            Trouble::SlowPair => slow_pairs(machine, size),
            Trouble::SlowGpu => of_gpus(machine, |gpu| slow_gpu(machine, gpu, size)),
            Trouble::Hot => of_gpus(machine, |gpu| {
                let name = name(machine, gpu);
                let words = format!("heat holds {name} at {:.0} %", 100.0 * (1.0 - size));
                let fault = Fault::Throttle { gpu: name.clone(), factor: 1.0 - size };
                Some(Plant::new(Kind::Throttle, fault, words, [name]))
            }),
            Trouble::SlowSlot => of_gpus(machine, |gpu| slow_slot(machine, gpu, size)),
            Trouble::NarrowSlot => plants::plants(Kind::Width, machine),
            Trouble::NarrowUplink => plants::plants(Kind::Uplink, machine),
            Trouble::Acs => below_switches(machine, size),
            Trouble::Iommu => over_pcie(machine, size).into_iter().collect(),
            Trouble::FarBuffers => far_buffers(machine, size),
            Trouble::PeerOff => plants::plants(Kind::PeerOff, machine),
            Trouble::Hang => plants::plants(Kind::Hang, machine),
            Trouble::Corrupt => plants::plants(Kind::Corrupt, machine),
            Trouble::Lost => plants::plants(Kind::Lost, machine),
            Trouble::NicHalf => halved(machine),
            Trouble::NvlinkErrors => nvlink_errors(machine),
        };
        let at = random.below(all.len());
        all.into_iter().nth(at)
    }
}

fn name(machine: &Machine, id: NodeId) -> String {
    machine.fabric.node(id).name.clone()
}

fn of_gpus(machine: &Machine, plant: impl Fn(NodeId) -> Option<Plant>) -> Vec<Plant> {
    machine.fabric.of_kind(NodeKind::Gpu).filter_map(plant).collect()
}

/// No copy between GPUs shows it: only the port's own rate does, which no design states.
fn halved(machine: &Machine) -> Vec<Plant> {
    let adapters = machine.fabric.of_kind(NodeKind::Nic).map(|id| name(machine, id)).enumerate();
    let plant = |(n, nic): (usize, String)| {
        let words = format!("the port of {nic} at half its rate");
        Plant::shown(Kind::Port, words, [format!("{TOPO_NIC}{n}"), nic])
    };
    adapters.map(plant).collect()
}

/// Counters of errors of NVLinks, with errors for each 10⁹ bytes: such as a quick run shows.
const OF_NVLINKS: [(ErrorCounter, f64); 3] =
    [(ErrorCounter::NvlinkReplay, 50.0), (ErrorCounter::NvlinkRecovery, 5.0), (ErrorCounter::NvlinkCrc, 500.0)];

fn nvlink_errors(machine: &Machine) -> Vec<Plant> {
    let linked = machine.fabric.of_kind(NodeKind::Gpu).filter(|id| machine.fabric.nvlinks_of(*id) > 0);
    let plant = |(gpu, (counter, per_gb)): (NodeId, (ErrorCounter, f64))| {
        let gpu = name(machine, gpu);
        let words = format!("{gpu}: {counter} rises under load");
        Plant::new(Kind::Errors, Fault::Errors { gpu: gpu.clone(), counter, per_gb }, words, [gpu])
    };
    linked.zip(OF_NVLINKS.into_iter().cycle()).map(plant).collect()
}

/// Both directions between two nodes at a share of their rate.
fn slow_both(a: &str, b: &str, factor: f64) -> [Fault; 2] {
    let slow = |from: &str, to: &str| Fault::Slow { from: from.to_owned(), to: to.to_owned(), factor };
    [slow(a, b), slow(b, a)]
}

/// NVLink bundles without the share of their links that comes nearest, at least one.
fn links(machine: &Machine, size: f64) -> Vec<Plant> {
    let fabric = &machine.fabric;
    let plant = |link: &peerlane_machine::fabric::Link| {
        let links = link.kind.bundle(Interconnect::Nvlink)?.links.filter(|links| *links >= MANY_LINKS)?;
        let lost = ((size * f64::from(links)).round() as u8).clamp(1, links - 1);
        let ends = [link.a, link.b].map(|id| name(machine, id));
        let words = format!("{lost} of {links} NVLinks down between {} and {}", ends[0], ends[1]);
        let fault = Fault::Bricks { link: ends.clone(), bricks: links - lost };
        Some(Plant::new(Kind::Bricks, fault, words, ends))
    };
    fabric.links().iter().filter_map(plant).collect()
}

fn slow_pairs(machine: &Machine, size: f64) -> Vec<Plant> {
    let plant = |[a, b]: [NodeId; 2]| {
        let (from, to) = (name(machine, a), name(machine, b));
        let words = format!("{from} to {to} at {:.0} %", 100.0 * (1.0 - size));
        let fault = Fault::Slow { from: from.clone(), to: to.clone(), factor: 1.0 - size };
        Plant::new(Kind::Slow, fault, words, [from, to])
    };
    plants::direct_pairs(machine).into_iter().map(plant).collect()
}

fn slow_gpu(machine: &Machine, gpu: NodeId, size: f64) -> Option<Plant> {
    let own = name(machine, gpu);
    let others = plants::direct_pairs(machine).into_iter().filter_map(|[a, b]| match () {
        () if a == gpu => Some(b),
        () if b == gpu => Some(a),
        () => None,
    });
    let faults: Vec<Fault> = others.flat_map(|other| slow_both(&own, &name(machine, other), 1.0 - size)).collect();
    let words = format!("all peer copies of {own} at {:.0} %", 100.0 * (1.0 - size));
    Plant::of_all(Kind::Slow, faults, words, [own])
}

fn slow_slot(machine: &Machine, gpu: NodeId, size: f64) -> Option<Plant> {
    let (_, up) = machine.fabric.upstream(gpu)?;
    let (own, up) = (name(machine, gpu), name(machine, up));
    let words = format!("{own}'s PCIe link at {:.0} %", 100.0 * (1.0 - size));
    Plant::of_all(Kind::Slow, slow_both(&own, &up, 1.0 - size).into(), words, [own])
}

/// For each switch, the pairs of GPUs right below it.
fn below_switches(machine: &Machine, size: f64) -> Vec<Plant> {
    let fabric = &machine.fabric;
    let plant = |switch: NodeId| {
        let below = |gpu: NodeId| fabric.upstream(gpu).is_some_and(|(_, up)| up == switch);
        let pcie = |[a, b]: &[NodeId; 2]| fabric.class(*a, *b).is_some_and(|class| class.is_pcie());
        let pairs = plants::direct_pairs(machine).into_iter().filter(|[a, b]| below(*a) && below(*b)).filter(pcie);
        let pairs: Vec<[String; 2]> = pairs.map(|pair| pair.map(|id| name(machine, id))).collect();
        let faults = pairs.iter().flat_map(|[a, b]| slow_both(a, b, 1.0 - size)).collect();
        let words = format!("peer copies below {} at {:.0} %", name(machine, switch), 100.0 * (1.0 - size));
        Plant::of_all(Kind::Iommu, faults, words, pairs.into_iter().flatten())
    };
    fabric.of_kind(NodeKind::Switch).filter_map(plant).collect()
}

/// All peer copies over PCIe.
fn over_pcie(machine: &Machine, size: f64) -> Option<Plant> {
    let pcie = |[a, b]: &[NodeId; 2]| machine.fabric.class(*a, *b).is_some_and(|class| class.is_pcie());
    let pairs = plants::direct_pairs(machine).into_iter().filter(pcie);
    let pairs: Vec<[String; 2]> = pairs.map(|pair| pair.map(|id| name(machine, id))).collect();
    let faults = pairs.iter().flat_map(|[a, b]| slow_both(a, b, 1.0 - size)).collect();
    let words = format!("all peer copies over PCIe at {:.0} %", 100.0 * (1.0 - size));
    Plant::of_all(Kind::Iommu, faults, words, pairs.into_iter().flatten())
}

/// For each memory, the host copies of the GPUs next to it.
fn far_buffers(machine: &Machine, size: f64) -> Vec<Plant> {
    let fabric = &machine.fabric;
    let root = |mut id: NodeId| {
        while let Some((_, up)) = fabric.upstream(id) {
            id = up;
        }
        id
    };
    let plant = |host: NodeId| {
        let host_name = name(machine, host);
        let cpu =
            fabric.links_of(host).iter().map(|(_, far)| *far).find(|far| fabric.node(*far).kind == NodeKind::Cpu)?;
        let near = |gpu: &NodeId| {
            let top = root(*gpu);
            top == cpu || fabric.links_of(top).iter().any(|(_, far)| *far == cpu)
        };
        let gpus: Vec<String> = fabric.of_kind(NodeKind::Gpu).filter(near).map(|id| name(machine, id)).collect();
        let faults = gpus.iter().flat_map(|gpu| slow_both(&host_name, gpu, 1.0 - size)).collect();
        let words = format!("host copies of {} at {:.0} %", gpus.join(", "), 100.0 * (1.0 - size));
        Plant::of_all(Kind::Slow, faults, words, gpus)
    };
    fabric.of_kind(NodeKind::Host).filter_map(plant).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane_read::catalogue::system;

    #[test]
    fn every_kind_can_be_planted_and_is_where_it_says() {
        let machines: Vec<Machine> =
            ["hgx-h200", "dgx-1v", "exxact-txr550"].map(|name| system(name).unwrap().unwrap()).into();
        for trouble in Trouble::ALL {
            let planted: Vec<Plant> = machines
                .iter()
                .filter_map(|machine| trouble.plant(machine, 0.25, &mut Random::new(1, trouble.name())))
                .collect();
            assert!(!planted.is_empty(), "{}", trouble.name());
            for plant in planted {
                assert!(plant.faults.is_empty() == (trouble == Trouble::NicHalf), "{}", plant.words);
                assert_eq!(trouble.halved(&plant).is_some(), trouble == Trouble::NicHalf);
            }
        }
        let short = Trouble::LinkShort.plant(&machines[0], 0.05, &mut Random::new(1, "")).unwrap();
        assert!(short.words.starts_with("1 of 18 NVLinks down between "), "{}", short.words);
        assert!(Trouble::LinkShort.plant(&machines[2], 0.5, &mut Random::new(1, "")).is_none());
        let far = Trouble::FarBuffers.plant(&machines[2], 0.3, &mut Random::new(1, "")).unwrap();
        assert_eq!(far.faults.len(), 16, "both directions of eight GPUs at one socket: {}", far.words);
        let half = Trouble::FarBuffers.plant(&machines[0], 0.3, &mut Random::new(1, "")).unwrap();
        assert_eq!(half.faults.len(), 8, "{}", half.words);
    }
}
