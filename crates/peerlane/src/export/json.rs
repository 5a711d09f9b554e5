//! The JSON documents that `--json` writes, one type a document, with their JSON Schemas in `schema/`.
//!
//! Every document has a `schema` field. A number after the last slash rises when a field changes its
//! meaning or goes away; new fields may come at any time.

use schemars::JsonSchema;
use serde::Serialize;

use peerlane_design::cluster::{Cluster, ClusterSummary};
use peerlane_design::simulate::library::ExpectedCollective;
use peerlane_judge::check::{Finding, Verdict, Waived};
use peerlane_judge::thresholds::Threshold;
use peerlane_machine::fabric::{NodeKind, PathClass};
use peerlane_machine::machine::Machine;
pub use peerlane_machine::machine::description::{
    Classes, LinkDescription, LinkKindDescription, MachineDescription, MatrixDescription, MeasuredCurve, MeasuredRates,
};
use peerlane_machine::matrix::{Operation, Quantity, Unit};
use peerlane_machine::origin::Coverage;
use peerlane_model::comparison::MachineComparison;
pub use peerlane_model::expectation::ExpectedCurve;
use peerlane_model::expectation::ExpectedMatrix;
use peerlane_model::model::rdma::{DeviceDescription, NicMessages, RdmaDescription};
use peerlane_model::model::{HaloAdvice, UnifiedMemory};

/// What `map --json` writes: machines as far as they are known.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FabricDocument {
    /// Names this format.
    #[schemars(extend("const" = "peerlane/fabric/1"))]
    pub schema: &'static str,
    /// The machines, in the order of the evidence.
    pub machines: Vec<MachineDescription>,
    /// How much of each input was understood.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub coverage: Vec<Coverage>,
}

impl FabricDocument {
    /// Describes machines.
    pub fn new<'a>(machines: impl IntoIterator<Item = &'a Machine>) -> Self {
        let machines = machines.into_iter().map(MachineDescription::of).collect();
        FabricDocument { schema: "peerlane/fabric/1", machines, coverage: Vec::new() }
    }
}

/// What `predict --json` writes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PredictionDocument {
    /// Names this format.
    #[schemars(extend("const" = "peerlane/prediction/2"))]
    pub schema: &'static str,
    /// The machine's name, where there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Assumptions where no source reports a value, for the only machine.
    pub assumptions: Vec<String>,
    /// The matrices of all machines.
    pub matrices: Vec<PredictedMatrix>,
    /// Rates by message size, where sizes were requested: one path of each kind.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub curves: Vec<ExpectedCurve>,
    /// Messages through NICs by size, where sizes were requested: one GPU and NIC of each kind.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub messages: Vec<NicMessages>,
    /// What NCCL or RCCL should take, where collectives were requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub collectives: Vec<ExpectedCollective>,
    /// All expectations for the only machine, compared with all that was measured on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<MachineComparison>,
    /// The same by machine, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub machines: Vec<MachinePrediction>,
}

impl PredictionDocument {
    /// From each machine's name and predictions.
    pub fn new(mut predictions: Vec<MachinePrediction>) -> Self {
        let schema = "peerlane/prediction/2";
        if predictions.len() == 1
            && let Some(only) = predictions.pop()
        {
            let matrices = only.matrices.into_iter().map(|matrix| PredictedMatrix { machine: None, matrix }).collect();
            let (machine, assumptions, curves) = (Some(only.name), only.assumptions, only.curves);
            let (messages, collectives) = (only.messages, only.collectives);
            let (comparison, machines) = (Some(only.comparison), Vec::new());
            return PredictionDocument {
                schema,
                machine,
                assumptions,
                matrices,
                curves,
                messages,
                collectives,
                comparison,
                machines,
            };
        }
        let named = |p: &MachinePrediction| {
            let name = p.name.clone();
            let label = move |matrix| PredictedMatrix { machine: Some(name.clone()), matrix };
            p.matrices.clone().into_iter().map(label).collect::<Vec<_>>()
        };
        let matrices = predictions.iter().flat_map(named).collect();
        PredictionDocument {
            schema,
            machine: None,
            assumptions: Vec::new(),
            matrices,
            curves: Vec::new(),
            messages: Vec::new(),
            collectives: Vec::new(),
            comparison: None,
            machines: predictions,
        }
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
    /// Assumptions about link widths that no source reports.
    pub assumptions: Vec<String>,
    /// Its matrices.
    pub matrices: Vec<ExpectedMatrix>,
    /// Rates by message size, where sizes were requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub curves: Vec<ExpectedCurve>,
    /// Messages through NICs by size, where sizes were requested: one GPU and NIC of each kind.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub messages: Vec<NicMessages>,
    /// What NCCL or RCCL should take, where collectives were requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub collectives: Vec<ExpectedCollective>,
    /// All expectations for it, compared with all that was measured on it.
    pub comparison: MachineComparison,
}

/// What `check --json` writes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CheckDocument {
    /// Names this format.
    #[schemars(extend("const" = "peerlane/check/2"))]
    pub schema: &'static str,
    /// The worst verdict of all machines; `not-judged` ranks between `limited` and `fault`.
    pub verdict: Verdict,
    /// What is known that would show a fault of the only machine if there were one: `link widths`, `NVLinks`, `rates`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub checked: Vec<&'static str>,
    /// Commands whose output would give a verdict, where the only machine is not judged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub next: Vec<&'static str>,
    /// The findings of all machines, most severe first within each.
    pub findings: Vec<MachineFinding>,
    /// What the site's settings accept, of all machines.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub waived: Vec<Waived>,
    /// Floors that others publish for the product of the only machine, on request. They change no verdict.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub thresholds: Vec<Threshold>,
    /// All expectations for the only machine, compared with all that was measured on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<MachineComparison>,
    /// Each machine's verdict, findings and comparison, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub machines: Vec<MachineCheck>,
    /// How much of each input was understood.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub coverage: Vec<Coverage>,
}

impl CheckDocument {
    /// From each machine's verdict and findings.
    pub fn new(mut checks: Vec<MachineCheck>) -> Self {
        let several = checks.len() > 1;
        let verdict = checks.iter().map(|c| c.verdict).max().unwrap_or(Verdict::NotJudged);
        let labelled = |check: &MachineCheck| {
            let machine = several.then(|| check.name.clone());
            let label = move |finding| MachineFinding { machine: machine.clone(), finding };
            check.findings.clone().into_iter().map(label).collect::<Vec<_>>()
        };
        let findings = checks.iter().flat_map(labelled).collect();
        let waived = checks.iter().flat_map(|c| c.waived.iter().cloned()).collect();
        let only = checks.first().filter(|_| !several);
        let (checked, next) = only.map(|only| (only.checked.clone(), only.next.clone())).unwrap_or_default();
        let thresholds = only.map(|only| only.thresholds.clone()).unwrap_or_default();
        let comparison = checks.first_mut().filter(|_| !several).and_then(|only| only.comparison.take());
        let machines = if several { checks } else { Vec::new() };
        CheckDocument {
            schema: "peerlane/check/2",
            verdict,
            checked,
            next,
            findings,
            waived,
            thresholds,
            comparison,
            machines,
            coverage: Vec::new(),
        }
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

/// One machine's verdict and findings, and its comparison where a document has that.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MachineCheck {
    /// The machine's name.
    pub name: String,
    /// Its verdict.
    pub verdict: Verdict,
    /// What is known that would show a fault if there were one: `link widths`, `NVLinks`, `rates`.
    pub checked: Vec<&'static str>,
    /// Commands whose output would give a verdict, where it is not judged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub next: Vec<&'static str>,
    /// Its findings.
    pub findings: Vec<Finding>,
    /// What the site's settings accept.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub waived: Vec<Waived>,
    /// Floors that others publish for this product, on request. They change no verdict.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub thresholds: Vec<Threshold>,
    /// All expectations for it, compared with all that was measured on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<MachineComparison>,
}

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
    pub upgrades: Vec<peerlane_design::upgrades::Upgrade>,
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

#[cfg(test)]
mod tests {
    use super::*;
    use peerlane_judge::check::{FindingKind, Severity};
    use peerlane_machine::fabric::{FabricBuilder, Link, LinkKind, Node, PcieGeneration, PcieWidth};
    use peerlane_machine::machine::MachineKind;

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
            measured: String::new(),
            evidence: Vec::new(),
            fix: String::new(),
            certainty: peerlane_judge::check::Certainty::Likely,
            confirm: String::new(),
            cost: None,
        };
        MachineCheck {
            name: name.into(),
            verdict,
            checked: Vec::new(),
            next: Vec::new(),
            findings: vec![finding; findings],
            waived: Vec::new(),
            thresholds: Vec::new(),
            comparison: None,
        }
    }

    #[test]
    fn several_checks_take_the_worst_verdict_and_name_the_machine() {
        let checks = vec![checked("a", Verdict::NotJudged, 0), checked("b", Verdict::Fault, 2)];
        let json = serde_json::to_value(CheckDocument::new(checks)).unwrap();
        assert_eq!(json["verdict"], "fault");
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
            ("accuracy", schemars::schema_for!(peerlane_judge::accuracy::Accuracy)),
            ("nvml", schemars::schema_for!(peerlane_read::evidence::nvml::Snapshot)),
            ("run", schemars::schema_for!(peerlane_measure::run::Run)),
            ("simulation", schemars::schema_for!(peerlane_design::simulate::result::SimulationDocument)),
            ("scaling", schemars::schema_for!(peerlane_design::simulate::scaling::ScalingDocument)),
            ("sweep", schemars::schema_for!(peerlane_design::simulate::result::SweepDocument)),
            ("comparison", schemars::schema_for!(peerlane_design::compare::ComparisonDocument)),
            ("selftest", schemars::schema_for!(peerlane_judge::selftest::SelfTest)),
            ("fleet", schemars::schema_for!(peerlane_judge::fleet::Fleet)),
            ("placement", schemars::schema_for!(peerlane_design::place::PlacementDocument)),
            ("tuning", schemars::schema_for!(peerlane_design::tune::TuningDocument)),
            ("inference", schemars::schema_for!(peerlane_design::infer::Inference)),
            ("nodes-inference", schemars::schema_for!(peerlane_design::infer::NodesInference)),
            ("nodes", schemars::schema_for!(peerlane_measure::nodes::NodesRun)),
            ("nodes-check", schemars::schema_for!(peerlane_judge::nodes::NodesCheck)),
            ("nodes-compare", schemars::schema_for!(peerlane_judge::nodes::NodesComparison)),
        ];
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema");
        for (name, schema) in schemas {
            let text = serde_json::to_value(&schema).unwrap()["properties"]["schema"]["const"].to_string();
            let version = text.trim_matches('"').rsplit('/').next().unwrap().to_owned();
            let path = folder.join(format!("{name}-{version}.json"));
            let fresh = serde_json::to_string_pretty(&schema).unwrap() + "\n";
            if std::env::var_os("UPDATE_SCHEMA").is_some() {
                std::fs::write(&path, &fresh).unwrap();
            }
            let written = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(written == fresh, "{} is stale: run UPDATE_SCHEMA=1 cargo test schemas", path.to_string_lossy());
        }
    }
}
