//! What a step's time is spent on, what it communicates, and what it costs in all.

use super::memory::Memory;
use super::rates::{Kind, Took};
use super::split::Laid;

/// What a step's time is spent on; these make up all of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// Computing, on the busiest stage.
    pub computing: f64,
    /// Waiting for the tensor group.
    pub tensor: f64,
    /// For keys and values.
    pub context: f64,
    /// For tokens of experts.
    pub experts: f64,
    /// For activations of other stages.
    pub stages: f64,
    /// Empty, since other stages work.
    pub bubble: f64,
    /// For gradients and parameters of other copies.
    pub copies: f64,
    /// The optimizer.
    pub optimizer: f64,
}

impl Spent {
    /// All of it.
    pub fn total(&self) -> f64 {
        let Spent { computing, tensor, context, experts, stages, bubble, copies, optimizer } = *self;
        computing + tensor + context + experts + stages + bubble + copies + optimizer
    }

    /// Its parts by their names.
    pub fn parts(&self) -> [(&'static str, f64); 8] {
        let Spent { computing, tensor, context, experts, stages, bubble, copies, optimizer } = *self;
        [
            ("computing", computing),
            ("bubble", bubble),
            (Of::Tensor.name(), tensor),
            (Of::Context.name(), context),
            (Of::Experts.name(), experts),
            (Of::Stages.name(), stages),
            (Of::Copies.name(), copies),
            ("optimizer", optimizer),
        ]
    }

    /// Exposed seconds of communication.
    pub fn exposed(&self, of: Of) -> f64 {
        self.parts().into_iter().find(|(name, _)| *name == of.name()).map_or(0.0, |(_, time)| time)
    }
}

/// Communication of one kind in a step, of the busiest GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Communication {
    /// What it is of.
    pub of: Of,
    /// What is done.
    pub kind: Kind,
    /// Ranks of a group.
    pub ranks: usize,
    /// How often.
    pub times: f64,
    /// Bytes of each, as nccl-tests counts sizes.
    pub bytes: f64,
    /// Of each: seconds, and what holds it.
    pub took: Took,
}

/// What communication is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// Activations of the tensor group.
    Tensor,
    /// Keys and values.
    Context,
    /// Tokens of experts.
    Experts,
    /// Activations of other stages.
    Stages,
    /// Gradients and parameters.
    Copies,
}

impl Of {
    /// All of it.
    pub const ALL: [Of; 5] = [Of::Tensor, Of::Context, Of::Experts, Of::Stages, Of::Copies];

    /// Its name in documents.
    pub fn name(self) -> &'static str {
        match self {
            Of::Tensor => "tensor",
            Of::Context => "context",
            Of::Experts => "experts",
            Of::Stages => "stages",
            Of::Copies => "copies",
        }
    }
}

/// What a step costs.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// Seconds.
    pub spent: Spent,
    /// What a GPU's memory holds.
    pub memory: Memory,
    /// Tokens of the step.
    pub tokens: f64,
    /// GPUs that take part.
    pub gpus: usize,
    /// Copies and micro-batches.
    pub laid: Laid,
    /// Operations that the model needs.
    pub operations: f64,
    /// What is communicated.
    pub communication: Vec<Communication>,
}

impl Cost {
    /// Seconds.
    pub fn time(&self) -> f64 {
        self.spent.total()
    }
}
