//! Memory of this machine's GPUs, as adapters and their tests need it: where it is, how the driver exports it, and copies.

use std::fs::File;
use std::sync::Arc;

use peerlane_gpu::{Live, Mapping, NicMemory, NicStage};
use peerlane_measure::measure::Failure;

/// A part of a GPU's memory that an adapter is to read and write.
pub trait GpuMemory: Send {
    /// Its address on the GPU.
    fn address(&self) -> u64;

    /// Its size.
    fn bytes(&self) -> usize;

    /// All of it as a dmabuf.
    ///
    /// # Errors
    /// In words, why the driver exports none.
    fn dmabuf(&self) -> Result<File, String>;

    /// Writes words from `offset` bytes on, and returns when they are there.
    ///
    /// # Errors
    /// What the driver reports.
    fn write(&mut self, offset: usize, from: &[u64]) -> Result<(), Failure>;

    /// Reads words from `offset` bytes on.
    ///
    /// # Errors
    /// What the driver reports.
    fn read(&mut self, offset: usize, to: &mut [u64]) -> Result<(), Failure>;
}

/// Messages in a GPU's memory, each with a slot of host memory that an adapter reads and writes in its place.
pub trait GpuStage: Send {
    /// Begins the copy of a message to its slot, or from there to the GPU.
    ///
    /// # Errors
    /// What the driver reports.
    fn begin(&mut self, slot: usize, to_gpu: bool) -> Result<(), Failure>;

    /// Waits until its copy has ended.
    ///
    /// # Errors
    /// What the driver reports.
    fn settle(&mut self, slot: usize) -> Result<(), Failure>;

    /// Writes a message into the GPU's memory.
    ///
    /// # Errors
    /// What the driver reports.
    fn write(&mut self, slot: usize, from: &[u64]) -> Result<(), Failure>;

    /// Reads a message from the GPU's memory.
    ///
    /// # Errors
    /// What the driver reports.
    fn read(&mut self, slot: usize, to: &mut [u64]) -> Result<(), Failure>;
}

/// The GPUs of this machine.
pub trait Gpus {
    /// Memory of a GPU for an adapter: at least so many bytes.
    ///
    /// # Errors
    /// What the driver refuses, and names that are none of these GPUs.
    fn memory(&mut self, gpu: &str, bytes: usize) -> Result<Box<dyn GpuMemory>, Failure>;

    /// Messages of so many bytes in a GPU's memory, and the slots of host memory, by their offsets, that they are copied to or from.
    ///
    /// # Errors
    /// What the driver refuses, slots beyond the memory's end, and names that are none of these GPUs.
    fn stage(
        &mut self,
        gpu: &str,
        host: &Arc<Mapping>,
        slots: &[usize],
        bytes: usize,
    ) -> Result<Box<dyn GpuStage>, Failure>;
}

impl Gpus for Live {
    fn memory(&mut self, gpu: &str, bytes: usize) -> Result<Box<dyn GpuMemory>, Failure> {
        Ok(Box::new(self.nic_memory(gpu, bytes)?))
    }

    fn stage(
        &mut self,
        gpu: &str,
        host: &Arc<Mapping>,
        slots: &[usize],
        bytes: usize,
    ) -> Result<Box<dyn GpuStage>, Failure> {
        Ok(Box::new(self.nic_stage(gpu, host, slots, bytes)?))
    }
}

impl GpuMemory for NicMemory {
    fn address(&self) -> u64 {
        NicMemory::address(self)
    }

    fn bytes(&self) -> usize {
        NicMemory::bytes(self)
    }

    fn dmabuf(&self) -> Result<File, String> {
        NicMemory::dmabuf(self)
    }

    fn write(&mut self, offset: usize, from: &[u64]) -> Result<(), Failure> {
        NicMemory::write(self, offset, from)
    }

    fn read(&mut self, offset: usize, to: &mut [u64]) -> Result<(), Failure> {
        NicMemory::read(self, offset, to)
    }
}

impl GpuStage for NicStage {
    fn begin(&mut self, slot: usize, to_gpu: bool) -> Result<(), Failure> {
        NicStage::begin(self, slot, to_gpu)
    }

    fn settle(&mut self, slot: usize) -> Result<(), Failure> {
        NicStage::settle(self, slot)
    }

    fn write(&mut self, slot: usize, from: &[u64]) -> Result<(), Failure> {
        NicStage::write(self, slot, from)
    }

    fn read(&mut self, slot: usize, to: &mut [u64]) -> Result<(), Failure> {
        NicStage::read(self, slot, to)
    }
}
