//! The document of `systems`.

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use peerlane_design::cluster::{Cluster, ClusterSummary};
use peerlane_machine::fabric::NodeKind;
use peerlane_machine::machine::Machine;
use peerlane_machine::machine::description::MachineDescription;

/// What `systems --json` writes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SystemsDocument {
    /// Names this format.
    #[schemars(extend("const" = "peerlane/systems/1"))]
    pub schema: &'static str,
    /// The systems.
    pub systems: Vec<SystemSummary>,
    /// The clusters.
    pub clusters: Vec<ClusterSummary>,
}

impl SystemsDocument {
    /// Summaries of machines and clusters; with `full`, their whole description too.
    pub fn new<'a>(machines: impl IntoIterator<Item = &'a Machine>, clusters: &[Cluster], full: bool) -> Self {
        let summary = |machine: &Machine| SystemSummary {
            name: machine.name.clone(),
            title: machine.title.clone(),
            source: machine.source.clone(),
            gpus: machine.fabric.of_kind(NodeKind::Gpu).count(),
            nics: machine.fabric.of_kind(NodeKind::Nic).count(),
            matrices: machine.matrices.len(),
            statements: machine.statements.len(),
            machine: full.then(|| MachineDescription::of(machine)),
        };
        SystemsDocument {
            schema: "peerlane/systems/1",
            systems: machines.into_iter().map(summary).collect(),
            clusters: clusters.iter().map(ClusterSummary::of).collect(),
        }
    }
}

/// A system of the catalogue.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SystemSummary {
    /// The name to give as TARGET.
    pub name: String,
    /// What it is.
    pub title: Option<String>,
    /// Citation.
    pub source: Option<String>,
    /// How many GPUs.
    pub gpus: usize,
    /// How many NICs, counted by ports.
    pub nics: usize,
    /// How many published matrices.
    pub matrices: usize,
    /// How many figures stated in words.
    pub statements: usize,
    /// All of it, from `systems show`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<MachineDescription>,
}
