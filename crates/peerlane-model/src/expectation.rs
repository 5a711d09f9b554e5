//! What a machine should deliver between two ends, and in the shape of the matrices that people measure.

mod curve;
pub(crate) mod requested;

pub use curve::ExpectedCurve;

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use peerlane_machine::schema::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::rdma::{self, Method, NicDirection, nic_path};
use crate::model::{Class, Latency, Model, PeerAccess, SharedRate, Transfer};
use peerlane_machine::copy_time::CopyTime;
use peerlane_machine::fabric::{Fabric, LinkId, NodeId, NodeKind};
use peerlane_machine::matrix::{Direction, Engine, Matrix, Operation, Quantity, Unit};
use peerlane_machine::transfer::{self, HostMemory, Via};
use peerlane_machine::units::{Bytes, Rate};
use requested::{Requested, usual};

/// A matrix of expected rates or times; the `matrices` of `predict --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExpectedMatrix {
    /// What is predicted.
    pub quantity: Quantity,
    /// Which way; a bidirectional rate is the sum of both.
    pub direction: Option<Direction>,
    /// Peer-to-peer access asked for (`true`), or off.
    pub p2p: Option<bool>,
    /// Write or read.
    pub op: Option<Operation>,
    /// What drives it.
    pub engine: Option<Engine>,
    /// Unit of `values`.
    pub unit: Unit,
    /// Sources.
    pub rows: Vec<String>,
    /// Destinations.
    pub cols: Vec<String>,
    /// Expected numbers; `None` where nothing can be said, and on the diagonal between GPUs.
    pub values: Vec<Vec<Option<f64>>>,
    /// The least that each may be, by the ranges of the model's constants.
    #[serde(default)]
    pub low: Vec<Vec<Option<f64>>>,
    /// The most.
    #[serde(default)]
    pub high: Vec<Vec<Option<f64>>>,
    /// What binds each, in words.
    pub bottlenecks: Vec<Vec<Option<String>>>,
}

impl ExpectedMatrix {
    /// What its numbers are of.
    pub fn metric(&self) -> Metric {
        let &ExpectedMatrix { quantity, direction, p2p, op, engine, unit, .. } = self;
        Metric { quantity, direction, p2p, op, engine, unit, size: None }
    }
}

/// What a number is of, except for its two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Metric {
    /// What is measured.
    pub quantity: Quantity,
    /// Which way.
    pub direction: Option<Direction>,
    /// Peer-to-peer access on or off; on where nothing is said.
    pub p2p: Option<bool>,
    /// Write or read; a write where nothing is said.
    pub op: Option<Operation>,
    /// What drives it; a copy engine where nothing is said.
    pub engine: Option<Engine>,
    /// The unit.
    pub unit: Unit,
    /// Bytes that each transfer moves; of any large size where nothing is said.
    pub size: Option<Bytes>,
}

impl Metric {
    /// Bandwidth of a copy engine, one way.
    pub const COPIES: Metric = Metric {
        quantity: Quantity::Bandwidth,
        direction: Some(Direction::Unidirectional),
        p2p: None,
        op: None,
        engine: Some(Engine::Ce),
        unit: Unit::GigabytesPerSecond,
        size: None,
    };

    /// Of a matrix.
    pub fn of(matrix: &Matrix) -> Self {
        let &Matrix { quantity, direction, p2p, op, engine, unit, size, .. } = matrix;
        Metric { quantity, direction, p2p, op, engine, unit, size }
    }

    /// In words, as [`Matrix::describe`].
    pub fn describe(&self) -> String {
        self.matrix(Vec::new(), Vec::new()).describe()
    }

    /// A matrix between these ends, without numbers.
    pub fn matrix(&self, rows: Vec<String>, cols: Vec<String>) -> Matrix {
        let &Metric { quantity, direction, p2p, op, engine, unit, size } = self;
        Matrix { quantity, direction, p2p, op, engine, unit, size, rows, cols, ..Matrix::default() }
    }

    /// Whether it is a rate of transfers.
    pub(crate) fn is_bandwidth(&self) -> bool {
        self.quantity == Quantity::Bandwidth && self.unit.rate(1.0).is_some()
    }
}

/// What limits a transfer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bottleneck {
    /// In words; of a time, what it is made of. Empty where it is not known.
    pub words: String,
    /// The link of the machine, if it is one.
    pub link: Option<LinkId>,
    /// Between nodes of a cluster, the switches on the path and the links between switches: `leaf3`, `leaf3 to spine1`.
    pub through: Vec<String>,
}

impl Bottleneck {
    /// Whether it states more than that there is one.
    pub fn is_known(&self) -> bool {
        !self.words.is_empty() || !self.through.is_empty()
    }
}

impl<S: Into<String>> From<S> for Bottleneck {
    fn from(words: S) -> Self {
        Bottleneck { words: words.into(), ..Bottleneck::default() }
    }
}

/// What one number should be.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Expected {
    /// The number, in its metric's unit.
    pub value: f64,
    /// The least that it may be: about 5 % of measured numbers lie below.
    pub low: f64,
    /// The most: about 5 % lie above.
    pub high: f64,
    /// What binds it.
    pub binding: Bottleneck,
}

/// How a measured number stands to what is expected of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Within what the interval allows to one number of many.
    AsExpected,
    /// Worse than that.
    Worse,
    /// Better: the expectation is in doubt, not the machine.
    Better,
}

/// A number this close to the expected one is as expected, even where the interval is narrower: alike pairs of one sound machine
/// differ by as much where both ways or a shared memory bind (`validation/accuracy.md`).
const CLOSE: f64 = 0.12;

/// How much farther than the interval's end a number must lie, in logarithms. A machine has up to a thousand numbers, of which
/// a tenth lie outside their intervals; of numbers that scatter normally 1 in 50,000 lies beyond this on either side.
const FAR: f64 = 2.5;

impl Expected {
    /// How a measured range stands: of rates more is better, of times less.
    ///
    /// It is worse or better only where it lies 2.5 times as far from the value as the interval's end, and more than 12 % from the value.
    pub fn standing(&self, (from, upto): (f64, f64), is_rate: bool) -> Standing {
        let far = |end: f64| self.value * (end / self.value).powf(FAR);
        let (low, high) =
            (far(self.low).min(self.value * (1.0 - CLOSE)), far(self.high).max(self.value * (1.0 + CLOSE)));
        let known = self.value > 0.0;
        match (known && upto < low, known && from > high) {
            (true, _) if is_rate => Standing::Worse,
            (_, true) if is_rate => Standing::Better,
            (true, _) => Standing::Better,
            (_, true) => Standing::Worse,
            _ => Standing::AsExpected,
        }
    }

    /// A number with the least and the most that it may be.
    pub fn new(value: f64, [low, high]: [f64; 2], binding: impl Into<Bottleneck>) -> Self {
        Expected { value, low, high, binding: binding.into() }
    }

    /// A number of which no interval is known.
    pub fn exactly(value: f64, binding: impl Into<Bottleneck>) -> Self {
        Self::new(value, [value, value], binding)
    }

    /// The least and the most, where an interval is known.
    pub fn interval(&self) -> Option<[f64; 2]> {
        (self.low < self.high).then_some([self.low, self.high])
    }

    /// What a measured number is judged by: the number of the interval that is nearest to it.
    pub fn nearest(&self, measured: f64) -> f64 {
        measured.max(self.low).min(self.high)
    }

    /// The same behind what carries no more than `most`, which binds it if that is less.
    #[must_use]
    pub fn at_most(mut self, most: f64, words: &str) -> Self {
        if most < self.value {
            self.binding.words = words.to_owned();
        }
        let [value, low, high] = [self.value, self.low, self.high].map(|number| number.min(most));
        Expected { value, low, high, ..self }
    }

    /// Below this a number is slow by any account: twice as far from the value as `low` is, in logarithms. A machine has tens of
    /// numbers, so that one of them lies below `low` on nearly every sound one.
    pub fn least(&self) -> f64 {
        if self.value > 0.0 { self.low * self.low / self.value } else { 0.0 }
    }

    /// The same on the other side: above it a number is beyond any account.
    pub fn most(&self) -> f64 {
        if self.value > 0.0 { self.high * self.high / self.value } else { f64::INFINITY }
    }
}

/// The most GPUs and NICs of one machine whose pairs are all predicted: more than any machine has, and
/// seconds of work.
pub const MOST_PREDICTED: usize = 256;

/// The name that matrices give host memory, nearest to the other end.
pub(crate) const HOST: &str = "host";

/// The name of a GPU's own memory, as the column of copies within it.
pub const ITSELF: &str = "self";

/// What the path between a memory and a NIC should carry one way, in bytes a second. `None` where the machine has no such path.
pub fn nic_end(model: &Model, memory: NodeId, nic: NodeId, way: NicDirection, method: Method) -> Option<Expected> {
    let class = match method {
        Method::Host => Class::RdmaHost,
        Method::Staged(_) => Class::StagedOneWay,
        Method::Nvp2p | Method::Bar1 => Class::RdmaGpu,
    };
    around(model, class, |model| {
        let path = nic_path(model, memory, nic, way, method).ok()?;
        Some((path.rate.bytes_per_second(), path.bottleneck))
    })
}

/// A number with what binds it, and with its interval: by the model's constants at the ends of their ranges, and by what measured
/// numbers of a class differ.
fn around(model: &Model, class: Class, of: impl Fn(&Model) -> Option<(f64, String)>) -> Option<Expected> {
    let (value, words) = of(model)?;
    let [fast, slow] = model.ends().map(|model| of(model).map_or(value, |(number, _)| number));
    let spread = model.parts.spreads().of(class.name());
    let interval = spread.around(value, [fast.min(slow).min(value), fast.max(slow).max(value)]);
    Some(Expected::new(value, interval, words))
}

/// The matrices that `predict` shows by default: GPU pairs one way and both ways with P2P on, one way
/// with P2P off, host to each GPU, each GPU to the host, and GPUs with NICs where there are any, in GB/s; and the times of small
/// copies between GPUs and with the host, in µs.
///
/// A matrix of which no cell can be told is left out. Of a machine with more than
/// [`MOST_PREDICTED`] GPUs and NICs, only transfers with host memory are predicted; of one that may have NVLinks which nothing
/// shows (a note says so), no direct ones between GPUs.
pub fn predict<'a>(model: &'a Model<'a>) -> Vec<ExpectedMatrix> {
    Expectation::new(model).usual()
}

/// A model that is asked for one number after another, and solves nothing twice.
pub(crate) struct Expectation<'a> {
    /// The model.
    pub(crate) model: &'a Model<'a>,
    /// Transfers alone (`false`) or against their opposite that were solved before.
    solved: RefCell<HashMap<(Transfer, bool), Solved>>,
    /// Times that were predicted before, by metric, row and column.
    timed: RefCell<HashMap<Timed, Option<Expected>>>,
}

/// What a time is of, and between which nodes.
type Timed = (Metric, [NodeId; 2]);

/// Each transfer's answer with its interval; none where one has no rate.
type Solved = Option<Rc<[Ranged]>>;

/// An answer with the least and the most that its rate may be.
type Ranged = (SharedRate, [Rate; 2]);

impl<'a> Expectation<'a> {
    /// Of a model, with nothing solved yet.
    pub(crate) fn new(model: &'a Model<'a>) -> Self {
        Expectation { model, solved: RefCell::default(), timed: RefCell::default() }
    }

    /// [`predict`].
    pub(crate) fn usual(&self) -> Vec<ExpectedMatrix> {
        let matrices = usual(self.model).into_iter().map(|asked| self.matrix(&asked));
        matrices.filter(|m| m.values.iter().flatten().any(Option::is_some)).collect()
    }

    fn matrix(&self, asked: &Requested) -> ExpectedMatrix {
        let Requested { metric, rows, cols } = asked;
        let &Metric { quantity, direction, p2p, op, engine, unit, .. } = metric;
        let grid = self.grid(metric, rows, cols);
        let of = |f: fn(&Expected) -> f64| grid.iter().map(|r| r.iter().map(|e| e.as_ref().map(f)).collect()).collect();
        let words = |e: &Option<Expected>| e.as_ref().map(|e| e.binding.words.clone());
        ExpectedMatrix {
            quantity,
            direction,
            p2p,
            op,
            engine,
            unit,
            rows: rows.clone(),
            cols: cols.clone(),
            values: of(|e| e.value),
            low: of(|e| e.low),
            high: of(|e| e.high),
            bottlenecks: grid.iter().map(|row| row.iter().map(words).collect()).collect(),
        }
    }

    /// What should stand between rows and columns.
    pub(crate) fn grid(&self, metric: &Metric, rows: &[String], cols: &[String]) -> Vec<Vec<Option<Expected>>> {
        rows.iter().map(|row| cols.iter().map(|col| self.between(metric, row, col)).collect()).collect()
    }

    /// What should stand between a row and a column. `None` for quantities that the model does not predict, ends
    /// that the machine does not have, rates on the diagonal between GPUs (of which programs do not agree how they are counted;
    /// the column [`ITSELF`] counts what is copied once), and copies that one GPU's kernels make to and from host
    /// memory at once, of which the model knows the links and not the kernels.
    ///
    /// A reader stands in the row, and its data comes from the column; host memory initiates nothing. Of times the row
    /// drives; a copy of host memory is driven by the GPU.
    pub(crate) fn between(&self, metric: &Metric, row: &str, col: &str) -> Option<Expected> {
        match metric.quantity {
            Quantity::Bandwidth => self.rate(metric, row, col),
            Quantity::Latency | Quantity::LoadLatency => self.time(metric, row, col),
            Quantity::EnqueueLatency
            | Quantity::SignalLatency
            | Quantity::BusBandwidth
            | Quantity::UpdateTime
            | Quantity::ExchangeTime
            | Quantity::EdgeRate => None,
        }
    }

    fn rate(&self, metric: &Metric, row: &str, col: &str) -> Option<Expected> {
        let per_unit = metric.unit.rate(1.0)?.bytes_per_second();
        let in_unit = |(rate, words): (Rate, String)| (rate.bytes_per_second() / per_unit, words);
        let both = matches!(metric.direction, Some(Direction::Bidirectional | Direction::BidirectionalShare));
        if metric.engine == Some(Engine::Nic)
            && let Some(nics) = self.nics(row, col)
        {
            return if both { None } else { self.between_nics(in_unit, metric.op, nics) };
        }
        if let (Some(Engine::Nic), Some(direct), false) = (metric.engine, metric.p2p, both)
            && let Some((gpu, nic, to_gpu)) = self.gpu_and_nic(row, col)
        {
            let class = if direct { Class::RdmaGpu } else { Class::StagedOneWay };
            return around(self.model, class, |model| {
                rdma::with_gpu(model, gpu, nic, to_gpu, !direct).ok().map(in_unit)
            });
        }
        let transfer = self.transfer(metric, row, col, both)?;
        let answers = self.solve(&transfer, both)?;
        // of copies of one size, each has its start-up
        let of_size = metric.size.filter(|size| size.0 > 0);
        let of_size = of_size.and_then(|size| Some((size, self.model.startup(&transfer)?)));
        let sized = |rate: Rate| match of_size {
            Some((size, startup)) => CopyTime { startup, rate }.rate_at(size).bytes_per_second(),
            None => rate.bytes_per_second(),
        };
        let counted = if metric.direction == Some(Direction::Bidirectional) { answers.len() } else { 1 };
        let sum = |of: fn(&Ranged) -> Rate| answers.iter().take(counted).map(of).map(sized).sum::<f64>() / per_unit;
        let (first, _) = answers.first()?;
        Some(Expected {
            value: sum(|(answer, _)| answer.rate),
            low: sum(|(_, [low, _])| *low),
            high: sum(|(_, [_, high])| *high),
            binding: Bottleneck { link: first.link, ..first.bottleneck.as_str().into() },
        })
    }

    /// Two NICs of the machine, or one twice.
    fn nics(&self, row: &str, col: &str) -> Option<[NodeId; 2]> {
        let fabric = &self.model.machine.fabric;
        let nic = |name| fabric.find(name).filter(|id| fabric.node(*id).kind == NodeKind::Nic);
        Some([nic(row)?, nic(if col == ITSELF { row } else { col })?])
    }

    /// From the host memory nearest to one NIC to that of another, or back through the same.
    fn between_nics(
        &self,
        in_unit: impl Fn((Rate, String)) -> (f64, String),
        op: Option<Operation>,
        [a, b]: [NodeId; 2],
    ) -> Option<Expected> {
        let (from, to) = if op == Some(Operation::Read) { (b, a) } else { (a, b) };
        let fabric = &self.model.machine.fabric;
        let end = |nic| Some([fabric.nearest_host(nic)?, nic]);
        let (from, to) = (end(from)?, end(to)?);
        around(self.model, Class::RdmaHost, |model| rdma::between(model, from, to).ok().map(&in_unit))
    }

    /// A GPU and a NIC, and whether data goes to the GPU.
    fn gpu_and_nic(&self, row: &str, col: &str) -> Option<(NodeId, NodeId, bool)> {
        let fabric = &self.model.machine.fabric;
        let (row, col) = (fabric.find(row)?, fabric.find(col)?);
        match (fabric.node(row).kind, fabric.node(col).kind) {
            (NodeKind::Gpu, NodeKind::Nic) => Some((row, col, false)),
            (NodeKind::Nic, NodeKind::Gpu) => Some((col, row, true)),
            _ => None,
        }
    }

    /// What a rate's cell stands for.
    fn transfer(&self, metric: &Metric, row: &str, col: &str, both: bool) -> Option<Transfer> {
        let fabric = &self.model.machine.fabric;
        let engine = metric.engine.unwrap_or(Engine::Ce);
        let op = metric.op.unwrap_or(Operation::Write);
        let peer = if metric.p2p == Some(false) { PeerAccess::Disabled } else { PeerAccess::Enabled };
        if col == ITSELF {
            let of = fabric.find(row).filter(|id| fabric.node(*id).kind == NodeKind::Gpu && !both)?;
            return Some(Transfer { source: of, destination: of, engine, op, peer });
        }
        let (a, b) = (end(fabric, row, col)?, end(fabric, col, row)?);
        // a path that no source shows is none through host memory
        let unknown = peer == PeerAccess::Enabled && fabric.is_path_unknown(a, b) && fabric.path(a, b).is_none();
        if a == b || unknown {
            return None;
        }
        let host = row == HOST || col == HOST;
        let (source, destination) = if op == Operation::Read && !host { (b, a) } else { (a, b) };
        Some(Transfer { source, destination, engine, op, peer })
    }

    /// One solve, and one for each end of its interval: alone, or against its opposite.
    fn solve(&self, transfer: &Transfer, both: bool) -> Solved {
        let key = (*transfer, both);
        if let Some(known) = self.solved.borrow().get(&key) {
            return known.clone();
        }
        let back = Transfer { source: transfer.destination, destination: transfer.source, ..*transfer };
        let together = [*transfer, back];
        let together = if both { &together[..] } else { &together[..1] };
        let solved: Solved = self.model.solve_with_interval(together).ok().map(Rc::from);
        self.solved.borrow_mut().insert(key, solved.clone());
        solved
    }

    fn time(&self, metric: &Metric, row: &str, col: &str) -> Option<Expected> {
        let per_unit = metric.unit.time(1.0)?.seconds();
        let fabric = &self.model.machine.fabric;
        let col = if col == ITSELF { row } else { col };
        let ends = [end(fabric, row, col)?, end(fabric, col, row)?];
        if let Some(known) = self.timed.borrow().get(&(*metric, ends)) {
            return known.clone();
        }
        let expected = around(self.model, Class::Latency, |model| {
            let latency = self.latency(model, metric, ends)?;
            Some((latency.time.seconds() / per_unit, latency.why))
        });
        self.timed.borrow_mut().insert((*metric, ends), expected.clone());
        expected
    }

    /// By this model, or by one with constants at the end of their ranges.
    fn latency(&self, model: &Model, metric: &Metric, [a, b]: [NodeId; 2]) -> Option<Latency> {
        let fabric = &model.machine.fabric;
        match metric.quantity {
            Quantity::LoadLatency if a != b => {
                let memory_in_row = fabric.node(a).kind == NodeKind::Host;
                if memory_in_row { model.load(b, a) } else { model.load(a, b) }
            }
            Quantity::Latency => {
                let op = metric.op.unwrap_or(Operation::Write);
                let (source, destination) = if op == Operation::Read { (b, a) } else { (a, b) };
                let peer = if metric.p2p == Some(false) { PeerAccess::Disabled } else { PeerAccess::Enabled };
                let engine = metric.engine.unwrap_or(Engine::Ce);
                model.small_copy(&Transfer { source, destination, engine, op, peer })
            }
            _ => None,
        }
    }
}

/// What transfers of a plan should reach while all run at once, in their order; `None` where a name is unknown, and
/// for what the model does not predict: links of unknown width, pageable and managed memory.
///
/// The driver's staging and a pipeline of one's own are predicted alike. A direct transfer between GPUs without peer
/// access is, too: a driver stages it.
pub fn expect_set(model: &Model, transfers: &[transfer::Transfer]) -> Option<Vec<SharedRate>> {
    let fabric = &model.machine.fabric;
    if transfers.iter().any(|t| t.memory != HostMemory::Pinned) {
        return None;
    }
    let resolved = transfers.iter().map(|t| resolve(fabric, t)).collect::<Option<Vec<_>>>()?;
    model.solve(&resolved).ok()
}

/// A plan's transfer by its nodes; `None` where a name is unknown, or `host` has no nearest.
pub fn resolve(fabric: &Fabric, transfer: &transfer::Transfer) -> Option<Transfer> {
    let transfer::Transfer { source, destination, engine, op, via, .. } = transfer;
    let peer = if *via == Via::Direct { PeerAccess::Enabled } else { PeerAccess::Disabled };
    let (source, destination) = (end(fabric, source, destination)?, end(fabric, destination, source)?);
    Some(Transfer { source, destination, engine: *engine, op: *op, peer })
}

/// A node by name, where `host` is the memory nearest to the other end.
fn end(fabric: &Fabric, name: &str, other: &str) -> Option<NodeId> {
    if name == HOST { fabric.nearest_host(fabric.find(other)?) } else { fabric.find(name) }
}

#[cfg(test)]
mod tests;
