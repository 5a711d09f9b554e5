//! Which transfers share a limit, inferred from the rates that they reach together.
//!
//! The model of sharing run backwards. Flows that run at once share every resource by max-min fairness; so rates of
//! chosen sets of flows show which of them share one, and how much it carries. `docs/inference.md` states the method, and
//! what it can and cannot decide.

mod adaptive;
mod certainty;
mod confirm;
mod coverage;
mod document;
mod explore;
mod fit;
mod flows;
mod hypothesis;
mod members;
mod nodes;
mod pairs;
mod questions;
mod record;
mod recorded;
mod search;
mod trials;

pub use adaptive::{Design, Outcome, conclude, experiment, most_sets};
pub use certainty::Support;
pub use document::{Coverage, Experiment, Inference, InferredGroup, Interference, Rate, SCHEMA, Unidentifiable};
pub use explore::explore;
pub use flows::{ALLOCATIONS, Flow, FlowKind, flows};
pub use hypothesis::{Group, Hypothesis};
pub use members::Members;
pub use nodes::{NodeGroup, NodesInference, RailInference, Undetermined, Uplink, infer_nodes};
pub use pairs::{RateGroup, RateGroups, RateLevel};
pub use record::{RecordError, looks_like_inference};
pub use recorded::recorded;
pub use trials::{Noise, Trial};
