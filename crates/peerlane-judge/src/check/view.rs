//! What rules need of a machine again and again: its pairs, the cells of its matrices with the links
//! they use, and the expected values of those cells.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

use super::words::{distinct, lines, pairs};
use super::{Context, Settings};
use peerlane_design::case::Case;
use peerlane_machine::fabric::{
    Fabric, Interconnect, LinkId, LinkKind, NodeId, NodeKind, Path, PathClass, PciAddress, PcieWidth,
};
use peerlane_machine::fact::{Fact, HostFacts, KernelFacts, Modules, P2pMatrix, P2pStatus, PciTree};
use peerlane_machine::machine::{Machine, MachineKind, SourcedMatrix, Statement};
use peerlane_machine::matrix::{Direction, Engine, Matrix, Quantity};
use peerlane_machine::origin::Origin;
use peerlane_machine::subject::Subject;
use peerlane_machine::units::Rate;
use peerlane_measure::run::TOOL;
use peerlane_model::assumptions::Fit;
use peerlane_model::comparison::{Comparison, Expected, Series};
use peerlane_model::model::Model;
use peerlane_read::catalogue::Part;

/// Rules that look at every pair stay silent on machines with more GPUs or NICs than this: no machine
/// has them, and pairs grow with the square.
const MOST_DEVICES: usize = 512;

/// Matrices looked at, of the many that a text may hold.
const MOST_MATRICES: usize = 1024;

/// One end of a transfer in a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum End {
    /// The matrix says `host` and not which memory.
    Host,
    /// A node of the fabric.
    Node(NodeId),
}

/// A number of a bandwidth matrix between two different ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Cell {
    /// Row.
    pub(super) i: usize,
    /// Column.
    pub(super) j: usize,
    /// The row's end.
    pub(super) from: End,
    /// The column's end.
    pub(super) to: End,
    /// The number as the matrix counts it: both directions, for a bidirectional one.
    pub(super) rate: Rate,
}

impl Cell {
    /// Both ends, where both are nodes.
    pub(super) fn nodes(&self) -> Option<(NodeId, NodeId)> {
        match (self.from, self.to) {
            (End::Node(a), End::Node(b)) => Some((a, b)),
            _ => None,
        }
    }

    /// The node that copies to or from `host`, and whether data goes to the node.
    pub(super) fn with_host(&self) -> Option<(NodeId, bool)> {
        match (self.from, self.to) {
            (End::Host, End::Node(id)) => Some((id, true)),
            (End::Node(id), End::Host) => Some((id, false)),
            _ => None,
        }
    }

    /// Whether a node is an end.
    pub(super) fn is_of(&self, id: NodeId) -> bool {
        [self.from, self.to].contains(&End::Node(id))
    }
}

/// A row of classes for each GPU.
type Classes = Vec<Vec<Option<PathClass>>>;

/// The machine as rules see it.
pub(super) struct View<'a> {
    /// The site's settings.
    pub(super) settings: Settings,
    /// What was given about the machine.
    pub(super) case: &'a Case,
    /// The machine.
    pub(super) machine: &'a Machine,
    /// Its model.
    pub(super) model: &'a Model<'a>,
    /// What was measured, compared with what should be.
    pub(super) comparison: &'a Comparison<'a>,
    /// The most that any measurement moved one way over a PCIe link.
    carried: HashMap<LinkId, Rate>,
    /// Rows and columns of the matrix of classes by name.
    stated: [HashMap<&'a str, usize>; 2],
    /// For each node its place among the GPUs, and the classes between these: many rules ask for every pair's.
    gpus: Vec<Option<usize>>,
    classes: OnceCell<Classes>,
    /// What was assumed of links and peer access that sources leave open.
    pub(super) fit: Option<Fit>,
}

impl<'a> View<'a> {
    /// Looks at a machine through its model.
    pub(super) fn new(context: &Context<'a>, settings: &Settings) -> Self {
        let Context { case, model, comparison, .. } = *context;
        let machine = &case.machine;
        let index = |names: &'a [String]| names.iter().enumerate().rev().map(|(i, name)| (name.as_str(), i)).collect();
        let stated = machine.stated_classes.as_ref().map(|(m, _)| [index(&m.rows), index(&m.cols)]);
        let mut view = View {
            settings: settings.clone(),
            case,
            machine,
            model,
            comparison,
            carried: HashMap::new(),
            stated: stated.unwrap_or_default(),
            gpus: vec![None; machine.fabric.nodes().len()],
            classes: OnceCell::new(),
            fit: context.fit().cloned(),
        };
        for (place, id) in view.of_kind(NodeKind::Gpu).into_iter().enumerate() {
            view.gpus[id.index()] = Some(place);
        }
        view.carried = view.most_carried();
        view
    }

    /// The fabric.
    pub(super) fn fabric(&self) -> &'a Fabric {
        &self.machine.fabric
    }

    /// Whether the machine is known from what it printed, so that widths may be those of an idle machine.
    pub(super) fn is_captured(&self) -> bool {
        self.machine.kind == MachineKind::Captured
    }

    /// A node's name.
    pub(super) fn name(&self, id: NodeId) -> &'a str {
        &self.fabric().node(id).name
    }

    /// A node as a subject.
    pub(super) fn node(&self, id: NodeId) -> Subject {
        Subject::Node(self.name(id).to_owned())
    }

    /// A pair as a subject: `GPU0-GPU2`.
    pub(super) fn pair(&self, a: NodeId, b: NodeId) -> Subject {
        Subject::Pair(self.name(a).to_owned(), self.name(b).to_owned())
    }

    /// The link between two neighbours as a subject.
    pub(super) fn link(&self, a: NodeId, b: NodeId) -> Subject {
        Subject::Link(self.name(a).to_owned(), self.name(b).to_owned())
    }

    /// Names of nodes.
    pub(super) fn names_of(&self, ids: &[NodeId]) -> Vec<String> {
        ids.iter().map(|id| self.name(*id).to_owned()).collect()
    }

    /// The node at a PCI address.
    pub(super) fn at(&self, address: PciAddress) -> Option<NodeId> {
        self.fabric().ids().find(|id| self.fabric().node(*id).address == Some(address))
    }

    /// What the PCIe link above a node runs at and may run at.
    pub(super) fn pcie_above(&self, id: NodeId) -> Option<(PcieWidth, PcieWidth)> {
        let (link, _) = self.fabric().upstream(id)?;
        match &self.fabric().link(link).kind {
            LinkKind::Pcie { running, allowed, .. } => Some((*running, *allowed)),
            _ => None,
        }
    }

    /// Whether the fabric shows NVLinks.
    pub(super) fn has_nvlink(&self) -> bool {
        self.fabric().links().iter().any(|link| link.kind.bundle(Interconnect::Nvlink).is_some())
    }

    /// The component model of a node, where known.
    pub(super) fn part(&self, id: NodeId) -> Option<&'a Part> {
        self.model.parts.get(self.fabric().node(id).part.as_deref()?)
    }

    /// [`Machine::rdma_nics`]; none where there are more than any machine has.
    pub(super) fn rdma_nics(&self) -> Vec<NodeId> {
        let nics: Vec<NodeId> = self.machine.rdma_nics().take(MOST_DEVICES + 1).collect();
        if nics.len() > MOST_DEVICES { Vec::new() } else { nics }
    }

    /// The nodes of a kind, in order; none where there are more than any machine has.
    pub(super) fn of_kind(&self, kind: NodeKind) -> Vec<NodeId> {
        let nodes: Vec<NodeId> = self.fabric().of_kind(kind).take(MOST_DEVICES + 1).collect();
        if nodes.len() > MOST_DEVICES { Vec::new() } else { nodes }
    }

    /// The GPUs whose PCI address is known.
    pub(super) fn gpus_by_address(&self) -> HashMap<PciAddress, NodeId> {
        let gpus = self.fabric().of_kind(NodeKind::Gpu);
        gpus.filter_map(|id| Some((self.fabric().node(id).address?, id))).collect()
    }

    /// Every pair of GPUs once.
    pub(super) fn gpu_pairs(&self) -> Vec<(NodeId, NodeId)> {
        let gpus = self.of_kind(NodeKind::Gpu);
        gpus.iter().enumerate().flat_map(|(i, &a)| gpus.iter().skip(i + 1).map(move |&b| (a, b))).collect()
    }

    /// The class of the path between two nodes: the fabric's, or the one a matrix states.
    pub(super) fn class(&self, a: NodeId, b: NodeId) -> Option<PathClass> {
        let place = |id: NodeId| self.gpus.get(id.index()).copied().flatten();
        match place(a).zip(place(b)) {
            Some((i, j)) => *self.classes.get_or_init(|| self.gpu_classes()).get(i)?.get(j)?,
            None => self.fabric().class(a, b).or_else(|| self.stated(a, b)).or_else(|| self.stated(b, a)),
        }
    }

    /// The classes between all GPUs, a row a GPU.
    fn gpu_classes(&self) -> Classes {
        let gpus = self.of_kind(NodeKind::Gpu);
        let mut classes = vec![vec![None; gpus.len()]; gpus.len()];
        for (i, &a) in gpus.iter().enumerate() {
            for (j, &b) in gpus.iter().enumerate().skip(i) {
                let class = self.fabric().class(a, b);
                let stated = || [self.stated(a, b), self.stated(b, a)];
                let [there, back] = if class.is_some() { [class; 2] } else { stated() };
                classes[i][j] = there.or(back);
                classes[j][i] = back.or(there);
            }
        }
        classes
    }

    /// The class that a matrix states in the row of `a` and the column of `b`.
    fn stated(&self, a: NodeId, b: NodeId) -> Option<PathClass> {
        let (matrix, _) = self.machine.stated_classes.as_ref()?;
        let [rows, cols] = &self.stated;
        let row = matrix.cells.get(*rows.get(self.name(a))?)?;
        row.get(*cols.get(self.name(b))?).copied().flatten()
    }

    /// Names of both ends of pairs, each pair once, whichever end is first.
    pub(super) fn names(&self, pairs: impl IntoIterator<Item = (NodeId, NodeId)>) -> Vec<(String, String)> {
        let ordered = pairs.into_iter().map(|(a, b)| (a.min(b), a.max(b)));
        let name = |id: NodeId| self.name(id).to_owned();
        distinct(ordered).into_iter().map(|(a, b)| (name(a), name(b))).collect()
    }

    /// Whether peer-to-peer works between two GPUs in both directions; `None` where nothing shows it.
    pub(super) fn p2p_works(&self, a: NodeId, b: NodeId) -> Option<bool> {
        let state = |a, b| match self.machine.p2p.get(&(a, b)) {
            Some(P2pStatus::Ok) => Some(true),
            Some(P2pStatus::Unknown) | None => None,
            Some(_) => Some(false),
        };
        match (state(a, b), state(b, a)) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (one, other) => one.or(other),
        }
    }

    /// The bandwidth matrices with their index, but for those of RDMA that a run measured: from NIC to NIC, and with GPUs' memory.
    pub(super) fn bandwidths(&self) -> impl Iterator<Item = (usize, &'a SourcedMatrix)> + use<'a> {
        let fabric = self.fabric();
        let all = self.machine.matrices.iter().take(MOST_MATRICES).enumerate();
        all.filter(move |(_, o)| o.matrix.quantity == Quantity::Bandwidth && !is_of_nics(fabric, &o.matrix))
    }

    /// The matrices of RDMA from NIC to NIC, with what is expected of them.
    pub(super) fn between_nics(&self) -> impl Iterator<Item = (&'a SourcedMatrix, &'a Series<'a>)> + use<'a> {
        let all = self.machine.matrices.iter().zip(self.comparison.matrices()).take(MOST_MATRICES);
        let fabric = self.fabric();
        all.filter(move |(o, _)| o.matrix.quantity == Quantity::Bandwidth && is_between_nics(fabric, &o.matrix))
    }

    /// The matrices of RDMA with GPUs' memory, out and back, with what is expected of them.
    pub(super) fn gpus_with_nics(&self) -> impl Iterator<Item = (&'a SourcedMatrix, &'a Series<'a>)> + use<'a> {
        let all = self.machine.matrices.iter().zip(self.comparison.matrices()).take(MOST_MATRICES);
        all.filter(|(o, _)| o.matrix.quantity == Quantity::Bandwidth && is_out_and_back(&o.matrix))
    }

    /// The figures in words that are bandwidths, each with its comparison.
    pub(super) fn statements(&self) -> impl Iterator<Item = (&'a Statement, &'a Series<'a>)> + use<'a> {
        let all = self.machine.statements.iter().zip(self.comparison.statements());
        all.filter(|(statement, _)| statement.quantity == Quantity::Bandwidth)
    }

    /// The latency matrices.
    pub(super) fn latencies(&self) -> impl Iterator<Item = &'a SourcedMatrix> + use<'a> {
        self.machine.matrices.iter().take(MOST_MATRICES).filter(|o| o.matrix.quantity == Quantity::Latency)
    }

    /// The numbers of a bandwidth matrix between two known, different ends.
    pub(super) fn cells(&self, matrix: &Matrix) -> Vec<Cell> {
        self.cells_between(matrix, |_, _| true)
    }

    /// Those of [`View::cells`] in a node's rows and columns.
    pub(super) fn cells_of(&self, matrix: &Matrix, node: NodeId) -> Vec<Cell> {
        let node = End::Node(node);
        self.cells_between(matrix, |from, to| from == node || to == node)
    }

    fn cells_between(&self, matrix: &Matrix, wanted: impl Fn(End, End) -> bool) -> Vec<Cell> {
        let end = |name: &String| match self.fabric().find(name) {
            Some(id) => Some(End::Node(id)),
            None => name.eq_ignore_ascii_case("host").then_some(End::Host),
        };
        let mut cells = Vec::new();
        if is_oversized(matrix) {
            return cells;
        }
        let cols: Vec<Option<End>> = matrix.cols.iter().map(end).collect();
        for (i, row) in matrix.rows.iter().enumerate() {
            let Some(from) = end(row) else { continue };
            for (j, to) in cols.iter().enumerate() {
                let Some(to) = to.filter(|to| *to != from && wanted(from, *to)) else { continue };
                let rate = matrix.rate(i, j).filter(|r| r.bytes_per_second().is_finite() && *r > Rate::ZERO);
                cells.extend(rate.map(|rate| Cell { i, j, from, to, rate }));
            }
        }
        cells
    }

    /// The cells of a bandwidth matrix between two GPUs.
    pub(super) fn gpu_cells(&self, matrix: &Matrix) -> Vec<Cell> {
        let is_gpu = |id| self.fabric().node(id).kind == NodeKind::Gpu;
        let mut cells = self.cells(matrix);
        cells.retain(|c| c.nodes().is_some_and(|(a, b)| is_gpu(a) && is_gpu(b)));
        cells
    }

    /// The path of a cell's data. With P2P off, the path as if there were no NVLink: its links are used,
    /// though data goes on up to host memory.
    pub(super) fn path(&self, cell: &Cell, p2p: Option<bool>) -> Option<Path> {
        let fabric = self.fabric();
        match (cell.from, cell.to) {
            (End::Node(a), End::Node(b)) if p2p == Some(false) => fabric.tree_path(a, b),
            (End::Node(a), End::Node(b)) => fabric.path(a, b),
            (End::Node(a), End::Host) => fabric.path(a, fabric.nearest_host(a)?),
            (End::Host, End::Node(b)) => fabric.path(fabric.nearest_host(b)?, b),
            (End::Host, End::Host) => None,
        }
    }

    /// A cell in words: `GPU0→GPU1`.
    pub(super) fn arrow(&self, matrix: &Matrix, cell: &Cell) -> String {
        let [from, to] = ends(matrix, cell);
        format!("{from}→{to}")
    }

    /// A cell as a subject, either end first as the matrix has it: `GPU0-GPU1`, `host-GPU3`.
    pub(super) fn subject(&self, matrix: &Matrix, cell: &Cell) -> Subject {
        let [from, to] = ends(matrix, cell).map(str::to_owned);
        Subject::Pair(from, to)
    }

    /// The ends of cells in words, whichever direction their data goes: `GPU0 and GPU2`, `any two of GPU0–GPU3`.
    pub(super) fn between<'c>(&self, matrix: &Matrix, cells: impl IntoIterator<Item = &'c Cell>) -> String {
        let mut seen = HashSet::new();
        let named = cells.into_iter().map(|cell| ends(matrix, cell));
        let once = named.filter(|[row, col]| !seen.contains(&[*col, *row]) && seen.insert([*row, *col]));
        pairs(&once.map(|[row, col]| (row.to_owned(), col.to_owned())).collect::<Vec<_>>())
    }

    /// The expected rate of a cell of the matrix at `index`.
    pub(super) fn expected_rate(&self, index: usize, cell: &Cell) -> Option<Rate> {
        expected_rate(self.comparison.matrices().get(index)?, cell)
    }

    /// The same in GB/s.
    pub(super) fn expected_gb(&self, index: usize, cell: &Cell) -> Option<f64> {
        self.expected_rate(index, cell).map(Rate::gb)
    }

    /// A number with what it is and how sure: `GPU0→GPU1 12.00 GB/s (one way, P2P on)`.
    pub(super) fn quote(&self, measured: &SourcedMatrix, cell: &Cell) -> String {
        let (matrix, sure) = (&measured.matrix, sureness(measured, cell));
        format!("{} {} ({}{sure})", self.arrow(matrix, cell), cell.rate, matrix.describe())
    }

    /// The most that any measurement moved one way over a link.
    pub(super) fn carried(&self, link: LinkId) -> Option<Rate> {
        self.carried.get(&link).copied()
    }

    fn most_carried(&self) -> HashMap<LinkId, Rate> {
        let mut most: HashMap<LinkId, Rate> = HashMap::new();
        let stated = self.statements().map(|(_, series)| series.matrix());
        for matrix in self.bandwidths().map(|(_, o)| &o.matrix).chain(stated) {
            for cell in self.cells(matrix) {
                let rate = one_way(matrix, cell.rate);
                for hop in self.path(&cell, matrix.p2p).map(|p| p.hops).unwrap_or_default() {
                    if matches!(self.fabric().link(hop.link).kind, LinkKind::Pcie { .. }) {
                        let known = most.entry(hop.link).or_insert(rate);
                        *known = if rate > *known { rate } else { *known };
                    }
                }
            }
        }
        most
    }

    /// The sources of statements: `file:lines (tool)`, once for each file and tool; the machine's citation
    /// where no statement has its own place.
    pub(super) fn cite<'o>(&self, origins: impl IntoIterator<Item = &'o Origin>) -> Vec<String> {
        let mut places: Vec<(&Origin, Vec<(u32, u32)>)> = Vec::new();
        for origin in origins {
            match places.iter_mut().find(|(o, _)| (&o.source, o.tool) == (&origin.source, origin.tool)) {
                Some((_, lines)) => lines.extend(origin.lines),
                None => places.push((origin, origin.lines.into_iter().collect())),
            }
        }
        if places.is_empty() {
            return self.machine.source.iter().cloned().collect();
        }
        let text = |(origin, ranges): &(&Origin, Vec<(u32, u32)>)| {
            let at = if ranges.is_empty() { String::new() } else { format!(":{}", lines(ranges)) };
            format!("{}{at} ({})", origin.source, origin.tool)
        };
        places.iter().map(text).collect()
    }

    /// The source of the run.
    pub(super) fn cite_run(&self) -> Vec<String> {
        self.cite(self.case.run.iter().map(|recorded| &recorded.origin))
    }

    /// Where the numbers of a matrix stand.
    pub(super) fn cite_matrix(&self, measured: &SourcedMatrix) -> Vec<String> {
        self.cite(origins(measured))
    }

    /// Where the classes between these nodes stand: the matrix that states them, else what the nodes rest on.
    pub(super) fn class_origins(&self, nodes: &[NodeId]) -> Vec<&'a Origin> {
        match &self.machine.stated_classes {
            Some((_, origin)) => vec![origin],
            None => nodes.iter().flat_map(|id| &self.fabric().node(*id).origins).collect(),
        }
    }

    /// The facts that `pick` takes, each with its source.
    pub(super) fn facts<T>(&self, pick: impl Fn(&'a Fact) -> Option<T>) -> impl Iterator<Item = (T, &'a Origin)> {
        self.machine.evidence.iter().filter_map(move |e| Some((pick(&e.fact)?, &e.origin)))
    }

    /// Listings of PCI devices.
    pub(super) fn pci_trees(&self) -> impl Iterator<Item = (&'a PciTree, &'a Origin)> {
        self.facts(|fact| match fact {
            Fact::Pci(tree) => Some(tree),
            _ => None,
        })
    }

    /// Statements on peer access between GPUs.
    pub(super) fn peer_access(&self) -> impl Iterator<Item = (&'a P2pMatrix, &'a Origin)> {
        self.facts(|fact| match fact {
            Fact::P2p(matrix) if matrix.capability.is_access() => Some(matrix),
            _ => None,
        })
    }

    /// Listings of the kernel's modules.
    pub(super) fn modules(&self) -> impl Iterator<Item = (&'a Modules, &'a Origin)> {
        self.facts(|fact| match fact {
            Fact::Modules(modules) => Some(modules),
            _ => None,
        })
    }

    /// What sources report of the host.
    pub(super) fn hosts(&self) -> impl Iterator<Item = (&'a HostFacts, &'a Origin)> {
        self.facts(|fact| match fact {
            Fact::Host(host) => Some(host),
            _ => None,
        })
    }

    /// What the kernel's log and command line report.
    pub(super) fn kernels(&self) -> Vec<(&'a KernelFacts, &'a Origin)> {
        let kernel = |fact: &'a Fact| match fact {
            Fact::Kernel(kernel) => Some(kernel),
            _ => None,
        };
        self.facts(kernel).collect()
    }

    /// The hypervisor that a source names, and where.
    pub(super) fn hypervisor(&self) -> Option<(&'a str, &'a Origin)> {
        self.hosts().find_map(|(host, origin)| Some((host.hypervisor.as_deref()?, origin)))
    }
}

/// The names of a cell's row and column.
pub(super) fn ends<'m>(matrix: &'m Matrix, cell: &Cell) -> [&'m str; 2] {
    let name = |names: &'m [String], at: usize| names.get(at).map_or("", String::as_str);
    [name(&matrix.rows, cell.i), name(&matrix.cols, cell.j)]
}

/// The expected value of a cell as a rate, where known.
pub(super) fn expected_rate(series: &Series, cell: &Cell) -> Option<Rate> {
    as_rate(series, series.expected(cell.i, cell.j)?, |e| e.value).filter(|r| *r > Rate::ZERO)
}

/// One of an expectation's three numbers as a rate.
pub(super) fn as_rate(series: &Series, expected: &Expected, number: fn(&Expected) -> f64) -> Option<Rate> {
    series.matrix().unit.rate(number(expected)).filter(|r| r.bytes_per_second().is_finite())
}

/// How certain the number in a cell is, as the end of a sentence; empty where that is unknown.
pub(super) fn sureness(measured: &SourcedMatrix, cell: &Cell) -> String {
    let spread = measured.spread.get(cell.i).and_then(|row| row.get(cell.j)).copied().flatten();
    let bounds = spread.and_then(|s| {
        let (low, high) = (measured.matrix.unit.rate(s.low)?, measured.matrix.unit.rate(s.high)?);
        Some((s.n, low.gb(), high.gb()))
    });
    match bounds {
        None => String::new(),
        Some((1, ..)) => "; one sample".to_owned(),
        // fewer samples have no 95 % interval
        Some((n @ 0..6, low, high)) => format!("; median of {n} samples, {low:.2} to {high:.2}"),
        Some((n, low, high)) => format!("; median of {n} samples, 95 % interval {low:.2} to {high:.2}"),
    }
}

/// Where the numbers of a matrix stand, every time.
pub(super) fn origins(measured: &SourcedMatrix) -> impl Iterator<Item = &Origin> {
    std::iter::once(&measured.origin).chain(&measured.also)
}

/// The program that printed a matrix. A system file's titles begin with it: `p2pBandwidthLatencyTest, …`.
pub(super) fn program(measured: &SourcedMatrix) -> &str {
    if measured.published { measured.matrix.title.split(',').next().unwrap_or_default() } else { measured.origin.tool }
}

/// Whether `peerlane measure` measured it: medians of verified samples, with host memory next to each GPU.
pub(super) fn is_ours(measured: &SourcedMatrix) -> bool {
    !measured.published && measured.origin.tool == TOOL
}

/// Whether a matrix has more rows or columns than any machine has devices.
fn is_oversized(matrix: &Matrix) -> bool {
    matrix.rows.len().max(matrix.cols.len()) > MOST_DEVICES
}

/// One direction's part of a bandwidth: half of a bidirectional sum.
pub(super) fn one_way(matrix: &Matrix, rate: Rate) -> Rate {
    if matrix.direction == Some(Direction::Bidirectional) { rate * 0.5 } else { rate }
}

/// The wider in every respect of what a link runs at and what it may run at: what it can carry at most.
/// On a captured machine the running generation may be that of an idle link, so that only a known
/// `allowed` counts there.
pub(super) fn line_rate(running: PcieWidth, allowed: PcieWidth, captured: bool) -> Option<Rate> {
    match (running.raw_rate(), allowed.raw_rate()) {
        (Some(r), Some(a)) => Some(if r > a { r } else { a }),
        (None, Some(a)) => Some(a),
        (Some(r), None) if !captured => Some(r),
        _ => None,
    }
}

/// Whether it is of RDMA from NIC to NIC, whose data does not take the path between the two in the machine.
fn is_of_nics(fabric: &Fabric, matrix: &Matrix) -> bool {
    is_between_nics(fabric, matrix) || is_out_and_back(matrix)
}

/// Only a run says of a NIC's rates whether they are direct or staged.
fn is_out_and_back(matrix: &Matrix) -> bool {
    matrix.engine == Some(Engine::Nic) && matrix.p2p.is_some()
}

fn is_between_nics(fabric: &Fabric, matrix: &Matrix) -> bool {
    let is_nic = |name: &String| fabric.find(name).is_some_and(|id| fabric.node(id).kind == NodeKind::Nic);
    matrix.engine == Some(Engine::Nic) && matrix.rows.iter().chain(&matrix.cols).all(is_nic)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{matrix, see, switched};
    use super::*;
    use peerlane_machine::machine::Spread;

    #[test]
    fn cells_leave_out_the_diagonal_and_what_is_no_number() {
        let mut machine = switched(3);
        machine.matrices.push(matrix(&[&[900.0, 12.0, 0.0], &[12.5, 900.0, f64::NAN], &[1.0, 2.0, 900.0]]));
        see(&machine, |view| {
            let cells = view.cells(&machine.matrices[0].matrix);
            let at: Vec<(usize, usize)> = cells.iter().map(|c| (c.i, c.j)).collect();
            assert_eq!(at, [(0, 1), (1, 0), (2, 0), (2, 1)]);
            let up = view.fabric().upstream(view.fabric().find("GPU1").unwrap()).unwrap().0;
            assert_eq!(view.carried(up), Some(Rate::from_gb(12.5)));
        });
    }

    #[test]
    fn a_measured_number_says_how_sure_it_is() {
        let mut measured = matrix(&[&[0.0, 12.0], &[11.0, 0.0]]);
        let cell = Cell { i: 0, j: 1, from: End::Host, to: End::Host, rate: Rate::from_gb(12.0) };
        assert_eq!(sureness(&measured, &cell), "");
        let mut with = |n| {
            measured.spread = vec![vec![None, Some(Spread { n, low: 11.9, high: 12.15 })], vec![]];
            sureness(&measured, &cell)
        };
        assert_eq!(with(9), "; median of 9 samples, 95 % interval 11.90 to 12.15");
        assert_eq!((with(5), with(1)), ("; median of 5 samples, 11.90 to 12.15".into(), "; one sample".into()));
        assert_eq!(sureness(&measured, &Cell { i: 1, j: 0, ..cell }), "");
    }

    #[test]
    fn an_idle_reading_is_no_line_rate() {
        let (idle, full) = ("1.0 x16".parse().unwrap(), "4.0 x16".parse().unwrap());
        assert_eq!(line_rate(idle, PcieWidth::default(), true), None);
        assert_eq!(line_rate(idle, full, true), full.raw_rate());
        assert_eq!(line_rate(full, PcieWidth::default(), false), full.raw_rate());
    }
}
