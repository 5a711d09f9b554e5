//! An inference as JSON: `peerlane/inference/2`.

use peerlane_machine::schema::JsonSchema;
use serde::{Deserialize, Serialize};

use super::flows::FlowKind;

/// Flows that keep this share of their rates together with others are independent of them, or all but so: engines that serve both
/// lose a little by it, where a limit that both fill takes far more.
const INDEPENDENT: [f64; 2] = [0.965, 0.9];

/// Names the format of [`Inference`].
pub const SCHEMA: &str = "peerlane/inference/2";

/// What the rates of sets of transfers show about the limits that they share. Rates are in GB/s of 10⁹ bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Inference {
    /// Names this format.
    #[schemars(extend("const" = "peerlane/inference/2"))]
    pub schema: String,
    /// The machine.
    pub machine: String,
    /// Where the rates are from: `measured live`, `a simulated machine`, `recorded: run.json`.
    pub source: String,
    /// The limits that several flows share, by direction, the largest first.
    pub groups: Vec<InferredGroup>,
    /// What remains unknown, and which sets would decide it.
    pub unidentifiable: Vec<Unidentifiable>,
    /// GPUs that are alike by the rates of lone pairs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rate_groups: Vec<super::RateGroups>,
    /// Whether flows of one kind disturb those of another.
    #[serde(default, skip_serializing_if = "Vec::is_empty", alias = "beside")]
    pub interference: Vec<Interference>,
    /// How much of each direction was measured.
    #[serde(alias = "asked")]
    pub coverage: Vec<Coverage>,
    /// Every set that ran, with what each of its flows reached.
    pub experiments: Vec<Experiment>,
    /// Further notes, in sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A limit that flows share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InferredGroup {
    /// The flows: a GPU's with host memory by its name, others as `GPU0→GPU2`.
    pub members: Vec<String>,
    /// Which way they go.
    pub direction: FlowKind,
    /// What they carry together at most.
    pub capacity: f64,
    /// Low end of its 95 % interval.
    pub low: f64,
    /// High end.
    pub high: f64,
    /// Probability that the group is there with just these members, against what else was considered.
    pub confidence: f64,
    /// The experiments in which it was full, as indices into `experiments`.
    pub sets: Vec<usize>,
}

/// Something that the rates cannot decide.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Unidentifiable {
    /// The flows whose sharing is unknown.
    pub members: Vec<String>,
    /// Which way they go.
    pub direction: FlowKind,
    /// What they carried together at most: a limit of theirs is not lower. Absent where they never ran together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
    /// Why it is unknown.
    pub why: String,
    /// Sets that would decide it; empty where no set of such flows could.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub would_tell: Vec<Vec<String>>,
}

impl Unidentifiable {
    pub(super) fn new(
        direction: FlowKind,
        members: Vec<String>,
        at_least: Option<f64>,
        why: impl Into<String>,
        would_tell: Vec<Vec<String>>,
    ) -> Self {
        Unidentifiable { members, direction, at_least, why: why.into(), would_tell }
    }
}

/// What flows of two kinds keep of their rates when all of both run at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interference {
    /// The two kinds.
    pub directions: [FlowKind; 2],
    /// The sum of each kind's rates, as a share of that without the other kind.
    pub kept: [f64; 2],
    /// The sums.
    pub rates: [f64; 2],
}

impl Interference {
    /// Whether the kinds share a limit, in words: `independent`, `all but independent`, `they share something`.
    pub fn verdict(&self) -> &'static str {
        let least = self.kept[0].min(self.kept[1]);
        let [independent, all_but] = INDEPENDENT;
        match least {
            _ if least >= independent => "independent",
            _ if least >= all_but => "all but independent",
            _ => "they share something",
        }
    }
}

/// How much of one direction was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Coverage {
    /// Which.
    pub direction: FlowKind,
    /// Flows.
    pub flows: usize,
    /// What each reaches alone.
    pub alone: Vec<Rate>,
    /// Sets that ran.
    pub sets: usize,
    /// Sets that may run: 4 n log₂ n + 8. Absent where the sets were chosen by somebody else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<usize>,
    /// Repeats of each set, each with newly allocated memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<usize>,
}

/// A flow's rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rate {
    /// The flow.
    pub flow: String,
    /// Its rate.
    pub rate: f64,
}

/// A set of flows that ran at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Experiment {
    /// Which way they went.
    pub direction: FlowKind,
    /// The flows.
    pub members: Vec<String>,
    /// The rate of each.
    pub rates: Vec<f64>,
}
