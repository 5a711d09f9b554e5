//! Devices and their primary contexts.

use std::ffi::c_char;
use std::ptr;
use std::sync::{Arc, Weak};

use peerlane_machine::fabric::PciAddress;

use super::driver::{Busy, CudaError, Driver, call, present};
use crate::bindings::cuda::{CUcontext, CUdevice, CUdevice_attribute};
use crate::foreign::{self, MOST_GPUS, MOST_MULTIPROCESSORS};

/// A GPU as CUDA sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Device {
    pub(crate) driver: &'static Driver,
    pub(crate) handle: CUdevice,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.file)
    }
}

impl Device {
    /// All devices that the driver shows this process.
    pub(crate) fn all(driver: &'static Driver) -> Result<Vec<Device>, CudaError> {
        let mut count = 0;
        // SAFETY: the place is one int, and outlives the call.
        unsafe { call!(driver, cuDeviceGetCount(&mut count)) }?;
        let count = foreign::bounded("GPUs", count, 0, MOST_GPUS as i32)
            .map_err(|what| CudaError::nonsense("cuDeviceGetCount", what))?;
        let mut devices = Vec::new();
        for ordinal in 0..count {
            let mut handle = 0;
            // SAFETY: the place is one device number, and outlives the call; any ordinal may be asked.
            unsafe { call!(driver, cuDeviceGet(&mut handle, ordinal)) }?;
            devices.push(Device { driver, handle });
        }
        Ok(devices)
    }

    /// Its PCI address.
    pub(crate) fn address(&self) -> Result<Option<PciAddress>, CudaError> {
        const LENGTH: usize = 32;
        let mut text: [c_char; LENGTH] = [0; LENGTH];
        // SAFETY: the buffer is as long as it is said to be, and outlives the call; the device is the driver's.
        unsafe { call!(self.driver, cuDeviceGetPCIBusId(text.as_mut_ptr(), LENGTH as i32, self.handle)) }?;
        let text = foreign::text_in(&text).ok_or_else(|| {
            CudaError::nonsense("cuDeviceGetPCIBusId", format!("a text without an end in {LENGTH} bytes"))
        })?;
        Ok(text.parse().ok())
    }

    /// Its product's name, as the driver gives it.
    pub(crate) fn product(&self) -> Result<String, CudaError> {
        const LENGTH: usize = 256;
        let mut text: [c_char; LENGTH] = [0; LENGTH];
        // SAFETY: the buffer is as long as it is said to be, and outlives the call; the device is the driver's.
        unsafe { call!(self.driver, cuDeviceGetName(text.as_mut_ptr(), LENGTH as i32, self.handle)) }?;
        foreign::text_in(&text)
            .ok_or_else(|| CudaError::nonsense("cuDeviceGetName", format!("a text without an end in {LENGTH} bytes")))
    }

    /// An attribute; `None` where the driver does not know it.
    fn attribute(&self, which: CUdevice_attribute) -> Option<i32> {
        let mut value = 0;
        // SAFETY: the place is one int, and outlives the call; the driver refuses attributes that it does not know.
        unsafe { call!(self.driver, cuDeviceGetAttribute(&mut value, which, self.handle)) }.ok().map(|()| value)
    }

    /// Multiprocessors.
    pub(crate) fn multiprocessors(&self) -> Result<u32, CudaError> {
        let count = self.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT).unwrap_or(1);
        let count = foreign::bounded("multiprocessors", i64::from(count), 1, i64::from(MOST_MULTIPROCESSORS));
        count.map(|n| n as u32).map_err(|what| CudaError::nonsense("cuDeviceGetAttribute", what))
    }

    /// Bytes of its L2.
    pub(crate) fn l2_bytes(&self) -> Option<usize> {
        let bytes = self.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?;
        usize::try_from(bytes).ok().filter(|bytes| *bytes > 0)
    }

    /// Compute capability, such as (9, 0).
    pub(crate) fn compute_capability(&self) -> (i32, i32) {
        let of = |which| self.attribute(which).unwrap_or(0);
        (
            of(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
            of(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
        )
    }

    /// Whether the driver exports its memory as dmabuf; `None` where the driver does not know what that is.
    pub(crate) fn exports_dmabuf(&self) -> Option<bool> {
        self.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED).map(|supported| supported != 0)
    }

    /// Whether it can share managed memory with the CPU while both run, so that pages fault and prefetches work.
    pub(crate) fn manages_memory(&self) -> bool {
        self.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS) == Some(1)
    }

    /// Whether it can read and write another's memory.
    pub(crate) fn can_access(&self, peer: &Device) -> bool {
        let mut can = 0;
        // SAFETY: the place is one int, and outlives the call; both devices are the driver's.
        unsafe { call!(self.driver, cuDeviceCanAccessPeer(&mut can, self.handle, peer.handle)) }.is_ok() && can == 1
    }
}

/// A device's primary context, held until this and all that was made in it goes.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) device: Device,
    primary: Arc<Primary>,
}

/// The driver's own count of users of a device's primary context, raised by one.
#[derive(Debug)]
struct Primary {
    device: Device,
    handle: CUcontext,
}

// SAFETY: a context may be used from any thread that makes it current (CUDA driver API, context management).
unsafe impl Send for Primary {}
// SAFETY: the driver's calls may come from several threads at once (CUDA driver API, "thread safety").
unsafe impl Sync for Primary {}

impl Context {
    /// Takes the device's primary context, making it if need be, which takes some tenths of a second.
    pub(crate) fn retain(device: Device) -> Result<Context, CudaError> {
        let mut handle = ptr::null_mut();
        // SAFETY: the place is one handle, and outlives the call; the device is the driver's.
        unsafe { call!(device.driver, cuDevicePrimaryCtxRetain(&mut handle, device.handle)) }?;
        let handle = present("cuDevicePrimaryCtxRetain", handle)?;
        let primary = Arc::new(Primary { device, handle });
        let busy: Weak<Primary> = Arc::downgrade(&primary);
        device.driver.remember(busy);
        Ok(Context { device, primary })
    }

    /// The driver.
    pub(crate) fn driver(&self) -> &'static Driver {
        self.device.driver
    }

    /// The driver's handle, which is valid while this lives.
    pub(super) fn handle(&self) -> CUcontext {
        self.primary.handle
    }

    /// Makes it the context of this thread's next calls.
    pub(crate) fn enter(&self) -> Result<(), CudaError> {
        self.primary.enter()
    }

    /// Waits until the device has done all that it was given.
    pub(crate) fn synchronize(&self) -> Result<(), CudaError> {
        self.primary.synchronize()
    }

    /// Free and total memory, in bytes.
    pub(crate) fn memory(&self) -> Result<(u64, u64), CudaError> {
        self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: both places are sizes, and outlive the call; a context is current.
        unsafe { call!(self.driver(), cuMemGetInfo_v2(&mut free, &mut total)) }?;
        foreign::bounded("bytes free", free, 0, total).map_err(|what| CudaError::nonsense("cuMemGetInfo_v2", what))?;
        Ok((free as u64, total as u64))
    }

    /// Lets this device's kernels and copies reach the peer's memory, or no longer.
    pub(crate) fn set_access(&self, peer: &Context, on: bool) -> Result<(), CudaError> {
        const ALREADY_ENABLED: u32 = 704;
        const NOT_ENABLED: u32 = 705;
        self.enter()?;
        let outcome = if on {
            // SAFETY: the peer's context is held by `peer`; the flags are the 0 that the header requires.
            unsafe { call!(self.driver(), cuCtxEnablePeerAccess(peer.handle(), 0)) }
        } else {
            // SAFETY: as above. Work that still reaches the peer's memory fails on the device.
            unsafe { call!(self.driver(), cuCtxDisablePeerAccess(peer.handle())) }
        };
        match outcome {
            Err(e) if matches!(e.code(), Some(ALREADY_ENABLED | NOT_ENABLED)) => Ok(()),
            other => other,
        }
    }
}

impl Primary {
    fn enter(&self) -> Result<(), CudaError> {
        // SAFETY: the context is retained until this goes.
        unsafe { call!(self.device.driver, cuCtxSetCurrent(self.handle)) }
    }
}

impl Busy for Primary {
    fn synchronize(&self) -> Result<(), CudaError> {
        self.enter()?;
        // SAFETY: a context is current.
        unsafe { call!(self.device.driver, cuCtxSynchronize()) }
    }
}

/// What was this thread's current context, and is again when this goes.
pub(super) struct Current {
    driver: &'static Driver,
    handle: CUcontext,
}

impl Current {
    pub(super) fn of(driver: &'static Driver) -> Option<Self> {
        let mut handle = ptr::null_mut();
        // SAFETY: the place is one handle, and outlives the call.
        unsafe { call!(driver, cuCtxGetCurrent(&mut handle)) }.ok()?;
        (!handle.is_null()).then_some(Current { driver, handle })
    }
}

impl Drop for Current {
    fn drop(&mut self) {
        // SAFETY: the driver gave it as current; it refuses a context that was destroyed since.
        let _ = unsafe { call!(self.driver, cuCtxSetCurrent(self.handle)) };
    }
}

impl Drop for Primary {
    fn drop(&mut self) {
        // SAFETY: retained once, in `Context::retain`, and released once, here; what was made in it held this, and is gone.
        let _ = unsafe { call!(self.device.driver, cuDevicePrimaryCtxRelease_v2(self.device.handle)) };
    }
}
