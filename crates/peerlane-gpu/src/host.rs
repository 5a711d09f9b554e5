//! Host memory of our own choosing: mapped, bound to a NUMA node, and touched.

use std::ffi::c_void;
use std::io;
use std::ptr;

use peerlane::fabric::CpuList;

/// Pages mapped by this process, and nobody else's.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: *mut c_void,
    bytes: usize,
}

// SAFETY: the memory belongs to this value alone.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps memory; its pages are made as they are touched, on the NUMA node if one is given.
    ///
    /// Binding is refused where the kernel has no NUMA support or the container's policy forbids it.
    pub(crate) fn new(bytes: usize, node: Option<u32>) -> io::Result<Self> {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing that exists.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, access, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mapping = Mapping { start, bytes };
        if let Some(node) = node {
            mapping.bind(node)?;
        }
        Ok(mapping)
    }

    fn bind(&self, node: u32) -> io::Result<()> {
        /// `MPOL_BIND` of the kernel's `mempolicy.h`.
        const BIND: libc::c_int = 2;
        const BITS: u32 = usize::BITS;
        let mut mask = [0_usize; 16];
        let word = mask.get_mut((node / BITS) as usize).ok_or_else(|| io::Error::other("NUMA node out of range"))?;
        *word |= 1 << (node % BITS);
        let most = mask.len() * BITS as usize;
        // SAFETY: the range is this mapping, and the mask has as many bits as it is said to have.
        let outcome = unsafe { libc::syscall(libc::SYS_mbind, self.start, self.bytes, BIND, mask.as_ptr(), most, 0) };
        if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Where it starts.
    pub(crate) fn start(&self) -> *mut c_void {
        self.start
    }

    /// Its size.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its content as words.
    pub(crate) fn words(&mut self) -> &mut [u64] {
        // SAFETY: the mapping is readable, writable, page-aligned, initialised with zeros by the kernel, and borrowed
        // for as long as the slice is.
        unsafe { std::slice::from_raw_parts_mut(self.start.cast(), self.bytes / size_of::<u64>()) }
    }
}

impl Mapping {
    /// Its content as floating-point numbers.
    pub(crate) fn doubles(&mut self) -> &mut [f64] {
        // SAFETY: as for words; every bit pattern is a number.
        unsafe { std::slice::from_raw_parts_mut(self.start.cast(), self.bytes / size_of::<f64>()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped by us with this size, and nothing borrows it any more.
        unsafe { libc::munmap(self.start, self.bytes) };
    }
}

/// Memory that can be had without swapping, in bytes; `None` where the kernel does not say.
///
/// A virtual machine whose memory grows as it is used says too little at first.
pub(crate) fn available() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// The CPUs of a NUMA node, or all, that this process may use; `None` where there is none.
pub(crate) fn cpus(node: Option<u32>) -> Option<Vec<u32>> {
    let own = std::fs::read_to_string("/proc/self/status").ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim().parse::<CpuList>().ok()?;
    let mut cpus: Vec<u32> = own.ranges().iter().flat_map(|(first, last)| *first..=*last).collect();
    if let Some(node) = node {
        let listed = std::fs::read_to_string(format!("/sys/devices/system/node/node{node}/cpulist")).ok()?;
        let listed: CpuList = listed.trim().parse().ok()?;
        cpus.retain(|cpu| listed.contains(*cpu));
    }
    (!cpus.is_empty()).then_some(cpus)
}

/// Keeps this thread on one CPU, where that is allowed; where it is not, it runs where it likes.
pub(crate) fn pin_to(cpu: u32) {
    const WORDS: usize = 128;
    let mut mask = [0_u64; WORDS];
    if let Some(word) = mask.get_mut(cpu as usize / 64) {
        *word |= 1 << (cpu % 64);
        // SAFETY: the mask is as long as it is said to be; 0 means this thread.
        unsafe { libc::sched_setaffinity(0, size_of_val(&mask), mask.as_ptr().cast()) };
    }
}
