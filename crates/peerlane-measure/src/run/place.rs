//! Where a cell belongs: the matrix that holds what is comparable with it, and its row and column.

use super::Cell;
use crate::plan::{Test, Work};
use peerlane_machine::matrix::{Direction, Engine, Operation, Quantity};
use peerlane_machine::names::is_host;
use peerlane_machine::transfer::{HostMemory, Transfer, Via};
use peerlane_machine::units::Bytes;

/// Messages below this are a matter of start-up time and not of rate.
const SMALL: Bytes = Bytes(64 << 10);

/// The column of copies within a GPU's memory, as nvbandwidth's tables have it.
pub(super) const SELF: &str = "self";

/// Which ends are host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ends {
    /// None: rows and columns are GPUs.
    Gpus,
    /// None: rows and columns are NICs, on the diagonal by loopback.
    Nics,
    /// None: rows are GPUs, and columns the NICs that read their memory.
    ToNic,
    /// None: rows are NICs, and columns the GPUs whose memory they write.
    FromNic,
    /// The rows.
    FromHost,
    /// The columns.
    ToHost,
    /// Both ends are one GPU.
    Within,
}

/// What cells of one matrix have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kind {
    pub(super) test: Test,
    pub(super) quantity: Quantity,
    pub(super) ends: Ends,
    pub(super) via: Via,
    pub(super) direction: Option<Direction>,
    pub(super) engine: Option<Engine>,
    pub(super) op: Option<Operation>,
    pub(super) memory: HostMemory,
    small: bool,
    unit_name: &'static str,
}

/// A cell's place in a matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place<'a> {
    pub(super) kind: Kind,
    pub(super) row: &'a str,
    pub(super) col: &'a str,
    /// The mirrored place holds the same number, since it is of both directions.
    pub(super) mirrored: bool,
}

/// Whether the steps of a family are sets of transfers even where a set has one member.
fn is_of_sets(test: Test) -> bool {
    matches!(test, Test::OneToAll | Test::AllToOne | Test::Permutations | Test::AllHost | Test::Subsets)
}

/// The transfers of a cell of which several run at once, other than a pair of opposite ones.
pub(super) fn set(cell: &Cell) -> Option<&[Transfer]> {
    let Work::Transfers(transfers) = &cell.work else { return None };
    let lone = match transfers.as_slice() {
        [] | [_] => true,
        [one, other] => *other == one.reversed(),
        _ => false,
    };
    (is_of_sets(cell.test) || !lone).then_some(transfers.as_slice()).filter(|t| !t.is_empty())
}

/// The cell's place, if it has one: sets, sweeps over sizes, collectives and host memory alone have none.
pub(super) fn place(cell: &Cell) -> Option<Place<'_>> {
    if cell.test == Test::Sizes {
        return None;
    }
    let place = match &cell.work {
        Work::Transfers(_) if set(cell).is_some() => return None,
        Work::Transfers(transfers) => match transfers.as_slice() {
            [one] => transfer(cell, one, Some(Direction::Unidirectional)),
            // the project's "both ways" is the sum, as the CUDA sample has it; the shares stay in the cell's `each`
            [one, _] => transfer(cell, one, Some(Direction::Bidirectional)),
            _ => return None,
        },
        Work::SmallCopies(one) => transfer(cell, one, None),
        Work::Loads { gpu, memory } => {
            let kind = Kind { engine: Some(Engine::Sm), ..Kind::of(cell, ends(gpu, memory)) };
            // a GPU's own memory has its place among the others'
            let ends = if kind.ends == Ends::Within { Ends::Gpus } else { kind.ends };
            Place { kind: Kind { ends, ..kind }, row: gpu, col: memory, mirrored: false }
        }
        Work::Signals { a, b } => {
            let kind = Kind { engine: Some(Engine::Sm), ..Kind::of(cell, ends(a, b)) };
            Place { kind, row: a, col: b, mirrored: true }
        }
        Work::Rdma(rdma) => {
            let (source, destination) = rdma.ends();
            let direction = Some(Direction::Unidirectional);
            let of = |ends| Kind { engine: Some(Engine::Nic), direction, ..Kind::of(cell, ends) };
            if rdma.gpu().is_some() {
                let ends = if is_host(&rdma.from.memory) { Ends::FromNic } else { Ends::ToNic };
                let kind = Kind { via: rdma.via, ..of(ends) };
                return Some(Place { kind, row: source, col: destination, mirrored: false });
            }
            let swapped = rdma.op == Operation::Read;
            let (row, col) = if swapped { (destination, source) } else { (source, destination) };
            Place { kind: Kind { op: Some(rdma.op), ..of(Ends::Nics) }, row, col, mirrored: false }
        }
        Work::Collective { .. } | Work::HostMemory { .. } | Work::Halo(_) | Work::SpinGlass(_) | Work::Bfs(_) => {
            return None;
        }
    };
    Some(place)
}

impl Kind {
    fn of(cell: &Cell, ends: Ends) -> Self {
        Kind {
            test: cell.test,
            quantity: cell.quantity,
            ends,
            via: Via::Direct,
            direction: None,
            engine: None,
            op: None,
            memory: HostMemory::Pinned,
            small: cell.size < SMALL,
            unit_name: cell.unit.name(),
        }
    }

    /// Peer access on or off, between different GPUs; of a GPU and a NIC, direct or staged.
    pub(super) fn p2p(&self) -> Option<bool> {
        matches!(self.ends, Ends::Gpus | Ends::ToNic | Ends::FromNic).then_some(self.via == Via::Direct)
    }

    /// What the matrix is called: its family, and what a matrix has no field for.
    pub(super) fn title(&self) -> String {
        let mut words = vec![self.test.name()];
        words.extend(match self.memory {
            HostMemory::Pinned => None,
            HostMemory::Pageable => Some("pageable"),
            HostMemory::ManagedFaults => Some("managed, by faults"),
            HostMemory::ManagedPrefetch => Some("managed, prefetched"),
        });
        // of a NIC, staged is always this
        let own = self.via == Via::Pipeline && self.ends == Ends::Gpus;
        words.extend(own.then_some("through a pipeline of our own"));
        words.dedup();
        words.join(", ")
    }
}

fn ends(source: &str, destination: &str) -> Ends {
    match (is_host(source), is_host(destination)) {
        (true, _) => Ends::FromHost,
        (_, true) => Ends::ToHost,
        _ if source == destination => Ends::Within,
        _ => Ends::Gpus,
    }
}

/// Rows send and columns receive; the reader of a read stands in the row. Host memory initiates nothing, so that there
/// the data's direction decides, and of both directions the host has the row.
fn transfer<'a>(cell: &Cell, of: &'a Transfer, direction: Option<Direction>) -> Place<'a> {
    let (source, destination) = (of.source.as_str(), of.destination.as_str());
    let both = direction == Some(Direction::Bidirectional);
    let ends = match ends(source, destination) {
        Ends::ToHost if both => Ends::FromHost,
        ends => ends,
    };
    let swapped = match ends {
        Ends::Gpus => of.op == Operation::Read,
        Ends::FromHost => !is_host(source),
        Ends::ToHost | Ends::Within | Ends::Nics | Ends::ToNic | Ends::FromNic => false,
    };
    let (row, col) = match ends {
        Ends::Within => (source, SELF),
        _ if swapped => (destination, source),
        _ => (source, destination),
    };
    let between_gpus = ends == Ends::Gpus;
    let kind = Kind {
        via: if between_gpus { of.via } else { Via::Direct },
        memory: if matches!(ends, Ends::FromHost | Ends::ToHost) { of.memory } else { HostMemory::Pinned },
        direction,
        engine: Some(of.engine),
        op: between_gpus.then_some(of.op),
        ..Kind::of(cell, ends)
    };
    Place { kind, row, col, mirrored: both && between_gpus }
}
