//! What rules need of a machine again and again: its pairs, its matrices and their [`cells`], its facts and their [`sources`].

pub(super) mod cells;
pub(super) mod sources;

use std::cell::OnceCell;
use std::collections::HashMap;

use super::words::distinct;
use super::{Context, Settings};
use cells::one_way;
use peerlane_design::case::Case;
use peerlane_machine::fabric::{
    Fabric, Interconnect, LinkId, LinkKind, NodeId, NodeKind, PathClass, PciAddress, PcieWidth,
};
use peerlane_machine::fact::P2pStatus;
use peerlane_machine::machine::{Machine, MachineKind, SourcedMatrix, Statement};
use peerlane_machine::matrix::{Engine, Matrix, Quantity};
use peerlane_machine::subject::Subject;
use peerlane_machine::units::Rate;
use peerlane_model::assumptions::Fit;
use peerlane_model::comparison::{Comparison, Series};
use peerlane_model::model::Model;
use peerlane_read::catalogue::Part;

/// Rules that look at every pair stay silent on machines with more GPUs or NICs than this: no machine
/// has them, and pairs grow with the square.
const MOST_DEVICES: usize = 512;

/// Matrices looked at, of the many that a text may hold.
const MOST_MATRICES: usize = 1024;

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
    use super::*;

    #[test]
    fn an_idle_reading_is_no_line_rate() {
        let (idle, full) = ("1.0 x16".parse().unwrap(), "4.0 x16".parse().unwrap());
        assert_eq!(line_rate(idle, PcieWidth::default(), true), None);
        assert_eq!(line_rate(idle, full, true), full.raw_rate());
        assert_eq!(line_rate(full, PcieWidth::default(), false), full.raw_rate());
    }
}
