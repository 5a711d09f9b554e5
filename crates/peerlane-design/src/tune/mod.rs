//! NCCL's settings for a collective of a machine: which of those that are set cost speed, which others should help, why,
//! and by how much. [`prove`] measures each with and without.
//!
//! `docs/nccl-advice.md` has the method. NVLink SHARP (NVLS) and multicast are never suggested and never run: on a shared
//! host they can take GPUs out of service.

mod advice;
mod candidates;
mod document;
mod prove;
#[cfg(test)]
mod tests;

pub use advice::{advice, logged};
pub use candidates::{Request, TuneError, tune};
pub use document::{
    Action, Gain, Likely, MeasuredCollective, Proof, Proven, Rate, SCHEMA, Setting, Suggestion, TuningDocument,
};
pub use prove::{Arm, Effort, Trials, prove, seconds_of};

/// What every run of NCCL has besides its settings: neither NVLS nor CollNet.
pub const ALWAYS: [(&str, &str); 2] = [("NCCL_NVLS_ENABLE", "0"), ("NCCL_COLLNET_ENABLE", "0")];

/// Whether a variable may be handed to a run of NCCL: not where it asks for NVLS, or loads what may.
pub fn may_run(name: &str, value: &str) -> bool {
    let asks = value.to_ascii_lowercase().contains("nvls");
    let always = ALWAYS.iter().any(|(fixed, _)| *fixed == name);
    let loads = name.ends_with("_PLUGIN") || name.starts_with("NCCL_NVLS");
    name.starts_with("NCCL_") && !asks && !always && !loads
}
