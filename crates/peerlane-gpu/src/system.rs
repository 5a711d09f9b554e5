//! What differs between operating systems. Everything is measured on Linux; elsewhere the crate builds, so that the commands
//! that need no GPU can be used there, and what only Linux has is refused or left out.

use std::ffi::{OsStr, c_void};
use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use libloading::Library;

/// Who may write a file or folder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) mode: u32,
    pub(crate) user: u32,
    pub(crate) group: u32,
}

#[cfg(unix)]
pub(crate) fn owner(meta: &Metadata) -> Owner {
    use std::os::unix::fs::MetadataExt;
    Owner { mode: meta.mode(), user: meta.uid(), group: meta.gid() }
}

/// Windows has lists of permissions instead, which are not read: every file counts as the administrator's.
#[cfg(not(unix))]
pub(crate) fn owner(_meta: &Metadata) -> Owner {
    Owner { mode: 0o755, user: 0, group: 0 }
}

/// Whether this process runs as root.
pub(crate) fn is_root() -> bool {
    #[cfg(unix)]
    {
        // SAFETY: geteuid takes nothing, touches no memory and cannot fail.
        let user = unsafe { libc::geteuid() };
        user == 0
    }
    #[cfg(not(unix))]
    false
}

/// The elements of a variable such as `PATH`; `;` also separates some.
#[cfg(unix)]
pub(crate) fn elements(value: &OsStr, also_semicolon: bool) -> Vec<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let separates = |byte: &u8| *byte == b':' || (*byte == b';' && also_semicolon);
    value.as_bytes().split(separates).map(|element| OsStr::from_bytes(element).into()).collect()
}

/// The elements of a variable such as `PATH`.
#[cfg(not(unix))]
pub(crate) fn elements(value: &OsStr, _also_semicolon: bool) -> Vec<PathBuf> {
    std::env::split_paths(value).collect()
}

/// The original standard output; what libraries write to it goes to standard error from here on.
#[cfg(unix)]
pub(crate) fn take_output() -> io::Result<File> {
    use std::os::fd::AsFd;
    let own = io::stdout().as_fd().try_clone_to_owned()?;
    // SAFETY: it changes what a number means, of which nobody else keeps an owner: `own` is another number
    let outcome = unsafe { libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(File::from(own)) }
}

#[cfg(not(unix))]
pub(crate) fn take_output() -> io::Result<File> {
    Err(only_linux())
}

/// Opens a library, whose names nothing that is opened later sees.
///
/// # Safety
/// Its initialisers run: whoever could write the file could run any code.
pub(crate) unsafe fn open(file: &Path) -> Result<Library, libloading::Error> {
    #[cfg(unix)]
    {
        use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
        // SAFETY: as the caller promises.
        unsafe { Library::open(Some(file), RTLD_NOW | RTLD_LOCAL) }.map(Into::into)
    }
    #[cfg(not(unix))]
    // SAFETY: as the caller promises.
    unsafe {
        Library::new(file)
    }
}

/// Maps memory of this process's own.
#[cfg(target_os = "linux")]
pub(crate) fn map(bytes: usize) -> io::Result<*mut c_void> {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: an anonymous mapping at an address of the kernel's choice touches nothing that exists.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
    if start == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(start) }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn map(_bytes: usize) -> io::Result<*mut c_void> {
    Err(only_linux())
}

/// Ends a mapping.
///
/// # Safety
/// [`map`] made it with this size, and nothing borrows it any more.
pub(crate) unsafe fn unmap(start: *mut c_void, bytes: usize) {
    #[cfg(target_os = "linux")]
    // SAFETY: as the caller promises.
    unsafe {
        libc::munmap(start, bytes);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, bytes);
}

/// Binds a mapping to the NUMA nodes of a mask.
///
/// # Safety
/// The range is a mapping of the caller's.
#[cfg(target_os = "linux")]
pub(crate) unsafe fn bind(start: *mut c_void, bytes: usize, mask: &[usize]) -> io::Result<()> {
    /// `MPOL_BIND` of the kernel's `mempolicy.h`.
    const BIND: libc::c_int = 2;
    let most = mask.len() * usize::BITS as usize;
    // SAFETY: the range is the caller's mapping, and the mask has as many bits as it is said to have.
    let outcome = unsafe { libc::syscall(libc::SYS_mbind, start, bytes, BIND, mask.as_ptr(), most, 0) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Binds a mapping to the NUMA nodes of a mask.
///
/// # Safety
/// None is needed here.
#[cfg(not(target_os = "linux"))]
pub(crate) unsafe fn bind(_start: *mut c_void, _bytes: usize, _mask: &[usize]) -> io::Result<()> {
    Err(only_linux())
}

/// Keeps this thread on the CPUs of a mask, where that is allowed.
pub(crate) fn keep_on(mask: &[u64]) {
    #[cfg(target_os = "linux")]
    // SAFETY: the mask is as long as it is said to be; 0 means this thread.
    unsafe {
        libc::sched_setaffinity(0, size_of_val(mask), mask.as_ptr().cast());
    }
    #[cfg(not(target_os = "linux"))]
    let _ = mask;
}

#[cfg(not(target_os = "linux"))]
fn only_linux() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, "measuring needs Linux")
}
