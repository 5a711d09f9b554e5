//! The place of a measurement in a matrix: what is comparable stands in one, each by its row and column.

use peerlane_machine::matrix::{Direction, Engine, Operation};
use peerlane_machine::names::is_host;
use peerlane_machine::transfer::{HostMemory, Transfer, Via};

/// The column of copies within a GPU's memory, as nvbandwidth's tables have it.
const SELF: &str = "self";

/// Which ends are host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ends {
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

/// What measurements of one matrix have in common, apart from family, quantity and size.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// The sort of its ends.
    pub ends: Ends,
    /// Directly, or through host memory.
    pub via: Via,
    /// One way or both ways at once; `None` of latencies.
    pub direction: Option<Direction>,
    /// What drives it.
    pub engine: Option<Engine>,
    /// Write or read, where they are distinguished.
    pub op: Option<Operation>,
    /// The kind of host memory, where the host is an end.
    pub memory: HostMemory,
}

impl Shape {
    /// Of direct access to pinned memory.
    pub(super) fn new(ends: Ends, engine: Engine) -> Self {
        let (via, memory) = (Via::Direct, HostMemory::Pinned);
        Shape { ends, via, direction: None, engine: Some(engine), op: None, memory }
    }

    /// Peer access on or off, between different GPUs; of a GPU and a NIC, direct or staged.
    pub(crate) fn p2p(&self) -> Option<bool> {
        matches!(self.ends, Ends::Gpus | Ends::ToNic | Ends::FromNic).then_some(self.via == Via::Direct)
    }
}

/// A place in a matrix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place<'w> {
    /// Which matrix.
    pub shape: Shape,
    /// Its row.
    pub row: &'w str,
    /// Its column.
    pub col: &'w str,
    /// The mirrored place holds the same number, since it is of both directions.
    pub mirrored: bool,
}

/// Of what goes between two ends.
pub(super) fn ends(source: &str, destination: &str) -> Ends {
    match (is_host(source), is_host(destination)) {
        (true, _) => Ends::FromHost,
        (_, true) => Ends::ToHost,
        _ if source == destination => Ends::Within,
        _ => Ends::Gpus,
    }
}

/// Rows send and columns receive; the reader of a read stands in the row. Host memory initiates nothing, so that there
/// the data's direction decides, and of both directions the host has the row.
pub(super) fn transfer(of: &Transfer, direction: Option<Direction>) -> Place<'_> {
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
    let shape = Shape {
        via: if between_gpus { of.via } else { Via::Direct },
        memory: if matches!(ends, Ends::FromHost | Ends::ToHost) { of.memory } else { HostMemory::Pinned },
        direction,
        op: between_gpus.then_some(of.op),
        ..Shape::new(ends, of.engine)
    };
    Place { shape, row, col, mirrored: both && between_gpus }
}
