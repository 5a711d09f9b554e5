//! Memory that a GPU can reach: its own, pinned host memory, and managed memory.

use std::ffi::c_void;
use std::ptr;

use super::driver::{CudaError, Driver, call};
use super::{Context, Stream};
use crate::bindings::cuda::{
    CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE, CUcontext, CUdeviceptr, CUmemAttach_flags,
};

/// Memory with an address that is valid on all GPUs that may reach it.
pub(crate) trait Buffer {
    /// Its address.
    fn address(&self) -> CUdeviceptr;

    /// Its size in bytes.
    fn bytes(&self) -> usize;

    /// Puts what CPU caches hold of it into memory; nothing where no CPU caches it.
    fn flush_caches(&self) {}

    /// A part of it; what lies beyond its end is left out.
    fn part(&self, offset: usize, bytes: usize) -> Part {
        let offset = offset.min(self.bytes());
        Part { address: self.address() + offset as u64, bytes: bytes.min(self.bytes() - offset) }
    }
}

/// A part of a buffer, which must outlive the work that uses it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    address: CUdeviceptr,
    bytes: usize,
}

impl Part {
    /// Where it starts.
    pub(crate) fn address(&self) -> CUdeviceptr {
        self.address
    }

    /// A part of this part.
    pub(crate) fn within(&self, offset: usize, bytes: usize) -> Part {
        let offset = offset.min(self.bytes);
        Part { address: self.address + offset as u64, bytes: bytes.min(self.bytes - offset) }
    }

    /// How long it is.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Memory of a GPU's own.
#[derive(Debug)]
pub(crate) struct DeviceBuffer {
    driver: &'static Driver,
    context: CUcontext,
    address: CUdeviceptr,
    bytes: usize,
}

impl DeviceBuffer {
    /// Allocates; the content is whatever was there.
    pub(crate) fn new(context: &Context, bytes: usize) -> Result<Self, CudaError> {
        context.enter()?;
        let mut address = 0;
        call!(context.driver(), cuMemAlloc_v2(&mut address, bytes))?;
        Ok(DeviceBuffer { driver: context.driver(), context: context.handle, address, bytes })
    }
}

impl Buffer for DeviceBuffer {
    fn address(&self) -> CUdeviceptr {
        self.address
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        let _ = call!(self.driver, cuCtxSetCurrent(self.context));
        let _ = call!(self.driver, cuMemFree_v2(self.address));
    }
}

/// Page-locked host memory that all GPUs reach at its host address.
#[derive(Debug)]
pub(crate) struct PinnedBuffer {
    driver: &'static Driver,
    start: *mut c_void,
    bytes: usize,
    /// Where the memory was not allocated by the driver but mapped by us, which gives it back.
    mapping: Option<crate::host::Mapping>,
}

impl PinnedBuffer {
    /// Allocates where the driver likes.
    pub(crate) fn new(context: &Context, bytes: usize) -> Result<Self, CudaError> {
        context.enter()?;
        let mut start = ptr::null_mut();
        call!(context.driver(), cuMemHostAlloc(&mut start, bytes, CU_MEMHOSTALLOC_PORTABLE))?;
        Ok(PinnedBuffer { driver: context.driver(), start, bytes, mapping: None })
    }

    /// Pins a mapping of ours.
    pub(crate) fn pin(context: &Context, mapping: crate::host::Mapping) -> Result<Self, CudaError> {
        context.enter()?;
        let (start, bytes) = (mapping.start(), mapping.bytes());
        call!(context.driver(), cuMemHostRegister_v2(start, bytes, CU_MEMHOSTREGISTER_PORTABLE))?;
        Ok(PinnedBuffer { driver: context.driver(), start, bytes, mapping: Some(mapping) })
    }

    /// Its double word `index`, as devices have left it; 0 beyond its end.
    pub(crate) fn read(&self, index: usize) -> u64 {
        if index >= self.bytes / 8 {
            return 0;
        }
        // SAFETY: within the buffer, which is aligned to a page; devices may write it at any time, hence volatile.
        unsafe { self.start.cast::<u64>().add(index).read_volatile() }
    }

    /// Writes its double word `index`; beyond its end, nothing.
    pub(crate) fn write(&self, index: usize, value: u64) {
        if index < self.bytes / 8 {
            // SAFETY: as for `read`.
            unsafe { self.start.cast::<u64>().add(index).write_volatile(value) };
        }
    }
}

impl Buffer for PinnedBuffer {
    // Puts what CPU caches hold of it into memory, where the CPU has an instruction for that (x86-64).
    //
    // What a device or a CPU has just written stays in a cache for some tenths of a second, and is read faster than
    // memory: in 1.08 instead of 1.18 µs by an H200 (Emerald Rapids).
    fn flush_caches(&self) {
        #[cfg(target_arch = "x86_64")]
        for offset in (0..self.bytes).step_by(64) {
            // SAFETY: the address is within the buffer; the instruction changes no content.
            unsafe { std::arch::x86_64::_mm_clflush(self.start.cast::<u8>().add(offset)) };
        }
    }

    fn address(&self) -> CUdeviceptr {
        // one address space for host and devices, on all that this crate runs on (64-bit Linux)
        self.start as CUdeviceptr
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        let _ = match self.mapping {
            Some(_) => call!(self.driver, cuMemHostUnregister(self.start)),
            None => call!(self.driver, cuMemFreeHost(self.start)),
        };
    }
}

/// Memory that moves between host and GPUs by itself.
#[derive(Debug)]
pub(crate) struct ManagedBuffer {
    driver: &'static Driver,
    address: CUdeviceptr,
    bytes: usize,
}

impl ManagedBuffer {
    /// Allocates; no page exists until it is touched.
    pub(crate) fn new(context: &Context, bytes: usize) -> Result<Self, CudaError> {
        context.enter()?;
        let mut address = 0;
        call!(context.driver(), cuMemAllocManaged(&mut address, bytes, CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL.0))?;
        Ok(ManagedBuffer { driver: context.driver(), address, bytes })
    }

    /// Moves it to the stream's GPU, or to the host, in the stream's order.
    pub(crate) fn prefetch(&self, stream: &Stream, to_host: bool) -> Result<(), CudaError> {
        const HOST: i32 = -1;
        let target = if to_host { HOST } else { stream.device() };
        stream.enter()?;
        call!(self.driver, cuMemPrefetchAsync(self.address, self.bytes, target, stream.handle()))
    }
}

impl Buffer for ManagedBuffer {
    fn address(&self) -> CUdeviceptr {
        self.address
    }

    fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for ManagedBuffer {
    fn drop(&mut self) {
        let _ = call!(self.driver, cuMemFree_v2(self.address));
    }
}
