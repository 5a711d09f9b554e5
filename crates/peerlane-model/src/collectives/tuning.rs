//! How fast a collective among the GPUs of one machine goes under NCCL's settings: the rate of the paths that they allow, what a
//! channel moves, and [`tuner`](super::tuner)'s time of what is left to choose from.
//!
//! The constants of channels are of two H200 over NVLink and through host memory, NCCL 2.28.3, by `scripts/gpu/prove_nccl.sh`
//! (`captures/h200x2-vm-nccl`); `docs/nccl-advice.md` states how well they fit.

use super::algorithm::{Algorithm, Protocol};
use super::nvls::nvls_rate;
use super::over::together;
use super::rings::Rings;
use super::settings::{Level, Settings};
use super::tuner::{Carried, Factors, Generation, Job, Medium, Predicted, Ranks};
use crate::flows::{Flows, interchangeable};
use crate::model::{Model, Route};
use peerlane_machine::fabric::{CpuVendor, Fabric, Interconnect, NodeId, NodeKind};
use peerlane_machine::fact::P2pStatus;
use peerlane_machine::machine::Machine;
use peerlane_machine::matrix::Engine;
use peerlane_machine::transfer::Collective;
use peerlane_machine::units::Bytes;
use peerlane_read::catalogue::{Parts, vendor_of};

const GB: f64 = 1e9;

/// A factor's ends.
type Range = [f64; 2];

/// Of the start-up: 12 to 18 µs for two H200, by the process; 17 µs for four.
const LAUNCH: Range = [0.7, 1.4];

/// Of what NCCL's rings reach of the rate that paths carry, by [`Medium`]; within host memory, 1.04 with NCCL's own four channels
/// and 1.31 with sixteen. Over PCIe directly it is assumed.
const REACHED: [Range; 3] = [[0.92, 1.06], [0.76, 1.18], [0.75, 1.35]];

/// What paths through PCIe reach of their rate: assumed.
const PCIE_REACHED: f64 = 0.85;

/// GB/s that one channel of a Hopper moves by protocol, over NVLink and otherwise: 21.0, 16.1 and 5.3 to 7.1; through host memory 14.4
/// and 2.4.
const CHANNEL: [[f64; 3]; 2] = [[5.5, 16.1, 21.0], [2.4, 10.0, 14.4]];
const CHANNEL_RANGE: Range = [0.8, 1.25];

/// What NCCL takes of one channel of a tree, by generation (`perChMaxTreeBws`, one node), for its ratio to a Hopper's: only
/// Hoppers were measured. AMD's are taken for Hopper's.
const CHANNEL_OF: [f64; 5] = [26.5, 24.0, 38.7, 70.0, 38.7];
const OTHER_CHANNEL_RANGE: Range = [0.5, 2.0];

/// Of what NCCL takes of a tree (0.92).
const TREE_RANGE: Range = [0.76, 1.14];

/// Channels that NCCL opens by itself over PCIe and through host memory: two rings, each used twice (`NCCL_DEBUG=INFO`, two H200
/// without peer-to-peer).
const HOST_CHANNELS: u32 = 4;

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
    /// What NVLink SHARP carries, where the machine has it.
    pub nvls: Option<f64>,
}

/// What is uncertain; several predictions of one machine share it.
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

/// One factor at its low or high end; `None` for all at their values.
type Draw = Option<(Factor, bool)>;

/// A collective among GPUs of a machine.
#[derive(Clone, Debug)]
pub struct Tuning<'a> {
    machine: &'a Machine,
    parts: &'a Parts,
    gpus: Vec<NodeId>,
    collective: Collective,
    generation: Generation,
    run: Ranks,
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
        Some(Tuning { machine, parts, gpus, collective, generation, run: Ranks::OneProcess, paths: Vec::new() })
    }

    /// The same with ranks that are run so.
    #[must_use]
    pub fn run_as(mut self, run: Ranks) -> Self {
        self.run = run;
        self
    }

    /// The ranks.
    pub fn gpus(&self) -> &[NodeId] {
        &self.gpus
    }

    /// The collective.
    pub fn collective(&self) -> Collective {
        self.collective
    }

    /// The farthest pairs that use peer-to-peer without a variable.
    pub fn default_level(&self) -> Level {
        default_level(&self.machine.fabric, self.parts, &self.gpus, self.generation)
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
        let machine = with_peers_up_to(self.machine, &self.gpus, level);
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
        let medium = medium(sets.iter().flatten().filter_map(|pair| flows.flow(*pair)))?;
        let share = reached(medium);
        let [rate, slow, fast] = [Some(rate), slow, fast].map(|rate| rate.map(|rate| rate * share));
        let rate = rate?;
        (rate > 0.0 && rate.is_finite()).then(|| Paths {
            medium,
            nvls: nvls_rate(&machine.fabric, self.generation, &self.gpus, rate, self.collective),
            rate,
            low: slow.map_or(rate, |slow| slow.min(rate)),
            high: fast.map_or(rate, |fast| fast.max(rate)),
        })
    }

    /// What is predicted of a message under these settings.
    pub fn predict(&mut self, settings: &Settings, size: Bytes) -> Option<Predicted> {
        let paths = self.paths(settings)?;
        self.drawn(&paths, settings, size, None)
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

    /// The rate of [`Tuning::predict`] with the least and the most that it may be, in bytes a second.
    pub fn interval(&mut self, settings: &Settings, size: Bytes) -> Option<[f64; 3]> {
        let paths = self.paths(settings)?;
        around(|draw| self.drawn(&paths, settings, size, draw).map(|predicted| predicted.rate))
    }

    fn drawn(&self, paths: &Paths, settings: &Settings, size: Bytes, draw: Draw) -> Option<Predicted> {
        let &Tuning { collective, generation, run, .. } = self;
        let (ranks, medium) = (self.gpus.len(), paths.medium);
        let job = Job { collective, ranks, nodes: 1, generation, medium, run, network: 0.0, on_amd: false };
        let carried = Carried::default()
            .with(Algorithm::Ring, Some(paths.rate))
            .with(Algorithm::Tree, Some(paths.rate))
            .with(Algorithm::Nvls, paths.nvls);
        let limit = |_: Algorithm, protocol: Protocol| self.channels(paths, settings, protocol);
        let factors = self.factors(paths, draw);
        if collective == Collective::SendReceive {
            // which heed neither list
            return job.predict(&carried, size, |_, protocol| protocol == Protocol::Simple, limit, factors);
        }
        let nvlink = medium == Medium::Fabric;
        let allowed = |a: Algorithm, p: Protocol| settings.allows_algorithm(a) && settings.allows_protocol(p, nvlink);
        // lists that leave nothing
        let fallback = |a: Algorithm, p: Protocol| (a, p) == (Algorithm::Ring, Protocol::Simple);
        job.predict(&carried, size, allowed, limit, factors)
            .or_else(|| job.predict(&carried, size, fallback, limit, factors))
    }

    fn factors(&self, paths: &Paths, draw: Draw) -> Factors {
        let of = |factor: Factor, [low, high]: Range| match draw {
            Some((moved, true)) if moved == factor => high,
            Some((moved, false)) if moved == factor => low,
            _ => 1.0,
        };
        let [low, high] = REACHED[paths.medium as usize];
        let paths_range = [low * paths.low / paths.rate, high * paths.high / paths.rate];
        let channel = if self.generation == Generation::Hopper { CHANNEL_RANGE } else { OTHER_CHANNEL_RANGE };
        Factors {
            launch: of(Factor::Launch, LAUNCH),
            paths: of(Factor::Paths(paths.medium), paths_range),
            channel: of(Factor::Channel, channel),
            tree: of(Factor::Tree, TREE_RANGE),
        }
    }

    /// Bytes a second that the channels move.
    fn channels(&self, paths: &Paths, settings: &Settings, protocol: Protocol) -> f64 {
        let fabric = paths.medium == Medium::Fabric;
        // those that NCCL opens by itself over NVLink are enough for what the links carry
        let own = (!fabric).then_some(HOST_CHANNELS.max(settings.least_channels.unwrap_or(0)));
        let channels = if self.collective == Collective::SendReceive { own } else { settings.most_channels.or(own) };
        let ratio = CHANNEL_OF[self.generation as usize] / CHANNEL_OF[Generation::Hopper as usize];
        let each = CHANNEL[usize::from(!fabric)][protocol as usize] * ratio * GB;
        channels.map_or(f64::INFINITY, |channels| f64::from(channels) * each)
    }
}

/// A number that depends on what is uncertain, with its ends: each factor alone at both its ends, combined as independent.
fn around(of: impl Fn(Draw) -> Option<f64>) -> Option<[f64; 3]> {
    let value = of(None)?;
    let [mut below, mut above] = [0.0_f64; 2];
    for factor in Factor::ALL {
        let ends = [false, true].map(|high| of(Some((factor, high))));
        let logs = ends.into_iter().flatten().map(|end| (end / value).ln());
        let (low, high) = logs.fold((0.0_f64, 0.0_f64), |(low, high), log| (low.min(log), high.max(log)));
        below = below.hypot(low);
        above = above.hypot(high);
    }
    Some([value, value * (-below).exp(), value * above.exp()])
}

/// The farthest pairs that use peer-to-peer without a variable: those below a PCIe switch, and all where an AMD CPU has at
/// most two GPUs (`ncclTopoCheckP2p`). RCCL uses it between all.
pub fn default_level(fabric: &Fabric, parts: &Parts, gpus: &[NodeId], generation: Generation) -> Level {
    let amd = |gpu: &NodeId| {
        let root = fabric.package(*gpu);
        root.and_then(|cpu| vendor_of(fabric, parts, cpu)) == Some(CpuVendor::Amd)
    };
    let few = fabric.of_kind(NodeKind::Gpu).count() <= 2;
    let all = generation == Generation::Cdna || few && gpus.iter().any(amd);
    if all { Level::System } else { Level::Switches }
}

/// The machine with peer-to-peer between those of these GPUs alone whose path is no farther than a level.
pub fn with_peers_up_to(machine: &Machine, gpus: &[NodeId], level: Level) -> Machine {
    let mut machine = machine.clone();
    let pairs = gpus.iter().flat_map(|a| gpus.iter().filter(move |b| *b != a).map(move |b| (*a, *b)));
    for (a, b) in pairs {
        if machine.fabric.class(a, b).is_none_or(|class| Level::for_class(class) > level) {
            machine.p2p.insert((a, b), P2pStatus::NotSupported);
        }
    }
    machine
}

/// What the slowest of these paths goes over.
pub fn medium<'r>(routes: impl IntoIterator<Item = &'r Route>) -> Option<Medium> {
    let of = |route: &Route| match (route.staged, route.class.is_pcie()) {
        (true, _) => Medium::Host,
        (false, true) => Medium::Pcie,
        (false, false) => Medium::Fabric,
    };
    routes.into_iter().map(of).max()
}

/// What NCCL reaches of what paths over a medium carry.
pub fn reached(medium: Medium) -> f64 {
    if medium == Medium::Pcie { PCIE_REACHED } else { 1.0 }
}

/// The oldest generation of these GPUs.
pub fn generation(fabric: &Fabric, parts: &Parts, gpus: &[NodeId]) -> Generation {
    let of_gpu = |gpu: &NodeId| {
        let part = fabric.node(*gpu).part.as_deref().and_then(|key| parts.get(key));
        if part.is_some_and(|part| part.pci_ids.iter().any(|id| id.starts_with("1002:"))) {
            return Generation::Cdna;
        }
        let links = fabric.links_of(*gpu).iter();
        let bundle = links.filter_map(|(link, _)| fabric.link(*link).kind.bundle(Interconnect::Nvlink)?.generation);
        let pcie = part.and_then(|part| part.pcie).and_then(|pcie| pcie.generation).map(|g| g.number());
        match (part.and_then(|part| part.nvlink_generation).or(bundle.max()), pcie) {
            (Some(5..), _) => Generation::Blackwell,
            (Some(4), _) => Generation::Hopper,
            (Some(3), _) => Generation::Ampere,
            (Some(_), _) => Generation::Volta,
            // without NVLink its PCIe tells: 3.0 up to Turing, 4.0 for Ampere and Ada, 5.0 from Blackwell on
            (None, Some(5..)) => Generation::Blackwell,
            (None, Some(4)) => Generation::Ampere,
            (None, _) => Generation::Volta,
        }
    };
    gpus.iter().map(of_gpu).min().unwrap_or(Generation::Volta)
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
