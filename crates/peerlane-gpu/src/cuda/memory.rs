//! Memory that a GPU can reach: its own, pinned host memory, and managed memory.

use std::ffi::c_void;
use std::fs::File;
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;

use super::device::Current;
use super::driver::{CudaError, call, present};
use super::{Context, Stream};
use crate::bindings::cuda::{
    CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE, CUdeviceptr, CUmemAttach_flags, CUmemRangeHandleType,
};

/// Bytes that the address of pinned memory must be a multiple of: a line of a cache, and more than any word.
const ALIGNED: u64 = 64;

/// Memory with an address that is valid on all GPUs that may reach it.
pub(crate) trait Buffer {
    /// Its address.
    fn address(&self) -> CUdeviceptr;

    /// Its size in bytes.
    fn bytes(&self) -> usize;

    /// Puts what CPU caches hold of it into memory; nothing where no CPU caches it.
    fn flush_caches(&self) {}

    /// A part of it; what lies beyond its end is left out.
    fn part(&self, offset: usize, bytes: usize) -> Part<'_> {
        let offset = offset.min(self.bytes());
        let (address, bytes) = (self.address() + offset as u64, bytes.min(self.bytes() - offset));
        Part { address, bytes, buffer: PhantomData }
    }
}

/// A part of a buffer that is there. Work that was given it may outlive it, and not the memory: that waits for the work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'b> {
    address: CUdeviceptr,
    bytes: usize,
    buffer: PhantomData<&'b ()>,
}

impl Part<'_> {
    /// Where it starts.
    pub(crate) fn address(&self) -> CUdeviceptr {
        self.address
    }

    /// A part of this part.
    pub(crate) fn within(&self, offset: usize, bytes: usize) -> Self {
        let offset = offset.min(self.bytes);
        Part { address: self.address + offset as u64, bytes: bytes.min(self.bytes - offset), ..*self }
    }

    /// How long it is.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// An address that an allocation gave: not null, and with room behind it for as much as was wanted.
fn allocated(call: &'static str, address: CUdeviceptr, bytes: usize) -> Result<CUdeviceptr, CudaError> {
    present(call, address as *mut c_void)?;
    match address.checked_add(bytes as u64) {
        Some(_) => Ok(address),
        None => {
            Err(CudaError::nonsense(call, format!("{bytes} bytes at {address:#x}, beyond the end of all addresses")))
        }
    }
}

/// Readies this thread to give memory back: nothing uses it any more, and its context is current, until what this returns
/// goes.
fn leave(context: &Context) -> Option<Current> {
    let before = Current::of(context.driver());
    context.driver().settle();
    let _ = context.enter();
    before
}

/// Memory of a GPU's own.
#[derive(Debug)]
pub(crate) struct DeviceBuffer {
    context: Context,
    address: CUdeviceptr,
    bytes: usize,
}

impl DeviceBuffer {
    /// Allocates; the content is whatever was there.
    pub(crate) fn new(context: &Context, bytes: usize) -> Result<Self, CudaError> {
        context.enter()?;
        let mut address = 0;
        // SAFETY: the place is one address, and outlives the call; a context is current.
        unsafe { call!(context.driver(), cuMemAlloc_v2(&mut address, bytes)) }?;
        let address = allocated("cuMemAlloc_v2", address, bytes)?;
        Ok(DeviceBuffer { context: context.clone(), address, bytes })
    }

    /// All of it as a dmabuf, by which other devices' drivers find it. Start and size must be multiples of the host's page.
    #[cfg(unix)]
    pub(crate) fn dmabuf(&self) -> Result<File, CudaError> {
        use std::os::fd::FromRawFd;

        const CALL: &str = "cuMemGetHandleForAddressRange";
        self.context.enter()?;
        let kind = CUmemRangeHandleType::CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;
        let mut descriptor: i32 = -1;
        let place = ptr::from_mut(&mut descriptor).cast::<c_void>();
        // SAFETY: the range is this allocation; a handle of this kind is one int, and its place outlives the call.
        unsafe {
            call!(self.context.driver(), cuMemGetHandleForAddressRange(place, self.address, self.bytes, kind, 0))
        }?;
        if descriptor < 0 {
            return Err(CudaError::nonsense(CALL, format!("{descriptor}, which is no file")));
        }
        // SAFETY: the driver opened the file for this process, which alone owns it.
        Ok(unsafe { File::from_raw_fd(descriptor) })
    }

    /// No other system has them.
    #[cfg(not(unix))]
    pub(crate) fn dmabuf(&self) -> Result<File, CudaError> {
        Err(CudaError::nonsense("cuMemGetHandleForAddressRange", "dmabuf needs Linux"))
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
        let _before = leave(&self.context);
        // SAFETY: allocated by cuMemAlloc_v2 in `new`, freed once, here, and no device has work in progress that uses it.
        let _ = unsafe { call!(self.context.driver(), cuMemFree_v2(self.address)) };
    }
}

/// Page-locked host memory that all GPUs reach at its host address.
#[derive(Debug)]
pub(crate) struct PinnedBuffer {
    context: Context,
    start: *mut c_void,
    bytes: usize,
    /// Where the memory was not allocated by the driver but mapped by us, which gives it back.
    mapping: Option<Arc<crate::host::Mapping>>,
}

impl PinnedBuffer {
    /// Allocates where the driver likes.
    pub(crate) fn new(context: &Context, bytes: usize) -> Result<Self, CudaError> {
        context.enter()?;
        let mut start = ptr::null_mut();
        // SAFETY: the place is one address, and outlives the call; a context is current.
        unsafe { call!(context.driver(), cuMemHostAlloc(&mut start, bytes, CU_MEMHOSTALLOC_PORTABLE)) }?;
        let address = allocated("cuMemHostAlloc", start as CUdeviceptr, bytes)?;
        // words are read and written in it, and it is used as if it were in pages of its own
        if !address.is_multiple_of(ALIGNED) {
            let what = format!("host memory at {address:#x}, which does not begin at a multiple of {ALIGNED}");
            return Err(CudaError::nonsense("cuMemHostAlloc", what));
        }
        Ok(PinnedBuffer { context: context.clone(), start, bytes, mapping: None })
    }

    /// Pins a mapping of ours.
    pub(crate) fn pin(context: &Context, mapping: impl Into<Arc<crate::host::Mapping>>) -> Result<Self, CudaError> {
        context.enter()?;
        let mapping = mapping.into();
        let (start, bytes) = (mapping.start(), mapping.bytes());
        // SAFETY: the range is the mapping, which stays mapped until `drop` has taken the registration back.
        unsafe { call!(context.driver(), cuMemHostRegister_v2(start, bytes, CU_MEMHOSTREGISTER_PORTABLE)) }?;
        Ok(PinnedBuffer { context: context.clone(), start, bytes, mapping: Some(mapping) })
    }

    /// All of its bytes.
    ///
    /// # Safety
    /// No device reads or writes the memory as long as the slice is there.
    pub(crate) unsafe fn slice_mut(&mut self) -> &mut [u8] {
        // SAFETY: the memory is `bytes` long, was zeroed or written by the driver, and is borrowed from this, which alone gives it
        // away on the host; of devices the caller says that they leave it alone.
        unsafe { std::slice::from_raw_parts_mut(self.start.cast(), self.bytes) }
    }

    /// Its double word `index`, as devices have left it; 0 beyond its end.
    pub(crate) fn read(&self, index: usize) -> u64 {
        if index >= self.bytes / 8 {
            return 0;
        }
        let word = self.start.cast::<u64>().wrapping_add(index);
        // SAFETY: within the buffer, which begins at a multiple of 8; devices may write it at any time, hence volatile.
        unsafe { word.read_volatile() }
    }

    /// Writes its double word `index`; beyond its end, nothing.
    pub(crate) fn write(&self, index: usize, value: u64) {
        if index < self.bytes / 8 {
            let word = self.start.cast::<u64>().wrapping_add(index);
            // SAFETY: as for `read`; `PinnedBuffer` is not `Sync`, so that no other thread of the host writes it.
            unsafe { word.write_volatile(value) };
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
            let line = self.start.cast::<u8>().wrapping_add(offset);
            // SAFETY: every x86-64 has the instruction; the address is within the buffer, whose content it does not change.
            unsafe { std::arch::x86_64::_mm_clflush(line) };
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
        let _before = leave(&self.context);
        let driver = self.context.driver();
        let _ = match self.mapping {
            // SAFETY: registered in `pin`, and taken back once, here, before the mapping goes; no work uses it any more.
            Some(_) => unsafe { call!(driver, cuMemHostUnregister(self.start)) },
            // SAFETY: allocated by cuMemHostAlloc in `new`, freed once, here, and no work uses it any more.
            None => unsafe { call!(driver, cuMemFreeHost(self.start)) },
        };
    }
}

/// Memory that moves between host and GPUs by itself.
#[derive(Debug)]
pub(crate) struct ManagedBuffer {
    context: Context,
    address: CUdeviceptr,
    bytes: usize,
}

impl ManagedBuffer {
    /// Allocates; no page exists until it is touched.
    pub(crate) fn new(context: &Context, bytes: usize) -> Result<Self, CudaError> {
        context.enter()?;
        let mut address = 0;
        let flags = CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL.0;
        // SAFETY: the place is one address, and outlives the call; a context is current.
        unsafe { call!(context.driver(), cuMemAllocManaged(&mut address, bytes, flags)) }?;
        let address = allocated("cuMemAllocManaged", address, bytes)?;
        Ok(ManagedBuffer { context: context.clone(), address, bytes })
    }

    /// Moves it to the stream's GPU, or to the host, in the stream's order.
    pub(crate) fn prefetch(&self, stream: &Stream, to_host: bool) -> Result<(), CudaError> {
        const HOST: i32 = -1;
        let target = if to_host { HOST } else { stream.device() };
        stream.enter()?;
        // SAFETY: the range is this buffer's managed memory, which waits for its users before it is freed; the stream lives.
        unsafe { call!(self.context.driver(), cuMemPrefetchAsync(self.address, self.bytes, target, stream.handle())) }
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
        let _before = leave(&self.context);
        // SAFETY: allocated by cuMemAllocManaged in `new`, freed once, here, and no work uses it any more.
        let _ = unsafe { call!(self.context.driver(), cuMemFree_v2(self.address)) };
    }
}
