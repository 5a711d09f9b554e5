//! Streams of work, and events that tell when a device reached them.

use std::ptr;

use super::driver::{CudaError, call, present};
use super::{Context, Driver, Part};
use crate::bindings::cuda::{
    CUdeviceptr, CUevent, CUevent_flags, CUstream, CUstream_flags, CUstreamWaitValue_flags, CUstreamWriteValue_flags,
};

/// A queue of work on one device.
#[derive(Debug)]
pub(crate) struct Stream {
    context: Context,
    handle: CUstream,
}

impl Stream {
    /// A stream that waits for no other.
    pub(crate) fn new(context: &Context) -> Result<Self, CudaError> {
        context.enter()?;
        let mut handle = ptr::null_mut();
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING.0;
        // SAFETY: the place is one handle, and outlives the call; a context is current.
        unsafe { call!(context.driver(), cuStreamCreate(&mut handle, flags)) }?;
        Ok(Stream { context: context.clone(), handle: present("cuStreamCreate", handle)? })
    }

    /// The driver's handle.
    pub(crate) fn handle(&self) -> CUstream {
        self.handle
    }

    /// The device's ordinal.
    pub(crate) fn device(&self) -> i32 {
        self.context.device.handle
    }

    fn driver(&self) -> &'static Driver {
        self.context.driver()
    }

    /// Makes its context that of this thread's next calls.
    pub(crate) fn enter(&self) -> Result<(), CudaError> {
        self.context.enter()
    }

    /// Copies from one part to another, as much as fits, by a copy engine of this stream's device. Its context must be
    /// current.
    pub(crate) fn copy(&self, to: Part, from: Part) -> Result<(), CudaError> {
        let bytes = to.bytes().min(from.bytes());
        // SAFETY: both parts are at least so long, and their memory waits for this stream before it goes.
        unsafe { call!(self.driver(), cuMemcpyAsync(to.address(), from.address(), bytes, self.handle)) }
    }

    /// Copies between two devices' memories in whatever way the driver finds: through the host where neither may
    /// reach the other.
    pub(crate) fn copy_peer(&self, to: (Part, &Context), from: (Part, &Context)) -> Result<(), CudaError> {
        let ((to, there), (from, here)) = (to, from);
        let bytes = to.bytes().min(from.bytes());
        let (to, from) = (to.address(), from.address());
        let (there, here) = (there.handle(), here.handle());
        // SAFETY: as for `copy`; both contexts are held by the caller.
        unsafe { call!(self.driver(), cuMemcpyPeerAsync(to, there, from, here, bytes, self.handle)) }
    }

    /// Copies to ordinary memory of the process, and returns when it is there.
    pub(crate) fn copy_to_slice(&self, to: &mut [u64], from: Part) -> Result<(), CudaError> {
        let bytes = size_of_val(to).min(from.bytes());
        // SAFETY: both are at least so long. The slice is borrowed until this returns, and by then the copy is done: the stream
        // waited for it, or refuses, and then its context has no work in progress any more.
        unsafe {
            call!(self.driver(), cuMemcpyDtoHAsync_v2(to.as_mut_ptr().cast(), from.address(), bytes, self.handle))
        }?;
        self.synchronize()
    }

    /// Copies from ordinary memory of the process, and returns when it is there.
    pub(crate) fn copy_from_slice(&self, to: Part, from: &[u64]) -> Result<(), CudaError> {
        let bytes = size_of_val(from).min(to.bytes());
        // SAFETY: as for `copy_to_slice`.
        unsafe { call!(self.driver(), cuMemcpyHtoDAsync_v2(to.address(), from.as_ptr().cast(), bytes, self.handle)) }?;
        self.synchronize()
    }

    /// Sets every byte.
    pub(crate) fn set(&self, part: Part, value: u8) -> Result<(), CudaError> {
        // SAFETY: the part is so long, and its memory waits for this stream before it goes.
        unsafe { call!(self.driver(), cuMemsetD8Async(part.address(), value, part.bytes(), self.handle)) }
    }

    /// Marks the place that the queue has reached.
    pub(crate) fn record(&self, event: &Event) -> Result<(), CudaError> {
        // SAFETY: both are alive; the driver refuses an event of another context.
        unsafe { call!(self.driver(), cuEventRecord(event.handle, self.handle)) }
    }

    /// Goes on only after another stream's event, of any device.
    pub(crate) fn wait(&self, event: &Event) -> Result<(), CudaError> {
        // SAFETY: both are alive; the flags are the 0 that the header requires.
        unsafe { call!(self.driver(), cuStreamWaitEvent(self.handle, event.handle, 0)) }
    }

    /// Goes on only once the first word of a part, of this device's or the host's memory, is at least `value`, counted round.
    pub(crate) fn wait_for(&self, word: Part, value: u32) -> Result<(), CudaError> {
        let how = CUstreamWaitValue_flags::CU_STREAM_WAIT_VALUE_GEQ.0;
        let address = word_at("cuStreamWaitValue32_v2", word)?;
        // SAFETY: the word is there, and its memory waits for this stream before it goes.
        unsafe { call!(self.driver(), cuStreamWaitValue32_v2(self.handle, address, value, how)) }
    }

    /// Writes the first word of a part, of the host's memory or of any device's that this one may reach, after all that
    /// this stream wrote before it.
    pub(crate) fn write_word(&self, word: Part, value: u32) -> Result<(), CudaError> {
        let how = CUstreamWriteValue_flags::CU_STREAM_WRITE_VALUE_DEFAULT.0;
        let address = word_at("cuStreamWriteValue32_v2", word)?;
        // SAFETY: as for `wait_for`.
        unsafe { call!(self.driver(), cuStreamWriteValue32_v2(self.handle, address, value, how)) }
    }

    /// Waits until all of its work is done.
    pub(crate) fn synchronize(&self) -> Result<(), CudaError> {
        // SAFETY: the stream is alive.
        unsafe { call!(self.driver(), cuStreamSynchronize(self.handle)) }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.enter();
        // SAFETY: made in `new`, destroyed once, here; the driver ends its work first, and its context is still held.
        let _ = unsafe { call!(self.driver(), cuStreamDestroy_v2(self.handle)) };
    }
}

/// The address of a part that holds a word.
fn word_at(call: &'static str, part: Part) -> Result<CUdeviceptr, CudaError> {
    match part.bytes() {
        0..4 => Err(CudaError::nonsense(call, format!("a word in {} bytes", part.bytes()))),
        _ => Ok(part.address()),
    }
}

/// A mark in a stream, with the device's time.
#[derive(Debug)]
pub(crate) struct Event {
    context: Context,
    handle: CUevent,
}

impl Event {
    /// An event of the context that is current.
    pub(crate) fn new(stream: &Stream) -> Result<Self, CudaError> {
        stream.enter()?;
        let mut handle = ptr::null_mut();
        // SAFETY: the place is one handle, and outlives the call; a context is current.
        unsafe { call!(stream.driver(), cuEventCreate(&mut handle, CUevent_flags::CU_EVENT_DEFAULT.0)) }?;
        Ok(Event { context: stream.context.clone(), handle: present("cuEventCreate", handle)? })
    }

    /// Seconds from another event of the same device to this; both must have passed. The driver's resolution is about
    /// half a microsecond.
    pub(crate) fn since(&self, start: &Event) -> Result<f64, CudaError> {
        let mut milliseconds = 0.0;
        // SAFETY: the place is one float, and outlives the call; both events are alive, and the driver refuses those that were
        // never recorded.
        unsafe { call!(self.context.driver(), cuEventElapsedTime(&mut milliseconds, start.handle, self.handle)) }?;
        Ok(f64::from(milliseconds) * 1e-3)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: made in `new`, destroyed once, here; its context is still held.
        let _ = unsafe { call!(self.context.driver(), cuEventDestroy_v2(self.handle)) };
    }
}
