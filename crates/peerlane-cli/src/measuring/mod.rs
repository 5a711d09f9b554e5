//! Measuring from a safe distance: this process watches, a worker process touches the machine.
//!
//! A GPU's driver can hang or take its process down. So a [`worker`], which is this program started again, answers
//! the plan and tells of each event as it happens ([`protocol`]). The [`supervisor`] keeps what it hears on disk
//! ([`keeper`]), ends a worker that gives no sign of life, decides from such failures what is still worth trying
//! ([`course`]), and starts the next one. A crash loses the round it happens in, and no finished cell.
//!
//! Where each question follows from the last answer there is no plan to supervise: an [`asker`] keeps one worker and asks
//! it step by step.

pub(crate) mod asker;
pub(crate) mod interrupt;
pub(crate) mod keeper;
pub(crate) mod process;
pub(crate) mod progress;
pub(crate) mod protocol;
pub(crate) mod retries;
pub(crate) mod supervisor;
#[cfg(test)]
mod testing;
pub(crate) mod worker;
