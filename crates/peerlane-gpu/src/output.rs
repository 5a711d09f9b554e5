//! Standard output, kept from the libraries that this process opens.
//!
//! NVIDIA's libraries log where they like: NCCL to standard output where `NCCL_DEBUG` or `/etc/nccl.conf` asks for it
//! (NCCL user guide, environment variables). A process whose output another one reads must not have them mix into it.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

/// What was standard output until now, for this process's own words alone; what others write there goes to standard
/// error from here on. To be called before any library is opened, and once.
///
/// Processes that this one starts do not inherit the file. The error is the operating system's: no descriptor is left.
pub fn take_output() -> io::Result<File> {
    let own = io::stdout().as_fd().try_clone_to_owned()?;
    // SAFETY: it changes what a number means, of which nobody else keeps an owner: `own` is another number
    let outcome = unsafe { libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(File::from(own)) }
}
