//! Designs and runs side by side: the same figures of each, predicted, with what was measured or published.
//!
//! `docs/compare.md` defines every figure. One file holds one figure or one family of them; all are answers of
//! [`peerlane_model::model`] to sets of transfers, so that what binds is always named.

mod bisection;
mod changes;
mod conclusion;
mod full_width;
mod lanes;
mod latency;
mod measured;
mod memory;
mod nic;
mod pairs;
mod ring;
#[cfg(test)]
mod tests;
mod together;

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

pub use bisection::Bisection;
pub use changes::{Changed, Changes};
pub use full_width::FullWidth;
pub use lanes::Lanes;
pub use latency::{ClassLatency, Latency, PredictedLatency};
pub use measured::{MeasuredAlone, MeasuredRates, MeasuredValue};
pub use memory::GpuMemory;
pub use nic::{GpuNic, NicClass, NicMessage, NicRates};
pub use pairs::{Alone, Reach};
pub use ring::AllReduce;
pub use together::{AllToAll, AllToOne, Figure, Together};

use crate::upgrades::{Upgrade, upgrades};
use peerlane_machine::machine::{Facts, Machine};
use peerlane_machine::matrix::{Direction, Engine, Operation};
use peerlane_measure::run::Run;
use peerlane_model::assumptions::Assumptions;
use peerlane_model::flows::Flows;
use peerlane_model::model::{Assume, Model, PeerAccess, Transfer};
use peerlane_read::catalogue::Parts;

/// Up to so many GPUs all pairs, splits and rings are looked at; of more, only what goes with host memory.
pub const MOST_COMPARED: usize = 128;

/// One machine to be compared.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'s> {
    /// What the comparison calls it; no two alike.
    pub name: &'s str,
    /// The machine.
    pub machine: &'s Machine,
    /// The run that measured it, if there is one.
    pub run: Option<&'s Run>,
}

/// What `compare --json` writes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ComparisonDocument {
    /// Names this format.
    #[schemars(extend("const" = "peerlane/comparison/2"))]
    pub schema: &'static str,
    /// The designs, in the order given.
    pub designs: Vec<Design>,
    /// What follows, in sentences that cite the figures.
    pub conclusion: Vec<String>,
    /// Of two records of one machine, what changed from the first to the second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
}

/// The figures of one design. Rates are in GB/s of 10⁹ bytes; an unknown figure is null.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Design {
    /// What it is called here.
    pub name: String,
    /// What it is.
    pub title: Option<String>,
    /// How many GPUs.
    pub gpus: usize,
    /// One GPU to another, every ordered pair alone.
    pub pair: Option<Alone>,
    /// Two GPUs both ways at once, summed, every pair alone.
    pub pair_both_ways: Option<Alone>,
    /// The worst even split.
    pub bisection: Option<Bisection>,
    /// Every GPU to every other.
    pub all_to_all: Option<AllToAll>,
    /// All GPUs but one to that one at once.
    pub all_to_one: Option<AllToOne>,
    /// Rings of an all-reduce.
    pub ring_all_reduce: Option<AllReduce>,
    /// Host memory to a GPU, each alone.
    pub from_host: Option<Alone>,
    /// A GPU to host memory, each alone.
    pub to_host: Option<Alone>,
    /// Host memory to every GPU at once, from the memory nearest to each.
    pub host_feed: Option<Together>,
    /// Every GPU to host memory at once.
    pub host_drain: Option<Together>,
    /// Latencies between GPUs that were measured or published.
    pub latency: Option<Latency>,
    /// The same, predicted.
    pub predicted_latency: Option<PredictedLatency>,
    /// Both by path class, the nearest first.
    pub latency_by_class: Vec<ClassLatency>,
    /// GPUs' own memories.
    pub gpu_memory: Option<GpuMemory>,
    /// GPUs and RDMA NICs.
    pub gpu_nic: Option<GpuNic>,
    /// What was measured or published of single transfers, also where nothing is predicted.
    pub measured: MeasuredRates,
    /// Which GPUs reach which directly.
    pub reach: Option<Reach>,
    /// PCIe lanes.
    pub lanes: Lanes,
    /// Price, size, power and computing rate, as a source states them.
    pub facts: Facts,
    /// What would raise the rate of the worst pair, the greatest rise first.
    pub upgrades: Vec<Upgrade>,
    /// What it would be with every link of its GPUs as wide as slots and parts allow, where some are narrower.
    pub full_width: Option<FullWidth>,
    /// Why figures are missing.
    pub unknown: Vec<String>,
    /// What was assumed where no source states it, and figures depend on.
    pub assumptions: Vec<String>,
}

/// Compares them.
pub fn compare(subjects: &[Subject], parts: &Parts) -> ComparisonDocument {
    let designs: Vec<Design> = subjects.iter().map(|s| design(s, parts)).collect();
    let conclusion = conclusion::sentences(&designs);
    let changes = match subjects {
        [Subject { machine: one, run: Some(before), .. }, Subject { machine: other, run: Some(after), .. }]
            if one.name == other.name =>
        {
            changes::changes(before, after)
        }
        _ => None,
    };
    ComparisonDocument { schema: "peerlane/comparison/2", designs, conclusion, changes }
}

/// All figures of one.
fn design(subject: &Subject, parts: &Parts) -> Design {
    let Subject { name, machine, run } = *subject;
    let assumed = Assumptions::of(machine, parts);
    let model = assumed.model(parts, Assume::Usual);
    let gpus = machine.fabric.of_kind(peerlane_machine::fabric::NodeKind::Gpu).count();
    let mut design = Design {
        name: name.to_owned(),
        title: machine.title.clone(),
        gpus,
        lanes: lanes::lanes(machine, parts),
        facts: machine.facts,
        assumptions: assumed.sentences(&model),
        ..Design::default()
    };
    if gpus <= MOST_COMPARED {
        design.among_gpus(&model);
        design.full_width = full_width::full_width(&model);
    } else {
        design.unknown.push(format!("{gpus} GPUs: what is among more than {MOST_COMPARED} is not looked at"));
    }
    design.with_host(&model, gpus);
    design.measured.local = measured::local(machine);
    design.gpu_memory = memory::gpu_memory(&model, &design.measured.local);
    design.gpu_nic = nic::gpu_nic(&model);
    design.measured.nic_loopback = measured::nics(machine, true);
    design.measured.nic_to_nic = measured::nics(machine, false);
    design.measured.gpu_out = measured::gpus_with_nics(machine, false, false);
    design.measured.gpu_out_staged = measured::gpus_with_nics(machine, false, true);
    design.measured.gpu_back = measured::gpus_with_nics(machine, true, false);
    design.measured.gpu_back_staged = measured::gpus_with_nics(machine, true, true);
    if let Some(run) = run {
        design.measured_sets(run);
    }
    design
}

impl Design {
    fn among_gpus(&mut self, model: &Model) {
        let flows = Flows::new(model, Engine::Ce);
        self.unknown.extend(flows.unknown.clone());
        let measured = |direction| measured::pairs(&flows, direction);
        self.measured.pair = measured(Direction::Unidirectional);
        self.measured.pair_both_ways = measured(Direction::Bidirectional);
        let pairs = |direction, measured| Some(pairs::among(&flows, direction)?.with_measured(measured));
        self.pair = pairs(Direction::Unidirectional, &self.measured.pair);
        self.pair_both_ways = pairs(Direction::Bidirectional, &self.measured.pair_both_ways);
        self.bisection = bisection::bisection(&flows);
        self.all_to_all = together::all_to_all(&flows);
        self.all_to_one = together::all_to_one(&flows);
        // NCCL's rings are driven by kernels
        self.ring_all_reduce = ring::all_reduce(&Flows::new(model, Engine::Sm));
        if let Some(ring) = &mut self.ring_all_reduce {
            ring.figure.measured = measured::all_reduce(model.machine, flows.gpus());
        }
        let latencies = latency::latencies(&flows);
        self.latency = latencies.measured;
        self.predicted_latency = latencies.predicted;
        self.latency_by_class = latencies.by_class;
        self.reach = pairs::reach(&flows);
        if let Some(worst) = &self.pair {
            let find = |name: &String| model.machine.fabric.find(name);
            let [a, b] = &worst.worst_pair;
            if let (Some(source), Some(destination)) = (find(a), find(b)) {
                let (engine, op, peer) = (Engine::Ce, Operation::Write, PeerAccess::Enabled);
                self.upgrades = upgrades(model, &Transfer { source, destination, engine, op, peer });
            }
        }
    }

    fn with_host(&mut self, model: &Model, gpus: usize) {
        self.measured.from_host = measured::host(model.machine, true);
        self.measured.to_host = measured::host(model.machine, false);
        let host = |from_host, measured| Some(pairs::host(model, from_host)?.with_measured(measured));
        self.from_host = host(true, &self.measured.from_host);
        self.to_host = host(false, &self.measured.to_host);
        self.host_feed = together::host_feed(model, true);
        self.host_drain = together::host_feed(model, false);
        if self.from_host.is_none() && gpus > 0 {
            self.unknown.push("no path with a known rate leads from host memory to all GPUs".to_owned());
        }
    }

    /// Sets that a run measured.
    fn measured_sets(&mut self, run: &Run) {
        if let Some(all_to_one) = &mut self.all_to_one {
            all_to_one.worst.measured = measured::all_to_one(run, self.gpus);
        }
        for (together, from_host) in [(&mut self.host_feed, true), (&mut self.host_drain, false)] {
            if let (Some(together), Some((sum, slowest))) = (together, measured::host_feed(run, self.gpus, from_host)) {
                (together.sum.measured, together.slowest.measured) = (Some(sum), Some(slowest));
            }
        }
    }
}

impl Alone {
    /// With what was measured or published of the same.
    fn with_measured(mut self, measured: &Option<MeasuredAlone>) -> Self {
        if let Some(MeasuredAlone { worst, mean, .. }) = measured {
            self.worst.measured = Some(worst.clone());
            self.mean.measured = Some(mean.clone());
        }
        self
    }
}
