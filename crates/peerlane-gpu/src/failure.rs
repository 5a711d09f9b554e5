//! Why a step has no number, as the record puts it.

use peerlane_measure::measure::Failure;
use peerlane_measure::run::FlagKind;

use crate::cuda::{CudaError, Reason};

/// What went wrong here, before it is the record's.
#[derive(Debug)]
pub(crate) enum Problem {
    /// The driver's answer.
    Cuda(CudaError),
    /// This machine has no such path or ability: which.
    NotApplicable(String),
    /// It failed otherwise.
    Failed(String),
    /// It failed, and so may all that comes after it in this process.
    Corrupted(String),
}

impl Problem {
    /// The same of a library that answers for CUDA in words of its own: `contexts` tell, each asked now, whether their
    /// state is corrupted, which would else be laid to the step after this.
    pub(crate) fn asked_of(self, contexts: impl IntoIterator<Item = Result<(), CudaError>>) -> Self {
        let corrupted = contexts.into_iter().filter_map(Result::err).find(CudaError::is_sticky);
        match (self, corrupted) {
            (Problem::Failed(why), Some(error)) => Problem::Corrupted(format!("{why}; {error}")),
            (problem, _) => problem,
        }
    }
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
            Problem::Corrupted(why) => (FlagKind::Failed, why, true),
            Problem::Cuda(error) if error.reason == Reason::Absent => {
                (FlagKind::NotApplicable, error.to_string(), false)
            }
            Problem::Cuda(error) => (FlagKind::Failed, error.to_string(), error.is_sticky()),
        };
        Failure { kind, message, fatal }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_step_is_fatal_only_where_a_context_is_corrupted() {
        let failed = || Problem::Failed("ncclAllReduce: unhandled cuda error (NCCL error 1)".to_owned());
        let refused = |code, words: &str| Reason::Refused(code, words.to_owned());
        let cuda = |code, words: &str| CudaError { call: "cuCtxSynchronize", reason: refused(code, words) };
        let fine = Failure::from(failed().asked_of([Ok(()), Err(cuda(2, "out of memory"))]));
        assert!(!fine.fatal && fine.message.ends_with("(NCCL error 1)"), "{fine:?}");
        let corrupted = Failure::from(failed().asked_of([Ok(()), Err(cuda(700, "illegal address"))]));
        assert!(corrupted.fatal && corrupted.message.ends_with("illegal address (CUDA error 700)"), "{corrupted:?}");
        let absent = Problem::NotApplicable("no NCCL".to_owned()).asked_of([Err(cuda(700, ""))]);
        assert_eq!(Failure::from(absent).kind, FlagKind::NotApplicable);
    }
}
