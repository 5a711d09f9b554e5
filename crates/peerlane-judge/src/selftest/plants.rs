//! What can be planted in which machine, and where.

use std::collections::BTreeSet;

use super::record::USUAL_GPUS;
use peerlane_machine::counter::ErrorCounter;
use peerlane_machine::fabric::{Interconnect, LinkKind, NodeId, NodeKind, PcieGeneration, PcieWidth};
use peerlane_machine::fault::Fault;
use peerlane_machine::machine::Machine;
use peerlane_machine::matrix::{Engine, Operation};
use peerlane_machine::subject::Subject;
use peerlane_model::model::{Model, PeerAccess, Transfer};
use peerlane_read::catalogue::Parts;

/// Cases of each kind.
pub(super) const CASES: usize = 10;

/// How often a kind that fits few machines uses each of them.
pub(super) const TURNS: usize = 5;

/// What throttling leaves of a GPU's rates.
const THROTTLED: [f64; 3] = [0.6, 0.75, 0.4];

/// What a detour leaves of the rate of staged copies.
const DETOURED: [f64; 3] = [0.1, 0.2, 0.05];

/// Errors for each 10⁹ bytes: some hundred in a run.
const ERRORS: f64 = 50.0;

/// The counters that show planted errors; the first where a GPU has NVLinks.
const COUNTERS: [ErrorCounter; 4] =
    [ErrorCounter::NvlinkReplay, ErrorCounter::AerCorrectable, ErrorCounter::EccUncorrected, ErrorCounter::AerNonfatal];

/// NVLinks of one bundle from which on the loss of one or two is planted.
const MANY_BRICKS: u8 = 12;

/// How much wider than what is left of an uplink a link below must be for a copy to show it.
const WIDER: f64 = 1.5;

/// Steps before a GPU is lost: few enough that the smallest plan has some left.
const BEFORE: usize = 8;

/// Kinds of faults, as [`Fault`] has them; a narrow uplink is a kind of its own, since no card shows it, and so are peer copies
/// that the IOMMU or ACS sends over the root complex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Width,
    Uplink,
    Bricks,
    Slow,
    PeerOff,
    Hang,
    Corrupt,
    Lost,
    Throttle,
    Bimodal,
    Cold,
    Iommu,
    Errors,
    Detour,
    /// Of a network port, which simulated copies do not pass.
    Port,
}

/// All kinds but those that no measurement within one machine shows.
pub(super) const KINDS: [Kind; 14] = [
    Kind::Width,
    Kind::Uplink,
    Kind::Bricks,
    Kind::Slow,
    Kind::PeerOff,
    Kind::Hang,
    Kind::Corrupt,
    Kind::Lost,
    Kind::Throttle,
    Kind::Bimodal,
    Kind::Cold,
    Kind::Iommu,
    Kind::Errors,
    Kind::Detour,
];

impl Kind {
    /// As the table calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Width => "width",
            Kind::Uplink => "uplink",
            Kind::Bricks => "bricks",
            Kind::Slow => "slow",
            Kind::PeerOff => "peer-off",
            Kind::Hang => "hang",
            Kind::Corrupt => "corrupt",
            Kind::Lost => "lost",
            Kind::Throttle => "throttle",
            Kind::Bimodal => "bimodal",
            Kind::Cold => "cold",
            Kind::Iommu => "iommu",
            Kind::Errors => "errors",
            Kind::Detour => "detour",
            Kind::Port => "port",
        }
    }

    /// Rules that find it although they report a measurement, not a fault.
    pub(super) fn rules(self) -> &'static [&'static str] {
        match self {
            // where buffers are matters on sound machines too
            Kind::Bimodal => &["unsteady-rate"],
            _ => &[],
        }
    }

    /// How the advice of the finding must begin.
    pub(super) fn advice(self) -> Option<&'static str> {
        (self == Kind::Iommu).then_some("Boot with `iommu=pt` or turn the IOMMU off")
    }

    /// A GPU that starts cold is not a fault, and a measurement that warms up must not report it.
    pub(super) fn must_be_found(self) -> bool {
        self != Kind::Cold
    }
}

/// A fault in its place.
#[derive(Clone, Debug)]
pub(super) struct Plant {
    pub(super) kind: Kind,
    /// The faults of the simulated machine.
    pub(super) faults: Vec<Fault>,
    /// Description.
    pub(super) words: String,
    /// Nodes that it is at, or that are affected by it.
    place: BTreeSet<String>,
    /// Whether it is between two nodes alone.
    pair: bool,
}

impl Plant {
    pub(super) fn new(kind: Kind, fault: Fault, words: String, place: impl IntoIterator<Item = String>) -> Self {
        Plant { kind, faults: vec![fault], words, place: place.into_iter().collect(), pair: false }
    }

    /// What tools print and no measurement shows.
    pub(super) fn shown(kind: Kind, words: String, place: impl IntoIterator<Item = String>) -> Self {
        Plant { kind, faults: Vec::new(), words, place: place.into_iter().collect(), pair: false }
    }

    /// Nodes that it is at.
    pub(super) fn place(&self) -> impl Iterator<Item = &str> {
        self.place.iter().map(String::as_str)
    }

    /// Several faults that are one; `None` where there are none.
    pub(super) fn of_all(
        kind: Kind,
        faults: Vec<Fault>,
        words: String,
        place: impl IntoIterator<Item = String>,
    ) -> Option<Self> {
        let plant = Plant { kind, faults, words, place: place.into_iter().collect(), pair: false };
        (!plant.faults.is_empty()).then_some(plant)
    }

    fn of_pair(kind: Kind, fault: Fault, [a, b]: [String; 2]) -> Self {
        let words = format!("{} between {a} and {b}", kind.name());
        Plant { pair: true, ..Plant::new(kind, fault, words, [a, b]) }
    }

    /// Whether a subject of a finding (`GPU0`, `GPU0-GPU1`, `host-GPU3`) is about it.
    pub(super) fn touches(&self, subject: &Subject) -> bool {
        match (subject, subject.ends()) {
            (_, Some((a, b))) if self.pair => self.place.contains(a) && self.place.contains(b),
            (_, Some((a, b))) => self.place.contains(a) || self.place.contains(b),
            (Subject::Node(name), None) => self.place.contains(name),
            _ => false,
        }
    }
}

/// Whether pairs of GPUs can be measured, and the model predicts some.
pub(super) fn is_measurable(machine: &Machine) -> bool {
    let model = Model::new(machine, Parts::embedded());
    pairs(machine).into_iter().any(|[a, b]| model.solve(&[copy(a, b)]).is_ok())
}

fn copy(source: NodeId, destination: NodeId) -> Transfer {
    let (engine, op, peer) = (Engine::Ce, Operation::Write, PeerAccess::Enabled);
    Transfer { source, destination, engine, op, peer }
}

fn gpus(machine: &Machine) -> Vec<NodeId> {
    machine.fabric.of_kind(NodeKind::Gpu).collect()
}

fn pairs(machine: &Machine) -> Vec<[NodeId; 2]> {
    let gpus = gpus(machine);
    gpus.iter().enumerate().flat_map(|(i, a)| gpus.iter().skip(i + 1).map(move |b| [*a, *b])).collect()
}

/// Pairs of GPUs whose copies do not go through host memory.
pub(super) fn direct_pairs(machine: &Machine) -> Vec<[NodeId; 2]> {
    let model = Model::new(machine, Parts::embedded());
    let goes = |ends: &[NodeId; 2]| model.route(&copy(ends[0], ends[1])).is_ok_and(|route| !route.staged);
    pairs(machine).into_iter().filter(goes).collect()
}

/// The places of a machine in which a fault of a kind can be planted, each with the fault.
pub(super) fn plants(kind: Kind, machine: &Machine) -> Vec<Plant> {
    let name = |id: NodeId| machine.fabric.node(id).name.clone();
    let of_gpus = |plant: &dyn Fn(String) -> Plant| gpus(machine).into_iter().map(|id| plant(name(id))).collect();
    let of_pairs = |fault: &dyn Fn([String; 2]) -> Fault| {
        let direct = direct_pairs(machine).into_iter().map(|ends| ends.map(name));
        direct.map(|pair| Plant::of_pair(kind, fault(pair.clone()), pair)).collect()
    };
    match kind {
        Kind::Width => widths(machine),
        Kind::Uplink => uplinks(machine),
        Kind::Bricks => bricks(machine),
        Kind::Slow => of_pairs(&|[from, to]| Fault::Slow { from, to, factor: 0.5 }),
        // with two GPUs, there is no other access to compare with
        Kind::PeerOff => of_pairs(&|pair| Fault::PeerOff { pair }),
        Kind::Hang => of_pairs(&|pair| Fault::Hang { pair }),
        Kind::Corrupt => of_pairs(&|pair| Fault::Corrupt { pair }),
        Kind::Lost => of_gpus(&|gpu| {
            let words = format!("{gpu} falls off the bus after {BEFORE} steps");
            Plant::new(kind, Fault::Lost { gpu: gpu.clone(), after: BEFORE }, words, [gpu])
        }),
        Kind::Throttle => {
            let throttled = |(gpu, factor): (String, f64)| {
                let words = format!("heat throttles {gpu} to {:.0} %", 100.0 * factor);
                Plant::new(kind, Fault::Throttle { gpu: gpu.clone(), factor }, words, [gpu])
            };
            gpus(machine).into_iter().map(name).zip(THROTTLED.into_iter().cycle()).map(throttled).collect()
        }
        Kind::Iommu => detours(machine),
        Kind::Errors => errors(machine),
        Kind::Detour => away_from_nvlinks(machine),
        Kind::Port => Vec::new(),
        // the quick plan allocates once
        Kind::Bimodal if gpus(machine).len() > USUAL_GPUS => Vec::new(),
        Kind::Bimodal => of_gpus(&|gpu| {
            let words = format!("every second allocation of {gpu} reaches 85 %");
            Plant::new(kind, Fault::Bimodal { gpu: gpu.clone(), factor: 0.85 }, words, [gpu])
        }),
        Kind::Cold => of_gpus(&|gpu| {
            let words = format!("{gpu} starts at half its rate and is warm after 20 samples");
            Plant::new(kind, Fault::Cold { gpu: gpu.clone(), factor: 0.5, samples: 20 }, words, [gpu])
        }),
    }
}

/// What is left of a link: half its lanes, a quarter, or a lower generation.
fn narrower(running: PcieWidth, at: usize) -> Option<PcieWidth> {
    let lanes = running.lanes?;
    match (at % 3, lanes) {
        (0, 2..) => Some(PcieWidth { lanes: Some(lanes / 2), ..running }),
        (1, 4..) => Some(PcieWidth { lanes: Some(lanes / 4), ..running }),
        _ => {
            let lower = PcieGeneration::ALL.into_iter().rfind(|g| Some(*g) < running.generation)?;
            Some(PcieWidth { generation: Some(lower), ..running })
        }
    }
}

/// Narrower links of GPUs.
fn widths(machine: &Machine) -> Vec<Plant> {
    let fabric = &machine.fabric;
    let plant = |(i, id): (usize, NodeId)| {
        let (link, up) = fabric.upstream(id)?;
        let LinkKind::Pcie { running, .. } = fabric.link(link).kind else { return None };
        let width = narrower(running, i)?;
        let (gpu, up) = (fabric.node(id).name.clone(), fabric.node(up).name.clone());
        let words = format!("{gpu} at {width} instead of {running}");
        Some(Plant::new(Kind::Width, Fault::Width { link: [gpu.clone(), up], width }, words, [gpu]))
    };
    gpus(machine).into_iter().enumerate().filter_map(plant).collect()
}

/// Narrower uplinks of switches, at a quarter of their lanes.
fn uplinks(machine: &Machine) -> Vec<Plant> {
    let fabric = &machine.fabric;
    let below = |switch: NodeId| {
        let under = |id: &NodeId| {
            let mut at = *id;
            while let Some((_, up)) = fabric.upstream(at) {
                if up == switch {
                    return true;
                }
                at = up;
            }
            false
        };
        gpus(machine).into_iter().filter(under).map(|id| fabric.node(id).name.clone()).collect::<Vec<_>>()
    };
    let plant = |id: NodeId| {
        let (link, up) = fabric.upstream(id)?;
        let LinkKind::Pcie { running, .. } = fabric.link(link).kind else { return None };
        let width = narrower(running, 1)?;
        let (switch, up) = (fabric.node(id).name.clone(), fabric.node(up).name.clone());
        let words = format!("{switch}'s uplink at {width} instead of {running}");
        let place: Vec<String> = below(id).into_iter().chain([switch.clone(), up.clone()]).collect();
        // a copy shows it only where some GPU below has the wider link
        let raw = |w: PcieWidth| w.raw_rate().map(|r| r.gb());
        let wide = |gpu: &String| {
            let (link, _) = fabric.upstream(fabric.find(gpu)?)?;
            let LinkKind::Pcie { running, .. } = fabric.link(link).kind else { return None };
            Some(raw(running)? > WIDER * raw(width)?)
        };
        let shows = below(id).iter().any(|gpu| wide(gpu) == Some(true));
        shows.then(|| Plant::new(Kind::Uplink, Fault::Width { link: [switch, up], width }, words, place))
    };
    fabric.of_kind(NodeKind::Switch).filter_map(plant).collect()
}

/// Counters of errors that rise under load, of each GPU another one.
fn errors(machine: &Machine) -> Vec<Plant> {
    let fabric = &machine.fabric;
    let plant = |(i, id): (usize, NodeId)| {
        let counters = if fabric.nvlinks_of(id) > 0 { &COUNTERS[..] } else { &COUNTERS[1..] };
        let (gpu, counter) = (fabric.node(id).name.clone(), counters[i % counters.len()]);
        let words = format!("{gpu}: {counter} rises under load");
        Plant::new(Kind::Errors, Fault::Errors { gpu: gpu.clone(), counter, per_gb: ERRORS }, words, [gpu])
    };
    gpus(machine).into_iter().enumerate().map(plant).collect()
}

/// GPUs whose NVLinks are up and carry nothing, where they have another path.
fn away_from_nvlinks(machine: &Machine) -> Vec<Plant> {
    let fabric = &machine.fabric;
    let all = gpus(machine);
    let has_other = |id: &NodeId| all.iter().all(|other| other == id || fabric.tree_path(*id, *other).is_some());
    let able = all.iter().filter(|id| fabric.nvlinks_of(**id) > 0).filter(|id| has_other(id));
    let plant = |id: &NodeId| {
        let gpu = fabric.node(*id).name.clone();
        let words = format!("NVLinks of {gpu} carry nothing");
        Plant::new(Kind::Detour, Fault::Detour { gpu: gpu.clone() }, words, [gpu])
    };
    able.map(plant).collect()
}

/// All direct copies between GPUs over PCIe at a share of what staged copies reach. Small ones take about as long as ever.
fn detours(machine: &Machine) -> Vec<Plant> {
    let model = Model::new(machine, Parts::embedded());
    let name = |id: NodeId| machine.fabric.node(id).name.clone();
    let rate = |transfer: Transfer| Some(model.solve(&[transfer]).ok()?.first()?.rate.bytes_per_second());
    let by_pcie = |ends: &[NodeId; 2]| {
        let class = machine.fabric.class(ends[0], ends[1]);
        class.is_some_and(|class| class.is_pcie()) && model.route(&copy(ends[0], ends[1])).is_ok_and(|r| !r.staged)
    };
    let both: Vec<[NodeId; 2]> =
        pairs(machine).into_iter().filter(by_pcie).flat_map(|[a, b]| [[a, b], [b, a]]).collect();
    let plant = |share: f64| {
        let slow = |[from, to]: &[NodeId; 2]| {
            let direct = rate(copy(*from, *to))?;
            let staged = rate(Transfer { peer: PeerAccess::Disabled, ..copy(*from, *to) })?;
            Some(Fault::Slow { from: name(*from), to: name(*to), factor: (share * staged / direct).min(1.0) })
        };
        let faults: Option<Vec<Fault>> = both.iter().map(slow).collect();
        let words = format!("peer copies at {:.0} % of staged ones", 100.0 * share);
        let place = both.iter().flatten().map(|id| name(*id)).collect();
        let faults = faults.filter(|faults| !faults.is_empty())?;
        Some(Plant { kind: Kind::Iommu, faults, words, place, pair: false })
    };
    DETOURED.into_iter().filter_map(plant).collect()
}

/// NVLink bundles with half of their bricks, with three quarters where there are as many, and without one or two of very
/// many; the only brick of two GPUs that have another path.
fn bricks(machine: &Machine) -> Vec<Plant> {
    let fabric = &machine.fabric;
    let plant = |(i, link): (usize, &peerlane_machine::fabric::Link)| {
        let bricks = link.kind.bundle(Interconnect::Nvlink)?.links?;
        let left = match i % 4 {
            0 if bricks >= MANY_BRICKS => bricks - 1,
            1 if bricks >= MANY_BRICKS => bricks - 2,
            1 | 3 if bricks >= 4 => bricks - bricks / 4,
            _ => bricks / 2,
        };
        let ends = [link.a, link.b].map(|id| fabric.node(id).name.clone());
        let words = format!("{left} of {bricks} NVLinks left between {} and {}", ends[0], ends[1]);
        let both_gpus = [link.a, link.b].iter().all(|id| fabric.node(*id).kind == NodeKind::Gpu);
        let fault = Fault::Bricks { link: ends.clone(), bricks: left };
        let plant = Plant { pair: both_gpus, ..Plant::new(Kind::Bricks, fault, words, ends) };
        (left >= 1 || both_gpus && fabric.tree_path(link.a, link.b).is_some()).then_some(plant)
    };
    fabric.links().iter().enumerate().filter_map(plant).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane_read::catalogue::system;

    fn pair_of(a: &str, b: &str) -> Subject {
        Subject::Pair(a.to_owned(), b.to_owned())
    }

    #[test]
    fn a_plant_is_where_it_is_and_nowhere_else() {
        let machine = system("exxact-devbox").unwrap().unwrap();
        let of = |kind| plants(kind, &machine);
        let gpu = &of(Kind::Width)[1];
        assert_eq!(gpu.words, "GPU1 at 3.0 x4 instead of 3.0 x16");
        assert!(
            gpu.touches(&Subject::Node("GPU1".to_owned()))
                && gpu.touches(&pair_of("GPU1", "GPU3"))
                && gpu.touches(&pair_of("host", "GPU1"))
        );
        assert!(!gpu.touches(&Subject::Node("GPU2".to_owned())) && !gpu.touches(&pair_of("GPU2", "GPU3")));
        let pair = &of(Kind::Hang)[0];
        assert!(
            pair.touches(&pair_of("GPU1", "GPU0"))
                && pair.touches(&Subject::Node("GPU0".to_owned()))
                && !pair.touches(&pair_of("GPU0", "GPU2"))
        );
        let uplink = &of(Kind::Uplink)[0];
        assert!(
            uplink.touches(&pair_of("plx0", "rc0"))
                && uplink.touches(&pair_of("GPU0", "GPU2"))
                && !uplink.touches(&pair_of("GPU2", "GPU3"))
        );
        assert!(of(Kind::Bricks).is_empty());
    }

    #[test]
    fn every_kind_fits_machines() {
        let all: Vec<Machine> =
            peerlane_read::catalogue::system_names().map(|name| system(name).unwrap().unwrap()).collect();
        for kind in KINDS {
            let able = all.iter().filter(|m| is_measurable(m) && !plants(kind, m).is_empty()).count();
            assert!(able >= 5, "{}: {able}", kind.name());
        }
    }
}
