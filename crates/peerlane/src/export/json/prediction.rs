//! The document of `predict`.

use peerlane_machine::schema::JsonSchema;
use serde::Serialize;

use peerlane_design::simulate::library::ExpectedCollective;
use peerlane_model::comparison::MachineComparison;
use peerlane_model::expectation::{ExpectedCurve, ExpectedMatrix};
use peerlane_model::model::rdma::NicMessages;

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
