//! A machine as far as it is known: its fabric, the numbers measured on it, and what is not known.
//!
//! Evidence (`assemble`) and system files (`catalogue`) both end here, so that
//! nothing downstream needs to know which it was.

pub mod description;
pub mod lookup;
mod nccl_rings;
pub mod reading;

pub use nccl_rings::NcclRings;

use std::collections::BTreeMap;

use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::curve::Curve;
use crate::fabric::{Fabric, NodeId};
use crate::fact::{ClassMatrix, Evidence, IommuDomain, P2pStatus, RateTable, Remark};
use crate::gap::Gap;
use crate::matrix::{Direction, Matrix, Quantity, Unit};
use crate::origin::{Origin, Warning};
use crate::subject::Subject;

use reading::{Doubted, Reading};

/// Where a machine's description comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MachineKind {
    /// A system of the embedded catalogue.
    Catalogue,
    /// A system file of the user's.
    Design,
    /// Text that a machine printed.
    #[default]
    Captured,
}

/// How sure a number is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spread {
    /// Samples whose median it is.
    pub n: usize,
    /// Low end of the median's 95 % interval, in the matrix's unit; of fewer than 6 samples, the lowest.
    pub low: f64,
    /// High end, or the highest.
    pub high: f64,
}

/// A matrix of numbers with where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct SourcedMatrix {
    /// The numbers.
    pub matrix: Matrix,
    /// Where they stand.
    pub origin: Origin,
    /// Where the same numbers stand again.
    pub also: Vec<Origin>,
    /// True for figures that a document states of the machine, false for a program's own output.
    pub published: bool,
    /// Why numbers of it differ from what the machine's links explain, where its system file states it.
    pub known_cause: Option<String>,
    /// How sure each number is, in the matrix's shape; empty where unknown.
    pub spread: Vec<Vec<Option<Spread>>>,
}

/// A figure that a source states in words, for a set of transfers: "P2P speed 0.73–0.82 GB/s".
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Statement {
    /// The statement, in the source's sense.
    pub text: String,
    /// What is measured.
    pub quantity: Quantity,
    /// Direction.
    pub direction: Option<Direction>,
    /// Peer-to-peer on or off, if it matters and is stated.
    pub p2p: Option<bool>,
    /// Sources of the transfers: node names, or `host`.
    pub from: Vec<String>,
    /// Destinations; a name that is in both is no transfer to itself unless it stands alone in both.
    pub to: Vec<String>,
    /// Lowest value.
    pub low: f64,
    /// Highest value; equal to `low` for a single figure.
    pub high: f64,
    /// Unit of both.
    pub unit: Unit,
}

impl Statement {
    /// Its transfers as a matrix that holds the lowest value in every cell, so that it can be treated as one.
    pub fn to_matrix(&self) -> Matrix {
        let alone = self.from.len() == 1 && self.to.len() == 1;
        let value = |a: &String, b: &String| (a != b || alone).then_some(self.low);
        Matrix {
            quantity: self.quantity,
            direction: self.direction,
            p2p: self.p2p,
            unit: self.unit,
            rows: self.from.clone(),
            cols: self.to.clone(),
            values: self.from.iter().map(|a| self.to.iter().map(|b| value(a, b)).collect()).collect(),
            title: self.text.clone(),
            ..Matrix::default()
        }
        .typed_by_title()
    }
}

/// What one may want to know of a machine besides its paths; all as a source states it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Facts {
    /// Price in US dollars, in the year of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price_usd: Option<f64>,
    /// Height in rack units.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rack_units: Option<f64>,
    /// Year of the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub year: Option<u16>,
    /// Power in W.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power_w: Option<f64>,
    /// Peak computing rate in TFLOP/s, of the precision that the source means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tflops: Option<f64>,
}

/// A connector on a board.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Slot {
    /// The board's name for it.
    pub name: String,
    /// Lanes that the connector has room for.
    pub physical: u8,
    /// Lanes that are wired to it in this configuration.
    pub wired: u8,
    /// Node whose port it is.
    pub port: Option<String>,
    /// Slots or devices that it shares lanes with.
    #[serde(default)]
    pub shares: Vec<String>,
}

/// Two statements that cannot both be true, or one that no machine can fulfil.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Contradiction {
    /// What contradicts what.
    pub message: String,
    /// What it is about.
    pub subjects: Vec<Subject>,
    /// Where the statements stand.
    #[serde(rename = "evidence")]
    pub origins: Vec<Origin>,
}

/// A catalogue system that a machine equals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Recognized {
    /// Its name: `exxact-txr430`.
    pub system: String,
    /// By what.
    pub by: RecognizedBy,
}

/// By what a machine was recognized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RecognizedBy {
    /// Its numbers are those of the system.
    Numbers,
    /// Its GPUs and their paths are those of the system.
    Design,
}

impl std::fmt::Display for Recognized {
    /// `this is exxact-txr430: peerlane check exxact-txr430`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Recognized { system, by } = self;
        let is = match by {
            RecognizedBy::Numbers => "this is",
            RecognizedBy::Design => "this has the GPUs and paths of",
        };
        write!(f, "{is} {system}: peerlane check {system}")
    }
}

/// A machine as far as it is known.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// Short name: a catalogue name, a heading of the document, a host name, or `machine 1`.
    pub name: String,
    /// What it is, in a line.
    pub title: Option<String>,
    /// Where the description comes from.
    pub kind: MachineKind,
    /// Citation, for catalogue entries.
    pub source: Option<String>,
    /// Nodes and links.
    pub fabric: Fabric,
    /// The class matrix that the evidence states, as it stands there.
    pub stated_classes: Option<(ClassMatrix, Origin)>,
    /// Numbers between pairs.
    pub matrices: Vec<SourcedMatrix>,
    /// Numbers against message size.
    pub curves: Vec<(Curve, Origin)>,
    /// Published tables of rates with words for rows.
    pub rates: Vec<(RateTable, Origin)>,
    /// Figures stated in words.
    pub statements: Vec<Statement>,
    /// Slots of the board, where known.
    pub slots: Vec<Slot>,
    /// Price, size and the like.
    pub facts: Facts,
    /// Other statements of a source, in sentences.
    pub notes: Vec<String>,
    /// Peer-to-peer status by ordered pair, where a source states it.
    pub p2p: BTreeMap<(NodeId, NodeId), P2pStatus>,
    /// All statements that the machine rests on.
    pub evidence: Vec<Evidence>,
    /// The catalogue system that it is, where it equals one.
    pub recognized: Option<Recognized>,
    /// What the prose around the evidence states.
    pub remarks: Vec<Remark>,
    /// What the evidence leaves unknown.
    pub unknown: Vec<Gap>,
    /// What is assumed, in sentences.
    pub assumptions: Vec<String>,
    /// What could not be read, and anomalies.
    pub warnings: Vec<Warning>,
    /// What cannot be true.
    pub contradictions: Vec<Contradiction>,
    /// Readings that cannot be so, which nothing uses; each is a warning too.
    pub doubted: Vec<Doubted>,
    /// What the IOMMU does with accesses of devices, where the kernel reports it.
    pub iommu: Option<Reading<IommuDomain>>,
}

impl Machine {
    /// Whether its GPUs may be joined by NVLinks that no source shows.
    pub fn nvlinks_unknown(&self) -> bool {
        self.unknown.iter().any(Gap::is_of_nvlinks)
    }

    /// NICs that do RDMA: those of which a source shows it, and those of a product that the catalogue knows (all its adapters
    /// do). In a description a NIC is there for it; in a capture, one of an unknown product may be for the office network.
    pub fn rdma_nics(&self) -> impl Iterator<Item = NodeId> + '_ {
        let described = self.kind != MachineKind::Captured;
        let does = move |id: &NodeId| {
            let node = self.fabric.node(*id);
            node.rdma.unwrap_or(node.part.is_some() || described)
        };
        self.fabric.of_kind(crate::fabric::NodeKind::Nic).filter(does)
    }

    /// A machine of which only a fabric is known.
    pub fn new(name: impl Into<String>, kind: MachineKind, fabric: Fabric) -> Self {
        Machine { name: name.into(), kind, fabric, ..Machine::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_in_words_skips_transfers_to_oneself() {
        let names = vec!["GPU0".to_owned(), "GPU1".to_owned()];
        let statement = Statement {
            text: "pairs".to_owned(),
            quantity: Quantity::Bandwidth,
            direction: Some(Direction::Unidirectional),
            p2p: Some(true),
            from: names.clone(),
            to: names,
            low: 0.73,
            high: 0.82,
            unit: Unit::GigabytesPerSecond,
        };
        assert_eq!(statement.to_matrix().values, [[None, Some(0.73)], [Some(0.73), None]]);
    }
}
