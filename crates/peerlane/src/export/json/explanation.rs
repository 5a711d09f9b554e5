//! The document of `explain`.

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use peerlane_design::upgrades::Upgrade;
use peerlane_machine::fabric::PathClass;
use peerlane_machine::matrix::{Operation, Quantity, Unit};
use peerlane_model::expectation::ExpectedCurve;
use peerlane_model::model::rdma::{DeviceDescription, RdmaDescription};
use peerlane_model::model::{HaloAdvice, UnifiedMemory};

/// What `explain --json` writes: the path from `a` to `b`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ExplanationDocument {
    /// Names this format.
    #[schemars(extend("const" = "peerlane/explanation/2"))]
    pub schema: &'static str,
    /// The machine's name.
    pub machine: String,
    /// Where the data comes from.
    pub a: String,
    /// Where it goes.
    pub b: String,
    /// The class of the path; null where the fabric has no path.
    pub class: Option<PathClass>,
    /// Whether a transfer goes through host memory; null where the model has no route.
    pub staged: Option<bool>,
    /// Why it is staged.
    pub staged_because: Option<String>,
    /// The hops, in order.
    pub hops: Vec<ExplainedHop>,
    /// Expected from `a` to `b` alone.
    pub forward: Option<ExpectedRate>,
    /// Expected from `b` to `a` alone.
    pub backward: Option<ExpectedRate>,
    /// Expected both ways at once, as the sum of both.
    pub both: Option<ExpectedRate>,
    /// What copies from `a` to `b` take, by size; null where a NIC drives them or no rate is known.
    pub curve: Option<ExpectedCurve>,
    /// Why a rate is missing above.
    pub unknown: Vec<String>,
    /// Assumptions about link widths that no source reports.
    pub assumptions: Vec<String>,
    /// What would raise the rate from `a` to `b` alone, the greatest rise first.
    pub upgrades: Vec<Upgrade>,
    /// What was measured or published between the two.
    pub measured: Vec<MeasuredCell>,
    /// The RDMA paths between a GPU and a NIC; null between others.
    pub rdma: Option<RdmaDescription>,
    /// The paths between a GPU and a drive or capture card; absent between others.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    pub device: Option<DeviceDescription>,
    /// Unified memory of a GPU and host memory; absent between others.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    pub unified_memory: Option<UnifiedMemory>,
    /// How two GPUs should exchange faces of a grid, one each way at once; absent between others.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    pub halo: Option<HaloAdvice>,
}

/// One hop of an explained path.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ExplainedHop {
    /// Where it starts.
    pub from: String,
    /// Where it ends.
    pub to: String,
    /// The link, in words: `PCIe 3.0 x16`.
    pub link: Option<String>,
    /// The most a lone transfer gets through it, in GB/s.
    pub limit: Option<f64>,
    /// Why.
    pub why: String,
    /// Whether it is the tightest of all.
    pub tightest: bool,
    /// What its link rests on.
    pub evidence: Vec<String>,
}

/// An expected rate.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ExpectedRate {
    /// In GB/s.
    pub rate: f64,
    /// The least that it may be, by the ranges of the model's constants.
    pub low: f64,
    /// The most.
    pub high: f64,
    /// Its bottleneck.
    pub bottleneck: String,
}

/// One number measured or published between two nodes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MeasuredCell {
    /// What is measured.
    pub quantity: Quantity,
    /// Write or read.
    pub op: Option<Operation>,
    /// What the number is, in words.
    pub what: String,
    /// Row of its matrix.
    pub row: String,
    /// Column.
    pub col: String,
    /// The number, or the lowest of a stated range.
    pub low: f64,
    /// The same number, or the highest of a stated range.
    pub high: f64,
    /// Its unit.
    pub unit: Unit,
    /// What the model expects there, in the same unit.
    pub expected: Option<f64>,
    /// True for a document's figure.
    pub published: bool,
    /// Its source.
    pub evidence: String,
}
