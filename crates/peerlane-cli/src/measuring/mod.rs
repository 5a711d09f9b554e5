//! Measuring with crash isolation: a worker process calls the driver, this process supervises it.
//!
//! A GPU driver can hang or crash its process. So a [`worker`], which is this program started again, runs the plan and
//! reports each event as it happens ([`protocol`]). The [`supervisor`] records the events on disk
//! ([`keeper`]), kills a worker that shows no sign of life, decides after such failures what is still worth trying
//! ([`retries`]), and starts the next one. A crash loses the round it happens in, and no finished cell.
//!
//! Where each step depends on the last result there is no plan to supervise: a [`prober`] keeps one worker and sends it
//! one small plan after another.

pub(crate) mod interrupt;
pub(crate) mod keeper;
pub(crate) mod machine;
pub(crate) mod nodes;
pub(crate) mod prober;
pub(crate) mod process;
pub(crate) mod progress;
pub(crate) mod protocol;
pub(crate) mod retries;
pub(crate) mod runner;
pub(crate) mod supervisor;
#[cfg(test)]
mod testing;
pub(crate) mod worker;

pub(crate) use runner::machines;
