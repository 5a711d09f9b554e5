//! All that is known of RDMA between a GPU and a NIC, as `explain` shows it.

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use super::constants::{Card, GpuMemory, node_part};
use super::path::{NicPath, method_in_use, nic_path, nic_path_with, nic_paths, staged_at};
use super::{Message, Method, Network, NicDirection, Pipeline, RdmaError, ReadEngine, ReceiveEngine, Span, Stage};
use crate::model::Model;
use peerlane_machine::fabric::{NodeId, NodeKind, PathClass};
use peerlane_machine::units::{Bytes, Rate, Seconds};

/// The message sizes of curves: powers of 8 from 8 B to 16 MiB.
const SIZES: [Bytes; 8] = [
    Bytes(8),
    Bytes(64),
    Bytes(512),
    Bytes(4 << 10),
    Bytes(32 << 10),
    Bytes(256 << 10),
    Bytes(2 << 20),
    Bytes(16 << 20),
];

/// RDMA between a GPU and a NIC.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RdmaDescription {
    /// The GPU.
    pub gpu: String,
    /// The NIC.
    pub nic: String,
    /// The method that the model uses; null where no direct one is available and none was chosen.
    pub in_use: Option<Method>,
    /// Why this one.
    pub in_use_because: String,
    /// The methods by which the NIC reads GPU memory, and sends.
    pub to_network: Vec<RdmaMethod>,
    /// The methods by which it writes to GPU memory what it receives.
    pub from_network: Vec<RdmaMethod>,
    /// Messages between this node and one like it, beside each other; empty where no path has a rate.
    pub between_like_nodes: Vec<LikeNodes>,
    /// How a staged message is divided, and how it were best; null where no staged path has a rate.
    pub staging: Option<RdmaStaging>,
    /// What the revisions of the card's GPU-read engine reach with this GPU; empty for cards without one.
    pub read_engines: Vec<EngineRevision>,
    /// What those of its receive engine let through; empty for cards without one.
    pub receive_engines: Vec<ReceiveRevision>,
    /// Rates by message size that were measured or published between the two, with what the model expects of messages
    /// that follow each other without a pause.
    pub measured: Vec<RdmaMeasured>,
}

/// Staged messages between this node and one like it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RdmaStaging {
    /// The division that the rates of staged messages are for.
    pub pipeline: Pipeline,
    /// The best size of a chunk by size of message, with as many in flight.
    pub best: Vec<RdmaBestChunk>,
}

/// The best division of one size.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct RdmaBestChunk {
    /// Bytes of a message.
    pub size: Bytes,
    /// The power of two of 4 KiB and more with which a message alone takes the least time; of equals, the largest.
    pub chunk: Bytes,
    /// That time, in seconds.
    pub time: Seconds,
    /// The time with the division in use, in seconds.
    pub time_as_divided: Seconds,
    /// The time of the fastest direct method, in seconds; null where there is none.
    pub time_direct: Option<Seconds>,
}

/// A measured or published series of rates by message size.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RdmaMeasured {
    /// The program, and the column's name: `ib_write_bw, BW average`.
    pub what: String,
    /// Its points.
    pub points: Vec<RdmaMeasuredPoint>,
}

/// One size of it.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct RdmaMeasuredPoint {
    /// Bytes of a message.
    pub size: Bytes,
    /// GB/s seen.
    pub rate: f64,
    /// GB/s expected, directly, by the faster method.
    pub expected: f64,
}

/// One method, one way.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RdmaMethod {
    /// The method.
    pub method: Method,
    /// Why it is not to be had; null where it is, and then the rest is known.
    pub not_offered: Option<String>,
    /// GB/s of a message without end.
    pub rate: Option<f64>,
    /// What binds it.
    pub bottleneck: Option<String>,
    /// All limits, the tightest first.
    pub limits: Vec<RdmaLimit>,
    /// What a message waits for at this node, in order.
    pub stages: Vec<RdmaStage>,
    /// What is done once for a buffer.
    pub setup: Vec<RdmaStage>,
    /// Messages by size.
    pub curve: Vec<RdmaPoint>,
    /// What else to know.
    pub remarks: Vec<String>,
}

/// One limit.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RdmaLimit {
    /// What limits.
    pub what: String,
    /// GB/s.
    pub rate: f64,
}

/// One stage.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RdmaStage {
    /// What happens.
    pub name: String,
    /// How long it takes, in seconds.
    pub time: Span,
    /// Where that is from.
    pub why: String,
    /// Whether it is assumed.
    pub assumed: bool,
}

/// One size of a curve.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct RdmaPoint {
    /// Bytes of a message.
    pub size: Bytes,
    /// Its time alone.
    pub time: Span,
    /// GB/s of such messages one behind another.
    pub rate: f64,
}

/// Messages between two like nodes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LikeNodes {
    /// The method at both ends.
    pub method: Method,
    /// Time of an empty message.
    pub latency: Span,
    /// The stages that add up to it.
    pub stages: Vec<RdmaStage>,
    /// GB/s of a message without end.
    pub rate: f64,
    /// What binds it.
    pub bottleneck: String,
    /// By size.
    pub curve: Vec<RdmaPoint>,
    /// When registering a buffer at both ends has paid; null where nothing is registered, and where staging is faster.
    pub repaid: Option<Repaid>,
    /// The least power of two, up to 1 GiB, at which a staged message alone takes less time; null where none does.
    pub staging_from: Option<Bytes>,
}

/// Messages by size from a GPU to the same one of a like node, through a NIC, by every method.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct NicMessages {
    /// The GPU.
    pub gpu: String,
    /// The NIC.
    pub nic: String,
    /// The class of the path between the two; null where none is known.
    pub class: Option<PathClass>,
    /// The methods, host memory first; not one where no path has a rate.
    pub methods: Vec<LikeNodes>,
}

impl NicMessages {
    /// What the model says of messages of these sizes.
    pub fn of(model: &Model, gpu: NodeId, nic: NodeId, sizes: &[Bytes]) -> Self {
        let fabric = &model.machine.fabric;
        let name = |n: NodeId| fabric.node(n).name.clone();
        let methods = between(model, gpu, nic, sizes);
        NicMessages { gpu: name(gpu), nic: name(nic), class: fabric.class(gpu, nic), methods }
    }
}

/// After how many messages a direct path, with its registration, has taken less time than staging.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Repaid {
    /// Bytes of a message.
    pub size: Bytes,
    /// At the least time of registration and the most of staging.
    pub fewest: u64,
    /// At the most time of registration and the least of staging.
    pub most: u64,
}

/// A revision of a GPU-read engine.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct EngineRevision {
    /// The revision.
    pub engine: ReadEngine,
    /// Whether the card has it.
    pub fitted: bool,
    /// GB/s at the sizes of the curves, messages one behind another.
    pub curve: Vec<RdmaPoint>,
    /// GB/s of a message without end.
    pub rate: f64,
}

/// A revision of a receive engine.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ReceiveRevision {
    /// The revision.
    pub engine: ReceiveEngine,
    /// Whether the card has it.
    pub fitted: bool,
    /// The most that it lets through, GB/s; for the original one a bound, since no number of it is published.
    pub at_most: f64,
    /// What binds.
    pub bottleneck: String,
}

/// Describes RDMA between two nodes; `None` unless one is a GPU and the other a NIC.
pub fn describe(model: &Model, a: NodeId, b: NodeId) -> Option<RdmaDescription> {
    let fabric = &model.machine.fabric;
    let kind = |n: NodeId| fabric.node(n).kind;
    let (gpu, nic) = match (kind(a), kind(b)) {
        (NodeKind::Gpu, NodeKind::Nic) => (a, b),
        (NodeKind::Nic, NodeKind::Gpu) => (b, a),
        _ => return None,
    };
    let ways = |way| -> Vec<RdmaMethod> {
        nic_paths(model, gpu, nic, way).into_iter().map(|(m, path)| method(m, path)).collect()
    };
    let name = |n: NodeId| fabric.node(n).name.clone();
    let (to_network, from_network) = (ways(NicDirection::ToNetwork), ways(NicDirection::FromNetwork));
    let (read_engines, receive_engines) = (read_revisions(model, gpu, nic), receive_revisions(model, nic));
    let between_like_nodes = between(model, gpu, nic, &SIZES);
    let measured = measured(model, gpu, nic);
    let in_use = method_in_use(model, gpu, nic);
    let in_use = Some(in_use).filter(|used| to_network.iter().any(|m| m.method == *used && m.not_offered.is_none()));
    let chosen = fabric.node(nic).method.map(|method| format!("{} was chosen for {}", method.written(), name(nic)));
    let in_use_because = chosen.unwrap_or_else(|| because(in_use, &to_network));
    Some(RdmaDescription {
        in_use,
        in_use_because,
        staging: staging(model, gpu, nic),
        gpu: name(gpu),
        nic: name(nic),
        to_network,
        from_network,
        between_like_nodes,
        read_engines,
        receive_engines,
        measured,
    })
}

/// Why a method is used that nobody chose.
fn because(in_use: Option<Method>, methods: &[RdmaMethod]) -> String {
    let Some(in_use) = in_use else { return "no direct method is available".to_owned() };
    let direct = |m: &&RdmaMethod| matches!(m.method, Method::Nvp2p | Method::Bar1);
    let other = methods.iter().filter(direct).find(|m| m.method != in_use).filter(|m| m.not_offered.is_none());
    match other {
        Some(other) => format!("reads GPU memory at least as fast as {}, the other direct method", other.method),
        None => "the only direct method here".to_owned(),
    }
}

/// The chunks that are tried, the largest first.
const CHUNKS: [Bytes; 13] = {
    let mut all = [Bytes(16 << 20); 13];
    let mut at = 1;
    while at < all.len() {
        all[at] = Bytes(all[at - 1].0 / 2);
        at += 1;
    }
    all
};

fn staging(model: &Model, gpu: NodeId, nic: NodeId) -> Option<RdmaStaging> {
    let in_use = staged_at(model, nic);
    let Method::Staged(pipeline) = in_use else { return None };
    let message = |method| message(model, gpu, nic, method);
    let divided = message(in_use)?;
    let tried = CHUNKS.map(|chunk| (chunk, message(Method::Staged(Pipeline { chunk, ..pipeline }))));
    let direct: Vec<Message> = [Method::Nvp2p, Method::Bar1].into_iter().filter_map(message).collect();
    let seconds = |message: &Message, size: Bytes| message.time(size).likely;
    let least = |a: Seconds, b: Seconds| if b.seconds() < a.seconds() { b } else { a };
    let best = |size: Bytes| {
        let tried = tried.iter().filter_map(|(chunk, message)| Some((*chunk, seconds(message.as_ref()?, size))));
        // rounding must not make a smaller chunk the better one
        let (chunk, time) = tried.reduce(|a, b| if b.1.seconds() < a.1.seconds() * (1.0 - 1e-9) { b } else { a })?;
        Some(RdmaBestChunk {
            size,
            chunk: chunk.min(Bytes(size.0.next_power_of_two())),
            time,
            time_as_divided: seconds(&divided, size),
            time_direct: direct.iter().map(|message| seconds(message, size)).reduce(least),
        })
    };
    let sizes = [4 << 10, 64 << 10, 1 << 20, 16 << 20].map(Bytes);
    Some(RdmaStaging { pipeline, best: sizes.into_iter().filter_map(best).collect() })
}

/// A message from a GPU to the same one of a like node.
fn message(model: &Model, memory: NodeId, nic: NodeId, method: Method) -> Option<Message> {
    let from = nic_path(model, memory, nic, NicDirection::ToNetwork, method).ok()?;
    let to = nic_path(model, memory, nic, NicDirection::FromNetwork, method).ok()?;
    Message::new(from, Network::NEXT, to).ok()
}

/// The machine's curves whose ends are these two, the first being where the data comes from.
fn measured(model: &Model, gpu: NodeId, nic: NodeId) -> Vec<RdmaMeasured> {
    let ends = |way| match way {
        NicDirection::ToNetwork => [gpu, nic],
        NicDirection::FromNetwork => [nic, gpu],
    };
    let mut all = Vec::new();
    for way in [NicDirection::ToNetwork, NicDirection::FromNetwork] {
        let direct = [Method::Nvp2p, Method::Bar1].map(|m| nic_path(model, gpu, nic, way, m).ok());
        let direct: Vec<NicPath> = direct.into_iter().flatten().collect();
        let expected = |size: Bytes| direct.iter().map(|path| path.rate_at(size).gb()).max_by(f64::total_cmp);
        let names = ends(way).map(|n| model.machine.fabric.node(n).name.as_str());
        for (curve, _) in model.machine.curves.iter().filter(|(curve, _)| curve.ends == names) {
            for series in &curve.series {
                let seen = |(size, value): (&Bytes, &Option<f64>)| {
                    let rate = series.unit?.rate((*value)?)?.gb();
                    Some(RdmaMeasuredPoint { size: *size, rate, expected: expected(*size)? })
                };
                let points: Vec<RdmaMeasuredPoint> = curve.sizes.iter().zip(&series.values).filter_map(seen).collect();
                if !points.is_empty() {
                    all.push(RdmaMeasured { what: format!("{}, {}", curve.what, series.name), points });
                }
            }
        }
    }
    all
}

fn method(method: Method, path: Result<NicPath, RdmaError>) -> RdmaMethod {
    let path = match path {
        Ok(path) => path,
        Err(error) => {
            let not_offered = match error {
                RdmaError::NotOffered { why, .. } => why,
                other => other.to_string(),
            };
            return RdmaMethod {
                method,
                not_offered: Some(not_offered),
                rate: None,
                bottleneck: None,
                limits: Vec::new(),
                stages: Vec::new(),
                setup: Vec::new(),
                curve: Vec::new(),
                remarks: Vec::new(),
            };
        }
    };
    let limit = |l: &super::Limit| RdmaLimit { what: l.what.clone(), rate: l.rate.gb() };
    RdmaMethod {
        method,
        not_offered: None,
        rate: Some(path.rate.gb()),
        bottleneck: Some(path.bottleneck.clone()),
        limits: path.limits.iter().map(limit).collect(),
        stages: path.stages.iter().map(stage).collect(),
        setup: path.setup.iter().map(stage).collect(),
        curve: points(&path),
        remarks: path.remarks.clone(),
    }
}

fn stage(stage: &Stage) -> RdmaStage {
    RdmaStage { name: stage.name.clone(), time: stage.time, why: stage.why.clone(), assumed: stage.assumed }
}

/// Messages from this node to one like it, by every method that both ways offer, and from host memory.
fn between(model: &Model, gpu: NodeId, nic: NodeId, sizes: &[Bytes]) -> Vec<LikeNodes> {
    let message = |memory: NodeId, method| message(model, memory, nic, method);
    let staged = message(gpu, staged_at(model, nic));
    let host = model.machine.fabric.nearest_host(nic).and_then(|host| message(host, Method::Host));
    let direct = [Method::Nvp2p, Method::Bar1].map(|method| message(gpu, method));
    let all = [host].into_iter().chain(direct).chain([staged.clone()]).flatten();
    let like = |message: Message| {
        let points = message.curve(sizes).map(|(size, time, rate)| RdmaPoint { size, time, rate: rate.gb() });
        LikeNodes {
            method: message.source.method,
            latency: message.latency(),
            stages: message.stages().map(stage).collect(),
            rate: message.rate().gb(),
            bottleneck: message.bottleneck().to_owned(),
            curve: points.collect(),
            repaid: staged.as_ref().and_then(|staged| repaid(&message, staged)),
            staging_from: staged.as_ref().and_then(|staged| staging_from(&message, staged)),
        }
    };
    all.map(like).collect()
}

fn staging_from(message: &Message, staged: &Message) -> Option<Bytes> {
    let slower = |size: &Bytes| message.time(*size).likely.seconds() > staged.time(*size).likely.seconds();
    let direct = matches!(message.source.method, Method::Nvp2p | Method::Bar1);
    (0..=30).map(|p| Bytes(1 << p)).find(slower).filter(|_| direct)
}

/// Both ends register at the same time.
fn repaid(message: &Message, staged: &Message) -> Option<Repaid> {
    let size = Bytes(4 << 10);
    let setup: Span = message.source.setup.iter().map(|s| s.time).sum();
    let (direct, staged) = (message.time(size), staged.time(size));
    let messages = |setup: Seconds, direct: Seconds, staged: Seconds| {
        let saved = staged.seconds() - direct.seconds();
        (setup.seconds() > 0.0 && saved > 0.0).then(|| (setup.seconds() / saved).ceil() as u64)
    };
    let fewest = messages(setup.low, direct.low, staged.high)?;
    let most = messages(setup.high, direct.high, staged.low)?;
    Some(Repaid { size, fewest, most })
}

fn read_revisions(model: &Model, gpu: NodeId, nic: NodeId) -> Vec<EngineRevision> {
    let card = Card::of(node_part(model, nic));
    let memory = GpuMemory::of(node_part(model, gpu));
    let revision = |engine| {
        let other = Card { read_engine: engine, ..card.clone() };
        let most = other.nvp2p_stream(&memory)?.asymptote();
        let path = nic_path_with(model, gpu, nic, NicDirection::ToNetwork, Method::Nvp2p, other).ok()?;
        Some(EngineRevision {
            engine,
            fitted: card.read_engine == engine,
            curve: points(&path),
            rate: most.min(most_of_links(&path)).gb(),
        })
    };
    [ReadEngine::V1, ReadEngine::V2, ReadEngine::V3].into_iter().filter_map(revision).collect()
}

fn points(path: &NicPath) -> Vec<RdmaPoint> {
    let point = |size: &Bytes| RdmaPoint { size: *size, time: path.time(*size), rate: path.rate_at(*size).gb() };
    SIZES.iter().map(point).collect()
}

/// What a path's links and memories allow without its NIC's engines.
fn most_of_links(path: &NicPath) -> Rate {
    let steady = |s: &super::Stream| if let super::Stream::Steady(rate) = s { Some(*rate) } else { None };
    path.streams.iter().find_map(steady).unwrap_or(Rate::from_bytes_per_second(f64::INFINITY))
}

fn receive_revisions(model: &Model, nic: NodeId) -> Vec<ReceiveRevision> {
    let card = Card::of(node_part(model, nic));
    let Some(known) = card.optimised.as_ref() else { return Vec::new() };
    let Some(host) = model.machine.fabric.nearest_host(nic) else { return Vec::new() };
    let Ok(path) = nic_path(model, host, nic, NicDirection::FromNetwork, Method::Host) else { return Vec::new() };
    let links = most_of_links(&path).gb();
    let link = path.limits.iter().find(|l| (l.rate.gb() / links - 1.0).abs() < 1e-9).map(|l| l.what.clone());
    let revision = |engine: ReceiveEngine| {
        let software = engine != ReceiveEngine::Hardware && known.value < links;
        let words =
            if engine == ReceiveEngine::Original { "its program; no number is published" } else { "its program" };
        ReceiveRevision {
            engine,
            fitted: card.receive_engine == engine,
            at_most: if software { known.value } else { links },
            bottleneck: if software { words.to_owned() } else { link.clone().unwrap_or_default() },
        }
    };
    [ReceiveEngine::Original, ReceiveEngine::Optimised, ReceiveEngine::Hardware].map(revision).to_vec()
}
