//! Messages of GPU memory on their way through pinned host memory: what a socket sends, and where what it receives goes. Two slots
//! of host memory each, so that a copy to or from the GPU runs while the socket moves the message before it.

use peerlane_measure::measure::{Failure, Verdict};

use super::Ranks;
use crate::cuda::{Buffer, Context, CudaError, DeviceBuffer, PinnedBuffer, Stream};
use crate::failure::Problem;

/// A slot of host memory, and the stream of copies to or from it.
struct Slot {
    // its work ends before its memory goes
    stream: Stream,
    memory: PinnedBuffer,
}

impl Slot {
    fn new(context: &Context, bytes: usize) -> Result<Self, CudaError> {
        Ok(Slot { stream: Stream::new(context)?, memory: PinnedBuffer::new(context, bytes)? })
    }

    /// Its bytes, once the copies that use them have ended.
    fn settled(&mut self) -> Result<&mut [u8], CudaError> {
        self.stream.enter()?;
        self.stream.synchronize()?;
        // SAFETY: no copy uses the memory any more: only this slot's stream has had some, and it has done its work. Another begins
        // only by a method that borrows the slot anew.
        Ok(unsafe { self.memory.slice_mut() })
    }
}

// SAFETY: streams and pinned memory may be used from any thread whose context is current (CUDA driver API), which is made so
// before each use, and a slot is used by one thread at a time, since it is not `Sync`.
unsafe impl Send for Slot {}

/// A message in GPU memory that is sent again and again.
pub struct GpuSource {
    slots: [Slot; 2],
    turn: usize,
    device: DeviceBuffer,
    /// Bytes before the message.
    room: usize,
}

impl GpuSource {
    /// The message, copied from the GPU, behind room for a header; the next one's copy is under way.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn message(&mut self) -> Result<&mut [u8], Failure> {
        Ok(self.turned()?)
    }

    fn turned(&mut self) -> Result<&mut [u8], Problem> {
        let now = self.turn;
        self.turn = 1 - now;
        // what was sent of the other slot has left it
        self.begin(self.turn)?;
        Ok(self.slots[now].settled()?)
    }

    fn begin(&mut self, slot: usize) -> Result<(), CudaError> {
        let Slot { stream, memory } = &self.slots[slot];
        stream.enter()?;
        stream.copy(memory.part(self.room, self.device.bytes()), self.device.part(0, self.device.bytes()))
    }
}

/// GPU memory that messages are received into.
pub struct GpuSink {
    slots: [Slot; 2],
    turn: usize,
    device: DeviceBuffer,
}

impl GpuSink {
    /// Host memory for the next message.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn room(&mut self) -> Result<&mut [u8], Failure> {
        Ok(self.slots[self.turn].settled().map_err(Problem::from)?)
    }

    /// The message is there: its copy to the GPU begins.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn filled(&mut self) -> Result<(), Failure> {
        Ok(self.pushed().map_err(Problem::from)?)
    }

    fn pushed(&mut self) -> Result<(), CudaError> {
        let Slot { stream, memory } = &self.slots[self.turn];
        self.turn = 1 - self.turn;
        stream.enter()?;
        stream.copy(self.device.part(0, self.device.bytes()), memory.part(0, memory.bytes()))
    }

    /// Waits until all messages are in GPU memory.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn settle(&mut self) -> Result<(), Failure> {
        self.slots.iter_mut().try_for_each(|slot| slot.settled().map(|_| ()).map_err(|e| Problem::from(e).into()))
    }
}

impl Ranks {
    /// A message of that many bytes in a GPU's memory, filled under `seed`, with room for a header before it in host memory.
    ///
    /// # Errors
    /// What the driver refuses.
    pub fn source(&mut self, gpu: &str, bytes: usize, room: usize, seed: u32) -> Result<GpuSource, Failure> {
        Ok(self.new_source(gpu, bytes, room, seed)?)
    }

    fn new_source(&mut self, gpu: &str, bytes: usize, room: usize, seed: u32) -> Result<GpuSource, Problem> {
        let gpu = self.machine().gpu(gpu)?;
        let device = DeviceBuffer::new(&gpu.context, bytes)?;
        let stream = gpu.stream()?;
        gpu.context.enter()?;
        gpu.kernels.fill(&stream, device.part(0, bytes), seed, false)?;
        stream.synchronize()?;
        let slot = || Slot::new(&gpu.context, room + bytes);
        let mut source = GpuSource { slots: [slot()?, slot()?], turn: 0, device, room };
        source.begin(0)?;
        Ok(source)
    }

    /// A place in a GPU's memory for messages of that many bytes, with nothing of a message in it.
    ///
    /// # Errors
    /// What the driver refuses.
    pub fn sink(&mut self, gpu: &str, bytes: usize) -> Result<GpuSink, Failure> {
        Ok(self.new_sink(gpu, bytes)?)
    }

    fn new_sink(&mut self, gpu: &str, bytes: usize) -> Result<GpuSink, Problem> {
        const POISON: u8 = 0xA5;
        let gpu = self.machine().gpu(gpu)?;
        let device = DeviceBuffer::new(&gpu.context, bytes)?;
        let slot = || Slot::new(&gpu.context, bytes);
        let slots = [slot()?, slot()?];
        slots[0].stream.set(device.part(0, bytes), POISON)?;
        slots[0].stream.synchronize()?;
        Ok(GpuSink { slots, turn: 0, device })
    }

    /// Compares what is in a GPU's memory with a message under `seed`.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn compare(&mut self, gpu: &str, sink: &mut GpuSink, seed: u32) -> Result<Verdict, Failure> {
        sink.settle()?;
        let gpu = self.machine().gpu(gpu)?;
        let stream = gpu.stream().map_err(Problem::from)?;
        Ok(gpu.verify(&stream, sink.device.part(0, sink.device.bytes()), seed)?)
    }
}
