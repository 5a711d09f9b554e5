//! What a machine should deliver, in the shape of the matrices that people measure.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::copy_time::CopyTime;
use crate::evidence::{Direction, Engine, Matrix, Operation, Quantity, Unit};
use crate::fabric::{Fabric, NodeId, NodeKind};
use crate::model::{Answer, Model, PeerAccess, Transfer};
use crate::transfer::{self, HostMemory, Via};
use crate::units::{Bytes, Rate};

/// A matrix of expected rates; the `matrices` of `predict --json`.
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
    /// What would be measured where this is predicted: a matrix without numbers.
    pub fn asked(&self) -> Matrix {
        Matrix {
            quantity: self.quantity,
            direction: self.direction,
            p2p: self.p2p,
            op: self.op,
            engine: self.engine,
            unit: self.unit,
            size: None,
            rows: self.rows.clone(),
            cols: self.cols.clone(),
            values: Vec::new(),
            title: String::new(),
        }
    }
}

/// What one cell asks for.
#[derive(Clone, Copy)]
struct Ask {
    direction: Option<Direction>,
    p2p: Option<bool>,
    op: Option<Operation>,
    engine: Option<Engine>,
    unit: Unit,
    size: Option<Bytes>,
}

/// What one cell gets.
struct Told {
    value: f64,
    interval: [f64; 2],
    why: String,
}

/// The most GPUs and NICs of one machine whose pairs are all predicted: more than any machine has, and
/// seconds of work.
pub const MOST_PREDICTED: usize = 256;

/// The matrices that `predict` shows by default: GPU pairs one way and both ways with P2P on, one way
/// with P2P off, host to each GPU, each GPU to the host, and GPUs with NICs where there are any.
///
/// All in GB/s. A matrix of which no cell can be told is left out. Of a machine with more than
/// [`MOST_PREDICTED`] GPUs and NICs, only transfers with host memory are predicted; of one that may have NVLinks which nothing
/// shows (a note says so), no direct ones between GPUs.
pub fn predict(model: &Model) -> Vec<ExpectedMatrix> {
    let fabric = &model.machine.fabric;
    let all_pairs = fabric.devices().len() <= MOST_PREDICTED;
    let names = |kind| fabric.of_kind(kind).map(|id| fabric.node(id).name.clone()).collect::<Vec<String>>();
    let (gpus, mut nics) = (names(NodeKind::Gpu), names(NodeKind::Nic));
    // a port without RDMA reads no GPU's memory
    nics.retain(|name| fabric.find(name).is_none_or(|id| fabric.node(id).rdma != Some(false)));
    let host = vec![HOST.to_owned()];
    let copies = Ask {
        direction: Some(Direction::Unidirectional),
        p2p: None,
        op: None,
        engine: Some(Engine::Ce),
        unit: Unit::GigabytesPerSecond,
        size: None,
    };
    let pairs = |on| Ask { p2p: Some(on), op: Some(Operation::Write), ..copies };
    let network = Ask { engine: Some(Engine::Nic), ..copies };
    let asked = [
        (pairs(true), &gpus, &gpus),
        (Ask { direction: Some(Direction::Bidirectional), ..pairs(true) }, &gpus, &gpus),
        (pairs(false), &gpus, &gpus),
        (copies, &host, &gpus),
        (copies, &gpus, &host),
        (network, &gpus, &nics),
        (network, &nics, &gpus),
    ];
    let unknown = model.machine.nvlinks_unknown();
    let asked = asked.into_iter().filter(|(ask, ..)| !(unknown && ask.p2p == Some(true)));
    let few = |rows: &[String], cols: &[String]| all_pairs || rows == host || cols == host;
    let asked = asked.filter(|(_, rows, cols)| few(rows, cols));
    let matrices = asked.map(|(ask, rows, cols)| fill(model, ask, rows, cols));
    matrices.filter(|m| m.values.iter().flatten().any(Option::is_some)).collect()
}

/// What should stand where `measured` has its numbers: the same rows, columns, quantity, direction and
/// unit. `None` for quantities that the model does not predict: latencies, and tests in which many
/// transfers run at once, of which a matrix does not say how they are counted. Nor does it predict copies of pageable
/// and managed memory, which wait for the CPU.
///
/// Peer access counts as on where the matrix does not say. Cells on the diagonal between GPUs, and cells
/// whose row or column the machine does not have, stay empty; so do copies that one GPU's kernels make to and from host
/// memory at once, of which the model knows the links and not the kernels.
pub fn expect_like(model: &Model, measured: &Matrix) -> Option<ExpectedMatrix> {
    if measured.quantity != Quantity::Bandwidth || is_contended(&measured.title) || waits_for_cpu(&measured.title) {
        return None;
    }
    let &Matrix { direction, p2p, op, engine, unit, size, .. } = measured;
    unit.rate(1.0)?;
    Some(fill(model, Ask { direction, p2p, op, engine, unit, size }, &measured.rows, &measured.cols))
}

/// What should stand where `measured` has times: of small copies, the diagonal included, or of dependent loads. `None`
/// for other quantities.
///
/// The row drives, as a reader does in bandwidths. A copy of host memory is driven by the GPU.
pub fn expect_latency_like(model: &Model, measured: &Matrix) -> Option<ExpectedMatrix> {
    let fabric = &model.machine.fabric;
    let per_unit = measured.unit.time(1.0)?.seconds();
    let &Matrix { direction, p2p, op, engine, unit, size, .. } = measured;
    let time = |model: &Model, row: &str, col: &str| {
        let (a, b) = (end(fabric, row, col)?, end(fabric, col, row)?);
        match measured.quantity {
            Quantity::LoadLatency if a != b => {
                let memory_in_row = fabric.node(a).kind == NodeKind::Host;
                if memory_in_row { model.load(b, a) } else { model.load(a, b) }
            }
            Quantity::Latency => {
                let op = op.unwrap_or(Operation::Write);
                let (source, destination) = if op == Operation::Read { (b, a) } else { (a, b) };
                let peer = if p2p == Some(false) { PeerAccess::Disabled } else { PeerAccess::Enabled };
                model.small_copy(&Transfer { source, destination, engine: engine.unwrap_or(Engine::Ce), op, peer })
            }
            _ => None,
        }
    };
    let [fast, slow] = model.ends();
    let cell = |row: &String, col: &String| {
        let told = time(model, row, col)?;
        let [low, high] = [fast, slow].map(|m| time(m, row, col).map_or(told.time, |t| t.time).seconds() / per_unit);
        let value = told.time.seconds() / per_unit;
        Some(Told { value, interval: [low.min(value), high.max(value)], why: told.why })
    };
    let ask = Ask { direction, p2p, op, engine, unit, size };
    let known = matches!(measured.quantity, Quantity::Latency | Quantity::LoadLatency);
    known.then(|| table(measured.quantity, ask, &measured.rows, &measured.cols, cell))
}

/// What transfers of a plan should reach while all run at once, in their order; `None` where a name is unknown, and
/// for what the model does not predict: links of unknown width, pageable and managed memory.
///
/// The driver's staging and a pipeline of one's own are predicted alike. A direct transfer between GPUs without peer
/// access is, too: a driver stages it.
pub fn expect_set(model: &Model, transfers: &[transfer::Transfer]) -> Option<Vec<Answer>> {
    let fabric = &model.machine.fabric;
    if transfers.iter().any(|t| t.memory != HostMemory::Pinned) {
        return None;
    }
    let resolved = transfers.iter().map(|t| resolve(fabric, t)).collect::<Option<Vec<_>>>()?;
    model.solve(&resolved).ok()
}

/// A plan's transfer by its nodes; `None` where a name is unknown, or `host` has no nearest.
pub(crate) fn resolve(fabric: &Fabric, transfer: &transfer::Transfer) -> Option<Transfer> {
    let transfer::Transfer { source, destination, engine, op, via, .. } = transfer;
    let peer = if *via == Via::Direct { PeerAccess::Enabled } else { PeerAccess::Disabled };
    let (source, destination) = (end(fabric, source, destination)?, end(fabric, destination, source)?);
    Some(Transfer { source, destination, engine: *engine, op: *op, peer })
}

/// A node by name, where `host` is the memory nearest to the other end.
fn end(fabric: &Fabric, name: &str, other: &str) -> Option<NodeId> {
    if name == HOST { fabric.nearest_host(fabric.find(other)?) } else { fabric.find(name) }
}

/// The name that matrices give host memory, nearest to the other end.
const HOST: &str = "host";

/// Whether a title is one of nvbandwidth's tests with one GPU or the host against all at once.
fn is_contended(title: &str) -> bool {
    let title = title.to_lowercase();
    ["_to_all", "all_to_"].iter().any(|t| title.contains(t))
}

/// Whether a title says that the host's memory is of a kind that a GPU cannot copy by itself.
fn waits_for_cpu(title: &str) -> bool {
    let title = title.to_lowercase();
    ["pageable", "managed"].iter().any(|kind| title.contains(kind))
}

fn fill(model: &Model, ask: Ask, rows: &[String], cols: &[String]) -> ExpectedMatrix {
    table(Quantity::Bandwidth, ask, rows, cols, |row, col| cell(model, ask, row, col))
}

fn table(
    quantity: Quantity,
    ask: Ask,
    rows: &[String],
    cols: &[String],
    cell: impl Fn(&String, &String) -> Option<Told>,
) -> ExpectedMatrix {
    let Ask { direction, p2p, op, engine, unit, .. } = ask;
    let (names, others) = (rows.to_vec(), cols.to_vec());
    let (values, low, high, bottlenecks) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut m = ExpectedMatrix {
        quantity,
        direction,
        p2p,
        op,
        engine,
        unit,
        rows: names,
        cols: others,
        values,
        low,
        high,
        bottlenecks,
    };
    for row in rows {
        let told: Vec<Option<Told>> = cols.iter().map(|col| cell(row, col)).collect();
        let of = |f: fn(&Told) -> f64| told.iter().map(|t| t.as_ref().map(f)).collect();
        m.values.push(of(|t| t.value));
        m.low.push(of(|t| t.interval[0]));
        m.high.push(of(|t| t.interval[1]));
        m.bottlenecks.push(told.into_iter().map(|t| t.map(|t| t.why)).collect());
    }
    m
}

/// One solve for one pair, and one for each end of its interval: alone, or against its opposite.
fn cell(model: &Model, ask: Ask, row: &str, col: &str) -> Option<Told> {
    let fabric = &model.machine.fabric;
    let (a, b) = (end(fabric, row, col)?, end(fabric, col, row)?);
    if a == b {
        return None;
    }
    let op = ask.op.unwrap_or(Operation::Write);
    // a reader stands in the row, and its data comes from the column; host memory initiates nothing
    let host = row == HOST || col == HOST;
    let both = matches!(ask.direction, Some(Direction::Bidirectional | Direction::BidirectionalShare));
    let is_memory = |node| fabric.node(node).kind == NodeKind::Host;
    // what is lost hangs on the kernels (docs/model.md, section 8)
    if both && ask.engine == Some(Engine::Sm) && (is_memory(a) || is_memory(b)) {
        return None;
    }
    // a way that nothing tells is no way through host memory
    if ask.p2p != Some(false) && fabric.is_untold(a, b) && fabric.path(a, b).is_none() {
        return None;
    }
    let (source, destination) = if op == Operation::Read && !host { (b, a) } else { (a, b) };
    let peer = if ask.p2p == Some(false) { PeerAccess::Disabled } else { PeerAccess::Enabled };
    let transfer = Transfer { source, destination, engine: ask.engine.unwrap_or(Engine::Ce), op, peer };
    let back = Transfer { source: destination, destination: source, ..transfer };
    let together = if both { vec![transfer, back] } else { vec![transfer] };
    let per_unit = ask.unit.rate(1.0)?.bytes_per_second();
    let answers = model.solve_with_interval(&together).ok()?;
    // of copies of one size, each has its start-up
    let of_size = ask.size.filter(|size| size.0 > 0).and_then(|size| Some((size, model.startup(&transfer)?)));
    let sized = |rate: Rate| match of_size {
        Some((size, startup)) => CopyTime { startup, rate }.rate_at(size).bytes_per_second(),
        None => rate.bytes_per_second(),
    };
    let counted = if ask.direction == Some(Direction::Bidirectional) { together.len() } else { 1 };
    let sum = |of: &dyn Fn(usize) -> Option<Rate>| (0..counted).filter_map(of).map(sized).sum::<f64>() / per_unit;
    let value = sum(&|i| Some(answers.get(i)?.0.rate));
    let interval = [0, 1].map(|end| sum(&|i| Some(answers.get(i)?.1[end])));
    let (first, _) = answers.into_iter().next()?;
    Some(Told { value, interval, why: first.bottleneck })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::Parts;
    use crate::fabric::{FabricBuilder, Link, LinkKind, Node};
    use crate::machine::{Machine, MachineKind};

    /// One socket whose root complex splits packets, with an x1 and an x16 GPU, so that the ways differ.
    fn machine() -> Machine {
        with_gpus(&["3.0 x1", "3.0 x16"])
    }

    fn with_gpus(widths: &[&str]) -> Machine {
        let mut b = FabricBuilder::new();
        let cpu = b.node(Node { product: Some("Intel Xeon".to_owned()), ..Node::new("cpu0", NodeKind::Cpu) });
        let rc = b.node(Node::new("rc0", NodeKind::RootComplex));
        let host = b.node(Node::new("host0", NodeKind::Host));
        b.link(Link::new(rc, cpu, LinkKind::OnDie));
        b.link(Link::new(host, cpu, LinkKind::OnDie));
        for (i, width) in widths.iter().enumerate() {
            let gpu = b.node(Node::new(format!("GPU{i}"), NodeKind::Gpu));
            b.link(Link::new(rc, gpu, LinkKind::pcie(width.parse().unwrap())));
        }
        Machine::new("m", MachineKind::Design, b.build().unwrap())
    }

    #[test]
    fn a_way_that_is_not_told_is_not_predicted() {
        let mut machine = machine();
        let expected = |machine: &Machine, on: bool| {
            let model = Model::new(machine, Parts::embedded());
            let asked = Matrix { p2p: Some(on), ..measured(&["GPU0"], &["GPU1"]) };
            expect_like(&model, &asked).unwrap().values[0][0]
        };
        assert!(expected(&machine, true).is_some());
        let pair = (machine.fabric.find("GPU0").unwrap(), machine.fabric.find("GPU1").unwrap());
        machine.fabric.set_untold([pair]);
        assert_eq!(expected(&machine, true), None);
        assert!(expected(&machine, false).is_some(), "through host memory, whichever way is between them");
    }

    fn measured(rows: &[&str], cols: &[&str]) -> Matrix {
        Matrix {
            quantity: Quantity::Bandwidth,
            direction: Some(Direction::Unidirectional),
            p2p: Some(true),
            op: None,
            engine: None,
            unit: Unit::GigabytesPerSecond,
            size: None,
            rows: rows.iter().map(|s| s.to_string()).collect(),
            cols: cols.iter().map(|s| s.to_string()).collect(),
            values: vec![vec![None; cols.len()]; rows.len()],
            title: String::new(),
        }
    }

    fn values(matrix: &Matrix) -> Vec<Vec<Option<String>>> {
        let machine = machine();
        let model = Model::new(&machine, Parts::embedded());
        let expected = expect_like(&model, matrix).unwrap();
        let shown = |row: &Vec<Option<f64>>| row.iter().map(|v| v.map(|v| format!("{v:.2}"))).collect();
        expected.values.iter().map(shown).collect()
    }

    fn told(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn pairs_of_very_many_devices_are_left_out() {
        let shapes = |gpus: usize| -> Vec<(usize, usize)> {
            let machine = with_gpus(&vec!["3.0 x16"; gpus]);
            predict(&Model::new(&machine, Parts::embedded())).iter().map(|m| (m.rows.len(), m.cols.len())).collect()
        };
        assert_eq!(shapes(3), [(3, 3), (3, 3), (3, 3), (1, 3), (3, 1)]);
        assert_eq!(shapes(MOST_PREDICTED + 1), [(1, MOST_PREDICTED + 1), (MOST_PREDICTED + 1, 1)]);
    }

    #[test]
    fn rows_send_and_readers_receive() {
        let mut m = measured(&["GPU0", "GPU1"], &["GPU0", "GPU1"]);
        assert_eq!(values(&m), [[None, told("0.85")], [told("0.68"), None]]);
        m.direction = Some(Direction::Bidirectional);
        assert_eq!(values(&m)[0][1], told("1.49"));
        m.direction = Some(Direction::BidirectionalShare);
        assert_eq!(values(&m), [[None, told("0.85")], [told("0.64"), None]]);
        // GPU0 reads from GPU1: completions of 64 bytes come down its x1 link
        (m.direction, m.op) = (Some(Direction::Unidirectional), Some(Operation::Read));
        assert_eq!(values(&m), [[None, told("0.71")], [told("0.86"), None]]);
    }

    #[test]
    fn host_rows_and_columns_stand_for_the_nearest_memory() {
        let mut down = measured(&["host"], &["GPU1", "GPU9", "host"]);
        assert_eq!(values(&down), [[told("12.89"), None, None]]);
        down.unit = Unit::MebibytesPerSecond;
        assert_eq!(values(&down)[0][0], told("12295.36"));
        let mut up = measured(&["GPU1"], &["host"]);
        up.op = Some(Operation::Read);
        assert_eq!(values(&up), [[told("13.59")]]);
    }

    #[test]
    fn what_is_not_predicted_is_not_answered() {
        let machine = machine();
        let model = Model::new(&machine, Parts::embedded());
        let mut m = measured(&["GPU0"], &["GPU1"]);
        m.title = "host_to_all_memcpy_ce".to_owned();
        assert_eq!(expect_like(&model, &m), None);
        m.title = "Host to Device Bandwidth, pageable".to_owned();
        assert_eq!(expect_like(&model, &m), None);
        m.title.clear();
        m.unit = Unit::Microseconds;
        assert_eq!(expect_like(&model, &m), None);
        (m.unit, m.quantity) = (Unit::GigabytesPerSecond, Quantity::LoadLatency);
        assert_eq!(expect_like(&model, &m), None);
    }

    #[test]
    fn kernels_that_copy_to_and_from_the_host_at_once_are_not_predicted() {
        let mut m = measured(&["host"], &["GPU1"]);
        m.engine = Some(Engine::Sm);
        assert_eq!(values(&m), [[told("12.89")]]);
        for direction in [Direction::Bidirectional, Direction::BidirectionalShare] {
            m.direction = Some(direction);
            for host in ["host", "host0"] {
                m.rows = vec![host.to_owned()];
                m.engine = Some(Engine::Sm);
                assert_eq!(values(&m), [[None]]);
                m.engine = Some(Engine::Ce);
                assert!(values(&m)[0][0].is_some());
            }
        }
        m = Matrix { direction: m.direction, engine: Some(Engine::Sm), ..measured(&["GPU0"], &["GPU1"]) };
        assert!(values(&m)[0][0].is_some(), "between GPUs they are");
    }

    #[test]
    fn predict_shows_pairs_and_host_copies_and_leaves_out_what_is_not_there() {
        let machine = machine();
        let shown = predict(&Model::new(&machine, Parts::embedded()));
        let shapes: Vec<_> = shown.iter().map(|m| (m.direction, m.p2p, m.rows.len(), m.cols.len())).collect();
        let (one, both) = (Some(Direction::Unidirectional), Some(Direction::Bidirectional));
        let pairs = [(one, Some(true), 2, 2), (both, Some(true), 2, 2), (one, Some(false), 2, 2)];
        assert_eq!(shapes[..3], pairs);
        assert_eq!(shapes[3..], [(one, None, 1, 2), (one, None, 2, 1)]);
        assert_eq!(shown[3].bottlenecks[0][1], told("GPU1–rc0, PCIe 3.0 x16"));
    }

    #[test]
    fn a_set_of_transfers_shares_the_machine() {
        let machine = machine();
        let model = Model::new(&machine, Parts::embedded());
        let copy = transfer::Transfer::new;
        let gb = |set: &[transfer::Transfer]| {
            let answers = expect_set(&model, set)?;
            Some(answers.iter().map(|a| format!("{:.2}", a.rate.gb())).collect::<Vec<_>>())
        };
        assert_eq!(gb(&[]), Some(Vec::new()));
        assert_eq!(gb(&[copy("GPU1", "host")]), Some(vec!["13.59".to_owned()]));
        assert_eq!(gb(&[copy("host0", "GPU1")]), Some(vec!["12.89".to_owned()]));
        // both go down GPU0's x1 link
        let alone: f64 = expect_set(&model, &[copy("host", "GPU0")]).unwrap()[0].rate.gb();
        let shared = expect_set(&model, &[copy("GPU1", "GPU0"), copy("host", "GPU0")]).unwrap();
        assert!(shared[1].rate.gb() < 0.6 * alone);
        // the one that reads drives
        let read = transfer::Transfer { op: Operation::Read, ..copy("GPU1", "GPU0") };
        assert_eq!(gb(&[read]), Some(vec!["0.71".to_owned()]));
        let staged = transfer::Transfer { via: Via::Driver, ..copy("GPU1", "GPU0") };
        let bottleneck = expect_set(&model, &[staged]).unwrap().remove(0).bottleneck;
        assert!(bottleneck.contains("staging"), "{bottleneck}");
        assert_eq!(gb(&[copy("GPU0", "GPU9")]), None);
        assert_eq!(gb(&[copy("host", "host")]), None);
        assert_eq!(gb(&[transfer::Transfer { memory: HostMemory::Pageable, ..copy("host", "GPU0") }]), None);
    }
}
