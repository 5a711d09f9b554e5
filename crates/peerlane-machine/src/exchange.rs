//! How GPUs that compute something together exchange what lies at the boundaries of their parts.

use crate::schema::JsonSchema;
use serde::{Deserialize, Serialize};

/// How what is at the boundary of a GPU's part gets to its neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Exchange {
    /// The kernel that computes it also stores it in the neighbour's memory.
    Stores,
    /// By a copy engine, into the neighbour's memory.
    Copies,
    /// By a copy engine into pinned host memory, and by the neighbour's from there.
    Staged,
}

impl Exchange {
    /// All, in the order in which they are measured.
    pub const ALL: [Exchange; 3] = [Exchange::Stores, Exchange::Copies, Exchange::Staged];

    /// As the record writes it.
    pub fn name(self) -> &'static str {
        match self {
            Exchange::Stores => "stores",
            Exchange::Copies => "copies",
            Exchange::Staged => "staged",
        }
    }
}
