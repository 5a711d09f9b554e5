//! Kernels: PTX that the driver compiles for its device, and launches.

use std::ffi::{CString, c_void};
use std::ptr;

use super::driver::{CudaError, Driver, call};
use super::{Context, Stream};
use crate::bindings::cuda::{CUfunction, CUfunction_attribute, CUmodule};

/// A compiled module, loaded into one context.
#[derive(Debug)]
pub(crate) struct Module {
    driver: &'static Driver,
    handle: CUmodule,
}

// SAFETY: a module may be used from any thread whose context is the module's.
unsafe impl Send for Module {}

impl Module {
    /// Compiles PTX for the context's device. The driver keeps what it compiled, so that the next time is fast.
    pub(crate) fn load(context: &Context, ptx: &str) -> Result<Self, CudaError> {
        context.enter()?;
        let text = CString::new(ptx).unwrap_or_default();
        let mut handle = ptr::null_mut();
        let (text, none) = (text.as_ptr().cast::<c_void>(), ptr::null_mut());
        call!(context.driver(), cuModuleLoadDataEx(&mut handle, text, 0, none, ptr::null_mut()))?;
        Ok(Module { driver: context.driver(), handle })
    }

    /// A kernel by name.
    pub(crate) fn kernel(&self, name: &str) -> Result<Kernel, CudaError> {
        let name = CString::new(name).unwrap_or_default();
        let mut handle = ptr::null_mut();
        call!(self.driver, cuModuleGetFunction(&mut handle, self.handle, name.as_ptr()))?;
        Ok(Kernel { driver: self.driver, handle })
    }
}

/// A kernel of a module that lives as long as the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kernel {
    driver: &'static Driver,
    handle: CUfunction,
}

// SAFETY: as for the module.
unsafe impl Send for Kernel {}

/// One argument of a kernel, as its signature has it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Argument {
    /// An address, or any 64-bit number.
    Word(u64),
    /// A 32-bit number.
    Half(u32),
}

/// The shape of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Launch {
    /// Blocks.
    pub(crate) blocks: u32,
    /// Threads a block.
    pub(crate) threads: u32,
    /// Dynamic shared memory a block, in bytes.
    pub(crate) shared: u32,
}

impl Kernel {
    /// Allows more dynamic shared memory a block than the usual 48 KiB.
    pub(crate) fn allow_shared(&self, bytes: u32) -> Result<(), CudaError> {
        let which = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        call!(self.driver, cuFuncSetAttribute(self.handle, which, i32::try_from(bytes).unwrap_or(i32::MAX)))
    }

    /// Puts a launch into a stream whose context is current. The arguments must be those of the kernel's signature, in
    /// its order, and addresses valid on the stream's device: `kernels.rs` states the signatures.
    pub(crate) fn launch(&self, stream: &Stream, shape: Launch, arguments: &[Argument]) -> Result<(), CudaError> {
        let mut words: Vec<u64> = Vec::with_capacity(arguments.len());
        for argument in arguments {
            // little-endian, so that a 32-bit argument lies at the start of its word
            words.push(match *argument {
                Argument::Word(word) => word,
                Argument::Half(half) => u64::from(half),
            });
        }
        let mut pointers: Vec<*mut c_void> = words.iter_mut().map(|word| ptr::from_mut(word).cast()).collect();
        let Launch { blocks, threads, shared } = shape;
        let (none, parameters) = (ptr::null_mut(), pointers.as_mut_ptr());
        call!(
            self.driver,
            cuLaunchKernel(self.handle, blocks, 1, 1, threads, 1, 1, shared, stream.handle(), parameters, none)
        )
    }
}
