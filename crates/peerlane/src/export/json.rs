//! The JSON documents that `--json` writes, one type a document, with their JSON Schemas in `schema/`.
//!
//! Every document has a `schema` field. A number after the last slash rises when a field changes its
//! meaning or goes away; new fields may come at any time.

use schemars::JsonSchema;
use serde::Serialize;

use crate::check::{Finding, Verdict};
use crate::evidence::{Matrix, Operation, Origin, Quantity, Unit};
use crate::expectation::ExpectedMatrix;
use crate::fabric::{CpuList, Fabric, Link, LinkKind, Node, NodeId, NodeKind, PathClass, PciAddress, PcieWidth};
use crate::machine::{Facts, Machine, MachineKind, Observed, Slot, Statement};

/// What `map --json` writes: machines as far as they are known.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FabricDocument {
    /// Names this format.
    #[schemars(extend("const" = "peerlane/fabric/1"))]
    pub schema: &'static str,
    /// The machines, in the order the evidence speaks of them.
    pub machines: Vec<MachineDescription>,
}

impl FabricDocument {
    /// Describes machines.
    pub fn new<'a>(machines: impl IntoIterator<Item = &'a Machine>) -> Self {
        let machines = machines.into_iter().map(MachineDescription::of).collect();
        FabricDocument { schema: "peerlane/fabric/1", machines }
    }
}

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
    /// Its nodes.
    pub nodes: Vec<NodeDescription>,
    /// Its links.
    pub links: Vec<LinkDescription>,
    /// Path classes between its GPUs and NICs, computed from nodes and links.
    pub classes: Classes,
    /// Numbers seen on it or published of it.
    pub matrices: Vec<ObservedMatrix>,
    /// Figures that its source states in words.
    pub statements: Vec<Statement>,
    /// Slots of its board, where known.
    pub slots: Vec<Slot>,
    /// Price, size and the like.
    pub facts: Facts,
    /// What else its source says, in sentences.
    pub notes: Vec<String>,
    /// What the evidence cannot tell.
    pub unknown: Vec<String>,
    /// What could not be read, or is odd.
    pub warnings: Vec<String>,
    /// What is assumed.
    pub assumptions: Vec<String>,
    /// What cannot be true.
    pub contradictions: Vec<ContradictionDescription>,
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
            nodes: fabric.nodes().iter().map(NodeDescription::of).collect(),
            links: fabric.links().iter().map(|link| LinkDescription::of(fabric, link)).collect(),
            classes: Classes::of(fabric),
            matrices: machine.matrices.iter().map(ObservedMatrix::of).collect(),
            statements: machine.statements.clone(),
            slots: machine.slots.clone(),
            facts: machine.facts,
            notes: machine.notes.clone(),
            unknown: machine.unknown.clone(),
            warnings: machine.warnings.iter().map(ToString::to_string).collect(),
            assumptions: machine.assumptions.clone(),
            contradictions: machine
                .contradictions
                .iter()
                .map(|c| ContradictionDescription {
                    message: c.message.clone(),
                    subjects: c.subjects.clone(),
                    evidence: origins(&c.origins),
                })
                .collect(),
        }
    }
}

/// A node.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct NodeDescription {
    /// Its unique name within the machine.
    pub id: String,
    /// What it is.
    pub kind: NodeKind,
    /// Key of its component model in the catalogue.
    pub part: Option<String>,
    /// Product name as the evidence gives it.
    pub product: Option<String>,
    /// PCI address.
    pub address: Option<PciAddress>,
    /// NUMA node.
    pub numa: Option<u32>,
    /// CPUs that are local to it.
    pub cpus: Option<CpuList>,
    /// Other names it answers to.
    pub aliases: Vec<String>,
    /// For a NIC: whether it does RDMA.
    pub rdma: Option<bool>,
    /// True where no source states it.
    pub assumed: bool,
    /// What else a reader should know.
    pub note: Option<String>,
    /// The statements it rests on: `file:lines (tool)`.
    pub evidence: Vec<String>,
}

impl NodeDescription {
    fn of(node: &Node) -> Self {
        NodeDescription {
            id: node.name.clone(),
            kind: node.kind,
            part: node.part.clone(),
            product: node.product.clone(),
            address: node.address,
            numa: node.numa,
            cpus: node.cpus.clone(),
            aliases: node.aliases.clone(),
            rdma: node.rdma,
            assumed: node.assumed,
            note: node.note.clone(),
            evidence: origins(&node.origins),
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
    pub evidence: Vec<String>,
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
            evidence: origins(&link.origins),
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
    C2c,
    /// Between CPU packages.
    Smp,
    /// Inside a CPU package.
    OnDie,
    /// Inside a card.
    OnCard,
}

impl LinkKindDescription {
    fn of(kind: &LinkKind) -> Self {
        let known = |width: PcieWidth| (!width.is_unknown()).then_some(width);
        match kind {
            LinkKind::Pcie { running, allowed, slot } => {
                Self::Pcie { running: known(*running), allowed: known(*allowed), slot: slot.clone() }
            }
            LinkKind::Nvlink { generation, bricks } => Self::Nvlink { generation: *generation, bricks: *bricks },
            LinkKind::Xgmi { count } => Self::Xgmi { count: *count },
            LinkKind::C2c => Self::C2c,
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
    /// `X`, `NV#`, `XGMI`, `PIX`, `PXB`, `PHB`, `NODE`, `SYS`; null where the fabric knows no way.
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
pub struct ObservedMatrix {
    /// The numbers.
    #[serde(flatten)]
    pub matrix: Matrix,
    /// Where they stand, and where the same numbers stand again: `file:lines (tool); file:lines (tool)`.
    pub evidence: String,
    /// True for figures that a document states, false for a program's own output.
    pub published: bool,
}

impl ObservedMatrix {
    fn of(observed: &Observed) -> Self {
        ObservedMatrix {
            matrix: observed.matrix.clone(),
            evidence: [origins(std::slice::from_ref(&observed.origin)), origins(&observed.also)].concat().join("; "),
            published: observed.published,
        }
    }
}

/// Statements that cannot all be true.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ContradictionDescription {
    /// What contradicts what.
    pub message: String,
    /// Names of the nodes it is about.
    pub subjects: Vec<String>,
    /// Where the statements stand.
    pub evidence: Vec<String>,
}

/// What `predict --json` writes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PredictionDocument {
    /// Names this format.
    #[schemars(extend("const" = "peerlane/prediction/1"))]
    pub schema: &'static str,
    /// The machine's name, where there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// The matrices of all machines.
    pub matrices: Vec<PredictedMatrix>,
    /// The same by machine, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<MachinePrediction>,
}

impl PredictionDocument {
    /// From each machine's name and predictions.
    pub fn new(mut predictions: Vec<MachinePrediction>) -> Self {
        let schema = "peerlane/prediction/1";
        if predictions.len() == 1
            && let Some(only) = predictions.pop()
        {
            let matrices = only.matrices.into_iter().map(|matrix| PredictedMatrix { machine: None, matrix }).collect();
            return PredictionDocument { schema, machine: Some(only.name), matrices, machines: Vec::new() };
        }
        let named = |p: &MachinePrediction| {
            let name = p.name.clone();
            let label = move |matrix| PredictedMatrix { machine: Some(name.clone()), matrix };
            p.matrices.clone().into_iter().map(label).collect::<Vec<_>>()
        };
        let matrices = predictions.iter().flat_map(named).collect();
        PredictionDocument { schema, machine: None, matrices, machines: predictions }
    }
}

/// A predicted matrix, with its machine where there are several.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PredictedMatrix {
    /// The machine's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// The prediction.
    #[serde(flatten)]
    pub matrix: ExpectedMatrix,
}

/// One machine's predictions.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MachinePrediction {
    /// The machine's name.
    pub name: String,
    /// Its matrices.
    pub matrices: Vec<ExpectedMatrix>,
}

/// What `check --json` writes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CheckDocument {
    /// Names this format.
    #[schemars(extend("const" = "peerlane/check/1"))]
    pub schema: &'static str,
    /// The worst verdict of all machines; `unknown` ranks between `healthy` and `degraded`.
    pub verdict: Verdict,
    /// The findings of all machines, most severe first within each.
    pub findings: Vec<MachineFinding>,
    /// Each machine's verdict and findings, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<MachineCheck>,
}

impl CheckDocument {
    /// From each machine's verdict and findings.
    pub fn new(checks: Vec<MachineCheck>) -> Self {
        let several = checks.len() > 1;
        let rank = |verdict: &Verdict| match verdict {
            Verdict::Healthy => 0,
            Verdict::Unknown => 1,
            Verdict::Degraded => 2,
            Verdict::Broken => 3,
        };
        let verdict = checks.iter().map(|c| c.verdict).max_by_key(rank).unwrap_or(Verdict::Unknown);
        let labelled = |check: &MachineCheck| {
            let machine = several.then(|| check.name.clone());
            let label = move |finding| MachineFinding { machine: machine.clone(), finding };
            check.findings.clone().into_iter().map(label).collect::<Vec<_>>()
        };
        let findings = checks.iter().flat_map(labelled).collect();
        let machines = if several { checks } else { Vec::new() };
        CheckDocument { schema: "peerlane/check/1", verdict, findings, machines }
    }
}

/// A finding, with its machine where there are several.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MachineFinding {
    /// The machine's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// The finding.
    #[serde(flatten)]
    pub finding: Finding,
}

/// One machine's verdict and findings.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MachineCheck {
    /// The machine's name.
    pub name: String,
    /// Its verdict.
    pub verdict: Verdict,
    /// Its findings.
    pub findings: Vec<Finding>,
}

/// What `systems --json` writes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SystemsDocument {
    /// Names this format.
    #[schemars(extend("const" = "peerlane/systems/1"))]
    pub schema: &'static str,
    /// The systems.
    pub systems: Vec<SystemSummary>,
}

impl SystemsDocument {
    /// Summaries of machines; with `full`, their whole description too.
    pub fn new<'a>(machines: impl IntoIterator<Item = &'a Machine>, full: bool) -> Self {
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
        SystemsDocument { schema: "peerlane/systems/1", systems: machines.into_iter().map(summary).collect() }
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

/// What `explain --json` writes: the way from `a` to `b`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ExplanationDocument {
    /// Names this format.
    #[schemars(extend("const" = "peerlane/explanation/1"))]
    pub schema: &'static str,
    /// The machine's name.
    pub machine: String,
    /// Where the data comes from.
    pub a: String,
    /// Where it goes.
    pub b: String,
    /// The class of the path; null where the fabric knows no way.
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
    /// Why a rate is missing above.
    pub unknown: Vec<String>,
    /// What was measured or published between the two.
    pub observed: Vec<ObservedCell>,
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
    /// What binds it.
    pub bottleneck: String,
}

/// One number seen or published between two nodes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ObservedCell {
    /// What is measured.
    pub quantity: Quantity,
    /// Write or read.
    pub op: Option<Operation>,
    /// What the number is, in words.
    pub what: String,
    /// Row of the matrix it stands in.
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
    /// Where it stands.
    pub evidence: String,
}

fn origins(origins: &[Origin]) -> Vec<String> {
    origins.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{FindingKind, Severity};
    use crate::fabric::{FabricBuilder, PcieGeneration};

    fn pair() -> Machine {
        let mut b = FabricBuilder::new();
        let rc = b.node(Node::new("rc0", NodeKind::RootComplex));
        for i in 0..2 {
            let gpu = b.node(Node::new(format!("GPU{i}"), NodeKind::Gpu));
            let mut link = Link::new(rc, gpu, LinkKind::pcie(PcieWidth::new(PcieGeneration::Gen3, 16)));
            link.assumed = i == 1;
            b.link(link);
        }
        Machine::new("pair", MachineKind::Design, b.build().unwrap())
    }

    #[test]
    fn a_fabric_keeps_what_is_known_and_nulls_what_is_not() {
        let json = serde_json::to_value(FabricDocument::new([&pair()])).unwrap();
        assert_eq!(json["schema"], "peerlane/fabric/1");
        let machine = &json["machines"][0];
        assert!(machine.get("title").is_none());
        assert_eq!(machine["nodes"][1]["kind"], "gpu");
        assert_eq!(machine["links"][0]["kind"], "pcie");
        assert_eq!(machine["links"][0]["running"], serde_json::json!({"generation": 3, "lanes": 16}));
        assert!(machine["links"][0]["allowed"].is_null());
        assert_eq!(machine["links"][1]["assumed"], true);
        assert_eq!(machine["classes"]["values"], serde_json::json!([["X", "PHB"], ["PHB", "X"]]));
    }

    fn checked(name: &str, verdict: Verdict, findings: usize) -> MachineCheck {
        let finding = Finding {
            rule: "narrow-link".into(),
            kind: FindingKind::Fault,
            severity: Severity::Error,
            subjects: Vec::new(),
            summary: String::new(),
            expected: String::new(),
            observed: String::new(),
            evidence: Vec::new(),
            mend: String::new(),
        };
        MachineCheck { name: name.into(), verdict, findings: vec![finding; findings] }
    }

    #[test]
    fn several_checks_take_the_worst_verdict_and_name_the_machine() {
        let checks = vec![checked("a", Verdict::Unknown, 0), checked("b", Verdict::Broken, 2)];
        let json = serde_json::to_value(CheckDocument::new(checks)).unwrap();
        assert_eq!(json["verdict"], "broken");
        assert_eq!(json["findings"][1]["machine"], "b");
        assert_eq!(json["machines"].as_array().unwrap().len(), 2);
        let one = serde_json::to_value(CheckDocument::new(vec![checked("a", Verdict::Healthy, 1)])).unwrap();
        assert!(one.get("machines").is_none() && one["findings"][0].get("machine").is_none());
    }

    #[test]
    fn schemas_are_current() {
        let schemas = [
            ("fabric", schemars::schema_for!(FabricDocument)),
            ("prediction", schemars::schema_for!(PredictionDocument)),
            ("check", schemars::schema_for!(CheckDocument)),
            ("systems", schemars::schema_for!(SystemsDocument)),
            ("explanation", schemars::schema_for!(ExplanationDocument)),
        ];
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema");
        for (name, schema) in schemas {
            let path = folder.join(format!("{name}-1.json"));
            let fresh = serde_json::to_string_pretty(&schema).unwrap() + "\n";
            if std::env::var_os("UPDATE_SCHEMA").is_some() {
                std::fs::write(&path, &fresh).unwrap();
            }
            let written = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(written == fresh, "{} is stale: run UPDATE_SCHEMA=1 cargo test schemas", path.display());
        }
    }
}
