//! Memory of a GPU for RDMA adapters of the same machine: what they read and write themselves, and copies between it and host
//! memory that they read and write in its place.

use std::fs::File;
use std::sync::Arc;

use peerlane_measure::measure::Failure;

use super::Live;
use crate::cuda::{Buffer, Context, CudaError, DeviceBuffer, PinnedBuffer, Stream};
use crate::failure::Problem;
use crate::host::Mapping;

/// GPU memory that others are to find is allocated in multiples of this, which begin at one: the large pages of the GPU, and so
/// pages of every host.
const LARGE_PAGE: usize = 2 << 20;

/// A part of a GPU's memory that an adapter may read and write.
pub struct NicMemory {
    gpu: String,
    context: Context,
    // its work ends before the memory goes
    stream: Stream,
    device: DeviceBuffer,
}

// SAFETY: streams and memory may be used from any thread whose context is current (CUDA driver API), which is made so before each
// use, and a value is used by one thread at a time, since it is not `Sync`.
unsafe impl Send for NicMemory {}

impl NicMemory {
    /// Its address, which is the same for the GPU and for who is told of it.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.device.address()
    }

    /// Its size: at least what was asked for.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.device.bytes()
    }

    /// All of it as a dmabuf.
    ///
    /// # Errors
    /// In words, why the driver exports none.
    pub fn dmabuf(&self) -> Result<File, String> {
        match self.context.device.exports_dmabuf() {
            Some(true) => self.device.dmabuf().map_err(|e| e.to_string()),
            Some(false) => {
                Err(format!("the driver exports no memory of {}: its kernel modules are not the open ones", self.gpu))
            }
            None => Err("the driver knows no dmabuf".to_owned()),
        }
    }

    /// Writes words from `offset` bytes on, and returns when they are there.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn write(&mut self, offset: usize, from: &[u64]) -> Result<(), Failure> {
        let to = self.device.part(offset, size_of_val(from));
        Ok(self.stream.enter().and_then(|()| self.stream.copy_from_slice(to, from)).map_err(Problem::from)?)
    }

    /// Reads words from `offset` bytes on.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn read(&mut self, offset: usize, to: &mut [u64]) -> Result<(), Failure> {
        let from = self.device.part(offset, size_of_val(to));
        Ok(self.stream.enter().and_then(|()| self.stream.copy_to_slice(to, from)).map_err(Problem::from)?)
    }
}

/// Messages in a GPU's memory, each with its slot of host memory, which an adapter reads and writes, and the stream of its copies.
pub struct NicStage {
    // their work ends before the memory goes
    streams: Vec<Stream>,
    /// Where each slot begins in the host memory.
    slots: Vec<usize>,
    bytes: usize,
    host: PinnedBuffer,
    device: DeviceBuffer,
}

// SAFETY: as for `NicMemory`.
unsafe impl Send for NicStage {}

impl NicStage {
    /// Begins the copy of a message to its slot, or from there to the GPU.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn begin(&mut self, slot: usize, to_gpu: bool) -> Result<(), Failure> {
        let copied = self.on(slot, |stage, stream, at| {
            let (host, device) = (stage.host.part(at, stage.bytes), stage.device.part(slot * stage.bytes, stage.bytes));
            if to_gpu { stream.copy(device, host) } else { stream.copy(host, device) }
        });
        Ok(copied.map_err(Problem::from)?)
    }

    /// Waits until its copy has ended.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn settle(&mut self, slot: usize) -> Result<(), Failure> {
        Ok(self.on(slot, |_, stream, _| stream.synchronize()).map_err(Problem::from)?)
    }

    /// Writes a message into the GPU's memory.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn write(&mut self, slot: usize, from: &[u64]) -> Result<(), Failure> {
        let copied = self.on(slot, |stage, stream, _| {
            stream.copy_from_slice(stage.device.part(slot * stage.bytes, stage.bytes), from)
        });
        Ok(copied.map_err(Problem::from)?)
    }

    /// Reads a message from the GPU's memory.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn read(&mut self, slot: usize, to: &mut [u64]) -> Result<(), Failure> {
        let copied = self
            .on(slot, |stage, stream, _| stream.copy_to_slice(to, stage.device.part(slot * stage.bytes, stage.bytes)));
        Ok(copied.map_err(Problem::from)?)
    }

    fn on(
        &self,
        slot: usize,
        work: impl FnOnce(&Self, &Stream, usize) -> Result<(), CudaError>,
    ) -> Result<(), CudaError> {
        let (Some(stream), Some(at)) = (self.streams.get(slot), self.slots.get(slot)) else { return Ok(()) };
        stream.enter()?;
        work(self, stream, *at)
    }
}

impl Live {
    /// Memory of a GPU for an adapter: at least so many bytes.
    ///
    /// # Errors
    /// What the driver refuses, and names that are none of the GPUs that were opened.
    pub fn nic_memory(&mut self, gpu: &str, bytes: usize) -> Result<NicMemory, Failure> {
        Ok(self.new_nic_memory(gpu, bytes)?)
    }

    fn new_nic_memory(&mut self, gpu: &str, bytes: usize) -> Result<NicMemory, Problem> {
        let gpu = self.machine().gpu(gpu)?;
        let device = DeviceBuffer::new(&gpu.context, bytes.next_multiple_of(LARGE_PAGE))?;
        let stream = Stream::new(&gpu.context)?;
        Ok(NicMemory { gpu: gpu.name.clone(), context: gpu.context.clone(), stream, device })
    }

    /// Messages of so many bytes in a GPU's memory, and the slots of host memory, by their offsets, that they are copied to or from.
    ///
    /// # Errors
    /// What the driver refuses, slots beyond the memory's end, and names that are none of the GPUs that were opened.
    pub fn nic_stage(
        &mut self,
        gpu: &str,
        host: &Arc<Mapping>,
        slots: &[usize],
        bytes: usize,
    ) -> Result<NicStage, Failure> {
        Ok(self.new_nic_stage(gpu, host, slots, bytes)?)
    }

    fn new_nic_stage(
        &mut self,
        gpu: &str,
        host: &Arc<Mapping>,
        slots: &[usize],
        bytes: usize,
    ) -> Result<NicStage, Problem> {
        if slots.iter().any(|at| at.checked_add(bytes).is_none_or(|end| end > host.bytes())) {
            return Err(Problem::Failed(format!("slots of {bytes} bytes reach beyond the memory's {}", host.bytes())));
        }
        let gpu = self.machine().gpu(gpu)?;
        let device = DeviceBuffer::new(&gpu.context, slots.len() * bytes)?;
        let host = PinnedBuffer::pin(&gpu.context, Arc::clone(host))?;
        let streams = slots.iter().map(|_| Stream::new(&gpu.context)).collect::<Result<_, _>>()?;
        Ok(NicStage { streams, slots: slots.to_vec(), bytes, host, device })
    }
}
