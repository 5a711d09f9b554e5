//! How fast a collective goes under NCCL's settings: the rate of the paths that they allow, what a protocol leaves of it,
//! what a channel moves, and the time of steps.
//!
//! NCCL estimates the time of each algorithm and protocol as latency + bytes ÷ bandwidth, and takes the fastest
//! (`ncclTopoGetAlgoTime`, `src/graph/tuning.cc`, github.com/NVIDIA/nccl at 5067397c). This does the same, with the
//! bandwidth of [`Rings`] in place of NCCL's table of links. Constants are NCCL's where none was measured. Those measured
//! are of two H200 over NVLink and through host memory, NCCL 2.28.3, by `scripts/gpu/prove_nccl.sh`
//! (`captures/h200x2-vm-nccl`); `docs/nccl-advice.md` states how well they fit.

use super::over::together;
use super::rings::Rings;
use super::settings::{Algorithm, Level, Protocol, Settings};
use crate::flows::{Flows, interchangeable};
use crate::model::Model;
use peerlane_machine::fabric::{CpuVendor, Fabric, Interconnect, NodeId, NodeKind};
use peerlane_machine::fact::P2pStatus;
use peerlane_machine::machine::Machine;
use peerlane_machine::matrix::Engine;
use peerlane_machine::transfer::Collective;
use peerlane_machine::units::Bytes;
use peerlane_read::catalogue::{Parts, vendor_of};

const GB: f64 = 1e9;

/// A constant with the range that measured values were within, or may be.
#[derive(Clone, Copy, Debug)]
struct Range {
    low: f64,
    value: f64,
    high: f64,
}

const fn range(low: f64, value: f64, high: f64) -> Range {
    Range { low, value, high }
}

/// Seconds until NCCL's kernel runs on all ranks of one process: 12 to 18 µs for two H200, by the process; 17 µs for four.
const LAUNCH: Range = range(9e-6, 12e-6, 19e-6);

/// Seconds of a step by algorithm and protocol, over NVLink and over other paths of a host (`hwLatencies`).
const STEPS: [[[f64; 3]; 2]; 2] =
    [[[0.6e-6, 1.25e-6, 4.0e-6], [0.6e-6, 1.9e-6, 3.4e-6]], [[1.0e-6, 1.9e-6, 4.0e-6], [1.0e-6, 2.5e-6, 5.7e-6]]];

/// What a carried byte costs: LL sends as many bytes of flags as of data (NCCL takes ½); of LL128, NCCL takes 0.92 for 120 of 128.
const LL: f64 = 0.5;
const LL128: f64 = 0.92;

/// What NCCL takes of an all-reduce along a tree of one node (0.92), of LL along it (1 ÷ 3.8) and of LL128 (7 ÷ 9).
const TREE: Range = range(0.7, 0.92, 1.05);
const TREE_LL: f64 = 1.0 / 3.8;
const TREE_LL128: f64 = 7.0 / 9.0;

/// What NCCL's rings reach of the rate that paths carry: over NVLink 0.84 to 0.91 (two and four H200); through host memory,
/// 1.04 with NCCL's own four channels and 1.31 with sixteen. Over PCIe directly it is assumed.
const REACHED: [Range; 3] = [range(0.78, 0.86, 0.95), range(0.65, 0.85, 1.0), range(0.75, 1.0, 1.35)];

/// GB/s that one channel of a Hopper moves by protocol, over NVLink and otherwise: 21.0, 16.1 and 5.3 to 7.1; through host memory 14.4
/// and 2.4.
const CHANNEL: [[f64; 3]; 2] = [[5.5, 16.1, 21.0], [2.4, 10.0, 14.4]];
const CHANNEL_RANGE: [f64; 2] = [0.8, 1.25];

/// What NCCL takes of one channel of a tree, by generation (`perChMaxTreeBws`, one node), for its ratio to a Hopper's: only
/// Hoppers were measured.
const CHANNEL_OF: [f64; 4] = [26.5, 24.0, 38.7, 70.0];
const OTHER_CHANNEL_RANGE: [f64; 2] = [0.5, 2.0];

/// GB/s that LL reaches over any number of NVLink channels, by generation (`llMaxBws`); 122 was measured where NCCL takes 141.
const LL_MOST: [f64; 4] = [39.0, 87.7, 141.0, 282.0];
const LL_REACHED: f64 = 0.87;

/// Channels that NCCL opens by itself over PCIe and through host memory: two rings, each used twice (`NCCL_DEBUG=INFO`, two H200
/// without peer-to-peer).
const HOST_CHANNELS: u32 = 4;

/// What the slowest pair of neighbours in a ring goes over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Medium {
    /// NVLink and its like.
    Fabric,
    /// PCIe, directly.
    Pcie,
    /// Host memory.
    Host,
}

impl Medium {
    /// In words that follow "over".
    pub fn words(self) -> &'static str {
        match self {
            Medium::Fabric => "links between GPUs",
            Medium::Pcie => "PCIe",
            Medium::Host => "host memory",
        }
    }
}

/// The paths of a collective under one level of peer-to-peer, and what they carry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paths {
    /// What they go over.
    pub medium: Medium,
    /// Bytes a second of bus bandwidth, with the model's interval.
    pub rate: f64,
    /// The least.
    pub low: f64,
    /// The most.
    pub high: f64,
}

/// A prediction of one collective.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicted {
    /// Bus bandwidth in bytes a second.
    pub rate: f64,
    /// The fastest algorithm and protocol that the settings allow.
    pub algorithm: Algorithm,
    /// How the message is packed.
    pub protocol: Protocol,
}

/// Several predictions of the same machine share what is uncertain; each of these multiplies one factor.
#[derive(Clone, Copy, Debug)]
struct Draw {
    /// Which factor, and whether it is at its high end; `None` for all at their values.
    moved: Option<(Factor, bool)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Factor {
    Launch,
    Paths(Medium),
    Channel,
    Tree,
}

impl Factor {
    const ALL: [Factor; 6] = [
        Factor::Launch,
        Factor::Paths(Medium::Fabric),
        Factor::Paths(Medium::Pcie),
        Factor::Paths(Medium::Host),
        Factor::Channel,
        Factor::Tree,
    ];
}

impl Draw {
    const VALUE: Draw = Draw { moved: None };

    fn of(self, factor: Factor, range: Range) -> f64 {
        match self.moved {
            Some((moved, true)) if moved == factor => range.high,
            Some((moved, false)) if moved == factor => range.low,
            _ => range.value,
        }
    }
}

/// A collective among GPUs of a machine.
#[derive(Clone, Debug)]
pub struct Tuning<'a> {
    machine: &'a Machine,
    parts: &'a Parts,
    gpus: Vec<NodeId>,
    collective: Collective,
    /// Index of the generation in NCCL's tables.
    generation: usize,
    paths: Vec<(Level, Option<Paths>)>,
}

impl<'a> Tuning<'a> {
    /// Of these GPUs, in the order of ranks; `None` below two GPUs, of more than the search for rings handles, and of a
    /// collective that is made of sends and receives.
    pub fn of(machine: &'a Machine, parts: &'a Parts, gpus: Vec<NodeId>, collective: Collective) -> Option<Self> {
        const MOST_GPUS: usize = 32;
        if !(2..=MOST_GPUS).contains(&gpus.len()) || collective == Collective::AllToAll {
            return None;
        }
        let generation = generation(&machine.fabric, parts, &gpus);
        Some(Tuning { machine, parts, gpus, collective, generation, paths: Vec::new() })
    }

    /// The ranks.
    pub fn gpus(&self) -> &[NodeId] {
        &self.gpus
    }

    /// The collective.
    pub fn collective(&self) -> Collective {
        self.collective
    }

    /// The farthest pairs that use peer-to-peer without a variable: those below a PCIe switch, and all where an AMD CPU has at
    /// most two GPUs (`ncclTopoCheckP2p`).
    pub fn default_level(&self) -> Level {
        let fabric = &self.machine.fabric;
        let amd = |gpu: &NodeId| {
            let root = fabric.package(*gpu);
            root.and_then(|cpu| vendor_of(fabric, self.parts, cpu)) == Some(CpuVendor::Amd)
        };
        let few = fabric.of_kind(NodeKind::Gpu).count() <= 2;
        if few && self.gpus.iter().any(amd) { Level::System } else { Level::Switches }
    }

    /// The least level that allows every pair of these GPUs to which the driver gives peer access; `None` where it gives
    /// none to any.
    pub fn level_for_all(&self) -> Option<Level> {
        let model = Model::new(self.machine, self.parts);
        let able = |(a, b): &(NodeId, NodeId)| model.no_peer_access(*a, *b).is_none();
        let class = |(a, b): (NodeId, NodeId)| self.machine.fabric.class(a, b).map(Level::for_class);
        self.pairs().filter(able).filter_map(class).max()
    }

    fn pairs(&self) -> impl Iterator<Item = (NodeId, NodeId)> + '_ {
        let each = |a: NodeId| self.gpus.iter().filter(move |b| **b != a).map(move |b| (a, *b));
        self.gpus.iter().flat_map(move |a| each(*a))
    }

    /// What the paths carry under these settings; `None` where a rate on the way is not known.
    pub fn paths(&mut self, settings: &Settings) -> Option<Paths> {
        let level = settings.peer.unwrap_or_else(|| self.default_level());
        if let Some((_, known)) = self.paths.iter().find(|(known, _)| *known == level) {
            return *known;
        }
        let found = self.found(level);
        self.paths.push((level, found));
        found
    }

    fn found(&self, level: Level) -> Option<Paths> {
        let mut machine = self.machine.clone();
        for (a, b) in self.pairs() {
            let class = machine.fabric.class(a, b);
            if class.is_none_or(|class| Level::for_class(class) > level) {
                machine.p2p.insert((a, b), P2pStatus::NotSupported);
            }
        }
        let model = Model::new(&machine, self.parts);
        let flows = Flows::new(&model, Engine::Sm);
        let places: Option<Vec<usize>> =
            self.gpus.iter().map(|gpu| flows.ends.iter().position(|end| end == gpu)).collect();
        let places = places?;
        let rings = match self.collective {
            Collective::SendReceive => Rings::in_order(&flows, &places)?,
            _ => Rings::best(&flows, &places, &interchangeable(&flows))?,
        };
        let sets = rings.sets();
        let [fast, slow] = model.ends().map(|model| {
            let flows = Flows::new(model, Engine::Sm);
            together(&flows, &sets).map(|paces| paces.iter().sum::<f64>())
        });
        let rate = rings.rate();
        let medium = sets.iter().flatten().filter_map(|pair| flows.flow(*pair)).map(|route| {
            if route.staged {
                Medium::Host
            } else if route.class.is_pcie() {
                Medium::Pcie
            } else {
                Medium::Fabric
            }
        });
        let medium = medium.max()?;
        (rate > 0.0 && rate.is_finite()).then(|| Paths {
            medium,
            rate,
            low: slow.map_or(rate, |slow| slow.min(rate)),
            high: fast.map_or(rate, |fast| fast.max(rate)),
        })
    }

    /// The bus bandwidth of a message under these settings.
    pub fn predict(&mut self, settings: &Settings, size: Bytes) -> Option<Predicted> {
        let paths = self.paths(settings)?;
        self.drawn(&paths, settings, size, Draw::VALUE)
    }

    /// How many times faster a message is under `after` than under `before`: the value, and the least and the most that it
    /// may be. What is uncertain of both alike cancels.
    pub fn gain(&mut self, before: &Settings, after: &Settings, size: Bytes) -> Option<[f64; 3]> {
        let paths = [self.paths(before)?, self.paths(after)?];
        let ratio = |draw: Draw| {
            let before = self.drawn(&paths[0], before, size, draw)?;
            let after = self.drawn(&paths[1], after, size, draw)?;
            Some(after.rate / before.rate)
        };
        around(ratio)
    }

    /// [`Tuning::predict`] with the least and the most that the rate may be, in bytes a second.
    pub fn interval(&mut self, settings: &Settings, size: Bytes) -> Option<[f64; 3]> {
        let paths = self.paths(settings)?;
        around(|draw| self.drawn(&paths, settings, size, draw).map(|predicted| predicted.rate))
    }

    fn drawn(&self, paths: &Paths, settings: &Settings, size: Bytes, draw: Draw) -> Option<Predicted> {
        let bytes = size.0 as f64 * self.collective.bus_factor(self.gpus.len());
        let mut best: Option<(f64, Predicted)> = None;
        for (algorithm, protocol) in self.choices(settings, paths.medium) {
            let rate = self.carried(paths, settings, algorithm, protocol, draw);
            let step = STEPS[usize::from(paths.medium != Medium::Fabric)][algorithm as usize][protocol as usize];
            let time = draw.of(Factor::Launch, LAUNCH) + self.steps() * step + bytes / rate;
            if best.as_ref().is_none_or(|(known, _)| time < *known) {
                best = Some((time, Predicted { rate: bytes / time, algorithm, protocol }));
            }
        }
        best.map(|(_, predicted)| predicted)
    }

    /// What the settings leave to choose from. Sends and receives heed neither list.
    fn choices(&self, settings: &Settings, medium: Medium) -> Vec<(Algorithm, Protocol)> {
        if self.collective == Collective::SendReceive {
            return vec![(Algorithm::Ring, Protocol::Simple)];
        }
        let algorithms = Algorithm::ALL.into_iter().filter(|a| settings.allows_algorithm(*a, self.collective));
        let nvlink = medium == Medium::Fabric;
        let protocols = || Protocol::ALL.into_iter().filter(|p| settings.allows_protocol(*p, nvlink));
        let found: Vec<_> = algorithms.flat_map(|a| protocols().map(move |p| (a, p))).collect();
        // a list of what this leaves out
        if found.is_empty() { vec![(Algorithm::Ring, Protocol::Simple)] } else { found }
    }

    fn steps(&self) -> f64 {
        let others = self.gpus.len() as f64 - 1.0;
        match self.collective {
            Collective::AllReduce => 2.0 * others,
            Collective::SendReceive => 1.0,
            _ => others,
        }
    }

    /// Bytes a second that a large message reaches.
    fn carried(&self, paths: &Paths, settings: &Settings, algorithm: Algorithm, protocol: Protocol, draw: Draw) -> f64 {
        let reached = REACHED[paths.medium as usize];
        let of_paths = range(paths.low * reached.low, paths.rate * reached.value, paths.high * reached.high);
        let all = draw.of(Factor::Paths(paths.medium), of_paths);
        let fabric = paths.medium == Medium::Fabric;
        let tree = draw.of(Factor::Tree, TREE);
        let share = match (algorithm, protocol) {
            (Algorithm::Ring, Protocol::Ll) => LL,
            (Algorithm::Ring, Protocol::Ll128) => LL128,
            (Algorithm::Ring, Protocol::Simple) => 1.0,
            (Algorithm::Tree, Protocol::Ll) => tree * TREE_LL,
            (Algorithm::Tree, Protocol::Ll128) => tree * TREE_LL128,
            (Algorithm::Tree, Protocol::Simple) => tree,
        };
        let mut rate = all * share;
        let [low, high] = if self.generation == HOPPER { CHANNEL_RANGE } else { OTHER_CHANNEL_RANGE };
        let drawn = draw.of(Factor::Channel, range(low, 1.0, high));
        let ratio = CHANNEL_OF[self.generation] / CHANNEL_OF[HOPPER];
        if protocol == Protocol::Ll && fabric {
            rate = rate.min(LL_MOST[self.generation] * LL_REACHED * drawn * GB);
        }
        // those that NCCL opens by itself over NVLink are enough for what the links carry
        let own = (!fabric).then_some(HOST_CHANNELS.max(settings.least_channels.unwrap_or(0)));
        let channels = if self.collective == Collective::SendReceive { own } else { settings.most_channels.or(own) };
        if let Some(channels) = channels {
            let each = CHANNEL[usize::from(!fabric)][protocol as usize] * ratio * drawn * GB;
            rate = rate.min(f64::from(channels) * each);
        }
        rate
    }
}

/// A number that depends on what is uncertain, with its ends: each factor alone at both its ends, combined as independent.
fn around(of: impl Fn(Draw) -> Option<f64>) -> Option<[f64; 3]> {
    let value = of(Draw::VALUE)?;
    let [mut below, mut above] = [0.0_f64; 2];
    for factor in Factor::ALL {
        let ends = [false, true].map(|high| of(Draw { moved: Some((factor, high)) }));
        let logs = ends.into_iter().flatten().map(|end| (end / value).ln());
        let (low, high) = logs.fold((0.0_f64, 0.0_f64), |(low, high), log| (low.min(log), high.max(log)));
        below = below.hypot(low);
        above = above.hypot(high);
    }
    Some([value, value * (-below).exp(), value * above.exp()])
}

/// Hopper's place in NCCL's tables: Volta and older, Ampere and Ada, Hopper, Blackwell and later.
const HOPPER: usize = 2;

fn generation(fabric: &Fabric, parts: &Parts, gpus: &[NodeId]) -> usize {
    let of_gpu = |gpu: &NodeId| {
        let part = fabric.node(*gpu).part.as_deref().and_then(|key| parts.get(key));
        let links = fabric.links_of(*gpu).iter();
        let bundle = links.filter_map(|(link, _)| fabric.link(*link).kind.bundle(Interconnect::Nvlink)?.generation);
        let pcie = part.and_then(|part| part.pcie).and_then(|pcie| pcie.generation).map(|g| g.number());
        match (part.and_then(|part| part.nvlink_generation).or(bundle.max()), pcie) {
            (Some(5..), _) => 3,
            (Some(4), _) => 2,
            (Some(3), _) => 1,
            (Some(_), _) => 0,
            // without NVLink its PCIe tells: 3.0 up to Turing, 4.0 for Ampere and Ada, 5.0 from Blackwell on
            (None, Some(5..)) => 3,
            (None, Some(4)) => 1,
            (None, _) => 0,
        }
    };
    gpus.iter().map(of_gpu).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collectives::settings::Variables;
    use peerlane_read::catalogue::system;

    /// Bus bandwidth in GB/s of an all-reduce of a machine of the catalogue.
    fn rate(name: &str, gpus: usize, variables: &[(&str, &str)], size: u64) -> f64 {
        let machine = system(name).unwrap().unwrap();
        let gpus = machine.fabric.of_kind(NodeKind::Gpu).take(gpus).collect();
        let mut tuning = Tuning::of(&machine, Parts::embedded(), gpus, Collective::AllReduce).unwrap();
        let variables: Variables = variables.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        tuning.predict(&Settings::of(&variables, Collective::AllReduce), Bytes(size)).unwrap().rate / GB
    }

    /// Two H200 of one host, NCCL 2.28.3, GB/s at 128 MiB (`captures/h200x2-vm-nccl/explored.tsv`). The settings that the
    /// constants are from, and those that follow from them.
    #[test]
    fn settings_cost_what_two_h200_measured() {
        const MEASURED: [(&[(&str, &str)], f64); 12] = [
            (&[], 286.0),
            (&[("NCCL_PROTO", "LL")], 121.5),
            (&[("NCCL_PROTO", "LL128")], 261.8),
            (&[("NCCL_PROTO", "Simple")], 284.7),
            (&[("NCCL_MAX_NCHANNELS", "1")], 20.9),
            (&[("NCCL_MAX_NCHANNELS", "4")], 81.6),
            (&[("NCCL_MAX_NCHANNELS", "8")], 155.2),
            (&[("NCCL_PROTO", "LL128"), ("NCCL_MAX_NCHANNELS", "1")], 16.0),
            (&[("NCCL_P2P_DISABLE", "1")], 27.5),
            (&[("NCCL_P2P_DISABLE", "1"), ("NCCL_MAX_NCHANNELS", "1")], 14.3),
            (&[("NCCL_P2P_DISABLE", "1"), ("NCCL_PROTO", "LL")], 8.7),
            (&[("NCCL_P2P_DISABLE", "1"), ("NCCL_PROTO", "LL"), ("NCCL_MAX_NCHANNELS", "1")], 2.4),
        ];
        for (variables, measured) in MEASURED {
            let predicted = rate("h200x4-vm", 2, variables, 128 << 20);
            assert!((0.8..1.25).contains(&(predicted / measured)), "{variables:?}: {predicted} of {measured}");
        }
    }

    #[test]
    fn a_gain_is_certain_where_both_sides_share_what_is_not() {
        let machine = system("h200x4-vm").unwrap().unwrap();
        let gpus: Vec<NodeId> = machine.fabric.of_kind(NodeKind::Gpu).take(2).collect();
        let mut tuning = Tuning::of(&machine, Parts::embedded(), gpus, Collective::AllReduce).unwrap();
        let of = |list: &[(&str, &str)]| {
            let variables: Variables = list.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            Settings::of(&variables, Collective::AllReduce)
        };
        let (none, one, four) = (of(&[]), of(&[("NCCL_MAX_NCHANNELS", "1")]), of(&[("NCCL_MAX_NCHANNELS", "4")]));
        let [gain, low, high] = tuning.gain(&one, &four, Bytes(1 << 30)).unwrap();
        assert!((3.9..4.1).contains(&gain) && low > 3.8 && high < 4.2, "{low} {gain} {high}");
        let [gain, low, high] = tuning.gain(&one, &none, Bytes(1 << 30)).unwrap();
        assert!(low < gain * 0.85 && high > gain * 1.1, "{low} {gain} {high}");
        assert_eq!(tuning.gain(&none, &none, Bytes(1 << 20)), Some([1.0; 3]));
    }

    #[test]
    fn nccl_uses_no_peer_access_across_host_bridges_by_itself() {
        let machine = system("exxact-devbox").unwrap().unwrap();
        let gpus: Vec<NodeId> = machine.fabric.of_kind(NodeKind::Gpu).collect();
        let mut tuning = Tuning::of(&machine, Parts::embedded(), gpus, Collective::AllReduce).unwrap();
        let all = tuning.level_for_all();
        assert!(all > Some(tuning.default_level()), "{all:?}");
        let none = Settings::of(&Variables::new(), Collective::AllReduce);
        assert_eq!(tuning.paths(&none).unwrap().medium, Medium::Host);
        let variables = [("NCCL_P2P_LEVEL".to_owned(), all.unwrap().name().to_owned())].into();
        let settings = Settings::of(&variables, Collective::AllReduce);
        assert_eq!(tuning.paths(&settings).unwrap().medium, Medium::Pcie);
    }
}
