//! Streams of work, and events that tell when a device reached them.

use std::ptr;

use super::driver::{CudaError, Driver, call};
use super::{Buffer, Context, Part, PinnedBuffer};
use crate::bindings::cuda::{CUcontext, CUevent, CUevent_flags, CUstream, CUstream_flags, CUstreamWaitValue_flags};

/// A queue of work on one device.
#[derive(Debug)]
pub(crate) struct Stream {
    driver: &'static Driver,
    context: CUcontext,
    device: i32,
    handle: CUstream,
}

impl Stream {
    /// A stream that waits for no other.
    pub(crate) fn new(context: &Context) -> Result<Self, CudaError> {
        context.enter()?;
        let mut handle = ptr::null_mut();
        call!(context.driver(), cuStreamCreate(&mut handle, CUstream_flags::CU_STREAM_NON_BLOCKING.0))?;
        let (driver, device) = (context.driver(), context.device.handle);
        Ok(Stream { driver, context: context.handle, device, handle })
    }

    /// The driver's handle.
    pub(crate) fn handle(&self) -> CUstream {
        self.handle
    }

    /// The device's ordinal.
    pub(crate) fn device(&self) -> i32 {
        self.device
    }

    /// Makes its context that of this thread's next calls.
    pub(crate) fn enter(&self) -> Result<(), CudaError> {
        call!(self.driver, cuCtxSetCurrent(self.context))
    }

    /// Copies from one part to another, as much as fits, by a copy engine of this stream's device. Its context must be
    /// current.
    pub(crate) fn copy(&self, to: Part, from: Part) -> Result<(), CudaError> {
        let bytes = to.bytes().min(from.bytes());
        call!(self.driver, cuMemcpyAsync(to.address(), from.address(), bytes, self.handle))
    }

    /// Copies between two devices' memories in whatever way the driver finds: through the host where neither may
    /// reach the other.
    pub(crate) fn copy_peer(&self, to: (Part, &Context), from: (Part, &Context)) -> Result<(), CudaError> {
        let ((to, there), (from, here)) = (to, from);
        let bytes = to.bytes().min(from.bytes());
        let (to, from) = (to.address(), from.address());
        call!(self.driver, cuMemcpyPeerAsync(to, there.handle, from, here.handle, bytes, self.handle))
    }

    /// Copies to ordinary memory of the process, and returns when it is there.
    pub(crate) fn copy_to_slice(&self, to: &mut [u64], from: Part) -> Result<(), CudaError> {
        let bytes = size_of_val(to).min(from.bytes());
        call!(self.driver, cuMemcpyDtoHAsync_v2(to.as_mut_ptr().cast(), from.address(), bytes, self.handle))?;
        self.synchronize()
    }

    /// Copies from ordinary memory of the process, and returns when it is there.
    pub(crate) fn copy_from_slice(&self, to: Part, from: &[u64]) -> Result<(), CudaError> {
        let bytes = size_of_val(from).min(to.bytes());
        call!(self.driver, cuMemcpyHtoDAsync_v2(to.address(), from.as_ptr().cast(), bytes, self.handle))?;
        self.synchronize()
    }

    /// Sets every byte.
    pub(crate) fn set(&self, part: Part, value: u8) -> Result<(), CudaError> {
        call!(self.driver, cuMemsetD8Async(part.address(), value, part.bytes(), self.handle))
    }

    /// Marks the place that the queue has reached.
    pub(crate) fn record(&self, event: &Event) -> Result<(), CudaError> {
        call!(self.driver, cuEventRecord(event.handle, self.handle))
    }

    /// Goes on only after another stream's event, of any device.
    pub(crate) fn wait(&self, event: &Event) -> Result<(), CudaError> {
        call!(self.driver, cuStreamWaitEvent(self.handle, event.handle, 0))
    }

    /// Goes on only once the first word of `gate` is at least `value`, counted round.
    pub(crate) fn wait_for(&self, gate: &PinnedBuffer, value: u32) -> Result<(), CudaError> {
        call!(
            self.driver,
            cuStreamWaitValue32_v2(
                self.handle,
                gate.address(),
                value,
                CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_GEQ.0
            )
        )
    }

    /// Waits until all of its work is done.
    pub(crate) fn synchronize(&self) -> Result<(), CudaError> {
        call!(self.driver, cuStreamSynchronize(self.handle))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.enter();
        let _ = call!(self.driver, cuStreamDestroy_v2(self.handle));
    }
}

/// A mark in a stream, with the device's time.
#[derive(Debug)]
pub(crate) struct Event {
    driver: &'static Driver,
    handle: CUevent,
}

impl Event {
    /// An event of the context that is current.
    pub(crate) fn new(stream: &Stream) -> Result<Self, CudaError> {
        stream.enter()?;
        let mut handle = ptr::null_mut();
        call!(stream.driver, cuEventCreate(&mut handle, CUevent_flags::CU_EVENT_DEFAULT.0))?;
        Ok(Event { driver: stream.driver, handle })
    }

    /// Seconds from another event of the same device to this; both must have passed. The driver's resolution is about
    /// half a microsecond.
    pub(crate) fn since(&self, start: &Event) -> Result<f64, CudaError> {
        let mut milliseconds = 0.0;
        call!(self.driver, cuEventElapsedTime(&mut milliseconds, start.handle, self.handle))?;
        Ok(f64::from(milliseconds) * 1e-3)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let _ = call!(self.driver, cuEventDestroy_v2(self.handle));
    }
}
