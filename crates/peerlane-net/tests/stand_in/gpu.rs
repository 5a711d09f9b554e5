//! A stand-in for the memory of GPUs: files in memory, which are dmabufs to the stand-in of `libibverbs`.

#![allow(unsafe_code, reason = "memory that two know by its address")]

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr;
use std::sync::Arc;

use peerlane_gpu::Mapping;
use peerlane_measure::measure::Failure;
use peerlane_net::gpu_memory::{GpuMemory, GpuStage, Gpus};

/// GPUs of any name; the driver exports no memory of `GPU1`.
pub(crate) struct StandInGpus;

struct Memory {
    file: File,
    start: *mut u8,
    bytes: usize,
    exported: bool,
}

// SAFETY: the mapping is this value's own.
unsafe impl Send for Memory {}

impl Memory {
    fn new(bytes: usize, exported: bool) -> Self {
        // SAFETY: the name ends, and the call makes a file of this process's own.
        let descriptor = unsafe { libc::memfd_create(c"stand-in-gpu".as_ptr(), 0) };
        assert!(descriptor >= 0);
        // SAFETY: it was made just now.
        let file = unsafe { File::from_raw_fd(descriptor) };
        file.set_len(bytes as u64).unwrap();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses the place.
        let start =
            unsafe { libc::mmap(ptr::null_mut(), bytes, access, libc::MAP_SHARED, file.as_raw_fd(), 0) }.cast::<u8>();
        assert_ne!(start.cast(), libc::MAP_FAILED);
        Memory { file, start, bytes, exported }
    }

    fn at(&self, offset: usize, words: usize) -> *mut u64 {
        assert!(offset + 8 * words <= self.bytes);
        self.start.wrapping_add(offset).cast()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped in `new`, and no longer registered.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}

impl GpuMemory for Memory {
    fn address(&self) -> u64 {
        self.start as u64
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn dmabuf(&self) -> Result<File, String> {
        if self.exported {
            Ok(self.file.try_clone().unwrap())
        } else {
            Err("the driver exports no memory of GPU1".to_owned())
        }
    }

    fn write(&mut self, offset: usize, from: &[u64]) -> Result<(), Failure> {
        let to = self.at(offset, from.len());
        // SAFETY: the range is the mapping's, and an adapter's copies change it only before or after.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        Ok(())
    }

    fn read(&mut self, offset: usize, to: &mut [u64]) -> Result<(), Failure> {
        let from = self.at(offset, to.len());
        // SAFETY: as for `write`.
        unsafe { ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
        Ok(())
    }
}

/// Copies that end before they return.
struct Stage {
    host: Arc<Mapping>,
    slots: Vec<usize>,
    bytes: usize,
    device: Memory,
}

impl GpuStage for Stage {
    fn begin(&mut self, slot: usize, to_gpu: bool) -> Result<(), Failure> {
        let host = self.host.start().cast::<u8>().wrapping_add(self.slots[slot]);
        let device = self.device.at(slot * self.bytes, self.bytes / 8).cast::<u8>();
        let (from, to) = if to_gpu { (host, device) } else { (device, host) };
        // SAFETY: both are as long, and apart.
        unsafe { ptr::copy(from, to, self.bytes) };
        Ok(())
    }

    fn settle(&mut self, _: usize) -> Result<(), Failure> {
        Ok(())
    }

    fn write(&mut self, slot: usize, from: &[u64]) -> Result<(), Failure> {
        self.device.write(slot * self.bytes, from)
    }

    fn read(&mut self, slot: usize, to: &mut [u64]) -> Result<(), Failure> {
        self.device.read(slot * self.bytes, to)
    }
}

impl Gpus for StandInGpus {
    fn memory(&mut self, gpu: &str, bytes: usize) -> Result<Box<dyn GpuMemory>, Failure> {
        Ok(Box::new(Memory::new(bytes, gpu != "GPU1")))
    }

    fn stage(
        &mut self,
        _: &str,
        host: &Arc<Mapping>,
        slots: &[usize],
        bytes: usize,
    ) -> Result<Box<dyn GpuStage>, Failure> {
        let device = Memory::new(slots.len() * bytes, true);
        Ok(Box::new(Stage { host: Arc::clone(host), slots: slots.to_vec(), bytes, device }))
    }
}
