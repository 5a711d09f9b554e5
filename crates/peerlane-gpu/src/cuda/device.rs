//! Devices and their primary contexts.

use std::ffi::{CStr, c_char};
use std::ptr;

use peerlane::fabric::PciAddress;

use super::driver::{CudaError, Driver, call};
use crate::bindings::cuda::{CUcontext, CUdevice, CUdevice_attribute};

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
        call!(driver, cuDeviceGetCount(&mut count))?;
        let mut devices = Vec::new();
        for ordinal in 0..count {
            let mut handle = 0;
            call!(driver, cuDeviceGet(&mut handle, ordinal))?;
            devices.push(Device { driver, handle });
        }
        Ok(devices)
    }

    /// Its PCI address.
    pub(crate) fn address(&self) -> Result<Option<PciAddress>, CudaError> {
        let mut text: [c_char; 32] = [0; 32];
        call!(self.driver, cuDeviceGetPCIBusId(text.as_mut_ptr(), 32, self.handle))?;
        // SAFETY: the driver has written a terminated string into the array, which is one longer than any address.
        let text = unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy();
        Ok(text.parse().ok())
    }

    /// An attribute; `None` where the driver does not know it.
    fn attribute(&self, which: CUdevice_attribute) -> Option<i32> {
        let mut value = 0;
        call!(self.driver, cuDeviceGetAttribute(&mut value, which, self.handle)).ok().map(|()| value)
    }

    /// Multiprocessors.
    pub(crate) fn multiprocessors(&self) -> u32 {
        self.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
            .and_then(|n| u32::try_from(n).ok())
            .unwrap_or(1)
            .max(1)
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

    /// Whether it can share managed memory with the CPU while both run, so that pages fault and prefetches work.
    pub(crate) fn manages_memory(&self) -> bool {
        self.attribute(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS) == Some(1)
    }

    /// Whether it can read and write another's memory.
    pub(crate) fn can_access(&self, peer: &Device) -> bool {
        let mut can = 0;
        call!(self.driver, cuDeviceCanAccessPeer(&mut can, self.handle, peer.handle)).is_ok() && can == 1
    }
}

/// A device's primary context, held until this goes.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) device: Device,
    pub(crate) handle: CUcontext,
}

// SAFETY: a context may be used from any thread that makes it current (CUDA driver API, context management).
unsafe impl Send for Context {}

impl Context {
    /// Takes the device's primary context, making it if need be, which takes some tenths of a second.
    pub(crate) fn retain(device: Device) -> Result<Context, CudaError> {
        let mut handle = ptr::null_mut();
        call!(device.driver, cuDevicePrimaryCtxRetain(&mut handle, device.handle))?;
        Ok(Context { device, handle })
    }

    /// The driver.
    pub(crate) fn driver(&self) -> &'static Driver {
        self.device.driver
    }

    /// Makes it the context of this thread's next calls.
    pub(crate) fn enter(&self) -> Result<(), CudaError> {
        call!(self.driver(), cuCtxSetCurrent(self.handle))
    }

    /// Waits until the device has done all that it was given.
    pub(crate) fn synchronize(&self) -> Result<(), CudaError> {
        self.enter()?;
        call!(self.driver(), cuCtxSynchronize())
    }

    /// Free and total memory, in bytes.
    pub(crate) fn memory(&self) -> Result<(u64, u64), CudaError> {
        self.enter()?;
        let (mut free, mut total) = (0, 0);
        call!(self.driver(), cuMemGetInfo_v2(&mut free, &mut total))?;
        Ok((free as u64, total as u64))
    }

    /// Lets this device's kernels and copies reach the peer's memory, or no longer.
    pub(crate) fn set_access(&self, peer: &Context, on: bool) -> Result<(), CudaError> {
        const ALREADY_ENABLED: u32 = 704;
        const NOT_ENABLED: u32 = 705;
        self.enter()?;
        let outcome = if on {
            call!(self.driver(), cuCtxEnablePeerAccess(peer.handle, 0))
        } else {
            call!(self.driver(), cuCtxDisablePeerAccess(peer.handle))
        };
        match outcome {
            Err(e) if matches!(e.code, Some(ALREADY_ENABLED | NOT_ENABLED)) => Ok(()),
            other => other,
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        let _ = call!(self.driver(), cuDevicePrimaryCtxRelease_v2(self.device.handle));
    }
}
