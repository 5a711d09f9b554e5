//! What differs between operating systems, for files, processes and signals. On Windows the commands that read and compute
//! work; what protects shared folders on Unix has no counterpart there and is left out.

#[cfg(not(unix))]
mod other;
#[cfg(unix)]
mod unix;

#[cfg(not(unix))]
pub(crate) use other::*;
#[cfg(unix)]
pub(crate) use unix::*;

/// Whose a file or folder is, and who may write it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub(crate) mode: u32,
    pub(crate) user: u32,
}

/// What came of an attempt to lock a file. Without Unix it is always impossible.
#[cfg_attr(not(unix), allow(dead_code))]
pub(crate) enum Locking {
    Locked,
    Busy,
    /// The file system has no locks.
    Impossible,
}
