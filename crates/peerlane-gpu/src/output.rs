//! Standard output, protected from the libraries that this process opens.
//!
//! NVIDIA's libraries may log to standard output: NCCL does if `NCCL_DEBUG` or `/etc/nccl.conf` requests it
//! (NCCL user guide, environment variables). That must not mix with output that another process reads.

use std::fs::File;
use std::io;

/// The original standard output, for this process only; what libraries write to standard output goes to standard
/// error from here on. To be called before any library is opened, and once.
///
/// Processes that this one starts do not inherit the file. The error is the operating system's: no descriptor is left.
pub fn take_output() -> io::Result<File> {
    crate::system::take_output()
}
