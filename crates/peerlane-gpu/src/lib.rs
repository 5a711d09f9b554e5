//! The live machine: NVIDIA's libraries, opened at run time, and the kernels that measure.
//!
//! Nothing of NVIDIA's is needed to build this crate, and only the driver to use it. All `unsafe` code of
//! peerlane is here and in the verbs of `peerlane-net`, each block with its reason. Both open their libraries by [`mod@open`].
//!
//! The kernels are CUDA C in `src/kernels/*.cu`. Their PTX lies beside them, made by
//! `scripts/gpu/generate.sh`: `NAME.cu` gives `NAME.sm_70.ptx`, which runs on Volta and everything
//! later; `NAME.sm_90.cu` gives `NAME.sm_90.ptx`, for Hopper and later.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "tests open files and start programs of their own"))]

pub mod bindings;
mod counters;
mod cuda;
pub mod discover;
mod failure;
mod foreign;
mod host;
pub mod kernels;
pub mod library;
mod live;
mod nccl;
pub mod nvml;
pub mod open;
mod output;
pub mod pattern;
pub mod search;
pub mod session;
mod system;
pub mod timeline;

pub use counters::{FileTraffic, port_errors};
pub use host::Mapping;
pub use live::{
    GpuName, GpuSink, GpuSource, LEAVING, LOOK_AGAIN, Live, NicMemory, NicStage, OpenError, Ranks, start_ahead,
};
pub use nvml::{NvmlStates, Tolerated, Traffic};
pub use output::take_output;
