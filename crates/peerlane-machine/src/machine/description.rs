//! A machine in JSON: its nodes, links, classes and numbers, each with what it rests on.

use crate::schema::JsonSchema;
use serde::Serialize;

use super::{Contradiction, Facts, Machine, MachineKind, Recognized, Slot, SourcedMatrix, Spread, Statement};
use crate::curve::Curve;
use crate::fabric::{Fabric, GpuLink, Interconnect, Link, LinkKind, Node, NodeId, PathClass, PcieWidth};
use crate::fact::RateTable;
use crate::matrix::Matrix;
use crate::origin::Origin;
use crate::units::Rate;

/// One machine as far as it is known.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MachineDescription {
    /// Short name.
    pub name: String,
    /// What it is, in a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Whether it is a catalogue entry, a design or a capture.
    pub description: MachineKind,
    /// Citation, for catalogue entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The catalogue system that it is, where it equals one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recognized: Option<Recognized>,
    /// Its nodes.
    pub nodes: Vec<Node>,
    /// Its links.
    pub links: Vec<LinkDescription>,
    /// Path classes between its GPUs and NICs, computed from nodes and links.
    pub classes: Classes,
    /// Numbers measured on it or published.
    pub matrices: Vec<MatrixDescription>,
    /// Numbers against message size.
    pub curves: Vec<MeasuredCurve>,
    /// Published tables of rates with words for rows.
    pub rates: Vec<MeasuredRates>,
    /// Figures that its source states in words.
    pub statements: Vec<Statement>,
    /// Slots of its board, where known.
    pub slots: Vec<Slot>,
    /// Price, size and the like.
    pub facts: Facts,
    /// Other statements of its source, in sentences.
    pub notes: Vec<String>,
    /// What the evidence leaves unknown.
    pub unknown: Vec<String>,
    /// What could not be read, and anomalies.
    pub warnings: Vec<String>,
    /// What is assumed.
    pub assumptions: Vec<String>,
    /// What cannot be true.
    pub contradictions: Vec<Contradiction>,
    /// All statements that it rests on, each `file:lines (tool)`.
    pub evidence: Vec<Origin>,
}

impl MachineDescription {
    /// Describes a machine.
    pub fn of(machine: &Machine) -> Self {
        let fabric = &machine.fabric;
        MachineDescription {
            name: machine.name.clone(),
            title: machine.title.clone(),
            description: machine.kind,
            source: machine.source.clone(),
            recognized: machine.recognized.clone(),
            nodes: fabric.nodes().to_vec(),
            links: fabric.links().iter().map(|link| LinkDescription::of(fabric, link)).collect(),
            classes: Classes::of(fabric),
            matrices: machine.matrices.iter().map(MatrixDescription::of).collect(),
            curves: machine.curves.iter().map(MeasuredCurve::of).collect(),
            rates: machine.rates.iter().map(MeasuredRates::of).collect(),
            statements: machine.statements.clone(),
            slots: machine.slots.clone(),
            facts: machine.facts,
            notes: machine.notes.clone(),
            unknown: machine.unknown.iter().map(ToString::to_string).collect(),
            warnings: machine.warnings.iter().map(ToString::to_string).collect(),
            assumptions: machine.assumptions.clone(),
            contradictions: machine.contradictions.clone(),
            evidence: machine.evidence.iter().map(|e| e.origin.clone()).collect(),
        }
    }
}

/// A link: its two ends, its kind with what belongs to that kind, and what it rests on.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LinkDescription {
    /// One end; the upstream one where there is such a thing.
    pub a: String,
    /// The other end.
    pub b: String,
    /// Its kind.
    #[serde(flatten)]
    pub kind: LinkKindDescription,
    /// Key of its component model in the catalogue.
    pub part: Option<String>,
    /// True where no source states it.
    pub assumed: bool,
    /// What else a reader should know.
    pub note: Option<String>,
    /// The statements it rests on.
    pub evidence: Vec<Origin>,
}

impl LinkDescription {
    fn of(fabric: &Fabric, link: &Link) -> Self {
        LinkDescription {
            a: fabric.node(link.a).name.clone(),
            b: fabric.node(link.b).name.clone(),
            kind: LinkKindDescription::of(&link.kind),
            part: link.part.clone(),
            assumed: link.assumed,
            note: link.note.clone(),
            evidence: link.origins.clone(),
        }
    }
}

/// How a link carries data; `kind` names it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum LinkKindDescription {
    /// PCI Express.
    Pcie {
        /// The width it runs at, if anything is known of it.
        running: Option<PcieWidth>,
        /// The most that both ends and the slot allow, if anything is known of it.
        allowed: Option<PcieWidth>,
        /// The slot it passes through.
        slot: Option<String>,
    },
    /// NVLink.
    Nvlink {
        /// NVLink generation.
        generation: Option<u8>,
        /// Bricks in the bundle.
        bricks: u8,
    },
    /// AMD's GPU-to-GPU link.
    Xgmi {
        /// Links in the bundle.
        count: Option<u8>,
    },
    /// NVLink-C2C between a CPU and a GPU.
    C2c {
        /// GB/s of the whole bundle in one direction, where a source gives it.
        rate: Option<f64>,
    },
    /// A GPU's own interconnect of any other kind, or of which more or less is known.
    GpuLink {
        /// Its name in system files: `nvlink`.
        interconnect: String,
        /// Its generation.
        generation: Option<u8>,
        /// Links in the bundle.
        links: Option<u8>,
        /// GB/s of the whole bundle in one direction, where a source gives it.
        rate: Option<f64>,
    },
    /// Between CPU packages.
    Smp,
    /// Inside a CPU package.
    OnDie,
    /// Inside a card.
    OnCard,
}

impl LinkKindDescription {
    fn gpu(link: &GpuLink) -> Self {
        let GpuLink { interconnect, generation, links, rate } = *link;
        match (interconnect, links, rate) {
            (Interconnect::Nvlink, Some(bricks), None) => Self::Nvlink { generation, bricks },
            (Interconnect::Xgmi, count, None) if generation.is_none() => Self::Xgmi { count },
            (Interconnect::C2c, None, rate) if generation.is_none() => Self::C2c { rate: rate.map(Rate::gb) },
            _ => Self::GpuLink {
                interconnect: interconnect.family().key.to_owned(),
                generation,
                links,
                rate: rate.map(Rate::gb),
            },
        }
    }

    fn of(kind: &LinkKind) -> Self {
        let known = |width: PcieWidth| (!width.is_unknown()).then_some(width);
        match kind {
            LinkKind::Pcie { running, allowed, slot } => {
                Self::Pcie { running: known(*running), allowed: known(*allowed), slot: slot.clone() }
            }
            LinkKind::Gpu(link) => Self::gpu(link),
            LinkKind::Smp => Self::Smp,
            LinkKind::OnDie => Self::OnDie,
            LinkKind::OnCard => Self::OnCard,
        }
    }
}

/// Path classes between GPUs and NICs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Classes {
    /// Row names.
    pub rows: Vec<String>,
    /// Column names, the same as the rows.
    pub cols: Vec<String>,
    /// `X`, `NV#`, `XGMI`, `PIX`, `PXB`, `PHB`, `NODE`, `SYS`; null where the fabric has no path.
    pub values: Vec<Vec<Option<PathClass>>>,
}

impl Classes {
    /// The classes that a fabric implies.
    pub fn of(fabric: &Fabric) -> Self {
        Classes::among(fabric, &fabric.devices())
    }

    /// The classes between some nodes.
    pub fn among(fabric: &Fabric, devices: &[NodeId]) -> Self {
        let names: Vec<String> = devices.iter().map(|id| fabric.node(*id).name.clone()).collect();
        let values = devices.iter().map(|a| devices.iter().map(|b| fabric.class(*a, *b)).collect()).collect();
        Classes { rows: names.clone(), cols: names, values }
    }
}

/// Numbers between rows and columns, with where they stand.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MatrixDescription {
    /// The numbers.
    #[serde(flatten)]
    pub matrix: Matrix,
    /// Where they stand, and where the same numbers stand again: `file:lines (tool); file:lines (tool)`.
    pub evidence: String,
    /// True for figures that a document states, false for a program's own output.
    pub published: bool,
    /// How sure each number is, in the shape of the values; absent where unknown.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub spread: Vec<Vec<Option<Spread>>>,
}

impl MatrixDescription {
    fn of(measured: &SourcedMatrix) -> Self {
        let origins = std::iter::once(&measured.origin).chain(&measured.also);
        MatrixDescription {
            matrix: measured.matrix.clone(),
            evidence: origins.map(ToString::to_string).collect::<Vec<_>>().join("; "),
            published: measured.published,
            spread: measured.spread.clone(),
        }
    }
}

/// Numbers against message size, with where they stand.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MeasuredCurve {
    /// The numbers.
    #[serde(flatten)]
    pub curve: Curve,
    /// Where they stand: `file:lines (tool)`.
    pub evidence: Origin,
}

impl MeasuredCurve {
    fn of((curve, origin): &(Curve, Origin)) -> Self {
        MeasuredCurve { curve: curve.clone(), evidence: origin.clone() }
    }
}

/// A published table of rates with words for rows, with where it stands.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MeasuredRates {
    /// The table.
    #[serde(flatten)]
    pub table: RateTable,
    /// Where it stands: `file:lines (tool)`.
    pub evidence: Origin,
}

impl MeasuredRates {
    fn of((table, origin): &(RateTable, Origin)) -> Self {
        MeasuredRates { table: table.clone(), evidence: origin.clone() }
    }
}
