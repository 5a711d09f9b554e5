//! The CUDA driver's interface as safe types: a driver, devices, contexts, memory, streams, events and kernels.
//!
//! Everything borrows the driver for the life of the process, since its library is never unloaded. Types give back what
//! they hold when they go; a failure to do so has nobody left to tell.

mod device;
mod driver;
mod memory;
mod module;
mod stream;

pub(crate) use device::{Context, Device};
pub(crate) use driver::{CudaError, Driver};
pub(crate) use memory::{Buffer, DeviceBuffer, ManagedBuffer, Part, PinnedBuffer};
pub(crate) use module::{Argument, Kernel, Launch, Module};
pub(crate) use stream::{Event, Stream};
