//! Memory that steps use one after another, so that allocating it is paid once.

use std::collections::HashMap;
use std::rc::Rc;

use super::gpu::Gpu;
use crate::cuda::{Buffer, CudaError, DeviceBuffer, PinnedBuffer};
use crate::failure::Problem;
use crate::host::Mapping;

/// Where memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// On a GPU, by index.
    Gpu(usize),
    /// Pinned on the host where the driver likes.
    Host,
    /// Pinned on a NUMA node.
    Node(u32),
}

/// Which buffer of a place: its number within a step, and how often the step's memory was allocated anew.
type Key = (Place, usize, usize);

/// The buffers.
#[derive(Default)]
pub(crate) struct Pool {
    device: HashMap<Key, Rc<DeviceBuffer>>,
    host: HashMap<Key, Rc<PinnedBuffer>>,
}

impl Pool {
    /// A buffer of at least `bytes`. Different places, numbers and allocations never share memory; the same get the
    /// same again, unless it is too small.
    pub(crate) fn take(
        &mut self,
        gpus: &[Rc<Gpu>],
        (place, number, allocation): Key,
        bytes: usize,
    ) -> Result<Rc<dyn Buffer>, Problem> {
        let key = (place, number, allocation);
        if let Place::Gpu(index) = place {
            if let Some(held) = self.device.get(&key).filter(|b| b.bytes() >= bytes) {
                return Ok(Rc::<DeviceBuffer>::clone(held));
            }
            self.device.remove(&key);
            let gpu = gpus.get(index).ok_or_else(|| Problem::Failed(format!("no GPU with index {index}")))?;
            let made = Rc::new(self.device_buffer(gpu, bytes)?);
            self.device.insert(key, Rc::clone(&made));
            return Ok(made);
        }
        if let Some(held) = self.host.get(&key).filter(|b| b.bytes() >= bytes) {
            return Ok(Rc::<PinnedBuffer>::clone(held));
        }
        self.host.remove(&key);
        let gpu = gpus.first().ok_or_else(|| Problem::Failed("no GPU to pin memory for".to_owned()))?;
        let pinned = || match place {
            Place::Node(node) => {
                let mapping = Mapping::new(bytes, Some(node))
                    .map_err(|e| Problem::NotApplicable(format!("memory of NUMA node {node}: {e}")))?;
                PinnedBuffer::pin(&gpu.context, mapping).map_err(Problem::from)
            }
            _ => PinnedBuffer::new(&gpu.context, bytes).map_err(Problem::from),
        };
        let made = match pinned() {
            Err(Problem::Cuda(e)) if e.is_out_of_memory() => {
                self.give_back_host();
                pinned()
            }
            other => other,
        };
        let made = Rc::new(made?);
        self.host.insert(key, Rc::clone(&made));
        Ok(made)
    }

    /// Gives back host memory that no step uses now. To pin it again takes long, so it is kept while there is room.
    pub(crate) fn give_back_host(&mut self) {
        self.host.retain(|_, buffer| Rc::strong_count(buffer) > 1);
    }

    /// Bytes of a GPU that are held here, and can be used again.
    pub(crate) fn held(&self, index: usize) -> u64 {
        let of_gpu = self.device.iter().filter(|((place, ..), _)| *place == Place::Gpu(index));
        of_gpu.map(|(_, buffer)| buffer.bytes() as u64).sum()
    }

    /// Allocates, giving back what no step uses now if there is too little.
    fn device_buffer(&mut self, gpu: &Gpu, bytes: usize) -> Result<DeviceBuffer, CudaError> {
        match DeviceBuffer::new(&gpu.context, bytes) {
            Err(e) if e.is_out_of_memory() => {
                self.device.retain(|_, buffer| Rc::strong_count(buffer) > 1);
                DeviceBuffer::new(&gpu.context, bytes)
            }
            other => other,
        }
    }
}
