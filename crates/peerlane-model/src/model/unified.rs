//! Unified memory: what a GPU moves over the link to host memory by prefetch, by page faults and by direct access, and what a pass
//! over data costs that does not fit into GPU memory.
//!
//! The driver handles pages one after another with the transfer, so each byte takes its time on the link and a time in the driver:
//! 1/rate = 1/link + 1/driver. The driver's rates were measured on an H100 SXM5 and an H200 at PCIe 5.0 x16, each in a virtual
//! machine (driver 580.159, Linux 6.18, 4 GiB of `cudaMallocManaged`, three repetitions; `scripts/gpu/unified_memory.cu`), whose
//! copies reach 54.7 to 55.5 GB/s. No machine of another host or link has tested them: their ranges are wide.

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use super::resources::part_of;
use super::{Model, PeerAccess, Transfer};
use peerlane_machine::fabric::{Interconnect, LinkKind, NodeId, NodeKind};
use peerlane_machine::matrix::{Engine, Operation};

/// What the driver adds to the link, in GB/s: least, likely, most.
struct Driver {
    rates: [f64; 3],
    why: &'static str,
}

/// 42.5 to 48.3 GB/s measured of the H100 and 48.0 to 50.9 of the H200 leave 190 to 620.
const PREFETCH: Driver =
    Driver { rates: [60.0, 350.0, 700.0], why: "cudaMemPrefetchAsync; H100 and H200: 42.5 to 50.9" };
/// 9.4 to 10.5 and 14.7 to 20.4 GB/s measured leave 11.4 to 32.
const PREFETCH_BACK: Driver = Driver {
    rates: [4.0, 16.0, 40.0],
    why: "cudaMemPrefetchAsync, which allocates pages of the host; H100 and H200: 9.4 to 20.4",
};
/// 5.7 to 9.0 and 8.8 to 13.8 GB/s measured (reads and updates in order, scattered pages of 4 KiB alike) leave 6.4 to 18.
const FAULTS: Driver = Driver { rates: [2.5, 10.0, 20.0], why: "page faults of a kernel; H100 and H200: 5.7 to 13.8" };
/// 26.3 to 30.6 and 33.0 to 36.6 GB/s of updates in order, prefetched by 64 MiB while as much is evicted, leave 50 to 107.
const EVICTING: Driver =
    Driver { rates: [15.0, 65.0, 120.0], why: "prefetched in order, evicting as much; H100 and H200: 26.3 to 36.6" };

/// Families of GPUs before page faults: Pascal was the first with them.
const WITHOUT_FAULTS: [&str; 3] = ["fermi", "kepler", "maxwell"];

/// How far data exceeds GPU memory, as shares of that memory.
const EXCESS: [f64; 4] = [0.1, 0.25, 0.5, 1.0];

/// What unified memory moves between a GPU and host memory.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct UnifiedMemory {
    /// The GPU.
    pub gpu: String,
    /// The host memory.
    pub host: String,
    /// Ways to move data, or to do without moving it.
    pub rates: Vec<UnifiedRate>,
    /// What a pass over data costs that exceeds GPU memory.
    pub passes: Vec<UnifiedPass>,
    /// What else to know.
    pub remarks: Vec<String>,
}

/// One way to reach data in host memory.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct UnifiedRate {
    /// Which.
    pub method: UnifiedMethod,
    /// GB/s.
    pub rate: f64,
    /// The least that it may be.
    pub low: f64,
    /// The most.
    pub high: f64,
    /// Where that is from.
    pub why: String,
}

/// A way to reach data in host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UnifiedMethod {
    /// `cudaMemPrefetchAsync` to the GPU, before a kernel starts.
    Prefetch,
    /// `cudaMemPrefetchAsync` to the host.
    PrefetchBack,
    /// A kernel touches pages that are in host memory, and the driver moves them.
    Faults,
    /// A kernel reads host memory, and nothing moves: advice, or a coherent link.
    Direct,
    /// Prefetch of the next part while as much is evicted.
    PrefetchEvicting,
}

impl UnifiedMethod {
    /// As printed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prefetch => "prefetch",
            Self::PrefetchBack => "prefetch back",
            Self::Faults => "page faults",
            Self::Direct => "direct access",
            Self::PrefetchEvicting => "prefetch, evict",
        }
    }
}

/// A pass over data, in order, by one method: GB/s of all data, by its excess over GPU memory.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct UnifiedPass {
    /// The method.
    pub method: UnifiedMethod,
    /// For each excess (the first of each pair, as a share of GPU memory) the GB/s of data passed over.
    pub rates: Vec<[f64; 2]>,
    /// Where the moved bytes come from.
    pub why: String,
}

/// Describes unified memory between two nodes; `None` unless one is a GPU of NVIDIA since Pascal and the other host memory, and the
/// link between them has a known rate.
pub fn unified_memory(model: &Model, a: NodeId, b: NodeId) -> Option<UnifiedMemory> {
    let fabric = &model.machine.fabric;
    let kind = |n: NodeId| fabric.node(n).kind;
    let (gpu, host) = match (kind(a), kind(b)) {
        (NodeKind::Gpu, NodeKind::Host) => (a, b),
        (NodeKind::Host, NodeKind::Gpu) => (b, a),
        _ => return None,
    };
    if !has_faults(model, gpu) {
        return None;
    }
    let link = |from, to, engine| link_rate(model, from, to, engine);
    let (to_gpu, to_host) = (link(host, gpu, Engine::Ce)?, link(gpu, host, Engine::Ce)?);
    let with = |method, link, driver: &Driver| {
        let [low, rate, high] = joined(link, driver);
        UnifiedRate { method, rate, low, high, why: driver.why.to_owned() }
    };
    let mut rates = vec![
        with(UnifiedMethod::Prefetch, to_gpu, &PREFETCH),
        with(UnifiedMethod::Faults, to_gpu, &FAULTS),
        with(UnifiedMethod::PrefetchBack, to_host, &PREFETCH_BACK),
    ];
    let coherent = is_coherent(model, gpu, host);
    let direct = link(host, gpu, Engine::Sm);
    if let Some([low, rate, high]) = direct {
        let why = if coherent {
            "loads over the coherent link, of any host memory"
        } else {
            "loads over the link, of pages advised to stay"
        };
        rates.push(UnifiedRate { method: UnifiedMethod::Direct, rate, low, high, why: why.to_owned() });
    }
    let memory = model.memory_rate(gpu).map_or(f64::INFINITY, |rate| rate.gb());
    let all = |method, driver: &Driver, why: &str| {
        let [_, rate, _] = joined(to_gpu, driver);
        UnifiedPass { method, rates: EXCESS.map(|excess| [excess, rate]).to_vec(), why: why.to_owned() }
    };
    let mut passes = vec![
        all(UnifiedMethod::Faults, &FAULTS, "everything moves: what is evicted is what comes next"),
        all(UnifiedMethod::PrefetchEvicting, &EVICTING, "everything moves"),
    ];
    if let Some([_, rate, _]) = direct {
        let rates = EXCESS.map(|excess| [excess, partly(excess, rate, memory)]).to_vec();
        passes.push(UnifiedPass {
            method: UnifiedMethod::Direct,
            rates,
            why: "only what does not fit crosses the link".to_owned(),
        });
    }
    let mut remarks = vec![
        "the driver's rates were measured on an H100 and an H200 at PCIe 5.0 x16; elsewhere they may be outside their ranges".to_owned(),
    ];
    if coherent {
        remarks.push(
            "on a coherent link memory of malloc needs no faults; rates of faults are those of cudaMallocManaged"
                .to_owned(),
        );
    }
    let name = |n: NodeId| fabric.node(n).name.clone();
    Some(UnifiedMemory { gpu: name(gpu), host: name(host), rates, passes, remarks })
}

/// GB/s of all data where what exceeds GPU memory is read from host memory: the one after the other.
fn partly(excess: f64, direct: f64, memory: f64) -> f64 {
    (1.0 + excess) / (excess / direct + 1.0 / memory)
}

/// Whether a GPU's product is known to have page faults.
fn has_faults(model: &Model, gpu: NodeId) -> bool {
    let part = part_of(&model.machine.fabric, model.parts, gpu);
    let families = std::iter::successors(part, |part| model.parts.get(part.extends.as_deref()?));
    let names: Vec<&str> = families.take(8).map(|part| part.name.as_str()).collect();
    names.contains(&"nvidia-gpu") && !names.iter().any(|name| WITHOUT_FAULTS.contains(name))
}

/// Least, likely and most GB/s of a transfer alone.
fn link_rate(model: &Model, source: NodeId, destination: NodeId, engine: Engine) -> Option<[f64; 3]> {
    let asked = Transfer { source, destination, engine, op: Operation::Write, peer: PeerAccess::Enabled };
    let answers = model.solve_with_interval(&[asked]).ok()?;
    let (answer, [low, high]) = answers.first()?;
    Some([low.gb(), answer.rate.gb(), high.gb()])
}

/// The link and the driver, one after the other.
fn joined(link: [f64; 3], driver: &Driver) -> [f64; 3] {
    std::array::from_fn(|i| 1.0 / (1.0 / link[i] + 1.0 / driver.rates[i]))
}

/// Whether a GPU reads host memory coherently: over C2C, and over NVLink 2 from a CPU.
fn is_coherent(model: &Model, gpu: NodeId, host: NodeId) -> bool {
    let fabric = &model.machine.fabric;
    let path = fabric.path(gpu, host);
    let hops = path.map(|path| path.hops).unwrap_or_default();
    hops.iter().any(|hop| match &fabric.link(hop.link).kind {
        LinkKind::Gpu(link) => match link.interconnect {
            Interconnect::C2c => true,
            Interconnect::Nvlink => link.generation >= Some(2),
            _ => false,
        },
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane_read::catalogue::{Parts, read_system, system};

    fn of(machine: &peerlane_machine::machine::Machine, gpu: &str) -> Option<UnifiedMemory> {
        let model = Model::new(machine, Parts::embedded());
        let gpu = machine.fabric.find(gpu).unwrap();
        unified_memory(&model, gpu, machine.fabric.nearest_host(gpu).unwrap())
    }

    fn named(name: &str, gpu: &str) -> Option<UnifiedMemory> {
        of(&system(name).unwrap().unwrap(), gpu)
    }

    fn one(part: &str, link: &str) -> Option<UnifiedMemory> {
        let text = format!(
            "name = \"one\"\n[nodes]\ncpu0 = {{ part = \"sapphire-rapids\" }}\nGPU0 = {{ part = \"{part}\" }}\n[[links]]\n\
             between = [\"cpu0\", \"GPU0\"]\npcie = \"{link}\"\n"
        );
        of(&read_system(&text, "one").unwrap(), "GPU0")
    }

    fn rate(found: &UnifiedMemory, method: UnifiedMethod) -> &UnifiedRate {
        found.rates.iter().find(|rate| rate.method == method).unwrap()
    }

    #[test]
    fn the_machines_that_were_measured_are_met() {
        for part in ["h100-sxm5", "h200"] {
            let found = one(part, "5.0 x16").unwrap();
            // least and most of both
            for (method, low, high) in [
                (UnifiedMethod::Prefetch, 42.5, 50.9),
                (UnifiedMethod::Faults, 5.7, 13.8),
                (UnifiedMethod::PrefetchBack, 9.4, 20.4),
                (UnifiedMethod::Direct, 50.5, 51.4),
            ] {
                let expected = rate(&found, method);
                assert!(expected.low < low && expected.high > high, "{part}: {expected:?}");
                // the model's rate of a kernel's reads is low here, inside its interval
                let fits = (0.9 * low..1.1 * high).contains(&expected.rate);
                assert!(fits || method == UnifiedMethod::Direct, "{part}: {expected:?}");
            }
        }
    }

    #[test]
    fn a_faster_link_helps_prefetch_and_hardly_faults() {
        let (xeon, power) = (named("microway-p100-pcie", "GPU0").unwrap(), named("microway-s822lc", "GPU0").unwrap());
        let gain = |method| rate(&power, method).rate / rate(&xeon, method).rate;
        assert!(gain(UnifiedMethod::Prefetch) > 2.0, "{}", gain(UnifiedMethod::Prefetch));
        assert!((1.0..1.8).contains(&gain(UnifiedMethod::Faults)), "{}", gain(UnifiedMethod::Faults));
        // 2 to 5 GB/s at PCIe 3.0
        let faults = rate(&xeon, UnifiedMethod::Faults);
        assert!(faults.low < 2.5 && faults.rate < 6.0, "{faults:?}");
    }

    #[test]
    fn data_that_does_not_fit_moves_as_a_whole_unless_it_stays() {
        let found = one("h100-sxm5", "5.0 x16").unwrap();
        let pass = |method| found.passes.iter().find(|pass| pass.method == method).unwrap();
        let faults = pass(UnifiedMethod::Faults);
        assert_eq!(faults.rates[0][1], faults.rates[3][1]);
        let evicting = pass(UnifiedMethod::PrefetchEvicting).rates[1][1];
        assert!((26.0..35.0).contains(&evicting), "{evicting}");
        let direct = &pass(UnifiedMethod::Direct).rates;
        assert!(direct[0][1] > 300.0 && direct[3][1] < 110.0, "{direct:?}");
        assert!(direct.windows(2).all(|pair| pair[0][1] > pair[1][1]), "{direct:?}");
    }

    #[test]
    fn data_that_stays_in_host_memory_is_predicted() {
        // an H200 of which the last part of the data stays in host memory, by its rates of direct reads and its memory
        for (rest, all, measured) in
            [(1.28, 9.40, 353.0), (2.55, 10.67, 207.6), (4.70, 12.82, 137.6), (8.99, 17.11, 96.9)]
        {
            let predicted = partly(rest / (all - rest), 51.4, 4300.0);
            assert!((predicted / measured - 1.0_f64).abs() < 0.01, "{predicted} is not {measured}");
        }
    }

    #[test]
    fn gpus_without_faults_have_none() {
        assert!(one("titan-x-maxwell", "3.0 x16").is_none());
        assert!(one("mi250", "4.0 x16").is_none());
        assert!(one("gtx-1070", "3.0 x16").is_some());
        assert!(one("gtx-1070", "?").is_none());
    }
}
