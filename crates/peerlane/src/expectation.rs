//! What a machine should deliver, in the shape of the matrices that people measure.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::evidence::{Direction, Engine, Matrix, Operation, Quantity, Unit};
use crate::model::Model;

/// A matrix of expected rates; the `matrices` of `predict --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExpectedMatrix {
    /// What is predicted.
    pub quantity: Quantity,
    /// Which way; a bidirectional rate is the sum of both.
    pub direction: Option<Direction>,
    /// Peer-to-peer access asked for (`true`), or off.
    pub p2p: Option<bool>,
    /// Write or read.
    pub op: Option<Operation>,
    /// What drives it.
    pub engine: Option<Engine>,
    /// Unit of `values`.
    pub unit: Unit,
    /// Sources.
    pub rows: Vec<String>,
    /// Destinations.
    pub cols: Vec<String>,
    /// Expected numbers; `None` where nothing can be said, and on the diagonal between GPUs.
    pub values: Vec<Vec<Option<f64>>>,
    /// What binds each, in words.
    pub bottlenecks: Vec<Vec<Option<String>>>,
}

/// The matrices that `predict` shows by default: GPU pairs one way and both ways with P2P on, one way
/// with P2P off, host to each GPU, each GPU to the host, and GPUs with NICs where there are any.
pub fn predict(_model: &Model) -> Vec<ExpectedMatrix> {
    Vec::new()
}

/// What should stand where `measured` has its numbers: the same rows, columns, quantity, direction and
/// unit. `None` for quantities that the model does not predict.
pub fn expect_like(_model: &Model, _measured: &Matrix) -> Option<ExpectedMatrix> {
    None
}
