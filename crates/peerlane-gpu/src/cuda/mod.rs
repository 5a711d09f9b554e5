//! The CUDA driver's interface as safe types: a driver, devices, contexts, memory, streams, events and kernels.
//!
//! Everything borrows the driver for the life of the process, since its library is never unloaded. What was made in a context
//! holds it, so that it goes first, also after an error or a panic. Types give back what they hold when they go; a failure to
//! do so has nobody left to tell. Memory waits until no device has work in progress: launches and copies return before they
//! are done, and only the type of the memory knows when it ends.

mod device;
mod driver;
mod memory;
mod module;
mod stream;

pub(crate) use device::{Context, Device};
pub(crate) use driver::{CudaError, Driver, Reason};
pub(crate) use memory::{Buffer, DeviceBuffer, ManagedBuffer, Part, PinnedBuffer};
pub(crate) use module::{Argument, Kernel, Launch, Module};
pub(crate) use stream::{Event, Stream};

#[cfg(test)]
mod tests;
