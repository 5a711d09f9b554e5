//! The JSON documents that `--json` writes, one type a document, with their JSON Schemas in `schema/`.
//!
//! Every document has a `schema` field. A number after the last slash rises when a field changes its
//! meaning or goes away; new fields may come at any time.

mod check;
mod explanation;
mod fabric;
mod prediction;
mod systems;

pub use check::{CheckDocument, MachineCheck, MachineFinding};
pub use explanation::{ExpectedRate, ExplainedHop, ExplanationDocument, MeasuredCell};
pub use fabric::FabricDocument;
pub use peerlane_machine::machine::description::{
    Classes, LinkDescription, LinkKindDescription, MachineDescription, MatrixDescription, MeasuredCurve, MeasuredRates,
};
pub use peerlane_model::expectation::ExpectedCurve;
pub use prediction::{MachinePrediction, PredictedMatrix, PredictionDocument};
pub use systems::{SystemSummary, SystemsDocument};

#[cfg(test)]
#[cfg(feature = "schema")]
mod tests {
    use super::*;

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
            ("traffic", schemars::schema_for!(peerlane_measure::traffic::Head)),
            ("simulation", schemars::schema_for!(peerlane_design::simulate::result::SimulationDocument)),
            ("scaling", schemars::schema_for!(peerlane_design::simulate::scaling::ScalingDocument)),
            ("plan", schemars::schema_for!(peerlane_design::planner::PlanDocument)),
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
