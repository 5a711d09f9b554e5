//! Memory that adapters read and write.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use peerlane_gpu::Mapping;
use peerlane_gpu::bindings::verbs::*;
use peerlane_gpu::library::function;
use peerlane_machine::transfer::Registration;

use super::super::sysfs::peer_module;
use super::{Domain, library, refused};
use crate::gpu_memory::GpuMemory;

/// Memory that the adapter may read and write: the host's, or a GPU's.
///
/// The adapter, here or there, changes it at any time; so the host's is only read and written by volatile accesses, and a GPU's by
/// its driver's copies.
pub(in crate::verbs) struct Region {
    raw: NonNull<ibv_mr>,
    start: u64,
    bytes: usize,
    memory: Memory,
    _domain: Arc<Domain>,
}

enum Memory {
    Host(Arc<Mapping>),
    Gpu(Mutex<Box<dyn GpuMemory>>),
}

// SAFETY: the memory is this value's own, and all accesses to it are volatile, as the adapter's are no thread's.
unsafe impl Send for Region {}
// SAFETY: as before; words that two threads write at once are either's; a GPU's memory is behind a lock.
unsafe impl Sync for Region {}

/// What an adapter may do with memory.
const ACCESS: u32 = ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0
    | ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0
    | ibv_access_flags::IBV_ACCESS_REMOTE_READ.0;

/// Registers an address range. `relaxed`: the adapter's writes may pass each other on PCIe, which is faster, and wrong where one
/// waits for the last byte.
///
/// # Safety
/// The range must be mapped, or be a GPU's, until it is no longer registered.
unsafe fn register(domain: &Domain, start: u64, bytes: usize, relaxed: bool) -> Result<NonNull<ibv_mr>, String> {
    let pd = domain.raw.as_ptr();
    let address = start as *mut c_void;
    // an old library lacks the function that knows the flag
    let raw = match verb!(ibv_reg_mr_iova2) {
        Ok(register) if relaxed => {
            let access = ACCESS | ibv_access_flags::IBV_ACCESS_RELAXED_ORDERING.0;
            // SAFETY: as the caller says.
            unsafe { register(pd, address, bytes, start, access) }
        }
        _ => {
            let register = verb!(ibv_reg_mr)?;
            // SAFETY: as the caller says.
            unsafe { register(pd, address, bytes, ACCESS as c_int) }
        }
    };
    NonNull::new(raw).ok_or_else(|| refused("ibv_reg_mr"))
}

/// Registers what a driver exported; `start` is where the adapter is to know it.
#[cfg(unix)]
fn register_dmabuf(domain: &Domain, file: &File, start: u64, bytes: usize) -> Result<NonNull<ibv_mr>, String> {
    use std::os::fd::AsRawFd;

    let register = verb!(ibv_reg_dmabuf_mr)?;
    let access = ACCESS | ibv_access_flags::IBV_ACCESS_RELAXED_ORDERING.0;
    // SAFETY: the file is open; the kernel keeps what it stands for until that is no longer registered.
    let raw = unsafe { register(domain.raw.as_ptr(), 0, bytes, start, file.as_raw_fd(), access as c_int) };
    NonNull::new(raw).ok_or_else(|| {
        let why = refused("ibv_reg_dmabuf_mr");
        let unknown = io::Error::last_os_error().raw_os_error().is_some_and(|code| code == libc::EOPNOTSUPP);
        if unknown { format!("{why}: the adapter's driver or the kernel (before 5.12) takes none") } else { why }
    })
}

#[cfg(not(unix))]
fn register_dmabuf(_: &Domain, _: &File, _: u64, _: usize) -> Result<NonNull<ibv_mr>, String> {
    Err("dmabuf needs Linux".to_owned())
}

impl Region {
    /// Host memory; `relaxed` as [`register`] has it.
    pub(in crate::verbs) fn new(domain: &Arc<Domain>, memory: Mapping, relaxed: bool) -> Result<Self, String> {
        let (start, bytes) = (memory.start() as u64, memory.bytes());
        // SAFETY: the memory is mapped, and this value keeps it so until it is no longer registered.
        let raw = unsafe { register(domain, start, bytes, relaxed) }.map_err(|why| {
            let hint = if why.contains("allocate memory") {
                "; is the limit of locked memory too low (ulimit -l)?"
            } else {
                ""
            };
            format!("{why} ({bytes} bytes{hint})")
        })?;
        Ok(Region { raw, start, bytes, memory: Memory::Host(Arc::new(memory)), _domain: Arc::clone(domain) })
    }

    /// A GPU's memory: as a dmabuf, else by nvidia-peermem. Gives which, and why not as a dmabuf; or why by neither.
    pub(in crate::verbs) fn of_gpu(
        domain: &Arc<Domain>,
        memory: Box<dyn GpuMemory>,
    ) -> Result<(Self, Registration, Option<String>), String> {
        let (start, bytes) = (memory.address(), memory.bytes());
        let exported = memory.dmabuf().and_then(|file| register_dmabuf(domain, &file, start, bytes));
        let (raw, how, why) = match exported {
            Ok(raw) => (raw, Registration::Dmabuf, None),
            Err(dmabuf) => {
                // SAFETY: the range is the GPU's memory, which this value keeps until it is no longer registered.
                match unsafe { register(domain, start, bytes, true) } {
                    Ok(raw) => (raw, Registration::NvidiaPeermem, Some(dmabuf)),
                    Err(why) => {
                        let module = peer_module();
                        return Err(format!("dmabuf: {dmabuf}; nvidia-peermem: {why}, {module}"));
                    }
                }
            }
        };
        let memory = Memory::Gpu(Mutex::new(memory));
        Ok((Region { raw, start, bytes, memory, _domain: Arc::clone(domain) }, how, why))
    }

    /// Where it starts, as the adapters know it.
    pub(in crate::verbs) fn address(&self) -> u64 {
        self.start
    }

    /// What the other side needs to use it.
    pub(in crate::verbs) fn remote_key(&self) -> u32 {
        // SAFETY: the region is registered, and its fields do not change.
        unsafe { (*self.raw.as_ptr()).rkey }
    }

    pub(super) fn local_key(&self) -> u32 {
        // SAFETY: as before.
        unsafe { (*self.raw.as_ptr()).lkey }
    }

    /// The host memory, if it is some.
    pub(in crate::verbs) fn host(&self) -> Option<&Arc<Mapping>> {
        match &self.memory {
            Memory::Host(memory) => Some(memory),
            Memory::Gpu(_) => None,
        }
    }

    /// The GPU's memory, if it is some.
    pub(in crate::verbs) fn gpu(&self) -> Option<MutexGuard<'_, Box<dyn GpuMemory>>> {
        match &self.memory {
            Memory::Host(_) => None,
            Memory::Gpu(memory) => Some(memory.lock().unwrap_or_else(PoisonError::into_inner)),
        }
    }

    /// The address, as the adapters know it, of `bytes` bytes from `offset` on, all of which are the region's.
    pub(super) fn at(&self, offset: usize, bytes: usize) -> u64 {
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= self.bytes);
        assert!(inside, "{bytes} bytes at {offset} of a region of {}", self.bytes);
        self.start + offset as u64
    }

    /// The same of host memory, for the CPU.
    fn host_at(&self, offset: usize, bytes: usize) -> *mut u8 {
        assert!(self.host().is_some(), "a GPU's memory is not for the CPU");
        self.at(offset, bytes) as *mut u8
    }

    pub(in crate::verbs) fn byte(&self, offset: usize) -> u8 {
        // SAFETY: the byte is the region's.
        unsafe { self.host_at(offset, 1).read_volatile() }
    }

    pub(in crate::verbs) fn set_byte(&self, offset: usize, value: u8) {
        // SAFETY: the byte is the region's.
        unsafe { self.host_at(offset, 1).write_volatile(value) }
    }

    /// The word at an offset that 8 divides.
    pub(in crate::verbs) fn word(&self, offset: usize) -> u64 {
        assert!(offset.is_multiple_of(8), "a word at {offset}");
        // SAFETY: the word is the region's, which starts at a page, so it is aligned.
        unsafe { self.host_at(offset, 8).cast::<u64>().read_volatile() }
    }

    /// Sets the word at an offset that 8 divides.
    pub(in crate::verbs) fn set_word(&self, offset: usize, value: u64) {
        assert!(offset.is_multiple_of(8), "a word at {offset}");
        // SAFETY: as before.
        unsafe { self.host_at(offset, 8).cast::<u64>().write_volatile(value) }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        give_back!(ibv_dereg_mr, self.raw);
    }
}
