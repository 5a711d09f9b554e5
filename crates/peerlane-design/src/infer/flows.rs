//! The flows of a machine whose sharing is inferred, and the step that runs some of them at once.

use peerlane_machine::schema::JsonSchema;
use serde::{Deserialize, Serialize};

use peerlane_machine::fabric::NodeKind;
use peerlane_machine::machine::Machine;
use peerlane_machine::transfer::{Transfer, Via};
use peerlane_machine::units::{Bytes, Seconds};
use peerlane_measure::plan::{Method, Plan, Size, Step, Test, Work};

/// A message between a GPU and host memory, as [`Plan::of`]'s steps have it.
const HOST: Size = Size::UpTo(Bytes::from_mib(64));

/// A message between GPUs that share what they run over.
const PEER: Size = Size::UpTo(Bytes::from_mib(256));

/// Wall time of one set, in which its three allocations are sampled. Four H200 GPUs take 0.14 s a set so.
const SET_TIME: f64 = 0.15;

/// How often a set's memory is allocated anew: the repeats that count, since samples of one allocation agree too well.
pub const ALLOCATIONS: usize = 3;

/// Which way flows go; what is shared one way need not be shared another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FlowKind {
    /// From host memory to each GPU.
    HostToDevice,
    /// From each GPU to host memory.
    DeviceToHost,
    /// Each GPU with host memory, both ways at once; a rate is the sum.
    Both,
    /// From each GPU to the one half way round, so that each sends and receives once; through host memory where there is
    /// no direct way.
    GpuToGpu,
}

impl FlowKind {
    /// All of them, in the order in which they are measured.
    pub const ALL: [FlowKind; 4] = [FlowKind::HostToDevice, FlowKind::DeviceToHost, FlowKind::Both, FlowKind::GpuToGpu];

    /// As JSON writes it.
    pub fn name(self) -> &'static str {
        match self {
            FlowKind::HostToDevice => "host-to-device",
            FlowKind::DeviceToHost => "device-to-host",
            FlowKind::Both => "both",
            FlowKind::GpuToGpu => "gpu-to-gpu",
        }
    }

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            FlowKind::HostToDevice => "host → device",
            FlowKind::DeviceToHost => "device → host",
            FlowKind::Both => "host, both ways",
            FlowKind::GpuToGpu => "GPU → GPU",
        }
    }
}

/// Transfers that count as one flow: their rate is the sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// `GPU0`, or `GPU0→GPU2` between GPUs.
    pub name: String,
    /// One, or two of opposite directions.
    pub transfers: Vec<Transfer>,
}

impl Flow {
    /// The flow of one GPU and host memory.
    pub(super) fn with_host(gpu: &str, direction: FlowKind) -> Self {
        let to = Transfer::new("host", gpu);
        let transfers = match direction {
            FlowKind::DeviceToHost => vec![to.reversed()],
            FlowKind::Both => vec![to.clone(), to.reversed()],
            _ => vec![to],
        };
        Flow { name: gpu.to_owned(), transfers }
    }

    /// The same through host memory, for one between GPUs that may have no direct path.
    pub(super) fn staged(&self) -> Option<Self> {
        let between = !self.is_staged() && self.transfers.iter().all(|t| t.gpus().count() == 2);
        let driver = |t: &Transfer| Transfer { via: Via::Driver, ..t.clone() };
        between.then(|| Flow { name: self.name.clone(), transfers: self.transfers.iter().map(driver).collect() })
    }

    /// Whether it goes through host memory.
    pub(super) fn is_staged(&self) -> bool {
        self.transfers.iter().any(|t| t.via == Via::Driver)
    }

    /// The flow from one GPU to another.
    pub(super) fn between(from: &str, to: &str) -> Self {
        Flow { name: format!("{from}→{to}"), transfers: vec![Transfer::new(from, to)] }
    }
}

/// The flows of a machine's GPUs that go one way: one for each GPU. None between GPUs where there is one.
pub fn flows(machine: &Machine, direction: FlowKind) -> Vec<Flow> {
    let fabric = &machine.fabric;
    let gpus: Vec<&str> = fabric.of_kind(NodeKind::Gpu).map(|id| fabric.node(id).name.as_str()).collect();
    let n = gpus.len();
    let flow = |(i, gpu): (usize, &&str)| match direction {
        FlowKind::GpuToGpu => gpus.get((i + n / 2) % n).filter(|to| *to != gpu).map(|to| Flow::between(gpu, to)),
        _ => Some(Flow::with_host(gpu, direction)),
    };
    gpus.iter().enumerate().filter_map(flow).collect()
}

/// A plan of one step: these flows at once.
pub(super) fn plan<'a>(flows: impl Iterator<Item = &'a Flow>) -> Plan {
    let transfers: Vec<Transfer> = flows.flat_map(|flow| flow.transfers.iter().cloned()).collect();
    let between_gpus = |t: &Transfer| t.gpus().count() == 2;
    let (test, size) =
        if transfers.iter().any(between_gpus) { (Test::Permutations, PEER) } else { (Test::Subsets, HOST) };
    let (budget, sample_time) = (Seconds::new(SET_TIME), Seconds::new(2e-3));
    let method = Method { budget, sample_time, allocations: ALLOCATIONS, ..Method::default() };
    let step = Step { test, work: Work::Transfers(transfers), size };
    Plan { method, rounds: vec![vec![step]], skipped: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane_read::catalogue;

    fn names(system: &str, direction: FlowKind) -> Vec<String> {
        let machine = catalogue::system(system).unwrap().unwrap();
        flows(&machine, direction).into_iter().map(|f| f.name).collect()
    }

    #[test]
    fn each_gpu_has_one_flow_a_way() {
        assert_eq!(names("exxact-devbox", FlowKind::Both), ["GPU0", "GPU1", "GPU2", "GPU3"]);
        let between = ["GPU0→GPU2", "GPU1→GPU3", "GPU2→GPU0", "GPU3→GPU1"];
        assert_eq!(names("exxact-devbox", FlowKind::GpuToGpu), between);
        assert_eq!(names("hpcac-tessa", FlowKind::GpuToGpu).len(), names("hpcac-tessa", FlowKind::Both).len());
    }

    #[test]
    fn a_set_is_one_step_with_all_transfers_of_its_flows() {
        let flows = [Flow::with_host("GPU0", FlowKind::Both), Flow::with_host("GPU3", FlowKind::DeviceToHost)];
        let plan = plan(flows.iter());
        let [step] = plan.rounds[0].as_slice() else { panic!("{plan:?}") };
        let Work::Transfers(transfers) = &step.work else { panic!("{step:?}") };
        let words: Vec<String> = transfers.iter().map(ToString::to_string).collect();
        assert_eq!(words, ["host → GPU0", "GPU0 → host", "GPU3 → host"]);
        assert_eq!(step.test, Test::Subsets);
    }
}
