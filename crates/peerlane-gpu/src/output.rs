//! Standard output, protected from the libraries that this process opens.
//!
//! NVIDIA's libraries may log to standard output: NCCL does if `NCCL_DEBUG` or `/etc/nccl.conf` requests it
//! (NCCL user guide, environment variables). That must not mix with output that another process reads.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

/// The original standard output, for this process only; what libraries write to standard output goes to standard
/// error from here on. To be called before any library is opened, and once.
///
/// Processes that this one starts do not inherit the file. The error is the operating system's: no descriptor is left.
pub fn take_output() -> io::Result<File> {
    let own = io::stdout().as_fd().try_clone_to_owned()?;
    // SAFETY: it changes what a number means, of which nobody else keeps an owner: `own` is another number
    let outcome = unsafe { libc::dup2(libc::STDERR_FILENO, libc::STDOUT_FILENO) };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(File::from(own)) }
}
