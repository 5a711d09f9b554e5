//! Why a step has no number, as the record puts it.

use peerlane::measure::Failure;
use peerlane::run::FlagKind;

use crate::cuda::CudaError;

/// What went wrong here, before it is the record's.
#[derive(Debug)]
pub(crate) enum Problem {
    /// The driver's answer.
    Cuda(CudaError),
    /// This machine has no such path or ability: which.
    NotApplicable(String),
    /// It failed otherwise.
    Failed(String),
}

impl From<CudaError> for Problem {
    fn from(error: CudaError) -> Self {
        Problem::Cuda(error)
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        let (kind, message, fatal) = match problem {
            Problem::NotApplicable(why) => (FlagKind::NotApplicable, why, false),
            Problem::Failed(why) => (FlagKind::Failed, why, false),
            Problem::Cuda(error) if error.code.is_none() => (FlagKind::NotApplicable, error.to_string(), false),
            Problem::Cuda(error) => (FlagKind::Failed, error.to_string(), error.is_sticky()),
        };
        Failure { kind, message, fatal }
    }
}
